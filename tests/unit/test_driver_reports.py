"""States of drivers that public reports showed, and that had another name, another cause or another
way out before.
"""

import pytest

from hosttune.facts.gpu.archives import Offer
from hosttune.facts.gpu.build_log import error_in
from hosttune.facts.gpu.driver import DriverPackage
from hosttune.facts.gpu.nvidia_smi import without_room
from hosttune.facts.packages import Packages
from hosttune.facts.placed import Placed
from tests.unit.test_driver_state import BY_RUNFILE, KERNEL, PACKAGE, VERSION, host, names, states


def by_name(facts):
    return {one.name: one for one in states(facts)}


def test_fabric_manager_of_another_version_than_the_installers_driver_is_not_started():
    """NVIDIA/gpu-operator issue 544: Fabric Manager 530.30.02 beside the installer's driver
    530.41.03.
    """
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.95.05-1", fabric="failed")
    found = by_name(facts)
    assert "fabric down" not in found
    assert (
        "nvidia-fabricmanager-580 is 580.95.05, and the driver is 580.126.20"
        in found["fabric different"].evidence
    )
    assert found["fabric different"].is_dead
    assert "nvidia-fabricmanager-580=580.126.20*" in found["fabric different"].way_out


def test_fabric_manager_without_a_version_of_the_installers_driver_leads_the_driver_to_its_own():
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.95.05-1", fabric="failed")
    facts.archives.lacking = ("nvidia-fabricmanager-580", "libnvidia-nscq-580")
    way = by_name(facts)["fabric different"].way_out
    assert (
        way
        == "no list of apt has nvidia-fabricmanager-580 in 580.126.20: sudo apt-get update, and look again"
    )


def test_fabric_manager_of_the_installers_version_is_well():
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.126.20-1")
    assert names(facts) == ["runfile"]


ABSENT_DRIVER = {
    "loaded_version": "", "userspace_version": "", "branch": "", "name": "", "flavour": "", "packages": (), "modules": (),
    "kernels_with_module": (), "has_module_for_running_kernel": False,
}  # fmt: skip
NO_ROOM = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:43:00.0)"


def test_gpu_without_an_address_for_its_window_is_mended_by_no_reboot():
    """NVIDIA/gpu-operator issue 492; the line by which the driver is loaded comes after those of
    the GPUs.
    """
    log = (
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        NO_ROOM,
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.126.20",
    )
    slots = without_room(log)
    assert slots == ("0000:43:00.0",)
    facts = host(undriven=slots, nvidia={"no_room": slots})
    (state,) = states(facts)
    assert (state.name, state.is_dead) == ("GPU without a driver", True)
    assert (
        "the GPU at 0000:43:00.0 has no driver: a window to the memory has no address"
        in state.evidence
    )
    assert "Above 4G Decoding" in state.way_out
    assert "drain the host and reboot" not in state.way_out
    facts.host.is_vm = True
    assert "neither another driver nor a reboot" in states(facts)[0].way_out


def test_only_gpu_without_an_address_is_no_start_that_failed_for_another_reason():
    alone = {
        "undriven": ("0000:43:00.0",),
        "nvidia": {"no_room": ("0000:43:00.0",), "refused": "other"},
    }
    (state,) = states(host(loaded_version="", **alone))
    assert (state.name, "no address" in state.evidence) == ("GPU refused", True)


def test_gpu_that_has_a_driver_by_now_lacks_no_address():
    assert names(host(nvidia={"no_room": ("0000:43:00.0",)})) == ["current"]


def test_branch_of_the_installers_driver_has_ended():
    found = by_name(host(**BY_RUNFILE, loaded_version="535.129.03", userspace_version="535.129.03"))
    assert "support of branch 535 has ended" in found["outdated branch"].evidence
    way = found["outdated branch"].way_out
    assert "NVIDIA's installer of a supported branch (580 or 595)" in way
    assert "sudo nvidia-uninstall" in way
    old = by_name(
        host(
            **BY_RUNFILE, loaded_version="470.1", userspace_version="470.1", generations=("volta",)
        )
    )
    assert "of a supported branch (580)" in old["outdated branch"].way_out


def test_branch_of_a_driver_without_packages_has_ended():
    """On Google's nodes: no package and no installer's mark, and the module is loaded."""
    loaded = {
        **BY_RUNFILE,
        "runfile": False,
        "loaded_version": "535.230.02",
        "userspace_version": "",
    }
    (state,) = states(host(**loaded, modules=(), kernels_with_module=(), here=("kubelet",)))
    assert (state.name, state.is_dead) == ("outdated branch", False)
    assert "by what brings the driver of this Kubernetes node" in state.way_out


@pytest.mark.parametrize(
    "more", [{}, {"loaded_version": "535.1", "userspace_version": "535.1", "is_vgpu_manager": True}]
)
def test_branch_of_the_installers_driver_has_not_ended(more):
    assert "outdated branch" not in names(host(**BY_RUNFILE | more))


MISSING = {
    "loaded_version": "", "has_module_for_running_kernel": False, "kernels_with_module": ("6.5.0-1",), "modules": (),
}  # fmt: skip


def installers(**more):
    facts = host(**BY_RUNFILE, **MISSING, **more)
    facts.packages.entries[f"linux-headers-{KERNEL}"] = (PACKAGE, "install ok installed")
    return facts


def test_installer_that_is_too_old_for_the_kernel_is_not_all_that_is_advised():
    """GoogleCloudPlatform/compute-gpu-installation issue 34: 525.125.06 does not build for the
    kernel that came.
    """
    way = by_name(installers())["module missing"].way_out
    assert (
        f"with --dkms --kernel-name={KERNEL} (where that does not build, NVIDIA's installer of a newer"
        in way
    )


def test_guest_whose_driver_has_no_module_for_this_kernel_is_told_that_first():
    """DDMAL/Rodan issue 1224, Azure/azhpc-extensions pull request 127: a kernel came, and the
    driver fits the host.
    """
    facts = installers(nvidia={"is_vgpu": True}, here=("azure",))
    first = states(facts)[0]
    assert first.name == "module missing"
    assert "vGPU guest" not in names(facts)
    assert "where that does not build, on Azure the NVIDIA GPU Driver Extension" in first.way_out


def test_guest_with_the_distributions_packages_is_told_that_those_do_not_fit():
    facts = host(**MISSING, nvidia={"is_vgpu": True})
    assert states(facts)[0].name == "vGPU guest"


def moved_to(candidate, **more):
    names = ("libnvidia-compute-470", "nvidia-utils-470")
    there = tuple(
        DriverPackage(name, "470.256.02-0ubuntu0.24.04.1", False, "installed") for name in names
    )
    moving = tuple(Offer(one.name, one.version, candidate, "Ubuntu", "Ubuntu") for one in there)
    own = {
        "loaded_version": "470.256.02",
        "userspace_version": "470.256.02",
        "modules": (),
        "is_open": False,
    }
    return host(
        branch="470", name="470", packages=there, archives={"updates": moving}, **own, **more
    )


def test_hold_that_keeps_the_gpus_working_leads_the_end_of_the_branch():
    """linuxmint/mintdrivers issue 111: 470 became an empty step to 535, which does not drive a
    Kepler.
    """
    found = states(moved_to("535.288.01-0ubuntu0.24.04.1", generations=("kepler",)))
    assert [one.name for one in found][:2] == ["other branch offered", "outdated branch"]
    assert found[0].way_out.startswith("to stay in branch 470: sudo apt-mark hold")


def test_upgrade_out_of_an_ended_branch_is_not_held_without_need():
    (first, *_) = states(moved_to("580.126.20-0ubuntu0.24.04.1", generations=("turing",)))
    assert first.name == "other branch offered"
    assert first.way_out.startswith(
        "let it at a maintenance, as branch 470 has ended: sudo apt upgrade\ndrain"
    )
    assert "to stay in branch 470: sudo apt-mark hold" in first.way_out


CONTAINED = {"here": ("container",), "loaded_version": "580.95.05"}
REFUSES = {"smi": "refused", "refusal": "mismatch"}


def test_container_with_libraries_of_another_version_than_the_hosts_module():
    """nvidiavgpuarchive/index issue 1: 570.148.08 in a container of Proxmox VE, whose module is
    570.148.06.
    """
    (state,) = states(host(**CONTAINED | BY_RUNFILE, nvidia=REFUSES))
    assert (state.name, state.is_dead, state.waits_for_reboot) == ("mismatch", True, False)
    assert (
        "the host's module is 580.95.05, and the libraries of this container are 580.126.20"
        in state.evidence
    )
    assert "sudo sh /root/NVIDIA-Linux-x86_64-580.95.05.run --no-kernel-modules" in state.way_out
    (state,) = states(host(**CONTAINED, nvidia=REFUSES))
    assert (
        "sudo apt-get install --allow-downgrades 'nvidia-utils-580-server=580.95.05*'"
        in state.way_out
    )


@pytest.mark.parametrize("more", [{}, {"nvidia": REFUSES, "loaded_version": VERSION}])
def test_container_whose_driver_is_the_hosts(more):
    assert names(host(**CONTAINED | more)) == ["container"]


def test_host_without_a_driver_gets_none_of_another_distributions_archive():
    ubuntus = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/ /"
    facts = host(**BY_RUNFILE | MISSING | {"runfile": False, "userspace_version": ""}, ubuntu=False)
    facts.os.id, facts.os.name = "debian", "Debian GNU/Linux 12"
    facts.apt.sources = (Placed(ubuntus, "/etc/apt/sources.list.d/cuda.list", 1),)
    (state,) = states(facts)
    assert "cuda.list:1 has NVIDIA's archive for Ubuntu" in state.evidence
    assert state.way_out.startswith(
        "take that line out, as its driver does not fit, and sudo apt-get update\n"
    )
    assert "apt-get install nvidia-driver" in state.way_out


def test_module_of_the_installer_is_not_signed_by_a_key_of_dkms():
    """luckyyyyy/blog issue 72: the installer signs nothing by itself, so a key to enrol is not all
    that is missing.
    """
    facts = host(**BY_RUNFILE, loaded_version="", nvidia={"rejected_key": True}, ubuntu=False)
    way = by_name(facts)["Secure Boot refuses"].way_out
    assert way.startswith("run the installer that brought the driver again with --dkms")
    assert "sudo mokutil --import /var/lib/dkms/mok.pub" in way


NO_DRIVER = {
    "branch": "",
    "name": "",
    "loaded_version": "",
    "userspace_version": "",
    "modules": (),
    "ubuntu": False,
}
NO_SOURCES = "Unable to find the kernel source tree for the currently running kernel"


def test_driver_of_debian_comes_with_the_headers_that_it_is_compiled_with():
    """MichaIng/DietPi issue 6256; in GoogleCloudPlatform/compute-gpu-installation issue 28 the
    archive has none any more.
    """
    facts = host(**NO_DRIVER)
    (state,) = states(facts)
    assert f"apt-get install nvidia-driver linux-headers-{KERNEL})" in state.way_out
    facts.archives.lacking = (f"linux-headers-{KERNEL}",)
    (state,) = states(facts)
    assert state.way_out.startswith(f"no list of apt has linux-headers-{KERNEL}: ")
    assert state.way_out.endswith("apt-get install nvidia-driver)")


def test_installer_that_found_no_headers_names_their_package_once():
    """MichaIng/DietPi issue 5818."""
    build = error_in(f"ERROR: {NO_SOURCES}.  Please make sure")
    assert build.is_of_host
    (state,) = states(host(**NO_DRIVER, installer_error=NO_SOURCES, installer_build=build))
    assert state.evidence.count(NO_SOURCES) == 1
    assert state.way_out.startswith(
        f"bring the kernel's headers: sudo apt-get install linux-headers-{KERNEL}\nrun that"
    )


def test_nvidia_smi_without_a_module_is_no_trouble_of_its_own():
    refused = {"smi": "refused", "refusal": "not loaded", "problem": "nvidia-smi: has failed"}
    facts = host(loaded_version="", has_module_for_running_kernel=False, modules=(), nvidia=refused)
    assert "nvidia-smi refuses" not in names(facts)
    assert "nvidia-smi refuses" in names(host(loaded_version="", nvidia=refused))


def test_node_whose_apt_waits_for_a_part_of_the_driver_is_degraded():
    """`apt-get -f install` may remove the driver; health called such a node fit."""
    found = by_name(host(lacking="nvidia-utils-580-server"))["unmet dependencies"]
    assert (found.is_dead, found.impairs) == (False, True)
    assert not any(one.impairs for one in states(host()))


@pytest.mark.parametrize(
    ("candidate", "versions", "way"),
    [
        (
            "590.44.01-1",
            {"590.44.01-1": "NVIDIA", "550.163.01-2": "Debian"},
            "Debian's own nvidia-driver 550.163.01-2",
        ),
        (
            "590.44.01-1",
            {"590.44.01-1": "NVIDIA"},
            "NVIDIA's installer (runfile) of a branch that drives them",
        ),
        (
            "550.163.01-2",
            {"590.44.01-1": "NVIDIA", "550.163.01-2": "Debian"},
            "install the driver that your distr",
        ),
        ("", {}, "install the driver that your distribution offers"),
    ],
)
def test_driver_that_apt_would_install_on_debian_drives_the_gpus(candidate, versions, way):
    """NVIDIA/cuda-repo-management issue 38: its archive for Debian 13 begins with branch 590, which
    drives no Pascal.
    """
    facts = host(**ABSENT_DRIVER, generations=("pascal",), ubuntu=False)
    offer = Offer("nvidia-driver", "", candidate, "", "NVIDIA", versions)
    facts.archives.offers_of = lambda names: {"nvidia-driver": offer}
    (state,) = states(facts)
    assert way in state.way_out
    installs = "apt-get install nvidia-driver" in state.way_out
    assert installs is ("installer" not in way)
    assert ("switch NVIDIA's archive off" in state.way_out) is way.startswith("Debian's own")
    turing = host(**ABSENT_DRIVER, generations=("turing",), ubuntu=False)
    turing.archives.offers_of = facts.archives.offers_of
    assert states(turing)[0].way_out.startswith("install the driver that your distribution offers")


def test_libraries_that_no_name_gives_to_the_driver_go_with_it():
    """libcuda1 of NVIDIA's archive keeps apt from taking Debian's nvidia-driver."""
    version, old = "590.44.01-1", "550.163.01-2"
    facts = host(
        packages=(
            DriverPackage("nvidia-driver", version, False, "installed"),
            DriverPackage("glx-alternative-nvidia", "1.2.2", False, "installed"),
        ),
        branch="590", name="590", flavour="",
        generations=("pascal",), is_open=False, modules=(), names=("nvidia-driver", "libcuda1"), loaded_version="",
        nvidia={"legacy_branch": "580"}, ubuntu=False, archives={"origins": ("NVIDIA",), "lacking": ("cuda-drivers",)},
    )  # fmt: skip
    facts.apt.disabled_sources = ()
    there = {"nvidia-driver": version, "libcuda1": version, "bash": "5.2"}
    there |= {
        "glx-alternative-nvidia": "1.2.2",
        "of-another": "1.2.2",
    }  # a version that is not of a driver binds nothing
    facts.packages = Packages({name: (one, "install ok installed") for name, one in there.items()})
    offer = Offer(
        "nvidia-driver", version, version, "NVIDIA", "NVIDIA", {version: "NVIDIA", old: "Debian"}
    )
    facts.archives.offers_of = lambda names: (
        {"nvidia-driver": offer} if "nvidia-driver" in names else {}
    )
    way = by_name(facts)["unsupported GPU"].way_out
    assert "sudo apt-get purge glx-alternative-nvidia libcuda1 nvidia-driver\n" in way
    assert f"Debian's own nvidia-driver {old} drives these GPUs" in way


@pytest.mark.parametrize("more", [{}, {**BY_RUNFILE, "userspace_version": "470.256.02"}])
def test_cards_that_no_supported_branch_drives_keep_the_last_one_that_does(more):
    """pop-os/nvidia-graphics-drivers-470 issue 18: a GT 640 (Kepler)."""
    old = {
        "branch": "470",
        "name": "470",
        "loaded_version": "470.256.02",
        "is_open": False,
        "modules": (),
    }
    way = by_name(host(**old | more, generations=("kepler",)))["outdated branch"].way_out
    assert way.startswith("no supported branch drives kepler: keep this one")
    newer = by_name(host(**old | more, generations=("maxwell",)))["outdated branch"].way_out
    assert "keep this one" not in newer


def test_branch_that_drives_no_card_here_is_not_kept():
    """linuxmint/mintdrivers issue 111: of a GTX 760 (Kepler) 470 is the branch, and
    nvidia-driver-470 leads to 535.
    """
    step, real = "535.309.01-0ubuntu0.22.04.1", "470.256.02-0ubuntu0.22.04.1"
    old = {
        "branch": "535",
        "name": "535",
        "userspace_version": "535.309.01",
        "loaded_version": "",
        "is_open": False,
    }
    facts = host(
        **old, modules=(), ubuntu=False, generations=("kepler",), nvidia={"legacy_branch": "470"}
    )
    known = {"nvidia-driver-470": step, "nvidia-driver-470-server": real}
    facts.archives.offers_of = lambda names: {
        name: Offer(name, "", version, "", "Ubuntu")
        for name, version in known.items()
        if name in names
    }
    found = by_name(facts)
    assert found["unsupported GPU"].way_out.startswith(
        "sudo apt-get install nvidia-driver-470-server\n"
    )
    assert "keep the branch that `unsupported GPU` names" in found["outdated branch"].way_out
    known.clear()
    assert by_name(facts)["unsupported GPU"].way_out.startswith(
        "a driver of that branch: from your distribution"
    )
