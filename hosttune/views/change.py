"""One change as a diff: `~ sysctl:vm.swappiness  60 -> 10`, files as unified diffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.regex import regex
from hosttune.resources import describe_place, kind_of
from hosttune.values import ABSENT, Action, Activation, FileValue, Unreadable
from hosttune.views.document import Diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.values import Change, Value

_CONTEXT = 3  # lines around a change
_IN_FSTAB = frozenset({"fstab", "fstab-line"})  # whose details are a diff of lines
_MOST_PAIRS = 4_000_000  # of lines that are compared
_NUMBER = regex(r"(?<=[-+])\d+")  # of a line, behind @@
_WHEN = {
    Activation.NOW: "",
    Activation.REMOUNT: "",
    Activation.RELOAD: "in effect after the reload",
    Activation.RESTART: "in effect after the service restart",
    Activation.SESSION: "in effect for new sessions",
    Activation.REBOOT: "in effect after a reboot",
}


def diff_of(change: Change, *, is_short: bool = False) -> Diff:
    """The change as a block of a document; `is_short`: its title alone."""
    is_shown = _is_file(change) or _is_shown_whole(change)
    diff = file_diff(change.before, change.after) if _is_file(change) else ()
    notes = (_describe_mode(change) if _is_file(change) else "", _describe_time(change))
    before, after = ("", "") if is_shown else (value_text(change.before), value_text(change.after))
    return Diff(
        change.action.symbol,
        describe_place(change.address),
        "" if change.action is Action.CREATE else before,
        "" if change.action is Action.DELETE else after,
        "" if is_short else ", ".join(filter(None, notes)),
        () if is_short else (*diff, *map(clean, _render_details(change.details))),
        is_prose=kind_of(change.address).is_set,
        reason="" if is_short else clean(change.reason),
    )


def _describe_time(change: Change) -> str:
    address = change.address
    unit = kind_of(address).unit_of(address.name) if change.activation is Activation.RESTART else ""
    return f"in effect after a restart of {unit}" if unit else _WHEN[change.activation]


def value_text(value: Value) -> str:
    """A value on one line; what is not there and what is empty look different from text."""
    if value is ABSENT:
        return "(absent)"
    if isinstance(value, Unreadable):
        return f"(unreadable: {clean(value.reason)})"
    if isinstance(value, FileValue):
        return f"({len(value.content)} bytes)"
    if isinstance(value, tuple):
        return clean(", ".join(value)) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(str(value)) or '""'


def file_diff(before: Value, after: Value) -> Iterator[str]:
    """The unified diff of two files; of a new or removed one all its lines."""
    import difflib

    texts = [_decode_text(value) for value in (before, after)]
    if any(text is None for text in texts):
        yield f"binary: {value_text(before)} -> {value_text(after)}"
        return
    old, new = ((text or "").split("\n") for text in texts)
    # split gives an empty piece behind the last newline; a piece with text in it is a line without
    # one, which a diff has to show.
    ends = [lines.pop() for lines in (old, new)]  # what is behind the last newline
    for lines, end in zip((old, new), ends, strict=True):
        if end:
            lines.append(f"{end}\n\\ no newline at the end")
    has_both = bool(old and new)
    skipped = _strip_common(old, new)
    if len(old) * len(new) > _MOST_PAIRS:
        lines = [
            "@@ too long to compare line by line @@",
            *(f"-{one}" for one in old),
            *(f"+{one}" for one in new),
        ]
    else:
        # The first two lines are names of files, and both are the address above the diff.
        lines = [*difflib.unified_diff(old, new, lineterm="", n=_CONTEXT)][2:]
    for line in lines:
        if line.startswith("@@"):
            if not has_both:
                continue
            # The lines that both begin with were taken away before, so the numbers of difflib are
            # too small.
            line = _NUMBER.sub(lambda found: str(int(found[0]) + skipped), line)  # noqa: PLW2901
        symbol, (text, *rest) = line[:1], line[1:].split("\n")
        # Tabs first: an escaped one would shift the columns of a table such as fstab.
        yield line if symbol == "@" else f"{symbol} {clean(text.expandtabs())}"
        yield from (f"  {note}" for note in rest)


def _strip_common(old: list[str], new: list[str]) -> int:
    """Take the lines that both begin and end with away, except for the context; returns how many at
    the beginning. `difflib` compares lines in pairs, which of a long file takes hours.
    """
    least = min(len(old), len(new))
    head = next((at for at in range(least) if old[at] != new[at]), least)
    tail = next((at for at in range(least - head) if old[-1 - at] != new[-1 - at]), least - head)
    for lines in (old, new):
        del lines[len(lines) - max(0, tail - _CONTEXT) :]
        del lines[: max(0, head - _CONTEXT)]
    return max(0, head - _CONTEXT)


def _decode_text(value: Value) -> str | None:
    if not isinstance(value, FileValue):
        return ""
    try:
        text = value.content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _describe_mode(change: Change) -> str:
    if isinstance(change.after, FileValue) and change.before is ABSENT:
        return f"new, mode {change.after.mode:04o}"
    return "removed" if change.after is ABSENT else ""


def _is_file(change: Change) -> bool:
    return isinstance(change.before, FileValue) or isinstance(change.after, FileValue)


def _render_details(details: tuple[str, ...]) -> Iterator[str]:
    """The details; a diff among them reads like that of a file: no file names, a blank behind the
    sign.
    """
    for line in details:
        if line.startswith(("--- ", "+++ ")):
            continue
        yield (
            f"{line[0]} {line[1:].expandtabs()}"
            if line.startswith(("-", "+"))
            else line.expandtabs()
        )


def _is_shown_whole(change: Change) -> bool:
    """Whether the details tell the values already: line by line (fstab), or one by one (a set of
    packages). Those of other kinds never do, whatever a file of a host says.
    """
    kind = kind_of(change.address)
    is_diff = kind.kind in _IN_FSTAB and any(line.startswith(("-", "+")) for line in change.details)
    return is_diff or (bool(change.details) and kind.is_set)
