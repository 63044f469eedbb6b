"""nvidia-smi of a driver that lies in a container: the GPU Operator's driver container shows its root file system at
/run/nvidia/driver, and the host itself has no nvidia-smi.

It is asked as NVIDIA's own validator does it, in a chroot (github.com/NVIDIA/gpu-operator, validator/main.go), but with
no rights: chroot(8) as root, then nobody, with no_new_privs, so that nothing of the container is run with root's. Only
a file of root's in folders that root alone may write is started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from hosttune.host.process import locate
from hosttune.values import Absent, Unreadable

ROOT = "/run/nvidia/driver"
_SMI = "usr/bin/nvidia-smi"
_NOBODY = 65534


def contained(argv: Sequence[str], root: str = ROOT) -> tuple[str, ...] | Unreadable:
    """The command that asks the driver's container; empty where this host has its own nvidia-smi, or there is no such
    container. Unreadable where there is one that cannot be asked.
    """
    if isinstance(locate("nvidia-smi"), str) or not os.path.lexists(f"{root}/{_SMI}"):
        return ()
    if os.geteuid() != 0:
        return Unreadable(f"needs root: nvidia-smi lies in the driver's container ({root})")
    if reason := _why_not(root):
        return Unreadable(f"nvidia-smi of the driver's container is not run: {reason}")
    setpriv, chroot = locate("setpriv"), locate("chroot")
    if isinstance(setpriv, Absent) or isinstance(chroot, Absent):
        return Unreadable("nvidia-smi of the driver's container needs setpriv and chroot (util-linux, coreutils)")
    ids = (f"--userspec=+{_NOBODY}:+{_NOBODY}", "--groups=")
    return (setpriv, "--no-new-privs", "--inh-caps=-all", chroot, *ids, root, f"/{_SMI}", *argv[1:])


def _why_not(root: str) -> str:
    """Why nothing below this root is started; empty where root alone has a say in the file and in each folder above."""
    path = ""
    for name in ["", *f"{root}/{_SMI}".strip("/").split("/")]:
        path = f"{path.rstrip('/')}/{name}"
        try:
            info = os.lstat(path)
        except OSError as error:
            return f"{path}: {error.strerror}"
        is_last = path == f"{root}/{_SMI}"
        if not (stat.S_ISREG(info.st_mode) if is_last else stat.S_ISDIR(info.st_mode)):
            return f"{path} is a link or a special file"
        if info.st_uid != 0 or info.st_mode & 0o022:
            return f"{path} can be written by others (uid {info.st_uid}, mode {stat.S_IMODE(info.st_mode):04o})"
        if is_last and not (info.st_size and info.st_mode & 0o001):
            return f"{path} is empty, or not for everybody to start"
    return ""
