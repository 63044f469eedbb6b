"""/etc/crypttab: the encrypted devices that a boot opens (crypttab(5), of systemd and of Debian's
cryptsetup).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import hint
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts

PATH = "/etc/crypttab"
MAPPER = "/dev/mapper/"
_NO_KEY = frozenset({"", "-", "none"})
_MOST = 4096  # lines


@frozen
class CryptLine:
    """One line: what is opened, under which name."""

    line: int  # from 1
    name: str  # below /dev/mapper
    source: str
    # an absolute path of a file; empty for none, for a device and for what a program makes
    key: str
    options: tuple[str, ...]
    argument: str = ""  # the third field as it is: what keyscript= is started with

    @property
    def keyscript(self) -> str:
        """The program that prints the key: an option of Debian's cryptsetup; empty for none."""
        found = [one.partition("=")[2] for one in self.options if one.startswith("keyscript=")]
        return found[-1] if found else ""

    @property
    def has_no_key(self) -> bool:
        """Whether the third field says that there is no key file."""
        return self.argument in _NO_KEY

    @property
    def is_at_boot(self) -> bool:
        """Whether a boot opens it by itself."""
        return "noauto" not in self.options

    @property
    def is_optional(self) -> bool:
        """Whether a boot does not wait for it."""
        return "nofail" in self.options


def crypt_lines(facts: Facts) -> tuple[CryptLine, ...]:
    """All of them; none where the file cannot be read."""
    return parse_crypttab(hint(facts.reader, PATH))


def parse_crypttab(content: str) -> tuple[CryptLine, ...]:
    """The lines that name a device, the first ones of many."""
    found = []
    for number, row in enumerate(content.split("\n"), 1):
        fields = row.split(None, 4)
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        options = tuple(filter(None, fields[3].split(","))) if len(fields) > 3 else ()
        key = fields[2] if len(fields) > 2 and fields[2] not in _NO_KEY else ""
        is_made = any(one.startswith("keyscript=") for one in options)
        # `KEY:DEVICE` names a key on another device (crypttab(5)), and a boot makes what is below
        # /run or /dev: that such a file is missing now proves nothing.
        is_file = (
            key.startswith("/")
            and ":" not in key
            and not key.startswith(("/dev/", "/run/", "/proc/", "/sys/"))
        )
        key = key if is_file and not is_made else ""
        found.append(
            CryptLine(
                number, fields[0], fields[1], key, options, fields[2] if len(fields) > 2 else ""
            )
        )
        if len(found) >= _MOST:
            break
    return tuple(found)
