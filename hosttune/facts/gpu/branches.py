"""NVIDIA's driver branches as the tables have them: the package's own, and
/etc/hosttune/driver-branches.tsv, whose rows go before it. What apt's lists say goes before both
(facts/gpu/packaging.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from json import loads
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hosttune.errors import BadInput
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.branch_table import Branch, own_table, parse_rows
from hosttune.facts.subject import Subject, fact
from hosttune.facts.trusted import of_root
from hosttune.frozen import frozen
from hosttune.lines import LineNumbers
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Absent

SITE: Final = "/etc/hosttune/driver-branches.tsv"
# Where a maker of machines names the branch for a GPU that Ubuntu's packages do not name yet:
# {"chips": [{"devid": "0x25BA", "branch": "580"}]} (ubuntu-drivers-common, UbuntuDrivers/detect.py,
# package_get_nv_allowing_driver).
GIVEN: Final = "/etc/custom_supported_gpus.json"
_LARGEST = 64 << 10  # bytes of the site's table
_DEVICE = regex(r"0x[0-9a-f]{4}")
_BRANCH = regex(r"([1-9]\d{2})(?:\.|$)")


@frozen
class Branches(Subject):
    """The rows, and how old the package's own are. A file of the site that cannot be followed
    leaves none: it may say what no one else does.
    """

    @fact
    def rows(self) -> Mapping[int, Branch]:
        """By number."""
        return MappingProxyType({**self._table[0], **_site_rows(self.reader)})

    @fact
    def as_of(self) -> str:
        """The day of NVIDIA's support matrix."""
        return self._table[1]

    @fact
    def good_until(self) -> str:
        """The month until which the table can be expected to be whole."""
        return self._table[2]

    @fact
    def given(self) -> Mapping[str, int]:
        """PCI device (0x25ba) -> branch, as GIVEN says."""
        return parse_branches(of_root(self.reader, GIVEN, _LARGEST))

    @fact
    def _table(self) -> tuple[Mapping[int, Branch], str, str]:
        return own_table()

    def branch(self, number: int) -> Branch:
        """The row. A branch without one is gone if it is older than all that NVIDIA supported on
        the day of the table. Of another one nothing is known: it may have come after that day,
        whatever its number.
        """
        found = self.rows.get(number)
        return found or Branch(number, "", "", is_gone=number < self.oldest, first="", last="")

    @property
    def oldest(self) -> int:
        """The oldest branch that was supported on the day of the table."""
        return min(
            (row.number for row in self.rows.values() if not row.is_over(self.as_of[:7])), default=0
        )

    def month(self, now: float) -> str:
        """The month of a time in seconds since the epoch, UTC: 2026-11; never one of before the
        matrix, as a clock may be behind.
        """
        from datetime import datetime, timezone

        return max(f"{datetime.fromtimestamp(now, timezone.utc):%Y-%m}", self.as_of[:7])


def parse_branches(content: bytes | Absent) -> Mapping[str, int]:
    """The branch for each device. What is not written so counts for nothing, as for ubuntu-drivers;
    the first of a device counts.
    """
    found: dict[str, int] = {}
    try:
        chips = loads(content)["chips"] if isinstance(content, bytes) else ()
        for chip in chips:
            device, branch = str(chip["devid"]).lower(), _BRANCH.match(str(chip["branch"]))
            if _DEVICE.fullmatch(device) and branch:
                found.setdefault(device, int(branch[1]))
    except (ValueError, TypeError, LookupError, RecursionError):
        return MappingProxyType(found)
    return MappingProxyType(found)


def _site_rows(reader: Reader) -> Mapping[int, Branch]:
    content = of_root(reader, SITE, _LARGEST)
    if content is ABSENT:
        return {}
    try:
        # One broken row makes the whole file unknown: it may be the row that rules a branch out.
        return parse_rows(content.decode("utf-8"), SITE)
    except UnicodeDecodeError as error:
        line = LineNumbers(content).at(error.start)
        raise UnknownFact(f"{SITE}:{line}: is not UTF-8 text: write it again as such") from error
    except BadInput as bad:
        sentence = "; ".join(f"{one.where}: {one.message} ({one.hint})" for one in bad.faults[:3])
        more = f"; and {len(bad.faults) - 3} more" if len(bad.faults) > 3 else ""
        raise UnknownFact(f"{sentence}{more}") from bad
