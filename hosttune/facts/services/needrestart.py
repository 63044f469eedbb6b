"""What needrestart's configuration says of services: Perl, read as far as it is plain.

needrestart evaluates /etc/needrestart/needrestart.conf, and from its end every conf.d/*.conf in the
order of their names. `$nrconf{override_rc}` is a hash of patterns: of the patterns that match a
service, the one that the hash brings first decides (needrestart, "override_rc"), and Perl's hashes
have no order. So two that contradict each other decide nothing. `$nrconf{restart}` is l (list
only), i (ask) or a (restart).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.reading import names_in, read_texts
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.host.door import Reader

MAIN = "/etc/needrestart/needrestart.conf"
FOLDER = "/etc/needrestart/conf.d"
_HEAD = regex(r"\$nrconf\{\s*['\"]?([\w-]+)['\"]?\s*\}")
_PATTERN = (
    r"qr\s*(?:\(((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*)\)|\{((?:[^{}\\]|\\.)*)\}"
    r"|([/#!|,])((?:(?!\3)[^\\]|\\.)*)\3)"
    r"([a-z]*)"
)
_KEY = regex(rf"(?:->)?\s*\{{\s*{_PATTERN}\s*\}}\s*=\s*['\"]?(\d)['\"]?\s*(?:;|$)")
_PAIR = regex(rf"{_PATTERN}\s*(?:=>|,)\s*['\"]?(\d)['\"]?")
# In a record or an image the pattern is foreign text, and a search by it can take for ever: nothing
# that is repeated is a group here, and one pattern has few ways to match.
_ONE = r"(?:[\w @:.,=/-]|\\[^\w\s]|\\[bdsw]|\[\^?[\w @:.-]+\])"
# a set of other letters is slow to compile
_PLAIN = regex(rf"(?:{_ONE}[*+?]?|\((?:\?:)?|\)\??|[|^$])*", re.ASCII)
_CHOICE = regex(r"(?<!\\)(?:[*+(]|(?<!\()\?)")
_MOST_CHOICES, _MOST_BRANCHES, _MOST_CHARACTERS = 4, 32, 1000
_MODE = regex(r"\s*=\s*['\"]([a-z])['\"]")
_SHOWN = 80  # characters of what is unclear
_COMMENT = regex(r"^[^\S\n]*#.*$|(?<=[;,{}])\s*#.*$", re.MULTILINE)


@frozen
class NeedrestartSetting(Fact):
    """One thing that a file says. `what`: restart (value: the mode), entry (value 0 or 1 for
    `pattern`), clear (the table starts anew), unclear (Perl that is more than a value).
    """

    file: str  # that sets it
    what: str  # restart | entry | clear | unclear
    value: str = ""  # of restart the mode, of entry 0 or 1
    pattern: str = ""  # of an entry: for names of services


@frozen
class Needrestart(Subject):
    """needrestart's configuration."""

    # what its files say of restarts, in their order
    settings: tuple[NeedrestartSetting, ...] = read_with(lambda self: _read_settings(self.reader))


def _read_settings(reader: Reader) -> tuple[NeedrestartSetting, ...]:
    listed = sorted(name for name in names_in(reader, FOLDER) if name.endswith(".conf"))
    contents = read_texts(reader, (MAIN, *(f"{FOLDER}/{name}" for name in listed)))
    return tuple(one for path, content in contents for one in settings_in(content, path))


def settings_in(content: str, file: str) -> tuple[NeedrestartSetting, ...]:
    """What one file says of restarts, in its order."""
    # The packaged file has its defaults as comments (`#$nrconf{restart} = 'i';`), which would read
    # as settings.
    plain = _COMMENT.sub("", content)
    heads = list(_HEAD.finditer(plain))
    found: list[NeedrestartSetting] = []
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(plain)
        rest = plain[head.end() : end]
        if head[1] == "restart" and (mode := _MODE.match(rest)):
            found.append(NeedrestartSetting(file, "restart", mode[1]))
        elif head[1] == "override_rc":
            found.extend(_of_table(rest, file))
    return tuple(found)


def _of_table(rest: str, file: str) -> Iterator[NeedrestartSetting]:
    """What is behind `$nrconf{override_rc}`: an entry, a new table, or the old one inside of a new
    one.
    """
    if key := _KEY.match(rest):
        yield _parse_entry(key, file)
    elif re.match(r"\s*=\s*\{\s*%\{\s*$", rest):
        return  # `= { %{$nrconf{override_rc}}, ...`: what was there stays
    elif re.match(r"\s*=\s*\{", rest) or re.match(r"\s*\}\s*,", rest):
        if rest.lstrip().startswith("="):
            yield NeedrestartSetting(file, "clear")
        yield from (_parse_entry(pair, file) for pair in _PAIR.finditer(rest))
    else:
        yield NeedrestartSetting(file, "unclear", pattern=" ".join(rest.split())[:_SHOWN])


def _parse_entry(match: re.Match[str], file: str) -> NeedrestartSetting:
    pattern = next((one for one in match.group(1, 2, 4) if one is not None), "")
    flags = f"(?{match[5]})" if match[5] else ""
    has_few_ways = (
        len(_CHOICE.findall(pattern)) <= _MOST_CHOICES and pattern.count("|") <= _MOST_BRANCHES
    )
    if len(pattern) > _MOST_CHARACTERS or not _PLAIN.fullmatch(pattern) or not has_few_ways:
        return NeedrestartSetting(file, "unclear", pattern=pattern[:_SHOWN])
    try:
        re.compile(flags + pattern)
    except re.error:
        return NeedrestartSetting(file, "unclear", pattern=pattern[:_SHOWN])
    return NeedrestartSetting(file, "entry", match[6], flags + pattern)


def mode_of(settings: Iterable[NeedrestartSetting]) -> NeedrestartSetting | None:
    """The last word about what happens to services that no one excepted."""
    return next((one for one in reversed(tuple(settings)) if one.what == "restart"), None)


def entries_for(
    settings: Iterable[NeedrestartSetting], service: str
) -> tuple[NeedrestartSetting, ...]:
    """The entries in force that match a service, whose name needrestart spells with .service."""
    table: dict[str, NeedrestartSetting] = {}
    for one in settings:
        if one.what == "clear":
            table.clear()
        elif one.what == "entry":
            table[one.pattern] = one
    return tuple(one for one in table.values() if re.search(one.pattern, f"{service}.service"))
