"""What this process has from the shell that started it, and that must decide nothing about the
host.

Sources: setrlimit(2), sigaction(2), execve(2), network_namespaces(7), PEP 540. The umask decides
nothing already: modes are set by fchmod(2). Programs get an environment, a folder and a umask of
their own (host/process.py).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from hosttune.errors import Refused
from hosttune.host.reading.running import has_own_network

# With them a look or a write ends half-way: setrlimit(2).
_ENDING = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE")
_LEAST_FILES = 4096


def require_utf8() -> None:
    """Start this program once more where the locale makes another encoding of the names of files:
    paths in files of the host are UTF-8, whatever the person speaks. Python changes its encoding
    only at its start (PEP 540).
    """
    # The flag is asked as well: if -X had no effect on the encoding, this would go on without end.
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - the same program


def take_signals() -> None:
    """Hear of the ends of programs, and let through what the caller blocked: execve(2) keeps both.
    Where SIGCHLD is ignored the kernel throws the end of a child away (sigaction(2)), and Python
    then takes a program that failed for one that succeeded (`subprocess`: no child, status 0). A
    timer of the caller goes on, too (setitimer(2)): its signal would end a change half-way.
    """
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def lift_limits() -> None:
    """With root's rights, take off the limits with which work on the host would end half-way;
    programs inherit that. A job that hosttune starts has its own (host/processes/job_limits.py).
    """
    if os.geteuid() != 0:
        return
    import resource

    for name in _ENDING:
        _raise(getattr(resource, name), resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # RLIM_INFINITY is -1, which is the largest of all.
    if 0 <= soft < _LEAST_FILES:
        _raise(resource.RLIMIT_NOFILE, _LEAST_FILES, hard if hard < 0 else max(hard, _LEAST_FILES))


def _raise(number: int, soft: int, hard: int) -> None:
    import resource

    most = resource.getrlimit(number)[1]
    for pair in ((soft, hard), (most, most)):  # a container may not raise its hard limits
        with suppress(ValueError, OSError):
            resource.setrlimit(number, pair)
            return


def require_network_of_host() -> None:
    """Raise Refused in a shell that has the host's files and a network of its own (`ip netns
    exec`): settings and devices of that network would be taken for those of the host, and written
    there.
    """
    if has_own_network():
        raise Refused(
            "this shell has a network of its own, so what it shows is not the network of this host",
            hint="leave it, or type: sudo nsenter --target 1 --net --mount hosttune ...",
        )
