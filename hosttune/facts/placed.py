"""A value of a setting with the place that gives it."""

from __future__ import annotations

import posixpath

from hosttune.facts.base import Fact
from hosttune.frozen import frozen
from hosttune.quoting import quote

_DISTRIBUTION = ("/usr/lib/", "/lib/")


@frozen
class Placed(Fact):
    """A value, and who gives it."""

    value: str  # as the file writes it
    path: str  # the file; where it is none, in words what gives it: the kernel command line: WORD
    line: int = 0  # from 1; 0 where it is no file

    @property
    def place(self) -> str:
        """FILE:LINE, or the words."""
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def quoted_place(self) -> str:
        """The same for a line that people copy into a shell: a file's name in quotes where a shell
        would act on it.
        """
        return quote(self.place) if self.line else self.path

    @property
    def file_name(self) -> str:
        """By which the files of several folders are sorted."""
        return posixpath.basename(self.path)

    def set_by(self, what: str) -> str:
        """Whose decision it is, and where it is written, as a sentence that can be part of a line
        for a shell.
        """
        return f"{self.quoted_place} sets {what}" + (
            "" if self.is_of_distribution else ", an administrator's decision"
        )

    def is_read_after(self, path: str) -> bool:
        """Whether its file is a drop-in that is read after the one at `path`: files of all folders
        are read by name.
        """
        return posixpath.dirname(self.path).endswith(".d") and self.file_name > posixpath.basename(
            path
        )

    @property
    def is_of_distribution(self) -> bool:
        """Whether it came with a package: no one decided it for this host."""
        # Not /usr/local, where administrators put their own files.
        return self.path.startswith(_DISTRIBUTION)
