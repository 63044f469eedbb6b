"""/tmp in memory: a tmpfs of a wanted size from the next boot on, in the place that is in charge of
/tmp.

Nothing is ever mounted over a /tmp in use: its sockets (X11, tmux, agents, NCCL) would be
unreachable. Where a line is added to fstab, a drop-in in /run, gone with the reboot, keeps systemd
from mounting it before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.fstab_options import set_size, size_bytes, split_items
from hosttune.numbers import parse_digits, say_gib
from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, Operator, WishKind, in_general
from hosttune.resources.file import compare_dropin, dropin_path
from hosttune.resources.storage.fstab import addition_diff, entry_error, options_diff
from hosttune.resources.storage.fstab_document import PATH, entry_text
from hosttune.resources.storage.fstab_lint_options import repair_value
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Trigger,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import Misread
    from hosttune.resources.base import Context, Wish
    from hosttune.values import Value

TARGET = "/tmp"
GIB = 1 << 30
_OPTIONS = ("nosuid", "nodev")
# As systemd's own tmp.mount; without it the kernel allows half as many inodes as there are pages of
# memory.
_INODES = "nr_inodes=1m"
# With these two a line that the kernel rejects costs a /tmp on disk instead of the boot, and a good
# one is still mounted before local-fs.target (systemd.mount(5)).
_BELT = "nofail,x-systemd.before=local-fs.target"
_DECIDED = "nothing, if that is meant; to have it otherwise, change it there"
_ETC_FOLDER = "/etc/systemd/system/tmp.mount.d"
_RUN_FOLDER = "/run/systemd/system/tmp.mount.d"


class TmpfsWish(WishKind):
    """`- tmpfs: /tmp` with `at_least: BYTES`: a tmpfs at least that large from the next boot on;
    never made smaller.
    """

    kind = "tmpfs"
    is_size = True
    fields: Mapping[str, FieldSpec] = {
        "options": FieldSpec(
            list,
            help="Further mount options of a line that is added; nosuid, nodev, nr_inodes=1m "
            "unless given",
        ),
        "evidence": FieldSpec(list, help="Sentences for the report"),
        "advice": FieldSpec(
            str, help="What is better here than a tmpfs: then nothing is changed; empty for nothing"
        ),
    }
    operators = (Operator.AT_LEAST,)
    activations = (Activation.NOW, Activation.REBOOT)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        own = dropin_path(_ETC_FOLDER, wish.rule)
        boot = (Address("fstab", TARGET), Address("fstab-line", TARGET), Address("file", own))
        if facts.reader.persistent_only:
            return boot
        return (*boot, Address("file", dropin_path(_RUN_FOLDER, wish.rule)))

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings = []
        for wish in wishes:
            if advice := str(wish.fields.get("advice", "")):
                findings.append(
                    Finding(
                        wish.rule, wish.subject, Verdict.ADVICE, reason=advice, todo=wish.todo or ""
                    )
                )
                continue
            try:
                findings.append(_TmpfsComparison(wish, context).finding())
            except UnknownFact as unknown:
                findings.append(
                    Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=unknown.reason)
                )
            except Refused as refused:
                hold = Hold(HoldKind.REFUSED, refused.message)
                findings.append(
                    Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, todo=refused.hint)
                )
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        wish = wishes[0]
        wanted = str(wish.bounds[0].value)
        size = "SIZE" if (asked := parse_digits(wanted, None)) is None else _size_text(asked)
        guard, line = (
            Address("file", dropin_path(_RUN_FOLDER, wish.rule)),
            Address("fstab-line", TARGET),
        )
        return (
            in_general(wish, guard, _guard_text(wish), triggers=(Trigger("daemon-reload"),)),
            in_general(wish, line, _line_text(wish, size), activation=Activation.REBOOT),
        )


def _size_text(size: int) -> str:
    return f"{-(-size // GIB)}G"  # rounded up to whole GiB


def _line_text(wish: Wish, size: str, separator: str = " ") -> str:
    """The line of /tmp in fstab."""
    inodes = () if "options" in wish.fields else (_INODES,)
    options = ",".join(
        ("mode=1777", *wish.fields.get("options", _OPTIONS), f"size={size}", *inodes, _BELT)
    )
    return entry_text("tmpfs", TARGET, "tmpfs", options, separator=separator)


def _guard_text(wish: Wish) -> bytes:
    return render(
        "tmp-mount-wait.conf.j2", rule=wish.rule, path=dropin_path(_RUN_FOLDER, wish.rule)
    ).encode()


class _TmpfsComparison:
    """One wish against what is in charge of /tmp."""

    def __init__(self, wish: Wish, context: Context) -> None:
        self.wish = wish
        self.context = context
        self.facts = context.facts
        self.running = not context.facts.reader.persistent_only
        self.wanted = max((int(bound.value) for bound in wish.bounds), default=0)
        self.size = _size_text(self.wanted)
        self.evidence: list[str] = [str(text) for text in wish.fields.get("evidence", ())]

    def finding(self) -> Finding:
        host, tmp = self.facts.host, self.facts.tmp
        if self.wish.name != TARGET:
            raise Refused(f"a tmpfs can be wished for {TARGET} alone, not for {self.wish.name}")
        if host.is_container:
            reason = "in a container /tmp belongs to the host"
            return Finding(self.wish.rule, self.wish.subject, Verdict.NOT_APPLICABLE, reason=reason)
        if unreadable := next((v for v in self._state() if isinstance(v, Unreadable)), None):
            return Finding(
                self.wish.rule, self.wish.subject, Verdict.UNKNOWN, reason=unreadable.reason
            )
        if tmp.is_symlink:
            return self._make_refused(
                "/tmp is a symbolic link", "make it a folder; tmp.mount skips a link"
            )
        if self.running:
            self.evidence.append(self._now())
        self.evidence.append(tmp.home_evidence)
        if self.facts.host.is_wsl:
            return self._make_refused("under WSL a tmpfs on /tmp hides the X11 socket", "")
        by_home = {
            "none": self._nothing,
            "fstab": self._line,
            "usr-unit": self._unit,
            "etc-unit": self._unit,
        }
        return by_home.get(tmp.home, self._foreign)()

    @property
    def _all_memory(self) -> int:
        """What the kernel takes a percentage of: memory of GPUs too, where it uses that
        (mm/shmem.c).
        """
        return self.facts.memory.total_bytes + self.facts.memory.gpu_bytes

    def _misread(self) -> Misread | None:
        return next((line for line in self.facts.fstab.misread if line.target == TARGET), None)

    def _state(self) -> list[Value]:
        """What was read; nothing where the line of /tmp is refused anyway, which makes it
        unreadable.
        """
        entry = self.facts.fstab.at.get(TARGET)
        if self._misread() or (entry is not None and entry.refusal):
            return []
        return [
            self.context.state[address] for address in TmpfsWish().addresses(self.wish, self.facts)
        ]

    def _now(self) -> str:
        tmp = self.facts.tmp
        if tmp.is_tmpfs:
            return f"now a tmpfs of {say_gib(tmp.size_bytes or 0)}"
        least = "" if self.facts.filling.is_complete else "at least "
        return (
            f"now on {tmp.fstype or 'the disk'}, {least}{say_gib(self.facts.filling.used_bytes)} "
            "in it"
        )

    def _is_enough(self, size: int | None) -> bool:
        return size is not None and (size == 0 or size >= self.wanted)

    def _make_settled(self) -> Finding:
        """Say whether what the next boot mounts, which is enough, is there already."""
        tmp = self.facts.tmp
        if not self.running or (tmp.is_tmpfs and self._is_enough(tmp.size_bytes)):
            return Finding(
                self.wish.rule, self.wish.subject, Verdict.OK, evidence=tuple(self.evidence)
            )
        evidence = (*self.evidence, *self._hidden())
        hold = Hold(HoldKind.WAITING, "reboot")
        reason = f"/tmp becomes a tmpfs of at least {say_gib(self.wanted)} at the next boot"
        todo = "reboot when it suits; until then do not run mount -a"
        if tmp.is_tmpfs:
            reason = f"/tmp grows to at least {say_gib(self.wanted)} at the next boot"
            todo = (
                "reboot when it suits, or at once: sudo mount --options-source mtab -o "
                f"remount,size={self.size} /tmp"
            )
        return Finding(
            self.wish.rule, self.wish.subject, Verdict.DIFFERS, hold, reason, evidence, todo=todo
        )

    def _hidden(self) -> tuple[str, ...]:
        """What the new mount will cover: it stays on the disk, out of sight."""
        if not self.running or self.facts.tmp.is_tmpfs or not self.facts.filling.entries:
            return ()
        filling = self.facts.filling
        least = "" if filling.is_complete else "at least "
        what = f"{least}{say_gib(filling.used_bytes)} in {least}{filling.entries} files and folders"
        return (f"{what} stay on the disk, hidden below it",)

    def _nothing(self) -> Finding:
        tmp = self.facts.tmp
        if self.running and tmp.is_mount and not tmp.is_tmpfs:
            return self._make_refused(
                f"{tmp.fstype} is mounted at /tmp by something else than {PATH}",
                "find out what mounts it",
            )
        if not self.facts.fstab.exists:
            return self._make_refused(f"there is no {PATH}", f"create an empty {PATH}")
        if self.facts.fstab.refusal:
            return self._make_refused(self.facts.fstab.refusal, self.facts.fstab.way_out)
        if manager := self.facts.fstab.manager:
            return self._make_held(
                Hold(HoldKind.OWNED, f"the author of {PATH} ({manager})"), "add the line there"
            )
        if misread := self._misread():
            return self._make_refused(misread.refusal, misread.way_out)
        line = _line_text(self.wish, self.size, self.facts.fstab.separator)
        details = addition_diff(self.facts.fstab, line)
        change = self._change(Address("fstab-line", TARGET), ABSENT, line, details)
        # The guard comes first: once systemd knows the line, it may mount /tmp at any time, over
        # the sockets that are in use.
        return self._differs((*self._guard(), change))

    def _guard(self) -> tuple[Change, ...]:
        """A drop-in that dies with the reboot and until then keeps tmp.mount from being started."""
        if not self.running or not self.facts.host.has_systemd or self.facts.tmp.is_tmpfs:
            return ()
        path, text = dropin_path(_RUN_FOLDER, self.wish.rule), _guard_text(self.wish)
        before = self.context.state[Address("file", path)]
        if isinstance(before, FileValue) and before.content == text:
            return ()
        guard = self._change(Address("file", path), before, FileValue(text))
        return (replace(guard, activation=Activation.NOW, reversible="yes"),)

    def _line(self) -> Finding:
        entry = self.facts.fstab.by_path[TARGET]
        written = self.context.state[Address("fstab", TARGET)]
        options = written if isinstance(written, str) else ",".join(entry.options)
        size = size_bytes(options, self._all_memory)
        if size is None:
            value = [word[5:] for word in split_items(options) if word.startswith("size=")][-1]
            way_out = repair_value("size", value)
            return self._make_refused(
                f"{PATH} line {entry.line} has a size that the kernel rejects", way_out
            )
        if self._is_enough(size):
            return self._make_settled()
        if entry.owner:
            todo = f"change it in the configuration of {entry.owner}, which writes this line again"
            return self._make_held(
                Hold(HoldKind.OWNED, f"{entry.owner} ({PATH} line {entry.line})"), todo
            )
        if entry.refusal:
            return self._make_refused(entry.refusal, entry.way_out)
        if error := entry_error(entry, self.facts):
            return self._make_refused(str(error), error.hint)
        after = set_size(options, self.size)
        change = self._change(
            Address("fstab", TARGET), written, after, options_diff(self.facts, entry, after)
        )
        return self._differs((change,))

    def _unit(self) -> Finding:
        tmp = self.facts.tmp
        if TARGET in self.facts.fstab.by_path and tmp.home == "etc-unit":
            entry = self.facts.fstab.by_path[TARGET]
            return self._make_refused(
                f"{PATH} line {entry.line} names /tmp too, and the unit overrules it",
                "leave one of them",
            )
        if self._is_enough(size_bytes(tmp.unit_options, self._all_memory)):
            return self._make_settled()
        text = render(
            "tmp-mount.conf.j2", rule=self.wish.rule, options=set_size(tmp.unit_options, self.size)
        ).encode()
        path = dropin_path(_ETC_FOLDER, self.wish.rule)
        dropin = compare_dropin(
            path, text, self.wish.rule, self.context, Activation.REBOOT, self._triggers()
        )
        if dropin.unknown:
            return Finding(
                self.wish.rule, self.wish.subject, Verdict.UNKNOWN, reason=dropin.unknown
            )
        if dropin.hold:
            self.evidence += dropin.evidence
            return self._make_held(dropin.hold, dropin.todo)
        if dropin.change is None:
            return self._make_settled()
        return self._differs(
            (replace(dropin.change, reversible="after a reboot" if self.running else "yes"),)
        )

    def _foreign(self) -> Finding:
        tmp = self.facts.tmp
        is_disk = tmp.home.endswith("-other")  # from the next boot on, whatever is mounted now
        if tmp.is_tmpfs and not is_disk and self._is_enough(tmp.size_bytes):
            return Finding(
                self.wish.rule, self.wish.subject, Verdict.OK, evidence=tuple(self.evidence)
            )
        if tmp.decision:
            return self._make_held(Hold(HoldKind.OWNED, tmp.decision), _DECIDED)
        entry = self.facts.fstab.by_path[TARGET]
        detail = (
            f"{tmp.home_evidence}, and {PATH} line {entry.line} names /tmp: local-fs.target is "
            "never reached"
        )
        return self._make_refused(
            detail, "an administrator decides which of the two is meant, and takes the other away"
        )

    def _triggers(self) -> tuple[Trigger, ...]:
        return (Trigger("daemon-reload"),) if self.running and self.facts.host.has_systemd else ()

    def _change(
        self, address: Address, before: Value, after: Value, details: tuple[str, ...] = ()
    ) -> Change:
        action = Action.CREATE if before is ABSENT else Action.UPDATE
        context = self.context
        return Change(
            address,
            action,
            before,
            after,
            self.wish.rule,
            context.risk,
            context.disturbs,
            Activation.REBOOT,
            reversible="after a reboot" if self.running else "yes",
            triggers=self._triggers(),
            details=details,
        )

    def _reason(self) -> str:
        return f"/tmp should be a tmpfs of at least {say_gib(self.wanted)}"

    def _scarce(self) -> tuple[str, ...]:
        """A tmpfs takes memory as it fills; with less than its size available it can push work
        out.
        """
        available = self.facts.memory.available_bytes if self.running else self.wanted
        if available >= self.wanted:
            return ()
        return (
            (
                f"only {say_gib(available)} of memory are available now: a full /tmp would have to "
                "be swapped out"
            ),
        )

    def _differs(self, changes: tuple[Change, ...]) -> Finding:
        evidence = (*self.evidence, *self._hidden(), *self._scarce())
        return Finding(
            self.wish.rule,
            self.wish.subject,
            Verdict.DIFFERS,
            Hold(),
            self._reason(),
            evidence,
            changes,
        )

    def _make_held(self, hold: Hold, todo: str) -> Finding:
        evidence = tuple(self.evidence)
        return Finding(
            self.wish.rule,
            self.wish.subject,
            Verdict.DIFFERS,
            hold,
            self._reason(),
            evidence,
            todo=todo,
        )

    def _make_refused(self, detail: str, todo: str) -> Finding:
        return self._make_held(Hold(HoldKind.REFUSED, detail), todo)


WISH = TmpfsWish()
