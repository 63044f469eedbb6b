"""What was typed into the guest and what it answered, as a text file that a person can read from
top to bottom.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.cache import cache_folder


class Transcript:
    """Appends to a file, line by line, so that a killed run leaves what it had."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def heading(self, text: str) -> None:
        """The title of a step."""
        self._write(f"\n==== {text}\n")

    def note(self, text: str) -> None:
        """What the harness did itself."""
        self._write("".join(f"## {line}\n" for line in text.splitlines()))

    def command(self, argv: Sequence[str], answer: tuple[int, str, str], seconds: float) -> None:
        """One command with its output; standard error is marked with `2>`."""
        rc, stdout, stderr = answer
        self._write(f"\nroot@spine# {shlex.join(argv)}\n{stdout}")
        if stdout and not stdout.endswith("\n"):
            self._write("\n")
        self._write("".join(f"2> {line}\n" for line in stderr.splitlines()))
        self._write(f"[exit {rc}, {seconds:.1f} s]\n")

    def _write(self, text: str) -> None:
        self._file.write(text.encode("utf-8", "replace").decode("utf-8"))
        self._file.flush()


def transcript_folder() -> Path:
    """$HOSTTUNE_VM_TRANSCRIPTS, or a folder of the cache; one text for each file of tests."""
    named = os.environ.get("HOSTTUNE_VM_TRANSCRIPTS")
    return Path(named) if named else cache_folder() / "vm-transcripts"
