"""Answers from a report of nvidia-bug-report.sh or a sosreport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.door import Completed
from hosttune.host.record.record import RecordReader
from hosttune.host.support import smi
from hosttune.host.support.bug_report import QUERY, BugReport, is_bug_report, read_bug_report
from hosttune.host.support.sos import SosReport, read_sosreport
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.values import Answer

# Commands of nvidia-smi by another spelling in the report.
_SPELLED = {"-s": "--status", "-e": "--errorcounters"}
# How nvidia-smi ends with these words (nvidia-smi(1), RETURN VALUE).
_STATUSES = (
    ("couldn't communicate", 9),
    ("GPU is lost", 15),
    ("requires reset", 16),
    ("No devices were found", 6),
    ("couldn't find", 12),
)


class SupportReader(RecordReader):
    """A record of what a report holds; nvidia-smi's fields are looked up in its long text."""

    def __init__(self, report: BugReport | SosReport, file: str) -> None:
        super().__init__(report.record, file)
        self.report = report
        program = "nvidia-bug-report.sh" if isinstance(report, BugReport) else "sos"
        self.source = f"{program} {report.script}".strip()

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        report = self.report
        if argv[0] in {"journalctl", "dmesg"} and not report.has_log:
            return Unreadable("this report has no kernel log that counts")
        if argv[0] == "journalctl":
            return self._missing("the system's journal")
        if argv[0] == "nvidia-smi" and report.smi.is_doubtful:
            return Unreadable(
                "nvidia-smi's answer in this report has a GPU too many, as a process may be called"
            )
        if argv[0] == "systemctl" and (text := self._list_units(argv)) is not None:
            return _make_completed(text)
        if argv[0] != "nvidia-smi":
            return super().query(argv, timeout_s=timeout_s)
        if report.is_safe_mode:
            return Unreadable(
                "the full answer of nvidia-smi is not in it: nvidia-bug-report.sh ran with "
                "--safe-mode"
            )
        if isinstance(report, BugReport) and report.has_no_smi:
            return ABSENT
        found = self._smi(argv)
        return self._missing(f"the answer of {' '.join(argv)}") if found is None else found

    def _list_units(self, argv: Sequence[str]) -> str | None:
        """None for what the report does not tell."""
        units = self.report.units if isinstance(self.report, SosReport) else None
        if units is None:
            return None
        if argv[1] == "list-units" and "--state=failed" in argv:
            return units.failed
        if argv[1] != "show" or "--" not in argv:
            return None
        end = argv.index("--")
        properties = next(
            (word.partition("=")[2] for word in argv[:end] if word.startswith("--property=")), ""
        )
        return units.show(properties.split(","), argv[end + 1 :])

    def _smi(self, argv: Sequence[str]) -> Completed | None:
        """None for what the report does not tell."""
        answers, long = self.report.answers, self.report.smi
        text = answers.get(QUERY) or answers.get("nvidia-smi -q")
        if text is None or argv[1] == "-q":
            return None if text is None else _make_completed(text)
        if not long.gpus:
            return _make_completed(
                text, next((number for words, number in _STATUSES if words in text), 255)
            )
        if argv[1] == "nvlink":
            own = answers.get(f"nvidia-smi nvlink {_SPELLED.get(argv[2], argv[2])}")
            return None if own is None else _make_completed(own)
        if argv[1] == "-L" and not smi.has_mig(long):
            return _make_completed(smi.list_gpus(long))
        found = smi.answer(long, argv)
        return None if found is None else _make_completed(found[1], found[0])


def read_support_file(content: bytes, path: str) -> SupportReader:
    """The reader of a file that `is_support_file`. Raises BadInput."""
    from hosttune import __version__

    read = read_bug_report if is_bug_report(content) else read_sosreport
    return SupportReader(read(content, path, __version__), path)


def read_support_folder(path: str) -> SupportReader:
    """The reader of the folder of a sosreport. Raises BadInput."""
    from hosttune import __version__

    return SupportReader(read_sosreport(None, path, __version__), path)


def _make_completed(output: str, status: int = 0) -> Completed:
    return Completed(status, output.encode("utf-8", "surrogateescape"), b"")
