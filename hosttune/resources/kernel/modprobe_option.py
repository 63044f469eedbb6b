"""Options of kernel modules: what modprobe.d sets, and what the loaded module has.

Who sets them: facts/kernel/module_options.py. A drop-in is no success by itself: a module that is
loaded keeps what it was loaded with, one that the initial RAM disk loads reads the copy in there,
and one that is built in reads no file at all.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import read_or_default
from hosttune.facts.kernel.module_options import FOLDER, ModuleOptions, same_value
from hosttune.facts.precedence import MODPROBE, lost_words, over_words, owned_place, way_over
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import FieldSpec, Operator, WishKind, in_general
from hosttune.resources.comparison import InDropin, in_dropins, or_unknown
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.resources.services.since import applied_since
from hosttune.values import Activation, Address, Finding, Hold, HoldKind, Trigger, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.kernel.initramfs import InRamDisk
    from hosttune.facts.kernel.module_options import ModuleParameter
    from hosttune.resources.base import Context, Wish
    from hosttune.values import Change

_VALUE = regex(r"[\w.,:;=/+-]+")


class ModprobeOptionWish(WishKind):
    """`- modprobe-option: MODULE.KEY` with exactly."""

    kind = "modprobe-option"
    fields: Mapping[str, FieldSpec] = {
        "early": FieldSpec(
            bool, help="False where nothing loads the module before the root file system is there"
        ),
    }
    operators = (Operator.EXACTLY,)
    activations = (Activation.REBOOT,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return in_dropins(
            [_ModuleOptionComparison(wish, context) for wish in wishes], _compare_dropin
        )

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        text = _render_text(
            wishes[0].rule, {wish.name: str(wish.bounds[0].value) for wish in wishes}
        )
        is_early = any(wish.fields.get("early") is not False for wish in wishes)
        triggers = (Trigger("rebuild-initramfs"),) if is_early else ()
        return (
            in_general(
                wishes[0],
                _address_file(wishes[0]),
                text,
                activation=Activation.REBOOT,
                triggers=triggers,
            ),
        )


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _compare_dropin(kept: list[_ModuleOptionComparison]) -> Dropin:
    wish = kept[0].wish
    text = _render_text(wish.rule, {look.wish.name: look.wanted for look in kept})
    early = [held for look in kept if (held := look.in_ram_disk) is not None and held.why]
    triggers = (Trigger("rebuild-initramfs"),) if early else ()
    dropin = compare_dropin(
        kept[0].path, text, wish.rule, kept[0].context, Activation.REBOOT, triggers
    )
    if dropin.change is None or not early:
        return dropin
    details = (f"then {early[0].builder} rebuilds the initial RAM disks: {early[0].why}",)
    return replace(dropin, change=replace(dropin.change, details=details))


def _render_text(rule: str, values: Mapping[str, str]) -> bytes:
    pairs = ((*name.partition(".")[::2], value) for name, value in values.items())
    return dropin_text(rule, (f"options {module} {key}={value}" for module, key, value in pairs))


@frozen
class _ModuleOptionComparison(InDropin):
    """One wish against the files and the loaded module."""

    wish: Wish
    context: Context

    @property
    def wanted(self) -> str:
        return str(self.wish.bounds[0].value) if self.wish.bounds else ""

    @property
    def parameter(self) -> ModuleParameter:
        return self.context.facts.module_options[self.wish.name]

    @property
    def in_ram_disk(self) -> InRamDisk | None:
        """What the initial RAM disk makes of the module; None where the rule says that nothing
        loads it early.
        """
        if self.wish.fields.get("early") is False:
            return None
        return self.context.facts.initramfs[self.wish.name.partition(".")[0]]

    @property
    def path(self) -> str:
        return _address_file(self.wish).name

    @property
    def is_kept(self) -> bool:
        return read_or_default(
            lambda: any(one.path == self.path for one in self.parameter.settings[-1:]),
            otherwise=False,
        )

    @or_unknown
    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        if ModuleOptions.name_fault(self.wish.name) or not _VALUE.fullmatch(self.wanted):
            detail = f"{self.wish.name} = {self.wanted!r} is no MODULE.KEY with a plain value"
            return self._says(Verdict.DIFFERS, self._wants, Hold(HoldKind.REFUSED, detail))
        parameter = self.parameter
        if parameter.is_loaded and parameter.is_built_in:
            module = self.wish.name.partition(".")[0]
            todo = f"put {self.wish.name}={self.wanted} on the kernel command line"
            return self._make_held(
                HoldKind.REFUSED,
                f"{module} is built into this kernel, which reads no modprobe.d",
                todo,
            )
        if not parameter.settings or not same_value(self.wanted, parameter.settings[-1].value):
            return self._find_owned() or self._left_out()
        return self._in_force()

    def _left_out(self) -> Finding | None:
        """The refusal where the initial RAM disk would load the module without what a drop-in of
        ours says.
        """
        lacking = self.in_ram_disk.lacks_options if self.in_ram_disk else ""
        if not lacking:
            return None
        argument = f"{self.wish.name}={self.wanted}"
        todo = (
            f'set hostonly="yes" in /etc/dracut.conf.d, or put {argument} on the kernel command '
            f"line"
        )
        return self._make_held(HoldKind.REFUSED, lacking, todo)

    def _find_owned(self) -> Finding | None:
        own = _address_file(self.wish).name
        others = [one for one in self.parameter.settings if one.path != own]
        explicit = [one for one in others if not one.is_of_distribution]
        # A line counts over ours by the name of its file. What has no line is on the kernel command
        # line, and counts over every file.
        stronger = [one for one in others if one.line and one.file_name > posixpath.basename(own)]
        module, _, key = self.wish.name.partition(".")
        for one in (*stronger[-1:], *explicit[-1:]):
            if not same_value(self.wanted, one.value):
                owners = self.context.facts.file_owners
                detail = (
                    f"{owned_place(one, owners)} ({self.wish.name} = {one.value})"
                    if one.line
                    else one.place
                )
                detail += over_words(others, owners)
                way = way_over(one, MODPROBE, owners, f"`options {module} {key}={self.wanted}`")
                return self._make_held(HoldKind.OWNED, detail, f"{way}, or ignore {self.wish.rule}")
        return None

    def _in_force(self) -> Finding:
        """The files are right; whether the module has it is another matter."""
        evidence = (f"{self.parameter.settings[-1].place} sets it", *self._lost)
        live = self.parameter.live
        if not self.parameter.is_loaded:
            return self._says(Verdict.OK, evidence=(*evidence, "the module is not loaded now"))
        applied = self.context.ledger.get(_address_file(self.wish)) if self.is_kept else None
        is_new = applied is not None and applied_since(applied, self.context.facts.kernel.booted_at)
        # The live value goes before the journal: a module may have been loaded anew since, and then
        # no reboot is needed.
        if live and same_value(self.wanted, live):
            return self._says(Verdict.OK, evidence=(*evidence, "the loaded module has it"))
        if live or is_new:
            now = (
                f"the loaded module has {live}"
                if live
                else "the module was loaded before it was set"
            )
            return self._make_held(
                HoldKind.WAITING, "a reboot", "reboot when nothing runs", (*evidence, now)
            )
        return self._says(
            Verdict.OK, evidence=(*evidence, "the loaded module does not show its value")
        )

    @property
    def _there(self) -> tuple[str, ...]:
        last = self.parameter.settings[-1:]
        return (*(f"{one.place} sets {one.value}" for one in last), *self._lost) or (
            "no file sets it",
        )

    @property
    def _lost(self) -> tuple[str, ...]:
        """What administrators set in vain."""
        return lost_words(
            self.parameter.settings, MODPROBE, self.context.facts.file_owners, self.wish.name
        )

    @property
    def _wants(self) -> str:
        return f"{self.wish.name} should be {self.wanted}"


WISH = ModprobeOptionWish()
