"""The folder below which each user gets a place for temporary files and caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.facts.storage.mounts import NETWORK_TYPES
from hosttune.facts.storage.places import mount_of
from hosttune.frozen import frozen
from hosttune.regex import regex

_PATH = regex(r"(/[\w.-]+)+")  # it goes into a shell script that every session reads
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@frozen
class ScratchFolder(Fact):
    """A folder, or why the one that was named will not do."""

    folder: str
    problem: str


def choose(facts: Facts, params: Mapping[str, Any]) -> ScratchFolder:
    """The folder `params.folder`, where it lies on a disk of this host. Whether it is there is looked at at each login:
    a disk that was not mounted must not stop anybody.
    """
    folder = str(params["folder"])
    if not _PATH.fullmatch(folder) or ".." in folder.split("/"):
        return ScratchFolder("", f"{folder!r} is no plain absolute path such as /scratch")
    mount = mount_of(facts.mounts.visible, folder)
    if mount is not None and (mount.is_network or mount.fstype in NETWORK_TYPES):
        return ScratchFolder("", f"{folder} lies on the network ({mount.target} is {mount.fstype})")
    if mount is not None and mount.fstype in _MEMORY:
        return ScratchFolder("", f"{folder} lies in memory ({mount.target} is {mount.fstype})")
    if mount is not None and mount.is_read_only:
        return ScratchFolder("", f"{folder} is read-only ({mount.target})")
    return ScratchFolder(folder, "")
