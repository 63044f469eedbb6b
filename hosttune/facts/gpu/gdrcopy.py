"""GDRCopy, by which UCX, NVSHMEM, NCCL and libfabric copy small messages to and from GPU memory
with the processor: its library, and the kernel module gdrdrv that the library opens.

Sources: github.com/NVIDIA/gdrcopy: src/gdrapi.c (gdr_open opens /dev/gdrdrv to read and write, and
refuses a driver of another major version), packages/ (names; builds for the closed driver make no
device node by themselves); proc(5), /proc/devices. A library inside of containers, or that was
built by hand, is not seen.
"""

from __future__ import annotations

from hosttune.facts.reading import if_absent, is_there, read_line, read_text, require_sure
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.numbers import parse_digits

NODE = "/dev/gdrdrv"
_MODULE = "/sys/module/gdrdrv"
_LIBRARIES = ("libgdrapi", "gdrcopy")  # since 2.3, before


@frozen
class Gdrcopy(Subject):
    """What is there of it."""

    @fact
    def library(self) -> str:
        """Version of the package with the library: 2.4; empty where none is installed."""
        found = (self.facts.packages[name] for name in _LIBRARIES)
        return next(
            (upstream_of(one.version).partition("-")[0] for one in found if one.is_installed), ""
        )

    is_loaded: bool = read_with(lambda self: is_there(self.reader, _MODULE))  # gdrdrv
    # version of the loaded module; empty where none is loaded, or it does not tell
    driver: str = read_with(
        lambda self: if_absent(read_line(self.reader, f"{_MODULE}/version"), "")
    )

    @fact
    def node_problem(self) -> str:
        """Why not every user can open its device node; empty where all can."""
        node = require_sure(self.reader.stat(NODE))
        if not isinstance(node, Stat):
            return f"there is no {NODE}"
        if node.type == "directory":
            # Docker makes a folder of a path that it is given to mount and that is not there.
            return f"{NODE} is a directory and not a device (first: sudo rmdir {NODE})"
        if node.type != "character":
            return ""
        major = major_in(if_absent(read_text(self.reader, "/proc/devices"), ""))
        if major >= 0 and node.major != major:
            return (
                f"{NODE} is left of another time: it has the number {node.major}, and the driver "
                f"{major}"
            )
        return (
            ""
            if node.mode & 0o006 == 0o006
            else f"{NODE} is not open to all users (mode {node.mode:04o})"
        )

    @property
    def fits(self) -> bool:
        """Library and driver have one major version, as far as both tell."""
        return not (self.library and self.driver) or _parse_major(self.library) == _parse_major(
            self.driver
        )


def major_in(devices: str) -> int:
    """The number of gdrdrv in the text of /proc/devices; -1 where it has none."""
    rows = (row.split() for row in devices.splitlines())
    return next(
        (parse_digits(row[0], -1) for row in rows if len(row) == 2 and row[1] == "gdrdrv"), -1
    )


def _parse_major(version: str) -> str:
    return version.partition(".")[0]
