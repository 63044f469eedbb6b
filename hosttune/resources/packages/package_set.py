"""The address `package-set:NAMES`: what dpkg has of a set of packages, and how apt-get brings it
elsewhere.

A set is one address, so that it is installed, verified and undone as a whole. Its name says which
packages are asked for, which come along, and which have to go: `package-set:tuned + python3-perf -
power-profiles-daemon`. Whether a transaction took is read from dpkg afterwards; the exit status of
apt-get alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.choices.dpkg_stop import repair_of
from hosttune.errors import Conflict, HalfWay, Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.facts.apt_decisions import decisions_about, join_decisions
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.packages import DATABASE, REPAIR
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.resources.base import AddressKind, invert_change
from hosttune.resources.packages.apt_wait import wait_for_apt
from hosttune.resources.packages.kept_debs import drop, keep, spell_operand
from hosttune.resources.packages.package_repair import mend, settle, try_running
from hosttune.resources.packages.room import find_lack
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.values import ABSENT, Absent, Change, FileValue, Unreadable, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts.packages import Package
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Value

# behind a version to which a package returns: it had come along with others (apt-mark(8))
AUTOMATIC = " (auto)"
# Of apt-get itself, of its dpkg, of a maintainer script: no one says that it would fail again.
_STOPPED = regex(r"by signal|exited unexpectedly|received a segmentation fault")
_OF_PACKAGES = ("/boot", "/etc", "/usr", "/usr/bin", "/usr/lib", "/var/lib/dpkg")


def set_name(
    asked: tuple[str, ...], along: tuple[str, ...] = (), removed: tuple[str, ...] = ()
) -> str:
    """The name of a package-set address."""
    return " ".join(
        (*asked, *(("+", *along) if along else ()), *(("-", *removed) if removed else ()))
    )


def split_set(name: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The packages of a package-set address: asked for, coming along, removed."""
    parts: dict[str, list[str]] = {"": [], "+": [], "-": []}
    part = ""
    for word in name.split():
        if word in parts:
            part = word
        else:
            parts[part].append(word)
    return tuple(parts[""]), tuple(parts["+"]), tuple(parts["-"])


def names_of(name: str) -> tuple[str, ...]:
    """All packages of a package-set address."""
    return tuple(one for part in split_set(name) for one in part)


def parse_versions(value: Value) -> dict[str, str]:
    """Versions by name, of the value of a set; what is in brackets behind a version is left out."""
    pairs = (one.partition("=") for one in value) if isinstance(value, tuple) else ()
    return {name: version.partition(" ")[0] for name, _, version in pairs}


def value_of(known: Mapping[str, str], automatic: frozenset[str] = frozenset()) -> Value:
    """The value of a set: name -> version, and which of these had come along."""
    entries = (
        f"{name}={version}{AUTOMATIC if name in automatic else ''}"
        for name, version in known.items()
    )
    return tuple(sorted(entries)) or ABSENT


def was_interrupted(reader: Reader) -> bool:
    """Whether dpkg has not written its own journal off; not where its database cannot be read, and
    no set either.
    """
    return read_or_default(lambda: bool(Facts(reader).packages.is_interrupted), otherwise=False)


def describe_repair(reader: Reader) -> str:
    """What a person types to repair what dpkg left half-way, as far as its database can be read."""
    return read_or_default(lambda: repair_of(Facts(reader)), REPAIR)


class PackageSetAddress(AddressKind):
    """`package-set:NAMES`: a tuple of "name=version" of those of them that are there, or ABSENT for
    none.

    One that dpkg left half-way has its state behind it: "name=version (half-configured)".
    """

    kind = "package-set"
    is_in_parts = True
    is_set = True
    goes_back = False  # packages go only where someone asks for it

    def describe(self, name: str) -> str:
        names = names_of(name)
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

    def read(self, reader: Reader, name: str) -> Value:
        packages = Facts(reader).packages
        try:
            known = [packages[one] for one in names_of(name)]
        except UnknownFact as unknown:
            return Unreadable(unknown.reason)
        return (
            tuple(
                sorted(_format_entry(one) for one in known if one.is_installed or one.is_unfinished)
            )
            or ABSENT
        )

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        present = self.read(writer, name)
        if not self.same(present, change.before):
            raise Conflict(
                f"the packages are no longer as planned: {describe_set(present)}",
                hint="run the plan again",
            )
        before, after = parse_versions(change.before), parse_versions(change.after)
        if writer.kind == "overlay":
            _enter(writer, before, after)
            return
        self._finish(writer, change, self._brought(writer, change))

    def complete(self, writer: Writer, change: Change) -> None:
        """Go on with a change at which an earlier run stopped half-way. Raises Refused and
        Conflict, as `write`.
        """
        error = mend(writer, names_of(change.address.name))
        if not self.same(self.read(writer, change.address.name), change.after):
            error = self._brought(writer, change)
        self._finish(writer, change, error)

    def _brought(self, writer: Writer, change: Change) -> str:
        """Let apt-get bring the set to where the change leads; returns what went wrong. Where it
        was stopped in the middle, or the set was half-way before, that is mended, and it is asked
        once more.
        """
        error = ""
        # Twice at most: what fails the same way again is a fault of the packages, and dpkg must not
        # be run in a loop.
        for is_last in (False, True):
            present = self.read(writer, change.address.name)
            if parse_versions(present) == parse_versions(change.after):
                if is_last or not _is_half(present):
                    return error if _is_half(present) else ""
                # for that, apt may take a package away
                error = mend(writer, names_of(change.address.name))
                continue
            try:
                error = _transact(writer, change, parse_versions(present))
            except Refused as refused:
                if error:  # what apt-get did before has left something
                    return f"{error}\n{refused.message}"
                if is_last or not _is_half(change.before):
                    raise
            else:
                if is_last or not (error and (_is_half(change.before) or _STOPPED.search(error))):
                    return error
            mend(writer, names_of(change.address.name))
        return error

    def _finish(self, writer: Writer, change: Change, error: str) -> None:
        """Raise Refused unless the set is where the change leads, whole."""
        left = self.read(writer, change.address.name)
        # dpkg's database decides, and not the status of apt-get: it can be 0 with a package kept
        # back, and 100 with all of them installed.
        if not self.same(left, change.after) or was_interrupted(writer):
            raise _make_refusal(writer, error or "apt-get reported no error", left, change)
        if came_along := _list_marked(change.after):
            writer.run(apt.mark_automatic(came_along), timeout_s=apt.LOOK_TIMEOUT_S)

    def same(self, one: Value, other: Value) -> bool:
        """Whether `one`, as it is, is `other`, as it was planned or left: the same versions, and
        nothing half-way that was not so then. What was half-way may be repaired meanwhile, and is
        still the one that came.
        """
        if isinstance(one, tuple) and isinstance(other, tuple):
            return parse_versions(one) == parse_versions(other) and half_of(one) <= half_of(other)
        return one == other

    def invert(self, change: Change) -> Change | None:
        back = invert_change(change)
        return replace(back, details=describe_changes(back.before, back.after))

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(list_steps(changes, _step))

    def as_of_now(self, change: Change, facts: Facts) -> Change:
        from hosttune.resources.packages.driver_use import as_of_now

        return as_of_now(change, facts)

    def prepare(
        self, writer: Writer, change: Change, on_progress: Callable[[str], None], *, is_undo: bool
    ) -> None:
        wait_for_apt(writer, on_progress)
        if not is_undo:
            keep(writer, parse_versions(change.before))

    def stand(self, changes: Sequence[Change], reader: Reader) -> bool:
        """A package may be in several sets: each is, whole, in the version that the last of them
        gave it.
        """
        wanted: dict[str, str] = {}
        for change in changes:
            after = parse_versions(change.after)
            wanted |= {name: after.get(name, "") for name in names_of(change.address.name)}
        try:
            packages = Facts(reader).packages
            there = [(packages[name], version) for name, version in wanted.items()]
        except UnknownFact:
            return False
        return all(
            (one.version if one.is_installed else "") == v and not one.is_unfinished
            for one, v in there
        )

    def waits_after(self, changes: Sequence[Change], reader: Reader) -> tuple[str, ...]:  # noqa: ARG002
        from hosttune.resources.packages.package_stays import restarts_left

        return restarts_left(reader)

    def left_by(self, changes: Sequence[Change], reader: Reader) -> tuple[str, ...]:
        from hosttune.resources.packages.package_stays import left_by

        return left_by(changes, reader)

    def settle(self, writer: Writer, on_progress: Callable[[str], None]) -> bool:
        wait_for_apt(writer, on_progress)
        settle(writer)
        return was_interrupted(writer)

    def mend(self, writer: Writer, change: Change) -> None:
        mend(writer, names_of(change.address.name))

    def is_between(self, present: Value, change: Change) -> bool:
        """Each package is as before or as after it: a transaction that stopped, and what a repair
        by hand makes of it, bring no third version.
        """
        now, old, new = (
            parse_versions(present),
            parse_versions(change.before),
            parse_versions(change.after),
        )
        return all(
            now.get(one) in ("", old.get(one), new.get(one))
            for one in names_of(change.address.name)
        )

    def keep_for(self, changes: Sequence[Change], writer: Writer) -> None:
        drop(writer, {pair for change in changes for pair in parse_versions(change.before).items()})


def _step(change: Change) -> CommandLine:
    asked, along, removed = split_set(change.address.name)
    before, after = parse_versions(change.before), parse_versions(change.after)
    named = (
        name for name in (*asked, *removed) if name in after and after[name] != before.get(name)
    )
    install = [f"{name}={after[name]}" if after[name] else name for name in named]
    remove = [name for name in (*asked, *along, *removed) if name in before and name not in after]
    if not install:
        return CommandLine(
            f"apt-get remove {' '.join(map(quote, remove))}, after a look at what else goes"
        )
    return CommandLine(
        "apt-get install --no-install-recommends "
        f"{' '.join(map(quote, [*install, *(f'{one}-' for one in remove)]))}"
    )


def describe_changes(before: Value, after: Value) -> tuple[str, ...]:
    """What becomes of each package, those of one version on one line, and what stays of those that
    go.
    """
    old, new = parse_versions(before), parse_versions(after)
    gone = [name for name in old if name not in new]
    half = [name for name in sorted(half_of(before) - half_of(after)) if name in new]
    acts = [(name, "install", version) for name, version in new.items() if name not in old]
    acts += [
        (name, "put back", f"{old[name]} -> {new[name]}")
        for name in old
        if new.get(name, old[name]) != old[name]
    ]
    acts += [(name, "configure", old[name]) for name in half]
    acts += [(name, "remove", old[name]) for name in gone]
    return (
        *apt.join_equal(acts),
        *(
            [f"their configuration files stay: sudo apt-get purge {' '.join(map(quote, gone))}"]
            * bool(gone)
        ),
    )


def _format_entry(package: Package) -> str:
    return f"{package.name}={package.version}" + (
        f" ({package.status})" if package.is_unfinished else ""
    )


def half_of(value: Value) -> set[str]:
    """The packages of a value that are half-way."""
    entries = value if isinstance(value, tuple) else ()
    return {
        one.partition("=")[0]
        for one in entries
        if one.endswith(")") and not one.endswith(AUTOMATIC)
    }


def _is_half(value: Value) -> bool:
    return bool(half_of(value))


def _list_marked(value: Value) -> tuple[str, ...]:
    entries = value if isinstance(value, tuple) else ()
    return tuple(one.partition("=")[0] for one in entries if one.endswith(AUTOMATIC))


def _transact(writer: Writer, change: Change, before: Mapping[str, str]) -> str:
    """Let apt-get do it; returns what went wrong. Raises Refused and Conflict, as
    `_settle_change`.
    """
    after = parse_versions(change.after)
    operands, would = _settle_change(writer, change, before, after)
    lack, way_out = find_lack(would, Facts(writer))  # as it is now; of an undo for the first time
    if lack:
        raise Refused(lack, hint=way_out)
    error = try_running(writer, apt.make_installation(operands, would), apt.INSTALL_TIMEOUT_S)
    errors = [error, settle(writer) if "did not end" in error else ""]
    new = {
        name: after[name]
        for name in split_set(change.address.name)[1]
        if name in after and name not in before
    }
    if named := [name for name in new if {*_spell_exact(writer, (name,), new)} & {*operands}]:
        errors.append(try_running(writer, apt.mark_automatic(named), apt.LOOK_TIMEOUT_S))
    return "\n".join(filter(None, errors))


def _make_refusal(reader: Reader, error: str, left: Value, change: Change) -> Refused:
    """What became of the set, and the commands that lead out."""
    if isinstance(left, Unreadable):
        return Refused(
            f"{error}\n  what is installed now cannot be read: {left.reason}", hint=REPAIR
        )
    entries = left if isinstance(left, tuple) else ()
    whole = tuple(one for one in entries if not _is_half((one,)))
    half = tuple(one for one in entries if _is_half((one,)))
    lines = [error, f"now installed of the set: {describe_set(whole or ABSENT)}"]
    lines += [f"half-way: {', '.join(half)}"] * bool(half)
    missing = _list_differing(parse_versions(change.after), parse_versions(whole))
    lines += [f"not as planned: {', '.join(missing)}"] * bool(missing)
    describe_changes = "\n  ".join(lines)
    room = f"{_make_room(reader)}: " if _is_full(error) else ""
    is_stuck = bool(half) or "dpkg was interrupted" in error or was_interrupted(reader)
    if not PackageSetAddress().same(left, change.before):
        return HalfWay(
            describe_changes, first=room, by_hand=describe_repair(reader) if is_stuck else ""
        )
    if is_stuck:
        return Refused(describe_changes, hint=f"{room}{describe_repair(reader)}\nrun it again")
    return Refused(describe_changes, hint=_describe_unchanged(reader, error))


def _list_differing(planned: Mapping[str, str], present: Mapping[str, str]) -> tuple[str, ...]:
    wrong = [
        f"{name} {version}" for name, version in planned.items() if present.get(name) != version
    ]
    return (
        *wrong,
        *(
            f"{name} {version} is still there"
            for name, version in present.items()
            if name not in planned
        ),
    )


def _is_full(error: str) -> bool:
    return "No space left" in error or "enough free space" in error


def _make_room(reader: Reader) -> str:
    """What to do about a full disk: a full /boot is reported by itself, as the one that packages
    fill first.
    """
    try:
        boot = Facts(reader).boot_room
        if boot.is_full:
            return f"make room on {boot.target}: {'; '.join(steps_of(boot.way_out))}; then"
    except UnknownFact:
        pass
    return "make room (df -h / /boot /var), then"


def _describe_unchanged(reader: Reader, error: str) -> str:
    """What to do after a transaction that failed and has left all as it was."""
    if _is_full(error):
        return f"{_make_room(reader)} run it again; no package has changed"
    if apt.is_locked(error):
        return "wait until the other package manager has ended, then run it again"
    return "no package has changed; sudo apt-get update, then run it again"


def _settle_change(
    writer: Writer, change: Change, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[tuple[str, ...], apt.Transaction]:
    """The operands with which apt-get does exactly this change now, and what it says of them.
    Raises Conflict where it would do something else.

    A package that is named becomes marked as wanted by hand (apt-mark(8)), so what only comes along
    is named in a second try alone: an older version does not come by itself. Nor does what is new,
    once the package is there that brings it and does not depend on it: where an earlier run stopped
    after a part, the third try names that too.
    """
    asked, along, removed = split_set(change.address.name)
    gone = tuple(
        f"{name}-" for name in (*asked, *along, *removed) if name in before and name not in after
    )
    wanted = _find_changed(before, after), _find_changed(after, before)
    named = [(), tuple(name for name in along if name in before)]
    named += [along] * (before != parse_versions(change.before))
    tries = dict.fromkeys(
        (*_spell_exact(writer, (*asked, *some, *removed), wanted[1]), *gone) for some in named
    )
    would = apt.Transaction(())
    for operands in filter(None, tries):
        would = _ask(writer, operands)
        # The whole effect has to be equal, and not only the packages that were named: anything else
        # was not in the plan that a person approved.
        if not would.error and (would.before, would.after) == wanted:
            return operands, would
    if would.error:
        raise Refused(f"apt-get: {would.error}", hint=_way_in(writer, would.error, asked))
    raise Conflict(
        f"apt would now do something else: {_describe_difference(would, after)}",
        hint="run the plan again",
    )


def _way_in(reader: Reader, error: str, asked: tuple[str, ...]) -> str:
    """What to do where apt-get says that it would not begin."""
    if "dpkg was interrupted" not in error and (
        decided := join_decisions(decisions_about(Facts(reader), asked))
    ):
        return f"{decided.what}: {decided.undo}"
    if "Held packages" in error:
        return (
            "a hold of an administrator is in the way: apt-mark showhold; "
            "when it has served, sudo apt-mark unhold"
        )
    if "dpkg was interrupted" in error or "Unmet dependencies" in error:
        return f"{describe_repair(reader)}\nrun it again"
    return "sudo apt-get update, then run it again"


def _spell_exact(
    reader: Reader, names: tuple[str, ...], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    return tuple(spell_operand(reader, name, wanted[name]) for name in names if name in wanted)


def _ask(reader: Reader, operands: tuple[str, ...]) -> apt.Transaction:
    answer = reader.query(apt.make_simulation(operands), timeout_s=apt.LOOK_TIMEOUT_S)
    if isinstance(answer, Unreadable):
        raise Refused(f"apt-get: {answer.reason}")
    if isinstance(answer, Absent):
        raise Refused("apt-get is not installed")
    return apt.parse(
        apt.find_relevant_lines(answer.text)
        if answer.status == 0
        else apt.parse_errors(answer.errors, answer.status)
    )


def _enter(writer: Writer, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """No dpkg works on an overlay: enter in its database what dpkg would enter."""
    for folder in _OF_PACKAGES:
        if refused := writer.refused_write(f"{folder}/.dpkg-new"):
            raise refused
    database = writer.read(DATABASE)
    if not isinstance(database, bytes):
        raise Refused(f"{DATABASE} cannot be read")
    paragraphs = database.strip(b"\n").split(b"\n\n")
    native = next(
        (_parse_paragraph(one)[1] for one in paragraphs if _parse_paragraph(one)[0] == "dpkg"), ""
    )
    kept = []
    for one in paragraphs:
        name, architecture = _parse_paragraph(one)
        key = name if architecture in {native, "all", ""} else f"{name}:{architecture}"
        if key not in before and key not in after:
            kept.append(one)
    new = [
        f"Package: {n}\nStatus: install ok installed\nVersion: {version}".encode()
        for n, version in after.items()
    ]
    writer.replace(DATABASE, FileValue(b"\n\n".join((*kept, *new)) + b"\n"), expected=database)


def _parse_paragraph(paragraph: bytes) -> tuple[str, str]:
    """(name, architecture) of a paragraph of dpkg's database."""
    rows = dict(row.partition(b": ")[::2] for row in paragraph.split(b"\n"))
    return rows.get(b"Package", b"").decode("utf-8", "replace"), rows.get(
        b"Architecture", b""
    ).decode("utf-8", "replace")


def _find_changed(known: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in known.items() if other.get(name) != version}


def _describe_difference(would: apt.Transaction, after: Mapping[str, str]) -> str:
    others = replace(would, steps=tuple(step for step in would.steps if step.name not in after))
    return "; ".join(apt.describe(others if others.steps else would)) or "nothing"


def describe_set(value: Value) -> str:
    """The value of a set for people."""
    if isinstance(value, Unreadable):
        return value.reason
    return ", ".join(value) if isinstance(value, tuple) else "none of them is installed"


ADDRESS = PackageSetAddress()
