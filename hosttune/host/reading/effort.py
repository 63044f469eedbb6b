"""How much was read so far, in bytes, and gone through, in items, by this thread.

Rules of records and images can ask for thousands of names. What each look costs is known only here
and in the facts, and charged where rules are evaluated (engine/expressions/evaluation.py).
"""

from __future__ import annotations

import threading
from typing import TypeVar

T = TypeVar("T", bytes, tuple[str, ...])


class _Effort(threading.local):
    spent = 0


EFFORT = _Effort()


def count_content(content: T) -> T:
    """The content of a file, or the names of a folder, once its length is counted."""
    EFFORT.spent += len(content) if isinstance(content, bytes) else sum(map(len, content))
    return content
