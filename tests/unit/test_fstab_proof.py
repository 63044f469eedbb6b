"""What other programs say of an edited fstab, compared before against after; and that a complaint
keeps the old file.
"""

import pytest

from hosttune.errors import Refused
from hosttune.host.door import Completed, FstabReading, Rehearsal, Trial
from hosttune.resources import address_kinds
from hosttune.resources.storage.fstab_document import edit_options, insert_line, parse
from hosttune.resources.storage.fstab_proof import find_complaint, trials_of
from hosttune.values import ABSENT, Action, Address, Change
from tests.unit.storage_host import StorageHost, mount_wish

OLD = b"UUID=0a / ext4 defaults 0 1\nUUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f /data ext4 defaults 0 2\n"
TMP = "tmpfs /tmp tmpfs mode=1777,size=2G,nofail 0 0"
UNITS = {
    "-.mount": "[Mount]\n",
    "data.mount": "[Mount]\nOptions=defaults\n",
    "local-fs.target.requires/data.mount": "-> ../data.mount",
}
CLEAN = Completed(0, b"\n0 parse errors, 0 errors, 0 warnings\n", b"")
QUIET = Completed(0, b"", b"")


def reading(verify=CLEAN, generator=QUIET, units=UNITS) -> FstabReading:
    return FstabReading(verify, generator, tuple(sorted(units.items())))


def said(before=None, after=None, *, new=None, target="/data", trials=()) -> str:
    document = parse(OLD)
    edited = new or edit_options(document, "/data", lambda options: f"{options},noatime")
    rehearsal = Rehearsal(before or reading(), after or reading(), tuple(trials))
    return find_complaint(rehearsal, document, parse(edited), target)


def verified(stdout: str, stderr: str = "", status: int = 1) -> FstabReading:
    return reading(verify=Completed(status, stdout.encode(), stderr.encode()))


def test_same_answers_say_nothing():
    assert said() == ""


def test_own_unit_may_change():
    assert (
        said(after=reading(units={**UNITS, "data.mount": "[Mount]\nOptions=defaults,noatime\n"}))
        == ""
    )


def test_unit_of_another_target_may_not_change():
    after = reading(units={**UNITS, "-.mount": "[Mount]\nOptions=ro\n"})
    assert said(after=after) == "systemd would change -.mount as well"


def test_unit_that_goes_away_is_said():
    after = reading(units={"-.mount": UNITS["-.mount"]})
    assert said(after=after) == "systemd would no longer mount /data"


def test_new_message_of_the_generator_is_said_and_an_old_one_is_not():
    loud = reading(generator=Completed(0, b"", b"Failed to parse /tmp/fstab:3\n"))
    assert "Failed to parse" in said(after=loud)
    assert said(before=loud, after=loud) == ""


def test_new_error_of_findmnt_is_said_and_an_old_one_is_not():
    loud = verified("/srv\n   [E] unreachable on boot required source: UUID=77\n")
    assert (
        said(after=loud)
        == "findmnt --verify says: /srv: unreachable on boot required source: UUID=77"
    )
    assert said(before=loud, after=loud) == ""


def test_source_and_folder_of_our_own_line_are_looked_at_elsewhere():
    assert (
        said(
            after=verified(
                "/data\n   [E] unreachable on boot required target: No such file or directory\n"
            )
        )
        == ""
    )
    assert "wrong" in said(after=verified("/data\n   [E] wrong order\n"))


def test_line_that_findmnt_cannot_parse_is_said():
    bad = "findmnt: /tmp/fstab: parse error at line 3 -- ignored\n"
    assert "cannot parse" in said(after=verified("", bad))
    moved = bad.replace("line 3", "line 4")
    assert said(before=verified("", bad), after=verified("", moved)) == ""


@pytest.mark.parametrize("crashed", [Completed(-11, b"", b""), Completed(139, b"", b""), None])
def test_program_that_crashed_or_is_missing_is_no_answer(crashed):
    assert said(after=reading(verify=crashed, generator=crashed, units={})) == ""


def test_new_device_may_bring_its_time_out():
    line = "UUID=d2-7e /mnt/scratch xfs nofail,x-systemd.device-timeout=30s 0 0"
    new = insert_line(parse(OLD), line)
    units = {
        **UNITS, "mnt-scratch.mount": "[Mount]\n",
        "dev-disk-by\\x2duuid-d2\\x2d7e.device.d/50-device-timeout.conf": "[Unit]\n",
    }  # fmt: skip
    assert said(after=reading(units=units), new=new, target="/mnt/scratch") == ""
    assert "dev-sdb" in said(
        after=reading(units={**units, "dev-sdb.device.d/x.conf": ""}),
        new=new,
        target="/mnt/scratch",
    )


def test_device_of_a_label_with_an_equals_sign_may_bring_its_time_out():
    new = insert_line(parse(OLD), 'LABEL="a=b" /mnt xfs nofail,x-systemd.device-timeout=30s 0 0')
    made = {
        "mnt.mount": "[Mount]\n",
        "dev-disk-by\\x2dlabel-a\\x3db.device.d/50-device-timeout.conf": "[Unit]\n",
    }
    assert said(after=reading(units={**UNITS, **made}), new=new, target="/mnt") == ""


@pytest.mark.parametrize(
    ("source", "unit"),
    [
        ("LABEL=my\\040data", "dev-disk-by\\x2dlabel-my\\x5cx20data"),
        ("/dev/disk/by-id/a=b", "dev-disk-by\\x2did-a\\x3db"),
    ],
)
def test_device_is_named_as_udev_names_its_link(source, unit):
    """A blank in a label is escaped in the link (tried with systemd 252); a path stays as it is."""
    new = insert_line(parse(OLD), f"{source} /mnt xfs nofail,x-systemd.device-timeout=30s 0 0")
    made = {"mnt.mount": "[Mount]\n", f"{unit}.device.d/50-device-timeout.conf": "[Unit]\n"}
    assert said(after=reading(units={**UNITS, **made}), new=new, target="/mnt") == ""


def test_carriage_return_in_a_unit_is_a_change():
    after = reading(units={**UNITS, "-.mount": "[Mount]\r\n"})
    assert said(after=after) == "systemd would change -.mount as well"


def test_unit_of_a_target_that_is_a_link_is_known_by_its_device():
    device = "What=/dev/disk/by-uuid/b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f\n"
    linked = {"-.mount": UNITS["-.mount"], "mnt-disk.mount": f"[Mount]\n{device}Options=defaults\n"}
    after = {**linked, "mnt-disk.mount": f"[Mount]\n{device}Options=defaults,noatime\n"}
    assert said(reading(units=linked), reading(units=after)) == ""
    other = {**linked, "mnt-disk.mount": "[Mount]\nWhat=/dev/sdz\n"}
    changed = {**other, "mnt-disk.mount": "[Mount]\nWhat=/dev/sdz\nOptions=ro\n"}
    assert "mnt-disk.mount as well" in said(reading(units=other), reading(units=changed))


def test_edit_that_no_program_of_the_host_could_try_is_noted_in_the_log():
    machine = StorageHost(OLD.decode())
    change = Change(Address("fstab-line", "/tmp"), Action.CREATE, ABSENT, TMP, "rule")
    logged = []
    machine.writer.log = logged.append
    address_kinds()["fstab-line"].write(machine.writer, change)
    assert logged == [
        "/etc/fstab: the edit for /tmp was checked only with hosttune's own two parsers: not tried"
    ]


def test_trial_mount_that_fails_is_said():
    new = insert_line(parse(OLD), TMP.replace("2G", "64MB"))
    options = trials_of(parse(new), "/tmp")
    assert options == ("mode=1777,size=64MB,nofail",)
    failed = Trial(options[0], Completed(32, b"", b"mount: /tmp/trial: bad option\nmore\n"), "")
    assert said(new=new, target="/tmp", trials=[failed]) == (
        "a trial mount of a tmpfs with mode=1777,size=64MB,nofail fails: mount: /tmp/trial: bad option"
    )


def test_trial_mount_that_could_not_be_made_says_nothing():
    new = insert_line(parse(OLD), TMP)
    assert (
        said(new=new, target="/tmp", trials=[Trial(trials_of(parse(new), "/tmp")[0], None, "")])
        == ""
    )


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("2097152k", True), ("2097156k", True), ("2097215k", True), ("2097216k", False), ("2097151k", False),
        ("1048576k", False),
    ],
)  # fmt: skip
def test_trial_mount_of_another_size_is_said(shown, is_right):
    line = f"40 20 0:50 / /tmp/trial\udce9 rw,relatime - tmpfs tmpfs rw,size={shown}\n"  # a byte that is no UTF-8
    trial = Trial("size=2G", Completed(0, b"", b""), line)
    assert (said(trials=[trial]) == "") is is_right


def test_only_tmpfs_lines_are_mounted_for_trial():
    assert trials_of(parse(OLD), "/data") == ()


def test_complaint_keeps_the_old_file_and_says_which_proof_failed():
    broken = Rehearsal(reading(), reading(units={}), ())
    machine = StorageHost(
        OLD.decode(), "20 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n21 20 8:17 / /data rw,relatime - ext4 /dev/sdb1 rw",
        rehearsal=broken,
    )  # fmt: skip
    changes = machine.look(mount_wish("/data")).changes
    with pytest.raises(
        Refused, match=r"was not changed, because systemd would change -\.mount as well"
    ) as refused:
        machine.apply(changes)
    assert machine.fstab == OLD.decode()
    assert "findmnt --verify" in refused.value.hint


def test_rehearsal_gets_both_texts_and_the_tmpfs_options():
    machine = StorageHost(OLD.decode())
    change = Change(Address("fstab-line", "/tmp"), Action.CREATE, ABSENT, TMP, "rule")
    address_kinds()["fstab-line"].write(machine.writer, change)
    assert machine.writer.base.rehearsed == [
        (OLD, OLD + TMP.encode() + b"\n", ("mode=1777,size=2G,nofail",))
    ]
