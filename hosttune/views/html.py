"""Documents as one HTML file: nothing is loaded, and without JavaScript it only filters less.

Jinja2 escapes every text. The page's own policy (Content-Security-Policy) allows the one style and the one script in
it by their hashes, and nothing else.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING

from hosttune.rendering import render
from hosttune.views.document import Items, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.views.document import Document

_SIGNS = {"+": "added", "-": "removed", "@": "place"}


def html(report: str, documents: Sequence[Document], *, is_filtered: bool = False) -> str:
    """A page with a section for each document, and an overview of several; `is_filtered`: with a form that shows it in
    part, by the keys of its sections and the groups of what is in them.
    """
    name = documents[0].name if len(documents) == 1 else f"{len(documents)} hosts"
    keyed = [one for each in documents for one in each.blocks if is_filtered and isinstance(one, Section) and one.key]
    lists = [block for section in keyed for block in section.blocks if isinstance(block, Items)]
    style, script = render("report.css"), render("report.js")
    return render(
        "document.html.j2",
        title=f"{report}: {name}",
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        documents=documents,
        outcomes=list({section.key: section for section in keyed}.values()),
        groups=sorted({item.group for block in lists for item in block.items}),
        signs=_SIGNS,
    )


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy: the element with exactly this text."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
