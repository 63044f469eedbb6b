"""sysctl values: the live one in /proc/sys and the drop-in that sets it at the next boot.

At boot systemd-sysctl(8) reads every sysctl.d folder as one list sorted by file name (sysctl.d(5)); the last
assignment wins, and a file in /etc hides one of the same name in /run and /usr/lib. /etc/sysctl.conf counts only
where 99-sysctl.conf links to it. So writing a drop-in is no success by itself: the file that wins is named, and an
explicit value of somebody else is respected. A key with wildcards sets what no file names itself, wherever it stands;
`-key` without a value keeps them off a key.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hosttune.errors import Conflict
from hosttune.facts.kernel.sysctl import proc_path
from hosttune.facts.reading import drop_ins
from hosttune.frozen import frozen
from hosttune.host.twins import TWINS
from hosttune.regex import regex
from hosttune.resources.base import OLD, FieldSpec, Operator, action_between, in_general, inverted
from hosttune.resources.bounds import nearest, satisfies, wants
from hosttune.resources.elsewhere import by_commands, by_tuned
from hosttune.resources.file import compare_dropin, dropin_path, dropin_text, hand_edit
from hosttune.resources.kernel.sysctl_keys import unknown_key
from hosttune.resources.read_only import ReadOnly
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
    behind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context, Wish
    from hosttune.resources.elsewhere import Elsewhere
    from hosttune.values import Value

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
DISTRIBUTION = ("/usr/lib/", "/lib/")
_WORDS = {
    ("kernel.numa_balancing", "numa_balancing=disable"): "0",
    ("kernel.numa_balancing", "numa_balancing=enable"): "1",
}
_ASSIGNMENT = regex(rb"\s*-?\s*([^=\s#;]+)\s*=\s*(.*?)\s*")
_EXCLUSION = regex(rb"\s*-\s*([^=\s#;]+)\s*")


def normal_key(key: str) -> str:
    """`net/ipv4/conf/eth0.1/rp_filter` -> `net.ipv4.conf.eth0/1.rp_filter`: the first separator decides
    (sysctl.d(5)).
    """
    first = re.search(r"[./]", key)
    return key.translate(str.maketrans("./", "/.")) if first and first.group() == "/" else key


def assignments(text: bytes) -> list[tuple[int, str, str | None]]:
    """The lines of one sysctl.d file: (line, key, value with single blanks; None for a key kept from wildcards)."""
    found: list[tuple[int, str, str | None]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _ASSIGNMENT.fullmatch(line):
            found.append((number, _key(match[1]), " ".join(match[2].decode("utf-8", "replace").split())))
        elif match := _EXCLUSION.fullmatch(line):
            found.append((number, _key(match[1]), None))
    return found


def _key(written: bytes) -> str:
    return normal_key(written.decode("utf-8", "replace"))


def _is_pattern(key: str) -> bool:
    return any(character in key for character in "*?[")


def _fits(name: str, pattern: str) -> bool:
    """Whether a key with wildcards means this one: they do not reach over a dot (glob(7))."""
    one, other = proc_path(name).split("/"), proc_path(pattern).split("/")
    return len(one) == len(other) and all(map(fnmatchcase, one, other))


def _live(reader: Reader, key: str) -> Value:
    data = reader.read(proc_path(key))
    return " ".join(data.decode("utf-8", "replace").split()) if isinstance(data, bytes) else data


class SysctlAddress:
    """`sysctl:KEY`: the live value, blanks normalised; `vm.dirty_ratio=20` where that other spelling is in force."""

    kind = "sysctl"

    def read(self, reader: Reader, name: str) -> Value:
        value = _live(reader, name)
        if value == "0" and name in TWINS and isinstance(other := _live(reader, TWINS[name]), str):
            return f"{TWINS[name]}={other}"
        return value

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        if not self.same(self.read(writer, name), change.before):
            message = f"{name} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        twin, equals, value = str(change.after).partition("=")
        key, value = (twin, value) if equals and twin == TWINS.get(name) else (name, str(change.after))
        writer.set_value(proc_path(key), f"{value}\n")

    def same(self, one: Value, other: Value) -> bool:
        return one == other or (isinstance(one, str) and isinstance(other, str) and one.split() == other.split())

    def invert(self, change: Change) -> Change | None:
        return inverted(change)


class SysctlFilesAddress(ReadOnly):
    """`sysctl-files:KEY`: every file that sets the key, in the order of boot, as `value<TAB>path:line`; its other
    spelling as `vm.dirty_ratio=40<TAB>path:line`. Read only.
    """

    kind = "sysctl-files"

    def read(self, reader: Reader, name: str) -> Value:
        files, arguments = drop_ins(reader, FOLDERS), _arguments(reader, name)
        if isinstance(files, Unreadable):
            return files
        if isinstance(arguments, Unreadable):
            return arguments
        spellings = {name: "", TWINS[name]: f"{TWINS[name]}="} if name in TWINS else {name: ""}
        named: list[str] = []
        by_pattern: list[str] = []
        is_excluded = False
        for file in files:
            text = reader.read(file)
            if isinstance(text, Unreadable):
                return text
            for line, key, value in assignments(text) if isinstance(text, bytes) else ():
                entry = f"{value}\t{file}:{line}"
                if key in spellings:
                    named += [spellings[key] + entry] if value is not None else []
                    is_excluded = is_excluded or value is None
                elif value is not None and _is_pattern(key) and _fits(name, key):
                    by_pattern.append(entry)
        return (*arguments, *(named if named or is_excluded else by_pattern))


def _arguments(reader: Reader, name: str) -> tuple[str, ...] | Unreadable:
    """What the kernel command line sets before any file does: sysctl.KEY=VALUE, and the arguments of single values
    (kernel-parameters.txt).
    """
    line = ABSENT if reader.persistent_only else reader.read("/proc/cmdline")
    if isinstance(line, Unreadable):
        return line
    found = []
    for word in line.decode("utf-8", "replace").split() if isinstance(line, bytes) else ():
        argument, equals, value = word.partition("=")
        if equals and argument.startswith("sysctl.") and normal_key(argument[7:]) == name:
            found.append(f"{value}\tthe kernel command line: {word}")
        elif meant := _WORDS.get((name, word)):
            found.append(f"{meant}\tthe kernel command line: {word}")
    return tuple(found)


@frozen
class _Setting:
    """One key of a rule: where it stands and what it should become."""

    wish: Wish
    live: Value
    wanted: str  # the value that satisfies the wish and is nearest to the live one
    live_ok: bool
    boot_ok: bool  # what the files set at the next boot satisfies the wish
    needs_no_file: bool  # the kernel, TuneD or a command sets it then
    evidence: tuple[str, ...]
    hold: Hold = Hold()
    todo: str = ""


class SysctlWish:
    """`- sysctl: KEY` with exactly, at_least or at_most: live now, and by a drop-in of the rule at every boot."""

    kind = "sysctl"
    fields: Mapping[str, FieldSpec] = {
        "module": FieldSpec(str, help="The module outside of the kernel's own source that brings the key, if one does"),
        "kernel_default": FieldSpec(bool, help="The kernel chooses such a value by itself: no file has to set it"),
    }
    operators = (Operator.EXACTLY, Operator.AT_LEAST, Operator.AT_MOST)
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        own = Address("file", dropin_path("/etc/sysctl.d", wish.rule))
        live = () if facts.reader.persistent_only else (Address("sysctl", wish.name),)
        return (*live, Address("sysctl-files", wish.name), own)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        findings: list[Finding] = []
        settings: list[_Setting] = []
        for wish in wishes:
            answer = _examine(wish, context)
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                settings.append(answer)
        path = dropin_path("/etc/sysctl.d", wishes[0].rule)
        return (*findings, *_findings(settings, path, context))

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        values = [(wish, nearest("", wish)) for wish in wishes]
        live = (in_general(wish, Address(self.kind, wish.name), value, before=OLD) for wish, value in values)
        path = dropin_path("/etc/sysctl.d", wishes[0].rule)
        text = _text(wishes[0].rule, [(wish.name, value) for wish, value in values])
        return (*live, in_general(wishes[0], Address("file", path), text))


def _examine(wish: Wish, context: Context) -> _Setting | Finding:
    live: Value = context.state.get(Address("sysctl", wish.name), "")
    files = context.state[Address("sysctl-files", wish.name)]
    # Where no running kernel says that it has the key, one that no kernel has is a typo, not a reason to keep silent.
    is_untold = live is ABSENT or context.facts.reader.persistent_only
    if is_untold and not wish.fields.get("module") and (unheard := unknown_key(wish.name)):
        todo = f"correct it in the rule {wish.rule}, or name the module that brings it (module:)"
        return Finding(wish.rule, wish.name, Verdict.UNKNOWN, reason=unheard, todo=todo)
    if live is ABSENT:
        reason = f"this kernel has no {wish.name}"
        return Finding(wish.rule, wish.name, Verdict.NOT_APPLICABLE, reason=reason)
    for value in (live, files):
        if isinstance(value, Unreadable):
            return Finding(wish.rule, wish.name, Verdict.UNKNOWN, reason=behind(wish.name, value.reason))
    entries = [tuple(entry.split("\t")) for entry in files] if isinstance(files, tuple) else []
    own = dropin_path("/etc/sysctl.d", wish.rule)
    others = [(value, place) for value, place in entries if place.rpartition(":")[0] != own]
    boot = entries[-1] if entries else None
    live_ok = context.facts.reader.persistent_only or satisfies(str(live), wish)
    is_image = context.facts.reader.persistent_only
    elsewhere = _elsewhere(wish, str(live), boot, context)
    is_kernels = boot is None and not is_image and live_ok and bool(wish.fields.get("kernel_default"))
    needs_no_file = elsewhere.is_enough if elsewhere else is_kernels
    boot_ok = needs_no_file or (elsewhere is None and boot is not None and satisfies(boot[0], wish))
    evidence: tuple[str, ...] = () if is_image else (f"now {live}",)
    nobody = "the kernel chooses it, no file sets it" if is_kernels else "no file sets it at boot"
    by_file = f"next boot {boot[0]} ({boot[1]})" if boot else nobody
    evidence += (elsewhere.words if elsewhere else by_file,)
    hold, todo = Hold(), ""
    if not (live_ok and boot_ok):
        hold, todo = _owner(wish, others, elsewhere, context)
    return _Setting(wish, live, nearest(str(live), wish), live_ok, boot_ok, needs_no_file, evidence, hold, todo)


def _elsewhere(wish: Wish, live: str, boot: tuple[str, ...] | None, context: Context) -> Elsewhere | None:
    """Who sets it when the files have been read: TuneD, or a command, which is looked for where no file will do. What
    an administrator's file says is said again by TuneD, and is his word against a command.
    """
    if boot is not None and not boot[1].startswith(DISTRIBUTION):
        return None
    facts = context.facts
    words = facts.managers.tuned_sysctl_values.get(wish.name)
    if found := by_tuned(words, wish, live, facts):
        return found
    if boot is not None and satisfies(boot[0], wish):
        return None
    return by_commands(lambda path: path == proc_path(wish.name), wish, facts)


def _owner(
    wish: Wish, others: list[tuple[str, str]], elsewhere: Elsewhere | None, context: Context
) -> tuple[Hold, str]:  # fmt: skip
    """Who decides otherwise: an administrator's file, TuneD, a command, or a file that is read after ours."""
    explicit = [entry for entry in others if not entry[1].startswith(DISTRIBUTION)]
    if hold := _by_file(explicit[-1:], wish):
        return hold
    if {wish.name, TWINS.get(wish.name)} & {*context.facts.managers.tuned_sysctls}:
        owner = f"TuneD profile {context.facts.managers.tuned_profile}"
        return Hold(HoldKind.OWNED, owner), f"set {wish.name} in a child profile of TuneD, or ignore {wish.rule}"
    if elsewhere and not elsewhere.is_enough:
        owner = f"{elsewhere.place} ({wish.name} = {elsewhere.value})"
        return Hold(HoldKind.OWNED, owner), f"change {elsewhere.place}, or ignore {wish.rule}"
    own = dropin_path("", wish.rule)
    stronger = [entry for entry in others if entry[1].rpartition(":")[0].rpartition("/")[2] > own.lstrip("/")]
    return _by_file(stronger[-1:], wish) or (Hold(), "")


def _by_file(entries: list[tuple[str, str]], wish: Wish) -> tuple[Hold, str] | None:
    for value, place in entries:
        if not satisfies(value, wish):
            shown = value if "=" in value else f"{wish.name} = {value}"
            return Hold(HoldKind.OWNED, f"{place} ({shown})"), f"change {place}, or ignore {wish.rule}"
    return None


def _findings(settings: list[_Setting], path: str, context: Context) -> list[Finding]:
    """The findings of the keys that exist; the drop-in is one change, carried by the first key that needs it."""
    lines = [(s.wish.name, s.wanted) for s in settings if not s.hold and not s.needs_no_file]
    boot_missing = any(not s.boot_ok and not s.hold for s in settings)
    rule = settings[0].wish.rule if settings else ""
    file_change, edited, problem = None, Hold(), ""
    todo = ""
    notes: tuple[str, ...] = ()
    if boot_missing:
        wanted = _text(rule, lines)
        dropin = compare_dropin(path, wanted, rule, context, Activation.NOW)
        file_change, edited, todo, problem = dropin.change, dropin.hold, dropin.todo, dropin.unknown
        notes = dropin.evidence
    else:
        note = hand_edit(Address("file", path), context)
        if note and any(not s.live_ok for s in settings):
            edited, todo = Hold(HoldKind.EDITED, path), f"keep it and ignore {rule}, or remove {path}"
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
                    rule, subject, Verdict.DIFFERS, hold, _reason(s, context), s.evidence + notes, todo=s.todo or todo
                )
            )  # fmt: skip
        else:
            changes = [] if s.live_ok else [_live_change(s, context)]
            if file_change is not None and not s.boot_ok:
                changes.append(file_change)
                file_change = None
            findings.append(
                Finding(rule, subject, Verdict.DIFFERS, Hold(), _reason(s, context), s.evidence, tuple(changes))
            )  # fmt: skip
    return findings


def _text(rule: str, settings: list[tuple[str, str]]) -> bytes:
    return dropin_text(rule, (f"{key} = {value}" for key, value in settings))


def _live_change(setting: _Setting, context: Context) -> Change:
    address = Address("sysctl", setting.wish.name)
    action = action_between(setting.live, setting.wanted)
    return Change(address, action, setting.live, setting.wanted, setting.wish.rule, context.risk, context.disturbs)


def _reason(setting: _Setting, context: Context) -> str:
    applied = context.ledger.get(Address("file", dropin_path("/etc/sysctl.d", setting.wish.rule)))
    if setting.boot_ok and applied and isinstance(applied.after, FileValue):
        return f"the live value left what our drop-in of run {applied.run_id} sets"
    kept = " after a reboot, too" if setting.live_ok and not context.facts.reader.persistent_only else ""
    return wants(setting.wish) + kept


WISHES = (SysctlWish(),)
ADDRESSES = (SysctlAddress(), SysctlFilesAddress())
