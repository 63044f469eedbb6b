"""What a path is on: the file system, the layers below it, the disks at the bottom and how they are
attached.

Through partitions, device mapper, md, loop devices (down to their files), several disks of btrfs,
bcachefs and ZFS, overlays, bind mounts and symbolic links, from the facts about mounts and disks;
no program is started and no device opened. In a virtual machine the kernel's word on rotation is
the hypervisor's guess: it is not passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.facts.base import UnknownFact, get_raw, read_or_default
from hosttune.facts.storage.mounts import mount_of
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_MEMORY
from hosttune.resources.storage.mount_policy import OF_THE_KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.storage.disks import Disk
    from hosttune.facts.storage.mounts import Mount

# no data set is there, and reading such a file may do something
KERNEL: Final = OF_THE_KERNEL - {"autofs"}
_MOST_LAYERS: Final = 128  # of an overlay; Docker makes no more
_DEEPEST: Final = 6  # a loop device on a file on a loop device ...


@frozen
class UnderlyingDisk:
    """A disk at the bottom. `transport` is nvme, sata, sas, virtio, usb, mmc, scsi or empty;
    `medium` is flash, rotating, or empty where no one can tell.
    """

    name: str
    transport: str
    medium: str
    model: str


@frozen
class Underneath:
    """Where a path is. `kind` is disk, network, memory or unknown; `layers` are what is between the
    file system and the disks, the uppermost first; `note` says why the disks are not known.
    """

    target: str  # the mount point
    fstype: str
    source: str
    kind: str
    atime: str  # noatime | relatime | strictatime
    is_read_only: bool
    is_vm: bool
    layers: tuple[str, ...] = ()
    disks: tuple[UnderlyingDisk, ...] = ()
    note: str = ""

    @property
    def transports(self) -> tuple[str, ...]:
        """The known ways in which its disks are attached, each once."""
        return tuple(dict.fromkeys(disk.transport for disk in self.disks if disk.transport))

    @property
    def is_rotating(self) -> bool:
        """Whether one of its disks rotates, for sure."""
        return any(disk.medium == "rotating" for disk in self.disks)


def find_underneath(path: str, facts: Facts, *, depth: int = 0) -> Underneath:
    """What `path` is on; everything that is not known is in `note`. Never raises UnknownFact."""
    is_vm = _is_vm(facts)
    try:
        place = facts.reader.resolve(path)
        mount = mount_of(facts.mounts.visible, place if isinstance(place, str) else path)
    except UnknownFact as unknown:
        return Underneath("", "", "", "unknown", "relatime", False, is_vm, note=unknown.reason)
    if mount is None:
        return Underneath(
            "", "", "", "unknown", "relatime", False, is_vm, note="no mount is known to hold it"
        )
    if mount.is_network:
        return _make_underneath(mount, is_vm, "network")
    if mount.fstype in IN_MEMORY:
        return _make_underneath(mount, is_vm, "memory")
    try:
        return _find_local(mount, facts, is_vm, depth)
    except UnknownFact as unknown:
        return _make_underneath(mount, is_vm, "unknown", note=unknown.reason)


def _make_underneath(
    mount: Mount,
    is_vm: bool,  # noqa: FBT001 - as in the dataclass
    kind: str,
    layers: Iterable[str] = (),
    disks: Iterable[UnderlyingDisk] = (),
    note: str = "",
) -> Underneath:
    return Underneath(
        mount.target,
        mount.fstype,
        mount.source,
        kind,
        mount.atime,
        mount.is_read_only,
        is_vm,
        tuple(layers),
        tuple(disks),
        note,
    )


def _is_vm(facts: Facts) -> bool:
    return read_or_default(lambda: facts.host.is_vm, otherwise=False)


def _find_local(mount: Mount, facts: Facts, is_vm: bool, depth: int) -> Underneath:  # noqa: FBT001 - passed on
    if mount.fstype == "overlay":
        return _find_overlay(mount, facts, is_vm, depth)
    tops = _find_tops(mount, facts)
    if not tops:
        note = {"zfs": "a ZFS pool whose disks are not known here"}.get(
            mount.fstype, f"{mount.fstype} does not list its disks"
        )
        return _make_underneath(mount, is_vm, "unknown", note=note)
    layers, bottom = _descend_layers(tops, facts)
    loops = [disk for disk in bottom if disk.kind == "loop"]
    # An image can be on a file system that is in an image itself; the depth bounds that.
    if loops and depth < _DEEPEST:
        return _find_loop(mount, loops[0], facts, layers, depth)
    if bottom and all(disk.kind in {"ram", "zram"} for disk in bottom):
        return _make_underneath(mount, is_vm, "memory", layers)
    media = tuple(_describe_medium(disk, is_vm=is_vm) for disk in bottom if disk.kind == "disk")
    return _make_underneath(
        mount,
        is_vm,
        "disk" if media else "unknown",
        layers,
        media,
        "" if media else "no disk below it",
    )


def _find_tops(mount: Mount, facts: Facts) -> tuple[Disk, ...]:
    """The devices that the file system is made of."""
    by_device, by_name = facts.disks.by_device, facts.disks.by_name
    if mount.device in by_device:
        return (by_device[mount.device],)
    if mount.fstype == "zfs":
        pool = mount.source.partition("/")[0]
        members = [
            one.path
            for one in facts.filesystems.all
            if one.fstype == "zfs_member" and one.label == pool
        ]
        return tuple(disk for disk in facts.disks.all if disk.path in members)
    if mount.fstype == "bcachefs":
        return tuple(
            by_name[name]
            for part in mount.source.split(":")
            if (name := part.removeprefix("/dev/")) in by_name
        )
    names = mount.disks  # of btrfs all members, each as the disk that it ends on
    return tuple(by_name[name] for name in names if name in by_name)


def _descend_layers(tops: Iterable[Disk], facts: Facts) -> tuple[tuple[str, ...], tuple[Disk, ...]]:
    """(layers, bottom): partitions are no layer worth a word; the rest is named with what it is."""
    by_name = facts.disks.by_name
    layers: dict[str, None] = {}
    bottom: dict[str, Disk] = {}
    waiting, seen = list(tops), set()
    while waiting:
        disk = waiting.pop(0)
        if disk.name in seen:
            continue
        # md and multipath reach one disk over several ways.
        seen.add(disk.name)
        parents = get_raw(disk, "parents")
        if disk.kind in {"dm", "md"}:
            layers[
                disk.path.removeprefix("/dev/mapper/").removeprefix("/dev/") + f" ({disk.kind})"
            ] = None
        if isinstance(parents, tuple) and parents:
            waiting += [by_name[name] for name in parents if name in by_name]
        else:
            bottom[disk.name] = disk
    return tuple(layers), tuple(bottom[name] for name in sorted(bottom))


def _describe_medium(disk: Disk, *, is_vm: bool) -> UnderlyingDisk:
    transport, rotational, model = (
        get_raw(disk, name) for name in ("transport", "is_rotational", "model")
    )
    transport = transport if isinstance(transport, str) else ""
    if transport == "nvme":
        medium = "flash"
    elif is_vm or transport == "virtio" or not isinstance(rotational, bool):
        medium = ""
    else:
        medium = "rotating" if rotational else "flash"
    return UnderlyingDisk(disk.name, transport, medium, model if isinstance(model, str) else "")


def _find_loop(
    mount: Mount, loop: Disk, facts: Facts, layers: tuple[str, ...], depth: int
) -> Underneath:
    """A loop device is where its file is (kernel: Documentation/ABI/testing/sysfs-block-loop)."""
    content = facts.reader.read(f"/sys/block/{_name_whole_device(loop.name)}/loop/backing_file")
    path = (
        content.decode("utf-8", "surrogateescape").rstrip("\n")
        if isinstance(content, bytes)
        else ""
    )
    is_vm = _is_vm(facts)
    if not path or path.endswith(" (deleted)"):
        return _make_underneath(
            mount,
            is_vm,
            "unknown",
            (*layers, loop.name),
            note=f"the file behind {loop.name} is not known",
        )
    below = find_underneath(path, facts, depth=depth + 1)
    return _pass_through(mount, below, (*layers, f"{loop.name} ({path})"))


def _name_whole_device(name: str) -> str:
    """`loop0p1` is a partition of `loop0`."""
    return "loop" + name.removeprefix("loop").partition("p")[0]


def _find_overlay(mount: Mount, facts: Facts, is_vm: bool, depth: int) -> Underneath:  # noqa: FBT001 - passed on
    """The upper folder takes what is written, the lower ones hold what was there: both are often on
    one disk, and seen from inside of a container neither can be found.
    """
    folders = _overlay_folders(mount)
    # The path of a layer is one of the host; in a container it leads nowhere, or to a folder that
    # only has its name.
    if depth < _DEEPEST and folders and isinstance(facts.reader.resolve(folders[0]), str):
        below = find_underneath(folders[0], facts, depth=depth + 1)
        # A layer that seems to be on the overlay itself is such a name, and would be followed in a
        # circle.
        if below.target != mount.target:
            return _pass_through(mount, below, ("overlay",))
    return _make_underneath(
        mount, is_vm, "unknown", note="an overlay whose folders are not visible from here"
    )


def _overlay_folders(mount: Mount) -> tuple[str, ...]:
    """The upper folder, where there is one, and the lower ones, the uppermost first
    (fs/overlayfs/params.c).
    """
    upper: list[str] = []
    lower: list[str] = []
    for option in mount.super_options:
        key, _, value = option.partition("=")
        if key == "upperdir":
            upper = [value]
        elif key in {"lowerdir", "lowerdir+"}:
            lower += value.split(":")
    return tuple(folder for folder in (*upper, *lower) if folder)


def overlay_places(path: str, facts: Facts) -> tuple[Underneath, ...]:
    """Where the layers of an overlay are from which the files at `path` can come, each place once;
    empty where it is no overlay, or one of the first layers is not visible from here. Raises
    UnknownFact.
    """
    place = facts.reader.resolve(path)
    mount = mount_of(facts.mounts.visible, place if isinstance(place, str) else path)
    if mount is None or mount.fstype != "overlay":
        return ()
    found: dict[str, Underneath] = {}
    for folder in _overlay_folders(mount)[:_MOST_LAYERS]:
        below = find_underneath(folder, facts, depth=1)
        if not isinstance(facts.reader.resolve(folder), str) or below.target == mount.target:
            return ()
        found.setdefault(below.target, below)
    return tuple(found.values())


def _pass_through(mount: Mount, below: Underneath, layers: tuple[str, ...]) -> Underneath:
    """What is under the file system on `mount`, with the layers in between."""
    fs = (f"{below.fstype} on {below.target}",) if below.fstype else ()
    return _make_underneath(
        mount, below.is_vm, below.kind, (*layers, *fs, *below.layers), below.disks, below.note
    )
