"""`hosttune explain RULE`: one rule, and what it says of this host."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from hosttune.cli.options import Look, Show, command


@command
def explain(
    look: Look, show: Show, rule: Annotated[str, Argument(metavar="RULE", help="Its id (see: hosttune rules).")]
) -> int:
    """Explain a rule: why, risk, gain, sources, how by hand, how to switch it off, and what it would do here."""
    from hosttune.actions.examine import examine
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.engine.policy import nearest
    from hosttune.errors import HosttuneError
    from hosttune.views.explain import explain_json, explain_text

    reader, catalog, policy = load_choice(look)
    if rule not in catalog.rules:
        raise HosttuneError(f"no rule is called {rule}", hint=nearest(rule, catalog.rules) or "see: hosttune rules")
    one = catalog.rules[rule]
    findings = examine(reader, catalog, policy.only(rule)).plan(prove=False).findings
    own = tuple(finding for finding in findings if finding.rule == rule)
    params = policy.params_of(one)
    if show.is_json:
        write_json(explain_json(one, params, own))
    else:
        say(explain_text(one, params, own, open_page(reader, look, show)))
    return 0
