"""`bench atime`: what it draws, that nothing of the user's is touched, what it refuses; and how copies are made."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from hosttune.errors import HosttuneError, Refused
from hosttune.measure.bench import atime as module
from hosttune.measure.bench import copies
from hosttune.measure.bench.atime import Arm, AtimeOptions, CopyReader, bench_atime
from hosttune.measure.bench.bystanders import bystanders
from hosttune.measure.bench.copies import Copies, make_copies, quietly
from hosttune.measure.bench.draw import copy_sizes, draw, is_stale
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.results import latest, save
from hosttune.measure.bench.statistics import Answer

DAY = 86400


@pytest.fixture
def data(tmp_path):
    """Ninety files in three folders; a third of them read today after they were written."""
    folder = tmp_path / "data"
    now = time.time()
    for number in range(90):
        path = folder / str(number % 3) / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (100 + number))
        os.utime(path, (now + 60 if number % 3 == 0 else now - 3 * DAY, now - 9 * DAY))
    (folder / "empty").touch()
    os.symlink(folder, folder / "link")
    # os.walk looks through links, and relatime then writes their access time unless it is newer than both others.
    os.utime(folder / "link", (now + 60, now), follow_symlinks=False)
    return folder


@pytest.fixture
def free(monkeypatch, tmp_path):
    """All gates open, and times that hang on nothing, so that the run itself is looked at."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setattr(module, "require_disk", lambda *_, **__: 1 << 20)
    monkeypatch.setattr(module, "require_quiet", lambda *_, **__: "")
    monkeypatch.setattr(module, "work_noise", lambda *_: ())
    return str(tmp_path / "state")


def as_user(monkeypatch, place=None):
    """As somebody who may not make mounts."""

    def refused(*_):
        raise Refused("open_tree: Operation not permitted")

    monkeypatch.setattr(module, "view_of", refused)
    if place:
        monkeypatch.setattr(module, "look_at", lambda _: place)


def tree_of(folder) -> dict[str, tuple]:
    found = {}
    for place, folders, files in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in (*folders, *files))):
            info = os.lstat(path)
            found[path] = (info.st_mtime_ns, info.st_atime_ns, info.st_ctime_ns, info.st_ino, info.st_size)
    return found


def test_draw_takes_regular_files_and_counts_stale_ones(data):
    drawn = draw(str(data), 1)
    assert sorted(drawn.sizes) == list(range(100, 190))
    assert (drawn.stale, drawn.seen, drawn.is_whole) == (60, 91, True)
    assert draw(str(data), 1) == drawn
    assert draw(str(data), 2).sizes != drawn.sizes


def test_draw_of_nothing_is_an_error(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(HosttuneError, match="holds no files"):
        draw(str(tmp_path), 1)
    with pytest.raises(HosttuneError, match="not a folder"):
        draw(str(tmp_path / "empty"), 1)


@pytest.mark.parametrize(
    ("atime", "mtime", "ctime", "stale"),
    [
        (1000, 900, 900, False),
        (1000, 1000, 900, True),
        (1000, 900, 1001, True),
        (1000 - DAY, -9 * DAY, -9 * DAY, True),
        (1001 - DAY, -9 * DAY, -9 * DAY, False),
    ],
)
def test_stale_is_what_relatime_would_write(atime, mtime, ctime, stale):
    info = os.stat_result((0, 0, 0, 0, 0, 0, 0, atime, mtime, ctime))
    assert is_stale(info, 1000) is stale


@pytest.mark.parametrize(
    ("sizes", "files", "most", "taken"),
    [
        ((10, 20), 5, 1000, (10, 20, 10, 20, 10)),
        ((10, 20), 5, 45, (10, 20, 10)),
        ((10,), 5, 4, (4,)),
        ((1 << 40,), 5, 40 << 20, (16 << 20, 16 << 20)),
    ],
)
def test_copies_stay_within_their_bounds(sizes, files, most, taken):
    assert copy_sizes(sizes, files, most) == taken


def test_copies_have_their_sizes_and_differ(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    made = make_copies(folder, [5000] * 3 + [3 << 20])
    os.close(folder)
    contents = [(tmp_path / name).read_bytes() for name in made.names]
    assert [len(one) for one in contents] == [5000, 5000, 5000, 3 << 20] == list(made.sizes)
    assert len({one[:4096] for one in contents}) == 4
    assert made.bytes == 15000 + (3 << 20)


def test_quiet_work_has_the_lowest_priority_and_leaves_ours(tmp_path):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert quietly(lambda _: os.getpriority(os.PRIO_PROCESS, 0)) == 19
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    with pytest.raises(ZeroDivisionError):
        quietly(lambda _: 1 // 0)


def test_quiet_work_is_told_to_end_when_its_caller_is_interrupted(monkeypatch):
    seen = []

    def work(is_over):
        while not is_over():
            time.sleep(0.001)
        seen.append("ended")

    def interrupted(self, timeout=None):
        del self
        if timeout is not None:
            raise KeyboardInterrupt
        while not seen:
            time.sleep(0.001)

    monkeypatch.setattr(copies.threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quietly(work)
    assert seen == ["ended"]


def test_run_leaves_the_files_of_the_user_as_they_are(data, free, monkeypatch):
    as_user(monkeypatch, replace(look_at(str(data)), atime="relatime"))
    before = tree_of(data)
    result = bench_atime(str(data), 5, AtimeOptions(budget_s=0.5, files=30, where=free))
    if before[str(data)] != tree_of(data)[str(data)]:  # where no folder above may be written in, scratch lies inside
        before.pop(str(data))
    after = tree_of(data)
    assert {path: after[path] for path in before} == before
    assert (result.figures["files_looked_at"], result.figures["files_stale"]) == (90.0, 60.0)
    assert result.figures["copies"] == 30.0
    assert (result.words["other"], result.words["how"]) == ("relatime", "O_NOATIME against a plain open")
    (finding,) = result.findings
    assert finding.name == "read"
    assert len(finding.ratios) == len(finding.controls) == finding.pairs > 0
    assert os.listdir(free) == []
    save(result, free)
    assert latest("atime", result.uuid, result.kernel, where=free) == result


def test_run_on_a_busy_host_is_inconclusive(data, free, monkeypatch):
    as_user(monkeypatch, replace(look_at(str(data)), atime="relatime"))
    monkeypatch.setattr(module, "require_quiet", lambda *_, **__: "the host was busy")
    result = bench_atime(str(data), 5, AtimeOptions(budget_s=0.2, files=30, where=free))
    assert (result.findings[0].answer, result.findings[0].reason) == (Answer.INCONCLUSIVE, "the host was busy")


def test_user_on_a_noatime_mount_is_told_that_it_is_set(data, free, monkeypatch):
    as_user(monkeypatch, replace(look_at(str(data)), atime="noatime"))
    with pytest.raises(GateClosed, match="mounted noatime already"):
        bench_atime(str(data), 5, AtimeOptions(files=20, where=free))
    assert os.listdir(free) == []


def test_the_same_twice_reads_with_noatime_both_times_on_any_mount(data, free, monkeypatch):
    as_user(monkeypatch, replace(look_at(str(data)), atime="noatime"))
    result = bench_atime(str(data), 5, AtimeOptions(budget_s=0.3, files=30, where=free, same=True))
    assert (result.words["base"], result.words["other"]) == ("noatime", "noatime")
    assert result.findings[0].pairs > 0


def test_dropping_caches_needs_root(data, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HosttuneError, match="needs root"):
        bench_atime(str(data), 5, AtimeOptions(drop_caches=True))


def test_caches_are_dropped_only_when_asked(tmp_path, monkeypatch):
    told = tmp_path / "drop_caches"
    told.touch()
    monkeypatch.setattr(module, "DROP_CACHES", str(told))
    (tmp_path / "copy").write_bytes(b"x" * 100)
    folder = os.open(tmp_path, os.O_RDONLY)
    for drops, content in ((False, ""), (True, "3\n")):
        reader = CopyReader(folder, Copies(("copy",), (100,)), look_at(str(tmp_path)), 1, drops_caches=drops)
        assert reader.timed(Arm("noatime", folder, os.O_NOATIME), 0).seconds > 0
        assert told.read_text(encoding="ascii") == content
    os.close(folder)


def test_reader_goes_through_all_copies_and_makes_them_stale(tmp_path):
    names = tuple(str(number) for number in range(10))
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    folder = os.open(tmp_path, os.O_RDONLY)
    reader = CopyReader(folder, Copies(names, (1,) * 10), look_at(str(tmp_path)), 1, drops_caches=False)
    reader._chunk = 4
    chunks = [[name for name, _ in reader._files_of(number)] for number in range(5)]
    assert {name for chunk in chunks[:3] for name in chunk} == set(names)
    assert all(len(set(chunk)) == 4 for chunk in chunks)
    reader.timed(Arm("noatime", folder, os.O_NOATIME), 0)
    ages = {name: time.time() - os.stat(tmp_path / name).st_atime for name in chunks[0]}
    assert all(2 * DAY - 60 < age < 2 * DAY + 60 for age in ages.values())
    os.close(folder)


def test_bystanders_are_large_processes_of_others():
    rows = [
        {"pid": 10, "name": "python", "username": "alice", "rss_bytes": 9 << 30},
        {"pid": 11, "name": "sh", "username": "bob", "rss_bytes": 1 << 20},
        {"pid": os.getpid(), "name": "hosttune", "username": "root", "rss_bytes": 9 << 30},
        {"pid": 12, "name": "java", "username": "carol", "rss_bytes": 10 << 30},
    ]
    assert bystanders(rows) == ("java of carol (pid 12)", "python of alice (pid 10)")
