"""Files below an alternate root: a golden image, a chroot. No kernel runs under them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.host.door import Completed, Process, ReaderKind, Space, Stat
from hosttune.host.paths import is_plain, walk
from hosttune.host.tree import FileTree
from hosttune.values import Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_KERNEL_FOLDERS = ("/proc", "/sys", "/run", "/dev")
_NO_KERNEL = Unreadable("no kernel runs under --root; give --hardware RECORD")
_NO_PROGRAMS = Unreadable("programs cannot be asked under --root: they would answer for this machine")


class RootReader(FileTree):
    """Reads below `root`. What a running kernel says (/proc, /sys, /run, /dev) comes from the record `hardware`."""

    kind: ReaderKind = "root"
    persistent_only = True

    def __init__(self, root: str, hardware: Reader | None = None) -> None:
        if not os.path.isdir(root):
            raise HosttuneError(f"--root {root}: no such folder", hint="name the folder that holds etc/ and usr/")
        super().__init__(os.path.realpath(root))
        self._is_live = False
        self.hardware = hardware

    @property
    def name(self) -> str:
        return self.root

    def _is_kernel(self, path: str) -> bool:
        """Whether `path` leads to what only a running kernel has, by links too (/etc/mtab, /var/run)."""
        if not is_plain(path):
            return False
        canonical = os.path.normpath(path)
        if not _below_kernel(canonical):
            try:
                with walk(self.root, path) as found:
                    canonical = found.canonical
            except OSError:
                return False
        return _below_kernel(canonical)

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

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        del argv, timeout_s
        return _NO_PROGRAMS

    def processes(self) -> Answer[tuple[Process, ...]]:
        return Unreadable("no process runs under --root")


def _below_kernel(path: str) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in _KERNEL_FOLDERS)
