"""Where container images lie, and on what file system: Docker's data-root and the root of containerd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.mounts import Mount
    from hosttune.host.door import Reader


@frozen
class Store(Fact):
    """A folder that grows with every image and container."""

    name: str  # docker | containerd
    path: str
    mount: str  # the target of the mount that it lies on
    fstype: str
    is_network: bool
    is_rotational: bool
    available_bytes: int
    is_small: bool  # it shares the system's disk, while a local data disk that is no slower has twice its space


@frozen
class Stores(Fact):
    """The stores of the engines that are installed."""

    all: tuple[Store, ...]


def mount_of(path: str, mounts: Mapping[str, Mount]) -> Mount | None:
    """The mount that a path lies on, by names alone."""
    while path not in mounts:
        if path in {"/", ""}:
            return None
        path = path.rpartition("/")[0] or "/"
    return mounts[path]


def collect(reader: Reader, facts: Facts) -> Stores:
    try:
        mounts, data = facts.mounts.at, facts.mounts.local_data
        paths = tuple(_paths(facts))
    except UnknownFact as unknown:
        return Stores(unread(unknown.reason))
    found = []
    for name, path in paths:
        real = reader.resolve(path)
        place = real if isinstance(real, str) else path
        if mount := mount_of(place, mounts):
            found.append(_store(name, place, mount, data))
    return Stores(tuple(found))


def _paths(facts: Facts) -> Iterable[tuple[str, str]]:
    docker = facts.docker
    if docker.is_installed:
        yield "docker", docker.data_root
    engines = facts.containers.engines
    has_containerd = any(name.startswith("containerd") for name in engines)
    if has_containerd and (not docker.is_installed or docker.images != "docker" or facts.managers.kubelet):
        yield "containerd", facts.containers.containerd_root


def _store(name: str, path: str, mount: Mount, data: Iterable[Mount]) -> Store:
    rotational: Any = raw(mount, "is_rotational")
    available: Any = raw(mount, "available_bytes")
    try:
        is_small: Any = mount.target in {"/", "/var", "/var/lib"} and any(
            one.available_bytes > 2 * mount.available_bytes and one.is_rotational <= mount.is_rotational for one in data
        )
    except UnknownFact as unknown:
        is_small = unread(unknown.reason)
    return Store(
        name, path, mount.target, mount.fstype, raw(mount, "is_network"), rotational, available, is_small  # type: ignore[arg-type]
    )  # fmt: skip
