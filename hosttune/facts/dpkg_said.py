"""What dpkg printed of a package that it could not bring to its end, in the log of apt; pure.

apt writes there what dpkg and the scripts of packages print (apt.conf(5), Dir::Log::Terminal). The
sentences are those of dpkg (src/main/errors.c, archives.c and script.c). A dpkg that a person
started is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hosttune.regex import regex

TERM_LOG: Final = "/var/log/apt/term.log"
_ERROR = regex(r"dpkg: error processing (?:package|archive) (\S{1,300}) \(--[a-z-]{1,20}\):")
_STEP = regex(r"(?:Setting up|Unpacking|Preparing to unpack|Removing) (\S{1,300}) ")
_BEGIN = "Setting up "
_SCRIPT = " script subprocess "
_FOLLOWS = "dependency problems"  # another package is the cause
_WRAPS = ("run-parts: ", "dkms: autoinstall")  # they only say that what they called failed
# What apt's progress bar and coloured programs write between words.
_CONTROL = regex(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|[78])")
_LONGEST = 200  # characters of a line


def parse_said(log: str) -> Mapping[str, str]:
    """By package the last line of its script, or dpkg's own sentence; not for what was set up
    since."""
    found: dict[str, str] = {}
    for start, last, name, reason in _list_errors(log):
        # A later `Setting up` of the package without an error: what the log says of it before is
        # over.
        if start.startswith(_BEGIN) and not name:
            found.pop(_name_in(start.split()[2]), None)
        elif name and not reason.startswith(_FOLLOWS):
            found[name] = (last if _SCRIPT in reason and last else reason)[:_LONGEST]
    return found


def shorten_log(log: str) -> str:
    """The lines of which `parse_said` makes the same: the rest is long, and of packages that are
    whole."""
    lines: list[str] = []
    failed = set[str]()
    for start, last, name, reason in _list_errors(log):
        if name:
            failed.add(name)
            lines += [
                start,
                last,
                f"dpkg: error processing package {name} (--configure):",
                f" {reason}",
            ]
        elif start.startswith(_BEGIN) and _name_in(start.split()[2]) in failed:
            lines.append(start)
    return "".join(f"{line}\n" for line in lines if line)


def _list_errors(log: str) -> Iterator[tuple[str, str, str, str]]:
    """(The line that begins a step, the last line of its script, the package, the reason) of each
    error; of each step without one the first only."""
    start = last = name = ""
    # apt runs dpkg on a terminal, so that lines end with a carriage return, too.
    for line in filter(str.strip, _CONTROL.sub("", log).replace("\r", "\n").splitlines()):
        if name:
            yield start, last, name, line.strip()
            start = last = name = ""
        elif match := _ERROR.match(line):
            name = _name_in(match[1])
        elif _STEP.match(line):
            if start:
                yield start, "", "", ""
            start, last = line[:_LONGEST], ""
        elif not line.startswith(_WRAPS):
            last = line.strip()[:_LONGEST]
    if start and not name:
        yield start, "", "", ""


def _name_in(word: str) -> str:
    """libc6 of libc6:amd64, and of /var/cache/apt/archives/libc6_2.39-0ubuntu8_amd64.deb."""
    return word.rpartition("/")[2].partition("_")[0].partition(":")[0]
