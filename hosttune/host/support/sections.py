"""The grammar of a report of nvidia-bug-report.sh (versions of branches 367 to 610): a line of 44
underscores, an empty line, a head, and what belongs to it up to the next such line. Pure.

A head is `*** PATH` (with a line of ls(1), and the content), `*** PATH does not exist`, `*** PATH
is not readable`, a command line, or a sentence. The content may hold anything. So a head counts in
a form that the program writes only, and of two with one name the first.
"""

from __future__ import annotations

from datetime import datetime
from posixpath import normpath
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

START = b"Start of NVIDIA bug report log file."
END = "End of NVIDIA bug report log file."
RULE = "_" * 44
_LS = regex(
    r"\*\*\* ls: \S{10}\S? +\d{1,9} \S{1,99} \S{1,99} +(?:\d{1,9}, +)?(\d{1,19}) "
    r"(\d{4}-\d\d-\d\d (\d\d):(\d\d):(\d\d))(?:\.\d{1,9})? ([+-]\d{4}) /.*"
)
_PATH = regex(r"\*\*\* (/\S[^\n]*?)( does not exist| is not readable)?")
# Commands of one section, without a rule between them.
_COMMAND = regex(
    r"(?:/\S+/)?(nvidia-smi (?:--query(?: --unit)?|-q|nvlink --?[\w-]+|conf-compute [\w -]+)"
    r"|lspci -[^\n]{1,60})"
)
_DOTTED = "/./"
_OF_USERS = "/home/"
MOST = 20_000  # sections; a report of eight GPUs has some 600


@frozen
class ReportSection:
    """One head and what is below it."""

    head: str  # the path, the command without its folder, or the sentence without its colon
    lines: tuple[str, ...]
    # of a path: "file", "missing", "unreadable", or "unknown" where ls(1) says nothing
    state: str = ""
    seen_at: float = 0.0  # of a path, as ls(1) has it: seconds since 1970; 0 where it does not say
    seen_clock: int = 0  # the same on a clock of that zone: seconds of its day

    @property
    def is_known(self) -> bool:
        """Whether it is a path, and the program says what it found there."""
        return self.state in {"file", "missing", "unreadable"}

    @property
    def text(self) -> str:
        """What is there, without the empty lines at its end that the program adds."""
        return "\n".join(self.lines).rstrip("\n") + "\n" if any(self.lines) else ""


def sections_of(text: str) -> Iterator[ReportSection]:
    """In their order, at most MOST. What a user has in a file of theirs has no heads: it is as long
    as ls(1) says.
    """
    lines = text.split("\n")
    starts: list[int] = []
    at = 0
    while at < len(lines) and len(starts) <= MOST:
        if lines[at] == RULE:
            starts.append(at)
            at += _length_of_file(lines, at)
        at += 1
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = start + 1
        while head < end and not lines[head].strip():
            head += 1
        if head < end:
            yield from _split_parts(lines, head, end)


def _length_of_file(lines: list[str], rule: int) -> int:
    """How many lines behind a rule belong to the file of a user."""
    head = rule + 2
    if head + 1 >= len(lines) or not lines[head].startswith(f"*** {_OF_USERS}"):
        return 0
    listed = _LS.match(lines[head + 1])
    left, at = int(listed[1]) if listed else 0, head + 2
    while left > 0 and at < len(lines):
        left -= len(lines[at].encode("utf-8", "surrogateescape")) + 1
        at += 1
    return at - rule - 1


def _split_parts(lines: list[str], start: int, end: int) -> Iterator[ReportSection]:
    first = lines[start].rstrip()
    if first.startswith("*** "):
        if section := _of_path(lines, start, end):
            yield section
        return
    at = [
        start,
        *(
            at
            for at in range(start + 1, end)
            if _COMMAND.fullmatch(lines[at]) and not lines[at - 1].strip()
        ),
    ]
    for begin, stop in zip(at, [*at[1:], end], strict=True):
        head = lines[begin].rstrip()
        command = _COMMAND.fullmatch(head)
        body = begin + 1
        while body < stop and not lines[body].strip():
            body += 1
        yield ReportSection(command[1] if command else head.rstrip(":"), tuple(lines[body:stop]))


def _of_path(lines: list[str], start: int, end: int) -> ReportSection | None:
    match = _PATH.fullmatch(lines[start].rstrip())
    if match is None:
        return None
    path = match[1].replace(_DOTTED, "/")
    if normpath(path) != path or path.startswith("//") or "\0" in path or len(path) >= PATH_MAX:
        return None
    if match[2]:
        return ReportSection(path, (), "missing" if match[2].endswith("exist") else "unreadable")
    listed = _LS.match(lines[start + 1]) if start + 1 < end else None
    if listed is None:
        return ReportSection(path, tuple(lines[start + 1 : end]), "unknown")
    hours, minutes, seconds = (int(listed[at]) for at in (3, 4, 5))
    clock, at = hours * 3600 + minutes * 60 + seconds, _parse_seconds(f"{listed[2]} {listed[6]}")
    return ReportSection(path, tuple(lines[start + 2 : end]), "file", at, clock)


def _parse_seconds(spelled: str) -> float:
    """0 for what no calendar knows."""
    try:
        return max(datetime.strptime(spelled, "%Y-%m-%d %H:%M:%S %z").timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0
