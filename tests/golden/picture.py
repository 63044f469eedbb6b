"""A picture of a terminal: text with the colours of a terminal as SVG, for dark and light pages."""

from __future__ import annotations

import re
from html import escape

_CODE = re.compile(r"\x1b\[([0-9;]*)m")
_STYLES = {
    "1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "l", "35": "m", "36": "c",
}  # fmt: skip
_CSS = """\
svg{background:#fafafa}text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#24292f;white-space:pre}
.b{font-weight:700}.d{fill:#59636e}.r{fill:#c1121f}.g{fill:#1a7f37}.y{fill:#7d5200}.l{fill:#0550ae}.m{fill:#8250df}.c{fill:#0a6c74}
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}
.d{fill:#9198a1}.r{fill:#ff7b72}.g{fill:#56d364}.y{fill:#e3b341}.l{fill:#79c0ff}.m{fill:#d2a8ff}.c{fill:#56d4dd}}"""
_ROW, _CHAR, _EDGE = 20, 8.43, 12  # pixels of a row, of a character of 14 px, of the margin


def svg(text: str, columns: int, title: str) -> str:
    """`text`, with escape sequences of colours (ECMA-48, SGR), as a picture `columns` wide."""
    lines = text.rstrip("\n").split("\n")
    height = len(lines) * _ROW + 2 * _EDGE
    rows = [
        f'<text x="{_EDGE}" y="{_EDGE + _ROW * number + 15}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
        if line
    ]
    size = f'viewBox="0 0 {round(columns * _CHAR) + 2 * _EDGE} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">\n<title>{escape(title)}</title>'
    return "\n".join([head, f"<style>\n{_CSS}\n</style>", *rows, "</svg>\n"])


def _spans(line: str) -> str:
    classes: set[str] = set()
    spans = []
    for index, part in enumerate(_CODE.split(line)):
        if index % 2:
            codes = part.split(";")
            classes = (set() if {"", "0"} & set(codes) else classes) | {
                _STYLES[one] for one in codes if one in _STYLES
            }
        elif part:
            text = escape(part, quote=False)
            spans.append(
                f'<tspan class="{" ".join(sorted(classes))}">{text}</tspan>' if classes else text
            )
    return "".join(spans)
