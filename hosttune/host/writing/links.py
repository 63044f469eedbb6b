"""Symbolic links that `systemctl enable` would make, made inside a root without ever leaving it,
and durably.
"""

from __future__ import annotations

import os

from hosttune.errors import Conflict, Refused
from hosttune.host.writing.folders import opened_entry, sync_folder

_AGAIN = "run the plan again"


def make_link(root: str, path: str, target: str) -> None:
    """Make a link at `path` inside `root` whose text is `target`. Missing folders are made (0755).
    Raises Conflict where something is there already, Refused where it cannot be done safely.
    """
    try:
        with opened_entry(root, path, make=0o755) as (folder, name):
            os.symlink(target, name, dir_fd=folder)
            sync_folder(folder)
    except FileExistsError:
        raise Conflict(f"{path} is there already", hint=_AGAIN) from None
    except OSError as error:
        raise Refused(f"{path} cannot be made: {error.strerror}") from error


def remove_link(root: str, path: str, *, expected: str) -> None:
    """Remove the link at `path` inside `root`, whose text is `expected`. Raises Conflict where it
    is not, Refused where it cannot be removed.
    """
    try:
        with opened_entry(root, path) as (folder, name):
            if os.readlink(name, dir_fd=folder) != expected:
                raise Conflict(f"{path} was changed in the meantime", hint=_AGAIN)
            os.unlink(name, dir_fd=folder)
            sync_folder(folder)
    except FileNotFoundError:
        raise Conflict(f"{path} is not there any more", hint=_AGAIN) from None
    except OSError as error:
        raise Refused(f"{path} cannot be removed: {error.strerror}") from error
