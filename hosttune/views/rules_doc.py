"""The document of all rules, docs/rules.md: an index by domain, and a section for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.views.rule_words import (
    figure_text,
    finds_texts,
    guard_texts,
    param_text,
    reads_texts,
    risk_text,
    standing_text,
    todo_texts,
    told_wishes,
    ways_of,
    wish_text,
)
from hosttune.views.terminal import counted
from hosttune.views.wording import Wording

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.profile import Profile
    from hosttune.engine.rule import Rule

_HEAD = """\
# The rules of hosttune

Written by `hosttune rules doc > docs/rules.md` from the rule files; edit those. `hosttune explain RULE` says the same,
and what the rule finds on this host. What hosttune leaves alone on purpose stands in [folklore.md](folklore.md), how
to choose in [policy.md](policy.md), how to write rules of your own in [custom-rules.md](custom-rules.md).

*Kind* `wants` changes the host when `apply --yes` says so, `advises` never does.
"""


def rules_markdown(catalog: Catalog) -> str:
    """The whole document."""
    lines = [_HEAD, "## Profiles", ""]
    lines += ["| profile | for | extends | rules |", "|---|---|---|---|"]
    lines += [_profile_row(profile) for profile in catalog.profiles.values()]
    domains: dict[str, list[Rule]] = {}
    for rule in catalog.rules.values():
        domains.setdefault(rule.domain, []).append(rule)
    lines += ["", "## Index", "", f"{counted(len(catalog.rules), 'rule')}.", ""]
    for domain, rules in domains.items():
        lines += [f"### {domain}", "", "| rule | kind | risk | what |", "|---|---|---|---|"]
        lines += [f"| [{r.id}](#{r.id}) | {_kind(r)} | {r.risk} | {_cell(r.title)} |" for r in rules]
        lines.append("")
    for rule in catalog.rules.values():
        lines += [*_section(rule, catalog), ""]
    return "\n".join(lines).rstrip() + "\n"


def _profile_row(profile: Profile) -> str:
    return f"| `{profile.id}` | {_cell(profile.title)} | {profile.extends or '-'} | {len(profile.rules)} |"


def _section(rule: Rule, catalog: Catalog) -> list[str]:
    profiles = [name for name, profile in catalog.profiles.items() if rule.id in profile.rules]
    lines = [f"## {rule.id}", "", f"**{_plain(rule.title)}**", ""]
    lines += [
        f"- gain: {_plain(rule.gain)} ({figure_text(rule)})",
        f"- risk: {risk_text(rule)}",
        f"- status: {standing_text(rule)}",
        f"- profiles: {', '.join(profiles) or 'none; it runs where a policy selects it'}",
        "",
        rule.why.strip(),
        "",
    ]
    wording = Wording(rule.defaults)
    wishes = told_wishes(rule, wording)
    guards = zip(guard_texts(rule, wording), rule.applies_when, strict=True)
    lines += _list(
        "Reasons not to apply", [f"{_plain(text)} (unless {_code(one.condition.source)})" for text, one in guards]
    )
    if rule.for_each:
        lines += [f"For each: {_code(rule.for_each.source)}", ""]
    lines += _list("Reads", reads_texts(rule, wishes))
    lines += _list("Wants", [wish_text(wish) for wish in wishes], is_code=True)
    lines += _list("Looks for", finds_texts(rule, wording))
    lines += _list("Parameters", [f"`{name}`: {param_text(param)}" for name, param in rule.params.items()])
    does, undoes = ways_of(wishes)
    lines += _list("By hand", [*does, *todo_texts(rule, wording)], is_code=True)
    lines += _list("Taken back by hand", undoes, is_code=True)
    lines += _list("Sources", list(rule.sources))
    return lines[:-1]


def _list(title: str, texts: list[str], *, is_code: bool = False) -> list[str]:
    if not texts:
        return []
    items = [_code(text) if is_code else _plain(text) for text in texts]
    return [f"{title}:", "", *(f"- {item}" for item in items), ""]


def _code(text: str) -> str:
    """Text of expressions and commands as code; a backtick in it needs two around it (CommonMark, code spans)."""
    line = _plain(text)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _kind(rule: Rule) -> str:
    return "wants" if rule.want else "advises"
