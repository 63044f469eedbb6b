"""What Ubuntu's packages say of NVIDIA's driver branches: of which kind each is, and which of the
GPUs here each package drives. Where they say nothing, the table counts
(hosttune.facts.gpu.branches).

Source: the control fields `Support:` (LTSB, PB, NFB, Legacy) and `Modaliases:` (deb-control(5)
knows neither; Ubuntu's nvidia-graphics-drivers writes them, and ubuntu-drivers-common,
UbuntuDrivers/detect.py, reads them so), as `apt-cache show` prints them: of the version that apt
would install. A driver package without Modaliases is an empty step to the one that it depends on
(nvidia-driver-615, nvidia-driver-570-server). Modaliases tell what a branch drives, not with which
kind of module: those of the closed 580 name Blackwell, which has no closed module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import ask
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Completed, Reader

QUERY: Final = (
    "apt-cache",
    "--no-all-versions",
    "show",
    "nvidia-driver-*",
    "nvidia-fabricmanager-*",
)
_TIMEOUT_S = 60.0  # apt reads all of its lists for it
_LONGEST = 256  # characters of one alias: a modalias has some 60
_DRIVER = regex(r"nvidia-driver-(\d{3})(-server)?(-open)?")
_FABRIC = regex(r"nvidia-fabricmanager-(\d{3})")
_SUPPORTS = ("LTSB", "PB", "NFB", "Legacy")
_COMPONENTS = ("restricted", "universe", "multiverse")
_WILD = regex(r"[*?\[]")


@frozen
class BranchPackage(Fact):
    """A driver package, or a Fabric Manager, as apt's lists have the version that it would
    install.
    """

    name: str  # nvidia-driver-580-server-open
    branch: int  # 580, 570 ...
    flavour: str  # open, server, server-open, or empty
    version: str  # that apt would install
    component: str  # of Ubuntu's archive: main, restricted, universe, multiverse
    support: str  # LTSB, PB, NFB or Legacy; empty if that is not known
    leads_to: str  # of an empty step: the package that it depends on
    tells: bool  # it names the GPUs that it drives
    drives: tuple[str, ...]  # the GPUs here that it names, by slot


@frozen
class Packaging(Fact):
    """What apt's lists say of driver packages and Fabric Managers, by name."""

    packages: Mapping[str, BranchPackage]
    problem: str  # why nothing is known; `packages` is empty then

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Packaging:
        try:
            return cls(_find_branch_packages(reader, facts), "")
        except UnknownFact as unknown:
            return cls(MappingProxyType({}), unknown.reason)

    def of(self, number: int) -> tuple[BranchPackage, ...]:
        """The driver packages of a branch that are no empty steps, by name."""
        found = (
            one
            for one in self.packages.values()
            if one.branch == number and _DRIVER.fullmatch(one.name)
        )
        return tuple(sorted((one for one in found if one.tells), key=lambda one: one.name))


def parse_stanzas(shown: str) -> Iterator[dict[str, str]]:
    """The fields of each stanza that `apt-cache show` prints; lines that go on (deb-control(5)) are
    joined.
    """
    for block in re.split(r"\n[ \t]*\n", shown):
        fields: dict[str, str] = {}
        name, parts = "", list[str]()
        for line in block.splitlines():
            if line[:1] in " \t":
                parts.append(line.strip())
                continue
            if name:
                fields.setdefault(name, " ".join(parts).strip())
            name, colon, value = line.partition(":")
            name, parts = (name if colon else ""), [value.strip()]
        if name:
            fields.setdefault(name, " ".join(parts).strip())
        if fields:
            yield fields


def aliases_in(field: str) -> tuple[str, ...]:
    """The patterns of a Modaliases field: MODULE(PATTERN, PATTERN, ...), MODULE(...)."""
    inside = ",".join(re.findall(r"\(([^()]*)\)", field))
    found = (one.strip() for one in inside.split(","))
    return tuple(one for one in found if one and len(one) <= _LONGEST)


def match_devices(aliases: tuple[str, ...], devices: Mapping[str, str]) -> tuple[str, ...]:
    """The slots of the devices (slot -> modalias) that one of these patterns names, whatever the
    case. Compiling a pattern takes long, so only those are tried whose beginning fits.
    """
    wanted = {slot: modalias.lower() for slot, modalias in devices.items()}
    patterns = [(one := alias.lower(), _WILD.split(one, maxsplit=1)[0]) for alias in aliases]
    return tuple(
        slot
        for slot, modalias in wanted.items()
        if any(
            modalias.startswith(start) and fits_glob(modalias, alias) for alias, start in patterns
        )
    )


def parse_show(shown: str, devices: Mapping[str, str]) -> Mapping[str, BranchPackage]:
    """The packages that `apt-cache show` prints, by name; `devices` is slot -> modalias. The first
    stanza of a name counts; names that are no driver's are passed over.
    """
    found: dict[str, BranchPackage] = {}
    for fields in parse_stanzas(shown):
        name = fields.get("Package", "")
        match = _DRIVER.fullmatch(name) or _FABRIC.fullmatch(name)
        if match is None or name in found:
            continue
        aliases = aliases_in(fields.get("Modaliases", ""))
        section = fields.get("Section", "").partition("/")[0]
        support = fields.get("Support", "")
        found[name] = BranchPackage(
            name=name,
            branch=int(match[1]),
            flavour="-".join(word.strip("-") for word in match.groups()[1:] if word),
            version=fields.get("Version", ""),
            component=section if section in _COMPONENTS else "main",
            support=support if support in _SUPPORTS else "",
            # A package that names GPUs brings a driver itself, even if it has a single dependency.
            leads_to="" if aliases else _step(fields.get("Depends", "")),
            tells=bool(aliases),
            drives=match_devices(aliases, devices),
        )
    return MappingProxyType(found)


def _step(depends: str) -> str:
    """The package that an empty step leads to: another of its kind, and the only one that it
    depends on.
    """
    name = depends.partition(" ")[0]
    return (
        name if "," not in depends and (_DRIVER.fullmatch(name) or _FABRIC.fullmatch(name)) else ""
    )


def _find_branch_packages(reader: Reader, facts: Facts) -> Mapping[str, BranchPackage]:
    devices = {gpu.slot: gpu.modalias for gpu in facts.gpus.devices}
    if not devices:
        raise UnknownFact("there is no NVIDIA GPU")
    answer = ask(reader, QUERY, timeout_s=_TIMEOUT_S)
    if found := parse_show(answer.text, devices):
        return found
    raise UnknownFact(_why_nothing(answer))


def _why_nothing(answer: Completed) -> str:
    error = next((line for line in answer.errors.splitlines() if line.startswith("E: ")), "")
    return (
        "apt's lists have no driver of "
        f"NVIDIA's{f' ({error})' if error and 'No packages found' not in error else ''}"
    )
