"""Signals that come while a process changes a host: real ones, sent to a process of ours that waits
in its second change.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from hosttune.host.console import is_gone

APPLIES = """\
import json, signal, sys
from tests.unit import test_intention as one
from hosttune.actions.journal.journal import read_journal
from hosttune.host.writing import stopping

writer = one.host()
stopping.outlive_terminal()


def on_progress(text):
    print(text, flush=True)
    sys.stdin.readline()


session = one.session_on(writer)
receipt = one.apply(session, writer, one.plan_of(*one.ALL), on_progress=on_progress)
run = read_journal(writer).runs[0]
print(json.dumps([len(receipt.outcomes), len(receipt.left), receipt.stopped, run.is_finished, stopping.has_hung_up()]))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.fixture
def child():
    words = (sys.executable, "-c", APPLIES)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, text=True, **pipes) as process:
        assert process.stdout.readline() == "~ vm.a\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "~ vm.b\n"
        yield process
        process.kill()


def rest(child):
    """What it says then, with all that it waits for."""
    out, err = child.communicate("\n" * 9, timeout=60)
    return out.splitlines()[-2:], err


def test_dropped_connection_does_not_end_an_apply(child):
    child.send_signal(signal.SIGHUP)
    told, err = rest(child)
    assert (told, err, child.returncode) == (['[4, 0, "", true, true]', "True"], "", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_an_apply_between_two_changes(child, number):
    child.send_signal(number)
    child.send_signal(number)  # as timeout(1) does: it counts once
    assert (
        child.stderr.readline()
        == "  stopping after the change at hand; the same once more ends it at once\n"
    )
    told, err = rest(child)
    assert (told, err, child.returncode) == (
        [f'[2, 2, "{number.name}", true, false]', "True"],
        "",
        0,
    )


def test_second_interrupt_ends_it_at_once(child):
    child.send_signal(signal.SIGINT)
    child.stderr.readline()
    time.sleep(1.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert child.returncode


def test_ignored_signals_stay_ignored():
    words = (sys.executable, "-c", APPLIES)
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    ignoring = ("sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh", *words)
    with subprocess.Popen(ignoring, text=True, **pipes) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate("\n" * 9, timeout=60)
    assert out.splitlines()[-2:] == ['[4, 0, "", true, false]', "False"]


def test_stream_whose_reader_is_gone_is_known_and_a_file_never_is(tmp_path):
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream, (tmp_path / "file").open("w") as file:
        assert (is_gone(stream), is_gone(file)) == (False, False)
        os.close(read)
        assert is_gone(stream)


def test_terminal_that_hung_up_is_known():
    outer, inner = os.openpty()
    with os.fdopen(inner, "w") as stream:
        assert not is_gone(stream)
        os.close(outer)
        assert is_gone(stream)


RUNS = """\
import signal, sys, time
from hosttune import __main__
from hosttune.cli import app

app.build = lambda _: lambda *_, **__: (signal.raise_signal(signal.SIGINT), time.sleep(60))
sys.argv = ["hosttune", "check"]
__main__.main()
"""
IMPORTED = "import signal, hosttune.__main__; print(int(signal.getsignal(signal.SIGINT)))"


def test_interrupt_while_python_imports_prints_nothing_and_one_that_is_ignored_stays_so():
    words = (sys.executable, "-c", IMPORTED)
    plain = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    assert plain.stdout == f"{int(signal.SIG_DFL)}\n"
    ignoring = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh", *words)
    ignored = subprocess.run(ignoring, check=True, capture_output=True, text=True, timeout=60)
    assert ignored.stdout == f"{int(signal.SIG_IGN)}\n"


def test_interrupt_of_a_command_that_runs_is_one_line():
    done = subprocess.run(
        (sys.executable, "-c", RUNS), check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "hosttune: interrupted\n")
