"""How a command says what it is asked, and the options that commands share, each written down once.

Without typer: what words of a command line become of it is in `words.py`, what a request becomes in
`served.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, TypeAlias

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.values import Disturbs, Risk

# Titles of the options that commands share, in the help of a command.
HOST, POLICY, OUTPUT = "Which host", "Rules and policy", "Output"


class Described:
    """What a parameter of a command is called and how it is explained, as typer takes it."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.names = names
        self.more = more

    @property
    def shown(self) -> str:
        """As it is typed: `--policy`, `RUN`; empty where it has no name of its own."""
        spelled = next((name for name in self.names if name.startswith("--")), "")
        return spelled or str(self.more.get("metavar") or "").strip("[].")


class Option(Described):
    """A parameter with a name before it."""


class Argument(Described):
    """A parameter that is known by its place."""


class Colour(str, Enum):
    """When the answer is coloured."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class _Format(str, Enum):
    """For whom the answer is."""


class OutputFormat(_Format):
    """Formats of every command."""

    TEXT = "text"
    JSON = "json"


class ReportFormat(_Format):
    """Formats of a report."""

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


class HealthFormat(_Format):
    """Formats of a node's health, as those who take nodes out of work read it."""

    TEXT = "text"
    JSON = "json"
    NHC = "nhc"
    SLURM = "slurm"
    NAGIOS = "nagios"
    NPD = "npd"
    PROMETHEUS = "prometheus"


DISTURB_WORDS = {one.word: one for one in Disturbs}


def parse_disturb(word: str) -> Disturbs:
    """A word of --disturb, or a value of the policy's `disturb`, with a note. Raises
    HosttuneError.
    """
    if word in DISTURB_WORDS:
        return DISTURB_WORDS[word]
    try:
        found = Disturbs(word)
    except ValueError:
        raise HosttuneError(
            f"--disturb: {word!r} is unknown", hint=f"use one of: {', '.join(DISTURB_WORDS)}"
        ) from None
    from hosttune.host.console import write_to_stderr

    write_to_stderr(f"hosttune: --disturb '{word}' is now written --disturb {found.word}\n")
    return found


RulesFolder: TypeAlias = Annotated[
    str | None,
    Option(
        "--rules",
        metavar="DIR",
        help="Add rules to those in /etc/hosttune/rules.d.",
        rich_help_panel=POLICY,
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None,
    Option(
        "--policy",
        metavar="FILE",
        help="Use this instead of /etc/hosttune/policy.yaml.",
        rich_help_panel=POLICY,
    ),
]
Profile: TypeAlias = Annotated[
    str | None,
    Option(
        "--profile",
        metavar="PROFILE",
        help="Use this instead of the policy's (see: hosttune profiles).",
        rich_help_panel=POLICY,
    ),
]
Select: TypeAlias = Annotated[
    list[str] | None,
    Option("--select", metavar="RULE", help="Add this rule (repeatable).", rich_help_panel=POLICY),
]
Ignore: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--ignore", metavar="RULE", help="Leave this rule out (repeatable).", rich_help_panel=POLICY
    ),
]


@frozen
class TargetOptions:
    """Which host is looked at."""

    root: Annotated[
        str | None,
        Option(
            "--root", metavar="DIR", help="Look at the image mounted at DIR.", rich_help_panel=HOST
        ),
    ] = None
    host: Annotated[
        list[str] | None,
        Option(
            "--host",
            metavar="RECORD",
            help="Look at the host of this record, nvidia-bug-report.log.gz or sosreport.",
            rich_help_panel=HOST,
        ),
    ] = None
    hardware: Annotated[
        str | None,
        Option(
            "--hardware",
            metavar="RECORD",
            help="With --root: take the hardware from this record.",
            rich_help_panel=HOST,
        ),
    ] = None


@frozen
class RuleOptions(TargetOptions):
    """Which host is looked at, and by which rules and policy."""

    rules: RulesFolder = None
    policy: PolicyFile = None
    profile: Profile = None
    select: Select = None
    ignore: Ignore = None


Only: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--only", metavar="RULE", help="Use only this rule (repeatable).", rich_help_panel=POLICY
    ),
]


@frozen
class SomeRules(RuleOptions):
    """The same, of only some rules."""

    only: Only = None


@frozen
class HostOptions(RuleOptions):
    """The same, and what a change may risk and disturb."""

    max_risk: Annotated[
        Risk | None,
        Option(
            "--max-risk",
            help="Highest risk that is allowed; the default is medium.",
            rich_help_panel=POLICY,
        ),
    ] = None
    disturb: Annotated[
        Disturbs | None,
        Option(
            "--disturb",
            metavar=f"<{'|'.join(DISTURB_WORDS)}>",
            parser=parse_disturb,
            help="What a change may disturb; the default is nothing.",
            rich_help_panel=POLICY,
        ),
    ] = None


@frozen
class LookOnly(HostOptions):
    """The same, of only some rules."""

    only: Only = None


@frozen
class LookAgain(LookOnly):
    """The same, also at what came back by itself."""

    again: Annotated[
        list[str] | None,
        Option(
            "--again",
            metavar="RULE",
            help="Try this rule again after its trial was rolled back (repeatable).",
            rich_help_panel=POLICY,
        ),
    ] = None


@frozen
class Choose:
    """The rules and policy alone, where the hosts are named otherwise."""

    rules: RulesFolder = None
    policy: PolicyFile = None
    profile: Profile = None
    select: Select = None
    ignore: Ignore = None


@frozen
class Diagnosis:
    """How an internal error is shown."""

    debug: Annotated[
        bool, Option("--debug", help="Show a traceback on internal errors.", rich_help_panel=OUTPUT)
    ] = False


TextOrJson: TypeAlias = Annotated[
    OutputFormat,
    Option("--format", help="text for people, json for programs.", rich_help_panel=OUTPUT),
]


@frozen
class Display:
    """How the answer is shown, in any format."""

    format: Annotated[_Format, Option("--format", rich_help_panel=OUTPUT)]
    color: Annotated[
        Colour,
        Option(
            "--color",
            help="Use colour; auto: on a terminal, without NO_COLOR.",
            rich_help_panel=OUTPUT,
        ),
    ] = Colour.AUTO
    no_color: Annotated[bool, Option("--no-color", hidden=True, help="Same as --color never.")] = (
        False
    )
    debug: Annotated[
        bool, Option("--debug", help="Show a traceback on internal errors.", rich_help_panel=OUTPUT)
    ] = False

    @property
    def is_json(self) -> bool:
        return str(self.format.value) == OutputFormat.JSON.value


@frozen
class ShowPlain(Display):
    """How an answer is shown that is text or JSON, and whole."""

    format: TextOrJson = OutputFormat.TEXT


@frozen
class DetailedDisplay(Display):
    """How an answer is shown that has details."""

    verbose: Annotated[
        bool,
        Option(
            "--verbose",
            "-v",
            help="Show all evidence, and the rules that found nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False


@frozen
class DisplayOptions(DetailedDisplay):
    """How an answer is shown that is text or JSON, and has details."""

    format: TextOrJson = OutputFormat.TEXT


Output: TypeAlias = Annotated[
    str | None,
    Option(
        "--output",
        metavar="FILE",
        help="Write the report to FILE (atomic, mode 0644).",
        rich_help_panel=OUTPUT,
    ),
]


@frozen
class ShowChange(DetailedDisplay):
    """How what is changed is shown."""

    format: Annotated[
        ReportFormat,
        Option(
            "--format", help="markdown: for a pull request or a ticket.", rich_help_panel=OUTPUT
        ),
    ] = ReportFormat.TEXT


@frozen
class ShowReport(ShowChange):
    """How a report is shown."""

    output: Output = None


@frozen
class ShowCheck(DetailedDisplay):
    """How a check is shown."""

    format: Annotated[
        CheckFormat,
        Option(
            "--format",
            help="junit for pipelines, prometheus for node_exporter's textfile folder.",
            rich_help_panel=OUTPUT,
        ),
    ] = CheckFormat.TEXT
    output: Output = None


@frozen
class ShowHealth(DetailedDisplay):
    """How a node's health is shown."""

    format: Annotated[
        HealthFormat,
        Option(
            "--format",
            help="nhc, slurm, nagios, npd: the line and the status that these take.",
            rich_help_panel=OUTPUT,
        ),
    ] = HealthFormat.TEXT
    output: Output = None


GROUPS: tuple[type[Any], ...] = (
    Diagnosis,
    TargetOptions,
    RuleOptions,
    SomeRules,
    HostOptions,
    LookOnly,
    LookAgain,
    Choose,
    ShowPlain,
    DisplayOptions,
    ShowChange,
    ShowReport,
    ShowCheck,
    ShowHealth,
)


class Interrupted(Exception):
    """Ctrl-C, or a signal that ends a bench as it does: its number is the argument."""


def refuse_empty(shown: str, value: Any) -> None:
    """Refuse "": a variable of a script that was never set, which would choose the running host, or
    drop a guard.
    """
    if "" in (value if isinstance(value, list) else [value]):
        raise HosttuneError(f"{shown}: the value is empty", hint="name one, or leave it out")
