"""The terms of a trial, as it was asked for: how long, and who confirms. Pure."""

from __future__ import annotations

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Confirmer

LEAST_S, MOST_S = 120, 24 * 3600
# The last deadline of a boot on trial that is not confirmed: so long work on its GPUs may go on
# before the reboot that rolls it back. Who holds a GPU is any local user's choice, so the host does
# not wait for its end without a bound.
LAST_S = 3600
_SPAN = regex(r"([1-9][0-9]{0,5})(s|m|h)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}


@frozen
class TrialTerms:
    """The terms of a trial, as it was asked for."""

    # for each part: what takes effect now, and what takes effect at the next boot; monotonic
    # seconds
    within_s: int
    by: Confirmer = Confirmer.OPERATOR
    boot: bool = True  # False: what takes effect at the next boot is made as without a trial


def span_s(text: str) -> int:
    """`15m`, `90s`, `2h` in seconds. Raises HosttuneError for what is none, or is below 2 minutes
    or above a day.
    """
    found = _SPAN.fullmatch(text)
    seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
    if not LEAST_S <= seconds <= MOST_S:
        raise HosttuneError(
            f"{text!r} is no time for a trial", hint="between 2m and 24h, such as 15m"
        )
    return seconds
