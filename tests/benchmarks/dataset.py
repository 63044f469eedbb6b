"""What a look at a data set of a million files costs: `sudo python -m tests.benchmarks.dataset
[--files N] [--rounds N]`. A benchmark, not a test.

Makes the files on an ext4 of its own (a loop device in a private mount namespace, gone with the
process), then runs, interleaved and warm, `hosttune dataset`, the same with `--exact` and without
headers, a bare scandir in Python, `find` for names, `find -printf %s` and `du`. Prints the best and
the median of wall time and the best of processor time, and for hosttune the peak of memory against
the number of files, which is to stay flat.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IN_A_FOLDER = 1000
# A JPEG as far as its first frame header: 500 x 375 in three colours. It fits into the inode
# (inline_data).
HEADER = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffc0001108017701f403011100021100031100"
)
SCANDIR = """\
import os, sys
count = 0
waiting = [sys.argv[1]]
while waiting:
    with os.scandir(waiting.pop()) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                count += 1
print(count)
"""


def make(folder: Path, files: int) -> None:
    for number in range(0, files, IN_A_FOLDER):
        below = folder / f"n{number // IN_A_FOLDER:05d}"
        below.mkdir(parents=True)
        place = os.open(below, os.O_RDONLY)
        for name in range(min(IN_A_FOLDER, files - number)):
            fd = os.open(f"img_{name:06d}.jpg", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=place)
            os.write(fd, HEADER)
            os.close(fd)
        os.close(place)


def once(argv: list[str]) -> tuple[float, float, int]:
    """(wall seconds, processor seconds, peak of resident memory in KiB) of one process."""
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss


def compare(folder: Path, rounds: int) -> None:
    hosttune = [sys.executable, "-I", "-m", "hosttune", "dataset", str(folder)]
    commands = {
        "hosttune dataset": hosttune,
        "hosttune dataset --exact": [*hosttune, "--exact"],
        "without headers": [*hosttune, "--no-headers"],
        "bare scandir in Python": [sys.executable, "-I", "-c", SCANDIR, str(folder)],
        "find (names)": ["find", str(folder)],
        "find -printf %s": ["find", str(folder), "-type", "f", "-printf", "%s\n"],
        "du": ["du", "-s", str(folder)],
    }
    measured: dict[str, list[tuple[float, float, int]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, argv in commands.items():
            took = once(argv)
            if number:  # the first round warms the caches
                measured[name].append(took)
    for name, rows in measured.items():
        wall = [row[0] for row in rows]
        print(
            f"  {name:25} best {min(wall):5.2f} s, median {statistics.median(wall):5.2f} s; "
            f"CPU {min(row[1] for row in rows):5.2f} s; {max(row[2] for row in rows) / 1024:5.0f} MiB"
        )


def run(files: int, rounds: int, scratch: Path) -> None:
    """In the private namespace."""
    image, place = scratch / "image", scratch / "data"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(
        ["mkfs.ext4", "-q", "-O", "inline_data", "-N", str(files + files // 100 + 1000), image],
        check=True,
    )
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    for count in sorted({files // 100, files // 10, files}):
        folder = place / str(count)
        make(folder, count) if count < files else make(folder, count - files // 100 - files // 10)
        if count < files:
            wall, _, peak = once([sys.executable, "-I", "-m", "hosttune", "dataset", str(folder)])
            print(f"{count:,} files: {wall:.2f} s, {peak / 1024:.0f} MiB")
    print(f"{files:,} files, {rounds} rounds:")
    compare(place, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.scratch:
        run(given.files, given.rounds, given.scratch)
        return
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as scratch:
        again = [sys.executable, "-m", "tests.benchmarks.dataset", "--scratch", scratch]
        words = ["--files", str(given.files), "--rounds", str(given.rounds)]
        subprocess.run(
            ["unshare", "--mount", "--propagation", "private", *again, *words], check=True, cwd=ROOT
        )


if __name__ == "__main__":
    main()
