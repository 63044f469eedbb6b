"""Whether there is room for what a transaction writes, on every file system that it writes to. apt
itself looks at the one of its downloads alone, and dpkg at none: a full one leaves packages
half-way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hosttune.facts.apt_get import CACHE
from hosttune.facts.base import UnknownFact, known_items, read_or_default
from hosttune.facts.kernel.boot_room import BOOT, tell_lack
from hosttune.facts.storage.room import room_at
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.apt_get import Transaction
    from hosttune.facts.storage.room import FreeRoom

_MIB = 1 << 20
NEW_KERNEL = regex(r"linux-image-(?:unsigned-)?(\d\S*)")
# What has an image built anew, by its maintainer scripts, the triggers of initramfs-tools or the
# hooks of kernels.
_REBUILDS = regex(
    r"linux-(?:image|modules|objects|signatures)-|nvidia-kernel-(?:common|dkms|support)"
    r"|(?:.*-)?(?<!no-)dkms(?:-.*)?$|"
    r"(?:intel|amd64)-microcode$|(?:linux-)?firmware-?|initramfs-tools|dracut|plymouth"
    r"|cryptsetup-initramfs|"
    r"(?:zfs|busybox|clevis)-initramfs$|mdadm$|lvm2$|udev$|kmod$|multipath-tools-boot$|open-iscsi$"
)
_COMPILED = regex(r"(?:^|-)(?<!no-)dkms(?:$|-)")
# times the image: the files that go into it, not compressed (mkinitramfs in /var/tmp); an estimate
_UNPACKED = 4
_BUILD = 512 * _MIB  # of NVIDIA's module by DKMS; an estimate
_FILES = 100  # of a package; an estimate
# of linux-headers-*: 11,700 and more (https://bugs.launchpad.net/bugs/1089195)
_FILES_OF_HEADERS = 15_000


@frozen
class _Need:
    """What is written to one place."""

    path: str
    size_bytes: int
    files: int
    what: str


def _list_needs(would: Transaction, facts: Facts) -> Iterator[_Need]:
    """Raises UnknownFact."""
    new = [name for name in would.after if name not in would.before]
    headers = sum(name.startswith("linux-headers-") for name in new)
    yield _Need(
        "/usr",
        would.growth_bytes,
        _FILES * len(new) + _FILES_OF_HEADERS * headers,
        "what is installed",
    )
    if would.download_bytes:
        yield _Need(CACHE, would.download_bytes, 0, "the download")
    if any(_COMPILED.search(name) for name in would.after):
        yield _Need("/var/lib/dkms", _BUILD, 0, "the build of the module")
    kernels = sum(bool(NEW_KERNEL.fullmatch(name)) for name in new)
    # A driver that goes has one built, too; a kernel that goes takes its own along.
    gone = [step.name for step in would.removed if not step.name.startswith("linux-")]
    boot = facts.boot_room
    if not (any(_REBUILDS.match(name) for name in (*would.after, *gone)) and boot.initrd_bytes):
        return
    # Those that are there are built anew one after the other, each beside the old one; one of a new
    # kernel stays.
    images = boot.initrd_bytes * (1 + kernels)
    what = (
        f"{kernels} new kernel{'s' * (kernels > 1)} with initial RAM disks"
        if kernels
        else "a new initial RAM disk"
    )
    yield _Need(BOOT, images + boot.kernel_bytes * kernels, 8 * (1 + kernels), what)
    yield _Need("/var/tmp", boot.initrd_bytes * _UNPACKED, 0, "the making of an initial RAM disk")


def find_lack(would: Transaction, facts: Facts) -> tuple[str, str]:
    """Which file system has no room for it, as a sentence, and the way out; both empty where there
    is room, or nothing is known of it.
    """
    # An unread /boot does not hide that another file system is full.
    needs = known_items(_list_needs(would, facts))
    if any(one.path == BOOT for one in needs) and (
        unmounted := read_or_default(lambda: facts.boot_room.unmounted, "")
    ):
        return unmounted, f"sudo mount {BOOT}\nrun it again"
    places: dict[str, tuple[FreeRoom, list[_Need]]] = {}
    for need in needs:
        try:
            room = room_at(facts, need.path)
        except UnknownFact:  # a file server's, an image's
            continue
        places.setdefault(room.target, (room, []))[1].append(need)
    for room, wanted in places.values():
        size, files = sum(one.size_bytes for one in wanted), sum(one.files for one in wanted)
        if room.free_bytes < size or room.free_files < files:
            is_size = room.free_bytes < size
            what = " with ".join(
                one.what for one in wanted if (one.size_bytes if is_size else one.files)
            )
            return tell_lack(room.target, room.free_bytes, room.free_files, size, what), _way_out(
                room, wanted, facts
            )
    return "", ""


def _way_out(room: FreeRoom, wanted: list[_Need], facts: Facts) -> str:
    if any(one.path == BOOT for one in wanted):
        return f"{facts.boot_room.way_out}\nrun it again"
    return (
        "sudo apt-get clean\n"
        f"see what fills it: sudo du -xh --max-depth=3 {quote(room.target)} | sort -h | tail -n "
        "30\n"
        "run it again"
    )
