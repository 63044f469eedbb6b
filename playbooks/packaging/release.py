"""Makes and verifies all that is published of a commit: `./run release [OUT]`, dist/VERSION by
default.

Wheel, sdist, hosttune.pyz, the .deb, what they carry as a CycloneDX document, and the Ansible
collection. Each is built twice, in two folders and at two times, and has to be the same to the byte
(not the collection: ansible-galaxy writes the time into it). SHA256SUMS names them all.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
import bundle
import collection
import sbom

TIMEOUT_S = 600
SUMS = "SHA256SUMS"
# A release says nothing that is not in its change log, under its version and its day.
_HEADING = r"^## {} \(\d{{4}}-\d\d-\d\d\)$"


def release(out: Path | None, root: Path = bundle.ROOT) -> Path:
    """Build into a folder that is not there yet, or is empty; return it. Raises Trouble with what
    stands in the way.
    """
    version = bundle.version(root)
    target = (out or root / "dist" / version).resolve()
    if changed := _run("git", "-C", str(root), "status", "--porcelain").strip():
        raise bundle.Trouble(
            f"a release is of a commit, and there are changes that are in none:\n{changed}"
        )
    if not re.search(
        _HEADING.format(re.escape(version)),
        (root / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    ):
        raise bundle.Trouble(
            f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`: write what is in it, and "
            "the day"
        )
    if target.exists() and any(target.iterdir()):
        raise bundle.Trouble(f"{target} is not empty: name another folder, or empty it")
    with tempfile.TemporaryDirectory(prefix="hosttune-release-") as scratch:
        first, second = (
            _built(root, Path(scratch) / name, day)
            for name, day in (("a", 0), ("another/place", 40))
        )
        for path in sorted(first.iterdir()):
            if path.read_bytes() != (second / path.name).read_bytes():
                raise bundle.Trouble(f"{path.name}: built twice it is not the same to the byte")
        (first / "sbom.cdx.json").write_text(
            sbom.sbom(bundle.dependencies(), version), encoding="utf-8"
        )
        collection.build(first)
        _verify(first, version)
        lines = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(first.iterdir())
        ]
        (first / SUMS).write_text("".join(lines), encoding="ascii")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(first, target, dirs_exist_ok=True)
    return target


def _built(root: Path, place: Path, days: int) -> Path:
    """The artefacts of the last commit, built in a copy of it whose files are `days` older."""
    tree, out = place / "tree", place / "out"
    tree.mkdir(parents=True)
    out.mkdir()
    archive = place / "tree.tar"
    _run("git", "-C", str(root), "archive", "--output", str(archive), "HEAD")
    _run("tar", "--extract", "--file", str(archive), "--directory", str(tree))
    seconds = bundle.committed(root)
    for path in tree.rglob("*"):
        os.utime(path, (seconds - days * 86400,) * 2, follow_symlinks=False)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    python = (sys.executable, "-I")
    for words in (
        (*python, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(out)),
        (*python, "playbooks/packaging/pyz.py", str(out / "hosttune.pyz")),
        (*python, "playbooks/packaging/deb.py", str(out)),
    ):
        _run(*words, cwd=tree, environment=environment)
    return out


def _verify(folder: Path, version: str) -> None:
    """What can be asked of them here: that they say their version, and that an index would take
    them.
    """
    said = _run(sys.executable, "-I", str(folder / "hosttune.pyz"), "--version").strip()
    if said != f"hosttune {version}":
        raise bundle.Trouble(f"hosttune.pyz says {said!r}")
    (deb,) = folder.glob("*.deb")
    if _run("dpkg-deb", "--field", str(deb), "Version").strip() != version:
        raise bundle.Trouble(f"{deb.name} has another version than {version}")
    (wheel,) = folder.glob("*.whl")
    _run(
        sys.executable,
        "-I",
        "-m",
        "twine",
        "check",
        "--strict",
        str(wheel),
        str(folder / f"hosttune-{version}.tar.gz"),
    )


def _run(*words: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise bundle.Trouble(
            f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}".strip()
        )
    return done.stdout


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    try:
        folder = release(out)
    except (bundle.Trouble, OSError, subprocess.TimeoutExpired) as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 2
    print(folder, *(f"  {path.name}" for path in sorted(folder.iterdir())), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
