"""Signs of how a host is: what is and what has failed, one thing each, to be held against the same
host before (losses.py). What is read here needs no look that may change something, and no time but
that of programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import get_raw
from hosttune.facts.gpu.gpu_errors import slot_of
from hosttune.facts.gpu.nvidia import HANGS
from hosttune.facts.losses import Aspect, Sign, Unseen
from hosttune.facts.network import reached
from hosttune.facts.reading import hint, require_known
from hosttune.facts.services.units import CONTINUE, GATE, failed_units, read_failures, read_units
from hosttune.host.door import FIRST_PERSON
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

UUIDS = ("nvidia-smi", "--query-gpu=pci.bus_id,uuid", "--format=csv,noheader")
# Of NVIDIA and of InfiniBand, as packages of Debian, Ubuntu, NVIDIA and DOCA name them.
SERVICES = (
    "dcgm-exporter.service", "nvidia-dcgm.service", "nvidia-fabricmanager.service",
    "nvidia-gridd.service", "nvidia-imex.service", "nvidia-persistenced.service", "nvlsm.service",
    "openibd.service", "opensm.service", "opensmd.service", "rdma-ndd.service",
    "srp_daemon.service",
)  # fmt: skip
_ROW = regex(
    r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?, (GPU-[0-9A-Fa-f-]+)\s*"
)
# Units that say nothing of the host: a service of Accept=yes has an instance for each connection,
# and a user ends sessions, the own service manager (user@.service(5)) and mounts of sticks in any
# way. Scopes are what programs start for users, containers and jobs (systemd.scope(5)). dbus-broker
# starts dbus-:N.N-NAME@N.service for any caller (from memory). A connection is named by number, of
# newer systemd cookie, and two addresses with ports or process and user (its instance_from_socket).
_OF_OTHERS = regex(
    r"[^@]*@\d+-(?:\d+-)?(?:\d+(?:_\d+)?-\d+|unknown|[\w.:]+:\d+-[\w.:]+:\d+)\.service"
    r"|user(?:-runtime-dir)?@\d+\.service|dbus-:.+@\d+\.service|.+\.scope|user-\d+\.slice"
    r"|(?:run-user|run-media|media)-.*\.mount"
    # udev starts these for an array or a volume group on a file that any user can attach (udisks2:
    # loop-setup); mdmonitor ends with a failure where mdadm.conf has no MAILADDR. What a host's own
    # array lacks storage-raid tells.
    r"|mdadm-(?:last-resort|grow-continue)@.*\.service|mdmon@.*\.service"
    r"|mdmonitor(?:-oneshot)?\.service|lvm-activate-.*\.service"
    r"|lvm2-pvscan@\d+:\d+\.service"
    # Checks of each array, and of each file system that is mounted (mdadm; e2scrub_all(8),
    # xfs_scrub_all(8)), a user's image too; and what reads /var/crash, where any user writes
    # (apport).
    r"|mdcheck_(?:start|continue)\.service|(?:e2scrub|xfs_scrub)(?:_fail)?@.*\.service"
    r"|apport-autoreport\.service"
)

# systemd gives up a socket to which too many connect, which any user can do to some
# (systemd-coredump.socket by crashes), and a path unit whose service it had to start too often
# (apport-autoreport.path, which looks at /var/crash). What is behind it has not failed; a socket
# that sshd is lost with counts by itself. And what the kernel kills for memory, which any user can
# use up.
_FLOODED = frozenset({"trigger-limit-hit", "unit-start-limit-hit", "oom-kill"})
# Debian policy, 9.2.2; those below are of systemd-homed (systemd.io/UIDS-GIDS)
_OF_PACKAGES = range(60514, 65536)
_PASSWD = 7  # fields of a line (passwd(5))
_NO_LOGIN = ("/nologin", "/false")
# Of a service: each start before ended well (systemd, service.c: service_enter_dead keeps what
# failed first).
_TOO_OFTEN = "start-limit-hit"

Found = Sign | Unseen


def read_failed_units(reader: Reader) -> Iterator[Found]:
    for name in failed_by_itself(reader):
        if name not in {GATE, CONTINUE}:  # they hold work until the trial is over
            yield Sign(Aspect.FAILED_UNIT, name)


def failed_by_itself(
    reader: Reader, *, are_loaded: bool = False
) -> Mapping[str, Mapping[str, str]]:
    """The failed units that no user can have had fail, with their properties FAILURE; none of these
    where systemd did not tell them. Raises UnknownFact where it does not answer.
    """
    names = (
        name
        for name in failed_units(reader, are_loaded=are_loaded)
        if not _OF_OTHERS.fullmatch(name)
    )
    failed = list(dict.fromkeys(names))
    failures = read_failures(reader, failed) if failed else {}
    return {
        name: unit for name in failed if not _is_by_users(reader, unit := failures.get(name, {}))
    }


def _is_by_users(reader: Reader, unit: Mapping[str, str]) -> bool:
    """Whether any user may have had a unit fail: a person ends each process that runs as that
    person. A service with a name on the system bus that no boot wants is started by any caller
    (dbus-daemon(1), SystemdService=): fwupd on a machine that has nothing for it.
    """
    is_wanted = unit.get("WantedBy") or unit.get("RequiredBy")
    is_triggered = any(
        one.endswith((".path", ".socket")) for one in unit.get("TriggeredBy", "").split()
    )
    result = unit.get("Result")
    if unit.get("DynamicUser") != "yes" and _is_person(reader, unit.get("User", "")):
        return True
    return (
        result in _FLOODED
        or (result == _TOO_OFTEN and is_triggered)
        or bool(unit.get("BusName") and not is_wanted)
    )


def _is_person(reader: Reader, account: str) -> bool:
    """Whether a person has this account (User= of systemd.exec(5), a name or a number); one that
    /etc/passwd does not have comes from a directory of persons. With such a shell no one logs in:
    clusters give munge and slurm one user ID on all nodes, mostly above 1000.
    """
    if account in {"", "root"}:
        return False
    rows = (row.split(":") for row in hint(reader, "/etc/passwd").split("\n"))
    row = next((row for row in rows if len(row) == _PASSWD and account in (row[0], row[2])), None)
    if row is not None and row[-1].endswith(_NO_LOGIN):
        return False
    number = parse_digits(row[2] if row is not None else account, FIRST_PERSON)
    return number >= FIRST_PERSON and number not in _OF_PACKAGES


def read_services(reader: Reader) -> Iterator[Found]:
    for name, unit in read_units(reader, SERVICES).items():
        if unit.is_active:
            yield Sign(Aspect.SERVICE, name)


def mounts_of_boot(facts: Facts, others: Iterable[str] = ()) -> Iterator[Mount]:
    """What is mounted at /, where a boot mounts something, and at `others`; not by a user, nor
    where any user may unmount it.
    """
    entries = (one for one in facts.fstab.at_boot if "users" not in one.options)
    asked = {*(one.path or one.target for one in entries), "/", *others}
    return (
        mount
        for target, mount in facts.mounts.at.items()
        if target in asked and not mount.is_of_user
    )


def read_routes(reader: Reader) -> Iterator[Found]:
    for family, interfaces in reached.default_routes(reader).items():
        if interfaces:
            yield Sign(Aspect.ROUTE, family)


def read_addresses(reader: Reader, facts: Facts) -> Iterator[Found]:
    for interface, family in reached.list_addresses(reader, facts):
        yield Sign(Aspect.ADDRESS, f"{interface} {family}")


def read_links(facts: Facts) -> Iterator[Found]:
    for card in facts.network.cards:
        if card.is_up and not card.is_function:
            yield Sign(Aspect.LINK, card.name)


def read_rdma_ports(facts: Facts) -> Iterator[Found]:
    for port in facts.rdma.ports:
        if port.is_active and not port.is_function:
            yield Sign(Aspect.RDMA_PORT, port.name)


def read_gpus(reader: Reader, facts: Facts, smi_s: float) -> Iterator[Found]:
    """The GPUs that answer, and which of them have joined their fabric."""
    if not facts.gpus.has_gpu or get_raw(facts.driver, "loaded_version") == "":
        return
    asked = reader.query(UUIDS, timeout_s=smi_s)
    # It is not asked a second time: each question to a driver that hangs leaves a process that no
    # signal ends.
    if isinstance(asked, Unreadable) and HANGS in asked.reason:
        yield Unseen(Aspect.GPU, asked.reason, is_stuck=True)
        yield Unseen(Aspect.FABRIC, asked.reason, is_stuck=True)
        return
    answer = require_known(asked, "nvidia-smi")
    rows = [row for line in answer.text.splitlines() if (row := _ROW.fullmatch(line.strip()))]
    for row in rows:
        yield Sign(Aspect.GPU, row[5], slot_of(*row.group(1, 2, 3, 4)))
    # No row is an answer that was not understood, and not "no GPU": the GPUs are then unseen, with
    # the words of the program.
    if not rows:
        lines = (answer.text or answer.errors).strip().splitlines() or ["it printed nothing"]
        reason = f"nvidia-smi: {lines[0]}"
        yield Unseen(Aspect.GPU, reason)
        yield Unseen(Aspect.FABRIC, reason)
        return
    for gpu in facts.health.gpus:
        state = get_raw(gpu, "fabric_state")
        if isinstance(state, Unreadable):
            yield Unseen(Aspect.FABRIC, state.reason, gpu.slot)
        elif state == "Completed":
            yield Sign(Aspect.FABRIC, gpu.slot)


def read_drivers(facts: Facts) -> Iterator[Found]:
    for gpu in facts.gpus.devices:
        yield Sign(Aspect.DRIVER, gpu.slot, gpu.driver)
