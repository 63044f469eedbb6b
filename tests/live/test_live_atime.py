"""The atime flag of a live mount on ext4, xfs and btrfs: it alone changes, there and back, whatever
the line says.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosttune.errors import Refused
from tests.live.namespace import loop_disk, own_etc, passes, run

pytestmark = pytest.mark.live
MIB = 1 << 20
MKFS = {
    "ext4": ("mkfs.ext4", 32 * MIB),
    "xfs": ("mkfs.xfs", 320 * MIB),
    "btrfs": ("mkfs.btrfs", 160 * MIB),
}


@pytest.mark.parametrize(
    "name",
    [
        *MKFS,
        "remount_of_mount_would_have_lost_flags",
        "held_by_another_namespace",
        "before_linux_5_12",
    ],
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


class Machine:
    """One disk at `target`, with a line in an /etc of the scenario's own."""

    def __init__(
        self, folder: Path, device: str, fstype: str, *, line: str, live: str, name: str = "data"
    ) -> None:
        from hosttune.host.reading.live import LiveWriter

        own_etc(folder)
        self.fstype = fstype
        self.target = folder / name
        self.target.mkdir()
        escaped = str(self.target).replace(" ", "\\040")
        self.text = f"# tabs stay\n{device}\t{escaped}\t{fstype}\t{line}\t0\t0\n"
        Path("/etc/fstab").write_text(self.text, encoding="utf-8")
        run(
            "mount",
            "--types",
            fstype,
            "--options",
            live,
            "--source",
            device,
            "--target",
            self.target,
        )
        self.writer = LiveWriter()

    def look(self):
        from hosttune.facts import Facts
        from hosttune.resources import address_kinds, wish_kinds
        from hosttune.resources.base import Context, Wish
        from hosttune.values import Disturbs, Risk

        facts = Facts(self.writer)
        # the scenario runs in a namespace of its own on purpose
        facts.__dict__["host"] = SimpleNamespace(
            is_container=False,
            is_wsl=False,
            has_systemd=False,
            shares_init_mounts=True,
            is_vm=False,
        )
        wish = Wish("mount", str(self.target), "rule", str(self.target), {"atime": "noatime"})
        kind = wish_kinds()["mount"]
        state = {
            one: address_kinds()[one.kind].read(self.writer, one.name)
            for one in kind.addresses(wish, facts)
        }
        (finding,) = kind.compare((wish,), Context(facts, state, {}, Risk.LOW, Disturbs.NOTHING))
        return finding

    def write(self, changes) -> None:
        from hosttune.resources import address_kinds

        for change in changes:
            address_kinds()[change.address.kind].write(self.writer, change)

    def undo(self, changes) -> None:
        from hosttune.resources import address_kinds

        self.write([address_kinds()[one.address.kind].invert(one) for one in reversed(changes)])

    def flags(self) -> set[str]:
        return set(
            run("findmnt", "-n", "-o", "VFS-OPTIONS", "--mountpoint", self.target)
            .strip()
            .split(",")
        )

    def super_options(self) -> str:
        return run("findmnt", "-n", "-o", "FS-OPTIONS", "--mountpoint", self.target)


def every_case(folder: Path, fstype: str) -> None:
    """Flags that stand in no line, an option for others than the kernel, a blank in the target, a
    mount on top.
    """
    mkfs, size = MKFS[fstype]
    with loop_disk(folder / "image", mkfs, "-q", size=size) as device:
        machine = Machine(
            folder,
            device,
            fstype,
            line="defaults,x-gvfs-name=my%20data",
            live="nosuid,nodev,noexec",
            name="my data",
        )
        before, inside = machine.flags(), machine.super_options()
        assert before == {"rw", "nosuid", "nodev", "noexec", "relatime"}
        finding = machine.look()
        assert [one.address.kind for one in finding.changes] == ["fstab", "mount"], finding
        machine.write(finding.changes)
        assert machine.flags() == before - {"relatime"} | {"noatime"}
        assert machine.super_options() == inside
        expected = machine.text.replace("my%20data\t", "my%20data,noatime\t")
        assert Path("/etc/fstab").read_text(encoding="utf-8") == expected
        assert (str(machine.look().verdict), machine.look().changes) == ("ok", ())
        machine.undo(finding.changes)
        assert (machine.flags(), Path("/etc/fstab").read_text(encoding="utf-8")) == (
            before,
            machine.text,
        )
        by_hand(machine, finding.changes)
        stacked(machine)


def by_hand(machine: Machine, changes) -> None:
    """The remounts that `explain` teaches set the one flag, and take it back."""
    from hosttune.views.by_hand import describe_by_hand

    before = machine.flags()
    for steps, atime in zip(describe_by_hand(changes), ("noatime", "relatime"), strict=True):
        (step,) = (one for one in steps if one.startswith("mount "))
        run("sh", "-c", step)
        assert machine.flags() == before - {"relatime"} | {atime}


def stacked(machine: Machine) -> None:
    """Of two mounts of a disk on one folder the upper one is changed, the lower one is not."""
    run(
        "mount", "--types", "tmpfs", "between", machine.target
    )  # the kernel stacks no file system right upon itself
    run(
        "mount",
        "--types",
        machine.fstype,
        "--source",
        machine.text.split()[3],
        "--target",
        machine.target,
    )
    machine.write([one for one in machine.look().changes if one.address.kind == "mount"])
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    place = str(machine.target).replace(" ", "\\040")
    rows = [row.split() for row in table if row.split()[4] == place]
    assert [("noatime" in row[5], machine.fstype in row) for row in rows] == [
        (False, True),
        (False, False),
        (True, True),
    ]
    for _ in rows:
        run("umount", machine.target)


def scenario_ext4(folder: Path) -> None:
    every_case(folder, "ext4")


def scenario_xfs(folder: Path) -> None:
    every_case(folder, "xfs")


def scenario_btrfs(folder: Path) -> None:
    every_case(folder, "btrfs")


def scenario_remount_of_mount_would_have_lost_flags(folder: Path) -> None:
    """A mount that is read-only by hand, with a line that says otherwise, stays so."""
    from hosttune.resources import address_kinds
    from hosttune.values import Action, Address, Change

    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        machine = Machine(folder, device, "ext4", line="defaults,noatime", live="ro,nosuid,nodev")
        change = Change(
            Address("mount", str(machine.target)), Action.UPDATE, "relatime", "noatime", "rule"
        )
        address_kinds()["mount"].write(machine.writer, change)
        assert machine.flags() == {"ro", "nosuid", "nodev", "noatime"}
        run("mount", "-o", "remount,noatime", machine.target)  # what everybody else does
        assert machine.flags() & {"ro", "nosuid", "nodev"} != {"ro", "nosuid", "nodev"}
        run("umount", machine.target)


def scenario_before_linux_5_12(folder: Path) -> None:
    """Without mount_setattr all other flags stay as well, and a user who turns the way meanwhile
    reaches no mount.
    """
    import errno

    from hosttune.host.writing import mountapi
    from hosttune.host.writing.mountapi import find_topmost, set_atime

    def flags(name: str) -> set[str]:
        return {*find_topmost(str(folder / name)).options} & {
            "rw",
            "noatime",
            "relatime",
            *mountapi._KEPT,
        }

    kept = {"ro", "nosuid", "nodev", "noexec", "nodiratime"}
    for name, options in (
        ("mine", ",".join(kept)),
        ("other/stick", "nosuid,nodev"),
        ("way/stick", "rw"),
    ):
        (folder / name).mkdir(parents=True)
        run("mount", "--types", "tmpfs", "--options", options, "tmpfs", folder / name)
    mountapi._mount_setattr = lambda *_: errno.ENOSYS
    set_atime(str(folder / "mine"), "noatime")
    assert flags("mine") == {*kept, "noatime"}
    set_atime(str(folder / "mine"), "relatime")
    assert flags("mine") == {*kept, "relatime"}

    def exchanged(*_: object) -> int:
        (folder / "way").rename(folder / "moved")
        (folder / "way").symlink_to("other")
        return errno.ENOSYS

    mountapi._mount_setattr = exchanged
    with pytest.raises(Refused):  # nothing is mounted there any more
        set_atime(str(folder / "way/stick"), "noatime")
    assert flags("other/stick") == {"rw", "nosuid", "nodev", "relatime"}
    assert flags("moved/stick") == {"rw", "noatime"}


def scenario_held_by_another_namespace(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.ext4", "-q") as device:
        machine = Machine(folder, device, "ext4", line="defaults", live="rw")
        ready, told = os.pipe()
        # started like a service with PrivateTmp=: its own namespace, fed by ours
        waiter = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", "echo; exec sleep 60")
        service = subprocess.Popen(waiter, stdout=told, pass_fds=(ready,))
        try:
            assert os.read(ready, 1) == b"\n"
            finding = machine.look()
            assert any("keep relatime until restarted" in said for said in finding.evidence), (
                finding.evidence
            )
            machine.write(finding.changes)
            table = Path(f"/proc/{service.pid}/mountinfo").read_text(encoding="utf-8")
            (theirs,) = [
                line for line in table.splitlines() if line.split()[4] == str(machine.target)
            ]
            assert "relatime" in theirs.split()[5].split(",")
            assert "noatime" in machine.flags()
        finally:
            service.kill()
            service.wait(10)
        run("umount", machine.target)
