"""A long-lived nvidia-smi of ours: what it prints, how it dies, how it hangs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hosttune.measure.gpu import smi
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.gpu.smi import NoSmi, SmiSampler

BEGIN = """\
import os, signal, sys, time
from pathlib import Path
here = Path(sys.argv[0]).parent
argv = " ".join(sys.argv[1:])
LOOP = "--query-gpu=" in argv
fields = argv.partition("--query-gpu=")[2].partition(" ")[0].split(",")
VALUES = {"index": "0", "uuid": "GPU-aaaa", "pci.bus_id": "00000000:1B:00.0", "utilization.gpu": "97", "memory.used": "100",
    "memory.total": "1000", "power.draw": "400.00", "enforced.power.limit": "700.00", "power.limit": "700.00",
    "clocks.sm": "1755", "clocks_event_reasons.active": "0x0", "clocks_throttle_reasons.active": "0x4",
    "mig.mode.current": "Disabled", "name": "NVIDIA H100"}
def say(*lines):
    for line in lines: print(line, flush=True)
def head(): say(", ".join(fields))
def row(**more): say(", ".join({**VALUES, **more}[name] for name in fields))
with open(here / "started", "a") as file: file.write(f"{os.getpid()} {argv}\\n")
starts = [one for one in (here / "started").read_text().splitlines() if "--query-gpu=" in one]
"""


class Clock:
    """Stands still unless it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes an nvidia-smi that does this, and gives its path."""

    def make(body: str) -> str:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!{sys.executable} -IS\n{BEGIN}{body}", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def opened():
    """Opens samplers and closes them when the test ends."""
    samplers = []

    def make(*words, **settings) -> SmiSampler:
        samplers.append(SmiSampler(*words, **settings))
        return samplers[-1]

    yield make
    for sampler in samplers:
        sampler.close()


def started(path: str) -> list[str]:
    return (Path(path).parent / "started").read_text(encoding="utf-8").splitlines()


def until(what: Callable[[], object]) -> object:
    """The first true answer; a hang ends with the test's own limit."""
    end = time.monotonic() + 20
    while not (found := what()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
    return found


def is_gone(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            == "Z"
        )
    except OSError:
        return True


FOREVER = "\nsignal.pause()\n"


def test_smi_gives_the_last_line_of_each_gpu(program, opened):
    sampler = opened(
        program(
            "if LOOP:\n head(); row(); row(index='1', uuid='GPU-bbbb', **{'power.draw': '[N/A]'})"
            + FOREVER
        )
    )
    until(lambda: len(sampler.read()) == 2)
    first, second = sampler.read()
    assert first.util_percent == 97
    assert first.power_w == 400
    assert (second.index, second.uuid, second.power_w) == (1, "GPU-bbbb", None)
    assert (sampler.source, sampler.reason) == ("nvidia-smi", "")


def test_smi_is_one_process_that_is_ended_with_the_sampler(program, opened):
    path = program("if LOOP: head(); row()" + FOREVER)
    sampler = opened(path)
    for _ in range(5):
        sampler.read()
    pids = [int(line.split()[0]) for line in started(path)]
    sampler.close()
    sampler.close()
    assert len([line for line in started(path) if "--query-gpu" in line]) == 1
    assert all(is_gone(pid) for pid in pids)
    sampler.read()
    assert len([line for line in started(path) if "--query-gpu" in line]) == 1


def test_smi_is_asked_in_csv_once_a_second(program, opened):
    path = program("if LOOP: head(); row()" + FOREVER)
    opened(path)
    assert started(path)[0].endswith(",name --format=csv,nounits -lms 1000")


def test_smi_that_does_not_know_a_field_is_asked_by_the_older_name(program, opened):
    refuse = 'if "clocks_event_reasons.active" in fields:\n say(\'Field "clocks_event_reasons.active" is not a valid field to query.\', ""); sys.exit(2)\n'
    path = program(f"if not LOOP: sys.exit()\n{refuse}head(); row()" + FOREVER)
    (gpu,) = opened(path).read()
    assert gpu.reasons == ("power limit",)
    assert len(started(path)) >= 2


def test_smi_that_does_not_know_a_field_at_all_is_asked_without_it(program, opened):
    refuse = "if 'mig.mode.current' in fields:\n say('Field \"mig.mode.current\" is not a valid field to query.'); sys.exit(2)\n"
    (gpu,) = opened(program(f"if not LOOP: sys.exit()\n{refuse}head(); row()" + FOREVER)).read()
    assert gpu.util_percent == 97


def test_smi_that_refuses_says_why(program):
    body = "say('Failed to initialize NVML: Driver/library version mismatch'); sys.exit(18)"
    with pytest.raises(
        NoSmi, match="nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"
    ):
        SmiSampler(program(body))


def test_smi_that_prints_nothing_is_given_up_and_ended(program):
    path = program(FOREVER)
    with pytest.raises(NoSmi, match="showed no GPU within 2 s"):
        SmiSampler(path, opening_s=2)
    assert is_gone(int(started(path)[0].split()[0]))


def test_smi_that_cannot_be_started_says_why(tmp_path):
    with pytest.raises(NoSmi, match="could not be started: No such file"):
        SmiSampler(str(tmp_path / "nvidia-smi"))


def test_smi_gpu_that_falls_off_the_bus_is_lost_and_the_others_go_on(program, opened):
    lost = "say(', '.join(['1', *['[GPU is lost]'] * (len(fields) - 1)]))"
    sampler = opened(
        program(
            f"if LOOP:\n head(); row(); row(index='1', uuid='GPU-bbbb'); row(); {lost}" + FOREVER
        )
    )
    until(lambda: [gpu.lost for gpu in sampler.read()] == [False, True])
    assert sampler.read()[1] == GpuSample(1, "GPU-bbbb", "NVIDIA H100", lost=True)
    assert sampler.read()[0].util_percent == 97


def test_smi_that_falls_silent_is_unknown_and_then_started_again(program, opened):
    clock = Clock()
    path = program("if LOOP: head(); row()" + FOREVER)
    sampler = opened(path, clock=clock)
    clock.now = smi.STALE_S + 1
    assert sampler.read() == (GpuSample(0, "GPU-aaaa", "NVIDIA H100"),)
    clock.now = smi.HUNG_S + 1
    sampler.read()
    until(lambda: sampler.read()[0].util_percent == 97)
    assert sampler.reason == "nvidia-smi was started again once (it stopped printing)"
    first = int(started(path)[0].split()[0])
    assert is_gone(first)


def test_smi_that_ignores_the_wish_to_end_is_killed(program, opened):
    path = program(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif LOOP: head(); row()\nwhile True: signal.pause()\n"
    )
    sampler = opened(path)
    sampler.close()
    assert is_gone(int(started(path)[0].split()[0]))


def test_smi_that_hangs_in_the_driver_is_not_started_beside_itself(program, opened, monkeypatch):
    clock = Clock()
    path = program("if LOOP: head(); row()" + FOREVER)
    sampler = opened(path, clock=clock)
    with monkeypatch.context() as hung:
        hung.setattr(smi.Program, "stop", lambda _: False)
        clock.now = smi.HUNG_S + 1
        sampler.read()
    assert len([line for line in started(path) if "--query-gpu" in line]) == 1
    assert sampler.reason == "nvidia-smi hangs in the driver, and cannot be ended"


def test_smi_that_keeps_dying_is_started_again_a_few_times_only(program, opened):
    path = program("if LOOP:\n head(); row(); say('Segmentation fault')")
    sampler = opened(path)
    loops = lambda: [line for line in started(path) if "--query-gpu" in line]  # noqa: E731
    until(lambda: sampler.read() and len(loops()) == 1 + smi.MOST_STARTS)
    for _ in range(20):
        sampler.read()
    assert len(loops()) == 1 + smi.MOST_STARTS
    assert sampler.reason == "nvidia-smi was started again 3 times (Segmentation fault)"


def test_smi_processes_are_asked_apart_and_at_a_lower_rate(program, opened):
    clock = Clock()
    apps = 'n = len(list(open(here / "started"))); say(f"GPU-aaaa, {4000 + n}", "GPU-bbbb, 1"); sys.exit()'
    path = program(
        f'if "--query-compute-apps=gpu_uuid,pid" in argv:\n {apps}\nhead()\nwhile True: row(); time.sleep(0.05)'
    )
    sampler = opened(path, clock=clock)
    assert sampler.read()[0].pids is None
    assert until(lambda: sampler.read()[0].pids) == (4002,)
    clock.now = smi.PIDS_EVERY_S
    assert until(lambda: (pids := sampler.read()[0].pids) != (4002,) and pids) == (4003,)


def test_smi_processes_that_are_refused_are_unknown_and_none_is_none(program, opened):
    path = program("if not LOOP: sys.exit(4)\nhead(); row()" + FOREVER)
    sampler = opened(path)
    sampler.read()
    until(lambda: not sampler._asking or sampler.read() is None)
    assert sampler.read()[0].pids is None
    none = opened(program("if not LOOP: sys.exit()\nhead(); row()" + FOREVER))
    none.read()
    assert until(lambda: none.read()[0].pids is not None)
    assert none.read()[0].pids == ()


def test_smi_with_mig_lists_the_instances(program, opened):
    listed = "say('GPU 0: NVIDIA A100 (UUID: GPU-aaaa)', '  MIG 3g.20gb     Device  0: (UUID: MIG-1111)')"
    path = program(
        f"if argv == '-L':\n {listed}; sys.exit()\nif LOOP: head(); row(**{{'mig.mode.current': 'Enabled'}})"
        + FOREVER
    )
    gpu, instance = opened(path).read()
    assert (gpu.util_percent, gpu.is_mig) == (None, False)
    assert instance == GpuSample(0, "MIG-1111", "MIG 3g.20gb", is_mig=True)


def test_smi_ends_when_its_owner_is_killed(program, tmp_path):
    """Also with signal 9: the next line has nobody to read it."""
    path = program("if not LOOP: sys.exit()\nhead()\nwhile True: row(); time.sleep(0.05)")
    code = f"from hosttune.measure.gpu.smi import SmiSampler; import os; SmiSampler({path!r}).read(); os.kill(os.getpid(), 9)"
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", code],
        {**os.environ, "PYTHONPATH": str(Path(smi.__file__).parents[3])},
    )
    os.waitpid(pid, 0)
    assert until(lambda: is_gone(int(started(path)[0].split()[0])))
