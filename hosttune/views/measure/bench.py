"""What a bench found, as text: the answer, the counters beside it, and what it leads to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hosttune.host.cleaned import clean
from hosttune.measure.bench.statistics import Answer, Interval, too_few
from hosttune.views.page import Page
from hosttune.views.terminal import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.measure.bench.results import BenchFinding, BenchResult
    from hosttune.measure.bench.scratch import Leftover

NOATIME, TMPFS = "storage-noatime", "storage-tmp-tmpfs"
RULES = (NOATIME, TMPFS)  # that the texts lead to
FOREIGN = 0.25  # of the bytes: noatime writes none, so that what is counted with it is the writing of others
_GIB = 1 << 30
_MIB = 1 << 20


def atime_text(result: BenchResult, page: Page) -> str:
    """The report of `bench atime`."""
    finding = result.findings[0]
    lines = _headline(result, finding, page)
    facts = [_atime_answer(finding, result), *_atime_counters(result), _stale_files(result), *figures_of(result, page)]
    advice = _atime_advice(result, finding, page)
    return _paragraphs(lines, [fact for fact in facts if fact], advice, page)


def same_text(result: BenchResult, page: Page) -> str:
    """The report of `bench atime --same`: how much of a difference comes of nothing here."""
    finding = result.findings[0]
    if finding.answer is Answer.DIFFERS:
        said = f"a false alarm: the same work done twice differs by {_times(finding.effect)}"
        advice = "do not believe a bench here now: others work beside it, or the disk is shared"
    else:
        said = f"the same work done twice: {undecided(finding)}"
        advice = "a difference below that cannot be told from noise here"
        if finding.answer is Answer.INCONCLUSIVE:
            advice = f"a difference below {percent(finding.noise_floor)} cannot be told from noise here"
    copies = (
        f"copies: {result.figures['copies']:,.0f} files, {_size(result.figures['copied_bytes'])}; noatime both times"
    )
    return _paragraphs(_headline(result, finding, page), [said, copies, *figures_of(result, page)], advice, page)


def tmp_text(result: BenchResult, page: Page) -> str:
    """The report of `bench tmp`."""
    lines = _headline(result, result.findings[0], page)
    facts = _tmp_answers(result)
    if "compile" in result.words:
        facts.append(f"compile: {result.words['compile']}")
    counts = f"a round: {result.figures['files']:,.0f} files, {_size(result.figures['bytes'])}"
    written = result.figure("written_bytes_disk")
    facts.append(counts + ("" if written is None else f"; the disk then writes {_size(written)}, memory nothing"))
    facts += [_memory(result), *figures_of(result, page)]
    return _paragraphs(lines, facts, _tmp_advice(result, page), page)


def figures_of(result: BenchResult, page: Page) -> list[str]:
    """Every figure that is kept, by its name, for `--verbose`."""
    return [f"{name} = {value:,.6g}" for name, value in result.figures.items()] if page.is_verbose else []


def list_text(results: Sequence[BenchResult], page: Page) -> str:
    """One line for each stored result."""
    if not results:
        return f"no bench has been run here: {page.look('bench atime PATH')}\n"
    lines = []
    for result in results:
        head = f"{result.measured_at[:16].replace('T', ' ')}  {result.kind} {clean(result.path)}  "
        kept = f"(kernel {clean(result.kernel)})"
        lines += wrapped(f"{clean(gist(result))} {kept}", page.screen.columns, first=head, rest="    ")
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
    lines += [f"left {clean(one.path)} alone: it is not a scratch folder of this user any more" for one in kept]
    return "\n".join(lines or ["nothing was left behind"]) + "\n"


def status_of(result: BenchResult) -> int:
    """The exit status: 1 where nothing can be told."""
    return int(all(one.answer is Answer.INCONCLUSIVE for one in result.findings))


def gist(result: BenchResult) -> str:
    """What was found in one line, to be quoted elsewhere."""
    if result.kind == "atime":
        return _atime_answer(result.findings[0], result)
    if result.kind == "tmp":
        return "; ".join(_tmp_answers(result))
    if "answer" in result.words:  # of `bench read`
        return result.words["answer"]
    return result.words.get("answer", "")


def percent(share: float) -> str:
    """`4.4 %`, `12 %`: one decimal where it says something."""
    value = abs(share) * 100
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def at_most(share: float) -> str:
    """A bound, rounded up."""
    return f"{math.ceil(share * 1000 - 1e-9) / 10:.1f} %"


def undecided(finding: BenchFinding, *, with_reason: bool = True) -> str:
    """The two answers that are no difference."""
    if finding.answer is Answer.SAME:
        return f"no difference larger than {at_most(finding.effect.reach)}"
    ratio = _times(finding.effect)
    said = f"inconclusive: {finding.reason}" if with_reason else "inconclusive"
    return f"{said} (times {ratio}, noise floor {percent(finding.noise_floor)})"


def _times(ratio: Interval, word: str = "") -> str:
    """`1.08 [0.99, 1.13]`: as many decimals for all three."""
    digits = 3 if max(abs(ratio.high - 1), abs(1 - ratio.low)) < 0.1 else 2 if ratio.high < 10 else 1
    return f"{ratio.estimate:.{digits}f}{word} [{ratio.low:.{digits}f}, {ratio.high:.{digits}f}]"


def _headline(result: BenchResult, finding: BenchFinding, page: Page) -> list[str]:
    """What was measured where, and how sure that can be: the ratio of the same work done twice, and its interval."""
    control = finding.control
    same = f"control {control.estimate:.3f} [{control.low:.3f}, {control.high:.3f}]"
    skipped = result.figures.get("skipped_chunks", 0.0)
    again = f", {skipped:.0f} done again" if skipped else ""
    how_long = f"{finding.pairs} pairs{again}, {result.figures['measured_s']:.0f} s, seed {result.seed}"
    mode = f", {result.words['mounted']}" if "mounted" in result.words else ""
    title = page.screen.paint(f"bench {result.kind} {clean(result.path)} ({clean(result.fstype)}{mode})", "bold")
    return [title, *wrapped(f"{same}, {how_long}", page.screen.columns, first="  ", rest="    ")]


def _atime_answer(finding: BenchFinding, result: BenchResult) -> str:
    if finding.answer is not Answer.DIFFERS:
        return f"read time with noatime against {result.words.get('other', '')}: {undecided(finding)}"
    gain, low, high = (1 - 1 / ratio for ratio in _ends(finding.effect))
    word = "faster" if gain > 0 else "slower"
    ends = sorted((abs(low) * 100, abs(high) * 100))
    return (
        f"noatime reads {percent(gain)} {word} [{ends[0]:.1f}, {ends[1]:.1f}] than {result.words.get('other', '')} "
        "when every access time is stale (cold data, no decoding)"
    )


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


def _atime_counters(result: BenchResult) -> list[str]:
    copies = result.figures["copies"]
    lines = [f"copies: {copies:,.0f} files, {_size(result.figures['copied_bytes'])}; {result.words['how']}"]
    base, other = result.figure("written_bytes_base"), result.figure("written_bytes_other")
    if base is not None and other is not None and base > FOREIGN * other:
        counted = f"{_size(other)}, with noatime {_size(base)}"
        lines.append(f"others write on this disk, so that the bytes counted say little ({counted})")
    elif base is not None and other is not None:
        again = result.figure("rewritten_bytes_other")
        second = "" if again is None else f"; a second read right after it: {_size(again)}"
        each = max(other - base, 0.0) / copies
        cost = f"{_size(other)} ({each:,.0f} bytes a file)"
        lines.append(f"the first read of a day writes {cost}, with noatime {_size(base)}{second}")
    read, reads = (result.figure(f"device_read_bytes_{arm}") for arm in ("base", "other"))
    if read is not None and reads is not None:
        lines.append(
            f"in the timed chunks: from the disk {_size(reads)}, with noatime {_size(read)}; CPU "
            f"{result.figures['cpu_s_other']:.1f} s, with noatime {result.figures['cpu_s_base']:.1f} s"
        )
    return lines


def _stale_files(result: BenchResult) -> str:
    stale, looked = result.figures["files_stale"], result.figures["files_looked_at"]
    if (mounted := result.words.get("mounted")) in {"noatime", "strictatime"}:  # stale or not makes no difference
        what = "no access time" if mounted == "noatime" else "the access time of each, at every read"
        return f"your files: reading them writes {what} ({mounted})"
    said = f"your files: {stale:,.0f} of {looked:,.0f} looked at are stale now (their next read writes)"
    return f"{said}; today's gain is about nil" if stale < looked / 100 else said


def _atime_advice(result: BenchResult, finding: BenchFinding, page: Page) -> str:
    more = page.look(f"explain {NOATIME}")
    if result.words.get("mounted") == "noatime":
        return f"{NOATIME}: it is set here already; this is what it saves"
    if finding.answer is Answer.DIFFERS and finding.effect.estimate > 1:
        if result.words.get("mounted") == "strictatime":
            return f"{NOATIME}: worth it, at every read ({more})"
        return f"{NOATIME}: worth it where this set is read about once a day or less often ({more})"
    if finding.answer is Answer.INCONCLUSIVE:
        return f"{NOATIME}: the times say nothing here; {_again(finding)} ({more})"
    return f"{NOATIME}: saves the writes, not the time ({more})"


def _again(*findings: BenchFinding) -> str:
    """What would tell it: more time where all that is missing is pairs."""
    is_short = all(one.reason == too_few(one.pairs) for one in findings)
    return "again with a larger --budget" if is_short else "on a quiet host, again"


def _tmp_answers(result: BenchResult) -> list[str]:
    """One for each kind of work; a reason that they share stands in front, once."""
    reasons = {finding.reason for finding in result.findings}
    shared = reasons.pop() if len(reasons) == 1 and len(result.findings) > 1 else ""
    answers = [_tmp_answer(finding, with_reason=not shared) for finding in result.findings]
    return [f"nothing can be concluded: {shared}", *answers] if shared else answers


def _tmp_answer(finding: BenchFinding, *, with_reason: bool) -> str:
    if finding.answer is not Answer.DIFFERS:
        return f"{finding.name}: {undecided(finding, with_reason=with_reason)}"
    factor, high, low = (1 / ratio for ratio in _ends(finding.effect))
    if factor >= 1.2 or factor <= 1 / 1.2:
        return f"{finding.name}: {_times(Interval(factor, low, high), 'x as fast in memory')}"
    ends = sorted((abs(1 - 1 / low) * 100, abs(1 - 1 / high) * 100))
    word = "faster" if factor > 1 else "slower"
    return f"{finding.name}: {percent(1 - 1 / factor)} {word} in memory [{ends[0]:.1f}, {ends[1]:.1f}]"


def _memory(result: BenchResult) -> str:
    figures = result.figures
    available, total = (figures[f"memory_{name}_bytes"] / _GIB for name in ("available", "total"))
    said = f"memory: {available:.0f} of {total:.0f} GiB available"
    used = result.figure("tmp_used_bytes")
    return said if used is None else f"{said}; /tmp holds {used / _GIB:.1f} GiB now"


def _tmp_advice(result: BenchResult, page: Page) -> str:
    gains = [one.name for one in result.findings if one.answer is Answer.DIFFERS and one.effect.estimate < 1]
    more = page.look(f"explain {TMPFS}")
    if not gains:
        if all(one.answer is Answer.INCONCLUSIVE for one in result.findings):
            return f"{TMPFS}: nothing can be told here; {_again(*result.findings)} ({more})"
        return f"{TMPFS}: no gain to expect from /tmp in memory ({more})"
    others = [one.name for one in result.findings if one.name not in gains and one.answer is Answer.SAME]
    said = f"{TMPFS}: helps {' and '.join(gains)}" + (f", not {' and '.join(others)}" if others else "")
    size = result.figure("rule_size_bytes")
    if size is None:
        return f"{said} ({more})"
    if not size:
        return f"{said}; but the rule leaves the /tmp of this host as it is ({more})"
    return f"{said}; the rule would give it {size / _GIB:.0f} GiB ({more})"


def _size(number: float) -> str:
    if number >= _GIB:
        return f"{number / _GIB:.1f} GiB"
    if number >= 10 * 1024:
        return f"{number / _MIB:.1f} MiB" if number >= _MIB / 10 else f"{number / 1024:.0f} KiB"
    return f"{number:.0f} bytes" if number else "nothing"


def _paragraphs(lines: list[str], facts: list[str], advice: str, page: Page) -> str:
    columns = page.screen.columns
    for fact in facts:
        lines += wrapped(fact, columns, first="  ", rest="    ")
    return "\n".join([*lines, *wrapped(advice, columns, first="  -> ", rest="     ")]) + "\n"
