"""`hosttune help COMMAND`: the same as `hosttune COMMAND --help`."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Argument

EXAMPLES = ("hosttune help apply",)


def help(  # noqa: A001 - a command is a function of its name
    words: Annotated[
        list[str] | None, Argument(metavar="[COMMAND]...", help="Without it: all commands.")
    ] = None,
) -> int:
    """Show the options and examples of a command."""
    from hosttune.cli.app import run

    return run([*(words or ()), "--help"])
