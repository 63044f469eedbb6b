"""Folders of data disks and shares that containers of Docker have, and those below a mount point
where nothing is mounted now: Docker starts containers again at a boot, mounted or not.

Sources: the control groups of Docker (docker-ID.scope of systemd, docker/ID of cgroupfs),
proc_pid_mountinfo(5) of the first process of each, https://github.com/moby/moby/issues/47153.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.reading import names_in
from hosttune.facts.storage.mounts import is_system
from hosttune.host.reading.mountinfo import folders_above, parse
from hosttune.host.reading.paths import PATH_MAX
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader
    from hosttune.host.reading.mountinfo import MountLine

_SCOPES = "/sys/fs/cgroup/system.slice"
_GROUPS = "/sys/fs/cgroup/docker"
_SCOPE, _GROUP = regex(r"docker-[0-9a-f]{64}\.scope"), regex(r"[0-9a-f]{64}")
_REMOVED = "//deleted"  # fs/d_path.c
_MOST = 64  # containers
_MOST_FOLDERS = 64  # of one


def docker_binds(reader: Reader, facts: Facts) -> Iterator[str]:
    """Their paths on this host, each once."""
    missing = _find_missing(facts)
    visible = [one for one in reversed(facts.mounts.visible) if one.device]
    mounts = {one.device: one for one in visible if missing or not is_system(one.target)}
    found: dict[str, None] = {}
    for group in _list_groups(reader)[:_MOST] if mounts else ():
        content = reader.read(f"{group}/cgroup.procs")
        # Any process of the container has its mounts; the first is read, as one that the container
        # has just started may end meanwhile.
        pid = (
            parse_digits(content.split(b"\n")[0].decode("ascii", "replace"), 0)
            if isinstance(content, bytes)
            else 0
        )
        table = reader.read(f"/proc/{pid}/mountinfo") if pid else b""
        lines = parse(table) if isinstance(table, bytes) else ()
        # A folder that its user has removed since is nowhere: what has the name of the rest of its
        # line is another one.
        there = (one for one in lines if one.device in mounts and not one.root.endswith(_REMOVED))
        paths = (_find_bind(one, mounts[one.device], missing) for one in there)
        found |= dict.fromkeys([path for path in paths if path][:_MOST_FOLDERS])
    yield from found


def _find_bind(line: MountLine, mount: Mount, missing: frozenset[str]) -> str:
    # The place in the container says nothing about the host: the folder is found by its file system
    # and the root of the mount.
    path = _find_path(mount, line.root)
    is_asked = not is_system(mount.target) or (not line.is_read_only and _is_below(path, missing))
    return path if is_asked else ""


def _find_missing(facts: Facts) -> frozenset[str]:
    """Where fstab has something mounted, on demand too, and nothing is: what is written there is on
    the disk below.
    """
    entries = attempt(lambda: facts.fstab.entries)
    targets = (
        {one.path for one in entries if not one.is_swap} if isinstance(entries, tuple) else set()
    )
    return frozenset(
        one for one in targets if one.startswith("/") and one != "/" and one not in facts.mounts.at
    )


def _is_below(path: str, folders: frozenset[str]) -> bool:
    return len(path) < PATH_MAX and not folders.isdisjoint((path, *folders_above(path)))


def _list_groups(reader: Reader) -> list[str]:
    found = []
    for folder, pattern in ((_SCOPES, _SCOPE), (_GROUPS, _GROUP)):
        names = attempt(names_in, reader, folder)
        found += [
            f"{folder}/{name}"
            for name in (names if isinstance(names, tuple) else ())
            if pattern.fullmatch(name)
        ]
    return found


def _find_path(mount: Mount, root: str) -> str:
    """Where a folder of a file system is on this host; empty for what is not below the part that is
    mounted.
    """
    top = mount.root.rstrip("/")
    if f"{root.rstrip('/')}/".startswith(f"{top}/"):
        return f"{mount.target.rstrip('/')}{root[len(top) :]}".rstrip("/")
    return ""
