"""What all rings share: property tests find the same examples in every run; material that lies
outside is said to be missing; and what each test takes of the processor is measured, or bounded
(`tests/costs.py`).
"""

import gc
import json
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.costs import choose_cases, read_costs, read_processor_s

settings.register_profile("hosttune", derandomize=True, database=None, deadline=None)
settings.load_profile("hosttune")

# Under nohup(1), or behind the `&` of a script, these are ignored, and so they would be in every
# program that tests start.
for number, handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "fstab"
SECOND_CORPUS = CORPUS.with_name("fstab-2")
_OF_CORPUS = {
    "unit/test_fstab_corpus.py": CORPUS,
    "unit/test_fstab_second_corpus.py": SECOND_CORPUS,
}
collect_ignore = [name for name, folder in _OF_CORPUS.items() if not folder.is_dir()]
LEFT_OUT = {
    Path(__file__).resolve().parent / name for name in collect_ignore
}  # also where a call names the file


MEASURED = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cap-s",
        type=float,
        help="of each test, as many cases as fit into these processor seconds",
    )
    parser.addoption(
        "--measure",
        type=Path,
        help="write the processor seconds of each case to a file of this folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MEASURED] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = {item.nodeid for item in items if item.path not in LEFT_OUT}
    if (cap_s := config.getoption("--cap-s")) is not None:
        chosen = choose_cases(chosen, read_costs(), cap_s)
    if len(chosen) == len(items):
        return
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    begin = read_processor_s()
    result = yield
    item.config.stash[MEASURED][item.nodeid] = read_processor_s() - begin
    return result


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.getoption("--measure"):
        (folder / f"{os.getpid()}.json").write_text(
            json.dumps(config.stash[MEASURED]), encoding="utf-8"
        )


def pytest_report_header() -> list[str]:
    return [
        f"left out: tests/{name}, for there are no real files at {_OF_CORPUS[name]}"
        for name in collect_ignore
    ]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What ten thousand collected tests hold stays to the end: the garbage collector need not walk
    it again and again.
    """
    gc.collect()
    gc.freeze()
