"""What the kernel log of this boot says of single devices and tables that stopped, or came back
again and again.

Kernel: drivers/nvme/host/pci.c (nvme_timeout, nvme_warn_reset, nvme_setup_io_queues),
drivers/gpu/drm/amd/amdgpu (amdgpu_device.c: `GPU reset(N) succeeded!`, `failed`, `end with ret`;
amdgpu_ras.c: ERREVENT_ATHUB_INTERRUPT), drivers/net/ethernet/mellanox/mlx5/core/health.c,
net/netfilter/nf_conntrack_core.c, fs/file_table.c, drivers/iommu/amd/iommu.c and intel/dmar.c,
drivers/pci/pcie/err.c (report_error_detected), net/core/dev.c (netdev_wait_allrefs: a line each ten
seconds). Lustre: ptlrpc/import.c (message 167, `Connection to`, `Connection restored to`). That its
console skips messages for ten minutes at most, and that mlx5 writes `firmware version` whenever it
sets a card up, is from memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, attempt
from hosttune.facts.kernel.kernel_log import OF_DEVICES, lines_of, message_of, newest_of_each
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    import re

    from hosttune.facts import Facts

T = TypeVar("T")
_MOST = 500  # lines that are kept of each kind and device, the newest
_DAY_S = 86400
_SETTLED_S = 600  # after the boot: firmware may still use a GPU when the IOMMU begins to translate
_RECOVERY_S = 300  # a server of Lustre that is taken over answers again within minutes
_SKIPPED_S = 600  # so long the console of Lustre may leave out that a connection is back
_HELD_S = 600  # in which the kernel says 60 times that it waits for an interface
_HELD_LINES = 30
_STILL_S = 180
_ONE_RESET_S = 10  # commands that time out together are one reset
_IS_OURS = regex(OF_DEVICES.removeprefix("|"))
_SLOT = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_NVME = regex(
    r"nvme (nvme\d{1,9}): (?:I/O .{1,100}\btimeout, reset controller|controller is down; will reset"
    r"|(\d{1,5}/\d{1,5}/\d{1,5} default/read/poll queues)"
    r"|(Disabling device after reset failure: -\d{1,4}"
    r"|Removing after probe failure status: -\d{1,4}))"
)
_AMD = regex(
    rf"amdgpu {_SLOT}: (?:amdgpu: )?(?:\{{\d+\}})?(?:(GPU reset\(\d+\) succeeded)"
    rf"|(GPU reset\(\d+\) failed|GPU reset "
    r"end with ret = -\d+|device lost from bus|Fatal error during GPU init)"
    r"|([Uu]ncorrectable hardware error\(ERREVENT_\w{1,40}\)))"
)
# and let it go (amdgpu_device_init)
NOT_SET_UP = "the driver could not set it up (Fatal error during GPU init)"
_AMD_LOADED = regex(r"(?:\[drm\] )?amdgpu kernel modesetting enabled")
_MLX5 = regex(
    rf"mlx5_core {_SLOT}: (?:\w+:\d+:\(pid \d+\): )?(?:(health rec?overy succee?ded"
    rf"|firmware version: )"
    r"|(device's health compromised|Fatal error \d+ detected|health recovery (?:failed"
    r"|flow aborted))"
    r"|synd 0x\w+: (?!success)(.{1,60}))"
)
_LUSTRE = regex(
    r"Lustre(?:Error)?: (?:.{1,160}: )?This client was evicted by ([\w.@:-]{1,128}); in progress"
)
_LUSTRE_LINK = regex(
    r"Lustre(?:Error)?: (?:[\w-]{1,8}: )?(([\w-]{1,64}?)-(?:MDT|OST)[0-9a-f]{4})-(?:mdc"
    r"|osc)-[0-9a-f]{8,16}: "
    r"Connection (?:(to) [\w-]{1,64} \(at |restored)"
)
# fs/ceph/mds_client.c (handle_session), net/ceph/ceph_common.c; newer kernels name cluster and
# client before it.
_CEPH = regex(
    r"ceph: (?:\[([0-9a-f-]{36}) \d{1,20}\]: )?(?:(mds\d{1,5}) (?:reconnect denied"
    r"|rejected session)"
    r"|auto reconnect after )"
    r"|libceph: client\d{1,20} fsid ([0-9a-f-]{36})"
)
# megasas_decode_evt() of drivers/scsi/megaraid: number, time, locale and class, then the words of
# the firmware.
_VOLUME = regex(
    rf"megaraid_sas {_SLOT}: \d{{1,10}} \([^)]{{1,60}}\) - (VD \w{{1,4}}/\w{{1,4}}) is now "
    r"((?:PARTIALLY )?DEGRADED|OFFLINE|OPTIMAL)"
)
# Of a network namespace, which any user has, newer kernels say `table full in netns NUMBER,
# dropping packet`.
_CONNTRACK = regex(r"nf_conntrack: (?:nf_conntrack: )?table full(?! in netns )")
_FILES = regex(r"VFS: file-max limit \d+ reached")
_IOMMU = regex(
    rf"(?:[\w-]{{1,64}} {_SLOT}: )?AMD-Vi: Event logged \[IO_PAGE_FAULT (?:device="
    rf"([0-9a-f:.]{{7,16}}) )?"
    r"|DMAR: \[DMA (?:Read|Write)[^\]]{0,40}\] Request device \[([0-9a-f:.]{7,16})\] fault addr"
)
# NVIDIA's driver has no handler for errors of PCI Express, so that the kernel leaves the GPU as the
# error left it.
_UNRECOVERED = regex(rf"nvidia {_SLOT}: AER: can't recover ")
_HELD = regex(r"unregister_netdevice: waiting for (\S{1,15}) to become free")

_KINDS = (
    _NVME, _AMD, _AMD_LOADED, _MLX5, _LUSTRE, _LUSTRE_LINK, _CEPH, _VOLUME, _CONNTRACK, _FILES,
    _IOMMU, _UNRECOVERED, _HELD,
)  # fmt: skip


@frozen
class ResetDrive(Fact):
    """An NVMe controller that did not answer and was reset in the last day."""

    name: str  # nvme1
    resets: int  # of its controller, as the log has them


@frozen
class DeviceLog(Subject):
    """What does not count as over. Raises UnknownFact if nothing is found and lines of the last day
    may be missing.
    """

    @fact
    def reset_drives(self) -> tuple[ResetDrive, ...]:
        return self.facts.kernel_log.certain(
            resets_in(
                (at, match[1], bool(match[2])) for at, match in self._recent(_NVME) if not match[3]
            )
        )

    @fact
    def given_up(self) -> tuple[str, ...]:
        """NVMe controllers that the driver took out of use in this boot, and why: nvme1 (WORDS)."""
        return self.facts.kernel_log.certain(given_up_in(text for _, text in self._timed))

    @fact
    def amd_faults(self) -> Mapping[str, str]:
        """By slot why a GPU of AMD's does not compute, since the driver or a reset worked last."""
        return self.facts.kernel_log.certain(amd_faults_in(text for _, text in self._timed))

    @fact
    def mlx5_faults(self) -> Mapping[str, str]:
        """By slot what a network card says of its firmware, since it was set up last."""
        return self.facts.kernel_log.certain(mlx5_faults_in(text for _, text in self._timed))

    @fact
    def evicted_by(self) -> tuple[str, ...]:
        """Targets of Lustre that threw this client out in the last day."""
        return self.facts.kernel_log.certain(
            tuple(dict.fromkeys(match[1] for _, match in self._recent(_LUSTRE)))
        )

    @fact
    def lost_targets(self) -> tuple[str, ...]:
        """Of mounted Lustre: scratch-MDT0000, whose connection was lost in the last day, no
        more.
        """
        return self.facts.kernel_log.certain(
            lost_in(self._recent(_LUSTRE_LINK), _mounted_lustre(self.facts), self._now)
        )

    @fact
    def denied_by(self) -> tuple[str, ...]:
        """Servers of a mounted CephFS that threw this client out, since its last connection."""
        return self.facts.kernel_log.certain(
            denied_in(text for _, text in self._timed) if _mounts_ceph(self.facts) else ()
        )

    @fact
    def bad_volumes(self) -> tuple[str, ...]:
        """Of RAID controllers, by their last word: `VD 01/1 of 0000:18:00.0 is DEGRADED`."""
        return self.facts.kernel_log.certain(bad_volumes_in(text for _, text in self._timed))

    @fact
    def conntrack_full(self) -> int:
        """How often connections were dropped for a full table in the last day, as far as that is
        logged.
        """
        return self.facts.kernel_log.certain(len(self._recent(_CONNTRACK)))

    @fact
    def files_exhausted(self) -> bool:
        """Programs could open no file in the last day, as fs.file-max was reached."""
        return self.facts.kernel_log.certain(bool(self._recent(_FILES)))

    @fact
    def iommu_faults(self) -> Mapping[str, int]:
        """By slot the accesses that the IOMMU stopped in the last day."""
        return self.facts.kernel_log.certain(
            _count_faults(
                [
                    one
                    for one in self._recent(_IOMMU)
                    if one[0] is None or one[0] >= self._find_settled()
                ]
            )
        )

    @fact
    def unrecovered(self) -> tuple[str, ...]:
        """GPUs that the kernel could not recover from an error of PCIe in the last day."""
        return self.facts.kernel_log.certain(
            tuple(dict.fromkeys(match[1] for _, match in self._recent(_UNRECOVERED)))
        )

    @fact
    def held_interfaces(self) -> tuple[str, ...]:
        """Network interfaces that the kernel has waited for, for minutes, to delete them."""
        return self.facts.kernel_log.certain(held_in(self._recent(_HELD), self._now))

    @fact
    def _timed(self) -> tuple[tuple[float | None, str], ...]:
        return tuple(map(message_of, self.facts.kernel_log.lines(choose_lines)))

    @fact
    def _now(self) -> float:
        return self.reader.now()

    def _recent(self, pattern: re.Pattern[str]) -> list[tuple[float | None, re.Match[str]]]:
        """The matches of the last day, with their times."""
        now = self._now
        # A line without a time may be of today. Leaving it out would turn a fault into "none".
        near = ((at, text) for at, text in self._timed if at is None or now - at <= _DAY_S)
        return [(at, match) for at, text in near if (match := pattern.match(text))]

    def _find_settled(self) -> float:
        booted = attempt(lambda: self.facts.kernel.booted_at)
        return booted + _SETTLED_S if isinstance(booted, int) else 0.0


def choose_lines(log: str) -> tuple[str, ...]:
    """The lines of a kernel log that speak of these things, of each device the newest."""
    rows = ((one, message_of(one)[1]) for one in lines_of(log))
    return tuple(
        newest_of_each(
            ((_kind_of(words), one) for one, words in rows if _IS_OURS.match(words)), _MOST
        )
    )


def _kind_of(words: str) -> tuple[int, str]:
    """Which of the patterns a line has, and the device that it names."""
    found = ((number, match) for number, one in enumerate(_KINDS) if (match := one.match(words)))
    number, match = next(found, (-1, None))
    return number, next(filter(None, match.groups()), "") if match else ""


def _mounted_lustre(facts: Facts) -> frozenset[str]:
    """The names of the file systems of Lustre that are mounted: `scratch` of
    `10.0.0.1@tcp:/scratch/sub`.
    """
    sources = (one.source.partition(":/")[2] for one in facts.mounts.all if one.fstype == "lustre")
    return frozenset(rest.partition("/")[0] for rest in sources)


def _mounts_ceph(facts: Facts) -> bool:
    return any(one.fstype == "ceph" for one in facts.mounts.all)


def denied_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Metadata servers of CephFS that threw this client out, since the kernel made its last client
    of their cluster, as for a mount. Older kernels name no cluster there: then a client ends it
    where all clients are of one cluster.
    """
    found: dict[tuple[str, str], None] = {}
    clusters: set[str] = set()
    for text in texts:
        if (match := _CEPH.match(text)) is None:
            continue
        of, server, made = match.groups(default="")
        if server:
            found[of, server] = None
            continue
        clusters |= {made} - {""}
        again = made or of
        found = {one: None for one in found if one[0] != again and (one[0] or len(clusters) > 1)}
    return tuple(dict.fromkeys(server for _, server in found))


def held_in(matches: Iterable[tuple[float | None, re.Match[str]]], now: float) -> tuple[str, ...]:
    """Interfaces for which the kernel waits now, and did so for most of the last minutes: a short
    wait is no fault.
    """
    found: dict[str, list[float]] = {}
    for at, match in matches:
        if at is None or now - at <= _HELD_S:
            found.setdefault(match[1], []).append(now if at is None else at)
    return tuple(
        name
        for name, seen in found.items()
        if len(seen) >= _HELD_LINES and now - max(seen) <= _STILL_S
    )


def bad_volumes_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Volumes of RAID controllers of which the last line does not say that they are optimal
    again.
    """
    found: dict[str, str] = {}
    for text in texts:
        if match := _VOLUME.match(text):
            found[f"{match[2]} of {match[1]}"] = match[3]
    return tuple(
        f"{name} is {state}" for name, state in sorted(found.items()) if state != "OPTIMAL"
    )


def lost_in(
    matches: Iterable[tuple[float | None, re.Match[str]]], mounted: Container[str], now: float
) -> tuple[str, ...]:
    """Targets of the file systems in `mounted` whose connection was lost for minutes. What came
    back of a file system clears all of it, as the console may skip the others; so does a loss soon
    after that, whose end it may skip.
    """
    lost: dict[str, str] = {}
    restored: dict[str, float] = {}
    for at, match in matches:
        target, name, is_lost = match.groups()
        if not is_lost:
            restored[name] = at or 0.0
            lost = {one: owner for one, owner in lost.items() if owner != name}
        elif at is None or (
            now - at >= _RECOVERY_S and at - restored.get(name, -_SKIPPED_S) >= _SKIPPED_S
        ):
            lost[target] = name
    return tuple(target for target, name in lost.items() if name in mounted)


def resets_in(named: Iterable[tuple[float | None, str, bool]]) -> tuple[ResetDrive, ...]:
    """How often each controller was reset, by the times and names of the lines that say so. The
    third value is of a line that says that a controller is set up: what comes after it is another
    reset, also where no line has a time.
    """
    found: dict[str, int] = {}
    last: dict[str, float] = {}
    for at, name, is_set_up in named:
        moment = at or 0.0
        if is_set_up:
            last.pop(name, None)
            continue
        if moment - last.get(name, -_ONE_RESET_S) >= _ONE_RESET_S:
            found[name] = found.get(name, 0) + 1
        last[name] = moment
    return tuple(ResetDrive(name, resets) for name, resets in sorted(found.items()))


def given_up_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The NVMe controllers of which the last line is that the driver gave them up: none that was
    set up since.
    """
    found: dict[str, str] = {}
    for text in texts:
        if (match := _NVME.match(text)) and match[3]:
            found[match[1]] = match[3]
        elif match and match[2]:
            found.pop(match[1], None)
    return tuple(f"{name} ({words})" for name, words in found.items())


def amd_faults_in(texts: Iterable[str]) -> Mapping[str, str]:
    """By slot the worst that was logged since the driver was loaded, or the GPU was reset, with
    success.
    """
    found: dict[str, str] = {}
    for text in texts:
        if _AMD_LOADED.match(text):
            found.clear()
        elif match := _AMD.match(text):
            slot, worked, failed, error = match.groups()
            if worked:
                found.pop(slot, None)
            elif failed:
                words = f"the driver could not reset it ({failed})" if "reset" in failed else failed
                found[slot] = NOT_SET_UP if "init" in failed else words
            elif found.get(slot, NOT_SET_UP) == NOT_SET_UP:
                found[slot] = f"{error}, and no reset of it succeeded since"
    return found


def mlx5_faults_in(texts: Iterable[str]) -> Mapping[str, str]:
    """By slot what a card last reported of its firmware; none for one that was set up since."""
    found: dict[str, str] = {}
    for text in texts:
        if match := _MLX5.match(text):
            slot, worked, failed, syndrome = match.groups()
            if worked:
                found.pop(slot, None)
            elif failed:
                found.setdefault(slot, failed)
            elif slot in found:
                found[slot] = syndrome.strip()
    return found


def _count_faults(matches: Sequence[tuple[float | None, re.Match[str]]]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for _, match in matches:
        slot = match[1] or match[2] or match[3] or ""
        # Some of these lines have no domain, and the other facts name a device with its domain.
        slot = slot if slot.count(":") == 2 else f"0000:{slot}"
        found[slot] = found.get(slot, 0) + 1
    return found
