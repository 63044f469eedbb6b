"""Patterns that see foreign text take time in proportion to it: each text here once took the square.

`python -m tests.patterns` looks for more of them, in all patterns of the package, in minutes.
"""

from __future__ import annotations

import ast
import re
import signal
import time
from importlib import import_module

import pytest

from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.lint import rule_faults
from hosttune.engine.shapes import policy_faults
from hosttune.engine.yamlio import load_document
from hosttune.errors import MOST_FAULTS, BadInput
from hosttune.facts.apt_conf import settings_of
from hosttune.facts.commands import values_in
from hosttune.facts.services.unit_files import assignments
from hosttune.facts.storage.ageing_files import parse_cachefilesd, parse_tmpreaper
from hosttune.facts.sysfs import fits
from hosttune.lines import LineNumbers
from tests.patterns import METHODS, PACKAGE, Pattern, hostile_texts, patterns, raise_timeout, seconds_of

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


def test_lines_are_counted_by_one_piece():
    """To count from the start for each of many places takes quadratic time."""
    calls = (
        (path.relative_to(PACKAGE), node.lineno)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "count" and len(node.args) > 1
    )
    assert {str(path) for path, _ in calls} == {"lines.py"}


def test_line_numbers_look_at_no_line_twice():
    looked = []

    class Text(str):
        __slots__ = ()

        def count(self, text, start, end):
            looked.append(end - start)
            return super().count(text, start, end)

    text = Text("a\nbc\n\nd" * 100)
    numbers = LineNumbers(text)
    assert [numbers.at(place) for place in range(len(text))] == [
        text[:place].count("\n") + 1 for place in range(len(text))
    ]
    assert sum(looked) < len(text)
    assert (numbers.at(0), numbers.at(3), LineNumbers(b"a\nb").at(2)) == (1, 2, 2)


MANY = 1 << 20
HOSTILE = {
    "tabs": lambda: load_document("\t" * MANY, "policy.yaml"),
    "characters that are not allowed": lambda: load_document("\n\x01" * (MANY // 2), "policy.yaml"),
    "unknown rules": lambda: policy_faults(
        load_document("select:\n" + "".join(f"- memory-swapp{i}\n" for i in range(MANY // 20)), "p"), builtin_catalog()
    ),
    "unknown kinds": lambda: rule_faults(load_document("want:\n" + "- {sysctll: a}\n" * (MANY // 16), "a-b.yaml")),
    "unknown names": lambda: rule_faults(
        load_document("id: a-b\nexpect:\n" + "- {if: 'memry.a > 1', else: x}\n" * (MANY // 40), "a-b.yaml")
    ),
    "lines that go on": lambda: [*assignments("ab\\\n" * (MANY // 4))],
    "settings of apt": lambda: [*settings_of('a "b";\n' * (MANY // 7), "a")],
    "settings of tmpreaper": lambda: parse_tmpreaper("A=b\n" * (MANY // 4), "tmpreaper.conf"),
    "folders of cachefilesd": lambda: parse_cachefilesd("dir /a\n" * (MANY // 7), "cachefilesd.conf"),
    "commands": lambda: [*values_in("sysctl -w vm.a=1\n" * (MANY // 18))],
    "loops without an end": lambda: [*values_in("for x in /sys/a do\n" * (MANY // 19))],
    "loops of many variables": lambda: [
        *values_in("".join(f"for x{i} in /sys/a; do done;" for i in range(MANY // 30)))
    ],
    "values in a loop": lambda: [*values_in("for x in /sys/a; do\n" + "echo 1 > $y\n" * (MANY // 12) + "done\n")],
    "braces": lambda: fits("/sys/x", "/sys/" + "{a,b}" * 64) or fits("/sys/x", "/sys/" + "{a}" * (MANY // 3)),
}


@pytest.mark.parametrize("read", HOSTILE.values(), ids=HOSTILE)
def test_reading_what_others_write_takes_linear_time(read):
    started = time.process_time()
    faults = ()
    try:
        read()
    except BadInput as error:
        faults = error.faults
    assert len(faults) <= MOST_FAULTS + 1
    assert time.process_time() - started < 4 * LIMIT_S  # a hundred times that where it was quadratic
