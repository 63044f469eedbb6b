"""What `hosttune health` costs a host that works: `python -m tests.benchmarks.health [--rounds N]
[--nhc FOLDER]`. A benchmark, not a test.

Installs this checkout's wheel into a scratch environment (as a user has it: with the compiled
catalogue), then runs, interleaved, `python -c pass`, `hosttune health` on this machine, the same on
records of hosts with eight GPUs (which are read first, and that is told apart), and with --nhc
LBNL's Node Health Check from a checkout of it, with a configuration of its generic checks that hold
on this machine. Prints the processor's seconds of each, its programs included: the best, and the
median.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.startup import install
from tests.hosts.kinds import machine_of

HOSTS = ("dgx_h100", "aws_p5", "gcp_a3", "azure_nd_h100")
READ = "import sys; from hosttune.host.record.record import read_record; read_record(sys.argv[1])"
# What NHC brings that asks any machine: processors, memory, mounts and their room, processes, the
# network.
NHC = """\
* || export MARK_OFFLINE=0
* || check_hw_cpuinfo {sockets} {cores} {cores}
* || check_hw_physmem 1gb 10tb
* || check_hw_physmem_free 1mb
* || check_hw_mem_free 1mb
* || check_hw_eth lo
* || check_fs_mount_rw -f /
* || check_fs_free / 1%
* || check_fs_ifree / 1%
* || check_file_test -r -w -x -d -k /tmp
* || check_file_test -c -r -w /dev/null
* || check_ps_loadavg 500
* || check_ps_unauth_users syslog
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--nhc", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as scratch:
        folder = Path(scratch)
        python = str(install(folder / "venv"))
        health = [python, "-m", "hosttune", "health"]
        commands = {"python -c pass": [python, "-c", "pass"], "hosttune health": health}
        for name in HOSTS:
            path = folder / f"{name}.json"
            path.write_text(json.dumps(machine_of(name).record()), encoding="utf-8")
            commands[f"  its record read, {name}"] = [python, "-c", READ, str(path)]
            commands[f"hosttune health, {name}"] = [*health, "--host", str(path)]
        if given.nhc:
            commands["NHC"] = _nhc(given.nhc, folder)
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(given.rounds + 1):
            for name, argv in commands.items():
                took = _processor_seconds(argv)
                if number:  # the first round warms the caches
                    seconds[name].append(took)
        for name, found in seconds.items():
            print(
                f"{name:36} {1000 * min(found):6.0f} ms at best, {1000 * statistics.median(found):6.0f} ms median"
            )


def _nhc(checkout: Path, folder: Path) -> list[str]:
    """NHC with its own checks alone, from a checkout: nothing of it is installed."""
    cores = os.cpu_count() or 1
    conf = folder / "nhc.conf"
    conf.write_text(NHC.format(sockets=_sockets(), cores=cores), encoding="utf-8")
    words = {
        "CONFFILE": conf,
        "INCDIR": checkout / "scripts",
        "HELPERDIR": checkout / "helpers",
        "LOGFILE": folder / "nhc.log",
    }
    argv = ["bash", str(checkout / "nhc"), *(f"{key}={value}" for key, value in words.items())]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd="/")
    if (
        done.returncode != 0
    ):  # it stops at the first check that fails, and would seem the cheaper for it
        sys.exit(f"NHC: {done.stdout}{done.stderr}")
    return argv


def _sockets() -> int:
    packages = {
        path.read_text().strip()
        for path in Path("/sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
    }
    return max(1, len(packages))


def _processor_seconds(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    nowhere = subprocess.DEVNULL
    # cwd: `-m hosttune` in the checkout would run the checkout, which has no compiled catalogue
    subprocess.run(argv, check=False, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
