"""What the machine is there for, as far as files tell: a screen that somebody sits at, network cards that do RDMA.

Sources: systemd.special(7) (display-manager.service, which the installed display manager links to itself),
sysfs-class-infiniband (kernel: Documentation/ABI/stable; one folder per RDMA device, EFA included).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hosttune.facts.base import Fact, unread
from hosttune.frozen import frozen
from hosttune.values import Absent, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

DISPLAY_MANAGER = "/etc/systemd/system/display-manager.service"
DEFAULT_TARGET = "/etc/systemd/system/default.target"
RDMA = "/sys/class/infiniband"

T = TypeVar("T")


@frozen
class Role(Fact):
    """Signs of what the machine is used for."""

    display_manager: str  # gdm3.service, sddm.service ...; empty where none starts with the machine
    rdma_devices: tuple[str, ...]  # mlx5_0, rdmap0s6 (EFA) ...


def collect(reader: Reader, facts: Facts) -> Role:  # noqa: ARG001 - the interface of all subjects
    return Role(_display_manager(reader), _or_empty(reader.list(RDMA), (), sorted))


def _display_manager(reader: Reader) -> Any:
    target = reader.link(DEFAULT_TARGET)
    if isinstance(target, str) and target.endswith("/multi-user.target"):
        return ""  # whatever is installed, the machine starts without it
    return _or_empty(reader.link(DISPLAY_MANAGER), "", _name_of)


def _name_of(link: str) -> str:
    return "" if link == "/dev/null" else link.rpartition("/")[2]


def _or_empty(answer: Answer[T], empty: Any, function: Callable[[T], Any]) -> Any:
    """The field of a thing that need not be there."""
    if isinstance(answer, Absent):
        return empty
    return unread(answer.reason) if isinstance(answer, Unreadable) else type(empty)(function(answer))
