"""Every system call of a file's replacement fails once, on a real file system: nothing is lost,
nothing stays behind, and the message names the file and the way out.

Twice over. In this process each function of `os` and `fcntl` that the door calls is counted by a
first run, then each call fails with each error: a call that is new in the door is covered without a
word here. And strace(1) makes the system calls of a process fail that knows nothing of it.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hosttune.errors import HosttuneError, Refused
from hosttune.host.writing import replace as replace_module
from hosttune.host.writing.attributes import flags_of
from hosttune.values import ABSENT, FileValue
from tests.live.namespace import passes, run

pytestmark = pytest.mark.live
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EPERM, errno.EBUSY, errno.EINTR)
OLD, NEW = b"old\n" * 500, b"new\n" * 700
# What cannot fail, or is no system call.
PURE = {"fsencode", "fsdecode", "fspath", "strerror", "geteuid", "getuid", "getpid"}
# Without these no program runs at all.
VITAL = re.compile(
    r"mmap|munmap|mremap|mprotect|madvise|brk|futex|rt_sig\w+|sigaltstack|exit\w*|restart_syscall|get.?[ug]id"
)
ACTS = ("swap", "create", "create_in_a_new_folder", "remove")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("how", ["calls_fail", "strace"])
def test_each_call_of_an_act_fails_once_and_nothing_is_lost(act, how, tmp_path):
    passes(__file__, f"{how}_{act}", tmp_path, timeout_s=300)


class Stage:
    """An ext4 with the file that an act is about, and everything about it that must not get
    lost.
    """

    def __init__(self, folder: Path, act: str) -> None:
        self.act = act
        self.disk = folder / "disk"
        self.disk.mkdir()
        with (folder / "image").open("wb") as image:
            image.truncate(8 << 20)
        run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", folder / "image")
        run("mount", "-o", "loop", folder / "image", self.disk)
        self.folder = self.disk / "etc"
        self.folder.mkdir()
        self.link = self.disk / "link"
        self.link.symlink_to("etc")
        self.path = self.link / ("new.d/file" if act == "create_in_a_new_folder" else "file")
        self.file = self.folder / self.path.relative_to(self.link)

    def prepare(self) -> None:
        """The state before an act."""
        with suppress(FileNotFoundError):
            self.file.unlink()
        if self.file.parent != self.folder and self.file.parent.exists():
            self.file.parent.rmdir()
        if self.act in ("swap", "remove"):
            self.file.write_bytes(OLD)
            self.file.chmod(0o640)
            os.chown(self.file, 1234, 2345)
            run("setfacl", "-m", "u:4321:r", self.file)
            os.setxattr(self.file, "user.note", b"kept")
            run("chattr", "+A", self.file)

    def do(self) -> None:
        """The act itself."""
        if self.act == "remove":
            replace_module.remove("/", str(self.path), expected=OLD)
        else:
            expected = OLD if self.act == "swap" else ABSENT
            replace_module.replace("/", str(self.path), FileValue(NEW), expected=expected)

    def seen(self) -> tuple[bytes | None, object]:
        """The content and what belongs to it; None where there is no file."""
        if not self.file.exists():
            return None, None
        fd = os.open(self.file, os.O_RDONLY)
        try:
            names = sorted(os.listxattr(fd))
            info = os.fstat(fd)
            belongs = (
                info.st_mode,
                info.st_uid,
                info.st_gid,
                flags_of(fd),
                [(n, os.getxattr(fd, n)) for n in names],
            )
            return os.read(fd, 1 << 16), belongs
        finally:
            os.close(fd)

    def names(self) -> set[str]:
        return {str(path.relative_to(self.disk)) for path in self.disk.rglob("*")}


class Judge:
    """Knows the state before an act and after it, and what may be in between."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        stage.prepare()
        self.before, self.names_before = stage.seen(), stage.names()
        stage.do()
        self.after, self.names_after = stage.seen(), stage.names()
        assert self.before != self.after
        assert stage.act != "swap" or self.before[1] == self.after[1], (
            "owner, mode, ACL, attributes, flags"
        )
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []

    def judge(self, what: str, error: BaseException | None) -> None:
        try:
            self._judge(what, error)
        except AssertionError as fault:
            self.faults.append(str(fault).splitlines()[0])

    def sum_up(self, what: str) -> None:
        """Fail with all that was found, or print what came of it."""
        assert not self.faults, "\n".join([f"{len(self.faults)} faults", *self.faults[:40]])
        assert self.outcomes["refused"] > 0
        print(self.stage.act, what, dict(self.outcomes))

    def _judge(self, what: str, error: BaseException | None) -> None:
        now, names = self.stage.seen(), self.stage.names()
        assert now in (self.before, self.after), f"{what}: lost: {now}, {error}"
        allowed = self.names_after if now == self.after else self.names_before | {"etc/new.d"}
        assert names <= allowed, f"{what}: left behind: {names - allowed}, {error}"
        if error is None:
            assert now == self.after, f"{what}: it said that it was done"
            self.outcomes["done"] += 1
            return
        assert isinstance(error, HosttuneError), f"{what}: {error!r}"
        if isinstance(error, Refused):
            assert now == self.before, f"{what}: it said that nothing was changed: {error}"
        else:
            assert now == self.after, f"{what}: it said that it was changed: {error}"
        assert "/etc/" in error.message or str(self.stage.link) in error.message, f"{what}: {error}"
        assert self.stage.file.name in error.message or self.stage.folder.name in error.message, (
            f"{what}: {error}"
        )
        assert error.hint, f"{what}: no way out: {error}"
        self.outcomes["refused" if isinstance(error, Refused) else "told"] += 1


class Fault:
    """Counts the calls of the door; the one of that number fails, or does half of what it
    should.
    """

    def __init__(self, number: int = -1, error: int = 0) -> None:
        self.number = number
        self.error = error
        self.calls: list[str] = []

    def __call__(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) - 1 != self.number:
                return function(*args, **kwargs)
            if self.error:
                if name == "os.close":
                    function(*args)  # the descriptor is gone, whatever close(2) says
                raise OSError(self.error, os.strerror(self.error))
            if name == "os.write":
                return function(args[0], args[1][: max(1, len(args[1]) // 2)])
            return function(args[0], max(1, args[1] // 4096))  # os.read

        return call


class Watched:
    """A module as the door sees it, each function under a fault."""

    def __init__(self, module: ModuleType, fault: Fault) -> None:
        self._module = module
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        is_call = callable(found) and not isinstance(found, type) and name not in PURE
        return self._fault(f"{self._module.__name__}.{name}", found) if is_call else found


@contextmanager
def watched(fault: Fault) -> Iterator[None]:
    """The whole door under a fault: whichever of its modules uses os, fcntl or open."""
    doors = [module for name, module in sys.modules.items() if name.startswith("hosttune.host.")]
    changed = [
        (module, name, module.__dict__[name])
        for module in doors
        for name in ("os", "fcntl")
        if name in module.__dict__
    ]
    for module, name, value in changed:
        setattr(module, name, Watched(value, fault))
    for module in doors:
        module.open = fault("open", open)
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)
        for module in doors:
            del module.open


def attempt(stage: Stage, fault: Fault) -> BaseException | None:
    with watched(fault):
        try:
            stage.do()
        except Exception as error:  # noqa: BLE001 - whatever comes is judged
            return error
    return None


def calls_fail(folder: Path, act: str) -> None:
    stage = Stage(folder, act)
    judge = Judge(stage)
    stage.prepare()
    dry = Fault()
    assert attempt(stage, dry) is None
    assert {"os.fsync", "os.open", "os.close", "os.fstat"} <= set(dry.calls)
    assert act == "remove" or {"os.write", "os.read", "os.fchmod", "os.fchown"} <= set(dry.calls)
    assert act != "swap" or {"os.rename", "os.setxattr", "fcntl.ioctl", "os.readlink"} <= set(
        dry.calls
    )
    open_before = sorted(os.listdir("/proc/self/fd"))
    for number, name in enumerate(dry.calls):
        halves = (0,) if name in ("os.write", "os.read") else ()
        for error in (*ERRORS, *halves):
            stage.prepare()
            fault = Fault(number, error)
            failure = attempt(stage, fault)
            assert fault.calls[: number + 1] == dry.calls[: number + 1]
            what = f"{name}, call {number}, {errno.errorcode.get(error, 'half of it')}"
            judge.judge(what, failure)
            if sorted(os.listdir("/proc/self/fd")) != open_before:
                judge.faults.append(f"{what}: a descriptor stays open")
                os.closerange(3, 256)
                open_before = sorted(os.listdir("/proc/self/fd"))
    judge.sum_up(f"{len(dry.calls)} calls")


def traced(stage: Stage, *options: str) -> dict[str, Any]:
    """Do the act in a child under strace(1); what it says about it."""
    go_read, go_write = os.pipe()
    said_read, said_write = os.pipe()
    child = os.fork()
    if child == 0:
        select.select(
            [go_read], [], []
        )  # not read(2): whether strace counts the call it interrupts is chance
        answer: dict[str, Any] = {}
        with suppress(FileNotFoundError):
            os.stat("/marker/begin")
        try:
            stage.do()
        except HosttuneError as error:
            answer = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        except BaseException as error:  # noqa: BLE001 - whatever comes is judged
            answer = {"kind": "other", "message": repr(error), "hint": ""}
        with suppress(FileNotFoundError):
            os.stat("/marker/end")
        os.write(said_write, json.dumps(answer).encode())
        os._exit(0)
    os.close(go_read)
    os.close(said_write)
    argv = ("strace", "-p", str(child), "-qqq", *options)
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as tracer:
        return _watch(tracer, child, go_write, said_read)


def _watch(
    tracer: subprocess.Popen[bytes], child: int, go_write: int, said_read: int
) -> dict[str, Any]:
    assert tracer.stderr is not None
    while f"TracerPid:\t{tracer.pid}\n" not in Path(f"/proc/{child}/status").read_text(
        encoding="ascii"
    ):
        assert tracer.poll() is None, tracer.stderr.read()
    os.write(go_write, b"x")
    os.close(go_write)
    said = b"".join(iter(lambda: os.read(said_read, 1 << 16), b""))
    os.close(said_read)
    os.waitpid(child, 0)
    tracer.wait(timeout=20)
    return json.loads(said)


def strace(folder: Path, act: str) -> None:
    stage = Stage(folder, act)
    judge = Judge(stage)
    log = folder / "log"
    stage.prepare()
    assert traced(stage, "-o", str(log)) == {}
    names = [match[1] for match in re.finditer(r"(?m)^(\w+)\(.*", log.read_text(errors="replace"))]
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if re.match(r"\w+\(", line)
    ]
    begin = next(number for number, line in enumerate(lines) if "/marker/begin" in line)
    end = next(number for number, line in enumerate(lines) if "/marker/end" in line)
    errors = itertools.cycle(ERRORS)
    failed = 0
    for place in range(begin + 1, end):
        name = names[place]
        if VITAL.fullmatch(name):
            continue
        when = names[: place + 1].count(name)
        stage.prepare()
        error = errno.errorcode[next(errors)]
        answer = traced(stage, "-o", "/dev/null", "-e", f"inject={name}:error={error}:when={when}")
        judge.judge(f"{lines[place]}: {error}", as_error(answer))
        failed += 1
    for place in [place for place in range(begin + 1, end) if names[place] == "write"]:
        when = names[: place + 1].count("write")
        stage.prepare()
        answer = traced(
            stage, "-o", "/dev/null", "-e", f"inject=write:retval={len(NEW)}:when={when}"
        )
        judge.judge("a write that is lost", as_error(answer))
        assert "reads back differently" in answer["message"]
    assert failed > 20
    judge.sum_up(f"{failed} system calls")


def as_error(answer: dict[str, Any]) -> BaseException | None:
    if not answer:
        return None
    if answer["kind"] == "other":
        return RuntimeError(answer["message"])
    kind = Refused if answer["kind"] in ("Refused", "Conflict") else HosttuneError
    return kind(answer["message"], hint=answer["hint"])


def _scenario(how: Callable[[Path, str], None], act: str) -> Callable[[Path], None]:
    return lambda folder: how(folder, act)


globals().update({
    f"scenario_{how.__name__}_{act}": _scenario(how, act) for how in (calls_fail, strace) for act in ACTS
})  # fmt: skip
