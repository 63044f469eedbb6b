"""The dependencies that are carried, as lock.txt pins them: by version, by the hash of their wheel and by the digest
of what is taken of it. So an artefact is the same on every machine, whatever is installed there.

What is installed for the Python that runs this is taken where it is exactly that; else pip fetches the wheel. lock.txt
is a requirements file of pip; `python playbooks/packaging/lock.py` writes it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from carried import Carried, Trouble, carried

LOCK = Path(__file__).resolve().with_name("lock.txt")
FETCH_S = 300
# One wheel of each, whatever Python asks: of PyYAML and MarkupSafe the Python files are the same in all of them.
WHEEL = ("--python-version", "3.11", "--implementation", "cp", "--platform", "manylinux2014_x86_64")
_LINE = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:([0-9a-f]{64}) # carried ([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A line of the lock. `wheel` and `content` are sha256 digests: of the wheel, and of what is taken of it."""

    name: str
    version: str
    wheel: str
    content: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.wheel} # carried {self.content}"


def pins() -> list[Pin]:
    """The lines of the lock, in the order of the names."""
    lines = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise Trouble(f"{LOCK}: this is no line of the lock: {line}")
        found.append(Pin(*match.groups()))
    return found


@cache
def dependencies() -> tuple[Carried, ...]:
    """What is carried, in the order of the names."""
    wanted = pins()
    found = {pin.name: one for pin in wanted if (one := _installed(pin)) is not None}
    missing = [pin for pin in wanted if pin.name not in found]
    if missing:
        found |= {one.name: one for one in _fetched(missing)}
    return tuple(found[pin.name] for pin in wanted)


def _installed(pin: Pin) -> Carried | None:
    """The distribution as it is installed here, where that is what the lock says."""
    try:
        distribution = metadata.distribution(pin.name)
        one = carried(pin.name, distribution) if distribution.version == pin.version else None
    except (metadata.PackageNotFoundError, OSError, Trouble):
        return None
    return one if one is not None and one.digest() == pin.content else None


def _fetched(missing: list[Pin]) -> Iterator[Carried]:
    with tempfile.TemporaryDirectory(prefix="hosttune-locked-") as scratch:
        wanted, folder = Path(scratch) / "lock.txt", Path(scratch) / "packages"
        wanted.write_text("".join(f"{pin}\n" for pin in missing), encoding="utf-8")
        names = " ".join(f"{pin.name}=={pin.version}" for pin in missing)
        pip("install", "--target", str(folder), "--require-hashes", "--requirement", str(wanted), what=names)
        for pin in missing:
            (distribution,) = metadata.distributions(name=pin.name, path=[str(folder)])
            one = carried(pin.name, distribution)
            if one.digest() != pin.content:
                raise Trouble(f"{pin.name} {pin.version} does not hold what {LOCK} says: write it anew with lock.py")
            yield one


def pip(command: str, *words: str, what: str) -> None:
    """Run pip for exactly the wheels that the lock knows. `what` is told when it fails."""
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", *WHEEL)
    done = subprocess.run(
        (sys.executable, "-I", "-m", "pip", command, *options, *words),
        check=False,
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise Trouble(f"{what}: neither installed as {LOCK.name} pins it nor to be had by pip: {said}")
