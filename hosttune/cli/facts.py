"""`hosttune facts`: what the host is, how it is set up, what goes on there."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from hosttune.cli.options import Look, Show, command


@command
def facts(
    look: Look,
    show: Show,
    subjects: Annotated[
        list[str] | None, Argument(metavar="[SUBJECT]...", help="Only these: memory, mounts, gpus ... and all of them.")
    ] = None,
) -> int:
    """Show the facts that rules decide with; what could not be read says why."""
    from hosttune.cli.common import one_host, open_page, say, write_json
    from hosttune.codec import to_json
    from hosttune.engine.catalog import builtin_catalog
    from hosttune.engine.policy import nearest
    from hosttune.errors import HosttuneError
    from hosttune.facts import Asked, Facts
    from hosttune.host import open_reader
    from hosttune.views.facts import facts_json, facts_text
    from hosttune.views.masking import masked

    for name in subjects or ():
        if name not in Facts.SUBJECTS:
            hint = nearest(name, Facts.SUBJECTS) or f"there is: {', '.join(Facts.SUBJECTS)}"
            raise HosttuneError(f"no fact is called {name}", hint=hint)
    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    rules = builtin_catalog().rules.values()
    asked = Asked(
        units=frozenset(name for rule in rules for name in rule.units),
        packages=frozenset(name for rule in rules for name in rule.packages),
    )
    collected = Facts(reader, asked)
    wanted = list(dict.fromkeys(subjects or Facts.SUBJECTS))
    collected.prefetch(wanted)
    data = {name: masked(to_json(getattr(collected, name))) for name in wanted}
    if show.is_json:
        write_json(facts_json(data))
    else:
        say(facts_text(data, open_page(reader, look, show), is_short=not subjects))
    return 0
