"""The running processes: what every kernel shows alike, and from /proc device nodes, swap and
control group.

A user chooses the name and the title of a process; in a mount namespace of their own any file has
any path. So a device is known by its numbers, the user by the ids that the kernel prints (it
escapes a line break in a name: fs/proc/array.c, proc_task_name), and a program by its file.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace

from hosttune.errors import HosttuneError
from hosttune.host.door import CONTAINED, Process
from hosttune.host.masking.secrets import mask_command
from hosttune.host.processes.proc_fields import process_fields, user_of_subid
from hosttune.host.processes.process_memory import MemoryLook
from hosttune.host.reading.bounded import (
    CUT,
    MOST_OPEN_FILES,
    PROCESS_FILE,
    head_of,
    head_text,
    names_in,
)
from hosttune.host.reading.filestatus import FileStatus, status_of, status_without_links
from hosttune.host.reading.late_mounts import is_way_of_root
from hosttune.host.reading.named import served_mounts
from hosttune.ranges import parse_ranges
from hosttune.regex import regex
from hosttune.values import Answer, Unreadable

# All that is ever taken from the environment of a process: names that say how it runs, and no
# secret.
VARIABLES = frozenset({
    "COMPUTE_PROFILE", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG", "NSIGHT_CUDA_DEBUGGER",
    "OMP_NUM_THREADS", "PYTORCH_USE_CUDA_DSA", "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_SHOW_CPP_STACKTRACES",
})  # fmt: skip
_PLAIN = regex(r"[A-Za-z0-9_,.-]{0,24}")
# major number of nvidia0 and the like (kernel: Documentation/admin-guide/devices.txt)
_NVIDIA = 195
_NVIDIA_MINORS = {255: "/dev/nvidiactl", 254: "/dev/nvidia-modeset"}
# drawn at the load
_MAJORS = {"nvidia-uvm": ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"), "kfd": ("/dev/kfd",)}
_FUSE = (10, 229)  # Documentation/admin-guide/devices.txt
_OF_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/")
# bytes of a status, which lists up to 65,536 groups (NGROUPS_MAX) before memory and CPUs
_STATUS_MOST = 1 << 20
# What fdinfo says of a tunnel waits for the kernel's lock of networks, which any user can keep
# busy (drivers/net/tun.c).
_OF_NO_INTEREST = ("/dev/net/", "/dev/null", "/dev/pts/", "/dev/shm/")
# bytes of the path of a device node; the names that a user gives to files can be longer
_DEVICE_MOST = 255
_MOST_DEVICES = 4 << 20  # bytes of the paths of all of them that one user has open
_MOST_OF_ALL = 1 << 21  # open files of all users together, and of all groups of root's
_THREADS = 64  # of a process, among which one is looked for that goes on
_COST_OF_INFO = 7  # so many more open files a look into fdinfo counts as


def list_processes(folder: str = "/proc") -> Answer[tuple[Process, ...]]:
    """All processes with a program; kernel threads have none. Devices are empty for processes this
    user may not see.

    Unreadable if there are more processes than one look goes through: a part of a list would say
    that what the rest of it uses is free.
    """
    found = []
    memory = MemoryLook(folder)
    look = _Look(folder, _known_devices(head_text(f"{folder}/devices")))
    texts: dict[str, str] = {}  # processes share users, names and groups
    try:
        for info in process_fields(folder, memory):
            if info["is_kernel"]:
                continue
            pid = info["pid"]
            process = f"{folder}/{pid}"
            cgroup = _read_cgroup(process)
            devices = look.devices(pid, info["uid"], cgroup)
            is_gpu = any(device.startswith("/dev/nvidia") for device in devices)
            status = _read_status(process, is_gpu=is_gpu)
            name, user, cgroup = (
                texts.setdefault(one, one) for one in (info["name"], info["username"], cgroup)
            )
            found.append(
                Process(
                    pid=pid,
                    name=name,
                    user=user,
                    command=mask_command(tuple(info["cmdline"])),
                    rss_bytes=info["rss_bytes"],
                    swap_bytes=_swap_bytes(status),
                    devices=devices,
                    cgroup=cgroup,
                    started_at=info["create_time"] or 0.0,
                    parent=info["ppid"] or 0,
                    cpus=_count_cpus(status) if is_gpu else 0,
                    uid=info["uid"],
                    program=_find_program(process, info["uid"], look.avoided),
                )
            )
    except HosttuneError as error:
        return Unreadable(error.message)
    found.sort(key=lambda process: process.pid)
    return _with_variables(found, folder, memory)


def _with_variables(found: list[Process], folder: str, memory: MemoryLook) -> tuple[Process, ...]:
    """The same, those that hold a GPU with what their environments say."""
    on_gpu = [
        one.pid for one in found if any(device.startswith("/dev/nvidia") for device in one.devices)
    ]
    if not on_gpu:
        return tuple(found)
    by_pid = memory.ask(on_gpu, lambda pid: _read_variables(f"{folder}/{pid}"))
    asked = frozenset(on_gpu)
    return tuple(
        replace(one, variables=by_pid.get(one.pid, (CUT,)) or ()) if one.pid in asked else one
        for one in found
    )


def _read_status(process: str, *, is_gpu: bool) -> list[str]:
    """The lines of its status; of a GPU process behind a long list of groups, too."""
    limit = _STATUS_MOST if is_gpu else PROCESS_FILE
    return head_text(f"{process}/status", limit).split("\n")


def _swap_bytes(status: list[str]) -> int:
    words = next((line.split() for line in status if line.startswith("VmSwap:")), [])
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdecimal() else 0


def _count_cpus(status: list[str]) -> int:
    """The length of its list of CPUs: 0-3,8 are five (proc_pid_status(5), cpuset(7))."""
    listed = next(
        (line.partition(":")[2] for line in status if line.startswith("Cpus_allowed_list:")), ""
    )
    return sum(last - first + 1 for first, last in parse_ranges(listed))


def _read_variables(process: str) -> tuple[str, ...]:
    """Those of VARIABLES that it was started with; of a value that is no plain word only that there
    is one.

    CUT is among them where its environment is longer than what is read of it. Raises OSError.
    """
    content, is_whole = head_of(f"{process}/environ")
    entries = content.decode("utf-8", "replace").split("\0")
    pairs = (entry.partition("=") for entry in (entries if is_whole else entries[:-1]))
    known = {name: value for name, _, value in pairs if name in VARIABLES}
    shown = (
        f"{name}={value if _PLAIN.fullmatch(value) else '(set)'}" for name, value in known.items()
    )
    return (*sorted(shown), *(() if is_whole else (CUT,)))


def _find_program(process: str, uid: int, avoided: tuple[str, ...]) -> str:
    """The path of its executable, if it is a file of this host: in its own mount namespace any file
    may have this path. Of root's the path that a container has for it, behind `CONTAINED`. Of users
    it has to be root's file, too.

    The path is a name of another namespace: on this host it can lead to a server that is dead,
    `avoided`.
    """
    path = f"{process}/exe"
    try:
        target = os.readlink(path)
        is_own_view = os.readlink(f"{process}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""
    if uid == 0 and is_own_view:
        return target
    # A path below /home or /opt may be a file of the user, and its name would say nothing.
    if uid < 0 or not (uid == 0 or target.startswith(_OF_SYSTEM)):
        return ""
    runs, there = status_of(path), _status_on_host(target, avoided)
    is_same = runs and there and (runs.device, runs.inode) == (there.device, there.inode)
    if is_same and runs and runs.uid == 0 and not runs.mode & 0o022:
        return target
    return f"{CONTAINED}{target}" if uid == 0 else ""


def _status_on_host(path: str, avoided: tuple[str, ...]) -> FileStatus | None:
    """What is on this host at a path of another namespace; None also below a folder that others
    than root can write: there a user can mount at this moment what never answers.
    """
    is_safe = path.startswith("/") and is_way_of_root(os.path.dirname(path))
    return status_without_links(path, avoided) if is_safe else None


def _known_devices(content: str) -> dict[tuple[int, int], str]:
    """(major, minor) -> the path of device nodes that count under whatever name: those whose major
    number the kernel draws, from /proc/devices (proc(5)), and /dev/fuse.
    """
    characters = content.partition("Block devices:")[0]
    rows = (row.split() for row in characters.split("\n"))
    majors = {
        row[1]: int(row[0])
        for row in rows
        if len(row) == 2 and row[1] in _MAJORS and row[0].isdecimal()
    }
    drawn = {
        (major, minor): path
        for name, major in majors.items()
        for minor, path in enumerate(_MAJORS[name])
    }
    return {_FUSE: "/dev/fuse", **drawn}


def _avoided_mounts() -> tuple[str, ...]:
    """The mounts that wait for a server. The one that this host itself runs from answers, or
    nothing does.
    """
    return tuple(one for one in served_mounts() if one not in ("/", "/usr"))


class _Look:
    """One look at the open files of all processes, and what is left of its limits.

    Each user has limits of their own, and so has each control group of root's, for root of a
    container is root here: what one of them opens hides only their own. All users together have one
    besides, and so have all groups of root.
    """

    def __init__(self, folder: str, known: dict[tuple[int, int], str]) -> None:
        self._folder = folder
        self._known = known
        self._files: dict[int | str, int] = {}
        self._bytes: dict[int | str, int] = {}
        # open files, by whether root is the owner
        self._left = {True: _MOST_OF_ALL, False: _MOST_OF_ALL}
        self.avoided = _avoided_mounts()

    def devices(self, pid: int, uid: int, cgroup: str) -> tuple[str, ...]:
        """The device nodes that a process has open; CUT is the last where its owner has more files
        open than are looked at.
        """
        of_user = user_of_subid(uid) if uid else ""
        owner: int | str = f"subordinate ids of {of_user}" if of_user else uid or cgroup
        devices: set[str] = set()
        before = files = min(self._files.get(owner, MOST_OPEN_FILES), self._left[uid == 0])
        size = self._bytes.get(owner, _MOST_DEVICES)
        is_whole = True
        place = f"{self._folder}/{pid}{self._thread(pid)}"
        try:
            with os.scandir(f"{place}/fd") as entries:
                for entry in entries:
                    if files <= 0 or size < 0:
                        is_whole = False
                        break
                    files -= 1
                    device = _open_device(entry.path, self._known, self.avoided)
                    if not device or device in devices:
                        continue
                    if _is_open(f"{place}/fdinfo/{entry.name}"):
                        devices.add(device)
                        size -= len(device)
                    else:
                        files -= _COST_OF_INFO
        except OSError:
            pass
        self._files[owner] = self._files.get(owner, MOST_OPEN_FILES) - (before - files)
        self._left[uid == 0] -= before - files
        self._bytes[owner] = size
        return (*sorted(devices), *(() if is_whole else (CUT,)))

    def _thread(self, pid: int) -> str:
        """The part of the path of a thread whose files a process has: none, or where its first
        thread has ended (state Z, no files) `/task/TID` of one that goes on.
        """
        if not _is_over(f"{self._folder}/{pid}"):
            return ""
        with suppress(OSError):
            threads, _ = names_in(f"{self._folder}/{pid}/task", _THREADS)
            return next(
                (
                    f"/task/{one}"
                    for one in threads
                    if not _is_over(f"{self._folder}/{pid}/task/{one}")
                ),
                "",
            )
        return ""


def _is_over(place: str) -> bool:
    """Whether this thread has ended (proc_pid_stat(5))."""
    return head_text(f"{place}/stat").rpartition(")")[2].split()[:1] == ["Z"]


def _open_device(path: str, known: dict[tuple[int, int], str], avoided: tuple[str, ...]) -> str:
    """The device node that an open file is; empty for another one."""
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    # Sockets, pipes and the like have no path; what has one is looked at whatever it is called.
    status = status_of(path) if target.startswith("/") else None
    return _name_device(target, status, known, avoided) if status else ""


def _is_open(path: str) -> bool:
    """Whether it was opened, for which its mode asks: with O_PATH anybody may point at it
    (open(2)).
    """
    rows = (row.split() for row in head_text(path).split("\n"))
    flags = next((row[1] for row in rows if len(row) == 2 and row[0] == "flags:"), "0")
    return not int(flags, 8) & os.O_PATH


def _name_device(
    target: str,
    status: FileStatus,
    known: dict[tuple[int, int], str],
    avoided: tuple[str, ...] = (),
) -> str:
    """What a device node is called on this host; empty for what is none, or is of no interest."""
    if not (stat.S_ISCHR(status.mode) or stat.S_ISBLK(status.mode)):
        return ""
    major, minor = status.rdev
    if stat.S_ISCHR(status.mode) and major == _NVIDIA:
        return _NVIDIA_MINORS.get(minor, f"/dev/nvidia{minor}")
    if stat.S_ISCHR(status.mode) and (path := known.get(status.rdev)):
        return path
    if not target.startswith("/dev/") or target.startswith(_OF_NO_INTEREST):
        return ""
    own = _status_on_host(target, avoided)
    is_own = own and (own.rdev, stat.S_IFMT(own.mode)) == (status.rdev, stat.S_IFMT(status.mode))
    return target if is_own and len(target) <= _DEVICE_MOST else ""


def _read_cgroup(process: str) -> str:
    """The v2 path (hierarchy 0); on v1 the one that systemd names itself (cgroups(7))."""
    lines = [line.split(":", 2) for line in head_text(f"{process}/cgroup").split("\n")]
    paths = {
        (number, controllers): path
        for number, controllers, path in (line for line in lines if len(line) == 3)
    }
    unified = paths.get(("0", ""), "")
    named = next(
        (path for (_, controllers), path in paths.items() if controllers == "name=systemd"), ""
    )
    # With the hierarchies of v1 mounted, v2 may be there and unused: then all processes are in its
    # root.
    return named if unified in ("", "/") and named else unified
