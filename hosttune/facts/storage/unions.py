"""Union mounts: the folders that one lays upon each other or side by side. Pure.

Sources: mergerfs(1), mhddfs(1), unionfs(8), aufs(5) and overlayfs of the kernel
(Documentation/filesystems/overlayfs.rst).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.storage.mounts import name_effective_type
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# With the branches in the first field, or in an option.
_OF_SOURCE = frozenset({"mergerfs", "mhddfs", "unionfs", "unionfs-fuse"})
_OF_OPTIONS = frozenset({"overlay", "overlayfs", "fuse-overlayfs", "aufs", "unionfs"})
UNIONS = _OF_SOURCE | _OF_OPTIONS
_KEYS = (
    "lowerdir=",
    "lowerdir+=",
    "datadir+=",
    "upperdir=",
    "workdir=",
    "br=",
    "br:",
    "dirs=",
    "branches=",
)
_BETWEEN = regex(r"(?<!\\):")
_MODE = regex(r"=(?:RW|RO|NC|rw|ro|rr)\b.*\Z")
_MOST = 256  # branches of one mount
_DEEPEST = 128  # folders above each other of one branch: all of them are looked up
GLOB = regex(r"[*?\[]")


def union_type(fstype: str, source: str) -> str:
    """`mergerfs` of a line with fuse.mergerfs, or with fuse and mergerfs#...; empty for what is not
    a union.
    """
    name = name_effective_type(fstype, source).removeprefix("fuse.")
    return name if name in UNIONS else ""


def branches_of(fstype: str, source: str, words: Iterable[str]) -> tuple[str, ...]:
    """The absolute paths of its branches, in their order, the first ones of many; with wildcards as
    they stand.
    """
    name = union_type(fstype, source)
    texts = [source.rpartition("#")[2]] if name in _OF_SOURCE else []
    texts += [
        word[len(key) :]
        for word in words
        for key in _KEYS
        if name in _OF_OPTIONS and word.startswith(key)
    ]
    found = (path for text in texts for path in _split(text, name))
    return tuple(dict.fromkeys(found))[:_MOST]


def _split(text: str, name: str) -> Iterator[str]:
    # mhddfs separates its folders by commas, all others by colons.
    for part in _BETWEEN.split(text.replace(",", ":") if name == "mhddfs" else text):
        path = _MODE.sub("", part).replace("\\:", ":").rstrip("/")
        if path.startswith("/") and len(path) < PATH_MAX and path.count("/") <= _DEEPEST:
            yield path
