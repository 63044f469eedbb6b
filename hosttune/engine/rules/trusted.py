"""Files that steer what root does: only root may have written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.errors import HosttuneError
from hosttune.lines import LineNumbers
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.host.reading.tree import Stranger


HOME = "/etc/hosttune"


def read_trusted(
    reader: Reader, path: str, *, is_local: bool, is_required: bool, home: str = HOME
) -> tuple[str, str | None]:
    """The name and the text of a policy or rule file; None when it is absent and not required.

    `is_local`: the path was typed on the command line, so it is on this machine whatever host is
    looked at. With root's rights, a file that is not root's own or that others can write is
    refused: it would steer root. `home` is the folder for such files, for the way out.
    """
    if is_local:
        import os

        from hosttune.host.reading.live import LiveReader

        reader, path = LiveReader(), os.path.abspath(path)  # noqa: PTH100 - a path of the person who typed it
        _require_answer(path)
    from hosttune.host.reading.tree import find_strangers

    name = path_on(reader, path)
    # In one walk by descriptors: owners that are asked by name could be those of another file than
    # the one that is read.
    data, strangers = find_strangers(reader, path)
    if data is ABSENT and not is_required:
        return name, None
    if not isinstance(data, bytes):
        reason = data.reason if isinstance(data, Unreadable) else "there is no such file"
        raise HosttuneError(f"{name}: cannot be read: {reason}")
    if strangers:
        message = f"{name}: root does not follow it, because {strangers[0]}"
        raise HosttuneError(message, hint=_way_out(reader, path, strangers, home))
    try:
        return name, data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = LineNumbers(data).at(error.start)
        raise HosttuneError(f"{name}:{line}: is not UTF-8 text") from error


def stranger_of(reader: Reader, path: str) -> str:
    """Who besides root could have written this file, or a folder above it, in a phrase; nothing
    where no one could, or where no one acts as root on it.
    """
    from hosttune.host.reading.tree import find_strangers

    return str(next(iter(find_strangers(reader, path)[1]), ""))


def strange_program(reader: Reader, carried: str) -> str:
    """That root would start at another time what someone else could have written until then, a
    sentence; nothing where no one could. `carried`: where a copy of the self-contained file is by
    then.
    """
    import sys

    import hosttune
    from hosttune.host.console import find_archive, starting_words

    words = starting_words(carried)
    # The self-contained file is copied to where only root can write. An installed package is
    # started where it is.
    own = () if find_archive() else (*words, f"{hosttune.__path__[0]}/__init__.py")
    for path in dict.fromkeys((sys.executable, *own)):
        if path.startswith("/") and (stranger := stranger_of(reader, path)):
            return f"root would start {words[0]} at a boot, and {stranger}"
    return ""


def path_on(reader: Reader, path: str) -> str:
    """A path as someone on this machine names it: of an image with the folder of the image in
    front.
    """
    return f"{reader.name.rstrip('/')}{path}" if reader.kind == "root" else path


def local_files(folder: str) -> list[str]:
    """The paths in a folder that was typed on the command line, so it is on this machine."""
    import os

    from hosttune.host.reading.live import LiveReader

    path = os.path.abspath(folder)  # noqa: PTH100 - a path of the person who typed it
    _require_answer(path)
    names = LiveReader().list(path)
    if not isinstance(names, tuple):
        raise HosttuneError(
            f"{folder}: "
            f"{names.reason if isinstance(names, Unreadable) else 'there is no such folder'}"
        )
    return [f"{path}/{name}" for name in names]


def _require_answer(path: str) -> None:
    """Raises HosttuneError where the file system of a typed path is dead, or the path leads to a
    file of the kernel.
    """
    from hosttune.host.reading.named import check_named, reason_of

    try:
        check_named(path)
    except OSError as error:
        raise HosttuneError(
            f"{path}: {reason_of(error)}", hint="check the name and the rights"
        ) from error


def _way_out(reader: Reader, path: str, strangers: tuple[Stranger, ...], home: str) -> str:
    """What gives a file to root alone: where it is, if that is root's place and no link leads away,
    else `home`.
    """
    name = quoting.quote(path_on(reader, path))
    # A chown of a file in a folder of others is too late: they can put another one in its place.
    if not path.startswith((f"{HOME}/", "/var/lib/hosttune/")):
        copy = quoting.quote(f"/root/{path_on(reader, path).rpartition('/')[2]}")
        return (
            "others can write in it at any moment, so read a copy of root's, and keep that below "
            f"{HOME}: sudo install -m 600 -t /root {name}; sudo less {copy}; sudo install -D -m "
            f"644 -t {home} {copy}"
        )
    if all(f"{path}/".startswith(f"{one.path.rstrip('/')}/") for one in strangers):
        spoilt = " ".join(quoting.quote(path_on(reader, one.path)) for one in strangers)
        return f"look at what it says, then: sudo chown -h root: {spoilt}; sudo chmod go-w {spoilt}"
    return f"put a file of root's in place of the link: sudo install -m 644 FILE {name}"
