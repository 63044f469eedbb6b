"""lock.txt: what ./run installs, and the dependencies that are carried, by version and by the
hashes of their wheels, or of their source archive (SOURCES). Of what is carried it has the digest,
too. So an artefact is the same on every machine, whatever is installed there.

What is installed for the Python that runs this is taken where it is exactly that; else pip fetches
the wheel. lock.txt is a requirements file of pip; `python playbooks/packaging/lock.py` writes it,
and ./run reads it up to TESTS.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path

from carried import Carried, Trouble, carried

LOCK = Path(__file__).resolve().with_name("lock.txt")
FETCH_S = 300
# One wheel of each, whatever Python asks: of PyYAML and MarkupSafe the Python files are the same in
# all of them.
WHEEL = ("--python-version", "3.11", "--implementation", "cp", "--platform", "manylinux2014_x86_64")
TESTS = "# Tests and releases only.\n"  # ./run stops here, unless it sets up for tests
# ./run installs these by themselves, after the wheels
SOURCES = "# From sources, which setuptools builds.\n"
_PIN = re.compile(
    r"(?:# carried (?P<content>[0-9a-f]{64}) of (?P<wheel>[0-9a-f]{64})\n)?"
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]+))?"
    r"(?P<wheels>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)


@dataclass(frozen=True)
class Pin:
    """A package of the lock. `wheels` are sha256 digests of its wheels, or of its source archive.
    Of a package that is carried, `wheel` is the one it is taken from, `content` the digest of what
    is taken. `marker` is a PEP 508 marker; empty: always needed.
    """

    name: str
    version: str
    wheels: tuple[str, ...]
    marker: str = ""
    wheel: str = ""
    content: str = ""

    @property
    def told_marker(self) -> str:
        return f" ; {self.marker}" if self.marker else ""

    def __str__(self) -> str:
        carried = f"# carried {self.content} of {self.wheel}\n" if self.content else ""
        hashes = " \\\n".join(f"    --hash=sha256:{one}" for one in self.wheels)
        return f"{carried}{self.name}=={self.version}{self.told_marker} \\\n{hashes}\n"


def all_pins() -> list[Pin]:
    """The packages of the lock, in its order."""
    text = LOCK.read_text(encoding="utf-8")
    found, at = [], 0
    while at < len(text):
        match = _PIN.match(text, at)
        if match is None:
            line, _, _ = text[at:].partition("\n")
            if line and not line.startswith("#"):
                raise Trouble(f"{LOCK}: this is no line of the lock: {line}")
            at += len(line) + 1
            continue
        fields = {name: value or "" for name, value in match.groupdict().items()}
        wheels = tuple(re.findall(r"[0-9a-f]{64}", fields.pop("wheels")))
        found.append(Pin(wheels=wheels, **fields))
        at = match.end()
    return found


def pins() -> list[Pin]:
    """The packages that are carried, in the order of the names."""
    return [pin for pin in all_pins() if pin.content]


@cache
def dependencies() -> tuple[Carried, ...]:
    """What is carried, in the order of the names."""
    wanted = pins()
    found = {pin.name: one for pin in wanted if (one := _installed(pin)) is not None}
    missing = [pin for pin in wanted if pin.name not in found]
    if missing:
        found |= {one.name: one for one in fetched(missing)}
        for pin in missing:
            if found[pin.name].digest() != pin.content:
                raise Trouble(
                    f"{pin.name} {pin.version} does not hold what {LOCK} says: write it anew with "
                    "lock.py"
                )
    return tuple(found[pin.name] for pin in wanted)


def _installed(pin: Pin) -> Carried | None:
    """The distribution as it is installed here, where that is what the lock says."""
    try:
        distribution = metadata.distribution(pin.name)
        one = carried(pin.name, distribution) if distribution.version == pin.version else None
    except (metadata.PackageNotFoundError, OSError, Trouble):
        return None
    return one if one is not None and one.digest() == pin.content else None


def fetched(missing: list[Pin]) -> list[Carried]:
    """The wheels that these are taken from, by pip."""
    with tempfile.TemporaryDirectory(prefix="hosttune-locked-") as scratch:
        wanted, folder = Path(scratch) / "lock.txt", Path(scratch) / "packages"
        wanted.write_text(
            "".join(map(str, (replace(pin, wheels=(pin.wheel,)) for pin in missing))),
            encoding="utf-8",
        )
        names = " ".join(f"{pin.name}=={pin.version}" for pin in missing)
        pip(
            "install",
            "--target",
            str(folder),
            "--require-hashes",
            "--requirement",
            str(wanted),
            what=names,
        )
        return [
            carried(pin.name, distribution)
            for pin in missing
            for distribution in metadata.distributions(name=pin.name, path=[str(folder)])
        ]


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
        raise Trouble(
            f"{what}: neither installed as {LOCK.name} pins it nor to be had by pip: {said}"
        )
