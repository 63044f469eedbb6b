"""The wheels that a user would install: hosttune's own, built from this checkout, and those it depends on.

The dependencies are fetched for the guest's Python, not for the one that runs the tests, and kept in the cache until
pyproject.toml changes.
"""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
TIMEOUT_S = 300


def bundle(cache: Path, python: str = PYTHONS["bookworm"]) -> bytes:
    """A tar of hosttune's wheel, built now, and of its dependencies' wheels for this version of Python."""
    with tempfile.TemporaryDirectory(prefix="hosttune-wheel-") as folder:
        _pip("wheel", "--no-deps", "--wheel-dir", folder, str(PROJECT))
        (own,) = Path(folder).glob("hosttune-*.whl")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for wheel in (own, *sorted(_dependencies(cache, own, python).glob("*.whl"))):
                tar.add(wheel, arcname=wheel.name)
    return packed.getvalue()


def _dependencies(cache: Path, own: Path, python: str) -> Path:
    project = (PROJECT / "pyproject.toml").read_bytes() + Path(__file__).read_bytes() + python.encode()
    target = cache / f"wheels-{hashlib.sha256(project).hexdigest()[:16]}"
    if target.exists():
        target.touch()
        return target
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=cache, prefix="build-"))
    try:
        options = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
        options += [word for name in PLATFORMS for word in ("--platform", name)]
        _pip("download", "--dest", str(work), *options, str(own))
        (work / own.name).unlink(missing_ok=True)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work)
        raise
    return target


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
        raise RuntimeError(f"pip {command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
