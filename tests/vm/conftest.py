"""Each file has a guest of its own, so that files run in any order and side by side; its tests are
the steps of a story and run in the order in which they stand.
"""

import contextlib
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.vm import image, installed, saved
from tests.vm.guest import Guest
from tests.vm.image import Recipe
from tests.vm.transcript import Transcript, transcript_folder

FAILED_STEP = pytest.StashKey[str]()


@pytest.fixture(scope="module")
def transcript(request: pytest.FixtureRequest) -> Iterator[Transcript]:
    """What is typed in this file's guests."""
    folder = transcript_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{request.path.stem}.txt").open("w", encoding="utf-8") as file:
        yield Transcript(file)


@contextlib.contextmanager
def booted(recipe: Recipe, transcript: Transcript, *, is_shared: bool = True) -> Iterator[Guest]:
    """A guest with hosttune installed that has just booted, switched off and deleted at the end,
    also when a test fails.

    `is_shared`: several files begin with one of this recipe, so that it boots once for all of them.
    """
    disks = installed.get(recipe)
    stands = saved.get(recipe) if is_shared else None
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        guest = Guest(disks, Path(folder), transcript, saved=stands)
        with contextlib.closing(guest):
            if is_shared:
                guest.resume()
            else:
                guest.boot()
            yield guest


@pytest.fixture(scope="module")
def guest(transcript: Transcript) -> Iterator[Guest]:
    """A Debian 12."""
    with booted(image.BOOKWORM, transcript) as guest:
        yield guest


@pytest.fixture(scope="module")
def trixie(transcript: Transcript) -> Iterator[Guest]:
    """A Debian 13 that boots through GRUB and has a disk that nothing mounts."""
    with booted(image.TRIXIE, transcript) as guest:
        yield guest


@pytest.fixture(scope="module")
def bare(transcript: Transcript) -> Iterator[Guest]:
    """A Debian 13 that looks like bare metal."""
    with booted(image.TRIXIE_BARE, transcript, is_shared=False) as guest:
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
        report.sections += [("serial console", guest.console_tail()) for guest in guests_of(item)]
    return report


def guests_of(item: pytest.Item) -> list[Guest]:
    """Those that its fixtures gave the test, also as a part of what they gave."""
    given = getattr(item, "funcargs", {}).values()
    return [
        one
        for value in given
        for one in (value if isinstance(value, tuple) else (value,))
        if isinstance(one, Guest)
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"vm ring: every command and its output: {transcript_folder()}")
