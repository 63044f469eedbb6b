"""fstab and mounts for real: a loop ext4, an /etc of our own and a private mount namespace.

Each scenario is a function of this file that runs in a child under unshare(1), so that the
machine's own files and mounts stay as they are; what a scenario asserts fails the test with its
traceback.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.live.namespace import own_etc, passes, run

GIB = 1 << 30

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    "name",
    [
        "noatime_and_back",
        "read_only_mount_stays_read_only",
        "stacked_mounts",
        "tmp_line",
        "util_linux_agrees",
    ],
)
def test_scenario_in_a_private_namespace_passes(name, tmp_path):
    passes(__file__, name, tmp_path)


class Machine:
    """This machine with an /etc of its own and an ext4 on a loop device at `data`."""

    def __init__(self, folder: Path, fstab: str, *, options: str = "rw") -> None:
        from hosttune.host.reading.live import LiveWriter

        own_etc(folder)
        self.data = folder / "data"
        self.data.mkdir()
        self.image = folder / "image"
        with self.image.open("wb") as file:
            file.truncate(32 << 20)
        run("mkfs.ext4", "-q", "-F", self.image)
        run("mount", "-o", f"loop,{options}", self.image, self.data)
        self.text = fstab.format(image=self.image, data=self.data)
        Path("/etc/fstab").write_text(self.text, encoding="utf-8")
        Path("/etc/fstab").chmod(0o640)
        self.writer = LiveWriter()
        self.ledger: dict = {}

    @property
    def facts(self):
        from hosttune.facts import Facts

        facts = Facts(self.writer)
        # the tests run in a namespace of their own on purpose
        host = {
            "is_container": False,
            "is_wsl": False,
            "has_systemd": False,
            "shares_init_mounts": True,
            "is_vm": False,
        }
        facts.__dict__["host"] = SimpleNamespace(**host)
        facts.__dict__["memory"] = SimpleNamespace(
            total_bytes=64 * GIB, gpu_bytes=0, available_bytes=32 * GIB
        )
        return facts

    def look(self, wish):
        from hosttune.resources import address_kinds, wish_kinds
        from hosttune.resources.base import Context
        from hosttune.values import Disturbs, Risk

        facts = self.facts
        kind = wish_kinds()[wish.kind]
        state = {
            one: address_kinds()[one.kind].read(self.writer, one.name)
            for one in kind.addresses(wish, facts)
        }
        (finding,) = kind.compare(
            (wish,), Context(facts, state, self.ledger, Risk.LOW, Disturbs.NOTHING)
        )
        return finding

    def noatime(self):
        from hosttune.resources.base import Wish

        return self.look(
            Wish("mount", str(self.data), "rule", str(self.data), {"atime": "noatime"})
        )

    def write(self, changes) -> None:
        from hosttune.resources import address_kinds

        for change in changes:
            address_kinds()[change.address.kind].write(self.writer, change)

    def undo(self, changes) -> None:
        from hosttune.resources import address_kinds

        self.write([address_kinds()[one.address.kind].invert(one) for one in reversed(changes)])

    def flags(self) -> set[str]:
        return set(
            run("findmnt", "-n", "-o", "VFS-OPTIONS", "--mountpoint", self.data).strip().split(",")
        )


FSTAB = "# of the test\n{image}\t{data} ext4  loop,errors=remount-ro 0 2 # big\n"


def scenario_noatime_and_back(folder: Path) -> None:
    machine = Machine(folder, FSTAB, options="rw,nosuid,nodev")
    file = machine.data / "file"
    file.write_text("x", encoding="utf-8")
    assert updates_atime(file)
    finding = machine.noatime()
    assert [change.address.kind for change in finding.changes] == ["fstab", "mount"], finding

    machine.write(finding.changes)

    assert machine.flags() == {"rw", "nosuid", "nodev", "noatime"}
    assert not updates_atime(file)
    expected = machine.text.replace("errors=remount-ro", "errors=remount-ro,noatime")
    assert Path("/etc/fstab").read_text(encoding="utf-8") == expected
    assert Path("/etc/fstab").stat().st_mode & 0o777 == 0o640
    before = Path("/etc/fstab").stat()
    again = machine.noatime()
    assert (str(again.verdict), again.changes) == ("ok", ())
    assert Path("/etc/fstab").stat() == before

    machine.undo(finding.changes)

    assert Path("/etc/fstab").read_text(encoding="utf-8") == machine.text
    assert machine.flags() == {"rw", "nosuid", "nodev", "relatime"}
    assert updates_atime(file)


def updates_atime(file: Path) -> bool:
    """Whether a read moves an access time that is older than the modification, as relatime does."""
    os.utime(file, (1000, 2000))
    file.read_bytes()
    return file.stat().st_atime > 1000


def scenario_read_only_mount_stays_read_only(folder: Path) -> None:
    from hosttune.resources import address_kinds
    from hosttune.values import Action, Address, Change

    machine = Machine(folder, FSTAB, options="ro,noexec")
    assert "read-only" in machine.noatime().hold.detail
    change = Change(
        Address("mount", str(machine.data)), Action.UPDATE, "relatime", "noatime", "rule"
    )

    address_kinds()["mount"].write(machine.writer, change)

    assert machine.flags() == {"ro", "noexec", "noatime"}


def scenario_stacked_mounts(folder: Path) -> None:
    machine = Machine(folder, FSTAB)
    run("mount", "-t", "tmpfs", "-o", "size=1m", "over", machine.data)

    finding = machine.noatime()

    assert machine.facts.mounts.at[str(machine.data)].fstype == "tmpfs"
    assert finding.hold.kind.value == "refused", finding
    run("umount", machine.data)
    mount = machine.facts.mounts.at[str(machine.data)]
    assert (mount.fstype, mount.is_bind, mount.disks != ()) == ("ext4", False, True)
    export = folder / "export"
    export.mkdir()
    run("mount", "--bind", machine.data, export)
    assert machine.facts.mounts.at[str(export)].is_bind


def scenario_tmp_line(folder: Path) -> None:
    from hosttune.resources.base import Bound, Operator, Wish

    machine = Machine(folder, "# nothing below /tmp\n")
    wish = Wish("tmpfs", "/tmp", "rule", "/tmp", {}, (Bound(Operator.AT_LEAST, 8 * GIB),))
    finding = machine.look(wish)
    assert [change.address.kind for change in finding.changes] == ["fstab-line"], finding
    machine.write(finding.changes)
    assert str(machine.look(wish).hold) == "waiting for reboot"

    run(
        "mount", "/tmp"
    )  # what the boot does, with the line as it stands; only this namespace sees it

    booted = machine.look(wish)
    assert (str(booted.verdict), machine.facts.tmp.size_bytes) == ("ok", 8 * GIB), booted
    assert Path("/tmp").stat().st_mode & 0o7777 == 0o1777
    run("umount", "/tmp")
    machine.undo(finding.changes)
    assert Path("/etc/fstab").read_text(encoding="utf-8") == machine.text


def scenario_util_linux_agrees(folder: Path) -> None:
    """findmnt(8) of this machine reads every sample of the unit tests as our libmount rule does."""
    from hosttune.resources.storage.fstab_document import LineKind, clean_path, parse
    from tests.unit.test_fstab_document import SAMPLES
    from tests.unit.test_fstab_oracles import READABLE

    for name in READABLE:
        data = SAMPLES[name]
        (folder / "fstab").write_bytes(data)
        argv = (
            "findmnt",
            "--json",
            "--list",
            "-o",
            "SOURCE,TARGET,FSTYPE,OPTIONS",
            "--tab-file",
            folder / "fstab",
        )
        done = subprocess.run(
            [str(word) for word in argv], check=False, capture_output=True, timeout=20
        )
        if (
            done.returncode < 0
        ):  # findmnt 2.41 crashes on a line that it cannot parse (util-linux/util-linux#4130)
            assert any(line.kind is LineKind.BROKEN for line in parse(data).lines), name
            continue
        seen = json.loads(done.stdout.decode("utf-8", "replace") or '{"filesystems": []}')[
            "filesystems"
        ]
        theirs = [(clean_path(row["target"]), row["fstype"]) for row in seen]
        ours = [
            (line.libmount.target.decode("utf-8", "replace"), line.libmount.fstype.decode())
            for line in parse(data).lines
            if line.libmount
        ]
        assert len(theirs) == len(ours), (name, theirs, ours)
        if name != "latin-1":
            assert theirs == [(clean_path(target), fstype) for target, fstype in ours], name
