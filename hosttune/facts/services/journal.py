"""Whether what the system log holds outlives a boot.

journald.conf(5), Storage=: `auto`, the default, keeps it on disk where /var/log/journal exists
(Debian's and Ubuntu's package makes that folder); `volatile` and `none` keep it until the next
boot, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import is_there
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts.placed import Placed

FOLDER = "/var/log/journal"
_STORAGE = "journald.conf/Journal/Storage"
_OURS = "60-hosttune-services-journal.conf"


@frozen
class SystemdJournal(Subject):
    """The journal of systemd."""

    @fact
    def storage(self) -> str:
        """Storage=, in lower case; auto where no file sets it."""
        return _get_last(self._values)

    # /var/log/journal is there
    has_folder: bool = read_with(lambda self: is_there(self.reader, FOLDER))

    @fact
    def is_kept(self) -> bool:
        """It outlives a boot, also without what hosttune wrote."""
        # hosttune's own file is left out: because of it the rule would have nothing to do.
        storage = _get_last(one for one in self._values if one.file_name != _OURS)
        return storage == "persistent" or (storage not in {"volatile", "none"} and self.has_folder)

    @fact
    def _values(self) -> tuple[Placed, ...]:
        return self.facts.unit_settings[_STORAGE].values


def _get_last(values: Iterable[Placed]) -> str:
    return (["auto", *(one.value.lower() for one in values if one.value)])[-1]
