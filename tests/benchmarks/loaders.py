"""`bench read --decode` beside PyTorch's own DataLoader: `python -m tests.benchmarks.loaders
--python PATH [--files N]`. A benchmark, not a test.

Needs a Python with torch and Pillow (`pip install torch==2.13.0 pillow numpy` in an environment of
its own; on this disk that takes minutes), and is run by hand on a quiet host. Makes JPEGs of two
sizes with that Python, lets `hosttune bench read --decode` find the knee of each, and runs a
DataLoader over the same files with no worker, 1, 2, 3, 4 and 8, in rounds of random order: batches
of 32, decoded to RGB and cut to 224 x 224, which travel as tensors. Prints files a second (the
median of the rounds, without the start of the workers), both knees, and whether one worker is
slower than none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hosttune.measure.bench.reading import KNEE

ROOT = Path(__file__).resolve().parents[2]
MAKE = """\
import io, os, random, sys
from PIL import Image, ImageFilter
folder, count, width, height = sys.argv[1], *map(int, sys.argv[2:])
random.seed(3)
kinds = []
for _ in range(12):
    image = Image.frombytes("RGB", (width // 4, height // 4), random.randbytes(width // 4 * (height // 4) * 3))
    out = io.BytesIO()
    image.resize((width, height)).filter(ImageFilter.GaussianBlur(2)).save(out, "JPEG", quality=85)
    kinds.append(out.getvalue())
for number in range(count):
    with open(f"{folder}/{number:05}.jpg", "wb") as file:
        file.write(kinds[number % 12])
"""
LOAD = """\
import json, random, sys, time
import numpy, torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
import os
torch.set_num_threads(1)
folder, levels, rounds = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
paths = [entry.path for entry in os.scandir(folder)]

class Pictures(Dataset):
    def __len__(self):
        return len(paths)
    def __getitem__(self, number):
        with Image.open(paths[number]) as image:
            picture = numpy.asarray(image.convert("RGB"))
        return torch.from_numpy(picture[:224, :224].copy())

def rate(workers):
    loader = iter(DataLoader(Pictures(), batch_size=32, shuffle=True, num_workers=workers))
    for _ in range(2 * max(1, workers)):  # what was prefetched while the workers started
        next(loader)
    started, files = time.perf_counter(), 0
    for batch in loader:
        files += len(batch)
    return files / (time.perf_counter() - started)

found = {level: [] for level in levels}
draw = random.Random(5)
rate(0)
for _ in range(rounds):
    for level in draw.sample(levels, len(levels)):
        found[level].append(rate(level))
print(json.dumps(found))
"""


def knee(rates: dict[int, float]) -> int:
    """The fewest workers within 2 % of the best rate, as `bench read` takes it."""
    best = max(rates.values())
    return min(level for level, rate in rates.items() if rate >= KNEE * best)


def medians(found: dict[str, list[float]]) -> dict[int, float]:
    return {int(level): statistics.median(rates) for level, rates in found.items()}


def told(argv: list[str]) -> str:
    made = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT)
    assert made.returncode in {0, 1}, made.stderr
    return made.stdout


def compare(
    python: str, width: int, height: int, files: int, levels: list[int], rounds: int, scratch: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=scratch, prefix="loaders-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - the user's Python is not root
        subprocess.run(
            [python, "-c", MAKE, folder, str(files), str(width), str(height)], check=True
        )
        argv = [
            sys.executable,
            "-I",
            "-m",
            "hosttune",
            "bench",
            "read",
            folder,
            "--decode",
            "--python",
            python,
        ]
        some = ",".join(str(level) for level in levels if level)
        read = json.loads(told([*argv, "--workers", some, "--anyway", "--format", "json"]))
        ours = {one["workers"]: one["rate"]["estimate"] for one in read["figures"]["sweep"]}
        loader = medians(
            json.loads(told([python, "-c", LOAD, folder, json.dumps(levels), str(rounds)]))
        )
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / files
    print(f"{width} x {height}, {size / 1000:.0f} kB:")
    print("  workers     " + "".join(f"{level:>8}" for level in levels))
    print(
        "  bench read  "
        + "".join(f"{ours.get(level, 0):8.0f}" if level else "       -" for level in levels)
    )
    print("  DataLoader  " + "".join(f"{loader[level]:8.0f}" for level in levels))
    some_workers = {level: rate for level, rate in loader.items() if level}
    print(
        f"  knee: bench read {knee(ours)}, DataLoader {knee(some_workers)}; one worker against none: {loader[1] / loader[0]:.2f}"
    )
    decode, handed = (read["figures"][name]["rate"]["estimate"] for name in ("decode", "handed"))
    print(
        f"  bench read: {decode:.0f} decoded, {handed:.0f} handed on by one worker: {handed / decode:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True, help="with torch and Pillow")
    parser.add_argument("--files", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", default="0,1,2,3,4,8")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"))
    given = parser.parse_args()
    levels = [int(word) for word in given.workers.split(",")]
    for width, height in ((128, 96), (500, 375)):
        compare(given.python, width, height, given.files, levels, given.rounds, given.scratch)


if __name__ == "__main__":
    main()
