"""What sshd_config says of sessions: whether PAM opens them, without which pam_limits and pam_env set nothing there.

The first value of a key counts, Include reads the files that it names, sorted, and what follows a Match holds
for some connections only, to the end of that file (sshd_config(5); openssh-portable: servconf.c). UsePAM is `no`
unless a file says otherwise; the sshd_config of Debian and Ubuntu says yes.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, shared
from hosttune.facts.globs import fits_glob
from hosttune.facts.placed import Placed
from hosttune.facts.reading import if_absent, is_there, names_in, text
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

CONFIG = "/etc/ssh/sshd_config"
_MOST_FILES = 256
_DEEPEST = 16  # SERVCONF_MAX_DEPTH of servconf.c


@frozen
class Sshd(Fact):
    """The server of OpenSSH."""

    is_installed: bool  # its configuration is there
    uses_pam: bool
    pam_place: str  # FILE:LINE that says so; empty for the default


def collect(reader: Reader, facts: Facts) -> Sshd:  # noqa: ARG001 - the interface of all subjects
    found = shared(lambda: next((one for key, one in _read_settings(reader, CONFIG, [], 0) if key == "usepam"), None))
    return Sshd(
        is_installed=lazy(is_there, reader, CONFIG),
        uses_pam=lazy(lambda: (one := found()) is not None and one.value.lower() == "yes"),
        pam_place=lazy(lambda: one.place if (one := found()) else ""),
    )


def _read_settings(reader: Reader, path: str, seen: list[str], depth: int) -> Iterator[tuple[str, Placed]]:
    """(key in lower case, value) of all that holds for every connection, in the order in which sshd reads it."""
    seen.append(path)
    for number, row in enumerate(if_absent(text(reader, path), "").splitlines(), 1):
        words = row.replace("=", " ", 1).split()
        if not words or words[0].startswith("#"):
            continue
        key = words[0].lower()
        if key == "match":
            return
        if key == "include" and depth < _DEEPEST:
            for pattern in words[1:]:
                for file in _list_included(reader, pattern.strip('"')):
                    if len(seen) < _MOST_FILES:
                        yield from _read_settings(reader, file, seen, depth + 1)
        else:
            yield key, Placed(words[1].strip('"') if len(words) > 1 else "", path, number)


def _list_included(reader: Reader, pattern: str) -> tuple[str, ...]:
    """The files that an Include names: below /etc/ssh unless it says otherwise."""
    folder, _, name = posixpath.join("/etc/ssh", pattern).rpartition("/")
    return tuple(f"{folder}/{one}" for one in names_in(reader, folder) if fits_glob(one, name))
