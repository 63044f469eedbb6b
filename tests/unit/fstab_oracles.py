"""The two real readers of an fstab on this machine: findmnt(8) for libmount, and getmntent(3) of
its C library.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

from hosttune.facts.storage.fstab_lines import clean_path, parse
from hosttune.facts.storage.fstab_options import ATIME_WORDS
from hosttune.facts.storage.fstab_readers import STALE, Fields

COLUMNS = "SOURCE,TARGET,FSTYPE,OPTIONS,FREQ,PASSNO"


class MountEntry(ctypes.Structure):
    """struct mntent of mntent.h."""

    _fields_ = (
        ("fsname", ctypes.c_char_p),
        ("dir", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("opts", ctypes.c_char_p),
        ("freq", ctypes.c_int),
        ("passno", ctypes.c_int),
    )


def getmntent(path: Path) -> list[Fields]:
    """The entries that the C library of this machine finds in a file."""
    libc = ctypes.CDLL(None)
    libc.setmntent.restype = ctypes.c_void_p
    libc.getmntent.restype = ctypes.POINTER(MountEntry)
    libc.getmntent.argtypes = libc.endmntent.argtypes = (ctypes.c_void_p,)
    stream = libc.setmntent(str(path).encode(), b"r")
    found = []
    while entry := libc.getmntent(stream):
        one = entry.contents
        found.append(Fields(one.fsname, one.dir, one.type, one.opts, one.freq, one.passno))
    libc.endmntent(stream)
    return found


def findmnt(path: Path) -> list[tuple[object, ...]] | None:
    """What libmount of this machine makes of a file, targets cleaned; None where findmnt crashed.

    The one of util-linux 2.41 does on a line that it cannot parse (util-linux/util-linux#4130).
    """
    # without --fstab libmount guesses the format by the first line, and two numbers mean mountinfo
    path.with_name("findmnt").write_bytes(b"first /first none rw 0 0\n" + path.read_bytes())
    argv = (
        "findmnt",
        "--json",
        "--list",
        "-o",
        COLUMNS,
        "--tab-file",
        str(path.with_name("findmnt")),
    )
    done = subprocess.run(argv, check=False, capture_output=True, timeout=20)
    if done.returncode < 0:
        return None
    rows = json.loads(done.stdout.decode("utf-8", "replace"), strict=False)["filesystems"][1:]
    return [
        (
            row["source"],
            clean_path(row["target"]),
            row["fstype"],
            row["options"] or "",
            row["freq"],
            row["passno"],
        )
        for row in rows
    ]


def as_findmnt(fields: Fields) -> tuple[object, ...]:
    """An entry as `findmnt` above would give it."""
    source, target, fstype, options = (text.decode("utf-8", "replace") for text in fields[:4])
    return source, clean_path(target), fstype, options, fields.freq, fields.passno


def both(data: bytes, folder: Path) -> tuple[list[tuple[object, ...]] | None, list[Fields]]:
    """The answers of both."""
    path = folder / "fstab"
    path.write_bytes(data)
    return findmnt(path), getmntent(path)


def assert_read_as_they_are(data: bytes, folder: Path) -> None:
    """Our two readings of a file are those of the two real readers."""
    document = parse(data)
    libmount, glibc = both(data, folder)
    assert_same_entries([line.getmntent for line in document.lines if line.getmntent], glibc)
    if libmount is not None:
        assert [as_findmnt(line.libmount) for line in document.lines if line.libmount] == libmount


def assert_same_entries(ours: list[Fields], theirs: list[Fields]) -> None:
    """As getmntent(3) has them; what it takes from stale memory can be anything."""
    known = [
        their._replace(freq=STALE, passno=STALE) if our.freq == STALE else their
        for our, their in zip(ours, theirs, strict=True)
    ]
    assert ours == known


def assert_only_options_differ(
    before: bytes, after: bytes, numbers: list[int], folder: Path
) -> None:
    """To both real readers, the entries of these lines have other options, and nothing else is
    different.
    """
    old, new = both(before, folder), both(after, folder)
    lines = parse(before).lines
    stale = {line.number for line in lines if line.getmntent and line.getmntent.freq == STALE}
    for which, kind in enumerate(("libmount", "getmntent")):
        if old[which] is None or new[which] is None:
            continue
        numbered = [line.number for line in lines if getattr(line, kind)]
        assert len(numbered) == len(old[which]) == len(new[which])
        for number, one, other in zip(numbered, old[which], new[which], strict=True):
            assert (one[3] == other[3]) == (number not in numbers), number
            assert one[:3] == other[:3]
            assert one[4:] == other[4:] or number in stale
            if number in numbers:
                assert words_without_atime(one[3]) == words_without_atime(other[3])
                assert text(other[3]).split(",").count("noatime") == 1


def words_without_atime(options: object) -> list[str]:
    return [word for word in text(options).split(",") if word and word not in ATIME_WORDS]


def text(options: object) -> str:
    return options.decode("utf-8", "replace") if isinstance(options, bytes) else str(options)
