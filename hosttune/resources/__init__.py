"""Resources: what a rule can want, and the places that hold the values. One module per kind; the folder is the
registry.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.resources.base import AddressKind, WishKind


@cache
def _kinds(export: str) -> Mapping[str, Any]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {kind.kind: kind for module in modules for kind in getattr(module, export, ())}


def wish_kinds() -> Mapping[str, WishKind]:
    """Every wish kind by the key that a rule writes."""
    return _kinds("WISHES")


def address_kinds() -> Mapping[str, AddressKind]:
    """Every address kind by the part of an address before the colon."""
    return _kinds("ADDRESSES")
