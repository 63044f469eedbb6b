"""What apt-get would do, and how it is asked and run: argument lists and parsers (apt-get(8),
option -s).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact
from hosttune.facts.reading import hint
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

LOCK_WAIT_S: Final = 120  # another apt may work; unattended-upgrades is done in a minute or two
# a driver is some 400 MB, and its initramfs takes minutes on a slow disk
INSTALL_TIMEOUT_S: Final = 3600.0
LOOK_TIMEOUT_S: Final = 120.0

# a list for programs, of libraries; restarts nothing
NEEDRESTART: Final = ("needrestart", "-b", "-l", "-r", "l")
CACHE: Final = "/var/cache/apt/archives"
ARCHITECTURES: Final = "/var/lib/dpkg/arch"  # there once a foreign one was added
DPKG_STATUS: Final = "/var/lib/dpkg/status"

_COMMON = ("-y", "-q", "--no-install-recommends")
_CONFFILES = ("--force-confdef", "--force-confold")
_INSTALL = regex(r"Inst (\S+)(?: \[([^\]]+)\])? \((\S+)(?: ([^\[)]*?))?(?: \[[^\]]*\])?\)")
_REMOVE = regex(r"(?:Remv|Purg) (\S+)(?: \[([^\]]+)\])?")
_URI = regex(r"'[^']*' \S+ (\d{1,15})(?: \S*)?")
# apt-get 1.0 to 2.8, then apt 3 (apt-private/private-install.cc); a thousand is 1000 bytes
_GROWTH = regex(
    r"After this operation, ([0-9.,]{1,15}) ?([kMGT]?)B of additional disk space|"
    r"Space needed: ([0-9.,]{1,15}) ?([kMGT]?)B"
)
_VERSION_LINE = regex(r"(?: {5}| \*\*\* )(\S+)")
_SOURCE_LINE = regex(r" {6,}-?\d+ (\S.*)")
_DEPENDS = regex(r"Depends: (\S+)")
_DOWN = "Down "
_DOWNGRADED = "The following packages will be DOWNGRADED:"
_UNKNOWN_NAME = regex(
    r"Unable to locate package|has no installation candidate|Couldn't find any package"
)


@frozen
class PackageStep(Fact):
    """One package in a transaction; `before` is empty for a new one, `after` for one that is
    removed.
    """

    name: str  # of the package
    before: str  # the version that is installed; empty: none is
    after: str  # the version that is to be installed; empty: it is removed
    origin: str = ""  # where the new version comes from: Ubuntu:24.04/noble-updates


@frozen
class Transaction(Fact):
    """What apt-get would do, or why it would not (`error`, its own words).

    `old` says of each package that would be replaced or removed where its present version can be
    had: `archive`, `cache` (of downloaded packages) or `nowhere`; a name without an entry was not
    asked for.
    """

    steps: tuple[PackageStep, ...]  # what is installed, updated and removed, in apt's order
    download_bytes: int | None = None  # what apt would fetch; None where it does not say
    growth_bytes: int = (
        # how much more it takes on the disk afterwards, as apt says; 0 where it takes less, or apt
        # does not say
        0
    )
    error: str = ""  # what apt says where it refuses; empty otherwise
    downgraded: tuple[str, ...] = ()  # names of packages that get an older version
    # of those that would be replaced or removed: came along, as apt-mark(8)
    automatic: frozenset[str] = frozenset()
    # by name: where the version that is installed can be had
    old: Mapping[str, str] = field(default_factory=dict)
    # of an error: the packages that others depend on and that would not come
    unmet: tuple[str, ...] = ()

    @property
    def knows_no_such_package(self) -> bool:
        """Whether apt refuses because no archive has a package of such a name."""
        return _UNKNOWN_NAME.search(self.error) is not None

    @property
    def before(self) -> dict[str, str]:
        """Name -> old version, of what is updated or removed."""
        return {step.name: step.before for step in self.steps if step.before}

    @property
    def after(self) -> dict[str, str]:
        """Name -> new version, of what is installed or updated."""
        return {step.name: step.after for step in self.steps if step.after}

    @property
    def removed(self) -> tuple[PackageStep, ...]:
        """The steps that only remove."""
        return tuple(step for step in self.steps if not step.after)


def make_simulation(operands: Iterable[str]) -> tuple[str, ...]:
    """Says what `apt-get install` would do. An operand is NAME, NAME=VERSION, or NAME- to remove
    it.
    """
    return ("apt-get", "-s", *_COMMON, "--allow-downgrades", "install", *operands)


def make_download_list(operands: Iterable[str]) -> tuple[str, ...]:
    """Says what it would download, with sizes."""
    return ("apt-get", "--print-uris", *_COMMON, "install", *operands)


def make_installation(operands: Sequence[str], would: Transaction) -> tuple[str, ...]:
    """Does it: no questions, old configuration files stay, other package managers are waited for.
    `would` is what the same operands do in a simulation: where nothing is removed or replaced
    there, nothing may be here.
    """
    # The simulation and the run are two looks at lists that a timer may have renewed between them.
    # This makes apt refuse what the first did not show.
    guard = () if would.removed else ("--no-remove",)
    replaced = set(would.before) & set(would.after)
    # an old version that comes back by its exact name
    downgrade = ("--allow-downgrades",) if replaced else ()
    return ("apt-get", *_COMMON, *guard, *downgrade, *_make_options(), "install", *operands)


def _make_options() -> tuple[str, ...]:
    dpkg = (word for option in _CONFFILES for word in ("-o", f"Dpkg::Options::={option}"))
    return ("-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", *dpkg, "-o", "Dpkg::Use-Pty=0")


def make_configuration() -> tuple[str, ...]:
    """Configures all that dpkg left half-way: no questions, old configuration files stay
    (dpkg(1)).
    """
    return ("dpkg", *_CONFFILES, "--configure", "-a")


def repair(again: Sequence[str] = (), *, simulate: bool = False) -> tuple[str, ...]:
    """Installs, replaces or removes what is left in pieces: apt-get(8), option -f. Or installs
    these once more, for `-f` configures what depends on one that is to be reinstalled (dpkg(1),
    reinst-required) before it, and fails.
    """
    how = ("-s", *_COMMON) if simulate else (*_COMMON, *_make_options())
    return ("apt-get", *how, *(("--reinstall", "install", *again) if again else ("-f", "install")))


def check() -> tuple[str, ...]:
    """Waits until no other package manager is at work, and says what is broken; nothing is
    changed.
    """
    return ("apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", "check")


def is_locked(text: str) -> bool:
    """Whether apt-get gave up because another package manager held a lock for all of
    LOCK_WAIT_S.
    """
    return "Could not get lock" in text


def ask_policy(names: Iterable[str]) -> tuple[str, ...]:
    """Says from where each version of these packages can be had (apt-cache(8))."""
    return ("apt-cache", "policy", *names)


def make_automatic_question(names: Iterable[str]) -> tuple[str, ...]:
    """Says which of these packages came along with others (apt-mark(8))."""
    return ("apt-mark", "showauto", *names)


def make_download(folder: str, package: str) -> tuple[str, ...]:
    """Fetches the .deb of NAME=VERSION into a folder. apt tells where only by the folder it works
    in.
    """
    return ("env", "-C", folder, "apt-get", "-q", "download", package)


def mark_automatic(names: Iterable[str]) -> tuple[str, ...]:
    return ("apt-mark", "auto", *names)


def find_relevant_lines(stdout: str) -> tuple[str, ...]:
    """The lines of a simulation that say what would be done, and one `Down NAME` for each
    downgrade.
    """
    lines = []
    in_downgrades = False
    for line in stdout.splitlines():
        if line.startswith(("Inst ", "Remv ", "Purg ")):
            lines.append(line)
        in_downgrades = line == _DOWNGRADED or (in_downgrades and line.startswith(" "))
        if in_downgrades and line != _DOWNGRADED:
            lines += [f"{_DOWN}{name}" for name in line.split()]
    return tuple(lines)


def places_of(
    policies: str, cached: Iterable[str], before: Mapping[str, str], foreign: Collection[str] = ()
) -> dict[str, str]:
    """Where the versions of packages that would be replaced or removed can be had, as
    `Transaction.old` says it.

    `policies` is the answer of `ask_policy`, `cached` the names in the cache of apt, `list_foreign`
    the host's foreign architectures.
    """
    files: dict[str, list[str]] = {}
    for one in cached:
        files.setdefault(one[: one.rfind("_") + 1], []).append(one)
    offered = offered_versions(policies)
    places = {}
    for name, version in before.items():
        same = files.get(file_start(name, version), ())
        in_cache = any(is_file_of(one, name, version, foreign) for one in same)
        in_archive = version in offered.get(name, ())
        places[name] = "archive" if in_archive else "cache" if in_cache else "nowhere"
    return places


def offered_versions(policies: str) -> dict[str, tuple[str, ...]]:
    """The versions that an archive offers, by package, from `apt-cache policy`.

    Its table has a line per version (` *** ` before the installed one), each followed by deeper
    ones that name its sources, `PRIORITY URL...` or dpkg's own status file.
    """
    offered: dict[str, dict[str, None]] = {}
    name = version = ""
    for line in policies.splitlines():
        if line[:1].strip():
            name, version = line.rstrip(":"), ""
        elif match := _VERSION_LINE.match(line):
            version = match[1]
        elif (
            version and (match := _SOURCE_LINE.match(line)) and not match[1].startswith(DPKG_STATUS)
        ):
            offered.setdefault(name, {})[version] = None
    return {name: tuple(versions) for name, versions in offered.items()}


def file_start(name: str, version: str) -> str:
    """How the name of a downloaded .deb begins; the architecture follows (apt, pkgAcqArchive and
    QuoteString).
    """
    return f"{name.partition(':')[0]}_{version.replace('%', '%25').replace(':', '%3a')}_"


def is_file_of(file: str, name: str, version: str, foreign: Collection[str]) -> bool:
    """Whether a downloaded .deb, by its name, is this one: a package of a foreign architecture is
    called NAME:ARCH, and one without is native, or for all.
    """
    start = file_start(name, version)
    architecture, _, suffix = file.removeprefix(start).partition(".")
    wanted = name.partition(":")[2]
    fits = architecture == wanted if wanted else architecture not in foreign
    return file.startswith(start) and suffix == "deb" and fits


def list_foreign(reader: Reader) -> tuple[str, ...]:
    """The foreign architectures of this host: ARCHITECTURES names the native one first."""
    return tuple(hint(reader, ARCHITECTURES).split()[1:])


def parse_restarts(needrestart: str) -> tuple[str, ...]:
    """The units that use files which were replaced, from `needrestart -b -r l` (its
    README.batch).
    """
    mark = "NEEDRESTART-SVC:"
    lines = needrestart.splitlines()
    return tuple(
        sorted({line.removeprefix(mark).strip() for line in lines if line.startswith(mark)})
    )


def parse_errors(stderr: str, status: int) -> tuple[str, ...]:
    """The errors of a run that failed, one at least."""
    lines = tuple(line for line in stderr.splitlines() if line.startswith("E: "))
    return lines or (f"E: apt-get ended with status {status}",)


def download_bytes(print_uris: str) -> int:
    """The sum of the sizes which `--print-uris` names."""
    rows = (_URI.fullmatch(line.strip()) for line in print_uris.splitlines())
    return sum(int(match[1]) for match in rows if match)


def growth_bytes(print_uris: str) -> int:
    """How much more space the packages take afterwards, as the same answer says; 0 for less."""
    match = _GROWTH.search(print_uris)
    if match is None:
        return 0
    number, unit = match[1] or match[3], match[2] if match[1] else match[4]
    try:
        amount = float(number.replace(",", ""))
    except ValueError:  # 1.2.3
        return 0
    return int(amount * 1000 ** " kMGT".index(unit or " "))


def parse_unmet(stdout: str) -> tuple[str, ...]:
    """The packages that apt-get names as what others depend on, where it gives up."""
    return tuple(dict.fromkeys(match[1].partition(":")[0] for match in _DEPENDS.finditer(stdout)))


def parse(lines: Iterable[str]) -> Transaction:
    """A transaction from the lines that `find_relevant_lines` and `parse_errors` keep; others are
    passed over.
    """
    steps: dict[str, PackageStep] = {}
    errors, down = [], []
    for line in lines:
        if match := _INSTALL.match(line):
            steps[match[1]] = PackageStep(
                match[1], match[2] or "", match[3], (match[4] or "").strip()
            )
        elif match := _REMOVE.match(line):
            steps[match[1]] = PackageStep(match[1], match[2] or "", "")
        elif line.startswith("E: "):
            errors.append(line.removeprefix("E: "))
        elif line.startswith(_DOWN):
            down.append(line.removeprefix(_DOWN))
    ordered = tuple(steps[name] for name in sorted(steps))
    return Transaction(ordered, error="; ".join(errors), downgraded=tuple(down))


def get_upstream(version: str) -> str:
    """The upstream part of a Debian version: 580.95.05 of 1:580.95.05-0ubuntu0.24.04.2
    (deb-version(7)).
    """
    return version.rpartition(":")[2].rpartition("-")[0] or version.rpartition(":")[2]


def describe(would: Transaction) -> tuple[str, ...]:
    """A transaction for people: the packages of one version on one line, then what is removed and
    the size of the download.
    """
    lines = list(
        join_equal((step.name, *_describe_step(step)) for step in would.steps if step.after)
    )
    removed = list(join_equal((step.name, "remove", step.before) for step in would.removed))
    lines += removed or ["removes nothing"] * bool(lines)
    if would.download_bytes is not None:
        lines.append(f"download: {would.download_bytes / 1e6:.1f} MB")
    return tuple(lines)


def _describe_step(step: PackageStep) -> tuple[str, str]:
    versions = f"{step.before} -> {step.after}" if step.before else step.after
    return (
        "upgrade" if step.before else "install",
        f"{versions} from {step.origin}" if step.origin else versions,
    )


def join_equal(acts: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Acts of (package, verb, versions) for people: `install a 1`, and `install 2 packages, 1: a,
    b` for several of one version, where the first of them is.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for name, verb, versions in acts:
        alike.setdefault((verb, versions), []).append(name)
    for (verb, versions), names in alike.items():
        one = f"{verb} {names[0]} {versions}"
        yield (
            one
            if len(names) == 1
            else f"{verb} {len(names)} packages, {versions}: {', '.join(names)}"
        )
