"""One watch from its begin to its end: a command, a process, or a record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from hosttune.frozen import frozen
from hosttune.host.masking.secrets import mask_command
from hosttune.measure.gpu import GpuSampler, open_sampler
from hosttune.measure.watch.account import Account, Watched
from hosttune.measure.watch.child import Child, Signals, start
from hosttune.measure.watch.host import has_smt, read_governor
from hosttune.measure.watch.looks import Looks
from hosttune.measure.watch.loop import Loop
from hosttune.measure.watch.recording import Recorder, replay
from hosttune.measure.watch.target import Target, put_in_scope
from hosttune.measure.watch.tick import Tick

WARM_AGE_S = 120.0  # a process that has run this long needs no warm-up


@frozen
class WatchOptions:
    """How to watch. `warm_up_s` None: until the GPU first works. `trace` is a GPU trace to replay
    instead of asking for GPUs.
    """

    interval_s: float = 1.0
    warm_up_s: float | None = None
    gpus: tuple[str, ...] = ()
    trace: str = ""
    record: str = ""
    has_scope: bool = False


@frozen
class WatchEnd:
    """What a watch came to. `ended` says why it ended; `notes` are sentences on what went wrong
    beside it.
    """

    account: Account
    ended: str
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> int | None:
        """The command's; None for a process that was watched."""
        return self.account.status


@frozen
class Show:
    """What someone who looks on is shown: each tick, and that we are about to be stopped."""

    tick: Callable[[Tick, Account], None]
    stop: Callable[[], None]


def watch_command(argv: tuple[str, ...], wish: WatchOptions, show: Show) -> WatchEnd:
    """Run the command and watch it. Whatever fails in watching, the command goes on and its status
    is reported.

    Raises NotStarted where it cannot be started, HosttuneError where a wish cannot be granted; then
    it is not started.
    """
    command = put_in_scope(argv) if wish.has_scope else argv
    recorder = Recorder(wish.record) if wish.record else None
    sampler = _open_sampler(wish)
    signals = Signals()
    try:
        child = Child(start(command, signals))
        watched = Watched(
            pid=child.pid,
            command=mask_command(argv),
            is_child=True,
            interval_s=wish.interval_s,
            warm_up_s=wish.warm_up_s,
            gpu_source=sampler.source,
            gpu_reason=sampler.reason,
        )
        account = Account(watched)
        try:
            seen = _follow_child(child, account, sampler, signals, recorder, wish, show)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not cost a week of training
            show.stop()
            note = f"watching failed, the command went on: {type(error).__name__}: {error}"
            account.status = _wait(child, signals)
            seen = WatchEnd(account.settle(), "the command has ended", (note,))
        return seen
    finally:
        sampler.close()
        signals.restore()
        if recorder is not None:
            recorder.close()


def _follow_child(
    child: Child,
    account: Account,
    sampler: GpuSampler,
    signals: Signals,
    recorder: Recorder | None,
    wish: WatchOptions,
    show: Show,
) -> WatchEnd:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        looks = Looks(
            child.pid, sampler, time.monotonic(), visible=visible, are_named=bool(wish.gpus)
        )
    except ProcessLookupError:  # it was over before we looked
        account.status = child.wait()
        return WatchEnd(account, "the command has ended")
    try:
        account.watched = replace(
            account.watched,
            cpus_evidence=looks.limits.reason,
            governor=read_governor(),
            has_smt=has_smt(),
        )
        if recorder is not None:
            recorder.begin(account.watched)
        account.status = _run_loop(looks, account, signals, recorder, show).follow(child)
        return _make_end(account, looks, recorder, "the command has ended")
    finally:
        looks.close()


def watch_process(
    target: Target, wish: WatchOptions, show: Show, seconds: float | None
) -> WatchEnd:
    """Watch a process that runs already, until it ends, a signal comes, or `seconds` are over."""
    recorder = Recorder(wish.record) if wish.record else None
    sampler = _open_sampler(wish)
    signals = Signals()
    looks = None
    try:
        looks = Looks(
            target.pid,
            sampler,
            time.monotonic(),
            follows_group=True,
            visible=target.visible,
            are_named=bool(wish.gpus),
        )
        warm_up_s = 0.0 if wish.warm_up_s is None and target.age_s >= WARM_AGE_S else wish.warm_up_s
        watched = Watched(
            pid=target.pid,
            command=target.command,
            interval_s=wish.interval_s,
            warm_up_s=warm_up_s,
            cpus_evidence=looks.limits.reason,
            governor=read_governor(),
            has_smt=has_smt(),
            gpu_source=sampler.source,
            gpu_reason=sampler.reason,
        )
        account = Account(watched)
        if recorder is not None:
            recorder.begin(watched)
        ended = _run_loop(looks, account, signals, recorder, show).attend(seconds)
        return _make_end(account, looks, recorder, ended)
    finally:
        if looks is not None:
            looks.close()
        if recorder is not None:
            recorder.close()
        sampler.close()
        signals.restore()


def watch_record(path: str, wish: WatchOptions) -> WatchEnd:
    """A record once more, on any machine. Raises BadInput with file and line."""
    watched, ticks = replay(path)
    if wish.warm_up_s is not None:
        watched = replace(watched, warm_up_s=wish.warm_up_s)
    account = Account(watched)
    for tick in ticks:
        account.add(tick)
    ticks.end.tell(account)
    return WatchEnd(account.settle(), "the record ends")


def _open_sampler(wish: WatchOptions) -> GpuSampler:
    if wish.trace:
        from hosttune.host.console import load
        from hosttune.measure.gpu.replay import ReplaySampler, parse

        return ReplaySampler(parse(load(wish.trace), wish.trace))
    return open_sampler(wish.gpus)


def _run_loop(
    looks: Looks, account: Account, signals: Signals, recorder: Recorder | None, show: Show
) -> Loop:
    def on_tick(tick: Tick) -> None:
        if recorder is not None:
            recorder.add(tick)
        show.tick(tick, account)

    return Loop(looks, account, signals, on_tick=on_tick, on_stop=show.stop)


def _make_end(account: Account, looks: Looks, recorder: Recorder | None, ended: str) -> WatchEnd:
    account.watched = replace(
        account.watched,
        cpus_evidence=looks.limits.reason,
        pressure_reason=looks.pressure_reason,
        gpu_reason=looks.sampler.reason,
    )
    account.kills, account.memory = looks.memory.kills(), account.memory or looks.memory.look()
    if recorder is not None:
        recorder.end(account)
    notes = (recorder.problem,) if recorder is not None and recorder.problem else ()
    return WatchEnd(account.settle(), ended, notes)


def _wait(child: Child, signals: Signals) -> int:
    """The status of a command that no one watches any more; signals are passed on."""
    while not child.reap():
        found = signals.wait(1.0)
        if found is not None:
            child.take(found[0], is_from_kernel=found[1])
    return child.status or 0
