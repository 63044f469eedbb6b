"""Which packages unattended-upgrades may upgrade by itself, by apt's configuration and the archives
that have them.

Source: unattended-upgrade (github.com/mvo5/unattended-upgrades, 2.13: get_allowed_origins,
match_whitelist_string, is_pkgname_in_blacklist), and apt.systemd.daily of apt (APT::Periodic). An
origin is matched with fnmatch, a package with Python's re.match. A pattern that could take long, as
one in a record from elsewhere may, counts as one that matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from string import Template
from typing import TYPE_CHECKING, Final

from hosttune.facts.apt_conf import CLEAR
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob, glob_fault
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import ADMIN
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer
    from hosttune.facts.placed import Placed

PREFIX: Final = "Unattended-Upgrade::"
TIMER: Final = "apt-daily-upgrade.timer"
_DISTRIBUTIONS = {"ubuntu": "Ubuntu", "debian": "Debian"}  # as lsb_release -i spells them
# The letter of a field in a Release line of `apt-cache policy`, by the words of Origins-Pattern.
_LETTERS = {
    "o": "o", "origin": "o", "l": "l", "label": "l", "a": "a", "suite": "a", "archive": "a",
    "c": "c", "component": "c", "n": "n", "codename": "n", "site": "site",
}  # fmt: skip
_COLON = regex(r"(?<!\\):")
_COMMA = regex(r"(?<!\\),")
# of a list, each of which is held against each package; `re` keeps 512 patterns compiled
_MOST_LINES = 500
_LONGEST = 200  # characters of a pattern that is matched
# A repeated group, a reference to one, and what Python warns of in a set
_MANY_WAYS = regex(r"\)[*+{]|\\[1-9]|\(\?P=|\[\[|--|&&|\|\||~~")
_REPEATS = regex(r"(?<!\\)(?:[*+]|\{\d*,)")
_OPTIONAL = regex(r"(?<![\\(*+?])\?")


@frozen
class Upgradable(Fact):
    """A package that unattended-upgrades may upgrade, and the line that allows its archive."""

    name: str
    allowed_by: Placed


class _BrokenLineError(ValueError):
    """unattended-upgrades ends with an error at this line, and upgrades nothing."""


def why_not_at_all(facts: Facts) -> str:
    """Why unattended-upgrades upgrades nothing by itself, as a clause; empty where it does."""
    for name, otherwise in (
        ("APT::Periodic::Enable", "1"),
        ("APT::Periodic::Unattended-Upgrade", "0"),
    ):
        last = facts.apt[name].last
        if (last.value if last else otherwise) == "0":
            return f"{name} is 0 ({last.place if last else 'no file sets it'})"
    reader = facts.reader
    if reader.link(f"{ADMIN}/{TIMER}") == "/dev/null":
        return f"{TIMER} is masked"
    # A folder that cannot be listed does not switch the timer off: a hold that is not needed does
    # less harm than an upgrade under a running job.
    enabled = reader.list(f"{ADMIN}/timers.target.wants")
    return f"{TIMER} is disabled" if isinstance(enabled, tuple) and TIMER not in enabled else ""


def find_upgradable(
    facts: Facts,
    offers: Iterable[Offer],
    releases: Mapping[str, Mapping[str, str]],
    *,
    without: str = "",
) -> tuple[tuple[Upgradable, ...], str]:
    """(the packages that it may upgrade, why it upgrades none of them as a clause). `releases`: the
    fields of each archive by the line that `apt-cache policy` shows of it; `without`: the
    Package-Blacklist of this file is not there.
    """
    try:
        allowed = _allowed_origins(facts)
    except _BrokenLineError as broken:
        return (), f"unattended-upgrades cannot follow {broken}, and upgrades nothing"
    blocked = [one for one in _read_lines(facts, "Package-Blacklist") if one.path != without]
    wanted = _read_lines(facts, "Package-Whitelist")
    found: list[Upgradable] = []
    reasons: list[str] = []
    for offer in offers:
        if facts.packages[offer.name].is_held:
            reasons.append("held by apt-mark")
        elif line := next((one for one in blocked if matches_start(one.value, offer.name)), None):
            reasons.append(f"Package-Blacklist has {line.value} ({line.place})")
        elif wanted and not any(matches_start(one.value, offer.name) for one in wanted):
            reasons.append(f"Package-Whitelist does not have it ({wanted[0].place})")
        elif origin := _origin_of(offer, releases, allowed):
            found.append(Upgradable(offer.name, origin))
        else:
            reasons.append("no allowed origin has it (Allowed-Origins, Origins-Pattern)")
    return tuple(found), "; ".join(dict.fromkeys(reasons))


def _read_lines(facts: Facts, name: str) -> tuple[Placed, ...]:
    """The entries of a list after the last line that empties it."""
    lines = facts.apt[f"{PREFIX}{name}"].lines
    if len(lines) > _MOST_LINES:
        raise UnknownFact(
            f"apt's configuration has more than {_MOST_LINES} lines of {PREFIX}{name}"
        )
    start = max((place + 1 for place, one in enumerate(lines) if one.value == CLEAR), default=0)
    return lines[start:]


def _allowed_origins(facts: Facts) -> list[tuple[dict[str, str], Placed]]:
    """(pattern by field, the line) of each entry. Raises _BrokenLineError."""
    system = facts.os
    words = {
        "distro_id": _DISTRIBUTIONS.get(system.id, system.id.title()),
        "distro_codename": system.codename,
        "distro_release": system.version_id,
    }
    found = []
    for read, name in ((_parse_legacy, "Allowed-Origins"), (_parse_pattern, "Origins-Pattern")):
        for line in _read_lines(facts, name):
            if name == "Allowed-Origins" and not line.value.count(" ") + line.value.count(
                ":"
            ):  # a shared record cuts it
                raise UnknownFact(f"{line.place} names no archive: {line.value!r}")
            try:
                found.append((read(line.value, words), line))
            except (KeyError, ValueError):
                raise _BrokenLineError(f"{line.value!r} ({line.place})") from None
    return found


def _parse_legacy(entry: str, words: Mapping[str, str]) -> dict[str, str]:
    """ORIGIN:ARCHIVE, or the two with a blank between them."""
    parts = _COLON.split(entry) if _COLON.search(entry) else entry.split()
    origin, archive = (Template(one.replace("\\:", ":")).substitute(words) for one in parts)
    return {"o": origin, "a": archive}


def _parse_pattern(entry: str, words: Mapping[str, str]) -> dict[str, str]:
    """WORD=PATTERN,WORD=PATTERN ...; an empty entry matches nothing."""
    found: dict[str, str] = {}
    for token in _COMMA.split(Template(entry).substitute(words).strip()):
        if not token and not found:
            return {}
        word, value = (one.strip().replace("\\,", ",") for one in token.split("="))
        letter = _LETTERS[word]
        if letter in found and found[letter] != value:
            value = "[]"  # two patterns for one field: both would have to match, and hardly ever do
        found[letter] = value
    return found


def _origin_of(
    offer: Offer,
    releases: Mapping[str, Mapping[str, str]],
    allowed: Iterable[tuple[dict[str, str], Placed]],
) -> Placed | None:
    """The line that allows an archive from which a newer version of this package may come."""
    for version, source in offer.sources:
        release = releases.get(source, {})
        if _is_frozen(release) and compare_versions(version, offer.installed) <= 0:
            continue
        for wanted, line in allowed:
            if wanted and all(
                _fits(release.get(letter, ""), value) for letter, value in wanted.items()
            ):
                return line
    return None


def _is_frozen(release: Mapping[str, str]) -> bool:
    """The release pocket of an Ubuntu that is out (noble, not noble-updates): nothing new comes to
    it.
    """
    return release.get("o") == "Ubuntu" and release.get("a", "") == release.get("n", "")


def _fits(value: str, pattern: str) -> bool:
    return not glob_fault(pattern) and fits_glob(value, pattern)


def matches_start(pattern: str, name: str) -> bool:
    """Whether a pattern of Package-Blacklist matches the name, as Python's re.match; true for one
    that is not tried.
    """
    has_few_ways = len(_REPEATS.findall(pattern)) <= 2 and len(_OPTIONAL.findall(pattern)) <= 4
    if (
        len(pattern) > _LONGEST
        or _MANY_WAYS.search(pattern)
        or not has_few_ways
        or not pattern.isascii()
    ):
        return True
    try:
        return re.match(pattern, name[:_LONGEST]) is not None
    except (re.error, ValueError, OverflowError, RecursionError):
        return True


def known_releases(
    rows: Iterable[tuple[Mapping[str, str], int]],
) -> Mapping[str, Mapping[str, str]]:
    """The archives of `apt-cache policy` by their lines. Raises UnknownFact where there is none."""
    found = {release["source"]: release for release, _ in rows}
    if not found:
        raise UnknownFact("apt's package lists are missing: sudo apt-get update")
    return found
