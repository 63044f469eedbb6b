"""What the next boot starts, and whether one is asked for; from files, no program is started.

Sources: /boot as Debian's kernel packages fill it, GRUB's files (facts/kernel/grub.py),
/run/reboot-required (Ubuntu's update-notifier, Debian policy of reboot-notifier), Secure Boot as
facts/host.py reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.host import VARIABLES
from hosttune.facts.kernel.grub import environment_of, kernel_at, parse_menu, settings_of
from hosttune.facts.reading import (
    all_sure,
    if_absent,
    is_there,
    names_in,
    parse_or_unknown,
    read_text,
    require_known,
    require_sure,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import sorted_versions
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_IMAGE = regex(r"vmlinu[xz]-(\d\S*)")
# What package tools leave beside a kernel; grub-mkconfig passes over the same names.
_NO_KERNEL = regex(r"\.(?:dpkg-\w+|rpm(?:save|new|orig)|old|bak|efi\.signed|sig)$|~$|-rescue-")
_CONFIG = "/boot/grub/grub.cfg"
_ENVIRONMENT = "/boot/grub/grubenv"
_DEFAULTS = "/etc/default/grub"
_REQUIRED = "/run/reboot-required"
# Where DKMS keeps the certificate of its key: Ubuntu's shim-signed, DKMS itself.
_OWN_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
_MOK = regex(r"MokListRT\d*-[0-9a-f-]{36}")


@frozen
class Boot(Subject):
    """The kernels that can be booted, and the signs that a reboot is due."""

    # releases with a /boot/vmlinuz-RELEASE, oldest first: 6.8.0-9 < 6.8.0-60 < 6.14.0-1
    kernels: tuple[str, ...] = read_with(lambda self: kernels_in(names_in(self.reader, "/boot")))

    @fact
    def next_kernel(self) -> str:
        """What the next boot starts, as far as files tell; empty where no kernel is booted from
        here.
        """
        return _next(self.reader, self.facts, self.kernels)

    # the kernel takes signed modules only; false where the firmware has no Secure Boot
    secure_boot: bool = read_with(lambda self: self.facts.host.secure_boot is True)

    @fact
    def takes_own_modules(self) -> bool:
        """Modules that DKMS compiles and signs here load: no Secure Boot, or their key is
        enrolled.
        """
        return _has_enrolled_key(self.reader) if self.secure_boot else True

    @fact
    def reboot_required(self) -> bool:
        """A package asked for a reboot in this boot; NVIDIA's packages do not always."""
        return self._required[0]

    @fact
    def reboot_packages(self) -> tuple[str, ...]:
        """Which, each once."""
        return self._required[1]

    @fact
    def _required(self) -> tuple[bool, tuple[str, ...]]:
        if not is_there(self.reader, _REQUIRED):
            return False, ()
        return True, packages_of(if_absent(read_text(self.reader, f"{_REQUIRED}.pkgs"), ""))


def kernels_in(names: tuple[str, ...]) -> tuple[str, ...]:
    """The releases of the kernel images among the files of /boot, oldest first."""
    found = (
        match[1]
        for name in names
        if not _NO_KERNEL.search(name) and (match := _IMAGE.fullmatch(name))
    )
    return sorted_versions(found)


def packages_of(required: str) -> tuple[str, ...]:
    """The names in reboot-required.pkgs, which gets one line for each time a package asks."""
    return tuple(dict.fromkeys(line.strip() for line in required.splitlines() if line.strip()))


def _has_enrolled_key(reader: Reader) -> bool:
    """The certificate that DKMS signs with is in shim's list of machine owner keys (mokutil(1),
    dkms(8)).
    """
    keys = [reader.read(path) for path in _OWN_KEYS]
    own = [key for key in keys if isinstance(key, bytes) and key]
    # Only if all places of the certificate were read: one that could not be read may hold the key
    # that is enrolled.
    if not own:
        all_sure(keys)
        return False
    names = reader.list(VARIABLES)
    lists = [
        reader.read(f"{VARIABLES}/{name}")
        for name in (names if isinstance(names, tuple) else ())
        if _MOK.fullmatch(name)
    ]
    # A key in any list is proof, whatever else could not be read. That no list has it is certain
    # only if every list was read.
    if any(key in enrolled for enrolled in lists if isinstance(enrolled, bytes) for key in own):
        return True
    all_sure((names, *lists))
    return False


def _next(reader: Reader, facts: Facts, kernels: tuple[str, ...]) -> str:
    if not kernels or _is_container(facts):
        return ""
    if len(kernels) == 1:
        return kernels[0]
    if _find_loader(facts) == "systemd-boot":
        raise UnknownFact(
            f"systemd-boot decides by its own entries which of {len(kernels)} kernels it starts"
        )
    default = _find_default(reader)
    return (
        _resolve_entry(reader, default, kernels)
        if default not in {"", "0"}
        else _find_first(reader, kernels)
    )


def _is_container(facts: Facts) -> bool:
    try:
        return facts.host.is_container
    except UnknownFact:
        return False


def _find_loader(facts: Facts) -> str:
    try:
        return facts.host.boot_loader
    except UnknownFact:
        return ""


def _find_default(reader: Reader) -> str:
    """The entry that GRUB takes: what grub-reboot left for one boot, else the setting, or what was
    saved for it.
    """
    block = reader.read(_ENVIRONMENT)
    variables = environment_of(block.decode("utf-8", "replace")) if isinstance(block, bytes) else {}
    # grub-reboot goes before GRUB_DEFAULT, and for one boot only. It has to be read even if the
    # settings say something else.
    if variables.get("next_entry"):
        return variables["next_entry"]
    default = _read_settings(reader).get("GRUB_DEFAULT", "0")
    # Whatever the settings say: a block that cannot be read may hold a next_entry.
    require_sure(block)
    if default == "saved":
        return variables.get("saved_entry", "0")
    if "$" in default or "`" in default:
        raise UnknownFact(f"GRUB_DEFAULT is worked out by a shell: {default}")
    return default


def _read_settings(reader: Reader) -> dict[str, str]:
    """/etc/default/grub, then grub.d/*.cfg, as grub-mkconfig sources them."""
    extra = [
        f"{_DEFAULTS}.d/{name}"
        for name in names_in(reader, f"{_DEFAULTS}.d")
        if name.endswith(".cfg")
    ]
    settings: dict[str, str] = {}
    for path in (_DEFAULTS, *extra):
        settings.update(settings_of(if_absent(read_text(reader, path), "")))
    return settings


def _resolve_entry(reader: Reader, default: str, kernels: tuple[str, ...]) -> str:
    try:
        menu = require_known(read_text(reader, _CONFIG), _CONFIG)
    except UnknownFact as unknown:
        raise UnknownFact(f"GRUB's default is {default!r}, and {unknown.reason}") from None
    return _pick_installed(parse_or_unknown(kernel_at, parse_menu(menu), default), kernels)


def _find_first(reader: Reader, kernels: tuple[str, ...]) -> str:
    """The first entry: what grub.cfg says where it can be read, else the newest, which
    grub-mkconfig puts there.
    """
    menu = reader.read(_CONFIG)
    if isinstance(menu, bytes):
        entries = parse_menu(menu.decode("utf-8", "replace"))
        if entries and entries[0].kernel and not entries[0].is_conditional:
            return _pick_installed(entries[0].kernel, kernels)
        return kernels[-1]
    settings = _read_settings(reader)
    ordered = [name for name in ("GRUB_TOP_LEVEL", "GRUB_FLAVOUR_ORDER") if settings.get(name)]
    if ordered:
        raise UnknownFact(
            f"{ordered[0]} decides which kernel GRUB starts, and {_CONFIG} could not be read"
        )
    return kernels[-1]


def _pick_installed(kernel: str, kernels: tuple[str, ...]) -> str:
    if kernel in kernels:
        return kernel
    raise UnknownFact(
        f"GRUB's next entry starts kernel {kernel}, which is not in /boot: sudo update-grub"
    )
