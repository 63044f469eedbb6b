"""`hosttune help COMMAND`: the same as `hosttune COMMAND --help`."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument

EXAMPLES = ("hosttune help apply", "hosttune help nodes")


def help(  # noqa: A001 - a command is a function of its name
    words: Annotated[
        list[str] | None,
        Argument(metavar="[COMMAND]...", help="Or a group (nodes). Without it: all."),
    ] = None,
) -> int:
    """Show the options and examples of a command."""
    from hosttune.cli.app import COMMANDS, GROUPS, run

    name = " ".join(words or ())
    group = () if name in COMMANDS else GROUPS.get(name.capitalize(), ())
    return run(["--help"] if group else [*(words or ()), "--help"], group)
