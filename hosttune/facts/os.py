"""Which release of which distribution is installed, from os-release(5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, read_at_once
from hosttune.facts.reading import require_known
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader


@frozen
class Os(Fact):
    """The installed operating system; words are spelled as os-release(5) has them, empty where it
    does not say.
    """

    id: str  # ubuntu, debian
    id_like: tuple[str, ...]  # the distributions it is made from, closest first
    version_id: str  # 24.04, 12
    codename: str  # noble, bookworm
    name: str  # for people: Ubuntu 24.04.3 LTS

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Os:  # noqa: ARG003 - as of all subjects
        return read_at_once(
            cls, lambda: parse(require_known(reader.os_release(), "/etc/os-release"))
        )

    @property
    def is_ubuntu(self) -> bool:
        """Ubuntu itself (DGX OS and the cloud images included), not a distribution made from it."""
        return self.id == "ubuntu"

    @property
    def is_debian(self) -> bool:
        """Debian itself, not a distribution made from it."""
        return self.id == "debian"


def parse(release: Mapping[str, str]) -> Os:
    """The keys of os-release(5), in lower case. An id that is not given is `linux`, as that page
    says.
    """
    return Os(
        id=release.get("id", "linux").lower(),
        id_like=tuple(release.get("id_like", "").lower().split()),
        version_id=release.get("version_id", ""),
        codename=release.get("version_codename") or release.get("ubuntu_codename", ""),
        name=release.get("pretty_name") or release.get("name", ""),
    )
