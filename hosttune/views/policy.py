"""A policy and the hosts that it is for, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.views.masking import mask_data
from hosttune.views.terminal import align_columns, join_words, wrap_text

if TYPE_CHECKING:
    from hosttune.actions.policy_look import PlacedPolicy
    from hosttune.engine.policy.policy import Policy
    from hosttune.errors import Fault
    from hosttune.views.page import Page


def in_force(policy: Policy, text: str = "") -> str:
    """Which file is in force, where `text` does not name it, and which of its sections fit."""
    sentences = [f"Policy {policy.source}."] if policy.source and policy.source not in text else []
    fitting = [one.pattern for one in policy.sections if one.fits]
    if fitting:
        verb = "fits" if len(fitting) == 1 else "fit"
        sentences.append(
            f"Of its sections for hosts {join_words(fitting)} {verb} this one ({policy.host})."
        )
    elif policy.sections:
        sentences.append(f"None of its sections for hosts fits this one ({policy.host}).")
    return " ".join(sentences)


def policy_text(placed: tuple[PlacedPolicy, ...], remarks: tuple[Fault, ...], page: Page) -> str:
    """The hosts with the sections that fit them, then what does nothing on any of them."""
    first = placed[0].policy
    sections = (
        f"{say_count(len(first.sections), 'section')} for hosts"
        if first.sections
        else "no sections for hosts"
    )
    lines = [page.screen.paint(clean(first.source), "bold") + f": no faults, {sections}.", ""]
    lines += align_columns(
        [(clean(one.name), _describe_held(one)) for one in placed], page.screen, indent=2
    )
    if remarks:
        lines += [
            "",
            page.screen.paint("Nothing comes of", "bold", "yellow") + f" ({len(remarks)})",
        ]
    for fault in remarks:
        lines += wrap_text(
            clean(f"{fault.where}: {fault.message}"), page.screen.columns, first="  ", rest="    "
        )
        lines += (
            wrap_text(f"hint: {clean(fault.hint)}", page.screen.columns, first="    ")
            if fault.hint
            else []
        )
    return "\n".join(lines) + "\n"


def _describe_held(one: PlacedPolicy) -> str:
    """What holds on one host."""
    fitting = [clean(section.pattern) for section in one.policy.sections if section.fits]
    parts = (
        [f"{'section' if len(fitting) == 1 else 'sections'} {join_words(fitting)}"]
        if fitting
        else []
    )
    parts += ["no section"] if one.policy.sections and not fitting else []
    return ", ".join([*parts, f"profile {clean(one.policy.profile)}", say_count(one.rules, "rule")])


def policy_json(placed: tuple[PlacedPolicy, ...], remarks: tuple[Fault, ...]) -> dict[str, Any]:
    """The same for programs; a line is 0 where it is not known."""
    data: dict[str, Any] = mask_data(
        {
            "format_version": FORMAT_VERSION,
            "policy": placed[0].policy.source,
            "hosts": [
                {
                    "host": one.name,
                    "name": one.policy.host,
                    "sections": [
                        section.pattern for section in one.policy.sections if section.fits
                    ],
                    "profile": one.policy.profile,
                    "rules": one.rules,
                    "policy_digest": one.digest,
                }
                for one in placed
            ],
            "remarks": [
                {
                    "line": one.where.line,
                    "field": one.where.field,
                    "message": one.message,
                    "hint": one.hint,
                }
                for one in remarks
            ],
        }
    )
    return data
