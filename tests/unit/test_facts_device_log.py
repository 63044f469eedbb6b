"""The kernel log of devices and tables that stopped."""

import re

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.device_log import (
    ResetDrive,
    amd_faults_in,
    denied_in,
    held_in,
    mlx5_faults_in,
    resets_in,
)
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL
from hosttune.facts.limits.host_tables import files_in, may_be_own
from tests.unit.fake_reader import FakeReader

A, B = "0a1b2c3d-1111-4222-8333-444455556666", "bbbbbbbb-1111-4222-8333-444455556666"

NOW = 1_780_000_000.0
HEAD = "[    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02)\n"
EVICTED = "LustreError: 167-0: a-OST0002-osc-ff: This client was evicted by a-OST0002; in progress operations"


def facts(*lines, at=NOW - 60):
    journal = "".join(f"{at:.6f} kernel: {line}\n" for line in lines)
    return Facts(
        FakeReader(
            {"/proc/uptime": "200000.0 1.0\n"}, queries={JOURNAL: journal, DMESG: HEAD}, now=NOW
        )
    )


def test_commands_that_time_out_together_are_one_reset():
    lines = [(1.0, "nvme1", False), (1.2, "nvme1", False), (30.0, "nvme1", False)]
    assert resets_in(lines) == (ResetDrive("nvme1", 2),)
    assert resets_in([(None, "nvme1", False), (None, "nvme1", False)]) == (ResetDrive("nvme1", 1),)


def test_controller_that_was_set_up_between_two_lines_without_times_was_reset_twice():
    lines = [
        (None, "nvme1", True),
        (None, "nvme1", False),
        (None, "nvme1", True),
        (None, "nvme1", False),
    ]
    assert resets_in(lines) == (ResetDrive("nvme1", 2),)
    assert resets_in([*lines[:2], (None, "nvme2", True), lines[1]]) == (ResetDrive("nvme1", 1),)


def test_set_up_of_the_boot_is_no_reset():
    assert facts("nvme nvme1: 63/0/0 default/read/poll queues").device_log.reset_drives == ()


@pytest.mark.parametrize(
    ("first", "last", "held"),
    [(1200, 10, ("eth0",)), (120, 10, ()), (40_000, 36_000, ()), (1200, 400, ())],
)
def test_interface_for_which_the_kernel_waits_for_minutes_and_still_does_is_held(first, last, held):
    waiting = re.match(r".* (\S+)", "waiting for eth0")
    assert held_in([(NOW - ago, waiting) for ago in range(first, last, -10)], NOW) == held


def test_error_of_pcie_from_which_a_gpu_was_not_recovered_counts_for_a_day():
    line = "nvidia 0000:1b:00.0: AER: can't recover (no error_detected callback)"
    assert facts(line, line).device_log.unrecovered == ("0000:1b:00.0",)
    assert facts(line, at=NOW - 90_000).device_log.unrecovered == ()
    assert facts(line.replace("nvidia", "snd_hda_intel")).device_log.unrecovered == ()


def test_fault_of_an_amd_gpu_ends_with_a_reset_that_works_or_a_driver_that_is_loaded_anew():
    failed = "amdgpu 0000:4e:00.0: amdgpu: GPU reset(3) failed"
    assert "0000:4e:00.0" in amd_faults_in([failed])
    assert amd_faults_in([failed, "amdgpu 0000:4e:00.0: amdgpu: GPU reset(4) succeeded!"]) == {}
    assert amd_faults_in([failed, "[drm] amdgpu kernel modesetting enabled."]) == {}


def test_error_of_hardware_counts_after_a_set_up_that_failed_before():
    broken = "amdgpu 0000:4e:00.0: amdgpu: Uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"
    failed = "amdgpu 0000:4e:00.0: amdgpu: Fatal error during GPU init"
    assert "rdware error" in amd_faults_in([failed, broken])["0000:4e:00.0"]


def test_fault_of_a_card_ends_when_it_is_set_up_anew():
    dead = "mlx5_core 0000:65:01.0: poll_health:852:(pid 0): device's health compromised - reached miss count"
    synd = "mlx5_core 0000:65:01.0: print_health_info:458:(pid 0): synd 0x7: irisc not responding"
    assert mlx5_faults_in([dead, synd]) == {"0000:65:01.0": "irisc not responding"}
    assert mlx5_faults_in([synd]) == {}
    assert mlx5_faults_in([dead, "mlx5_core 0000:65:01.0: firmware version: 28.39.2048"]) == {}


def test_what_is_older_than_a_day_is_over():
    assert facts(EVICTED).device_log.evicted_by == ("a-OST0002",)
    assert facts(EVICTED, at=NOW - 90_000).device_log.evicted_by == ()


def test_log_that_nobody_can_read_is_unknown():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({}, now=NOW)).device_log.evicted_by


def test_counter_that_holds_something_else_counts_nothing():
    assert files_in("1000\t0\t2000\n") == (1000, 2000)
    assert files_in("x") == (0, 0)
    assert may_be_own("")
    assert not may_be_own("entries drop\n01 00\n")
    assert may_be_own("entries drop\n01 0a\n")


def test_table_that_a_user_fills_pushes_out_no_other_line():
    """In a network namespace of the own any user fills a table of connections, and the kernel says
    so each time.
    """
    drive, card = (
        "nvme nvme3: I/O 12 QID 3 timeout, reset controller",
        "mlx5_core 0000:65:01.0: Fatal error 3 detected",
    )
    log = facts(
        drive, card, EVICTED, *["nf_conntrack: nf_conntrack: table full, dropping packet"] * 5000
    ).device_log

    assert [one.name for one in log.reset_drives] == ["nvme3"]
    assert (set(log.mlx5_faults), log.evicted_by) == ({"0000:65:01.0"}, ("a-OST0002",))
    assert log.conntrack_full == 500


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        ((f"ceph: [{A} 100]: mds0 reconnect denied", f"libceph: client200 fsid {B}"), ("mds0",)),
        ((f"ceph: [{A} 100]: mds0 reconnect denied", f"libceph: client200 fsid {A}"), ()),
        (("ceph: mds0 reconnect denied", f"libceph: client200 fsid {A}"), ()),
        (
            (
                f"libceph: client1 fsid {A}",
                "ceph: mds0 reconnect denied",
                f"libceph: client2 fsid {B}",
            ),
            ("mds0",),
        ),
    ],
)
def test_client_of_another_cluster_of_ceph_ends_no_denial(texts, left):
    assert denied_in(texts) == left
