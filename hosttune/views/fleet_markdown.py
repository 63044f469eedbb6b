"""A report on many hosts as Markdown, to paste into a ticket. Escaped as in views/markdown.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.views.change import body_lines, note_of, title_line
from hosttune.views.fleet_words import (
    HEADINGS,
    MOST_TOLD,
    first_these,
    headline,
    hosts_word,
    named,
    notes,
    number,
    outcome_lines,
    outcomes,
    rules_told,
    span,
    value_lines,
    worst,
)
from hosttune.views.markdown import code, fenced, plain
from hosttune.views.page import shown
from hosttune.views.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.fleet_values import Fleet, Tally
    from hosttune.values import Change

NAMES_TOLD = 8


def fleet_markdown(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]]) -> str:
    """The report. `plans` are the changes of the plan classes by digest, of those that are shown."""
    lines = ["# hosttune report", "", plain(headline(fleet)), ""]
    lines += [line for text in (span(fleet), *notes(fleet)) if text for line in (plain(text), "")]
    first = [f"- {plain(text)}" for text in first_these(fleet, NAMES_TOLD)]
    lines += ["## First these", "", *first, ""] if first else []
    lines += _lost(fleet)
    lines += _rules(fleet)
    lines += _siblings(fleet)
    for title, tally in (
        ("Pending reboots", fleet.reboots),
        ("Expired waivers", fleet.expired),
        ("Left from earlier runs", fleet.orphaned),
        ("Attention", fleet.problems),
    ):
        lines += _tally(title, tally)
    lines += _plans(fleet, plans)
    return "\n".join(lines).rstrip() + "\n"


def _lost(fleet: Fleet) -> list[str]:
    lines: list[str] = []
    if fleet.missing_count:
        lines += [f"## Gave no answer ({number(fleet.missing_count)})", ""]
        lines += [f"- **{plain(shown(one.host))}**: {plain(shown(one.missing))}" for one in fleet.missing]
        lines += [*_more(fleet.missing_count - len(fleet.missing)), ""]
    if fleet.unread_count:
        lines += [f"## Could not be read ({number(fleet.unread_count)})", ""]
        lines += [f"- {code(shown(one.place))}: {plain(shown(one.reason))}" for one in fleet.unread]
        lines += [*_more(fleet.unread_count - len(fleet.unread)), ""]
    return lines


def _more(count: int) -> list[str]:
    return [f"- and {number(count)} more"] if count > 0 else []


def _rules(fleet: Fleet) -> list[str]:
    loud, quiet = rules_told(fleet)
    lines: list[str] = []
    last = ""
    for row in loud:
        if worst(row) != last:
            last = worst(row)
            lines += ["", f"## {HEADINGS[last]}", ""] if lines else [f"## {HEADINGS[last]}", ""]
        lines.append(f"- **{plain(shown(row.rule))}**: {outcomes(row)}")
        told = outcome_lines(row, names=NAMES_TOLD) + value_lines(row.values, names=NAMES_TOLD)
        lines += [f"  - {plain(text)}" for text in told]
    lines += [""] if lines else []
    rules = f"{counted(len(quiet), 'more rule')} {'has' if len(quiet) == 1 else 'have'}"
    return lines + ([f"{rules} nothing to say of any host.", ""] if quiet else [])


def _siblings(fleet: Fleet) -> list[str]:
    differing = [one for one in fleet.siblings if one.settings]
    if not differing:
        return []
    lines = ["## Siblings that differ", ""]
    for one in differing:
        lines.append(f"- **{plain(shown(one.title))}** ({hosts_word(one.hosts.count)})")
        for setting in one.settings:
            lines.append(f"  - {plain(shown(setting.name))}")
            lines += [f"    - {plain(text)}" for text in value_lines(setting.values, names=NAMES_TOLD)]
    return [*lines, ""]


def _tally(title: str, tally: Tally) -> list[str]:
    if not tally.values:
        return []
    lines = [f"- {plain(shown(one.value))}: {plain(named(one.hosts, NAMES_TOLD))}" for one in tally.values[:MOST_TOLD]]
    return [f"## {title} ({number(tally.total)})", "", *lines, *_more(len(tally.values) - MOST_TOLD), ""]


def _plans(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]]) -> list[str]:
    if not any(one.changes for one in fleet.classes):
        return []
    lines = ["## Plans", ""]
    hidden = fleet.other_classes.count
    for one in fleet.classes:
        if one.digest and one.digest not in plans:
            hidden += one.hosts.count
            continue
        what = counted(one.changes, "change") if one.changes else "nothing to change"
        lines += [f"### {hosts_word(one.hosts.count)}: {what}", "", plain(named(one.hosts)), ""]
        lines += [f"Digest `{one.digest}`", ""] if one.digest else []
        for change in plans.get(one.digest, ()):
            note = f" ({note_of(change)})" if note_of(change) else ""
            lines.append(f"- {code(title_line(change))}{note}")
            if body := body_lines(change):
                lines += fenced(body, "diff", indent="  ")
        lines += [""] if plans.get(one.digest) else []
    return lines + ([f"Other plans: {hosts_word(hidden)}."] if hidden else [])
