"""Which driver packages Ubuntu offers for the GPUs of this host: the answers of `ubuntu-drivers`,
read with care.

Source: github.com/canonical/ubuntu-drivers-common, branches focal to master (0.9.0 to 0.10.10). Its
answers are names only: it lists identical GPUs once, shows each package under one GPU alone, and
never says what is installed; so neither GPUs nor what fits which of them are taken from here. It
exits 0 whatever happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.apt_decisions import decisions_about_offer, join_decisions, way_to_sources
from hosttune.facts.base import Fact, UnknownFact, read_at_once
from hosttune.facts.gpu.components import turn_on
from hosttune.facts.gpu.package_roles import PackageRole, role_of
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.reading.ubuntu_drivers import PACKAGE, parse_list, parse_sections
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Answer, Unreadable, prefix_reason

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

DEVICES = ("ubuntu-drivers", "devices")
LIST = ("ubuntu-drivers", "list", "--gpgpu", "--include-dkms")
OLD_LIST = ("ubuntu-drivers", "list", "--gpgpu")  # before --include-dkms, which 20.04 does not know
SEE = "see what sudo ubuntu-drivers devices says"
_UPDATE = "sudo apt-get update"
# 1.4 s as a rule, but minutes where apt keeps its lists compressed, as container images do.
TIMEOUT_S = 600.0

_DEVICE = regex(r"d0000([0-9A-F]{4})sv")
_DRIVER = regex(r"(\S+) - (distro|third-party) (free|non-free)(.*)")

# Printed beside good answers too: by plugins, by a deprecated call of udevadm (24.04), by packages
# with an odd header.
_NOISE = regex(r"(?:ERROR|WARNING):root:|udevadm hwdb is deprecated")


@frozen
class Candidate(Fact):
    """One driver package that Ubuntu offers."""

    name: str  # nvidia-driver-580-server-open
    branch: int  # 580, 570 ...
    is_server: bool  # of the server series (-server)
    is_open: bool  # with the open kernel modules
    is_third_party: bool  # from an archive whose origin is not Ubuntu
    is_recommended: bool  # by ubuntu-drivers, which recommends one package per machine
    # the package with its kernel modules: linux-modules-nvidia-..., nvidia-dkms-...; empty if not
    # known
    modules: str

    @property
    def needs_dkms(self) -> bool:
        """The modules are compiled here: no prebuilt, signed ones for this kernel."""
        return role_of(self.modules) is PackageRole.DKMS


@frozen
class Candidates(Fact):
    """The offer. `problem` is a sentence where there is none to rely on; `packages` is empty
    then.
    """

    source: str  # a sentence: which commands answered
    packages: tuple[Candidate, ...]
    problem: str  # why ubuntu-drivers offers nothing; empty otherwise
    is_manual: bool  # ubuntu-drivers sees an nvidia module that none of its packages brought
    # PCI device (0x2330) -> what ubuntu-drivers calls it (udev's hardware database)
    models: Mapping[str, str]
    way_out: str = SEE  # what a person does about the problem

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Candidates:
        """Ask `ubuntu-drivers`: slow, so rules touch this fact only where a driver is to be
        chosen.
        """
        return read_at_once(cls, _read_candidates, reader, facts)


def models_in(output: str) -> Mapping[str, str]:
    """What the NVIDIA devices of `ubuntu-drivers devices` are called, by PCI device (0x2330)."""
    found = [
        (_DEVICE.search(one.modalias), one.model)
        for one in parse_sections(output)
        if one.is_nvidia and one.model
    ]
    return {f"0x{match[1].lower()}": model for match, model in found if match}


def parse_devices(output: str) -> tuple[Candidate, ...]:
    """The NVIDIA packages of all sections together, by name; the modules are not listed there."""
    found: dict[str, Candidate] = {}
    for section in parse_sections(output):
        for words in section.drivers:
            match = _DRIVER.fullmatch(words.strip())
            candidate = _parse_candidate(match[1]) if match else None
            if match and candidate:
                third, best = match[2] == "third-party", "recommended" in match[4].split()
                known = found.get(candidate.name, candidate)
                found[candidate.name] = replace(
                    candidate,
                    is_third_party=third or known.is_third_party,
                    is_recommended=best or known.is_recommended,
                )
    return tuple(found[name] for name in sorted(found))


def _parse_candidate(name: str) -> Candidate | None:
    match = PACKAGE.fullmatch(name)
    return (
        Candidate(name, int(match[1]), bool(match[2]), bool(match[3]), False, False, "")
        if match
        else None
    )


def describe_refusal(answer: Completed) -> str:
    """What `devices` printed instead of sections, as one line; empty if it answered, or printed
    nothing at all.
    """
    if parse_sections(answer.text):
        return ""
    # With status 0 standard error holds only warnings of plugins, which say nothing about the
    # answer.
    words = answer.text + ("\n" + answer.errors if answer.status else "")
    lines = [one.strip() for one in words.splitlines() if one.strip() and not _NOISE.match(one)]
    if not lines and answer.status:
        return f"exit status {answer.status}"
    # Of a traceback the last line names the error.
    return lines[-1][:300] if lines else ""


def merge(offered: Iterable[Candidate], providers: dict[str, str]) -> tuple[Candidate, ...]:
    """The candidates of `devices` with the module packages of `list`; a name that only `list` has
    counts too.
    """
    by_name = {candidate.name: candidate for candidate in offered}
    for name in providers:
        candidate = _parse_candidate(name)
        if candidate:
            by_name.setdefault(name, candidate)
    return tuple(
        replace(by_name[name], modules=providers.get(name, "")) for name in sorted(by_name)
    )


def _read_candidates(reader: Reader, facts: Facts) -> Candidates:
    answer = reader.query(DEVICES, timeout_s=TIMEOUT_S)
    if isinstance(answer, Unreadable):
        reason = type(answer.reason)(f"{answer.reason}{_why_slow(reader)}")
        raise UnknownFact(prefix_reason("ubuntu-drivers devices", reason))
    if isinstance(answer, Absent):
        return _in_lists(_why_missing(facts), facts)
    refusal = describe_refusal(answer)
    if refusal:
        rights = "" if reader.is_privileged else " (as root it may: run hosttune with sudo)"
        none = _make_none(f"`ubuntu-drivers devices` gave no list{rights}: {refusal}")
        return replace(none, way_out=way_to_sources(facts, refusal) or SEE)
    listed = _ask_candidates(reader)
    providers = parse_list(listed.text) if isinstance(listed, Completed) else {}
    packages = merge(parse_devices(answer.text), providers)
    if not packages:
        return _in_lists(_why_empty(reader, facts), facts)
    manual = any(section.is_nvidia and section.is_manual for section in parse_sections(answer.text))
    source = "`ubuntu-drivers devices`" + (
        " and `list --gpgpu`" if providers else "; its `list` named no module packages"
    )
    return Candidates(source, packages, "", manual, models_in(answer.text))


def _in_lists(none: Candidates, facts: Facts) -> Candidates:
    """What apt's own lists have, where `ubuntu-drivers` is not here, or offers none: it reads the
    same fields of them. An empty package that leads to another branch does not count. Which of them
    fit the GPUs is never taken from `ubuntu-drivers`.
    """
    try:
        if not facts.os.is_ubuntu:
            return none
        named = {
            one.name: found
            for one in facts.packaging.packages.values()
            if one.tells and (found := _parse_candidate(one.name))
        }
        if not named:
            return none
        offers = facts.archives.offers_of(named)
    except UnknownFact:
        return none
    packages = tuple(
        replace(named[name], is_third_party=offers[name].candidate_from != "Ubuntu")
        for name in sorted(named)
        if name in offers and offers[name].candidate
    )
    source = f"apt's lists, as {none.problem.partition(':')[0]}"
    return Candidates(source, packages, "", is_manual=False, models={}) if packages else none


def _ask_candidates(reader: Reader) -> Answer[Completed]:
    answer = reader.query(LIST, timeout_s=TIMEOUT_S)
    # 20.04 has no --include-dkms. The old question leaves out packages that compile, so it is only
    # asked then.
    if isinstance(answer, Completed) and answer.status == 2:  # usage: the option is unknown
        return reader.query(OLD_LIST, timeout_s=TIMEOUT_S)
    return answer


def _make_none(problem: str) -> Candidates:
    return Candidates("", (), problem, is_manual=False, models={})


def _why_missing(facts: Facts) -> Candidates:
    """Ubuntu's images for servers and clouds leave the program out."""
    problem, install = (
        "`ubuntu-drivers` is not installed",
        "sudo apt-get install ubuntu-drivers-common",
    )
    try:
        if facts.os.is_ubuntu:
            return replace(
                _make_none(f"{problem}: {install}"), way_out=f"sudo apt-get update && {install}"
            )
        return _make_none(
            f"`ubuntu-drivers` is Ubuntu's own, and this is {facts.os.name or facts.os.id}"
        )
    except UnknownFact:
        return _make_none(problem)


def _why_empty(reader: Reader, facts: Facts) -> Candidates:
    lists = reader.list("/var/lib/apt/lists")
    if lists is ABSENT or (
        isinstance(lists, tuple) and not any("_Packages" in name for name in lists)
    ):
        return replace(_make_none(f"apt's package lists are missing: {_UPDATE}"), way_out=_UPDATE)
    offered = "`ubuntu-drivers` offers no package for the GPUs of this host"
    if decided := join_decisions(decisions_about_offer(facts)):
        return _make_none(f"{offered}: {decided.what}")
    try:
        missing = tuple(one for one in ("restricted", "multiverse") if one in facts.components.off)
    except UnknownFact:
        return _make_none(f"{offered} (is the restricted component enabled?)")
    if not missing:
        return _make_none(f"{offered}, and restricted and multiverse are on")
    return replace(_make_none(f"{offered}; {turn_on(missing)}"), way_out=turn_on(missing))


def _why_slow(reader: Reader) -> str:
    lists = reader.list("/var/lib/apt/lists")
    if isinstance(lists, tuple) and any(
        name.endswith((".lz4", ".gz", ".xz", ".zst")) for name in lists
    ):
        return (
            "; apt's package lists are compressed here (Acquire::GzipIndexes), which makes it slow"
        )
    return ""
