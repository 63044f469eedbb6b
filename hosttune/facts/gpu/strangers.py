"""Who built the packages of the driver, and which of them do not belong to the rest of it.

Archives keep their newest versions, so apt knows no origin of many an installed one; then name and
revision tell. Sources: Ubuntu's nvidia-graphics-drivers-N (580.95.05-0ubuntu0.24.04.1, in the
archive of a new release 0ubuntu1), the graphics-drivers PPA (560.35.03-0ubuntu0~gpu20.04.4),
Debian's (535.247.01-1~deb12u1); NVIDIA's driver installation guide, "Ubuntu 590 and later packages"
(names without a branch); 1ubuntu1 and 0ubuntu1 of NVIDIA's archive as in
GoogleCloudPlatform/cluster-toolkit#5285 and ZaidQureshi/bam#41.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.gpu.archives import BESIDE
from hosttune.facts.gpu.driver import find_transitional
from hosttune.facts.gpu.package_roles import PREBUILT, PackageRole, parse_package, role_of
from hosttune.facts.versions import sorted_versions, upstream_of
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer

GRAPHICS_PPA: Final = "LP-PPA-graphics-drivers"
_PPA: Final = "LP-PPA-"  # the Origin of every PPA begins so
_DISTRIBUTIONS: Final = ("Ubuntu", "Debian")
_LOOKS: Final = (
    (regex(r"~gpu\d"), GRAPHICS_PPA),
    (regex(r"^\d+ubuntu\d+\.\d"), "Ubuntu"),
    (regex(r"[~+](?:deb|bpo)\d+"), "Debian"),
    (regex(r"^[1-9]\d*ubuntu\d+$"), "NVIDIA"),
)
# NVIDIA's archives for Debian have names of their own; Debian's own package is
# nvidia-open-kernel-dkms.
_OF_NVIDIA: Final = frozenset({"nvidia-kernel-open-dkms", "nvidia-driver-cuda"})
_FIRST_OF_A_RELEASE = regex(r"0ubuntu\d+")  # Ubuntu's for a new release, and NVIDIA's up to 580
_DRIVER_VERSION = regex(r"\d{3}\.\d+(?:\.\d+)*")
# one package for each version, side by side
_FIRMWARE = regex(r"nvidia-firmware-\d{3}(?:-server)?-(\d{3}\.[\d.]+)")
_OTHER_DRIVER = regex(r"-(?:legacy|tesla)-")  # Debian has these beside the newest one
_BESIDE_MODULE = (PackageRole.DKMS, PackageRole.KERNEL_COMMON)


@frozen
class DriverMember(Fact):
    """One installed package of the driver."""

    name: str
    version: str
    # Ubuntu, Debian, NVIDIA, or what the archive calls itself (`Offer`); empty where nothing tells
    maker: str
    is_held: bool = False

    @property
    def upstream(self) -> str:
        """The driver's version that it brings; empty where its version is not that of a driver."""
        found = "" if is_of_kernel(self.name) else upstream_of(self.version)
        return found if _DRIVER_VERSION.fullmatch(found) else ""

    @property
    def text(self) -> str:
        """libnvidia-compute 590.44.01-1ubuntu1 (NVIDIA's archive)."""
        return (
            f"{self.name} {self.version} ({name_archive(self.maker)})"
            if self.maker
            else f"{self.name} {self.version}"
        )


@frozen
class Mixture(Fact):
    """The installed packages, and which version and maker most of them have."""

    version: str  # 580.105.08; empty without packages
    maker: str
    members: tuple[DriverMember, ...]
    of_version: tuple[DriverMember, ...]  # those of another version than the rest
    of_maker: tuple[DriverMember, ...]  # those of the same version that another archive built
    own: tuple[DriverMember, ...]  # those that belong to each other

    @property
    def strangers(self) -> tuple[DriverMember, ...]:
        return (*self.of_version, *self.of_maker)


def name_archive(maker: str) -> str:
    """An archive as words: NVIDIA's archive."""
    words = {
        "NVIDIA": "NVIDIA's archive",
        GRAPHICS_PPA: "the graphics-drivers PPA",
        "": "no archive that is known",
    }
    return words.get(maker, maker if maker in _DISTRIBUTIONS else f"the archive {maker}")


def is_of_kernel(name: str) -> bool:
    """A package with Ubuntu's prebuilt modules, which is versioned as their kernel."""
    return role_of(name) in PREBUILT


def maker_of(name: str, version: str, origin: str) -> str:
    """Who built this version. `origin` is apt's word for the archive, empty where none has it.
    Where that is none of the known makers, it may be a mirror of theirs, so that the version
    decides, where it does.
    """
    if origin in (*_DISTRIBUTIONS, "NVIDIA") or origin.startswith(_PPA):
        return origin
    return _by_look(name, version) or origin


def _by_look(name: str, version: str) -> str:
    if is_of_kernel(name):
        return "Ubuntu"
    if name in _OF_NVIDIA:
        return "NVIDIA"
    revision = version.rpartition("-")[2]
    if found := next((maker for look, maker in _LOOKS if look.search(revision)), ""):
        return found
    return (
        "NVIDIA"
        if _FIRST_OF_A_RELEASE.fullmatch(revision) and not parse_package(name).branch
        else ""
    )


def mixture_of(facts: Facts) -> Mixture:
    """What the installed packages of the driver are together; where apt's lists are not known, by
    their look.
    """
    members = _list_members(facts)
    version = _find_commonest(members, facts)
    of_version = tuple(
        one
        for one in members
        if not _FIRMWARE.fullmatch(one.name) and one.upstream not in ("", version)
    )
    rest = _exclude_members(members, of_version)
    maker = _find_home(rest)
    of_maker = tuple(
        one for one in rest if one.maker != maker and one.maker and _meets_rest(one, version, facts)
    )
    return Mixture(version, maker, members, of_version, of_maker, _exclude_members(rest, of_maker))


def _exclude_members(
    members: Iterable[DriverMember], others: Iterable[DriverMember]
) -> tuple[DriverMember, ...]:
    names = {one.name for one in others}
    return tuple(one for one in members if one.name not in names)


def home_of(facts: Facts) -> str:
    """Who built the driver that is installed, or most of it; empty where nothing tells."""
    return mixture_of(facts).maker


def strangers_of(facts: Facts) -> tuple[DriverMember, ...]:
    """The packages that do not belong to the rest of the driver: of another version, or of another
    archive.
    """
    return mixture_of(facts).strangers


def _list_members(facts: Facts) -> tuple[DriverMember, ...]:
    try:
        offers: Mapping[str, Offer] = facts.archives.packages
    except UnknownFact:
        offers = {}
    found = []
    # An empty step to another branch has a version of its old one, and keeps the rest from `apt
    # autoremove`.
    steps = find_transitional((one.name, one.version) for one in facts.driver.packages)
    for one in facts.driver.packages:
        if one.name in steps:
            continue
        if not BESIDE.fullmatch(one.name) and not _OTHER_DRIVER.search(one.name):
            origin = offers[one.name].installed_from if one.name in offers else ""
            found.append(
                DriverMember(
                    one.name, one.version, maker_of(one.name, one.version, origin), one.is_held
                )
            )
    # Revisions of two archives differ, so the same version to the last character has the same
    # maker.
    known = {one.version: one.maker for one in found if one.maker}
    return tuple(
        DriverMember(one.name, one.version, one.maker or known.get(one.version, ""), one.is_held)
        for one in found
    )


def _find_commonest(members: Iterable[DriverMember], facts: Facts) -> str:
    """The version of most packages. The module on the disk, the loaded one and DKMS' sources count
    as one each, for they show what the driver was before a package of another version came.
    """
    counts = Counter(
        one.upstream for one in members if one.upstream and not _FIRMWARE.fullmatch(one.name)
    )
    if len(counts) > 1:
        counts.update(one for one in evidence_of(facts).values() if one in counts)
    # Of versions with as many packages the newest counts: max() keeps the first of equals.
    return max(reversed(sorted_versions(counts)), key=lambda version: counts[version], default="")


def evidence_of(facts: Facts) -> Mapping[str, str]:
    """What tells of the driver's version besides its packages: words for it -> version; what is not
    known is left out.
    """
    found = {
        "the loaded module": attempt(lambda: facts.driver.loaded_version),
        "the module on the disk": attempt(
            lambda: facts.driver.modules[-1].version if facts.driver.modules else ""
        ),
        "DKMS": attempt(
            lambda: next((one.version for one in facts.driver.dkms if one.is_installed), "")
        ),
    }
    return {
        word: version for word, version in found.items() if isinstance(version, str) and version
    }


def _find_home(members: Iterable[DriverMember]) -> str:
    known = [one for one in members if one.maker]
    of_driver = [
        one for one in known if one.upstream and not _FIRMWARE.fullmatch(one.name)
    ] or known
    counts = Counter(one.maker for one in of_driver)
    modules = Counter(one.maker for one in of_driver if role_of(one.name) in _BESIDE_MODULE)
    # Sorted, so that a tie has the same answer in each run.
    return max(sorted(counts), key=lambda maker: (counts[maker], modules[maker]), default="")


def _meets_rest(member: DriverMember, version: str, facts: Facts) -> bool:
    """Whether a package of another archive meets the rest of the driver: firmware of the same
    version has the same files, and prebuilt modules count where a kernel would load them.
    """
    if firmware := _FIRMWARE.fullmatch(member.name):
        return firmware[1] == version
    if not is_of_kernel(member.name):
        return True
    modules = attempt(lambda: facts.driver.modules)
    return isinstance(modules, tuple) and any(one.source == "prebuilt" for one in modules)
