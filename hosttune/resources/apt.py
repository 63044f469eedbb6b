"""What apt-get would do, and how it is asked and told to: argument lists and parsers (apt-get(8), option -s)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hosttune.frozen import frozen

LOCK_WAIT_S: Final = 120  # another apt may work; unattended-upgrades is done in a minute or two
INSTALL_TIMEOUT_S: Final = 3600.0  # a driver is some 400 MB, and its initramfs takes minutes on a slow disk
LOOK_TIMEOUT_S: Final = 120.0

_COMMON = ("-y", "-q", "--no-install-recommends")
_INSTALL = re.compile(r"Inst (\S+)(?: \[([^\]]+)\])? \((\S+)(?: ([^\[)]*?))?(?: \[[^\]]*\])?\)")
_REMOVE = re.compile(r"(?:Remv|Purg) (\S+)(?: \[([^\]]+)\])?")
_URI = re.compile(r"'[^']*' \S+ (\d+)(?: \S*)?")
_DOWNLOAD = "Download "
_UNKNOWN_NAME = re.compile(r"Unable to locate package|has no installation candidate|Couldn't find any package")


@frozen
class Step:
    """One package in a transaction; `before` is empty for a new one, `after` for one that is removed."""

    name: str
    before: str
    after: str
    origin: str = ""  # where the new version comes from: Ubuntu:24.04/noble-updates


@frozen
class Transaction:
    """What apt-get said that it would do, or why it would not (`error`, its own words)."""

    steps: tuple[Step, ...]
    download_bytes: int | None = None
    error: str = ""

    @property
    def knows_no_such_package(self) -> bool:
        return _UNKNOWN_NAME.search(self.error) is not None

    @property
    def before(self) -> dict[str, str]:
        return {step.name: step.before for step in self.steps if step.before}

    @property
    def after(self) -> dict[str, str]:
        return {step.name: step.after for step in self.steps if step.after}

    @property
    def removed(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.after)


def simulation(operands: Iterable[str]) -> tuple[str, ...]:
    """Says what `apt-get install` would do. An operand is NAME, NAME=VERSION, or NAME- to remove it."""
    return ("apt-get", "-s", *_COMMON, "--allow-downgrades", "install", *operands)


def downloads(operands: Iterable[str]) -> tuple[str, ...]:
    """Says what it would download, with sizes."""
    return ("apt-get", "--print-uris", *_COMMON, "install", *operands)


def installation(operands: Sequence[str]) -> tuple[str, ...]:
    """Does it: no questions, old configuration files stay, other package managers are waited for, and nothing is
    removed that is not named."""
    options = (
        "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", "-o", "Dpkg::Options::=--force-confdef",
        "-o", "Dpkg::Options::=--force-confold", "-o", "Dpkg::Use-Pty=0",
    )  # fmt: skip
    guard = () if any(word.endswith("-") for word in operands) else ("--no-remove",)
    downgrade = ("--allow-downgrades",) if guard == () else ()
    return ("apt-get", *_COMMON, *guard, *downgrade, *options, "install", *operands)


def relevant(stdout: str) -> tuple[str, ...]:
    """The lines of a simulation that say what would be done."""
    return tuple(line for line in stdout.splitlines() if line.startswith(("Inst ", "Remv ", "Purg ")))


def errors(stderr: str, status: int) -> tuple[str, ...]:
    """The errors of a run that failed, one at least."""
    said = tuple(line for line in stderr.splitlines() if line.startswith("E: "))
    return said or (f"E: apt-get ended with status {status}",)


def download_line(print_uris: str) -> str:
    """One line that keeps the sum of the sizes which `--print-uris` names."""
    sizes = [int(match[1]) for line in print_uris.splitlines() if (match := _URI.fullmatch(line.strip()))]
    return f"{_DOWNLOAD}{sum(sizes)}"


def parse(lines: Iterable[str]) -> Transaction:
    """A transaction from the lines that `relevant`, `errors` and `download_line` keep; others are passed over."""
    steps: dict[str, Step] = {}
    size = None
    said = []
    for line in lines:
        if match := _INSTALL.match(line):
            steps[match[1]] = Step(match[1], match[2] or "", match[3], (match[4] or "").strip())
        elif match := _REMOVE.match(line):
            steps[match[1]] = Step(match[1], match[2] or "", "")
        elif line.startswith(_DOWNLOAD):
            size = int(line.removeprefix(_DOWNLOAD))
        elif line.startswith("E: "):
            said.append(line.removeprefix("E: "))
    return Transaction(tuple(steps[name] for name in sorted(steps)), size, "; ".join(said))


def upstream(version: str) -> str:
    """The upstream part of a Debian version: 580.95.05 of 1:580.95.05-0ubuntu0.24.04.2 (deb-version(7))."""
    return version.rpartition(":")[2].rpartition("-")[0] or version.rpartition(":")[2]


def describe(would: Transaction) -> tuple[str, ...]:
    """A transaction for people: one line per package, then what is removed and the size of the download."""
    lines = [_described(step) for step in would.steps if step.after]
    lines += [f"remove {step.name} {step.before}" for step in would.removed] or ["removes nothing"] * bool(lines)
    if would.download_bytes is not None:
        lines.append(f"download: {would.download_bytes / 1e6:.1f} MB")
    return tuple(lines)


def _described(step: Step) -> str:
    act = f"upgrade {step.name} {step.before} -> {step.after}" if step.before else f"install {step.name} {step.after}"
    return f"{act} from {step.origin}" if step.origin else act
