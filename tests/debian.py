"""Debian trees for tests: one base per release, and on a copy of it the packages that a recipe
names.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cache import kept, named

BUILD_TIMEOUT_S = 900
COPY_TIMEOUT_S = 120
MMDEBSTRAP = (
    "mmdebstrap", "--quiet", "--mode=root", "--format=directory", '--aptopt=APT::Install-Recommends "false"',
    # A mirror may lag behind the two weeks for which testing's Release file counts.
    '--aptopt=Acquire::Check-Valid-Until "false"',
)  # fmt: skip


def fill(
    target: Path,
    suite: str,
    *packages: str,
    options: tuple[str, ...] = (),
    files: Path | None = None,
) -> None:
    """Make a Debian at `target`: what every release has of required packages, then these. `options`
    are more words for mmdebstrap; what lies in the folder `files` is there before the packages
    come.
    """
    base = kept(
        named("base", MMDEBSTRAP, suite),
        lambda work: _call(*MMDEBSTRAP, "--variant=minbase", suite, work / "tree"),
    )
    words = ["--variant=custom", f'--setup-hook=cp --archive --reflink=auto "{base}/tree/." "$1"']
    words += (
        [f'--setup-hook=cp --archive --no-preserve=ownership "{files}/." "$1"'] if files else []
    )
    _call(*MMDEBSTRAP, *words, *options, f"--include={','.join(packages)}", suite, target)


def tree(suite: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """A Debian with apt and these packages that nobody may change, made now where the cache lacks
    it.
    """
    name = named("debian", MMDEBSTRAP, suite, packages, options)
    return kept(name, lambda work: fill(work / "tree", suite, *packages, options=options)) / "tree"


def copied(target: Path, suite: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """A copy of such a tree at `target`, which is made."""
    source = tree(suite, *packages, options=options)
    subprocess.run(
        ("cp", "--archive", "--reflink=auto", source, target), check=True, timeout=COPY_TIMEOUT_S
    )
    return target


def _call(*argv: object) -> None:
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-4000:]}"
        )
