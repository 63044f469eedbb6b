"""The same host after another boot: all that the kernel, udev and systemd number or list as it comes is in another order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any


_HEADED = ("/proc/swaps", "/proc/net/route")
_TABLES_OF_LINES = ("/proc/mounts", "/proc/self/mounts")


def shuffled(data: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """A record with its folders, mount tables, devices, processes and the rows of its answers in another order."""
    mix = Random(seed)
    files = {path: _file(path, text, mix) if isinstance(text, str) else text for path, text in data["files"].items()}
    listings = {path: _mixed(names, mix) if isinstance(names, list) else names for path, names in data["listings"].items()}
    processes = data.get("processes")
    queries = [one | {"stdout": _answer(one["argv"], one["stdout"], mix)} if "stdout" in one else one for one in data.get("queries", ())]
    return {**data, "files": files, "listings": listings, "queries": queries} | (
        {"processes": _mixed(processes, mix)} if isinstance(processes, list) else {}
    )


def _mixed(listed: list[Any], mix: Random) -> list[Any]:
    return mix.sample(listed, len(listed))


def _file(path: str, text: str, mix: Random) -> str:
    lines = text.splitlines(keepends=True)
    if path == "/proc/self/mountinfo":
        return "".join(mount_order(lines, mix))
    if path in _HEADED:
        return "".join([*lines[:1], *_mixed(lines[1:], mix)])
    return text


def mount_order(lines: list[str], mix: Random) -> list[str]:
    """Another order in which the same mounts can have been made: a mount comes after the one that it lies on, and of
    those at one place each stays above the one before.
    """
    waiting, done, order = list(lines), set[str](), []
    numbers = {line.split()[0] for line in lines}
    while waiting:
        free = []
        places = set()
        for line in waiting:
            number, parent, _, _, place = line.split()[:5]
            if (parent in done or parent not in numbers or parent == number) and place not in places:
                free.append(line)
            places.add(place)
        line = mix.choice(free)
        waiting.remove(line)
        done.add(line.split()[0])
        order.append(line)
    return order


def _answer(argv: list[str], text: str, mix: Random) -> str:
    lines = text.splitlines(keepends=True)
    match argv[0]:
        case "lsblk" | "wipefs":
            return json.dumps(_tree(json.loads(text), mix)) if text else text
        case "blkid":
            return "".join(_mixed(lines, mix))
    return text


def _tree(value: Any, mix: Random) -> Any:
    if isinstance(value, list):
        return _mixed([_tree(one, mix) for one in value], mix)
    if isinstance(value, dict):
        return {name: _tree(one, mix) for name, one in value.items()}
    return value
