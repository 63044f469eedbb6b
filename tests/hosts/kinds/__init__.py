"""Twelve kinds of host that GPU servers come as, one module each: what is special of it, from its
vendor's documents.

They are descriptions, as those of `make.py`; the records are made when a test wants them. What must
and must not be said of each stands in `tests/rules/kinds/`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hosttune.host.record.record import RecordReader
from tests.hosts.machine import Machine

NAMES = tuple(
    sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem not in {"__init__", "common"}
    )
)


def machine_of(name: str) -> Machine:
    """The description in the module of this name."""
    machine: Machine = import_module(f"{__name__}.{name}").MACHINE
    return machine


def record_of(name: str) -> RecordReader:
    return RecordReader(machine_of(name).record(), f"{name}.json")
