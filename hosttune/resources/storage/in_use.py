"""What is in use now and makes trouble at the next boot: swap beside a kubelet, and mounts by hand
on a share.

Sources: systemd-gpt-auto-generator(8); https://github.com/systemd/systemd/issues/39459.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.containers.kubelet_swap import CONFIG, refuses_swap
from hosttune.facts.storage.fstab_lines import PATH
from hosttune.facts.storage.gpt_swap import find_auto_swaps
from hosttune.facts.storage.mounts import is_system, mount_below, unit_name
from hosttune.facts.storage.old_units import find_old_source
from hosttune.quoting import quote
from hosttune.resources.storage.fstab_boot import BootLine
from hosttune.values import join_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hosttune.facts import Facts

_OF_NO_DISK = frozenset({"autofs", "nsfs", "proc", "sysfs", "overlay"})


def refuse_swap(line: BootLine, path: str) -> BootLine:
    """The same with what the kubelet makes of a swap."""
    note = (
        f"{line.where} has the swap {path}: the kubelet does not start while swap is on "
        "(failSwapOn)"
    )
    seen = f"see what switches it on: systemctl status {quote(unit_name(path, 'swap'))}"
    todo = join_steps((
        f"on a node without swap: sudo swapoff {quote(path)}",
        f"take it out of {line.where}" if line.line else seen,
        f"on a node with swap: failSwapOn: false in {CONFIG}",
    ))  # fmt: skip
    return replace(line, note=note, way_out=todo)


def look_at_swap_in_use(facts: Facts, lines: Sequence[BootLine]) -> Iterator[BootLine]:
    """Swap that no line and no unit file names, as of zram, or of the type of its partition: the
    kubelet finds it.
    """
    swaps = attempt(lambda: facts.memory.swaps)
    is_named = any(one.target.startswith("swap ") for one in lines)
    if (
        facts.reader.persistent_only
        or is_named
        or not isinstance(swaps, tuple)
        or attempt(refuses_swap, facts) is not True
    ):
        return
    found = attempt(find_auto_swaps, facts)
    by_type = found if isinstance(found, tuple) else ()
    if swaps and swaps[0].path not in by_type:
        yield refuse_swap(BootLine(f"swap {swaps[0].path}", 0, file="/proc/swaps"), swaps[0].path)
        return
    for path in by_type:
        note = (
            f"{path} is a swap partition by its GPT type: without a line of fstab the next boot "
            "switches it on (systemd-gpt-auto-generator), and the kubelet does not start while "
            "swap is on (failSwapOn)"
        )
        now = f"sudo swapoff {quote(path)}" if any(one.path == path for one in swaps) else ""
        todo = join_steps(
            (now, f"sudo systemctl mask {quote(unit_name(path, 'swap'))}, or remove the partition")
        )
        yield BootLine(f"swap {path}", 0, file=path, note=note, way_out=todo)


def add_old_units(facts: Facts, lines: Iterable[BootLine]) -> Iterator[BootLine]:
    """The same with what systemd still has of an fstab that was changed since."""
    entries = {} if facts.reader.persistent_only else {one.line: one for one in facts.fstab.entries}
    for line in lines:
        entry = (
            entries.get(line.line) if line.file == PATH and not (line.fault or line.note) else None
        )
        if entry is None or not (old := find_old_source(facts, entry)):
            yield line
            continue
        note = (
            f"{line.where} names {entry.source}, and systemd still has {old} for {line.target}, as "
            f"it has not read the file since: it can unmount {line.target} while that disk is gone"
        )
        again = f"then mount it: sudo mount {quote(line.target)}" if line.is_absent else ""
        yield replace(line, note=note, way_out=join_steps(("sudo systemctl daemon-reload", again)))


def look_at_shutdown(facts: Facts) -> Iterator[BootLine]:
    """What is mounted by hand on what a server serves: systemd counts it among the disks, and takes
    the network down before it (systemd/systemd#39459).
    """
    mounts = attempt(lambda: facts.mounts.visible)
    if facts.reader.persistent_only or not isinstance(mounts, tuple):
        return
    named = {*facts.fstab.by_path, *facts.fstab.at, *facts.mount_units.by_path}
    found = []
    for one in mounts:
        above = mount_below(facts, one.target.rpartition("/")[0])
        is_local = not one.is_network and one.fstype not in _OF_NO_DISK and not one.is_of_user
        # not / of a diskless node
        is_on_share = above is not None and above.is_network and not is_system(above.target)
        if is_local and above and is_on_share and one.target not in named:
            found.append((one, above))
    if found:
        one, above = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        note = (
            f"{one.target} ({one.fstype}){more} is mounted on {above.target}, which a server "
            "serves, and no line of fstab has it: systemd counts it among the disks, and the next "
            "reboot can hang (ordering cycle)"
        )
        todo = (
            f"before a reboot: sudo umount {quote(one.target)}; to keep it, a line of fstab with "
            "_netdev"
        )
        yield BootLine(
            one.target, 0, note=note, way_out=todo, is_mounted=True, file="/proc/self/mountinfo"
        )
