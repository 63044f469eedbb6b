"""A report on many hosts for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.views.change import change_lines, title_line
from hosttune.views.fleet_words import (
    FINE,
    HEADINGS,
    MOST_TOLD,
    STYLES,
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
from hosttune.views.page import shown
from hosttune.views.terminal import columned, counted, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.fleet_values import Fleet, PlanClass, RuleRow, Tally
    from hosttune.values import Change
    from hosttune.views.page import Page

NAMES_TOLD = 6
_INDENT = "  "


def fleet_text(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]], page: Page) -> str:
    """The report. `plans` are the changes of the plan classes by digest, of those that are shown."""
    columns = page.screen.columns
    lines = wrapped(headline(fleet), columns)
    lines[0] = page.screen.paint(lines[0], "bold")
    for text in (span(fleet), *notes(fleet)):
        lines += wrapped(text, columns, rest=_INDENT) if text else []
    if first := first_these(fleet, 0 if page.is_verbose else NAMES_TOLD):
        lines += _title("First these", "red", page)
        lines += [
            line for text in first for line in wrapped(text, page.screen.columns, first=_INDENT, rest=_INDENT * 3)
        ]
    lines += _lost(fleet, page)
    lines += _rules(fleet, page)
    lines += _siblings(fleet, page)
    lines += _tally("Pending reboots", "yellow", fleet.reboots, page)
    lines += _tally("Expired waivers", "yellow", fleet.expired, page)
    lines += _tally("Left from earlier runs", "cyan", fleet.orphaned, page)
    lines += _tally("Attention", "red", fleet.problems, page)
    lines += _classes(fleet, plans, page)
    return "\n".join(lines) + "\n"


def _title(text: str, style: str, page: Page) -> list[str]:
    return ["", page.screen.paint(text, "bold", style)]


def _lost(fleet: Fleet, page: Page) -> list[str]:
    """Who could not be reached, and what could not be read."""
    lines: list[str] = []
    if fleet.missing_count:
        lines += _title(f"Gave no answer ({number(fleet.missing_count)})", "red", page)
        rows = [
            (shown(one.host), f"{shown(one.missing)} ({shown(one.at[:16].replace('T', ' '))})") for one in fleet.missing
        ]
        lines += columned([*rows], page.screen, indent=2) + _more(fleet.missing_count - len(fleet.missing))
    if fleet.unread_count:
        lines += _title(f"Could not be read ({number(fleet.unread_count)})", "red", page)
        for one in fleet.unread:
            text = f"{shown(one.place)}: {shown(one.reason)}"
            lines += wrapped(text, page.screen.columns, first=_INDENT, rest=_INDENT * 3)
        lines += _more(fleet.unread_count - len(fleet.unread))
    return lines


def _more(count: int) -> list[str]:
    return [f"{_INDENT}and {number(count)} more"] if count > 0 else []


def _rules(fleet: Fleet, page: Page) -> list[str]:
    loud, quiet = rules_told(fleet)
    told = fleet.rules if page.is_verbose else loud
    lines: list[str] = []
    last = ""
    for row in told:
        if worst(row) != last:
            last = worst(row)
            lines += _title(HEADINGS[last], STYLES[last], page)
        lines += _rule(row, page)
    if quiet and not page.is_verbose:
        rules = f"{counted(len(quiet), 'more rule')} {'has' if len(quiet) == 1 else 'have'}"
        lines += ["", *wrapped(f"{rules} nothing to say of any host (--verbose lists them).", page.screen.columns)]
    return lines


def _rule(row: RuleRow, page: Page) -> list[str]:
    names = 0 if page.is_verbose else NAMES_TOLD
    head = wrapped(f"{shown(row.rule)}: {outcomes(row)}", page.screen.columns, first=_INDENT, rest=_INDENT * 3)
    head[0] = head[0].replace(shown(row.rule), page.screen.paint(shown(row.rule), "bold"), 1)
    lines = outcome_lines(row, names=names, is_whole=page.is_verbose, but=FINE)
    lines += value_lines(row.values, names=names, is_whole=page.is_verbose)
    return head + [line for text in lines for line in _below(text, page)]


def _below(text: str, page: Page) -> list[str]:
    return wrapped(text, page.screen.columns, first=_INDENT * 2, rest=_INDENT * 4)


def _siblings(fleet: Fleet, page: Page) -> list[str]:
    differing = [one for one in fleet.siblings if one.settings]
    if not fleet.siblings:
        return []
    lines = _title("Siblings: the same GPUs, processors and board", "cyan", page)
    for one in differing:
        lines += wrapped(
            f"{shown(one.title)} ({hosts_word(one.hosts.count)})", page.screen.columns, first=_INDENT, rest=_INDENT * 3
        )
        for setting in one.settings:
            first, *rest = value_lines(
                setting.values, names=0 if page.is_verbose else NAMES_TOLD, is_whole=page.is_verbose
            )
            lines += _below(f"{shown(setting.name)}: {first}", page)
            lines += [
                line
                for text in rest
                for line in wrapped(text, page.screen.columns, first=_INDENT * 4, rest=_INDENT * 5)
            ]
    alike = len(fleet.siblings) - len(differing)
    if alike:
        what = counted(alike, "group") + (" is alike" if alike == 1 else " are alike")
        lines.append(f"{_INDENT}{what} in every setting.")
    if fleet.alone:
        lines.append(f"{_INDENT}{hosts_word(fleet.alone)} without a sibling, or of unknown hardware.")
    return lines


def _tally(title: str, style: str, tally: Tally, page: Page) -> list[str]:
    """What to know of some hosts, the most common first."""
    if not tally.values:
        return []
    lines = _title(f"{title} ({number(tally.total)})", style, page)
    most = len(tally.values) if page.is_verbose else MOST_TOLD
    for one in tally.values[:most]:
        text = f"{shown(one.value)}: {named(one.hosts, 0 if page.is_verbose else NAMES_TOLD)}"
        lines += wrapped(text, page.screen.columns, first=_INDENT, rest=_INDENT * 3)
    return lines + _more(len(tally.values) - most)


def _classes(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]], page: Page) -> list[str]:
    if not any(one.changes for one in fleet.classes):
        return []
    lines = _title("Plans", "cyan", page)
    told = [one for one in fleet.classes if one.digest in plans or not one.digest]
    for position, one in enumerate(told):
        lines += [""] if position else []
        lines += _class(one, plans.get(one.digest, ()), page)
    rest = [one for one in fleet.classes if one not in told]
    hosts = sum(one.hosts.count for one in rest) + fleet.other_classes.count
    return lines + ([f"{_INDENT}other plans: {hosts_word(hosts)} (--plans shows more)"] if hosts else [])


def _class(one: PlanClass, changes: Iterable[Change], page: Page) -> list[str]:
    what = counted(one.changes, "change") if one.changes else "nothing to change"
    text = f"{hosts_word(one.hosts.count)}: {what}"
    lines = [_INDENT + page.screen.paint(text, "bold")]
    lines += wrapped(
        named(one.hosts, 0 if page.is_verbose else NAMES_TOLD), page.screen.columns, first="    ", rest="    "
    )
    if one.digest:
        lines.append(f"    digest {one.digest}")
    for change in changes:
        lines += change_lines(change, page.screen, indent=4) if page.is_verbose else [f"    {title_line(change)}"]
    return lines
