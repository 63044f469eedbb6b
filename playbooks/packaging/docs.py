"""The documents as a site: `./run docs` builds it and serves it on this machine. `./run docs
--build` only builds it, in build/site, and fails on a broken link. mkdocs.yml says what is in it.

Zensical and what it needs are installed in .venv/docs, by the hashes of docs.txt. They are no part
of hosttune.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINS = Path(__file__).resolve().with_name("docs.txt")
VENV = ROOT / ".venv" / "docs"
STAMP = VENV / ".pins"
INSTALL = (
    "--quiet",
    "--disable-pip-version-check",
    "--require-hashes",
    "--only-binary=:all:",
    "--no-deps",
)
INSTALL_S, BUILD_S = 600, 300


def set_up() -> None:
    """Install what docs.txt pins, unless that was done. Raises CalledProcessError where pip or venv
    fail.
    """
    pins = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if STAMP.is_file() and STAMP.read_text(encoding="ascii") == pins:
        return
    print(
        "run: setting up .venv/docs (on the first start, and when docs.txt changes)",
        file=sys.stderr,
    )
    python = str(VENV / "bin" / "python")
    for words in (
        (sys.executable, "-I", "-m", "venv", "--clear", str(VENV)),
        (python, "-I", "-m", "pip", "install", *INSTALL, "--requirement", str(PINS)),
    ):
        subprocess.run(words, check=True, timeout=INSTALL_S, stdin=subprocess.DEVNULL)
    STAMP.write_text(pins, encoding="ascii")


def main(words: list[str]) -> int:
    if words not in ([], ["--build"]):
        print("usage: ./run docs [--build]", file=sys.stderr)
        return 2
    try:
        set_up()
        zensical = (str(VENV / "bin" / "zensical"),)
        if words:
            argv = (*zensical, "build", "--clean", "--strict")
            return subprocess.run(
                argv, cwd=ROOT, check=False, timeout=BUILD_S, stdin=subprocess.DEVNULL
            ).returncode
        return subprocess.run((*zensical, "serve"), cwd=ROOT, check=False).returncode
    except (OSError, subprocess.SubprocessError) as error:
        print(
            f"docs.py: {error}\n  hint: it needs a package index, and venv with pip (python3-venv)",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
