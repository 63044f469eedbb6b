"""What one look at the GPUs costs us: `python tests/benchmarks/gpu_looks.py [--gpus 8] [--looks
2000]`. A benchmark, not a test.

Without a GPU: nvidia-ml-py calls the library of tests/gpu/fake_nvml.c, and nvidia-smi is a program
that prints rows. So what is measured is our side, bindings and parser included, and not what a
driver takes to answer. CPU time of the process, all its threads, the best of five rounds; for the
reader of nvidia-smi that of our process alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
SMI = """\
import sys, time
if not any("--query-gpu=" in word for word in sys.argv): sys.exit()
fields = next(word for word in sys.argv if word.startswith("--query-gpu=")).partition("=")[2].split(",")
values = {"uuid": "GPU-12345678-1234-1234-1234-123456789012", "pci.bus_id": "00000000:1B:00.0", "utilization.gpu": "97",
    "memory.used": "61440", "memory.total": "81559", "power.draw": "412.50", "enforced.power.limit": "700.00",
    "clocks.sm": "1755", "clocks_event_reasons.active": "0x0000000000000004", "mig.mode.current": "Disabled",
    "name": "NVIDIA H100 80GB HBM3"}
print(", ".join(fields), flush=True)
while True:
    print("\\n".join(", ".join({**values, "index": str(number)}[name] for name in fields) for number in range(GPUS)), flush=True)
    time.sleep(0.002)
"""


def best(look: Callable[[], object], looks: int) -> float:
    """Microseconds of CPU time for one look."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(looks):
            look()
        found.append((time.process_time() - start) / looks * 1e6)
    return min(found)


def nvml(looks: int, gpus: int) -> None:
    """In a process of its own, which finds the library that main() has built."""
    start = time.process_time()
    from hosttune.measure.gpu.nvml import NvmlSampler

    sampler = NvmlSampler()
    opened = (time.process_time() - start) * 1e3
    cost = best(sampler.read, looks)
    print(
        f"nvidia-ml-py: {cost:.0f} us for a look at {gpus} GPUs ({cost / gpus:.0f} us each), {opened:.0f} ms to open"
    )
    sampler.close()


def smi(folder: Path, looks: int, gpus: int) -> None:
    """Each look takes one round of rows, as with one look a second."""
    from hosttune.measure.gpu.smi import SmiSampler

    program = folder / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable} -IS\n{SMI.replace('GPUS', str(gpus))}", encoding="utf-8"
    )
    program.chmod(0o755)
    sampler = SmiSampler(str(program))

    def look() -> None:
        assert sampler._child is not None
        sampler._child.wait(1)
        sampler.read()

    cost = best(look, looks)
    print(
        f"nvidia-smi: {cost:.0f} us for a look at {gpus} GPUs ({cost / gpus:.0f} us each), without nvidia-smi's own"
    )
    sampler.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--looks", type=int, default=2000)
    parser.add_argument("--nvml", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.nvml:
        nvml(given.looks, given.gpus)
        return
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as name:
        folder = Path(name)
        library, trace = folder / "libnvidia-ml.so.1", folder / "trace"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-o", library, ROOT / "tests/gpu/fake_nvml.c"],
            check=True,
        )
        devices = [
            f"gpu {number} GPU-{number} NVIDIA H100 80GB HBM3" for number in range(given.gpus)
        ]
        rows = [
            f"at 0 {number} 97 61440 81559 412.5 700 1755 0x4 4242,4243"
            for number in range(given.gpus)
        ]
        trace.write_text("\n".join([*devices, *rows]), encoding="utf-8")
        settings = {"LD_LIBRARY_PATH": name, "FAKE_NVML_TRACE": str(trace), "PYTHONPATH": str(ROOT)}
        words = [
            sys.executable,
            __file__,
            "--nvml",
            "--gpus",
            str(given.gpus),
            "--looks",
            str(given.looks),
        ]
        subprocess.run(words, check=True, env={**os.environ, **settings})
        smi(folder, given.looks, given.gpus)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
