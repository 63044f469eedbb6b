"""The sentences of a watch: what each state means, how sure that is, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.measure.watch.states import State
from hosttune.measure.watch.verdict import Confidence, Outcome, Verdict
from hosttune.views.disks import size_text
from hosttune.views.terminal import counted, listed

if TYPE_CHECKING:
    from hosttune.measure.watch.account import Account, GpuAccount

MEANINGS: Mapping[State, str] = MappingProxyType(
    {
        State.MEM: "it waits for memory: the host swaps, or reads again what it had to drop",
        State.COLD_GPU: "the GPU is busy, but cold: it runs something all the time and draws little power",
        State.GPU: "the GPU is the limit: the host feeds it well",
        State.DISK: "it waits for storage",
        State.CPU: "it needs more CPU time than it can get: all its CPUs are busy, with its own work",
        State.FOREIGN: "other processes take the CPU time that it needs",
        State.WORKERS: "too few processes load data: they are at their limit while CPUs are free",
        State.IDLE: "it did next to nothing: a checkpoint, a barrier, or it waits for something outside",
        State.WAIT: "it waits for what no processor, disk or memory is busy with: a network, a lock, another rank",
        State.UNKNOWN: "not known",
    }
)
SHORT: Mapping[State, str] = MappingProxyType({
    State.MEM: "memory", State.GPU: "the GPU", State.DISK: "storage", State.CPU: "too little CPU time",
    State.FOREIGN: "other processes",
})  # fmt: skip
_MAIN_LIMIT = "its main process is at the limit of one core while CPUs are free"


def headline(verdict: Verdict, account: Account) -> str:
    """The verdict in one sentence, its name first."""
    if verdict.outcome is Outcome.UNDECIDED or verdict.state is None:
        return "undecided: " + _undecided(verdict)
    if verdict.outcome is Outcome.MIXED:
        parts = [f"{share.state.value} {share.share:.0%}".replace("%", " %") for share in verdict.shares[:3]]
        return f"mixed: {listed(parts)} of the time; mostly {_meaning(verdict.state, account)}"
    if len(verdict.segments) > 1 and verdict.outcome is Outcome.CHANGED:
        return f"{changes(verdict)}{_cold(verdict)}"
    text = f"{verdict.state.value}: {_meaning(verdict.state, account)}"
    return f"{text} ({changes(verdict)}{_cold(verdict)})" if len(verdict.segments) > 1 else text


def changes(verdict: Verdict) -> str:
    """`DISK for 240 s, then GPU`."""
    parts = [f"{cut.state.value} for {time_text(cut.end_s - cut.begin_s)}" for cut in verdict.segments[:-1]]
    return ", then ".join([*parts, verdict.segments[-1].state.value])


def confidence_text(verdict: Verdict) -> str:
    return {
        Confidence.HIGH: "high",
        Confidence.MEDIUM: "medium",
        Confidence.LOW: "low",
    }[verdict.confidence]


def evidence(verdict: Verdict, account: Account) -> tuple[str, ...]:
    """What was seen, a sentence each."""
    lines = [_times(verdict)]
    lines += [_gpu(gpu, account) for gpu in sorted(account.gpus.values(), key=lambda one: one.last.index)]
    if account.watched.gpu_source == "nvml" and account.watched.gpu_reason:  # it is the best source: not all answer
        lines.append(f"GPUs: {account.watched.gpu_reason} (hosttune driver says which)")
    if account.last is not None and account.last.gpus is None:
        lines.append(f"GPU: not visible ({account.watched.gpu_reason or 'no source'})")
    elif account.last is not None and not account.last.gpus:
        lines.append(_no_gpu(account))
    lines += [
        _zero(account),
        _processors(account),
        _loaders(account),
        _pressure(account),
        _reading(account),
        _disks(account),
    ]
    return tuple(line for line in lines if line)


def details(verdict: Verdict, account: Account) -> tuple[str, ...]:
    """What only `--verbose` tells: every state, where figures come from, and iowait, which nothing is judged by."""
    watched, iowait = account.watched, account.means["iowait_percent"].value
    states = ", ".join(
        f"{one.state.value} {100 * one.share:.0f} % ({time_text(one.longest_run_s)} on end)" for one in verdict.shares
    )
    lines = (
        f"states: {states}" if states else "",
        f"CPUs: {watched.cpus_evidence}" if watched.cpus_evidence else "",
        f"GPU figures: {watched.gpu_source}" + (f" ({watched.gpu_reason})" if watched.gpu_reason else ""),
        f"pressure: {watched.pressure_reason}" if watched.pressure_reason else "",
        "" if iowait is None else f"iowait {iowait:.0f} %: shown, and not judged by",
        f"{counted(account.ticks, 'look')}, at most {counted(account.most_processes, 'process', 'processes')} at once",
    )
    return tuple(line for line in lines if line)


def _no_gpu(account: Account) -> str:
    watched = account.watched
    if watched.gpu_source == "none":
        return f"GPU: none here ({watched.gpu_reason or 'no source'}); judged by the host alone"
    return "GPU: none that the job may use (CUDA_VISIBLE_DEVICES); judged by the host alone"


def not_the_cause(verdict: Verdict) -> str:
    return listed([SHORT[state] for state in verdict.not_the_cause if state in SHORT and state is not State.GPU])


def time_text(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _meaning(state: State, account: Account) -> str:
    saturated = account.means["saturated_children"].value or 0.0
    if state is State.WORKERS and saturated < 0.5:
        return _MAIN_LIMIT
    if state is State.DISK and (account.means["disk_written_bytes"].value or 0) > 4 * (
        account.means["disk_read_bytes"].value or 0
    ):
        return "it waits for storage, which is busy with writing"
    return MEANINGS[state]


def _undecided(verdict: Verdict) -> str:
    if verdict.counted_s < 5:
        return f"only {time_text(verdict.counted_s)} count, which is too short to tell"
    known = [share for share in verdict.shares if share.state is not State.UNKNOWN and share.share >= 0.05]
    if not known:
        return "what was seen fits no answer well enough"
    parts = [f"{share.state.value} {100 * share.share:.0f} %" for share in known[:3]]
    return f"nothing held for long ({listed(parts)} of the time)"


def _cold(verdict: Verdict) -> str:
    return ": the first epoch was cold" if verdict.first_was_cold else ""


def _times(verdict: Verdict) -> str:
    times = ((verdict.warm_up_s, "warm-up"), (verdict.idle_s, "idling"), (verdict.paused_s, "standing still"))
    left = [f"{time_text(seconds)} of {name}" for seconds, name in times if seconds >= 1]
    rest = f", without {listed(left)}" if left else ""
    text = f"watched {time_text(verdict.seconds)}{rest}"
    if verdict.shares and verdict.state is not None and verdict.outcome is not Outcome.IDLE:
        share = next((one for one in verdict.shares if one.state is verdict.state), None)
        if share:
            text += f"; {verdict.state.value} held {100 * share.share:.0f} %, {time_text(share.longest_run_s)} on end"
    return text


def _gpu(gpu: GpuAccount, account: Account) -> str:
    last = gpu.last
    name = f"GPU {last.index}{f' {last.name}' if last.name else ''}{' (MIG instance)' if last.is_mig else ''}"
    if gpu.was_lost:
        return f"{name}: fell off the bus"
    parts = ["utilization not told" if gpu.util.value is None else f"busy {gpu.util.value:.0f} %"]
    if gpu.power.value is not None:
        limit = f" of {gpu.limit.value:.0f}" if gpu.limit.value else ""
        parts.append(f"{gpu.power.value:.0f}{limit} W")
    else:
        parts.append("power not told")
    held = [
        f"{reason} {100 * seconds / account.counted_s:.0f} % of the time"
        for reason, seconds in sorted(gpu.reasons.items(), key=lambda pair: -pair[1])
        if reason != "idle" and seconds > 0.1 * account.counted_s
    ]
    return f"{name}: {', '.join(parts)}{f'; clock held by {listed(held)}' if held else ''}"


def _zero(account: Account) -> str:
    if not account.judged_gpu_s or not account.zero_s:
        return ""
    longest = time_text(account.zero_run.longest_s)
    return f"the GPU did nothing in {account.zero_s:.0f} of {account.judged_gpu_s:.0f} s, at most {longest} in a row"


def _processors(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    cores, cpus, room, delay = mean["tree_cores"], mean["cpus"], mean["room_percent"], mean["run_delay_cores"]
    parts = []
    if cores is not None:
        parts.append(f"the job uses {cores:.2f}{f' of {cpus:g}' if cpus else ''} CPUs")
    if room is not None:
        parts.append(f"{room:.0f} % of them are free")
    if delay is not None and delay >= 0.05:
        parts.append(f"its processes wait for {delay:.1f} more")
    if account.others and mean["busy_cores"] is not None:
        busiest = sorted(account.others, key=lambda name: -account.others[name])[:3]
        parts.append(f"busiest of the others: {listed(busiest)}")
    return "; ".join(parts)


def _loaders(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    children, active, full = mean["children"], mean["active_children"], mean["saturated_children"]
    if children is None or children < 0.5:
        return "no process loads beside the main one" if children is not None else ""
    cores = mean["active_child_cores"]
    text = (
        f"{counted(round(children), 'child process', 'child processes')} beside the main one, {active or 0:.0f} active"
    )
    if cores is not None and active:
        text += f" at {100 * cores:.0f} % of a core, {full or 0:.0f} of them full"
    return text


def _pressure(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    if mean["io_full"] is None:
        return "pressure (PSI): not measured by this kernel" if account.counted_s else ""
    whose = (
        "of the job's own control group" if account.has_job_pressure_s > account.counted_s / 2 else "of the whole host"
    )
    some, full = _percent(mean["io_some"]), _percent(mean["io_full"])
    cpu, memory = _percent(mean["cpu_some"]), _percent(mean["memory_some"])
    return f"pressure {whose}: CPU {cpu}, storage {some} (all tasks {full}), memory {memory}"


def _percent(value: float | None) -> str:
    return "not told" if value is None else f"{value:.0f} %"


def _reading(account: Account) -> str:
    read, device = account.totals["read_bytes"], account.totals["device_bytes"]
    if not account.ticks:
        return ""
    if read is None or device is None:
        return "what the job reads is not visible"
    if read >= 1 << 20 and device < 0.01 * read:
        return f"read {_size(read)}, of it {_size(device)} from a device: the page cache has the rest"
    return f"read {_size(read)}, of it {_size(device)} from a device"


def _disks(account: Account) -> str:
    mean = {name: kept.value for name, kept in account.means.items()}
    rate, wait, flight = mean["disk_read_bytes"], mean["read_await_ms"], mean["in_flight"]
    if rate is None or (rate < 1e6 and (flight or 0) < 0.5):
        return ""
    text = f"disks read {_size(rate)}/s"
    if wait is not None:
        text += f", {wait:.1f} ms a request"
    return text + (f", {flight:.1f} under way" if flight is not None else "")


def _size(number: float) -> str:
    return size_text(int(number))
