"""What is in /tmp. Counting it walks the disk, so this is asked last: only where the count decides
or is shown.
"""

from __future__ import annotations

from hosttune.facts.reading import if_absent
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Usage


@frozen
class Filling(Subject):
    """Of a file system mounted at /tmp what is used of it; of a folder of a larger one what was
    counted.
    """

    @fact
    def used_bytes(self) -> int:
        """Of /tmp, as far as it was counted."""
        return (
            self.facts.tmp.disk_used_bytes if self.facts.tmp.is_mount else self._counted.size_bytes
        )

    @fact
    def entries(self) -> int:
        """Files and folders counted on the disk; 0 where the space of the mount was asked
        instead.
        """
        return self._counted.entries

    @fact
    def is_complete(self) -> bool:
        """False: there is more than `used_bytes` and `entries` say."""
        return self._counted.is_complete

    @fact
    def _counted(self) -> Usage:
        """What was counted in /tmp; nothing where it is a file system of its own."""
        # Of a file system of its own statvfs(3) knows all, without a walk through files of users.
        nothing = Usage(0, 0, is_complete=True)
        return nothing if self.facts.tmp.is_mount else if_absent(self.reader.usage("/tmp"), nothing)
