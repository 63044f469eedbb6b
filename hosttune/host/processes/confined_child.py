"""Starts a user's program so that nothing of it outlives its answer: a program by itself, run by
host/processes/interpreter.py.

argv: a JSON object, then the words of the command, which gives root's rights up before it starts
the user's program.
  {"parent": PID,              whose end ends all of it
   "job": FD,                  of /proc/PID of the job beside which it is started, or -1
   "cgroups": [FOLDER, ...], "rlimits": [[NUMBER, SOFT, HARD], ...], "cpus": [...], "nice": NUMBER,
   "is_roots": true}            only root wrote what is started

The command runs in a PID namespace whose first process is this program: when that ends, the kernel
ends all others in it, before anything else can be forked (pid_namespaces(7)), and it ends when the
process that asked does. The command leaves root's session keyring, enters the control groups of the
job, and gets its limits. The exit status is that of the command, 128 + NUMBER if a signal ended it,
or 125 with one line on stderr if it was not started. A container without CAP_SYS_ADMIN can have
neither namespace nor keyring of its own: there only root's code is started.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
CLONE_NEWPID = 0x20000000
KEYCTL_JOIN_SESSION_KEYRING = 1
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "ppc64le": 271}  # syscall.tbl of each architecture
NOT_STARTED = 125
LONGEST = 1 << 16  # bytes of /proc/PID/cgroup

libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    wanted, command = json.loads(sys.argv[1]), sys.argv[2:]
    if wanted["job"] >= 0:
        os.set_inheritable(wanted["job"], False)
    die_with_parent()
    # It may have ended before the kernel was asked for a signal at its end (prctl(2),
    # PR_SET_PDEATHSIG).
    if os.getppid() != wanted["parent"]:
        return NOT_STARTED
    # The first process of a PID namespace has 0 for its parent (getppid(2)): only a pipe shows it
    # whether that still lives.
    alive, closing = os.pipe()  # `closing` closes when this process ends
    require(libc.unshare(CLONE_NEWPID), "unshare", but=(errno.EPERM,) if wanted["is_roots"] else ())
    first = os.fork()
    if first == 0:
        os.close(closing)
        die_with_parent()
        if select.select([alive], [], [], 0)[0]:
            return NOT_STARTED
        return watch(wanted, command)
    return status_of(os.waitpid(first, 0)[1])


def watch(wanted: dict[str, Any], command: list[str]) -> int:
    """As the first process of the namespace: start the command, and end when it does."""
    child = os.fork()
    if child == 0:
        confine_self(wanted)
        # Python ignores them, and a new program would
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - a list of words, given by host/processes/interpreter.py
    while True:
        # As the first process of its namespace it gets all that lose their parent there.
        ended, status = os.wait()
        if ended == child:
            return status_of(status)


def confine_self(wanted: dict[str, Any]) -> None:
    machine = os.uname().machine
    if machine not in SYS_KEYCTL:
        raise OSError(0, f"the keyring of the session cannot be left on {machine}")
    but = (errno.ENOSYS, errno.EPERM) if wanted["is_roots"] else (errno.ENOSYS,)
    require(libc.syscall(SYS_KEYCTL[machine], KEYCTL_JOIN_SESSION_KEYRING, None), "keyctl", but=but)
    for folder in wanted["cgroups"]:
        with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:
            # 0 is the process that writes (cgroups(7)), whatever number it has in its namespace.
            file.write("0")
    if wanted["job"] >= 0:
        fd = os.open("cgroup", os.O_RDONLY, dir_fd=wanted["job"])
        with open(fd, "rb") as job, open("/proc/self/cgroup", "rb") as own:
            # The job may have been moved meanwhile. What is started must not run outside of what
            # counts the job.
            if job.read(LONGEST) != own.read(LONGEST):
                raise OSError(0, "the control groups of the job could not be entered")
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # short of memory, the kernel ends this first, and not the job
    if wanted["cpus"]:
        os.sched_setaffinity(0, wanted["cpus"])
    os.setpriority(os.PRIO_PROCESS, 0, wanted["nice"])
    # Last: few open files, or little memory, would keep this process from the steps above.
    for number, soft, hard in wanted["rlimits"]:
        resource.setrlimit(number, (soft, hard))


def die_with_parent() -> None:
    require(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def require(answer: int, name: str, *, but: tuple[int, ...] = ()) -> None:
    """Raise OSError for a call that failed, unless with one of these errors."""
    if answer < 0 and ctypes.get_errno() not in but:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def status_of(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    try:
        ended = main()
    except BaseException as error:  # noqa: BLE001 - whatever it is, nothing was started
        name, why = getattr(error, "filename", None), getattr(error, "strerror", None) or error
        sys.stderr.write(f"{name}: {why}\n" if name else f"{why}\n")
        sys.stderr.flush()
        ended = NOT_STARTED
    os._exit(ended)
