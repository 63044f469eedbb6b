"""The NVIDIA driver in one table: per GPU what is installed, loaded, offered, recommended and
chosen, and why they differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices import driver as driver_choice
from hosttune.choices import driver_state
from hosttune.choices.driver_states.mixed import libraries_beside_installer
from hosttune.choices.drivers.branch import drives_gpu, end_words
from hosttune.choices.drivers.branch_offers import offers_within
from hosttune.choices.drivers.choice import CHANGES
from hosttune.codec import FORMAT_VERSION
from hosttune.facts.base import UnknownFact, get_raw, known_items, read_or_default
from hosttune.facts.gpu.gpus import is_vfio
from hosttune.facts.gpu.nvidia_tables import GENERATIONS
from hosttune.facts.inventory import UNKNOWN_DRIVER
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.quoting import join
from hosttune.views.record_gaps import gaps_text, missing_answer
from hosttune.views.terminal import align_columns, wrap_step, wrap_text
from hosttune.views.text import ONE_SCREEN, cut_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hosttune.choices.driver import DriverChoice
    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.views.page import Page

MOST_AT_END = 2  # lines of the verdict that stands at the end again


@frozen
class DriverRow:
    """One kind of GPU: as many as are equal in name and in what holds them. Words are ready to be
    shown.
    """

    title: str  # 8 x GH100 [H100 SXM5 80GB]
    generation: str
    slots: tuple[str, ...]
    installed: str
    loaded: str
    available: str
    recommended: str
    chosen: str


@frozen
class StateRow:
    """A state of the driver, or what of it is not known."""

    name: str
    is_fault: bool | None  # None if that is not known
    evidence: str
    way_out: str
    is_dead: bool = False  # not every GPU computes now, or will after the next boot


@frozen
class DriverTable:
    """The rows, why hosttune chooses so, and the states that hold, the one to solve first
    leading.
    """

    rows: tuple[DriverRow, ...]
    # of the choice: keep, install, update, switch, none, refuse; empty where it is not known
    action: str
    packages: tuple[str, ...]
    clauses: tuple[str, ...]  # why, in clauses
    way_out: str  # of a refusal: what a person does about it
    states: tuple[StateRow, ...]
    unknown: tuple[str, ...]


class _Teller:
    """Asks for facts, and keeps why one is not known."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def ask(self, look: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return look()
        except UnknownFact as unknown:
            self.unknown.append(unknown.reason)
            return otherwise


def driver_table(facts: Facts, params: Mapping[str, Any]) -> DriverTable:
    """Join the facts about GPUs, driver and offer with the choice that gpu-driver makes with these
    parameters.
    """
    teller = _Teller()
    devices: tuple[Gpu, ...] = teller.ask(lambda: facts.gpus.devices, ())
    teller.ask(lambda: tuple(devices), ())  # the reason why there may be more
    if not devices:
        none = _state_without_gpu(facts, teller)
        unknown = tuple(dict.fromkeys(teller.unknown))
        return DriverTable(
            (), "none", (), (), "", () if unknown and not none.is_fault else (none,), unknown
        )
    choice: DriverChoice | None = teller.ask(lambda: driver_choice.choose(facts, params), None)
    groups: dict[tuple[str, str], list[Gpu]] = {}
    for gpu in known_items(devices):
        groups.setdefault((gpu.name or gpu.device_id, str(get_raw(gpu, "driver"))), []).append(gpu)
    rows = tuple(_make_row(group, facts, choice, teller) for group in groups.values())
    return DriverTable(
        rows,
        choice.action if choice else "",
        choice.packages if choice else (),
        choice.clauses if choice else (),
        choice.way_out if choice else "",
        _make_states(facts, params, teller),
        tuple(dict.fromkeys(teller.unknown)),
    )


def _make_row(
    gpus: list[Gpu], facts: Facts, choice: DriverChoice | None, teller: _Teller
) -> DriverRow:
    gpu = gpus[0]
    return DriverRow(
        title=f"{len(gpus)} x {_make_title(gpu, facts)}",
        generation=gpu.generation,
        slots=tuple(one.slot for one in gpus),
        installed=teller.ask(lambda: _describe_installed(facts), "not known"),
        loaded=teller.ask(lambda: _describe_loaded(gpu, facts), "not known"),
        available=teller.ask(lambda: _describe_available(gpu, facts), "not known"),
        recommended=teller.ask(lambda: _describe_recommended(gpu, facts), "not known"),
        chosen=_describe_choice(choice),
    )


def _make_title(gpu: Gpu, facts: Facts) -> str:
    """Its name, also one that ubuntu-drivers alone knows; else its device id."""
    if gpu.name:
        return gpu.title
    known = read_or_default(lambda: facts.candidates.models.get(gpu.device_id, ""), "")
    return known or f"NVIDIA device {gpu.device_id}"


def _describe_installed(facts: Facts) -> str:
    driver = facts.driver
    if not driver.is_installed:
        return "nothing"
    name = driver.name or (
        "by no known package" if driver.is_foreign else "by NVIDIA's own installer"
    )
    is_apts = bool(libraries_beside_installer(facts))
    version = driver.loaded_version if is_apts else driver.userspace_version
    name = f"{name}, {version}" if version else name
    if not driver.branch or facts.gpus.is_vgpu:  # a vGPU's driver is of a release of its own
        return name
    return f"{name} ({end_words(facts, int(driver.branch))})"


def _describe_loaded(gpu: Gpu, facts: Facts) -> str:
    if gpu.driver != "nvidia":
        whose = (
            " for virtual machines: what manages those gives it back" if is_vfio(gpu.driver) else ""
        )
        return f"{gpu.driver} holds it{whose}" if gpu.driver else "nothing"
    if not facts.driver.is_loaded:
        return f"nvidia holds it, {UNKNOWN_DRIVER}"
    kind = "open" if facts.driver.is_open else "closed"
    return f"{facts.driver.loaded_version}, {kind} module"


def _describe_available(gpu: Gpu, facts: Facts) -> str:
    """The branches that are offered and drive this GPU, and the newest version of the one that is
    installed.
    """
    if gpu.is_vgpu:
        return "none: only the GRID driver of its hypervisor drives a vGPU"
    if _is_of_another(facts):
        return "nothing that could be installed here"
    if facts.candidates.problem:
        return f"not known: {facts.candidates.problem}"
    offered = facts.candidates.packages
    branches = sorted(
        {one.branch for one in offered if drives_gpu(facts, one.branch, gpu, one.name) is not False}
    )
    words = ", ".join(f"{number} ({end_words(facts, number)})" for number in branches)
    words = f"branches {words}" if words else "no branch that drives it"
    newer = [
        one
        for one in offers_within(facts)
        if one.name.startswith(("nvidia-utils", "libnvidia-compute"))
    ]
    return f"{newer[0].candidate} of the installed branch; {words}" if newer else words


def _describe_recommended(gpu: Gpu, facts: Facts) -> str:
    if _is_of_another(facts):
        return "nothing"
    if facts.candidates.problem:
        return "nothing is known"
    names = [
        one.name.removeprefix("nvidia-driver-")
        for one in facts.candidates.packages
        if one.is_recommended
    ]
    why = "which takes it for a whole card" if gpu.is_vgpu else "for the whole machine"
    return f"{', '.join(names)} (by ubuntu-drivers, {why})" if names else "nothing"


def _state_without_gpu(facts: Facts, teller: _Teller) -> StateRow:
    """Without a GPU NVIDIA's module cannot be loaded (beside NVSwitches it can), so one that is
    loaded had a GPU.
    """
    if teller.ask(lambda: facts.host.is_wsl, False):
        return _state_of_wsl(facts, teller)
    others = teller.ask(lambda: facts.other_gpus.summary, "")
    loaded = "" if _is_of_another(facts) else teller.ask(lambda: facts.driver.loaded_version, "")
    if loaded and not teller.ask(lambda: facts.gpus.nvswitches, 1):
        evidence = (
            f"no NVIDIA GPU is on the PCI bus, and the NVIDIA driver {loaded} is loaded, which "
            "needs one to load"
        )
        way_out = "see what health says of the GPUs: hosttune health"
        return StateRow("GPU gone", is_fault=True, evidence=evidence, way_out=way_out, is_dead=True)
    beside = f", but {others}: their drivers are not hosttune's" if others else ""
    name = "no NVIDIA GPU" if others else "no GPU"
    return StateRow(
        name, is_fault=False, evidence=f"no NVIDIA GPU is on the PCI bus{beside}", way_out=""
    )


def _state_of_wsl(facts: Facts, teller: _Teller) -> StateRow:
    """Windows puts its driver's programs and libraries into /usr/lib/wsl/lib, and those of a driver
    for Linux go before them (NVIDIA's CUDA on WSL guide; microsoft/WSL issue 9166)."""
    names = [one.name for one in teller.ask(lambda: facts.driver.packages, ())]
    if not names:
        return StateRow(
            "WSL", is_fault=False, evidence="under WSL the driver is the one of Windows", way_out=""
        )
    listed = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
    evidence = (
        f"packages of a driver for Linux are installed ({listed}), and under WSL the driver is the "
        "one of Windows: nvidia-smi and CUDA can take theirs, which find no GPU"
    )
    return StateRow(
        "WSL", is_fault=True, evidence=evidence, way_out=f"sudo apt-get purge {join(names)}"
    )


def _is_of_another(facts: Facts) -> bool:
    """The driver is that of the system around this one, so that no package of this one counts."""
    return read_or_default(lambda: facts.host.is_container or facts.host.is_wsl, otherwise=False)


def _describe_choice(choice: DriverChoice | None) -> str:
    if choice is None:
        return "not known"
    done = {
        "keep": "as it is",
        "install": "to install",
        "update": "to update",
        "switch": "to switch to",
    }
    if choice.action in done:
        return f"{choice.name}, {done[choice.action]}" if choice.name else "what is there, as it is"
    return "nothing" if choice.action == "none" else "nothing: blocked"


def _make_states(facts: Facts, params: Mapping[str, Any], teller: _Teller) -> tuple[StateRow, ...]:
    found = teller.ask(lambda: driver_state.choose(facts, params).states, ())
    rows = []
    for one in found:
        try:
            rows.append(StateRow(one.name, one.is_fault, one.evidence, one.way_out, one.is_dead))
        except UnknownFact:
            rows.append(StateRow(one.name, None, one.evidence, one.way_out))
    return tuple(rows)


def driver_json(table: DriverTable, page: Page) -> dict[str, Any]:
    """The same as the text, with its ways out and commands as they have to be typed here."""
    names = (
        "title",
        "generation",
        "slots",
        "installed",
        "loaded",
        "available",
        "recommended",
        "chosen",
    )
    return {
        "format_version": FORMAT_VERSION,
        "gpus": [{name: _make_plain(getattr(row, name)) for name in names} for row in table.rows],
        "action": table.action,
        "packages": list(table.packages),
        "reason": "; ".join(table.clauses),
        "way_out": "\n".join(page.steps(table.way_out)),
        "do": [step for text in _first_ways(table, page) for step in page.steps(text)],
        "states": [
            {
                "name": one.name,
                "is_fault": one.is_fault,
                "is_dead": one.is_dead,
                "evidence": one.evidence,
                "way_out": "\n".join(page.steps(one.way_out)),
            }
            for one in table.states
        ],
        "unknown": list(table.unknown),
    }


def _make_plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def why_driver_status(table: DriverTable) -> str:
    """Why `driver` ends with 1, as in `1 fault, a driver to install`; nothing where it ends with
    0.
    """
    faults = sum(state.is_dead for state in table.states)
    others = sum(state.is_fault is True and not state.is_dead for state in table.states)
    unknown = len(table.unknown) + sum(state.is_fault is None for state in table.states)
    choice = {
        "refuse": "what is to be installed is blocked",
        "": "what is to be installed is not known",
    }
    done = {action: f"a driver to {action}" for action in ("install", "update", "switch")}
    causes = (
        say_count(faults, "fault") if faults else "",
        f"{say_count(others, 'state')} to solve" if others else "",
        {**choice, **done}.get(table.action, ""),
        f"{unknown} not known" if unknown else "",
    )
    return ", ".join(filter(None, causes))


def driver_text(table: DriverTable, page: Page, obstacles: Sequence[str] = ()) -> str:
    """The verdict and what to type first, then the other states, the GPUs, and why this driver;
    `obstacles` are to be solved before a reboot. What is longer than a screen says the verdict and
    the first steps again at its end.
    """
    status = why_driver_status(table)
    gaps = gaps_text([*table.unknown, *(state.evidence for state in table.states)], (), page)
    if gaps and not page.is_whole:
        table = _without_gaps(table, page)
    leading = table.states[0] if table.states else None
    lines = _render_verdict(table, leading, page)
    for state in table.states[1:]:
        lines += [
            "",
            *_wrap_paragraph(_make_sentence(state), page, "yellow"),
            *_way_out(state.way_out, page),
        ]
    for row in table.rows:
        lines += ["", *_row_lines(row, page)]
    above = _join_above(table)
    if why := [clause for clause in table.clauses if clause not in above]:
        lines += ["", *_wrap_paragraph(f"Why: {'; '.join(why)}", page)]
    if table.way_out.removeprefix("first: ") not in above and not _is_shown(table, page):
        lines += [*([] if why else [""]), *_way_out(table.way_out, page)]
    if unknown := [text for text in table.unknown if text not in above]:
        lines += [
            "",
            *(line for text in unknown for line in _wrap_paragraph(f"not known: {text}", page)),
        ]
    if gaps:
        lines += ["", *_wrap_paragraph(gaps, page)]
    for one in obstacles:
        lines += ["", *_wrap_paragraph(f"No reboot before this is solved: {one}", page)]
    end = _wrap_paragraph(f"Exit status 1: {status}.", page, "dim") if status else []
    if len(lines) + len(end) >= ONE_SCREEN:
        end = [*_render_verdict(table, leading, page, MOST_AT_END), *end]
    return "\n".join([*lines, *([""] if end else []), *end]).rstrip("\n") + "\n"


def _without_gaps(table: DriverTable, page: Page) -> DriverTable:
    """The table without the reasons that a record lacks an answer."""
    states = (
        replace(one, evidence="") if missing_answer(one.evidence, page) else one
        for one in table.states
    )
    unknown = (reason for reason in table.unknown if not missing_answer(reason, page))
    return replace(table, states=tuple(states), unknown=tuple(unknown))


def _join_above(table: DriverTable) -> str:
    """What states and rows say, which "Why" does not say again."""
    texts = [text for state in table.states for text in (state.evidence, state.way_out)]
    texts += [text for row in table.rows for text in (row.installed, row.available)]
    return "\n".join([*texts, table.way_out if _is_refused_install(table) else ""])


def _is_shown(table: DriverTable, page: Page) -> bool:
    """Whether each step of the way out is one of a state's, which may say more behind it."""
    shown = [step for state in table.states for step in page.steps(state.way_out)]
    return all(
        any(one.startswith(step) for one in shown)
        for step in page.steps(table.way_out.removeprefix("first: "))
    )


def _render_verdict(
    table: DriverTable, leading: StateRow | None, page: Page, most: int = 0
) -> list[str]:
    """What is so, and what to type: the change that gpu-driver would make, or what the state asks
    for. `most`: of the sentence no more than so many lines; 0: all.
    """
    if leading is None:
        lines = _wrap_paragraph("What state the driver is in is not known", page, "yellow")
    else:
        style = "red" if leading.is_dead else "green" if leading.is_fault is False else "yellow"
        sentence = clean(_make_sentence(leading))
        lines = _wrap_paragraph(
            cut_lines(sentence, page.screen.columns, most) if most else sentence, page, style
        )
    return [*lines, *(line for text in _first_ways(table, page) for line in _way_out(text, page))]


def _first_ways(table: DriverTable, page: Page) -> list[str]:
    """What to type about the state that leads."""
    if table.action in CHANGES:
        ways = [f"{page.look_as_root('plan --only gpu-driver')} shows what apply would do"]
        return [
            *ways,
            *([f"{page.act('apply --yes --only gpu-driver')} does it"] if page.can_apply else []),
        ]
    if _is_refused_install(table):
        return [table.way_out]
    return [table.states[0].way_out] if table.states and table.states[0].way_out else []


def _is_refused_install(table: DriverTable) -> bool:
    """No driver is there and none can be installed: the refusal says what to do about that."""
    return table.action == "refuse" and any(state.name == "absent" for state in table.states)


def _make_sentence(state: StateRow) -> str:
    """`FAULT, mismatch: the loaded module is ...`."""
    says = f"{state.name}: {state.evidence}" if state.evidence else state.name
    return f"FAULT, {says}" if state.is_dead else says


def _say_generation(row: DriverRow) -> str:
    return f"{row.generation} or older" if row.generation == GENERATIONS[0] else row.generation


def _row_lines(row: DriverRow, page: Page) -> list[str]:
    screen = page.screen
    lines = [
        screen.paint(line, "bold")
        for line in wrap_text(f"{clean(row.title)} ({_say_generation(row)})", screen.columns)
    ]
    if page.is_verbose:
        lines += wrap_text(" ".join(map(clean, row.slots)), screen.columns, first="  ", rest="  ")
    names = ("installed", "loaded", "available", "recommended", "chosen")
    cells: list[tuple[str, ...]] = [(name, clean(getattr(row, name))) for name in names]
    return [*lines, *align_columns(cells, screen, indent=2)]


def _wrap_paragraph(text: str, page: Page, *styles: str) -> list[str]:
    lines = wrap_text(clean(text), page.screen.columns, rest="  ")
    return [page.screen.paint(line, *styles) for line in lines] if styles else lines


def _way_out(text: str, page: Page) -> list[str]:
    """The steps as `check` has them: numbered where there are several."""
    steps = page.steps(text)
    marks = [f"{at}." for at in range(1, len(steps) + 1)] if len(steps) > 1 else ["->"]
    return [
        line
        for mark, step in zip(marks, steps, strict=False)
        for line in wrap_step(step, page.screen.columns, first=f"  {mark} ", rest="     ")
    ]
