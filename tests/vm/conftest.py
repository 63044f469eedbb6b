"""One guest for the whole ring: its tests are the steps of a story and run in the order in which they stand."""

import contextlib
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.vm import image as images
from tests.vm.guest import Guest
from tests.vm.transcript import Transcript, transcript_path

TRANSCRIPT = pytest.StashKey[Path]()
FAILED_STEP = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def transcript(pytestconfig: pytest.Config) -> Iterator[Transcript]:
    path = transcript_path(images.cache_folder())
    path.parent.mkdir(parents=True, exist_ok=True)
    pytestconfig.stash[TRANSCRIPT] = path
    with path.open("w", encoding="utf-8") as file:
        yield Transcript(file)


@pytest.fixture(scope="session")
def guest(transcript: Transcript) -> Iterator[Guest]:
    """A booted guest, switched off and deleted at the end, also when a test fails."""
    image = images.get(images.cache_folder())
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        guest = Guest(image, Path(folder), transcript)
        with contextlib.closing(guest):
            guest.boot()
            yield guest


@pytest.fixture(scope="module")
def trixie(transcript: Transcript) -> Iterator[Guest]:
    """A Debian 13 that boots through GRUB and has a disk that nothing mounts, for the tests of one module."""
    recipe = images.get(images.cache_folder(), images.TRIXIE)
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        guest = Guest(recipe, Path(folder), transcript)
        with contextlib.closing(guest):
            guest.boot()
            yield guest


@pytest.fixture(autouse=True)
def step(request: pytest.FixtureRequest, transcript: Transcript) -> None:
    """A step whose story broke off earlier in its module fails at once and says where."""
    module = request.node.getparent(pytest.Module)
    broken = module.stash.get(FAILED_STEP, None)
    if broken is not None:
        pytest.fail(f"not reached: {broken} failed before", pytrace=False)
    transcript.heading(f"{module.path.name}: {request.node.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    module = item.getparent(pytest.Module)
    if module is not None and report.failed and FAILED_STEP not in module.stash:
        module.stash[FAILED_STEP] = item.name
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    path = config.stash.get(TRANSCRIPT, None)
    if path is not None:
        terminalreporter.write_line(f"vm ring: every command and its output: {path}")
