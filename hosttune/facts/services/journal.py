"""Whether what the system log holds outlives a boot.

journald.conf(5), Storage=: `auto`, the default, keeps it on disk where /var/log/journal exists (Debian's and Ubuntu's
package makes that folder); `volatile` and `none` keep it until the next boot, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, make_shared
from hosttune.facts.reading import is_there
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.facts.placed import Placed
    from hosttune.host.door import Reader

FOLDER = "/var/log/journal"
_STORAGE = "journald.conf/Journal/Storage"
_OURS = "60-hosttune-services-journal.conf"


@frozen
class SystemdJournal(Fact):
    """The journal of systemd."""

    storage: str  # Storage=, in lower case; auto where no file sets it
    has_folder: bool  # /var/log/journal is there
    is_kept: bool  # it outlives a boot, also without what hosttune wrote


def collect(reader: Reader, facts: Facts) -> SystemdJournal:
    values = make_shared(lambda: facts.unit_settings[_STORAGE].values)
    has_folder = make_shared(is_there, reader, FOLDER)
    return SystemdJournal(
        storage=lazy(lambda: _get_last(values())),
        has_folder=lazy(has_folder),
        is_kept=lazy(lambda: _is_kept(_get_last(one for one in values() if one.file_name != _OURS), has_folder)),
    )


def _get_last(values: Iterable[Placed]) -> str:
    return (["auto", *(one.value.lower() for one in values if one.value)])[-1]


def _is_kept(storage: str, has_folder: Callable[[], bool]) -> bool:
    return storage == "persistent" or (storage not in {"volatile", "none"} and has_folder())
