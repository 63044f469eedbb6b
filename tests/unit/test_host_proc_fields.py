"""What is read of processes by hand is what psutil says of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hosttune.host.processes import proc
from hosttune.host.processes.proc_fields import (
    FIELDS,
    command_words,
    fields_by_hand,
    fields_by_psutil,
    full_name,
)

AWKWARD = "import sys; open('/proc/self/comm', 'w').write(') (x) 1 2'); print(flush=True); sys.stdin.read()"


@pytest.fixture
def awkward():
    """A process with parentheses and spaces in its name and a line break in its words."""
    words = [sys.executable, "-c", AWKWARD, "two\nlines", ""]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        yield child.pid
        child.stdin.close()


def test_fields_by_hand_are_those_of_psutil(awkward):
    by_hand, by_psutil = (
        {one["pid"]: one for one in source()} for source in (fields_by_hand, fields_by_psutil)
    )
    for pid in (awkward, os.getpid(), os.getppid()):
        assert set(by_hand[pid]) == set(FIELDS)
        for name in set(FIELDS) - {"rss_bytes"}:
            assert by_hand[pid][name] == by_psutil[pid][name]
    assert by_hand[awkward]["rss_bytes"] == by_psutil[awkward]["rss_bytes"]
    assert by_hand[awkward]["name"] == ") (x) 1 2"


def test_processes_without_psutil_are_the_same(awkward, monkeypatch):
    with_it = [one for one in proc.list_processes() if one.pid == awkward]
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert [one for one in proc.list_processes() if one.pid == awkward] == with_it
    assert with_it


def test_fields_by_hand_of_a_process_that_ended_are_left_out(tmp_path):
    (tmp_path / "stat").write_text("btime 100\n")
    (tmp_path / "7").mkdir()
    assert list(fields_by_hand(str(tmp_path))) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", []),
        ("/bin/sh\0-c\0\0", ["/bin/sh", "-c", ""]),
        ("nginx: worker process", ["nginx:", "worker", "process"]),
        ("sshd: ops [priv]\0", ["sshd:", "ops", "[priv]"]),
    ],
)
def test_command_words_of_every_ending(content, words):
    assert command_words(content) == words


@pytest.mark.parametrize(
    ("short", "words", "name"),
    [
        ("nvidia-persiste", ["/usr/bin/nvidia-persistenced", "--user"], "nvidia-persistenced"),
        ("a-name-of-15-ch", ["/usr/bin/python3"], "a-name-of-15-ch"),
        ("sh", ["/bin/shell"], "sh"),
        ("systemd-journal", [], "systemd-journal"),
    ],
)
def test_full_name_of_a_cut_name_is_the_programs(short, words, name):
    assert full_name(short, words) == name


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder away")
def test_path_of_a_container_is_not_looked_up_below_a_folder_of_a_user():
    """A user mounts and unmounts a FUSE file system there; the look that meets one never ends (kill
    -9 included).
    """
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hosttune-test-") as top:
        Path(top).chmod(0o755)
        for name, uid, mode in (("roots", 0, 0o755), ("eves", 54321, 0o755), ("open", 0, 0o1777)):
            (Path(top) / name / "below").mkdir(parents=True)
            (Path(top) / name / "below/program").touch()
            os.chown(Path(top) / name, uid, uid)
            (Path(top) / name).chmod(mode)
        found = [
            one
            for one in ("roots", "eves", "open")
            if proc._status_on_host(f"{top}/{one}/below/program", ())
        ]
    assert found == ["roots"]
    assert proc._status_on_host("/dev/null", ())
