"""Every size of a data set: files that are gone, closed, linked or many; what ends the count, and
that nothing fits then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from hosttune.facts import Facts
from hosttune.host.reading.live import LiveReader
from hosttune.measure.dataset import census as census_module
from hosttune.measure.dataset import look as look_module
from hosttune.measure.dataset.all_files import FileCounter
from hosttune.measure.dataset.census import Census
from hosttune.measure.dataset.look import look
from hosttune.measure.dataset.patience import SIZES_S, Patience
from hosttune.measure.dataset.tally import Tally
from hosttune.measure.dataset.walk import Walk
from tests.unit.test_dataset_headers import jpeg


@dataclass
class Refusing:
    """A name whose file cannot be looked at."""

    error: type[OSError]
    name: str = "a.jpg"

    def stat(self, *, follow_symlinks=True):
        del follow_symlinks
        raise self.error(1, "no")


def counted(folder, patience=None, **words):
    tally, census = Tally(), Census(**words)
    counter = FileCounter(census, tally, str(folder), patience or Patience(), with_headers=False)
    for place, entries in Walk(str(folder)).chunks():
        counter.take(place, entries, tally.take(place, entries))
    return census


@pytest.mark.parametrize(
    ("error", "is_whole"), [(FileNotFoundError, True), (PermissionError, False), (OSError, False)]
)
def test_file_that_cannot_be_looked_at_is_no_part_of_a_whole_unless_it_is_gone(error, is_whole):
    census = Census()
    FileCounter(census, Tally(), "/x", Patience(), with_headers=False).take(
        "/x", [Refusing(error)], "JPEG"
    )
    assert (census.is_whole, census.files) == (is_whole, 0)


def test_file_that_is_closed_to_the_user_gives_no_verdict(tmp_path, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(jpeg(10, 10))
    monkeypatch.setattr(
        look_module.FileCounter, "take", lambda self, *_: setattr(self._census, "denied", 1)
    )
    found = look(str(tmp_path), Facts(LiveReader()), Patience())
    assert (found.page_cache.answer, found.page_cache.why, found.look.denied) == (
        "unknown",
        "sizes",
        1,
    )


def test_census_counts_formats_links_and_what_links_lead_to_once(tmp_path):
    data, outside = tmp_path / "data", tmp_path / "outside"
    for place in (data, outside):
        place.mkdir()
    (outside / "far.jpg").write_bytes(bytes(700))
    (data / "a.jpg").write_bytes(bytes(100))
    (data / "b.txt").write_bytes(bytes(30))
    os.link(data / "a.jpg", data / "again.jpg")
    os.link(outside / "far.jpg", data / "linked.jpg")
    (data / "inside.jpg").symlink_to(data / "a.jpg")
    (data / "one.jpg").symlink_to(outside / "far.jpg")
    (data / "two.jpg").symlink_to(outside / "far.jpg")
    census = counted(data)
    assert census.bytes == {"JPEG": 100 + 700, "text": 30}
    assert census.is_whole
    info = (outside / "far.jpg").stat()
    assert census.names_below(info.st_dev, info.st_ino, info.st_nlink) == 1
    info = (data / "a.jpg").stat()
    assert census.names_below(info.st_dev, info.st_ino, info.st_nlink) == 2


def test_mixed_folders_count_each_format(tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.jpg").write_bytes(bytes(10 + number))
        (tmp_path / f"{number}.cls").write_bytes(bytes(2))
    census = counted(tmp_path)
    assert census.bytes == {"JPEG": sum(range(10, 30)), ".cls": 40}
    assert (census.files, census.largest, census.small) == (40, 29, 40)
    assert {one.path for one in census.large()} >= {str(tmp_path / "19.jpg")}


def test_only_the_largest_files_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(census_module, "LARGEST", 3)
    for number in range(30):
        (tmp_path / f"{number}.jpg").write_bytes(bytes((number * 7) % 31))
    kept = {os.path.getsize(one.path) for one in counted(tmp_path).large()}
    assert kept == set(sorted((number * 7) % 31 for number in range(30))[-3:])


def test_census_that_takes_too_long_or_too_much_memory_is_given_up(tmp_path, monkeypatch):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(b"1")
        os.link(tmp_path / f"{number}.jpg", tmp_path.parent / f"{tmp_path.name}-{number}")
    late = Patience()
    late.sizes_s = -1.0
    assert counted(tmp_path, late).ended == "time"
    assert counted(tmp_path, late, is_exact=True).is_whole
    monkeypatch.setattr(census_module, "_MOST_WAITING", 2)
    assert counted(tmp_path).ended == "links"
    assert counted(tmp_path, is_exact=True).is_whole


def test_budget_leaves_a_part_for_the_names():
    assert Patience().sizes_s == SIZES_S
    assert 0 < Patience(4.0).sizes_s < 2.0
