"""An apply over ssh whose connection is cut, and one that is stopped: what stays is told, and one undo takes it back.

A process is held with SIGSTOP as soon as its journal begins, so that what comes to it meanwhile comes in the middle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import tree
from tests.fleet.hosts import Fleet, Host, Kind, processes

pytestmark = pytest.mark.fleet

WAIT_S = 60
PROGRAM = "/usr/local/bin/hosttune"
RULES = "/etc/hosttune/rules.d"
CHANGES = 40
RUNS = "/var/lib/hosttune/runs"
RECEIPTS = "/var/lib/hosttune/receipts"
NOTICE = "/run/motd.d/61-hosttune-run"
RULE = """\
id: site-{number}
title: A file of this site
summary: Tests say so.
why: Tests say so.
costs: none
sources: [tests]
want:
  - file: /etc/site-{number}.conf
    value: |
      number {number}
"""


@pytest.fixture
def host(bundle: Path) -> Iterator[Host]:
    """A server with the program and rules that write many files."""
    fleet = Fleet([Kind(tree.get())])
    try:
        (one,) = fleet.hosts
        one.put("/run/hosttune.pyz", bundle.read_bytes())
        one.shell(f"install -m 755 /run/hosttune.pyz {PROGRAM}.pyz; printf '#!/bin/sh\\nexec python3 {PROGRAM}.pyz \"$@\"\\n' > {PROGRAM}")
        one.shell(f"chmod 755 {PROGRAM}; mkdir -p {RULES} /run/motd.d")
        yield one
    finally:
        fleet.close()
