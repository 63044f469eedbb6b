"""nvidia-smi of a driver that the host's packages did not bring, where the host itself has no
nvidia-smi: the GPU Operator's driver container shows its root file system at /run/nvidia/driver,
and Google's installer puts programs and libraries into a folder of their own
(GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer).

That of a container is asked as NVIDIA's own validator does it, in a chroot
(github.com/NVIDIA/gpu-operator, validator/main.go), but with no rights: chroot(8) as root, then no
one, with no_new_privs, so that nothing of the container is run with root's. The other one runs as
no one, too. Only a file of root's in folders that root alone may write is started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from hosttune.host.process import locate
from hosttune.host.reading.late_mounts import is_way_of_root
from hosttune.values import Absent, Unreadable

ROOT = "/run/nvidia/driver"
BESIDE = "/home/kubernetes/bin/nvidia"  # on nodes of GKE: bin and lib64
_SMI = "usr/bin/nvidia-smi"
_SMI_BESIDE = "bin/nvidia-smi"
_NOBODY = 65534


def make_contained(
    argv: Sequence[str], root: str = ROOT, beside: str = BESIDE
) -> tuple[str, ...] | Unreadable:
    """The command that asks a driver elsewhere; empty where this host has its own nvidia-smi, or
    there is no such driver. Unreadable where there is one that cannot be asked.
    """
    if isinstance(locate("nvidia-smi"), str):
        return ()
    is_contained = os.path.lexists(f"{root}/{_SMI}")
    if not is_contained and not _is_beside(beside):
        return ()
    where = f"in the driver's container ({root})" if is_contained else f"in {beside}"
    if os.geteuid() != 0:
        return Unreadable(f"needs root: nvidia-smi is {where}")
    reason = _why_not(f"{root}/{_SMI}") if is_contained else _why_not_beside(beside)
    if reason:
        return Unreadable(f"nvidia-smi {where} is not run: {reason}")
    setpriv, other = locate("setpriv"), locate("chroot" if is_contained else "env")
    if isinstance(setpriv, Absent) or isinstance(other, Absent):
        return Unreadable(
            f"nvidia-smi {where} needs setpriv, chroot and env (util-linux, coreutils)"
        )
    bare = (setpriv, "--no-new-privs", "--inh-caps=-all")
    if is_contained:
        # With `+` chroot(1) takes a number as it is, and looks no name up in the container.
        ids = (f"--userspec=+{_NOBODY}:+{_NOBODY}", "--groups=")
        return (*bare, other, *ids, root, f"/{_SMI}", *argv[1:])
    as_user = (f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
    return (*bare, *as_user, other, *words_beside(beside), *argv[1:])


def words_beside(beside: str = BESIDE) -> tuple[str, str]:
    """What env(1) is given so that it starts the nvidia-smi that is beside its own libraries."""
    return f"LD_LIBRARY_PATH={beside}/lib64", f"{beside}/{_SMI_BESIDE}"


def _is_beside(beside: str) -> bool:
    """Whether there is one. The home folder of a user who is called kubernetes is not entered:
    nothing there is a driver, and a file system that the user mounted may give no answer.
    """
    return is_way_of_root(beside) and os.path.lexists(f"{beside}/{_SMI_BESIDE}")


def _why_not_beside(beside: str) -> str:
    """The same of nvidia-smi and the folder of its libraries."""
    return _why_not(f"{beside}/{_SMI_BESIDE}") or _why_not(f"{beside}/lib64", is_folder=True)


def _why_not(wanted: str, *, is_folder: bool = False) -> str:
    """Why nothing is started from there; empty where root alone has a say in the file and in each
    folder above.
    """
    path = ""
    for name in ["", *wanted.strip("/").split("/")]:
        path = f"{path.rstrip('/')}/{name}"
        try:
            info = os.lstat(path)
        except OSError as error:
            return f"{path}: {error.strerror}"
        is_last = path == wanted and not is_folder
        if not (stat.S_ISREG(info.st_mode) if is_last else stat.S_ISDIR(info.st_mode)):
            return f"{path} is a link or a special file"
        if info.st_uid != 0 or info.st_mode & 0o022:
            return (
                f"{path} can be written by others (uid {info.st_uid}, mode "
                f"{stat.S_IMODE(info.st_mode):04o})"
            )
        if is_last and not (info.st_size and info.st_mode & 0o001):
            return f"{path} is empty, or not for everybody to start"
    return ""
