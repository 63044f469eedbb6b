from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import rings
from tests.rings import Outcome, Ring, summary


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)


def test_ring_that_lacks_programs_and_root_names_the_packages_and_the_command(user, tmp_path: Path):
    needs = {
        "no-such-program": "its-package",
        f"{tmp_path}/absent": "other",
        sys.executable: "python3",
        "sh": "dash",
    }
    ring = Ring("live", "", needs_root=True, packages=needs)
    assert (
        ring.why_not()
        == "needs packages: apt-get install its-package other; needs root: sudo ./run test live"
    )


def test_ring_with_all_it_needs_has_no_reason(user):
    assert Ring("unit", "", packages={"sh": "dash"}).why_not() == ""


def test_ring_whose_check_fails_says_why():
    assert (
        Ring("live", "", checks=(lambda: "no loop devices", lambda: "")).why_not()
        == "no loop devices"
    )


def test_every_ring_is_a_folder_of_tests():
    folders = {path.parent.name for path in (rings.ROOT / "tests").glob("*/test_*.py")}
    assert folders == {ring.name for ring in rings.RINGS}


def test_optional_ring_that_cannot_run_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rings, "RINGS", (Ring("live", "", checks=(lambda: "no loop devices",)),))
    (outcome,) = rings.run_rings(["live"], [], required=False, skip_none=False)
    assert outcome == Outcome("live", "not run", note="no loop devices")


def test_required_ring_that_cannot_run_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(rings, "RINGS", (Ring("live", "", checks=(lambda: "no loop devices",)),))
    assert rings.main(["live"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "FAIL: 0 passed, 1 failed, 0 skipped"


def test_long_ring_waits_for_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rings, "RINGS", (Ring("vm", "", is_long=True),))
    (outcome,) = rings.run_rings(["vm"], [], required=False, skip_none=False)
    assert (outcome.result, outcome.failed) == ("not run", 0)
    assert outcome.note.endswith("./run test vm")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of its own whose only ring is `unit`."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    monkeypatch.setattr(rings, "ROOT", tmp_path)
    return tmp_path / "tests" / "unit"


def test_ring_counts_what_passed_failed_and_was_skipped(tree: Path):
    (tree / "test_one.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('no')\n"
    )
    outcome = rings.run_ring(Ring("unit", ""), [], may_skip=True)
    assert (outcome.result, outcome.passed, outcome.failed, outcome.skipped) == ("failed", 1, 1, 1)


def test_ring_with_a_skipped_test_fails_where_none_may_be(tree: Path):
    (tree / "test_one.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_c(): pytest.skip('no')\n"
    )
    outcome = rings.run_ring(Ring("unit", ""), [], may_skip=False)
    assert (outcome.result, outcome.failed, outcome.note) == (
        "failed",
        1,
        "1 skipped, where none may be",
    )


def test_ring_without_tests_fails(tree: Path):
    outcome = rings.run_ring(Ring("unit", ""), [], may_skip=True)
    assert (outcome.result, outcome.failed, outcome.note) == ("failed", 1, "no test ran")


def test_two_rings_run_side_by_side_and_each_prints_when_it_ends(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    pipe = tree / "pipe"
    os.mkfifo(pipe)
    (tree.parent / "vm").mkdir()
    (tree / "test_one.py").write_text(f"def test_a(): open({str(pipe)!r}).read()\n")
    (tree.parent / "vm" / "test_two.py").write_text(
        f"def test_b(): open({str(pipe)!r}, 'w').close()\n"
    )
    monkeypatch.setattr(
        rings, "RINGS", (Ring("vm", "guests", is_long=True), Ring("unit", "values"))
    )
    monkeypatch.setattr(rings, "NAMES", ("unit", "vm"))
    outcomes = rings.run_rings(["unit", "vm"], [], required=True, skip_none=True)
    assert [(one.name, one.result) for one in outcomes] == [("unit", "passed"), ("vm", "passed")]
    printed = capfd.readouterr().out
    assert {"== unit: values", "== vm: guests"} <= {*printed.splitlines()}
    assert printed.count("1 passed") == 2


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rings that only note their names, in one lane."""
    begun: list[str] = []

    def run_ring(ring, words, *, may_skip, output, part, paths):
        begun.append(part)
        if ring.name == "gpu":
            raise OSError("no space left")
        output.write(b"said\n")
        return Outcome(part, "passed", passed=1, seconds=2)

    monkeypatch.setattr(rings, "LANES", 1)
    monkeypatch.setattr(rings, "run_ring", run_ring)
    monkeypatch.setattr(
        rings, "RINGS", tuple(Ring(name, "") for name in ("unit", "golden", "fleet", "vm", "gpu"))
    )
    return begun


def test_longest_part_begins_first_so_that_no_lane_waits_for_it(
    lanes: list[str], tree: Path, monkeypatch: pytest.MonkeyPatch
):
    (tree.parent / "vm").mkdir()
    for name in ("test_boot", "test_main_job"):
        (tree.parent / "vm" / f"{name}.py").touch()
    monkeypatch.setattr(
        rings, "RINGS", (Ring("golden", ""), Ring("live", ""), Ring("vm", "", is_by_file=True))
    )
    golden, live, vm = rings.run_rings(["golden", "live", "vm"], [], required=True, skip_none=True)
    assert lanes == ["live", "vm/test_main_job.py", "golden", "vm/test_boot.py"]
    assert (golden.name, live.name) == ("golden", "live")
    assert vm == Outcome("vm", "passed", passed=2, seconds=4)


def test_order_of_parts_names_none_that_is_gone():
    assert {*rings.LONGEST_FIRST} <= {
        part for ring in rings.RINGS for part in (ring.name, *ring.parts())
    }


def test_shares_of_a_ring_are_all_of_its_files_each_once():
    (unit,) = [ring for ring in rings.RINGS if ring.name == "unit"]
    files = sorted(
        f"tests/unit/{path.name}" for path in (rings.ROOT / "tests" / "unit").glob("test_*.py")
    )
    for shares in (2, 3):
        parts = unit.parts(shares)
        assert [*parts] == [f"unit/{place} of {shares}" for place in range(1, shares + 1)]
        assert sorted(path for paths in parts.values() for path in paths) == files


def test_quick_run_bounds_each_test_and_leaves_the_slow_ring_to_its_name(
    lanes: list[str], tree: Path, monkeypatch: pytest.MonkeyPatch
):
    words_of = []
    for name in ("a", "b"):
        (tree / f"test_{name}.py").touch()

    def run_ring(ring, words, *, may_skip, output, part, paths):
        words_of.append((part, ring.is_spread, tuple(words), tuple(paths)))
        return Outcome(part, "passed", passed=1)

    monkeypatch.setattr(rings, "run_ring", run_ring)
    monkeypatch.setattr(rings, "CORES", 2)
    monkeypatch.setattr(
        rings, "RINGS", (Ring("unit", "", is_spread=True), Ring("install", "", is_quick=False))
    )
    unit, install = rings.run_rings(
        ["unit", "install"], [], required=False, skip_none=False, cap_s=0.5
    )
    assert sorted(words_of) == [
        ("unit/1 of 2", False, ("--cap-s=0.5",), ("tests/unit/test_a.py",)),
        ("unit/2 of 2", False, ("--cap-s=0.5",), ("tests/unit/test_b.py",)),
    ]
    assert (unit.passed, install.result, install.note) == (
        2,
        "not run",
        "takes about a minute: ./run test install",
    )
    rings.run_rings(["unit"], [], required=True, skip_none=True)
    assert words_of[2:] == [("unit", True, (), ("tests/unit",))]


def test_words_for_pytest_go_to_one_call_of_the_whole_ring(
    lanes: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rings, "RINGS", (Ring("live", ""), Ring("vm", "", is_by_file=True)))
    rings.run_rings(["live", "vm"], ["-k", "boot"], required=True, skip_none=False)
    assert lanes == ["live", "vm"]


def test_ring_fails_with_one_of_its_parts_and_names_it():
    parts = [
        Outcome("vm/test_a.py", "passed", passed=3, seconds=1.5),
        Outcome(
            "vm/test_b.py",
            "failed",
            passed=1,
            failed=2,
            seconds=2.5,
            note="stopped after 40 minutes",
        ),
        Outcome("vm/test_c.py", "failed", failed=1),
    ]
    note = "test_b.py: stopped after 40 minutes; test_c.py"
    assert rings.merged("vm", parts) == Outcome(
        "vm", "failed", passed=4, failed=3, seconds=4.0, note=note
    )
    assert (
        rings.merged("unit", [Outcome("unit", "failed", note="no test ran")]).note == "no test ran"
    )


def test_spread_ring_runs_in_as_many_processes_as_there_are_cores(
    tree: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rings, "CORES", 2)
    (tree / "test_one.py").write_text(
        "def test_a(worker_id, testrun_uid): assert worker_id in ('gw0', 'gw1')\n"
        "def test_b(worker_id): assert worker_id != 'master'\n"
    )
    assert rings.run_ring(Ring("unit", "", is_spread=True), [], may_skip=False).passed == 2
    assert rings.run_ring(Ring("unit", ""), [], may_skip=False).failed == 2
    assert rings.run_ring(Ring("unit", "", is_spread=True), ["-v"], may_skip=False).failed == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_ring_that_cannot_be_run_at_all_is_a_failure(lanes: list[str]):
    outcomes = rings.run_rings(["unit", "gpu"], [], required=True, skip_none=True)
    assert [(one.name, one.result, one.failed) for one in outcomes] == [
        ("unit", "passed", 0),
        ("gpu", "failed", 1),
    ]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache of tests is a folder of its own, and nothing of it was asked for yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    rings.folder_of_bytecode.cache_clear()
    yield tmp_path / "kept" / "hosttune-tests" / "bytecode"
    rings.folder_of_bytecode.cache_clear()


def test_bytecode_is_kept_from_call_to_call_where_no_other_user_can_write(
    kept: Path, monkeypatch: pytest.MonkeyPatch
):
    assert rings.folder_of_bytecode() == kept
    assert kept.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    rings.folder_of_bytecode.cache_clear()
    if os.getuid() == 0:
        os.chown(kept, 4712, 4712)
    assert rings.folder_of_bytecode() == rings.folder_of_call() / "bytecode"


def test_rings_share_a_folder_and_keep_bytecode_outside_of_the_checkout(
    tree: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    folder = rings.folder_of_call()
    (tree / "test_one.py").write_text(
        f"import os, sys\ndef test_a():\n    assert os.environ[{rings.FOLDER_OF_CALL!r}] == {str(folder)!r}\n"
        f"    assert (sys.pycache_prefix, sys.dont_write_bytecode) == ({str(kept)!r}, False)\n"
    )
    assert rings.run_ring(Ring("unit", ""), [], may_skip=False).passed == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert rings.ROOT not in folder.parents
    assert list(tree.rglob("*.pyc")) == []


def test_command_past_its_limit_is_ended_with_all_it_started(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    held_by_both = f"exec 3>{pipe}; echo started >&3; sleep 600 & wait"
    assert rings.run_limited(["sh", "-c", held_by_both], 2) is None
    poll = select.poll()
    poll.register(reader, 0)
    assert poll.poll(30_000) == [(reader, select.POLLHUP)]
    assert os.read(reader, 100) == b"started\n"
    os.close(reader)


def test_summary_ends_with_the_line_that_decides():
    outcomes = [
        Outcome("lint", "passed", passed=3, seconds=1.5),
        Outcome("unit", "passed", passed=10, skipped=1),
        Outcome("vm", "not run", note="needs root: sudo ./run test vm"),
    ]
    lines = summary(outcomes).splitlines()
    assert lines[-1] == "PASS: 13 passed, 0 failed, 1 skipped"
    assert any(line.startswith("vm") and line.endswith("sudo ./run test vm") for line in lines)
    assert (
        summary([*outcomes, Outcome("live", "failed", failed=2)])
        .splitlines()[-1]
        .startswith("FAIL: 13 passed, 2 f")
    )


def test_unknown_ring_exits_2_and_names_the_rings(capsys: pytest.CaptureFixture[str]):
    assert rings.main(["untit"]) == 2
    err = capsys.readouterr().err
    assert "no ring and no path: untit" in err
    assert "lint unit rules golden rooted gpu install live vm" in err


def test_path_of_a_test_holds_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert rings.absolute("tests/rings.py::x") == f"{rings.ROOT}/tests/rings.py::x"
    assert rings.absolute("-k") == "-k"
    assert rings.absolute("nothing-of-the-kind") == "nothing-of-the-kind"
