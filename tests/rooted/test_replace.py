"""Replacing a file: what is kept, what is refused, and that a failure loses nothing."""

from __future__ import annotations

import os

import pytest

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.host.writing import replace as module
from hosttune.host.writing.replace import (
    discard_leftovers,
    find_leftovers,
    overwrite_bytes,
    remove,
    replace,
)
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
    with pytest.raises(Conflict, match="changed in the meantime"):
        replace("/", str(file), NEW, expected=b"other\n")
    assert file.read_bytes() == b"old\n"


def test_file_that_appeared_meanwhile_is_a_conflict(file):
    with pytest.raises(Conflict, match="appeared"):
        replace("/", str(file), NEW, expected=ABSENT)
    assert file.read_bytes() == b"old\n"


def test_file_that_is_gone_is_a_conflict(tmp_path):
    with pytest.raises(Conflict, match="not there any more"):
        replace("/", str(tmp_path / "gone"), NEW, expected=b"old\n")


def test_file_whose_folder_is_gone_is_a_conflict_and_the_folder_is_not_made_again(tmp_path):
    with pytest.raises(Conflict, match="is not there any more"):
        replace("/", str(tmp_path / "gone" / "file.conf"), NEW, expected=b"old\n")
    assert list(tmp_path.iterdir()) == []


def test_second_hard_link_is_refused(file, tmp_path):
    os.link(file, tmp_path / "other")
    with pytest.raises(Refused, match="hard links") as caught:
        replace("/", str(file), NEW, expected=b"old\n")
    # on whatever file system it is
    assert f'--target {file})" -xdev -samefile {file}' in caught.value.hint
    assert file.read_bytes() == b"old\n"


def test_dangling_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(
        Refused, match=f"^{tmp_path / 'link'} is a symbolic link that leads nowhere$"
    ):
        replace("/", str(tmp_path / "link"), NEW, expected=ABSENT)


def test_folder_and_fifo_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(Refused):
            replace("/", str(tmp_path / name), NEW, expected=b"")


@pytest.mark.parametrize("call", ["fsync", "rename", "write", "fchmod", "fchown"])
def test_failure_at_any_step_leaves_the_old_file_and_no_temp_file(file, monkeypatch, call):
    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, call, fail)
    with pytest.raises(Refused, match="cannot be replaced: No space left on device") as refused:
        replace("/", str(file), NEW, expected=b"old\n")
    monkeypatch.undo()
    assert refused.value.hint == "the disk is full: make room, then run it again"
    assert file.read_bytes() == b"old\n"
    assert os.listdir(file.parent) == ["file.conf"]


def test_file_that_cannot_be_removed_stays_and_the_reason_is_told(file, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(module.os, "unlink", fail)
    with pytest.raises(Refused, match="cannot be removed: Read-only file system") as refused:
        remove("/", str(file), expected=b"old\n")
    assert refused.value.hint == "the file system is read-only"
    assert file.read_bytes() == b"old\n"


def test_file_that_cannot_be_read_again_is_replaced_and_that_is_told(file, monkeypatch):
    real = module.read_all

    def broken(fd, most):
        if file.read_bytes() == NEW.content:
            raise OSError(5, "Input/output error")
        return real(fd, most)

    monkeypatch.setattr(module, "read_all", broken)
    with pytest.raises(
        HosttuneError, match="was replaced, but it cannot be read again: Input/output error"
    ) as told:
        replace("/", str(file), NEW, expected=b"old\n")
    assert "dmesg" in told.value.hint


def test_short_write_is_completed(file, monkeypatch):
    real = os.write
    monkeypatch.setattr(module.os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    replace("/", str(file), FileValue(b"0123456789"), expected=b"old\n")
    assert file.read_bytes() == b"0123456789"


def test_disk_that_keeps_other_bytes_than_were_written_is_found_out_before_the_rename(
    file, monkeypatch
):
    real = os.write
    monkeypatch.setattr(module.os, "write", lambda fd, data: real(fd, b"?" * len(bytes(data))))
    with pytest.raises(Refused, match="reads back differently"):
        replace("/", str(file), NEW, expected=b"old\n")
    monkeypatch.undo()
    assert file.read_bytes() == b"old\n"
    assert os.listdir(file.parent) == ["file.conf"]


def test_file_that_somebody_changes_right_after_the_rename_is_told(file, monkeypatch):
    real = module._sync_folder

    def sneak(place, done):
        real(place, done)
        file.write_bytes(b"sneaked\n")

    monkeypatch.setattr(module, "_sync_folder", sneak)
    with pytest.raises(HosttuneError, match="someone changed it at once"):
        replace("/", str(file), NEW, expected=b"old\n")


def test_change_between_the_look_and_the_rename_is_a_conflict(file, monkeypatch):
    real = module._fill

    def sneak(*args):
        real(*args)
        file.write_bytes(b"sneaked\n")

    monkeypatch.setattr(module, "_fill", sneak)
    with pytest.raises(Conflict):
        replace("/", str(file), NEW, expected=b"old\n")
    assert file.read_bytes() == b"sneaked\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has a folder to distrust")
def test_root_does_not_write_where_others_can(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Refused, match="others can"):
        replace("/", str(tmp_path / "open" / "x"), NEW, expected=ABSENT)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has a folder to distrust")
@pytest.mark.parametrize(
    "what", ["folder of another user", "group-writable folder", "link of another user", "sticky"]
)
def test_root_does_not_follow_what_others_can_turn(tmp_path, what):
    inner = tmp_path / "middle" / "inner"
    inner.mkdir(parents=True)
    way = inner
    if what == "folder of another user":
        os.chown(tmp_path / "middle", 1234, 1234)
    elif what == "group-writable folder":
        os.chown(tmp_path / "middle", 0, 1234)
        (tmp_path / "middle").chmod(0o775)
    elif what == "link of another user":
        way = tmp_path / "link"
        way.symlink_to(inner)
        os.lchown(way, 1234, 1234)
    else:
        inner.chmod(0o1777)
    with pytest.raises(Refused, match="root does not write"):
        replace("/", str(way / "x"), NEW, expected=ABSENT)
    assert os.listdir(inner) == []


def test_remove_takes_away_only_what_was_expected(file):
    with pytest.raises(Conflict):
        remove("/", str(file), expected=b"other")
    remove("/", str(file), expected=b"old\n")
    assert not file.exists()
    with pytest.raises(Conflict, match="not there"):
        remove("/", str(file), expected=b"old\n")


@pytest.mark.parametrize(
    ("name", "stays"), [("etc/systemd/system/tmp.mount.d", 0), ("etc/systemd/logind.conf.d", 1)]
)
def test_last_drop_in_of_a_unit_takes_its_folder_along(tmp_path, name, stays):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for one in ("a.conf", "b.conf"):
        (folder / one).write_bytes(b"old\n")
    remove(str(tmp_path), f"/{name}/a.conf", expected=b"old\n")
    assert os.listdir(folder) == ["b.conf"]
    remove(str(tmp_path), f"/{name}/b.conf", expected=b"old\n")
    assert len(os.listdir(folder.parent)) == stays


def test_other_folders_stay_when_they_are_empty(file):
    remove("/", str(file), expected=b"old\n")
    assert os.listdir(file.parent) == []


def test_leftovers_are_ours_by_name(file):
    ours = file.parent / f".file.conf.hosttune-{'0' * 16}"
    ours.write_bytes(b"")
    (file.parent / ".file.conf.hosttune-x").write_bytes(b"")
    (file.parent / ".other.hosttune-0000000000000000").write_bytes(b"")
    assert find_leftovers("/", str(file)) == (ours.name,)
    discard_leftovers("/", str(file))
    assert sorted(os.listdir(file.parent)) == [
        ".file.conf.hosttune-x",
        ".other.hosttune-0000000000000000",
        "file.conf",
    ]


def test_file_of_equal_content_put_in_between_is_a_conflict(file, monkeypatch):
    real = module._fill

    def sneak(*args):
        real(*args)
        other = file.parent / "other"
        other.write_bytes(b"old\n")
        other.replace(file)

    monkeypatch.setattr(module, "_fill", sneak)
    with pytest.raises(Conflict):
        replace("/", str(file), NEW, expected=b"old\n")
    assert file.read_bytes() == b"old\n"


def test_new_file_does_not_overwrite_one_that_appears_at_the_last_moment(tmp_path, monkeypatch):
    real = module._fill

    def sneak(*args):
        real(*args)
        (tmp_path / "new").write_bytes(b"sneaked\n")

    monkeypatch.setattr(module, "_fill", sneak)
    with pytest.raises(Conflict, match="appeared"):
        replace("/", str(tmp_path / "new"), NEW, expected=ABSENT)
    assert os.listdir(tmp_path) == ["new"]
    assert (tmp_path / "new").read_bytes() == b"sneaked\n"


def test_without_renameat2_a_new_file_is_linked_and_has_one_name(tmp_path, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_args, **_kwargs: object())
    replace("/", str(tmp_path / "new"), NEW, expected=ABSENT)
    assert os.listdir(tmp_path) == ["new"]
    assert (tmp_path / "new").stat().st_nlink == 1


def test_absolute_link_of_an_image_stays_in_the_image(tmp_path):
    image, outside = tmp_path / "image", tmp_path / "outside"
    (image / "etc").mkdir(parents=True)
    outside.write_bytes(b"old\n")
    (image / "etc/conf").symlink_to(outside)
    inner = image / str(outside).lstrip("/")
    inner.parent.mkdir(parents=True)
    inner.write_bytes(b"old\n")
    replace(str(image), "/etc/conf", NEW, expected=b"old\n")
    assert outside.read_bytes() == b"old\n"
    assert inner.read_bytes() == b"new\n"


def test_missing_folder_behind_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "conf.d").symlink_to("nowhere")
    link, file = tmp_path / "conf.d", tmp_path / "conf.d" / "x"
    with pytest.raises(
        Refused, match=f"^{link} is a symbolic link that leads nowhere, and {file} is behind it$"
    ):
        replace("/", str(file), NEW, expected=ABSENT)
    assert not (tmp_path / "nowhere").exists()


def test_new_file_below_a_link_to_a_folder_is_made_there(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "conf.d").symlink_to("real")
    replace("/", str(tmp_path / "conf.d" / "x"), NEW, expected=ABSENT)
    assert (tmp_path / "real" / "x").read_bytes() == b"new\n"


def test_new_file_has_its_mode_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        replace("/", str(tmp_path / "a" / "new"), FileValue(b"", 0o644), expected=ABSENT)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "a" / "new").stat().st_mode & 0o7777 == 0o644


def test_overwrite_keeps_the_place_on_the_disk(file):
    before = file.stat()
    overwrite_bytes("/", str(file), b"new\n", expected=b"old\n")
    after = file.stat()
    assert file.read_bytes() == b"new\n"
    assert (after.st_ino, after.st_mode, after.st_size) == (
        before.st_ino,
        before.st_mode,
        before.st_size,
    )


def test_overwrite_refuses_another_length(file):
    with pytest.raises(Refused, match="5 bytes cannot stand in the place of 4"):
        overwrite_bytes("/", str(file), b"newer", expected=b"old\n")
    assert file.read_bytes() == b"old\n"


def test_overwrite_of_what_somebody_changed_is_a_conflict(file):
    with pytest.raises(Conflict, match="changed in the meantime"):
        overwrite_bytes("/", str(file), b"newer\n", expected=b"other\n")
    assert file.read_bytes() == b"old\n"


def test_overwrite_of_what_is_gone_is_a_conflict(tmp_path):
    with pytest.raises(Conflict, match="not there any more"):
        overwrite_bytes("/", str(tmp_path / "none"), b"a", expected=b"b")
