"""The one door to the system: everything hosttune reads or writes goes through a Reader or a
Writer.

live: the running host. rooted: an alternate root. record: one file, replayed. overlay: changes in
memory over any of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from hosttune.host.door import Reader, Writer


def open_reader(
    *, root: str | None = None, host: str | None = None, hardware: str | None = None
) -> Reader:
    """The reader that the command line asks for: --root DIR [--hardware RECORD], --host RECORD, or
    the running host.

    In a chroot `/` is the image, as if --root named it.
    """
    if host and (root or hardware):
        raise HosttuneError(
            "--host cannot be combined with --root or --hardware",
            hint="a record has its own hardware",
        )
    if host:
        from hosttune.host.record.record import read_record

        return read_record(host)
    folder = _find_image(root)
    if hardware and not folder:
        raise HosttuneError(
            "--hardware needs --root", hint="to look at a record alone: --host RECORD"
        )
    if folder:
        from hosttune.host.reading.rooted import RootReader

        return RootReader(folder, _find_hardware(hardware))
    from hosttune.host.reading.live import LiveReader

    _leave_callers_place()
    return LiveReader()


def open_writer(*, root: str | None = None, hardware: str | None = None) -> Writer:
    """As `open_reader`, for `apply` and `undo`. A record cannot be changed."""
    if folder := _find_image(root):
        from hosttune.host.reading.rooted import RootWriter

        return RootWriter(folder, _find_hardware(hardware))
    from hosttune.host.reading.live import LiveWriter

    _leave_callers_place()
    return LiveWriter()


def _leave_callers_place() -> None:
    """What is found and done on the running host does not depend on the shell that started this
    process.
    """
    from hosttune.host.inherited import lift_limits, require_network_of_host

    require_network_of_host()
    lift_limits()


def _find_image(root: str | None) -> str | None:
    """The folder whose files are another system than the one that runs here; None for that one.
    Raises HosttuneError for a folder that holds no system.
    """
    from hosttune.host.reading.running import is_running_root

    if root is None or _is_root_folder(root):
        return None if is_running_root() else "/"
    from hosttune.host.reading.rooted import check_system

    check_system(root)
    return root


def _is_root_folder(path: str) -> bool:
    try:
        # The text of /proc/PID/root is `/` wherever it leads, and a bind mount of `/` has the same
        # inode. Only both together mean the root itself.
        return os.path.realpath(path) == "/" and os.path.samefile(path, "/")
    except OSError:  # who opens it says why
        return False


def _find_hardware(path: str | None) -> Reader | None:
    if path is None:
        return None
    from hosttune.host.record.record import read_record

    return read_record(path)
