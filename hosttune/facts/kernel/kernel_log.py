"""The kernel log of this boot: journalctl(1), and dmesg(1) for those who find nothing in the
journal.

Each program is asked once for all that facts want of it: every question reads the whole journal.
Only the lines that one of them names are kept: the log is long, and the rest of it no one's
business.

Both forget. A journal is shortened (journald.conf(5), SystemMaxUse=), or ends where nothing can be
written any more: on a full disk, or one that has just failed. The buffer is a ring of some hundred
KiB (kernel: log_buf_len=). What either has counts, and nothing is "none" but where the last day was
seen: from the head of the boot on, or from a day ago.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections import Counter
from itertools import compress
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import UnknownFact, attempt, read_or_default
from hosttune.facts.reading import hint, if_absent
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import Unreadable, is_unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from hosttune.host.door import Reader

T = TypeVar("T")
_Split = tuple[float, str, str]

# How the kernel begins a message, the same to PCRE2 (journalctl) and to Python. Further on it
# quotes what users choose: names of programs, control groups, files and devices. A read of the
# driver's firmware that failed, as the kernel itself says it: `DRIVER SLOT: ` is no name of a
# user's.
_FIRMWARE = (
    r"|nvidia [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: (?:Direct firmware load for|loading"
    r"|firmware:) \S"
)
# A module that was built for another kernel, or for more of it than is here (kernel:
# kernel/module/main.c, version.c).
_MISFIT = (
    r"|nvidia: (?:version magic '|disagrees about version of symbol |no symbol version for "
    r"|Unknown symbol )"
)
# lines of the driver, of nouveau, and about refused modules; none of a network interface called
# NVRM
OF_GPUS = (
    r"NVRM: (?!(?:entered|left) |renamed |port \d|\(slave |option |Caught )"
    r"|nvidia-nvswitch\d*: (?:SXid \(|Probing )|nouveau [0-9a-f]{4,8}:"
    r"|(?:module: )?Loading of [\w ]+ is rejected"
    r"|PKCS#7 signature not signed with a trusted key"
    r"|Lockdown: .{1,15}: unsigned module loading is restricted" + _FIRMWARE + _MISFIT
)
_DIED = (
    r"|(?:Internal error: )?Oops: |BUG: (?:unable to handle|kernel NULL)|general protection fault"
    r"|invalid opcode: "
    r"|kernel BUG at |RIP: 0010:|pc : "
)
_STALLED = (  # a network card that sends nothing, or does not answer its driver
    r"|NETDEV WATCHDOG: |Detected (?:Hardware|Tx) Unit Hang|TX timeout detected"
    r"|timeout\. Will cause a leak of a comm"
)
OF_HOST = (
    r"(?:NMI )?watchdog: .*(?:soft lockup|hard LOCKUP)"
    r"|(?:rcu: )?INFO: rcu_\w+ .*detected (?:expedited )?stalls?"
    r"|oom-kill:constraint=CONSTRAINT_NONE,|(?:\{\d+\})?\[Hardware Error\]: "
    r"|mce: \[Hardware Error\]: CPU "
    r"|(?:mce: )?(?:CPU\d+ BANK\d+ )?CMCI storm detected|EDAC MC\d+: \d+ CE "
    r"|[\w-]+ [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7][ :].*"
    r"(?:Link (?:is )?[Dd]own|nsufficient power on the PCIe slot|Port module event\[error\]"
    + _STALLED
    + r")"
    r"|nvidia-peermem \w+:\d+ ERROR" + _DIED
)
# Types that only root can mount. In a user namespace users mount others (tmpfs, overlay, fuse:
# FS_USERNS_MOUNT): the kernel quotes the options that it refuses: words of that user, as many lines
# as they like.
_BY_ROOT = (
    r"ext[234]|xfs|btrfs|f2fs|vfat|msdos|exfat|ntfs3|iso9660|udf|nfs4?|cifs|smb3|ceph|gfs2|ocfs2"
    r"|virtiofs"
)
# Why a mount failed, as the file system says it (ext4_fill_super, xfs_mountfs, open_ctree,
# ntfs_fill_super ...). ext4_enable_quotas() of fs/ext4/super.c: with the feature quota and without
# the module quota_v2 each mount fails so.
_OF_QUOTAS = (
    r"|EXT4-fs warning \(device [\w!-]{1,64}\): ext4_enable_quotas:\d{1,6}: Failed to enable "
    r"quota tracking "
)
# Why a swap file is not taken: mm/swapfile.c, fs/iomap/swapfile.c (iomap_swapfile_fail).
OF_SWAP = (
    r"|swapon: (?:swapfile has holes|file .{1,512} (?:is inline|has unallocated extents"
    r"|is not committed"
    r"|has shared extents|is not on the main device)$)"
)
OF_MOUNTS = (
    r"|EXT[234]-fs (?:error )?\([\w!-]{1,64}\): (?:VFS: Can't find |bad geometry|bad block size"
    r"|unable to read superbl"
    r"|couldn't mount |error loading journal|group descriptors corrupted"
    r"|Unrecognized mount option )"
    r"|XFS \([\w!-]{1,64}\): (?:Invalid superblock magic|Filesystem has duplicate UUID"
    r"|SB validate failed|log mount"
    r"|Superblock has unknown |unknown mount option |Ending (?:clean mount|recovery))"
    r"|BTRFS error \(device [\w!-]{1,64}(?::? state \w{1,8})?\): (?:open_ctree failed"
    r"|devid \d+ uuid "
    r"|failed to read chunk|superblock checksum|unrecognized mount option )"
    r"|FAT-fs \([\w!-]{1,64}\): (?:bogus |Can't find a valid FAT)"
    r"|F2FS-fs \([\w!-]{1,64}\): Can't find valid F2FS"
    r"|ntfs3(?:: |\()[\w!-]{1,64}\)?: volume is dirty|(?:"
    + _BY_ROOT
    + r"): Unknown parameter '"
    + _OF_QUOTAS
    + OF_SWAP
)
# XFS after an error, or on demand: xfs_do_force_shutdown of fs/xfs/xfs_fsops.c
_XFS_STOPS = r"|XFS \([\w!-]{1,64}\): (?:User initiated shutdown |.{1,200}Shutting down filesystem)"
# A disk that does not answer, while the driver tries again: drivers/nvme/host/pci.c (nvme_timeout),
# scsi_error.c and the drivers of SCSI adapters, drivers/ata/libata-eh.c (ata_eh_link_report).
SILENT_DISKS = (
    r"|nvme nvme\d{1,9}: I/O .{1,80}\btimeout|sd \d{1,9}(?::\d{1,9}){3}: .{0,80}"
    r"(?:timing out command|task abort)"
    r"|ata\d{1,9}(?:\.\d\d)?: (?:exception Emask|failed command:)"
)
# XFS that found its structures damaged, and goes on: xfs_buf_verifier_error of fs/xfs/xfs_error.c
_XFS_DAMAGED = r"|XFS \([\w!-]{1,64}\): Metadata (?:corruption|CRC error) detected at "
OF_STORAGE = (
    r"EXT4-fs \([\w!-]+\): (?:Remounting filesystem read-only|shut down requested"
    r"|mounted filesystem)"
    + _XFS_STOPS
    + _XFS_DAMAGED
    + r"|nfs: server \S+ (?:not responding|OK)|INFO: task .{1,64}:\d+ blocked "
    r"|(?:\w+: )?(?:I/O|timeout|critical medium|protection|device offline) error, dev "
    + SILENT_DISKS
    + OF_MOUNTS
)
# Devices and tables of the kernel that stopped, for facts/kernel/device_log.py.
_OF_SLOT = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: "
_NOT_SET_UP = "|Fatal error during GPU init"
# of an NVMe drive, at the boot and after each reset
_SET_UP = r"|\d{1,5}/\d{1,5}/\d{1,5} default/read/poll queues"
# Of an NVMe drive that the driver gives up (nvme_reset_work of drivers/nvme/host/pci.c; the second
# before Linux 6.2).
_GIVEN_UP = r"|Disabling device after reset failure: -\d|Removing after probe failure status: -\d"
_VOLUMES = (  # clients that CephFS threw out, and volumes of RAID controllers
    r"|ceph: (?:\[[0-9a-f-]{36} \d{1,20}\]: )?(?:mds\d{1,5} (?:reconnect denied|rejected session)"
    r"|auto reconnect after )"
    rf"|libceph: client\d{{1,20}} fsid |megaraid_sas {_OF_SLOT}\d{{1,10}} \(.{{1,60}}\) - VD "
    rf".{{1,9}} is now "
)
# GPUs after errors of PCIe (pcie_do_recovery of drivers/pci/pcie/err.c), and network interfaces
# that are held
_HELD = (
    rf"|nvidia {_OF_SLOT}AER: can't recover |unregister_netdevice: waiting for \S{{1,15}} to "
    rf"become free"
)
OF_DEVICES = (
    r"|nvme nvme\d{1,9}: (?:I/O .{1,100}\btimeout, reset controller|controller is down; will reset"
    + _SET_UP
    + _GIVEN_UP
    + r")"
    rf"|amdgpu {_OF_SLOT}(?:amdgpu: )?(?:\{{\d+\}})?(?:GPU reset(?:\(\d+\)| end with)|device lost "
    rf"from bus" + _NOT_SET_UP + r"|[Uu]ncorrectable hardware error\(ERREVENT_)"
    r"|(?:\[drm\] )?amdgpu kernel modesetting enabled"
    rf"|mlx5_core {_OF_SLOT}(?:\w+:\d+:\(pid \d+\): )?(?:health re|device's health compromised"
    rf"|Fatal error \d+ detected"
    r"|firmware version: |synd 0x)|Lustre(?:Error)?: (?:.{1,160}: )?This client was evicted by "
    r"|Lustre(?:Error)?: (?:[\w-]{1,8}: )?[\w-]{1,128}: Connection (?:to [\w-]{1,64} \(at "
    r"|restored)"
    r"|nf_conntrack: (?:nf_conntrack: )?table full|VFS: file-max limit \d+ reached"
    rf"|(?:[\w-]{{1,64}} {_OF_SLOT})?AMD-Vi: Event logged \[IO_PAGE_FAULT "
    rf"|DMAR: \[DMA (?:Read|Write)" + _VOLUMES + _HELD
)
# What every kernel says, first and when it has booted (init/main.c).
_HEAD = r"Linux version \d+\.\d|Run /\S+ as init process$"
_WANTED = f"(?:{OF_GPUS}|{OF_HOST}|{OF_STORAGE}{OF_DEVICES}|{_HEAD})"
_KERNEL = ("journalctl", "-k", "-b", "--no-pager")
_FORM = ("--no-hostname", "-o", "short-unix", "--case-sensitive=true", "-r")
# Each line as `SECONDS-SINCE-1970 kernel: TEXT`, the newest first: at a damaged page journalctl
# ends without a word. The transport "kernel" is also that of what programs write to /dev/kmsg
# (systemd.journal-fields(7)). Of a message with an unprintable byte, which the name of a process
# may have, it prints without --all only the length.
_UNPRINTED = (*_KERNEL, *_FORM, f"--grep=^{_WANTED}", "SYSLOG_FACILITY=0")
JOURNAL = (*_UNPRINTED, "--all")
_ANY = ("journalctl", "-b", "--no-pager", "--no-hostname", "-o", "short-unix")
# Any line that is older than a day: one is enough to know that a journal without the head reaches
# back so far. Without -r some releases find none, others one that is younger (systemd issues 26657,
# 38121). It seeks that line, and so does not notice a page that was damaged since.
DAY_OLD = (*_ANY, "-r", "--until=-24h", "-n", "1")
# its last line: where the journal ended, it is older than what the buffer has
NEWEST = (*_ANY, "-n", "1")
# journald's own word that the buffer had forgotten lines before it read them (`Missed N kernel
# messages`; catalog of systemd: SD_MESSAGE_JOURNAL_MISSED). Any user can make the kernel say more
# than it reads: each mount(2) in a user namespace with an unknown option is a line. No program can
# write to the transport "driver".
MISSED = (
    *_ANY,
    "-r",
    "--since=-24h",
    "-n",
    "1",
    "_TRANSPORT=driver",
    "MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606",
)
DMESG = ("dmesg", "--kernel")  # without what programs wrote to /dev/kmsg
# As records of older releases hold it: more lines, in the same form.
_UNANCHORED = (
    r"--grep=NVRM|Xid|nouveau|nvidia-nvswitch.*Probing|odule.*reject|PKCS#7|ey was rejected"
    r"|module loading is restricted|soft lockup|hard LOCKUP|detected (expedited )?stalls?"
    r"|oom-kill:constraint=CONSTRAINT_NONE|Hardware Error\].*(event severity:|Machine Check"
    r"|MC\d+_STATUS\[)"
    r"|CMCI storm detected|EDAC MC\d+: \d+ CE |Run /\S+ as init process"
    r"|Link (is )?[Dd]own|nsufficient power on the PCIe slot|Port module event\[error\]"
    r"|nvidia-peermem .*ERROR"
    r"|EXT4-fs \(.*(emounting filesystem read-only|shut down requested|: mounted filesystem)"
    r"|nfs: server .* (not responding|OK)|INFO: task .* blocked "
    r"|(I/O|timeout|medium|protection|offline) error, dev |Linux version \d"
    r"|Run /\S+ as init process"
)
# What records from before hold in the place of both, the newest first: without --all, silent disks
# and XFS that found damage, without XFS that stopped, without swap files, drives that are given up,
# GPUs that were not recovered and interfaces that are held, without modules that do not fit, cards
# that stall and volumes, without quotas and drives that are set up, without a kernel that died,
# without devices that stopped, without mounts that failed, and without firmware, then the older
# form.
# btrfs writes `: state` in some kernels, ` state` in others (messages.c)
_COLON = ("(?::? state", "(?: state")
_NO_SILENT = tuple(word.replace(SILENT_DISKS, "").replace(_XFS_DAMAGED, "") for word in _UNPRINTED)
_NO_XFS = tuple(word.replace(_XFS_STOPS, "") for word in _NO_SILENT)
_NO_SWAP = tuple(
    word.replace(OF_SWAP, "").replace(_GIVEN_UP, "").replace(_HELD, "").replace(*_COLON)
    for word in _NO_XFS
)
_NO_MISFIT = tuple(
    word.replace(_MISFIT, "").replace(_STALLED, "").replace(_VOLUMES, "") for word in _NO_SWAP
)
_NO_QUOTAS = tuple(word.replace(_OF_QUOTAS, "").replace(_SET_UP, "") for word in _NO_MISFIT)
_BEFORE = tuple(word.replace(_DIED, "").replace(_NOT_SET_UP, "") for word in _NO_QUOTAS)
_OLD_DEVICES = (
    OF_DEVICES.replace(_SET_UP, "").replace(_GIVEN_UP, "").replace(_VOLUMES, "").replace(_HELD, "")
)
_NO_DEVICES = tuple(word.replace(_DIED, "").replace(_OLD_DEVICES, "") for word in _NO_QUOTAS)
_OLD_MOUNTS = OF_MOUNTS.replace(_OF_QUOTAS, "").replace(OF_SWAP, "").replace(*_COLON)
_NO_MOUNTS = tuple(word.replace(_OLD_MOUNTS, "") for word in _NO_DEVICES)
_OLD = {
    JOURNAL: (
        _NO_SILENT,
        _NO_XFS,
        _NO_SWAP,
        _NO_MISFIT,
        _NO_QUOTAS,
        _BEFORE,
        _NO_DEVICES,
        _NO_MOUNTS,
        tuple(word.replace(_FIRMWARE, "") for word in _NO_MOUNTS),
        (*_KERNEL, *_FORM, _UNANCHORED),
    ),
    DMESG: (("dmesg",),),
}
_TIMEOUT_S = 20.0
# Characters of a line that are looked at. A message has 1 KiB at most, 2 KiB with what is before it
# (kernel, printk/internal.h: PRINTKRB_RECORD_MAX, PRINTK_MESSAGE_MAX).
_LONGEST = 2048
_IS_WANTED = regex(_WANTED)
_MAY_NOT = regex(
    r"not seeing messages|insufficient permissions|Permission denied|Operation not permitted"
)
_NO_JOURNAL = "No journal files were found"
_FAILED = regex(r"^.*(?:Failed to|Compiled without).*", re.MULTILINE)
_ENTRY = regex(r"^(?=\d{9,}\.\d)", re.MULTILINE)
# some kernels name thread or CPU
_SINCE_BOOT = regex(r"^\[ *(\d+\.\d+)\] ?(?:\[ *[TC]\d+\] )?", re.MULTILINE)

_IS_HEAD = regex(_HEAD)
_STAMP = regex(r"\[ *\d+\.\d+\]|\d{9,}\.\d+")
_LINE = regex(r"(?:(\d{9,}(?:\.\d+)?) (?:kernel: )?|\[ *[\d.]+\] ?)?(?:\[ *[TC]\d+\] )?(\S.*)")
# A message that begins with the name of a program, which each program chooses (TASK_COMM_LEN: 15
# bytes at most, one that cannot be printed is `\x01` in dmesg(1)): arch/x86/mm/fault.c,
# block/blk-core.c, fs/drop_caches.c, kernel/signal.c, kernel/sysctl.c, kernel/time/itimer.c,
# lib/ratelimit.c, mm/mmap.c, mm/oom_kill.c, mm/page_alloc.c, net/socket.c.
_OF_PROGRAM = regex(
    r"(?:[^\\]|\\x[0-9a-f]{2}|\\(?!x[0-9a-f]{2})){0,15}?"
    r"(?:\[\d+\](?::| bad | vsyscall)| ?\(\d+\)(?:: | use[sd] )|/\d+: (?:potentially unexpected"
    r"|reached RLIMIT_)"
    r"|: (?:page allocation (?:failure|stalls)|vmalloc |attempt to access beyond end of device"
    r"|potentially unexpected"
    r"|calling unsupported SCSI_IOCTL|sending ioctl |\d+ output lines suppressed)"
    r"| invoked oom-killer:| calls setitimer\(\)| uses obsolete \(PF_INET,"
    r"| wrote to .{1,64} when file position was not"
    r"| using unsupported default IPA limit)"
)
# A message that begins with more of a user's words: the file name of a program (print_fatal_signal
# of kernel/signal.c), or the prefix of a LOG rule, of 127 characters at most
# (net/netfilter/nf_log_syslog.c: root of a container, too). What tells them is longer than the name
# of a program that a message of the driver quotes, so no name hides that message.
_OF_USER = regex(
    r"(?!oom-kill:.*,uid=\d{1,10}$).{0,127}?IN=\S{0,15} OUT=\S{0,15} .{0,200}?"
    r"(?:SRC=[0-9a-f.:]{7,39} DST=|MACSRC=[0-9a-f:]{17} |ARP HTYPE=\d)"
    r"|.*: potentially unexpected fatal signal \d{1,3}\.$"
)
MISSED_LINES = "the journal missed lines of the kernel log"  # any user can bring that about
_NO_KMSG = "without /dev/kmsg dmesg does not tell where a message of the kernel begins"
_NOT_ALLOWED = "needs root, or the group adm: the kernel log of this boot"
_DAY_S = 86400
_SETTLED_S = 600  # a server may say more while it boots than its buffer holds
_DRIFT = 0.001  # of the uptime: the clock of the buffer is not set by anybody


@frozen
class KernelLog(Subject):
    """The lines of this boot that someone wants, as the two programs tell them."""

    @fact
    def journal(self) -> str:
        """Of the journal; empty also where it holds no kernel log, which looks the same."""
        return self._asked[0]

    @fact
    def buffer(self) -> str:
        """Of the kernel's own buffer, which forgets the oldest."""
        return self._dmesg[1]

    @fact
    def both(self) -> str:
        """What either of them has, each line once; raises where neither can be read."""
        return _merge_both(self, self.reader)

    @fact
    def is_whole(self) -> bool:
        """It reaches back to the boot."""
        if _has_head(self.both):
            return True
        oldest = attempt(lambda: self._dmesg)
        return (
            isinstance(oldest, tuple)
            and oldest[0] is not None
            and oldest[0] <= _SETTLED_S
            and not self._missing
        )

    @fact
    def has_journal(self) -> bool:
        """A journal was read, and not only the kernel's own buffer."""
        return read_or_default(lambda: self._asked[2], otherwise=False)

    @fact
    def unseen(self) -> str:
        """Why lines of the last day may be missing; empty where they are not, or no journal would
        keep them.
        """
        missing, answer = self._missing, attempt(lambda: self._dmesg)
        lines = self.both  # raises where neither can be read
        since_s, buffer = (None, "") if isinstance(answer, Unreadable) else answer
        age_s = 0.0 if since_s is None else _uptime_s(self.reader) - since_s
        if _has_head(buffer) or (since_s is not None and age_s >= _DAY_S):
            return ""
        if missing:  # a journal that is too long, say
            return missing
        keeps = attempt(lambda: self._asked[2])
        if since_s is not None and (since_s <= _SETTLED_S or keeps is False):
            # without a journal no one keeps more than the buffer: what that forgot is unknown for
            # ever
            return ""
        has = (
            f"the buffer of the kernel has the last {age_s / 3600:.1f} hours"
            if age_s > 0
            else "the buffer of the kernel has nothing"
        )
        if (
            not _has_head(lines)
            and (_time_of(self.reader, DAY_OLD) or inf) > self.reader.now() - _DAY_S
        ):
            return (
                f"the kernel log of the last day cannot be seen: {has}, and the journal does not "
                "reach back further"
            )
        newest = _time_of(self.reader, NEWEST)
        if newest is None:
            return (
                f"the kernel log of the last day cannot be seen: {has}, and where the journal ends "
                "cannot be read"
            )
        if age_s < self.reader.now() - newest - _apart_s(self.reader):
            return (
                f"the kernel log of the last day cannot be seen: {has}, and the journal ended "
                "before"
            )
        missed = _time_of(self.reader, MISSED)
        # While a server boots it may say more than is kept, as above.
        if missed is not None and missed > self.reader.now() - min(
            _DAY_S, _uptime_s(self.reader) - _SETTLED_S
        ):
            ago_h = (self.reader.now() - missed) / 3600
            return f"{MISSED_LINES} {ago_h:.1f} hours ago, which came faster than it reads them"
        return ""

    @fact
    def _dmesg(self) -> tuple[float | None, str]:
        """How long after the boot the oldest line was logged, None if not known, and the lines that
        are wanted.
        """
        answer = _ask(self.reader, DMESG)
        if answer is None or answer.status != 0:
            is_refused = answer is not None and _MAY_NOT.search(answer.errors)
            raise UnknownFact(
                _NOT_ALLOWED
                if is_refused
                else "neither journalctl nor dmesg shows the kernel log of this boot"
            )
        first = _SINCE_BOOT.search(answer.text)
        log = "".join(f"{line}\n" for line in messages_with(_IS_WANTED, answer.text))
        names = self.reader.list("/dev")
        if isinstance(names, tuple) and "kmsg" not in names and _has_line_in_doubt(answer.text):
            raise UnknownFact(_NO_KMSG)
        uptime = _uptime_s(self.reader)
        return float(first[1]) if first else None, date_dmesg(
            log, self.reader.now() - uptime
        ) if uptime else log

    @fact
    def _asked(self) -> tuple[str, str, bool]:
        """The lines that the journal shows, why others may be missing (empty where nothing tells),
        and whether there is a journal at all.
        """
        answer = _ask(self.reader, JOURNAL)
        if answer is None:
            return "", "", False
        if _MAY_NOT.search(answer.errors):
            raise UnknownFact(_NOT_ALLOWED)
        found = (
            ""
            if answer.text.startswith("-- No entries --")
            else leave_users_out(reverse_log(answer.text))
        )
        failed = _FAILED.search(answer.errors)
        # 1 alone: nothing was found
        if failed or answer.status not in {0, 1} or (answer.status and found):
            why = (
                "the journal cannot be read to its end: "
                f"{failed[0] if failed else f'status {answer.status}'}"
            )
            return found, why, True
        return found, "", bool(found) or _NO_JOURNAL not in answer.errors

    @fact
    def _missing(self) -> str:
        """Why the journal may have lines that it did not show; empty where it showed all."""
        journal = attempt(lambda: self._asked)
        return journal.reason if isinstance(journal, Unreadable) else journal[1]

    def lines(self, chosen: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """What `chosen` takes of the lines that there are. Raises UnknownFact with why the log may
        not, or cannot, be read. Where it takes nothing, `certain` says whether that is none.
        """
        return chosen(self.both)

    def certain(self, found: T) -> T:
        """What was made of lines; raises UnknownFact where it is none, and lines of the last day
        may be missing.
        """
        # What was found counts even if other lines are missing. Only "nothing" needs a log that is
        # whole.
        if not found and self.unseen:
            raise UnknownFact(self.unseen)
        return found


def message_of(line: str) -> tuple[float | None, str]:
    """When the kernel logged this (seconds since the epoch; None if the line has no time), and its
    words.

    No words for a line that does not begin a message (the rest of one with several lines), and for
    a message that begins with the name of a program.
    """
    match = _LINE.fullmatch(line)
    if not match or _OF_PROGRAM.match(match[2]):
        return None, ""
    return (float(match[1]) if match[1] else None), match[2]


def lines_of(log: str) -> list[str]:
    """The lines of a log, of each what the kernel can say at most. A message may hold what
    str.splitlines() takes for the end of a line, U+2028 for one.
    """
    return [line[:_LONGEST] for line in log.removesuffix("\n").split("\n")] if log else []


def messages_with(beginning: re.Pattern[str], log: str) -> Iterator[str]:
    """The lines of the messages that begin so, by the kernel's own words; both programs indent what
    is not the first line of a message.
    """
    is_wanted = False
    for line in lines_of(leave_users_out(log)):
        is_wanted = (
            is_wanted
            if line[:1] in {" ", "\t"}
            else beginning.match(message_of(line)[1]) is not None
        )
        if is_wanted:
            yield line


def _has_mark(text: str) -> bool:
    """Whether `_OF_USER` may match, at little cost."""
    return " OUT=" in text or " fatal signal " in text


def leave_users_out(log: str) -> str:
    """The log without the messages that begin with what a user chose, at any length."""
    if not _has_mark(log):
        return log
    messages: list[list[str]] = []
    for line in lines_of(log):
        if messages and line[:1] in {" ", "\t"}:
            messages[-1].append(line)
        else:
            messages.append([line])
    words = (" ".join((message_of(first)[1], *map(str.strip, rest))) for first, *rest in messages)
    kept = (
        one
        for one, text in zip(messages, words, strict=True)
        if not (_has_mark(text) and _OF_USER.match(text))
    )
    return "".join(f"{line}\n" for one in kept for line in one)


def newest_of_each(lines: Iterable[tuple[Hashable, str]], most: int) -> list[str]:
    """Of all lines of one kind the last `most`, in the order of the log. What one device, or any
    user, has the kernel say again and again pushes out nothing that was logged of another.
    """
    counts: Counter[Hashable] = Counter()
    kept = []
    for kind, one in reversed([*lines]):
        counts[kind] += 1
        if counts[kind] <= most:
            kept.append(one)
    return kept[::-1]


def date_dmesg(log: str, booted: float) -> str:
    """A log of dmesg(1), whose lines begin with seconds since the boot, as journalctl(1) dates
    them.
    """
    return _SINCE_BOOT.sub(lambda match: f"{booted + float(match[1]):.6f} kernel: ", log)


def reach_of(log: str) -> tuple[str, ...]:
    """What tells how far a log reaches back: of its first line the time alone, and its head."""
    first = _STAMP.match(log)
    return (*([first[0]] if first else []), *(line for line in lines_of(log) if _is_head(line)))


def _is_head(line: str) -> bool:
    return _IS_HEAD.match(message_of(line)[1]) is not None


def _has_head(log: str) -> bool:
    return any(map(_is_head, lines_of(log)))


def reverse_log(log: str) -> str:
    """A log that begins with its newest entry from the oldest on, and the other way round."""
    head, *entries = _ENTRY.split(log)
    return "".join((head, *reversed(entries)))


def _ask(reader: Reader, argv: tuple[str, ...]) -> Completed | None:
    """What the program answers; of an older record what it answered to that. None if the program is
    not installed.
    """
    answer = reader.query(argv, timeout_s=_TIMEOUT_S)
    # A record holds the answers by the exact command line, so a changed pattern would make every
    # older record unknown.
    if is_unrecorded(answer):
        olds = (reader.query(old, timeout_s=_TIMEOUT_S) for old in _OLD[argv])
        answer = next((old for old in olds if isinstance(old, Completed)), answer)
    return if_absent(answer, None)


def _has_line_in_doubt(log: str) -> bool:
    """Whether a line that is wanted has the time of the line before it. Without /dev/kmsg dmesg(1)
    asks syslog(2), which puts the time before each line of a message: what a user wrote behind a
    line break looks like a message then.
    """
    before = ""
    for line in lines_of(log):
        stamp = _SINCE_BOOT.match(line)
        if stamp and stamp[1] == before and _IS_WANTED.match(message_of(line)[1]):
            return True
        before = stamp[1] if stamp else ""
    return False


def _uptime_s(reader: Reader) -> float:
    seconds = re.match(r"\d+(?:\.\d+)?", hint(reader, "/proc/uptime"))
    return float(seconds[0]) if seconds else 0.0


def _merge_both(log: KernelLog, reader: Reader) -> str:
    journal, buffer = attempt(lambda: log.journal), attempt(lambda: log.buffer)
    if isinstance(buffer, Unreadable):
        if isinstance(journal, Unreadable):
            raise UnknownFact(journal.reason)
        if not journal:
            raise UnknownFact(buffer.reason)
        return journal
    uptime = _uptime_s(reader)
    booted = reader.now() - uptime if uptime else None
    return merge_logs(
        "" if isinstance(journal, Unreadable) else journal, buffer, _apart_s(reader), booted
    )


def merge_logs(journal: str, buffer: str, apart_s: float, booted: float | None = None) -> str:
    """The lines of both in the order of their times, each once. The clocks differ, by `apart_s` at
    most, so lines with the same words are taken for one where they are that near: then the
    journal's counts.

    Where the clock was set since the boot, the journal has the lines from before with the time that
    the clock had then. They are compared as if it had been right, and the buffer's counts, which is
    dated by the clock of now.
    """
    own = [_split_line(line) for line in lines_of(journal)]
    rest = [_split_line(line) for line in lines_of(buffer)]
    places: dict[str, _SameLines] = {}
    for place, (at, words, _) in enumerate(rest):
        places.setdefault(words, _SameLines()).add(at, place)
    own_only = [True] * len(own)
    rest_only = [True] * len(rest)
    for line, steps in enumerate(_list_steps(own, rest, apart_s, booted)):
        at, words, _ = own[line]
        for step in (0.0, *steps):
            taken = places[words].take_near(at + step, apart_s) if words in places else None
            if taken is not None:
                (own_only if step else rest_only)[line if step else taken] = False
                break
    kept = compress(own, own_only), compress(rest, rest_only)
    # keeps the order of each: clocks are set while they run
    both = heapq.merge(*kept, key=itemgetter(0))
    return "".join(f"{line}\n" for _, _, line in both)


class _SameLines:
    """Where in the buffer, the oldest first, lines with the same words are, and which of them are
    not taken yet.
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        self._places: list[int] = []
        # itself for a line that is free, else a later one: it has the end, too
        self._next: list[int] = [0]

    def add(self, at: float, place: int) -> None:
        self._times.append(at)
        self._places.append(place)
        self._next.append(len(self._times))

    def take_near(self, at: float, apart_s: float) -> int | None:
        """The first of them that is free and within `apart_s` of a time; all are where one has no
        time.
        """
        one = bisect_left(self._times, at - apart_s) if at < inf else 0
        # The chain is shortened while it is walked, so that a log of equal lines, which any user
        # can bring about, costs no more than its length.
        while self._next[one] != one:
            self._next[one] = one = self._next[self._next[one]]
        if one == len(self._times) or at + apart_s < self._times[one] < inf:
            return None
        self._next[one] = one + 1
        return self._places[one]


def _list_steps(
    own: list[_Split], rest: list[_Split], apart_s: float, booted: float | None
) -> list[tuple[float, ...]]:
    """By how much the clock may have been set since each line of the journal; nothing where the
    head of the boot is dated as the clock of now dates it.

    Lines whose words each of the two has once show it, with the head; a line between two of them
    may be as either.
    """
    head = next(
        (line for line, (at, words, _) in enumerate(own) if at < inf and _IS_HEAD.match(words)),
        None,
    )
    if booted is None or head is None or abs(booted - own[head][0]) <= apart_s:
        return [()] * len(own)
    counts, others = Counter(words for _, words, _ in own), Counter(words for _, words, _ in rest)
    dated = {words: at for at, words, _ in rest if others[words] == 1 and at < inf}
    once = {words for words in dated if counts[words] == 1}
    shown = {line: dated[words] - at for line, (at, words, _) in enumerate(own) if words in once}
    shown[head] = booted - own[head][0]
    found: list[set[float]] = [set() for _ in own]
    # Once from each end: the clock was set somewhere between two lines that show a step, so a line
    # there may belong to either.
    for order in (range(len(own)), range(len(own) - 1, -1, -1)):
        step = 0.0
        for line in order:
            step = shown.get(line, step)
            if abs(step) > apart_s:
                found[line].add(step)
    return [tuple(steps) for steps in found]


def _split_line(line: str) -> _Split:
    """When a line was logged, in seconds since the epoch (endless if it has no time), its words,
    and the line. Words that begin with a blank are no beginning of a message.
    """
    at, words = message_of(line)
    return (inf if at is None else at), words.strip() or f" {line.strip()}", line


def _time_of(reader: Reader, argv: tuple[str, ...]) -> float | None:
    """When the one line was written that journalctl shows, in seconds since the epoch; None for no
    line.
    """
    answer = attempt(lambda: if_absent(reader.query(argv, timeout_s=_TIMEOUT_S), None))
    match = re.match(r"\d{9,}(?:\.\d+)?", answer.text) if isinstance(answer, Completed) else None
    return float(match[0]) if match else None


def _apart_s(reader: Reader) -> float:
    """How far the clocks of journal and buffer may be apart."""
    return _SETTLED_S + _DRIFT * _uptime_s(reader)
