"""systemd's units, and the daemons that matter to long jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.services.clock import Clock
    from hosttune.facts.services.core_dumps import CoreDumps
    from hosttune.facts.services.data_folders import DataFolders
    from hosttune.facts.services.desktop import Desktop
    from hosttune.facts.services.job_daemons import JobDaemons
    from hosttune.facts.services.journal import SystemdJournal
    from hosttune.facts.services.needrestart import Needrestart
    from hosttune.facts.services.oomd import Oomd
    from hosttune.facts.services.slurm import Slurm
    from hosttune.facts.services.sshd import Sshd
    from hosttune.facts.services.unit_settings import UnitSettings
    from hosttune.facts.services.units import Units
    from hosttune.facts.services.upgrades import Upgrades


class ServicesFacts:
    """The subjects in this folder."""

    clock: Clock
    core_dumps: CoreDumps
    data_folders: DataFolders
    desktop: Desktop
    job_daemons: JobDaemons
    journal: SystemdJournal
    needrestart: Needrestart
    oomd: Oomd
    slurm: Slurm
    sshd: Sshd
    unit_settings: UnitSettings
    units: Units
    upgrades: Upgrades
