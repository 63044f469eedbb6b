"""Versions of what containers run on that have known holes, by the package's own table, and what
apt offers for those of the distribution.

The table, hosttune/tables/known-holes.tsv, names its sources and date. Read are dpkg's database,
the loaded driver, and the names of the libraries that the GPU Operator puts below
/usr/local/nvidia/toolkit: no program is started for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt
from hosttune.facts.gpu.archives import POLICY, Offer, ask_apt, parse_archives, policy_of
from hosttune.facts.gpu.strangers import home_of
from hosttune.facts.own_tables import OwnTable, read_own_table
from hosttune.facts.reading import names_in
from hosttune.facts.subject import Subject, fact
from hosttune.facts.versions import compare_versions, sorted_versions, upstream_of
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.quoting import join, quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

TABLE = "known-holes"
DRIVER, OPERATOR = "driver", "operator-toolkit"
_OPERATOR_FOLDER = "/usr/local/nvidia/toolkit"
_LIBRARY = regex(r"libnvidia-container\.so\.(\d+\.\d+\.\d+)")
# What Ubuntu and Debian build has a revision of theirs: 1.1.12-0ubuntu3.1, 252.39-1~deb12u2.
_OF_DISTRIBUTION = regex(r"\dubuntu\d|[~+]deb\d")
_DISTRIBUTIONS = ("Ubuntu", "Debian")
_FIRST_WITHOUT_BRANCH = 590
_RUNTIMES = (
    "runc",
    "containerd",
    "docker.io",
    "moby-runc",
    "nvidia-container-toolkit",
    "crun",
    "podman",
)


@frozen
class HoleRow:
    """One row: a package is sound from the version of its line on."""

    package: str
    fixed: tuple[str, ...]
    ids: str
    is_sure: bool

    def fix_for(self, version: str) -> str:
        """The version that this one has to be brought to; empty where it is sound, or of a line
        that no row names.
        """
        if len(self.fixed) == 1:
            return self.fixed[0] if compare_versions(version, self.fixed[0]) < 0 else ""
        parts = 1 if self.package == DRIVER else 2
        line = version.split(".")[:parts]
        fix = next((one for one in self.fixed if one.split(".")[:parts] == line), "")
        return fix if fix and compare_versions(version, fix) < 0 else ""


@frozen
class Hole(Fact):
    """What is installed and has a hole."""

    name: str  # the package; driver, operator-toolkit
    version: str  # the one that is installed
    ids: str  # CVE-2026-24260, or the bulletins
    fixed: str  # the version that has it no more
    is_sure: bool  # of the row
    # a command or a setting, by which it comes to that version in the way that it is here
    way_out: str = ""

    @property
    def text(self) -> str:
        """Program, version, the names of the holes and the version that closes them."""
        return (
            f"{_NAMES.get(self.name, self.name)} {self.version} ({self.ids}; fixed in {self.fixed})"
        )


@frozen
class KnownHoles(Subject):
    """What the table says of this host."""

    @fact
    def as_of(self) -> str:
        """The day of the table, ISO 8601."""
        return self._table[1]

    @fact
    def good_until(self) -> str:
        """The day (ISO 8601) after which the table is out of date."""
        return self._table[2]

    @fact
    def is_current(self) -> bool:
        """It may still be held against a host."""
        return self.facts.host.today <= self.good_until

    @fact
    def judged(self) -> tuple[str, ...]:
        """What is here and in the table, or a runtime of the distribution."""
        return tuple(dict.fromkeys((*self._versions, *self._own)))

    @fact
    def found(self) -> tuple[Hole, ...]:
        holes = _find_holes(self._table[0], self._versions)
        return tuple(replace(one, way_out=_way_out(one, self.facts)) for one in holes)

    @fact
    def has_lists(self) -> bool:
        """`apt` knows what the distribution offers; true where none of its runtimes is here."""
        return not self._own or bool(parse_archives(ask_apt(self.reader, POLICY)))

    @fact
    def offered(self) -> tuple[Offer, ...]:
        """Runtimes of the distribution for which apt has a newer version."""
        return _find_offered(self.reader, self._own)

    @fact
    def _table(self) -> tuple[tuple[HoleRow, ...], str, str]:
        return own_table()

    @fact
    def _versions(self) -> Mapping[str, str]:
        return dict(
            _find_versions(self.reader, self.facts, {row.package for row in self._table[0]})
        )

    @fact
    def _own(self) -> Mapping[str, str]:
        return _of_distribution(self.facts)

    @property
    def sure_way_out(self) -> str:
        """What a person does about the holes that are certain, a step on each line."""
        return self._join_ways(is_sure=True)

    @property
    def unsure_way_out(self) -> str:
        """The same for those that the maker's advisories decide about."""
        return f"see the advisories of its maker first\n{self._join_ways(is_sure=False)}"

    def _join_ways(self, *, is_sure: bool) -> str:
        ways = [one.way_out for one in self.found if one.is_sure is is_sure]
        first = "when no job runs, as containers may restart: sudo apt-get update"
        return "\n".join(dict.fromkeys((*((first,) if any(map(_uses_apt, ways)) else ()), *ways)))


def _uses_apt(way_out: str) -> bool:
    return "sudo apt-get" in way_out


_NAMES = {DRIVER: "NVIDIA's driver", OPERATOR: "the GPU Operator's container toolkit"}


def own_table() -> tuple[tuple[HoleRow, ...], str, str]:
    """The rows, the day of the table, and the last day on which it counts. Raises HosttuneError if
    it is missing.
    """
    return parse_table(read_own_table(TABLE))


def parse_table(table: OwnTable) -> tuple[tuple[HoleRow, ...], str, str]:
    """As `own_table`."""
    rows = tuple(
        HoleRow(package, tuple(fixed.split(",")), ids.replace(",", ", "), weight == "sure")
        for _, package, fixed, ids, weight in table.rows
    )
    return rows, table.as_of, table.good_until


def _find_versions(reader: Reader, facts: Facts, packages: set[str]) -> Iterator[tuple[str, str]]:
    """What is here of the table, without what a distribution built."""
    for name in sorted(packages - {DRIVER, OPERATOR}):
        package = facts.packages[name]
        # A distribution fixes holes under its old number, so that a comparison would accuse what is
        # sound.
        if package.is_installed and not _OF_DISTRIBUTION.search(package.version):
            yield name, upstream_of(package.version)
    loaded = facts.driver.loaded_version
    if loaded and home_of(facts) not in _DISTRIBUTIONS:
        yield DRIVER, loaded
    libraries = (_LIBRARY.fullmatch(name) for name in names_in(reader, _OPERATOR_FOLDER))
    # By version and not by name: 1.17.10 is newer than 1.17.9, and an update leaves the old one.
    if found := sorted_versions(match[1] for match in libraries if match):
        yield OPERATOR, found[-1]


def _way_out(hole: Hole, facts: Facts) -> str:
    if hole.name == OPERATOR:
        return f"toolkit.version of the GPU Operator's ClusterPolicy, {hole.fixed} or newer"
    if hole.name != DRIVER:
        return f"sudo apt-get install --only-upgrade {quote(hole.name)}"
    return _driver_way(facts, f"{hole.fixed} or newer")


def _driver_way(facts: Facts, newer: str) -> str:
    driver = facts.driver
    # only the driver that its hypervisor's release names drives it
    if attempt(lambda: facts.gpus.is_vgpu) is True:
        return (
            "the next guest driver that goes with the vGPU release of this hypervisor "
            "(docs.nvidia.com/vgpu)"
        )
    if driver.branch:
        names = join(one.name for one in driver.packages)
        return f"{_describe_pinned(facts)}sudo apt-get install --only-upgrade {names}\nreboot"
    if driver.is_vgpu_manager:  # its releases have numbers of their own
        return (
            "at a maintenance a vGPU manager whose release notes name them (docs.nvidia.com/vgpu)"
        )
    image = attempt(lambda: facts.role.vendor_image)
    if driver.runfile and image == "":
        return f"at a maintenance, NVIDIA's installer of {newer} (nvidia.com/drivers)"
    if facts.managers.gpu_operator:
        return f"driver.version of the GPU Operator's ClusterPolicy, {newer}"
    if isinstance(image, str) and image:
        return f"a newer image of {image} with driver {newer}: start the next instance from it"
    return f"driver {newer} from the source of this one (its image, or the installer of its maker)"


def _describe_pinned(facts: Facts) -> str:
    """From branch 590 on NVIDIA's archive has no branch in the names of its packages: this one
    keeps it (NVIDIA, driver installation guide, version locking).
    """
    number = parse_digits(facts.driver.branch, 0)
    is_kept = any(name.startswith("nvidia-driver-pinning-") for name in facts.packages.names)
    if is_kept or number < _FIRST_WITHOUT_BRANCH:
        return ""
    return f"sudo apt-get install nvidia-driver-pinning-{number}\n"


def _of_distribution(facts: Facts) -> Mapping[str, str]:
    found = ((name, facts.packages[name]) for name in _RUNTIMES)
    return {
        name: one.version
        for name, one in found
        if one.is_installed and _OF_DISTRIBUTION.search(one.version)
    }


def _find_holes(rows: tuple[HoleRow, ...], versions: Mapping[str, str]) -> Iterator[Hole]:
    """One for each package and weight: all that it has, and the version that has none of them any
    more.
    """
    holes: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for row in rows:
        version = versions.get(row.package, "")
        if version and (fixed := row.fix_for(version)):
            holes.setdefault((row.package, row.is_sure), []).append((row.ids, fixed))
    for (package, is_sure), found in holes.items():
        # Several rows can hit one package, and only the highest of their versions has none of the
        # holes.
        newest = sorted_versions(fixed for _, fixed in found)[-1]
        yield Hole(package, versions[package], ", ".join(ids for ids, _ in found), newest, is_sure)


def _find_offered(reader: Reader, own: Mapping[str, str]) -> tuple[Offer, ...]:
    offers = policy_of(reader, own, own)
    return tuple(offers[name] for name in sorted(offers) if offers[name].is_newer)
