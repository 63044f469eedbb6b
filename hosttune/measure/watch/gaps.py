"""What keeps a verdict from being surer, and the way out, in sentences. Pure."""

from __future__ import annotations

from hosttune.measure.watch.account import Account
from hosttune.measure.watch.states import State

SHORT_S = 20.0


def describe_gaps(account: Account) -> tuple[str, ...]:
    """Sentences, what matters most first."""
    found = []
    if account.has_ended_early:
        found.append("find out why it ended so soon; a verdict needs half a minute of work")
    elif account.counted_s < SHORT_S - account.watched.interval_s:
        found.append(_describe_short(account))
    found += _gpu_gaps(account)
    watched, last = account.watched, account.last
    if account.means["io_full"].seconds == 0 and account.active_s:
        found.append(
            "the kernel does not show where tasks stall (no PSI): psi=1 on its command line "
            "switches it on"
        )
    elif account.has_job_pressure_s < account.counted_s / 2:
        why = f" ({watched.pressure_reason})" if watched.pressure_reason else ""
        found.append(
            f"pressure is the whole host's{why}: --scope gives the job a control group of its own"
        )
    if account.last is not None and account.last.are_limits_hidden and _is_short_of_cpus(account):
        found.append(
            "a CPU quota above this container is not visible from inside: watch it from the host"
        )
    if account.is_partial:
        found.append("some of the job's processes cannot be read: watch as their user, or as root")
    if last is not None and last.tree is not None and last.tree.run_delay_cores is None:
        found.append(
            "the kernel keeps no run delay (schedstat), which shows whether others take the job's "
            "CPU time"
        )
    return tuple(found)


def _is_short_of_cpus(account: Account) -> bool:
    return account.ticks_of[State.FOREIGN] + account.ticks_of[State.CPU] > 0


def _describe_short(account: Account) -> str:
    text = f"only {account.counted_s:.0f} s count (the warm-up took {account.warm_up_s:.0f} s): "
    if account.status is None:
        return text + "watch longer, or set --warm-up"
    return (
        text
        + ("" if account.seconds >= SHORT_S else "give it work for half a minute, or ")
        + "set --warm-up"
    )


def _gpu_gaps(account: Account) -> list[str]:
    last = account.last
    # () is a machine without a GPU, where nothing is missing; None is one whose GPUs cannot be
    # seen.
    if last is None or last.gpus == ():
        return []
    if last.gpus is None:
        reason = account.watched.gpu_reason or "no source"
        return [f"no GPU is visible ({reason}), so whether it waits is not known"]
    found = []
    if any(gpu.is_mig for gpu in last.gpus) and account.judged_gpu_s == 0:
        found.append("MIG has no utilization: dcgmi dmon -e 1002 does (SM active), as root")
    elif account.judged_gpu_s == 0 and account.counted_s:
        found.append("no GPU of the job has its utilization")
    if any(gpu.lost for gpu in last.gpus):
        found.append("a GPU fell off the bus: hosttune explain gpu-errors")
    if account.gpu_neighbours:
        found.append(
            "others are on the job's GPUs, and no figure separates them: watch it while they rest"
        )
    if not last.gpus_are_its:
        found.append("which GPUs are the job's is not visible: name them with --gpus")
    if account.judged_gpu_s and not account.means["power_percent"].seconds:
        found.append("the GPU reports no power, so busy and busy-but-cold look alike")
    return found
