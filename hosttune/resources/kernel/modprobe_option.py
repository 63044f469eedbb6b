"""Options of kernel modules: what modprobe.d sets, and what the loaded module has.

modprobe reads the files of all its folders sorted by name, and the kernel takes the last value of a key; the kernel
command line (module.key=value) comes after all files (modprobe.d(5)). A drop-in is no success by itself: a module that
is loaded keeps what it was loaded with, one that the initial RAM disk loads reads the copy in there, and one that is
built in reads no file at all.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.reading import drop_ins
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import FieldSpec, Operator, in_general
from hosttune.resources.comparison import Comparison
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.resources.kernel.module_parameter import one
from hosttune.resources.read_only import ReadOnly
from hosttune.resources.services.since import applied_since
from hosttune.values import ABSENT, Activation, Address, Finding, HoldKind, Trigger, Unreadable, Verdict, behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.resources.base import Context, Wish
    from hosttune.values import Change, Value

FOLDER = "/etc/modprobe.d"
FOLDERS = (FOLDER, "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_DISTRIBUTION = ("/usr/lib/", "/lib/")
_NAME = regex(r"([\w-]+)\.(\w+)")
_VALUE = regex(r"[\w.,:;=/+-]+")


def options(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, module, key, value) of the `options` lines of one file; a backslash at the end continues a line."""
    whole, start = "", 0
    for number, row in enumerate(text.splitlines(), 1):
        start = start or number
        if row.endswith("\\"):
            whole += f"{row[:-1]} "
            continue
        try:
            words = shlex.split(whole + row, comments=True)
        except ValueError:
            words = (whole + row).split()
        if words[:1] == ["options"] and len(words) > 2:
            yield from ((start, one(words[1]), *word.partition("=")[::2]) for word in words[2:])
        whole, start = "", 0


def same(live: str, wanted: str) -> bool:
    """Whether two spellings of a value mean the same: the kernel shows booleans as Y and N, and numbers in decimal."""
    if live in {"Y", "N"}:
        return wanted.lower() in ({"y", "1", "yes", "true", "on"} if live == "Y" else {"n", "0", "no", "false", "off"})
    try:
        return int(live, 0) == int(wanted, 0)
    except ValueError:
        return live == wanted


class ModprobeOptionsAddress(ReadOnly):
    """`modprobe-options:MODULE.KEY`: all that set it, in the order in which they count, as "VALUE<tab>PLACE"."""

    kind = "modprobe-options"

    def read(self, reader: Reader, name: str) -> Value:
        module, _, key = name.partition(".")
        files = drop_ins(reader, FOLDERS)
        if isinstance(files, Unreadable):
            return files
        rows: list[str] = []
        for path in files:
            content = reader.read(path)
            if isinstance(content, Unreadable):
                return content
            text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
            found = ((line, value) for line, its, other, value in options(text) if (its, other) == (one(module), key))
            rows += (f"{value}\t{path}:{line}" for line, value in found)
        line = ABSENT if reader.persistent_only else reader.read("/proc/cmdline")
        for word in line.decode("utf-8", "replace").split() if isinstance(line, bytes) else ():
            argument, _, value = word.partition("=")
            if one(argument) == one(name):
                rows.append(f"{value}\tthe kernel command line: {word}")
        return line if isinstance(line, Unreadable) else tuple(rows)


class ModprobeOptionWish:
    """`- modprobe-option: MODULE.KEY` with exactly."""

    kind = "modprobe-option"
    fields: Mapping[str, FieldSpec] = {
        "early": FieldSpec(bool, help="False where nothing loads the module before the root file system is there"),
    }
    operators = (Operator.EXACTLY,)
    activations = (Activation.REBOOT,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        module = wish.name.partition(".")[0]
        kinds = ("modprobe-options", "module-parameter")
        return (*(Address(kind, wish.name) for kind in kinds), Address("initramfs", module), _file(wish))

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        looks = [_Look(wish, context) for wish in wishes]
        answers = [look.stands() for look in looks]
        needed = [look for look, answer in zip(looks, answers, strict=True) if answer is None]
        kept = [look for look in looks if look in needed or look.is_ours]
        dropin = _compare_dropin(needed, kept, context) if needed else Dropin()
        change = dropin.change  # one for all wishes of the rule, carried by the first that needs it
        findings = []
        for look, answer in zip(looks, answers, strict=True):
            findings.append(answer or look.missing(dropin, (change,) if change else ()))
            change = change if answer else None
        return tuple(findings)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        text = _text(wishes[0].rule, {wish.name: str(wish.bounds[0].value) for wish in wishes})
        is_early = any(wish.fields.get("early") is not False for wish in wishes)
        triggers = (Trigger("rebuild-initramfs"),) if is_early else ()
        return (in_general(wishes[0], _file(wishes[0]), text, activation=Activation.REBOOT, triggers=triggers),)


def _file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _compare_dropin(needed: list[_Look], kept: list[_Look], context: Context) -> Dropin:
    wish = needed[0].wish
    text = _text(wish.rule, {look.wish.name: look.wanted for look in kept})
    early = [look.initramfs for look in kept if isinstance(look.initramfs, str)]
    triggers = (Trigger("rebuild-initramfs"),) if early else ()
    dropin = compare_dropin(_file(wish).name, text, wish.rule, context, Activation.REBOOT, triggers)
    if dropin.change is None or not early:
        return dropin
    program, reason = early[0].split("\t")[:2]
    details = (f"then {program} rebuilds the initial RAM disks: {reason}",)
    return replace(dropin, change=replace(dropin.change, details=details))


def _text(rule: str, values: Mapping[str, str]) -> bytes:
    pairs = ((*name.partition(".")[::2], value) for name, value in values.items())
    return dropin_text(rule, (f"options {module} {key}={value}" for module, key, value in pairs))


@frozen
class _Look(Comparison):
    """One wish against the files and the loaded module."""

    wish: Wish
    context: Context

    @property
    def wanted(self) -> str:
        return str(self.wish.bounds[0].value) if self.wish.bounds else ""

    @property
    def initramfs(self) -> Value:
        if self.wish.fields.get("early") is False:
            return ABSENT
        return self.context.state[Address("initramfs", self.wish.name.partition(".")[0])]

    @property
    def entries(self) -> list[tuple[str, str]]:
        """(value, place) in the order in which they count."""
        rows = self.context.state[Address("modprobe-options", self.wish.name)]
        return (
            [(value, place) for value, _, place in (row.partition("\t") for row in rows)]
            if isinstance(rows, tuple)
            else []
        )

    @property
    def is_ours(self) -> bool:
        return bool(self.entries) and self.entries[-1][1].startswith(_file(self.wish).name)

    def stands(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        live = self.context.state[Address("module-parameter", self.wish.name)]
        if not _NAME.fullmatch(self.wish.name) or not _VALUE.fullmatch(self.wanted):
            detail = f"{self.wish.name} = {self.wanted!r} is no MODULE.KEY with a plain value"
            return self._held(HoldKind.REFUSED, detail)
        rows = self.context.state[Address("modprobe-options", self.wish.name)]
        for value in (rows, live, self.initramfs):
            if isinstance(value, Unreadable):
                return self._says(Verdict.UNKNOWN, behind(self.wish.name, value.reason))
        if isinstance(live, tuple) and live[0] == "built in":
            module = self.wish.name.partition(".")[0]
            todo = f"put {self.wish.name}={self.wanted} on the kernel command line"
            return self._held(HoldKind.REFUSED, f"{module} is built into this kernel, which reads no modprobe.d", todo)
        if not self.entries or not same(self.entries[-1][0], self.wanted):
            return self._owned() or self._left_out()
        return self._in_force(live)

    def _left_out(self) -> Finding | None:
        """The refusal where the initial RAM disk would load the module without what a drop-in of ours says."""
        _, _, lacking = [*str(self.initramfs).split("\t"), "", ""][:3]
        if not lacking:
            return None
        argument = f"{self.wish.name}={self.wanted}"
        todo = f'set hostonly="yes" in /etc/dracut.conf.d, or put {argument} on the kernel command line'
        return self._held(HoldKind.REFUSED, lacking, todo)

    def _owned(self) -> Finding | None:
        own = _file(self.wish).name
        others = [entry for entry in self.entries if not entry[1].startswith(own)]
        explicit = [entry for entry in others if not entry[1].startswith(_DISTRIBUTION)]
        stronger = [
            entry for entry in others if entry[1].rpartition(":")[0].rpartition("/")[2] > own.rpartition("/")[2]
        ]
        for value, place in (*explicit[-1:], *stronger[-1:]):
            if not same(value, self.wanted):
                detail = place if place.startswith("the ") else f"{place} ({self.wish.name} = {value})"
                return self._held(HoldKind.OWNED, detail, f"change {place}, or ignore {self.wish.rule}")
        return None

    def _in_force(self, live: Value) -> Finding:
        """The files are right; whether the module has it is another matter."""
        evidence = (f"{self.entries[-1][1]} sets it",)
        if not isinstance(live, tuple):
            return self._says(Verdict.OK, evidence=(*evidence, "the module is not loaded now"))
        applied = self.context.ledger.get(_file(self.wish)) if self.is_ours else None
        is_new = applied is not None and applied_since(applied, self.context.facts.kernel.booted_at)
        if len(live) > 1 and same(live[1], self.wanted):
            return self._says(Verdict.OK, evidence=(*evidence, "the loaded module has it"))
        if len(live) > 1 or is_new:
            now = f"the loaded module has {live[1]}" if len(live) > 1 else "the module was loaded before it was set"
            return self._held(HoldKind.WAITING, "a reboot", "reboot when nothing runs", (*evidence, now))
        return self._says(Verdict.OK, evidence=(*evidence, "the loaded module does not show its value"))

    @property
    def _there(self) -> tuple[str, ...]:
        return (f"{self.entries[-1][1]} sets {self.entries[-1][0]}" if self.entries else "no file sets it",)

    @property
    def _wants(self) -> str:
        return f"{self.wish.name} should be {self.wanted}"


WISHES = (ModprobeOptionWish(),)
ADDRESSES = (ModprobeOptionsAddress(),)
