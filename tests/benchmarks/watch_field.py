"""Jobs after public reports of slow training, with real libraries where they matter. Their truths
were written before the first run, and nothing may be changed for one of them only: they count as
`--unseen`, `--only field`.
"""

from __future__ import annotations

import sys

from tests.benchmarks.truth_scenario import Scenario, sh, steps, until

HOG = ("hog",)
SLOW = {"read": 3_000_000, "write": 1_000_000}

HEAD = """
import sys, os, time, threading, multiprocessing as m, subprocess, signal
S, D, T = float(sys.argv[1]), sys.argv[2], sys.argv[3]
end = time.monotonic() + S
def on(): return time.monotonic() < end
def cpu(ms):
    stop, x = time.thread_time() + ms / 1000, 1
    while time.thread_time() < stop:
        for _ in range(200): x = x * 7 % 65537
def start(work, count, *args):
    ps = [m.Process(target=work, args=args, daemon=True) for _ in range(count)]
    [p.start() for p in ps]
    return ps
"""


def py(body: str) -> tuple[str, ...]:
    code = (HEAD + body).replace("{", "{{").replace("}", "}}")
    return (sys.executable, "-c", code, "{seconds}", "{data}", "{dir}")


FIELD: dict[str, Scenario] = {
    # threads and decoders
    "two loaders, eight BLAS threads each": Scenario("CPU", py("""
os.environ["OPENBLAS_NUM_THREADS"] = "8"
def work():
    import numpy as np
    a = np.ones((400, 400))
    while on(): a @ a
[p.join(S + 1) for p in start(work, 2)]
""")),
    "four threads hash": Scenario("CPU", py("""
import hashlib
data = os.urandom(1 << 22)
def work():
    while on(): hashlib.sha256(data).digest()
ts = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
""")),
    "eight threads that share the interpreter": Scenario("WORKERS", py("""
ts = [threading.Thread(target=lambda: [cpu(5) for _ in iter(on, False)]) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
""")),
    "Parquet columns, decoded by a thread for each CPU": Scenario("CPU", py("""
import pyarrow as pa, pyarrow.parquet as pq
n = 400000
table = pa.table({f"c{k}": pa.array([f"{i * k % 9973}" for i in range(n)]) for k in range(1, 5)})
buffer = pa.BufferOutputStream(); pq.write_table(table, buffer, compression="gzip", use_dictionary=False)
data = buffer.getvalue()
while on(): pq.read_table(pa.BufferReader(data))
""")),
    "gzipped HDF5, one process": Scenario("WORKERS", py("""
import h5py, numpy as np
path = f"{T}/{os.getpid()}.h5"
with h5py.File(path, "w") as f: f.create_dataset("x", data=np.arange(4000000) % 977, chunks=(100000,), compression="gzip")
with h5py.File(path) as f:
    while on(): f["x"][:]
os.unlink(path)
""")),
    "one process copies from the page cache": Scenario("WORKERS", py("""
path = f"{T}/{os.getpid()}.bin"
open(path, "wb").write(bytes(64 << 20))
f = open(path, "rb", buffering=0)
while on():
    f.seek(0)
    while f.read(1 << 20): pass
os.unlink(path)
""")),
    "an interpreter for each item": Scenario("WORKERS", until(f"{sys.executable} -S -c 'sum(range(3000000))'")),
    "four interpreters at a time": Scenario(
        "CPU", sh(f"yes | timeout {{seconds}} xargs -P 4 -I X {sys.executable} -S -c 'sum(range(9000000))'")
    ),
    "loaders started anew for each epoch of 60 ms": Scenario("CPU|WORKERS", py("""
def work(): cpu(20)
while on(): [p.join() for p in start(work, 2)]
""")),
    "a learner of several threads beside two games": Scenario("CPU", py("""
games = [subprocess.Popen([T + "/spin", "1"]) for _ in range(2)]
os.environ["OPENBLAS_NUM_THREADS"] = "8"
import numpy as np
a = np.ones((300, 300))
while on():
    stop = time.monotonic() + 0.15
    while time.monotonic() < stop: a @ a
    time.sleep(0.03)
[g.kill() for g in games]
""")),
    # loaders and the main process
    "one thread prepares, the main thread waits for it": Scenario("WORKERS", py("""
import queue
q = queue.Queue(4)
def load():
    while on(): cpu(25); q.put(1)
threading.Thread(target=load, daemon=True).start()
while on(): q.get(timeout=S); time.sleep(0.004)
""")),
    "a pool whose main process packs": Scenario("WORKERS", py("""
import pickle
def work(line):
    while True: line.recv_bytes()
a, b = m.Pipe()
start(work, 3, a)
rows = [list(range(40)) for _ in range(4000)]
while on(): b.send_bytes(pickle.dumps(rows)[:2000])
""")),
    "one worker of a pool, the main process waits": Scenario("WORKERS", py("""
def work(q):
    while on(): cpu(15); q.put(1)
q = m.Queue(2); start(work, 1, q)
while on(): q.get(timeout=S)
""")),
    "five processes, one lock in memory": Scenario("WORKERS", py("""
def work(lock):
    while on():
        with lock: cpu(20)
lock = m.Lock()
[p.join(S + 1) for p in start(work, 5, lock)]
""")),
    "two ranks, one computes, a barrier": Scenario("WORKERS", py("""
def work(rank, barrier):
    while on():
        cpu(150 if rank else 3); barrier.wait(S)
barrier = m.Barrier(2)
ps = [m.Process(target=work, args=(k, barrier), daemon=True) for k in (0, 1)]
[p.start() for p in ps]; [p.join(S + 1) for p in ps]
""")),
    "a worker was killed, the main process waits for it": Scenario(
        "IDLE|WAIT peer|WAIT each other|WAIT lock", py("""
def work(q):
    while on(): time.sleep(0.05); q.put(1)
q = m.Queue(2); p, = start(work, 1, q)
for _ in range(10): q.get()
os.kill(p.pid, signal.SIGKILL)
try: q.get(timeout=S)
except Exception: pass
"""), is_light=True),
    # storage and its waits
    "SQLite, a commit for each row": Scenario("DISK", py("""
import sqlite3
db = sqlite3.connect(f"{D}/{os.getpid()}.db"); db.execute("create table t (x blob)")
while on(): db.execute("insert into t values (?)", (os.urandom(20000),)); db.commit()
"""), limits=SLOW),
    "a log with O_SYNC": Scenario("DISK", py("""
f = os.open(f"{D}/{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
while on(): os.write(f, os.urandom(30000))
"""), limits=SLOW),
    "renamed into place, the folder synced": Scenario("DISK", py("""
k = 0
while on():
    k += 1; path = f"{D}/{os.getpid()}-{k % 20}"
    with open(path + ".tmp", "wb") as f: f.write(os.urandom(40000)); f.flush(); os.fsync(f.fileno())
    os.replace(path + ".tmp", path)
    d = os.open(D, os.O_RDONLY); os.fsync(d); os.close(d)
"""), limits=SLOW),
    "computes, then a checkpoint, in turns of two seconds": Scenario("WORKERS+DISK", py("""
while on():
    stop = time.monotonic() + 2.2
    while time.monotonic() < stop: cpu(20)
    with open(f"{D}/{os.getpid()}.pt", "wb") as f: f.write(os.urandom(2200000)); f.flush(); os.fsync(f.fileno())
"""), limits=SLOW),
    "eight reader threads, few reads a second": Scenario("DISK", py("""
import mmap, random
def work():
    f = os.open(f"{D}/file", os.O_RDONLY | os.O_DIRECT); size = os.fstat(f).st_size
    with mmap.mmap(-1, 65536) as b:
        while on(): os.preadv(f, [b], random.randrange(size >> 16) << 16)
ts = [threading.Thread(target=work, daemon=True) for _ in range(8)]
[t.start() for t in ts]; time.sleep(S)
"""), limits={"iops": 40}, is_light=True),
    # limits
    "a quota of half a CPU, eight BLAS threads": Scenario("LIMIT", py("""
os.environ["OPENBLAS_NUM_THREADS"] = "8"
import numpy as np
a = np.ones((300, 300))
while on(): a @ a
"""), limits={"cpu": 0.5}),
    "taskset to one CPU, four threads hash": Scenario("LIMIT", py("""
import hashlib
os.sched_setaffinity(0, {1})
data = os.urandom(1 << 22)
def work():
    while on(): hashlib.sha256(data).digest()
ts = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
""")),
    "a library pinned the loaders to one CPU": Scenario("LIMIT", py("""
def work(q):
    os.sched_setaffinity(0, {0})
    while on(): cpu(10); q.put(1)
q = m.Queue(4); start(work, 3, q)
while on(): q.get(timeout=S)
""")),
    "a file above the memory limit, read in order": Scenario("MEM|DISK", py("""
f = os.open(f"{D}/file", os.O_RDONLY); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
while on():
    os.lseek(f, 0, 0)
    while on() and os.read(f, 1 << 18): pass
"""), limits={"memory": 40, "read": 8_000_000}),
    # others
    "nice 19 beside three": Scenario("FOREIGN", py("while on(): cpu(20)"), (HOG,) * 3, before=("nice", "-n", "19")),
    "two threads hash beside six": Scenario("FOREIGN", py("""
import hashlib
data = os.urandom(1 << 22)
def work():
    while on(): hashlib.sha256(data).digest()
ts = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in ts]; [t.join() for t in ts]
"""), (HOG,) * 6),
    # waits
    "three loaders of a store, 5 ms of work for each item": Scenario(
        "WAIT network", steps(["ask", "{port}", 64], ["cpu", 5], processes=3, feeds=True), (("serve", "{port}", "150"),)
    ),
    "an API that allows five a second": Scenario("IDLE", py("while on(): cpu(2); time.sleep(0.2)"), is_light=True),
    "a model that is mapped from a FUSE mount": Scenario(
        "DISK|WAIT peer", steps(["mapped", "{dir}/{port}.fuse/file", 40]), (("fuse", "{data}", "{dir}/{port}.fuse", "20"),),
        is_light=True,
    ),
    # a GPU
    "GPU 98 % at 130 of 400 W": Scenario("COLD_GPU|GPU", py("while on(): cpu(5); time.sleep(0.01)"), gpu="98 110"),
    "GPU 20 %, the main loop logs": Scenario("WORKERS", py("""
f = open(f"{T}/{os.getpid()}.log", "w")
while on(): cpu(10); f.write("step" * 20); f.flush()
"""), gpu="20 120"),
    "GPU 6 %, images from a store": Scenario(
        "WAIT network", steps(["fetch", "{port}", 64], processes=4, feeds=True), (("serve", "{port}", "200"),), gpu="6 80",
        is_light=True,
    ),
}  # fmt: skip
