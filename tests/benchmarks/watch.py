"""What `hosttune watch` costs: CPU time of this very process for one look at a job with 16 and with
64 workers, and at one with 200 threads that sleep.

`python -m tests.benchmarks.watch [LOOKS [SECONDS]]`, SECONDS between two looks (1; less saves time
and flatters, because caches stay warm). CPU time, not wall time, so that other work on the machine
adds little; the best and the median of rounds are told. At one look a second, 1 ms a look is 0.1 %
of a core; the aim is 0.25 % with 16 workers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from hosttune.measure.gpu.none import NoSampler
from hosttune.measure.watch.account import Account, Watched
from hosttune.measure.watch.looks import Looks

# A job as PyTorch's: a main process with threads beside it, and workers that were forked.
JOB = """
import os, sys, threading, time
for _ in range(int(sys.argv[2])): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        while True: time.sleep(0.05)
print("ready", flush=True)
time.sleep(3600)
"""


def cost(workers: int, threads: int, looks: int, pause_s: float) -> list[float]:
    """CPU milliseconds of each look, adding up included."""
    command = [sys.executable, "-c", JOB, str(workers), str(threads)]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        watch = Looks(job.pid, NoSampler("none"), time.monotonic())
        account = Account(Watched(job.pid))
        spent = []
        for _ in range(looks):
            time.sleep(pause_s)
            begin = time.process_time()
            account.add(watch.look(time.monotonic()))
            spent.append(1000 * (time.process_time() - begin))
        assert account.most_processes == workers + 1
        watch.close()
        return spent
    finally:
        os.killpg(job.pid, 9)
        job.wait()


def main() -> None:
    looks = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    pause_s = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    for workers, threads in ((1, 8), (16, 8), (64, 8), (0, 200)):
        rounds = [cost(workers, threads, looks, pause_s) for _ in range(3)]
        means = sorted(statistics.mean(one) for one in rounds)
        median = statistics.median(spent for one in rounds for spent in one)
        print(
            f"{workers:3} workers, {threads:3} threads: {means[0]:.2f} ms of CPU time a look (best of 3 rounds; median look "
            f"{median:.2f} ms) = {means[0] / 10:.3f} % of a core at 1 Hz"
        )


if __name__ == "__main__":
    main()
