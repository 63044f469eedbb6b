"""What still uses files that a transaction of apt has replaced.

needrestart would restart services behind apt's back, jobs of a scheduler and containers with them; so it is suspended
for what hosttune runs (host/process.py), and asked afterwards what it would have done (needrestart(1)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.door import Completed
from hosttune.resources.packages import apt
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader
    from hosttune.values import Outcome


def restarts_left(outcomes: Iterable[Outcome], reader: Reader) -> tuple[str, ...]:
    """One sentence that names the services, where packages were changed and needrestart is installed."""
    if not any(outcome.change.address.kind == "package-set" for outcome in outcomes):
        return ()
    answer = reader.query(apt.NEEDRESTART, timeout_s=apt.LOOK_TIMEOUT_S)
    if isinstance(answer, Unreadable):
        return (f"needrestart waits: it did not say which services use replaced files ({answer.reason})",)
    units = apt.restarts(answer.text) if isinstance(answer, Completed) else ()
    if not units:
        return ()
    names = ", ".join(units)
    return (f"a restart of {names} waits: needrestart says that replaced files are in use; sudo needrestart does it",)
