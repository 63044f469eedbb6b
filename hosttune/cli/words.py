"""From a command to what typer runs: each parameter becomes an option or an argument of the command
line.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from hosttune.cli.options import (
    GROUPS,
    OUTPUT,
    Argument,
    Described,
    Interrupted,
    Option,
    TargetOptions,
    refuse_empty,
)
from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORT = {
    "json": Option("--json", help="Same as --format json.", rich_help_panel=OUTPUT),
    "quiet": Option(
        "--quiet",
        "-q",
        help="Print nothing; the exit status is the answer.",
        rich_help_panel=OUTPUT,
    ),
    "no_pager": Option(
        "--no-pager", help="Do not use a pager (PAGER, else less).", rich_help_panel=OUTPUT
    ),
}
_AS_TYPER: dict[type[Described], Callable[..., Any]] = {
    Option: typer.Option,
    Argument: typer.Argument,
}


def make_command(function: Callable[..., int]) -> Callable[..., None]:
    """Make a typer command of a function that returns its exit status.

    A parameter annotated with one of GROUPS becomes an option for each field of that dataclass. No
    option and no argument may be empty. A command with --format gets --json, which is short for one
    of its values, and --quiet.
    """
    # Not get_type_hints: that of Python 3.10 puts an Optional around what has None as its default,
    # and no description is seen then.
    hints = inspect.get_annotations(function, eval_str=True)
    taken = {
        name: hints[name]
        for name in inspect.signature(function).parameters
        if hints[name] in GROUPS
    }

    stop = getattr(sys.modules[function.__module__], "ON_STOP", "Ctrl-C stops it")

    @wraps(function)
    def run(**given: Any) -> None:
        for name, value in given.items():
            shown = described[name].shown or name
            if not shown.startswith("-- "):  # the words behind `--` belong to another program
                refuse_empty(shown, value)
        if given.pop("json", False):
            given["format"] = _json_instead(given["format"])
        if given.pop("quiet", False):
            from hosttune.host.console import discard_output

            discard_output(sys.stdout)
        # with --yes it acts: a boot of its own may follow
        if given.pop("no_pager", False) or given.get("yes"):
            from hosttune.host.pager import switch_pager_off

            switch_pager_off()
        groups = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in taken.items()
        }
        look = next((group for group in groups.values() if isinstance(group, TargetOptions)), None)
        try:
            with _show_look(look, stop) if look else nullcontext():
                status = function(**given, **groups)
        except KeyboardInterrupt as error:  # typer would end with 130 and no word
            raise Interrupted(*error.args) from error
        except HosttuneError as error:
            from hosttune.cli.common import as_typed

            error.hint = as_typed(error.hint, look)
            raise
        raise typer.Exit(status)

    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in taken:
            parameters += _make_parameters(taken[name])
        else:
            parameters.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            )
    if any(parameter.name == "format" for parameter in parameters):
        # What watch starts prints to the same standard output.
        is_answer = not any(
            _describe_hint(one.annotation).shown.startswith("-- ") for one in parameters
        )
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False,
                annotation=Annotated[bool, option],
            )
            for name, option in _SHORT.items()
            if is_answer or name != "quiet"
        ]
    described = {parameter.name: _describe_hint(parameter.annotation) for parameter in parameters}
    parameters = [
        parameter.replace(annotation=_as_typer(parameter.annotation)) for parameter in parameters
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _show_look(look: TargetOptions, stop: str) -> AbstractContextManager[None]:
    """The progress of a command that looks at a host, until its answer."""
    from hosttune.host.progress import show_progress

    files = look.host or []
    what = f"looking at the image in {look.root}" if look.root else "looking at this host"
    if files:
        what = f"reading {files[0] if len(files) == 1 else f'{len(files)} records'}"
    return show_progress(what, stop=stop)


def _json_instead(chosen: Any) -> Any:
    """The JSON format of a command, unless another one was chosen besides. Raises HosttuneError."""
    if chosen.value not in {"text", "json"}:
        raise HosttuneError(
            f"--json and --format {chosen.value} contradict each other", hint="use one of them"
        )
    return type(chosen)("json")


def _describe_hint(hint: Any) -> Described:
    found: Described = get_args(hint)[1]
    return found


def _as_typer(hint: Any) -> Any:
    about = _describe_hint(hint)
    return Annotated[get_args(hint)[0], _AS_TYPER[type(about)](*about.names, **about.more)]


def _make_parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
