"""What /proc says, parsed: odd names, old kernels, files that are cut off."""

from __future__ import annotations

import os
import struct

import pytest

from hosttune.measure.watch.allowances import Allowances, allowances_of
from hosttune.measure.watch.counting import Counters, compute_sums
from hosttune.measure.watch.family import Member, sort_family
from hosttune.measure.watch.group import folder_of
from hosttune.measure.watch.host import disk_tick
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.others import GONE, find_busiest, gpu_users
from hosttune.measure.watch.parse import (
    CpuTimes,
    ProcessIo,
    ProcessStat,
    count_turns,
    cpu_times,
    disk_counters,
    host_times,
    parse_counter,
    pressure_totals,
    process_io,
    process_stat,
    run_delay,
)
from hosttune.measure.watch.process import WatchedProcess
from hosttune.measure.watch.tick import HeldBack

STAT = b"4242 (a) b (c) D 7 42 40 34816 4242 4194304 99 0 5 0 120 30 10 4 20 0 3 0 3826173 3133440 358 18446744073709551615"


def test_process_with_parentheses_in_its_name_is_read():
    assert process_stat(STAT) == ProcessStat("a) b (c", "D", 7, 42, 40, 150, 14, 3, 3826173, 5)


@pytest.mark.parametrize(
    "content", [b"", b"4242 (x", b"4242 (x) S 1 2", STAT.replace(b" 120 ", b" x ")]
)
def test_process_that_is_cut_off_is_unknown(content):
    assert process_stat(content) is None


def test_bytes_of_a_process_are_read_and_a_missing_line_is_unknown():
    assert process_io(
        b"rchar: 100\nwchar: 2\nsyscr: 1\nsyscw: 3\nread_bytes: 50\nwrite_bytes: 7\ncancelled_write_bytes: 0\n"
    ) == ProcessIo(100, 50, 7)
    assert process_io(b"rchar: 100\n") is None


def test_pressure_without_full_is_half_known():
    assert pressure_totals(b"some avg10=0.67 avg60=1.02 avg300=0.74 total=113\n") == (113, None)
    assert pressure_totals(b"some avg10=0 total=5\nfull avg10=0 total=3\n") == (5, 3)
    assert pressure_totals(b"") == (None, None)


def test_run_delay_is_the_second_field():
    assert run_delay(b"4109883 1760528 2\n") == 1760528
    assert run_delay(b"0 0 0") == 0
    assert run_delay(b"") is None


HOST = b"cpu  10 2 3 100 20 1 1 3 5 0\ncpu0 4 1 1 60 10 1 0 1 0 0\ncpu1 6 1 2 40 10 0 1 2 0 0\nintr 5\nprocesses 77\nprocs_running 1\n"


def test_processors_are_summed_over_those_the_job_may_use():
    assert host_times(HOST, None) == CpuTimes(20, 100, 20, 3)
    assert host_times(HOST, frozenset({1})) == CpuTimes(12, 40, 10, 2)
    assert host_times(HOST, frozenset({9})) is None
    assert host_times(b"", None) is None


def test_counter_is_found_at_the_start_of_a_line_alone():
    assert parse_counter(HOST, b"processes") == 77
    assert parse_counter(b"pswpin 5\nxpswpout 9\npswpout 7\n", b"pswpin") == 5
    assert parse_counter(b"pswpin 5\nxpswpout 9\npswpout 7\n", b"pswpout") == 7
    assert parse_counter(b"a 1\n", b"b") is None


def test_disk_rates_come_from_two_looks():
    before = b"   8 0 sda 100 0 2000 500 10 0 80 40 0 0 540 0 0 0 0 0 0\n   8 1 sda1 1 0 1 1 1 0 1 1 0 0 1\n"
    after = before.replace(b"100 0 2000 500", b"150 0 6000 900").replace(b" 540 ", b" 2540 ")
    was, now = (disk_counters(one, frozenset({b"sda"}))["sda"] for one in (before, after))
    tick = disk_tick("sda", was, now, 2.0)
    assert (tick.read_bytes, tick.written_bytes, tick.read_await_ms, tick.in_flight) == (
        4000 * 512 / 2,
        0.0,
        8.0,
        1.0,
    )
    assert disk_tick("sda", was, was, 2.0).read_await_ms is None


def stat(parent=1, own=0, ended=0, started=50, state="S"):
    return ProcessStat("x", state, parent, 1, 1, own, ended, 1, started)


def counters(own=0, ended=0, read=0, delay=0, parent=1, started=50):
    return Counters(stat(parent, own, ended, started), ProcessIo(read, read, 0), delay)


def test_child_that_ended_and_was_waited_for_counts_once():
    before = {1: counters(own=100), 2: counters(own=40, read=1000, parent=1)}
    now = {
        1: counters(own=110, ended=55, read=1500)
    }  # the child took 15 more and read 500 before it ended
    done = compute_sums(before, now, last_look=60)
    assert (done.ticks, done.io) == (25, ProcessIo(500, 500, 0))


def test_line_of_processes_that_ended_between_two_looks_counts_once():
    """A shell, and what it ran for 40 s: both end, and the shell above gets the time of both in one
    look.
    """
    before = {
        1: counters(own=10),
        2: counters(own=1, parent=1),
        3: counters(own=4000, read=900, parent=2),
    }
    found = compute_sums(before, {1: counters(own=11, ended=1 + 4030, read=950)}, last_look=500)
    assert (found.ticks, found.io.read) == (31, 50)


def test_line_of_which_only_the_upper_was_waited_for_loses_nothing_of_the_lower():
    """Init took the lower one, and is none of the job's."""
    before = {1: counters(own=10), 2: counters(own=50, parent=1), 3: counters(own=4000, parent=2)}
    assert compute_sums(before, {1: counters(own=11, ended=55)}, last_look=500).ticks == 6


def test_one_of_two_children_that_nobody_waited_for_takes_nothing_away():
    before = {1: counters(own=10), 2: counters(own=70, parent=1), 3: counters(own=60, parent=1)}
    assert compute_sums(before, {1: counters(own=10, ended=75)}, last_look=500).ticks == 5


def test_parents_that_lead_in_a_circle_end():
    before = {2: counters(own=1, parent=3), 3: counters(own=1, parent=2)}
    assert compute_sums(before, {}, last_look=500).ticks == 0


def test_child_that_ended_and_was_not_waited_for_takes_nothing_away():
    before = {1: counters(own=100), 2: counters(own=40, parent=1)}
    assert compute_sums(before, {1: counters(own=110)}, 60).ticks == 10


def test_new_process_counts_from_its_start_and_a_late_found_one_from_now_on():
    before = {1: counters(own=100)}
    fresh = {1: counters(own=100), 2: counters(own=30, ended=5, read=9, delay=4, started=70)}
    assert compute_sums(before, fresh, 60)[2:7] == (35, 0, ProcessIo(9, 9, 0), 4, 0)
    late = {1: counters(own=100), 2: counters(own=30, ended=5, read=9, started=20)}
    assert compute_sums(before, late, 60)[2:5] == (0, 0, ProcessIo(0, 0, 0))


def test_what_one_process_does_not_tell_is_unknown_for_all():
    before = {1: counters(), 2: counters()}
    now = {1: counters(own=5), 2: Counters(stat(own=5), None, None)}
    assert compute_sums(before, now, 60)[2:7] == (10, 10, None, None, 0)


def test_time_of_processes_that_come_and_go_is_told_from_that_of_those_that_stay():
    before = {1: counters(own=100), 2: counters(own=40, parent=1), 3: counters(own=0, parent=1)}
    now = {
        1: counters(own=110, ended=70),
        3: counters(own=50, parent=1),
        4: counters(own=25, parent=1, started=70),
    }
    done = compute_sums(before, now, last_look=60)
    assert (done.ticks, done.lasting) == (10 + (70 - 40) + 50 + 25, 10 + 50)


PYTHON, SPAWNED = b"python\0train.py", b"python\0-c\0from multiprocessing.spawn import spawn_main"


@pytest.mark.parametrize(
    ("members", "mains", "launchers"),
    [
        ([Member(1, 0, PYTHON, 1.0)], {1}, set()),
        (
            [Member(1, 0, PYTHON, 0.0), Member(2, 1, PYTHON, 0.9), Member(3, 1, PYTHON, 0.9)],
            {1},
            set(),
        ),
        ([Member(1, 0, PYTHON, 0.0), Member(2, 1, SPAWNED, 0.9)], {1}, set()),
        (
            [
                Member(1, 0, b"bash\0run.sh", 0.0),
                Member(2, 1, PYTHON, 0.0),
                Member(3, 2, PYTHON, 1.0),
            ],
            {2},
            {1},
        ),
        (
            [
                Member(1, 0, b"torchrun", 0.0),
                Member(2, 1, b"python\0-u\0t", 0.1),
                Member(3, 1, b"python\0-u\0t", 0.1),
                Member(4, 2, b"python\0-u\0t", 1.0),
            ],
            {2, 3},
            {1},
        ),
        ([Member(1, 0, PYTHON, 0.9), Member(2, 1, b"nvidia-smi", 0.0)], {1}, set()),
        ([Member(5, 4, b"sh", 0.0)], {5}, set()),
    ],
)
def test_family_tells_mains_from_launchers_and_workers(members, mains, launchers):
    found = sort_family(members, 1)
    assert (found.mains, found.launchers) == (mains, launchers)


def test_family_believes_the_gpu_about_its_mains():
    members = [
        Member(1, 0, b"sh", 0.0),
        Member(2, 1, PYTHON, 0.0),
        Member(3, 2, PYTHON, 0.9),
        Member(4, 2, PYTHON, 0.9),
    ]
    found = sort_family(members, 1, frozenset({2, 999}))
    assert (found.mains, found.launchers) == ({2}, {1})


MOUNTS = b"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
HYBRID = b"40 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
CONTAINER = b"50 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "folder"),
    [
        (b"0::/user.slice/session-2.scope\n", MOUNTS, "/sys/fs/cgroup/user.slice/session-2.scope"),
        (b"4:memory:/x\n1:cpu:/\n0::/\n", HYBRID, "/sys/fs/cgroup/unified"),
        (b"0::/docker/abc/job\n", CONTAINER, "/sys/fs/cgroup/job"),
        (b"4:memory:/x\n", MOUNTS, ""),
        (b"0::/x\n", b"", ""),
        (b"0::/../../elsewhere\n", MOUNTS, ""),
        (b"", MOUNTS, ""),
    ],
)
def test_group_of_a_process_is_found_where_it_is_mounted(groups, mounts, folder):
    assert folder_of(groups, mounts) == folder


def test_users_of_its_gpus_are_neither_the_job_nor_mps_and_what_has_ended_is_named_so(
    tmp_path, monkeypatch
):
    def kill(pid, number):
        assert number == 0
        raise (PermissionError if pid == 7 else ProcessLookupError)  # 7: hidden by hidepid

    monkeypatch.setattr(os, "kill", kill)
    for pid, name in ((4, "python3"), (5, "train"), (6, "nvidia-cuda-mps")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(
            f"{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9 0 0\n"
        )
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text(
        "9 (train) Z 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9 0 0\n"
    )
    found = gpu_users([9, 8, 7, 6, 5, 4, 4], {5}, str(tmp_path))
    assert [(one.pid, one.name) for one in found] == [(4, "python3"), (8, GONE), (9, GONE)]


def test_busiest_of_the_others_leaves_out_the_job_and_what_is_new_to_a_number():
    was = {1: stat(own=0), 2: stat(own=0), 3: stat(own=0, started=1), 4: stat(own=5)}
    now = {1: stat(own=90), 2: stat(own=80), 3: stat(own=99), 4: stat(own=7), 5: stat(own=500)}
    assert [(one.pid, one.cores) for one in find_busiest(was, now, {2}, 1.0, 100)] == [(1, 0.9)]


def test_stolen_time_is_read_and_counts_as_busy():
    assert cpu_times(b"cpu0 10 0 5 80 2 0 1 30 7 0") == CpuTimes(46, 80, 2, 30)
    both = b"cpu  0 0 0 0 0 0 0 0\ncpu0 1 0 0 2 0 0 0 5\ncpu1 1 0 0 2 0 0 0 7\nintr 0\n"
    assert host_times(both, frozenset({0, 1})) == CpuTimes(14, 4, 0, 12)


NAMES = (
    b"tx_bytes",
    b"bw_in_allowance_exceeded",
    b"pps_allowance_exceeded",
    b"conntrack_allowance_available",
)


def test_allowance_counters_are_read_and_cut_answers_give_less():
    names = b"".join(name.ljust(32, b"\0") for name in NAMES)
    values = struct.pack("=4Q", 9, 12, 3, 7)
    assert allowances_of(names, values) == {
        "bw_in_allowance_exceeded": 12,
        "pps_allowance_exceeded": 3,
    }
    assert allowances_of(names, values[:17]) == {"bw_in_allowance_exceeded": 12}
    assert allowances_of(b"", values) == {}


def test_only_cards_of_the_ena_driver_are_asked_and_only_what_grew_is_told(tmp_path, monkeypatch):
    for card, driver in (("eth0", "ena"), ("eth1", "mlx5_core"), ("lo", "")):
        (tmp_path / "class/net" / card / "device").mkdir(parents=True)
        if driver:
            (tmp_path / "class/net" / card / "device/driver").symlink_to(
                f"/sys/bus/pci/drivers/{driver}"
            )
    counts = iter(
        [
            {"bw_in_allowance_exceeded": 5, "pps_allowance_exceeded": 1},
            {"bw_in_allowance_exceeded": 8, "pps_allowance_exceeded": 1},
        ]
    )
    asked = []
    monkeypatch.setattr(
        "hosttune.measure.watch.allowances.card_counters",
        lambda card: asked.append(card) or next(counts),
    )
    assert Allowances(sys=str(tmp_path)).look() == (HeldBack("eth0 bw_in_allowance_exceeded", 3),)
    assert asked == ["eth0", "eth0"]


def test_words_of_a_process_are_read_anew_when_it_becomes_another_program(tmp_path):
    folder = tmp_path / "7"
    folder.mkdir()

    def become(name, stack, words):
        fields = [b"S", b"1"] + [b"0"] * 17 + [b"99"] + [b"0"] * 5 + [stack] + [b"0"] * 10
        (folder / "stat").write_bytes(b"7 (" + name + b") " + b" ".join(fields))
        (folder / "cmdline").write_bytes(words)

    become(b"sh", b"4096", b"sh\0run.sh\0")
    one = WatchedProcess(7, str(tmp_path), is_kept=False)
    seen = []
    for name, stack, words in (
        (b"sh", b"4096", b"not read\0"),
        (b"sh", b"8192", b"sh\0next.sh\0"),  # exec(2) of the same program has another stack
        (b"python3", b"8192", b"python3\0train.py\0"),
    ):
        one.look()
        become(name, stack, words)
        seen.append(one.look() and one.command)
    assert seen == [b"sh\0run.sh\0", b"sh\0next.sh\0", b"python3\0train.py\0"]


def test_file_that_is_read_once_is_cut_at_its_limit_and_whole_below_it(tmp_path):
    file = tmp_path / "list"
    for size in (0, 100, 2048, 5000, 70_000):
        file.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        assert content_of(str(file)) == file.read_bytes()[: 64 << 10]
        assert content_of(str(file), 10) == file.read_bytes()[:10]
    assert content_of(str(tmp_path / "missing")) is None


def test_turns_on_a_cpu_are_the_third_field():
    assert count_turns(b"4109883 1760528 2\n") == 2
    assert count_turns(b"4109883 1760528") is None
    assert count_turns(b"1 2 " + b"9" * 5_000) is None


def test_turns_count_from_look_to_look():
    before = {1: Counters(stat(own=5), None, 0, 100), 2: Counters(stat(own=5), None, 0)}
    now = {
        1: Counters(stat(own=9), None, 0, 250),
        2: Counters(stat(own=5), None, 0, 7),
        3: Counters(stat(), None, 0, 9),
    }
    assert compute_sums(before, now, 10**9).turns == {1: 150}
