"""How a way by hand is shown: steps, of which each is a command that works as it is, or a
sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.values import Change


class CommandLine(str):
    """A step that is copied as it is, a command or a whole line of a file: it must not be broken
    into lines.
    """

    __slots__ = ()


def shorten_list(texts: list[str], many: int = 4) -> list[str]:
    """The first of many lines of one kind, and how many there are besides."""
    return (
        texts
        if len(texts) <= many
        else [*texts[:many], f"and {len(texts) - many} more of this kind"]
    )


def list_steps(changes: Iterable[Change], step: Callable[[Change], str]) -> list[str]:
    """A step for each change, the same one once."""
    return list(dict.fromkeys(map(step, changes)))
