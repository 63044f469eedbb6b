"""Limits of sessions, services and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.limits.confines import Confines
    from hosttune.facts.limits.container_limits import AllContainerLimits
    from hosttune.facts.limits.host_tables import HostTables
    from hosttune.facts.limits.limits import JobLimits
    from hosttune.facts.limits.service_files import ServiceFiles
    from hosttune.facts.limits.session_limits import SessionLimits
    from hosttune.facts.limits.shm import Shm
    from hosttune.facts.limits.tasks import Tasks


class LimitsFacts:
    """The subjects in this folder."""

    confines: Confines
    container_limits: AllContainerLimits
    host_tables: HostTables
    limits: JobLimits
    service_files: ServiceFiles
    session_limits: SessionLimits
    shm: Shm
    tasks: Tasks
