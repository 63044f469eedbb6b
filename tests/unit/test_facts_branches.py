"""The tables of branches: the package's own, and the site's."""

from __future__ import annotations

import pytest

from hosttune.errors import BadInput
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.branch_table import own_table, parse_rows
from hosttune.facts.gpu.branches import SITE
from hosttune.facts.gpu.nvidia_tables import GENERATIONS
from hosttune.values import FileValue, Unreadable
from tests.unit.driver_machine import tables
from tests.unit.fake_reader import FakeReader

ROW = "branch\t640\tlts\t2030-06\tturing\tblackwell\n"


def branches(content=None, **more):
    files = {} if content is None else {SITE: content}
    return Facts(FakeReader(files, **more)).branches


def test_own_table_is_whole():
    rows, as_of, good_until = own_table()
    assert (as_of, good_until) == ("2026-11-24", "2027-03")
    assert {one.kind for one in rows.values()} == {"lts", "production", "new"}
    for one in rows.values():
        assert (
            bool(one.first) is bool(one.last) is (one.number < 615)
        )  # the README of later ones could not be read
        assert not one.first or GENERATIONS.index(one.first) <= GENERATIONS.index(one.last)
        assert one.is_gone is (one.ends == "" and one.number != 615)
    assert [
        number for number, one in rows.items() if one.kind == "lts" and not one.is_over("2026-11")
    ] == [580, 620]
    assert rows[620].ends == "2029-09"


@pytest.mark.parametrize(
    ("number", "drives", "not_drives", "not_known"),
    [
        (470, ["kepler", "ampere"], ["hopper", "ada", "fermi"], ["unknown"]),
        (535, ["maxwell", "volta", "hopper", "ada"], ["kepler", "blackwell"], ["unknown"]),
        (580, ["maxwell", "volta", "blackwell"], ["kepler"], ["unknown"]),
        (595, ["turing", "blackwell"], ["volta", "pascal"], ["unknown"]),
        (700, [], [], ["turing", "volta", "unknown"]),
        (525, [], [], ["hopper", "ada", "kepler"]),
        (450, [], [], ["ampere"]),
        (430, [], [], ["turing"]),
    ],
)
def test_a_range_that_is_not_known_is_not_known(number, drives, not_drives, not_known):
    row = tables().branch(number)
    assert {one: row.drives(one) for one in (*drives, *not_drives, *not_known)} == {
        **dict.fromkeys(drives, True), **dict.fromkeys(not_drives, False), **dict.fromkeys(not_known),
    }  # fmt: skip


def test_branch_not_in_the_table_is_over_only_when_older_than_all_that_it_supports():
    """NVIDIA may bring one after the day of the table, whatever its number."""
    assert [tables().branch(number).is_over("2026-11") for number in (430, 525, 565)] == [True] * 3
    assert [
        tables().branch(number).is_over("2026-11") for number in (585, 600, 612, 618, 625, 700)
    ] == [False] * 6
    assert [tables().branch(number).is_over("2031-01") for number in (600, 618, 700)] == [False] * 3


def test_rows_of_the_site_go_before_and_make_nothing_else_old():
    found = branches("# ours\n\n" + ROW + "branch 580 lts 2031-01 - -\n")
    assert (found.branch(640).ends, found.branch(640).of) == ("2030-06", SITE)
    assert (found.branch(580).ends, found.branch(580).drives("volta")) == ("2031-01", None)
    assert found.branch(595).of == ""
    assert not found.branch(620).is_over("2029-01")


def test_row_without_an_end_is_not_over_and_one_that_is_gone_is():
    assert (tables().branch(615).kind, tables().branch(615).is_over("2040-01")) == ("new", False)
    assert branches("branch 640 lts gone turing blackwell\n").branch(640).is_over("2026-11")


def test_site_row_without_an_end_is_not_over():
    row = branches("branch 640 - - turing -\n").branch(640)
    assert (row.kind, row.is_over("2040-01"), row.drives("ada")) == ("", False, None)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("branch 640 lts 2030-06 turing", "it has 5 fields (a row has six fields"),
        (
            "driver 640 lts 2030-06 turing blackwell",
            "branch: 'driver' is no kind of row (begin the row with branch)",
        ),
        (
            "branch 64 lts 2030-06 turing blackwell",
            "number: '64' is no branch (a number of three digits",
        ),
        ("branch ²40 lts 2030-06 turing blackwell", "number: '²40' is no branch"),
        (
            "branch 640 LTSB 2030-06 turing blackwell",
            "kind: 'LTSB' is no kind of branch (one of lts, production, new",
        ),
        (
            "branch 640 lts 2030-13 turing blackwell",
            "end of support: '2030-13' is no month (year and month",
        ),
        ("branch 640 lts 2030 turing blackwell", "end of support: '2030' is no month"),
        (
            "branch 640 lts 2030-06 rubin blackwell",
            "oldest generation: 'rubin' is no generation of GPUs (one of fermi",
        ),
        ("branch 640 lts 2030-06 turing rubin", "newest generation: 'rubin' is no generation"),
        (
            "branch 640 lts 2030-06 ada turing",
            "newest generation: turing is older than ada (the oldest generation",
        ),
        (ROW + ROW.rstrip(), "number: branch 640 has a row already (one row for each branch)"),
    ],
)
def test_bad_row_names_file_line_field_and_the_way_out(row, says):
    line = 1 + row.count("\n") + 1
    with pytest.raises(UnknownFact) as error:
        branches(f"# head\n{row}\n").branch(580)
    assert error.value.reason.startswith(f"{SITE}:{line}: ")
    assert says in error.value.reason


def test_all_faults_are_found_and_few_are_said():
    with pytest.raises(BadInput) as error:
        parse_rows("branch x\n" * 7, "f")
    assert len(error.value.faults) == 7
    with pytest.raises(UnknownFact, match="and 4 more"):
        branches("branch x\n" * 7).branch(580)


@pytest.mark.parametrize(
    ("files", "more", "says"),
    [
        (
            {SITE: FileValue(ROW.encode(), mode=0o666)},
            {},
            f"others than root can write {SITE} (sudo chmod go-w",
        ),
        ({SITE: FileValue(ROW.encode(), uid=1000)}, {}, f"{SITE} belongs to uid 1000, not to root"),
        ({SITE: Unreadable("Permission denied")}, {}, "Permission denied"),
        ({SITE: b"branch 640\xff\n"}, {}, f"{SITE}:1: is not UTF-8 text"),
        ({SITE: b"#" * 70_000}, {}, "has 70000 bytes, more than 65536"),
        ({SITE: b"# \n" * 1200}, {}, ""),
        ({SITE: b"\n" * 1200 + ROW.encode()}, {}, f"{SITE}:1201: it has more than 1000 lines"),
        (
            {"/srv/b.tsv": FileValue(ROW.encode(), uid=1000)},
            {"links": {SITE: "/srv/b.tsv"}},
            "belongs to uid 1000",
        ),
    ],
)
def test_file_that_cannot_be_followed_leaves_nothing(files, more, says):
    found = Facts(FakeReader(files, **more)).branches
    if not says:
        assert found.branch(580).ends == "2028-06"
        return
    with pytest.raises(UnknownFact) as error:
        found.branch(580)
    assert says in error.value.reason


def test_month_is_never_before_the_table():
    assert tables().month(0.0) == "2026-11"
    assert tables().month(1_800_000_000.0) == "2027-01"
