"""Asking the Python of a job about itself: as the user who runs the job, never inside hosttune, never as root.

`python-of PID QUESTION` and `python-at PATH QUESTION` are no programs: they are how facts ask, and how a record keeps
the answer. What is run is fixed here; the interpreter is a user's file, so with root's rights setpriv(1) first becomes
that user for good (all ids, no capabilities, no_new_privs), with an environment of our own. A PATH of root's is run as
nobody.
What comes back is a user's word: at most 64 KiB, parsed and bounded by who asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.process import Ended, bounded, locate
from hosttune.host.tree import read_all
from hosttune.values import Answer, Unreadable

NAMES: Final = ("python-of", "python-at")
TIMEOUT_S: Final = 30.0
OUTPUT_LIMIT: Final = 64 << 10  # bytes
_NOBODY: Final = 65534
_HEAD: Final = 1 << 17  # bytes of /proc/PID/environ and cmdline that are looked at
# NVML answers whether there are GPUs, so that no CUDA context is made on one that computes.
_TORCH: Final = """
import json, os, sys
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
said = {"python": sys.version.split()[0]}
try:
    from importlib.metadata import version
    for key, name in (("pillow", "pillow"), ("pillow_simd", "pillow-simd")):
        try:
            said[key] = version(name)
        except Exception:
            pass
    import torch
    said["torch"] = str(torch.__version__)
    said["cuda"] = str(torch.version.cuda or "")
    said["hip"] = str(getattr(torch.version, "hip", None) or "")
    said["available"] = bool(torch.cuda.is_available())
    said["devices"] = int(torch.cuda.device_count())
    said["architectures"] = [str(one) for one in torch.cuda.get_arch_list()] if said["available"] else []
    said["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if said["available"] else ""
except ModuleNotFoundError as error:
    said["missing"] = str(error.name)
except BaseException as error:
    said["error"] = (type(error).__name__ + ": " + str(error))[:300]
sys.stdout.write("\\n" + json.dumps(said) + "\\n")
sys.stdout.flush()
os._exit(0)
"""
QUESTIONS: Final[Mapping[str, str]] = {"torch": _TORCH}


@frozen
class Interpreter:
    """An executable file, and as whom it is run."""

    path: str
    uid: int
    gid: int


def ask(argv: Sequence[str]) -> Answer[Completed]:
    """Answer a question of `QUESTIONS`; Unreadable with the reason why nobody was asked."""
    kind, what, question = argv
    found = of_process(int(what)) if kind == "python-of" else at_path(what)
    if isinstance(found, Unreadable):
        return found
    command = command_of(found, os.geteuid())
    if isinstance(command, Unreadable):
        return command
    words = [*command, "-B", "-c", QUESTIONS[question]]
    answer = bounded(words, environment_of(found.uid), timeout_s=TIMEOUT_S, limit=OUTPUT_LIMIT)
    return Unreadable(f"{found.path}: {answer.detail}") if isinstance(answer, Ended) else answer


def command_of(found: Interpreter, euid: int) -> list[str] | Unreadable:
    """How a process with `euid` runs an interpreter as its user. Root's rights never reach it."""
    setpriv = locate("setpriv")
    if not isinstance(setpriv, str):
        return Unreadable("setpriv is not installed (package util-linux)")
    if found.uid == 0 or found.gid == 0:
        return Unreadable("the job runs as root: its interpreter is not run with root's rights")
    if euid == found.uid:
        return [setpriv, "--no-new-privs", "--", found.path]
    if euid != 0:
        return Unreadable("needs root: the interpreter is another user's")
    groups = "--init-groups" if _entry(found.uid) else "--clear-groups"
    ids = [f"--reuid={found.uid}", f"--regid={found.gid}", groups]
    return [setpriv, *ids, "--inh-caps=-all", "--no-new-privs", "--", found.path]


def environment_of(uid: int) -> dict[str, str]:
    """All that the child sees of an environment: neither root's, nor the caller's, nor the job's."""
    entry = _entry(uid)
    home = entry[1] if entry else "/nonexistent"
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}


def _entry(uid: int) -> tuple[str, str] | None:
    """(name, home) of a user that the machine knows."""
    import pwd

    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    return entry.pw_name, entry.pw_dir


def at_path(path: str) -> Interpreter | Unreadable:
    """The interpreter at an absolute path that a policy names: as its owner, or as nobody where that is root."""
    if not path.startswith("/") or "\0" in path:
        return Unreadable(f"{path!r} is no absolute path")
    try:
        info = os.stat(path)
    except OSError as error:
        return Unreadable(f"{path}: {error.strerror}")
    if not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
        return Unreadable(f"{path} is no program")
    euid = os.geteuid()
    if euid:
        return Interpreter(path, euid, os.getegid())
    if info.st_uid == 0 or info.st_gid == 0:
        return Interpreter(path, info.st_uid or _NOBODY, info.st_gid or _NOBODY)
    return Interpreter(path, info.st_uid, info.st_gid)


def of_process(pid: int) -> Interpreter | Unreadable:
    """The interpreter that a process was started with, as it was named: the one of a virtual environment is a link.

    Everything is read through one descriptor of /proc/PID, which stays with this process when the number is used anew.
    """
    try:
        folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Unreadable(f"process {pid} is gone")
    try:
        return _of(folder, pid)
    except OSError as error:
        return Unreadable(f"process {pid}: {error.strerror}")
    finally:
        os.close(folder)


def _of(folder: int, pid: int) -> Interpreter | Unreadable:
    uids, gids = (_ids(folder, key) for key in ("Uid", "Gid"))
    if len(uids) != 1 or len(gids) != 1:
        return Unreadable(f"process {pid} runs with the rights of more than one user")
    for name in ("mnt", "user"):
        if os.readlink(f"ns/{name}", dir_fd=folder) != os.readlink(f"/proc/self/ns/{name}"):
            return Unreadable(f"process {pid} sees other file systems than this host: it runs in a container")
    running = os.stat("exe", dir_fd=folder)
    for path in _candidates(folder):
        try:
            info = os.stat(path)
        except OSError:
            continue
        if (info.st_dev, info.st_ino) == (running.st_dev, running.st_ino):
            return Interpreter(path, uids.pop(), gids.pop())
    return Unreadable(f"the interpreter of process {pid} is not found by the name it was started with")


def _ids(folder: int, key: str) -> set[int]:
    """The real, effective, saved and file system ids of a process (proc_pid_status(5))."""
    for line in _head(folder, "status").decode("utf-8", "replace").splitlines():
        if line.startswith(f"{key}:"):
            return set(map(int, line.split()[1:5]))
    return set()


def _candidates(folder: int) -> list[str]:
    """Where the program lies: as it was called, from its folder, in its environment, on its PATH, as it runs."""
    called = os.fsdecode(_head(folder, "cmdline").split(b"\0")[0])
    own = dict(os.fsdecode(one).partition("=")[::2] for one in _head(folder, "environ").split(b"\0"))
    found = [called]
    if "/" in called:
        found.append(f"{os.readlink('cwd', dir_fd=folder)}/{called}")
    else:
        found += [f"{own[key]}/bin/{called}" for key in ("VIRTUAL_ENV", "CONDA_PREFIX") if key in own]
        found += [f"{part}/{called}" for part in own.get("PATH", "").split(":")]
    found.append(os.readlink("exe", dir_fd=folder))
    return [path for path in found if path.startswith("/") and "\n" not in path]


def _head(folder: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return read_all(fd, _HEAD) or b""
    finally:
        os.close(fd)
