"""Units of file systems, disks and swap that failed in this boot, and that no line of fstab and no
unit file is of: the next boot fails at the same.

Sources: systemd-fstab-generator(8), zfs-mount-generator(8), systemd-fsck@.service(8), quotaon(8);
of ext4 with the feature quota the kernel switches quotas on by itself, at which quotaon ends with
`File exists` (https://github.com/linuxmuster/linuxmuster-base7/issues/197,
https://github.com/systemd/systemd/issues/29905).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.signs import failed_by_itself
from hosttune.facts.storage.mount_units import device_path
from hosttune.facts.storage.mounts import target_of, unit_name
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.resources.storage.fstab_boot import BootLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hosttune.facts import Facts

_OF_STORAGE = regex(
    r"(?:quotaon(?:@.+)?|systemd-(?:remount-fs|fsck(?:-root|@.+)?|growfs(?:-root|@.+)?|makefs@.+"
    r"|mkswap@.+)"
    r"|systemd-cryptsetup@.+|zfs-(?:mount|import-.+|load-.+)|lvm2-monitor|mdmonitor|mdadm-.+"
    r"|multipathd"
    r"|iscsid|open-iscsi|blk-availability)\.service|.+\.(?:mount|swap)"
)
# of programs, users and the kernel
_OTHERS = regex(r"(?:run|snap|sys|proc|dev|tmp|media|var-lib)\b.*\.mount")
_WAITS = {  # for the network: how to see what is not online, and how an interface is left out
    "systemd-networkd-wait-online.service": (
        "networkctl",
        (
            "write optional: true for it in netplan, or RequiredForOnline=no in [Link] of its "
            ".network file"
        ),
    ),
    "NetworkManager-wait-online.service": (
        "nmcli device",
        "let no boot start it: nmcli connection modify NAME connection.autoconnect no",
    ),
}
_QUOTA, _QUOTAS = "quotaon", frozenset({"usrquota", "grpquota"})
_MOST = 8


def look_at_failed_units(facts: Facts, lines: Sequence[BootLine]) -> Iterator[BootLine]:
    """Nothing where systemd does not answer, or in an image."""
    failed = (
        {}
        if facts.reader.persistent_only
        else attempt(failed_by_itself, facts.reader, are_loaded=True)
    )
    if not isinstance(failed, Mapping) or not failed:
        return
    for name in sorted(_WAITS.keys() & failed.keys()):
        look, leave_out = _WAITS[name]
        note = (
            f"{name} failed in this boot: each boot waits for the network until its time limit (2 "
            "minutes if not set)"
        )
        yield BootLine(
            name,
            0,
            note=note,
            way_out=f"see which interface never comes up: {look}\n{leave_out}",
            file=name,
        )
    # What a line or a unit file is of is judged there: one cause is shown once.
    named = {unit_name(one.target) for one in lines if one.target.startswith("/")}
    devices = {device_path(one.source) for one in facts.fstab.entries}
    named |= {unit_name(one, "swap") for one in devices}
    named |= {
        f"systemd-{work}@{unit_name(one, 'service')}"
        for one in devices
        for work in ("fsck", "makefs", "mkswap")
    }
    named |= {f"systemd-growfs@{unit_name(one.path, 'service')}" for one in facts.fstab.entries}
    named |= {unit_name(one.path) for one in facts.fstab.entries if one.path.startswith("/")}
    named |= {one.name for one in facts.mount_units.all}
    found = (one for one in failed if _OF_STORAGE.fullmatch(one) and not _OTHERS.fullmatch(one))
    found = (one for one in found if _is_of_boot(failed[one]))
    for name in [one for one in found if one not in named][:_MOST]:
        if name.startswith(_QUOTA):
            yield _explain_quota(facts, name)
            continue
        note = (
            f"{name} failed in this boot, and no line of /etc/fstab is of it: the next boot fails "
            "there again"
        )
        todo = f"see why: systemctl status {quote(name)}; sudo journalctl -b -u {quote(name)}"
        yield BootLine(name, 0, note=note, way_out=todo, file=name)


def _is_of_boot(unit: Mapping[str, str]) -> bool:
    """Whether a boot starts it, or its automount; also if systemd does not tell. Any user can start
    what listens on a socket for all (iscsid, multipathd), and mount with FUSE.
    """
    wanted = unit.get("WantedBy") or unit.get("RequiredBy")
    return bool(
        wanted
        or not unit
        or any(word in unit.get("TriggeredBy", "") for word in (".automount", ".timer"))
    )


def _explain_quota(facts: Facts, name: str) -> BootLine:
    quoted = (one.path for one in facts.fstab.entries if not _QUOTAS.isdisjoint(one.options))
    target = target_of(name.partition("@")[2]) if "@" in name else next(quoted, "/")
    at = attempt(lambda: facts.mounts.at)
    mount = at.get(target) if isinstance(at, Mapping) else None
    device = mount.source if mount else f"$(findmnt -no SOURCE {quote(target)})"
    note = f"{name} failed in this boot, as it does in each"
    todo = (
        "see whether it has the feature quota: sudo tune2fs -l "
        f"{quote(device) if mount else device}\n"
        "if so, the kernel has them on by itself: take usrquota and grpquota out of the line of "
        f"{quote(target)}\n"
        f"if not, make the files of quotas: sudo quotacheck -cugm {quote(target)}"
    )
    return BootLine(name, 0, note=note, way_out=todo, file=name)
