"""Which door to open: the running host, an alternate root, or a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from hosttune.host.door import Reader, Writer


def open_reader(*, root: str | None = None, host: str | None = None, hardware: str | None = None) -> Reader:
    """A Reader for this host, for the files below `root` (hardware facts from the record `hardware`), or for the record `host`."""
    if host is not None:
        if root is not None:
            raise HosttuneError("--host and --root exclude each other", hint="a record is a whole host; --root is a folder")
        from hosttune.host.record import read_record

        return read_record(host)
    if root is not None:
        from hosttune.host.rooted import RootReader

        return RootReader(root, open_reader(host=hardware) if hardware else None)
    if hardware is not None:
        raise HosttuneError("--hardware needs --root", hint="look at a recorded host with --host FILE")
    from hosttune.host.live import LiveReader

    return LiveReader()


def open_writer(*, root: str | None = None, hardware: str | None = None) -> Writer:
    """A Writer for this host or for the files below `root`. Only `apply` and `undo` call this."""
    if root is not None:
        from hosttune.host.rooted import RootWriter

        return RootWriter(root, open_reader(host=hardware) if hardware else None)
    from hosttune.host.live import LiveWriter

    return LiveWriter()
