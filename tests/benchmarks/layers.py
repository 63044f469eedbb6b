"""How large the package is, how its layers hang together, and what a look at a host costs:
`python -m tests.benchmarks.layers [--rounds N]`. A benchmark, not a test.

Prints one row for each figure: lines and tokens of all modules (tokens without comments, docstrings
and layout), modules, functions, address kinds, modules that import each other in a circle with the
imports for types counted, the questions that rules ask of the recorded hosts one by one, and the
processor time of a check of all rules on each host.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.record.record import read_record
from hosttune.resources import address_kinds
from tests.hosts.built import BUILT
from tests.hosts.looks import looks_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hosttune"
RULE = "memory-swappiness"  # one that needs little of a host
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def tokens_in(source: str) -> int:
    """The tokens that do something: no comments, no layout, no docstrings."""
    found = [
        one
        for one in tokenize.generate_tokens(io.StringIO(source).readline)
        if one.type not in _LAYOUT
    ]
    return len(found) - sum(
        ast.get_docstring(node) is not None
        for node in ast.walk(ast.parse(source))
        if _has_text(node)
    )


def _has_text(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(tree: ast.AST, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules of the package that a module names in its imports, those for types included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in below)


def trees() -> dict[str, ast.Module]:
    """Every module of the package by its name, parsed."""
    return {
        name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")
    }


def imported_by(modules: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Module -> the others that it imports, those for types included."""
    return {name: set(imports_in(tree, modules)) - {name} for name, tree in modules.items()}


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The largest sets of modules of which each leads to each, the longest first; none for a graph
    without circles.
    """
    reached = {name: _reached(graph, name) for name in graph}
    found: list[set[str]] = []
    for name, others in reached.items():
        if name in others and not any(name in one for one in found):
            found.append({other for other in others if name in reached[other]})
    return sorted(found, key=len, reverse=True)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(graph[name])
    return seen


def shape() -> Iterator[tuple[str, str]]:
    """What the sources alone tell."""
    sources = {name_of(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    parsed = trees()
    functions = sum(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for tree in parsed.values()
        for node in ast.walk(tree)
    )
    rounds = circles(imported_by(parsed))
    across = [one for one in rounds if len({name.split(".")[1] for name in one if "." in name}) > 1]
    yield "lines", str(sum(source.count("\n") for source in sources.values()))
    yield "tokens", str(sum(map(tokens_in, sources.values())))
    yield "modules", str(len(sources))
    yield "functions", str(functions)
    yield "address kinds", str(len(address_kinds()))
    yield (
        "modules in circles of imports and types",
        " + ".join(str(len(one)) for one in rounds) or "none",
    )
    yield "of them across packages", " + ".join(str(len(one)) for one in across) or "none"


def looks() -> Iterator[tuple[str, str]]:
    """The questions that a rule asks of a host when it alone is looked at."""
    catalog = builtin_catalog()
    of_hosts = {path.stem: read_record(str(path)) for path in BUILT}
    for name, reader in of_hosts.items():
        yield f"looks of {RULE}, {name}", str(looks_of(RULE, reader, catalog).total())
    totals = {
        rule: sum(looks_of(rule, one, catalog).total() for one in of_hosts.values())
        for rule in catalog.rules
    }
    most = max(totals, key=totals.__getitem__)
    yield "looks of all rules, one by one, all hosts", str(sum(totals.values()))
    yield f"the most, {most}", str(totals[most])


def costs(rounds: int) -> Iterator[tuple[str, str]]:
    """Processor time of a plan with its proof, all rules of all profiles; the best of the
    rounds.
    """
    catalog = builtin_catalog()
    policy = Policy(select=tuple(catalog.rules))
    best: dict[str, float] = {}
    for _ in range(rounds):
        for path in BUILT:
            reader = read_record(str(path))
            started = time.process_time()
            examine(reader, catalog, policy).plan()
            best[path.stem] = min(best.get(path.stem, 1e9), time.process_time() - started)
    for name, seconds in best.items():
        yield f"plan of all rules with proof, {name}", f"{seconds * 1000:.1f} ms CPU"
    yield "plan of all rules with proof, all hosts", f"{sum(best.values()) * 1000:.1f} ms CPU"


def start_up(rounds: int) -> Iterator[tuple[str, str]]:
    """Processor time of a whole process that imports what a check of this machine imports."""
    import resource

    took = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        argv = [
            sys.executable,
            "-m",
            "hosttune",
            "check",
            "--host",
            str(BUILT[0]),
            "--format",
            "json",
        ]
        subprocess.run(
            argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    yield "check of a record, whole process", f"{min(took) * 1000:.0f} ms CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for rows in (shape(), looks(), costs(rounds), start_up(rounds)):
        for name, value in rows:
            print(f"{name:60} {value}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
