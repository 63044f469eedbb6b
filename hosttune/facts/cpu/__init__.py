"""Processors: clocks, idle states, mitigations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.cpu.affinity import Affinity
    from hosttune.facts.cpu.cpu import Cpu
    from hosttune.facts.cpu.cpu_clocks import CpuClocks
    from hosttune.facts.cpu.cpufreq import Cpufreq
    from hosttune.facts.cpu.idle import Idle
    from hosttune.facts.cpu.vulnerabilities import Vulnerabilities


class CpuFacts:
    """The subjects in this folder."""

    affinity: Affinity
    cpu: Cpu
    cpu_clocks: CpuClocks
    cpufreq: Cpufreq
    idle: Idle
    vulnerabilities: Vulnerabilities
