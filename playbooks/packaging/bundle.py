"""What the self-contained file and the .deb carry: the package and its dependencies, in pure Python.

So one file serves every machine and every Python from 3.10 on. Left out: compiled parts that only save time (PyYAML,
MarkupSafe), rich, which typer takes where it lies but hosttune switches off, and psutil, whose fields `host/proc.py`
reads by itself where it is missing. The dependencies are taken as they are installed for the Python that runs this.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOT_CARRIED = frozenset({"rich", "psutil"})
# What an installation brings and a run never opens.
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|\.\.|tests)(/|$)|\.(pyc|pyi|pyx|pxd|h|c|so|typed)$|dist-info/(?!licenses/|LICEN[CS]E|COPYING)|(^|/)_yaml/"
    r"|^example\.py$"  # nvidia-ml-py puts one beside its module
)
# nvidia-ml-py has no file of its licence, but tells it where it describes itself.
_LICENCE_IN_DESCRIPTION = re.compile(r"^COPYRIGHT\n.*?^LICENSE\n.*", re.MULTILINE | re.DOTALL)
_COMPILED = re.compile(r"(rules|profiles)/.*\.(yaml|json)$")  # all of it is in the catalogue
_EARLIEST = 315532800  # 1980-01-01: a zip archive holds nothing older


class Trouble(Exception):
    """What a person has to do before this can be built."""


@dataclass(frozen=True)
class Carried:
    """A dependency: the name and version of its distribution, its files by their place, its licence texts."""

    name: str
    version: str
    files: dict[str, bytes]
    licences: dict[str, bytes]
    licence: str


def source_date(otherwise: int = _EARLIEST) -> int:
    """Seconds since 1970 that every file of an artefact bears: SOURCE_DATE_EPOCH, where that is set.

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
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        done = None
    if done is not None and done.stdout.strip().isdecimal():
        return int(done.stdout)
    return int(max(path.stat().st_mtime for path in (root / "hosttune").rglob("*.py")))


def zip_date() -> tuple[int, int, int, int, int, int]:
    return time.gmtime(source_date())[:6]


def package(root: Path = ROOT) -> dict[str, bytes]:
    """The package with its templates and the compiled catalogue, by the place of each file."""
    found = {}
    for folder, place in ((root / "hosttune", "hosttune"), (root / "templates", "hosttune/templates")):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not _LEFT_OUT.search(name) and not _COMPILED.match(name):
                found[f"{place}/{name}"] = path.read_bytes()
    compiled = from_tree("hosttune.engine.compiled", root)
    found["hosttune/rules/catalog.json"] = compiled.compile_catalog(root).encode()
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


def dependencies(root: Path = ROOT) -> list[Carried]:
    """What the project needs, and what that needs, in the order of the names."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    if block is None:
        raise Trouble("pyproject.toml has no list of dependencies")
    waiting = re.findall(r'^\s*"([A-Za-z0-9._-]+)', block[1], re.MULTILINE)
    found: dict[str, Carried] = {}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name in NOT_CARRIED:
            continue
        distribution = _distribution(name)
        found[name] = _carried(name, distribution)
        waiting += list(_needs(distribution))
    return [found[name] for name in sorted(found)]


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise Trouble(
            f"{name} is not installed for {sys.executable}: type ./run --version, then take .venv/bin/python"
        ) from None


def _needs(distribution: metadata.Distribution) -> Iterator[str]:
    """Names of what it needs on Linux, whatever the version of Python."""
    for need in distribution.requires or ():
        if not re.search(r"extra ==|sys_platform == .win|platform_system == .Windows", need):
            yield re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]


def _carried(name: str, distribution: metadata.Distribution) -> Carried:
    files, licences = {}, {}
    for path in distribution.files or ():
        place = path.as_posix()
        if _LEFT_OUT.search(place):
            continue
        content = Path(path.locate()).read_bytes()
        if ".dist-info/" in place:
            licences[place.rpartition("/")[2]] = content
        elif "/" in place or place.endswith(".py"):
            files[place] = content
    if not files:
        raise Trouble(f"{name} is not installed as files for {sys.executable}")
    about = distribution.metadata
    if not licences and (told := _LICENCE_IN_DESCRIPTION.search(str(about.json.get("description", "")))):
        licences["LICENSE"] = told[0].encode()
    return Carried(name, distribution.version, files, licences, about["License-Expression"] or about["License"] or "")
