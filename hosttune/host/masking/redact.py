"""What a record says of who and where: serial numbers always, names and addresses in one that is
shared.

The same thing gets the same word wherever it is, so a record stays consistent. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from hosttune.host.masking.secrets import is_serial_file, mask_text
from hosttune.numbers import parse_digits
from hosttune.regex import regex

# Names that many machines have say nothing of one, and stand for other things in configuration
# (`vm.swappiness`).
_GENERIC: Final = frozenset({
    "localhost", "ubuntu", "debian", "linux", "server", "node", "host", "worker", "master", "login",
    "head", "compute", "gpu", "nvidia", "dgx", "cuda", "kernel", "net", "data", "root", "user",
    "admin", "test", "default", "system",
})  # fmt: skip
_BLANK_SERIAL = regex(
    r"(?i)[0. _-]*|none|n/a|default string|not specified|unknown|to be filled.*|system serial.*"
)
_WORLD_WIDE = regex(r"^(?:eui|naa|nvme|t10|uuid)\.")
_MAC = regex(
    r"(?<![\w:.-])(?:[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,19}"
    r"|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:.-])|(?<=enx)[0-9a-f]{12}\b|(?<=wlx)[0-9a-f]{12}\b",
    re.IGNORECASE,  # 20 bytes, or four words (a GUID): InfiniBand
)
# Versions have letters around them, a revision behind (1.2.3.4-1) or an epoch before them
# (1:2.3.4.5).
_IPV4 = regex(
    r"(?<![\w.~+-])(?<![^\d.]\d:)(?<!^\d:)(?:\d{1,3}\.){3}\d{1,3}(?:-(?:\d{1,3}\.){3}\d{1,3})?"
    r"(?![\w~+-]|\.\w)",
    re.MULTILINE,
)
_IPV6 = regex(r"(?<![\w:.-])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:.-])", re.IGNORECASE)
_URL_HOST = regex(r"(?:(?<=://)|(?<=\(masked\)@))[a-z](?:[\w.-]*\w)?", re.IGNORECASE)
# `host:/path`, `user@host:/path` and `//host/share` of network file systems, and registries that
# containerd names
_SERVER = regex(
    r"(?<![\w./:-])[a-z][\w.-]*(?=:/(?!/))|(?:(?<=^//)|(?<=[\s\"'=,]//))[a-z][\w.-]*(?=/)|"
    r"(?:(?<=registry\.configs\.[\"'])|(?<=registry\.mirrors\.[\"']))[a-z][\w.-]*",
    re.IGNORECASE | re.MULTILINE,
)
# The archives and manuals that any host may name.
_PUBLIC: Final = (
    ".ubuntu.com", ".canonical.com", ".launchpad.net", ".launchpadcontent.net", ".debian.org",
    ".nvidia.com", ".nvidia.github.io", ".github.com", ".docker.com", ".freedesktop.org",
    ".kernel.org", ".systemd.io", ".gnu.org", ".man7.org", ".python.org", ".wikipedia.org",
    ".readthedocs.io", ".snapcraft.io", ".kubernetes.io", ".k8s.io", ".mozilla.org", ".apache.org",
    ".redhat.com",
)  # fmt: skip
# What is before `:/` and is no server, besides what was replaced already.
_NO_SERVER = regex(r"localhost|file|unix|systemd|host|serial\d+", re.IGNORECASE)


class Redactor:
    """Replaces what it was given; see `find_serials`, `find_people` and `find_places` for what they
    find.
    """

    def __init__(self, words: Mapping[str, str], *, share: bool) -> None:
        self.share = share
        self._words = dict(words)
        # The longest first: an alternative that is the beginning of another one would match before
        # it, and leave the rest readable.
        exact = sorted(
            (text for text in words if words[text].startswith("serial")), key=len, reverse=True
        )
        named = sorted(
            (text for text in words if not words[text].startswith("serial")), key=len, reverse=True
        )
        self._exact = re.compile("|".join(map(re.escape, exact)), re.IGNORECASE) if exact else None
        self._named = _make_alternatives(named)
        self._lower = {text.lower(): word for text, word in words.items()}
        self._addresses: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def text(self, text: str, *, has_addresses: bool = True) -> str:
        """Any text of a host. Versions of packages look like addresses: has_addresses=False leaves
        them.
        """
        return self.name(mask_text(text), has_addresses=has_addresses)

    def name(self, text: str, *, has_addresses: bool = True) -> str:
        """A path or the name of a file: as `text`, without looking for passwords."""
        if self._exact:
            text = self._exact.sub(lambda found: self._lower[found[0].lower()], text)
        if self.share:
            if self._named:
                text = self._named.sub(lambda found: self._lower[found[0].lower()], text)
            text = _MAC.sub(lambda found: self._address(found[0], "mac"), text)
            text = _URL_HOST.sub(self._url_host, text)
            text = _SERVER.sub(self._server, text)
            if has_addresses:
                text = _IPV4.sub(lambda found: "-".join(map(self._ip, found[0].split("-"))), text)
                text = _IPV6.sub(lambda found: self._ip(found[0]), text)
        return text

    def user(self, user: str) -> str:
        """The name of a user; those of the system are the same everywhere."""
        return self._words.get(user, user)

    def _url_host(self, found: re.Match[str]) -> str:
        return found[0] if f".{found[0].lower()}".endswith(_PUBLIC) else self._server(found)

    def _server(self, found: re.Match[str]) -> str:
        return found[0] if _NO_SERVER.fullmatch(found[0]) else self._address(found[0], "server")

    def _ip(self, text: str) -> str:
        try:
            address = ip_address(text)
        except ValueError:
            return text
        # These and the masks of networks are the same on every host.
        if address.is_loopback or address.is_unspecified or text.startswith("255."):
            return text
        return self._address(text, "address")

    def _address(self, text: str, kind: str) -> str:
        key = text.lower()
        if key not in self._addresses:
            self._counts[kind] += 1
            self._addresses[key] = f"{kind}{self._counts[kind]}"
        return self._addresses[key]


def _make_alternatives(names: list[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    return re.compile(
        rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, names))})(?![a-z0-9])", re.IGNORECASE
    )


def find_serials(files: Mapping[str, object]) -> dict[str, str]:
    """The serial numbers and world wide names in the files that hold one, each with the word in its
    place.
    """
    found: dict[str, str] = {}
    for path, content in sorted(files.items()):
        if is_serial_file(path) and isinstance(content, bytes):
            text = _WORLD_WIDE.sub("", content.decode("utf-8", "replace").strip(" \t\n\0"))
            for spelled in {text, text.replace(" ", "_")}:  # udev writes `_` for a blank
                if len(spelled) >= 6 and not _BLANK_SERIAL.fullmatch(spelled):
                    found.setdefault(spelled, f"serial{len(found) + 1}")
    return found


def find_places(names: Iterable[str], domain: str = "") -> dict[str, str]:
    """Host names, with and without domain, and the domain of NIS."""
    words = []
    for name in names:
        host, _, rest = name.strip().partition(".")
        words += [(name.strip(), "host"), (host, "host"), (rest, "domain")]
    found: dict[str, str] = {}
    for text, word in (*words, (domain.strip(), "domain")):
        # One or two letters are words of configuration as well. The kernel says `(none)` where no
        # domain is set.
        if len(text) > 2 and text.lower() not in _GENERIC and text != "(none)":
            found.setdefault(text, word)
    return found


def find_people(passwd: str, users: Iterable[str]) -> dict[str, str]:
    """The accounts of people (uid 1000 and up, passwd(5)) and who else runs processes with a name
    of that kind.
    """
    rows = [row.split(":") for row in passwd.splitlines()]
    known = {row[0]: row for row in rows if len(row) >= 7 and parse_digits(row[2], -1) >= 0}
    # From 65534 on are the account without rights, and ids that containers use.
    persons = [name for name, row in known.items() if 1000 <= int(row[2]) < 65534]
    # A user of LDAP or SSSD has no row in passwd, but owns processes. A number is one
    # without a name.
    persons += [user for user in users if user and user not in known and not user.isdigit()]
    unique = dict.fromkeys(
        name for name in persons if len(name) > 2 and name.lower() not in _GENERIC
    )
    return {name: f"user{number}" for number, name in enumerate(unique, 1)}
