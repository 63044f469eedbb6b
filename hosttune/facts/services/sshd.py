"""What sshd_config says of sessions: whether PAM opens them, without which pam_limits and pam_env
set nothing there.

The first value of a key counts, Include reads the files that it names, sorted, and what follows a
Match holds for some connections only, to the end of that file (sshd_config(5); openssh-portable:
servconf.c). UsePAM is `no` unless a file says otherwise; the sshd_config of Debian and Ubuntu says
yes.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.placed import Placed
from hosttune.facts.reading import if_absent, is_there, names_in, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

CONFIG = "/etc/ssh/sshd_config"
_MOST = 256  # files, and patterns of Include
_MOST_NAMES = 65_536  # that patterns are held against: for each of them a folder is gone through


@frozen
class Sshd(Subject):
    """The server of OpenSSH."""

    # its configuration is there
    is_installed: bool = read_with(lambda self: is_there(self.reader, CONFIG))

    @fact
    def uses_pam(self) -> bool:
        """UsePAM yes: limits of pam_limits(8) reach logins by ssh."""
        return (one := self._found) is not None and one.value.lower() == "yes"

    @fact
    def pam_place(self) -> str:
        """FILE:LINE that says so; empty for the default."""
        return one.place if (one := self._found) else ""

    @fact
    def _found(self) -> Placed | None:
        rows = _read_settings(self.reader, CONFIG, _Includes())
        return next((one for key, one in rows if key == "usepam"), None)


class _Includes:
    """What was included so far. A file is read once: the first value counts, so a second time it
    has nothing to say.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._patterns = 0
        self._names = 0

    def require_few(self, names: int = 0) -> None:
        """Called with the number of names of each pattern, and after each file."""
        self._patterns += bool(names)
        self._names += names
        if max(len(self.files), self._patterns) > _MOST or self._names > _MOST_NAMES:
            raise UnknownFact(f"{CONFIG} includes more files than are read")


def _read_settings(reader: Reader, path: str, seen: _Includes) -> Iterator[tuple[str, Placed]]:
    """(key in lower case, value) of all that holds for every connection, in the order in which sshd
    reads it.
    """
    seen.files.add(path)
    for number, row in enumerate(if_absent(read_text(reader, path), "").splitlines(), 1):
        words = row.replace("=", " ", 1).split()
        if not words or words[0].startswith("#"):
            continue
        key = words[0].lower()
        # What follows holds for some connections only, and a limit of all sessions must not be
        # judged by it.
        if key == "match":
            return
        if key == "include":
            for pattern in words[1:]:
                for file in _list_included(reader, pattern.strip('"'), seen):
                    # A file that includes itself would go on without end.
                    if file not in seen.files:
                        yield from _read_settings(reader, file, seen)
                        seen.require_few()
        else:
            yield key, Placed(words[1].strip('"') if len(words) > 1 else "", path, number)


def _list_included(reader: Reader, pattern: str, seen: _Includes) -> tuple[str, ...]:
    """The files that an Include names: below /etc/ssh unless it says otherwise."""
    folder, _, name = posixpath.join("/etc/ssh", pattern).rpartition("/")
    names = names_in(reader, folder)
    seen.require_few(max(len(names), 1))
    return tuple(f"{folder}/{one}" for one in names if fits_glob(one, name))
