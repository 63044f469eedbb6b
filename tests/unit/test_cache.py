"""The cache of the rings: made once, whole or not at all, and kept for a week."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.cache import UNUSED_S, kept, named


def test_what_two_rings_ask_for_at_once_is_made_once(tmp_path: Path):
    made: list[Path] = []
    asked = threading.Barrier(2)

    def make(work: Path) -> None:
        made.append(work)
        time.sleep(0.1)  # for the other one to come to the door
        (work / "file").write_text("whole")

    def ask() -> None:
        asked.wait(10)
        assert (kept("tree", make, tmp_path) / "file").read_text() == "whole"

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(made) == 1


def test_one_that_breaks_off_leaves_nothing_and_is_made_anew(tmp_path: Path):
    def broken(work: Path) -> None:
        (work / "half").touch()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        kept("tree", broken, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".tree.lock"]
    assert list(kept("tree", lambda work: None, tmp_path).iterdir()) == []


def test_one_may_be_made_of_another(tmp_path: Path):
    def make(work: Path) -> None:
        (work / "file").write_text(
            (
                kept("base", lambda base: (base / "file").write_text("b"), tmp_path) / "file"
            ).read_text()
        )

    assert (kept("tree", make, tmp_path) / "file").read_text() == "b"


def test_what_no_run_has_used_for_a_week_goes(tmp_path: Path):
    for name in ("old", "build-killed", "young"):
        (tmp_path / name).mkdir()
    for name in ("old", "build-killed"):
        os.utime(tmp_path / name, (0, time.time() - UNUSED_S - 60))
    kept("old", lambda work: pytest.fail("it is there"), tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"old", "young"}


def test_another_recipe_is_another_folder():
    assert named("tree", "bookworm", ("a",)) == named("tree", "bookworm", ("a",))
    assert (
        len(
            {
                named("tree", "bookworm", ("a",)),
                named("tree", "bookworm", ("b",)),
                named("base", "bookworm", ("a",)),
            }
        )
        == 3
    )
