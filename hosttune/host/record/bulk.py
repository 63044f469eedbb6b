"""Whether a whole table of a record is as it should be, at the speed of C: a record has tens of
thousands of entries, and as a rule none of them is wrong. A table that is not sound for sure is
looked at entry by entry (record_check.py). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from hosttune.host.reading.paths import PATH_MAX

STAT_TYPES: Final = frozenset({"file", "directory", "link", "block", "character", "fifo", "socket"})
_BETWEEN: Final = "\1"
_NO_NAMES: Final = frozenset({"", ".", ".."})
_first = itemgetter(0)
_rest = itemgetter(slice(1, None))


def are_sound(table: str, entries: Mapping[str, Any]) -> bool:
    """Whether every key and entry is sound for sure; where one of them is not plain, none is
    believed.
    """
    kind, test = _TABLES[table]
    plain = [
        entry
        for entry in entries.values()
        if not (type(entry) is dict and entry == {"absent": True})
    ]
    return not entries or (_are_paths(entries) and _are_all(plain, kind) and test(plain))


def _are_all(values: Iterable[Any], kind: type) -> bool:
    return set(map(type, values)) <= {kind}


def _are_paths(paths: Collection[str]) -> bool:
    """Absolute, not too long, without NUL. A path that holds the separator is not believed here."""
    text = _BETWEEN.join(paths)
    return (
        text.startswith("/")
        and text.count(_BETWEEN) == text.count(f"{_BETWEEN}/") == len(paths) - 1
        and "\0" not in text
        and max(map(len, paths)) <= PATH_MAX
    )


def _are_texts(values: list[str]) -> bool:
    del values
    return True


def _are_links(values: list[str]) -> bool:
    return max(map(len, values), default=0) <= PATH_MAX


def _are_listings(values: list[list[Any]]) -> bool:
    names = list(chain.from_iterable(values))
    return (
        _are_all(names, str)
        and _NO_NAMES.isdisjoint(names)
        and not {"/", "\0"} & set("".join(names))
    )


def _are_stats(values: list[list[Any]]) -> bool:
    return (
        set(map(len, values)) <= {10}
        and _are_all(map(_first, values), str)
        and set(map(_first, values)) <= STAT_TYPES
        and _are_all(chain.from_iterable(map(_rest, values)), int)
    )


def _are_known_paths(values: list[str]) -> bool:
    return not values or _are_paths(values)


_TABLES: Final[Mapping[str, tuple[type, Callable[[Any], bool]]]] = {
    "files": (str, _are_texts),
    "links": (str, _are_links),
    "listings": (list, _are_listings),
    "stats": (list, _are_stats),
    "lstats": (list, _are_stats),
    "paths": (str, _are_known_paths),
    "spaces": (object, lambda _: False),  # few, and of a shape of their own
    "usages": (object, lambda _: False),
}
