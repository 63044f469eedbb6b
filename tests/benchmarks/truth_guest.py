"""Scenarios of `watch_unseen.py` in a guest of the vm ring: systemd, control groups of version 2
with all controllers, swap, and nobody beside. `watch_truth.py --guest` calls it; no program by
itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.truth_scenario import ROOT, Scenario, filled, stem
from tests.vm import installed
from tests.vm.guest import Guest
from tests.vm.transcript import Transcript

WARM_UP_S = 5
FOLDER = "/srv/truth"
DATA = "/mnt/truth"
PYTHON = "/usr/bin/python3"
PREPARE = f"""\
set -e
mkdir -p {FOLDER} {DATA}
chmod 755 {FOLDER}
umount /data 2> /dev/null || true
mkfs.ext4 -q -F /dev/vdb
mount /dev/vdb {DATA}
head -c 50331648 /dev/urandom > {DATA}/file
sync
modprobe fuse || true
printf '[Slice]\\nCPUQuota=50%%\\n' > /etc/systemd/system/small.slice
systemctl daemon-reload
grep -q . /proc/swaps
"""


def run_in_guest(
    scenarios: Mapping[str, Scenario], seconds: int, records: Path | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, JSON of the verdict) of each; the guest is started for all of them once."""
    with booted() as guest:
        for name, one in scenarios.items():
            seen = watched(guest, name, one, seconds, records)
            print(
                f"{one.truth:16} {seen['verdict']['state'] or seen['verdict']['outcome']:10} {name}",
                flush=True,
            )
            yield name, seen


@contextlib.contextmanager
def booted() -> Iterator[Guest]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="watch-truth-vm-")))
        script = stack.enter_context((folder / "transcript.txt").open("w", encoding="utf-8"))
        guest = Guest(installed.get(), folder, Transcript(script))
        stack.enter_context(contextlib.closing(guest))
        guest.boot()
        for path in (
            "tests/benchmarks/truth_job.py",
            "tests/benchmarks/truth_beside.py",
            "tests/live/fuse_mirror.py",
        ):
            guest.write(f"{FOLDER}/{Path(path).name}", (ROOT / path).read_bytes())
        made = guest.run(["sh", "-c", PREPARE])
        assert made.rc == 0, made
        yield guest


def watched(
    guest: Guest, name: str, scenario: Scenario, seconds: int, records: Path | None
) -> dict[str, Any]:
    port = 20_000 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") % 12_000
    words = {"seconds": str(seconds), "data": DATA, "dir": FOLDER, "port": str(port)}
    units = []
    for number, kinds in enumerate(scenario.beside):
        units.append(f"beside{number}")
        user = ("--uid=nobody",) if kinds[-1] == "nobody" else ()
        line = [
            PYTHON,
            f"{FOLDER}/truth_beside.py",
            *(word.format_map(words) for word in kinds if word != "nobody"),
        ]
        made = guest.run(
            ["systemd-run", "--quiet", "--collect", f"--unit={units[-1]}", *user, *line]
        )
        assert made.rc == 0, made
    try:
        if units:
            time.sleep(8)  # until they listen, under emulation
        watch = ["hosttune", "watch", "--no-live", "--warm-up", str(WARM_UP_S), "--format", "json"]
        files = ["--output", f"{FOLDER}/report.json", "--record", f"{FOLDER}/record.jsonl"]
        guest.run(["rm", "-f", files[1], files[3]])
        answer = guest.run([*watch, *files, "--", *job(scenario, words)])
        assert "Traceback" not in answer.stderr, answer
        if records:
            (records / f"{stem(name)}.jsonl").write_bytes(guest.read(files[3]))
        found: dict[str, Any] = json.loads(guest.read(files[1]))
        return found
    finally:
        for unit in units:
            guest.ask_any(["systemctl", "stop", unit])
        guest.ask_any(["sh", "-c", f"umount -l {FOLDER}/*.fuse; true"])


def job(scenario: Scenario, words: Mapping[str, str]) -> list[str]:
    """The words of the command, in a scope of systemd's where that is asked for."""
    if isinstance(scenario.job, tuple):
        line = [word.format_map(words) for word in scenario.job]
    else:
        line = [
            PYTHON,
            f"{FOLDER}/truth_job.py",
            words["seconds"],
            json.dumps(filled(dict(scenario.job), words)),
        ]
    if scenario.user:
        line = ["setpriv", f"--reuid={scenario.user}", "--regid=daemon", "--clear-groups", *line]
    if not scenario.scope:
        return line
    places = [
        f"--slice={one.partition('=')[2]}" for one in scenario.scope if one.startswith("Slice=")
    ]
    limits = [
        word for one in scenario.scope if not one.startswith("Slice=") for word in ("-p", one)
    ]
    return ["systemd-run", "--scope", "--quiet", "--collect", *places, *limits, *line]
