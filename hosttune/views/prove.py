"""What `apply --prove` would measure, and what it measured: before and after, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.host.cleaned import clean
from hosttune.views.document import Say, Section
from hosttune.views.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.actions.prove import Proof, Proven
    from hosttune.measure.bench.results import BenchResult
    from hosttune.views.document import Block
    from hosttune.views.page import Page

_MIB = 1 << 20


def describe_intent(proofs: Sequence[Proof], seconds: float) -> Block:
    """What would be measured, and how long that takes."""
    if not proofs:
        return Say("--prove: no change of this plan has a bench, so there is nothing to measure.")
    runs = sum(1 if one.is_later else 2 for one in proofs)
    minutes = counted(round(runs * seconds / 60) or 1, "minute")
    when = ("before and after", "before; after it comes with the reboot")
    says = (Say(f"{clean(one.rule)}: {clean(one.words)}, {when[one.is_later]}", is_hanging=True) for one in proofs)
    count = f"{counted(runs, 'bench', 'benches')}, about {minutes} at the most"
    return Section("Would be measured", tuple(says), count=count)


def measured_sections(proven: Sequence[Proven], page: Page) -> list[Block]:
    """What was measured, rule by rule."""
    return [_section(one, page) for one in proven]


def _section(one: Proven, page: Page) -> Section:
    texts = [f"{when}: {_said(result)}" for when, result in (("before", one.before), ("after", one.after)) if result]
    texts += map(clean, one.why)
    texts += [f"after the reboot, type: {page.act(one.proof.later)}"] if one.proof.later else []
    says = (Say(text, is_hanging=True) for text in texts)
    return Section(f"Measured for {clean(one.proof.rule)}", tuple(says))


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


def _said(result: BenchResult) -> str:
    """The comparison, and what a first read wrote as the file system is mounted at that moment."""
    from hosttune.views.measure.bench import gist

    texts: list[str] = [clean(gist(result))]
    mounted = result.words.get("mounted", "")
    written = result.figure(f"written_bytes_{'base' if mounted == 'noatime' else 'other'}")
    if mounted and written is not None:
        copies = result.figures.get("copies", 0.0)
        texts.append(
            f"as it is mounted ({clean(mounted)}) the first read of {copies:,.0f} files a day writes "
            f"{written / _MIB:.1f} MiB"
        )
    if result.findings:
        one = result.findings[0]
        texts.append(
            f"{one.pairs} pairs, the same twice {one.control.estimate:.3f} [{one.control.low:.3f}, "
            f"{one.control.high:.3f}], seed {result.seed}"
        )
    return "; ".join(texts)
