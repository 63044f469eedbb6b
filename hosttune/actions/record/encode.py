"""Turns what a Recorder kept into the JSON of a record (`host/record/record.py` has the format),
without secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeVar

from hosttune.actions.record.commands import kind_of, shared_words, short_job
from hosttune.actions.record.shared import LEFT_OUT, NO_TEXT, shared_text
from hosttune.errors import HosttuneError
from hosttune.facts.dpkg_said import TERM_LOG, shorten_log
from hosttune.facts.gpu.gpu_count import TYPE_KEYS
from hosttune.facts.gpu.nvidia_smi import messages_in
from hosttune.facts.kernel import device_log, host_log, kernel_log
from hosttune.facts.memory import memory_modules
from hosttune.facts.storage import pools, storage_log
from hosttune.facts.storage.ageing_text import LOCAL_PROGRAMS
from hosttune.facts.storage.crypttab import PATH as CRYPTTAB
from hosttune.facts.virtualization import is_tag_of_cloud
from hosttune.host.door import Completed, Process, Space, Stat, Usage, source_of
from hosttune.host.masking.command_secrets import MASK
from hosttune.host.masking.redact import Redactor, find_people, find_places, find_serials
from hosttune.host.masking.secrets import (
    is_secret_file,
    is_serial_file,
    mask_command,
    mask_mapper_uuid,
    mask_secrets,
)
from hosttune.host.reading.machine_id import hashed_machine_id, machine_id_hash
from hosttune.host.reading.pci_config import is_pci_config, without_serial
from hosttune.host.record.record import (
    FORMAT_VERSION,
    KIND,
    LIMIT,
    RecordingReader,
    encode_answer,
    encode_bytes,
)
from hosttune.regex import regex
from hosttune.values import Answer

T = TypeVar("T")
MACHINE_ID: Final = "/etc/machine-id"
DPKG_STATUS: Final = "/var/lib/dpkg/status"
UDEV_DMI: Final = "/run/udev/data/+dmi:id"
_BLOCK: Final = "/sys/block/"
_UDEV_BLOCK: Final = "/run/udev/data/b"  # what udev knows of a disk, serial numbers too
_DPKG_FIELDS = tuple(
    b"%s:" % name
    for name in (
        b"Package",
        b"Status",
        b"Architecture",
        b"Version",
        b"Source",
        b"Provides",
        b"Pre-Depends",
        b"Depends",
    )
)
_SHOWN_FIELDS = tuple(
    f"{name}:"
    for name in (
        "Package",
        "Version",
        "Section",
        "Depends",
        "Modaliases",
        "Support",
        "Prefer-Variant",
        "Origin",
    )
)
# A version such as 535.183.1.4 looks like an IPv4 address. What these programs print is not
# searched for addresses.
_SPEAK_OF_VERSIONS = frozenset(
    {
        "apt-get",
        "apt-cache",
        "apt-mark",
        "dpkg",
        "dpkg-query",
        "ubuntu-drivers",
        "nvidia-smi",
        "modinfo",
    }
)
_LOGS = frozenset({"dmesg", "journalctl"})
_CHOOSERS = (
    kernel_log.reach_of,
    messages_in,
    storage_log.choose_lines,
    host_log.choose_lines,
    device_log.choose_lines,
)  # what facts take of the kernel log
_TIME = regex(r"\[? {0,20}(\d{1,12}\.\d{1,9})\b")
_POOL_FIELDS = ("pool:", "state:", "scan:", "errors:")
_PLAIN_DISK = regex(  # a group, or the kernel's own name
    r"(?:mirror|raidz\d?|draid[\w:]*|spare|replacing)-\d+|(?:[sv]d[a-z]+|dm-|md"
    r"|nvme\d+n)\d*(?:p\d+)?"
)
_CRONTABS = "/var/spool/cron/"
_HOMES = ("/home/", "/root/")
# Of files that hold much about people and pods the values that facts read, by their name.
_KEPT_KEYS = {
    "instance-data.json": tuple(TYPE_KEYS.values()),
    "kubelet_internal_checkpoint": (("Data", "RegisteredDevices", "nvidia.com/gpu"),),
}
_DEVICE = regex(r"(GPU|MIG)-[^:]*")
_BOOT = ("/boot/", "/etc/grub.d/", "/etc/default/grub")
# `password USER PASSWORD` of GRUB's manual, where a command begins
_GRUB_PASSWORD = regex(
    r"(?m)((?:^|[;{]|\b(?:then|else|do)\b)[ \t]*password[ \t]+[^\s;]+[ \t]+)"
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;])+"
)
# The third field of crypttab(5), where it is neither a file, a device nor none: what keyscript= is
# given, which with `keyscript=/bin/echo` is the passphrase itself.
_CRYPT_KEY = regex(
    r"(?m)^([ \t]*[^\s#]\S*[ \t]+\S+[ \t]+)(?!(?:/\S*|-|none|[A-Z]+=\S*)(?:\s|$))\S+"
)
_TOO_LONG = "left out of this record, which would be longer than hosttune reads"
_LEAST = 256  # characters of an answer that saves nothing where it is left out
_FIRMWARE = ("/sys/firmware/", "/proc/device-tree/")


def encode_record(recorder: RecordingReader, *, share: bool, tool_version: str) -> dict[str, Any]:
    """The record, ready for json.dumps."""
    kept, base = recorder.answers, recorder.base
    machine_id = _encode_text(kept["files"].get(MACHINE_ID)).strip()
    redactor = Redactor(_encode_header(recorder, machine_id, share=share), share=share)
    listings = map(kept["listings"].get, LOCAL_PROGRAMS)
    encoder = _Encoder(
        redactor, {name for names in listings if isinstance(names, tuple) for name in names}
    )
    others = kept["others"]
    record: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "tool_version": tool_version,
        "made_at": base.now(),
        "name": redactor.name(base.name),
        "machine": machine_id_hash(machine_id),
        "privileged": base.is_privileged,
        "persistent_only": base.persistent_only,
        "shared": share,
        "files": {
            redactor.name(path): encode_answer(content, encoder.file_at(path))
            for path, content in sorted(kept["files"].items())
        },
        "links": encoder.table(kept["links"], redactor.name),
        "listings": encoder.table(
            kept["listings"], lambda names: sorted(redactor.name(name) for name in names)
        ),
        "stats": encoder.table(kept["stats"], _encode_stat),
        "lstats": encoder.table(kept["lstats"], _encode_stat),
        "paths": encoder.table(kept["paths"], redactor.name),
        "spaces": encoder.table(kept["spaces"], _encode_space),
        "usages": encoder.table(kept["usages"], _encode_usage),
        "queries": [
            encoder.query(argv, answer) for argv, answer in sorted(kept["queries"].items())
        ],
    }
    if source := source_of(base):
        record["source"] = source
    if "processes" in others:
        record["processes"] = encode_answer(
            others["processes"], lambda found: [encoder.process(one) for one in found]
        )
    if "os_release" in others:
        record["os_release"] = encode_answer(others["os_release"], dict)
    return record


def record_text(record: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """A record as it is written, and the paths whose answers were left out, because no reader takes
    more than LIMIT.

    The longest ones go, names in folders first, for any user can make those long. Raises
    HosttuneError where that is not enough.
    """
    text = _dump_json(record)
    # json.dumps writes ASCII, so that characters are bytes.
    excess, left_out = len(text) - LIMIT, list[str]()
    for table in ("listings", "files") if excess > 0 else ():
        sizes = {path: len(_dump_json(entry)) - _LEAST for path, entry in record[table].items()}
        for path in sorted(sizes, key=lambda path: -sizes[path]):
            if excess <= 0 or sizes[path] <= 0:
                break
            record[table][path] = {"unreadable": _TOO_LONG}
            excess -= sizes[path]
            left_out.append(path)
    if left_out:
        text = _dump_json(record)
    if len(text) > LIMIT:
        raise HosttuneError(
            f"the record would be larger than {LIMIT >> 20} MiB, which is more than hosttune reads"
        )
    return text, tuple(left_out)


def _dump_json(data: Any) -> str:
    return json.dumps(data, indent=1) + "\n"


def _encode_header(recorder: RecordingReader, machine_id: str, *, share: bool) -> dict[str, str]:
    files = recorder.answers["files"]
    words = find_serials(files)
    if machine_id_hash(machine_id):
        words[machine_id] = "serial-machine-id"  # also the name of folders in /boot
    if share:
        names = [
            recorder.base.name,
            _encode_text(files.get("/proc/sys/kernel/hostname")),
            _encode_text(files.get("/etc/hostname")),
        ]
        processes = recorder.answers["others"].get("processes")
        users = [one.user for one in processes] if isinstance(processes, tuple) else []
        passwd = recorder.base.read("/etc/passwd")  # looked at, not kept
        domain = _encode_text(files.get("/proc/sys/kernel/domainname"))
        # Serial numbers last, so that a host that is named after one is masked as that.
        words = {**find_places(names, domain), **find_people(_encode_text(passwd), users), **words}
    return words


def _short_udev(path: str, content: str) -> str:
    """Without the serial numbers of memory modules and disks."""
    if path == UDEV_DMI:
        return memory_modules.keep_fields(content)
    return "".join(
        f"{row}\n" for row in content.splitlines() if row.startswith("E:ID_BTRFS_READY=")
    )


def _encode_text(content: object) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


class _Encoder:
    def __init__(self, redactor: Redactor, programs: Collection[str]) -> None:
        self.redactor = redactor
        self._programs = programs
        self._serials: dict[bytes, int] = {}  # of disks, in the order in which they are met

    def table(self, kept: Mapping[str, Answer[T]], encode: Callable[[T], Any]) -> dict[str, Any]:
        return {
            self.redactor.name(path): encode_answer(answer, encode)
            # Sorted: two records of one host differ only where the host does, and disks get the
            # same numbers.
            for path, answer in sorted(kept.items())
        }

    def file_at(self, path: str) -> Callable[[bytes], Any]:
        return lambda content: self.file(path, content)

    def file(self, path: str, content: bytes) -> Any:
        if path == MACHINE_ID:
            return hashed_machine_id(content.decode("ascii", "replace"))
        if is_secret_file(path) or is_serial_file(path):
            return f"{self._mask(path, content)}\n"
        if path == DPKG_STATUS:
            return self.redactor.text(
                _short_status(content).decode("utf-8", "replace"), has_addresses=False
            )
        if path == UDEV_DMI or path.startswith(_UDEV_BLOCK):
            return self.redactor.text(
                _short_udev(path, content.decode("utf-8", "replace")), has_addresses=False
            )
        if is_pci_config(path):
            return encode_bytes(without_serial(content))
        if isinstance(encoded := encode_bytes(content), str):
            return self._text_of(path, encoded)
        # Bytes that are no text cannot be looked through: only firmware tables and device trees are
        # kept as they are.
        if self.redactor.share or path.startswith(_FIRMWARE):
            return encoded if path.startswith(_FIRMWARE) else NO_TEXT
        kept = self._text_of(path, content.decode("utf-8", "surrogateescape"))
        return (
            encode_bytes(kept.encode("utf-8", "surrogateescape")) if isinstance(kept, str) else kept
        )

    def _mask(self, path: str, content: bytes) -> str:
        """Of disks it is kept which are the same, not what they are: a copy of a disk is another
        one. An asset tag that names a cloud stays: it is all that tells some clouds.
        """
        if path.endswith("/chassis_asset_tag") and is_tag_of_cloud(
            tag := _encode_text(content).strip()
        ):
            return tag
        if path.endswith("/dm/uuid"):
            return mask_mapper_uuid(_encode_text(content))
        if not path.startswith(_BLOCK):
            return MASK
        number = self._serials.setdefault(content.strip(), len(self._serials) + 1)
        return f"{MASK}{number if number > 1 else ''}"

    def _text_of(self, path: str, content: str) -> Any:
        if path == TERM_LOG:
            content = shorten_log(content)
        if keys := _KEPT_KEYS.get(path.rpartition("/")[2]):
            return _short_json(content, keys)
        if self.redactor.share:
            kept = shared_text(path, content, self._programs)
            if kept is None:
                return {"unreadable": LEFT_OUT}
        else:
            kept = (
                short_job(mask_secrets(content), kind_of(path), self._programs)
                if _is_job(path, content)
                else content
            )
        return self.redactor.text(_without_place_secrets(path, kept))

    def query(self, argv: tuple[str, ...], answer: Answer[Completed]) -> dict[str, Any]:
        has_addresses = argv[0] not in _SPEAK_OF_VERSIONS

        def encode_completed(done: Completed) -> dict[str, Any]:
            shown = _short_log(done.text) if argv[0] in _LOGS else done.text
            shown = _short_show(shown) if argv[0] == "apt-cache" and "show" in argv else shown
            shown = _short_pool(shown) if argv[:2] == ("zpool", "status") else shown
            shown = _short_processes(shown) if argv[0] == "ps" and self.redactor.share else shown
            out, errors = (
                self.redactor.text(text, has_addresses=has_addresses)
                for text in (shown, done.errors)
            )
            return {"status": done.status, "stdout": out, "stderr": errors}

        # replayed, the facts ask with the words that stand in the other answers
        asked = [self.redactor.name(word, has_addresses=has_addresses) for word in argv]
        return {"argv": asked, **encode_answer(answer, encode_completed)}

    def _command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return shared_words(argv, has_paths=False) if self.redactor.share else mask_command(argv)

    def process(self, one: Process) -> dict[str, Any]:
        words = {
            "name": self.redactor.text(one.name),
            "user": self.redactor.user(one.user),
            "command": [self.redactor.text(word) for word in self._command(one.command)],
            "devices": [self.redactor.name(device) for device in one.devices],
            "cgroup": self.redactor.name(one.cgroup),
            "variables": [self.redactor.text(word) for word in one.variables],
            "program": self.redactor.name(one.program),
        }
        return {**asdict(one), **words}


def _short_processes(content: str) -> str:
    """Command lines, as `ps` prints them, with what facts read of them."""
    return "".join(
        f"{' '.join(shared_words(tuple(row.split())))}\n" for row in content.splitlines()
    )


def _encode_stat(stat: Stat) -> list[Any]:
    return list(asdict(stat).values())


def _encode_space(space: Space) -> list[int]:
    return [size for size in asdict(space).values() if size >= 0]


def _encode_usage(usage: Usage) -> list[int | bool]:
    return [usage.size_bytes, usage.entries, usage.is_complete]


def _short_json(content: str, kept: tuple[tuple[str, ...], ...]) -> str:
    """The values below these keys, in the same places; devices in a list are numbered. What is no
    JSON stays none.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return MASK
    short: dict[str, Any] = {}
    for keys in kept:
        value = data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            place = short
            for key in keys[:-1]:
                place = place.setdefault(key, {})
            place[keys[-1]] = _number_names(value) if isinstance(value, list) else value
    return json.dumps(short)


def _number_names(names: list[Any]) -> list[str]:
    """Devices, called by a number each."""
    places: dict[str, int] = {}
    return [
        _DEVICE.sub(lambda one: f"{one[1]}-{places.setdefault(one[0], len(places))}", name)
        for name in names
        if isinstance(name, str)
    ]


def _short_status(content: bytes) -> bytes:
    """The fields of dpkg's status file that facts read: the rest is long, and says nothing about a
    host.
    """
    return b"\n".join(
        row for row in content.split(b"\n") if not row or row.startswith(_DPKG_FIELDS)
    )


def _short_show(content: str) -> str:
    """The fields of packages (`apt-cache show`) that facts read, with the lines that go on: the
    rest is long.
    """
    kept, lines = False, []
    for row in content.splitlines():
        kept = kept if row[:1] in " \t" and row else not row or row.startswith(_SHOWN_FIELDS)
        lines += [row] * kept
    return "".join(f"{row}\n" for row in lines)


def _is_job(path: str, content: str) -> bool:
    """A file of a user, or a script that the site wrote: someone's, and only a few lines of it are
    asked for.
    """
    is_script = content.startswith("#!") and not path.startswith("/etc/")
    return path.startswith((_CRONTABS, *_HOMES)) or is_script


def _without_place_secrets(path: str, content: str) -> str:
    """Without secrets that only their place in a line makes known."""
    if path == CRYPTTAB:
        return _CRYPT_KEY.sub(rf"\1{MASK}", content)
    return _GRUB_PASSWORD.sub(rf"\1{MASK}", content) if path.startswith(_BOOT) else content


def _short_log(content: str) -> str:
    """The lines of the kernel log that facts read: the rest is long, and speaks of other things."""
    # Turned round, because those who choose take the last lines. What a user chose the beginning of
    # goes before that: it counts for nothing, and must not push real lines out.
    log = kernel_log.leave_users_out(kernel_log.reverse_log(content))
    chosen = dict.fromkeys(line for choose in _CHOOSERS for line in choose(log))
    # In the order of the log: whether an error is of this boot is known by the line before it with
    # which the boot began.
    kept = sorted(chosen, key=_read_time)
    return kernel_log.reverse_log("".join(f"{line}\n" for line in kept))


def _read_time(line: str) -> float:
    """With which a line begins: `[ 12.3]` of dmesg, `1780000000.1` of journalctl; 0 without one."""
    match = _TIME.match(line)
    return float(match[1]) if match else 0.0


def _short_pool(content: str) -> str:
    """The lines of `zpool status` that facts read, with numbers for disks that are named by their
    serial numbers.
    """
    found: list[str] = []
    for row in content.splitlines():
        if row.strip().startswith(_POOL_FIELDS):
            found.append(row)
        elif match := pools.DEVICE.fullmatch(row):
            is_plain = f"  pool: {match[2]}" in found or _PLAIN_DISK.fullmatch(match[2])
            name = match[2] if is_plain else f"disk-{len(found)}"
            found.append(" ".join((f"\t{match[1]}{name}", *filter(None, match.groups()[2:]))))
    return "".join(f"{row}\n" for row in found)
