"""`hosttune completion SHELL`: the words of the command line for a shell, as its package installs
them.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from hosttune.cli.options import Argument

EXAMPLES = (
    "hosttune completion bash > ~/.local/share/bash-completion/completions/hosttune",
    "hosttune completion zsh > /usr/local/share/zsh/site-functions/_hosttune",
    "hosttune completion fish > ~/.config/fish/completions/hosttune.fish",
)


class Shell(str, Enum):
    """A shell whose completion is known here."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Print the completion script of a shell."""
    from hosttune.cli.command_tree import read_tree
    from hosttune.cli.common import say
    from hosttune.cli.completion_scripts import SCRIPTS
    from hosttune.host.pager import switch_pager_off

    switch_pager_off()  # it is for a file
    say(SCRIPTS[shell.value](read_tree()))
    return 0
