"""The tables of hosttune/resources name every kind that a module exports, and its module."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from hosttune import resources


@pytest.mark.parametrize(("export", "table"), [("WISHES", resources.WISHES), ("ADDRESSES", resources.ADDRESSES)])
def test_table_is_what_the_modules_export(export, table):
    exported = {
        kind.kind: name.removeprefix("hosttune.resources.")
        for _, name, _ in pkgutil.walk_packages(resources.__path__, "hosttune.resources.")
        for kind in getattr(import_module(name), export, ())
    }
    assert table == exported
