"""Lists of rules and profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.engine.rules.rule import Status
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.verdict_words import KINDS
from hosttune.views.terminal import align_columns, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.profile import Profile
    from hosttune.engine.rules.rule import Rule
    from hosttune.errors import Fault
    from hosttune.views.page import Page


def rules_text(rules: Iterable[Rule], selected: frozenset[str], page: Page) -> str:
    """All rules, those that the policy selects marked with `*`."""
    listed = list(rules)
    rows = [
        (
            "*" if rule.id in selected else "",
            rule.id,
            "changes" if rule.want else "advice",
            str(rule.risk),
            _name_rule(rule),
        )
        for rule in listed
    ]
    chosen = sum(rule.id in selected for rule in listed)
    lines = align_columns([("", "rule", "kind", "risk", "title"), *rows], page.screen)
    lines[0] = page.screen.paint(lines[0], "dim")
    return (
        "\n".join([*lines, "", f"{say_count(len(listed), 'rule')}, {chosen} selected here (*)."])
        + "\n"
    )


def rules_json(rules: Iterable[Rule], selected: frozenset[str]) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "rules": [
            {
                "id": rule.id,
                "title": rule.title,
                "kind": verb_of(rule),
                "status": rule.status.value,
                "risk": rule.risk.value,
                "exposes": rule.exposes,
                "disturbs": rule.disturbs.value,
                "since": rule.since,
                "verified": rule.verified,
                "is_selected": rule.id in selected,
                "is_builtin": rule.is_builtin,
            }
            for rule in rules
        ],
    }


def profiles_text(catalog: Catalog, chosen: str, page: Page) -> str:
    """All profiles, each with what it adds to the one that it extends; the one in force is
    marked.
    """
    blocks = [
        _render_profile(profile, profile.id == chosen, page)
        for profile in catalog.profiles.values()
    ]
    choose = "To use one: profile: NAME in the policy, or --profile NAME for one command."
    blocks.append(wrap_text(choose, page.screen.columns))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def profiles_json(catalog: Catalog, chosen: str) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "profiles": [
            {
                "id": profile.id,
                "title": profile.title,
                "why": profile.why,
                "extends": profile.extends or None,
                "rules": list(profile.rules),
                "adds": list(profile.added),
                "leaves_out": list(profile.left_out),
                "params": to_json(profile.params),
                "is_chosen": profile.id == chosen,
            }
            for profile in catalog.profiles.values()
        ],
    }


def faults_text(number: int, faults: list[Fault]) -> str:
    """The faults of rule files, a line each with its hint, or the word that there is none."""
    lines = [line for fault in faults for line in map(clean, str(fault).splitlines())]
    found = f"{say_count(len(faults), 'fault')} in" if faults else "No faults in"
    return (
        "\n".join([*lines, *([""] if lines else []), f"{found} {say_count(number, 'rule file')}."])
        + "\n"
    )


def faults_json(number: int, faults: list[Fault]) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "files": number, "faults": to_json(faults)}


def _render_profile(profile: Profile, is_chosen: bool, page: Page) -> list[str]:  # noqa: FBT001 - called in one place
    mark = ", chosen here" if is_chosen else ""
    lines = [page.screen.paint(profile.id, "bold") + f"{mark}: {clean(profile.title)}"]
    lines += wrap_text(
        clean(" ".join(profile.why.split())), page.screen.columns, first="  ", rest="  "
    )
    for label, entries in (("adds", profile.added), ("leaves out", profile.left_out)):
        names = ", ".join(entries)
        verb = f"{label}: " if profile.extends else "rules: "
        lines += (
            wrap_text(names, page.screen.columns, first=f"  {verb}", rest="    ") if names else []
        )
    settings = [
        f"{rule}: {name}={value}"
        for rule, own in profile.own_params.items()
        for name, value in own.items()
    ]
    lines += (
        wrap_text(", ".join(settings), page.screen.columns, first="  sets: ", rest="    ")
        if settings
        else []
    )
    if profile.extends:
        lines.append(f"  extends {profile.extends}; {say_count(len(profile.rules), 'rule')} in all")
    return lines


def _name_rule(rule: Rule) -> str:
    return (
        clean(rule.title)
        if rule.status is Status.STABLE
        else f"{clean(rule.title)} ({rule.status})"
    )


def kind_text(rule: Rule) -> str:
    return KINDS[verb_of(rule)]


def verb_of(rule: Rule) -> str:
    """The kind of a rule: whether it changes the host when someone says yes."""
    return "wants" if rule.want else "advises"
