"""systemd-oomd: whether it runs, below which units it kills, and which GPU work is there.

It watches the units whose ManagedOOMSwap= or ManagedOOMMemoryPressure= is `kill`, and kills one
control group below such a unit, with all that is in it; ManagedOOMPreference=avoid or omit, of a
group that root owns, spares that group (systemd-oomd.service(8), systemd.resource-control(5)).
Ubuntu's desktop sets it for -.slice and user@.service.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, read_or_default
from hosttune.facts.reading import ask, if_absent, names_in
from hosttune.facts.services.units import show_command
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

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
class OomdUnit(Fact):
    """A unit below which it kills."""

    name: str  # user@1000.service
    why: str  # swap | memory pressure | swap and memory pressure


@frozen
class Endangered(Fact):
    """A GPU process that may be killed, and the watched unit that it runs below."""

    name: str  # python (4711)
    unit: str  # that is watched


@frozen
class Oomd(Subject):
    """The daemon, what it watches, and the GPU work there. Without swap, what is watched for swap
    is not counted.
    """

    @fact
    def is_active(self) -> bool:
        """The daemon runs."""
        return not self.reader.persistent_only and SERVICE in names_in(
            self.reader, f"{_GROUPS}/system.slice"
        )

    @fact
    def watched(self) -> tuple[OomdUnit, ...]:
        """Units below which it kills."""
        return tuple(OomdUnit(*one) for one in self._watched.items())

    @fact
    def endangered(self) -> tuple[Endangered, ...]:
        """GPU processes that it may kill."""
        return _find_endangered(self._processes, self._shown, self._watched)

    @fact
    def _processes(self) -> tuple[Process, ...]:
        if not self.is_active:
            return ()
        pids = {one.pid for one in self.facts.work.gpu_processes}
        return (
            tuple(one for one in if_absent(self.reader.processes(), ()) if one.pid in pids)
            if pids
            else ()
        )

    @fact
    def _shown(self) -> dict[str, dict[str, str]]:
        """Unit -> its properties, of those that may be watched; nothing where no one watches."""
        if not self.is_active:
            return {}
        # What is watched is worth an answer also where the processes of GPU work are hidden from
        # this user.
        held = read_or_default(lambda: self._processes, tuple["Process", ...]())
        units = {
            *SLICES,
            *_list_sessions(self.reader),
            *(unit for one in held for unit in units_of(one.cgroup)),
        }
        answer = ask(self.reader, show_command(units, _PROPERTIES), timeout_s=_TIMEOUT_S)
        shown = parse_show(answer.text)
        if not shown:
            line = (answer.errors.strip().splitlines() or ["it printed nothing"])[0]
            raise UnknownFact(f"systemctl show failed: {line}")
        return shown

    @fact
    def _watched(self) -> dict[str, str]:
        return {
            name: why
            for name in sorted(self._shown)
            if (why := _why_watched(self._shown[name], self.facts))
        }


def parse_show(output: str) -> dict[str, dict[str, str]]:
    """Unit -> its properties: KEY=VALUE lines, an empty line between units."""
    blocks = (
        dict(row.partition("=")[::2] for row in one.splitlines() if "=" in row)
        for one in output.split("\n\n")
    )
    return {block["Id"]: block for block in blocks if block.get("Id")}


def units_of(cgroup: str) -> tuple[str, ...]:
    """The units of the system's manager that a control group is in, outermost first; what a user's
    manager started below user@UID.service is its own, and unknown to systemctl.
    """
    found: list[str] = ["-.slice"]
    for part in cgroup.strip("/").split("/"):
        if not _UNIT.fullmatch(part):
            break
        found.append(part)
        # Below it are units of the user's manager, of which systemctl of the system says nothing.
        if part.startswith("user@"):
            break
    return tuple(found)


def _has_swap(facts: Facts) -> bool:
    try:
        return facts.memory.has_swap
    except UnknownFact:
        return True


def _list_sessions(reader: Reader) -> tuple[str, ...]:
    """The managers of users that are logged in: user@1000.service."""
    slices = (
        name for name in names_in(reader, f"{_GROUPS}/user.slice") if name.startswith("user-")
    )
    inside = (unit for name in slices for unit in names_in(reader, f"{_GROUPS}/user.slice/{name}"))
    return tuple(unit for unit in inside if unit.startswith("user@"))


def _why_watched(properties: dict[str, str], facts: Facts) -> str:
    reasons = [("ManagedOOMSwap", "swap")] if _has_swap(facts) else []
    reasons.append(("ManagedOOMMemoryPressure", "memory pressure"))
    return " and ".join(word for key, word in reasons if properties.get(key) == "kill")


def _find_endangered(
    processes: Iterable[Process], shown: dict[str, dict[str, str]], watched: dict[str, str]
) -> tuple[Endangered, ...]:
    found = []
    for one in processes:
        units = units_of(one.cgroup)
        unit = next((name for name in units if name in watched), "")
        spared = any(
            shown.get(name, {}).get("ManagedOOMPreference") in {"omit", "avoid"} for name in units
        )
        if unit and not spared:
            found.append(Endangered(f"{one.name} ({one.pid})", unit))
    return tuple(found)
