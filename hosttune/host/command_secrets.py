"""The words of a command that are secrets, wherever the command is: arguments of a process, a line of a unit, crontab,
script or fstab, a hook of apt or udev. Pure, and linear in the length of its input.

A command is known by its program, so `curl -u X` is masked in a unit as in a process. Options that say by their name
that a secret follows (`--password X`, `--wandb-key=X`) and `-u USER:X` are masked for every program.

Sources: the manual pages of the programs, and their own --help for those that have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hosttune.frozen import frozen
from hosttune.regex import regex

MASK: Final = "(masked)"
LONGEST: Final = 4096  # characters of one word that are looked at and kept; no secret and no path is longer
_DEEPEST: Final = 3  # of commands quoted in commands


@frozen
class _Takes:
    """Where a program takes secrets: after options, and after a number of plain words that follow its verbs."""

    options: tuple[str, ...] = ()  # `-p` is -pX and -p X, `--user=` is --user X and --user=X
    verbs: tuple[tuple[tuple[str, ...], int], ...] = ()  # ((`alias`, `set`), 2): all but the first two words after


_NONE: Final = _Takes()
_SQL = _Takes(("-p",))
_CURL = _Takes(("-u", "-U", "--user=", "--proxy-user=", "-E", "--cert=", "--pass=", "--proxy-pass="))
_LDAP = _Takes(("-w",))
_SAMBA = _Takes(("-U", "--user="))
_SNMP = _Takes(("-c", "-A", "-X"))
_PROGRAMS: Final[Mapping[str, _Takes]] = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlbinlog", "mysqlsh"), _SQL),
    **dict.fromkeys(("mariadb", "mariadb-dump", "mariadb-admin", "mariadb-backup", "mydumper", "xtrabackup"), _SQL),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "sshpass", "7z", "7za"), _SQL),
    **dict.fromkeys(("docker", "podman", "nerdctl", "skopeo", "buildah", "helm", "oras", "az", "twine"), _SQL),
    **dict.fromkeys(("useradd", "usermod", "sqlcmd", "rdesktop", "rar"), _Takes(("-p", "-P", "-hp"))),
    **dict.fromkeys(("snmpget", "snmpwalk", "snmpbulkwalk", "snmpset", "snmptrap"), _SNMP),
    **dict.fromkeys(("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami"), _LDAP),
    **dict.fromkeys(("http", "https", "xh"), _Takes(("-a", "--auth="))),
    **dict.fromkeys(("zip", "unzip", "mosquitto_pub", "mosquitto_sub", "ipmitool", "ipmi-sensors"), _Takes(("-P",))),
    **dict.fromkeys(("smbclient", "smbget", "rpcclient", "smbmap", "winexe"), _Takes(_SAMBA.options, (((), 1),))),
    **dict.fromkeys(("mc", "mcli"), _Takes((), ((("alias", "set"), 2), (("config", "host", "add"), 2)))),
    "curl": _CURL,
    "wget": _Takes(("--user=",)),
    "lftp": _Takes(("-u", "--user=")),
    "ncftp": _SQL,
    "ncftpput": _SQL,
    "ncftpget": _SQL,
    "net": _Takes(_SAMBA.options, ((("use",), 1),)),
    "ldappasswd": _Takes(("-w", "-s", "-a")),
    "redis-cli": _Takes(("-a",), ((("auth",), 0), (("AUTH",), 0))),
    "wandb": _Takes((), ((("login",), 0),)),
    "aws": _Takes((), ((("configure", "set"), 1),)),
    "ngc": _Takes((), ((("config", "set"), 0),)),
    "vault": _Takes((), ((("login",), 0), (("unwrap",), 0))),
    "influx": _Takes(("-t",)),
    "kubectl": _Takes(("--from-literal=",)),
    "oc": _Takes(("--from-literal=", "-p", "-t")),
    "gh": _Takes((), ((("secret", "set"), 1),)),
    "npm": _Takes((), ((("config", "set"), 1), (("set",), 1))),
    "htpasswd": _Takes((), (((), 2),)),
    "openssl": _Takes(("-pass", "-passin", "-passout", "-k", "-K", "-psk"), ((("passwd",), 0),)),
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
    "chpasswd": _Takes((), (((), 0),)),
    "nmcli": _Takes(),
}  # fmt: skip
_SAYS = frozenset({"echo", "printf"})
# Programs that read what `echo` prints, and to which nobody gives a secret so.
_PLAIN_READERS = frozenset(
    {
        "tee",
        "install",
        "dd",
        "patch",
        "grep",
        "egrep",
        "wc",
        "logger",
        "cat",
        "sed",
        "awk",
        "tr",
        "cut",
        "sort",
        "bc",
        "xargs",
    }
)
# How the name of an option ends that takes a secret; so does a word before its value, as in `wifi-sec.psk X`.
_NAMED = regex(
    r"(?:(?<!by)(?<!com)pass(?:word|wd|phrase|code|in|out)?|pwd|secret|token|credentials?|bearer|psk|community|"
    r"(?:[_-]|api|access|auth)key|secret[_-]?id|_secret_\w{1,20})\d?\Z",
    re.IGNORECASE,
)
_LONGEST_NAME: Final = 48  # characters from the end of an option that its name is looked for in
_LONGEST_CLUSTER: Final = 8  # characters of one-letter options that are written as one word: -sSfLu
_USERS = frozenset({"-u", "-U", "--user", "--username", "--userpwd", "--proxy-user", "--creds", "--login"})
_ATTACHED_USER = regex(r"(?P<name>-[uU]|--(?:[a-z]+-)?user(?:name|pwd)?=|--creds=|--login=)[^\s:%=/]+[:%].+", re.DOTALL)
_NO_PASSWORD = regex(r"[\d.:,@-]+|[+/].*|.*://.*|\(masked\)", re.DOTALL)
# What -p names besides a secret: ports, folders, a word of the program's own.
_NO_SECRET = regex(
    r"[\d.:,/-]+(?:/(?:tcp|udp|sctp))?|[/.~$%{<-].*|[a-z]+(?:[-_.,=][a-z]+)*|[A-Z][A-Za-z]+|\(masked\)", re.DOTALL
)
_HARMLESS: Final = frozenset({"", "yes", "no", "true", "false", "none", "null", "on", "off", "0", "1", "(masked)"})
_TOKEN = regex(
    r"(?P<blank>(?:\s|\\\n)+)|(?P<here><<<)|(?P<redirect>[<>]+)|(?P<op>\|\||&&|[;|&`)]|\((?!masked\)))|"
    r"(?P<word>(?:\(masked\)|\\[^\n]|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s;|&()`<>'\"\\]|['\"\\])+)",
    re.DOTALL,
)
_QUOTED = regex(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_AROUND: Final = "\"'[]{}(),;"
_BEFORE: Final = "-@:+!|\"'[{(\\"  # what may be before a program: `ExecStart=-/usr/bin/x`, `["x", ...]`
_MAY_TAKE = regex(
    r"(?<![\w-])--?[A-Za-z]|<<<|/p:|\b(?:echo|printf|"
    rf"{'|'.join(re.escape(name) for name, takes in _PROGRAMS.items() if takes.verbs or not takes.options)})(?![\w-])"
)


def mask_commands(text: str) -> str:
    """Text with the secrets masked that commands in it are given. All else stays as it is, to the character."""
    return _of_text(text, 0)


def _of_text(text: str, depth: int) -> str:
    if not _MAY_TAKE.search(text):
        return text
    return "".join(_of_line(line, depth) if _MAY_TAKE.search(line) else line for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    """The lines with their ends; one that a backslash continues goes with the next."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        kept.append(line)
        if not line.endswith("\\\n"):
            yield "".join(kept)
            kept = []
    yield "".join(kept)


class _Word(NamedTuple):
    """A word of a line: where it is, and what it says without quotes and brackets."""

    raw: str
    plain: str
    place: int  # in the pieces of the line


def _of_line(line: str, depth: int) -> str:
    pieces: list[str] = []
    command: list[_Word] = []
    commands: list[tuple[list[_Word], str]] = []
    is_here = False
    for token in _TOKEN.finditer(line):
        piece = token[0]
        if token["word"]:
            if is_here:
                piece = MASK
            else:
                plain = piece if MASK in piece else _QUOTED.sub(_unquoted, piece[:LONGEST]).strip(_AROUND)
                command.append(_Word(piece, plain, len(pieces)))
            is_here = False
        elif token["here"]:
            is_here = True
        elif token["op"]:
            commands.append((command, piece))
            command = []
        pieces.append(piece)
    commands.append((command, ""))
    for number, (words, operator) in enumerate(commands):
        reader = commands[number + 1][0] if operator == "|" else []
        masked = _of_echo(words) if _gives(words, reader) else _of_words(word.plain for word in words)
        for word, new in zip(words, masked, strict=True):
            pieces[word.place] = _within(word.raw, depth) if new is None else _put(word.raw, new)
    return "".join(pieces)


def _unquoted(match: re.Match[str]) -> str:
    return next((part for part in match.groups() if part is not None), "")


def _put(raw: str, masked: str) -> str:
    """A masked word in the quotes and brackets of the one that it replaces, so that JSON stays JSON."""
    if MASK in raw:
        return raw
    start = raw[: len(raw) - len(raw.lstrip(_AROUND))]
    end = raw[len(raw.rstrip(_AROUND)) :]
    return (
        f"{start}{masked}{end}" if start.count('"') == end.count('"') and start.count("'") == end.count("'") else masked
    )


def _within(raw: str, depth: int) -> str:
    """A word with the commands masked that are quoted in it: `sh -c "curl -u X"`, RUN+="..."."""
    if depth == _DEEPEST or not ('"' in raw or "'" in raw):
        return raw

    def inner(found: re.Match[str]) -> str:
        text = found[0]
        return f"{text[0]}{_of_text(text[1:-1], depth + 1)}{text[-1]}" if text[0] in "\"'" else text

    return _QUOTED.sub(inner, raw)


def _gives(words: Sequence[_Word], reader: Sequence[_Word]) -> bool:
    """Whether a command prints its words for one that may take them as a secret: `echo X | gpg --passphrase-fd 0`."""
    said = {word.plain for word in reader}
    names = {_program(word.plain) for word in reader}
    return (
        bool(reader)
        and any(_program(word.plain) in _SAYS for word in words)
        and ("-S" in said or not names & _PLAIN_READERS)
    )


def _of_echo(words: Sequence[_Word]) -> Iterator[str | None]:
    is_said = False
    for word in words:
        yield MASK if is_said and not word.plain.startswith(("-", "$")) else None
        is_said = is_said or _program(word.plain) in _SAYS


def _program(word: str) -> str:
    return (
        ""
        if word.startswith("-") and not word.startswith("-/")
        else word.rpartition("/")[2].rpartition("=")[2].lstrip(_BEFORE)
    )


def mask_words(words: Iterable[str]) -> list[str | None]:
    """For each word of one command what is to be shown in its place, None for one that tells no secret by its place."""
    return list(_of_words(words))


def _of_words(words: Iterable[str]) -> Iterator[str | None]:
    takes, asked = _NONE, _nothing
    after: list[tuple[list[str], int]] = []
    for word in words:
        if asked is not _nothing and (not word.startswith("-") or word in {"-", "--"}):
            yield asked(word)
            asked = _nothing
            continue
        asked = _nothing
        if found := _PROGRAMS.get(_program(word)):
            takes, after = found, [(list(verbs), count) for verbs, count in found.verbs]
            yield None
            continue
        option = next((one for one in takes.options if f"{word}=".startswith(one)), "")
        letter = f"-{word[-1:]}" if word[:1] == "-" and len(word) <= _LONGEST_CLUSTER and word[1:].isalpha() else ""
        if (word == option.rstrip("=") and option) or letter in takes.options:
            asked = _any
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
            asked = _any if is_named and not equals else _user if is_user else _password if word == "-p" else _nothing
            attached = _ATTACHED_USER.fullmatch(word)
            yield attached["name"] + MASK if attached and "://" not in word else None
        elif _is_told(after, word):
            yield MASK
        else:
            asked = _any if takes is not _NONE and "/" not in word and has_secret_name(word) else _nothing
            yield f"pass:{MASK}" if word.startswith("pass:") else None


def _is_told(after: list[tuple[list[str], int]], word: str) -> bool:
    """Whether a plain word comes after the verbs of its program and the words that are no secrets; counts it."""
    is_told = False
    for number, (verbs, count) in enumerate(after):
        if verbs:
            after[number] = (verbs[1:] if word == verbs[0] else verbs, count)
        elif count:
            after[number] = (verbs, count - 1)
        else:
            is_told = word != MASK
    return is_told


def has_secret_name(name: str) -> bool:
    """Whether what is called so takes a secret, by the end of its name."""
    return _NAMED.search(name[-_LONGEST_NAME:]) is not None


def _nothing(word: str) -> str | None:
    del word
    return None


def _any(word: str) -> str | None:
    return None if word.lower() in _HARMLESS else MASK


def _user(word: str) -> str | None:
    return MASK if (":" in word or "%" in word) and not _NO_PASSWORD.fullmatch(word) else None


def _password(word: str) -> str | None:
    return None if _NO_SECRET.fullmatch(word) else MASK
