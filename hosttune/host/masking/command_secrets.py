"""The words of a command that are secrets, wherever the command is: arguments of a process, a line
of a unit, crontab, script or fstab, a hook of apt or udev. Pure, and linear in the length of its
input.

A command is known by its program, so `curl -u X` is masked in a unit as in a process. Options that
say by their name that a secret follows (`--password X`, `--wandb-key=X`) and `-u USER:X` are masked
for every program.

Sources: the manual pages of the programs, and their own --help for those that have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from hosttune.frozen import frozen
from hosttune.regex import regex

MASK: Final = "(masked)"
# Short words for a secret, which end other names as well.
PINS: Final = (
    r"(?:root|bind|user|admin|db|(?<![a-z]))pw|(?:tpm2|fido2|pkcs11|hsm|token|client|user"
    r"|so)[_-]?pin|pin-value"
)
# characters of one word that are looked at and kept; no secret and no path is longer
LONGEST: Final = 4096
_DEEPEST: Final = 3  # of commands quoted in commands


@frozen
class _Takes:
    """Where a program takes secrets: after options, and after a number of plain words that follow
    its verbs.
    """

    options: tuple[str, ...] = ()  # `-p` is -pX and -p X, `--user=` is --user X and --user=X
    # ((`alias`, `set`), 2): all but the first two words after
    verbs: tuple[tuple[tuple[str, ...], int], ...] = ()


_NONE: Final = _Takes()
_SQL = _Takes(("-p",))
_CURL = _Takes(
    (
        "-u",
        "-U",
        "-b",
        "--cookie=",
        "--user=",
        "--proxy-user=",
        "-E",
        "--cert=",
        "--pass=",
        "--proxy-pass=",
    )
)
_LFTP = _Takes(("-u", "--user="))
_LDAP = _Takes(("-w",))
_SAMBA = _Takes(("-U", "--user="))
_SNMP = _Takes(("-c", "-A", "-X"))
_PROGRAMS: Final[Mapping[str, _Takes]] = {
    **dict.fromkeys(
        ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlbinlog", "mysqlsh"),
        _SQL,
    ),
    **dict.fromkeys(
        ("mariadb", "mariadb-dump", "mariadb-admin", "mariadb-backup", "mydumper", "xtrabackup"),
        _SQL,
    ),
    **dict.fromkeys(
        ("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "sshpass", "7z", "7za"),
        _SQL,
    ),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _Takes(("-p", "--env="))),
    **dict.fromkeys(("buildah", "helm", "oras", "az", "twine"), _SQL),
    **dict.fromkeys(
        ("useradd", "usermod", "sqlcmd", "rdesktop", "rar", "unrar"), _Takes(("-p", "-P", "-hp"))
    ),
    **dict.fromkeys(("snmpget", "snmpwalk", "snmpbulkwalk", "snmpset", "snmptrap"), _SNMP),
    **dict.fromkeys(("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami"), _LDAP),
    **dict.fromkeys(("http", "https", "xh"), _Takes(("-a", "--auth="))),
    **dict.fromkeys(
        ("zip", "unzip", "mosquitto_pub", "mosquitto_sub", "ipmi-sensors", "bcp", "tsql"),
        _Takes(("-P",)),
    ),
    **dict.fromkeys(("p4", "ipmiutil"), _Takes(("-P",))),
    **dict.fromkeys(("sqlplus", "sqlldr", "expdp", "impdp", "chpasswd"), _Takes((), (((), 0),))),
    **dict.fromkeys(("isql", "iusql"), _Takes(("-P",), (((), 2),))),
    **dict.fromkeys(("htpasswd", "radtest"), _Takes((), (((), 1),))),  # -n is of no file
    **dict.fromkeys(("doctl", "pushover", "vercel"), _Takes(("-t",))),
    **dict.fromkeys(("wsgidav", "netlify"), _Takes(("--auth=",))),
    **dict.fromkeys(
        ("bw", "snyk"), _Takes((), ((("unlock",), 0), (("auth",), 0), (("login",), 1)))
    ),
    "openai": _Takes(("-k",)),
    **dict.fromkeys(("conda", "gluster", "pdftk", "teamviewer", "wpa_cli"), _NONE),
    **dict.fromkeys(("cargo", "microk8s"), _Takes((), ((("login",), 0), (("join",), 0)))),
    **dict.fromkeys(("grafana", "grafana-cli"), _Takes((), ((("reset-admin-password",), 0),))),
    **dict.fromkeys(
        ("smbclient", "smbget", "rpcclient", "smbmap", "winexe"), _Takes(_SAMBA.options, (((), 1),))
    ),
    **dict.fromkeys(
        ("mc", "mcli"),
        _Takes(
            (),
            ((("alias", "set"), 2), (("config", "host", "add"), 2), (("admin", "user", "add"), 2)),
        ),
    ),
    **dict.fromkeys(
        ("redis-cli", "valkey-cli", "keydb-cli"), _Takes(("-a",), ((("auth",), 0), (("AUTH",), 0)))
    ),
    **dict.fromkeys(("kadmin", "kadmin.local"), _LDAP),
    **dict.fromkeys(("ttyd", "gotty"), _Takes(("-c",))),
    **dict.fromkeys(("mkpasswd", "sedutil-cli"), _Takes((), (((), 0),))),
    **dict.fromkeys(("iw", "iwconfig"), _Takes((), ((("key",), 0), (("keys",), 0), (("enc",), 0)))),
    "curl": _CURL,
    "wget": _Takes(("--user=",)),
    "lftp": _LFTP,
    "ncftp": _SQL,
    "ncftpput": _SQL,
    "ncftpget": _SQL,
    "net": _Takes(_SAMBA.options, ((("use",), 1),)),
    "ldappasswd": _Takes(("-w", "-s", "-a")),
    "ipa-client-install": _LDAP,
    "ngrok": _Takes(),
    "rabbitmqctl": _Takes(
        (), tuple(((verb,), 1) for verb in ("add_user", "change_password", "authenticate_user"))
    ),
    "wandb": _Takes((), ((("login",), 0),)),
    "aws": _Takes((), ((("configure", "set"), 1),)),
    "ngc": _Takes((), ((("config", "set"), 0),)),
    "vault": _Takes(
        (),
        (
            (("login",), 0),
            (("unwrap",), 0),
            (("operator", "unseal"), 0),
            (("kv", "put"), 1),
            (("kv", "patch"), 1),
        ),
    ),
    **dict.fromkeys(("consul", "nomad", "serf"), _Takes(("-encrypt=", "--encrypt="))),
    "cloudflared": _Takes((), ((("service", "install"), 0),)),
    "influx": _Takes(("-t",)),
    "kubectl": _Takes(("--from-literal=",)),
    "oc": _Takes(("--from-literal=", "-p", "-t")),
    "gh": _Takes((), ((("secret", "set"), 1),)),
    "yarn": _Takes((), ((("config", "set"), 1),)),
    "poetry": _Takes((), ((("config",), 1),)),
    "signtool": _Takes(("/p",)),
    "virsh": _Takes((), ((("secret-set-value",), 1),)),
    "db2": _Takes((), ((("using",), 0),)),
    "crm_resource": _Takes(("-v", "--parameter-value=")),
    "newrelic-install": _Takes(("-k",)),
    "npm": _Takes((), ((("config", "set"), 1), (("set",), 1))),
    "openssl": _Takes(
        ("-pass", "-passin", "-passout", "-k", "-K", "-psk", "-hmac", "-macopt"),
        ((("passwd",), 0),),
    ),
    "ssh-keygen": _Takes(("-N", "-P")),
    "wpa_passphrase": _Takes((), (((), 1),)),
    "rclone": _Takes((), ((("obscure",), 0), (("config", "create"), 2), (("config", "update"), 1))),
    "iscsiadm": _Takes(("-v", "--value=")),
    "expect": _Takes(("-c",)),
    "x11vnc": _Takes(("-passwd",)),
    "xfreerdp": _Takes(("/p:",)),
    "crictl": _Takes(("--creds=", "--auth=")),
    "ctr": _Takes(("-u", "--user=")),
    "restic": _Takes(("--insecure-password=",)),
    "tailscale": _Takes(("--auth-key=", "--authkey=")),
    "open": _LFTP,  # a command of lftp itself: lftp -e "open -u USER,PASSWORD HOST"
    "ipmitool": _Takes(
        ("-P", "-k", "-y"), ((("user", "set", "password"), 1), (("user", "test"), 2))
    ),
    "nvme": _Takes(("-S", "-C")),
    "rman": _Takes((), ((("target",), 0), (("catalog",), 0), (("auxiliary",), 0))),
    "samba-tool": _Takes(_SAMBA.options, ((("user", "create"), 1), (("user", "add"), 1))),
    "scontrol": _Takes((), ((("token",), 0),)),
    "weka": _Takes((), ((("user", "login"), 1), (("user", "add"), 2))),
    "wg": _Takes(),
    "nmcli": _Takes(),
    "pppd": _Takes(),
    "skopeo": _Takes(("-p", "--src-creds=", "--dest-creds=")),
    "wbinfo": _Takes((*_SAMBA.options, "-a", "-K", "--authenticate=", "--krb5auth=")),
    "transmission-remote": _Takes(("-n", "--auth=")),
    "transmission-daemon": _Takes(("-v",)),
    "SMCIPMITool": _Takes((), (((), 2),)),
    "hdparm": _Takes(
        tuple(
            f"--security-{what}="
            for what in ("unlock", "erase", "erase-enhanced", "disable", "set-pass")
        )
    ),
    "ip": _Takes((), tuple((("xfrm", kind), 1) for kind in ("enc", "auth", "auth-trunc", "aead"))),
    **dict.fromkeys(("sendemail", "sendEmail"), _Takes(("-xp",))),
    "swaks": _Takes(("-ap",)),
    "dsmc": _Takes((), ((("set", "password"), 0),)),
}
_SAYS = frozenset({"echo", "printf", "yes"})
# Programs that read what `echo` prints, and do not take secrets that way.
_PLAIN_READERS = frozenset({
    "awk", "bc", "cat", "cut", "dd", "egrep", "grep", "install", "logger", "patch", "sed", "sort",
    "tee", "tr", "wc", "xargs",
})  # fmt: skip
# What of a command says that its input is a secret, so that a here-document is one.
_STDIN_READERS = frozenset({"chpasswd", "cryptsetup", "kinit", "passwd", "smbpasswd"})
_READS_STDIN = regex(r"--[a-z-]{0,40}stdin|--passphrase-fd(?:=0)?")
_HERE = regex(r"(?<!<)<<-?[ \t]*\\?[\"']?(\w{1,64})")
_PIPES = frozenset({"|", "|&"})
# How the name of an option ends that takes a secret; so does a word before its value, as in
# `wifi-sec.psk X`.
_NAMED = regex(
    r"(?:(?<!by)(?<!com)pass(?:word(?:eval)?|wd|phrase|code|in|out)?|pwd|secret|token|credentials?"
    r"|bearer|psk|community|"
    rf"(?:proxy|basic)-?auth|account\.key\.[\w.-]{{1,40}}|(?:[_.-]|api|access|auth|security)key"
    rf"|[_-](?:jwt|pat|sas)|secret[_-]?id|_secret_\w{{1,20}}|{PINS}|(?<=--)pin)(?:_mutual|\d)?\Z",
    re.IGNORECASE,
)
# One of these is in each name of a secret, here and in secrets.py: looking for words costs a tenth
# of a pattern.
_SIGNS: Final = (
    "key", "pass", "auth", "token", "secret", "pw", "cred", "pin", "pat", "sas", "jwt", "psk",
    "community", "bearer", "signature", "string", "runtimeargs",
)  # fmt: skip
_LONGEST_NAME: Final = 48  # characters from the end of an option that its name is looked for in
_LONGEST_CLUSTER: Final = 8  # characters of one-letter options that are written as one word: -sSfLu
_USERS = frozenset(
    {
        "-u",
        "-U",
        "--user",
        "--username",
        "--userpwd",
        "--proxy-user",
        "--creds",
        "--login",
        "--basic-auth",
    }
)
_ATTACHED_USER = regex(
    r"(?P<name>-[uU]|--(?:[a-z]+-)?user(?:name|pwd)?=|--creds=|--login="
    r"|--basic-auth=)[^\s:%=/]+[:%].+",
    re.DOTALL,
)
_NO_PASSWORD = regex(r"[\d.:,@-]+|[+/].*|.*://.*|\(masked\)", re.DOTALL)
# What -p names besides a secret: ports, folders, a word of the program's own.
_NO_SECRET = regex(
    r"[\d.:,/-]+(?:/(?:tcp|udp|sctp))?|[/.~$%{<-].*|[a-z]+(?:[-_.,=][a-z]+)*|[A-Z][A-Za-z]+"
    r"|\(masked\)",
    re.DOTALL,
)
_HARMLESS: Final = frozenset(
    {"", "yes", "no", "true", "false", "none", "null", "on", "off", "0", "1", "(masked)"}
)
_BLANK: Final = r"\\(?:040|011|x20|x09)"  # as fstab(5) and systemd.syntax(7) write one in a word
_TOKEN = regex(
    rf"(?P<blank>(?:\s|\\\n|{_BLANK})+)|(?P<here>\d?<<<)|(?P<op>\|\||&&|\|&|[;|`)]|&(?!>)|<?\((?!masked\)))|"
    r"(?P<redirect>&>|\d?[<>]+(?:&\d?)?)|"
    r"(?P<word>(?:\(masked\)|(?!"
    rf"{_BLANK})\\[^\n]|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s;|&()`<>'\"\\]|['\"]|(?!{_BLANK})\\)+)",
    re.DOTALL,
)
# How the name of an option ends whose value is a command: ssh_command=sshpass.
_RUNS = regex(r"(?:command|cmd|exec|program|helper|rsh|shell)\Z", re.IGNORECASE)
_QUOTED = regex(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_AROUND: Final = "\"'[]{}(),;"
# what may be before a program: `ExecStart=-/usr/bin/x`, `["x", ...]`
_BEFORE: Final = "-@:+!|\"'[{(\\"
_ARGUMENT: Final = 6
_TMPFILES = regex(r"[wfF][-+!=~^$]{0,7}")  # a line of tmpfiles.d(5) that writes its seventh word
_MAY_TAKE = regex(
    r"(?<![\w-])--?[A-Za-z]|(?m:^[wfF][-+!=~^$]{0,7}[ "
    r"\t]+/)|<<|/p:|\\(?:040|x20)|\b(?:echo|printf|yes|"
    rf"{'|'.join(re.escape(key) for key, one in _PROGRAMS.items() if one.verbs or not one.options)}"
    r")(?![\w-])"
)


def mask_commands(text: str) -> str:
    """Text with the secrets masked that commands in it are given. All else stays as it is, to the
    character.
    """
    return _mask_text(text, 0)


def _mask_text(text: str, depth: int) -> str:
    # To split a text into words costs far more than one search, and most texts hold no such
    # command.
    if not _MAY_TAKE.search(text):
        return text
    lines = _split_lines(mask_documents(text))
    return "".join(_mask_line(line, depth) if _MAY_TAKE.search(line) else line for line in lines)


def mask_documents(text: str) -> str:
    """Text with the lines of the here-documents masked that a command reads for a secret: `sudo -S
    true <<EOF`. Of a document without an end only the first line is one: the text may be a part of
    a script.
    """
    if "<<" not in text:
        return text
    lines = text.splitlines(keepends=True)
    last = {line.strip(): number for number, line in enumerate(lines)}
    end, is_secret = "", False
    for number, line in enumerate(lines):
        if is_secret and line.strip() != end:
            lines[number] = MASK * bool(line.strip()) + line[len(line.rstrip()) :]
            is_secret = last.get(end, 0) > number
        elif here := _HERE.search(line):
            words = line.split()
            end, is_secret = here[1], _reads_secret(words) or any(map(_is_secret_path, words))
        else:
            is_secret = False
    return "".join(lines)


def _split_lines(text: str) -> Iterator[str]:
    """The lines with their ends; one that a backslash or a pipe continues goes with the next."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        kept.append(line)
        if not line.endswith(("\\\n", "|\n")):
            yield "".join(kept)
            kept = []
    yield "".join(kept)


class _Word(NamedTuple):
    """A word of a line: where it is, and what it says without quotes and brackets."""

    raw: str
    plain: str
    place: int  # in the pieces of the line


class _Command:
    """A command of a line. Others are inside: `$(...)`, `<(...)`, backticks, and the group `(...)`,
    which is one.
    """

    def __init__(
        self, outer: int | None = None, begin: str = "", *, is_group: bool = False
    ) -> None:
        self.outer = outer  # the command that this one is inside of, by its number in the line
        self.begin = begin  # what it is inside of begins with
        self.is_group = is_group
        self.reader: int | None = None  # the command that reads its output
        self.words: list[_Word] = []


def _mask_line(line: str, depth: int) -> str:
    pieces: list[str] = []
    commands = [_Command()]
    command, is_here = 0, False
    for token in _TOKEN.finditer(line):
        piece = token[0]
        if token["word"]:
            if is_here:
                piece = MASK
            else:
                plain = (
                    piece
                    if MASK in piece
                    else _QUOTED.sub(_remove_quotes, piece[:LONGEST]).strip(_AROUND)
                )
                commands[command].words.append(_Word(piece, plain, len(pieces)))
            is_here = False
        elif token["here"]:
            is_here = True
        elif operator := token["op"]:
            command = _next_command(operator, commands, command)
        pieces.append(piece)
    for one, is_given in zip(commands, _feeds_secret_reader(commands), strict=True):
        masked = mask_words(word.plain for word in one.words)
        echoed = _mask_echo(one.words) if is_given else repeat(None)
        for word, new in zip(one.words, map(_take_either, masked, echoed), strict=True):
            pieces[word.place] = (
                _mask_quoted(word.raw, depth) if new is None else _quote_again(word.raw, new)
            )
    return "".join(pieces)


def _take_either(first: str | None, second: str | None) -> str | None:
    return second if first is None else first


def _next_command(operator: str, commands: list[_Command], command: int) -> int:
    """The number of the command that goes on behind an operator; adds it where it begins there."""
    last = commands[command]
    if operator == ")" or operator == last.begin == "`":
        if last.outer is not None:
            return last.outer
        commands.append(_Command())
    elif operator in {"(", "<(", "`"}:
        commands.append(
            _Command(command, operator, is_group=operator == "(" and not _ends_with_dollar(last))
        )
        if operator == "<(":
            commands[-1].reader = command
    else:
        commands.append(_Command(last.outer, last.begin, is_group=last.is_group))
        if operator in _PIPES:
            last.reader = len(commands) - 1
    return len(commands) - 1


def _remove_quotes(match: re.Match[str]) -> str:
    return next((part for part in match.groups() if part is not None), "")


def _quote_again(raw: str, masked: str) -> str:
    """A masked word in the quotes and brackets of the one that it replaces, so that JSON stays
    JSON.
    """
    if MASK in raw:
        return raw
    start = raw[: len(raw) - len(raw.lstrip(_AROUND))]
    end = raw[len(raw.rstrip(_AROUND)) :]
    return (
        f"{start}{masked}{end}"
        if start.count('"') == end.count('"') and start.count("'") == end.count("'")
        else masked
    )


def _mask_quoted(raw: str, depth: int) -> str:
    """A word with the commands masked that are quoted in it: `sh -c "curl -u X"`, RUN+="..."."""
    if depth == _DEEPEST or not ('"' in raw or "'" in raw):
        return raw

    def inner(found: re.Match[str]) -> str:
        text = found[0]
        return (
            f"{text[0]}{_mask_text(text[1:-1], depth + 1)}{text[-1]}" if text[0] in "\"'" else text
        )

    return _QUOTED.sub(inner, raw)


def _ends_with_dollar(command: _Command) -> bool:
    """Whether what a parenthesis opens behind a command is a part of it: `$(...)`."""
    return bool(command.words) and command.words[-1].raw.endswith("$")


def _feeds_secret_reader(commands: Sequence[_Command]) -> list[bool]:
    """For each command whether it prints its words into a file of secrets, or for a command that
    may take them as a secret: `echo X | tee f | gpg --passphrase-fd 0`, `docker login
    --password-stdin < <(echo X)`.
    """
    takes = [_may_take(command.words) for command in commands]
    for command in commands:
        if command.reader is None and command.is_group and command.outer is not None:
            command.reader = commands[command.outer].reader
    for number, command in reversed(list(enumerate(commands))):
        if command.reader is not None and command.reader > number:
            takes[number] = takes[number] or takes[command.reader]
    into = [any(_is_secret_path(word.plain) for word in command.words) for command in commands]
    for number, command in reversed(list(enumerate(commands))):
        if command.reader is not None and command.reader > number:
            into[number] = into[number] or into[command.reader]
    return [
        (into[number] or (command.reader is not None and takes[command.reader]))
        and any(_name_program(word.plain) in _SAYS for word in command.words)
        for number, command in enumerate(commands)
    ]


def _is_secret_path(word: str) -> bool:
    """Whether what is written into this file is a secret: `echo X > /sys/.../auth/password`."""
    return word.lstrip(">").startswith("/") and has_secret_name(word)


def _may_take(words: Sequence[_Word]) -> bool:
    """Whether a command may take what it reads for a secret."""
    plain = [word.plain for word in words]
    known = (
        name for name in map(_name_program, plain) if name in _PLAIN_READERS or name in _PROGRAMS
    )
    return bool(words) and (_reads_secret(plain) or next(known, "") not in _PLAIN_READERS)


def _reads_secret(words: Sequence[str]) -> bool:
    """Whether a command says that what it reads is a secret."""
    names = set(map(_name_program, words))
    return (
        not _STDIN_READERS.isdisjoint(names)
        or any(map(_READS_STDIN.fullmatch, words))
        or ("sudo" in names and any(_is_cluster(word) and "S" in word for word in words))
    )


def _is_cluster(word: str) -> bool:
    """Whether a word is options of one letter: -sSfLu."""
    return word[:1] == "-" and len(word) <= _LONGEST_CLUSTER and word[1:].isalpha()


def _mask_echo(words: Sequence[_Word]) -> Iterator[str | None]:
    is_printed = False
    for word in words:
        yield (
            MASK
            if is_printed
            and not word.plain.startswith(("-", "$"))
            and not _is_secret_path(word.plain)
            else None
        )
        is_printed = is_printed or _name_program(word.plain) in _SAYS


def _name_program(word: str, *, is_first: bool = True) -> str:
    """The program that a word may name: `/usr/bin/mysql`, `--entrypoint=mysql`, and, as the first
    word of a command, `ExecStart=mysql`; `ssh_command=sshpass` does anywhere, `o=net` further on
    names none.
    """
    if word.startswith("-") and not word.startswith("-/") and "=" not in word:
        return ""
    name = word.rpartition("/")[2]
    before, _, value = name.rpartition("=")
    return (
        value if is_first or word.startswith("-") or _RUNS.search(before[-_LONGEST_NAME:]) else name
    ).lstrip(_BEFORE)


def mask_words(words: Iterable[str]) -> list[str | None]:
    """For each word of one command what is to be shown in its place, None for one that tells no
    secret by its place.
    """
    listed = list(words)
    masked = list(_mask_words(listed))
    if len(listed) > _ARGUMENT and _TMPFILES.fullmatch(listed[0]) and has_secret_name(listed[1]):
        masked[_ARGUMENT:] = [MASK] * (len(listed) - _ARGUMENT)
    return masked


def _mask_words(words: Iterable[str]) -> Iterator[str | None]:
    """Any word may be a program (`sudo -u bob mysql`) or be called like one (the server `db`,
    `docker`): each adds what it takes to that of the programs before it.
    """
    known: set[str] = set()
    options: tuple[str, ...] = ()
    after: list[tuple[list[str], int]] = []
    asked, is_of_option = _mask_nothing, False
    for number, word in enumerate(words):
        # The value of an option may be left out, and is then asked for on the terminal (`mysql -p
        # -h HOST`): the next word is an option.
        is_value = asked is not _mask_nothing and (not word.startswith("-") or word in {"-", "--"})
        is_secret = (
            not word.startswith("-")
            and not (is_value and is_of_option)
            and _is_secret_word(after, word)
        )
        name = _name_program(word, is_first=number == 0)
        if name in _PROGRAMS and name not in known:
            known.add(name)
            options += _PROGRAMS[name].options
            after += [(list(verbs), count) for verbs, count in _PROGRAMS[name].verbs]
        if is_value:
            yield MASK if is_secret else asked(word)
            asked = _mask_nothing
            continue
        asked, is_of_option = _mask_nothing, word.startswith("-")
        option = next((one for one in options if f"{word}=".startswith(one)), "")
        letter = f"-{word[-1:]}" if _is_cluster(word) else ""
        if (word == option.rstrip("=") and option) or letter in options:
            asked, is_of_option = _mask_value, True
            yield None
        elif option:
            yield option + MASK
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            is_named = has_secret_name(name)
            if equals and is_named and value.lower() not in _HARMLESS:
                yield f"{name}={MASK}"
                continue
            is_user = word in _USERS or letter in _USERS
            if is_named and not equals:
                asked = _mask_value
            elif is_user:
                asked = _mask_user
            else:
                # Of a program that is not known, -p may name a port or a folder. Only a value that
                # looks like neither is masked.
                asked = _mask_password if word == "-p" else _mask_nothing
            attached = _ATTACHED_USER.fullmatch(word)
            yield attached["name"] + MASK if attached and "://" not in word else None
        elif is_secret:
            yield MASK
        else:
            # Two plain words (`psk X`) are a name and its value only behind a program that is
            # known. In a sentence the word behind would be lost.
            asked = (
                _mask_value
                if known and "/" not in word and has_secret_name(word)
                else _mask_nothing
            )
            yield f"pass:{MASK}" if word.startswith("pass:") else None


def _is_secret_word(after: list[tuple[list[str], int]], word: str) -> bool:
    """Whether a plain word comes after the verbs of its program and the words that are no secrets;
    counts it.
    """
    is_secret = False
    for number, (verbs, count) in enumerate(after):
        if verbs:
            after[number] = (verbs[1:] if word == verbs[0] else verbs, count)
        elif count:
            after[number] = (verbs, count - 1)
        else:
            is_secret = word != MASK
    return is_secret


def has_secret_name(name: str) -> bool:
    """Whether what is called so takes a secret, by the end of its name."""
    end = name[-_LONGEST_NAME:]
    return may_name_secret(end) and _NAMED.search(end) is not None


def may_name_secret(text: str) -> bool:
    """Whether the name of a secret may be in a text, at little cost. Other letters than ASCII's may
    stand for some.
    """
    if not text.isascii():
        return True
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS)


def _mask_nothing(word: str) -> str | None:
    del word
    return None


def _mask_value(word: str) -> str | None:
    return None if word.lower() in _HARMLESS else MASK


def _mask_user(word: str) -> str | None:
    return MASK if (":" in word or "%" in word) and not _NO_PASSWORD.fullmatch(word) else None


def _mask_password(word: str) -> str | None:
    return None if _NO_SECRET.fullmatch(word) else MASK
