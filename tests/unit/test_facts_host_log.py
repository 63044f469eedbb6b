"""The kernel log of this boot: what stood still, what ran out, what cards complain of."""

import re
from time import process_time

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import complete
from hosttune.facts.gpu.gpu_errors import xids_in
from hosttune.facts.gpu.nvidia_smi import messages_in
from hosttune.facts.kernel.host_log import (
    MAX_LINES,
    choose_lines,
    count_severities,
    died_in,
    lockups_in,
    modules_in,
)
from hosttune.facts.kernel.kernel_log import (
    DAY_OLD,
    DMESG,
    JOURNAL,
    MISSED,
    NEWEST,
    date_dmesg,
    lines_of,
    merge_logs,
    message_of,
    reverse_log,
)
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordingReader, RecordReader
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

NOW = 1_780_000_000.0
NOISE = 'audit: type=1400 audit(1.1:1): apparmor="DENIED"\nnvme nvme0: 8/0/0 queues\n'
LINES = (
    "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:77]",
    "mlx5_core 0000:17:00.0 ib0: Link down",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/a,task=python3,pid=1,uid=1000",
)


def log_of(*texts, at=NOW - 60):
    return "".join(f"{at:.6f} kernel: {text}\n" for text in texts)


HEAD = "[    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02)\n"
UPTIME = {"/proc/uptime": "7200.00 1.00\n"}


def reader(journal, **more):
    return FakeReader(UPTIME, queries={JOURNAL: journal, DMESG: HEAD, **more}, now=NOW)


def test_host_log_of_a_quiet_host_is_empty():
    seen = Facts(reader(Completed(1, b"", b""))).host_log
    assert (seen.lockups, seen.out_of_memory, seen.cards, seen.peermem_errors) == ((), (), (), 0)


def test_host_log_what_is_older_than_a_day_is_not_told_as_of_today():
    seen = Facts(reader(log_of(*LINES, at=NOW - 90_000))).host_log
    assert (seen.lockups, seen.out_of_memory) == ((), ("python3",))
    assert [(card.slot, card.link_downs) for card in seen.cards] == [("0000:17:00.0", 0)]


def test_breaks_of_a_virtual_function_are_those_of_the_container_that_has_it():
    """Its root sets it down and up, and the kernel says that the link went down."""
    function = "mlx5_core 0000:17:01.2 eth0: Link down"
    links = {"/sys/bus/pci/devices/0000:17:01.2/physfn": "../0000:17:00.0"}
    answers = {JOURNAL: log_of(LINES[1], *[function] * 5), DMESG: HEAD}
    seen = Facts(FakeReader(UPTIME, links=links, queries=answers, now=NOW)).host_log
    assert [card.slot for card in seen.cards] == ["0000:17:00.0"]


def test_host_log_of_dmesg_is_dated_by_the_time_since_boot():
    kernel = "".join(f"[ 7000.000001] {line}\n" for line in LINES)
    files = {"/proc/uptime": "7200.00 1.00\n", "/proc/stat": f"btime {NOW - 7200:.0f}\n"}
    seen = Facts(FakeReader(files, queries={DMESG: kernel}, now=NOW)).host_log
    assert seen.lockups == ("soft lockup in kworker/1:2 (22 s)",)
    assert seen.cards[0].link_downs == 1


@pytest.mark.parametrize(
    ("files", "is_known"), [({"/dev/null": ""}, False), ({"/dev/kmsg": ""}, True), ({}, True)]
)
def test_host_log_of_a_message_with_line_breaks_is_unknown_without_kmsg(files, is_known):
    """syslog(2) has the time before each line of a message, so that a path can hold a line that
    looks like one.
    """
    kernel = "[    9.0] overlayfs: failed to resolve '/no\n[    9.0] {1}[Hardware Error]: event severity: fatal': -2\n"
    seen = Facts(
        FakeReader({"/proc/uptime": "7200.00 1.00\n", **files}, queries={DMESG: kernel}, now=NOW)
    ).host_log
    if is_known:
        assert seen.lockups == ()
    else:
        with pytest.raises(UnknownFact, match="without /dev/kmsg"):
            _ = seen.uncorrected


def test_host_log_without_times_is_of_today():
    seen = Facts(
        FakeReader({"/proc/stat": "btime 1\n"}, queries={DMESG: "\n".join(LINES)}, now=NOW)
    ).host_log
    assert seen.lockups == ("soft lockup in kworker/1:2 (22 s)",)
    assert seen.cards[0].link_downs == 1


def test_host_log_that_may_not_be_read_is_unknown():
    refused = Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n")
    journal = Completed(
        1, b"", b"Hint: You are currently not seeing messages from other users and the system.\n"
    )
    with pytest.raises(UnknownFact, match="needs root, or the group adm"):
        _ = Facts(FakeReader(queries={JOURNAL: journal, DMESG: refused})).host_log.cards


def test_host_log_is_bounded_and_no_storm_pushes_out_another_line():
    kept = choose_lines(f"{LINES[0]}\n" + f"{LINES[1]}\n" * (MAX_LINES + 1))
    assert (len(kept), kept[0]) == (MAX_LINES + 1, LINES[0])


# Messages of one line each, of which a program that writes to the journal could make a line without
# end.
ENDLESS = (
    "[Hardware Error]: CPU:2 (19:1:1) MC18_STATUS[Over|CE|-]: 0x9c2040000000011b ", "EDAC MC0: 1 CE on on ",
    "BERT: [Hardware Error]: Error records from previous boot: ", "oom-kill:constraint=CONSTRAINT_NONE, task=",
    "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a:", "mlx5_core 0000:17:00.0 ib0: Link ",
)  # fmt: skip


@pytest.mark.parametrize("part", ENDLESS)
def test_host_log_looks_at_no_more_of_a_line_than_the_kernel_writes(part):
    line = f"1779990100.1 kernel: {part * (400_000 // len(part))}"
    assert [len(one) <= 2048 for one in lines_of(f"{line}\n{LINES[0]}\n")] == [True, True]
    before = process_time()
    assert choose_lines(f"{line}\n{LINES[0]}\n")[-1] == LINES[0]
    words = message_of(line)[1]
    lockups_in([words]), modules_in([words]), count_severities([words])
    assert process_time() - before < 5  # what is quadratic takes a minute


def test_host_log_errors_of_hardware_by_how_bad_they_were():
    check = "mce: [Hardware Error]: CPU 12: Machine Check{}: 0 Bank 7: {}"
    seen = count_severities([
        "{1}[Hardware Error]: event severity: corrected", "{2}[Hardware Error]: event severity: recoverable",
        "[Hardware Error]: event severity: fatal", check.format("", "8c00004000010091"),
        check.format(" Exception", "be00000000800400"), "mce: [Hardware Error]: Machine check events logged",
    ])  # fmt: skip
    assert seen == {"corrected": 2, "uncorrected": 2, "before": 1}


AMD = "[Hardware Error]: CPU:0 (19:1:1) MC17_STATUS[Over|{}|MiscV|AddrV|-|-|SyndV|UECC|{}|-|-]: {}"


def test_host_log_machine_checks_as_amd_s_decoder_writes_them():
    lines = [
        AMD.format("UE", "-", "0xfc2000000000011b"), AMD.format("-", "Deferred", "0xdc2030000000011b"),
        AMD.format("CE", "-", "0x9c2040000000011b"),
    ]  # fmt: skip
    assert count_severities(lines) == {"uncorrected": 2, "corrected": 1}
    assert choose_lines("\n".join(lines)) == tuple(lines)


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [("GenuineIntel", "corrected"), ("AuthenticAMD", "uncorrected"), ("", "corrected")],
)
def test_host_log_count_of_corrected_errors_is_not_taken_for_amd_s_deferred(vendor, kind):
    line = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: cc00190000010e0f"
    cpu = {"/proc/cpuinfo": f"vendor_id\t: {vendor}\n"} if vendor else {}
    told = {JOURNAL: log_of(line), DMESG: HEAD}
    seen = Facts(FakeReader({**UPTIME, **cpu}, queries=told, now=NOW)).host_log
    assert (seen.uncorrected, seen.corrected_a_day) == ((0, 1) if kind == "corrected" else (1, 0))


def test_host_log_what_was_left_from_before_the_boot_is_not_of_this_one():
    check = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: {}"
    bad, good, booted = (
        check.format("be00000000800400"),
        check.format("8c00004000010091"),
        "Run /init as init process",
    )
    firmware = "[Hardware Error]: event severity: recoverable"
    assert count_severities([bad, good, firmware, booted]) == {"before": 2}
    assert count_severities([booted, bad, good, f"{{1}}{firmware}"]) == {
        "uncorrected": 2,
        "corrected": 1,
    }
    assert count_severities([f"{{1}}{firmware}", booted]) == {"uncorrected": 1}


def test_host_log_corrected_errors_by_module():
    line = "EDAC MC0: {} CE memory read error on {} (channel:0 slot:0 page:0x0 offset:0x0 grain:32 syndrome:0x0)"
    said = [
        line.format(2, "DIMM_A1"),
        line.format(3, "DIMM_A1 or DIMM_B1"),
        "EDAC MC0: 1 UE on DIMM_A1 (channel:0)",
    ]
    assert modules_in(said) == {"DIMM_A1": 5, "DIMM_B1": 3}
    seen = Facts(reader(log_of(*said))).host_log
    assert seen.corrected_of == {"DIMM_A1": 5, "DIMM_B1": 3}


def facts_of(journal, buffer, more=None, uptime="7200.00 1.00\n"):
    queries = {JOURNAL: journal, DMESG: buffer} | (more or {})
    return Facts(
        FakeReader({"/proc/uptime": uptime, "/proc/stat": "btime 1\n"}, queries=queries, now=NOW)
    )


def test_journal_that_ended_early_does_not_hide_what_the_buffer_has():
    """A disk that fails takes the journal along."""
    journal = log_of(LINES[0], at=NOW - 7000)
    found = facts_of(journal, f"{HEAD}[  195.0] {LINES[0]}\n[ 7100.0] {LINES[2]}\n").host_log
    assert (found.lockups, found.out_of_memory) == (
        ("soft lockup in kworker/1:2 (22 s)",),
        ("python3",),
    )


def test_journal_that_was_shortened_does_not_hide_what_the_buffer_has():
    found = facts_of(
        log_of(LINES[0]), f"{HEAD}[  195.0] {LINES[2]}\n[ 7140.0] {LINES[0]}\n"
    ).host_log
    assert (found.lockups, found.out_of_memory) == (
        ("soft lockup in kworker/1:2 (22 s)",),
        ("python3",),
    )


def test_lines_that_both_have_are_told_once_though_their_clocks_differ():
    later = [NOW - 50 + step for step in range(3)]
    journal = "".join(log_of(LINES[1], at=at) for at in (NOW - 7100, *later))
    buffer = "".join(f"[ {at - NOW + 7200 - 40:.6f}] {LINES[1]}\n" for at in later)
    assert [card.link_downs for card in facts_of(journal, HEAD + buffer).host_log.cards] == [4]
    more = f"{buffer}[ 7190.0] {LINES[1]}\n"
    assert [card.link_downs for card in facts_of(journal, HEAD + more).host_log.cards] == [5]


def test_lines_of_a_journal_keep_their_order_when_the_clock_is_set():
    journal = log_of("NVRM: a", at=NOW) + log_of("NVRM: b", at=NOW - 9000)
    assert merge_logs(journal, "", 600.0) == journal


STEPPED = (
    (0.0, "Linux version 6.8.0-60-generic"),
    (1.0, "nvme nvme0: I/O 12 QID 3 timeout, reset controller"),
    (20.0, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15"),
    (40.0, "NVRM: Xid (PCI:0000:17:00): 95, pid=1, name=x, Uncontained ECC error"),
    (41.0, LINES[1]),
    (42.0, LINES[1]),
    (9000.0, "nvme nvme0: I/O 12 QID 3 timeout, reset controller"),
    (9001.0, LINES[1]),
)


@pytest.mark.parametrize("forgotten", [0, 2, 3])
@pytest.mark.parametrize(
    "steps", [(0,), (3600,), (-7200,), (2 * 86400,), (40 * 86400, 3 * 86400)], ids=str
)
def test_lines_from_before_the_clock_was_set_are_there_once_with_the_right_time(steps, forgotten):
    """An RTC in local time, or with an empty battery, until NTP sets it; the buffer is dated by the
    clock of now.
    """
    booted = NOW - 10_000
    wrong = dict(zip((0, 1, *range(2, 6)), (*steps, *steps[-1:] * 6), strict=False))
    journal = "".join(
        f"{booted - wrong.get(line, 0) + at:.6f} kernel: {words}\n"
        for line, (at, words) in enumerate(STEPPED)
    )
    buffer = "".join(f"[{at:12.6f}] {words}\n" for at, words in STEPPED[forgotten:])
    both = merge_logs(journal, date_dmesg(buffer, booted), 610.0, booted)
    assert sorted(words for _, words in map(message_of, lines_of(both))) == sorted(
        words for _, words in STEPPED
    )
    for at, words in STEPPED[forgotten:]:
        assert any(
            message_of(line)[0] == pytest.approx(booted + at)
            for line in lines_of(both)
            if words in line
        )


def test_what_the_buffer_has_alone_is_counted_after_the_clock_was_set():
    booted = NOW - 10_000
    journal = "".join(f"{booted - 3600 + at:.6f} kernel: {words}\n" for at, words in STEPPED[:5])
    buffer = "".join(f"[{at:12.6f}] {words}\n" for at, words in STEPPED)
    both = merge_logs(journal, date_dmesg(buffer, booted), 610.0, booted)
    assert [message_of(line)[1] for line in lines_of(both)] == [words for _, words in STEPPED]


def test_load_of_the_driver_is_no_reset_where_the_clock_was_set_behind_it():
    booted = NOW - 7200
    journal = "".join(log_of(words, at=booted - 3600 + at) for at, words in STEPPED[:4])
    buffer = "".join(f"[{at:12.6f}] {words}\n" for at, words in STEPPED[:4])
    (error,) = xids_in(
        messages_in(facts_of(journal, buffer).kernel_log.both), "570.86.15", NOW, {}
    )["0000:17:00.0"]
    assert (error.count, error.is_back, error.resets) == (1, False, 0)


def test_long_log_of_the_same_words_is_merged_in_linear_time():
    line = "nvme nvme0: I/O 12 QID 3 timeout, reset controller"
    many = 40_000
    journal = "".join(f"{NOW + number / 1000:.6f} kernel: {line}\n" for number in range(many))
    began = process_time()
    assert merge_logs(journal, journal, 600.0) == journal
    assert process_time() - began < 4


WRAPPED = "[ 5400.1] audit: type=1400\n"
LONG = "864000.00 1.00\n"
GOES_ON = {NEWEST: f"{NOW - 20:.6f} cron[7]: x\n"}


def test_buffer_that_has_wrapped_is_not_taken_for_a_quiet_log():
    found = facts_of("", WRAPPED)
    with pytest.raises(
        UnknownFact,
        match=r"of the last day cannot be seen: the buffer of the kernel has the last 0\.5 hours",
    ):
        _ = found.host_log.uncorrected
    with pytest.raises(UnknownFact):
        _ = found.storage_log.erring
    assert not found.kernel_log.is_whole
    with pytest.raises(UnknownFact, match="the buffer of the kernel has nothing"):
        _ = facts_of("", "").host_log.lockups


@pytest.mark.parametrize(("hours", "is_seen"), [(40, False), (0.1, True)])
def test_journal_that_ended_before_what_a_wrapped_buffer_has(hours, is_seen):
    """Its head says nothing of what came after its end."""
    journal = log_of("Linux version 6.8.0-60-generic", at=NOW - 864_000)
    newest = {NEWEST: f"{NOW - hours * 3600:.6f} cron[7]: x\n"}
    found = facts_of(journal, "[ 860000.1] audit: type=1400\n", newest, LONG).host_log
    if is_seen:
        assert found.uncorrected == 0
    else:
        with pytest.raises(
            UnknownFact, match=r"has the last 1\.1 hours, and the journal ended before"
        ):
            _ = found.uncorrected


@pytest.mark.parametrize("buffer", ["[ 860000.1] audit: type=1400\n", "", ABSENT])
def test_journal_whose_end_cannot_be_read_or_that_ended_where_no_buffer_goes_on(buffer):
    journal = log_of("Linux version 6.8.0-60-generic", at=NOW - 864_000)
    failed = {NEWEST: Completed(1, b"", b"Failed to iterate through journal: Input/output error\n")}
    with pytest.raises(UnknownFact, match="where the journal ends cannot be read"):
        _ = facts_of(journal, buffer, failed, LONG).host_log.lockups
    with pytest.raises(UnknownFact, match="the journal ended before"):
        _ = facts_of(
            journal, buffer, {NEWEST: f"{NOW - 40 * 3600:.6f} cron[7]: x\n"}, LONG
        ).host_log.lockups
    assert facts_of(journal, buffer, GOES_ON, LONG).host_log.lockups == ()


@pytest.mark.parametrize(
    ("hours", "uptime", "is_seen"),
    [
        (2, LONG, False),
        (25, LONG, True),
        (1.95, "7200.0 1.0\n", True),
        (1.5, "7200.0 1.0\n", False),
    ],
)
def test_flood_that_the_journal_could_not_follow_hides_no_fault(hours, uptime, is_seen):
    """What a server says more than is kept while it boots is no flood."""
    journal = log_of("Linux version 6.8.0-60-generic", at=NOW - 864_000)
    missed = {
        MISSED: f"{NOW - hours * 3600:.6f} systemd-journald[312]: Missed 4711 kernel messages\n"
    }
    flood = f"[ {float(uptime.split()[0]) - 10:.6f}] tmpfs: Unknown parameter 'x'\n"
    found = facts_of(journal, flood, {**GOES_ON, **missed}, uptime)
    if is_seen:
        assert found.host_log.uncorrected == 0
    else:
        with pytest.raises(
            UnknownFact, match=f"missed lines of the kernel log {hours:.1f} hours ago"
        ):
            _ = found.host_log.uncorrected
    faulty = journal + log_of("{1}[Hardware Error]: event severity: recoverable")
    assert (
        facts_of(faulty, flood, {**GOES_ON, **missed}, uptime).host_log.uncorrected == 1
    )  # what it has counts


def test_who_may_not_see_the_journal_is_told_so_where_the_buffer_has_wrapped():
    hidden = Completed(
        1, b"", b"Hint: You are currently not seeing messages from other users and the system.\n"
    )
    with pytest.raises(UnknownFact, match="needs root, or the group adm"):
        _ = facts_of(hidden, WRAPPED).host_log.uncorrected
    assert facts_of(hidden, HEAD).host_log.uncorrected == 0


def test_what_a_wrapped_buffer_has_counts_and_what_it_has_not_is_unknown():
    found = facts_of("", f"{WRAPPED}[ 7100.0] {LINES[0]}\n").host_log
    assert found.lockups == ("soft lockup in kworker/1:2 (22 s)",)
    with pytest.raises(UnknownFact, match=r"last 0\.5 hours"):
        _ = found.uncorrected


@pytest.mark.parametrize(
    ("journal", "buffer", "more"),
    [
        ("", "[ 700000.1] audit: type=1400\n", {}),  # of a host that runs for days
        (
            "",
            "[ 860000.1] audit: type=1400\n",
            {DAY_OLD: f"{NOW - 90_000:.6f} systemd[1]: Started x.\n", **GOES_ON},
        ),
        (
            "",
            "[    9.1] audit: type=1400\n",
            {},
        ),  # what a server says more than its buffer holds while it boots
    ],
)
def test_host_that_runs_for_long_is_not_unknown_for_ever(journal, buffer, more):
    found = facts_of(journal, buffer, more, LONG)
    assert (found.host_log.uncorrected, found.kernel_log.unseen) == (0, "")
    assert found.kernel_log.is_whole == ("9.1" in buffer)


def test_journal_is_asked_for_a_line_that_is_a_day_old_and_a_younger_one_is_none():
    """Without -r journalctl 249 and 252 show none, and 255 shows the oldest, however young."""
    assert DAY_OLD[-4:] == ("-r", "--until=-24h", "-n", "1")
    assert NEWEST[-3:] == ("short-unix", "-n", "1")
    young = {DAY_OLD: f"{NOW - 50_000:.6f} kernel: x\n", **GOES_ON}
    with pytest.raises(UnknownFact, match="does not reach back further"):
        _ = facts_of("", "[ 860000.1] audit: type=1400\n", young, LONG).host_log.uncorrected


def test_journal_is_read_from_its_end():
    """Where a page is damaged journalctl ends with status 0 and no word: what it has not come to is
    older.
    """
    assert "-r" in JOURNAL
    journal = (
        log_of(LINES[2], at=NOW - 50)
        + log_of("NVRM: a\n  b", at=NOW - 90)
        + log_of(LINES[0], at=NOW - 7000)
    )
    found = facts_of(journal, HEAD).kernel_log
    assert found.journal == reverse_log(journal)
    assert [line.split()[0] for line in found.journal.splitlines()][::3] == [
        f"{NOW - 7000:.6f}",
        f"{NOW - 50:.6f}",
    ]
    assert "NVRM: a\n  b\n" in found.journal


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((1, "", "Compiled without pattern matching support\n"), "Compiled without pattern"),
        ((1, "", "Failed to iterate through journal: Input/output error\n"), "Input/output error"),
        ((1, log_of("Linux version 6.8.0", LINES[2]), "Failed to iterate through journal: Bad message\n"), "Bad message"),
        ((1, log_of(LINES[2]), ""), "status 1"),
        ((127, "", "journalctl: error while loading shared libraries\n"), "status 127"),
    ],
)  # fmt: skip
def test_journal_that_fails_is_not_taken_for_a_quiet_one(answer, reason):
    status, text, errors = answer
    more = {DAY_OLD: f"{NOW - 90_000:.6f} x: y\n", **GOES_ON}
    journal = Completed(status, text.encode(), errors.encode())
    found = facts_of(journal, "[ 860000.1] audit: type=1400\n", more, LONG).host_log
    with pytest.raises(UnknownFact, match=reason):
        _ = found.lockups
    assert not text or found.out_of_memory == ("python3",)  # what it has counts


@pytest.mark.parametrize("text", ["", "-- No entries --\n"])
def test_journal_without_such_lines_is_no_failure(text):
    more = {DAY_OLD: f"{NOW - 90_000:.6f} x: y\n", **GOES_ON}
    journal = Completed(1, text.encode(), b"No journal files were found.\n")
    assert facts_of(journal, "[ 860000.1] audit: type=1400\n", more, LONG).host_log.lockups == ()


@pytest.mark.parametrize(
    "journal",
    [ABSENT, Completed(0, b"-- No entries --\n", b"No journal files were found.\n")],
    ids=["none", "empty"],
)
def test_without_a_journal_the_buffer_is_all_that_anybody_keeps(journal):
    found = facts_of(journal, "[ 860000.1] audit: type=1400\n", {}, LONG)
    assert (found.kernel_log.is_whole, found.host_log.lockups) == (False, ())
    assert not found.kernel_log.has_journal
    kept = Completed(0, b"-- No entries --\n", b"")
    with pytest.raises(UnknownFact, match="the journal does not reach back further"):
        _ = facts_of(kept, "[ 860000.1] audit: type=1400\n", {}, LONG).host_log.lockups


def test_journal_that_has_the_boot_is_whole_whatever_the_buffer_lost():
    found = facts_of(
        log_of("Linux version 6.8.0-60-generic"), "[ 860000.1] audit: type=1400\n", GOES_ON, LONG
    )
    assert (found.kernel_log.is_whole, found.host_log.uncorrected) == (True, 0)
    assert found.kernel_log.has_journal
    alone = facts_of(log_of("Run /init as init process"), ABSENT, GOES_ON)
    assert (alone.kernel_log.is_whole, alone.host_log.uncorrected) == (True, 0)


def test_host_log_each_lockup_is_told_once():
    again = "watchdog: BUG: soft lockup - CPU#1 stuck for 45s! [kworker/1:2:77]"
    assert lockups_in([LINES[0], again]) == ("soft lockup in kworker/1:2 (45 s), 2 times",)


def test_a_record_keeps_these_lines_of_the_log_alone():
    recorder = RecordingReader(
        FakeReader(
            queries={JOURNAL: Completed(1, b"", b""), DMESG: NOISE + "\n".join(LINES)}, now=NOW
        )
    )
    found = Facts(recorder).host_log
    complete(found)
    record = encode_record(recorder, share=False, tool_version="0")
    assert "apparmor" not in str(record)
    seen = Facts(RecordReader(record)).host_log
    complete(seen)
    assert seen == found


def test_a_record_keeps_the_newest_lines_of_the_journal_and_their_order():
    said = [log_of(LINES[1], at=NOW - 9000 + step) for step in range(MAX_LINES + 1)]
    recorder = RecordingReader(reader("".join(reversed(said))))
    found = Facts(recorder).kernel_log
    complete(found)
    seen = Facts(RecordReader(encode_record(recorder, share=False, tool_version="0"))).kernel_log
    assert found.journal == "".join(said)
    assert [
        line for line in seen.journal.splitlines() if "Link" in line
    ] == found.journal.splitlines()[1:]


def test_what_facts_want_of_the_log_is_asked_of_each_program_once():
    slot = "/sys/bus/pci/devices/0000:1b:00.0"
    gpu = {f"{slot}/vendor": "0x10de", f"{slot}/device": "0x2330", f"{slot}/class": "0x030200"}
    lines = log_of(
        LINES[0], "NVRM: Xid (PCI:0000:1b:00): 79, x", "nfs: server nfs01 not responding, timed out"
    )
    door = FakeReader({**gpu, **UPTIME}, queries={JOURNAL: lines, DMESG: HEAD}, now=NOW)
    facts = Facts(door)
    seen = (
        facts.host_log.lockups,
        facts.storage_log.silent,
        facts.storage_log.refusing,
        facts.nvidia.messages,
    )
    assert list(map(len, seen)) == [1, 1, 0, 1]
    assert [argv for argv in door.asked if argv[0] in {"journalctl", "dmesg"}] == [JOURNAL, DMESG]


def test_journal_that_is_too_long_leaves_nothing_that_is_well():
    """The buffer has the newest lines: what it says counts, what it does not say may have been
    before.
    """
    long = Unreadable("journalctl wrote more than 32 MiB")
    door = FakeReader(queries={JOURNAL: long, DMESG: "\n".join(LINES)})
    assert Facts(door).host_log.out_of_memory == ("python3",)
    with pytest.raises(UnknownFact, match="more than 32 MiB"):
        _ = Facts(door).storage_log.refusing


@pytest.mark.parametrize(
    ("buffer", "uptime", "is_seen"),
    [
        (HEAD, "7200.0 1", True),
        ("[ 700000.1] x\n", LONG, True),
        ("[    9.1] x\n", "7200.0 1", False),
        (WRAPPED, "7200.0 1", False),
    ],
)
def test_journal_that_is_too_slow_is_not_missed_where_the_buffer_has_it_all(
    buffer, uptime, is_seen
):
    slow = Unreadable("journalctl did not end within 20 s")
    more = GOES_ON | {DAY_OLD: f"{NOW - 90_000:.6f} x: y\n"}
    found = facts_of(slow, buffer, more, uptime).kernel_log
    assert (found.unseen, found.is_whole) == ("" if is_seen else slow.reason, buffer == HEAD)
    assert facts_of("", buffer, more, uptime).kernel_log.unseen == ""


def test_of_dmesg_the_same_lines_are_kept_as_journalctl_would_name():
    kinds = ("I/O", "timeout", "critical medium", "protection", "device offline")
    wanted = [*LINES, *(f"[ 9.1] {kind} error, dev sda, sector 8" for kind in kinds)]
    others = [
        "[ 9.1] medium error on sda",
        "[ 9.1] I/O scheduler mq-deadline registered",
        "[ 9.1] systemd[1]: Started x.",
    ]
    log = Facts(
        FakeReader(queries={DMESG: "\n".join([*wanted, *others])}, now=NOW)
    ).kernel_log.buffer
    assert log.splitlines() == wanted
    asked = re.compile(next(word for word in JOURNAL if word.startswith("--grep="))[7:])
    assert [line for line in [*wanted, *others] if asked.search(message_of(line)[1])] == wanted


@pytest.mark.parametrize("buffer", [HEAD, WRAPPED, "[  700000.1] audit: type=1400\n"])
def test_a_record_keeps_how_far_the_log_reaches_back(buffer):
    recorder = RecordingReader(
        FakeReader(
            {"/proc/uptime": LONG, "/sys/class/net/lo/mtu": "1\n"},
            queries={
                JOURNAL: "",
                DMESG: buffer,
                DAY_OLD: "" if buffer == WRAPPED else f"{NOW - 90_000:.6f} ssh: secret\n",
            },
            now=NOW,
        )
    )
    found = Facts(recorder).kernel_log
    complete(found)
    record = encode_record(recorder, share=False, tool_version="0")
    assert "audit" not in str(record)
    assert "secret" not in str(record)
    seen = Facts(RecordReader(record)).kernel_log
    assert (seen.is_whole, seen.unseen) == (found.is_whole, found.unseen)


def test_place_where_the_kernel_died_stays_however_many_warnings_came_after():
    """Each of these has a place, too; of what is kept of a log the last ones count."""
    died = (
        "BUG: unable to handle page fault for address: ff11",
        "RIP: 0010:nvfs_free+0x12/0x40 [nvidia_fs]",
    )
    warned = (
        "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [x:1]",
        "RIP: 0010:poll+0x1/0x2 [mlx5_core]",
    )
    log = "".join(
        f"1780000000.000000 kernel: {text}\n" for text in (*died, *warned * (MAX_LINES + 1))
    )
    texts = [line.partition("kernel: ")[2] for line in choose_lines(log)]
    assert died_in(texts) == ("nvidia_fs",)
    assert len(texts) == MAX_LINES + 2
