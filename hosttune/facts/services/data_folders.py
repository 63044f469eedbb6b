"""Folders in which services that run keep what they write: `data_folders.running`, from their own
files.

A service whose folder is below a mount point writes to the disk of the system while nothing is
mounted there, and a mount hides that. Sources: dockerd(8) (data-root), containerd-config.toml(5)
(root), kubelet(8) (--root-dir), slurm.conf(5) (SlurmdSpoolDir, StateSaveLocation, TmpFS),
containers-storage.conf(5) (graphroot), crio.conf(5) (root), k3s' and rke2's documentation
(data-dir), mysqld(8) (datadir), PostgreSQL's manual (data_directory), mongod.conf (storage.dbPath);
what else a unit names is on its command line and in its environment (MinIO, Prometheus).
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, make_shared
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.managers import running_services
from hosttune.facts.reading import names_in, read_text
from hosttune.facts.services.docker_binds import docker_binds
from hosttune.facts.storage.mounts import is_system, mount_below
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

PODMAN = "Podman"
_MOST_UNITS = 512
_MOST_FILES = 32  # with variables, of one unit
_MOST_FOLDERS = 4096
_MOST_READ = 1 << 24  # characters of all that units name, and of the folders above it
_PATH = regex(r"(?<![\w./$}~])/(?!/)[^\s\"'=:,;$%{}|&<>()\\]+")
_ROOT_DIR = regex(r"--root-dir[= ]\"?(/[^\s\"']+)")
_DATA_DIR = regex(r"(?:--data-dir[= ]|(?<!\S)-d[= ])\"?(/[^\s\"']+)")
_DATA_DIR_KEY = regex(r"^data-dir[ \t]*:[ \t]*[\"']?(/[^\s\"'#]+)")
_KEYS = "ExecStart", "Environment", "WorkingDirectory", "ReadWritePaths"
# What keeps a unit from starting without a mount (systemd.unit(5), systemd.exec(5)): key -> how its
# words name paths.
_GUARDS_BY_PATH = {
    "Unit": ("RequiresMountsFor", "AssertPathIsMountPoint", "ConditionPathIsMountPoint"),
    "Service": ("WorkingDirectory", "RootDirectory"),
}
_GUARDS_BY_FOLDER = {
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
}
_GUARDS_BY_UNIT = ("Requires", "BindsTo", "Requisite")


@frozen
class DataFolder(Fact):
    """A folder in which a service that runs keeps what it writes."""

    service: str  # Docker
    unit: str  # docker.service
    path: str  # links resolved
    place: str  # the file that names it; empty where the service uses its usual one


@frozen
class DataFolders(Subject):
    """Those of the services that run."""

    @fact
    def running(self) -> tuple[DataFolder, ...]:
        return () if self.reader.persistent_only else tuple(_find_running(self.reader, self.facts))

    # that a file puts outside of the system's folders, and that lie on the disk of /
    on_root: tuple[DataFolder, ...] = read_with(lambda self: tuple(_on_root(self.facts)))


@frozen
class _Service:
    """One that is known: its units, the folder that it uses unless a file says otherwise, and where
    files say so.
    """

    name: str
    units: tuple[str, ...]
    folder: str
    files: tuple[str, ...] = ()
    key: str = ""


_SERVICES = (
    _Service("snapd", ("snapd.service",), "/var/lib/snapd"),
    _Service("Docker", ("snap.docker.dockerd.service",), "/var/snap/docker/common/var-lib-docker"),
    _Service("LXD", ("snap.lxd.daemon.service",), "/var/snap/lxd/common/lxd"),
    _Service("libvirt", ("libvirtd.service", "virtqemud.service"), "/var/lib/libvirt"),
    _Service(
        "CRI-O", ("crio.service",), "/var/lib/containers/storage", ("/etc/crio/crio.conf",), "root"
    ),
    _Service(
        "MySQL",
        ("mysql.service", "mysqld.service"),
        "/var/lib/mysql",
        ("/etc/mysql/mysql.conf.d/mysqld.cnf", "/etc/mysql/my.cnf"),
        "datadir",
    ),
    _Service(
        "MariaDB",
        ("mariadb.service",),
        "/var/lib/mysql",
        ("/etc/mysql/mariadb.conf.d/50-server.cnf", "/etc/mysql/my.cnf"),
        "datadir",
    ),
    _Service("MongoDB", ("mongod.service",), "/var/lib/mongodb", ("/etc/mongod.conf",), "dbPath"),
    _Service(
        "Redis",
        ("redis-server.service", "redis.service", "valkey-server.service"),
        "/var/lib/redis",
    ),
    _Service(
        "Elasticsearch",
        ("elasticsearch.service",),
        "/var/lib/elasticsearch",
        ("/etc/elasticsearch/elasticsearch.yml",),
        "path.data",
    ),
    _Service("InfluxDB", ("influxdb.service", "influxd.service"), "/var/lib/influxdb"),
    _Service("Prometheus", ("prometheus.service",), "/var/lib/prometheus"),
    _Service("Grafana", ("grafana-server.service",), "/var/lib/grafana"),
    _Service("MinIO", ("minio.service",), ""),
    _Service("Jenkins", ("jenkins.service",), "/var/lib/jenkins"),
    _Service("GitLab", ("gitlab-runsvdir.service",), "/var/opt/gitlab"),
    _Service("etcd", ("etcd.service",), "/var/lib/etcd"),
    _Service("Ollama", ("ollama.service",), "/usr/share/ollama"),
    _Service("ClickHouse", ("clickhouse-server.service",), "/var/lib/clickhouse"),
    _Service(
        "OpenSearch",
        ("opensearch.service",),
        "/var/lib/opensearch",
        ("/etc/opensearch/opensearch.yml",),
        "path.data",
    ),
    _Service("Cassandra", ("cassandra.service",), "/var/lib/cassandra"),
    _Service("RabbitMQ", ("rabbitmq-server.service",), "/var/lib/rabbitmq"),
    _Service("Neo4j", ("neo4j.service",), "/var/lib/neo4j"),
    _Service("Kafka", ("kafka.service",), "/var/lib/kafka"),
    _Service("Loki", ("loki.service",), "/var/lib/loki"),
    _Service(
        "VictoriaMetrics",
        ("victoriametrics.service", "victoria-metrics.service"),
        "/var/lib/victoria-metrics",
    ),
    _Service("Nomad", ("nomad.service",), "/opt/nomad/data"),
    _Service("Gitea", ("gitea.service", "forgejo.service"), "/var/lib/gitea"),
    _Service("Qdrant", ("qdrant.service",), "/var/lib/qdrant"),
    _Service("JupyterHub", ("jupyterhub.service",), ""),
    _Service(
        "BeeGFS",
        ("beegfs-storage.service",),
        "",
        ("/etc/beegfs/beegfs-storage.conf",),
        "storeStorageDirectory",
    ),
    _Service(
        "BeeGFS",
        ("beegfs-meta.service",),
        "",
        ("/etc/beegfs/beegfs-meta.conf",),
        "storeMetaDirectory",
    ),
)


def _on_root(facts: Facts) -> Iterator[DataFolder]:
    for one in facts.data_folders.running:
        mount = mount_below(facts, one.path)
        if one.place and not is_system(one.path) and mount is not None and mount.target == "/":
            yield one


def _find_running(reader: Reader, facts: Facts) -> Iterator[DataFolder]:
    units, ways = running_services(reader), Ways(reader, facts)
    seen: set[tuple[str, str]] = set()
    for service, unit, path, place in _list_folders(reader, facts, units):
        folder = _resolve_path(reader, ways, path)
        if folder.startswith("/") and (unit, folder) not in seen:
            if len(seen) >= _MOST_FOLDERS:
                raise UnknownFact(f"services that run name more than {_MOST_FOLDERS} folders")
            seen.add((unit, folder))
            yield DataFolder(service, unit, folder, place)


def _resolve_path(reader: Reader, ways: Ways, path: str) -> str:
    far, is_far = ways.way(path)
    real = far if is_far else reader.resolve(path)
    return posixpath.normpath(real if isinstance(real, str) else path)


def _list_folders(
    reader: Reader, facts: Facts, units: frozenset[str]
) -> Iterator[tuple[str, str, str, str]]:
    """(service, unit, path, the file that says so) of each."""
    looks: Mapping[str, tuple[str, Callable[[Reader, Facts], Iterator[tuple[str, str]]]]] = {
        "docker.service": ("Docker", _of_docker),
        "containerd.service": ("containerd", _of_containerd),
        "slurmd.service": ("Slurm", _of_slurmd),
        "slurmctld.service": ("Slurm's controller", _of_slurmctld),
    }
    for unit, (service, look) in looks.items():
        if unit in units:
            yield from ((service, unit, path, place) for path, place in look(reader, facts))
    if "docker.service" in units:
        root = next(path for path, _ in _of_docker(reader, facts))
        # Volumes below Docker's own folder are counted with that folder already.
        binds = (path for path in docker_binds(reader, facts) if not is_within(path, root))
        yield from (("a container of Docker", "docker.service", path, "") for path in binds)
    for unit in sorted(DAEMONS.keys() & units):
        yield from (
            ("the kubelet", unit, path, place)
            for path, place in _of_kubernetes(reader, facts, unit)
        )
    for one in _SERVICES:
        for unit in sorted({*one.units} & units):
            place, path = _find_setting(reader, one)
            yield from (
                (one.name, unit, path or one.folder, place) for _ in range(bool(path or one.folder))
            )
            yield from (
                (one.name, unit, path, place) for path, place in paths_of_unit(reader, facts, unit)
            )
    if "system-postgresql.slice" in units:
        yield from _of_postgresql(reader)
    if any(
        name.startswith("libpod-") for name in _list_names(reader, "/sys/fs/cgroup/machine.slice")
    ):
        path = _read_value(reader, "/etc/containers/storage.conf", "graphroot")
        place = "/etc/containers/storage.conf" if path else ""
        yield PODMAN, "podman.service", path or "/var/lib/containers/storage", place


def _of_docker(_reader: Reader, facts: Facts) -> Iterator[tuple[str, str]]:
    root = attempt(lambda: facts.docker.data_root)
    flag = attempt(
        lambda: next((one.path for one in facts.docker.given if one.key == "data-root"), "")
    )
    is_set = root != "/var/lib/docker"
    place = flag if isinstance(flag, str) and flag else "/etc/docker/daemon.json"
    yield (root, place if is_set else "") if isinstance(root, str) else ("/var/lib/docker", "")


def _of_containerd(_reader: Reader, facts: Facts) -> Iterator[tuple[str, str]]:
    root = attempt(lambda: facts.containers.containerd_root)
    is_set = isinstance(root, str) and root != "/var/lib/containerd"
    yield (
        (root if isinstance(root, str) else "/var/lib/containerd"),
        "/etc/containerd/config.toml" if is_set else "",
    )


def _of_slurmd(_reader: Reader, facts: Facts) -> Iterator[tuple[str, str]]:
    for look, usual in (
        (lambda: facts.slurm.spool, "/var/spool/slurmd"),
        (lambda: facts.slurm.tmp_fs, "/tmp"),
    ):
        yield from _of_slurm(facts, attempt(look), usual)


def _of_slurmctld(_reader: Reader, facts: Facts) -> Iterator[tuple[str, str]]:
    yield from _of_slurm(facts, attempt(lambda: facts.slurm.state), "/var/spool")


def _of_slurm(facts: Facts, path: object, usual: str) -> Iterator[tuple[str, str]]:
    conf = attempt(lambda: facts.slurm.conf)
    is_set = isinstance(path, str) and path != usual and isinstance(conf, str)
    yield (path if isinstance(path, str) else usual), str(conf) if is_set else ""


def _of_kubernetes(reader: Reader, facts: Facts, unit: str) -> Iterator[tuple[str, str]]:
    """The kubelet's folder, and of a distribution that brings all in one program where that keeps
    it.
    """
    words = tuple(_texts_of_unit(reader, facts, unit))
    found = [(match[1], place) for content, place in words for match in _ROOT_DIR.finditer(content)]
    yield from found or (("/var/lib/kubelet", ""),)
    name = unit.partition(".")[0].partition("-")[0]
    if name not in {"k3s", "rke2", "k0sworker", "k0scontroller"}:
        return
    config = f"/etc/rancher/{name}/config.yaml"
    flags = [(match[1], place) for content, place in words for match in _DATA_DIR.finditer(content)]
    rows = _read_or_empty(reader, config).splitlines()
    keys = [(match[1], config) for row in rows if (match := _DATA_DIR_KEY.match(row))]
    yield from (
        flags
        or keys
        or (("/var/lib/k0s" if name.startswith("k0s") else f"/var/lib/rancher/{name}", ""),)
    )


def _of_postgresql(reader: Reader) -> Iterator[tuple[str, str, str, str]]:
    """As Debian's postgresql-common lays clusters out: /etc/postgresql/VERSION/NAME."""
    top = "/etc/postgresql"
    for version in _list_names(reader, top)[:16]:
        for cluster in _list_names(reader, f"{top}/{version}")[:16]:
            file = f"{top}/{version}/{cluster}/postgresql.conf"
            path, unit = (
                _read_value(reader, file, "data_directory"),
                f"postgresql@{version}-{cluster}.service",
            )
            usual = f"/var/lib/postgresql/{version}/{cluster}"
            yield "PostgreSQL", unit, path or usual, file if path and path != usual else ""


def _find_setting(reader: Reader, service: _Service) -> tuple[str, str]:
    """(file, folder) that the service's own files say; both empty where they say nothing, or the
    usual folder.
    """
    for file in service.files:
        path = _read_value(reader, file, service.key)
        if path and path != service.folder:
            return file, path
    return "", ""


def _read_value(reader: Reader, file: str, key: str) -> str:
    """The last absolute path that a file of `key = value`, `key: value` lines gives for a key."""
    found = ""
    for row in _read_or_empty(reader, file).splitlines():
        name, mark, value = row.strip().replace(":", "=", 1).partition("=")
        # The last line with a path counts, as these programs read their files from top to bottom.
        if mark and name.strip() == key:
            word = value.strip().partition("#")[0].strip().strip("\"'")
            found = word if word.startswith("/") else found
    return found


def paths_of_unit(reader: Reader, facts: Facts, unit: str) -> Iterator[tuple[str, str]]:
    """(path, the file that names it) of all that the command line and the environment of a unit
    name.
    """
    for content, place in _texts_of_unit(reader, facts, unit):
        for match in _PATH.finditer(content):
            yield posixpath.normpath(match[0]), place


def _texts_of_unit(reader: Reader, facts: Facts, unit: str) -> Iterator[tuple[str, str]]:
    try:
        for key in _KEYS:
            for one in facts.unit_settings[f"{unit}/Service/{key}"].standing:
                yield one.value, one.path
        files = [
            one.value.lstrip("-")
            for one in facts.unit_settings[f"{unit}/Service/EnvironmentFile"].standing
        ]
    except UnknownFact:
        return
    for file in tuple(dict.fromkeys(files))[:_MOST_FILES]:
        # A file elsewhere may be on a share whose server does not answer. Specifiers and patterns
        # of systemd are not put in here.
        if file.startswith("/etc/") and "%" not in file and "*" not in file:
            rows = (
                row
                for row in _read_or_empty(reader, file).splitlines()
                if not row.lstrip().startswith("#")
            )
            yield "\n".join(rows), file


class FolderIndex:
    """Folders that services name, by each folder at or above: fstab may have as many lines as there
    are folders.
    """

    def __init__(self) -> None:
        self._found: dict[str, list[DataFolder]] = {}
        self._left = _MOST_READ

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise UnknownFact("units that run name more paths than are looked at")

    def add(self, folder: DataFolder) -> None:
        # Each folder above is an entry, so the work is bounded by length: a unit may name thousands
        # of deep paths.
        above = folder.path.rstrip("/")
        while above:
            self.spend(len(above))
            self._found.setdefault(above, []).append(folder)
            above = above.rpartition("/")[0]

    def within(self, folder: str) -> tuple[DataFolder, ...]:
        """Those that are a folder, or are below it, by their names."""
        return tuple(self._found.get(folder.rstrip("/"), ()))


@lru_cache(maxsize=1)  # each line of fstab asks, also where the answer is that it is not known
def _make_indexes(facts: Facts) -> tuple[Callable[[], FolderIndex], Callable[[], FolderIndex]]:
    return make_shared(_index_running, facts), make_shared(_index_named, facts)


def running_by_folder(facts: Facts) -> FolderIndex:
    """`data_folders.running`. Raises UnknownFact."""
    return _make_indexes(facts)[0]()


def _index_running(facts: Facts) -> FolderIndex:
    index = FolderIndex()
    for one in facts.data_folders.running:
        index.add(one)
    return index


def _index_named(facts: Facts) -> FolderIndex:
    """What the units of all services that run name: each path once for a unit."""
    index, reader = FolderIndex(), facts.reader
    for unit in sorted(name for name in running_services(reader) if name.endswith(".service"))[
        :_MOST_UNITS
    ]:
        found: dict[str, str] = {}
        for path, place in paths_of_unit(reader, facts, unit):
            index.spend(len(path))
            found.setdefault(path, place)
        for path, place in found.items():
            index.add(DataFolder(unit, unit, path, place))
    return index


def units_that_name(facts: Facts, folder: str) -> Iterator[DataFolder]:
    """What any service that runs names at or below a folder, the first of each: it may write
    there.
    """
    found: dict[str, DataFolder] = {}
    for one in _make_indexes(facts)[1]().within(folder):
        found.setdefault(one.unit, one)
    yield from found.values()


def waits_for_mount(facts: Facts, unit: str, target: str, mount_unit: str) -> bool:
    """Whether a service does not start without what is mounted at a folder."""
    settings = facts.unit_settings
    for section, keys in _GUARDS_BY_PATH.items():
        for key in keys:
            values = (one.value for one in settings[f"{unit}/{section}/{key}"].standing)
            # `WorkingDirectory=-/data` requires no mount: the service starts without the folder
            # (systemd.exec(5)).
            if any(is_within(word, target) for value in values for word in value.split()):
                return True
    for key, top in _GUARDS_BY_FOLDER.items():
        values = (one.value for one in settings[f"{unit}/Service/{key}"].standing)
        if any(
            is_within(f"{top}/{word.partition(':')[0]}", target)
            for value in values
            for word in value.split()
        ):
            return True
    needed = (
        one.value for key in _GUARDS_BY_UNIT for one in settings[f"{unit}/Unit/{key}"].standing
    )
    if any(mount_unit in value.split() for value in needed):
        return True
    tests = (
        one.value
        for key in ("ExecStartPre", "ExecCondition")
        for one in settings[f"{unit}/Service/{key}"].standing
    )
    return any("mountpoint" in value and target in value.split() for value in tests)


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or is below it, by their names."""
    return folder != "/" and f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _read_or_empty(reader: Reader, path: str) -> str:
    content = attempt(read_text, reader, path)
    return content if isinstance(content, str) else ""


def _list_names(reader: Reader, folder: str) -> tuple[str, ...]:
    names = attempt(names_in, reader, folder)
    return names if isinstance(names, tuple) else ()
