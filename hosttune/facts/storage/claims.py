"""Block devices that someone has claimed, though the kernel shows no holder and no mount: a file
names them, the kernel serves them to other machines, or a process has them open.

Named too often is the safe side: every word of these files that may mean a device counts, options
included (logdev=, journal_path=). Sources: fstab(5), systemd.mount(5), systemd.swap(5),
crypttab(5), autofs(5), libvirt (formatdomain, formatstorage); kernel:
drivers/nvme/target/configfs.c (device_path), drivers/target/target_core_configfs.c (udev_path).
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import names_in, read_text, require_known
from hosttune.facts.services.unit_files import UnitFiles
from hosttune.host.reading.bounded import CUT
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_FILES = (
    "/etc/fstab", "/etc/crypttab", "/etc/auto.*", "/etc/auto.master.d/*", "/etc/autofs/*",
    "/etc/libvirt/qemu/*.xml", "/etc/libvirt/storage/*.xml",
    "/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path",
    "/sys/kernel/config/target/core/iblock_*/*/udev_path",
)  # fmt: skip
_UNITS = (".mount", ".swap")
_COMMENT = regex(r"(?m)^[^\S\n]*[#;].*$")
_WORD = regex(r"(?m)^What=.+$|(?:/dev/|\b(?:UUID|LABEL|PARTUUID|PARTLABEL|ID)=)[^\s<>,;|]+")
_OCTAL = regex(r"\\([0-3][0-7]{2})")  # how fstab(5) writes a blank
_AUTOFS_MAP = regex(r"(?m)^[^\S\n]*[/+]\S*[^\S\n]+(?:file[,:]\S*?|program:)?(/\S+)")


def find_claimed(reader: Reader, facts: Facts) -> frozenset[str]:
    """Paths of devices, links resolved, and tags (`uuid=...`) in small letters.

    Raises UnknownFact where one of the places could not be read, or names a link below /dev/disk
    that leads nowhere: which device that means is then not known.
    """
    found = {
        _find_place(reader, word, file)
        for file, content in _read_texts(reader, facts)
        for word in find_device_words(content)
    }
    # An external log or journal has no mount of its own: only the option of another mount names it.
    options = (
        option for mount in facts.mounts.all for option in mount.super_options if "=/dev/" in option
    )
    found |= {
        _find_place(reader, word, "a mount")
        for option in options
        for word in find_device_words(option)
    }
    processes = require_known(reader.processes(), "the list of processes")
    # A list that was cut may lack the very disk that is asked for.
    if cut := next((one for one in processes if CUT in one.devices), None):
        raise UnknownFact(
            f"which devices process {cut.pid} uses is not known: {cut.user} has too many files open"
        )
    return frozenset(found | {device for process in processes for device in process.devices})


def find_device_words(content: str) -> tuple[str, ...]:
    """What may mean a device in the text of a file: paths below /dev and tags, without quotes and
    escapes.
    """
    plain = _COMMENT.sub("", content).replace('"', "").replace("'", "")
    found = (match[0].removeprefix("What=").strip().rstrip("/") for match in _WORD.finditer(plain))
    return tuple(
        dict.fromkeys(_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), word) for word in found)
    )


def _find_place(reader: Reader, word: str, file: str) -> str:
    path = f"/dev/disk/by-id/{word[3:]}" if word.startswith("ID=") else word
    if not path.startswith("/dev/"):
        # People write a UUID in capitals. A claim too many is the safe side here.
        return path.casefold()
    answer = reader.resolve(path)
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Unreadable):
        raise UnknownFact(f"{file} names {path}: {answer.reason}")
    if path.startswith("/dev/disk/by-"):
        raise UnknownFact(f"{file} names {path}, which leads to no device now")
    return path


def _read_texts(reader: Reader, facts: Facts) -> Iterator[tuple[str, str]]:
    """(path, content) of every file that may name a device."""
    files = [path for pattern in _FILES for path in _match_paths(reader, pattern)]
    units = UnitFiles(reader)
    names = {
        name for folder in units.folders for name in units.names(folder) if name.endswith(_UNITS)
    }
    for name in sorted(names):
        files += [path for path in (units.path(name), *units.drop_ins(name)) if path]
    done: set[str] = set()
    for path in files:  # it grows meanwhile
        is_folder = getattr(reader.stat(path), "type", "") == "directory"
        if path in done or is_folder or reader.link(path) == "/dev/null":
            continue
        done.add(path)
        content = read_text(reader, path)
        if isinstance(content, str):
            yield path, content
            if path.startswith("/etc/auto"):
                maps = [
                    found for found in _AUTOFS_MAP.findall(content) if not found.startswith("/dev/")
                ]
                if shut := next((one for one in maps if _is_below_automount(one, facts)), None):
                    raise UnknownFact(
                        f"{path} names the map {shut}: to read it would mount something"
                    )
                files += maps


def _is_below_automount(path: str, facts: Facts) -> bool:
    targets = (one.target for one in facts.mounts.all if one.fstype == "autofs")
    return any(posixpath.normpath(path).startswith(f"{target}/") for target in targets)


def _match_paths(reader: Reader, pattern: str) -> list[str]:
    """The paths that a pattern of glob(7) means; the pattern itself where it has no wildcard."""
    folder, wildcard, rest = pattern.partition("*")
    if not wildcard:
        return [pattern]
    folder, _, start = folder.rpartition("/")
    end, slash, below = rest.partition("/")
    fitting = [name for name in names_in(reader, folder) if fits_glob(name, f"{start}*{end}")]
    return [
        path for name in fitting for path in _match_paths(reader, f"{folder}/{name}{slash}{below}")
    ]
