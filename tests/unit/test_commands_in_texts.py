"""Every command of hosttune that a text tells people to type: the real command line takes it, and
one that is to change something has its --yes. Texts are the strings of the code, rules, profiles,
templates and documents.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
import typer

from hosttune.cli.app import build

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted([*ROOT.glob("hosttune/**/*.py"), *ROOT.glob("playbooks/**/*.py")])
PROSE = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "templates").glob("*.j2")]
    + [
        path
        for path in ROOT.glob("playbooks/**/*")
        if path.name in ("README.md", "prerm") or path.suffix == ".yml"
    ]
    + [
        path
        for folder in ("rules", "profiles")
        for path in (ROOT / "hosttune" / folder).rglob("*.yaml")
    ]
)
USAGE = typer.BadParameter.__mro__[1]  # click's UsageError; typer brings its own click
X = "X1"  # stands for what a text fills in
CALL = re.compile(r"(?<![\w/.\"-])(`*)(?:sudo )?hosttune (?=([a-z-][^`\n]*))")
FILLED = re.compile(r"\{\{.*?\}\}|\{[^{}]*\}|<[\w-]+>")
ANSWER = re.compile(r"\$\([^()]*\)")  # of another command: of pgrep(1), say
ONLY_SHOWS = re.compile(r"\b(shows?|look|preview|without)\b")
ENDS = ",;:.)\"'"


@cache
def command_line():
    return typer.main.get_command(build())


def strings(path: Path) -> Iterator[str]:
    """The texts of a module, other than docstrings: what is filled in stands as X. Of a call of a
    page's `act` and `look` the command that it makes.
    """
    source = path.read_text(encoding="utf-8").splitlines()
    tree = ast.parse("\n".join(source))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
        text = text_of(node)
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in ("act", "look")
            and node.args
        ):
            made = text_of(node.args[0])
            if made and re.match(r"[a-z]+\b", made):
                around = source[node.lineno - 1].replace(".look(", "(")
                yield f"`hosttune {made}` {around}"
        elif text and id(node) not in inner:
            yield text


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else X for part in node.values)
    return ""


def texts(path: Path) -> Iterator[str]:
    if path.suffix == ".py":
        yield from strings(path)
    else:
        text = path.read_text(encoding="utf-8")
        yield re.sub(
            r"`[^`\n]*\n[^`\n]*`", lambda code: " ".join(code[0].split()), text
        )  # broken over a line end


@cache
def calls(path: Path) -> tuple[tuple[tuple[str, ...], str], ...]:
    """(words behind `hosttune`, the text from there on)."""
    found = []
    for text in texts(path):
        for call in CALL.finditer(text):
            words = FILLED.sub(X, ANSWER.sub("1", call[2])).split("#")[0].split()
            name = words[0].rstrip(ENDS) if words else ""
            is_command = call[1] and re.fullmatch(r"[a-z]+", name)
            if name in command_line().commands or is_command:
                found.append(
                    (tuple(words), " ".join(text[call.start() : call.end(2) + 80].split()))
                )
    return tuple(found)


def typed(words: Sequence[str]) -> list[str]:
    """The words that belong to the command, by what it takes: prose goes on behind most of them."""
    command = command_line()
    taken: list[str] = []
    room = 0
    value_of = ""
    for word in words:
        plain = word.strip("[]").split("|")[0].rstrip(ENDS).strip("\"'()")
        is_last = word[-1] in ENDS
        if value_of:
            taken.append(plain)
            value_of = ""
        elif hasattr(command, "commands"):
            taken.append(plain)
            if plain not in command.commands:
                break
            command = command.commands[plain]
            room = sum(
                10 if one.nargs < 0 else one.nargs
                for one in command.params
                if one.param_type_name == "argument"
            )
        elif plain == "--":
            return [*taken, "--", "true"]
        elif plain.startswith("-") and len(plain) > 1:
            taken.append(plain)
            name = plain.partition("=")[0]
            option = next(
                (one for one in command.params if name in (*one.opts, *one.secondary_opts)), None
            )
            takes_value = option is not None and not option.is_flag and not option.count
            value_of = name if takes_value and "=" not in plain else ""
        elif room and (
            re.search(r"[A-Z\d/.@]|[a-z]-[a-z]", plain)
            or plain in {"yesterday", "live", "all", *FOLLOWS}
        ):
            if plain.strip("."):
                taken.append(plain)
                room -= 1
        else:
            break
        if is_last:
            break
    return taken


FOLLOWS = {path.stem for path in (ROOT / "hosttune" / "rules").rglob("*.yaml")} | {
    path.stem for path in (ROOT / "hosttune" / "facts").rglob("*.py")
}


def refusal(words: list[str]) -> str:
    """Why the command line does not take them; empty where it does. A command alone may only be
    named.
    """
    context = None
    command = command_line()
    rest = list(words)
    while True:
        try:
            if hasattr(command, "commands"):
                name, inner, rest = command.resolve_command(
                    typer.Context(command, parent=context), rest
                )
                context, command = typer.Context(command, parent=context, info_name=name), inner
                if hasattr(command, "commands") and not rest:
                    return ""
                continue
            command.make_context(command.name, rest, parent=context)
        except typer.Exit:  # --help
            return ""
        except USAGE as error:
            is_named = type(error).__name__ == "MissingParameter" and not rest
            return "" if is_named else error.format_message()
        return ""


@pytest.mark.parametrize(
    "path",
    [path for path in (*CODE, *PROSE) if calls(path)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_each_command_that_a_text_names_is_taken_and_does_what_it_says(path):
    faults = []
    for words, text in calls(path):
        command = typed(words)
        is_name = text in ("hosttune apply", "hosttune undo")  # of a report
        changes = command[:1] in (["apply"], ["undo"]) and not (is_name or ONLY_SHOWS.search(text))
        if why := refusal(command) or (
            "it changes nothing without --yes" if changes and "--yes" not in command else ""
        ):
            faults.append((why, " ".join(command), text))
    assert faults == []


def test_commands_are_found_filled_and_judged():
    found = [command for path in (*CODE, *PROSE) for command, _ in calls(path)]
    assert len(found) > 200
    assert typed(["undo", "--rule", "X1", "--yes", "takes", "it", "back"]) == [
        "undo",
        "--rule",
        "X1",
        "--yes",
    ]
    assert typed(["explain", "gpu-errors", "says", "why"]) == ["explain", "gpu-errors"]
    assert typed(["plan", "shows", "it"]) == ["plan"]
    assert refusal(["undo", "X1", "--yes"]) == ""
    assert refusal(["explain"]) == ""  # it is only named
    assert "--nothing" in refusal(["plan", "--nothing"])
    assert "helth" in refusal(["helth"])
    assert "--pid" in refusal(["watch", "--pid", "X1"])


# Put into a command as it is: what was quoted before, and what holds a whole command.
AS_IT_IS = {
    "actions/gate/ready.py": {"run.digest[:12]"},
    "actions/trial/trial.py": {"run"},
    "actions/trial/state.py": {"back"},
    "choices/dpkg_stop.py": {"force"},
    "choices/driver_state.py": {"why"},
    "choices/driver_states/branch_moves.py": {"command", "hold", "pinning", "stay"},
    "choices/driver_states/modules.py": {"built"},
    "choices/driver_states/packages.py": {"names"},
    "choices/drivers/change.py": {"operands"},
    "choices/drivers/nvidia_archive.py": {"known", "names"},
    "choices/drivers/switches.py": {"reset_all(facts)"},
    "choices/other_build.py": {"held"},
    "choices/next_kernel.py": {
        "again",
        "files",
        "folder",
        "gcc",
        "kept",
        "kernel",
        "link",
        "number",
    },
    "cli/common.py": {
        "spell_program()",
        "quote_for_shell(words)",
        "_spell_chosen(asdict(look)) if look else ''",
    },
    "cli/going_on.py": {"then"},
    "cli/init.py": {"spell_program()"},
    "engine/rules/trusted.py": {"name", "home", "spoilt", "copy"},
    "facts/apt_decisions.py": {"update"},
    "facts/containers/known_holes.py": {"names", "number"},
    "facts/gpu/candidates.py": {"install"},
    "facts/gpu/gpu_holders.py": {"path"},
    "facts/gpu/gsp_firmware.py": {"_name_files(failure)"},
    "facts/gpu/ways_out.py": {
        "why",
        "_slurm_name(host)",
        "self.driver_root",
        "node",
        "command",
        "path",
    },
    "facts/storage/places.py": {"command"},
    "facts/storage/sources.py": {"more"},
    "resources/file.py": {"rule"},  # as rules are called: letters, digits and hyphens
    "resources/storage/crypt_boot.py": {"'' if _is_required(first) else ',nofail'"},
    "resources/storage/mount_causes.py": {"check", "mount_command(entry)", "name", "package"},
    "resources/storage/mount_policy.py": {"remount(view.target, 'relatime')"},
    "resources/storage/tmpfs.py": {"self.size"},
    "views/page.py": {"words", "self.there", "self.only"},
}


def test_names_of_a_host_are_quoted_in_commands_for_root():
    """A mount point, a unit or a package of a record can be called anything, and people copy the
    line.
    """
    package, bare = ROOT / "hosttune", set()
    for path in sorted(package.rglob("*.py")):
        place = str(path.relative_to(package))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            begins = next(
                (
                    i
                    for i, one in enumerate(parts)
                    if isinstance(one, ast.Constant) and "sudo " in one.value
                ),
                99,
            )
            filled = {
                ast.unparse(one.value)
                for one in parts[begins:]
                if isinstance(one, ast.FormattedValue)
            }
            bare |= {
                (place, one)
                for one in filled
                if not re.search(r"\bquote\b|\bjoin\(|^[A-Z_]+$", one)
            }
    assert bare == {(place, one) for place, known in AS_IT_IS.items() for one in known}
