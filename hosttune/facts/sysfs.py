"""Any attribute below /sys by its path: `sysfs["/sys/block/sda/queue/scheduler"].chosen` (sysfs(5)).

Not those of other file systems that are mounted there, where a read can do something or take something away: debugfs,
tracefs, bpf, the firmware's variables.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, unread
from hosttune.facts.lookups import Attribute, Lookup, attribute
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_OTHERS = regex(r"/sys/(?:kernel/(?:debug|tracing|config)|fs/(?:bpf|pstore|selinux)|firmware/efi/efivars)(?:/|$)")


@frozen
class Sysfs(Fact):
    """`sysfs["/sys/..."]`, for every attribute; only what was asked for is kept."""

    entries: Mapping[str, Attribute]

    def __getitem__(self, path: str) -> Attribute:
        return self.entries[path]

    @staticmethod
    def name_fault(path: str) -> tuple[str, str] | None:
        """What is wrong with a path as a rule writes it, and the way out."""
        if not path.startswith("/sys/") or posixpath.normpath(path) != path or re.search(r"[*?\[\0]", path):
            return f"{path!r} is no path below /sys", 'write all of it, without wildcards: sysfs["/sys/kernel/mm/..."]'
        if _OTHERS.match(path):
            return f"{path} is not asked: reading there can do something", "only attributes of sysfs itself are read"
        return None


def collect(reader: Reader, facts: Facts) -> Sysfs:  # noqa: ARG001 - the interface of all subjects
    def look(path: str) -> Attribute:
        fault = Sysfs.name_fault(path)
        real = reader.resolve(path) if not fault else ""
        if isinstance(real, str) and real:
            fault = Sysfs.name_fault(real)  # a link is no way out
        if fault:
            return Attribute(path, exists=unread(fault[0]), text=unread(fault[0]))
        return attribute(reader, path, path)

    return Sysfs(Lookup(look))
