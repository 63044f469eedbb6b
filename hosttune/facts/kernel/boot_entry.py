"""The entry that GRUB takes by default, and why one boot of this host cannot be made with another
one.

A boot with other kernel arguments is asked for by `next_entry` in GRUB's environment block, which
GRUB clears before it starts the kernel: then whatever becomes of that boot, the next one is the
default. Where GRUB cannot write there, every boot would be that one, so each condition is looked at
beforehand (GRUB's manual, "The GRUB environment block"; grub-core/commands/loadenv.c; 00_header and
41_custom of grub-common).
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.kernel.grub import MenuEntry, entry_at, environment_of, parse_menu
from hosttune.facts.kernel.grub_arguments import MENU
from hosttune.facts.reading import ask, hint, if_absent, names_in, read_text, require_known
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Space, Stat
from hosttune.host.known.file_systems import NOT_LASTING_ROOT
from hosttune.host.reading.mountinfo import find_holding, parse
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

FOLDER = "/boot/grub"
ENVIRONMENT = f"{FOLDER}/grubenv"
CUSTOM = f"{FOLDER}/custom.cfg"
MARK = "# Written by hosttune for the trial"  # a custom.cfg that begins so is ours
ENTRY = "hosttune-trial"  # the id of its entry
BLOCK_BYTES = 1024
BLOCK_HEAD = b"# GRUB Environment Block\n"
_MOUNTINFO = "/proc/self/mountinfo"
_FILE_SYSTEMS = frozenset({"ext2", "xfs", "fat"})  # as grub-probe calls them; ext2 is ext4, too
_PROGRAMS = ("grub-editenv", "grub-script-check")
_ROOM_BYTES, _ROOM_INODES = 64 << 10, 8
_ARCHITECTURES = frozenset({"x86_64", "aarch64"})
_DEFAULTS = regex(r'(?m)^[ \t]*set default="([^"]*)"\s*$')
_NO_TIMEOUT = regex(r"(?m)^[ \t]*set timeout=-1\s*$")
_CUSTOM = regex(r"(?m)^[ \t]*source\s+\$\{config_directory\}/custom\.cfg\s*$")
_SUPERUSERS = regex(r"(?m)^[ \t]*set superusers=(?!\"\"\s*$)")
_SIGNATURES = regex(r"(?m)^[ \t]*(?:set|export) check_signatures(?:=(?!no\b)|\s*$)|^[ \t]*trust\s")
_LINUX = regex(r"linux(?:efi|16)?\s+(\S+)((?:\s.*)?)")
_INITRD = regex(r"initrd(?:efi|16)?\s+\S")
_STUB = regex(r"(?m)^[ \t]*search\.fs_uuid[ \t]+(\S+)[ \t]+root\b")
# Kept of the body of an entry, word for word. What else may stand there is unknown, so the entry is
# not copied.
_KEPT = frozenset({"load_video", "gfxmode", "insmod", "set", "search", "echo", "if", "else", "fi"})
# They write to the block, or count boots: the entry for one boot does neither.
_DROPPED = frozenset({"recordfail", "savedefault", "initrdfail"})


@frozen
class BootEntry:
    """What GRUB starts by default, in parts of which another entry can be made."""

    title: str
    kernel: str  # its release
    head: tuple[str, ...]  # lines before the kernel's: modules, the file system
    image: str  # path of the kernel, as GRUB names it
    arguments: str  # the rest of that line, as written
    initrd: tuple[str, ...]  # the lines behind it


@frozen
class OneShot:
    """Whether one boot of this host can be made with other kernel arguments: `entry` where
    `refusals` is empty.
    """

    entry: BootEntry | None
    refusals: tuple[str, ...]  # a sentence each, with the way out where there is one


def one_shot(reader: Reader, facts: Facts) -> OneShot:
    """Look at all of it. What could not be read is a refusal, too."""
    if early := _list_exclusions(reader, facts):
        return OneShot(None, early)
    refusals: list[str] = []
    menu = attempt(lambda: require_known(read_text(reader, MENU), MENU))
    entry: BootEntry | None = None
    for look in (
        _check_firmware,
        _check_kexec,
        _boot_folder,
        _check_disk,
        _check_block,
        _check_custom,
        _check_encryption,
    ):
        found = attempt(_ask_all, look, reader, facts)
        refusals += [f"it is not known: {found.reason}"] if isinstance(found, Unreadable) else found
    if isinstance(menu, Unreadable):
        refusals.append(f"GRUB's menu cannot be read: {menu.reason}")
    else:
        refusals += _check_menu(menu)
        made = attempt(_read_entry, reader, facts, menu)
        if isinstance(made, Unreadable):
            refusals.append(made.reason)
        else:
            entry = made
    return OneShot(None if refusals else entry, tuple(dict.fromkeys(refusals)))


def _ask_all(
    look: Callable[[Reader, Facts], Iterable[str]], reader: Reader, facts: Facts
) -> tuple[str, ...]:
    return tuple(look(reader, facts))


def _list_exclusions(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """What makes all other questions idle."""
    if reader.persistent_only:
        return ("these are the files of an image: one boot is tried on the machine that runs them",)
    host = attempt(
        lambda: (
            facts.host.is_container,
            facts.host.is_wsl,
            facts.host.has_systemd,
            facts.host.boot_loader,
        )
    )
    if isinstance(host, Unreadable):
        return (f"how this host boots is not known: {host.reason}",)
    is_container, is_wsl, has_systemd, loader = host
    if is_container or is_wsl:
        return ("this is a container: it does not boot by itself",)
    if not has_systemd:
        return ("this host runs without systemd, so nothing would watch over the boot on trial",)
    if loader == "systemd-boot":
        return ("systemd-boot starts this host, and only GRUB's entry for one boot is known here",)
    if loader != "grub":
        return ("no menu of GRUB starts this host",)
    return ()


def _check_firmware(reader: Reader, facts: Facts) -> Iterable[str]:
    """Whether what the firmware starts reads this menu."""
    if facts.kernel.architecture not in _ARCHITECTURES:
        yield f"on {facts.kernel.architecture} it is not known whether the firmware starts GRUB"
    if not facts.host.is_uefi:
        if facts.kernel.architecture == "aarch64":
            yield (
                "this machine has no UEFI: U-Boot or flash-kernel starts its kernel, not GRUB's "
                "menu"
            )
        return
    variables = names_in(reader, "/sys/firmware/efi/efivars")
    if any(name.startswith("StubInfo-") for name in variables):
        yield "the firmware starts a unified kernel image, not GRUB's menu"
    stubs = [f"/boot/efi/EFI/{name}/grub.cfg" for name in names_in(reader, "/boot/efi/EFI")]
    named = {match[1] for path in stubs for match in _STUB.finditer(hint(reader, path))}
    if named:
        uuid = _probe_grub(reader, "fs_uuid", FOLDER)
        if uuid not in named:
            yield (
                f"GRUB on the EFI partition looks for its menu on {', '.join(sorted(named))}, and "
                f"{MENU} is on {uuid}"
            )


def _check_kexec(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    if hint(reader, "/sys/kernel/kexec_loaded").strip() == "1":
        yield "a kernel is loaded for kexec, so the next reboot skips GRUB: sudo kexec --unload"
    rows = hint(reader, "/etc/default/kexec").splitlines()
    if any(row.replace('"', "").replace(" ", "") == "LOAD_KEXEC=true" for row in rows):
        yield "LOAD_KEXEC=true in /etc/default/kexec makes reboots skip GRUB: set it to false"


def _boot_folder(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    table = require_known(reader.read(_MOUNTINFO), _MOUNTINFO)
    root, boot = find_holding(table, "/"), find_holding(table, FOLDER)
    if root is None or root.fstype in NOT_LASTING_ROOT:
        fstype = "not known" if root is None else root.fstype
        yield f"the root file system is {fstype}: it does not keep what is written"
    if boot is not None and "data=journal" in boot.super_options:
        yield (
            f"the file system of {FOLDER} journals data, so its journal could bring back what GRUB "
            "has cleared"
        )
    if boot is not None and boot.is_read_only:
        yield f"{FOLDER} is read-only, so GRUB's environment block cannot be set"
    space = reader.space(FOLDER)
    if isinstance(space, Space) and space.available_bytes < _ROOM_BYTES:
        yield f"the file system of {FOLDER} is full"
    elif (
        isinstance(space, Space)
        and space.total_inodes > 0
        and space.available_inodes < _ROOM_INODES
    ):
        yield f"the file system of {FOLDER} has no room for more files"
    rows = (
        row.split()
        for row in hint(reader, "/etc/fstab").splitlines()
        if not row.lstrip().startswith("#")
    )
    named = {row[1].rstrip("/") for row in rows if len(row) > 2}
    mounted = {mount.target for mount in parse(table)}
    for target in sorted(({"/boot", FOLDER} & named) - mounted):
        yield f"{target} is in /etc/fstab and is not mounted: sudo mount {quote(target)}"


def _probe_grub(reader: Reader, target: str, path: str) -> str:
    answer = ask(reader, ("grub-probe", f"--target={target}", path), timeout_s=60.0)
    if answer.status != 0:
        raise UnknownFact(
            f"grub-probe --target={target} {path}: {answer.errors.strip() or answer.status}"
        )
    return " ".join(answer.text.split())


def _check_disk(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    """Whether GRUB can write where its block is."""
    layers = _probe_grub(reader, "abstraction", ENVIRONMENT)
    if layers:
        yield (
            f"GRUB cannot write to {ENVIRONMENT}, which is on {layers}, so each boot would be the "
            "one on trial: a plain partition for /boot is needed"
        )
    fstype = _probe_grub(reader, "fs", ENVIRONMENT)
    if fstype not in _FILE_SYSTEMS:
        yield (
            f"GRUB does not write to {fstype}, where {ENVIRONMENT} is, so each boot would be the "
            "one on trial: a plain partition with ext4 for /boot is needed"
        )
    missing = [name for name in _PROGRAMS if reader.query((name, "--version")) is ABSENT]
    if missing:
        yield f"{', '.join(missing)} is not installed: sudo apt install grub-common"


def _check_block(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    stat = reader.stat(ENVIRONMENT, follow=False)
    if not isinstance(stat, Stat):
        yield f"GRUB has no environment block: sudo grub-editenv {ENVIRONMENT} create"
        return
    content = require_known(reader.read(ENVIRONMENT), ENVIRONMENT)
    if stat.type != "file":
        yield f"{ENVIRONMENT} is a {stat.type}, which GRUB does not write to"
    elif len(content) != BLOCK_BYTES or not content.startswith(BLOCK_HEAD):
        yield (
            f"{ENVIRONMENT} is no environment block of {BLOCK_BYTES} bytes: sudo grub-editenv "
            f"{ENVIRONMENT} create"
        )
    # GRUB writes the block by its sectors and is not stopped by the flag, but grub-editenv is:
    # without this the entry could not be asked for.
    flags = reader.query(("lsattr", "-d", ENVIRONMENT))
    if (
        isinstance(flags, Completed)
        and flags.status == 0
        and set(flags.text.split(" ", 1)[0]) & {"i", "a"}
    ):
        yield f"{ENVIRONMENT} is immutable: sudo chattr -ia {ENVIRONMENT}"
    variables = environment_of(content.decode("utf-8", "replace"))
    entry = variables.get("next_entry")
    if entry and entry != ENTRY:  # ours is left over: another run on trial is asked about elsewhere
        yield (
            f"GRUB is set to one boot of {entry!r} already: boot it, or sudo grub-editenv "
            "- unset next_entry"
        )
    if variables.get("prev_saved_entry"):
        yield (
            "prev_saved_entry in GRUB's environment block makes the boot after the next another "
            "one: boot first"
        )
    if variables.get("initrdfail"):
        yield "GRUB is about to try a boot again with an initial RAM disk (initrdfail): boot first"


def _check_custom(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    stat = reader.stat(CUSTOM, follow=False)
    if isinstance(stat, Stat) and (
        stat.type != "file" or not hint(reader, CUSTOM).startswith(MARK)
    ):
        yield (
            f"{CUSTOM} is there and not hosttune's: move its entries to /etc/grub.d/40_custom, "
            "then sudo update-grub"
        )


def _check_encryption(reader: Reader, facts: Facts) -> Iterable[str]:  # noqa: ARG001 - the interface of all looks
    """GRUB measures every command and argument (PCR 8), so a key sealed to them stays closed."""
    rows = [
        row
        for row in hint(reader, "/etc/crypttab").splitlines()
        if row.strip() and not row.startswith("#")
    ]
    if any("tpm2-device" in row for row in rows):
        yield (
            "/etc/crypttab unlocks a disk by the TPM (tpm2-device), which may refuse under another "
            "command line"
        )
    elif rows and isinstance(reader.stat("/usr/share/initramfs-tools/hooks/clevis"), Stat):
        yield "clevis unlocks a disk, maybe by the TPM, which may refuse under another command line"
    if isinstance(reader.stat("/run/mnt/ubuntu-boot"), Stat):
        yield (
            "the disk is encrypted by Ubuntu with the TPM, which refuses under another command line"
        )


def _check_menu(menu: str) -> Iterable[str]:
    if "load_env" not in menu or "save_env next_entry" not in menu:
        yield f"{MENU} does not look for an entry for one boot (next_entry): sudo update-grub"
    if not _CUSTOM.search(menu):
        yield f"{MENU} does not read {CUSTOM} (41_custom): sudo update-grub"
    if _NO_TIMEOUT.search(menu):
        yield "GRUB waits at its menu forever (a timeout of -1), so nothing is rolled back"
    if _SIGNATURES.search(menu):
        yield "GRUB checks signatures of all that it reads, and the entry for one boot has none"


def _read_entry(reader: Reader, facts: Facts, menu: str) -> BootEntry:
    """The default entry, in parts. Raises UnknownFact, with a sentence, where it cannot be
    copied.
    """
    try:
        entry = entry_at(parse_menu(menu), _read_default(reader, menu))
        parts = parts_of(entry)
    except ValueError as error:
        raise UnknownFact(str(error)) from None
    if _SUPERUSERS.search(menu) and "--unrestricted" not in entry.options:
        raise UnknownFact("GRUB asks for a password before it boots the default entry")
    # The new arguments are appended, and behind -- they would reach process 1: the trial would test
    # nothing and report success.
    if "--" in parts.arguments.split():
        raise UnknownFact(
            "GRUB's default entry has words for process 1 (behind --), where no argument of the "
            "kernel counts"
        )
    running = facts.kernel.release
    if entry.kernel != running:
        raise UnknownFact(
            f"GRUB's default is kernel {entry.kernel} and {running} runs, so one boot would try "
            "two things: reboot first"
        )
    started = next(
        (word[11:] for word in facts.kernel.command_line if word.startswith("BOOT_IMAGE=")), ""
    )
    if posixpath.normpath(started.rpartition(")")[2] or "-") != posixpath.normpath(parts.image):
        raise UnknownFact(
            f"this boot was not made by GRUB's default entry (BOOT_IMAGE={started or 'none'}, not "
            f"{parts.image})"
        )
    return parts


def _read_default(reader: Reader, menu: str) -> str:
    """What this menu takes where no one asked for another. Raises ValueError where it assigns
    several.
    """
    block = environment_of(if_absent(read_text(reader, ENVIRONMENT), ""))
    assigned = [match[1] for match in _DEFAULTS.finditer(menu)]
    found = {one for one in assigned if one not in {"${next_entry}", "${saved_entry}"}}
    if "${saved_entry}" in assigned:
        found.add(block.get("saved_entry") or "0")
    # grub-mkconfig writes several assignments in branches of an if. Which one GRUB takes is decided
    # at boot, by variables that no file shows.
    if len(found) != 1 or any("$" in one for one in found):
        message = (
            f"{MENU} works its default out in more than one way: "
            f"{', '.join(sorted(found)) or 'none'}"
        )
        raise ValueError(message)
    return found.pop()


def parts_of(entry: MenuEntry) -> BootEntry:
    """The parts of an entry. Raises ValueError, with a sentence, where its body has more than
    10_linux writes.
    """
    rows = _with_initrd(entry.body)
    head: list[str] = []
    initrd: list[str] = []
    linux: list[tuple[str, str]] = []
    depth = 0
    for row in rows:
        word = row.split(maxsplit=1)[0]
        match = _LINUX.fullmatch(row)
        if match and depth == 0:
            linux.append((match[1], match[2].strip()))
        elif _INITRD.match(row) and depth == 0:
            initrd.append(row)
        elif word in _DROPPED:
            continue
        elif word in _KEPT and not linux:
            head.append(row)
            words = row.replace(";", " ; ").split()
            depth += words.count("if") - words.count("fi")
        elif word == "echo":
            continue
        else:
            message = f"GRUB's default entry {entry.title!r} has a line that is not copied: {row}"
            raise ValueError(message)
    if len(linux) != 1 or not initrd:
        message = (
            f"GRUB's default entry {entry.title!r} does not start one kernel with an initial RAM "
            "disk"
        )
        raise ValueError(message)
    ((image, arguments),) = linux
    return BootEntry(entry.title, entry.kernel, tuple(head), image, arguments, tuple(initrd))


def _with_initrd(body: tuple[str, ...]) -> tuple[str, ...]:
    """Of an entry of Ubuntu's cloud images, which tries a boot without an initial RAM disk first,
    the way with one.
    """
    rows = list(body)
    try:
        start = next(
            at for at, row in enumerate(rows) if row.startswith("if ") and "${initrdfail}" in row
        )
        middle = next(at for at in range(start, len(rows)) if rows[at] == "else")
        end = next(at for at in range(middle, len(rows)) if rows[at] == "fi")
    except StopIteration:
        return body
    return (*rows[:start], *rows[start + 1 : middle], *rows[end + 1 :])
