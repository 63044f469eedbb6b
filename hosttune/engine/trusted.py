"""Files that steer what root does: only root may have written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.host.door import Stat
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

GROUP_OR_WORLD_WRITABLE = 0o022


def read_trusted(reader: Reader, path: str, *, is_local: bool, is_required: bool) -> tuple[str, str | None]:
    """The name and the text of a policy or rule file; None when it is absent and not required.

    `is_local`: the path was typed on the command line, so it is on this machine whatever host is looked at. With
    root's rights, a file that is not root's own or that others can write is refused: it would steer root.
    """
    if is_local:
        import os

        from hosttune.host import open_reader

        reader, path = open_reader(), os.path.abspath(path)  # noqa: PTH100 - a path of the person who typed it
    data = reader.read(path)
    if data is ABSENT and not is_required:
        return path, None
    if not isinstance(data, bytes):
        reason = data.reason if isinstance(data, Unreadable) else "there is no such file"
        raise HosttuneError(f"{path}: cannot be read: {reason}")
    check_trusted(reader, path)
    try:
        return path, data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HosttuneError(f"{path}:{line}: is not UTF-8 text") from error


def check_trusted(reader: Reader, path: str) -> None:
    """Refuse a file, or a folder above it, that somebody other than root can write, when root is about to follow it."""
    if not reader.is_privileged or reader.kind not in {"live", "root"}:
        return
    real = reader.resolve(path)
    parts = (real if isinstance(real, str) else path).rstrip("/").split("/")
    for depth in range(len(parts), 0, -1):
        name = "/".join(parts[:depth]) or "/"
        stat = reader.stat(name)
        if not isinstance(stat, Stat):
            continue
        sticky = stat.type == "directory" and stat.mode & 0o1000
        if stat.uid != 0 or (stat.mode & GROUP_OR_WORLD_WRITABLE and not sticky):
            who = f"uid {stat.uid}" if stat.uid else f"mode {stat.mode:04o}"
            message = f"{path}: root does not follow it, because {name} can be written by others ({who})"
            raise HosttuneError(message, hint=f"keep it below /etc/hosttune: sudo install -m 644 {path} /etc/hosttune/")
