"""Limits of login sessions by a drop-in in limits.d; services take theirs from systemd (unit
drop-ins), and so do the jobs that slurmd starts, which is shown where it is set up.

A limit that is higher already stays, in whatever file or by the default of new sessions. A number
of open files above fs.nr_open is refused: the kernel refuses it, and pam_limits then refuses every
login.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.limits.session_limits import FOLDER, ITEMS, KERNEL_NR_OPEN, parse_amount
from hosttune.facts.placed import Placed
from hosttune.facts.precedence import LIMITS, lost_words, over_words, owned_place, way_over
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.bounds import parse_whole_number
from hosttune.resources.comparison import InDropin, in_dropins, or_unknown
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.values import (
    Activation,
    Address,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.limits.session_limits import LimitLine
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Change, Value

KINDS = ("soft", "hard")
NR_OPEN = "fs.nr_open"
NOT_NEEDED = "0"  # as `enough`
_OF_SERVICES = ("nofile", "memlock")  # what is known of services (facts/limits/limits.py)
_TOO_LOW = {
    "nofile": "new sessions may open too few files",
    "memlock": "new sessions may lock too little memory",
}  # in the words of the machine's owner
_DOMAIN = regex(r"\*|@?[A-Za-z_][\w.-]*")


class LimitWish(WishKind):
    """`- limit: memlock` with `soft`, `hard` (at least; a number in the unit of limits.conf(5), or
    unlimited).
    """

    kind = "limit"
    fields: Mapping[str, FieldSpec] = {
        "soft": FieldSpec(
            str, help="The least soft limit: a number in the unit of limits.conf(5), or unlimited"
        ),
        "hard": FieldSpec(
            str, help="The least hard limit: a number in the unit of limits.conf(5), or unlimited"
        ),
        "enough": FieldSpec(
            str,
            help="What is enough of both where it is so already; what is written unless given; "
            "nothing is needed at 0",
        ),
        "domains": FieldSpec(list, help='Whose: "*" and root unless given; "*" is not for root'),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.SESSION,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        live = () if facts.reader.persistent_only else (Address("sysctl", NR_OPEN),)
        nr_open = live if wish.name == "nofile" else ()
        return (*nr_open, _address_file(wish))

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return in_dropins([_LimitComparison(wish, context) for wish in wishes], _compare_dropin)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        rows = [
            (domain, kind, wish.name, value)
            for wish in wishes
            for domain, kind, value in _list_wanted(wish)
        ]
        text = _render_text(wishes[0].rule, rows)
        return (
            in_general(wishes[0], _address_file(wishes[0]), text, activation=Activation.SESSION),
        )


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _list_wanted(wish: Wish) -> tuple[tuple[str, str, str], ...]:
    """(domain, soft|hard, least value) of all that a wish names."""
    domains = [str(one) for one in wish.fields.get("domains") or ("*", "root")]
    return tuple(
        (domain, kind, str(wish.fields[kind]))
        for domain in domains
        for kind in KINDS
        if kind in wish.fields
    )


def _compare_dropin(kept: list[_LimitComparison]) -> Dropin:
    wish, context = kept[0].wish, kept[0].context
    rows = [
        (one.domain, one.kind, look.wish.name, one.wanted)
        for look in kept
        for one in look.limits
        if not _reaches_wanted(one.other.value, one.enough)
    ]
    return compare_dropin(
        _address_file(wish).name,
        _render_text(wish.rule, rows),
        wish.rule,
        context,
        Activation.SESSION,
    )


def _render_text(rule: str, rows: Iterable[tuple[str, str, str, str]]) -> bytes:
    return dropin_text(rule, (" ".join(row) for row in rows))


@frozen
class _Limit:
    """One limit of one domain: what is wanted, and what others set."""

    domain: str
    kind: str  # soft | hard
    wanted: str  # what is written
    enough: str  # what is left as it is: at most `wanted`
    now: Placed | None  # what counts at the next login; None where no file sets it
    # what counts without our drop-in; an empty value for an image, whose kernel is not known
    other: Placed

    @property
    def is_met(self) -> bool:
        return _reaches_wanted((self.now or self.other).value, self.enough)


def _reaches_wanted(value: str, wanted: str) -> bool:
    present, least = parse_amount(value), parse_amount(wanted)
    return present is not None and least is not None and present >= least


@frozen
class _LimitComparison(InDropin):
    """One wish against the files."""

    wish: Wish
    context: Context
    # what `limits` has made
    _found: list[_Limit] = field(default_factory=list, compare=False, repr=False)

    @property
    def lines(self) -> tuple[LimitLine, ...]:
        """Of the files; none of what is no limit that can be compared."""
        return (
            self.context.facts.session_limits[self.wish.name].lines
            if self.wish.name in ITEMS
            else ()
        )

    @property
    def limits(self) -> tuple[_Limit, ...]:
        if self.wish.fields.get("enough") == NOT_NEEDED:
            return ()
        if not self._found:
            self._found.extend([self._limit(*least) for least in _list_wanted(self.wish)])
        return tuple(self._found)

    @property
    def path(self) -> str:
        return _address_file(self.wish).name

    @property
    def is_kept(self) -> bool:
        return read_or_default(
            lambda: any(line.given.path == self.path for line in self.lines), otherwise=False
        )

    def _limit(self, domain: str, kind: str, least: str) -> _Limit:
        wish, own = self.wish, _address_file(self.wish).name
        found = [line.given for line in self.lines if (line.domain, line.kind) == (domain, kind)]
        others = [one for one in found if one.path != own]
        enough = str(wish.fields.get("enough", least))
        return _Limit(
            domain,
            kind,
            least,
            # `enough` above the value that is written would never be met by our own drop-in, and
            # the rule would plan it again and again.
            least if _reaches_wanted(enough, least) else enough,
            found[-1] if found else None,
            others[-1] if others else Placed(self._default(kind), "the default of new sessions"),
        )

    def _default(self, kind: str) -> str:
        """What a new session has where no file says anything. Raises UnknownFact."""
        if self.wish.name not in ITEMS:
            return ""
        session = self.context.facts.session_limits[self.wish.name]
        return session.soft if kind == "soft" else session.hard

    @or_unknown
    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        if refusal := self._why_not():
            return self._make_held(HoldKind.REFUSED, refusal)
        if self.wish.fields.get("enough") == NOT_NEEDED:  # nothing is looked at for it
            return self._says(Verdict.OK, evidence=_of_slurm(self.wish.name, self.context.facts))
        most = self._nr_open()
        if isinstance(most, Unreadable):
            return self._says(Verdict.UNKNOWN, most.reason)
        if refusal := self._too_many():
            return self._make_held(HoldKind.REFUSED, refusal, f"raise {NR_OPEN} first")
        if all(one.is_met for one in self.limits):
            return self._says(Verdict.OK, evidence=self._there)
        for one in self.limits:
            # Only what a line of a file says is someone's decision. A default of the kernel is too
            # low without anyone having meant it.
            if one.other.line and not _reaches_wanted(one.other.value, one.enough):
                owners, name = (
                    self.context.facts.file_owners,
                    f"{one.domain} {one.kind} {self.wish.name}",
                )
                same = [
                    line.given
                    for line in self.lines
                    if (line.domain, line.kind) == (one.domain, one.kind)
                ]
                others = [other for other in same if other.path != self.path]
                detail = (
                    f"{owned_place(one.other, owners)} ({name} "
                    f"{one.other.value}){over_words(others, owners)}"
                )
                way = way_over(one.other, LIMITS, owners, f"`{name} {one.wanted}`")
                return self._make_held(HoldKind.OWNED, detail, f"{way}, or ignore {self.wish.rule}")
        return None

    def _why_not(self) -> str:
        if self.wish.name not in ITEMS:
            return (
                f"{self.wish.name} is no limit that can be compared; those are {', '.join(ITEMS)}"
            )
        if bad := next(
            (one.domain for one in self.limits if not _DOMAIN.fullmatch(one.domain)), ""
        ):
            return f"{bad!r} is no domain of limits.conf(5)"
        values = (value for one in self.limits for value in (one.wanted, one.enough))
        if bad := next((value for value in values if parse_amount(value) is None), ""):
            return f"{bad!r} is no limit"
        soft, hard = (parse_amount(str(self.wish.fields.get(kind, "unlimited"))) for kind in KINDS)
        if not _list_wanted(self.wish) or (
            "soft" in self.wish.fields and (soft or 0) > (hard or 0)
        ):
            return "a wish for a limit needs soft or hard, and a soft one is not above the hard one"
        return ""

    def _nr_open(self) -> int | Unreadable:
        """The least that fs.nr_open is now and will be after the next boot."""
        if self.wish.name != "nofile":
            return 0
        live: Value = self.context.state.get(Address("sysctl", NR_OPEN), "")
        if isinstance(live, Unreadable):
            return Unreadable(prefix_reason(NR_OPEN, live.reason))
        try:
            files = self.context.facts.sysctl_at_boot[NR_OPEN].settings
        except UnknownFact as unknown:
            return Unreadable(prefix_reason(NR_OPEN, unknown.reason))
        boot = files[-1].value if files else ""
        # The smaller of the two counts, as a limit that is right now would lock every login out
        # after the boot, and the other way round.
        known = [found for text in (live, boot) if (found := parse_whole_number(text)) is not None]
        return min(known, default=KERNEL_NR_OPEN)

    def _too_many(self) -> str:
        most = self._nr_open()
        asked = max((parse_amount(one.wanted) or 0 for one in self.limits), default=0)
        if self.wish.name != "nofile" or isinstance(most, Unreadable) or asked <= most:
            return ""
        shown = "unlimited" if asked == math.inf else str(int(asked))
        return f"nofile {shown} is above {NR_OPEN} ({most}): every login would be refused"

    @property
    def _there(self) -> tuple[str, ...]:
        alike: dict[str, list[str]] = {}  # whose, by what they have
        # a short report shows the first of them
        for one in sorted(self.limits, key=lambda one: one.is_met):
            given = one.now or one.other
            value = (
                f"{one.kind} {given.value} ({given.place})"
                if given.value
                else f"{one.kind}: no file"
            )
            alike.setdefault(value, []).append(one.domain)
        found = [f"{' and '.join(domains)} {value}" for value, domains in alike.items()]
        domains = {one.domain for one in self.limits}
        others = (one for one in self.lines if one.domain not in domains)
        own = sorted({f"{one.domain} has its own ({one.given.place})" for one in others})
        return (*found, *self._lost, *own, *_of_slurm(self.wish.name, self.context.facts))

    @property
    def _lost(self) -> tuple[str, ...]:
        """What administrators set in vain, for each domain and kind."""
        rows: list[str] = []
        for one in self.limits:
            same = [
                line.given
                for line in self.lines
                if (line.domain, line.kind) == (one.domain, one.kind)
            ]
            name = f"{one.domain} {one.kind} {self.wish.name}"
            rows += lost_words(same, LIMITS, self.context.facts.file_owners, name)
        return tuple(dict.fromkeys(rows))

    @property
    def _wants(self) -> str:
        wanted = " and ".join(
            f"{kind} {self.wish.fields[kind]}" for kind in KINDS if kind in self.wish.fields
        )
        effect = _TOO_LOW.get(self.wish.name, "a limit of new sessions is too low")
        return f"{effect}: {self.wish.name} should be at least {wanted}"

    def _make_held(
        self, kind: HoldKind, detail: str, todo: str = "", evidence: tuple[str, ...] = ()
    ) -> Finding:
        return self._says(
            Verdict.DIFFERS, self._wants, Hold(kind, detail), evidence or self._there, todo
        )


def _of_slurm(item: str, facts: Facts) -> tuple[str, ...]:
    """Where slurmd runs: that its jobs get none of this, and what they get
    (PropagateResourceLimits, slurm.conf(5)).
    """
    try:
        if item not in _OF_SERVICES or not facts.managers.slurm:
            return ()
        daemons = [one for one in facts.limits.services if one.unit == "slurmd.service"]
        now = "".join(
            f", now {one.nofile if item == 'nofile' else one.memlock_text}" for one in daemons
        )
    except UnknownFact:
        now = ""
    what = f"Limit{item.upper()}= of slurmd.service{now}"
    return (
        (
            "jobs of Slurm get none of this: they take the limit of the login they were sent from, "
            f"within {what}"
        ),
    )


WISH = LimitWish()
