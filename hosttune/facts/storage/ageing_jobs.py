"""Commands of crontabs, units and scripts that remove, or may remove, by access time. Pure.

A look at access times in a job counts as a purge by them: what the job does with what it finds is not followed. Where a
command cannot be read to its end (variables, other languages), the place is /, which is everywhere.

Sources: find(1), -atime, -amin, -anewer, -used, -newerXY; tmpwatch(8), tmpreaper(8), stmpclean(8); stat(1); ls(1);
zshexpn(1), Glob Qualifiers; perlfunc(1), -X; systemd-tmpfiles(8); slurm.conf(5), Prolog and Epilog.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.storage.ageing_files import AgeRule, plain, tree_of
from hosttune.facts.storage.ageing_rows import LONGEST, commands_of, is_find, told_of
from hosttune.facts.storage.ageing_shell import MOST_JOINED, Shell
from hosttune.host.paths import PATH_MAX
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts.storage.ageing_rows import CommandRow, ShellCommand

_CLEANERS = frozenset({"tmpreaper", "tmpwatch", "stmpclean"})
_PERIOD = regex(r"\d+[smhdw]?$")
_ACCESS = r"-(?:a(?:time|min|newer)|used|newera[aBcmt])\b"
_BY_ACCESS = regex(_ACCESS)
_SAID = regex(r"(?<![\w*.-])" + _ACCESS)
_PRINTS_ACCESS = regex(r"%[-0-9.]*(?:A[\w@+]|a)")
_OPTION = regex(r"-[HLPEXdsx]+|-O\d?|-D")
# Of other programs and languages. Every repetition is bounded: anybody's crontab is looked through.
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
# A word of every command that is followed, once its quotes are gone.
_TELLS = regex(r"-a(?:time|min|newer)|-used|-newera|printf|lfs|tmpreaper|tmpwatch|stmpclean|systemd-tmpfiles")
_QUOTES = str.maketrans("", "", "\"'\\")
# What stands before a program: the fields of a crontab, variables, options, and programs that start others.
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
_SAYS = frozenset({"echo", "printf", "logger", "man", ":"})  # programs that only say their words
PROCESS_A_ROW = frozenset({"crontab", "table", "anacrontab", "unit"})  # kinds of which each row is a process of its own
_DEEPEST = 4  # of lines quoted in lines
_LONGEST_AGE = 80  # characters that are kept: each folder of a command has it


def rules_in(rows: tuple[CommandRow, ...], name: str, kind: str = "script") -> tuple[AgeRule, ...]:
    """What the command lines of a file remove by age."""
    if not any(tells(row.text) for row in rows):
        return ()
    shell = Shell(rows)
    return tuple(rule for row in rows for rule in _of_row(row, shell, f"{name}:{row.number}", kind))


def tells(text: str) -> bool:
    """Whether a text may tell of access times at all, which few do: then its commands are worth following."""
    return _TELLS.search(text.translate(_QUOTES)) is not None or _MENTION.search(text) is not None


def _of_row(row: CommandRow, shell: Shell, source: str, kind: str) -> list[AgeRule]:
    """What asks for access times and belongs to no command that could be read is a rule for /."""
    if len(row.text) > LONGEST:
        return []
    if kind in PROCESS_A_ROW:
        shell.reset()
    text = told_of(row)
    rules, claimed = _of_line(text, shell, source)
    if len(_SAID.findall(text)) > claimed or _MENTION.search(text):
        rules.append(AgeRule("/", "", source, uses_atime=True))
    return rules


def _of_line(text: str, shell: Shell, source: str, level: int = 0) -> tuple[list[AgeRule], int]:
    """(rules, how many tests by access time belong to them); a line quoted in a line is one, too."""
    rules: list[AgeRule] = []
    claimed = 0
    for command in commands_of(text):
        shell.take(command)
        for inner in (word for word in command.words if re.search(r"\s", word) and level < _DEEPEST):
            kept = shell.here
            found, count = _of_line(inner, shell, source, level + 1)
            shell.here = kept
            rules += found
            claimed += count
        found, count = _of_command(command, shell, source)
        rules += found
        claimed += count
    return rules, claimed


def _of_command(command: ShellCommand, shell: Shell, source: str) -> tuple[list[AgeRule], int]:
    words = list(command.words)
    by_access = sum(_BY_ACCESS.match(word) is not None for word in words)
    if words[0] in _SAYS and command.after != "|" and not any(">" in word for word in words):
        return [], by_access
    for index, word in enumerate(words):
        program = word.rpartition("/")[2]
        if is_find(word):
            rules = list(_of_find(words[index + 1 :], shell, source, is_lustre=words[index - 1 : index] == ["lfs"]))
            return rules, sum(_BY_ACCESS.match(word) is not None for word in words[index + 1 :])
        if program in _CLEANERS and not {"apt", "apt-get", "which", "-v", "-x"} & set(words[:index]):
            return list(_of_cleaner(program, words[index + 1 :], shell, source)), 0
        if program == "systemd-tmpfiles" and "--clean" in words[index:] and _names_file(words[index + 1 :]):
            return [AgeRule("/", "", source, uses_atime=True)], 0
    return [], 0


def _names_file(words: list[str]) -> bool:
    """Whether systemd-tmpfiles is told a file of its own, which is not looked into."""
    plain_words = [
        word for before, word in zip(["", *words], words, strict=False) if not re.fullmatch(r"\d*[<>]+", before)
    ]
    return any(not re.match(r"-|\d*[<>]", word) for word in plain_words)


def _of_find(words: list[str], shell: Shell, source: str, *, is_lustre: bool) -> Iterator[AgeRule]:
    """The folders of one find that asks for access times."""
    asks = [
        index
        for index, word in enumerate(words)
        if _BY_ACCESS.match(word) or _prints(words, index) or (is_lustre and word == "-A")
    ]
    if not asks:
        return
    tests = [index for index in asks if not _prints(words, index)]
    age = " ".join(words[tests[0] : tests[0] + 2])[:_LONGEST_AGE] if tests else ""
    places = ["/"] if "-files0-from" in words else []
    while words and _OPTION.fullmatch(words[0]):
        del words[: 2 if words[0] == "-D" else 1]
    start = next((index for index, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    for path in places or words[:start] or ["."]:
        for place in _places(path, shell):
            yield AgeRule(place, age, source, uses_atime=True)


def _places(path: str, shell: Shell) -> Iterator[str]:
    """The folders of a path; what is too long for a name names nothing."""
    return (tree for tree in map(tree_of, shell.places(path)) if len(tree) < PATH_MAX)


def _prints(words: list[str], index: int) -> bool:
    return words[index - 1] in {"-printf", "-fprintf"} and _PRINTS_ACCESS.search(words[index]) is not None


def _of_cleaner(program: str, words: list[str], shell: Shell, source: str) -> Iterator[AgeRule]:
    """`tmpreaper [options] AGE FOLDER...`: the age stands before the folders. All look at access times, but tmpwatch
    with -m or -c and no -u (of several the latest time counts), and tmpreaper with -m (-c only adds to access times).
    """
    start = next((index for index, word in enumerate(words) if _PERIOD.match(word) or word.startswith("$")), None)
    if start is None:
        return
    options = words[:start]
    letters = {letter for word in options if re.fullmatch(r"-[a-zA-Z]+", word) for letter in word[1:]}
    letters |= {"u" if word.startswith("--at") else word[2] for word in options if re.match(r"--(at|[cm]time$)", word)}
    by_else = {"tmpwatch": {"m", "c"}, "tmpreaper": {"m"}}.get(program, set())
    is_sure = not any("$" in word for word in words[: start + 1])
    uses_atime = not (letters & by_else) or "u" in letters or not is_sure
    age = words[start][:_LONGEST_AGE]
    age = age if age[-1].isalpha() else f"{age}h"  # a bare number counts hours
    paths = [word for word in words[start + 1 :] if not re.match(r"-|\d*[<>]|#", word)]
    for path in paths or (["/"] if not is_sure else []):
        yield from (AgeRule(place, age, source, uses_atime) for place in _places(plain(path), shell))


def scripts_in(rows: tuple[CommandRow, ...], kind: str = "script") -> dict[str, int]:
    """The programs that command lines start and that may be scripts of a site, each with the line that starts it first.
    A name without a path may lie in /usr/local. An empty name: of a script, or of more of them than are followed, the
    name cannot be told.
    """
    found: dict[str, int] = {}
    here = ""
    left = MOST_JOINED
    for row in rows:
        here = "" if kind in PROCESS_A_ROW else here
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
    """The words of a command without what stands before the program itself; what is quoted as one word is a line."""
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
