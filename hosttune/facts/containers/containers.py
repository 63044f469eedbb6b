"""What gives containers their GPUs: NVIDIA's toolkit, CDI specifications, containerd and runc, as
their files say.

Sources: containerd-config.toml(5), the CDI specification (/etc/cdi and /var/run/cdi), config.toml
of nvidia-container-runtime; opencontainers/runc#3842 for what runc does with devices that have no
link in /dev/char.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.containers.kubernetes import UNIT_PATTERNS
from hosttune.facts.globs import fits_glob
from hosttune.facts.managers import running_services
from hosttune.facts.reading import if_absent, is_there, names_in, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

CONTAINERD = "/etc/containerd/config.toml"
RUNTIME = "/etc/nvidia-container-runtime/config.toml"
CDI = ("/etc/cdi", "/var/run/cdi")
_ENGINES = ("docker-ce", "docker.io", "moby-engine", "containerd.io", "containerd", "podman")
# snapd writes the unit at the installation and takes it away at the removal; the group is there
# while it runs.
_DOCKER_SNAP = (
    "/etc/systemd/system/snap.docker.dockerd.service",
    "/sys/fs/cgroup/system.slice/snap.docker.dockerd.service",
)  # fmt: skip
_NVIDIA_MAJOR = 195  # of /dev/nvidia0 and its like (kernel: admin-guide/devices.txt)
_LIBRARY = regex(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)")
_TOP_ROOT = regex(r"^[ \t]*root[ \t]*=[ \t]*[\"']([^\"']+)", re.MULTILINE)
_TABLE = regex(r"^[ \t]*\[", re.MULTILINE)
_RUNTIME_TABLE = regex(r"^[ \t]*\[nvidia-container-runtime\][ \t\r]*$", re.MULTILINE)
# Not the runtimes of other makers: nvidia, nvidia-cdi, nvidia-legacy.
_NVIDIA = regex(
    r"nvidia-container-runtime|^[ \t]*\[[^\]\n]{0,200}\bruntimes\.[\"']?nvidia\b", re.MULTILINE
)
_IMPORTS = regex(r"^[ \t]*imports[ \t]*=[ \t]*\[([^\]]*)\]", re.MULTILINE)
_NO_CRI = regex(
    r"^[ \t]*disabled_plugins[ \t]*=[ \t]*\[[^\]]{0,1000}[\"']"
    r"(?:io\.containerd\.grpc\.v1\.)?cri[\"']",
    re.MULTILINE,
)
_KUBELET = "kubelet.service"
# With one of these, pods are started by another engine, or by another containerd.
_OTHERS = (*(one for one in UNIT_PATTERNS if one != _KUBELET), "crio.service", "cri-docker.service")
_QUOTED = regex(r"[\"']([^\"'\n]+)[\"']")
_MOST_IMPORTS = 64
_LXC, _MOST_LXC = "/etc/pve/lxc", 1000
_GIVES_UVM = regex(
    r"^(?:dev\d{1,3}|lxc\.mount\.entry)[ \t]*[:=][ \t]*(?:path=)?/dev/nvidia-uvm(?![\w-])",
    re.MULTILINE,
)
_OPERATOR_TOOLKIT = "/usr/local/nvidia/toolkit"
_DRIVER_ROOT = regex(
    r"^\[nvidia-container-cli\]\n(?:(?!\[)[^\n]*\n)*?[ \t]*root[ \t]*=[ \t]*[\"'](/[^\"'\n]+)[\"']",
    re.MULTILINE,
)
_NO_CGROUPS = regex(r"^[ \t]*no-cgroups[ \t]*=[ \t]*true\b", re.MULTILINE)
_MODE = regex(r"^[ \t]*mode[ \t]*=[ \t]*[\"']([^\"']+)", re.MULTILINE)


@frozen
class CdiSpec(Fact):
    """A CDI specification of NVIDIA GPUs."""

    path: str  # its file
    driver: str  # the version of the driver whose libraries it names; empty where it names none


@frozen
class Containers(Subject):
    """What gives containers their GPUs. Texts are empty where there is no such thing."""

    @fact
    def engines(self) -> tuple[str, ...]:
        """Packages of Docker, containerd and Podman that are installed."""
        return tuple(name for name in _ENGINES if self.facts.packages[name].is_installed)

    # Docker is installed as a snap
    has_docker_snap: bool = read_with(
        lambda self: any(is_there(self.reader, path) for path in _DOCKER_SNAP)
    )
    # of nvidia-container-toolkit: 1.18.1
    toolkit_version: str = read_with(
        lambda self: _read_version(self.facts, "nvidia-container-toolkit")
    )

    @fact
    def toolkit_mode(self) -> str:
        """Of nvidia-container-runtime: auto | legacy | cdi ...; empty without its configuration."""
        config = read_text(self.reader, RUNTIME)
        return "" if config is ABSENT else mode_of(config)

    @fact
    def leaves_cgroups(self) -> bool:
        """Its hook tells no control group of the GPUs (no-cgroups), as containers without root want
        it.
        """
        return bool(_NO_CGROUPS.search(if_absent(read_text(self.reader, RUNTIME), "")))

    @fact
    def empty_root(self) -> str:
        """Where its hook looks for the driver (root of nvidia-container-cli), if nothing is there;
        else empty.

        A folder of a driver container (/run/nvidia/driver) that is left in the configuration beside
        a driver of the host (NVIDIA/nvidia-docker issue 1711).
        """
        match = _DRIVER_ROOT.search(if_absent(read_text(self.reader, RUNTIME), ""))
        # A folder that is there but empty is as bad as none: the mount of the driver container
        # leaves its mount point behind.
        return match[1] if match and not names_in(self.reader, match[1]) else ""

    # of the package; containerd.io brings a runc of its own
    runc_version: str = read_with(lambda self: _read_version(self.facts, "runc"))
    # the package that the toolkit replaced
    has_nvidia_docker2: bool = read_with(
        lambda self: self.facts.packages["nvidia-docker2"].is_installed
    )

    @fact
    def containerd_root(self) -> str:
        """Where containerd keeps images."""
        return root_of(self._config)

    @fact
    def runs_pods(self) -> bool:
        """kubelet.service starts pods by containerd, as far as its configuration and other units
        tell.

        Docker's package brings a configuration in which CRI is off.
        """
        units = {*self.facts.units.enabled, *running_services(self.reader)}
        if _KUBELET not in units or any(
            fits_glob(unit, pattern) for unit in units for pattern in _OTHERS
        ):
            return False
        return self._config != "" and not _NO_CRI.search(self._config)

    @fact
    def has_containerd_nvidia(self) -> bool:
        """That, or a file that it imports, has the runtime `nvidia` or nvidia-container-runtime."""
        return any(map(_NVIDIA.search, _find_configs(self.reader, self._config)))

    @fact
    def has_operator_toolkit(self) -> bool:
        """The GPU Operator installed its toolkit here."""
        return is_there(self.reader, f"{_OPERATOR_TOOLKIT}/nvidia-container-runtime")

    # the package of enroot is installed
    has_enroot: bool = read_with(lambda self: self.facts.packages["enroot"].is_installed)

    @fact
    def given_uvm(self) -> tuple[str, ...]:
        """Files of Proxmox VE's containers that give them /dev/nvidia-uvm (pct.conf(5)), sorted.

        `dev0: /dev/nvidia-uvm`, or `lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm ...`. Below a
        first [NAME] are snapshots (pct.conf(5)).
        """
        paths = [
            f"{_LXC}/{name}" for name in names_in(self.reader, _LXC) if name.endswith(".conf")
        ][:_MOST_LXC]
        # Snapshots repeat the lines of their day; only what comes before the first of them is in
        # force.
        own = {
            path: if_absent(read_text(self.reader, path), "").partition("\n[")[0] for path in paths
        }
        return tuple(sorted(path for path, words in own.items() if _GIVES_UVM.search(words)))

    # /dev/nvidia-uvm, which only root can make
    has_uvm: bool = read_with(lambda self: is_there(self.reader, "/dev/nvidia-uvm"))

    @fact
    def cdi(self) -> tuple[CdiSpec, ...]:
        found: dict[str, CdiSpec] = {}
        for folder in CDI:
            # Of an image nothing is known about this folder: a service writes the specification at
            # each boot.
            if self.reader.persistent_only and folder.startswith("/var/run/"):
                continue  # made at boot
            for name in names_in(self.reader, folder):
                if name.endswith((".yaml", ".json")) and "nvidia" in name:
                    found[name] = CdiSpec(
                        f"{folder}/{name}", lazy(_read_driver, self.reader, f"{folder}/{name}")
                    )
        return tuple(found[name] for name in sorted(found))

    @fact
    def missing_char_links(self) -> tuple[str, ...]:
        """Of GPUs: /dev/char/195:0 ..."""
        minors = [
            name[6:] for name in names_in(self.reader, "/dev") if re.fullmatch(r"nvidia\d+", name)
        ]
        paths = [f"/dev/char/{_NVIDIA_MAJOR}:{minor}" for minor in minors]
        return tuple(path for path in paths if self.reader.stat(path, follow=False) is ABSENT)

    @fact
    def _config(self) -> str:
        return if_absent(read_text(self.reader, CONTAINERD), "")

    @property
    def has_toolkit(self) -> bool:
        """Whether the NVIDIA Container Toolkit is installed."""
        return self.toolkit_version != ""

    @property
    def is_legacy(self) -> bool:
        """GPUs come by a hook that neither runc nor systemd knows of: before 1.18, or by
        configuration.
        """
        if self.toolkit_mode in {"cdi", "jit-cdi", "csv"}:
            return False
        return self.toolkit_mode == "legacy" or not _is_at_least(self.toolkit_version, (1, 18))

    @property
    def has_forgetful_runc(self) -> bool:
        """Whether it is 1.1.3 to 1.1.6, which leaves out devices without a link in /dev/char
        (runc#3708).
        """
        return _is_at_least(self.runc_version, (1, 1, 3)) and not _is_at_least(
            self.runc_version, (1, 1, 7)
        )


def _is_at_least(version: str, least: tuple[int, ...]) -> bool:
    """Whether a version is known and not below another."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return match is not None and tuple(map(int, match[0].split("."))) >= least


def root_of(config: str) -> str:
    """`root` of a containerd configuration, which is above its first table."""
    match = _TOP_ROOT.search(_TABLE.split(config, maxsplit=1)[0])
    return match[1] if match else "/var/lib/containerd"


def mode_of(config: str) -> str:
    """`mode` in the table of nvidia-container-runtime; auto unless it is there."""
    found = _RUNTIME_TABLE.split(config, maxsplit=1)
    match = _MODE.search(_TABLE.split(found[1], maxsplit=1)[0]) if len(found) == 2 else None
    return match[1] if match else "auto"


def driver_of(spec: str) -> str:
    """The version of the driver whose libraries a CDI specification mounts."""
    match = _LIBRARY.search(spec)
    return match[1] if match else ""


def _find_configs(reader: Reader, config: str) -> Iterator[str]:
    """The configuration of containerd and what it imports: paths and patterns of files, relative to
    its folder.
    """
    yield config
    match = _IMPORTS.search(_TABLE.split(config, maxsplit=1)[0])
    for pattern in _QUOTED.findall(match[1])[:_MOST_IMPORTS] if match else ():
        folder, name = posixpath.split(posixpath.join(posixpath.dirname(CONTAINERD), pattern))
        # A name without a pattern is read without listing its folder, which may hold thousands of
        # files.
        names = names_in(reader, folder) if "*" in name else (name,)
        for one in names[:_MOST_IMPORTS]:
            if one == name or fits_glob(one, name):
                yield if_absent(read_text(reader, f"{folder}/{one}"), "")


def _read_version(facts: Facts, name: str) -> str:
    package = facts.packages[name]
    return upstream_of(package.version) if package.is_installed else ""


def _read_driver(reader: Reader, path: str) -> str:
    return driver_of(if_absent(read_text(reader, path), ""))
