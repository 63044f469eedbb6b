"""Who wrote the code that a Python runs: every place that Python reads, and every folder and link
on the way there.

A Python takes its code from more than its own file. It reads pyvenv.cfg beside the name that it was
started by and one folder above, the standard library and site-packages of the virtual environment
and of the Python that pyvenv.cfg names as `home`, and .pth files there (Python documentation: "The
initialization of the sys.path module search path", "site"). Without a standard library beside it,
Python looks for one in each folder above (Modules/getpath.py, search_up). A user who can write one
of these places, or exchange a folder or link on the way, decides what runs. What a .pth file of
that user names is the user's own choice. What one of root's names is followed: the folders, and the
places in the finder that setuptools writes for an editable install.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from hosttune.frozen import frozen
from hosttune.host.reading.bounded import names_in, read_head
from hosttune.host.reading.mounters import Mounters
from hosttune.host.reading.paths import ResolvedPath, open_place, walk
from hosttune.host.writing.attributes import is_open_by_acl
from hosttune.regex import regex
from hosttune.values import Unreadable

_CONFIG_LIMIT = 1 << 16  # bytes of pyvenv.cfg
_MOST_ENTRIES, _MOST_OF_ALL = 20_000, 100_000  # names in one folder, and in all together
_MODULE_FOLDERS = ("site-packages", "dist-packages")
_FINDER = "_finder.py"  # __editable___NAME_finder.py (setuptools, command/editable_wheel.py)
_QUOTED = regex(r"['\"](/[^'\"\n]{1,4095})['\"]")
_MOST_STEPS = 50_000  # folders and links passed on all ways together
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _SharedCode(Exception):
    """Why a Python is not run, with the place that decides."""


@frozen
class _Place:
    """A folder, link or file that has a say in what runs."""

    path: str
    uid: int
    gid: int
    mode: int
    has_acl: bool  # an ACL lets others write
    ownership: str  # "belongs to uid 1000"
    # Python looks for files in it, so that a new file there would be code
    is_searched: bool = False


def owner_of_code(path: str) -> int | Unreadable:
    """The user id that wrote the Python at the absolute `path`: 0 when only root can change what it
    runs.

    Unreadable names the place when two users have a say, when others can write, or when it cannot
    be checked. Group write permission counts as the owner's own if the group has no other member,
    as in OpenSSH of Debian.
    """
    return _answer(path, _walk_places)


def owner_of_file(path: str) -> int | Unreadable:
    """As `owner_of_code`, of one file and the way there only: a program that reads no code beside
    itself.
    """
    return _answer(path, _places_of_file)


def _answer(path: str, places_of: Callable[[str], _Places]) -> int | Unreadable:
    try:
        return _find_owner(places_of(path))
    except _SharedCode as refusal:
        return Unreadable(str(refusal))
    except OSError as error:
        return Unreadable(f"{error.filename or path}: {error.strerror}")


def _find_owner(places: _Places) -> int:
    users: dict[int, _Place] = {}
    for place in places.values():
        if place.uid:
            users.setdefault(place.uid, place)
    if len(users) > 1:
        one, other = list(users.values())[:2]
        both = f"{one.path} {one.ownership}, and {other.path} {other.ownership}"
        raise _SharedCode(f"{both}: its code is not of one user")
    for place in places.values():
        if _can_others_write(place):
            raise _SharedCode(
                f"others can write {place.path} (mode {stat.S_IMODE(place.mode):04o})"
            )
    return next(iter(users), 0)


def _can_others_write(place: _Place) -> bool:
    """In a sticky folder only the owner of an entry can exchange it; but all can add entries."""
    if stat.S_ISLNK(place.mode):
        return False
    by_group = place.mode & stat.S_IWGRP and not is_group_of(place.uid, place.gid)
    if not (place.mode & stat.S_IWOTH or by_group or place.has_acl):
        return False
    return place.is_searched or not (stat.S_ISDIR(place.mode) and place.mode & stat.S_ISVTX)


@lru_cache(maxsize=64)
def is_group_of(uid: int, gid: int) -> bool:
    """Whether a group has no member but this user (and root)."""
    import grp
    import pwd

    # Who is in the group of root may write what root runs anyway.
    if gid == 0:
        return True
    try:
        members = set(grp.getgrgid(gid).gr_mem)
        own = {pwd.getpwuid(uid).pw_name, "root"}
    except KeyError:
        return False
    # The members that a group lists are without those whose primary group it is.
    return members <= own and all(
        one.pw_uid in (0, uid) for one in pwd.getpwall() if one.pw_gid == gid
    )


class _Places(dict[str, _Place]):
    """What has a say, by path; `steps` counts what was passed, again and again too, `entries` the
    names in folders.
    """

    steps = entries = 0
    canonical = ""  # the file itself, without links

    def __init__(self) -> None:
        super().__init__()
        self.mounters = Mounters()
        self.listed: set[str] = set()  # folders of modules
        self.prefixes: set[str] = set()  # folders whose lib was looked at


def _places_of_file(path: str) -> _Places:
    found = _Places()
    with walk("/", path, mounters=found.mounters) as reached:
        if reached.missing or not reached.name:
            raise _SharedCode(f"{path} is not a program")
        _take(found, reached)
        found.canonical = reached.canonical
    return found


def _walk_places(path: str) -> _Places:
    found = _places_of_file(path)
    # Python cuts the last words off the path as it is written, and of the one without links.
    folders = [os.path.dirname(one) for one in (path, os.path.normpath(path), found.canonical)]
    # from where Python looks for its standard library: `home`, else the folder of the file itself
    searched = []
    for folder in tuple(dict.fromkeys(folders)):
        homes = [
            home
            for place in (folder, os.path.dirname(folder))
            if (home := _read_home(found, place))
        ]
        for home in homes:
            folders += [home, _take_folder(found, home) or home]
        searched += homes or [folder] * (folder == os.path.dirname(found.canonical))
    for prefix in dict.fromkeys(map(os.path.dirname, folders)):
        _take_library(found, prefix)
    for folder in dict.fromkeys(searched):
        _take_above(found, folder)
    return found


def _take_above(found: _Places, folder: str) -> None:
    """Note the folders in which Python looks for its standard library: `folder`, and those above up
    to its parts.
    """
    parts = {"/os.py", "/lib-dynload"}
    while parts:
        if place := _take_folder(found, folder):
            _take_library(found, place)
            start = f"{place.rstrip('/')}/lib"
            parts -= {
                part
                for part in parts
                for path in found
                if path.startswith(start) and path.endswith(part)
            }
        if folder == os.path.dirname(folder):  # `//` too
            return
        folder = os.path.dirname(folder)


def _take(found: _Places, reached: ResolvedPath, *, is_searched: bool = False) -> None:
    """Note every folder and link on a way that was walked, and what it leads to."""
    found.steps += len(reached.visited)
    if found.steps > _MOST_STEPS:
        raise _SharedCode(f"its code has too many folders and links to check ({reached.canonical})")
    for path, info in reached.visited:
        is_last = is_searched and path == reached.canonical
        has_acl = path in reached.open_by_acl
        _note(found, path, info, has_acl=has_acl, is_searched=is_last)
    if reached.name:
        info = reached.stat()
        has_acl = is_open_by_acl(reached.fd, info.st_mode)
        _note(found, reached.canonical, info, has_acl=has_acl)


def _note(
    found: _Places,
    path: str,
    info: os.stat_result,
    *,
    has_acl: bool = False,
    is_searched: bool = False,
) -> None:
    known = found.get(path)
    is_searched = is_searched or (known is not None and known.is_searched)
    ownership = found.mounters.ownership(info)
    found[path] = _Place(
        path, info.st_uid, info.st_gid, info.st_mode, has_acl, ownership, is_searched
    )


def _take_folder(found: _Places, path: str) -> str:
    """Note a folder that Python searches, and the way there. Its path without links; empty if there
    is none.
    """
    with walk("/", path, mounters=found.mounters) as reached:
        if reached.missing or reached.name:
            return ""
        _take(found, reached, is_searched=True)
        return reached.canonical


def _read_home(found: _Places, folder: str) -> str:
    """The folder that pyvenv.cfg in `folder` names as `home`; empty without such a file."""
    if not (place := _take_folder(found, folder)):
        return ""
    with walk("/", f"{place}/pyvenv.cfg", mounters=found.mounters) as reached:
        if reached.missing:
            return ""
        _take(found, reached)
        text = _text_of(reached.fd, reached.canonical)
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home" and value.strip():
            return os.path.normpath(os.path.join(place, value.strip()))
    return ""


def _take_library(found: _Places, prefix: str) -> None:
    """Note the standard library and the folders of modules below a prefix, each with its
    entries.
    """
    if not (place := _take_folder(found, prefix)) or place in found.prefixes:
        return
    found.prefixes.add(place)
    # Debian's Python reads /usr/local, too (python3-minimal, site.py).
    prefixes = (place, "/usr/local") if place == "/usr" else (place,)
    for lib in (f"{one.rstrip('/')}/{name}" for one in prefixes for name in ("lib", "lib64")):
        if not (folder := _take_folder(found, lib)):
            continue
        for name in _list_names(found, folder, folder):
            if name.startswith("python3"):
                for library in (
                    f"{folder}/{name}",
                    *(f"{folder}/{name}/{one}" for one in _MODULE_FOLDERS),
                ):
                    _take_entries(found, library)


def _take_entries(found: _Places, folder: str) -> None:
    """Note a folder of modules and what is directly in it: a package, a module or a .pth file of
    another user is his code.
    """
    listed: list[tuple[str, str]] = []  # files of root's that name more places, with their texts
    with walk("/", folder, mounters=found.mounters) as reached:
        if reached.missing:
            return
        _take(found, reached, is_searched=not reached.name)
        place = reached.canonical
        if reached.name or place in found.listed:  # python311.zip
            return
        found.listed.add(place)
        inner = os.open(".", _LOOK | os.O_DIRECTORY, dir_fd=reached.parent)
        try:
            for name in _list_names(found, inner, place):
                with suppress(FileNotFoundError):
                    _take_entry(found, inner, place, name, listed)
        finally:
            os.close(inner)
    for path, text in listed:
        _take_named(found, place, path, text)


def _take_entry(
    found: _Places, folder: int, place: str, name: str, listed: list[tuple[str, str]]
) -> None:
    """Note one entry of an open folder, and the text of a file of root's that names more places.
    Who owns the folder can put another one in its place meanwhile, so everything is done by its
    descriptor.
    """
    path = f"{place}/{name}"
    is_finder = name.startswith("__editable__") and name.endswith(_FINDER)
    if is_finder or name.endswith(".pth"):
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            info = found.mounters.look(fd)
            if stat.S_ISLNK(info.st_mode):
                with walk("/", path, mounters=found.mounters) as reached:
                    _take(found, reached)
                    if not info.st_uid and not reached.missing:
                        listed.append((path, _text_of(reached.fd, reached.canonical)))
                return
            _note(found, path, info, has_acl=is_open_by_acl(fd, info.st_mode))
            if not info.st_uid:
                listed.append((path, _text_of(fd, path)))
        finally:
            os.close(fd)
        return
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode) or info.st_dev not in found.mounters:
        with walk("/", path, mounters=found.mounters) as reached:
            _take(found, reached)
    elif path not in found:
        # listxattr(2) takes no descriptor of a folder, and the path from `/` could be turned
        # meanwhile.
        attributes = f"/proc/self/fd/{folder}/{name}"
        has_acl = bool(
            info.st_mode & stat.S_IWGRP
        ) and "system.posix_acl_access" in _list_attributes(attributes)
        _note(found, path, found.mounters.set_owner(info), has_acl=has_acl)


def _text_of(fd: int, path: str) -> str:
    """The text of a small regular file, by an O_PATH descriptor: nothing else is opened that comes
    in its place.
    """
    if fd < 0 or not stat.S_ISREG(os.fstat(fd).st_mode):
        raise _SharedCode(f"{path} is not a regular file")
    file = open_place(fd, _LOOK)
    try:
        content, is_whole = read_head(file, _CONFIG_LIMIT)
    finally:
        os.close(file)
    if not is_whole:
        raise _SharedCode(f"{path} has more than {_CONFIG_LIMIT >> 10} KiB")
    return os.fsdecode(content)


def _take_named(found: _Places, folder: str, path: str, text: str) -> None:
    """Note the folders that a .pth file of root's names, or the packages in a finder of an editable
    install.
    """
    if path.endswith(_FINDER):
        places = [match[1] for match in _QUOTED.finditer(text)]
    else:
        rows = (row.strip() for row in text.splitlines())
        places = [
            os.path.join(folder, row)
            for row in rows
            if row and not row.startswith(("#", "import ", "import\t"))
        ]
    for place in places:
        with walk("/", place, mounters=found.mounters) as reached:
            if reached.missing:
                continue
            _take(found, reached, is_searched=not reached.name)
            inner = "" if reached.name else reached.canonical
        if inner and inner not in found.listed:
            _take_entries(found, inner)


def _list_attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return []


def _list_names(found: _Places, folder: str | int, path: str) -> list[str]:
    names, are_all = names_in(folder, _MOST_ENTRIES)
    if not are_all:
        raise _SharedCode(f"{path} has more than {_MOST_ENTRIES} entries")
    found.entries += len(names)
    if found.entries > _MOST_OF_ALL:
        raise _SharedCode(
            f"its folders of modules have more than {_MOST_OF_ALL} entries together ({path})"
        )
    return names
