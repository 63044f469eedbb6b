"""What the commands share that measure: the page, a seed, and a closed gate as an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hosttune.cli.options import Display
    from hosttune.views.page import Page

T = TypeVar("T")


def run_measured(
    page: Page, about_s: float, bench: Callable[[Callable[[str], None]], T]
) -> T | None:
    """Run a bench of `about_s` seconds, which gets a function to report its progress. A closed gate
    is an answer, too: it is reported, and None comes back.
    """
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError
    from hosttune.host.progress import note_step, show_progress
    from hosttune.measure.bench.gates import GateClosed
    from hosttune.measure.bench.scratch import find_leftovers
    from hosttune.measure.views.bench import leftover_text

    # Before the new bench, whose own scratch folder would otherwise be found as well.
    if left := leftover_text(find_leftovers(), page):
        tell(f"hosttune: {left}")
    try:
        with show_progress("measuring", about_s=about_s):
            return bench(note_step)
    except GateClosed as closed:
        tell(f"hosttune: not measured: {closed.message}")
        if closed.hint:
            tell(f"  hint: {closed.hint}")
        return None
    # It is an OSError too, and a reader of the output that has gone is not a fault of the bench.
    except BrokenPipeError:
        raise
    except OSError as error:  # a disk that is full, or fails, under the scratch copies
        raise HosttuneError(f"the bench ended: {error.strerror or error}") from error


def keep_result(save: Callable[[], None]) -> None:
    """Keep what was found; where that cannot be, say so: it was measured and printed all the
    same.
    """
    from hosttune.cli.common import tell
    from hosttune.errors import HosttuneError

    try:
        save()
    except HosttuneError as error:
        tell(f"hosttune: not kept: {error.message}")


def page_of(show: Display) -> Page:
    from hosttune.cli.common import open_page
    from hosttune.host.reading.live import LiveReader

    return open_page(LiveReader(), None, show)


def seed_of(asked: int | None) -> int:
    import secrets

    return secrets.randbelow(1_000_000) if asked is None else asked


def warn_of_dropping() -> None:
    """Whose work will read from the disk again; nothing to anybody but root, who alone may have
    it.
    """
    from hosttune.host.reading.live import LiveReader

    if not LiveReader().is_privileged:
        return
    from hosttune.cli.common import tell
    from hosttune.measure.bench.bystanders import list_bystanders

    others = list_bystanders()
    whose = f"; now at work here: {', '.join(others)}" if others else ""
    tell(
        f"hosttune: --drop-caches makes every program of this host read from the disk again{whose}"
    )
