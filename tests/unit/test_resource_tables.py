"""The folder hosttune/resources is the registry: a kind is found by the name of its module."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from hosttune import resources
from hosttune.resources import address_kinds, kind_of, list_modules, wish_kinds
from hosttune.resources.base import AddressKind
from hosttune.textfiles import module_names
from hosttune.values import Address, Unreadable

FOLDER = Path(resources.__file__).parent
NAMES = module_names(str(FOLDER))
MODULES = {name: import_module(f"hosttune.resources.{name}") for name in NAMES}


def exported(what):
    return {
        getattr(module, what).kind: name
        for name, module in MODULES.items()
        if hasattr(module, what)
    }


@pytest.mark.parametrize(("what", "kinds"), [("WISH", wish_kinds()), ("ADDRESS", address_kinds())])
def test_kind_lives_in_the_module_of_its_name(what, kinds):
    for kind, module in exported(what).items():
        assert module.rpartition(".")[2] == kind.replace("-", "_")
        assert kinds[kind] is getattr(MODULES[module], what)
    assert set(kinds) == {*exported(what)}
    assert len(exported(what)) > 10


def test_names_are_those_of_all_modules():
    paths = (path.relative_to(FOLDER) for path in FOLDER.rglob("*.py") if path.stem != "__init__")
    assert sorted(NAMES) == sorted(".".join(path.with_suffix("").parts) for path in paths)


def test_no_two_modules_have_one_name():
    assert [
        name
        for name, times in Counter(name.rpartition(".")[2] for name in MODULES).items()
        if times > 1
    ] == []


def test_module_without_a_kind_is_none():
    assert "base" not in wish_kinds()
    assert "steps" not in address_kinds()
    assert "quantum" not in address_kinds()


def test_kind_is_found_without_importing_others():
    code = (
        "import sys; from hosttune.resources import wish_kinds; wish_kinds()['limit'];"
        "print(*(name for name in sys.modules if name.startswith('hosttune.resources.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert "hosttune.resources.limits.limit" in done.stdout.split()
    assert not {name for name in done.stdout.split() if ".storage" in name or ".packages" in name}


def test_self_contained_file_carries_the_list(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent.parent / "playbooks" / "packaging"))
    listed = import_module("bundle").package()["hosttune/resources/modules.txt"]
    assert listed.decode().split() == NAMES
    monkeypatch.setattr(
        "hosttune.resources.own_file", lambda name: b"far.away" if name == resources.LIST else None
    )
    list_modules.cache_clear()
    try:
        assert list_modules() == {"away": "far.away"}
    finally:
        list_modules.cache_clear()


def test_address_of_another_version_can_nothing_and_says_so():
    kind = kind_of(Address("quantum", "flux"))
    read = kind.read(None, "flux")
    assert isinstance(read, Unreadable)
    assert read.reason == "this version of hosttune does not know what quantum:flux is"


def test_kind_that_tells_no_way_by_hand_cannot_be_made():
    class Silent(AddressKind):
        def read(self, reader, name):
            raise NotImplementedError

        def write(self, writer, change):
            raise NotImplementedError

    with pytest.raises(TypeError, match="by_hand"):
        Silent()
