"""Settings of systemd's own programs: sleep.conf, logind.conf and their like, merged as systemd merges them.

The main file is the first of those in /etc, /run and /usr/lib; then come all NAME.d/*.conf by the names of the files,
of which one in /etc hides those of the same name in /run and /usr/lib; the last value counts (systemd.syntax(7),
logind.conf(5), "Configuration Directories and Precedence").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import text
from hosttune.facts.services.unit_files import assignments
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.host.door import Reader

_ROOTS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")


def parse(content: str, section: str) -> Mapping[str, str]:
    """KEY=VALUE of one section; the last of several counts."""
    return {key: value for _, its, key, value in assignments(content) if its == section}


def settings(reader: Reader, name: str, section: str) -> Mapping[str, tuple[str, str]] | Unreadable:
    """Key -> (value, the file that sets it last), of `name` (logind.conf)."""
    paths = files_of(reader, name)
    if isinstance(paths, Unreadable):
        return paths
    found: dict[str, tuple[str, str]] = {}
    for path in paths:
        content = text(reader, path)
        if isinstance(content, Unreadable):
            return content
        if isinstance(content, str):
            found |= {key: (value, path) for key, value in parse(content, section).items()}
    return found


def files_of(reader: Reader, name: str) -> tuple[str, ...] | Unreadable:
    """The files of `name` (logind.conf) in the order in which they are read."""
    files: dict[str, str] = {}
    for root in reversed(_ROOTS):
        names = reader.list(f"{root}/{name}.d")
        if isinstance(names, Unreadable):
            return names
        files |= {one: f"{root}/{name}.d/{one}" for one in (names if isinstance(names, tuple) else ())}
    return (*_main(reader, name), *(files[one] for one in sorted(files) if one.endswith(".conf")))


def _main(reader: Reader, name: str) -> tuple[str, ...]:
    paths = (f"{root}/{name}" for root in _ROOTS)
    return tuple(path for path in paths if isinstance(text(reader, path), (str, Unreadable)))[:1]
