"""A host for tests of storage: a FakeReader under an overlay, with stand-ins for the facts of other
subjects.
"""

from __future__ import annotations

from types import SimpleNamespace

from hosttune.facts import Facts
from hosttune.host.door import Space
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import Applied, Bound, Context, Operator, Wish
from hosttune.values import Address, Disturbs, Risk
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed

GIB = 1 << 30
ROOT = "20 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw"


def disk(
    name: str, device: str, disks: tuple[str, ...] = ("sda",), *, is_rotational: bool = False
) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, device=device, disks=disks, rotates=is_rotational, transport="sata", kind="disk", parents=(),
        is_ephemeral=False,
    )  # fmt: skip


DISKS = (
    disk("sda", "8:0"),
    disk("sda2", "8:2"),
    disk("sdb1", "8:17", ("sdb",), is_rotational=True),
    disk("dm-0", "253:0", ("nvme0n1", "nvme1n1")),
)


def make_facts(
    reader, *, ram_gib: int = 256, available_gib: int | None = None, disks=DISKS, **host
) -> Facts:
    facts = Facts(reader)
    plain = {
        "is_container": False,
        "is_vm": False,
        "is_wsl": False,
        "cloud": "",
        "has_systemd": True,
        "shares_init_mounts": True,
    }
    facts.__dict__["host"] = SimpleNamespace(**{**plain, **host})
    facts.__dict__["memory"] = SimpleNamespace(
        total_bytes=ram_gib * GIB,
        sold_bytes=ram_gib * GIB,
        gpu_bytes=0,
        available_bytes=(available_gib or ram_gib) * GIB,
        swaps=(),
    )
    facts.__dict__["arc"] = SimpleNamespace(is_there=False)
    facts.__dict__["disks"] = SimpleNamespace(
        all=(),
        by_device={one.device: one for one in disks},
        by_name={one.name: one for one in disks},
    )
    return facts


class StorageHost:
    """fstab and mountinfo as text; every look collects anew, `apply` writes through the overlay."""

    def __init__(
        self,
        fstab="",
        mountinfo=ROOT,
        *,
        persistent_only=False,
        ram_gib=256,
        available_gib=None,
        files=None,
        **kwargs,
    ) -> None:
        host = {
            name: kwargs.pop(name)
            for name in list(kwargs)
            if name.startswith(("is_", "has_", "shares_"))
        }
        content = {"/proc/self/mountinfo": mountinfo, "/etc/fstab": fstab, **(files or {})}
        kwargs.setdefault("spaces", {"/": Space(GIB, GIB // 2, 1, 1)})
        reader = FakeReader(
            {path: value for path, value in content.items() if value is not None},
            persistent_only=persistent_only,
            **kwargs,
        )
        self.writer = Overlay(reader)
        self.ledger: dict[Address, Applied] = {}
        self._make = lambda: make_facts(
            self.writer, ram_gib=ram_gib, available_gib=available_gib, **host
        )

    @property
    def facts(self) -> Facts:
        return self._make()

    @property
    def fstab(self) -> str:
        return self.writer.read("/etc/fstab").decode()

    def look(self, wish: Wish, rule_risk=Risk.LOW):
        """The one finding of a wish."""
        facts = self.facts
        kind = wish_kinds()[wish.kind]
        state = {
            one: address_kinds()[one.kind].read(self.writer, one.name)
            for one in kind.addresses(wish, facts)
        }
        (finding,) = typed(
            kind.compare((wish,), Context(facts, state, self.ledger, rule_risk, Disturbs.NOTHING))
        )
        return finding

    def apply(self, changes) -> None:
        for change in changes:
            address_kinds()[change.address.kind].write(self.writer, change)
            self.ledger[change.address] = Applied("r1", change.rule, change.after)

    def undo(self, changes) -> None:
        for change in reversed(changes):
            kind = address_kinds()[change.address.kind]
            kind.write(self.writer, kind.invert(change))


def mount_wish(target: str, atime: str = "noatime", **fields) -> Wish:
    return Wish("mount", target, "storage-noatime", target, {"atime": atime, **fields})


def tmp_wish(gib: float, **fields) -> Wish:
    bounds = (Bound(Operator.AT_LEAST, int(gib * GIB)),)
    return Wish("tmpfs", "/tmp", "storage-tmp-tmpfs", "/tmp", fields, bounds)
