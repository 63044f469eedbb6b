"""A look at the memory of processes ends, however many of them do not let theirs be read."""

from __future__ import annotations

import threading

import pytest

from hosttune.host.processes import process_memory
from hosttune.host.processes.process_memory import MemoryLook, head_in_time

ROOT, USER, OTHER = range(100, 110), range(200, 260), range(300, 310)


class Processes:
    """Those of `locked` wait until they are released; the kernel holds who asks them."""

    def __init__(self, locked):
        self.asked, self.locked, self.released = [], frozenset(locked), threading.Event()

    def read(self, pid):
        self.asked.append(pid)
        if pid in self.locked:
            self.released.wait()
        return str(pid)


@pytest.fixture
def processes(monkeypatch):
    made = []

    def make(locked):
        made.append(Processes(locked))
        return made[-1]

    owners = {
        pid: "0::/system.slice" if pid in ROOT else pid // 100 for pid in (*ROOT, *USER, *OTHER)
    }
    monkeypatch.setattr(
        process_memory, "owner_of", lambda process: owners.get(int(process.rpartition("/")[2]), 7)
    )
    held = lambda reader: any(reader.at in one.locked and not one.released.is_set() for one in made)  # noqa: E731
    monkeypatch.setattr(process_memory._Reader, "is_held", held)
    monkeypatch.setattr(process_memory, "_LAST_S", 0.05)
    yield make
    for one in made:
        one.released.set()


def test_locked_processes_of_one_user_hide_only_that_user(processes):
    host = processes(USER)
    found = MemoryLook().ask([*USER, *ROOT, *OTHER], host.read)
    assert found == {pid: str(pid) for pid in (*ROOT, *OTHER)}
    assert len(set(host.asked) & set(USER)) == 2


def test_locked_processes_of_many_users_do_not_hide_those_of_root(processes, monkeypatch):
    many = range(1000, 1060)
    monkeypatch.setattr(process_memory, "_TOTAL_S", 0.1)
    host = processes(many)
    owners = {f"/proc/{pid}": pid for pid in many}
    monkeypatch.setattr(process_memory, "owner_of", lambda process: owners.get(process, "root"))
    found = MemoryLook().ask([*many, *ROOT], host.read)
    assert found == {pid: str(pid) for pid in ROOT}
    assert len(set(host.asked) & set(many)) <= 20


def test_process_that_answers_late_is_not_lost(processes, monkeypatch):
    monkeypatch.setattr(process_memory, "_LAST_S", 60)
    host = processes([200, 201])
    last = OTHER[-1]

    def read(pid):
        if pid == last:
            host.released.set()
        return host.read(pid)

    assert MemoryLook().ask([*USER, *OTHER], read) == {pid: str(pid) for pid in (*USER, *OTHER)}


def test_process_that_ends_meanwhile_is_none():
    def read(pid):
        raise ProcessLookupError(pid)

    assert MemoryLook().ask([7], read) == {7: None}


def test_locked_file_by_itself_is_a_timeout(processes, tmp_path, monkeypatch):
    (tmp_path / "cmdline").write_bytes(b"a\0b\0")
    path = str(tmp_path / "cmdline")
    assert head_in_time(path) == (b"a\0b\0", True)
    assert head_in_time(path, 2) == (b"a\0", False)
    with pytest.raises(FileNotFoundError):
        head_in_time(f"{path}x")
    host = processes([1])
    monkeypatch.setattr(process_memory, "head_of", lambda *_, **__: host.read(1))
    monkeypatch.setattr(process_memory, "_MOST", 2)
    for _ in range(4):
        with pytest.raises(TimeoutError):
            head_in_time(path)
    assert host.asked == [1, 1]
