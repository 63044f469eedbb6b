"""Where the installed driver packages come from, and what the archives offer instead of them.

Source: `apt-cache policy` (apt-cache(8), apt_preferences(5)): with names it shows each version and
who has it, without names it shows the archives with the Origin of their Release files. It reads
apt's lists as they are: nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.gpu.package_roles import MOST_PACKAGES
from hosttune.facts.lookups import Lookup
from hosttune.facts.packages import is_package_name
from hosttune.facts.reading import ask
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

POLICY = ("apt-cache", "policy")
_TIMEOUT_S = 60.0  # apt reads all of its lists for it, without the cache file that it would write
_NONE = "(none)"
_STATUS = "/var/lib/dpkg/status"  # dpkg's own list of what is installed: no archive
_ARCHIVE = regex(r"^ *(-?\d{1,9}) (\S(?:.*\S)?)\s*$")
_RELEASE = regex(r"^ {5,}release (.*)$")
_COMPONENT = regex(r"(?:^|,)c=([^,]*)")
_ORIGIN = regex(r"(?:^|,)o=([^,]*)")
_SITE = regex(r"^ {5,}origin (\S+)$")
_PINNED = regex(r"^ {5}(\S+) -> \S+ with priority (-?\d{1,9})$", re.MULTILINE)
_VERSION = regex(r"^ (?:\*\*\*|   ) (\S+) -?\d+(?: .*)?$")
_PHASED = regex(r"^ {5}(\S+) -?\d+ \(phased (\d{1,3})%\)$")
_SOURCE = regex(r"^ {8,}-?\d+ (\S(?:.*\S)?)\s*$")
_PASSWORD = regex(r"//[^/@\s]*@")
# What is beside a driver of any origin.
BESIDE = regex(
    r"nvidia-(?:fabricmanager|imex|modprobe|settings|xconfig|persistenced|powerd)(?:-\d+)?"
    r"|libnvidia-nscq(?:-\d+)?|nvlsm|"
    r"cuda-drivers-fabricmanager(?:-\d+)?"
)
# Tools that work beside a driver of any version; Ubuntu keeps nvidia-settings at 510.
_ANY_VERSION = regex(r"nvidia-(?:settings|xconfig|modprobe)")
# 580.126.20 or 595.84: the first number is the branch. Modules are versioned as their kernel, nvlsm
# by the year.
_BRANCH = regex(r"(?:\d+:)?(\d{3})\.\d")
NVIDIA_SITES = ("developer.download.nvidia.com", "developer.download.nvidia.cn")


@frozen
class Offer(Fact):
    """One package: the version that is installed, the one that apt would install now, and whose
    they are.

    Words for archives: Ubuntu (with its security and ESM archives), Debian (with its backports),
    NVIDIA (the CUDA archive), else the Origin of the archive's Release file
    (LP-PPA-graphics-drivers), or its address where that names none; empty for a version that no
    archive has, such as a file installed by hand, or one that was replaced since.
    """

    name: str  # of the package
    installed: str  # empty where it is not
    candidate: str  # empty where apt has none to offer
    installed_from: str  # the archive of what is installed; empty where apt names none
    # the archive of the candidate: Ubuntu, NVIDIA ...; empty where apt names none
    candidate_from: str
    versions: Mapping[str, str] = field(default_factory=dict)  # those that archives have -> whose
    newest: str = ""  # the highest version that an archive has, the candidate or not
    phased: int = 100  # percent of hosts to which Ubuntu hands the candidate out by now
    sources: tuple[
        tuple[str, str], ...
    ] = ()  # (version, the line of an archive that has it), the highest version first

    @property
    def is_newer(self) -> bool:
        """The candidate is newer than what is installed."""
        return (
            bool(self.installed and self.candidate)
            and compare_versions(self.candidate, self.installed) > 0
        )

    def has(self, version: str = "") -> bool:
        """Whether apt can install this version, which may be a pattern; any, if none is given."""
        if not version:
            return bool(self.installed or self.candidate)
        # apt keeps what is installed in reach by dpkg's own list, also when no archive has it any
        # more.
        return any(fits_glob(one, version) for one in (*self.versions, self.installed) if one)

    @property
    def branch(self) -> int:
        """The driver branch of the candidate, as `branch_in` reads it; 0 for a tool that fits every
        branch.
        """
        return 0 if fits_every_driver(self.name) else branch_in(self.candidate)


def fits_every_driver(name: str) -> bool:
    """Whether a package works beside a driver of any version."""
    return _ANY_VERSION.fullmatch(name) is not None


def branch_in(version: str) -> int:
    """The driver branch in a package's version: 595 of 595.71.05-1ubuntu1; 0 for a version that
    names none.
    """
    match = _BRANCH.match(version)
    return int(match[1]) if match else 0


def of_other_branch(versions: Mapping[str, str], branch: int) -> tuple[str, ...]:
    """Of driver packages (name -> version) those of another branch than this one, as `name
    version`, sorted.
    """
    found = [(name, Offer(name, "", version, "", "").branch) for name, version in versions.items()]
    return tuple(
        sorted(f"{name} {versions[name]}" for name, number in found if number not in (0, branch))
    )


@frozen
class Archives(Subject):
    """The offers for the installed packages of the driver (driver.packages), by name."""

    packages: Mapping[str, Offer] = read_with(lambda self: _read_offers(self.reader, self.facts))

    @fact
    def others(self) -> Mapping[str, Mapping[str, Offer]]:
        """By names with blanks between them: what apt has of packages that are not here; for what a
        command would install.
        """
        return Lookup(lambda names: _read_others(self.reader, self.facts, names.split()))

    def offers_of(self, names: Iterable[str]) -> Mapping[str, Offer]:
        """What apt has of these packages. A name that apt does not know is not in it."""
        wanted = sorted(set(names))
        more = [name for name in wanted if name not in self.packages]
        asked = self.others[" ".join(more)] if more else {}
        return {name: one for name in wanted if (one := self.packages.get(name) or asked.get(name))}

    def missing(self, operands: Iterable[str]) -> tuple[str, ...]:
        """Of operands of `apt-get install` (NAME, NAME=VERSION, the version may be a pattern) those
        that apt could not install. What is installed is there; what is to be removed (NAME-) is no
        matter.
        """
        wanted = [(one, *one.partition("=")[::2]) for one in operands if not one.endswith("-")]
        offers = self.offers_of(name for _, name, _ in wanted)
        return tuple(
            one
            for one, name, version in wanted
            if name not in offers or not offers[name].has(version)
        )

    @property
    def updates(self) -> tuple[Offer, ...]:
        """Those with a newer candidate, by name."""
        return tuple(
            self.packages[name] for name in sorted(self.packages) if self.packages[name].is_newer
        )

    @property
    def kept_back(self) -> tuple[Offer, ...]:
        """Those of which an archive has a newer version that apt does not take as it is set up, by
        name.
        """
        known = (self.packages[name] for name in sorted(self.packages))
        return tuple(
            one
            for one in known
            # A candidate above the installed version is an update. Only where a pin or a hold keeps
            # apt at the installed one is a newer version kept back.
            if one.installed == one.candidate
            and one.newest
            and compare_versions(one.newest, one.installed) > 0
        )

    @property
    def origins(self) -> tuple[str, ...]:
        """Whose archives the driver is from, sorted, each once; versions that no archive has say
        nothing, nor does what is beside a driver of any origin (Fabric Manager, nvidia-settings).
        """
        of_driver = (offer for name, offer in self.packages.items() if not BESIDE.fullmatch(name))
        return tuple(sorted({offer.installed_from for offer in of_driver} - {""}))

    @property
    def without_origin(self) -> tuple[str, ...]:
        """The installed ones whose version no archive has (any more), by name."""
        entries = self.packages.items()
        return tuple(
            sorted(name for name, offer in entries if offer.installed and not offer.installed_from)
        )


def parse_archives(output: str) -> Mapping[str, str]:
    """What `apt-cache policy` without names shows: an archive's line without its priority -> the
    word for it.
    """
    words: dict[str, str] = {}
    current = origin = ""
    for line in output.splitlines():
        if release := _RELEASE.match(line):
            found = _ORIGIN.search(release[1])
            origin = found[1] if found else ""
        elif site := _SITE.match(line):
            words[current] = word_for(origin, site[1], current)
        elif archive := _ARCHIVE.match(line):
            words.setdefault(current, word_for(origin, "", current))
            current, origin = archive[2], ""
        elif line.startswith("Pinned packages"):
            break
    words.setdefault(current, word_for(origin, "", current))
    return {line: word for line, word in words.items() if line not in ("", _STATUS)}


def releases_in(output: str) -> tuple[tuple[Mapping[str, str], int], ...]:
    """(the fields of its Release file by letter, with `site`; its priority) of each archive in the
    same output.
    """
    found: list[tuple[dict[str, str], int]] = []
    for line in output.splitlines():
        if release := _RELEASE.match(line):
            if found:
                found[-1][0].update(_split_field(one) for one in release[1].split(","))
        elif site := _SITE.match(line):
            if found:
                found[-1][0]["site"] = site[1]
        elif archive := _ARCHIVE.match(line):
            found.append(({"source": archive[2]}, int(archive[1])))
        elif line.startswith("Pinned packages"):
            break
    return tuple(one for one in found if one[0]["source"] != _STATUS)


def _split_field(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def pinned_away(output: str) -> tuple[str, ...]:
    """The packages of which the same output shows versions with a priority below 0 and no others,
    sorted.
    """
    priorities: dict[str, list[int]] = {}
    for match in _PINNED.finditer(output):
        priorities.setdefault(match[1], []).append(int(match[2]))
    # A version with a priority below 0 is never installed (apt_preferences(5)); one that is not
    # pinned so is enough for apt to offer the package.
    return tuple(sorted(name for name, known in priorities.items() if max(known) < 0))


def components_in(output: str) -> tuple[str, ...]:
    """The components of Ubuntu's archive in what `apt-cache policy` without names shows, sorted."""
    releases = (match[1] for line in output.splitlines() if (match := _RELEASE.match(line)))
    ubuntu = (
        line for line in releases if (origin := _ORIGIN.search(line)) and origin[1] == "Ubuntu"
    )
    return tuple(
        sorted({match[1] for line in ubuntu if (match := _COMPONENT.search(line)) and match[1]})
    )


def word_for(origin: str, site: str, archive: str) -> str:
    """Ubuntu, NVIDIA, or what the archive calls itself; its address for one that does not."""
    if (
        origin == "NVIDIA"
        or site in NVIDIA_SITES
        or _host_of(archive.partition(" ")[0]) in NVIDIA_SITES
    ):
        return "NVIDIA"
    if origin == "Ubuntu" or re.fullmatch(r"UbuntuESM\w*", origin):
        return "Ubuntu"
    if origin == "Debian Backports":  # its drivers rest on packages of the stable release
        return "Debian"
    return origin or site or _PASSWORD.sub("//", archive.partition(" ")[0])


def _host_of(address: str) -> str:
    from urllib.parse import urlsplit

    try:
        return urlsplit(address).hostname or ""
    except ValueError:  # http://[x
        return ""


def parse_policy(
    output: str,
    archives: Mapping[str, str],
    installed_now: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, Offer]:
    """What `apt-cache policy NAME...` shows, by name; `archives` as `parse_archives` gives them.
    Names that apt does not know are not in it. Of what is installed `installed_now` (name ->
    version) knows better where it has the name: on an overlay, where a plan is tried, apt speaks of
    the host below.
    """
    offers = {}
    for name, lines in _split_blocks(output):
        fields = dict(line.strip().partition(": ")[::2] for line in lines[:2])
        installed, candidate = (
            _parse_version(fields.get(key, "")) for key in ("Installed", "Candidate")
        )
        installed = installed_now.get(name, installed)
        sources = tuple(_parse_sources(lines))
        origins = _name_origins(sources, archives)
        # apt shows the share of each version that is handed out in steps; only that of the
        # candidate decides what this host gets.
        phased = next(
            (
                int(match[2])
                for line in lines
                if (match := _PHASED.match(line)) and match[1] == candidate
            ),
            100,
        )
        origin = origins.get(installed, ""), origins.get(candidate, "")
        # The version table begins with the highest version, whether apt may take it or not.
        newest = next(iter(origins), "")
        offers[name] = Offer(name, installed, candidate, *origin, origins, newest, phased, sources)
    return MappingProxyType(offers)


def _split_blocks(output: str) -> Iterable[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in output.splitlines():
        if line[:1].strip() and line.endswith(":"):
            if name:
                yield name, lines
            name, lines = line[:-1] if is_package_name(line[:-1]) else "", []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def _parse_version(spelled: str) -> str:
    return "" if spelled == _NONE else spelled


def _parse_sources(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """(version, archive) as the version table shows them."""
    version = ""
    for line in lines:
        if match := _SOURCE.match(line):
            if version and match[1] != _STATUS:
                yield version, match[1]
        elif match := _VERSION.match(line):
            version = match[1]


def _name_origins(
    sources: Iterable[tuple[str, str]], archives: Mapping[str, str]
) -> dict[str, str]:
    """Version -> the word for who has it; where several have, Ubuntu before the others, then the
    first.
    """
    found: dict[str, list[str]] = {}
    for version, source in sources:
        found.setdefault(version, []).append(archives.get(source) or word_for("", "", source))
    return {
        version: "Ubuntu" if "Ubuntu" in words else words[0] for version, words in found.items()
    }


def policy_of(
    reader: Reader, names: Iterable[str], installed_now: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, Offer]:
    """The offers of these packages; apt-cache is asked twice. Unknown where apt or its lists are
    missing.
    """
    wanted = tuple(sorted(set(names)))
    if not wanted:
        return MappingProxyType({})
    archives = parse_archives(ask_apt(reader, POLICY))
    # Without lists apt-cache still answers for what is installed, with status 0: that would read as
    # versions that no archive has.
    if not archives:
        raise UnknownFact("apt's package lists are missing: sudo apt-get update")
    return parse_policy(ask_apt(reader, (*POLICY, *wanted)), archives, installed_now)


def ask_apt(reader: Reader, command: tuple[str, ...]) -> str:
    """What apt-cache prints; unknown where it is not there, or says no."""
    answer = ask(reader, command, timeout_s=_TIMEOUT_S)
    if answer.status != 0:
        error = next(
            (line for line in answer.errors.splitlines() if line.strip()),
            f"exit status {answer.status}",
        )
        raise UnknownFact(f"{' '.join(command[:2])}: {error}")
    return answer.text


def _read_others(reader: Reader, facts: Facts, names: list[str]) -> Mapping[str, Offer]:
    """Dpkg's own account goes first: an overlay has it, and apt knows the host below."""
    packages = facts.packages
    return policy_of(
        reader,
        names,
        {name: packages[name].version for name in names if packages[name].is_installed},
    )


def _read_offers(reader: Reader, facts: Facts) -> Mapping[str, Offer]:
    versions = {package.name: package.version for package in facts.driver.packages}
    found = policy_of(reader, versions, versions)
    if len(found) > MOST_PACKAGES:
        raise UnknownFact(
            f"apt-cache answers with more than {MOST_PACKAGES:,} packages of a driver"
        )
    return found
