"""Writes what a version keeps and hands out: `PYTHONPATH=TREE python tests/unit/released/make.py
FOLDER`.

It runs the code of TREE, which may be an old one, so it asks for nothing that the first of them
lacked, and leaves out what TREE does not have.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hosttune import __version__
from hosttune.actions.journal.journal import FOLDER, JournalWriter, Run, StepId
from hosttune.host.door import Process
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, Action, Activation, Address, Change, FileValue, Trigger
from tests.unit.fake_reader import FakeReader

DROPIN = "/etc/sysctl.d/60-hosttune-memory-swappiness.conf"
RULE = "memory-swappiness"
LIVE = Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", RULE)
FILE = Change(
    Address("file", DROPIN), Action.CREATE, ABSENT, FileValue(b"vm.swappiness = 10\n"), RULE,
    activation=Activation.NOW, triggers=(Trigger("daemon-reload"),),
)  # fmt: skip
OTHER = Change(
    Address("sysctl", "vm.max_map_count"), Action.UPDATE, "65530", "1048576", "memory-max-map-count"
)
SET = Change(
    Address("package-set", "a,b"), Action.UPDATE, ("a=1", "b=1"), ("a=2", "b=2"), "gpu-driver",
    activation=Activation.REBOOT, reversible="after a reboot",
)  # fmt: skip
FILES = {
    "/etc/fstab": "UUID=1 / ext4 defaults 0 1\n",
    "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "/proc/sys/kernel/hostname": "gpu17\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/max_map_count": "65530\n",
    "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n',
    "/proc/meminfo": "MemTotal: 131072000 kB\n",
}


def reader() -> FakeReader:
    process = Process(7, "python", "alice", ("train",), 1, 0, ("/dev/nvidia0",), "/", 1.0)
    return FakeReader(FILES, processes=(process,))


def run(writer: Overlay, number: int, command: str) -> JournalWriter:
    started = f"2026-11-2{number}T08:00:00.000000+00:00"
    made = Run(
        f"2026112{number}-080000-000{number}",
        command,
        started,
        "root",
        "boot-1",
        "d" * 64,
        __version__,
    )
    return JournalWriter.start(writer, made)


def journals() -> dict[str, bytes]:
    """Four runs: one of apply with a change that failed, one that took a part of it back, one that
    stopped half-way where this version knows that, and one that was killed.
    """
    writer = Overlay(reader())
    first = run(writer, 1, "apply")
    steps = [first.intent(change) for change in (LIVE, FILE)]
    for step in steps:
        first.done(step)
    first.record_failure(first.intent(OTHER), "the kernel does not take it")
    first.trigger(Trigger("daemon-reload"), "waiting")
    first.finish()
    back = run(writer, 2, "undo")
    back.done(back.intent(replace(LIVE, before="10", after="60"), StepId(first.run.id, 1)))
    back.trigger(Trigger("daemon-reload"), "done")
    back.finish()
    third = run(writer, 3, "apply")
    if "left" in inspect.signature(JournalWriter.done).parameters:
        third.done(third.intent(SET), "interrupted half-way", replace(SET, after=("a=2", "b=1")))
    third.finish()
    killed = run(writer, 4, "apply")
    killed.intent(OTHER)
    names = writer.list(FOLDER)
    assert isinstance(names, tuple)
    return {f"runs/{name}": bytes(writer.read(f"{FOLDER}/{name}")) for name in names}  # type: ignore[arg-type]


def record() -> dict[str, bytes]:
    try:
        from hosttune.actions.record.record import take_record
    except ImportError:  # an older tree
        from hosttune.host.survey import take_record

    def ask(asked: object) -> None:
        for path in FILES:
            asked.read(path)  # type: ignore[attr-defined]
        asked.processes()  # type: ignore[attr-defined]
        asked.query(("nvidia-smi",))  # type: ignore[attr-defined]

    made = take_record(reader(), ask, share=False, tool_version=__version__)
    return {"record.json": json.dumps(made, indent=1, sort_keys=False).encode() + b"\n"}


def of_the_record(folder: Path) -> dict[str, bytes]:
    """What the commands print of the record."""
    found = {}
    for name in ("check", "plan") if (folder / "record.json").exists() else ():
        words = [
            sys.executable,
            "-m",
            "hosttune",
            name,
            "--host",
            str(folder / "record.json"),
            "--format",
            "json",
        ]
        done = subprocess.run(words, check=False, capture_output=True, timeout=60)
        assert done.returncode in {0, 1}, done.stderr
        found[f"{name}.json"] = done.stdout
    return found


def bench() -> dict[str, bytes]:
    from hosttune.measure.bench import results

    result = results.BenchResult(
        "read", "2026-11-21T08:00:00+00:00", "6.8.0", "0b9c", "ext4", "/d", "/d", 7
    )
    return {"bench.json": json.dumps(results.to_json(result)).encode() + b"\n"}


def main() -> None:
    folder = Path(sys.argv[1])
    for make in (journals, record, lambda: of_the_record(folder), bench):
        try:
            made = make()
        except ImportError:
            continue
        for name, content in made.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
