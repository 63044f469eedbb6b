"""The documents of the rules in docs/reference: rules.md, an index by domain, and a page for each
rule in rules/.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.numbers import say_count
from hosttune.views.document import Medium
from hosttune.views.explain import Explained, explain_outline, profiles_of
from hosttune.views.markdown import make_cell, render_markdown, table_lines
from hosttune.views.page import Page
from hosttune.views.rules import kind_text
from hosttune.views.wording import Wording

if TYPE_CHECKING:
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.profile import Profile
    from hosttune.engine.rules.rule import Rule

PAGES = "reference/rules"  # below docs/
_PAGE = Page(medium=Medium.MARKDOWN)
_HEAD = """\
# The rules of hosttune

Each rule has a page. `hosttune explain RULE` has the same text, and what the rule finds on this
host. Settings that hosttune does not touch on purpose are in
[folklore.md](../explanation/folklore.md). How to choose rules: [policy.md](policy.md). Rules of
your own: [custom-rules.md](custom-rules.md). `./run generate` writes this index and the pages from
the rule files; edit those.

*Kind*: `changes` changes the host on `apply --yes`, `advice only` never does.
"""
_FOOT = "\n[All rules](../rules.md). Written by `./run generate` from the rule file.\n"


def rules_index(catalog: Catalog) -> str:
    """docs/reference/rules.md. A row keeps the anchor that the section of its rule had."""
    profiles = (_profile_cells(profile) for profile in catalog.profiles.values())
    lines = [
        _HEAD,
        "## Profiles",
        "",
        *table_lines(("profile", "for", "extends", "rules"), profiles),
    ]
    domains: dict[str, list[Rule]] = {}
    for rule in catalog.rules.values():
        domains.setdefault(rule.domain, []).append(rule)
    lines += ["", "## Index", "", f"{say_count(len(catalog.rules), 'rule')}.", ""]
    for domain, rules in domains.items():
        lines += [
            f"### {domain}",
            "",
            *table_lines(("rule", "kind", "risk", "what"), map(_rule_cells, rules)),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def rule_document(rule: Rule, catalog: Catalog) -> str:
    """The page about one rule: what `explain` says without a host."""
    outline = explain_outline(
        Explained(rule, Wording(rule.defaults), profiles_of(rule, catalog)), _PAGE
    )
    return render_markdown(rule.id, [replace(outline, title="")]) + _FOOT


def _profile_cells(profile: Profile) -> tuple[str, ...]:
    return (
        f"`{profile.id}`",
        make_cell(profile.title),
        profile.extends or "-",
        str(len(profile.rules)),
    )


def _rule_cells(rule: Rule) -> tuple[str, ...]:
    name = f'<a id="{rule.id}"></a>[{rule.id}](rules/{rule.id}.md)'
    return name, kind_text(rule), str(rule.risk), make_cell(rule.title)
