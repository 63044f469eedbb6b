"""How Python imports from the self-contained file: a module is compiled once, or never where its
byte code is kept.

`zipimport.zipimporter.get_filename` compiles a module only to learn its name, and `exec_module`
compiles it again (Lib/zipimport.py of Python 3.10 to 3.14): half of what a check cost. Byte code is
kept for hosts of a fleet, which are asked again and again by a file that goes when it has answered:
one file in a folder of root's alone, good for the very bytes of the archive that it was made from
and for this Python.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import zipimport
from importlib.util import MAGIC_NUMBER
from types import CodeType

NAME = "code.bin"
DIGEST = 32  # bytes, before the byte code
LIMIT = 16 << 20  # bytes; what hosttune and its dependencies compile to is a third of it
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Importer(zipimport.zipimporter):
    """Answers the name of a module by itself, and its code from `kept` where it is there."""

    kept: dict[str, bytes] | None = None  # for all folders of the archive: module name -> byte code
    is_new = False  # whether something was compiled that is not in the file

    def get_filename(self, fullname: str) -> str:
        ending = "/__init__.py" if self.is_package(fullname) else ".py"
        return os.path.join(self.archive, self.prefix + fullname.rpartition(".")[2] + ending)

    def get_code(self, fullname: str) -> CodeType:
        if Importer.kept is None:
            return super().get_code(fullname)
        if fullname in Importer.kept:
            code: CodeType = marshal.loads(Importer.kept[fullname])  # noqa: S302 - root's own file, checked by its digest
            return code
        code = super().get_code(fullname)
        Importer.kept[fullname] = marshal.dumps(code)
        Importer.is_new = True
        return code


def install(archive: str) -> None:
    """Let every import from the archive go this way."""
    sys.path_hooks[:] = [
        Importer if hook is zipimport.zipimporter else hook for hook in sys.path_hooks
    ]
    sys.path_importer_cache.pop(archive, None)


def load(archive: str, folder: str) -> None:
    """Take the byte code that is kept for this archive, and keep what is compiled from now on. For
    root alone: to all others a file in /var/cache is somebody else's.
    """
    if os.geteuid() != 0:
        return
    Importer.kept = {}
    kept = _content(folder)
    body = kept[DIGEST:]
    if body and kept[:DIGEST] == _digest(archive, body):
        Importer.kept = marshal.loads(body)  # noqa: S302


def store(archive: str, folder: str) -> None:
    """Keep what was compiled. Where that cannot be nothing is said: it is only a cache."""
    if not Importer.is_new:
        return
    from hosttune.host.reading.kept import keep

    body = marshal.dumps(Importer.kept)
    keep(os.path.join(folder, NAME), _digest(archive, body) + body)


def _digest(archive: str, body: bytes) -> bytes:
    """One over the archive, what this Python calls byte code, and the byte code: no other archive
    and no other Python takes it, nor anybody when a power cut tore it.
    """
    with open(archive, "rb") as file:
        made_from = hashlib.sha256(file.read())  # processors have instructions for it
    made_from.update(MAGIC_NUMBER + bytes([sys.flags.optimize]))
    return hashlib.sha256(made_from.digest() + body).digest()


def _content(folder: str) -> bytes:
    """The kept file; empty where there is none that root alone could have written."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        file = os.open(NAME, _READ, dir_fd=at)
    except OSError:
        return b""
    else:
        with os.fdopen(file, "rb") as opened:
            return opened.read(LIMIT) if _is_roots(at) and _is_roots(file) else b""
    finally:
        os.close(at)


def _is_roots(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return found.st_uid == 0 and not found.st_mode & 0o077
