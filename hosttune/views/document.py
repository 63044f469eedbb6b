"""A report as a document: what it says and in which order, written once, in whatever format it is
shown.

One function per report builds it of the values (`check_outline`, `plan_outline`, ...); `text`,
`markdown` and `html` show it, and know nothing of rules. Every text in it is escaped for a terminal
and masked already (`page.shown`); what means something in its own format, a renderer escapes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.verdict_words import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.views.page import Page


class Medium(str, Enum):
    """Where a document goes. A terminal is short, a page folds away what is not for everybody."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


class Block:
    """A part of a document."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """What it is, as the template of a page asks."""
        return type(self).__name__


@frozen
class Say(Block):
    """A paragraph. `name` is whom it is of, which a text puts before it, and others in a
    heading.
    """

    text: str
    role: str = ""  # machine, decision, or note: how a page dresses it
    name: str = ""
    style: str = ""
    is_hanging: bool = False  # its second line further in
    code: str = ""  # behind the text, as it has to be copied
    link: str = ""  # where the code leads in a page
    more: str = ""  # the text in full, where a page folds it away


@frozen
class Lines(Block):
    """Sentences that stand together; their title is left out where they are the end of a text."""

    title: str
    says: tuple[Say, ...]


@frozen
class Warnings(Block):
    """What has to be known before the rest."""

    texts: tuple[str, ...]


@frozen
class Item:
    """One point of a list: what it is about, its text, and points of its own."""

    head: str = ""
    text: str = ""
    items: tuple[Item, ...] = ()
    joint: str = ": "
    look: str = ""  # of the head: strong, code, or label
    more: str = ""  # the text in full, where a page folds it away
    group: str = ""  # by which a page filters
    about: str = ""  # what the head means, where there is room
    link: str = ""  # a page about the head
    evidence: tuple[str, ...] = ()  # behind the text in parentheses; a page lists it
    folded: tuple[Block, ...] = ()  # what a page folds away

    @property
    def sentence(self) -> str:
        """The text with its evidence."""
        proof = ", ".join(self.evidence)
        return f"{self.text} ({proof})" if self.text and proof else self.text or proof


@frozen
class Items(Block):
    """A list; `is_aligned`: with its heads as a column, `has_bullets`: in a text, too."""

    items: tuple[Item, ...]
    is_aligned: bool = False
    has_bullets: bool = False


@frozen
class Diff(Block):
    """One change: what it is done to, what was and what comes, line by line where that has
    lines.
    """

    symbol: str  # + ~ -
    name: str
    before: str  # what is there, empty where the lines tell it
    after: str
    note: str  # what is beside the title
    lines: tuple[str, ...] = ()
    is_prose: bool = False  # the lines are sentences, not a diff
    reason: str = ""

    @property
    def values(self) -> str:
        """`60 -> 10`, `(was 10)` or `10`."""
        if not self.after:
            return f"(was {self.before})" if self.before else ""
        return f"{self.before} -> {self.after}" if self.before else self.after

    @property
    def title(self) -> str:
        """The change on one line."""
        return f"{self.symbol} {self.name}{'  ' if self.values else ''}{self.values}"


@frozen
class CommandBlock(Block):
    """Something to copy, so it is never broken, and what for."""

    why: str
    text: str
    language: str = "sh"


@frozen
class Steps(Block):
    """Commands and what each does; a step without one is a sentence."""

    title: str
    steps: tuple[tuple[str, str], ...]


@frozen
class Table(Block):
    """Rows below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@frozen
class Matrix(Block):
    """Hosts by rules: `rows` hold a host and its state (a key of STATES, or nothing) for each
    column. Only a page has room for the columns; other media count.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""

    @property
    def states(self) -> tuple[str, ...]:
        """Those that occur, the worst first."""
        found = {state for _, states in self.rows for state in states}
        return tuple(state for state in STATES if state in found)

    @property
    def counted(self) -> Table:
        """How many rules are in which state, host by host."""
        header = ("Host", *(STATES[state].label for state in self.states))
        numbers = (
            (name, *(str(own.count(state) or "-") for state in self.states))
            for name, own in self.rows
        )
        return Table(header, tuple(numbers))


@frozen
class Heading(Block):
    """The beginning of what follows: a stage, or a host."""

    title: str
    note: str = ""


@frozen
class Panel(Block):
    """One thing and what belongs to it: a rule of a plan, a run."""

    title: str
    blocks: tuple[Block, ...]
    note: str = ""  # at its right
    about: str = ""


@frozen
class Section(Block):
    """A part under a heading; `key` is what a page filters it by."""

    title: str
    blocks: tuple[Block, ...]
    style: str = ""
    count: str = ""
    key: str = ""
    is_alarm: bool = False  # it belongs to the head of a page
    is_quiet: bool = False  # a page folds it away
    is_prose: bool = False  # paragraphs, with room between them
    label: str = ""  # on a terminal each point begins with it, in place of the heading


@frozen
class Fold(Block):
    """What a page shows when it is asked to; no other medium is given any."""

    title: str
    blocks: tuple[Block, ...]


@frozen
class Document:
    """A report. `title` heads it; it is empty where the document is the whole report, and of no
    single host.
    """

    name: str  # whose it is
    title: str
    head: tuple[Block, ...]  # stand together
    blocks: tuple[Block, ...]
    made: str = ""  # by what and when
    status: str = ""  # why the command ends with 1, for a terminal
    # each in a line, for the end of a terminal that its finding has left
    faults: tuple[str, ...] = ()


def render_documents(
    report: str,
    documents: Sequence[Document],
    page: Page,
    *,
    is_filtered: bool = False,
    summary: Sequence[Block] = (),
) -> str:
    """The documents in the medium of the page, which is imported when it is asked for; `report` is
    what they are called together (`hosttune check`), `is_filtered` offers to show a page in part,
    `summary` heads a page of several hosts.
    """
    if page.medium is Medium.MARKDOWN:
        from hosttune.views.markdown import render_markdown

        return render_markdown(report, documents)
    if page.medium is Medium.HTML:
        from hosttune.views.html import render_html

        return render_html(report, documents, is_filtered=is_filtered, summary=summary)
    from hosttune.views.text import render_text

    return "\n\n".join(render_text(one, page.screen) for one in documents)
