"""Commands of crontabs, units and scripts that remove, or may remove, by access time. Pure.

A bounded search of the text, line by line. What asks for access times counts as a purge by them. Neither variables nor
`cd` are followed: where the folder is not written in the command itself, the place is /, which is everywhere.

Sources: find(1), -atime, -amin, -anewer, -used, -newerXY; tmpwatch(8), tmpreaper(8), stmpclean(8); stat(1); ls(1);
zshexpn(1), Glob Qualifiers; perlfunc(1), -X; systemd-tmpfiles(8); slurm.conf(5), Prolog and Epilog.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.storage.ageing_files import AgeRule, normalize_path, tree_of
from hosttune.facts.storage.ageing_rows import LONGEST, commands_of, told_of
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts.storage.ageing_rows import CommandRow, ShellCommand

# What asks for access times in a line without its quotes. Every repetition is bounded: users write crontabs, too.
_ASKS = regex(
    r"(?<![\w*.-])-(?:a(?:time|min|newer)|used|newera[aBcmt])\b(?:\s{1,9}[-+]?\w{1,40})?|"
    r"-f?printf\b[^\n]{0,200}?%[-0-9.]{0,9}[Aa]|\blfs\s{1,9}find\s[^|;&\n]{0,1000}?\s-A\b|"
    r"(?<![\w.-])(?:tmpreaper|tmpwatch|stmpclean)(?=\s{1,9}[-\d$])|"
    # with a file of its own, which is not read
    r"\bsystemd-tmpfiles(?=\s[^|;&\n]{0,1000}?--clean)(?:\s{1,9}-\S{1,200}){0,9}\s{1,9}[^-\s|;&<>\d]"
)
_TEST = regex(r"-[anu]\w+ [-+]?\w+")
_CLEANER = regex(r"(?:.*/)?(?:tmpreaper|tmpwatch|stmpclean)", re.DOTALL)
_FIND = regex(r"(?:.*[(`{/])?(?:find|bfs)", re.DOTALL)
_PERIOD = regex(r"\d+[smhdw]?$|\$")
_OPTION = regex(r"-[HLPEXdsx]+|-O\d?|-D")
_END = regex(r"[;|&\n]")
# Of other programs and languages.
_MENTION = regex(
    r"\b(?:st|stx)_atime?|\bST_ATIME\b|\bgetatime\b|\blast_?[aA]ccess(?:ed|_?[tT]ime)\b|\.atime(?:_?ns|Ms)?\b|\.Atim\b|"
    r"\(stat\b[^\n]{0,200}\)\s{0,9}\[8\]|\bos\.l?stat\([^\n]{0,200}\)\s{0,9}\[7\]|"
    r"\bstat\s[^|;\n]{0,200}%[-+ #0-9.]{0,9}[xX]|\bls\s+(?:-\S{1,40}\s+){0,9}-[a-zA-Z]{0,20}u|"
    r"--time[= ](?:atime|access|use)\b|\bhf\s+cache\s[^|;\n]{0,200}accessed|\bhuggingface-cli\s+delete-cache\b|"
    # perl: unlink if -A $_ > 30
    r"(?:\b(?:if|unless|and|or|return|not|while|until)\s|[({!&|,?])[\s(]{0,9}-A\s{0,9}(?:\$|_\b|[\"'/<>)])|"
    r"(?<![\w-])-A\s{0,9}(?:\$\w{1,40}|_)?\s{0,9}[<>]=?\s{0,9}\d|"
    # zsh: rm /data/**/*(.a+30)
    r"(?:\((?=[./^])|(?<![\w)\]])\*\()[./@=*%^NDLF-]{0,9}a[Mwhms]?[-+]\d"
)
_QUOTES = str.maketrans("", "", "\"'\\")
# What is before a program: the fields of a crontab, variables, options, and programs that start others.
_BEFORE = regex(
    r"[\d*,/-]+|@\w+|\w+=.*|-.*|\d+[smhd]?|[!{]|(?:/\S+/)?(?:sudo|nice|ionice|chrt|timeout|flock|env|nohup|setsid|exec|command|"
    r"time|chronic|run-parts|xargs|if|while|then|do|else|elif|until|(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby)",
    re.DOTALL,
)
_NAME = regex(r"[\w.+-]+")
_SLURM = regex(
    r"^[^\S\n]*(?:(?:Task|Srun)?(?:Prolog|Epilog)(?:Slurmctld)?|HealthCheckProgram)\s*=\s*([^\s#,]+)",
    re.IGNORECASE | re.MULTILINE,
)
_SCRIPT = regex(r"\.(?:sh|bash|zsh|ksh|py|pl|rb)$")
# Programs of the distribution lie here; they are no scripts of a site, unless their name says so.
_PROGRAMS = regex(r"/(?:usr/)?(?:bin|sbin|lib|lib64|libexec|share|games)/|/(?:proc|sys|dev|run)/")
_PROCESS_A_ROW = frozenset({"crontab", "table", "anacrontab", "unit"})  # each row is a process of its own
_DEEPEST = 4  # of lines quoted in lines
# A folder is joined with each script that is started from it, so what comes out of one file is bounded, in characters.
_MOST_JOINED = 1 << 20
_LONGEST_AGE = 80  # characters that are kept: each folder of a command has it


def rules_in(rows: tuple[CommandRow, ...], name: str) -> tuple[AgeRule, ...]:
    """What the command lines of a file may remove by access time. A place is a folder that the command names with its
    whole path. All else is /.
    """
    return tuple(rule for row in rows if len(row.text) <= LONGEST for rule in _of_row(row, f"{name}:{row.number}"))


def asks_access_times(text: str) -> bool:
    """Whether a text asks for access times."""
    return _ASKS.search(text.translate(_QUOTES)) is not None or _MENTION.search(text) is not None


def _of_row(row: CommandRow, source: str) -> Iterator[AgeRule]:
    written = told_of(row)
    if not asks_access_times(written):
        return
    text = written.translate(_QUOTES)
    read = 0
    for part in _END.split(text):
        asks = _ASKS.findall(part)
        places = _find_places(part.split()) if asks else []
        read += len(asks) if places else 0
        tests = [" ".join(ask.split()) for ask in asks]
        age = next((test for test in tests if _TEST.fullmatch(test)), "")[:_LONGEST_AGE] or _find_period(part.split())
        yield from (AgeRule(place, age, source, uses_atime=True) for place in places)
    if len(_ASKS.findall(text)) > read or _MENTION.search(written):
        yield AgeRule("/", "", source, uses_atime=True)


def _find_places(words: list[str]) -> list[str]:
    """The folders that a find or a cleaner names; what is too long for a name names nothing."""
    finds = [index for index, word in enumerate(words) if _FIND.fullmatch(word)]
    if len(finds) > 1 or "-files0-from" in words:
        return []
    if finds:
        rest = words[finds[0] + 1 :]
        while rest and _OPTION.fullmatch(rest[0]):
            del rest[: 2 if rest[0] == "-D" else 1]
        end = next((index for index, word in enumerate(rest) if word.startswith(("-", "(", "!"))), len(rest))
        paths = rest[:end] or ["."]
    elif age := _age_at(words):
        paths = [normalize_path(word) for word in words[age + 1 :] if not re.match(r"-|\d*[<>]|#", word)]
    else:
        return []
    return [tree for tree in map(tree_of, paths) if len(tree) < PATH_MAX]


def _age_at(words: list[str]) -> int:
    """Where `tmpreaper [options] AGE FOLDER...` has its age; 0 where it has none."""
    start = next((index for index, word in enumerate(words) if _CLEANER.fullmatch(word)), len(words))
    return next((index for index in range(start + 1, len(words)) if _PERIOD.match(words[index])), 0)


def _find_period(words: list[str]) -> str:
    age = words[at][:_LONGEST_AGE] if (at := _age_at(words)) else ""
    return f"{age}h" if age.isdigit() else age  # a bare number counts hours


def scripts_in(rows: tuple[CommandRow, ...], kind: str = "script") -> dict[str, int]:
    """The programs that command lines start and that may be scripts of a site, each with the line that starts it first.
    A name without a path may lie in /usr/local. An empty name: of a script, or of more of them than are followed, the
    name cannot be told.
    """
    found: dict[str, int] = {}
    here = ""
    left = _MOST_JOINED
    for row in rows:
        here = "" if kind in _PROCESS_A_ROW else here
        for command in commands_of(told_of(row)) if len(row.text) <= LONGEST else ():
            for words in started_by(command):
                for path in _paths_of(words, here):
                    left -= len(path) if here else 0
                    found.setdefault(path if left > 0 else "", row.number)
                here = words[1] if len(words) > 1 and words[0] == "cd" else here
        if left <= 0:
            break
    return found


def started_by(command: ShellCommand, level: int = 0) -> Iterator[list[str]]:
    """The words of a command without what is before the program itself; what is quoted as one word is a line."""
    words = list(command.words)
    while words and _BEFORE.fullmatch(words[0]):
        skipped = words.pop(0).rpartition("/")[2]
        del words[: 1 if skipped == "flock" and words and not words[0].startswith("-") else 0]
    if words and " " in words[0] and level < _DEEPEST:
        for inner in commands_of(words[0]):
            yield from started_by(inner, level + 1)
    elif words:
        yield words


def read_in(command: ShellCommand) -> Iterator[str]:
    """What `. FILE` and `source FILE` name in a command; a backtick where another command says it."""
    for words in started_by(command):
        if words[0] in {".", "source"} and (len(words) > 1 or command.after == "`"):
            yield words[1] if len(words) > 1 else "`"


def _paths_of(command: list[str], here: str) -> Iterator[str]:
    name = command[0]
    if name.startswith("/"):
        yield from (name,) if may_be_script(name) else ()
    elif name.startswith("./") or _SCRIPT.search(name):
        is_short = len(here) + len(name) < PATH_MAX
        yield posixpath.normpath(posixpath.join(here or "/", name)) if is_short else ""
    elif _NAME.fullmatch(name) and name not in {"done", "fi", "esac", ".", "..", "source"}:
        yield from (f"/usr/local/sbin/{name}", f"/usr/local/bin/{name}")


def may_be_script(path: str) -> bool:
    """Whether a path may be a script that a site wrote, by its name alone."""
    return _SCRIPT.search(path) is not None or _PROGRAMS.match(path) is None


def slurm_programs(content: str) -> tuple[str, ...]:
    """What a slurm.conf starts around jobs, as written: paths, or patterns of them."""
    return tuple(dict.fromkeys(match[1].strip("\"'") for match in _SLURM.finditer(content)))
