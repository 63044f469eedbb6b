"""What a program asks for, as the Ansible modules do: one JSON object for each command, with the
values of its parameters by their names, in place of words.

    {"command": "plan", "look": {"policy": "FILE", "select": ["RULE"]}}

A command gets them as it gets what typer makes of words, and answers in JSON; so it says and ends
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, get_type_hints

from hosttune.cli.ending import run_command
from hosttune.cli.options import refuse_empty
from hosttune.codec import decode_as
from hosttune.errors import HosttuneError

COMMANDS = ("check", "plan", "apply", "confirm", "trial", "undo", "history", "record")


def answer(request: Any) -> int:
    """The exit status of this request; its document goes to standard output, and what is wrong to
    standard error.
    """
    return run_command(partial(_run, request))


def _hold_beside(name: str, given: Mapping[str, Any]) -> AbstractContextManager[None]:
    """What a command that Ansible brought leaves on the host besides."""
    if name != "apply" or not given.get("yes"):
        return nullcontext()
    from hosttune.actions.left_program import keep_program

    return keep_program()


def _run(request: Any) -> int:
    name = request.get("command") if isinstance(request, dict) else None
    if name not in COMMANDS:
        raise HosttuneError(f"a request names one of {', '.join(COMMANDS)}, not {name}")
    function = getattr(import_module(f"hosttune.cli.{name}"), name)
    hints = get_type_hints(function)
    usual: dict[str, Any] = {"look": {}, "show": {"format": "json"}, "diagnosis": {}}
    asked: dict[str, Any] = {one: value for one, value in usual.items() if one in hints} | request
    del asked["command"]
    unknown = sorted(asked.keys() - hints.keys())
    given = {
        one: decode_as(hints[one], value, one, unknown)
        for one, value in asked.items()
        if one in hints
    }
    if unknown:  # what is not known here may be what holds a run back
        raise HosttuneError(f"{name} has no parameter {', '.join(unknown)}")
    for group in (asked, asked["look"]):
        for parameter, value in group.items():
            refuse_empty(parameter, value)
    try:
        with _hold_beside(name, given):
            status: int = function(**given)
    except HosttuneError as error:
        from hosttune.cli.common import as_typed

        # Not the file of the task, which is gone when this is read.
        error.hint = as_typed(error.hint, given["look"], "hosttune")
        raise
    return status
