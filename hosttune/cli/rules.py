"""`hosttune rules`: list, lint, new, parts, doc."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from typer import Context, Typer

from hosttune.cli.help_page import GroupHelp
from hosttune.cli.options import Argument, Diagnosis, Option, RuleOptions, ShowPlain
from hosttune.cli.words import make_command

app = Typer(
    cls=GroupHelp,
    help="List the rules, check or begin a rule file.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def rules(context: Context) -> None:
    """List the rules, check or begin a rule file."""
    if context.invoked_subcommand is None:
        list_rules(**asdict(RuleOptions()), **asdict(ShowPlain()))


@app.command("list")
@make_command
def list_rules(look: RuleOptions, show: ShowPlain) -> int:
    """List all rules. A star marks those that the policy selects."""
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.views.rules import rules_json, rules_text

    reader, catalog, policy = load_choice(look)
    selected = frozenset(rule.id for rule in policy.select_rules(catalog))
    if show.is_json:
        write_json(rules_json(catalog.rules.values(), selected))
    else:
        say(rules_text(catalog.rules.values(), selected, open_page(reader, look, show)))
    return 0


@app.command("lint")
@make_command
def lint(
    show: ShowPlain,
    files: Annotated[
        list[str] | None,
        Argument(metavar="[FILE]...", help="Rule files; all built-in and custom ones by default."),
    ] = None,
) -> int:
    """Check rule files for faults. All faults are reported at once, with exit status 2."""
    from hosttune.cli.common import say, write_json
    from hosttune.cli.rule_files import lint_all, lint_files
    from hosttune.views.rules import faults_json, faults_text

    number, faults = lint_files(files) if files else lint_all()
    if show.is_json:
        write_json(faults_json(number, faults))
    else:
        say(faults_text(number, faults))
    return 2 if faults else 0


@app.command("new")
@make_command
def new(
    rule: Annotated[
        str,
        Argument(metavar="ID", help="<domain>-<the tunable or concern>, such as memory-min-free."),
    ],
    show: ShowPlain,
    folder: Annotated[
        str | None,
        Option(
            "--dir", metavar="DIR", help="Write both files into the checkout at DIR, over nothing."
        ),
    ] = None,
    wish: Annotated[
        str,
        Option(
            "--wish",
            metavar="KIND",
            help="What it wants: sysctl, unit, ... (see: hosttune rules parts).",
        ),
    ] = "sysctl",
    advice: Annotated[
        bool, Option("--advice", help="It wants nothing: it advises, from facts.")
    ] = False,
) -> int:
    """Begin a rule and its cases. FILL IN marks what is to be written; lint finds what is left."""
    del show
    from hosttune.cli.common import say, tell
    from hosttune.cli.rule_files import new_rule, new_rule_text, write_new

    files = new_rule(rule, None if advice else wish)
    if folder is None:
        say(new_rule_text(files))
    else:
        for path in write_new(folder, files):
            tell(f"hosttune: wrote {path}")
    return 0


@app.command("parts")
@make_command
def parts(look: RuleOptions, show: ShowPlain) -> int:
    """List domains, conditions and kinds of wishes for rules."""
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.views.parts import parts_json, parts_text

    reader, catalog, _ = load_choice(look)
    if show.is_json:
        write_json(parts_json(catalog))
    else:
        say(parts_text(catalog, open_page(reader, look, show)))
    return 0


@app.command("doc")
@make_command
def doc(
    diagnosis: Diagnosis,
    rule: Annotated[
        str | None, Argument(metavar="[RULE]", help="Write its page; without it, the index.")
    ] = None,
    reference: Annotated[
        bool,
        Option(
            "--reference",
            help="Instead: the tables of what a rule may hold (docs/reference/custom-rules.md).",
        ),
    ] = False,
) -> int:
    """Write the index of the rules, or the page of one."""
    del diagnosis
    from hosttune.cli.common import say
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.errors import HosttuneError
    from hosttune.views.custom_doc import custom_rules_reference
    from hosttune.views.rules_doc import rule_document, rules_index

    catalog = builtin_catalog()
    if rule is not None and (rule not in catalog.rules or reference):
        raise HosttuneError(
            f"no page of {rule} is written here", hint="name a built-in rule: hosttune rules"
        )
    if reference:
        say(custom_rules_reference())
    else:
        say(rule_document(catalog.rules[rule], catalog) if rule else rules_index(catalog))
    return 0
