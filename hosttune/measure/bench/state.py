"""The folder that keeps what benches found: /var/lib/hosttune/bench, for a user
$XDG_STATE_HOME/hosttune/bench.
"""

from __future__ import annotations

from hosttune.host.writing import state


def name_folder() -> str:
    """Where this user's results lie."""
    return state.name_folder("bench")


def list_names(prefix: str, where: str = "") -> tuple[str, ...]:
    """The files there whose names begin so, in order."""
    return state.list_names(prefix, where or name_folder())


def load(name: str, where: str = "") -> bytes | None:
    """The content of a file there; None where there is none that only this user could have
    written.
    """
    return state.load(name, where or name_folder())


def save(name: str, content: bytes, where: str = "") -> None:
    """Write a file there, at once and durably. Raises HosttuneError."""
    state.save(name, content, where or name_folder())


def remove(name: str, where: str = "") -> None:
    """Remove a file there, if it is there."""
    state.remove(name, where or name_folder())
