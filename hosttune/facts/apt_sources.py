"""The archives in apt's sources, and those that a person has switched off there, each with its
line.

Source: sources.list(5): a line of a .list file that is commented out, `Enabled: no` in a .sources
file; and files that apt passes over, because their name ends with .disabled. What the release
upgrader leaves (.distUpgrade) is of another release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hosttune.facts.placed import Placed
from hosttune.facts.reading import names_in, read_texts
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
    """Those that are switched off, as `read_sources`. The line is 0 if the name of the file
    switches it off.
    """
    return tuple(one for one, is_on in read_sources(reader) if not is_on)


def read_enabled(reader: Reader) -> tuple[Placed, ...]:
    """Those that apt reads, as `read_sources`."""
    return tuple(one for one, is_on in read_sources(reader) if is_on)


def read_sources(reader: Reader) -> Iterator[tuple[Placed, bool]]:
    """ADDRESS SUITE COMPONENTS of each, without a password, and whether apt reads it."""
    listed = (f"{FOLDER}/{name}" for name in names_in(reader, FOLDER))
    for path, content in read_texts(reader, (FILE, *listed)):
        yield from parse_sources(content, path)


def parse_sources(content: str, path: str) -> Iterator[tuple[Placed, bool]]:
    """Those of one file, and whether apt reads each."""
    is_off = path.endswith(_OFF)
    name = path.removesuffix(_OFF)
    if name.endswith(".sources"):
        yield from _of_stanzas(content, path, is_off=is_off)
    elif name.endswith(".list") or is_off:
        for number, row in enumerate(content.splitlines(), 1):
            if found := _LINE.match(row.strip()):
                line = 0 if is_off else number
                yield (
                    _place_line(found["what"].partition("#")[0], path, line),
                    not (is_off or found["off"]),
                )


def _of_stanzas(content: str, path: str, *, is_off: bool) -> Iterator[tuple[Placed, bool]]:
    # the words of each, with those of the rows that go on with it
    fields: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    last = ""
    for number, row in enumerate((*content.splitlines(), ""), 1):
        if row.startswith("#"):
            continue
        name, colon, value = row.partition(":")
        if not row.strip():
            # a stanza of sources only (deb-src) has no package to install
            if fields.get("uris") and "deb" in fields.get("types", ("deb",)):
                is_on = not is_off and " ".join(fields.get("enabled", ())).lower() not in _NO
                what = " ".join(
                    word for key in ("uris", "suites", "components") for word in fields.get(key, ())
                )
                yield (
                    _place_line(what, path, 0 if is_off else lines["uris" if is_on else "enabled"]),
                    is_on,
                )
            fields, lines, last = {}, {}, ""
        elif row[0] in " \t":
            fields.get(last, []).extend(row.split())
        elif colon:
            last = name.strip().lower()
            fields[last], lines[last] = value.split(), number


def _place_line(what: str, path: str, line: int) -> Placed:
    return Placed(_PASSWORD.sub("//", " ".join(what.split())), path, line)
