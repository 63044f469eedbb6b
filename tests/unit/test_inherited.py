"""What the shell that started hosttune has, and what must not come of it."""

import os
import subprocess
import sys

import pytest

from hosttune.host import inherited


def child(code, **kwargs):
    words = (sys.executable, "-c", code)
    return subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=60, **kwargs
    ).stdout.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root raises its limits")
def test_limits_that_would_end_a_write_half_way_are_lifted():
    code = (
        "import resource as r\nfrom hosttune.host.inherited import lift_limits\n"
        "r.setrlimit(r.RLIMIT_FSIZE, (0, r.getrlimit(r.RLIMIT_FSIZE)[1]))\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, r.getrlimit(r.RLIMIT_NOFILE)[1]))\n"
        "lift_limits()\nprint(r.getrlimit(r.RLIMIT_FSIZE)[0], r.getrlimit(r.RLIMIT_NOFILE)[0] > 100)"
    )
    assert child(code) == ["-1", "True"]


def test_timer_of_the_caller_does_not_end_hosttune():
    """execve(2) keeps one that is armed, and its signal ends a program in the middle of a
    change.
    """
    code = (
        "import os, signal, sys\nsignal.setitimer(signal.ITIMER_REAL, 300)\nsignal.setitimer(signal.ITIMER_PROF, 300)\n"
        "code = 'import signal as s; from hosttune.host.inherited import take_signals; take_signals();"
        " print(*s.getitimer(s.ITIMER_REAL), *s.getitimer(s.ITIMER_PROF))'\n"
        "os.execv(sys.executable, [sys.executable, '-c', code])"
    )
    assert child(code) == ["0.0"] * 4


def test_limits_that_cannot_be_raised_stay(monkeypatch):
    import resource

    tried = []
    monkeypatch.setattr(resource, "getrlimit", lambda number: (10, 20))
    monkeypatch.setattr(
        resource, "setrlimit", lambda number, pair: tried.append(pair) or _refuse(pair)
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    inherited.lift_limits()
    assert {(20, 20), (4096, 4096), (-1, -1)} == set(tried)


def _refuse(pair):
    if pair != (20, 20):
        raise ValueError("not allowed to raise maximum limit")


def test_names_of_files_are_utf8_whatever_the_locale_is():
    """What fstab calls /d\u00e4t\u00e4 is one folder for everybody."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = (
        "import sys\nfrom hosttune.host.inherited import require_utf8\nrequire_utf8()\n"
        "print(sys.getfilesystemencoding(), sys.argv[1:])"
    )
    words = (sys.executable, "-c", code, "check")
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout == "utf-8 ['check']\n"


def test_program_that_fails_does_so_for_a_caller_that_ignores_ends_and_blocks_signals():
    """Through sudo, cron and daemons both reach hosttune; apt would have succeeded whatever it
    did.
    """
    code = (
        "import signal, sys\nfrom hosttune.cli import app\nfrom hosttune.host.process import look\n"
        "app.run = lambda _: print(look(('false',), timeout_s=9.0).status, *signal.pthread_sigmask(signal.SIG_BLOCK, ())) or 0\n"
        "app.main()"
    )
    caller = (
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM})\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {code!r}])"
    )
    assert child(caller) == ["1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network")
def test_network_that_is_not_the_hosts_is_not_judged():
    code = "from hosttune.host import open_reader\nprint(open_reader().kind)"
    assert child(code) == ["live"]
    words = ("unshare", "--net", sys.executable, "-c", code)
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert "Refused: this shell has a network of its own" in done.stderr
