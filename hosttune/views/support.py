"""What a report of nvidia-bug-report.sh is: the lines before the answer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.facts.gpu.gpu_errors import read_table
from hosttune.host.masking.cleaned import clean
from hosttune.host.support.bug_report import BugReport
from hosttune.numbers import say_count
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hosttune.host.support.sos import SosReport

_DAY_S = 86_400
_OLD_DAYS = 7
_MOST_NAMED = 4


def source_lines(report: BugReport | SosReport, file: str, now: float) -> Iterator[str]:
    """Sentences: of which host and moment it is, and what it lacks. `now` in seconds since 1970."""
    files = report.record["files"]
    kernel = str(files.get("/proc/sys/kernel/osrelease", "")).strip()
    driver = files.get("/sys/module/nvidia/version")
    parts = [f"kernel {kernel}"] if kernel else []
    # Only a stat of the report proves that the folder is missing; a file that is not in it may not
    # have been collected.
    is_absent = isinstance(report.record["stats"].get("/sys/module/nvidia"), dict)
    loaded = "no NVIDIA module is loaded" if is_absent else "which driver is loaded is not known"
    parts.append(f"driver {driver.strip()}" if isinstance(driver, str) else loaded)
    when = ""
    if report.collected_at:
        days = int((now - report.collected_at) // _DAY_S)
        when = f" of {datetime.fromtimestamp(report.collected_at, timezone.utc):%Y-%m-%d %H:%M} UTC"
        when += f" ({say_count(days, 'day')} ago)" if days >= _OLD_DAYS else ""
    program = "nvidia-bug-report.sh" if isinstance(report, BugReport) else "sos"
    script = f" {report.script}" if report.script else ""
    yield clean(
        f"{file}: a report of {program}{script} on {report.record['name']}{when}; "
        f"{', '.join(parts)}"
    )
    if not isinstance(report, BugReport):
        yield from _sos_lines(report)
        return
    yield (
        "it holds no policy, packages, services and settings of that host: rules that ask for them "
        "are not judged"
    )
    if not report.is_whole:
        yield "it is not whole: its last line is missing"
    if report.is_safe_mode:
        yield "the full answer of nvidia-smi is not in it (--safe-mode)"
    if not report.has_log:
        yield "the kernel log in it does not count: there is none that is whole"
    if report.doubled:
        names = _name_some(report.doubled)
        yield (
            "it has these twice, so that neither counts, because a user can have written one: "
            f"{names}"
        )
    yield from _quiet_lines(report)
    if report.logged_xids:
        yield (
            f"other logs there name {_name_xids(report.logged_xids)}: no proof, as any user there "
            "can write such lines"
        )


def _quiet_lines(report: BugReport | SosReport) -> Iterator[str]:
    """What no rule reports, and who asks for help may ask about."""
    rows = read_table().rows
    quiet = {
        number: count
        for number, count in report.xids.items()
        if (row := rows.get(("xid", number))) and row.weight == "quiet"
    }
    if quiet:
        yield (
            f"its kernel log names {_name_xids(quiet)}: by NVIDIA's catalogue a program's fault, "
            "or nothing to act on"
        )


def _name_xids(counts: Mapping[int, int]) -> str:
    most = sorted(counts.items(), key=_weigh_xid)
    named = [f"Xid {number} ({say_count(count, 'line')})" for number, count in most[:_MOST_NAMED]]
    more = [f"{len(most) - _MOST_NAMED} more"] if len(most) > _MOST_NAMED else []
    return join_words([*named, *more])


def _weigh_xid(counted: tuple[int, int]) -> tuple[bool, int]:
    """Faults of a GPU before what programs do, so that the few that are named are those that
    matter.
    """
    row = read_table().rows.get(("xid", counted[0]))
    return row is None or row.weight != "fault", counted[0]


def _sos_lines(report: SosReport) -> Iterator[str]:
    yield "it holds a part of that host, and no policy: rules that ask for more are not judged"
    if report.is_folder:
        yield (
            "it is unpacked: nothing is absent because it is not in it; the archive itself would "
            "prove more"
        )
    elif not report.is_whole:
        yield (
            "it is not whole: the archive breaks off, so that nothing is absent because it is not "
            "in it"
        )
    if report.timed_out:
        yield (
            f"these plugins of sos did not come to their end there: {_name_some(report.timed_out)}"
        )
    if report.is_cleaned:
        yield (
            "names and addresses in it are masked (sos clean), so that only files of the kernel "
            "count"
        )
    if report.masked:
        verb = "does" if report.masked == 1 else "do"
        yield f"sos masked values in {say_count(report.masked, 'file')}, which {verb} not count"
    if not report.has_log:
        yield "the kernel log in it does not count: there is none that is whole"
    if report.doubled:
        yield f"it has these twice, so that neither counts: {_name_some(report.doubled)}"
    yield from _quiet_lines(report)


def _name_some(names: tuple[str, ...]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return join_words([*(clean(name) for name in names[:_MOST_NAMED]), *more])
