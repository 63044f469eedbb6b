"""Kernel drivers other than NVIDIA's that hold a GPU: who it is, what frees the GPU, and that no
reboot is counted on which would leave it as it is.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.choices.driver_state import before_boot, choose
from hosttune.choices.driver_states.state import BootOutlook
from hosttune.facts import Facts
from hosttune.facts.gpu.gpu_holders import GpuHolder, _is_image_newer, bound_in
from hosttune.facts.kernel.kernel_log import JOURNAL
from hosttune.facts.kernel.module_options import kept_out_in
from hosttune.host.door import Stat
from hosttune.values import ABSENT
from tests.unit.fake_reader import FakeReader
from tests.unit.test_driver_state import NOT_LOADED, TABLE, host, names, states

GPUS = "/sys/bus/pci/devices"
SLOT, OTHER = "0000:10:00.0", "0000:20:00.0"
BOUND = f"NVRM: GPU {SLOT} is already bound to NovaCore.\nNVRM: No NVIDIA devices probed.\n"
PACKAGED = "/usr/lib/modprobe.d/nvidia-graphics-drivers.conf"


def holders_of(*drivers, files=None, log="", links=None):
    """The holders on a host with GPUs that these drivers have; empty for none."""
    slots = (SLOT, OTHER)[: len(drivers)]
    every = {"/sys/module/ext4/refcnt": "1", "/sys/bus/pci/rescan": ""} | (files or {})
    for slot in slots:
        every |= {
            f"{GPUS}/{slot}/{name}": text
            for name, text in (("vendor", "0x10de"), ("device", "0x2204"), ("class", "0x030000"))
        }
    bound = {
        f"{GPUS}/{slot}/driver": f"../../../bus/pci/drivers/{name}"
        for slot, name in zip(slots, drivers, strict=True)
        if name
    }
    door = FakeReader(
        every, folders=[GPUS, "/sys/module"], links=bound | (links or {}), queries={JOURNAL: log}
    )
    return Facts(door).driver.holders


def held(
    name="NovaCore",
    modules=("nova_core", "nova_drm", "nova"),
    *,
    reserving=False,
    kept_out_by="",
    of_log=False,
):
    return GpuHolder(name, modules, (SLOT,), reserving, kept_out_by, of_log)


def on(*holders, **changes):
    return host(**NOT_LOADED | {"holders": holders} | changes)


@pytest.mark.parametrize(
    ("name", "modules", "is_reserving"),
    [
        ("NovaCore", ("nova_core", "nova_drm", "nova"), False), ("nova-core", ("nova_core", "nova_drm", "nova"), False),
        ("nouveau", ("nouveau",), False), ("nvidiafb", ("nvidiafb",), False), ("rivafb", ("rivafb",), False),
        ("pci-stub", (), True), ("xen-pciback", (), True), ("acme-gpu", ("acme_gpu",), False),
    ],
)  # fmt: skip
def test_driver_that_holds_a_gpu_is_named(name, modules, is_reserving):
    (found,) = holders_of(name)
    assert (found.name, found.modules, found.slots, found.is_reserving) == (
        name,
        modules,
        (SLOT,),
        is_reserving,
    )


def test_module_of_a_driver_that_is_not_known_is_the_one_that_sysfs_names():
    (found,) = holders_of(
        "acme", links={"/sys/bus/pci/drivers/acme/module": "../../../../module/acme_drm"}
    )
    assert found.modules == ("acme_drm",)


def test_nvidia_vfio_and_nobody_are_no_holders():
    assert holders_of("nvidia", "") == ()
    assert holders_of("vfio-pci", "nvgrace-gpu-vfio-pci") == ()
    assert [one.slots for one in holders_of("NovaCore", "vfio-pci")] == [(SLOT,)]


def test_log_names_who_had_a_gpu_that_nobody_has_now():
    (found,) = holders_of("", log=BOUND)
    assert (found.name, found.is_of_log) == ("NovaCore", True)
    assert [one.is_of_log for one in holders_of("NovaCore", log=BOUND)] == [False]
    assert holders_of("vfio-pci", log=BOUND) == ()
    assert (
        bound_in(
            [
                *BOUND.splitlines(),
                "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.71.05",
            ]
        )
        == {}
    )
    assert (
        bound_in(
            [f"usb 1-1: Product: {BOUND}", f"NVRM: GPU {SLOT} is already bound to a b; rm -rf /."]
        )
        == {}
    )


@pytest.mark.parametrize(
    ("content", "modules"),
    [
        ("blacklist nova_core\n# blacklist nova-drm\n", ["nova_core"]), ("blacklist nova-core\n", ["nova_core"]),
        ("install nouveau /bin/false\n", ["nouveau"]), ("install nouveau /sbin/modprobe -i nouveau\n", []),
        ("blacklist\noptions nvidia a=b\nalias nova_core off\n", []), ("blacklist \\\nnouveau\n", ["nouveau"]),
    ],
)  # fmt: skip
def test_what_modprobe_d_keeps_out(content, modules):
    assert list(kept_out_in(content)) == modules


@pytest.mark.parametrize(
    ("path", "is_packaged"), [(PACKAGED, True), ("/lib/modprobe.d/nvidia.conf", True), ("/etc/modprobe.d/nova.conf", False)]
)  # fmt: skip
def test_file_that_keeps_a_holder_out_is_named(path, is_packaged):
    (found,) = holders_of("NovaCore", files={path: "blacklist nova_core\n"})
    assert (found.kept_out_by, found.is_packaged) == (path, is_packaged)
    (found,) = holders_of("NovaCore", files={path: "blacklist nouveau\n"})
    assert (found.kept_out_by, found.is_packaged) == ("", False)


@pytest.mark.parametrize(
    "changes", [{}, {"runfile": True, "branch": "", "name": "", "packages": ()}]
)
def test_holder_that_nothing_keeps_out_waits_for_no_reboot(changes):
    facts = on(held(), **changes)
    state = states(facts)[0]
    assert (state.name, state.is_dead, state.waits_for_reboot, state.boot) == (
        "GPU held by another driver", True, False, BootOutlook.USELESS,
    )  # fmt: skip
    assert "not loaded" not in names(facts)
    assert (
        r"printf 'blacklist nova_core\nblacklist nova_drm\nblacklist nova\n' | sudo tee /etc/modprobe.d/"
        in state.way_out
    )
    assert "sudo update-initramfs -u" in state.way_out
    assert state.way_out.index("update-initramfs") < state.way_out.index("reboot")
    assert "modprobe nvidia" not in state.way_out
    assert before_boot(facts).name == state.name


def test_holder_that_a_package_keeps_out_is_gone_after_the_reboot():
    (state,) = states(on(held(kept_out_by=PACKAGED)))
    assert (state.waits_for_reboot, "blacklist" in state.way_out) == (True, False)
    (own,) = states(
        on(held(kept_out_by="/etc/modprobe.d/nova.conf"))
    )  # nobody knows whether the initramfs has it
    assert (
        own.waits_for_reboot,
        own.way_out.index("update-initramfs") < own.way_out.index("reboot"),
    ) == (False, True)


def test_device_that_is_set_aside_is_no_matter_of_blacklists():
    (state,) = states(on(held("pci-stub", (), reserving=True)))
    assert "pci-stub" in state.evidence
    assert "driver_override" in state.way_out
    assert "blacklist" not in state.way_out
    assert names(host(holders=(held("pci-stub", (), reserving=True),))) == [
        "current"
    ]  # beside GPUs that work


def test_holder_beside_gpus_that_work_is_a_fault():
    assert names(host(holders=(held(),))) == ["GPU held by another driver"]


def test_module_that_comes_with_the_next_kernel_does_not_free_the_gpu():
    changes = {
        "has_module_for_running_kernel": False,
        "modules": (),
        "boot": {"next_kernel": "6.8.0-71-generic"},
    }
    facts = on(held(), **changes)
    assert before_boot(facts).boot is BootOutlook.USELESS
    assert before_boot(on(**changes)).boot is BootOutlook.MENDS


def test_nouveau_of_a_host_whose_installer_did_not_keep_it_out():
    runfile = {"runfile": True, "branch": "", "name": "", "packages": (), "nouveau_bound": True}
    (state, _) = states(on(held("nouveau", ("nouveau",)), **runfile))
    assert (state.name, state.waits_for_reboot, "blacklist nouveau" in state.way_out) == (
        "nouveau",
        False,
        True,
    )
    kept = held(
        "nouveau", ("nouveau",), kept_out_by="/etc/modprobe.d/nvidia-installer-disable-nouveau.conf"
    )
    (state, _) = states(on(kept, **runfile))
    assert (state.waits_for_reboot, state.way_out.startswith("sudo update-initramfs")) == (
        False,
        True,
    )
    assert "not known to be in the initial RAM disk" in state.evidence
    assert states(on(replace(kept, is_image_newer=True), **runfile))[0].waits_for_reboot
    assert states(host(**TABLE["nouveau"][0]))[0].waits_for_reboot


@pytest.mark.parametrize(
    ("place", "waits"),
    [
        ("", False), ("/etc/modprobe.d/a.conf", False), (PACKAGED, True),
        ("modprobe.blacklist=nouveau on the kernel command line", True),
    ],
)  # fmt: skip
def test_nouveau_beside_packages_of_the_driver_is_gone_after_a_boot_that_keeps_it_out(place, waits):
    """Their file can be deleted, and one that a person wrote can be missing in the initial RAM
    disk.
    """
    (state,) = states(on(held("nouveau", ("nouveau",), kept_out_by=place), nouveau_bound=True))
    assert (state.name, state.waits_for_reboot) == ("nouveau", waits)
    assert ("printf 'blacklist nouveau" in state.way_out) == (not place)


@pytest.mark.parametrize(("image", "is_newer"), [(2, True), (1, False), (None, False)])
def test_initial_ram_disk_is_compared_with_the_file_that_keeps_a_module_out(image, is_newer):
    file, initrd = "/etc/modprobe.d/a.conf", "/boot/initrd.img-6.8.0-45-generic"
    times = {file: 2} if image is None else {file: 2, initrd: image}
    stats = {path: Stat("file", 0o644, 0, 0, 1, time, 1, 1, 1) for path, time in times.items()}
    reader = SimpleNamespace(stat=lambda path: stats.get(path, ABSENT))
    facts = SimpleNamespace(boot=SimpleNamespace(next_kernel="6.8.0-45-generic"))
    assert _is_image_newer(reader, facts, file) is is_newer
    assert not _is_image_newer(reader, facts, "")


def test_host_without_a_driver_names_who_holds_its_gpu():
    nothing = {
        "branch": "",
        "name": "",
        "loaded_version": "",
        "userspace_version": "",
        "modules": (),
        "packages": (),
    }
    (state,) = choose(on(held(), **nothing), {}).states
    assert (state.name, "(NovaCore holds it" in state.evidence) == ("absent", True)
