"""What rules are made of: domains, conditions that several rules share, kinds of wishes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.resources import wish_kinds
from hosttune.views.terminal import align_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.engine.rules.catalog import Catalog
    from hosttune.views.page import Page

SHARED = 2  # rules that have a condition in the same words


def parts_json(catalog: Catalog) -> dict[str, Any]:
    """Domains, shared conditions and kinds of wishes, each with the number of rules that have
    it.
    """
    rules = catalog.rules.values()
    domains = Counter(rule.domain for rule in rules)
    guards = Counter(
        (one.condition.source, one.otherwise.source) for rule in rules for one in rule.applies_when
    )
    wishes = Counter(kind for rule in rules for kind in {wish.kind for wish in rule.want})
    return {
        "format_version": FORMAT_VERSION,
        "domains": {name: domains[name] for name in sorted(domains)},
        "conditions": [
            {"if": condition, "else": otherwise, "rules": number}
            for (condition, otherwise), number in guards.most_common()
            if number >= SHARED
        ],
        "wishes": [
            {
                "kind": name,
                "about": " ".join((type(kind).__doc__ or "").split()),
                "rules": wishes[name],
            }
            for name, kind in sorted(wish_kinds().items())
        ],
    }


def parts_text(catalog: Catalog, page: Page) -> str:
    """The same for people."""
    parts = parts_json(catalog)
    conditions = [
        (_count_rules(one["rules"]), f"{{if: {one['if']}, else: {one['else']}}}")
        for one in parts["conditions"]
    ]
    kinds = [(one["kind"], _count_rules(one["rules"]), one["about"]) for one in parts["wishes"]]
    lines = _render_block(
        "Domains: an id begins with one",
        [(name, _count_rules(n)) for name, n in parts["domains"].items()],
        page,
    )
    lines += _render_block("Conditions of applies_when that several rules have", conditions, page)
    lines += _render_block("Kinds of wishes: hosttune rules new ID --wish KIND", kinds, page)
    lines.append(
        "Facts that expressions ask: hosttune facts. Hosts for cases, in a checkout: ./run hosts"
    )
    return "\n".join(lines) + "\n"


def _render_block(title: str, rows: Sequence[tuple[str, ...]], page: Page) -> list[str]:
    return [
        page.screen.paint(title, "bold"),
        *align_columns([tuple(map(clean, row)) for row in rows], page.screen, indent=2),
        "",
    ]


def _count_rules(number: int) -> str:
    return say_count(number, "rule")
