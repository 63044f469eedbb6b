"""`hosttune bench read`: how fast files come cold, warm, packed and decoded, and what more workers
bring.

The user's files are only read, with O_NOATIME; those whose access time would move are passed over.
What is written are shards with the same bytes, in a scratch folder. Decoding is the user's
Python's, as the user.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Final

from hosttune.errors import HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.process import locate, look
from hosttune.measure.bench.detached import namespace_with_view
from hosttune.measure.bench.gates import (
    MOST_BYTES,
    GateClosed,
    in_memory,
    require_files,
    require_quiet,
    require_room,
)
from hosttune.measure.bench.low_priority import run_quietly
from hosttune.measure.bench.place import Place, look_at
from hosttune.measure.bench.read_crew import MOST_FILES, Crew, WorkerDied
from hosttune.measure.bench.read_passes import (
    Chunk,
    DecodedSample,
    Differential,
    Watch,
    chunks_of,
    cold_by_dropping_all,
    cold_by_fadvise,
    decode_warm,
    measure_differential,
    probe_files,
    sweep_levels,
    write_shards,
)
from hosttune.measure.bench.read_python import Python, user_python
from hosttune.measure.bench.read_sample import FILE_MOST, ReadSample, draw
from hosttune.measure.bench.reading import Conclusion, Figures, conclude_limit, measure_of
from hosttune.measure.bench.scratch import make_scratch
from hosttune.measure.bench.signals import ended_alike
from hosttune.measure.cpus import usable_cpus
from hosttune.measure.dataset.room import read_room

LEVELS: Final = (1, 2, 4, 8, 16)
FEWEST_FILES: Final = 12
WORKER_MEMORY: Final = 4 << 30  # bytes of data of one worker, at most
SHOWN_BAD: Final = 5
_FIRST: Final = 32  # files, to find out how quick this place is
_PROBED: Final = 0.15  # of the budget
_DIFFERED: Final = 0.30
_DECODED: Final = 0.10
_HANDED: Final = 0.05
_NOT_STARTED: Final = (126, 127)  # setpriv(1) may not execute it, or does not find it


@frozen
class Wanted:
    """What is asked for on the command line."""

    folder: str
    levels: tuple[int, ...] = LEVELS
    decode: bool = False
    python: str | None = None
    budget_s: float = 60.0
    files: int = 4000
    seed: int = 1
    drop_caches: bool = False
    anyway: bool = False
    allow_network: bool = False
    where: str = ""  # the state folder, "" for this user's


@frozen
class Decoder:
    """Who decoded: an interpreter with its version, as whom, and the library for each ending of a
    name.
    """

    python: str
    version: str
    uid: int
    libraries: Mapping[str, str]
    worker_bytes: int  # memory of one worker with its library loaded
    decoded: int
    failed: int
    # some of the files that were not decoded, each with the reason
    why: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@frozen
class ReadResult:
    """A finished `bench read`."""

    place: Place
    sample: ReadSample
    figures: Figures
    conclusion: Conclusion
    decoder: Decoder | None
    notes: tuple[str, ...]
    skipped: int  # passes that were disturbed and done again
    seconds: float
    seed: int
    is_metadata_cold: bool


def bench_read(wanted: Wanted, on_progress: Callable[[str], None] = lambda _: None) -> ReadResult:
    """Measure. Raises GateClosed where this place or this host is nothing to measure on now, and
    HosttuneError.
    """
    begun = time.monotonic()
    place = look_at(wanted.folder)
    require_files(place)
    hidden = _hidden_by_overlay(place) if place.fstype == "overlay" else ""
    if place.is_network and not wanted.allow_network:
        raise GateClosed(
            f"{place.path} is on {place.fstype}: reading it loads a network or another program",
            hint="to measure it nevertheless: --allow-network",
        )
    if wanted.drop_caches and os.geteuid():
        raise Refused(
            "--drop-caches needs root", hint="without it the data is cold, and the metadata warm"
        )
    python = user_python(wanted.python, place.path) if wanted.decode else None
    with ended_alike():
        on_progress("watching whether the host is quiet")
        # Last of the gates, because it costs a second: what refuses for good is said before.
        spoiled = require_quiet(place, anyway=wanted.anyway)
        on_progress("looking for files")
        return _Bench(wanted, place, spoiled, on_progress, begun, hidden).run(python)


class _Bench:
    """One bench under way."""

    def __init__(
        self, wanted: Wanted, place: Place, spoiled: str, on_progress: Callable[[str], None],
        begun: float,
        hidden: str = "",
    ) -> None:  # fmt: skip
        self.wanted, self.place, self.on_progress, self.begun = wanted, place, on_progress, begun
        self.watch = Watch(place.device, spoiled, anyway=wanted.anyway)
        self.cold: Callable[[Sequence[str]], None] = (
            cold_by_dropping_all if wanted.drop_caches else cold_by_fadvise
        )
        self.notes: list[str] = [hidden] if hidden else []
        self.decoder: Decoder | None = None
        # the user's Python sees the folder on a mount of its own that keeps access times
        self.has_view = False

    def until(self, share: float) -> float:
        """The monotonic second at which this share of the budget is spent."""
        return self.begun + share * self.wanted.budget_s

    def run(self, python: Python | None) -> ReadResult:
        # Only root may make the namespace; for a user the files whose access time would move are
        # left out of the sample instead.
        if python is None or os.geteuid():
            return self._measure(python)
        with noatime_view(self.place.path, python.command) as command:
            self.has_view = bool(command)
            return self._measure(replace(python, command=command) if command else python)

    def _measure(self, python: Python | None) -> ReadResult:
        wanted = self.wanted
        good: Sequence[int] | None = None
        if python:
            libraries, answer = self._libraries(python)
            sample = self._sample(
                python.uid, lambda path: _get_suffix(path) in libraries, python.path
            )
            # Before anything is timed: a file that ends its worker would otherwise end a pass, and
            # each pass would count it anew.
            good = self._probe(python, sample, libraries, answer).good
        else:
            sample = self._sample(os.geteuid(), lambda _: True)
        self.on_progress("cold, warm and packed files")
        differed = self._differential(sample, self.until(_PROBED * bool(python) + _DIFFERED))
        # None is "not measured": a zero rate would say that nothing is decoded.
        decoded = handed = None
        with self._crew(python, sample.paths, max(wanted.levels)) as crew:
            if python and good:
                self.on_progress("decoding")
                decoded = decode_warm(
                    crew, self.watch, good, self.until(_PROBED + _DIFFERED + _DECODED)
                )
                until = self.until(_PROBED + _DIFFERED + _DECODED + _HANDED)
                handed = decode_warm(crew, self.watch, good, until, "hand")
            self.on_progress(f"{', '.join(map(str, wanted.levels))} workers")
            how = "decode" if python else "read"
            numbers = good if good is not None else range(len(sample.paths))
            swept = sweep_levels(
                crew,
                self.watch,
                wanted.levels,
                numbers,
                sample.paths,
                how,
                self.cold,
                wanted.seed,
                self.until(1.0),
            )
        seed = wanted.seed
        figures = Figures(
            measure_of(differed.cold, seed), measure_of(differed.warm, seed),
            measure_of(differed.packed, seed) if differed.packed else None,
            measure_of(decoded, seed) if decoded else None,
            tuple(measure_of(swept[level], seed) for level in sorted(swept)),
            usable_cpus(), read_room().bytes or None, self.place.is_network, self.watch.spoiled,
            handed=measure_of(handed, seed) if handed else None,
        )  # fmt: skip
        return ReadResult(
            self.place,
            sample,
            figures,
            conclude_limit(figures),
            self.decoder,
            tuple(self.notes),
            self.watch.skipped,
            time.monotonic() - self.begun,
            seed,
            wanted.drop_caches,
        )

    def _sample(self, uid: int, takes: Callable[[str], bool], python: str = "") -> ReadSample:
        most = min(self.wanted.files, MOST_FILES)
        # The uid is that of the process that reads: what root may read says nothing of what the
        # decoding user may.
        sample = draw(
            self.place.path,
            files=most,
            most_bytes=MOST_BYTES,
            seed=self.wanted.seed,
            uid=uid,
            takes=takes,
            is_noatime=self.has_view,
        )
        if len(sample.paths) < FEWEST_FILES:
            raise _too_few(sample, self.place.path, python, "; ".join(self.notes))
        if sample.others:
            self.notes.append(
                f"{sample.others} files were passed over: reading them would move their access time"
            )
        if sample.unreadable:
            self.notes.append(f"{sample.unreadable} files cannot be read by uid {uid}")
        return sample

    def _libraries(self, python: Python) -> tuple[dict[str, str], Mapping[str, object]]:
        """What the user's Python decodes, by the endings of names."""
        from hosttune.measure.bench.read_program import ARRAYS, IMAGES, SOUNDS

        self.on_progress(f"loading what {python.path} decodes with")
        try:
            with self._crew(python, (), 1) as crew:
                answer = crew.libraries(sorted(IMAGES | SOUNDS | ARRAYS))
        except WorkerDied as died:
            if died.status not in _NOT_STARTED:
                raise
            message = f"{python.path} cannot be started by uid {python.uid}, which decodes"
            raise HosttuneError(
                message, hint="name a Python that this user may start: --python PATH"
            ) from None
        found = answer.get("libraries")
        names = (
            # The answer comes from a user's interpreter, so it is cut before it reaches a report.
            {str(key)[:8]: str(value)[:60] for key, value in found.items()}
            if isinstance(found, dict)
            else {}
        )
        if not IMAGES & set(names):
            self.notes.append(
                f"{python.path} has no library for images (Pillow, OpenCV, torchvision)"
            )
        return names, answer

    def _probe(
        self,
        python: Python,
        sample: ReadSample,
        libraries: Mapping[str, str],
        answer: Mapping[str, object],
    ) -> DecodedSample:
        self.on_progress("decoding each file once")
        numbers = range(len(sample.paths))
        found = probe_files(
            lambda: self._crew(python, sample.paths, 1), numbers, self.until(_PROBED)
        )
        if not found.good:
            why = f": {found.bad[0][1]}" if found.bad else ""
            hint = (
                f"it runs as uid {python.uid}, who may not read them"
                if "PermissionError" in why
                else "leave out --decode"
            )
            raise HosttuneError(f"{python.path} decodes none of these files{why}", hint=hint)
        notes, rss = answer.get("notes"), answer.get("rss")
        used = {_get_suffix(path) for path in sample.paths}
        self.decoder = Decoder(
            python.path, str(answer.get("python", ""))[:20], python.uid,
            {key: value for key, value in libraries.items() if key in used},
            rss if isinstance(rss, int) else 0, len(found.good), len(found.bad),
            tuple((sample.paths[number], why) for number, why in found.bad[:SHOWN_BAD]),
            tuple(str(note)[:200] for note in notes) if isinstance(notes, list) else (),
        )  # fmt: skip
        return found

    def _differential(self, sample: ReadSample, until: float) -> Differential:
        """The passes of one worker of ours over the files, and over shards where they can be
        written.
        """
        paths = list(sample.paths)
        with self._crew(None, paths, 1) as crew, ExitStack() as stack:
            # The chunks are cut by time, and how long a file takes here is not known before some
            # were read.
            first = range(min(_FIRST, len(paths)))
            rate = self.watch.run(
                crew, first, 1, "read", lambda: self.cold(paths[: len(first)])
            ).rate
            chunks = chunks_of(sample, rate)
            try:
                most = self._room_for_shards()
                folder, _ = stack.enter_context(make_scratch(self.place, self.wanted.where))
                made = run_quietly(
                    lambda is_over: write_shards(chunks, sample, folder, most, is_over)
                )
            except HosttuneError as error:  # no room, no folder of this user's
                self.notes.append(f"no packed file: {error.message}")
            except OSError as error:
                self.notes.append(f"no packed file: {error.strerror}")
            else:
                chunks = [
                    Chunk(chunk.files, len(paths) + place if shard else -1)
                    for place, (chunk, shard) in enumerate(made)
                ]
                paths += [shard for _, shard in made]
                crew.load(paths)
            return measure_differential(
                crew, self.watch, chunks, paths, self.cold, self.wanted.seed, until
            )

    def _room_for_shards(self) -> int:
        """The bytes that may be written. Raises HosttuneError."""
        # its upper layer was ten times as fast as the files (a tmpfs)
        if self.place.fstype == "overlay":
            raise HosttuneError(
                "an overlay writes to its upper layer, which may be another disk than the files "
                "are on"
            )
        return require_room(self.place)

    def _crew(self, python: Python | None, paths: Sequence[str], count: int) -> Crew:
        """Workers of the user's Python, with the libraries loaded, or of ours; they know these
        files.
        """
        # Isolated (-I -S): variables and site-packages must not bring code into a worker, which has
        # the rights of the caller and may be root's.
        command = python.command if python else (sys.executable, "-I", "-S")
        environment = python.environment if python else {"LC_ALL": "C.UTF-8"}
        # Half of what is free, shared by all workers, so that pictures that were made to harm
        # cannot bring the host into swap.
        memory = min(
            WORKER_MEMORY, max(256 << 20, (read_room().bytes or WORKER_MEMORY) // (2 * count))
        )
        crew = Crew(command, environment, count, most=FILE_MOST, memory=memory)
        try:
            if python and paths:
                crew.libraries(sorted({_get_suffix(path) for path in paths}))
            if paths:
                crew.load(paths)
        except BaseException:
            crew.close()
            raise
        return crew


def _hidden_by_overlay(place: Place) -> str:
    """What an overlay hides, in a sentence. Raises HosttuneError where all its layers are in
    memory.
    """
    from hosttune.facts import Facts
    from hosttune.facts.base import UnknownFact
    from hosttune.host.reading.live import LiveReader
    from hosttune.measure.underneath import overlay_places

    try:
        places = overlay_places(place.path, Facts(LiveReader()))
    except UnknownFact:
        places = ()
    if places and all(one.kind == "memory" for one in places):
        raise in_memory(place)
    layers = [
        f"{one.fstype} on {one.target} ({', '.join(disk.name for disk in one.disks) or one.kind})"
        for one in places
    ]
    where = (
        f"its layers are on {', '.join(layers)}"
        if layers
        else "its layers are not visible from here"
    )
    return (
        f"an overlay hides which of its layers a file comes from: {where}; what others read from "
        "these disks is not seen"
    )


@contextmanager
def noatime_view(folder: str, command: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The command in a mount namespace of its own, where the folder keeps access times and nothing
    can be written: it gets no descriptor of it, and every path is opened with the user's own
    rights. Empty where that cannot be made.
    """
    with ExitStack() as views:
        words: tuple[str, ...] = ()
        nsenter, true = locate("nsenter"), locate("true")  # never by the PATH of who asks
        with suppress(OSError, Refused):
            namespace, root = views.enter_context(namespace_with_view(folder))
            held = f"/proc/{os.getpid()}/fd"
            view = (str(nsenter), f"--mount={held}/{namespace}", f"--root={held}/{root}", "--")
            # Whether nsenter may join is only seen by trying: seccomp of a container can forbid
            # setns(2) where unshare(2) went well.
            tried = look((*view, str(true)), timeout_s=10.0)
            words = (*view, *command) if isinstance(tried, Completed) and tried.status == 0 else ()
        yield words


def _get_suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _too_few(sample: ReadSample, path: str, python: str = "", missing: str = "") -> HosttuneError:
    """Why there is nothing to measure, from what was passed over; `python` decodes, and what it has
    not got.
    """
    if sample.others:
        return GateClosed(
            f"reading {sample.others} of {sample.others + len(sample.paths)} files below {path} "
            "would move their access time: they belong to others",
            hint="as their owner or as root they are read without a trace",
        )
    if sample.unreadable:
        return GateClosed(
            f"{sample.unreadable} files below {path} cannot be read", hint="run it as their owner"
        )
    what = f"files that {python} decodes" if python else "files"
    message = f"{path} holds {sample.names} {what}; {FEWEST_FILES} are needed" + (
        f"; {missing}" if missing else ""
    )
    hint = (
        "name a Python with the library that decodes them: --python PATH"
        if missing
        else "name a larger folder"
    )
    # No gate: another moment or another host does not make this folder one to measure.
    return HosttuneError(message, hint=hint)
