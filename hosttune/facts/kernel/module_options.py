"""Options of kernel modules: what sets them at the next load, and what the loaded module has:
`module_options["nvidia-uvm.uvm_disable_hmm"]`.

modprobe reads the files of all its folders sorted by name, a name in /etc hides the same name
elsewhere, and of an option given twice the kernel keeps the last; the kernel command line
(module.key=value) comes after all files (modprobe.d(5)). What is in force is in
/sys/module/MODULE/parameters (kernel: Documentation/ABI/stable/ sysfs-module); nvidia shows its own
in /proc/driver/nvidia/params, where names lack the NVreg_ (nv-reg.h, nv-procfs.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared
from hosttune.facts.kernel.kernel import kernel_words
from hosttune.facts.lookups import Lookup
from hosttune.facts.placed import Placed
from hosttune.facts.reading import drop_in_texts, if_absent, is_there, read_line, read_text
from hosttune.facts.shell_words import shell_words
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.reading.effort import EFFORT
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hosttune.host.door import Reader

FOLDER = "/etc/modprobe.d"
_LONGEST_NUMBER = 32  # 64 bits have 22 octal digits
FOLDERS = (
    FOLDER,
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
NVIDIA_PARAMS = "/proc/driver/nvidia/params"
_NVIDIA_NAMES = {"NVreg_RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
_IDLE = ("false", "true", ":")  # programs that do nothing
_NAME = regex(r"([\w-]+)\.(\w+)")


@frozen
class OptionLine(Fact):
    """One option as a file of modprobe.d gives it."""

    module: str  # with _ for -
    key: str  # the option
    given: Placed


@frozen
class ModuleParameter(Fact):
    """One parameter of one module."""

    # all that set it, in the order in which they count, the kernel command line last
    settings: tuple[Placed, ...]
    arguments: tuple[Placed, ...]  # those of the kernel command line
    is_loaded: bool  # the kernel has the module
    is_built_in: bool  # into the running kernel, which reads no modprobe.d
    live: str  # what is in force; empty where the module is not loaded, or does not show it

    @property
    def set_by(self) -> str:
        """Which file sets it, and whether that is an administrator's decision; never unknown."""
        settings = attempt(lambda: self.arguments or self.settings)
        if isinstance(settings, Unreadable):
            return "it is not known which file sets it"
        return settings[-1].set_by("it") if settings else "no file of modprobe.d sets it"


@frozen
class ModuleOptions(Subject):
    """`module_options["MODULE.KEY"]`, for every name; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, ModuleParameter]:
        return Lookup(self._look)

    @fact
    def lines(self) -> tuple[OptionLine, ...]:
        """All of modprobe.d, in the order in which modprobe reads them."""
        return _parse_lines(self._texts)

    @fact
    def kept_out(self) -> Mapping[str, str]:
        """Module that no alias loads (blacklist, or install with a program that does nothing) ->
        the file with that.
        """
        return {
            name: path for path, content in reversed(self._texts) for name in kept_out_in(content)
        }

    @fact
    def _texts(self) -> tuple[tuple[str, str], ...]:
        return tuple(drop_in_texts(self.reader, FOLDERS))

    @fact
    def _words(self) -> tuple[str, ...]:
        return kernel_words(self.reader)

    @fact
    def _by_name(self) -> Mapping[tuple[str, str], Sequence[Placed]]:
        return _by_name(self.lines)

    @fact
    def _built_in(self) -> frozenset[str]:
        """The modules that are part of the running kernel."""
        release = (
            ""
            if self.reader.persistent_only
            else if_absent(read_line(self.reader, "/proc/sys/kernel/osrelease"), "")
        )
        rows = (
            if_absent(
                read_text(self.reader, f"/lib/modules/{release}/modules.builtin"), ""
            ).splitlines()
            if release
            else []
        )
        return frozenset(
            normalize_module(row.rpartition("/")[2].partition(".ko")[0]) for row in rows
        )

    def _look(self, name: str) -> ModuleParameter:
        named = make_shared(_split_name, name)
        return ModuleParameter(
            settings=lazy(lambda: _find_settings(self._words, *named(), self._by_name)),
            arguments=lazy(lambda: tuple(_arguments_of(self._words, ".".join(named())))),
            is_loaded=lazy(
                lambda: (
                    not self.reader.persistent_only
                    and is_there(self.reader, f"/sys/module/{normalize_module(named()[0])}")
                )
            ),
            is_built_in=lazy(lambda: normalize_module(named()[0]) in self._built_in),
            live=lazy(
                lambda: (
                    ""
                    if self.reader.persistent_only
                    else if_absent(live_value(self.reader, *named()), "")
                )
            ),
        )

    def __getitem__(self, name: str) -> ModuleParameter:
        return self.entries[name]

    @staticmethod
    def name_fault(name: str) -> tuple[str, str] | None:
        """What is wrong with a name as a rule writes it, and the way out."""
        if _NAME.fullmatch(name):
            return None
        return (
            f"{name!r} is no MODULE.KEY",
            'write it as module_options["nvidia-uvm.uvm_disable_hmm"]',
        )


def normalize_module(module: str) -> str:
    """A module's one name: - and _ mean the same."""
    return module.replace("-", "_")


def parse_options(content: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, module, key, value) of the `parse_options` lines of one file."""
    for start, words in _parse_commands(content):
        if words[:1] == ["options"] and len(words) > 2:
            yield from (
                (start, normalize_module(words[1]), *word.partition("=")[::2]) for word in words[2:]
            )


def kept_out_in(content: str) -> Iterator[str]:
    """The modules that one file keeps from being loaded for a device."""
    for _, words in _parse_commands(content):
        is_idle = (
            words[:1] == ["install"] and len(words) > 2 and words[2].rpartition("/")[2] in _IDLE
        )
        if is_idle or (words[:1] == ["blacklist"] and len(words) > 1):
            yield normalize_module(words[1])


def _parse_commands(content: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of one file as words, with their numbers; a backslash at the end continues a line,
    without a blank between the two (tried with modprobe of kmod 30).
    """
    whole, start = "", 0
    for number, row in enumerate(content.splitlines(), 1):
        start = start or number
        if row.endswith("\\"):
            whole += row[:-1]
            continue
        yield start, shell_words(whole + row)
        whole, start = "", 0
    # modprobe takes a last line that is not continued as it is.
    if whole:
        yield start, shell_words(whole)


def parse_params(content: str) -> Mapping[str, str]:
    """/proc/driver/nvidia/params: `Name: value` lines, texts in double quotes."""
    pairs = (row.partition(":") for row in content.splitlines())
    return {name.strip(): value.strip().strip('"') for name, colon, value in pairs if colon}


def same_value(spelled: str, live: str) -> bool:
    """Whether a value as it is written and as the module shows it are one: 0x1 and 1, 0660 and 432,
    1 and Y, yes and Y (kernel: lib/kstrtox.c).
    """
    if live in {"Y", "N"} and spelled.lower() in {"yes", "true", "on", "no", "false", "off"}:
        return (spelled.lower() in {"yes", "true", "on"}) is (live == "Y")
    known, other = parse_kernel_number(spelled), parse_kernel_number(live)
    if known is not None and other is not None:
        # -1 and 4294967295 are the same 32 bits, and a file and the module may each write one of
        # them.
        return known % (1 << 32) == other % (1 << 32)
    return spelled.strip('"') == live


def parse_kernel_number(spelled: str) -> int | None:
    """As the kernel's kstrtouint with base 0 reads it; Y and N are 1 and 0."""
    if spelled in {"Y", "y", "N", "n"}:
        return int(spelled in "Yy")
    if len(spelled) > _LONGEST_NUMBER:
        return None
    if re.fullmatch(r"-?0[xX][0-9a-fA-F]+", spelled):
        return int(spelled, 16)
    if re.fullmatch(r"0[0-7]+", spelled):
        return int(spelled, 8)
    return int(spelled) if re.fullmatch(r"0|-?[1-9]\d*", spelled) else None


def live_value(reader: Reader, module: str, key: str) -> str | Absent:
    """What a loaded module shows of a parameter."""
    value = read_line(reader, f"/sys/module/{normalize_module(module)}/parameters/{key}")
    if value is ABSENT and normalize_module(module) == "nvidia":
        params = read_text(reader, NVIDIA_PARAMS)
        name = _NVIDIA_NAMES.get(key, key.removeprefix("NVreg_"))
        return parse_params(params).get(name, ABSENT) if isinstance(params, str) else params
    return value


def _split_name(name: str) -> tuple[str, str]:
    """(module, key)."""
    if fault := ModuleOptions.name_fault(name):
        raise UnknownFact(fault[0])
    module, _, key = name.partition(".")
    return module, key


def _parse_lines(texts: Iterable[tuple[str, str]]) -> tuple[OptionLine, ...]:
    return tuple(
        OptionLine(module, key, Placed(value, path, start))
        for path, content in texts
        for start, module, key, value in parse_options(content)
    )


def _by_name(lines: Iterable[OptionLine]) -> Mapping[tuple[str, str], Sequence[Placed]]:
    """By module and key."""
    found: dict[tuple[str, str], list[Placed]] = {}
    for its in lines:
        found.setdefault((its.module, its.key), []).append(its.given)
    return found


def _find_settings(
    words: Iterable[str], module: str, key: str, by_name: Mapping[tuple[str, str], Sequence[Placed]]
) -> tuple[Placed, ...]:
    by_files = by_name.get((normalize_module(module), key), ())
    EFFORT.spent += len(by_files)  # a module has as many spellings as its name has dashes
    return (*by_files, *_arguments_of(words, f"{module}.{key}"))


def _arguments_of(words: Iterable[str], name: str) -> Iterator[Placed]:
    for word in words:
        argument, _, value = word.partition("=")
        if normalize_module(argument) == normalize_module(name):
            yield Placed(value, f"the kernel command line: {word}")
