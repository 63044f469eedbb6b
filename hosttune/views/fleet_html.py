"""A report on many hosts as one HTML file, in the dress and with the guards of views/html.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.views.checked import group_of
from hosttune.views.fleet_words import (
    HEADINGS,
    STYLES,
    first_these,
    headline,
    hosts_word,
    named,
    notes,
    number,
    outcome_lines,
    outcomes,
    span,
    worst,
)
from hosttune.views.html import change_entry, page_html
from hosttune.views.page import shown
from hosttune.views.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.fleet_values import Fleet, Named, RuleRow, Tally
    from hosttune.values import Change
    from hosttune.views.checked import About

NAMES_TOLD = 8  # before the rest is folded away
_QUIET = ("waived", "ok", "not applicable")


def fleet_html(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]], about: Mapping[str, About]) -> str:
    """The report. `plans` are the changes of the plan classes by digest, of those that are shown; `about` are the
    rules that this version knows.
    """
    sections = _sections(fleet, about)
    return page_html(
        "fleet.html.j2",
        f"hosttune report: {hosts_word(fleet.hosts)}",
        headline=headline(fleet),
        notes=[text for text in (span(fleet), *notes(fleet)) if text],
        first=first_these(fleet, NAMES_TOLD),
        missing=_missing(fleet),
        unread=_unread(fleet),
        outcomes=[
            {"key": section["key"], "title": section["title"], "style": section["style"]} for section in sections
        ],
        groups=sorted({shown(group_of(row.rule)) for row in fleet.rules}),
        sections=sections,
        siblings=[
            {
                "title": shown(one.title),
                "hosts": hosts_word(one.hosts.count),
                "settings": [{"name": shown(it.name), "values": _values(it.values)} for it in one.settings],
            }
            for one in fleet.siblings
            if one.settings
        ],
        tallies=[
            {"title": title, "count": number(tally.total), "style": style, "values": _values(tally)}
            for title, style, tally in (
                ("Pending reboots", "yellow", fleet.reboots),
                ("Expired waivers", "yellow", fleet.expired),
                ("Left from earlier runs", "cyan", fleet.orphaned),
                ("Attention", "red", fleet.problems),
            )
            if tally.values
        ],
        plans=_plans(fleet, plans),
    )


def _sections(fleet: Fleet, about: Mapping[str, About]) -> list[dict[str, Any]]:
    found: dict[str, list[RuleRow]] = {}
    for row in fleet.rules:
        found.setdefault(worst(row), []).append(row)
    return [
        {
            "key": key.replace(" ", "-"),
            "title": title,
            "style": STYLES[key],
            "is_quiet": key in _QUIET,
            "rules": [_rule(row, about) for row in found[key]],
        }
        for key, title in HEADINGS.items()
        if key in found
    ]


def _rule(row: RuleRow, about: Mapping[str, About]) -> dict[str, Any]:
    known = about.get(row.rule)
    return {
        "rule": shown(row.rule),
        "title": shown(known.title) if known else "",
        "group": shown(group_of(row.rule)),
        "outcomes": outcomes(row),
        "hosts": outcome_lines(row, is_whole=True),
        "values": _values(row.values),
    }


def _values(tally: Tally) -> dict[str, Any]:
    """Every value that was kept, the majority marked, and how many hosts have another one."""
    majority = tally.majority
    return {
        "rows": [
            {
                "value": shown(one.value),
                "count": number(one.hosts.count),
                "is_majority": one is majority and len(tally.values) > 1,
                **_names(one.hosts, is_majority=one is majority and not tally.is_common),
            }
            for one in tally.values
        ],
        "others": number(tally.others.count) if tally.others.count else "",
    }


def _names(hosts: Named, *, is_majority: bool = False) -> dict[str, str]:
    """The hosts, the most of them folded away; the majority is not named."""
    if is_majority:
        return {"names": "", "more": ""}
    if len(hosts.names) <= NAMES_TOLD:
        return {"names": named(hosts), "more": ""}
    return {"names": ", ".join(map(shown, hosts.names[:NAMES_TOLD])), "more": named(hosts)}


def _missing(fleet: Fleet) -> dict[str, Any]:
    rows = [{"what": shown(one.host), "why": shown(one.missing)} for one in fleet.missing]
    return _lost(f"{hosts_word(fleet.missing_count)} gave no answer", rows, fleet.missing_count)


def _unread(fleet: Fleet) -> dict[str, Any]:
    rows = [{"what": shown(one.place), "why": shown(one.reason)} for one in fleet.unread]
    return _lost(f"{counted(fleet.unread_count, 'file')} could not be read", rows, fleet.unread_count)


def _lost(title: str, rows: list[dict[str, str]], count: int) -> dict[str, Any]:
    more = count - len(rows)
    return {"title": title if rows else "", "rows": rows, "more": f"and {number(more)} more" if more else ""}


def _plans(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]]) -> dict[str, Any]:
    told = [one for one in fleet.classes if one.digest in plans or not one.digest]
    rest = sum(one.hosts.count for one in fleet.classes if one not in told) + fleet.other_classes.count
    return {
        "rows": [
            {
                "hosts": hosts_word(one.hosts.count),
                "what": counted(one.changes, "change") if one.changes else "nothing to change",
                "digest": one.digest,
                "changes": [change_entry(change) for change in plans.get(one.digest, ())],
                **_names(one.hosts),
            }
            for one in told
        ]
        if any(one.changes for one in fleet.classes)
        else [],
        "rest": hosts_word(rest) if rest else "",
    }
