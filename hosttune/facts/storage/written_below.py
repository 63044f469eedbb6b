"""What services write below a mount point while nothing is mounted there, and how to save it before
a mount hides it.

Sources: mount(8) (what is below a mount point is hidden), systemd.unit(5) (RequiresMountsFor=).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.reading import names_in
from hosttune.facts.services.data_folders import (
    PODMAN,
    DataFolder,
    is_within,
    running_by_folder,
    units_that_name,
    waits_for_mount,
)
from hosttune.facts.storage.failed_checks import find_failed_check
from hosttune.facts.storage.fstab_options import is_automount, is_on_demand
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.mount_units import mount_command
from hosttune.facts.storage.mounts import is_system, mount_below, unit_name
from hosttune.facts.storage.sources import find_fault, sources_of
from hosttune.facts.storage.ways import ways_of
from hosttune.host.masking.cleaned import clean
from hosttune.quoting import quote
from hosttune.values import join_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry

_MOST = 3  # names in a sentence
_LONGEST = 40  # characters of such a name
# that would start it again
_SOCKETS = {"docker.service": "docker.socket", "snapd.service": "snapd.socket"}
_MADE_BY_SYSTEM = frozenset({"lost+found"})
# folders that cannot be moved away
_IN_USE = frozenset({"/home", "/opt", "/srv", "/var/lib", "/var/cache"})
_OF_CLUSTERS = ("the kubelet", "Slurm")


def find_writers(
    facts: Facts, targets: Iterable[str], *, are_all_asked: bool = True
) -> tuple[DataFolder, ...]:
    """The folders of services that run at or below a mount point where nothing is mounted: those
    that are known, else, with `are_all_asked`, what the unit of any other names there.
    """
    places = [
        target for target in dict.fromkeys(targets) if target.startswith("/") and target != "/"
    ]
    index = running_by_folder(facts)
    found = [
        one
        for target in places
        for one in index.within(target)
        if not _is_on_another(facts, one.path, target)
    ]
    known = {one.unit for one in found}
    if are_all_asked:
        asked = [target for target in places if not is_system(target)]
        others = (one for target in asked for one in units_that_name(facts, target))
        found += [
            one
            for one in others
            if one.unit not in known and mount_below(facts, one.path) is not None
        ]
    return tuple(dict.fromkeys(found))


def _is_on_another(facts: Facts, path: str, target: str) -> bool:
    """Whether something else is mounted between the mount point and the folder."""
    mount = mount_below(facts, path)
    return mount is not None and is_within(mount.target, target)


def _names_below(facts: Facts, target: str) -> str:
    """What is in a folder over which something is to be mounted; nothing where that is not
    known.
    """
    if not target.startswith("/") or target == "/" or ways_of(facts).way(target)[1]:
        return ""
    names = attempt(names_in, facts.reader, target)
    found = (
        [name for name in names if name not in _MADE_BY_SYSTEM] if isinstance(names, tuple) else []
    )
    shown = [clean(name[:_LONGEST]) for name in found[:_MOST]]  # users may have given these names
    return ", ".join(shown) + (" ..." if len(found) > _MOST else "")


def find_unguarded(facts: Facts, entry: FstabEntry) -> tuple[DataFolder, ...]:
    """The folders on a mount of services that start without it: by its line a boot goes on, and
    their units do not ask for it.
    """
    required_by = _required_by(facts, entry)
    if required_by is None:
        return ()
    targets = dict.fromkeys((entry.path, entry.target))
    index = running_by_folder(facts)
    return tuple(
        one
        for one in dict.fromkeys(one for target in targets for one in index.within(target))
        if one.unit not in required_by
        and one.service != PODMAN  # its containers are units of their own
        and (mount := mount_below(facts, one.path)) is not None
        and mount.target in targets
        and not mount.is_read_only
        and not _is_guarded(facts, one, targets)
    )


def _required_by(facts: Facts, entry: FstabEntry) -> frozenset[str] | None:
    """The units that do not start without it, as far as its line says; None where no service starts
    without it.
    """
    if unit := facts.mount_units.find(entry):
        return None if unit.is_automounted or unit.is_required else frozenset(unit.needed_by)
    words = frozenset(entry.options)
    is_waited_for = not {"nofail", "bg"} & words and not is_on_demand(words)
    if is_automount(words) or (is_waited_for and not is_remote_to_systemd(entry.fstype, words)):
        return None
    return frozenset(
        word.partition("=")[2] for word in words if word.startswith("x-systemd.required-by=")
    )


def _is_guarded(facts: Facts, folder: DataFolder, targets: Iterable[str]) -> bool:
    try:
        return any(
            waits_for_mount(facts, folder.unit, target, unit_name(target)) for target in targets
        )
    except UnknownFact:
        return True


def describe_writers(folders: Iterable[DataFolder]) -> str:
    """`Docker (docker.service) writes to /data/docker, containerd (containerd.service) to
    /data/containerd`.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for one in folders:
        found.setdefault((one.service, one.unit), []).append(one.path)
    texts = [
        (_name_unit(service, unit), " and ".join(paths[:_MOST]))
        for (service, unit), paths in found.items()
    ]
    rest = f", and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return (
        ", ".join(
            f"{name} {'to' if n else 'writes to'} {paths}"
            for n, (name, paths) in enumerate(texts[:_MOST])
        )
        + rest
    )


def _name_unit(service: str, unit: str) -> str:
    return unit if service == unit else f"{service} ({unit})"


def describe_stop(folders: Iterable[DataFolder]) -> str:
    """How to stop them, and to take what they wrote out of the way of a mount at `target`."""
    listed = tuple(folders)
    own = [one for one in listed if one.service != PODMAN]
    units = dict.fromkeys(
        unit for one in own for unit in (_SOCKETS.get(one.unit, ""), one.unit) if unit
    )
    steps = [f"sudo systemctl stop {' '.join(map(quote, units))}"] if units else []
    steps += ["sudo podman stop --all"] if len(own) < len(listed) else []
    drained = "drain this node, then " if any(one.service in _OF_CLUSTERS for one in listed) else ""
    return f"{drained}stop what writes there, and its containers: {', '.join(steps)}"


def describe_rescue(folders: Iterable[DataFolder], target: str, step: str) -> str:
    """All that is to be done before `step`, which mounts something at `target`, and after it."""
    listed = tuple(folders)
    aside = f"{target}.below"
    paths = [quote(path) for path in dict.fromkeys(one.path for one in listed)]
    if is_system(target) or target in _IN_USE:
        way = (step, f"see what that hides, in /mnt{quote(target)}: sudo mount --bind / /mnt")
    elif target in {one.path for one in listed}:
        # Without -T mv would put the folder into one of that name that is there already.
        way = (
            f"keep it: sudo mv -T {quote(target)} {quote(aside)} && sudo mkdir {quote(target)}",
            step,
        )
    else:
        way = (
            f"keep it: sudo mkdir {quote(aside)} && sudo mv {' '.join(paths)} {quote(aside)}",
            step,
        )
    before = ("do not mount it yet, for that would hide what was written", describe_stop(listed))
    return join_steps(
        (*before, *way, "bring back what is needed, and start the services", describe_guard(listed))
    )


def describe_guard(folders: Iterable[DataFolder]) -> str:
    """The drop-ins with which they do not start without their disk."""
    found: dict[str, list[str]] = {}
    for one in folders:
        # systemd.syntax(7) takes quotes as a shell does, and % for a specifier
        found.setdefault(one.unit, []).append(quote(one.path).replace("%", "%%"))
    return join_steps(
        f"let it wait for the disk: sudo systemctl edit {quote(unit)}\n"
        f"and write there, below [Unit]: RequiresMountsFor={' '.join(paths)}"
        for unit, paths in list(found.items())[:_MOST]
    )


def tell_written(facts: Facts, entry: FstabEntry, word: str) -> str:
    """One of the texts that ExpectedMount has of a line: `below`, `writers`, `rescue`, `unguarded`,
    `guard`.
    """
    if word == "below":
        return _names_below(facts, entry.target)
    if word in {"unguarded", "guard"}:
        folders = find_unguarded(facts, entry)
        return (
            ""
            if not folders
            else describe_writers(folders)
            if word == "unguarded"
            else describe_guard(folders)
        )
    folders = find_writers(facts, (entry.target, entry.path))
    if not folders:
        return ""
    if word == "writers":
        holder = mount_below(facts, folders[0].path)
        return f"{describe_writers(folders)}, on the disk of {holder.target if holder else '/'}"
    found = find_fault(sources_of(facts), entry, ())
    mount = f"mount it: {mount_command(entry)}"
    before = found.way_out if found else find_failed_check(facts, entry)[1]
    return describe_rescue(folders, entry.target, join_steps((before, mount)))
