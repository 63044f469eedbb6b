"""Units of systemd that rules ask for by name: do they start at boot, do they run.

Where systemd runs, `systemctl show` answers for all names at once (systemctl(1),
org.freedesktop.systemd1(5)). In an image, or on a machine without systemd, the unit files do, as
unit_files.py reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.reading import ask, is_there
from hosttune.facts.services.unit_files import UnitFiles, enabled_names, mask_of
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.values import is_unrecorded

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Answer

_PROPERTIES = (
    "Id", "Names", "LoadState", "ActiveState", "UnitFileState", "UnitFilePreset", "FragmentPath",
    "DropInPaths", "NeedDaemonReload",
)  # fmt: skip
FAILED = (
    "systemctl",
    "list-units",
    "--state=failed",
    "--all",
    "--plain",
    "--no-legend",
    "--no-pager",
    "--full",
)
_LAST_WORDS = 40  # lines of one unit in this boot
# a manager that reloads, or starts a machine with thousands of units, takes seconds to answer
_TIMEOUT_S = 20.0

# Units of hosttune's own: they hold work while a host is brought to its plan, or a trial is not
# over.
GATE, CONTINUE = "hosttune-ready.service", "hosttune-continue.service"


@frozen
class Unit(Fact):
    """One unit, in systemd's words. A masked unit exists; a unit without a file (a live mount) is
    `not-found` in `enabled_state`.
    """

    name: str  # as it was asked for
    exists: bool  # masked ones do
    load_state: str  # loaded, not-found, masked, bad-setting ...
    active_state: str  # active, inactive, failed, activating ...
    # enabled, disabled, static, masked, alias, indirect, generated ...; not-found
    enabled_state: str
    preset: str  # enabled | disabled | unknown: what the distribution wants (systemd.preset(5))
    fragment: str  # path of the unit file, of a masked unit that of the mask; or empty
    drop_ins: tuple[str, ...]  # paths of *.conf that change it
    needs_reload: bool  # the files changed after systemd read them

    @property
    def is_active(self) -> bool:
        """Whether it runs, or is in the middle of a reload."""
        return self.active_state in {"active", "reloading", "refreshing"}

    @property
    def is_enabled(self) -> bool:
        """Whether someone enabled it for good (not static, not only until the next boot)."""
        return self.enabled_state == "enabled"


@frozen
class Units(Subject):
    """`units["fstrim.timer"]`, for the names that were asked for, and which of all units start at
    boot.
    """

    @fact
    def entries(self) -> Mapping[str, Unit]:
        return read_units(self.reader, self.facts.asked.units)

    # by an administrator or a package for good, as the links below /etc/systemd/system say
    enabled: frozenset[str] = read_with(lambda self: enabled_names(self.reader))

    def __getitem__(self, name: str) -> Unit:
        entries = self.entries
        if name not in entries:
            raise UnknownFact(f"systemd was not asked for {name}")
        return entries[name]


def show_command(names: Iterable[str], properties: Iterable[str] = _PROPERTIES) -> tuple[str, ...]:
    """The one program call that answers for all `names`."""
    shown = f"--property={','.join(properties)}"
    return ("systemctl", "show", "--no-pager", shown, "--", *sorted(set(names)))


def parse_show(output: str, names: Iterable[str]) -> Mapping[str, Unit]:
    """What `systemctl show` printed: KEY=VALUE lines, an empty line between units, every unit under
    all its names.
    """
    units: dict[str, Unit] = {}
    wanted = frozenset(names)
    for paragraph in output.split("\n\n"):
        values = dict(row.partition("=")[::2] for row in paragraph.splitlines() if "=" in row)
        for name in wanted & {values.get("Id", ""), *values.get("Names", "").split()}:
            units[name] = _make_unit(name, values)
    return units


def _make_unit(name: str, values: Mapping[str, str]) -> Unit:
    load = values.get("LoadState", "")
    preset = values.get("UnitFilePreset", "")
    return Unit(
        name=name,
        exists=load != "not-found",
        load_state=load,
        active_state=values.get("ActiveState", ""),
        enabled_state=values.get("UnitFileState") or "not-found",
        preset=preset if preset in {"enabled", "disabled"} else "unknown",
        fragment=values.get("FragmentPath", ""),
        drop_ins=tuple(values.get("DropInPaths", "").split()),
        needs_reload=values.get("NeedDaemonReload") == "yes",
    )


def read_units(reader: Reader, names: Iterable[str]) -> Mapping[str, Unit]:
    """The units of these names, now. Raises UnknownFact when systemd runs and does not answer."""
    wanted = tuple(sorted(set(names)))
    if not wanted:
        return MappingProxyType({})
    if reader.persistent_only or not is_there(reader, "/run/systemd/system"):  # sd_booted(3)
        files = UnitFiles(reader)
        return MappingProxyType({name: _from_files(files, name) for name in wanted})
    answer = ask(reader, show_command(wanted), timeout_s=_TIMEOUT_S)
    shown = parse_show(answer.text, wanted)
    if not shown:
        lines = answer.errors.strip().splitlines() or ["it printed nothing"]
        raise UnknownFact(f"systemctl show failed: {lines[0]}")
    return MappingProxyType({name: _with_mask(reader, unit) for name, unit in shown.items()})


def _with_mask(reader: Reader, unit: Unit) -> Unit:
    """Systemd does not tell by which file a unit is masked."""
    if unit.load_state != "masked":
        return unit
    found = attempt(mask_of, reader, unit.name)
    return replace(unit, fragment=found) if isinstance(found, str) and found else unit


def _from_files(files: UnitFiles, name: str) -> Unit:
    real, fragment, state = files.state(name)
    load = (
        "not-found"
        if state == "not-found"
        else "masked"
        if state.startswith("masked")
        else "loaded"
    )
    return Unit(
        name=name,
        exists=load != "not-found",
        load_state=load,
        active_state="inactive",
        enabled_state=state,
        preset=files.preset(real) if load == "loaded" else "unknown",
        fragment=fragment,
        drop_ins=files.drop_ins(real) if load == "loaded" else (),
        needs_reload=False,
    )


def failed_units(reader: Reader, *, are_loaded: bool = False) -> tuple[str, ...]:
    """The units that systemd holds to have failed, in its order; `are_loaded`: without those whose
    file is gone. Raises UnknownFact where it does not answer.
    """
    answer = ask(reader, FAILED, timeout_s=_TIMEOUT_S)
    if answer.status != 0:
        lines = answer.errors.strip().splitlines() or [f"exit status {answer.status}"]
        raise UnknownFact(f"systemctl list-units failed: {lines[0]}")
    rows = (row.split() for row in answer.text.splitlines() if row.strip())
    return tuple(row[0] for row in rows if not are_loaded or row[1:2] == ["loaded"])


FAILURE = (
    "Id",
    "Result",
    "BusName",
    "WantedBy",
    "RequiredBy",
    "TriggeredBy",
    "User",
    "DynamicUser",
)
_OLD_FAILURE = FAILURE[:6]  # as records of older releases hold it


def read_failures(reader: Reader, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """The properties FAILURE of each unit (org.freedesktop.systemd1(5)); nothing if systemd does
    not answer.
    """

    def ask_for(properties: Iterable[str]) -> Answer[Completed]:
        return reader.query(
            ("systemctl", "show", "--no-pager", f"--property={','.join(properties)}", "--", *names)
        )

    answer = ask_for(FAILURE)
    # A record holds the answers to the questions of its release, and another question would find
    # none.
    answer = ask_for(_OLD_FAILURE) if is_unrecorded(answer) else answer
    units = answer.text.split("\n\n") if isinstance(answer, Completed) else []
    rows = [dict(row.partition("=")[::2] for row in one.splitlines()) for one in units]
    return {row["Id"]: row for row in rows if "Id" in row}


def read_last_words(reader: Reader, name: str) -> tuple[str, ...]:
    """What systemd and a unit's own processes logged of it in this boot, the newest last; nothing
    where that cannot be read. What others write about it is left out by journalctl(1) (--unit=,
    systemd.journal-fields(7)).
    """
    command = (
        "journalctl",
        "-b",
        "--no-pager",
        "--quiet",
        "-o",
        "cat",
        f"--lines={_LAST_WORDS}",
        f"--unit={name}",
    )
    answer = reader.query(command)
    return tuple(answer.text.splitlines()) if isinstance(answer, Completed) else ()
