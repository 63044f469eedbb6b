"""What a run that Ansible brought leaves on the host for the way back, and when that goes again."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from hosttune.actions import left_program
from hosttune.actions.left_program import (
    COPY,
    LINK,
    PYTHON,
    keep_program,
    leave_program,
    remove_idle_program,
)
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import ABSENT, FileValue
from tests.hosts.built import HOSTS


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host to which hosttune travelled as a file; nothing of hosttune is there."""
    overlay = Overlay(read_record(str(HOSTS / "no-gpu-debian12.json")))
    overlay.replace(PYTHON, FileValue(b""), expected=ABSENT)
    file = tmp_path / "hosttune.pyz"
    file.write_bytes(b"this version")
    monkeypatch.setattr(left_program, "find_archive", lambda: str(file))
    monkeypatch.setattr(left_program, "open_writer", lambda: overlay)
    monkeypatch.setattr(left_program, "hold_lock", nullcontext)
    monkeypatch.setattr(sys, "executable", PYTHON)
    return overlay


def journal(monkeypatch, **found):
    told = {"in_force": (), "interrupted": (), "problem": ""} | found
    monkeypatch.setattr(left_program, "read_journal", lambda _reader: SimpleNamespace(**told))


def test_program_is_there_before_the_run_and_stays_while_a_change_is_in_force(host, monkeypatch):
    journal(monkeypatch, in_force=("a step",))
    with keep_program():
        assert (host.link(LINK), host.read(COPY)) == (COPY, b"this version")
    assert host.link(LINK) == COPY
    journal(monkeypatch)
    remove_idle_program()
    assert (host.link(LINK), host.read(COPY)) == (ABSENT, ABSENT)


@pytest.mark.parametrize(
    "found", [{"interrupted": ("a run",)}, {"problem": "it needs a newer hosttune"}]
)
def test_program_stays_where_something_may_be_taken_back(found, host, monkeypatch):
    leave_program(host)
    journal(monkeypatch, **found)
    remove_idle_program()
    assert host.link(LINK) == COPY


def test_run_that_changed_nothing_leaves_nothing(host, monkeypatch):
    journal(monkeypatch)
    with pytest.raises(ValueError, match="refused"), keep_program():
        raise ValueError("refused")
    assert host.link(LINK) == ABSENT


def test_older_version_that_was_left_is_replaced(host):
    host.replace(COPY, FileValue(b"an older one", 0o755), expected=ABSENT)
    host.make_link(LINK, COPY)
    leave_program(host)
    assert host.read(COPY) == b"this version"


@pytest.mark.parametrize("path", [LINK, "/usr/bin/hosttune"])
def test_hosttune_that_is_installed_is_left_alone(path, host, monkeypatch):
    host.replace(path, FileValue(b"installed", 0o755), expected=ABSENT)
    leave_program(host)
    journal(monkeypatch)
    remove_idle_program()
    assert (host.read(path), host.read(COPY)) == (b"installed", ABSENT)


def test_file_that_this_system_may_not_run_is_not_left(host, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/python3.13/bin/python3")
    leave_program(host)
    assert host.link(LINK) == ABSENT
