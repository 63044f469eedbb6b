"""Small Debians that tests change: each recipe is built once and kept in the cache, each use gets a copy of its own.

The folder in the cache is named after the digest of its recipe, so a changed recipe builds anew and nothing else does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.vm.image import UNUSED_S, cache_folder

BUILD_TIMEOUT_S = 600
COPY_TIMEOUT_S = 120
OPTIONS = (
    "--quiet", "--mode=root", "--variant=apt", "--format=directory", '--aptopt=APT::Install-Recommends "false"',
)  # fmt: skip


def copied(target: Path, suite: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """A Debian with apt and these packages at `target`, which is made; built now where the cache lacks it, in half a
    minute. `options` are more words for mmdebstrap.
    """
    words = (*OPTIONS, *options, f"--include={','.join(packages)}", suite)
    cache = cache_folder()
    kept = cache / f"debian-{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}"
    if not kept.exists():
        _build(kept, words)
    os.utime(kept)  # used today
    _prune(cache)
    subprocess.run(("cp", "--archive", "--reflink=auto", kept / "tree", target), check=True, timeout=COPY_TIMEOUT_S)
    return target


def _build(kept: Path, words: tuple[str, ...]) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=kept.parent, prefix="build-"))
    try:
        command = ("mmdebstrap", *words, str(work / "tree"))
        subprocess.run(command, check=True, timeout=BUILD_TIMEOUT_S, stdin=subprocess.DEVNULL)
        with contextlib.suppress(OSError):  # somebody else built it meanwhile; theirs is as good
            work.rename(kept)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prune(cache: Path) -> None:
    """Remove what no run has used for a week."""
    for folder in cache.glob("debian-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)
