"""The health of a host, for people and for the programs that take nodes out of work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.engine.decide.health import Fitness, HealthPoint, NodeHealth
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.quoting import quote
from hosttune.verdict_words import FITNESS, NAGIOS_FIT
from hosttune.views.document import Document, Item, Items, Say, Section, Steps, Table
from hosttune.views.findings import refer_back, todo_items
from hosttune.views.prometheus import render_metrics
from hosttune.views.record_gaps import gaps_text, missing_answer
from hosttune.views.summary import is_reach_short, reach_text
from hosttune.views.terminal import join_words
from hosttune.views.text import render_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hosttune.facts.baseline import Learned
    from hosttune.views.document import Block
    from hosttune.views.page import Page

SLURM_BYTES = 255  # of a reason: Slurm's accounting keeps it as tinytext
NAMED = 3  # rules that the last lines name
NPD_BYTES = 80  # of a message: max_output_length of node-problem-detector's custom plugins
_STYLES = {
    Fitness.FIT: "green",
    Fitness.UNKNOWN: "yellow",
    Fitness.IMPAIRED: "yellow",
    Fitness.UNFIT: "red",
}
# Within NPD_BYTES after `fit, `
_SHORT_REACH = "of AMD and Intel GPUs only driver, memory and resets are judged"
_NO_GPU = "no GPU was checked"
# One of them applies wherever a GPU of NVIDIA is this host's own; gpu-count also counts those of
# virtual machines.
_OF_GPUS = frozenset({"gpu-driver", "gpu-errors"})
_NOT_FIT = tuple(fitness for fitness in Fitness if fitness is not Fitness.FIT)
HEALTH_METRICS = {
    "hosttune_health": "1 for what this host is: fit, unknown, impaired or unfit.",
    "hosttune_health_points": "What keeps this host from being fit, counted by what it makes of "
    "it.",
    "hosttune_health_point": "1 for each thing that keeps this host from being fit.",
    "hosttune_health_timestamp_seconds": "When the health of this host was looked at, in seconds "
    "since 1970.",
}


def health_text(
    health: NodeHealth, page: Page, titles: Mapping[str, str], gpus: Mapping[str, tuple[str, str]]
) -> str:
    """The verdict in one line; below it `gpus` by slot, each with its name and who holds it for
    virtual machines, and with what is wrong with it; then each point with its cause and what to do,
    the worst first. With --verbose also the rules that found nothing, by their titles.
    """
    asked = "" if health.points else f" ({say_count(len(health.asked), 'check')})"
    words = FITNESS[health.fitness.value].sentence if health.points else _fit_words(health)
    verdict = f"{words}{asked}"
    host = clean(page.host)
    nothing = "no fault seen" if page.source else "nothing of its own"
    head: list[Block] = [Say(verdict, "decision", name=host, style=_STYLES[health.fitness])]
    head += [Say(reach)] if (reach := reach_text(health.asked)) else []
    head += (
        [Table(("GPU", "model", "verdict"), rows)]
        if (rows := tuple(_gpu_rows(health, gpus, nothing)))
        else []
    )
    sections = []
    said = (
        ()
        if page.is_whole
        else tuple(point for point in health.points if _is_said(point, health.points))
    )
    for fitness in reversed(Fitness):
        if own := [
            point for point in health.points if point.fitness is fitness and point not in said
        ]:
            title = FITNESS[fitness.value].heading
            sections.append(
                Section(
                    title,
                    _make_blocks(own, page),
                    _STYLES[fitness],
                    str(len({point.rule for point in own})),
                )
            )
    if said:
        rules = join_words(list(dict.fromkeys(clean(point.rule) for point in said)))
        again = Say(
            f"For a reason that is named above these could not be checked: {rules}", is_hanging=True
        )
        sections[-1] = replace(sections[-1], blocks=(*sections[-1].blocks, again))
    if page.is_verbose and (fine := health.fine):
        items = tuple(
            Item(clean(name), clean(titles.get(name, "")), look="strong") for name in fine
        )
        title = "Asked, and nothing against work"
        sections.append(Section(title, (Items(items, is_aligned=True),), "green", str(len(fine))))
    steps = _next_steps(health, page)
    blocks = (*sections, *([Steps("Next", steps)] if steps else []))
    document = Document(
        host, host, tuple(head), blocks, status=_why_status(health), faults=_list_worst(health)
    )
    return render_text(document, page.screen)


def _worst_rules(health: NodeHealth) -> list[str]:
    """The rules that decide the verdict; none of a host that is fit."""
    return list(
        dict.fromkeys(point.rule for point in health.points if point.fitness is health.fitness)
    )


def _why_status(health: NodeHealth) -> str:
    """`Exit status 1: NOT FIT by gpu-errors.`, or nothing."""
    rules = [clean(rule) for rule in _worst_rules(health) if rule]
    more = [f"{len(rules) - NAMED} more"] if len(rules) > NAMED else []
    words = FITNESS[health.fitness.value].verdict
    by = f" by {join_words([*rules[:NAMED], *more])}" if rules else ""
    return f"Exit status 1: {words}{by}." if health.points else ""


def _list_worst(health: NodeHealth) -> tuple[str, ...]:
    """`NOT FIT gpu-errors: 3 GPUs do not answer`, of each rule that makes the host so, for the end
    of a terminal.
    """
    if health.fitness in {Fitness.FIT, Fitness.UNKNOWN}:
        return ()
    word = FITNESS[health.fitness.value].verdict
    gathered = _gather_points([point for point in health.points if point.fitness is health.fitness])
    first = {one.rule: one for one in reversed(gathered)}
    return tuple(
        f"{word} {clean(one.rule)}: {clean(one.sentence)}"
        for one in list(reversed(first.values()))[:NAMED]
    )


def _next_steps(health: NodeHealth, page: Page) -> tuple[tuple[str, str], ...]:
    """What explains the rules that decide the verdict; where some could not be checked, also what
    sees more.
    """
    rules = [rule for rule in _worst_rules(health) if rule not in {"", "hosttune"}][:NAMED]
    steps = [
        (page.todo(f"hosttune explain {quote(rule)}"), "says why, and what to do") for rule in rules
    ]
    is_short = page.is_partial and any(point.fitness is Fitness.UNKNOWN for point in health.points)
    return (*([(page.act("health"), "sees more as root")] if is_short else []), *steps)


def _gpu_rows(
    health: NodeHealth, gpus: Mapping[str, tuple[str, str]], nothing: str
) -> Iterator[tuple[str, ...]]:
    """A row for each GPU. One without a point may still do no work: for what holds for the whole
    host, or because no program of this host can look at it (canonical/lxd issue 12128: vfio-pci
    kept it after its machine had ended).
    """
    for slot, (name, holder) in sorted(gpus.items()):
        own = [point for point in health.points if point.subject == slot]  # the worst first
        rules = dict.fromkeys(point.rule for point in own if point.fitness is own[0].fitness)
        verdict = (
            f"{FITNESS[own[0].fitness.value].verdict}: {join_words(list(rules))}"
            if own
            else nothing
        )
        if holder and not own:
            verdict = f"not checked: {holder} holds it for virtual machines"
        elif not health.points:
            verdict = FITNESS[health.fitness.value].verdict
        yield clean(slot), clean(name), clean(verdict)


def _is_said(point: HealthPoint, points: tuple[HealthPoint, ...]) -> bool:
    """It is only unknown, for a reason that a fault or a weakness of the same thing names
    already.
    """
    return point.fitness is Fitness.UNKNOWN and any(
        one.subject == point.subject and point.reason in one.reason
        for one in points
        if one.fitness is not Fitness.UNKNOWN
    )


def _make_blocks(points: list[HealthPoint], page: Page) -> tuple[Block, ...]:
    """The points as a list; those that a record has no answer for, in one sentence, unless all is
    listed.
    """
    missing = [one for one in points if _is_missing(one, page)]
    left = (
        points
        if page.is_whole or not missing
        else [one for one in points if not _is_missing(one, page)]
    )
    listed = refer_back(_make_item(one, page) for one in _gather_points(left))
    blocks: tuple[Block, ...] = (Items(listed, is_aligned=True),) if listed else ()
    rules = () if page.is_whole else [one.rule for one in missing]
    sentence = gaps_text([one.reason for one in missing], rules, page)
    return (*blocks, Say(sentence, is_hanging=True)) if sentence else blocks


def _gather_points(points: list[HealthPoint]) -> list[HealthPoint]:
    """Points of a rule that say the same of several things as one, whose subject names the
    things.
    """
    alike: dict[HealthPoint, list[str]] = {}
    for point in points:
        names_it = not point.subject or point.subject in point.reason
        alike.setdefault(point if names_it else replace(point, subject=""), []).append(
            point.subject
        )
    return [replace(one, subject=join_words(subjects)) for one, subjects in alike.items()]


def _is_missing(point: HealthPoint, page: Page) -> bool:
    return point.fitness is Fitness.UNKNOWN and bool(missing_answer(point.reason, page))


def learned_text(learned: Learned, health: NodeHealth, *, is_sibling: bool = False) -> str:
    """What was learned of a host, or of a sibling for this one, and what could not be seen of
    it.
    """
    held = (
        "this host is compared with it from now on"
        if is_sibling
        else "it is compared with this from now on"
    )
    lines = [f"{clean(learned.name)} is learned: {held} (rule host-baseline)"]
    lines += [f"  {clean(part.name)}: {part.amount:g}" for part in learned.parts]
    lines += [] if is_sibling else [f"  counters of errors: {len(learned.counters)}"]
    lines += [f"not seen: {clean(point.rule)}: {clean(point.sentence)}" for point in health.points]
    return "\n".join(lines) + "\n"


def _make_item(point: HealthPoint, page: Page) -> Item:
    todo = todo_items(page.steps(point.todo))
    return Item(clean(point.rule) or "hosttune", clean(point.sentence), todo, look="strong")


def health_json(health: NodeHealth, host: str, created_at: str) -> dict[str, Any]:
    """By schemas/health.json."""
    return {
        "format_version": FORMAT_VERSION,
        "host": host,
        "created_at": created_at,
        "fitness": str(health.fitness),
        "note": _describe_reach(health),
        "points": [
            {
                "fitness": str(point.fitness),
                "rule": point.rule,
                "subject": point.subject,
                "reason": point.reason,
                "todo": point.todo,
            }
            for point in health.points
        ],
        "asked": list(health.asked),
    }


def health_prometheus(health: NodeHealth, seconds: int) -> str:
    """Metrics for the textfile collector of node_exporter; `seconds` since 1970."""
    numbers = Counter(point.fitness for point in health.points)
    rows: list[tuple[str, Mapping[str, str], int]] = [
        ("hosttune_health", {"fitness": str(fitness)}, int(fitness is health.fitness))
        for fitness in Fitness
    ]
    rows += [("hosttune_health_points", {"fitness": str(one)}, numbers[one]) for one in _NOT_FIT]
    things = dict.fromkeys(
        (point.rule, point.subject, str(point.fitness)) for point in health.points
    )
    for rule, subject, word in things:
        labels = {"rule": clean(rule), "subject": clean(subject), "fitness": word}
        rows.append(("hosttune_health_point", labels, 1))
    rows.append(("hosttune_health_timestamp_seconds", {}, seconds))
    return render_metrics(HEALTH_METRICS, rows)


def slurm_line(health: NodeHealth) -> str:
    """The reason for `scontrol update ... Reason=`, in its length; empty where the node is to
    stay.
    """
    return (
        _cut_to_bytes(f"hosttune: {_describe_worst(health)}", SLURM_BYTES) + "\n"
        if health.fitness is Fitness.UNFIT
        else ""
    )


def nhc_line(health: NodeHealth) -> str:
    """The line of LBNL's Node Health Check for a check that failed; empty where none did."""
    failed = health.fitness is Fitness.UNFIT
    return (
        f"ERROR:  nhc:  Health check failed:  hosttune:  {_describe_worst(health)}\n"
        if failed
        else ""
    )


def npd_line(health: NodeHealth) -> str:
    """The message of a custom plugin of node-problem-detector: its first line, in its length. The
    same findings give the same text, because it compares them.
    """
    fit = ", ".join(filter(None, ("fit", _describe_reach(health))))
    return _cut_to_bytes(_describe_worst(health) if health.points else fit, NPD_BYTES) + "\n"


def nagios_text(health: NodeHealth) -> str:
    """A line with performance data, the points below it (Monitoring Plugins' development
    guidelines).
    """
    word = {
        Fitness.FIT: "OK",
        Fitness.UNKNOWN: "UNKNOWN",
        Fitness.IMPAIRED: "WARNING",
        Fitness.UNFIT: "CRITICAL",
    }
    numbers = Counter(point.fitness for point in health.points)
    data = " ".join(f"{fitness}={numbers[fitness]};;;0" for fitness in _NOT_FIT)
    sentence = _describe_worst(health) if health.points else _fit_words(health, NAGIOS_FIT)
    lines = [f"HOSTTUNE {word[health.fitness]} - {sentence} | {data}"]
    lines += [f"{point.fitness}: {_make_plain(point)}" for point in health.points[1:]]
    return "\n".join(lines) + "\n"


def _fit_words(health: NodeHealth, fit: str = FITNESS["fit"].verdict) -> str:
    """What `fit` means here, which no reader may take for all."""
    return "; ".join(filter(None, (fit, _describe_reach(health))))


def _describe_reach(health: NodeHealth) -> str:
    """What of the GPUs is not judged: of others than NVIDIA most, of a host without any all."""
    if is_reach_short(health.asked):
        return _SHORT_REACH
    return "" if _OF_GPUS.intersection(health.asked) or not health.asked else _NO_GPU


def _describe_worst(health: NodeHealth) -> str:
    """The worst point, and how many there are besides."""
    more = len(health.points) - 1
    return f"{_make_plain(health.points[0])}{f' (and {more} more)' if more else ''}"


def _make_plain(point: HealthPoint) -> str:
    """A point on one line, without what these formats give a meaning."""
    return (
        clean(f"{point.rule or 'hosttune'}: {point.sentence}").replace("|", "/").replace('"', "'")
    )


def _cut_to_bytes(text: str, most: int) -> str:
    """At most so many bytes, the end of what is cut off shown by dots."""
    encoded = text.encode("ascii", "replace")
    return (encoded if len(encoded) <= most else encoded[: most - 3].rstrip() + b"...").decode()


_ONE_LINE: dict[str, Callable[[NodeHealth], str]] = {
    "slurm": slurm_line, "nhc": nhc_line, "npd": npd_line, "nagios": nagios_text,
}  # fmt: skip
# What each consumer takes a number for; the others: 0 fit, 1 not so.
_STATUS = {
    "slurm": {Fitness.UNFIT: 1, Fitness.UNKNOWN: 3},
    "nhc": {Fitness.UNFIT: 1},
    "npd": {Fitness.UNFIT: 1, Fitness.UNKNOWN: 2},
    "nagios": {Fitness.IMPAIRED: 1, Fitness.UNFIT: 2, Fitness.UNKNOWN: 3},
}


def no_health(why: str) -> NodeHealth:
    """Of a host that could not be looked at."""
    return NodeHealth(Fitness.UNKNOWN, (HealthPoint(Fitness.UNKNOWN, "hosttune", "", why),), ())


def health_line(health: NodeHealth, form: str) -> str:
    """In the words of another program: slurm, nhc, npd or nagios."""
    return _ONE_LINE[form](health)


def health_status(health: NodeHealth, form: str) -> int:
    """The exit status in this format."""
    numbers = _STATUS.get(form)
    return (
        int(health.fitness is not Fitness.FIT)
        if numbers is None
        else numbers.get(health.fitness, 0)
    )
