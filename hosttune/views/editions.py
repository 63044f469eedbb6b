"""What moving from one edition to another changes, as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.host.cleaned import clean
from hosttune.views.change import change_lines
from hosttune.views.masking import masked
from hosttune.views.terminal import wrapped

if TYPE_CHECKING:
    from hosttune.engine.edition_diff import EditionDiff, PlanDiff
    from hosttune.views.page import Page


def edition_text(diff: EditionDiff, plans: tuple[PlanDiff, ...], page: Page) -> str:
    """Profiles and defaults first, then host by host what its plan would do instead."""
    screen = page.screen
    lines = [screen.paint(f"From edition {diff.before} to {diff.after}", "bold")]
    if not (diff.profiles or diff.defaults):
        lines.append("  no profile and no default differs")
    for profile in diff.profiles:
        for verb, rules in (("gains", profile.gained), ("loses", profile.lost)):
            names = ", ".join(rules)
            lines += (
                wrapped(names, screen.columns, first=f"  profile {profile.profile} {verb} ", rest="    ")
                if names
                else []
            )
    lines += [
        f"  {one.rule}: the default of {one.param} was {_plain(one.before)}, is {_plain(one.after)}"
        for one in diff.defaults
    ]
    for plan in plans:
        lines += ["", screen.paint(clean(plan.host), "bold")]
        for title, changes in (("no longer", plan.lost), ("new", plan.gained)):
            lines += [f"  {title}:"] if changes else []
            lines += [line for change in changes for line in change_lines(change, screen, indent=4)]
        if not (plan.lost or plan.gained):
            lines.append("  the plan stays the same")
    return "\n".join(lines) + "\n"


def edition_json(diff: EditionDiff, plans: tuple[PlanDiff, ...]) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "before": diff.before,
        "after": diff.after,
        "profiles": to_json(diff.profiles),
        "defaults": to_json(diff.defaults),
        "hosts": masked(to_json(plans)),
    }


def _plain(value: Any) -> str:
    return clean(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
