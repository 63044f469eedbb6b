"""The package's own tables: each has its dates, and a rule whose explanation names the command that
renews it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hosttune
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts.own_tables import FOLDER, parse_own_table, read_own_table
from hosttune.views.explain import _add_dates

NAMES = sorted(path.stem for path in (Path(hosttune.__file__).parent / FOLDER).glob("*.tsv"))
SOURCES = [source for rule in builtin_catalog().rules.values() for source in rule.sources]


@pytest.mark.parametrize("name", NAMES)
def test_table_says_of_when_it_is_and_until_when_it_counts(name):
    table = read_own_table(name)
    assert table.as_of
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", table.good_until)
    assert table.rows


@pytest.mark.parametrize("name", NAMES)
def test_explanation_of_a_rule_names_the_command_that_renews_the_table(name):
    (source,) = [one for one in SOURCES if one.startswith(f"hosttune/{FOLDER}/{name}.tsv")]
    assert re.search(
        r"renewed .*: (?:python -m tests\.catalogues\.\w+ |\$EDITOR hosttune/)", source
    )
    assert f"good until {read_own_table(name).good_until}" in _add_dates(source)
    assert _add_dates("https://docs.kernel.org/") == "https://docs.kernel.org/"


def test_dates_that_the_head_lacks_are_empty_and_rows_have_none():
    table = parse_own_table("# as of: 595.45.04\n# x\n\na\tb\n")
    assert (table.as_of, table.good_until, table.rows) == ("595.45.04", "", (("a", "b"),))
