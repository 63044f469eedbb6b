"""Container or host, decided by namespaces; what else claims to know is evidence, and the
namespaces win.

The kernel gives its first namespaces fixed inode numbers (include/linux/proc_ns.h), which
namespaces(7) shows as `pid:[4026531836]`. A process in them is on a host, also where a microVM was
made from a container image and still carries its marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import hint, require_known
from hosttune.frozen import frozen
from hosttune.host.door import Stat, source_of

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Answer

INITIAL: Mapping[str, str] = {
    "ipc": "ipc:[4026531839]",
    "uts": "uts:[4026531838]",
    "user": "user:[4026531837]",
    "pid": "pid:[4026531836]",
    "cgroup": "cgroup:[4026531835]",
    "time": "time:[4026531834]",
}
FIRST_MOUNTS = "mnt:[4026531832]"  # fixed since Linux 6.18; before, any number
# A mark, the container manager it means (empty: the file's content names it), most telling first.
_MARKS = (
    ("/var/run/secrets/kubernetes.io", "kubernetes"),
    ("/run/systemd/container", ""),
    ("/run/host/container-manager", ""),
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/dev/lxd/sock", "lxc"),
    ("/dev/incus/sock", "lxc"),
)
_CGROUPS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
)


@frozen
class ContainmentMarks(Fact):
    """What there is to see."""

    namespaces: Mapping[str, Answer[str]]  # name -> the text of /proc/self/ns/NAME
    shares_init_mounts: bool | None = None  # None: not known
    marks: tuple[tuple[str, str], ...] = ()  # (what says so, the container manager it names)
    is_wsl: bool = False
    program: str = ""  # that made the support file in which all that was concluded


@frozen
class ContainmentDecision(Fact):
    """The decision."""

    is_container: bool
    name: str
    evidence: tuple[str, ...]


def look(reader: Reader) -> ContainmentMarks:
    """The namespaces of this process and the marks that container managers leave."""
    return ContainmentMarks(
        namespaces=Lookup(lambda name: reader.link(f"/proc/self/ns/{name}")),
        shares_init_mounts=lazy(_shares_init_mounts, reader),
        marks=lazy(_find_marks, reader),
        is_wsl=lazy(_is_wsl, reader),
        program=source_of(reader),
    )


def _shares_init_mounts(reader: Reader) -> bool | None:
    mine, init = reader.link("/proc/self/ns/mnt"), reader.link("/proc/1/ns/mnt")
    return mine == init if isinstance(mine, str) and isinstance(init, str) else None


def _find_marks(reader: Reader) -> tuple[tuple[str, str], ...]:
    marks: list[tuple[str, str]] = []
    for path, name in _MARKS:
        if isinstance(reader.stat(path), Stat):
            marks.append((path, name or hint(reader, path).strip() or "other"))
    groups = hint(reader, "/proc/1/cgroup")
    marks.extend((f"/proc/1/cgroup ({word})", name) for word, name in _CGROUPS if word in groups)
    return tuple(marks)


def _is_wsl(reader: Reader) -> bool:
    return "microsoft" in hint(reader, "/proc/sys/kernel/osrelease").lower()


def decide(seen: ContainmentMarks) -> ContainmentDecision:
    """Container or host. Without the pid and user namespaces nothing is known: marks are in images,
    too.
    """
    own = [
        name
        for name in ("pid", "user")
        if require_known(seen.namespaces[name], f"/proc/self/ns/{name}") != INITIAL[name]
    ]
    if not own and not _shares_only_processes(seen):
        return ContainmentDecision(
            False, "", lazy(lambda: (_host_sentence(seen), *_find_overruled(seen)))
        )
    if own:
        reason = " and ".join(f"the {name} namespace ({seen.namespaces[name]})" for name in own)
        sentence = (
            f"{seen.program} ran in a container, by what it could read there"
            if seen.program
            else f"{reason} is not the host's first one "
            f"({', '.join(INITIAL[name] for name in own)}): a container"
        )
    else:
        sentence = (
            "mounts and host name are a container's own, though it shares the host's processes"
        )
    evidence = lazy(lambda: (sentence, *(f"{mark} says {manager}" for mark, manager in seen.marks)))
    return ContainmentDecision(True, lazy(_find_manager, seen), evidence)


def _find_manager(seen: ContainmentMarks) -> str:
    return (
        "wsl" if seen.is_wsl and not seen.marks else next((name for _, name in seen.marks), "other")
    )


def _shares_only_processes(seen: ContainmentMarks) -> bool:
    """`docker run --pid=host`: process 1 is the host's, but mounts, host name and IPC are not, and
    a manager left its mark. Services with a private /tmp or host name have no mark; `unshare -m`
    keeps host name and IPC.
    """
    names = (seen.namespaces[name] for name in ("uts", "ipc"))  # on a host the first is enough
    others = all(isinstance(name, str) and name not in INITIAL.values() for name in names)
    return others and seen.shares_init_mounts is False and bool(seen.marks)


def _host_sentence(seen: ContainmentMarks) -> str:
    if seen.program:
        return f"{seen.program} ran on a host, by what it could read there"
    return (
        f"pid and user namespaces are the first ones ({seen.namespaces['pid']}, "
        f"{seen.namespaces['user']}): a host"
    )


def _find_overruled(seen: ContainmentMarks) -> tuple[str, ...]:
    return tuple(
        f"{mark} says {manager}: a left-over, the namespaces win" for mark, manager in seen.marks
    )
