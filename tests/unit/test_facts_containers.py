"""Facts about Docker, containerd and NVIDIA's container toolkit."""

from types import SimpleNamespace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containers.containers import driver_of, mode_of, root_of
from hosttune.facts.containers.docker import parse_daemon_json
from hosttune.host.door import Space, Stat
from tests.hosts.container_files import CDI_SPEC, CONTAINERD_TOML, DOCKER_UNIT, RUNTIME_TOML
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import ROOT, disk, make_facts

STATUS = "/var/lib/dpkg/status"


def packages(**versions):
    return "\n".join(
        f"Package: {name.replace('_P_', '.').replace('_', '-')}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
        for name, version in versions.items()
    )


def facts(files, **options):
    return Facts(FakeReader({STATUS: packages(), **files}, **options))


def test_daemon_json_is_flat_and_hides_what_may_be_secret():
    settings, runtimes = parse_daemon_json(
        '{"log-opts": {"max-size": "10m", "splunk-token": "t"}, "proxies": {"http-proxy": "http://a:b@c"},'
        ' "live-restore": true, "runtimes": {"nvidia": {"path": "x"}}, "hosts": ["fd://"]}'
    )
    assert settings == {
        "log-opts.max-size": "10m", "log-opts.splunk-token": "set", "proxies.http-proxy": "set", "live-restore": "true",
        "runtimes.nvidia.path": "x", "hosts": "set",
    }  # fmt: skip
    assert runtimes == ("nvidia",)


@pytest.mark.parametrize("content", ["[]", "{", '"x"'])
def test_daemon_json_that_dockerd_would_not_take_is_refused(content):
    with pytest.raises(ValueError, match=r".+"):
        parse_daemon_json(content)


def test_flags_have_the_names_of_daemon_json():
    unit = DOCKER_UNIT.replace(
        "-H fd://",
        "-H fd:// --log-opt max-size=1m --exec-opt native.cgroupdriver=cgroupfs --exec-opt x=1"
        " --live-restore --default-ulimit memlock=-1 --data-root /data --log-opt splunk-token=t",
    )
    seen = facts({"/usr/lib/systemd/system/docker.service": unit}).docker
    assert {one.path for one in seen.given} == {"/usr/lib/systemd/system/docker.service"}
    assert seen.flags == {
        "log-opts.splunk-token": "set", "containerd": "set", "hosts": "set", "log-opts.max-size": "1m", "exec-opts": "native.cgroupdriver=cgroupfs,x=1",
        "live-restore": "true", "default-ulimits.memlock": "-1", "data-root": "/data",
    }  # fmt: skip


def test_docker_option_in_both_places_is_named():
    unit = DOCKER_UNIT.replace("-H fd://", "-H fd:// --log-driver local")
    seen = facts(
        {
            "/etc/docker/daemon.json": '{"log-driver": "local", "exec-opts": ["native.cgroupdriver=cgroupfs"]}',
            "/usr/lib/systemd/system/docker.service": unit,
            STATUS: packages(docker_ce="5:29.0.1-1"),
        }
    ).docker
    assert (seen.twice, seen.cgroup_driver, seen.version, seen.images) == (
        ("log-driver",),
        "cgroupfs",
        "29.0.1",
        "unsaid",
    )


def test_docker_not_installed_has_no_settings():
    seen = facts({}).docker
    assert (seen.is_installed, dict(seen.in_force), seen.is_running) == (False, {}, False)


def test_docker_broken_daemon_json_is_unknown():
    with pytest.raises(UnknownFact, match=r"daemon\.json"):
        assert facts({"/etc/docker/daemon.json": "{"}).docker.settings


def test_containerd_root_stands_above_the_first_table():
    assert root_of(CONTAINERD_TOML) == "/data/containerd"
    assert root_of('[a]\nroot = "/b"\n') == "/var/lib/containerd"


def test_mode_of_the_runtime_and_no_other_table():
    assert mode_of(RUNTIME_TOML) == "auto"
    assert mode_of('[nvidia-container-runtime]\nmode = "cdi"\n') == "cdi"
    assert mode_of('mode = "cdi"\n[nvidia-container-runtime.modes]\nmode = "legacy"\n') == "auto"


def test_driver_of_a_specification():
    assert driver_of(CDI_SPEC.format(driver="580.126.20")) == "580.126.20"
    assert driver_of("kind: x\n") == ""


@pytest.mark.parametrize(
    ("version", "is_forgetful"),
    [("1.1.2", False), ("1.1.3", True), ("1.1.6", True), ("1.1.7", False)],
)
def test_runc_that_forgets_devices(version, is_forgetful):
    seen = facts({STATUS: packages(runc=f"{version}-0ubuntu1")}).containers
    assert seen.has_forgetful_runc == is_forgetful


@pytest.mark.parametrize(
    ("version", "mode", "is_legacy"),
    [
        ("1.17.8-1", "auto", True),
        ("1.18.0-1", "auto", False),
        ("1.18.0-1", "legacy", True),
        ("1.14.0-1", "cdi", False),
    ],
)
def test_toolkit_that_takes_the_hook(version, mode, is_legacy):
    config = f'[nvidia-container-runtime]\nmode = "{mode}"\n'
    files = {
        STATUS: packages(nvidia_container_toolkit=version),
        "/etc/nvidia-container-runtime/config.toml": config,
    }
    assert facts(files).containers.is_legacy == is_legacy


def test_char_links_are_looked_for_of_each_gpu():
    seen = facts(
        {"/dev/nvidia0": "", "/dev/nvidia1": "", "/dev/nvidiactl": "", "/dev/char/195:1": ""}
    ).containers
    assert seen.missing_char_links == ("/dev/char/195:0",)


def test_cdi_of_the_running_system_comes_before_that_of_etc():
    seen = facts({
        "/etc/cdi/nvidia.yaml": CDI_SPEC.format(driver="1.2"), "/var/run/cdi/nvidia.yaml": CDI_SPEC.format(driver="3.4"),
    }).containers  # fmt: skip
    assert [(spec.path, spec.driver) for spec in seen.cdi] == [("/var/run/cdi/nvidia.yaml", "3.4")]


def test_unreadable_dpkg_database_is_unknown():
    seen = facts({}, unreadable={STATUS: "no"}).containers
    with pytest.raises(UnknownFact, match="no"):
        assert seen.engines


MOUNTS = "1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /home rw - nfs4 n:/h rw\n"


def test_stores_lie_on_the_mount_above_them():
    seen = facts({
        STATUS: packages(docker_ce="5:29.0.1-1", containerd_P_io="2.1.4-1"), "/proc/self/mountinfo": MOUNTS,
        "/etc/docker/daemon.json": '{"data-root": "/home/x/docker"}',
    }).stores.all  # fmt: skip
    assert [(one.name, one.path, one.mount, one.is_network) for one in seen] == [
        ("docker", "/home/x/docker", "/home", True), ("containerd", "/var/lib/containerd", "/", False),
    ]  # fmt: skip


def test_stores_behind_a_link_lie_where_it_leads_and_say_how_much_there_is():
    files = {
        STATUS: packages(docker_ce="5:28.0.1-1"),
        "/proc/self/mountinfo": f"{ROOT}\n30 20 8:17 / /data rw - xfs /dev/sdb1 rw\n",
    }
    reader = FakeReader(
        files,
        links={"/var/lib/docker": "/data/docker"},
        folders=("/data/docker",),
        spaces={"/data": Space(1000, 70, 9, 9)},
    )
    (store,) = make_facts(reader).stores.all
    assert (store.path, store.mount, store.fstype, store.available_bytes, store.is_rotational, store.better) == (
        "/data/docker", "/data", "xfs", 70, True, "",
    )  # fmt: skip


def test_stores_of_mounts_that_cannot_be_read_are_unknown_with_the_reason():
    files = {STATUS: packages(docker_ce="5:28.0.1-1")}
    with pytest.raises(UnknownFact, match="no mounts for you"):
        assert facts(files, unreadable={"/proc/self/mountinfo": "no mounts for you"}).stores.all


def test_stores_docker_28_keeps_images_itself():
    files = {
        STATUS: packages(docker_ce="5:28.0.1-1", containerd_P_io="2.1.4-1"),
        "/proc/self/mountinfo": MOUNTS,
    }
    assert [one.name for one in facts(files).stores.all] == ["docker"]


def better_than_root(
    *,
    free=201,
    is_slower=False,
    target="/data",
    more=(),
    files=None,
    cloud="",
    root=ROOT,
    top=(0o755, 0),
):
    """Where the images on / had better lie, beside one data disk."""
    mounts = f"{root}\n30 20 8:17 / {target} rw - ext4 /dev/sdb1 rw\n"
    content = {
        STATUS: packages(docker_ce="5:28.0.1-1"),
        "/proc/self/mountinfo": mounts,
        **(files or {}),
    }
    spaces = {
        "/": Space(1000, 100, 9, 9),
        "/var": Space(1000, 100, 9, 9),
        target: Space(1000, free, 9, 9),
    }
    disks = (
        disk("sda", "8:0"), disk("sda2", "8:2"), disk("sdb", "8:16", ("sdb",)),
        disk("sdb1", "8:17", ("sdb",), is_rotational=is_slower), *more,
    )  # fmt: skip
    stats = {target: Stat("directory", *top, 0, 0, 0, 1, 1, 2)}
    reader = FakeReader(content, spaces=spaces, stats=stats)
    (store,) = make_facts(reader, disks=disks, cloud=cloud).stores.all
    return store.better


@pytest.mark.parametrize(
    ("free", "is_slower", "better"), [(200, False, ""), (201, False, "/data"), (201, True, "")]
)
def test_better_is_a_data_disk_no_slower_with_more_than_twice_the_space(free, is_slower, better):
    assert better_than_root(free=free, is_slower=is_slower) == better


@pytest.mark.parametrize("top", [(0o755, 1001), (0o775, 0), (0o777, 0), (0o1777, 0)])
def test_disk_in_whose_folder_a_user_may_write_is_no_place_for_images(top):
    """Who makes an engine's folder first, or puts another one in its place, is root."""
    assert better_than_root(top=top) == ""


def test_better_than_the_disk_of_var_is_a_data_disk_too():
    assert better_than_root(root=f"{ROOT}\n21 20 8:2 / /var rw - ext4 /dev/sda2 rw") == "/data"


def changed(one, **values):
    return SimpleNamespace(**{**vars(one), **values})


def test_disk_of_a_cloud_instance_is_never_better():
    assert better_than_root(more=(changed(disk("sdb", "8:16", ("sdb",)), is_ephemeral=True),)) == ""


@pytest.mark.parametrize(
    ("target", "cloud", "better"),
    [("/mnt", "azure", ""), ("/mnt", "", "/mnt"), ("/data", "azure", "/data")],
)
def test_temporary_disk_of_azure_is_never_better(target, cloud, better):
    assert better_than_root(target=target, cloud=cloud) == better


@pytest.mark.parametrize(
    ("kind", "level", "better"),
    [
        ("md", "raid0", ""),
        ("md", "linear", ""),
        ("md", "raid5", "/data"),
        ("md", "raid1", "/data"),
        ("dm", "", ""),
    ],
)
def test_several_disks_without_a_copy_are_never_better(kind, level, better):
    pair = ("sdb", "sdc")
    whole = changed(disk("md0", "8:17", pair), kind=kind, parents=pair)
    files = {"/sys/block/md0/md/level": f"{level}\n"}
    assert better_than_root(more=(whole, disk("sdc", "8:32", ("sdc",))), files=files) == better


def test_volume_on_an_array_with_copies_is_better():
    pair = ("sdb", "sdc")
    volume = changed(disk("dm-0", "8:17", pair), kind="dm", parents=("md0",))
    array = changed(disk("md0", "9:0", pair), kind="md", parents=pair)
    files = {"/sys/block/md0/md/level": "raid6\n"}
    assert (
        better_than_root(more=(volume, array, disk("sdc", "8:32", ("sdc",))), files=files)
        == "/data"
    )
