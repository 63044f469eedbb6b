"""An empty value is a variable of a script that was never set: it chooses no host, drops no guard,
and is told.
"""

import sys

import pytest
import typer.core
import typer.main

from hosttune.cli import app


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/hosttune/bin/hosttune"])

    def run(*argv):
        status = app.run([str(word) for word in argv])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def parameters():
    """Every option and argument of every command that takes words: the command, the option, a value
    for the others.
    """

    def walk(command, words):
        if isinstance(command, typer.core.TyperGroup):
            for name, child in command.commands.items():
                yield from walk(child, [*words, name])
            return
        for parameter in command.params:
            is_of_another = str(parameter.metavar).startswith("-- ")
            takes_words = parameter.type.name in {
                "text",
                "choice",
                "integer",
                "float",
                "integer range",
                "float range",
            }
            if takes_words and not is_of_another and not getattr(parameter, "is_flag", False):
                needed = [
                    p for p in command.params if p.param_type_name == "argument" and p.required
                ]
                if parameter.param_type_name == "option":
                    yield [*words, *["x" for _ in needed], parameter.opts[0], ""], parameter.opts[0]
                else:
                    at = [p for p in command.params if p.param_type_name == "argument"].index(
                        parameter
                    )
                    yield (
                        [*words, *["x"] * at, "", *["x"] * (len(needed) - at - 1)],
                        parameter.metavar,
                    )

    yield from walk(typer.main.get_command(app.build()), [])


@pytest.mark.parametrize(("argv", "named"), list(parameters()))
def test_empty_value_is_refused_by_its_name(run, monkeypatch, argv, named):
    monkeypatch.setattr(
        "hosttune.host.open_reader", lambda **_: pytest.fail("the host was looked at")
    )
    status, out, err = run(*argv)
    assert (status, out) == (2, "")
    assert named.strip("[].") in err
    assert "empty" in err or f"Invalid value for '{named}'" in err


def test_words_of_another_program_are_its_own(run):
    assert run("watch", "--", "test", "-z", "")[0] == 0
    assert run("watch", "--", "test", "-n", "")[0] == 1
