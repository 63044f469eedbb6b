"""The pager of a terminal: a report that is longer than the screen is shown in it, as git(1) does.

With rights that are lent (root, sudo) it is only less(1), with LESSSECURE=1: by `!`, `v`, `|` and
lesskey files its pager would be a shell for each user who may type `sudo hosttune check`. systemd
does the same (SYSTEMD_PAGERSECURE, systemctl(1)).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.host.console import SECURE_PATH, make_console

if TYPE_CHECKING:
    from collections.abc import Mapping

_state = {"is_off": False}
# F: end at once where all fits, R: colours, X: leave the text on the screen; what git sets where
# nothing is set.
_LESS = {"LESS": "FRX", "LV": "-c"}
_HARMLESS = ("TERM", "LANG", "LC_ALL", "LC_CTYPE", "COLORTERM")
_LENT_BY = ("SUDO_UID", "PKEXEC_UID", "DOAS_USER")  # sudo(8), pkexec(1), doas(1)


def switch_pager_off(*, when: bool = True) -> None:
    """Print every answer of this process as it is: for --no-pager, and where nothing is to wait for
    a key.
    """
    _state["is_off"] |= when


def show_in_pager(text: str) -> bool:
    """Show `text` and wait until its reader is done. False, and nothing shown, where no pager is to
    be used.
    """
    if _state["is_off"] or not _is_longer_than_screen(text):
        return False
    # `sudo -u` lends the rights of another user than root, and then only the variable shows it.
    is_lent = os.geteuid() == 0 or any(name in os.environ for name in _LENT_BY)
    words, environment = pager_of(os.environ, is_lent=is_lent)
    if not words:
        return False
    import subprocess

    try:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    # Ctrl-C is the pager's: less stops a search with it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            child.communicate(text.encode("utf-8", "backslashreplace"))
        child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    # So end env(1) and a script if the pager that they name cannot be started: nothing was shown.
    return child.returncode not in (126, 127)


def _is_longer_than_screen(text: str) -> bool:
    """Whether a person at a terminal, who can press keys, would not see all of `text` at once."""
    if not (make_console(sys.stdout).is_terminal and sys.stdin and sys.stdin.isatty()):
        return False
    if os.environ.get("TERM", "dumb") == "dumb":
        return False
    with suppress(OSError, ValueError):
        return text.count("\n") >= os.get_terminal_size(sys.stdout.fileno()).lines > 0
    return False


def pager_of(given: Mapping[str, str], *, is_lent: bool) -> tuple[list[str], dict[str, str]]:
    """The words that start the pager, none where `cat` or nothing is asked for, and its
    environment. PAGER is a program with its arguments; no shell reads it.
    """
    import shlex

    try:
        words = shlex.split(given.get("PAGER", "less"))
    except ValueError:
        words = []
    if words in ([], ["cat"]):
        return [], {}
    if not is_lent:
        return words, {**_LESS, **given}
    kept = {name: given[name] for name in _HARMLESS if name in given}
    own = {
        "PATH": os.pathsep.join(SECURE_PATH),
        "LESSSECURE": "1",
        "LESSSECURE_ALLOW": "stop",
        "LESSHISTFILE": "-",
    }
    return ["less"], {**_LESS, **kept, **own}
