"""Commands of crontabs, units and scripts that remove, or may remove, by access time. Pure.

A look at access times in a job counts as a purge by them: what the job does with what it finds is not followed. Where a
command cannot be read to its end (variables, other languages), the place is /, which is everywhere.

Sources: find(1), -atime, -amin, -anewer, -used, -newerXY; tmpwatch(8), tmpreaper(8), stmpclean(8); crontab(5);
systemd.service(5); slurm.conf(5), Prolog and Epilog.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.facts.ageing_files import AgeRule, plain, tree_of, words_of
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CLEANER = re.compile(r"(?:^|[\s;&|/(\"'`])(tmpreaper|tmpwatch|stmpclean)[ \t]([^;&|#\n]*)")
_PERIOD = re.compile(r"\d+[smhdw]?$")
_FIND = re.compile(r"(?<![\w.-])(?:find|bfs)\s+")
_BY_ACCESS = re.compile(r"-(?:a(?:time|min|newer)|used|newera[aBcmt]|A)\b")
_PRINTS_ACCESS = re.compile(r"%[-0-9.]*(?:A[\w@+]|a)")
_OPTION = re.compile(r"-[HLPEXdsx]+|-O\d?|-D")
_MENTION = re.compile(
    r"\bst_atime|\bgetatime\b|\blast_accessed\b|\.atime\b|\(stat\b[^\n]*\)\s*\[8\]|"
    r"\bstat\s[^|;\n]*%X|\bls\s+(?:-\S+\s+)*-[a-zA-Z]*u|\bhf\s+cache\s[^|;\n]*accessed|\bhuggingface-cli\s+delete-cache\b"
)
_VARIABLE = re.compile(r"^\s*(?:export\s+|readonly\s+|local\s+)?(\w+)=[\"']?(/[^\s\"';|&]*)")
_LOOP = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]+)")
_USE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_MOVED = re.compile(r"(?:^|[\s;&|(\"'])cd\s+([^\s;&|\"')]+)")
_EXEC = re.compile(r"\s*Exec\w+\s*=")
_SEPARATOR = re.compile(r"&&|\|\||(?<!\\)[;|&()]|\b(?:then|do|else)\b")
# What stands before a program: the fields of a crontab, variables, options, and programs that start others.
_BEFORE = re.compile(
    r"[\d*,/-]+|@\w+|\w+=.*|-.*|\d+[smhd]?|[!{]|(?:/\S+/)?(?:sudo|nice|ionice|chrt|timeout|flock|env|nohup|setsid|exec|command|"
    r"time|chronic|run-parts|xargs|if|while|(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby)"
)
_NAME = re.compile(r"[\w.+-]+")
_USER = re.compile(r"^\s*(?:@\w+|(?:[\d*,/a-zA-Z-]+\s+){4}[\d*,/a-zA-Z-]+)\s+\S+\s+")
_SLURM = re.compile(
    r"^\s*(?:(?:Task|Srun)?(?:Prolog|Epilog)(?:Slurmctld)?|HealthCheckProgram)\s*=\s*([^\s#,]+)",
    re.IGNORECASE | re.MULTILINE,
)
_SCRIPT = re.compile(r"\.(?:sh|bash|zsh|ksh|py|pl|rb)$")
# Programs of the distribution lie here; they are no scripts of a site, unless their name says so.
_PROGRAMS = re.compile(r"/(?:usr/)?(?:bin|sbin|lib|lib64|libexec|share|games)/|/(?:proc|sys|dev|run)/")
_ENDS = frozenset({"|", "||", "&", "&&", ";", ")", "done", "}"})


@frozen
class Row:
    """One command line: continued lines are one."""

    number: int  # of its first line
    text: str


def rows_of(content: str, kind: str = "script") -> tuple[Row, ...]:
    """The command lines of a `script` (or a user's crontab), a `table` of the system, whose sixth field is a user, or a
    `unit`, of which those of Exec*=; no comments."""
    rows: list[Row] = []
    kept, number = "", 0
    for count, physical in enumerate(content.splitlines(), start=1):
        if not kept and physical.lstrip().startswith(("#", ";")):
            continue
        number = number if kept else count
        kept += physical.removesuffix("\\") + (" " if physical.endswith("\\") else "")
        if not physical.endswith("\\"):
            rows.append(Row(number, kept))
            kept = ""
    rows += [Row(number, kept)] * bool(kept)
    if kind == "table":
        rows = [Row(row.number, _USER.sub("", row.text)) for row in rows]
    return tuple(row for row in rows if row.text.strip() and (kind != "unit" or _EXEC.match(row.text)))


def rules_in(rows: tuple[Row, ...], name: str) -> tuple[AgeRule, ...]:
    """What the command lines of a file remove by age."""
    variables: dict[str, tuple[str, ...]] = {}
    here = ""
    rules: list[AgeRule] = []
    for row in rows:
        source = f"{name}:{row.number}"
        if assigned := _VARIABLE.match(row.text):
            variables[assigned[1]] = (assigned[2],)
        for loop in _LOOP.finditer(row.text):
            variables[loop[1]] = tuple(words_of(loop[2]))
        moves = [(move.end(), move[1]) for move in _MOVED.finditer(row.text)]
        for found in _FIND.finditer(row.text):
            place = next((path for end, path in reversed(moves) if end <= found.start()), here)
            rules += _of_find(row.text[found.end() :], place, variables, source)
        rules += _of_cleaners(row.text, source)
        if _MENTION.search(row.text):
            rules.append(AgeRule("/", "", source, uses_atime=True))
        here = moves[-1][1] if moves else here
    return tuple(rules)


def _of_find(text: str, here: str, variables: Mapping[str, tuple[str, ...]], source: str) -> Iterator[AgeRule]:
    """The folders of one find that asks for access times."""
    words = list(_until_end(words_of(text)))
    tests = [index for index, word in enumerate(words) if _BY_ACCESS.match(word) or _prints(words, index)]
    if not tests:
        return
    while words and _OPTION.fullmatch(words[0]):
        del words[: 2 if words[0] == "-D" else 1]
    start = next((index for index, word in enumerate(words) if word.startswith(("-", "(", "\\(", "!"))), len(words))
    age = next((" ".join(words[index : index + 2]) for index, word in enumerate(words) if _BY_ACCESS.match(word)), "")
    for path in words[:start] or ["."]:
        for one in _expanded(path, variables):
            where = one if one.startswith("/") or _USE.search(one) else posixpath.normpath(posixpath.join(here, one))
            for place in _expanded(where, variables):
                yield AgeRule(tree_of(place), age.rstrip("\"'"), source, uses_atime=True)


def _until_end(words: list[str]) -> Iterator[str]:
    for word in words:
        if word in _ENDS:
            return
        yield word.rstrip("\"'")
        if word.endswith((";", '"', "'")) and word != "\\;":
            return


def _prints(words: list[str], index: int) -> bool:
    return words[index - 1] in {"-printf", "-fprintf"} and _PRINTS_ACCESS.search(words[index]) is not None


def _expanded(path: str, variables: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """A path with its first variable replaced by what the same file gave it."""
    use = _USE.search(path)
    values = variables.get(use[1] or use[2], ()) if use else ()
    return tuple(path[: use.start()] + value + path[use.end() :] for value in values) if use and values else (path,)


def _of_cleaners(text: str, source: str) -> Iterator[AgeRule]:
    """`tmpreaper [options] AGE FOLDER...`: the age stands before the folders; tmpwatch looks at access times unless -m
    (modification) or -c (change) says else."""
    for match in _CLEANER.finditer(text):
        words = words_of(match[2])
        start = next((index for index, word in enumerate(words) if _PERIOD.match(word) or word.startswith("$")), None)
        if start is None:
            continue
        uses_atime = not any(re.fullmatch(r"--[mc]time|-[a-zA-Z]*[mc][a-zA-Z]*", word) for word in words[:start])
        paths = (word.rstrip("\"'") for word in words[start + 1 :] if word.startswith(("/", "$", "~")))
        age = words[start] if words[start][-1].isalpha() else f"{words[start]}h"  # a bare number counts hours
        yield from (AgeRule(tree_of(plain(path)), age, source, uses_atime) for path in paths)


def scripts_in(rows: tuple[Row, ...]) -> dict[str, int]:
    """The programs that command lines start and that may be scripts of a site, each with the line that starts it first.
    A name without a path may lie in /usr/local."""
    found: dict[str, int] = {}
    here = ""
    for row in rows:
        text = row.text.partition("=")[2].lstrip("-@:+!") if _EXEC.match(row.text) else row.text
        for command in _commands(text):
            for path in _paths_of(command, here):
                found.setdefault(path, row.number)
            here = command[1] if len(command) > 1 and command[0] == "cd" else here
    return found


def _commands(text: str) -> Iterator[list[str]]:
    """The commands of a line, without what stands before the program itself; what is quoted as one word is a line."""
    for part in _SEPARATOR.split(text):
        words = [word.strip("\"'") for word in words_of(part)]
        while words and _BEFORE.fullmatch(words[0]):
            skipped = words.pop(0).rpartition("/")[2]
            del words[: 1 if skipped == "flock" and words and not words[0].startswith("-") else 0]
        if words and " " in words[0]:
            yield from _commands(words[0])
        elif words:
            yield words


def _paths_of(command: list[str], here: str) -> Iterator[str]:
    name = command[0] if command else ""
    if name.startswith("/"):
        yield from (name,) if may_be_script(name) else ()
    elif name.startswith("./") or _SCRIPT.search(name):
        yield posixpath.normpath(posixpath.join(here or "/", name))
    elif _NAME.fullmatch(name) and name not in _ENDS:
        yield from (f"/usr/local/sbin/{name}", f"/usr/local/bin/{name}")


def may_be_script(path: str) -> bool:
    """Whether a path may be a script that a site wrote, by its name alone."""
    return _SCRIPT.search(path) is not None or _PROGRAMS.match(path) is None


def slurm_programs(content: str) -> tuple[str, ...]:
    """What a slurm.conf starts around jobs, as written: paths, or patterns of them."""
    return tuple(dict.fromkeys(match[1].strip("\"'") for match in _SLURM.finditer(content)))


def told_lines(content: str) -> str:
    """What a record keeps of a script or a user's crontab: the lines that tell of access times, the places that they
    name, and what is started; every other line is empty, so that numbers stay."""
    rows = rows_of(content)
    started: dict[int, list[str]] = {}
    for path, number in scripts_in(rows).items():
        started.setdefault(number, []).append(path)
    kept = content.split("\n")[:1] if content.startswith("#!") else [""]
    lines = kept + [""] * content.count("\n")
    for row in rows:
        is_told = _VARIABLE.match(row.text) or _LOOP.search(row.text) or _MOVED.search(row.text) or rules_in((row,), "")
        lines[row.number - 1] = row.text if is_told else "; ".join(started.get(row.number, ()))
    return "\n".join(lines)
