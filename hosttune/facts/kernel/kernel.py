"""The kernel that runs: release, flavour, architecture and command line, and what it says of
itself.

Source of the last: /proc/sys/kernel/tainted (kernel:
Documentation/admin-guide/tainted-kernels.rst), whose bits stay until the next boot, whatever
becomes of the log. What the kernel wrote last when it died (oops, panic) is kept by the firmware,
and moved to a file early in the next boot: systemd-pstore.service(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.reading import (
    derive,
    hint,
    if_absent,
    names_in,
    parse_or_unknown,
    read_integer,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.regex import regex
from hosttune.values import OnlyRunning

if TYPE_CHECKING:
    from hosttune.host.door import Reader

HEADERS = "linux-headers"  # how the packages begin with which modules for a kernel are compiled
# Ubuntu: 6.8.0-1010-nvidia-64k (ABI number, flavour). Debian: 6.1.0-28-cloud-amd64,
# 6.12.48+deb13-amd64, testing 6.12.22-amd64.
_RELEASE = "/proc/sys/kernel/osrelease"
_FLAVOUR = regex(
    r"\d+\.[\d.]+(?:(?:-\d+|\+(?:deb|bpo)[\w.]*)-([a-z][\w.-]*)|-((?:cloud-|rt-)?(?:amd64|arm64)))"
)
_OF_UBUNTU = frozenset({
    "generic", "lowlatency", "realtime", "aws", "azure", "gcp", "gke", "gkeop", "oracle", "ibm",
    "kvm", "nvidia", "oem", "intel", "raspi", "bluefield", "tegra", "fips", "cvm",
})  # fmt: skip
# Builds of kernel.ubuntu.com/mainline have the version as their ABI number: 6.11.0-061100-generic.
_MAINLINE = regex(r"[\d.]+-0\d{5}(?:rc\d{1,2})?-.*")
# Debian: also 6.1.0-0.deb11.13-cloud-amd64 of its backports.
_REALTIME = regex(r"-(?:rt\d*|realtime)(?:-|$)")
_OF_DEBIAN = regex(
    r"[\d.]+(?:-\d+|-0\.(?:deb|bpo)[\w.]*|\+(?:deb|bpo)[\w.]*)?-(?:cloud-|rt-)?(?:amd64"
    r"|arm64)(?:-16k|-64k)?"
)
_VERSION = regex(r"(\d+)\.(\d+)")
_STAT = "/proc/stat"
_KEPT = "/var/lib/systemd/pstore"
_CLOCK_S = 120  # by which the clock was set right after the files were made
_MOST_KEPT = 64  # names of a folder, the newest
_TAINTED = "/proc/sys/kernel/tainted"
_MACHINE_CHECK, _BAD_PAGE, _DIED = 1 << 4, 1 << 5, 1 << 7
_BOOT = regex(r"^btime (\d{1,15})$", re.MULTILINE)
_NO = frozenset({"0", "no", "n", "false", "f", "off"})
_ARGUMENT = regex(r'(?:[^\s"]|"[^"]*"?)+')
_MACHINES = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "i386": "i686",
    "armhf": "armv7l",
    "ppc64el": "ppc64le",
}
_LOADERS = {"/lib64/ld-linux-x86-64.so.2": "x86_64", "/lib/ld-linux-aarch64.so.1": "aarch64"}


@frozen
class Kernel(Subject):
    """The running kernel; under an alternate root only the architecture is known, from the files
    that are there.
    """

    # as uname -r: 6.8.0-1010-nvidia-64k
    release: str = read_with(lambda self: require_known(read_line(self.reader, _RELEASE), _RELEASE))

    @fact
    def version(self) -> tuple[int, ...]:
        """(6, 8)."""
        return parse_or_unknown(version_of, self.release)

    @fact
    def flavour(self) -> str:
        """`generic`, aws, nvidia-64k, cloud-amd64; empty where the release follows no known
        pattern.
        """
        return flavour_of(self.release)

    @fact
    def architecture(self) -> str:
        """As uname -m: x86_64, aarch64.

        It is in /proc/sys/kernel/arch since Linux 6.2, before it the CPU says (lm is x86's long
        mode).
        """
        if self.reader.persistent_only:
            return _architecture_of_files(self.reader)
        if isinstance(arch := attempt(read_line, self.reader, "/proc/sys/kernel/arch"), str):
            return arch
        flags = attempt(lambda: self.facts.cpu.flags)
        if isinstance(flags, tuple) and "lm" in flags:
            return "x86_64"
        answer = self.reader.query(("uname", "-m"))
        if isinstance(answer, Completed) and answer.status == 0:
            return answer.text.strip()
        raise UnknownFact("neither the kernel nor uname -m tells the architecture")

    @fact
    def command_line(self) -> tuple[str, ...]:
        """/proc/cmdline, one argument each."""
        return derive(read_line(self.reader, "/proc/cmdline"), "/proc/cmdline", split_command_line)

    # in seconds since the epoch; 0 of an image
    booted_at: int = read_with(
        lambda self: 0 if self.reader.persistent_only else _booted_at(self.reader)
    )

    @fact
    def taints(self) -> int:
        """Bits of what happened to it since the boot; 0 of an image."""
        return (
            0 if self.reader.persistent_only else if_absent(read_integer(self.reader, _TAINTED), 0)
        )

    @fact
    def last_words(self) -> str:
        """A file with what the kernel of the boot before this one wrote last when it died; empty
        for none.

        The newest of the files that were made since the boot; none where it is not known when that
        was.
        """
        if self.reader.persistent_only:
            return ""
        found: list[tuple[int, str]] = []
        for name in _list_names(self.reader, _KEPT)[-_MOST_KEPT:]:
            for inner in _list_names(self.reader, f"{_KEPT}/{name}")[-_MOST_KEPT:]:
                path = f"{_KEPT}/{name}/{inner}"
                stat = self.reader.stat(path)
                if inner.startswith("dmesg") and isinstance(stat, Stat):
                    found.append((stat.mtime_ns, path))
        made, path = max(found, default=(0, ""))
        booted = attempt(_booted_at, self.reader) if path else None
        # Files of earlier crashes stay in that folder for long. Only one that systemd-pstore moved
        # in this boot speaks of the boot before.
        return path if isinstance(booted, int) and made / 1e9 >= booted - _CLOCK_S else ""

    @property
    def has_died(self) -> bool:
        """A part of it ended with an error of its own (oops, BUG), and what that part held is held
        for ever.
        """
        return bool(self.taints & _DIED)

    @property
    def has_bad_page(self) -> bool:
        """It met a page of memory whose marks cannot be: someone wrote where it must not, or the
        memory is bad.
        """
        return bool(self.taints & _BAD_PAGE)

    @property
    def has_machine_check(self) -> bool:
        """A processor reported an exception for an error of hardware, and the host went on."""
        return bool(self.taints & _MACHINE_CHECK)


def flavour_of(release: str) -> str:
    """What is behind the ABI number of a Debian or Ubuntu kernel release; empty for any other
    release.
    """
    match = _FLAVOUR.fullmatch(release)
    return (match[1] or match[2]) if match else ""


def is_ubuntus(release: str) -> bool:
    """Whether a kernel is of Ubuntu's archive, by its flavour: liquorix-amd64, pve, xanmod1, and
    mainline builds are not. The flavours are those of linux-image-FLAVOUR in jammy, noble and
    resolute.
    """
    return flavour_of(release).partition("-")[0] in _OF_UBUNTU and not _MAINLINE.fullmatch(release)


def is_of_distribution(release: str) -> bool:
    """Whether a kernel is of a distribution's archive (Ubuntu's and its derivatives', Debian's,
    Proxmox VE's), for whose kernels drivers are packaged.
    """
    return (
        is_ubuntus(release) or is_of_proxmox(release) or _OF_DEBIAN.fullmatch(release) is not None
    )


def is_realtime(release: str) -> bool:
    """Whether a kernel is a real-time one (PREEMPT_RT) by its name: 6.8.1-1015-realtime of Ubuntu,
    6.1.0-18-rt-amd64 of Debian, 5.6.17-rt10-xanmod1."""
    return _REALTIME.search(release) is not None


def headers_for(release: str) -> str:
    """The package with which modules for a kernel are compiled; Proxmox has a name of its own for
    it.
    """
    return f"{'proxmox-headers' if is_of_proxmox(release) else HEADERS}-{release}"


def is_of_proxmox(release: str) -> bool:
    """Whether a kernel is of Proxmox VE: 6.8.12-4-pve."""
    return release.endswith("-pve")


def select_metapackages(names: Iterable[str], flavour: str) -> tuple[str, ...]:
    """Of the names of packages those that bring kernels of a flavour, without linux-image-:
    generic, generic-hwe-24.04, aws-lts-22.04 ...; none without a flavour.
    """
    name = re.compile(rf"linux-image-({re.escape(flavour)}(?:-(?:hwe|lts|edge|\d[\d.]*)(?:-.*)?)?)")
    return tuple(match[1] for one in names if (match := name.fullmatch(one))) if flavour else ()


def version_of(release: str) -> tuple[int, ...]:
    """(major, minor). Raises ValueError where the release does not start with them."""
    match = _VERSION.match(release)
    if match is None:
        message = f"the kernel release {release!r} starts with no version"
        raise ValueError(message)
    return int(match[1]), int(match[2])


def split_command_line(text: str) -> tuple[str, ...]:
    """Arguments are parted by white space outside of double quotes (kernel: lib/cmdline.c,
    next_arg).
    """
    return tuple(_ARGUMENT.findall(text))


def of_kernel(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments before `--`; those behind it are for process 1."""
    return words[: words.index("--")] if "--" in words else words


def kernel_words(reader: Reader) -> tuple[str, ...]:
    """The arguments that the running kernel took itself, in their order; none of an image."""
    line = "" if reader.persistent_only else if_absent(read_text(reader, "/proc/cmdline"), "")
    return of_kernel(split_command_line(line))


def is_switched_off(words: Iterable[str], key: str) -> bool:
    """Whether the last `KEY=` of a kernel command line says no, as systemd reads it
    (kernel-command-line(7); src/basic/parse-util.c, parse_boolean).
    """
    given = [
        value
        for name, equals, value in (word.partition("=") for word in words)
        if name == key and equals
    ]
    return bool(given) and given[-1].lower() in _NO


def _list_names(reader: Reader, folder: str) -> tuple[str, ...]:
    """The names in a folder; none where it cannot be read."""
    names = attempt(names_in, reader, folder)
    return names if isinstance(names, tuple) else ()


def _booted_at(reader: Reader) -> int:
    """The line btime of /proc/stat (proc_stat(5))."""
    match = _BOOT.search(require_known(read_text(reader, _STAT), _STAT))
    if match is None:
        raise UnknownFact(f"{_STAT} does not say when the host booted")
    return int(match[1])


def _architecture_of_files(reader: Reader) -> str:
    """Of an image: dpkg's native architecture (first line; the file exists once a foreign one was
    added), or the one dynamic loader (x86-64 and AArch64 psABI) that is installed.
    """
    if native := hint(reader, "/var/lib/dpkg/arch").split():
        return _MACHINES.get(native[0], native[0])
    found = [machine for path, machine in _LOADERS.items() if isinstance(reader.resolve(path), str)]
    if len(found) != 1:
        raise UnknownFact(OnlyRunning("the files do not tell the architecture"))
    return found[0]
