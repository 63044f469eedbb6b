"""Names are counted by format, and sampled fairly with bounded memory."""

from __future__ import annotations

from random import Random

import pytest

from hosttune.measure.dataset.formats import FORMATS, NONE, OTHER, key_of, kind_of
from hosttune.measure.dataset.tally import Reservoir, Tally


class Entry:
    def __init__(self, name, inode=1):
        self.name = name
        self._inode = inode

    def inode(self):
        return self._inode


def entries(*names):
    return [Entry(name, number) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("suffix", "key"),
    [
        ("jpg", "JPEG"), ("JPEG", "JPEG"), ("tar", "tar"), ("XyZ", ".xyz"), ("", NONE), ("0001", NONE), ("a-b", NONE),
        ("x" * 11, NONE), ("ü", NONE), ("h5", "HDF5"),
    ],
)  # fmt: skip
def test_key_of_suffix_is_its_format(suffix, key):
    assert key_of(suffix) == key


def test_formats_share_no_suffix():
    suffixes = [suffix for one in FORMATS for suffix in one.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert {kind_of(one.name) for one in FORMATS} == {
        "picture",
        "sound",
        "video",
        "array",
        "shard",
        "text",
        "packed",
    }


def test_tally_of_odd_names_counts_each_once():
    tally = Tally()
    tally.take(
        "/d",
        entries(
            "a.jpg", "b.JPG", "jpg", ".jpg", "c.tar.gz", "frame.0001", "x.", "ends.in\n", "d.png"
        ),
    )
    assert tally.files == 9
    assert tally.counts == {"JPEG": 3, NONE: 4, "gzip": 1, "PNG": 1}


def test_tally_of_names_made_to_differ_keeps_few_formats():
    tally = Tally(sample=10, of_each=5)
    for start in range(0, 20_000, 1000):
        tally.take("/d", entries(*(f"f.q{number:05d}" for number in range(start, start + 1000))))
    assert len(tally.counts) <= 102
    assert tally.counts[OTHER] > 19_000
    assert len(tally._keys) <= 5_000
    assert sum(len(one.items) for one in tally.strata.values()) < 1_000


def test_tally_of_a_few_shards_between_many_files_keeps_all_shards():
    tally = Tally(sample=100, of_each=20)
    for number in range(100):
        tally.take(f"/d/{number}", entries(*(f"{name}.jpg" for name in range(1000))))
    tally.take("/d", entries(*(f"{name}.tar" for name in range(12))))
    assert {named.path for named in tally.strata["tar"].items} == {
        f"/d/{name}.tar" for name in range(12)
    }
    assert len(tally.sample.items) == 100


def test_tally_of_mixed_chunks_samples_the_right_names():
    tally = Tally(sample=50, of_each=50)
    for chunk in range(200):
        names = [f"{chunk}-{number}.{'png' if number % 7 == 0 else 'jpg'}" for number in range(100)]
        tally.take("/d", entries(*names))
    for key, stratum in tally.strata.items():
        assert len(stratum.items) == 50
        assert all(
            named.path.endswith({"PNG": ".png", "JPEG": ".jpg"}[key]) and named.key == key
            for named in stratum.items
        )


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_reservoir_takes_every_place_equally_often(chunk):
    """Over 3,000 runs each of 100 places is drawn with chance 1/10: 300 times, standard deviation
    16.
    """
    drawn = [0] * 100
    for seed in range(3_000):
        reservoir = Reservoir(10, Random(seed))  # noqa: S311 - no secret
        for start in range(0, 100, chunk):
            for offset, slot in reservoir.picks(min(chunk, 100 - start)):
                reservoir.put(slot, start + offset)
        assert len(set(reservoir.items)) == 10
        for place in reservoir.items:
            drawn[place] += 1
    assert 300 - 80 < min(drawn) <= max(drawn) < 300 + 80


def test_reservoir_of_fewer_things_takes_all():
    reservoir = Reservoir(10, Random(1))  # noqa: S311 - no secret
    for offset, slot in reservoir.picks(4):
        reservoir.put(slot, offset)
    assert reservoir.items == [0, 1, 2, 3]
