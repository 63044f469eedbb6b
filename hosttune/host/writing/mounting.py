"""Mounting one disk on a folder, and the way back. Never by force, never what is in use."""

from __future__ import annotations

import os

from hosttune.errors import HosttuneError, Refused
from hosttune.host.process import Ended, act
from hosttune.host.reading.mountinfo import MountLine
from hosttune.host.writing.folders import opened_parent
from hosttune.host.writing.mountapi import find_topmost
from hosttune.quoting import quote
from hosttune.values import Absent

TIMEOUT_S = 60.0


def mount(device: str, target: str, fstype: str, options: str) -> None:
    """Mount a block device on a folder, as its line in fstab says it. Raises Refused when it does
    not get there.
    """
    with opened_parent("/", target):
        pass  # no one else may turn the way to it
    words = ("--types", fstype, "--options", options, "--source", device, "--target", target)
    _run(("mount", *words), f"{device} cannot be mounted at {target}")
    found = find_topmost(target)  # with `nofail`, mount(8) succeeds without a device as well
    if not _is_device(found, device):
        raise HosttuneError(f"{target}: {found.source} is mounted there, not {device}")


def unmount(target: str) -> None:
    """Unmount what was mounted last at `target`; never lazily. Raises Refused while someone uses
    it, and where others than root can turn the way to it.
    """
    find_topmost(target)
    with opened_parent("/", target):
        pass
    hint = f"see who: fuser -vm {quote(target)}; then undo again"
    _run(("umount", "--", target), f"{target} cannot be unmounted", hint)


def _run(argv: tuple[str, ...], message: str, hint: str = "") -> None:
    answer = act(argv, timeout_s=TIMEOUT_S)
    if isinstance(answer, Absent):
        raise Refused(f"{message}: {argv[0]} is not installed")
    if isinstance(answer, Ended):
        raise Refused(f"{message}: {answer.detail}", hint=hint)
    if answer.status != 0:
        raise Refused(f"{message}: {answer.errors.strip() or f'status {answer.status}'}", hint=hint)


def _is_device(mount: MountLine, device: str) -> bool:
    """By number; btrfs and bcachefs have numbers of their own, so by the device that the kernel
    names.
    """
    try:
        number = os.stat(device).st_rdev
    except OSError:
        return False
    numbered = f"{os.major(number)}:{os.minor(number)}"
    # the source of FUSE is a user's word, and may be a dead place
    if mount.device == numbered or mount.fuse_user >= 0:
        return mount.device == numbered
    return os.path.realpath(mount.source.partition(":")[0]) == os.path.realpath(device)
