"""What a trial needs of the door: a message that systemd's journal finds again, and a lock that is
waited for.
"""

from __future__ import annotations

import os
import socket
import threading

import pytest

from hosttune.errors import Refused
from hosttune.host.console import program_words
from hosttune.host.masking.cleaned import clean
from hosttune.host.writing import own
from hosttune.host.writing.lock import hold_lock

ID = "6f1c0f6cf0b84b2c9a3d5a0c1e7d4b52"


def test_message_with_an_id_is_one_entry_of_systemds_journal(tmp_path, monkeypatch):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(path))
        monkeypatch.setattr(own, "_JOURNAL_SOCKET", str(path))
        own.log(clean("run 1 came back:\nPRIORITY=0"), ID)  # no field of its own
        own.log(clean("what a power cut\0 left"))  # the C library's own call takes no zero
        lines = journal.recv(4096).decode().splitlines()
    assert lines[0] == r"MESSAGE=run 1 came back:\nPRIORITY=0"
    assert [line for line in lines if line.startswith("PRIORITY")] == ["PRIORITY=4"]
    assert f"MESSAGE_ID={ID}" in lines
    assert "SYSLOG_IDENTIFIER=hosttune" in lines


def test_message_goes_to_syslog_where_no_journal_listens(tmp_path, monkeypatch):
    monkeypatch.setattr(own, "_JOURNAL_SOCKET", str(tmp_path / "none"))
    said = []
    monkeypatch.setattr("syslog.syslog", lambda _, text: said.append(text))
    own.log(clean("run 1 came back"), ID)
    assert said == ["run 1 came back"]


def test_lock_is_waited_for_and_the_holder_is_named_when_the_time_is_up(tmp_path, monkeypatch):
    path = str(tmp_path / "lock")
    monkeypatch.setattr("hosttune.host.writing.lock._ASK_AGAIN_S", 0.01)
    with (
        hold_lock(path),
        pytest.raises(Refused, match=f"process {os.getpid()}"),
        hold_lock(path, wait_s=0.05),
    ):
        pass
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with hold_lock(path):
            held.set()
            let_go.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)
    threading.Timer(0.05, let_go.set).start()
    with hold_lock(path, wait_s=60.0):
        assert let_go.is_set()
    other.join()


@pytest.mark.parametrize(
    ("argv0", "words"),
    [
        ("/usr/bin/hosttune", ("/usr/bin/hosttune",)),
        ("/opt/hosttune/bin/hosttune", ("/opt/hosttune/bin/hosttune",)),
    ],
)
def test_systemd_starts_the_same_program_by_its_whole_path(argv0, words, monkeypatch):
    monkeypatch.setattr("sys.argv", [argv0, "apply"])
    assert program_words() == words
