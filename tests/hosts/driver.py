"""What the programs around an NVIDIA driver answer on a described machine: modinfo, nvidia-smi, the
kernel log, apt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.archives import POLICY
from hosttune.facts.gpu.driver_modules import make_modinfo
from hosttune.facts.gpu.gpu_memory import QUERY as MEMORY
from hosttune.facts.gpu.health_smi import (
    DETAILS,
    FABRIC_STATE,
    FIELDS,
    INFOROM,
    QUERIES,
    REMAPPED,
    REMAPPED_FIELDS,
    SRAM_OVER,
    query_of,
    questions_for,
)
from hosttune.facts.gpu.nvidia_smi import QUERY
from hosttune.facts.gpu.nvlink import STATUS as NVLINK
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL, reverse_log
from hosttune.host.door import BeforeReader, Completed
from hosttune.host.record.record import RecordingReader, RecordReader

if TYPE_CHECKING:
    from tests.hosts.machine import GpuSpec

NAMES = {
    "0x2330": "NVIDIA H100 80GB HBM3", "0x2342": "NVIDIA GH200 480GB", "0x20b2": "NVIDIA A100-SXM4-80GB",
    "0x2684": "NVIDIA GeForce RTX 4090", "0x2860": "NVIDIA GeForce RTX 4070 Laptop GPU", "0x27b8": "NVIDIA L4",
    "0x2335": "NVIDIA H200",
}  # fmt: skip
LOGS = (JOURNAL, DMESG)
PREBUILT = re.compile(r"linux-modules-nvidia-\d+(?:-server)?(?:-open)?(?=-)")
HEAD = "Linux version 6.8.0-60-generic (buildd@lcy02-amd64-109) #63-Ubuntu SMP PREEMPT_DYNAMIC\n"
ARCHIVE = "http://archive.ubuntu.com/ubuntu noble-updates/restricted amd64 Packages"
ARCHIVES = f"""Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 {ARCHIVE}
     release v=24.04,o=Ubuntu,a=noble-updates,n=noble,l=Ubuntu,c=restricted,b=amd64
     origin archive.ubuntu.com
Pinned packages:
"""


def loaded(
    gpus: Sequence[GpuSpec], version: str, kernel: str, arch: str = "x86_64"
) -> dict[tuple[str, ...], str | None]:
    """The answers of a host whose open driver works, and is in its kernel's folder."""
    rows = "".join(
        f"0000{gpu.slot.upper()}, {version}, Disabled, {NAMES[gpu.device]}\n"
        for gpu in gpus
        if gpu.device in NAMES
    )
    log = f"{HEAD}NVRM: loading NVIDIA UNIX Open Kernel Module for {arch}  {version}  Release Build  (dvs)\n"
    shown = f"filename:       /lib/modules/{kernel}/kernel/nvidia-580srv-open/nvidia.ko.zst\nversion:        {version}\n"
    known = [gpu for gpu in gpus if gpu.device in NAMES]
    slots = [f"0000{gpu.slot.upper()}" for gpu in known]
    questions = questions_for(version)[:2]  # a test may put an older driver there
    return {
        make_modinfo(kernel): f"{shown}license:        Dual MIT/GPL\n", QUERY: rows, JOURNAL: log, DMESG: log,
        **{query_of(fields): "".join(smi_row(fields, slot) for slot in slots) for fields in questions},
        REMAPPED: "".join(smi_row(REMAPPED_FIELDS, slot) for slot in slots), NVLINK: links_of(gpus),
        MEMORY: "".join(memory_of(gpu.device, slot) for gpu, slot in zip(known, slots, strict=True)),
    }  # fmt: skip


# Memory and BAR1 of each model as `nvidia-smi -q -d MEMORY` prints them.
SIZES = {
    "0x2330": ("81559 MiB", "131072 MiB"), "0x2342": ("97871 MiB", "N/A"), "0x20b2": ("81920 MiB", "131072 MiB"),
    "0x2684": ("24564 MiB", "256 MiB"), "0x2860": ("8188 MiB", "8192 MiB"), "0x27b8": ("23034 MiB", "32768 MiB"),
    "0x2335": ("143771 MiB", "262144 MiB"),
}  # fmt: skip


def memory_of(device: str, slot: str) -> str:
    """What `nvidia-smi -q -d MEMORY` prints of a GPU (0000001B:00:00.0 style)."""
    sections = zip(("FB", "BAR1"), SIZES.get(device, ("16384 MiB", "256 MiB")), strict=True)
    return f"GPU {slot}\n" + "".join(
        f"    {name} Memory Usage\n        Total{'':29}: {size}\n        Used{'':30}: 0 MiB\n"
        for name, size in sections
    )


# What a sound data-centre GPU at rest says of the fields of facts/gpu/health_smi.py; what is not
# here is 0.
SOUND = {
    "temperature.gpu": "31", "memory.used": "1", "power.draw": "71.52", "power.limit": "700.00",
    "power.default_limit": "700.00", "power.min_limit": "200.00", "power.max_limit": "700.00", "clocks.sm": "345",
    "clocks.max.sm": "1980", "ecc.mode.current": "Enabled", "ecc.mode.pending": "Enabled",
    "retired_pages.pending": "[N/A]", "mig.mode.current": "Disabled", "mig.mode.pending": "Disabled",
    "compute_mode": "Default", "clocks_event_reasons.active": "0x0000000000000001", "gpu_recovery_action": "None",
    "remapped_rows.pending": "No", "remapped_rows.failure": "No", SRAM_OVER: "No", INFOROM: "valid",
    FABRIC_STATE: "Completed", "fabric.status": "Success",
    **{name: "N/A" for name in DETAILS if name.startswith("fabric.health.")},
}  # fmt: skip


def smi_row(fields: Sequence[str], slot: str, **said: str) -> str:
    """One row of nvidia-smi for a GPU (0000001B:00:00.0 style); `said` replaces values, with _ for
    each dot.
    """
    other = {name.replace(".", "_"): name for name in fields}
    values = {**SOUND, **{other[key]: value for key, value in said.items()}}
    return ", ".join([slot, *(values.get(name, "0") for name in fields[1:])]) + "\n"


# Links that are up, and GB/s of each, of the models that have some without a bridge.
NVLINKS = {"0x2330": (18, "26.562"), "0x20b2": (12, "25")}


def links_of(gpus: Sequence[GpuSpec]) -> str:
    """What `nvidia-smi nvlink -s` prints of sound GPUs."""
    said = ""
    for number, gpu in enumerate(one for one in gpus if one.device in NAMES):
        count, speed = NVLINKS.get(gpu.device, (0, ""))
        said += (
            f"GPU {number}: {NAMES[gpu.device]} (UUID: GPU-00000000-0000-0000-0000-{number:012d})\n"
        )
        said += "".join(f"\t Link {link}: {speed} GB/s\n" for link in range(count))
        said += "" if count else "Device does not have or support Nvlink\n"
    return said


def not_loaded(log: str = "") -> dict[tuple[str, ...], str | None]:
    """The answers of a host without a driver."""
    return dict.fromkeys(LOGS, HEAD + log)


def saying(
    record: RecordReader,
    smi: Mapping[str, Mapping[str, str] | str | None],
    log: Sequence[str] | None,
) -> RecordReader:
    """A record whose GPUs (by slot) say something else, and whose kernel log has more lines. One
    that is None is in no answer of nvidia-smi, and a text stands in the place of every value of its
    GPU. Without a log no program shows it.
    """
    if log is None:
        kept = [one for one in record.data["queries"] if tuple(one["argv"]) not in LOGS]
        gone = [{"argv": list(argv), "absent": True} for argv in LOGS]
        record, log = RecordReader({**record.data, "queries": [*kept, *gone]}, record.file), ()
    if not smi and not log:
        return record
    slots = [gpu.slot for gpu in Facts(record).health.gpus if smi.get(gpu.slot, "") is not None]
    broken = {slot: word for slot, word in smi.items() if isinstance(word, str)}
    told: dict[tuple[str, ...], str] = {}
    for query, fields in (*zip(QUERIES, FIELDS, strict=True), (REMAPPED, REMAPPED_FIELDS)):
        known = {name.replace(".", "_") for name in fields}
        told[query] = "".join(
            ", ".join([f"0000{slot.upper()}", *[broken[slot]] * (len(fields) - 1)]) + "\n"
            if slot in broken
            else smi_row(
                fields,
                f"0000{slot.upper()}",
                **{k: v for k, v in (smi.get(slot) or {}).items() if k in known},
            )  # type: ignore[union-attr]
            for slot in slots
        )
    if None in smi.values() or broken:
        rows = next(
            one["stdout"] for one in record.data["queries"] if tuple(one["argv"]) == QUERY
        ).splitlines()
        kept = {
            f"0000{slot.upper()}": ", ".join([broken[slot]] * 3) if slot in broken else ""
            for slot in slots
        }
        shown = ((row, *row.split(", ", 1)) for row in rows)
        told[QUERY] = "".join(
            f"{slot}, {kept[slot] or rest}\n" for _, slot, rest in shown if slot in kept
        )
    lines = HEAD + "".join(f"{line}\n" for line in log)
    told |= {JOURNAL: reverse_log(lines), DMESG: lines}
    kept = [one for one in record.data["queries"] if tuple(one["argv"]) not in told]
    more = [
        {"argv": list(argv), "status": 0, "stdout": text, "stderr": ""}
        for argv, text in told.items()
    ]
    return RecordReader({**record.data, "queries": [*kept, *more]}, record.file)


class Apt(BeforeReader):
    """A record in front of which `apt-cache policy` answers; what was asked and said is kept."""

    def __init__(self, record: RecordReader, versions: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(record)
        self.versions = versions  # package -> (installed or empty, candidate)
        self.said: dict[tuple[str, ...], str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Any:
        words = tuple(argv)
        if words[:2] != POLICY:
            return self.base.query(argv, timeout_s=timeout_s)
        text = "".join(map(self._policy, words[2:])) if words[2:] else ARCHIVES
        self.said[words] = text
        return Completed(0, text.encode(), b"")

    def _policy(self, name: str) -> str:
        if name not in self.versions and not self._is_of_kernel(name):
            return ""
        installed, candidate = self.versions.get(name, ("", "6.8.0-71.71"))
        lines = [
            f"{name}:",
            f"  Installed: {installed or '(none)'}",
            f"  Candidate: {candidate}",
            "  Version table:",
        ]
        for version in dict.fromkeys((candidate, installed)):
            if version:
                lines += [
                    f" {'***' if version == installed else '   '} {version} 500",
                    f"        500 {ARCHIVE}",
                ]
                lines += ["        100 /var/lib/dpkg/status"] if version == installed else []
        return "\n".join(lines) + "\n"

    def _is_of_kernel(self, name: str) -> bool:
        """The archive has the headers of each kernel, and the modules of a driver that it has
        prebuilt for one.
        """
        prebuilt = {match[0] for one in self.versions if (match := PREBUILT.match(one))}
        match = PREBUILT.match(name)
        return name.startswith("linux-headers-") or (match is not None and match[0] in prebuilt)


def apt_answers(
    record: dict[str, Any], versions: Mapping[str, tuple[str, str]]
) -> dict[tuple[str, ...], str]:
    """What facts ask of `apt-cache policy` on this record, and what it says."""
    apt = Apt(RecordReader(record), versions)
    facts = Facts(RecordingReader(apt))  # type: ignore[arg-type]
    for subject in (facts.archives, facts.offers):
        try:
            _ = subject.packages  # type: ignore[attr-defined]
        except UnknownFact:
            continue
    return apt.said
