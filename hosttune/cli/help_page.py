"""The help of the command line: commands in groups, whole summaries, shared options in panels,
examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer.core


class CommandHelp(typer.core.TyperCommand):
    """A command whose own options come first, then those that commands share, by their
    `rich_help_panel`.
    """

    examples: tuple[str, ...] = ()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, own options, a section for each panel, examples."""
        arguments, panels = [], dict[str, list[tuple[str, str]]]()
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(
                    record
                )
        own = panels.pop("", [])
        for title, records in (("Arguments", arguments), ("Options", own), *panels.items()):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def with_examples(examples: tuple[str, ...]) -> type[CommandHelp]:
    """The class of a command that ends its help with these command lines."""
    return type("CommandHelp", (CommandHelp,), {"examples": examples})


class GroupHelp(typer.core.TyperGroup):
    """The page of all commands, in the order of `groups`: title and names."""

    groups: Mapping[str, tuple[str, ...]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each group under its title; the summary of a command is the first sentence of its help,
        whole.
        """
        del ctx
        shown = {name: one for name, one in self.commands.items() if not one.hidden}
        widest = max(map(len, shown), default=0)
        for title, names in (self.groups or {"Commands": tuple(shown)}).items():
            rows = [
                (f"{name:{widest}}", summary_of(shown[name].help or ""))
                for name in names
                if name in shown
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def summary_of(text: str) -> str:
    """The first sentence of a help text, without its dot."""
    return " ".join(text.strip().split("\n\n", 1)[0].split()).partition(". ")[0].rstrip(".")
