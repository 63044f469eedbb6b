"""What all rings share: property tests find the same examples in every run; material that lies outside is said to be missing."""

import signal
from pathlib import Path

from hypothesis import settings

settings.register_profile("hosttune", derandomize=True, database=None, deadline=None)
settings.load_profile("hosttune")

# Under nohup(1), or behind the `&` of a script, these are ignored, and so they would be in every program that tests start.
for number, handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "fstab"
collect_ignore = [] if CORPUS.is_dir() else ["unit/test_fstab_corpus.py"]


def pytest_report_header() -> str:
    return (
        "" if CORPUS.is_dir() else f"left out: tests/unit/test_fstab_corpus.py, for there are no real files at {CORPUS}"
    )
