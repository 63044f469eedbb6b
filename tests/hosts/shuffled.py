"""The same host after another boot: all that the kernel, udev and systemd number or list as it
comes is in another order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordReader
from hosttune.values import FileValue

_HEADED = ("/proc/swaps", "/proc/net/route", "/proc/fs/nfsfs/volumes", "/proc/fs/nfsfs/servers")
_LISTS = ("/proc/modules", "/proc/filesystems")
_OF_PACKAGES = ("driver ", "nvidia-driver-", "linux-modules-", "Inst ", "Remv ", "Conf ")


def another_boot(host: Overlay, seed: int) -> Overlay:
    """The host with its folders, mount tables, devices, processes and the rows of its answers in
    another order.
    """
    mix = Random(seed)  # noqa: S311 - an order, no secret
    record = host.base
    assert isinstance(record, RecordReader)
    booted = Overlay(RecordReader(_shuffled(record.data, mix), record.file))
    booted.links.update(host.links)
    booted.files.update(
        (
            path,
            replace(
                found, content=_file(path, found.content.decode("latin-1"), mix).encode("latin-1")
            ),
        )
        if isinstance(found, FileValue)
        else (path, found)
        for path, found in host.files.items()
    )
    return booted


def _shuffled(data: Mapping[str, Any], mix: Random) -> dict[str, Any]:
    files = {
        path: _file(path, text, mix) if isinstance(text, str) else text
        for path, text in data["files"].items()
    }
    folders = {
        path: _mixed(names, mix) if isinstance(names, list) else names
        for path, names in data["listings"].items()
    }
    queries = [
        one | {"stdout": _answer(one["argv"], one["stdout"], mix)} if "stdout" in one else one
        for one in data.get("queries", ())
    ]
    processes = data.get("processes")
    mixed = {"processes": _mixed(processes, mix)} if isinstance(processes, list) else {}
    return {**data, "files": files, "listings": folders, "queries": queries, **mixed}


def _mixed(listed: list[Any], mix: Random) -> list[Any]:
    return mix.sample(listed, len(listed))


def _file(path: str, text: str, mix: Random) -> str:
    lines = text.splitlines(keepends=True)
    if path == "/proc/self/mountinfo":
        return "".join(_mount_order(lines, mix))
    if path in _HEADED:
        return "".join([*lines[:1], *_mixed(lines[1:], mix)])
    if path in _LISTS:
        return "".join(_mixed(lines, mix))
    if path == "/var/lib/dpkg/status":  # dpkg writes it as its table of packages is in memory
        packages = [package for package in text.split("\n\n") if package.strip()]
        return "\n\n".join(package.rstrip("\n") for package in _mixed(packages, mix)) + "\n"
    return text


def _mount_order(lines: list[str], mix: Random) -> list[str]:
    """Another order in which the same mounts can have been made: a mount comes after the one that
    it lies on, and of those at one place each stays above the one before.
    """
    waiting, done, order = list(lines), set[str](), []
    numbers = {line.split()[0] for line in lines}
    while waiting:
        free = []
        places = set()
        for line in waiting:
            number, parent, _, _, place = line.split()[:5]
            if (
                parent in done or parent not in numbers or parent == number
            ) and place not in places:
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
        case "ubuntu-drivers" | "apt-get":  # both go through sets and tables of packages
            mixed = iter(_mixed([line for line in lines if line.startswith(_OF_PACKAGES)], mix))
            return "".join(next(mixed) if line.startswith(_OF_PACKAGES) else line for line in lines)
    return text


def _tree(value: Any, mix: Random) -> Any:
    if isinstance(value, list):
        return _mixed([_tree(one, mix) for one in value], mix)
    if isinstance(value, dict):
        return {name: _tree(one, mix) for name, one in value.items()}
    return value
