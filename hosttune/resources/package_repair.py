"""A set of packages with which dpkg stopped half-way: waited for, configured, installed to the end or taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.host.door import Completed
from hosttune.resources import apt

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hosttune.host.door import Writer


def settle(writer: Writer) -> str:
    """Wait until no package manager is at work, bounded; returns what apt finds broken then.

    When apt-get was killed, its dpkg goes on; when hosttune was, both do.
    """
    return _tried(writer, apt.check(), 2 * apt.LOOK_TIMEOUT_S)


def mend(writer: Writer, names: Collection[str]) -> str:
    """Let dpkg and apt go on with what was interrupted; returns what they say of what stays broken, or nothing.

    Apt does nothing while any package is half-way, so dpkg configures all that are. What apt would then install again,
    replace or remove may be of these packages alone; anything else is left to a person.
    """
    settle(writer)
    said = _tried(writer, apt.configuration(), apt.INSTALL_TIMEOUT_S)
    answer = writer.query(apt.repair(simulate=True), timeout_s=apt.LOOK_TIMEOUT_S)
    if not isinstance(answer, Completed) or answer.status != 0:
        return said or "apt-get does not say how it would repair what is half-way"
    steps = apt.parse(apt.relevant(answer.text)).steps
    if others := [step.name for step in steps if step.name not in names]:
        return "\n".join(filter(None, (said, f"to repair it, apt would also touch {', '.join(others)}")))
    return _tried(writer, apt.repair(), apt.INSTALL_TIMEOUT_S) if steps else said


def _tried(writer: Writer, argv: Sequence[str], timeout_s: float) -> str:
    try:
        writer.run(argv, timeout_s=timeout_s)
    except HosttuneError as error:
        return error.message
    return ""
