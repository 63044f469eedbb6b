"""The values that the parts of hosttune exchange; no behaviour beyond construction, order and text.

Everything here is frozen and made of tuples. `ABSENT` and `Unreadable` are values of their own, so
that "not there", "could not look" and "empty" are never mistaken for one another. Units stand in
the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar, final

from hosttune.frozen import frozen

T = TypeVar("T")


class Absent(Enum):
    """The thing asked for does not exist."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    __str__ = __repr__


ABSENT: Final = Absent.ABSENT


@final
@frozen
class Unreadable:
    """The thing asked for may exist, but could not be looked at; `reason` is a phrase for
    people.
    """

    reason: str


class PartlyRead:
    """A list of which a part could not be read: `known` is what could, `reason` why there may be
    more.
    """

    __slots__ = ("known", "reason")

    def __init__(self, known: tuple[Any, ...], reason: str) -> None:
        self.known = known
        self.reason = reason


# how the reason of an Unreadable begins where a record holds no answer
NOT_RECORDED: Final = "not in this record"


def is_unrecorded(answer: object) -> bool:
    """Whether this is the Unreadable of a record that an older hosttune made, which did not ask for
    this answer.
    """
    return isinstance(answer, Unreadable) and isinstance(answer.reason, NeverAsked)


class OnlyRunning(str):
    """The reason of an Unreadable where files alone are looked at and only the machine that runs
    them can tell. It is a type of its own because reasons are handed on from fact to fact: what is
    unknown for this one is deferred.
    """

    __slots__ = ()


class NotRecorded(str):
    """The reason of an Unreadable that is NOT_RECORDED and the answer, only: a command may hold any
    text.
    """

    __slots__ = ()


class NeverAsked(NotRecorded):
    """Of a record that an older hosttune made. One of this version holds each answer, unless it was
    taken out.
    """

    __slots__ = ()


class TooLong(str):
    """The reason of an Unreadable where a file is longer than is read of it. The person who made it
    so must not decide anything by that.
    """

    __slots__ = ()


class StepLines(str):
    """A way out that hosttune words itself, a step on each line, for a text of more steps: what
    users choose is quoted in it, so that each line break begins a step.
    """

    __slots__ = ()


def prefix_reason(place: str, reason: str) -> str:
    """A reason behind `place: `, of the type that it has."""
    return type(reason)(f"{place}: {reason}")


Answer: TypeAlias = T | Absent | Unreadable


class Word(str, Enum):
    """A closed vocabulary; the value is the word that people and JSON see."""

    def __str__(self) -> str:
        return str(self.value)


class Level(Word):
    """A closed vocabulary with an order, mildest first."""

    def __lt__(self, other: object) -> bool:
        return self.rank < type(self)(other).rank

    def __le__(self, other: object) -> bool:
        return self.rank <= type(self)(other).rank

    def __gt__(self, other: object) -> bool:
        return self.rank > type(self)(other).rank

    def __ge__(self, other: object) -> bool:
        return self.rank >= type(self)(other).rank

    @property
    def rank(self) -> int:
        return list(type(self)).index(self)


class Risk(Level):
    """What the operator may lose: some throughput, a service restart, a boot."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Disturbs(Level):
    """Whom a change disturbs while it is made."""

    NOTHING = "nothing"
    SESSIONS = "new sessions"
    SERVICE = "a service"
    GPU_WORK = "running GPU work"

    @property
    def word(self) -> str:
        """As --disturb takes it, and a policy, too: without blanks, which a shell would have to
        quote.
        """
        return _DISTURB_WORDS[self]

    @classmethod
    def _missing_(cls, value: object) -> Disturbs | None:
        return next((one for one, word in _DISTURB_WORDS.items() if word == value), None)


_DISTURB_WORDS = {
    Disturbs.NOTHING: "nothing",
    Disturbs.SESSIONS: "sessions",
    Disturbs.SERVICE: "service",
    Disturbs.GPU_WORK: "gpu-work",
}


class Activation(Level):
    """When a change takes effect."""

    NOW = "now"
    REMOUNT = "remount"
    RELOAD = "reload"
    RESTART = "service restart"
    SESSION = "new session"
    REBOOT = "reboot"


class Action(Word):
    """What a change does to its address; `symbol` is what a diff shows."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def symbol(self) -> str:
        return {"create": "+", "update": "~", "delete": "-"}[self.value]


class Verdict(Word):
    """A rule's answer for one subject."""

    OK = "ok"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"
    ADVICE = "advice"


class HoldKind(Word):
    """Why a difference is not acted on, or why it is no trouble that something is unknown."""

    NONE = "none"
    WAIVED = "waived"
    OWNED = "owned by"
    EDITED = "edited by hand"
    REFUSED = "refused"
    BUSY = "busy"
    ABOVE_MAX_RISK = "above max_risk"
    DISTURBS = "would disturb"
    WAITING = "waiting for"
    REVERTED = "reverted by somebody"
    CAME_BACK = "came back"  # it was on trial, and no one confirmed it
    ORPHANED = "orphaned"
    DEFERRED = "deferred"  # of an image: the running machine will tell


class Confirmer(Word):
    """Who may confirm: a person (or a program) that reaches the host anew, or its own health as
    well.
    """

    OPERATOR = "operator"
    HEALTH = "health"


@frozen
class Hold:
    """Why a difference is not acted on; `detail` completes the sentence ("owned by" + "TuneD")."""

    kind: HoldKind = HoldKind.NONE
    detail: str = ""

    def __bool__(self) -> bool:
        return self.kind is not HoldKind.NONE

    def __str__(self) -> str:
        """Half a sentence, in the words for people."""
        from hosttune.verdict_words import hold_text  # only who prints a hold needs it

        return hold_text(self.kind.value, self.detail)


@frozen
class Address:
    """One place that holds one value; prints as `kind:name` (`sysctl:vm.swappiness`,
    `mount:/data`).
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    # this and the two below: there are thousands of them in dictionaries
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def __lt__(self, other: Address) -> bool:
        return (self.kind, self.name) < (other.kind, other.name)

    @classmethod
    def parse(cls, text: str) -> Address:
        kind, _, name = text.partition(":")
        return cls(kind, name)


@frozen
class FileValue:
    """A whole file: its bytes, permission bits and owner."""

    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


Value: TypeAlias = str | int | bool | tuple[str, ...] | FileValue | Absent | Unreadable
State: TypeAlias = Mapping[Address, Value]


@frozen
class Trigger:
    """Work that must follow a change, once per kind and run: `daemon-reload`, `update-grub` ...

    `name` distinguishes triggers of one kind (the service to restart); empty where there is only
    one.
    """

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


@frozen
class Change:
    """One address goes from `before` to `after`. `reason` is for people and never steers
    anything.
    """

    address: Address
    action: Action
    before: Value
    after: Value
    rule: str
    risk: Risk = Risk.LOW
    disturbs: Disturbs = Disturbs.NOTHING
    activation: Activation = Activation.NOW
    reversible: str = "yes"  # yes | after a reboot | no, and why
    reason: str = ""
    triggers: tuple[Trigger, ...] = ()
    # lines for people: packages with versions, what apt would remove ...
    details: tuple[str, ...] = ()
    # what udev knows the device by whose name in the address another boot may give to another one
    device: str = ""
    # fields that a later version added: name, JSON; written again as they were
    later: tuple[tuple[str, str], ...] = ()


def steps_of(todo: str) -> tuple[str, ...]:
    """The steps of a way out, which is a text with a step on each line: a sentence, and a command
    behind its colon.

    What else str.splitlines() takes for the end of a line may be in the name of a file, and begins
    no step.
    """
    return tuple(step for line in todo.split("\n") if (step := line.strip()))


def join_steps(todos: Iterable[str]) -> str:
    """Several ways out as one, each step once."""
    return "\n".join(dict.fromkeys(step for todo in todos for step in steps_of(todo)))


@frozen
class Finding:
    """What one rule says of one subject (a mount point, a device, or empty for the host)."""

    rule: str
    subject: str
    verdict: Verdict
    hold: Hold = field(default_factory=Hold)
    reason: str = ""
    evidence: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    # what a person should do, the way out of a hold too: a step on each line, in their order
    todo: str = ""
    # someone accepted it for a time, which has passed; so advice counts, too
    is_waiver_over: bool = False
    # this machine does not do its work, or will not after the next boot; never mere advice
    is_fault: bool = False
    blocks_reboot: bool = False  # a boot before it is solved makes it worse
    # this machine does its work, but slower, or not for long; of a fault: up to the next boot
    impairs: bool = False
    yields_to: str = ""  # the rule whose finding of the same subject is shown instead

    def __post_init__(self) -> None:
        """What is unknown because these are the files of an image waits for the machine that runs
        it.
        """
        if (
            self.verdict is Verdict.UNKNOWN
            and isinstance(self.reason, OnlyRunning)
            and not self.hold
        ):
            object.__setattr__(self, "hold", Hold(HoldKind.DEFERRED))


@frozen
class Stage:
    """Changes that are made together, then the triggers; a later stage becomes possible only after
    it.
    """

    changes: tuple[Change, ...]
    triggers: tuple[Trigger, ...] = ()


@frozen
class Plan:
    """What `apply` would do. The digest covers the changes alone, so equal hosts have equal
    digests.
    """

    digest: str
    tool_version: str
    machine: str  # hashed machine id, never the id itself
    created_at: str  # ISO 8601, UTC
    policy_digest: str
    stages: tuple[Stage, ...]
    findings: tuple[Finding, ...]
    # False: a fact or an address could not be read, so the plan may lack changes
    complete: bool = True
    # a sentence for each thing that apply has to finish besides the changes
    interrupted: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for stage in self.stages for change in stage.changes)


class Phase(Word):
    """Where a journalled change is."""

    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


@frozen
class Outcome:
    """What became of one change of a run."""

    change: Change
    phase: Phase
    error: str = ""
    hint: str = ""  # of one that failed: the way out


@frozen
class Receipt:
    """What `apply` or `undo` did: what took, what failed, what waits."""

    run_id: str
    digest: str
    outcomes: tuple[Outcome, ...]
    waiting: tuple[str, ...] = ()  # "daemon-reload: GPU containers run", each a sentence
    reboot_reasons: tuple[str, ...] = ()
    verified: bool = True  # every address that was written read back as planned
    # what has to be solved before that reboot, each a sentence
    reboot_obstacles: tuple[str, ...] = ()
    # what packages that were removed or replaced leave on the disk, each a sentence
    stays: tuple[str, ...] = ()
    faults: tuple[
        Finding, ...
    ] = ()  # that the machine does not do its work, or what blocks a boot, as it is afterwards
    part_of: str = ""  # the run that began what this one goes on with: its undo takes back both
    stopped: str = ""  # the signal that stopped it between two changes (SIGINT)
    left: tuple[Change, ...] = ()  # what it did not begin, then

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.phase is Phase.FAILED)
