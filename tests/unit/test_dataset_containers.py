"""Containers as their libraries write them: what the user's Python tells of them, and what becomes of a lie.

The files are made by dataset_files/generate.py with h5py 3.16 (HDF5 2.0), pyarrow 26, polars 1 and Google's protobuf;
what is expected of them is what numpy and pyarrow say of the data that went in.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.host.live import LiveReader
from hosttune.measure.bench import read_crew
from hosttune.measure.bench.read_python import Python
from hosttune.measure.dataset import containers
from hosttune.measure.dataset.containers import Values, header_of
from hosttune.measure.dataset.decoded import Looked
from hosttune.measure.dataset.header import Header
from hosttune.measure.dataset.look import look
from hosttune.measure.dataset.patience import Patience
from hosttune.measure.dataset.sample import Container, Sample
from hosttune.views.measure.dataset import dataset_json, dataset_text
from hosttune.views.page import Page
from tests.unit.schemas import faults
from tests.unit.test_dataset_headers import jpeg

FILES = Path(__file__).with_name("dataset_files")
PIXELS = 64 * 48 * 3
TEXT = "of" + "different" + "lengths"
GROUPS = ("HDF5", 61_440 + 160 + 16 + 3 + 90 + 96 + 480 + 2 + 32, 61_440 * 4 + 80 + 16 + 12 + 87 + 48 + 240 + 4 + 16)
PICTURES = ("Parquet", 4 * (PIXELS + 8 + 5), 4 * (PIXELS * 4 + 4 + 5))
TOLD = {
    "groups.h5": GROUPS,
    "groups_v18.h5": GROUPS,
    "groups_latest.h5": GROUPS,
    "dense.h5": ("HDF5", 9, 36),
    "many.h5": ("HDF5", 80 * 80, 80 * 40),
    "crowd.h5": ("HDF5", 300 * 80, 300 * 40),
    "named_type.h5": ("HDF5", 40, 40),
    "strings.h5": ("HDF5", len(TEXT), len(TEXT)),
    "table.parquet": ("Parquet", 50 * 65, 50 * 79),
    "long.parquet": ("Parquet", 50 * 65, 50 * 79),
    "dictionary.parquet": ("Parquet", 500 * (3 + 5), 500 * (3 + 5)),
    "blobs.parquet": ("Parquet", 4 * 17 * 9, 4 * 17 * 9),
    "examples.tfrecord": ("TFRecord", 5 * PIXELS + 3 * 51 + 8, 5 * PIXELS * 4 + 3 * 35 + 4),
    **{f"pictures{how}.parquet": PICTURES for how in ("", "_plain", "_v2", "_snappy", "_gzip", "_gzip_v2", "_zstd")},
}
UNTOLD = {
    "external.h5": "its data lie in other files",
    "virtual.h5": "its data lie in other files",
    "nested_strings.h5": "values of different lengths within records",
}


def own_python(environment):
    """The one of the tests, which has the libraries."""
    given = {"LC_ALL": "C.UTF-8", "PATH": os.defpath, **environment}
    return Python(sys.executable, os.geteuid(), (sys.executable,), given)


@pytest.fixture
def facts():
    return Facts(LiveReader())


@pytest.fixture
def ask(monkeypatch, tmp_path, facts):
    """A look at a folder with these files, asked of the Python of the tests, or of one with a library of ours."""

    def asked(files, library="", **more):
        place = tmp_path / "data"
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        environment = {}
        if library:
            site = tmp_path / "site" / "pyarrow"
            site.mkdir(parents=True)
            (site / "__init__.py").write_text("__version__ = 'of ours'\n")
            (site / "parquet.py").write_text(library)
            environment["PYTHONPATH"] = str(site.parent)
        monkeypatch.setattr(containers, "user_python", lambda *_: own_python(environment))
        return look(str(place), facts, Patience(), **more)

    return asked


def content(name):
    return gzip.decompress((FILES / f"{name}.gz").read_bytes())


def text_of(found):
    return " ".join(dataset_text(found, Page()).split())


def test_files_are_all_expected():
    assert {path.stem for path in FILES.glob("*.gz")} == {*TOLD, *UNTOLD}


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """What one process tells of all these files."""
    place = tmp_path_factory.mktemp("containers")
    sample = Sample()
    for name, (form, *_) in TOLD.items():
        (place / name).write_bytes(content(name))
        sample.containers.append(Container(len(sample.looked), str(place / name), form, is_cold=True))
        sample.looked.append(Looked(form, (place / name).stat().st_size, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(containers, "user_python", lambda *_: own_python({}))
        asked = containers.ask(sample, str(place), None, lambda: True, lambda _: None)
    assert (asked.missing, asked.reason) == ({}, "")
    assert asked.libraries == (f"h5py {version('h5py')}", f"pyarrow {version('pyarrow')}", "tfrecord")
    return dict(zip(TOLD, (one.header for one in sample.looked), strict=True))


@pytest.mark.parametrize("name", TOLD)
def test_library_tells_what_a_container_holds(headers, name):
    form, native, float32 = TOLD[name]
    found = headers[name]
    assert found.format == form
    assert found.native_bytes == pytest.approx(native, rel=0.001, abs=2 * found.error_bytes)
    assert found.float32_bytes == pytest.approx(float32, rel=0.001, abs=2 * found.error_bytes)
    assert found.error_bytes <= (0.04 * native if name == "dictionary.parquet" else 0)


def one_after_the_other(form, path, pictures):
    import h5py
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"image": pictures})
    if form == "Parquet":
        pq.write_table(table, path, row_group_size=len(pictures) // 3, compression="none")
    elif form == "Arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table, max_chunksize=100)
    elif form == "stream":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table, max_chunksize=100)
    elif form == "HDF5":
        with h5py.File(path, "w") as file:
            rows = file.create_dataset("image", (len(pictures) // 2, 2), dtype=h5py.vlen_dtype("uint8"))
            for number, one in enumerate(pictures):
                rows[number // 2, number % 2] = np.frombuffer(one, "uint8")
    else:
        from tfrecord.writer import TFRecordWriter

        out = TFRecordWriter(str(path))
        for one in pictures:
            out.write({"image": (one, "byte")})
        out.close()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", ["Parquet", "Arrow", "stream", "HDF5", "TFRecord"])
def test_library_tells_of_kinds_that_lie_one_after_the_other(form, first, tmp_path, ask, monkeypatch):
    """The first rows alone would tell K = 30 or K = 1.2."""
    kinds = [jpeg(200, 100).ljust(2_000, b"\1"), jpeg(40, 20).ljust(2_000, b"\1")]
    end = {"Parquet": "parquet", "HDF5": "h5", "TFRecord": "tfrecord"}.get(form, "arrow")
    one_after_the_other(form, tmp_path / "made", [kinds[(number >= 400) ^ first] for number in range(800)])
    found = ask({f"a.{end}": (tmp_path / "made").read_bytes()}).decoded
    truth = 400 * (200 * 100 * 3 + 40 * 20 * 3)
    assert found.native_bytes == pytest.approx(truth, rel=0.06)
    assert abs(found.native_bytes - truth) <= found.margin_bytes


@pytest.mark.parametrize("form", ["Parquet", "Arrow", "stream", "HDF5", "TFRecord"])
def test_exact_look_at_containers_asks_for_every_row(form, tmp_path, ask):
    """Sixty-four rows drawn at random would hardly meet the one that is most of it."""
    kinds = [jpeg(2_000, 1_500).ljust(2_000, b"\1"), jpeg(40, 20).ljust(2_000, b"\1")]
    end = {"Parquet": "parquet", "HDF5": "h5", "TFRecord": "tfrecord"}.get(form, "arrow")
    one_after_the_other(form, tmp_path / "made", [kinds[number != 271] for number in range(600)])
    found = ask({f"{part}.{end}": (tmp_path / "made").read_bytes() for part in "ab"}, is_exact=True)
    assert found.decoded.native_bytes == 2 * 3 * (2_000 * 1_500 + 599 * 40 * 20)
    assert (found.decoded.is_exact, found.decoded.margin_bytes, found.decoded.told) == (True, 0, 2)
    assert found.decoded_fit.high_bytes == found.decoded_fit.low_bytes == found.decoded.native_bytes


def test_exact_look_that_is_interrupted_at_its_containers_gives_no_verdict(tmp_path, facts, monkeypatch):
    monkeypatch.setattr(containers, "user_python", lambda *_: own_python({}))
    for part in "ab":
        (tmp_path / f"{part}.parquet").write_bytes(content("pictures.parquet"))
    patience = Patience()
    found = look(
        str(tmp_path),
        facts,
        patience,
        is_exact=True,
        tell=lambda text: patience.stop() if "containers" in text else None,
    )
    assert (found.decoded.is_exact, found.decoded.told) == (False, 0)
    assert (found.decoded_fit.answer, found.decoded_fit.high_bytes) == ("unknown", None)


@pytest.mark.parametrize("name", UNTOLD)
def test_container_that_hides_its_values_is_guessed_and_says_why(ask, name):
    found = ask({name: content(name)})
    assert (found.decoded.told, found.decoded.native_bytes) == (0, 0)
    assert UNTOLD[name] in text_of(found)
    assert "a guess" in text_of(found)


def test_library_is_named_and_one_broken_file_hides_no_other(ask):
    found = ask({"a.parquet": content("pictures.parquet"), "b.parquet": b"PAR1 and nothing else" * 9})
    assert found.decoded.told == 1
    assert f"pyarrow {version('pyarrow')} of {sys.executable} told what containers hold" in text_of(found)
    assert found.asked.missing == {}
    assert faults(dataset_json(found), "dataset") == []


PICTURE = jpeg(500, 375).ljust(30_000, b"\1")
ARROW = f"""
rows = [{{"image": {{"bytes": {PICTURE!r}, "path": "a.jpg"}}, "label": 3}}] * 40
batch = pa.RecordBatch.from_pylist(rows)
with pa.ipc.MAKE(sys.argv[1], batch.schema) as out:
    out.write_batch(batch)
    out.write_batch(batch)
"""
NESTED = """
rows = [{"box": [{"x": 1.0, "name": "ab"}] * 3, "flag": True, "kind": "cat", "nothing": None}] * 5000
table = pa.Table.from_pylist(rows)
pq.write_table(table.set_column(2, "kind", table.column("kind").dictionary_encode()), sys.argv[1])
"""
HIDDEN = """
pq.write_table(pa.table({"sound": [b"OggS" + bytes(range(256)) * 9] * 4, "label": [1] * 4}), sys.argv[1])
"""


def written(text, tmp_path):
    """A file by pyarrow, in a process of its own: its threads would take signals that other tests send to this one."""
    path = tmp_path / "written"
    argv = [sys.executable, "-c", f"import sys, pyarrow as pa, pyarrow.parquet as pq\n{text}", str(path)]
    subprocess.run(argv, check=True, timeout=60)
    return path.read_bytes()


@pytest.mark.parametrize("make", ["new_stream", "new_file"])
def test_arrow_of_pictures_is_told_by_its_first_batch(ask, tmp_path, make):
    found = ask({"data.arrow": written(ARROW.replace("MAKE", make), tmp_path)})
    each = 500 * 375 * 3 + 5 + 8
    assert found.decoded.told == 1
    assert found.decoded.native_bytes == pytest.approx(80 * each, rel=0.01)


def test_parquet_scales_the_first_rows_to_all_and_walks_through_nested_values(ask, tmp_path):
    found = ask({"x.parquet": written(NESTED, tmp_path)})
    assert found.decoded.native_bytes == pytest.approx(5000 * (3 * (8 + 2) + 1 + 3), rel=0.003)


def test_bytes_that_no_header_knows_are_not_told(ask, tmp_path):
    found = ask({"x.parquet": written(HIDDEN, tmp_path)})
    assert (found.decoded.told, found.decoded.native_bytes) == (0, 0)
    assert found.decoded.untold == ("Parquet",)


def test_without_the_library_it_is_a_guess_and_says_what_to_type(ask):
    found = ask({"a.parquet": content("pictures.parquet")}, library="import missing_here\n")
    assert found.decoded.told == 0
    assert f"Parquet: {sys.executable} has no missing_here, so nothing is told" in text_of(found)
    assert "--python PATH" in text_of(found)


LIE = """
class ParquetFile:
    def __init__(self, file, **_):
        {act}
"""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("import time; time.sleep(3600)", "was not decoded within"),
        ("bytearray(64 << 30)", "MemoryError"),
        ("raise SystemExit(0)", "exit status 0"),
        ("print('noise', flush=True); raise ValueError('no Parquet')", "no Parquet"),
    ],
    ids=["killed", "hangs", "memory", "ends", "noise"],
)
def test_library_that_fails_or_lies_ends_nothing(ask, monkeypatch, act, said):
    monkeypatch.setattr(read_crew, "FILE_S", 0.4)
    found = ask({"a.parquet": content("pictures.parquet"), "b.txt": b"text"}, library=LIE.format(act=act))
    assert found.names.files == 2
    assert found.decoded.told == 0
    assert said in text_of(found)


def test_sums_that_cannot_be_true_are_not_believed():
    assert header_of("HDF5", (0.0, 0.0, 100.0, 0.0), Values()) == Header("HDF5")
    with pytest.raises(HosttuneError, match="no size"):
        Values().add({"value": "aGk=", "size": -1, "times": 1})
    with pytest.raises(HosttuneError, match="no value"):
        Values().add({"value": "not base64!", "size": 1, "times": 1})
    with pytest.raises(HosttuneError, match="no times"):
        Values().add({"value": "aGk=", "size": 9, "times": float("nan")})


def test_python_that_is_named_and_cannot_be_used_is_refused(tmp_path, facts):
    (tmp_path / "a.parquet").write_bytes(content("table.parquet"))
    with pytest.raises(Refused, match="is not a program"):
        look(str(tmp_path), facts, Patience(), python=str(tmp_path / "a.parquet"))


def test_no_python_is_asked_where_there_is_no_container(tmp_path, facts, monkeypatch):
    monkeypatch.setattr(containers, "user_python", lambda *_: pytest.fail("asked"))
    (tmp_path / "a.jpg").write_bytes(jpeg(500, 375))
    assert look(str(tmp_path), facts, Patience()).asked is None


def test_access_times_stay(ask, tmp_path):
    (tmp_path / "keep").touch()
    found = ask({"a.parquet": content("table.parquet"), "a.h5": content("groups.h5")})
    assert found.decoded.told == 2
    assert found.look.moved_files == 0
