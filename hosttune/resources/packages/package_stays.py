"""What packages leave when they go, or another version takes their place: files on the disk
(deb-conffiles(5), dpkg(1)), and services that still use the old ones.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.facts.base import UnknownFact
from hosttune.facts.packages import DATABASE
from hosttune.host.door import Completed, Stat
from hosttune.quoting import quote
from hosttune.resources.packages.package_set import names_of
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.host.door import Reader
    from hosttune.values import Change

_BESIDE = (".dpkg-dist", ".dpkg-old", ".dpkg-new", ".ucf-dist", ".ucf-old")


def restarts_left(reader: Reader) -> tuple[str, ...]:
    """One sentence that names the services that still use files which a transaction of apt has
    replaced, where needrestart is installed.

    It would restart services behind apt's back, jobs of a scheduler and containers with them; so it
    is suspended for what hosttune runs (host/process.py), and asked afterwards what it would have
    done (needrestart(1)).
    """
    answer = reader.query(apt.NEEDRESTART, timeout_s=apt.LOOK_TIMEOUT_S)
    if isinstance(answer, Unreadable):
        return (
            (
                "needrestart waits: it did not say which services use replaced files "
                f"({answer.reason})"
            ),
        )
    units = apt.parse_restarts(answer.text) if isinstance(answer, Completed) else ()
    if not units:
        return ()
    names = ", ".join(units)
    return (
        (
            f"a restart of {names} waits: needrestart says that replaced files are in use; sudo "
            "needrestart does it"
        ),
    )


def left_by(changes: Iterable[Change], reader: Reader) -> tuple[str, ...]:
    """A sentence on the configuration of packages that are gone, and one on the versions of changed
    configuration files that dpkg has put beside them.
    """
    names = {name for change in changes for name in names_of(change.address.name)}
    try:
        packages = Facts(reader).packages
        gone = [name for name in sorted(names) if packages[name].status == "config-files"]
    except UnknownFact:
        return ()
    beside = [
        f"{path}{end}"
        for name in sorted(names)
        for path in _list_configuration(reader, name)
        for end in _BESIDE
        if isinstance(reader.stat(f"{path}{end}"), Stat)
    ]
    found = [
        (
            f"the configuration files of {', '.join(gone)}: sudo apt-get purge "
            f"{' '.join(map(quote, gone))}"
        )
    ] * bool(gone)
    found += [f"{', '.join(beside)}: versions of changed configuration files, to compare"] * bool(
        beside
    )
    return tuple(found)


def _list_configuration(reader: Reader, name: str) -> tuple[str, ...]:
    """The configuration files that a package brought; of one that is gone, too, until it is
    purged.
    """
    database = reader.read(DATABASE)
    found: list[str] = []
    for paragraph in database.split(b"\n\n") if isinstance(database, bytes) else ():
        if paragraph.lstrip(b"\n").startswith(b"Package: %b\n" % name.partition(":")[0].encode()):
            _, _, rows = paragraph.decode("utf-8", "replace").partition("\nConffiles:\n")
            found += [
                row.split()[0]
                for row in takewhile(lambda row: row.startswith(" /"), rows.splitlines())
            ]
    return tuple(dict.fromkeys(found))
