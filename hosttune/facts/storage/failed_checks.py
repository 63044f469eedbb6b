"""Checks of file systems that failed in this boot: what they did not repair by themselves waits for
a person.

systemd mounts nothing whose systemd-fsck@.service failed, also with nofail
(systemd-fsck@.service(8); https://github.com/systemd/systemd/issues/20237). mount(8) asks for no
check, and mounts it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.services.units import read_last_words
from hosttune.facts.signs import failed_by_itself
from hosttune.facts.storage.fstab_lines import describe_place
from hosttune.facts.storage.mount_units import device_path
from hosttune.facts.storage.mounts import unit_name
from hosttune.facts.storage.sources import plain_source, sources_of
from hosttune.quoting import quote
from hosttune.values import join_steps

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry

_E2FSCK = "copy what is needed elsewhere first, then repair it: sudo e2fsck -f {}"
_OLDER = "Get a newer version of e2fsck"
_UNCHECKED = (
    "it has a feature that e2fsck does not know here (orphan_file of e2fsprogs 1.47): write 0 as "
    "the last field of {}, with which no boot checks it"
)
_REPAIRS = {
    "ext2": _E2FSCK,
    "ext3": _E2FSCK,
    "ext4": _E2FSCK,
    "vfat": "repair it: sudo fsck.vfat {}",
}


def find_failed_check(facts: Facts, entry: FstabEntry) -> tuple[str, str]:
    """`names /dev/sdb1, whose check failed in this boot`, and what to do before it is mounted; both
    empty for none.
    """
    found = sources_of(facts).find(entry.source)
    failed = attempt(failed_by_itself, facts.reader) if found else {}
    name = f"systemd-fsck@{unit_name(device_path(plain_source(entry.source)), 'service')}"
    if not found or not isinstance(failed, Mapping) or name not in failed:
        return "", ""
    path = sources_of(facts).describe(found[0]).partition(" ")[0]
    held = sources_of(facts).holds(found[0])
    repair = _REPAIRS.get(held.fstype if held else "", "").format(quote(path))
    is_older = repair and any(_OLDER in one for one in read_last_words(facts.reader, name))
    steps = (
        f"see what the check found: sudo journalctl -b -u {quote(name)}",
        _UNCHECKED.format(describe_place(entry.line, entry.file)) if is_older else repair,
    )
    return (
        f"names {path}, whose check failed in this boot, so that systemd did not mount it",
        join_steps(steps),
    )
