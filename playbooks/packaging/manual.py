"""hosttune(8) from the command tree, in man(7)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.cli.command_tree import Command, Parameter

FILES = (
    (
        "/etc/hosttune/policy.yaml",
        "What an administrator wants of the rules. As it is installed, all of it is commented out.",
    ),
    ("/etc/hosttune/rules.d", "Rules of your own."),
    (
        "/var/lib/hosttune/runs",
        "The undo journal, one file for each run. It stays when the package is purged.",
    ),
    (
        "/var/lib/hosttune/receipts",
        "What each run did, secrets masked, as long as its run is kept in the journal.",
    ),
    ("/var/lib/hosttune/report.json", "The last report of hosttune-check.service."),
    (
        "/var/lib/prometheus/node-exporter/hosttune.prom",
        "Its metrics, for the textfile collector of node_exporter.",
    ),
)
TIMER = """\
\\fBsystemctl enable \\-\\-now hosttune\\-check.timer\\fP checks this host every day, some time
after midnight, and changes nothing. The answer is in the two files below. For another place of the
metrics type
\\fBsystemctl edit hosttune\\-check.service\\fP and set
\\fBEnvironment=HOSTTUNE_METRICS=\\fP\\fIFILE\\fP under [Service]; its folder has to be there."""


def manual(root: Command, version: str, seconds: int) -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    about, _, rest = root.help.partition("\n")
    parts = [
        f'.TH HOSTTUNE 8 "{day}" "hosttune {version}" "System Administration"\n.nh\n.ad l\n',
        ".SH NAME\nhosttune \\- inspect, tune and restore GPU servers\n",
        ".SH SYNOPSIS\n.B hosttune\n.I COMMAND\n.RI [ OPTION ]...\n",
        f".SH DESCRIPTION\n{_text(about)}\n.PP\n{_text(rest.strip())}\n",
        ".SH COMMANDS\n"
        + "".join(_command(one) for one in root.walk() if one.path and not one.commands),
        ".SH COMMON OPTIONS\n" + _panels(root),
        ".SH EXIT STATUS\n"
        + _item("\\fB0\\fP", "The host is ok, or it was done.")
        + _item(
            "\\fB1\\fP",
            "Something is to be changed, could not be checked or waits, or a change failed.",
        )
        + _item("\\fB2\\fP", "hosttune could not do its work: usage, trouble."),
        f".SH TIMER\n{TIMER}\n",
        ".SH FILES\n" + "".join(_item(f"\\fI{_roff(path)}\\fP", what) for path, what in FILES),
        ".SH ENVIRONMENT\n"
        + _item("\\fBNO_COLOR\\fP", "No colour.")
        + _item("\\fBCOLUMNS\\fP", "The width of the page."),
        ".SH SEE ALSO\n.BR fstab (5),\n.BR sysctl.d (5),\n.BR systemd.timer (5)\n",
    ]
    return "".join(parts)


def _command(command: Command) -> str:
    typed = " ".join(command.path)
    words = "".join(f" {argument.placeholder}" for argument in command.arguments)
    text = [f'.SS "{_roff(f"hosttune {typed}{words} [OPTION]...")}"\n']
    text += [
        f"{_text(' '.join(paragraph.split()))}\n.PP\n"
        for paragraph in re.split(r"\n\s*\n", command.help)
    ]
    text += [
        _item(f"\\fI{_roff(one.placeholder)}\\fP", one.help)
        for one in command.arguments
        if one.help
    ]
    text += [
        _item(_names(option), _values(option)) for option in command.options if not option.panel
    ]
    if panels := list(dict.fromkeys(option.panel for option in command.options if option.panel)):
        text.append(f".PP\nCommon options: {_text(', '.join(panels).lower())}.\n")
    if command.examples:
        lines = "\n".join(f"\\&{_roff(line)}" for line in command.examples)
        text.append(f".PP\nExamples:\n.PP\n.nf\n{lines}\n.fi\n")
    return "".join(text)


def _panels(root: Command) -> str:
    """The options that commands share, each once, under the title that their help has."""
    panels: dict[str, dict[tuple[str, ...], str]] = {}
    for option in (option for command in root.walk() for option in command.options if option.panel):
        panels.setdefault(option.panel, {}).setdefault(
            option.names, _item(_names(option), _values(option))
        )
    return "".join(
        f'.SS "{_roff(title)}"\n{"".join(options.values())}' for title, options in panels.items()
    )


def _names(option: Parameter) -> str:
    names = ", ".join(f"\\fB{_roff(name)}\\fP" for name in option.names)
    if not option.takes_value:
        return names
    placeholder = option.placeholder if "|" not in option.placeholder else "WORD"
    return f"{names} \\fI{_roff(placeholder)}\\fP"


def _values(option: Parameter) -> str:
    """The help, with the words that it can be."""
    words = f" One of: {', '.join(option.values)}." if "|" in option.placeholder else ""
    return f"{option.help}{words}".strip()


def _item(head: str, text: str) -> str:
    return f".TP\n{head}\n{_text(text)}\n"


def _text(text: str) -> str:
    """A paragraph. A line must not begin like a request of roff."""
    safe = _roff(text)
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return escaped.replace('"', "\\(dq").replace("'", "\\(aq").replace("\n", " ")
