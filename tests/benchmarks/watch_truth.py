"""Truth against verdict: a hundred jobs whose limit is known, each watched as a user watches it.

`sudo python -m tests.benchmarks.watch_truth [--held-back | --tuned | --later | --unseen | --guest]
[--only WORD] [--seconds N] [--records DIR] [--json F]`

Others on the machine would make `FOREIGN` of most of it. So everything here runs in control groups
with the most CPU shares that there are, every tick is recorded, and what is judged are the ticks
with the others taken out: the CPUs that they used are free, and the pressure is the job's own, as
it would be on a quiet host (`alone`). Scenarios with others in them (FOREIGN) run as they are.
`--as-it-is` judges what was seen, on a machine that is quiet.

Half of the scenarios are held back from tuning: those whose name has an odd SHA-256. Of these only
the figure is looked at while limits are tuned. A scenario names all answers that are true of it;
`WAIT network` asks for the kind too. Those of `watch_unseen.py` are a set of their own
(`--unseen`); what needs control groups of version 2, swap or FUSE with nobody beside runs in a
guest of the vm ring (`--guest`, as it is: nobody else is there). Root, loop devices and control
groups of version 1 are needed, for `--guest` what the vm ring needs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hosttune.measure.views.watch import watch_json
from hosttune.measure.watch.account import Account
from hosttune.measure.watch.recording import replay
from hosttune.measure.watch.session import WatchEnd
from hosttune.measure.watch.tick import Pressure, Tick
from tests.benchmarks.truth_scenario import (
    BESIDE,
    JOB,
    ROOT,
    Scenario,
    filled,
    sh,
    stem,
    steps,
    until,
)
from tests.benchmarks.watch_field import FIELD
from tests.benchmarks.watch_unseen import UNSEEN

WARM_UP_S = 2
# as the last word of what stands beside a job
FIRST = {
    "pinned": ["taskset", "-c", "0"],
    "nobody": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
}
SHARES = 262_144  # the most
GROUPS = Path("/sys/fs/cgroup")
SPIN = """
#include <pthread.h>
#include <stdlib.h>
static void *spin(void *unused) { volatile unsigned long x = 1; for (;;) x = x * 1103515245 + 12345; return unused; }
int main(int argc, char **argv) {
    pthread_t one;
    for (int i = 1; i < atoi(argv[1]); i++) pthread_create(&one, 0, spin, 0);
    spin(0);
}
"""


SERVE = ("serve", "{port}", "120")
QUICK = ("serve", "{port}", "30")
HOG = ("hog",)
SLOW = {"read": 4_000_000}
DIRECT = ["direct", "{data}/file", 2]

SCENARIOS: dict[str, Scenario] = {
    # one core's worth at a time while CPUs are free
    "python, one thread": Scenario("WORKERS", steps(["cpu", 20])),
    "C, one thread": Scenario("WORKERS", ("timeout", "{seconds}", "{dir}/spin", "1")),
    "awk": Scenario("WORKERS", ("timeout", "{seconds}", "awk", "BEGIN {{ while (1) x = x * 3 % 7 + 1 }}")),
    "bash arithmetic": Scenario("WORKERS", until("((x = x * 3 % 7 + 1))")),
    "perl": Scenario("WORKERS", ("timeout", "{seconds}", "perl", "-e", "while (1) {{ $x = $x * 3 % 7 + 1 }}")),
    "short gzips one after the other": Scenario("WORKERS", until("head -c 2000000 {dir}/noise | gzip -1 > /dev/null")),
    "gzip of 3 s each": Scenario("WORKERS", until("timeout 3 gzip -9 < {dir}/large > /dev/null")),
    "gzip of 1 s each": Scenario("WORKERS", until("timeout 1 gzip -9 < {dir}/large > /dev/null")),
    "make -j1": Scenario("WORKERS", ("timeout", "{seconds}", "make", "-s", "-k", "-C", "{dir}/make", "-j1")),
    "one forked worker": Scenario("WORKERS", steps(["cpu", 8], processes=1, feeds=True)),
    "one spawned worker": Scenario("WORKERS", steps(["cpu", 8], processes=1, how="spawn", feeds=True)),
    "one worker, main takes part": Scenario(
        "WORKERS", steps(["cpu", 8], processes=1, feeds=True, main_steps=[["cpu", 1]])
    ),
    "four threads under one interpreter lock": Scenario("WORKERS", steps(["cpu", 5], processes=4, how="thread")),
    "worker behind two shells": Scenario(
        "WORKERS", steps(["cpu", 8], processes=1, feeds=True), before=("sh", "-c", 'sh -c \'"$0" "$@"; :\' "$0" "$@"; :')
    ),
    "one worker computes, two sleep": Scenario(
        "WORKERS", {"job": "skewed"}
    ),
    "sha256 of a file in memory": Scenario("WORKERS", until("sha256sum {dir}/large > /dev/null")),
    "tar into gzip": Scenario("WORKERS", until("tar c -C {dir} large | gzip -6 > /dev/null")),
    "python starts programs": Scenario(
        "WORKERS", steps(["program", "sh", "-c", "head -c 3000000 {dir}/noise | gzip -1 > /dev/null"])
    ),
    "find -exec": Scenario(
        "WORKERS", until("find {dir}/make -name '*.c' -exec gzip -kfc {{}} \\; > /dev/null; head -c 4000000 {dir}/noise | xz -0 > /dev/null")
    ),
    "xargs -P1": Scenario(
        "WORKERS", until("seq 20 | xargs -P1 -I@ sh -c 'head -c 1500000 {dir}/noise | gzip -1 > /dev/null'")
    ),
    "turns under a lock": Scenario(
        "WORKERS|WAIT lock", steps(["turns", "{dir}/turns", 20], processes=4)
    ),
    "bzip2": Scenario("WORKERS", until("bzip2 -c {dir}/large > /dev/null")),
    "one thread in a group of its own": Scenario("WORKERS", steps(["cpu", 20]), has_group=True),
    "sqlite in memory": Scenario(
        "WORKERS",
        (sys.executable, "-c", ("import sqlite3, time\nend = time.monotonic() + {seconds}\ndb = sqlite3.connect(':memory:')\n"
         "db.execute('create table t (a, b)')\nwhile time.monotonic() < end:\n db.execute('insert into t values (1, 2)')")),
    ),
    "one of three programs computes": Scenario("WORKERS", sh("timeout {seconds} {dir}/spin 1 & sleep {seconds} & sleep {seconds} & wait")),
    "ranks of which one computes": Scenario("WORKERS", sh("timeout {seconds} bash -c 'while :; do ((x = x * 3 % 7 + 1)); done' & timeout {seconds} tail -f /dev/null & wait")),
    # as much as there is
    "two processes": Scenario("CPU", steps(["cpu", 20], processes=2)),
    "four forked workers": Scenario("CPU", steps(["cpu", 8], processes=4, feeds=True)),
    "four spawned workers": Scenario("CPU", steps(["cpu", 8], processes=4, how="spawn", feeds=True)),
    "C, four threads": Scenario("CPU", ("timeout", "{seconds}", "{dir}/spin", "4")),
    "make -j4": Scenario("CPU", ("timeout", "{seconds}", "make", "-s", "-k", "-C", "{dir}/make", "-j4")),
    "xargs -P3 gzip": Scenario(
        "CPU", until("seq 20 | xargs -P3 -I@ sh -c 'head -c 1500000 {dir}/noise | gzip -1 > /dev/null'")
    ),
    "eight threads of zlib": Scenario("CPU", steps(["compress", 50], processes=8, how="thread")),
    "xz -T3": Scenario("CPU", until("xz -1 -T3 --block-size=1MiB -c {dir}/large > /dev/null")),
    "six workers that also wait": Scenario("CPU", steps(["cpu", 12], ["sleep", 2], processes=6, feeds=True)),
    "sixteen workers": Scenario("CPU", steps(["cpu", 8], processes=16, feeds=True)),
    "four workers in a group of their own": Scenario("CPU", steps(["cpu", 8], processes=4, feeds=True), has_group=True),
    "workers of 3 s each": Scenario("CPU", until("for i in 1 2 3; do timeout 3 {dir}/spin 1 & done; wait")),
    # a limit of its own
    "quota half a CPU, one thread": Scenario("LIMIT", steps(["cpu", 20]), limits={"cpu": 0.5}),
    "quota half a CPU, two processes": Scenario("LIMIT", steps(["cpu", 20], processes=2), limits={"cpu": 0.5}),
    "quota one CPU, four workers": Scenario("LIMIT", steps(["cpu", 8], processes=4, feeds=True), limits={"cpu": 1.0}),
    "quota a fifth, python": Scenario("LIMIT", steps(["cpu", 20]), limits={"cpu": 0.2}),
    "quota half a CPU, C threads": Scenario(
        "LIMIT", ("timeout", "{seconds}", "{dir}/spin", "3"), limits={"cpu": 0.5}
    ),
    "quota one and a half, four workers": Scenario(
        "LIMIT", steps(["cpu", 8], processes=4, feeds=True), limits={"cpu": 1.5}
    ),
    "quota of the group above": Scenario("LIMIT", steps(["cpu", 20], processes=2), limits={"cpu": 0.7, "nested": True}),
    "quota set late": Scenario("LIMIT", steps(["cpu", 20]), limits={"cpu": 0.4, "late_s": 4}),
    "quota, short gzips": Scenario(
        "LIMIT", until("head -c 2000000 {dir}/noise | gzip -1 > /dev/null"), limits={"cpu": 0.5}
    ),
    "quota, make -j2": Scenario(
        "LIMIT", ("timeout", "{seconds}", "make", "-s", "-k", "-C", "{dir}/make", "-j2"), limits={"cpu": 0.6}
    ),
    "quota in a group of its own": Scenario("LIMIT", steps(["cpu", 20]), limits={"cpu": 0.5}, has_group=True),
    "quota that is not reached": Scenario(
        "WAIT network", steps(["ask", "{port}", 64], ["cpu", 5]), (SERVE,), {"cpu": 0.8}, is_light=True
    ),
    "affinity one CPU, four workers": Scenario(
        "LIMIT", steps(["cpu", 8], processes=4, feeds=True), before=("taskset", "-c", "0")
    ),
    "affinity one CPU, C threads": Scenario(
        "LIMIT", ("timeout", "{seconds}", "{dir}/spin", "2"), before=("taskset", "-c", "1")
    ),
    "affinity one CPU, one thread": Scenario("LIMIT|WORKERS", steps(["cpu", 20]), before=("taskset", "-c", "0")),
    "affinity set by the job": Scenario("LIMIT", steps(["cpu", 8], processes=3, pin_main=[1])),
    "workers pinned, main not": Scenario("LIMIT", steps(["cpu", 8], processes=3, feeds=True, pin=[0])),
    "cpuset of one CPU": Scenario("LIMIT", steps(["cpu", 20], processes=3), limits={"cpuset": "1"}),
    # others
    "one thread beside six hogs": Scenario("FOREIGN", steps(["cpu", 20]), (HOG,) * 6),
    "nice 19 beside three hogs": Scenario("FOREIGN", steps(["cpu", 20], processes=2), (HOG,) * 3, before=("nice", "-n", "19")),
    "two processes beside eight hogs": Scenario("FOREIGN", steps(["cpu", 20], processes=2), (HOG,) * 8),
    "worker beside four hogs": Scenario("FOREIGN", steps(["cpu", 8], processes=1, feeds=True), (HOG,) * 4),
    "short gzips beside six hogs": Scenario(
        "FOREIGN", until("head -c 2000000 {dir}/noise | gzip -1 > /dev/null"), (HOG,) * 6
    ),
    "pinned beside three hogs that are pinned": Scenario(
        "FOREIGN|LIMIT", steps(["cpu", 20]), (("hog", "pinned"),) * 3, before=("taskset", "-c", "0")
    ),
    "C beside five hogs": Scenario("FOREIGN", ("timeout", "{seconds}", "{dir}/spin", "1"), (HOG,) * 5),
    "few shares beside two hogs": Scenario("FOREIGN", steps(["cpu", 20], processes=2), (HOG,) * 2, {"shares": 60_000}),
    "four workers beside ten hogs": Scenario("FOREIGN", steps(["cpu", 8], processes=4, feeds=True), (HOG,) * 10),
    # storage
    "random reads": Scenario("DISK", steps(DIRECT), limits=SLOW, is_light=True),
    "random reads of eight": Scenario("DISK", steps(DIRECT, processes=8), limits=SLOW, is_light=True),
    "cold file": Scenario("DISK", steps(["buffered", "{data}/file"]), limits=SLOW, is_light=True),
    "cold file in threads": Scenario(
        "DISK", steps(["buffered", "{data}/file"], processes=3, how="thread"), limits=SLOW, is_light=True
    ),
    "cold mmap": Scenario("DISK", steps(["mapped", "{data}/file", 300]), limits=SLOW, is_light=True),
    "loaders read and decode a little": Scenario(
        "DISK", steps(DIRECT, ["cpu", 2], processes=3, feeds=True), limits=SLOW, is_light=True
    ),
    "written and synced": Scenario("DISK", steps(["written", "{data}", 512]), limits={"write": 2_000_000}, is_light=True),
    "dd, direct": Scenario(
        "DISK", until("dd if={data}/file of=/dev/null bs=64k iflag=direct status=none"), limits=SLOW, is_light=True
    ),
    "dd writes, direct": Scenario(
        "DISK", until("dd if=/dev/zero of={data}/out bs=64k count=200 oflag=direct status=none"),
        limits={"write": 2_000_000}, is_light=True,
    ),
    "grep in cold files": Scenario(
        "DISK", until("dd of={data}/file oflag=nocache conv=notrunc,fdatasync count=0 status=none; grep -c needle {data}/file > /dev/null"),
        limits=SLOW, is_light=True,
    ),
    "tar of a cold folder": Scenario(
        "DISK", until("dd of={data}/file oflag=nocache conv=notrunc,fdatasync count=0 status=none; tar c -C {data} file | cat > /dev/null"),
        limits=SLOW, is_light=True,
    ),
    "random reads in a group of its own": Scenario("DISK", steps(DIRECT, processes=2), limits=SLOW, is_light=True, has_group=True),
    "few requests a second": Scenario("DISK", steps(DIRECT, processes=2), limits={"iops": 60}, is_light=True),
    "spawned loaders of a cold file": Scenario(
        "DISK", steps(["buffered", "{data}/file"], ["cpu", 30], processes=2, how="spawn"), limits=SLOW, is_light=True
    ),
    # memory, without swap: pages of files go and come again
    "working set above the limit": Scenario("MEM|DISK", steps(["thrash", "{data}/file", 500]), limits={"memory": 16, **SLOW}),
    "two above the limit": Scenario(
        "MEM|DISK", steps(["thrash", "{data}/file", 500], processes=2), limits={"memory": 24, **SLOW}
    ),
    "three above the limit": Scenario(
        "MEM|DISK", steps(["thrash", "{data}/file", 300], processes=3), limits={"memory": 40, **SLOW}
    ),
    "memory limit, fast disk": Scenario("MEM|DISK", steps(["thrash", "{data}/file", 2000], processes=2), limits={"memory": 28}),
    # a store, a peer, a lock
    "two workers ask a store": Scenario("WAIT network", steps(["ask", "{port}", 256], processes=2), (SERVE,), is_light=True),
    "a connection for each request": Scenario("WAIT network", steps(["fetch", "{port}", 64]), (SERVE,), is_light=True),
    "select": Scenario("WAIT network", steps(["ask_select", "{port}", 64], processes=2), (SERVE,), is_light=True),
    "an event loop": Scenario("WAIT network", steps(["fetch_async", "{port}", 16, 6]), (SERVE,), is_light=True),
    "curl": Scenario("WAIT network", until("curl -s -o /dev/null http://127.0.0.1:{port}/x"), (("serve", "{port}", "400"),), is_light=True),
    "threads ask a store": Scenario(
        "WAIT network", steps(["ask", "{port}", 64], processes=4, how="thread"), (SERVE,), is_light=True
    ),
    "loaders fetch": Scenario("WAIT network", steps(["ask", "{port}", 64], processes=3, feeds=True), (SERVE,), is_light=True),
    "spawned loaders fetch": Scenario(
        "WAIT network", steps(["fetch", "{port}", 64], processes=3, how="spawn", feeds=True), (SERVE,), is_light=True
    ),
    "fetch and compute a third": Scenario("WAIT network", steps(["ask", "{port}", 64], ["cpu", 40]), (SERVE,)),
    "fetch and decode a little": Scenario(
        "WAIT network", steps(["ask", "{port}", 128], ["cpu", 6], processes=2, feeds=True), (SERVE,), is_light=True
    ),
    "datagrams": Scenario("WAIT network", steps(["datagram", "{port}"]), (("datagrams", "{port}", "150"),), is_light=True),
    "a slow line": Scenario(
        "WAIT network", steps(["ask", "{port}", 4000], processes=2), (("serve", "{port}", "5", "3000"),), is_light=True
    ),
    "a store that never answers": Scenario("WAIT network", steps(["ask", "{port}", 64]), (("silent", "{port}"),), is_light=True),
    "fetch in a group of its own": Scenario(
        "WAIT network", steps(["fetch", "{port}", 64], processes=2), (SERVE,), is_light=True, has_group=True
    ),
    "a lock that somebody holds": Scenario(
        "WAIT lock", steps(["flock", "{dir}/{port}.lock"]), (("hold", "{dir}/{port}.lock", "60", "flock"),), is_light=True
    ),
    "flock of a shell": Scenario(
        "WAIT lock", ("timeout", "{seconds}", "flock", "{dir}/{port}.lock", "true"),
        (("hold", "{dir}/{port}.lock", "60", "flock"),), is_light=True,
    ),
    "a POSIX lock": Scenario(
        "WAIT lock", steps(["posix_lock", "{dir}/{port}.lock"], processes=2),
        (("hold", "{dir}/{port}.lock", "60", "posix"),), is_light=True,
    ),
    "a deadlock of threads": Scenario("WAIT lock", steps(["deadlock"]), is_light=True),
    "a pipe that is fed slowly": Scenario(
        "WAIT peer", steps(["fifo", "{dir}/{port}.fifo"]), (("feed", "{dir}/{port}.fifo", "300"),), is_light=True
    ),
    "a server of this host": Scenario(
        "WAIT peer", steps(["unix", "{dir}/{port}.sock"], processes=2), (("unix", "{dir}/{port}.sock", "150"),), is_light=True
    ),
    "cat of a pipe": Scenario(
        "WAIT peer", ("timeout", "{seconds}", "cat", "{dir}/{port}.fifo"), (("feed", "{dir}/{port}.fifo", "400"),), is_light=True
    ),
    # nothing
    "sleep": Scenario("IDLE", ("sleep", "{seconds}"), is_light=True),
    "python sleeps": Scenario("IDLE", steps(["sleep", 700]), is_light=True),
    "a shell that sleeps": Scenario("IDLE", until("sleep 0.5"), is_light=True),
    "workers sleep": Scenario("IDLE", steps(["sleep", 300], processes=3, feeds=True), is_light=True),
    "waiting for a signal": Scenario("IDLE", ("timeout", "{seconds}", sys.executable, JOB, "30", '{{"steps": [["signalled"]]}}'), is_light=True),
    "timers of an event loop": Scenario("IDLE", steps(["timers", 400]), is_light=True),
    # one after the other: both have to be named
    "storage, then one thread": Scenario(
        "DISK+WORKERS", {"phases": [[0.5, [["direct", "{data}/file", 2]]], [0.5, [["cpu", 20]]]]}, limits=SLOW
    ),
    "a store, then one thread": Scenario(
        "WAIT+WORKERS", {"phases": [[0.5, [["ask", "{port}", 64]]], [0.5, [["cpu", 20]]]]}, (SERVE,)
    ),
    "one thread, then sleeping": Scenario("WORKERS+IDLE", {"phases": [[0.5, [["cpu", 20]]], [0.5, [["sleep", 300]]]]}),
    "a store, then storage": Scenario(
        "WAIT+DISK", {"phases": [[0.5, [["ask", "{port}", 64]]], [0.5, [["direct", "{data}/file", 2]]]]}, (SERVE,),
        limits=SLOW, is_light=True,
    ),
    # beside a GPU, whose figures come from a trace
    "GPU is the limit": Scenario("GPU", steps(["sleep", 20], ["cpu", 1], processes=2), gpu="96 290", is_light=True),
    "GPU is cold": Scenario("COLD_GPU", steps(["sleep", 20], ["cpu", 1]), gpu="96 95", is_light=True),
    "GPU beside a busy main process": Scenario("GPU", steps(["cpu", 20]), gpu="97 285"),
    "GPU starves, one worker": Scenario("WORKERS", steps(["cpu", 8], processes=1, feeds=True), gpu="20 110"),
    "GPU starves, four workers": Scenario("CPU", steps(["cpu", 8], processes=4, feeds=True), gpu="35 130"),
    "GPU starves, a store": Scenario("WAIT network", steps(["ask", "{port}", 64], processes=2, feeds=True), (SERVE,), gpu="12 90", is_light=True),
    "GPU starves, storage": Scenario("DISK", steps(DIRECT, processes=2, feeds=True), limits=SLOW, gpu="15 90", is_light=True),
    "GPU starves, quota": Scenario("LIMIT", steps(["cpu", 8], processes=3, feeds=True), limits={"cpu": 0.8}, gpu="22 100"),
    # written when all limits stood, and run once
    "later: cp of a cold file": Scenario(
        "DISK", until("dd of={data}/file oflag=nocache conv=notrunc,fdatasync count=0 status=none; cp {data}/file /dev/null"),
        limits=SLOW, is_light=True,
    ),
    "later: urllib": Scenario(
        "WAIT network", (sys.executable, "-c", ("import time, urllib.request as u\nend = time.monotonic() + {seconds}\n"
        "while time.monotonic() < end: u.urlopen('http://127.0.0.1:{port}/x').read()")), (("serve", "{port}", "150"),), is_light=True,
    ),
    "later: bash asks over TCP": Scenario(
        "WAIT network", until("exec 3<>/dev/tcp/127.0.0.1/{port}; echo 64 >&3; head -c 65536 <&3 > /dev/null; exec 3>&-"),
        (("serve", "{port}", "400"),), is_light=True,
    ),
    "later: a pool that sleeps": Scenario(
        "IDLE", (sys.executable, "-c", "import multiprocessing as m, time\nm.Pool(3).map(time.sleep, [{seconds} / 4] * 12)"),
        is_light=True,
    ),
    "later: a lock between processes": Scenario(
        "WAIT lock", (sys.executable, "-c", "import multiprocessing as m\nl = m.Lock()\nl.acquire()\nl.acquire(timeout={seconds})"),
        is_light=True,
    ),
    "later: tail -f": Scenario("IDLE", ("timeout", "{seconds}", "tail", "-f", "{dir}/spin.c"), is_light=True),
    "later: commits of sqlite": Scenario(
        "DISK", (sys.executable, "-c", ("import sqlite3, time\nend = time.monotonic() + {seconds}\n"
        "db = sqlite3.connect('{data}/db')\ndb.execute('create table t (a)')\n"
        "while time.monotonic() < end:\n db.execute('insert into t values (randomblob(200000))'); db.commit()")),
        limits={"write": 1_000_000}, is_light=True,
    ),
    "later: hashes in eight threads": Scenario(
        "CPU", (sys.executable, "-c", ("import hashlib, os, time, concurrent.futures as c\ndata = os.urandom(1 << 22)\n"
        "end = time.monotonic() + {seconds}\nwith c.ThreadPoolExecutor(8) as pool:\n"
        " while time.monotonic() < end: list(pool.map(hashlib.sha256, [data] * 64))")),
    ),
    "later: sort": Scenario("WORKERS", until("sort --parallel=1 -R {dir}/large > /dev/null")),
    "later: quota, gzip into gunzip": Scenario(
        "LIMIT", until("gzip -6 < {dir}/large | gunzip > /dev/null"), limits={"cpu": 0.3}
    ),
    "later: affinity, make -j3": Scenario(
        "LIMIT", ("timeout", "{seconds}", "make", "-s", "-k", "-C", "{dir}/make", "-j3"), before=("taskset", "-c", "0")
    ),
    "later: four fetch and compute a lot": Scenario(
        "CPU", steps(["ask", "{port}", 64], ["cpu", 60], processes=6), (QUICK,)
    ),
    "later: one process, two forks that wait": Scenario("WORKERS", steps(["turns", "{dir}/turns2", 60], processes=3, feeds=True)),
    "GPU rests, asleep": Scenario("IDLE", steps(["sleep", 300]), gpu="0 60", is_light=True),
    **{f"unseen: {name}": one for name, one in UNSEEN.items()},
    **{f"unseen: field: {name}": one for name, one in FIELD.items()},
}  # fmt: skip


def is_later(name: str) -> bool:
    return name.startswith("later: ")


def is_unseen(name: str) -> bool:
    """Held back too, all of them; what a set of its own says is not mixed with what was run
    before.
    """
    return name.startswith("unseen: ")


def is_held_back(name: str) -> bool:
    return is_unseen(name) or (
        not is_later(name) and hashlib.sha256(name.encode()).digest()[-1] % 2 == 1
    )


@dataclass
class Place:
    """A folder, a slow device mounted at `data`, and where control groups are made."""

    folder: Path
    data: Path
    device: str
    unified: Path
    made: list[Path] = field(default_factory=list)

    def group(self, parent: Path) -> Path:
        path = Path(tempfile.mkdtemp(prefix="watch-truth-", dir=parent))
        self.made.append(path)
        return path


@contextmanager
def place() -> Iterator[Place]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="watch-truth-")))
        (folder / "large").write_bytes((os.urandom(200) + bytes(100)) * 100_000)
        (folder / "noise").write_bytes(os.urandom(4 << 20))
        (folder / "spin.c").write_text(SPIN)
        subprocess.run(
            ["cc", "-O1", "-pthread", "-o", str(folder / "spin"), str(folder / "spin.c")],
            check=True,
        )
        _makefile(folder / "make")
        image = folder / "image"
        image.write_bytes(bytes(160 << 20))
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60)
        device = subprocess.run(
            ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
        ).stdout.strip()
        stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        data = folder / "data"
        data.mkdir()
        subprocess.run(["mount", device, str(data)], check=True)
        stack.callback(subprocess.run, ["umount", str(data)], check=True)
        (data / "file").write_bytes(os.urandom(64 << 20))
        os.sync()
        number = Path(f"/sys/class/block/{Path(device).name}/dev").read_text().strip()
        found = Place(folder, data, number, GROUPS / "unified")
        stack.callback(_clean, found)
        ours = found.group(GROUPS / "cpu")
        (ours / "cpu.shares").write_text(str(SHARES))
        (ours / "cgroup.procs").write_text(str(os.getpid()))
        stack.callback((GROUPS / "cpu" / "cgroup.procs").write_text, str(os.getpid()))
        yield found


def _clean(found: Place) -> None:
    end = time.monotonic() + 20
    for path in reversed(found.made):
        while path.exists() and time.monotonic() < end:
            with suppress(OSError):
                path.rmdir()


def _makefile(folder: Path) -> None:
    folder.mkdir()
    names = [f"part{number}" for number in range(300)]
    for name in names:
        body = "".join(
            f"double f{i}(double x) {{ return x * {i} + f{i - 1}(x); }}\n" for i in range(1, 60)
        )
        (folder / f"{name}.c").write_text(
            f"#include <stdio.h>\nstatic double f0(double x) {{ return x; }}\n{body}"
        )
    (folder / "Makefile").write_text(
        f"all: {' '.join(f'{name}.o' for name in names)}\n%.o: %.c\n\tcc -O2 -c -o /dev/null $<\n.PHONY: all\n"
    )


def _limits(scenario: Scenario, found: Place) -> tuple[list[str], list[tuple[Path, str]]]:
    """Files that the job's process is written into, and what is written late."""
    enter: list[str] = []
    late: list[tuple[Path, str]] = []
    limits = scenario.limits
    for kind, controller in (
        ("cpu", "cpu"), ("shares", "cpu"), ("memory", "memory"), ("cpuset", "cpuset"), ("read", "blkio"), ("write", "blkio"), ("iops", "blkio"),
    ):  # fmt: skip
        if kind not in limits:
            continue
        group = found.group(GROUPS / controller)
        value = limits[kind]
        inner = group
        if kind == "cpu":
            (group / "cpu.shares").write_text(str(SHARES))
            if limits.get("nested"):
                inner = group / "job"
                inner.mkdir()
                found.made.append(inner)
            write = (group / "cpu.cfs_quota_us", str(int(100_000 * value)))
            late.append(write) if limits.get("late_s") else write[0].write_text(write[1])
        elif kind == "shares":
            (group / "cpu.shares").write_text(str(value))
        elif kind == "memory":
            (group / "memory.limit_in_bytes").write_text(str(value << 20))
        elif kind == "cpuset":
            (group / "cpuset.mems").write_text("0")
            (group / "cpuset.cpus").write_text(value)
        else:
            name = {"read": "read_bps", "write": "write_bps", "iops": "read_iops"}[kind]
            (group / f"blkio.throttle.{name}_device").write_text(f"{found.device} {value}")
        enter.append(str(inner / "cgroup.procs"))
    if scenario.has_group or not scenario.has_others:
        enter.append(str(found.group(found.unified) / "cgroup.procs"))
    return enter, late


@dataclass
class Result:
    name: str
    said: str
    confidence: str
    others_cores: float
    sentence: str
    seen: dict[str, Any]

    @property
    def truth(self) -> str:
        return SCENARIOS[self.name].truth

    @property
    def is_right(self) -> bool:
        return any(self._fits(truth) for truth in SCENARIOS[self.name].truths)

    def _fits(self, truth: str) -> bool:
        if "+" in truth:  # both named, with their shares
            shares = {one["state"]: one["share"] for one in self.seen["verdict"]["shares"]}
            return all(
                shares.get(state, 0) >= 0.2 and state in self.sentence for state in truth.split("+")
            )
        return self.said == truth

    @property
    def is_undecided(self) -> bool:
        return not self.is_right and self.said in {"undecided", "mixed"}


def alone(tick: Tick, *, has_group: bool) -> Tick:
    """The tick as a host would have given it on which nobody else computes."""
    if tick.tree is None or tick.host is None:
        return tick
    whole = os.cpu_count() or 1
    cores = tick.tree.cores or 0.0
    limit = tick.limit
    allowed = limit.cpus if limit is not None and limit.kind.value != "quota" else whole
    host = replace(tick.host, busy_cores=cores, idle_percent=max(0.0, 100 * (1 - cores / allowed)))
    seen = tick.job or Pressure(0.0, 0.0, 0.0, 0.0, 0.0)
    return replace(
        tick, host=host, host_pressure=seen, job=seen if has_group else None, others=None
    )


def judged(path: Path, scenario: Scenario, *, is_as_it_is: bool = False) -> dict[str, Any]:
    """The document of a record."""
    watched, ticks = replay(str(path))
    account = Account(watched)
    for tick in ticks:
        account.add(
            tick
            if is_as_it_is or scenario.has_others
            else alone(tick, has_group=scenario.has_group)
        )
    ticks.end.tell(account)
    return json.loads(json.dumps(watch_json(WatchEnd(account.settle(), "the record ends"))))


def run(
    name: str, found: Place, seconds: int, records: Path | None, *, is_as_it_is: bool = False
) -> Result:
    scenario = SCENARIOS[name]
    folder = Path(tempfile.mkdtemp(dir=found.folder))
    port = 20_000 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") % 12_000
    for old in found.folder.glob(f"{port}.*"):
        old.unlink()
    words = {
        "seconds": str(seconds),
        "data": str(found.data),
        "dir": str(found.folder),
        "port": str(port),
    }
    enter, late = _limits(scenario, found)
    job = _job(scenario, words, seconds)
    if enter:
        job = [
            "sh",
            "-c",
            'for one in $0; do echo $$ > "$one"; done; exec "$@"',
            " ".join(enter),
            *scenario.before,
            *job,
        ]
    else:
        job = [*scenario.before, *job]
    report, record = folder / "report.json", (records or folder) / f"{stem(name)}.jsonl"
    watch = [
        sys.executable, "-m", "hosttune", "watch", "--no-live", "--warm-up", str(WARM_UP_S), "--format", "json",
        "--output", str(report), "--record", str(record),
    ]  # fmt: skip
    if scenario.gpu:
        trace = folder / "trace"
        util, power = scenario.gpu.split()
        trace.write_text(
            f"gpu 0 GPU-truth H100\nat 0 0 {util} 20000 80000 {power} 300 1400 0x0 none\n"
        )
        watch += ["--gpu-trace", str(trace), "--gpus", "0"]
    beside = [_beside(one, words) for one in scenario.beside]
    try:
        with subprocess.Popen(
            [*watch, "--", *job],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            if late:
                time.sleep(scenario.limits["late_s"])
                for path, value in late:
                    path.write_text(value)
            _, problems = running.communicate(timeout=seconds + 60)
    finally:
        for one in beside:
            one.kill()
            one.wait()
        for kinds in scenario.beside:
            if kinds[0] == "fuse":
                subprocess.run(["umount", "--lazy", kinds[2].format_map(words)], check=True)
    assert report.exists(), f"{name}: {problems}"
    seen = json.loads(report.read_text())
    if not is_as_it_is:
        seen = judged(record, scenario)
    return result_of(name, seen)


def result_of(name: str, seen: dict[str, Any]) -> Result:
    verdict, means = seen["verdict"], seen["means"]
    said = (
        verdict["state"] if verdict["outcome"] in {"one", "idle", "changed"} else verdict["outcome"]
    )
    kind = verdict.get("waits_for")
    if said == "WAIT" and kind:
        said = f"WAIT {kind}"
    others = (means["busy_cores"] or 0) - (means["tree_cores"] or 0)
    return Result(name, said, verdict["confidence"], others, seen["sentence"], seen)


def _job(scenario: Scenario, words: dict[str, str], seconds: int) -> list[str]:
    if not isinstance(scenario.job, tuple):
        wish = dict(scenario.job)
        if wish.get("job") == "skewed":
            parts = (["cpu", 20], ["sleep", 200], ["sleep", 200])
            line = " & ".join(
                f"{sys.executable} {JOB} {seconds} '{json.dumps({'steps': [one]})}'"
                for one in parts
            )
            return ["sh", "-c", f"{line} & wait"]
        return [sys.executable, JOB, str(seconds), json.dumps(filled(wish, words))]
    return [word.format_map(words) for word in scenario.job]


def _beside(kinds: tuple[str, ...], words: dict[str, str]) -> subprocess.Popen[str]:
    first = FIRST.get(kinds[-1], [])
    line = [
        *first,
        sys.executable,
        BESIDE,
        *(word.format_map(words) for word in kinds if word not in FIRST),
    ]
    if kinds == ("hog", "nobody"):  # who may not read this folder
        line = [*first, "/usr/bin/python3", "-c", "print('ready', flush=True)\nwhile True: pass"]
    one = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert one.stdout is not None
    assert one.stdout.readline() in {"ready\n", "mounted\n"}, line
    return one


def run_all(
    names: list[str], found: Place, seconds: int, records: Path | None, *, is_as_it_is: bool = False
) -> list[Result]:
    def one(name: str) -> Result:
        result = run(name, found, seconds, records, is_as_it_is=is_as_it_is)
        print("." if result.is_right else "x", end="", flush=True)
        return result

    light = [name for name in names if SCENARIOS[name].is_light]
    with ThreadPoolExecutor(5) as pool:
        results = list(pool.map(one, light))
    return results + [one(name) for name in names if not SCENARIOS[name].is_light]


def figures(results: list[Result]) -> str:
    right = sum(one.is_right for one in results)
    undecided = sum(one.is_undecided for one in results)
    wrong = Counter(one.confidence for one in results if not one.is_right and not one.is_undecided)
    told = ", ".join(f"{wrong[level]} with {level}" for level in ("low", "medium", "high"))
    return (
        f"{right} of {len(results)} right ({100 * right / max(1, len(results)):.0f} %), {undecided} undecided, "
        f"wrong {told} confidence"
    )


def table(results: list[Result]) -> str:
    """The confusion table: what it was, what was said and with how much confidence."""
    said = Counter((one.truth, f"{one.said} ({one.confidence})") for one in results)
    return "\n".join(
        f"  {truth:20} {count:3} x {answer}" for (truth, answer), count in sorted(said.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-back", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument(
        "--later", action="store_true", help="those that were written when all limits stood"
    )
    parser.add_argument(
        "--unseen", action="store_true", help="those of watch_unseen.py, held back as well"
    )
    parser.add_argument(
        "--guest", action="store_true", help="of those of watch_unseen.py what runs in a guest"
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, help="of each job: 14, in a guest 40")
    parser.add_argument("--records", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--judge", type=Path, metavar="DIR", help="judge these records once more, run nothing"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="the table of those held back too: for the end of tuning",
    )
    parser.add_argument(
        "--missing", action="store_true", help="run what --records does not hold yet"
    )
    parser.add_argument("--as-it-is", action="store_true")
    parser.add_argument("--list", action="store_true")
    wish = parser.parse_args()
    names = [
        name for name, one in SCENARIOS.items()
        if wish.later == is_later(name) and (not wish.held_back or is_held_back(name)) and (not wish.tuned or not is_held_back(name))
        and is_unseen(name) == (wish.unseen or wish.guest) and one.is_in_guest == wish.guest
        and any(word in name or word in one.truth for word in wish.only.split("/"))
    ]  # fmt: skip
    if wish.judge:
        recorded = [name for name in names if (wish.judge / f"{stem(name)}.jsonl").exists()]
        found = [
            result_of(
                name,
                judged(
                    wish.judge / f"{stem(name)}.jsonl",
                    SCENARIOS[name],
                    is_as_it_is=wish.as_it_is or wish.guest,
                ),
            )
            for name in recorded
        ]
        tell(found, has_table=wish.table)
        return
    if wish.missing:
        names = [name for name in names if not (wish.records / f"{stem(name)}.jsonl").exists()]
    if wish.list:
        print(
            "\n".join(
                f"{'held back' if is_held_back(name) else 'tuned':10} {SCENARIOS[name].truth:20} {name}"
                for name in names
            )
        )
        return
    if wish.records:
        wish.records.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    if wish.guest:
        from tests.benchmarks.truth_guest import run_in_guest

        seen = run_in_guest(
            {name: SCENARIOS[name] for name in names}, wish.seconds or 40, wish.records
        )
        results = [result_of(name, told) for name, told in seen]
    else:
        with place() as found:
            results = run_all(
                names, found, wish.seconds or 14, wish.records, is_as_it_is=wish.as_it_is
            )
    print()
    tell(results, has_table=wish.table)
    if wish.json:
        told = [one for one in results if not is_held_back(one.name)]
        wish.json.write_text(
            json.dumps([{"name": one.name, "said": one.said, "seen": one.seen} for one in told])
        )


def tell(results: list[Result], *, has_table: bool = False) -> None:
    for half, chosen in (("tuned", False), ("held back", True), ("later", False), ("unseen", True)):
        part = [
            one
            for one in results
            if is_held_back(one.name) is chosen
            and is_later(one.name) is (half == "later")
            and is_unseen(one.name) is (half == "unseen")
        ]
        if not part:
            continue
        print(f"{half}: {figures(part)}")
        if not chosen or has_table:
            print(table(part))
        if not chosen:  # of those held back the figure alone is told
            for one in part:
                if not one.is_right:
                    print(
                        f"    {one.name}: {one.truth}, said {one.said} ({one.confidence}), others {one.others_cores:.2f}: {one.sentence}"
                    )


if __name__ == "__main__":
    main()
