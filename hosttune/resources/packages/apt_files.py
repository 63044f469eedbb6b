"""Which file and line gives one of apt's lists its values, in the order in which apt reads the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.apt_conf import files, settings_of
from hosttune.resources.read_only import ReadOnly
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Value


class AptFilesAddress(ReadOnly):
    """`apt-files:NAME`: who gives a list of apt's its values, each "VALUE<tab>FILE:LINE"; "#clear" for the value where
    a line empties it.
    """

    kind = "apt-files"

    def read(self, reader: Reader, name: str) -> Value:
        paths = files(reader)
        if isinstance(paths, Unreadable):
            return paths
        rows: list[str] = []
        for path in paths:
            content = reader.read(path)
            if isinstance(content, Unreadable):
                return content
            text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
            rows += [f"{value}\t{path}:{line}" for value, line in settings_of(text, name)]
        return tuple(rows)


ADDRESSES = (AptFilesAddress(),)
