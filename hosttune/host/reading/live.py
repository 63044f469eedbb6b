"""The running host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hosttune.errors import Refused
from hosttune.host.door import (
    LOCK_HOLDER,
    Completed,
    Process,
    ReaderKind,
    Rehearsal,
    Space,
    Stat,
    Usage,
)
from hosttune.host.masking.cleaned import Cleaned
from hosttune.host.process import Ended, act, last_lines, look
from hosttune.host.reading.bounded import MOST_NAMES, names_in
from hosttune.host.reading.effort import count_content
from hosttune.host.reading.late_mounts import Looker
from hosttune.host.reading.tree import FileTree, Stranger
from hosttune.values import ABSENT, Absent, Answer, FileValue, Unreadable

_VALUE_FOLDERS = ("/proc/sys/", "/sys/")


# Questions that have the form of a command.
_NO_PROGRAMS = frozenset({"python-of", "python-at", "devices-of", "greeting-of"})


class LiveReader(FileTree):
    """Looks at the host this runs on. Nothing is opened for writing, not even by the programs it
    asks, but for hosttune's own cache of what slow ones answer (host/reading/kept.py).
    """

    kind: ReaderKind = "live"
    persistent_only = False

    def __init__(self) -> None:
        super().__init__("/")
        self._looker = Looker()

    @property
    def name(self) -> str:
        return os.uname().nodename

    def _look(self, name: str, *words: Any) -> Any:
        """What FileTree answers, in the process that this is called in."""
        return (
            super().stat(*words, follow=False)
            if name == "lstat"
            else getattr(super(), name)(*words)
        )

    def _ask(self, name: str, path: str, *words: Any) -> Any:
        return self._looker.ask(self._look, path, name, path, *words)

    def read(self, path: str) -> Answer[bytes]:
        answer: Answer[bytes] = self._ask("read", path)
        return answer

    def head(self, path: str, size: int = 4) -> Answer[bytes]:
        answer: Answer[bytes] = self._ask("head", path, size)
        return answer

    def read_guarded(self, path: str) -> tuple[Answer[bytes], tuple[Stranger, ...]]:
        answer: tuple[Answer[bytes], tuple[Stranger, ...]] | Unreadable = self._ask(
            "read_guarded", path
        )
        return (answer, ()) if isinstance(answer, Unreadable) else answer

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        answer: Answer[tuple[str, ...]] = self._ask("list", path)
        return answer

    def link(self, path: str) -> Answer[str]:
        answer: Answer[str] = self._ask("link", path)
        return answer

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        answer: Answer[Stat] = self._ask("stat" if follow else "lstat", path)
        return answer

    def resolve(self, path: str) -> Answer[str]:
        answer: Answer[str] = self._ask("resolve", path)
        return answer

    def space(self, path: str) -> Answer[Space]:
        answer: Answer[Space] = self._ask("space", path)
        return answer

    def usage(self, path: str) -> Answer[Usage]:
        answer: Answer[Usage] = self._ask("usage", path)
        return answer

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        program = os.path.basename(argv[0])
        if argv[0] in _NO_PROGRAMS:
            return _answer_by_us(argv, timeout_s)
        # head(1) would open whatever the path leads to by then
        if argv[:2] == ("head", "--bytes=4"):
            start = self.head(argv[2])
            return Completed(0, start, b"") if isinstance(start, bytes) else start
        if argv[0] == LOCK_HOLDER:
            return self.lock_holder(argv[1])
        if program == "nvidia-smi":
            from hosttune.host.reading.driver_root import make_contained

            command = make_contained(argv)
            if isinstance(command, Unreadable):
                return command
            if command == () and (reason := _nvidia_smi_would_write()):
                return Unreadable(reason)
            argv = command or argv
        if program == "ubuntu-drivers":
            from hosttune.host.reading.kept import ask

            answer = ask(argv, timeout_s=timeout_s)
        else:
            answer = look(argv, timeout_s=timeout_s)
        if isinstance(answer, Ended):
            return Unreadable(answer.detail)
        if isinstance(answer, Completed):
            count_content(answer.stdout)
        return answer

    def rehearse_fstab(
        self, before: bytes, after: bytes, tmpfs_options: tuple[str, ...]
    ) -> Answer[Rehearsal]:
        from hosttune.host.overlay.rehearsal import rehearse_fstab

        return rehearse_fstab(before, after, tmpfs_options)

    def fstab_untried_by(self) -> tuple[str, ...]:
        from hosttune.host.overlay.rehearsal import untried_by

        return untried_by() if os.geteuid() == 0 else ()  # without root nothing is put in place

    def processes(self) -> Answer[tuple[Process, ...]]:
        from hosttune.host.processes.proc import list_processes

        return list_processes()


def _answer_by_us(argv: Sequence[str], timeout_s: float) -> Answer[Completed]:
    if argv[0] == "devices-of":
        from hosttune.host.processes.container_devices import ask as ask_devices

        return ask_devices(argv)
    if argv[0] == "greeting-of":
        from hosttune.host.reading.greeting import ask as ask_greeting

        return ask_greeting(argv[1], int(argv[2]), timeout_s)
    from hosttune.host.processes.interpreter import ask as ask_interpreter

    return ask_interpreter(argv)


def _nvidia_smi_would_write() -> str:
    """nvidia-smi calls the setuid nvidia-modprobe, which loads the module and makes device nodes
    that are missing.
    """
    try:
        gpus = names_in("/proc/driver/nvidia/gpus", MOST_NAMES)[0]
    except OSError:
        return (
            "nvidia-smi is not asked: the NVIDIA kernel module is not loaded, and it would load it"
        )
    nodes = [
        name
        for name in names_in("/dev", MOST_NAMES)[0]
        if name.startswith("nvidia") and name[6:].isdigit()
    ]
    if len(nodes) < len(gpus) or not os.path.exists("/dev/nvidiactl"):
        return (
            "nvidia-smi is not asked: device nodes /dev/nvidia* are missing, and it would make them"
        )
    return ""


class LiveWriter(LiveReader):
    """Changes the host this runs on."""

    def replace(self, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
        from hosttune.host.writing.replace import replace

        replace(self.root, path, new, expected=expected)

    def remove(self, path: str, *, expected: bytes) -> None:
        from hosttune.host.writing.replace import remove

        remove(self.root, path, expected=expected)

    def overwrite(self, path: str, content: bytes, *, expected: bytes) -> None:
        from hosttune.host.writing.replace import overwrite_bytes

        overwrite_bytes(self.root, path, content, expected=expected)

    def set_value(self, path: str, text: str) -> None:
        canonical = self.resolve(path)
        if canonical is ABSENT:
            raise Refused(f"{path}: this kernel has no such value")
        if isinstance(canonical, Unreadable):
            raise Refused(canonical.reason)
        # A `..` or a link could lead to a file of a disk, of which this keeps no copy.
        if not str(canonical).startswith(_VALUE_FOLDERS):
            raise Refused(f"{path} is not a kernel value: it is in {canonical}")
        _write_once(str(canonical), text.encode())

    def set_atime(self, target: str, mode: str) -> None:
        from hosttune.host.writing.mountapi import set_atime

        set_atime(target, mode)

    def make_folder(self, path: str) -> None:
        from hosttune.host.writing.folders import make_folder

        make_folder(self.root, path)

    def remove_folder(self, path: str) -> None:
        from hosttune.host.writing.folders import remove_folder

        remove_folder(self.root, path)

    def mount(self, device: str, target: str, fstype: str, options: str) -> None:
        from hosttune.host.writing.mounting import mount

        mount(device, target, fstype, options)

    def unmount(self, target: str) -> None:
        from hosttune.host.writing.mounting import unmount

        unmount(target)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        return require_finished(argv, act(argv, timeout_s=timeout_s))

    def append(self, path: str, data: bytes) -> None:
        from hosttune.host.writing.own import append

        append(self.root, path, data)

    def make_link(self, path: str, target: str) -> None:
        from hosttune.host.writing.links import make_link

        make_link(self.root, path, target)

    def remove_link(self, path: str, *, expected: str) -> None:
        from hosttune.host.writing.links import remove_link

        remove_link(self.root, path, expected=expected)

    def publish(self, path: str, new: FileValue | Absent) -> None:
        from hosttune.host.writing.output import publish_file

        publish_file(self.root, path, new)

    def log(self, message: Cleaned, message_id: str = "") -> None:
        from hosttune.host.writing.own import log

        log(message, message_id)

    def discard_leftovers(self, path: str) -> None:
        from hosttune.host.writing.replace import discard_leftovers

        discard_leftovers(self.root, path)

    def operator(self) -> str:
        from hosttune.host.writing.own import name_operator

        return name_operator()


def require_finished(argv: Sequence[str], answer: Completed | Absent | Ended) -> Completed:
    """The answer of a program that changes something, or Refused with its message."""
    if isinstance(answer, Absent):
        raise Refused(f"{argv[0]} is not installed")
    if isinstance(answer, Ended):
        raise Refused(answer.detail)
    if answer.status != 0:
        lines = last_lines(answer.errors) or last_lines(answer.text)
        how = (
            f"ended with status {answer.status}"
            if answer.status > 0
            else f"was ended by signal {-answer.status}"
        )
        raise Refused(f"{' '.join(argv)}: {how}" + "".join(f"\n  {line}" for line in lines))
    return answer


def _write_once(path: str, text: bytes) -> None:
    """The kernel takes a value in one write(2); what a second one would mean differs from file to
    file. It is opened as sysctl(8) and the shell open it: O_TRUNC is nothing to the kernel, and of
    a plain file in place of a value nothing stays behind a shorter one.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{path} cannot be set: {error.strerror}") from None
    try:
        written = os.write(fd, text)
    except OSError as error:
        raise Refused(
            f"the kernel does not take {text.decode()!r} for {path}: {error.strerror}"
        ) from None
    finally:
        os.close(fd)
    if written != len(text):
        raise Refused(f"the kernel took {written} of {len(text)} bytes for {path}")
