"""Docker as its files describe it: the package, daemon.json and the flags of its unit. The daemon
is not asked.

Sources: dockerd(8) and docs.docker.com/reference/cli/dockerd: an option that is both in daemon.json
and among the flags keeps the daemon from starting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.containers.docker_flags import UNIT, given_by_unit
from hosttune.facts.reading import derive, if_absent, is_there, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

DAEMON_JSON = "/etc/docker/daemon.json"
PACKAGES = ("docker-ce", "docker.io", "moby-engine")
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
# A list of what is shown, not of what is hidden: an option of a newer Docker may hold a password.
_SHOWN = frozenset({
    "config-file", "data-root", "default-runtime", "default-shm-size", "exec-opts", "live-restore",
    "log-driver", "storage-driver", "userns-remap",
})  # fmt: skip
_SHOWN_TABLES = ("default-ulimits.", "features.", "log-opts.m", "log-opts.compress", "runtimes.")
_LISTS = frozenset(
    {"exec-opts", "hosts", "insecure-registries", "labels", "registry-mirrors", "storage-opts"}
)
_HIDDEN = "set"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@frozen
class Flag(Fact):
    """One option on the command line of dockerd, under the name of daemon.json, a dot between
    levels.
    """

    key: str  # log-driver, log-opts.max-size
    value: str  # `true` for one without; what may hold a password is `set`
    path: str  # the unit file or drop-in that gives it


@frozen
class Docker(Subject):
    """Docker Engine. Texts are empty where nothing says so."""

    # of the package, as upstream counts: 28.1.1; empty without one
    version: str = read_with(lambda self: _read_version(self.facts))
    is_running: bool = read_with(lambda self: _is_running(self.reader))  # its daemon runs

    @fact
    def settings(self) -> Mapping[str, str]:
        """Of daemon.json: "log-driver", "log-opts.max-size", lists with commas."""
        return self._configuration[0]

    @fact
    def given(self) -> tuple[Flag, ...]:
        """The options with which its unit starts it."""
        given = given_by_unit(self.reader, self.facts)
        return tuple(
            Flag(key, value if _is_shown(key) else _HIDDEN, path) for key, value, path in given
        )

    @fact
    def runtimes(self) -> tuple[str, ...]:
        """That daemon.json adds."""
        return self._configuration[1]

    # docker.service is there
    has_unit: bool = read_with(
        lambda self: self.facts.unit_settings[f"{UNIT}/Service/ExecStart"].exists
    )

    @fact
    def _configuration(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        return derive(
            if_absent(read_text(self.reader, DAEMON_JSON), ""), DAEMON_JSON, parse_daemon_json
        )

    @property
    def flags(self) -> Mapping[str, str]:
        """What its unit starts it with, under the names of daemon.json."""
        found: dict[str, str] = {}
        for one in self.given:
            # Of an option that may be given again dockerd takes all, of another one the last.
            is_more = one.key in _LISTS and one.key in found and found[one.key] != _HIDDEN
            found[one.key] = f"{found[one.key]},{one.value}" if is_more else one.value
        return found

    @property
    def is_installed(self) -> bool:
        """Whether Docker is installed."""
        return self.version != ""

    @property
    def in_force(self) -> Mapping[str, str]:
        """What daemon.json and the flags say together."""
        return {**self.settings, **self.flags}

    @property
    def data_root(self) -> str:
        """Where Docker keeps containers and volumes, and images unless containerd does."""
        return self.in_force.get("data-root", "") or "/var/lib/docker"

    @property
    def images(self) -> str:
        """Who keeps the images: containerd | docker; unsaid where no setting decides for Docker
        29 and newer, which ask containerd where they were installed afresh and not where they were
        upgraded to.
        """
        choice = self.in_force.get("features.containerd-snapshotter", "")
        if choice:
            return "containerd" if choice == "true" else "docker"
        if not self.is_installed:
            return "docker"
        # An unknown version may be a new one.
        return "unsaid" if parse_digits(self.version.partition(".")[0], 29) >= 29 else "docker"

    @property
    def cgroup_driver(self) -> str:
        """Who makes the control groups: systemd (the default with cgroup v2) | cgroupfs."""
        words = self.in_force.get("exec-opts", "").split(",")
        return next(
            (word.partition("=")[2] for word in words if word.startswith("native.cgroupdriver=")),
            "systemd",
        )

    @property
    def log_driver(self) -> str:
        """The log driver that the daemon uses; json-file where nothing else is set."""
        return self.in_force.get("log-driver", "") or "json-file"

    @property
    def shm_size(self) -> str:
        """default-shm-size, as it is written; 64M is Docker's default."""
        return self.in_force.get("default-shm-size", "") or "64M"

    @property
    def shm_mib(self) -> int:
        """default-shm-size in MiB; 0 for what is no size."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?b?", self.shm_size.lower())
        return int(float(match[1]) * _UNITS[match[2]]) >> 20 if match else 0

    @property
    def flagged(self) -> tuple[str, ...]:
        """The options that the flags give: those must not stand in daemon.json."""
        return tuple(sorted({key.partition(".")[0] for key in self.flags}))

    @property
    def twice(self) -> tuple[str, ...]:
        """Options that stand in daemon.json and among the flags: dockerd does not start with
        them.
        """
        both = {key.partition(".")[0] for key in self.settings} & {
            key.partition(".")[0] for key in self.flags
        }
        return tuple(sorted(both - {"runtimes"}))  # the one option that is merged


def parse_daemon_json(content: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """(settings with dots between levels, names of the runtimes). Raises ValueError for what
    dockerd would not take.
    """
    data = json.loads(content) if content.strip() else {}
    if not isinstance(data, dict):
        message = "no JSON object"
        raise ValueError(message)  # noqa: TRY004 - a fault of the file
    runtimes = data.get("runtimes")
    return drop_secrets(_flatten(data)), tuple(sorted(runtimes)) if isinstance(
        runtimes, dict
    ) else ()


def _flatten(data: Mapping[str, Any], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{above}{key}.")
        elif isinstance(value, list):
            found[f"{above}{key}"] = ",".join(map(str, value))
        else:
            found[f"{above}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def drop_secrets(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings without what may hold a password (proxies, tokens of log drivers): of those only
    the names.
    """
    return {key: value if _is_shown(key) else _HIDDEN for key, value in settings.items()}


def _is_shown(key: str) -> bool:
    return key in _SHOWN or key.startswith(_SHOWN_TABLES)


def _read_version(facts: Facts) -> str:
    held = (facts.packages[name] for name in PACKAGES)
    # An empty version would read as no Docker.
    return next((upstream_of(one.version) or "unknown" for one in held if one.is_installed), "")


def _is_running(reader: Reader) -> bool:
    # The control group is there only while the service runs; docker.socket makes its socket without
    # it.
    return not reader.persistent_only and any(
        is_there(reader, f"{folder}/{UNIT}") for folder in _GROUPS
    )
