"""`hosttune bench tmp`: what /tmp in memory is worth: unpack, compile and delete on /tmp as it is, and in memory.

A and A' work on the disk, B in memory: for root in a tmpfs of its own that nobody else sees, for a user in a folder of
/dev/shm. Nothing is synced within the timed parts, as nobody syncs /tmp; what a round left dirty is written after it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from hosttune.errors import HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.host.bounded import head_text
from hosttune.host.process import SEARCH, Ended, bounded, locate
from hosttune.measure.bench.copies import sync
from hosttune.measure.bench.counters import now, read_disk
from hosttune.measure.bench.detached import memory_folder
from hosttune.measure.bench.gates import GateClosed, require_own, require_quiet, require_room
from hosttune.measure.bench.noise import work_noise
from hosttune.measure.bench.pairs import BASE, CONTROL, OTHER, Pairs, Timed, compare
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.results import BenchResult, new_result, noise_figures
from hosttune.measure.bench.scratch import scratch
from hosttune.measure.bench.signals import ended_alike
from hosttune.values import Absent

RULE: Final = "storage-tmp-tmpfs"
UNPACK, COMPILE, DELETE = "unpack", "compile", "delete"
SHM: Final = "/dev/shm"
_MOST_FILES, _LEAST_FILES = 2000, 100
_UNPACK_S = 0.2  # on the disk; a slow one gets fewer files
_TRIALS = 3  # the slowest counts: ext4 took less than 0.2 s for what took 1.6 s in the rounds after it
_PER_FOLDER = 100
_LARGEST = 14 << 10
_ROOM = 256 << 20  # of the tmpfs; a round takes a tenth of it
_LEAST_MEMORY = 1 << 30
_COMPILE_S = 60.0
_FUNCTIONS = 60


@frozen
class TmpOptions:
    """What the command line says. `where` is the state folder, "" for this user's."""

    folder: str = "/tmp"
    budget_s: float = 60.0
    anyway: bool = False
    allow_network: bool = False
    where: str = ""


def bench_tmp(seed: int, options: TmpOptions, tell: Callable[[str], None] = lambda _: None) -> BenchResult:
    """Measure it. `tell` gets a line of progress now and then.

    Raises GateClosed where it should not be measured, HosttuneError where it cannot be.
    """
    place = look_at(options.folder)
    if place.is_memory:
        raise GateClosed(
            f"{place.path} lies in memory already ({place.fstype}): there is nothing to gain",
            hint="to compare another folder with memory: --dir /var/tmp",
        )
    require_own(place, allow_network=options.allow_network)
    require_room(place)
    memory = _memory()
    tell("watching the host for a second")
    spoiled = require_quiet(place, anyway=options.anyway)
    with ended_alike(), ExitStack() as stack:
        disk, _ = stack.enter_context(scratch(place, options.where, inside=True))
        fast, how = stack.enter_context(_fast_folder(options.where))
        compiler = locate("cc")
        worker = TmpWork(seed, place.device, "" if isinstance(compiler, Absent) else compiler)
        arms = {BASE: disk, OTHER: fast, CONTROL: disk}
        tell("trying each kind of work once")
        worker.round(arms[OTHER])
        worker.adapt(max(worker.round(arms[BASE])[UNPACK].seconds for _ in range(_TRIALS)))
        counted = worker.round(arms[BASE], counts=True)
        pairs = compare(
            lambda arm, _: worker.round(arms[arm]),
            seed=seed,
            budget_s=options.budget_s,
            begin_chunk=lambda: _watch(place.device),
            spoiled=spoiled,
            anyway=options.anyway,
            on_progress=lambda done, share: tell(f"{done} rounds, {share:.0%} of the time"),
        )
    figures = {**memory, **_figures(pairs), **noise_figures(pairs), **_sizes(place.path)}
    figures |= {"files": len(worker.sizes), "bytes": sum(worker.sizes)}
    figures["written_bytes_disk"] = counted[UNPACK].written_bytes
    words = {"base": f"{place.path} ({place.fstype})", "other": "memory (tmpfs)", "how": how}
    if not worker.compiler:
        words["compile"] = "left out: no C compiler that works here"
    return new_result("tmp", place, seed, pairs.comparisons, figures=figures, words=words)


def _watch(device: str) -> Callable[[], tuple[str, ...]]:
    before = now(device)
    return lambda: work_noise(before, now(device))


@contextmanager
def _fast_folder(where: str) -> Iterator[tuple[int, str]]:
    """A folder in memory, and a word on which."""
    with ExitStack() as stack:
        try:
            folder, how = stack.enter_context(memory_folder(_ROOM)), "a private tmpfs"
        except Refused as refused:
            place = look_at(SHM)
            if not place.is_memory or place.available_bytes < _ROOM:
                reason = f"{SHM} is no tmpfs with {_ROOM >> 20} MiB of room"
                raise GateClosed(reason, hint="run it as root") from refused
            folder, how = stack.enter_context(scratch(place, where, inside=True))[0], SHM
        yield folder, how


def _memory() -> dict[str, float | None]:
    """What memory there is for a tmpfs. Raises GateClosed where it is short."""
    lines = head_text("/proc/meminfo").splitlines()
    rows = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    available = rows.get("MemAvailable", 0)
    if available < _LEAST_MEMORY:
        raise GateClosed(f"{available >> 20} MiB of memory are available: too little to put files there")
    return {"memory_available_bytes": available, "memory_total_bytes": rows.get("MemTotal", 0)}


def _sizes(path: str) -> dict[str, float | None]:
    """What lies in /tmp, and the size that the rule would give it with its own defaults, 0 where it leaves it alone; no
    figures where they are not known.
    """
    if path != "/tmp":
        return {}
    from hosttune.choices.tmp_size import choose
    from hosttune.engine.catalog import load_catalog
    from hosttune.facts import Facts
    from hosttune.facts.base import UnknownFact
    from hosttune.host.live import LiveReader

    reader = LiveReader()
    facts = Facts(reader)
    try:
        params = {name: param.default for name, param in load_catalog(reader).rules[RULE].params.items()}
        chosen = choose(facts, params)
        return {"tmp_used_bytes": facts.filling.used_bytes, "rule_size_bytes": chosen.size_bytes}
    except (UnknownFact, HosttuneError, KeyError):
        return {}


def _figures(pairs: Pairs) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for one in pairs.comparisons:
        for arm, name in ((BASE, "disk"), (OTHER, "memory")):
            total = one.totals[arm]
            figures[f"{one.name}_s_{name}"] = total.seconds / one.judgement.pairs
            figures[f"{one.name}_cpu_s_{name}"] = total.cpu_s / one.judgement.pairs
    return figures


class TmpWork:
    """Does one round of the work in a folder: unpack, compile if there is a compiler that works, delete."""

    def __init__(self, seed: int, device: str, compiler: str) -> None:
        draw = random.Random(seed)  # noqa: S311 - file sizes, to be repeated from their seed
        self.compiler = compiler
        self._device = device
        self._block = os.urandom(_LARGEST)
        self.sizes = [draw.randrange(1 << 10, _LARGEST) for _ in range(_MOST_FILES)]
        self._source = _source().encode()

    def adapt(self, unpack_s: float) -> None:
        """Take so many files from now on that unpacking, which took that long with all of them, takes a fifth of a
        second: twenty rounds have to fit into a minute."""
        files = int(len(self.sizes) * _UNPACK_S / unpack_s)
        self.sizes = self.sizes[: max(_LEAST_FILES, files)]

    def round(self, folder: int, *, counts: bool = False) -> Mapping[str, Timed]:
        """Leaves the open folder as it was. `counts`: with the bytes that a sync writes."""
        done = {UNPACK: _timed(lambda: self._unpack(folder))}
        if counts:
            done[UNPACK] = Timed(done[UNPACK].seconds, done[UNPACK].cpu_s, None, self._flushed(folder))
        if self.compiler and (took := self._compiled(folder)):
            done[COMPILE] = took
        done[DELETE] = _timed(lambda: self._delete(folder))
        sync(folder)
        return done

    def _unpack(self, folder: int) -> None:
        for number, size in enumerate(self.sizes):
            inner = f"d{number // _PER_FOLDER:02d}"
            if number % _PER_FOLDER == 0:
                os.mkdir(inner, 0o700, dir_fd=folder)
            _write(folder, f"{inner}/{number}", self._block[:size])

    def _delete(self, folder: int) -> None:
        for number in range(len(self.sizes)):
            os.unlink(f"d{number // _PER_FOLDER:02d}/{number}", dir_fd=folder)
        for number in range(-(-len(self.sizes) // _PER_FOLDER)):
            os.rmdir(f"d{number:02d}", dir_fd=folder)

    def _compiled(self, folder: int) -> Timed | None:
        """None, and never again, where the compiler does not do it.

        The compiler gets there by the descriptor, too: whoever owns the folder above can put another in its place,
        with links in it that root's compiler would write through.
        """
        path = f"/proc/{os.getpid()}/fd/{folder}"
        _write(folder, "work.c", self._source)
        environment = {"PATH": ":".join(SEARCH), "TMPDIR": path, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
        command = (self.compiler, "-O1", "-o", f"{path}/work", f"{path}/work.c")
        statuses = []

        def run() -> None:
            answer = bounded(command, environment, timeout_s=_COMPILE_S, limit=1 << 16)
            statuses.append(1 if isinstance(answer, Ended) else answer.status)

        took = _timed(run)
        for name in ("work.c", "work"):
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                statuses.append(1)
        if any(statuses):
            self.compiler = ""
            return None
        return took

    def _flushed(self, folder: int) -> int | None:
        before = read_disk(self._device)
        sync(folder)
        after = read_disk(self._device)
        return after.since(before).written_bytes if before and after else None


def _timed(work: Callable[[], None]) -> Timed:
    used, begun = os.times(), time.perf_counter()
    work()
    seconds, now_used = time.perf_counter() - begun, os.times()
    return Timed(seconds, sum(now_used[:4]) - sum(used[:4]))


def _write(folder: int, name: str, content: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _source() -> str:
    """A C program that keeps a compiler busy for a fifth of a second or so."""
    parts = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    parts += [
        f"static unsigned f{number}(unsigned x) {{ for (unsigned i = 0; i < x % {number + 7}u; i++) "
        f"x = x * {2 * number + 3}u + i % {number + 1}u; return x; }}"
        for number in range(_FUNCTIONS)
    ]
    calls = " ".join(f"x += f{number}(x);" for number in range(_FUNCTIONS))
    parts.append(f'int main(int argc, char **argv) {{ unsigned x = argc; (void)argv; {calls} printf("%u\\n", x); }}')
    return "\n".join(parts) + "\n"
