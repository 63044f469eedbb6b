"""A setting of a unit, or of one of systemd's own programs, by a drop-in: slurmd.service/Service/LimitMEMLOCK or
logind.conf/Login/RemoveIPC.

The drop-ins of all folders are read by name, after the main file, and the last value counts (systemd.unit(5),
logind.conf(5)). A value that an administrator wrote stays theirs; one that comes with a package may be changed. Who
runs already keeps what it started with: nothing is restarted here.
"""

from __future__ import annotations

import math
import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.limits.limits import UNLIMITED
from hosttune.facts.services.systemd_config import files_of
from hosttune.facts.services.unit_files import UnitFiles
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import Operator, in_general
from hosttune.resources.comparison import Comparison
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.resources.read_only import ReadOnly
from hosttune.resources.services.restart import unit_of
from hosttune.resources.services.since import applied_since
from hosttune.resources.services.unit_dropin import numbered_settings
from hosttune.values import ABSENT, Activation, Address, Finding, Hold, HoldKind, Trigger, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.resources.base import Context, FieldSpec, Wish
    from hosttune.values import Change, Value

_PACKAGED = ("/usr/lib/systemd/", "/lib/systemd/", "/usr/local/lib/systemd/")
_NAME = regex(r"[\w@:.\\-]+\.(?:service|socket|slice|timer|conf)/[A-Z][A-Za-z]*/[A-Z][A-Za-z]*")
_TRUTH = {"1": "yes", "true": "yes", "on": "yes", "0": "no", "false": "no", "off": "no"}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIVE = {"LimitMEMLOCK": "memlock", "LimitNOFILE": "nofile"}  # keys whose value a running service shows
# The process of a unit or a configuration file, where its name is another.
_PROCESSES = {"docker": "dockerd", "ssh": "sshd", "logind": "systemd-logind"}


def amount(word: str) -> float | None:
    """`8M` -> 8388608, `infinity` is infinite; of `soft:hard` the soft one; None for what is no number."""
    word = word.partition(":")[0]
    if word == "infinity":
        return math.inf
    match = re.fullmatch(r"(\d+)([KMGT]?)", word)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _plain(word: str) -> str:
    return _TRUTH.get(word.lower(), word.lower())


def satisfies(word: str, wish: Wish) -> bool:
    """Whether a value is what the wish says: yes and true are one, infinity is above every number."""
    for bound in wish.bounds:
        wanted, value = amount(str(bound.value)), amount(word)
        if bound.operator is Operator.EXACTLY or wanted is None or value is None:
            if _plain(word) != _plain(str(bound.value)):
                return False
        elif value < wanted:
            return False
    return True


class SystemdSettingAddress(ReadOnly):
    """`systemd-setting:FILE/SECTION/KEY`: every value that a file gives the key, in the order in which systemd reads
    them, as "VALUE<tab>FILE:LINE"; ABSENT for a unit that is not installed.
    """

    kind = "systemd-setting"

    def read(self, reader: Reader, name: str) -> Value:
        file, section, key = name.split("/")
        if file.endswith(".conf"):
            paths = files_of(reader, file)
            if isinstance(paths, Unreadable):
                return paths
        else:
            files = UnitFiles(reader)
            real, fragment, state = files.state(file)
            if files.problem or not fragment or state.startswith("masked"):
                return files.problem or ABSENT
            paths = (fragment, *files.drop_ins(real))
        rows: list[str] = []
        for path in paths:
            content = reader.read(path)
            if isinstance(content, Unreadable):
                return content
            text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
            rows += [f"{value}\t{path}:{line}" for line, value in numbered_settings(text, section, key)]
        return tuple(rows)


class SystemdSettingWish:
    """`- systemd-setting: UNIT/SECTION/KEY` (or NAME.conf/SECTION/KEY) with exactly or at_least."""

    kind = "systemd-setting"
    fields: Mapping[str, FieldSpec] = {}
    operators = (Operator.EXACTLY, Operator.AT_LEAST)
    activations = (Activation.RESTART,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (Address(self.kind, wish.name), _file(wish), _started(wish)) if _NAME.fullmatch(wish.name) else ()

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        looks = [_Look(wish, context) for wish in wishes]
        answers = [look.stands() for look in looks]
        needed = [look for look, answer in zip(looks, answers, strict=True) if answer is None]
        kept = [look for look in looks if look in needed or look.is_ours]
        findings: list[Finding] = []
        carried: set[str] = set()
        for look, answer in zip(looks, answers, strict=True):
            if answer is None:
                path = look.path  # one file for all keys of a unit, carried by the first that needs it
                dropin = _dropin(path, [one for one in kept if one.path == path])
                change = (dropin.change,) if dropin.change and path not in carried else ()
                carried.add(path)
                answer = look.missing(dropin, change)  # noqa: PLW2901 - the answer of this one
            findings.append(answer)
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        changes = []
        for address in dict.fromkeys(map(_file, wishes)):
            own = [wish for wish in wishes if _file(wish) == address]
            activation, triggers = Activation.RESTART, _triggers(own[0])
            changes.append(in_general(own[0], address, _text(own), activation=activation, triggers=triggers))
        return tuple(changes)


def _path_of(place: str) -> str:
    """The file of FILE:LINE."""
    return place.rpartition(":")[0]


def _file(wish: Wish) -> Address:
    return Address("file", dropin_path(f"/etc/systemd/{_folder(wish)}.d", wish.rule))


def _folder(wish: Wish) -> str:
    file = wish.name.partition("/")[0]
    return file if file.endswith(".conf") else f"system/{file}"


def _started(wish: Wish) -> Address:
    file = wish.name.partition("/")[0]
    stem = file.rpartition(".")[0]
    return Address("started", DAEMONS.get(file) or _PROCESSES.get(stem, stem))


def _dropin(path: str, looks: list[_Look]) -> Dropin:
    wish, context = looks[0].wish, looks[0].context
    text = _text([look.wish for look in looks])
    return compare_dropin(path, text, wish.rule, context, Activation.RESTART, _triggers(wish))


def _text(wishes: list[Wish]) -> bytes:
    """One file for all keys of a unit, section by section."""
    lines: dict[str, list[str]] = {}
    for wish in wishes:
        _, section, key = wish.name.split("/")
        lines.setdefault(f"[{section}]", []).append(f"{key}={wish.bounds[0].value}")
    return dropin_text(wishes[0].rule, (line for head, rows in lines.items() for line in (head, *rows)))


def _triggers(wish: Wish) -> tuple[Trigger, ...]:
    return () if wish.name.partition("/")[0].endswith(".conf") else (Trigger("daemon-reload"),)


@frozen
class _Look(Comparison):
    """One wish against the files."""

    wish: Wish
    context: Context

    @property
    def file(self) -> str:
        return self.wish.name.partition("/")[0]

    @property
    def path(self) -> str:
        """Of our drop-in."""
        return _file(self.wish).name

    @property
    def is_ours(self) -> bool:
        """Whether our drop-in sets the key now."""
        return any(_path_of(place) == self.path for _, place in self.rows)

    @property
    def section(self) -> str:
        return self.wish.name.partition("/")[2].partition("/")[0]

    @property
    def key(self) -> str:
        return self.wish.name.rpartition("/")[2]

    @property
    def rows(self) -> list[tuple[str, str]]:
        value = self.context.state.get(Address("systemd-setting", self.wish.name), ())
        pairs = (row.partition("\t") for row in value) if isinstance(value, tuple) else ()
        return [(word, place) for word, _, place in pairs]

    def stands(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        if not _NAME.fullmatch(self.wish.name) or not self.wish.bounds:
            return self._held(HoldKind.REFUSED, f"{self.wish.name} is no FILE/SECTION/KEY with exactly or at_least")
        value = self.context.state[Address("systemd-setting", self.wish.name)]
        if isinstance(value, Unreadable):
            return self._says(Verdict.UNKNOWN, value.reason)
        if value is ABSENT:
            return self._says(Verdict.NOT_APPLICABLE, f"{self.file} is not installed")
        live = self._live()
        if isinstance(live, Unreadable):
            return self._says(Verdict.UNKNOWN, live.reason)
        if self.rows and satisfies(self.rows[-1][0], self.wish):
            return self._in_place(live)
        if not self.rows and live and satisfies(live, self.wish):
            return self._says(Verdict.OK, evidence=(f"{self.file} runs with {live}", *self._there))
        for word, place in reversed(self.rows):
            path = _path_of(place)
            if path != self.path and not satisfies(word, self.wish) and self._is_in_the_way(path):
                detail = f"{place} ({self.key}={word})"
                return self._held(HoldKind.OWNED, detail, f"change {place}, or ignore {self.wish.rule}")
        return None

    def _is_in_the_way(self, path: str) -> bool:
        """Whether somebody decided there, or it is read after our drop-in."""
        is_later = posixpath.dirname(path).endswith(".d") and posixpath.basename(path) > posixpath.basename(self.path)
        return is_later or not path.startswith(_PACKAGED)

    def _live(self) -> str | Unreadable:
        """What the service runs with, in systemd's words; empty where it does not run, or where that does not show."""
        if self.key not in _LIVE:
            return ""
        try:
            services = [one for one in self.context.facts.limits.services if one.unit == self.file]
            values: list[int] = [getattr(one, _LIVE[self.key]) for one in services]
        except UnknownFact as unknown:
            return Unreadable(unknown.reason)
        return next(("infinity" if value >= UNLIMITED else str(value) for value in values), "")

    def _in_place(self, live: str) -> Finding:
        """The files are right; whether the program has read them is another matter."""
        unit = unit_of(_file(self.wish))
        started, applied = self.context.state[_started(self.wish)], self.context.ledger.get(_file(self.wish))
        is_own = _path_of(self.rows[-1][1]) == self.path
        is_new = is_own and isinstance(started, int) and applied_since(applied, started)
        if (live and not satisfies(live, self.wish)) or (not live and is_new):
            now = f", which runs with {live}" if live else ""
            todo = f"in a quiet moment: sudo systemctl restart {unit}"
            return self._held(HoldKind.WAITING, f"a restart of {unit}{now}", todo)
        return self._says(Verdict.OK, evidence=self._there)

    @property
    def _there(self) -> tuple[str, ...]:
        return (f"{self.key}={self.rows[-1][0]} ({self.rows[-1][1]})",) if self.rows else (f"no file sets {self.key}",)

    @property
    def _wants(self) -> str:
        bound = self.wish.bounds[0]
        least = "at least " if bound.operator is Operator.AT_LEAST else ""
        return f"{self.key} of {self.file} should be {least}{bound.value}"

    def _held(self, kind: HoldKind, detail: str, todo: str = "", evidence: tuple[str, ...] = ()) -> Finding:
        return self._says(Verdict.DIFFERS, self._wants, Hold(kind, detail), evidence or self._there, todo)


WISHES = (SystemdSettingWish(),)
ADDRESSES = (SystemdSettingAddress(),)
