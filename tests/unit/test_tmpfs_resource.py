"""/tmp in memory: each home of /tmp, waiting for the boot, never over a live one, never smaller."""

from __future__ import annotations

import pytest

from hosttune.host.door import Space
from hosttune.resources.base import Bound, Operator, Wish
from hosttune.values import Activation, Address, Hold, HoldKind, Trigger, Verdict
from tests.unit.storage_host import GIB, ROOT, StorageHost, tmp_wish

LINE = "tmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=26G,nr_inodes=1m,nofail,x-systemd.before=local-fs.target 0 0"
DISK = "[Mount]\nWhat=/dev/nvme2n1\nWhere=/tmp\nType=xfs\nOptions=size=4G\n"
UNIT = "[Mount]\nOptions=mode=1777,strictatime,nosuid,nodev,size=2%%,nr_inodes=1m\n"
USR = "/usr/lib/systemd/system/tmp.mount"
ENABLED = {"/usr/lib/systemd/system/local-fs.target.wants/tmp.mount": "../tmp.mount"}
DROPIN = "/etc/systemd/system/tmp.mount.d/60-hosttune-storage-tmp-tmpfs.conf"
GUARD = "/run/systemd/system/tmp.mount.d/60-hosttune-storage-tmp-tmpfs.conf"


def live(gib: int) -> dict:
    mountinfo = (
        f"{ROOT}\n30 20 0:40 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size={gib * GIB // 1024}k\n"
    )
    return {"mountinfo": mountinfo, "spaces": {"/tmp": Space(gib * GIB, gib * GIB, 1, 1)}}


def test_tmp_on_the_disk_gets_a_line_for_the_next_boot_guarded_until_then():
    machine = StorageHost("# x\n", files={"/tmp/old": b"x" * GIB})
    finding = machine.look(tmp_wish(25.6))

    guard, line = finding.changes
    assert (finding.verdict, finding.hold) == (Verdict.DIFFERS, Hold())
    assert (line.address, line.after, line.activation) == (
        Address("fstab-line", "/tmp"),
        LINE,
        Activation.REBOOT,
    )
    assert line.details == ("--- /etc/fstab", "+++ /etc/fstab", "@@ -1,0 +2 @@", f"+{LINE}")
    assert line.reversible == "after a reboot"
    assert guard.address == Address("file", GUARD)
    assert guard.triggers == line.triggers == (Trigger("daemon-reload"),)
    assert f"ConditionPathExists=!{GUARD}\n".encode() in guard.after.content
    assert "1 GiB in 1 files and folders stay on the disk, hidden below it" in finding.evidence


def test_added_line_waits_for_the_reboot_then_is_ok_then_comes_back():
    machine = StorageHost("# x\n")
    changes = machine.look(tmp_wish(25.6)).changes

    machine.apply(changes)
    waiting = machine.look(tmp_wish(25.6))
    assert (waiting.verdict, waiting.hold, waiting.changes) == (
        Verdict.DIFFERS,
        Hold(HoldKind.WAITING, "reboot"),
        (),
    )
    assert "mount -a" in waiting.todo

    booted = StorageHost(machine.fstab, **live(26)).look(tmp_wish(25.6))
    assert (booted.verdict, booted.changes) == (Verdict.OK, ())

    machine.undo(changes)
    assert machine.fstab == "# x\n"
    assert machine.facts.tmp.drop_ins == ()


def test_options_of_the_wish_replace_the_usual_ones():
    line = (
        StorageHost("")
        .look(tmp_wish(8, options=("nosuid", "nodev", "nr_inodes=2m")))
        .changes[-1]
        .after
    )

    assert line.startswith("tmpfs /tmp tmpfs mode=1777,nosuid,nodev,nr_inodes=2m,size=8G,nofail,")


@pytest.mark.parametrize("facts", [{"has_systemd": False}, {"persistent_only": True}])
def test_guard_is_for_a_running_systemd_alone(facts):
    mountinfo = None if facts.get("persistent_only") else ROOT
    finding = StorageHost("", mountinfo, **facts).look(tmp_wish(8))

    (change,) = finding.changes
    assert (change.address.kind, change.triggers) == ("fstab-line", ())


def test_other_root_is_ok_once_the_line_is_there():
    machine = StorageHost("", None, persistent_only=True)
    machine.apply(machine.look(tmp_wish(8)).changes)

    assert machine.look(tmp_wish(8)).verdict is Verdict.OK


def test_tmpfs_made_by_hand_gets_its_line_without_a_guard():
    finding = StorageHost("", **live(8)).look(tmp_wish(8))

    assert [change.address.kind for change in finding.changes] == ["fstab-line"]


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ("size=4G,noexec", "size=16G,noexec"),
        ("noexec,size=1%", "noexec,size=16G"),
        ("size=1G,size=2G", "size=16G"),
    ],
)
def test_smaller_line_gets_its_size_raised_and_nothing_else(options, after):
    machine = StorageHost(f"tmpfs /tmp tmpfs {options} 0 0\n", **live(4))
    finding = machine.look(tmp_wish(16))

    (change,) = finding.changes
    assert (change.address, change.before, change.after) == (
        Address("fstab", "/tmp"),
        options,
        after,
    )
    assert "now a tmpfs of 4 GiB" in finding.evidence
    machine.apply(finding.changes)
    waiting = machine.look(tmp_wish(16))
    assert waiting.hold == Hold(HoldKind.WAITING, "reboot")
    assert "remount,size=16G" in waiting.todo


@pytest.mark.parametrize(
    ("options", "words", "todo"),
    [
        ("size=4G,mode=0999", "the kernel rejects `mode=0999`", "write it in octal: mode=1777"),
        ("size=4G,noexec;nodev", "only a comma parts options", "write noexec,nodev"),
        ("size=4G,errors=remount-ro", "tmpfs refuses it", "take `errors=remount-ro` out"),
    ],
)
def test_smaller_line_whose_mount_fails_is_not_built_upon(options, words, todo):
    finding = StorageHost(f"# mine\ntmpfs /tmp tmpfs {options} 0 0\n", **live(4)).look(tmp_wish(16))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )
    assert finding.hold.detail.startswith("/etc/fstab:2: ")
    assert (words in finding.hold.detail, finding.todo) == (True, todo)
    assert "should be a tmpfs" in finding.reason


@pytest.mark.parametrize(
    "options", ["size=32G", "size=50%", "defaults", "size=0", "size=17G,nr_inodes=1"]
)
def test_larger_line_is_never_lowered(options):
    finding = StorageHost(f"tmpfs /tmp tmpfs {options} 0 0\n", **live(32)).look(tmp_wish(16))

    assert (finding.verdict, finding.changes) == (Verdict.OK, ())


@pytest.mark.parametrize(
    ("fstab", "files", "links", "kind", "words"),
    [
        ("/dev/sdb1 /tmp ext4 rw 0 0\n", {}, {}, HoldKind.OWNED, "an administrator decided what /tmp is: /etc/fstab line 1"),
        ("/var/tmp /tmp none bind 0 0\n", {}, {}, HoldKind.OWNED, "an administrator decided what /tmp is: /etc/fstab line 1"),
        ("tmpfs /tmp tmpfs size=64MB 0 0\n", {}, {}, HoldKind.REFUSED, "the kernel rejects"),
        ("tmpfs /tmp tmpfs size=1G,comment=cloudconfig 0 0\n", {}, {}, HoldKind.OWNED, "cloud-init"),
        ("tmpfs /tmp tmpfs size=1G 0 0\ntmpfs /tmp tmpfs size=2G 0 0\n", {}, {}, HoldKind.REFUSED, "line 2 too"),
        ("tmpfs /tmp tmpfs size=64M # added\n", {}, {}, HoldKind.REFUSED, "drops this line"),
        ("\ufeff# x\n", {}, {}, HoldKind.REFUSED, "byte order mark"),
        (None, {}, {}, HoldKind.REFUSED, "no /etc/fstab"),
        ("", {"/etc/systemd/system/tmp.mount": DISK}, {}, HoldKind.OWNED, "what /tmp is: /etc/systemd/system/tmp.mount"),
        ("", {}, {"/etc/systemd/system/tmp.mount": "/dev/null"}, HoldKind.OWNED, "/etc/systemd/system/tmp.mount masks"),
        ("tmpfs /tmp tmpfs size=1G 0 0\n", {}, {"/etc/systemd/system/tmp.mount": "/dev/null"}, HoldKind.REFUSED, "never reached"),
        ("", {"/etc/systemd/system/tmp.mount.d/a.conf": "[Mount]\n"}, {}, HoldKind.OWNED, "tmp.mount.d/a.conf changes"),
        ("tmpfs /tmp tmpfs size=1G 0 0\n", {"/etc/systemd/system/tmp.mount": UNIT}, {}, HoldKind.REFUSED, "overrules"),
        ("", {}, {"/tmp": "/var/tmp"}, HoldKind.REFUSED, "symbolic link"),
    ],
)  # fmt: skip
def test_tmp_that_somebody_arranged_is_held_with_the_reason(fstab, files, links, kind, words):
    finding = StorageHost(fstab, files=files, links=links).look(tmp_wish(16))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (Verdict.DIFFERS, kind, ())
    assert words in finding.hold.detail
    assert "unmask" not in finding.todo
    assert finding.todo or kind is HoldKind.REFUSED


def test_override_that_is_large_enough_is_ok():
    files = {"/etc/systemd/system/tmp.mount.d/a.conf": "[Mount]\nOptions=size=64G\n"}

    assert StorageHost("", files=files, **live(64)).look(tmp_wish(16)).verdict is Verdict.OK


def test_disk_that_something_else_mounted_is_refused():
    mountinfo = f"{ROOT}\n30 20 8:17 / /tmp rw - ext4 /dev/sdb1 rw\n"
    finding = StorageHost("", mountinfo, spaces={"/tmp": Space(1, 1, 1, 1)}).look(tmp_wish(16))

    assert "ext4 is mounted at /tmp" in finding.hold.detail


@pytest.mark.parametrize("place", [USR, "/etc/systemd/system/tmp.mount"])
def test_small_unit_gets_a_drop_in_with_its_own_options(place):
    machine = StorageHost("", files={place: UNIT}, links=ENABLED, **live(5))
    finding = machine.look(tmp_wish(16))

    (change,) = finding.changes
    assert change.address == Address("file", DROPIN)
    assert (
        b"[Mount]\nOptions=mode=1777,strictatime,nosuid,nodev,size=16G,nr_inodes=1m\n"
        in change.after.content
    )
    assert (change.activation, change.triggers) == (Activation.REBOOT, (Trigger("daemon-reload"),))
    machine.apply(finding.changes)
    assert machine.look(tmp_wish(16)).hold == Hold(HoldKind.WAITING, "reboot")


def test_percent_signs_of_other_options_are_doubled_in_the_drop_in():
    unit = "[Mount]\nOptions=size=1G,nr_blocks=10%%\n"
    finding = StorageHost("", files={USR: unit}, links=ENABLED, **live(1)).look(tmp_wish(16))

    assert b"Options=size=16G,nr_blocks=10%%\n" in finding.changes[0].after.content


def test_unit_of_half_the_memory_is_ok():
    files = {USR: UNIT.replace("2%%", "50%%")}

    assert (
        StorageHost("", files=files, links=ENABLED, **live(128)).look(tmp_wish(16)).verdict
        is Verdict.OK
    )


def test_drop_in_of_ours_that_was_edited_is_held():
    machine = StorageHost("", files={USR: UNIT}, links=ENABLED, **live(5))
    machine.apply(machine.look(tmp_wish(16)).changes)
    content = machine.writer.read(DROPIN)
    machine.writer.files[DROPIN] = type(machine.writer.files[DROPIN])(
        content.replace(b"16G", b"1G")
    )

    assert machine.look(tmp_wish(16)).hold.kind is HoldKind.EDITED


@pytest.mark.parametrize(
    ("kwargs", "verdict", "words"),
    [
        ({"is_container": True}, Verdict.NOT_APPLICABLE, "container"),
        ({"unreadable": {"/etc/fstab": "permission denied"}}, Verdict.UNKNOWN, "permission denied"),
    ],
)
def test_host_without_an_answer_says_why(kwargs, verdict, words):
    finding = StorageHost(None, **kwargs).look(tmp_wish(16))

    assert finding.verdict is verdict
    assert words in finding.reason


def test_wsl_is_refused():
    assert "X11" in StorageHost("", is_wsl=True).look(tmp_wish(16)).hold.detail


def test_wish_for_another_target_is_refused():
    wish = Wish("tmpfs", "/scratch", "rule", "/scratch", {}, (Bound(Operator.AT_LEAST, GIB),))

    assert "/tmp alone" in StorageHost("").look(wish).hold.detail


def test_size_beyond_the_available_memory_is_said():
    scarce = "only 2 GiB of memory are available now"
    assert any(
        scarce in said for said in StorageHost("", available_gib=2).look(tmp_wish(8)).evidence
    )
    assert not any("available now" in said for said in StorageHost("").look(tmp_wish(8)).evidence)


def test_distributions_tmpfs_that_an_upgrade_holds_back_waits_for_the_reboot():
    held = StorageHost(
        "",
        files={USR: UNIT.replace("2%%", "50%%"), "/run/systemd/system/tmp.mount": ""},
        links=ENABLED,
    )
    finding = held.look(tmp_wish(8))
    assert (finding.verdict, finding.hold, finding.changes) == (
        Verdict.DIFFERS,
        Hold(HoldKind.WAITING, "reboot"),
        (),
    )


def test_file_that_a_tool_manages_gets_no_line():
    finding = StorageHost("# Ansible managed\nUUID=0a / ext4 defaults 0 1\n").look(tmp_wish(8))
    assert (finding.hold.kind, finding.changes) == (HoldKind.OWNED, ())
    assert "Ansible managed" in finding.hold.detail


@pytest.mark.parametrize(
    ("fstab", "files"),
    [("/dev/sdb1 /tmp ext4 rw 0 0\n", {}), ("", {"/etc/systemd/system/tmp.mount": DISK})],
)
def test_disk_at_the_next_boot_is_not_ok_because_a_tmpfs_is_there_now(fstab, files):
    finding = StorageHost(fstab, files=files, **live(32)).look(tmp_wish(16))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.OWNED,
        (),
    )
