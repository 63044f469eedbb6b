"""The holes of the processors, and what is done about them.

Sources: kernel, Documentation/admin-guide/hw-vuln/ and
Documentation/ABI/testing/sysfs-devices-system-cpu (vulnerabilities/*, smt/active);
kernel-parameters.txt for the arguments that switch mitigations off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.kernel.kernel import of_kernel
from hosttune.facts.reading import names_in, read_line, require_known
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_FOLDER = "/sys/devices/system/cpu/vulnerabilities"
_SMT = "/sys/devices/system/cpu/smt/active"
_OFF = regex(
    r"mitigations=off(,.*)?|nopti|pti=off|nospectre_v[12]|nospectre_bhb|nospec_store_bypass_disable"
    r"|(spectre_v2|spectre_v2_user|spectre_bhi|spec_store_bypass_disable|spec_rstack_overflow"
    r"|retbleed|l1tf|mds|srbds"
    r"|tsx_async_abort|mmio_stale_data|gather_data_sampling|reg_file_data_sampling"
    r"|indirect_target_selection|tsa|vmscape"
    r"|attack_vector|kpti|ssbd)=(off|force-off|0)"
)


@frozen
class Vulnerability(Fact):
    """One hole, in the words of the kernel."""

    name: str  # meltdown, spectre_v2, gather_data_sampling ...
    status: str  # Not affected, Mitigation: ..., Vulnerable ...


@frozen
class Vulnerabilities(Subject):
    """All holes that the running kernel knows; none before Linux 4.15."""

    all: tuple[Vulnerability, ...] = read_with(lambda self: _read_all(self.reader))  # by name

    @fact
    def switched_off(self) -> tuple[str, ...]:
        """Kernel arguments that leave holes open."""
        # Whole words only: `mitigations=auto,nosmt` begins alike and switches mitigations on.
        words = of_kernel(self.facts.kernel.command_line)
        return tuple(word for word in words if _OFF.fullmatch(word))

    # cores run two threads or more; false where the kernel cannot tell
    is_smt_on: bool = read_with(lambda self: read_line(self.reader, _SMT) == "1")

    @property
    def open(self) -> tuple[str, ...]:
        """The names of those against which nothing helps now."""
        return tuple(
            one.name
            for one in self.all
            # A status can begin with "Mitigation" and end with one part that stays open (`KVM:
            # Vulnerable`). Only `SMT vulnerable`, behind a semicolon, has a field of its own.
            if re.search(r"(^|: )(Processor )?[Vv]ulnerable", one.status)
        )

    @property
    def open_between_threads(self) -> tuple[str, ...]:
        """The names of those that are closed but for the other thread of the same core."""
        return tuple(
            one.name
            for one in self.all
            if "SMT vulnerable" in one.status and one.name not in self.open
        )


def _read_all(reader: Reader) -> tuple[Vulnerability, ...]:
    return tuple(
        Vulnerability(name, lazy(_read_status, reader, name)) for name in names_in(reader, _FOLDER)
    )


def _read_status(reader: Reader, name: str) -> str:
    return require_known(read_line(reader, f"{_FOLDER}/{name}"), f"{_FOLDER}/{name}")
