"""What the wish for noatime would do to an fstab, by the file alone: the new bytes, and why other
lines stay. Pure.

The same policy as for a running host (`mount_policy`), as far as a file can answer it: what is
mounted, what ages files by access time, and what is behind symbolic links, only the host knows.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hosttune.errors import Refused
from hosttune.facts.storage.fstab import entry_of
from hosttune.facts.storage.fstab_lines import FstabLine, FstabText, LineKind, line_problem
from hosttune.facts.storage.fstab_options import atime_words, decode, set_atime
from hosttune.facts.storage.mounts import LOCAL_TYPES, is_system
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_RAM
from hosttune.resources.storage.fstab_document import Edit, edit_line, splice_edits
from hosttune.resources.storage.fstab_lint import LineErrors
from hosttune.resources.storage.mount_policy import OF_THE_KERNEL, View, written_obstacle
from hosttune.values import ABSENT, HoldKind

if TYPE_CHECKING:
    from collections.abc import Iterable

WORD = "noatime"
_LOCAL = frozenset(name.encode() for name in LOCAL_TYPES)
_NEVER = frozenset(name.encode() for name in OF_THE_KERNEL | IN_RAM)  # not worth a word


class LineOutcome(str, Enum):
    """What becomes of a line."""

    CHANGED = "changed"
    OK = "ok"  # noatime already
    LEFT = "left alone"  # nothing to gain there, or someone else decides
    REFUSED = "refused"  # it cannot be edited without guessing


class LineStep(NamedTuple):
    """One line and what becomes of it. `before` and `after` are its text without ending, passwords
    and all.
    """

    line: int  # 0: no line
    target: str
    outcome: LineOutcome
    before: str = ""
    after: str = ""
    reason: str = ""  # with the place where it is refused; why it is left alone
    todo: str = ""


@frozen
class Tuning:
    """The steps in file order, and the file after them."""

    steps: tuple[LineStep, ...]
    data: bytes


def tune(document: FstabText, targets: Iterable[str] = ()) -> Tuning:
    """Set noatime for these targets; without any, for every line of a local file system that holds
    data.

    Raises Refused where the file as a whole cannot be edited.
    """
    if document.problems:
        raise document.problems[0].refusal()
    planner = _Planner(document)
    for target in dict.fromkeys(targets) or (None,):
        planner.all() if target is None else planner.target(target)
    steps = sorted(planner.steps, key=lambda step: step.line)
    return Tuning(tuple(steps), splice_edits(document, planner.edits))


class _Planner:
    """Collects the steps, and what each line that changes becomes."""

    def __init__(self, document: FstabText) -> None:
        self.document = document
        self.steps: list[LineStep] = []
        self.edits: dict[int, Edit] = {}
        self.errors = LineErrors(document)
        # by type and options: the new options where nothing speaks against them, or why noatime is
        # of no use there
        self.tuned: dict[tuple[bytes, str], str] = {}
        self.senseless: dict[tuple[bytes, str], str] = {}

    def target(self, target: str) -> None:
        lines = self.document.at(target)
        if lines:
            self._line(lines[0], target)
            return
        reason = f"{self.document.path} has no line for {target}"
        known = sorted(path for path in self.document.index if path.startswith("/"))[:12]
        todo = f"it has lines for: {', '.join(known)}" if known else "it has no line for any target"
        self.steps.append(LineStep(0, target, LineOutcome.REFUSED, reason=reason, todo=todo))

    def all(self) -> None:
        for line in self.document.lines:
            fields = line.libmount or line.getmntent
            if not line.target or fields is None or line.kind is LineKind.BLANK:
                continue
            if fields.fstype not in _LOCAL:
                if fields.fstype not in _NEVER and not is_system(line.target):
                    self._line(line, line.target)
            elif is_system(line.target):
                self._leave(line, line.target, "the system itself lives there", "")
            else:
                self._line(line, line.target)

    def _line(self, line: FstabLine, target: str) -> None:
        problem = line_problem(self.document, line)
        options = line.options
        fields = line.fields
        if problem is None and fields and atime_words(options) == (WORD,):
            self._change(line, target, options, options)
            return
        if problem is None and fields and not line.owner and self.document.manager is None:
            key = (fields.fstype, options)
            # A file may have ten thousand lines with the same type and options, so each answer is
            # worked out once.
            if key in self.tuned:
                self._tune(line, target, options, fields.fstype)
                return
            if key in self.senseless:
                self._leave(line, target, self.senseless[key], "")
                return
        if fields is None:
            assert problem is not None  # noqa: S101 - a broken line has one
            self._refuse(line, target, str(problem), problem.hint)
            return
        view = View(
            target, WORD, entry_of(self.document, line), None, options, ABSENT, is_running=False,
            path=self.document.path,
        )  # fmt: skip
        hold, todo = written_obstacle(view)
        if hold and problem and hold.detail == str(problem):
            self._refuse(line, target, hold.detail, todo)
        elif hold.kind is HoldKind.OWNED:
            self._leave(line, target, str(hold), todo)
        elif hold:
            # A reason that names its line holds for no other one.
            if not problem and view.place not in hold.detail:
                self.senseless[fields.fstype, options] = hold.detail
            self._leave(line, target, hold.detail, todo)
        else:
            self._tune(line, target, options, fields.fstype)

    def _tune(self, line: FstabLine, target: str, options: str, fstype: bytes) -> None:
        error = self.errors.of(line)
        if error:
            self._refuse(line, target, str(error), error.hint)
            return
        tuned = self.tuned.get((fstype, options))
        try:
            tuned = tuned or set_atime(options, WORD)
        except Refused as refused:
            self._refuse(
                line,
                target,
                str(self.document.problem(line.number, refused.message, "")),
                refused.hint,
            )
            return
        self.tuned[fstype, options] = tuned
        self._change(line, target, options, tuned)

    def _change(self, line: FstabLine, target: str, options: str, tuned: str) -> None:
        before = decode(line.text)
        if options == tuned:
            self.steps.append(LineStep(line.number, target, LineOutcome.OK, before, before))
            return
        try:
            after = edit_line(self.document, line, tuned)
        except Refused as refused:
            self._refuse(line, target, refused.message, refused.hint)
            return
        self.edits[line.number] = after
        self.steps.append(
            LineStep(line.number, target, LineOutcome.CHANGED, before, decode(after.text))
        )

    def _leave(self, line: FstabLine, target: str, reason: str, todo: str) -> None:
        self.steps.append(
            LineStep(line.number, target, LineOutcome.LEFT, decode(line.text), "", reason, todo)
        )

    def _refuse(self, line: FstabLine, target: str, reason: str, todo: str) -> None:
        self.steps.append(
            LineStep(line.number, target, LineOutcome.REFUSED, decode(line.text), "", reason, todo)
        )
