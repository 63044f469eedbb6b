"""One change as a diff: `~ sysctl:vm.swappiness  60 -> 10`, files as unified diffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.resources.services.restart import unit_of
from hosttune.values import ABSENT, Action, Activation, FileValue, Unreadable
from hosttune.views.page import shown
from hosttune.views.terminal import width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.values import Address, Change, Value
    from hosttune.views.terminal import Screen

_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}

_WHEN = {
    Activation.NOW: "",
    Activation.REMOUNT: "",
    Activation.RELOAD: "in effect after the reload",
    Activation.RESTART: "in effect after the service restart",
    Activation.SESSION: "in effect for new sessions",
    Activation.REBOOT: "in effect after a reboot",
}


def change_lines(change: Change, screen: Screen, *, indent: int = 2) -> list[str]:
    """The change as it is shown before the yes: nothing of it is left out."""
    inner = " " * (indent + 4)
    lines = [" " * indent + line for line in _headline(change, screen, indent)]
    for line in body_lines(change):
        is_prose = change.address.kind.endswith("-set")  # other lines are diffs, which stay as they are
        parts = wrapped(line, screen.columns, first=inner, rest=f"{inner}  ") if is_prose else [inner + line]
        lines += [inner + _painted(part.removeprefix(inner), screen) for part in parts]
    return lines + wrapped(shown(change.reason), screen.columns, first=inner, rest=inner)


def body_lines(change: Change) -> list[str]:
    """What stands under the title, line by line: the diff of a file, the details."""
    diff = file_diff(change.before, change.after) if _is_file(change) else ()
    return [*diff, *(shown(line) for line in _details(change.details))]


def note_of(change: Change) -> str:
    """What stands beside the title: the rights of a new file, when the change takes effect."""
    mode = _mode(change) if _is_file(change) else ""
    return ", ".join(note for note in (mode, _when(change)) if note)


def _when(change: Change) -> str:
    unit = unit_of(change.address) if change.activation is Activation.RESTART else ""
    return f"in effect after a restart of {unit}" if unit else _WHEN[change.activation]


def title_line(change: Change) -> str:
    """The change on one line, for a receipt."""
    values = "" if _is_file(change) or _is_told(change) else f"  {_values(change)}"
    return f"{change.action.symbol} {address_text(change.address)}{values}"


def address_text(address: Address) -> str:
    """An address on one line; of a set of many names the first, the rest counted (the details name them all)."""
    names = [name for name in address.name.split() if name != "+"]
    if address.kind.endswith("-set") and len(names) > 1:
        return shown(f"{address.kind}:{names[0]} and {len(names) - 1} more")
    return shown(str(address))


def _headline(change: Change, screen: Screen, indent: int) -> list[str]:
    symbol = screen.paint(change.action.symbol, "bold", _COLOURS[change.action.symbol])
    address = address_text(change.address)
    note = f"  ({note_of(change)})" if note_of(change) else ""
    first = f"{symbol} {address}"
    if _is_file(change):
        fits = indent + width_of(f"x {address}{note}") <= screen.columns
        return [first + note] if fits else [first, f"  {note}"]
    if _is_told(change):
        fits = not note or indent + width_of(f"x {address}{note}") <= screen.columns
        return [first + note] if fits else [first, f"  {note}"]
    values = _values(change)
    room = screen.columns - indent - width_of(f"x {address}  {values}")
    if room >= width_of(note):
        return [f"{first}  {values}{note}"]
    if room >= 0:
        return [f"{first}  {values}", f"  {note}"]
    if change.action is Action.UPDATE and indent + 4 + width_of(values) > screen.columns:
        both = (f"- {value_text(change.before)}", f"+ {value_text(change.after)}")
        return [first + note, *(f"    {_painted(line, screen)}" for line in both)]
    return [first + note, f"    {values}"]


def _values(change: Change) -> str:
    before, after = value_text(change.before), value_text(change.after)
    if change.action is Action.CREATE:
        return after
    return f"(was {before})" if change.action is Action.DELETE else f"{before} -> {after}"


def value_text(value: Value) -> str:
    """A value on one line; what is not there and what is empty look different from text."""
    if value is ABSENT:
        return "(absent)"
    if isinstance(value, Unreadable):
        return f"(unreadable: {shown(value.reason)})"
    if isinstance(value, FileValue):
        return f"({len(value.content)} bytes)"
    if isinstance(value, tuple):
        return shown(", ".join(value)) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(str(value)) or '""'


def file_diff(before: Value, after: Value) -> Iterator[str]:
    """The unified diff of two files; of a new or removed one all its lines."""
    import difflib

    texts = [_text(value) for value in (before, after)]
    if any(text is None for text in texts):
        yield f"binary: {value_text(before)} -> {value_text(after)}"
        return
    old, new = ((text or "").split("\n") for text in texts)
    ends = [lines.pop() for lines in (old, new)]  # what stands behind the last newline
    for lines, end in zip((old, new), ends, strict=True):
        if end:
            lines.append(f"{end}\n\\ no newline at the end")
    for number, line in enumerate(difflib.unified_diff(old, new, lineterm="", n=3)):
        if number < 2 or (line.startswith("@@") and not (old and new)):
            continue
        symbol, (text, *rest) = line[:1], line[1:].split("\n")
        yield line if symbol == "@" else f"{symbol} {shown(text.expandtabs())}"
        yield from (f"  {note}" for note in rest)


def _text(value: Value) -> str | None:
    if not isinstance(value, FileValue):
        return ""
    try:
        text = value.content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _mode(change: Change) -> str:
    if isinstance(change.after, FileValue) and change.before is ABSENT:
        return f"new, mode {change.after.mode:04o}"
    return "removed" if change.after is ABSENT else ""


def _is_file(change: Change) -> bool:
    return isinstance(change.before, FileValue) or isinstance(change.after, FileValue)


def _details(details: tuple[str, ...]) -> Iterator[str]:
    """The details; a diff among them reads like that of a file: no file names, a blank behind the sign."""
    for line in details:
        if line.startswith(("--- ", "+++ ")):
            continue
        yield f"{line[0]} {line[1:].expandtabs()}" if line.startswith(("-", "+")) else line.expandtabs()


def _is_told(change: Change) -> bool:
    """Whether the details tell the values already: line by line (fstab), or one by one (a set of packages)."""
    is_diff = any(line.startswith(("-", "+")) for line in change.details)
    return is_diff or (bool(change.details) and change.address.kind.endswith("-set"))


def _painted(line: str, screen: Screen) -> str:
    colour = _COLOURS.get(line[:1])
    return screen.paint(line, colour) if colour else line
