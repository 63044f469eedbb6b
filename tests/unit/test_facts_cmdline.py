"""Arguments of the kernel, parameters of the nvidia modules, and the ways of network cards to GPU
memory.
"""

from __future__ import annotations

from time import process_time

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.cmdline import default_of, find_repeated, next_arguments
from hosttune.facts.kernel.module_options import parse_params, same_value
from tests.unit.fake_reader import FakeReader

MENU = (
    "menuentry 'Ubuntu' {\n\tlinux\t/vmlinuz-6.8.0-60-generic root=UUID=0a ro quiet splash $vt_handoff\n}\n"
    "menuentry 'recovery' {\n\tlinux\t/vmlinuz-6.8.0-60-generic root=UUID=0a ro recovery nomodeset\n}\n"
)
LINE = "BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=0a ro quiet splash vt.handoff=7"


def facts_of(line=LINE, files=None, **more):
    every = {
        "/proc/cmdline": f"{line}\n", "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
        "/boot/vmlinuz-6.8.0-60-generic": "", "/boot/grub/grub.cfg": MENU,
        "/boot/config-6.8.0-60-generic": "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n",
    }  # fmt: skip
    return Facts(FakeReader(every | (files or {}), **more))


def test_cmdline_as_the_menu_has_it_nothing_waits():
    cmdline = facts_of().cmdline
    assert (cmdline.added, cmdline.removed, cmdline.contradictions, cmdline.harmful) == (
        (),
        (),
        (),
        (),
    )
    assert (cmdline.zeroes_on_alloc, cmdline.zeroes_on_free) == (True, False)
    assert cmdline.nvme_timeout_s == -1


def test_cmdline_other_arguments_wait_for_the_next_boot():
    cmdline = facts_of(f"{LINE} iommu=pt".replace(" splash", "")).cmdline
    assert (cmdline.added, cmdline.removed) == (("splash",), ("iommu=pt",))


def test_cmdline_argument_beats_what_the_kernel_was_built_with():
    assert not facts_of(f"{LINE} init_on_alloc=0").cmdline.zeroes_on_alloc


def test_cmdline_without_configuration_file_is_unknown():
    with pytest.raises(UnknownFact, match="does not exist"):
        _ = facts_of(
            files={"/boot/config-6.8.0-60-generic": ""},
            unreadable={"/boot/config-6.8.0-60-generic": "does not exist"},
        ).cmdline.zeroes_on_alloc


def test_cmdline_what_stands_behind_two_dashes_is_for_init():
    assert facts_of(f"{LINE} -- isolcpus=3").cmdline.harmful == ()


def test_repeated_same_value_twice_and_lists_are_no_contradiction():
    line = (
        "quiet",
        "iommu=pt",
        "iommu=pt",
        "console=tty0",
        "console=ttyS0",
        "nvme.x=1",
        "nvme.x=2",
        "panic=1",
        "panic=2",
    )
    assert find_repeated(line) == ("panic=1, later panic=2",)


def test_next_arguments_of_a_kernel_that_is_not_there():
    assert next_arguments(MENU, "6.14.0-1-generic") is None


def test_default_of_an_option_that_is_not_set():
    assert default_of("CONFIG_A=y\n", "CONFIG_A")
    assert not default_of("# CONFIG_A is not set\n", "CONFIG_A")


@pytest.mark.parametrize(
    ("spelled", "live", "same"),
    [
        ("1", "1", True), ("0x1", "1", True), ("0660", "432", True), ("1", "Y", True), ("-1", "4294967295", True),
        ("0", "1", False), ('"driver"', "driver", True), ("driver", "numa", False), ("08", "8", False),
    ],
)  # fmt: skip
def test_same_value_as_the_kernel_reads_it(spelled, live, same):
    assert same_value(spelled, live) is same


def test_options_in_only_nvidia_modules_comments_and_joined_lines():
    text = "# options nvidia A=1\noptions nvidia A=1 \\\n  B=2 # note\noptions nvidia-uvm c=1\noptions snd d=1\nblacklist nvidia\n"
    found = Facts(FakeReader({"/etc/modprobe.d/a.conf": text})).parameters.options
    assert [(one.module, one.key, one.value) for one in found] == [
        ("nvidia", "A", "1"), ("nvidia", "B", "2"), ("nvidia_uvm", "c", "1"),
    ]  # fmt: skip


def test_parse_params_texts_lose_their_quotes():
    assert parse_params('EnableMSI: 1\nRegistryDwords: "a;b"\n') == {
        "EnableMSI": "1",
        "RegistryDwords": "a;b",
    }


def test_parameters_file_in_etc_hides_the_one_of_the_same_name():
    files = {
        "/proc/driver/nvidia/params": "EnableMSI: 1\nRmProfilingAdminOnly: 0\n",
        "/etc/modprobe.d/nvidia.conf": "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n",
        "/usr/lib/modprobe.d/nvidia.conf": "options nvidia NVreg_EnableMSI=0\n",
    }
    parameters = facts_of(files=files).parameters
    assert (parameters.not_in_force, parameters.overruled) == ((), ())
    assert not parameters.profiling_for_admins_only
    with pytest.raises(UnknownFact, match="does not name"):
        _ = parameters.gpu_firmware


def test_peermem_module_named_for_boot_and_in_the_kernel():
    files = {
        "/sys/class/infiniband/mlx5_0/node_type": "1: CA\n",
        "/etc/modules-load.d/x.conf": "# gpu\nnvidia-peermem\n",
        "/lib/modules/6.8.0-60-generic/modules.dep": "kernel/nvidia-580/nvidia-peermem.ko.zst: kernel/nvidia.ko.zst\n",
    }
    links = {"/sys/class/infiniband/mlx5_0/device/driver": "../../drivers/mlx5_core"}
    peermem = facts_of(files=files, links=links).peermem
    assert peermem.mellanox == ("mlx5_0",)
    assert (peermem.at_boot, peermem.is_available) == ("/etc/modules-load.d/x.conf", True)
    assert not peermem.is_loaded


@pytest.mark.parametrize(
    ("dep", "builtin", "lacking"),
    [
        (
            "kernel/drivers/infiniband/core/ib_umad.ko.zst: kernel/drivers/infiniband/core/ib_core.ko.zst\n",
            "",
            ("mlx5_ib",),
        ),
        (
            "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko:\n",
            "kernel/drivers/infiniband/core/ib_umad.ko\n",
            (),
        ),
        ("kernel/fs/xfs/xfs.ko:\n", "kernel/fs/ext4/ext4.ko\n", ("mlx5_ib", "ib_umad")),
    ],
)
def test_modules_of_infiniband_that_the_kernel_has_no_file_of(dep, builtin, lacking):
    """NVIDIA/gpu-operator issue 2781: an image without linux-modules-extra."""
    folder = "/lib/modules/6.8.0-60-generic"
    files = {f"{folder}/modules.dep": dep, f"{folder}/modules.builtin": builtin}
    assert facts_of(files=files).peermem.lacks_files == lacking
    with pytest.raises(UnknownFact):
        _ = facts_of(files={f"{folder}/modules.dep": dep}).peermem.lacks_files


def test_time_of_a_long_line_grows_no_faster_than_the_line():
    """In a record it may have a megabyte: with each argument compared to each it took minutes."""
    line = " ".join(f"isolcpus=0-{number}" for number in range(60_000))
    start = process_time()
    cmdline = facts_of(f"{LINE} {line}").cmdline
    assert len(cmdline.contradictions) == 1
    assert len(cmdline.removed) == 60_000
    assert process_time() - start < 5


def test_words_for_process_1_are_no_arguments_of_the_kernel():
    """The kernel hands on what is behind `--` (kernel-parameters.txt)."""
    line = "ro quiet -- sysctl.vm.swappiness=5 nvidia.x=1 iommu=off mitigations=off transparent_hugepage=never"
    facts = Facts(FakeReader({"/proc/cmdline": f"{line}\n"}, folders=["/etc/sysctl.d"]))
    assert facts.sysctl_at_boot["vm.swappiness"].settings == ()
    assert facts.module_options["nvidia.x"].arguments == ()
    assert facts.vulnerabilities.switched_off == facts.iommu.arguments == ()
    assert facts.hugepages.boot_mode == ""


def test_word_in_quotes_is_part_of_its_argument():
    line = 'dyndbg="file a sysctl.vm.swappiness=7 +p" ro'
    facts = Facts(FakeReader({"/proc/cmdline": f"{line}\n"}, folders=["/etc/sysctl.d"]))
    assert facts.sysctl_at_boot["vm.swappiness"].settings == ()
