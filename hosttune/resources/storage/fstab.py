"""An edit of /etc/fstab, and the options of a target's line there; a whole line of ours is
fstab_line.py.

Each edit replaces one span or adds one line of someone else's file (fstab_document.py proves it),
under compare-and-swap.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.errors import Conflict, Refused
from hosttune.facts.storage.fstab import read_file
from hosttune.facts.storage.fstab_options import decode, encode, masked_line, masked_text
from hosttune.host.door import Rehearsal
from hosttune.host.masking.cleaned import clean
from hosttune.resources.base import AddressKind
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.resources.storage.fstab_document import (
    PATH,
    FstabText,
    edit_line,
    edit_options,
    options_of,
    parse,
)
from hosttune.resources.storage.fstab_proof import find_complaint, trials_of
from hosttune.values import ABSENT, FileValue, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import Fstab, FstabEntry
    from hosttune.facts.storage.fstab_lines import FstabLine, Problem
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Absent, Change, Value

VERIFY = CommandLine("findmnt --verify")


class InFstab(AddressKind):
    """What both kinds have in common: an edit of the one file."""

    def describe(self, name: str) -> str:
        return f"{name} in {PATH}"

    @abstractmethod
    def _edit(self, document: FstabText, change: Change) -> bytes:
        """The file with the change made. Raises as `write`."""

    def write(self, writer: Writer, change: Change) -> None:
        document = _open_fstab(writer)
        _replace(writer, document, self._edit(document, change), change.address.name)

    def file_of(self, name: str) -> str:  # noqa: ARG002 - the interface of all kinds
        return PATH

    def way_back(self, reader: Reader, back: Change) -> Change:
        document = _open_fstab(reader)
        return replace(back, details=edit_diff(document.data, self._edit(document, back)))


class FstabAddress(InFstab):
    """`fstab:TARGET`: the options of the target's one line, as written (str); empty without a
    fourth field.

    ABSENT without a line. A line that cannot be edited safely (duplicate, misread by one of the
    readers ...) is Unreadable, with the reason.
    """

    kind = "fstab"

    def read(self, reader: Reader, name: str) -> Value:
        document = document_of(reader)
        if not isinstance(document, FstabText):
            return document
        try:
            options = options_of(document, name)
        except Refused as refused:
            return Unreadable(refused.message)
        return ABSENT if options is None else options

    def _edit(self, document: FstabText, change: Change) -> bytes:
        target = change.address.name
        if options_of(document, target) != change.before or not isinstance(change.after, str):
            raise Conflict(
                f"{PATH}: the options of {target} are no longer {change.before}",
                hint="run the plan again",
            )
        after = change.after
        return edit_options(document, target, lambda _: after)

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return [*shorten_list(list_steps(changes, _options_step)), VERIFY]


def _options_step(change: Change) -> str:
    hunk = next((line for line in change.details if line.startswith("@@ -")), "")
    line = hunk.split()[1].lstrip("-").partition(",")[0] if hunk else ""
    where = f"line {line} of {PATH}" if line else f"the line of {change.address.name} in {PATH}"
    return f"in {where} the options `{change.before}` become `{change.after}`"


def document_of(reader: Reader) -> FstabText | Absent | Unreadable:
    data = read_file(reader)
    return _parsed(data) if isinstance(data, bytes) else data


# each address asks, and a file of others can have many thousand lines
_parsed = lru_cache(maxsize=1)(parse)


def _open_fstab(reader: Reader) -> FstabText:
    document = document_of(reader)
    if isinstance(document, FstabText):
        return document
    reason = document.reason if isinstance(document, Unreadable) else "it does not exist"
    raise Refused(f"{PATH} cannot be edited: {reason}")


def _replace(writer: Writer, document: FstabText, new: bytes, target: str) -> None:
    """Put the edited file in place, once the programs of a boot have read it as it is meant."""
    if new == document.data:
        return
    after = parse(new)
    rehearsal = writer.rehearse_fstab(document.data, new, trials_of(after, target))
    problem = (
        find_complaint(rehearsal, document, after, target)
        if isinstance(rehearsal, Rehearsal)
        else ""
    )
    if isinstance(rehearsal, Unreadable):
        sentence = (
            f"{PATH}: the edit for {target} was checked only with hosttune's own two parsers: "
            f"{rehearsal.reason}"
        )
        writer.log(clean(sentence))
    if problem:
        hint = (
            f"{PATH} is as it was; look at the line of {target}, at: hosttune fstab, and at: "
            "findmnt --verify"
        )
        raise Refused(f"{PATH} was not changed, because {problem}", hint=hint)
    writer.replace(PATH, FileValue(new), expected=document.data)


def entry_error(entry: FstabEntry, facts: Facts) -> Problem | None:
    """With what this line by itself fails at the next boot (`fstab_boot.py`). Nothing is built upon
    such a line: with it the mount fails, whatever else is put right there.
    """
    from hosttune.resources.storage.fstab_boot import find_source_fault, next_kernel
    from hosttune.resources.storage.fstab_lint import LineErrors

    document, line = _make_single(entry)
    found = LineErrors(document).failure(line, next_kernel(facts))
    if found:
        return document.problem(found.line, found.message, found.todo)
    elsewhere = find_source_fault(facts, entry)
    return (
        document.problem(entry.line, f"it {elsewhere.sentence}", elsewhere.way_out)
        if elsewhere
        else None
    )


def _make_single(entry: FstabEntry) -> tuple[FstabText, FstabLine]:
    """The line of an entry in a file of its own, with the number that it has in the real one."""
    document = parse(encode(entry.text))
    return document, document.lines[0]._replace(number=entry.line)


def options_diff(facts: Facts, entry: FstabEntry, options: str) -> tuple[str, ...]:
    """A unified diff of the edit of one line, without context, passwords masked, and what cannot
    try it here. Raises Refused as the edit would, and where the line has an error of its own
    (`entry_error`).
    """
    error = entry_error(entry, facts)
    if error:
        raise error.refusal()
    document, line = _make_single(entry)
    new = edit_line(document, line, options).text
    hunk = f"@@ -{entry.line} +{entry.line} @@"
    return (
        f"--- {PATH}",
        f"+++ {PATH}",
        hunk,
        f"-{entry.text}",
        f"+{masked_line(decode(new))}",
        *_describe_untried(facts.fstab),
    )


def addition_diff(fstab: Fstab, text: str) -> tuple[str, ...]:
    """A unified diff of a line added at the end, and what cannot try it here."""
    hunk = f"@@ -{fstab.lines},0 +{fstab.lines + 1} @@"
    return (f"--- {PATH}", f"+++ {PATH}", hunk, f"+{text}", *_describe_untried(fstab))


def edit_diff(before: object, after: object) -> tuple[str, ...]:
    """A unified diff of one edit of the file, without context, passwords masked; nothing where it
    is not text.
    """
    if not isinstance(before, bytes) or not isinstance(after, bytes) or before == after:
        return ()
    old, new = (data.decode("utf-8", "surrogateescape").splitlines() for data in (before, after))
    first = next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    rest = min(len(old), len(new)) - first
    same = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    gone, come = old[first : len(old) - same], new[first : len(new) - same]
    hunk = f"@@ -{_format_span(first, gone)} +{_format_span(first, come)} @@"
    lines = (
        f"{sign}{masked_text(line)}" for sign, some in (("-", gone), ("+", come)) for line in some
    )
    return (f"--- {PATH}", f"+++ {PATH}", hunk, *lines)


def _format_span(first: int, lines: list[str]) -> str:
    """Where lines stand, as diff -u says it: of none the line before them."""
    return f"{first + 1}" if len(lines) == 1 else f"{first + 1 if lines else first},{len(lines)}"


def _describe_untried(fstab: Fstab) -> tuple[str, ...]:
    """What to say where not all that reads an fstab can be asked before it is put in place."""
    return tuple(
        f"not tried by {what}; hosttune's own two readers try it" for what in fstab.untried_by
    )


ADDRESS = FstabAddress()
