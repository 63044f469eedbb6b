"""How long a check takes, as whole processes: `python tests/benchmarks/startup.py [--rounds N]`. A benchmark, not a
test.

Installs this checkout's wheel into a scratch environment (as a user has it: with the compiled catalogue), then runs,
interleaved, `python -c pass`, a bare typer command, `hosttune check`, and, where they are installed, `ansible localhost
-m setup` and `lynis audit system --quick`. Prints medians.
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
BARE = """\
import typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
@app.command()
def main(name: str = "x") -> None:
    print(name)
app()
"""


def install(folder: Path) -> Path:
    """An environment with the wheel and its dependencies; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, timeout=600)
    return python


def once(argv: list[str], environment: dict[str, str]) -> float:
    """Seconds of one process. Without a timeout, because with one subprocess polls in steps of up to 50 ms."""
    started = time.perf_counter()
    # cwd: `-m hosttune` in the checkout would run the checkout, which has no compiled catalogue
    nowhere = subprocess.DEVNULL
    subprocess.run(argv, check=False, stdout=nowhere, stderr=nowhere, env=environment, cwd="/")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="hosttune-bench-") as scratch:
        python = str(install(Path(scratch) / "venv"))
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
            commands["lynis audit system --quick"] = [lynis, "audit", "system", "--quick", "--quiet", "--no-colors"]
        environment = {
            **os.environ,
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, argv in commands.items():
                took = once(argv, environment)
                if number:  # the first round warms the caches
                    seconds[name].append(took)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        for name, median in medians.items():
            spread = f"{min(seconds[name]) * 1000:.0f}-{max(seconds[name]) * 1000:.0f}"
            print(f"{name:30} {median * 1000:7.0f} ms   ({spread}, {rounds} rounds)")
        check = medians["hosttune check"]
        print(f"check is {check / medians['a bare typer command']:.1f} times a bare typer command")
        if ansible:
            print(f"check is {medians['ansible localhost -m setup'] / check:.1f} times faster than ansible's fact run")
        if lynis:
            print(f"check is {medians['lynis audit system --quick'] / check:.1f} times faster than lynis")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
