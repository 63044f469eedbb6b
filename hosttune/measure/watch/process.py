"""One process of a job, read again and again."""

from __future__ import annotations

from contextlib import suppress

from hosttune.host.reading.bounded import names_in
from hosttune.measure.watch.counting import Counters, is_little
from hosttune.measure.watch.kept import MOST_BYTES, Kept, content_in_time, content_of
from hosttune.measure.watch.parse import ProcessIo, count_turns, process_io, process_stat, run_delay

COMMAND_BYTES = 4096  # of its words that are kept: each process of the job has some
MOST_THREADS = 1 << 16  # whose children are looked up
FILES = 4  # that one process keeps open


class WatchedProcess:
    """`counters` are those of the last look, `cores` what it used before it."""

    __slots__ = (
        "_children", "_delay", "_folder", "_io", "_stat", "are_asleep", "command", "cores",
        "counters", "did_little", "pid", "turn",
    )  # fmt: skip

    def __init__(self, pid: int, proc: str, *, is_kept: bool) -> None:
        self.pid = pid
        self.command = b""
        self.cores = 0.0
        self.counters: Counters | None = None
        self.did_little = False  # since the look before, as far as its counters show
        self.are_asleep = False  # all of its threads that were looked at last
        self.turn = 0  # of those of its threads that are looked at
        self._folder = f"{proc}/{pid}"
        self._stat = Kept(f"{self._folder}/stat", is_kept=is_kept)
        self._io = Kept(f"{self._folder}/io", is_kept=is_kept)
        self._delay = Kept(f"{self._folder}/schedstat", is_kept=is_kept)
        self._children = Kept(f"{self._folder}/task/{pid}/children", is_kept=is_kept)

    @property
    def is_alive(self) -> bool:
        """It runs, sleeps or is stopped; not one that has ended and waits to be waited for."""
        return self.counters is not None and self.counters.stat.state not in "ZX"

    @property
    def shows_its_program(self) -> bool:
        """Its words are known, and another program would show by its stack, which this user may
        see: `look` reads them anew then.
        """
        return self.command != b"" and self.counters is not None and self.counters.stat.stack > 0

    def look(self) -> bool:
        """Read its counters; False once it is gone, and its number free for another."""
        content = self._stat.read()
        stat = process_stat(content) if content else None
        old = self.counters
        if stat is None or (old is not None and stat.started != old.stat.started):
            self.close()
            return False
        if old is None or (stat.name, stat.stack) != (old.stat.name, old.stat.stack):
            self.look_at_command()
        content = self._io.read()
        io: ProcessIo | None = process_io(content) if content else None
        if io is None and stat.state in "ZX" and old is not None:
            io = old.io
        content = self._delay.read()
        delay, turns = (run_delay(content), count_turns(content)) if content else (None, None)
        self.counters = Counters(stat, io, delay, turns)
        self.did_little = old is not None and is_little(old, self.counters)
        return True

    def look_at_command(self) -> None:
        """Its words; a process may become another program, often under the same name (a wrapper of
        python3).
        """
        self.command = content_in_time(f"{self._folder}/cmdline", COMMAND_BYTES) or b""

    def children(self) -> list[int] | None:
        """Of its main thread; None where they are not listed, or it has just ended."""
        content = self._children.read()
        return None if content is None else [int(word) for word in content.split()]

    def children_of_threads(self) -> list[int]:
        """Of all its threads."""
        found: list[int] = []
        with suppress(OSError):
            for thread in names_in(f"{self._folder}/task", MOST_THREADS)[0]:
                found += map(
                    int,
                    (
                        content_of(f"{self._folder}/task/{thread}/children", MOST_BYTES) or b""
                    ).split(),
                )
        return found

    def close(self) -> None:
        for one in (self._stat, self._io, self._delay, self._children):
            one.close()
