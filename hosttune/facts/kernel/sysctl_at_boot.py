"""What sets a sysctl at the next boot, and to which value:
`sysctl_at_boot["kernel.core_pattern"].text`.

systemd-sysctl(8) reads every sysctl.d folder as one list sorted by file name (sysctl.d(5)); the
last assignment wins, and a file in /etc hides one of the same name in /run and /usr/lib.
systemd-sysctl never reads /etc/sysctl.conf by itself: it counts only where a link such as
99-sysctl.conf leads to it. Debian 13 and Ubuntu 26.04 have no such link any more (Debian's release
notes for trixie, "/etc/sysctl.conf is no longer honored"), while `sysctl --system` and `sysctl -p`
of procps still read it, the first of them last of all (sysctl(8)): so its values are in force until
the next boot. A key with wildcards sets what no file names itself, wherever it is; `-key` without a
value keeps them off a key. The kernel command line sets what no file does; TuneD and commands of
units come later (`managers`, `commands`).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.kernel.kernel import kernel_words
from hosttune.facts.kernel.sysctl import Sysctl, normal_key, proc_path
from hosttune.facts.lookups import Lookup, fits_parts, whole_number
from hosttune.facts.placed import Placed
from hosttune.facts.reading import drop_in_texts, drop_ins, if_absent, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.overlay.twins import TWINS
from hosttune.host.reading.effort import EFFORT
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

FOLDERS = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
CONF = "/etc/sysctl.conf"
# Arguments of single values (kernel-parameters.txt); others are sysctl.KEY=VALUE.
_WORDS = {
    "numa_balancing=disable": ("kernel.numa_balancing", "0"),
    "numa_balancing=enable": ("kernel.numa_balancing", "1"),
}
_REAPPLIED = ("/etc/", "/run/")
_OFF = regex(r"(?m)^[ \t]*reapply_sysctl[ \t]*=[ \t]*(?:0|[Ff]alse)\b")
_MOST_PATTERNS = 256  # each is held against each key
_ASSIGNMENT = regex(r"\s*(?:-\s*)?([^=\s#;]+)\s*=\s*((?:\S(?:.*\S)?)?)\s*")
_WILD = frozenset("*?[")  # a key with one means several: they do not reach over a dot (glob(7))
_EXCLUSION = regex(r"\s*-\s*([^=\s#;]+)\s*")
_Line = tuple[str, "Placed | None"]  # key, its value; None for a key kept from wildcards


@frozen
class BootSetting(Fact):
    """One key at the next boot. A value in the other spelling of the key reads
    `vm.dirty_ratio=40`.
    """

    name: str  # the key, with dots
    settings: tuple[Placed, ...]  # all that set it, in their order, so that the last one counts
    unread: tuple[Placed, ...] = ()  # what /etc/sysctl.conf says where nothing reads it at boot

    @property
    def is_set(self) -> bool:
        """Whether a file, or the kernel command line, sets it; else the kernel chooses it, or a
        program.
        """
        return bool(self.settings)

    @property
    def last(self) -> Placed:
        """The setting that counts; unknown where nothing sets it."""
        if not self.settings:
            raise UnknownFact(f"no file sets {self.name} at boot")
        return self.settings[-1]

    @property
    def text(self) -> str:
        """The value, single blanks in it; unknown where nothing sets it."""
        return self.last.value

    @property
    def number(self) -> int:
        """The value as a whole number."""
        return whole_number(self.name, self.text)

    @property
    def set_by(self) -> str:
        """Which file sets it, and whether that is an administrator's decision, as a sentence; never
        unknown.
        """
        try:
            last = self.settings[-1] if self.settings else None
        except UnknownFact:
            return f"it is not known which file sets {self.name} at boot"
        return last.set_by("it") if last else f"no file sets {self.name} at boot"

    @property
    def place(self) -> str:
        """FILE:LINE that counts."""
        return self.last.place


@frozen
class SysctlAtBoot(Subject):
    """`sysctl_at_boot["vm.swappiness"]`, for every key; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, BootSetting]:
        return Lookup(self._look)

    @fact
    def keys(self) -> tuple[str, ...]:
        """All that a file sets by its name, sorted."""
        return tuple(sorted({key for key, value in self._lines if value and _WILD.isdisjoint(key)}))

    # by key, what /etc/sysctl.conf says where nothing reads it at boot
    unread: Mapping[str, Placed] = read_with(lambda self: _find_unread(self.reader, self.facts))

    @fact
    def _lines(self) -> tuple[_Line, ...]:
        return _read_lines(self.reader, self.facts)

    @fact
    def _index(self) -> _Index:
        return _Index(self.reader, self._lines)

    def _look(self, key: str) -> BootSetting:
        return BootSetting(
            key,
            lazy(_find_settings, key, lambda: self._index),
            lazy(lambda: tuple(filter(None, (self.unread.get(key),)))),
        )

    def __getitem__(self, key: str) -> BootSetting:
        return self.entries[key]

    @staticmethod
    def name_fault(key: str) -> tuple[str, str] | None:
        """What is wrong with a key as a rule writes it, and the way out."""
        return Sysctl.name_fault(key)


def parse_assignments(content: str) -> Iterator[tuple[int, str, str | None]]:
    """The lines of one sysctl.d file: (line, key, value with single blanks; None for a key kept
    from wildcards).
    """
    for number, row in enumerate(content.splitlines(), 1):
        if match := _ASSIGNMENT.fullmatch(row):
            yield number, normal_key(match[1]), " ".join(match[2].split())
        elif match := _EXCLUSION.fullmatch(row):
            yield number, normal_key(match[1]), None


def _find_unread(reader: Reader, facts: Facts) -> Mapping[str, Placed]:
    """What /etc/sysctl.conf says, unless something reads it at boot: a link in a folder of
    sysctl.d, a command, or TuneD after its own values (reapply_sysctl). Without systemd, procps
    reads it (Debian's /etc/init.d/procps).
    """
    content = if_absent(read_text(reader, CONF), "")
    found = {
        key: Placed(value, CONF, line)
        for line, key, value in parse_assignments(content)
        if value is not None
    }
    if not found or not facts.host.has_systemd:
        return {}
    if any(reader.resolve(path) == CONF for path in drop_ins(reader, FOLDERS)):
        return {}
    if facts.commands.sysctl_conf_loader or has_reapplied(reader, facts):
        return {}
    return found


def has_reapplied(reader: Reader, facts: Facts) -> bool:
    """Whether TuneD sets anew what /run/sysctl.d, /etc/sysctl.d and then /etc/sysctl.conf say,
    after its own values and so after all files of packages (reapply_sysctl of tuned-main.conf(5),
    which is on by default).
    """
    main = read_text(reader, "/etc/tuned/tuned-main.conf")  # which its package brings
    if not isinstance(main, str) or _OFF.search(main):
        return False
    return facts.managers.tuned_at_boot and bool(facts.managers.tuned_sysctls)


def _read_lines(reader: Reader, facts: Facts) -> tuple[_Line, ...]:
    """Of all files, in the order of boot."""
    files = [*drop_in_texts(reader, FOLDERS)]
    # Only a certain yes changes the order: TuneD sets its values after systemd-sysctl, and the
    # files of packages then no longer have the last word.
    if attempt(has_reapplied, reader, facts) is True:
        files.sort(key=lambda one: one[0].startswith(_REAPPLIED))
        files.append((CONF, if_absent(read_text(reader, CONF), "")))
    return tuple(
        (key, None if value is None else Placed(value, path, number))
        for path, content in files
        for number, key, value in parse_assignments(content)
    )


class _Index:
    """The lines of all files by key, and the words of the kernel command line: rules ask for
    thousands of keys.
    """

    def __init__(self, reader: Reader, lines: tuple[_Line, ...]) -> None:
        self.named: dict[str, list[tuple[int, Placed | None]]] = {}
        self.patterns: list[tuple[list[str], Placed]] = []
        for place, (key, value) in enumerate(lines):
            self.named.setdefault(key, []).append((place, value))
            if value is not None and not _WILD.isdisjoint(key):
                self.patterns.append((proc_path(key).split("/"), value))
        if len(self.patterns) > _MOST_PATTERNS:
            raise UnknownFact(
                f"the files of sysctl.d have more than {_MOST_PATTERNS} keys with wildcards"
            )
        # what the command line sets before any file does
        self.arguments: dict[str, list[Placed]] = {}
        for word in kernel_words(reader):
            argument, equals, given = word.partition("=")
            is_sysctl = equals and argument.startswith("sysctl.")
            key, meant = (
                (normal_key(argument[7:]), given) if is_sysctl else _WORDS.get(word, ("", ""))
            )
            if key:
                self.arguments.setdefault(key, []).append(
                    Placed(meant, f"the kernel command line: {word}")
                )


def _find_settings(name: str, index: Callable[[], _Index]) -> tuple[Placed, ...]:
    if fault := SysctlAtBoot.name_fault(name):
        raise UnknownFact(fault[0])
    found, twin = index(), TWINS.get(name, "")
    named: list[Placed] = []
    is_excluded = False
    own = [(place, name, value) for place, value in found.named.get(name, ())]
    own += [(place, twin, value) for place, value in found.named.get(twin, ())] if twin else []
    for _, key, value in sorted(own, key=itemgetter(0)):
        is_excluded = is_excluded or value is None
        if value is not None:
            named.append(
                value if key == name else Placed(f"{twin}={value.value}", value.path, value.line)
            )
    EFFORT.spent += len(own) + len(found.patterns)
    by_pattern: list[Placed] = []
    # A key with wildcards yields to every file that names the key itself, also to an earlier one
    # (sysctl.d(5)).
    if not named and not is_excluded and found.patterns:
        parts = proc_path(name).split("/")
        by_pattern = [value for pattern, value in found.patterns if fits_parts(parts, pattern)]
    return (*found.arguments.get(name, ()), *(named or by_pattern))
