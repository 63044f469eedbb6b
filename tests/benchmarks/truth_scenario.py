"""A job whose limit is known, as `watch_truth.py` and `watch_unseen.py` describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JOB = str(ROOT / "tests/benchmarks/truth_job.py")
BESIDE = str(ROOT / "tests/benchmarks/truth_beside.py")


@dataclass(frozen=True)
class Scenario:
    """`truth` are the answers that are right. `job` are words, in which {seconds}, {data} (a folder
    on a slow device), {dir} (a folder), {port} and {job} are filled in; a mapping is what
    truth_job.py does. `beside` start before it. `limits` are files of control groups of version 1:
    `cpu` CPUs, `memory` MiB, `read` and `write` bytes a second, `shares`, `cpuset`. A light one
    needs next to no CPU time, and runs beside others. `scope` are properties of the control group
    of version 2 that systemd makes for it: that takes a guest, where {data} is on /dev/vdb, and
    {quick} and {dir} on its root disk.
    """

    truth: str  # parted by |
    job: tuple[str, ...] | Mapping[str, Any]
    beside: tuple[tuple[str, ...], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    gpu: str = ""  # UTIL POWER_W of a trace
    is_light: bool = False
    has_group: bool = False  # a control group of version 2 of its own
    scope: tuple[str, ...] = ()
    is_in_guest: bool = False
    user: str = ""  # who runs it in the guest

    @property
    def has_others(self) -> bool:
        """Others that compute belong to it."""
        return "FOREIGN" in self.truth

    @property
    def truths(self) -> tuple[str, ...]:
        return tuple(self.truth.split("|"))


def sh(line: str) -> tuple[str, ...]:
    return ("sh", "-c", line)


def until(body: str) -> tuple[str, ...]:
    """A shell that repeats this for {seconds}."""
    return (
        "bash",
        "-c",
        f"end=$((SECONDS + {{seconds}})); while [ $SECONDS -lt $end ]; do {body}; done",
    )


def steps(*what: list, **more: Any) -> Mapping[str, Any]:
    return {"steps": list(what), **more}


def stem(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def filled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        text = value.format_map(words)
        return int(text) if text.isdigit() else text
    if isinstance(value, Mapping):
        return {key: filled(item, words) if key != "how" else item for key, item in value.items()}
    return [filled(item, words) for item in value] if isinstance(value, list) else value
