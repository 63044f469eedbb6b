"""A document for a terminal: wrapped to its width, and nothing that is to be copied is broken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from hosttune.views.document import (
    Block,
    CommandBlock,
    Diff,
    Fold,
    Heading,
    Item,
    Items,
    Lines,
    Matrix,
    Panel,
    Say,
    Section,
    Steps,
    Table,
    Warnings,
)
from hosttune.views.terminal import Screen, align_columns, pad_text, width_of, wrap_step, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.views.document import Document

_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}
_IN = "  "
_LABEL, _HANG = 8, 22  # columns of a label, and where the text of a finding goes on
_NARROW = 60  # columns of a screen on which that begins behind the label


ONE_SCREEN = 24  # lines of a terminal that was not enlarged
FEW = 3  # faults that have two lines each at the end


def render_text(document: Document, screen: Screen) -> str:
    """The whole document. What is longer than a screen says its verdict again at its end, before
    the next commands: the end is what is seen.
    """
    head = "".join(f"{line}\n" for block in document.head for line in block_lines(block, screen))
    last = tuple(
        takewhile(lambda block: isinstance(block, (Steps, CommandBlock)), reversed(document.blocks))
    )[::-1]
    body = document.blocks[: len(document.blocks) - len(last)]
    says = [Say(document.status, style="dim", is_hanging=True)] if document.status else []
    # Measured with the status, which is shown in either case.
    whole = "\n".join(filter(None, (head, blocks_text((*document.blocks, *says), screen))))
    if whole.count("\n") <= ONE_SCREEN:
        return "\n".join(filter(None, (head, blocks_text((*body, *says, *last), screen))))
    verdict = [one for one in document.head if isinstance(one, Say) and one.role == "decision"]
    ending = (Lines("", (*verdict, *says)),) if verdict or says else ()
    end = blocks_text((*body, *ending, *last), screen)
    if document.faults and end.count("\n") >= ONE_SCREEN:
        most = 2 if len(document.faults) <= FEW else 1
        cut = (cut_lines(fault, screen.columns, most) for fault in document.faults)
        faults = [Say(fault, style="red", is_hanging=True) for fault in cut]
        end = blocks_text((*body, Lines("", (*faults, *verdict, *says)), *last), screen)
    return "\n".join(filter(None, (head, end)))


def cut_lines(text: str, columns: int, most: int) -> str:
    """What fits on so many lines, up to a blank."""
    lines = wrap_text(text, columns - 4)
    return f"{' '.join(lines[:most])} ..." if lines[most:] else text


def blocks_text(blocks: Iterable[Block], screen: Screen) -> str:
    """Blocks with a blank line between them, but for the rows of labelled sections."""
    lines: list[str] = []
    for _, them in groupby(blocks, lambda block: isinstance(block, Section)):
        run = tuple(them)
        label = _measure_label(run)
        for number, block in enumerate(run):
            is_row = number and _has_label(block) and _has_label(run[number - 1])
            lines += [
                *([""] if lines and not is_row else []),
                *block_lines(block, screen, "", label),
            ]
    return "".join(f"{line}\n" for line in lines)


def _has_label(block: Block) -> bool:
    return isinstance(block, Section) and bool(block.label)


def block_lines(block: Block, screen: Screen, indent: str = "", label: int = 0) -> list[str]:
    """A block that begins `indent`; heads that are a column take `label` columns at least."""
    return _LINES[type(block)](block, screen, indent, label)


def diff_lines(diff: Diff, screen: Screen, indent: str = _IN) -> list[str]:
    """The change as it is shown before the yes: nothing of it is left out."""
    inner = f"{indent}    "
    lines = [indent + line for line in _render_headline(diff, screen, len(indent))]
    for line in diff.lines:  # a diff stays as it is: it can be copied
        parts = (
            wrap_text(line, screen.columns, first=inner, rest=f"{inner}  ")
            if diff.is_prose
            else [inner + line]
        )
        lines += [inner + _paint_line(part.removeprefix(inner), screen) for part in parts]
    return lines + wrap_text(diff.reason, screen.columns, first=inner, rest=inner)


def _render_inside(
    title: list[str],
    blocks: tuple[Block, ...],
    screen: Screen,
    indent: str,
    label: int,
    roomy: type[Block] = Panel,
) -> list[str]:
    """A section or a card: its title and what is in it; before another card, or another `roomy`
    block, is room.
    """
    lines = list(title)
    for number, block in enumerate(blocks):
        lines += [""] if number and isinstance(block, roomy) else []
        lines += block_lines(block, screen, indent + _IN, label)
    return lines


def _say(say: Say, screen: Screen, indent: str) -> list[str]:
    if say.code:
        return [f"{indent}{say.text} {say.code}"]
    words = f"{say.name}: {say.text}" if say.name else say.text
    lines = wrap_text(
        words, screen.columns, first=indent, rest=indent + (_IN if say.is_hanging else "")
    )
    if say.style:
        name, rest = (
            (lines[0][: len(say.name)], lines[0][len(say.name) :]) if say.name else ("", lines[0])
        )
        lines = [screen.paint(name, "bold") + screen.paint(rest, say.style)] + [
            screen.paint(line, say.style) for line in lines[1:]
        ]
    elif say.name:
        lines[0] = lines[0].replace(say.name, screen.paint(say.name, "bold"), 1)
    return lines


def _make_rows(items: Iterable[Item]) -> Iterator[tuple[str, ...]]:
    """Each head once beside all of its text."""
    last = None
    for item in items:
        texts = [text for text in (item.sentence, *map(_format_item, item.items)) if text]
        for number, text in enumerate(texts or [""]):
            yield item.head if not number and item.head != last else "", text
        last = item.head


def _format_item(item: Item) -> str:
    return (
        f"{item.head}{item.joint}{item.sentence}"
        if item.head and item.sentence
        else item.head or item.sentence
    )


def _render_item(item: Item, screen: Screen, indent: str, bullet: str = "") -> list[str]:
    """A point and those below it. One without words of its own begins with the first below."""
    below = item.items
    if item.head and not item.sentence and below and not item.look:
        item, below = Item(item.head, _format_item(below[0])), below[1:]
    lines = [f"{indent}{bullet}{item.head}"]
    if item.sentence or not item.look:
        rest = " " * len(bullet) or "    "
        text, first = _format_item(item), indent + bullet
        wrap = wrap_step if _is_step(item) else wrap_text
        lines = wrap(text, screen.columns, first=first, rest=indent + rest)
    if item.look == "strong":
        lines[0] = lines[0].replace(item.head, screen.paint(item.head, "bold"), 1)
    inner = indent + (_IN if item.look == "strong" else "    ")
    return lines + [line for one in below for line in _render_item(one, screen, inner)]


def _render_items(block: Items, screen: Screen, indent: str, label: int) -> list[str]:
    if block.is_aligned:
        return align_columns(list(_make_rows(block.items)), screen, indent=len(indent), first=label)
    bullet = "- " if block.has_bullets else ""
    return [line for item in block.items for line in _render_item(item, screen, indent, bullet)]


def _render_warnings(block: Warnings, screen: Screen) -> list[str]:
    return [
        screen.paint(line, "red")
        for text in block.texts
        for line in wrap_text(text, screen.columns, rest=_IN)
    ]


def _render_table(block: Table, screen: Screen, indent: str) -> list[str]:
    first, *rest = align_columns([block.header, *block.rows], screen, indent=len(indent))
    return [screen.paint(first, "dim"), *rest]


def _host_last(table: Table) -> Table:
    """The last column takes the rest of a line, and what is long wraps there."""
    return Table(
        (*table.header[1:], table.header[0]), tuple((*row[1:], row[0]) for row in table.rows)
    )


def _render_steps(block: Steps, screen: Screen) -> list[str]:
    if not block.steps[0][0]:
        return wrap_text(f"{block.title}: {block.steps[0][1]}", screen.columns, rest=_IN)
    if max(len(command) + len(why) for command, why in block.steps) + 4 <= screen.columns:
        return [block.title, *align_columns([*block.steps], screen, indent=2)]
    deeper = " " * 6
    lines = [block.title]
    for command, why in block.steps:
        lines += [f"  {command}", *wrap_text(why, screen.columns, first=deeper, rest=deeper)]
    return lines


def _render_heading(section: Section, screen: Screen) -> list[str]:
    style = [section.style] if section.style else []
    return [
        screen.paint(section.title, "bold", *style)
        + (f" ({section.count})" if section.count else "")
    ]


def _render_section(section: Section, screen: Screen, indent: str, label: int) -> list[str]:
    if section.label:
        return _render_labelled(section, screen)
    roomy: type[Block] = Say if section.is_prose else Panel
    return _render_inside(
        _render_heading(section, screen), section.blocks, screen, indent, label, roomy
    )


def _render_labelled(section: Section, screen: Screen) -> list[str]:
    """Each point on a line that begins with the label of its section; what follows it is at one
    column for all.
    """
    lines: list[str] = []
    rest = " " * (_LABEL if screen.columns < _NARROW else _HANG)
    least = len(rest) - _LABEL - 2
    for block in section.blocks:
        if not isinstance(block, (Items, Say)):
            lines += block_lines(block, screen, " " * _LABEL)
            continue
        items = block.items if isinstance(block, Items) else (Item("", block.text),)
        width = max(least, *(width_of(item.head) for item in items), 0)
        for item in items:
            points = [
                (_format_item(one) if one.head else f"    {one.sentence}", one)
                for one in item.items
            ]
            points = [(text, one) for text, one in points if text]
            texts = [text for text in (item.sentence, *(text for text, _ in points)) if text] or [
                ""
            ]
            head = f"{pad_text(item.head, width)}  " if item.head else " " * (len(rest) - _LABEL)
            first = pad_text(section.label, _LABEL) + head
            below = rest if _has_room(texts, screen.columns - len(rest)) else _IN
            own = wrap_text(texts[0], screen.columns, first=first, rest=below) or [first.rstrip()]
            # a word has no room beside the name
            if width_of(own[0]) > screen.columns or below is _IN:
                own = [
                    first.rstrip(),
                    *wrap_text(texts[0], screen.columns, first=below, rest=below),
                ]
            # Painted after the wrapping: escape sequences have no width, and would be counted.
            own[0] = own[0].replace(
                section.label, screen.paint(section.label, "bold", section.style), 1
            )
            lines += own
            for text, one in points if item.sentence else points[1:]:
                inner = below + " " * (len(text) - len(text.lstrip()))
                wrap = wrap_step if _is_step(one) else wrap_text
                lines += wrap(text, screen.columns, first=inner, rest=inner)
    return lines


def _is_step(item: Item) -> bool:
    return item.look == "label" and item.head in {"do", ""}


def _has_room(texts: Iterable[str], columns: int) -> bool:
    """Whether each word of the texts fits into so many columns, behind the blanks that its text
    begins with.
    """
    return all(
        len(text) - len(text.lstrip()) + max(map(width_of, text.split()), default=0) <= columns
        for text in texts
    )


def _render_title(card: Panel, screen: Screen, indent: str) -> list[str]:
    """What a card is about, and at the right edge its note."""
    title = indent + screen.paint(card.title, "bold")
    gap = screen.edge - len(indent) - width_of(card.title) - width_of(card.note)
    if gap < 2 and card.note:
        return [title, *wrap_text(card.note, screen.columns, first=indent + _IN, rest=indent + _IN)]
    return [title + pad_text("", gap) + screen.paint(card.note, "dim") if card.note else title]


def _render_headline(diff: Diff, screen: Screen, indent: int) -> list[str]:
    note = f"  ({diff.note})" if diff.note else ""
    below = wrap_text(note, screen.columns - indent, first="    ", rest="    ")
    first = f"{screen.paint(diff.symbol, 'bold', _COLOURS[diff.symbol])} {diff.name}"
    room = screen.columns - indent - width_of(diff.title)
    if not diff.values:
        return [first + note] if not note or room >= width_of(note) else [first, *below]
    if room >= width_of(note):
        return [f"{first}  {diff.values}{note}"]
    if room >= 0:
        return [f"{first}  {diff.values}", *below]
    name = (
        [first + note]
        if indent + width_of(f"x {diff.name}{note}") <= screen.columns
        else [first, *below]
    )
    if diff.before and diff.after and indent + 4 + width_of(diff.values) > screen.columns:
        return [
            *name,
            *(
                f"    {_paint_line(line, screen)}"
                for line in (f"- {diff.before}", f"+ {diff.after}")
            ),
        ]
    return [*name, f"    {diff.values}"]


def _paint_line(line: str, screen: Screen) -> str:
    colour = _COLOURS.get(line[:1])
    return screen.paint(line, colour) if colour else line


def _measure_label(blocks: Iterable[Block]) -> int:
    """The width of the widest head that is a column: one for sections that follow each other."""
    widths = [0]
    for block in blocks:
        if isinstance(block, (Section, Panel)):
            widths.append(_measure_label(block.blocks))
        elif isinstance(block, Items) and block.is_aligned:
            widths += [width_of(item.head) for item in block.items]
    return max(widths)


_LINES: dict[type[Block], Callable[[Any, Screen, str, int], list[str]]] = {
    Say: lambda say, screen, indent, _: _say(say, screen, indent),
    Lines: lambda block, screen, indent, _: [
        line for say in block.says for line in _say(say, screen, indent)
    ],
    Warnings: lambda block, screen, *_: _render_warnings(block, screen),
    Items: _render_items,
    Diff: lambda diff, screen, indent, _: diff_lines(diff, screen, indent),
    Fold: lambda *_: [],  # only a page can fold away
    CommandBlock: lambda block, screen, *_: [
        *wrap_text(block.why, screen.columns),
        f"{_IN}{block.text}",
    ],
    Steps: lambda block, screen, *_: _render_steps(block, screen),
    Table: lambda block, screen, indent, _: _render_table(block, screen, indent),
    Matrix: lambda block, screen, indent, _: [
        screen.paint(block.title, "bold"),
        *_render_table(_host_last(block.counted), screen, indent + _IN),
        *([indent + _IN + block.note] if block.note else []),
    ],
    Heading: lambda block, screen, *_: [
        screen.paint(block.title, "bold") + (f" ({block.note})" if block.note else "")
    ],
    Panel: lambda card, screen, indent, label: _render_inside(
        _render_title(card, screen, indent), card.blocks, screen, indent, label
    ),
    Section: _render_section,
}
