"""What unattended-upgrades leaves alone, in a file of ours in apt.conf.d, which someone reviews
from time to time.

When that was last is the time of the file, which touch(1) renews: a date in its text would make a
plan of yesterday another one today, though nothing else has changed.

apt merges a list over all its files: `NAME:: "value";` and `NAME { "value"; };` both append, and
only `#clear NAME;` in a later file takes values away (apt.conf(5)). So an administrator's own list
stays, and whether ours arrived is asked of `apt-config dump`. unattended-upgrades matches its
patterns at the start of a package's name (Python's re.match).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from hosttune.facts.apt_conf import CLEAR, FOLDER, LAST
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.quoting import quote
from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.file import compare_dropin, dropin_path
from hosttune.values import (
    Activation,
    Address,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.placed import Placed
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Change

KEY = "Unattended-Upgrade::Package-Blacklist"


class AptBlacklistWish(WishKind):
    """`- apt-blacklist: PATTERNS` with `review_days`."""

    kind = "apt-blacklist"
    fields: Mapping[str, FieldSpec] = {
        "review_days": FieldSpec(
            int, required=True, help="Days after which someone has to review it again"
        ),
        "evidence": FieldSpec(list, help="Sentences for the report: what is held"),
        "updates": FieldSpec(
            list, help="What waits, each NAME INSTALLED -> NEW; the report adds its age"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(in_general(wish, _address_file(wish), _render_text(wish)) for wish in wishes)


def _render_text(wish: Wish) -> bytes:
    patterns = tuple(wish.name.split())
    path = _address_file(wish).name
    return render(
        "apt-blacklist.conf.j2", rule=wish.rule, key=KEY, patterns=patterns, path=path
    ).encode()


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _describe_age(update: str, today: date, context: Context) -> str:
    """`waits: nvidia-utils-580 580.95.05-1 -> 580.126.20-1`, with the age of the version that is
    installed.
    """
    since = read_or_default(
        lambda: context.facts.packages.unpacked_on[update.partition(" ")[0]], ""
    )
    age = f" (installed {(today - date.fromisoformat(since)).days} days ago)" if since else ""
    return f"waits: {update}{age}"


def _compare(wish: Wish, context: Context) -> Finding:
    path = _address_file(wish).name
    present = context.state[_address_file(wish)]
    today = date.fromisoformat(context.facts.host.today)
    patterns = tuple(wish.name.split())
    dropin = compare_dropin(path, _render_text(wish), wish.rule, context, Activation.NOW)
    waits = (_describe_age(update, today, context) for update in wish.fields.get("updates", ()))
    evidence = (
        *dropin.evidence,
        *wish.fields.get("evidence", ()),
        *waits,
        *_of_others(path, patterns, context),
    )
    if dropin.unknown:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=dropin.unknown)
    if dropin.hold:
        reason = "the list of what unattended-upgrades leaves alone is not the one wanted"
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            dropin.hold,
            reason,
            evidence,
            todo=dropin.todo,
        )
    if dropin.change is not None:
        reason = _describe_reason(is_new=not isinstance(present, FileValue))
        if cleared := _cleared_after(path, context):
            hold = Hold(HoldKind.OWNED, f"{cleared} ({CLEAR} {KEY})")
            todo = (
                f"remove that line, or ignore {wish.rule}: it takes away what files before it say"
            )
            return Finding(
                wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo
            )
        return Finding(
            wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, evidence, (dropin.change,)
        )
    proven = _prove_file(wish, patterns, evidence, context)
    return _review_finding(wish, proven, today, context) if proven.verdict is Verdict.OK else proven


def _review_finding(wish: Wish, proven: Finding, today: date, context: Context) -> Finding:
    """Nothing is planned by the clock: after the date it is a person's turn."""
    path = _address_file(wish).name
    try:
        written = context.facts.etc.written_on[path]
    except UnknownFact as unknown:
        return replace(
            proven,
            verdict=Verdict.UNKNOWN,
            reason=f"when {path} was last reviewed: {unknown.reason}",
        )
    due = date.fromisoformat(written) + timedelta(days=int(wish.fields["review_days"]))
    if today <= due:
        return replace(
            proven, evidence=(*proven.evidence, f"reviewed on {written}, to be reviewed by {due}")
        )
    hold = Hold(HoldKind.REFUSED, "someone has to look at what waits")
    todo = (
        "look at `apt list --upgradable`, upgrade what should be, then say so: sudo touch "
        f"{quote(path)}"
    )
    reason = f"what is held back was to be reviewed by {due} (last reviewed on {written})"
    return replace(proven, verdict=Verdict.DIFFERS, hold=hold, reason=reason, todo=todo)


def _describe_reason(*, is_new: bool) -> str:
    if is_new:
        return (
            "unattended-upgrades may upgrade the driver while work runs, and a mismatch stops all "
            "new CUDA work"
        )
    return "what should be held back has changed"


def _prove_file(
    wish: Wish, patterns: tuple[str, ...], evidence: tuple[str, ...], context: Context
) -> Finding:
    """The file is in place; whether apt's merged list has what it says is asked of apt, where apt
    can be asked.
    """
    try:
        merged = context.facts.apt[KEY].merged
    except UnknownFact as unknown:
        if context.facts.reader.persistent_only:
            return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)
        reason = prefix_reason("what apt makes of it", unknown.reason)
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=reason)
    missing = [pattern for pattern in patterns if pattern not in merged]
    if missing:
        hold = Hold(HoldKind.REFUSED, f"another file of apt's configuration takes {KEY} away")
        reason = f"apt's merged list lacks {', '.join(missing)}"
        place = _cleared_after(_address_file(wish).name, context)
        todo = (
            f"remove {place}"
            if place
            else f"find `{CLEAR}` of it: grep -rn '{CLEAR}' {LAST} {FOLDER}"
        )
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo)
    return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)


def _read_lines(context: Context) -> tuple[Placed, ...]:
    """Of the list; none where the files cannot be read: what apt makes of them tells
    `_prove_file`.
    """
    return read_or_default(lambda: context.facts.apt[KEY].lines, ())


def _of_others(path: str, patterns: tuple[str, ...], context: Context) -> tuple[str, ...]:
    """What other files put on the list, which stays; where it is not seen which, as apt has merged
    it.
    """
    placed = {
        one.value: one.place
        for one in _read_lines(context)
        if one.value != CLEAR and one.path != path
    }
    none: tuple[str, ...] = ()
    merged = read_or_default(lambda: context.facts.apt[KEY].merged, none)
    others = (value for value in merged if value not in patterns)
    return tuple(
        f"stays on the list: {value} ({placed.get(value, 'of another file')})" for value in others
    )


def _cleared_after(path: str, context: Context) -> str:
    """FILE:LINE that empties the list after our file was read; empty where none does."""
    later = (
        one.place
        for one in _read_lines(context)
        # apt reads apt.conf after all of apt.conf.d, though its name sorts before them
        # (apt.conf(5)).
        if one.value == CLEAR and (one.path == LAST or one.path > path)
    )
    return next(later, "")


WISH = AptBlacklistWish()
