"""Masking what must not leave a host: passwords, keys, tokens, serial numbers. Pure.

When in doubt it masks: a rule decides with no value that could be mistaken for a secret. Text comes
from users, so no pattern may take longer than in proportion to its length: none begins with a
repetition that could begin anywhere.
"""

from __future__ import annotations

import re
import string
from typing import Final

from hosttune.host.masking.command_secrets import (
    LONGEST,
    MASK,
    PINS,
    mask_commands,
    mask_words,
    may_name_secret,
)
from hosttune.quoting import quote
from hosttune.regex import regex

# How the name of a secret ends.
_WORDS = (
    r"(?:(?<!by)(?<!com)pass(?:word|wd|phrase|code)?2?|pwd|secret(?:[_-]?id)?|token|bearer|psk"
    r"|community|luks\.key|"
    # what units import or load by a name (systemd.exec(5)) is none
    rf"(?<!\bimport)(?<!\bload)credentials?(?:_?(?:encrypted|binary))?|{PINS}|"
    r"(?:api|access|auth|private|secret|session|license|encryption|signing|account|consumer|shared"
    r"|wep|fastopen|wandb|"
    r"security)[_.-]?key|"
    r"shared_?access_?signature|connection[_-]?string|(?<![a-z0-9])sas(?=[\"']?\s*=|[\"']\s*:)|"
    # github_pat=, jwt: of a file; `pat=x` of a script and `sort_key=name` are none
    r"(?<![a-z0-9])(?:pat|jwt)(?=[\"']?\s*[=:]\s*[\"']?[\w.+/=~-]{8})|"
    r"(?<=[a-z0-9])[_-](?:key|auth)(?=[\"']?\s*[=:]\s*(?:[|>][-+\d]{0,2}\s{1,80})?[\"']?"
    r"(?=[\w+=-]{12})[\w+=-]{0,64}\d)|"
    # by itself only before what is not a word of a language; the arguments of a runtime of Docker
    r"(?<![\w.-])key(?=[\"']?\s*[=:]\s*[\"']?(?=[a-z0-9+=]{16})[a-z+=]{0,64}\d)"
    r"|(?<=[\"'])runtimeArgs(?=[\"']\s*:\s*\[)|"
    r"access[_-]?key[_-]?id|key[_-]data|(?:proxy|basic)-?auth|(?<!\w)auth(?=[\"']?\s*[=:])|"
    # OPENAI_KEY, REDISCLI_AUTH; CONFIG_IMA_KEY=y of a kernel is none, nor `sas: phy-0:1`
    r"(?-i:(?<=[A-Z0-9])_(?:KEY|AUTH|JWT|PAT|SAS|SK))(?=\d?[\"']?\s*[=:]\s*[\"']?[^\s\"']{6})"
    r"|(?-i:(?<=[A-Z])PW)(?=\d?=))"
)
_HINT = regex(_WORDS, re.IGNORECASE)
# A word that is not a secret, or the start of an object or a list of JSON. `true;X` can be a
# secret, as `'a'X` can.
_HARMLESS = (
    r"(?:(?:yes|no|true|false|none|null|on|off)(?=[;&\"'}\])]{0,16}(?:[\s,]|\\[nrt\\\"']|$))|"
    r"\(masked\)(?=[\s,;&\\\"'}\])]|$)|[{\[]\s*(?:[\\\"'{}\[\]]|$))"
)
# A quote within a value: a letter follows it, and no blank, comma or bracket, as it does where it
# ends the value.
_INNER = r"[\"'](?=[\"']?\w)"
# NAME=value, NAME: value, "NAME": "value"; in options of a mount `,,` is a comma of the value. Text
# in quotes may have quotes of its own behind backslashes: such a value ends at the next of them.
# What `credentials=` names is a file, not a secret.
_ASSIGNMENT = regex(
    rf"""(?P<name>{_WORDS}\d?(?:\\{{0,15}}["'])?\s*(?:=|:(?!/))[ \t]*(?<!credentials=)
    (?:\\{{0,15}}["'])?)
    (?!{_HARMLESS})(?:(?<=\\["'])(?:[^"'\\\n]|\\(?!\\{{0,15}}["']))+|(?<=")(?:\\.|[^"\\\n])+|(?<=')(?:\\.|[^'\\\n])+
    |(?!\\{{0,15}}["'])(?:[^\s,;&"'}}\])]|,,)+)""",
    re.IGNORECASE | re.VERBOSE,
)
# What a shell takes for one word: NAME="a"b, NAME=''b.
_GLUED = regex(
    rf"(?P<name>{_WORDS}\d?[\"']?\s*(?:=|:(?!/))[ \t]*)(?<!credentials=)(?:\"[^\"\n]*\""
    rf"|'[^'\n]*')(?=\w)[^\s,]+",
    re.IGNORECASE,
)
# NAME = ["value", ...] of TOML and JSON, which stays a list.
_LIST = regex(
    rf"""(?P<name>{_WORDS}\d?(?:\\{{0,15}}["'])?\s*[=:]\s*\[\s*\\{{0,15}}["'])
    (?:(?<=")(?:\\.|[^"\\\n])*|(?<=')[^'\n]*)
    (?:["']\s*,\s*(?:"(?:\\.|[^"\\\n])*(?=")|'[^'\n]*(?=')))*""",
    re.IGNORECASE | re.VERBOSE,
)
_BETWEEN = regex(r"[\"']\s*,\s*[\"']")  # two entries of such a list
# ENV{NAME}="value" of udev, $x{name} = "value" of Perl, x["name"] = "value", "name" => "value",
# name := value; `==` compares.
_KEYED = regex(
    rf"""(?P<name>{_WORDS}\d?["']?
    (?:[\]}})]{{1,3}}[ \t]{{0,9}}(?:=>|[:+?]?=(?![=~]))|[ \t]{{0,9}}(?:=>|[:+?]=(?!=)))
    [ \t]{{0,9}}["']?)
    (?!{_HARMLESS})(?:(?<=")(?:\\.|[^"\\\n])+|(?<=')[^'\n]+|[^\s,;"'}}\])]+)""",
    re.IGNORECASE | re.VERBOSE,
)
# A setting of properties by its last word: `spark.authenticate.secret value`, with a dot, as
# `password required` of PAM has none.
_PROPERTY = regex(
    rf"(?P<name>^[ \t]*(?:[\w-]{{1,80}}\.){{1,9}}[\w-]{{0,80}}{_WORDS}[ \t]+)(?![=:\s]"
    rf"|{_HARMLESS}).+",
    re.IGNORECASE,
)
# `requirepass value`, `bindpw value`: two words in a line; and `login x password value` of netrc(5)
# and alike.
_DIRECTIVE = regex(
    r"(?P<name>^(?:[ \t]*[\w.-]{0,40}(?:password|passphrase|secret|community|requirepass"
    r"|masterauth|(?<!by)_pass"
    r"|(?:root|bind)pw)|.{0,200}\b(?:login|user)[ \t]+\S{1,64}[ \t]+(?:insecure-)?password)[ \t]+)"
    r"(?![=:|&<>]|\(masked\))(?:\"[^\"\n]+\"|\S+)(?=[ \t]*;?$)",
    re.IGNORECASE,
)
# `Acquire::x::Password "value";` of apt.conf(5), and alike.
_SPACED = regex(
    rf"(?P<name>{_WORDS}\d?[ \t]{{1,9}}\")(?!\(masked\)\")[^\"\n]{{4,}}(?=\";)", re.IGNORECASE
)
_ELEMENT = regex(rf"(?P<name><[\w:.-]{{0,64}}{_WORDS}\d?>)[^<]+(?=<)", re.IGNORECASE)
# A name and its value as two entries, of Kubernetes and Hadoop.
_PAIR = regex(
    rf"""(?P<name>\bname["']?(?:[ \t]{{0,9}}:[ \t]{{0,9}}["']?|>)[\w.-]{{0,80}}{_WORDS}\d?
    (?:["']?[ \t]{{0,9}}(?:,\s{{0,80}}|\n\s{{0,80}})["']?value["']?[ \t]{{0,9}}:[ \t]{{0,9}}["']?
    |</name>\s{{0,80}}<value>))
    (?:(?<=")(?:\\.|[^"\\\n])+|(?<=')[^'\n]+|[^\s<,}}"'][^\n<,}}]*)""",
    re.IGNORECASE | re.VERBOSE,
)
# An option and its value as two entries of a list: "--token", "value".
_ENTRY = regex(
    rf"(?P<name>[\"']--?[\w.-]{{0,80}}{_WORDS}\d?[\"']\s{{0,80}},\s{{0,80}}[\"'])(?!\(masked\)|-)[^\"'\n]+(?=[\"'])",
    re.IGNORECASE,
)
# The text below `name: |` of YAML is as far in as its first line.
_TEXT_BLOCK = regex(
    rf"""(?P<name>^(?P<in>[ ]{{0,80}})(?:-[ ])?["']?[\w.-]{{0,80}}{_WORDS}\d?["']?:
    (?:[ ]{{1,9}}[|>][-+\d]{{0,2}})?[ \t]{{0,9}}\n)
    (?P<more>(?P=in)[ ]{{1,9}})(?![ ]|-[ ]|[\w.\"'-]{{1,80}}:(?:[ ]|$))[^\n]+
    (?:\n(?P=more)[^\n]*)*""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
# The value of a line of its own goes on to its end, that of a variable of the environment to the
# next blank.
_LINE = regex(
    rf"(?P<name>^\s*(?:export\s+)?[\w.-]*{_WORDS}\d?[ \t]*(?:=|:(?=[ \t]))[ \t]*)(?<!credentials=)"
    rf"(?![\s\"']|{_HARMLESS}).+",
    re.IGNORECASE,
)
# An option of a mount goes on to the next comma; a bracket, quote or semicolon ends it only where
# nothing follows.
_OPTION = regex(
    rf"(?P<name>{_WORDS}\d?=)(?<!credentials=)(?!{_HARMLESS}|\s|\\{{0,15}}[\"'])"
    rf"(?:\\,|,,|[^\s,\"';&}})\]]|{_INNER}|[;&}})\]](?=[^\s,\"';&}})\]]))+",
    re.IGNORECASE,
)
# In Options= of a unit file with its blanks (systemd.mount(5)); a variable in quotes goes on to the
# next of them.
_UNIT_OPTION = regex(
    rf"(?P<name>{_WORDS}\d?=)(?<!credentials=)(?!{_HARMLESS}|\\{{0,15}}[\"'])(?:\\,|,,|[^,\"])+",
    re.IGNORECASE,
)
_QUOTED_VARIABLE = regex(
    rf"(?P<name>(?:(?P<double>\")|')\w{{0,64}}{_WORDS}\d?=)(?!{_HARMLESS}|[\\\"'])(?(double)[^\"\n]+(?=\")|[^'\n]+(?='))",
    re.IGNORECASE,
)
# A byte as octal digits, of fstab(5) and /proc/self/mountinfo, or as hexadecimal ones, of
# systemd.syntax(7).
_ESCAPED = regex(r"\\(?:([01][0-7]{2})|x([0-7][0-9A-Fa-f]))")
# no blank or comma, which end a value
_TELLING: Final = frozenset(f"{string.ascii_letters}{string.digits}=%@:/?&._-")
_VARIABLE = regex(rf"(?P<name>{_WORDS}\d?=)(?![\"']|{_HARMLESS})[^\s\"']+", re.IGNORECASE)
_ARGUMENT = regex(
    rf"(?P<name>[+~]{{0,2}}[\w.-]*{_WORDS}\d?=)(?<!credentials=)(?!{_HARMLESS}).+",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_NAME: Final = 200  # characters of a path that a colon follows
_NAME: Final = string.ascii_letters + string.digits + "_.-"  # of a name in it

# A password may have slashes; of `//host:8080/x@y` the digits are a port.
_URL_USER = regex(
    rf"://(?:(?:[^\s/\"<>]|{_INNER})+|[^\s/:\"<>@]{{1,64}}:(?!\d{{1,5}}(?:[/\s]|$))(?:[^\s\"<>@]|{_INNER}){{1,256}})@"
)
# `user:password@host` without a scheme. At most 256 characters, or `x:,x:,` would be looked through
# from each colon.
_LOGIN = regex(
    r"(?<![^\s/,=\"'])(?P<name>[^\s/:@,=\"']{0,64}:)(?!\(masked\)@)[^\s/\"'](?:[^\s/\"']|"
    + _INNER
    + r"){0,255}@"
)
URL_PARAMETER = regex(
    r"(?P<name>[?&](?:x-(?:amz|goog)-)?(?:sig|signature|key)=)((?:[^\s&\"'#]|" + _INNER + r")+)",
    re.IGNORECASE,
)
_SHARE_USER = regex(
    r"(?P<name>\buser(?:name)?=)[^\s,%:=/\"']*(?:%|:(?!\d+(?![^\s,\"'])))(?:\\,|,,|[^\s,\"']|"
    + _INNER
    + r")+",
    re.IGNORECASE,
)  # mount.cifs(8): user=NAME%PASSWORD; curlftpfs(1): user=NAME:PASSWORD; no user=1000:1000
_HEADER = regex(
    r"(?P<name>\b(?:authorization|cookie)(?:[\"']?[ \t]*[:=][ \t]*(?:\[[ \t]*)?[\"']?"
    r"|[ \t]{1,9}[\"']))"
    r"(?![ \t]|\(masked\)(?!\w))"
    r"(?:[^\n\"']|" + _INNER + r")+",
    re.IGNORECASE,
)
# A variable of unknown name on the kernel command line (kernel-command-line(7)): its value is not
# read here.
_SETENV = regex(
    r"(?P<name>(?:[\"']systemd\.setenv=|systemd\.setenv=\\?[\"'])\w{1,128}=)[^\"'\n\\]+|"
    r"(?P<bare>systemd\.setenv=\w{1,128}=)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)"
)
_BLOCK = regex(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY[A-Z0-9 ]{0,40})-----")
# Secrets that are known by their own shape.
_SHAPES = regex(
    r"\b(?:DHHC|NVMeTLSkey)-1:[0-9a-f]{2}:[A-Za-z0-9+/=]{8,}:?|"  # nvme-cli, gen-dhchap-key(1)
    r"\$(?:1|2[abxy]|5|6|7|y|gy|argon2\w*)\$[^\s:\"']{8,}|"  # crypt(5)
    r"\b(?:grub\.pbkdf2\.\w+\.\d+\.[\w.]+|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|"
    r"gl(?:pat|rt|dt|cbt|ptt|ft|soat|agent)-[\w-]{20,}|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|"
    r"SG\.[\w-]{16,}\.[\w-]{16,}|npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{16,}|hv[sb]\.[\w-]{24,}"
    r"|dckr_pat_[\w-]{20,}|"
    r"tskey-[\w-]{10,}|do[por]_v1_[0-9a-f]{64}|dapi[0-9a-f]{32}|gsk_[A-Za-z0-9]{20,}"
    r"|r8_[A-Za-z0-9]{30,}|"
    r"glsa_\w{32,}|sntry[su]_[\w=+/-]{20,}|lsv2_(?:pt|sk)_\w{20,}|AT[AC]TT3[\w=-]{20,}"
    r"|wandb_v1_\w{20,}|xapp-[\w-]{10,}|"
    r"K10[0-9a-f]{64}::[\w:.-]+|hf_[A-Za-z0-9]{20,}|xox[abprs]-[\w-]{10,}|sk-[A-Za-z0-9_-]{20,}"
    r"|nvapi-[\w-]{20,}|"
    r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|hooks\.slack\.com/services/[\w/]+|"
    r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])|AGE-SECRET-KEY-1[0-9A-Z]{8,}"
    r"|api\.telegram\.org/bot\d{1,20}:[\w-]+|discord(?:app)?\.com/api/webhooks/[\w/-]+|"
    r"webhook\.office\.com/webhookb2/[^\s\"']+)"
)
_QUOTED_WORD = regex(r"(?<![^\s=(])'[^']*'(?:\"'\"'[^']*')*")
_MOST_EFFORT: Final = 1 << 22  # characters that are looked through for names in quotes
_OF_A_SHELL = regex(r"[$`;&|<>()#!\n]|'\"")  # what a shell would read outside of quotes
_GPU = regex(
    r"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE
)
_SERIAL = regex(
    r"(?P<name>\b(?:serial(?: ?number)?|board part number|guid"
    r"|uuid serial)\s*[:=]\s*)(?!N/A)\S[^\n]*",
    re.IGNORECASE,
)

# Files whose whole content identifies a machine or opens one.
_SECRET_FILES = regex(
    r"""^/sys/.*/(?:(?=\w*serial)\w*|\w*uuid|\w*asset_tag|wwid|nguid|eui|vpd|vpd_pg80|vpd_pg83|unique_id|address|cid)$
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
_MAPPER_UUID = regex(
    r"(?P<lvm>LVM)-[A-Za-z0-9]+(?P<part>-[a-z]+)?|(?P<maker>mpath|CRYPT|DMRAID|part\d+)-.*"
)
_SERIAL_FILES = regex(
    r"^/sys/(?!.*/net/).*/(?:\w*serial|\w*uuid|\w*asset_tag|wwid|nguid|eui|unique_id|cid)$"
)


def mask_mapper_uuid(uuid: str) -> str:
    """What /sys/block/dm-N/dm/uuid tells of a device without what identifies it: who made it, and
    of LVM which part of a volume it is: LVM-(masked)-tpool, mpath-(masked) (LVM2,
    lib/activate/dev_manager.c: build_dm_uuid).
    """
    found = _MAPPER_UUID.fullmatch(uuid.strip())
    return f"{found['lvm'] or found['maker']}-{MASK}{found['part'] or ''}" if found else MASK


def mask_text(text: str) -> str:
    """Text with every secret that has a recognizable shape, and every serial number, replaced by
    `(masked)`.
    """
    return _GPU.sub(MASK, _SERIAL.sub(_mask_found, mask_secrets(text)))


def mask_secrets(text: str) -> str:
    """Text with every password, token and key that has a recognizable shape replaced by `(masked)`:
    what is given to a program by its options, what the name before it calls a secret, and what is
    one by its own form.
    """
    if _ESCAPED.search(text):
        text = "\n".join(map(_most_masked, text.split("\n")))
    return _mask_read(text)


def mask_sentence(text: str) -> str:
    """As `mask_secrets`, of a sentence that may hold commands to be typed: what is in quotes there,
    as `quoting.quote` writes it, stays in quotes or goes. Any user can name a control group so that
    what is masked of it has the quote that keeps a shell from acting on the rest: `token='$(x)`. A
    name that is there in quotes and as it is is masked by itself: what is around one of them would
    hide, or end, the secret in it.
    """
    text = _mask_repeated(text)
    masked = mask_secrets(text)
    if masked == text:
        return text
    position = 0
    for word in _QUOTED_WORD.findall(text):
        place = masked.find(word, position)
        if place < 0:
            hidden = _QUOTED_WORD.sub(
                lambda found: f"'{MASK}'" if _OF_A_SHELL.search(found[0], 1) else found[0], text
            )
            return mask_secrets(hidden)
        position = place + len(word)
    return masked


def _mask_repeated(text: str) -> str:
    """Text in which the names are masked that are there in quotes and as they are."""
    position = effort = 0
    names: dict[str, str] = {}
    while (found := _QUOTED_WORD.search(text, position)) and effort < _MOST_EFFORT:
        position = found.start() + 1  # a quote of a name can begin before the one of a word
        name = found[0][1:-1].replace("'\"'\"'", "'")
        # Each name costs a walk through the whole text, and a user can write a text that is all
        # quotes.
        effort += len(text)
        if len(name) > 1 and text.count(name) > (name in found[0]):
            names.setdefault(name, found[0])
    # The longest first: a name may be a part of another one, which would then not be found any
    # more.
    for name, word in sorted(names.items(), key=lambda one: len(one[0]), reverse=True):
        masked = mask_secrets(name)
        if masked != name:
            text = text.replace(word, quote(masked)).replace(name, masked)
    return text


def _most_masked(line: str) -> str:
    r"""The line as it is, or, where only its escapes hide secrets (`pass\167ord=`, `?a\046sig=`),
    without them.
    """
    plain = without_escapes(line)
    if plain == line:
        return line
    masked = _mask_read(plain)
    return masked if masked.count(MASK) > _mask_read(line).count(MASK) else line


def without_escapes(text: str) -> str:
    """Text whose escapes are read, those of a blank or a comma left out, which end a value."""
    return _ESCAPED.sub(_undo_escapes, text)


def _undo_escapes(found: re.Match[str]) -> str:
    char = chr(int(found[1], 8) if found[1] else int(found[2], 16))
    return char if char in _TELLING else found[0]


def _mask_read(text: str) -> str:
    text = mask_commands(_without_blocks(text))
    if "://" in text:
        text = _URL_USER.sub(f"://{MASK}@", text)
    if "@" in text:
        text = _LOGIN.sub(rf"\g<name>{MASK}@", text)
    if "systemd.setenv=" in text:
        text = _SETENV.sub(lambda found: f"{found['name'] or found['bare']}{MASK}", text)
    for pattern in (URL_PARAMETER, _SHARE_USER, _HEADER):
        text = pattern.sub(_mask_found, text)
    if _has_hint(text):
        for pattern in (_PAIR, _ENTRY, _TEXT_BLOCK):
            text = pattern.sub(_mask_found, text)
        text = _LIST.sub(_mask_list, text)
        text = "\n".join(_mask_assignments(line) for line in text.split("\n"))
    return _SHAPES.sub(MASK, text)


def _has_hint(text: str) -> bool:
    return may_name_secret(text) and _HINT.search(text) is not None


# A line of a key: base64 with what surrounds it in YAML, shell and C, a header, or the empty line
# of deb822 (` .`).
_OF_KEY = regex(
    r"[ \t>|#*\"']*(?:-[ \t]+)?"
    r"(?:\.|[A-Za-z0-9+/=_\\-]+[ \t\"',;]*|(?:Proc-Type|DEK-Info|Version|Comment"
    r"|Hash): [^\n]{0,200})?"
)
# Base64 in a row as a word of no language is: letters of both cases, or letters and digits.
_OF_A_ROW = regex(
    r"(?<![A-Za-z0-9+/=])(?=[a-z0-9+/=]*[A-Z])(?=[A-Z0-9+/=]*[a-z])[A-Za-z0-9+/=]{16}|"
    r"(?<![A-Za-z0-9+/=])(?=[A-Za-z+/=]*\d)(?=[\d+/=]*[A-Za-z])[A-Za-z0-9+/=]{16}"
)


def _without_blocks(text: str) -> str:
    """Text without the keys that begin with -----BEGIN: the rest of that line, and the lines behind
    it that can be of a key (RFC 7468), up to the -----END line. Any other line ends it: in a log,
    names of users may hold both marks. So may a sentence: the rest of its line stays if there is
    nothing in it that could be of a key.
    """
    if "-----BEGIN " not in text:
        return text
    kept: list[str] = []
    position = 0
    while begin := _BLOCK.search(text, position):
        kept.append(text[position : begin.end()])
        end = f"-----END {begin[1]}-----"
        line = text.find("\n", begin.end())
        line = len(text) if line < 0 else line
        place = text.find(end, begin.end(), line)
        start = begin.end()
        if place < 0 and start < line and not _OF_A_ROW.search(text, start, line):
            kept.append(text[start:line])
            start = line
        position = line if place < 0 else place + len(end)
        while place < 0 and position < len(text):
            line = text.find("\n", position + 1)
            line = len(text) if line < 0 else line
            place = text.find(end, position, line)
            if place >= 0:
                position = place + len(end)
            elif _OF_KEY.fullmatch(text, position + 1, line):
                position = line
            else:
                break
        breaks = text[start:position].count("\n")
        kept += (
            ("\n", MASK, "\n" * (breaks - 1)) if breaks else (" ", MASK)[: 2 * (start < position)]
        )
    return "".join((*kept, text[position:]))


def _mask_found(found: re.Match[str]) -> str:
    """Lines stay in their places."""
    hidden = found[0][len(found["name"]) :]
    return found["name"] + MASK + "\n" * hidden.count("\n")


def _mask_assignments(line: str) -> str:
    if not _has_hint(line):
        return line
    if line.lstrip().startswith("Options="):
        line = _UNIT_OPTION.sub(_mask_found, line)
    for pattern, needs, mask in _OF_A_LINE:
        if any(one in line for one in needs):
            line = pattern.sub(mask, line)
    return _ASSIGNMENT.sub(_mask_assignment, line)


def _mask_list(found: re.Match[str]) -> str:
    """A list over several lines, entry by entry: lines stay in their places. One in a line is
    masked with its line.
    """
    hidden = found[0][len(found["name"]) :]
    return (
        found["name"] + MASK.join(["", *_BETWEEN.findall(hidden), ""])
        if "\n" in found[0]
        else found[0]
    )


def _mask_variable(found: re.Match[str]) -> str:
    return _mask_found(found) if found["name"].isupper() else found[0]


# In this order, each where one of these is in the line: most lines have few of them.
_OF_A_LINE: Final = (
    (_KEYED, ("=>", ":=", "+=", "?=", "]", "}", ")"), _mask_found),
    (_PROPERTY, (".",), _mask_found),
    (_DIRECTIVE, (" ", "\t"), _mask_found),
    (_SPACED, ('";',), _mask_found),
    (_ELEMENT, ("<",), _mask_found),
    (_LINE, ("=", ":"), _mask_found),
    (_QUOTED_VARIABLE, ("'", '"'), _mask_variable),
    (_VARIABLE, ("=",), _mask_variable),
    (_GLUED, ("'", '"'), _mask_found),
    (_OPTION, ("=",), _mask_found),
    (_LIST, ("[",), _mask_found),
)


def _mask_assignment(found: re.Match[str]) -> str:
    """What follows the colon after a path is a reason: `/etc/passwd: Not a directory`."""
    if found["name"].rstrip(" \t\"'").endswith(":"):
        before = found.string[max(0, found.start() - _LONGEST_NAME) : found.start()]
        if before.rstrip(_NAME).endswith("/"):
            return found[0]
    return _mask_found(found)


def mask_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line with the values of `--password X`, `--token=X`, `TOKEN=X`, `curl -u user:X`
    ... masked. A word of more than 4096 characters is cut.
    """
    words = [word[:LONGEST] for word in argv]
    return tuple(
        _mask_argument(word) if masked is None else masked
        for word, masked in zip(words, mask_words(words), strict=True)
    )


def _mask_argument(word: str) -> str:
    found = _ARGUMENT.fullmatch(word)
    return _mask_found(found) if found else mask_text(word)


def is_secret_file(path: str) -> bool:
    """Whether the whole content of a file is kept out of a record."""
    return bool(_SECRET_FILES.search(path))


def is_serial_file(path: str) -> bool:
    """Whether a file holds one serial number, which is then masked wherever else it appears."""
    return bool(_SERIAL_FILES.search(path))
