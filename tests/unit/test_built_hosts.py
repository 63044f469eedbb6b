"""The hosts of the tests: built ones go with the process that made them, recorded ones hold nothing
of anybody.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.host.record.record import read_record
from tests.hosts.built import BUILT, RECORDED
from tests.hosts.make import MACHINES

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, sys
from tests.hosts.built import HOSTS
if os.fork() == 0:
    sys.exit()
os.wait()
print(HOSTS, len(list(HOSTS.iterdir())))
"""


def test_every_description_is_a_record():
    assert [path.stem for path in BUILT] == sorted(machine.name for machine in MACHINES)
    assert all(read_record(str(path)).name for path in BUILT)


def test_built_hosts_outlive_a_fork_and_go_with_the_process():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=True,
    )
    folder, number = done.stdout.split()
    assert int(number) == len(MACHINES)
    assert not Path(folder).exists()


def test_hosts_are_listed_and_written(tmp_path):
    """`./run hosts`, from anywhere, into a folder that is named from there."""
    argv = [
        sys.executable,
        "-c",
        "import sys; from tests.hosts.make import main; main(sys.argv[1:])",
        str(tmp_path),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == [*(machine.name for machine in MACHINES), "written:"]
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == sorted(
        path.read_bytes() for path in BUILT
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_host_names_nobody(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert (record["shared"], record["privileged"]) == (True, True)
    assert record["processes"] == []
    assert set(record["machine"]) == {"0"}
    text = json.dumps(record)
    assert re.findall(r"(?:\d+\.){3}\d+:\d+|/home/\w+/|PRIVATE KEY|[\w.]+@[\w.]+\.\w+ ", text) == []


def test_there_is_a_recorded_host():
    assert [path.stem for path in RECORDED] == ["microvm-container-image"]
