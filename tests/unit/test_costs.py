"""Which tests `./run test` takes, from what each of them took."""

from __future__ import annotations

from pathlib import Path

from tests.costs import TABLE, Cost, choose_cases, dump_costs, read_costs, share_out, sum_file_costs

F, G = "tests/unit/test_x.py::test_f", "tests/unit/test_x.py::test_g"


def test_table_says_what_was_measured_and_sums_up_short_tests_by_file(tmp_path: Path):
    path = tmp_path / "costs.tsv"
    path.write_text(
        dump_costs({F: [1.5, 0.5], G: [0.01, 0.02], f"{G}_too": [0.01]}), encoding="utf-8"
    )
    costs = read_costs(path)
    assert costs == {F: Cost(2.0, 2), "tests/unit/test_x.py": Cost(0.04, 3)}
    assert sum_file_costs(costs) == {"tests/unit/test_x.py": 2.04}
    assert sum_file_costs(costs, 1.0) == {"tests/unit/test_x.py": 1.04}
    assert read_costs(tmp_path / "none") == {}


def test_table_of_the_checkout_can_be_read_and_names_tests_that_exist():
    files = {name.partition("::")[0] for name in read_costs()}
    assert TABLE.exists()
    assert len([name for name in files if (TABLE.parents[1] / name).exists()]) > 0.8 * len(files)


def test_as_many_cases_as_fit_are_chosen_always_the_same_and_all_of_a_test_that_is_not_known():
    cases = [f"{F}[{host}-{rule}]" for host in "abcd" for rule in range(25)]
    costs = {F: Cost(10.0, 100)}
    chosen = choose_cases([*cases, f"{G}[1]", f"{G}[2]"], costs, 2.0)
    assert {f"{G}[1]", f"{G}[2]"} < chosen
    assert len(chosen) == 22
    assert choose_cases([*reversed(cases), f"{G}[2]", f"{G}[1]"], costs, 2.0) == chosen
    assert len({case.partition("[")[2][0] for case in chosen if case.startswith(F)}) == 4
    assert choose_cases(cases, costs, 10.0) == {*cases}


def test_test_whose_single_case_takes_longer_than_the_bound_is_left_out():
    assert choose_cases([F, G], {F: Cost(3.0, 1)}, 2.0) == {G}


def test_what_most_changes_break_is_not_bounded():
    name = "tests/rules/test_cases.py::test_case"
    cases = [f"{name}[{number}]" for number in range(9)]
    assert choose_cases(cases, {name: Cost(90.0, 9)}, 2.0) == {*cases}
    assert sum_file_costs({name: Cost(90.0, 9)}, 2.0) == {"tests/rules/test_cases.py": 90.0}


def test_shares_take_about_as_long_and_hold_every_file_once():
    costs = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 0.0}
    shares = share_out(costs, 2)
    assert sorted(name for names in shares for name in names) == sorted(costs)
    assert [sum(costs[name] for name in names) for names in shares] == [7.0, 7.0]
    assert share_out({"a": 1.0}, 3) == [["a"]]
