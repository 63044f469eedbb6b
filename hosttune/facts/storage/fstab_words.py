"""Words of option lists that belong to no file system: those of mount(8) and of
systemd.mount(5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_GENERIC = """
defaults rw ro suid nosuid dev nodev exec noexec sync async dirsync auto noauto user nouser users
owner group
remount bind rbind move atime noatime relatime norelatime strictatime nostrictatime diratime
nodiratime lazytime
nolazytime mand nomand silent loud iversion noiversion symfollow nosymfollow loop nofail fail
_netdev private shared
slave unbindable rprivate rshared rslave runbindable
"""
GENERIC = frozenset(_GENERIC.split())
UPSTART = frozenset({"bootwait", "nobootwait", "showthrough"})
OPPOSITES = (  # the rarer one first
    ("ro", "rw"),
    ("suid", "nosuid"),
    ("dev", "nodev"),
    ("exec", "noexec"),
    ("sync", "async"),
    ("auto", "noauto"),
    ("fail", "nofail"),
    ("diratime", "nodiratime"),
    ("lazytime", "nolazytime"),
)
# What a word switches off, unless that is behind it (mount(8)).
USER_WORDS = {
    "user": ("exec", "suid", "dev"), "users": ("exec", "suid", "dev"), "owner": ("suid", "dev"),
    "group": ("suid", "dev"),
}  # fmt: skip


def is_noexec(words: Iterable[str]) -> str:
    """The word by which nothing on the mount can be executed: noexec, or `user` and `users`, which
    imply it; of these and `exec` the last counts (mount(8)). Empty where it can.
    """
    last = ""
    for word in words:
        # `exec,user` is noexec again, so the order of the words decides, not which of them are
        # there.
        if word == "noexec" or "exec" in USER_WORDS.get(word, ()):
            last = word
        elif word == "exec":
            last = ""
    return last


_SYSTEMD = """
requires before after wanted-by required-by requires-mounts-for wants-mounts-for device-bound
automount idle-timeout
device-timeout mount-timeout makefs growfs pcrfs validatefs rw-only verity
"""
SYSTEMD = frozenset(f"x-systemd.{name}" for name in _SYSTEMD.split())
