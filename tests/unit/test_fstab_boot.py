"""What of an fstab the next boot does not do as it should: by the text, the kernel and what is
mounted now.
"""

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Stat
from hosttune.resources.storage.fstab_boot import look_at_boot_lines, next_kernel
from tests.unit.fake_reader import FakeReader

DISK = "UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f"
MOUNTS = "22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n31 22 259:16 / /data rw shared:9 - ext4 /dev/nvme1n1 rw\n"


def facts(
    *lines,
    kernel="6.8.0-60-generic",
    mounts=MOUNTS,
    systemd="255.4-1ubuntu8",
    os_release="",
    **kwargs,
):
    status = (
        f"Package: systemd\nStatus: install ok installed\nArchitecture: amd64\nVersion: {systemd}\n"
    )
    files = {
        "/var/lib/dpkg/status": status,
        "/etc/fstab": "".join(f"{line}\n" for line in lines),
        "/proc/self/mountinfo": mounts,
        "/etc/os-release": os_release,
    }
    return Facts(FakeReader({**files, "/proc/sys/kernel/osrelease": f"{kernel}\n"}, **kwargs))


def faults(*lines, **kwargs):
    return [one.target for one in look_at_boot_lines(facts(*lines, **kwargs)) if one.fault]


@pytest.mark.parametrize(
    ("options", "kernel", "is_fault"),
    [
        ("defaults", "6.8.0-60-generic", False),
        ("defautls", "6.8.0-60-generic", True),
        ("defautls,nofail", "6.8.0-60-generic", True),  # mounted now: a boot loses it
        ("defautls,noauto", "6.8.0-60-generic", False),
        ("defautls", "7.9.1", False),  # of no table: a doubt, not a fault
        ("compress=zstd", "7.9.1", True),  # of another type
        ("nouser_xattr", "6.8.0", True),
        ("noatime;nofail", "7.9.1", True),
    ],
)
def test_line_of_a_mounted_disk(options, kernel, is_fault):
    assert faults(f"{DISK} /data ext4 {options} 0 2", kernel=kernel) == ["/data"] * is_fault


@pytest.mark.parametrize(
    ("options", "is_fault"), [("compress=zstd", True), ("compress=zstd,nofail", False)]
)
def test_line_of_a_disk_that_is_not_mounted_counts_where_a_boot_needs_it(options, is_fault):
    assert faults(f"{DISK} /scratch ext4 {options} 0 2") == ["/scratch"] * is_fault


def test_image_is_held_to_its_text_and_its_own_kernel():
    image = {
        "kind": "root",
        "persistent_only": True,
        "unreadable": dict.fromkeys(("/proc", "/sys", "/run"), "no"),
    }
    assert faults(f"{DISK} /data ext4 compress=zstd 0 2", **image) == ["/data"]
    assert next_kernel(facts(**image)) == ()


@pytest.mark.parametrize(
    ("line", "systemd", "is_fault"),
    [
        ("/data ext4 defaults # data", "259.1-1", True),  # systemd drops the line, as mount(8) does
        (
            "/data ext4 defaults # data",
            "255.4-1ubuntu8",
            False,
        ),  # getmntent(3) reads it as it is meant
        ("/data ext4 defautls # data", "255.4-1ubuntu8", True),
        ("/scratch ext4 defaults,nofail # data", "259.1-1", False),  # is not mounted now either
        ("/scratch", "255.4-1ubuntu8", True),  # of no type, and a boot waits for it
        ("/scratch", "259.1-1", False),
    ],
)
def test_line_that_its_readers_do_not_agree_on_counts_as_the_systemd_of_this_host_reads_it(
    line, systemd, is_fault
):
    assert faults(f"{DISK} {line}", systemd=systemd) == [line.split()[0]] * is_fault


def test_lines_that_wait_for_each_other_count():
    assert faults("/a/x /b none bind 0 0", "/b/x /a none bind 0 0") == ["/b", "/a"]


@pytest.mark.parametrize(
    "lines",
    [
        (
            f"{DISK} /data ext4 defaults 0 2",
            f"{DISK} /data ext4 defaults 0 2",
        ),  # the first is mounted
        ("bee /data beegfs rw 0 0",),  # without _netdev: it is mounted all the same
        (f"{DISK} none ext4 defaults 0 2",),  # no boot looks at it
        ("/swap none swap sw,defautls 0 0",),
        ("# nothing",),
    ],
)
def test_error_with_which_a_boot_goes_on_as_before_is_no_fault(lines):
    assert faults(*lines) == []


@pytest.mark.parametrize(("uid", "mode", "way_out"), [
    (0, 0o600, ""), (0, 0o644, "chmod 600 /swap.img"), (1001, 0o600, "swapoff /swap.img"),
])  # fmt: skip
def test_swap_file_whose_owner_may_read_memory_is_named(uid, mode, way_out):
    stats = {"/swap.img": Stat("file", mode, uid, 0, 1 << 30, 0, 1, 5, 1)}
    lines = look_at_boot_lines(facts("/swap.img none swap sw 0 0", stats=stats))
    (found,) = [one.way_out for one in lines if one.note] or [""]
    assert way_out in found
    assert bool(found) is bool(way_out)


def test_file_that_is_missing_has_no_lines_and_one_that_cannot_be_read_is_unknown():
    assert look_at_boot_lines(Facts(FakeReader({}))) == ()
    with pytest.raises(UnknownFact, match="not root"):
        look_at_boot_lines(Facts(FakeReader({}, unreadable={"/etc/fstab": "not root"})))


@pytest.mark.parametrize(
    ("systemd", "os_release", "is_noted"),
    [
        ("257.8-1", "ID=debian\nVERSION_ID=13\n", False),
        ("258-1", "ID=debian\n", True),
        ("255.4-1ubuntu8", "ID=ubuntu\nVERSION_ID=26.04\n", True),  # in the middle of an upgrade
        ("255.4-1ubuntu8", "ID=ubuntu\nVERSION_ID=24.04\n", False),
    ],
)
def test_automount_of_homes_is_noted_where_this_systemd_hangs_by_it(systemd, os_release, is_noted):
    host = facts(
        "nas:/home /home nfs4 noauto,x-systemd.automount,_netdev 0 0",
        systemd=systemd,
        os_release=os_release,
    )

    assert [one.target for one in look_at_boot_lines(host) if "hang the boot" in one.note] == [
        "/home"
    ] * is_noted


def test_bind_of_a_network_mount_is_noted_and_no_fault():
    lines = look_at_boot_lines(facts("nas:/x /nas nfs4 nofail 0 0", "/nas/a /home none bind 0 0"))

    assert [(one.target, one.fault) for one in lines if one.note] == [("/home", "")]


@pytest.mark.parametrize(
    ("line", "mounts", "is_noted"),
    [
        ("tmpfs /srv/scratch\u200b tmpfs size=4G 0 0", MOUNTS, True),
        ("tmpfs\u00a0/srv/scratch tmpfs size=4G 0 0", MOUNTS, True),
        (
            "tmpfs /srv/my\u3000data tmpfs size=4G 0 0",
            f"{MOUNTS}40 22 0:50 / /srv/my\u3000data rw - tmpfs tmpfs rw\n",
            False,
        ),
        ("tmpfs /srv/my\\040data tmpfs size=4G 0 0", MOUNTS, False),
        ("tmpfs /srv/donn\u00e9es tmpfs size=4G 0 0", MOUNTS, False),
    ],
)
def test_what_only_looks_like_a_blank_is_noted_unless_the_name_is_meant(line, mounts, is_noted):
    lines = look_at_boot_lines(facts(line, mounts=mounts))

    assert [one.fault for one in lines if "is no blank" in one.note] == [""] * is_noted


S3FS = "40 22 0:60 / /bucket rw shared:20 - fuse.s3fs s3fs rw,user_id=0\n"


@pytest.mark.parametrize(
    ("options", "is_noted"), [("allow_other", True), ("_netdev", False), ("nofail", False)]
)
def test_fuse_on_the_network_that_is_mounted_now_is_noted_where_a_boot_ends_by_it(
    options, is_noted
):
    lines = look_at_boot_lines(
        facts(f"bucket /bucket fuse.s3fs {options} 0 0", mounts=f"{MOUNTS}{S3FS}")
    )
    (line,) = [one for one in lines if one.target == "/bucket"]
    assert (line.fault, "before there is a network" in line.note) == ("", is_noted)
