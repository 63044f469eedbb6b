"""What the commands of a sosreport prove besides its files."""

from __future__ import annotations

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.host.door import Space
from hosttune.host.record.record import reader_of
from hosttune.values import ABSENT, Unreadable
from tests.unit.sos_reports import TOP, member, pack, sos_members, sosreport

DISK = "/devices/pci0000:00/0000:00:03.0/virtio2/block/vda"
UDEV = f"""P: {DISK}
E: DEVPATH={DISK}
E: SUBSYSTEM=block
E: DEVNAME=/dev/vda
E: DEVTYPE=disk
E: MAJOR=254
E: MINOR=0

P: {DISK}/vda1
E: DEVPATH={DISK}/vda1
E: SUBSYSTEM=block
E: DEVNAME=/dev/vda1
E: DEVTYPE=partition
E: MAJOR=254
E: MINOR=1
E: ID_FS_TYPE=ext4
E: ID_FS_LABEL_ENC=two\\x20words
E: ID_FS_UUID_ENC=3f0a3c52-0b65-4a40-9a0e-6f3d7f9f2a01

P: /devices/virtual/net/lo
E: DEVPATH=/devices/virtual/net/lo
E: SUBSYSTEM=net
"""
ATTRIBUTES = f"""
  looking at device '{DISK}':
    KERNEL=="vda"
    ATTR{{size}}=="6291456"
    ATTR{{queue/rotational}}=="1"
    ATTR{{secret}}=="(not-readable)"

  looking at parent device '/devices/pci0000:00/0000:00:03.0/virtio2':
    ATTRS{{vendor}}=="0x1af4"
"""
LS = """ls: a line of an error
/dev:
total 0
drwxr-xr-x 2 0 0  60 Nov 29 00:11 mapper
lrwxrwxrwx 1 0 0  13 Nov 29 00:11 fd -> /proc/self/fd
brw-rw---- 1 0 6 254, 0 Nov 29 00:11 vda

/dev/mapper:
total 0
lrwxrwxrwx 1 0 0 7 Nov 29  2025 two words -> ../dm-0
"""
DF = """Filesystem 1K-blocks Used Available Use% Mounted on
proc 0 0 0 - /proc
/dev/vda1 3021608 489108 2358832 18% /
a b 100 10 80 12% /with blank
tmpfs 10 0 10 0% /twice
tmpfs 20 0 20 0% /twice
"""
INODES = """Filesystem Inodes IUsed IFree IUse% Mounted on
/dev/vda1 196608 20842 175766 11% /
a b 8 1 7 12% /with blank
tmpfs 10 1 9 10% /twice
"""
DPKG = """||/ Name Version Architecture Description
+++-=====-=====-=====-=====
ii  dpkg           1.22.6 amd64 package management
hi  nvidia:amd64   570.1  amd64 held
iHR broken         1:2-3  all   half
rc  gone           4      amd64 removed
"""
ANSWERS = {
    ("devices", "udevadm info --export-db"): UDEV,
    ("block", "udevadm info -a /dev/vda"): ATTRIBUTES,
    ("block", "ls -lanR /dev"): LS,
    ("filesys", "df -al -x autofs"): DF,
    ("filesys", "df -ali -x autofs"): INODES,
    (
        "filesys",
        "dumpe2fs -h /dev/vda1",
    ): "Filesystem features:      has_journal\nErrors behavior:          Continue\n",
    ("dpkg", "dpkg -l"): DPKG,
    ("host", "uptime"): " 00:13:03 up 2 min,  0 user,  load average: 3.12, 1.06, 0.38\n",
    ("process", "ps -elfL"): "F S UID PID\n4 S root 1 0 1 6 1 init\n0 R root 9 1 9 0 1 ps -elfL\n",
}
PARTITIONS = "major minor  #blocks  name\n\n 254 0 3145728 vda\n 254 1 3144704 vda1\n"


def reader(files=None, answers=None, **changed):
    known = {"proc/partitions": PARTITIONS, **(files or {})}
    return reader_of(
        sosreport(answers={**ANSWERS, **(answers or {})}, files=known, **changed),
        "sosreport.tar.xz",
    )


def test_devices_attributes_and_names():
    host = reader()
    assert host.list("/sys/block") == ("vda",)
    assert host.list("/sys/class/block") == ("vda", "vda1")
    assert host.list("/sys/class/infiniband") == ()
    assert host.read("/sys/block/vda/size") == b"6291456\n"
    assert host.resolve("/sys/dev/block/254:1") == f"/sys{DISK}/vda1"
    assert isinstance(host.read("/sys/block/vda/secret"), Unreadable)
    assert isinstance(host.read("/sys/block/vda/not_shown"), Unreadable)
    assert host.list("/dev") == ("fd", "mapper", "vda")
    assert host.list("/dev/mapper") == ("two words",)
    assert host.link("/dev/mapper/two words") == "../dm-0"
    assert host.stat("/dev/nvidia0") is ABSENT
    assert [one.name for one in Facts(host).disks.all] == ["vda", "vda1"]


def test_link_of_a_user_adds_no_name_and_hides_none():
    """As ls(1) writes it into a file: the target of a link in /dev/shm, with lines, heads of
    folders and names.
    """
    target = "x\n\n/dev:\ntotal 0\ncrw-rw-rw- 1 0 0 195, 0 Nov 29 00:11 nvidia0\n\n/dev/mapper:\ntotal 0\n"
    target += "lrwxrwxrwx 1 0 0 7 Nov 29 00:11 vg-data -> ../dm-7"
    listed = LS.replace(
        "fd\n",
        "fd\ndrwxrwxrwt 2 0 0 40 Nov 29 00:11 shm\ndrwxrwxrwt 2 0 0 40 Nov 29 00:11 mqueue\n",
    )
    queues = "\n/dev/mqueue:\ntotal 0\n-rw------- 1 0 0 80 Nov 29 00:11 q\n"
    shm = f"\n/dev/shm:\ntotal 0\nlrwxrwxrwx 1 54321 54321 90 Nov 29 00:11 evil -> {target}\n"
    content = sosreport(answers={**ANSWERS, ("block", "ls -lanR /dev"): listed + queues + shm})
    host = reader_of(content, "sosreport-h.tar.xz")
    assert host.list("/dev") == ("fd", "mapper", "mqueue", "shm", "vda")
    assert host.list("/dev/mapper") == ("two words",)
    assert host.link("/dev/mapper/vg-data") is ABSENT
    assert host.list("/dev/mqueue") == ("q",)
    assert isinstance(host.list("/dev/shm"), Unreadable)


def test_file_systems_space_and_tasks():
    host = reader()
    assert host.space("/") == Space(3094126592, 2415443968, 196608, 175766, 177836032)
    assert host.space("/with blank") == Space(100 << 10, 80 << 10, 8, 7, 10 << 10)
    assert isinstance(host.space("/twice"), Unreadable)
    assert host.read("/proc/loadavg") == b"3.12 1.06 0.38 1/2 0\n"
    assert host.read("/sys/fs/ext4/vda1/errors_count") == b"0\n"
    command = (
        "lsblk",
        "--json",
        "--list",
        "--output",
        "NAME,PATH,FSTYPE,LABEL,UUID,PARTLABEL,PARTUUID",
    )
    rows = json.loads(host.query(command).text)["blockdevices"]
    assert [(one["name"], one["fstype"], one["label"]) for one in rows] == [
        ("vda", None, None), ("vda1", "ext4", "two words"),
    ]  # fmt: skip
    unknown = reader({"proc/partitions": PARTITIONS + " 8 0 100 sda\n"})
    assert isinstance(unknown.query(command), Unreadable)  # udev does not know one of them
    counted = "Filesystem features: x\nFS Error count:           3\n"
    assert isinstance(reader(answers={("filesys", "dumpe2fs -h /dev/vda1"): counted}).read(
        "/sys/fs/ext4/vda1/errors_count"), Unreadable)  # fmt: skip


def test_sizes_of_kernels_and_images_in_boot():
    listed = (
        "/boot:\ntotal 9\ndrwxr-xr-x 3 root root ? 4096 Nov 28 20:54 .\n"
        "-rw-r--r-- 1 root root ? 318 Nov 28 20:54 grub.cfg\n-rw-r--r-- 1 root root ? 9784731 Nov 28 20:54 initrd.img-6.8.0\n"
        "lrwxrwxrwx 1 root root ? 16 Nov 28 20:54 vmlinuz-6.8.0 -> vmlinuz-6.8.0-60\n"
    )
    host = reader(answers={("boot", "ls -alZR /boot"): listed})
    assert host.stat("/boot/initrd.img-6.8.0").size == 9784731
    assert isinstance(host.stat("/boot/grub.cfg"), Unreadable)
    assert host.stat("/boot/vmlinuz-6.8.0") is ABSENT  # the link leads nowhere


def test_pressure_of_the_host_is_that_of_the_uppermost_control_group():
    measured = "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    files = {
        "sys/fs/cgroup/memory.pressure": measured,
        "sys/fs/cgroup/system.slice/io.pressure": measured,
    }
    old = {"head": {"version": "4.0"}}  # newer ones take /proc/pressure
    assert reader(files, **old).read("/proc/pressure/memory") == measured.encode()
    assert isinstance(reader(files, **old).read("/proc/pressure/io"), Unreadable)
    assert reader(files).read("/proc/pressure/memory") is ABSENT
    assert (
        reader({**files, "proc/pressure/memory": "own\n"}, **old).read("/proc/pressure/memory")
        == b"own\n"
    )
    in_container = {("host", "hostnamectl status"): "  Chassis: container\n"}
    assert isinstance(reader(files, in_container, **old).read("/proc/pressure/memory"), Unreadable)


def test_packages_are_known_and_their_relations_are_not():
    packages = Facts(reader()).packages
    assert packages["dpkg"].is_installed
    assert (packages["nvidia"].version, packages["nvidia"].is_held) == ("570.1", True)
    assert packages["broken"].status == "half-installed, reinst-required"
    assert packages["gone"].status == "config-files"
    assert packages["no-such"].status == "not-installed"
    with pytest.raises(UnknownFact, match="depend"):
        packages.depends["dpkg"]
    with pytest.raises(UnknownFact, match="depend"):
        _ = packages.provided


@pytest.mark.parametrize(
    "changed", [{"kernel": {"timeout_hit": True}}, {"head": {"version": "4.4"}}]
)
def test_what_sos_always_takes_is_absent_where_it_did_not_and_the_plugin_ended(changed):
    assert reader().list("/run/modprobe.d") is ABSENT
    assert isinstance(reader(**changed).list("/run/modprobe.d"), Unreadable)
    assert isinstance(reader().list("/run/sysctl.d"), Unreadable)
    assert reader(head={"version": "4.12.0"}).list("/run/sysctl.d") is ABSENT
    left = reader(head={"version": "4.12.0"}, files={"run/sysctl.d/1.conf": "vm.swappiness = 1\n"})
    assert left.read("/run/sysctl.d/1.conf") == b"vm.swappiness = 1\n"


@pytest.mark.parametrize("damage", ["cleaned", "cut", "filtered"])
def test_damaged_archive_concludes_nothing_of_commands(damage):
    content = sosreport(
        answers=ANSWERS,
        head={"cmdline": "report --skip-files /etc/x" if damage == "filtered" else ""},
    )
    if damage == "cut":
        members = sos_members(answers=ANSWERS)
        content = pack([*members[-1:], *members[:-1]], "w")[: -(12 << 10)]
    host = reader_of(
        content, "sosreport-obfuscated.tar.xz" if damage == "cleaned" else "sosreport.tar.xz"
    )
    for answer in (
        host.list("/sys/block"),
        host.list("/dev"),
        host.list("/run/modprobe.d"),
        host.space("/"),
    ):
        assert isinstance(answer, Unreadable)


FILE_LIST = """UNIT FILE STATE PRESET
data.service enabled enabled
fstrim.timer enabled enabled
off.timer disabled enabled
changed.timer enabled enabled
getty@.service enabled enabled

5 unit files listed.
"""
UNITS = {
    ("systemd", "systemctl list-unit-files"): FILE_LIST,
    ("systemd", "systemctl list-units"): (
        "  UNIT LOAD ACTIVE SUB DESCRIPTION\n  fstrim.timer loaded active waiting Discard\n"
        "● site.service loaded failed failed words of it\n  data.mount loaded active mounted /data\n"
    ),
    (
        "systemd",
        "systemctl list-units --failed",
    ): "  UNIT LOAD\n● site.service loaded failed failed words\n",
    ("systemd", "systemctl show *service --all"): (
        "Id=data.service\nNames=data.service alias.service\nLoadState=loaded\nActiveState=active\n"
        "UnitFileState=enabled\nFragmentPath=/usr/lib/systemd/system/data.service\nNeedDaemonReload=no\n"
    ),
    ("systemd", "systemctl status --all"): "data.service\n",
    ("systemd", "systemd-delta"): "0 overridden configuration files found.\n",
}
FOLDER = "usr/lib/systemd/system"
UNIT_FILES = {
    f"{FOLDER}/{name}": "[Unit]\n"
    for name in ("data.service", "fstrim.timer", "off.timer", "changed.timer", "getty@.service")
} | {f"{FOLDER}/changed.timer.d/1.conf": "[Timer]\n"}


def units_reader(answers=None, files=None, **changed):
    members = sos_members(
        answers={**UNITS, **(answers or {})}, files={**UNIT_FILES, **(files or {})}, **changed
    )
    folders = [
        member(f"{TOP}/{one}", b"5") for one in (FOLDER, "etc/systemd/system", "run/systemd/system")
    ]
    taken = json.loads(members[-1][1])
    own = taken["components"]["report"]["plugins"]["systemd"]
    own["files"] = [
        {"specification": one}
        for one in ("/etc/systemd", "/lib/systemd/system", "/run/systemd/system")
    ]
    members[-1] = member(members[-1][0].name, content=json.dumps(taken))
    return reader_of(pack([*members[:1], *folders, *members[1:]]), "sosreport.tar.xz")


def show(host, *names):
    command = (
        "systemctl",
        "show",
        "--no-pager",
        "--property=Id,LoadState,ActiveState,FragmentPath",
        "--",
        *names,
    )
    answer = host.query(command)
    return answer if isinstance(answer, Unreadable) else answer.text.split("\n\n")


def test_units_of_lists_and_of_what_systemd_showed():
    host = units_reader()
    assert show(host, "data.service", "fstrim.timer", "none.service", "off.timer") == [
        "Id=data.service\nLoadState=loaded\nActiveState=active\nFragmentPath=/usr/lib/systemd/system/data.service",
        "Id=fstrim.timer\nLoadState=loaded\nActiveState=active\nFragmentPath=/usr/lib/systemd/system/fstrim.timer",
        "Id=none.service\nLoadState=not-found\nActiveState=inactive",
        "Id=off.timer\nLoadState=loaded\nActiveState=inactive\nFragmentPath=/usr/lib/systemd/system/off.timer\n",
    ]
    assert show(host, "alias.service")[0].startswith("Id=data.service\n")
    failed = host.query(
        ("systemctl", "list-units", "--state=failed", "--all", "--plain", "--no-legend")
    )
    assert failed.text == "site.service loaded failed failed \n"


@pytest.mark.parametrize(
    "name", ["getty@tty1.service", "changed.timer", "data.mount", "site.service"]
)
def test_units_that_templates_drop_ins_or_nothing_that_is_listed_make_are_unknown(name):
    assert isinstance(show(units_reader(), name), Unreadable)


@pytest.mark.parametrize(
    ("answers", "files"),
    [
        (
            {
                (
                    "systemd",
                    "systemd-delta",
                ): "[MASKED] /usr/local/lib/systemd/system/a -> /usr/lib/systemd/system/a\n"
            },
            {},
        ),
        ({("systemd", "systemd-delta"): None}, {}),
        (
            {
                (
                    "systemd",
                    "systemctl status --all",
                ): "Warning: The unit file of fstrim.timer changed on disk."
            },
            {},
        ),
        ({("systemd", "systemctl status --all"): None}, {}),
        (
            {
                ("systemd", "systemctl list-unit-files"): FILE_LIST
                + "local.service enabled enabled\n"
            },
            {},
        ),
        ({}, {f"{FOLDER}/timer.d/1.conf": "[Timer]\n"}),
    ],
)
def test_file_of_a_unit_that_may_be_another_one_is_unknown(answers, files):
    assert isinstance(show(units_reader(answers, files), "fstrim.timer"), Unreadable)


def test_folders_of_programs_that_are_not_there_are_absent():
    host = units_reader({("dpkg", "dpkg -l"): DPKG})
    assert host.read("/run/cloud-init/cloud-id") is ABSENT
    assert host.list("/usr/local/lib/systemd/system") is ABSENT
    assert host.list("/proc/spl/kstat/zfs") is ABSENT
    with_cloud = {
        ("systemd", "systemctl list-unit-files"): FILE_LIST + "cloud-init.service enabled enabled\n"
    }
    host = units_reader({("dpkg", "dpkg -l"): DPKG, **with_cloud})
    assert isinstance(host.read("/run/cloud-init/cloud-id"), Unreadable)
    assert isinstance(units_reader().read("/run/cloud-init/cloud-id"), Unreadable)
    host = reader({"sys/module/spl/version": "2.2\n"})
    assert host.list("/proc/spl/kstat/zfs") is not ABSENT
