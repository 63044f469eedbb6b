"""Documents as one HTML file: nothing is loaded, and without JavaScript it only filters and copies
less.

Jinja2 escapes every text. The page's own policy (Content-Security-Policy) allows the one style and
the one script in it by their hashes, and nothing else.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from hosttune.regex import regex
from hosttune.rendering import render
from hosttune.verdict_words import STATES
from hosttune.views.document import Items, Section
from hosttune.views.step_commands import find_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hosttune.views.document import Block, Document, Item

_SIGNS = {"+": "added", "-": "removed", "@": "place"}
_NOT_IN_AN_ID = regex(r"[^A-Za-z0-9_-]+")
_CODE = regex(r"`([^`]+)`")
# of a table of hosts
_LETTERS = {**{state: word.label[:1] for state, word in STATES.items()}, "orphaned": "P"}


def render_html(
    report: str,
    documents: Sequence[Document],
    *,
    is_filtered: bool = False,
    summary: Sequence[Block] = (),
) -> str:
    """A page with a section for each document, and an overview of several, with the `summary`;
    `is_filtered`: with a form that shows it in part, by the keys of its sections and the groups of
    what is in them.
    """
    name = documents[0].name if len(documents) == 1 else f"{len(documents)} hosts"
    keyed = [
        one
        for each in documents
        for one in each.blocks
        if is_filtered and isinstance(one, Section) and one.key
    ]
    lists = [block for section in keyed for block in section.blocks if isinstance(block, Items)]
    style, script = render("report.css"), render("report.js")
    anchors, targets = _make_anchors(documents)
    return render(
        "document.html.j2",
        title=f"{report}: {name}",
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        documents=documents,
        summary=summary,
        outcomes=list({section.key: section for section in keyed}.values()),
        groups=sorted({item.group for block in lists for item in block.items}),
        signs=_SIGNS,
        top=2 if len(documents) == 1 else 3,
        anchor=lambda item: anchors.get(id(item), ""),
        targets=targets,
        pieces=_split_pieces,
        verdicts=STATES,
        letters=_LETTERS,
    )


def _make_anchors(documents: Sequence[Document]) -> tuple[dict[int, str], Mapping[str, str]]:
    """The anchor of each finding, by the id() of its point; and where the name of a host or, of one
    document, of a rule leads.
    """
    anchors: dict[int, str] = {}
    targets: defaultdict[str, str] = defaultdict(str)
    taken: set[str] = {"report"}
    numbers: Counter[str] = Counter()
    for number, one in enumerate(documents):
        host = f"host-{number}"
        taken.add(host)
        if len(documents) > 1:  # two hosts of one name have no link
            targets[one.name] = "" if one.name in targets else host
        for item in _list_findings(one):
            name = _NOT_IN_AN_ID.sub("-", item.head)
            first = name if len(documents) == 1 else f"{host}-{name}"
            anchor = first
            while anchor in taken:
                numbers[first] += 1
                anchor = f"{first}-{numbers[first] + 1}"
            taken.add(anchor)
            anchors[id(item)] = anchor
            if len(documents) == 1:
                targets[item.head] = targets[item.head] or anchor
    return anchors, targets


def _list_findings(document: Document) -> Iterator[Item]:
    for section in document.blocks:
        if isinstance(section, Section) and section.key:
            for block in section.blocks:
                if isinstance(block, Items):
                    yield from block.items


def _split_pieces(text: str, is_step: bool) -> Iterator[tuple[str, str]]:  # noqa: FBT001 - called by the template
    """A text in pieces, each with its kind: `code` for what is in backticks, `command` for what a
    step has people type, or nothing. In what a host says nothing is a command: a button would copy
    it.
    """
    if is_step and (place := find_command(text)):
        begin, end = place
        yield from _split_pieces(text[:begin], False)
        yield "command", text[begin:end]
        yield from _split_pieces(text[end:], False)
        return
    last = 0
    for span in _CODE.finditer(text):
        yield "", text[last : span.start()]
        yield "code", span[1].rstrip()
        last = span.end()
    yield "", text[last:]


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy: the element with exactly this text."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
