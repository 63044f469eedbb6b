"""What a described machine boots by: GRUB's settings and the menu that update-grub made of them."""

from __future__ import annotations


def boot_files(system: str, kernel: str) -> dict[str, str]:
    """The files of a machine that boots through GRUB."""
    return {
        "/boot/grub/grub.cfg": grub_cfg(system, kernel),
        "/etc/default/grub": 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n',
    }


def grub_cfg(system: str, kernel: str) -> str:
    """The menu: a normal entry, and in a submenu the same again and one for recovery."""
    start = f"linux\t/boot/vmlinuz-{kernel} root=UUID=0a ro"
    return (
        "### BEGIN /etc/grub.d/10_linux ###\n"
        f"menuentry '{system}' --class os $menuentry_id_option 'simple-0a' {{\n\t{start} quiet\n"
        f"\tinitrd\t/boot/initrd.img-{kernel}\n}}\n"
        f"submenu 'Advanced options for {system}' $menuentry_id_option 'advanced-0a' {{\n"
        f"\tmenuentry '{system}, with Linux {kernel}' --class os {{\n\t\t{start} quiet\n"
        f"\t\tinitrd\t/boot/initrd.img-{kernel}\n\t}}\n"
        f"\tmenuentry '{system}, with Linux {kernel} (recovery mode)' --class os {{\n\t\t{start} recovery nomodeset\n"
        f"\t\tinitrd\t/boot/initrd.img-{kernel}\n\t}}\n}}\n"
        "### END /etc/grub.d/10_linux ###\n"
    )
