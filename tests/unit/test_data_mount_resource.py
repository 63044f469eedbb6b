"""A data disk of the policy: what is planned, what stands in the way, and the way back."""

import json
from types import SimpleNamespace

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.facts.storage.filesystems import LSBLK, UDEV
from hosttune.resources import address_kinds
from hosttune.resources.base import Context, Wish
from hosttune.resources.storage.data_mount import BELT, DataMountWish
from hosttune.values import ABSENT, Disturbs, FileValue, HoldKind, Risk, Trigger, Verdict
from tests.unit.storage_host import ROOT, StorageHost

ROOT_LINE = "UUID=0a / ext4 defaults 0 1\n"
OPTIONS = "noatime,nofail,x-systemd.device-timeout=30s,x-systemd.before=local-fs.target"
LINE = f"UUID=b7-1f /data xfs {OPTIONS} 0 0"


def row(path, fstype, uuid, **more):
    empty = {"label": None, "partlabel": None, "partuuid": None}
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "fstype": fstype,
        "uuid": uuid,
        **empty,
        **more,
    }


DOCKER = "/sys/fs/cgroup/system.slice/docker.service/cgroup.procs"
DISK = row("/dev/sdb", "xfs", "b7-1f", label="data")


def sysfs(name, device, **slaves):
    base = f"/sys/block/{name}"
    files = {
        f"{base}/dev": device, f"{base}/size": "2048", f"{base}/ro": "0", f"{base}/removable": "0",
        f"{base}/queue/rotational": "0", f"{base}/queue/discard_max_bytes": "0", f"/sys/class/block/{name}/dev": device,
    }  # fmt: skip
    return files | {f"{base}/slaves/{slave}/dev": "" for slave in slaves}


class Machine(StorageHost):
    """The disks of /sys instead of the stand-in."""

    swaps = ()

    @property
    def facts(self):
        facts = super().facts
        del facts.__dict__["disks"]
        facts.__dict__["memory"].swaps = self.swaps
        return facts


def host(rows=(DISK,), *, fstab=ROOT_LINE, mountinfo=ROOT, files=None, **options):
    own = {
        UDEV: "",
        "/proc/swaps": "Filename\n",
        "/proc/meminfo": "MemTotal: 1000 kB\n",
        **sysfs("sda", "8:0"),
        **sysfs("sdb", "8:16"),
    }
    queries = {LSBLK: json.dumps({"blockdevices": list(rows)})}
    return Machine(fstab, mountinfo, files={**own, **(files or {})}, queries=queries, **options)


def wish(target="/data", source="UUID=b7-1f", **fields):
    return Wish(
        "data-mount",
        target,
        "storage-data-mounts",
        target,
        {"source": source, "options": ("noatime",), **fields},
    )


def test_disk_is_mounted_by_folder_line_and_mount():
    machine = host()
    finding = machine.look(wish())
    assert [(str(one.address), one.before, one.after) for one in finding.changes] == [
        ("folder:/data", ABSENT, "folder"),
        ("fstab-line:/data", ABSENT, LINE),
        ("data-mount:/data", ABSENT, f"xfs UUID=b7-1f {OPTIONS}"),
    ]
    assert [one.triggers for one in finding.changes] == [(), (Trigger("daemon-reload"),), ()]
    assert finding.changes[1].details == (
        "--- /etc/fstab",
        "+++ /etc/fstab",
        "@@ -1,0 +2 @@",
        f"+{LINE}",
    )
    machine.apply(finding.changes)
    assert machine.fstab == ROOT_LINE + LINE + "\n"
    again = machine.look(wish())
    assert (again.verdict, again.changes) == (Verdict.OK, ())
    mount = machine.facts.mounts.at["/data"]
    assert (mount.source, mount.device, mount.atime) == ("/dev/sdb", "8:16", "noatime")


def test_undo_leaves_nothing():
    machine = host()
    changes = machine.look(wish()).changes
    machine.apply(changes)
    machine.undo(changes)
    assert machine.fstab == ROOT_LINE
    assert machine.writer.stat("/data") is ABSENT
    assert "/data" not in machine.facts.mounts.at


def test_folders_on_the_way_are_changes_of_their_own():
    changes = host().look(wish("/mnt/nvme/data")).changes
    assert [one.address.name for one in changes if one.address.kind == "folder"] == [
        "/mnt",
        "/mnt/nvme",
        "/mnt/nvme/data",
    ]


def test_label_and_links_name_the_device_and_the_line_names_its_uuid():
    links = {"/dev/disk/by-id/wwn-1": "../../sdb"}
    for source in ("LABEL=data", "/dev/sdb", "/dev/disk/by-id/wwn-1"):
        finding = host(links=links, files={"/dev/sdb": ""}).look(wish(source=source))
        assert finding.changes[1].after == LINE, source


def test_line_that_is_there_is_kept_and_only_mounted():
    finding = host(
        fstab=ROOT_LINE + "LABEL=data /data xfs defaults 0 2\n", folders=("/data",)
    ).look(wish())
    assert [str(one.address) for one in finding.changes] == ["data-mount:/data"]


def test_mounted_disk_without_a_line_gets_the_line():
    mounted = ROOT + "\n30 20 8:16 / /data rw,relatime - xfs /dev/sdb rw"
    finding = host(mountinfo=mounted, folders=("/data",)).look(wish())
    assert [str(one.address) for one in finding.changes] == ["fstab-line:/data"]


@pytest.mark.parametrize(
    ("said", "options", "own"),
    [
        ("no device is UUID=zz", {}, {"source": "UUID=zz"}),
        ("holds no file system", {"rows": (row("/dev/sdb", None, None, partlabel="data"),)}, {"source": "PARTLABEL=data"}),
        ("holds xfs, not ext4", {}, {"fstype": "ext4"}),
        ("which is not mounted by hosttune", {"rows": (row("/dev/sdb", "LVM2_member", "b7-1f"),)}, {}),
        ("which is not mounted by hosttune", {"rows": (row("/dev/sdb", "swap", "b7-1f"),)}, {}),
        ("are all LABEL=data", {"rows": (DISK, row("/dev/sdc", "xfs", "c8", label="data"))}, {"source": "LABEL=data"}),
        ("a copy, a snapshot", {"rows": (DISK, row("/dev/sdc", "xfs", "b7-1f"))}, {"source": "/dev/sdb"}),
        (
            "Docker (docker.service) writes to /data/docker: the mount would hide it",
            {"files": {"/etc/docker/daemon.json": '{"data-root": "/data/docker"}', DOCKER: "7\n"}},
            {},
        ),
        ("is not empty (set.tar)", {"files": {"/data/set.tar": "x"}}, {}),
        ("is a link to /srv", {"links": {"/data": "/srv"}, "folders": ("/srv",)}, {}),
        ("belongs to the system", {}, {"target": "/usr/share/data"}),
        ("belongs to the system", {}, {"target": "/var"}),
        ("line 2 mounts UUID=other there", {"fstab": ROOT_LINE + "UUID=other /data xfs defaults 0 0\n"}, {}),
        ("line 2 mounts it at /old", {"fstab": ROOT_LINE + "LABEL=data /old xfs defaults 0 0\n"}, {}),
        ("line 2 mounts it at /old", {"fstab": ROOT_LINE + 'UUID="b7-1f" /old xfs defaults 0 0\n'}, {}),
        ("is mounted at /old", {"mountinfo": ROOT + "\n30 20 8:16 / /old rw - xfs /dev/sdb rw"}, {}),
        (
            "ext4 UUID=c8 is mounted at /data",
            {
                "rows": (DISK, row("/dev/sda", "ext4", "c8")), "folders": ("/data",),
                "mountinfo": ROOT + "\n30 20 8:0 / /data rw - ext4 /dev/sda rw",
            },
            {},
        ),
        ("no xfs of Linux 6.1 to 6.18 has an option `nouatime`", {}, {"options": ["nouatime"]}),
        ("`size` is an option of tmpfs, hugetlbfs; xfs refuses it: the mount fails", {}, {"options": ["ro", "size=10G"]}),
        ("`NOATIME` is none", {}, {"options": ["NOATIME"]}),
        ("only a comma parts options", {}, {"options": ["noatime;nodev"]}),
        ("xfs takes `norecovery` only with `ro`", {}, {"options": ["norecovery"]}),
        ("only Linux 6.15 and later know `lifetime` on xfs", {}, {"options": ["lifetime"]}),
        ("is part of dm-0", {"files": sysfs("dm-0", "253:0", sdb=1)}, {}),
        ("mount namespace of its own", {"shares_init_mounts": False}, {}),
        ("there is no /etc/fstab", {"fstab": None}, {}),
        ("byte order mark", {"fstab": "\ufeff" + ROOT_LINE}, {}),
        ("drops this line", {"fstab": ROOT_LINE + "UUID=b7-1f /data xfs defaults # x\n"}, {}),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_refused_and_said(said, options, own):
    finding = host(**options).look(wish(**own))
    assert finding.verdict is Verdict.DIFFERS
    assert finding.hold.kind is HoldKind.REFUSED
    assert said in finding.hold.detail
    assert finding.changes == ()


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("says noauto", "UUID=b7-1f /data xfs noauto 0 0\n"),
        ("says ext4, and", "UUID=b7-1f /data ext4 defaults 0 0\n"),
        ("fstab:2: `0` is where the options belong", "LABEL=data /data xfs 0 2\n"),
        (
            "fstab:2: only a comma parts options, so `defaults;nofail` is one",
            "LABEL=data /data xfs defaults;nofail 0 2\n",
        ),
    ],
)
def test_line_that_would_not_mount_the_disk_is_not_taken_for_one(said, line):
    mounted = ROOT + "\n30 20 8:16 / /data rw,relatime - xfs /dev/sdb rw"
    finding = host(fstab=ROOT_LINE + line, mountinfo=mounted, folders=("/data",)).look(wish())
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, HoldKind.REFUSED)
    assert said in finding.hold.detail


@pytest.mark.parametrize(
    "options", [["discard"], ["ro", "norecovery"], ["x-mine=1"], ["logbsize=256k", "prjquota"], []]
)
def test_options_that_the_type_takes_are_written(options):
    line = host().look(wish(options=options)).changes[1].after
    assert line.split()[3] == ",".join((*options, *BELT))


def test_timeout_of_the_policy_takes_the_place_of_the_usual_one():
    own = ("x-systemd.device-timeout=300s", "x-systemd.before=a.service")
    line = host().look(wish(options=own)).changes[1].after
    assert line.split()[3] == ",".join((*own, "nofail", "x-systemd.before=local-fs.target"))


def test_way_out_of_a_word_that_the_type_does_not_know_names_the_policy():
    todo = host().look(wish(options=["nouatime"])).todo
    assert todo == "is `noatime` meant? (options of /data in data_mounts of the policy)"


def test_disk_that_two_mounts_name_differently_is_mounted_once():
    machine = host()
    wishes = (wish(), wish("/more", source="/dev/sdb"))
    facts = machine.facts
    addresses = [one for each in wishes for one in DataMountWish().addresses(each, facts)]
    state = {one: address_kinds()[one.kind].read(machine.writer, one.name) for one in addresses}

    first, second = DataMountWish().compare(
        wishes, Context(facts, state, {}, Risk.LOW, Disturbs.NOTHING)
    )

    assert [str(one.address) for one in first.changes][1:] == [
        "fstab-line:/data",
        "data-mount:/data",
    ]
    assert (
        str(second.hold)
        == "blocked: /dev/sdb is /dev/sdb, which data_mounts of the policy mounts at /data too"
    )
    assert (second.changes, second.todo) == ((), "leave one target for each disk")


def test_unit_of_an_administrator_owns_the_target():
    finding = host(files={"/etc/systemd/system/data.mount": "[Mount]\n"}).look(wish())
    assert (finding.hold.kind, finding.changes) == (HoldKind.OWNED, ())
    assert "data.mount" in finding.hold.detail


def test_swap_is_not_mounted(monkeypatch):
    monkeypatch.setattr(Machine, "swaps", (SimpleNamespace(path="/dev/sdb"),))
    assert "is used as swap" in host().look(wish()).hold.detail


def test_unmounting_what_another_disk_took_is_refused():
    machine = host()
    changes = machine.look(wish()).changes
    machine.apply(changes)
    machine.writer.unmount("/data")
    with pytest.raises(Refused, match="no longer as in the plan"):
        machine.undo(changes)


def test_folder_that_came_after_the_plan_is_a_conflict():
    machine = host()
    folder, *_ = machine.look(wish()).changes
    machine.writer.make_folder("/data")
    with pytest.raises(Conflict, match="/data is no longer as in the plan"):
        machine.apply((folder,))


def test_disk_that_went_after_the_plan_is_not_mounted_and_the_refusal_names_it():
    machine = host()
    *before, mount = machine.look(wish()).changes
    machine.apply(before)
    machine.writer.base.queries[LSBLK] = json.dumps({"blockdevices": []})
    with pytest.raises(Refused, match="no device is UUID=b7-1f any more"):
        machine.apply((mount,))


def test_under_a_root_folder_the_disks_are_unknown():
    finding = host(persistent_only=True, mountinfo=None).look(wish())
    assert finding.verdict is Verdict.UNKNOWN


def test_new_line_has_the_style_of_its_file():
    line = host(fstab=ROOT_LINE.replace(" ", "\t")).look(wish()).changes[1].after
    assert line == LINE.replace(" ", "\t")


def test_file_that_a_tool_manages_gets_no_line():
    finding = host(fstab="# Ansible managed\n" + ROOT_LINE).look(wish())
    assert (finding.hold.kind, finding.changes) == (HoldKind.OWNED, ())
    assert "Ansible managed" in finding.hold.detail


def test_options_of_a_line_that_is_there_are_part_of_the_plan_and_must_still_be_so():
    machine = host(
        fstab=ROOT_LINE + "UUID=b7-1f /data xfs noatime,nofail 0 0\n", folders=("/data",)
    )
    (change,) = machine.look(wish()).changes
    assert change.after == "xfs UUID=b7-1f noatime,nofail"
    machine.writer.files["/etc/fstab"] = FileValue(
        (ROOT_LINE + "UUID=b7-1f /data xfs ro,nofail 0 0\n").encode()
    )
    with pytest.raises(Conflict, match="options of /data are no longer noatime,nofail"):
        machine.apply((change,))


LOOP = row("/dev/loop0", "xfs", "b7-1f", label="data")
OF_LOOP = sysfs("loop0", "7:0")
OPENED = row("/dev/mapper/evil-vg", "xfs", "b7-1f", label="data")
OF_OPENED = {**OF_LOOP, **sysfs("dm-0", "253:0", loop0=""), "/sys/block/dm-0/dm/name": "evil-vg"}


@pytest.mark.parametrize(
    ("source", "image", "files"),
    [
        ("UUID=b7-1f", LOOP, OF_LOOP),
        ("LABEL=data", LOOP, OF_LOOP),
        ("LABEL=data", OPENED, OF_OPENED),
        ("/dev/mapper/evil-vg", OPENED, OF_OPENED),
    ],
)
def test_image_of_a_user_is_not_mounted_for_a_disk_that_is_missing(source, image, files):
    """What root mounts has no nosuid: a program in it that belongs to root would run as root."""
    finding = host([image], files=files).look(wish(source=source))

    assert (finding.hold.kind, finding.changes) == (HoldKind.REFUSED, ())
    assert "a file that a user can attach" in finding.hold.detail


def test_image_of_a_user_is_no_copy_of_the_disk():
    machine = host([DISK, LOOP], files=OF_LOOP)
    finding = machine.look(wish())
    assert finding.changes[-1].reason == "mounts /dev/sdb"

    machine.apply(finding.changes)
    assert machine.look(wish()).verdict is Verdict.OK


def test_image_that_a_user_attached_after_the_plan_is_not_mounted():
    machine = host(files=OF_LOOP)
    *before, mount = machine.look(wish()).changes
    machine.apply(before)
    machine.writer.base.queries[LSBLK] = json.dumps({"blockdevices": [LOOP]})

    with pytest.raises(Refused, match="no device is UUID=b7-1f any more"):
        machine.apply([mount])


def test_loop_device_that_the_policy_names_is_meant():
    machine = host([LOOP], files=OF_LOOP)
    finding = machine.look(wish(source="/dev/loop0"))
    machine.apply(finding.changes)

    assert machine.look(wish(source="/dev/loop0")).verdict is Verdict.OK
