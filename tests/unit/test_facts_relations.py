"""Dependencies of installed packages that nothing installed meets, as dpkg's status file tells
them.
"""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.relations import first_of, unmet_of
from tests.unit.fake_reader import FakeReader


def row(name, version="1.0", state="installed", **fields):
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    return f"Package: {name}\nStatus: install ok {state}\nArchitecture: amd64\nVersion: {version}\n{more}\n"


def packages(*rows):
    return Facts(FakeReader({"/var/lib/dpkg/status": row("dpkg") + "".join(rows)})).packages


@pytest.mark.parametrize(
    ("needs", "others", "unmet"),
    [
        ("b", (), ("b",)),
        ("b", (row("b"),), ()),
        ("b", (row("b", state="config-files"),), ("b",)),
        ("b", (row("b", state="unpacked"),), ()),
        ("b (= 2.0)", (row("b"),), ("b (= 2.0)",)),
        ("b (>= 1.0), b (<< 1.0)", (row("b"),), ("b (<< 1.0)",)),
        ("b (<= 1.0~rc1)", (row("b"),), ("b (<= 1.0~rc1)",)),
        ("x (= 2) | b", (row("b"),), ()),
        ("b:any", (row("b"),), ()),
        ("v", (row("b", Provides="w, v"),), ()),
        ("v (>= 2)", (row("b", Provides="v"),), ("v (>= 2)",)),
        ("v (>= 2)", (row("b", Provides="v (= 1)"), row("c", Provides="v (= 3)")), ()),
        ("v", (row("b", state="config-files", Provides="v"),), ("v",)),
        ("(nonsense", (), ()),
    ],
)
def test_what_nothing_installed_meets_is_unmet(needs, others, unmet):
    assert unmet_of(packages(row("a", Depends=needs), *others), "a") == unmet


def test_dependencies_before_unpacking_count_and_those_of_others_do_not():
    found = packages(row("a", Pre_Depends="x", Depends="y", Recommends="z"), row("aa", Depends="w"))
    assert unmet_of(found, "a") == ("x", "y")
    assert unmet_of(found, "not-there") == ()


def test_what_would_go_is_not_there():
    found = packages(row("a", Depends="b | v"), row("b"), row("c", Provides="v"))
    assert [unmet_of(found, "a", gone) for gone in ((), ("b",), ("b", "c"))] == [(), (), ("b | v",)]


@pytest.mark.parametrize(
    ("clause", "first"),
    [
        ("b (= 1:2-3) | c", ("b", "1:2-3")),
        ("b (>= 2)", ("b", "")),
        ("b:any", ("b", "")),
        ("(nonsense", ("", "")),
    ],
)
def test_first_of_a_clause(clause, first):
    assert first_of(clause) == first
