"""The limits of a running job, so that a program which is started beside it stays inside them.

All is read through one descriptor of /proc/PID, which stays with this process when the number is
used again. A job whose confinement cannot be repeated (other namespaces, another root folder,
seccomp, a profile of a security module) or whose control group is managed by a batch system is
refused with the reason: nothing is started for it. Landlock rules are not visible in /proc (Linux
up to 6.18), so they are not seen here either.

Sources: cgroups(7), proc_pid_cgroup(5), proc_pid_limits(5), Documentation/admin-guide/cgroup-v2.rst
and cgroup-v1/.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable, Mapping
from typing import Final

from hosttune.frozen import frozen
from hosttune.host.reading.bounded import head_of, head_text, own_mounts
from hosttune.host.reading.mountinfo import MountLine, parse
from hosttune.ranges import number_list
from hosttune.regex import regex
from hosttune.values import Unreadable

# Bytes of memory that a job must have left: PyTorch 2.11 for CUDA 13 answers with RLIMIT_DATA at
# 768 MiB, but not at 512 MiB, and takes 290 MiB (measured on an H200).
LEAST_FREE: Final = 1 << 30
_NAMESPACES: Final = ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup", "time")
_MOST_NICE: Final = 19
# A batch system, or a container engine, counts and ends what is in these groups.
_MANAGED = regex(
    r"/(?:slurm|kubepods|pbs|lsf|htcondor|condor|torque|oar|flux|nomad|docker|libpod|crio|cri-"
    r"|lxc|machine\.slice)[^/]*",
    flags=2,  # re.IGNORECASE
)
_LIMITS: Final[Mapping[str, str]] = {
    "Max cpu time": "CPU", "Max file size": "FSIZE", "Max data size": "DATA",
    "Max stack size": "STACK", "Max core file size": "CORE", "Max resident set": "RSS",
    "Max processes": "NPROC", "Max open files": "NOFILE", "Max locked memory": "MEMLOCK",
    "Max address space": "AS", "Max pending signals": "SIGPENDING", "Max msgqueue size": "MSGQUEUE",
    "Max nice priority": "NICE", "Max realtime priority": "RTPRIO",
    "Max realtime timeout": "RTTIME",
}  # fmt: skip
_INFINITE: Final = 1 << 62  # bytes: what v1 prints for no limit is above


@frozen
class JobConfinement:
    """What a program gets from a job: `cgroups` are folders, `rlimits` are (number, soft, hard) as
    setrlimit(2) takes them.
    """

    cgroups: tuple[str, ...] = ()
    rlimits: tuple[tuple[int, int, int], ...] = ()
    cpus: tuple[int, ...] = ()
    nice: int = 0


class _Unrepeatable(Exception):
    """Why nothing is started beside this job."""


def limits_of(folder: int, pid: int) -> JobConfinement | Unreadable:
    """The limits of the process behind `folder`, a descriptor of /proc/PID. Raises OSError when it
    has ended.
    """
    try:
        _require_same_view(folder, pid)
        status = fields_of(folder)
        _require_no_filter(folder, pid, status)
        cgroups = _read_cgroups(folder, pid)
        free = min((_free_bytes(group) for group in cgroups), default=_INFINITE)
    except _Unrepeatable as refusal:
        return Unreadable(str(refusal))
    rlimits = _parse_rlimits(whole_file(folder, "limits").decode())
    data = rlimits.get(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
    if free < _INFINITE:
        rlimits[resource.RLIMIT_DATA] = (_take_least(data[0], free), _take_least(data[1], free))
    # A crash of what is started must not leave a core file in a folder of the job.
    rlimits[resource.RLIMIT_CORE] = (0, 0)
    # proc_pid_stat(5), field 19
    nice = int(whole_file(folder, "stat").rpartition(b")")[2].split()[16])
    allowed = number_list(status.get("Cpus_allowed_list", ""))
    ordered = tuple((number, *pair) for number, pair in sorted(rlimits.items()))
    # Of a job with a negative value what is started gets 0: it must not run before others.
    return JobConfinement(cgroups, ordered, allowed, min(max(nice, 0), _MOST_NICE))


def whole_file(folder: int, name: str) -> bytes:
    """A file of /proc/PID; nothing of one with more than 64 KiB."""
    content, is_whole = head_of(name, dir_fd=folder)
    return content if is_whole else b""


def fields_of(folder: int) -> dict[str, str]:
    """The fields of proc_pid_status(5)."""
    lines = whole_file(folder, "status").decode("utf-8", "replace").split("\n")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def why_other_view(folder: int, pid: int) -> Unreadable | None:
    """Why the process sees another system than this one; None when it shares every namespace and
    the root folder.
    """
    try:
        _require_same_view(folder, pid)
    except _Unrepeatable as refusal:
        return Unreadable(str(refusal))
    return None


def _require_same_view(folder: int, pid: int) -> None:
    for name in _NAMESPACES:
        if _read_namespace(f"ns/{name}", folder) != _read_namespace(f"/proc/self/ns/{name}"):
            raise _Unrepeatable(
                f"process {pid} has its own {name} namespace: it runs in a container"
            )
    root, own = os.stat("root", dir_fd=folder), os.stat("/")
    if (root.st_dev, root.st_ino) != (own.st_dev, own.st_ino):
        raise _Unrepeatable(f"process {pid} has another root folder: it runs in a container")


def _read_namespace(path: str, folder: int | None = None) -> str:
    """Empty where the kernel has no namespaces of this kind."""
    try:
        return os.readlink(path, dir_fd=folder)
    except FileNotFoundError:
        return ""


def _require_no_filter(folder: int, pid: int, status: Mapping[str, str]) -> None:
    # A kernel that prints no such field does not say that there is no filter.
    if status.get("Seccomp") != "0":
        raise _Unrepeatable(
            f"process {pid} runs under a seccomp filter, which a new process would not have"
        )
    try:
        label = whole_file(folder, "attr/current").strip(b"\0\n ")
        own = head_of("/proc/self/attr/current")[0].strip(b"\0\n ")
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # no security module gives labels
            return
        raise
    if label != own and not label.endswith((b"(unconfined)", b"unconfined")):
        raise _Unrepeatable(
            f"process {pid} is confined by a security module, which a new process would not be"
        )


def _read_cgroups(folder: int, pid: int) -> tuple[str, ...]:
    own = head_text("/proc/self/cgroup")
    return _find_folders(
        whole_file(folder, "cgroup").decode("utf-8", "replace"), own, parse(own_mounts()), pid
    )


def _find_folders(text: str, own: str, mounts: Iterable[MountLine], pid: int) -> tuple[str, ...]:
    """The folder of a process in each hierarchy. Hierarchies that are not mounted need the same
    group as ours.
    """
    mounts = tuple(mounts)
    if not text:
        raise _Unrepeatable(f"the control groups of process {pid} are not known")
    shared = set(own.split("\n"))
    folders = []
    # The kernel takes no line break in the name of a group (kernel/cgroup/cgroup.c, cgroup_mkdir):
    # a line is one hierarchy.
    for line in text.removesuffix("\n").split("\n"):
        _, controllers, path = line.split(":", 2)
        if managed := _MANAGED.search(path):
            manager = "which a batch system or container engine manages"
            raise _Unrepeatable(
                f"process {pid} is in the control group {managed[0][1:]}, {manager}"
            )
        place = _mounted_at(controllers, mounts)
        if place and path.startswith("/") and "/.." not in path and not path.endswith(" (deleted)"):
            folders.append(f"{place}{path}".rstrip("/"))
        elif line not in shared:
            raise _Unrepeatable(f"the control group of process {pid} cannot be entered: {line}")
    return tuple(folders)


def _mounted_at(controllers: str, mounts: Iterable[MountLine]) -> str:
    """Where a hierarchy is mounted whole: that of v2 has no controllers in /proc/PID/cgroup."""
    wanted = set(controllers.split(",")) - {""}
    for mount in mounts:
        kind = "cgroup" if wanted else "cgroup2"
        if mount.fstype == kind and mount.root == "/" and wanted <= set(mount.super_options):
            return mount.target
    return ""


def _free_bytes(group: str) -> int:
    """Bytes of memory that may be taken in a control group before it, or one above it, is out of
    memory; page cache that is not in use counts as free. Refused below `LEAST_FREE`, because the
    kernel would end the job, and when the group is frozen.
    """
    free = _INFINITE
    while True:
        state = _read_word(group, "freezer.state") or _read_word(group, "cgroup.freeze")
        if state not in ("", "THAWED", "0"):
            raise _Unrepeatable(f"{group} is frozen")
        if _read_word(group, "memory.oom.group") == "1":
            raise _Unrepeatable(
                f"{group} is ended as a whole when it is out of memory (memory.oom.group)"
            )
        free = min(free, _count_left(group))
        if free < LEAST_FREE:
            raise _Unrepeatable(
                f"{group} has {max(free, 0) >> 20} MiB of memory left, less than {LEAST_FREE >> 20}"
            )
        above = os.path.dirname(group)
        if not os.path.exists(f"{above}/cgroup.procs"):
            return free
        group = above


def _count_left(group: str) -> int:
    words = [
        _read_word(group, name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
    ]
    most = [int(word) for word in words if word.isdecimal()]
    used = _read_word(group, "memory.current") or _read_word(group, "memory.usage_in_bytes")
    if not most or min(most) >= _INFINITE or not used.isdecimal():
        return _INFINITE
    rows = dict(
        line.split()[:2]
        for line in head_text(f"{group}/memory.stat").splitlines()
        if len(line.split()) > 1
    )
    # Without `total_`, v1 counts the group itself; v2 counts all below it (cgroup-v2.rst).
    cache = rows.get("total_inactive_file") or rows.get("inactive_file") or "0"
    return min(most) - int(used) + int(cache)


def _read_word(group: str, name: str) -> str:
    return head_text(f"{group}/{name}").strip()


def _parse_rlimits(text: str) -> dict[int, tuple[int, int]]:
    found = {}
    for line in text.splitlines():
        # Names have blanks, and are printed in a column of 25 characters (fs/proc/base.c,
        # proc_pid_limits).
        name, values = line[:25].strip(), line[25:].split()
        if name not in _LIMITS:  # file locks: Linux has no such limit since 2.4
            continue
        soft, hard = (
            resource.RLIM_INFINITY if one == "unlimited" else int(one) for one in values[:2]
        )
        found[int(getattr(resource, f"RLIMIT_{_LIMITS[name]}"))] = (soft, hard)
    return found


def _take_least(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)
