"""Which file systems are mounted where results were measured."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hosttune.errors import HosttuneError
from hosttune.facts.storage.mounts import NETWORK_TYPES
from hosttune.host.bounded import own_mounts
from hosttune.host.mountinfo import parse, topmost_at
from hosttune.measure.bench.place import look_at


def uuids_at(targets: Mapping[str, str]) -> dict[str, str]:
    """Mount point -> UUID of what is mounted there, for those that hold the type of file system that is named.

    A network file system is not asked: a server that is gone would hold up whoever asks.
    """
    mounts = parse(own_mounts())
    found = {}
    for target, fstype in targets.items():
        mount = topmost_at(mounts, target)
        is_asked = mount and mount.fstype == fstype and fstype not in NETWORK_TYPES and not fstype.startswith("fuse")
        if is_asked:
            with suppress(HosttuneError, OSError):
                found[target] = look_at(target).uuid
    return found
