"""Other managers, with the evidence, and what TuneD sets."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.sysctl import normal_key
from hosttune.facts.services.tuned import parse_profile
from tests.unit.fake_reader import FakeReader

WANTS = "/etc/systemd/system/multi-user.target.wants"
SLICE = "/sys/fs/cgroup/system.slice"


def status(*names):
    return "\n".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"
        for name in names
    )


def managers(files=None, links=None, packages=(), **options):
    base = {"/var/lib/dpkg/status": status("dpkg", *packages), "/etc/systemd/system/x": ""}
    return Facts(FakeReader(base | (files or {}), links=links, **options)).managers


def enabled(*services):
    return {f"{WANTS}/{service}": f"/usr/lib/systemd/system/{service}" for service in services}


def test_managers_none_on_a_plain_host():
    seen = managers()
    assert (seen.names, seen.tuned_profile, seen.tuned_sysctls) == ((), "", ())
    flags = (seen.tuned, seen.dgx, seen.cloud_init, seen.kubelet, seen.slurm, seen.gpu_operator)
    assert not any(flags)


@pytest.mark.parametrize("slices", [SLICE, "/sys/fs/cgroup/systemd/system.slice"])
def test_managers_services_count_when_enabled_or_running(slices):
    folders = (f"{slices}/kubelet.service", f"{slices}/slurmd.service")
    seen = managers(links=enabled("tlp.service", "walinuxagent.service"), folders=folders)
    assert seen.names == ("azure-agent", "kubelet", "slurm", "tlp")
    assert {manager.name: manager.evidence for manager in seen.present} == {
        "azure-agent": "walinuxagent.service is enabled",
        "kubelet": "kubelet.service runs",
        "slurm": "slurmd.service runs",
        "tlp": "tlp.service is enabled",
    }
    assert seen.kubelet
    assert seen.slurm


def test_managers_tuned_installed_and_switched_off_is_not_present():
    files = {"/etc/tuned/active_profile": "throughput-performance\n"}
    seen = managers(files, packages=("tuned",))
    assert (seen.tuned, seen.tuned_profile) == (False, "")


def test_managers_tuned_profile_chain_gives_its_sysctls():
    files = {
        "/etc/tuned/active_profile": "site gpu\n",
        "/etc/tuned/profiles/site/tuned.conf": "[main]\ninclude=throughput-performance\n[sysctl]\nvm.swappiness=5\n",
        "/usr/lib/tuned/gpu/tuned.conf": "[numa]\ntype=sysctl\nkernel.numa_balancing = 0\n[vm]\nhugepages=never\n",
        "/usr/lib/tuned/throughput-performance/tuned.conf": (
            "# summary\n[main]\nsummary=x\n[variables]\nthread=1\n[vm]\ndirty_ratio=40%\n[sysctl]\n"
            "# comment\nvm.swappiness=10\nnet.core.somaxconn=>2048\n"
            "net/ipv4/conf/eth0.1/rp_filter=1\n[cpu]\ngovernor=performance\nforce_latency=99\n"
        ),
    }
    seen = managers(files, links=enabled("tuned.service"))
    assert seen.tuned_profile == "site gpu"
    assert seen.tuned_sysctls == (
        "kernel.numa_balancing",
        "net.core.somaxconn",
        "net.ipv4.conf.eth0/1.rp_filter",
        "vm.dirty_ratio",
        "vm.swappiness",
    )
    assert seen.tuned_sysfs == (
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    )


def test_managers_tuned_missing_profile_leaves_sysctls_unknown_and_the_rest_known():
    seen = managers({"/etc/tuned/active_profile": "lost"}, links=enabled("tuned.service"))
    assert seen.tuned
    assert seen.tuned_profile == "lost"
    with pytest.raises(UnknownFact, match="lost has no tuned"):
        _ = seen.tuned_sysctls


def test_managers_tuned_without_a_profile_sets_nothing():
    seen = managers(links=enabled("tuned.service"))
    assert (seen.tuned, seen.tuned_profile, seen.tuned_sysctls) == (True, "", ())


def test_profile_includes_are_parted_in_several_ways_and_may_loop():
    assert parse_profile("[main]\ninclude=-a, b;c d\n").includes == ("a", "b", "c", "d")
    files = {
        "/etc/tuned/active_profile": "a",
        "/etc/tuned/a/tuned.conf": "[main]\ninclude=b\n[sysctl]\nvm.x=1\n",
        "/etc/tuned/b/tuned.conf": "[main]\ninclude=a\n",
    }
    assert managers(files, links=enabled("tuned.service")).tuned_sysctls == ("vm.x",)
    assert normal_key("net.ipv4.conf.eth0/1.rp_filter") == "net.ipv4.conf.eth0/1.rp_filter"


def test_profile_sets_files_below_sys_by_several_plugins():
    text = "[sysfs]\n/sys/a/*=1\n[data]\ntype=disk\nreadahead=>4096\n[vm]\ntransparent_hugepages=never\n"
    assert tuple(parse_profile(text).sysfs) == (
        "/sys/a/*",
        "/sys/block/*/queue/read_ahead_kb",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    )


def test_comment_behind_a_value_of_a_profile_is_no_part_of_it():
    text = "[sysctl] # all\nvm.swappiness = 10 # less\nkernel.x=a#b\n# vm.y=1\n"
    assert parse_profile(text).sysctls == {"vm.swappiness": "10", "kernel.x": "a#b"}


def test_managers_cloud_init_counts_when_it_ran():
    assert managers({"/run/cloud-init/result.json": "{}"}).cloud_init
    assert not managers({"/run/cloud-init/disabled": ""}, packages=("cloud-init",)).cloud_init
    assert not managers(packages=("cloud-init",)).cloud_init


def test_managers_cloud_init_of_an_image_counts_when_installed():
    image = {
        "kind": "root",
        "persistent_only": True,
        "unreadable": {"/run": "no kernel", "/sys": "no kernel"},
    }
    assert managers(packages=("cloud-init",), **image).cloud_init
    assert not managers(
        {"/etc/cloud/cloud-init.disabled": ""}, packages=("cloud-init",), **image
    ).cloud_init
    assert not managers(**image).cloud_init


def test_managers_dgx_by_packages_and_release_file():
    names = (
        "nvidia-ipmisol",
        "dgx-release",
        "nv-cpu-governor",
        "nvidia-acs-disable",
        "nv-hugepage",
        "nv-codec-headers",
    )
    assert (
        managers(packages=names).present[0].evidence
        == "dgx-release, nv-cpu-governor, nv-hugepage and 1 more installed"
    )
    seen = managers({"/etc/dgx-release": 'DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="7.1.0"\n'})
    assert seen.dgx
    assert 'DGX_SWBUILD_VERSION="7.1.0"' in seen.present[0].evidence


def test_managers_node_agents_are_found_by_their_traces():
    files = {
        "/etc/skyhook/history/a": "",
        "/run/nvidia/validations/driver-ready": "",
        "/run/mellanox/drivers/x": "",
    }
    assert managers(files).names == ("gpu-operator", "network-operator", "skyhook")


def test_managers_unreadable_trace_is_unknown_never_absent():
    seen = managers(unreadable={"/run": "not in this record"})
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = seen.gpu_operator
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = seen.present
    assert not seen.tuned  # of TuneD nothing there could tell


def test_managers_unreadable_trace_keeps_what_tuned_sets():
    files = {"/etc/tuned/active_profile": "a", "/etc/tuned/a/tuned.conf": "[sysctl]\nvm.x=1\n"}
    seen = managers(
        files, links=enabled("tuned.service"), unreadable={"/var/lib/skyhook": "needs root"}
    )
    assert seen.tuned_sysctls == ("vm.x",)
    with pytest.raises(UnknownFact, match="needs root"):
        _ = seen.names


@pytest.mark.parametrize("service", [
    "snap.kubelet-eks.daemon.service", "snap.kubelet.daemon.service", "snap.k8s.kubelet.service",
    "snap.microk8s.daemon-kubelet.service", "snap.microk8s.daemon-kubelite.service", "k0sworker.service",
    "k0scontroller.service", "k3s.service", "k3s-agent.service", "k3s-gpu.service", "rke2-agent.service",
])  # fmt: skip
def test_managers_every_unit_of_a_kubelet_makes_a_node(service):
    by_start = managers(folders=(f"{SLICE}/{service}",))
    assert (by_start.kubelet, by_start.present[0].evidence) == (True, f"{service} runs")
    by_link = managers(links=enabled(service))
    assert (by_link.kubelet, by_link.present[0].evidence) == (True, f"{service} is enabled")


def test_managers_configuration_of_a_kubelet_that_nothing_starts_is_left_over():
    kept = {"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}
    assert managers(kept).present[0].evidence == "/var/lib/kubelet/config.yaml exists"
    assert managers(
        kept,
        kind="root",
        persistent_only=True,
        unreadable={"/sys": "no kernel", "/run": "no kernel"},
    ).kubelet
    assert not managers(kept, folders=(f"{SLICE}/ssh.service",)).kubelet  # no control group of pods
    unseen = {"/var/lib/kubelet": "not in this record"}
    assert not managers(folders=(f"{SLICE}/ssh.service",), unreadable=unseen).kubelet
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = managers(unreadable=unseen).kubelet


def test_managers_tuners_are_known_by_their_services():
    seen = managers(
        links=enabled("tuned.service", "tlp.service", "slurmd.service"),
        unreadable={"/var/lib": "needs root"},
    )
    assert [one.name for one in seen.tuners] == ["tlp", "tuned"]


def test_managers_other_snaps_are_no_node():
    assert (
        managers(
            links=enabled("snap.lxd.daemon.service", "snap.kubectl.x.service", "dk3s.service")
        ).names
        == ()
    )


KEPT = (
    "/var/lib/kubelet/pods/x", "/var/lib/k0s/kubelet/x", "/var/snap/microk8s/common/var/lib/kubelet/x",
    "/var/lib/rancher/k3s/agent/x", "/var/lib/rancher/rke2/agent/x",
)  # fmt: skip


@pytest.mark.parametrize("path", KEPT)
def test_managers_what_a_kubelet_keeps_counts_where_nothing_shows_that_no_pod_runs(path):
    folder = path.removesuffix("/x")
    seen = managers(folders=(path,))
    assert (seen.names, seen.present[0].evidence) == (("kubelet",), f"{folder} is not empty")
    image = {
        "kind": "root",
        "persistent_only": True,
        "unreadable": {"/run": "no kernel", "/sys": "no kernel"},
    }
    assert managers(folders=(path,), **image).kubelet
    assert not managers(folders=(folder,)).kubelet  # empty
    assert not managers(
        folders=(path, f"{SLICE}/ssh.service")
    ).kubelet  # left over: no control group of pods
    with pytest.raises(UnknownFact, match="needs root"):
        _ = managers(unreadable={folder: "needs root"}).kubelet


@pytest.mark.parametrize("group", ["kubepods", "kubepods.slice", "systemd/kubepods.slice"])
def test_managers_control_group_of_pods_makes_a_node_whatever_starts_the_kubelet(group):
    seen = managers(folders=(f"/sys/fs/cgroup/{group}", f"{SLICE}/docker.service"))
    assert (seen.names, seen.present[0].evidence) == (
        ("kubelet",),
        f"/sys/fs/cgroup/{group} exists: pods run",
    )
