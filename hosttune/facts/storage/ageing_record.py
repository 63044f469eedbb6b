"""What a record keeps of the jobs that people wrote: what the same look at the record needs, and no more. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.storage.ageing_jobs import read_in, rules_in, scripts_in
from hosttune.facts.storage.ageing_rows import LONGEST, commands_of, rows_of, told_of
from hosttune.facts.storage.ageing_shell import USE, Shell, targets
from hosttune.facts.storage.ageing_sourced import ENVIRONMENT_FILE, assigned_paths, environment_of

if TYPE_CHECKING:
    from hosttune.facts.storage.ageing_rows import CommandRow


def told_lines(content: str, kind: str = "script") -> str:
    """Of a script, a user's crontab or unit the lines that tell of access times, what they know of variables and
    folders, and what is started or read in; every other line is empty, so that numbers stay.
    """
    if kind == "unit":
        return _told_unit(content)
    rows = tuple(row for row in rows_of(content) if len(row.text) <= LONGEST)
    telling = [row for row in rows if rules_in((row,), "")]
    told = [row.text for row in telling] + [word for row in rows for word in _reads_in(row)]
    used = {use[1] or use[2] for text in told for use in USE.finditer(text)}
    started: dict[int, list[str]] = {}
    for path, number in scripts_in(rows_of(content, kind), kind).items():
        started.setdefault(number, []).append(path)
    is_script = content.startswith("#!")
    kept = content.split("\n")[:1] if is_script else [""]
    lines = kept + [""] * content.count("\n")
    shell = Shell(rows)
    for row in rows:
        said = [one for command in commands_of(row.text) for one in shell.take(command)]
        said = [one for one in said if "=" not in one or one.partition("=")[0] in used]
        given = {one.partition("=")[0] for one in said} | {one.split()[1] for one in said if one.startswith("for ")}
        said += [f"{name}=$" for name in targets(row.text) if name in used - given]
        # A file without an interpreter may be one of variables, and name a program.
        said += [f"{name}={path}" for name, path in assigned_paths(row.text) if not is_script and name not in used]
        lines[row.number - 1] = row.text if row in telling else "; ".join([*said, *started.get(row.number, ())])
    return "\n".join(lines)


def _reads_in(row: CommandRow) -> list[str]:
    return [word for command in commands_of(told_of(row)) for word in read_in(command)]


def _told_unit(content: str) -> str:
    lines = [""] * (content.count("\n") + 1)
    for row in rows_of(content, "unit"):
        if len(row.text) > LONGEST:
            continue
        key = row.text.partition("=")[0].strip()
        said = [*(f". '{word}'" for word in _reads_in(row)), *scripts_in((row,), "unit")]
        if key == "Environment":
            said = [f"{name}={path}" for name, path in assigned_paths(environment_of(row.text))]
        joined = f"{key}={(' ' if key == 'Environment' else '; ').join(said)}"
        lines[row.number - 1] = row.text if rules_in((row,), "", "unit") else joined
    for match in ENVIRONMENT_FILE.finditer(content):
        lines[content.count("\n", 0, match.start(1))] = match[0].strip()
    return "\n".join(lines)
