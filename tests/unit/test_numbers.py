"""Numbers in text of others: digits of ASCII, and no more of them than any number has. Sizes and
times for people.
"""

from __future__ import annotations

import ast
import re

import pytest

from hosttune.facts.versions import compare_versions
from hosttune.numbers import (
    parse_digits,
    parse_whole,
    say_gib,
    say_limit,
    say_size,
    say_span,
    say_time,
)
from tests.patterns import PACKAGE

ODD = ["", " 1", "+1", "1_0", "0x1", "\u0661", "\u00b2", "1.0", "9" * 5_000]


@pytest.mark.parametrize("text", [*ODD, "-1"])
def test_what_is_no_digits_is_the_default(text):
    assert parse_digits(text, None) is None


@pytest.mark.parametrize("text", [*ODD, "--1", "-"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="not a whole number"):
        parse_whole(text)


def test_numbers_of_kernel_and_programs_are_read():
    assert parse_digits("18446744073709551615", 0) == (1 << 64) - 1
    assert (parse_whole("-1"), parse_whole("007"), parse_digits("0", None)) == (-1, 7, 0)


def test_versions_of_thousands_of_digits_are_compared():
    long = "9" * 5_000
    assert compare_versions(f"1.{long}", f"1.{long}0") < 0 < compare_versions(f"1.{long}", "1.5")
    assert compare_versions("1.007", "1.7") == 0


def test_no_number_is_read_where_only_its_digits_are_looked_at():
    """str.isdecimal() and isdigit() pass digits of other scripts, or thousands of them, for which
    int() fails.
    """
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.IfExp, ast.BoolOp))
        and (text := ast.unparse(node))
        and re.search(
            r"\bint\(([^()]+)\).*\b\1\.is(?:decimal|digit)\(\)|\b([\w.\[\]]+)\.is(?:decimal|digit)\(\).*\bint\(\2\)",
            text,
        )
        and "len(" not in text  # a length of its own
    ]
    assert found == []


@pytest.mark.parametrize(
    ("say", "number", "text"),
    [
        (say_size, 512, "512 B"),
        (say_size, 1536, "1.5 KiB"),
        (say_size, 372 << 30, "372 GiB"),
        (say_size, 1.7 * (1 << 40), "1.7 TiB"),
        (say_gib, 64 << 30, "64 GiB"),
        (say_gib, 3 << 39, "1536 GiB"),
        (say_gib, 17 << 38, "4.2 TiB"),
        (say_limit, 4096, "4 KiB"),
        (say_limit, 64 << 20, "64 MiB"),
        (say_time, 45.4, "45 s"),
        (say_time, 720, "12 min"),
        (say_time, 12_600, "3.5 h"),
        (say_span, 90, "90 s"),
        (say_span, 7200, "2 h"),
    ],
)
def test_sizes_and_times_are_in_units_of_people(say, number, text):
    assert say(number) == text


def test_sizes_and_times_for_people_are_made_in_one_module():
    """But how little is left on a file system is said in `facts/storage/room.py`."""
    choice = re.compile(
        r"""f["']\{[^{}]+:\.\df\} (?:[KMGT]iB|\{unit\})["']\s+if |["'] (?:s|min|h)["']\s+if seconds"""
    )
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if choice.search(path.read_text())
    }
    assert found == {"numbers.py", "facts/storage/room.py"}
