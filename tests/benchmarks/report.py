"""What a report on many hosts costs: `python -m tests.benchmarks.report [--records]`. A benchmark,
not a test.

Makes fleets of 1,000, 3,000 and 10,000 hosts in a temporary folder and runs `hosttune report FOLDER
--jobs N` on each as a process of its own. Prints the wall time, the CPU time and the peak of
resident memory of the largest process.

Results are what `check --format json` says of the built hosts of tests/hosts, under another name
and machine id for each host, some of them with other values. `--records`: records, of which each
differs from its twins in its name, its machine id, a sysctl and a line of its fstab; one in seven
has a file of tens of kilobytes that no other has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.hosts.built import BUILT

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1000, 3000, 10_000)
DAY_S = 86400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hosttune-fleet-") as folder:
        print(
            f"{'records' if asked.records else 'results'}: hosts, jobs, seconds, CPU seconds, peak MiB, MB read"
        )
        made = 0
        for size in sorted(asked.sizes):
            make = make_records if asked.records else make_results
            read = make(Path(folder), made, size)
            made = size
            for jobs in asked.jobs:
                seconds, cpu, peak = run(folder, jobs)
                print(
                    f"  {size:6} {jobs:2} {seconds:8.1f} {cpu:8.1f} {peak:6.0f} {read / 1e6:8.0f}",
                    flush=True,
                )


def run(folder: str, jobs: int) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of all its processes, MiB of the largest of them."""
    argv = [
        sys.executable,
        "-m",
        "hosttune",
        "report",
        folder,
        "--jobs",
        str(jobs),
        "--format",
        "json",
    ]
    started = time.perf_counter()
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(argv)} ended with {process.returncode}")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def make_results(folder: Path, first: int, last: int) -> int:
    """Results of check for the hosts from `first` to `last`; the bytes of all files so far."""
    argv = [sys.executable, "-m", "hosttune", "check", "--format", "json"]
    argv += [word for path in BUILT for word in ("--host", str(path))]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=False, text=True)
    hosts = json.loads(done.stdout)["hosts"]
    for number in range(first, last):
        dice = random.Random(number)  # noqa: S311 - the same fleet every time
        one = json.loads(json.dumps(hosts[number % len(hosts)]))
        name = f"gpu-{number:05}"
        one.update(host=name, machine=f"{number:016x}", created_at=_iso(number))
        for finding in one["findings"]:
            if finding["rule"] == "storage-tmp-tmpfs" and finding["evidence"]:
                finding["evidence"][0] = f"now on ext4, {dice.randrange(500)} GiB in it"
        if dice.random() < 0.02:
            one["inventory"]["settings"]["kernel"] = "6.8.0-49-generic"
        if dice.random() < 0.01:
            one["inventory"]["settings"]["GPUs"] = "7"
        (folder / f"{name}.json").write_text(
            json.dumps({"format_version": 1, "hosts": [one]}), encoding="utf-8"
        )
    return sum(path.stat().st_size for path in folder.iterdir())


def make_records(folder: Path, first: int, last: int) -> int:
    """Records for the hosts from `first` to `last`; the bytes of all files so far."""
    texts = [path.read_text(encoding="utf-8") for path in BUILT]
    for number in range(first, last):
        dice = random.Random(number)  # noqa: S311 - the same fleet every time
        data = json.loads(texts[number % len(texts)])
        data.update(name=f"gpu-{number:05}", machine=f"{number:016x}")
        files = data["files"]
        files["/proc/sys/vm/swappiness"] = f"{dice.choice((60, 60, 60, 10, 1))}\n"
        if isinstance(files.get("/etc/fstab"), str):
            files["/etc/fstab"] += f"# rack {dice.randrange(400)}, slot {number}\n"
        if number % 7 == 0 and isinstance(files.get("/var/lib/dpkg/status"), str):
            extra = "".join(
                f"\nPackage: own-{number}-{one}\nStatus: install ok installed\nVersion: 1\n"
                for one in range(500)
            )
            files["/var/lib/dpkg/status"] += extra
        (folder / f"gpu-{number:05}.json").write_text(json.dumps(data), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.iterdir())


def _iso(number: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(1_780_000_000 + number % DAY_S))


if __name__ == "__main__":
    main()
