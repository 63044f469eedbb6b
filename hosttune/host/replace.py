"""Replace or remove a file so that a power cut at any instant leaves the old one or the new one, and nothing is lost.

The order is the one that survives crashes: a temp file beside the target, every byte written and read back, owner,
mode, ACL and extended attributes copied, fsync, the original compared once more, rename(2), fsync of the folder
(rename(2), fsync(2)). What cannot be kept is refused with the reason: hosttune never clears an immutable flag and
never edits in place.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat as stat_module
import struct

from hosttune.errors import Conflict, Refused
from hosttune.host.mountinfo import parse
from hosttune.host.tree import FileTree
from hosttune.values import ABSENT, Absent, FileValue, Unreadable

FS_IOC_GETFLAGS = 0x80086601 if struct.calcsize("l") == 8 else 0x80046601  # include/uapi/linux/fs.h
IMMUTABLE = 0x10  # FS_IMMUTABLE_FL
APPEND_ONLY = 0x20  # FS_APPEND_FL
MAX_BYTES = 64 << 20
_MARK = ".hosttune-"


def replace(root: str, path: str, new: FileValue, *, expected: bytes | Absent) -> None:
    """Put `new` at `path` below `root`. Raises Conflict when the file is not `expected`, Refused when it cannot be
    done safely.
    """
    target = _target(root, path)
    folder, name = os.path.split(target)
    if isinstance(expected, Absent):
        _make_folders(folder, root)
    parent = _open_folder(folder)
    try:
        before = _look(parent, name, target, expected)
        _refuse_flags(parent, folder)
        temp = f".{name}{_MARK}{secrets.token_hex(8)}"
        try:
            _write_temp(parent, temp, new, before, name)
            _compare(parent, name, target, expected, before)
            if before is None:
                _link_new(parent, temp, name, target)
            else:
                os.rename(temp, name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)
        except OSError as error:
            raise Refused(f"{target} cannot be replaced: {error.strerror}", hint=_hint(error)) from error
        finally:
            _unlink_quietly(parent, temp)
        if _read(parent, name) != new.content:
            raise Refused(f"{target} reads differently after it was replaced")
    finally:
        os.close(parent)


def remove(root: str, path: str, *, expected: bytes) -> None:
    """Remove the file at `path`, durably, if it still holds `expected`."""
    tree = FileTree(root)
    real_folder = tree.resolve(os.path.dirname(path))
    if not isinstance(real_folder, str):
        raise Conflict(f"{path} is not there any more")
    target = _below(root, real_folder + "/" + os.path.basename(path))
    folder, name = os.path.split(target)
    parent = _open_folder(folder)
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat_module.S_ISREG(info.st_mode):
            raise Refused(f"{target} is not a regular file")
        if _read(parent, name) != expected:
            raise Conflict(f"{target} was changed by somebody else", hint="look at it, then run the plan again")
        _refuse_mount_point(target)
        os.unlink(name, dir_fd=parent)
        os.fsync(parent)
    except FileNotFoundError:
        raise Conflict(f"{target} is not there any more") from None
    except OSError as error:
        raise Refused(f"{target} cannot be removed: {error.strerror}", hint=_hint(error)) from error
    finally:
        os.close(parent)


def leftovers(root: str, path: str) -> tuple[str, ...]:
    """Temp files that an interrupted replace of `path` left beside it: ours by name and owned by us."""
    target = _target(root, path)
    folder, name = os.path.split(target)
    try:
        entries = os.listdir(folder)
    except OSError:
        return ()
    found = []
    for entry in sorted(entries):
        if entry.startswith(f".{name}{_MARK}") and len(entry) == len(name) + len(_MARK) + 17:
            info = os.lstat(f"{folder}/{entry}")
            if stat_module.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                found.append(f"{folder}/{entry}")
    return tuple(found)


def _target(root: str, path: str) -> str:
    """The real path to replace: links followed inside the root; a link that leads nowhere is refused."""
    tree = FileTree(root)
    real = tree.resolve(path)
    if isinstance(real, str):
        return _below(root, real)
    if isinstance(real, Unreadable):
        raise Refused(f"{path}: {real.reason}")
    if tree.link(path) is not ABSENT:
        raise Refused(
            f"{path} is a symbolic link that leads nowhere", hint="remove the link, or make what it points to"
        )
    folder, name = os.path.split(path)
    above = tree.resolve(folder)
    return _below(root, f"{above}/{name}") if isinstance(above, str) else _below(root, path)


def _below(root: str, path: str) -> str:
    return path if root == "/" else root.rstrip("/") + path


def _make_folders(folder: str, root: str) -> None:
    """Missing folders above a new drop-in (0755). What exists stays as it is."""
    missing = []
    while not os.path.isdir(folder) and folder not in ("", "/", root):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o755)
        except FileExistsError:
            continue
        except OSError as error:
            raise Refused(f"{name} cannot be made: {error.strerror}", hint=_hint(error)) from error


def _open_folder(folder: str) -> int:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise Conflict(f"the folder {folder} is not there any more") from None
    except OSError as error:
        raise Refused(f"{folder} cannot be opened: {error.strerror}", hint=_hint(error)) from error
    info = os.fstat(fd)
    if os.geteuid() == 0 and (info.st_uid != 0 or info.st_mode & 0o022):
        os.close(fd)
        raise Refused(
            f"root does not write in {folder}, because others can", hint="only folders of root are written in"
        )
    return fd


def _look(parent: int, name: str, target: str, expected: bytes | Absent) -> os.stat_result | None:
    """The stat of the file to replace (None: it is new), after every refusal that can be known early."""
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        if not isinstance(expected, Absent):
            raise Conflict(f"{target} is not there any more", hint="run the plan again") from None
        return None
    if isinstance(expected, Absent):
        raise Conflict(f"{target} has appeared meanwhile", hint="run the plan again")
    if not stat_module.S_ISREG(info.st_mode):
        raise Refused(f"{target} is not a regular file")
    if info.st_nlink > 1:
        raise Refused(
            f"{target} has {info.st_nlink} hard links: the others would keep the old text",
            hint="break the link: cp --remove-destination",
        )
    if info.st_size > MAX_BYTES:
        raise Refused(f"{target} is larger than {MAX_BYTES >> 20} MiB")
    _refuse_mount_point(target)
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    try:
        _refuse_flags(fd, target)
    finally:
        os.close(fd)
    _compare(parent, name, target, expected, info)
    return info


def _compare(parent: int, name: str, target: str, expected: bytes | Absent, before: os.stat_result | None) -> None:
    """Compare and swap: the file is still the one that the plan was made from."""
    if before is None:
        return
    try:
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        raise Conflict(f"{target} is not there any more", hint="run the plan again") from None
    same = (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    if not same or _read(parent, name) != expected:
        raise Conflict(f"{target} was changed by somebody else", hint="look at it, then run the plan again")


def _refuse_flags(fd: int, target: str) -> None:
    """An immutable or append-only file is somebody's decision (chattr(1)); file systems without flags answer ENOTTY."""
    buffer = bytearray(8)
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, buffer)
    except OSError:
        return
    flags = struct.unpack("I", buffer[:4])[0]
    if flags & IMMUTABLE:
        raise Refused(f"{target} is immutable (chattr +i)", hint=f"if it may change: sudo chattr -i {target}")
    if flags & APPEND_ONLY:
        raise Refused(f"{target} is append-only (chattr +a)", hint=f"if it may change: sudo chattr -a {target}")


def _refuse_mount_point(target: str) -> None:
    """A bind-mounted file cannot be renamed over (EBUSY), and neither st_dev nor ismount(3) reveals it; mountinfo
    does.
    """
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = parse(file.read())
    except OSError:
        return
    if any(mount.target == target for mount in mounts):
        raise Refused(f"{target} is a mount point", hint=f"unmount it first: umount {target}")


def _write_temp(parent: int, temp: str, new: FileValue, before: os.stat_result | None, name: str) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temp, flags, 0o600, dir_fd=parent)
    try:
        view = memoryview(new.content)
        while view:
            view = view[os.write(fd, view) :]
        if before is None:
            os.fchown(fd, new.uid, new.gid)
            os.fchmod(fd, new.mode)
        else:
            _copy_attributes(parent, name, fd, before)
        os.fsync(fd)
        if os.pread(fd, len(new.content) + 1, 0) != new.content:
            raise Refused("what was written to the disk reads back differently", hint="check the disk: sudo dmesg")
    finally:
        os.close(fd)


def _copy_attributes(parent: int, name: str, fd: int, before: os.stat_result) -> None:
    """Owner first, then attributes (ACLs are system.posix_acl_access), then mode: chown clears the set-id bits."""
    os.fchown(fd, before.st_uid, before.st_gid)
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        names = _attributes(source)
        for attribute in names:
            os.setxattr(fd, attribute, os.getxattr(source, attribute))
        for attribute in set(_attributes(fd)) - set(names):
            os.removexattr(fd, attribute)
        os.fchmod(fd, stat_module.S_IMODE(before.st_mode))
        if {a: os.getxattr(fd, a) for a in names} != {a: os.getxattr(source, a) for a in names}:
            raise Refused(f"the extended attributes of {name} cannot be kept")
    finally:
        os.close(source)


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return []
        raise


def _link_new(parent: int, temp: str, name: str, target: str) -> None:
    """link(2) refuses to overwrite what has appeared meanwhile, rename(2) would not."""
    try:
        os.link(temp, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise Conflict(f"{target} has appeared meanwhile", hint="run the plan again") from None


def _unlink_quietly(parent: int, temp: str) -> None:
    try:
        os.unlink(temp, dir_fd=parent)
        os.fsync(parent)
    except OSError:
        return


def _read(parent: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _hint(error: OSError) -> str:
    hints = {
        errno.ENOSPC: "the disk is full: make room, then run it again",
        errno.EDQUOT: "the quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "run it as root",
        errno.EPERM: "run it as root; a container or security module may forbid it",
        errno.EBUSY: "something is mounted over it",
    }
    return hints.get(error.errno or 0, "")
