"""Masking what must not leave a host: passwords, keys, tokens, serial numbers. Pure.

When in doubt it masks: a rule decides with no value that could be mistaken for a secret.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "(masked)"

_WORDS = (
    r"(?<!by)(?<!com)pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key(?:[_-]?id)?|auth[_-]?key|"
    r"private[_-]?key|secret[_-]?key|session[_-]?key|license[_-]?key|encryption[_-]?key|luks\.key|bearer|psk|community"
)
_HINT = re.compile(_WORDS, re.IGNORECASE)
_HARMLESS = r"(?:yes|no|true|false|none|null|on|off|\(masked\))(?=[\s,;&\"'}\])]|$)"
# NAME=value, NAME: value, "NAME": "value". What `credentials=` names is a file, not a secret.
_ASSIGNMENT = re.compile(
    rf"""(?P<name>(?<![\w.-])[\w.-]*(?:{_WORDS})\d?["']?\s*(?:=|:(?!/))[ \t]*)(?<!credentials=)
    (?P<quote>["']?)(?!{_HARMLESS})(?P<value>(?<=")[^"\n]+|(?<=')[^'\n]+|[^\s,;&"'}}\])]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_URL_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,19}://)[^\s/@:]{0,200}:[^\s/@]{1,200}@", re.IGNORECASE)
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY[A-Z ]*)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_HASHES = re.compile(r"\$(?:1|2[abxy]|5|6|7|y|gy|argon2\w*)\$[^\s:\"']{8,}")  # crypt(5)
_KNOWN = re.compile(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}|"
    r"xox[abprs]-[\w-]{10,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_AUTHORIZATION = re.compile(r"(?P<name>\bauthorization\s*[:=]\s*(?:basic|bearer)\s+)\S+", re.IGNORECASE)
_GPU = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL = re.compile(
    r"(?P<name>\b(?:serial(?: ?number)?|board part number|guid|uuid serial)\s*[:=]\s*)(?!N/A)\S[^\n]*", re.IGNORECASE
)
_OPTION_VALUE = re.compile(rf"(?P<name>(?<!\S)--?(?:[\w-]*-)?(?:{_WORDS})[ \t]+)(?!-|\(masked\))\S+", re.IGNORECASE)
_OPTION = re.compile(rf"^--?(?:[\w-]*-)?(?:{_WORDS})$", re.IGNORECASE)

# Files whose whole content identifies a machine or opens one.
_SECRET_FILES = re.compile(
    r"^/sys/.*/(?:\w*serial\w*|\w*uuid|\w*asset_tag|wwid|nguid|eui|vpd_pg80|vpd_pg83|unique_id|address|cid)$|"
    r"^/proc/sys/net/.*(?:tcp_fastopen_key|stable_secret)$|^/proc/sys/kernel/random/uuid$|"
    r"^/proc/driver/nvidia/.*registry$|^/etc/(?:g?shadow-?|ssh/ssh_host_.*|ssl/private/.*|sudoers.*|krb5\.keytab)$|"
    r"(?:^|/)(?:id_(?:rsa|dsa|ecdsa|ed25519)|authorized_keys|known_hosts|\.netrc|\.pgpass|munge\.key)$|"
    r"^/etc/(?:NetworkManager/system-connections|wpa_supplicant|wireguard|openvpn|ipsec|netplan)(?:/|$)|"
    r"^/etc/apt/auth\.conf|^/proc/[^/]+/environ$|^/var/lib/cloud/.*user-data|\.(?:key|pem|p12|pfx|kdb|keytab)$"
)
_SERIAL_FILES = re.compile(r"^/sys/(?!.*/net/).*/(?:\w*serial|\w*uuid|\w*asset_tag|wwid|nguid|eui|unique_id|cid)$")


def mask_text(text: str) -> str:
    """Text with every secret that has a recognizable shape replaced by `(masked)`."""
    text = _BLOCK.sub(lambda found: f"-----BEGIN {found[1]}-----\n{MASK}", text)
    text = _URL_USER.sub(lambda found: f"{found['scheme']}{MASK}@", text)
    text = _AUTHORIZATION.sub(lambda found: found["name"] + MASK, text)
    if _HINT.search(text):
        text = "\n".join(_mask_assignments(line) for line in text.split("\n"))
    text = _SERIAL.sub(lambda found: found["name"] + MASK, text)
    for pattern in (_HASHES, _KNOWN, _GPU):
        text = pattern.sub(MASK, text)
    return text


def _mask_assignments(line: str) -> str:
    if not _HINT.search(line):
        return line
    line = _ASSIGNMENT.sub(lambda found: found["name"] + found["quote"] + MASK, line)
    return _OPTION_VALUE.sub(lambda found: found["name"] + MASK, line)


def mask_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line with the values of `--password X`, `--token=X`, `TOKEN=X`, `curl -u user:X` ... masked."""
    masked: list[str] = []
    hide = False
    for word in argv:
        if hide and not word.startswith("-"):
            masked.append(MASK)
            hide = False
            continue
        hide = bool(_OPTION.match(word)) or (word in ("-u", "--user") and argv[0].endswith(("curl", "wget")))
        masked.append(mask_text(word))
    return tuple(masked)


def is_secret_file(path: str) -> bool:
    """Whether the whole content of a file is kept out of a record."""
    return bool(_SECRET_FILES.search(path))


def is_serial_file(path: str) -> bool:
    """Whether a file holds one serial number, which is then masked wherever else it appears."""
    return bool(_SERIAL_FILES.search(path))
