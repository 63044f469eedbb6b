"""What a host has lost since it was looked at before a trial. Pure.

Only losses count, each held against this same host before: what did not stand then is no loss now,
and what is more, or otherwise, is none either. A check against an ideal makes healthy hosts go
back.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Aspect(str, Enum):
    """What of a host is looked at before and after; the word is in before.json."""

    FAILED_UNIT = "failed unit"
    SERVICE = "service"
    MOUNT = "mount"
    ROUTE = "default route"
    ADDRESS = "address"
    LINK = "link"
    RDMA_PORT = "rdma port"
    SSHD = "sshd"
    BANNER = "ssh banner"
    RESOLVER = "name server"
    GPU = "gpu"
    DRIVER = "driver"
    FABRIC = "fabric"
    CLOCK = "clock"
    HEALTH = "health"
    PLANNED = "planned value"

    def __str__(self) -> str:
        return str(self.value)


@frozen
class Sign:
    """One thing that is, or, of FAILED_UNIT, HEALTH and PLANNED, that does not. `state` is a word
    of its aspect: rw or ro of a mount, the slot of a GPU, the kernel driver of a slot, a sentence
    of health.
    """

    aspect: Aspect
    # the unit, the path, `eth0 IPv4`, `0.0.0.0:22`, the UUID of a GPU; empty where there is only
    # one
    name: str
    state: str = ""
    grade: int = 0  # of HEALTH: how bad it is, a rank of Fitness


@frozen
class Unseen:
    """An aspect, or one thing of it, that could not be looked at, and why (a phrase)."""

    aspect: Aspect
    reason: str
    name: str = ""  # empty: nothing of this aspect could be
    is_stuck: bool = False  # what was asked never came back: it is not asked a second time


@frozen
class HostStanding:
    """How a host is at one moment."""

    signs: tuple[Sign, ...] = ()
    unseen: tuple[Unseen, ...] = ()


@frozen
class Loss:
    """One thing that was there before. Not `is_known`: it could not be checked any more: reported,
    and not a loss.
    """

    aspect: Aspect
    name: str
    sentence: str
    is_known: bool = True
    is_final: bool = False  # waiting does not mend it

    @property
    def may_flap(self) -> bool:
        """It is asked a second time before it counts."""
        return self.aspect in {Aspect.FAILED_UNIT, Aspect.SERVICE, Aspect.HEALTH}


# Their signs are what is wrong, so that one more is the loss.
_FAULTS: Mapping[Aspect, str] = {
    Aspect.FAILED_UNIT: "{name} has failed",
    Aspect.HEALTH: "hosttune health: {state}",
    Aspect.PLANNED: "{state}",
}
_GONE: Mapping[Aspect, str] = {
    Aspect.SERVICE: "{name} does not run any more",
    Aspect.MOUNT: "{name} is not mounted any more",
    Aspect.ROUTE: "there is no default route for {name} any more",
    Aspect.ADDRESS: "the {name} address is gone",
    Aspect.LINK: "{name} has no link any more",
    Aspect.RDMA_PORT: "RDMA port {name} is not active any more",
    Aspect.SSHD: "sshd does not listen on {name} any more",
    Aspect.BANNER: "sshd on {name} does not answer as SSH-2.0 any more",
    Aspect.RESOLVER: "no name server is set any more",
    Aspect.GPU: "GPU {state} ({name}) does not answer any more",
    Aspect.DRIVER: "GPU {name} is gone from the PCI bus",
    Aspect.FABRIC: "GPU {name} has not joined its NVLink fabric",
    Aspect.CLOCK: "the clock is not synchronised any more",
}
# What does not answer in the time that the largest hosts need does not work; elsewhere silence
# proves nothing.
_SILENT = frozenset({Aspect.GPU, Aspect.FABRIC})


def find_losses(
    before: HostStanding, after: HostStanding, expected: Mapping[str, str] | None = None
) -> tuple[Loss, ...]:
    """What stood before and does not now, in the order of before; then faults that are new.

    `expected`: slot -> kernel driver that the trial itself is to bring there. What could be read
    before and cannot be now is `not known`; of GPUs and their fabric that is a loss.
    """
    now = {(one.aspect, one.name): one for one in after.signs}
    slots = _match_slots(before, after)
    found: list[Loss] = []
    for one in before.signs:
        if one.aspect not in _FAULTS:
            place = (
                slots.get(one.name, one.name)
                if one.aspect in {Aspect.DRIVER, Aspect.FABRIC}
                else one.name
            )
            found += _find_losses(
                one, now.get((one.aspect, place)), after, (expected or {}).get(place, one.state)
            )
    return (*found, *_new_faults(before, after))


def select_counted(found: Iterable[Loss]) -> tuple[Loss, ...]:
    """Those that are sure."""
    return tuple(one for one in found if one.is_known)


def select_lasting(first: Iterable[Loss], second: Iterable[Loss]) -> tuple[Loss, ...]:
    """What counts of two looks a while apart: of what may flap what both show, of all else what the
    second shows.
    """
    seen = {(one.aspect, one.name) for one in first}
    return tuple(one for one in second if not one.may_flap or (one.aspect, one.name) in seen)


def _new_faults(before: HostStanding, after: HostStanding) -> list[Loss]:
    """Faults that before did not have, or not as badly. Where it could not tell of any, none is
    new.

    What one rule of health cannot say is none: any user can have the kernel log more than journald
    reads, and rules that need the log are unknown then. GPUs, mounts, links and services that a
    boot has lost are signs of their own.
    """
    was = {(one.aspect, one.name): one.grade for one in before.signs}
    blind = {(one.aspect, one.name) for one in before.unseen}
    found: list[Loss] = []
    for one in after.signs:
        place = (one.aspect, one.name)
        is_old = place in blind or (one.aspect, "") in blind or was.get(place, -1) >= one.grade
        if one.aspect in _FAULTS and not is_old:
            found.append(Loss(*place, _describe_sign(_FAULTS, one)))
    for gone in after.unseen:
        place = (gone.aspect, gone.name)
        if gone.aspect is Aspect.HEALTH and gone.name:
            continue
        if gone.aspect in _FAULTS and place not in blind and (gone.aspect, "") not in blind:
            found.append(_not_known(*place, gone.reason))
    return found


def _not_known(aspect: Aspect, name: str, reason: str) -> Loss:
    return Loss(aspect, name, f"not known: {f'{aspect} {name}'.strip()}: {reason}", is_known=False)


def _match_slots(before: HostStanding, after: HostStanding) -> Mapping[str, str]:
    """Where a GPU was -> where it is now: arguments of the kernel may number the bus anew."""
    now = {one.name: one.state for one in after.signs if one.aspect is Aspect.GPU}
    return {
        one.state: now[one.name]
        for one in before.signs
        if one.aspect is Aspect.GPU and one.name in now
    }


def _find_losses(one: Sign, now: Sign | None, after: HostStanding, expected: str) -> list[Loss]:
    if now is None:
        why = next(
            (
                gone
                for gone in after.unseen
                if gone.aspect is one.aspect and gone.name in {"", one.name}
            ),
            None,
        )
        sentence = _describe_sign(_GONE, one)
        if why is None:
            return [Loss(one.aspect, one.name, sentence)]
        # A driver that hangs never says that it failed. Silence of a GPU that answered before is
        # the loss itself, or a trial that killed it would be kept.
        if one.aspect in _SILENT:
            return [Loss(one.aspect, one.name, f"{sentence}: {why.reason}", is_final=why.is_stuck)]
        return [_not_known(one.aspect, one.name, why.reason)]
    if now.state in {one.state, expected}:
        return []
    if one.aspect is Aspect.DRIVER:
        holder = f"is held by {now.state}" if now.state else "has no driver"
        return [
            Loss(
                one.aspect,
                one.name,
                f"GPU {one.name} {holder}; it was {one.state or 'without one'} before",
            )
        ]
    if one.aspect is Aspect.MOUNT and now.state == "ro":
        return [Loss(one.aspect, one.name, f"{one.name} is read-only now")]
    return []


def _describe_sign(words: Mapping[Aspect, str], one: Sign) -> str:
    return words[one.aspect].format(name=one.name, state=one.state)
