"""What benches found and what they left behind, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.views.page import Page
from hosttune.views.terminal import wrap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.measure.bench.results import BenchResult
    from hosttune.measure.bench.scratch import Leftover


def figures_of(result: BenchResult, page: Page) -> list[str]:
    """Every figure that is kept, by its name, for `--verbose`."""
    return (
        [f"{name} = {value:,.6g}" for name, value in result.figures.items()]
        if page.is_verbose
        else []
    )


def list_text(results: Sequence[BenchResult], page: Page) -> str:
    """One line for each stored result."""
    if not results:
        return f"no bench has been run here: {page.look('bench read PATH')}\n"
    lines = []
    for result in results:
        head = f"{result.measured_at[:16].replace('T', ' ')}  {result.kind} {clean(result.path)}  "
        kept = f"(kernel {clean(result.kernel)})"
        answer = clean(result.words.get("answer", ""))
        lines += wrap_text(f"{answer} {kept}", page.screen.columns, first=head, rest="    ")
    return "\n".join(lines) + "\n"


def leftover_text(leftovers: Sequence[Leftover], page: Page) -> str:
    """What benches that were killed left behind, and the way out; "" for nothing."""
    if not leftovers:
        return ""
    places = ", ".join(clean(one.path) for one in leftovers)
    return f"a bench that was killed left {places}; to remove it: {page.look('bench clean')}"


def cleaned_text(leftovers: Sequence[Leftover], kept: Sequence[Leftover]) -> str:
    """What `bench clean` did."""
    lines = [f"removed {clean(one.path)}" for one in leftovers if one not in kept]
    lines += [
        f"left {clean(one.path)} as it is: it is not a scratch folder of this user any more"
        for one in kept
    ]
    return "\n".join(lines or ["nothing was left behind"]) + "\n"
