"""How many records of hosts one core checks in a second, and how memory grows: `python
tests/benchmarks/records.py [--hosts N]`. A benchmark, not a test.

The built hosts of tests/hosts are checked one after the other, over and over, as `check --host FILE
...` does it: read, evaluate every rule of the profile, compare, prove the plan on an overlay.
Prints hosts per second, by the clock and by this process' own processor time, and the peak of
resident memory after each thousand.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hosttune.actions.examine import examine  # noqa: E402 - of this checkout
from hosttune.engine.policy.policy import Policy  # noqa: E402
from hosttune.engine.rules.catalog import builtin_catalog  # noqa: E402
from hosttune.host.record.record import read_record  # noqa: E402
from tests.hosts.built import BUILT  # noqa: E402

STEP = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10 * STEP)
    hosts = parser.parse_args().hosts
    catalog = builtin_catalog()
    policy = Policy(today=time.strftime("%Y-%m-%d"))
    print(
        f"{len(policy.select_rules(catalog))} rules, {len(BUILT)} records, {sum(p.stat().st_size for p in BUILT):,} bytes"
    )
    for what, prove in (("check", True), ("check without the proof of the plan", False)):
        print(what)
        records = itertools.cycle(BUILT)
        for done in range(0, hosts, STEP):
            count = min(STEP, hosts - done)
            started, used = time.perf_counter(), time.process_time()
            for path in itertools.islice(records, count):
                examine(read_record(str(path)), catalog, policy).plan(prove=prove)
            seconds, cpu = time.perf_counter() - started, time.process_time() - used
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"  {done + count:6} hosts  {count / seconds:7.1f} hosts/s  {count / cpu:7.1f} a CPU second  {peak:6.0f} MiB"
            )


if __name__ == "__main__":
    main()
