"""The arguments that the kernel was started with, judged: said twice, without effect, harmful, or
changed since.

Kernel: Documentation/admin-guide/kernel-parameters.txt; the parts of the line as in
facts/kernel/kernel.py. What the kernel was built with is in /boot/config-RELEASE (Debian and
Ubuntu).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, read_or_default
from hosttune.facts.kernel.kernel import split_command_line
from hosttune.facts.reading import if_absent, read_text, require_sure
from hosttune.facts.services.systemd_config import find_systemd_version
from hosttune.facts.subject import Subject, fact, number
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# Every occurrence of these counts, so that several are no mistake; as are all with a dot (module,
# rd., systemd.).
_LISTS = frozenset({
    "acpi_osi", "amd_iommu", "blacklist", "cgroup_disable", "cgroup_enable", "console",
    "crashkernel", "dyndbg", "earlycon", "earlyprintk", "efi", "hugepages", "hugepagesz",
    "ima_policy", "initcall_blacklist", "initrd", "intel_iommu", "ip", "kunit", "mce", "md",
    "memmap", "module_blacklist", "netconsole", "netdev", "nfsroot", "pci", "raid", "rootflags",
    "trace_event", "video",
})  # fmt: skip
# Gone from the kernel, or never in it.
_DEAD: Mapping[str, str] = {
    "elevator": "has no effect since Linux 5.0: the scheduler is a value of each disk",
    "pcie_acs_override": "belongs to a patch that Debian's and Ubuntu's kernels do not have",
}
_HARMFUL: Mapping[str, str] = {
    "isolcpus": "takes these CPUs away from data loaders and everything that is not pinned by hand",
    "nohz_full": "makes each system call on these CPUs dearer, which data loaders do all the time",
    "idle=poll": "burns full power in idle CPUs, which GPUs and turbo clocks then lack",
    "init_on_free=1": "writes every page once more when it is freed",
    "pcie_aspm=force": "puts PCIe links to sleep that firmware keeps awake",
    "noapic": "disables interrupt routing that NVMe disks and GPUs need",
    "maxcpus": "leaves the other CPUs off",
    "mem": "hides the memory above from the kernel",
}  # fmt: skip
_KERNEL_LINE = regex(
    r"^[ \t]*linux(?:efi|16)?[ \t]+(\S*/vmlinu[xz]-(\S+))[ \t]*(.*)$", re.MULTILINE
)
# Arguments with which a boot ends in a shell on the console, without services and logins by ssh:
# systemd(1), "Kernel Command Line", initramfs-tools(7) (break), dracut.cmdline(7) (rd.break),
# kernel-parameters.txt (init=, rdinit=).
_SHELL = regex(
    r"single|rescue|emergency|[sS1]|-b|systemd\.unit=(?:rescue|emergency|runlevel1)(?:\.target)?"
    r"|(?:rd)?init=\S*/(?:(?:ba|da|z|a)?sh|busybox)|break(?:=\S*)?|rd\.break(?:=\S*)?"
)
_OLD_CGROUPS = regex(
    r"systemd\.(?:unified_cgroup_hierarchy=(?:0|no|false|off)|legacy_systemd_cgroup_controller(?:=(?:1|yes|true|on))?)"
)
_FORCED, _WARNS = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", 257
_SHELL_TARGETS = frozenset({"rescue.target", "emergency.target", "runlevel1.target"})
_DEFAULT_TARGET = "/etc/systemd/system/default.target"
_OWN = regex(r"BOOT_IMAGE=|initrd=|recovery$|single$|nomodeset$|dis_ucode_ldr$")


@frozen
class Harm(Fact):
    """An argument that slows jobs down or weakens the host."""

    argument: str  # as it is
    sentence: str  # what it does


@frozen
class Cmdline(Subject):
    """The kernel command line."""

    @fact
    def contradictions(self) -> tuple[str, ...]:
        """`iommu=off, later iommu=pt`: the last one counts as a rule."""
        return find_repeated(self._arguments)

    @fact
    def dead(self) -> tuple[str, ...]:
        """Sentences for arguments without effect."""
        found = tuple(one.sentence for one in judge_arguments(self._arguments, _DEAD))
        return (*found, *_judge_old_cgroups(self.facts, self._arguments))

    @fact
    def harmful(self) -> tuple[Harm, ...]:
        """Arguments that slow jobs down or weaken the host."""
        return judge_arguments(
            (*self._arguments, *read_or_default(lambda: self.added, tuple[str, ...]())), _HARMFUL
        )

    @fact
    def shell_arguments(self) -> tuple[str, ...]:
        """What the next boot has that ends it in a shell on the console, without services."""
        return tuple(word for word in self._next_words if _SHELL.fullmatch(word))

    @fact
    def shell_target(self) -> str:
        """rescue.target, to which default.target leads; empty for what starts services."""
        return "" if any(map(_names_unit, self._next_words)) else _find_shell_target(self.reader)

    @fact
    def added(self) -> tuple[str, ...]:
        """What the next boot has and this one has not; empty where GRUB does not tell."""
        return self._pending[0]

    @fact
    def removed(self) -> tuple[str, ...]:
        """What this boot has and the next one has not."""
        return self._pending[1]

    @fact
    def zeroes_on_alloc(self) -> bool:
        """The kernel clears every page that it hands out."""
        return _zeroes_memory(self.reader, self.facts, self._arguments, "init_on_alloc")

    @fact
    def zeroes_on_free(self) -> bool:
        """And every page that it gets back."""
        return _zeroes_memory(self.reader, self.facts, self._arguments, "init_on_free")

    # memory kept for a crash kernel; 0 without one
    crash_bytes: int = number("/sys/kernel/kexec_crash_size", absent=0)

    # of the NVMe driver; -1 without it
    nvme_timeout_s: int = number("/sys/module/nvme_core/parameters/io_timeout", absent=-1)

    @fact
    def _arguments(self) -> tuple[str, ...]:
        return of_kernel(self.facts.kernel.command_line)

    @fact
    def _pending(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return _find_pending(self.reader, self.facts, self._arguments)

    @fact
    def _next_words(self) -> tuple[str, ...]:
        """All arguments of the next boot; none where GRUB's files do not tell."""
        kernel = attempt(lambda: self.facts.boot.next_kernel)
        menu = (
            if_absent(read_text(self.reader, "/boot/grub/grub.cfg"), "")
            if isinstance(kernel, str) and kernel
            else ""
        )
        return tuple(dict.fromkeys(of_kernel(_words_of_entry(menu, str(kernel)) or ())))


def _judge_old_cgroups(facts: Facts, arguments: tuple[str, ...]) -> Iterator[str]:
    """Arguments for version 1 of control groups, which systemd has no more (NEWS of 257, 258)."""
    version = find_systemd_version(facts) if any(map(_OLD_CGROUPS.fullmatch, arguments)) else 0
    is_forced = _FORCED in arguments and version == _WARNS
    for one in dict.fromkeys(arguments) if version >= _WARNS and not is_forced else ():
        if _OLD_CGROUPS.fullmatch(one):
            wait = ", and each boot waits 30 seconds for it" if version == _WARNS else ""
            only = f"systemd {version} uses only version 2 of control groups"
            yield f"{one} has no effect: {only}{wait}"


def find_repeated(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments given with different values where one value counts."""
    seen: dict[str, dict[str, None]] = {}
    for one in arguments:
        name, equals, _ = one.partition("=")
        if equals and "." not in name and name not in _LISTS:
            seen.setdefault(name, {})[one] = None
    return tuple(", later ".join(values) for values in seen.values() if len(values) > 1)


def judge_arguments(arguments: tuple[str, ...], table: Mapping[str, str]) -> tuple[Harm, ...]:
    """The arguments that the table has, by name or as a whole, each with its sentence."""
    found = (
        (one, table.get(one) or table.get(one.partition("=")[0]))
        for one in dict.fromkeys(arguments)
    )
    return tuple(Harm(one, f"{one} {sentence}") for one, sentence in found if sentence)


def next_arguments(grub_cfg: str, kernel: str) -> tuple[str, ...] | None:
    """The arguments of the first entry of grub.cfg that starts this kernel, without those that GRUB
    adds; None where there is none, or a variable of GRUB is in it.
    """
    words = _words_of_entry(grub_cfg, kernel)
    return None if words is None else tuple(word for word in words if not _OWN.match(word))


def _words_of_entry(grub_cfg: str, kernel: str) -> tuple[str, ...] | None:
    for match in _KERNEL_LINE.finditer(grub_cfg):
        if match[2] == kernel:
            return split_command_line(
                re.sub(r"\$(?:vt_handoff|\{?[a-z_]+\}?)", "", match[3]).replace("\\", "")
            )
    return None


def default_of(config: str, option: str) -> bool:
    """Whether a kernel was built with an option: CONFIG_X=y."""
    return re.search(rf"^{option}=y$", config, re.MULTILINE) is not None


def of_kernel(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments before `--`; those behind it are for process 1."""
    return words[: words.index("--")] if "--" in words else words


def _names_unit(word: str) -> bool:
    """Whether an argument names what to start, which counts over default.target."""
    return word.startswith("systemd.unit=") or word in {"2", "3", "4", "5"}


def _find_shell_target(reader: Reader) -> str:
    target = require_sure(reader.link(_DEFAULT_TARGET))
    name = target.rpartition("/")[2] if isinstance(target, str) else ""
    return name if name in _SHELL_TARGETS else ""


def _find_pending(
    reader: Reader, facts: Facts, arguments: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the next boot changes; nothing where GRUB's files do not tell which arguments it has."""
    kernel = attempt(lambda: facts.boot.next_kernel)
    if not isinstance(kernel, str) or not kernel:
        return (), ()
    later = next_arguments(if_absent(read_text(reader, "/boot/grub/grub.cfg"), ""), kernel)
    if later is None:
        return (), ()
    now = tuple(
        word for word in arguments if not _OWN.match(word) and not word.startswith("vt.handoff")
    )
    left, right = frozenset(now), frozenset(later)
    return tuple(word for word in later if word not in left), tuple(
        word for word in now if word not in right
    )


def _zeroes_memory(reader: Reader, facts: Facts, arguments: tuple[str, ...], name: str) -> bool:
    """As the argument says, else as the kernel was built."""
    for one in reversed(arguments):
        if one.startswith(f"{name}="):
            return one.partition("=")[2].lower() in {"1", "y", "yes", "on", "t", "true"}
    release = facts.kernel.release
    for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        config = read_text(reader, path)
        if isinstance(config, str):
            return default_of(config, f"CONFIG_{name.upper()}_DEFAULT_ON")
    raise UnknownFact(f"/boot/config-{release} does not exist")
