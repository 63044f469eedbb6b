"""Whether a record has the shape that its reader relies on: every type is looked at, nothing is
trusted. What a later version added to it is passed over. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hosttune.codec import other_format
from hosttune.errors import Fault, Where
from hosttune.host.reading.paths import PATH_MAX
from hosttune.host.record.bulk import STAT_TYPES, are_sound

_MAX_FAULTS: Final = 20


def _is_int(value: Any) -> bool:
    # Python takes a bool for an int; in JSON true is not a number.
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(value: Any) -> bool:
    """Seconds since the epoch that a calendar knows: up to the year 9999."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 253_402_300_800
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_content(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if not (isinstance(value, dict) and isinstance(value.get("base64"), str)):
        return False
    try:
        base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_name(value: Any) -> bool:
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and "/" not in value
        and "\0" not in value
    )


def _is_listing(value: Any) -> bool:
    return isinstance(value, list) and all(_is_name(item) for item in value)


def _is_stat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 10
        and isinstance(value[0], str)
        and value[0] in STAT_TYPES
        # JSON knows no subclasses, and a record has thousands of these
        and set(map(type, value[1:])) == {int}
    )


def _is_space(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) in {4, 5}
        and all(_is_int(item) and item >= 0 for item in value)
    )


def _is_usage(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(_is_int(item) and item >= 0 for item in value[:2])
        and _is_bool(value[2])
    )


def _is_path(value: Any) -> bool:
    return _is_link(value) and value.startswith("/") and "\0" not in value


def _is_link(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= PATH_MAX


def _is_completed(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_int(value.get("status"))
        and _is_content(value.get("stdout"))
        and _is_content(value.get("stderr"))
    )


def _is_process(value: Any) -> bool:
    shape: Mapping[str, Callable[[Any], bool]] = {
        "pid": _is_int, "name": _is_text, "user": _is_text, "command": _is_texts,
        "rss_bytes": _is_int, "swap_bytes": _is_int, "devices": _is_texts, "cgroup": _is_text,
        "started_at": is_time,
    }  # fmt: skip
    later: Mapping[str, Callable[[Any], bool]] = {
        "parent": _is_int, "cpus": _is_int, "variables": _is_texts, "uid": _is_int,
        "program": _is_text,
    }  # fmt: skip
    return (
        isinstance(value, dict)
        and set(shape) <= set(value)
        and all(test(value[key]) for key, test in {**shape, **later}.items() if key in value)
    )


def _is_processes(value: Any) -> bool:
    return isinstance(value, list) and all(_is_process(item) for item in value)


def _is_words(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_HEAD: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "tool_version": (_is_text, "text"),
    "made_at": (is_time, "seconds since the epoch"),
    "name": (_is_text, "text"),
    "machine": (_is_text, "text"),
    "privileged": (_is_bool, "true or false"),
    "persistent_only": (_is_bool, "true or false"),
}
_TABLES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "files": (_is_content, 'text or {"base64": ...}'),
    "links": (_is_link, f"text of at most {PATH_MAX} characters"),
    "listings": (_is_listing, "a list of names"),
    "stats": (_is_stat, "[type, mode, uid, gid, size, mtime_ns, device, inode, links, rdev]"),
    "lstats": (_is_stat, "[type, mode, uid, gid, size, mtime_ns, device, inode, links, rdev]"),
    "paths": (_is_path, "an absolute path"),
    "spaces": (
        _is_space,
        "[total_bytes, available_bytes, total_inodes, available_inodes, reserved_bytes]",
    ),
    "usages": (_is_usage, "[size_bytes, entries, is_complete]"),
}


def check_record(data: Mapping[str, Any], file: str) -> tuple[Fault, ...]:
    """What is wrong with a record, at most 20 faults."""
    faults: list[Fault] = []
    for field, message, hint in _find_faults(data):
        faults.append(Fault(Where(file or "record", field=field), message, hint))
        if len(faults) == _MAX_FAULTS:
            break
    return tuple(faults)


def _find_faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if data.get("kind") != "hosttune record" or not _is_int(data.get("format_version")):
        yield "kind", 'is not "hosttune record"', "a record is made by: sudo hosttune record FILE"
        return
    if wrong := other_format(data):
        yield "format_version", *wrong
        return
    for key, (test, meaning) in _HEAD.items():
        if not test(data.get(key)):
            yield key, f"must be {meaning}", ""
    for table, (test, meaning) in _TABLES.items():
        entries = data.get(table, {})
        if not isinstance(entries, dict):
            yield table, "must be an object", ""
            continue
        if are_sound(table, entries):
            continue
        for path, entry in entries.items():
            if not _is_path(path):
                yield f"{table}.{path[:200]}", "the key must be an absolute path", ""
            elif not (test(entry) or _is_refusal(entry)):
                yield f"{table}.{path}", f"must be {meaning}", ""
    yield from _other_faults(data)


def _other_faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    queries = data.get("queries", [])
    if not isinstance(queries, list):
        yield "queries", "must be a list", ""
        queries = []
    for index, entry in enumerate(queries):
        if not (isinstance(entry, dict) and _is_texts(entry.get("argv")) and entry["argv"]):
            yield f"queries[{index}].argv", "must be a list of text", ""
        elif not (_is_refusal(entry) or _is_completed(entry)):
            yield f"queries[{index}]", "must have status, stdout and stderr", ""
    for key, test in (("processes", _is_processes), ("os_release", _is_words)):
        if key in data and not (_is_refusal(data[key]) or test(data[key])):
            yield key, "has another shape than format 1", ""


def _is_refusal(entry: Any) -> bool:
    return isinstance(entry, dict) and (
        entry.get("absent") is True or isinstance(entry.get("unreadable"), str)
    )
