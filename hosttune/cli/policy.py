"""`hosttune policy`: a policy file checked, and placed on hosts."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument, Option, RulesFolder, ShowPlain

EXAMPLES = ("hosttune policy", "hosttune policy FILE --host RECORD")


def policy(
    show: ShowPlain,
    file: Annotated[
        str | None,
        Argument(metavar="[FILE]", help="By default the host's own, /etc/hosttune/policy.yaml."),
    ] = None,
    host: Annotated[
        list[str] | None,
        Option(
            "--host", metavar="RECORD", help="The host of a record (repeatable); else this one."
        ),
    ] = None,
    root: Annotated[
        str | None, Option("--root", metavar="DIR", help="The host whose files lie in DIR.")
    ] = None,
    rules: RulesFolder = None,
) -> int:
    """Check a policy file, and which parts fit which host. Parts that do nothing are reported.

    Exit status: 0 all of it does something, 1 something does not, 2 it has faults.
    """
    from hosttune.actions.policy_look import list_remarks, place_policy
    from hosttune.cli.common import open_page, say, tell_notes, write_json
    from hosttune.engine.rules.catalog import load_catalog
    from hosttune.host import open_reader
    from hosttune.views.policy import policy_json, policy_text

    records: list[str | None] = [*dict.fromkeys(host)] if host else [None]
    placed = []
    for record in records:
        reader = open_reader(root=root, host=record)
        placed.append(place_policy(reader, load_catalog(reader, rules), file))
    tell_notes(*(one.policy for one in placed))
    found = list_remarks(tuple(placed))
    if show.is_json:
        write_json(policy_json(tuple(placed), found))
    else:
        say(policy_text(tuple(placed), found, open_page(reader, None, show)))
    return int(bool(found))
