"""A document as Markdown (CommonMark with GitHub's fences and tables), to paste into a pull request
or a ticket.

Text from outside cannot format anything, link, or call a person: it is escaped, commands and values
stand as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hosttune.regex import regex
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.views.document import Document

_SPECIAL = regex(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
# what would begin a list or a heading at the beginning of a line
_BEGINS = regex(r"(\d*)(?:[.)]|[-+=#]+)(?:\s|$)")
# a command that is in backticks already; @someone and #123, which a forge makes a call or a link of
_CODE = regex(r"`([^`]+)`|((?<![\w/.])[@#]\w[\w/-]*)")


def render_markdown(report: str, documents: Sequence[Document]) -> str:
    """The documents one below the other, each under its title; of several, or of one without, the
    report is named.
    """
    parts = [] if len(documents) == 1 and documents[0].title else [[f"# {report}"]]
    for one in documents:
        level = 2 if one.title else 1
        parts += [[f"## {escape_text(one.title)}"]] if one.title else []
        parts += [_render_block(block, level + 1) for block in (*one.head, *one.blocks)]
        parts += [[f"*{escape_text(one.made)}*"]] if one.made else []
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def escape_text(text: str) -> str:
    """Text that means itself in Markdown; what is quoted as code, or would call someone, becomes
    code.
    """
    parts, last = [], 0
    for span in _CODE.finditer(text):
        parts += [
            _SPECIAL.sub(r"\\\g<0>", text[last : span.start()]),
            quote_code(span[1] or span[2]),
        ]
        last = span.end()
    return "".join(parts) + _SPECIAL.sub(r"\\\g<0>", text[last:])


def quote_code(text: str) -> str:
    """Text as a code span, whatever backticks it holds."""
    # One more than any run inside: CommonMark has no escape in a code span.
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fence_lines(lines: Iterable[str], language: str, *, indent: str = "") -> list[str]:
    """Lines as a code block, whatever backticks they hold."""
    body = list(lines)
    fence = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return [
        f"{indent}{fence}{language}",
        *(f"{indent}{line}".rstrip() for line in body),
        f"{indent}{fence}",
    ]


def make_cell(text: str) -> str:
    """Markdown that is in a table."""
    # A newline ends a row, and a bar ends a cell even in a code span (GFM, tables).
    return " ".join(text.split()).replace("|", "\\|")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _render_block(block: Block, level: int) -> list[str]:
    """A block without the blank lines around it; headings are of this level."""
    return _LINES[type(block)](block, "#" * level)


def _render_inside(heading: list[str], blocks: Iterable[Block], level: int) -> list[str]:
    """A heading and the blocks below it; changes are one list."""
    lines, is_list = list(heading), False
    for block in blocks:
        lines += [
            *([] if is_list and isinstance(block, Diff) else [""]),
            *_render_block(block, level),
        ]
        is_list = isinstance(block, Diff)
    return lines


def _render_section(section: Section, mark: str) -> list[str]:
    count = f" ({section.count})" if section.count else ""
    return _render_inside(
        [f"{mark} {escape_text(section.title)}{count}"], section.blocks, len(mark)
    )


def _render_card(card: Panel, mark: str) -> list[str]:
    note = ["", escape_text(card.note)] if card.note else []
    return _render_inside([f"{mark}# {escape_text(card.title)}", *note], card.blocks, len(mark) + 1)


def _render_steps(block: Steps, mark: str) -> list[str]:
    steps = (
        " ".join(filter(None, (quote_code(command) if command else "", escape_text(why))))
        for command, why in block.steps
    )
    return [f"{mark} {escape_text(block.title)}", "", *(f"- {step}" for step in steps)]


def table_lines(header: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table of cells that are Markdown already."""
    return [f"| {' | '.join(row)} |" for row in (header, ("---",) * len(header), *rows)]


def _render_table(table: Table) -> list[str]:
    return table_lines(
        [*map(escape_text, table.header)], (map(escape_text, row) for row in table.rows)
    )


def _render_say(say: Say) -> str:
    return (
        f"{_escape_begin(say.text)} {quote_code(say.code)}" if say.code else _escape_begin(say.text)
    )


def _escape_begin(text: str) -> str:
    """Text at the beginning of a line."""
    begins = _BEGINS.match(text)
    return f"{begins[1]}\\{escape_text(text[len(begins[1]) :])}" if begins else escape_text(text)


def _render_item(item: Item, indent: str) -> list[str]:
    head = escape_text(item.head)
    head = (
        quote_code(item.head)
        if item.look == "code"
        else f"**{head}**"
        if item.look == "strong"
        else _escape_begin(item.head)
    )
    text = escape_text(item.sentence) if item.head else _escape_begin(item.sentence)
    words = f"{head}{item.joint}{text}" if item.head and text else head or text
    return [
        f"{indent}- {words}",
        *(line for one in item.items for line in _render_item(one, f"{indent}  ")),
    ]


def _render_diff(diff: Diff) -> list[str]:
    note = f" ({escape_text(diff.note)})" if diff.note else ""
    lines = [f"- {quote_code(diff.title)}{note}"]
    lines += fence_lines(diff.lines, "diff", indent="  ") if diff.lines else []
    return [*lines, *([f"  {escape_text(diff.reason)}"] if diff.reason else [])]


_LINES: dict[type[Block], Callable[[Any, str], list[str]]] = {
    Say: lambda say, _: [_render_say(say)],
    Lines: lambda block, mark: [
        f"{mark} {escape_text(block.title)}",
        "",
        *(f"- {_render_say(say)}" for say in block.says),
    ],
    Warnings: lambda block, _: [f"> {escape_text(text)}  " for text in block.texts],
    Items: lambda block, _: [line for item in block.items for line in _render_item(item, "")],
    Diff: lambda diff, _: _render_diff(diff),
    Fold: lambda *_: [],  # only a page can fold away
    CommandBlock: lambda block, _: [
        escape_text(block.why),
        "",
        *fence_lines([block.text], block.language),
    ],
    Steps: _render_steps,
    Table: lambda table, _: _render_table(table),
    Matrix: lambda block, mark: [
        *(f"{mark} {escape_text(block.title)}", "", *_render_table(block.counted)),
        *(("", escape_text(block.note)) if block.note else ()),
    ],
    Heading: lambda block, mark: [
        f"{mark} {escape_text(block.title)}{f' ({escape_text(block.note)})' if block.note else ''}"
    ],
    Panel: _render_card,
    Section: _render_section,
}
