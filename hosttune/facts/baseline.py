"""What this host was when it was learned as healthy (`hosttune health --learn`), compared with what
it is now.

Parts that are missing, and error counters that grow.

The file is hosttune's own, written by root into /var/lib/hosttune/health (0700). Counters are this
machine's alone: what was learned of a sibling, or copied with an image, tells of parts and nothing
else. Counters that begin anew (the driver was loaded again, the host booted) are counted from
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.codec import dump_json, read_document, to_json
from hosttune.codec import make_document as headed
from hosttune.errors import BadInput
from hosttune.facts.base import Fact, UnknownFact, attempt, known_part
from hosttune.facts.counted import GPUS, Counter, Part, list_counters, list_parts, why_uncounted
from hosttune.facts.reading import day_of, require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.reading.tree import read_own
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

FOLDER, NAME = "health", "baseline.json"
PATH = f"/var/lib/hosttune/{FOLDER}/{NAME}"
_AGAIN = "learn it anew: sudo hosttune health --learn"
_DAY_S = 86400
_MOST_NAMED = 8  # missing things that a sentence names
_NO_LOSS = 0.999  # of an amount that was rounded


@frozen
class Learned:
    """What the file holds."""

    tool_version: str
    name: str  # of the host
    machine: str  # hash of its machine id
    boot_id: str
    learned_at: float  # seconds since 1970
    uptime_days: float  # how long the counters had counted that do not last
    parts: tuple[Part, ...]
    counters: tuple[Counter, ...]


@frozen
class Growth(Fact):
    """A counter, and what was added since it was learned."""

    name: str  # the thing that is counted
    grown: int  # by how much it has grown since the host was learned
    days: float  # in which it did, 1 at least
    before_a_day: float  # on an average day before; 0 where no one knows
    usual_a_day: float  # what no one has to look at

    @property
    def a_day(self) -> float:
        """What was added on an average day since then; of the first day all."""
        return self.grown / self.days

    def is_faster(self, times: float) -> bool:
        """It grew more than is usual, and more than `times` as fast as before."""
        return self.grown > 0 and self.a_day > max(self.usual_a_day, times * self.before_a_day)

    @property
    def sentence(self) -> str:
        """How it grew."""
        days = f"{self.days:.0f} days" if self.days > 1 else "a day"
        before = f", and {self.before_a_day:.3g} a day before" if self.before_a_day else ""
        return f"{self.name}: {self.grown} in {days}{before}"


@frozen
class Baseline(Subject):
    """A healthy state, and what is less or grows since. Where none was learned all is empty."""

    @fact
    def learned_on(self) -> str:
        """The date, ISO 8601, UTC."""
        return day_of(kept.learned_at) if (kept := self._file) else ""

    @fact
    def lost(self) -> tuple[str, ...]:
        """Sentences for the parts that are less than they were."""
        return _find_lost(kept, self.facts) if (kept := self._file) else ()

    @fact
    def counters(self) -> tuple[Growth, ...]:
        """Those of this machine that were learned."""
        return _find_growths(kept, self.facts) if (kept := self._file) else ()

    @fact
    def slots(self) -> tuple[str, ...]:
        """Where its GPUs were: 0000:1b:00.0."""
        return _list_things(kept.parts, GPUS) if (kept := self._file) else ()

    @fact
    def whose(self) -> str:
        """The host that it was learned of: this one, or the name of a sibling."""
        return kept.name if (kept := self._file) and is_sibling(kept, self.facts) else "it"

    @fact
    def _file(self) -> Learned | None:
        return _read(self.reader)

    @property
    def is_learned(self) -> bool:
        """A healthy state of this host, or of a sibling, was learned."""
        return self.learned_on != ""


def learn_baseline(facts: Facts, tool_version: str) -> Learned:
    """What there is to learn of a host now. What could not be read is not learned. Raises
    UnknownFact where the host does not say since when it runs.
    """
    return Learned(
        tool_version=tool_version,
        name=facts.reader.name,
        machine=facts.host.machine_id_hash,
        boot_id=facts.host.boot_id,
        learned_at=facts.reader.now(),
        uptime_days=facts.pressure.uptime_days,
        parts=list_parts(facts)[0],
        counters=list_counters(facts),
    )


def is_sibling(learned: Learned, facts: Facts) -> bool:
    """Whether it was learned of another machine than this one, as far as machine ids tell."""
    own = attempt(lambda: facts.host.machine_id_hash)
    return bool(learned.machine) and isinstance(own, str) and learned.machine != own


def why_not_alike(sibling: Facts, own: Facts) -> tuple[str, ...]:
    """Why one host cannot be held against another, a phrase each: machines of different models.
    What either does not tell is not compared, and a GPU that only the sibling has may be what this
    host has lost.
    """
    found = []
    for name, ask in _MODELS.items():
        theirs, ours = attempt(ask, sibling), attempt(ask, own)
        if isinstance(theirs, str) and isinstance(ours, str) and theirs and ours and theirs != ours:
            found.append(f"{name} {theirs}, here {ours}")
    had, has = attempt(_list_boards, sibling), attempt(_list_boards, own)
    if (
        not isinstance(had, Unreadable)
        and not isinstance(has, Unreadable)
        and has.keys() - had.keys()
    ):
        names, others = (", ".join(sorted({*boards.values()})) or "none" for boards in (had, has))
        found.append(f"GPUs {names}, here {others}")
    return tuple(found)


_MODELS: Mapping[str, Callable[[Facts], str]] = {
    "architecture": lambda facts: facts.kernel.architecture,
    "product": lambda facts: facts.host.product,
    "processor": lambda facts: facts.cpu.model,
}


def _list_boards(facts: Facts) -> dict[str, str]:
    """Name by PCI id of the GPUs: one board has other names without a driver."""
    return {gpu.device_id: gpu.name for gpu in facts.gpus.devices}


def write_learned(learned: Learned) -> str:
    """The file."""
    return dump_json(headed(to_json(learned)))


def parse(content: str) -> Learned:
    """The content of the file. Raises ValueError for what is none, with the way out."""
    from hosttune.host.record.check import is_time

    try:
        found = read_document(Learned, content, PATH)
    except BadInput as error:
        first = error.faults[0]
        raise ValueError(f"{first.where.field} {first.message}; {_AGAIN}".strip()) from None
    # A record may hold a file that no hosttune has written.
    if not is_time(found.learned_at):
        raise ValueError(f"learned_at: must be seconds since the epoch; {_AGAIN}")
    return found


def _read(reader: Reader) -> Learned | None:
    content = require_sure(read_own(reader, PATH))
    if not isinstance(content, bytes):
        return None
    try:
        return parse(content.decode("utf-8", "replace"))
    except ValueError as error:
        raise UnknownFact(f"{PATH}: {error}") from None


def _find_lost(learned: Learned, facts: Facts) -> tuple[str, ...]:
    """What is missing; a part of it where something could not be read."""
    there, unread = list_parts(facts)
    now = {(part.kind, part.name): part for part in there}
    found = []
    unknown: UnknownFact | None = None
    for part in learned.parts:
        # What cannot be read now is not lost: an nvidia-smi that hangs would else read as eight
        # GPUs that are gone.
        if part.kind in unread:
            unknown = unknown or unread[part.kind]
            continue
        if less := less_than(part, now.get((part.kind, part.name), Part(part.kind, part.name, 0))):
            found.append(less)
    return known_part(found, unknown)


def less_than(then: Part, now: Part) -> str:
    """The sentence for a part that is less than it was; empty for one that is not."""
    if now.amount >= then.amount * _NO_LOSS:
        return ""
    gone = [thing for thing in then.things if thing not in now.things]
    named = ", ".join(gone[:_MOST_NAMED]) + (
        f" and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
    )
    which = f" ({named} {'is' if len(gone) == 1 else 'are'} gone)" if gone else ""
    return f"{then.name}: {now.amount:g} instead of {then.amount:g}{which}"


def _find_growths(learned: Learned, facts: Facts) -> tuple[Growth, ...]:
    """A part of them where a counter that was learned could not be read now."""
    if not learned.machine or learned.machine != facts.host.machine_id_hash:
        return ()
    found = tuple(find_growths(learned, learn_baseline(facts, learned.tool_version)))
    is_whole = {one.name for one in learned.counters} == {one.name for one in found}
    return found if is_whole else known_part(found, why_uncounted(facts))


def find_growths(learned: Learned, now: Learned) -> Iterator[Growth]:
    """How the counters of one machine grew, those that are there still: of a device that is gone
    they say nothing. None of two machines.
    """
    if learned.machine != now.machine or not learned.machine:
        return
    is_same_boot = learned.boot_id == now.boot_id
    since = max(1.0, (now.learned_at - learned.learned_at) / _DAY_S)
    today = {counter.name: counter for counter in now.counters}
    for then in learned.counters:
        counter = today.get(then.name)
        if counter is None:
            continue
        # A count below the learned one began anew within the boot, as after a reload of the driver.
        # A difference would be negative, and hide errors since.
        goes_on = (is_same_boot or counter.is_lasting) and counter.count >= then.count
        yield Growth(
            name=then.name,
            grown=counter.count - then.count if goes_on else counter.count,
            days=since if goes_on or counter.is_lasting else max(1.0, min(since, now.uptime_days)),
            before_a_day=0.0 if counter.is_lasting else then.count / max(1.0, learned.uptime_days),
            usual_a_day=counter.usual_a_day,
        )


def _list_things(learned: tuple[Part, ...], kind: str) -> tuple[str, ...]:
    return next((part.things for part in learned if part.kind == kind), ())
