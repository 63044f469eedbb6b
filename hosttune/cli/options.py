"""How a command says what it is asked, and the options that commands share, each written down once.

Without typer: what words of a command line become of it stands in `words.py`, what a request becomes in `served.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, TypeAlias

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.values import Disturbs, Risk


class Described:
    """What a parameter of a command is called and how it is explained, as typer takes it."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.names = names
        self.more = more

    @property
    def shown(self) -> str:
        """As whoever types it knows it: `--policy`, `RUN`; empty where it has no name of its own."""
        spelled = next((name for name in self.names if name.startswith("--")), "")
        return spelled or str(self.more.get("metavar") or "").strip("[].")


class Option(Described):
    """A parameter with a name before it."""


class Argument(Described):
    """A parameter that is known by its place."""


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


@frozen
class HostOptions:
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


@frozen
class LookOnly(HostOptions):
    """The same, at some rules alone."""

    only: Annotated[list[str] | None, Option("--only", metavar="RULE", help="This rule and no other (repeatable).")] = (
        None
    )


@frozen
class LookAgain(LookOnly):
    """The same, also at what came back by itself."""

    again: Annotated[
        list[str] | None,
        Option("--again", metavar="RULE", help="Also where it was on trial and came back (repeatable)."),
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
class Display:
    """How the answer is shown, in any format."""

    format: Annotated[_Format, Option("--format")]
    verbose: Annotated[bool, Option("--verbose", "-v", help="All evidence, and what is as it should be.")] = False
    no_color: Annotated[bool, Option("--no-color", help="As NO_COLOR=1 does.")] = False
    debug: Annotated[bool, Option("--debug", help="A traceback, should hosttune itself fail.")] = False

    @property
    def is_json(self) -> bool:
        return str(self.format.value) == OutputFormat.JSON.value


@frozen
class DisplayOptions(Display):
    """How an answer is shown that is text or JSON."""

    format: Annotated[OutputFormat, Option("--format", help="text for people, json for programs.")] = OutputFormat.TEXT


Output: TypeAlias = Annotated[
    str | None, Option("--output", metavar="FILE", help="Write the answer to FILE, at once, readable by everybody.")
]


@frozen
class ShowChange(Display):
    """How what is changed is shown."""

    format: Annotated[ReportFormat, Option("--format", help="markdown: for a pull request or a ticket.")] = (
        ReportFormat.TEXT
    )


@frozen
class ShowReport(ShowChange):
    """How a report is shown."""

    output: Output = None


@frozen
class ShowCheck(Display):
    """How a check is shown."""

    format: Annotated[
        CheckFormat, Option("--format", help="junit for pipelines, prometheus for node_exporter's textfile folder.")
    ] = CheckFormat.TEXT
    output: Output = None


@frozen
class ShowHealth(Display):
    """How a node's health is shown."""

    format: Annotated[
        HealthFormat, Option("--format", help="nhc, slurm, nagios, npd: the line and the status that these take.")
    ] = HealthFormat.TEXT
    output: Output = None


GROUPS: tuple[type[Any], ...] = (
    HostOptions,
    LookOnly,
    LookAgain,
    Choose,
    DisplayOptions,
    ShowChange,
    ShowReport,
    ShowCheck,
    ShowHealth,
)


class Interrupted(Exception):
    """Ctrl-C, or a signal that ends a bench as it does: its number is the argument."""


def refuse_empty(shown: str, value: Any) -> None:
    """Refuse "": a variable of a script that was never set, which would choose the running host, or drop a guard."""
    if "" in (value if isinstance(value, list) else [value]):
        raise HosttuneError(f"{shown}: the value is empty", hint="name one, or leave it out")
