"""/etc/crypttab held against the disks and fstab, and a swap to resume from that no disk has."""

import pytest

from hosttune.facts.storage.crypttab import parse_crypttab
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from tests.unit.test_fstab_sources import HELD, OTHER, UUID, host

LUKS = "11111111-2222-4333-8444-555555555555"
HELD_OPEN = (
    HELD[0],
    ("sdb", "/dev/sdb", "crypto_LUKS", "", LUKS, "", ""),
    ("of-dm-0", "/dev/mapper/of-dm-0", "ext4", "", UUID, "", ""),
)
HELD_CLOSED = HELD_OPEN[:2]
OPEN = [("dm-0", "253:0", ("sdb",))]
MOUNT = "31 22 253:0 / /data rw shared:9 - ext4 /dev/mapper/of-dm-0 rw\n"
MAPPED = f"UUID={UUID} /data ext4 defaults 0 2"
CMDLINE = {"/proc/cmdline": "root=UUID=0a11-22 ro\n"}


def found(crypttab, fstab=MAPPED, *, is_open=True, more=(), is_mounted=True):
    facts = host(
        fstab, *[MOUNT] * (is_open and is_mounted), held=HELD_OPEN if is_open else HELD_CLOSED, devices=OPEN if is_open else (),
        more={"/etc/crypttab": f"{crypttab}\n", "/root/key": "k", "/bin/cat": "", **CMDLINE, **dict(more)},
    )  # fmt: skip
    lines = look_at_boot_lines(facts)
    return [
        (one.fault or one.note, bool(one.fault), one.way_out)
        for one in lines
        if one.file == "/etc/crypttab" or "crypt" in one.target
    ]


@pytest.mark.parametrize(
    ("crypttab", "fstab"),
    [
        (f"of-dm-0 UUID={LUKS} none luks", MAPPED),
        (f"of-dm-0 UUID={LUKS} /root/key luks,discard", MAPPED),
        ("of-dm-0 /dev/sdb - luks", "/dev/mapper/of-dm-0 /data ext4 defaults 0 2"),
        (f"of-dm-0 UUID={LUKS} none luks,nofail", MAPPED.replace("defaults", "nofail")),
        (f"# a comment\n\nof-dm-0 UUID={LUKS} key.x keyscript=decrypt_x,initramfs", MAPPED),
        (f"of-dm-0 UUID={LUKS} /root/key keyscript=/root/key,initramfs", MAPPED),
        (f"of-dm-0 UUID={LUKS} /gone:LABEL=keys luks", MAPPED),  # on another device
        (f"of-dm-0 UUID={LUKS} /run/key luks", MAPPED),
        (f"of-dm-0 UUID={LUKS} none _netdev", MAPPED.replace("defaults", "_netdev")),
        (f"of-dm-0 UUID={LUKS} none luks\nold UUID={OTHER} none noauto", MAPPED),
        (f"of-dm-0 UUID={LUKS} none luks\nold UUID={OTHER} none nofail", MAPPED),
        (f"of-dm-0 UUID={LUKS} none luks\nscsi UUID={OTHER} none _netdev", MAPPED),
    ],
)
def test_crypttab_that_is_right(crypttab, fstab):
    assert found(crypttab, fstab) == []


@pytest.mark.parametrize(
    ("crypttab", "fstab", "is_fault", "text"),
    [
        (
            f"of-dm-0 UUID={OTHER} none luks",
            MAPPED,
            True,
            f"names UUID={OTHER}, which no device has",
        ),
        (
            f"of-dm-0 UUID={OTHER} none luks,nofail",
            MAPPED.replace("defaults", "nofail"),
            True,
            "does not open of-dm-0",
        ),
        (
            f"of-dm-0 UUID={LUKS} /gone luks",
            MAPPED,
            True,
            "names the key /gone, which is not there",
        ),
        (
            f"of-dm-0 UUID={LUKS} /gone luks",
            MAPPED.replace("defaults", "nofail"),
            False,
            "asks for a passphrase",
        ),
        (
            f"of-dm-0 UUID={LUKS} none noauto",
            MAPPED,
            True,
            "has noauto, and /data (line 1 of /etc/fstab) needs",
        ),
        (
            f"of-dm-0 UUID={LUKS} none luks",
            MAPPED.replace("defaults", "nofail"),
            False,
            "has no nofail, and /data",
        ),
        (f"of-dm-0 UUID={LUKS} none luks,nofail", MAPPED, False, "has nofail, and /data"),
        (f"of-dm-0 UUID={LUKS} none _netdev", MAPPED, False, "is counted among the disks"),
        ("", MAPPED, False, "which no line of /etc/crypttab opens"),
        (
            f"of-dm-0 UUID={LUKS} none luks,keyscript=/gone,initramfs",
            MAPPED,
            True,
            "/gone print the key, which is not",
        ),
        (
            f"of-dm-0 UUID={LUKS} none luks,keyscript=/bin/cat,initramfs",
            MAPPED,
            True,
            "names no file for it (none)",
        ),
        (
            f"of-dm-0 UUID={LUKS} x luks,keyscript=decrypt_x,initramfs,nofail",
            MAPPED,
            False,
            "has nofail, and /data",
        ),
        (
            f"of-dm-0 UUID={LUKS} /root/key luks,keyscript=decrypt_x",
            MAPPED,
            False,
            "which systemd does not know",
        ),
        (
            f"of-dm-0 UUID={LUKS} none luks\nold UUID={OTHER} none luks",
            MAPPED,
            False,
            "goes on without",
        ),
        (
            f"of-dm-0 UUID={LUKS} none luks\nswap UUID={OTHER} /dev/urandom swap",
            MAPPED,
            False,
            "goes on without",
        ),
    ],
)
def test_crypttab_that_does_not_fit_the_disks_or_fstab(crypttab, fstab, is_fault, text):
    ((sentence, fault, way_out),) = found(crypttab, fstab)
    assert text in sentence
    assert fault is is_fault
    assert way_out


@pytest.mark.parametrize(
    ("crypttab", "todo"),
    [
        (
            f"of-dm-0 UUID={OTHER} none luks",
            f"write UUID={LUKS} there, which is open as of-dm-0 now\nsudo update-i",
        ),
        (
            "of-dm-0 /dev/sdz3 none luks",
            f"write UUID={LUKS} there, which is open as of-dm-0 now\nsudo update-i",
        ),
        (
            f"of_dm_0 UUID={LUKS} none luks",
            "line 1 of /etc/crypttab opens that disk as of_dm_0: write of-dm-0 there",
        ),
    ],
)
def test_disk_that_is_open_now_tells_what_crypttab_is_to_say(crypttab, todo):
    assert todo in found(crypttab)[0][2]


def test_program_of_the_key_of_root():
    more = {
        "/etc/crypttab": f"of-dm-0 UUID={LUKS} none luks,keyscript=/bin/cat\n",
        "/bin/cat": "",
        **CMDLINE,
    }
    mounts = {"/proc/self/mountinfo": "22 1 253:0 / / rw shared:1 - ext4 /dev/mapper/of-dm-0 rw\n"}
    facts = host(
        "/dev/mapper/of-dm-0 / ext4 defaults 0 1",
        held=HELD_OPEN,
        devices=OPEN,
        more={**more, **mounts},
    )
    (fault,) = [one.fault for one in look_at_boot_lines(facts) if one.file == "/etc/crypttab"]
    assert "does not open the disk of /, and ends in the shell of the initial RAM disk" in fault


def test_swap_that_is_formatted_at_each_boot_is_to_be_named_otherwise():
    ((_, _, way_out),) = found(
        f"of-dm-0 UUID={LUKS} none\ns UUID={OTHER} /dev/urandom swap", MAPPED
    )
    assert "its UUID goes with each boot that formats it: name it by PARTUUID" in way_out


def test_mapping_that_the_kernel_command_line_opens_needs_no_line():
    more = {"/proc/cmdline": f"rd.luks.name={LUKS}=of-dm-0\n"}
    assert found("", MAPPED, more=more) == []


def test_crypttab_is_bounded_and_reads_fields():
    assert len(parse_crypttab("a b\n" * 9000)) == 4096
    (line,) = parse_crypttab("\ta  UUID=x\tnone  luks,nofail # x\n")
    assert (line.line, line.name, line.source, line.key, line.options) == (
        1,
        "a",
        "UUID=x",
        "",
        ("luks", "nofail"),
    )


def resumes(more, **kwargs):
    facts = host("", more={"/usr/sbin/update-initramfs": "", **CMDLINE, **more}, **kwargs)
    return [one for one in look_at_boot_lines(facts) if one.target.startswith("resume")]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (
            {"/etc/initramfs-tools/conf.d/resume": f"# x\nRESUME=UUID={OTHER}\n"},
            "line 2 of /etc/initramfs-tools/conf.d/resume",
        ),
        (
            {"/etc/initramfs-tools/conf.d/resume": f'RESUME="/dev/disk/by-uuid/{OTHER}"\n'},
            "line 1 of /etc",
        ),
        ({"/proc/cmdline": f"ro resume=UUID={OTHER}\n"}, "the kernel command line"),
        (
            {"/etc/default/grub": f'GRUB_CMDLINE_LINUX="resume=UUID={OTHER}"\n'},
            "line 1 of /etc/default/grub",
        ),
    ],
)
def test_swap_to_resume_from_that_no_disk_has(more, where):
    (line,) = resumes(more)
    assert line.note.startswith(where)
    assert "which no device has: a boot waits some 30 s for it" in line.note
    assert not line.fault


@pytest.mark.parametrize(
    "more",
    [
        {"/etc/initramfs-tools/conf.d/resume": "RESUME=none\n"},
        {"/etc/initramfs-tools/conf.d/resume": f"RESUME=UUID={UUID}\n"},
        {"/etc/initramfs-tools/conf.d/resume": f"#RESUME=UUID={OTHER}\n"},
        {
            "/etc/initramfs-tools/conf.d/a": f"RESUME=UUID={OTHER}\n",
            "/etc/initramfs-tools/conf.d/b": "RESUME=none\n",
        },
        {
            "/etc/initramfs-tools/conf.d/resume": f"RESUME=UUID={OTHER}\n",
            "/proc/cmdline": "noresume\n",
        },
        {
            "/etc/initramfs-tools/conf.d/resume": f"RESUME=UUID={OTHER}\n",
            "/proc/cmdline": f"resume=UUID={UUID}\n",
        },
        {"/proc/cmdline": f"resume=UUID={UUID} resume_offset=4096\n"},  # a swap file
        {"/proc/cmdline": "resume=swap:0xfd01\n"},
    ],
)
def test_resume_that_is_right_or_off(more):
    assert resumes(more) == []


def test_dracut_with_systemd_waits_for_ever():
    (line,) = resumes(
        {
            "/usr/bin/dracut": "",
            "/etc/kernel/postinst.d/dracut": "",
            "/proc/cmdline": f"resume=UUID={OTHER}\n",
        }
    )
    assert "for ever" in line.note


SESSION = "/sys/devices/platform/host2/session1/target2:0:0/2:0:0:1/block"
ISCSI = {"/sys/block/sdb": f"{SESSION}/sdb"}


@pytest.mark.parametrize(
    ("options", "links", "count"),
    [
        ("defaults", ISCSI, 1),
        ("_netdev", ISCSI, 0),
        ("nofail", ISCSI, 0),
        ("defaults", {}, 0),
        ("defaults", {**ISCSI, "/sys/block/sda": f"{SESSION}/sda"}, 0),  # / is of iSCSI as well
    ],
)
def test_disk_of_iscsi_needs_netdev(options, links, count):
    numbers = {"sda": "8:0", "sda/sda2": "8:2", "sdb": "8:16"}
    there = {
        f"{SESSION}/{name}/{file}": text
        for name, dev in numbers.items()
        for file, text in (("dev", dev), ("size", "90000"))
    }
    facts = host(f"UUID={UUID} /data ext4 {options} 0 2", links=links, more=there)
    notes = [one.note for one in look_at_boot_lines(facts) if "disk of the network" in one.note]
    assert len(notes) == count


@pytest.mark.parametrize(
    ("following", "count"),
    [
        (f"UUID={OTHER}", 1),
        ("UUID=0a11-22", 0),
        (f"UUID={UUID}", 0),
        ("/dev/nfs", 0),
        ("ZFS=rpool/x", 0),
    ],
)
def test_root_of_the_next_boot_that_no_device_has(following, count):
    menu = (
        f"menuentry 'x' {{\n\tlinux /boot/vmlinuz-6.8.0-60-generic root={following} ro quiet\n}}\n"
    )
    facts = host("", more={**CMDLINE, "/boot/grub/grub.cfg": menu})
    found = [one for one in look_at_boot_lines(facts) if one.file == "/boot/grub/grub.cfg"]
    assert [one.target for one in found if one.fault] == ["/"] * count
    assert all("does not find /" in one.fault for one in found)


def test_root_that_is_that_of_this_boot_has_shown_that_it_is_found():
    menu = f"menuentry 'x' {{\n\tlinux /boot/vmlinuz-6.8.0-60-generic root=UUID={OTHER} ro\n}}\n"
    facts = host("", more={"/proc/cmdline": f"root=UUID={OTHER} ro\n", "/boot/grub/grub.cfg": menu})
    assert [one for one in look_at_boot_lines(facts) if one.fault] == []


def test_line_of_the_encrypted_disk_itself_names_what_is_mounted_from_it():
    """As an installer wrote it: pop-os/distinst#299."""
    facts = host(
        f"UUID={LUKS} /data ext4 defaults 0 2",
        MOUNT,
        held=HELD_OPEN,
        devices=OPEN,
        more={"/etc/crypttab": "", **CMDLINE},
    )
    line, mapping = [one for one in look_at_boot_lines(facts) if one.fault or one.note]
    assert "crypto_LUKS), which cannot be mounted itself" in line.fault
    assert line.way_out.startswith(f"write UUID={UUID}, which is mounted there")
    assert "which no line of /etc/crypttab opens" in mapping.note


@pytest.mark.parametrize(
    ("flags", "now", "root", "fault", "note"),
    [
        (
            "subvol=@gone",
            "",
            "/",
            "names the subvolume /@gone, which the btrfs of / does not have",
            "",
        ),
        (
            "compress=zstd,subvol=@old",
            "",
            "/",
            "",
            "has the next boot mount the subvolume /@old at /, where / is",
        ),
        ("subvol=@old", "subvol=@", "/@", "", "the subvolume /@old at /, where /@ is mounted now"),
        ("subvol=@", "", "/@", "", ""),
        ("subvol=/@/", "", "/@", "", ""),
        ("subvol=@gone", "subvol=@gone", "/@", "", ""),  # this boot has shown what it makes of it
        ("compress=zstd", "", "/@", "", ""),
    ],
)
def test_subvolume_of_the_next_boot(flags, now, root, fault, note):
    menu = f"menuentry 'x' {{\n\tlinux /boot/vmlinuz-6.8.0-60-generic root=UUID=0a11-22 rootflags={flags} ro\n}}\n"
    boots = {
        "/proc/cmdline": f"root=UUID=0a11-22 {'rootflags=' if now else ''}{now} ro\n",
        "/boot/grub/grub.cfg": menu,
    }
    mounts = {
        "/proc/self/mountinfo": f"22 1 0:30 {root} / rw shared:1 - btrfs /dev/sda2 rw\n",
        "/@old/etc/fstab": "",
    }
    found = [
        one
        for one in look_at_boot_lines(host("", more={**boots, **mounts}))
        if "rootflags" in one.fault + one.note
    ]
    assert len(found) == bool(fault or note)
    assert all(
        fault in one.fault and bool(fault) == bool(one.fault) and note in one.note for one in found
    )
