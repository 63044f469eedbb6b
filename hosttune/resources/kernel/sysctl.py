"""sysctl values: the live one in /proc/sys and the drop-in that sets it at the next boot.

Which file wins there is found by facts/kernel/sysctl_at_boot.py. So writing a drop-in is no success
by itself: the file that wins is named, and an explicit value of someone else is respected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune import quoting
from hosttune.errors import Conflict
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.kernel.sysctl import proc_path
from hosttune.facts.precedence import SYSCTL, lost_words, over_words, owned_place, way_over
from hosttune.frozen import frozen
from hosttune.host.overlay.twins import TWINS
from hosttune.resources.base import (
    OLD,
    AddressKind,
    FieldSpec,
    Operator,
    WishKind,
    action_between,
    in_general,
)
from hosttune.resources.bounds import choose_nearest, describe_wish, satisfies_wish
from hosttune.resources.elsewhere import by_commands, by_tuned
from hosttune.resources.file import compare_dropin, dropin_path, dropin_text, hand_edit
from hosttune.resources.kernel.sysctl_keys import unknown_key
from hosttune.resources.steps import CommandLine, list_steps
from hosttune.values import (
    ABSENT,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Unreadable,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.placed import Placed
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Wish
    from hosttune.resources.elsewhere import Elsewhere
    from hosttune.values import Value


def _read_live(reader: Reader, key: str) -> Value:
    data = reader.read(proc_path(key))
    return " ".join(data.decode("utf-8", "replace").split()) if isinstance(data, bytes) else data


class SysctlAddress(AddressKind):
    """`sysctl:KEY`: the live value, blanks normalised; `vm.dirty_ratio=20` where that other
    spelling is in force.
    """

    kind = "sysctl"
    is_live = True

    def read(self, reader: Reader, name: str) -> Value:
        value = _read_live(reader, name)
        if (
            value == "0"
            and name in TWINS
            and isinstance(other := _read_live(reader, TWINS[name]), str)
        ):
            return f"{TWINS[name]}={other}"
        return value

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        if not self.same(self.read(writer, name), change.before):
            message = f"{name} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        twin, equals, value = str(change.after).partition("=")
        key, value = (
            (twin, value) if equals and twin == TWINS.get(name) else (name, str(change.after))
        )
        writer.set_value(proc_path(key), f"{value}\n")

    def same(self, one: Value, other: Value) -> bool:
        return one == other or (
            isinstance(one, str) and isinstance(other, str) and one.split() == other.split()
        )

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        """All together. vm.dirty_bytes may have to become vm.dirty_ratio=20 again."""
        values = list_steps(
            changes, lambda change: _spell_pair(change.address.name, str(change.after))
        )
        return [CommandLine(f"sysctl -w {quoting.join(values)}")]


def _spell_pair(key: str, value: str) -> str:
    return value if "=" in value else f"{key}={value}"


@frozen
class _SysctlComparison:
    """One key of a rule: where it is and what it should become."""

    wish: Wish
    live: Value
    wanted: str  # the value that satisfies the wish and is nearest to the live one
    live_ok: bool
    boot_ok: bool  # what the files set at the next boot satisfies the wish
    needs_no_file: bool  # the kernel, TuneD or a command sets it then
    evidence: tuple[str, ...]
    hold: Hold = Hold()
    todo: str = ""


class SysctlWish(WishKind):
    """`- sysctl: KEY` with exactly, at_least or at_most: live now, and by a drop-in of the rule at
    every boot.
    """

    kind = "sysctl"
    fields: Mapping[str, FieldSpec] = {
        "module": FieldSpec(
            str,
            help="The module outside of the kernel's own source that brings the key, if one does",
        ),
        "kernel_default": FieldSpec(
            bool, help="The kernel chooses such a value by itself: no file has to set it"
        ),
    }
    operators = (Operator.EXACTLY, Operator.AT_LEAST, Operator.AT_MOST)
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        own = Address("file", dropin_path("/etc/sysctl.d", wish.rule))
        live = () if facts.reader.persistent_only else (Address("sysctl", wish.name),)
        return (*live, own)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings: list[Finding] = []
        settings: list[_SysctlComparison] = []
        for wish in wishes:
            answer = _examine(wish, context)
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                settings.append(answer)
        path = dropin_path("/etc/sysctl.d", wishes[0].rule)
        return (*findings, *_make_findings(settings, path, context))

    def doubt(self, name: str, entry: Mapping[str, Any]) -> str:
        return "" if "module" in entry else unknown_key(name)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        values = [(wish, choose_nearest("", wish)) for wish in wishes]
        live = (
            in_general(wish, Address(self.kind, wish.name), value, before=OLD)
            for wish, value in values
        )
        path = dropin_path("/etc/sysctl.d", wishes[0].rule)
        text = _render_text(wishes[0].rule, [(wish.name, value) for wish, value in values])
        return (*live, in_general(wishes[0], Address("file", path), text))


def _examine(wish: Wish, context: Context) -> _SysctlComparison | Finding:
    live: Value = context.state.get(Address("sysctl", wish.name), "")
    # Where no running kernel says that it has the key, one that no kernel has is a typo, not a
    # reason to keep silent.
    is_unproven = live is ABSENT or context.facts.reader.persistent_only
    if is_unproven and not wish.fields.get("module") and (unheard := unknown_key(wish.name)):
        todo = f"correct it in the rule {wish.rule}, or name the module that brings it (module:)"
        return Finding(wish.rule, wish.name, Verdict.UNKNOWN, reason=unheard, todo=todo)
    if live is ABSENT:
        reason = f"this kernel has no {wish.name}"
        return Finding(wish.rule, wish.name, Verdict.NOT_APPLICABLE, reason=reason)
    if isinstance(live, Unreadable):
        return Finding(
            wish.rule, wish.name, Verdict.UNKNOWN, reason=prefix_reason(wish.name, live.reason)
        )
    try:
        entries = context.facts.sysctl_at_boot[wish.name].settings
    except UnknownFact as unknown:
        if context.facts.reader.persistent_only or satisfies_wish(str(live), wish):
            return Finding(
                wish.rule,
                wish.name,
                Verdict.UNKNOWN,
                reason=prefix_reason(wish.name, unknown.reason),
            )
        hold = Hold(HoldKind.REFUSED, f"which file sets it at boot is not known: {unknown.reason}")
        return Finding(
            wish.rule, wish.name, Verdict.DIFFERS, hold, describe_wish(wish), (f"now {live}",)
        )
    own = dropin_path("/etc/sysctl.d", wish.rule)
    others = [one for one in entries if one.path != own]
    boot = entries[-1] if entries else None
    live_ok = context.facts.reader.persistent_only or satisfies_wish(str(live), wish)
    is_image = context.facts.reader.persistent_only
    elsewhere = _find_elsewhere(wish, str(live), boot, context)
    is_kernels = (
        boot is None and not is_image and live_ok and bool(wish.fields.get("kernel_default"))
    )
    needs_no_file = elsewhere.is_enough if elsewhere else is_kernels
    boot_ok = needs_no_file or (
        elsewhere is None and boot is not None and satisfies_wish(boot.value, wish)
    )
    evidence: tuple[str, ...] = () if is_image else (f"now {live}",)
    without_file = (
        "the kernel chooses it, no file sets it" if is_kernels else "no file sets it at boot"
    )
    by_file = f"next boot {boot.value} ({boot.place})" if boot else without_file
    evidence += (elsewhere.words if elsewhere else by_file,)
    none: tuple[Placed, ...] = ()
    unread = read_or_default(lambda: context.facts.sysctl_at_boot[wish.name].unread, none)
    evidence += tuple(
        f"{one.place} ({wish.name} = {one.value}) is not read at boot" for one in unread
    )
    evidence += lost_words(entries, SYSCTL, context.facts.file_owners, wish.name)
    hold, todo = Hold(), ""
    if not (live_ok and boot_ok):
        hold, todo = _find_owner(wish, others, unread, elsewhere, context)
        is_decided = boot is not None and not boot.is_of_distribution
        if (
            todo
            and boot
            and is_decided
            and not is_image
            and _is_nearer(boot.value, str(live), wish)
        ):
            todo = f"{todo}; what the files say is not in force now: sudo sysctl --system"
    return _SysctlComparison(
        wish,
        live,
        choose_nearest(str(live), wish),
        live_ok,
        boot_ok,
        needs_no_file,
        evidence,
        hold,
        todo,
    )


def _is_nearer(boot: str, live: str, wish: Wish) -> bool:
    """Whether a value in force would be better than the one that is: to load the files anew can
    also make it worse.
    """
    if satisfies_wish(live, wish) or satisfies_wish(boot, wish):
        return not satisfies_wish(live, wish)
    wanted = choose_nearest(live, wish)
    if not all(word.isdecimal() for word in (boot, live, str(wanted))):
        return False
    return abs(int(boot) - int(wanted)) < abs(int(live) - int(wanted))


def _find_elsewhere(
    wish: Wish, live: str, boot: Placed | None, context: Context
) -> Elsewhere | None:
    """Who sets it when the files have been read: TuneD, or a command, which is looked for where no
    file will do. What an administrator's file says is repeated by TuneD, and is his word against a
    command.
    """
    if boot is not None and not boot.is_of_distribution:
        return None
    facts = context.facts
    words = facts.managers.tuned_sysctl_values.get(wish.name)
    if found := by_tuned(words, wish, live, facts):
        return found
    if boot is not None and satisfies_wish(boot.value, wish):
        return None
    return by_commands(lambda path: path == proc_path(wish.name), wish, facts)


def _find_owner(
    wish: Wish, others: list[Placed], unread: tuple[Placed, ...], elsewhere: Elsewhere | None,
    context: Context
) -> tuple[Hold, str]:  # fmt: skip
    """Who decides otherwise: an administrator's file, TuneD, a command, or a file that is read
    after ours. Where such a file is read after that of the administrator, it is named first: the
    other one has no effect.
    """
    own = dropin_path("", wish.rule).lstrip("/")
    stronger = [one for one in others if one.line and one.file_name > own]
    explicit = [one for one in others if not one.is_of_distribution]
    later = stronger[-1:] if explicit else []
    if hold := _by_file([*later, *explicit[-1:]], others, wish, context):
        return hold
    if {wish.name, TWINS.get(wish.name)} & {*context.facts.managers.tuned_sysctls}:
        owner = f"TuneD profile {context.facts.managers.tuned_profile}"
        return Hold(
            HoldKind.OWNED, owner
        ), f"set {wish.name} in a child profile of TuneD, or ignore {wish.rule}"
    if elsewhere and not elsewhere.is_enough:
        owner = f"{elsewhere.place} ({wish.name} = {elsewhere.value})"
        return Hold(HoldKind.OWNED, owner), f"{elsewhere.way_out}, or ignore {wish.rule}"
    if hold := _by_file(stronger[-1:], others, wish, context):
        return hold
    if unread and not others and not satisfies_wish(unread[-1].value, wish):
        place = unread[-1].place
        owner = f"{place} ({wish.name} = {unread[-1].value}), which is not read at boot"
        todo = (
            f"take it out of {place}, or move it to {SYSCTL.folder} if it is meant, or ignore "
            f"{wish.rule}"
        )
        return Hold(HoldKind.OWNED, owner), todo
    return Hold(), ""


def _by_file(
    chosen: list[Placed], entries: list[Placed], wish: Wish, context: Context
) -> tuple[Hold, str] | None:
    for one in chosen:
        if not satisfies_wish(one.value, wish):
            shown = one.value if "=" in one.value else f"{wish.name} = {one.value}"
            line = f"`{wish.name} = {choose_nearest('', wish)}`"
            owners = context.facts.file_owners
            todo = f"{way_over(one, SYSCTL, owners, line)}, or ignore {wish.rule}"
            return Hold(
                HoldKind.OWNED, f"{owned_place(one, owners)} ({shown}){over_words(entries, owners)}"
            ), todo
    return None


def _make_findings(settings: list[_SysctlComparison], path: str, context: Context) -> list[Finding]:
    """The findings of the keys that exist; the drop-in is one change, carried by the first key that
    needs it.
    """
    lines = [(s.wish.name, s.wanted) for s in settings if not s.hold and not s.needs_no_file]
    boot_missing = any(not s.boot_ok and not s.hold for s in settings)
    rule = settings[0].wish.rule if settings else ""
    file_change, edited, problem = None, Hold(), ""
    todo = ""
    notes: tuple[str, ...] = ()
    if boot_missing:
        wanted = _render_text(rule, lines)
        dropin = compare_dropin(path, wanted, rule, context, Activation.NOW)
        file_change, edited, todo, problem = dropin.change, dropin.hold, dropin.todo, dropin.unknown
        notes = dropin.evidence
    else:
        note = hand_edit(Address("file", path), context)
        if note and any(not s.live_ok for s in settings):
            edited, todo = (
                Hold(HoldKind.EDITED, path),
                f"keep it and ignore {rule}, or remove {path}",
            )
            notes = (note,)
    findings = []
    for s in settings:
        subject = s.wish.name
        if s.live_ok and s.boot_ok:
            findings.append(Finding(rule, subject, Verdict.OK, evidence=s.evidence))
        elif problem:
            findings.append(Finding(rule, subject, Verdict.UNKNOWN, reason=problem))
        elif s.hold or edited:
            hold = s.hold or edited
            findings.append(
                Finding(
                    rule,
                    subject,
                    Verdict.DIFFERS,
                    hold,
                    _describe_reason(s, context),
                    s.evidence + notes,
                    todo=s.todo or todo,
                )
            )
        else:
            changes = [] if s.live_ok else [_live_change(s, context)]
            if file_change is not None and not s.boot_ok:
                changes.append(file_change)
                file_change = None
            findings.append(
                Finding(
                    rule,
                    subject,
                    Verdict.DIFFERS,
                    Hold(),
                    _describe_reason(s, context),
                    s.evidence,
                    tuple(changes),
                )
            )
    return findings


def _render_text(rule: str, settings: list[tuple[str, str]]) -> bytes:
    return dropin_text(rule, (f"{key} = {value}" for key, value in settings))


def _live_change(setting: _SysctlComparison, context: Context) -> Change:
    address = Address("sysctl", setting.wish.name)
    action = action_between(setting.live, setting.wanted)
    return Change(
        address,
        action,
        setting.live,
        setting.wanted,
        setting.wish.rule,
        context.risk,
        context.disturbs,
    )


def _describe_reason(setting: _SysctlComparison, context: Context) -> str:
    applied = context.ledger.get(Address("file", dropin_path("/etc/sysctl.d", setting.wish.rule)))
    if setting.boot_ok and applied and isinstance(applied.after, FileValue):
        return f"the live value no longer matches our drop-in of run {applied.run_id}"
    return describe_wish(
        setting.wish, stays=setting.live_ok and not context.facts.reader.persistent_only
    )


WISH = SysctlWish()
ADDRESS = SysctlAddress()
