"""A record: what one host answered, in one JSON file, replayed anywhere.

`format_version` and `kind` first, then: tool_version, made_at (seconds since the epoch), name,
machine (hashed machine id), privileged, persistent_only, shared, and source, where it was made of
the file of another program; then the answers, by the method of the Reader that gave them:

    files      path -> text, or {"base64": ...}
    links      path -> text
    listings   path -> [name, ...]
    stats      path -> [type, mode, uid, gid, size, mtime_ns, device, inode, links, rdev];
               `lstats` likewise
    paths      path -> canonical path
    spaces     path -> [total_bytes, available_bytes, total_inodes, available_inodes]
    usages     path -> [size_bytes, entries, is_complete]
    queries    [{argv, status, stdout, stderr}]
    processes  [{pid, name, user, command, rss_bytes, swap_bytes, devices, cgroup, started_at,
                parent, cpus, variables, uid, program}]
    os_release {key: value}

In place of any answer may stand {"absent": true} or {"unreadable": reason}; in the latter also
"only_running": true, where the files of an image cannot tell it, and the machine that runs them
can.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

from hosttune.codec import MOST_TEXT, is_older, parse_json
from hosttune.errors import BadInput, Fault, Refused, Where
from hosttune.host.door import (
    BeforeReader,
    Completed,
    Process,
    Reader,
    ReaderKind,
    Rehearsal,
    Space,
    Stat,
    Usage,
)
from hosttune.host.reading.effort import count_content
from hosttune.host.reading.paths import MAX_LINKS, MAX_PARTS, PATH_MAX
from hosttune.regex import regex
from hosttune.values import (
    ABSENT,
    NOT_RECORDED,
    Absent,
    Answer,
    NeverAsked,
    NotRecorded,
    OnlyRunning,
    Unreadable,
)

FORMAT_VERSION: Final = 1
KIND: Final = "hosttune record"
LIMIT: Final = MOST_TEXT  # bytes of a record file
_MOST_OF_FILE: Final = 128 << 20  # bytes of a file that may be a packed report of another program
_LONG_FILE: Final = 1 << 16
_KEPT_FILES: Final = 3
_MOST_LISTED: Final = LIMIT >> 2  # characters of the names in one folder
_TABLES: Final = ("files", "links", "listings", "stats", "lstats", "paths", "spaces", "usages")
_DEEP = 64  # folders above a path
_MOST_DIGITS = 300
_LONG_NUMBER = regex(rf"(?<!\d)\d{{{_MOST_DIGITS}}}")  # looked for at the first digit only: linear
_OF_A_PROCESS = regex(r"/proc$|/proc/(?!1/)[0-9]+(?:/(?!(?:comm|limits)$)|$)")
_SOURCE = regex(r"nvidia-bug-report\.sh(?: \d{1,12})?|sos \d{1,3}(?:\.\d{1,4}){1,3}")
_ESCAPED_SURROGATE = regex(rb"\\u[dD][89a-fA-F]")  # as JSON writes it
_SURROGATE = regex(rb"\xed[\xa0-\xbf]")  # as UTF-8 would
_OF_PROCESS: Final = frozenset(one.name for one in fields(Process))
T = TypeVar("T")


class RecordingReader(BeforeReader):
    """A Reader that passes every question on and keeps the answer."""

    def __init__(self, base: Reader) -> None:
        super().__init__(base)
        self.answers: dict[str, dict[Any, Any]] = {
            name: {} for name in (*_TABLES, "queries", "others")
        }

    @property
    def kind(self) -> ReaderKind:
        return self.base.kind

    def _keep(self, table: str, key: Any, ask: Callable[[], Answer[T]]) -> Answer[T]:
        """A question asked twice gets one answer: facts may not change while a record is made.

        What /proc says of single processes, and which there are, is other people's, and not kept,
        but for the names and the limits of those that facts ask about. What can name nothing comes
        from a user's text, and has no place here.
        """
        if isinstance(key, str) and (
            _OF_A_PROCESS.match(key) or "\0" in key or len(key) >= PATH_MAX
        ):
            return ask()
        kept = self.answers[table]
        if key not in kept:
            kept[key] = ask()
        answer: Answer[T] = kept[key]
        return answer

    def read(self, path: str) -> Answer[bytes]:
        return self._keep("files", path, lambda: self.base.read(path))

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        return self._keep("listings", path, lambda: self._list(path))

    def _list(self, path: str) -> Answer[tuple[str, ...]]:
        """Any user can make a listing long. One that a record cannot hold is unknown while it is
        made, as later.
        """
        names = self.base.list(path)
        is_long = isinstance(names, tuple) and sum(map(len, names)) > _MOST_LISTED
        return Unreadable(f"{path} holds more names than a record keeps") if is_long else names

    def link(self, path: str) -> Answer[str]:
        return self._keep("links", path, lambda: self.base.link(path))

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        return self._keep(
            "stats" if follow else "lstats", path, lambda: self.base.stat(path, follow=follow)
        )

    def resolve(self, path: str) -> Answer[str]:
        return self._keep("paths", path, lambda: self.base.resolve(path))

    def space(self, path: str) -> Answer[Space]:
        return self._keep("spaces", path, lambda: self.base.space(path))

    def usage(self, path: str) -> Answer[Usage]:
        return self._keep("usages", path, lambda: self.base.usage(path))

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        return self._keep(
            "queries", tuple(argv), lambda: self.base.query(argv, timeout_s=timeout_s)
        )

    def processes(self) -> Answer[tuple[Process, ...]]:
        return self._keep("others", "processes", self.base.processes)

    def os_release(self) -> Answer[Mapping[str, str]]:
        return self._keep("others", "os_release", self.base.os_release)

    def now(self) -> float:
        return self.base.now()


class RecordReader:
    """Answers from a record. What it does not hold is Unreadable, but ABSENT where a recorded
    listing proves it.
    """

    kind: ReaderKind = "record"
    has_tried_packages = False
    source = ""  # what else than hosttune made the file: nvidia-bug-report.sh 33290498

    def __init__(self, data: Mapping[str, Any], file: str = "") -> None:
        from hosttune.host.record.check import check_record

        faults = check_record(data, file)
        if faults:
            raise BadInput(faults)
        self.data = data
        self.file = file
        if _SOURCE.fullmatch(str(data.get("source", ""))):
            self.source = str(data["source"])
        self.persistent_only = bool(data["persistent_only"])
        self.is_privileged = bool(data["privileged"])
        self._tables: Mapping[str, Mapping[str, Any]] = {
            name: data.get(name, {}) for name in _TABLES
        }
        self._queries = {tuple(entry["argv"]): entry for entry in data.get("queries", ())}
        self._reason = NeverAsked if is_older(self.made_by) else NotRecorded
        self._places: dict[tuple[str, bool], str] = {}  # what `_canonical` has found
        self._names: dict[str, frozenset[str] | bool] = {}  # what `_listed` has found
        self._decoded: dict[int, bytes] = {}  # of the last long files that were asked for

    @property
    def name(self) -> str:
        return self.file or str(self.data["name"])

    @property
    def made_by(self) -> str:
        """The version of hosttune that made the record, as the record says."""
        return str(self.data["tool_version"])

    def _missing(self, what: str) -> Unreadable:
        return Unreadable(self._reason(f"{NOT_RECORDED}: {what}"))

    def _again(self, answer: Answer[T]) -> Answer[T]:
        """In a record that was made of another one, what that did not hold is written down as
        unreadable.
        """
        if isinstance(answer, Unreadable) and answer.reason.startswith(NOT_RECORDED):
            return Unreadable(self._reason(answer.reason))
        return answer

    def now(self) -> float:
        return float(self.data["made_at"])

    def _answer(
        self, table: str, path: str, decode: Callable[[Any], T], *, follow: bool = True
    ) -> Answer[T]:
        kept = self._tables[table]
        entry = kept.get(path, kept)
        if entry is kept:  # not under this name; perhaps under the one that links lead to
            canonical = self._canonical(path, follow=follow)
            entry = kept.get(canonical, kept)
            if entry is kept:
                return ABSENT if self._is_proven_absent(canonical) else self._missing(path)
        return self._again(_decode(entry, decode))

    def _canonical(self, path: str, *, follow: bool = True) -> str:
        """`path` with the links resolved that the record knows; empty where they lead nowhere
        (host/reading/paths.py).
        """
        place = self._places.get((path, follow))
        if place is None:
            place = self._places[path, follow] = self._walk_links(path, follow=follow)
        return place

    def _walk_links(self, path: str, *, follow: bool) -> str:
        if follow and isinstance(known := self._tables["paths"].get(path), str):
            return known
        links = self._tables["links"]
        folder, _, name = path.rpartition("/")
        # The folder is known from its other files, as a rule; of a path that is deep without end
        # all is walked.
        if name not in ("", ".", "..") and folder and path.count("/") <= _DEEP:
            if not (above := self._canonical(folder)):
                return ""
            place = f"{above.rstrip('/')}/{name}"
            if not isinstance(links.get(place), str):
                return place
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done: list[str] = []
        count = parts = 0
        while todo:
            part = todo.pop()
            if part == "..":
                del done[-1:]
                continue
            done.append(part)
            text = links.get("/" + "/".join(done))
            if (
                isinstance(text, str)
                and (todo or follow)
                and count < MAX_LINKS
                and not _is_magic(done)
            ):
                count += 1
                parts += text.count("/")
                if parts > MAX_PARTS:
                    return ""
                done = [] if text.startswith("/") else done[:-1]
                todo.extend(part for part in reversed(text.split("/")) if part not in ("", "."))
        return "/" + "/".join(done)

    def _is_proven_absent(self, path: str) -> bool:
        """Of a folder that was not listed, the nearest one above it tells whether there is one."""
        folder, _, name = path.rstrip("/").rpartition("/")
        nearest = folder or "/"
        while name:
            names = self._find_names(folder or "/")
            if names is not None:
                is_absent = names if isinstance(names, bool) else name not in names
                break
            folder, _, name = folder.rstrip("/").rpartition("/")
        else:
            is_absent = False
        # that folder only: of all above it there may be hundreds, for each path
        if nearest not in self._names:
            self._names[nearest] = is_absent
        return is_absent

    def _find_names(self, folder: str) -> frozenset[str] | bool | None:
        """The names in a folder; True where it is known that there is none, None where nothing is
        known.
        """
        if (found := self._names.get(folder)) is not None:
            return found
        listing = self._tables["listings"].get(folder)
        if isinstance(listing, list):
            found = self._names[folder] = frozenset(listing)
            return found
        entries = (self._tables[table].get(folder) for table in ("listings", "stats", "files"))
        return (
            True
            if any(isinstance(entry, dict) and "absent" in entry for entry in entries)
            else None
        )

    def read(self, path: str) -> Answer[bytes]:
        return self._answer("files", path, lambda entry: count_content(self._decode_file(entry)))

    def _decode_file(self, entry: Any) -> bytes:
        """A long one is kept: rules ask for the table of mounts once for each line of fstab."""
        if not isinstance(entry, str) or len(entry) < _LONG_FILE:
            return _decode_bytes(entry)
        if id(entry) not in self._decoded:  # of this record, which holds all of them
            self._decoded = {
                **dict([*self._decoded.items()][-_KEPT_FILES:]),
                id(entry): _decode_bytes(entry),
            }
        return self._decoded[id(entry)]

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        return self._answer("listings", path, lambda entry: count_content(tuple(entry)))

    def link(self, path: str) -> Answer[str]:
        answer = self._answer("links", path, str, follow=False)
        if _is_missing(answer) and (
            path in self._tables["files"] or path in self._tables["listings"]
        ):
            lstat = self._tables["lstats"].get(path)
            return ABSENT if isinstance(lstat, list) and lstat[0] != "link" else answer
        return answer

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        answer = self._answer(
            "stats" if follow else "lstats", path, lambda entry: Stat(*entry), follow=follow
        )
        # What is not a link is the same with and without following.
        if _is_missing(answer) and not follow and self.link(path) is ABSENT:
            return self.stat(path)
        return answer

    def resolve(self, path: str) -> Answer[str]:
        canonical = self._canonical(path)
        if path in self._tables["paths"]:
            return self._answer("paths", path, str)
        tables = self._tables
        if isinstance(tables["stats"].get(canonical), list):
            return canonical
        if self.stat(canonical) is ABSENT:
            return ABSENT
        is_known = (
            canonical in tables["files"]
            or canonical in tables["listings"]
            or canonical in tables["stats"]
        )
        return canonical if is_known else self._missing(path)

    def space(self, path: str) -> Answer[Space]:
        return self._answer("spaces", path, lambda entry: Space(*entry))

    def usage(self, path: str) -> Answer[Usage]:
        from hosttune.host.reading.usage import count_by_questions

        if path not in self._tables["usages"]:
            return count_by_questions(self, path)
        return self._answer("usages", path, lambda entry: Usage(*entry))

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        del timeout_s
        entry = self._queries.get(tuple(argv))
        if entry is None:
            from hosttune.host.record.apt_policy import policy_of_names
            from hosttune.host.record.units import assemble_answer

            entry = assemble_answer(self._queries, argv) or policy_of_names(self._queries, argv)
        if entry is None:
            return self._missing(f"the answer of {' '.join(argv)}")
        return self._again(_decode(entry, _decode_completed))

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        del before, after, tmpfs_options
        return Unreadable("no program can be asked on a record")

    def fstab_untried_by(self) -> tuple[str, ...]:
        return ()  # nothing is put in place there

    def refused_write(self, path: str) -> Refused | None:
        del path
        return None  # nothing is written there, and a record keeps no flags of files

    def processes(self) -> Answer[tuple[Process, ...]]:
        if "processes" not in self.data:
            return self._missing("the list of processes")
        return _decode(
            self.data["processes"],
            lambda entries: tuple(_decode_process(entry) for entry in entries),
        )

    def os_release(self) -> Answer[Mapping[str, str]]:
        if "os_release" not in self.data:
            return self._missing("os-release")
        return _decode(self.data["os_release"], dict)


def _is_missing(answer: object) -> bool:
    return isinstance(answer, Unreadable) and isinstance(answer.reason, NotRecorded)


def _is_magic(done: Sequence[str]) -> bool:
    """Links below /proc/PID lead to things (`pid:[4026531836]`), not to paths."""
    return len(done) > 2 and done[0] == "proc" and done[1] != "sys"


def _decode(entry: Any, decode: Callable[[Any], T]) -> Answer[T]:
    if isinstance(entry, dict):
        if entry.get("absent") is True:
            return ABSENT
        if isinstance(reason := entry.get("unreadable"), str):
            return Unreadable(OnlyRunning(reason) if entry.get("only_running") is True else reason)
    try:
        return decode(entry)
    except _LongNumber:
        return Unreadable(f"a number there has {_MOST_DIGITS} digits or more")


class _LongNumber(Exception):
    """int() refuses thousands of digits, and a float has no room for some hundred: no program of a
    host says such.
    """


def _decode_bytes(entry: Any) -> bytes:
    if isinstance(entry, dict):
        content = base64.b64decode(entry["base64"])
        if _LONG_NUMBER.search(content.decode("utf-8", "replace")):
            raise _LongNumber
        return content
    if _LONG_NUMBER.search(str(entry)):
        raise _LongNumber
    return str(entry).encode("utf-8", "surrogateescape")


def _decode_completed(entry: Any) -> Completed:
    return Completed(
        entry["status"],
        count_content(_decode_bytes(entry["stdout"])),
        count_content(_decode_bytes(entry["stderr"])),
    )


def _decode_process(entry: Any) -> Process:
    # Fields that a later version added are passed over; those that an older one did not know get
    # their defaults.
    lists = {key: tuple(entry.get(key, ())) for key in ("command", "devices", "variables")}
    return Process(**{key: value for key, value in entry.items() if key in _OF_PROCESS} | lists)


def encode_bytes(content: bytes) -> Any:
    """Text where it is text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def encode_answer(answer: Answer[T], encode: Callable[[T], Any]) -> Any:
    if isinstance(answer, Absent):
        return {"absent": True}
    if isinstance(answer, Unreadable):
        kind = {"only_running": True} if isinstance(answer.reason, OnlyRunning) else {}
        return {"unreadable": answer.reason, **kind}
    return encode(answer)


def read_record(path: str) -> RecordReader:
    """A record from a file of this machine. Raises BadInput with every fault; nothing in it is
    trusted.
    """
    from hosttune.host.reading.named import read_named, reason_of

    try:
        content = read_named(path, _MOST_OF_FILE)
    except IsADirectoryError:
        from hosttune.host.support.reader import read_support_folder

        return read_support_folder(path)
    except OSError as error:
        raise BadInput([Fault(Where(path), reason_of(error))]) from None
    return reader_of(content, path)


def reader_of(content: bytes, path: str) -> RecordReader:
    """The reader of a record, a report of nvidia-bug-report.sh or a sosreport, by its content.
    Raises BadInput.
    """
    from hosttune.host.support import is_support_file

    if is_support_file(content):
        from hosttune.host.support.reader import read_support_file

        return read_support_file(content, path)
    return RecordReader(parse_record(content, path), path)


def parse_record(content: bytes, path: str) -> Mapping[str, Any]:
    """The JSON of a record, not yet checked. Raises BadInput."""
    hint = (
        "give a record (sudo hosttune record FILE), or nvidia-bug-report.log.gz or "
        "sosreport-*.tar.xz as it is"
    )
    try:
        data = parse_json(content, parse_constant=_no_constant)
        # half of a surrogate pair could not be written out again, unless it means a byte that is no
        # UTF-8
        if _ESCAPED_SURROGATE.search(content) or (
            b"\xed" in content and _SURROGATE.search(content)
        ):
            json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except json.JSONDecodeError as error:
        raise BadInput(
            [Fault(Where(path, error.lineno), f"not a record: {error.msg}", hint)]
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput([Fault(Where(path), f"not a record: {error}", hint)]) from None
    if not isinstance(data, dict):
        raise BadInput([Fault(Where(path), "not a record: the top level is no object", hint)])
    return data


def _no_constant(name: str) -> None:
    message = f"{name} is no JSON"
    raise ValueError(message)
