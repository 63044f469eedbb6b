"""nvidia-imex, which shares GPU memory between the nodes of an NVL rack (GB200, GB300).

Sources: NVIDIA, IMEX Service Guide (the service checks the version of the loaded driver; IMEX_NODE_CONFIG_FILE of
/etc/nvidia-imex/config.cfg names the list of the addresses of all nodes, one a line; a list can be for the whole NVLink
domain, or written for each job); NVIDIA, GPU Operator documentation, ComputeDomains (pods run it, and the service of
the host is switched off). Prologs of Slurm that write the list and restart the service: aws-parallelcluster-cookbook.
Addresses of this host: /proc/net/fib_trie and /proc/net/if_inet6 (kernel: net/ipv4/fib_trie.c, net/ipv6/addrconf.c).
"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared
from hosttune.facts.gpu.platforms import IMEX, is_of_rack
from hosttune.facts.network.gids import ipv4_of_roce
from hosttune.facts.network.network import ROUTES, parse_routes
from hosttune.facts.reading import derive, if_absent, names_in, read_text, read_texts
from hosttune.facts.services.units import Unit, read_units
from hosttune.facts.slurm_conf import SLURM_CONF
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
_MOST_NODES = 4096


@frozen
class Imex(Fact):
    """The service of this host."""

    is_of_rack: bool  # the GPUs are joined to those of other nodes by NVLinks
    is_installed: bool  # its package is
    state: str  # active, failed, inactive ...
    starts_at_boot: bool  # its unit is enabled
    is_per_job: bool  # something starts it for each job: pods of Kubernetes, or a prolog of Slurm
    odd_version: str  # its own version, if the loaded driver has another one; else empty
    nodes: tuple[str, ...]  # the addresses of the nodes that share memory; none if nothing is set up
    nodes_file: str  # the file that lists the nodes of the domain
    names_this_host: bool  # one of these addresses is this host's

    @property
    def is_set_up(self) -> bool:
        """It runs, is meant to, or has a list of nodes."""
        return self.state in {"active", "failed", "activating"} or self.starts_at_boot or bool(self.nodes)


def parse_addresses(fib_trie: str, if_inet6: str) -> frozenset[str]:
    """The addresses of this host, as `ipaddress` spells them, without those of the loopback."""
    found = [*_LOCAL.findall(fib_trie)]
    for row in if_inet6.splitlines():
        digits = row.split()[0] if row.strip() else ""
        if len(digits) == 32:
            found.append(":".join(digits[at : at + 4] for at in range(0, 32, 4)))
    parsed = (_parse_address(one) for one in found)
    return frozenset(one for one in parsed if one and not ip_address(one).is_loopback)


def parse_nodes(content: str) -> tuple[str, ...]:
    """The entries of nodes_config.cfg, one a line; `#` begins a comment."""
    rows = (row.partition("#")[0].strip() for row in content.splitlines()[:_MOST_NODES])
    return tuple(row for row in rows if row)


def collect(reader: Reader, facts: Facts) -> Imex:
    unit = make_shared(lambda: read_units(reader, (IMEX,)).get(IMEX))
    nodes_file = make_shared(_nodes_file, reader)
    nodes = make_shared(lambda: parse_nodes(if_absent(read_text(reader, nodes_file()), "")))
    return Imex(
        is_of_rack=lazy(lambda: any(is_of_rack(gpu.device_id) for gpu in facts.gpus.devices)),
        is_installed=lazy(lambda: bool(_find_versions(facts))),
        state=lazy(lambda: _read_state(reader, attempt(unit))),
        starts_at_boot=lazy(lambda: IMEX in facts.units.enabled),
        is_per_job=lazy(_is_per_job, reader, facts),
        odd_version=lazy(_odd_version, facts),
        nodes=lazy(nodes),
        nodes_file=lazy(nodes_file),
        names_this_host=lazy(lambda: _names_this_host(reader, facts, nodes())),
    )


def _find_versions(facts: Facts) -> tuple[str, ...]:
    names = [name for name in facts.packages.brought if _PACKAGE.fullmatch(name)]
    return tuple(upstream_of(facts.packages[name].version) for name in names)


def _odd_version(facts: Facts) -> str:
    loaded, own = facts.driver.loaded_version, _find_versions(facts)
    return "" if not loaded or not own or loaded in own else own[0]


def _read_state(reader: Reader, unit: object) -> str:
    """Where systemd does not answer, processes in the service's control group show that it runs."""
    if isinstance(unit, Unit):
        return unit.active_state
    if if_absent(read_text(reader, _GROUP), "").strip():
        return "active"
    raise UnknownFact(f"systemd does not tell whether {IMEX} runs")


def _is_per_job(reader: Reader, facts: Facts) -> bool:
    if facts.managers.kubelet or facts.managers.gpu_operator:
        return True
    paths = [f"{folder}/{name}" for folder in _PROLOGS for name in names_in(reader, folder)]
    for _, content in read_texts(reader, SLURM_CONF):
        paths += [one for one in _SLURM_PROLOG.findall(content) if one.startswith("/")]
    return any("nvidia-imex" in content for _, content in read_texts(reader, paths))


def _nodes_file(reader: Reader) -> str:
    named = _NODE_FILE.findall(if_absent(read_text(reader, CONFIG), ""))
    return str(named[-1]) if named else NODES


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
        raise UnknownFact("the list of nodes has names, and which addresses these have is not asked")
    own = attempt(lambda: parse_addresses(*(if_absent(read_text(reader, path), "") for path in (FIB_TRIE, IF_INET6))))
    if isinstance(own, frozenset) and own:
        return bool(listed & own)
    if listed & ipv4_of_roce(reader):
        return True
    # Each address is in a subnet that a route reaches directly, or in a table of RoCE.
    subnets = derive(if_absent(read_text(reader, ROUTES), ""), ROUTES, parse_routes).values()
    reached = {ip_network(subnet, strict=False) for own_subnets in subnets for subnet in own_subnets}
    sizes = {subnet.prefixlen for subnet in reached}
    around = (ip_network((one, size), strict=False) for one in listed for size in sizes)
    if not reached or not reached.isdisjoint(around):
        raise UnknownFact("the addresses of this host are not known")
    return False
