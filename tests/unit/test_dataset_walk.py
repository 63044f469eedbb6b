"""All names of a tree: links, odd things, what may not be read; nothing is counted twice, nothing
hangs.
"""

from __future__ import annotations

import os
import socket

import pytest

from hosttune.errors import HosttuneError
from hosttune.measure.dataset import walk as walk_module
from hosttune.measure.dataset.probe import probe_file
from hosttune.measure.dataset.walk import Walk, one_file


def names(walk: Walk) -> list[str]:
    return sorted(
        f"{folder}/{entry.name}".removeprefix(walk.root)
        for folder, entries in walk.chunks()
        for entry in entries
    )


def fill(folder, *paths):
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")


def test_walk_of_a_tree_yields_every_file_once(tmp_path, monkeypatch):
    monkeypatch.setattr(walk_module, "CHUNK", 7)
    paths = [f"{number % 5}/{number % 3}/f{number}" for number in range(100)] + [
        "a",
        ".hidden/b",
        "new\nline",
    ]
    fill(tmp_path, *paths)
    walk = Walk(str(tmp_path))
    assert names(walk) == sorted(f"/{path}" for path in paths)
    assert walk.seen.folders == 1 + 5 + 15 + 1


def test_folder_behind_a_link_that_was_put_on_the_way_is_gone(tmp_path, monkeypatch):
    fill(tmp_path, "data/a/b/f", "theirs/b/secret")
    real = os.open

    def exchanged(path, flags, **words):
        if path == f"{tmp_path}/data/a/b" and not (tmp_path / "data/was").exists():
            (tmp_path / "data/a").rename(tmp_path / "data/was")
            (tmp_path / "data/a").symlink_to(tmp_path / "theirs")
        return real(path, flags, **words)

    monkeypatch.setattr(walk_module.os, "open", exchanged)
    walk = Walk(str(tmp_path / "data"))
    assert names(walk) == []
    assert (walk.seen.folders, walk.seen.unreadable) == (2, 0)


def test_probe_opens_nothing_but_regular_files(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    real, opened = os.open, []

    def watched(path, given, **words):
        fd = real(path, given, **words)
        if not given & os.O_PATH and not os.path.isfile(fd) and not os.path.isdir(fd):
            opened.append(path)
        return fd

    monkeypatch.setattr(walk_module.os, "open", watched)
    for name in ("pipe", "link"):
        assert probe_file(str(tmp_path / name), with_header=True) is None
    assert opened == []


def test_walk_of_a_deep_tree_keeps_few_folders_open(tmp_path, monkeypatch):
    monkeypatch.setattr(walk_module, "_OPEN_LEVELS", 4)
    fill(
        tmp_path,
        "/".join(["d"] * 200) + "/f",
        *("/".join(["d"] * depth) + f"/e{depth}/g" for depth in range(1, 200)),
    )
    before = len(os.listdir("/proc/self/fd"))
    most = 0
    walk = Walk(str(tmp_path))
    count = 0
    for _, entries in walk.chunks():
        count += len(entries)
        most = max(most, len(os.listdir("/proc/self/fd")))
    assert count == 200
    assert most - before <= 2 * 6
    assert len(os.listdir("/proc/self/fd")) == before


def test_walk_that_ends_early_leaves_nothing_open(tmp_path):
    fill(tmp_path, "a/b/c/f", "a/b/g", "a/h")
    before = len(os.listdir("/proc/self/fd"))
    chunks = Walk(str(tmp_path)).chunks()
    next(chunks)
    chunks.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_walk_counts_links_to_files_and_follows_none_to_folders(tmp_path):
    fill(tmp_path, "data/a.jpg", "data/sub/b.jpg", "outside/c.jpg")
    data = tmp_path / "data"
    (data / "link.jpg").symlink_to("a.jpg")
    (data / "lost.jpg").symlink_to("nowhere")
    (data / "loop").symlink_to("loop")
    (data / "device").symlink_to("/dev/null")
    (data / "up").symlink_to("..")
    (data / "self").symlink_to(".")
    (data / "sub" / "again").symlink_to(data)
    (data / "there").symlink_to(tmp_path / "outside")
    os.mkfifo(data / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(data / "socket"))
    walk = Walk(str(data))
    assert names(walk) == ["/a.jpg", "/link.jpg", "/sub/b.jpg"]
    seen = walk.seen
    assert (seen.links, seen.dangling, seen.special, seen.linked_folders) == (1, 2, 3, 2)
    assert sorted(seen.linked_paths) == [str(data / "there"), str(data / "up")]


def test_walk_that_follows_visits_each_place_once(tmp_path):
    fill(tmp_path, "data/a.jpg", "data/sub/b.jpg", "outside/c.jpg", "outside/deep/d.jpg")
    data = tmp_path / "data"
    for name, target in (
        ("one", "outside"),
        ("two", "outside"),
        ("three", "outside/deep"),
        ("up", "."),
    ):
        (data / name).symlink_to(tmp_path / target)
    (tmp_path / "outside" / "back").symlink_to(data)
    walk = Walk(str(data), follow=True)
    found = sorted(
        f"{folder}/{entry.name}" for folder, entries in walk.chunks() for entry in entries
    )
    assert len(found) == len(set(found)) == 4
    assert walk.seen.linked_folders == 1  # from above: it would count all again


def test_walk_past_a_folder_that_vanishes_goes_on(tmp_path, monkeypatch):
    fill(tmp_path, "a/f", "b/g")
    real = walk_module.open_quietly

    def gone(path, flags):
        if path.endswith("/a"):
            raise FileNotFoundError(2, "gone", path)
        return real(path, flags)

    monkeypatch.setattr(walk_module, "open_quietly", gone)
    walk = Walk(str(tmp_path))
    assert names(walk) == ["/b/g"]
    assert walk.seen.unreadable == 0


def test_walk_past_a_folder_that_may_not_be_read_counts_it(tmp_path, monkeypatch):
    fill(tmp_path, "a/f", "b/g")
    real = walk_module.open_quietly

    def refuse(path, flags):
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags)

    monkeypatch.setattr(walk_module, "open_quietly", refuse)
    walk = Walk(str(tmp_path))
    assert names(walk) == ["/b/g"]
    assert (walk.seen.unreadable, walk.seen.unreadable_paths) == (1, [str(tmp_path / "a")])
    assert walk.seen.reason == "Permission denied"
    with pytest.raises(HosttuneError, match="cannot be read"):
        names(Walk(str(tmp_path / "a")))


def test_walk_of_somebody_elses_tree_opens_it_plainly_and_tells_moved_times(tmp_path, monkeypatch):
    fill(tmp_path, "a/f")
    os.utime(tmp_path / "a", ns=(1, 1))
    real = os.open

    def owned_by_others(path, flags, *rest, **more):
        if flags & os.O_NOATIME:
            raise PermissionError(1, "Operation not permitted", path)
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", owned_by_others)
    walk = Walk(str(tmp_path))
    assert names(walk) == ["/a/f"]
    assert walk.seen.moved_folders in {0, 1, 2}  # as the mount of this folder has it
    before = (tmp_path / "a" / "f").stat().st_atime_ns
    found = probe_file(str(tmp_path / "a" / "f"), with_header=True)
    assert found.has_moved_atime == ((tmp_path / "a" / "f").stat().st_atime_ns != before)


def test_one_file_is_a_data_set(tmp_path):
    fill(tmp_path, "shard.tar")
    folder, (entry,) = one_file(str(tmp_path / "shard.tar"))
    assert (folder, entry.name, entry.inode()) == (
        str(tmp_path),
        "shard.tar",
        (tmp_path / "shard.tar").stat().st_ino,
    )
    assert one_file(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("path", "message"), [("nothing", "does not exist"), ("pipe", "neither a folder nor a file")]
)
def test_one_file_that_is_none_is_an_error(tmp_path, path, message):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HosttuneError, match=message):
        one_file(str(tmp_path / path))


def test_probe_of_what_is_no_file_any_more_is_nothing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert probe_file(str(tmp_path / "pipe"), with_header=True) is None
    assert probe_file(str(tmp_path / "gone"), with_header=True) is None
    (tmp_path / "empty").touch()
    assert probe_file(str(tmp_path / "empty"), with_header=True).was_read is False


def test_places_behind_links_are_visited_once_each_and_the_walk_can_be_ended_between_them(tmp_path):
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    for number in range(40):
        (other / f"{number:02}" / "below").mkdir(parents=True)
        (data / f"link{number}").symlink_to(other / f"{number:02}")
        (data / f"again{number}").symlink_to(other / f"{number:02}/below")
    walk = Walk(str(data), follow=True)
    empty = sum(not entries for _, entries in walk.chunks())
    assert walk.seen.folders == 81
    assert empty >= 80
    assert walk.seen.linked_folders == 0


def test_link_to_a_folder_above_what_was_visited_is_told_and_not_followed(tmp_path):
    data = tmp_path / "above/data"
    data.mkdir(parents=True)
    (data / "up").symlink_to(tmp_path / "above")
    walk = Walk(str(data), follow=True)
    list(walk.chunks())
    assert (walk.seen.folders, walk.seen.linked_folders) == (1, 1)
