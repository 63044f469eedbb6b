"""Writes lock.txt anew: `python playbooks/packaging/lock.py`, by the Python of an environment that has what
pyproject.toml asks for (`./run --version` makes .venv). The versions are those that are installed there.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
from carried import Trouble, canonical, carried, needs
from locked import LOCK, Pin, pip

ROOT = Path(__file__).resolve().parents[2]
# Only save time (psutil), or are switched off (rich, which typer asks for).
NOT_CARRIED = frozenset({"rich", "psutil"})
HEAD = """\
# The packages that hosttune.pyz and the .deb carry: version, sha256 of the wheel, sha256 of what is taken of it.
# Written by: python playbooks/packaging/lock.py
"""


def names(root: Path = ROOT) -> list[str]:
    """What the project needs, and what that needs, without what is not carried."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    if block is None:
        raise Trouble("pyproject.toml has no list of dependencies")
    waiting = [canonical(name) for name in re.findall(r'^\s*"([A-Za-z0-9._-]+)', block[1], re.MULTILINE)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name not in NOT_CARRIED:
            found.add(name)
            waiting += needs(_distribution(name))
    return sorted(found)


def pinned(name: str) -> Pin:
    """A package as it is installed, and its wheel as the index has it."""
    distribution = _distribution(name)
    with tempfile.TemporaryDirectory(prefix="hosttune-lock-") as scratch:
        asked = f"{name}=={distribution.version}"
        pip("download", "--dest", scratch, asked, what=asked)
        (wheel,) = Path(scratch).iterdir()
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Pin(name, distribution.version, digest, carried(name, distribution).digest())


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise Trouble(
            f"{name} is not installed for {sys.executable}: type ./run --version, then take .venv/bin/python"
        ) from None


def main() -> int:
    try:
        LOCK.write_text(HEAD + "".join(f"{pinned(name)}\n" for name in names()), encoding="utf-8")
    except (Trouble, OSError) as error:
        print(f"lock.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
