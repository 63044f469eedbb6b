"""Packages of the driver that do not belong to the rest of it: of another version, of another
archive; and what an installed package needs and nothing brings. Each says which package is the
stranger, and what puts that side right.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hosttune.choices.driver_states.state import (
    INITRAMFS,
    REBOOT,
    BootOutlook,
    StateText,
    installer_steps,
    libraries_only,
)
from hosttune.choices.drivers.branch import describe_not_driven
from hosttune.choices.next_kernel import (
    dkms_packages,
    is_from_nvidia,
    kernels_in_use,
    make_module_commands,
)
from hosttune.facts.apt_decisions import make_unhold_command
from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.gpu.archives import Offer, branch_in, policy_of
from hosttune.facts.gpu.package_roles import PREBUILT, parse_package
from hosttune.facts.gpu.strangers import (
    GRAPHICS_PPA,
    DriverMember,
    Mixture,
    evidence_of,
    is_of_kernel,
    maker_of,
    mixture_of,
    name_archive,
)
from hosttune.facts.kernel.kernel import flavour_of, select_metapackages
from hosttune.facts.packages import is_unfinished
from hosttune.facts.relations import first_of, unmet_of
from hosttune.facts.versions import compare_versions, sorted_versions, upstream_of
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.gpu.driver_modules import DriverModule

_SHOWN = 4  # packages that a sentence names
_NAME = regex(
    r"(?P<role>(?:(?:lib)?nvidia-|xserver-xorg-video-)[a-z0-9-]*?[a-z][a-z0-9]*?)(?:-"
    r"(?P<number>\d{3})(?P<server>-server)?)?"
    r"(?P<open>-open)?(?P<machine>:\w+)?"
)
# The firmware of a branch comes with its nvidia-kernel-common.
_FOLLOWS = regex(r"nvidia-firmware(?:-.+)?|linux-(?:modules|objects|signatures)-nvidia-.+")
_OF_KERNEL = regex(r"linux-modules-nvidia-\d+(?:-server)?(?:-open)?-(\d+\.\d+\.\d+-.+)")
_LIBRARIES = regex(r"libnvidia-compute(?:-\d{3}(?:-server)?)?|libnvidia-ml1|libcuda1")
_DKMS = regex(r"-dkms(?:-|$)")
_METAPACKAGE = regex(r"nvidia-(?:driver|headless|open)(?:-.+)?|cuda-drivers(?:-.+)?")
APT = "sudo apt-get install"
_PURGE = f"{APT} ppa-purge && sudo ppa-purge ppa:graphics-drivers/ppa"


def other_versions(facts: Facts) -> StateText | None:
    """Packages of two versions in one driver."""
    state = _other_versions(facts)
    if state and stopped_by_mixture(facts):
        return state[0], "what solves `broken packages` does this too"
    return state and (state[0], _when_whole(facts, state[1]))


def _when_whole(facts: Facts, way: str) -> str:
    """The way out, which apt takes only where dpkg did not stop half-way."""
    return f"after `broken packages` is solved: {way}" if facts.driver.half_way else way


def stopped_by_mixture(facts: Facts) -> tuple[str, str] | None:
    """Where the half-way packages of the driver need others of it in another version than those
    are: apt's own repair brings them what they need only if that is what it prefers, and else
    removes them.
    """
    half = {one.name for one in facts.driver.packages if one.status != "installed"}
    if not half or not facts.driver.branch or facts.reader.has_tried_packages:
        return None
    mix, own = mixture_of(facts), {one.name for one in facts.driver.packages}
    sides = ({one.name for one in mix.of_version}, {one.name for one in mix.own})
    lacking = (first_of(clause)[0] for name in half for clause in unmet_of(facts.packages, name))
    is_of_one = any(half <= side for side in sides)
    return _other_versions(facts) if is_of_one and any(name in own for name in lacking) else None


def _other_versions(facts: Facts) -> tuple[str, str] | None:
    mix = mixture_of(facts) if facts.driver.branch else None
    if mix is None or not mix.of_version:
        return None
    rest = [one for one in mix.own if one.upstream]
    witnesses = [word for word, version in evidence_of(facts).items() if version == mix.version]
    others = (
        [f"the other {len(rest)} packages" if len(rest) > 1 else rest[0].name, *witnesses]
        if rest
        else witnesses
    )
    rest_of = f"{_join_words(others)} {_are(others)} {mix.version}"
    evidence = f"the driver is a mix of two versions: {_list_members(mix.of_version)}; {rest_of}"
    needs = _describe_unmet(facts)
    return f"{evidence}; {needs}" if needs else evidence, _way_back(facts, mix)


def boot_after_other_versions(facts: Facts) -> BootOutlook:
    """Where the libraries are not of the module's version a boot brings nothing, or takes what
    works.
    """
    if not splits_driver(facts):
        return BootOutlook.NOTHING
    driver = facts.driver
    return (
        BootOutlook.HARMS if driver.is_loaded and not driver.is_mismatched else BootOutlook.USELESS
    )


def splits_driver(facts: Facts) -> bool:
    """Whether the libraries and the module that the next boot loads are of two versions; the loaded
    one, where no file tells.
    """
    driver = facts.driver
    try:
        module = driver.modules[-1].version if driver.modules else driver.loaded_version
    except UnknownFact:
        module = driver.loaded_version
    return bool(driver.userspace_version and module) and module != driver.userspace_version


def other_makers(facts: Facts) -> StateText | None:
    """Packages of one version that two archives built."""
    mix = mixture_of(facts) if facts.driver.branch else None
    if mix is None or not mix.of_maker:
        return None
    strange = _list_members(mix.of_maker)
    evidence = (
        f"the driver is a mix of packages from two archives: {strange}; the rest is from "
        f"{name_archive(mix.maker)}"
    )
    return evidence, _when_whole(facts, _way_back(facts, mix))


def tell_of_unmet(facts: Facts) -> StateText | None:
    """Of a driver whose packages are one version; `other_versions` says it with the rest."""
    if (
        not facts.driver.branch
        or mixture_of(facts).of_version
        or not (needs := _describe_unmet(facts))
    ):
        return None
    unmet = _find_unmet(facts)
    # Installing what is there already changes nothing: the package that asks for an older one is
    # the stranger.
    older = [
        name
        for name, clauses in unmet
        if all(facts.packages[first_of(one)[0]].is_installed for one in clauses)
    ]
    if (
        older
        and len(older) == len(unmet)
        and (unused := _are_of_unused_kernels(facts, older)) is not None
    ):
        command = "sudo apt-get remove" if unused else f"sudo apt-get update\n{APT}"
        return f"{needs}: apt changes nothing before that is met", " ".join(
            (command, *map(quote, older))
        )
    wanted = [first_of(clause) for _, clauses in unmet for clause in clauses]
    words = dict.fromkeys(
        f"{name}={version}" if version else name for name, version in wanted if name
    )
    return (
        f"{needs}: apt changes nothing before that is met",
        (
            "sudo apt-get update\n"
            f"{APT} {' '.join(map(quote, words))} (apt-get -f install may remove the driver "
            "instead)"
        ),
    )


def _are_of_unused_kernels(facts: Facts, names: Iterable[str]) -> bool | None:
    """Whether these are the prebuilt modules of kernels that neither run nor start next; None if
    one is another package, or no one knows which kernel starts next.
    """
    kernels = [match[1] if (match := _OF_KERNEL.fullmatch(name)) else "" for name in names]
    if not all(kernels):
        return None
    try:
        used = {facts.kernel.release, facts.boot.next_kernel}
    except UnknownFact:
        return None
    return used.isdisjoint(kernels)


def third_party(facts: Facts) -> StateText | None:
    """The driver of an archive that neither the distribution nor NVIDIA keeps."""
    maker = mixture_of(facts).maker if facts.driver.branch else ""
    if maker in ("", "Ubuntu", "Debian", "NVIDIA"):
        return None
    if maker == GRAPHICS_PPA:
        return (
            (
                f"the driver comes from {name_archive(maker)}, a test archive that Ubuntu does not "
                "support"
            ),
            f"keep it, or go back to Ubuntu's driver at a maintenance: {_PURGE}\n{REBOOT}",
        )
    name = quote(facts.driver.packages[0].name)
    return (
        (
            f"the driver comes from {name_archive(maker)}, which is neither Ubuntu's, Debian's nor "
            "NVIDIA's"
        ),
        f"keep to that archive for all of it: apt-cache policy {name} shows what it has",
    )


def explains_versions(facts: Facts, one: str, other: str) -> bool:
    """Whether the packages are of these two versions, so that `other_versions` says it."""
    mix = mixture_of(facts) if facts.driver.branch else None
    return bool(
        mix and {one, other} <= {mix.version, *(stranger.upstream for stranger in mix.of_version)}
    )


def libraries_back(facts: Facts, module: DriverModule) -> str:
    """What brings the libraries to the version of the module, where they are the ones that do not
    belong; empty where the module is.
    """
    driver = facts.driver
    if not driver.branch:
        fetch, again = installer_steps(facts, module.version, libraries_only(module.version))
        if strangers := libraries_beside_installer(facts):
            steps = [f"sudo apt-get remove {' '.join(map(quote, strangers))}", "sudo ldconfig"]
            back = [
                "if libnvidia-ml.so.1 is missing then, run the installer of its version again:",
                fetch,
                again,
            ]
            return "\n".join([*steps, *back, *_reboot_unless(facts, module.version)])
        if module.source != "other" or not driver.runfile:
            return ""
        steps = [
            fetch,
            f"{again} (the libraries of the module)",
            *_reboot_unless(facts, module.version),
        ]
        other = (
            f"to give up that module, run the installer of {driver.userspace_version} again with "
            "--dkms"
        )
        return "\n".join((*steps, f"or, {other}"))
    if mixture_of(facts).version != module.version:
        return ""
    names = [name for name in facts.packages.names if _LIBRARIES.fullmatch(name)]
    files = " and ".join(
        f"{name}.so.{driver.userspace_version}" for name in ("libnvidia-ml", "libcuda")
    )
    first = (
        "sudo nvidia-uninstall"
        if driver.runfile
        else f"the libraries are of no package: move {files} away"
    )
    again = f"{APT} --reinstall {' '.join(map(quote, names))}"
    return "\n".join([first, again, "sudo ldconfig", *_reboot_unless(facts, module.version)])


def libraries_beside_installer(facts: Facts) -> tuple[str, ...]:
    """The packages that brought the libraries in use, where a driver of NVIDIA's installer is what
    they should fit: as a dependency or recommendation of another package; the libraries first.
    """
    driver = facts.driver
    if driver.branch or not driver.runfile or not driver.userspace_version:
        return ()
    same = [
        one.name for one in driver.packages if upstream_of(one.version) == driver.userspace_version
    ]
    libraries = [name for name in same if _LIBRARIES.fullmatch(name)]
    return (*libraries, *(name for name in same if name not in libraries)) if libraries else ()


def _find_unmet(facts: Facts) -> list[tuple[str, tuple[str, ...]]]:
    """The installed packages of the driver whose dependencies are not met, with those."""
    if facts.reader.has_tried_packages:  # what a plan would install tells no dependencies
        return []
    names = [one.name for one in facts.driver.packages if one.status == "installed"]
    return [(name, clauses) for name in names if (clauses := unmet_of(facts.packages, name))]


def _describe_unmet(facts: Facts) -> str:
    """The same as a sentence; empty where all is met."""
    found = [f"{name} needs {' and '.join(clauses)}" for name, clauses in _find_unmet(facts)]
    more = (
        f", and {len(found) - _SHOWN} more packages lack something" if len(found) > _SHOWN else ""
    )
    return f"unmet dependencies: {', '.join(found[:_SHOWN])}{more}" if found else ""


def _list_members(members: tuple[DriverMember, ...]) -> str:
    more = f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
    return f"{', '.join(one.text for one in members[:_SHOWN])}{more}"


def _join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _are(words: list[str]) -> str:
    return "are" if len(words) > 1 or words[0].endswith("packages") else "is"


def _way_back(facts: Facts, mix: Mixture) -> str:
    """The strangers brought to the version and archive of the rest, where apt has those; else all
    to one version that it has.
    """
    style = _find_naming_style(mix)
    twins = {one: _name_twin(one.name, style) for one in mix.strangers}
    modules = _modules_elsewhere(facts, style)
    known, nowhere = _read_offers(
        facts, [*(name for name in twins.values() if name), *modules.values()]
    )
    if without := sorted(nowhere & set(modules.values())):
        return f"no list of apt has {_join_words(without)}: sudo apt-get update, and look again"
    # nothing but names other packages
    idle = [twin for twin in nowhere if _METAPACKAGE.fullmatch(twin)]
    twins = {one: "" if twin in idle else twin for one, twin in twins.items()}
    gone = [*(one.name for one, twin in twins.items() if twin != one.name), *modules]
    come = dict.fromkeys(modules.values(), "")  # versioned as their kernel
    own = {one.name for one in mix.own}
    wanted = {
        twin: _version_like(mix, twin, known) for twin in twins.values() if twin and twin not in own
    }
    held = [one.name for one in mix.strangers if one.is_held]
    first = f"{make_unhold_command(held)}\n" if held else ""
    if all(wanted.values()):
        how = _make_command({**wanted, **come}, gone, mix.version, facts)
    elif nowhere & set(wanted) or not (how := _all_to_one(facts, mix, wanted, gone, known, come)):
        lost = ", ".join(name for name, version in wanted.items() if not version)
        made = f"{mix.version} of {name_archive(mix.maker)}" if mix.maker else mix.version
        return (
            f"no list of apt has {made} for {lost}, nor another version of all: sudo apt-get "
            "update, and look again"
        )
    return f"{first}{_built_first(facts, mix)}{how}"


def _modules_elsewhere(facts: Facts, style: str | None) -> Mapping[str, str]:
    """Ubuntu's prebuilt modules of another branch or series (-server) than the rest, for the
    kernels in use, with the rest's names for them. They need the nvidia-kernel-common of their own
    names, so apt removes them with it, and the next boot has no module.
    """
    # the module of the rest is compiled
    if not style or dkms_packages(facts) or is_from_nvidia(facts):
        return {}
    releases, brought = kernels_in_use(facts), facts.packages.brought
    kernels = {
        *releases,
        *(one for release in releases for one in select_metapackages(brought, flavour_of(release))),
    }
    found = {}
    for name in facts.packages.names:
        one = parse_package(name)
        series = f"-{one.branch}{'-server' if one.is_server else ''}"
        if one.role in PREBUILT and one.branch and one.kernel in kernels and series != style:
            found[name] = (
                f"linux-modules-nvidia{style}{'-open' if one.is_open else ''}-{one.kernel}"
            )
    return {name: twin for name, twin in found.items() if not facts.packages[twin].is_installed}


def _built_first(facts: Facts, mix: Mixture) -> str:
    """Modules that Ubuntu prebuilt go from another archive's driver once its own are compiled."""
    if not any(is_of_kernel(one.name) for one in mix.of_maker):
        return ""
    kernels = dict.fromkeys(one.kernel for one in facts.driver.modules if one.source == "prebuilt")
    return "".join(f"{make_module_commands(facts, kernel)}\n" for kernel in kernels)


def _make_command(wanted: Mapping[str, str], gone: Iterable[str], target: str, facts: Facts) -> str:
    """One apt run, so that at no moment half of it is there. `target`: the version that the driver
    then has.
    """
    if not wanted:
        return f"sudo apt-get remove {' '.join(map(quote, gone))}"
    words = [f"{name}={version}" if version else name for name, version in wanted.items()]
    installed = facts.packages
    down = any(
        installed[name].version
        and version
        and compare_versions(version, installed[name].version) < 0
        for name, version in wanted.items()
    )
    operands = [
        *(["--allow-downgrades"] if down else []),
        *map(quote, words),
        *(f"{quote(name)}-" for name in gone),
    ]
    steps = [f"{APT} {' '.join(operands)}"]
    if any(_DKMS.search(name) for name in wanted):  # the old module may be in the initramfs
        steps.append(INITRAMFS)
    return "\n".join([*steps, *_reboot_unless(facts, target)])


def _reboot_unless(facts: Facts, version: str) -> list[str]:
    """A loaded module of this version goes on without a boot."""
    return [] if facts.driver.loaded_version == version else [REBOOT]


def _version_like(mix: Mixture, name: str, known: Mapping[str, Offer]) -> str:
    """The version of this package that belongs to the rest, where apt has it."""
    offer = known.get(name)
    if offer is None:  # a name that apt was not asked for (in a record): it comes with its sisters
        there = [
            one.version
            for one in mix.own
            if one.name in known and one.version in known[one.name].versions
        ]
        return Counter(there).most_common(1)[0][0] if there else ""
    fit = [
        version
        for version, origin in offer.versions.items()
        if upstream_of(version) == mix.version
        and maker_of(name, version, origin) in (mix.maker, "")
    ]
    return sorted_versions(fit)[-1] if fit else ""


def _all_to_one(
    facts: Facts,
    mix: Mixture,
    wanted: Mapping[str, str],
    gone: list[str],
    known: Mapping[str, Offer],
    come: Mapping[str, str],
) -> str:
    """All of the driver to the newest version that one archive has for all of it: of its branch,
    where there is one, else of the branch of the strangers, if that is known to drive the GPUs,
    else of another one, where the names have no branch. `come`: modules that go with it. A
    metapackage that has no such version goes, if another one stays.
    """
    names = [
        one.name for one in (*mix.own, *mix.strangers) if one.upstream and one.name not in gone
    ]
    theirs = {branch_in(one.version) for one in mix.strangers}
    is_numbered = any(
        parse_package(name).branch for name in names if not _METAPACKAGE.fullmatch(name)
    )
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name in (*names, *wanted):
        for version, origin in known[name].versions.items() if name in known else ():
            of_version = found.setdefault(
                (upstream_of(version), maker_of(name, version, origin)), {}
            )
            of_version[name] = sorted_versions([version, of_version.get(name, version)])[-1]
    own = branch_in(mix.version)
    fitting = {
        one
        for one in {branch_in(version) for version, _ in found}
        if one == own
        or ((one in theirs or not is_numbered) and attempt(describe_not_driven, facts, one) == "")
    }
    listed = {name for name in (*names, *wanted) if name in known and known[name].versions}
    loose = {name for name in names if name in known and _METAPACKAGE.fullmatch(name)}
    found = {  # else it stays mixed
        one: packages
        for one, packages in found.items()
        if branch_in(one[0]) in fitting
        and (listed - loose if loose & set(packages) else listed) <= set(packages)
    }
    if not found or (mix.version, mix.maker) in found:
        return ""
    order = {
        version: place
        for place, version in enumerate(sorted_versions(version for version, _ in found))
    }
    table = facts.branches
    month = table.month(facts.reader.now())

    def rank(one: tuple[tuple[str, str], dict[str, str]]) -> tuple[bool, bool, bool, int, int, int]:
        branch = branch_in(one[0][0])
        is_over = table.branch(branch).is_over(month)
        return (
            branch == own,
            branch in theirs,
            not is_over,
            -abs(branch - own),
            len(one[1]),
            order[one[0][0]],
        )

    (version, maker), packages = max(found.items(), key=rank)
    gone = [*gone, *(sorted(loose - set(packages)) if loose & set(packages) else ())]
    # what dpkg left half-way comes along, and not only what has the driver's version in its own
    left = dict.fromkeys(
        (one.name for one in facts.driver.packages if is_unfinished(one.status)), ""
    )
    all_names = {**left, **packages, **dict.fromkeys(wanted, ""), **come}
    complete = {name: packages.get(name, "") for name in all_names if name not in gone}
    sentence = (
        f"no list of apt has {mix.version} any more, so all goes to {version} "
        f"({name_archive(maker)})"
    )
    steps = []
    if _find_unmet(facts):
        first = _to_remove(facts, gone)
        steps.append(f"sudo apt-get remove {' '.join(map(quote, first))}")
        gone = [name for name in gone if name not in first]
    commanded = "\n".join([*steps, _make_command(complete, gone, version, facts)])
    return f"{sentence}: {commanded}"


def _to_remove(facts: Facts, gone: Iterable[str]) -> list[str]:
    """What has to go before apt works on dependencies again: where some are not met, it installs
    only what is named, and none of what that needs (apt-get(8), -f). With those that lack something
    goes what needs them in turn.
    """
    found = dict.fromkeys((*gone, *(name for name, _ in _find_unmet(facts))))
    while more := [
        one.name
        for one in facts.driver.packages
        if one.name not in found and unmet_of(facts.packages, one.name, found)
    ]:
        found |= dict.fromkeys(more)
    return list(found)


def _read_offers(facts: Facts, names: Iterable[str]) -> tuple[Mapping[str, Offer], frozenset[str]]:
    """What apt has of the installed packages and of these; and those of them that it does not
    know.
    """
    try:
        found = facts.archives.packages
    except UnknownFact:
        return {}, frozenset()
    more = [name for name in names if name not in found]
    try:
        asked = policy_of(facts.reader, more)
    except UnknownFact:
        return found, frozenset()
    return {**found, **asked}, frozenset(name for name in more if name not in asked)


def twin_of(name: str, mix: Mixture) -> str:
    """How the rest of the driver calls this package: libnvidia-compute-580 for libnvidia-compute
    beside packages with the branch in their names; empty where nothing has to take its place.
    """
    return _name_twin(name, _find_naming_style(mix))


def _name_twin(name: str, style: str | None) -> str:
    if _FOLLOWS.fullmatch(name):
        return ""
    match = _NAME.fullmatch(name)
    if match is None or style is None:
        return name
    return f"{match['role']}{style}{match['open'] or ''}{match['machine'] or ''}"


def _find_naming_style(mix: Mixture) -> str | None:
    """What follows the role in the names of most packages: -580, -580-server, or nothing; None
    where none tells.
    """
    counts: Counter[str] = Counter()
    for one in mix.own:
        match = _NAME.fullmatch(one.name)
        if (
            match
            and one.upstream
            and not _FOLLOWS.fullmatch(one.name)
            and not _METAPACKAGE.fullmatch(one.name)
        ):
            number = match["number"]
            counts[f"-{number}{match['server'] or ''}" if number else ""] += 1
    return counts.most_common(1)[0][0] if counts else None
