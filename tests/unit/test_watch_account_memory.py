"""Which look at the memory of a job's group counts, and how much an account keeps of a record."""

import pytest

from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch import account as account_module
from hosttune.measure.watch.account import MOST_NAMES, Account, Watched, _take_fuller
from hosttune.measure.watch.tick import MemoryTick, Tick

FULL = MemoryTick(100, "/sys/fs/cgroup/a/memory.max", "", 97)
ENDING = MemoryTick(100, "/sys/fs/cgroup/a/memory.max", "", 3)
RAISED = MemoryTick(200, "/sys/fs/cgroup/a/memory.max", "", 90)


@pytest.mark.parametrize(
    ("looks", "counts"),
    [
        ((FULL, ENDING), FULL),  # the last look meets a job that is ending
        ((ENDING, FULL), FULL),
        ((FULL, None), FULL),
        ((None, FULL), FULL),
        ((FULL, RAISED), RAISED),  # another limit counts anew
        ((None, None), None),
    ],
)
def test_fullest_look_at_a_limit_counts(looks, counts):
    assert _take_fuller(*looks) == counts


def test_reasons_of_a_record_are_kept_up_to_a_number():
    account = Account(Watched(1, warm_up_s=0.0))
    for second in range(3 * MOST_NAMES):
        gpu = GpuSample(0, "GPU-a", util_percent=1.0, reasons=(f"reason {second}",))
        account.add(Tick(float(second), 1.0, gpus=(gpu,)))
    (kept,) = account.gpus.values()
    assert len(kept.reasons) == MOST_NAMES


@pytest.mark.parametrize("words", [{"pids": tuple(range(50))}, {"reasons": ("a",) * 50}])
def test_warm_up_that_names_too_much_is_not_kept(words, monkeypatch):
    monkeypatch.setattr(account_module, "_MOST_COLD_PARTS", 100)
    account = Account(Watched(1))
    for second in range(3):
        account.add(Tick(float(second), 1.0, gpus=(GpuSample(0, "GPU-a", **words),)))
    assert account.settle() is account
