"""The atime mode of a mount: of the running one, and of its line in fstab for the next boot.

The live mode is set with mount_setattr(2), never by a remount: `mount -o remount` reads fstab
again, makes a mount that is `ro` by hand writable and clears `nosuid` and `nodev` that stand in no
line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.storage.fstab_options import set_atime
from hosttune.facts.storage.mounts import MOUNTINFO
from hosttune.host.reading.mountinfo import mounts_by_target
from hosttune.resources.base import (
    OLD,
    AddressKind,
    FieldSpec,
    WishKind,
    action_between,
    in_general,
)
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.resources.storage.fstab import options_diff
from hosttune.resources.storage.fstab_document import PATH, clean_path
from hosttune.resources.storage.mount_policy import (
    View,
    find_aged,
    find_obstacle,
    find_other_mounts,
    list_evidence,
    remount,
)
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Trigger,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Value


class MountAddress(AddressKind):
    """`mount:TARGET`: noatime, relatime or strictatime of the mount that a path through TARGET
    reaches, or ABSENT.
    """

    kind = "mount"
    is_live = True

    def describe(self, name: str) -> str:
        return f"mount of {name}"

    def read(self, reader: Reader, name: str) -> Value:
        data = reader.read(MOUNTINFO)
        if not isinstance(data, bytes):
            return data
        mount = mounts_by_target(data).get(name)
        return mount.atime if mount else ABSENT

    def write(self, writer: Writer, change: Change) -> None:
        target, wanted = change.address.name, str(change.after)
        present = self.read(writer, target)
        if present != change.before:
            raise Conflict(
                f"{target} is mounted {present}, no longer {change.before}",
                hint="run the plan again",
            )
        writer.set_atime(target, wanted)
        # The flag goes to the mount that the path reaches: one that was mounted over it meanwhile
        # would take it.
        if self.read(writer, target) != wanted:
            raise HosttuneError(
                f"the kernel took {wanted} for {target}, but {MOUNTINFO} does not show it"
            )

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(
            list_steps(
                changes, lambda change: CommandLine(remount(change.address.name, str(change.after)))
            )
        )


class MountWish(WishKind):
    """`- mount: TARGET` with `atime: noatime` or `relatime`: the options in fstab and the flag of
    the live mount.
    """

    kind = "mount"
    fields: Mapping[str, FieldSpec] = {
        "atime": FieldSpec(
            str,
            required=True,
            choices=("noatime", "relatime"),
            help="When reads write access times",
        ),
        "purged_trees": FieldSpec(
            list, help="Folders that the site purges by access time: they keep relatime"
        ),
        "harmless_jobs": FieldSpec(
            list, help="Files of jobs that ask for access times and delete nothing by them"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW, Activation.REMOUNT, Activation.REBOOT)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        target = clean_path(wish.name)
        entry = read_or_default(lambda: _find_entry(facts, target), None)
        live = () if facts.reader.persistent_only else (Address("mount", target),)
        return (Address("fstab", entry.target if entry else target), *live)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings = []
        for wish in wishes:
            try:
                findings.append(_compare(wish, context))
            except UnknownFact as unknown:
                findings.append(
                    Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=unknown.reason)
                )
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            change for wish in wishes for change in _list_writes(wish, str(wish.fields["atime"]))
        )


def _list_writes(wish: Wish, atime: str) -> tuple[Change, ...]:
    target, options = clean_path(wish.name), "OPTIONS"
    return (
        in_general(wish, Address("fstab", target), set_atime(options, atime), before=options),
        in_general(
            wish, Address("mount", target), atime, before="relatime" if atime == "noatime" else OLD
        ),
    )


def _find_entry(facts: Facts, target: str) -> FstabEntry | None:
    return facts.fstab.by_path.get(target) or facts.fstab.at.get(target)


def _compare(wish: Wish, context: Context) -> Finding:
    facts = context.facts
    if facts.host.is_container:
        reason = "in a container the mounts belong to the host"
        return Finding(wish.rule, wish.subject, Verdict.NOT_APPLICABLE, reason=reason)
    target = clean_path(wish.name)
    entry = _find_entry(facts, target)
    running = not facts.reader.persistent_only
    mount = facts.mounts.at.get(target) if running else None
    if entry is None and mount is None:
        reason = f"nothing is mounted at {target}, and {PATH} has no line for it"
        return Finding(wish.rule, wish.subject, Verdict.NOT_APPLICABLE, reason=reason)
    live = context.state[Address("mount", target)] if running else ABSENT
    written = context.state[Address("fstab", entry.target if entry else target)]
    is_refused = bool(entry and entry.refusal) or any(
        line.target == target for line in facts.fstab.misread
    )
    for value in (live, written):
        # A line that is not edited cannot be read either. Its reason and way out come from
        # `find_obstacle`.
        if isinstance(value, Unreadable) and not (is_refused and value is written):
            return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=value.reason)
    options = written if isinstance(written, str) else None
    view = View(target, str(wish.fields["atime"]), entry, mount, options, live, running)
    if view.is_live_ok and view.is_boot_ok:
        return _make_settled(view, wish, facts)
    reason = f"{target} should be mounted {view.wanted}"
    hold, todo = find_obstacle(view, wish, context)
    if hold:
        return Finding(
            wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, list_evidence(view), todo=todo
        )
    try:
        changes = _list_changes(view, wish, context)
    except Refused as refused:
        hold = Hold(HoldKind.REFUSED, refused.message)
        return Finding(
            wish.rule,
            wish.subject,
            Verdict.DIFFERS,
            hold,
            reason,
            list_evidence(view),
            todo=refused.hint,
        )
    seen = (*list_evidence(view), *(() if view.is_live_ok else find_other_mounts(view, facts)))
    return Finding(wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, seen, changes)


def _make_settled(view: View, wish: Wish, facts: Facts) -> Finding:
    """As it should be; unless something deletes files there by the access times that are not
    written any more.
    """
    purged = find_aged(view.target, wish, facts)
    if not purged.by:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=list_evidence(view))
    reason = (
        f"{view.target} is mounted {view.wanted}, and {', '.join(purged.by)} deletes files there "
        "by access time"
    )
    todo = (
        "let that job go by modification time, or mount it relatime; else it deletes files that "
        "are in use"
    )
    return Finding(
        wish.rule,
        wish.subject,
        Verdict.ADVICE,
        reason=reason,
        evidence=list_evidence(view),
        todo=todo,
    )


def _list_changes(view: View, wish: Wish, context: Context) -> tuple[Change, ...]:
    changes = []
    host = context.facts.host
    if view.entry and view.options is not None and not view.is_boot_ok:
        after = _set_atime(view, view.options)
        activation = (
            Activation.NOW
            if view.mount
            else Activation.REMOUNT
            if view.is_running
            else Activation.REBOOT
        )
        changes.append(
            Change(
                Address("fstab", view.entry.target),
                Action.UPDATE,
                view.options,
                after,
                wish.rule,
                context.risk,
                context.disturbs,
                activation,
                reason=f"{view.place}, for the next boot",
                triggers=(Trigger("daemon-reload"),)
                if host.has_systemd and view.is_running
                else (),
                details=options_diff(context.facts, view.entry, after),
            )
        )
    if not view.is_live_ok:
        changes.append(
            Change(
                Address("mount", view.target),
                action_between(view.live, view.wanted),
                view.live,
                view.wanted,
                wish.rule,
                context.risk,
                context.disturbs,
                Activation.NOW,
                reason="other options unchanged",
            )
        )
    return tuple(changes)


def _set_atime(view: View, options: str) -> str:
    try:
        return set_atime(options, view.wanted)
    except Refused as refused:
        raise Refused(f"{view.place}: {refused.message}", hint=refused.hint) from refused


WISH = MountWish()
ADDRESS = MountAddress()
