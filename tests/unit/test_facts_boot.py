"""What the next boot starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.boot import kernels_in, packages_of
from hosttune.facts.kernel.grub import environment_of, kernel_at, parse_menu, settings_of
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

OLD, NEW, HWE = "6.8.0-9-generic", "6.8.0-60-generic", "6.14.0-1-generic"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def entry(title: str, name: str, release: str) -> str:
    return f"""menuentry '{title}' --class ubuntu --class gnu-linux --class os $menuentry_id_option '{name}' {{
\trecordfail
\tload_video
\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
\tlinux\t/boot/vmlinuz-{release} root=UUID=0a ro quiet
\tinitrd\t/boot/initrd.img-{release}
}}
"""


# The shape that grub-mkconfig of Ubuntu writes; kernels newest first.
MENU = f"""### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
else
   set default="0"
fi
function recordfail {{
  set recordfail=1
  if [ -n "${{have_grubenv}}" ]; then if [ -z "${{boot_once}}" ]; then save_env recordfail; fi; fi
}}
{entry("Ubuntu", "gnulinux-simple-0a", HWE)}submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-0a' {{
{entry(f"Ubuntu, with Linux {HWE}", f"gnulinux-{HWE}-advanced-0a", HWE)}{entry(f"Ubuntu, with Linux {NEW}", f"gnulinux-{NEW}-advanced-0a", NEW)}{entry(f"Ubuntu, with Linux {OLD}", f"gnulinux-{OLD}-advanced-0a", OLD)}}}
if [ "$grub_platform" = "efi" ]; then
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {{
\tfwsetup
}}
fi
{entry("Custom", "", OLD)}
"""


def reader(files=None, *, kernels=(OLD, NEW, HWE), **more):
    every = {f"/boot/vmlinuz-{release}": "" for release in kernels} | {
        "/boot/grub/unicode.pf2": "",
        "/proc/uptime": "",
    }
    links = {
        f"/proc/self/ns/{kind}": f"{kind}:[{number}]"
        for kind, number in (("pid", 4026531836), ("user", 4026531837))
    }
    return FakeReader(
        every | (files or {}),
        links=links | more.pop("links", {}),
        folders=["/boot", "/sys/firmware"],
        **more,
    )


def boot_of(files=None, **more):
    return Facts(reader(files, **more)).boot


def test_kernels_in_are_ordered_as_versions_and_leave_other_files_out():
    names = (
        "vmlinuz-6.8.0-60-generic", "vmlinuz-6.14.0-1-generic", "vmlinuz-6.8.0-9-generic", "vmlinuz", "vmlinuz.old",
        "initrd.img-6.8.0-9-generic", "vmlinuz-6.8.0-9-generic.dpkg-new", "System.map-6.8.0-9-generic", "grub",
        "vmlinuz-0-rescue-0123456789abcdef", "vmlinux-6.8.0-61-generic", "vmlinuz-6.8.0-60-generic.old",
    )  # fmt: skip
    assert kernels_in(names) == (OLD, NEW, "6.8.0-61-generic", HWE)


def test_packages_of_names_each_once():
    assert packages_of("linux-image-6.8.0-60-generic\nlinux-base\nlinux-base\n\n") == (
        "linux-image-6.8.0-60-generic", "linux-base",
    )  # fmt: skip


@pytest.mark.parametrize(
    "settings", ["", "GRUB_DEFAULT=0\n", "GRUB_DEFAULT='0'\nGRUB_TIMEOUT=5\n", '#GRUB_DEFAULT="1>2"\n', "GRUB_DEFAULT=\n"]
)  # fmt: skip
def test_next_kernel_is_the_newest_without_another_default(settings):
    found = boot_of({"/etc/default/grub": settings})
    assert found.kernels == (OLD, NEW, HWE)
    assert found.next_kernel == HWE


def test_next_kernel_is_the_first_entry_of_a_menu_that_can_be_read():
    assert boot_of({"/boot/grub/grub.cfg": MENU.replace(HWE, NEW)}).next_kernel == NEW


@pytest.mark.parametrize(
    ("default", "release"),
    [
        ("1>2", OLD),
        ("1>0", HWE),
        ("1", HWE),
        ("Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-60-generic", NEW),
        (f"gnulinux-advanced-0a>gnulinux-{OLD}-advanced-0a", OLD),
        ("gnulinux-simple-0a", HWE),
        ("Custom", OLD),
    ],
)
def test_next_kernel_by_title_id_or_number(default, release):
    files = {"/etc/default/grub": f'GRUB_DEFAULT="{default}"\n', "/boot/grub/grub.cfg": MENU}
    assert boot_of(files).next_kernel == release
    saved = {
        "/etc/default/grub.d/50-site.cfg": "GRUB_DEFAULT=saved\n",
        "/boot/grub/grubenv": f"# GRUB Environment Block\nsaved_entry={default}\n#####",
        "/boot/grub/grub.cfg": MENU,
    }
    assert boot_of(saved).next_kernel == release
    once = {
        "/boot/grub/grubenv": f"# GRUB Environment Block\nnext_entry={default}\n",
        "/boot/grub/grub.cfg": MENU,
    }
    assert boot_of(once).next_kernel == release


@pytest.mark.parametrize(
    ("default", "reason"),
    [
        ("3", "decided at boot"),
        ("9", "grub.cfg has 4 entries there"),
        ("Windows", "no entry of grub.cfg is called so"),
        ("uefi-firmware", "does not tell which kernel"),
        ("$(cat /x)", "worked out by a shell"),
    ],
)
def test_next_kernel_that_the_menu_does_not_tell_is_unread(default, reason):
    files = {"/etc/default/grub": f"GRUB_DEFAULT={default!r}\n", "/boot/grub/grub.cfg": MENU}
    with pytest.raises(UnknownFact, match=reason.replace("(", r"\(")):
        _ = boot_of(files).next_kernel


def test_next_kernel_of_a_menu_that_cannot_be_read_is_unread():
    files = {
        "/etc/default/grub": "GRUB_DEFAULT=1\n",
        "/boot/grub/grub.cfg": Unreadable("needs root: permission denied on /boot/grub/grub.cfg"),
    }
    with pytest.raises(UnknownFact, match="GRUB's default is '1', and needs root"):
        _ = boot_of(files).next_kernel
    assert boot_of(files | {"/etc/default/grub": ""}).next_kernel == HWE
    files["/etc/default/grub"] = "GRUB_FLAVOUR_ORDER=generic\n"
    with pytest.raises(UnknownFact, match="GRUB_FLAVOUR_ORDER decides"):
        _ = boot_of(files).next_kernel


def test_next_kernel_that_is_not_there_is_unread():
    with pytest.raises(UnknownFact, match=r"6\.14\.0-1-generic, which is not in /boot"):
        _ = boot_of({"/boot/grub/grub.cfg": MENU}, kernels=(OLD, NEW)).next_kernel


def test_next_kernel_ambiguous_title_is_unread():
    menu = entry("Linux", "", OLD) + entry("Linux", "", NEW)
    with pytest.raises(ValueError, match="2 entries"):
        kernel_at(parse_menu(menu), "Linux")
    assert kernel_at(parse_menu(entry("Linux", "", OLD) * 2), "Linux") == OLD


def test_next_kernel_with_systemd_boot_is_known_for_a_single_kernel_alone():
    loader = {"/boot/loader/entries/a.conf": "", "/etc/default/grub": ""}
    assert boot_of(loader, kernels=(NEW,)).next_kernel == NEW
    with pytest.raises(UnknownFact, match="systemd-boot decides"):
        _ = boot_of(loader).next_kernel


def test_next_kernel_is_empty_without_a_kernel_and_in_a_container():
    assert boot_of(kernels=()).next_kernel == ""
    inside = {"/proc/self/ns/pid": "pid:[4026532841]"}
    found = boot_of(links=inside)
    assert (found.kernels, found.next_kernel) == ((OLD, NEW, HWE), "")


def test_boot_that_cannot_be_listed_is_unread():
    found = boot_of(unreadable={"/boot": "needs root: permission denied on /boot"})
    for name in ("kernels", "next_kernel"):
        with pytest.raises(UnknownFact, match="needs root"):
            getattr(found, name)
    assert not found.reboot_required


@pytest.mark.parametrize(("value", "on"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False)])
def test_secure_boot_by_its_variable(value, on):
    assert boot_of({SECURE_BOOT: value}).secure_boot is on


def test_secure_boot_without_uefi_is_off():
    assert boot_of().secure_boot is False


KEY = b"0\x82\x03\x21 the certificate of DKMS"
MOK_LIST = "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
MOK = "/var/lib/shim-signed/mok/MOK.der"


@pytest.mark.parametrize(
    ("files", "takes"),
    [
        ({}, True),
        ({SECURE_BOOT: b"\6\0\0\0\0"}, True),
        ({SECURE_BOOT: b"\6\0\0\0\1"}, False),
        ({SECURE_BOOT: b"\6\0\0\0\1", MOK: KEY}, False),  # made, and never confirmed at the console
        (
            {SECURE_BOOT: b"\6\0\0\0\1", MOK_LIST: b"\6\0\0\0" + KEY},
            False,
        ),  # the key of somebody else
        ({SECURE_BOOT: b"\6\0\0\0\1", MOK: KEY, MOK_LIST: b"\6\0\0\0 other keys" + KEY}, True),
        ({SECURE_BOOT: b"\6\0\0\0\1", MOK: b"", MOK_LIST: b"\6\0\0\0" + KEY}, False),
        (
            {SECURE_BOOT: b"\6\0\0\0\1", "/var/lib/dkms/mok.pub": KEY, MOK_LIST: b"\6\0\0\0" + KEY},
            True,
        ),
    ],
)
def test_modules_of_this_host_load_where_their_key_is_enrolled(files, takes):
    assert boot_of(files).takes_own_modules is takes


def test_keys_that_may_not_be_read_leave_it_unknown():
    with pytest.raises(UnknownFact, match="needs root"):
        _ = boot_of({SECURE_BOOT: b"\6\0\0\0\1"}, unreadable={MOK: "needs root"}).takes_own_modules


def test_reboot_required_with_the_packages_that_asked():
    files = {
        "/run/reboot-required": "*** System restart required ***\n",
        "/run/reboot-required.pkgs": "libc6\nlibc6\n",
    }
    found = boot_of(files)
    assert found.reboot_required
    assert found.reboot_packages == ("libc6",)
    assert boot_of({"/run/reboot-required": ""}).reboot_packages == ()
    assert (boot_of().reboot_required, boot_of().reboot_packages) == (False, ())


def test_boot_below_a_root_knows_the_kernels_alone():
    blind = dict.fromkeys(("/proc", "/sys", "/run"), "no kernel runs under --root")
    found = boot_of(unreadable=blind, kind="root", persistent_only=True)
    assert found.next_kernel == HWE
    for name in ("secure_boot", "reboot_required", "reboot_packages"):
        with pytest.raises(UnknownFact, match="--root"):
            getattr(found, name)


def test_settings_and_environment():
    text = "GRUB_DEFAULT=1\n# GRUB_DEFAULT=2\n export GRUB_DEFAULT=\"a>b\"  # x\nGRUB_CMDLINE_LINUX='q s'\n"
    assert settings_of(text) == {"GRUB_DEFAULT": "a>b", "GRUB_CMDLINE_LINUX": "q s"}
    assert environment_of("# GRUB Environment Block\nsaved_entry=a=b\nx\n####") == {
        "saved_entry": "a=b"
    }


@given(st.lists(st.sampled_from(MENU.splitlines())), st.sampled_from(["0", "1>1", "Ubuntu", "x"]))
def test_parse_menu_bears_any_order_of_lines(lines, default):
    try:
        found = kernel_at(parse_menu("\n".join(lines)), default)
    except ValueError:
        return
    assert found in {OLD, NEW, HWE}
