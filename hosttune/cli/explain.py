"""`hosttune explain RULE`: one rule, and what it says of this host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, HostOptions, Option, ReportFormat, ShowReport

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.rule import Rule


EXAMPLES = ("hosttune explain storage-noatime", "hosttune explain gpu-driver --host RECORD")


def explain(
    look: HostOptions,
    show: ShowReport,
    rule: Annotated[str, Argument(metavar="RULE", help="Its id (see: hosttune rules).")],
    source: Annotated[bool, Option("--source", help="Its file instead, in a checkout with its cases.")] = False,
) -> int:
    """Explain a rule: why, gain, risk, how to undo it."""
    from hosttune.actions.examine import examine
    from hosttune.actions.writers import name_writers
    from hosttune.cli.common import load_choice, open_page, tell_idle
    from hosttune.cli.reports import deliver, profile_text
    from hosttune.cli.rule_files import source_of
    from hosttune.codec import dumps
    from hosttune.errors import HosttuneError
    from hosttune.views.explain import explain_json, explain_report, explained

    reader, catalog, policy = load_choice(look)
    asked = _named(rule, catalog)
    if source:
        if show.format is not ReportFormat.TEXT:
            raise HosttuneError("--source shows a file as it is, and in no other format", hint="leave --format out")
        deliver(source_of(asked, reader), show.output)
        return 0
    session = examine(reader, catalog, policy.only(asked.id))
    plan = session.plan()
    tell_idle(session, plan, everything=True)
    findings = name_writers(plan.findings, reader, ask=True)
    chosen = profile_text(replace(session, policy=policy))
    one = explained(session.selected[0], session.facts, policy, catalog, findings, chosen)
    text = dumps(explain_json(one)) if show.is_json else explain_report(one, open_page(reader, look, show))
    deliver(text, show.output)
    return 0


def _named(name: str, catalog: Catalog) -> Rule:
    """The rule that goes by this name now; a word on standard error where that is another one than was typed."""
    from hosttune.cli.common import tell
    from hosttune.engine.gone import GONE, gone_note
    from hosttune.engine.policy import name_notes, nearest
    from hosttune.errors import HosttuneError

    rule = catalog.rules.get(catalog.current(name))
    if rule is None:
        near = "" if name in GONE else nearest(name, catalog.rules)
        message = gone_note(name) if name in GONE else f"no rule is called {name}"
        raise HosttuneError(message, hint=near or "see: hosttune rules")
    for note in name_notes(catalog, (name,)):
        tell(f"hosttune: {note}")
    return rule
