"""The package's own tables of outside knowledge, hosttune/tables/*.tsv: each names its sources, its
day (`as of:`), and until when it counts as whole (`good until:`); pure.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.textfiles import own_file

FOLDER: Final = "tables"


@frozen
class OwnTable:
    """One table. The dates are as its head has them: a day, a month or a version."""

    text: str
    as_of: str  # 2026-11-24; 595.45.04 for a list that a driver release has
    good_until: str  # 2027-02-28, or 2027-03

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The fields of each row; comments are left out."""
        lines = self.text.splitlines()
        return tuple(tuple(line.split("\t")) for line in lines if line and not line.startswith("#"))


@cache
def read_own_table(name: str) -> OwnTable:
    """The table of this name (known-holes). Raises HosttuneError if the package lacks it."""
    content = own_file(f"{FOLDER}/{name}.tsv")
    if content is None:
        raise HosttuneError(
            f"{FOLDER}/{name}.tsv of the package is missing", hint="install hosttune again"
        )
    return parse_own_table(content.decode())


def parse_own_table(text: str) -> OwnTable:
    """A table with its dates; one that its head lacks is empty."""
    dates = dict(re.findall(r"^# (as of|good until): ([\d.-]+)", text, re.MULTILINE))
    return OwnTable(text, dates.get("as of", ""), dates.get("good until", ""))
