"""What apt's configuration says of a list or value, with the lines, and as apt has merged it:
`apt["Unattended-Upgrade::Package-Blacklist"].lines`; its pins, the archives that are switched off,
and what apt-get would do.

Sources: apt.conf(5), as apt_conf.py reads the files; `apt-config dump` (apt-config(8)) for what apt
makes of them; `apt-get -s` (apt_get.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts import apt_get
from hosttune.facts.apt_conf import CLEAR, AptNames, list_files
from hosttune.facts.apt_get import Transaction
from hosttune.facts.apt_pins import Pin, read_pins
from hosttune.facts.apt_sources import read_disabled, read_enabled
from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.dpkg_said import TERM_LOG, parse_said
from hosttune.facts.lookups import Lookup
from hosttune.facts.placed import Placed
from hosttune.facts.reading import ask, if_absent, read_text, read_texts
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Completed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader


@frozen
class AptSetting(Fact):
    """One name of apt's configuration."""

    # all that give it a value, in the order of reading; `#clear` where a line empties it
    lines: tuple[Placed, ...]
    merged: tuple[str, ...]  # the values of a list as apt has merged it; empty where no one sets it

    @property
    def last(self) -> Placed | None:
        """The line whose value counts, where it is no list."""
        return None if not self.lines or self.lines[-1].value == CLEAR else self.lines[-1]


@frozen
class Apt(Subject):
    """`apt["NAME"]`, for every name; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, AptSetting]:
        return Lookup(self._look)

    @fact
    def would(self) -> Mapping[str, Transaction]:
        """By operands with blanks between them: what `apt-get install` would do with them."""
        return Lookup(lambda operands: _simulate_install(self.reader, operands.split()))

    # of its preferences, in the order of reading
    pins: tuple[Pin, ...] = read_with(lambda self: read_pins(self.reader))
    # ADDRESS SUITE COMPONENTS of each archive that is switched off
    disabled_sources: tuple[Placed, ...] = read_with(lambda self: read_disabled(self.reader))
    # the same of each that apt reads
    sources: tuple[Placed, ...] = read_with(lambda self: read_enabled(self.reader))

    @fact
    def said(self) -> Mapping[str, str]:
        """By package the last words of a run of dpkg that ended with an error for it; what was
        configured since is not in it."""
        return parse_said(if_absent(read_text(self.reader, TERM_LOG), ""))

    @fact
    def _names(self) -> AptNames:
        return AptNames(read_texts(self.reader, list_files(self.reader)))

    def _look(self, name: str) -> AptSetting:
        return AptSetting(
            lazy(lambda: tuple(self._names.lines(name))), lazy(_read_merged, self.reader, name)
        )

    def __getitem__(self, name: str) -> AptSetting:
        return self.entries[name]


def dump_command(name: str) -> tuple[str, ...]:
    """The program call that prints a list as apt has merged it."""
    return ("apt-config", "dump", name)


def values_in(dump: str, name: str) -> tuple[str, ...]:
    """The values of a list in the output of `apt-config dump`: NAME:: "value"; on a line each."""
    return tuple(re.findall(rf'^{re.escape(name)}:: "(.*)";$', dump, re.MULTILINE))


def _read_merged(reader: Reader, name: str) -> tuple[str, ...]:
    answer = ask(reader, dump_command(name))
    if answer.status != 0:
        raise UnknownFact(f"apt-config: {(answer.errors.strip().splitlines() or ['it failed'])[0]}")
    return values_in(answer.text, name)


def _simulate_install(reader: Reader, operands: Sequence[str]) -> Transaction:
    answer = ask(reader, apt_get.make_simulation(operands), timeout_s=apt_get.LOOK_TIMEOUT_S)
    if answer.status != 0:
        failed = apt_get.parse(apt_get.parse_errors(answer.errors, answer.status))
        return replace(failed, unmet=apt_get.parse_unmet(answer.text))
    would = apt_get.parse(apt_get.find_relevant_lines(answer.text))
    sizes = _run_apt(reader, apt_get.make_download_list(operands)) if would.steps else None
    if sizes is not None:
        download, growth = apt_get.download_bytes(sizes), apt_get.growth_bytes(sizes)
        would = replace(would, download_bytes=download, growth_bytes=growth)
    return _with_old(reader, would)


def _with_old(reader: Reader, would: Transaction) -> Transaction:
    """With where the versions that would go can be had, and which came along; nothing where apt
    does not say.
    """
    policies = _run_apt(reader, apt_get.ask_policy(would.before)) if would.before else None
    if policies is None:
        return would
    cached = reader.list(apt_get.CACHE)
    marks = _run_apt(reader, apt_get.make_automatic_question(would.before)) or ""
    files_there = cached if isinstance(cached, tuple) else ()
    return replace(
        would,
        automatic=frozenset(marks.split()) & frozenset(would.before),
        old=apt_get.places_of(policies, files_there, would.before, apt_get.list_foreign(reader)),
    )


def _run_apt(reader: Reader, argv: Sequence[str]) -> str | None:
    answer = reader.query(argv, timeout_s=apt_get.LOOK_TIMEOUT_S)
    return answer.text if isinstance(answer, Completed) and answer.status == 0 else None
