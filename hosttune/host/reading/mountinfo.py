"""/proc/PID/mountinfo, read and written back (proc_pid_mountinfo(5)). Pure.

One line a mount, fields parted by one blank: id, parent, major:minor, root, target, per-mount
options, any number of optional fields, a lone `-`, file system type, source, super options. The
kernel escapes blank, tab, line feed and backslash as three octal digits (fs/proc_namespace.c), in
the source `#` too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

ATIME_WORDS: Final = ("noatime", "relatime", "strictatime")
_OCTAL = regex(rb"\\([0-7]{3})")
# the backslash last
_OF_THE_KERNEL: Final = {b"040": b" ", b"011": b"\t", b"012": b"\n", b"043": b"#", b"134": b"\\"}
_ESCAPED = regex(r"[ \t\n\\]")
_ANY_SERVER = frozenset({"-hosts", "auto.net", "auto.smb"})
# that is what systemd mounts, each for one line of fstab
_MAY_HAVE_ANY_SERVER = regex(rb" - autofs (?!systemd-1 )")
_MOST_MAPS: Final = 16  # files of one map, with those that it includes
_OF_MAPS: Final = ("/etc/", "/usr/")
_PROGRAMS: Final = (b"#!", b"\x7fELF")  # how a file begins that execve(2) starts


@frozen
class MountLine:
    """One line, fields decoded; bytes that are no UTF-8 are kept as surrogate escapes."""

    id: int
    parent: int
    device: str
    root: str
    target: str
    options: tuple[str, ...]
    optional: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...]

    @property
    def is_read_only(self) -> bool:
        """Nothing can be written there: this mount, or the file system for all its mounts, is
        read-only, or ext4 has stopped after an error (Linux 6.15 and newer).
        """
        return "ro" in self.options or not {"ro", "emergency_ro", "shutdown"}.isdisjoint(
            self.super_options
        )

    @property
    def fuse_user(self) -> int:
        """The user id that mounted this FUSE file system, as its user namespace has it; -1 for
        another type.
        """
        if self.fstype.partition(".")[0] not in {"fuse", "fuseblk"}:
            return -1
        value = next((one[8:] for one in self.super_options if one.startswith("user_id=")), "0")
        return parse_digits(value, -1)

    @property
    def atime(self) -> str:
        """noatime, relatime or strictatime; the kernel prints no word for strictatime."""
        return next((word for word in ATIME_WORDS if word in self.options), "strictatime")


def decode(field: str) -> str:
    r"""`/a\040b` -> `/a b`."""
    if "\\" not in field:
        return field
    octets = field.encode("utf-8", "surrogateescape")
    # the usual, and much faster
    if octets.count(b"\\") == sum(octets.count(b"\\" + code) for code in _OF_THE_KERNEL):
        for code, character in _OF_THE_KERNEL.items():
            octets = octets.replace(b"\\" + code, character)
    else:
        octets = _OCTAL.sub(lambda found: bytes((int(found[1], 8) & 0xFF,)), octets)
    return octets.decode("utf-8", "surrogateescape")


def ids_of_any_server(mounts: Iterable[MountLine], read: Callable[[str], bytes]) -> frozenset[int]:
    """The ids of mounts below a map of autofs that has each server: any user who looks at
    /net/SERVER names one. These are `-hosts` (auto.master(5)), all maps that are programs, which
    get the name and print a server (auto.net and auto.smb come with autofs), and maps of the site
    whose line for all other names (`*`) has the name (`&`) for a server (autofs(5)). The source of
    the autofs mount is the map's name. `read` gives a file below /etc or /usr, empty where it
    cannot: to read another one could mount something, so a map that is elsewhere counts as one of
    these.
    """
    by_id = {mount.id: mount for mount in mounts}
    has_any = {
        one.id
        for one in by_id.values()
        if one.fstype == "autofs" and _has_any_server(one.source, read)
    }
    found: set[int] = set()
    passed: set[int] = set()
    for mount in by_id.values():
        way: list[int] = []
        at: MountLine | None = mount
        # Each mount is passed once: the way up from each of a thousand would be quadratic.
        while at is not None and at.id not in passed and at.id not in has_any:
            way.append(at.id)
            passed.add(at.id)
            at = by_id.get(at.parent)
        if at is not None and (at.id in found or at.id in has_any):
            found.update(way)
    return frozenset(found)


def may_have_any_server(table: bytes) -> bool:
    """Whether it is worth to look for these in mountinfo, which can be long."""
    return _MAY_HAVE_ANY_SERVER.search(table) is not None


def _has_any_server(source: str, read: Callable[[str], bytes]) -> bool:
    if source.startswith("/") and not source.startswith(_OF_MAPS):
        return True
    names, done = [source], set[str]()
    while names and len(done) < _MOST_MAPS:
        name = names.pop()
        if name.rpartition("/")[2] in _ANY_SERVER:
            return True
        path = name if name.startswith("/") else f"/etc/{name}"
        if path in done or not path.startswith(_OF_MAPS) or ".." in path.split("/"):
            continue
        done.add(path)
        content = read(path)
        if content.startswith(_PROGRAMS):
            return True
        for line in content.decode("utf-8", "surrogateescape").replace("\\\n", " ").split("\n"):
            words = line.split()
            if words and words[0].startswith("+"):
                names.append(words[0].removeprefix("+").rpartition(":")[2])
            elif (
                words
                and words[0].strip('"') == "*"
                and any("&" in _server_of(word) for word in words[1:])
            ):
                return True
    return False


def _server_of(location: str) -> str:
    """Of `server:/export` and `://server/share`; empty for options."""
    return (
        ""
        if location.startswith("-")
        else location.strip("\"':").removeprefix("//").partition("/")[0]
    )


def on_one_line(text: str) -> str:
    r"""A line break as the escape that it is in fstab and mountinfo: `\012`."""
    return text.replace("\n", "\\012")


def encode(field: str) -> str:
    r"""`/a b` -> `/a\040b`."""
    return _ESCAPED.sub(lambda found: f"\\{ord(found[0]):03o}", field)


@lru_cache(maxsize=2)
def parse(content: bytes) -> tuple[MountLine, ...]:
    """All mounts, in the kernel's order; a line that is no mount line is left out."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return tuple(mount for line in lines if (mount := _parse_line(line)))


def find_by_id(table: bytes, number: str) -> MountLine | None:
    """The mount with this id, without a look at the other lines: users can add thousands."""
    table = b"\n" + table
    at = table.find(f"\n{number} ".encode()) if number else -1
    return next(iter(parse(table[at + 1 : table.find(b"\n", at + 1)])), None) if at >= 0 else None


def _parse_line(line: str) -> MountLine | None:
    fields = line.split(" ")
    try:
        dash = fields.index("-", 6)
        number, parent, device, root, target, options = fields[:6]
        fstype, source, super_options = fields[dash + 1 : dash + 4]
        return MountLine(
            int(number),
            int(parent),
            device,
            decode(root),
            decode(target),
            tuple(options.split(",")),
            tuple(fields[6:dash]),
            decode(fstype),
            decode(source),
            tuple(super_options.split(",")),
        )
    except ValueError:
        return None


def print_line(mount: MountLine) -> str:
    """The line as the kernel would print it, without line feed."""
    head = f"{mount.id} {mount.parent} {mount.device} {encode(mount.root)} {encode(mount.target)}"
    middle = " ".join((",".join(mount.options), *mount.optional))
    return (
        f"{head} {middle} - {encode(mount.fstype)} {encode(mount.source)} "
        f"{','.join(mount.super_options)}"
    )


def find_visible(mounts: Iterable[MountLine]) -> frozenset[int]:
    """The ids of the mounts that a path can reach.

    A mount is hidden by one mounted on its own root (same target, and it is the parent), by a
    sibling on a folder above its target (then that folder was covered afterwards), or with its
    parent. The order of the lines says nothing: since Linux 6.8 they are sorted by id.
    """
    by_id = {mount.id: mount for mount in mounts}
    children: dict[int, list[MountLine]] = {}
    todo: list[MountLine] = []
    for mount in by_id.values():
        if mount.parent in by_id and mount.parent != mount.id:
            children.setdefault(mount.parent, []).append(mount)
        else:
            todo.append(mount)
    seen = set()
    while todo:
        mount = todo.pop()
        on_it = children.get(mount.id, [])
        targets = {child.target for child in on_it}
        if mount.target not in targets:
            seen.add(mount.id)
        todo.extend(_without_covered(on_it))
    return frozenset(seen)


def _without_covered(mounts: list[MountLine]) -> Iterator[MountLine]:
    """Those of the mounts with none of the others on a folder above them. In the order of their
    folders each comes right behind what is above it: a user's mounts can be a thousand, each as
    deep as PATH_MAX lets it.
    """
    above: list[str] = []
    for mount in sorted(mounts, key=lambda one: one.target.split("/")):
        here = mount.target.rstrip("/") + "/"
        while above and not here.startswith(above[-1]):
            above.pop()
        if not above or above == [here]:
            yield mount
        if not above or above[-1] != here:
            above.append(here)


def folders_above(path: str) -> list[str]:
    """`/a/b` -> `/`, `/a`."""
    if path == "/":
        return []
    slashes = (place for place, char in enumerate(path) if char == "/")
    return ["/", *(path[:place] for place in islice(slashes, 1, None))]


def topmost_at(mounts: Iterable[MountLine], target: str) -> MountLine | None:
    """The mount that a path through `target` reaches, or None when nothing reachable is mounted
    there.
    """
    lines = tuple(mounts)
    seen = find_visible(lines)
    return next((mount for mount in lines if mount.target == target and mount.id in seen), None)


@lru_cache(maxsize=2)
def mounts_by_target(content: bytes) -> Mapping[str, MountLine]:
    """The mount that a path through each target reaches. Made once for a table, as each target is
    asked for.
    """
    lines = parse(content)
    seen = find_visible(lines)
    return MappingProxyType({mount.target: mount for mount in reversed(lines) if mount.id in seen})


def find_holding(content: bytes, path: str) -> MountLine | None:
    """The mount on which a path is, or would lie; None where the table tells none."""
    return next((mount for mount in _deepest_first(content) if _is_on(path, mount.target)), None)


@lru_cache(maxsize=2)
def _deepest_first(content: bytes) -> tuple[MountLine, ...]:
    lines = parse(content)
    seen = find_visible(lines)
    return tuple(sorted((one for one in lines if one.id in seen), key=lambda one: -len(one.target)))


def with_atime(content: bytes, mount_id: int, word: str) -> bytes:
    """The same table with the atime mode of one mount changed; every other byte as it was."""
    lines = content.split(b"\n")
    for index, line in enumerate(lines):
        fields = line.split(b" ")
        if len(fields) > 6 and fields[0] == str(mount_id).encode():
            kept = [
                option
                for option in fields[5].split(b",")
                if option.decode("utf-8", "replace") not in ATIME_WORDS
            ]
            fields[5] = b",".join([*kept, *([] if word == "strictatime" else [word.encode()])])
            lines[index] = b" ".join(fields)
    return b"\n".join(lines)


def with_mount(
    content: bytes, device: str, source: str, target: str, fstype: str, options: tuple[str, ...]
) -> bytes:
    """The same table with one more mount at its end: a block device (major:minor) on `target`."""
    mounts = parse(content)
    seen = find_visible(mounts)
    above = [mount for mount in mounts if mount.id in seen and _is_on(target, mount.target)]
    parent = max(above, key=lambda mount: len(mount.target)).id if above else 1
    number = max((mount.id for mount in mounts), default=0) + 1
    flags = [word for word in options if word in ("ro", "nosuid", "nodev", "noexec", "nodiratime")]
    asked = [word for word in options if word in ATIME_WORDS]
    words = (*(() if "ro" in flags else ("rw",)), *flags, asked[-1] if asked else "relatime")
    line = MountLine(number, parent, device, "/", target, words, (), fstype, source, ("rw",))
    start = content if not content or content.endswith(b"\n") else content + b"\n"
    return start + print_line(line).encode("utf-8", "surrogateescape") + b"\n"


def _is_on(path: str, target: str) -> bool:
    return path == target or path.startswith(target.rstrip("/") + "/")


def without_mount(content: bytes, mount_id: int) -> bytes:
    """The same table without one mount."""
    start = f"{mount_id} ".encode()
    return b"\n".join(line for line in content.split(b"\n") if not line.startswith(start))
