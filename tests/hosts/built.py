"""The hosts that the tests look at, as files: built ones, made from the descriptions of `make.py`
when this module is imported, into a folder that goes with the process; and recorded ones, which
`hosttune record` wrote on a real machine.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from hosttune.host.record.record import RecordReader, read_record
from tests.hosts.machine import write
from tests.hosts.make import MACHINES


def _made() -> Path:
    folder, owner = Path(tempfile.mkdtemp(prefix="hosttune-built-hosts-")), os.getpid()
    atexit.register(
        lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True)
    )  # not with a fork
    folder.chmod(0o755)  # of a test that starts a program as another user
    for machine in MACHINES:
        write(machine, folder)
    return folder


HOSTS = _made()
BUILT = sorted(HOSTS.glob("*.json"))
RECORDED = sorted((Path(__file__).resolve().parent / "recorded").glob("*.json"))


@cache
def reader(path: Path) -> RecordReader:
    """A host, read and checked once in a process, which takes longer than most of what is asked of
    it. Nobody may change what is in it: one with other answers is made of a copy of its `data`.
    """
    return read_record(str(path))
