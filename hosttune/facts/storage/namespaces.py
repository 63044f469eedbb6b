"""Mount namespaces besides our own (mount_namespaces(7)), and the disks that are mounted in them.

The flags of a mount are not propagated: a service with PrivateTmp=, ProtectSystem= or the like
(systemd.exec(5)), and a container, keep those of the moment at which they were started. Only root
may look into the namespaces of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.reading import if_absent, names_in, read_line, read_text
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.reading.mountinfo import MountLine, parse
from hosttune.numbers import parse_digits
from hosttune.values import TooLong, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader


_MOST_NAMESPACES, _MOST_MOUNTS = 4096, 1 << 16  # a user can make many of both


@frozen
class OtherMount(Fact):
    """A mount in another namespace than ours."""

    pid: int  # of one process that sees it
    # the service or container by its control group (nginx.service), else the name of the process
    holder: str
    device: str  # major:minor
    root: str  # which folder of the file system
    target: str  # where it is mounted there
    atime: str  # noatime | relatime | strictatime


@frozen
class Namespaces(Subject):
    """What is mounted from block devices in the other mount namespaces of this machine, a namespace
    once.
    """

    mounts: tuple[OtherMount, ...] = read_with(lambda self: _read_mounts(self.reader))


def _read_mounts(reader: Reader) -> tuple[OtherMount, ...]:
    if reader.persistent_only:
        return ()
    if not reader.is_privileged:
        raise UnknownFact("only root may look into the mount namespaces of others")
    seen = {reader.link("/proc/self/ns/mnt")}
    found: list[OtherMount] = []
    for pid in sorted(pid for name in names_in(reader, "/proc") if (pid := parse_digits(name, 0))):
        namespace = reader.link(f"/proc/{pid}/ns/mnt")
        if not isinstance(namespace, str) or namespace in seen:
            continue  # one that is just ending: it has no namespaces any more
        seen.add(namespace)
        answer = reader.read(f"/proc/{pid}/mountinfo")
        if isinstance(answer, Unreadable) and isinstance(answer.reason, TooLong):
            continue  # any user can make one so long; it hides those of no others
        table = if_absent(answer, b"")  # absent where it has just ended
        mounts = [mount for mount in parse(table) if _is_disk(mount)]
        holder = _name_holder(reader, pid) if mounts else ""
        if len(seen) > _MOST_NAMESPACES or len(found) + len(mounts) > _MOST_MOUNTS:
            raise UnknownFact(
                "this host has more mount namespaces, or mounts in them, than are looked through"
            )
        found += [OtherMount(pid, holder, m.device, m.root, m.target, m.atime) for m in mounts]
    return tuple(found)


def _is_disk(mount: MountLine) -> bool:
    """Mounted from a device node: overlay, proc, tmpfs and the like are not."""
    # An image of snapd is a loop device, and is read-only: its access times do not matter.
    return mount.source.startswith("/dev/") and mount.fstype not in {"devtmpfs", "squashfs"}


def _name_holder(reader: Reader, pid: int) -> str:
    groups = attempt(read_text, reader, f"/proc/{pid}/cgroup")
    paths = (
        [entry.rpartition(":")[2] for entry in groups.split("\n")]
        if isinstance(groups, str)
        else []
    )
    named = [
        part for path in paths for part in path.split("/") if part.endswith((".service", ".scope"))
    ]
    if named:
        return named[-1]
    name = attempt(read_line, reader, f"/proc/{pid}/comm")
    return name if isinstance(name, str) else f"process {pid}"
