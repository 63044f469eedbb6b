"""Writes lock.txt anew from the package index: `.venv/bin/python playbooks/packaging/lock.py`.
Needs Python 3.11 and uv, which pyproject.toml names in the extra `lock`.

uv chooses the newest versions that fit pyproject.toml on Python 3.10 to 3.14. Wheels for other
systems are left out. Each Python and machine that is supported must find one. Set UV_DEFAULT_INDEX
to use another index.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
from carried import Trouble, canonical, needs
from locked import LOCK, SOURCES, TESTS, Pin, fetched, pip

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = 35  # 2.35 of Ubuntu 22.04; a wheel for a newer one is not taken
# Only save time (psutil), or are switched off (rich, which typer asks for, with what it needs).
NOT_CARRIED = frozenset({"rich", "psutil"})
# Of these no wheel fits.
FROM_SOURCE = frozenset({"tfrecord"})
# What hatchling asks for when it builds an editable install; pyproject.toml has no place to say it.
EDITABLE = ("editables>=0.5",)
HEAD = """\
# What ./run installs, and what hosttune.pyz and the .deb carry (`carried`: the sha256 of what is
# taken and of its wheel). For Python 3.10 to 3.14 on x86_64 and aarch64. Written by
# playbooks/packaging/lock.py
"""

Package = Mapping[str, Any]
Environment = dict[str, str]


def environments() -> list[Environment]:
    """What environment markers see on each Python and machine that is supported (PEP 508)."""
    return [
        {
            "python_version": python,
            "python_full_version": f"{python}.12",
            "platform_machine": machine,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        for python in PYTHONS
        for machine in MACHINES
    ]


def fits(wheel: str, environment: Environment) -> bool:
    """Whether a wheel of this file name installs in an environment."""
    from packaging.utils import parse_wheel_filename

    minor = int(environment["python_version"].partition(".")[2])
    return any(
        _fits_tag(tag, minor, environment["platform_machine"])
        for tag in parse_wheel_filename(wheel)[3]
    )


def _fits_tag(tag: Any, minor: int, machine: str) -> bool:
    python = re.fullmatch(r"(py|cp)3(\d*)", tag.interpreter)
    if python is None:
        return False
    least = int(python[2] or 0)
    if tag.platform == "any":
        return python[1] == "py" and tag.abi == "none" and least <= minor
    system = re.fullmatch(rf"manylinux(?:1|2010|2014|_2_(\d+))_{machine}", tag.platform)
    if system is None or int(system[1] or 0) > GLIBC:
        return False
    if tag.abi in ("abi3", "none"):
        return least <= minor
    return python[1] == "cp" and least == minor and bool(tag.abi == f"cp3{minor}")


def resolved(*words: str, given: Iterable[str], constraints: str = "") -> list[Package]:
    """The packages that uv chooses, as pylock.toml (PEP 751) has them. `given`: requirements beside
    pyproject.toml.
    """
    reader = importlib.import_module("tomllib")
    with tempfile.TemporaryDirectory(prefix="hosttune-lock-") as scratch:
        out, more, bounds = (
            Path(scratch) / name for name in ("pylock.toml", "more.in", "bounds.txt")
        )
        more.write_text("".join(f"{line}\n" for line in given), encoding="utf-8")
        bounds.write_text(constraints, encoding="utf-8")
        argv = (
            *(
                sys.executable,
                "-I",
                "-m",
                "uv",
                "pip",
                "compile",
                "--quiet",
                "--no-config",
                "--universal",
                *("--only-binary", ":all:"),
                *(word for name in sorted(FROM_SOURCE) for word in ("--no-binary", name)),
            ),
            *(
                "--python-version",
                PYTHONS[0],
                "--format",
                "pylock.toml",
                "--constraints",
                str(bounds),
            ),
            *("--output-file", str(out), *words, str(ROOT / "pyproject.toml"), str(more)),
        )
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise Trouble(
                f"uv could not choose versions: {done.stderr.strip()}\n"
                "uv is in the extra `lock` of pyproject.toml"
            )
        packages: list[Package] = reader.loads(out.read_text(encoding="utf-8"))["packages"]
        return packages


def pin_of(package: Package) -> Pin | None:
    """The lines of a package in the lock; None for one that no supported environment needs."""
    from packaging.markers import Marker

    marker = package.get("marker", "")
    needing = [one for one in environments() if not marker or Marker(marker).evaluate(one)]
    if not needing:
        return None
    if package["name"] in FROM_SOURCE:
        digest = str(package["sdist"]["hashes"]["sha256"])
        return Pin(
            canonical(package["name"]), str(package["version"]), (digest,), marker_for(needing)
        )
    wheels = {
        _name_of(wheel): str(wheel["hashes"]["sha256"]) for wheel in package.get("wheels", ())
    }
    for one in needing:
        if not any(fits(name, one) for name in wheels):
            where = f"Python {one['python_version']} on {one['platform_machine']}"
            raise Trouble(
                f"{package['name']} {package['version']} has no wheel for {where}: bound it in "
                "pyproject.toml"
            )
    taken = [digest for name, digest in wheels.items() if any(fits(name, one) for one in needing)]
    return Pin(
        canonical(package["name"]),
        str(package["version"]),
        tuple(sorted(taken)),
        marker_for(needing),
    )


def marker_for(needing: list[Environment]) -> str:
    """The range of Pythons that these environments are, as a marker; empty when they are all."""
    found = [
        python for python in PYTHONS if any(one["python_version"] == python for one in needing)
    ]
    first, last = PYTHONS.index(found[0]), PYTHONS.index(found[-1])
    if len(needing) != len(MACHINES) * (last - first + 1):
        raise Trouble("a package is needed by some machines only: teach lock.py to write that")
    bounds = [f'python_version >= "{PYTHONS[first]}"'] if first else []
    bounds += [f'python_version < "{PYTHONS[last + 1]}"'] if last + 1 < len(PYTHONS) else []
    return " and ".join(bounds)


def _name_of(wheel: Package) -> str:
    return str(wheel.get("name") or wheel["url"].rpartition("/")[2])


def pins_of(packages: Iterable[Package]) -> list[Pin]:
    return sorted(filter(None, map(pin_of, packages)), key=lambda pin: (pin.name, pin.marker))


def build_requirements() -> list[str]:
    """What the build back end needs, from pyproject.toml."""
    return [*read_project()["build-system"]["requires"], *EDITABLE]


def read_project(root: Path = ROOT) -> Any:
    """pyproject.toml. On Python 3.10 tomli reads it, which the lock holds for that."""
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return reader.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def names(root: Path = ROOT) -> list[str]:
    """What the project needs, and what that needs, without what is not carried."""
    waiting = [
        canonical(re.split(r"[^A-Za-z0-9._-]", one)[0])
        for one in read_project(root)["project"]["dependencies"]
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name not in NOT_CARRIED:
            found.add(name)
            waiting += needs(_distribution(name))
    return sorted(found)


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise Trouble(
            f"{name} is not installed for {sys.executable}: type ./run --version, then take "
            ".venv/bin/python"
        ) from None


def with_content(pin: Pin) -> Pin:
    """A carried package: which wheel it is taken from, and the digest of what is taken."""
    if pin.marker:
        raise Trouble(
            f"{pin.name} needs one version on every Python, because it is carried: bound it in "
            "pyproject.toml"
        )
    with tempfile.TemporaryDirectory(prefix="hosttune-lock-") as scratch:
        asked = f"{pin.name}=={pin.version}"
        pip("download", "--dest", scratch, asked, what=asked)
        (wheel,) = Path(scratch).iterdir()
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest not in pin.wheels:
        raise Trouble(
            f"{asked}: pip and uv have different wheels of it: ask both for the same index"
        )
    pin = replace(pin, wheel=digest)
    (one,) = fetched([pin])
    return replace(pin, content=one.digest())


def lock() -> str:
    """The text of the lock."""
    build = build_requirements()
    run = pins_of(resolved("--fork-strategy", "fewest", given=build))
    bounds = "".join(f"{pin.name}=={pin.version}{pin.told_marker}\n" for pin in run)
    everything = pins_of(resolved("--extra", "test", given=build, constraints=bounds))
    taken = set(names())
    run = [with_content(pin) if pin.name in taken else pin for pin in run]
    own = {pin.name for pin in run}
    tests = [pin for pin in everything if pin.name not in own | FROM_SOURCE]
    sources = [pin for pin in everything if pin.name in FROM_SOURCE]
    return "".join(
        (HEAD, *map(str, run), "\n", TESTS, *map(str, tests), "\n", SOURCES, *map(str, sources))
    )


def main() -> int:
    try:
        LOCK.write_text(lock(), encoding="utf-8")
    except (Trouble, OSError, subprocess.TimeoutExpired) as error:
        print(f"lock.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
