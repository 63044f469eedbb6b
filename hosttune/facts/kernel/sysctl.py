"""Any sysctl by its key, as it is in force: `sysctl["kernel.core_pattern"].text` (sysctl(8),
proc(5) on /proc/sys).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.lookups import Attribute, Lookup, make_attribute, small_text
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.values import Absent

_KEY = regex(r"[A-Za-z0-9_][A-Za-z0-9_:/-]*(?:\.[A-Za-z0-9_:/-]+)+")


def proc_path(key: str) -> str:
    """The file of a key; a slash in a key is a dot of the name (`net.ipv4.conf.eth0/1.rp_filter`,
    sysctl.d(5)).
    """
    return "/proc/sys/" + key.translate(str.maketrans("./", "/."))


def normal_key(key: str) -> str:
    """A key as sysctl(8) prints it: of `net/ipv4/conf/eth0.1/rp_filter`
    net.ipv4.conf.eth0/1.rp_filter: where the first separator is a slash, dots and slashes change
    places (sysctl.d(5)).
    """
    first = next((character for character in key if character in "./"), ".")
    return key.translate(str.maketrans("./", "/.")) if first == "/" else key


@frozen
class Sysctl(Subject):
    """`sysctl["vm.swappiness"]`, for every key; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, Attribute]:
        return Lookup(lambda key: make_attribute(key, self._read, key))

    def _read(self, key: str) -> str | Absent:
        if fault := Sysctl.name_fault(key):
            raise UnknownFact(fault[0])
        return small_text(self.reader, proc_path(key))

    def __getitem__(self, key: str) -> Attribute:
        return self.entries[key]

    @staticmethod
    def name_fault(key: str) -> tuple[str, str] | None:
        """What is wrong with a key as a rule writes it, and the way out."""
        # A key of a custom rule becomes a path. Two dots would lead out of /proc/sys, to any file
        # that root can read.
        if not _KEY.fullmatch(key) or "//" in proc_path(key) or ".." in proc_path(key):
            return f"{key!r} is no key of sysctl", 'write it with dots: sysctl["vm.swappiness"]'
        return None
