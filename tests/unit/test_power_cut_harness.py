"""The parts of the power-cut proof that need no machine: the log's format, the states, the
judgement.
"""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from hosttune.codec import change_to_json
from hosttune.values import ABSENT, Action, Address, Change, FileValue
from tests.vm.blklog import BadLogError, Entry, Flag, Log, count
from tests.vm.powercut import Judged, to_boot
from tests.vm.powercut_judge import Flight, Situation, Verdict, judge, ladder
from tests.vm.powercut_states import Epoch, State, epochs, states, untorn

SECTOR = 512


def log_file(
    folder: Path, entries: list[tuple[int, int, int, bytes]], sector: int = SECTOR
) -> Path:
    """A log of (sector, flags, length of inline data, data or inline data)."""
    parts = [struct.pack("<QQQI", 0x6A736677736872, 1, len(entries), sector).ljust(sector, b"\0")]
    for at, flags, inline, data in entries:
        sectors = 0 if inline else len(data) // sector
        head = struct.pack("<QQQQ", at, sectors, flags, inline)
        parts += [(head + data[:inline]).ljust(sector, b"\0"), data[inline:]]
    path = folder / "log"
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize("sector", [512, 4096])
def test_log_every_kind_of_entry_is_read(tmp_path: Path, sector: int) -> None:
    marked = (0, Flag.MARK, 5, b"begin")
    path = log_file(
        tmp_path,
        [marked, (7, 0, 0, b"x" * 2 * sector), (0, 1, 0, b""), (9, 2, 0, b"y" * sector)],
        sector,
    )
    log = Log(path)
    assert count(path) == 4
    assert [(one.flags, one.offset, one.size, one.is_write) for one in log.entries] == [
        (Flag.MARK, 0, 0, False),
        (Flag(0), 7 * sector, 2 * sector, True),
        (Flag.FLUSH, 0, 0, False),
        (Flag.FUA, 9 * sector, sector, True),
    ]
    assert log.entries[0].note == b"begin"
    assert log.data(log.entries[1]) == b"x" * 2 * sector
    assert log.data(log.entries[3], 4, 3) == b"yyy"


def test_log_discard_has_no_data(tmp_path: Path) -> None:
    path = log_file(tmp_path, [(8, Flag.DISCARD, 0, b""), (1, 0, 0, b"z" * 512)])
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 512 + 8, 1000)  # its length is that of the hole
    path.write_bytes(data)
    discard, write = Log(path).entries
    assert (discard.size, discard.is_write) == (1000 * 512, False)
    assert (write.offset, write.is_write) == (512, True)


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (0, b"\0", "not a log of block writes"),
        (8, b"\2", "version 2"),
        (24, b"\1\2", "sectors of 513 bytes"),
        (16, b"\5", "ends before entry 2 of 5"),
        (512 + 16, b"\x80", "entry 0 at byte 512 has unknown flags: 0x80"),
        (512 + 8, b"\xff", "ends"),
    ],
)
def test_log_damaged_is_refused_with_the_place(
    tmp_path: Path, at: int, new: bytes, message: str
) -> None:
    path = log_file(tmp_path, [(0, 0, 0, b"a" * 512), (0, 1, 0, b"")])
    data = bytearray(path.read_bytes())
    data[at : at + len(new)] = new
    path.write_bytes(data)
    with pytest.raises(BadLogError, match=message):
        Log(path)


def write(offset: int, size: int = 4096) -> Entry:
    return Entry(Flag(0), offset, size, 0)


FLUSH = Entry(Flag.FLUSH, 0, 0, 0)


def test_epochs_split_at_flushes_and_writes_at_blocks() -> None:
    found = epochs([write(0), FLUSH, write(6144, 8192), FLUSH, write(0, 512)], 0, 5)
    assert found == [
        Epoch(0, ((0, 0, 4096),)),
        Epoch(1, ((2, 0, 2048), (2, 2048, 4096), (2, 6144, 2048))),
        Epoch(3, ((4, 0, 512),)),
    ]


def test_epochs_durable_write_is_refused() -> None:
    with pytest.raises(ValueError, match="entry 1 is durable"):
        epochs([write(0), Entry(Flag.FUA, 0, 4096, 0)], 0, 2)


def test_states_of_three_blocks_are_all_their_subsets() -> None:
    pieces = tuple((number, 0, 512) for number in range(3))
    found = states([Epoch(0, pieces), Epoch(3, ())])
    kept = {state.kept for state in found if state.first == 0}
    assert len(kept) == 7  # eight, and the whole of them is the boundary of the next epoch
    assert pieces not in kept
    assert [state.kept for state in found if state.first == 3] == [()]


def test_states_of_many_blocks_lose_and_keep_each_alone_and_every_prefix() -> None:
    pieces = tuple((number, 0, 512) for number in range(20))
    kept = {state.kept for state in states([Epoch(0, pieces)])}
    assert {pieces[:at] for at in range(21)} <= kept
    assert {(piece,) for piece in pieces} <= kept
    assert {pieces[:at] + pieces[at + 1 :] for at in range(20)} <= kept
    assert 60 < len(kept) < 100


def test_states_keep_the_order_of_writes_and_whole_sectors() -> None:
    pieces = tuple((number, 0, 4096) for number in range(9))
    for state in states([Epoch(0, pieces)]):
        assert list(state.kept) == sorted(state.kept)
        assert all(size % SECTOR == 0 and start + size <= 4096 for _, start, size in state.kept)
    assert any(size < 4096 for state in states([Epoch(0, pieces)]) for _, _, size in state.kept)


def test_states_never_tear_a_superblock_or_a_commit_record(tmp_path: Path) -> None:
    commit = bytes.fromhex("c03b399800000002").ljust(4096, b"c")
    log = Log(
        log_file(tmp_path, [(0, 0, 0, b"s" * 4096), (80, 0, 0, commit), (160, 0, 0, b"d" * 4096)])
    )
    found = epochs(log.entries, 0, 3)
    assert untorn(log, found) == {(0, 0, 4096), (1, 0, 4096)}
    for at in range(3):
        torn = {
            state.kept
            for state in states([Epoch(at, found[0].pieces[at : at + 1])], None, untorn(log, found))
        }
        assert any(size < 4096 for kept in torn for _, _, size in kept) is (at == 2)


def test_states_limited_keep_every_boundary_and_never_change() -> None:
    found = [
        Epoch(at, tuple((at + number, 0, 4096) for number in range(6))) for at in range(0, 100, 10)
    ]
    limited = states(found, 50)
    assert len(limited) == 50
    assert [state.first for state in limited if not state.kept] == list(range(0, 100, 10))
    assert limited == states(found, 50)
    assert set(limited) <= set(states(found))
    assert [state.first for state in limited] == sorted(state.first for state in limited)


OLD, TUNED = b"UUID=1 /data ext4 defaults 0 2\n", b"UUID=1 /data ext4 defaults,noatime 0 2\n"
DROPIN = b"vm.swappiness = 10\n"
PATH = "sysctl.d/60-hosttune-memory-swappiness.conf"
CHANGES = (
    Change(
        Address("file", f"/etc/{PATH}"),
        Action.CREATE,
        ABSENT,
        FileValue(DROPIN),
        rule="memory-swappiness",
    ),
    Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", rule="memory-swappiness"),
    Change(
        Address("fstab", "/data"),
        Action.UPDATE,
        "defaults",
        "defaults,noatime",
        rule="storage-noatime",
    ),
)
RUN = "20260101-000000-abcd"


def journal_lines() -> list[bytes]:
    head = {
        "format_version": 1,
        "id": RUN,
        "command": "apply",
        "started_at": "2026-01-01T00:00:00+00:00",
    }
    entries: list[dict[str, Any]] = [
        {**head, "who": "root", "boot_id": "b", "digest": "d", "tool_version": "1"}
    ]
    for seq, change in enumerate(CHANGES, 1):
        entries += [{"seq": seq, "phase": "intent", "at": 1.0, "change": change_to_json(change)}]
        entries += [{"seq": seq, "phase": "done", "at": 1.0}]
    return [
        json.dumps(entry).encode() + b"\n" for entry in (*entries, {"finished": True, "at": 1.0})
    ]


LINES = journal_lines()


def flights() -> tuple[Flight, ...]:
    return ladder(
        {f"{RUN}.jsonl": b"".join(LINES)}, {frozenset(): OLD, frozenset({"fstab:/data"}): TUNED}
    )


def seen(journal: bytes | None = None, *, error: str = "", **etc: bytes | None) -> Verdict:
    """The judgement of a disk with this journal, this `fstab`, this `dropin`, and temp or other
    files by their path.
    """
    names = {"dropin": PATH}
    files = {
        names.get(name, name): text and [0o100644, 0, 0, encode(text)] for name, text in etc.items()
    }
    files |= {name: [0o100644, 0, 0, ""] for name, text in files.items() if text == b""}
    runs = {} if journal is None else {f"{RUN}.jsonl": [0o100600, 0, 0, encode(journal)]}
    return judge({"etc": files, "runs": runs, "error": error}, flights())


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def lines(number: int) -> bytes:
    return b"".join(LINES[:number])


def test_ladder_of_a_run_has_a_rung_for_each_step() -> None:
    (flight,) = flights()
    assert flight.rungs == (
        {"fstab": OLD, PATH: None},
        {"fstab": OLD, PATH: DROPIN},
        {"fstab": OLD, PATH: DROPIN},
        {"fstab": TUNED, PATH: DROPIN},
    )


def test_ladder_of_a_run_without_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="did not come to its end"):
        ladder({f"{RUN}.jsonl": lines(3)}, {frozenset(): OLD})


@pytest.mark.parametrize(
    ("journal", "etc", "situation"),
    [
        (None, {}, ("", 0, 0, False)),
        (b'{"format_ver', {}, ("", 0, 0, False)),  # cut in its first line
        (lines(1), {}, ("apply", 0, 0, False)),
        (lines(2), {}, ("apply", 1, 0, False)),
        (lines(2), {"dropin": DROPIN}, ("apply", 1, 0, True)),
        (lines(3), {"dropin": DROPIN}, ("apply", 1, 1, False)),
        (lines(5) + b'{"seq":3,"ph', {"dropin": DROPIN}, ("apply", 2, 2, False)),
        (lines(6), {"dropin": DROPIN}, ("apply", 3, 2, False)),
        (lines(6), {"dropin": DROPIN, "fstab": TUNED}, ("apply", 3, 2, True)),
        (lines(8), {"dropin": DROPIN, "fstab": TUNED}, ("apply", 3, 3, False)),
    ],
)
def test_judge_an_honest_state_finds_nothing(
    journal: bytes | None, etc: dict[str, bytes], situation: tuple
) -> None:
    verdict = seen(journal, **etc)
    assert verdict.faults == ()
    found = verdict.situation
    assert (found.command, found.announced, found.done, found.made) == situation
    assert found.is_interrupted is (
        journal is not None and b"\n" in journal and b"finished" not in journal
    )
    assert found.is_torn is (journal is not None and not journal.endswith(b"\n"))


def test_judge_a_temp_file_of_ours_is_no_damage() -> None:
    verdict = seen(lines(6), dropin=DROPIN, **{".fstab.hosttune-0123456789abcdef": b"UUID="})
    assert (verdict.faults, verdict.situation.leftovers) == ((), 1)


@pytest.mark.parametrize(
    ("journal", "etc", "fault"),
    [
        (lines(6), {"dropin": DROPIN, "fstab": b""}, "/etc/fstab is torn: 0 bytes"),
        (lines(6), {"dropin": DROPIN, "fstab": TUNED[:20]}, "/etc/fstab is torn: 20 bytes"),
        (lines(6), {"dropin": DROPIN, "fstab": None}, "/etc/fstab is torn: absent"),
        (
            lines(5),
            {"dropin": DROPIN, "fstab": TUNED},
            "/etc/fstab is another version than its journal says",
        ),
        (None, {"dropin": DROPIN}, f"/etc/{PATH} is another version than its journal says"),
        (lines(7), {"dropin": DROPIN}, "/etc/fstab is another version than its journal says"),
        (lines(6), {"fstab": TUNED}, f"/etc/{PATH} is another version than its journal says"),
        (lines(2), {"hosts": b"127.0.0.1\n"}, "/etc/hosts is not as it was"),
        (lines(2), {"hosts": None}, "/etc/hosts is gone"),
        (
            lines(2),
            {".hosts.hosttune-0123456789abcdef": b""},
            "/etc/.hosts.hosttune-0123456789abcdef is not as it was",
        ),
        (lines(2) + b"\0\0\0\n" + lines(1), {}, "hosttune cannot read its journal"),
        (lines(2) + LINES[3], {}, "went on after a step that is not done"),
        (lines(1) + LINES[3], {}, "tells other changes than it made"),
    ],
)
def test_judge_a_broken_state_is_named(
    journal: bytes | None, etc: dict[str, bytes | None], fault: str
) -> None:
    assert any(fault in one for one in seen(journal, **etc).faults)


def test_judge_a_disk_that_cannot_be_mounted_says_why() -> None:
    assert seen(error="e2fsck: bitmap differs").faults == ("e2fsck: bitmap differs",)


def test_judge_a_run_that_had_returned_must_be_whole() -> None:
    disk = {"etc": {}, "runs": {}, "error": ""}
    assert judge(disk, flights()).faults == ()
    assert any(
        "its journal is lost" in fault for fault in judge(disk, flights(), finished=1).faults
    )
    half = {**disk, "runs": {f"{RUN}.jsonl": [0o100600, 0, 0, encode(lines(1))]}}
    assert any("has lost that" in fault for fault in judge(half, flights(), finished=1).faults)


def test_judge_a_mode_that_is_not_ours_is_named() -> None:
    disk = {"etc": {"fstab": [0o100600, 0, 0, encode(OLD)]}, "runs": {}, "error": ""}
    assert "/etc/fstab has mode" in judge(disk, flights()).faults[0]
    open_run = {
        "etc": {},
        "runs": {f"{RUN}.jsonl": [0o100644, 0, 0, encode(lines(1))]},
        "error": "",
    }
    assert "has mode" in judge(open_run, flights()).faults[0]


def test_to_boot_spreads_over_interrupted_situations() -> None:
    situations = [
        Situation("apply", announced, done)
        for announced in range(1, 9)
        for done in (announced - 1, announced)
    ]
    judged = [
        Judged(State(at, ()), Verdict((), situation))
        for at, situation in enumerate(situations)
        for _ in range(3)
    ]
    ended = Judged(State(99, ()), Verdict((), Situation("apply", 8, 8, is_finished=True)))
    broken = Judged(State(98, ()), Verdict(("torn",), Situation("undo", 1, 0)))
    chosen = to_boot([*judged, broken, ended], 4)
    assert [one.state.first for one in chosen] == [2, 6, 10, 14]
    assert len(to_boot(judged, 100)) == len(situations)
    assert to_boot([broken, ended], 2) == []


def test_state_name_tells_what_was_kept() -> None:
    assert State(7, ()).name == "entry 7"
    assert State(7, ((9, 0, 4096),)).name == "entry 7 + 9[0:4096]"
