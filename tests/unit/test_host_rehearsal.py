"""How often an fstab is tried: a plan, apply's own plan and the write ask the same within
moments.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hosttune.host.door import Completed, Rehearsal
from hosttune.host.overlay import rehearsal
from hosttune.host.process import Ended
from hosttune.values import Unreadable

READING = {"verify": [0, "", ""], "units": {}}
SAID = Completed(0, json.dumps({"readings": [READING, READING], "trials": []}).encode(), b"")
EDIT = (b"old\n", b"new\n", ())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Completed | Ended], list[object]]:
    """Lets the trial end in a way; the list has an entry for each time."""
    monkeypatch.setattr(rehearsal, "_answers", {})
    monkeypatch.setattr(rehearsal, "_silent", set())
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def ends(answer: Completed | Ended) -> list[object]:
        times: list[object] = []
        monkeypatch.setattr(rehearsal, "look", lambda argv, timeout_s: times.append(argv) or answer)
        return times

    return ends


def test_same_edit_is_tried_once_and_every_other_by_itself(asked):
    times = asked(SAID)
    first = rehearsal.rehearse_fstab(*EDIT)
    assert isinstance(first, Rehearsal)
    assert rehearsal.rehearse_fstab(*EDIT) == first
    assert len(times) == 1
    for other in ((b"older\n", b"new\n", ()), (b"old\n", b"newer\n", ()), (b"new\n", b"old\n", ())):
        rehearsal.rehearse_fstab(*other)
    assert len(times) == 4


def test_edit_is_tried_again_when_somebody_thought_for_long(asked, monkeypatch: pytest.MonkeyPatch):
    times, clock = asked(SAID), [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    rehearsal.rehearse_fstab(*EDIT)
    clock[0] += rehearsal.FRESH_S
    rehearsal.rehearse_fstab(*EDIT)
    assert len(times) == 2


def test_edit_that_could_not_be_tried_is_tried_at_the_next_question(asked):
    times = asked(Completed(1, b"", b"unshare: Cannot allocate memory"))
    assert isinstance(rehearsal.rehearse_fstab(*EDIT), Unreadable)
    assert isinstance(rehearsal.rehearse_fstab(*EDIT), Unreadable)
    assert len(times) == 2


def test_program_that_does_not_end_is_started_for_one_edit(asked):
    """Each start would take its time limit: findmnt looks at what the lines name, also on a dead
    file server.
    """
    silent = {"verify": None, "units": {}}
    times = asked(
        Completed(0, json.dumps({"readings": [silent, READING], "trials": []}).encode(), b"")
    )
    for number in range(3):
        rehearsal.rehearse_fstab(b"old\n", b"new %d\n" % number, ())
    assert [("findmnt" in words) for words in times] == [True, False, False]


def test_findmnt_is_left_out_where_a_source_gives_no_answer(asked, monkeypatch: pytest.MonkeyPatch):
    def no_answer(*_: object) -> bytes:
        raise TimeoutError

    monkeypatch.setattr(rehearsal, "answer_of", no_answer)
    times = asked(SAID)
    assert isinstance(rehearsal.rehearse_fstab(*EDIT), Rehearsal)
    assert [("findmnt" in words) for words in times] == [False]
