"""Files below an alternate root: a golden image, a chroot. No kernel runs under them."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError, Refused
from hosttune.host.door import Completed, Process, ReaderKind, Rehearsal, Space, Stat, Usage
from hosttune.host.masking.cleaned import Cleaned, clean
from hosttune.host.reading.mounters import UnaskedMounters
from hosttune.host.reading.paths import (
    FOLDER_PLACE,
    HeldRoot,
    ResolvedPath,
    inode_of,
    is_plain,
    link_of_user,
    walk,
)
from hosttune.host.reading.tree import OTHERS_LIMIT, ElsewhereError, FileTree
from hosttune.host.writing.own import user_who_typed
from hosttune.regex import regex
from hosttune.values import Absent, Answer, FileValue, OnlyRunning, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

# What dpkg, depmod and update-pciids write; people write all the rest.
_LONG = regex(
    r"/var/lib/dpkg/status|(?:/usr)?/lib/modules/[^/]+/modules\.\w+|/usr/share/(?:misc"
    r"|hwdata)/pci\.ids"
)
_LONG_LIMIT = 16 << 20  # bytes of one of these; of 5,000 packages dpkg writes 5 MB
# bytes of all of these, and of all other files, in one look
_SUMS = {True: 32 << 20, False: 8 << 20}
_LEAST = 1 << 10  # bytes that a file counts for at least, as there can be any number of empty ones
_KERNEL_FOLDERS = ("/proc", "/sys", "/run", "/dev")
_NO_KERNEL = Unreadable(OnlyRunning("no kernel runs under --root; give --hardware RECORD"))
_NO_PROGRAMS = Unreadable(
    OnlyRunning("programs cannot be asked under --root: they would answer for this machine")
)


class RootReader(FileTree):
    """Reads below `root`. What a running kernel says (/proc, /sys, /run, /dev) comes from the
    record `hardware`.
    """

    kind: ReaderKind = "root"
    persistent_only = True

    def __init__(self, root: str, hardware: Reader | None = None) -> None:
        super().__init__(_hold_root(root))
        # The root of a chroot is `/` as well, and its files are trusted no more than those of
        # another image.
        self._is_live = False
        self.hardware = hardware
        self._counted: dict[str, int] = {}
        self._left = dict(_SUMS)

    @property
    def name(self) -> str:
        return str(self.root)

    def _is_kernel(self, path: str) -> bool:
        """Whether `path` leads to what only a running kernel has, by links too (/etc/mtab,
        /var/run).
        """
        if not is_plain(path):
            return False
        canonical = os.path.normpath(path)
        if not _below_kernel(canonical):
            try:
                with walk(self.root, path, mounters=UnaskedMounters()) as found:
                    canonical = found.canonical
            except OSError:
                return False
        return _below_kernel(canonical)

    @contextmanager
    def _walk(self, path: str, *, follow: bool = True) -> Iterator[ResolvedPath]:
        """Where the folders of the running kernel are bound into the image, nothing is read of
        them.
        """
        with super()._walk(path, follow=follow) as found:
            if _below_kernel(found.canonical):
                raise ElsewhereError(_NO_KERNEL)
            yield found

    def _limit_of(self, path: str, info: os.stat_result) -> int:
        """How much is read of a file. An image can come from elsewhere, and its owner says nothing:
        it belongs to the user who unpacked it. A sparse or packed image costs its author nothing,
        so all files together have a limit, too.
        """
        is_long = _LONG.fullmatch(path) is not None
        limit = _LONG_LIMIT if is_long else OTHERS_LIMIT
        counted, size = self._counted.get(path, 0), max(info.st_size, _LEAST)
        if info.st_size <= limit and size > counted:
            if size - counted > self._left[is_long]:
                most = _SUMS[is_long] >> 20
                raise OSError(
                    errno.EFBIG, f"not read, as more than {most} MiB would be read of this image"
                )
            self._left[is_long] -= size - counted
            self._counted[path] = size
        return limit

    def read(self, path: str) -> Answer[bytes]:
        if self._is_kernel(path):
            return self.hardware.read(path) if self.hardware else _NO_KERNEL
        return super().read(path)

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        if self._is_kernel(path):
            return self.hardware.list(path) if self.hardware else _NO_KERNEL
        return super().list(path)

    def link(self, path: str) -> Answer[str]:
        if _below_kernel(os.path.normpath(path)):
            return self.hardware.link(path) if self.hardware else _NO_KERNEL
        return super().link(path)

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        if self._is_kernel(path) if follow else _below_kernel(os.path.normpath(path)):
            return self.hardware.stat(path, follow=follow) if self.hardware else _NO_KERNEL
        return super().stat(path, follow=follow)

    def resolve(self, path: str) -> Answer[str]:
        if self._is_kernel(path):
            return self.hardware.resolve(path) if self.hardware else _NO_KERNEL
        return super().resolve(path)

    def space(self, path: str) -> Answer[Space]:
        if self._is_kernel(path):
            return self.hardware.space(path) if self.hardware else _NO_KERNEL
        return super().space(path)

    def usage(self, path: str) -> Answer[Usage]:
        if self._is_kernel(path):
            return self.hardware.usage(path) if self.hardware else _NO_KERNEL
        return super().usage(path)

    def refused_write(self, path: str) -> Refused | None:
        if self._is_kernel(path):
            return Refused(
                f"{path} leads to the kernel of this machine, which is bound into the image"
            )
        return super().refused_write(path)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        del argv, timeout_s
        return _NO_PROGRAMS

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        from hosttune.host.overlay.rehearsal import rehearse_fstab

        del tmpfs_options  # the kernel of the image is another one
        return rehearse_fstab(before, after, (), is_of_image=True)

    def fstab_untried_by(self) -> tuple[str, ...]:
        from hosttune.host.overlay.rehearsal import untried_by

        return untried_by()

    def processes(self) -> Answer[tuple[Process, ...]]:
        return Unreadable(OnlyRunning("no process runs under --root"))


def check_system(root: str) -> None:
    """Refuse a folder that holds no system: a name mistyped, or an image that is not mounted yet
    (os-release(5)).
    """
    image = RootReader(root)
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        found = image.stat(path)
        if isinstance(found, Stat):
            return
        if isinstance(found, Unreadable):
            raise HosttuneError(
                f"--root {root}: {found.reason}", hint="name a folder that you may read"
            )
    message = f"--root {root}: there is no system: neither etc/os-release nor usr/lib/os-release"
    raise HosttuneError(
        message, hint="name the folder that holds etc/ and usr/; is the image mounted?"
    )


def _hold_root(root: str) -> HeldRoot:
    """The folder of an image, open, by its path without links. Raises HosttuneError where there is
    none, and where a link of a user leads to it: that one would choose what root changes.
    """
    try:
        named = root if os.path.isabs(root) else os.path.join(os.getcwd(), root)
        # Opened before the walk: if both end at one inode, the links that were looked at are those
        # that were followed.
        held = HeldRoot(named, os.open(named, FOLDER_PLACE))
        info = os.fstat(held.fd)
        with walk("/", named) as found:
            link = link_of_user(found, {0, user_who_typed(os.environ)})
            is_same = not found.missing and inode_of(found) == (info.st_dev, info.st_ino)
            canonical, is_of_process = (
                found.canonical,
                any(path.startswith("/proc/") for path, _ in found.visited),
            )
    except OSError as error:
        hint = "name the folder that holds etc/ and usr/"
        why = "no such folder" if isinstance(error, FileNotFoundError) else error.strerror
        raise HosttuneError(f"--root {root}: {why}", hint=hint) from None
    if link and not link.startswith("/proc/"):
        message = f"--root {root}: {link} is a symbolic link of another user"
        raise HosttuneError(message, hint="look where it leads, and name that folder")
    if is_same:
        return HeldRoot(canonical, os.dup(held.fd))
    if is_of_process:  # the text of /proc/PID/root means a folder of this process
        return held
    raise HosttuneError(
        f"--root {root} was exchanged while it was looked at", hint="name a folder that stays there"
    )


def _below_kernel(path: str) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in _KERNEL_FOLDERS)


class RootWriter(RootReader):
    """Changes the files below `root`. What needs a running kernel is refused, and so is every
    program.
    """

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        from hosttune.host.writing.replace import replace

        self._refuse_kernel(path)
        replace(self.root, path, new, expected=expected)

    def remove(self, path: str, *, expected: bytes) -> None:
        from hosttune.host.writing.replace import remove

        self._refuse_kernel(path)
        remove(self.root, path, expected=expected)

    def overwrite(self, path: str, content: bytes, *, expected: bytes) -> None:
        from hosttune.host.writing.replace import overwrite_bytes

        self._refuse_kernel(path)
        overwrite_bytes(self.root, path, content, expected=expected)

    def set_value(self, path: str, text: str) -> None:
        del text
        raise Refused(f"{path}: {_NO_KERNEL.reason}")

    def set_atime(self, target: str, mode: str) -> None:
        del mode
        raise Refused(f"{target} is not mounted: {_NO_KERNEL.reason}")

    def make_folder(self, path: str) -> None:
        from hosttune.host.writing.folders import make_folder

        self._refuse_kernel(path)
        make_folder(self.root, path)

    def remove_folder(self, path: str) -> None:
        from hosttune.host.writing.folders import remove_folder

        self._refuse_kernel(path)
        remove_folder(self.root, path)

    def mount(self, device: str, target: str, fstype: str, options: str) -> None:
        del target, fstype, options
        raise Refused(f"{device} is not mounted: {_NO_KERNEL.reason}")

    def unmount(self, target: str) -> None:
        raise Refused(f"{target} is not mounted: {_NO_KERNEL.reason}")

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """None is run, not even with an option that names a root: it would follow the links of the
        image out of it.
        """
        del timeout_s
        raise Refused(f"{argv[0]} is not run under --root: it would act on this machine")

    def append(self, path: str, data: bytes) -> None:
        from hosttune.host.writing.own import append

        append(self.root, path, data)

    def make_link(self, path: str, target: str) -> None:
        from hosttune.host.writing.links import make_link

        self._refuse_kernel(posixpath.dirname(path))
        make_link(self.root, path, target)

    def remove_link(self, path: str, *, expected: str) -> None:
        from hosttune.host.writing.links import remove_link

        self._refuse_kernel(posixpath.dirname(path))
        remove_link(self.root, path, expected=expected)

    def publish(self, path: str, new: FileValue | Absent) -> None:
        from hosttune.host.writing.output import publish_file

        self._refuse_kernel(path)
        publish_file(self.root, path, new)

    def log(self, message: Cleaned, message_id: str = "") -> None:
        from hosttune.host.writing.own import log

        log(clean(f"--root {self.root}: {message}"), message_id)

    def discard_leftovers(self, path: str) -> None:
        from hosttune.host.writing.replace import discard_leftovers

        discard_leftovers(self.root, path)

    def operator(self) -> str:
        from hosttune.host.writing.own import name_operator

        return name_operator()

    def _refuse_kernel(self, path: str) -> None:
        if self._is_kernel(path):
            raise Refused(f"{path}: {_NO_KERNEL.reason}")
