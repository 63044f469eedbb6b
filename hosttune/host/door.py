"""The two ports of the door, and the plain values that pass through it.

A `Reader` can only look; a `Writer` can also change. `check`, `plan` and a dry-run `apply` are
handed a Reader, so the type checker holds the promise that they change nothing. Paths are absolute,
`/`-separated and mean the path inside the reader's root; symbolic links resolve inside that root.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from hosttune.errors import Refused
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import Cleaned
from hosttune.values import Absent, Answer, FileValue

FileType: TypeAlias = Literal["file", "directory", "link", "block", "character", "fifo", "socket"]


@frozen
class Stat:
    """The part of stat(2) that hosttune decides with."""

    type: FileType
    mode: int  # permission bits, 0o7777
    uid: int
    gid: int
    size: int
    mtime_ns: int
    device: int  # st_dev
    inode: int
    links: int
    rdev: int = 0  # st_rdev of a device node

    @property
    def major(self) -> int:
        """The major number of a device node."""
        return os.major(self.rdev)


@frozen
class Space:
    """The part of statvfs(3) that hosttune decides with."""

    total_bytes: int
    available_bytes: int  # to an ordinary user
    total_inodes: int
    available_inodes: int
    # free, and for root alone (f_bfree less f_bavail); -1 in records of before
    reserved_bytes: int = -1


@frozen
class Completed:
    """A finished program. `status` is the exit status, negative for a signal (-9 is SIGKILL)."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self.stderr.decode("utf-8", "replace")


@frozen
class Usage:
    """What is below a folder. Not `is_complete`: it is more than that, because the count stopped at
    its bound or could not look everywhere.
    """

    size_bytes: int  # of regular files
    entries: int
    is_complete: bool


@frozen
class FstabReading:
    """What two programs make of one fstab; None for one that is missing or did not end."""

    verify: Completed | None  # findmnt --verify
    generator: Completed | None  # systemd-fstab-generator
    # what the generator wrote: (path below its folder, text or `-> link`)
    units: tuple[tuple[str, str], ...]


@frozen
class Trial:
    """A tmpfs mounted in a private namespace with `options`; `mountinfo` is its line, empty when it
    failed.
    """

    options: str
    mount: Completed | None
    mountinfo: str


@frozen
class Rehearsal:
    """An fstab before and after an edit, as the programs of a boot read it, and trial mounts of its
    tmpfs lines.
    """

    before: FstabReading
    after: FstabReading
    trials: tuple[Trial, ...] = ()


FIRST_PERSON = 1000  # user id: those below are of the system (Debian policy, 9.2.2)
# `lock-holder PATH` is no program: it is how a Reader is asked who holds a lock on a file
LOCK_HOLDER = "lock-holder"
# before the path of what root runs in a container, where any file can have any path
CONTAINED = "container:"


@frozen
class Process:
    """A running process, as far as this user may see it."""

    pid: int
    name: str
    user: str
    command: tuple[str, ...]  # argv with secrets masked
    rss_bytes: int
    swap_bytes: int
    # device nodes held open, by the names of this host, such as /dev/nvidia0; CUT: not all
    devices: tuple[str, ...]
    cgroup: str  # path of the v2 (or name=systemd) cgroup
    started_at: float  # seconds since the epoch
    parent: int = 0  # its parent's pid
    cpus: int = 0  # how many it may run on; 0 where that is not known
    # NAME=value of its environment, of known names alone (host/processes/proc.py)
    variables: tuple[str, ...] = ()
    # of the user with whose rights it runs; -1 where that is not known, as in records of before
    uid: int = -1
    # path of its executable, of root or the system; in a container of root's behind CONTAINED
    program: str = ""


ReaderKind: TypeAlias = Literal["live", "root", "record", "overlay"]


class Reader(Protocol):
    """Looks at a host. No method changes anything; none raises for what is merely absent or
    forbidden.
    """

    @property
    def kind(self) -> ReaderKind: ...

    @property
    def name(self) -> str:
        """What to call this host in a report: the host name, the root folder or the record file."""
        ...

    @property
    def persistent_only(self) -> bool:
        """True where no kernel runs under these files (`--root`): live values are not to be
        compared or set.
        """
        ...

    @property
    def is_privileged(self) -> bool:
        """True when reads and changes are done with root's rights."""
        ...

    @property
    def has_tried_packages(self) -> bool:
        """True where packages were entered in dpkg's list to try a plan, and nothing of what they
        bring is there.
        """
        ...

    def read(self, path: str) -> Answer[bytes]:
        """The whole content of a regular or kernel file (at most 64 MiB)."""
        ...

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        """The names in a folder, sorted."""
        ...

    def link(self, path: str) -> Answer[str]:
        """The text of a symbolic link (also /proc/self/ns/pid), not resolved."""
        ...

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]: ...

    def resolve(self, path: str) -> Answer[str]:
        """The canonical path inside the root: no links, no `..`."""
        ...

    def space(self, path: str) -> Answer[Space]: ...

    def usage(self, path: str) -> Answer[Usage]:
        """What is below a folder, on its own file system; links are counted, not followed."""
        ...

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        """Run a program that only looks. ABSENT: not installed. Unreadable: timed out, or not
        possible here.

        C locale, closed stdin, separate stderr, a fixed PATH. A program that writes caches or logs
        while it looks gets private folders (host/process.py).
        """
        ...

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        """How the programs of this host read two versions of its fstab, and whether the kernel
        takes these tmpfs options. Nothing outside a private namespace is touched. Unreadable where
        it cannot be tried.

        Under `--root` the programs of this machine are asked, and no kernel: the image will boot
        another one.
        """
        ...

    def fstab_untried_by(self) -> tuple[str, ...]:
        """Which programs `rehearse_fstab` cannot ask here, each with the reason; nothing where it
        asks all.
        """
        ...

    def refused_write(self, path: str) -> Refused | None:
        """Why a file cannot be written at this path, whatever its content: the refusal that
        `Writer.replace` would raise. None where nothing is known to be in the way; nothing is
        written.
        """
        ...

    def processes(self) -> Answer[tuple[Process, ...]]: ...

    def os_release(self) -> Answer[Mapping[str, str]]:
        """/etc/os-release or /usr/lib/os-release, keys in lower case, as `distro` reads them."""
        ...

    def now(self) -> float:
        """Seconds since the epoch, UTC; a record answers with the time it was made."""
        ...


class Writer(Reader, Protocol):
    """A Reader that can also change the host. Only `actions/` holds one. Every method raises
    HosttuneError (`Refused`, `Conflict`) with the reason when it cannot; the system is then as it
    was.
    """

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        """Put `new` in place of a file whose content is `expected`, atomically and durably.

        For an existing file owner, mode, ACL and extended attributes are kept, and `new.mode`, uid
        and gid apply to a new file only. Missing parent folders are made (0755, root).
        """
        ...

    def remove(self, path: str, *, expected: bytes) -> None:
        """Remove a file whose content is `expected`, durably; with the last drop-in of a unit its
        folder too.
        """
        ...

    def overwrite(self, path: str, content: bytes, *, expected: bytes) -> None:
        """Write as many bytes over those of a file whose content is `expected`, in place and
        durably: GRUB's environment block, which GRUB finds by its place on the disk, without the
        file system's journal.
        """
        ...

    def set_value(self, path: str, text: str) -> None:
        """Write a kernel value (/proc/sys, /sys) in one write(2)."""
        ...

    def set_atime(self, target: str, mode: str) -> None:
        """Set the atime mode (noatime, relatime, strictatime) of the topmost mount at `target`,
        nothing else.
        """
        ...

    def make_folder(self, path: str) -> None:
        """Make one folder (0755, root); its parent exists."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove one empty folder."""
        ...

    def mount(self, device: str, target: str, fstype: str, options: str) -> None:
        """Mount a block device (its path) on a folder; `options` as they stand in fstab."""
        ...

    def unmount(self, target: str) -> None:
        """Unmount what was mounted last at `target`, while no one uses it."""
        ...

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link whose text is `target`, durably. Missing parent folders are made
        (0755).
        """
        ...

    def remove_link(self, path: str, *, expected: str) -> None:
        """Remove a symbolic link whose text is `expected`, durably."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a program that changes the host. Raises Refused when it is missing, does not end in
        time or exits non-zero.
        """
        ...

    def append(self, path: str, data: bytes) -> None:
        """Append to a file of hosttune's own and sync it; the file (0600) and its folders (0700)
        are made when missing.
        """
        ...

    def publish(self, path: str, new: FileValue | Absent) -> None:
        """Write a file that programs of others read, whole, or take it away; its folder is there
        (host/writing/output.py).
        """
        ...

    def log(self, message: Cleaned, message_id: str = "") -> None:
        """One line for the system log, identifier `hosttune`. `message_id`: 32 hex digits by which
        systemd's journal finds it (systemd.journal-fields(7)).
        """
        ...

    def operator(self) -> str:
        """Who acts: the login name, and `via sudo` where it was so."""
        ...

    def discard_leftovers(self, path: str) -> None:
        """Remove temp files that an interrupted `replace` of this path left beside it."""
        ...


class BeforeReader:
    """What a Reader that is before another one passes on as it is."""

    def __init__(self, base: Reader) -> None:
        self.base = base

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def persistent_only(self) -> bool:
        return self.base.persistent_only

    @property
    def is_privileged(self) -> bool:
        return self.base.is_privileged

    @property
    def has_tried_packages(self) -> bool:
        return self.base.has_tried_packages

    def usage(self, path: str) -> Answer[Usage]:
        return self.base.usage(path)

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        return self.base.rehearse_fstab(before, after, tmpfs_options)

    def fstab_untried_by(self) -> tuple[str, ...]:
        return self.base.fstab_untried_by()

    def refused_write(self, path: str) -> Refused | None:
        return self.base.refused_write(path)


def source_of(reader: Reader) -> str:
    """The program other than hosttune whose file this reader reads as a record:
    nvidia-bug-report.sh 34275367.
    """
    return str(getattr(reader, "source", ""))
