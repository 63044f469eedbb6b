"""What `tests.benchmarks.fuzz` reads: each target is the function of hosttune that reads an input,
and genuine samples of it.

What a host answers (files, programs, processes) is taken from the cases of the rules: one answer of
one case is changed, and the rule of the case is evaluated. The other targets read a whole file.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import struct
import wave
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from hosttune.host.door import Completed, Process
from tests.benchmarks.fuzz import ROOT, Sample, Target

UNIT = ROOT / "tests" / "unit"
TODAY = "2026-11-26"
PROCESSES = ("processes",)
Place = tuple[
    int, tuple[str, ...]
]  # the number of a case, and the question whose answer is changed


def content_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def samples_in(folder: Path) -> list[Sample]:
    return [Sample(content_of(path)) for path in sorted(folder.rglob("*")) if path.is_file()]


def files_as_samples(*patterns: str) -> Callable[[int | None], list[Sample]]:
    """The files of the checkout with these names, as whole inputs."""

    def samples(most: int | None) -> list[Sample]:
        paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        return [Sample(content_of(path)) for path in paths[:most]]

    return samples


# The answers of hosts


class OneAnswer:
    """A host one of whose answers is another; a Reader."""

    def __init__(self, base: Any, question: tuple[str, ...], answer: Any) -> None:
        self._base, self._question, self._answer = base, question, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def read(self, path: str) -> Any:
        return self._answer if self._question == ("read", path) else self._base.read(path)

    def query(self, argv: Sequence[str], **more: Any) -> Any:
        return (
            self._answer if self._question == ("query", *argv) else self._base.query(argv, **more)
        )

    def processes(self) -> Any:
        return self._answer if self._question == PROCESSES else self._base.processes()


class Heard:
    """A host, and the answers that it gave: question -> bytes."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self.answers: dict[tuple[str, ...], bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def read(self, path: str) -> Any:
        answer = self._base.read(path)
        if isinstance(answer, bytes):
            self.answers["read", path] = answer
        return answer

    def query(self, argv: Sequence[str], **more: Any) -> Any:
        answer = self._base.query(argv, **more)
        if isinstance(answer, Completed):
            self.answers[("query", *argv)] = answer.stdout
        return answer

    def processes(self) -> Any:
        answer = self._base.processes()
        if isinstance(answer, tuple):
            self.answers[PROCESSES] = json.dumps([asdict(one) for one in answer]).encode()
        return answer


@cache
def case_host(number: int) -> tuple[str, Any, Any]:
    """The rule of a case, its host and its policy."""
    from tests.rules.test_cases import CASES, host_of, policy_of

    rule, case = CASES[number]
    return rule, host_of(case), policy_of(rule, case)


def judge(number: int, change: Callable[[Any], Any]) -> Any:
    """Evaluate the rule of a case on its host, changed so."""
    from hosttune.actions.examine import examine
    from hosttune.engine.rules.catalog import builtin_catalog

    _, host, policy = case_host(number)
    reader = change(host)
    examine(reader, builtin_catalog(), policy).plan(prove=False)
    return reader


@cache
def heard(number: int) -> tuple[Sample, ...]:
    """What the host of a case answers when its rule is evaluated."""
    answers = judge(number, Heard).answers
    return tuple(Sample(content, (number, question)) for question, content in answers.items())


def samples_of(wanted: Callable[[tuple[str, ...]], bool], most: int | None) -> list[Sample]:
    """The answers to the questions that are wanted, each content once for a rule. Cases that change
    such an answer come first.
    """
    from tests.rules.test_cases import CASES

    found: dict[tuple[str, tuple[str, ...], bytes], Sample] = {}
    for number in sorted(
        range(len(CASES)), key=lambda number: not any(map(wanted, questions_in(CASES[number][1])))
    ):
        if most is not None and len(found) >= most:
            break
        for one in heard(number):
            if wanted(one.place[1]):
                found.setdefault((CASES[number][0], one.place[1], one.content), one)
    return list(found.values())[:most]


def questions_in(case: Any) -> Iterator[tuple[str, ...]]:
    """The questions of which a case says the answer."""
    yield from (
        ("read", path) for path, text in (case.get("files") or {}).items() if text is not None
    )
    yield from (
        ("query", *command.split())
        for command, text in (case.get("answers") or {}).items()
        if text is not None
    )
    yield from (("query", "dmesg") for _ in (case.get("log") or ())[:1])
    yield from (("query", "nvidia-smi") for _ in list(case.get("smi") or ())[:1])
    yield from (PROCESSES for _ in (case.get("processes") or ())[:1])


def read_answer(content: bytes, place: Place) -> None:
    number, question = place
    answer: Any = content
    if question[0] == "query":
        answer = Completed(0, content, b"")
    elif question == PROCESSES:
        answer = processes_in(content)
    if answer is None:
        return
    judge(number, lambda host: OneAnswer(host, question, answer))


def processes_in(content: bytes) -> tuple[Process, ...] | None:
    """The processes of a record, when they have the types that a record has to have."""
    from hosttune.host.record.check import _is_processes
    from hosttune.host.record.record import _decode_process

    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return tuple(map(_decode_process, data)) if _is_processes(data) else None


# The first line of each answer's question that belongs to a target; the first that fits counts.
QUESTIONS = {
    "processes": r"processes",
    "kernel-log": r"query (journalctl|dmesg)\b",
    "fstab-answer": r"read /etc/fstab",
    "mountinfo": r"read /proc/(\w+/mountinfo|swaps|filesystems)|query (findmnt|lsblk|blkid|wipefs)\b",
    "units": r"read (/etc|/run|/usr/lib|/lib)/systemd/|query systemctl\b",
    "crontabs": r"read /etc/(cron|anacrontab)|read /var/spool/cron",
    "slurm": r"read \S*(slurm|cgroup|gres)\.conf|query (scontrol|squeue)\b",
    "nvidia-smi": r"query \S*nvidia-smi\b",
    "modules": r"read \S*(modprobe\.d|modules-load\.d|/etc/modules|modules\.\w+|/proc/modules)|query modinfo\b",
    "packages": r"read (/etc/apt/|/var/lib/(dpkg|apt)/)|query (apt|dpkg|ubuntu-drivers)",
    "boot": r"read (/boot/|/etc/default/|/proc/cmdline|/etc/grub)|query grub",
    "answers": r".",
}


def answers_to(name: str) -> Callable[[int | None], list[Sample]]:
    return functools.partial(samples_of, lambda question: target_of(question) == name)


@cache
def target_of(question: tuple[str, ...]) -> str:
    return next(
        name for name, pattern in QUESTIONS.items() if re.match(pattern, " ".join(question))
    )


# Whole files


def records(most: int | None) -> list[Sample]:
    from tests.hosts.built import BUILT, RECORDED

    return [Sample(path.read_bytes()) for path in [*RECORDED, *BUILT][: most or len(BUILT)]]


def read_whole_record(content: bytes, _: Any) -> None:
    """`check --host RECORD`."""
    from hosttune.actions.examine import examine
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.host.record.record import RecordReader, parse_record

    reader = RecordReader(parse_record(content, "record.json"), "record.json")
    examine(reader, builtin_catalog(), Policy(today=TODAY)).plan(prove=False)


def fstabs(most: int | None) -> list[Sample]:
    return [
        Sample(one.content)
        for one in samples_of(lambda question: question == ("read", "/etc/fstab"), most)
    ]


def read_fstab(content: bytes, _: Any) -> None:
    """`fstab FILE` and `fstab FILE --noatime all`."""
    from hosttune.facts.storage.fstab_lines import parse
    from hosttune.resources.storage.fstab_lint import lint
    from hosttune.resources.storage.fstab_plan import tune

    document = parse(content)
    lint(document)
    tune(document)


def yaml_blocks(most: int | None) -> list[Sample]:
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]
    texts = [
        text
        for page in pages
        for text in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ]
    installed = (ROOT / "playbooks/packaging/debian/policy.yaml").read_text(encoding="utf-8")
    texts.append(re.sub(r"^#(?=\S|  )", "", installed, flags=re.MULTILINE))
    return [Sample(text.encode()) for text in texts[:most]]


def read_policy(content: bytes, _: Any) -> None:
    from hosttune.engine.policy.file import build_policy
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.engine.rules.yamlio import load_document

    document = load_document(content.decode("utf-8", "surrogateescape"), "policy.yaml")
    build_policy(document, builtin_catalog(), TODAY, "node1")


def read_rule(content: bytes, _: Any) -> None:
    from hosttune.engine.rules.lint import checked_rule

    name = re.search(rb"^id: ([a-z0-9-]+)$", content, re.MULTILINE)
    checked_rule(
        content.decode("utf-8", "surrogateescape"),
        f"{name[1].decode() if name else 'site-rule'}.yaml",
    )


def read_run(content: bytes, _: Any) -> None:
    """A file of the undo journal, and what is in force by it."""
    from hosttune.actions.journal.journal import read_journal
    from tests.unit.fake_reader import FakeReader

    journal = read_journal(
        FakeReader({"/var/lib/hosttune/runs/20261121-080000-0001.jsonl": content})
    )  # type: ignore[arg-type]
    journal.ledger()
    journal.came_back()


def read_result(content: bytes, _: Any) -> None:
    """`report FILE`."""
    from hosttune.actions.fleet import Ask, survey_hosts
    from hosttune.views.document import Document  # noqa: F401 - what a report needs besides is loaded before the limits count

    Path("result.json").write_bytes(content)
    survey_hosts(["result.json"], Ask(debug=True), names=10, jobs=1, progress=lambda *_: None)


def read_recording(content: bytes, _: Any) -> None:
    """`watch --replay FILE`."""
    from hosttune.measure.watch.session import WatchOptions, watch_record

    Path("watch.jsonl").write_bytes(content)
    watch_record("watch.jsonl", WatchOptions())


def read_trace(content: bytes, _: Any) -> None:
    """What `nvidia-smi` prints while `watch` runs."""
    from hosttune.measure.gpu.smi_rows import SmiTable, instances_in, pids_in

    text = content.decode("utf-8", "replace")
    table = SmiTable()
    for line in text.splitlines():
        table.feed(line)
    pids_in(text)
    instances_in(text)


TRACE = b"""index, uuid, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], mig.mode.current
0, GPU-8a1c0f4e-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, 97, 40000, 81559, 612.34, Disabled
1, GPU-8a1c0f4e-0000-0000-0000-000000000001, NVIDIA H100 80GB HBM3, 00000000:43:00.0, [N/A], 1, 81559, [N/A], Enabled
GPU-8a1c0f4e-0000-0000-0000-000000000000, 4711
Unable to determine the device handle for GPU0000:43:00.0: GPU is lost.  Reboot the system to recover this GPU
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8a1c0f4e-0000-0000-0000-000000000000)
  MIG 1g.10gb     Device  0: (UUID: MIG-8a1c0f4e-0000-0000-0000-000000000001)
"""


def traces(most: int | None) -> list[Sample]:
    return [Sample(TRACE), *answers_to("nvidia-smi")(most)][:most]


def headers(most: int | None) -> list[Sample]:
    from tests.unit import test_dataset_headers as cases

    sound, archive = BytesIO(), BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"\0" * 640)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.npy", cases.npy())
    record = b"\x0a\x05hello"
    found = [one[0] for one in cases.CASES.values()] + [
        sound.getvalue(),
        archive.getvalue(),
        cases.npy(),
        cases.npz("a", "b"),
    ]
    found += [
        cases.shard(("a.jpg", cases.jpeg(5, 5)), ("a.cls", b"1"), ("b.npy", cases.npy())),
        b"BM" + bytes(60),
    ]
    found += [struct.pack("<QI", len(record), 0) + record + b"\0\0\0\0"]
    found += [content_of(path)[:20000] for path in sorted((UNIT / "dataset_files").glob("*.gz"))]
    return [Sample(content) for content in found[:most]]


def read_headers(content: bytes, _: Any) -> None:
    from hosttune.measure.dataset.header import Source, read_header

    for size in (len(content), 1 << 40):
        read_header(
            Source(
                size, functools.partial(_zeros_behind, content, size), is_whole=size == len(content)
            )
        )


def _zeros_behind(content: bytes, size: int, offset: int, length: int) -> bytes:
    length = min(length, max(0, size - offset))
    return content[offset : offset + length].ljust(length, b"\0")


REQUESTS = (
    {
        "command": "check",
        "look": {"policy": "p.yaml", "select": ["storage-noatime"]},
        "strict": True,
    },
    {"command": "plan", "look": {"profile": "base"}, "out": "plan.json"},
    {
        "command": "apply",
        "look": {"ignore": ["gpu-driver"]},
        "yes": True,
        "expect": "0" * 64,
        "confirm_within": "15m",
    },
    {"command": "undo", "look": {}, "run": "20261121-080000-0001", "yes": False},
    {"command": "confirm", "run": "20261121-080000-0001"},
    {"command": "trial", "look": {}},
    {"command": "history"},
    {"command": "record", "file": "-", "share": True},
)


def requests(most: int | None) -> list[Sample]:
    return [Sample(json.dumps(one).encode()) for one in REQUESTS[:most]]


def read_request(content: bytes, _: Any) -> None:
    """A request of Ansible's (`--serve`), up to the command, which does nothing here."""
    from importlib import import_module

    from hosttune.cli.served import COMMANDS, _run

    try:
        request = json.loads(content)
    except (ValueError, RecursionError):
        return
    for name in COMMANDS:
        module = import_module(f"hosttune.cli.{name}")
        if not hasattr(getattr(module, name), "__wrapped__"):
            setattr(module, name, functools.wraps(getattr(module, name))(lambda **_: 0))
    _run(request)


def commands(most: int | None) -> list[Sample]:
    lines = (
        "python train.py --wandb-key=abc --batch 5", "mysqldump -psecret db", "curl -u user:secret https://host/x", "sshpass -p x ssh host",
        "slurmstepd: [4711.0]", "env AWS_SECRET_ACCESS_KEY=x torchrun --nproc 8 train.py", "username=u%secret,vers=3.0", "Environment=TOKEN=x",
    )  # fmt: skip
    return [Sample(line.replace(" ", "\0").encode()) for line in lines[:most]]


def read_command(content: bytes, _: Any) -> None:
    """The words of a process, as they go into a record that is shared."""
    from hosttune.host.masking.redact import Redactor
    from hosttune.host.masking.secrets import mask_command
    from hosttune.host.processes.proc_fields import command_words, full_name

    words = tuple(command_words(content.decode("utf-8", "surrogateescape")))
    full_name(words[0][:15] if words else "", list(words))
    redactor = Redactor({"node1": "host1"}, share=True)
    for word in (*mask_command(words), content.decode("utf-8", "replace")):
        redactor.text(word)


STAT = (
    b"4711 (a (b) c) S 1 4711 4711 0 -1 4194560 10 20 0 0 5 6 7 8 20 0 1 0 12345 1000000 250 18446744073709551615 "
    + b"0 " * 27
)
PROC = {
    "stat": STAT,
    "status": b"Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nVmSwap:\t  10 kB\nCpus_allowed_list:\t0-3,8\n",
    "statm": b"100 50 20 1 0 30 0\n",
    "cmdline": b"python\0train.py\0",
    "io": b"rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n",
    "schedstat": b"1 2 3\n",
    "pressure": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "cgroup": b"0::/user.slice/user-1000.slice/session-3.scope\n1:name=systemd:/a\n",
    "cpu": b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
    "diskstats": b" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
    "cpus": b"0-3,8,10-11\n",
}


def proc_files(most: int | None) -> list[Sample]:
    return [Sample(content, name) for name, content in [*PROC.items()][:most]]


def read_proc(content: bytes, name: str) -> None:
    """A file below /proc/PID, of which a process chooses much (name, command line, control
    group).
    """
    from hosttune.host.processes.proc_fields import fields_by_hand
    from hosttune.measure.watch import group, limits, parse

    folder = Path("proc/4711")
    folder.mkdir(parents=True, exist_ok=True)
    for one in ("stat", "status", "statm", "cmdline"):
        (folder / one).write_bytes(content if one == name else PROC[one])
    Path("proc/stat").write_bytes(b"btime 1780000000\n")
    list(fields_by_hand("proc"))
    parse.process_stat(content)
    parse.process_io(content)
    parse.run_delay(content)
    parse.pressure_totals(content)
    parse.cpu_times(content)
    parse.host_times(content, frozenset({0}))
    parse.disk_counters(content, frozenset({b"nvme0n1"}))
    limits.parse_numbers(content)
    limits.cpu_folders(content)
    group.folder_of(content, b"29 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")


def _of_questions() -> Iterator[Target]:
    for name in QUESTIONS:
        yield Target(name, answers_to(name), read_answer)


TARGETS: dict[str, Target] = {
    one.name: one
    for one in (
        *_of_questions(),
        Target("fstab", fstabs, read_fstab),
        Target("record", records, read_whole_record, has_growth=False),
        Target("policy", yaml_blocks, read_policy),
        Target("rule", files_as_samples("hosttune/rules/*/*.yaml"), read_rule),
        Target("journal", files_as_samples("tests/unit/released/*/runs/*.jsonl"), read_run),
        Target("result", files_as_samples("tests/unit/released/*/*.json"), read_result),
        Target("watch-record", files_as_samples("tests/unit/watch_ticks/*.jsonl"), read_recording),
        Target("smi-trace", traces, read_trace),
        Target("dataset", headers, read_headers),
        Target("request", requests, read_request),
        Target("command", commands, read_command),
        Target("proc", proc_files, read_proc),
    )
}
