"""The numbers of the lines of a text, for what is found in it."""

from __future__ import annotations

from typing import AnyStr, Generic


class LineNumbers(Generic[AnyStr]):
    """The number of the line, from 1, in which a position of the text is. It counts on from the
    position that was asked last: to count from the start for each of many places takes quadratic
    time.
    """

    __slots__ = ("_at", "_feed", "_line", "_text")

    def __init__(self, text: AnyStr) -> None:
        self._text: AnyStr = text
        self._feed: AnyStr = "\n" if isinstance(text, str) else b"\n"
        self._at, self._line = 0, 1

    def at(self, position: int) -> int:
        if position >= self._at:
            self._line += self._text.count(self._feed, self._at, position)
        else:
            self._line -= self._text.count(self._feed, position, self._at)
        self._at = position
        return self._line
