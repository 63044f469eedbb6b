"""What the kernel log of this boot says of disks that fail requests, file systems that stopped, NFS
servers that are silent, and tasks that hang.

Kernel: fs/ext4/super.c (`Remounting filesystem read-only`, `mounted filesystem`),
fs/xfs/xfs_fsops.c (`Shutting down filesystem`), fs/xfs/xfs_error.c (`Metadata corruption detected
at`), net/sunrpc/clnt.c (`server X not responding, still trying`, `timed out` of a soft mount,
`OK`), kernel/hung_task.c (`task NAME:PID blocked for more than N seconds`, which is logged ten
times at most), block/blk-mq.c (`I/O error, dev sda, sector N`; what a disk merely does not support
has other words; a drive that may be reached over several controllers, nvme0n1, is there as
nvme0c1n1). A task that the log names and that went on since is none that hangs: /proc/PID/stat and
/proc/PID/wchan tell (proc_pid_stat(5)).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, UnknownFact, attempt, keep_known, lazy, make_shared
from hosttune.facts.kernel.kernel_log import (
    OF_MOUNTS,
    OF_SWAP,
    SILENT_DISKS,
    lines_of,
    message_of,
    newest_of_each,
)
from hosttune.facts.reading import if_absent, read_line, read_text, require_known, require_sure
from hosttune.facts.storage.nfs import sees_only_of_pods
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import FIRST_PERSON, Stat
from hosttune.host.known.wait_channels import OF_FILE_SERVERS, waits_for_lock
from hosttune.host.reading.mountinfo import MountLine, parse
from hosttune.regex import regex
from hosttune.values import ABSENT, TooLong, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")
# lines that are kept of each kind and device: disks' errors come in storms, as failing mounts do
_MOST = 400
_LONGEST_NAME = 80  # characters of a device that does not answer
_STOPS = regex(
    r"(?:EXT4-fs|XFS) \(([\w!-]{1,64})\): (Remounting filesystem read-only|shut down requested"
    r"|mounted filesystem"
    r"|Ending (?:clean mount|recovery)|User initiated shutdown |.{1,200}Shutting down filesystem)"
)
_DAMAGED = regex(r"XFS \(([\w!-]{1,64})\): Metadata (?:corruption|CRC error) detected at ")
_NFS = regex(
    r"nfs: server (\S{1,255}) (not responding, still trying|not responding, timed out|OK)$"
)
_HUNG = regex(
    r"INFO: task (.{1,64}):(\d{1,10}) blocked (?:in I/O wait )?for more than (\d+) seconds"
)
_ERROR = regex(
    r"(?:\w+: )?(?:I/O|timeout|critical medium|protection"
    r"|device offline) error, dev ([\w!-]{1,64}), sector \d+"
    r"(?: op 0x[0-9a-f]+:\((READ|WRITE|FLUSH)\))?(?! op)"
)
# What a disk says that does not answer: nvme/host/pci.c, scsi/scsi_error.c and ata/libata-eh.c
# among the drivers.
_SILENT_DISK = regex(SILENT_DISKS.removeprefix("|"))
_FAILED_MOUNT = regex(OF_MOUNTS.removeprefix("|"))
_OF_DEVICE = regex(
    r"[A-Za-z0-9-]{1,9} ?(?:error |warning )?(?:\((?:device )?"
    r"|: )(?P<name>[\w!-]{1,64})(?::? state \w{1,8})?\)?: "
    r"(?P<words>.{1,200})"
)
_OF_OPTION = regex(r"(?P<name>\w+): (?P<words>Unknown parameter '[^']{1,64}')")
# In a user namespace mount(2) reads the options before it asks for the right to mount that type
# (fs/namespace.c, do_new_mount): each user can have this logged as often as they like.
_BY_ANY_USER = regex(r"\w{1,32}: Unknown parameter '")
_SWAP = regex(OF_SWAP.removeprefix("|"))
_MOUNTED = ("mounted filesystem", "Ending clean mount", "Ending recovery")
# And those in which it waits for a disk, or for a server of another type: mm/filemap.c,
# fs/buffer.c, fs/jbd2, block/. A mutex is waited for in whatever function takes it, and any user
# can hold many of them. Drivers of GPUs and network cards are judged by their own rules.
_OF_A_DISK = regex(
    r"_*(?:io_schedule|bit_wait|wait_on_|folio_|filemap_|submit_bio|bio_|blk|rq_qos_|wbt_|swap_"
    r"|read_|sync_|wb_|writeback"
    r"|balance_dirty|jbd2_|wait_transaction_|add_transaction_|do_get_write_access|xlog_|xfs_(?:log"
    r"|buf|ail|trans|inodegc)"
    r"|btrfs_|dm_|md_|raid|nvme_|scsi_|sd_|cv_wait|cv_timedwait|zio_|txg_|dmu_|z[iv]l_"
    r"|request_wait_answer|fuse_|ldlm_|osc_|cl_|obd_)"
)
# Where the other threads of a program wait while the kernel writes its core dump; before Linux 6.12
# no signal reaches them there (commit b8e753128ed0). exit_mm is that of 5.15 and older, which may
# be a part of do_exit (from memory).
_PARKED = frozenset({"coredump_task_exit", "exit_mm", "do_exit"})
# A worker of the kernel waits here for requests of a program that ended, for ever if that program
# left two rings that wait for each other (https://github.com/axboe/liburing/issues/448): any user
# can do that.
_RING_ENDS = "io_ring_exit_work"
_DUMPS = regex(r"^CoreDumping:\s+1$", re.MULTILINE)  # proc_pid_status(5), Linux 4.15
# one folder each, of the user who mounted it; also where it is detached
_CONNECTIONS = "/sys/fs/fuse/connections"
_MOST_NAMESPACES = 1024
# of a namespace over one controller (drivers/nvme/host/multipath.c)
_PATH = regex(r"(?<=\d)c\d+(?=n\d)")


@frozen
class ErringDisk(Fact):
    """A disk of this machine that failed requests in this boot."""

    name: str  # sda
    errors: int  # as the log tells, which leaves many out
    age_s: float  # since the last one; -1 where the log does not tell


@frozen
class SilentServer(Fact):
    """An NFS server that the kernel has given up, or still waits for."""

    name: str  # as it is mounted: nfs01
    # a hard mount: who asked waits until it is back; else a soft one, whose calls failed
    is_waited_for: bool
    # since a soft mount failed last, or a hard one began to wait; -1 where the log does not tell
    age_s: float

    @property
    def sentence(self) -> str:
        """nfs01 (for 60 min)."""
        return f"{self.name} (for {round(self.age_s / 60)} min)" if self.age_s >= 0 else self.name


@frozen
class HungTask(Fact):
    """A task that the kernel named as blocked for minutes, and that still is."""

    name: str  # python (4711)
    waits_in: str  # the function of the kernel that it sleeps in; empty where that is hidden
    # a FUSE file system or program of a user, or an NFS server of a pod, may hold it
    may_be_staged: bool = False


@frozen
class MountError(Fact):
    """Why the kernel did not mount something, in its own words."""

    # of the device, as in /sys/block: sda1; of an option that no type knows, the type; swapon
    name: str
    words: str  # as the log has them


@frozen
class StorageLog(Subject):
    """The lines of this boot. Raises UnknownFact where the log may not be read."""

    @fact
    def refusing(self) -> tuple[str, ...]:
        """Devices on which ext4 or XFS lets nothing be written since, by the kernel's name:
        sda1.
        """
        return self.facts.kernel_log.certain(refusing_in(self._lines))

    @fact
    def silent(self) -> tuple[SilentServer, ...]:
        """Those that were not heard of since."""
        return self.facts.kernel_log.certain(silent_in(self._lines, self.reader.now()))

    @fact
    def hung(self) -> tuple[HungTask, ...]:
        return self.facts.kernel_log.certain(_find_hung(self.reader, self.facts, self._lines))

    @fact
    def erring(self) -> tuple[ErringDisk, ...]:
        """No path of multipath, which goes another way, and nothing that can be pulled out."""
        return self.facts.kernel_log.certain(_find_erring(self.reader, self.facts, self._lines))

    @fact
    def damaged(self) -> Mapping[str, int]:
        """Devices on which XFS found damaged structures since it was mounted, and how often."""
        return self.facts.kernel_log.certain(count_damage(self._lines))

    @fact
    def mount_errors(self) -> tuple[MountError, ...]:
        """Each once, the newest last; of some kernels only mount(8) learns of it."""
        return mount_errors_in(self._lines)

    @fact
    def _lines(self) -> tuple[str, ...]:
        return self.facts.kernel_log.lines(choose_lines)


def choose_lines(log: str) -> tuple[str, ...]:
    """The lines of a kernel log that are about storage, the newest of each kind and device: errors
    of disks first.
    """
    errors, others = [], []
    for one in lines_of(log):
        words = message_of(one)[1]
        if match := _ERROR.match(words):
            errors.append(((_ERROR, match[1]), one))
        elif _SILENT_DISK.match(words):
            errors.append(((_SILENT_DISK, words.partition(": ")[0][:_LONGEST_NAME]), one))
        elif (
            match := _STOPS.match(words)
            or _DAMAGED.match(words)
            or _NFS.match(words)
            or _HUNG.match(words)
        ):
            others.append(((match.re, match[1]), one))
        elif _FAILED_MOUNT.match(words):
            others.append(
                ((_FAILED_MOUNT, match[0] if (match := _BY_ANY_USER.match(words)) else ""), one)
            )
    return (*newest_of_each(errors, _MOST), *newest_of_each(others, _MOST))


def _match_lines(
    lines: Iterable[str], pattern: re.Pattern[str]
) -> Iterator[tuple[float | None, re.Match[str]]]:
    """When the kernel logged what the pattern means, and what it found."""
    for at, words in map(message_of, lines):
        if match := pattern.match(words):
            yield at, match


def refusing_in(lines: Iterable[str]) -> tuple[str, ...]:
    """The devices on which ext4 or XFS stopped writing, and that were not mounted anew since."""
    last = {match[1]: match[2] for _, match in _match_lines(lines, _STOPS)}
    return tuple(sorted(device for device, words in last.items() if words not in _MOUNTED))


def count_damage(lines: Iterable[str]) -> Mapping[str, int]:
    """How often XFS found a structure damaged, by device, since it was mounted last."""
    found: Counter[str] = Counter()
    for _, words in map(message_of, lines):
        if match := _DAMAGED.match(words):
            found[match[1]] += 1
        elif (match := _STOPS.match(words)) and match[2] in _MOUNTED:
            found.pop(match[1], None)
    return found


def silent_in(lines: Iterable[str], now: float) -> tuple[SilentServer, ...]:
    """The servers of which the last word is not OK."""
    last: dict[str, tuple[float | None, str]] = {}
    for at, match in _match_lines(lines, _NFS):
        name, words = match.groups()
        # each task says it once more
        has_begun = words.endswith("trying") and last.get(name, (None, ""))[1] == words
        last[name] = last[name] if has_begun else (at, words)
    return tuple(
        SilentServer(name, words.endswith("trying"), _compute_age(at, now))
        for name, (at, words) in sorted(last.items())
        if words != "OK"
    )


def errors_in(lines: Iterable[str], now: float) -> tuple[ErringDisk, ...]:
    """Every device of which the log tells errors."""
    found: dict[str, list[float | None]] = {}
    for at, match in _match_lines(lines, _ERROR):
        found.setdefault(_PATH.sub("", match[1]), []).append(at)
    return tuple(
        ErringDisk(name, len(times), _compute_age(times[-1], now))
        for name, times in sorted(found.items())
    )


def mount_errors_in(lines: Iterable[str]) -> tuple[MountError, ...]:
    """Why mounts failed, as far as no mount of the same device came after that."""
    found: dict[tuple[str, str], MountError] = {}
    for _, words in map(message_of, lines):
        match = _OF_OPTION.match(words) or _OF_DEVICE.match(words)
        if not match and not _SWAP.match(words):
            continue
        name, sentence = (
            (match["name"], match["words"]) if match else ("swapon", words.removeprefix("swapon: "))
        )
        if sentence.startswith(_MOUNTED):
            found = {key: one for key, one in found.items() if one.name != name}
        elif _FAILED_MOUNT.match(words):
            # Taken out first, so that an error that came again is at the end, as the newest.
            found.pop((name, sentence), None)
            found[name, sentence] = MountError(name, sentence)
    return tuple(found.values())


def _compute_age(at: float | None, now: float) -> float:
    return -1.0 if at is None else max(0.0, now - at)


def _find_erring(reader: Reader, facts: Facts, lines: tuple[str, ...]) -> tuple[ErringDisk, ...]:
    found = errors_in(lines, reader.now())
    disks = {disk.name: disk for disk in facts.disks.physical} if found else {}
    paths = {path for one in facts.multipath.maps for path in one} if found else set()
    return tuple(
        one
        for one in found
        if one.name in disks and one.name not in paths and not disks[one.name].is_removable
    )


def _find_hung(reader: Reader, facts: Facts, lines: tuple[str, ...]) -> tuple[HungTask, ...]:
    named = {match[2]: match[1] for _, match in _match_lines(lines, _HUNG)}

    # A user's loop device or stick may fail as the user likes; what is not known counts as a disk
    # that fails.
    has_failed = make_shared(
        lambda: (
            any(_match_lines(lines, _SILENT_DISK))
            or attempt(lambda: bool(_find_erring(reader, facts, lines)))
        )
    )
    has_fuse = make_shared(lambda: _has_fuse_of_users(reader))

    def make_task(pid: str, name: str) -> HungTask:
        where = _wait(reader, pid)

        def may_be_staged() -> bool:
            is_local = not where.startswith(OF_FILE_SERVERS)
            if _sees_fuse(reader, pid) or (
                not is_local and sees_only_of_pods(facts, _mounts_seen(reader, pid))
            ):
                return True
            # A disk that hangs shows in a task that waits for it, and not only in those that wait
            # for that task.
            if not is_local or has_failed():
                return False
            if where.partition(".")[0] == _RING_ENDS or waits_for_lock(where):
                return True
            if not where:
                # raises where it cannot be read, and that may be a lock
                read_line(reader, f"/proc/{pid}/wchan")
            is_elsewhere = where != "" and not _OF_A_DISK.match(where)
            # With FUSE a user holds more locks than are known, and what waits for no disk may wait
            # for one of these.
            if _is_of_person(reader, pid):
                return is_elsewhere or has_fuse()
            return is_elsewhere and has_fuse()

        return HungTask(f"{name} ({pid})", where, lazy(may_be_staged))

    def hangs(pid: str, name: str) -> bool:
        return _is_blocked(reader, pid, name) and not _waits_for_dump(reader, pid)

    return keep_known(lambda one: (make_task(*one),) if hangs(*one) else (), named.items())


def _waits_for_dump(reader: Reader, pid: str) -> bool:
    """Whether another thread writes a core dump meanwhile: a large one takes minutes. A disk that
    hangs shows in that thread.
    """
    if not _DUMPS.search(str(read_text(reader, f"/proc/{pid}/status"))):
        return False
    return str(read_line(reader, f"/proc/{pid}/wchan")).partition(".")[0] in _PARKED


def _sees_fuse(reader: Reader, pid: str) -> bool:
    """Whether it sees a FUSE file system that its user mounted, or one that only its own mount
    namespace has: without `allow_other` that holds only tasks of this user, for as long as its
    server likes (fs/fuse/dev.c). The function that a task sleeps in does not tell: others wait for
    locks that one of them holds.
    """
    words = _read_ids(reader, pid)
    return any(user < 0 or str(user) in words for user in _fuse_users(reader, pid))


def _fuse_users(reader: Reader, pid: str) -> set[int]:
    """The users, but root, whose FUSE file systems a process sees; -1 for one that this mount
    namespace does not have, whose table names the user of another user namespace, and for one that
    made the table of its own too long to read.
    """
    namespace = reader.link(f"/proc/{pid}/ns/mnt")
    if isinstance(namespace, str) and namespace == reader.link("/proc/self/ns/mnt"):
        pid = "self"  # whose table is read at any length
    seen, own = (reader.read(f"/proc/{one}/mountinfo") for one in (pid, "self"))
    if isinstance(seen, Unreadable) and isinstance(seen.reason, TooLong):
        return {-1}
    seen, own = require_sure(seen), require_sure(own)
    if seen is ABSENT or own is ABSENT:
        return set()
    # A device number that we have too is of the same connection. Another one may be of a user
    # namespace, whose numbers of users mean others there.
    ours = {mount.device for mount in parse(own)}
    mounts = [mount for mount in parse(seen) if mount.fuse_user >= 0]
    return {mount.fuse_user if mount.device in ours else -1 for mount in mounts} - {0}


def _mounts_seen(reader: Reader, pid: str) -> tuple[MountLine, ...]:
    """Nothing of a table that cannot be read whole."""
    table = reader.read(f"/proc/{pid}/mountinfo")
    return parse(table) if isinstance(table, bytes) else ()


def _read_ids(reader: Reader, pid: str) -> list[str]:
    """The real, effective, saved and file system user of a process; empty where it is gone."""
    status = read_text(reader, f"/proc/{pid}/status")
    return next((row.split()[1:] for row in str(status).split("\n") if row.startswith("Uid:")), [])


def _is_of_person(reader: Reader, pid: str) -> bool:
    """Whether a person has a say in it, who started it or whose rights it has."""
    return any(int(word) >= FIRST_PERSON for word in _read_ids(reader, pid))


def _has_fuse_of_users(reader: Reader) -> bool:
    """Whether any user of this host has a FUSE file system. A task that copies from a file there
    into another one holds the lock of the latter for as long as the server likes, and all who wait
    for that lock see no FUSE.
    """
    names = reader.list(_CONNECTIONS)
    stats = (reader.stat(f"{_CONNECTIONS}/{name}") for name in if_absent(names, ()))
    if any(isinstance(one, Stat) and one.uid != 0 for one in stats):
        return True
    looked: set[str] = set()
    for process in require_known(reader.processes(), "the list of processes"):
        namespace = reader.link(f"/proc/{process.pid}/ns/mnt") if process.uid else ABSENT
        namespace = require_sure(namespace)
        if namespace is ABSENT or namespace in looked:
            continue
        looked.add(namespace)
        if len(looked) > _MOST_NAMESPACES:
            raise UnknownFact("this host has more mount namespaces than are looked through")
        if _fuse_users(reader, str(process.pid)):
            return True
    return False


def _is_blocked(reader: Reader, pid: str, name: str) -> bool:
    """Whether this task, and none that got its number since, sleeps where no signal comes."""
    stat = read_line(reader, f"/proc/{pid}/stat")
    if stat is ABSENT:
        return False
    comm, _, rest = stat.partition("(")[2].rpartition(")")
    # /proc adds what it works on
    is_same = comm == name or (name.startswith("kworker/") and comm.startswith(name))
    return is_same and rest.split()[:1] == ["D"]


def _wait(reader: Reader, pid: str) -> str:
    where = attempt(read_line, reader, f"/proc/{pid}/wchan")
    return where if isinstance(where, str) and where != "0" else ""
