"""What gives containers their GPUs: NVIDIA's toolkit, CDI specifications, containerd and runc, as their files say.

Sources: containerd-config.toml(5), the CDI specification (/etc/cdi and /var/run/cdi), config.toml of
nvidia-container-runtime; opencontainers/runc#3842 for what runc does with devices that have no link in /dev/char.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.answers import text
from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

CONTAINERD = "/etc/containerd/config.toml"
RUNTIME = "/etc/nvidia-container-runtime/config.toml"
CDI = ("/etc/cdi", "/var/run/cdi")
_ENGINES = ("docker-ce", "docker.io", "moby-engine", "containerd.io", "containerd", "podman")
_NVIDIA_MAJOR = 195  # of /dev/nvidia0 and its like (kernel: admin-guide/devices.txt)
_LIBRARY = regex(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)")
_TOP_ROOT = regex(r"^\s*root\s*=\s*[\"']([^\"']+)", re.MULTILINE)
_MODE = regex(r"^\s*mode\s*=\s*[\"']([^\"']+)", re.MULTILINE)


@frozen
class CdiSpec(Fact):
    """A CDI specification of NVIDIA GPUs."""

    path: str
    driver: str  # the version of the driver whose libraries it names; empty where it names none


@frozen
class Containers(Fact):
    """What gives containers their GPUs. Texts are empty where there is no such thing."""

    engines: tuple[str, ...]  # packages of Docker, containerd and Podman that are installed
    toolkit_version: str  # of nvidia-container-toolkit: 1.18.1
    toolkit_mode: str  # of nvidia-container-runtime: auto | legacy | cdi ...; empty without its configuration
    runc_version: str  # of the package; containerd.io brings a runc of its own
    has_nvidia_docker2: bool  # the package that the toolkit replaced
    containerd_root: str  # where containerd keeps images
    has_containerd_nvidia: bool  # its configuration names nvidia-container-runtime
    cdi: tuple[CdiSpec, ...]
    missing_char_links: tuple[str, ...]  # of GPUs: /dev/char/195:0 ...

    @property
    def has_toolkit(self) -> bool:
        return self.toolkit_version != ""

    @property
    def is_legacy(self) -> bool:
        """GPUs come by a hook that neither runc nor systemd knows of: before 1.18, or by configuration."""
        if self.toolkit_mode in {"cdi", "jit-cdi", "csv"}:
            return False
        return self.toolkit_mode == "legacy" or not _is_at_least(self.toolkit_version, (1, 18))

    @property
    def has_forgetful_runc(self) -> bool:
        """Whether it is 1.1.3 to 1.1.6, which leaves out devices without a link in /dev/char (runc#3708)."""
        return _is_at_least(self.runc_version, (1, 1, 3)) and not _is_at_least(self.runc_version, (1, 1, 7))


def _is_at_least(version: str, least: tuple[int, ...]) -> bool:
    """Whether a version is known and not below another."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return match is not None and tuple(map(int, match[0].split("."))) >= least


def root_of(config: str) -> str:
    """`root` of a containerd configuration, which stands above its first table."""
    match = _TOP_ROOT.search(re.split(r"^\s*\[", config, maxsplit=1, flags=re.MULTILINE)[0])
    return match[1] if match else "/var/lib/containerd"


def mode_of(config: str) -> str:
    """`mode` in the table of nvidia-container-runtime; auto unless it stands there."""
    found = re.split(r"^\s*\[nvidia-container-runtime\]\s*$", config, maxsplit=1, flags=re.MULTILINE)
    match = _MODE.search(re.split(r"^\s*\[", found[1], maxsplit=1, flags=re.MULTILINE)[0]) if len(found) == 2 else None
    return match[1] if match else "auto"


def driver_of(spec: str) -> str:
    """The version of the driver whose libraries a CDI specification mounts."""
    match = _LIBRARY.search(spec)
    return match[1] if match else ""


def collect(reader: Reader, facts: Facts) -> Containers:
    config = text(reader, CONTAINERD)
    return Containers(
        **_packages(facts),
        toolkit_mode=_made(text(reader, RUNTIME), mode_of, ""),
        containerd_root=_made(config, root_of, root_of("")),
        has_containerd_nvidia=_made(config, lambda content: "nvidia-container-runtime" in content, missing=False),
        cdi=_cdi(reader),
        missing_char_links=_char_links(reader),
    )


def _made(answer: Answer[str], function: Callable[[str], Any], missing: Any) -> Any:
    """What a function makes of a file; `missing` where there is none."""
    return function(answer) if isinstance(answer, str) else missing if answer is ABSENT else answer


def _packages(facts: Facts) -> dict[str, Any]:
    """What dpkg knows of them."""
    try:
        toolkit, runc = facts.packages["nvidia-container-toolkit"], facts.packages["runc"]
        return {
            "engines": tuple(name for name in _ENGINES if facts.packages[name].is_installed),
            "toolkit_version": upstream_of(toolkit.version) if toolkit.is_installed else "",
            "runc_version": upstream_of(runc.version) if runc.is_installed else "",
            "has_nvidia_docker2": facts.packages["nvidia-docker2"].is_installed,
        }
    except UnknownFact as unknown:
        names = ("engines", "toolkit_version", "runc_version", "has_nvidia_docker2")
        return dict.fromkeys(names, unread(unknown.reason))


def _cdi(reader: Reader) -> Any:
    found: dict[str, CdiSpec] = {}
    for folder in CDI:
        if reader.persistent_only and folder.startswith("/var/run/"):
            continue  # made at boot
        names = reader.list(folder)
        if isinstance(names, Unreadable):
            return names
        for name in names if isinstance(names, tuple) else ():
            if name.endswith((".yaml", ".json")) and "nvidia" in name:
                content = text(reader, f"{folder}/{name}")
                if isinstance(content, Unreadable):
                    return content
                found[name] = CdiSpec(f"{folder}/{name}", driver_of(content if isinstance(content, str) else ""))
    return tuple(found[name] for name in sorted(found))


def _char_links(reader: Reader) -> Any:
    names = reader.list("/dev")
    if isinstance(names, Unreadable):
        return names
    minors = [name[6:] for name in names if re.fullmatch(r"nvidia\d+", name)] if isinstance(names, tuple) else []
    paths = [f"/dev/char/{_NVIDIA_MAJOR}:{minor}" for minor in minors]
    return tuple(path for path in paths if reader.stat(path, follow=False) is ABSENT)
