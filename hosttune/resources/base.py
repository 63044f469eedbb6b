"""The two interfaces of a resource, and the plain values between them and the engine.

A *wish kind* is what a rule writes (`- sysctl: vm.swappiness`): it names the addresses it has to
see and compares, purely. An *address kind* is one place that holds a value (`sysctl:vm.swappiness`,
`file:/etc/sysctl.d/...`): it reads with a Reader and writes with a Writer. One wish often spans two
addresses, the live value and the drop-in that the next boot reads. What can only be looked at is a
fact.

A module exports its kinds as `WISH` and `ADDRESS`, instances, and has their name: see
`resources/__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen
from hosttune.values import ABSENT, Action, Activation, Change, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Address, Disturbs, Finding, Risk, State, Trigger, Value


class Operator(str, Enum):
    """How a wish bounds a value."""

    EXACTLY = "exactly"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"

    def __str__(self) -> str:
        return str(self.value)


OLD = "OLD_VALUE"  # what is there before, where no host tells it
NUMERIC = frozenset({Operator.AT_LEAST, Operator.AT_MOST})  # their values are whole numbers


@frozen
class Bound:
    """One bound on the value of a wish."""

    operator: Operator
    value: Any


@frozen
class Wish:
    """What one rule wants of one thing, its expressions evaluated.

    `kind` and `name` come from the wish's first key (`sysctl: vm.swappiness`), `bounds` from
    exactly, at_least ..., `fields` from the other keys.
    """

    kind: str
    name: str
    rule: str
    subject: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    message: str = ""  # the rule's own words for a difference, in place of the kind's
    todo: str = ""  # what a person should do about it
    is_fault: bool = False  # the machine does not do its work where it differs


@frozen
class Applied:
    """What the journal says hosttune last left at an address."""

    run_id: str
    rule: str
    after: Value
    times: int = 1  # how often in a row, none undone, this address was set to this value
    # of one at which a run stopped half-way: what goes on with it, a phrase with the command
    goes_on: str = ""


@frozen
class Context:
    """All that a comparison may look at; everything in it is a value."""

    facts: Facts
    state: State
    ledger: Mapping[Address, Applied]
    risk: Risk  # as the rule declares it; goes into each change
    disturbs: Disturbs
    journal_problem: str = ""  # why the ledger is empty although there may be a journal


@frozen
class FieldSpec:
    """One key that a wish of this kind takes in a rule file."""

    type: type  # str, int, bool, list (of str), dict
    required: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""


class WishKind(ABC):
    """What a rule can want. What a kind does not say itself is as here."""

    kind: str  # the wish's first key in a rule file
    fields: Mapping[str, FieldSpec] = {}
    operators: tuple[Operator, ...] = ()  # the bounds it takes; empty where the fields say all
    activations: tuple[Activation, ...] = (Activation.NOW,)  # every activation its changes can have
    takes_list = False  # its name may be a list of names
    is_size = False  # its bounds are numbers of bytes
    # its name is that of a unit of systemd, which is read before rules are evaluated
    is_unit = False

    @abstractmethod
    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:
        """The addresses whose state `compare` looks at. Pure."""

    @abstractmethod
    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        """Compare all wishes of this kind of one rule with the state. Pure.

        One Finding or more per wish (verdict ok, differs or unknown; subject from the wish), with
        the changes that would make it so, or the hold that forbids them. All wishes come at once
        because they may share one drop-in file.
        """

    @abstractmethod
    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        """What these wishes of one rule write where nothing of it is there yet, for people: made of
        the texts that `compare` plans; what only a host can tell is a word in capitals (`OLD`).
        Pure.
        """

    def doubt(self, name: str, entry: Mapping[str, Any]) -> str:  # noqa: ARG002 - the interface of all kinds
        """Why nothing may be called so, as a sentence for `rules lint`; `entry` is the wish as the
        rule has it.
        """
        return ""


class AddressKind(ABC):
    """A kind of place that holds a value, and all that is to be known of it. What it does not say
    itself is as here: the value is one, is written by one act, and goes back as it came.
    """

    kind: str
    is_live = False  # its value ends with what has it: a mount, a module, a device
    # its change is several acts; else it is one rename, one write or one system call
    is_in_parts = False
    # it holds many things, and the details of a change tell in sentences what becomes of each
    is_set = False
    goes_back = True  # with its rule, where another change of that fails
    shares = ""  # the kind that looks at the same places under the same names

    def describe(self, name: str) -> str:
        """The place for people, a noun phrase of one line: `/data in /etc/fstab`."""
        return name

    @abstractmethod
    def read(self, reader: Reader, name: str) -> Value:
        """The present value: ABSENT, Unreadable, or the value in this kind's own type."""

    @abstractmethod
    def write(self, writer: Writer, change: Change) -> None:
        """Bring `change.address` from `change.before` to `change.after`. Raises Conflict when it is
        not at `before`, Refused when it cannot be done; then nothing has changed.
        """

    @abstractmethod
    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        """How a person makes these changes of one rule, and of this kind, without hosttune: steps
        that work as they stand, made of the very values that would be written (`steps.py`).
        """

    def same(self, one: Value, other: Value) -> bool:
        """Whether two values mean the same here (typed: "60" and 60 are one sysctl value)."""
        return one == other

    def invert(self, change: Change) -> Change | None:
        """The change that takes `change` back, or None where there is no way back."""
        return invert_change(change)

    def file_of(self, name: str) -> str:  # noqa: ARG002 - the interface of all kinds
        """The file that a change replaces as a whole, so that an interrupted one leaves a temporary
        file beside it.
        """
        return ""

    def unit_of(self, name: str) -> str:  # noqa: ARG002 - the interface of all kinds
        """The unit whose restart makes a change of this address effective; empty where none
        does.
        """
        return ""

    def way_back(self, reader: Reader, back: Change) -> Change:  # noqa: ARG002 - the interface of all kinds
        """A change that takes another back, with the details that show it on this host, before it
        is made.
        """
        return back

    def as_of_now(self, change: Change, facts: Facts) -> Change:  # noqa: ARG002 - the interface of all kinds
        """A change that was made or planned earlier, as it would disturb now."""
        return change

    def prepare(  # noqa: B027
        self, writer: Writer, change: Change, on_progress: Callable[[str], None], *, is_undo: bool
    ) -> None:
        """What must be before a change is made, beyond its own act: others have ended, what an undo
        needs is kept. Raises Refused where that cannot be.
        """

    def stand(self, changes: Sequence[Change], reader: Reader) -> bool:
        """Whether what these changes wrote, each the last of its place, is there still."""
        return all(self.same(self.read(reader, one.address.name), one.after) for one in changes)

    def waits_after(self, changes: Sequence[Change], reader: Reader) -> tuple[str, ...]:  # noqa: ARG002
        """What these changes, made or tried, leave to be done by someone: a sentence each."""
        return ()

    def left_by(self, changes: Sequence[Change], reader: Reader) -> tuple[str, ...]:  # noqa: ARG002
        """What these changes leave on the disk for someone to look at or remove: a sentence
        each.
        """
        return ()

    def settle(self, writer: Writer, on_progress: Callable[[str], None]) -> bool:  # noqa: ARG002
        """Wait until what an interrupted run had started has ended, which may be the rest of its
        change; returns whether `mend` has something to do. Raises Refused where it does not end.
        """
        return False

    def mend(self, writer: Writer, change: Change) -> None:  # noqa: B027
        """Bring what an interrupted change left half-made to an end."""

    def is_between(self, present: Value, change: Change) -> bool:  # noqa: ARG002 - the interface of all kinds
        """Whether `present` is where this change may have stopped half-way, or what a repair makes
        of that.
        """
        return False

    def keep_for(self, changes: Sequence[Change], writer: Writer) -> None:  # noqa: B027
        """Let go of what `prepare` kept, but for these changes: they can still be taken back."""


def action_between(before: Value, after: Value) -> Action:
    """What a change from `before` to `after` does to its address."""
    if before is ABSENT:
        return Action.CREATE
    return Action.DELETE if after is ABSENT else Action.UPDATE


def in_general(
    wish: Wish,
    address: Address,
    after: Value | bytes,
    *,
    before: Value = ABSENT,
    activation: Activation = Activation.NOW,
    triggers: tuple[Trigger, ...] = (),
    reason: str = "",
) -> Change:
    """A change as `WishKind.writes` names it; bytes are those of a file."""
    value: Value = FileValue(after) if isinstance(after, bytes) else after
    return Change(
        address, action_between(before, value), before, value, wish.rule,
        activation=activation, triggers=triggers, reason=reason,
    )  # fmt: skip


def invert_change(change: Change) -> Change:
    """The plain inverse: the same change with before and after exchanged."""
    action = action_between(change.after, change.before)
    return replace(
        change, action=action, before=change.after, after=change.before, reason="", details=()
    )
