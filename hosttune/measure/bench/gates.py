"""What has to hold before a bench begins. A gate that is closed is an answer (exit status 1), not a
failure.
"""

from __future__ import annotations

import time

from hosttune.errors import HosttuneError, Refused
from hosttune.measure.bench.counters import read_moment
from hosttune.measure.bench.noise import idle_noise
from hosttune.measure.bench.place import Place

LEAST_FREE = 0.10  # of a file system, before anything is written on it
SHARE_OF_FREE = 0.02  # that a bench may take of what is free
MOST_BYTES = 1 << 30
LEAST_BYTES = 8 << 20
WATCHED_S = 1.0


class GateClosed(Refused):
    """This host, or this place, is nothing to measure on now; `hint` names the way out."""


def in_memory(place: Place) -> HosttuneError:
    """The error that says so: a cold pass there would come from memory as well."""
    message = f"{place.path} is in memory ({place.fstype}): there is no disk to measure"
    return HosttuneError(message, hint="name a folder of data that is on a disk")


def require_files(place: Place) -> None:
    """Raises HosttuneError where the kernel shows itself (/proc, /sys), or files are in memory: no
    host makes that a place to measure.
    """
    if place.is_kernel:
        message = f"{place.path} holds no data: the kernel shows itself there ({place.fstype})"
        raise HosttuneError(message, hint="name a folder of data")
    if place.is_memory:
        raise in_memory(place)


def require_room(place: Place) -> int:
    """The bytes that a bench may write at this place. Raises GateClosed where it is read-only or
    nearly full.
    """
    if place.is_read_only:
        raise GateClosed(
            f"{place.target} is mounted read-only, and scratch copies have to be written"
        )
    free = place.available_bytes / place.total_bytes if place.total_bytes else 0.0
    if free < LEAST_FREE:
        raise GateClosed(
            f"{place.target} is nearly full: {free:.0%} free, {LEAST_FREE:.0%} are needed",
            hint="make room on it first; a full file system is slow, too",
        )
    # A share of what is free, not of the whole: other jobs write on this file system too, and must
    # not meet ENOSPC by a measurement.
    allowed = min(MOST_BYTES, int(place.available_bytes * SHARE_OF_FREE))
    if allowed < LEAST_BYTES:
        raise GateClosed(
            f"{place.target} has too little room: {SHARE_OF_FREE:.0%} of what is free are "
            f"{allowed >> 20} MiB, {LEAST_BYTES >> 20} are needed"
        )
    return allowed


def require_quiet(place: Place, *, anyway: bool) -> str:
    """Watch the host for a second. "" when it is quiet; with `anyway` what is not, as a reason why
    nothing better than inconclusive may come out. Raises GateClosed.
    """
    # A second is short, but each later pass is judged by the same counters, so what begins
    # afterwards is noticed there.
    before = read_moment(place.device)
    time.sleep(WATCHED_S)
    busy = idle_noise(before, read_moment(place.device))
    if not busy:
        return ""
    if not anyway:
        raise GateClosed(
            f"this host is busy: {'; '.join(busy)}",
            hint="wait for it to be idle, or measure anyway: --anyway (its byte counts are right, "
            "its times are not)",
        )
    return f"the host was busy: {'; '.join(busy)}"
