"""The words of a report on many hosts, the same in every format: escaped and masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.engine.fleet.seen import FAULT, LONGEST, NOT_APPLICABLE, OK, OUTCOMES, WAIVED
from hosttune.engine.fleet.seen import FINE as AS_WANTED
from hosttune.engine.fleet.values import FSTAB, MOUNT, NO_LINE, NOT_MOUNTED
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import parse_digits, say_count
from hosttune.verdict_words import STATES
from hosttune.views.document import Item
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from hosttune.engine.fleet.values import Fleet, HostNames, RuleRow, Valued, ValueTally
    from hosttune.views.page import Page

MOST_VALUES = 5  # values of one rule or setting in a text
FINE = frozenset({OK, NOT_APPLICABLE})
QUIET = FINE | {WAIVED}


def format_count(count: int) -> str:
    """`12,345`."""
    return f"{count:,}"


def hosts_word(count: int) -> str:
    return f"{format_count(count)} host{'' if count == 1 else 's'}"


def make_headline(fleet: Fleet) -> str:
    """How the fleet is, in one sentence or two."""
    parts = [f"{format_count(one.hosts.count)} {_name_state(one.value)}" for one in fleet.states]
    text = (
        f"{hosts_word(fleet.hosts)}: {', '.join(parts)}."
        if parts
        else "No host could be looked at."
    )
    lost = list_lost(fleet)
    return f"{text} {join_words(lost).capitalize()}." if lost else text


def list_lost(fleet: Fleet) -> list[str]:
    """What the report does not know, a clause each: hosts without an answer, files that could not
    be read.
    """
    lost = [f"{hosts_word(fleet.missing_count)} gave no answer"] if fleet.missing_count else []
    return lost + (
        [f"{say_count(fleet.unread_count, 'file')} could not be read"] if fleet.unread_count else []
    )


def _name_state(state: str) -> str:
    # What no rule finds may still have lost memory that the siblings have: "ok" would be too much.
    words = {"ok": "without findings", "unknown": "could only be checked in part"}
    return words.get(state) or STATES[state].phrase


def describe_span(fleet: Fleet) -> str:
    """When and by what the hosts were looked at."""
    if not fleet.hosts:
        return ""
    first, last = (
        at.replace("T", " ").removesuffix("+00:00")[:16] for at in (fleet.first_at, fleet.last_at)
    )
    when = first if first == last else f"{first} to {last}"
    versions, profiles = format_tally(fleet.versions), format_tally(fleet.profiles)
    return f"Looked at {clean(when)} UTC, by hosttune {versions}, profile {profiles}."


def format_tally(tally: ValueTally) -> str:
    """`0.1.0`, or `0.2.0 (1,990) and 0.1.0 (10)`."""
    if tally.is_common:
        return clean(tally.values[0].value) or "unknown" if tally.values else "unknown"
    parts = [
        f"{clean(one.value) or 'unknown'} ({format_count(one.hosts.count)})"
        for one in tally.values[:MOST_VALUES]
    ]
    rest = sum(one.hosts.count for one in tally.values[MOST_VALUES:]) + tally.others.count
    return join_words([*parts, f"others ({format_count(rest)})"] if rest else parts)


def list_notes(fleet: Fleet) -> list[str]:
    """What the reader should know before a number is believed."""
    found = []
    if len(fleet.policies.values) > 1:
        found.append(f"The hosts follow {len(fleet.policies.values)} different policies.")
    if fleet.superseded.count:
        what = say_count(fleet.superseded.count, "older look")
        found.append(
            f"Left out: {what} at hosts that were looked at again later "
            f"({name_hosts(fleet.superseded)}). What changed in between: hosttune diff OLDER NEWER."
        )
    if fleet.disputed_count:
        what = (
            "Files of different names are said to be of one host, "
            f"{say_count(fleet.disputed_count, 'host')} in all"
        )
        sentences = [
            f"{clean(host)}: {join_words([clean(file) for file in files])}"
            for host, files in fleet.disputed_hosts
        ]
        if more := fleet.disputed_count - len(sentences):
            sentences.append(f"{format_count(more)} more")
        found.append(
            f"{what} ({'; '.join(sentences)}). The newest counts, and a fault of "
            "another one is listed beside it. Name each file after its host."
        )
    for one in fleet.shared_machines.values:
        what = f"{clean(one.value)} is the machine id of {format_count(one.hosts.count)} names"
        found.append(f"{what}: renamed, or cloned from one image ({name_hosts(one.hosts)}).")
    return found


def name_hosts(hosts: HostNames, most: int = 0) -> str:
    """`gpu-001, gpu-002 and 510 more`; `most` bounds the names (0: all that were kept)."""
    names = [clean(name) for name in (hosts.names[:most] if most else hosts.names)]
    rest = hosts.count - len(names)
    if not names:
        return hosts_word(rest) if rest else ""
    return ", ".join(names) + (f" and {format_count(rest)} more" if rest else "")


def list_worst(fleet: Fleet, names: int = 0) -> list[str]:
    """What costs most, one line each, that worst first: what siblings have and a host has lost
    (GPUs, memory, mounts, lines of fstab), what does not do its work, who gave no answer. What only
    differs can wait for it.
    """
    found = [
        f"{name_hosts(one.hosts, names)}: {lost}"
        for group in fleet.siblings
        for setting in group.settings
        if (most := setting.values.majority)
        for one in setting.values.values
        if (lost := _describe_lost(setting.name, clean(one.value), clean(most.value)))
    ]
    drained = {one.value: one.hosts.count for one in fleet.unfit.values}
    for row in fleet.rules:
        hosts = next((one.hosts for one in row.outcomes if one.value == FAULT), None)
        if hosts and hosts.count > drained.get(row.rule, 0):
            found.append(f"{name_hosts(hosts, names)}: {clean(row.rule)}")
    return found + (
        [f"{hosts_word(fleet.missing_count)} gave no answer"] if fleet.missing_count else []
    )


def _describe_lost(setting: str, value: str, most: str) -> str:
    """What a host has less of than most of its siblings; empty where it has lost nothing."""
    own, theirs = (parse_digits(number.removesuffix(" GiB"), -1) for number in (value, most))
    if setting in {"GPUs", "memory"} and 0 <= own < theirs:
        what = "GPUs" if setting == "GPUs" else "of memory"
        return f"{value} of the {most} {what} that the siblings have"
    if setting.startswith(MOUNT) and value == NOT_MOUNTED:
        return f"nothing is mounted at {setting.removeprefix(MOUNT)}, as it is on the siblings"
    if setting != FSTAB or max(len(value), len(most)) >= LONGEST:  # as long: its end may be cut off
        return ""
    lines = sorted(set(most.split(", ")) - {*value.split(", "), NO_LINE})
    return (
        f"/etc/fstab has no line for {join_words(lines)}, as it has on the siblings"
        if lines
        else ""
    )


def describe_outcomes(row: RuleRow) -> str:
    """`551 to change, 11 waived, 1,435 ok`."""
    return ", ".join(
        f"{format_count(one.hosts.count)} {STATES[one.value].phrase}" for one in row.outcomes
    )


def outcome_items(
    row: RuleRow, page: Page, *, is_whole: bool, but: frozenset[str] = frozenset()
) -> tuple[Item, ...]:
    """Which hosts have which outcome: all of it `but` these, or what equal values do not tell."""
    if not is_whole and (len(row.outcomes) < 2 or not row.values.is_common):
        return ()
    most = max(row.outcomes, key=lambda one: one.hosts.count)
    shown = row.outcomes if is_whole else [one for one in row.outcomes if one is not most]
    return tuple(
        _make_hosts(
            f"{STATES[one.value].phrase} ({format_count(one.hosts.count)})", one.hosts, page
        )
        for one in shown
        if (one.value not in but if is_whole else one.value != NOT_APPLICABLE)
    )


def find_worst(row: RuleRow) -> str:
    """The worst outcome of a rule."""
    return min((one.value for one in row.outcomes), key=OUTCOMES.index)


def split_rules(fleet: Fleet) -> tuple[list[RuleRow], list[RuleRow]]:
    """The rules that are something to someone, and those that are quiet on every host."""
    loud = [row for row in fleet.rules if find_worst(row) not in QUIET]
    return loud, [row for row in fleet.rules if find_worst(row) in QUIET]


def value_items(tally: ValueTally, page: Page, most: str = "on most hosts:") -> tuple[Item, ...]:
    """The majority, without names unless all is shown, then each other value with the hosts that
    have it. `most` are the words before the majority.
    """
    majority = tally.majority
    if tally.is_common and tally.values:
        value = _format_value(tally.values[0])
        return (Item(text=value if tally.total == 1 else f"on all hosts: {value}"),)
    items = []
    if majority:
        head = f"{most} {_count_hosts(majority)}"
        items.append(
            _make_hosts(head, majority.hosts, page) if page.is_verbose else Item(text=head)
        )
    elif len(tally.values) > 1:
        items.append(Item(text="no value is on most hosts:"))
    others = [one for one in tally.values if one is not majority]
    shown = others if page.folds else others[:MOST_VALUES]
    items += [_make_hosts(_count_hosts(one), one.hosts, page) for one in shown]
    if rest := sum(one.hosts.count for one in others[len(shown) :]) + tally.others.count:
        more = len(others) - len(shown)
        what = (
            say_count(more, "other value")
            if more > 0 and not tally.others.count
            else "other values"
        )
        items.append(Item(text=f"{what} ({format_count(rest)})"))
    return tuple(items)


def _make_hosts(head: str, hosts: HostNames, page: Page) -> Item:
    """Whose that is; where a list is long a page folds the whole of it away."""
    return Item(head, name_hosts(hosts, page.names), more=fold_names(hosts, page))


def fold_names(hosts: HostNames, page: Page) -> str:
    """The names that a page folds away, where it has more than it shows."""
    return name_hosts(hosts) if page.folds and len(hosts.names) > page.names else ""


def _format_value(one: Valued) -> str:
    return STATES[OK].phrase if one.value == AS_WANTED else clean(one.value)


def _count_hosts(one: Valued) -> str:
    return f"{_format_value(one)} ({format_count(one.hosts.count)})"
