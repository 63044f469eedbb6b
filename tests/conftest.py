"""What all rings share: property tests find the same examples in every run; material that lies outside is said to be missing."""

import gc
import signal
from pathlib import Path

import pytest
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
SECOND_CORPUS = CORPUS.with_name("fstab-2")
_OF_CORPUS = {"unit/test_fstab_corpus.py": CORPUS, "unit/test_fstab_second_corpus.py": SECOND_CORPUS}
collect_ignore = [name for name, folder in _OF_CORPUS.items() if not folder.is_dir()]


def pytest_report_header() -> list[str]:
    return [f"left out: tests/{name}, for there are no real files at {_OF_CORPUS[name]}" for name in collect_ignore]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What ten thousand collected tests hold stays to the end: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()
