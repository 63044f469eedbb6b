"""Where services that run keep what they write, and what a mount over it would hide."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.services import data_folders
from hosttune.facts.services.data_folders import paths_of_unit, waits_for_mount
from hosttune.facts.storage.written_below import describe_guard, describe_rescue, find_writers
from tests.unit.fake_reader import FakeReader

ROOT = "22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n"
GROUPS = "/sys/fs/cgroup/system.slice"


def host(*units, mounts=ROOT, **files):
    groups = {f"{GROUPS}/{unit}/cgroup.procs": "7\n" for unit in units}
    return Facts(FakeReader({"/proc/self/mountinfo": mounts, **groups, **files}))


def paths(facts):
    return [(one.unit, one.path, one.place) for one in facts.data_folders.running]


@pytest.mark.parametrize(
    ("unit", "content", "expected"),
    [
        ("snapd.service", {}, ("/var/lib/snapd", "")),
        ("kubelet.service", {}, ("/var/lib/kubelet", "")),
        (
            "kubelet.service",
            {"/etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/default/kubelet\nExecStart=/k $A\n",
             "/etc/default/kubelet": "A=--root-dir=/data/kubelet\n"},
            ("/data/kubelet", "/etc/default/kubelet"),
        ),
        ("k3s.service", {"/etc/rancher/k3s/config.yaml": "data-dir: /data/k3s\n"}, ("/data/k3s", "/etc/rancher/k3s/config.yaml")),
        ("containerd.service", {"/etc/containerd/config.toml": 'root = "/data/c"\n'}, ("/data/c", "/etc/containerd/config.toml")),
        ("docker.service", {"/etc/docker/daemon.json": '{"data-root": "/data/d"}'}, ("/data/d", "/etc/docker/daemon.json")),
        ("docker.service", {"/etc/docker/daemon.json": "{broken"}, ("/var/lib/docker", "")),
        (
            "mysql.service",
            {"/etc/mysql/mysql.conf.d/mysqld.cnf": "[mysqld]\n# datadir = /old\ndatadir = /data/mysql # here\n"},
            ("/data/mysql", "/etc/mysql/mysql.conf.d/mysqld.cnf"),
        ),
        ("mongod.service", {"/etc/mongod.conf": "storage:\n  dbPath: /data/mongo\n"}, ("/data/mongo", "/etc/mongod.conf")),
        (
            "beegfs-storage.service",
            {"/etc/beegfs/beegfs-storage.conf": "# x\nstoreStorageDirectory = /data/beegfs\n"},
            ("/data/beegfs", "/etc/beegfs/beegfs-storage.conf"),
        ),
        (
            "ollama.service",
            {"/etc/systemd/system/ollama.service": "[Service]\nEnvironment=OLLAMA_MODELS=/data/models\nExecStart=/x\n"},
            ("/data/models", "/etc/systemd/system/ollama.service"),
        ),
        ("qdrant.service", {}, ("/var/lib/qdrant", "")),
        (
            "system-postgresql.slice",
            {"/etc/postgresql/15/main/postgresql.conf": "data_directory = '/data/pg'\n"},
            ("/data/pg", "/etc/postgresql/15/main/postgresql.conf"),
        ),
        (
            "slurmctld.service",
            {"/etc/slurm/slurm.conf": "StateSaveLocation=/data/ctld\nNodeName=n1\n"},
            ("/data/ctld", "/etc/slurm/slurm.conf"),
        ),
    ],
)  # fmt: skip
def test_folder_of_a_service_is_read_where_that_service_reads_it(unit, content, expected):
    assert expected in [found[1:] for found in paths(host(unit, **content))]


def test_folders_of_slurmd_are_its_spool_and_what_jobs_have_for_temporary_files():
    conf = "SlurmdSpoolDir=/data/%h/spool\nTmpFS=/scratch\nNodeName=n1\n"
    found = paths(
        host(
            "slurmd.service",
            **{"/etc/slurm/slurm.conf": conf, "/proc/sys/kernel/hostname": "n1.lab\n"},
        )
    )

    assert [path for _, path, _ in found] == ["/data/n1/spool", "/scratch"]


def test_service_that_does_not_run_has_no_folder():
    assert paths(host(**{"/etc/docker/daemon.json": '{"data-root": "/data/d"}'})) == []


def test_podman_runs_where_a_container_of_it_does():
    group = "/sys/fs/cgroup/machine.slice/libpod-0a1b.scope/cgroup.procs"
    facts = host(
        **{group: "9\n", "/etc/containers/storage.conf": '[storage]\ngraphroot = "/data/podman"\n'}
    )

    assert paths(facts) == [("podman.service", "/data/podman", "/etc/containers/storage.conf")]
    assert "sudo podman stop --all" in describe_rescue(
        facts.data_folders.running, "/data", "sudo mount /data"
    )


def test_paths_that_a_unit_names_are_those_of_its_command_and_environment():
    unit = '[Service]\nEnvironment="A=/a/b" B=$HOME/x\nExecStart=/bin/p --dir=/data/p -v /c:/d --url http://h/z\n'
    facts = host(**{"/etc/systemd/system/x.service": unit})

    found = [path for path, _ in paths_of_unit(facts.reader, facts, "x.service")]
    assert found == ["/bin/p", "/data/p", "/c", "/d", "/a/b"]


def test_writers_are_only_those_with_nothing_mounted_between():
    content = {"/etc/docker/daemon.json": '{"data-root": "/data/fast/docker"}'}
    inner = f"{ROOT}31 22 259:16 / /data/fast rw shared:9 - ext4 /dev/nvme1n1 rw\n"

    assert [one.path for one in find_writers(host("docker.service", **content), ("/data",))] == [
        "/data/fast/docker"
    ]
    assert find_writers(host("docker.service", mounts=inner, **content), ("/data",)) == ()
    assert find_writers(host("docker.service", **content), ("/dat",)) == ()


def test_rescue_of_a_folder_that_is_the_mount_point_moves_it_whole():
    writers = find_writers(host("docker.service"), ("/var/lib/docker",))

    said = describe_rescue(writers, "/var/lib/docker", "sudo mount /var/lib/docker")
    assert (
        "sudo mv -T /var/lib/docker /var/lib/docker.below && sudo mkdir /var/lib/docker\nsudo mount"
        in said
    )
    assert (
        describe_guard(writers) == "let it wait for the disk: sudo systemctl edit docker.service\n"
        "and write there, below [Unit]: RequiresMountsFor=/var/lib/docker"
    )


def test_rescue_below_a_folder_of_the_system_shows_what_the_mount_hides():
    said = describe_rescue(
        find_writers(host("docker.service"), ("/var",)), "/var", "sudo mount /var"
    )

    assert "sudo mount /var\nsee what that hides, in /mnt/var: sudo mount --bind / /mnt" in said
    assert "mv" not in said


def test_node_of_a_cluster_is_drained_first():
    assert "drain this node" in describe_rescue(
        find_writers(host("kubelet.service"), ("/var/lib/kubelet",)), "/x", "y"
    )


def test_units_are_read_once_for_all_lines_of_fstab(monkeypatch):
    """A record may have thousands of both."""
    read = []
    real = data_folders._texts_of_unit
    monkeypatch.setattr(
        data_folders, "_texts_of_unit", lambda *given: read.append(1) or real(*given)
    )
    unit = "[Service]\nExecStart=/a --data /data/7/x /data/7/y /data/71\n"
    facts = host("a.service", **{"/etc/systemd/system/a.service": unit})
    found = [find_writers(facts, (f"/data/{number}",)) for number in range(50)]
    assert [[one.path for one in folders] for folders in found if folders] == [["/data/7/x"]]
    assert len(read) == 1


@pytest.mark.parametrize(
    "unit",
    [
        "[Service]\nExecStart=/a "
        + " ".join(f"/x{number:06}/{'y' * 200}" for number in range(90_000)),
        "[Service]\nExecStart=/a " + " ".join(f"/{number}{'/y' * 2000}" for number in range(20)),
    ],
)
def test_what_units_name_is_bounded_and_not_known_beyond(unit):
    """That nothing writes there is not said of what was not looked at: a mount would hide it."""
    facts = host("a.service", **{"/etc/systemd/system/a.service": unit})
    for _ in range(100):  # and is not looked at again for each line of fstab
        with pytest.raises(UnknownFact, match="more paths than are looked at"):
            find_writers(facts, ("/data",))


def test_folders_that_services_name_are_bounded():
    unit = "[Service]\nExecStart=/r " + " ".join(f"/x{number}" for number in range(5000))
    facts = host("redis.service", **{"/etc/systemd/system/redis.service": unit})
    with pytest.raises(UnknownFact, match="more than 4096 folders"):
        assert facts.data_folders.running


def test_file_with_variables_is_read_once_however_often_a_unit_names_it():
    unit = "[Service]\n" + "EnvironmentFile=/etc/default/a\n" * 100
    facts = host(
        "a.service", **{"/etc/systemd/system/a.service": unit, "/etc/default/a": "X=/data/a\n"}
    )
    assert [path for path, _ in paths_of_unit(facts.reader, facts, "a.service")] == ["/data/a"]


GROUP = f"/sys/fs/cgroup/system.slice/docker-{'a' * 64}.scope/cgroup.procs"
HOST_MOUNTS = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:50 / /mnt/nas rw - nfs4 nas:/e rw\n3 1 8:17 /sets /data rw - xfs /dev/sdb1 rw\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("9 8 0:50 /app /x rw - nfs4 nas:/e rw\n", ["/mnt/nas/app"]),
        (
            "9 8 8:17 /sets/a /x rw - xfs /dev/sdb1 rw\n9 8 8:17 /other /y rw - xfs /dev/sdb1 rw\n",
            ["/data/a"],
        ),
        ("9 8 8:17 /sets/docker/containers/x/hosts /etc/hosts rw - xfs /dev/sdb1 rw\n", []),
        ("9 8 8:2 /var/lib/docker/x /etc/hosts rw - ext4 /dev/sda2 rw\n", []),
        (
            "9 8 8:2 /mnt/usb/x /x rw - ext4 /dev/sda2 rw\n",
            ["/mnt/usb/x"],
        ),  # fstab has another disk there
        ("9 8 8:2 /mnt/usb/x /x ro - ext4 /dev/sda2 rw\n", []),
        ("9 8 8:2 /mnt/usbx /x rw - ext4 /dev/sda2 rw\n", []),
        ("9 8 8:17 /setsx /x rw - xfs /dev/sdb1 rw\n", []),
        # eve removed her folder, and has put a link at deleted, to a folder of the system
        ("9 8 8:17 /sets/a//deleted /x rw - xfs /dev/sdb1 rw\n", []),
        ("broken", []),
    ],
)
def test_folders_of_containers_of_docker_are_found_by_their_mounts(rows, expected):
    table = f"8 1 0:70 / / rw - overlay overlay rw\n{rows}"
    facts = host(
        "docker.service",
        **{
            GROUP: "900\n",
            "/proc/900/mountinfo": table,
            "/proc/self/mountinfo": HOST_MOUNTS,
            "/etc/fstab": "LABEL=usb /mnt/usb ext4 noauto 0 2\nnas:/e /mnt/nas nfs4 defaults 0 0\n",
            "/etc/docker/daemon.json": '{"data-root": "/data/docker"}',
        },
    )
    assert [
        one.path for one in facts.data_folders.running if one.service == "a container of Docker"
    ] == expected


def test_path_in_the_line_of_a_unit_is_quoted():
    """The data root of a record or an image: what stands behind the command may be pasted with
    it.
    """
    content = {"/etc/docker/daemon.json": '{"data-root": "/data/d$(id)%h"}'}
    assert describe_guard(find_writers(host("docker.service", **content), ("/data",))) == (
        "let it wait for the disk: sudo systemctl edit docker.service\n"
        "and write there, below [Unit]: RequiresMountsFor='/data/d$(id)%%h'"
    )


@pytest.mark.parametrize(("folder", "is_guarded"), [("/data/x", True), ("-/data/x", False)])
def test_service_waits_only_for_a_working_folder_that_has_to_be_there(folder, is_guarded):
    unit = f"[Service]\nExecStart=/usr/bin/x\nWorkingDirectory={folder}\n"
    facts = host("x.service", **{"/etc/systemd/system/x.service": unit})
    assert waits_for_mount(facts, "x.service", "/data", "data.mount") is is_guarded
