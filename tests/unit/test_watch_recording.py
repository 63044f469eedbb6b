"""Records: what is written reads back the same, secrets stay out, and a broken one is refused with
file and line.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.cli import app
from hosttune.errors import BadInput, HosttuneError
from hosttune.measure.watch.account import Account
from hosttune.measure.watch.programs import Workload
from hosttune.measure.watch.recording import MOST_LINE, Recorder, replay
from hosttune.measure.watch.tick import HeldBack, Kills, MemoryTick, ShmRoom
from tests.unit.schemas import faults
from tests.unit.watch_scenarios import MEASURED, OTHERS, WATCHED, gpu, jittered, tick


def recorded(path, ticks, watched=WATCHED):
    recorder = Recorder(str(path))
    recorder.begin(watched)
    for one in ticks:
        recorder.add(one)
    recorder.close()
    return str(path)


def test_record_reads_back_as_it_was(tmp_path):
    ticks = (
        replace(tick(12.0, idle=75.0), at_s=1.0),
        replace(tick(gpus=None, job=None, host=None, tree=None, disks=None), at_s=2.0),
        replace(
            tick(
                gpus=(
                    gpu(None, None, is_mig=True, lost=True, pids=None, reasons=("power limit",)),
                ),
                idle=75.0,
            ),
            at_s=3.0,
        ),
        replace(
            tick(idle=75.0, shm=ShmRoom(9, 8), frozen_by="/f", works_with=(Workload.TEXT,)),
            at_s=4.0,
            memory=MemoryTick(1 << 30, "/m", used_bytes=5),
            allowances=(HeldBack("eth0 pps_allowance_exceeded", 3),),
        ),
    )
    watched, found = replay(recorded(tmp_path / "r", ticks))
    assert watched == WATCHED
    assert tuple(found) == ticks


def test_record_keeps_how_the_job_ended(tmp_path, capsys):
    path = str(tmp_path / "r")
    recorder = Recorder(path)
    recorder.begin(replace(WATCHED, is_child=True))
    account = Account(WATCHED)
    for second in range(1, 31):
        one = replace(
            tick(0.0, idle=50.0),
            at_s=float(second),
            memory=MemoryTick(1 << 30, "/m", used_bytes=1 << 30),
        )
        recorder.add(one)
    account.status, account.kills = 1, Kills(2, 2)
    recorder.end(account)
    recorder.close()
    assert app.run(["watch", "--replay", path]) == 0, (
        "the status of the command is not that of the replay"
    )
    said = capsys.readouterr().out
    assert "ended: 2 processes of its control group killed by the kernel: out of memory" in said
    assert (
        "not the cause: " not in said
        or "memory" not in said.partition("not the cause: ")[2].partition("\n")[0]
    )


def test_head_of_a_record_begins_with_its_format(tmp_path):
    path = recorded(tmp_path / "r", ())
    assert (tmp_path / "r").read_text().startswith('{"format_version":1,"kind":"hosttune watch"')
    assert tuple(replay(path)[1]) == ()


HEAD = '{"format_version":1,"kind":"hosttune watch","pid":1}\n'
TICK = '{"at_s":1,"seconds":1}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ":1: the line is empty"),
        ("hello\n", ":1: no JSON"),
        ("[]\n", ":1: expected an object"),
        ('{"format_version":1,"kind":"plan","pid":1}\n', ":1: kind: expected 'hosttune watch'"),
        ('{"format_version":2,"kind":"hosttune watch","pid":1}\n', ":1: format_version: is 2: a newer hosttune wrote it"),
        ('{"format_version":1,"kind":"hosttune watch","pid":"x"}\n', ":1: pid: expected a number, found text"),
        (HEAD + TICK + "\n", ":3: the line is empty"),
        (HEAD + '{"at_s":1}\n', ":2: seconds: is missing"),
        (HEAD + '{"at_s":1,"seconds":0}\n', ":2: at_s: time does not run backwards"),
        (HEAD + TICK + '{"at_s":0.5,"seconds":1}\n', ":3: at_s: time does not run backwards"),
        (HEAD + '{"at_s":NaN,"seconds":1}\n', ":2: no JSON: NaN is not a number"),
        (HEAD + '{"at_s":1e999,"seconds":1}\n', ":2: no JSON: 1e999 is not a number"),
        (HEAD + '{"at_s":1,"seconds":1e308}\n', ":2: no JSON: 1e308 is not a number"),
        (HEAD + '{"at_s":1,"seconds":1,"cpus":1' + "0" * 400 + "}\n", ":2: no JSON: 1000"),
        (HEAD + '{"at_s":1,"seconds":5e-324}\n', ":2: at_s: time does not run backwards"),
        (HEAD + '{"at_s":1,"seconds":1,"gpus":[{"index":"0"}]}\n', ":2: gpus[0].index: expected a number, found text"),
        (HEAD + "[" * 100_000 + "\n", ":2: no JSON"),
        (HEAD + '"' + "x" * (MOST_LINE + 10) + '"\n', ":2: the line is longer than 1 MiB"),
    ],
)  # fmt: skip
def test_broken_record_is_refused_with_file_and_line(tmp_path, content, said, capsys):
    path = tmp_path / "r"
    path.write_text(content)
    with pytest.raises(BadInput) as caught:
        tuple(replay(str(path))[1])
    assert str(caught.value).startswith(f"{path}{said}")
    assert app.run(["watch", "--replay", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_line_that_was_cut_off_by_a_crash_is_left_out(tmp_path):
    (tmp_path / "r").write_text(HEAD + TICK + '{"at_s":2,"sec')
    assert len(tuple(replay(str(tmp_path / "r"))[1])) == 1


def test_record_that_is_not_there_is_refused():
    with pytest.raises(HosttuneError, match="cannot be read"):
        replay("/nowhere/at/all")


def test_full_disk_ends_the_record_and_says_so():
    recorder = Recorder("/dev/full")
    recorder.begin(WATCHED)
    assert recorder.problem == "/dev/full: No space left on device: the record ends here"
    recorder.add(tick())
    recorder.close()


NUMBERS = st.none() | st.floats(0, 1e15) | st.integers(-5, 5)


@given(
    st.dictionaries(
        st.sampled_from(["at_s", "seconds", "cpus", "job", "tree", "gpus", "x", "end"]),
        NUMBERS | st.text() | st.lists(NUMBERS),
        max_size=5,
    )
)
def test_any_line_is_a_tick_or_a_fault_with_its_place(tmp_path_factory, body):
    path = tmp_path_factory.mktemp("r") / "r"
    path.write_text(HEAD + json.dumps(body) + "\n")
    said = f"{path}:2: "
    try:
        tuple(replay(str(path))[1])
    except BadInput as error:
        said = str(error)
    assert said.startswith(f"{path}:2: ")


@pytest.mark.parametrize("name", [*MEASURED, *OTHERS])
def test_replay_of_a_scenario_names_its_state(tmp_path, name, capsys):
    wanted, one = (MEASURED | OTHERS)[name]
    path = recorded(tmp_path / "r", jittered(one, 60, seed=3))
    assert app.run(["watch", "--replay", path]) == 0
    assert f"\nverdict: {wanted}: " in capsys.readouterr().out
    assert app.run(["watch", "--replay", path, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["state"] == wanted
    assert faults(document, "watch") == []


def test_names_from_outside_cannot_steer_the_terminal(tmp_path, capsys):
    watched = replace(WATCHED, command=("evil\x1b[2J", "--password=hunter2"))
    one = replace(tick(95.0, 280.0, gpus=(gpu(95.0, 280.0, name="A100\x1b]0;x\x07"),)), at_s=1.0)
    ticks = [replace(one, at_s=number + 1.0) for number in range(40)]
    path = recorded(tmp_path / "r", ticks, watched)
    assert app.run(["watch", "--replay", path]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "hunter2" not in out
    assert "\\x1b\\x5b2J" in out
