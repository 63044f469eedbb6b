"""What a boot fails by besides the lines and their disks: types that its kernel lacks, swap by
type, hidden swap files.
"""

import pytest

from hosttune.facts.storage.kernel_types import find_lacking_kernel
from hosttune.host.door import Stat
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from tests.unit.test_fstab_sources import HELD, UUID, host

DATA = "31 22 8:16 / /data rw shared:9 - ext4 /dev/sdb rw\n"
RELEASE = "6.14.0-24-generic"
LISTS = {
    "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
    f"/lib/modules/{RELEASE}/modules.builtin": "kernel/fs/ext4/ext4.ko\nkernel/fs/isofs/isofs.ko\n",
    f"/lib/modules/{RELEASE}/modules.dep": "kernel/fs/xfs/xfs.ko.zst: a.ko\nupdates/dkms/zfs.ko:\nkernel/fs/nfs/nfsv4.ko.xz:\n",
}


@pytest.mark.parametrize(
    ("fstype", "lacks"),
    [
        ("ext4", False), ("ext3", False), ("xfs", False), ("zfs", False), ("iso9660", False), ("nfs4", False),
        ("ntfs3", True), ("btrfs", True), ("ceph", True), ("btrfs,xfs", False), ("auto", False), ("fuse.sshfs", False),
        ("ntfs", False), ("newfs", False), ("exfat", True),
    ],
)  # fmt: skip
def test_type_that_the_kernel_of_the_next_boot_lacks(fstype, lacks):
    assert find_lacking_kernel(host("", more=LISTS), fstype) == RELEASE * lacks


@pytest.mark.parametrize("gone", list(LISTS)[1:])
def test_lists_of_modules_that_cannot_be_read_say_nothing(gone):
    more = {path: text for path, text in LISTS.items() if path != gone}
    assert find_lacking_kernel(host("", more=more), "ntfs3") == ""


def test_helper_of_exfat_needs_no_module():
    assert find_lacking_kernel(host("", more={**LISTS, "/usr/sbin/mount.exfat": ""}), "exfat") == ""


@pytest.mark.parametrize(
    ("options", "mounts", "is_fault"),
    [
        ("defaults", (), True),
        ("nofail", (DATA.replace("ext4", "btrfs"),), True),
        ("nofail", (), False),
    ],
)
def test_line_of_such_a_type(options, mounts, is_fault):
    held = (HELD[0], ("sdb", "/dev/sdb", "btrfs", "", UUID, "", ""))
    facts = host(f"UUID={UUID} /data btrfs {options} 0 2", *mounts, held=held, more=LISTS)
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/data"]
    assert bool(line.fault) is is_fault
    assert (
        f"the kernel of the next boot ({RELEASE}) does not have: the mount fails"
        in line.fault + line.remark
    )


VFAT = {
    **LISTS,
    f"/lib/modules/{RELEASE}/modules.dep": "kernel/fs/fat/vfat.ko: kernel/fs/fat/fat.ko\nkernel/fs/fat/fat.ko:\n",
    "/etc/sysctl.d/60-hardening.conf": "# x\nkernel.modules_disabled = 1\n",
    "/proc/sys/kernel/modules_disabled": "0\n",
    "/proc/stat": "btime 1000\n",
}  # ComplianceAsCode/content#12508
EFI = "31 22 8:1 / /boot/efi rw - vfat /dev/sdb rw\n"


@pytest.mark.parametrize(
    ("more", "options", "mounts", "is_fault"),
    [
        ({}, "umask=0077", (EFI,), True),
        ({}, "umask=0077", (), True),
        ({}, "nofail", (), False),
        (
            {"/etc/sysctl.d/60-hardening.conf": "kernel.modules_disabled = 0\n"},
            "umask=0077",
            (EFI,),
            False,
        ),
        ({"/etc/sysctl.d/99-z.conf": "kernel.modules_disabled=0\n"}, "umask=0077", (EFI,), False),
        (
            {f"/lib/modules/{RELEASE}/modules.builtin": "kernel/fs/fat/vfat.ko\n"},
            "umask=0077",
            (EFI,),
            False,
        ),
        ({"/etc/modules-load.d/vfat.conf": "vfat\n"}, "umask=0077", (EFI,), False),
        (
            {
                "/etc/modules-load.d/vfat.conf": "vfat\n",
                "/etc/modprobe.d/site.conf": "blacklist vfat\n",
            },
            "umask=0077",
            (EFI,),
            True,
        ),  # systemd-modules-load leaves it out
        ({"/etc/modprobe.d/site.conf": "blacklist vfat\n"}, "umask=0077", (EFI,), True),
        ({"/etc/initramfs-tools/modules": "vfat # of the ESP\n"}, "umask=0077", (EFI,), False),
        (
            {"/proc/sys/kernel/modules_disabled": "1\n"},
            "umask=0077",
            (EFI,),
            False,
        ),  # as this boot has shown
        ({"/proc/sys/kernel/modules_disabled": "1\n"}, "umask=0077", (), True),
    ],
)
def test_type_whose_module_no_boot_may_load_any_more(more, options, mounts, is_fault):
    held = (HELD[0], ("sdb", "/dev/sdb", "vfat", "", "024D-8283", "", ""))
    facts = host(
        f"UUID=024D-8283 /boot/efi vfat {options} 0 1", *mounts, held=held, more={**VFAT, **more}
    )
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/boot/efi"]
    assert bool(line.fault) is is_fault
    if is_fault:
        assert (
            "/etc/sysctl.d/60-hardening.conf:2 has the next boot load none any more" in line.fault
        )
        assert (
            "take kernel.modules_disabled out of /etc/sysctl.d/60-hardening.conf:2" in line.way_out
        )
        first = "do not reboot before /etc/sysctl.d/60-hardening.conf:2 is correct\n"
        assert line.way_out_of_fault.startswith(first)
        assert "how the line is read" not in line.way_out_of_fault


@pytest.mark.parametrize(
    ("source", "command_line", "is_fault"),
    [
        ("UUID=3b0f1a52-7c1d-4c63-9a0e-5d1d54f7a111", "root=/dev/sda2 ro quiet", True),
        ("LABEL=gone", "root=/dev/sda2 ro quiet", True),
        (
            "UUID=3b0f1a52-7c1d-4c63-9a0e-5d1d54f7a111",
            "root=/dev/sda2 ro quiet rw",
            False,
        ),  # it comes up writable
        ("UUID=3b0f1a52-7c1d-4c63-9a0e-5d1d54f7a111", "root=/dev/sda2", False),
        ("/dev/sdq7", "root=/dev/sda2 ro", False),  # of a path a remount does not look
        ("UUID=0a11-22", "root=/dev/sda2 ro", False),
    ],
)
def test_root_whose_tag_no_device_has_stays_read_only(source, command_line, is_fault):
    """Tried with mount(8) of util-linux 2.38: `mount -o remount` of such a line ends with 1, that
    of a path with 0.
    """
    facts = host(
        f"{source} / ext4 errors=remount-ro 0 1", more={"/proc/cmdline": f"{command_line}\n"}
    )
    faults = [one.fault for one in look_at_boot_lines(facts) if one.fault]
    assert [
        one.endswith("fails at the next boot, and the root file system stays read-only")
        for one in faults
    ] == [True] * is_fault


HARDENED = "/etc/modprobe.d/dev-sec.conf"


@pytest.mark.parametrize(
    ("said", "more", "mounts", "is_fault"),
    [
        ("install cramfs /bin/true\ninstall vfat /bin/true\n", {}, (), True),
        ("install vfat /bin/false\n", {}, (), True),
        ("blacklist vfat\n", {}, (), True),  # mount(8) has it loaded by its alias fs-vfat
        ("install cramfs /bin/true\n", {}, (), False),
        ("install vfat /sbin/modprobe --ignore-install vfat\n", {}, (), False),
        ("# install vfat /bin/true\n", {}, (), False),
        ("install vfat /bin/true\n", {"/etc/initramfs-tools/modules": "vfat\n"}, (), False),
        (
            "install vfat /bin/true\n",
            {f"/lib/modules/{RELEASE}/modules.builtin": "kernel/fs/fat/vfat.ko\n"},
            (),
            False,
        ),
        (
            "install vfat /bin/true\n",
            {},
            (EFI,),
            False,
        ),  # as this boot has shown: the file is older
    ],
)
def test_type_whose_module_modprobe_keeps_out(said, more, mounts, is_fault):
    """dev-sec/ansible-collection-hardening#288."""
    held = (HELD[0], ("sdb", "/dev/sdb", "vfat", "", "024D-8283", "", ""))
    files = {**VFAT, "/etc/sysctl.d/60-hardening.conf": "", HARDENED: said, **more}
    facts = host("UUID=024D-8283 /boot/efi vfat umask=0077 0 1", *mounts, held=held, more=files)
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/boot/efi"]
    assert bool(line.fault) is is_fault
    if is_fault:
        assert (
            f"needs vfat, a module, and {HARDENED} keeps it from being loaded (vfat): the mount fails"
            in line.fault
        )
        assert (
            f"do not reboot before {HARDENED} is correct\ntake vfat out of {HARDENED}"
            in line.way_out_of_fault
        )


def test_line_of_modprobe_that_came_after_the_boot_counts_though_it_is_mounted_now():
    held = (HELD[0], ("sdb", "/dev/sdb", "vfat", "", "024D-8283", "", ""))
    files = {**VFAT, "/etc/sysctl.d/60-hardening.conf": "", HARDENED: "install vfat /bin/true\n"}
    facts = host("UUID=024D-8283 /boot/efi vfat umask=0077 0 1", EFI, held=held, more=files)
    facts.reader.stats[HARDENED] = Stat("file", 0o644, 0, 0, 23, 2000 * 10**9, 1, 77, 1)
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/boot/efi"]
    assert line.fault
    assert line.is_mounted


KUBELET = {
    "/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": "800\n",
    "/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet\n",
    "/sys/block/sda/sda3/size": "9000\n", "/sys/block/sda/sda3/dev": "8:3\n", "/proc/cmdline": "ro quiet\n",
    "/run/udev/data/b8:3": "E:ID_FS_TYPE=swap\nE:ID_PART_ENTRY_TYPE=0657fd6d-a4ab-43c4-84e5-0933c84b4f4f\n",
}  # fmt: skip
SWAP = (*HELD, ("sda3", "/dev/sda3", "swap", "", "5-5", "", ""))


@pytest.mark.parametrize(
    ("line", "more", "links", "count"),
    [
        ("", {}, {}, 1),
        (
            "/swap.img none swap sw 0 0",
            {"/swap.img": ""},
            {},
            0,
        ),  # the generator looks for none then
        ("", {"/proc/cmdline": "systemd.gpt_auto=0\n"}, {}, 0),
        (
            "",
            {"/run/udev/data/b8:3": KUBELET["/run/udev/data/b8:3"].replace("0657", "0658")},
            {},
            0,
        ),
        (
            "",
            {
                "/run/udev/data/b8:3": KUBELET["/run/udev/data/b8:3"]
                + "E:ID_PART_ENTRY_FLAGS=0x8000000000000000\n"
            },
            {},
            0,
        ),
        ("", {}, {"/etc/systemd/system/dev-sda3.swap": "/dev/null"}, 0),
        (
            "",
            {
                "/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/k --fail-swap-on=false\n"
            },
            {},
            0,
        ),
    ],
)
def test_swap_of_the_type_of_its_partition_beside_a_kubelet(line, more, links, count):
    facts = host(line, held=SWAP, more={**KUBELET, **more}, links=links)
    notes = [one.note for one in look_at_boot_lines(facts) if "by its GPT type" in one.note]
    assert len(notes) == count


@pytest.mark.parametrize(
    ("swap", "todo"),
    [
        (
            "/dev/sda3",
            "sudo swapoff /dev/sda3\nsudo systemctl mask dev-sda3.swap, or remove the partition",
        ),
        (
            "/dev/zram0",
            "sudo swapoff /dev/zram0\nsee what switches it on: systemctl status dev-zram0.swap\n",
        ),
    ],
)
def test_swap_in_use_beside_a_kubelet_has_the_way_out_of_what_switches_it_on(swap, todo):
    """deckhouse/deckhouse#8644: a swapoff lasts until the next boot."""
    row = f"Filename Type Size Used Priority\n{swap} partition 999420 0 -2\n"
    facts = host(
        "",
        held=SWAP,
        more={**KUBELET, "/proc/swaps": row, "/proc/meminfo": "SwapTotal: 999420 kB\n"},
    )
    (line,) = [one for one in look_at_boot_lines(facts) if "failSwapOn" in one.note]
    assert todo in line.way_out


@pytest.mark.parametrize(
    "source", ["ephemeral0.2", "swapfile", "sdb2"]
)  # MicrosoftDocs/azure-docs#77391
def test_swap_that_is_no_path_and_no_tag_is_noted(source):
    (line,) = [
        one
        for one in look_at_boot_lines(host(f"{source} none swap sw,comment=cloudconfig 0 0"))
        if one.note
    ]
    assert (line.target, line.is_of_device) == (f"swap {source}", False)
    assert line.note.endswith(": it is never used")


def test_swap_file_below_a_mount_may_be_hidden():
    (line,) = [
        one for one in look_at_boot_lines(host("/data/swapfile none swap sw 0 0", DATA)) if one.note
    ]
    assert "which is not there; it may lie below the mount of /data, which hides it" in line.note


NFS = "40 22 0:50 / /home rw - nfs4 server:/home rw\n"
FUSE = "41 40 0:60 / /home/shared rw - fuse /home/shared rw,user_id=0\n"


@pytest.mark.parametrize(
    ("line", "mounts", "count"),
    [
        ("server:/home /home nfs defaults 0 0", (NFS, FUSE), 1),
        (
            "server:/home /home nfs defaults 0 0",
            (NFS, FUSE.replace("- fuse /home", "- nfs4 server:/x")),
            0,
        ),
        ("server:/home /home nfs defaults 0 0", (NFS,), 0),
        (
            "server:/ / nfs defaults 0 0",
            ("23 1 0:70 / / rw - nfs4 server:/root rw\n", FUSE.replace(" 40 ", " 23 ")),
            0,
        ),
        ("bindfs#/x /home/shared fuse _netdev,nofail 0 0", (NFS, FUSE), 0),
    ],
)
def test_what_is_mounted_by_hand_on_a_share_can_hang_a_reboot(line, mounts, count):
    notes = [
        one.note
        for one in look_at_boot_lines(host(line, *mounts))
        if "the next reboot can hang" in one.note
    ]
    assert len(notes) == count


@pytest.mark.parametrize(("source", "count"), [(f"UUID={UUID}", 1), ("/dev/mapper/of-dm-0", 0)])
def test_volume_and_its_snapshot_of_one_uuid_are_remarked_by_fstab_only(source, count):
    volumes = [(f"of-dm-{n}", f"/dev/mapper/of-dm-{n}", "ext4", "", UUID, "", "") for n in (0, 1)]
    devices = [("dm-0", "253:0", ("sdb",)), ("dm-1", "253:1", ("sdb",))]
    mount = "31 22 253:0 / /data rw - ext4 /dev/mapper/of-dm-0 rw\n"
    facts = host(
        f"{source} /data ext4 defaults 0 2", mount, held=(HELD[0], *volumes), devices=devices
    )
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/data"]
    assert (line.fault, line.note, "as a snapshot has" in line.remark) == ("", "", bool(count))


@pytest.mark.parametrize(
    ("options", "fstype", "flags", "count"),
    [
        ("rw,nofail", "ntfs", "ro", 1),
        ("defaults", "ntfs", "ro", 1),
        ("ro,nofail", "ntfs", "ro", 0),
        ("defaults", "ntfs", "rw", 0),
        ("defaults", "fuseblk", "ro", 0),  # ntfs-3g, for a reason of its own
    ],
)
def test_ntfs_that_the_kernel_mounts_read_only(options, fstype, flags, count):
    held = (HELD[0], ("sdb", "/dev/sdb", "ntfs", "", "5AD4B6A3D4B6810D", "", ""))
    mount = f"31 22 8:16 / /data {flags} shared:9 - {fstype} /dev/sdb {flags}\n"
    lines = look_at_boot_lines(
        host(f"UUID=5AD4B6A3D4B6810D /data ntfs {options} 0 0", mount, held=held)
    )
    assert (
        len([one for one in lines if "by which this kernel mounts it read-only" in one.note])
        == count
    )


MENU = "linux /boot/vmlinuz-6.8.0-60-generic root=UUID=0a11-22 ro quiet\n"


@pytest.mark.parametrize(
    ("line", "menu", "booted", "is_fault"),
    [
        (f"UUID={UUID} /data ext4 nofail 0 2", MENU, 1000, True),
        (f"UUID={UUID} /data ext4 nofail 0 2", MENU.replace(" ro ", " rw "), 1000, False),
        (
            f"UUID={UUID} /data ext4 nofail 0 2",
            MENU.replace("root=UUID=0a11-22 ", ""),
            1000,
            False,
        ),  # by its GPT type
        (
            f"UUID={UUID} /data ext4 nofail 0 2",
            MENU,
            3000,
            False,
        ),  # this boot came up with that file
        ("UUID=0a11-22 / ext4 defaults 0 1", MENU, 1000, False),
    ],
)
def test_root_without_a_line_stays_read_only(line, menu, booted, is_fault):
    facts = host(line, more={"/boot/grub/grub.cfg": menu, "/proc/stat": f"btime {booted}\n"})
    facts.reader.stats["/etc/fstab"] = Stat("file", 0o644, 0, 0, 100, 2000 * 10**9, 1, 77, 1)
    faults = [one.fault for one in look_at_boot_lines(facts) if one.target == "/" and one.fault]
    assert (
        faults
        == [
            "/etc/fstab has no line of /, and the kernel mounts / read-only (ro): the next boot leaves it so"
        ]
        * is_fault
    )


@pytest.mark.parametrize(
    ("menu", "booted", "is_noted"),
    [
        (MENU, 1000, True),
        (MENU, 3000, False),
        (MENU.replace("quiet", "rootflags=data=writeback"), 1000, False),
    ],
)
def test_option_of_root_that_no_remount_sets(menu, booted, is_noted):
    more = {
        "/boot/grub/grub.cfg": menu,
        "/boot/vmlinuz-6.8.0-60-generic": "",
        "/proc/stat": f"btime {booted}\n",
    }
    facts = host(
        "UUID=0a11-22 / ext4 data=writeback 0 1",
        more={**more, "/proc/cmdline": "root=UUID=0a11-22 ro\n"},
    )
    facts.reader.stats["/etc/fstab"] = Stat("file", 0o644, 0, 0, 100, 2000 * 10**9, 1, 77, 1)
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/"]
    assert ("no remount can set `data=writeback`" in line.note) is is_noted
