"""What the kernel log says of file systems, NFS servers and tasks that hang."""

from __future__ import annotations

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL, reverse_log
from hosttune.facts.storage.storage_log import choose_lines, errors_in, refusing_in, silent_in
from hosttune.host.door import Completed, Process, Stat
from hosttune.host.record.record import RecordingReader, RecordReader
from hosttune.regex import regex
from hosttune.values import ABSENT, TooLong
from tests.unit.fake_reader import FakeReader

NOW = 1_795_000_000.0
STOPPED = "1794990000.100000 kernel: EXT4-fs (loop5): Remounting filesystem read-only"
MOUNTED = "1794990100.100000 kernel: EXT4-fs (loop5): mounted filesystem a9bbffb7-c0b2 r/w with ordered data mode. Quota mode: none."
SILENT = "1794990000.100000 kernel: nfs: server nfs01 not responding, still trying"
BACK = "1794990100.100000 kernel: nfs: server nfs01 OK"
HUNG = "1794990000.100000 kernel: INFO: task pt_main:4711 blocked for more than 122 seconds."


def log(*lines, files=None, answers=None):
    told = answers or {
        JOURNAL: reverse_log("".join(f"{one}\n" for one in lines)),
        DMESG: "[    1.0] Linux version 6.12\n",
    }
    return Facts(FakeReader(files or {}, queries=told, now=NOW)).storage_log


def test_file_system_that_ext4_stopped_until_it_is_mounted_anew():
    assert log(STOPPED).refusing == ("loop5",)
    assert log(STOPPED, MOUNTED).refusing == ()
    assert log(MOUNTED, STOPPED).refusing == ("loop5",)
    assert refusing_in(["[ 45.7] EXT4-fs (dm-0): shut down requested (2)"]) == ("dm-0",)
    xfs = "1794990000.100000 kernel: XFS (loop5): Log I/O Error (0x2) detected at xlog_ioend_work+0x67 (fs/xfs/xfs_log.c:1378).  Shutting down filesystem."
    assert (log(xfs).refusing, log(xfs.replace("Shutting", "Not shutting")).refusing) == (
        ("loop5",),
        (),
    )


def test_server_that_was_not_heard_of_since():
    (server,) = log(SILENT).silent
    assert (server.name, server.is_waited_for, round(server.age_s)) == ("nfs01", True, 10000)
    assert server.sentence == "nfs01 (for 167 min)"
    again = SILENT.replace("1794990000", "1794999900")  # of another task, which began to wait later
    assert [one.sentence for one in log(SILENT, again).silent] == ["nfs01 (for 167 min)"]
    assert [one.sentence for one in log(SILENT, BACK, again).silent] == ["nfs01 (for 2 min)"]
    assert log(SILENT, BACK).silent == ()
    (soft,) = log(SILENT.replace("still trying", "timed out")).silent
    assert soft.is_waited_for is False
    (undated,) = silent_in(["nfs: server fe80::1 not responding, still trying"], NOW)
    assert (undated.sentence, undated.age_s) == ("fe80::1", -1)


def test_mount_that_failed_is_told_in_the_words_of_the_kernel():
    lines = (
        "XFS (loop0): Invalid superblock magic number",
        "EXT4-fs (loop1): VFS: Can't find ext4 filesystem",
        "ext4: Unknown parameter 'nobarier'",
        "XFS (loop2): Filesystem has duplicate UUID bb3e4320-f3cd-4daa-a84a-07f93e69d1d1 - can't mount",
        "BTRFS error (device sdb state C): open_ctree failed: -22",
        "BTRFS error (device sdj: state C): open_ctree failed: -5",
        'ntfs3: sdc1: volume is dirty and "force" flag is not set!',
        "EXT4-fs (sdd1): VFS: Can't find ext4 filesystem",
        "EXT4-fs (sdd1): mounted filesystem a9bbffb7-c0b2 r/w with ordered data mode. Quota mode: none.",
        "XFS (sde): log mount failed",
        "XFS (sde): Ending recovery (logdev: internal)",
        "EXT4-fs (sdf1): re-mounted a9bbffb7-c0b2",
        "EXT4-fs (sdf1): unmounting filesystem a9bbffb7-c0b2.",
        "tar: Unknown parameter x",
        "EXT4-fs warning (device sdg): ext4_enable_quotas:7028: Failed to enable quota tracking (type=0, err=-3, ino=3). Please run e2fsck to fix.",
    )
    found = log(*(f"1794990000.100000 kernel: {one}" for one in lines)).mount_errors
    assert [(one.name, one.words[:14]) for one in found] == [
        ("loop0", "Invalid superb"), ("loop1", "VFS: Can't fin"), ("ext4", "Unknown parame"), ("loop2", "Filesystem has"),
        ("sdb", "open_ctree fai"), ("sdj", "open_ctree fai"), ("sdc1", "volume is dirt"), ("sdg", "ext4_enable_qu"),
    ]  # fmt: skip
    assert log("1794990000.100000 kernel: nfs: server nfs01 OK").mount_errors == ()


@pytest.mark.parametrize("fstype", ["tmpfs", "overlay", "fuse", "proc", "zfs"])
def test_option_of_a_mount_in_a_user_namespace_is_no_evidence_and_hides_nothing(fstype):
    """Every user may mount these types there, and the kernel quotes the option that the user
    wrote.
    """
    stopped = "1794990000.100000 kernel: EXT4-fs (sda1): Remounting filesystem read-only"
    found = log(
        stopped,
        *(f"1794990001.{n:06} kernel: {fstype}: Unknown parameter 'noatime'" for n in range(500)),
    )
    assert found.mount_errors == ()
    assert found.refusing == ("sda1",)
    assert not regex(JOURNAL[-2].removeprefix("--grep=")).match(
        f"{fstype}: Unknown parameter 'noatime'"
    )


@pytest.mark.parametrize("option", ["x", "y" * 100])
def test_options_that_a_user_has_refused_hide_no_cause_of_a_failed_mount(option):
    """In a user namespace, also of types that only root can mount: `unshare -Urm mount -t ext4 -o x
    none /mnt`.
    """
    failed = "1794990000.100000 kernel: XFS (sdb1): Superblock has unknown read-only compatible features (0x20) enabled."
    found = log(
        failed,
        *(f"1794990001.{n:06} kernel: ext4: Unknown parameter '{option}{n}'" for n in range(500)),
    )
    assert ("sdb1", "Superblock has") in [(one.name, one.words[:14]) for one in found.mount_errors]


def test_mounts_that_fail_again_and_again_hide_no_file_system_that_stopped():
    stopped = "1794990000.100000 kernel: EXT4-fs (sda1): Remounting filesystem read-only"
    failed = [
        f"1794990001.{n:06} kernel: EXT4-fs (sdb1): VFS: Can't find ext4 filesystem"
        for n in range(500)
    ]
    found = log(
        stopped,
        *failed,
        "1794990002.000000 kernel: EXT4-fs (sdb1): mounted filesystem with ordered data mode",
    )
    assert found.refusing == ("sda1",)
    assert found.mount_errors == ()  # in the order in which they were said


@pytest.mark.parametrize(
    ("stat", "names"),
    [
        ("4711 (pt_main) D 1 4711", ["pt_main (4711)"]),
        ("4711 (pt_main) S 1 4711", []),
        ("4711 (bash) D 1 4711", []),
        (None, []),
    ],
)
def test_task_hangs_that_the_log_names_and_that_still_is_blocked(stat, names):
    files = {"/proc/4711/wchan": "io_schedule"} | ({"/proc/4711/stat": f"{stat}\n"} if stat else {})
    found = log(HUNG, files=files).hung
    assert [one.name for one in found] == names
    assert all(one.waits_in == "io_schedule" for one in found)
    newer = log(HUNG.replace("blocked for", "blocked in I/O wait for"), files=files).hung
    assert [one.name for one in newer] == names


ERROR = "1794990000.100000 kernel: I/O error, dev {}, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (ERROR.format("sda"), "sda"),
        (
            "[ 9.1] blk_update_request: I/O error, dev sda, sector 8 op 0x1:(WRITE) flags 0x4000",
            "sda",
        ),
        ("[ 9.1] print_req_error: I/O error, dev cciss!c0d0, sector 8", "cciss!c0d0"),
        (
            "1794990000.1 kernel: critical medium error, dev sda, sector 8 op 0x0:(READ) flags 0x0",
            "sda",
        ),
        (
            "1794990000.1 kernel: device offline error, dev sda, sector 8 op 0x1:(WRITE) flags 0x800",
            "sda",
        ),
        ("1794990000.1 kernel: I/O error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x0", ""),
        ("1794990000.1 kernel: I/O error, dev sda, sector 8 op 0x9:(WRITE_ZEROES) flags 0x0", ""),
        (
            "1794990000.1 kernel: operation not supported error, dev sda, sector 8 op 0x1:(WRITE) flags 0x0",
            "",
        ),
        (
            "1794990000.1 kernel: reservation conflict error, dev sda, sector 8 op 0x1:(WRITE) flags 0x0",
            "",
        ),
    ],
)
def test_line_of_a_disk_that_fails(line, name):
    assert [one.name for one in errors_in([line], NOW)] == [name] * bool(name)


def test_disks_of_this_machine_that_fail_requests():
    files = {f"/sys/block/{name}/{file}": f"{value}\n" for name in ("sda", "sdb", "sdc", "sr0", "loop0")
             for file, value in (("size", 8), ("removable", int(name == "sdb")), ("dev", "8:0"))}  # fmt: skip
    files |= {
        "/sys/block/dm-0/dm/uuid": "mpath-3600\n",
        "/sys/block/dm-0/slaves/sdc/dev": "8:32\n",
        "/sys/block/dm-0/size": "8\n",
    }
    lines = [ERROR.format(name) for name in ("sda", "sda", "sdb", "sdc", "sr0", "loop0", "gone")]
    (disk,) = log(*lines, files=files).erring
    assert (disk.name, disk.errors, round(disk.age_s)) == ("sda", 2, 10000)


def test_storm_of_errors_hides_nothing_else():
    kept = choose_lines("\n".join([SILENT, *[ERROR.format("sda")] * 5000]))
    assert (len(kept), kept[-1]) == (401, SILENT)


def test_worker_of_the_kernel_has_a_longer_name_in_proc():
    line = HUNG.replace("pt_main:4711", "kworker/u8:2:4711")
    files = {"/proc/4711/stat": "4711 (kworker/u8:2+flush-259:0) D 2 0 0\n"}
    assert [one.name for one in log(line, files=files).hung] == ["kworker/u8:2 (4711)"]


def test_dmesg_has_the_last_word_on_nothing():
    lines = {
        JOURNAL: Completed(1, b"", b""),
        DMESG: "[   45.796077] EXT4-fs (loop5): Remounting filesystem read-only\n",
    }
    assert log(answers=lines).refusing == ("loop5",)


def test_log_that_may_not_be_read_is_unknown():
    hidden = {
        JOURNAL: Completed(
            1, b"", b"Hint: You are currently not seeing messages from other users\n"
        )
    }
    denied = Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n")
    found = log(answers={**hidden, DMESG: denied})
    for name in ("refusing", "silent", "hung"):
        with pytest.raises(UnknownFact, match="needs root, or the group adm"):
            getattr(found, name)
    with pytest.raises(UnknownFact, match="neither journalctl nor dmesg"):
        _ = log(answers={JOURNAL: ABSENT, DMESG: ABSENT}).hung


def test_of_a_log_that_is_long_the_newest_lines_count():
    kept = choose_lines("\n".join([SILENT] * 5000 + ["1794990000.1 kernel: eth0: link up", BACK]))
    assert len(kept) == 400
    assert kept[-1] == BACK


def test_record_keeps_these_lines_and_no_others():
    others = "1794990000.200000 kernel: usb 1-1: SerialNumber: 4711\n"
    lines = {JOURNAL: f"{others}{STOPPED}\n{SILENT}\n", DMESG: f"[    1.0] {others}"}
    recorder = RecordingReader(FakeReader({}, queries=lines, now=NOW))
    assert Facts(recorder).storage_log.refusing == ("loop5",)
    record = encode_record(recorder, share=False, tool_version="1")
    assert "SerialNumber" not in str(record)
    again = Facts(RecordReader(record, "a.json")).storage_log
    assert (again.refusing, len(again.silent)) == (("loop5",), 1)


def test_errors_of_a_path_are_those_of_its_drive():
    lines = ["[ 9.1] critical medium error, dev nvme3c3n1, sector 8 op 0x0:(READ) flags 0x80700"]
    assert [one.name for one in errors_in(lines, NOW)] == ["nvme3n1"]
    assert [one.name for one in errors_in(["[ 9.1] I/O error, dev nvme3n1, sector 8"], NOW)] == [
        "nvme3n1"
    ]


ROOTS = "30 1 0:30 / /data rw - fuse.juicefs data rw,user_id=0,group_id=0\n"
EVES = "31 1 0:31 / /tmp/m rw,nosuid,nodev - fuse.sshfs evil rw,user_id=1001,group_id=1001\n"
PRIVATE = "32 1 0:32 / /tmp/m rw,nosuid,nodev - fuse evil rw,user_id=0,group_id=0\n"


@pytest.mark.parametrize(
    ("uid", "seen", "may_be"),
    [
        (1001, EVES, True),
        (1002, EVES, False),
        (0, EVES, False),
        (1001, ROOTS, False),
        (1001, PRIVATE, True),
    ],
)
def test_task_that_hangs_on_a_fuse_file_system_of_its_own_user_may_be_staged(uid, seen, may_be):
    files = {
        "/proc/4711/wchan": "request_wait_answer",
        "/proc/4711/stat": "4711 (pt_main) D 1\n",
        "/proc/4711/status": f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        "/proc/4711/mountinfo": seen,
        "/proc/self/mountinfo": ROOTS + EVES,
    }
    (found,) = log(HUNG, files=files).hung
    assert found.may_be_staged is may_be


@pytest.mark.parametrize(("namespace", "may_be"), [("mnt:[2]", True), ("mnt:[1]", False)])
def test_task_whose_own_mount_table_is_too_long_to_read_may_be_staged(namespace, may_be):
    """The table of a mount namespace that only its user made; that of this host has any length."""
    files = {"/proc/4711/stat": "4711 (pt_main) D 1\n", "/proc/self/mountinfo": ROOTS}
    reader = FakeReader(
        files, queries={JOURNAL: reverse_log(f"{HUNG}\n"), DMESG: "[    1.0] Linux version 6.12\n"}, now=NOW,
        links={"/proc/self/ns/mnt": "mnt:[1]", "/proc/4711/ns/mnt": namespace},
        unreadable={"/proc/4711/mountinfo": TooLong("larger than 1 MiB")},
    )  # fmt: skip
    (found,) = Facts(reader).storage_log.hung
    assert found.may_be_staged is may_be


SDA_FAILS = "1794990000.100000 kernel: I/O error, dev sda, sector 12 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
TIMEOUT = "1794990000.100000 kernel: nvme nvme0: I/O tag 0 (1000) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0) size:4096"
EVE = Process(77, "a", "eve", ("a",), 0, 0, (), "", 0.0, uid=1001)


@pytest.mark.parametrize(
    ("ids", "wchan", "more", "connection", "seen", "may_be"),
    [
        ("1001 1001", "ext4_buffered_write_iter", [], 1001, "", True),  # also where it is detached
        ("1001 1001", "ext4_buffered_write_iter", [], 0, PRIVATE, True),
        ("1001 0", "", [], 0, PRIVATE, True),  # a setuid program that she started
        (
            "1001 1001",
            "ext4_buffered_write_iter",
            [],
            0,
            ROOTS,
            True,
        ),  # of a program of hers that hardly runs
        ("1001 1001", "ext4_buffered_write_iter", [SDA_FAILS], 0, ROOTS, False),
        ("1001 1001", "ext4_buffered_write_iter", [TIMEOUT], 0, ROOTS, False),
        ("1001 1001", "copy_net_ns", [], 0, ROOTS, True),
        ("1001 1001", "folio_wait_bit_common", [], 0, ROOTS, False),
        ("1001 1001", "__wait_on_buffer", [], 0, ROOTS, False),
        ("1001 1001", "jbd2_log_wait_commit", [], 0, ROOTS, False),
        ("1001 1001", "xlog_wait_on_iclog", [], 0, ROOTS, False),
        ("1001 1001", "rpc_wait_bit_killable", [], 0, ROOTS, False),
        ("1001 1001", "", [], 0, ROOTS, False),
        ("0 0", "copy_net_ns", [], 0, ROOTS, False),
        # a lock of hers that is in no list
        ("0 0", "copy_net_ns", [], 0, PRIVATE, True),
        ("0 0", "copy_net_ns", [SDA_FAILS], 0, PRIVATE, False),
        ("0 0", "super_lock", [], 0, ROOTS, True),  # sync(1), beside a mount that she does not end
        ("0 0", "ep_show_fdinfo", [], 0, ROOTS, True),  # lsof(8)
        ("0 0", "ext4_buffered_write_iter", [], 1001, PRIVATE, True),
        ("0 0", "path_openat", [], 1001, PRIVATE, True),
        ("0 0", "do_lock_mount.part.0", [], 0, PRIVATE, True),
        ("0 0", "path_openat", [], 0, ROOTS, True),
        (
            "0 0",
            "io_ring_exit_work",
            [],
            0,
            ROOTS,
            True,
        ),  # two rings of a user that wait for each other
        ("0 0", "io_ring_exit_work", [SDA_FAILS], 0, ROOTS, False),
        ("0 0", "path_openat", [SDA_FAILS], 1001, PRIVATE, False),
        ("0 0", "io_schedule", [], 1001, PRIVATE, False),
        ("1001 1001", "rpc_wait_bit_killable", [], 1001, PRIVATE, False),
        ("1001 1001", "nfs_wait_bit_killable", [], 1001, PRIVATE, False),
        ("1001 1001", "io_schedule", [SDA_FAILS], 1001, PRIVATE, False),
        (
            "1001 1001",
            "io_schedule",
            [SDA_FAILS.replace("sda", "loop0")],
            1001,
            PRIVATE,
            True,
        ),  # she may own it
        ("1001 1001", "io_schedule", [TIMEOUT], 1001, PRIVATE, False),
    ],
)
def test_task_that_waits_for_a_lock_may_be_held_by_a_user(
    ids, wchan, more, connection, seen, may_be
):
    files = {
        "/proc/4711/wchan": wchan,
        "/proc/4711/stat": "4711 (pt_main) D 1\n",
        "/proc/4711/status": f"Uid:\t{ids} 0 0\n",
        "/proc/4711/mountinfo": ROOTS,
        "/proc/self/mountinfo": ROOTS,
        "/proc/77/mountinfo": ROOTS + seen,
        "/sys/block/sda/size": "8\n",
        "/sys/block/sda/removable": "0\n",
        "/sys/block/sda/dev": "8:0\n",
    }
    told = {
        JOURNAL: reverse_log("".join(f"{one}\n" for one in (HUNG, *more))),
        DMESG: "[    1.0] Linux version 6.12\n",
    }
    reader = FakeReader(
        files, queries=told, now=NOW, processes=(EVE,), links={"/proc/77/ns/mnt": "mnt:[7]"},
        folders=["/sys/fs/fuse/connections/44"],
        stats={"/sys/fs/fuse/connections/44": Stat("directory", 0o500, connection, 0, 0, 0, 1, 1, 2)},
    )  # fmt: skip
    (found,) = Facts(reader).storage_log.hung
    assert found.may_be_staged is may_be


def test_what_is_said_of_a_users_image_pushes_out_nothing_else():
    """udisks2 mounts a user's image as often as that user likes, and a file that is cut short fails
    each read.
    """
    error = "1794990000.1 kernel: I/O error, dev {}, sector 8 op 0x0:(READ) flags 0x0"
    mounted = (
        "1794990000.1 kernel: EXT4-fs (loop0): mounted filesystem 0-0 r/w with ordered data mode."
    )
    told = (error.format("sdb"), STOPPED, SILENT, HUNG, *(error.format("loop0"), mounted) * 5000)
    kept = choose_lines("\n".join(told))

    assert {error.format("sdb"), STOPPED, SILENT, HUNG} <= {*kept}
    assert len(kept) == 4 + 2 * 400


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: I/O tag 0 (1000) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0) size:4096",
        "sd 0:0:1:0: timing out command, waited 180s",
        "sd 2:0:0:0: [sdb] tag#12 task abort: SUCCESS scmd(0x1)",
        "ata3.00: exception Emask 0x0 SAct 0x40 SErr 0x0 action 0x6 frozen",
        "ata3.00: failed command: READ FPDMA QUEUED",
    ],
)
def test_lines_of_disks_that_do_not_answer_are_asked_of_the_journal(line):
    (pattern,) = (one.removeprefix("--grep=") for one in JOURNAL if one.startswith("--grep="))
    assert regex(pattern).match(line)


def test_damage_that_xfs_found_counts_until_it_is_mounted_anew():
    damage = "1794990000.1 kernel: XFS (dm-4): Metadata corruption detected at xfs_agf_read_verify+0x2c/0x90 [xfs], xfs_agf block 0x1"
    anew = "1794990100.1 kernel: XFS (dm-4): Ending clean mount"
    assert log(damage, damage.replace("0000.1", "0001.1")).damaged == {"dm-4": 2}
    assert log(damage, anew).damaged == {}
    assert log(damage.replace("corruption", "CRC error"), anew.replace("dm-4", "sda1")).damaged == {
        "dm-4": 1
    }
