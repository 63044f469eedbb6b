"""Answers of slow programs, kept from one run to the next: hosttune's own cache, on a running host
and for root alone.

`ubuntu-drivers` takes seconds, and minutes where apt's lists are compressed. What it says follows
from apt's lists and settings, dpkg's state, the GPUs, the kernel and its modules, Secure Boot and
its own files; an answer is kept with a digest of all of these, and is good while the digest stays
the same. The cache is /var/cache/hosttune (0700, root); an answer that cannot be kept or read back
is asked for again, silently.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from hosttune.errors import Refused
from hosttune.host.door import Completed
from hosttune.host.process import Ended, look
from hosttune.host.writing.folders import FolderEntry, opened_place
from hosttune.values import Absent

FOLDER: Final = "/var/cache/hosttune"
_FORMAT = 1
_LIMIT = 1 << 20  # bytes of a kept answer
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Files, by their size and times; of a folder, all that is in it.
_STATED = (
    "/var/lib/dpkg/status", "/var/lib/dpkg/updates", "/var/lib/apt/lists", "/etc/apt/sources.list",
    "/etc/apt/sources.list.d", "/etc/apt/preferences", "/etc/apt/preferences.d",
    "/etc/apt/apt.conf", "/etc/apt/apt.conf.d", "/usr/bin/ubuntu-drivers",
    "/usr/share/ubuntu-drivers-common/detect", "/etc/custom_supported_gpus.json", "/boot",
)  # fmt: skip
_DEVICES = "/sys/bus/pci/devices"
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def ask(argv: Sequence[str], *, timeout_s: float, root: str = "/") -> Completed | Absent | Ended:
    """As `process.look`, but a good answer is kept, and given again while all that it hangs on is
    the same.
    """
    if not _may_keep():
        return look(argv, timeout_s=timeout_s)
    before = digest(argv, root)
    kept = load(argv, before, root)
    if kept is not None:
        return kept
    answer = look(argv, timeout_s=timeout_s)
    # What changed while the program ran makes its answer one of neither state.
    if isinstance(answer, Completed) and _is_good(argv, answer) and digest(argv, root) == before:
        store(argv, before, answer, root)
    return answer


def _may_keep() -> bool:
    return os.geteuid() == 0


def _is_good(argv: Sequence[str], answer: Completed) -> bool:
    """Names of packages, not a refusal: those may be mended by what no digest sees."""
    from hosttune.host.reading.ubuntu_drivers import parse_list, parse_sections

    if answer.status != 0 or len(answer.stdout) + len(answer.stderr) > _LIMIT // 4:
        return False
    return bool(parse_sections(answer.text) if "devices" in argv else parse_list(answer.text))


def digest(argv: Sequence[str], root: str = "/") -> str:
    """The digest of all that the answer hangs on, as far as this host shows it."""
    import hashlib

    from hosttune import __version__

    parts = [f"{_FORMAT} {__version__}", "\0".join(argv), os.uname().release, *_list_traits(root)]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _list_traits(root: str) -> Iterator[str]:
    release = os.uname().release
    for path in (*_STATED, f"/lib/modules/{release}/modules.dep"):
        # A kernel that comes or goes changes the time of /boot itself.
        yield from _list_stats(os.path.join(root, path.lstrip("/")), deep=path != "/boot")
    devices = os.path.join(root, _DEVICES.lstrip("/"))
    for slot in _list_names(devices):
        if _read_content(f"{devices}/{slot}/vendor").strip() == b"0x10de":
            yield f"{slot} {_read_content(f'{devices}/{slot}/modalias')!r}"
    yield repr(_read_content(os.path.join(root, _SECURE_BOOT.lstrip("/"))))


def _list_stats(path: str, *, deep: bool) -> Iterator[str]:
    try:
        info = os.stat(path)
    except OSError as error:
        # A file that comes to be later is a change, too.
        yield f"{path} {error.errno}"
        return
    yield (
        f"{path} {info.st_mtime_ns} {info.st_ctime_ns} "
        f"{info.st_size if stat.S_ISREG(info.st_mode) else 0}"
    )
    if deep and stat.S_ISDIR(info.st_mode):
        for name in _list_names(path):
            with suppress(OSError):
                entry = os.stat(f"{path}/{name}")
                if stat.S_ISREG(entry.st_mode):
                    yield f"{name} {entry.st_mtime_ns} {entry.st_size}"


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read_content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def place_of(argv: Sequence[str]) -> str:
    """The file that keeps the answer to this question."""
    import hashlib

    return f"{FOLDER}/{argv[0]}-{hashlib.sha256(chr(0).join(argv).encode()).hexdigest()[:12]}.json"


def load(argv: Sequence[str], wanted: str, root: str = "/") -> Completed | None:
    """The kept answer with this digest; None where there is none that only root could have
    written.
    """
    import json

    with (
        suppress(OSError, Refused, ValueError, KeyError, TypeError),
        opened_place(root, place_of(argv)) as place,
    ):
        fd = os.open(place.name, _READ, dir_fd=place.folder)
        try:
            if not _is_ours(fd) or not _is_ours(place.folder):
                return None
            kept: Any = json.loads(_all_of(fd))
        finally:
            os.close(fd)
        if kept["digest"] == wanted and kept["argv"] == list(argv):
            texts = (
                str(kept[name]).encode("utf-8", "surrogateescape") for name in ("stdout", "stderr")
            )
            return Completed(int(kept["status"]), *texts)
    return None


def _all_of(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, _LIMIT):
        parts.append(part)
    return b"".join(parts)


def _is_ours(fd: int) -> bool:
    info = os.fstat(fd)
    return info.st_uid == os.geteuid() and not info.st_mode & 0o077 and info.st_size <= _LIMIT


def store(argv: Sequence[str], key: str, answer: Completed, root: str = "/") -> None:
    """Keep an answer in place of the one before it. If that is not possible it is not reported: it
    is only a cache.
    """
    import json

    texts = {
        name: getattr(answer, name).decode("utf-8", "surrogateescape")
        for name in ("stdout", "stderr")
    }
    data = json.dumps(
        {"digest": key, "argv": list(argv), "status": answer.status, **texts}
    ).encode()
    keep(place_of(argv), data, root)


def keep(path: str, data: bytes, root: str = "/") -> None:
    """Write a file of the cache, in a folder that is root's alone."""
    with suppress(OSError, Refused), opened_place(root, path, make=0o700) as place:
        if _is_ours(place.folder):
            _replace(place, data)


def _replace(place: FolderEntry, data: bytes) -> None:
    """A new file over the old one. Not synced: after a power cut it may be empty, which reads as no
    answer.
    """
    import secrets

    new = f".{place.name}.{secrets.token_hex(8)}"
    fd = os.open(new, _WRITE, 0o600, dir_fd=place.folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(new, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=place.folder)
        raise
