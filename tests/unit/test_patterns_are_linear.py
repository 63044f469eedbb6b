"""Patterns that see foreign text take time in proportion to it: each text here once took the square.

`python -m tests.patterns` looks for more of them, in all patterns of the package, in minutes.
"""

from __future__ import annotations

import re
import signal
from importlib import import_module

import pytest

from tests.patterns import METHODS, Pattern, hostile_texts, patterns, raise_timeout, seconds_of

SIZE = 100_000  # characters; a pattern that takes the square needs a minute and more
LIMIT_S = 5.0  # processor time; a linear one takes a hundredth of a second
# module, name, how it is used, and a text by its beginning and what is repeated
ONCE_SLOW = [
    ("facts.apt_conf", "_PART", "sub", "", "/* "),
    ("facts.gpu.archives", "_ARCHIVE", "match", "1 a", " "),
    ("facts.gpu.archives", "_SOURCE", "match", "        1 a", " "),
    ("facts.gpu.driver", "_PERSISTENCED", "fullmatch", "nvidia-compute-utils-", "1"),
    ("facts.kernel.grub", "_OPENS", "fullmatch", "menuentry", " "),
    ("facts.kernel.sysctl_at_boot", "_ASSIGNMENT", "fullmatch", "", " "),
    ("facts.kernel.sysctl_at_boot", "_ASSIGNMENT", "fullmatch", "a=b", " "),
    ("facts.kernel.sysfs_at_boot", "_PART", "sub", "", " "),
    ("facts.kernel.sysfs_at_boot", "_PART", "sub", "", "a"),
    ("facts.limits.limits", "_ROW", "sub", "Max ", " "),
    ("facts.services.slurm", "_MIG", "fullmatch", "", "1"),
    ("facts.services.slurm", "_BOUND", "sub", "", "timeout -"),
    ("facts.slurm_conf", "_PAIR", "sub", "", "1"),
    ("facts.storage.ageing_sourced", "ENVIRONMENT_FILE", "sub", "EnvironmentFile=", " "),
    ("facts.storage.nfs", "_SECTION", "match", "[", "a"),
    ("facts.storage.raid", "_ARRAY", "fullmatch", "md0 : active raid1 ", "a[0]"),
    ("facts.storage.raid", "_MEMBER", "sub", "", "/"),
    ("facts.storage.raid", "_VOLUME", "fullmatch", "a: 0 1 raid raid", "1"),
    ("facts.storage.spills", "_LSF_ENVDIR", "sub", "", "/"),
    ("facts.storage.spills", "_SETTING", "fullmatch", "a=b", " "),
    ("resources.storage.fstab_lint", "_KERNEL_NAME", "fullmatch", "/dev/nvme1n1", "1"),
]


@pytest.fixture(autouse=True)
def timer():
    before = signal.signal(signal.SIGPROF, raise_timeout)
    yield
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize(("module", "name", "method", "begin", "many"), ONCE_SLOW)
def test_pattern_takes_time_in_proportion_to_the_text(module, name, method, begin, many):
    compiled = getattr(import_module(f"hosttune.{module}"), name)
    pattern = Pattern(module, compiled.pattern, compiled.flags & ~re.UNICODE, frozenset({method}))
    for end in ("!", "\n"):
        assert seconds_of(pattern, begin + many * (SIZE // len(many)) + end, LIMIT_S) < LIMIT_S


def test_search_finds_a_pattern_that_takes_the_square():
    """What it makes of the pattern, not only what it is told."""
    pattern = Pattern("x", r"a(\S.*?)\s*$", 0, frozenset({"match"}))
    assert any(seconds_of(pattern, text, 0.5) >= 0.5 for text in hostile_texts(pattern, 40_000))


def test_search_knows_the_patterns_and_their_uses():
    found = {one.place.partition(":")[0]: one for one in patterns()}
    assert len(found) > 100
    assert found["facts/storage/nfs.py"].methods <= METHODS
