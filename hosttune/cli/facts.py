"""`hosttune facts`: what the host is, how it is set up, what goes on there."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument, ShowPlain, TargetOptions

EVERYTHING = "all"


EXAMPLES = ("hosttune facts", "hosttune facts memory gpus")


def facts(
    look: TargetOptions,
    show: ShowPlain,
    subjects: Annotated[
        list[str] | None,
        Argument(metavar="[SUBJECT]...", help="memory, mounts, gpus ... or all: their fields."),
    ] = None,
) -> int:
    """Show the facts that rules decide with. Of each SUBJECT, every field is listed with its type,
    value and meaning; what could not be read has its reason.
    """
    from hosttune.cli.common import one_host, open_page, say, write_json
    from hosttune.codec import to_json
    from hosttune.engine.policy.policy import suggest_nearest
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.engine.rules.lint import fact_types
    from hosttune.errors import HosttuneError
    from hosttune.facts import SUBJECTS, Facts, RequestedNames
    from hosttune.host import open_reader
    from hosttune.views.facts import asked_of, facts_json, facts_text, subjects_text
    from hosttune.views.masking import mask_data

    for name in subjects or ():
        if name not in (*SUBJECTS, EVERYTHING):
            hint = suggest_nearest(name, SUBJECTS) or f"there is: {', '.join(SUBJECTS)}"
            raise HosttuneError(f"no fact is called {name}", hint=hint)
    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    if not subjects and not show.is_json:
        say(subjects_text(SUBJECTS, open_page(reader, look, show)))
        return 0
    units = frozenset(name for rule in builtin_catalog().rules.values() for name in rule.units)
    collected = Facts(reader, RequestedNames(units))
    is_everything = not subjects or EVERYTHING in subjects
    wanted = list(SUBJECTS if is_everything else dict.fromkeys(subjects or ()))
    collected.prefetch(wanted)
    if show.is_json:
        write_json(
            facts_json({name: mask_data(to_json(getattr(collected, name))) for name in wanted})
        )
    else:
        kinds = {name: fact_types()[name] for name in wanted}
        data = {
            name: mask_data(asked_of(getattr(collected, name), kind))
            for name, kind in kinds.items()
        }
        say(facts_text(data, kinds, open_page(reader, look, show), is_short=is_everything))
    return 0
