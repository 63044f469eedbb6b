"""nvidia-imex, which shares GPU memory between the nodes of an NVL rack (GB200, GB300).

Sources: NVIDIA, IMEX Service Guide (the service checks the version of the loaded driver;
IMEX_NODE_CONFIG_FILE of /etc/nvidia-imex/config.cfg names the list of the addresses of all nodes,
one a line; a list can be for the whole NVLink domain, or written for each job); NVIDIA, GPU
Operator documentation, ComputeDomains (pods run it, and the service of the host is switched off).
Prologs of Slurm that write the list and restart the service: aws-parallelcluster-cookbook.
Addresses of this host: /proc/net/fib_trie and /proc/net/if_inet6 (kernel: net/ipv4/fib_trie.c,
net/ipv6/addrconf.c).
"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.gpu.platforms import IMEX, is_of_rack
from hosttune.facts.network.gids import ipv4_of_roce
from hosttune.facts.network.network import ROUTES, parse_routes
from hosttune.facts.reading import derive, if_absent, names_in, read_text, read_texts
from hosttune.facts.services.units import Unit, read_units
from hosttune.facts.slurm_conf import SLURM_CONF
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
FIB_TRIE = "/proc/net/fib_trie"
IF_INET6 = "/proc/net/if_inet6"
_GROUP = f"/sys/fs/cgroup/system.slice/{IMEX}/cgroup.procs"
_NODE_FILE = regex(r"^[ \t]*IMEX_NODE_CONFIG_FILE[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_LOCAL = regex(r"\|-- (\S+)\n[ \t]+/32 host LOCAL\n")
_PACKAGE = regex(r"nvidia-imex(?:-\d+)?")
# Folders of scripts that Slurm runs before a job: its own examples, and AWS ParallelCluster's.
_PROLOGS = ("/etc/slurm/prolog.d", "/opt/slurm/etc/scripts/prolog.d")
_SLURM_PROLOG = regex(r"^[ \t]*(?:Task)?Prolog[ \t]*=[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
# A rack has 18 nodes of four GPUs; the bound is for a file that is something else.
_MOST_NODES = 4096


@frozen
class Imex(Subject):
    """The service of this host."""

    # the GPUs are joined to those of other nodes by NVLinks
    is_of_rack: bool = read_with(
        lambda self: any(is_of_rack(gpu.device_id) for gpu in self.facts.gpus.devices)
    )
    is_installed: bool = read_with(lambda self: bool(_find_versions(self.facts)))  # its package is

    @fact
    def state(self) -> str:
        """`active`, failed, inactive ..."""
        return _read_state(self.reader, attempt(lambda: self._unit))

    # its unit is enabled
    starts_at_boot: bool = read_with(lambda self: IMEX in self.facts.units.enabled)

    @fact
    def is_per_job(self) -> bool:
        """Something starts it for each job: pods of Kubernetes, or a prolog of Slurm."""
        if self.facts.managers.kubelet or self.facts.managers.gpu_operator:
            return True
        paths = [
            f"{folder}/{name}" for folder in _PROLOGS for name in names_in(self.reader, folder)
        ]
        for _, content in read_texts(self.reader, SLURM_CONF):
            paths += [one for one in _SLURM_PROLOG.findall(content) if one.startswith("/")]
        return any("nvidia-imex" in content for _, content in read_texts(self.reader, paths))

    @fact
    def odd_version(self) -> str:
        """Its own version, if the loaded driver has another one; else empty."""
        loaded, own = self.facts.driver.loaded_version, _find_versions(self.facts)
        return "" if not loaded or not own or loaded in own else own[0]

    @fact
    def nodes(self) -> tuple[str, ...]:
        """The addresses of the nodes that share memory; none if nothing is set up."""
        return parse_nodes(if_absent(read_text(self.reader, self.nodes_file), ""))

    @fact
    def nodes_file(self) -> str:
        """The file that lists the nodes of the domain."""
        named = _NODE_FILE.findall(if_absent(read_text(self.reader, CONFIG), ""))
        return str(named[-1]) if named else NODES

    @fact
    def names_this_host(self) -> bool:
        """One of these addresses is this host's."""
        return _names_this_host(self.reader, self.facts, self.nodes)

    @fact
    def _unit(self) -> Unit | None:
        return read_units(self.reader, (IMEX,)).get(IMEX)

    @property
    def is_set_up(self) -> bool:
        """It runs, is meant to, or has a list of nodes."""
        return (
            self.state in {"active", "failed", "activating"}
            or self.starts_at_boot
            or bool(self.nodes)
        )


def parse_addresses(fib_trie: str, if_inet6: str) -> frozenset[str]:
    """The addresses of this host, as `ipaddress` spells them, without those of the loopback."""
    found = [*_LOCAL.findall(fib_trie)]
    for row in if_inet6.splitlines():
        digits = row.split()[0] if row.strip() else ""
        if len(digits) == 32:
            found.append(":".join(digits[at : at + 4] for at in range(0, 32, 4)))
    parsed = (_parse_address(one) for one in found)
    # 127.0.0.1 is on every host: in a list of nodes it would name any of them.
    return frozenset(one for one in parsed if one and not ip_address(one).is_loopback)


def parse_nodes(content: str) -> tuple[str, ...]:
    """The entries of nodes_config.cfg, one a line; `#` begins a comment."""
    rows = (row.partition("#")[0].strip() for row in content.splitlines()[:_MOST_NODES])
    return tuple(row for row in rows if row)


def _find_versions(facts: Facts) -> tuple[str, ...]:
    names = [name for name in facts.packages.brought if _PACKAGE.fullmatch(name)]
    return tuple(upstream_of(facts.packages[name].version) for name in names)


def _read_state(reader: Reader, unit: object) -> str:
    """Where systemd does not answer, processes in the service's control group show that it runs."""
    if isinstance(unit, Unit):
        return unit.active_state
    if if_absent(read_text(reader, _GROUP), "").strip():
        return "active"
    raise UnknownFact(f"systemd does not tell whether {IMEX} runs")


def _parse_address(spelled: str) -> str:
    try:
        return str(ip_address(spelled))
    except ValueError:
        return ""


def _names_this_host(reader: Reader, facts: Facts, nodes: Iterable[str]) -> bool:
    """Raises UnknownFact where neither an address nor its absence is certain."""
    listed = {_parse_address(one) or one for one in nodes}
    names = {one for one in (attempt(lambda: facts.host.hostname),) if isinstance(one, str)}
    if listed & names:
        return True
    if any(not _parse_address(one) for one in listed):
        raise UnknownFact(
            "the list of nodes has names, and which addresses these have is not asked"
        )
    own = attempt(
        lambda: parse_addresses(
            *(if_absent(read_text(reader, path), "") for path in (FIB_TRIE, IF_INET6))
        )
    )
    if isinstance(own, frozenset) and own:
        return bool(listed & own)
    if listed & ipv4_of_roce(reader):
        return True
    # Each address is in a subnet that a route reaches directly, or in a table of RoCE.
    subnets = derive(if_absent(read_text(reader, ROUTES), ""), ROUTES, parse_routes).values()
    reached = {
        ip_network(subnet, strict=False) for own_subnets in subnets for subnet in own_subnets
    }
    sizes = {subnet.prefixlen for subnet in reached}
    around = (ip_network((one, size), strict=False) for one in listed for size in sizes)
    if not reached or not reached.isdisjoint(around):
        raise UnknownFact("the addresses of this host are not known")
    return False
