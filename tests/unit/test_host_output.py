"""Files that a person names: there whole or not at all, and nothing but regular files is
replaced.
"""

from __future__ import annotations

import os
import stat

import pytest

from hosttune.errors import HosttuneError
from hosttune.host.writing import output as module
from hosttune.host.writing.output import check_writable, open_stream, publish_file, save
from hosttune.values import ABSENT, FileValue


def test_save_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", fail)
    with pytest.raises(HosttuneError, match="No space left"):
        save(str(target), b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_save_replaces_a_file_and_its_mode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o666)
    save("f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


@pytest.mark.parametrize("write", [lambda path: save(path, b"x"), open_stream, check_writable])
def test_links_and_folders_are_not_replaced(tmp_path, write):
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(
            HosttuneError, match=f"{name}: already exists and is not a regular file"
        ):
            write(f"{tmp_path}/{name}")
    for path, why in (("none/f", "No such file"), ("target/f", "Not a directory")):
        with pytest.raises(HosttuneError, match=f"{path}: cannot be written: {why}"):
            write(f"{tmp_path}/{path}")
    assert (tmp_path / "target").read_bytes() == b"theirs"
    assert not (tmp_path / "none").exists()


def test_links_on_the_way_are_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    save(f"{tmp_path}/b/f", b"x")
    assert (tmp_path / "a/f").read_bytes() == b"x"


def test_stream_begins_empty(tmp_path):
    (tmp_path / "f").write_bytes(b"a long line of before")
    descriptor = open_stream(f"{tmp_path}/f")
    os.write(descriptor, b"new")
    os.close(descriptor)
    assert (tmp_path / "f").read_bytes() == b"new"


def test_device_takes_a_stream_and_no_file():
    os.close(open_stream("/dev/null"))
    with pytest.raises(HosttuneError, match="is not a regular file"):
        save("/dev/null", b"x")


@pytest.mark.parametrize("write", [save, lambda path, text: os.write(open_stream(path), text)])
def test_pipe_that_the_shell_has_opened_is_written_into(write):
    reading, writing = os.pipe()
    try:
        write(f"/dev/fd/{writing}", b"x")
        assert os.read(reading, 9) == b"x"
        os.fstat(writing)  # it is the caller's, and stays open
        check_writable(f"/dev/fd/{writing}")
    finally:
        os.close(reading)
        os.close(writing)
    with pytest.raises(HosttuneError, match="/dev/fd/999: cannot be written: Bad file descriptor"):
        save("/dev/fd/999", b"x")


def test_what_is_published_is_readable_by_others_and_taken_away(tmp_path):
    publish_file(str(tmp_path), "/f.prom", FileValue(b"x"))
    assert (tmp_path / "f.prom").read_bytes() == b"x"
    assert stat.S_IMODE((tmp_path / "f.prom").stat().st_mode) == 0o644
    for _ in range(2):
        publish_file(str(tmp_path), "/f.prom", ABSENT)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(HosttuneError, match="No such file"):
        publish_file(str(tmp_path), "/none/f.prom", FileValue(b"x"))
    assert list(tmp_path.iterdir()) == []
