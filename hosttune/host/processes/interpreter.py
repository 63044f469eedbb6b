"""Asking the Python of a job about itself: as the user who wrote its code, inside the limits of the
job, never as root.

`python-of PID QUESTION` and `python-at PATH QUESTION` are no programs: they are how facts ask, and
how a record keeps the answer. What is run is fixed here. The interpreter is a user's file, and
identity comes from who wrote the code, never from who asks: every place that this Python reads
belongs to one user or to root (host/processes/code_owner.py). With root's rights setpriv(1) first
becomes that user for good (all ids, no capabilities, no_new_privs), with an environment of our own;
code that only root can change is run as no one. Nothing of it outlives the answer
(host/processes/confined_child.py). The Python of a job is started inside the control groups,
resource limits, CPUs and priority of that job (host/processes/job_limits.py), or not at all. One
that a path names is started in our own control groups, since no job of its owner is known. What
comes back is a user's word: at most 64 KiB, parsed and bounded by who asked.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.process import Ended, locate, run_bounded
from hosttune.host.processes.code_owner import owner_of_code
from hosttune.host.processes.job_limits import JobConfinement, fields_of, limits_of, why_other_view
from hosttune.host.processes.process_memory import head_in_time
from hosttune.host.reading.named import answer_of
from hosttune.host.reading.paths import walk
from hosttune.textfiles import own_file
from hosttune.values import Answer, Unreadable

NAMES: Final = ("python-of", "python-at")
TIMEOUT_S: Final = 30.0
OUTPUT_LIMIT: Final = 64 << 10  # bytes
NOT_STARTED: Final = 125  # the exit status of confined_child.py
TIMED_OUT: Final = 124  # as timeout(1) has it
_NOBODY: Final = 65534
_MOST_PLACES: Final = 64  # entries of a job's PATH that are looked at
# NVML answers whether there are GPUs, so that no CUDA context is made on one that computes.
_TORCH: Final = """
import json, os, sys
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
answer = {"python": sys.version.split()[0]}
try:
    import torch
    answer["torch"] = str(torch.__version__)
    answer["cuda"] = str(torch.version.cuda or "")
    answer["hip"] = str(getattr(torch.version, "hip", None) or "")
    answer["available"] = bool(torch.cuda.is_available())
    answer["devices"] = int(torch.cuda.device_count())
    listed = torch.cuda.get_arch_list() if answer["available"] else []
    answer["architectures"] = [str(one) for one in listed]
    answer["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if answer["available"] else ""
except ModuleNotFoundError as error:
    answer["missing"] = str(error.name)
except BaseException as error:
    answer["error"] = (type(error).__name__ + ": " + str(error))[:300]
sys.stdout.write("\\n" + json.dumps(answer) + "\\n")
sys.stdout.flush()
os._exit(0)
"""
_OURS: Final = JobConfinement()  # no job is known: nothing of ours is changed
_OF_ROOT: Final = Unreadable("the job runs as root: its interpreter is not run with root's rights")
_NO_CORE: Final = ((resource.RLIMIT_CORE, 0, 0),)
QUESTIONS: Final[Mapping[str, str]] = {"torch": _TORCH}


@frozen
class Interpreter:
    """An executable file, and as whom it is run; `groups` are all groups of a job, None for those
    of the user. `is_roots`: only root can change its code.
    """

    path: str
    uid: int
    gid: int
    groups: tuple[int, ...] | None = None
    is_roots: bool = False


def ask(argv: Sequence[str]) -> Answer[Completed]:
    """Answer a question of `QUESTIONS`; Unreadable with the reason why it was not asked. Status 124
    if the interpreter did not end in time or wrote too much.
    """
    kind, what, question = argv
    if kind == "python-at":
        found = at_path(what)
        return found if isinstance(found, Unreadable) else _answer(found, question, _OURS, -1)
    try:
        with _opened_process(int(what)) as folder:
            return _ask_job(folder, int(what), question)
    except OSError as error:
        return Unreadable(f"process {what}: {error.strerror}")


def _ask_job(folder: int, pid: int, question: str) -> Answer[Completed]:
    found = _interpreter_of(folder, pid)
    if isinstance(found, Unreadable):
        return found
    if _is_of_root(found):
        return _OF_ROOT
    is_root = os.geteuid() == 0
    limits = limits_of(folder, pid) if is_root else _OURS
    if isinstance(limits, Unreadable):
        return limits
    return _answer(found, question, limits, folder if is_root else -1)


def _answer(
    found: Interpreter, question: str, limits: JobConfinement, job: int
) -> Answer[Completed]:
    command = command_of(found, os.geteuid(), limits, job)
    if isinstance(command, Unreadable):
        return command
    words = [*command, "-B", "-c", QUESTIONS[question]]
    passed = (job,) if job >= 0 else ()
    answer = run_bounded(
        words, environment_of(found.uid), timeout_s=TIMEOUT_S, limit=OUTPUT_LIMIT, passed=passed
    )
    if isinstance(answer, Ended):
        # What was started is our own Python, and a person reads of the one of the job.
        detail = answer.detail.replace(os.path.basename(words[0]), found.path, 1)
        return (
            Unreadable(detail)
            if answer.why == "start"
            else Completed(TIMED_OUT, b"", detail.encode())
        )
    if answer.status == NOT_STARTED:
        lines = answer.errors.strip().splitlines() or ["it could not be started"]
        return Unreadable(f"{found.path}: {lines[-1][:200]}")
    return answer


def command_of(
    found: Interpreter, euid: int, limits: JobConfinement = _OURS, job: int = -1
) -> list[str] | Unreadable:
    """How a process with `euid` runs an interpreter as its user. Root's rights never reach it, and
    with them nothing of it outlives the command. `job` is a descriptor of the /proc/PID that
    `limits` are of, or -1.
    """
    setpriv = locate("setpriv")
    if not isinstance(setpriv, str):
        return Unreadable("setpriv is not installed (package util-linux)")
    if _is_of_root(found):
        return _OF_ROOT
    if euid == found.uid:
        return [setpriv, "--no-new-privs", "--", found.path]
    if euid != 0:
        return Unreadable("needs root: the interpreter is another user's")
    child = own_file("host/processes/confined_child.py")
    if child is None:
        return Unreadable("hosttune is not complete: host/processes/confined_child.py is missing")
    if found.groups is None:
        groups = "--init-groups" if _find_entry(found.uid) else "--clear-groups"
    else:
        groups = (
            f"--groups={','.join(map(str, found.groups))}" if found.groups else "--clear-groups"
        )
    wanted = {
        "parent": os.getpid(), "job": job, "cgroups": limits.cgroups,
        "rlimits": limits.rlimits or _NO_CORE, "cpus": limits.cpus, "nice": limits.nice,
        "is_roots": found.is_roots,
    }  # fmt: skip
    confined = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        "-B",
        "-c",
        child.decode(),
        json.dumps(wanted),
    ]
    ids = [f"--reuid={found.uid}", f"--regid={found.gid}", groups]
    return [*confined, setpriv, *ids, "--inh-caps=-all", "--no-new-privs", "--", found.path]


def _is_of_root(found: Interpreter) -> bool:
    return 0 in {found.uid, found.gid, *(found.groups or ())}


def environment_of(uid: int) -> dict[str, str]:
    """All that the child sees of an environment: neither root's, nor the caller's, nor the
    job's.
    """
    entry = _find_entry(uid)
    home = entry[1] if entry else "/nonexistent"
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }


def _find_entry(uid: int) -> tuple[str, str] | None:
    """(name, home) of a user that the machine knows."""
    import pwd

    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    return entry.pw_name, entry.pw_dir


def primary_group(uid: int) -> int:
    """The group of a user's account, else nogroup. That of a file is not his: a setgid folder gives
    files its own.
    """
    import pwd

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return _NOBODY


def at_path(path: str, user_of_roots: int = _NOBODY) -> Interpreter | Unreadable:
    """The interpreter at an absolute path: as the user who wrote its code, or as `user_of_roots` if
    only root can change it. Without root's rights it has to be the caller's own code, or root's. No
    dead file system is waited for.
    """
    return _found_in_time(path, lambda: _at_path(path, user_of_roots))


def _at_path(path: str, user_of_roots: int) -> Interpreter | Unreadable:
    if reason := why_no_program(path):
        return Unreadable(reason)
    owner = owner_of_code(path)
    if isinstance(owner, Unreadable):
        return Unreadable(f"{path} is not run: {owner.reason}")
    euid = os.geteuid()
    if not euid:
        uid = owner or user_of_roots
        return Interpreter(path, uid, primary_group(uid), is_roots=not owner)
    if owner not in (0, euid):
        return Unreadable(f"needs root: the code of {path} belongs to uid {owner}")
    return Interpreter(path, euid, os.getegid(), is_roots=not owner)


def why_no_program(path: str) -> str:
    """Why nothing at this path can be started; empty for an executable file."""
    if not path.startswith("/") or "\0" in path:
        return f"{path!r} is no absolute path"
    try:
        info = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    is_program = stat.S_ISREG(info.st_mode) and info.st_mode & 0o111
    return "" if is_program else f"{path} is not a program"


@contextmanager
def _opened_process(pid: int) -> Iterator[int]:
    """A descriptor of /proc/PID, which stays with this process when the number is used again."""
    folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _found_in_time(
    name: str, look: Callable[[], Interpreter | Unreadable]
) -> Interpreter | Unreadable:
    """What `look` finds. A user chooses the paths that it goes through: their file systems may be
    dead, and links and folders on any other one can be made to take their time.
    """

    def run_program() -> bytes:
        found = look()
        if isinstance(found, Unreadable):
            return json.dumps({"reason": found.reason}).encode()
        return json.dumps([found.path, found.uid, found.gid, found.groups, found.is_roots]).encode()

    try:
        reply = json.loads(answer_of(ascii(name), run_program))
    except OSError as error:
        return Unreadable(f"{name}: {error.strerror}")
    if isinstance(reply, dict):
        return Unreadable(str(reply["reason"]))
    path, uid, gid, groups, is_roots = reply
    return Interpreter(path, uid, gid, groups if groups is None else tuple(groups), is_roots)


def _interpreter_of(folder: int, pid: int) -> Interpreter | Unreadable:
    """The interpreter that a process was started with, as it was named: the one of a virtual
    environment is a link.
    """
    return _found_in_time(f"process {pid}", lambda: _look_for(folder, pid))


def _look_for(folder: int, pid: int) -> Interpreter | Unreadable:
    status = fields_of(folder)
    uids, gids = ({int(word) for word in status.get(key, "").split()} for key in ("Uid", "Gid"))
    if len(uids) != 1 or len(gids) != 1:
        return Unreadable(f"process {pid} runs with the rights of more than one user")
    if refused := why_other_view(folder, pid):
        return refused
    # Its name is the word of the process itself. It counts if it leads to the very file that runs.
    running = os.stat("exe", dir_fd=folder)
    for path in _list_candidates(folder):
        try:
            # the kernel's own walk knows no bound of what links add
            with walk("/", path) as reached:
                info = None if reached.missing else reached.stat()
        except OSError:
            continue
        if info and (info.st_dev, info.st_ino) == (running.st_dev, running.st_ino):
            return _of_one_user(path, uids.pop(), gids.pop(), status)
    return Unreadable(
        f"the interpreter of process {pid} is not found by the name it was started with"
    )


def _of_one_user(
    path: str, uid: int, gid: int, status: Mapping[str, str]
) -> Interpreter | Unreadable:
    owner = owner_of_code(path)
    if isinstance(owner, Unreadable):
        return Unreadable(f"{path} is not run: {owner.reason}")
    if owner not in (0, uid):
        return Unreadable(
            f"{path} is not run: its code belongs to uid {owner}, and the job runs as uid {uid}"
        )
    return Interpreter(
        path, uid, gid, tuple(int(word) for word in status.get("Groups", "").split())
    )


def _list_candidates(folder: int) -> list[str]:
    """Where the program may be: as it was called, from its folder, in its environment, on its PATH,
    as it runs.
    """
    called = os.fsdecode(_read_memory(folder, "cmdline").split(b"\0")[0])
    own = dict(
        os.fsdecode(one).partition("=")[::2] for one in _read_memory(folder, "environ").split(b"\0")
    )
    found = [called]
    if "/" in called:
        found.append(f"{os.readlink('cwd', dir_fd=folder)}/{called}")
    else:
        found += [
            f"{own[key]}/bin/{called}" for key in ("VIRTUAL_ENV", "CONDA_PREFIX") if key in own
        ]
        found += [
            f"{part}/{called}"
            for part in own.get("PATH", "").split(":", _MOST_PLACES)[:_MOST_PLACES]
        ]
    # Last, because this path is without links, and pyvenv.cfg is found only beside the link of a
    # virtual environment.
    found.append(os.readlink("exe", dir_fd=folder))
    return [path for path in found if path.startswith("/") and "\n" not in path]


def _read_memory(folder: int, name: str) -> bytes:
    """A file of /proc/PID that its owner can lock; nothing of one with more than 64 KiB. Raises
    OSError.
    """
    content, is_whole = head_in_time(name, dir_fd=folder)
    return content if is_whole else b""
