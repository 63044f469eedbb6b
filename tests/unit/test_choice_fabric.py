"""Whether a host needs Fabric Manager, and what stands in its way."""

import re
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.choices.drivers.components import fabric_beside_pod
from hosttune.choices.drivers.switches import SERVICE
from hosttune.choices.fabric import choose
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import Offer
from hosttune.facts.gpu.components import Components
from hosttune.facts.gpu.driver import Driver, DriverPackage
from hosttune.facts.gpu.packaging import Packaging, parse_show
from hosttune.facts.packages import Packages
from hosttune.facts.services.units import Unit
from hosttune.host.door import Process
from tests.unit.driver_machine import GivenArchives, filled, stanza
from tests.unit.fake_reader import FakeReader

H100, B200, B300, RTX5090, GB200 = "0x2330", "0x2901", "0x3182", "0x2b85", "0x2941"
SAME = {
    "nvidia-fabricmanager-580": "580.126.20-0ubuntu0.24.04.1",
    "nvidia-utils-580-server": "580.126.20-0ubuntu1",
}


def processes(*names):
    """Processes of root with these names."""
    return tuple(
        Process(pid, name, "root", (name,), 0, 0, (), "/", 0.0, uid=0)
        for pid, name in enumerate(names, 900)
    )


def host(
    device=H100, count=8, switches=4, packages=SAME, active=False, busy=False, state="inactive", loaded="580.126.20", libraries="580.126.20",
    branch="580", architecture="x86_64", **more,
):  # fmt: skip
    more = {
        "next_module": True,
        "hostname": "gpu1",
        "is_container": False,
        "is_wsl": False,
        "is_vm": False,
        "operator": False,
        "vfio": False,
    } | more
    status = {name: (version, "install ok installed") for name, version in packages.items()}
    return SimpleNamespace(
        reader=FakeReader(files=more.get("files", {}), processes=processes("nv-fabricmanage")), pressure=SimpleNamespace(uptime_days=3.0),
        nvlink=SimpleNamespace(gpus=(SimpleNamespace(fabric_state=more.get("joined", "")),)), dcgm=SimpleNamespace(version=""), processes=defaultdict(lambda: SimpleNamespace(commands=())),
        gpus=SimpleNamespace(
            devices=(SimpleNamespace(device_id=device),) * count, has_gpu=count > 0, nvswitches=switches,
            is_passed_through=more["vfio"], generations=("hopper",), summary="8 x H100", ours=(), undriven=(), is_on_grace=False, open_alone=(),
        ),
        driver=filled(
            Driver, loaded_version=loaded, is_open=True, userspace_version=libraries, branch=branch, flavour="server-open",
            has_module_for_running_kernel=True, has_module_for_next_kernel=more["next_module"],
        ),
        host=SimpleNamespace(**more), apt=SimpleNamespace(pins=()), kernel=SimpleNamespace(architecture=architecture, release="6.8.0-60-generic", command_line=()),
        cmdline=SimpleNamespace(removed=(), added=()),
        managers=SimpleNamespace(gpu_operator=more["operator"], kubelet=False, slurm=False), packages=Packages(status),
        boot=SimpleNamespace(takes_own_modules=True, next_kernel="6.8.0-71-generic", secure_boot=False, reboot_required=False, reboot_packages=()),
        archives=GivenArchives(origins=("Ubuntu",), packages_there=()), role=SimpleNamespace(vendor_image=""), os=SimpleNamespace(is_ubuntu=True),
        nvidia=SimpleNamespace(is_vgpu=False, all_lost="", rejected_key=False, legacy_branch="", needs_open=False, not_for_open=False, smi="", refused="", misfit=""),
        units={SERVICE: more.get("unit") or unit_of(active, state)},
        packaging=Packaging(parse_show(more.get("shown", ""), {}), "" if more.get("shown") else "not in this record"),
        components=Components(more.get("components", ())), peermem=SimpleNamespace(has_umad=more.get("umad", True), has_mlx5=more.get("mlx5", True), lacks_files=more.get("no_files", ())), module_options=SimpleNamespace(kept_out={}),
        work=SimpleNamespace(is_gpu_busy=busy, evidence=("slurm job 7 runs",)),
    )  # fmt: skip


def unit_of(active, state):
    return replace(unit("loaded"), active_state="active" if active else state)


def test_same_version_on_an_idle_host_can_be_started():
    fabric = choose(host(), {})
    assert (fabric.is_needed, fabric.refused) == (True, "")
    assert fabric.evidence == (
        "4 NVSwitches on the PCI bus", "nvidia-fabricmanager-580 580.126.20-0ubuntu0.24.04.1 is installed",
    )  # fmt: skip


def test_service_that_failed_is_said_to_and_where_the_reason_stands():
    assert "/var/log/fabricmanager.log say why" in choose(host(state="failed"), {}).evidence[-1]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"count": 0}, "there is no NVIDIA GPU"),
        ({"is_container": True}, "belongs to the host"),
        ({"is_wsl": True}, "under WSL"),
        ({"vfio": True}, "vfio-pci"),
        ({"switches": 0}, "there is no NVSwitch"),
        ({"switches": 0, "device": RTX5090}, "there is no NVSwitch"),
        ({"operator": True, "branch": ""}, "GPU Operator"),
        ({"branch": "", "loaded": "", "libraries": ""}, "see gpu-driver"),
        ({"switches": 0, "device": B200, "is_vm": True}, "cannot be seen from here"),
        ({"switches": 0, "device": B200, "count": 1}, "one GPU alone"),
        ({"switches": 0, "device": GB200, "architecture": "aarch64"}, "in trays of their own"),
    ],
)
def test_host_that_needs_none_says_why(more, says):
    fabric = choose(host(**more), {})
    assert not fabric.is_needed
    assert says in fabric.reason


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ({}, "nvidia-fabricmanager-580 is not installed"),
        (
            {"nvidia-fabricmanager-580": "580.95.05-0ubuntu1"},
            "nvidia-fabricmanager-580 is 580.95.05",
        ),
        ({"nvidia-fabricmanager-570": "570.1-0ubuntu1"}, "nvidia-fabricmanager-570 is 570.1"),
    ],
)
def test_other_version_is_refused_with_the_command(packages, says):
    for active in (False, True):  # one that runs would not start again
        fabric = choose(host(packages=packages, active=active), {})
        assert says in fabric.refused
        assert "the driver is 580.126.20" in fabric.refused
        assert (
            fabric.todo
            == "sudo apt-get install 'nvidia-fabricmanager-580=580.126.20*' 'libnvidia-nscq-580=580.126.20*'"
        )


def test_old_package_beside_the_right_one_does_no_harm():
    assert (
        choose(host(packages=SAME | {"nvidia-fabricmanager-570": "570.1-0ubuntu1"}), {}).refused
        == ""
    )


@pytest.mark.parametrize(("branch", "infix"), [("595", ""), ("590", ""), ("580", "-580")])
def test_names_of_nvidias_archive_have_no_branch_from_590_on(branch, infix):
    version = f"{branch}.71"
    packages = {
        "nvidia-driver": f"{version}-1ubuntu1",
        f"nvidia-fabricmanager{infix}": f"{branch}.58-1",
    }
    fabric = choose(host(packages=packages, branch=branch, loaded=version, libraries=version), {})
    assert fabric.todo == (
        f"sudo apt-get install 'nvidia-fabricmanager{infix}={version}*' 'libnvidia-nscq{infix}={version}*'"
    )
    missing = choose(
        host(
            packages={"nvidia-driver": f"{version}-1"},
            branch=branch,
            loaded=version,
            libraries=version,
        ),
        {},
    )
    assert missing.refused.startswith(f"nvidia-fabricmanager{infix} is not installed")


def test_fabric_manager_whose_name_keeps_no_branch_goes_back_to_the_older_driver():
    newer = {
        "nvidia-fabricmanager": "590.48.01-1ubuntu1",
        "nvidia-utils-580": "580.126.20-1ubuntu1",
    }
    assert choose(host(packages=newer), {}).todo == (
        "sudo apt-get install 'nvidia-fabricmanager=580.126.20*' 'libnvidia-nscq=580.126.20*' && "
        f"sudo apt-mark hold nvidia-fabricmanager libnvidia-nscq && sudo systemctl restart {SERVICE}"
    )


@pytest.mark.parametrize(
    ("installed", "held"), [({}, ""), ({"libnvidia-nscq": "590.48.01-1ubuntu1"}, " libnvidia-nscq")]
)
def test_hold_names_no_library_that_apt_lacks_in_that_version_unless_it_is_installed(
    installed, held
):
    newer = {
        "nvidia-fabricmanager": "590.48.01-1ubuntu1",
        "nvidia-utils-580": "580.126.20-1ubuntu1",
    }
    facts = host(packages=newer | installed)
    facts.archives.lacking = ("libnvidia-nscq",)
    assert choose(facts, {}).todo == (
        "sudo apt-get install 'nvidia-fabricmanager=580.126.20*' && "
        f"sudo apt-mark hold nvidia-fabricmanager{held} && sudo systemctl restart {SERVICE}"
    )


SHOWN = stanza("nvidia-driver-580-server-open", "580.126.20-0ubuntu1", ("0x2330",))
KNOWN = SHOWN + stanza("nvidia-fabricmanager-580", "580.126.20-0ubuntu1", section="multiverse/libs")
INSTALL = (
    "sudo apt-get install 'nvidia-fabricmanager-580=580.126.20*' 'libnvidia-nscq-580=580.126.20*'"
)


@pytest.mark.parametrize(
    ("shown", "components", "todo"),
    [
        (KNOWN, ("main", "multiverse", "restricted", "universe"), INSTALL),
        (
            SHOWN,
            ("main", "restricted", "universe"),
            (
                "apt has no list of Ubuntu's component multiverse: sudo add-apt-repository multiverse && sudo apt-get update\n"
                f"{INSTALL}"
            ),
        ),
        (
            SHOWN,
            ("main", "multiverse", "restricted"),
            f"sudo apt-get update, and look again\n{INSTALL}",
        ),
        (SHOWN, (), f"sudo apt-get update, and look again\n{INSTALL}"),
        ("", ("main",), INSTALL),
    ],
    ids=["known", "multiverse off", "not there", "not Ubuntu's", "not in the record"],
)
def test_package_that_apt_does_not_know_names_the_component_that_is_off(shown, components, todo):
    missing = {"nvidia-utils-580-server": "580.126.20-0ubuntu1"}
    assert choose(host(packages=missing, shown=shown, components=components), {}).todo == todo


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"loaded": "580.95.05"}, "the loaded module is 580.95.05"),
        ({"loaded": ""}, "is not loaded"),
        ({"busy": True}, "slurm job 7 runs"),
    ],
)
def test_service_is_not_started_where_it_would_fail_or_disturb(more, says):
    assert says in choose(host(**more), {}).refused
    assert choose(host(active=True, **more), {}).refused == ""


def test_word_on_the_reboot_is_that_of_the_drivers_state():
    assert choose(host(loaded="580.95.05"), {}).todo.startswith("drain the host and reboot")
    dead_after_it = choose(host(loaded="580.95.05", next_module=False), {})
    assert dead_after_it.todo.startswith("do not reboot before")
    assert "has no nvidia module" in dead_after_it.refused


@pytest.mark.parametrize("device", [B200, B300])
def test_switches_that_do_not_show_are_told_by_the_gpus_and_need_the_subnet_manager(device):
    fabric = choose(host(device, switches=0), {})
    assert fabric.is_needed
    assert "nvlsm" in fabric.refused
    assert "do not show on the PCI bus" in fabric.evidence[0]
    assert (
        choose(host(device, switches=0, packages=SAME | {"nvlsm": "2025.06.1-1"}), {}).refused == ""
    )


def test_driver_without_packages_is_left_to_itself():
    assert choose(host(packages={}, branch=""), {}).refused == ""


def test_driver_of_unknown_version_is_no_other_version():
    assert "Fabric Manager cannot start" in choose(host(loaded="", libraries=""), {}).refused
    missing = choose(host(loaded="", libraries="", packages={}), {})
    assert (missing.refused, missing.todo) == (
        "nvidia-fabricmanager-580 is not installed",
        "sudo apt-get install nvidia-fabricmanager-580 libnvidia-nscq-580",
    )


def test_switches_that_are_not_on_the_bus_are_reached_by_ib_umad():
    """github.com/spectrocloud/CanvOS/pull/700: Fabric Manager of a B200 fails before that module is
    loaded.
    """
    packages = SAME | {"nvlsm": "1"}
    found = choose(host(B200, switches=0, packages=packages, state="failed", umad=False), {})
    assert "ib_umad is not loaded" in found.refused
    file = "/etc/modules-load.d/nvlink-fabric.conf"
    assert found.todo.startswith(
        f"sudo modprobe -a ib_umad && printf '%s\\n' ib_umad | sudo tee {file}\n"
    )
    found = choose(
        host(B200, switches=0, packages=packages, state="failed", umad=False, mlx5=False), {}
    )
    assert "mlx5_ib and ib_umad are not loaded" in found.refused
    assert found.todo.startswith(
        f"sudo modprobe -a mlx5_ib ib_umad && printf '%s\\n' mlx5_ib ib_umad | sudo tee {file}\n"
    )
    assert choose(host(B200, switches=0, packages=packages, umad=True), {}).refused == ""
    # NVIDIA/gpu-operator issue 2781: an image whose kernel has no file of it
    found = choose(
        host(
            B200, switches=0, packages=packages, state="failed", umad=False, no_files=("ib_umad",)
        ),
        {},
    )
    assert re.match(
        r"sudo apt-get install linux-modules-extra-\S+-generic\nsudo modprobe -a ib_umad &&",
        found.todo,
    )
    assert choose(host(packages=packages, umad=False), {}).refused == ""  # these are on the bus


COMMON = "580.126.20-0ubuntu0.22.04.1"


def archive(lacking, **versions):
    """Of an archive that has these and lacks those operands."""
    offers = {
        name: Offer(name, "", version, "", "Ubuntu", newest=version)
        for name, version in versions.items()
    }
    here = Offer("nvidia-kernel-common-580", COMMON, COMMON, "Ubuntu", "Ubuntu")
    return SimpleNamespace(
        origins=("Ubuntu",), updates=(), packages={here.name: here}, kept_back=(),
        missing=lambda operands: tuple(one for one in operands if one in lacking), offers_of=lambda names: {one: offers[one] for one in names if one in offers},
    )  # fmt: skip


@pytest.mark.parametrize("has_server", [True, False])
def test_fabric_manager_that_no_archive_has_in_the_drivers_version_is_not_named(has_server):
    """Ubuntu's Fabric Manager follows the -server driver:
    github.com/akash-network/website/pull/632.
    """
    shown = stanza(
        "nvidia-driver-580-server",
        "580.142-0ubuntu0.22.04.1" if has_server else "580.95-0ubuntu1",
        (H100,),
    )
    facts = host(
        shown=shown
        + stanza("nvidia-fabricmanager-580", "580.142-0ubuntu0.22.04.1", section="multiverse/admin")
    )
    facts.driver = replace(
        facts.driver,
        flavour="",
        packages=(DriverPackage("nvidia-kernel-common-580", COMMON, False, "installed"),),
    )
    facts.packages = Packages(
        {"nvidia-fabricmanager-580": ("580.142-0ubuntu0.22.04.1", "install ok installed")}
    )
    operands = [
        f"{name}=580.126.20*" for name in ("nvidia-fabricmanager-580", "libnvidia-nscq-580")
    ]
    facts.archives = archive(operands, **{"nvidia-fabricmanager-580": "580.142-0ubuntu0.22.04.1"})
    found = choose(facts, {})
    assert "=580.126.20*" not in found.todo
    assert ("the -server driver, which Fabric Manager goes with" in found.todo) is has_server
    assert (
        "no list of apt has nvidia-fabricmanager-580 in 580.126.20, but 580.142" in found.todo
    ) is not has_server


@pytest.mark.parametrize(("origin", "leaves"), [("NVIDIA", False), ("Ubuntu", True)])
def test_driver_of_nvidias_archive_is_not_sent_to_nvidias_archive(origin, leaves):
    """NVIDIA/gpu-driver-container issue 735: Fabric Manager 590.48.01 beside 580.126.09."""
    facts = host()
    common = DriverPackage("nvidia-kernel-common-580", "580.126.20-0ubuntu1", False, "installed")
    facts.driver = replace(facts.driver, packages=(common,))
    facts.packages = Packages({"nvidia-fabricmanager": ("590.48.01-1", "install ok installed")})
    here = Offer("nvidia-kernel-common-580", common.version, common.version, origin, origin)
    operands = [f"{name}=580.126.20*" for name in ("nvidia-fabricmanager", "libnvidia-nscq")]
    facts.archives = archive(operands, **{"nvidia-fabricmanager": "590.48.01-1"})
    facts.archives.origins, facts.archives.packages = (origin,), {here.name: here}
    todo = choose(facts, {}).todo
    assert todo.startswith(
        "no list of apt has nvidia-fabricmanager in 580.126.20, but 590.48.01: sudo apt-get update"
    )
    assert ("both from NVIDIA's archive" in todo) is leaves


def test_manager_comes_also_where_apt_lacks_the_library_for_monitoring():
    """NVIDIA/nvtrust issue 55: a Fabric Manager of another archive; CUDA needs it, and only DCGM
    the library.
    """
    facts = host()
    facts.packages = Packages({"nvidia-fabricmanager-580": ("580.95.05-1", "install ok installed")})
    facts.archives = archive(["libnvidia-nscq-580=580.126.20*"])
    assert choose(facts, {}).todo == "sudo apt-get install 'nvidia-fabricmanager-580=580.126.20*'"


def test_way_into_the_fabric_is_that_of_what_runs_it():
    here = choose(host(active=True), {}).way_in
    assert "journalctl -b -u nvidia-fabricmanager" in here
    assert "modprobe" not in here
    rack = choose(host(GB200, count=4, switches=0, packages={}, architecture="aarch64"), {}).way_in
    assert "NMX-C" in rack
    assert "nvidia-fabricmanager" not in rack
    operator = choose(host(operator=True, branch="", packages={}), {}).way_in
    assert "nvidia-driver-ctr" in operator
    lacking = choose(host(B200, switches=0, umad=False, mlx5=False), {}).way_in
    assert "sudo modprobe -a mlx5_ib ib_umad" in lacking


def test_gpus_are_reset_by_the_driver_in_its_container_where_the_host_has_none():
    contained = {"/run/nvidia/driver/usr/bin/nvidia-smi": ""}
    found = choose(host(operator=True, branch="", packages={}, files=contained), {})
    reset = "reset all GPUs of this host together: sudo chroot /run/nvidia/driver nvidia-smi -r\n"
    assert all(reset in way for way in (found.way_in, found.way_to_links, found.way_to_wait))
    own = choose(host(active=True, files={"/usr/bin/nvidia-smi": ""}), {})
    assert "reset all GPUs of this host together: sudo nvidia-smi -r\n" in own.way_to_links


def test_way_into_the_fabric_of_a_virtual_machine_names_its_manager_where_it_has_one():
    assert "restart nvidia-fabricmanager" in choose(host(B200, switches=0, is_vm=True), {}).way_in
    units = {SERVICE: unit("not-found")}
    lent = host(B200, switches=0, packages={}, is_vm=True)
    lent.units = units
    assert "your provider" in choose(lent, {}).way_in


def unit(load):
    return Unit(
        name=SERVICE, exists=load != "not-found", load_state=load, active_state="inactive", enabled_state="disabled",
        preset="unknown", fragment="", drop_ins=(), needs_reload=False,
    )  # fmt: skip


def pod_host(running=(), **more):
    """An HGX A100 whose driver the GPU Operator brought in a container, and processes of root by
    name.
    """
    found = host(
        **{
            "device": "0x20b2",
            "operator": True,
            "branch": "",
            "libraries": "",
            "hostname": "gpu1",
            **more,
        }
    )
    found.reader = FakeReader(processes=processes(*running))
    found.archives = archive((), **{"nvidia-fabricmanager-580": "580.126.20-1"})
    return found


OLD = {"nvidia-fabricmanager-580": "580.95.05-1"}


def test_no_fabric_manager_beside_a_driver_in_a_container_is_a_fault():
    """canonical/microk8s issue 2119: the host's own 460.91.03 does not start beside the container's
    driver 460.73.01.
    """
    fabric = choose(pod_host(["kubelet"], packages=OLD), {})
    assert fabric.is_needed
    assert "nvidia-fabricmanager-580 is 580.95.05, and the driver is 580.126.20" in fabric.refused
    assert "with 4 NVSwitches CUDA does not start (error 802)" in fabric.refused
    assert (
        "sudo apt-get install --allow-downgrades 'nvidia-fabricmanager-580=580.126.20*'"
        in fabric.todo
    )
    without = choose(pod_host(["kubelet"], packages={}), {})
    assert without.refused.startswith(
        "no Fabric Manager runs, neither that of the driver's container nor"
    )
    assert "apt-get" not in without.todo


@pytest.mark.parametrize(
    "more",
    [
        {"running": ["nv-fabricmanage"]},  # the container's: a host sees its processes
        {"running": ["kubelet"], "joined": "In Progress"},  # gpu-nvlink reports that
        {"running": ["kubelet"], "switches": 0},
    ],
)
def test_fabric_manager_of_the_drivers_container_is_enough(more):
    assert not choose(pod_host(packages=OLD, **more), {}).is_needed


def test_processes_of_root_that_are_hidden_say_nothing_of_fabric_manager():
    """`driver` calls it not known; the links are judged all the same, so that nothing of them is
    lost by it.
    """
    hidden = pod_host([], packages=OLD)
    with pytest.raises(UnknownFact, match="no process of root can be seen"):
        fabric_beside_pod(hidden)
    assert not choose(hidden, {}).is_needed


def test_restart_of_a_pod_is_no_way_out_of_an_image_that_does_not_match():
    """NVIDIA/gpu-driver-container issue 735: Fabric Manager 590.48.01 in the image of driver
    580.126.09.
    """
    assert "give the driver another image" in choose(pod_host(["nv-fabricmanage"]), {}).way_in
