"""The options that commands share, each written down once, and the decorator that hands them over as one value."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

from typer import Exit, Option
from typer.models import ArgumentInfo, OptionInfo

from hosttune.errors import HosttuneError
from hosttune.values import Disturbs, Risk

if TYPE_CHECKING:
    from collections.abc import Callable


class _Format(str, Enum):
    """For whom the answer is."""


class Format(_Format):
    """Formats of every command."""

    TEXT = "text"
    JSON = "json"


class PlanFormat(_Format):
    """Formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class CheckFormat(_Format):
    """Formats of a check."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    JUNIT = "junit"
    PROMETHEUS = "prometheus"


RulesFolder: TypeAlias = Annotated[
    str | None, Option("--rules", metavar="DIR", help="More rules, besides those in /etc/hosttune/rules.d.")
]
PolicyFile: TypeAlias = Annotated[
    str | None, Option("--policy", metavar="FILE", help="Instead of /etc/hosttune/policy.yaml.")
]
Profile: TypeAlias = Annotated[
    str | None, Option("--profile", help="Instead of the policy's (see: hosttune profiles).")
]
Select: TypeAlias = Annotated[list[str] | None, Option("--select", metavar="RULE", help="This rule too (repeatable).")]
Ignore: TypeAlias = Annotated[list[str] | None, Option("--ignore", metavar="RULE", help="Not this rule (repeatable).")]


@dataclass(frozen=True)
class Look:
    """Which host is looked at, and by which rules and policy."""

    root: Annotated[
        str | None, Option("--root", metavar="DIR", help="The host whose files lie in DIR (a golden image).")
    ] = None
    host: Annotated[
        list[str] | None, Option("--host", metavar="RECORD", help="The host of a record (see: hosttune record).")
    ] = None
    hardware: Annotated[
        str | None, Option("--hardware", metavar="RECORD", help="With --root: the hardware it will run on.")
    ] = None
    rules: RulesFolder = None
    policy: PolicyFile = None
    profile: Profile = None
    select: Select = None
    ignore: Ignore = None
    max_risk: Annotated[Risk | None, Option("--max-risk", help="What may be risked (medium).")] = None
    disturb: Annotated[Disturbs | None, Option("--disturb", help="Whom a change may disturb (nobody).")] = None


@dataclass(frozen=True)
class LookOnly(Look):
    """The same, at some rules alone."""

    only: Annotated[list[str] | None, Option("--only", metavar="RULE", help="This rule and no other (repeatable).")] = (
        None
    )


@dataclass(frozen=True)
class Choose:
    """The rules and policy alone, where the hosts are named otherwise."""

    rules: RulesFolder = None
    policy: PolicyFile = None
    profile: Profile = None
    select: Select = None
    ignore: Ignore = None


@dataclass(frozen=True)
class Display:
    """How the answer is shown, in any format."""

    format: Annotated[_Format, Option("--format")]
    verbose: Annotated[bool, Option("--verbose", "-v", help="All evidence, and what is as it should be.")] = False
    no_color: Annotated[bool, Option("--no-color", help="As NO_COLOR=1 does.")] = False
    debug: Annotated[bool, Option("--debug", help="A traceback, should hosttune itself fail.")] = False

    @property
    def is_json(self) -> bool:
        return str(self.format.value) == Format.JSON.value


@dataclass(frozen=True)
class Show(Display):
    """How an answer is shown that is text or JSON."""

    format: Annotated[Format, Option("--format", help="text for people, json for programs.")] = Format.TEXT


Output: TypeAlias = Annotated[
    str | None, Option("--output", metavar="FILE", help="Write the answer to FILE, at once, readable by everybody.")
]


@dataclass(frozen=True)
class ShowDiff(Show):
    """How a comparison is shown."""

    output: Output = None


@dataclass(frozen=True)
class ShowPlan(Display):
    """How a plan is shown."""

    format: Annotated[PlanFormat, Option("--format", help="markdown: for a pull request or a ticket.")] = (
        PlanFormat.TEXT
    )
    output: Output = None


@dataclass(frozen=True)
class ShowCheck(Display):
    """How a check is shown."""

    format: Annotated[
        CheckFormat, Option("--format", help="junit for pipelines, prometheus for node_exporter's textfile folder.")
    ] = CheckFormat.TEXT
    output: Output = None


GROUPS: tuple[type[Any], ...] = (Look, LookOnly, Choose, Show, ShowDiff, ShowPlan, ShowCheck)


class Interrupted(Exception):
    """Ctrl-C, or a signal that ends a bench as it does."""


def command(function: Callable[..., int]) -> Callable[..., None]:
    """Make a typer command of a function that returns its exit status.

    A parameter annotated with one of GROUPS becomes an option for each field of that dataclass. No option and no
    argument may be empty.
    """
    # Not get_type_hints: that of Python 3.10 puts an Optional around what has None as its default, and typer then sees
    # neither Argument nor Option.
    hints = inspect.get_annotations(function, eval_str=True)
    taken = {name: hints[name] for name in inspect.signature(function).parameters if hints[name] in GROUPS}

    @wraps(function)
    def run(**given: Any) -> None:
        _refuse_empty(given, {parameter.name: parameter.annotation for parameter in parameters})
        groups = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in taken.items()
        }
        try:
            status = function(**given, **groups)
        except KeyboardInterrupt as error:  # typer would end with 130 and no word
            raise Interrupted from error
        raise Exit(status)

    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in taken:
            parameters += _parameters(taken[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _refuse_empty(given: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse "": a variable of a script that was never set, which would choose the running host, or drop a guard.

    The words behind `--` belong to another program.
    """
    for name, value in given.items():
        described: OptionInfo | ArgumentInfo = hints[name].__metadata__[0]
        shown = (described.metavar or "").strip("[].") or name
        if isinstance(described, OptionInfo):
            spelled = (described.default, *(described.param_decls or ()))  # typer keeps the first one as the default
            shown = next(str(word) for word in spelled if str(word).startswith("--"))
        values = value if isinstance(value, list) else [value]
        if "" in values and not shown.startswith("-- "):
            raise HosttuneError(f"{shown}: the value is empty", hint="name one, or leave it out")


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]  # fmt: skip
