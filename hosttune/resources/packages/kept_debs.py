"""The .deb files of versions that a transaction of ours replaced or removed: kept as long as it can
be undone.

They are in a folder that only root can enter, under apt's own names,
`NAME_VERSION_ARCHITECTURE.deb`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from hosttune.errors import HosttuneError, Refused
from hosttune.facts import apt_get as apt
from hosttune.host.door import Completed
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader, Writer

HOME: Final = "/var/lib/hosttune"
FOLDER: Final = f"{HOME}/debs"
_PARTIAL: Final = f"{FOLDER}/partial"  # a file is here until it is whole and on the disk


def spell_operand(reader: Reader, name: str, version: str) -> str:
    """What apt-get is given to install exactly this: the kept file where there is one, else
    NAME=VERSION.
    """
    kept = _find_deb(reader, FOLDER, name, version)
    return f"{FOLDER}/{kept}" if kept else f"{name}={version}"


def keep(writer: Writer, old: Mapping[str, str]) -> None:
    """Keep the .deb files of these versions (name -> version), as far as the cache of apt or an
    archive has them.

    Raises Refused when one that can be had cannot be kept, such as on a full disk.
    """
    wanted = {
        name: version
        for name, version in old.items()
        if not _find_deb(writer, FOLDER, name, version)
    }
    if not wanted or writer.persistent_only:
        return
    answer = writer.query(apt.ask_policy(wanted), timeout_s=apt.LOOK_TIMEOUT_S)
    offered = apt.offered_versions(answer.text) if isinstance(answer, Completed) else {}
    _clear(writer)
    for folder in (HOME, FOLDER, _PARTIAL):
        if writer.stat(folder) is ABSENT:
            writer.make_folder(folder)
    try:
        for name, version in wanted.items():
            _keep(writer, name, version, is_offered=version in offered.get(name, ()))
    finally:
        _clear(writer)


def _keep(writer: Writer, name: str, version: str, *, is_offered: bool) -> None:
    cached = _find_deb(writer, apt.CACHE, name, version)
    try:
        if cached:
            writer.run(
                ("cp", "--", f"{apt.CACHE}/{cached}", f"{_PARTIAL}/{cached}"),
                timeout_s=apt.LOOK_TIMEOUT_S,
            )
        elif is_offered:
            writer.run(
                apt.make_download(_PARTIAL, f"{name}={version}"), timeout_s=apt.INSTALL_TIMEOUT_S
            )
        # Synced before it is renamed: after a power loss a name without its bytes would be taken
        # for a file that an undo can install.
        if file := _find_deb(writer, _PARTIAL, name, version):
            writer.run(("sync", "--", f"{_PARTIAL}/{file}"), timeout_s=apt.LOOK_TIMEOUT_S)
            writer.run(
                ("mv", "--", f"{_PARTIAL}/{file}", f"{FOLDER}/{file}"), timeout_s=apt.LOOK_TIMEOUT_S
            )
    except HosttuneError as error:
        message = (
            f"the present version {version} of {name} cannot be kept for an undo: {error.message}"
        )
        raise Refused(
            message, hint="no package has changed; sudo apt-get update, or make room in /var"
        ) from None


def _clear(writer: Writer) -> None:
    if writer.stat(_PARTIAL) is not ABSENT:
        writer.run(("rm", "-rf", "--", _PARTIAL), timeout_s=apt.LOOK_TIMEOUT_S)


def drop(writer: Writer, needed: Iterable[tuple[str, str]]) -> None:
    """Remove the kept files that belong to none of these (name, version)."""
    names = writer.list(FOLDER)
    starts = tuple(apt.file_start(name, version) for name, version in needed)
    over = (
        tuple(one for one in names if not one.startswith(starts))
        if isinstance(names, tuple)
        else ()
    )
    if over:
        writer.run(
            ("rm", "-rf", "--", *(f"{FOLDER}/{name}" for name in over)),
            timeout_s=apt.LOOK_TIMEOUT_S,
        )


def _find_deb(reader: Reader, folder: str, name: str, version: str) -> str:
    """The file of this version in the folder, whole; empty where there is none."""
    names = reader.list(folder)
    files = names if isinstance(names, tuple) else ()
    others = apt.list_foreign(reader) if files else ()
    return next((one for one in files if apt.is_file_of(one, name, version, others)), "")
