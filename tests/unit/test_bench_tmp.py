"""`bench tmp`: one round of its work, what it adapts to, and what it refuses."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hosttune.errors import Refused
from hosttune.host.process import locate
from hosttune.measure.bench import tmp as module
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.tmp import TmpOptions, TmpWork, bench_tmp


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd, str(tmp_path)
    os.close(fd)


@pytest.fixture
def free(monkeypatch, tmp_path):
    """All gates open, a disk that is none, and no private tmpfs, as for a user."""
    for name in ("state", "disk", "shm"):
        (tmp_path / name).mkdir(mode=0o700)

    def refused(*_):
        raise Refused("fsopen: Operation not permitted")

    monkeypatch.setattr(module, "memory_folder", refused)
    monkeypatch.setattr(module, "SHM", str(tmp_path / "shm"))
    monkeypatch.setattr(
        module, "look_at", lambda path: replace(look_at(path), fstype="tmpfs" if path.endswith("shm") else "ext4")
    )
    monkeypatch.setattr(module, "require_quiet", lambda *_, **__: "")
    monkeypatch.setattr(module, "work_noise", lambda *_: ())
    monkeypatch.setattr(module, "_MOST_FILES", 150)
    return tmp_path


def test_round_unpacks_and_deletes_and_leaves_nothing(folder):
    fd, path = folder
    worker = TmpWork(1, "", "")
    worker.adapt(1e9)
    assert len(worker.sizes) == 100
    done = worker.round(fd, counts=True)
    assert list(done) == ["unpack", "delete"]
    assert all(one.seconds > 0 for one in done.values())
    assert os.listdir(path) == []


def test_unpacked_files_have_their_sizes(folder):
    fd, path = folder
    worker = TmpWork(1, "", "")
    worker.adapt(1e9)
    worker._unpack(fd)
    found = {name: os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(path) for name in names}
    assert found == {str(number): size for number, size in enumerate(worker.sizes)}
    assert TmpWork(1, "", "").sizes != TmpWork(2, "", "").sizes
    assert TmpWork(1, "", "").sizes == TmpWork(1, "", "").sizes


def test_fast_disk_keeps_all_files():
    worker = TmpWork(1, "", "")
    worker.adapt(0.01)
    assert len(worker.sizes) == 2000


def test_compiler_that_works_is_timed_and_one_that_does_not_is_left_out(folder, tmp_path):
    fd, path = folder
    script = "#!/bin/sh\n"
    works, fails = tmp_path / "works", tmp_path / "fails"
    works.write_text(script + 'test "$TMPDIR" = "${3%/work}" && exec cp "$4" "$3"\n', encoding="utf-8")
    fails.write_text(script + "exit 1\n", encoding="utf-8")
    for program, names in ((works, ["unpack", "compile", "delete"]), (fails, ["unpack", "delete"])):
        program.chmod(0o755)
        worker = TmpWork(1, "", str(program))
        worker.adapt(1e9)
        assert list(worker.round(fd)) == names
        assert bool(worker.compiler) is (program is works)
    assert sorted(os.listdir(path)) == ["fails", "works"]


def test_compiler_works_in_the_open_folder_whatever_has_its_name(tmp_path):
    ours, theirs = tmp_path / "scratch", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (theirs / "work").symlink_to(tmp_path / "overwritten")
    (tmp_path / "cc").write_text('#!/bin/sh\nexec cp "$4" "$3"\n', encoding="utf-8")
    (tmp_path / "cc").chmod(0o755)
    fd = os.open(ours, os.O_RDONLY)
    try:
        ours.rename(tmp_path / "away")
        theirs.rename(ours)
        worker = TmpWork(1, "", str(tmp_path / "cc"))
        worker.adapt(1e9)
        assert "compile" in worker.round(fd)
    finally:
        os.close(fd)
    assert not (tmp_path / "overwritten").exists()
    assert os.listdir(ours) == ["work"]


def test_source_is_what_a_compiler_takes(folder):
    fd, _ = folder
    source = module._source()
    assert source.count("static unsigned f") == 60
    assert source.count("{") == source.count("}")
    compiler = locate("cc")
    if isinstance(compiler, str):  # where there is one
        worker = TmpWork(1, "", compiler)
        worker.adapt(1e9)
        assert "compile" in worker.round(fd)


def test_user_compares_with_shared_memory(free):
    options = TmpOptions(folder=str(free / "disk"), budget_s=0.3, where=str(free / "state"))
    result = bench_tmp(3, options)
    assert result.words["how"] == str(free / "shm")
    assert result.findings[0].name == "unpack"
    assert result.figures["files"] >= 100
    assert result.figures["memory_total_bytes"] >= result.figures["memory_available_bytes"] > 0
    assert "tmp_used_bytes" not in result.figures  # of another folder than /tmp
    assert [os.listdir(free / name) for name in ("disk", "shm", "state")] == [[], [], []]


def test_folder_in_memory_has_nothing_to_gain(free):
    with pytest.raises(GateClosed, match="lies in memory already") as refused:
        bench_tmp(3, TmpOptions(folder=str(free / "shm"), where=str(free / "state")))
    assert "--dir" in refused.value.hint


def test_short_memory_is_refused(free, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_MEMORY", 1 << 60)
    with pytest.raises(GateClosed, match="too little to put files there"):
        bench_tmp(3, TmpOptions(folder=str(free / "disk"), where=str(free / "state")))


def test_sizes_of_the_rule_stand_beside_what_lies_in_tmp():
    sizes = module._sizes("/tmp")
    assert set(sizes) <= {"tmp_used_bytes", "rule_size_bytes"}
    assert module._sizes("/var/tmp") == {}


@pytest.mark.parametrize("fstype", ["nfs4", "fuse.sshfs"])
def test_network_file_system_is_refused_before_anything_is_written_unless_allowed(free, monkeypatch, fstype):
    place = replace(look_at(str(free / "disk")), fstype=fstype)
    monkeypatch.setattr(module, "look_at", lambda _: place)
    with pytest.raises(GateClosed, match=f"lies on {fstype}"):
        bench_tmp(1, TmpOptions(str(free / "disk"), where=str(free / "state")))
    assert (os.listdir(free / "disk"), os.listdir(free / "state")) == ([], [])

    def busy(*_, **__):
        raise GateClosed("this host is busy")

    monkeypatch.setattr(module, "require_quiet", busy)
    with pytest.raises(GateClosed, match="this host is busy"):
        bench_tmp(1, TmpOptions(str(free / "disk"), allow_network=True, where=str(free / "state")))
