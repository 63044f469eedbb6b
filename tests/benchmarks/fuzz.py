"""Fuzzes everything that reads foreign input: `python -m tests.benchmarks.fuzz [TARGET...] [--runs
N] [--seed S] [--samples TARGET=FOLDER]... [--out FOLDER]`. A benchmark, not a test;
`tests/unit/test_fuzz.py` runs a few inputs of each target.

A target (`fuzz_targets.py`) is a set of genuine samples and the function of hosttune that reads
them. Each run changes one sample and reads it, in a child process with limits on memory and
processor time. A finding is an exception that is not one of hosttune's own errors, a run beyond a
limit, or a processor time that grows faster than the input. The input is reduced and saved with the
traceback. The exit status is 1 when there are findings.

On Python 3.12 and newer, an input that reaches a new line of the package becomes a sample
(sys.monitoring).
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hosttune.errors import HosttuneError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "hosttune")
MEMORY_BYTES = 512 << 20  # beside what the process has when the target starts
CPU_S = 5.0  # of one run; the slowest target, a record that all rules judge, needs a twentieth
HANG_S = 120.0  # by the clock, for a run that waits
GROWS_EVERY = 20  # runs between two measurements of growth
GROWN_BYTES = 1 << 16  # the input is stretched to this, then to twice and four times as much
GROWN_S = 0.2  # a shorter time is no measurement
GROWN_MOST_S = 2.0  # a measurement ends then
GROWTH = 2.9  # times, for twice the input; 2 is linear, 4 is quadratic
MOST_SLOW = 8  # runs of a target that took too long: each takes seconds, so the target ends then
MOST_POOL = 4000
REDUCTIONS = 300
_TOOL = 3  # sys.monitoring keeps it for nothing


@dataclass(frozen=True)
class Sample:
    """A genuine input. `place` is what the target needs to know besides the bytes."""

    content: bytes
    place: Any = None


@dataclass(frozen=True)
class Target:
    """`samples` takes the largest number that is wanted (None: all). `read` gets the bytes and the
    place of a sample.
    """

    name: str
    samples: Callable[[int | None], Sequence[Sample]]
    read: Callable[[bytes, Any], object]
    has_growth: bool = True


@dataclass
class Report:
    runs: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)


class TooSlow(BaseException):
    """A run used its processor time. No Exception, so that no reader can take it for a broken
    input.
    """


# Changes of an input

ODD = (
    b"", b"\0", b"\x1b]0;x\x07", b"\xff", b"\xed\xa0\x80", b"\xc2\x85", b"\xe2\x80\xa8", b"\n", b"\r", b"\t", b"\x0b", b" ", b"-1", b"0",
    b"1", b"9" * 30, b"9" * 5000, b"1e400", b"nan", b"inf", b"0x10", b"1_0", b"\xd9\xa3", b"\xc2\xb2", b"+5", b"1.5", b".", b"..", b"/", b"//",
    b"\\", b"\\\n", b'"', b"'", b"`", b"$(", b"${x}", b"%s", b"%", b"{}", b"{", b"}", b"[", b"]", b"(", b")", b"<", b"|", b"#", b";", b":", b"=", b",",
    b"-", b"--", b"0-99999999", b"[0-99999999]", b"[a-b]", b"N/A", b"[N/A]", b"null", b"true", b"A" * 300, b"a" * 70000, b"\xc3\xa9", b"&a", b"*a", b"!!", b"? ",
)  # fmt: skip
ODD_VALUES = (
    None, True, False, 0, -1, 1, 2**63, 10**25, 1.5, -0.0, 1e308, "", "x", "\0", "\ud800", "9" * 400, "²", "a\nb", "\x1b[2J", [], {}, [None], [[]],
    {"": None}, {"a": {"b": []}}, "2026-11-26T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "/", "../..", "absent",
)  # fmt: skip
_TOKEN = re.compile(rb"[A-Za-z0-9_.]+|[^A-Za-z0-9_.]")
_NUMBER = re.compile(rb"\d+")


def _place(content: bytes, rng: random.Random) -> tuple[int, int]:
    """A short piece of the content: a token, a number, a line, or some bytes."""
    kind = rng.randrange(4)
    if kind == 0 and content:
        start = rng.randrange(len(content))
        return start, min(len(content), start + rng.choice((1, 1, 2, 4, 8, 64)))
    if kind == 1:
        edges = [-1, *(at for at, byte in enumerate(content) if byte == 10), len(content)]
        at = rng.randrange(len(edges) - 1)
        return edges[at] + 1, edges[at + 1]
    start = rng.randrange(len(content) + 1)
    start = max(0, start - 40)
    found = (_NUMBER if kind == 2 else _TOKEN).search(content, start)
    return found.span() if found else (start, start)


def _changed_bytes(content: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = _place(content, rng)
    piece = content[start:end]
    kind = rng.randrange(8)
    if kind < 3:
        new = rng.choice(ODD)
    elif kind == 3:
        new = piece * rng.choice((0, 2, 3, 50))
    elif kind == 4:
        new = piece + rng.choice(ODD)
    elif kind == 5:
        new = bytes(byte ^ (1 << rng.randrange(8)) for byte in piece)
    elif kind == 6:
        first, last = _place(other, rng)
        new = other[first:last]
    else:
        return content[:start] if rng.random() < 0.5 else content[start:]
    return content[:start] + new + content[end:]


def _changed_json(content: bytes, rng: random.Random) -> bytes | None:
    """The same document with one value, key or item changed; None for what is no JSON."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    nodes: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        one = waiting.pop()
        keys = (
            list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        )
        for key in keys:
            nodes.append((one, key))
            waiting.append(one[key])
    if not nodes:
        return json.dumps(rng.choice(ODD_VALUES)).encode()
    parent, key = rng.choice(nodes)
    kind = rng.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(rng.choice(ODD_VALUES))] = parent[key]
    elif kind == 1:
        parent.insert(key, parent[key])
    elif kind == 2:
        other, place = rng.choice(nodes)
        parent[key] = (
            other[place]
            if other is not parent[key] and not isinstance(other[place], (dict, list))
            else None
        )
    elif kind == 3:
        deep: Any = parent[key]
        for _ in range(rng.choice((1, 40, 500))):
            deep = [deep]
        parent[key] = deep
    elif kind == 4 and isinstance(parent[key], str):
        text = parent[key].encode("utf-8", "surrogatepass")
        parent[key] = _changed_bytes(text, text, rng).decode("utf-8", "replace")
    else:
        parent[key] = rng.choice(ODD_VALUES)
    return json.dumps(data).encode()


def changed(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """One to four changes of an input; `other` is a second sample, of which pieces are taken."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        is_json = content[:1] in (b"{", b"[") and rng.random() < 0.7
        found = _changed_json(content, rng) if is_json else None
        content = found if found is not None else _changed_bytes(content, other, rng)
    return content


def stretched(content: bytes, rng: random.Random) -> Callable[[int], bytes]:
    """An input of about as many bytes as asked for, in which one piece of the content is
    repeated.
    """
    start, end = _place(content, rng)
    piece = content[start:end] or rng.choice(ODD[1:])
    if rng.random() < 0.3:
        piece = (
            rng.choice((b"\n", b" ", b"a ", b"a,", b"1\n", b"a=", b"[", b"(", b"a.", b"/a"))
            + piece[:20]
        )

    def of_size(size: int) -> bytes:
        return content[:start] + piece * max(1, (size - len(content)) // len(piece)) + content[end:]

    return of_size


# One run


def _stop(*_: object) -> None:
    raise TooSlow


def _attempt(
    target: Target, content: bytes, place: Any, cpu_s: float | None = None
) -> tuple[str, str]:
    """Read an input: (signature of the finding, its text); ("", "") for none."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s or CPU_S)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        target.read(content, place)
    except HosttuneError:
        pass
    except (Exception, TooSlow) as error:  # noqa: BLE001 - that is what is looked for
        signal.setitimer(signal.ITIMER_PROF, 0)
        frames = [
            one
            for one in traceback.extract_tb(error.__traceback__)
            if one.filename.startswith(PACKAGE)
        ]
        last = (
            f"{os.path.relpath(frames[-1].filename, ROOT)}:{frames[-1].name}"
            if frames
            else "outside of the package"
        )
        shown = "".join(traceback.format_exception(error, limit=-12))
        return f"{type(error).__name__} in {last}", shown[-6000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "", ""


def _seconds(target: Target, content: bytes, place: Any) -> float:
    started = time.process_time()
    signature, _ = _attempt(target, content, place, GROWN_MOST_S)
    return GROWN_MOST_S if signature.startswith("TooSlow") else time.process_time() - started


def growth_of(
    target: Target, of_size: Callable[[int], bytes], place: Any
) -> tuple[float, float, float] | None:
    """The seconds for one, two and four times the input, when they grow faster than the input does;
    else None.
    """
    sizes = [of_size(GROWN_BYTES * times) for times in (1, 2, 4)]
    if (two := _seconds(target, sizes[1], place)) < GROWN_S:
        return None
    one = min(_seconds(target, sizes[0], place) for _ in range(2))
    two = min(two, _seconds(target, sizes[1], place)) if two < GROWN_MOST_S else two
    if two < GROWTH * one and two < GROWN_MOST_S:
        return None
    four = _seconds(target, sizes[2], place)
    return (one, two, four) if four > GROWTH * two or four >= GROWN_MOST_S else None


def reduced(content: bytes, is_still: Callable[[bytes], bool]) -> bytes:
    """A smaller input for which `is_still` holds: pieces are left out, large ones first."""
    tries = 0
    size = max(1, len(content) // 2)
    while size and tries < REDUCTIONS:
        start, has_shrunk = 0, False
        while start < len(content) and tries < REDUCTIONS:
            shorter = content[:start] + content[start + size :]
            tries += 1
            if is_still(shorter):
                content, has_shrunk = shorter, True
            else:
                start += size
        if not has_shrunk or size > len(content):
            size = min(size, len(content)) // 2
    return content


# The loop, in a child


class Coverage:
    """Whether a run reached a line of the package that no run before it had reached."""

    def __init__(self) -> None:
        self.has_new = False
        self._monitoring = getattr(sys, "monitoring", None)
        if self._monitoring is not None:
            self._monitoring.use_tool_id(_TOOL, "hosttune-fuzz")
            self._monitoring.register_callback(_TOOL, self._monitoring.events.LINE, self._line)
            self._monitoring.set_events(_TOOL, self._monitoring.events.LINE)

    def _line(self, code: Any, _: int) -> Any:
        if code.co_filename.startswith(PACKAGE):
            self.has_new = True
        return self._monitoring.DISABLE


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _stop)
    signal.signal(signal.SIGALRM, _stop)


def _loop(
    target: Target,
    pool: list[Sample],
    runs: range,
    seed: int,
    known: set[str],
    note: mmap.mmap,
    say: Callable[..., None],
) -> None:
    coverage = Coverage()
    parent, slow = os.getppid(), 0
    for number in runs:
        if os.getppid() != parent or slow > MOST_SLOW:
            return
        rng = random.Random(f"{seed} {target.name} {number}")  # noqa: S311 - it has to be the same again
        sample = rng.choice(pool)
        content = changed(sample.content, rng.choice(pool).content, rng)
        _write(note, number, content)
        coverage.has_new = False
        signature, text = _attempt(target, content, sample.place)
        slow += signature.startswith("TooSlow")
        if signature and signature not in known:
            known.add(signature)

            def is_still(
                shorter: bytes, signature: str = signature, place: Any = sample.place
            ) -> bool:
                return _attempt(target, shorter, place)[0] == signature

            is_quick = not signature.startswith("TooSlow")
            say(
                number,
                signature,
                text,
                reduced(content, is_still) if is_quick else content,
                sample.place,
            )
        elif (
            coverage.has_new
            and not signature
            and len(content) < GROWN_BYTES
            and len(pool) < MOST_POOL
        ):
            pool.append(Sample(content, sample.place))
        if target.has_growth and number % GROWS_EVERY == 0 and slow < MOST_SLOW:
            of_size = stretched(sample.content, rng)
            _write(note, number, of_size(GROWN_BYTES * 4))
            if found := growth_of(target, of_size, sample.place):
                slow += 1
                signature = f"growth, {_slow_place(target, of_size, sample.place)}"
                if signature not in known:
                    known.add(signature)
                    text = "seconds for {} bytes, twice and four times as much: {:.2f}, {:.2f}, {:.2f}".format(
                        GROWN_BYTES, *found
                    )
                    say(number, signature, text, of_size(GROWN_BYTES), sample.place)


def _slow_place(target: Target, of_size: Callable[[int], bytes], place: Any) -> str:
    """Where a run with a large input is when its time is over."""
    for times in (4, 16, 64):
        signature, _ = _attempt(target, of_size(GROWN_BYTES * times), place, GROWN_MOST_S)
        if signature:
            return signature
    return "somewhere"


def _write(note: mmap.mmap, number: int, content: bytes) -> None:
    """What is read now, for the parent, in case the kernel ends this process."""
    kept = content[: len(note) - 16]
    note[:16] = number.to_bytes(8, "big") + len(kept).to_bytes(8, "big")
    note[16 : 16 + len(kept)] = kept


def fuzz(target: Target, samples: Sequence[Sample], *, runs: int, seed: int = 1) -> Report:
    """Run a target. A child that the kernel ends is a finding, and a new one goes on after that
    input.
    """
    report = Report()
    known: set[str] = set()
    first = 0
    note = mmap.mmap(-1, 1 << 24)
    while first < runs:
        done, status = _child(target, list(samples), range(first, runs), seed, known, note, report)
        if done:
            break
        number = int.from_bytes(note[:8], "big")
        content = note[16 : 16 + int.from_bytes(note[8:16], "big")]
        signature = f"ended by the kernel: {_end(status)}"
        report.findings.append(
            {"run": number, "what": signature, "text": "", "input": content, "place": ""}
        )
        first = number + 1
    report.runs = int.from_bytes(note[:8], "big") + 1
    return report


def _end(status: int) -> str:
    return (
        f"signal {os.WTERMSIG(status)}"
        if os.WIFSIGNALED(status)
        else f"exit status {os.waitstatus_to_exitcode(status)}"
    )


def _child(
    target: Target,
    pool: list[Sample],
    runs: range,
    seed: int,
    known: set[str],
    note: mmap.mmap,
    report: Report,
) -> tuple[bool, int]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.close(ours)
            with (
                tempfile.TemporaryDirectory(prefix="hosttune-fuzz-") as scratch,
                os.fdopen(theirs, "w") as out,
            ):
                os.chdir(scratch)
                for number in (1, 2):  # what the readers print is of no interest
                    os.dup2(os.open(os.devnull, os.O_WRONLY), number)

                def say(number: int, what: str, text: str, content: bytes, place: Any) -> None:
                    line = {
                        "run": number,
                        "what": what,
                        "text": text,
                        "input": b64encode(content).decode(),
                        "place": str(place),
                    }
                    print(json.dumps(line), file=out, flush=True)

                _limit()
                _loop(target, pool, runs, seed, known, note, say)
                os.chdir("/")
            status = 0
        except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
            Path(os.environ.get("HOSTTUNE_FUZZ_DEBUG", os.devnull)).write_text(
                traceback.format_exc(), encoding="utf-8"
            )
        finally:
            os._exit(status)
    os.close(theirs)
    with os.fdopen(ours) as lines:
        for line in lines:
            found = json.loads(line)
            known.add(found["what"])
            report.findings.append({**found, "input": b64decode(found["input"])})
    _, status = os.waitpid(pid, 0)
    return status == 0, status


def save(out: Path, target: str, found: dict[str, Any]) -> Path:
    """Write a finding: the input, and beside it where and how it was found."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{target}-{blake2b(found['what'].encode(), digest_size=4).hexdigest()}.bin"
    path.write_bytes(found["input"])
    path.with_suffix(".txt").write_text(
        f"{found['what']}\nrun {found['run']}, {len(found['input'])} bytes, of: {found['place']}\n\n{found['text']}",
        "utf-8",
    )
    return path


def main() -> int:
    from tests.benchmarks.fuzz_targets import TARGETS, samples_in

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"one of {', '.join(TARGETS)}; all without a name",
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--samples",
        action="append",
        default=[],
        metavar="TARGET=FOLDER",
        help="more samples: files, .gz too",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz")
    asked = parser.parse_args()
    if unknown := [name for name in asked.targets if name not in TARGETS]:
        parser.error(f"no target is called {', '.join(unknown)}; there is: {', '.join(TARGETS)}")
    more: dict[str, list[Sample]] = {}
    for word in asked.samples:
        name, _, folder = word.partition("=")
        if name not in TARGETS or not Path(folder).is_dir():
            parser.error(f"--samples {word}: expected TARGET=FOLDER")
        more.setdefault(name, []).extend(samples_in(Path(folder)))
    total = 0
    for name in asked.targets or TARGETS:
        target = TARGETS[name]
        samples = list(target.samples(None))
        samples += [Sample(one.content, samples[0].place) for one in more.get(name, ())]
        started = time.monotonic()
        report = fuzz(target, samples, runs=asked.runs, seed=asked.seed)
        seconds = time.monotonic() - started
        print(
            f"{name}: {report.runs} runs, {len(samples)} samples, {seconds:.0f} s, {len(report.findings)} findings",
            flush=True,
        )
        for found in report.findings:
            print(f"  {found['what']}: {save(asked.out, name, found)}", flush=True)
        total += len(report.findings)
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
