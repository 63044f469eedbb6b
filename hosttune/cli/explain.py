"""`hosttune explain RULE`: one rule, and what it says of this host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Look, Option, Show

if TYPE_CHECKING:
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.rule import Rule


def explain(
    look: Look,
    show: Show,
    rule: Annotated[str, Argument(metavar="RULE", help="Its id (see: hosttune rules).")],
    source: Annotated[bool, Option("--source", help="Its file instead, in a checkout with its cases.")] = False,
) -> int:
    """Explain a rule: why, gain, risk, sources, what it reads, how by hand, how to switch it off, what it does here."""
    from hosttune.actions.examine import examine
    from hosttune.actions.writers import named
    from hosttune.cli.common import load_choice, open_page, say, tell_idle, write_json
    from hosttune.cli.measured import measured
    from hosttune.cli.reports import profile_text
    from hosttune.cli.rule_files import source_of
    from hosttune.errors import HosttuneError
    from hosttune.views.explain import explain_json, explain_text, explained
    from hosttune.views.measure.measured import of_rule

    reader, catalog, policy = load_choice(look)
    asked = _named(rule, catalog)
    if source:
        if show.is_json:
            raise HosttuneError("--source shows a file as it is, and no JSON", hint="leave --format out")
        say(source_of(asked, reader))
        return 0
    session = examine(reader, catalog, policy.only(asked.id))
    said = of_rule(measured(look), session.selected[0].id)
    plan = session.plan()
    tell_idle(session, plan, everything=True)
    findings = named(plan.findings, reader, ask=True)
    chosen = profile_text(replace(session, policy=policy))
    one = explained(session.selected[0], session.facts, policy, catalog, findings, said, chosen)
    if show.is_json:
        write_json(explain_json(one))
    else:
        say(explain_text(one, open_page(reader, look, show)))
    return 0


def _named(name: str, catalog: Catalog) -> Rule:
    """The rule that goes by this name now; a word on standard error where that is another one than was typed."""
    from hosttune.cli.common import tell
    from hosttune.engine.policy import name_notes, nearest
    from hosttune.errors import HosttuneError

    rule = catalog.rules.get(catalog.current(name))
    if rule is None:
        raise HosttuneError(f"no rule is called {name}", hint=nearest(name, catalog.rules) or "see: hosttune rules")
    for note in name_notes(catalog, (name,)):
        tell(f"hosttune: {note}")
    return rule
