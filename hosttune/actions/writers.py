"""Who writes the files that findings name: a package, the distribution, a tool that leaves its mark in the file.

A finding names the file and the line that set a value. Who puts that line there decides what a person does about it: a
line that Ansible or cloud-init writes comes back. Nothing is said where that cannot be told: then it was an
administrator, or a tool that leaves no mark.

Sources: ansible.builtin.template (`ansible_managed`) and blockinfile; the files that cloud-init, curtin and the build
of Ubuntu's cloud images leave; dpkg-query(1), deb-conffiles(5).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.facts.packages import DATABASE
from hosttune.host.door import Completed, Stat
from hosttune.regex import regex
from hosttune.values import HoldKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader
    from hosttune.values import Finding

# A file of settings, and the line in it: `/etc/sysctl.d/99-x.conf:3`, `/etc/fstab line 3`.
_SHIPPED = r"(?:usr/)?lib/(?:environment|modprobe|modules-load|sysctl|systemd|tmpfiles|tuned|udev)(?:\.d)?"
_PLACE = regex(rf"(?<![\w.])(/(?:etc|run|{_SHIPPED})/[^\s,;:()'\"]*[^\s,;:()'\".])(?::[0-9]+\b| line [0-9]+\b)?")
_OWN = "/60-hosttune-"
_LARGEST = 1 << 16  # bytes of a file that are looked through for a mark
_COMMENT = rb"(?im)^[ \t]*(?:[#;]|//).*\b"
_MADE = rb"(?:generated|written|created|added|managed) by "
_MARKS = tuple(
    (regex(_COMMENT + rb"(?:" + words + rb")"), name)
    for words, name in (
        (rb"ansible[_ -]managed", "Ansible"),
        (_MADE + rb"cloud-init\b|information provided by the datasource", "cloud-init"),
        (rb"created/modified by the Cloud Image build process", "the cloud image"),
        (_MADE + rb"curtin\b", "the installer (curtin)"),
        (_MADE + rb"tuned\b", "TuneD"),
        (rb"managed by (puppet|chef|salt|cfengine|terraform|juju|landscape)\b", ""),
    )
)
_NAMES = (("cloud-init", "cloud-init"), ("curtin", "the installer (curtin)"), ("cloudimg", "the cloud image"))


def name_writers(findings: Iterable[Finding], reader: Reader, *, ask: bool = False) -> tuple[Finding, ...]:
    """The findings with `of Ansible`, `of the package procps` behind each file that such a one writes: in their
    evidence, and in the reasons why others own what they are about. `ask`: dpkg-query is asked for the package of what
    the distribution ships, which takes some 20 ms for each file.
    """
    known: dict[str, str] = {}

    def of(found: re.Match[str]) -> str:
        path = found[1]
        if path not in known:
            known[path] = writer_of(reader, path, ask=ask)
        return f"{found[0]} of {known[path]}" if known[path] else found[0]

    def told(finding: Finding) -> Finding:
        evidence = tuple(_PLACE.sub(of, line) for line in finding.evidence)
        hold = finding.hold
        if hold.kind is HoldKind.OWNED:
            hold = replace(hold, detail=_PLACE.sub(of, hold.detail))
        return replace(finding, evidence=evidence, hold=hold)

    return tuple(told(finding) for finding in findings)


def writer_of(reader: Reader, path: str, *, ask: bool = False) -> str:
    """`Ansible`, `the package procps`, `the distribution` ...; empty where nothing tells."""
    stat = reader.stat(path)
    if _OWN in path or not isinstance(stat, Stat) or stat.type != "file":
        return ""
    content = reader.read(path) if stat.size <= _LARGEST else None
    text = content if isinstance(content, bytes) else None
    for mark, name in _MARKS:
        if found := mark.search(text or b""):
            return name or found[1].decode().capitalize()
    for word, name in _NAMES:
        if word in posixpath.basename(path):
            return name
    if path.startswith(("/usr/", "/lib/")):
        package = _shipping(reader, path) if ask else ""
        return f"the package {package}" if package else "the distribution"
    return _configuring(reader, path, text)


def written_at(reader: Reader, path: str) -> str:
    """When the file was written last, `2026-11-21 15:04`, UTC; empty where that is not known."""
    stat = reader.stat(path)
    if not isinstance(stat, Stat) or stat.mtime_ns <= 0:
        return ""
    return datetime.fromtimestamp(stat.mtime_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M")


def _shipping(reader: Reader, path: str) -> str:
    """The package that ships a file; packages of before the merge of /lib into /usr name the other path."""
    for name in dict.fromkeys((path, path.removeprefix("/usr"))):
        answer = reader.query(("dpkg-query", "--search", name))
        if isinstance(answer, Completed) and answer.status == 0:
            return re.split("[:,]", answer.text, maxsplit=1)[0].strip()
    return ""


def _configuring(reader: Reader, path: str, text: bytes | None) -> str:
    """The package that brings a file of /etc as configuration, and whether it is still what the package brings: of a
    text that was not read (None) that is not said.
    """
    database = reader.read(DATABASE)
    at = database.find(f"\n {path} ".encode()) if isinstance(database, bytes) else -1
    if not isinstance(database, bytes) or at < 0:
        return ""
    package = database[:at].rpartition(b"\nPackage: ")[2].partition(b"\n")[0].removeprefix(b"Package: ")
    digest = database[at + 1 :].split(maxsplit=2)[1]
    # dpkg's own digest of what it brought
    is_changed = text is not None and hashlib.md5(text, usedforsecurity=False).hexdigest().encode() != digest
    return f"the package {package.decode('ascii', 'replace')}{' (changed here)' if is_changed else ''}"
