"""What benches found on this host, quoted where a rule is shown: "measured here 2 days ago: ..."."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.cleaned import clean
from hosttune.views.document import Item, Items, Section
from hosttune.views.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hosttune.measure.bench.results import BenchResult
    from hosttune.values import Change

# The rule that a kind of bench speaks for. A rule about mounts is quoted for its own mount alone.
RULES = {"atime": "storage-noatime", "tmp": "storage-tmp-tmpfs", "read": "framework-input-pipeline"}
OF_MOUNTS = frozenset({"storage-noatime"})


@frozen
class Quote:
    """One result for one rule. `subject` is the mount point that it holds for; empty where that does not matter."""

    rule: str
    subject: str
    text: str


def quote_results(
    results: Iterable[BenchResult], kernel: str, uuids: Mapping[str, str], now: float
) -> tuple[Quote, ...]:
    """The results that hold for this host as it is: measured with this kernel, on the file systems that are there now.

    `uuids` maps mount points to what is mounted there. What came out inconclusive is no measurement.
    """
    from hosttune.views.measure.bench import gist

    found = []
    for result in results:
        is_here = uuids.get(result.target) == result.uuid and result.kernel == kernel
        if is_here and result.kind in RULES and result.is_answer:
            rule = RULES[result.kind]
            said = f"measured here{_ago(result.measured_at, now)}: {gist(result)} (bench {result.kind} {result.path})"
            found.append(Quote(rule, result.target if rule in OF_MOUNTS else "", clean(said)))
    return tuple(found)


def _ago(measured_at: str, now: float) -> str:
    """` 2 days ago`; nothing where the clock makes no sense of it."""
    try:
        moment = datetime.fromisoformat(measured_at)
    except ValueError:
        return ""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    seconds = now - moment.timestamp()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f" {counted(int(seconds // length), unit)} ago"
    return " just now" if seconds >= 0 else ""


def of_rule(found: Sequence[Quote], rule: str, changes: Sequence[Change] | None = None) -> tuple[str, ...]:
    """What was measured for a rule; with `changes`, only for the mount points that they touch."""
    names = None if changes is None else {change.address.name for change in changes}
    return tuple(
        one.text for one in found if one.rule == rule and (not one.subject or names is None or one.subject in names)
    )


def measured_section(found: Sequence[Quote]) -> list[Section]:
    """A section of its own, for a report."""
    items = tuple(Item(one.rule, one.text, look="strong") for one in found)
    return [Section("Measured", (Items(items, is_aligned=True),), "cyan", str(len(found)))] if found else []
