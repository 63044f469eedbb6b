"""The wheels that a user would install: hosttune's own, built from this checkout, and those it
depends on.

The dependencies are fetched for the guest's Python, not for the one that runs the tests, and kept
in the cache until pyproject.toml changes.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.cache import kept, named

PROJECT = Path(__file__).resolve().parents[2]
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
TIMEOUT_S = 300


def bundle(python: str = PYTHONS["bookworm"]) -> bytes:
    """A tar of hosttune's wheel, built now, and of its dependencies' wheels for this version of
    Python.
    """
    with tempfile.TemporaryDirectory(prefix="hosttune-wheel-") as folder:
        _pip("wheel", "--no-deps", "--wheel-dir", folder, str(PROJECT))
        (own,) = Path(folder).glob("hosttune-*.whl")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for wheel in (own, *sorted(_dependencies(own, python).glob("*.whl"))):
                tar.add(wheel, arcname=wheel.name)
    return packed.getvalue()


def _dependencies(own: Path, python: str) -> Path:
    def download(work: Path) -> None:
        options = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
        options += [word for name in PLATFORMS for word in ("--platform", name)]
        _pip("download", "--dest", str(work), *options, str(own))
        (work / own.name).unlink(missing_ok=True)

    project = (PROJECT / "pyproject.toml").read_bytes() + Path(__file__).read_bytes()
    return kept(named("wheels", project, python), download)


def _pip(command: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, "--disable-pip-version-check", "--quiet", *words],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"pip {command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        )
