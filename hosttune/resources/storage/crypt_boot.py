"""What the next boot makes of encrypted devices: /etc/crypttab, the disks and fstab held against
each other.

Sources: crypttab(5), systemd-cryptsetup-generator(8) (cryptsetup.target requires what has no
nofail, and a boot waits for it; it does not fail by it), systemd.mount(5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.facts.storage.crypttab import MAPPER, PATH, CryptLine, crypt_lines
from hosttune.facts.storage.fstab import FstabEntry
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.sources import SourceKind, Sources, find_fault, sources_of
from hosttune.facts.storage.ways import ways_of
from hosttune.resources.storage.fstab_boot import BootLine, wait_of
from hosttune.resources.storage.fstab_lint_options import is_required
from hosttune.values import ABSENT, Unreadable, is_unrecorded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hosttune.facts import Facts

_DISKS = ("/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID=")
_FORMATTED = frozenset({"swap", "tmp"})  # what is made anew at each boot, with another UUID
_CMDLINE = (
    "rd.luks.name=",
    "luks.name=",
    "rd.luks.uuid=",
    "luks.uuid=",
    "cryptdevice=",
    "rd.luks=",
    "luks=",
)


def look_at_crypttab(facts: Facts) -> Iterator[BootLine]:
    """What is wrong with its lines, and the mappings that it lacks."""
    lines = crypt_lines(facts)
    sources = sources_of(facts)
    users = _find_users(facts, sources)
    names = {one.name for one in lines}
    answer = facts.reader.read(PATH)
    # whether a boot opens them is not known
    has_closed = any(not _is_open(sources, name) for name in users)
    if isinstance(answer, Unreadable) and not is_unrecorded(answer) and has_closed:
        raise UnknownFact(answer.reason)
    for line in lines:
        yield from _look_at_line(facts, sources, line, users.get(line.name, ()))
    if not names and not users:
        return
    yield from _look_at_unlisted(facts, sources, lines, users)


def _look_at_line(
    facts: Facts, sources: Sources, line: CryptLine, users: Sequence[FstabEntry]
) -> Iterator[BootLine]:
    where = f"line {line.line} of {PATH}"
    place = BootLine(f"crypt {line.name}", line.line, file=PATH, is_of_device=True)
    # As of swap: it is mounted at no folder.
    entry = FstabEntry(
        line.line,
        line.source,
        line.name,
        "crypto_LUKS",
        line.options,
        0,
        0,
        is_swap=True,
        file=PATH,
    )
    needing = [one for one in users if _is_required(one)]
    if not line.is_at_boot:
        if needing:
            end = "the boot waits for it, and ends in the emergency shell"
            fault = f"{where} has noauto, and {_name(needing[0])} needs {line.name}: {end}"
            yield replace(
                place, fault=fault, way_out="take noauto out, or add nofail to the line of fstab"
            )
        return
    is_open = _is_open(sources, line.name)
    found = (
        find_fault(sources, entry, ())
        if not _is_remote(line) and line.source.startswith(_DISKS)
        else None
    )
    if found and found.kind in {SourceKind.MISSING, SourceKind.HIDDEN}:
        end = _tell_end(facts, entry, line, needing, is_open=is_open)
        todo = found.way_out
        # The disk is open now, by another name than the line has: that name is the way out, not a
        # search for the disk.
        if below := sources.encrypted_below(f"{MAPPER}{line.name}"):
            named = sources.name_like(line.source if "=" in line.source else "UUID=", below[0])
            todo = f"write {named} there, which is open as {line.name} now\n{REBUILD}"
        if any(one in _FORMATTED or one.startswith("tmp=") for one in line.options):
            todo = (
                "its UUID goes with each boot that formats it: name it by PARTUUID or in "
                "/dev/disk/by-id\n"
                f"{todo}"
            )
        sentence = f"{where} {found.sentence}: {end}"
        if found.kind is SourceKind.MISSING and (needing or (is_open and users)):
            yield replace(place, fault=sentence, way_out=todo, is_mounted=is_open)
        elif needing or not line.is_optional:
            yield replace(
                place,
                note=sentence,
                way_out=f"{todo}\nor add nofail, with which a boot does not wait for it",
            )
        return
    if line.key and _is_missing(facts, sources, line.key):
        end = "the boot asks for a passphrase and waits"
        sentence = f"{where} names the key {line.key}, which is not there: {end}"
        todo = (
            "put the key there again, or write none in its place\n"
            f"build the initial RAM disk anew: {REBUILD}"
        )
        if needing:
            fault = f"{sentence}; without one it ends in the emergency shell ({_name(needing[0])})"
            yield replace(place, fault=fault, way_out=todo, is_mounted=is_open)
        elif not line.is_optional:
            yield replace(place, note=sentence, way_out=todo)
        return
    if line.keyscript and (faults := tuple(_look_at_keyscript(facts, sources, line, place, users))):
        yield from faults
        return
    yield from _compare_words(sources, line, place, where, users, needing)


def _look_at_keyscript(
    facts: Facts, sources: Sources, line: CryptLine, place: BootLine, users: Sequence[FstabEntry]
) -> Iterator[BootLine]:
    """A program that gives the key: it is run in the initial RAM disk, with the third field, and
    systemd does not know it (crypttab(5) and README.initramfs of Debian's cryptsetup;
    https://bugs.debian.org/1137437).
    """
    where, script = f"line {line.line} of {PATH}", line.keyscript
    needing = [one for one in users if _is_required(one)]
    is_early = "initramfs" in line.options or any(
        one.is_swap or one.target in {"/", "/usr"} for one in users
    )
    if script.startswith("/") and _is_missing(facts, sources, script):
        sentence = f"{where} has {script} print the key, which is not there"
        todo = "put the program there again"
    elif script.rpartition("/")[2] == "cat" and line.has_no_key:
        sentence = (
            f"{where} has {script} print the key, and names no file for it "
            f"({line.argument or 'no third field'})"
        )
        todo = "write the path of the key file as the third field, or take keyscript= out"
    elif not is_early and users:
        note = (
            f"{where} has keyscript=, which systemd does not know: a boot asks for a passphrase "
            "and waits"
        )
        yield replace(place, note=note, way_out=f"add initramfs to its options\n{REBUILD}")
        return
    else:
        return
    if needing:
        end = "the boot does not open it, and ends in the emergency shell"
        if any(one.target == "/" for one in needing):
            end = (
                "the boot does not open the disk of /, and ends in the shell of the initial RAM "
                "disk"
            )
        fault = f"{sentence}: {end}"
        yield replace(
            place,
            fault=fault,
            way_out=f"{todo}\n{REBUILD}",
            is_mounted=_is_open(sources, line.name),
        )
    else:
        yield replace(
            place, note=f"{sentence}: the boot does not open it", way_out=f"{todo}\n{REBUILD}"
        )


def _compare_words(
    sources: Sources,
    line: CryptLine,
    place: BootLine,
    where: str,
    users: Sequence[FstabEntry],
    needing: Sequence[FstabEntry],
) -> Iterator[BootLine]:
    """What a line says otherwise than the lines of fstab that need it."""
    local = [one for one in needing if not is_remote_to_systemd(one.fstype, frozenset(one.options))]
    if _is_remote(line):
        if local:
            why = (
                f"{where} is opened once there is a network (_netdev), and {_name(local[0])} is "
                "counted among the disks"
            )
            note = f"{why}: the boot may end in the emergency shell"
            yield replace(place, note=note, way_out="add _netdev to the line of fstab")
        return
    if _is_of_network(sources, line):
        why = (
            f"{where} is on a disk of the network and has no _netdev: a boot opens it before there "
            "is a network"
        )
        yield replace(
            place, note=why, way_out="add _netdev here, and in the lines of fstab that need it"
        )
    elif line.is_optional and local:
        why = (
            f"{where} has nofail, and {_name(local[0])} has none: a boot without that disk ends in "
            "the emergency shell"
        )
        yield replace(place, note=why, way_out="add nofail to the line of fstab as well")
    elif not line.is_optional and users and all("nofail" in one.options for one in users):
        why = (
            f"{where} has no nofail, and {_name(users[0])} has it: a boot without that disk waits "
            "for it all the same"
        )
        yield replace(place, note=why, way_out="add nofail here as well")


def _look_at_unlisted(
    facts: Facts,
    sources: Sources,
    lines: Sequence[CryptLine],
    users: Mapping[str, Sequence[FstabEntry]],
) -> Iterator[BootLine]:
    """Mappings that are open now, that a boot needs, and that no line opens."""
    words = attempt(lambda: facts.kernel.command_line)
    # The kernel command line opens devices without a line of crypttab
    # (systemd-cryptsetup-generator(8)).
    if not isinstance(words, tuple) or any(word.startswith(_CMDLINE) for word in words):
        return
    names = {one.name for one in lines}
    for name, entries in users.items():
        if name in names or not sources.is_encrypted(f"{MAPPER}{name}"):
            continue
        # A line without which no boot ends well is named before others of the same device.
        needing = [one for one in entries if _is_required(one)] or list(entries)
        first = needing[0]
        end = (
            "ends in the emergency shell"
            if _is_required(first)
            else f"mounts nothing at {first.target}"
        )
        what = f"{_name(first)} is on {MAPPER}{name}, which no line of {PATH} opens"
        note = f"{what}: unless a service does, the next boot {end}"
        below = sources.encrypted_below(f"{MAPPER}{name}")
        other = next(
            (one for one in lines if set(sources.find(one.source) or ()) & set(below)), None
        )
        if other:  # a disk is opened once
            todo = (
                f"line {other.line} of {PATH} opens that disk as {other.name}: write {name} there\n"
                f"{REBUILD}"
            )
            yield BootLine(
                f"crypt {name}",
                first.line,
                file=first.file,
                note=note,
                way_out=todo,
                is_of_device=True,
            )
            continue
        todo = (
            f"add to {PATH}: {name} UUID=(sudo blkid -s UUID -o value of its disk) none "
            f"luks{'' if _is_required(first) else ',nofail'}\n"
            f"build the initial RAM disk anew: {REBUILD}"
        )
        yield BootLine(
            f"crypt {name}", first.line, file=first.file, note=note, way_out=todo, is_of_device=True
        )


def _tell_end(
    facts: Facts,
    entry: FstabEntry,
    line: CryptLine,
    needing: Sequence[FstabEntry],
    *,
    is_open: bool,
) -> str:
    if needing:
        return (
            f"the next boot waits {wait_of(facts, entry)} for it, and ends in the emergency shell "
            f"({_name(needing[0])})"
        )
    if is_open and line.is_optional:
        return f"the next boot does not open {line.name}, which is open now"
    return f"each boot waits {wait_of(facts, entry)} for it, and goes on without"


def _find_users(facts: Facts, sources: Sources) -> Mapping[str, list[FstabEntry]]:
    """Name of a mapping -> the lines of fstab and unit files that need it, as far as the devices
    and names tell.
    """
    found: dict[str, list[FstabEntry]] = {}
    mounts = attempt(lambda: facts.mounts.visible)
    mounted = {
        one.target: sources.below(one)
        for one in (mounts if isinstance(mounts, tuple) else ())
        if not one.is_of_user
    }
    for entry in sources.entries:
        if "noauto" in entry.options and not any(
            one.startswith("x-systemd.automount") for one in entry.options
        ):
            continue
        names = {entry.source.removeprefix(MAPPER)} if entry.source.startswith(MAPPER) else set()
        for name in (*(sources.find(entry.source) or ()), *mounted.get(entry.target, ())):
            names |= sources.mappings_below(name)
        for name in sorted(names):
            found.setdefault(name, []).append(entry)
    return found


def _is_required(entry: FstabEntry) -> bool:
    return not entry.is_swap and is_required(entry.options, entry.fstype)


def _name(entry: FstabEntry) -> str:
    return f"{entry.target if not entry.is_swap else 'swap'} ({entry.where})"


def _is_open(sources: Sources, name: str) -> bool:
    return bool(sources.find(f"{MAPPER}{name}"))


def _is_remote(line: CryptLine) -> bool:
    return "_netdev" in line.options


def _is_of_network(sources: Sources, line: CryptLine) -> bool:
    if line.source.startswith(("/dev/nbd", "/dev/rbd", "/dev/disk/by-path/ip-")):
        return True
    return any(sources.is_of_network(one) for one in sources.find(line.source) or ())


def _is_missing(facts: Facts, sources: Sources, path: str) -> bool:
    if (
        facts.reader.persistent_only
        or sources.is_below_unmounted(path)
        or ways_of(facts).way(path)[1]
    ):
        return False
    return facts.reader.stat(path) is ABSENT
