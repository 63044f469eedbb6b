"""Words of a line as a shell reads them, for the programs that borrow its quotes."""

from __future__ import annotations

import shlex

# shlex adds one character after the other to a word, which takes quadratic time. No line of a
# person is this long.
LONGEST = 16384


def shell_words(line: str) -> list[str]:
    """The words of a line, without a comment at its end. Quotes that do not end, and all quotes of
    a line longer than LONGEST, are taken as they are.
    """
    if len(line) > LONGEST:
        return line.split()
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()
