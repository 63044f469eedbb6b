"""The workers of `bench read`: the program that reads and decodes, hostile files, the sample, who
runs it.
"""

import json
import os
import struct
import subprocess
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosttune.errors import HosttuneError, Refused
from hosttune.host.writing.own import user_who_typed
from hosttune.measure.bench import read_crew, read_passes, read_program
from hosttune.measure.bench.counters import DiskReading, Moment
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.read_crew import Crew, WorkerDied
from hosttune.measure.bench.read_passes import (
    Chunk,
    Taker,
    chunks_of,
    describe_disturbance,
    probe_files,
    write_shards,
)
from hosttune.measure.bench.read_python import user_python
from hosttune.measure.bench.read_sample import (
    ReadSample,
    draw,
    evict_files,
    moves_atime,
    names_below,
)
from hosttune.measure.bench.reading import Pass
from hosttune.measure.dataset import walk

ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
GIB = 1 << 30
# A library that a user might have: it draws pictures of any bytes, and does what the bytes say.
PILLOW = """
import os, time
class features:
    pass
class _Picture:
    def __init__(self, data):
        self.width = self.height = 1 + len(data)
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def convert(self, _):
        return self
__version__ = "0.0-fake"
def open(file):
    data = file.read()
    if data.startswith(b"broken"):
        raise OSError("cannot identify image file")
    if data.startswith(b"kill"):
        os.kill(os.getpid(), 9)
    if data.startswith(b"hang"):
        time.sleep(3600)
    if data.startswith(b"memory"):
        bytearray(64 << 30)
    if data.startswith(b"noise"):
        print("a library that talks on stdout", flush=True)
    return _Picture(data)
"""


@pytest.fixture
def pillow(tmp_path, monkeypatch):
    """The environment of a Python that has such a library."""
    package = tmp_path / "site" / "PIL"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "Image.py").write_text(PILLOW)
    (package / "features.py").write_text("def check_feature(name): return False\n")
    monkeypatch.setattr(read_crew, "FILE_S", 0.5)
    return {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "site")}


def crew_of(environment=ENVIRONMENT, count=1, **more):
    settings = {"most": 1 << 20, "memory": GIB, **more}
    return Crew((sys.executable, "-s"), environment, count, **settings)


def files_of(folder, contents):
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"file{number:02}.jpg"
        path.write_bytes(content)
        paths.append(str(path))
    return paths


def test_crew_reads_every_file_once_whoever_takes_it(tmp_path):
    paths = files_of(tmp_path, [b"x" * size for size in range(1, 41)])
    with crew_of(count=3) as crew:
        crew.load(paths)
        one = crew.run(range(40), 3, "read", 30)
        two = crew.run([0, 1], 1, "read", 30)
    assert (one.workers, one.files, one.failed, one.bytes_read) == (3, 40, 0, sum(range(1, 41)))
    assert (two.workers, two.files, two.bytes_read) == (1, 2, 3)
    assert one.seconds > 0
    assert one.cpu_seconds >= one.user_seconds >= 0


def test_crew_reads_at_most_so_many_bytes_of_a_file(tmp_path):
    paths = files_of(tmp_path, [b"x" * (3 << 20)])
    with crew_of(most=1 << 20) as crew:
        crew.load(paths)
        assert crew.run([0], 1, "read", 30).bytes_read == 1 << 20


def test_crew_keeps_access_times(tmp_path):
    paths = files_of(tmp_path, [b"x" * 100] * 5)
    for path in paths:
        os.utime(path, ns=(10**18, 2 * 10**18))
    with crew_of() as crew:
        crew.load(paths)
        assert crew.run(range(5), 1, "read", 30).files == 5
    assert {os.stat(path).st_atime_ns for path in paths} == {10**18}


def test_crew_counts_what_is_no_regular_file(tmp_path):
    paths = files_of(tmp_path, [b"x"])
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(paths[0])
    with crew_of() as crew:
        crew.load(
            [
                *paths,
                str(tmp_path / "fifo"),
                str(tmp_path / "link"),
                str(tmp_path / "gone"),
                str(tmp_path),
            ]
        )
        made = crew.run(range(5), 1, "read", 30)
    assert (made.files, made.failed) == (1, 4)


@pytest.mark.parametrize("what", ["link", "device"])
def test_root_is_not_led_elsewhere_by_a_folder_that_was_exchanged(tmp_path, monkeypatch, what):
    data, theirs = tmp_path / "data", tmp_path / "theirs"
    for place in (data / "a", theirs):
        place.mkdir(parents=True)
        (place / "f").write_bytes(b"x" * 100)
    path = str(data / "a" / "f")
    monkeypatch.setattr(read_program.os, "geteuid", lambda: 0)
    assert read_program.read_through(path.encode(), GIB, bytearray(4096)) == 100
    if what == "link":
        (data / "a").rename(data / "b")
        (data / "a").symlink_to(theirs)
    else:
        (data / "a" / "f").unlink()
        os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        read_program.open_file(path.encode())
    with pytest.raises(FileNotFoundError):
        read_passes._read_content(path, 100)
    evict_files([path, path])


def test_pass_that_could_read_nothing_is_an_error(tmp_path):
    with Crew((sys.executable, "-I", "-S"), ENVIRONMENT, 1, most=GIB, memory=GIB) as crew:
        crew.load([str(tmp_path / "gone")])
        watch = read_passes.Watch("", "busy")
        with pytest.raises(HosttuneError, match="none of the files"):
            watch.run(crew, [0], 1, "read", lambda: None)


def test_host_that_gets_busy_is_read_anyway_where_that_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(
        read_passes, "describe_disturbance", lambda *_: "other programs use 2.0 processors"
    )
    (tmp_path / "one").write_bytes(b"x" * 9)
    with crew_of() as crew:
        crew.load([str(tmp_path / "one")])
        with pytest.raises(GateClosed, match="10 of 10 passes were disturbed"):
            read_passes.Watch("").run(crew, [0], 1, "read", lambda: None)
        watch = read_passes.Watch("", anyway=True)
        assert watch.run(crew, [0], 1, "read", lambda: None).bytes_read == 9
    assert watch.spoiled.startswith("10 of 10 passes were disturbed, other programs")


def test_crew_names_that_are_no_utf8_are_read(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\xfe.jpg"
    Path(os.fsdecode(path)).write_bytes(b"x" * 9)
    with crew_of() as crew:
        crew.load([os.fsdecode(path)])
        assert crew.run([0], 1, "read", 30).bytes_read == 9


def test_crew_close_leaves_no_process(tmp_path):
    with crew_of(count=2) as crew:
        pids = [worker._process.pid for worker in crew._workers]
        crew.load([])
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_crew_worker_that_is_no_python_is_said():
    with (
        pytest.raises(HosttuneError, match="ended before its time"),
        Crew(
            ("/bin/false",), ENVIRONMENT, 1, most=1, memory=GIB
        ) as crew,  # it may end before its first line is written
    ):
        crew.load(["a"])


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "no json",
        "[" * 9_000,
        '{"files": -1}',
        '{"files": true}',
        '{"files": "7"}',
        '{"files": 1e300}',
    ],
)
def test_crew_answer_that_is_none_is_refused(answer):
    code = f"import sys; [print({answer!r}, flush=True) for line in sys.stdin]"
    fake = Crew((sys.executable, "-c", code), ENVIRONMENT, 1, most=1, memory=GIB)
    with (
        fake,
        pytest.raises(
            HosttuneError, match=r"a worker.s (line is not an answer|answer has no valid end)"
        ),
    ):
        fake.run([0], 1, "read", 10)


MUTE = """
import fcntl, json, sys, time
queue = json.loads(sys.stdin.readline())["settings"]["queue"]
fcntl.fcntl(queue, 1031, 4096)  # F_SETPIPE_SZ
print(json.dumps({}), flush=True)
for line in sys.stdin if sys.argv[1] == "feed" else ():
    print(json.dumps({}), flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("pipe", ["questions", "feed"])
def test_worker_that_does_not_read_is_not_waited_for(monkeypatch, pipe):
    """The Python of another user can be any program."""
    started = subprocess.Popen
    monkeypatch.setattr(read_crew, "START_S", 0.5)
    monkeypatch.setattr(
        subprocess, "Popen", lambda _, **how: started([sys.executable, "-c", MUTE, pipe], **how)
    )
    with crew_of() as crew, pytest.raises(HosttuneError, match="did not read what it was sent"):
        assert crew._workers[0].answer(9.0) == {}
        crew.load(["/a" * 500] * (1 if pipe == "feed" else 3000))
        crew.run(range(3000), 1, "read", 0.5)


def test_crew_endless_answer_is_cut_off():
    code = "import sys; sys.stdin.readline(); sys.stdout.write('x' * (1 << 22)); sys.stdout.flush(); sys.stdin.read()"
    fake = Crew((sys.executable, "-c", code), ENVIRONMENT, 1, most=1, memory=GIB)
    with fake, pytest.raises(HosttuneError, match="says more than it should"):
        fake.load(["a"])


def test_crew_decodes_with_the_library_of_that_python(tmp_path, pillow):
    paths = files_of(tmp_path, [b"x" * 9, b"noise" + b"x" * 4])
    with crew_of(pillow) as crew:
        said = crew.libraries(["jpg", "wav", "tfrecord"])
        crew.load(paths)
        probed = list(crew.probe([0, 1]))
        made = crew.run([0, 1, 0, 1], 1, "decode", 30)
    assert said["libraries"]["jpg"] == "Pillow 0.0-fake"
    assert "tfrecord" not in said["libraries"]
    assert said["notes"] == [
        "this Pillow was built without libjpeg-turbo, which decodes JPEG several times as fast"
    ]
    assert [(one.size, one.pixels, one.error) for one in probed] == [(9, 100, ""), (9, 100, "")]
    assert (made.files, made.bytes_read) == (4, 36)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"broken", "OSError: cannot identify image file"),
        (b"memory", "MemoryError"),
        (b"kill", "ended by signal 9"),
        (b"hang", "a file was not decoded within"),
    ],
)
def test_probe_hostile_file_is_counted_and_the_next_is_decoded(tmp_path, pillow, content, why):
    paths = files_of(tmp_path, [b"good", content, b"good too", content, b"fine"])

    def make():
        crew = crew_of(pillow)
        crew.libraries(["jpg"])
        crew.load(paths)
        return crew

    found = probe_files(make, range(5), float("inf"))
    assert found.good == (0, 2, 4)
    assert [number for number, _ in found.bad] == [1, 3]
    assert all(why in reason for _, reason in found.bad)


def test_probe_that_kills_again_and_again_is_given_up(tmp_path, pillow, monkeypatch):
    monkeypatch.setattr(read_passes, "_DEATHS", 2)
    paths = files_of(tmp_path, [b"kill"] * 5)

    def make():
        crew = crew_of(pillow)
        crew.libraries(["jpg"])
        crew.load(paths)
        return crew

    with pytest.raises(HosttuneError, match="decoding is given up"):
        probe_files(make, range(5), float("inf"))


def test_run_that_loses_a_worker_is_an_error(tmp_path, pillow):
    paths = files_of(tmp_path, [b"kill"])
    with crew_of(pillow) as crew:
        crew.libraries(["jpg"])
        crew.load(paths)
        with pytest.raises(WorkerDied, match="signal 9"):
            crew.run([0], 1, "decode", 30)


def test_program_decodes_sounds_and_arrays_by_itself(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as sound:
        sound.setparams((2, 2, 16000, 0, "NONE", ""))
        sound.writeframes(b"\0" * 400)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 60
    (tmp_path / "a.npy").write_bytes(array)
    (tmp_path / "b.npy").write_bytes(array[:-50])
    (tmp_path / "c.npy").write_bytes(b"nothing")
    with crew_of({**ENVIRONMENT, "PYTHONPATH": ""}) as crew:
        crew.libraries(["wav", "npy"])
        crew.load([str(tmp_path / name) for name in ("a.wav", "a.npy", "b.npy", "c.npy")])
        sound, array, short, none = crew.probe(range(4))
    assert (sound.pixels, array.pixels) == (200, 15)
    assert short.error
    assert none.error


def test_program_is_of_python_3_8():
    import ast

    ast.parse(Path(read_program.__file__).read_text(), feature_version=(3, 8))


def test_program_needs_nothing_of_hosttune_and_ends_with_its_input():
    text = Path(read_program.__file__).read_text()
    settings = {"settings": {"queue": -1, "most": 1, "memory": GIB, "limit_s": 1}}
    asked = f"{json.dumps(settings)}\n{json.dumps({'paths': ['a']})}\n".encode()
    done = subprocess.run(
        (sys.executable, "-I", "-S", "-c", text),
        input=asked,
        capture_output=True,
        timeout=30,
        check=True,
        cwd="/",
    )
    assert json.loads(done.stdout) == {"paths": 1}


@pytest.mark.parametrize(
    ("word", "user"), [("1000", 1000), ("0", 0), ("-1", 0), ("x", 0), ("", 0), ("9" * 30, 0)]
)
def test_user_who_typed_sudo_is_a_number_or_not_known(word, user):
    assert user_who_typed({"SUDO_UID": word}) == user
    assert user_who_typed({}) == 0


def test_user_python_that_is_none_is_refused_with_a_way_out(tmp_path):
    with pytest.raises(Refused, match="No such file") as caught:
        user_python(str(tmp_path / "python"), str(tmp_path))
    assert "environment that trains" in caught.value.hint


def test_draw_is_repeated_from_its_seed_and_keeps_to_the_bounds(tmp_path):
    (tmp_path / "empty.jpg").touch()
    files_of(tmp_path, [b"x" * 100] * 50)
    one, same, other = (
        draw(str(tmp_path), files=20, most_bytes=1500, seed=seed, uid=os.geteuid())
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one.paths != other.paths
    assert (one.names, one.is_whole) == (51, True)
    assert one.bytes <= 1500
    assert len(one.paths) <= 15
    assert "empty" not in "".join(one.paths)


def test_draw_takes_only_the_names_that_are_wanted(tmp_path):
    files_of(tmp_path, [b"x"] * 5)
    (tmp_path / "notes.txt").write_text("x")
    found = draw(
        str(tmp_path),
        files=20,
        most_bytes=1 << 20,
        seed=1,
        uid=os.geteuid(),
        takes=lambda path: path.endswith(".txt"),
    )
    assert [Path(path).name for path in found.paths] == ["notes.txt"]


def info(atime, mtime=1000, uid=5000):
    return SimpleNamespace(st_atime=atime, st_mtime=mtime, st_ctime=mtime, st_uid=uid)


@pytest.mark.parametrize(
    ("given", "flags", "uid", "moves"),
    [
        pytest.param(info(500), 0, 5000, False, id="the owner has O_NOATIME"),
        pytest.param(info(500), 0, 0, False, id="root has it, too"),
        pytest.param(info(500), os.ST_NOATIME, 1000, False, id="noatime"),
        pytest.param(info(500), os.ST_RDONLY, 1000, False, id="read-only"),
        pytest.param(info(2000), 0, 1000, True, id="strictatime always"),
        pytest.param(info(2000), os.ST_RELATIME, 1000, False, id="relatime, read since it was written"),
        pytest.param(info(900), os.ST_RELATIME, 1000, True, id="relatime, written since"),
        pytest.param(info(2000, mtime=1), os.ST_RELATIME, 1000, False, id="relatime, read today"),
        pytest.param(info(3000 - 24 * 3600, mtime=-(10**6)), os.ST_RELATIME, 1000, True, id="relatime, a day old"),
    ],
)  # fmt: skip
def test_moves_atime_table(given, flags, uid, moves):
    assert moves_atime(given, flags, uid, 3000.0) is moves


def test_draw_leaves_out_what_would_be_stamped(tmp_path, monkeypatch):
    files_of(tmp_path, [b"x"] * 5)
    monkeypatch.setattr("hosttune.measure.bench.read_sample.moves_atime", lambda *_: True)
    given = {"files": 20, "most_bytes": 1 << 20, "seed": 1, "uid": os.geteuid()}
    assert (draw(str(tmp_path), **given).paths, draw(str(tmp_path), **given).others) == ((), 5)
    assert len(draw(str(tmp_path), **given, is_noatime=True).paths) == 5


def sample_of(folder, sizes):
    paths = files_of(folder, [bytes([number % 251]) * size for number, size in enumerate(sizes)])
    return ReadSample(tuple(paths), tuple(sizes), len(sizes), True, 0, 0)


def test_names_are_those_of_one_file_system_and_of_no_link(tmp_path, monkeypatch):
    for name in ("a/one", "b/two", "other/three"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "one")
    real = os.fstat

    def told(fd):
        found = real(fd)
        is_other = os.readlink(f"/proc/self/fd/{fd}").endswith("/other")
        return SimpleNamespace(st_dev=found.st_dev + 1) if is_other else found

    monkeypatch.setattr(walk.os, "fstat", told)
    monkeypatch.setattr(walk, "_is_mount", lambda path: path.endswith("/other"))
    assert sorted(names_below(str(tmp_path))) == [f"{tmp_path}/a/one", f"{tmp_path}/b/two"]


def test_shards_end_when_they_are_told_to(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        chunks = [Chunk((0,)), Chunk((0,))]
        (tmp_path / "f").write_bytes(b"x")
        sample = ReadSample((str(tmp_path / "f"),), (1,), 1, True, 0, 0)
        asked = iter([False, True])
        made = write_shards(chunks, sample, folder, GIB, lambda: next(asked))
    finally:
        os.close(folder)
    assert [bool(path) for _, path in made] == [True, False]


def test_shards_hold_the_same_bytes_in_order(tmp_path):
    sample = sample_of(tmp_path, [10, 20, 30, 40])
    place = tmp_path / "scratch"
    place.mkdir()
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    made = write_shards([Chunk((0, 1)), Chunk((2,)), Chunk((3,))], sample, fd, 65)
    assert [path and Path(path).name for _, path in made] == ["shard-000", "shard-001", ""]
    # The owner of the folder above puts something else there: a FUSE server that never answers,
    # say.
    place.rename(tmp_path / "moved")
    place.write_text("of a user")
    assert Path(made[0][1]).read_bytes() == b"\0" * 10 + b"\1" * 20
    with Crew((sys.executable, "-I", "-S"), ENVIRONMENT, 1, most=GIB, memory=GIB) as crew:
        crew.load([made[0][1]])
        assert crew.run([0], 1, "read", 30).bytes_read == 30
    os.close(fd)


def test_chunks_cover_the_sample_and_stay_small(tmp_path):
    sizes = (1 << 20,) * 100
    sample = ReadSample(tuple(map(str, range(100))), sizes, 100, True, 0, 0)
    by_time, by_size, slow = (chunks_of(sample, rate) for rate in (200.0, 1e9, 1e-9))
    assert [one.files for one in by_time] == [
        tuple(range(start, start + 10)) for start in range(0, 100, 10)
    ]
    assert max(len(one.files) for one in by_size) == 32
    assert (len(slow), len(slow[0].files)) == (40, 1)


def moment(at, host, own, read=0):
    return Moment(at, host, own, None, None, DiskReading(read, 0.0), 0)


PASS = Pass(4, 100, 0, 10 << 20, 10 << 20, 1.0, 1.5, 1.2)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        pytest.param(moment(11, 51.3, 5.05, 10 << 20), "", id="the workers alone"),
        pytest.param(
            moment(11, 52.4, 5.0, 10 << 20),
            "other programs use 1.2 processors",
            id="another job computes",
        ),
        pytest.param(
            moment(11, 51.2, 5.0, 20 << 20),
            "others read 50 % of what the disk gave",
            id="another job reads",
        ),
    ],
)
def test_disturbance_tells_the_workers_from_others(after, said):
    assert (
        describe_disturbance(moment(10, 50, 5), after, PASS).replace("%", " %").replace("  %", " %")
        == said
    )


def test_taker_goes_round_and_repeats_none_at_once():
    take = Taker([1, 2, 3, 4, 5])
    assert [take.some(3), take.some(3), take.some(9)] == [[1, 2, 3], [4, 5, 1], [2, 3, 4, 5, 1]]
