"""What users do to the folders and lists from which root makes a report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hosttune.host.in_time import in_time
from hosttune.host.reading import gathered, late_mounts
from hosttune.host.reading.gathered import content_of, list_files
from hosttune.host.reading.named import read_named

EVE = 54321


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    made = tmp_path / "eve"
    made.mkdir()
    (made / "a.json").write_text("{}")
    for path in (made, made / "a.json"):
        os.chown(path, EVE, EVE)
    return made


def test_file_that_becomes_a_pipe_after_the_listing_is_not_waited_for(folder):
    """Each would cost a minute, and a folder may have thousands."""
    assert list(list_files([str(folder)])) == [(str(folder / "a.json"), "")]
    assert content_of(str(folder / "a.json")) == b"{}"
    os.unlink(folder / "a.json")
    os.mkfifo(folder / "a.json")
    held = os.open(folder / "a.json", os.O_RDWR)  # a writer that says nothing
    assert content_of(str(folder / "a.json")) == "is not a file"
    os.close(held)


def test_server_that_is_slow_in_all_is_asked_no_more(folder, monkeypatch):
    """Each look can take a little less than what counts as no answer."""
    slow: dict[str, float] = {}
    monkeypatch.setattr(late_mounts, "_slow", slow)
    monkeypatch.setattr(late_mounts, "_SLOW_S", 0.0)
    path = str(folder / "a.json")
    assert list(list_files([str(folder)])) == [(path, "")]
    before = sum(slow.values())
    assert content_of(path) == b"{}"
    assert sum(slow.values()) > before > 0
    slow.update(dict.fromkeys(slow, 31.0))
    assert "no answer" in str(content_of(path))


def test_path_that_is_no_text_is_read(folder):
    path = os.fsdecode(os.fsencode(folder) + b"/\xff.json")
    Path(path).write_text("{}")
    assert read_named(path, 99) == b"{}"
    assert in_time({path: lambda: b"1"}, 5.0) == {path: b"1"}


def test_lists_that_name_themselves_are_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(gathered, "_MOST_LISTS", 100)
    named = tmp_path / "list"
    named.write_text(f"@{named}\n" * 50 + "/nonexistent/x\n" + f"@{named}\n" * 50)
    found = list(list_files([f"@{named}"]))
    assert [path for path, why in found if not why] == ["/nonexistent/x"]
    assert [why for _, why in found].count("is a list that was read before") == 99
    assert found[-1] == (f"@{named}", gathered._MANY_LISTS)


def test_lists_name_a_bounded_number_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(gathered, "_MOST_WORDS", 3)
    named = tmp_path / "list"
    named.write_text("/nonexistent/x\n" * 9)
    found = list(list_files([f"@{named}"]))
    assert found == [
        *[("/nonexistent/x", "")] * 4,
        ("/nonexistent/x", "and more: lists name more than 3 files"),
    ]


def test_whose_record_it_is_is_asked_in_time(folder, monkeypatch):
    """The server of a user may serve the record, and then answer no more."""
    asked = []
    monkeypatch.setattr(
        gathered, "_ask_in_time", lambda look, path, _: asked.append(path) or look(path)
    )
    assert gathered.host_of(str(folder / "records/b.json")) == ""
    assert asked == [str(folder / "b.json")]
