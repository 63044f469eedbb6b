"""Folders of data disks and shares that containers of Docker have: it starts them again at a boot, mounted or not.

Sources: the control groups of Docker (docker-ID.scope of systemd, docker/ID of cgroupfs), proc_pid_mountinfo(5) of the
first process of each, https://github.com/moby/moby/issues/47153.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.reading import names_in
from hosttune.facts.storage.mounts import is_system
from hosttune.host.mountinfo import parse
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_SCOPES = "/sys/fs/cgroup/system.slice"
_GROUPS = "/sys/fs/cgroup/docker"
_SCOPE, _GROUP = regex(r"docker-[0-9a-f]{64}\.scope"), regex(r"[0-9a-f]{64}")
_REMOVED = "//deleted"  # fs/d_path.c
_MOST = 64  # containers
_MOST_FOLDERS = 64  # of one


def docker_binds(reader: Reader, facts: Facts) -> Iterator[str]:
    """Their paths on this host, each once."""
    mounts = {one.device: one for one in reversed(facts.mounts.visible) if one.device and not is_system(one.target)}
    found: dict[str, None] = {}
    for group in _list_groups(reader)[:_MOST] if mounts else ():
        content = reader.read(f"{group}/cgroup.procs")
        pid = parse_digits(content.split(b"\n")[0].decode("ascii", "replace"), 0) if isinstance(content, bytes) else 0
        table = reader.read(f"/proc/{pid}/mountinfo") if pid else b""
        lines = parse(table) if isinstance(table, bytes) else ()
        # A folder that its user has removed since is nowhere: what has the name of the rest of its line is another one.
        there = (one for one in lines if one.device in mounts and not one.root.endswith(_REMOVED))
        paths = (_find_path(mounts[one.device], one.root) for one in there)
        found |= dict.fromkeys([path for path in paths if path][:_MOST_FOLDERS])
    yield from found


def _list_groups(reader: Reader) -> list[str]:
    found = []
    for folder, pattern in ((_SCOPES, _SCOPE), (_GROUPS, _GROUP)):
        names = attempt(names_in, reader, folder)
        found += [f"{folder}/{name}" for name in (names if isinstance(names, tuple) else ()) if pattern.fullmatch(name)]
    return found


def _find_path(mount: Mount, root: str) -> str:
    """Where a folder of a file system is on this host; empty for what is not below the part that is mounted."""
    top = mount.root.rstrip("/")
    if f"{root.rstrip('/')}/".startswith(f"{top}/"):
        return f"{mount.target.rstrip('/')}{root[len(top) :]}".rstrip("/")
    return ""
