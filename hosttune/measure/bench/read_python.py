"""Which Python decodes, and as whom: as the user who wrote its code, never with root's rights.

Identity comes from the code, not from the person who asks. A Python that one user can change runs
as that user. If only root can change all of it, the user is chosen: who typed sudo, else the owner
of the data, else the user no one. The owner of the data adds no code to it (no user site-packages).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hosttune.errors import Refused
from hosttune.frozen import frozen
from hosttune.host.processes.interpreter import (
    Interpreter,
    at_path,
    command_of,
    environment_of,
    why_no_program,
)
from hosttune.host.reading.paths import walk
from hosttune.host.writing.own import user_who_typed
from hosttune.values import Unreadable

NOBODY: Final = 65534


@frozen
class Python:
    """An interpreter, the user it runs as, and the words that start it."""

    path: str
    uid: int
    command: tuple[str, ...]
    environment: Mapping[str, str]


def user_python(wanted: str | None, folder: str) -> Python:
    """The interpreter that is named, else `python3` of this PATH. Raises Refused with the
    reason.
    """
    # The PATH of the caller chooses a program, but not its user: the owner of the code decides
    # below as whom it runs.
    path = wanted or shutil.which("python3")
    if path is None:
        raise Refused(
            "there is no python3 on this PATH to decode with", hint="name one: --python PATH"
        )
    path = str(Path(path).expanduser().absolute())
    euid = os.geteuid()
    typed = user_who_typed(os.environ)
    found = _open_own(path, euid) if euid else at_path(path, typed or _find_owner(folder) or NOBODY)
    if isinstance(found, Unreadable):
        hint = (
            "name the python of the environment that trains, whose code belongs to one user, or "
            "run it as that user"
        )
        raise Refused(f"--python: {found.reason}", hint=hint)
    command = command_of(found, euid)
    if isinstance(command, Unreadable):
        raise Refused(f"{path}: {command.reason}", hint="leave out --decode")
    environment = environment_of(found.uid)
    if found.is_roots and found.uid != typed:
        # The owner of the data chose nothing here: ~/.local of that user must not become part of a
        # system Python.
        environment["PYTHONNOUSERSITE"] = "1"
    return Python(path, found.uid, tuple(command), environment)


def _find_owner(folder: str) -> int:
    with walk("/", os.path.abspath(folder)) as found:
        return found.stat().st_uid


def _open_own(path: str, euid: int) -> Interpreter | Unreadable:
    """Without root's rights it runs as the caller, who could start it without hosttune, too."""
    reason = why_no_program(path)
    return Unreadable(reason) if reason else Interpreter(path, euid, os.getegid())
