"""What stopped dpkg or apt half-way, and the commands that make the packages whole again.

`dpkg --configure -a` repeats the step that failed, so it repairs only what was interrupted. A build
that fails, a full /boot, two packages with the same file and an unmet dependency each need another
step first. dpkg keeps no reason in its database; the reason follows from the states of the packages
and from what their scripts work with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from hosttune.choices.dkms_orphans import free_dkms
from hosttune.choices.driver_states.mixed import stopped_by_mixture
from hosttune.choices.next_kernel import (
    dkms_packages,
    error_of_build,
    make_module_commands,
    prebuilt_instead,
    removable_packages,
    repair_build,
)
from hosttune.choices.other_build import other_build
from hosttune.choices.own_kernel import (
    OF_KERNEL,
    are_headers_here,
    packages_of_kernels,
    suggest_own_kernel,
)
from hosttune.facts.base import UnknownFact, attempt, read_or_default
from hosttune.facts.dpkg_said import TERM_LOG
from hosttune.facts.gpu.build_log import NEWER_RELEASE, OLD_COMPILER, REALTIME
from hosttune.facts.gpu.package_roles import (
    BRINGS_MODULES,
    PREBUILT,
    PackageRole,
    is_driver_package,
    parse_package,
    role_of,
)
from hosttune.facts.kernel.kernel import is_of_proxmox
from hosttune.facts.packages import REPAIR
from hosttune.facts.relations import first_of, unmet_of
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import join_steps

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.build_log import BuildError
    from hosttune.facts.gpu.driver_modules import DkmsBuild
    from hosttune.facts.packages import Package

_FIRMWARE_VERSION = regex(r"-(\d{3}\.[\d.]{1,20})$")
_NO_MODULE = "ModuleNotFoundError: "
_REBUILDS_INITRD = frozenset({"initramfs-tools", "dracut"})


class Cause(str, Enum):
    """What stopped it."""

    BUILD = "a DKMS build that failed"
    BOOT = "no room on /boot"
    FILES = "two packages with the same file"
    VERSIONS = "packages of two versions that need each other"
    OTHER = "unknown"

    def __str__(self) -> str:
        return str(self.value)


@frozen
class Stop:
    """Why packages are not whole."""

    cause: Cause
    evidence: str  # a sentence
    repair: str  # the commands; their first step removes the cause

    @property
    def state(self) -> str:
        """The state of the driver that says it."""
        return "DKMS failed" if self.cause is Cause.BUILD else "broken packages"


def find_stop(facts: Facts) -> Stop | None:
    """Why the packages of the driver are not whole; None if they are. Also why those of a kernel
    are not, where the driver or /boot is the cause.
    """
    # The order is that of the repair. Without room on /boot each later step fails at its initial
    # RAM disk, and two packages with one file are not unpacked whatever is built.
    half, broken = facts.driver.half_way, facts.packages.broken
    of_kernels = tuple(one for one in broken if OF_KERNEL.fullmatch(one.name))
    waiting = (*of_kernels, *_waiting_for_initrd(facts))
    if waiting and is_boot_full(facts):
        sentence = (
            f"there is no room on /boot for an initial RAM disk: {half or _say_stopped(waiting)}"
        )
        return Stop(Cause.BOOT, sentence, f"{facts.boot_room.way_out}\n{REPAIR}")
    if conflict := _find_conflict(facts, broken):
        return conflict
    if failed := _failed_builds(facts, broken):
        return _stopped_build(facts, failed, of_kernels)
    mixed = attempt(stopped_by_mixture, facts) if half else None
    if isinstance(mixed, tuple):
        return Stop(Cause.VERSIONS, f"{half}; {mixed[0]}", mixed[1])
    if half:
        return _asking_for_key(facts, broken) or Stop(Cause.OTHER, *say_half(facts, half, broken))
    return None


def _asking_for_key(facts: Facts, broken: Sequence[Package]) -> Stop | None:
    """With Secure Boot on, what DKMS compiles is signed with a key of this host. Ubuntu's script
    asks for a password to enrol it (update-secureboot-policy of shim-signed), and dpkg waits or
    ends where no one answers, as in a cloud's extension (Azure/azure-linux-extensions issue 1754).
    Each `--configure -a` asks again; prebuilt modules need none.
    """
    dkms = dkms_packages(facts)
    compiling = [one.name for one in broken if one.name in dkms]
    if not compiling or attempt(lambda: facts.boot.secure_boot) is not True:
        return None
    # Only a certain no counts. With an enrolled key the script asks for nothing, and another cause
    # has to be named.
    if attempt(lambda: facts.boot.takes_own_modules) is not False:
        return None
    if not (ready := prebuilt_instead(facts, facts.kernel.release)):
        return None
    sentence = (
        f"{facts.driver.half_way}; Secure Boot is on, and no key of this host is enrolled, so that "
        f"the script of {compiling[0]} asks for a password for one"
    )
    ways = (
        "if an apt still waits for the answer, end it: sudo fuser -v /var/lib/dpkg/lock-frontend",
        f"take the modules that Ubuntu signed, which need no key: {ready}",
        "or answer, with a console at the next boot: sudo dpkg --configure -a",
    )
    return Stop(Cause.OTHER, sentence, "\n".join(ways))


def say_half(facts: Facts, half: str, broken: Sequence[Package]) -> tuple[str, str]:
    """(A sentence on packages that are half-way for no cause that their states tell, with what dpkg
    printed of them; the commands): dpkg runs the same script again, with the same end."""
    said = attempt(lambda: facts.apt.said)
    names = [one.name for one in broken]
    names += [first_of(clause)[0] for name in names for clause in unmet_of(facts.packages, name)]
    known = {one: said[one] for one in names if one in said} if isinstance(said, Mapping) else {}
    words = [
        f"; the last run of dpkg for {name} ended with: {line}" for name, line in known.items()
    ]
    first = _solve_said(facts, known.values())
    of_kernels = any(OF_KERNEL.fullmatch(one.name) for one in broken)
    clear = free_dkms(facts) if of_kernels else ""
    first = "" if clear else first  # a kernel's script ends where DKMS does
    return f"{half}{''.join(words)}", join_steps((clear, first, facts.packages.repair))


def _solve_said(facts: Facts, lines: Iterable[str]) -> str:
    """The first step, by the words of dpkg; empty without any. Scripts of drivers are in Python,
    and its modules are those of the release's own version (NVIDIA/nvidia-installer issue 17)."""
    said, packages = tuple(lines), facts.packages
    if any(_NO_MODULE in line for line in said) and packages["python3"].is_installed:
        own = [one.partition(" ")[0] for one in packages.depends["python3"]]
        if python := next((one for one in own if one.startswith("python3.")), ""):
            link = f"sudo ln -sf {quote(python)} /usr/bin/python3"
            return f"if /usr/bin/python3 is not {python} (ls -l /usr/bin/python3), link it: {link}"
    return f"solve that (all of it: {TERM_LOG}), as dpkg does the same again" if said else ""


def try_find_stop(facts: Facts) -> Stop | None:
    """As `find_stop`; None if it is not known."""
    return read_or_default(lambda: find_stop(facts), None)


def repair_of(facts: Facts) -> str:
    """What a person types to make the packages whole: by the cause, as far as that is known."""
    stop = try_find_stop(facts)
    return stop.repair if stop else facts.packages.repair


def bring_module(facts: Facts, stop: Stop, kernel: str) -> str:
    """What brings the module to a kernel while packages are not whole: their repair, which
    configures half-way packages that bring it, or lets apt work again.
    """
    if is_brought_by_repair(facts, stop, kernel):
        return f"what solves `{stop.state}`, which brings the module too"
    return f"what solves `{stop.state}`\n{make_module_commands(facts, kernel)}"


def is_brought_by_repair(facts: Facts, stop: Stop, kernel: str) -> bool:
    """Whether the repair brings the module that this kernel lacks. DKMS leaves out kernels whose
    headers are missing, and says that as a warning only.
    """
    if stop.cause is Cause.BUILD:
        return True
    roles = {role_of(one.name) for one in facts.packages.broken}.intersection(BRINGS_MODULES)
    return bool(roles.intersection(PREBUILT)) or (bool(roles) and are_headers_here(facts, kernel))


def is_boot_full(facts: Facts) -> bool:
    """Whether the file system of /boot has no room for one more initial RAM disk. False if that is
    not known.
    """
    return read_or_default(lambda: facts.boot_room.is_full, otherwise=False)


def _say_stopped(packages: Iterable[Package]) -> str:
    found = ", ".join(f"{one.name} ({one.status})" for one in packages)
    return f"dpkg stopped half-way with {found}" if found else ""


def _waiting_for_initrd(facts: Facts) -> tuple[Package, ...]:
    """The half-way packages that rebuild initial RAM disks."""
    found = facts.packages.unfinished
    return tuple(
        one
        for one in found
        if one.name in _REBUILDS_INITRD
        or (one.is_half and parse_package(one.name).role is PackageRole.KERNEL_COMMON)
    )


def _failed_builds(facts: Facts, broken: Sequence[Package]) -> tuple[DkmsBuild, ...]:
    """The builds of the driver that failed, and that a package of these waits for."""
    if not broken:
        return ()
    # The -dkms package builds for every kernel with headers, so each failed build stops it. A
    # package of a kernel waits only for the builds of that kernel.
    waits_all = not {one.name for one in broken}.isdisjoint(dkms_packages(facts))
    kernels = {match[1] for one in broken if (match := OF_KERNEL.fullmatch(one.name))}
    # A build whose log names no kernel counts for any: without it the repair would say that the
    # cause is not known.
    failed = (one for one in facts.driver.dkms if one.failed)
    return tuple(
        one for one in failed if waits_all or one.kernel in kernels or (kernels and not one.kernel)
    )


def _stopped_build(
    facts: Facts, failed: Sequence[DkmsBuild], of_kernels: Sequence[Package]
) -> Stop:
    """The same build runs again at each `dpkg --configure -a`, and fails. A prebuilt module makes
    it needless; its package goes in the same command, before apt configures the rest.
    """
    kernels = tuple(dict.fromkeys(one.kernel for one in failed if one.kernel)) or (
        facts.kernel.release,
    )
    half = facts.driver.half_way or _say_stopped(of_kernels)
    if facts.driver.half_way and of_kernels:
        half = f"{half}, {', '.join(f'{one.name} ({one.status})' for one in of_kernels)}"
    error = error_of_build(facts, kernels[0])
    sentence = (
        f"DKMS could not build nvidia {failed[0].version} for {', '.join(kernels)} "
        f"({say_why(failed[0])}), so {half}"
    )
    repair = repair_build(facts, kernels[0]) or f"fix what {failed[0].log} names"
    others = failed_others_for(facts, kernels) if of_kernels else ()
    if others:  # each ends the script of the kernel (pop-os/system76-driver issue 325)
        unbuilt = [f"{one.name} {one.version} ({say_why(one)})" for one in others]
        sentence += f"; nor could it build {' and '.join(unbuilt)}"
        repair += f"\nfix what {' and '.join(one.log for one in others)} names, too"
    fix = f"{repair}\nsudo dpkg --configure -a"
    # The prebuilt module goes first: it needs neither compiler, nor headers, nor a key, and so
    # excludes most causes of a failed build at once.
    if ready := prebuilt_instead(facts, kernels[0]):
        return Stop(Cause.BUILD, sentence, f"{ready}\nif apt has none: {fix}")
    own = suggest_own_kernel(facts, kernels[0])
    if error.is_of_host:
        ways = ("", own) if own and error.cause in (NEWER_RELEASE, REALTIME) else (fix, own)
        return Stop(Cause.BUILD, sentence, "\nor ".join(part for part in ways if part))
    if own:
        found = (other_build(facts), own, fix)
        return Stop(Cause.BUILD, sentence, "\nor ".join(part for part in found if part))
    remove = ""
    if unused := [*map(quote, removable_packages(facts, *kernels))]:
        what = "the headers of that kernel" if is_of_proxmox(kernels[0]) else "that kernel"
        remove = (
            f"until the driver builds for it, remove {what}: sudo apt-get remove {' '.join(unused)}"
        )
        remove += _say_metapackages(facts, unused)
    first = [part for part in (other_build(facts), _boot_other(facts, kernels), remove) if part]
    if not first and error.words:  # few can solve what the log says
        branch = failed[0].version.partition(".")[0]
        first = [
            (
                f"bring a newer release of branch {branch} from where this one came, or a kernel "
                "that it builds for"
            )
        ]
    steps = (*first, fix)
    return Stop(Cause.BUILD, sentence, "\nor ".join(part for part in steps if part))


def failed_others_for(facts: Facts, kernels: Iterable[str]) -> tuple[DkmsBuild, ...]:
    """The builds of modules besides the driver that failed for these kernels: each ends the script
    of a kernel's packages (/etc/kernel/postinst.d/dkms), of which the module is none.
    """
    wanted = frozenset(kernels)
    found = attempt(lambda: facts.driver.failed_others) if wanted else ()
    return tuple(one for one in found if one.kernel in wanted) if isinstance(found, tuple) else ()


def _say_metapackages(facts: Facts, removed: Sequence[str]) -> str:
    """A step for what brings later kernels, and their fixes, where apt removes that with these
    packages of a kernel.
    """
    metas = [name for name in facts.packages.brought if name.startswith("linux-")]
    lost = sorted(
        quote(name)
        for name in metas
        if name not in removed and unmet_of(facts.packages, name, removed)
    )
    if not lost:
        return ""
    return (
        "\n"
        f"that takes {', '.join(lost)} along, which bring later kernels: install them again when "
        "the driver builds"
    )


def say_why(build: DkmsBuild) -> str:
    """The log of a build that failed, and what it says."""
    return f"{build.log}: {say_error(build.error)}" if build.error.words else build.log


def say_error(error: BuildError) -> str:
    """The first error of a build, as a phrase."""
    if error.cause == OLD_COMPILER:
        older = (
            f"than {error.compiler}, which built the kernel"
            if error.compiler
            else "than the kernel's"
        )
        return f"{error.words}: the build took an older compiler {older}"
    return error.words


def _boot_other(facts: Facts, kernels: Sequence[str]) -> str:
    """The way with another kernel in /boot that has a module, where the running one has none; empty
    without one.
    """
    running = facts.kernel.release
    try:
        others = [
            one
            for one in facts.driver.kernels_with_module
            if one in facts.boot.kernels and one not in kernels
        ]
        is_loaded = facts.driver.is_loaded
    except UnknownFact:
        return ""
    # A loaded module works until the next boot, and a boot into another kernel would stop the work
    # that runs on it for nothing.
    if running not in kernels or is_loaded or not others:
        return ""
    boot, names = f"boot {others[-1]}, which has a module", packages_of_kernels(facts, running)
    if not names:
        return boot
    what = running
    # pin: Proxmox VE administration guide, "Override the kernel version"
    if is_of_proxmox(running):
        boot = ", ".join((f"sudo proxmox-boot-tool kernel pin {quote(others[-1])}", boot))
        what = f"the headers of {running}"
    remove = f"sudo apt-get remove {' '.join(map(quote, names))}"
    return f"{boot}, and remove {what} there: {remove}\nsudo dpkg --configure -a"


def _find_conflict(facts: Facts, broken: Sequence[Package]) -> Stop | None:
    """Two packages that bring the same part of a driver under two names: dpkg does not unpack the
    second one. What it could not unpack is half-installed, or absent and missed by another package.
    """
    packages = facts.packages
    coming = {one.name for one in broken if one.status.startswith("half-installed")}
    # dpkg keeps no record of a package that it refused to unpack. Such a package shows only as the
    # dependency that an unpacked one lacks.
    unpacked = (one for one in broken if one.status == "unpacked")
    coming |= {first_of(clause)[0] for one in unpacked for clause in unmet_of(packages, one.name)}
    whole: dict[tuple[str, PackageRole], list[str]] = {}
    for name in packages.names:
        there = parse_package(name)
        if there.role is not PackageRole.NONE:
            whole.setdefault((there.base, there.role), []).append(name)
    for name in sorted(coming):
        mine = parse_package(name)
        if mine.role is PackageRole.NONE:
            continue
        for other in whole.get((mine.base, mine.role), ()):
            # Packages of two branches exclude each other by their relations: those are an
            # interrupted switch.
            is_other_naming = bool(mine.branch) != bool(parse_package(other).branch)
            # A foreign architecture (libnvidia-compute-535:i386) has its files in a folder of its
            # own, and is no conflict.
            if (is_other_naming or _is_same_firmware(facts, name, other)) and ":" not in other:
                return _stop_for_conflict(facts, name, other)
    return None


def _is_same_firmware(facts: Facts, coming: str, there: str) -> bool:
    """Firmware is in a folder of its version, so two packages of one version have the same files
    (535 beside 535-server: canonical/nvidia-graphics-drivers pull request 59).
    """
    if role_of(coming) is not PackageRole.FIRMWARE or coming == there:
        return False
    mine, theirs = (_firmware_version(facts, name) for name in (coming, there))
    return bool(mine) and mine == theirs


def _firmware_version(facts: Facts, name: str) -> str:
    """580.142 of nvidia-firmware-580-580.142; else of the package, or of what misses it."""
    if match := _FIRMWARE_VERSION.search(name):
        return match[1]
    return upstream_of(facts.packages[name].version or _version_missed(facts, name))


def _stop_for_conflict(facts: Facts, coming: str, there: str) -> Stop:
    """The one goes whose packaging the other packages of the driver do not have."""
    packages = facts.packages
    sentence = f"{coming} and {there} bring the same files: {facts.driver.half_way}"
    stays = packages[coming].version or _version_missed(facts, coming)
    rest = Counter(
        _name_packaging(one.version)
        for one in facts.driver.packages
        if one.name not in (coming, there)
    )
    # The majority of the other packages decides, and the state of these two does not: which of them
    # came last says only in which order dpkg worked.
    mine, theirs = rest[_name_packaging(stays)], rest[_name_packaging(packages[there].version)]
    is_needed = any(
        unmet_of(packages, one.name, {there})
        for one in facts.driver.packages
        if one.status == "installed"
    )
    if mine > theirs or (mine == theirs and not is_needed):
        go: tuple[str, ...] = (there,)
    else:
        go = tuple(
            one.name
            for one in packages.broken
            if is_driver_package(one.name)
            and _name_packaging(one.version) == _name_packaging(stays)
        )
    # Other packages can depend on it; what they lack then, `-f install` brings or removes.
    force = "--force-depends --force-remove-reinstreq" if coming in go else "--force-depends"
    remove = f"sudo dpkg --remove {force} {' '.join(map(quote, go))}"
    return Stop(Cause.FILES, sentence, f"{remove}; sudo apt-get -f install")


def _version_missed(facts: Facts, name: str) -> str:
    """The version of a half-way package that needs this absent one."""
    packages = facts.packages
    missing = ((one, unmet_of(packages, one.name)) for one in packages.broken)
    return next(
        (
            one.version
            for one, clauses in missing
            if name in {first_of(clause)[0] for clause in clauses}
        ),
        "",
    )


def _name_packaging(version: str) -> str:
    """What tells the archives apart: 0ubuntu0.24.04.1 is Ubuntu's revision, 1ubuntu1 NVIDIA's."""
    return version.rpartition("-")[2]
