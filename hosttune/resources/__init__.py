"""Resources: what a rule can want, and the places that hold the values. The registry is the folder:
a kind lives in the module of its name, `data-mount` in `<domain>/data_mount.py` or here, which
exports it as `WISH`, as `ADDRESS`, or both.

A module is imported when its kind is asked for, so that a check imports only those that its rules
use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hosttune.host.masking.cleaned import clean
from hosttune.textfiles import module_names, own_file

if TYPE_CHECKING:
    from hosttune.resources.base import AddressKind, WishKind
    from hosttune.values import Address, Change

LIST = "resources/modules.txt"


@cache
def list_modules() -> Mapping[str, str]:
    """The modules in this folder by the last part of their names, `data_mount` ->
    `storage.data_mount`. The self-contained file carries a list of them: to find one in an archive
    takes as long as to read it.
    """
    listed = own_file(LIST)
    names = listed.decode().split() if listed is not None else module_names(*__path__)
    return {name.rpartition(".")[2]: name for name in names}


class _Kinds(Mapping[str, Any]):
    """Kinds by name; a module is imported when its kind is asked for."""

    def __init__(self, export: str) -> None:
        self._export = export
        self._found: dict[str, Any] = {}

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._found:
            self._found[kind] = self._find(kind)
        return self._found[kind]

    def _find(self, kind: str) -> Any:
        found = getattr(
            import_module(f"{__name__}.{list_modules()[kind.replace('-', '_')]}"),
            self._export,
            None,
        )
        if found is None:
            raise KeyError(kind)
        return found

    def __iter__(self) -> Iterator[str]:
        names = (name.replace("_", "-") for name in sorted(list_modules()))
        return iter([name for name in names if name in self])

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def wish_kinds() -> Mapping[str, WishKind]:
    """Every wish kind by the key that a rule writes."""
    return _Kinds("WISH")


@cache
def address_kinds() -> Mapping[str, AddressKind]:
    """Every address kind by the part of an address before the colon."""
    return _Kinds("ADDRESS")


def kind_of(address: Address) -> AddressKind:
    """The kind of this address; of one that only another version of hosttune knows, one that can
    nothing.
    """
    # A journal outlives the version that wrote it. One entry of an unknown kind must not keep the
    # others from an undo.
    kind = address_kinds().get(address.kind)
    if kind is None:
        from hosttune.resources.unknown import Unknown

        return Unknown(address.kind)
    return kind


def describe_place(address: Address) -> str:
    """The address on one line for people; JSON, the journal and policies keep `str(address)`."""
    return clean(kind_of(address).describe(address.name))


def by_kind(changes: Iterable[Change]) -> list[tuple[AddressKind, list[Change]]]:
    """The changes of each kind together, in the order in which the first of each comes."""
    own: dict[str, list[Change]] = {}
    for change in changes:
        own.setdefault(change.address.kind, []).append(change)
    return [(kind_of(some[0].address), some) for some in own.values()]


def locate_address(address: Address) -> tuple[str, str]:
    """What an address looks at: two kinds that see the same thing have one place."""
    return kind_of(address).shares or address.kind, address.name
