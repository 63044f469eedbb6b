"""How long a check takes, as whole processes: `python tests/benchmarks/startup.py [--rounds N]`. A
benchmark, not a test.

Installs this checkout's wheel into a scratch environment (as a user has it: with the compiled
catalogue), then runs, interleaved, `python -c pass`, a bare typer command, `hosttune check`, and,
where they are installed, `ansible localhost -m setup` and `lynis audit system --quick`. Prints, of
the seconds on the clock and of the processor's (user and system, with all children), the median and
the best. `--python P`: with this Python, which has hosttune, instead of a new wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = 18  # as many as check has
BARE = f"""\
from typing import Annotated, Optional
import typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
@app.command()
def main({", ".join(f"o{n}: Annotated[Optional[str], typer.Option('--o{n}', help='An option.')] = None" for n in range(OPTIONS))}) -> None:
    print("one line")
app()
"""


def install(folder: Path) -> Path:
    """An environment with the wheel and its dependencies; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, timeout=600)
    return python


def once(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of one process, on the clock and of the processor."""
    started = time.perf_counter()
    # cwd: `-m hosttune` in the checkout would run the checkout, which has no compiled catalogue
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        argv, stdout=nowhere, stderr=nowhere, env=environment, cwd="/"
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python")
    asked = parser.parse_args()
    rounds = asked.rounds
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as scratch:
        python = asked.python or str(install(Path(scratch) / "venv"))
        bare = Path(scratch) / "bare.py"
        bare.write_text(BARE, encoding="utf-8")
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "a bare typer command": [python, str(bare)],
            "hosttune --version": [python, "-m", "hosttune", "--version"],
            "hosttune check": [python, "-m", "hosttune", "check"],
        }
        ansible = shutil.which("ansible")
        if ansible:
            commands["ansible localhost -m setup"] = [ansible, "localhost", "-m", "setup"]
        lynis = shutil.which("lynis")
        if lynis:
            commands["lynis audit system --quick"] = [
                lynis,
                "audit",
                "system",
                "--quick",
                "--quiet",
                "--no-colors",
            ]
        environment = {
            **os.environ,
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        }
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, argv in commands.items():
                one = once(argv, environment)
                if number:  # the first round warms the caches
                    took[name].append(one)
        print(f"ms, {rounds} rounds{'':17} clock: median   best   processor: median   best")
        best = {name: min(cpu for _, cpu in seconds) for name, seconds in took.items()}
        for name, seconds in took.items():
            clock, cpu = ([1000 * one[kind] for one in seconds] for kind in (0, 1))
            print(
                f"{name:30} {statistics.median(clock):14.0f} {min(clock):6.0f} {statistics.median(cpu):19.0f} {min(cpu):6.0f}"
            )
        check = best["hosttune check"]
        print(
            f"check takes {check / best['a bare typer command']:.1f} times the processor's time of a bare typer command"
        )
        for name in ("ansible localhost -m setup", "lynis audit system --quick"):
            if name in best:
                print(f"{name} takes {best[name] / check:.1f} times that of check")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
