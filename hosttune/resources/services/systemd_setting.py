"""A setting of a unit, or of one of systemd's own programs, by a drop-in:
slurmd.service/Service/LimitMEMLOCK or logind.conf/Login/RemoveIPC.

The drop-ins of all folders are read by name, after the main file, and the last value counts
(systemd.unit(5), logind.conf(5)). A value that an administrator wrote stays theirs; one that comes
with a package may be changed. Who runs already keeps what it started with: nothing is restarted
here.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import read_or_default
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.limits.limits import UNLIMITED
from hosttune.facts.precedence import lost_words, over_words, owned_place, unit_order, way_over
from hosttune.facts.services.unit_settings import UnitSettings
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.resources.base import Operator, WishKind, in_general
from hosttune.resources.comparison import InDropin, in_dropins, or_unknown
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.resources.services.restart import unit_of_dropin
from hosttune.resources.services.since import applied_since
from hosttune.values import Activation, Address, Finding, Hold, HoldKind, Trigger, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.placed import Placed
    from hosttune.facts.precedence import FileOrder
    from hosttune.resources.base import Context, FieldSpec, Wish
    from hosttune.values import Change

_TRUTH = {"1": "yes", "true": "yes", "on": "yes", "0": "no", "false": "no", "off": "no"}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
_BOUNDS = {Operator.AT_LEAST: "at least ", Operator.AT_MOST: "at most "}
# keys whose value a running service shows
_LIVE = {"LimitMEMLOCK": "memlock", "LimitNOFILE": "nofile"}
# The process of a unit or a configuration file, where its name is another.
_PROCESSES = {"docker": "dockerd", "ssh": "sshd", "logind": "systemd-logind"}


def parse_amount(word: str) -> float | None:
    """`8M` -> 8388608, `infinity` is infinite; of `soft:hard` the soft one; None for what is no
    number.
    """
    word = word.partition(":")[0]
    if word == "infinity":
        return math.inf
    match = re.fullmatch(r"([0-9]{1,39})([KMGTPE]?)", word)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _normalize_word(word: str) -> str:
    return _TRUTH.get(word.lower(), word.lower())


def satisfies_wish(word: str, wish: Wish) -> bool:
    """Whether a value is what the wish says: yes and true are one, infinity is above every
    number.
    """
    for bound in wish.bounds:
        wanted, value = parse_amount(str(bound.value)), parse_amount(word)
        if bound.operator is Operator.EXACTLY or wanted is None or value is None:
            if _normalize_word(word) != _normalize_word(str(bound.value)):
                return False
        elif value > wanted if bound.operator is Operator.AT_MOST else value < wanted:
            return False
    return True


class SystemdSettingWish(WishKind):
    """`- systemd-setting: UNIT/SECTION/KEY` (or NAME.conf/SECTION/KEY) with exactly, at_least or
    at_most.
    """

    kind = "systemd-setting"
    fields: Mapping[str, FieldSpec] = {}
    operators = (Operator.EXACTLY, Operator.AT_LEAST, Operator.AT_MOST)
    activations = (Activation.RESTART,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return () if UnitSettings.name_fault(wish.name) else (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return in_dropins([_SettingComparison(wish, context) for wish in wishes], _make_dropin)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        changes = []
        for address in dict.fromkeys(map(_address_file, wishes)):
            own = [wish for wish in wishes if _address_file(wish) == address]
            activation, triggers = Activation.RESTART, _list_triggers(own[0])
            changes.append(
                in_general(
                    own[0], address, _render_text(own), activation=activation, triggers=triggers
                )
            )
        return tuple(changes)


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(f"/etc/systemd/{_name_folder(wish)}.d", wish.rule))


def _name_folder(wish: Wish) -> str:
    file = wish.name.partition("/")[0]
    return file if file.endswith(".conf") else f"system/{file}"


def _name_process(wish: Wish) -> str:
    file = wish.name.partition("/")[0]
    stem = file.rpartition(".")[0]
    return DAEMONS.get(file) or _PROCESSES.get(stem, stem)


def _make_dropin(looks: list[_SettingComparison]) -> Dropin:
    """One file for all keys of a unit."""
    first, wishes = looks[0], [look.wish for look in looks]
    triggers = _list_triggers(first.wish)
    return compare_dropin(
        first.path,
        _render_text(wishes),
        first.wish.rule,
        first.context,
        Activation.RESTART,
        triggers,
    )


def _render_text(wishes: list[Wish]) -> bytes:
    """One file for all keys of a unit, section by section."""
    lines: dict[str, list[str]] = {}
    for wish in wishes:
        _, section, key = wish.name.split("/")
        lines.setdefault(f"[{section}]", []).append(f"{key}={wish.bounds[0].value}")
    return dropin_text(
        wishes[0].rule, (line for head, rows in lines.items() for line in (head, *rows))
    )


def _list_triggers(wish: Wish) -> tuple[Trigger, ...]:
    return () if wish.name.partition("/")[0].endswith(".conf") else (Trigger("daemon-reload"),)


@frozen
class _SettingComparison(InDropin):
    """One wish against the files."""

    wish: Wish
    context: Context

    @property
    def file(self) -> str:
        return self.wish.name.partition("/")[0]

    @property
    def path(self) -> str:
        """Of our drop-in."""
        return _address_file(self.wish).name

    @property
    def is_kept(self) -> bool:
        """Whether our drop-in sets the key now."""
        return read_or_default(
            lambda: any(one.path == self.path for one in self.values), otherwise=False
        )

    @property
    def order(self) -> FileOrder:
        return unit_order(_name_folder(self.wish))

    @property
    def section(self) -> str:
        return self.wish.name.partition("/")[2].partition("/")[0]

    @property
    def key(self) -> str:
        return self.wish.name.rpartition("/")[2]

    @property
    def values(self) -> tuple[Placed, ...]:
        return self.context.facts.unit_settings[self.wish.name].values

    @or_unknown
    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        if UnitSettings.name_fault(self.wish.name) or not self.wish.bounds:
            detail = f"{self.wish.name} is no FILE/SECTION/KEY with exactly, at_least or at_most"
            return self._says(Verdict.DIFFERS, self._wants, Hold(HoldKind.REFUSED, detail))
        setting = self.context.facts.unit_settings[self.wish.name]
        if not setting.exists or setting.is_masked:
            return self._says(Verdict.NOT_APPLICABLE, f"{self.file} is not installed")
        live = self._live()
        if self.values and satisfies_wish(self.values[-1].value, self.wish):
            return self._in_place(live)
        # Only if no file sets it: a value of a file that is too low comes with the next start,
        # however the service runs now.
        if not self.values and live and satisfies_wish(live, self.wish):
            return self._says(Verdict.OK, evidence=(f"{self.file} runs with {live}", *self._there))
        for one in reversed(self.values):
            if (
                one.path != self.path
                and not satisfies_wish(one.value, self.wish)
                and self._is_in_the_way(one)
            ):
                owners = self.context.facts.file_owners
                others = [other for other in self.values if other.path != self.path]
                detail = (
                    f"{owned_place(one, owners)} "
                    f"({self.key}={one.value}){over_words(others, owners)}"
                )
                line = f"`{self.key}={self.wish.bounds[0].value}`, below `[{self.section}]`,"
                way = way_over(one, self.order, owners, line)
                return self._make_held(HoldKind.OWNED, detail, f"{way}, or ignore {self.wish.rule}")
        return None

    def _is_in_the_way(self, one: Placed) -> bool:
        """Whether someone decided there, or it is read after our drop-in."""
        return one.is_read_after(self.path) or not one.is_of_distribution

    def _live(self) -> str:
        """What the service runs with, in systemd's words; empty where it does not run, or where
        that does not show.
        """
        if self.key not in _LIVE:
            return ""
        services = [one for one in self.context.facts.limits.services if one.unit == self.file]
        values: list[int] = [getattr(one, _LIVE[self.key]) for one in services]
        return next(("infinity" if value >= UNLIMITED else str(value) for value in values), "")

    def _in_place(self, live: str) -> Finding:
        """The files are right; whether the program has read them is another matter."""
        unit = unit_of_dropin(_address_file(self.wish).name)
        applied = (
            self.context.ledger.get(_address_file(self.wish))
            if self.values[-1].path == self.path
            else None
        )
        is_new = applied is not None and applied_since(
            applied, self.context.facts.processes[_name_process(self.wish)].started_at
        )
        if (live and not satisfies_wish(live, self.wish)) or (not live and is_new):
            now = f", which runs with {live}" if live else ""
            todo = f"in a quiet moment: sudo systemctl restart {quote(unit)}"
            return self._make_held(HoldKind.WAITING, f"a restart of {unit}{now}", todo)
        return self._says(Verdict.OK, evidence=self._there)

    @property
    def _there(self) -> tuple[str, ...]:
        last = tuple(f"{self.key}={one.value} ({one.place})" for one in self.values[-1:])
        lost = lost_words(self.values, self.order, self.context.facts.file_owners, self.key)
        return (*last, *lost) or (f"no file sets {self.key}",)

    @property
    def _wants(self) -> str:
        bound = self.wish.bounds[0]
        return f"{self.key} of {self.file} should be {_BOUNDS.get(bound.operator, '')}{bound.value}"

    def _make_held(
        self, kind: HoldKind, detail: str, todo: str = "", evidence: tuple[str, ...] = ()
    ) -> Finding:
        return self._says(
            Verdict.DIFFERS, self._wants, Hold(kind, detail), evidence or self._there, todo
        )


WISH = SystemdSettingWish()
