"""NVIDIA's driver branches as the tables have them: the package's own, and /etc/hosttune/driver-branches.tsv, whose
rows go before it. What apt's lists say goes before both (facts/packaging.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from hosttune.errors import BadInput
from hosttune.facts.base import Fact, unread
from hosttune.facts.branch_table import Branch, own_table, parse_rows
from hosttune.facts.trusted import link_stranger
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

SITE: Final = "/etc/hosttune/driver-branches.tsv"
_LARGEST = 64 << 10  # bytes of the site's table


@frozen
class Branches(Fact):
    """The rows, and how old the package's own are. A file of the site that cannot be followed leaves none: it may say
    what nobody else does."""

    rows: Mapping[int, Branch]  # by number
    as_of: str  # the day of NVIDIA's support matrix
    good_until: str  # the month until which the table can be expected to be whole
    newest: int  # the newest branch that the package's own table has

    def branch(self, number: int) -> Branch:
        """The row. A branch without one is gone where the package's table has newer ones: NVIDIA's matrix, which names
        all that are supported, does not name it. Of a newer one nothing is known.
        """
        found = self.rows.get(number)
        return found or Branch(number, "", "", is_gone=number < self.newest, first="", last="")

    def month(self, now: float) -> str:
        """The month of a time in seconds since the epoch, UTC: 2026-11; never one of before the matrix, as a clock may
        be behind."""
        from datetime import datetime, timezone

        return max(f"{datetime.fromtimestamp(now, timezone.utc):%Y-%m}", self.as_of[:7])


def collect(reader: Reader, facts: Facts) -> Branches:  # noqa: ARG001 - the interface of all subjects
    rows, as_of, good_until = own_table()
    site = _site_rows(reader)
    both: Any = unread(site.reason) if isinstance(site, Unreadable) else MappingProxyType({**rows, **site})
    return Branches(both, as_of, good_until, max(rows))


def _site_rows(reader: Reader) -> Mapping[int, Branch] | Unreadable:
    place = reader.resolve(SITE)
    if place is ABSENT or (isinstance(place, Unreadable) and place.reason.startswith("not in this record")):
        return {}
    if not isinstance(place, str):
        return Unreadable(f"{SITE} cannot be read: {place.reason if isinstance(place, Unreadable) else 'no answer'}")
    if who := link_stranger(reader, SITE):
        return Unreadable(f"{SITE} is not followed, because {who}: sudo install -m 644 -o root -g root FILE {SITE}")
    content = reader.read(place)
    if not isinstance(content, bytes):
        why = content.reason if isinstance(content, Unreadable) else "it leads nowhere"
        return Unreadable(f"{SITE} cannot be read: {why}")
    if len(content) > _LARGEST:
        return Unreadable(f"{SITE} has {len(content)} bytes, more than {_LARGEST}: take out what is no row")
    try:
        return parse_rows(content.decode("utf-8"), SITE)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Unreadable(f"{SITE}:{line}: is not UTF-8 text: write it again as such")
    except BadInput as bad:
        told = "; ".join(f"{one.where}: {one.message} ({one.hint})" for one in bad.faults[:3])
        more = f"; and {len(bad.faults) - 3} more" if len(bad.faults) > 3 else ""
        return Unreadable(f"{told}{more}")
