"""What is known of a driver branch: its kind, its end, and whether it drives the GPUs here.

What nvidia-smi shows as working works. Then Ubuntu's packages have the word
(facts/gpu/packaging.py), then the tables; what none of them tells is not known, and no one's driver
is called wrong for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import read_or_default

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu

_KINDS = {"LTSB": "lts", "PB": "production", "NFB": "new"}
WORDS = {
    "lts": "long-term",
    "production": "production",
    "new": "new-feature",
    "": "of a kind that is not known",
}


def kind_of(facts: Facts, number: int) -> str:
    """lts, production or new; empty where no one tells. Ubuntu may call one flavour of a branch
    otherwise: the kind that is supported longest counts.
    """
    kinds = {_KINDS.get(one.support, "") for one in facts.packaging.of(number)}
    return next(
        (kind for kind in _KINDS.values() if kind in kinds), facts.branches.branch(number).kind
    )


def is_over(facts: Facts, number: int) -> bool:
    """NVIDIA's support has ended, as far as that is known."""
    return bool(why_over(facts, number))


def _step(facts: Facts, number: int) -> str:
    """The branch that Ubuntu has put in the place of one that is newer than the tables; empty for
    one that is there.
    """
    packaging = facts.packaging
    if number in facts.branches.rows or packaging.of(number):
        return ""
    steps = [
        one.leads_to for one in packaging.packages.values() if one.branch == number and one.leads_to
    ]
    others = [one for one in steps if f"-{number}" not in one]
    return others[0] if steps and len(others) == len(steps) else ""


def why_over(facts: Facts, number: int) -> str:
    """That its support has ended, as a sentence with who says so; empty where it has not, or no one
    knows.
    """
    table = facts.branches
    row = table.branch(number)
    if row.is_over(table.month(facts.reader.now())):
        when = f"in {row.ends}" if row.ends else f"it is not in the matrix of {table.as_of}"
        return f"NVIDIA's support of branch {number} has ended ({when})"
    if number not in table.rows and {one.support for one in facts.packaging.of(number)} == {
        "Legacy"
    }:
        return f"Ubuntu's packages call branch {number} a legacy one"
    if step := _step(facts, number):
        return f"Ubuntu has replaced branch {number}: its packages are empty steps to {step}"
    return ""


def describe_support_end(facts: Facts, number: int) -> str:
    """How long it is supported, as words behind its name: supported until 2028-06."""
    row = facts.branches.branch(number)
    if row.ends:
        return f"supported until {row.ends}" + (f", as {row.of} says" if row.of else "")
    who = "Ubuntu's archive calls it so, and " if facts.packaging.of(number) else ""
    return f"{who}its end is not in hosttune's table of {facts.branches.as_of}"


def describe_last(facts: Facts) -> str:
    """That no later branch drives a GPU of this host, as a sentence; empty if one does, or if it is
    not known.
    """
    rows = sorted(
        (row for row in facts.branches.rows.values() if row.first and row.last),
        key=lambda row: row.number,
    )
    for generation in facts.gpus.generations:
        driving = [row for row in rows if row.drives(generation)]
        if driving and driving[-1] is not rows[-1] and not is_over(facts, driving[-1].number):
            until = f", supported until {driving[-1].ends}" if driving[-1].ends else ""
            return (
                f"branch {driving[-1].number} is the last one that drives "
                f"{generation.capitalize()} GPUs{until}"
            )
    return ""


def end_words(facts: Facts, number: int) -> str:
    """The kind and end of a branch in brackets: long-term, supported until 2028-06; or ended
    2027-03.
    """
    row = facts.branches.branch(number)
    kind = WORDS[kind] if (kind := kind_of(facts, number)) else ""
    if is_over(facts, number):
        return ", ".join(part for part in (kind, f"ended {row.ends}".strip()) if part)
    return ", ".join(
        part
        for part in (kind, f"supported until {row.ends}" if row.ends else "end not known")
        if part
    )


def supported_branches(facts: Facts, installed: int = 0) -> list[int]:
    """The long-term and production branches that are supported and drive all GPUs, and the
    installed one if it is supported and drives them; the oldest first.
    """
    month = facts.branches.month(facts.reader.now())
    return sorted(
        number
        for number, row in facts.branches.rows.items()
        if not row.is_over(month)
        and (number == installed or row.kind in ("lts", "production"))
        and all(row.drives(generation) for generation in facts.gpus.generations)
    )


def left_behind(facts: Facts) -> tuple[str, ...]:
    """The generations here that no supported branch drives, as Kepler since 470 has ended; none by
    an old table. What a branch has dropped no later one takes up again, whatever is not known of
    it.
    """
    month = facts.branches.month(facts.reader.now())
    rows = [one for one in facts.branches.rows.values() if one.first and not one.is_over(month)]
    if not rows or month > facts.branches.good_until:
        return ()
    return tuple(
        one for one in facts.gpus.generations if all(row.drives(one) is False for row in rows)
    )


def stale_note(facts: Facts) -> str:
    """A sentence where the package's table is past its date and apt's lists do not tell either;
    else empty.
    """
    table = facts.branches
    if table.month(facts.reader.now()) <= table.good_until or facts.packaging.packages:
        return ""
    return f"hosttune's table of branches is of {table.as_of}: a newer hosttune may know more"


def works_with_gpu(facts: Facts, gpu: Gpu) -> bool:
    """nvidia-smi shows it."""
    return read_or_default(
        lambda: any(one.slot == gpu.slot for one in facts.nvidia.gpus), otherwise=False
    )


def drives_gpu(facts: Facts, number: int, gpu: Gpu, name: str = "") -> bool | None:
    """Whether a branch, or one package of it, drives a GPU; None where that is not known. The plain
    package drives what GIVEN gives it, as for ubuntu-drivers.
    """
    if is_given(facts, number, gpu) and name in ("", f"nvidia-driver-{number}"):
        return True
    packages = [one for one in facts.packaging.of(number) if name in ("", one.name)]
    if packages:
        return any(gpu.slot in one.drives for one in packages)
    return facts.branches.branch(number).drives(gpu.generation)


def is_given(facts: Facts, number: int, gpu: Gpu) -> bool:
    return facts.branches.given.get(gpu.device_id) == number


def not_driven(facts: Facts) -> tuple[str, ...]:
    """The generations (a GPU of none that is known by its name) that the installed branch does not
    drive, each once.
    """
    return _left_by(
        facts,
        int(facts.driver.branch),
        [gpu for gpu in facts.gpus.ours if not works_with_gpu(facts, gpu)],
    )


def describe_not_driven(facts: Facts, number: int) -> str:
    """Which GPUs here a branch does not drive, as a sentence; empty where it drives all, or that is
    not known.
    """
    left = _left_by(facts, number, facts.gpus.ours)
    return (
        f"branch {number} does not drive {', '.join(left)}, and these GPUs would stop working"
        if left
        else ""
    )


def _left_by(facts: Facts, number: int, gpus: Iterable[Gpu]) -> tuple[str, ...]:
    left = [gpu for gpu in gpus if drives_gpu(facts, number, gpu) is False]
    return tuple(
        dict.fromkeys(gpu.title if gpu.generation == "unknown" else gpu.generation for gpu in left)
    )
