"""Which Python decodes, and as whom: the user's own, never with root's rights.

With root's rights the user is whoever typed sudo; else the owner of the interpreter; else of the data; else nobody.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hosttune.errors import Refused
from hosttune.frozen import frozen
from hosttune.host.interpreter import Interpreter, at_path, command_of, environment_of
from hosttune.values import Unreadable

NOBODY: Final = (65534, 65534)


@frozen
class Python:
    """An interpreter, the user it runs as, and the words that start it."""

    path: str
    uid: int
    command: tuple[str, ...]
    environment: Mapping[str, str]


def user_python(wanted: str | None, folder: str) -> Python:
    """The interpreter that is named, else `python3` of this PATH. Raises Refused with the reason."""
    path = wanted or shutil.which("python3")
    if path is None:
        raise Refused("there is no python3 on this PATH to decode with", hint="name one: --python PATH")
    path = str(Path(path).expanduser().absolute())
    found = at_path(path)
    if isinstance(found, Unreadable):
        raise Refused(f"--python: {found.reason}", hint="name the python of the environment that trains")
    euid = os.geteuid()
    if euid == 0:
        data, own = Path(folder).stat(), Path(path).stat()
        uid, gid = user_of(os.environ, (own.st_uid, own.st_gid), (data.st_uid, data.st_gid))
        found = Interpreter(path, uid, gid)
    command = command_of(found, euid)
    if isinstance(command, Unreadable):
        raise Refused(f"{path}: {command.reason}", hint="leave out --decode")
    return Python(path, found.uid, tuple(command), environment_of(found.uid))


def user_of(environment: Mapping[str, str], interpreter: tuple[int, int], data: tuple[int, int]) -> tuple[int, int]:
    """(uid, gid) for a process of root; never root's."""
    words = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    typed = (int(words[0]), int(words[1])) if all(map(str.isdecimal, words)) else (0, 0)
    return next((one for one in (typed, interpreter, data) if all(one)), NOBODY)
