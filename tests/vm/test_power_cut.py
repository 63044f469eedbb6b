"""Power cuts: every write of a whole `apply --yes` and `undo --yes` is logged, and the disk is
looked at as it was at every flush and in drawn states between two flushes; two of them are booted.
All states and more boots: see powercut.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import blklog, image, powercut
from tests.vm.blklog import Flag
from tests.vm.powercut import Judged
from tests.vm.powercut_record import Recording, record
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm

OWN_FILES = {
    "sysctl.d/60-hosttune-memory-max-map-count.conf",
    "sysctl.d/60-hosttune-memory-swappiness.conf",
}


@pytest.fixture(scope="module")
def recording(transcript: Transcript) -> Iterator[Recording]:
    with tempfile.TemporaryDirectory(prefix="hosttune-powercut-") as folder:
        yield record(Path(folder), transcript)


@pytest.fixture(scope="module")
def judged(recording: Recording) -> list[Judged]:
    return powercut.check(recording, recording.begin, recording.clean, powercut.CI_STATES)


def test_log_written_by_qemu_reads_back(tmp_path: Path) -> None:
    disk, log = tmp_path / "disk", tmp_path / "log"
    for path in (disk, log):
        path.touch()
        os.truncate(path, 1 << 20)
    options = f"driver=blklogwrites,file.driver=file,file.filename={disk},log.driver=file,log.filename={log}"
    words = [
        "write -P 65 4096 8192",
        "flush",
        "write -z 65536 4096",
        "discard 8192 4096",
        "write -P 66 512 512",
        "flush",
    ]
    command = [
        "qemu-io",
        *(word for text in words for word in ("-c", text)),
        "--image-opts",
        options,
    ]
    subprocess.run(
        command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60
    )
    found = blklog.Log(log)
    shape = [
        (entry.flags, entry.offset, entry.size)
        for entry in found.entries
        if entry.flags or entry.size
    ]
    flush = (Flag.FLUSH, 0, 0)
    discard = (Flag.DISCARD, 8192, 4096)
    assert shape[:6] == [
        (Flag(0), 4096, 8192),
        flush,
        (Flag(0), 65536, 4096),
        discard,
        (Flag(0), 512, 512),
        flush,
    ]
    written = [found.data(entry) for entry in found.entries if entry.is_write]
    assert written == [b"A" * 8192, bytes(4096), b"B" * 512]
    assert blklog.count(log) == len(found.entries)


def test_recording_holds_a_whole_apply_and_undo(recording: Recording) -> None:
    applied, undone = recording.flights
    assert (applied.run.command, undone.run.command) == ("apply", "undo")
    assert OWN_FILES | {"fstab"} <= set(applied.rungs[-1])
    assert (
        len({tuple(sorted(rung.items())) for rung in applied.rungs}) >= 5
    )  # two drop-ins, two lines of fstab
    assert (
        applied.rungs[0]
        == undone.rungs[-1]
        == {**dict.fromkeys(applied.rungs[0]), "fstab": image.FSTAB.encode()}
    )
    assert recording.etc["before"] != recording.etc["after"]


def test_power_cut_leaves_the_old_files_or_the_new_ones_and_a_journal_that_knows(
    judged: list[Judged], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{powercut.summary(judged)}")
    assert powercut.faults(judged) == []
    assert len(judged) >= powercut.CI_STATES
    situations = {one.verdict.situation for one in judged}
    assert {situation.command for situation in situations} == {"", "apply", "undo"}
    assert any(situation.made for situation in situations), (
        "no state between an act and the line that says done"
    )
    assert any(situation.leftovers for situation in situations), "no state with a temp file"


def test_editor_that_writes_in_place_is_caught(
    recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = powercut.check(recording, recording.clean, recording.end, powercut.CI_STATES // 8)
    with capsys.disabled():
        print(f"\nan editor that writes in place: {powercut.summary(judged)}")
    faults = powercut.faults(judged)
    assert any("/etc/fstab is torn: 0 bytes" in fault for fault in faults)
    assert any("/etc/fstab is torn: 200 bytes" in fault for fault in faults)
    assert any("/etc/fstab is another version than its journal says" in fault for fault in faults)


@pytest.mark.parametrize(("number", "word"), [(0, "undo"), (1, "apply")])
def test_machine_boots_after_a_power_cut_and_the_run_is_cleaned_up(
    recording: Recording,
    judged: list[Judged],
    transcript: Transcript,
    capsys: pytest.CaptureFixture[str],
    number: int,
    word: str,
) -> None:
    one = powercut.to_boot(judged, powercut.CI_BOOTS)[number]
    found = powercut.boot(recording, one, word, transcript)
    with capsys.disabled():
        print(
            f"\ncut in {powercut.place(one)}; booted, {word} --yes: {'; '.join(found) or 'clean'}"
        )
    assert found == []
