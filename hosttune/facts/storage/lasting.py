"""Whether a change is there after the next boot: / of a diskless node or a live system is in
memory.

Sources: systemd-volatile-root.service(8); kernel, Documentation/filesystems/overlayfs.rst
(upperdir); dracut (modules.d/90dmsquash-live: live-rw); systemd-machine-id-setup(1) for a machine
id of one boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.storage.mounts import mount_of
from hosttune.host.known.file_systems import IN_MEMORY, LAYERED
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount

# over an empty file that it cannot write systemd mounts a machine id of only this boot: with it, no
# note would last
_LASTING = ("/", "/etc", "/etc/machine-id", "/var/lib/hosttune/ready.json")
# live-rw: dracut's copy-on-write over an image
_RAM_DISK = regex(r"/dev/(?:ram|zram)\d+$|/live-rw$")


def why_nothing_lasts(facts: Facts) -> str:
    """Why a change, or the note of a reboot, would not last over a boot, or that it is not known;
    empty if both do.
    """
    try:
        mounts = (facts.mounts.root, *(mount_of(facts.mounts.visible, path) for path in _LASTING))
    except UnknownFact as unreadable:
        return f"it is not known what / is: {unreadable.reason}"
    return next((why for one in mounts if one and (why := _why_in_memory(one))), "")


def volatile_root(facts: Facts) -> str:
    """The sentence for a host whose / is in memory; empty for any other, and for an image or a
    container.
    """
    # Where this is not known, the sentence is left out: it says for certain that all changes are
    # lost.
    has_own_root = attempt(lambda: not (facts.host.is_image or facts.host.is_container)) is True
    root = attempt(lambda: facts.mounts.root) if has_own_root else None
    if root is None or isinstance(root, Unreadable) or not (why := _why_in_memory(root)):
        return ""
    upper = next(
        (one for one in root.super_options if one.startswith("upperdir=")), "its upper layer"
    )
    unless = f", unless {upper} is on a disk" if root.fstype in LAYERED else ""
    return (
        f"{why}: what is changed here is gone after the next boot{unless}. Change the image that "
        "this host boots."
    )


def _why_in_memory(mount: Mount) -> str:
    """`/ is tmpfs`; empty for a mount that is not in memory."""
    if mount.fstype in IN_MEMORY | LAYERED:
        return f"{mount.target} is {mount.fstype}"
    return f"{mount.target} is {mount.source}" if _RAM_DISK.search(mount.source) else ""
