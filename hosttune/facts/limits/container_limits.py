"""How many files a container may open when it starts: `container_limits.all`.

Docker gives default-ulimits of daemon.json; what has none takes the limits of the service whose
child starts it: containerd, also for Docker and the kubelet, or the one program of k3s and its
likes. Since containerd 2.1.5 and Docker 29 their units have no LimitNOFILE=, so systemd's default
of 1024:524288 counts (docker/docs#23730, moby/moby#51485).

A program in Go raises its own soft limit to the hard one and gives its children what it had itself
(golang/go#46279), so /proc/PID/limits of containerd shows the hard limit twice; what children get
is then read from its unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.limits.limits import ServiceLimits

_DEFAULT = (1024, 524288)  # DefaultLimitNOFILE= of systemd-system.conf(5), from systemd 240 on
_DAEMON_JSON = (
    'write "nofile": {"Name": "nofile", "Soft": 65536, "Hard": 524288} into default-ulimits of '
    "/etc/docker/daemon.json, and restart Docker in a quiet moment; for one container: docker run "
    "--ulimit "
    "nofile=65536:524288"
)
_FLAG = (
    "change --default-ulimit of docker.service to nofile=65536:524288, and restart it in a quiet "
    "moment"
)
_DOCKER, _CONTAINERD = "docker.service", "containerd.service"


@frozen
class ContainerLimits(Fact):
    """The limit of open files with which containers of one engine start."""

    engine: str  # Docker | Kubernetes | containerd
    soft: int  # open files: where the limit of its processes begins
    hard: int  # open files: what its processes may raise their limit to
    unit: str  # the service from which they have it; empty where Docker's own settings say so
    way_out: str  # how to set 65536:524288

    @property
    def text(self) -> str:
        """`1024 files (Docker, by containerd.service)`."""
        return f"{self.soft} files ({self.engine}, by {self.unit or 'default-ulimits'})"


@frozen
class AllContainerLimits(Subject):
    """Those of the engines that run."""

    all: tuple[ContainerLimits, ...] = read_with(lambda self: tuple(_find_limits(self.facts)))


def _find_limits(facts: Facts) -> Iterator[ContainerLimits]:
    services = {one.unit: one for one in facts.limits.services}
    if _DOCKER in services:
        given = _read_docker_default(facts)
        unit = _CONTAINERD if _CONTAINERD in services else _DOCKER
        way_out = _FLAG if "default-ulimits" in facts.docker.flagged else _DAEMON_JSON
        if given:
            yield ContainerLimits("Docker", *given, "", way_out)
        else:
            yield _read_inherited("Docker", services[unit], facts, way_out)
    kubernetes = sorted(DAEMONS.keys() & services.keys())
    # k3s and its likes start containers from a containerd below their own unit.
    own = next((one for one in kubernetes if DAEMONS[one] not in {"kubelet", "kubelite"}), "")
    if own or (kubernetes and _CONTAINERD in services):
        yield _read_inherited("Kubernetes", services[own or _CONTAINERD], facts)
    elif _CONTAINERD in services and _DOCKER not in services:
        yield _read_inherited("containerd", services[_CONTAINERD], facts)


def _read_docker_default(facts: Facts) -> tuple[int, int] | None:
    """(soft, hard) of its default-ulimits, from daemon.json or a flag (--default-ulimit
    nofile=SOFT:HARD).
    """
    settings = facts.docker.in_force
    flag = settings.get("default-ulimits.nofile", "")
    soft, _, hard = flag.partition(":")
    words = (
        (soft, hard or soft)
        if flag
        else tuple(settings.get(f"default-ulimits.nofile.{key}", "") for key in ("Soft", "Hard"))
    )
    numbers = [parse_digits(word, None) for word in words]
    return None if None in numbers else (int(numbers[0] or 0), int(numbers[1] or 0))


def _read_inherited(
    engine: str, service: ServiceLimits, facts: Facts, way_out: str = ""
) -> ContainerLimits:
    soft, hard = service.nofile, service.nofile_hard
    # Equal limits may be what Go made of them (see above). The file is believed only if its hard
    # limit is the one that is seen: a running service may be older than its file.
    if soft == hard and (declared := _read_declared(service.unit, facts)) and declared[1] == hard:
        soft = declared[0]
    edit = f"sudo systemctl edit {quote(service.unit)}"
    own = f"{edit}: LimitNOFILE=65536:524288 (in [Service]), and restart it in a quiet moment"
    return ContainerLimits(engine, soft, hard, service.unit, way_out or own)


def _read_declared(unit: str, facts: Facts) -> tuple[int, int] | None:
    """(soft, hard) that the unit's files say, or systemd's default; None where they are not known,
    or say something else.
    """
    try:
        if not facts.unit_settings[f"{unit}/Service/LimitNOFILE"].exists:
            return None
        settings = facts.unit_settings[f"{unit}/Service/LimitNOFILE"].standing
        settings = (
            settings or facts.unit_settings["system.conf/Manager/DefaultLimitNOFILE"].standing
        )
        most = facts.limits.nr_open
    except UnknownFact:
        return None
    if not settings:
        return _DEFAULT
    soft, colon, hard = settings[-1].value.partition(":")
    numbers = [
        most if word == "infinity" else parse_digits(word, None)
        for word in (soft, hard if colon else soft)
    ]
    return (
        None
        if None in numbers
        else (min(int(numbers[0] or 0), most), min(int(numbers[1] or 0), most))
    )
