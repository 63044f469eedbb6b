"""Which advice follows from a verdict. Pure."""

from __future__ import annotations

from dataclasses import replace

from hosttune.measure.advice import ADVICE, Advice
from hosttune.measure.cpus import Cpus
from hosttune.measure.gpu.reasons import HELD_BACK
from hosttune.measure.watch.account import Account
from hosttune.measure.watch.states import State
from hosttune.measure.watch.verdict import Outcome, Verdict
from hosttune.measure.workers import start_workers

_NETWORK = ("nfs", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "fuse", "9p", "afs", "glusterfs", "virtiofs")


def remedies(verdict: Verdict, account: Account) -> tuple[Advice, ...]:
    """What to do, what matters most first; of a mixture for both of its states."""
    if verdict.outcome is Outcome.MIXED:
        states = [share.state for share in verdict.shares[:2]]
    else:
        states = [verdict.state] if verdict.state is not None else []
    found: dict[str, Advice] = {}
    for state in states:
        for name in _names(state, account):
            found[name] = _filled(name, account)
    if any(gpu.was_lost for gpu in account.gpus.values()):
        found = {"lost-gpu": ADVICE["lost-gpu"], **found}
    return tuple(found.values())


def _names(state: State, account: Account) -> tuple[str, ...]:
    mean = {name: kept.value for name, kept in account.means.items()}
    if state is State.WORKERS:
        return _of_workers(mean)
    if state is State.DISK:
        return ("fits-memory", "shards", *_of_storage(account), "what-disk-gives")
    if state is State.WAIT:
        network = ("nfs-read-ahead",) if any(kind.startswith("nfs") for kind in account.file_systems) else ()
        return ("waits", *network, "overlap-waits")
    if state in {State.GPU, State.COLD_GPU}:
        held = any(HELD_BACK.intersection(gpu.reasons) for gpu in account.gpus.values())
        return (*(("throttled",) if held else ()), "gpu-limit" if state is State.GPU else "cold-gpu")
    return {
        State.MEM: ("memory", "worker-copies", "fits-memory"),
        State.CPU: ("draft", "gpu-decode", "raw-format", "knee", "governor", "pillow-simd"),
        State.FOREIGN: ("foreign",),
    }.get(state, ())


def _of_workers(mean: dict[str, float | None]) -> tuple[str, ...]:
    active, saturated = mean["active_children"] or 0.0, mean["saturated_children"] or 0.0
    children = mean["children"] or 0.0
    if saturated < 0.5:
        return ("launch-bound",) if active >= 1 else ("some-workers", "launch-bound")
    if children >= 4 and saturated < 0.25 * children:
        return ("one-slow-worker", "knee")
    return ("more-workers", "keep-workers", "pin-memory", "knee")


def _of_storage(account: Account) -> tuple[str, ...]:
    if any(kind.startswith("nfs") for kind in account.file_systems):
        return ("nfs-read-ahead",)
    if any(kind.startswith(_NETWORK) for kind in account.file_systems):
        return ("placement",)
    return ("placement", "read-ahead")


def _filled(name: str, account: Account) -> Advice:
    advice = ADVICE[name]
    cpus = account.means["cpus"].value
    if name == "more-workers" and cpus is not None:
        ranks = max(1, round(account.means["mains"].value or 1))
        now = max(1, round((account.means["active_children"].value or 1) / ranks))
        start = start_workers(Cpus(cpus, account.watched.cpus_evidence or "usable CPUs"), gpu_processes=ranks).start
        if start > now:
            return replace(
                advice, text=f"more loader workers for each GPU process: num_workers={start} instead of {now}"
            )
        return replace(advice, text=f"{advice.text}; {now} are there, {cpus:g} CPUs would carry a few more")
    if name == "foreign" and account.others:
        busiest = sorted(account.others, key=lambda one: -account.others[one])[:3]
        return replace(advice, text=f"{advice.text}. Busiest: {', '.join(busiest)}")
    return advice
