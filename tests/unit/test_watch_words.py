"""What a watch says: figures that can be true, both phases of a run, a line that leaves the screen
alone.
"""

from __future__ import annotations

import io
import os
import pty
from dataclasses import replace

import pytest

from hosttune.cli import status_title
from hosttune.cli.status_title import StatusTitle
from hosttune.host import console
from hosttune.measure.views.watch import watch_text
from hosttune.measure.views.watch_plot import _make_lanes
from hosttune.measure.views.watch_words import list_evidence, make_headline
from hosttune.measure.watch.recording import Recorder, replay
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.session import WatchEnd
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tick import FILE_SERVER, DiskTick, Mounted, Wait, Want, round_tick
from hosttune.measure.watch.verdict import Confidence
from hosttune.views.page import Page
from tests.unit.watch_scenarios import MEASURED, MIB, WATCHED, at, jittered, judged, tick


def seen(*parts, watched=WATCHED):
    ticks, end = [], 0.0
    for one, seconds in parts:
        ticks += at(jittered(one, seconds, seed=11), end)
        end += seconds
    verdict, account = judged(ticks, watched)
    return (
        verdict,
        account,
        make_headline(verdict, account),
        " ".join(list_evidence(verdict, account)),
    )


def test_more_from_a_device_than_was_read_is_not_said_to_be_of_it():
    text = seen((tick(gpus=(), read=1 * MIB, device=3 * MIB, children=(0.9,), idle=50), 30))[3]
    assert "of it" not in text
    assert "came from a device, what it maps and read-ahead included" in text
    assert (
        "of it"
        in seen((tick(gpus=(), read=9 * MIB, device=3 * MIB, children=(0.9,), idle=50), 30))[3]
    )


def test_bytes_over_tcp_are_told_as_a_lower_bound():
    one = tick(gpus=(), children=(0.3,), idle=80, read=0.0)
    one = replace(
        one,
        tree=replace(one.tree, received_bytes=2 * MIB),
        wait=Wait(Want.NETWORK, "10.0.0.9:9000"),
    )
    verdict, _, sentence, text = seen((one, 30))
    assert verdict.state is State.WAIT
    assert sentence == "WAIT: it waits for the network (10.0.0.9:9000)"
    assert "at least" in text
    assert "came over TCP" in text
    assert "slept on: network 100 %" in text


def test_cpus_are_told_with_two_decimals():
    one = replace(tick(gpus=(), cpu=80, idle=0, children=(1.0, 0.95), delay=0.6), cpus=1.92494)
    assert " of 1.92 CPUs" in seen((one, 30))[3]


def test_waiting_of_which_too_little_is_known_has_low_confidence():
    one = MEASURED["network-like waiting"][1]
    assert seen((one, 40))[0].confidence is Confidence.LOW
    assert seen((replace(one, wait=Wait(Want.NETWORK)), 40))[0].confidence is Confidence.HIGH
    known, unknown = replace(one, wait=Wait(Want.NETWORK)), one
    assert seen(*[(known, 1), (unknown, 9)] * 4)[0].waits_for is None


@pytest.mark.parametrize("kind", Want)
def test_each_kind_of_waiting_leads_to_its_own_advice(kind):
    one = replace(
        MEASURED["network-like waiting"][1],
        wait=Wait(kind, "it"),
        tree=replace(tick().tree, cores=0.3),
    )
    verdict, account, sentence, _ = seen((one, 30))
    assert (verdict.state, verdict.waits_for) == (State.WAIT, kind)
    assert "(it)" in sentence
    assert len({advice.text for advice in choose_remedies(verdict, account)} & {"", "waits"}) == 0


def test_sleep_alone_is_idling_and_waiting_for_somebody_is_not():
    asleep = tick(0.0, 60.0, idle=99, main=0.01, read=0.0)
    assert seen((replace(asleep, wait=Wait(Want.TIMER)), 30))[0].state is State.IDLE
    assert seen((replace(asleep, wait=Wait(Want.NETWORK)), 30))[0].state is State.WAIT


def test_job_that_was_seen_to_wait_for_a_store_waits_on_a_busy_host_too():
    busy = tick(
        0.0,
        60.0,
        cpu=85,
        idle=0,
        main=0.03,
        read=0.0,
        delay=0.02,
        job=None,
        wait=Wait(Want.NETWORK),
    )
    calm = replace(busy, tree=replace(busy.tree, most_runnable=0.1))
    assert seen((calm, 30))[0].state is State.WAIT
    queues = replace(busy, tree=replace(busy.tree, most_runnable=0.9, run_delay_cores=0.8))
    assert seen((queues, 30))[0].state is not State.WAIT
    assert seen((replace(calm, wait=Wait(Want.TIMER)), 30))[0].state is not State.WAIT


def test_both_phases_of_a_short_run_are_named_with_their_shares():
    disk, worker = MEASURED["disk bound, two workers"][1], MEASURED["one worker"][1]
    verdict, _, sentence, _ = seen(
        (disk, 12), (worker, 13), watched=replace(WATCHED, warm_up_s=0.0)
    )
    assert [cut.state for cut in verdict.segments] == [State.DISK, State.WORKERS]
    assert "DISK 48 %" in sentence
    assert "WORKERS 52 %" in sentence


def test_storage_that_is_waited_for_is_named():
    one = replace(MEASURED["disk bound, two workers"][1], mounts=(
        Mounted("/run", "tmpfs", "tmpfs"), Mounted("/far", "fuse.sshfs", "host:/x", "sshfs (process 77)"),
    ))  # fmt: skip
    assert seen((one, 30))[2] == (
        "DISK: it waits for storage: /far (fuse.sshfs of host:/x, served by sshfs (process 77))"
    )


def test_storage_that_is_named_is_where_its_files_lay_most_of_the_time():
    start = replace(
        MEASURED["disk bound, two workers"][1], mounts=(Mounted("/", "ext4", "/dev/sda"),)
    )
    later = replace(
        start, mounts=(Mounted("/data", "ext4", "/dev/sdb"), Mounted("/", "ext4", "/dev/sda"))
    )
    assert (
        seen((start, 4), (later, 30))[2] == "DISK: it waits for storage: /data (ext4 of /dev/sdb)"
    )


def test_storage_of_a_job_that_reads_from_no_device_is_what_a_process_serves():
    """Beside others who write on the disk of the host."""
    busy = (DiskTick("sda", 0.0, 20 * MIB, 0.5, 1.5),)
    mounts = (
        Mounted("/", "ext4", "/dev/sda"),
        Mounted("/far", "fuse.sshfs", "host:/x", "sshfs (process 77)"),
    )
    one = replace(MEASURED["disk bound, two workers"][1], mounts=mounts, disks=busy)
    served = replace(one, tree=replace(one.tree, device_bytes=0.0))
    assert seen((served, 30))[2] == (
        "DISK: it waits for storage: /far (fuse.sshfs of host:/x, served by sshfs (process 77))"
    )
    assert (
        seen((one, 30))[2]
        == "DISK: it waits for storage, which is busy with writing: / (ext4 of /dev/sda)"
    )
    rest = replace(one, disks=(replace(busy[0], in_flight=0.01),))
    assert seen((rest, 30))[2] == "DISK: it waits for storage: / (ext4 of /dev/sda)"


def test_cpus_that_others_use_a_part_of_are_not_called_busy_with_its_own_work():
    one = tick(4.0, 90.0, cpu=65, idle=0, children=(0.2,) * 4, main=0.25)
    assert seen((one, 30))[2] == (
        "CPU: it needs more CPU time than it can get: of 2 CPUs it has 1.05, and others use the rest"
    )
    bursts = replace(one, host=replace(one.host, idle_percent=45.0, busy_cores=1.05))
    assert seen((bursts, 30))[2].endswith(
        "of 2 CPUs it has 1.05, and in between its tasks queue for them"
    )
    full = replace(one, tree=replace(one.tree, cores=1.95))
    assert seen((full, 30))[2].endswith("all its CPUs are busy, with its own work")


def test_thirty_seconds_with_a_warm_up_of_ten_are_long_enough():
    watched = replace(WATCHED, warm_up_s=10.0)
    one = tick(99.0, 280.0)
    ticks = [replace(one, at_s=0.9995 * number, seconds=0.9995) for number in range(1, 31)]
    verdict, _ = judged(ticks, watched)
    assert verdict.counted_s < 20
    assert verdict.confidence is Confidence.HIGH
    assert not any("watch longer" in sentence for sentence in verdict.would_decide)


def test_what_is_judged_is_what_a_record_holds(tmp_path):
    """A look gives ticks that are rounded already, so that live and replay see the same."""
    ticks = [
        round_tick(replace(one, seconds=0.99951))
        for one in jittered(MEASURED["one worker"][1], 30, seed=4)
    ]
    recorder = Recorder(str(tmp_path / "r"))
    recorder.begin(replace(WATCHED, interval_s=1 / 3))
    for one in ticks:
        recorder.add(one)
    recorder.close()
    watched, found = replay(str(tmp_path / "r"))
    assert watched.interval_s == 1 / 3
    assert list(found) == ticks


def test_axis_of_two_cpus_ends_at_two():
    one = tick(gpus=(), cpu=80, idle=0, children=(1.0, 1.0), main=0.03, delay=0.6)
    _, account, _, _ = seen((one, 30))
    lane = next(lane for lane in _make_lanes(account.history.points, "") if lane.title == "CPU")
    assert lane.labels[0].text == "2"


def test_advice_for_a_program_of_one_thread_speaks_of_no_loaders():
    one = tick(gpus=(), idle=50, main=1.0)
    verdict, account, _, _ = seen((replace(one, tree=replace(one.tree, program="x264")), 30))
    assert verdict.state is State.WORKERS
    assert "DataLoader" not in " ".join(advice.text for advice in choose_remedies(verdict, account))
    busy = tick(gpus=(), cpu=80, idle=0, children=(1.0, 0.95), delay=0.6)
    verdict, account, _, _ = seen((replace(busy, tree=replace(busy.tree, program="python3")), 30))
    assert verdict.state is State.CPU
    assert "on the GPU" not in " ".join(advice.text for advice in choose_remedies(verdict, account))


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 2


def on_terminal(monkeypatch, term):
    """Standard error is a terminal of this kind, and ours; set in the test itself, because pytest
    sets it for each.
    """
    stream = Terminal()
    monkeypatch.setattr(status_title.sys, "stderr", stream)
    monkeypatch.setattr(console.os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    monkeypatch.setenv("TERM", term)
    return stream


def test_line_about_a_watch_touches_nothing_on_the_screen(monkeypatch):
    terminal = on_terminal(monkeypatch, "xterm-256color")
    title = StatusTitle(is_wanted=True)
    title.tell("watch 0:00:01  WORKERS\x1b[2J")
    title.tell("watch 0:00:02  WORKERS")
    title.close()
    title.close()
    written = terminal.getvalue()
    assert written.startswith("\x1b[22;2t\x1b]2;watch 0:00:01  WORKERS")
    assert written.endswith("\x1b]2;watch 0:00:02  WORKERS\x07\x1b]2;\x07\x1b[23;2t")
    for moves in (
        "\n",
        "\r",
        "\x1b[2J",
        "\x1b[1;",
        "\x1b7",
        "\x1b[2K",
    ):  # cursor, scroll region, erasing
        assert moves not in written


@pytest.mark.parametrize(("term", "is_wanted"), [("linux", True), ("dumb", True), ("xterm", False)])
def test_no_title_where_it_is_not_wanted_or_there_is_none(monkeypatch, term, is_wanted):
    terminal = on_terminal(monkeypatch, term)
    StatusTitle(is_wanted=is_wanted).tell("x")
    assert terminal.getvalue() == ""


def test_title_of_a_terminal_that_has_gone_away_is_given_up(monkeypatch):
    terminal = on_terminal(monkeypatch, "xterm")
    monkeypatch.setattr(terminal, "flush", lambda: (_ for _ in ()).throw(OSError()))
    title = StatusTitle(is_wanted=True)
    title.tell("x")
    before = terminal.getvalue()
    title.tell("y")
    title.close()
    assert terminal.getvalue() == before


def test_terminal_of_another_job_is_left_alone(monkeypatch):
    ours, theirs = pty.openpty()
    try:
        monkeypatch.setenv("TERM", "xterm")
        with os.fdopen(os.dup(theirs), "w") as stream:
            assert not console.has_title(stream)  # it is not our controlling terminal
    finally:
        os.close(ours)
        os.close(theirs)


def test_idling_says_nothing_about_signals_that_were_not_asked():
    asleep = tick(0.0, 60.0, idle=99, main=0.01, read=0.0, wait=Wait(Want.TIMER))
    verdict, _, _, text = seen((asleep, 30))
    assert verdict.state is State.IDLE
    assert "pressure" not in text
    assert verdict.not_the_cause == ()


def test_kernel_without_pressure_is_told_of_where_the_job_worked():
    blind = replace(tick(99.0, 280.0), job=None, host_pressure=None)
    assert "pressure (PSI): not measured by this kernel" in seen((blind, 30))[3]


def test_free_cpus_are_said_to_be_the_hosts_where_those_of_the_job_are_not_told():
    one = tick(99.0, 280.0, idle=48)
    assert " of 2 CPUs; " in seen((one, 30))[3]
    assert "% of them are free" in seen((one, 30))[3]
    for blind in (replace(one, cpus=None), replace(one, tree=replace(one.tree, cores=None))):
        text = seen((blind, 30))[3]
        assert "of them" not in text
        assert "% of the CPUs are free" in text


def test_wait_for_the_server_of_a_file_system_names_it_and_rules_no_storage_out():
    """As of WSL#13640: data on a drive of Windows, over 9p."""
    mounts = (Mounted("/mnt/f", "9p", "F:"),)
    one = tick(4.0, 90.0, idle=96, main=0.06, wait=Wait(Want.NETWORK, FILE_SERVER), mounts=mounts)
    verdict, account, sentence, _ = seen((one, 30))
    assert sentence == "WAIT: it waits for the network (a file system's server: /mnt/f (9p of F:))"
    assert State.DISK not in verdict.not_the_cause
    assert any(
        "its server or the page cache has the rest" in line
        for line in list_evidence(verdict, account)
    )
    store, account, *_ = seen(
        (replace(one, wait=Wait(Want.NETWORK, "10.0.0.1:443"), mounts=()), 30)
    )
    assert State.DISK in store.not_the_cause
    assert any(": the page cache has the rest" in line for line in list_evidence(store, account))


def test_verdict_names_a_folder_of_a_user_without_what_steers_a_terminal():
    one = replace(
        MEASURED["disk bound, two workers"][1],
        mounts=(Mounted("/far\x1b]0;x\x07", "fuse.sshfs", "host:/x"),),
    )
    _, account, headline, _ = seen((one, 30))
    assert "\x1b" in headline
    text = watch_text(WatchEnd(account, "the command has ended"), Page())
    assert "storage: /far\\x1b]0;x\\x07" in text
    assert "\x1b" not in text
