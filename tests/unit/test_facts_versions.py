"""Debian versions, held against dpkg itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.facts.versions import compare_versions, sorted_versions, upstream_of

PIECES = st.sampled_from(
    ["0", "00", "1", "01", "9", "10", "580", "126", "~", "+", ".", "-", "a", "ubuntu", "rc", "Z", "~~", "0ubuntu"],
)  # fmt: skip
PART = st.lists(PIECES, max_size=6).map("".join)
VERSIONS = st.builds(
    lambda epoch, start, rest, revision: f"{epoch}{start}{rest}{revision}",
    st.sampled_from(["", "0:", "1:", "12:"]),
    st.integers(0, 99).map(str),
    PART,
    st.sampled_from(["", "-0", "-1", "-0ubuntu0.24.04.1", "-1~bpo12+1"]),
).filter(lambda version: not version.endswith("-"))


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("6.8.0-9", "6.8.0-60", -1),
        ("6.8.0-60", "6.14.0-1", -1),
        ("6.8.0-60-generic", "6.8.0-9-generic", 1),
        ("580.126.20-0ubuntu0.24.04.1", "580.126.20-0ubuntu0.22.04.1", 1),
        ("580.95.05", "580.126.09", -1),
        ("595.84", "595.84.01", -1),
        ("1:1.0", "2.0", 1),
        ("1.0~rc1", "1.0", -1),
        ("1.0", "1.0-0", 0),
        ("1.0", "1.00", 0),
        ("1.0a", "1.0+", -1),
        ("", "0", 0),
    ],
)
def test_compare_versions(one, other, wanted):
    assert sign(compare_versions(one, other)) == wanted
    assert sign(compare_versions(other, one)) == -wanted


@pytest.mark.skipif(
    shutil.which("dpkg") is None, reason="dpkg is not installed here: its own order cannot be asked"
)
@settings(max_examples=120, deadline=None)
@given(VERSIONS, VERSIONS)
def test_compare_versions_orders_as_dpkg_does(one, other):
    wanted = next(
        value
        for value, word in ((0, "eq"), (-1, "lt"), (1, "gt"))
        if subprocess.run(
            ["dpkg", "--compare-versions", one, word, other], check=False, stderr=subprocess.DEVNULL
        ).returncode == 0
    )  # fmt: skip
    assert sign(compare_versions(one, other)) == wanted


@given(VERSIONS, VERSIONS, VERSIONS)
def test_compare_versions_is_an_order(one, two, three):
    assert sign(compare_versions(one, two)) == -sign(compare_versions(two, one))
    assert compare_versions(one, one) == 0
    a, b, c = sorted_versions((one, two, three)) if len({one, two, three}) == 3 else (one, one, one)
    assert compare_versions(a, b) <= 0 >= compare_versions(a, c)
    assert compare_versions(b, c) <= 0


def test_sorted_versions_of_kernels():
    assert sorted_versions(["6.14.0-1-generic", "6.8.0-9-generic", "6.8.0-60-generic", "6.8.0-60-generic"]) == (
        "6.8.0-9-generic", "6.8.0-60-generic", "6.14.0-1-generic",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("580.126.20-0ubuntu0.24.04.1", "580.126.20"),
        ("1:595.84-1", "595.84"),
        ("6.8.0-60.63+1", "6.8.0"),
        ("570", ""),
        ("", ""),
    ],
)
def test_upstream_of(version, number):
    assert upstream_of(version) == number
