"""A set of packages with which dpkg stopped half-way: waited for, configured, installed to the end
or taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed
from hosttune.resources.packages.kept_debs import spell_operand

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hosttune.host.door import Writer


def settle(writer: Writer) -> str:
    """Wait until no package manager is at work, bounded; returns what apt finds broken then. Raises
    Refused where one still is: what it will have done is not known.

    When apt-get was killed, its dpkg goes on; when hosttune was, both do.
    """
    error = try_running(writer, apt.check(), 2 * apt.LOOK_TIMEOUT_S)
    if apt.is_locked(error):
        raise Refused(
            f"another package manager is still at work: {error}",
            hint="when it has ended, run it again",
        )
    return error


def mend(writer: Writer, names: Collection[str]) -> str:
    """Let dpkg and apt go on with what was interrupted; returns what they say of what stays broken,
    or nothing.

    Apt does nothing while any package is half-way, so dpkg configures all that are. What apt would
    then install again, replace or remove may be of these packages alone; anything else is left to a
    person. Raises as `settle`.
    """
    settle(writer)
    error = _repair_packages(
        writer, names, try_running(writer, apt.make_configuration(), apt.INSTALL_TIMEOUT_S)
    )
    again = _to_reinstall(writer, names)
    return _repair_packages(writer, names, error, again) if again else error


def _repair_packages(
    writer: Writer, names: Collection[str], error: str, again: Sequence[str] = ()
) -> str:
    """Let apt-get do what it would do about it, where that is of these packages alone; `error` is
    what is known so far of what stays broken.
    """
    answer = writer.query(apt.repair(again, simulate=True), timeout_s=apt.LOOK_TIMEOUT_S)
    if not isinstance(answer, Completed) or answer.status != 0:
        return error or "apt-get does not say how it would repair what is half-way"
    steps = apt.parse(apt.find_relevant_lines(answer.text)).steps
    # `apt-get -f install` may remove the driver to make packages whole. What was not in the plan is
    # not touched without a person.
    if others := [step.name for step in steps if step.name not in names]:
        return "\n".join(
            filter(None, (error, f"to repair it, apt would also touch {', '.join(others)}"))
        )
    return try_running(writer, apt.repair(again), apt.INSTALL_TIMEOUT_S) if steps else error


def _to_reinstall(writer: Writer, names: Collection[str]) -> tuple[str, ...]:
    """The operands of those that dpkg wants installed again, in the version in which they were
    being installed.
    """
    try:
        found = [
            one for one in Facts(writer).packages.to_reinstall if one.name in names and one.version
        ]
    except UnknownFact:
        return ()
    return tuple(spell_operand(writer, one.name, one.version) for one in found)


def try_running(writer: Writer, argv: Sequence[str], timeout_s: float) -> str:
    """Run it; returns what went wrong."""
    try:
        writer.run(argv, timeout_s=timeout_s)
    except HosttuneError as error:
        return error.message
    return ""
