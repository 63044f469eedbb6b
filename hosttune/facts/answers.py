"""Small kernel and configuration files as answers: text, absent, or unreadable with a reason. Facts use
`reading`, which raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from hosttune.facts.base import unread
from hosttune.values import ABSENT, Absent, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

T = TypeVar("T")


def text(reader: Reader, path: str) -> Answer[str]:
    """A whole file as text; bytes that are not UTF-8 become U+FFFD."""
    content = reader.read(path)
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def line(reader: Reader, path: str) -> Answer[str]:
    """A file that holds one value, without the white space and NULs (device tree) around it."""
    content = text(reader, path)
    return content.strip(" \t\n\0") if isinstance(content, str) else content


def integer(reader: Reader, path: str) -> Answer[int]:
    """A file that holds one decimal number."""
    content = line(reader, path)
    if not isinstance(content, str):
        return content
    try:
        return int(content)
    except ValueError:
        return Unreadable(f"{path} holds {content[:40]!r}, not a number")


def drop_ins(reader: Reader, folders: Iterable[str], suffix: str = ".conf") -> tuple[str, ...] | Unreadable:
    """The files of several configuration folders in the order in which they are read: by name, whatever the folder. Of
    one name the first folder counts, and a link to /dev/null there masks it (sysctl.d(5), tmpfiles.d(5), modprobe.d(5),
    udev(7)). Of an image /run is nobody's: it is made anew at boot.
    """
    chosen: dict[str, str] = {}
    for folder in folders:
        if reader.persistent_only and folder.startswith("/run/"):
            continue
        names = reader.list(folder)
        if isinstance(names, Unreadable):
            return names
        for name in names if isinstance(names, tuple) else ():
            if name.endswith(suffix):
                chosen.setdefault(name, f"{folder}/{name}")
    return tuple(chosen[name] for name in sorted(chosen) if reader.link(chosen[name]) != "/dev/null")


def known(answer: Answer[Any], path: str) -> Any:
    """The field value for an answer that must be there: the answer, or why it is not known."""
    return unread(f"{path} does not exist") if answer is ABSENT else answer


def derived(answer: Answer[T], path: str, function: Callable[[T], Any]) -> Any:
    """As `known`, with what `function` makes of the answer; where it raises ValueError, that is the reason."""
    if isinstance(answer, (Absent, Unreadable)):
        return known(answer, path)
    try:
        return function(answer)
    except ValueError as error:
        return unread(f"{path}: {error}")
