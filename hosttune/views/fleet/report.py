"""A report on many hosts: what costs most, who is not in it, rule by rule, siblings that differ,
plans.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.views.change import diff_of
from hosttune.views.checked import group_of, link_of
from hosttune.views.document import (
    Document,
    Fold,
    Item,
    Items,
    Matrix,
    Panel,
    Say,
    Section,
    Steps,
    render_documents,
)
from hosttune.views.findings import BY_OUTCOME, NOTHING
from hosttune.views.fleet.words import (
    FINE,
    MOST_VALUES,
    QUIET,
    describe_outcomes,
    describe_span,
    find_worst,
    fold_names,
    format_count,
    hosts_word,
    list_lost,
    list_notes,
    list_worst,
    make_headline,
    name_hosts,
    outcome_items,
    split_rules,
    value_items,
)
from hosttune.views.report import status_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.fleet.values import Fleet, PlanClass, RuleRow, Siblings, ValueTally
    from hosttune.values import Change
    from hosttune.views.checked import About
    from hosttune.views.document import Block
    from hosttune.views.page import Page

NOT_AS_SHOWN = (
    "The digest that is named here is not that of these changes: a secret is masked in them, or "
    "the file was edited. What a host would change, and its digest: sudo hosttune plan, there"
)
MOST_HOSTS = 10  # of the worst, on one screen
DISPUTED = (
    "Other hosts show something else for the same changes: find out which host is right before you "
    "approve the digest."
)


def fleet_report(
    fleet: Fleet,
    plans: Mapping[PlanClass, tuple[Change, ...]],
    page: Page,
    about: Mapping[str, About] = NOTHING,
) -> str:
    """The report. `plans` are the changes of the plan classes that are shown; `about` are the
    rules that this version knows, for pages.
    """
    return render_documents(
        "hosttune report", [fleet_outline(fleet, plans, page, about)], page, is_filtered=True
    )


def fleet_outline(
    fleet: Fleet,
    plans: Mapping[PlanClass, tuple[Change, ...]],
    page: Page,
    about: Mapping[str, About] = NOTHING,
) -> Document:
    """What the report says, the dearest first."""
    head = [Say(make_headline(fleet), "decision", style="bold")]
    head += [
        Say(text, "note", is_hanging=True)
        for text in (describe_span(fleet), *list_notes(fleet))
        if text
    ]
    first = [Item(text=text) for text in list_worst(fleet, page.names)]
    missing = (
        Item(
            clean(one.host),
            f"{clean(one.missing)} ({clean(one.at[:16].replace('T', ' '))})",
            look="strong",
        )
        for one in fleet.missing
    )
    unread = (Item(clean(one.place), clean(one.reason), look="code") for one in fleet.unread)
    blocks = [
        *_make_tally("Not fit for jobs: drain these", "red", fleet.unfit, page),
        *_make_section("First these", first, "red", is_alarm=True),
        *_make_section(
            "Gave no answer", missing, "red", fleet.missing_count, is_alarm=True, is_aligned=True
        ),
        *_make_section("Could not be read", unread, "red", fleet.unread_count, is_alarm=True),
        *_make_tally("Degraded: they work slower, or not for long", "yellow", fleet.impaired, page),
        *_make_hosts(fleet, page),
        *_make_rules(fleet, page, about),
        *_make_siblings(fleet, page),
        *_make_tally("Pending reboots", "yellow", fleet.reboots, page),
        *_make_tally("Expired waivers", "yellow", fleet.expired, page),
        *_make_tally(BY_OUTCOME["orphaned"].title, "cyan", fleet.orphaned, page),
        *_make_tally("Attention", "red", fleet.problems, page),
        *_make_plans(fleet, plans, page),
    ]
    why = _why_not_fine(fleet)
    if why and fleet.worst and page.is_terse:
        there = (
            f"on {clean(fleet.worst[0].host)}, the worst host: says what is wrong, and what to do"
        )
        blocks.append(Steps("Next", (("sudo hosttune check", there),)))
    status = status_text(why) if fleet.hosts or fleet.missing_count else ""  # else 2, with an error
    return Document(hosts_word(fleet.hosts), "", tuple(head), tuple(blocks), status=status)


def _why_not_fine(fleet: Fleet) -> str:
    """Why the report ends with 1; empty where every host is ok."""
    bad = sum(one.hosts.count for one in fleet.states if one.value != "ok")
    parts = [f"{hosts_word(bad)} {'is' if bad == 1 else 'are'} not ok"] if bad else []
    return ", ".join((*parts, *list_lost(fleet)))


def _make_section(
    title: str,
    items: Iterable[Item],
    style: str,
    count: int = 0,
    *,
    is_alarm: bool = False,
    is_aligned: bool = False,
) -> list[Block]:
    """A list, and how many of `count` it does not name."""
    shown = tuple(items)
    if not shown:
        return []
    blocks: list[Block] = [Items(shown, is_aligned=is_aligned)]
    if count > len(shown):
        blocks.append(Items((Item(text=f"and {format_count(count - len(shown))} more"),)))
    return [
        Section(
            title, tuple(blocks), style, format_count(count) if count else "", is_alarm=is_alarm
        )
    ]


def _make_hosts(fleet: Fleet, page: Page) -> list[Block]:
    """The worst hosts by the rules that are something to one of the fleet."""
    if fleet.hosts < 2:
        return []
    rules = [row.rule for row in split_rules(fleet)[0]]
    rows = fleet.worst if page.is_whole else fleet.worst[:MOST_HOSTS]
    shown = []
    for row in rows:
        says = dict(row.says)
        shown.append(
            (
                clean(row.host),
                tuple(
                    state if (state := says.get(rule, "")) not in QUIET else "" for rule in rules
                ),
            )
        )
    rest = fleet.hosts - len(shown)
    note = f"{format_count(rest)} more hosts (--names shows more of the worst)." if rest else ""
    return (
        [Matrix("Hosts, the worst first", tuple(map(clean, rules)), tuple(shown), note)]
        if rules
        else []
    )


def _make_rules(fleet: Fleet, page: Page, about: Mapping[str, About]) -> list[Block]:
    loud, quiet = split_rules(fleet)
    blocks: list[Block] = []
    for outcome, rows in groupby(fleet.rules if page.is_whole else loud, key=find_worst):
        items = [_make_rule(row, page, about) for row in rows]
        blocks.append(BY_OUTCOME[outcome].section(items, len(items) if page.folds else 0))
    if quiet and not page.is_whole:
        rules = f"{say_count(len(quiet), 'more rule')} {'has' if len(quiet) == 1 else 'have'}"
        more = " (--verbose lists them)" if page.is_terse else ""
        blocks.append(Say(f"{rules} nothing to say of any host{more}."))
    return blocks


def _make_rule(row: RuleRow, page: Page, about: Mapping[str, About]) -> Item:
    known = about.get(row.rule)
    whole = (Fold("Hosts by outcome", (Items(outcome_items(row, page, is_whole=True)),)),)
    points = () if page.folds else outcome_items(row, page, is_whole=page.is_verbose, but=FINE)
    return Item(
        clean(row.rule),
        describe_outcomes(row),
        (*points, *value_items(row.values, page)),
        look="strong",
        group=clean(group_of(row.rule)),
        about=clean(known.title) if known else "",
        link=link_of(row.rule, known),
        folded=whole if page.folds else (),
    )


def _make_siblings(fleet: Fleet, page: Page) -> list[Block]:
    if not fleet.siblings:
        return []
    differing = [one for one in fleet.siblings if one.settings]
    blocks: list[Block] = [Items(tuple(_make_sibling(one, page) for one in differing))]
    if alike := len(fleet.siblings) - len(differing):
        what = say_count(alike, "group") + (" is alike" if alike == 1 else " are alike")
        blocks.append(Say(f"{what} in every setting."))
    if fleet.alone:
        blocks.append(Say(f"{hosts_word(fleet.alone)} without a sibling, or of unknown hardware."))
    return [Section("Siblings: the same GPUs, processors and board", tuple(blocks), "cyan")]


def _make_sibling(one: Siblings, page: Page) -> Item:
    settings = tuple(
        Item(clean(it.name), items=value_items(it.values, page, "mostly")) for it in one.settings
    )
    return Item(
        clean(one.title), f"({hosts_word(one.hosts.count)})", settings, joint=" ", look="strong"
    )


def _make_tally(title: str, style: str, tally: ValueTally, page: Page) -> list[Block]:
    """What to know of some hosts, the most common first."""
    shown = tally.values if page.is_whole else tally.values[:MOST_VALUES]
    items = [
        Item(clean(one.value), name_hosts(one.hosts, page.names), more=fold_names(one.hosts, page))
        for one in shown
    ]
    if more := len(tally.values) - len(shown):
        items.append(Item(text=f"and {format_count(more)} more"))
    return (
        [Section(title, (Items(tuple(items)),), style, format_count(tally.total))] if items else []
    )


def _make_plans(
    fleet: Fleet, plans: Mapping[PlanClass, tuple[Change, ...]], page: Page
) -> list[Block]:
    if not any(one.changes for one in fleet.classes):
        return []
    shown = [one for one in fleet.classes if one in plans or not one.digest]
    disputed = fleet.disputed
    blocks: list[Block] = [_plan(one, plans.get(one, ()), page, disputed) for one in shown]
    if (
        rest := sum(one.hosts.count for one in fleet.classes if one not in shown)
        + fleet.other_classes.count
    ):
        blocks.append(Say(f"Other plans: {hosts_word(rest)} (--plans shows more)."))
    return [Section("Plans", tuple(blocks), "cyan")]


def _plan(one: PlanClass, changes: Iterable[Change], page: Page, disputed: frozenset[str]) -> Panel:
    what = say_count(one.changes, "change") if one.changes else "nothing to change"
    names = name_hosts(one.hosts, page.names if page.is_terse or page.folds else 0)
    blocks: list[Block] = [Say(names, more=fold_names(one.hosts, page))]
    if one.digest:
        blocks.append(
            Say("Digest", code=clean(one.digest)) if one.is_as_shown else Say(NOT_AS_SHOWN)
        )
    blocks += [Say(DISPUTED)] if one.is_as_shown and one.digest in disputed else []
    diffs = tuple(diff_of(change, is_short=page.is_terse) for change in changes)
    blocks += [Fold("The changes", diffs)] if diffs and page.folds else diffs
    return Panel(f"{hosts_word(one.hosts.count)}: {what}", tuple(blocks))
