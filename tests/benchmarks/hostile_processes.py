"""What a look at the processes costs where users made all of it long: `python -m
tests.benchmarks.hostile_processes`.

A /proc in a folder: N processes, each with a title of 64 KiB, an environment of 128 KiB, ten open
files and 8,000 groups. It prints time and memory for each N, in a process of its own. Files of one
kind are one file with many names, so that the table needs little room: what is read is the same.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (25_000, 50_000, 100_000)
FILES = {
    "statm": b"10 5 0 0 0 0 0",
    "status": b"Name:\tx\nUid:\t1001\t0\t0\t0\nGroups:\t" + b"1 " * 8000 + b"\nVmSwap:\t8 kB\n",
    "cmdline": b"python\0train.py\0" + b"ab\0" * 22_000,
    "environ": b"NCCL_DEBUG=INFO\0" + b"A=1\0" * 32_000,
    "cgroup": b"0::/user.slice/user-1001.slice\n" + b"x" * 100_000,
}
OPEN_FILES = 10


def make(folder: Path, count: int) -> None:
    """The table, on a tmpfs where /tmp is one: each file is a link to one of a few."""
    (folder / "stat").write_text("btime 100\n")
    shared = folder / "shared"
    shared.mkdir()
    for name, content in FILES.items():
        (shared / name).write_bytes(content)
    (shared / "stat").write_text("7 (a b) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 0 0")
    open_files = shared / "fd"
    open_files.mkdir()
    for number in range(OPEN_FILES):
        (open_files / str(number)).symlink_to(f"/tmp/{number}")
    for pid in range(1, count + 1):
        process = folder / str(pid)
        process.mkdir()
        for name in (*FILES, "stat", "fd"):
            (process / name).symlink_to(shared / name)


def look(folder: str) -> None:
    from hosttune.host.processes import proc

    begun = time.process_time()
    answer = proc.list_processes(folder)
    took = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    what = f"{len(answer):,} processes" if isinstance(answer, tuple) else str(answer)
    print(f"{what}: {took:.1f} s of processor time, {peak} MiB at most", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        look(sys.argv[1])
        return
    for size in SIZES:
        with tempfile.TemporaryDirectory(
            dir="/dev/shm" if os.path.isdir("/dev/shm") else None
        ) as folder:
            make(Path(folder), size)
            subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.hostile_processes", folder], check=True
            )


if __name__ == "__main__":
    main()
