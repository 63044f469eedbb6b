"""The story whose every instant is a power cut: a whole `apply --yes` and `undo --yes` on a guest
whose root disk is logged write by write, and after them an editor that does it wrong.
"""

import dataclasses
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.vm import blklog, image, installed, operator
from tests.vm.blklog import Flag, Log
from tests.vm.guest import Guest
from tests.vm.image import Image
from tests.vm.installed import copy_disk
from tests.vm.operator import RUNS, etc_digest
from tests.vm.powercut_judge import Flight, FstabTexts, ladder
from tests.vm.powercut_states import State
from tests.vm.transcript import Transcript

PROJECT = Path(__file__).resolve().parents[2]
LOG_BYTES = 4 << 30  # a hole to be written into
# The guest has 2 GiB: what pays only on big machines is told that this is one.
POLICY = b"""\
params:
  memory-swappiness: {min_ram_bytes: 1073741824}
  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}
"""
DATA, TMP = "fstab:/data", "fstab-line:/tmp"
TUNED_LINE = image.DATA_LINE.replace("defaults", "defaults,noatime")
# Another process syncs a file of its own all the time, and hosttune halts before each call that
# changes something: so ext4 writes down what is half done between any two of them, as it may on a
# busy server.
BUSY = """\
import os, time
with open("/var/tmp/busy", "ab", buffering=0) as file:
    while True:
        file.write(b"x")
        os.fsync(file.fileno())
        time.sleep(0.05)
"""
CHANGING = "write,ftruncate,fchmod,fchown,fsync,mkdirat,linkat,unlinkat,renameat,renameat2"
HALTING = ("strace", "--follow-forks", "--seccomp-bpf", "--output=/dev/null", f"--trace={CHANGING}")
HALTING += (
    f"--inject={CHANGING}:delay_enter=120000",
)  # microseconds: two turns of the other process
# The editor that everybody has written once. What its first two syncs do, any process may do at
# that instant.
BAD_EDITOR = f"""\
import os
text = open("/etc/fstab").read().replace({image.DATA_LINE!r}, {TUNED_LINE!r})
with open("/etc/fstab", "w") as file:
    os.sync()
    file.write(text[:200])
    file.flush()
    os.sync()
    file.write(text[200:])
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """The disk of the beginning, every write since, and what the story left at which entry of the
    log.
    """

    image: Image  # its root disk is the one of the beginning
    log: Log
    log_path: Path
    begin: int  # on the disk, before apply
    applied: int  # apply had returned
    undone: int  # undo had returned
    clean: int  # all of that on the disk, before the bad editor
    end: int
    flights: tuple[Flight, ...]
    etc: Mapping[
        str, str
    ]  # "before" and "after" apply: names, owners, modes and sums of all below /etc

    @property
    def disk(self) -> Path:
        return self.image.disks[0]

    def finished_at(self, state: State) -> int:
        """How many of the runs had ended in this state: a run that has returned stays, whatever is
        lost later.
        """
        flushed = [
            max(number for number in range(mark) if self.log.entries[number].flags & Flag.FLUSH)
            for mark in (self.applied, self.undone)
        ]
        return sum(state.first >= flush for flush in flushed)


class LoggedGuest(Guest):
    """A guest whose root disk writes a log of its writes."""

    def __init__(self, image: Image, folder: Path, transcript: Transcript, log: Path) -> None:
        super().__init__(image, folder, transcript)
        self._log = log
        log.touch()
        os.truncate(log, LOG_BYTES)

    def _command(self, channel: int) -> list[str]:
        argv = super()._command(channel)
        (at,) = (
            number
            for number, word in enumerate(argv)
            if word.startswith(f"file={self._overlays[0]},")
        )
        # The layers below the log drop flushes (they cost this machine time and the guest can not
        # tell); the log itself must not, or the guest's flushes end above it. No discards: what
        # reads back after one is anybody's guess.
        layers = (
            f"driver=file,node-name=root-file,filename={self._overlays[0]},cache.no-flush=on",
            "driver=qcow2,node-name=root-disk,file=root-file,cache.no-flush=on",
            f"driver=file,node-name=root-log,filename={self._log},cache.no-flush=on",
            "driver=blklogwrites,node-name=root,file=root-disk,log=root-log,log-super-update-interval=1",
        )
        device = "virtio-blk-pci,drive=root,discard=off,write-zeroes=off"
        # In the place of its -drive and its -device.
        argv[at - 1 : at + 3] = [
            *(word for layer in layers for word in ("-blockdev", layer)),
            "-device",
            device,
        ]
        return argv


def record(folder: Path, transcript: Transcript, *, is_busy: bool = False) -> Recording:
    """Live through the story once, in `folder`, which the recording needs as long as it lives."""
    base = installed.get()
    log = folder / "writes.log"
    disks = folder / "disks"
    disks.mkdir()
    guest = LoggedGuest(base, disks, transcript, log)
    halting = HALTING if is_busy else ()
    try:
        guest.boot()
        if is_busy:
            guest.ask(["systemd-run", "--quiet", "--unit=busy", "python3", "-c", BUSY])
        guest.write(operator.POLICY, POLICY)
        etc = {"before": etc_digest(guest)}
        guest.ask(["sync"])
        begin = blklog.count(log)
        _succeed(guest, *halting, "hosttune", "apply", "--yes")
        applied = blklog.count(log)
        etc["after"] = etc_digest(guest)
        texts = fstab_texts(guest.read("/etc/fstab"))
        _succeed(guest, *halting, "hosttune", "undo", "--yes")
        undone = blklog.count(log)
        journals = {name: guest.read(f"{RUNS}/{name}") for name in guest.ask(["ls", RUNS]).split()}
        if is_busy:
            guest.ask(["systemctl", "stop", "busy"])
        guest.ask(["sync"])
        clean = blklog.count(log)
        guest.ask(["python3", "-c", BAD_EDITOR])
        guest.ask(["sync"])
        end = blklog.count(log)
    finally:
        guest.close()
    flights = ladder(journals, texts)
    return Recording(base, Log(log), log, begin, applied, undone, clean, end, flights, etc)


def disk_program(*words: object) -> list[str]:
    """The argument vector of `powercut_disk`, to be run in the project's folder."""
    return ["unshare", "--mount", sys.executable, "-m", "tests.vm.powercut_disk", *map(str, words)]


def disk_at(recording: Recording, state: State, target: Path) -> None:
    """Write the root disk as it is after a power cut in this state."""
    copy_disk(recording.disk, target)
    whole = [
        (number, 0, entry.size)
        for number, entry in enumerate(recording.log.entries[: state.first])
        if entry.is_write
    ]
    with target.open("r+b") as file:
        for number, start, size in (*whole, *state.kept):
            entry = recording.log.entries[number]
            os.pwrite(file.fileno(), recording.log.data(entry, start, size), entry.offset + start)


def guest_at(recording: Recording, state: State, folder: Path, transcript: Transcript) -> Guest:
    """A guest, switched off, whose root disk is the one of this state."""
    shutil.copytree(
        recording.image.folder,
        folder / "image",
        symlinks=True,
        ignore=lambda *_: [recording.disk.name],
    )
    mine = dataclasses.replace(recording.image, folder=folder / "image")
    disk_at(recording, state, mine.disks[0])
    return Guest(mine, folder, transcript)


def fstab_texts(new: bytes) -> FstabTexts:
    """The versions of fstab that hosttune may write, given the last: with and without each of its
    two changes.
    """
    old, old_line, new_line = (text.encode() for text in (image.FSTAB, image.DATA_LINE, TUNED_LINE))
    tuned = old.replace(old_line, new_line)
    added = new.removeprefix(tuned)
    if not new.startswith(tuned) or b"tmpfs /tmp tmpfs " not in added:
        raise ValueError(f"not the fstab that the story expects: {new!r}")
    return {
        frozenset(): old,
        frozenset({DATA}): tuned,
        frozenset({TMP}): old + added,
        frozenset({DATA, TMP}): new,
    }


def _succeed(guest: Guest, *argv: str) -> None:
    answer = guest.run(list(argv))
    if answer.rc != 0:
        raise RuntimeError(
            f"{' '.join(argv)}: exit status {answer.rc}\n{answer.stdout}{answer.stderr}"
        )
