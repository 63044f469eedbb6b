"""What to type where the kernel of the next boot has no nvidia module."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from hosttune.choices.next_kernel import choose, prebuilt_instead, suggest_replacement
from hosttune.facts.gpu.build_log import FULL, BuildError
from hosttune.facts.gpu.driver import DriverPackage, is_driver_package
from hosttune.facts.gpu.driver_modules import DkmsBuild, DriverModule
from hosttune.facts.gpu.packaging import Packaging
from hosttune.facts.packages import Packages
from tests.unit.driver_machine import NOW, GivenArchives, tables


def host(
    next_kernel,
    packages,
    kernels=(),
    with_module=(),
    branch="580",
    runfile=False,
    origins=(),
    dkms=(),
    modules=(),
    ubuntu=True,
    updates=(),
    lacking=(),
    half=(),
    vgpu_manager=False,
    installer_build=None,
):
    of_driver = [
        (name, "580.126.20-1")
        for name in (*packages, *(("nvidia-kernel-common",) if origins else ()))
        if is_driver_package(name)
    ]
    return SimpleNamespace(
        driver=SimpleNamespace(packages=[DriverPackage(name, version, False, "installed") for name, version in of_driver],
            has_module_for_next_kernel=next_kernel in with_module, kernels_with_module=with_module, branch=branch,
            name="580-server-open" if branch else "", runfile=runfile, dkms=dkms, flavour="server-open",
            module_for=lambda kernel: next((one for one in modules if one.kernel == kernel), None), userspace_version="580.126.20", dkms_orphans=(),
            half_way="", held=(), is_loaded=False, is_mismatched=False, is_foreign=False, is_vgpu_manager=vgpu_manager,
            installer_build=installer_build or BuildError(), loaded_version="",
        ),
        managers=SimpleNamespace(kubelet=False), boot_room=SimpleNamespace(is_full=False), nvidia=SimpleNamespace(is_vgpu=False), branches=tables(), reader=SimpleNamespace(now=lambda: NOW), packaging=Packaging({}, "not in this record"),
        archives=GivenArchives(origins=origins, packages_there=of_driver, updates=updates, lacking=lacking), os=SimpleNamespace(is_ubuntu=ubuntu),
        boot=SimpleNamespace(next_kernel=next_kernel, kernels=(next_kernel, *kernels)), kernel=SimpleNamespace(release=RUNNING, architecture="x86_64"), host=SimpleNamespace(cloud=""), sysctl_at_boot=defaultdict(lambda: SimpleNamespace(is_set=False)),
        packages=Packages(dict.fromkeys(packages, ("1", "install ok installed")) | dict.fromkeys(half, ("1", "install ok half-configured"))),
    )  # fmt: skip


MODULES = "linux-modules-nvidia-580-server-open"
RUNNING = "6.8.0-45-generic"
FIND = r"-regex '.*/nvidia\(-uvm\|-modeset\|-drm\|-peermem\)?\.ko\(\.[a-z0-9]+\)?'"


@pytest.mark.parametrize(
    ("kernel", "packages", "commands"),
    [
        ("6.8.0-62-generic", (f"{MODULES}-generic", "linux-image-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic {MODULES}-generic"),
        ("6.14.0-9-generic", (f"{MODULES}-x", "linux-image-generic-hwe-24.04", "linux-image-6.14.0-9-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.14.0-9-generic {MODULES}-generic-hwe-24.04"),
        ("6.8.0-1010-nvidia-64k", (f"{MODULES}-x",),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-1010-nvidia-64k"),
        ("6.8.0-62-generic", ("nvidia-dkms-580-server-open",),
         "sudo apt-get install linux-headers-6.8.0-62-generic && sudo dkms autoinstall -k 6.8.0-62-generic"),
        ("6.8.0-62-generic", ("nvidia-dkms-580-server-open", "linux-objects-nvidia-580-server-open-6.8.0-60-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic"),
        ("6.1.0-35-amd64", ("nvidia-kernel-dkms",),
         "sudo apt-get install linux-headers-6.1.0-35-amd64 && sudo dkms autoinstall -k 6.1.0-35-amd64"),
        ("6.18.44", (f"{MODULES}-x",), "compile it here: sudo apt-get install nvidia-dkms-580-server-open linux-headers-6.18.44"),
    ],
)  # fmt: skip
def test_missing_module_names_the_packages_that_bring_it(kernel, packages, commands):
    assert choose(host(kernel, packages), {}).commands == commands


OTHER = "6.8.0-60-generic"
LACKING = [f"{MODULES}-6.8.0-62-generic", "linux-headers-6.8.0-62-generic"]


@pytest.mark.parametrize(
    ("packages", "lacking", "more", "commands"),
    [
        ((f"{MODULES}-x", "linux-image-6.8.0-62-generic", "linux-headers-6.8.0-62-generic"), LACKING, {"kernels": (OTHER,), "with_module": (OTHER,)},
         f"no list of apt has {MODULES}-6.8.0-62-generic: let {OTHER} boot, which has one, and remove 6.8.0-62-generic until there is a module for it: sudo apt-get remove linux-headers-6.8.0-62-generic linux-image-6.8.0-62-generic"),
        ((f"{MODULES}-x",), LACKING[:1], {}, f"no list of apt has {MODULES}-6.8.0-62-generic: compile it here: sudo apt-get install nvidia-dkms-580-server-open linux-headers-6.8.0-62-generic"),
        ((f"{MODULES}-x",), [*LACKING, "nvidia-dkms-580-server-open"], {}, f"no list of apt has {MODULES}-6.8.0-62-generic: sudo apt-get update, and look again, or boot another kernel"),
        ((f"{MODULES}-x", "linux-image-generic"), [f"{MODULES}-generic"], {}, f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic"),
        ((f"{MODULES}-x",), None, {}, f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic (if apt has {MODULES}-6.8.0-62-generic, which is not known here)"),
        (("nvidia-dkms-580-server-open",), LACKING, {},
         "no list of apt has linux-headers-6.8.0-62-generic: sudo apt-get update && sudo apt-get install linux-image-generic linux-headers-generic, and boot that kernel"),
    ],
    ids=["another kernel", "compiled", "nothing", "no metapackage", "not known", "no headers"],
)  # fmt: skip
def test_what_apt_lacks_is_not_named_as_a_way_out(packages, lacking, more, commands):
    assert (
        choose(host("6.8.0-62-generic", packages, lacking=lacking, **more), {}).commands == commands
    )


def test_headers_that_apt_lacks_are_not_needed_for_a_prebuilt_module():
    facts = host("6.8.0-62-generic", ("nvidia-dkms-580-server-open",), lacking=LACKING[1:])
    assert choose(facts, {}).commands == f"sudo apt-get update && sudo apt-get install {LACKING[0]}"


def test_runfile_names_no_package():
    for runfile in (True, False):
        said = choose(host("6.8.0-62-generic", (), branch="", runfile=runfile), {}).commands
        assert "boot" not in said
        assert ("--dkms --kernel-name=6.8.0-62-generic" in said) is runfile


def test_another_kernel_is_named_where_it_can_be_booted_and_helps():
    old, wrong = (
        "6.8.0-60-generic",
        DriverModule(NEXT, "updates/nvidia.ko", "other", "580.95.05", is_open=True),
    )
    said = choose(host(NEXT, (), (old,), (old,), branch="", runfile=True), {}).commands
    assert (
        f"--kernel-name={NEXT} (where that does not build, NVIDIA's installer of a newer version"
        in said
    )
    assert said.endswith(f", or boot {old}, which has one")
    assert "boot" not in choose(host(NEXT, (), (), (old,), branch="", runfile=True), {}).commands
    right = DriverModule(old, "updates/nvidia.ko", "other", "580.126.20", is_open=True)
    for modules, is_named in (((wrong, right), True), ((wrong,), False)):
        facts = host(NEXT, (), (old,), (old,), branch="", runfile=True, modules=modules)
        assert (f"or boot {old}" in suggest_replacement(facts, wrong)) is is_named


@pytest.mark.parametrize(
    ("kernel", "headers"),
    [
        ("7.1.3-4-liquorix-amd64", "linux-headers-7.1.3-4-liquorix-amd64"),
        ("6.17.4-2-pve", "proxmox-headers-6.17.4-2-pve"),
        ("6.8.0-x64v3-xanmod1", "linux-headers-6.8.0-x64v3-xanmod1"),
    ],
)
def test_kernel_that_is_not_ubuntus_gets_no_modules_of_ubuntus(kernel, headers):
    said = choose(host(kernel, ("nvidia-dkms-580-open",)), {}).commands
    assert "linux-modules-nvidia" not in said
    assert said.startswith(f"sudo apt-get install {headers} && sudo dkms autoinstall -k {kernel}")


def test_kernels_that_would_do_are_those_that_can_be_booted():
    found = choose(
        host(
            "6.8.0-62-generic", (), ("6.8.0-60-generic",), ("6.8.0-60-generic", "6.8.0-50-generic")
        ),
        {},
    )
    assert found.others == ("6.8.0-60-generic",)


@pytest.mark.parametrize(
    ("packages", "lacking", "headers"),
    [
        (("linux-image-amd64",), (), " linux-headers-amd64"),
        (("linux-image-amd64", "linux-headers-amd64"), (), ""),
        (("linux-image-amd64",), ("linux-headers-amd64",), ""),
        (("linux-image-amd64",), None, ""),
        ((), (), ""),
    ],
)
def test_headers_of_later_kernels_come_with_those_of_this_one(packages, lacking, headers):
    """github.com/GoogleCloudPlatform/compute-gpu-installation/issues/25: it came again with the
    next kernel.
    """
    kernel = "6.12.57+deb13-amd64"
    found = choose(
        host(kernel, ("nvidia-kernel-dkms", *packages), ubuntu=False, lacking=lacking), {}
    ).commands
    assert found.startswith(
        f"sudo apt-get install linux-headers-{kernel}{headers} && sudo dkms autoinstall -k {kernel}"
    )


def test_module_that_is_there_needs_nothing():
    assert (
        choose(host("6.8.0-62-generic", (), with_module=("6.8.0-62-generic",)), {}).commands == ""
    )


NEXT = "6.8.0-62-generic"
BUILD = f"sudo apt-get install linux-headers-{NEXT} && sudo dkms autoinstall -k {NEXT}"
FAILED = DkmsBuild("nvidia-srv-open", "580.126.20", NEXT, is_installed=False, failed=True)
MEND = f"fix what {FAILED.log} names\n{BUILD}"


@pytest.mark.parametrize(
    ("more", "commands"),
    [
        ({"packages": ("nvidia-dkms-580-open",), "origins": ("NVIDIA",)}, BUILD),
        ({"packages": (), "origins": ("NVIDIA",)}, f"sudo apt-get install linux-headers-{NEXT} nvidia-dkms-580-open"),
        ({"packages": (), "origins": ("NVIDIA",), "branch": "595"}, f"sudo apt-get install linux-headers-{NEXT} nvidia-dkms-open"),
        ({"packages": ("nvidia-dkms-580-open",), "origins": ("NVIDIA",), "dkms": (FAILED,)}, MEND),
        ({"packages": ("nvidia-kernel-dkms",), "ubuntu": False, "dkms": (FAILED,)}, MEND),
        ({"packages": ("nvidia-dkms-580-server-open", "linux-image-generic"), "dkms": (FAILED,)},
         f"sudo apt-get update && sudo apt-get install {MODULES}-{NEXT} {MODULES}-{RUNNING} {MODULES}-generic nvidia-dkms-580-server-open-\nif apt has none: {MEND.replace(' &&', ' linux-headers-generic &&')}"),
        ({"packages": (f"{MODULES}-x",), "dkms": (FAILED,)}, f"sudo apt-get update && sudo apt-get install {MODULES}-{NEXT}"),
    ],
    ids=["NVIDIA's archive", "its packages in part", "its names from 590 on", "its build failed", "Debian's failed", "Ubuntu's failed", "a leftover of DKMS"],
)  # fmt: skip
def test_what_is_compiled_here_is_compiled_again_unless_that_failed_and_ubuntu_has_it_ready(
    more, commands
):
    assert choose(host(NEXT, **more), {}).commands == commands


@pytest.mark.parametrize(
    ("path", "version", "more", "way"),
    [
        ("kernel/nvidia-580srv-open/nvidia.ko", "580.95.05", {"packages": (f"{MODULES}-x",)}, f"sudo apt-get install --reinstall {MODULES}-{NEXT}"),
        ("updates/dkms/nvidia.ko", "580.95.05", {"packages": ("nvidia-dkms-580-open",)}, f"sudo dkms autoinstall -k {NEXT}"),
        ("updates/dkms/nvidia.ko", "580.126.20", {"packages": ("nvidia-dkms-580-open",)}, "sudo apt-get install --reinstall nvidia-dkms-580-open"),
        ("updates/dkms/nvidia.ko", "580.95.05", {"packages": (f"{MODULES}-x",), "dkms": (DkmsBuild("nvidia", "580.95.05", NEXT, is_installed=True, failed=False),)},
         f"sudo dkms remove nvidia/580.95.05 -k {NEXT}\nsudo apt-get install --reinstall {MODULES}-{NEXT}"),
        ("updates/nvidia.ko", "580.95.05", {"packages": (f"{MODULES}-x",)},
         f"sudo mkdir -p /root/nvidia-modules-{NEXT} && sudo find /lib/modules/{NEXT}/updates {FIND} -exec mv -t /root/nvidia-modules-{NEXT} {{}} +\nsudo apt-get install --reinstall {MODULES}-{NEXT}\nsudo depmod {NEXT}"),
        ("kernel/drivers/video/nvidia.ko", "590.48.01", {"packages": (f"{MODULES}-{NEXT}",), "runfile": True},
         f"sudo nvidia-uninstall\nsudo apt-get install --reinstall {MODULES}-{NEXT}\nsudo depmod {NEXT}\nsudo ldconfig"),
        ("kernel/drivers/video/nvidia.ko", "590.48.01", {"packages": ("nvidia-dkms-580-open",), "runfile": True},
         f"sudo nvidia-uninstall\nsudo dkms autoinstall -k {NEXT}\nsudo depmod {NEXT}\nsudo ldconfig"),
    ],
    ids=["prebuilt", "compiled in an old version", "compiled of the other kind", "left by DKMS before the prebuilt one", "nobody's", "an installer's over prebuilt ones", "an installer's over compiled ones"],
)  # fmt: skip
def test_module_of_another_version_or_kind_gives_way_to_that_of_the_packages(
    path, version, more, way
):
    source = "dkms" if "dkms" in path else "prebuilt" if "580srv" in path else "other"
    assert (
        suggest_replacement(
            host(NEXT, **more), DriverModule(NEXT, path, source, version, is_open=True)
        )
        == way
    )


def test_prebuilt_module_comes_into_use_where_the_compiled_one_goes():
    found = prebuilt_instead(host(NEXT, ("nvidia-dkms-580-server-open",)), NEXT)
    assert (
        found
        == f"sudo apt-get update && sudo apt-get install {MODULES}-{NEXT} {MODULES}-{RUNNING} {MODULES}-generic nvidia-dkms-580-server-open-"
    )
    assert prebuilt_instead(host(NEXT, ("nvidia-dkms-580-open",), origins=("NVIDIA",)), NEXT) == ""


HEADERS = f"linux-headers-{NEXT}"
GONE = DkmsBuild("nvidia", "580.126.20", RUNNING, is_installed=True, failed=False, has_source=False)
REINSTALL = "sudo apt-get install --reinstall nvidia-dkms-580-open nvidia-kernel-source-580-open"
OF_NVIDIA = {
    "packages": ("nvidia-dkms-580-open", "nvidia-kernel-source-580-open"),
    "origins": ("NVIDIA",),
}


@pytest.mark.parametrize(
    ("more", "commands"),
    [
        ({"packages": ("nvidia-dkms-580-open", HEADERS)}, f"sudo dkms autoinstall -k {NEXT}"),
        ({"packages": ("nvidia-dkms-580-open", HEADERS), "lacking": (HEADERS,)}, f"sudo dkms autoinstall -k {NEXT}"),
        ({"packages": ("nvidia-dkms-580-open",), "half": (HEADERS,)}, f"sudo dkms autoinstall -k {NEXT}"),
        ({"packages": (HEADERS,)}, "sudo apt-get install nvidia-dkms-580-open"),
        ({**OF_NVIDIA, "dkms": (GONE,), "half": (HEADERS,)}, f"{REINSTALL} (what DKMS compiles is gone from /usr/src)"),
        ({**OF_NVIDIA, "dkms": (GONE,)},
         f"sudo apt-get install {HEADERS} && {REINSTALL} (what DKMS compiles is gone from /usr/src)"),
    ],
    ids=["here", "here and in no list", "half-way", "here and no package compiles", "no source", "no source and no headers"],
)  # fmt: skip
def test_build_asks_for_no_headers_that_are_here_and_for_the_source_that_is_gone(more, commands):
    assert choose(host(NEXT, **{"origins": ("NVIDIA",)} | more), {}).commands == commands


def test_stale_module_is_built_of_the_source_that_is_gone_only_after_that_is_here():
    old = DriverModule(RUNNING, "updates/dkms/nvidia.ko", "dkms", "580.95.05", is_open=True)
    assert suggest_replacement(host(NEXT, **OF_NVIDIA, dkms=(GONE,)), old) == REINSTALL


@pytest.mark.parametrize(
    ("is_open", "name"), [(True, "nvidia-dkms-580-open"), (False, "nvidia-dkms-580")]
)
def test_module_that_was_built_by_hand_gives_way_to_a_package_that_compiles(is_open, name):
    """tinygrad/open-gpu-kernel-modules issue 32: `dkms autoinstall` builds nothing if DKMS knows no
    source.
    """
    module = DriverModule(
        RUNNING, "kernel/drivers/video/nvidia.ko", "other", "580.95.05", is_open=is_open
    )
    facts = host(NEXT, packages=(f"linux-headers-{RUNNING}",), origins=("NVIDIA",))
    facts.driver.flavour = ""
    assert suggest_replacement(facts, module) == f"sudo apt-get install {name}"


NO_FILE = BuildError("fatal error: os-interface.h: No such file or directory")


@pytest.mark.parametrize(
    ("build", "kernel", "way"),
    [
        (NO_FILE, RUNNING, ("NVIDIA's installer of a newer version (nvidia.com/drivers), with --dkms, as the last run of the installer "
         "failed (/var/log/nvidia-installer.log: fatal error: os-interface.h: No such file or directory)")),
        (BuildError("No space left on device", FULL), RUNNING, "make room where it is missing: df -h /var /tmp\nrun the installer that brought"),
        (NO_FILE, NEXT, "run the installer that brought the driver again"),
        (BuildError(), RUNNING, "run the installer that brought the driver again"),
    ],
    ids=["the driver", "this host", "another kernel", "it did not fail"],
)  # fmt: skip
def test_installer_whose_last_run_failed_is_not_only_run_again(build, kernel, way):
    """anomixer/proxmox-vgpu-installer issue 7: the same release fails at the same file."""
    headers = f"linux-headers-{kernel}"
    assert choose(
        host(kernel, (headers,), branch="", runfile=True, installer_build=build), {}
    ).commands.startswith(way)


def test_build_of_an_installer_that_failed_is_not_repeated():
    old, log = "6.8.0-60-generic", "/var/lib/dkms/nvidia/580.126.20/build/make.log"
    builds = (
        DkmsBuild("nvidia", "580.126.20", old, is_installed=True, failed=False),
        DkmsBuild("nvidia", "580.126.20", NEXT, is_installed=False, failed=True),
    )
    here = {"kernels": (old,), "with_module": (old,), "branch": "", "runfile": True, "dkms": builds}
    said = choose(host(NEXT, (HEADERS,), **here), {}).commands
    assert said.startswith(
        f"boot {old}, which has a module\nor NVIDIA's installer of a newer version"
    )
    assert said.endswith(f"or fix what {log} names\nsudo dkms autoinstall -k {NEXT}")
    shared = choose(host(NEXT, (HEADERS,), **here, vgpu_manager=True), {}).commands
    assert "NVIDIA's installer" not in shared
