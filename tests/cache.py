"""What tests make once and keep, for all rings and runs: Debian trees, disks of guests, wheels,
packages, Ansible.

Each is a folder of the cache that is named after the digest of what made it, so that a changed
recipe builds anew and nothing else does. Rings that run side by side ask for the same: who comes
second waits and finds it made.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

UNUSED_S = 7 * 24 * 3600


def cache_folder() -> Path:
    """May be deleted whenever no test runs."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "hosttune-tests"


def named(kind: str, *recipe: object) -> str:
    return f"{kind}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]}"


@contextlib.contextmanager
def locked(name: str, cache: Path | None = None) -> Iterator[Path]:
    """The place of a folder in the cache, made or not, held by nobody else meanwhile."""
    folder = cache or cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / name


def kept(name: str, make: Callable[[Path], None], cache: Path | None = None) -> Path:
    """The folder of this name. Where it is missing, `make` fills an empty one, which gets the name
    when it is whole: what is cut off leaves nothing that counts.
    """
    with locked(name, cache) as target:
        if not target.exists():
            work = Path(tempfile.mkdtemp(dir=target.parent, prefix="build-"))
            try:
                make(work)
                work.chmod(0o755)
                work.rename(target)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                raise
        os.utime(target)  # used today
    _prune(target.parent)
    return target


def _prune(cache: Path) -> None:
    """Remove what no run has used for a week: folders of older recipes, and what a killed build
    left.
    """
    for path in cache.iterdir():
        # Somebody else may prune too, or name what has just been built.
        with contextlib.suppress(FileNotFoundError):
            if (
                not path.name.startswith(".")
                and path.is_dir()
                and time.time() - path.stat().st_mtime > UNUSED_S
            ):
                shutil.rmtree(path, ignore_errors=True)
