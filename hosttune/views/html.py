"""Reports as one HTML file: nothing is loaded, and without JavaScript it only filters less.

Jinja2 escapes every text. The page's own policy (Content-Security-Policy) allows the one style and the one script in
it by their hashes, and nothing else.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from hosttune.rendering import render
from hosttune.views.change import body_lines, note_of, title_line
from hosttune.views.checked import group_of
from hosttune.views.findings import ALL, FAULTS, HELD, QUIET, UNKNOWN, grouped, told
from hosttune.views.page import shown
from hosttune.views.plan import by_rule, closing, price, stage_title, the_yes, triggers_text
from hosttune.views.report import decision_text, next_steps, warning_texts
from hosttune.views.summary import rules_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Change, Finding, Plan
    from hosttune.views.checked import Checked
    from hosttune.views.findings import Section

_SIGNS = {"+": "added", "-": "removed", "@": "place"}


def check_html(hosts: tuple[Checked, ...]) -> str:
    """The report of `check`: a section for each host, filters for outcome and group, an overview of several hosts."""
    told_hosts = [
        {**_host(one, number), "sections": _sections(ALL, one.plan.findings, one)} for number, one in enumerate(hosts)
    ]
    outcomes = [{"key": section.key, "title": section.title, "style": section.style} for section in ALL]
    groups = sorted({shown(group_of(finding.rule)) for one in hosts for finding in one.plan.findings})
    title = told_hosts[0]["name"] if len(hosts) == 1 else f"{len(hosts)} hosts"
    return page_html("check.html.j2", f"hosttune check: {title}", hosts=told_hosts, outcomes=outcomes, groups=groups)


def plan_html(one: Checked) -> str:
    """The plan of one host: what each rule would change, why the rest does not happen, how to say yes."""
    host = {
        **_host(one, 0),
        "stages": [_stage(one.plan, number, one) for number in range(1, len(one.plan.stages) + 1)],
        "faults": _sections((FAULTS,), one.plan.findings, one),
        "sections": _sections((UNKNOWN, *HELD), one.plan.findings, one),
        "closing": closing(one.plan) if one.plan.changes else [],
        "digest": one.plan.digest,
        "yes": the_yes(one.plan, one.page),
        "chosen": shown(one.chosen),
    }
    return page_html("plan.html.j2", f"hosttune plan: {host['name']}", host=host)


def page_html(template: str, title: str, **values: Any) -> str:
    """A page made of a template of templates/, with the one style and the one script that its policy allows."""
    style, script = render("report.css"), render("report.js")
    return render(
        template, title=title, style=style, script=script, style_hash=_hash(style), script_hash=_hash(script), **values
    )


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy: the element with exactly this text."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _host(one: Checked, number: int) -> dict[str, Any]:
    return {
        "id": f"host-{number}",
        "name": shown(one.page.host),
        "machine": one.machine_text,
        "decision": decision_text(one.plan),
        "proposal": shown(one.proposal),
        "warnings": warning_texts(one.plan, one.page),
        "steps": next_steps(one.plan, one.page),
        "version": one.plan.tool_version,
        "profile": shown(one.profile),
        "time": one.plan.created_at,
    }


def _sections(sections: Iterable[Section], findings: Iterable[Finding], one: Checked) -> list[dict[str, Any]]:
    return [
        {
            "key": section.key,
            "title": section.title,
            "style": section.style,
            "is_quiet": section in QUIET,
            "rules": rules_in(own),
            "findings": [_finding(finding, one) for finding in own],
        }
        for section, own in grouped(sections, findings)
    ]


def _finding(finding: Finding, one: Checked) -> dict[str, Any]:
    words = told(finding, one.page)
    about = one.about.get(finding.rule)
    return {
        "words": words,
        "group": shown(group_of(finding.rule)),
        "says": words.reason or words.sentence() or str(finding.verdict),
        "title": shown(about.title) if about else "",
        "risk": str(about.risk) if about else "",
        "gain": shown(about.gain) if about else "",
        "changes": [change_entry(change) for change in finding.changes],
    }


def _stage(plan: Plan, number: int, one: Checked) -> dict[str, Any]:
    title, when = stage_title(plan, number)
    stage = plan.stages[number - 1]
    rules = [
        {
            "rule": shown(rule),
            "title": shown(one.about[rule].title) if rule in one.about else "",
            "price": price(changes),
            "changes": [change_entry(change) for change in changes],
        }
        for rule, changes in by_rule(stage)
    ]
    return {"title": title, "when": when, "rules": rules, "then": triggers_text(stage)}


def change_entry(change: Change) -> dict[str, Any]:
    """A change as the macro `change` of the templates shows it."""
    return {
        "title": title_line(change),
        "note": note_of(change),
        "lines": [{"text": line, "kind": _SIGNS.get(line[:1], "")} for line in body_lines(change)],
        "reason": shown(change.reason),
    }
