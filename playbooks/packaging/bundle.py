"""What the self-contained file and the .deb carry: the package and its dependencies, in pure
Python.

So one file serves every machine and every Python from 3.10 on. Left out: compiled parts that only
save time (PyYAML, MarkupSafe), rich, which typer takes where it lies but hosttune switches off, and
psutil, whose fields `host/processes/proc.py` reads by itself where it is missing. The dependencies
are those of lock.txt, to the byte (locked.py).
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from carried import LEFT_OUT, Carried, Trouble
from locked import dependencies

__all__ = [
    "ROOT",
    "Carried",
    "Trouble",
    "committed",
    "dependencies",
    "from_tree",
    "package",
    "source_date",
    "version",
]
ROOT = Path(__file__).resolve().parents[2]
_COMPILED = re.compile(r"(rules|profiles)/.*\.(yaml|json)$")  # all of it is in the catalogue
_EARLIEST = 315532800  # 1980-01-01: a zip archive holds nothing older


def source_date(otherwise: int = _EARLIEST) -> int:
    """Seconds since 1970 that every file of an artefact bears: SOURCE_DATE_EPOCH, where that is
    set.

    reproducible-builds.org/specs/source-date-epoch.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given and not given.isdecimal():
        raise Trouble(f"SOURCE_DATE_EPOCH is no number of seconds: {given}")
    return max(int(given or otherwise), _EARLIEST)


def committed(root: Path = ROOT) -> int:
    """When the last commit was made; without git, when the newest file of the package was."""
    words = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        done = None
    if done is not None and done.stdout.strip().isdecimal():
        return int(done.stdout)
    return int(max(path.stat().st_mtime for path in (root / "hosttune").rglob("*.py")))


def zip_date() -> tuple[int, int, int, int, int, int]:
    return time.gmtime(source_date())[:6]


def package(root: Path = ROOT) -> dict[str, bytes]:
    """The package with its templates, the compiled catalogue and the list of resources, by the
    place of each file.
    """
    found = {}
    for folder, place in (
        (root / "hosttune", "hosttune"),
        (root / "templates", "hosttune/templates"),
    ):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not LEFT_OUT.search(name) and not _COMPILED.match(name):
                found[f"{place}/{name}"] = path.read_bytes()
    compiled = from_tree("hosttune.engine.rules.compiled", root)
    found["hosttune/rules/catalog.json"] = compiled.compile_catalog(root).encode()
    resources = from_tree("hosttune.resources", root)
    names = resources.module_names(str(root / "hosttune" / "resources"))
    found[f"hosttune/{resources.LIST}"] = "\n".join(names).encode()
    return found


def from_tree(module: str, root: Path = ROOT) -> Any:
    """Import a module of the tree at `root`, whatever else is installed."""
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(root))


def version(root: Path = ROOT) -> str:
    return str(from_tree("hosttune", root).__version__)
