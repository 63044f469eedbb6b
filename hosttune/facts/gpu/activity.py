"""What the GPUs do in a few seconds: five samples, one a second, of `nvidia-smi dmon`.

Its lines are numbers under the names of a head line, `-` for what a GPU does not tell
(nvidia-smi(1), "Device Monitoring"). `sm` is the share of the second in which some kernel ran,
which says nothing of how well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.reading import ask
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

SAMPLES = 5
ASK = ("nvidia-smi", "dmon", "-s", "pum", "-c", str(SAMPLES))
IN_USE_MIB = 500  # a context of CUDA alone takes about as much
# Five samples take five seconds. Without persistence mode nvidia-smi sets each GPU up before the
# first one, which takes seconds for each.
_TIMEOUT_S = 25.0


@frozen
class GpuActivity(Fact):
    """One GPU, in the numbering of nvidia-smi."""

    index: int  # the number that nvidia-smi gives it
    busy_percent: tuple[int, ...]  # of each second; empty where the GPU does not tell (MIG)
    power_w: tuple[int, ...]  # its draw in each sample, in watts
    memory_mib: int  # in use, the most of the samples

    @property
    def is_in_use(self) -> bool:
        """Some program holds memory of it."""
        return self.memory_mib >= IN_USE_MIB


@frozen
class Activity(Subject):
    """All GPUs, while GPU work runs; nothing is sampled on a host without any."""

    gpus: tuple[GpuActivity, ...] = read_with(lambda self: _read_gpus(self.reader, self.facts))

    @property
    def in_use(self) -> tuple[GpuActivity, ...]:
        """Those that some program holds, and that tell how busy they are."""
        return tuple(gpu for gpu in self.gpus if gpu.is_in_use and gpu.busy_percent)


def parse(output: str) -> tuple[GpuActivity, ...]:
    """The samples by GPU; lines that do not fit the head are passed over."""
    names: list[str] = []
    rows: dict[int, list[Mapping[str, str]]] = {}
    for line in output.splitlines():
        words = line.lstrip("# ").split()
        if line.startswith("#"):
            names = words if words[:1] == ["gpu"] else names
        # Cells are found by the names of the head: which columns `-s pum` prints differs between
        # branches of the driver.
        elif len(words) == len(names) and words[:1] and (index := parse_digits(words[0], -1)) >= 0:
            rows.setdefault(index, []).append(dict(zip(names, words, strict=True)))
    return tuple(
        GpuActivity(
            index,
            _read_column(cells, "sm"),
            _read_column(cells, "pwr"),
            max(_read_column(cells, "fb"), default=0),
        )
        for index, cells in sorted(rows.items())
    )


def _read_column(rows: list[Mapping[str, str]], name: str) -> tuple[int, ...]:
    found = (parse_digits(row.get(name, ""), None) for row in rows)
    return tuple(one for one in found if one is not None)


def _read_gpus(reader: Reader, facts: Facts) -> tuple[GpuActivity, ...]:
    if not facts.work.gpu_processes:
        return ()
    answer = ask(reader, ASK, timeout_s=_TIMEOUT_S)
    gpus = parse(answer.text)
    if not gpus:
        lines = (answer.errors.strip() or answer.text.strip()).splitlines() or [
            "it printed nothing"
        ]
        raise UnknownFact(f"nvidia-smi dmon: {lines[0]}")
    return gpus
