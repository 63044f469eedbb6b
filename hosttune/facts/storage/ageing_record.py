"""What a record keeps of the jobs that people wrote: what the same look at the record needs, and no more. Pure."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from hosttune.facts.storage.ageing_jobs import read_in, rules_in, scripts_in
from hosttune.facts.storage.ageing_rows import LONGEST, commands_of, rows_of, told_of
from hosttune.facts.storage.ageing_sourced import ENVIRONMENT_FILE, assigned_paths, environment_of
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts.storage.ageing_files import AgeRule
    from hosttune.facts.storage.ageing_rows import CommandRow

_WITH_FIELDS = frozenset({"crontab", "table", "anacrontab"})
_PERIOD = regex(r"\d{1,9}[smhdw]?")
_TEST = regex(r"-\w{1,20} [-+]?\w{1,20}")
_KEYS = ("Exec", "Environment=", "EnvironmentFile")
_PLACE = regex(r"'?[/~$][\w./@~${}*?%+:-]{0,4000}'?")
_NAMED = regex(r"'?[\w./@~${}*?%+:-]{1,4000}'?")
_GIVEN = regex(r"\w{1,80}=(?:'?/[\w./@%+:-]{0,4000}'?|\$)")
_INTERPRETER = regex(r"#!\s{0,9}[\w./-]{1,200}")


def told_lines(content: str, kind: str = "script", *, has_rules: bool = True) -> str:
    """Of a script, a user's crontab or unit the lines that ask for access times (has_rules), and what is started or
    read in; every other line is empty, so that numbers stay.
    """
    if kind == "unit":
        return _told_unit(content, has_rules=has_rules)
    rows = tuple(row for row in rows_of(content) if len(row.text) <= LONGEST)
    telling = {index for index, row in enumerate(rows) if has_rules and rules_in((row,), "")}
    started: dict[int, list[str]] = {}
    for path, number in scripts_in(rows_of(content, kind), kind).items():
        started.setdefault(number, []).extend(filter(None, [path]))
    is_script = content.startswith("#!")
    kept = content.split("\n")[:1] if is_script else [""]
    lines = kept + [""] * len(content.splitlines())  # as rows are counted
    for index, row in enumerate(rows):
        said = [f". '{word}'" for word in _reads_in(row)]
        # A file without an interpreter may be one of variables, and name a program.
        said += [f"{name}={path}" for name, path in assigned_paths(row.text) if not is_script]
        lines[row.number - 1] = row.text if index in telling else "; ".join([*said, *started.get(row.number, ())])
    return "\n".join(lines)


def bare_lines(content: str, kind: str = "script") -> str:
    """As `told_lines`, without the author's own words: what removes by age is written anew from its rule."""
    rows = tuple(row for row in rows_of(content, kind) if len(row.text) <= LONGEST)
    rules: dict[int, list[str]] = {}
    for rule in rules_in(rows, ""):
        rules.setdefault(int(rule.source.rpartition(":")[2]), []).append(_command_of(rule))
    lines = [_make_bare(line) for line in told_lines(content, kind, has_rules=False).split("\n")]
    if interpreter := _INTERPRETER.match(content):
        lines[0] = interpreter[0]
    for number, commands in rules.items():
        key, equals, rest = lines[number - 1].partition("=") if kind == "unit" else ("", "", lines[number - 1])
        lines[number - 1] = f"{key}{equals}{'; '.join(filter(None, (*dict.fromkeys(commands), rest)))}"
    if kind in _WITH_FIELDS:  # no time is read into what has none
        lines = [f": ; {line}" if line else "" for line in lines]
    return "\n".join(lines)


def _make_bare(line: str) -> str:
    """A line of `told_lines` without words that are neither paths nor of the shell."""
    key, equals, rest = line.partition("=") if line.startswith(_KEYS) else ("", "", line)
    return f"{key}{equals}{'; '.join(filter(None, map(_bare_part, rest.split('; '))))}"


def _bare_part(part: str) -> str:
    words = part.split()
    if words[:1] in ([], ["."]):
        return part if all(map(_NAMED.fullmatch, words[1:])) else f"{words[0]} $"
    return part if _PLACE.fullmatch(part) or _GIVEN.fullmatch(part) else ""


def _command_of(rule: AgeRule) -> str:
    """A command that asks for the same."""
    path = f"'{rule.path}'" if "'" not in rule.path else "'/'"
    if rule.uses_atime and _TEST.fullmatch(rule.age):
        return f"/usr/bin/find {path} {rule.age}"
    if rule.uses_atime and not rule.age:
        return ": st_atime" if rule.path == "/" else f"/usr/bin/find {path} -printf %A@"
    period = rule.age if _PERIOD.fullmatch(rule.age) else "$AGE"
    return f"/usr/sbin/tmpreaper {'' if rule.uses_atime else '-m '}{period} {path}"


def _reads_in(row: CommandRow) -> list[str]:
    return [word for command in commands_of(told_of(row)) for word in read_in(command)]


def _told_unit(content: str, *, has_rules: bool) -> str:
    starts = tuple(accumulate(map(len, content.splitlines(keepends=True)), initial=0))
    lines = [""] * len(starts)
    for row in rows_of(content, "unit"):
        if len(row.text) > LONGEST:
            continue
        key = row.text.partition("=")[0].strip()
        said = [*(f". '{word}'" for word in _reads_in(row)), *scripts_in((row,), "unit")]
        if key == "Environment":
            said = [f"{name}={path}" for name, path in assigned_paths(environment_of(row.text))]
        joined = f"{key}={(' ' if key == 'Environment' else '; ').join(filter(None, said))}"
        lines[row.number - 1] = row.text if has_rules and rules_in((row,), "") else joined
    for match in ENVIRONMENT_FILE.finditer(content):
        lines[bisect_left(starts, match.start(1)) - 1] = match[0].strip()
    return "\n".join(lines)
