"""`hosttune bench read` on the command line: its words, its text and document, exit statuses,
refusals.
"""

import json
import os
from contextlib import nullcontext
from dataclasses import replace

import pytest

from hosttune.cli import app
from hosttune.errors import HosttuneError
from hosttune.measure.bench import read as reading_files
from hosttune.measure.bench import results, state
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.place import Place
from hosttune.measure.bench.read import Decoder, ReadResult, Wanted
from hosttune.measure.bench.read_python import Python
from hosttune.measure.bench.read_sample import ReadSample
from hosttune.measure.bench.reading import Limit, conclude_limit
from hosttune.measure.cli import bench_read
from tests.unit.schemas import faults
from tests.unit.test_bench_read_verdict import DECODING, WAITING, figures

pytestmark = pytest.mark.usefixtures("in_one_process")

PLACE = Place(
    "/data/set",
    "/data",
    30,
    "/dev/vdb1",
    "ext4",
    "relatime",
    "252:17",
    "uuid-data",
    10**12,
    5 * 10**11,
    False,
)


def result_of(found, **more):
    sample = ReadSample(
        tuple(f"/data/set/{number}.jpg" for number in range(3000)),
        (35_000,) * 3000,
        30_607,
        True,
        0,
        0,
    )
    decoder = Decoder(
        "/home/alice/venv/bin/python", "3.12.3", 1000, {"jpg": "Pillow 13.0.0"}, 30 << 20, 2997, 3,
        (("/data/set/\x1b[31m.jpg", "OSError: image file is truncated"),), (),
    )  # fmt: skip
    made = ReadResult(
        PLACE,
        sample,
        found,
        conclude_limit(found),
        decoder if found.decode else None,
        (),
        2,
        61.3,
        7,
        False,
    )
    return replace(made, **more)


DECODED = result_of(figures(DECODING, decode=676, packed=34_000))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command with a state folder of its own; it measures what `run.result` says."""
    folder = tmp_path / "bench"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(state, "name_folder", lambda: str(folder))
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)

    def run(*argv, result=DECODED):
        def measure(wanted, tell):
            tell("at work")
            if isinstance(result, Exception):
                raise result
            run.wanted = wanted
            return result

        monkeypatch.setattr(reading_files, "bench_read", measure)
        status = app.run(["bench", "read", *argv])
        return status, *capsys.readouterr()

    return run


def test_read_prints_rates_bytes_knee_limit_and_what_to_do(run):
    status, out, err = run("/data/set")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    for said in (
        "bench read /data/set (ext4, relatime) 3,000 of 30,607 files, 100 MiB 61 s, 2 passes done again, seed 7",
        "MiB read of a device",
        "workers on cold files, decoded, files/s: 1:676 2:1,176 3:1,202 4:1,149 8:1,120 16:1,006",
        "knee at 3 workers (2 CPUs)",
        "1.00 bytes from the device for each one read",
        "decoded with Pillow 13.0.0 of /home/alice/venv/bin/python (Python 3.12.3), uid 1000",
        "3 of 3,000 files were not decoded",
        "limit: decoding (CPU)",
        "-> num_workers=3 in all",
        "12.0 times as fast as it decodes",
    ):
        assert said in text, said
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    table = out[out.index("  one worker") : out.index("  workers on")]
    assert max(map(len, table.splitlines())) <= 80  # it is not wrapped


def test_read_with_verbose_tells_every_figure(run):
    assert "knee = 3" not in run("/data/set")[1]
    assert "  knee = 3\n" in run("/data/set", "--verbose")[1]


def test_read_document_holds_to_its_schema_and_is_kept_to_be_quoted(run):
    status, out, _ = run("/data/set", "--format", "json")
    assert (status, faults(json.loads(out), "bench-read")) == (0, [])
    (kept,) = results.list_stored()
    assert (kept.kind, kept.uuid, kept.kernel, kept.words["limit"]) == (
        "read",
        "uuid-data",
        os.uname().release,
        "decode",
    )
    assert kept.figures["workers_3_files_per_s"] == pytest.approx(1202)
    assert faults(results.to_json(kept), "bench") == []


def test_read_words_arrive_as_they_were_typed(run):
    run(
        "/d",
        "--workers",
        "4,1,2,2",
        "--decode",
        "--python",
        "/v/python",
        "--budget",
        "9",
        "--files",
        "50",
        "--seed",
        "5",
        "--anyway",
        "--allow-network",
    )
    assert run.wanted == Wanted("/d", (1, 2, 4), True, "/v/python", 9.0, 50, 5, False, True, True)


@pytest.mark.parametrize("text", ["", "0", "1,,2", "two", "1;2", "-1", "65", "²"])
def test_levels_that_are_no_numbers_are_trouble(run, text):
    with pytest.raises(HosttuneError, match="these are not numbers from 1 to 64"):
        bench_read.parse_levels(text)
    assert run("/d", "--workers", text or ",")[0] == 2


def test_read_without_an_answer_ends_with_1(run):
    spoiled = result_of(figures(WAITING, spoiled="the host was busy"))
    status, out, _ = run("/data/set", result=spoiled)
    assert (status, spoiled.conclusion.limit) == (1, Limit.UNKNOWN)
    assert "limit: inconclusive; the host was busy" in out
    assert "knee" not in out
    assert "knee" not in results.list_stored()[0].words["answer"]


def test_read_closed_gate_is_an_answer(run):
    status, out, err = run("/data/set", result=GateClosed("this host is busy", hint="wait"))
    assert (status, out) == (1, "")
    assert "not measured: this host is busy" in err
    assert results.list_stored() == ()


def test_read_trouble_is_2(run):
    assert run("/data/set", result=HosttuneError("/data/set is not a folder"))[0] == 2


def test_read_is_listed(run, capsys):
    run("/data/set")
    assert app.run(["bench", "list"]) == 0
    assert "read /data/set  limit: decoding (CPU); cold 8,080" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (ReadSample((), (), 900, True, 900, 0), "would move their access time"),
        (ReadSample((), (), 900, True, 0, 900), "cannot be read"),
        (
            ReadSample((), (), 3, True, 0, 0),
            "holds 3 files that /v/bin/python decodes; 12 are needed; /v/bin/python has no Pillow",
        ),
    ],
)
def test_too_few_files_says_why(sample, said):
    error = reading_files._too_few(sample, "/data", "/v/bin/python", "/v/bin/python has no Pillow")
    assert said in " ".join(error.message.split())
    assert error.hint


def test_bench_read_network_needs_its_own_word(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_files, "look_at", lambda _: replace(PLACE, fstype="nfs4"))
    with pytest.raises(GateClosed, match="is on nfs4"):
        reading_files.bench_read(Wanted(str(tmp_path)))


def test_bench_read_refuses_a_wrong_python_before_it_asks_for_a_quiet_host(tmp_path, monkeypatch):
    def busy(*_, **__):
        raise GateClosed("this host is busy")

    monkeypatch.setattr(reading_files, "require_quiet", busy)
    with pytest.raises(HosttuneError, match="--python: "):
        reading_files.bench_read(
            Wanted(str(tmp_path), decode=True, python=str(tmp_path / "nowhere"))
        )


@pytest.mark.parametrize("path", ["/proc", "/sys"])
def test_bench_read_opens_nothing_where_the_kernel_shows_itself(path):
    with pytest.raises(HosttuneError, match="holds no data"):
        reading_files.bench_read(Wanted(path, anyway=True))


def test_place_that_no_quiet_host_makes_one_to_measure_is_trouble(capsys):
    """1 is for what another hour may change."""
    assert app.run(["bench", "read", "/proc", "--anyway"]) == 2
    assert "holds no data" in capsys.readouterr().err


def test_empty_folder_is_trouble(capsys, tmp_path):
    assert app.run(["bench", "read", str(tmp_path), "--anyway"]) == 2
    assert "holds 0 files; 12 are needed" in capsys.readouterr().err


def test_python_without_a_library_for_the_files_is_named_with_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(
        reading_files._Bench,
        "_libraries",
        lambda self, _: self.notes.append("/v/python has no library") or ({}, {}),
    )
    (tmp_path / "1.png").touch()
    python = Python("/v/python", os.geteuid(), ("/v/python",), {})
    bench = reading_files._Bench(
        Wanted(str(tmp_path), decode=True), replace(PLACE, path=str(tmp_path)), "", print, 0.0
    )
    monkeypatch.setattr(reading_files, "noatime_view", lambda *_: nullcontext(()))
    with pytest.raises(
        HosttuneError,
        match="holds 0 files that /v/python decodes; 12 are needed; /v/python has no lib",
    ):
        bench.run(python)


def test_read_that_cannot_be_kept_is_told_all_the_same(run, monkeypatch):
    def full(*_):
        raise HosttuneError("/var is full")

    monkeypatch.setattr(state, "save", full)
    status, out, err = run("/data")
    assert (status, "cold files" in out) == (0, True)
    assert "not kept: /var is full" in err


def test_bench_that_a_full_disk_ends_is_trouble_and_no_fault(run):
    status, _, err = run("/data", result=OSError(28, "No space left on device"))
    assert status == 2
    assert "the bench ended: No space left on device" in err
    assert "fault of hosttune" not in err


def test_bench_read_dropping_caches_needs_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HosttuneError, match="needs root"):
        reading_files.bench_read(Wanted(str(tmp_path), drop_caches=True))


@pytest.mark.parametrize(("uid", "is_warned"), [(0, True), (1000, False)])
def test_read_warns_of_dropping_only_where_it_may_be_done(run, monkeypatch, uid, is_warned):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    _, _, err = run("/data", "--drop-caches", result=GateClosed("this host is busy"))
    assert ("read from the disk again" in err) is is_warned


def test_bench_read_end_to_end_on_a_folder_of_ones_own(tmp_path):
    (tmp_path / "set").mkdir()
    for number in range(40):
        (tmp_path / "set" / f"{number}.bin").write_bytes(b"x" * 2000)
    where = tmp_path / "state"
    where.mkdir(mode=0o700)
    wanted = Wanted(str(tmp_path / "set"), (1, 2), budget_s=1.0, anyway=True, where=str(where))
    told = []
    result = reading_files.bench_read(wanted, told.append)
    assert [one.workers for one in result.figures.sweep] == [1, 2]
    assert result.figures.warm.failed == result.figures.cold.failed == 0
    assert len(result.sample.paths) == 40
    assert told
    assert not [name for name in os.listdir(where) if name.startswith("scratch-")]


def test_python_that_its_user_may_not_start_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_files, "noatime_view", lambda *_: nullcontext(()))
    python = Python("/v/python", 1000, ("sh", "-c", "exit 126"), {})
    bench = reading_files._Bench(
        Wanted(str(tmp_path), decode=True), replace(PLACE, path=str(tmp_path)), "", print, 0.0
    )
    with pytest.raises(HosttuneError, match="/v/python cannot be started by uid 1000") as refused:
        bench.run(python)
    assert "--python PATH" in refused.value.hint


@pytest.mark.parametrize("fstype", ["tmpfs", "ramfs"])
def test_bench_read_refuses_files_in_memory(monkeypatch, fstype):
    monkeypatch.setattr(reading_files, "look_at", lambda _: replace(PLACE, fstype=fstype))
    with pytest.raises(
        HosttuneError, match=rf"/data/set is in memory \({fstype}\): there is no disk to measure"
    ):
        reading_files.bench_read(Wanted("/data/set"))


def test_bench_read_on_an_overlay_says_what_is_hidden_and_packs_nothing(monkeypatch):
    place = replace(PLACE, fstype="overlay", device="")
    monkeypatch.setattr("hosttune.measure.underneath.overlay_places", lambda *_: ())
    hidden = reading_files._hidden_by_overlay(place)
    assert "its layers are not visible from here" in hidden
    bench = reading_files._Bench(Wanted("/data/set"), place, "", print, 0.0, hidden)
    assert bench.notes == [hidden]
    with pytest.raises(HosttuneError, match="writes to its upper layer"):
        bench._room_for_shards()
