"""The installed and the loaded NVIDIA driver."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.driver import (
    INSTALLER_LOG,
    NVIDIA_MODPROBE,
    branch_and_flavour,
    find_transitional,
    is_driver_package,
    library_version,
    parse_loaded,
)
from hosttune.facts.gpu.driver_modules import make_modinfo
from hosttune.host.door import Stat
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

CLOSED = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
OPEN = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder@U22)  Tue Sep 23
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
RELEASE = "6.8.0-45-generic"
SERVER_OPEN = [
    "nvidia-headless-no-dkms-580-server-open",
    "nvidia-kernel-common-580-server",
    "nvidia-utils-580-server",
    "nvidia-compute-utils-580-server",
    "linux-modules-nvidia-580-server-open-generic",
    f"linux-modules-nvidia-580-server-open-{RELEASE}",
    "libnvidia-compute-580-server",
]


def status(*names, version="580.95.05-0ubuntu1", state="install ok installed"):
    return "".join(
        f"Package: {name}\nStatus: {state}\nArchitecture: amd64\nVersion: {version}\n\n"
        for name in names
    )


def reader(files=None, *, packages=(), links=None, **more):
    every = {
        "/proc/sys/kernel/osrelease": RELEASE + "\n",
        "/sys/module/ext4/refcnt": "1",
        "/sys/bus/pci/rescan": "",
        f"/lib/modules/{RELEASE}/modules.dep": "kernel/fs/xfs.ko:\n",
        "/var/lib/dpkg/status": status("dpkg", *packages),
    }
    every |= files or {}
    every = {path: content for path, content in every.items() if content is not None}
    return FakeReader(every, links=links or {}, folders=["/sys/bus/pci/devices"], **more)


def driver_of(files=None, **more):
    return Facts(reader(files, **more)).driver


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CLOSED, ("535.183.01", False)),
        (OPEN, ("580.95.05", True)),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  595.84  Release Build\n",
            ("595.84", True),
        ),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.57.02  Tue\n", ("470.57.02", False)),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  610.43.02", ("610.43.02", True)),
        ("", ("", False)),
        ("something else 1.2.3\n", ("", False)),
    ],
)
def test_parse_loaded_reads_both_formats(text, found):
    assert parse_loaded(text) == found


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05", "580.95.05"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.595.84", "595.84"),
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", ""),
    ],
)
def test_library_version(path, version):
    assert library_version(path) == version


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SERVER_OPEN, ("580", "server-open")),
        (
            [
                "nvidia-headless-no-dkms-580-server",
                "nvidia-utils-580-server",
                "linux-modules-nvidia-580-server-aws",
            ],
            ("580", "server"),
        ),
        (["nvidia-driver-535", "nvidia-kernel-common-535", "nvidia-dkms-535"], ("535", "")),
        (
            [
                "nvidia-driver-570-open",
                "nvidia-kernel-common-570",
                "linux-modules-nvidia-570-open-generic",
            ],
            ("570", "open"),
        ),
        # the name of a step to another branch is not the branch
        (
            [
                "nvidia-driver-570",
                "nvidia-driver-580",
                "nvidia-kernel-common-580",
                "nvidia-dkms-580",
            ],
            ("580", ""),
        ),
        # an empty step to the open one is no sign of the closed one
        (
            [
                "nvidia-driver-615",
                "nvidia-driver-615-open",
                "nvidia-dkms-615-open",
                "nvidia-utils-615",
            ],
            ("615", "open"),
        ),
        (
            [
                "nvidia-headless-no-dkms-615-server",
                "nvidia-headless-no-dkms-615-server-open",
                "nvidia-utils-615-server",
            ],
            ("615", "server-open"),
        ),
        (["nvidia-driver-570-open", "nvidia-driver-580-open", "nvidia-utils-580"], ("580", "open")),
        (["libnvidia-compute-580"], ("", "")),
        ([], ("", "")),
        (["nvidia-utils-99", "nvidia-utils-580"], ("580", "")),
    ],
)
def test_branch_and_flavour_by_ubuntu_names(names, expected):
    assert branch_and_flavour((name, "1") for name in names) == expected


MIXED = ["nvidia-headless-no-dkms-580", "nvidia-utils-580", "linux-modules-nvidia-580-open-generic"]


@pytest.mark.parametrize(("is_open", "flavour"), [(True, "open"), (False, ""), (None, "")])
def test_of_both_kinds_the_module_decides(is_open, flavour):
    assert branch_and_flavour([(name, "1") for name in MIXED], is_open) == ("580", flavour)
    assert branch_and_flavour([(name, "1") for name in SERVER_OPEN], is_open) == (
        "580",
        "server-open",
    )


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        (
            {"nvidia-driver": "535.183.01-1~deb12u1", "nvidia-kernel-dkms": "535.183.01-1~deb12u1"},
            ("535", ""),
        ),
        ({"nvidia-kernel-open-dkms": "550.163.01-2"}, ("550", "open")),
        (
            {"nvidia-dkms-open": "1:595.58.03-1ubuntu1", "libnvidia-compute": "595.58.03"},
            ("595", "open"),
        ),
        (
            {"nvidia-driver": "550.163.01-1", "nvidia-open-kernel-dkms": "550.163.01-1"},
            ("550", "open"),
        ),
        ({"nvidia-driver": "none"}, ("", "")),
    ],
)
def test_branch_and_flavour_by_version_where_names_have_none(packages, expected):
    assert branch_and_flavour(packages.items()) == expected


@pytest.mark.parametrize(
    ("name", "is_driver"),
    [
        ("nvidia-utils-580", True),
        ("libnvidia-compute-580", True),
        ("linux-modules-nvidia-580-open-generic", True),
        ("nvidia-fabricmanager-580", True),
        ("cuda-drivers", True),
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("nvidia-cuda-toolkit", False),
        ("cuda-toolkit-13", False),
        ("linux-modules-6.8", False),
        ("nvidia-fs-dkms", False),
        ("nvidia-gds-12-8", False),
        ("nvidia-cudnn", False),
        ("libnvidia-ml-dev", False),
        ("nvidia-mlnx-ofed-misc", False),
        ("linux-modules-nvidia-fs-6.8.0-60-generic", False),
        ("libnvidia-fbc1-580", True),
        ("libnvidia-gpucomp-580", True),
        ("nvidia-firmware-580-580.95.05", True),
    ],
)
def test_is_driver_package_leaves_container_tools_out(name, is_driver):
    assert is_driver_package(name) is is_driver


def test_driver_absent():
    driver = driver_of()
    assert (driver.loaded_version, driver.userspace_version, driver.branch, driver.name) == (
        "",
        "",
        "",
        "",
    )
    found = (
        driver.is_present,
        driver.is_installed,
        driver.is_mismatched,
        driver.has_module_for_running_kernel,
    )
    assert found == (False, False, False, False)


def test_driver_healthy_with_everything():
    library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so"
    driver = driver_of(
        {
            "/proc/driver/nvidia/version": OPEN,
            f"{library}.580.95.05": "",
            f"/lib/modules/{RELEASE}/modules.dep": "kernel/nvidia-580srv-open/nvidia.ko:\n",
            "/lib/modules/6.8.0-40-generic/modules.dep": "kernel/x.ko:\n",
        },
        links={f"{library}.1": "libnvidia-ml.so.580.95.05"},
        packages=SERVER_OPEN,
    )
    assert (driver.loaded_version, driver.userspace_version, driver.is_open) == (
        "580.95.05",
        "580.95.05",
        True,
    )
    assert (driver.branch, driver.flavour, driver.name) == ("580", "server-open", "580-server-open")
    assert driver.has_module_for_running_kernel
    assert driver.kernels_with_module == (RELEASE,)
    assert len(driver.packages) == len(SERVER_OPEN)
    assert not driver.is_mismatched
    assert (driver.held, driver.half_way) == ((), "")


def test_driver_mismatch_after_an_upgrade():
    libraries = {"/usr/lib/x86_64-linux-gnu/libcuda.so.580.173.02": ""}
    links = {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "libcuda.so.580.173.02"}
    driver = driver_of({"/proc/driver/nvidia/version": OPEN, **libraries}, links=links)
    assert driver.is_mismatched
    assert driver.is_present
    assert not driver.is_installed


def test_driver_module_only_for_another_kernel():
    driver = driver_of(
        {"/lib/modules/6.8.0-40-generic/modules.dep": "updates/dkms/nvidia.ko.zst:\n"},
        packages=SERVER_OPEN,
    )
    assert not driver.has_module_for_running_kernel
    assert driver.kernels_with_module == ("6.8.0-40-generic",)


@pytest.mark.parametrize(("taint", "is_open"), [("POE", False), ("OE", True), ("", True)])
def test_driver_without_proc_asks_sysfs(taint, is_open):
    driver = driver_of(
        {"/sys/module/nvidia/version": "535.183.01\n", "/sys/module/nvidia/taint": taint + "\n"}
    )
    assert (driver.loaded_version, driver.is_open) == ("535.183.01", is_open)


def test_driver_nouveau_bound():
    slot = "/sys/bus/pci/devices/0000:01:00.0"
    files = {f"{slot}/vendor": "0x10de", f"{slot}/device": "0x2684", f"{slot}/class": "0x030000"}
    assert driver_of(files, links={f"{slot}/driver": "../../nouveau"}).nouveau_bound
    assert not driver_of(files).nouveau_bound


def test_driver_runfile_is_installed_without_packages():
    driver = driver_of({"/usr/bin/nvidia-uninstall": ""})
    assert driver.runfile
    assert driver.is_installed
    assert driver.branch == ""


@pytest.mark.parametrize(
    "path",
    ["/usr/bin/nvidia-vgpu-mgr", "/usr/bin/nvidia-vgpud", "/sys/module/nvidia_vgpu_vfio/refcnt"],
)
def test_driver_that_shares_gpus_among_virtual_machines_is_known_by_its_daemons_and_module(path):
    assert driver_of({path: ""}).is_vgpu_manager
    assert not driver_of({"/usr/bin/nvidia-uninstall": ""}).is_vgpu_manager
    assert not driver_of(
        unreadable={"/usr/bin/nvidia-vgpu-mgr": "not in this record"}
    ).is_vgpu_manager


def test_driver_runfile_that_nobody_could_look_for_is_unknown():
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = driver_of(unreadable={"/usr/bin/nvidia-uninstall": "not in this record"}).runfile


@pytest.mark.parametrize(
    ("loaded", "licence", "is_in_use"),
    [
        (OPEN, "Dual MIT/GPL", True),
        (OPEN, "NVIDIA", False),
        (OPEN, "odd", True),
        ("", "Dual MIT/GPL", False),
    ],
)
def test_driver_is_in_use_with_the_kind_of_module_that_is_installed(loaded, licence, is_in_use):
    """After a switch from the closed to the open module of one version the old one stays loaded
    until the reboot.
    """
    files = {f"/lib/modules/{RELEASE}/modules.dep": "kernel/nvidia-580srv/nvidia.ko:\n"}
    files |= {"/proc/driver/nvidia/version": loaded} if loaded else {}
    shown = {make_modinfo(RELEASE): f"version: 580.95.05\nlicense: {licence}\n"}
    assert driver_of(files, packages=SERVER_OPEN, queries=shown).is_in_use is is_in_use


def test_driver_half_installed_and_held_packages_are_named():
    database = status("dpkg") + status("nvidia-dkms-580", state="install ok half-configured")
    database += status("nvidia-utils-580", state="hold ok installed") + status(
        "nvidia-utils-470", state="deinstall ok config-files"
    )
    driver = driver_of({"/var/lib/dpkg/status": database})
    assert driver.half_way == "dpkg stopped half-way with nvidia-dkms-580 (half-configured)"
    assert driver.held == ("nvidia-utils-580",)
    assert [package.name for package in driver.packages] == ["nvidia-dkms-580", "nvidia-utils-580"]


HALVES = {
    "reinst-required": (
        status("nvidia-utils-580", state="install reinstreq half-installed"),
        "reinst-required",
    ),
    "a trigger of its own": (
        status("libnvidia-compute-580", state="install ok triggers-awaited"),
        "triggers-awaited",
    ),
    "an initramfs that was not built": (
        status("nvidia-utils-580") + status("initramfs-tools", state="install ok triggers-pending"),
        "initramfs-tools (triggers-pending)",
    ),
    "what was to be removed": (
        status("nvidia-utils-580", state="deinstall ok half-configured"),
        "half-configured",
    ),
}


@pytest.mark.parametrize(("database", "words"), HALVES.values(), ids=HALVES.keys())
def test_driver_with_which_dpkg_has_more_to_do_is_half_way(database, words):
    assert words in driver_of({"/var/lib/dpkg/status": status("dpkg") + database}).half_way


def test_driver_is_not_half_way_for_triggers_of_others_and_is_while_dpkg_is_interrupted():
    database = (
        status("dpkg")
        + status("nvidia-utils-580")
        + status("man-db", state="install ok triggers-pending")
    )
    files = {"/var/lib/dpkg/status": database}
    assert driver_of(files).half_way == ""
    assert (
        "or was interrupted"
        in driver_of(files | {"/var/lib/dpkg/updates/0003": status("dpkg")}).half_way
    )


def test_loaded_driver_of_which_only_remains_are_left_is_gone():
    loaded = {"/sys/module/nvidia/version": "580.95.05\n", "/sys/module/nvidia/taint": "OE\n"}
    remains = {"/var/lib/dpkg/status": status("dpkg") + status("libnvidia-compute-580")}
    assert driver_of(loaded | remains).is_gone
    assert not driver_of(remains).is_gone
    assert not driver_of(
        loaded | {"/var/lib/dpkg/status": status("dpkg")}
    ).is_gone  # whoever brought it
    for brings in (
        "nvidia-dkms-580",
        "linux-modules-nvidia-580-6.8.0-45-generic",
        "nvidia-kernel-open-dkms",
    ):
        there = {"/var/lib/dpkg/status": remains["/var/lib/dpkg/status"] + status(brings)}
        assert not driver_of(loaded | there).is_gone


def test_driver_unread_parts_are_unknown_and_the_others_known():
    driver = driver_of({"/var/lib/dpkg/status": Unreadable("not in this record")}, packages=())
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = driver.branch
    assert driver.loaded_version == ""


def test_driver_under_an_alternate_root_knows_packages_alone():
    blind = dict.fromkeys(("/proc", "/sys"), "no kernel runs under --root")
    driver = driver_of(packages=SERVER_OPEN, unreadable=blind, kind="root", persistent_only=True)
    assert driver.name == "580-server-open"
    for field in ("loaded_version", "is_open", "nouveau_bound", "has_module_for_running_kernel"):
        with pytest.raises(UnknownFact, match="--root"):
            getattr(driver, field)


def test_driver_without_modules_dep_does_not_say_that_there_is_no_module():
    driver = driver_of(
        {
            f"/lib/modules/{RELEASE}/modules.dep": None,
            "/lib/modules/6.8.0-40-generic/modules.dep": "",
        }
    )
    assert driver.kernels_with_module == ()
    with pytest.raises(UnknownFact, match=r"modules\.dep does not exist"):
        _ = driver.has_module_for_running_kernel


def test_driver_without_module_folders_is_unknown():
    files = {f"/lib/modules/{RELEASE}/modules.dep": None, f"/boot/vmlinuz-{RELEASE}": ""}
    with pytest.raises(UnknownFact, match="there is no /lib/modules"):
        _ = driver_of(files).has_module_for_running_kernel


def test_driver_fabric_manager_version_is_the_drivers_own_number():
    database = status("dpkg") + status(
        "nvidia-fabricmanager-580", version="580.126.20-0ubuntu0.24.04.1"
    )
    assert driver_of({"/var/lib/dpkg/status": database}).fabricmanager_version == "580.126.20"
    assert driver_of(packages=SERVER_OPEN).fabricmanager_version == ""


def test_driver_persistenced_comes_with_a_package():
    assert driver_of(packages=SERVER_OPEN).persistenced
    assert driver_of(packages=["nvidia-persistenced"]).persistenced
    assert not driver_of(packages=["nvidia-utils-580-server"]).persistenced


@pytest.mark.parametrize(
    ("packages", "empty_steps"),
    [
        ([("nvidia-driver-570", "580.126.09-0ubuntu0.24.04.1"), ("nvidia-utils-580", "580.126.09-1")], ("nvidia-driver-570",)),
        ([("nvidia-driver-580", "580.126.09-1"), ("nvidia-utils-580", "580.126.09-1")], ()),
        ([("nvidia-headless-570-server-open", "1:580.1.2-1")], ("nvidia-headless-570-server-open",)),
        (
            [
                ("linux-modules-nvidia-570-open-generic", "6.8.0-60.63+1"),
                ("linux-modules-nvidia-580-open-6.8.0-60-generic", "6.8.0-60.63+1"),
                ("nvidia-utils-580", "580.126.09-1"),
            ],
            ("linux-modules-nvidia-570-open-generic",),
        ),
        (
            [
                ("linux-modules-nvidia-570-open-generic", "6.8.0-45.45"),
                ("linux-modules-nvidia-570-open-6.8.0-45-generic", "6.8.0-45.45"),
                ("nvidia-utils-580", "580.126.09-1"),
            ],
            (),
        ),
        ([("nvidia-driver", "590.48.01-1"), ("nvidia-fs-dkms", "2.20")], ()),
    ],
)  # fmt: skip
def test_transitional_packages_bring_another_branch_than_their_name_says(packages, empty_steps):
    assert find_transitional(packages) == empty_steps


def test_driver_of_very_many_packages_is_unknown():
    """Each is held against all others; those of a record or an image may be without end."""
    names = [f"linux-modules-nvidia-580-6.8.0-{number}-generic" for number in range(1001)]
    with pytest.raises(UnknownFact, match="more than 1,000 packages of a driver"):
        _ = Facts(reader(packages=names)).driver.packages


FAILED_RUN = """nvidia-installer log file '/var/log/nvidia-installer.log'
Installing NVIDIA driver version 580.105.06.
ERROR: Unable to load the kernel module 'nvidia-vgpu-vfio.ko'.  This happens most frequently when this kernel module was built
ERROR: Installation has failed.  Please see the file '/var/log/nvidia-installer.log' for details.
"""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            FAILED_RUN.replace(
                "Unable to load the kernel module", "The Nouveau kernel driver is in use by X.  It"
            ),
            "The Nouveau kernel driver is in use by X",
        ),
        (FAILED_RUN, "Unable to load the kernel module 'nvidia-vgpu-vfio.ko'"),
        (FAILED_RUN.replace("ERROR: Installation has failed", "Installation is now complete"), ""),
        (None, ""),
    ],
)
def test_error_of_nvidias_installer_counts_where_its_run_failed(log, error):
    """anomixer/proxmox-vgpu-installer issue 21."""
    assert driver_of({INSTALLER_LOG: log} if log else {}).installer_error == error


def test_build_of_nvidias_installer_lacks_the_compiler_of_the_running_kernel():
    """aws/aws-parallelcluster-cookbook pull request 2852: gcc-11 is there, and Ubuntu 22.04's
    kernel 6.8 is gcc-12's.
    """
    log = FAILED_RUN.replace(
        "ERROR: Unable", "cc: error: unrecognized command-line option '-ftrivial'\nERROR: Unable"
    )
    config = {
        f"/boot/config-{RELEASE}": 'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0) 12.3.0"\n'
    }
    assert driver_of({INSTALLER_LOG: log, **config}).installer_build.compiler == "gcc-12"
    assert not driver_of({INSTALLER_LOG: FAILED_RUN, **config}).installer_build.words
    assert not driver_of(
        {INSTALLER_LOG: log.replace("ERROR: Installation", "x"), **config}
    ).installer_build.words


def owned(mode, uid=0):
    return Stat("file", mode, uid, 0, 1, 0, 1, 1, 1)


@pytest.mark.parametrize(
    ("files", "stats", "lacks", "is_plain"),
    [
        ({}, {}, True, False),
        ({NVIDIA_MODPROBE: ""}, {NVIDIA_MODPROBE: owned(0o755)}, True, True),
        ({NVIDIA_MODPROBE: ""}, {NVIDIA_MODPROBE: owned(0o4755, uid=1000)}, True, True),
        ({NVIDIA_MODPROBE: ""}, {NVIDIA_MODPROBE: owned(0o4755)}, False, False),
        (
            {NVIDIA_MODPROBE: "", "/dev/nvidia-uvm": ""},
            {NVIDIA_MODPROBE: owned(0o755)},
            False,
            True,
        ),
    ],
)
def test_device_of_cuda_is_made_for_users_by_a_setuid_nvidia_modprobe(
    files, stats, lacks, is_plain
):
    """nvidia-modprobe(1): it is setuid root, as users can make no device and load no module."""
    driver = driver_of(files, stats=stats)
    assert (driver.lacks_uvm, driver.has_plain_modprobe) == (lacks, is_plain)
