"""The folder below which each user gets a place for temporary files and caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.facts.storage.mounts import NETWORK_TYPES, mount_of
from hosttune.facts.storage.places import find_renamer
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_MEMORY
from hosttune.regex import regex

_PATH = regex(r"(/[\w.-]+)+")  # it goes into a shell script that every session reads


@frozen
class ScratchFolder(Fact):
    """A folder, or why the one that was named will not do."""

    folder: str
    problem: str

    @property
    def above(self) -> str:
        """The paths of the folder and of those that it is in, the topmost first: `/ /data
        /data/scratch`.
        """
        parts = self.folder.split("/") if self.folder else []
        return " ".join("/".join(parts[:end]) or "/" for end in range(1, len(parts) + 1))


def choose(facts: Facts, params: Mapping[str, Any]) -> ScratchFolder:
    """The folder `params.folder`, where it is on a disk of this host, and only root and its owners
    can rename what is in it and in the folders above. Whether it is there is looked at at each
    login, and this again: a disk that was not mounted must not stop a login.
    """
    folder = str(params["folder"])
    if not _PATH.fullmatch(folder) or ".." in folder.split("/"):
        return ScratchFolder("", f"{folder!r} is no plain absolute path such as /scratch")
    mount = mount_of(facts.mounts.visible, folder)
    if mount is not None and (mount.is_network or mount.fstype in NETWORK_TYPES):
        return ScratchFolder("", f"{folder} is on the network ({mount.target} is {mount.fstype})")
    if mount is not None and mount.fstype in IN_MEMORY:
        return ScratchFolder("", f"{folder} is in memory ({mount.target} is {mount.fstype})")
    if mount is not None and mount.is_read_only:
        return ScratchFolder("", f"{folder} is read-only ({mount.target})")
    if mount is not None and "noexec" in mount.options:
        return ScratchFolder(
            "",
            f"{folder} is on a noexec mount ({mount.target}): no compiled code can be loaded there",
        )
    chosen = ScratchFolder(folder, "")
    reader = facts.reader
    problem = next(
        (why for path in chosen.above.split() if (why := find_renamer(reader, path))), ""
    )
    return ScratchFolder("", problem) if problem else chosen
