"""Who spreads interrupts over the processors: irqbalance, scripts that pin them, or the kernel alone.

Sources: irqbalance(1) and /etc/default/irqbalance of Debian and Ubuntu; the set_irq_affinity scripts of NVIDIA's
network drivers; systemd.unit(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.reading import if_absent, names_in, text
from hosttune.facts.services.unit_files import template_of
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_UNIT = "irqbalance.service"
_UNITS = "/etc/systemd/system"
_PINS = regex(r"set[_-]irq[_-]affinity\w*|mlnx_affinity|mlnx_tune|smp_affinity(?:_list)?")
_BANS = regex(
    r"^[ \t]*(?:export[ \t]+)?(?:IRQBALANCE_BANNED_CPU(?:S|LIST)=[\"']?[^\"'\s]|(?:IRQBALANCE_ARGS|OPTIONS)=.*"
    r"--(?:banirq|banmod|policyscript))", re.MULTILINE
)  # fmt: skip


@frozen
class Irq(Fact):
    """Interrupts."""

    balancer: str  # running | enabled | empty: irqbalance is not set up
    has_bans: bool  # it was told to keep off some interrupts or processors
    pinned_by: tuple[str, ...]  # files that pin interrupts at boot: units of an administrator, /etc/rc.local


def collect(reader: Reader, facts: Facts) -> Irq:
    return Irq(
        balancer=lazy(_balancer, reader, facts),
        has_bans=lazy(_has_bans, reader),
        pinned_by=lazy(_pinned_by, reader, facts),
    )


def _has_bans(reader: Reader) -> bool:
    return bool(_BANS.search(if_absent(text(reader, "/etc/default/irqbalance"), "")))


def _balancer(reader: Reader, facts: Facts) -> str:
    """A service that runs has a control group; systemd makes it at the start."""
    group = reader.stat(f"/sys/fs/cgroup/system.slice/{_UNIT}")
    return "running" if isinstance(group, Stat) else "enabled" if _UNIT in facts.units.enabled else ""


def _pinned_by(reader: Reader, facts: Facts) -> tuple[str, ...]:
    enabled = facts.units.enabled
    mine = {*enabled, *map(template_of, enabled)}
    paths = [f"{_UNITS}/{name}" for name in names_in(reader, _UNITS) if name in mine]
    return tuple(path for path in (*paths, "/etc/rc.local") if _pins(reader, path))


def _pins(reader: Reader, path: str) -> bool:
    """A unit that is masked does nothing (systemd.unit(5))."""
    content = "" if reader.link(path) == "/dev/null" else if_absent(text(reader, path), "")
    return any(_PINS.search(row) and not row.lstrip().startswith("#") for row in content.splitlines())
