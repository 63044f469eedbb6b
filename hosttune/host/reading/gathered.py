"""Files that were gathered from many hosts: which there are, what is in them, and a scratch file for what was made of
them. They are someone else's: nothing in them is trusted, and one that cannot be read is reported, not raised.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO

from hosttune.errors import HosttuneError
from hosttune.host.reading.late_mounts import Looker
from hosttune.host.reading.named import ANSWER_S, answer_in_time, read_named, reason_of
from hosttune.values import Unreadable

LIMIT = 128 << 20  # bytes of one file, as of a record
SUFFIX = ".json"
RECORD_SUFFIX = ".record.json"
SUPPORT_SUFFIXES = (".log.gz", ".tar.xz", ".tar.gz")  # of nvidia-bug-report.sh; of sos
RECORDS = "records"  # the folder of the records, beside the results of the same names
_SERVER_S = 2.0  # for a server to answer about a folder or a link in a folder
_ARCHIVED_S = 366 * 24 * 3600 * 11  # the times of files below it say nothing
_MAX_LISTS = 8  # lists that name lists
_LOOKER = Looker()


def list_files(words: Iterable[str], *, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The files that these words name, as (path, "") or (word, why there is none).

    A folder means the .json, .log.gz, .tar.xz and .tar.gz files in it and below, hidden ones left out; `@FILE` for
    the words in a file, one a line or ended by NUL; `-` for those on standard input.
    """
    for word in words:
        if word == "-" or word.startswith("@"):
            yield from _from_list(word, depth)
        else:
            yield from _found_at(word)


def _from_list(word: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth >= _MAX_LISTS:
        yield word, f"lists that name lists, more than {_MAX_LISTS} deep"
        return
    content = content_of(word[1:] or "-" if word != "-" else "-")
    if isinstance(content, str):
        yield word, content
        return
    parts = content.split(b"\0") if b"\0" in content else content.splitlines()
    yield from list_files((os.fsdecode(part) for part in parts if part.strip()), depth=depth + 1)


def _found_at(word: str) -> Iterator[tuple[str, str]]:
    try:
        is_folder = _answer(word, os.path.isdir, ANSWER_S)
    except OSError as error:
        yield word, reason_of(error)
        return
    if is_folder:
        yield from _from_folder(word)
    else:
        yield word, ""


def _answer(path: str, ask: Callable[[str], bool], seconds: float) -> bool:
    """What is asked about a path. Raises OSError, ETIMEDOUT, where its file system does not answer."""
    return bool(answer_in_time(path, lambda: b"yes" if ask(path) else b"", seconds))


def _from_folder(top: str) -> Iterator[tuple[str, str]]:
    """One folder after the other. What is dead in it (a mount, what a link leads to) hides nothing else."""
    found = False
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            entries = json.loads(_list_in_time(folder))
        except OSError as error:
            found = True
            yield folder, reason_of(error).replace("cannot be read", "cannot be listed", 1)
            continue
        for name, kind in entries:
            if name.endswith((SUFFIX, *SUPPORT_SUFFIXES)) and kind != "folder":
                found = True
                path = os.path.join(folder, name)
                yield path, _why_no_file(path, kind)
        folders += [os.path.join(folder, name) for name, kind in reversed(entries) if kind == "folder"]
    if not found:
        yield top, f"holds no {SUFFIX}, {', '.join(SUPPORT_SUFFIXES)} file"


def _list_in_time(folder: str) -> bytes:
    """As `_list_entries`. For root one child looks at all folders: there can be thousands of them. Raises OSError."""
    if os.geteuid():
        return answer_in_time(folder, partial(_list_entries, folder), _SERVER_S)
    answer = _LOOKER.ask(_list_entries, os.path.abspath(folder), folder)
    if isinstance(answer, Unreadable):
        raise OSError(errno.ETIMEDOUT, answer.reason.rpartition(": ")[2])
    return bytes(answer)


def _list_entries(folder: str) -> bytes:
    """JSON: names that are not hidden, in order, each with what it is, links not followed."""
    with os.scandir(folder) as opened:
        names = {one.name: _kind_of(one) for one in opened if not one.name.startswith(".")}
    return json.dumps(sorted(names.items())).encode()


def _kind_of(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir(follow_symlinks=False) else "file" * entry.is_file(follow_symlinks=False)


def _why_no_file(path: str, kind: str) -> str:
    """A pipe whose writer says nothing would hold the whole report; one that is named is meant."""
    if kind == "file":
        return ""
    try:
        is_file = kind == "link" and _answer(path, _leads_to_file, _SERVER_S)
    except OSError as error:
        return reason_of(error)
    return "" if is_file else "is not a file"


def _leads_to_file(path: str) -> bool:
    return os.path.isfile(path) or not os.path.exists(path)


def pair_paths(paths: Iterable[str], *, wants_records: bool) -> list[str]:
    """The paths, each once. playbooks/check.yml leaves the record of a look beside its result (records/NAME.json, or
    NAME.record.json, and NAME.json): of the two, the one that is wanted.
    """
    names = dict.fromkeys(os.path.normpath(path) for path in paths)
    idle = set()
    for name in names:
        result = _result_of(name)
        if result in names:
            idle.add(result if wants_records else name)
    return [name for name in names if name not in idle]


def _result_of(path: str) -> str:
    """Where the result of the same look is, if `path` is a record of one; empty if it is not called like one."""
    if path.endswith(RECORD_SUFFIX):
        return path.removesuffix(RECORD_SUFFIX) + SUFFIX
    folder, name = os.path.split(path)
    above, last = os.path.split(folder)
    return os.path.join(above, name) if last == RECORDS else ""


def stem_of(path: str) -> str:
    """The name of a file without its folder and its suffix."""
    stem = os.path.basename(path).removesuffix(RECORD_SUFFIX)
    for suffix in (SUFFIX, *SUPPORT_SUFFIXES):
        stem = stem.removesuffix(suffix)
    return stem.replace("%2F", "/").replace("%25", "%")  # names in an inventory can have slashes


def host_of(path: str) -> str:
    """The host that playbooks/check.yml has named a record after; empty where the record itself tells its host."""
    return stem_of(path) if os.path.lexists(_result_of(path) or path + "/") else ""


def content_of(path: str) -> bytes | str:
    """The bytes of a file, or why they cannot be read."""
    try:
        return read_named(path, LIMIT)
    except OSError as error:
        return reason_of(error)


def received_at(path: str) -> float:
    """When a file that was read came to be what it is, seconds since the epoch; now where it does not tell. Archives
    are unpacked with times of 1970 and 1980.
    """
    now = time.time()

    def look() -> bytes:
        return str(os.stat(path).st_mtime).encode("ascii")

    try:
        written = float(answer_in_time(path, look, _SERVER_S))
    except OSError:  # standard input; a server that went away meanwhile
        return now
    return min(now, written) if written > _ARCHIVED_S else now


class SpoolFile:
    """Rows of bytes in a nameless temporary file, found again by where they begin."""

    def __init__(self) -> None:
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(prefix="hosttune-")  # noqa: SIM115 - until `close`
        except OSError as error:
            raise _no_room(error) from error
        self._end = 0

    def close(self) -> None:
        self._file.close()

    def add(self, row: bytes) -> tuple[int, int]:
        """Keep a row. Raises HosttuneError when there is no room for it."""
        try:
            self._file.seek(self._end)
            self._file.write(row)
        except OSError as error:
            raise _no_room(error) from error
        place = (self._end, len(row))
        self._end += len(row)
        return place

    def row(self, place: tuple[int, int]) -> bytes:
        self._file.seek(place[0])
        return self._file.read(place[1])


def _no_room(error: OSError) -> HosttuneError:
    message = f"{tempfile.gettempdir()}: cannot be written: {error.strerror}"
    return HosttuneError(message, hint="name a folder with room: TMPDIR=/var/tmp hosttune report ...")
