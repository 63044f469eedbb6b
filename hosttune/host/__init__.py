"""The one door to the system: everything hosttune reads or writes goes through a Reader or a Writer.

live: the running host. rooted: an alternate root. record: one file, replayed. overlay: changes in memory over any of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from hosttune.host.door import Reader, Writer


def open_reader(*, root: str | None = None, host: str | None = None, hardware: str | None = None) -> Reader:
    """The reader that the command line asks for: --root DIR [--hardware RECORD], --host RECORD, or the running host."""
    if host and (root or hardware):
        raise HosttuneError("--host cannot be combined with --root or --hardware", hint="a record has its own hardware")
    if hardware and not root:
        raise HosttuneError("--hardware needs --root", hint="to look at a record alone: --host RECORD")
    if host:
        from hosttune.host.record import read_record

        return read_record(host)
    if root and root != "/":
        from hosttune.host.rooted import RootReader

        return RootReader(root, _hardware(hardware))
    from hosttune.host.live import LiveReader

    return LiveReader()


def open_writer(*, root: str | None = None, hardware: str | None = None) -> Writer:
    """As `open_reader`, for `apply` and `undo`. A record cannot be changed."""
    if root and root != "/":
        from hosttune.host.rooted import RootWriter

        return RootWriter(root, _hardware(hardware))
    from hosttune.host.live import LiveWriter

    return LiveWriter()


def _hardware(path: str | None) -> Reader | None:
    from hosttune.host.record import read_record

    return read_record(path) if path else None
