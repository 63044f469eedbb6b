"""Reports as Markdown (CommonMark with GitHub's fences), to paste into a pull request or a ticket.

Text from outside cannot format anything, link, or call a person: it is escaped, commands and values stand as code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.regex import regex
from hosttune.views.change import body_lines, note_of, title_line
from hosttune.views.findings import ALL, FAULTS, HELD, LISTED, SHOWN_EVIDENCE, UNKNOWN, grouped, told
from hosttune.views.page import shown
from hosttune.views.plan import by_rule, closing, price, stage_title, the_yes, triggers_text
from hosttune.views.report import decision_text, next_steps, quiet_text, warning_texts
from hosttune.views.summary import rules_in, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Change, Finding, Plan
    from hosttune.views.checked import Checked
    from hosttune.views.findings import Section
    from hosttune.views.page import Page

_SPECIAL = regex(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
# a command that stands in backticks already; @somebody and #123, which a forge makes a call or a link of
_CODE = regex(r"`([^`]+)`|((?<![\w/.])[@#]\w[\w/-]*)")


def check_markdown(hosts: tuple[Checked, ...]) -> str:
    """The report of `check`, a section for each host."""
    lines = ["# hosttune check", ""] if len(hosts) > 1 else []
    for one in hosts:
        lines += [f"## {plain(shown(one.page.host))}", "", *_head(one)]
        lines += _sections(ALL if one.page.is_verbose else LISTED, one.plan.findings, one.page)
        if not one.page.is_verbose and (quiet := quiet_text(summarize(one.plan))):
            lines += [f"{quiet}.", ""]
        lines += [plain(shown(one.proposal)), ""] if one.proposal else []
        lines += _steps(next_steps(one.plan, one.page))
        lines += [_made(one), ""]
    return "\n".join(lines[:-1]) + "\n"


def plan_markdown(one: Checked) -> str:
    """The plan of one host: what each rule would change, why the rest does not happen, how to say yes."""
    plan, page = one.plan, one.page
    lines = [f"## Plan for {plain(shown(page.host))}", "", *_head(one)]
    lines += [plain(shown(one.chosen)), ""] if one.chosen else []
    lines += _sections((FAULTS,), plan.findings, page)
    lines += _stages(plan)
    lines += _sections((UNKNOWN, *HELD), plan.findings, page)
    if plan.changes:
        lines += ["### In all", "", *(f"- {plain(text)}" for text in closing(plan)), f"- Digest `{plan.digest}`", ""]
    if yes := the_yes(plan, page):
        lines += ["To make exactly these changes:", "", *fenced([yes], "sh"), ""]
    return "\n".join([*lines, _made(one)]) + "\n"


def plain(text: str) -> str:
    """Text that means itself in Markdown; what is quoted as code, or would call somebody, becomes code."""
    parts, last = [], 0
    for span in _CODE.finditer(text):
        parts += [_SPECIAL.sub(r"\\\g<0>", text[last : span.start()]), code(span[1] or span[2])]
        last = span.end()
    return "".join(parts) + _SPECIAL.sub(r"\\\g<0>", text[last:])


def code(text: str) -> str:
    """Text as a code span, whatever backticks it holds."""
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(lines: Iterable[str], language: str, *, indent: str = "") -> list[str]:
    """Lines as a code block, whatever backticks they hold."""
    body = list(lines)
    fence = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return [f"{indent}{fence}{language}", *(f"{indent}{line}".rstrip() for line in body), f"{indent}{fence}"]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _head(one: Checked) -> list[str]:
    lines = [plain(one.machine_text), ""] if one.machine else []
    lines += [decision_text(one.plan), ""]
    warnings = [plain(text) for text in warning_texts(one.plan, one.page)]
    return [*lines, *(f"> {text}  " for text in warnings), *([""] if warnings else [])]


def _sections(sections: Iterable[Section], findings: Iterable[Finding], page: Page) -> list[str]:
    lines: list[str] = []
    for section, own in grouped(sections, findings):
        lines += [f"### {section.title} ({rules_in(own)})", ""]
        for finding in own:
            one = told(finding, page)
            sentence = one.sentence(None if page.is_verbose else SHOWN_EVIDENCE)
            lines.append(f"- **{plain(one.rule)}**: {plain(sentence) or finding.verdict}")
            lines += [f"  - why not: {plain(one.why_not)}"] if one.why_not else []
            lines += [f"  - do: {plain(one.todo)}"] if one.todo else []
        lines.append("")
    return lines


def _stages(plan: Plan) -> list[str]:
    lines: list[str] = []
    for number, stage in enumerate(plan.stages, 1):
        title, when = stage_title(plan, number)
        lines += [f"### {title} ({when})", ""] if title else []
        for rule, changes in by_rule(stage):
            lines += [f"#### {plain(shown(rule))}", "", f"{price(changes)}", ""]
            lines += [line for change in changes for line in _change(change)]
            lines.append("")
        if text := triggers_text(stage):
            lines += [plain(text), ""]
    return lines


def _change(change: Change) -> list[str]:
    note = f" ({note_of(change)})" if note_of(change) else ""
    lines = [f"- {code(title_line(change))}{note}"]
    if body := body_lines(change):
        lines += fenced(body, "diff", indent="  ")
    return [*lines, *([f"  {plain(shown(change.reason))}"] if change.reason else [])]


def _steps(steps: list[tuple[str, str]]) -> list[str]:
    lines = [f"- {code(command)} {why}" if command else f"- {why}" for command, why in steps]
    return ["### Next", "", *lines, ""] if lines else []


def _made(one: Checked) -> str:
    profile = f", profile {plain(shown(one.profile))}" if one.profile else ""
    return f"*hosttune {one.plan.tool_version}, {one.plan.created_at}{profile}*"
