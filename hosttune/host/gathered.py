"""Files that were gathered from many hosts: which there are, what is in them, and a scratch file for what was made of
them. They are somebody else's: nothing in them is trusted, and one that cannot be read is told, not raised.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from hosttune.errors import HosttuneError
from hosttune.host.named import answer_of, can_hang, read_named, reason_of

LIMIT = 128 << 20  # bytes of one file, as of a record
SUFFIX = ".json"
RECORD_SUFFIX = ".record.json"
RECORDS = "records"  # the folder of the records, beside the results of the same names
_MAX_LISTS = 8  # lists that name lists


def list_files(words: Iterable[str], *, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The files that these words name, as (path, "") or (word, why there is none).

    A folder stands for the .json files in it and below, hidden ones left out; `@FILE` for the words in a file, one a
    line or ended by NUL; `-` for those on standard input.
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
    """The files at a path, looked for by a child where a file system could be dead."""
    if not can_hang():
        return _look_at(word)
    try:
        answer = answer_of(word, lambda: json.dumps([*_look_at(word)]).encode())
    except OSError as error:
        return iter([(word, reason_of(error))])
    return iter([(path, why) for path, why in json.loads(answer)])


def _look_at(word: str) -> Iterator[tuple[str, str]]:
    if os.path.isdir(word):
        yield from _from_folder(word)
    else:
        yield word, ""


def _from_folder(folder: str) -> Iterator[tuple[str, str]]:
    found = False
    errors: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(SUFFIX) and not name.startswith("."):
                found = True
                path = os.path.join(place, name)
                # a pipe whose writer says nothing would hold the whole report; one that is named is meant
                yield path, "" if os.path.isfile(path) or not os.path.exists(path) else "is no file"
    for error in errors:
        yield str(error.filename), f"cannot be listed: {error.strerror}"
    if not found and not errors:
        yield folder, f"holds no {SUFFIX} file"


def paired(paths: Iterable[str], *, wants_records: bool) -> list[str]:
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
    """Where the result of the same look lies, if `path` is a record of one; empty if it is not called like one."""
    if path.endswith(RECORD_SUFFIX):
        return path.removesuffix(RECORD_SUFFIX) + SUFFIX
    folder, name = os.path.split(path)
    above, last = os.path.split(folder)
    return os.path.join(above, name) if last == RECORDS else ""


def stem_of(path: str) -> str:
    """The name of a file without its folder and its suffix."""
    return os.path.basename(path).removesuffix(SUFFIX)


def content_of(path: str) -> bytes | str:
    """The bytes of a file, or why they cannot be read."""
    try:
        return read_named(path, LIMIT)
    except OSError as error:
        return reason_of(error)


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
