"""File systems that this machine mounts from NFS servers, how, and how far ahead the kernel reads
in them.

Sources: proc_pid_mountinfo(5), nfs(5) (rsize, soft, proto, nconnect); nfsrahead(5) and nfs.conf(5)
of nfs-utils; kernel: Documentation/ABI/testing/sysfs-class-bdi (read_ahead_kb). Since Linux 5.4 the
client starts with 128 KiB whatever rsize is (commit c128e575514c); before, it was 15 times rsize. A
server that no longer knows the folder of a mount answers ESTALE until it is mounted anew (RFC 8881,
15.1.2.8).
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.containers.kubernetes import is_of_pods
from hosttune.facts.kernel.sysfs_at_boot import udev_writes
from hosttune.facts.network.network import ROUTES, interface_to, speed_of
from hosttune.facts.reading import (
    derive,
    if_absent,
    names_in,
    read_integer,
    read_text,
    read_texts,
    require_known,
    require_sure,
)
from hosttune.facts.storage.mounts import is_served
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, is_unrecorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader
    from hosttune.host.reading.mountinfo import MountLine

_TYPES = frozenset({"nfs", "nfs4"})
_STALE = "Stale file handle"  # strerror(ESTALE) of the C locale, in which programs are asked
_STALE_S = 5.0  # for one server to answer
_MOST_ASKED = 16  # mounts
_UDEV = "/etc/udev/rules.d"
_OURS = "60-hosttune-"
_UNBOUNDED_KIB = 1 << 30
_SECTION = regex(r"\s*\[\s*([^\]\s]+)(?:\s[^\]]*)?\]")


@frozen
class NfsMount(Fact):
    """One mounted export. Mounts that share its superblock share the read-ahead, and are not listed
    again.
    """

    target: str  # where it is mounted
    source: str  # server:/path
    device: str  # "0:50"
    rsize_bytes: int  # how much one READ asks for at most; 0 where the mount does not say
    read_ahead_kib: int  # of its backing device, in KiB
    # calls fail where the server does not answer in time, in place of waiting for it (soft,
    # softerr)
    is_soft: bool
    is_read_only: bool  # mounted ro
    protocol: str  # tcp, rdma, udp; empty where the mount does not say
    connections: int  # to the server, at most (nconnect)
    speed_mbps: int = 0  # of the interface by which the server is reached; 0 where nothing tells
    is_in_fstab: bool = True  # a line of fstab mounts it, so that mount(8) knows it by its target

    @property
    def is_of_pods(self) -> bool:
        """Whether the kubelet mounted it for a pod: its CSI driver decides."""
        return is_of_pods(self.target)

    @property
    def server(self) -> str:
        """Its name or address."""
        return _name_server(self.source)

    @property
    def way_out(self) -> str:
        """How it is mounted anew."""
        unmount = f"sudo umount -l {quote(self.target)}"
        if self.is_in_fstab:
            return f"{unmount} && sudo mount {quote(self.target)}"
        return (
            f"{unmount}, and mount it as it was (no line of fstab has it; autofs does that at the "
            "next access)"
        )


@frozen
class Nfs(Subject):
    """What is mounted now, and what else sets its read-ahead."""

    mounts: tuple[NfsMount, ...] = read_with(lambda self: _read_mounts(self.reader, self.facts))
    # `/etc/nfs.conf:12 (nfs4 = 16000)`: lines of an administrator, not ours
    settings: tuple[str, ...] = read_with(lambda self: _read_settings(self.reader))

    @fact
    def widest_rsize_bytes(self) -> int:
        """The largest rsize of these mounts, without those of pods; 0 where none says."""
        return max((one.rsize_bytes for one in self.mounts if not one.is_of_pods), default=0)

    # of all that is mounted, as it was mounted: nfs01, 10.0.0.7
    servers: tuple[str, ...] = read_with(lambda self: _list_servers(self.facts.mounts.all))

    @fact
    def of_pods(self) -> tuple[str, ...]:
        """Those that only pods use, or users below -hosts or auto.net of autofs: both may name any
        server.
        """
        return tuple(
            sorted({*_list_servers(self.facts.mounts.all)} - {*_list_servers(_of_host(self.facts))})
        )

    @fact
    def stale(self) -> tuple[NfsMount, ...]:
        """Those, without pods, whose server no longer knows the folder: every access fails."""
        return tuple(_find_stale(self.reader, self.facts, self.mounts))

    @property
    def most_read_ahead_kib(self) -> int:
        """The largest value now, without those of pods: what is kept for all of them lowers
        none.
        """
        return max((one.read_ahead_kib for one in self.mounts if not one.is_of_pods), default=0)

    @property
    def usual_read_ahead_kib(self) -> int:
        """15 times the largest rsize, as Linux up to 5.3 had it, and 128 at least; without bound
        where none says.
        """
        return (
            max(128, 15 * self.widest_rsize_bytes // 1024)
            if self.widest_rsize_bytes
            else _UNBOUNDED_KIB
        )


def read_ahead_lines(content: str) -> Iterator[tuple[int, str, str]]:
    """(line, name, value) of the section [nfsrahead] of an nfs.conf."""
    section = ""
    for number, row in enumerate(content.splitlines(), 1):
        if match := _SECTION.match(row):
            section = match[1].lower()
        name, equals, value = (part.strip() for part in row.partition("="))
        if section == "nfsrahead" and equals and not name.startswith(("#", ";")):
            yield number, name, value.partition("#")[0].strip()


def make_stale_question(target: str) -> tuple[str, ...]:
    """What asks the server of a mount."""
    return ("stat", "--file-system", "--format=%T", target)


def _find_stale(reader: Reader, facts: Facts, mounts: Iterable[NfsMount]) -> Iterator[NfsMount]:
    """Only what the kernel mounts as NFS: who waits for that can be ended (TASK_KILLABLE), not so
    for FUSE. So no user may be able to put something else on the way, and no other server may be on
    it; who makes a pod names its server. A server that does not answer proves nothing: that is
    unknown, and ends the round.
    """
    served = [one.target for one in facts.mounts.all if is_served(one)]
    for mount in [one for one in mounts if not one.is_of_pods][:_MOST_ASKED]:
        above = posixpath.dirname(mount.target)
        # Behind another server the way itself could hang, and a folder that a user may write could
        # lead anywhere.
        if any(f"{above}/".startswith(f"{one}/") for one in served) or not is_way_of_root(
            reader, above
        ):
            continue
        answer = reader.query(make_stale_question(mount.target), timeout_s=_STALE_S)
        if is_unrecorded(answer):
            return
        done = require_sure(answer)
        if done is not ABSENT and done.status != 0 and done.errors.rstrip().endswith(_STALE):
            yield mount


def is_way_of_root(reader: Reader, folder: str) -> bool:
    """Whether only root can write a folder and those above it. Raises UnknownFact."""
    while True:
        answer = reader.stat(folder)
        if is_unrecorded(answer):
            return False
        info = require_sure(answer)
        if info is ABSENT or info.uid != 0 or info.mode & 0o022:
            return False
        if folder == "/":
            return True
        folder = posixpath.dirname(folder)


def _of_host(facts: Facts) -> Iterator[Mount]:
    return (one for one in facts.mounts.all if not is_of_pods(one.target) and not one.is_of_user)


def _list_servers(mounts: Iterable[Mount | MountLine]) -> tuple[str, ...]:
    """`[fe80::1]:/data` and `nfs01:/data`: what is before the path."""
    sources = (one.source for one in mounts if one.fstype in _TYPES)
    return tuple(sorted({_name_server(source) for source in sources}))


def _name_server(source: str) -> str:
    return source.partition(":/")[0].strip("[]")


def sees_only_of_pods(facts: Facts, seen: Iterable[MountLine]) -> bool:
    """Whether a process with these mounts has NFS, and all of it from servers that only pods
    use.
    """
    servers = {*_list_servers(seen)}
    return bool(servers) and servers <= {*facts.nfs.of_pods}


def _read_mounts(reader: Reader, facts: Facts) -> tuple[NfsMount, ...]:
    if reader.persistent_only:
        return ()
    found: dict[str, Mount] = {}
    for mount in facts.mounts.visible:
        if mount.fstype in _TYPES and not mount.is_of_user:
            found.setdefault(mount.device, mount)
    return tuple(_mount(reader, facts, mount) for mount in found.values())


def _mount(reader: Reader, facts: Facts, mount: Mount) -> NfsMount:
    options = dict(option.partition("=")[::2] for option in mount.super_options)
    path = f"/sys/class/bdi/{mount.device}/read_ahead_kb"
    return NfsMount(
        target=mount.target,
        source=mount.source,
        device=mount.device,
        rsize_bytes=_parse_number(options.get("rsize", ""), 0),
        read_ahead_kib=lazy(lambda: require_known(read_integer(reader, path), path)),
        is_soft=not options.keys().isdisjoint(("soft", "softerr")),
        is_read_only=mount.is_read_only,
        # tcp6 and udp6 are the same protocols over IPv6 (nfs(5), proto=).
        protocol=options.get("proto", "").removesuffix("6"),
        connections=_parse_number(options.get("nconnect", ""), 1),
        speed_mbps=lazy(lambda: _read_speed(reader, options.get("addr", ""))),
        is_in_fstab=lazy(
            lambda: any(mount.target in (one.target, one.path) for one in facts.fstab.entries)
        ),
    )


def _read_speed(reader: Reader, address: str) -> int:
    interface = derive(
        if_absent(read_text(reader, ROUTES), ""),
        ROUTES,
        lambda routes: interface_to(routes, address),
    )
    return speed_of(reader, f"/sys/class/net/{interface}") if interface else 0


def _parse_number(spelled: str, default: int) -> int:
    return parse_digits(spelled, default)


def _read_settings(reader: Reader) -> tuple[str, ...]:
    """Lines of a section [nfsrahead], and udev rules for read-ahead of what has no disk of its
    own.
    """
    found: list[str] = []
    files = (
        "/etc/nfs.conf",
        *_read_files(reader, "/etc/nfs.conf.d", ".conf"),
        *_read_files(reader, _UDEV, ".rules"),
    )
    for path, content in read_texts(reader, files):
        lines = _udev_lines(content) if path.startswith(_UDEV) else read_ahead_lines(content)
        found += (f"{path}:{line} ({name} = {value})" for line, name, value in lines)
    return tuple(found)


def _read_files(reader: Reader, folder: str, suffix: str) -> Iterator[str]:
    for name in names_in(reader, folder):
        if name.endswith(suffix) and not name.startswith(_OURS):
            yield f"{folder}/{name}"


def _udev_lines(content: str) -> Iterator[tuple[int, str, str]]:
    for line, matches, attribute, value in udev_writes(content):
        if matches.get("SUBSYSTEM") == "bdi" and attribute == "read_ahead_kb":
            yield line, attribute, value
