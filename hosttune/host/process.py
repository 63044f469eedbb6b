"""Running programs: the only place that starts one.

An argv list, never a shell; the program is looked for on a fixed PATH, never the caller's; a small
environment of our own; stdin is /dev/null; stdout and stderr are apart and bounded; a timeout ends
the whole process group.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from hosttune.frozen import frozen
from hosttune.host.console import write_to_stderr
from hosttune.host.door import Completed
from hosttune.host.progress import show_progress, waiting_for
from hosttune.host.writing.stopping import handed_on
from hosttune.numbers import say_limit
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent

if TYPE_CHECKING:
    import subprocess

# /usr/local last: what was put there by hand must not answer for the program of the distribution.
SEARCH: Final = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin")
OUTPUT_LIMIT: Final = 32 << 20  # bytes kept of each of stdout and stderr
_GRACE_S = 3.0  # between SIGTERM and SIGKILL, and again after it
_MOST_LINES, _LONGEST = 15, 300
_CONSEQUENCES = regex(
    r"^dpkg: dependency problems prevent \S+ of (?:(?!^dpkg: dependency ).)*?"
    r"^ dependency problems - leaving (?:un\S+|\S+ unprocessed)\n|"
    r"^Errors were encountered while processing:\n(?: [^\n]*\n)*",
    re.MULTILINE | re.DOTALL,
)
# Both are variables of systemctl(1).
WHOLE_REBOOT: Final = {"SYSTEMCTL_SKIP_AUTO_KEXEC": "1", "SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT": "1"}
_PROXIES = (
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)

# apt rewrites its caches and, even with -s, the log of its planner (apt.conf(5), Dir::Log::Planner:
# eipp.log.xz). The file that APT_CONFIG names is read before apt.conf.d, so programs of apt itself
# get `-o` as well, which is last.
_APT_PRIVATE = (
    ("Dir::Cache::pkgcache", ""), ("Dir::Cache::srcpkgcache", ""), ("Dir::Log::Planner", ""),
    ("Dir::Log::Solver", ""), ("Dir::Log::Terminal", ""), ("Dir::Log::History", ""),
    ("Debug::NoLocking", "true"),
)  # fmt: skip
_PACKAGE_MANAGERS = frozenset({"apt-get", "dpkg"})
_APT_PROGRAMS = frozenset({"apt", "apt-get", "apt-cache", "apt-mark", "apt-config"})


@frozen
class Ended:
    """How a program ended that did not come to its end by itself."""

    why: Literal["timeout", "output", "start"]
    detail: str

    def __str__(self) -> str:
        return self.detail


def locate(program: str) -> str | Absent:
    """The absolute path of a program on the fixed PATH; an absolute path is taken as it is.

    With root's rights a program counts as missing if another user can write it, or a folder or link
    on the way to it.
    """
    candidates = (
        (program,) if program.startswith("/") else tuple(f"{folder}/{program}" for folder in SEARCH)
    )
    if "/" in program.lstrip("/") and not program.startswith("/"):
        return ABSENT
    for path in candidates:
        try:
            info = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and os.access(path, os.X_OK) and _is_trusted(path):
            return path
    return ABSENT


def _is_trusted(path: str) -> bool:
    from hosttune.host.processes.code_owner import owner_of_file

    return os.geteuid() != 0 or owner_of_file(path) == 0


def look(argv: Sequence[str], *, timeout_s: float) -> Completed | Absent | Ended:
    """Run a program that only looks, so that nothing outside memory is written on its behalf."""
    program = locate(argv[0])
    if isinstance(program, Absent):
        return ABSENT
    command = [program, *argv[1:]]
    if os.path.basename(program) in _APT_PROGRAMS:
        command[1:1] = [word for key, value in _APT_PRIVATE for word in ("-o", f"{key}={value}")]
    with _apt_config() as config:
        # apt: an unnamed O_TMPFILE, in memory
        scratch = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
        environment = {
            "APT_CONFIG": config,
            "HOME": "/nonexistent",
            "TMPDIR": scratch,
            "SYSTEMD_PAGER": "",
        }
        return _run(command, {**_make_environment(), **environment}, timeout_s)


def last_lines(text: str) -> tuple[str, ...]:
    """The last lines of a program that failed, bounded. Of dpkg the first failure, and not each
    package that only waits for that one.
    """
    lines = _CONSEQUENCES.sub("", text).strip().splitlines()
    return tuple(line[:_LONGEST] for line in lines[-_MOST_LINES:])


def act(argv: Sequence[str], *, timeout_s: float) -> Completed | Absent | Ended:
    """Run a program that changes the host: no questions, no restarts by needrestart, root's home,
    the site's proxy; and a reboot is one of the machine, where systemd (257, not 252) would take a
    loaded kernel, or /run/nextroot, instead.
    """
    program = locate(argv[0])
    if isinstance(program, Absent):
        return ABSENT
    environment = {
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        "APT_LISTCHANGES_FRONTEND": "none",
        "NEEDRESTART_MODE": "l",
        "NEEDRESTART_SUSPEND": "1",
        **WHOLE_REBOOT,
        **{key: os.environ[key] for key in _PROXIES if key in os.environ},
    }
    command, environment = [program, *argv[1:]], {**_make_environment(), **environment}
    if os.path.basename(program) in _PACKAGE_MANAGERS:
        return _run_to_the_end(command, environment, timeout_s)
    return _run(command, environment, timeout_s)


def run_bounded(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    limit: int,
    passed: tuple[int, ...] = (),
) -> Completed | Ended:
    """Run a program with this environment and no other, that may write `limit` bytes to each of its
    streams. It gets the descriptors `passed` under their numbers, and no others.
    """
    return _run(command, environment, timeout_s, limit, passed)


def _make_environment() -> dict[str, str]:
    return {
        "PATH": ":".join(SEARCH),
        "LC_ALL": "C.UTF-8",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        # dpkg -l cuts names to the width of the screen (dpkg-query(1), COLUMNS), and a name that is
        # cut is another package.
        "COLUMNS": "500",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def _apt_config() -> Iterator[str]:
    """An apt.conf in memory. Named by our pid, not "self": the program that reads it may be a
    grandchild.
    """
    fd = os.memfd_create("apt.conf", os.MFD_CLOEXEC)
    try:
        os.write(fd, "".join(f'{key} "{value}";\n' for key, value in _APT_PRIVATE).encode())
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    limit: int = 0,
    passed: tuple[int, ...] = (),
) -> Completed | Ended:
    import subprocess

    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The folder of the caller may be on a dead server. In a session of its own a program
            # can ask nothing on the terminal, and Ctrl-C reaches it only by `_stop`.
            cwd="/",
            close_fds=True,
            pass_fds=passed,
            start_new_session=True,
            umask=0o022,
        )
    except (OSError, ValueError) as error:
        return Ended("start", f"{command[0]} could not be started: {error}")
    try:
        with waiting_for(command[0]):
            return _attend_child(child, command[0], timeout_s, limit)
    except BaseException:
        _stop(child)
        raise
    finally:
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()


def _run_to_the_end(
    command: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> Completed | Ended:
    """Run a package manager, which comes to its end whatever becomes of us: a transaction that is
    cut off is worse than one that no one waited for. Its output goes to files in memory, so that no
    broken pipe stops it; an interrupt is handed on to it alone, which heeds it while it downloads
    and not while dpkg works.
    """
    import subprocess

    files = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
    try:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1],
            cwd="/", close_fds=True, start_new_session=True, umask=0o022,
        )  # fmt: skip
        try:
            name = os.path.basename(command[0])
            progress = show_progress(
                f"waiting for {name}", most_s=timeout_s, stop="Ctrl-C stops it at a safe point"
            )
            with progress, handed_on(partial(child.send_signal, signal.SIGINT)):
                child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Ended(
                "timeout",
                f"{os.path.basename(command[0])} did not end within {timeout_s:g} s{_stop(child)}",
            )
        except KeyboardInterrupt:
            write_to_stderr(
                f"  interrupted; waiting until {os.path.basename(command[0])} has come to a safe "
                "end\n"
            )
            child.send_signal(signal.SIGINT)
            child.wait(timeout_s)
            raise
        # The last part of a long output: the cause of a failure is there.
        out, errors = (
            os.pread(fd, OUTPUT_LIMIT, max(0, os.fstat(fd).st_size - OUTPUT_LIMIT)) for fd in files
        )
        return Completed(child.returncode, out, errors)
    except (OSError, ValueError) as error:
        return Ended("start", f"{command[0]} could not be started: {error}")
    finally:
        for fd in files:
            os.close(fd)


def _attend_child(
    child: subprocess.Popen[bytes], program: str, timeout_s: float, limit: int = 0
) -> Completed | Ended:
    """Collect both streams until the program ends. A daemon it left behind may keep the pipes open:
    not waited for.
    """
    import selectors

    assert child.stdout  # noqa: S101 - both are pipes
    assert child.stderr  # noqa: S101
    limit = limit or OUTPUT_LIMIT
    deadline = time.monotonic() + timeout_s
    streams = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    out, errors = streams.values()
    name = os.path.basename(program)
    with selectors.DefaultSelector() as selector, _end_of(child) as (end_fd, interval):
        for fd in streams:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        if end_fd >= 0:
            selector.register(end_fd, selectors.EVENT_READ)
        while child.poll() is None and max(len(out), len(errors)) <= limit:
            left = deadline - time.monotonic()
            if left <= 0:
                return Ended("timeout", f"{name} did not end within {timeout_s:g} s{_stop(child)}")
            for key, _ in selector.select(min(left, interval)):
                if key.fd in streams and not _drain(key.fd, streams[key.fd], limit):
                    selector.unregister(key.fd)
        for fd, buffer in streams.items():
            _drain(fd, buffer, limit)
    if max(len(out), len(errors)) > limit:
        return Ended("output", f"{name} wrote more than {say_limit(limit)}{_stop(child)}")
    return Completed(child.returncode, bytes(out), bytes(errors))


@contextmanager
def _end_of(child: subprocess.Popen[bytes]) -> Iterator[tuple[int, float]]:
    """A descriptor that becomes readable when the child ends, or -1 and the interval to poll at."""
    try:
        fd = os.pidfd_open(child.pid)
    except OSError:  # Linux before 5.3, or a seccomp filter
        yield -1, 0.02
        return
    try:
        yield fd, 3600.0
    finally:
        os.close(fd)


def _drain(fd: int, into: bytearray, limit: int) -> bool:
    """Take what is there. False at the end of the stream."""
    while len(into) <= limit:
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        into += chunk
    return True


def _stop(child: subprocess.Popen[bytes]) -> str:
    """End the whole process group: first kindly, then for good. The sentence on one that stays, or
    nothing: a process that waits inside of a driver (`D` in ps(1)) dies when the driver lets it,
    perhaps never.
    """
    import subprocess

    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(child, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
    return (
        ""
        if child.returncode is not None
        else f", and process {child.pid} does not end when it is killed"
    )


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
