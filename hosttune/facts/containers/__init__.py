"""Container engines, and what gives containers their GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.containers.containers import Containers
    from hosttune.facts.containers.docker import Docker
    from hosttune.facts.containers.known_holes import KnownHoles
    from hosttune.facts.containers.stores import Stores
    from hosttune.facts.containers.userns import Userns


class ContainersFacts:
    """The subjects in this folder."""

    containers: Containers
    docker: Docker
    known_holes: KnownHoles
    stores: Stores
    userns: Userns
