"""Patterns that see foreign text take time in proportion to it: each text here once took the
square.

`python -m tests.patterns` looks for more of them, in all patterns of the package, in minutes.
"""

from __future__ import annotations

import ast
import re
import signal
import time
from importlib import import_module

import pytest

from hosttune.engine.expressions.expression import compile_text
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.lint import rule_faults
from hosttune.engine.rules.shapes import policy_faults
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import MOST_FAULTS, BadInput, Where
from hosttune.facts.apt_conf import AptNames
from hosttune.facts.commands import values_in
from hosttune.facts.containers.containers import mode_of, root_of
from hosttune.facts.containers.userns import allows_userns
from hosttune.facts.jobs import _find_tops
from hosttune.facts.kernel.grub import parse_menu
from hosttune.facts.services.slurm import gpus_of
from hosttune.facts.services.unit_files import parse_assignments
from hosttune.facts.slurm_conf import slurm_rows, with_defaults
from hosttune.facts.storage.ageing_text import parse_cachefilesd, parse_tmpreaper
from hosttune.facts.sysfs import fits
from hosttune.host.door import Process
from hosttune.lines import LineNumbers
from tests.patterns import (
    METHODS,
    PACKAGE,
    Pattern,
    hostile_texts,
    patterns,
    plain_texts,
    raise_timeout,
    seconds_of,
)

SIZE = 100_000  # characters; a pattern that takes the square needs a minute and more
LIMIT_S = 5.0  # processor time; a linear one takes a hundredth of a second
# module, name, how it is used, and a text by its beginning and what is repeated
ONCE_SLOW = [
    ("facts.apt_conf", "_PART", "sub", "", "/* "),
    ("facts.apt_conf", "_PART", "sub", "", '"\\'),
    ("facts.commands", "_SYSCTL", "sub", "", "sysctl -"),
    ("facts.containers.userns", "_LETS", "sub", "", "flags=("),
    ("facts.gpu.archives", "_ARCHIVE", "match", "1 a", " "),
    ("facts.gpu.archives", "_SOURCE", "match", "        1 a", " "),
    ("facts.gpu.nvidia", "_JOB", "sub", "", "/slurm"),
    ("facts.gpu.nvidia_smi", "_LOST", "sub", "", "GPU 0000:00:00 "),
    ("facts.gpu.package_roles", "_TAIL", "match", "nvidia-compute-utils", "-580."),
    ("facts.gpu.package_roles", "_OF_KERNELS", "fullmatch", "linux-modules-nvidia-", "1."),
    ("facts.kernel.boot_entry", "_LINUX", "fullmatch", "linux ", "/"),
    ("facts.kernel.grub", "_OPENS", "fullmatch", "menuentry", " "),
    ("facts.kernel.sysctl_at_boot", "_ASSIGNMENT", "fullmatch", "", " "),
    ("facts.kernel.sysctl_at_boot", "_ASSIGNMENT", "fullmatch", "a=b", " "),
    ("facts.kernel.sysfs_at_boot", "_PART", "sub", "", " "),
    ("facts.kernel.sysfs_at_boot", "_PART", "sub", "", "a"),
    ("facts.kernel.sysfs_at_boot", "_PART", "sub", "", "a{ "),
    ("facts.limits.limits", "_ROW", "sub", "Max ", " "),
    ("facts.processes", "CONTAINER", "sub", "", "/kubepods/"),
    ("facts.services.slurm", "_MIG", "sub", "", "1"),
    ("facts.services.slurm", "_MIG", "sub", "", "1g.1"),
    ("facts.services.slurm", "_PART", "sub", "", "("),
    ("facts.services.slurm", "_BOUND", "sub", "", "timeout -"),
    ("facts.slurm_conf", "_PAIR", "sub", "", "1"),
    ("facts.storage.ageing", "_OPEN", "sub", "", "*"),
    ("facts.storage.ageing_text", "_COMMAND", "match", "", "flock -"),
    ("facts.storage.ageing_text", "_INTERPRETED", "sub", "sh", " -"),
    ("facts.storage.ageing_text", "_KEY", "match", "EnvironmentFile=", " "),
    ("facts.storage.fstab_readers", "_SCAN", "sub", "a b c d 0 0", " "),
    ("facts.storage.nfs", "_SECTION", "match", "[", "a"),
    ("facts.storage.raid", "_ARRAY", "fullmatch", "md0 : active raid1 ", "a[0]"),
    ("facts.storage.raid", "_MEMBER", "sub", "", "/"),
    ("facts.storage.raid", "_VOLUME", "fullmatch", "a: 0 1 raid raid", "1"),
    ("facts.storage.spills", "_LSF_ENVDIR", "sub", "", "/"),
    ("facts.storage.spills", "_SETTING", "fullmatch", "a=b", " "),
    ("host.process", "_CONSEQUENCES", "sub", "", "dpkg: dependency problems prevent a of \n"),
    ("measure.bench.counters", "_TOTAL", "sub", "", "some "),
    ("measure.gpu.smi_rows", "_FALLEN", "sub", "", "device handle for GPU"),
    ("resources.storage.fstab_lint", "_KERNEL_NAME", "fullmatch", "/dev/nvme1n1", "1"),
    ("resources.storage.fstab_lint_fields", "_NOT_TAG", "fullmatch", "UUID", " "),
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


def test_every_pattern_takes_line_breaks_blanks_and_its_own_marks_in_linear_time():
    slow = [
        (pattern.place, text[:1])
        for pattern in patterns()
        for text in plain_texts(pattern, 30_000)
        if seconds_of(pattern, text, 0.4) >= 0.4 and seconds_of(pattern, text, 0.4) >= 0.4
    ]
    assert slow == []


def test_search_finds_lines_that_are_blank():
    """A blank that may be a line break reaches over the lines at which it begins anew."""
    pattern = Pattern("x", r"^\s*root=", int(re.MULTILINE), frozenset({"search"}))
    slow = [
        text[:1] for text in plain_texts(pattern, 40_000) if seconds_of(pattern, text, 0.5) >= 0.5
    ]
    assert slow == ["\n"]


def test_search_finds_a_pattern_that_takes_the_square():
    """What it makes of the pattern, not only what it is told."""
    pattern = Pattern("x", r"a(\S.*?)\s*$", 0, frozenset({"match"}))
    assert any(seconds_of(pattern, text, 0.5) >= 0.5 for text in hostile_texts(pattern, 40_000))


def test_search_knows_the_patterns_and_their_uses():
    found = {one.place.partition(":")[0]: one for one in patterns()}
    assert len(found) > 100
    assert "facts/kernel/grub_arguments.py" in {
        one.place.partition(":")[0] for one in patterns() if "GRUB_" in str(one.text)
    }
    assert found["facts/storage/nfs.py"].methods <= METHODS


def test_lines_are_counted_by_one_piece():
    """To count from the start for each of many places takes quadratic time."""
    calls = (
        (path.relative_to(PACKAGE), node.lineno)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "count"
        and len(node.args) > 1
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


def _apt(content, name):
    return AptNames([("99x", content)]).lines(name)


def _partitions(content):
    rows = slurm_rows("/a", lambda _: content)
    return [row.values.get("oversubscribe") for row in with_defaults(rows, "partitionname")]


def _chain(length):
    return {
        pid: Process(pid, "p", "u", (), 1, 0, (), "/", 1.0, parent=pid - 1)
        for pid in range(2, length)
    }


HOSTILE = {
    "tabs": lambda: load_document("\t" * MANY, "policy.yaml"),
    "characters that are not allowed": lambda: load_document("\n\x01" * (MANY // 2), "policy.yaml"),
    "unknown rules": lambda: policy_faults(
        load_document(
            "select:\n" + "".join(f"- memory-swapp{i}\n" for i in range(MANY // 20)), "p"
        ),
        builtin_catalog(),
    ),
    "unknown kinds": lambda: rule_faults(
        load_document("want:\n" + "- {sysctll: a}\n" * (MANY // 16), "a-b.yaml")
    ),
    "unknown names": lambda: rule_faults(
        load_document(
            "id: a-b\nexpect:\n" + "- {if: 'memry.a > 1', else: x}\n" * (MANY // 40), "a-b.yaml"
        )
    ),
    "lines that go on": lambda: [*parse_assignments("ab\\\n" * (MANY // 4))],
    "settings of apt": lambda: [*_apt('a "b";\n' * (MANY // 7), "a")],
    "names of apt that nest": lambda: [*_apt("a{" * (MANY // 2), "a")],
    "names of apt that are long": lambda: [
        *_apt("a::" * (MANY // 8) + "{" + '"x";' * (MANY // 16) + "}", "a")
    ],
    "lists of apt that are emptied": lambda: [*_apt("#clear a;" * (MANY // 9), "a::b")],
    "braces of GRUB": lambda: parse_menu("a {\n" * (MANY // 4)),
    "menus of GRUB": lambda: parse_menu("submenu a {\n" * (MANY // 24) + "}\n" * (MANY // 24)),
    "defaults of Slurm": lambda: _partitions(
        "PartitionName=DEFAULT "
        + "".join(f"a{i}=1 " for i in range(MANY // 20))
        + "\nPartitionName=x" * (MANY // 32)
    ),
    "processes that forked each other": lambda: _find_tops(_chain(MANY // 32)),
    "settings of tmpreaper": lambda: parse_tmpreaper("A=b\n" * (MANY // 4), "tmpreaper.conf"),
    "folders of cachefilesd": lambda: parse_cachefilesd(
        "dir /a\n" * (MANY // 7), "cachefilesd.conf"
    ),
    "commands": lambda: [*values_in("sysctl -w vm.a=1\n" * (MANY // 18))],
    "loops without an end": lambda: [*values_in("for x in /sys/a do\n" * (MANY // 19))],
    "loops of many variables": lambda: [
        *values_in("".join(f"for x{i} in /sys/a; do done;" for i in range(MANY // 30)))
    ],
    "values in a loop": lambda: [
        *values_in("for x in /sys/a; do\n" + "echo 1 > $y\n" * (MANY // 12) + "done\n")
    ],
    "options of sysctl": lambda: [*values_in("sysctl -" * (MANY // 8))],
    "paths of a profile": lambda: allows_userns("/:" * (MANY // 2), "/usr/bin/apptainer"),
    "tables of TOML": lambda: (
        root_of("\n" * MANY),
        mode_of("[nvidia-container-runtime]" + "\n" * MANY),
    ),
    "braces of a text": lambda: compile_text("{{" * (MANY // 2), Where("a-b.yaml", 1)),
    "commas of a Gres": lambda: gpus_of("," * MANY),
    "braces": lambda: (
        fits("/sys/x", "/sys/" + "{a,b}" * 64) or fits("/sys/x", "/sys/" + "{a}" * (MANY // 3))
    ),
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
    assert (
        time.process_time() - started < 4 * LIMIT_S
    )  # a hundred times that where it was quadratic
