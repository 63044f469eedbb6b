"""`hosttune explain RULE`: one rule, and what it says of this host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, HostOptions, Option, ReportFormat, ShowReport

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.host.door import Reader


EXAMPLES = (
    "hosttune explain",
    "hosttune explain noatime",
    "hosttune explain gpu-driver --host RECORD",
)


def explain(
    look: HostOptions,
    show: ShowReport,
    rule: Annotated[
        str | None,
        Argument(
            metavar="[RULE]",
            help="Its id, or the end of it (noatime). Without it: rules that differ here.",
        ),
    ] = None,
    source: Annotated[
        bool, Option("--source", help="Its file instead, in a checkout with its cases.")
    ] = False,
) -> int:
    """Explain a rule: why, gain, risk, how to undo it."""
    from hosttune.actions.examine import examine
    from hosttune.actions.writers import name_writers
    from hosttune.cli.common import load_choice, open_page, tell_idle
    from hosttune.cli.reports import deliver, profile_text
    from hosttune.cli.rule_files import source_of
    from hosttune.codec import dump_json
    from hosttune.errors import HosttuneError
    from hosttune.views.explain import explain_json, explain_report, explain_rule

    reader, catalog, policy = load_choice(look)
    if rule is None:
        return _list_differing(reader, catalog, policy, look, show)
    asked = _find_rule(rule, catalog)
    if source:
        if show.format is not ReportFormat.TEXT:
            raise HosttuneError(
                "--source shows a file as it is, and in no other format", hint="leave --format out"
            )
        deliver(source_of(asked, reader), show.output)
        return 0
    session = examine(reader, catalog, policy.only(asked.id))
    plan = session.plan()
    tell_idle(session, plan, everything=True)
    findings = name_writers(plan.findings, reader, ask=True)
    # The policy of the session is cut down to this one rule.
    chosen = profile_text(replace(session, policy=policy))
    one = explain_rule(session.selected[0], session.facts, policy, catalog, findings, chosen)
    text = (
        dump_json(explain_json(one))
        if show.is_json
        else explain_report(one, open_page(reader, look, show))
    )
    deliver(text, show.output)
    return 0


def _list_differing(
    reader: Reader, catalog: Catalog, policy: Policy, look: HostOptions, show: ShowReport
) -> int:
    """What there is to explain on this host."""
    from hosttune.actions.examine import examine
    from hosttune.cli.common import open_page
    from hosttune.cli.reports import deliver
    from hosttune.errors import HosttuneError
    from hosttune.views.explain import differing_text

    if show.format is not ReportFormat.TEXT:
        raise HosttuneError(
            "explain: a rule is missing", hint="name one; without one the answer is text"
        )
    session = examine(reader, catalog, policy)
    titles = {rule.id: rule.title for rule in session.selected}
    deliver(
        differing_text(session.plan().findings, titles, open_page(reader, look, show)), show.output
    )
    return 0


def _find_rule(name: str, catalog: Catalog) -> Rule:
    """The rule that goes by this name now; a word on standard error where that is another one than
    was typed.
    """
    from hosttune.cli.common import tell
    from hosttune.engine.policy.policy import name_notes, unknown_rule

    rule = catalog.rules.get(catalog.find_id(name))
    if rule is None:
        raise unknown_rule(catalog, name)
    for note in name_notes(catalog, (name,)):
        tell(f"hosttune: {note}")
    return rule
