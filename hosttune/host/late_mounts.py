"""Looks at places in which a user may mount a file system at the very moment, and then never answer.

A FUSE file system comes to be in any folder that a user can write (fusermount3(1)), and inotify(7) says when root opens
that folder. What was known of mounts before is then old. So such a look is done by a thread that is left behind where
no answer comes. Its wait is one that signal 9 ends, and the end of the command ends it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread, current_thread, main_thread
from typing import Final, TypeVar

from hosttune.host.effort import EFFORT
from hosttune.values import Unreadable

T = TypeVar("T")
ANSWER_S: Final = 10.0  # without an answer in this time, a file system is taken for dead
_FEW: Final = 2  # looks that are waited for so long; the others, one in a folder of each user, a twentieth of it
# Where users write no folder.
_OF_ROOT: Final = (
    "/bin/", "/boot/", "/dev/", "/etc/", "/lib/", "/lib64/", "/proc/", "/run/systemd/", "/run/udev/", "/sbin/", "/sys/",
    "/usr/", "/var/cache/", "/var/lib/", "/var/log/",
)  # fmt: skip
_CHOSEN: Final = frozenset({"root", "cwd", "fd", "map_files"})  # links in /proc/PID whose ends a process chose
_silent: set[str] = set()  # folders behind which something gave no answer


def ask_in_time(path: str, look: Callable[[], T]) -> T | Unreadable:
    """What `look` finds at a path of this host; Unreadable where no file system answers. Another thread than the first
    looks itself: what started it waits for it no longer than it may take (host/in_time.py). So does one with the rights
    of a user, which no other thread has (host/thread_ids.py).
    """
    if os.geteuid() != 0 or current_thread() is not main_thread() or _is_of_root(path):
        return look()
    top = "/".join(path.split("/", 4)[:4])  # deeper than /var/tmp and /run/user, which all users share
    silence = Unreadable(f"{path}: its file system gives no answer")
    if top in _silent:
        return silence
    found: list[T] = []
    errors: list[BaseException] = []
    spent: list[int] = []

    def work() -> None:
        try:
            found.append(look())
        except BaseException as error:  # noqa: BLE001 - for the thread that asks
            errors.append(error)
        spent.append(EFFORT.spent)

    thread = Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return look()
    thread.join(ANSWER_S if len(_silent) < _FEW else ANSWER_S / 20)
    if not spent:
        _silent.add(top)
        return silence
    EFFORT.spent += spent[0]
    if errors:
        raise errors[0]
    return found[0]


def _is_of_root(path: str) -> bool:
    if not path.startswith("/") or path.count("/") < 2:  # /home itself is root's
        return True
    parts = path.split("/")
    if path.startswith("/proc/"):
        return _CHOSEN.isdisjoint(parts)
    return path.startswith(_OF_ROOT) and ".." not in parts and not path.startswith("/dev/shm/")
