"""Mutation run: which changes of a decision does no test notice? By hand or nightly, never in CI; it takes a while.

`python -m tests.mutation --seed 7` draws modules of what decides and acts, copies the project to a folder of its own,
and lets mutmut (https://mutmut.readthedocs.io, extra `mutation`) change one thing at a time there. Each mutant meets
the tests of its function among the files that name its module: a selection that makes the run feasible and no
verdict, so what survives is tried again on the rings that reach it, by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("engine", "actions", "resources", "choices")
TEST = re.compile(r"tests/(?:unit|rules|rooted)/test_[^/]+\.py")
ALWAYS = ("tests/rules/test_life.py",)  # a rule's life reaches most of what decides, in seconds
# They read the sources as text, start the program or tell how it was started, or take minutes.
NEVER = re.compile(
    r"test_(?:by_hand|cli|cli_.+|facts_lookups|frozen|fstab_cli|fstab_corpus|fstab_oracles|fstab_second_corpus|image|layers"
    r"|packaging|properties|run_script)\.py"
)
KILLED, SURVIVED, UNTESTED, SLOW = "killed", "survived", "met by no test", "timed out"
WORDS = {
    0: SURVIVED,
    1: KILLED,
    3: KILLED,
    5: UNTESTED,
    33: UNTESTED,
    -24: SLOW,
    24: SLOW,
    36: SLOW,
    152: SLOW,
    255: SLOW,
}


def modules() -> list[str]:
    """What can be drawn, by path."""
    found = (path for folder in FOLDERS for path in (ROOT / "hosttune" / folder).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py")


def files() -> list[str]:
    """The project's files as they lie here, those that are not committed yet too, and nothing that git ignores."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, timeout=60)
    return sorted(name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file())


def tests_of(drawn: list[str]) -> list[str]:
    """The test files that name one of these modules in an import, or their first word in their own name."""
    dotted = tuple(path.removesuffix(".py").replace("/", ".") for path in drawn)
    words = tuple(Path(path).stem.partition("_")[0] for path in drawn)
    found = set(ALWAYS)
    for path in (ROOT / name for name in files() if TEST.fullmatch(name)):
        is_of = any(f"_{word}" in path.name for word in words)
        if not NEVER.fullmatch(path.name) and (
            is_of or any(name in path.read_text(encoding="utf-8") for name in dotted)
        ):
            found.add(str(path.relative_to(ROOT)))
    return sorted(found)


def copied(folder: Path, drawn: list[str]) -> None:
    """The project in `folder`, with mutmut's settings for these modules."""
    here = files()
    for name in here:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    several = {
        "source_paths": ["hosttune"],
        "only_mutate": drawn,
        "also_copy": sorted({name.split("/")[0] for name in here} - {"hosttune"}),
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": tests_of(drawn),
    }
    lines = [f"{key} =\n" + "".join(f"    {value}\n" for value in values) for key, values in several.items()]
    settings = (
        "[mutmut]\n"
        + "".join(lines)
        + "track_dependencies = false\ntimeout_multiplier = 15.0\ntimeout_constant = 5.0\n"
    )
    (folder / "setup.cfg").write_text(settings, encoding="utf-8")


def results(folder: Path) -> dict[str, str]:
    """Mutant -> what became of it, of those that were tried."""
    found = {}
    for path in sorted((folder / "mutants").rglob("*.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {name: WORDS.get(code, f"exit status {code}") for name, code in codes.items() if code is not None}
    return found


def main() -> int:
    """Exit status: 0 no mutant survived, 1 some did, 2 mutmut did not run."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("module", nargs="*", help="these instead of drawn ones, such as hosttune/engine/plan.py")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--modules", type=int, default=6, help="how many are drawn (6)")
    parser.add_argument("--children", type=int, default=2, help="mutants tried side by side (2)")
    parser.add_argument("--out", help="the folder to work in; an earlier run there goes on (a new one)")
    asked = parser.parse_args()
    drawn = sorted(asked.module or random.Random(asked.seed).sample(modules(), asked.modules))  # noqa: S311 - a draw
    folder = Path(asked.out or tempfile.mkdtemp(prefix="hosttune-mutation-"))
    copied(folder, drawn)
    print(f"{folder}: {', '.join(drawn)}; tests: {', '.join(tests_of(drawn))}", flush=True)
    os.nice(10)
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(asked.children)]
    with (folder / "mutmut.log").open("w", encoding="utf-8") as log:
        ended = subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=False)
    found = results(folder)
    if ended.returncode or not found:
        print(f"mutmut ended with {ended.returncode}: see {folder}/mutmut.log", file=sys.stderr)
        return 2
    print(f"{len(found)} mutants: " + ", ".join(f"{count} {word}" for word, count in Counter(found.values()).items()))
    left = [name for name, word in found.items() if word != KILLED]
    for name in left:
        shown = subprocess.run(
            [sys.executable, "-m", "mutmut", "show", name], cwd=folder, check=False, capture_output=True, text=True
        )
        changed = [line for line in shown.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        print(f"{found[name]}: {name}\n" + "\n".join(f"  {line}" for line in changed))
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
