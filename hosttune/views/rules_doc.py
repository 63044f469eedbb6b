"""The document of all rules, docs/rules.md: an index by domain, and a section for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.views.document import Medium
from hosttune.views.explain import Explained, explain_outline, profiles_of
from hosttune.views.markdown import cell, markdown, table_lines
from hosttune.views.page import Page
from hosttune.views.rules import kind_text
from hosttune.views.terminal import counted
from hosttune.views.wording import Wording

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.profile import Profile
    from hosttune.engine.rule import Rule

_PAGE = Page(medium=Medium.MARKDOWN)
_HEAD = """\
# The rules of hosttune

Written by `hosttune rules doc > docs/rules.md` from the rule files; edit those. `hosttune explain RULE` says the same,
and what the rule finds on this host. What hosttune leaves alone on purpose stands in [folklore.md](folklore.md), how
to choose in [policy.md](policy.md), how to write rules of your own in [custom-rules.md](custom-rules.md).

*Kind*: `changes` changes the host when `apply --yes` says so, `advice only` never does.
"""


def rules_markdown(catalog: Catalog) -> str:
    """The whole document."""
    profiles = (_profile_cells(profile) for profile in catalog.profiles.values())
    lines = [_HEAD, "## Profiles", "", *table_lines(("profile", "for", "extends", "rules"), profiles)]
    domains: dict[str, list[Rule]] = {}
    for rule in catalog.rules.values():
        domains.setdefault(rule.domain, []).append(rule)
    lines += ["", "## Index", "", f"{counted(len(catalog.rules), 'rule')}.", ""]
    for domain, rules in domains.items():
        lines += [f"### {domain}", "", *table_lines(("rule", "kind", "risk", "what"), map(_rule_cells, rules)), ""]
    lines += [_section(rule, catalog) for rule in catalog.rules.values()]
    return "\n".join(lines).rstrip() + "\n"


def _profile_cells(profile: Profile) -> tuple[str, ...]:
    return f"`{profile.id}`", cell(profile.title), profile.extends or "-", str(len(profile.rules))


def _rule_cells(rule: Rule) -> tuple[str, ...]:
    return f"[{rule.id}](#{rule.id})", kind_text(rule), str(rule.risk), cell(rule.title)


def _section(rule: Rule, catalog: Catalog) -> str:
    outline = explain_outline(Explained(rule, Wording(rule.defaults), profiles_of(rule, catalog)), _PAGE)
    return markdown("", [outline])
