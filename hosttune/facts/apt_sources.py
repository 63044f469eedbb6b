"""The archives that a person has switched off in apt's sources, with the line.

Source: sources.list(5): a line of a .list file that is commented out, `Enabled: no` in a .sources file; and files that
apt passes over, because their name ends with .disabled. What the release upgrader leaves (.distUpgrade) is of another
release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hosttune.facts.placed import Placed
from hosttune.facts.reading import names_in, texts
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

FILE: Final = "/etc/apt/sources.list"
FOLDER: Final = "/etc/apt/sources.list.d"
_OFF = ".disabled"
_LINE = regex(r"(?P<off>#[#\s]*)?deb\s+(?:\[[^\]\n]*\]\s*)?(?P<what>[a-z+]+:\S+\s+\S.*)")
_PASSWORD = regex(r"//[^/@\s]*@")
_NO = frozenset({"no", "false", "without", "off", "disable", "0"})


def read_disabled(reader: Reader) -> tuple[Placed, ...]:
    """ADDRESS SUITE COMPONENTS of each, without a password. The line is 0 if the name of the file switches it off."""
    listed = (f"{FOLDER}/{name}" for name in names_in(reader, FOLDER))
    return tuple(one for path, content in texts(reader, (FILE, *listed)) for one in parse_disabled(content, path))


def parse_disabled(content: str, path: str) -> Iterator[Placed]:
    """Those of one file."""
    is_off = path.endswith(_OFF)
    name = path.removesuffix(_OFF)
    if name.endswith(".sources"):
        yield from _of_stanzas(content, path, is_off=is_off)
    elif name.endswith(".list") or is_off:
        for number, row in enumerate(content.splitlines(), 1):
            found = _LINE.match(row.strip())
            if found and (is_off or found["off"]):
                yield _placed(found["what"].partition("#")[0], path, 0 if is_off else number)


def _of_stanzas(content: str, path: str, *, is_off: bool) -> Iterator[Placed]:
    fields: dict[str, str] = {}
    line = 0
    for number, row in enumerate((*content.splitlines(), ""), 1):
        if row.startswith("#"):
            continue
        name, colon, value = row.partition(":")
        if not row.strip():
            if fields.get("uris") and (is_off or fields.get("enabled", "").lower() in _NO):
                what = " ".join(fields.get(key, "") for key in ("uris", "suites", "components"))
                yield _placed(what, path, 0 if is_off else line)
            fields = {}
        elif colon and row[0] not in " \t":
            fields[name.strip().lower()] = value.strip()
            line = number if name.strip().lower() == "enabled" else line


def _placed(what: str, path: str, line: int) -> Placed:
    return Placed(_PASSWORD.sub("//", " ".join(what.split())), path, line)
