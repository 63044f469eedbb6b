"""Every state of the driver: its evidence, its way out, and which of two leads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.choices.driver_state import STATES, choose
from hosttune.choices.driver_states.state import BootOutlook
from hosttune.choices.drivers.branch import describe_last
from hosttune.choices.drivers.switches import SERVICE
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts, UnknownFact, make_unread
from hosttune.facts.apt_get import PackageStep, Transaction
from hosttune.facts.apt_pins import Pin
from hosttune.facts.base import Fact
from hosttune.facts.gpu.archives import Offer
from hosttune.facts.gpu.branch_table import own_table
from hosttune.facts.gpu.branches import Branches
from hosttune.facts.gpu.build_log import BuildError
from hosttune.facts.gpu.driver import DriverPackage
from hosttune.facts.gpu.driver_modules import DkmsBuild
from hosttune.facts.gpu.gpu_holders import GpuHolder
from hosttune.facts.gpu.gsp_firmware import GspFailure, GspFirmware
from hosttune.facts.gpu.nvidia_lost import SilentGpu
from hosttune.facts.gpu.packaging import Packaging
from hosttune.facts.gpu.strangers import GRAPHICS_PPA
from hosttune.facts.packages import REPAIR, Packages
from hosttune.facts.placed import Placed
from hosttune.facts.storage.storage_log import HungTask
from hosttune.frozen import frozen
from hosttune.values import ABSENT
from tests.unit.driver_machine import NOW, GivenArchives, tables
from tests.unit.fake_reader import FakeReader

KERNEL, NEXT, VERSION = "6.8.0-60-generic", "6.8.0-71-generic", "580.126.20"
FALLEN = SilentGpu("0000:1b:00.0", "has fallen off the bus (Xid 79)", "log")
LEFT_OUT = SilentGpu(
    "0000:43:00.0", "is on the PCI bus and does not answer (nvidia-smi lists 7 of 8)", "left out"
)
HALF = "dpkg stopped half-way with nvidia-dkms-580 (half-configured)"
PIN = Pin(("nvidia-utils-*",), "version 580.126*", 1001, "/etc/apt/preferences.d/driver", 3)
SWITCHED_OFF = Placed(
    "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/ /",
    "/etc/apt/cuda.list",
    2,
)
PACKAGE = "580.126.20-0ubuntu0.24.04.1"


def module(kernel=KERNEL, *, version=VERSION, source="prebuilt", is_open=True):
    path = "updates/dkms/nvidia.ko" if source == "dkms" else "kernel/nvidia-580srv-open/nvidia.ko"
    return SimpleNamespace(
        kernel=kernel, path=path, source=source, version=version, is_open=is_open
    )


class Driver(SimpleNamespace):
    def module_for(self, kernel):
        return next((one for one in self.modules if one.kernel == kernel), None)

    @property
    def is_loaded(self):
        return bool(self.loaded_version)

    @property
    def is_foreign(self):
        whole = self.userspace_version and (self.kernels_with_module or self.dkms)
        return bool(whole) and not self.branch and not self.runfile

    @property
    def is_installed(self):
        return bool(self.branch) or self.runfile or self.is_foreign

    @property
    def is_present(self):
        return self.is_installed or self.is_loaded

    @property
    def is_on_disk(self):
        return self.is_installed or (self.is_loaded and bool(self.kernels_with_module))

    @property
    def is_mismatched(self):
        return (
            bool(self.loaded_version and self.userspace_version)
            and self.loaded_version != self.userspace_version
        )


def host(
    *,
    generations=("hopper",),
    nvswitches=0,
    undriven=(),
    fabric="active",
    now=NOW,
    ubuntu=True,
    boot=None,
    archives=None,
    nvidia=None,
    here=(),
    names=(),
    manager="",
    lacking="",
    failures=(),
    kept_out=None,
    half="",
    would=(),
    hung=(),
    words=(),
    **driver,
):
    """A healthy host with an H100, changed as the words say."""
    plain = {
        "loaded_version": VERSION, "is_open": True, "userspace_version": VERSION, "branch": "580",
        "flavour": "server-open", "name": "580-server-open", "packages": (DriverPackage("nvidia-utils-580-server", PACKAGE, False, "installed"),),
        "held": (), "half_way": "", "is_gone": False, "runfile": False, "nouveau_bound": False, "has_module_for_running_kernel": True,
        "has_module_for_next_kernel": True, "kernels_with_module": (KERNEL,), "modules": (module(),), "dkms": (),
        "transitional": (), "holders": (), "is_vgpu_manager": False, "persistenced": True, "lacks_uvm": False, "installer_error": "", "installer_build": BuildError(), "has_plain_modprobe": False, "failed_others": (), "dkms_orphans": (),
    }  # fmt: skip
    quiet = {
        "silent": (), "wants_reset": False, "loses_links": False, "lost": (), "is_vgpu": False, "needs_open": False, "not_for_open": False, "legacy_branch": "",
        "all_lost": "", "rejected_key": False, "smi": "answers", "refusal": "", "problem": "", "gpus": (),
        "refused": "", "no_room": (), "misfit": ("", ""),
    }  # fmt: skip
    here_too = dict.fromkeys(names or ("linux-modules-nvidia-580-server-open-generic",), PACKAGE)
    here_too |= {"nvidia-fabricmanager-580": manager} if manager else {}
    there = [(one.name, one.version) for one in driver.get("packages", plain["packages"])]
    files = {
        "kernels": (KERNEL, NEXT),
        "next_kernel": KERNEL,
        "secure_boot": False,
        "reboot_required": False,
        "reboot_packages": (),
    }
    return SimpleNamespace(
        driver=Driver(**plain | driver),
        gpus=SimpleNamespace(
            generations=generations,
            ours=tuple(
                SimpleNamespace(generation=one, slot="", title=one, device_id="")
                for one in generations
            ),
            nvswitches=nvswitches,
            undriven=undriven,
            devices=(),
            is_on_grace="grace" in here,
            open_alone=tuple(
                word
                for word, is_so in (
                    ("Grace Hopper", "grace" in here),
                    ("Blackwell", "blackwell" in generations),
                )
                if is_so
            ),
            drivers=("nvidia", "") if undriven else ("nvidia",),
            summary="1 x H100",
            has_gpu=True,
            is_passed_through="vfio" in here,
            is_vgpu="profile" in here,
            unlisted=(),
        ),
        branches=tables(),
        candidates=SimpleNamespace(packages=(), problem="`ubuntu-drivers` is not installed"),
        packaging=Packaging({}, "not in this record"),
        host=SimpleNamespace(
            is_container="container" in here,
            is_wsl="wsl" in here,
            is_vm=False,
            hostname="gpu01",
            cloud="azure" if "azure" in here else "",
        ),
        managers=SimpleNamespace(
            gpu_operator="operator" in here, kubelet="kubelet" in here, slurm=False
        ),
        processes=defaultdict(lambda: SimpleNamespace(commands=())),
        dcgm=SimpleNamespace(version=""),
        role=SimpleNamespace(
            vendor_image="DGX OS" if "dgx" in here else "", is_desktop="desktop" in here
        ),
        containers=SimpleNamespace(
            has_operator_toolkit="operator toolkit" in here,
            has_toolkit="hook" in here or "cdi" in here,
            is_legacy="hook" in here,
        ),
        packages=Packages(
            {name: (version, "install ok installed") for name, version in here_too.items()}
            | ({half: (PACKAGE, "install ok half-configured")} if half else {}),
            depends=defaultdict(tuple, {lacking: ("libnvidia-cfg1 (= 580.1)",)}),
        ),
        kernel=SimpleNamespace(release=KERNEL, architecture="x86_64", command_line=tuple(words)),
        cmdline=SimpleNamespace(removed=(), added=()),
        units={
            SERVICE: SimpleNamespace(
                is_active=fabric == "active", active_state=fabric, load_state="loaded"
            )
        },
        os=SimpleNamespace(
            is_ubuntu=ubuntu,
            id="ubuntu" if ubuntu else "other",
            version_id="24.04",
            name="Ubuntu 24.04",
        ),
        boot=SimpleNamespace(**files | (boot or {})),
        archives=GivenArchives(
            **{
                "origins": ("Ubuntu",),
                "updates": (),
                "kept_back": (),
                "without_origin": (),
                "packages_there": there,
            }
            | (archives or {}),
        ),
        nvidia=SimpleNamespace(**quiet | (nvidia or {})),
        module_options=SimpleNamespace(kept_out=kept_out or {}),
        file_owners=Facts(FakeReader(dict.fromkeys((kept_out or {}).values(), ""))).file_owners,
        peermem=SimpleNamespace(
            has_umad="no umad" not in here,
            has_mlx5=True,
            lacks_files=("ib_umad",) if "no file of umad" in here else (),
        ),
        pressure=SimpleNamespace(uptime_days=67.0 if "long" in here else 3.0),
        storage_log=SimpleNamespace(hung=hung),
        gsp_firmware=GspFirmware(failures),
        boot_room=SimpleNamespace(is_full=False),
        health=SimpleNamespace(gpus=(), is_stuck=False),
        reader=SimpleNamespace(
            now=lambda: now,
            has_tried_packages=False,
            persistent_only=True,
            stat=lambda *_, **__: ABSENT,
        ),
        apt=SimpleNamespace(
            pins=(PIN,),
            disabled_sources=(SWITCHED_OFF,),
            said={},
            sources=(),
            would=defaultdict(lambda: Transaction(would)),
        ),
    )


def states(facts):
    return choose(facts, {}).states


def names(facts):
    return [one.name for one in states(facts)]


def offer(name="libnvidia-compute-580-server", candidate="580.142-1", origin="Ubuntu"):
    return Offer(name, PACKAGE, candidate, origin, origin)


def test_healthy_host_is_current():
    (state,) = states(host())
    assert (state.name, state.is_fault, state.way_out) == ("current", False, "")
    assert "580-server-open 580.126.20" in state.evidence


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("libnvidia-egl-gbm1", "if nothing here needs libnvidia-egl-gbm1, at a maintenance, sudo apt-get update && sudo apt-get install libnvidia-compute-580-server=580.142-1 libnvidia-egl-gbm1-\n"),
        ("nvidia-fabricmanager-580", "wait until the archive has nvidia-fabricmanager-580 for that version"),
    ],
)  # fmt: skip
def test_update_that_costs_a_package_is_advised_as_plan_would_take_it(name, way):
    """Ubuntu's libnvidia-gl-580 conflicts with libnvidia-egl-gbm1 since 580.126, and Fabric Manager
    comes later.
    """
    (state,) = states(host(archives={"updates": (offer(),)}, would=(PackageStep(name, "1", ""),)))
    assert state.name == "update offered"
    assert state.way_out.startswith(way)
    assert "is refused: apt would remove" in state.way_out


@pytest.mark.parametrize(
    "site",
    [
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages",
        "file:/var/cuda-repo",
    ],
)
def test_upgrade_that_takes_ubuntus_driver_from_nvidias_archive_is_kept_away_by_a_pin(site):
    """By NVIDIA's own cuda-repository-pin-600, or as its version is newer; Ubuntu's prebuilt
    modules would stay.
    """
    names = ("libnvidia-compute-580", "nvidia-utils-580")
    versions, new = {"580.142-0ubuntu1": "NVIDIA"}, "580.142-0ubuntu1"
    offers = tuple(
        Offer(one, PACKAGE, new, "Ubuntu", "NVIDIA", versions, new, 100, ((new, site),))
        for one in names
    )
    (state,) = states(host(archives={"updates": offers}))
    assert state.evidence.startswith(
        "the next `apt upgrade` takes the driver from NVIDIA in the place of Ubuntu's: libnv"
    )
    first, *_, last = state.way_out.split("\n")
    assert last.startswith(
        "until then params: {gpu-driver: {update: true}} in the policy is refused"
    )
    pin = r"printf '\nPackage: libnvidia-compute* nvidia-utils*\nPin: origin developer.download.nvidia.com\nPin-Priority: -1\n' | sudo tee -a"
    is_known = site.startswith("https")
    assert (pin in first) is is_known
    assert (
        first.startswith(
            "decide for one archive: apt-cache policy libnvidia-compute-580 shows both"
        )
        is not is_known
    )


@pytest.mark.parametrize(
    "more",
    [
        {
            "nvidia": {"smi": "answers"}
        },  # a container's own, or one that lies where no known file is
        {"userspace_version": VERSION},
        {"kernels_with_module": (KERNEL,)},
        {"here": ("operator",)},
    ],
)
def test_loaded_driver_of_which_something_is_known_is_not_gone(more):
    assert "driver files gone" not in names(host(**GONE | more))


@pytest.mark.parametrize("has_headers", [False, True])
def test_repair_of_dkms_brings_no_module_to_a_kernel_without_headers(has_headers):
    """It builds for the kernels that have some, and ends well: then a reboot would start a kernel
    without a module.
    """
    dkms = "nvidia-dkms-580-server-open"
    found = {
        one.name: one.way_out
        for one in states(
            host(
                half=dkms,
                half_way=f"dpkg stopped half-way with {dkms} (half-configured)",
                names=(f"linux-headers-{NEXT}",) if has_headers else ("linux-base",),
                boot={"next_kernel": NEXT},
                has_module_for_next_kernel=False,
                loaded_version="580.95.05",
                lacking="",
            )
        )
    }
    way, install = (
        found["module missing for the next kernel"],
        f"sudo apt-get install linux-headers-{NEXT}",
    )
    assert way.startswith("do not reboot before: what solves `broken packages`")
    assert (install in way) is not has_headers
    assert found["mismatch"].startswith(
        "after `broken packages` and `module missing for the next kernel` are solved: drain the host and reboot"
    )


@pytest.mark.parametrize(
    "more",
    [
        {"here": ("desktop",)},
        {"here": ("hook",)},
        {"here": ("operator toolkit",)},
        {"is_vgpu_manager": True},
        {"nvidia": {"smi": "absent"}},
        {"lacks_uvm": False},
    ],
)
def test_missing_cuda_device_is_no_fault_where_something_makes_it_or_nothing_needs_it(more):
    assert "CUDA device missing" not in names(host(**{"lacks_uvm": True} | more))


def packages(*names, **versions):
    there = dict.fromkeys(names, PACKAGE) | versions
    return tuple(
        DriverPackage(name, version, False, "installed") for name, version in there.items()
    )


COMPUTE, UTILS, KERNEL_COMMON = (
    "libnvidia-compute-580-server",
    "nvidia-utils-580-server",
    "nvidia-kernel-common-580-server",
)
MIXED_SOURCES = {
    "packages": packages(COMPUTE, KERNEL_COMMON, UTILS),
    "archives": {"origins": ("NVIDIA", "Ubuntu", "Ubuntu")},
}
NOT_LOADED = {"loaded_version": ""}
GONE = {
    "packages": (), "branch": "", "name": "", "flavour": "", "userspace_version": "", "modules": (), "kernels_with_module": (),
    "has_module_for_running_kernel": False, "nvidia": {"smi": "absent"},
}  # fmt: skip
TABLE = {
    "in part": ({"is_gone": True}, "580.126.20 is on the disk no more", "do not reboot before"),
    "broken packages": ({"half_way": HALF}, "nvidia-dkms-580", "sudo dpkg --configure -a; sudo apt-get -f install"),
    "GPU lost": ({"nvidia": {"silent": (FALLEN,)}}, "0000:1b:00.0", "hardware"),
    "GPU reset required": ({"nvidia": {"wants_reset": True}}, "NV_ERR_RESET_REQUIRED", "sudo systemctl stop nvidia-persistenced\nunload and load the module: sudo modprobe -r"),
    "GSP firmware": (
        {"failures": (GspFailure("0000:43:00.0", "missing", VERSION, "gsp_ga10x.bin", 2, ""),), "persistenced": False}, "/lib/firmware/nvidia/580.126.20/gsp_ga10x.bin", "nvidia-firmware-580-server-580.126.20",
    ),
    "GPU not set up": ({"failures": (GspFailure("0000:43:00.0", "not set up", "", "", 0, "(0x62:0x40:2168)"),)}, "RmInitAdapter failed (0x62:0x40:2168)", "nvidia-bug-report.sh"),
    "vGPU guest": ({"nvidia": {"is_vgpu": True, "smi": "refused"}}, "vGPU", "hypervisor"),
    "runfile": ({"runfile": True, "branch": "", "name": "", "modules": ()}, "runfile", "nvidia-uninstall"),
    "mixed versions": (
        {"packages": packages(KERNEL_COMMON, UTILS, **{COMPUTE: "580.142-1"})}, "libnvidia-compute-580-server 580.142-1 (Ubuntu)", "look again",
    ),
    "unmet dependencies": ({"lacking": "nvidia-utils-580-server"}, "nvidia-utils-580-server needs libnvidia-cfg1", "sudo apt-get install libnvidia-cfg1=580.1"),
    "mixed sources": (MIXED_SOURCES, f"{COMPUTE} {PACKAGE} (NVIDIA's archive)", "look again"),
    "third-party archive": ({"archives": {"origins": (GRAPHICS_PPA,)}}, "graphics-drivers PPA", "ppa-purge"),
    "DKMS failed": (
        {"dkms": (DkmsBuild("nvidia", "580.1", KERNEL, is_installed=False, failed=True),)}, "/var/lib/dkms/nvidia/580.1/build/make.log", "sudo dkms remove nvidia/580.1 --all",
    ),
    "Secure Boot refuses": (
        NOT_LOADED | {"boot": {"secure_boot": True}, "modules": (module(source="dkms"),), "names": ("nvidia-kernel-dkms",), "ubuntu": False}, "Secure Boot is on", "mokutil",
    ),
    "unsupported GPU": ({"generations": ("volta",), "branch": "595", "is_open": False, "modules": (module(is_open=False),)}, "does not drive volta", "switch_branch"),
    "wrong flavour": ({"generations": ("volta",)}, "does not drive volta", "the closed kernel module: params: {gpu-driver: {switch_branch: true}}"),
    "GPU refused": (NOT_LOADED | {"nvidia": {"refused": "open"}}, "without the GSP that the open kernel module needs, which does not fit", "with the power off and on"),
    "GPU without a driver": ({"undriven": ("0000:43:00.0",)}, "no driver holds the GPU at 0000:43:00.0", "NVRM"),
    "module missing": (
        NOT_LOADED | {"has_module_for_running_kernel": False, "modules": (), "kernels_with_module": ()}, "kernels with one: none", f"linux-modules-nvidia-580-server-open-{KERNEL}",
    ),
    "libraries missing": (
        {"userspace_version": "", "nvidia": {"smi": "absent"}}, "no program can use a GPU", "nvidia-headless-no-dkms-580-server-open nvidia-utils-580-server",
    ),
    "other module loaded": ({"is_open": False}, "the loaded module is the closed one", "reboot"),
    "stale module": ({"modules": (module(version="580.95.05", source="dkms"),), "loaded_version": "580.95.05", "names": ("nvidia-dkms-580-server-open",)}, "a reboot does not fix this", "dkms autoinstall"),
    "module missing for the next kernel": (
        {"boot": {"next_kernel": NEXT}, "has_module_for_next_kernel": False}, NEXT, "do not reboot before",
    ),
    "mismatch": ({"loaded_version": "580.95.05"}, "580.95.05", "reboot"),
    "nouveau": (NOT_LOADED | {"nouveau_bound": True}, "nouveau holds", "reboot"),
    "GPU held by another driver": (
        NOT_LOADED | {"holders": (GpuHolder("NovaCore", ("nova_core",), ("0000:43:00.0",), False, "", False),)}, "NovaCore (nova_core) holds the GPU at 0000:43:00.0", "blacklist nova_core",
    ),
    "not loaded": (NOT_LOADED, "is not loaded", "modprobe"),
    "nvidia-smi refuses": ({"nvidia": {"smi": "refused", "refusal": "no devices", "problem": "nvidia-smi: No devices were found"}}, "No devices", "NVRM"),
    "nvidia-smi missing": ({"nvidia": {"smi": "absent"}}, "nvidia-smi is not installed", "sudo apt-get install 'nvidia-utils-580-server=580.126.20*'"),
    "driver files gone": (
        GONE, "nothing else of its driver is known here", "sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia, or drain the host and reboot",
    ),
    "CUDA device missing": ({"lacks_uvm": True, "here": ("cdi",)}, "/dev/nvidia-uvm is missing, as is nvidia-modprobe", "sudo apt-get install nvidia-modprobe\nsudo nvidia-modprobe -u -c=0"),
    "other packages broken": (
        {"half": "nvidia-fs-dkms"}, "nvidia-fs-dkms (half-configured): none is of the driver", "see /var/lib/dkms/nvidia-fs/580.126.20/build/make.log",
    ),
    "fabric different": ({"nvswitches": 4, "manager": "580.95.05-1"}, "580.95.05", "sudo apt-get install 'nvidia-fabricmanager-580=580.126.20*' 'libnvidia-nscq-580=580.126.20*'"),
    "fabric down": ({"nvswitches": 4, "manager": PACKAGE, "fabric": "failed"}, f"{SERVICE} is failed", "fabricmanager.log"),
    "reboot pending": ({"boot": {"reboot_required": True, "reboot_packages": ("linux-image-6.8.0-71-generic",)}}, "linux-image", "reboot"),
    "outdated branch": ({"branch": "535", "name": "535-server"}, "support of branch 535 has ended", "switch_branch"),
    "held": ({"held": ("libnvidia-compute-580-server",), "archives": {"updates": (offer(),)}}, "libnvidia-compute", "never unholds"),
    "other branch offered": (
        {"archives": {"updates": (offer("libnvidia-compute", "595.71.05-1ubuntu1"),)}},
        "the next `apt upgrade` moves this host from branch 580 to 595 (production, supported until 2027-03)",
        "to stay in branch 580: sudo apt-mark hold libnvidia-compute",
    ),
    "kept back": (
        {"archives": {"kept_back": (Offer("nvidia-utils-580-server", PACKAGE, PACKAGE, "Ubuntu", "Ubuntu", newest="580.142-1"),)}},
        "/etc/apt/preferences.d/driver:3 keeps nvidia-utils-580-server at 580.126.20-0ubuntu0.24.04.1, and an archive has 580.142-1",
        "to change it, edit /etc/apt/preferences.d/driver (line 3)",
    ),
    "update offered": ({"archives": {"updates": (offer(),)}}, "580.142-1", "update: true"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_state_says_its_evidence_and_the_way_out(name):
    changes, evidence, way_out = TABLE[name]
    leading = states(host(**changes))[0]
    assert (leading.name, leading.is_fault) == (name, True), names(host(**changes))
    assert evidence in leading.evidence
    assert way_out in leading.way_out


def moving(*names, candidate="595.71.05-1ubuntu1", **more):
    updates = tuple(offer(name, candidate, "NVIDIA") for name in names)
    facts = host(archives={"updates": updates, "origins": ("NVIDIA",)}, **more)
    return {state.name: state for state in states(facts)}


def test_upgrade_to_another_branch_is_no_update():
    """NVIDIA's archive leaves the branch out of the names from 590 on."""
    found = moving("nvidia-kernel-common", "nvidia-persistenced", "nvidia-imex")
    state = found["other branch offered"]
    assert "update offered" not in found
    assert state.way_out == "to stay in branch 580: sudo apt-get install nvidia-driver-pinning-580"
    pinned = moving("nvidia-kernel-common", names=("nvidia-driver-pinning-580",))
    assert "apt-get install" not in pinned["other branch offered"].way_out


@pytest.mark.parametrize(
    ("lacking", "way"),
    [
        (("nvidia-driver-pinning-580",), "to stay in branch 580: sudo apt-mark hold nvidia-imex"),
        (None, "nvidia-driver-pinning-580 (if apt has nvidia-driver-pinning-580, which is not known here)\nif apt does not know it: sudo apt-mark hold nvidia-imex"),
    ],
)  # fmt: skip
def test_pinning_package_is_named_where_apt_has_it(lacking, way):
    """NVIDIA's archives for some releases have none of an older branch."""
    updates = (offer("nvidia-imex", "595.71.05-1ubuntu1", "NVIDIA"),)
    found = states(host(archives={"updates": updates, "origins": ("NVIDIA",), "lacking": lacking}))
    assert next(one.way_out for one in found if one.name == "other branch offered").endswith(way)


def test_metapackage_that_moves_needs_a_full_upgrade():
    assert "the next `apt full-upgrade`" in moving("cuda-drivers")["other branch offered"].evidence


def test_branch_that_does_not_drive_every_gpu_is_named():
    state = moving("cuda-drivers", generations=("volta", "ampere"))["other branch offered"]
    assert state.evidence.endswith(
        "; branch 595 does not drive volta, and these GPUs would stop working"
    )
    assert "does not drive" not in moving("cuda-drivers")["other branch offered"].evidence


def test_tools_and_modules_name_no_branch():
    """Ubuntu's nvidia-settings is 510 beside every driver, and modules are versioned as their
    kernel.
    """
    assert "other branch offered" not in moving("nvidia-settings", candidate="510.47.03-1")
    assert "other branch offered" not in moving(
        "linux-modules-nvidia-580-generic", candidate="6.8.0-146.146"
    )
    assert "other branch offered" not in moving("nvlsm", candidate="2025.10.11-1")


def test_hold_that_keeps_the_branch_is_not_said_to_be_lifted():
    assert "other branch offered" not in moving("nvidia-open", held=("nvidia-open",))
    assert "held" not in moving("nvidia-open", held=("nvidia-open",))


HELD = ("libnvidia-compute-570", "nvidia-driver-570-open")


@pytest.mark.parametrize("held", [(), HELD])
def test_hold_in_the_way_of_another_branch_comes_before_its_commands(held):
    """GoogleCloudDataproc/initialization-actions pull 1323: all packages of the driver are held."""
    there = tuple(
        DriverPackage(name, "570.86.15-0ubuntu1", bool(held), "installed") for name in HELD
    )
    driver = {
        "branch": "570",
        "flavour": "open",
        "name": "570-open",
        "packages": there,
        "held": held,
    }
    found = {one.name: one for one in states(host(archives={"origins": ("NVIDIA",)}, **driver))}
    steps = found["outdated branch"].way_out.splitlines()
    assert steps[: len(steps) - 2] == [
        f"when the hold has served: sudo apt-mark unhold {' '.join(held)}"
    ] * bool(held)
    assert "sudo apt-get install" in steps[-2]


def test_pin_that_keeps_the_driver_out_of_another_branch_is_not_said():
    newer = Offer(
        "nvidia-utils-580-server", PACKAGE, PACKAGE, "Ubuntu", "Ubuntu", newest="595.71.05-1"
    )
    assert names(host(archives={"kept_back": (newer,)})) == ["current"]


def test_package_of_others_that_misses_one_can_go_where_it_is_new():
    """What another package has in its way is unpacked again by `-f install`, and fails again."""
    facts = host(half="xserver-xlibre")
    assert states(facts)[0].way_out == REPAIR
    entries = {**facts.packages.entries, "xserver-xlibre": ("25.0-1", "install ok unpacked")}
    needs = defaultdict(tuple, {"xserver-xlibre": ("xserver-xlibre-core",)})
    for is_new in (True, False):
        facts.packages = Packages(
            entries, depends=needs, is_new=defaultdict(lambda new=is_new: new)
        )
        way = states(facts)[0].way_out
        assert way.startswith(
            f"{REPAIR}\nif dpkg ends with the same error, see why: /var/log/apt/term.log"
        )
        assert way.endswith(": sudo apt-get remove xserver-xlibre") is is_new


def test_archive_of_nvidia_that_is_switched_off_is_named():
    (state,) = states(
        host(archives={"origins": (), "without_origin": ("nvidia-open", "nvidia-driver-open")})
    )
    assert state.evidence.startswith(
        "no archive has the installed version of nvidia-open and 1 more: /etc/apt/cuda.list:2"
    )
    assert (
        state.way_out == "take the # away in line 2 of /etc/apt/cuda.list, then sudo apt-get update"
    )


NVIDIA_SOURCE = Placed(
    "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /",
    "/etc/apt/cuda.list",
    1,
)


@pytest.mark.parametrize("generation", ["hopper", "volta"])
def test_archive_of_nvidia_of_which_apt_has_no_list_is_named(generation):
    """github.com/NVIDIA/cuda-repo-management/issues/39: nothing is known then of the branches that
    it has.
    """
    version, undriven = "595.71.05-1ubuntu1", generation == "volta"
    facts = host(
        packages=(DriverPackage("nvidia-driver", version, False, "installed"),), branch="595", name="595", flavour="",
        generations=(generation,), is_open=False, modules=(module(is_open=False, source="dkms"),),
        nvidia={"smi": "refused" if undriven else "answers"},
        archives={"origins": (), "without_origin": ("nvidia-driver",), "lacking": ("cuda-drivers", "cuda-keyring", "nvidia-open", "nvidia-driver-pinning-580", "cuda-drivers-580")},
    )  # fmt: skip
    other = Placed(
        "https://developer.download.nvidia.com/devtools/repos/ubuntu2404/amd64/ /",
        "/etc/apt/a.list",
        1,
    )
    facts.apt.sources = (other, NVIDIA_SOURCE)
    found = {one.name: one for one in states(facts)}
    missing = f"apt has no list of {NVIDIA_SOURCE.value} (/etc/apt/cuda.list:1)"
    update = "sudo apt-get update, and solve what it says of that archive"
    assert (
        found["kept back"].evidence
        == f"no archive has the installed version of nvidia-driver: {missing}"
    )
    key = f"{NVIDIA_SOURCE.value.partition(' ')[0]}cuda-keyring_1.1-1_all.deb"
    steps = found["kept back"].way_out.splitlines()
    assert steps[0] == update
    assert steps[1].endswith(f"sudo wget -P /root {key}")
    assert steps[2:] == [
        "sudo dpkg -i --force-confnew /root/cuda-keyring_1.1-1_all.deb",
        "take out the older line of that archive (/etc/apt/cuda.list:1)",
        "sudo apt-get update",
    ]
    own = replace(NVIDIA_SOURCE, path="/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list")
    facts.apt.sources = (own,)
    own_steps = {one.name: one for one in states(facts)}["kept back"].way_out
    assert "--force-confnew" in own_steps
    assert "take out" not in own_steps
    if undriven:  # no purge for an archive that is not known
        words = found["unsupported GPU"].way_out
        assert words.startswith(f"a branch that does: {missing}: {update}\n")
        assert words.endswith("sudo apt-get update, then look again")


def test_phased_update_is_said_to_be_one():
    phased = replace(offer(), phased=20)
    (state,) = states(host(archives={"updates": (phased,)}))
    assert state.evidence.endswith(
        "phased, to 20% of hosts by now: `apt upgrade` may still leave it out"
    )


def test_states_that_another_rule_reports_name_it():
    rules = {name: states(host(**TABLE[name][0]))[0].rule for name in TABLE}
    assert {name: rule for name, rule in rules.items() if rule} == {
        "module missing for the next kernel": "gpu-next-kernel-modules", "fabric different": "gpu-fabric",
        "fabric down": "gpu-fabric",
    }  # fmt: skip
    assert set(rules.values()) - {""} <= set(builtin_catalog().rules)


@pytest.mark.parametrize(
    ("is_vm", "way"), [(False, "boot the kernel that was installed before"), (True, "MSI-X")]
)
def test_gpu_without_an_interrupt(is_vm, way):
    facts = host(**NOT_LOADED | {"nvidia": {"refused": "interrupt"}})
    facts.host.is_vm = is_vm
    (state,) = states(facts)
    assert "no interrupt for the GPU" in state.evidence
    assert way in state.way_out


def test_every_state_is_in_the_table():
    assert set(TABLE) == set(STATES)


@pytest.mark.parametrize(
    ("changes", "first", "then"),
    [
        ({"half_way": HALF, "loaded_version": "580.95.05"}, "broken packages", "mismatch"),
        ({"loaded_version": "580.95.05", "boot": {"next_kernel": NEXT}, "has_module_for_next_kernel": False},
         "module missing for the next kernel", "mismatch"),
        ({"nvswitches": 4, "archives": {"updates": (offer(),)}}, "fabric different", "update offered"),
        ({"runfile": True} | MIXED_SOURCES, "runfile", "mixed sources"),
    ],
)  # fmt: skip
def test_what_must_be_solved_first_leads(changes, first, then):
    assert names(host(**changes)) == [first, then]


def test_one_cause_is_said_once():
    missing = NOT_LOADED | {
        "has_module_for_running_kernel": False,
        "modules": (),
        "kernels_with_module": (),
    }
    assert names(host(**missing)) == ["module missing"]
    assert names(
        host(**NOT_LOADED, boot={"secure_boot": True}, modules=(module(source="dkms"),))
    ) == ["Secure Boot refuses"]
    pending = {"reboot_required": True, "reboot_packages": ("libnvidia-compute-580",)}
    assert names(host(loaded_version="580.95.05", boot=pending)) == ["mismatch"]


def test_kernel_log_adds_what_the_table_does_not_know():
    assert names(host(generations=("unknown",), nvidia={"not_for_open": True})) == ["wrong flavour"]
    assert names(
        host(is_open=False, modules=(module(is_open=False),), nvidia={"needs_open": True})
    ) == ["wrong flavour"]
    (state,) = states(host(**NOT_LOADED, nvidia={"rejected_key": True}))
    assert (state.name, "mokutil" in state.way_out) == ("Secure Boot refuses", True)
    (state,) = states(host(nvidia={"legacy_branch": "470"}))
    assert (state.name, '{branch: "470", switch_branch: true}' in state.way_out) == (
        "unsupported GPU",
        True,
    )


@pytest.mark.parametrize(
    ("cloud", "off"),
    [
        ("gcp", "gcloud compute instances update gpu1 --no-shielded-secure-boot"),
        (
            "azure",
            'az vm update --enable-secure-boot false --ids "$(az vm list --query "[?osProfile.computerName==\'gpu1\'].id" --output tsv)"',
        ),
        ("", ""),
    ],
)
def test_machine_of_a_cloud_has_no_firmware_setup_to_switch_secure_boot_off(cloud, off):
    """GoogleCloudDataproc/initialization-actions issue 933."""
    facts = host(**NOT_LOADED, ubuntu=False, nvidia={"rejected_key": True})
    facts.host.cloud, facts.host.hostname = cloud, "gpu1.example"
    way = states(facts)[0].way_out
    assert ("serial console of the cloud" in way) is bool(cloud)
    assert ("a stop empties the local disks of an instance" in way) is bool(cloud)
    assert way.endswith(off or "confirm it at the console")
    facts.host.hostname = "$(reboot)"
    assert "reboot" not in states(facts)[0].way_out


@pytest.mark.parametrize("ubuntu", [True, False])
def test_absent_driver_is_the_only_state(ubuntu):
    (state,) = states(
        host(ubuntu=ubuntu, branch="", name="", loaded_version="", userspace_version="", modules=())
    )
    assert (state.name, state.is_fault) == ("absent", True)
    assert ("non-free-firmware" in state.way_out) is not ubuntu


@pytest.mark.parametrize("here", ["container", "wsl", "vfio"])
def test_driver_that_is_not_this_systems_business_is_no_fault(here):
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
    }
    (state,) = states(host(here=(here,), **nothing))
    assert (state.is_fault, state.way_out) == (False, "")
    assert state.name != "current"


def test_node_whose_operator_has_loaded_no_driver_computes_nothing():
    """NVIDIA/gpu-operator issue 1220: the driver's container fails, and nothing else says so on the
    node.
    """
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
        "packages": (),
    }
    (state,) = states(host(here=("operator",), **nothing))
    assert (state.name, state.is_fault, state.is_dead) == ("driver in a container", True, True)
    assert "kubectl -n gpu-operator logs -c nvidia-driver-ctr" in state.way_out


def test_nouveau_that_holds_the_gpu_of_a_driver_container_is_named_first():
    """kubernetes-sigs/image-builder issue 1468: the container's module cannot have a GPU that
    nouveau holds.
    """
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
    }
    nouveau = GpuHolder("nouveau", ("nouveau",), ("0000:00:1e.0",), False, "", False)
    reserved = GpuHolder("pci-stub", (), ("0000:00:1f.0",), True, "", False)
    (state,) = states(host(here=("operator",), **nothing, holders=(reserved, nouveau)))
    assert state.evidence.endswith(
        "; nouveau holds the GPU at 0000:00:1e.0, and nothing keeps it out"
    )
    assert state.way_out.startswith("printf 'blacklist nouveau")
    (state,) = states(host(here=("operator",), **nothing, holders=(reserved,)))
    assert state.way_out.startswith("while the node starts, wait for its driver pod")


def test_driver_of_the_installer_beside_the_operator_is_the_hosts():
    facts = host(here=("operator", "kubelet"), **RUNFILE, **MISSING_MODULE)
    assert names(facts) == ["module missing"]


def test_driver_of_an_unknown_package_beside_the_operator_is_the_hosts():
    """NVIDIA/gpu-operator issue 1923: the .deb of a vGPU manager. Libraries of another version are
    leftovers.
    """
    own = {"branch": "", "name": "", "packages": (), "is_vgpu_manager": True}
    (state,) = states(host(here=("operator", "kubelet"), **own))
    assert (state.name, state.evidence) == (
        "current",
        f"NVIDIA's vGPU manager {VERSION} is installed and loaded",
    )
    (left,) = states(host(here=("operator",), userspace_version="570.211.01", **own))
    assert left.name == "driver in a container"


def test_driver_in_a_container_tells_of_a_gpu_that_is_lost():
    contained = {"branch": "", "name": "", "packages": (), "userspace_version": "", "modules": ()}
    (well,) = states(host(here=("operator",), **contained))
    assert (well.is_fault, well.evidence.endswith(f"({VERSION} is loaded)")) == (False, True)
    (lost,) = states(host(here=("operator",), nvidia={"silent": (FALLEN,)}, **contained))
    assert (lost.name, lost.is_fault) == ("GPU lost", True)


RUNFILE = {"runfile": True, "branch": "", "name": "", "modules": ()}
MISSING_MODULE = {
    "loaded_version": "",
    "has_module_for_running_kernel": False,
    "kernels_with_module": (),
}


@pytest.mark.parametrize(
    ("here", "facts"),
    [
        (
            (),
            {"nvidia": {"is_vgpu": True}} | RUNFILE,
        ),  # Azure's GRID driver comes by NVIDIA's installer
        (
            (),
            {"nvidia": {"is_vgpu": True}, "branch": "535", "name": "535-grid"},
        ),  # in the release of the hypervisor
        ((), {"nvidia": {"is_vgpu": True}, "archives": {"updates": (offer(),)}}),
        (("dgx",), MIXED_SOURCES),
        (("dgx",), {"archives": {"origins": ("Lambda",)}}),
        (("dgx",), RUNFILE),
        (("kubelet",), RUNFILE),  # the image of an AKS node
    ],
)
def test_driver_that_came_in_the_way_of_its_host_is_no_fault(here, facts):
    (state,) = states(host(here=here, **facts))
    assert (state.name, state.is_fault, state.way_out) == ("current", False, "")


@pytest.mark.parametrize(
    ("here", "way"), [("dgx", "docs.nvidia.com/dgx"), ("kubelet", "its image or the GPU Operator")]
)
def test_switch_where_somebody_else_brings_the_driver_names_the_way_there(here, way):
    state = states(host(here=(here,), branch="535", name="535-server"))[0]
    assert state.name == "outdated branch"
    assert way in state.way_out
    assert "switch_branch" not in state.way_out


NOTHING = {"branch": "", "name": "", "loaded_version": "", "userspace_version": "", "modules": ()}


@pytest.mark.parametrize("ubuntu", [True, False])
@pytest.mark.parametrize(
    ("here", "way"),
    [
        (("profile", "azure"), "NVIDIA GPU Driver Extension"),
        (("profile",), "GRID guest driver"),
        (("kubelet",), "bringer: external"),
        (("dgx",), "docs.nvidia.com/dgx"),
    ],
)
def test_absent_driver_that_somebody_else_brings_names_the_way_there(here, way, ubuntu):
    (state,) = states(host(here=here, ubuntu=ubuntu, **NOTHING))
    assert (state.name, state.is_fault) == ("absent", True)
    assert way in state.way_out
    assert "apt-get install nvidia-driver" not in state.way_out


@pytest.mark.parametrize(
    ("holder", "way"),
    [
        (GpuHolder("nouveau", ("nouveau",), ("0000:43:00.0",), False, "", False), "printf 'blacklist nouveau\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf\nsudo update-initramfs"),
        (GpuHolder("nouveau", ("nouveau",), ("0000:43:00.0",), False, "/etc/modprobe.d/a.conf", False), ""),
        (GpuHolder("pci-stub", (), ("0000:43:00.0",), True, "", False), ""),
    ],
)  # fmt: skip
def test_gpu_is_freed_before_a_container_brings_the_driver(holder, way):
    """github.com/kubernetes-sigs/image-builder/issues/1468."""
    (state,) = states(host(here=("kubelet",), holders=(holder,), **NOTHING))
    assert ("free the GPU first: " in state.way_out) == bool(way)
    assert way in state.way_out


def test_update_that_brought_its_module_with_a_new_kernel_is_mended_by_a_reboot():
    modules = (module(version="580.95.05"), module(NEXT))
    facts = host(loaded_version="580.95.05", modules=modules, boot={"next_kernel": NEXT})
    assert names(facts) == ["mismatch"]
    old = host(
        loaded_version="580.95.05",
        modules=(module(), module(NEXT, version="580.95.05")),
        boot={"next_kernel": NEXT},
    )
    assert names(old) == ["stale module"]
    assert f"linux-modules-nvidia-580-server-open-{NEXT}" in states(old)[0].way_out


def test_empty_step_of_a_headless_host_names_the_same_packages_of_the_real_branch():
    """nvidia-driver-N would bring X libraries, and DKMS."""
    (state,) = states(host(transitional=("nvidia-headless-no-dkms-570-server-open",)))
    assert "install nvidia-headless-no-dkms-580-server-open &&" in state.way_out


def test_libraries_of_a_package_that_is_there_are_brought_back_by_installing_it_again():
    """apt-get install does nothing about a package that is installed."""
    gone = {"userspace_version": "", "nvidia": {"smi": "absent"}}
    (state,) = states(
        host(
            **gone,
            names=("linux-modules-nvidia-580-server-open-generic", "libnvidia-compute-580-server"),
        )
    )
    assert state.way_out == "sudo apt-get install --reinstall libnvidia-compute-580-server"
    (state,) = states(host(**gone))
    assert "--reinstall" not in state.way_out


@pytest.mark.parametrize(
    ("there", "library"),
    [
        ("nvidia-kernel-common", "libnvidia-compute"),
        ("nvidia-kernel-common-580", "libnvidia-compute-580"),
    ],
)
def test_libraries_of_nvidias_archive_come_from_there(there, library):
    gone = {
        "userspace_version": "",
        "nvidia": {"smi": "absent"},
        "archives": {"origins": ("NVIDIA",)},
    }
    (state,) = states(host(**gone, packages=packages(there)))
    assert state.way_out == f"sudo apt-get install {library}"


def test_module_that_the_running_kernel_gets_is_loaded_then():
    missing = NOT_LOADED | {
        "has_module_for_running_kernel": False,
        "modules": (),
        "kernels_with_module": (),
    }
    (state,) = states(host(**missing))
    assert state.way_out.endswith("\nsudo modprobe nvidia")
    (state,) = states(
        host(**missing | {"branch": "", "name": "", "runfile": True}, boot={"next_kernel": ""})
    )[:1]
    assert "modprobe" not in state.way_out


def test_compiled_modules_are_compiled_where_one_is_missing():
    debian = {"ubuntu": False, "names": ("nvidia-kernel-dkms",), "name": "580", "flavour": ""}
    missing = NOT_LOADED | {
        "has_module_for_running_kernel": False,
        "modules": (),
        "kernels_with_module": (),
    }
    (state,) = states(host(**debian, **missing))
    assert f"dkms autoinstall -k {KERNEL}" in state.way_out
    (state,) = states(host(**debian | {"branch": "535", "name": "535"}))
    assert (state.name, "policy" in state.way_out) == ("outdated branch", False)


def test_refusal_of_nvidia_smi_is_said_once_and_not_guessed():
    refused = {"smi": "refused", "refusal": "mismatch", "problem": "nvidia-smi: version mismatch"}
    assert names(host(loaded_version="580.95.05", nvidia=refused)) == ["mismatch"]
    lost = {"smi": "refused", "refusal": "gpu lost", "problem": "nvidia-smi: GPU is lost"}
    assert names(host(nvidia=lost)) == ["GPU lost"]
    hidden = {
        "smi": "refused",
        "refusal": "no permission",
        "problem": "nvidia-smi: Insufficient Permissions",
    }
    assert names(host(nvidia=hidden)) == ["not known: nvidia-smi refuses"]


def test_xid_79_is_claimed_where_the_kernel_log_has_it_alone():
    said = {
        silent.sign: states(host(nvidia={"silent": (silent,)}))[0] for silent in (FALLEN, LEFT_OUT)
    }
    assert "(Xid 79)" in said["log"].evidence
    assert "Xid" not in said["left out"].evidence + said["left out"].way_out
    assert "drain -q -p 0000:43:00.0" in said["left out"].way_out
    both = states(host(nvidia={"silent": (FALLEN, LEFT_OUT)}))[0].evidence
    assert both == f"the GPU at 0000:1b:00.0 {FALLEN.why}; the GPU at 0000:43:00.0 {LEFT_OUT.why}"
    two = states(host(nvidia={"silent": (FALLEN, SilentGpu("0000:43:00.0", FALLEN.why, "log"))}))[
        0
    ].evidence
    assert two == "2 GPUs, 0000:1b:00.0, 0000:43:00.0: each has fallen off the bus (Xid 79)"


def test_gpu_that_asks_for_a_reset_gets_no_other_way():
    asks = SilentGpu("0000:43:00.0", "does not answer nvidia-smi: [GPU requires reset]", "smi")
    assert "nvidia-smi -r -i 0000:43:00.0" in states(host(nvidia={"silent": (asks,)}))[0].way_out


def test_gpu_that_prints_errors_only_is_not_called_broken_hardware():
    """pytorch/test-infra pull request 3967; gpustack/runtime pull request 26: after Xid 119 a reset
    comes first.
    """
    words = "does not answer nvidia-smi: [Unknown Error]"
    (state,) = states(host(nvidia={"silent": (SilentGpu("0000:43:00.0", words, "smi"),)}))
    assert (state.name, "it is hardware" in state.way_out) == ("GPU lost", False)
    assert "reboot" in state.way_out
    after = SilentGpu("0000:43:00.0", f"{words}, after Xid 119", "smi", asks_reset=True)
    (state,) = states(host(nvidia={"silent": (after,)}))
    assert "nvidia-smi -r -i 0000:43:00.0" in state.way_out
    gone = SilentGpu("0000:43:00.0", "does not answer nvidia-smi: [GPU is lost]", "smi")
    assert states(host(nvidia={"silent": (gone,)}))[0].way_out.startswith("it is hardware")


def test_closed_module_on_grace_hopper_is_the_wrong_one_for_both_rules():
    closed = {
        "is_open": False,
        "flavour": "server",
        "name": "580-server",
        "here": ("grace",),
        "modules": (module(is_open=False),),
    }
    (state,) = states(host(**closed))
    assert (state.name, "Grace Hopper needs the open one" in state.evidence) == (
        "wrong flavour",
        True,
    )
    assert names(host(**closed | {"here": ()})) == ["current"]  # an H100 takes either


def test_fabric_manager_beside_a_driver_of_no_known_version_is_asked_for_without_one():
    found = states(host(nvswitches=4, userspace_version="", loaded_version=""))
    (state,) = (one for one in found if one.name == "fabric different")
    assert state.way_out == "sudo apt-get install nvidia-fabricmanager-580 libnvidia-nscq-580"


def test_gpu_that_this_driver_does_not_drive_is_not_called_lost():
    volta = {"generations": ("hopper", "volta"), "undriven": ("0000:43:00.0",)}
    assert names(host(nvidia={"silent": (LEFT_OUT,)}, **volta)) == ["wrong flavour"]
    assert names(host(nvidia={"silent": (FALLEN,)}, **volta)) == ["GPU lost", "wrong flavour"]


def test_gpu_of_which_it_is_not_known_whether_it_answers_is_not_well():
    hidden = SilentGpu(
        "0000:43:00.0", "nvidia-smi may not open the GPU at 0000:43:00.0", "not known"
    )
    assert names(host(nvidia={"silent": (hidden,)})) == ["not known: GPU lost"]
    assert names(host(nvidia={"silent": (FALLEN, hidden)})) == ["GPU lost"]


def test_nvidia_modprobe_that_is_not_setuid_is_not_installed_anew():
    facts = host(lacks_uvm=True, has_plain_modprobe=True, here=("cdi",))
    (state,) = states(facts)
    assert (state.name, "is not setuid root" in state.evidence) == ("CUDA device missing", True)
    assert "apt-get install" not in state.way_out
    assert "chmod u+s /usr/bin/nvidia-modprobe" in state.way_out


def test_nvidia_smi_that_hangs_is_a_fault():
    hangs = {"smi": "hangs", "problem": "nvidia-smi did not end within 30 s"}
    (state,) = states(host(nvidia=hangs))
    assert (state.name, state.is_fault) == ("nvidia-smi refuses", True)
    assert state.evidence.startswith(
        "nvidia-smi did not end within 30 s: a GPU or the driver hangs"
    )


HANGS = {"smi": "hangs", "problem": "nvidia-smi did not end within 30 s"}


def test_task_of_the_driver_that_is_blocked_proves_that_it_is_not_slow():
    """NVIDIA/nvidia-persistenced issue 15: what hangs holds up the shutdown, too."""
    others = HungTask("python (4711)", "rpc_wait_bit_killable")
    (state,) = states(host(nvidia=HANGS, hung=(others,)))
    assert "time nvidia-smi" in state.way_out
    (state,) = states(
        host(nvidia=HANGS, hung=(others, HungTask("nvidia-smi (12)", "os_acquire_rwlock_write")))
    )
    assert state.evidence.endswith("the driver hangs, and the kernel calls nvidia-smi (12) blocked")
    assert "time nvidia-smi" not in state.way_out
    assert state.way_out.endswith("if the shutdown does not end, power the host off and on")


@pytest.mark.parametrize(
    ("loses_links", "here", "is_named"),
    [(True, ("long",), True), (True, (), False), (False, ("long",), False)],
)
def test_known_hang_is_named_by_its_lines_and_its_uptime(loses_links, here, is_named):
    """NVIDIA/open-gpu-kernel-modules issue 971; the same lines come with other faults of NVLink."""
    (state,) = states(host(nvidia=HANGS | {"loses_links": loses_links}, here=here))
    assert ("issues/971" in state.evidence) is is_named
    assert ("before 66 days are over" in state.way_out) is is_named


@frozen
class Silent(Fact):
    """The driver's own words, which this user may not read."""

    silent: tuple[SilentGpu, ...]
    all_lost: str
    wants_reset: bool
    is_vgpu: bool
    needs_open: bool
    not_for_open: bool
    legacy_branch: str
    rejected_key: bool
    smi: str
    refusal: str
    gpus: tuple[object, ...]


def test_evidence_that_cannot_be_read_is_unknown_and_the_rest_is_told():
    facts = host(loaded_version="580.95.05")
    facts.nvidia = Silent(*[make_unread("needs root")] * 11)
    found = states(facts)
    assert [one.name for one in found] == [
        "mismatch",
        "not known: GPU lost, nvidia-smi refuses, nvidia-smi missing",
    ]
    assert found[1].way_out == ""
    with pytest.raises(UnknownFact, match="needs root"):
        assert found[1].is_fault


@pytest.mark.parametrize(
    ("changes", "is_dead"),
    [
        ({}, False),
        ({"nvidia": {"smi": "refused"}}, True),
        ({"nvidia": {"silent": (LEFT_OUT,)}}, True),
        ({"undriven": ("0000:43:00.0",)}, True),
    ],
)
def test_wrong_flavour_is_a_fault_of_the_machine_unless_every_gpu_answers(changes, is_dead):
    found = {one.name: one for one in states(host(generations=("hopper", "volta"), **changes))}
    assert found["wrong flavour"].is_dead is is_dead


def test_wrong_flavour_is_not_known_where_it_is_not_known_whether_the_gpus_answer():
    facts = host(generations=("hopper", "volta"))
    facts.nvidia = Silent(*[make_unread("needs root")] * 11)
    assert names(facts) == [
        "not known: GPU lost, wrong flavour, nvidia-smi refuses, nvidia-smi missing"
    ]


@pytest.mark.parametrize(
    ("here", "is_open", "generation", "install"),
    [
        (("nvidia-driver-580-open", "nvidia-dkms-580-open"), True, "volta",
         "nvidia-dkms-580={0} nvidia-driver-580={0} nvidia-dkms-580-open-"),
        (("nvidia-driver", "nvidia-kernel-dkms"), False, "blackwell", "nvidia-kernel-open-dkms={0} nvidia-kernel-dkms-"),
    ],
)  # fmt: skip
def test_other_kind_of_module_in_nvidias_archive_is_the_same_version(
    here, is_open, generation, install
):
    version = "580.126.20-1ubuntu1"
    there = tuple(DriverPackage(one, version, False, "installed") for one in sorted(here))
    found = states(
        host(packages=there, archives={"origins": ("NVIDIA",)}, generations=(generation,), is_open=is_open,
             flavour="open" if is_open else "", name="580", modules=(module(is_open=is_open, source="dkms"),), names=here,
             nvidia={"smi": "refused"})
    )  # fmt: skip
    (state,) = [one for one in found if one.name == "wrong flavour"]
    assert f"sudo apt-get install {install.format(version)}\n" in state.way_out


@pytest.mark.parametrize(
    ("here", "lacking", "install"),
    [
        (
            "nvidia-kernel-dkms",
            ("nvidia-open",),
            "nvidia-kernel-open-dkms={0} nvidia-kernel-dkms-\n",
        ),
        ("nvidia-dkms", (), "nvidia-driver-pinning-590 && sudo apt-get install nvidia-open\ndrain"),
        ("nvidia-kernel-dkms", ("nvidia-open", "nvidia-kernel-open-dkms"), ""),
    ],
)
def test_ended_branch_of_the_right_kind_is_better_than_a_module_that_drives_nothing(
    here, lacking, install
):
    """github.com/metal-stack/metal-images/issues/399; 590 is in no matrix any more."""
    version = "590.48.01-1"
    others = [
        f"{name}-{number}"
        for name in ("nvidia-driver-pinning", "nvidia-open")
        for number in (580, 595)
    ]
    found = states(
        host(packages=(DriverPackage(here, version, False, "installed"),), generations=("blackwell",), is_open=False,
             archives={"origins": ("NVIDIA",), "lacking": (*others, "nvidia-open-590", *lacking)}, branch="590", flavour="",
             modules=(module(is_open=False, source="dkms"),), names=(here,), nvidia={"smi": "refused"})
    )  # fmt: skip
    way = next(one.way_out for one in found if one.name == "wrong flavour")
    if install:
        assert f"sudo apt-get install {install.format(version)}" in way
    else:
        assert way == (
            "the open kernel module: apt has none of branch 595 or 580 or 590 from NVIDIA's archive: "
            "sudo apt-get update, and look again"
        )


def test_probe_that_was_refused_is_mended_by_no_reboot():
    facts = host(**NOT_LOADED, nvidia={"refused": "release"})
    assert names(facts) == ["GPU refused"]
    assert not states(facts)[0].waits_for_reboot
    facts.host.is_vm = True
    assert "ask who runs the host of this virtual machine" in states(facts)[0].way_out
    assert names(
        host(**NOT_LOADED, nvidia={"refused": "other", "is_vgpu": True, "smi": "not asked"})
    ) == ["vGPU guest"]


def test_nvidia_smi_of_a_branch_that_is_over_comes_with_the_next_branch():
    """elementary/settings-system issue 302: archives have no package of 525 any more."""
    old = {
        "branch": "525",
        "name": "525",
        "userspace_version": "525.78.01",
        "loaded_version": "525.78.01",
    }
    facts = host(**old, nvidia={"smi": "absent"})
    facts.archives.lacking = ("nvidia-utils-525-server",)
    found = {one.name: one.way_out for one in states(facts)}
    assert found["nvidia-smi missing"].endswith("any more: what solves `outdated branch` brings it")
    assert "outdated branch" in found


def test_installer_whose_driver_does_not_drive_the_gpu_is_not_loaded_by_modprobe():
    here = {"runfile": True, "branch": "", "name": "", "generations": ("pascal",)}
    facts = host(**NOT_LOADED, **here, nvidia={"legacy_branch": "580", "refused": "legacy"})
    assert names(facts) == ["unsupported GPU", "runfile"]
    assert "branch 580 or older" in states(facts)[0].way_out


def test_newer_version_of_the_branch_leads_where_the_build_failed():
    here = {
        "packages": packages("nvidia-dkms-580-server-open"), "names": ("nvidia-dkms-580-server-open",),
        "archives": {"origins": ("NVIDIA",), "updates": (offer("nvidia-dkms-580-server-open"),)},
        "dkms": (DkmsBuild("nvidia", VERSION, NEXT, is_installed=False, failed=True),),
        "boot": {"next_kernel": NEXT}, "has_module_for_next_kernel": False,
    }  # fmt: skip
    found = states(host(**here))
    assert "580.142 of the same branch is offered" in found[0].way_out
    assert "update offered" not in [one.name for one in found]


def test_tool_of_another_branch_is_no_update_within_the_branch():
    assert names(host(archives={"updates": (offer("nvidia-modprobe", "610.57.04-1ubuntu1"),)})) == [
        "current"
    ]


def test_gpus_that_all_fail_in_one_way_speak_against_no_board():
    facts = host(
        failures=tuple(
            GspFailure(f"000{n}:01:00.0", "not set up", "", "", 0, "(0x62)") for n in (1, 2)
        )
    )
    facts.gpus.devices = (SimpleNamespace(device_id=""),) * 2
    assert "(VBIOS) of the boards" in states(facts)[0].way_out


def test_vgpu_that_its_driver_does_not_set_up_needs_the_driver_of_its_hypervisor():
    failed = (GspFailure("0000:43:00.0", "not set up", "", "", 0, "(0x22)"),)
    assert names(host(failures=failed, nvidia={"is_vgpu": True, "smi": "refused"})) == [
        "vGPU guest"
    ]


@pytest.mark.parametrize(
    ("file", "undo"),
    [
        (
            "/lib/modprobe.d/blacklist-nvidia.conf",
            "sudo cp /lib/modprobe.d/blacklist-nvidia.conf /etc/modprobe.d/blacklist-nvidia.conf, which is read in its place",
        ),
        (
            "/etc/modprobe.d/blacklist-nvidia.conf",
            "take it out of /etc/modprobe.d/blacklist-nvidia.conf",
        ),
    ],
)
def test_module_that_a_file_keeps_out_is_not_brought_by_a_boot(file, undo):
    (state,) = states(host(**NOT_LOADED, kept_out={"nvidia": file}))
    assert (state.name, state.boot) == ("not loaded", BootOutlook.USELESS)
    assert f"{file} keeps the module nvidia from being loaded" in state.evidence
    assert state.way_out.startswith(f"leave it, if that is meant; else {undo}")
    prime = host(**NOT_LOADED, kept_out={"nvidia": file})
    prime.packages.entries["nvidia-prime"] = ("1", "install ok installed")
    assert states(prime)[0].way_out.startswith("sudo prime-select nvidia\n")


def test_module_of_another_maker_that_stops_the_packages_of_a_kernel_is_named():
    """Its own package is whole: the script of the kernel runs DKMS, and ends with its error."""
    kernel = "linux-headers-6.8.0-71-generic"
    failed = (DkmsBuild("v4l2loopback", "0.12.7", NEXT, is_installed=False, failed=True),)
    facts = host(half=kernel, failed_others=failed, boot={"next_kernel": KERNEL})
    (state,) = states(facts)
    assert state.name == "other packages broken"
    assert (
        "could not build v4l2loopback 0.12.7 (/var/lib/dkms/v4l2loopback/0.12.7/build/make.log)"
        in state.evidence
    )
    assert "bring a newer version of v4l2loopback in the way it came" in state.way_out
    packaged = host(half=kernel, failed_others=failed, names=("v4l2loopback-dkms",))
    way = states(packaged)[0].way_out
    assert (
        "or do without it, on all kernels: sudo apt-get remove v4l2loopback-dkms\nsudo dpkg --configure -a"
        in way
    )
    other = (replace(failed[0], kernel="6.8.0-99-generic"),)
    assert "could not build" not in states(host(half=kernel, failed_others=other))[0].evidence


def test_module_that_the_kernel_command_line_keeps_out_is_not_brought_by_a_boot():
    word = "module_blacklist=nvidia,nouveau"
    (state,) = states(host(**NOT_LOADED, words=("ro", word)))
    assert (state.name, state.boot) == ("not loaded", BootOutlook.USELESS)
    assert (
        f"{word} on the kernel command line keeps the module nvidia from being loaded"
        in state.evidence
    )
    assert f"take {word} out of GRUB_CMDLINE_LINUX" in state.way_out
    assert "\nsudo update-grub\n" in state.way_out
    for other in ("module_blacklist=nouveau", "nouveau.modeset=0", "nvidia_drm.modeset=1"):
        assert "keeps the module" not in states(host(**NOT_LOADED, words=(other,)))[0].evidence


def test_module_that_the_kernel_does_not_take_is_installed_again():
    facts = host(**NOT_LOADED, nvidia={"misfit": ("version magic", "6.8.0-59-generic")})
    (state,) = states(facts)
    assert (state.name, state.boot, state.waits_for_reboot) == (
        "not loaded",
        BootOutlook.USELESS,
        False,
    )
    assert f"it was built for another kernel than {KERNEL}" in state.evidence
    first, load = state.way_out.splitlines()
    assert first.startswith(
        "sudo apt-get install --reinstall linux-modules-nvidia-580-server-open-"
    )
    assert load == "sudo modprobe nvidia"
    assert "did not take" not in " ".join(one.evidence for one in states(host()))


def test_module_of_the_gpu_operator_that_secure_boot_refuses_is_a_fault():
    operator = {"here": ("operator",), "branch": "", "name": "", "loaded_version": ""}
    (state,) = states(host(**operator, nvidia={"rejected_key": True}))
    assert (state.name, state.is_fault, state.is_dead) == ("Secure Boot refuses", True, True)
    assert "without Secure Boot" in state.way_out
    (state,) = states(host(**operator))
    assert state.name == "driver in a container"


@pytest.mark.parametrize(
    ("ubuntu", "key"),
    [(True, "/var/lib/shim-signed/mok/MOK.der"), (False, "/var/lib/dkms/mok.pub")],
)
def test_key_to_enrol_is_that_of_the_distribution(ubuntu, key):
    (state,) = states(host(**NOT_LOADED, ubuntu=ubuntu, nvidia={"rejected_key": True}))
    assert f"sudo mokutil --import {key}" in state.way_out


def test_driver_of_no_known_package_is_one():
    """A cloud's vGPU driver (nvidia-vgpu-kmod) that lost its module: Debian's would not drive the
    GPU.
    """
    build = DkmsBuild("nvidia", "535.161.07", NEXT, is_installed=True, failed=False)
    lost = {
        "branch": "",
        "name": "",
        "packages": (),
        "loaded_version": "",
        "modules": (),
        "has_module_for_running_kernel": False,
        "kernels_with_module": (NEXT,),
    }
    (state,) = states(host(**lost, dkms=(build,), ubuntu=False))
    assert state.name == "module missing"
    assert state.evidence.startswith("a driver that no known package brought is installed")
    assert f"linux-headers-{KERNEL}\nsudo dkms autoinstall -k {KERNEL}" in state.way_out
    (gone,) = states(host(**lost | {"userspace_version": ""}, ubuntu=False))
    assert gone.name == "absent"


BUILT = DkmsBuild("nvidia", "580.126.20", "6.17.4-2-pve", is_installed=True, failed=False)
BY_RUNFILE = {"runfile": True, "branch": "", "name": "", "packages": ()}


def test_vgpu_manager_is_not_replaced_by_the_plain_driver():
    assert names(host(**BY_RUNFILE, is_vgpu_manager=True)) == ["current"]
    (state,) = states(host(**BY_RUNFILE, is_vgpu_manager=True))
    assert "vGPU manager 580.126.20" in state.evidence
    old = {
        "generations": ("pascal",),
        "nvidia": {"legacy_branch": "580", "refused": "legacy"},
        "is_vgpu_manager": True,
    }
    said = states(host(**NOT_LOADED, **BY_RUNFILE, **old))[0].way_out
    assert "a vGPU manager that still shares this GPU" in said
    assert "branch 580" not in said
    closed = {
        "generations": ("blackwell",),
        "is_open": False,
        "is_vgpu_manager": True,
        "modules": (),
    }
    assert "nvidia-uninstall" not in states(host(**BY_RUNFILE, **closed))[0].way_out


@pytest.mark.parametrize(
    ("ubuntu", "then"),
    [(True, "sudo hosttune apply --yes --only gpu-driver"), (False, "the driver of your distribution, or of NVIDIA's archive")],
)  # fmt: skip
def test_runfile_gives_way_to_packages_by_commands_that_this_system_has(ubuntu, then):
    (state,) = states(host(**BY_RUNFILE, ubuntu=ubuntu))
    assert state.way_out.startswith(
        "at the next maintenance, sudo nvidia-uninstall\ndrain the host and reboot\n"
    )
    assert state.way_out.endswith(then)


@pytest.mark.parametrize(
    ("generation", "is_open", "dkms", "words"),
    [
        ("blackwell", False, (), "-m=kernel-open"),
        ("blackwell", False, (DkmsBuild("nvidia", VERSION, KERNEL, is_installed=True, failed=False),), "-m=kernel-open --dkms"),
        ("volta", True, (), "-m=kernel"),
    ],
)  # fmt: skip
def test_installer_has_the_other_kind_of_module(generation, is_open, dkms, words):
    facts = host(**BY_RUNFILE, modules=(), generations=(generation,), is_open=is_open, dkms=dkms)
    facts.nvidia.smi = "refused"
    found = {one.name: one.way_out for one in states(facts)}
    installer = f"/root/NVIDIA-Linux-x86_64-{VERSION}.run"  # in no folder of a user, where that user's file has the name
    fetch = f"download it from NVIDIA to {installer}, where only root can write"
    assert found["wrong flavour"].startswith(
        f"{fetch}\nsudo sh {installer} {words}\ndrain the host"
    )
    # A module that takes no GPU leaves the kernel again: the one on the disk shows the kind.
    facts = host(
        **BY_RUNFILE | NOT_LOADED, modules=(module(is_open=is_open),), generations=(generation,), dkms=dkms,
        nvidia={"refused": "open" if is_open else "closed", "smi": "refused", "problem": "nvidia-smi: no driver"},
    )  # fmt: skip
    later = {one.name: one.way_out for one in states(facts)}
    assert later["wrong flavour"] == found["wrong flavour"]
    assert not {"GPU refused", "nvidia-smi refuses"} & set(later)


def test_libraries_of_apt_beside_a_runfile_are_named():
    theirs = packages(**{"libnvidia-compute": "595.45.04-1ubuntu1"})
    other = SimpleNamespace(
        kernel=KERNEL,
        path="kernel/drivers/video/nvidia.ko",
        source="other",
        version=VERSION,
        is_open=True,
    )
    state = states(
        host(**BY_RUNFILE | {"packages": theirs}, modules=(other,), userspace_version="595.45.04")
    )[0]
    assert state.name == "stale module"
    assert "595.45.04 of libnvidia-compute, which apt put beside" in state.evidence
    assert state.way_out.startswith("sudo apt-get remove libnvidia-compute\nsudo ldconfig")


def test_kernel_without_headers_in_any_list_is_left_for_one_with_a_module():
    missing = NOT_LOADED | {
        "has_module_for_running_kernel": False,
        "modules": (),
        "kernels_with_module": (NEXT,),
    }
    debian = {"ubuntu": False, "names": ("nvidia-kernel-dkms",), "name": "580", "flavour": ""}
    facts = host(**missing, **debian)
    facts.archives.lacking = (f"linux-headers-{KERNEL}", "linux-image-generic")
    (state,) = states(facts)
    assert (
        state.way_out
        == f"no list of apt has linux-headers-{KERNEL}: boot {NEXT}, which has a module"
    )


def test_build_that_failed_before_a_driver_was_there_is_named():
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
    }
    build = DkmsBuild("nvidia", "535.230.02", KERNEL, is_installed=False, failed=True)
    for dkms, is_named in (((build,), True), ((), False)):
        (state,) = states(host(**nothing, ubuntu=False, dkms=dkms))
        assert (build.log in state.evidence) is is_named
        assert ("a newer release of branch 535" in state.way_out) is is_named
        assert "non-free-firmware" in state.way_out


@pytest.mark.parametrize(
    ("error", "kernel", "wanted"),
    [
        ("Unable to load the kernel module 'nvidia-vgpu-vfio.ko'", "6.17.13-2-pve", ("a vGPU manager of a release",)),
        ("Unable to find the development tool `cc`", "6.17.13-2-pve", ("run that installer again\nor give the GPU", "proxmox-default-headers")),
        ("Unable to find the development tool `cc`", KERNEL, ("run that installer again\nor install the driver that your",)),
        ("", "6.17.13-2-pve", ("give the GPU to virtual machines",)),
    ],
)  # fmt: skip
def test_installer_of_nvidia_that_failed_is_named(error, kernel, wanted):
    """anomixer/proxmox-vgpu-installer issue 21. Debian's packages know no headers of Proxmox'
    kernels.
    """
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
    }
    facts = host(**nothing, ubuntu=False, installer_error=error)
    facts.kernel.release = kernel
    (state,) = states(facts)
    assert bool(error) == ("NVIDIA's installer failed here" in state.evidence)
    assert all(words in state.way_out for words in wanted)


def test_pin_that_keeps_fabric_manager_away_is_named_with_it():
    facts = host(nvswitches=4, here=())
    facts.packaging = Packaging({}, "")
    facts.apt.pins = (
        Pin(("*fabricmanager*",), "release *", -1, "/etc/apt/preferences.d/fabric", 1),
    )
    found = {one.name: one.way_out for one in states(facts)}["fabric different"]
    assert found.startswith(
        "/etc/apt/preferences.d/fabric:1 keeps nvidia-fabricmanager-580 from being installed"
    )
    assert (
        "edit /etc/apt/preferences.d/fabric (line 1)\nsudo apt-get install 'nvidia-fabricmanager-580="
        in found
    )


@pytest.mark.parametrize(
    ("generations", "says"),
    [
        (("volta",), "branch 580 is the last one that drives Volta GPUs, supported until 2028-06"),
        (
            ("hopper", "volta"),
            "branch 580 is the last one that drives Volta GPUs, supported until 2028-06",
        ),
        (("hopper",), ""),
        (("kepler",), ""),  # the last one for it is over
        (("unknown",), ""),
    ],
)
def test_last_branch_of_a_generation_is_named(generations, says):
    rows, as_of, good_until = own_table()
    facts = SimpleNamespace(
        branches=Branches(rows, as_of, good_until, {}),
        gpus=SimpleNamespace(generations=generations),
        packaging=SimpleNamespace(of=lambda _: (), packages={}),
        reader=SimpleNamespace(now=lambda: 1_795_000_000.0),  # November 2026
    )
    assert describe_last(facts) == says


@pytest.mark.parametrize(
    ("dkms", "way"), [((), "run that installer again with --dkms"), ((BUILT,), None)]
)  # fmt: skip
def test_installer_on_proxmox_ve_is_no_trouble(dkms, way):
    """psalias2006/gpu-hot issue 48. Debian's packages know no headers of those kernels."""
    facts = host(**BY_RUNFILE, ubuntu=False, dkms=dkms)
    facts.kernel.release = "6.17.4-2-pve"
    found = {one.name: one.way_out for one in states(facts)}
    assert "nvidia-uninstall" not in str(found)
    assert ("runfile" in found) is bool(way)
    assert way is None or way in found["runfile"]


def test_module_that_holds_data_is_never_advised_away():
    """A root or pools on ZFS are gone with its package, for the running kernel, too."""
    failed = tuple(
        DkmsBuild(name, "2.2.2", NEXT, is_installed=False, failed=True)
        for name in ("zfs", "v4l2loopback")
    )
    facts = host(
        half="linux-headers-6.8.0-71-generic",
        failed_others=failed,
        boot={"next_kernel": KERNEL},
        names=("zfs-dkms",),
    )
    way = states(facts)[0].way_out
    assert "remove" not in way
    assert (
        "keep zfs-dkms, and boot the kernels that have its module, until a newer version builds"
        in way
    )
    assert "bring a newer version of v4l2loopback in the way it came" in way
