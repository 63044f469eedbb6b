"""Kernel values below /sys: the live one, and the drop-in that sets it at the next boot.

tmpfiles.d(5) brings a value back at boot (`w` lines, which take wildcards); a device that comes
later or whose name may change gets it from a udev rule. A file that lists its choices, one in
brackets, reads as the chosen word.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.kernel.sysfs_at_boot import SOURCES, device_of
from hosttune.facts.precedence import TMPFILES, UDEV, lost_words, over_words, owned_place, way_over
from hosttune.facts.sysfs import fits
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import OLD, FieldSpec, Operator, WishKind, action_between, in_general
from hosttune.resources.bounds import choose_nearest, describe_wish, is_better, satisfies_wish
from hosttune.resources.elsewhere import by_commands, by_tuned
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text, hand_edit
from hosttune.resources.kernel.sysfs_set import MANY, number_paths, spell_values
from hosttune.resources.kernel.sysfs_values import SysfsAddress
from hosttune.values import (
    ABSENT,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.kernel.sysfs_at_boot import Setter
    from hosttune.resources.base import Context, Wish
    from hosttune.resources.elsewhere import Elsewhere
    from hosttune.values import Value

FOLDERS = {"tmpfiles": ("/etc/tmpfiles.d", ".conf"), "udev": ("/etc/udev/rules.d", ".rules")}
_NAME = regex(r"/sys(?:/(?!\.\.?/)[^\s\"'\\%/{}]+)+")
_VALUE = regex(r"[\w.,:+/ -]+")
_SUBSTITUTION = regex(r"[%$](?![%$])")  # udev(7): `%c` is what a PROGRAM printed
_MATCH = regex(r'(?:^|,\s*)[\w{}/.-]+(?:==|!=)"[^"\\\n]*"(?=,|$)')


class SysfsWish(WishKind):
    """`- sysfs: /sys/...` with exactly, at_least or at_most: live now, and by a drop-in of the rule
    at every boot.
    """

    kind = "sysfs"
    fields: Mapping[str, FieldSpec] = {
        "persist": FieldSpec(
            str, choices=tuple(FOLDERS), help="What sets it at boot: tmpfiles.d unless given"
        ),
        "match": FieldSpec(
            str, help='Matches of the udev rule instead of the device\'s name: KEY=="value", ...'
        ),
        "kernel_default": FieldSpec(
            bool, help="The kernel chooses such a value by itself: no file has to set it"
        ),
    }
    operators = (Operator.EXACTLY, Operator.AT_LEAST, Operator.AT_MOST)
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        files: tuple[str, ...] = ()
        if _NAME.fullmatch(wish.name):
            files = read_or_default(lambda: facts.sysfs.files[wish.name], files)
        return (*(Address("sysfs", path) for path in files), Address("file", _name_dropin(wish)))

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        looks = [_examine(wish, context) for wish in wishes]
        settings = [look for look in looks if isinstance(look, _SysfsComparison)]
        dropins = {
            path: _compare_dropin(path, settings, context)
            for path in {_name_dropin(wish) for wish in wishes}
        }
        findings = []
        for look in looks:
            if isinstance(look, Finding):
                findings.append(look)
                continue
            path = _name_dropin(look.wish)
            findings.append(_make_finding(look, dropins[path], context))
            # the drop-in is one change, carried by the first wish that needs it
            if findings[-1].changes:
                dropins[path] = Dropin() if look.is_missing_at_boot else dropins[path]
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        changes = [
            in_general(one, Address(self.kind, one.name), choose_nearest("", one), before=OLD)
            for one in wishes
        ]
        for path in dict.fromkeys(map(_name_dropin, wishes)):
            kept = [
                _SysfsComparison(one, {}, {}, True, ())
                for one in wishes
                if _name_dropin(one) == path
            ]
            changes.append(in_general(kept[0].wish, Address("file", path), _render_text(kept)))
        return tuple(changes)


def _match(wish: Wish) -> str:
    return str(wish.fields.get("match") or "")


def _get_attribute(wish: Wish) -> str:
    device = device_of(wish.name)
    return device.attribute if device else wish.name.rpartition("/")[2]


def _get_persist(wish: Wish) -> str:
    return str(wish.fields.get("persist") or "tmpfiles")


def _name_dropin(wish: Wish) -> str:
    folder, suffix = FOLDERS[_get_persist(wish)]
    return dropin_path(folder, wish.rule, suffix)


@frozen
class _SysfsComparison:
    """One wish: what its files hold now, and what they should."""

    wish: Wish
    live: Mapping[str, str]  # path -> present value
    # path -> the value that satisfies the wish and is nearest to the present one
    wanted: Mapping[str, str]
    is_missing_at_boot: bool  # nothing that satisfies the wish sets some of them at boot
    evidence: tuple[str, ...]
    hold: Hold = Hold()
    todo: str = ""
    is_elsewhere: bool = False  # TuneD or a command sets it at boot, so that no line of ours has to

    @property
    def off(self) -> tuple[str, ...]:
        return tuple(
            path for path, value in self.live.items() if not satisfies_wish(value, self.wish)
        )


def _examine(wish: Wish, context: Context) -> _SysfsComparison | Finding:
    state, is_image = context.state, context.facts.reader.persistent_only
    if refusal := _why_not(wish):
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            Hold(HoldKind.REFUSED, refusal),
            describe_wish(wish),
        )
    facts = context.facts
    try:
        values = {path: state[Address("sysfs", path)] for path in facts.sysfs.files[wish.name]}
        _ = facts.sysfs_at_boot[wish.name].settings
    except UnknownFact as unknown:
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.UNKNOWN,
            reason=prefix_reason(wish.name, unknown.reason),
        )
    for value in values.values():
        if isinstance(value, Unreadable):
            return Finding(
                wish.rule,
                wish.subject,
                Verdict.UNKNOWN,
                reason=prefix_reason(wish.name, value.reason),
            )
    live = {path: str(value) for path, value in values.items() if value is not ABSENT}
    wanted = {path: choose_nearest(value, wish) for path, value in live.items()}
    offers = {path: facts.sysfs.choices[path] for path in live}
    unable = [path for path, words in offers.items() if words and wanted[path] not in words]
    if not is_image and len(unable) == len(live):
        none = f"this kernel has no {wish.name}"
        taken = (
            f"{unable[0]} does not take {wanted[unable[0]]}: {', '.join(offers[unable[0]])}"
            if unable
            else none
        )
        return Finding(wish.rule, wish.subject, Verdict.NOT_APPLICABLE, reason=taken)
    for path in unable:
        del live[path], wanted[path]
    own = _name_dropin(wish)
    setting = {
        path: tuple(
            one
            for one in facts.sysfs_at_boot[path].settings
            if one.given.path != own or _is_of(one, wish)
        )
        for path in (live or (wish.name,))
    }
    missing = [path for path, found in setting.items() if not _is_set(found, wish, own)]
    elsewhere = {
        path: one
        for path in missing
        if (one := _find_elsewhere(path, live.get(path, ""), wish, context))
    }
    evidence = _list_evidence(live, setting, elsewhere, own)
    for path, found in setting.items():
        certain = [one.given for one in found if not one.is_conditional]
        evidence += lost_words(certain, UDEV, facts.file_owners, path)
    missing = [path for path in missing if path not in elsewhere or not elsewhere[path].is_enough]
    hold, todo = Hold(), ""
    if missing or any(not satisfies_wish(value, wish) for value in live.values()):
        hold, todo = _find_owner(wish, setting, elsewhere, own, context)
    is_elsewhere = bool(elsewhere) and not missing
    return _SysfsComparison(wish, live, wanted, bool(missing), evidence, hold, todo, is_elsewhere)


def _find_elsewhere(path: str, live: str, wish: Wish, context: Context) -> Elsewhere | None:
    """Who sets a file that nothing in tmpfiles.d and the like sets: TuneD, or a command."""
    facts = context.facts
    words = [
        value for pattern, value in facts.managers.tuned_sysfs_values.items() if fits(path, pattern)
    ]
    found = by_tuned(words[-1] if words else None, wish, live, facts)
    return found or by_commands(lambda pattern: fits(path, pattern), wish, facts)


def _why_not(wish: Wish) -> str:
    """Why this wish cannot be made true at all: its words would not survive in a drop-in."""
    if not _NAME.fullmatch(wish.name):
        return f"{wish.name} is no file below /sys"
    if bad := next(
        (bound.value for bound in wish.bounds if not _VALUE.fullmatch(str(bound.value))), None
    ):
        return f"{bad!r} cannot be written into a drop-in"
    match = _match(wish)
    if match and (
        _get_persist(wish) != "udev"
        or "".join(found[0] for found in _MATCH.finditer(match)) != match
    ):
        return (
            f'match belongs to `persist: udev`, and reads KEY=="value", KEY=="value"; it is '
            f"{match!r}"
        )
    if _get_persist(wish) == "udev" and device_of(wish.name) is None:
        return f"udev knows no device for {wish.name}"
    return ""


def _is_default(wish: Wish) -> bool:
    return bool(wish.fields.get("kernel_default"))


def _is_of(one: Setter, wish: Wish) -> bool:
    """Whether a line of our own file is about exactly this wish's devices: not those of another
    wish of the rule, nor more than these, as an earlier version may have written it.
    """
    wanted = _find_matches(_match(wish))
    if not wanted:
        return not one.condition
    names = {f'KERNEL=="{one.pattern}"'} if one.pattern not in {"", "*"} else set()
    return _find_matches(one.condition) | names == wanted


def _find_matches(text: str) -> set[str]:
    return {found[0].lstrip(", ") for found in _MATCH.finditer(text)}


def _is_set(found: tuple[Setter, ...], wish: Wish, own: str) -> bool:
    """Whether what acts last at boot satisfies the wish; a udev rule that may not apply counts only
    when it is ours.
    """
    certain = [one for one in found if not one.is_conditional or one.given.path == own]
    return satisfies_wish(certain[-1].given.value, wish) if certain else _is_default(wish)


def _find_owner(
    wish: Wish,
    setting: Mapping[str, tuple[Setter, ...]],
    elsewhere: Mapping[str, Elsewhere],
    own: str,
    context: Context,
) -> tuple[Hold, str]:
    managers = context.facts.managers
    for path, found in setting.items():
        if any(fits(path, pattern) for pattern in managers.tuned_sysfs):
            owner = f"TuneD profile {managers.tuned_profile}"
            return Hold(
                HoldKind.OWNED, owner
            ), f"set {path} in a child profile of TuneD, or ignore {wish.rule}"
        if path in elsewhere and not elsewhere[path].is_enough:
            other = elsewhere[path]
            owner = f"{other.place} ({path} = {other.value})"
            return Hold(HoldKind.OWNED, owner), f"{other.way_out}, or ignore {wish.rule}"
        others = [one for one in found if one.given.path != own]
        explicit = [one for one in others if not one.given.is_of_distribution]
        stronger = [one for one in others if not one.is_conditional and _beats_own(one, own, wish)]
        for one in (*stronger[-1:], *explicit[-1:]):
            given = one.given
            if not satisfies_wish(given.value, wish):
                place = owned_place(given, context.facts.file_owners)
                owner = f"{place} ({path} = {given.value})" if given.line else place
                owner += over_words([other.given for other in others], context.facts.file_owners)
                return Hold(
                    HoldKind.OWNED, owner
                ), f"{_way_over(one, path, wish, context)}, or ignore {wish.rule}"
    return Hold(), ""


def _way_over(one: Setter, path: str, wish: Wish, context: Context) -> str:
    """How a line counts over this one, in its own kind of file: also over a line for more files
    than this one.
    """
    value = choose_nearest("", wish)
    if one.source == "udev":
        order, line = UDEV, _udev_rule(wish, path, value)
    else:
        order = replace(TMPFILES, counts_first=one.pattern == path)
        line = _tmpfiles_line(wish, path, value)
    if one.source not in FOLDERS or not line:
        return f"change {one.given.place}"
    return way_over(one.given, order, context.facts.file_owners, f"`{line}`")


def _beats_own(other: Setter, own: str, wish: Wish) -> bool:
    """Whether it acts after a drop-in of ours; of two tmpfiles lines that spell one path the first
    counts, and of two files of one name the one in /etc.
    """
    if other.source != _get_persist(wish):
        return SOURCES.index(other.source) > SOURCES.index(_get_persist(wish))
    theirs, ours = other.given.file_name, posixpath.basename(own)
    return theirs != ours and (theirs > ours) != (
        other.source == "tmpfiles" and other.pattern == wish.name
    )


def _list_evidence(
    live: Mapping[str, str],
    setting: Mapping[str, tuple[Setter, ...]],
    elsewhere: Mapping[str, Elsewhere],
    own: str,
) -> tuple[str, ...]:
    present: dict[str, int] = {}
    for value in live.values():
        present[value] = present.get(value, 0) + 1
    lines = [
        f"now {value}" + (f" ({count} files)" if len(live) > 1 else "")
        for value, count in present.items()
    ]
    for one in sorted(
        {found[-1] for found in setting.values() if found}, key=lambda one: one.given.place
    ):
        is_sure = one.given.path == own or not one.is_conditional
        value = (
            "a value that is worked out then"
            if _SUBSTITUTION.search(one.given.value)
            else one.given.value
        )
        lines.append(f"next boot {value} ({one.given.place}){'' if is_sure else ', perhaps'}")
    lines += dict.fromkeys(one.words for one in elsewhere.values())
    if any(not found and path not in elsewhere for path, found in setting.items()):
        lines.append("no file sets it at boot")
    return tuple(lines)


def _compare_dropin(path: str, settings: list[_SysfsComparison], context: Context) -> Dropin:
    """How our drop-in is: one for all the wishes of a rule that are kept the same way."""
    ours = [one for one in settings if _name_dropin(one.wish) == path and not one.hold]
    if any(one.is_missing_at_boot for one in ours):
        rule = ours[0].wish.rule
        kept = [
            one
            for one in ours
            if one.is_missing_at_boot or not (_is_default(one.wish) or one.is_elsewhere)
        ]
        return compare_dropin(path, _render_text(kept), rule, context, Activation.NOW)
    note = hand_edit(Address("file", path), context)
    if note and any(one.off for one in ours):
        todo = f"keep it and ignore {ours[0].wish.rule}, or remove {path}"
        return Dropin(hold=Hold(HoldKind.EDITED, path), evidence=(note,), todo=todo)
    return Dropin()


def _render_text(settings: list[_SysfsComparison]) -> bytes:
    lines: list[str] = []
    # (match, file) -> the value of the line for both: it must not lower a better one of these
    # devices
    best: dict[tuple[str, str], str] = {}
    for one in settings:
        line = (_match(one.wish), _get_attribute(one.wish))
        for value in (choose_nearest("", one.wish), *one.wanted.values()) if line[0] else ():
            if line not in best or is_better(value, best[line], one.wish):
                best[line] = value
    # not by names, which differ from boot to boot
    for one in sorted(settings, key=lambda one: _match(one.wish)):
        write = _udev_rule if _get_persist(one.wish) == "udev" else _tmpfiles_line
        values = set(one.wanted.values())
        common = values.pop() if len(values) == 1 else choose_nearest("", one.wish)
        common = best.get((_match(one.wish), _get_attribute(one.wish)), common)
        lines.append(write(one.wish, one.wish.name, common))
        better = ((path, value) for path, value in sorted(one.wanted.items()) if value != common)
        lines += [write(one.wish, path, value) for path, value in better if path != one.wish.name]
    # wishes with one `match` share a line
    return dropin_text(settings[0].wish.rule, dict.fromkeys(lines))


def _tmpfiles_line(wish: Wish, path: str, value: str) -> str:  # noqa: ARG001 - beside _udev_rule
    return f"w {path} - - - - {value}"


def _udev_rule(wish: Wish, path: str, value: str) -> str:
    match, device = _match(wish), device_of(path)
    # in general, where words stand for a device: of a host `_why_not` has refused it
    if device is None:
        names, attribute = match or 'KERNEL=="DEVICE"', path.rpartition("/")[2]
        return (
            f'ACTION=="add|change", SUBSYSTEM=="SUBSYSTEM", {names}, ATTR{{{attribute}}}="{value}"'
        )
    names = match if match and path == wish.name else f'KERNEL=="{device.device}"'
    kind = ', ENV{DEVTYPE}=="disk"' if device.subsystem == "block" else ""
    return (
        f'ACTION=="add|change", SUBSYSTEM=="{device.subsystem}"{kind}, {names}, '
        f'ATTR{{{device.attribute}}}="{value}"'
    )


def _live_changes(setting: _SysfsComparison, context: Context) -> list[Change]:
    """A change for each file; numbered files are one change from some number on, so that a person
    can read the plan.
    """
    name, live, wanted = setting.wish.name, setting.live, setting.wanted
    values: list[tuple[Address, Value, Value]] = [
        (Address("sysfs", one), live[one], wanted[one]) for one in setting.off
    ]
    names = context.facts.sysfs.files[name]
    numbered = number_paths(name, live) if names == tuple(live) else None
    if numbered and len(numbered) > MANY and values:
        now, then = (
            spell_values({number: held[path] for number, path in numbered.items()})
            for held in (live, wanted)
        )
        values = [(Address("sysfs-set", name), now, then)]
    return [
        Change(
            address,
            action_between(before, after),
            before,
            after,
            setting.wish.rule,
            context.risk,
            context.disturbs,
            device=_match(setting.wish),
        )
        for address, before, after in values
    ]


def _make_finding(setting: _SysfsComparison, dropin: Dropin, context: Context) -> Finding:
    wish = setting.wish
    if not setting.off and not setting.is_missing_at_boot:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=setting.evidence)
    if dropin.unknown:
        return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=dropin.unknown)
    if hold := setting.hold or dropin.hold:
        evidence, todo = setting.evidence + dropin.evidence, setting.todo or dropin.todo
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            hold,
            _describe_reason(setting, context),
            evidence,
            todo=todo,
        )
    changes = _live_changes(setting, context)
    if dropin.change is not None and setting.is_missing_at_boot:
        changes.append(dropin.change)
    reason = _describe_reason(setting, context)
    return Finding(
        wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, setting.evidence, tuple(changes)
    )


def _describe_reason(setting: _SysfsComparison, context: Context) -> str:
    is_right_now = not setting.off and not context.facts.reader.persistent_only
    return describe_wish(setting.wish, stays=is_right_now)


WISH = SysfsWish()
ADDRESS = SysfsAddress()
