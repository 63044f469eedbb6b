"""How long an fstab of many lines takes: `python -m tests.benchmarks.fstab [--rounds N]`. A
benchmark, not a test.

Parses, lints and plans noatime for files of 10,000 to 100,000 lines, and compares with the least a
Python program can do with such a file: read it and split every line once. Two kinds of files:
`mixed` has the lines of real hosts (comments, disks that are noatime already and others, NFS, bind
mounts, swap, tmpfs), in `disks` every line is a data disk that has to be edited. Planned are one
target, and all data disks. Prints the best of several rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hosttune.facts.storage import fstab_lines
from hosttune.facts.storage.fstab_lines import parse
from hosttune.resources.storage.fstab_lint import lint
from hosttune.resources.storage.fstab_plan import tune

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (10_000, 20_000, 50_000, 100_000)
DISK = "UUID={0:08x}-9a1c-4b6e-8f00-{0:012x} /data/set{0:05d} ext4 defaults 0 2\n"
MIXED = (
    "# /data/set{0:05d} was on /dev/sd{0} during curtin installation\n",
    "/dev/disk/by-uuid/{0:08x}-9a1c-4b6e-8f00-{0:012x} /data/set{0:05d} ext4 defaults 0 1\n",
    "\n",
    "UUID={0:08x}-1111-4b6e-8f00-{0:012x}\t/scratch/{0}\txfs\tnoatime,nofail,inode64\t0\t0\n",
    "nas{0}.example.org:/export/set{0}  /nfs/set{0}  nfs4  rw,hard,_netdev,nofail  0 0\n",
    "# data set {0}, asked for by the vision group\n",
    "/scratch/{0}  /srv/bind{0}  none  bind,nofail  0 0\n",
    "LABEL=data{0}\t/mnt/slow{0}\text4\trelatime,nofail,errors=remount-ro\t0 2 # the slow one\n",
    "tmpfs /run/user-cache/{0} tmpfs size=64M,mode=0700,nosuid,nodev,nofail 0 0\n",
    "UUID={0:08x}-2222-4b6e-8f00-{0:012x} /pool/{0} btrfs subvol=@set{0},compress=zstd:1,noatime,nofail 0 0\n",
)


def made(lines: tuple[str, ...], count: int) -> bytes:
    """A file of `count` lines."""
    return "".join(lines[number % len(lines)].format(number) for number in range(count)).encode()


def best(action: Callable[[], object], rounds: int) -> float:
    """Milliseconds of processor time of the quickest round: what else the machine does counts
    less.
    """
    found = []
    for _ in range(rounds):
        started = time.process_time()
        action()
        found.append(time.process_time() - started)
    return min(found) * 1000


def split_once(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8") as file:
        return [line.split() for line in file]


def measure(name: str, lines: tuple[str, ...], count: int, folder: Path, rounds: int) -> None:
    """Print one row."""
    path = folder / "fstab"
    path.write_bytes(made(lines, count))
    data = path.read_bytes()
    document = parse(data)
    floor = best(lambda: split_once(path), rounds)
    target = next(line.target for line in document.entries if line.target.startswith("/data/"))
    times = {
        "parse": best(lambda: parse(path.read_bytes()), rounds),
        "lint": best(lambda: lint(document), rounds),
        "plan one": best(lambda: tune(document, [target]), rounds),
        "plan all": best(lambda: tune(document), rounds),
    }
    one = times["parse"] + times["lint"] + times["plan one"]
    whole = times["parse"] + times["lint"] + times["plan all"]
    print(
        f"{name:5} {count:6} lines: split {floor:.1f} ms, {', '.join(f'{key} {ms:.1f}' for key, ms in times.items())}; "
        f"with one target {one / floor:.1f} x, with all {whole / floor:.1f} x, {whole / count * 1000:.1f} us a line"
    )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    fstab_lines.LARGEST_FILE = 1 << 30  # growth is measured beyond the size that is still edited
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as folder:
        for name, lines in (("mixed", MIXED), ("disks", (DISK,))):
            for count in SIZES:
                measure(name, lines, count, Path(folder), rounds)


if __name__ == "__main__":
    main()
