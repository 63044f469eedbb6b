"""What `apply --prove` would measure, and what it measured: before and after, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.views.page import shown
from hosttune.views.terminal import counted, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.actions.prove import Proof, Proven
    from hosttune.measure.bench.results import Result
    from hosttune.views.page import Page

_MIB = 1 << 20


def intent_text(proofs: Sequence[Proof], seconds: float, page: Page) -> str:
    """What would be measured, and how long that takes."""
    if not proofs:
        return "\n--prove: no change of this plan has a bench, so there is nothing to measure.\n"
    runs = sum(1 if one.is_later else 2 for one in proofs)
    lines = ["", page.screen.paint("Would be measured", "bold") + f" ({counted(runs, 'bench', 'benches')}, about "
             f"{counted(round(runs * seconds / 60) or 1, 'minute')} at the most)"]  # fmt: skip
    for one in proofs:
        when = "before; after it comes with the reboot" if one.is_later else "before and after"
        lines += wrapped(f"{shown(one.rule)}: {shown(one.words)}, {when}", page.screen.columns, first="  ", rest="    ")
    return "\n".join(lines) + "\n"


def proven_text(proven: Sequence[Proven], page: Page) -> str:
    """What was measured, rule by rule."""
    lines = []
    for one in proven:
        lines += ["", page.screen.paint(f"Measured for {shown(one.proof.rule)}", "bold")]
        for when, result in (("before", one.before), ("after", one.after)):
            if result:
                lines += wrapped(f"{when}: {_said(result)}", page.screen.columns, first="  ", rest="    ")
        for why in one.why:
            lines += wrapped(shown(why), page.screen.columns, first="  ", rest="    ")
        if one.proof.later:
            later = f"after the reboot, type: {page.act(one.proof.later)}"
            lines += wrapped(later, page.screen.columns, first="  ", rest="    ")
    return "\n".join(lines) + "\n" if lines else ""


def proven_json(proven: Sequence[Proven]) -> list[dict[str, Any]]:
    """The same for programs."""
    from hosttune.measure.bench.results import to_json

    return [
        {
            "rule": one.proof.rule,
            "bench": one.proof.kind,
            "path": one.proof.path,
            "is_later": one.proof.is_later,
            "before": to_json(one.before) if one.before else None,
            "after": to_json(one.after) if one.after else None,
            "why": list(one.why),
        }
        for one in proven
    ]


def _said(result: Result) -> str:
    """The comparison, and what a first read wrote as the file system is mounted at that moment."""
    from hosttune.views.measure.bench import gist

    texts = [shown(gist(result))]
    mounted = result.words.get("mounted", "")
    written = result.figure(f"written_bytes_{'base' if mounted == 'noatime' else 'other'}")
    if mounted and written is not None:
        copies = result.figures.get("copies", 0.0)
        texts.append(
            f"as it is mounted ({shown(mounted)}) the first read of {copies:,.0f} files a day writes "
            f"{written / _MIB:.1f} MiB"
        )
    if result.findings:
        one = result.findings[0]
        texts.append(
            f"{one.pairs} pairs, the same twice {one.control.estimate:.3f} [{one.control.low:.3f}, "
            f"{one.control.high:.3f}], seed {result.seed}"
        )
    return "; ".join(texts)
