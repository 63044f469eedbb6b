"""Files that were gathered from many hosts: which there are, what is in them, and a scratch file
for what was made of them. They are someone else's: nothing in them is trusted, and one that cannot
be read is reported, not raised.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO

from hosttune.errors import HosttuneError
from hosttune.host.reading.bounded import read_head
from hosttune.host.reading.late_mounts import Looker
from hosttune.host.reading.named import ANSWER_S, answer_in_time, open_named, read_named, reason_of
from hosttune.values import Unreadable

LIMIT = 128 << 20  # bytes of one file, as of a record
SUFFIX = ".json"
RECORD_SUFFIX = ".record.json"
SUPPORT_SUFFIXES = (".log.gz", ".tar.xz", ".tar.gz")  # of nvidia-bug-report.sh; of sos
RECORDS = "records"  # the folder of the records, beside the results of the same names
_SERVER_S = 2.0  # for a server to answer about a folder or a link in a folder
_ARCHIVED_S = 366 * 24 * 3600 * 11  # the times of files below it say nothing
_MOST_LISTS = 256
_MOST_WORDS = 1 << 17  # in lists
_MANY_LISTS = f"more than {_MOST_LISTS} lists"
_LOOKERS: dict[Callable[[str], bytes], Looker] = {}  # of each look its own
_FOUND: set[str] = set()  # paths of files that were found in a folder


def list_files(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files that these words name, as (path, "") or (word, why there is none).

    A folder means the .json, .log.gz, .tar.xz and .tar.gz files in it and below, hidden ones left
    out; `@FILE` for the words in a file, one a line or ended by NUL; `-` for those on standard
    input. A list counts once.
    """
    lists = count = 0
    seen: set[bytes] = set()
    left = [iter(words)]
    while left:
        word = next(left[-1], None)
        if word is None:
            left.pop()
        elif count > _MOST_WORDS:
            yield word, f"and more: lists name more than {_MOST_WORDS} files"
            return
        elif word == "-" or word.startswith("@"):
            lists += 1
            content = (
                content_of(word[1:] or "-" if word != "-" else "-")
                if lists <= _MOST_LISTS
                else _MANY_LISTS
            )
            if isinstance(content, str):
                yield word, content
            elif content in seen:
                yield word, "is a list that was read before"
            else:
                seen.add(content)
                parts = content.split(b"\0") if b"\0" in content else content.splitlines()
                left.append(os.fsdecode(part) for part in parts if part.strip())
        else:
            count += len(left) > 1
            yield from _found_at(word)


def _found_at(word: str) -> Iterator[tuple[str, str]]:
    try:
        is_folder = _ask_in_time(_is_folder, word, ANSWER_S)
    except OSError as error:
        yield word, reason_of(error)
        return
    if is_folder:
        yield from _from_folder(word)
    else:
        yield word, ""


def _ask_in_time(look: Callable[[str], bytes], path: str, seconds: float) -> bytes:
    """What `look` answers about a path. For root one child looks at all paths: there can be
    thousands of them, and what one user keeps waiting in all is bounded. Raises OSError, ETIMEDOUT,
    where a file system does not answer.
    """
    if os.geteuid():
        return answer_in_time(path, partial(look, path), seconds)
    there = os.path.join(os.getcwd(), path)  # the child stays in the folder in which it began
    answer = _LOOKERS.setdefault(look, Looker(is_by_path=True)).ask(
        look, os.path.abspath(path), there
    )
    if isinstance(answer, Unreadable):
        raise OSError(errno.ETIMEDOUT, answer.reason.rpartition(": ")[2])
    return bytes(answer)


def _from_folder(top: str) -> Iterator[tuple[str, str]]:
    """One folder after the other. What is dead in it (a mount, what a link leads to) hides nothing
    else.
    """
    found = False
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            entries = json.loads(_ask_in_time(_list_entries, folder, _SERVER_S))
        except OSError as error:
            found = True
            yield folder, reason_of(error).replace("cannot be read", "cannot be listed", 1)
            continue
        for name, kind in entries:
            if name.endswith((SUFFIX, *SUPPORT_SUFFIXES)) and kind != "folder":
                found = True
                path = os.path.join(folder, name)
                _FOUND.add(os.path.normpath(path))
                yield path, _why_no_file(path, kind)
        # The last of the list comes next: reversed, the folders come in the order of their names.
        folders += [
            os.path.join(folder, name) for name, kind in reversed(entries) if kind == "folder"
        ]
    if not found:
        yield top, f"holds no {SUFFIX}, {', '.join(SUPPORT_SUFFIXES)} file"


def _list_entries(folder: str) -> bytes:
    """JSON: names that are not hidden, in order, each with what it is, links not followed."""
    with os.scandir(folder) as opened:
        names = {one.name: _kind_of(one) for one in opened if not one.name.startswith(".")}
    return json.dumps(sorted(names.items())).encode()


def _kind_of(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return (
        "folder"
        if entry.is_dir(follow_symlinks=False)
        else "file" * entry.is_file(follow_symlinks=False)
    )


def _why_no_file(path: str, kind: str) -> str:
    """A pipe whose writer says nothing would hold the whole report; one that is named is meant."""
    if kind == "file":
        return ""
    try:
        is_file = kind == "link" and _ask_in_time(_leads_to_file, path, _SERVER_S)
    except OSError as error:
        return reason_of(error)
    return "" if is_file else "is not a file"


def _leads_to_file(path: str) -> bytes:
    return b"yes" * (os.path.isfile(path) or not os.path.exists(path))


def _is_folder(path: str) -> bytes:
    return b"yes" * os.path.isdir(path)


def pair_paths(paths: Iterable[str], *, wants_records: bool) -> list[str]:
    """The paths, each once. playbooks/check.yml leaves the record of a look beside its result
    (records/NAME.json, or NAME.record.json, and NAME.json): of the two, the one that is wanted.
    """
    names = dict.fromkeys(os.path.normpath(path) for path in paths)
    idle = set()
    for name in names:
        result = _result_of(name)
        if result in names:
            idle.add(result if wants_records else name)
    return [name for name in names if name not in idle]


def _result_of(path: str) -> str:
    """Where the result of the same look is, if `path` is a record of one; empty if it is not called
    like one.
    """
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
    """The host that playbooks/check.yml has named a record after; empty where the record itself
    tells its host.
    """
    try:
        return (
            stem_of(path)
            if _ask_in_time(_is_there, _result_of(path) or path + "/", _SERVER_S)
            else ""
        )
    except OSError:
        return ""


def _is_there(path: str) -> bytes:
    return b"yes" * os.path.lexists(path)


def content_of(path: str) -> bytes | str:
    """The bytes of a file, or why they cannot be read. What was found in a folder is a file or
    nothing: a user could put a pipe in its place meanwhile.
    """
    try:
        return (
            _ask_in_time(_read_file, path, ANSWER_S) if path in _FOUND else read_named(path, LIMIT)
        )
    except OSError as error:
        return reason_of(error)


def _read_file(path: str) -> bytes:
    fd = open_named(path)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "is not a file")
        content, is_whole = read_head(fd, LIMIT)
    finally:
        os.close(fd)
    if not is_whole:
        raise OSError(errno.EFBIG, f"is larger than {LIMIT >> 20} MiB")
    return content


def received_at(path: str) -> float:
    """When a file that was read came to be what it is, seconds since the epoch; now where it does
    not tell. Archives are unpacked with times of 1970 and 1980.
    """
    now = time.time()
    try:
        written = float(_ask_in_time(_look_at_time, path, _SERVER_S))
    except OSError:  # standard input; a server that went away meanwhile
        return now
    return min(now, written) if written > _ARCHIVED_S else now


def _look_at_time(path: str) -> bytes:
    return str(os.stat(path).st_mtime).encode("ascii")


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
    return HosttuneError(
        message, hint="name a folder with room: TMPDIR=/var/tmp hosttune report ..."
    )
