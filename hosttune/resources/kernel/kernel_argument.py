"""Arguments of the kernel: the running one's, those of GRUB's settings, and those in the menu that
GRUB reads.

A drop-in of ours in /etc/default/grub.d adds to GRUB_CMDLINE_LINUX_DEFAULT and never assigns it
afresh; update-grub then writes the menu, which is read back; the kernel has the argument after the
next boot. Where the host does not boot through GRUB, this is advice.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt, read_or_default
from hosttune.facts.globs import fits_glob
from hosttune.facts.kernel import grub_arguments as grub
from hosttune.facts.kernel.kernel import of_kernel
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.comparison import InDropin, in_dropins, or_unknown
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text
from hosttune.values import (
    Activation,
    Address,
    FileValue,
    Finding,
    HoldKind,
    Trigger,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Change, Value

OURS = f"{grub.FOLDER}/60-hosttune-"
_ARGUMENT = regex(r"[A-Za-z][\w.-]*(?:=[\w.,:/@%+=*-]+)?")
# Their values are lists of things that stand side by side: pci=realloc=off,noaer.
_LISTS = frozenset({"pci", "module_blacklist", "modprobe.blacklist", "rd.driver.blacklist"})
# They may stand there several times, each with a meaning of its own.
_REPEATED = frozenset(
    {
        "console",
        "earlycon",
        "hugepagesz",
        "hugepages",
        "video",
        "memmap",
        "ip",
        "acpi_osi",
        "dyndbg",
    }
)
_TRIGGERS = (Trigger("update-grub"),)
_OURS = regex(rf'(?m)^{grub.DEFAULT}="\${grub.DEFAULT} ([^"\n]*)"$')


def split(argument: str) -> tuple[str, tuple[str, ...]]:
    """(key, parts of the value): in keys - and _ are one (kernel: lib/cmdline.c, parameq)."""
    key, _, value = argument.partition("=")
    return key.replace("-", "_"), tuple(value.split(","))


def has(arguments: Iterable[str], wanted: str) -> bool:
    """Whether one of these arguments is the wanted one, perhaps with more in its list."""
    key, parts = split(wanted)
    return any(its == key and set(parts) <= set(others) for its, others in map(split, arguments))


def contradicts_wanted(argument: str, wanted: str, patterns: Iterable[str] = ()) -> bool:
    """Whether an argument says otherwise: another value of the same key, or one that the rule names
    by a pattern.
    """
    if any(fits_glob(argument, pattern) for pattern in patterns):
        return True
    (key, parts), (its, others) = split(wanted), split(argument)
    if key != its or key in _REPEATED or set(parts) <= set(others):
        return False
    if key not in _LISTS:
        return True
    # Of a list only the same name with another value contradicts: pci=noaer beside pci=realloc=off
    # is no conflict.
    named = {part.partition("=")[0] for part in parts}
    return any(other.partition("=")[0] in named for other in others if other not in parts)


def arguments_in(value: Value) -> tuple[str, ...]:
    """The arguments that a drop-in of ours adds; of what is no such drop-in none."""
    text = value.content.decode("utf-8", "replace") if isinstance(value, FileValue) else ""
    return tuple(word for found in _OURS.finditer(text) for word in found[1].split())


def describe_unproven(reader: Reader) -> str:
    """Which argument of our drop-ins a normal entry of the menu lacks, as a phrase; empty when all
    are there.
    """
    settings = attempt(grub.arguments_of, reader)
    menu = reader.read(grub.MENU)
    if isinstance(settings, Unreadable) or not isinstance(menu, bytes):
        problem = next(
            (one.reason for one in (settings, menu) if isinstance(one, Unreadable)),
            "it is not there",
        )
        return f"{grub.MENU} cannot be compared with its settings: {problem}"
    ours = [one for one in settings.all if one.path.startswith(OURS)]
    lacking = [
        f"line {entry.number} of {grub.MENU} lacks {one.value} ({one.place})"
        for entry in grub.parse_entries(menu.decode("utf-8", "replace"))
        for one in ours
        if not has(entry.arguments, one.value)
    ]
    return lacking[0] if lacking else ""


class KernelArgumentWish(WishKind):
    """`- kernel-argument: iommu=pt`; `contradicts` names, with wildcards, what must not stand
    beside it.
    """

    kind = "kernel-argument"
    fields: Mapping[str, FieldSpec] = {
        "contradicts": FieldSpec(
            list, help="Arguments that must not stand beside it, such as intel_iommu=off"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.REBOOT,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return in_dropins([_ArgumentComparison(wish, context) for wish in wishes], _compare_dropin)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        text = _render_text(wishes[0].rule, (wish.name for wish in wishes))
        return (
            in_general(
                wishes[0],
                _address_file(wishes[0]),
                text,
                activation=Activation.REBOOT,
                triggers=_TRIGGERS,
            ),
        )


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(grub.FOLDER, wish.rule, ".cfg"))


def _compare_dropin(kept: list[_ArgumentComparison]) -> Dropin:
    """Our drop-in holds what no one else sets, of those wishes that nothing holds back."""
    rule, names = kept[0].wish.rule, [look.wish.name for look in kept]
    return compare_dropin(
        kept[0].path, _render_text(rule, names), rule, kept[0].context, Activation.REBOOT, _TRIGGERS
    )


def _render_text(rule: str, names: Iterable[str]) -> bytes:
    return dropin_text(
        rule, (f'{grub.DEFAULT}="${grub.DEFAULT} {" ".join(dict.fromkeys(names))}"',)
    )


@frozen
class _ArgumentComparison(InDropin):
    """One wish against the running kernel, the settings and the menu."""

    wish: Wish
    context: Context

    @property
    def settings(self) -> grub.Arguments:
        return self.context.facts.grub_arguments.settings

    @property
    def is_running(self) -> bool:
        # Of an image the running kernel is this machine's own, whose arguments say nothing about
        # the image.
        is_image = self.context.facts.reader.persistent_only
        return not is_image and has(
            of_kernel(self.context.facts.kernel.command_line), self.wish.name
        )

    @property
    def is_set(self) -> bool:
        return has((one.value for one in self.settings.all), self.wish.name)

    @property
    def is_set_by_others(self) -> bool:
        own = _address_file(self.wish).name
        return has((one.value for one in self.settings.all if one.path != own), self.wish.name)

    @property
    def path(self) -> str:
        return _address_file(self.wish).name

    @property
    def is_kept(self) -> bool:
        """Whether our drop-in sets it, and no one else."""
        return read_or_default(lambda: self.is_set and not self.is_set_by_others, otherwise=False)

    @or_unknown
    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed."""
        name = self.wish.name
        if not _ARGUMENT.fullmatch(name):
            return self._make_held(HoldKind.REFUSED, f"{name!r} is no plain argument of the kernel")
        entries = self.context.facts.grub_arguments.entries
        # Settings of GRUB can be left on a host that another loader starts. A drop-in there would
        # be written, and never be in force.
        if not entries or self.context.facts.host.boot_loader == "systemd-boot":
            return self._without_grub()
        patterns = [str(pattern) for pattern in self.wish.fields.get("contradicts") or ()]
        for one in self.settings.all:
            if contradicts_wanted(one.value, name, patterns):
                todo = f"take {one.value} out of {one.place}, then: sudo update-grub"
                return self._make_held(
                    HoldKind.REFUSED, f"{one.value} in {one.place} contradicts {name}", todo
                )
        return self._in_force(entries) if self.is_set else self._lost()

    def _in_force(self, entries: tuple[grub.KernelEntry, ...]) -> Finding:
        """The settings have it: whether the menu has it, and the running kernel."""
        name = self.wish.name
        lacking = [entry.number for entry in entries if not has(entry.arguments, name)]
        place = next(one.place for one in self.settings.all if has((one.value,), name))
        if lacking:
            reason = f"{place} sets it, and line {lacking[0]} of {grub.MENU} lacks it"
            return self._make_held(HoldKind.WAITING, "update-grub", "sudo update-grub", (reason,))
        evidence = (f"{place} sets it, and all {len(entries)} entries of {grub.MENU} have it",)
        if not self.context.facts.reader.persistent_only and not self.is_running:
            return self._make_held(
                HoldKind.WAITING, "a reboot", "reboot when nothing runs", evidence
            )
        now = ("the running kernel has it",) if self.is_running else ()
        return self._says(Verdict.OK, evidence=(*evidence, *now))

    def _lost(self) -> Finding | None:
        """Who assigns the arguments afresh in a file behind ours, so that ours would be lost."""
        own = posixpath.basename(_address_file(self.wish).name)
        for one in self.settings.afresh:
            if one.path.startswith(f"{grub.FOLDER}/") and one.file_name > own:
                detail = f"{one.place}, which assigns {grub.DEFAULT} afresh"
                return self._make_held(
                    HoldKind.OWNED, detail, f"add {self.wish.name} there, then: sudo update-grub"
                )
        return None

    def _without_grub(self) -> Finding:
        if self.is_running:
            return self._says(
                Verdict.OK,
                evidence=("the running kernel has it", "no menu of GRUB starts this host"),
            )
        todo = (
            f"add {self.wish.name} to the kernel command line where this host keeps it "
            "(systemd-boot and unified kernel images: /etc/kernel/cmdline, then: sudo "
            "kernel-install add-all), and reboot"
        )
        return self._says(
            Verdict.ADVICE, f"{self._wants}; this host does not boot through GRUB", todo=todo
        )

    @property
    def _there(self) -> tuple[str, ...]:
        return (
            ("the running kernel has it, and no file sets it for the next boot",)
            if self.is_running
            else ()
        )

    @property
    def _wants(self) -> str:
        return f"the kernel should be started with {self.wish.name}"


WISH = KernelArgumentWish()
