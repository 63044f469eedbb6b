"""How much room /boot has for a new initial RAM disk, and which kernels may go."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.room import room_at, size_text
from hosttune.host.door import Space
from tests.unit.fake_reader import FakeReader

MIB = 1 << 20
OLD, RUNNING, NEW = "6.8.0-40-generic", "6.8.0-45-generic", "6.8.0-48-generic"
ROOT = "20 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n"
SEPARATE = f"{ROOT}21 20 8:1 / /boot rw,relatime - ext4 /dev/sda1 rw\n"
HOST = {
    f"/proc/self/ns/{kind}": f"{kind}:[{n}]"
    for kind, n in (("pid", 4026531836), ("user", 4026531837))
}


def menu(kernel):
    return f"menuentry 'Ubuntu' {{\n\tlinux /boot/vmlinuz-{kernel} root=UUID=0a ro\n}}\n"


def packages(*names, status="install ok installed"):
    return "".join(
        f"Package: {one}\nStatus: {status}\nArchitecture: amd64\nVersion: 1\n\n" for one in names
    )


def room_of(
    kernels=(RUNNING,), *, images=None, free=1 << 30, inodes=60_000, reserved=0, mounts=SEPARATE, following="", status=None,
    total_inodes=65_536, fstab="", **files,
):  # fmt: skip
    """`images`: size of each by kernel; `free` is of the file system that holds /boot."""
    every = {f"/boot/vmlinuz-{one}": "" for one in kernels}
    every |= {f"/boot/initrd.img-{one}": b"\0" * size for one, size in (images or {}).items()}
    every |= {"/boot/grub/grub.cfg": menu(following)} if following else {}
    database = packages(*(f"linux-image-{one}" for one in kernels)) if status is None else status
    every |= {
        "/proc/self/mountinfo": mounts,
        "/proc/sys/kernel/osrelease": f"{RUNNING}\n",
        "/etc/fstab": fstab,
    }
    every |= {"/var/lib/dpkg/status": database, "/proc/uptime": ""} | files
    space = Space(1 << 30, free, total_inodes, inodes, reserved)
    big = Space(1 << 40, 1 << 39, 1 << 20, 1 << 19, 0)
    spaces = {"/": big, "/boot": space} if mounts == SEPARATE else {"/": space}
    return Facts(
        FakeReader(every, links=HOST, folders=["/boot", "/sys/firmware"], spaces=spaces)
    ).boot_room


@pytest.mark.parametrize(
    ("more", "full"),
    [
        ({"images": {RUNNING: 3 * MIB}, "free": 3 * MIB}, False),
        ({"images": {RUNNING: 3 * MIB}, "free": 3 * MIB - 1}, True),
        ({"images": {RUNNING: MIB, OLD: 3 * MIB}, "free": 2 * MIB}, True),
        ({"images": {RUNNING: 3 * MIB}, "free": 2 * MIB, "reserved": MIB}, False),
        ({"free": 63 * MIB}, True),
        ({"free": 64 * MIB}, False),
        ({"free": 0, "status": packages("dpkg")}, False),
        ({"images": {RUNNING: MIB}, "inodes": 7}, True),
        ({"images": {RUNNING: MIB}, "inodes": 0, "total_inodes": 0}, False),
        ({"free": 0, "mounts": ROOT}, True),
    ],
    ids=[
        "just enough", "a byte less", "the largest counts", "what is kept for root is room", "no image: the usual size",
        "the usual size fits", "nothing builds an image", "inodes", "inodes as they are needed", "a folder of /",
    ],
)  # fmt: skip
def test_full_is_less_than_the_largest_image_needs(more, full):
    assert room_of(**more).is_full is full


def test_what_is_left_and_needed_is_told():
    assert (
        room_of(free=24 * MIB).told
        == "/boot has 24 MiB left, and a new initial RAM disk needs 64 MiB there"
    )
    few = room_of(inodes=3)
    assert (
        few.told == "/boot has room for 3 more files (inodes), too few for a new initial RAM disk"
    )


@pytest.mark.parametrize(
    ("kernels", "following", "spare"),
    [
        ((OLD, RUNNING), RUNNING, (OLD,)),
        ((OLD, RUNNING, NEW), NEW, (OLD,)),
        ((OLD, RUNNING, NEW), RUNNING, (OLD,)),
        ((RUNNING, NEW), RUNNING, (NEW,)),
        ((OLD, RUNNING, NEW), OLD, (NEW,)),
        ((RUNNING,), RUNNING, ()),
        ((RUNNING, NEW), NEW, ()),
        ((OLD, RUNNING), "6.8.0-99-generic", ()),
    ],
    ids=[
        "an old one", "the next one stays", "old before new", "a newer one that does not boot", "an old one that boots next",
        "the only one", "both are needed", "what boots next is not known",
    ],
)  # fmt: skip
def test_kernel_that_runs_or_boots_next_is_never_named(kernels, following, spare):
    boot = room_of(kernels, following=following)
    assert boot.spare == spare
    removed = boot.way_out.partition("purge linux-image")[2].partition("(keep")[0]
    assert RUNNING not in removed
    assert following not in removed


def test_autoremove_is_advised_only_where_it_keeps_what_boots_next():
    """Apt keeps the running kernel and the newest ones, not one that GRUB was told to start."""
    assert room_of((OLD, RUNNING), following=RUNNING).way_out == (
        f"sudo apt-get autoremove --purge\nwhere that is not enough, sudo apt-get purge linux-image-{OLD} "
        f"(keep: {RUNNING} runs)"
    )
    pinned = room_of((OLD, RUNNING, NEW), following=OLD).way_out
    assert (
        pinned == f"sudo apt-get purge linux-image-{NEW} (keep: {RUNNING} runs, {OLD} boots next)"
    )


def test_metapackage_that_goes_with_the_newest_kernel_is_brought_back():
    names = (
        f"linux-image-{RUNNING}",
        f"linux-image-{NEW}",
        f"linux-modules-nvidia-580-{NEW}",
        "linux-image-generic",
    )
    boot = room_of((RUNNING, NEW), following=RUNNING, status=packages(*names))
    assert (
        f"purge linux-image-{NEW} linux-modules-nvidia-580-{NEW}\nonce there is room"
        in boot.way_out
    )
    assert "sudo apt-get install linux-image-generic (keep" in boot.way_out


def test_copies_of_images_go_first_unless_dpkg_may_be_at_work():
    files = {f"/boot/initrd.img-{NEW}.new": "x", f"/boot/initrd.img-{RUNNING}.old-dkms": "x"}
    copies = f"sudo rm /boot/initrd.img-{RUNNING}.old-dkms /boot/initrd.img-{NEW}.new\n"
    assert room_of((OLD, RUNNING), following=RUNNING, **files).way_out.startswith(
        copies + "sudo apt-get autoremove"
    )
    busy = files | {"/var/lib/dpkg/updates/0001": packages("dpkg")}
    assert "sudo rm" not in room_of((OLD, RUNNING), following=RUNNING, **busy).way_out


def test_kernel_half_way_counts_and_one_without_package_or_removed_does_not():
    half = packages(f"linux-image-{OLD}", status="install ok half-configured") + packages(
        f"linux-image-{RUNNING}"
    )
    gone = packages(f"linux-image-{OLD}", status="deinstall ok config-files") + packages(
        f"linux-image-{RUNNING}"
    )
    assert room_of((OLD, RUNNING), following=RUNNING, status=half).spare == (OLD,)
    assert room_of((OLD, RUNNING), following=RUNNING, status=gone).spare == ()


def test_where_no_kernel_can_go_what_else_lies_there_is_shown():
    assert room_of((RUNNING, NEW), following=NEW).way_out == (
        f"no kernel can go ({RUNNING} runs, {NEW} boots next): see what else is there: "
        "sudo du -xah /boot | sort -h | tail -n 30"
    )
    assert room_of(mounts=ROOT).way_out.startswith("sudo apt-get clean\nno kernel can go")


@pytest.mark.parametrize(
    ("images", "missing"),
    [({OLD: 1, RUNNING: 1}, NEW), ({OLD: 1, RUNNING: 1, NEW: 0}, NEW), ({OLD: 1, RUNNING: 1, NEW: 1}, ""), ({}, ""), ({OLD: 1}, "")],
    ids=["it has none", "it is empty", "it has one", "nothing has one", "not all of the others have one"],
)  # fmt: skip
def test_next_kernel_without_an_image(images, missing):
    assert room_of((OLD, RUNNING, NEW), following=NEW, images=images).no_image == missing


def test_boot_that_fstab_mounts_and_that_is_not_mounted():
    line = "UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1d /boot ext4 defaults 0 2\n"
    assert room_of(mounts=ROOT, fstab=line).unmounted.startswith(
        "line 1 of /etc/fstab mounts /boot, and nothing is mounted"
    )
    assert room_of(fstab=line).unmounted == ""


def test_file_server_is_not_asked():
    served = Facts(
        FakeReader({"/proc/self/mountinfo": "20 1 0:50 / / rw - nfs4 srv:/root rw\n"}, spaces={})
    )
    with pytest.raises(UnknownFact):
        room_at(served, "/boot")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 MiB"), (1, "less than 1 MiB"), (24 * MIB, "24 MiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes_for_people(size, text):
    assert size_text(size) == text
