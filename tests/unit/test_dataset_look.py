"""A whole look at a small data set: the value, the text, JSON, partial reports, errors."""

from __future__ import annotations

import gzip
import json
import os
import signal
from dataclasses import replace
from itertools import count

import pytest

from hosttune.cli.app import run
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import HosttuneError
from hosttune.facts import Facts
from hosttune.host.reading.live import LiveReader
from hosttune.measure import page_cache
from hosttune.measure.bench import state
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.results import new_result, save
from hosttune.measure.cpus import Cpus
from hosttune.measure.dataset import look as look_module
from hosttune.measure.dataset import sample as sample_module
from hosttune.measure.dataset import verdict
from hosttune.measure.dataset.decoded import Decoded, Looked, decode, formats_found
from hosttune.measure.dataset.estimate import Pair, Sizes, combined_ratio
from hosttune.measure.dataset.formats import key_of
from hosttune.measure.dataset.header import Header, ReadUnit
from hosttune.measure.dataset.look import look
from hosttune.measure.dataset.patience import SAMPLE_S, Patience
from hosttune.measure.dataset.room import Fit
from hosttune.measure.dataset.tally import Tally
from hosttune.measure.underneath import UnderlyingDisk, Underneath
from hosttune.measure.views import dataset as view
from hosttune.measure.views.dataset import dataset_json
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.schemas import faults
from tests.unit.test_dataset_headers import jpeg, packed, shard, sound

pytestmark = pytest.mark.usefixtures("in_one_process")

GIB = 1 << 30
PICTURE = jpeg(500, 375).ljust(30_000, b"\1")


def dataset_text(found, page=Page()):  # noqa: B008 - frozen
    """On one line: where it breaks depends on how long the temporary folder's name is."""
    return " ".join(view.dataset_text(found, page).split())


@pytest.fixture
def data(tmp_path):
    place = tmp_path / "data"
    for number in range(60):
        folder = place / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(PICTURE)
    (place / "labels.csv").write_text("a,b\n" * 10)
    return place


@pytest.fixture
def facts():
    return Facts(LiveReader())


def test_look_at_pictures_tells_number_size_and_decoded_size(data, facts):
    found = look(str(data), facts, Patience())
    assert (found.stopped, found.names_done) == ("", True)
    assert (found.names.files, found.names.folders) == (61, 4)
    assert [(one.name, one.files, one.bytes) for one in found.formats] == [
        ("JPEG", 60, 1_800_000),
        ("CSV", 1, 40),
    ]
    assert (found.sizes.is_exact, found.sizes.total_bytes, found.sizes.median_bytes) == (
        True,
        1_800_040,
        30_000,
    )
    assert found.sizes.page_bytes == 60 * 32_768 + 4096
    assert found.decoded.k == pytest.approx(18.75)
    assert found.decoded.native_bytes == 60 * 500 * 375 * 3
    assert found.decoded.float32_bytes == 4 * found.decoded.native_bytes
    assert found.decoded.untold == ()
    assert found.page_cache.answer == "fits"
    assert found.resident.share == pytest.approx(1.0)
    assert found.copies_bytes == found.decoded.native_bytes * found.workers.start
    assert faults(dataset_json(found), "dataset") == []


def test_look_moves_no_access_time(data, facts):
    places = [data, *data.rglob("*")]
    for place in places:
        os.utime(place, ns=(1, 1))
    found = look(str(data), facts, Patience())
    assert {place.stat().st_atime_ns for place in places} == {1}
    assert (found.look.moved_files, found.look.moved_folders) == (0, 0)


def test_look_without_headers_reads_none(data, facts):
    found = look(str(data), facts, Patience(), with_headers=False)
    assert found.decoded.headers == 0
    assert (found.decoded.native_bytes, found.decoded.untold) == (0, ("JPEG",))
    assert "not known for JPEG (bench read --decode shows it)" in dataset_text(found, Page())


def test_look_at_one_shard_takes_the_ratio_of_its_members(tmp_path, facts):
    place = tmp_path / "train-000.tar"
    place.write_bytes(shard(*((f"{number}.jpg", PICTURE) for number in range(40))))
    found = look(str(place), facts, Patience(), is_exact=True)
    assert (found.names.files, found.names.folders) == (1, 0)
    assert found.sizes.total_bytes == place.stat().st_size
    assert found.decoded.native_bytes == 40 * 500 * 375 * 3
    assert found.advice == ()
    assert "1 file;" in dataset_text(found, Page())


def test_exact_look_at_a_large_shard_ends_with_its_budget(tmp_path, facts):
    """The clock goes on by a second each time that it is asked."""
    place = tmp_path / "train-000.tar"
    place.write_bytes(shard(*((f"{number}.jpg", PICTURE) for number in range(400))))
    found = look(str(place), facts, Patience(100, count().__next__), is_exact=True)
    assert (found.stopped, found.names_done, found.decoded.is_exact) == ("budget", False, False)


@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize(("members", "words"), [(40, "40 headers"), (1, "1 header")])
def test_headers_of_a_shard_are_those_of_its_members(tmp_path, facts, members, words, is_exact):
    place = tmp_path / "train-000.tar"
    place.write_bytes(shard(*((f"{number}.jpg", PICTURE) for number in range(members))))
    found = look(str(place), facts, Patience(), is_exact=is_exact)
    assert (found.decoded.headers, found.decoded.told) == (members, members)
    text = " ".join(dataset_text(found, Page()).split())
    assert f"from {words})" in text
    assert is_exact or f"as far as {words} show{'s' * (members == 1)})" in text


def test_folder_without_files_is_nothing_to_measure_and_says_what_was_left_out(tmp_path, facts):
    with pytest.raises(HosttuneError, match=r"holds no files, so there is nothing to measure$"):
        look(str(tmp_path), facts, Patience())
    (tmp_path / "to").symlink_to("/usr")
    (tmp_path / "lost").symlink_to("nowhere")
    with pytest.raises(HosttuneError) as refused:
        look(str(tmp_path), facts, Patience())
    assert refused.value.message.endswith(
        "left out: links to folders (--follow goes there): 1; links that lead nowhere: 1"
    )


def test_look_that_was_ended_before_a_file_was_met_advises_nothing(tmp_path, facts):
    patience = Patience()
    patience.stop()
    found = look(str(tmp_path), facts, patience)
    assert (found.names.files, found.sizes, found.decoded) == (0, None, None)
    assert "num_workers" not in dataset_text(found, Page())
    assert faults(dataset_json(found), "dataset") == []


def test_look_refuses_what_the_kernel_shows(facts):
    with pytest.raises(HosttuneError, match="holds no data"):
        look("/proc/self", facts, Patience())


def kinds_in_order(place, is_turned):
    """Pictures of two kinds, all of the first, then all of the second: K = 112 and K = 8."""
    place.mkdir(parents=True)
    small, large = jpeg(500, 375).ljust(5_000, b"\1"), jpeg(500, 375).ljust(70_000, b"\1")
    for number in range(1_800):
        (place / f"{number}.jpg").write_bytes(large if (number >= 900) != is_turned else small)
    return 1_800 * 500 * 375 * 3


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("is_exact", [False, True])
def test_look_at_kinds_one_after_the_other_tells_the_truth_in_both_orders(
    tmp_path, facts, is_turned, is_exact
):
    truth = kinds_in_order(tmp_path / "data", is_turned)
    found = look(str(tmp_path / "data"), facts, Patience(), is_exact=is_exact)
    assert found.decoded.native_bytes == pytest.approx(truth, rel=0.02)
    assert abs(found.decoded.native_bytes - truth) <= found.decoded.margin_bytes
    if is_exact:
        assert (found.decoded.native_bytes, found.decoded.margin_bytes, found.decoded.is_exact) == (
            truth,
            0,
            True,
        )
        assert found.decoded.told == 1_800


@pytest.mark.parametrize("order", [range(10), range(9, -1, -1)])
def test_look_at_class_folders_of_growing_pictures_tells_the_truth(
    tmp_path, facts, order, monkeypatch
):
    truth = 0
    for step in order:
        edge = 100 + 150 * step
        (tmp_path / f"class{step}").mkdir()
        for number in range(150):
            (tmp_path / f"class{step}" / f"{number}.jpg").write_bytes(
                jpeg(edge, edge).ljust(2_000 + number, b"\1")
            )
            truth += edge * edge * 3
    monkeypatch.setattr(sample_module, "OPENED", 400)  # of 1,500
    monkeypatch.setattr(look_module, "MOST_HEADERS", 1_000)
    found = look(str(tmp_path), facts, Patience())
    assert 300 <= found.decoded.headers < 1_500
    assert abs(found.decoded.native_bytes - truth) <= 1.3 * found.decoded.margin_bytes
    assert found.decoded.margin_bytes < 0.05 * truth


def test_look_weighs_what_is_in_the_page_cache_by_bytes(tmp_path, facts, monkeypatch):
    """Half of the bytes in many small files that are there, half in a few large ones that are
    not.
    """
    for number in range(400):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE[:4_096])
    for number in range(16):
        (tmp_path / f"large{number}.jpg").write_bytes(PICTURE[:100].ljust(102_400, b"\1"))
    monkeypatch.setattr(sample_module, "OPENED", 200)
    monkeypatch.setattr(look_module, "MOST_HEADERS", 300)
    monkeypatch.setattr(
        sample_module.page_cache,
        "resident_bytes",
        lambda _, info: info.st_size if info.st_size < 5_000 else 0,
    )
    found = look(str(tmp_path), facts, Patience())
    assert found.resident.files < 416
    assert found.resident.share == pytest.approx(0.5, abs=0.1)


def test_look_twice_draws_the_same_sample_and_tells_the_seed(tmp_path, facts, monkeypatch):
    kinds_in_order(tmp_path / "data", is_turned=False)
    monkeypatch.setattr(sample_module, "OPENED", 300)
    one, other = (look(str(tmp_path / "data"), facts, Patience()) for _ in range(2))
    assert one.decoded == other.decoded
    assert "drawn with seed 1" in dataset_text(one)


@pytest.mark.parametrize("is_exact", [False, True])
def test_look_counts_a_file_with_several_names_once(tmp_path, facts, is_exact):
    (tmp_path / "b").mkdir()
    for number in range(20):
        path = tmp_path / f"{number}.jpg"
        path.write_bytes(PICTURE)
        os.link(path, tmp_path / "b" / f"{number}.jpg")
        (tmp_path / "b" / f"link{number}.jpg").symlink_to(path)
    found = look(str(tmp_path), facts, Patience(), is_exact=is_exact)
    assert (found.names.files, found.names.links) == (60, 20)
    assert found.sizes.total_bytes == 20 * 30_000
    assert found.sizes.page_bytes == 20 * 32_768
    assert found.decoded.native_bytes == 20 * 500 * 375 * 3
    assert found.sizes.linked_bytes == 0


def test_look_at_a_sample_of_hard_links_leaves_open_where_the_others_lie(
    tmp_path, facts, monkeypatch
):
    (tmp_path / "b").mkdir()
    for number in range(60):
        path = tmp_path / f"{number}.jpg"
        path.write_bytes(PICTURE)
        os.link(path, tmp_path / "b" / f"{number}.jpg")
    monkeypatch.setattr(look_module, "Tally", lambda: Tally(sample=30, of_each=30))
    assert look(str(tmp_path), facts, Patience()).sizes.linked_bytes == 0  # each name was met
    found = look(str(tmp_path), facts, without_time_for_all_sizes())
    assert (found.sizes.total_bytes, found.sizes.linked_bytes) == (60 * 30_000, 60 * 30_000)
    assert (found.decoded_fit.answer, found.decoded_fit.high_bytes) == ("unknown", None)
    assert "hard links are counted once" in dataset_text(found)
    assert faults(dataset_json(found), "dataset") == []


@pytest.mark.parametrize(
    ("name", "head", "way"),
    [
        ("data.mdb", b"\0" * 16 + b"\xde\xc0\xef\xbe", "its own library in the job (lmdb)"),
        ("a.ogg", b"OggS", "bench read --decode"),
        ("a.mp3", b"ID3", "bench read --decode"),
        ("a.bin", b"\1\2\3", "only the job that decodes it"),
        ("a.mp4", b"\0\0\0 ftyp", "the frames of a video take a hundred times its file"),
    ],
)
def test_look_gives_no_verdict_where_no_header_tells_and_says_what_would(
    tmp_path, facts, name, head, way
):
    (tmp_path / name).write_bytes(head.ljust(9_000, b"\xf1"))
    found = look(str(tmp_path), facts, Patience())
    assert (found.decoded_fit.answer, found.decoded_fit.why, found.decoded_fit.high_bytes) == (
        "unknown",
        "untold",
        None,
    )
    text = dataset_text(found)
    assert f"not known for {key_of(name.rpartition('.')[2])}" in text
    assert way in text
    assert text.count("fits (") == 1  # of the page cache
    assert (found.copies_bytes, "filled by every worker" in text) == (0, False)


def test_look_that_was_cut_short_gives_no_verdict(data, facts):
    patience = Patience()
    found = look(
        str(data), facts, patience, tell=lambda text: patience.stop() if "folders" in text else None
    )
    assert (found.page_cache.answer, found.page_cache.why) == ("unknown", "partial")
    assert found.decoded_fit.answer == "unknown"
    assert "not known whether it fits: a part was not seen" in dataset_text(found)


def without_time_for_all_sizes():
    patience = Patience()
    patience.sizes_s = -1.0
    return patience


def test_look_knows_every_size_and_gives_no_verdict_where_it_does_not(data, facts, monkeypatch):
    for number in range(0, 60, 3):
        (data / "class0" / f"{number}.jpg").write_bytes(PICTURE * 2)
    monkeypatch.setattr(look_module, "Tally", lambda: Tally(sample=15, of_each=10))
    sampled = look(str(data), facts, without_time_for_all_sizes())
    exact = look(str(data), facts, Patience())
    for fits in (sampled.page_cache, sampled.decoded_fit):
        assert (fits.answer, fits.why, fits.high_bytes) == ("unknown", "sizes", None)
    assert "not known whether it fits: of 61 files 16 sizes were taken" in dataset_text(sampled)
    assert "every size" not in dataset_text(sampled)
    assert ("dataset --exact" in dataset_text(sampled), exact.page_cache.answer) == (True, "fits")
    assert faults(dataset_json(sampled), "dataset") == []
    assert (sampled.sizes.is_exact, exact.sizes.is_exact) == (False, True)
    assert (exact.sizes.looked_at, exact.sizes.total_bytes, exact.sizes.margin_bytes) == (
        61,
        2_400_040,
        0,
    )
    assert abs(sampled.sizes.total_bytes - 2_400_040) < 2 * sampled.sizes.margin_bytes
    assert "± " in dataset_text(sampled)
    assert "± " not in dataset_text(exact)


def test_look_past_files_that_vanish_or_may_not_be_seen_goes_on(data, facts, monkeypatch):
    real = os.stat

    def stat(path, *rest, **more):
        if str(path).endswith("/3.jpg"):
            raise FileNotFoundError(2, "gone")
        if str(path).endswith("/4.jpg"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr(sample_module.os, "stat", stat)
    found = look(str(data), facts, Patience())
    assert (found.look.gone, found.look.denied, found.look.sampled) == (1, 1, 59)
    assert found.sizes.total_bytes == 1_800_040
    text = dataset_text(found, Page())
    assert "1 file of the sample vanished meanwhile" in text
    assert "1 file of the sample could not be looked at" in text


def npy(folder, name, size):
    """An array of so many bytes, the rest of the file a hole."""
    text = (
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}".encode().ljust(117)
        + b"\n"
    )
    with (folder / f"{name}.npy").open("wb") as file:
        file.write(b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text)
        file.truncate(128 + size)


def test_look_at_a_giant_that_no_sample_meets_does_not_say_that_it_fits(
    tmp_path, facts, monkeypatch
):
    """One file is nearly all of the data, between others of another ratio; its name is in neither
    sample.
    """
    for number in range(300):
        (tmp_path / f"{number}.npy").write_bytes(
            b"\x93NUMPY" + bytes(4_000)
        )  # tells nothing that can be true
    npy(tmp_path, "giant", 1 << 40)
    monkeypatch.setattr(look_module, "Tally", lambda: Tally(sample=15, of_each=10))
    found = look(str(tmp_path), facts, Patience())
    assert not any(
        one.path.endswith("/giant.npy") for one in look_module.choose_samples(counted(tmp_path))
    )
    assert (found.sizes.is_exact, found.sizes.total_bytes) == (True, 300 * 4_006 + 128 + (1 << 40))
    assert (found.page_cache.answer, found.decoded_fit.answer) == ("too large", "too large")
    assert found.decoded.native_bytes == pytest.approx(1 << 40, rel=0.001)


def counted(folder):
    tally = Tally(sample=15, of_each=10)
    for place, entries in look_module.Walk(str(folder)).chunks():
        tally.take(place, entries)
    return tally


def test_look_takes_the_ratio_of_large_files_from_themselves_and_of_the_others_from_a_sample(
    tmp_path, facts
):
    for number in range(200):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(100, 100).ljust(1_000, b"\1"))
    (tmp_path / "large.jpg").write_bytes(jpeg(100, 100).ljust(400_000, b"\1"))
    found = look(str(tmp_path), facts, Patience())
    assert (found.decoded.native_bytes, found.decoded.margin_bytes) == (201 * 30_000, 0)


def test_picture_of_one_colour_among_thousands_is_met_in_a_small_set(tmp_path, facts):
    """It is the smallest of the files, and becomes an eighth of the data."""
    for number in range(3_000):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(100, 100).ljust(20_000 + number, b"\1"))
    (tmp_path / "flat.jpg").write_bytes(jpeg(2_000, 2_000).ljust(19_999, b"\1"))
    found = look(str(tmp_path), facts, Patience())
    assert (found.decoded.headers, found.decoded.margin_bytes) == (3_001, 0)
    assert found.decoded.native_bytes == 3_000 * 30_000 + 3 * 2_000**2


def test_large_files_for_which_there_was_no_time_are_a_stratum_of_the_sample(
    tmp_path, facts, monkeypatch
):
    """Of 150 shards of one kind some are asked; the rest is as these are, with an interval."""
    for number in range(150):
        edge = 100 + number
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(edge, edge).ljust(20_000 + number, b"\1"))
    truth = sum(3 * (100 + number) ** 2 for number in range(150))
    probe = sample_module.probe_file
    seen = []

    def some(path, **words):
        seen.append(path)
        if len(seen) <= 60:
            raise PermissionError(13, "Permission denied")
        return probe(path, **words)

    monkeypatch.setattr(sample_module, "probe_file", some)
    found = look(str(tmp_path), facts, Patience())
    assert found.look.denied == 60
    assert 0 < abs(found.decoded.native_bytes - truth) <= found.decoded.margin_bytes < 0.3 * truth


def test_look_at_a_picture_that_is_one_of_the_largest_files_and_becomes_nearly_all_of_it(
    tmp_path, facts, monkeypatch
):
    for number in range(400):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(100, 100).ljust(5_000, b"\1"))
    (tmp_path / "flat.jpg").write_bytes(jpeg(6_000, 6_000).ljust(30_000, b"\1"))
    monkeypatch.setattr(look_module, "Tally", lambda: Tally(sample=150, of_each=10))
    found = look(str(tmp_path), facts, Patience())
    assert found.decoded.native_bytes == pytest.approx(
        3 * (6_000 * 6_000 + 400 * 100 * 100), rel=0.001
    )


def test_look_at_few_files_of_which_one_is_empty_is_exact(tmp_path, facts):
    (tmp_path / "empty.jpg").write_bytes(b"")
    for number in range(9):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(100, 100 + number).ljust(5_000, b"\1"))
    found = look(str(tmp_path), facts, Patience())
    assert (found.decoded.native_bytes, found.decoded.margin_bytes) == (3 * 100 * (900 + 36), 0)


def test_sample_that_makes_less_than_half_of_the_bytes_that_are_known_tells_nothing_of_the_rest():
    groups = [(10, [Pair(10, 100)] * 10)]
    assert combined_ratio(groups, 1_000, 15_000, is_known=True).variance is not None
    assert combined_ratio(groups, 1_000, 25_000, is_known=True).variance is None


class Clock:
    """Each look at it is a tick later."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def test_look_with_a_budget_ends_with_what_was_seen(data, facts):
    found = look(str(data), facts, Patience(8.0, Clock(2.0)))
    assert (found.stopped, found.names_done) == ("budget", False)
    assert 0 < found.names.files < 61
    text = dataset_text(found, Page())
    assert text.startswith("PARTIAL: the budget was spent; numbers are what was seen until then.")
    assert "at least" in text
    assert faults(dataset_json(found), "dataset") == []


def test_look_that_is_interrupted_ends_with_what_was_seen(data, facts):
    patience = Patience()
    found = look(
        str(data), facts, patience, tell=lambda text: patience.stop() if "folders" in text else None
    )
    assert (found.stopped, found.names_done) == ("interrupted", False)
    assert 0 < found.names.files < 61
    assert found.sizes is not None


def test_look_that_is_interrupted_in_the_sample_keeps_the_numbers(data, facts):
    patience = Patience()
    found = look(
        str(data), facts, patience, tell=lambda text: patience.stop() if "sizes" in text else None
    )
    assert (found.stopped, found.names_done, found.names.files) == ("interrupted", True, 61)
    assert found.sizes.total_bytes == 1_800_040
    assert found.decoded.headers == 0


def test_patience_without_a_budget_limits_the_sample_alone():
    clock = Clock(0.0)
    patience = Patience(None, clock)
    clock.now = 1e6
    assert not patience.is_over()
    phase = patience.sample()
    assert phase.has_time(for_stats=True)
    clock.now += SAMPLE_S - 0.1
    assert not phase.has_time(for_stats=True)
    assert phase.has_time(for_stats=False)
    clock.now += 0.2
    assert not phase.has_time(for_stats=False)
    assert patience.stopped == ""


def test_command_prints_text_and_json(data, capsys):
    assert run(["dataset", str(data)]) == 0
    out, err = capsys.readouterr()
    assert " ".join(out.split()).startswith(
        f"{data}: 61 files in 4 folders; 1.7 MiB; median 29.3 KiB, 100 % below 64 KiB"
    )
    assert err == ""
    assert run(["dataset", str(data), "--format", "json", "--gpu-processes", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert faults(document, "dataset") == []
    assert "2 GPU processes" in document["workers"]["formula"]


@pytest.mark.parametrize("path", ["nothing", "pipe"])
def test_command_with_a_path_that_is_no_data_set_is_trouble(tmp_path, capsys, path):
    os.mkfifo(tmp_path / "pipe")
    assert run(["dataset", str(tmp_path / path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"hosttune: {tmp_path / path}: ")
    assert "hint:" in err


def test_command_after_an_interrupt_prints_and_ends_with_130(data, capsys, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    real = look_module.Tally.take

    def take(*given):
        signal.raise_signal(signal.SIGINT)
        return real(*given)

    monkeypatch.setattr(look_module.Tally, "take", take)
    assert run(["dataset", str(data)]) == 130
    assert capsys.readouterr().out.startswith("PARTIAL: interrupted")
    assert signal.getsignal(signal.SIGINT) is before


def test_text_shows_names_from_outside_escaped(tmp_path, facts):
    place = tmp_path / "bad\x1b[31mname"
    place.mkdir()
    (place / "a.jpg").write_bytes(PICTURE)
    for width in (40, 80, 120):
        text = dataset_text(look(str(place), facts, Patience()), Page(screen=Screen(width)))
        assert "\x1b" not in text
        assert "bad\\x1b[31mname" in text


def test_look_at_video_guesses_nothing_for_it_and_at_empty_sound_divides_by_nothing(
    tmp_path, facts
):
    for number in range(3):
        (tmp_path / f"{number}.wav").write_bytes(sound(0))
    text = dataset_text(look(str(tmp_path), facts, Patience()))
    assert "0 B" in text
    (tmp_path / "a.mp4").write_bytes(bytes(9_000))
    (tmp_path / "a.bin").write_bytes(bytes(1_000))
    found = look(str(tmp_path), facts, Patience())
    assert found.decoded.untold == ("MPEG-4", ".bin")
    text = dataset_text(found)
    assert "not known for .bin" in text
    assert "not known for MPEG-4" in text


def test_look_at_misnamed_files_says_what_they_are(tmp_path, facts):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(PICTURE)
    (tmp_path / "a.wav").write_bytes(sound())
    found = look(str(tmp_path), facts, Patience())
    assert found.look.odd_formats == (("PNG", "JPEG", 3),)
    assert "3 files of the sample named as PNG are JPEG by the header" in dataset_text(
        found, Page(screen=Screen(100))
    )


def test_decode_weighs_formats_by_their_bytes_and_names_the_rest():
    looked = [
        Looked("JPEG", 100, Header("JPEG", 2000, 8000, 100)),
        Looked("JPEG", 100, Header("JPEG")),
        Looked(".x", 50, None),
    ]
    found = decode(looked, {"JPEG": 10_000, ".x": 1_000, "MPEG-4": 5_000, "CSV": 10})
    assert (found.headers, found.told) == (3, 1)
    assert (found.native_bytes, found.float32_bytes) == (100_000, 400_000)
    assert (found.k, found.k_float32) == (20.0, 80.0)
    assert found.told_share == pytest.approx(5_000 / 16_010)
    assert found.untold == ("JPEG", "MPEG-4", ".x")
    assert formats_found(looked) == {}


NVME = Underneath("/data", "ext4", "/dev/nvme0n1", "disk", "relatime", is_read_only=False, is_vm=False, disks=(UnderlyingDisk("nvme0n1", "nvme", "flash", ""),))  # fmt: skip
SMALL = Sizes(100, False, GIB, 1, GIB, 1000, 5000, 0.9)


def advice(
    place=NVME,
    *,
    files=100_000,
    sizes=SMALL,
    keys=("JPEG",),
    answer="fits",
    native="too large",
    **more,
):
    decoded = Decoded(1, 1, 1.0, 20.0, 80.0, 20 * GIB, 80 * GIB, 0, 0, ())
    return verdict.advise(
        files=files, sizes=sizes, keys=keys, place=place, page_cache=Fit(GIB, 0.1, answer, GIB, GIB), decoded=decoded,
        decoded_fit=Fit(20 * GIB, 2.0, native, 20 * GIB, 20 * GIB), **more,
    )  # fmt: skip


def on(**changes):
    return replace(NVME, **changes)


PLACES = [
    NVME, on(kind="network", fstype="nfs4"), on(kind="network", fstype="lustre"), on(kind="memory"), on(atime="strictatime"),
    on(disks=(UnderlyingDisk("sda", "sata", "rotating", ""),)), on(disks=(UnderlyingDisk("sda", "usb", "", ""),)), on(atime="noatime"),
]  # fmt: skip


def test_advice_names_rules_that_exist():
    catalog = builtin_catalog()
    rules = set(catalog.rules)
    seen = set()
    for place in PLACES:
        for answer in ("fits", "tight", "too large", "unknown"):
            seen |= {one.rule for one in advice(place, answer=answer) if one.rule}
    assert seen == {
        "memory-dataset-fits-ram", "storage-nfs-readahead", "storage-data-placement", "framework-input-pipeline", "storage-noatime",
    }  # fmt: skip
    assert seen <= rules


def said(*found):
    return [one.rule for one in found]


def test_advice_on_what_is_fine_is_silent_but_for_how_to_try_the_workers():
    large = Sizes(100, True, GIB, 0, GIB, 1 << 20, 1 << 21, 0.0)
    assert [one.command for one in advice(sizes=large, native="fits")] == ["bench read --decode"]
    assert [one.command for one in advice(sizes=large, native="fits", keys=("tar",))] == [
        "bench read"
    ]
    for more in ({"is_measured": True}, {"is_folder": False}, {"files": 11}):
        assert advice(sizes=large, native="fits", **more) == ()
    assert said(*advice(on(kind="memory"), native="fits")) == [""]
    assert said(*advice(files=100, native="fits")) == [""]
    assert "framework-input-pipeline" not in said(*advice(keys=("tar", "TFRecord"), native="fits"))


def test_advice_on_small_files_says_what_helps_and_when():
    (small,) = (one for one in advice(native="fits") if one.rule == "framework-input-pipeline")
    assert "4.3 times" in small.text
    assert "only the first epoch gains" in small.text
    (small,) = (
        one
        for one in advice(answer="too large", native="fits")
        if one.rule == "framework-input-pipeline"
    )
    assert "only the first epoch" not in small.text


def test_advice_on_many_small_arrays_is_to_pack_them_too():
    """EveryVoice issue 472: features of each utterance as a file of torch.save."""
    (small,) = (
        one
        for one in advice(keys=("PyTorch",), native="fits")
        if one.rule == "framework-input-pipeline"
    )
    assert "inode" in small.text


@pytest.mark.parametrize(
    ("place", "header_s", "more", "is_said"),
    [
        (on(kind="network", fstype="lustre"), 0.0, {}, True),
        (
            on(kind="network", fstype="lustre"),
            0.0,
            {"answer": "too large"},
            False,
        ),  # the place is advised on already
        (on(kind="network", fstype="lustre"), 0.0, {"files": 900}, False),
        (on(kind="network", fstype="lustre"), 0.0, {"keys": ("tar",)}, False),
        (on(kind="unknown", fstype="fuse.geesefs"), 0.009, {}, True),
        (
            on(kind="unknown", fstype="fuse.mergerfs"),
            0.0001,
            {},
            False,
        ),  # of this host, as quick as a disk
        (NVME, 0.009, {}, False),
    ],
)
def test_advice_on_files_that_a_server_opens_one_by_one(place, header_s, more, is_said):
    """The rf-detr pull request 1396: loose pictures cost an open each over a network, on a local
    NVMe disk nothing.
    """
    found = [one.text for one in advice(place, native="fits", header_s=header_s, **more)]
    assert any(text.startswith("each file waits for an answer") for text in found) is is_said
    assert any("(9 ms in this look)" in text for text in found) is (is_said and header_s == 0.009)


def test_advice_on_pictures_that_are_much_larger_than_what_models_take(tmp_path, facts):
    """The yolov5 issue 11863: pictures of 20 million pixels; 16 times smaller ones ended the slow
    scan.
    """
    (large,) = (
        one
        for one in advice(native="fits", picture_bytes=57.0 * (1 << 20))
        if "decoded, and" in one.text
    )
    assert "57 MiB decoded" in large.text
    assert "make smaller copies" in large.text
    assert not any(
        "decoded, and" in one.text for one in advice(native="fits", picture_bytes=3.0 * (1 << 20))
    )
    (tmp_path / "a.jpg").write_bytes(jpeg(5472, 3648).ljust(30_000, b"\1"))
    (found,) = (
        one.text
        for one in look(str(tmp_path), facts, Patience()).advice
        if "decoded, and" in one.text
    )
    assert "57 MiB" in found


@pytest.mark.parametrize(
    ("keys", "names"),
    [(("Ogg", "MP3"), "MP3 and Ogg sound is"), (("WAV",), ""), (("JPEG", "FLAC"), "FLAC sound is")],
)
def test_advice_on_packed_sound_is_to_keep_it_at_the_rate_of_the_model(keys, names):
    """The Speech issue 3336 of NVIDIA-NeMo: opus and mp3 load 2 to 30 times slower than WAV."""
    found = [
        one.text for one in advice(keys=keys, native="fits") if "decoded in every epoch" in one.text
    ]
    assert len(found) == bool(names)
    assert all(text.startswith(names) for text in found)


def test_advice_on_hdf5_names_what_shows_its_chunks():
    """OpenMHC issue 16: a chunk of 109 MB is read for each sample."""
    assert any("h5ls -rv" in one.text for one in advice(keys=("HDF5",), native="fits"))
    assert not any("h5ls -rv" in one.text for one in advice(keys=("npy",), native="fits"))


def test_advice_on_hdf5_says_what_a_row_costs_where_its_header_shows_that():
    """h5py issue 2568: pictures in chunks of 12 with gzip, which are read one at a time."""
    wide = {"HDF5": ReadUnit(12, 1_806_336, 150_528, "gzip")}
    (found,) = (
        one.text
        for one in advice(keys=("HDF5",), native="fits", units=wide)
        if "HDF5 reads" in one.text
    )
    assert "takes 147 KiB" in found
    assert "unpacks 1.7 MiB (chunks of 12 rows, gzip)" in found
    fine = {"HDF5": ReadUnit(1, 150_528, 150_528)}
    assert not any(
        "HDF5 reads" in one.text for one in advice(keys=("HDF5",), native="fits", units=fine)
    )
    values = {"HDF5": ReadUnit(4096, 1 << 20, 256)}  # of rows this small a sample takes many
    assert any(
        "h5ls -rv" in one.text for one in advice(keys=("HDF5",), native="fits", units=values)
    )


def test_advice_on_parquet_is_for_row_groups_that_cost_much_for_one_row(tmp_path, facts):
    """LUMI-AI-Guide pull request 117: rows of Parquet at random."""
    large = {"Parquet": ReadUnit(600_000, 11_534_336, 19)}
    (found,) = (
        one.text
        for one in advice(keys=("Parquet",), native="fits", units=large)
        if "row group" in one.text
    )
    assert "600,000 rows here (11.0 MiB unpacked)" in found
    small = {"Parquet": ReadUnit(1_000, 20_000, 20)}
    assert not any(
        "row group" in one.text for one in advice(keys=("Parquet",), native="fits", units=small)
    )
    (tmp_path / "a.parquet").write_bytes(packed("table.parquet"))
    assert not any("row group" in one.text for one in look(str(tmp_path), facts, Patience()).advice)


def test_advice_on_a_place_counts_where_the_data_does_not_stay():
    assert "storage-nfs-readahead" in said(*advice(PLACES[1], answer="too large"))
    assert "storage-nfs-readahead" not in said(*advice(PLACES[1], answer="fits"))
    assert said(*advice(PLACES[5], answer="tight")).count("storage-data-placement") == 1


def test_advice_on_a_wide_margin_is_to_look_at_all():
    wide = Sizes(100, False, GIB, GIB, GIB, 1 << 20, 1 << 30, 0.0)
    assert [one.command for one in advice(sizes=wide, native="fits")] == [
        "dataset --exact",
        "bench read --decode",
    ]


def test_look_at_an_empty_path_is_refused(facts):
    """`hosttune dataset "$DATA"` where DATA is not set: not the folder one happens to stand in."""
    with pytest.raises(HosttuneError, match="the path is empty"):
        look("", facts, Patience())


@pytest.fixture
def tried(data, tmp_path, monkeypatch):
    """Keeps a `bench read` of the data set; `tried(words, path=..., workers=...)`."""
    where = tmp_path / "state"
    where.mkdir(mode=0o700)
    monkeypatch.setattr(state, "name_folder", lambda: str(where))

    def keep(words, path="", workers=3):
        kept = new_result(look_at(str(data)), 1, figures={"workers": workers}, words=words)
        save(replace(kept, path=path or kept.path))

    return keep


def test_look_starts_with_the_workers_that_bench_read_found_here(data, facts, tried):
    tried({"limit": "decode", "python": "/usr/bin/python3"})
    found = look(str(data), facts, Patience(), gpu_processes=1)
    assert (found.workers.start, found.workers.formula) == (
        3,
        "3 as bench read found here / 1 GPU process",
    )
    assert found.workers.limits[-1].startswith("measured 2")
    assert [one.command for one in found.advice] == []
    assert look(str(data), facts, Patience(), gpu_processes=2).workers.start == 1


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ({"limit": "inconclusive", "python": "/usr/bin/python3"}, {}),
        ({"limit": "decode"}, {}),
        ({"limit": "decode", "python": "/usr/bin/python3"}, {"path": "/elsewhere"}),
        ({"limit": "decode", "python": "/usr/bin/python3"}, {"workers": 0}),
    ],
)
def test_look_passes_over_a_bench_read_that_does_not_speak_for_it(data, facts, tried, words, more):
    tried(words, **more)
    found = look(str(data), facts, Patience(), gpu_processes=1)
    assert "bench read found" not in found.workers.formula
    assert [one.command for one in found.advice] == ["bench read --decode"]
    assert (
        "-> how many workers pay here, and whether disk or decoding limits: try it"
        in dataset_text(found)
    )
    assert f"bench read --decode {data})" in dataset_text(found)


def test_look_leaves_the_page_cache_as_it_was(tmp_path, facts):
    place = tmp_path / "cold.jpg"
    with place.open("wb") as file:
        file.write(jpeg(500, 375).ljust(300_000, b"\1"))
        file.flush()
        os.fsync(file.fileno())
        page_cache.drop(file.fileno())
        was = page_cache.resident_bytes(file.fileno())
        look(str(place), facts, Patience())
        assert page_cache.resident_bytes(file.fileno()) == was


def test_text_with_verbose_names_every_format(data, facts):
    for number in range(6):
        (data / f"x.end{number}").write_text("x")
    found = look(str(data), facts, Patience())
    assert "4 more (4 files)" in dataset_text(found)
    text = dataset_text(found, Page(is_verbose=True))
    assert all(f".end{number} 1 file" in text for number in range(6))
    assert " more (" not in text


def test_lmdb_as_long_as_its_map_counts_by_what_was_written(tmp_path, facts):
    with (tmp_path / "data.mdb").open("wb") as file:
        file.write(b"x" * 200_000)
        os.fsync(file.fileno())
        file.truncate(1 << 40)
    found = look(str(tmp_path), facts, Patience())
    assert found.sizes.total_bytes in range(200_000, 300_000) or found.place.fstype not in {
        "ext4",
        "xfs",
        "tmpfs",
    }
    assert found.page_cache.answer == "fits" or found.place.fstype not in {"ext4", "xfs", "tmpfs"}


def test_files_of_the_hub_count_by_the_names_that_link_to_them(tmp_path, facts):
    (tmp_path / "blobs").mkdir()
    for snapshot in ("a", "b"):
        (tmp_path / "snapshots" / snapshot).mkdir(parents=True)
        (tmp_path / "snapshots" / snapshot / "train-00000-of-00001.parquet").symlink_to(
            "../../blobs/0123abcd"
        )
    (tmp_path / "blobs" / "0123abcd").write_bytes(b"PAR1" + bytes(50_000))
    found = look(str(tmp_path), facts, Patience())
    assert [(one.name, one.bytes) for one in found.formats] == [("Parquet", 50_004)]


def test_one_shard_feeds_one_worker(tmp_path, facts, monkeypatch):
    monkeypatch.setattr(look_module, "usable_cpus", lambda: Cpus(16.0, "16 usable CPUs"))
    for number in range(3):
        (tmp_path / f"{number}.tar").write_bytes(bytes(10_240))
    found = look(str(tmp_path), facts, Patience(), gpu_processes=1)
    assert (found.workers.start, "one shard feeds one worker" in found.workers.limits) == (3, True)


def test_first_lines_answer_how_much_where_whether_it_fits_and_how_many_workers(data, facts):
    text = view.dataset_text(look(str(data), facts, Patience()), Page())
    heads = [line[:12].strip() for line in text.splitlines() if not line.startswith("  ")]
    assert heads[1:4] == ["is on", "page cache", "workers"]


def test_records_of_packed_files_are_unpacked_from_their_start():
    def is_told(found):
        return any("unpacked from their start" in one.text for one in found)

    assert is_told(advice(keys=("gzip",), packed_share=0.9))
    assert not is_told(advice(keys=("gzip", "JPEG"), packed_share=0.1))


@pytest.mark.parametrize(
    ("place", "answer", "word"),
    [
        (NVME, "too large", "readahead=False"), (on(kind="network", fstype="nfs4"), "fits", "cat data.mdb"),
        (NVME, "fits", ""),
    ],
)  # fmt: skip
def test_lmdb_is_read_in_one_go_or_without_read_ahead(place, answer, word):
    texts = [one.text for one in advice(place, answer=answer, keys=("LMDB",)) if "LMDB" in one.text]
    assert len(texts) == bool(word)
    assert word in "".join(texts)


@pytest.mark.parametrize("description", [".zarray", "zarr.json", ""])
def test_chunks_of_zarr_are_joined_in_zarr(monkeypatch, facts, tmp_path, description):
    monkeypatch.setattr(verdict, "MANY", 20)
    for number in range(20):
        (tmp_path / f"{number}.0").write_bytes(b"x")
    if description:
        (tmp_path / description).write_text("{}", encoding="ascii")
    found = look(str(tmp_path), facts, Patience())
    texts = [one.text for one in found.advice if "are small" in one.text]
    assert len(texts) == 1
    assert ("shards of version 3" in texts[0]) is bool(description)
    assert ("tar/WebDataset" in texts[0]) is not bool(description)


def test_share_of_packed_files_counts_their_bytes(facts, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.nii.gz").write_bytes(gzip.compress(os.urandom(5_000)))
    (tmp_path / "labels.csv").write_text("a,b", encoding="ascii")
    found = look(str(tmp_path), facts, Patience())
    assert any("unpacked from their start" in one.text for one in found.advice)
