"""What unattended-upgrades leaves alone, in a file of ours in apt.conf.d, which somebody reviews from time to time.

When that was last is the time of the file, which touch(1) renews: a date in its text would make a plan of yesterday
another one today, though nothing else has changed.

apt merges a list over all its files: `NAME:: "value";` and `NAME { "value"; };` both append, and only `#clear NAME;` in
a later file takes values away (apt.conf(5)). So an administrator's own list stays, and whether ours arrived is asked of
`apt-config dump`. unattended-upgrades matches its patterns at the start of a package's name (Python's re.match).
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hosttune.facts.apt_conf import CLEAR, FOLDER, LAST
from hosttune.host.door import Completed, Stat
from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.file import compare_dropin, dropin_path
from hosttune.resources.read_only import ReadOnly
from hosttune.values import Activation, Address, FileValue, Finding, Hold, HoldKind, Unreadable, Verdict, behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Answer, Change, Value

KEY = "Unattended-Upgrade::Package-Blacklist"
_LISTS = "/var/lib/dpkg/info"
_TODAY = Address("clock", "today")
_MERGED = Address("apt-config", KEY)
_FILES = Address("apt-files", KEY)


def dump_command(key: str) -> tuple[str, ...]:
    """The program call that prints a list as apt has merged it."""
    return ("apt-config", "dump", key)


def values_in(dump: str, key: str) -> tuple[str, ...]:
    """The values of a list in the output of `apt-config dump`: KEY:: "value"; on a line each."""
    return tuple(re.findall(rf'^{re.escape(key)}:: "(.*)";$', dump, re.MULTILINE))


class AptConfigAddress(ReadOnly):
    """`apt-config:NAME`: the values of one of apt's lists, merged over all its files; empty where nobody sets it."""

    kind = "apt-config"

    def read(self, reader: Reader, name: str) -> Value:
        answer = reader.query(dump_command(name))
        if not isinstance(answer, Completed):
            return answer if isinstance(answer, Unreadable) else Unreadable("apt-config is not installed")
        if answer.status != 0:
            return Unreadable(f"apt-config: {(answer.errors.strip().splitlines() or ['it failed'])[0]}")
        return values_in(answer.text, name)


class ClockAddress(ReadOnly):
    """`clock:today`: the date, ISO 8601, UTC; of a record the one on which it was made."""

    kind = "clock"

    def read(self, reader: Reader, name: str) -> Value:  # noqa: ARG002 - the interface of all kinds
        return datetime.fromtimestamp(reader.now(), timezone.utc).date().isoformat()


class WrittenAddress(ReadOnly):
    """`written:PATH`: the date, ISO 8601, UTC, on which a file was written or touched last."""

    kind = "written"

    def read(self, reader: Reader, name: str) -> Value:
        return _day_of(reader.stat(name))


class InstalledSinceAddress(ReadOnly):
    """`installed-since:PACKAGE`: the date, ISO 8601, UTC, on which dpkg unpacked what is installed: it writes the list
    of the package's files then (dpkg-query(1), --listfiles).
    """

    kind = "installed-since"

    def read(self, reader: Reader, name: str) -> Value:
        places = (f"{_LISTS}/{name}{suffix}.list" for suffix in ("", ":amd64", ":arm64"))
        answers = [reader.stat(place) for place in places]
        found = next((one for one in answers if isinstance(one, Stat)), answers[0])
        return _day_of(found)


def _day_of(found: Answer[Stat]) -> Value:
    if not isinstance(found, Stat):
        return found
    return datetime.fromtimestamp(found.mtime_ns / 1e9, timezone.utc).date().isoformat()


class AptBlacklistWish(WishKind):
    """`- apt-blacklist: PATTERNS` with `review_days`."""

    kind = "apt-blacklist"
    fields: Mapping[str, FieldSpec] = {
        "review_days": FieldSpec(int, required=True, help="Days after which somebody has to review it again"),
        "evidence": FieldSpec(list, help="Sentences for the report: what is held"),
        "updates": FieldSpec(list, help="What waits, each NAME INSTALLED -> NEW; the report adds its age"),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (
            _file(wish),
            _written(wish),
            _MERGED,
            _FILES,
            _TODAY,
            *(_since(update) for update in wish.fields.get("updates", ())),
        )

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_compare(wish, context) for wish in wishes)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(in_general(wish, _file(wish), _text(wish)) for wish in wishes)


def _text(wish: Wish) -> bytes:
    patterns = tuple(wish.name.split())
    path = _file(wish).name
    return render("apt-blacklist.conf.j2", rule=wish.rule, key=KEY, patterns=patterns, path=path).encode()


def _file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _written(wish: Wish) -> Address:
    return Address("written", _file(wish).name)


def _since(update: str) -> Address:
    return Address("installed-since", update.partition(" ")[0])


def _aged(update: str, today: date, context: Context) -> str:
    """`waits: nvidia-utils-580 580.95.05-1 -> 580.126.20-1`, with the age of the version that is installed."""
    since = context.state[_since(update)]
    days = (today - date.fromisoformat(since)).days if isinstance(since, str) else None
    return f"waits: {update}" + (f" (installed {days} days ago)" if days is not None else "")


def _compare(wish: Wish, context: Context) -> Finding:
    path = _file(wish).name
    present = context.state[_file(wish)]
    today = date.fromisoformat(str(context.state[_TODAY]))
    patterns = tuple(wish.name.split())
    dropin = compare_dropin(path, _text(wish), wish.rule, context, Activation.NOW)
    waits = (_aged(update, today, context) for update in wish.fields.get("updates", ()))
    evidence = (*dropin.evidence, *wish.fields.get("evidence", ()), *waits, *_of_others(path, patterns, context))
    if dropin.unknown:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=dropin.unknown)
    if dropin.hold:
        reason = "the list of what unattended-upgrades leaves alone is not the one wanted"
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, dropin.hold, reason, evidence, todo=dropin.todo)
    if dropin.change is not None:
        reason = _reason(is_new=not isinstance(present, FileValue))
        if cleared := _cleared_after(path, context):
            hold = Hold(HoldKind.OWNED, f"{cleared} ({CLEAR} {KEY})")
            todo = f"remove that line, or ignore {wish.rule}: it takes away what files before it say"
            return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo)
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, evidence, (dropin.change,))
    proven = _proven(wish, patterns, evidence, context)
    return _reviewed(wish, proven, today, context) if proven.verdict is Verdict.OK else proven


def _reviewed(wish: Wish, proven: Finding, today: date, context: Context) -> Finding:
    """Nothing is planned by the clock: after the date it is a person's turn."""
    written = context.state[_written(wish)]
    if not isinstance(written, str):
        why = written.reason if isinstance(written, Unreadable) else "it is gone"
        return replace(proven, verdict=Verdict.UNKNOWN, reason=f"when {_file(wish).name} was last reviewed: {why}")
    due = date.fromisoformat(written) + timedelta(days=int(wish.fields["review_days"]))
    if today <= due:
        return replace(proven, evidence=(*proven.evidence, f"reviewed on {written}, to be reviewed by {due}"))
    hold = Hold(HoldKind.REFUSED, "somebody has to look at what waits")
    todo = f"look at `apt list --upgradable`, upgrade what should be, then say so: sudo touch {_file(wish).name}"
    reason = f"what is held back was to be reviewed by {due} (last reviewed on {written})"
    return replace(proven, verdict=Verdict.DIFFERS, hold=hold, reason=reason, todo=todo)


def _reason(*, is_new: bool) -> str:
    if is_new:
        return "unattended-upgrades may upgrade the driver while work runs, and a mismatch stops all new CUDA work"
    return "what should be held back has changed"


def _proven(wish: Wish, patterns: tuple[str, ...], evidence: tuple[str, ...], context: Context) -> Finding:
    """The file is in place; whether apt's merged list has what it says is asked of apt, where apt can be asked."""
    merged = context.state[_MERGED]
    if isinstance(merged, Unreadable) and context.facts.reader.persistent_only:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)
    if not isinstance(merged, tuple):
        why = merged.reason if isinstance(merged, Unreadable) else "apt-config gave no answer"
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=behind("what apt makes of it", why))
    missing = [pattern for pattern in patterns if pattern not in merged]
    if missing:
        hold = Hold(HoldKind.REFUSED, f"another file of apt's configuration takes {KEY} away")
        reason = f"apt's merged list lacks {', '.join(missing)}"
        place = _cleared_after(_file(wish).name, context)
        todo = f"remove {place}" if place else f"find `{CLEAR}` of it: grep -rn '{CLEAR}' {LAST} {FOLDER}"
        return Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo)
    return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)


def _rows(context: Context) -> list[tuple[str, str]]:
    """(value, FILE:LINE) of the list; none where the files cannot be read: what apt makes of them tells `_proven`."""
    rows = context.state.get(_FILES, ())
    pairs = (row.rpartition("\t") for row in rows) if isinstance(rows, tuple) else ()
    return [(value, place) for value, _, place in pairs]


def _of_others(path: str, patterns: tuple[str, ...], context: Context) -> tuple[str, ...]:
    """What other files put on the list, which stays; where it is not seen which, as apt has merged it."""
    placed = {value: place for value, place in _rows(context) if value != CLEAR and not place.startswith(f"{path}:")}
    merged = context.state.get(_MERGED, ())
    others = (value for value in merged if value not in patterns) if isinstance(merged, tuple) else ()
    return tuple(f"stays on the list: {value} ({placed.get(value, 'of another file')})" for value in others)


def _cleared_after(path: str, context: Context) -> str:
    """FILE:LINE that empties the list after our file was read; empty where none does."""
    later = (place for value, place in _rows(context) if value == CLEAR and _is_after(place.rpartition(":")[0], path))
    return next(later, "")


def _is_after(file: str, path: str) -> bool:
    return file == LAST or file > path


WISH = AptBlacklistWish()
ADDRESSES = (AptConfigAddress(), ClockAddress(), InstalledSinceAddress(), WrittenAddress())
