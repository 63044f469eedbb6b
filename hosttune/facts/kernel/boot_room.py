"""Whether /boot has room for the initial RAM disk that an update of a kernel or a driver writes
there; which kernels may go where it has not.

initramfs-tools writes the new image beside the old one and renames it (update-initramfs 0.142,
generate_initramfs), so a full disk leaves the old one. dracut copies it over the old one, and
removes that where the copy fails (dracut 059): then the kernel has none. A new kernel brings an
image of its own, and where that does not fit, none.

apt keeps the running kernel and the two newest, in `autoremove`, and no other: not one that GRUB is
set to start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.kernel.initramfs import find_generator, list_images
from hosttune.facts.kernel.kernel import flavour_of, select_metapackages
from hosttune.facts.reading import names_in, require_sure
from hosttune.facts.storage.room import FreeRoom, room_at, size_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable, join_steps

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

BOOT = "/boot"
_MIB = 1 << 20
# Ubuntu's images of a server have 50 to 80 MiB (own look at 22.04 and 24.04)
_USUAL_INITRD = 64 * _MIB
_USUAL_KERNEL = 24 * _MIB  # a kernel and its symbols there (vmlinuz, System.map), the same
_FILES = 8  # of a kernel and its image, the one in the making included
# Copies that nothing boots: of DKMS and initramfs-tools of the image before, and one that an
# interrupted run left.
_COPY = regex(r"initrd\.img-\S+\.(?:new|old-dkms|dpkg-bak)")
_OF_KERNEL = regex(r"linux-(?:image|modules|objects|signatures)-")
# of a package name, up to the release of its kernel: linux-modules-nvidia-580-server-open-6.8.0-...
_MOST_PARTS = 12


@frozen
class BootRoom(Subject):
    """Of the file system that holds /boot what is left, and what one more image needs."""

    @fact
    def target(self) -> str:
        """Where it is mounted: /boot, or / where it has no file system of its own."""
        return self._room.target

    @fact
    def free_bytes(self) -> int:
        """To root."""
        return self._room.free_bytes

    @fact
    def free_files(self) -> int:
        """Inodes that are free there."""
        return self._room.free_files

    @fact
    def initrd_bytes(self) -> int:
        """Of the largest image there; what is usual where none is; 0 where no package builds
        any.
        """
        there = list_images(self.reader)
        if largest := max(
            (_read_size(self.reader, f"{BOOT}/initrd.img-{release}") for release in there),
            default=0,
        ):
            return largest
        is_built = (
            there
            or find_generator(self.reader) is not ABSENT
            or any(packages_of(self.facts, one) for one in self.facts.boot.kernels)
        )
        return _USUAL_INITRD if is_built else 0

    @fact
    def kernel_bytes(self) -> int:
        """Of the largest kernel with its symbols."""
        sizes = (
            _read_size(self.reader, f"{BOOT}/vmlinuz-{one}")
            + _read_size(self.reader, f"{BOOT}/System.map-{one}")
            for one in self.facts.boot.kernels
        )
        return max(sizes, default=0) or _USUAL_KERNEL

    # why what is written to /boot now is not what boots, as a sentence; empty where it is
    unmounted: str = read_with(lambda self: _describe_unmounted(self.facts))

    @fact
    def spare(self) -> tuple[str, ...]:
        """The kernels that neither run nor boot next, only older ones where there are any.

        None where it is not known what boots next.
        """
        running, following = self.facts.kernel.release, _next(self.facts)
        if not following:
            return ()
        left = [
            one
            for one in self.facts.boot.kernels
            if one not in (running, following) and packages_of(self.facts, one)
        ]
        older = [one for one in left if compare_versions(one, running) < 0]
        return tuple(older or left)

    @fact
    def no_image(self) -> str:
        """The kernel that boots next, where it has no image and all the others have one; else
        empty.
        """
        following, kernels = self.facts.boot.next_kernel, self.facts.boot.kernels
        there = {
            one
            for one in list_images(self.reader)
            if _read_size(self.reader, f"{BOOT}/initrd.img-{one}") > 0
        }
        others = {one for one in kernels if one != following}
        return (
            following if following and following not in there and others and others <= there else ""
        )

    @property
    def is_full(self) -> bool:
        """Whether a new image does not fit."""
        return bool(self.initrd_bytes) and (
            self.free_bytes < self.initrd_bytes or self.free_files < _FILES
        )

    @property
    def told(self) -> str:
        """Of a full one: what is left and what is needed, as a sentence."""
        return tell_lack(
            self.target,
            self.free_bytes,
            self.free_files,
            self.initrd_bytes,
            "a new initial RAM disk",
        )

    @property
    def way_to_image(self) -> str:
        """What a person does where the kernel that boots next has no image."""
        return join_steps((
            "do not reboot before this is done", self.way_out if self.is_full else "",
            "" if self.is_full else self._completion,
            f"make the image: sudo update-initramfs -c -k {quote(self.no_image)}",
            "write it into the boot menu: sudo update-grub",
        ))  # fmt: skip

    @property
    def _completion(self) -> str:
        """What ends an installation that stopped half-way for want of room."""
        packages = self.facts.packages
        return f"let dpkg end what it began: {packages.repair}" if packages.unfinished else ""

    @fact
    def way_out(self) -> str:
        """Of a full one: what a person types."""
        ways = make_room(self.facts, self._room, self.spare, _list_copies(self.reader, self.facts))
        return join_steps((ways, self._completion))

    @fact
    def _room(self) -> FreeRoom:
        return room_at(self.facts, BOOT)


def tell_lack(target: str, free_bytes: int, free_files: int, needed_bytes: int, what: str) -> str:
    """What is left where, and what for it does not do."""
    if free_bytes < needed_bytes:
        return (
            f"{target} has {size_text(free_bytes)} left, and {what} needs "
            f"{size_text(needed_bytes)} there"
        )
    return f"{target} has room for {free_files} more files (inodes), too few for {what}"


def _read_size(reader: Reader, path: str) -> int:
    stat = require_sure(reader.stat(path))
    return stat.size if isinstance(stat, Stat) else 0


def _describe_unmounted(facts: Facts) -> str:
    there = next(
        (one for one in facts.mounts.expected if one.target == BOOT and not one.is_mounted), None
    )
    if there is None:
        return ""
    return (
        f"line {there.line} of /etc/fstab mounts {BOOT}, and nothing is mounted there: a new "
        "kernel or initial RAM disk would go where no boot looks for it"
    )


def _next(facts: Facts) -> str:
    """The kernel that boots next; empty where that is not known."""
    found = attempt(lambda: facts.boot.next_kernel)
    return "" if isinstance(found, Unreadable) else found


def packages_of(facts: Facts, kernel: str) -> tuple[str, ...]:
    """The packages of one kernel with its modules that dpkg has, whole or not; none of a kernel
    that was built here.
    """
    return tuple(_names_by_kernel(facts).get(kernel, ()))


@lru_cache(maxsize=1)  # a record can have many kernels and many packages
def _names_by_kernel(facts: Facts) -> Mapping[str, Sequence[str]]:
    kernels = frozenset(facts.boot.kernels)
    found: dict[str, list[str]] = {}
    for name in sorted(facts.packages.entries):
        if not _OF_KERNEL.match(name) or facts.packages[name].status in (
            "config-files",
            "not-installed",
        ):
            continue
        parts = name.split("-", _MOST_PARTS)
        releases = ("-".join(parts[at:]) for at in range(2, len(parts)))
        if release := next((one for one in releases if one in kernels), ""):
            found.setdefault(release, []).append(name)
    return found


def _list_copies(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """None while dpkg may be making one."""
    found = tuple(f"{BOOT}/{name}" for name in names_in(reader, BOOT) if _COPY.fullmatch(name))
    return () if facts.packages.is_interrupted else found


def make_room(facts: Facts, room: FreeRoom, spare: tuple[str, ...], copies: tuple[str, ...]) -> str:
    """Commands that ask before they remove, a step each; none of them takes what runs or boots
    next.
    """
    running, following = facts.kernel.release, _next(facts)
    kept = f"{running} runs" + (
        f", {following} boots next" if following not in ("", running) else ""
    )
    ways = ["sudo apt-get clean"] if room.target != BOOT else []
    ways += [f"sudo rm {' '.join(map(quote, copies))}"] * bool(copies)
    if not spare:
        why = kept if following else f"{kept}, and which one boots next is not known"
        look = f"see what else is there: sudo du -xah {quote(room.target)} | sort -h | tail -n 30"
        return "\n".join([*ways, f"no kernel can go ({why}): {look}"])
    if following in (running, facts.boot.kernels[-1]):
        ways.append("sudo apt-get autoremove --purge")
    names = [name for one in spare for name in packages_of(facts, one)]
    ways.append(
        f"{'where that is not enough, ' if ways else ''}sudo apt-get purge "
        f"{' '.join(map(quote, names))}"
    )
    newest = [one for one in spare if one == facts.boot.kernels[-1]]
    meta = select_metapackages(facts.packages.names, flavour_of(running)) if newest else ()
    if meta:  # it depends on the newest kernel, and goes with it
        ways.append(
            f"once there is room, sudo apt-get install {quote(f'linux-image-{max(meta, key=len)}')}"
        )
    *before, last = ways
    return "\n".join((*before, f"{last} (keep: {kept})"))
