"""Scratch folders: gone at every end, found after a kill -9, and nobody else's folder is ever taken
away.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError
from hosttune.measure.bench import place as place_module
from hosttune.measure.bench import scratch as module
from hosttune.measure.bench import state
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.scratch import Leftover, clean, find_leftovers, make_scratch
from hosttune.measure.bench.signals import ended_alike

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import sys, time
from dataclasses import replace
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.scratch import make_scratch
from hosttune.measure.bench.signals import ended_alike
place = replace(look_at(sys.argv[1]), target=sys.argv[1])
with ended_alike(), make_scratch(place, sys.argv[2]) as (fd, path):
    open(path + "/copy", "w").close()
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def places(tmp_path):
    """A folder of data and a state folder."""
    for name in ("data", "state"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path / "data", str(tmp_path / "state")


@pytest.fixture
def child(places):
    """A bench in a process of its own; its scratch folder is there."""
    data, where = places
    argv = (sys.executable, "-c", CHILD, str(data), where)
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    process.path = Path(process.stdout.readline().strip())
    assert process.path.is_dir()
    yield process
    process.kill()
    process.wait(20)
    process.stdout.close()


def end(child, number: int) -> None:
    child.send_signal(number)
    child.wait(20)


def top_at(folder):
    """The place of a folder as if a file system began there."""
    return replace(look_at(str(folder)), target=str(folder))


def test_scratch_is_private_and_gone_at_the_end(places):
    data, where = places
    outside = data / "outside"
    outside.write_text("stays", encoding="utf-8")
    seen = set()
    for _ in range(3):
        with make_scratch(top_at(data), where) as (fd, path):
            assert Path(path).parent == data
            assert os.path.samestat(os.fstat(fd), os.stat(path))
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
            os.makedirs(f"{path}/a/b")
            Path(path, "a", "b", "file").write_text("gone", encoding="utf-8")
            os.symlink(outside, f"{path}/a/link")
            os.symlink(data, f"{path}/folder-link")
            seen.add(path)
        assert os.listdir(data) == ["outside"]
        assert os.listdir(where) == []
    assert len(seen) == 3
    assert outside.read_text(encoding="utf-8") == "stays"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_scratch_is_gone_after_an_error(places, error):
    data, where = places
    with pytest.raises(error), make_scratch(top_at(data), where) as (_, path):
        Path(path, "copy").write_text("", encoding="utf-8")
        raise error
    assert (os.listdir(data), os.listdir(where)) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_scratch_is_gone_after_a_signal(places, child, number):
    end(child, number)
    data, where = places
    assert (os.listdir(data), os.listdir(where)) == ([], [])


@pytest.mark.parametrize("step", ["_empty_folder", "_write_mark"])
def test_signal_while_scratch_is_made_or_removed_waits_until_that_is_done(
    places, monkeypatch, step
):
    data, where = places
    original = getattr(module, step)

    def disturbed(*arguments):
        signal.raise_signal(
            signal.SIGTERM
        )  # to this thread, and so at once, whatever other threads there are
        return original(*arguments)

    monkeypatch.setattr(module, step, disturbed)
    with (
        pytest.raises(KeyboardInterrupt),
        ended_alike(),
        make_scratch(top_at(data), where) as (_, path),
    ):
        Path(path, "copy").write_text("", encoding="utf-8")
    assert (os.listdir(data), os.listdir(where)) == ([], [])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
    }


def test_scratch_of_a_killed_bench_is_found_and_removed_when_asked(places, child):
    data, where = places
    outside = data / "outside"
    outside.write_text("stays", encoding="utf-8")
    os.symlink(outside, child.path / "link")
    end(child, signal.SIGKILL)
    (found,) = find_leftovers(where)
    assert found.path == str(child.path)
    assert clean(found, where)
    assert (os.listdir(data), os.listdir(where), find_leftovers(where)) == (["outside"], [], ())
    assert outside.read_text(encoding="utf-8") == "stays"


def test_scratch_of_a_running_bench_is_left_alone(places, child):
    _, where = places
    (note,) = os.listdir(where)
    assert find_leftovers(where) == ()
    assert not clean(Leftover(note, str(child.path)), where)
    assert child.path.is_dir()


def test_scratch_that_is_held_in_another_process_namespace_is_left_alone(
    places, child, monkeypatch
):
    _, where = places
    monkeypatch.setattr(
        module, "_read_start", lambda _pid: ""
    )  # its number says nothing here; its lock does
    (note,) = os.listdir(where)
    assert not clean(Leftover(note, str(child.path)), where)
    assert (child.path / "copy").exists()


def test_scratch_of_an_earlier_boot_is_found(places, child, monkeypatch):
    _, where = places
    end(child, signal.SIGKILL)
    monkeypatch.setattr(module, "_boot_id", lambda: "another boot")
    (found,) = find_leftovers(where)
    assert clean(found, where)


def link(child, victim: Path) -> None:
    os.rename(child.path, child.path.with_name("moved"))
    os.symlink(victim, child.path)


def other_folder(child, victim: Path) -> None:
    os.rename(child.path, child.path.with_name("moved"))
    os.rename(victim, child.path)
    os.symlink(child.path, victim)


def other_mark(child, victim: Path) -> None:
    del victim
    mark = json.loads((child.path / "mark.json").read_text(encoding="utf-8"))
    (child.path / "mark.json").write_text(json.dumps({**mark, "token": "0" * 32}), encoding="utf-8")


def open_to_others(child, victim: Path) -> None:
    del victim
    child.path.chmod(0o755)


@pytest.mark.parametrize("trick", [link, other_folder, other_mark, open_to_others])
def test_what_is_not_our_scratch_any_more_stays(places, child, tmp_path, trick):
    _, where = places
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (victim / "file").write_text("precious", encoding="utf-8")
    (note,) = os.listdir(where)
    end(child, signal.SIGKILL)
    trick(child, victim)
    assert not clean(Leftover(note, str(child.path)), where)
    assert find_leftovers(where) == ()
    assert (victim / "file").read_text(encoding="utf-8") == "precious"
    assert os.path.lexists(child.path)


@pytest.mark.parametrize("mark", [None, ""])
def test_private_folder_of_ones_own_under_the_name_of_a_leftover_stays(
    places, child, tmp_path, mark
):
    _, where = places
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "file").write_text("precious", encoding="utf-8")
    if mark is not None:
        (victim / "mark.json").write_text(mark, encoding="utf-8")
    (note,) = os.listdir(where)
    end(child, signal.SIGKILL)
    other_folder(child, victim)
    assert not clean(Leftover(note, str(child.path)), where)
    assert (child.path / "file").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("mark", [None, ""])
def test_scratch_of_a_bench_that_was_killed_before_its_mark_was_there_is_removed(
    places, child, mark
):
    _, where = places
    end(child, signal.SIGKILL)
    for name in os.listdir(child.path):
        (child.path / name).unlink()
    if mark is not None:
        (child.path / "mark.json").write_text(mark, encoding="utf-8")
    (found,) = find_leftovers(where)
    assert clean(found, where)
    assert not child.path.exists()


@pytest.mark.parametrize(("mode", "file"), [(0o755, ""), (0o700, "precious")])
def test_folder_that_was_exchanged_while_it_was_made_is_not_used(places, monkeypatch, mode, file):
    data, where = places
    theirs = data / "theirs"
    theirs.mkdir(mode=mode)
    if file:
        (theirs / file).touch()

    def exchanged(name, *_, **__):
        theirs.rename(data / name)

    monkeypatch.setattr(module.os, "mkdir", exchanged)
    with pytest.raises(HosttuneError, match="exchanged"), make_scratch(top_at(data), where):
        pass
    (stays,) = data.iterdir()
    assert os.listdir(stays) == ([file] if file else [])


def test_scratch_in_a_folder_that_hands_its_group_on_is_found(places):
    data, where = places
    data.chmod(0o2700)
    argv = (sys.executable, "-c", CHILD, str(data), where)
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    process.stdout.readline()
    process.kill()
    process.wait(20)
    process.stdout.close()
    (found,) = find_leftovers(where)
    assert clean(found, where)


def test_note_that_names_something_else_removes_nothing(places):
    data, where = places
    (data / "precious").mkdir(mode=0o700)
    mark = {
        "format_version": 1,
        "token": "t",
        "path": str(data / "precious"),
        "pid": 1,
        "started": "1",
        "boot_id": "b",
    }
    state.save("scratch-0123.json", json.dumps(mark).encode(), where)
    state.save("scratch-4567.json", b"{broken", where)
    assert not clean(Leftover("scratch-0123.json", ""), where)
    assert find_leftovers(where) == ()
    assert (data / "precious").is_dir()


def test_state_that_others_can_write_counts_for_nothing(places):
    _, where = places
    state.save("atime-x.json", b"{}", where)
    assert state.load("atime-x.json", where) == b"{}"
    os.chmod(f"{where}/atime-x.json", 0o666)  # noqa: S103 - somebody did
    assert state.load("atime-x.json", where) is None
    os.chmod(f"{where}/atime-x.json", 0o600)
    os.chmod(where, 0o777)  # noqa: S103 - somebody did
    assert state.load("atime-x.json", where) is None
    with pytest.raises(HosttuneError):
        state.save("other.json", b"{}", where)


def test_folder_that_cannot_be_written_in_is_refused(places, monkeypatch):
    data, where = places
    monkeypatch.setattr(module.os, "access", lambda *_, **__: False)
    with (
        pytest.raises(HosttuneError, match="no folder that this user may write in"),
        make_scratch(look_at(str(data)), where),
    ):
        pass
    assert os.listdir(where) == []


def test_place_of_an_empty_path_is_refused():
    with pytest.raises(HosttuneError, match="the path is empty"):
        look_at("")


def test_folder_that_was_exchanged_for_a_link_is_not_written_in(places):
    data, where = places
    place = look_at(str(data))
    (data.parent / "roots").mkdir()
    data.rename(data.parent / "moved")
    data.symlink_to("roots")
    with (
        pytest.raises(HosttuneError, match="was exchanged"),
        make_scratch(replace(place, target=place.path), where),
    ):
        pass
    data.unlink()
    (data.parent / "roots").rename(data)  # a folder, but another one
    with (
        pytest.raises(HosttuneError, match="was exchanged"),
        make_scratch(replace(place, target=place.path), where),
    ):
        pass
    assert (os.listdir(data), os.listdir(data.parent / "moved"), os.listdir(where)) == ([], [], [])


def test_folder_that_is_exchanged_while_it_is_looked_at_is_refused(places, monkeypatch):
    data, _ = places
    original = place_module.walk

    def walk_after_exchange(*given, **more):
        data.rename(data.parent / "moved")
        data.mkdir()
        return original(*given, **more)

    monkeypatch.setattr(place_module, "walk", walk_after_exchange)
    with pytest.raises(HosttuneError, match="was exchanged"):
        look_at(str(data))
