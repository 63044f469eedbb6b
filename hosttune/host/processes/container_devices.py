"""The device nodes that a container was given, by what its engine gave the runtime, never by what
is in its /dev.

Root of a container may make any node there: the capability for it is in the default set of Docker
and containerd, and the device control group only refuses to open it. And the container chooses
where its /dev leads. `devices-of ID` is no program: it is how facts ask, and how a record keeps the
answer. The file that is read here has the environment of the container, too, and only names below
/dev leave this module.

Source: OCI runtime specification, config.json, linux.devices. Device plugins of Kubernetes, CDI and
`--device` are in it; what the NVIDIA runtime mounts later is in the mount table of the container
(facts/work.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from hosttune.host.door import Completed
from hosttune.host.reading.tree import FileTree
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Answer, Unreadable

NAME = "devices-of"
_ID = regex(r"[0-9a-f]{12,64}")
_DEVICE = regex(r"/dev/([A-Za-z0-9_.:-]{1,64})")
_MOST_NAMESPACES = 64
# Where containerd keeps the bundles of running containers, by engine; below it namespaces: moby,
# k8s.io, default.
_CONTAINERD = tuple(
    f"{state}/io.containerd.runtime.{version}"
    for version in ("v2.task", "v1.linux")
    for state in (
        "/run/containerd",
        "/run/docker/containerd/daemon",
        "/run/k3s/containerd",
        "/run/snap.docker/containerd/daemon",
        "/var/snap/microk8s/common/run/containerd",
    )
)
_PODMAN = tuple(
    f"{storage}/{driver}-containers"
    for storage in ("/run/containers/storage", "/var/lib/containers/storage")
    for driver in ("overlay", "vfs", "btrfs", "zfs")
)


def ask(argv: Sequence[str]) -> Answer[Completed]:
    """The names below /dev, as JSON; ABSENT if no engine that is known here runs the container."""
    _, container = argv
    if not _ID.fullmatch(container):
        return ABSENT
    tree = FileTree("/")
    for path in _list_paths(tree, container):
        content, strangers = tree.read_guarded(path)
        if isinstance(content, Absent):
            continue
        # Unknown, not absent: the next place must not answer for a container whose file could not
        # be read.
        if isinstance(content, Unreadable):
            return content
        if strangers:
            return Unreadable(str(strangers[0]))
        names = devices_in(content)
        return (
            names
            if isinstance(names, Unreadable)
            else Completed(0, json.dumps(names).encode(), b"")
        )
    return ABSENT


def devices_in(content: bytes) -> list[str] | Unreadable:
    """The names below /dev that a config.json gives to the container."""
    try:
        devices = json.loads(content)["linux"].get("devices") or []
        paths = [one["path"] for one in devices]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Unreadable(
            "the config.json of the container is not one of the OCI runtime specification"
        )
    found = (_DEVICE.fullmatch(path) for path in paths if isinstance(path, str))
    return sorted({match[1] for match in found if match})


def _list_paths(tree: FileTree, container: str) -> Iterator[str]:
    for folder in _CONTAINERD:
        namespaces = tree.list(folder)
        if isinstance(namespaces, tuple):
            for name in namespaces[:_MOST_NAMESPACES]:
                yield f"{folder}/{name}/{container}/config.json"
    for folder in _PODMAN:
        yield f"{folder}/{container}/userdata/config.json"
