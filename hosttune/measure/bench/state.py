"""The folder that keeps what benches found: /var/lib/hosttune/bench, for a user $XDG_STATE_HOME/hosttune/bench."""

from __future__ import annotations

from hosttune.host import state


def folder() -> str:
    """Where this user's results lie."""
    return state.folder("bench")


def names(prefix: str, where: str = "") -> tuple[str, ...]:
    """The files there whose names begin so, in order."""
    return state.names(prefix, where or folder())


def load(name: str, where: str = "") -> bytes | None:
    """The content of a file there; None where there is none that only this user could have written."""
    return state.load(name, where or folder())


def save(name: str, content: bytes, where: str = "") -> None:
    """Write a file there, at once and durably. Raises HosttuneError."""
    state.save(name, content, where or folder())


def remove(name: str, where: str = "") -> None:
    """Remove a file there, if it is there."""
    state.remove(name, where or folder())
