"""Builds the release tarball of the Ansible collection: `./run collection [FOLDER]`.

It is what `ansible-galaxy collection build` makes of the collection with hosttune itself laid into
it, so that an installed collection needs nothing else. FOLDER is dist by default. ansible-galaxy
comes from the environment of ./run, which lock.txt pins, or else from PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
import bundle
import deb
import pyz

COLLECTION = bundle.ROOT / "playbooks/collections/ansible_collections/hosttune/hosttune"
TIMEOUT_S = 300


def build(folder: Path) -> Path:
    """Return the tarball."""
    own = Path(sys.executable).parent / "ansible-galaxy"
    galaxy = str(own) if own.exists() else shutil.which("ansible-galaxy")
    if galaxy is None:
        raise bundle.Trouble("ansible-galaxy is not installed: start this as ./run collection")
    with tempfile.TemporaryDirectory(prefix="hosttune-collection-") as scratch:
        tree, out = Path(scratch) / "hosttune", Path(scratch) / "out"
        shutil.copytree(
            COLLECTION, tree, ignore=shutil.ignore_patterns("__pycache__", "output", "files")
        )
        shutil.copy(bundle.ROOT / "LICENSE", tree / "LICENSE")
        pyz.build(tree / "files" / "hosttune.pyz")
        deb.build(tree / "files" / "hosttune.deb")
        environment = {**os.environ, "ANSIBLE_HOME": str(Path(scratch) / "home")}
        words = [galaxy, "collection", "build", str(tree), "--output-path", str(out)]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment
        )
        if done.returncode != 0:
            raise bundle.Trouble(f"ansible-galaxy: {done.stderr.strip()}")
        (built,) = out.glob("*.tar.gz")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(built, folder / built.name))


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else bundle.ROOT / "dist"
    try:
        print(build(folder))
    except (bundle.Trouble, OSError, subprocess.TimeoutExpired) as error:
        print(f"collection.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
