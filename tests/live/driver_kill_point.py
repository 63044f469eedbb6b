"""One command of driver_kills.py inside the tree, on its own Python: run hosttune, or what a person
types, and tell what dpkg, the driver and the journal are like then, as one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

HOSTTUNE = ("python3", "/opt/src/ht")
PR_SET_CHILD_SUBREAPER = 36
UNFINISHED = ("installed", "config-files", "not-installed")


def run(argv: list[str], timeout_s: float = 200) -> tuple[int, str, str]:
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def state() -> dict:
    """What is there: each package of the driver with dpkg's state, dpkg's own journal, whether apt
    finds it whole.
    """
    _, rows, _ = run(
        [
            "dpkg-query",
            "-W",
            "-f",
            "${Package}\t${Version}\t${db:Status-Eflag}\t${db:Status-Status}\n",
        ]
    )
    packages = {}
    for row in rows.splitlines():
        name, version, flag, status = row.split("\t")
        if "nvidia" in name and status not in ("config-files", "not-installed"):
            packages[name] = [version, status if flag == "ok" else f"{status}, {flag}"]
    updates = [name for name in os.listdir("/var/lib/dpkg/updates") if name.isdecimal()]
    _, audit, _ = run(["dpkg", "--audit"])
    status, _, said = run(["apt-get", "-q", "check"])
    return {
        "packages": packages,
        "updates": len(updates),
        "audit": audit.strip()[:200],
        "apt": said.strip().splitlines()[:2] if status else [],
        "foreign": [
            row
            for row in rows.splitlines()
            if row.split("\t")[3] not in UNFINISHED and "nvidia" not in row
        ],
    }


def reap() -> None:
    """Wait for what the killed ones left running."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def main() -> None:
    step, words = sys.argv[1], sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told: dict = {}
    if step == "hosttune":
        told["status"], told["out"], told["err"] = run([*HOSTTUNE, *words])
    elif step == "typed":
        told["status"], told["out"], told["err"] = run(["sh", "-c", " ".join(words)])
    reap()
    if Path("/opt/kill/plan").exists() and step != "look":
        told["plan"] = Path("/opt/kill/plan").read_text(encoding="utf-8")
    told["state"] = state()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
