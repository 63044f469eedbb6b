"""Mutation run: which changes of a decision does no test notice? By hand or nightly, never in CI;
it takes a while.

`python -m tests.mutation --sample 500 --seed 7` draws mutants of all that decides and acts, `python
-m tests.mutation hosttune/engine/decide/plan.py` tries all of a module. They are mutmut's
(https://mutmut.readthedocs.io, extra `mutation`), one change each, in a copy of the project.
`tests/mutation_tries.py` collects the tests there once and forks for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst
    from mutmut.mutation.file_mutation import Mutation

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "engine",
    "actions",
    "resources",
    "choices",
    "facts/storage",
)  # how an fstab is read stands there
TEST = re.compile(r"tests/(?:unit|rules|rooted|golden)/test_[^/]+\.py")
NAMED = re.compile(
    r"hosttune[. ](?:import )?\(?(?:engine|actions|resources|choices|facts\.storage|cli)\b|wish_host|storage_host"
)
# They measure, read the sources as text, start the program or tell how it was started, or take
# minutes.
NEVER = re.compile(
    r"test_(?:(?:bench|dataset|watch|views_watch|ansible|cli)_.+|by_hand|catalogues|facts_lookups|frozen|fstab_cli|fstab_corpus"
    r"|fstab_oracles|fstab_second_corpus|image|layers|mutation_run|packaging|power_cut_harness|run_script)\.py"
)
# Nothing but the folder can be written there, and no process outside of it can be signalled: a
# mutant may act as root.
APART = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && mount -o bind,ro /proc/sys /proc/sys && mount -o remount,bind,ro /sys && cd "$0" && exec "$@"'
KILLED = "killed"


def modules() -> list[str]:
    """What can be drawn, by path."""
    found = (path for folder in FOLDERS for path in (ROOT / "hosttune" / folder).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py")


def files() -> list[str]:
    """The project's files as they lie here, those that are not committed yet too, and nothing that
    git ignores.
    """
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, timeout=60)
    return sorted(
        name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()
    )


def tests() -> list[str]:
    """The test files that mutants can meet: they name what decides or acts, or stand where
    everything is tried.
    """
    found = (
        name for name in files() if TEST.fullmatch(name) and not NEVER.fullmatch(Path(name).name)
    )
    return [
        name
        for name in found
        if "/unit/" not in name or NAMED.search((ROOT / name).read_text(encoding="utf-8"))
    ]


def copied(folder: Path) -> None:
    """The project in `folder`, and the settings without which mutmut does nothing."""
    for name in files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "setup.cfg").write_text("[mutmut]\nsource_paths = hosttune\n", encoding="utf-8")


def possible(module: str) -> tuple[cst.Module, list[Mutation]]:
    """The module of the copy that is the working directory, parsed, and each change of one thing in
    its functions.
    """
    from mutmut.mutation.file_mutation import create_mutations

    parsed, mutations, _, _ = create_mutations(module, Path(module).read_text(encoding="utf-8"))
    return parsed, [one for one in mutations if one.contained_by_top_level_function]


def count(module: str) -> int:
    return len(possible(module)[1])


def mutated(module: str, chosen: frozenset[int] | None) -> dict[str, str]:
    """Mutant -> what it changes: those `chosen` by number (None: all), which the module in the copy
    has from now on. What changes a sentence alone is left out.
    """
    from mutmut.mutation.file_mutation import combine_mutations_to_source

    parsed, mutations = possible(module)
    made = combine_mutations_to_source(
        parsed, [one for number, one in enumerate(mutations) if chosen is None or number in chosen]
    )
    Path(module).write_text(made.code, encoding="utf-8")
    lines = made.code.splitlines()

    def text(function: str) -> list[str]:
        span = made.line_span_by_function_name[function]
        body = textwrap.dedent("\n".join(lines[span.start - 1 : span.end]))
        return body.replace(function, "it").splitlines()

    dotted = module.removesuffix(".py").replace("/", ".")
    found = {}
    for name in made.mutant_names:
        before, after = text(name.rpartition("__mutmut_")[0] + "__mutmut_orig"), text(name)
        if not is_sentence(before, after):
            changed = (line for line in difflib.ndiff(before, after) if line[:2] in {"- ", "+ "})
            found[f"{dotted}.{name}"] = "\n".join(changed)
    return found


def drawn(size: int, seed: int, without: list[str], pool: Pool) -> dict[str, frozenset[int]]:
    """Module -> the numbers of its mutants in a sample of all modules but these."""
    rest = [module for module in modules() if module not in without]
    every = [
        (module, number)
        for module, total in zip(rest, pool.map(count, rest), strict=True)
        for number in range(total)
    ]
    sample = random.Random(seed).sample(every, min(size, len(every)))  # noqa: S311 - a draw
    print(f"a sample of {len(sample)} of {len(every)}, seed {seed}", flush=True)
    return {
        module: frozenset(n for one, n in sample if one == module)
        for module in dict.fromkeys(one for one, _ in sample)
    }


def is_sentence(before: list[str], after: list[str]) -> bool:
    """Whether all that differs is a string of three words and more."""
    both = [list(ast.walk(ast.parse("\n".join(lines)))) for lines in (before, after)]
    if len(both[0]) != len(both[1]):
        return False
    pairs = [(one, other) for one, other in zip(*both, strict=True) if not same(one, other)]
    return bool(pairs) and all(
        isinstance(one, ast.Constant)
        and isinstance(other, ast.Constant)
        and isinstance(one.value, str)
        and isinstance(other.value, str)
        and one.value.strip().count(" ") > 1
        for one, other in pairs
    )


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes agree, what lies below them left out."""
    return type(one) is type(other) and list(own(one)) == list(own(other))


def own(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        is_below = isinstance(value, ast.AST) or (
            isinstance(value, list) and any(isinstance(i, ast.AST) for i in value)
        )
        if not is_below:
            yield name, value


def main() -> int:
    """Exit status: 0 no mutant survived, 1 some did, 2 they could not be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "module", nargs="*", help="all mutants of these, such as hosttune/engine/decide/plan.py"
    )
    parser.add_argument("--sample", type=int, default=0, help="and so many of all other modules")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument(
        "--tests",
        nargs="+",
        help="that mutants meet (all of unit, rules, rooted and golden that name these)",
    )
    parser.add_argument(
        "--seconds", type=float, default=10, help="of tests that one mutant meets, at most (10)"
    )
    parser.add_argument("--children", type=int, default=2, help="mutants tried side by side (2)")
    parser.add_argument(
        "--out", help="the folder to work in; what an earlier run tried there stands (a new one)"
    )
    asked = parser.parse_args()
    folder = Path(asked.out or tempfile.mkdtemp(prefix="hosttune-mutation-")).resolve()
    folder.mkdir(exist_ok=True)
    met = asked.tests or tests()
    copied(folder)
    os.chdir(folder)
    os.nice(10)
    with Pool(asked.children) as pool:
        chosen = dict.fromkeys(asked.module)
        if asked.sample:
            chosen |= drawn(asked.sample, asked.seed, asked.module, pool)
        found = pool.starmap(mutated, chosen.items(), chunksize=1)
    mutants = {name: text for of in found for name, text in of.items()}
    print(f"{folder}: {len(mutants)} mutants, those of sentences left out", flush=True)
    setting = {"mutants": mutants, "children": asked.children, "seconds": asked.seconds}
    (folder / "setting.json").write_text(json.dumps(setting), encoding="utf-8")
    command = [sys.executable, "-m", "tests.mutation_tries", *met]
    if os.geteuid() == 0:
        command = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            APART,
            str(folder),
            *command,
        ]
    (folder / "scratch").mkdir(exist_ok=True)
    with (folder / "log").open("w", encoding="utf-8") as log:
        ended = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": str(folder / "scratch")},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = [
        json.loads(line) for line in (folder / "tried").read_text(encoding="utf-8").splitlines()
    ]
    became = {
        line["mutant"]: line["became"]
        for line in lines
        if mutants.get(line["mutant"]) == line["text"]
    }
    if ended.returncode or len(became) < len(mutants):
        print(
            f"{len(became)} tried, then it ended with {ended.returncode}: see {folder}/log",
            file=sys.stderr,
        )
        return 2
    print(
        f"{len(became)} mutants: "
        + ", ".join(f"{count} {word}" for word, count in Counter(became.values()).items())
    )
    left = {name: word for name, word in became.items() if word != KILLED}
    for name, word in left.items():
        print(f"{word}: {name}\n" + textwrap.indent(mutants[name], "  "))
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
