"""systemd-oomd: whether it runs, below which units it kills, and which GPU work lies there.

It watches the units whose ManagedOOMSwap= or ManagedOOMMemoryPressure= is `kill`, and kills one control group below
such a unit, with all that is in it; ManagedOOMPreference=avoid or omit, of a group that root owns, spares that group
(systemd-oomd.service(8), systemd.resource-control(5)). Ubuntu's desktop sets it for -.slice and user@.service.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Process, Reader

SERVICE = "systemd-oomd.service"
SLICES = ("-.slice", "machine.slice", "system.slice", "user.slice")
_GROUPS = "/sys/fs/cgroup"
_PROPERTIES = ("Id", "ManagedOOMSwap", "ManagedOOMMemoryPressure", "ManagedOOMPreference")
_UNIT = regex(r"[^/]+\.(?:slice|service|scope)")
_TIMEOUT_S = 10.0


@frozen
class Watched(Fact):
    """A unit below which it kills."""

    name: str  # user@1000.service
    why: str  # swap | memory pressure | swap and memory pressure


@frozen
class Endangered(Fact):
    """A GPU process that may be killed, and the watched unit that it runs below."""

    name: str  # python (4711)
    unit: str


@frozen
class Oomd(Fact):
    """The daemon, what it watches, and the GPU work there. Without swap, what is watched for swap is not counted."""

    is_active: bool
    watched: tuple[Watched, ...]
    endangered: tuple[Endangered, ...]


def show_command(units: Iterable[str]) -> tuple[str, ...]:
    """The one program call that answers for all these units."""
    return ("systemctl", "show", "--no-pager", f"--property={','.join(_PROPERTIES)}", "--", *sorted(set(units)))


def parse_show(output: str) -> dict[str, dict[str, str]]:
    """Unit -> its properties: KEY=VALUE lines, an empty line between units."""
    blocks = (dict(row.partition("=")[::2] for row in one.splitlines() if "=" in row) for one in output.split("\n\n"))
    return {block["Id"]: block for block in blocks if block.get("Id")}


def units_of(cgroup: str) -> tuple[str, ...]:
    """The units of the system's manager that a control group lies in, outermost first; what a user's manager started
    below user@UID.service is its own, and unknown to systemctl.
    """
    found: list[str] = ["-.slice"]
    for part in cgroup.strip("/").split("/"):
        if not _UNIT.fullmatch(part):
            break
        found.append(part)
        if part.startswith("user@"):
            break
    return tuple(found)


def collect(reader: Reader, facts: Facts) -> Oomd:
    if reader.persistent_only:
        return Oomd(is_active=False, watched=(), endangered=())
    groups = reader.list(f"{_GROUPS}/system.slice")
    if isinstance(groups, Unreadable):
        gone = unread(groups.reason)
        return Oomd(gone, gone, gone)
    if groups is ABSENT or SERVICE not in groups:
        return Oomd(is_active=False, watched=(), endangered=())
    processes = _gpu_processes(reader, facts)
    listed = processes if isinstance(processes, tuple) else ()
    units = {*SLICES, *_sessions(reader), *(unit for one in listed for unit in units_of(one.cgroup))}
    answer = reader.query(show_command(units), timeout_s=_TIMEOUT_S)
    if not isinstance(answer, Completed):
        gone = unread(answer.reason if isinstance(answer, Unreadable) else "systemctl is not installed")
        return Oomd(is_active=True, watched=gone, endangered=gone)
    shown = parse_show(answer.text)
    if not shown:
        gone = unread(f"systemctl show failed: {(answer.errors.strip().splitlines() or ['it printed nothing'])[0]}")
        return Oomd(is_active=True, watched=gone, endangered=gone)
    watched = {name: why for name in sorted(shown) if (why := _why(shown[name], has_swap=_has_swap(facts)))}
    found = unread(processes.reason) if isinstance(processes, Unreadable) else _endangered(listed, shown, watched)
    return Oomd(is_active=True, watched=tuple(Watched(*one) for one in watched.items()), endangered=found)


def _gpu_processes(reader: Reader, facts: Facts) -> tuple[Process, ...] | Unreadable:
    try:
        pids = {one.pid for one in facts.work.gpu_processes}
    except UnknownFact as unknown:
        return Unreadable(unknown.reason)
    found = reader.processes() if pids else ()
    return tuple(one for one in found if one.pid in pids) if isinstance(found, tuple) else ()


def _has_swap(facts: Facts) -> bool:
    try:
        return facts.memory.has_swap
    except UnknownFact:
        return True


def _sessions(reader: Reader) -> tuple[str, ...]:
    """The managers of users that are logged in: user@1000.service."""
    found: list[str] = []
    slices = reader.list(f"{_GROUPS}/user.slice")
    for name in slices if isinstance(slices, tuple) else ():
        inside = reader.list(f"{_GROUPS}/user.slice/{name}") if name.startswith("user-") else ()
        found += [unit for unit in (inside if isinstance(inside, tuple) else ()) if unit.startswith("user@")]
    return tuple(found)


def _why(properties: dict[str, str], *, has_swap: bool) -> str:
    reasons = [("ManagedOOMSwap", "swap")] if has_swap else []
    reasons.append(("ManagedOOMMemoryPressure", "memory pressure"))
    return " and ".join(word for key, word in reasons if properties.get(key) == "kill")


def _endangered(
    processes: Iterable[Process], shown: dict[str, dict[str, str]], watched: dict[str, str]
) -> tuple[Endangered, ...]:
    found = []
    for one in processes:
        units = units_of(one.cgroup)
        unit = next((name for name in units if name in watched), "")
        spared = any(shown.get(name, {}).get("ManagedOOMPreference") in {"omit", "avoid"} for name in units)
        if unit and not spared:
            found.append(Endangered(f"{one.name} ({one.pid})", unit))
    return tuple(found)
