"""The command tree of hosttune as values: what the manual page and the completions are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a placeholder means, where a shell can complete it.
FILES = frozenset({"FILE", "DIR", "RECORD", "PLAN", "A", "B", "OLD", "NEW", "RECORD|DIR"})
RULES = frozenset({"RULE"})


@frozen
class Parameter:
    """`names` is empty for an argument. `values` are all it can be; `is_file` if a shell completes
    it by files.
    """

    names: tuple[str, ...]
    placeholder: str
    help: str
    values: tuple[str, ...] = ()
    is_file: bool = False
    is_required: bool = False
    is_repeatable: bool = False
    panel: str = ""  # the title under which commands share it

    @property
    def takes_value(self) -> bool:
        return bool(self.placeholder)


@frozen
class Command:
    """`path` is what is typed: ("rules", "lint")."""

    path: tuple[str, ...]
    title: str
    help: str
    options: tuple[Parameter, ...]
    arguments: tuple[Parameter, ...]
    commands: tuple[Command, ...] = ()
    examples: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # all ids, at the root alone

    def walk(self) -> Iterator[Command]:
        yield self
        for command in self.commands:
            yield from command.walk()


def read_tree() -> Command:
    """The whole tree, by the typer application itself."""
    from typer.main import get_command

    from hosttune.cli.app import build
    from hosttune.engine.rules.compiled import builtin_documents

    documents = builtin_documents()
    rules, profiles = (
        tuple(sorted(one.data["id"] for one in documents if one.name.startswith(folder)))
        for folder in ("rules/", "profiles/")
    )
    return replace(_read_command(get_command(build()), (), rules, profiles), rules=rules)


def _read_command(
    command: Any, path: tuple[str, ...], rules: tuple[str, ...], profiles: tuple[str, ...]
) -> Command:
    options: list[Parameter] = []
    arguments: list[Parameter] = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        one = _read_parameter(parameter, rules, profiles)
        (options if one.names else arguments).append(one)
    options.append(Parameter(("-h", "--help"), "", "Show the help of a command and exit."))
    commands = [
        _read_command(below, (*path, name), rules, profiles)
        for name, below in getattr(command, "commands", {}).items()
        if not below.hidden
    ]
    text = (command.help or "").strip()
    title = " ".join(text.split("\n\n", 1)[0].split()).partition(". ")[0].rstrip(".")
    examples = getattr(command, "examples", ())
    return Command(path, title, text, tuple(options), tuple(arguments), tuple(commands), examples)


def _read_parameter(parameter: Any, rules: tuple[str, ...], profiles: tuple[str, ...]) -> Parameter:
    is_option = parameter.param_type_name == "option"
    # A metavar such as <auto|never> lists what a parser of ours takes.
    metavar = parameter.metavar or ""
    listed = tuple(metavar.strip("<>").split("|")) if metavar.startswith("<") else ()
    choices = tuple(getattr(parameter.type, "choices", ())) or listed
    placeholder = parameter.metavar or ("|".join(choices) if choices else parameter.name.upper())
    kind = placeholder.strip("[].")
    values = choices or (
        rules if kind in RULES else profiles if parameter.name == "profile" else ()
    )
    return Parameter(
        names=tuple(sorted(parameter.opts, key=len)) if is_option else (),
        placeholder="" if is_option and parameter.is_flag else placeholder,
        help=parameter.help or "",
        values=values,
        is_file=kind in FILES,
        is_required=parameter.required,
        is_repeatable=bool(getattr(parameter, "multiple", False)) or parameter.nargs == -1,
        panel=getattr(parameter, "rich_help_panel", None) or "",
    )
