"""Types of file systems that keep nothing over a boot, as /proc/self/mountinfo names them."""

from __future__ import annotations

IN_RAM = frozenset({"tmpfs", "ramfs"})  # for files of users and programs
# with those of the kernel; rootfs is an initramfs
IN_MEMORY = IN_RAM | {"devtmpfs", "hugetlbfs", "rootfs"}
# writes go to the upper layer, which a live system has in memory
LAYERED = frozenset({"overlay", "aufs"})
# A root file system that does not keep what is written, or not where an early boot and GRUB find
# it.
NOT_LASTING_ROOT = IN_MEMORY | LAYERED | {"squashfs", "nfs", "nfs4", "9p", "virtiofs"}
