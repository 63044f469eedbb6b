"""GRUB's default entry, and each reason why one boot cannot be made with another one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.actions.trial.one_shot import entry_text, safety_arguments
from hosttune.facts.kernel.boot_entry import CUSTOM, ENVIRONMENT, BootEntry, one_shot, parts_of
from hosttune.facts.kernel.grub import MenuEntry, entry_at, parse_menu
from hosttune.host.door import Completed, Space, Stat
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

RELEASE, OTHER = "6.1.0-18-amd64", "6.1.0-17-amd64"
BLOCK = "# GRUB Environment Block\n".ljust(1024, "#")
MOUNTS = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
MENU_PATH = "/boot/grub/grub.cfg"
HEADER = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
if [ x$feature_timeout_style = xy ] ; then
  set timeout_style=menu
  set timeout=5
fi
"""
BODY = f"""\
\tload_video
\tinsmod gzio
\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
\tset root='hd0,msdos1'
\tif [ x$feature_platform_search_hint = xy ]; then
\t  search --no-floppy --fs-uuid --set=root --hint-bios=hd0,msdos1  0a
\telse
\t  search --no-floppy --fs-uuid --set=root 0a
\tfi
\techo\t'Loading Linux {RELEASE} ...'
\tlinux\t/boot/vmlinuz-{RELEASE} root=UUID=0a ro  quiet $vt_handoff
\techo\t'Loading initial ramdisk ...'
\tinitrd\t/boot/microcode.img /boot/initrd.img-{RELEASE}
"""
CLOUD_BODY = f"""\
\trecordfail
\tload_video
\tgfxmode $linux_gfx_mode
\tinsmod ext2
\tif [ "${{initrdfail}}" = 1 ]; then
\t  echo\t'GRUB_FORCE_PARTUUID set, initrdless boot failed. Attempting with initrd.'
\t  linux\t/boot/vmlinuz-{RELEASE} root=PARTUUID=1 ro console=ttyS0
\t  initrd\t/boot/initrd.img-{RELEASE}
\telse
\t  echo\t'GRUB_FORCE_PARTUUID set, attempting initrdless boot.'
\t  linux\t/boot/vmlinuz-{RELEASE} root=PARTUUID=1 ro console=ttyS0 panic=-1
\tfi
\tinitrdfail
"""
CUSTOM_SECTION = """\
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
elif [ -z "${config_directory}" -a -f  $prefix/custom.cfg ]; then
  source $prefix/custom.cfg
fi
"""


def menu(
    body: str = BODY,
    *,
    header: str = HEADER,
    options: str = "--class debian",
    rest: str = CUSTOM_SECTION,
) -> str:
    return f"{header}menuentry 'Debian' {options} $menuentry_id_option 'gnulinux-simple-0a' {{\n{body}}}\n{rest}"


PROBES = {
    ("grub-probe", "--target=abstraction", ENVIRONMENT): "\n",
    ("grub-probe", "--target=fs", ENVIRONMENT): "ext2\n",
    ("grub-editenv", "--version"): "2.06",
    ("grub-script-check", "--version"): "2.06",
    ("lsattr", "-d", ENVIRONMENT): f"--------------e------- {ENVIRONMENT}\n",
}


def look(files=None, *, grub_cfg=None, queries=None, host=None, kernel=None, **more):
    there = {
        "/proc/self/mountinfo": MOUNTS,
        ENVIRONMENT: BLOCK,
        MENU_PATH: grub_cfg or menu(),
        **(files or {}),
    }
    there = {path: content for path, content in there.items() if content is not None}
    base = FakeReader(there, queries={**PROBES, **(queries or {})}, **more)
    line = f"BOOT_IMAGE=/boot/vmlinuz-{RELEASE} root=UUID=0a ro quiet".split()
    facts = SimpleNamespace(
        host=SimpleNamespace(
            **{
                "is_container": False,
                "is_wsl": False,
                "has_systemd": True,
                "boot_loader": "grub",
                "is_uefi": False,
            }
            | (host or {})
        ),
        kernel=SimpleNamespace(
            **{"release": RELEASE, "architecture": "x86_64", "command_line": tuple(line)}
            | (kernel or {})
        ),
    )
    return one_shot(base, facts)


def test_plain_debian_can_be_booted_once_with_other_arguments():
    found = look()
    assert found.refusals == ()
    assert found.entry == BootEntry(
        "Debian",
        RELEASE,
        (
            "load_video",
            "insmod gzio",
            "if [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi",
            "set root='hd0,msdos1'",
            "if [ x$feature_platform_search_hint = xy ]; then",
            "search --no-floppy --fs-uuid --set=root --hint-bios=hd0,msdos1  0a",
            "else",
            "search --no-floppy --fs-uuid --set=root 0a",
            "fi",
            f"echo\t'Loading Linux {RELEASE} ...'",
        ),
        f"/boot/vmlinuz-{RELEASE}",
        "root=UUID=0a ro  quiet $vt_handoff",
        (f"initrd\t/boot/microcode.img /boot/initrd.img-{RELEASE}",),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"files": {ENVIRONMENT: "# GRUB Environment Block\nnext_entry=\nrecordfail=1\n".ljust(1024, "#")}},
        {"files": {ENVIRONMENT: "# GRUB Environment Block\nnext_entry=hosttune-trial\n".ljust(1024, "#")}},  # left over
        {"files": {CUSTOM: "# Written by hosttune for the trial of run 1; gone when it ends.\n"}},
        {"files": {ENVIRONMENT: "# GRUB Environment Block\nsaved_entry=gnulinux-simple-0a\n".ljust(1024, "#")},
         "grub_cfg": menu(header=HEADER.replace('default="0"', 'default="${saved_entry}"'))},
        {"grub_cfg": menu(header=HEADER.replace('default="0"', 'default="${saved_entry}"'))},
        {"grub_cfg": menu(header='set superusers="root"\n' + HEADER, options="--unrestricted")},
        {"queries": {("grub-probe", "--target=fs", ENVIRONMENT): "fat\n"}},
        {"kernel": {"command_line": (f"BOOT_IMAGE=(hd0,gpt2)/boot/vmlinuz-{RELEASE}",)}},
        {"files": {"/etc/crypttab": "# no\n"}},
        {"files": {"/etc/crypttab": "root UUID=1 none luks\n"}},  # a passphrase is asked for either way
        {"files": {"/etc/fstab": "UUID=1 / ext4 defaults 0 1\n# UUID=2 /boot ext4 defaults 0 2\n"}},
        {"queries": {("lsattr", "-d", ENVIRONMENT): Completed(1, b"", b"not supported")}},
        {"host": {"is_uefi": True},
         "files": {"/boot/efi/EFI/debian/grub.cfg": "search.fs_uuid 0a root hd0,gpt2\nset prefix=($root)'/boot/grub'\n"},
         "queries": {("grub-probe", "--target=fs_uuid", "/boot/grub"): "0a\n"}},
        {"host": {"is_uefi": True}, "kernel": {"architecture": "aarch64"}},
    ],
)  # fmt: skip
def test_nothing_speaks_against_it(options):
    found = look(**options)
    assert found.refusals == ()
    assert found.entry is not None


def probe(target: str, answer) -> dict:
    return {"queries": {("grub-probe", f"--target={target}", ENVIRONMENT): answer}}


def block(line: str) -> dict:
    return {"files": {ENVIRONMENT: f"# GRUB Environment Block\n{line}\n".ljust(1024, "#")}}


ODD = menu(BODY.replace("\tload_video\n", "\tmultiboot2 /xen.gz\n"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"persistent_only": True}, "files of an image"),
        ({"host": {"is_container": True}}, "this is a container"),
        ({"host": {"is_wsl": True}}, "this is a container"),
        ({"host": {"has_systemd": False}}, "without systemd"),
        ({"host": {"boot_loader": "systemd-boot"}}, "systemd-boot starts this host"),
        ({"host": {"boot_loader": "unknown"}}, "no menu of GRUB starts this host"),
        ({"host": {"boot_loader": "none"}}, "no menu of GRUB starts this host"),
        ({"kernel": {"architecture": "riscv64"}}, "on riscv64 it is not known"),
        ({"kernel": {"architecture": "aarch64"}}, "U-Boot or flash-kernel"),
        ({"host": {"is_uefi": True}, "files": {"/sys/firmware/efi/efivars/StubInfo-1": "x"}}, "unified kernel image"),
        (
            {"host": {"is_uefi": True},
             "files": {"/boot/efi/EFI/ubuntu/grub.cfg": "search.fs_uuid ff root\n"},
             "queries": {("grub-probe", "--target=fs_uuid", "/boot/grub"): "0a\n"}},
            "looks for its menu on ff, and /boot/grub/grub.cfg is on 0a",
        ),
        ({"files": {"/sys/kernel/kexec_loaded": "1\n"}}, "sudo kexec --unload"),
        ({"files": {"/etc/default/kexec": 'LOAD_KEXEC = "true"\n'}}, "LOAD_KEXEC=true"),
        ({"files": {"/proc/self/mountinfo": MOUNTS.replace("ext4", "overlay")}}, "root file system is overlay"),
        ({"files": {"/proc/self/mountinfo": MOUNTS + "23 22 8:2 / /boot ro - ext4 /dev/sda2 rw\n"}}, "is read-only"),
        (
            {"files": {"/proc/self/mountinfo": MOUNTS.replace("rw\n", "rw,data=journal\n")}},
            "journal could bring back what GRUB has cleared",
        ),
        ({"files": {"/proc/self/mountinfo": Unreadable("forbidden")}}, "forbidden"),
        ({"files": {"/etc/fstab": "UUID=2\t/boot\text4 defaults 0 2\n"}}, "/boot is in /etc/fstab and is not mounted"),
        ({"spaces": {"/boot/grub": Space(1 << 20, 1 << 10, 100, 90)}}, "file system of /boot/grub is full"),
        ({"spaces": {"/boot/grub": Space(1 << 20, 1 << 18, 100, 1)}}, "no room for more files"),
        (probe("abstraction", "lvm \n"), "is on lvm"),
        (probe("abstraction", "diskfilter mdraid1x lvm\n"), "is on diskfilter mdraid1x lvm"),
        (probe("abstraction", "cryptodisk luks2\n"), "is on cryptodisk luks2"),
        (probe("abstraction", Completed(1, b"", b"cannot find a device")), "cannot find a device"),
        (probe("abstraction", ABSENT), "grub-probe is not installed"),
        (probe("fs", "btrfs\n"), "GRUB does not write to btrfs"),
        (probe("fs", "zfs\n"), "GRUB does not write to zfs"),
        ({"queries": {("grub-script-check", "--version"): ABSENT}}, "grub-script-check is not installed"),
        ({"files": {ENVIRONMENT: None}}, "GRUB has no environment block"),
        ({"files": {ENVIRONMENT: "next_entry=\n"}}, "no environment block of 1024 bytes"),
        ({"files": {ENVIRONMENT: "x" * 1024}}, "no environment block of 1024 bytes"),
        ({"files": {ENVIRONMENT: None, "/boot/efi/grubenv": BLOCK}, "links": {ENVIRONMENT: "../efi/grubenv"}}, "is a link"),
        ({"queries": {("lsattr", "-d", ENVIRONMENT): f"----i---------e------- {ENVIRONMENT}\n"}}, "chattr -ia"),
        (block("next_entry=theirs"), "one boot of 'theirs' already"),
        (block("prev_saved_entry=1"), "prev_saved_entry"),
        (block("initrdfail=1"), "initrdfail"),
        ({"files": {CUSTOM: "menuentry mine {\n}\n"}}, "is there and not hosttune's"),
        ({"links": {CUSTOM: "/etc/grub.cfg"}, "files": {"/etc/grub.cfg": ""}}, "is there and not hosttune's"),
        ({"files": {"/etc/crypttab": "root UUID=1 none luks,tpm2-device=auto\n"}}, "by the TPM"),
        (
            {"files": {"/etc/crypttab": "root UUID=1 none luks\n", "/usr/share/initramfs-tools/hooks/clevis": ""}},
            "clevis unlocks a disk",
        ),
        ({"stats": {"/run/mnt/ubuntu-boot": Stat("directory", 0o755, 0, 0, 0, 0, 0, 0, 2)}}, "encrypted by Ubuntu"),
        ({"files": {MENU_PATH: None}}, "GRUB's menu cannot be read"),
        ({"grub_cfg": menu(header='set default="0"\n')}, "does not look for an entry for one boot"),
        ({"grub_cfg": menu(rest="")}, "does not read /boot/grub/custom.cfg"),
        ({"grub_cfg": menu(header=HEADER + "  set timeout=-1\n")}, "waits at its menu forever"),
        ({"grub_cfg": menu(header='set superusers="root"\n' + HEADER)}, "asks for a password"),
        ({"grub_cfg": menu(header="set check_signatures=enforce\n" + HEADER)}, "checks signatures"),
        ({"grub_cfg": menu(header=HEADER.replace('"0"', '"Windows"'))}, "no entry of grub.cfg is called so"),
        ({"grub_cfg": menu(header=HEADER + 'set default="1"\n')}, "in more than one way: 0, 1"),
        ({"grub_cfg": menu(BODY.replace(RELEASE, OTHER))}, f"GRUB's default is kernel {OTHER} and {RELEASE} runs"),
        ({"grub_cfg": menu(BODY.rpartition("\tinitrd")[0])}, "does not start one kernel with an initial RAM disk"),
        ({"grub_cfg": ODD}, "a line that is not copied: multiboot2 /xen.gz"),
        ({"kernel": {"command_line": ("BOOT_IMAGE=vmlinuz", "ip=dhcp")}}, "not made by GRUB's default entry"),
        ({"kernel": {"command_line": ("root=UUID=0a",)}}, "BOOT_IMAGE=none"),
        ({"grub_cfg": menu(BODY.replace("ro  quiet", "ro -- quiet"))}, "words for process 1"),
    ],
)  # fmt: skip
def test_each_reason_has_its_sentence(options, words):
    found = look(**options)
    assert found.entry is None
    (reason,) = found.refusals
    assert words in reason


def test_all_reasons_are_said_at_once():
    found = look(
        {CUSTOM: "theirs\n"},
        grub_cfg=menu(rest=""),
        **probe("abstraction", "lvm\n"),
        host={"boot_loader": "grub"},
    )
    assert len(found.refusals) == 3


def test_cloud_image_takes_the_way_with_an_initial_ram_disk_and_writes_nothing_to_the_block():
    found = look(
        grub_cfg=menu(CLOUD_BODY), kernel={"command_line": (f"BOOT_IMAGE=/boot/vmlinuz-{RELEASE}",)}
    )
    assert found.entry is not None
    text = entry_text(found.entry, "run-1", ("iommu=pt",), (), ("panic=30",))
    assert "initrdfail" not in text
    assert "recordfail" not in text
    assert "panic=-1" not in text
    assert (
        f"\t\tlinux\t/boot/vmlinuz-{RELEASE} root=PARTUUID=1 ro console=ttyS0 iommu=pt panic=30 hosttune.trial=run-1"
        in text
    )
    assert f"\tinitrd\t/boot/initrd.img-{RELEASE}\n" in text


def test_entry_has_the_old_arguments_word_for_word_where_grub_could_not_write():
    entry = look().entry
    assert entry is not None
    rows = entry_text(entry, "run-1", ("pci=realloc=off",), ("quiet",), ("panic=30",)).splitlines()
    assert (
        f"\t\tlinux\t/boot/vmlinuz-{RELEASE} root=UUID=0a ro  quiet $vt_handoff hosttune.trial=unwritable"
        in rows
    )
    new = f"\t\tlinux\t/boot/vmlinuz-{RELEASE} root=UUID=0a ro $vt_handoff pci=realloc=off panic=30 hosttune.trial=run-1"
    assert new in rows
    assert rows[0] == "# Written by hosttune for the trial of run run-1; gone when it ends."
    assert rows[1] == 'if [ "${default}" = hosttune-trial ]; then set fallback=0; fi'


def test_kernel_inside_of_another_condition_is_not_copied():
    body = ("if [ x = y ]; then", "linux /vmlinuz-1", "initrd /i", "fi")
    with pytest.raises(ValueError, match="not copied"):
        parts_of(MenuEntry("a", "", "1", is_conditional=False, is_submenu=False, body=body))


def test_entry_of_a_submenu_has_its_own_lines():
    text = f"submenu 'more' {{\nmenuentry 'a' {{\n{BODY}}}\nmenuentry 'b' --id b {{\nlinux /vmlinuz-2\n}}\n}}\n"
    found = entry_at(parse_menu(text), "more>b")
    assert found.body == ("linux /vmlinuz-2",)
    assert found.options == "'b' --id b "


@pytest.mark.parametrize(
    ("files", "fed", "words"),
    [
        ({}, "0", ("panic=30", "systemd.crash_reboot")),
        ({"/usr/bin/dracut": ""}, "0",
         ("panic=30", "systemd.crash_reboot", "rd.shell=0", "rd.emergency=reboot", "rd.timeout=180")),
        ({"/dev/watchdog0": ""}, "30s", ("panic=30", "systemd.crash_reboot", "systemd.watchdog_sec=180")),
        ({"/dev/watchdog0": ""}, "0", ("panic=30", "systemd.crash_reboot")),
        ({}, "30s", ("panic=30", "systemd.crash_reboot")),
        ({"/dev/watchdog0": ""}, "infinity", ("panic=30", "systemd.crash_reboot")),
    ],
)  # fmt: skip
def test_failed_boot_ends_by_itself(files, fed, words):
    asked = ("systemctl", "show", "--property=RuntimeWatchdogUSec", "--value")
    assert safety_arguments(FakeReader(files, queries={asked: f"{fed}\n"})) == words
