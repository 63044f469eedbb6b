"""What is taken of a distribution: its modules in pure Python, and its licence; nothing else that
it lays down.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

# What an installation brings and a run never opens.
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|\.\.|tests)(/|$)|\.(pyc|pyi|pyx|pxd|h|c|so|typed)$|dist-info/(?!licenses/|"
    r"LICEN[CS]E|COPYING)|(^|/)_yaml/"
    r"|^example\.py$"  # nvidia-ml-py puts one beside its module
)
_LICENCE = re.compile(r"(^|/)(LICEN[CS]E|COPYING)[^/]*$")
# nvidia-ml-py has no file of its licence, but tells it where it describes itself.
_LICENCE_IN_DESCRIPTION = re.compile(r"^COPYRIGHT\n.*?^LICENSE\n.*", re.MULTILINE | re.DOTALL)


class Trouble(Exception):
    """What a person has to do before this can be built."""


@dataclass(frozen=True)
class Carried:
    """A dependency: the name and version of its distribution, its files by their place, its licence
    texts.
    """

    name: str
    version: str
    files: dict[str, bytes]
    licences: dict[str, bytes]
    licence: str

    def digest(self) -> str:
        """The sha256 over all that is taken, places and contents."""
        seen = hashlib.sha256()
        for kind in (self.files, self.licences):
            for place, content in sorted(kind.items()):
                seen.update(f"{place}\0{len(content)}\0".encode() + content)
        return seen.hexdigest()


def carried(name: str, distribution: metadata.Distribution) -> Carried:
    """What is taken of an installed distribution."""
    files, licences = {}, {}
    for path in distribution.files or ():
        place = path.as_posix()
        if LEFT_OUT.search(place):
            continue
        content = Path(path.locate()).read_bytes()
        if ".dist-info/" in place:
            licences[place.rpartition("/")[2]] = content
        elif place.endswith(".py"):
            files[place] = content
        elif _LICENCE.search(place):  # of what it has taken in itself: typer holds click
            licences[place] = content
    if not files:
        raise Trouble(f"{name} is not installed as files")
    about = distribution.metadata
    if not licences and (
        told := _LICENCE_IN_DESCRIPTION.search(str(about.json.get("description", "")))
    ):
        licences["LICENSE"] = told[0].encode()
    return Carried(
        name,
        distribution.version,
        files,
        licences,
        about["License-Expression"] or about["License"] or "",
    )


def needs(distribution: metadata.Distribution) -> Iterator[str]:
    """Names of what it needs on Linux, whatever the version of Python."""
    for need in distribution.requires or ():
        if not re.search(r"extra ==|sys_platform == .win|platform_system == .Windows", need):
            yield canonical(re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0])


def canonical(name: str) -> str:
    """One spelling of a distribution's name (packaging.python.org, name normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()
