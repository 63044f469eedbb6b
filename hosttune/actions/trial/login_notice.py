"""What people see when they log in: files of /run/motd.d, which pam_motd(8) shows, and no boot
keeps.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.values import FileValue, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Writer
    from hosttune.host.masking.cleaned import Cleaned


def show_at_login(writer: Writer, path: str, text: Cleaned) -> None:
    """Put a text there, or take it away where it is empty. Never raises: nothing hangs on a
    notice.
    """
    content = f"{text}\n".encode() if text else b""
    with suppress(HosttuneError):
        present = writer.read(path)
        if isinstance(present, Unreadable) or present == content:
            return
        if content:
            writer.replace(path, FileValue(content), expected=present)
        elif isinstance(present, bytes):
            writer.remove(path, expected=present)
