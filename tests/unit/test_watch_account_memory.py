"""Which look at the memory of a job's group counts."""

import pytest

from hosttune.measure.watch.account import _take_fuller
from hosttune.measure.watch.tick import MemoryTick

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
