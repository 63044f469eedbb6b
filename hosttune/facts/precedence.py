"""Which of several files decides about one value, and which file an administrator writes so that it
does.

The files of a kind are in several folders (/etc, /run, /usr/local/lib, /usr/lib) and are read by
their names, whatever the folder. Of two files of one name, the one in /etc is read and the other is
not. Of two files that set one value, the one with the later name counts; in tmpfiles.d it is the
one with the earlier name. So a package's file is never edited: a file in /etc with a later name, or
with the same name, overrides it. Pure.

Sources: sysctl.d(5), modprobe.d(5), tmpfiles.d(5), udev(7), systemd.unit(5), limits.conf(5) with
pam_limits(8): within limits.d a later file counts, and between a user, a group and `*` the nearer
domain does.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts.file_owners import FileOwners
    from hosttune.facts.placed import Placed


@frozen
class FileOrder:
    """How the files of one kind count against each other."""

    folder: str  # where an administrator's files of this kind are
    suffix: str = ".conf"
    counts_first: bool = False  # of two files that set a value the earlier one counts
    last: str = ""  # what is read after all of the folder, if anything reads it

    def is_over(self, name: str, other: str) -> bool:
        """Whether a file of the one name counts over a file of the other."""
        return name < other if self.counts_first else name > other

    def path_over(self, path: str) -> str:
        """The file to write so that it counts over another one: with a name of its own, or with the
        same name in the folder of administrators where no name would do. No name comes after what
        is read last.
        """
        if path == self.last:
            return path
        other = posixpath.basename(path)
        edge = "00" if self.counts_first else "zz"
        # A name that sorts after every usual one goes first. If even that is taken by the other
        # file, only its own name in /etc is left, which hides it.
        names = (f"{edge}-local{self.suffix}", f"{edge}{other}", other)
        return f"{self.folder}/{next((name for name in names if self.is_over(name, other)), other)}"

    @property
    def word(self) -> str:
        """How a file that counts is read: earlier, or later."""
        return "earlier" if self.counts_first else "later"


SYSCTL: Final = FileOrder("/etc/sysctl.d", last="/etc/sysctl.conf")  # by TuneD (reapply_sysctl)
MODPROBE: Final = FileOrder("/etc/modprobe.d")
LIMITS: Final = FileOrder("/etc/security/limits.d")
TMPFILES: Final = FileOrder("/etc/tmpfiles.d", counts_first=True)
UDEV: Final = FileOrder("/etc/udev/rules.d", ".rules")


def unit_order(folder: str) -> FileOrder:
    """The drop-ins of a unit (`system/slurmd.service`), or of one of systemd's own programs
    (`logind.conf`).
    """
    return FileOrder(f"/etc/systemd/{folder}.d")


def find_losers(settings: Sequence[Placed], same: Callable[[str, str], bool]) -> tuple[Placed, ...]:
    """The settings that say something else than the one that counts, the last. What the kernel
    command line says is always seen by its author, and is left out.
    """
    return tuple(
        one for one in settings[:-1] if one.line and not same(one.value, settings[-1].value)
    )


def lost_words(
    settings: Sequence[Placed], order: FileOrder, owners: FileOwners, name: str
) -> tuple[str, ...]:
    """A sentence for each file that is meant for this host and whose setting has no effect, because
    another file counts over it.
    """
    found = []
    for one in find_losers(settings, _is_same):
        owner = owners[one.path]
        if owner.decides and owner.kind != "hosttune":
            winner = settings[-1]
            by = (
                f"{owned_place(winner, owners)} is read {order.word}"
                if winner.line
                else winner.place
            )
            found.append(f"{owned_place(one, owners)} ({name} = {one.value}) has no effect: {by}")
    return tuple(found)


def over_words(settings: Sequence[Placed], owners: FileOwners) -> str:
    """`, over /etc/sysctl.d/30-site.conf:1`: the files that are meant for this host and lose to the
    setting that counts, which is another's.
    """
    if not settings or (settings[-1].line and owners[settings[-1].path].decides):
        return ""
    lost = [
        one
        for one in find_losers(settings, _is_same)
        if owners[one.path].decides and owners[one.path].kind != "hosttune"
    ]
    return f", over {', '.join(one.place for one in lost)}" if lost else ""


def owned_place(one: Placed, owners: FileOwners) -> str:
    """`/usr/lib/sysctl.d/99-vendor.conf:2 of the package vendor`."""
    owner = owners[one.path] if one.line else None
    return (
        one.place if owner is None or owner.kind == "hosttune" else f"{one.place} of {owner.name}"
    )


def _is_same(one: str, other: str) -> bool:
    return one.split() == other.split()


def way_without(path: str, order: FileOrder, owners: FileOwners) -> str:
    """What a person does so that something in one file does not count: of a package's file a
    changed copy is read in its place.
    """
    owner = owners[path]
    copy = f"{order.folder}/{posixpath.basename(path)}"
    if owner.kind == "tool":
        return f"take it out where {owner.name} takes it from, it writes {quote(path)}"
    if owner.kind in {"administrator", "hosttune"} or copy == path:
        return f"take it out of {quote(path)}"
    return (
        f"sudo cp {quote(path)} {quote(copy)}, which is read in its place, and take it out of the "
        "copy"
    )


def way_over(one: Placed, order: FileOrder, owners: FileOwners, line: str) -> str:
    """What a person does so that a line, as it is shown, counts in place of what one file says: an
    administrator's own file is edited, that of a package is overridden by another file.
    """
    owner = owners[one.path] if one.line else None
    if owner is None or owner.kind == "administrator":
        return f"change {one.quoted_place}"
    if owner.kind == "tool":
        return f"change it where {owner.name} takes it from; it writes {quote(one.path)}"
    over = order.path_over(one.path)
    if over == one.path:
        return f"change {one.quoted_place}, which is {owner.name}'s"
    hides = posixpath.basename(over) == one.file_name
    how = "is read in its place, so copy the rest of it, too" if hides else f"is read {order.word}"
    return (
        f"put {line} into {quote(over)}, which {how} ({quote(one.path)} is of {owner.name}: leave "
        "it as it is)"
    )
