"""Runs `hosttune watch` as its command line does, with a GPU whose utilization is what the watched
job's consumer did.

`python -m tests.live.watch_driver BUSY_FILE GPU_WATTS REPORT RECORD -- CMD...`
"""

from __future__ import annotations

import struct
import sys
import time

from hosttune.cli import app
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch import session


class Consumer:
    """GPU 0 as the consumer's busy time shows it. `watts` at full use, of 300; 60 at rest."""

    source = "replay"
    reason = ""

    def __init__(self, path: str, watts: float) -> None:
        self._path = path
        self._watts = watts
        self._was = (time.monotonic(), 0.0)

    def read(self) -> tuple[GpuSample, ...]:
        with open(self._path, "rb") as file:
            now = (time.monotonic(), *struct.unpack("d", file.read(8)))
        share = min(1.0, max(0.0, (now[1] - self._was[1]) / (now[0] - self._was[0])))
        self._was = now
        power = 60 + share * (self._watts - 60)
        return (
            GpuSample(
                0,
                "GPU-consumer",
                "consumer",
                100 * share,
                1 << 30,
                80 << 30,
                power,
                300.0,
                1400,
                (),
                None,
            ),
        )

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    busy, watts, report, record, *rest = sys.argv[1:]
    session.open_sampler = lambda wanted=(): Consumer(busy, float(watts))
    words = [
        "watch",
        "--no-live",
        "--hz",
        "2",
        "--warm-up",
        "1",
        "--gpus",
        "0",
        "--format",
        "json",
        "--output",
        report,
        "--record",
        record,
    ]
    sys.exit(app.run([*words, *rest]))


if __name__ == "__main__":
    main()
