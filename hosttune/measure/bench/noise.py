"""Whether others were at work between two moments. Pure."""

from __future__ import annotations

from hosttune.measure.bench.counters import Moment

LIMIT = 0.25  # of one processor, of the time, of the disk


def idle_noise(before: Moment, after: Moment) -> tuple[str, ...]:
    """What keeps the host busy while this process does nothing, a sentence each."""
    span = max(after.at_s - before.at_s, 1e-9)
    found = list(foreign_cpu(before, after))
    if (stolen := after.stolen_s - before.stolen_s) > LIMIT * span:
        found.append(f"the hypervisor keeps back {stolen / span:.1f} processors")
    # A disk that serves requests side by side is "busy" with one of them, so this is a sign of
    # others, not a measure of how much they take.
    if before.disk and after.disk and (busy := after.disk.since(before.disk).busy_s / span) > LIMIT:
        found.append(f"the disk is busy for {busy:.0%} of the time")
    stalls = (
        ("a processor", before.cpu_stall_s, after.cpu_stall_s),
        ("the disk", before.io_stall_s, after.io_stall_s),
    )
    for what, one, other in stalls:
        if one is not None and other is not None and (share := (other - one) / span) > LIMIT:
            found.append(f"tasks wait for {what} for {share:.0%} of the time")
    return tuple(found)


def foreign_cpu(before: Moment, after: Moment) -> tuple[str, ...]:
    span = max(after.at_s - before.at_s, 1e-9)
    foreign = (after.host_cpu_s - before.host_cpu_s) - (after.own_cpu_s - before.own_cpu_s)
    return (
        (f"other programs use {foreign / span:.1f} processors",) if foreign > LIMIT * span else ()
    )
