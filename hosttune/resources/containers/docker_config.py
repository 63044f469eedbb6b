"""Whether docker's daemon.json is there at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.host.door import Stat
from hosttune.resources.containers.docker_file import PRESENT, DaemonJson, parse_document
from hosttune.values import ABSENT, FileValue, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value


class DockerConfigAddress(DaemonJson):
    """`docker-config:/etc/docker/daemon.json`: whether the file is there; made with an empty
    object, and removed while it holds no more than that.
    """

    kind = "docker-config"

    def read(self, reader: Reader, name: str) -> Value:
        stat = reader.stat(name)
        return PRESENT if isinstance(stat, Stat) else stat

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        content = writer.read(name)
        if change.after is not ABSENT:
            writer.replace(name, FileValue(b"{}\n"), expected=ABSENT)
            return
        root = parse_document(content) if isinstance(content, bytes) else content
        if (
            not isinstance(content, bytes)
            or isinstance(root, Unreadable)
            or not hasattr(root, "members")
        ):
            raise Refused(f"{name} stays: it cannot be read")
        # A person may have added keys since. They are theirs, so the file stays with them.
        if root.members:
            raise Refused(
                f"{name} stays: it holds {', '.join(member.key for member in root.members)}"
            )
        writer.remove(name, expected=content)

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:  # noqa: ARG002 - the interface of all kinds
        return ()  # the steps of its keys say all


ADDRESS = DockerConfigAddress()
