"""Replacing a file: what is kept, what is refused, and that a failure loses nothing."""

from __future__ import annotations

import os

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.host import replace as module
from hosttune.host.replace import leftovers, remove, replace
from hosttune.values import ABSENT, FileValue

NEW = FileValue(b"new\n")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.conf"
    path.write_bytes(b"old\n")
    path.chmod(0o640)
    return path


def test_replace_keeps_mode_and_owner(file):
    replace("/", str(file), NEW, expected=b"old\n")
    assert file.read_bytes() == b"new\n"
    assert file.stat().st_mode & 0o7777 == 0o640


def test_replace_keeps_extended_attributes(file):
    os.setxattr(file, "user.note", b"kept")
    replace("/", str(file), NEW, expected=b"old\n")
    assert os.getxattr(file, "user.note") == b"kept"


def test_replace_follows_a_link_and_leaves_it_one(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("file.conf")
    replace("/", str(link), NEW, expected=b"old\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"


def test_new_file_has_the_mode_asked_for_and_missing_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "new.conf"
    replace("/", str(path), FileValue(b"x", 0o600), expected=ABSENT)
    assert path.read_bytes() == b"x"
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.parent.stat().st_mode & 0o7777 == 0o755


def test_file_changed_by_somebody_else_is_a_conflict(file):
    with pytest.raises(Conflict, match="changed by somebody else"):
        replace("/", str(file), NEW, expected=b"other\n")
    assert file.read_bytes() == b"old\n"


def test_file_that_appeared_meanwhile_is_a_conflict(file):
    with pytest.raises(Conflict, match="appeared"):
        replace("/", str(file), NEW, expected=ABSENT)
    assert file.read_bytes() == b"old\n"


def test_file_that_is_gone_is_a_conflict(tmp_path):
    with pytest.raises(Conflict, match="not there any more"):
        replace("/", str(tmp_path / "gone"), NEW, expected=b"old\n")


def test_second_hard_link_is_refused(file, tmp_path):
    os.link(file, tmp_path / "other")
    with pytest.raises(Refused, match="hard links"):
        replace("/", str(file), NEW, expected=b"old\n")
    assert file.read_bytes() == b"old\n"


def test_dangling_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(Refused, match="leads nowhere"):
        replace("/", str(tmp_path / "link"), NEW, expected=ABSENT)


def test_folder_and_fifo_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(Refused):
            replace("/", str(tmp_path / name), NEW, expected=b"")


@pytest.mark.parametrize("call", ["fsync", "rename", "pread", "fchmod"])
def test_failure_at_any_step_leaves_the_old_file_and_no_temp_file(file, monkeypatch, call):
    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, call, fail)
    with pytest.raises(Refused):
        replace("/", str(file), NEW, expected=b"old\n")
    monkeypatch.undo()
    assert file.read_bytes() == b"old\n"
    assert os.listdir(file.parent) == ["file.conf"]


def test_short_write_is_completed(file, monkeypatch):
    real = os.write
    monkeypatch.setattr(module.os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    replace("/", str(file), FileValue(b"0123456789"), expected=b"old\n")
    assert file.read_bytes() == b"0123456789"


def test_change_between_the_look_and_the_rename_is_a_conflict(file, monkeypatch):
    real = module._write_temp

    def sneak(*args):
        real(*args)
        file.write_bytes(b"sneaked\n")

    monkeypatch.setattr(module, "_write_temp", sneak)
    with pytest.raises(Conflict):
        replace("/", str(file), NEW, expected=b"old\n")
    assert file.read_bytes() == b"sneaked\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has a folder to distrust")
def test_root_does_not_write_where_others_can(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Refused, match="others can"):
        replace("/", str(tmp_path / "open" / "x"), NEW, expected=ABSENT)


def test_remove_takes_away_only_what_was_expected(file):
    with pytest.raises(Conflict):
        remove("/", str(file), expected=b"other")
    remove("/", str(file), expected=b"old\n")
    assert not file.exists()
    with pytest.raises(Conflict, match="not there"):
        remove("/", str(file), expected=b"old\n")


def test_leftovers_are_ours_by_name(file):
    ours = file.parent / f".file.conf.hosttune-{'0' * 16}"
    ours.write_bytes(b"")
    (file.parent / ".file.conf.hosttune-x").write_bytes(b"")
    (file.parent / ".other.hosttune-0000000000000000").write_bytes(b"")
    assert leftovers("/", str(file)) == (str(ours),)
