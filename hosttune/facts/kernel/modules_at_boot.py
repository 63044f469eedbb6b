"""The modules that systemd-modules-load loads at boot by name (modules-load.d(5); /etc/modules of Debian is a link)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import names_in, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

_FOLDERS = (
    "/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d",
    "/lib/modules-load.d",
)  # fmt: skip


def modules_at_boot(reader: Reader) -> Iterator[tuple[str, str]]:
    """(path of the file, name as it is written there)."""
    paths = ["/etc/modules"]
    for folder in _FOLDERS:
        paths += [f"{folder}/{name}" for name in names_in(reader, folder) if name.endswith(".conf")]
    for path, content in texts(reader, paths):
        names = (line.strip() for line in content.splitlines())
        yield from ((path, name) for name in names if name and not name.startswith(("#", ";")))
