"""How much lies below a folder: on this machine, below a root, in a record."""

from __future__ import annotations

import os

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.host.door import Usage
from hosttune.host.reading.live import LiveReader
from hosttune.host.reading.rooted import RootReader
from hosttune.host.reading.usage import count
from hosttune.host.record.check import check_record
from hosttune.host.record.record import RecordingReader, RecordReader
from hosttune.values import ABSENT, Unreadable


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tmp/a/b").mkdir(parents=True)
    (tmp_path / "tmp/a/b/c").write_bytes(b"x" * 30)
    (tmp_path / "tmp/d").write_bytes(b"x" * 12)
    (tmp_path / "tmp/up").symlink_to("..")
    (tmp_path / "tmp/gone").symlink_to("nowhere")
    os.mkfifo(tmp_path / "tmp/pipe")
    return tmp_path


def test_files_are_counted_and_links_not_followed(folder):
    expected = Usage(42, 7, is_complete=True)
    assert LiveReader().usage(str(folder / "tmp")) == expected
    assert RootReader(str(folder)).usage("/tmp") == expected


def test_holes_and_further_names_of_a_file_take_no_room(tmp_path):
    """Any user can have a file of 16 TiB with holes in /tmp and /var/crash, and 30,000 names for
    one file.
    """
    (tmp_path / "data").write_bytes(b"x" * 4096)
    for number in range(5):
        (tmp_path / f"name{number}").hardlink_to(tmp_path / "data")
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    assert LiveReader().usage(str(tmp_path)) == Usage(4096, 7, is_complete=True)


def test_more_files_than_an_early_bound_are_counted(tmp_path):
    for number in range(3000):
        (tmp_path / str(number)).touch()
    (tmp_path / "large").write_bytes(b"x" * 1000)
    assert LiveReader().usage(str(tmp_path)) == Usage(1000, 3001, is_complete=True)


def test_count_that_is_cut_says_so(folder):
    found = os.open(folder / "tmp", os.O_RDONLY)
    try:
        assert count(found, 7).is_complete
        cut = count(found, 6)
        assert (cut.entries, cut.is_complete) == (6, False)
    finally:
        os.close(found)


def test_folders_far_below_each_other_are_too_deep(tmp_path):
    deep = tmp_path.joinpath(*["d"] * 110)
    deep.mkdir(parents=True)
    assert not LiveReader().usage(str(tmp_path)).is_complete


def test_what_is_no_folder_is_told(folder):
    reader = LiveReader()
    assert reader.usage(str(folder / "none")) is ABSENT
    assert isinstance(reader.usage(str(folder / "tmp/d")), Unreadable)
    assert isinstance(reader.usage("tmp"), Unreadable)


def test_record_keeps_the_figures_and_no_names(folder):
    recorder = RecordingReader(RootReader(str(folder)))
    assert recorder.usage("/tmp") == Usage(42, 7, is_complete=True)
    record = encode_record(recorder, share=False, tool_version="0")
    assert record["usages"] == {"/tmp": [42, 7, True]}
    assert "pipe" not in str(record)
    assert check_record(record, "") == ()
    assert RecordReader(record).usage("/tmp") == Usage(42, 7, is_complete=True)


def test_record_of_before_is_counted_by_its_listings(folder):
    recorder = RecordingReader(RootReader(str(folder)))
    for path in ("/tmp", "/tmp/a", "/tmp/a/b"):
        recorder.list(path)
    for path in ("/tmp/a", "/tmp/a/b", "/tmp/a/b/c", "/tmp/d", "/tmp/gone", "/tmp/pipe", "/tmp/up"):
        recorder.stat(path, follow=False)
    record = encode_record(recorder, share=False, tool_version="0")
    del record["usages"]
    assert RecordReader(record).usage("/tmp") == Usage(42, 7, is_complete=True)
    del record["listings"]["/tmp/a/b"]
    assert not RecordReader(record).usage("/tmp").is_complete
    del record["listings"]["/tmp"]
    assert isinstance(RecordReader(record).usage("/tmp"), Unreadable)


@pytest.mark.parametrize("entry", [[1, 2], [1, -2, True], [1, 2, 1], "x", [1.5, 2, True]])
def test_record_with_a_usage_of_another_shape_is_refused(entry, tmp_path):
    record = encode_record(
        RecordingReader(RootReader(str(tmp_path))), share=False, tool_version="0"
    )
    assert "usages./tmp" in str(check_record({**record, "usages": {"/tmp": entry}}, "")[0])
