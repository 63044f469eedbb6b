"""Files of a packed archive (tar, tar.xz, tar.gz) that a stranger sent, in memory and within
bounds; or of the folder that was unpacked of one.

Nothing is unpacked to disk, no link is followed, and no name leads out of the archive.

tarfile of Python would read a header of any length into memory, and each header of headers one call
deeper.

Sources: tar(5) of libarchive; POSIX.1-2017, pax, "pax Header Block"; GNU tar manual, "Basic Tar
Format".
"""

from __future__ import annotations

import lzma
import os
import pickle
import stat
import zlib
from contextlib import suppress
from enum import Enum
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from hosttune.errors import BadInput, Fault, Where
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.reading.bounded import names_in, read_head
from hosttune.host.reading.named import answer_in_time, open_named_place, reason_of, served_mounts
from hosttune.host.reading.paths import PATH_MAX, HeldRoot, close, open_folder_of_mount, open_place
from hosttune.host.reading.tree import FileTree
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_MEMBERS: Final = 500_000
# bytes that are unpacked in all; a server without GPUs has some 30 MiB
MOST_UNPACKED: Final = 2 << 30
MOST_KEPT: Final = 128 << 20  # bytes that are kept in all
# characters of the names and of what links lead to, in all; a server has some 5 Mi
MOST_NAMED: Final = 32 << 20
MOST_OF_ONE: Final = 16 << 20  # bytes of a file that is kept
# bytes of a long name, or of the names and numbers of a pax header
_MOST_OF_HEADER: Final = 64 << 10
_MEMORY_OF_XZ: Final = 256 << 20
# folders above what is looked at of an unpacked folder: each is passed for each name
_DEEPEST: Final = 32
_FOLDER_S: Final = 60.0  # in which all of an unpacked folder is read
_CHUNK: Final = 1 << 18
_XZ, _GZIP = b"\xfd7zXZ\0", b"\x1f\x8b"
_TAR_AT, _TAR = 257, b"ustar"
_BLOCK: Final = 512
_MODULUS: Final = 65_521  # of adler32 (RFC 1950, section 8.2)
_LOOK: Final = 64 << 10
_NUMBER = regex(rb"([1-9]\d{0,5}) ")
_FILE, _LINK, _FOLDER = frozenset({b"0", b"\0"}), b"2", b"5"
_KINDS = {stat.S_IFREG: b"0", stat.S_IFLNK: _LINK, stat.S_IFDIR: _FOLDER}
_LONG_NAME, _LONG_LINK, _PAX, _PAX_OF_ALL = b"L", b"K", b"x", b"g"
_SPARSE = b"GNU.sparse."
_PLACES = (b"path", b"linkpath")


class ArchivePart(Enum):
    """What is kept of a file; of folders and links all, unless NOTHING."""

    NOTHING = 0
    NAME = 1
    WHOLE = 2


@frozen
class Archive:
    """What is kept of an archive, by the path below its one folder."""

    top: str  # the name of that folder
    files: Mapping[str, bytes]
    folders: frozenset[str]
    links: Mapping[str, str]
    doubled: frozenset[str]  # paths that are in it twice: none of them counts
    # too long, or no file, folder or symbolic link, or of which only the name is wanted
    left_out: frozenset[str]
    is_whole: bool


@frozen
class _TarHeader:
    """One header."""

    name: str
    kind: bytes
    size: int
    target: str
    is_sparse: bool

    @property
    def is_readable(self) -> bool:
        """Whether it is a file that is not too long."""
        return self.kind in _FILE and not self.is_sparse and self.size <= MOST_OF_ONE


class TooMuch(Exception):
    """More than any real archive has."""


class NameCount:
    """Counts the characters of paths that are made of an archive: a short line can make a long
    one.
    """

    def __init__(self) -> None:
        self._left = MOST_NAMED

    def add(self, *paths: str) -> None:
        """Raises TooMuch."""
        self._left -= sum(map(len, paths))
        if self._left < 0:
            raise TooMuch


class _Broken(Exception):
    """Here the archive breaks off, or is none any more."""


class _Unpacked:
    """The tar of a packed file, as far as it can be unpacked."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at, self._total = memoryview(content), 0, 0
        self._left, self._chunk, self._used = b"", b"", 0
        # A header of xz may ask for 4 GiB of memory; what `xz -9` packs takes 65 MiB (xz(1)).
        self._xz = (
            lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY_OF_XZ)
            if content.startswith(_XZ)
            else None
        )
        self._gzip = zlib.decompressobj(wbits=31) if content.startswith(_GZIP) else None

    def read(self, size: int) -> bytes:
        """So many bytes. Raises _Broken where there are not."""
        end = self._used + size
        if end <= len(self._chunk):  # as a rule, and in half the time
            part = self._chunk[self._used : end]
            self._used = end
            return part
        return b"".join(self._read_parts(size))

    def skip(self, size: int) -> None:
        end = self._used + size
        if end <= len(self._chunk):
            self._used = end
            return
        for _ in self._read_parts(size):
            pass

    def _read_parts(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if self._used >= len(self._chunk):
                self._chunk, self._used = self._unpack_chunk(), 0
            part = self._chunk[self._used : self._used + size]
            self._used += len(part)
            size -= len(part)
            yield part

    def _unpack_chunk(self) -> bytes:
        try:
            part = self._unpack_next()
        except (lzma.LZMAError, zlib.error, EOFError, MemoryError):
            part = b""
        self._total += len(part)
        if self._total > MOST_UNPACKED:
            raise TooMuch
        if not part:
            raise _Broken
        return part

    def _unpack_next(self) -> bytes:
        while True:
            if self._xz is not None:
                if self._xz.eof:
                    return b""
                data = self._take() if self._xz.needs_input else b""
                is_over = self._xz.needs_input and not data
                part = self._xz.decompress(data, _CHUNK)
            elif self._gzip is not None:
                if self._gzip.eof:
                    return b""
                data = self._left or self._take()
                is_over = not data
                part = self._gzip.decompress(data, _CHUNK)
                self._left = self._gzip.unconsumed_tail
            else:
                part, is_over = self._take(), True
            if part or is_over:
                return part

    def _take(self) -> bytes:
        data = bytes(self._content[self._at : self._at + _CHUNK])
        self._at += len(data)
        return data


def is_archive(content: bytes) -> bool:
    """Whether a file begins as a tar, packed or not."""
    try:
        head = _Unpacked(content[:_LOOK]).read(_TAR_AT + len(_TAR))
    except (_Broken, TooMuch):
        return False
    return head.endswith(_TAR)


def read_archive(content: bytes, path: str, choose: Callable[[str], ArchivePart]) -> Archive:
    """What is wanted of an archive with one folder at its top. Raises BadInput for what no program
    packs so.
    """
    stream, kept, is_whole = _Unpacked(content), _Parts(), False
    top = ""
    try:
        for member in _read_members(stream):
            name = normpath(member.name) if len(member.name) < PATH_MAX else ""
            first, _, place = name.partition("/")
            if (
                name.startswith("/")
                or first in {"..", ".", ""}
                or "\0" in name
                or first != (top := top or first)
            ):
                raise make_refusal(path, "it has files outside its one folder")
            size = member.size
            # A size is the word of the archive, but `take` has checked it: no more than MOST_OF_ONE
            # is read at once.
            if place and kept.take(place, member, choose(place)):
                kept.files[place] = stream.read(size)
                size = 0
            stream.skip(size + -member.size % _BLOCK)
        is_whole = True
    except TooMuch:
        raise make_refusal(path, "it holds more than any sosreport") from None
    except _Broken:
        pass
    return kept.close(top, is_whole=is_whole)


class _Parts:
    """What was kept so far."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._folders, self._seen, self._doubled, self._left_out = (
            set[str](),
            set[str](),
            set[str](),
            set[str](),
        )
        self._length = 0
        self._named = NameCount()

    def take(self, place: str, member: _TarHeader, wanted: ArchivePart) -> bool:
        """Whether its content is to be kept. Raises TooMuch."""
        if wanted is ArchivePart.NOTHING:
            return False
        self._named.add(place, member.target)
        if place in self._seen and not (member.kind == _FOLDER and place in self._folders):
            self._doubled.add(place)
            return False
        self._seen.add(place)
        if member.kind == _FOLDER:
            self._folders.add(place)
        elif member.kind == _LINK and len(member.target) < PATH_MAX:
            self._links[place] = member.target
        elif wanted is ArchivePart.WHOLE and member.is_readable:
            self._length += member.size
            if self._length > MOST_KEPT:
                raise TooMuch
            return True
        else:
            self._left_out.add(place)
        return False

    def close(self, top: str, *, is_whole: bool) -> Archive:
        doubled = self._doubled
        files = {place: one for place, one in self.files.items() if place not in doubled}
        links = {place: one for place, one in self._links.items() if place not in doubled}
        folders = frozenset(self._folders - doubled)
        return Archive(
            top, files, folders, links, frozenset(doubled), frozenset(self._left_out), is_whole
        )


def read_folder(path: str, choose: Callable[[str], ArchivePart], needed: str) -> Archive:
    """What is wanted of a folder, and nothing if `needed` is no file in it. Links are not followed.

    It is never taken for whole: nothing tells whether all of an archive was unpacked. Raises
    BadInput for one that cannot be opened, holds too much, gives no answer, or has a mount in it
    that waits for a server.
    """

    def look() -> bytes:
        try:
            return pickle.dumps(_look_through(path, choose, needed))
        except BadInput as error:
            return pickle.dumps(error.faults)

    try:
        found = pickle.loads(answer_in_time(path, look, _FOLDER_S))  # noqa: S301 - of this process, or its child
    except OSError as error:
        raise BadInput([Fault(Where(path), reason_of(error))]) from None
    if not isinstance(found, Archive):
        raise BadInput(found)
    return found


def _look_through(path: str, choose: Callable[[str], ArchivePart], needed: str) -> Archive:
    try:
        root = HeldRoot(os.path.realpath(path), open_named_place(path))
    except OSError as error:
        raise BadInput([Fault(Where(path), reason_of(error))]) from None
    if any(f"{one}/".startswith(f"{root}/") for one in served_mounts()):
        raise make_refusal(path, "a file system is mounted in it that may give no answer")
    sign, found = FileTree(root).stat(f"/{needed}", follow=False), _UnpackedFolder(choose)
    try:
        if isinstance(sign, Stat) and sign.type == "file":
            found.add(root.fd, ".", "", _DEEPEST)
    except TooMuch:
        raise make_refusal(path, "it holds more than any sosreport") from None
    return found.kept.close(os.path.basename(root), is_whole=False)


class _UnpackedFolder:
    """What is wanted of an unpacked folder. Each folder in it is opened once, below the one around
    it.
    """

    def __init__(self, choose: Callable[[str], ArchivePart]) -> None:
        self.kept = _Parts()
        self._choose = choose
        self._left = MOST_MEMBERS

    def add(self, parent: int, name: str, above: str, depth: int) -> None:
        """All that is in the folder `name` of `parent`, whose files have paths that begin with
        `above`. Nothing of one that cannot be read, or where something is mounted. Raises TooMuch.
        """
        with suppress(OSError):
            folder = open_folder_of_mount(name, parent)
            try:
                names, is_whole = names_in(folder, self._left)
                self._left -= len(names)
                if not is_whole:
                    raise TooMuch
                for one in names:
                    with suppress(OSError):
                        self._add_entry(folder, one, above + one, depth)
            finally:
                close(folder)

    def _add_entry(self, folder: int, name: str, place: str, depth: int) -> None:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), b"")
        if len(place) >= PATH_MAX:
            return
        if kind == _FOLDER and depth:
            self.add(folder, name, f"{place}/", depth - 1)
        if (wanted := self._choose(place)) is not ArchivePart.NOTHING:
            target = os.readlink(name, dir_fd=folder) if kind == _LINK else ""
            if self.kept.take(place, _TarHeader(place, kind, info.st_size, target, False), wanted):
                content, is_whole = _read_regular(folder, name, info.st_size)
                if is_whole:
                    self.kept.files[place] = content


def _read_regular(folder: int, name: str, size: int) -> tuple[bytes, bool]:
    """The first `size` bytes of a file, and whether these are all. What is not a file any more is
    not opened. Raises OSError.
    """
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            return b"", False
        fd = open_place(found, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return read_head(fd, size)
        finally:
            close(fd)
    finally:
        close(found)


def _read_members(stream: _Unpacked) -> Iterator[_TarHeader]:
    """The headers up to the end of the archive; what follows one is read by the caller. Raises
    _Broken, TooMuch.
    """
    long: dict[bytes, str] = {}
    is_sparse = False
    length = 0  # of the headers that have texts: their rows cost time
    for _ in range(MOST_MEMBERS):
        head = stream.read(_BLOCK)
        if not head.rstrip(b"\0"):
            return
        # The sum of the bytes, with blanks for the sum itself: adler32 adds them up in a tenth of
        # the time, and its lower half is one more than the sum.
        checksum = zlib.adler32(head[:148] + b" " * 8 + head[156:]) & 0xFFFF
        written = (_parse_octal(head[148:156]) + 1) % _MODULUS
        if not head.startswith(_TAR, _TAR_AT) or written != checksum:
            raise _Broken
        kind, size = head[156:157], _parse_octal(head[124:136])
        if kind in {_LONG_NAME, _LONG_LINK, _PAX, _PAX_OF_ALL}:
            length += size
            if size > _MOST_OF_HEADER or length > MOST_NAMED:
                raise TooMuch
            text = stream.read(size + -size % _BLOCK)[:size]
            if kind == _PAX:
                for key, value in _list_pax(text):
                    is_sparse |= key.startswith(_SPARSE)
                    if key == b"size":
                        raise TooMuch  # from 8 GiB
                    if key in _PLACES:
                        long[key] = _decode(value)
            elif kind != _PAX_OF_ALL:
                long[b"path" if kind == _LONG_NAME else b"linkpath"] = _decode(text.rstrip(b"\0"))
            continue
        name, prefix = _decode(_cut(head[:100])), _decode(_cut(head[345:500]))
        is_posix = head[_TAR_AT : _TAR_AT + 6] == _TAR + b"\0"
        name = long.get(b"path", f"{prefix}/{name}" if prefix and is_posix else name)
        target = long.get(b"linkpath", _decode(_cut(head[157:257])))
        has_content = kind in _FILE or kind == b"S"
        yield _TarHeader(name, kind, size if has_content else 0, target, is_sparse or kind == b"S")
        long, is_sparse = {}, False
    raise TooMuch


def _list_pax(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Rows of a length in digits, a blank, KEY=VALUE and a line end; the length is of all that.
    Raises _Broken.
    """
    at = 0
    while at < len(text):
        number = _NUMBER.match(text, at)
        end = at + int(number[1]) if number else 0
        if not number or not number.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise _Broken
        key, _, value = text[number.end() : end - 1].partition(b"=")
        yield key, value
        at = end


def _parse_octal(field: bytes) -> int:
    """Raises _Broken for another form; GNU tar has one for numbers from 8 GiB."""
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise _Broken
    return int(digits or b"0", 8)


def _cut(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def make_refusal(path: str, why: str) -> BadInput:
    return BadInput([Fault(Where(path), why, "send the file as that program wrote it")])
