"""The thread that asks the driver takes no signal away from the watch."""

from __future__ import annotations

import signal

from hosttune.measure.gpu.patience import TimedCaller


def test_thread_that_asks_the_driver_blocks_every_signal():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    patience = TimedCaller()
    blocked = patience.ask(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()), 60)
    assert patience.end(60)
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGTSTP, signal.SIGHUP} <= blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
