"""How the work of a function grows, counted instead of timed."""

import sys
from collections.abc import Callable


def count_calls(make: Callable[[], object]) -> int:
    """Calls of functions, which unlike seconds are the same on each machine."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(see)
    try:
        make()
    finally:
        sys.setprofile(None)
    return count
