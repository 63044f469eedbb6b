"""The kernel log of this boot: what stood still, what ran out, what cards complain of."""

import pytest

from hosttune.actions.record_encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import complete
from hosttune.facts.kernel.host_log import LOG, MAX_LINES, chosen, lockups_in, severities
from hosttune.facts.kernel_log import DMESG
from hosttune.host.door import Completed
from hosttune.host.record import Recorder, RecordReader
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


def reader(journal, **more):
    return FakeReader({"/proc/uptime": "7200.00 1.00\n"}, queries={LOG: journal, DMESG: "", **more}, now=NOW)


def test_host_log_of_a_quiet_host_is_empty():
    seen = Facts(reader(Completed(1, b"", b""))).host_log
    assert (seen.lockups, seen.out_of_memory, seen.cards, seen.peermem_errors) == ((), (), (), 0)


def test_host_log_what_is_older_than_a_day_is_not_told_as_of_today():
    seen = Facts(reader(log_of(*LINES, at=NOW - 90_000))).host_log
    assert (seen.lockups, seen.out_of_memory) == ((), ("python3",))
    assert [(card.slot, card.link_downs) for card in seen.cards] == [("0000:17:00.0", 0)]


def test_host_log_of_dmesg_is_dated_by_the_time_since_boot():
    kernel = "".join(f"[ 7000.000001] {line}\n" for line in LINES)
    seen = Facts(FakeReader({"/proc/uptime": "7200.00 1.00\n"}, queries={DMESG: kernel}, now=NOW)).host_log
    assert seen.lockups == ("soft lockup in kworker/1:2 (22 s)",)
    assert seen.cards[0].link_downs == 1


def test_host_log_without_times_is_of_today():
    seen = Facts(FakeReader(queries={DMESG: "\n".join(LINES)}, now=NOW)).host_log
    assert seen.lockups == ("soft lockup in kworker/1:2 (22 s)",)
    assert seen.cards[0].link_downs == 1


def test_host_log_that_may_not_be_read_is_unknown():
    refused = Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n")
    journal = Completed(1, b"", b"Hint: You are currently not seeing messages from other users and the system.\n")
    with pytest.raises(UnknownFact, match="needs root, or the group adm"):
        _ = Facts(FakeReader(queries={LOG: journal, DMESG: refused})).host_log.cards


def test_host_log_is_bounded_and_no_storm_pushes_out_another_line():
    kept = chosen(f"{LINES[0]}\n" + f"{LINES[1]}\n" * (MAX_LINES + 1))
    assert (len(kept), kept[0]) == (MAX_LINES + 1, LINES[0])


def test_host_log_errors_of_hardware_by_how_bad_they_were():
    check = "mce: [Hardware Error]: CPU 12: Machine Check{}: 0 Bank 7: {}"
    seen = severities([
        "{1}[Hardware Error]: event severity: corrected", "{2}[Hardware Error]: event severity: recoverable",
        "[Hardware Error]: event severity: fatal", check.format("", "8c00004000010091"),
        check.format(" Exception", "be00000000800400"), "mce: [Hardware Error]: Machine check events logged",
    ])  # fmt: skip
    assert (seen["corrected"], seen["uncorrected"], seen["fatal"]) == (2, 2, 1)


def test_host_log_each_lockup_is_told_once():
    again = "watchdog: BUG: soft lockup - CPU#1 stuck for 45s! [kworker/1:2:77]"
    assert lockups_in([LINES[0], again]) == ("soft lockup in kworker/1:2 (45 s), 2 times",)


def test_a_record_keeps_these_lines_of_the_log_alone():
    recorder = Recorder(FakeReader(queries={LOG: Completed(1, b"", b""), DMESG: NOISE + "\n".join(LINES)}, now=NOW))
    found = Facts(recorder).host_log
    complete(found)
    record = encode_record(recorder, share=False, tool_version="0")
    assert "apparmor" not in str(record)
    seen = Facts(RecordReader(record)).host_log
    complete(seen)
    assert seen == found
