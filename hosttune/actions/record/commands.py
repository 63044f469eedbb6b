"""What a record keeps of files that hold commands: crontabs, units, scripts, files of variables.

A shared record keeps of a command its program, the paths among its words and the options that facts
read. What removes files by age and what sets kernel values is written anew from what facts make of
it. All else of such a file is left out, line by line, so that the numbers of lines stay. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.facts.commands import loads_of_sysctl_conf, values_in
from hosttune.facts.environment import is_kept, shell_variables, systemd_variables
from hosttune.facts.gpu.power_caps import caps_in
from hosttune.facts.services.unit_files import parse_assignments
from hosttune.facts.storage.ageing_text import keep_age_lines
from hosttune.host.masking.command_secrets import has_secret_name, mask_words
from hosttune.host.masking.secrets import mask_text
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_CRONTABS: Final = "/var/spool/cron/"
_TABLES = ("/etc/crontab", "/etc/cron.d/")
_UNIT = regex(
    r"/systemd/(?:system|user|system\.control|transient)/|"
    r"\.(?:service|timer|socket|mount|automount|swap|slice|scope|target|path)(?:\.d/[^/]+)?$"
)
# The keys of units that facts read; Exec*= and Environment= are shortened. Tests hold the rules
# against this list.
UNIT_KEYS: Final = frozenset({
    "WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also", "DefaultInstance", "Unit", "What",
    "Where", "Type", "Options", "EnvironmentFile", "LimitMEMLOCK", "LimitNOFILE", "LimitCORE",
    "LimitNPROC", "TasksMax", "RemoveIPC", "After", "DefaultDependencies",
})  # fmt: skip
# Options that facts read, with their values, by program; of no other program an option is kept.
_DOCKERD = frozenset({
    "-H", "--host", "--containerd", "--config-file", "--data-root", "--graph", "-g", "--exec-opt",
    "--default-runtime", "--add-runtime", "--default-ulimit", "--default-shm-size",
    "--live-restore", "--log-driver", "--storage-driver", "--icc", "--ipv6", "--iptables", "--init",
    "--userns-remap", "--default-ipc-mode", "--experimental", "--debug", "--selinux-enabled",
    "--cgroup-parent", "--exec-root", "--pidfile", "--group", "--mtu", "--shutdown-timeout",
    "--log-level", "--feature", "--cdi-spec-dir", "--storage-opt", "--userland-proxy", "--bridge",
    "-b", "-D", "-G", "-l", "-p", "-s",
})  # fmt: skip
_PERSISTENCED = frozenset(
    {"--user", "--no-persistence-mode", "--persistence-mode", "--verbose", "--uvm-persistence-mode"}
)
_KUBELET = frozenset({"--fail-swap-on", "--config", "--config-dir"})
OPTIONS: Final = {
    "dockerd": _DOCKERD,
    "kubelet": _KUBELET,
    "slurmd": frozenset(
        {"-f", "-N", "-Z", "-D", "-C", "--conf", "--conf-server", "-M", "-b", "-s", "-F"}
    ),
    "nvidia-persistenced": _PERSISTENCED,
}
# Every pattern has a bound: users write the lines that these are tried on, and a record must not
# take minutes for one of them.
_VALUE = regex(r"[\w./:@%,+=${}-]{1,200}")
_PATH = regex(r"/(?:etc|opt|usr|root|lib|srv|var|bin|sbin|run|home|dev|proc|sys)/[\w./@+-]{1,4000}")
_LIMIT = regex(r"(--within|\btimeout)(?:[ =]| -\S{1,40} )(\d{1,9}[sm]?)\b")
_KERNEL_VALUE = regex(r"[\w.,:+-]{1,64}")
# slurmstepd writes the job and step into its title, and facts know a job by that.
_TITLE = regex(r"slurmstepd: \[[\d.+]{1,40}(?:batch|extern|interactive)?\]")
_PROGRAM = regex(r"[\w./@+:-]{1,4000}")
_VARIABLE = regex(r"\$\{?[A-Z][A-Z0-9_]{0,80}\}?")
_VARIABLE_NAME: Final = regex(r"^[ \t]*(?:export[ \t]{1,9})?(\w{1,80})=")
# Prefixes of Exec*=, which do not belong to the path of the program (systemd.service(5), "Command
# lines").
_LEAD: Final = "-@:+!|"
_SYSCTL: Final = "/proc/sys/"


def kind_of(path: str) -> str:
    """What a file that holds commands is, in the words of `rows_of`
    (facts/storage/ageing_text.py).
    """
    if path.startswith(_CRONTABS):
        return "crontab"
    if path.startswith(_TABLES):
        return "table"
    if path == "/etc/anacrontab":
        return "anacrontab"
    return "unit" if _UNIT.search(path) else "script"


def short_job(content: str, kind: str, programs: Collection[str] = ()) -> str:
    """Of the jobs of users and scripts of a site: what tells of access times and of kernel values,
    lines in place.
    """
    lines = keep_age_lines(content, kind, programs).split("\n")
    return "\n".join(_merge_rows(lines, _kernel_values(content) if kind != "unit" else ()))


def shared_job(content: str, kind: str, programs: Collection[str] = ()) -> str:
    """Of a crontab, script or file of variables what facts read, lines in place."""
    # pam_env and systemd read no command behind a `;`
    if kind == "script" and not content.startswith("#!"):
        content = "\n".join("" if _is_secret_variable(row) else row for row in content.split("\n"))
    lines = keep_age_lines(content, kind, programs).split("\n")
    variables = _merge_rows([], _list_variables(content))  # they begin a line
    merged = _merge_rows(
        variables, ((number, line) for number, line in enumerate(lines, 1) if line)
    )
    return (
        "\n".join(_merge_rows(_merge_rows(merged, _kernel_values(content)), _list_limits(content)))
        + "\n"
    )


def _is_secret_variable(row: str) -> bool:
    found = _VARIABLE_NAME.match(row)
    return found is not None and has_secret_name(found[1])


def _merge_rows(lines: Iterable[str], more: Iterable[tuple[int, str]]) -> list[str]:
    found = list(lines)
    rows: dict[int, dict[str, None]] = {}  # of a line, what is in it, each once
    for number, text in more:
        if number not in rows:
            found += [""] * (number - len(found))
            rows[number] = dict.fromkeys(found[number - 1].split("; "))
        rows[number][text] = None
    for number, row in rows.items():
        found[number - 1] = "; ".join(filter(None, row))
    return found


def _kernel_values(content: str) -> Iterator[tuple[int, str]]:
    """(line, command) of what sets kernel values or power limits, or takes swap away."""
    for number, row in enumerate(content.splitlines(), 1):
        if "swapoff" in row and not row.lstrip().startswith("#"):
            yield number, "/sbin/swapoff -a"
        yield from ((number, f"nvidia-smi -pl {watts or ''}".rstrip()) for watts in caps_in(row))
    for number in loads_of_sysctl_conf(content):
        yield number, "/sbin/sysctl --system"
    for number, path, value in values_in(content):
        if (
            _KERNEL_VALUE.fullmatch(value)
            and not has_secret_name(path)
            and mask_text(value) == value
        ):
            is_sysctl = path.startswith(_SYSCTL)
            # not below /usr, where a script would be looked for
            yield (
                number,
                f"/sbin/sysctl -w {path.removeprefix(_SYSCTL)}={value}"
                if is_sysctl
                else f"/bin/echo {value} > {path}",
            )


def _list_limits(content: str) -> Iterator[tuple[int, str]]:
    """(line, command) of how long a script lets a command run."""
    for number, row in enumerate(content.splitlines(), 1):
        if not row.lstrip().startswith("#") and (limit := _LIMIT.search(row)):
            yield number, f": {limit[1]} {limit[2]}"


def _list_variables(content: str) -> Iterator[tuple[int, str]]:
    """(line, assignment) of the variables that facts read."""
    for number, name, value in shell_variables(content):
        if kept := _harmless_value(name, value):
            yield number, f"{name}='{kept}'" if " " in kept else f"{name}={kept}"


def _harmless_value(name: str, value: str) -> str:
    if is_kept(name) or name in {"LSF_ENVDIR", "GOVERNOR"}:
        return (
            value
            if _VALUE.fullmatch(value)
            or (value.startswith(("$", "~")) and _VALUE.fullmatch(value.strip("${}~")))
            else ""
        )
    return (
        " ".join(_options_of(value.split(), _DOCKERD | _KUBELET)) if value.startswith("-") else ""
    )


def shared_unit(content: str, programs: Collection[str] = ()) -> str:
    """Of a unit the keys that facts read, its commands and variables shortened, lines in place."""
    rows = content.splitlines()
    lines = [row.strip() if _is_section(row) else "" for row in rows]
    ageing = keep_age_lines(content, "unit", programs).split("\n")
    variables: dict[int, list[str]] = {}
    for number, name, value in systemd_variables(content):
        if kept := _harmless_value(name, value):
            variables.setdefault(number, []).append(
                f'"{name}={kept}"' if " " in kept else f"{name}={kept}"
            )
    for number, _, key, value in parse_assignments(content):
        if key in UNIT_KEYS or (key.startswith("Exec") and not value):
            lines[number - 1] = f"{key}={value}"
        elif key.startswith("Exec"):
            tail = ageing[number - 1].partition("=")[2] if number <= len(ageing) else ""
            # A `;` between blanks ends a command (systemd.service(5)); else it is part of an
            # argument.
            values = " ; ".join(text for _, text in _kernel_values(value))
            lines[number - 1] = (
                f"{key}={' ; '.join(filter(None, (shared_command(value), values, tail)))}"
            )
        elif key == "Environment":
            tail = ageing[number - 1].partition("=")[2] if number <= len(ageing) else ""
            lines[number - 1] = (
                f"{key}={' '.join(filter(None, (*variables.get(number, ()), tail)))}"
            )
    return "\n".join(lines) + "\n"


def _is_section(row: str) -> bool:
    return row.strip().startswith("[") and row.strip().endswith("]")


def shared_command(line: str) -> str:
    """Of the command line of a unit the program, the paths among its words, and the options that
    facts read.
    """
    return " ".join(shared_words(tuple(line.lstrip(_LEAD).split())))


def shared_words(words: tuple[str, ...], *, has_paths: bool = True) -> tuple[str, ...]:
    """Of a command the program, the paths among its words and the options that facts read."""
    if not words:
        return ()
    if _TITLE.fullmatch(words[0]):
        return words[:1]
    # A process can make its whole title one word with blanks, and behind the name may be anything.
    program = words[0].split(" ", 1)[0].strip("\"'")
    if not _PROGRAM.fullmatch(program) or mask_text(program) != program:
        program = "(masked)"
    masked = mask_words(words)
    rest = [
        word.strip("\"';") for word, new in zip(words[1:], masked[1:], strict=True) if new is None
    ]
    known = OPTIONS.get(program.rpartition("/")[2], frozenset())
    options = list(_options_of(rest, known))
    options += [
        word for word in rest if known and _VARIABLE.fullmatch(word) and word not in options
    ]
    paths = [word for word in rest if has_paths and _PATH.fullmatch(word) and word not in options]
    return (program, *options, *paths)


def _options_of(words: list[str], known: frozenset[str]) -> Iterator[str]:
    """The known options among words, with their values."""
    is_asked = False
    for word in words:
        name, equals, value = word.partition("=")
        is_value = is_asked and not word.startswith("-")
        is_asked = name in known and not equals
        if is_value:
            yield word if _VALUE.fullmatch(word) else "(masked)"
        elif name in known:
            yield word if not equals or _VALUE.fullmatch(value) else f"{name}=(masked)"
