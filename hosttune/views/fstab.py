"""An fstab looked at by itself: what is wrong with it, line by line, and an edit of it as a unified
diff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.facts.storage.fstab_options import decode, masked_field, masked_line, masked_text
from hosttune.facts.storage.fstab_readers import STALE
from hosttune.host.masking.cleaned import make_safe
from hosttune.numbers import say_count
from hosttune.resources.storage.fstab_lint import RemarkLevel
from hosttune.resources.storage.fstab_plan import LineOutcome
from hosttune.values import steps_of
from hosttune.verdict_words import STATES
from hosttune.views.terminal import align_columns, join_words, width_of, wrap_step, wrap_text
from hosttune.views.text import ONE_SCREEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts.storage.fstab_lines import FstabLine, FstabText
    from hosttune.facts.storage.fstab_readers import Fields
    from hosttune.resources.storage.fstab_lint import ShownRemark
    from hosttune.resources.storage.fstab_plan import LineStep, Tuning
    from hosttune.views.terminal import Screen

CONTEXT = 3  # lines around a change
_HEADINGS = {
    RemarkLevel.ERROR: ("Errors: misread, not mounted, or a boot that stops", "red"),
    RemarkLevel.WARNING: ("Warnings: not what it seems, or it fails one day", "yellow"),
    RemarkLevel.NOTE: ("Notes", "cyan"),
}
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_READERS = ("mount(8), systemd from 259 on", "systemd before 259")
_BESIDE = 6 + max(map(len, _READERS)) + 2  # what is beside a reading, where that fits


def lint_status(remarks: Iterable[ShownRemark], *, strict: bool) -> int:
    """1 where there is an error or a warning; with `strict` a note counts, too."""
    return int(any(strict or remark.level is not RemarkLevel.NOTE for remark in remarks))


def lint_text(
    document: FstabText, remarks: tuple[ShownRemark, ...], screen: Screen, *, strict: bool = False
) -> str:
    """The remarks, the worst first, those of many lines that say the same in one piece; then why
    the exit status is 1. What is longer than a screen says the headline again at its end.
    """
    found = {
        level: [remark for remark in remarks if remark.level is level] for level in RemarkLevel
    }
    numbers = [say_count(len(found[level]), level.value) for level in RemarkLevel if found[level]]
    what = (
        f"{say_count(len(document.entries), 'entry', 'entries')} in "
        f"{say_count(len(document.lines), 'line')}"
    )
    headline = f"{make_safe(document.path)}: {', '.join(numbers) or 'nothing to remark'}; {what}."
    head = wrap_text(headline, screen.columns, rest="  ")
    lines = list(head)
    for level in RemarkLevel:
        if found[level]:
            heading, colour = _HEADINGS[level]
            lines += ["", f"{screen.paint(heading, 'bold', colour)} ({len(found[level])})"]
            last = ""
            for group in _group_alike(found[level]):
                place = _describe_place(document, group, screen)
                lines += [
                    *([] if place == last else [place]),
                    *_group_lines(document, group[0], screen),
                ]
                last = place
    end = head if len(lines) >= ONE_SCREEN else []
    if lint_status(remarks, strict=strict):
        counted = [text for text, level in zip(numbers, filter(found.get, RemarkLevel), strict=True)
                   if strict or level is not RemarkLevel.NOTE]  # fmt: skip
        end = [*end, screen.paint(f"Exit status 1: {', '.join(counted)}.", "dim")]
    return "\n".join([*lines, *([""] if end else []), *end]) + "\n"


def _group_alike(remarks: list[ShownRemark]) -> list[list[ShownRemark]]:
    """Remarks that say the same, together, where the first of them is."""
    groups: dict[tuple[object, ...], list[ShownRemark]] = {}
    for remark in remarks:
        # A misread line has its own two readings below it, so it cannot share them.
        key = (remark.message, remark.todo, remark.line if remark.is_misread else 0)
        groups.setdefault(key, []).append(remark)
    return list(groups.values())


def _describe_place(document: FstabText, group: list[ShownRemark], screen: Screen) -> str:
    first = group[0]
    if len(group) > 1:
        many = [str(remark.line) for remark in group]
        return "\n".join(
            wrap_text(f"lines {join_words(many)}", screen.columns, first="  ", rest="    ")
        )
    if not first.line:
        return "  beside fstab" if first.code == "unit" else "  the file"
    return _cut(f"  line {first.line}: {_decode_text(document.lines[first.line - 1])}", screen)


def _group_lines(document: FstabText, remark: ShownRemark, screen: Screen) -> Iterator[str]:
    yield from wrap_text(make_safe(remark.message), screen.columns, first="    ", rest="    ")
    if remark.is_misread:
        line = document.lines[remark.line - 1]
        pairs = zip(_READERS, (line.libmount, line.getmntent), strict=True)
        rows: list[tuple[str, ...]] = [
            (name, _format_reading(line, fields)) for name, fields in pairs
        ]
        if (
            max(width_of(word) for _, text in rows for word in text.split(" "))
            > screen.columns - _BESIDE
        ):
            for name, text in rows:
                yield f"      {name}:"
                yield from wrap_text(text, screen.columns, first=" " * 8, rest=" " * 8)
        else:
            yield from align_columns(rows, screen, indent=6)
    steps = steps_of(remark.todo)
    for number, step in enumerate(steps, 1):
        first = f"    {'do: ' if number == 1 else ''}{f'{number}. ' if len(steps) > 1 else ''}"
        yield from wrap_step(make_safe(step), screen.columns, first=first, rest="        ")


def _decode_text(line: FstabLine) -> str:
    return make_safe(masked_text(decode(line.text)).expandtabs())


def _cut(text: str, screen: Screen) -> str:
    if width_of(text) <= screen.columns:
        return text
    while width_of(text) > screen.columns - 4:
        text = text[: -max(1, (width_of(text) - screen.columns + 4) // 2)]
    return text + " ..."


def _format_reading(line: FstabLine, fields: Fields | None) -> str:
    """An entry as one of the readers has it, on one line."""
    if fields is None:
        return "no entry"
    shown = _encode_entry(line, fields)
    source, target, fstype, options = (
        shown[name] or "nothing" for name in ("source", "target", "fstype", "options")
    )
    numbers = ("?" if number == STALE else str(number) for number in (fields.freq, fields.passno))
    return f"{source} on {target} type {fstype} ({options}) {' '.join(numbers)}"


def diff_text(document: FstabText, tuning: Tuning, screen: Screen, *, is_exact: bool) -> str:
    """The unified diff of the edit; nothing where there is none.

    With `is_exact` the bytes of the file, passwords and all, which patch(1) takes; else passwords
    are masked, and no byte could steer a terminal.
    """
    return "".join(
        f"{screen.paint(line, _COLOURS[line[0]])}\n" if line[:1] in _COLOURS else f"{line}\n"
        for line in _render_diff(document, tuning, is_exact=is_exact)
    )


def _render_diff(document: FstabText, tuning: Tuning, *, is_exact: bool) -> Iterator[str]:
    changed = {step.line: step for step in tuning.steps if step.outcome is LineOutcome.CHANGED}
    if not changed:
        return
    path = make_safe(document.path)
    yield from (f"--- {path}", f"+++ {path}")
    for numbers in _group_hunks(sorted(changed)):
        start, end = max(1, numbers[0] - CONTEXT), min(len(document.lines), numbers[-1] + CONTEXT)
        yield f"@@ -{start},{end - start + 1} +{start},{end - start + 1} @@"
        added: list[str] = []
        for line in document.lines[start - 1 : end]:
            step = changed.get(line.number)
            if step is None:
                yield from added
                added = []
                yield from _render_signed(" ", decode(line.text), line.ending, is_exact)
            else:
                yield from _render_signed("-", step.before, line.ending, is_exact)
                # All lines of a run are taken away before the new ones come, as diff(1) prints it
                # and patch(1) reads it.
                added += _render_signed("+", step.after, line.ending, is_exact)
        yield from added


def _group_hunks(numbers: list[int]) -> list[list[int]]:
    """The lines that change, those together whose surroundings touch."""
    hunks: list[list[int]] = []
    for number in numbers:
        if hunks and number - hunks[-1][-1] <= 2 * CONTEXT:
            hunks[-1].append(number)
        else:
            hunks.append([number])
    return hunks


def _render_signed(sign: str, text: str, ending: bytes, is_exact: bool) -> Iterator[str]:  # noqa: FBT001 - passed on
    # patch(1) compares bytes: a carriage return that is left out would make the hunk fail.
    exact = text + ("\r" if ending == b"\r\n" else "")
    yield sign + (exact if is_exact else _make_plain(text))
    if not ending:
        yield "\\ No newline at end of file"


def left_text(tuning: Tuning, screen: Screen) -> str:
    """What becomes of the other lines, and why, without a line feed at the end."""
    held = [
        step for step in tuning.steps if step.outcome in (LineOutcome.LEFT, LineOutcome.REFUSED)
    ]
    fine = sum(step.outcome is LineOutcome.OK for step in tuning.steps)
    changed = sum(step.outcome is LineOutcome.CHANGED for step in tuning.steps)
    numbers = [
        f"{say_count(changed, 'line')} to change",
        f"{fine} noatime already",
        f"{len(held)} {STATES['left alone'].phrase}",
    ]
    rows: list[tuple[str, ...]] = []
    for step in held:
        todo = f"; {step.todo}" if step.todo else ""
        _, place, rest = step.reason.partition(f":{step.line}: ")
        reason = rest if place and step.line else step.reason  # without the place in front of it
        rows.append(
            (f"line {step.line}", make_safe(masked_line(step.target)), make_safe(f"{reason}{todo}"))
        )
    return "\n".join(
        [f"{', '.join(numbers)}{':' if rows else '.'}", *align_columns(rows, screen, indent=2)]
    )


def reason_of(step: LineStep, *, with_todo: bool) -> str:
    """Why a target that was named is not tuned, on one line."""
    reason = (
        step.reason
        if step.outcome is LineOutcome.REFUSED
        else f"{masked_line(step.target)}: {step.reason}"
    )
    return f"{reason} ({step.todo})" if with_todo and step.todo else reason


def fstab_json(
    document: FstabText, remarks: tuple[ShownRemark, ...] | None, tuning: Tuning | None
) -> dict[str, Any]:
    """What was asked for; null where it was not."""
    manager = document.manager
    return {
        "format_version": FORMAT_VERSION,
        "file": make_safe(document.path),
        "lines": len(document.lines),
        "entries": len(document.entries),
        "manager": {"line": manager.line, "name": make_safe(manager.name)} if manager else None,
        "remarks": None
        if remarks is None
        else [_encode_remark(document, remark) for remark in remarks],
        "noatime": None if tuning is None else _encode_tuning(document, tuning),
    }


def _encode_remark(document: FstabText, remark: ShownRemark) -> dict[str, Any]:
    line = document.lines[remark.line - 1] if remark.line else None
    return {
        "line": remark.line,
        "level": remark.level.value,
        "code": remark.code,
        "message": make_safe(remark.message),
        "todo": "\n".join(map(make_safe, steps_of(remark.todo))),
        "text": _make_plain(decode(line.text)) if line else "",
        "readings": _encode_readings(line) if line and remark.is_misread else None,
    }


def _encode_readings(line: FstabLine) -> dict[str, Any]:
    return {
        "mount": _encode_entry(line, line.libmount) if line.libmount else None,
        "systemd_before_259": _encode_entry(line, line.getmntent) if line.getmntent else None,
    }


def _encode_entry(line: FstabLine, fields: Fields) -> dict[str, Any]:
    texts = zip(("source", "target", "fstype", "options"), fields[:4], strict=True)
    return {
        **{name: make_safe(masked_field(line.text, text)) for name, text in texts},
        "freq": fields.freq,
        "passno": fields.passno,
    }


def _encode_tuning(document: FstabText, tuning: Tuning) -> dict[str, Any]:
    steps = [
        {
            "line": step.line,
            "target": make_safe(masked_line(step.target)),
            "outcome": step.outcome.value,
            "before": _make_plain(step.before),
            "after": _make_plain(step.after),
            "reason": make_safe(step.reason),
            "todo": make_safe(step.todo),
        }
        for step in tuning.steps
    ]
    return {
        "steps": steps,
        "diff": "".join(f"{line}\n" for line in _render_diff(document, tuning, is_exact=False)),
    }


def _make_plain(text: str) -> str:
    """A line with its tabs, without what is no text."""
    return "\t".join(map(make_safe, masked_text(text).split("\t")))
