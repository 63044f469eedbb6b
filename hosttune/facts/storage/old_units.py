"""What systemd still has of an fstab that was changed since: the units that its generator made of
the lines of before.

systemd reads fstab when it starts and at `systemctl daemon-reload`. A mount unit is bound to the
device of its line: it can unmount what is mounted there while that device is gone.
Sources: systemd.mount(5), systemd-fstab-generator(8);
https://github.com/systemd/systemd/issues/3568, and issue 1741.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.reading import read_text
from hosttune.facts.services.unit_files import parse_assignments
from hosttune.facts.storage.mount_units import device_path
from hosttune.facts.storage.mounts import unit_name
from hosttune.facts.storage.sources import names_device, sources_of

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry

_GENERATED = "/run/systemd/generator"


def find_old_source(facts: Facts, entry: FstabEntry) -> str:
    """The device that systemd has for the folder of a line, where the line names another one now;
    else empty.
    """
    if entry.is_swap or entry.target in ("/", "/usr") or not names_device(entry.source):
        return ""
    content = attempt(
        read_text, facts.reader, f"{_GENERATED}/{unit_name(entry.path or entry.target)}"
    )
    rows = parse_assignments(content) if isinstance(content, str) else ()
    old = next((value.replace("%%", "%") for _, _, key, value in rows if key == "What"), "")
    if (
        not old.startswith("/dev/")
        or "\\" in old
        or old.lower() == device_path(entry.source).lower()
    ):
        return ""
    find = sources_of(facts).find
    return "" if (now := find(entry.source)) and now == find(old) else old
