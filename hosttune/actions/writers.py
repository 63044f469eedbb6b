"""Who writes the files that findings name, behind each of their places: what is known of that is in
facts/file_owners.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from hosttune.facts.file_owners import writer_of
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import HoldKind

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from hosttune.host.door import Reader
    from hosttune.values import Finding

__all__ = ["name_writers", "writer_of", "written_at"]

# A file of settings, and the line in it: `/etc/sysctl.d/99-x.conf:3`, `/etc/fstab line 3`.
_SHIPPED = (
    r"(?:usr/)?lib/(?:environment|modprobe|modules-load|sysctl|systemd|tmpfiles|tuned|udev)(?:\.d)?"
)
_PLACE = regex(
    rf"(?<![\w.])(/(?:etc|run|{_SHIPPED})/[^\s,;:()'\"]*[^\s,;:()'\".])(?::[0-9]+\b"
    rf"| line [0-9]+\b)?"
)


def name_writers(
    findings: Iterable[Finding], reader: Reader, *, ask: bool = False
) -> tuple[Finding, ...]:
    """The findings with `of Ansible`, `of the package procps` behind each file that such a one
    writes: in their evidence, and in the reasons why others own what they are about. `ask`:
    dpkg-query is asked for the package of what the distribution ships, which takes some 20 ms for
    each file.
    """
    known: dict[tuple[str, bool], str] = {}

    def of(found: re.Match[str], *, asks: bool) -> str:
        path = found[1]
        if found.string.startswith(" of ", found.end()):  # the finding has named the owner itself
            return found[0]
        # Twenty findings may name one drop-in, and each question to dpkg takes some 20 ms.
        if (path, asks) not in known:
            known[path, asks] = writer_of(reader, path, ask=asks)
        return f"{found[0]} of {known[path, asks]}" if known[path, asks] else found[0]

    def describe_finding(finding: Finding) -> Finding:
        is_held = finding.hold.kind is HoldKind.OWNED  # such a finding has asked, too
        name = partial(of, asks=ask or is_held)
        evidence = tuple(_PLACE.sub(name, line) for line in finding.evidence)
        hold = (
            replace(finding.hold, detail=_PLACE.sub(name, finding.hold.detail))
            if is_held
            else finding.hold
        )
        return replace(finding, evidence=evidence, hold=hold)

    return tuple(describe_finding(finding) for finding in findings)


def written_at(reader: Reader, path: str) -> str:
    """When the file was written last, `2026-11-21 15:04`, UTC; empty where that is not known."""
    stat = reader.stat(path)
    if not isinstance(stat, Stat) or stat.mtime_ns <= 0:
        return ""
    return datetime.fromtimestamp(stat.mtime_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M")
