"""What an administrator has decided in apt that keeps packages from being installed: holds, pins,
archives that are switched off. Each with the file and line, or the command, that would change it.

They explain what apt-get, apt-cache and `ubuntu-drivers` say, so where they cannot be read there is
no explanation, and the rest of an answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.gpu.archives import NVIDIA_SITES, POLICY, ask_apt, pinned_away, releases_in
from hosttune.facts.gpu.package_roles import PackageRole, is_driver_package, role_of
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.apt_pins import Pin
    from hosttune.facts.placed import Placed

AGAIN = "then run it again"
_NUMBER = regex(r"[a-z].*?-(\d{3})(?=-|$)")
# NVIDIA's archives with drivers, and packages that each of them has.
_CUDA = "/compute/cuda/repos/"
_KEYRING = "cuda-keyring_1.1-1_all.deb"  # NVIDIA's driver installation guide, network repository
_WITH_ARCHIVE = {"debian": "Debian", "ubuntu": "Ubuntu"}
_CONFLICT = regex(r"Conflicting values set for option [\w-]{1,40} regarding source (\S{1,200})")
_OF_DISTRIBUTION = regex(
    r"https?://(?:[\w-]{1,63}\.){0,4}(ubuntu|debian)\.(?:com/ubuntu|org/debian)(?![\w.])"
)
_OF_SYSTEM = regex(rf"{_CUDA}(debian|ubuntu)(\d{{2,4}})/")
_LOCAL_COPY = regex(
    r"\bfile:/[/\w.-]{0,200}cuda-repo-"
)  # of the local installers of CUDA: file:///var/cuda-repo-debian12-12-4-local
_OF_CUDA = ("cuda-drivers", "cuda-keyring", "nvidia-open")
_SHOWN = 3
_MOST_PINNED = 100  # packages whose pin is looked for: each is held against all
_OF_DRIVERS = ("restricted", "multiverse")


@frozen
class AptDecision(Fact):
    """One decision."""

    what: str  # a clause
    undo: str  # what a person does to change it


def decisions_about(facts: Facts, names: Iterable[str]) -> tuple[AptDecision, ...]:
    """Those that keep these packages, or what belongs to the same driver, from being installed."""
    return _find_decisions(facts, _belongs_to(names), with_holds=True)


def hold_on_absent(facts: Facts, names: Iterable[str]) -> AptDecision | None:
    """The hold on packages that are to be installed, of which one is among these; apt-get fails
    then.
    """
    asked = tuple(names)
    if not {*facts.packages.held_absent} & {*asked}:
        return None
    return join_decisions(_find_holds(facts, _belongs_to(asked)))


def _belongs_to(names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a package is one of these, or of the same branch of the driver."""
    asked = frozenset(names)
    numbers = {_parse_number(name) for name in asked if is_driver_package(name)}
    return lambda name: (
        name in asked or (is_driver_package(name) and _parse_number(name) in numbers)
    )


def decisions_about_offer(facts: Facts) -> tuple[AptDecision, ...]:
    """Those that keep apt and `ubuntu-drivers` from offering a driver: a hold does not."""
    return _find_decisions(facts, _is_offered, with_holds=False)


def _is_offered(name: str) -> bool:
    """What goes beside a driver keeps no driver from being offered."""
    is_beside = "fabricmanager" in name or role_of(name) in (PackageRole.FABRIC, PackageRole.BESIDE)
    return is_driver_package(name) and not is_beside


def pin_on(facts: Facts, name: str) -> str:
    """An administrator's pin that keeps apt from this package, with what changes it; empty where
    none is known.
    """
    try:
        pins = [
            pin
            for pin in facts.apt.pins
            if pin.priority < 0 and not pin.is_general and pin.names(name)
        ]
    except UnknownFact:
        return ""
    return (
        f"{pins[0].place} keeps {name} from being installed ({pins[0].words}): "
        f"{change_pin(pins[0])}"
        if pins
        else ""
    )


def _find_decisions(
    facts: Facts, is_wanted: Callable[[str], bool], *, with_holds: bool
) -> tuple[AptDecision, ...]:
    found = [*_find_holds(facts, is_wanted)] if with_holds else []
    looks: tuple[Callable[[], list[AptDecision]], ...] = (
        lambda: _find_pins(facts, is_wanted),
        lambda: _components_off(facts),
    )
    for look in looks:
        try:
            found += look()
        except UnknownFact:
            continue
    return tuple(found)


def join_decisions(decisions: Iterable[AptDecision]) -> AptDecision | None:
    """All of them as one; None where there is none."""
    every = tuple(decisions)
    return (
        AptDecision("; ".join(one.what for one in every), "\n".join(one.undo for one in every))
        if every
        else None
    )


def _parse_number(name: str) -> str:
    match = _NUMBER.match(name)
    return match[1] if match else ""


def _find_holds(facts: Facts, is_wanted: Callable[[str], bool]) -> list[AptDecision]:
    try:
        held = [name for name in facts.packages.held if is_wanted(name)]
    except UnknownFact:
        return []
    if not held:
        return []
    absent = [name for name in held if not facts.packages[name].is_installed]
    state = (
        "; not installed"
        if absent == held
        else f"; not installed: {_list(absent)}"
        if absent
        else ""
    )
    return [
        AptDecision(
            f"an administrator holds {_list(held)} (apt-mark showhold{state})",
            f"{make_unhold_command(held)}, {AGAIN}",
        ),
    ]


def make_unhold_command(names: Iterable[str]) -> str:
    """How a person takes holds away that an administrator set: never by the way."""
    return f"when the hold has served: sudo apt-mark unhold {' '.join(map(quote, names))}"


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _find_pins(facts: Facts, is_wanted: Callable[[str], bool]) -> list[AptDecision]:
    """The pins below 0 that take effect. apt-cache(8) shows which packages and archives have such a
    priority, and not by which stanza.
    """
    answer = ask_apt(facts.reader, POLICY)
    away = [name for name in pinned_away(answer) if is_wanted(name)][:_MOST_PINNED]
    archives = [release for release, priority in releases_in(answer) if priority < 0]
    below = [pin for pin in facts.apt.pins if pin.priority < 0]
    general = [pin for pin in below if pin.is_general and any(map(pin.fits_archive, archives))]
    named = {
        pin.place: pin for name in away for pin in below if not pin.is_general and pin.names(name)
    }
    blamed = [*named.values(), *general]
    if away and not named and not general:
        what = f"a pin of apt's preferences keeps {_list(away)} from being installed"
        return [
            AptDecision(
                what, f"find it: grep -rn Pin-Priority /etc/apt/preferences*; change it, {AGAIN}"
            )
        ]
    return [
        AptDecision(
            f"{pin.place} keeps {_describe_kept(pin, away)} from being installed ({pin.words})",
            f"{change_pin(pin)}, {AGAIN}",
        )
        for pin in blamed
    ]


def _components_off(facts: Facts) -> list[AptDecision]:
    """The lines that switch off a component of Ubuntu's archive which apt has no list of."""
    off = {one for one in facts.components.off if one in _OF_DRIVERS}
    if not off:
        return []
    fits = [
        one
        for one in facts.apt.disabled_sources
        if "ubuntu" in one.value and off & {*one.value.split()[2:]}
    ]
    return [_switched_off(one) for one in fits]


def change_pin(pin: Pin) -> str:
    """What a person does to change a pin."""
    return f"an administrator's decision: to change it, edit {quote(pin.path)} (line {pin.line})"


def _describe_kept(pin: Pin, away: list[str]) -> str:
    if pin.is_general:
        return "what its archives have"
    names = [name for name in away if pin.names(name)]
    return _list(names) if len(names) <= _SHOWN else f"{len(names)} packages"


def nvidia_switched_off(facts: Facts) -> AptDecision | None:
    """The line that switches NVIDIA's archive off; None where there is none, or sources cannot be
    read.
    """
    try:
        sources = facts.apt.disabled_sources
    except UnknownFact:
        return None
    return next(
        (_switched_off(one) for one in sources if any(site in one.value for site in NVIDIA_SITES)),
        None,
    )


def nvidia_without_list(facts: Facts) -> AptDecision | None:
    """The line of NVIDIA's archive of which apt has no list: it is switched off, its signature is
    refused, or it was never fetched. None where apt has a list of it. apt 3 refuses SHA-1 since
    2026-02-01 (github.com/NVIDIA/cuda-repo-management/issues/34 and 39).
    """
    try:
        offers = facts.archives.offers_of(_OF_CUDA).values()
        sources = [
            one
            for one in facts.apt.sources
            if any(f"{site}{_CUDA}" in one.value for site in NVIDIA_SITES)
        ]
    except UnknownFact:
        return None
    if any("NVIDIA" in (one.candidate_from, *one.versions.values()) for one in offers):
        return None
    if not sources:
        return nvidia_switched_off(facts)
    what = f"apt has no list of {sources[0].value} ({sources[0].place})"
    return AptDecision(what, _fetch_list(facts, sources[0]))


def _fetch_list(facts: Facts, source: Placed) -> str:
    """What brings the list of an archive of NVIDIA's. Its key has been another one since April 2022
    (github.com/NVIDIA/cuda-repo-management/issues/4), which its package cuda-keyring brings,
    together with a line of its own for the archive."""
    first = "sudo apt-get update, and solve what it says of that archive"
    address = source.value.partition(" ")[0].rstrip("/").replace("http://", "https://", 1)
    is_here = attempt(lambda: facts.packages["cuda-keyring"].is_installed)
    if is_here is not False or _CUDA not in address:
        return first
    is_its_own = source.path.startswith("/etc/apt/sources.list.d/cuda-")  # the package replaces it
    steps = (
        first,
        f"if the key is missing (NO_PUBKEY): sudo wget -P /root {quote(f'{address}/{_KEYRING}')}",
        f"sudo dpkg -i --force-confnew /root/{_KEYRING}",
        *([] if is_its_own else [f"take out the older line of that archive ({source.place})"]),
        "sudo apt-get update",
    )
    return "\n".join(steps)


def way_to_sources(facts: Facts, words: str) -> str:
    """What makes apt's sources readable again, by the words of apt or of who asks it; empty where
    they are not the trouble. Two lines of one archive with two keys are one: NVIDIA's keyring
    package brings a line of its own beside the one that an older guide had people write.
    """
    if "The list of sources could not be read" not in words:
        return ""
    way = "sudo apt-get update names the line that apt cannot read: correct it"
    if match := _CONFLICT.search(words):
        found = attempt(
            lambda: [one.place for one in facts.apt.sources if one.value.startswith(match[1])]
        )
        places = f": {', '.join(found)}" if isinstance(found, list) and found else ""
        kept = "one with /usr/share/keyrings/cuda-archive-keyring.gpg"
        kept = kept if any(site in match[1] for site in NVIDIA_SITES) else "one"
        way = f"keep {kept} of the lines of {quote(match[1])}, and take the others out{places}"
    return f"{way}\nsudo apt-get update"


def archive_of_other_system(facts: Facts) -> AptDecision | None:
    """The line of another distribution's archive, or of NVIDIA's for it (ubuntu2204 on Debian): a
    driver from there needs libraries that are not here, or that have other names. One for another
    release of this distribution may do. None also where sources cannot be read, and on a
    distribution of which NVIDIA has none.
    """
    try:
        own, sources = facts.os.id, facts.apt.sources
    except UnknownFact:
        return None
    if own not in _WITH_ARCHIVE:
        return None
    for source in sources:
        of_nvidia = (
            _OF_SYSTEM.search(source.value)
            if any(site in source.value for site in NVIDIA_SITES)
            else None
        )
        match = of_nvidia or _OF_DISTRIBUTION.match(source.value)
        if match and match[1] != own:
            system = _WITH_ARCHIVE[match[1]]
            whose = f"NVIDIA's archive for {system}" if of_nvidia else f"the archive of {system}"
            what = f"{source.place} has {whose} ({source.value}), and this is {facts.os.name}"
            return AptDecision(
                what, "take that line out, as its driver does not fit, and sudo apt-get update"
            )
    return None


def nvidia_of_other_release(facts: Facts) -> AptDecision | None:
    """The line of NVIDIA's archive for another release of this distribution (debian12 on Debian
    13), where there is none for its own: it lacks what the newer kernels and libraries need. None
    also where sources cannot be read.
    """
    try:
        own, sources = (facts.os.id, facts.os.version_id.replace(".", "")), facts.apt.sources
    except UnknownFact:
        return None
    ours = (one for one in sources if any(site in one.value for site in NVIDIA_SITES))
    found = [(match.groups(), one) for one in ours if (match := _OF_SYSTEM.search(one.value))]
    others = [(system, one) for system, one in found if system[0] == own[0] and system != own]
    # Debian's testing and unstable have no number (os-release(5)): no archive of NVIDIA's is for
    # them.
    is_testing = own == ("debian", "")
    # A line for this release beside the other one is enough: apt takes the version that fits, and
    # the older line does no harm.
    if not (own[1] or is_testing) or not others or any(system == own for system, _ in found):
        return None
    (name, number), source = others[0]
    what = (
        f"{source.place} has NVIDIA's archive for {name}{number} ({source.value}), and this is "
        f"{facts.os.name}"
    )
    if is_testing:
        return AptDecision(
            what, "take that line out for the driver of Debian itself, and sudo apt-get update"
        )
    return AptDecision(
        what, f"write {''.join(own)} there, if NVIDIA has that archive, and sudo apt-get update"
    )


def nvidia_local_copy(facts: Facts) -> AptDecision | None:
    """The copy of NVIDIA's archive on this disk (cuda-repo-debian12-12-4-local), which gets nothing
    new, where apt has no other one of NVIDIA's. None also where sources cannot be read.
    """
    try:
        sources = facts.apt.sources
    except UnknownFact:
        return None
    found = [one for one in sources if _LOCAL_COPY.search(one.value)]
    if not found or any(site in one.value for one in sources for site in NVIDIA_SITES):
        return None
    guide = "docs.nvidia.com/datacenter/tesla/driver-installation-guide, network repository"
    return AptDecision(
        f"{found[0].place} has a copy of NVIDIA's archive on this disk ({found[0].value}), which "
        "gets nothing newer",
        f"install the package cuda-keyring of this release ({guide}) and sudo apt-get update",
    )


def _switched_off(source: Placed) -> AptDecision:
    return AptDecision(
        f"{source.place} has the archive {source.value} switched off", switch_on(source)
    )


def switch_on(source: Placed) -> str:
    """What enables an archive again."""
    update = "sudo apt-get update"
    if not source.line:
        return f"sudo mv {quote(source.path)} {quote(source.path.rpartition('.')[0])} && {update}"
    change = "set Enabled: yes" if source.path.endswith(".sources") else "take the # away"
    return f"{change} in line {source.line} of {quote(source.path)}, then {update}"
