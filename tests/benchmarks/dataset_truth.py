"""What `hosttune dataset` says against what is true: `python -m tests.benchmarks.dataset_truth
[--only WORD] [--exact]`. A benchmark, not a test.

Makes data sets whose decoded size and size in the page cache are known from how they are made, runs
`hosttune dataset --format json` on each, and asks for eight sizes of memory, from a fourth to four
times the truth, whether "fits", "tight" or "too large" is true. Pictures are JPEGs as far as their
frame header and PNGs that decode, filled up to their size. Those of HELD were written once the code
stood, and nothing was changed for them: their figures are the ones that count. Needs 4 GiB below
--scratch.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from hosttune.measure.dataset.room import FITS, TIGHT, Room, fit

ROOT = Path(__file__).resolve().parents[2]
UNSEEN = {
    "needs_bytes": 0,
    "low_bytes": 0,
    "high_bytes": None,
    "why": "partial",
}  # where no size was taken in the time
TIMES = (0.25, 0.4, 0.55, 0.65, 0.75, 0.9, 1.5, 4.0)  # the truth, as a share of memory


@dataclass
class Truth:
    """Bytes of a data set: decoded as stored (None: only its own library knows), and of the files,
    each once.
    """

    decoded: float | None = 0
    files: float = 0
    written: int = 0
    options: tuple[str, ...] = ()
    ways: dict[str, int] = field(default_factory=dict)


class Maker:
    """Writes the files of one data set and adds up its truth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth = Truth()
        self.random = random.Random(7)  # noqa: S311 - no secret

    def file(self, name: str, content: bytes, decoded: float | None, size: int = 0) -> Path:
        """Of `size` bytes, the rest a hole."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.truncate(max(size, len(content)))
        self.truth.files += pages(max(size, len(content)))
        if decoded is None or self.truth.decoded is None:
            self.truth.decoded = None
        else:
            self.truth.decoded += decoded
        self.truth.written += 1
        return path

    def jpeg(self, name: str, width: int, height: int, size: int, channels: int = 3) -> Path:
        return self.file(name, jpeg(width, height, channels), width * height * channels, size)


Make = Callable[[Maker], None]


def pages(size: int) -> int:
    return -(-size // 4096) * 4096


def jpeg(width: int, height: int, channels: int = 3) -> bytes:
    body = struct.pack(">BHHB", 8, height, width, channels) + bytes(3 * channels)
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", len(body) + 2) + body


def png(width: int, height: int, rows: bytes | None = None) -> bytes:
    """One that decodes: RGB, of one colour, or of these bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    raw = rows if rows is not None else bytes(height * (1 + width * 3))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(raw, 1))
        + chunk(b"IEND", b"")
    )


def noise(width: int, height: int, draw: random.Random) -> bytes:
    return png(width, height, b"".join(b"\0" + draw.randbytes(width * 3) for _ in range(height)))


def wav(samples: int, channels: int = 2) -> bytes:
    size = samples * channels * 2
    return b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", 36 + size, b"WAVE", b"fmt ", 16, 1, channels, 44100, 44100 * 2 * channels, 2 * channels, 16, b"data", size)  # fmt: skip


def npy(shape: tuple[int, ...], kind: str) -> bytes:
    text = (
        f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117)
        + b"\n"
    )
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


def shard(members: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return out.getvalue()


SMALL, LARGE = (500, 375, 5_000), (500, 375, 70_000)  # the same picture, K = 112 and K = 8


def one_after_the_other(count: int, *, is_turned: bool = False, is_mixed: bool = False) -> Make:
    """Two kinds: all of the first, then all of the second."""

    def make(to: Maker) -> None:
        for number in range(count):
            is_large = number % 2 if is_mixed else number >= count // 2
            kind = LARGE if is_large != is_turned else SMALL
            to.jpeg(f"{number:06}.jpg", *kind)

    return make


def classes(*, is_turned: bool = False, count: int = 400) -> Make:
    """Ten class folders, whose pictures grow from one to the next."""

    def make(to: Maker) -> None:
        order = range(10)
        for step in reversed(order) if is_turned else order:
            edge = 100 + 150 * step
            for number in range(count):
                to.jpeg(
                    f"class{step}/{number}.jpg", edge, edge, 20_000 + to.random.randrange(10_000)
                )

    return make


def lognormal(*, is_same_k: bool, count: int = 5_000) -> Make:
    def make(to: Maker) -> None:
        for number in range(count):
            size = int(to.random.lognormvariate(11, 0.8))
            edge = int((size * 4) ** 0.5) if is_same_k else 300 + to.random.randrange(900)
            to.jpeg(f"{number % 50}/{number}.jpg", edge, edge, max(size, 100))

    return make


def flat_and_noisy(*, is_turned: bool) -> Make:
    def make(to: Maker) -> None:
        flat, full = png(400, 300), [noise(160, 120, to.random) for _ in range(20)]
        for number in range(2_000):
            if (number < 600) != is_turned:
                to.file(f"{number}.png", flat, 400 * 300 * 3)
            else:
                to.file(f"{number}.png", full[number % 20], 160 * 120 * 3)

    return make


def sounds(to: Maker) -> None:
    for number in range(1_500):
        samples = 10_000 + to.random.randrange(400_000)
        to.file(f"speaker{number % 30}/{number}.wav", wav(samples), samples * 4, 44 + samples * 4)


def arrays(to: Maker) -> None:
    for number in range(900):
        kind, width = (("<f2", 2), ("<f8", 8))[number >= 450]
        shape = (100 + to.random.randrange(100), 64)
        to.file(
            f"{kind[1:]}/{number}.npy",
            npy(shape, kind),
            shape[0] * 64 * width,
            128 + shape[0] * 64 * width,
        )


def few_giants(count: int, every: int, order: str = "last") -> Make:
    """Flat PNGs of 4000 x 4000 between many small pictures."""

    def make(to: Maker) -> None:
        for number in range(count):
            is_giant = number % every == 0 if order == "mixed" else number >= count - count // every
            if is_giant:
                head = png(1, 1)[:16] + struct.pack(">II", 4000, 4000) + png(1, 1)[24:]
                to.file(f"{number:06}.png", head, 4000 * 4000 * 3, 50_000)
            else:
                head = png(1, 1)[:16] + struct.pack(">II", 200, 200) + png(1, 1)[24:]
                to.file(
                    f"{number:06}.png", head, 200 * 200 * 3, 40_000 + to.random.randrange(20_000)
                )

    return make


def formats(to: Maker) -> None:
    for number in range(1_200):
        to.jpeg(f"pictures/{number}.jpg", 640, 480, 60_000)
        to.file(
            f"masks/{number}.png",
            png(1, 1)[:16] + struct.pack(">II", 640, 480) + png(1, 1)[24:],
            640 * 480 * 3,
            3_000,
        )
    for number in range(200):
        to.file(f"sound/{number}.wav", wav(50_000), 200_000, 200_044)


def shards(
    count: int,
    members: int,
    kinds: Callable[[int, int], tuple[int, int, int]],
    label: bool = False,
    caption: int = 0,
) -> Make:
    """`kinds` gives width, height and size of a member by its shard and number."""

    def make(to: Maker) -> None:
        for place in range(count):
            found, decoded = [], 0
            for number in range(members):
                width, height, size = kinds(place, number)
                found.append(
                    (f"{place:03}-{number:05}.jpg", jpeg(width, height).ljust(size, b"\1"))
                )
                decoded += width * height * 3
                if label:
                    found += [
                        (f"{place:03}-{number:05}.cls", b"7"),
                        (f"{place:03}-{number:05}.json", b'{"a": 1}'),
                    ]
                    decoded += 9
                if caption:
                    found.append((f"{place:03}-{number:05}.txt", b"a" * caption))
                    decoded += caption
            to.file(f"train-{place:04}.tar", shard(found), decoded)

    return make


def hard_links(count: int, *, is_outside: bool = False, names: int = 2) -> Make:
    """Each file has several names: all below, or the others elsewhere."""

    def make(to: Maker) -> None:
        for number in range(count):
            path = to.jpeg(f"a/{number}.jpg", 300, 300, 30_000)
            for more in range(1, names):
                place = (
                    to.folder.parent / f"{to.folder.name}-more"
                    if is_outside
                    else to.folder / f"b{more}"
                )
                place.mkdir(parents=True, exist_ok=True)
                os.link(path, place / f"{number}.jpg")

    return make


def symbolic_links(to: Maker) -> None:
    for number in range(1_000):
        path = to.jpeg(f"all/{number}.jpg", 300, 300, 30_000)
        (to.folder / "some").mkdir(exist_ok=True)
        (to.folder / "some" / f"{number}.jpg").symlink_to(path)


def only_its_library(name: str, count: int, head: bytes, size: int) -> Make:
    def make(to: Maker) -> None:
        for number in range(count):
            to.file(name.format(number), head + to.random.randbytes(2_000), None, size)

    return make


def beside(name: str, share: float) -> Make:
    """Pictures, and beside them a film of so much of their bytes (1080p at 5 Mbit/s: K = 300)."""

    def make(to: Maker) -> None:
        for number in range(1_000):
            to.jpeg(f"{number}.jpg", 400, 300, 40_000)
        to.file(name, b"\0\0\0 ftypisom", 300 * int(40_000_000 * share), int(40_000_000 * share))

    return make


def rows(end: str, *, is_turned: bool = False) -> Make:
    """A Parquet or Arrow file of pictures, one kind after the other."""

    def make(to: Maker) -> None:
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")

        for place in range(3):
            found = [
                jpeg(*((500, 375) if (number < 600) != is_turned else (60, 40)))
                + to.random.randbytes(6_000)
                for number in range(1_200)
            ]
            table = pa.table({"image": found, "label": list(range(1_200))})
            out = to.folder / f"{place}.{end}"
            if end == "parquet":
                pq.write_table(table, out, row_group_size=400)
            else:
                with (
                    pa.OSFile(str(out), "wb") as file,
                    pa.ipc.new_stream(file, table.schema) as stream,
                ):
                    stream.write_table(table, max_chunksize=100)
            content = out.read_bytes()
            to.file(out.name, content, 600 * 3 * (500 * 375 + 60 * 40) + 1_200 * 8)

    return make


def partial(to: Maker) -> None:
    for number in range(60_000):
        to.jpeg(f"{number // 100}/{number}.jpg", 64, 64, 3_000)
    to.truth.options = ("--budget", "0.1")


def deep(to: Maker) -> None:
    for number in range(4_000):
        depth = number % 5
        to.jpeg(
            "/".join("abcde"[: depth + 1]) + f"/{number}.jpg", 100 << depth, 100 << depth, 25_000
        )


def half_empty(to: Maker) -> None:
    for number in range(4_000):
        if number % 2:
            to.jpeg(f"{number}.jpg", 640, 480, 45_000 + to.random.randrange(40_000))
        else:
            to.file(f"{number}.jpg", b"", 0)


def records(to: Maker) -> None:
    writer: Any = import_module("tfrecord.writer").TFRecordWriter

    for place in range(4):
        path = to.folder / f"{place}.tfrecord"
        out = writer(str(path))
        for number in range(800):
            kind = (60, 40) if number < 400 else (500, 375)
            out.write(
                {
                    "image": (jpeg(*kind) + to.random.randbytes(5_000), "byte"),
                    "label": (number, "int"),
                }
            )
        out.close()
        to.file(path.name, path.read_bytes(), 400 * 3 * (60 * 40 + 500 * 375) + 800 * 8)


def by_the_thousand(to: Maker) -> None:
    for number in range(45_000):
        to.jpeg(f"{number:06}.jpg", *(SMALL if number // 1_000 % 3 else LARGE))


def one_large_class(to: Maker) -> None:
    for number in range(5_000):
        edge = 1_500 if number % 50 == 49 else 120
        to.jpeg(f"class{number % 50}/{number}.jpg", edge, edge, 15_000 + to.random.randrange(5_000))


def ten_to_one(to: Maker) -> None:
    for number in range(40_000):
        edge, name = (900, "val") if number >= 36_000 else (150, "train")
        to.jpeg(f"{name}_{number:06}.jpg", edge, edge, 12_000 + to.random.randrange(8_000))


def grey_then_colour(to: Maker) -> None:
    for number in range(6_000):
        to.jpeg(
            f"{number:05}.jpg",
            800,
            600,
            50_000 + to.random.randrange(90_000),
            1 if number < 4_500 else 3,
        )


def pareto(to: Maker) -> None:
    for number in range(30_000):
        size = int(2_000 * to.random.paretovariate(1.2))
        to.file(f"{number % 300}/{number}.npy", npy((size,), "|u1"), size, 128 + size)


def one_giant(to: Maker) -> None:
    for number in range(40_000):
        size = 30_000_000_000 if number == 23_456 else 8_000
        to.file(f"{number % 100}/{number}.npy", npy((size,), "|u1"), size, 128 + size)


def thumbnails(to: Maker) -> None:
    content = [noise(28, 28, to.random) for _ in range(10)]
    for number in range(50_000):
        to.file(f"{number % 10}/{number}.png", content[number % 10], 28 * 28 * 3)


def broken(to: Maker) -> None:
    for number in range(2_000):
        if number % 33:
            to.jpeg(f"{number}.jpg", 400, 300, 30_000)
        else:
            to.file(f"{number}.jpg", b"<html>not found", 0, 30_000)


SETS: dict[str, Callable[[Maker], None]] = {
    "kinds one after the other, 3,000": one_after_the_other(3_000),
    "the same, made in the other order": one_after_the_other(3_000, is_turned=True),
    "kinds one after the other, 30,000": one_after_the_other(30_000),
    "the same, made in the other order ": one_after_the_other(30_000, is_turned=True),
    "kinds in turn": one_after_the_other(3_000, is_mixed=True),
    "ten class folders, growing": classes(),
    "ten class folders, shrinking": classes(is_turned=True),
    "flat PNGs, then noisy ones": flat_and_noisy(is_turned=False),
    "noisy PNGs, then flat ones": flat_and_noisy(is_turned=True),
    "lognormal sizes, one K": lognormal(is_same_k=True),
    "lognormal sizes, any K": lognormal(is_same_k=False),
    "giants, one of 200, last": few_giants(10_000, 200),
    "four formats": formats,
    "shards of pictures of 5 KB": shards(12, 500, lambda *_: SMALL),
    "one shard, kinds one after the other": shards(
        1, 4_000, lambda _, n: SMALL if n < 2_000 else LARGE
    ),
    "the same, in the other order": shards(1, 4_000, lambda _, n: LARGE if n < 2_000 else SMALL),
    "hard links, both below": hard_links(1_500),
    # Without holes: what is none counts.
    "LMDB": only_its_library(
        "data.mdb", 1, bytes(16) + b"\xde\xc0\xef\xbe" + b"\1" * 40_000_000, 40_000_020
    ),
    "Ogg": only_its_library("{}.ogg", 300, b"OggS\0\2", 60_000),
    "MP3": only_its_library("{}.mp3", 300, b"ID3\4", 60_000),
    "Arrow": rows("arrow"),
    "Parquet, one kind after the other": rows("parquet"),
    "giants, one of 300, in turn": few_giants(9_000, 300, "mixed"),
    "40 shards with labels": shards(40, 300, lambda *_: (320, 240, 9_000), label=True),
    "three shards, kinds in turn": shards(3, 1_500, lambda _, n: SMALL if n % 3 else LARGE),
    "hard links, 24,000 twice below": hard_links(24_000),
    "film beside pictures, a third": beside("a.mp4", 0.33),
    "film beside pictures, 0.5 %": beside("a.mp4", 0.005),
    "3 % broken": broken,
    "one giant between 40,000": one_giant,
}
HELD: dict[str, Callable[[Maker], None]] = {
    "one class folder of 50 with large pictures": one_large_class,
    "40,000 of one folder, ten to one by name": ten_to_one,
    "grey scans, then colour": grey_then_colour,
    "WAV by speaker": sounds,
    "npy of halves, then of doubles": arrays,
    "30 shards, the later ones of small files": shards(
        30, 300, lambda place, _: SMALL if place > 20 else LARGE
    ),
    "hard links, the other name elsewhere": hard_links(2_000, is_outside=True),
    "symbolic links to files below": symbolic_links,
    "Arrow, one kind after the other": rows("arrow"),
    "Parquet, in the other order": rows("parquet", is_turned=True),
    "pickles": only_its_library("{}.pkl", 200, b"\x80\x04", 90_000),
    "gzipped JSON": only_its_library("{}.json.gz", 50, b"\x1f\x8b\x08", 400_000),
    "AVIF": only_its_library("{}.avif", 300, b"\0\0\0 ftypavif", 30_000),
    "a look that was cut short": partial,
    "Pareto sizes": pareto,
    "25 shards with captions of 2 KB": shards(
        25, 400, lambda *_: (256, 256, 20_000), caption=2_000
    ),
    "two shards of pictures of 400 KB": shards(2, 400, lambda _, n: (1_000 + n, 1_200, 400_000)),
    "five folders deep, growing with it": deep,
    "half of the files empty": half_empty,
    "TFRecord, one kind after the other": records,
    "film beside pictures, 0.05 %": beside("a.mp4", 0.0005),
    "hard links, 9,000 three times": hard_links(9_000, names=3),
    "kinds by the thousand in turn, 45,000": by_the_thousand,
    "50,000 PNGs of 28 x 28": thumbnails,
}


def measured(folder: Path, truth: Truth, words: tuple[str, ...]) -> dict[str, object]:
    argv = [
        sys.executable,
        "-I",
        "-m",
        "hosttune",
        "dataset",
        str(folder),
        "--format",
        "json",
        *truth.options,
        *words,
    ]
    made = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    found: dict[str, object] = json.loads(made.stdout)
    return found


def judged(truth: float | None, needs: float, said: dict[str, object]) -> Iterator[str]:
    """For each size of memory: right, not known, or wrong with what was said."""
    for times in TIMES:
        size = int((truth if truth is not None else needs) / times)
        room = Room(size, size, None, "")
        told = fit(
            int(said["needs_bytes"]),
            room,
            int(said["low_bytes"]),
            said["high_bytes"],
            str(said["why"]),
        ).answer  # type: ignore[call-overload,arg-type]
        true = "fits" if times < FITS else "tight" if times <= TIGHT else "too large"
        if told == "unknown":
            yield "not known"
        elif truth is None:
            yield "wrong: false fits" if told == "fits" else f"wrong: {told}"
        elif told == true:
            yield "right"
        else:
            yield "wrong: false fits" if told == "fits" else f"wrong: {told} for {true}"


def size(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"


def compare(
    sets: dict[str, Callable[[Maker], None]], scratch: Path, words: tuple[str, ...]
) -> None:
    print(
        "| data set | decoded, truth | said (95 % interval) | right, not known, wrong | files, truth | said | right, not known, wrong |"
    )
    print("|---|---|---|---|---|---|---|")
    sums = {"right": 0, "not known": 0, "wrong": 0, "false fits": 0}
    for name, make in sets.items():
        with tempfile.TemporaryDirectory(dir=scratch, prefix="truth-") as folder:
            os.chmod(folder, 0o755)  # noqa: S103 - the user's Python is not root
            to = Maker(Path(folder) / "set")
            to.folder.mkdir()
            make(to)
            found = measured(to.folder, to.truth, words)
            row = [name.strip()]
            for key, truth in (("decoded_fit", to.truth.decoded), ("page_cache", to.truth.files)):
                said = dict(found[key] or UNSEEN)  # type: ignore[call-overload]
                if key == "page_cache":
                    for part in ("needs_bytes", "low_bytes", "high_bytes"):
                        said[part] = (
                            None
                            if said[part] is None
                            else max(0, said[part] - found["inode_bytes"])
                        )
                answers = list(judged(truth, 10 * to.truth.files, said))
                counts = [
                    sum(one.startswith(what) for one in answers)
                    for what in ("right", "not known", "wrong")
                ]
                for what, count in zip(("right", "not known", "wrong"), counts, strict=True):
                    sums[what] += count
                sums["false fits"] += answers.count("wrong: false fits")
                is_told = said["needs_bytes"] or said["high_bytes"] is not None
                told = f"{size(said['needs_bytes'])} ({size(said['low_bytes'])} to {size(said['high_bytes'])})"
                told = told if is_told else "not told"
                row += [
                    size(truth),
                    told,
                    "{}, {}, {}".format(*counts)
                    + "".join(
                        f"; {one}" for one in sorted(set(answers)) if one.startswith("wrong")
                    ),
                ]
            print("| " + " | ".join(row) + " |", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sums.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="data sets whose names hold this")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--held", action="store_true", help="only those that are held back")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    words = ("--exact",) if given.exact else ()
    for title, sets in (("tuned on", SETS), ("held back", HELD)):
        chosen = {name: make for name, make in sets.items() if given.only in name}
        if chosen and not (given.held and sets is SETS):
            print(f"\n{title}:\n")
            compare(chosen, given.scratch, words)


if __name__ == "__main__":
    main()
