"""The files of NVIDIA's kernel module: for which kernels there is one, who built it, and what DKMS
made of it.

Sources: modules.dep(5), modinfo(8), dkms(8) and the layout of its tree /var/lib/dkms, Ubuntu's and
Debian's packaging (Debian calls the module nvidia-current and loads it by that name).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, get_raw, lazy, make_shared
from hosttune.facts.gpu.build_log import NO_PATCH, BuildError, error_in
from hosttune.facts.reading import (
    all_sure,
    ask,
    hint,
    make_unknown,
    names_in,
    read_text,
    require_known,
)
from hosttune.facts.versions import sorted_versions
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_NAMES = r"nvidia(?:-current(?:-open)?|-tesla(?:-\d+)?|-legacy-\d+xx)?"
_MODULE = regex(rf"^((?:[^:\n]*/)?({_NAMES})\.ko(?:\.[a-z0-9]+)?):", re.MULTILINE)
_BUILT = regex(rf"{_NAMES}\.ko(?:\.[a-z0-9]+)?")
_BUILT_OTHER = regex(r"[\w-]{1,64}\.ko(?:\.[a-z0-9]+)?")
_FIELD = regex(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)
_DKMS = "/var/lib/dkms"
# nvidia-fs (GPUDirect Storage), nvidia-peermem and others are built by DKMS too, and are no driver.
_DKMS_NAMES = regex(
    rf"{_NAMES}(?:-open)?|nvidia-(?:srv|open|srv-open|server|server-open|kernel)(?:-\d+)?|nvidia-\d+"
)
_LOG = regex(r"make\.log for \S(?:(?!make\.log).)*? for kernel (\S+)")
_KERNEL_PACKAGES = ("linux-image-", "linux-modules-")
# From this version on dkms(8) passes over what has no source; before, `dkms autoinstall` ends
# there, or leaves out what follows by name (pop-os/system76-driver issue 336).
PASSES_ORPHANS = "3.1"
_TIMEOUT_S = 20.0


@frozen
class DriverModule(Fact):
    """An nvidia.ko of one kernel: the one that modprobe would take."""

    kernel: str  # the release of the kernel that it is for
    path: str  # as in modules.dep: kernel/nvidia-580srv-open/nvidia.ko.zst
    source: str  # prebuilt (Ubuntu's, signed) | dkms (compiled here) | other
    version: str  # 580.126.20
    is_open: bool  # the open kernel module


@frozen
class DkmsBuild(Fact):
    """What DKMS has made of one version of the driver for one kernel."""

    name: str  # as DKMS calls the module: nvidia, nvidia-srv-open
    version: str  # of the driver
    kernel: str  # empty where a failed build does not tell its kernel
    is_installed: bool  # its module is in /lib/modules
    failed: bool  # the last build ended with an error, and there is no module
    has_source: bool = True  # what DKMS compiles is in /usr/src; without it no build starts
    error: BuildError = BuildError()  # why it failed, as its log tells

    @property
    def log(self) -> str:
        """Where DKMS keeps the compiler's messages of the last build; its folder where no compiler
        was started.
        """
        folder = f"{_DKMS}/{self.name}/{self.version}/build"
        return folder if self.error.cause == NO_PATCH else f"{folder}/make.log"


def module_in(modules_dep: str) -> tuple[str, str]:
    """(path, module name) of the nvidia.ko that a modules.dep names, compressed or not; ("", "")
    without one.
    """
    found = [(match[1], match[2]) for match in _MODULE.finditer(modules_dep)]
    # depmod.d(5): it goes before the kernel's own
    first = [one for one in found if one[0].startswith("updates/")]
    return (first or found or [("", "")])[0]


def source_of(path: str) -> str:
    """Who made the module at this path of modules.dep."""
    if path.startswith("kernel/nvidia-"):
        return "prebuilt"
    return "dkms" if path.startswith("updates/dkms/") else "other"


def parse_modinfo(output: str) -> tuple[str, bool | None]:
    """(version, whether it is the open module) that `make_modinfo` shows; None for a licence that
    is neither.
    """
    # A dict keeps the last of a name, so the order is turned: the first line counts. Descriptions
    # of parameters come behind, and may begin like a field.
    fields = {match[1]: match[2].strip() for match in reversed(list(_FIELD.finditer(output)))}
    kinds = {"Dual MIT/GPL": True, "NVIDIA": False, "Proprietary": False}
    return fields.get("version", ""), kinds.get(fields.get("license", ""))


def kernel_of_log(make_log: str) -> str:
    """The kernel that a make.log is about, from the line that DKMS begins it with; empty where it
    does not tell.
    """
    # DKMS writes this line before the compiler starts; what comes later is text of the build.
    match = _LOG.search(make_log[:2000])
    return match[1] if match else ""


class ModuleFolder:
    """/lib/modules, or /usr/lib/modules where /lib is no link to /usr/lib, as in some images.
    Raises UnknownFact where there is neither, though this host has a kernel of its own.
    """

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self._found: dict[str, tuple[str, str] | Absent] = {}
        answers = []
        for self.place in ("/lib/modules", "/usr/lib/modules"):
            answers.append(names := reader.list(self.place))
            if isinstance(names, tuple):
                self.kernels = names
                return
        all_sure(reversed(answers))
        if not brings_no_kernel(facts):
            raise make_unknown(reader, "there is no /lib/modules")
        self.kernels = ()

    def of(self, kernel: str) -> tuple[str, str]:
        """As `module_in` for this kernel; raises UnknownFact where it is not known."""
        return require_known(self._module(kernel), self._list_of(kernel))

    def has(self, kernel: str) -> bool:
        return bool(self.of(kernel)[0])

    @property
    def with_module(self) -> tuple[str, ...]:
        """The kernels that have one, by name; a folder without a list of modules is of none that
        boots.
        """
        return tuple(
            kernel
            for kernel in self.kernels
            if self._module(kernel) is not ABSENT and self.has(kernel)
        )

    def _list_of(self, kernel: str) -> str:
        return f"{self.place}/{kernel}/modules.dep"

    def _module(self, kernel: str) -> tuple[str, str] | Absent:
        if kernel not in self._found:
            content = read_text(self.reader, self._list_of(kernel))
            self._found[kernel] = module_in(content) if isinstance(content, str) else content
        return self._found[kernel]


def brings_no_kernel(facts: Facts) -> bool:
    """No kernel is in /boot, and no package of one is installed: a hypervisor starts this machine
    with one of its own (Firecracker, Kata, cloud-hypervisor, qemu -kernel), and that one brings its
    modules along.
    """
    return not facts.boot.kernels and not any(
        name.startswith(_KERNEL_PACKAGES) for name in facts.packages.brought
    )


def modules_of(
    reader: Reader, folder: ModuleFolder, kernels: tuple[str, ...]
) -> tuple[DriverModule, ...]:
    """The modules of these kernels; `make_modinfo` is asked once for each that has one."""
    found = []
    for kernel in kernels:
        named = attempt(folder.of, kernel)
        if isinstance(named, tuple) and named[0]:
            shown = make_shared(_ask_modinfo, reader, kernel, named[1])
            version, is_open = (
                lazy(_find_version, shown, kernel, named[1]),
                lazy(_is_open, shown, kernel, named[1]),
            )
            found.append(DriverModule(kernel, named[0], source_of(named[0]), version, is_open))
    return tuple(found)


def make_modinfo(kernel: str, name: str = "nvidia") -> tuple[str, ...]:
    """The command that shows a module of a kernel."""
    return ("modinfo", "-k", kernel, name)


def _ask_modinfo(reader: Reader, kernel: str, name: str) -> tuple[str, bool | None]:
    command = make_modinfo(kernel, name)
    answer = ask(reader, command, timeout_s=_TIMEOUT_S)
    if answer.status != 0:
        line = next(iter(answer.errors.strip().splitlines()), f"exit status {answer.status}")
        raise UnknownFact(f"{' '.join(command)}: {line}")
    return parse_modinfo(answer.text)


def _find_version(shown: Callable[[], tuple[str, bool | None]], kernel: str, name: str) -> str:
    if not shown()[0]:
        raise UnknownFact(f"{' '.join(make_modinfo(kernel, name))} shows no version")
    return shown()[0]


def _is_open(shown: Callable[[], tuple[str, bool | None]], kernel: str, name: str) -> bool:
    is_open = shown()[1]
    if is_open is None:
        raise UnknownFact(f"{' '.join(make_modinfo(kernel, name))} shows no licence that is known")
    return is_open


def kernels_of_interest(facts: Facts) -> tuple[str, ...]:
    """The running kernel and the one that starts next, as far as they are known."""
    found: list[str] = []
    for subject, name in (("kernel", "release"), ("boot", "next_kernel")):
        value = get_raw(getattr(facts, subject), name)
        if isinstance(value, str) and value:
            found.append(value)
    # The running kernel is often the next one; modinfo is then started once.
    return tuple(dict.fromkeys(found))


def has_module_for_next(facts: Facts, folder: Callable[[], ModuleFolder]) -> bool:
    kernel = facts.boot.next_kernel
    if not kernel:
        raise UnknownFact("no kernel in /boot starts next")
    return folder().has(kernel)


def dkms_builds(reader: Reader, folder: Callable[[], ModuleFolder]) -> tuple[DkmsBuild, ...]:
    """What is below /var/lib/dkms for the driver, by version and kernel; no failure for a kernel
    that is gone.
    """
    return _builds(reader, folder, _DKMS_NAMES.fullmatch, _BUILT)


def _modules_in(reader: Reader) -> tuple[str, ...]:
    """The names in the tree of DKMS that are modules. It has files, too (mok.pub,
    dkms_dbversion)."""
    names = names_in(reader, _DKMS)
    return tuple(
        name
        for name in names
        # What cannot be looked at has no type and counts as a module: a failed look must hide no
        # build.
        if getattr(reader.stat(f"{_DKMS}/{name}"), "type", "directory") == "directory"
    )


def orphans_in(reader: Reader) -> tuple[str, ...]:
    """NAME/VERSION of all that is in the tree of DKMS and whose source is gone from /usr/src."""
    found = [
        f"{name}/{version}"
        for name in _modules_in(reader)
        for version in names_in(reader, f"{_DKMS}/{name}")
        if not _has_source(reader, f"{_DKMS}/{name}/{version}")
    ]
    return tuple(found)


def failed_others(reader: Reader, folder: Callable[[], ModuleFolder]) -> tuple[DkmsBuild, ...]:
    """The builds of modules that are no part of the driver which failed, likewise."""
    found = _builds(reader, folder, lambda name: not _DKMS_NAMES.fullmatch(name), _BUILT_OTHER)
    return tuple(one for one in found if one.failed)


def _builds(
    reader: Reader,
    folder: Callable[[], ModuleFolder],
    is_wanted: Callable[[str], object],
    built: re.Pattern[str],
) -> tuple[DkmsBuild, ...]:
    places = [f"{_DKMS}/{name}" for name in _modules_in(reader) if is_wanted(name)]
    # Where /lib/modules cannot be read, no failure is dropped: it may be of a kernel that boots.
    kernels = attempt(lambda: ("", *folder().kernels)) if places else ()
    return tuple(
        build
        for place in places
        for version in sorted_versions(
            name for name in names_in(reader, place) if name[:1].isdecimal()
        )
        for build in _builds_of(reader, place, version, built)
        if not build.failed or isinstance(kernels, Unreadable) or build.kernel in kernels
    )


def _builds_of(reader: Reader, place: str, version: str, built: re.Pattern[str]) -> list[DkmsBuild]:
    """VERSION/KERNEL/ARCH/module holds what was built, and the link kernel-KERNEL-ARCH says that it
    is installed; a build that ended with an error leaves its make.log in VERSION/build.
    """
    name, builds = place.rpartition("/")[2], list[DkmsBuild]()
    has_source = _has_source(reader, f"{place}/{version}")
    log = attempt(read_text, reader, f"{place}/{version}/build/make.log")
    # None is no log, or one that cannot be read. Empty is a build that failed for a kernel that the
    # log does not name, so that it counts for each kernel without a module.
    broken = kernel_of_log(log) if isinstance(log, str) else None
    error = (
        error_in(log, lambda: config_of(reader, broken or ""))
        if isinstance(log, str)
        else BuildError()
    )
    folder = f"{place}/{version}/build"
    if log is ABSENT and (refused := _find_refused_patch(reader, folder)):
        broken = ""
        error = BuildError(
            f"a patch of its source does not fit: {refused.removeprefix(f'{folder}/')}", NO_PATCH
        )
    for kernel in sorted_versions(
        one for one in names_in(reader, f"{place}/{version}") if one[:1].isdecimal()
    ):
        machines = names_in(reader, f"{place}/{version}/{kernel}")
        modules = [
            names_in(reader, f"{place}/{version}/{kernel}/{machine}/module") for machine in machines
        ]
        is_built = any(built.fullmatch(file) for files in modules for file in files)
        links = [reader.link(f"{place}/kernel-{kernel}-{machine}") for machine in machines]
        # The link of a kernel names one version. Of two in the tree of DKMS only that one is
        # installed.
        is_linked = any(isinstance(link, str) and version in link.split("/") for link in links)
        failed = not is_built and broken in ("", kernel)
        why = error if failed else BuildError()
        builds.append(
            DkmsBuild(name, version, kernel, is_built and is_linked, failed, has_source, why)
        )
    if isinstance(broken, str) and all(build.kernel != broken for build in builds):
        builds.append(DkmsBuild(name, version, broken, False, True, has_source, error))
    return builds


def _find_refused_patch(reader: Reader, folder: str, depth: int = 2) -> str:
    """What patch(1) left of a patch in dkms.conf(5) that did not fit, FILE.rej: DKMS ends before it
    starts make, and leaves no log (pop-os/nvidia-graphics-drivers-470 pull request 27). Empty for
    none; a build that ended well leaves no folder. No folder of the source has a dot in its name.
    """
    names = attempt(names_in, reader, folder)
    if not isinstance(names, tuple):
        return ""
    if refused := next((one for one in names if one.endswith(".rej")), ""):
        return f"{folder}/{refused}"
    inner = (f"{folder}/{one}" for one in names if "." not in one) if depth else ()
    return next(
        (found for one in inner if (found := _find_refused_patch(reader, one, depth - 1))), ""
    )


def config_of(reader: Reader, kernel: str) -> str:
    """What a kernel was configured with; empty where that cannot be read."""
    return hint(reader, f"/boot/config-{kernel}") if kernel and "/" not in kernel else ""


def _has_source(reader: Reader, place: str) -> bool:
    """Whether the link that dkms(8) follows to the source leads to one; true where that is not
    known.
    """
    source = reader.link(f"{place}/source")
    is_known = isinstance(source, str) and source.startswith("/usr/src/")
    return not is_known or reader.stat(f"{source}/dkms.conf") is not ABSENT
