"""Masking what must not leave a host: passwords, keys, tokens, serial numbers. Pure.

When in doubt it masks: a rule decides with no value that could be mistaken for a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hosttune.regex import regex

MASK: Final = "(masked)"

# How the name of a secret ends.
_WORDS = (
    r"(?:(?<!by)(?<!com)pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|bearer|psk|community|luks\.key|"
    r"(?:api|access|auth|private|secret|session|license|encryption|signing|account|consumer|shared|wep|fastopen)[_-]?key|"
    r"access[_-]?key[_-]?id|(?<!\w)auth(?=[\"']?\s*[=:]))"
)
_HINT = regex(_WORDS, re.IGNORECASE)
# A word that is no secret, or the start of an object or a list of JSON.
_HARMLESS = r"(?:(?:yes|no|true|false|none|null|on|off|\(masked\))(?=[\s,;&\"'}\])]|$)|[{\[]\s*(?:[\"'{}\[\]]|$))"
# NAME=value, NAME: value, "NAME": "value". What `credentials=` names is a file, not a secret.
_ASSIGNMENT = regex(
    rf"""(?P<name>(?<![\w.-])[\w.-]*{_WORDS}\d?["']?\s*(?:=|:(?!/))[ \t]*(?<!credentials=)["']?)(?!{_HARMLESS})
    (?:(?<=")(?:\\.|[^"\\\n])+|(?<=')(?:\\.|[^'\\\n])+|[^\s,;&"'}}\])]+)""",
    re.IGNORECASE | re.VERBOSE,
)
# The value of a line of its own goes on to its end, that of a variable of the environment to the next blank.
_LINE = regex(
    rf"(?P<name>^\s*(?:export\s+)?[\w.-]*{_WORDS}\d?[ \t]*(?:=|:(?=[ \t]))[ \t]*)(?<!credentials=)"
    rf"(?![\s\"']|{_HARMLESS}).+",
    re.IGNORECASE,
)
_VARIABLE = regex(rf"(?P<name>(?<![\w.-])\w*{_WORDS}\d?=)(?![\"']|{_HARMLESS})[^\s\"']+", re.IGNORECASE)
_ARGUMENT = regex(rf"(?P<name>[\w.-]*{_WORDS}\d?=)(?<!credentials=)(?!{_HARMLESS}).+", re.IGNORECASE | re.DOTALL)
_OPTION_VALUE = regex(rf"(?P<name>(?<!\S)--?[\w.-]*{_WORDS}[ \t]+)(?!-|\(masked\))\S+", re.IGNORECASE)
_OPTION = regex(rf"--?[\w.-]*{_WORDS}", re.IGNORECASE)
# Options of programs whose name says nothing: `mysql -pSECRET`, `curl -u user:SECRET`.
_CURL: Final = ("-u", "-U", "--user=", "--proxy-user=")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "curl": _CURL, "wget": ("--user=",), "smbclient": ("-U", "--user="), "sshpass": ("-p",), "ipmitool": ("-P",),
    "ldapsearch": ("-w",), "ldapmodify": ("-w",), "redis-cli": ("-a",),
    "mysql": ("-p",), "mysqldump": ("-p",), "mysqladmin": ("-p",), "mariadb": ("-p",),
}  # fmt: skip

_URL_USER = regex(r"://[^\s/\"<>]+@")
_URL_PARAMETER = regex(r"(?P<name>[?&](?:x-(?:amz|goog)-)?(?:sig|signature|key)=)[^\s&\"'#]+", re.IGNORECASE)
_HEADER = regex(
    r"(?P<name>\b(?:authorization|cookie)[\"']?[ \t]*[:=][ \t]*[\"']?)(?![ \t]|\(masked\))[^\n\"']+", re.IGNORECASE
)
_BLOCK = regex(r"-----BEGIN ([A-Z ]*PRIVATE KEY[A-Z ]*)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
# Secrets that are known by their own shape.
_SHAPES = regex(
    r"\$(?:1|2[abxy]|5|6|7|y|gy|argon2\w*)\$[^\s:\"']{8,}|"  # crypt(5)
    r"\b(?:grub\.pbkdf2\.\w+\.\d+\.[\w.]+|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|"
    r"glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}|xox[abprs]-[\w-]{10,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[\w-]{20,}|"
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|hooks\.slack\.com/services/[\w/]+)"
)
_GPU = regex(r"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL = regex(
    r"(?P<name>\b(?:serial(?: ?number)?|board part number|guid|uuid serial)\s*[:=]\s*)(?!N/A)\S[^\n]*", re.IGNORECASE
)

# Files whose whole content identifies a machine or opens one.
_SECRET_FILES = regex(
    r"""^/sys/.*/(?:\w*serial\w*|\w*uuid|\w*asset_tag|wwid|nguid|eui|vpd_pg80|vpd_pg83|unique_id|address|cid)$
    |^/proc/sys/net/.*(?:tcp_fastopen_key|stable_secret)$
    |^/proc/(?:sys/kernel/random/uuid|keys|[^/]+/environ|driver/nvidia/.*registry)$
    |^/etc/(?:g?shadow-?|ssh/ssh_host_.*|ssl/private/.*|sudoers.*|docker/key\.json)$
    |^/etc/(?:NetworkManager/system-connections|wpa_supplicant|wireguard|openvpn|ipsec|netplan)(?:/|$)
    |^/etc/(?:cryptsetup-keys\.d(?:/|$)|apt/auth\.conf)
    |^/var/lib/cloud/.*user-data
    |(?:^|/)(?:(?:id|dropbear)_(?:rsa|dsa|ecdsa|ed25519)|dropbear_\w+_host_key)$
    |(?:^|/)(?:authorized_keys|known_hosts|\.netrc|\.pgpass|munge\.key)$
    |\.(?:key|pem|p12|pfx|kdb|keytab)$""",
    re.VERBOSE,
)
_MAPPER_UUID = regex(r"(?P<lvm>LVM)-[A-Za-z0-9]+(?P<part>-[a-z]+)?|(?P<maker>mpath|CRYPT|DMRAID|part\d+)-.*")
_SERIAL_FILES = regex(r"^/sys/(?!.*/net/).*/(?:\w*serial|\w*uuid|\w*asset_tag|wwid|nguid|eui|unique_id|cid)$")


def mask_mapper_uuid(uuid: str) -> str:
    """What /sys/block/dm-N/dm/uuid tells of a device without what identifies it: who made it, and of LVM which part of
    a volume it is: LVM-(masked)-tpool, mpath-(masked) (LVM2, lib/activate/dev_manager.c: build_dm_uuid).
    """
    found = _MAPPER_UUID.fullmatch(uuid.strip())
    return f"{found['lvm'] or found['maker']}-{MASK}{found['part'] or ''}" if found else MASK


def mask_text(text: str) -> str:
    """Text with every secret that has a recognizable shape replaced by `(masked)`."""
    text = _BLOCK.sub(lambda found: f"-----BEGIN {found[1]}-----\n{MASK}", text)
    text = _URL_USER.sub(f"://{MASK}@", text)
    for pattern in (_URL_PARAMETER, _HEADER):
        text = pattern.sub(_masked, text)
    if _HINT.search(text):
        text = "\n".join(_mask_assignments(line) for line in text.split("\n"))
    text = _SERIAL.sub(_masked, text)
    for pattern in (_SHAPES, _GPU):
        text = pattern.sub(MASK, text)
    return text


def _masked(found: re.Match[str]) -> str:
    return found["name"] + MASK


def _mask_assignments(line: str) -> str:
    if not _HINT.search(line):
        return line
    line = _LINE.sub(_masked, line)
    line = _VARIABLE.sub(lambda found: _masked(found) if found["name"].isupper() else found[0], line)
    line = _ASSIGNMENT.sub(_masked, line)
    return _OPTION_VALUE.sub(_masked, line)


def mask_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line with the values of `--password X`, `--token=X`, `TOKEN=X`, `curl -u user:X` ... masked."""
    masked: list[str] = []
    options: tuple[str, ...] = ()
    is_value = False
    for word in argv:
        if is_value and not word.startswith("-"):
            masked.append(MASK)
            is_value = False
            continue
        options = _OPTIONS.get(word.rpartition("/")[2], options)  # also behind sudo, env, timeout ...
        option = next((one for one in options if f"{word}=".startswith(one)), "")
        is_value = word == option.rstrip("=") if option else bool(_OPTION.fullmatch(word))
        masked.append(option + MASK if option and not is_value else _mask_argument(word))
    return tuple(masked)


def _mask_argument(word: str) -> str:
    found = _ARGUMENT.fullmatch(word)
    return _masked(found) if found else mask_text(word)


def is_secret_file(path: str) -> bool:
    """Whether the whole content of a file is kept out of a record."""
    return bool(_SECRET_FILES.search(path))


def is_serial_file(path: str) -> bool:
    """Whether a file holds one serial number, which is then masked wherever else it appears."""
    return bool(_SERIAL_FILES.search(path))
