"""The files of a slurm.conf: itself and what it includes. Source: slurm.conf(5), Include."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLURM_CONF = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf", "/run/slurm/conf/slurm.conf",
)  # fmt: skip
_SETTING = regex(r"(?<!\w)(TmpFS|TmpDisk|Include)(?:\s*=\s*|\s+)(\S+)", re.IGNORECASE)


def slurm_settings(content: str) -> Iterator[tuple[int, str, str]]:
    """(line, key in lower case, value) of TmpFS, TmpDisk and Include, on lines of their own or of nodes."""
    for number, row in enumerate(content.splitlines(), 1):
        for key, value in _SETTING.findall(row.partition("#")[0]):
            yield number, key.lower(), value


def slurm_files(main: str, read: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """(path, content) of a slurm.conf and of all that it includes, each once; what is absent reads as empty."""
    waiting = [main]
    for path in waiting:  # grows by what is included
        content = read(path)
        yield path, content
        for _, key, value in slurm_settings(content):
            inner = posixpath.join(posixpath.dirname(path), value)
            if key == "include" and inner not in waiting:
                waiting.append(inner)
