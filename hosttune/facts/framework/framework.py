"""What PyTorch says in the interpreter of a job: asked as its user, inside its limits
(host/processes/interpreter.py).

Its answer is a user's word: one line of JSON, whose fields are bounded and typed here. The oldest
driver of a CUDA release is that of minor-version compatibility
(docs.nvidia.com/deploy/cuda-compatibility); of GPU code, sm_80 runs on every 8.x from 8.0 on, and
compute_80 is compiled for newer ones when it is loaded (CUDA C++ Programming Guide, "Binary
Compatibility", "PTX Compatibility").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, read_at_once
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.masking.secrets import mask_text
from hosttune.values import Absent, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_MOST = 4  # interpreters that are asked: ranks of one job have the same
_TEXT = 200  # characters of a field
_WORDS = 64  # items of a list
_TIMEOUT_S = 30.0
# generation -> the compute capabilities of its GPUs whose code may be what it needs; PTX of any
# older one does, too
_CODE = {
    "maxwell": (50, 52), "pascal": (60, 61), "volta": (70,), "turing": (70, 75), "ampere": (80, 86),
    "ada": (80, 86, 89), "hopper": (90,), "blackwell": (100, 103, 120, 121),
}  # fmt: skip
# CUDA's major release -> the oldest driver branch that runs it
_OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}


@frozen
class InterpreterReport(Fact):
    """One interpreter, and what it reports; texts are empty for what it has not."""

    name: str  # of whom it is: python (4711), or its path
    problem: str  # why it was not asked, or what stopped it; else empty
    python: str  # 3.12.3
    has_torch: bool  # PyTorch can be imported in it
    torch: str  # 2.9.1+cu130
    cuda: str  # 13.0: that torch was built for
    is_rocm: bool  # its PyTorch is built for AMD GPUs
    is_available: bool  # torch.cuda.is_available()
    devices: int  # torch.cuda.device_count()
    architectures: tuple[str, ...]  # sm_90, compute_90 ...
    nccl: str  # 2.27.7

    @property
    def oldest_driver(self) -> int:
        """The oldest driver branch for the CUDA release of torch; 0 where that is not known."""
        major = re.match(r"\d+", self.cuda)
        return _OLDEST_DRIVER.get(int(major[0]), 0) if major else 0

    @property
    def generations(self) -> tuple[str, ...]:
        """The generations of GPUs that its code may run on, as far as their names tell."""
        parts = [
            match for one in self.architectures if (match := re.match(r"(sm|compute)_(\d+)", one))
        ]
        binary = {int(one[2]) for one in parts if one[1] == "sm"}
        # Without any PTX nothing is compiled for newer GPUs: no generation is as new as this
        # number.
        oldest = min((int(one[2]) for one in parts if one[1] == "compute"), default=1 << 30)
        return tuple(
            name for name, code in _CODE.items() if binary.intersection(code) or oldest <= max(code)
        )


@frozen
class Framework(Fact):
    """The interpreters that are known: of running GPU work, and those that a policy names."""

    interpreters: tuple[InterpreterReport, ...]
    # jobs that were not asked, with the reason: "python (4711) runs in a container"
    unasked: tuple[str, ...] = ()

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Framework:
        return read_at_once(cls, _read_framework, reader, facts)

    @property
    def answering(self) -> tuple[InterpreterReport, ...]:
        """Those that answered."""
        return tuple(one for one in self.interpreters if not one.problem)


def parse(output: str, name: str) -> InterpreterReport:
    """The last line that is a JSON object; whatever a start-up file printed before it is passed
    over.
    """
    # A start-up file of the user may print JSON as well, but only before the answer.
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                break
            if isinstance(answer, dict):
                return _make_report(name, answer)
    return report_silent(name, "its answer is not what was asked for")


def report_silent(name: str, problem: str) -> InterpreterReport:
    """One that did not answer."""
    return InterpreterReport(name, _clean_text(problem), "", False, "", "", False, False, 0, (), "")


def _make_report(name: str, answer: Mapping[str, Any]) -> InterpreterReport:
    devices = answer.get("devices")
    listed = answer.get("architectures")
    architectures = (
        [_clean_text(one) for one in listed[:_WORDS]] if isinstance(listed, list) else []
    )
    missing, error = _clean_text(answer.get("missing")), _clean_text(answer.get("error"))
    lacks_torch = missing == "torch"
    return InterpreterReport(
        name=name,
        problem=error
        or (f"a module of torch is missing: {missing}" if missing and not lacks_torch else ""),
        python=_clean_text(answer.get("python")),
        has_torch=bool(_clean_text(answer.get("torch"))),
        torch=_clean_text(answer.get("torch")),
        cuda=_clean_text(answer.get("cuda")),
        is_rocm=bool(_clean_text(answer.get("hip"))),
        is_available=answer.get("available") is True,
        devices=devices if isinstance(devices, int) and 0 <= devices < 1024 else 0,
        architectures=tuple(
            one for one in architectures if re.fullmatch(r"(?:sm|compute)_\d+[af]?", one)
        ),
        nccl=_clean_text(answer.get("nccl")),
    )


def _clean_text(value: object) -> str:
    """A text of a user's on one line: bounded, masked, without what is not printable."""
    spelled = value[: 4 * _TEXT] if isinstance(value, str) else ""
    return mask_text("".join(one if one.isprintable() else " " for one in spelled))[:_TEXT].strip()


def _read_framework(reader: Reader, facts: Facts) -> Framework:
    if reader.persistent_only:
        return Framework(())
    found = [
        _answer(reader.query(("python-at", path, "torch"), timeout_s=_TIMEOUT_S), path)
        for path in _find_named(facts)
    ]
    try:
        ranks = facts.jobs.pythons
    except UnknownFact:
        if not found:
            raise
        return Framework(tuple(found))
    # the first of each
    # The interpreter is asked as its user: ranks of one user have the same answer, and the first is
    # asked for all.
    of_users = {rank.user: rank for rank in reversed(ranks) if not rank.is_contained}
    chosen = sorted(of_users.values(), key=lambda one: one.pid)[:_MOST]
    unasked = [f"{rank.name} runs in a container" for rank in ranks if rank.is_contained]
    for one in chosen:
        answer = reader.query(("python-of", str(one.pid), "torch"), timeout_s=_TIMEOUT_S)
        if isinstance(answer, Unreadable):
            unasked.append(_clean_text(f"{one.name}: {answer.reason}"))
        else:
            found.append(_answer(answer, one.name))
    return Framework(tuple(found), tuple(unasked))


def _find_named(facts: Facts) -> tuple[str, ...]:
    return tuple(sorted(facts.asked.pythons))[:_MOST]


def _answer(answer: Answer[Completed], name: str) -> InterpreterReport:
    if isinstance(answer, Completed):
        if answer.status == 0:
            return parse(answer.text, name)
        lines = answer.errors.strip().splitlines() or [f"it ended with status {answer.status}"]
        return report_silent(name, lines[-1])
    return report_silent(
        name, "there is no such interpreter" if isinstance(answer, Absent) else answer.reason
    )
