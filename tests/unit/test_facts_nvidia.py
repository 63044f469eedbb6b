"""What nvidia-smi and the driver's lines in the kernel log say."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import attempt, complete
from hosttune.facts.gpu.gpu_errors import xid_of
from hosttune.facts.gpu.nvidia_lost import find_gone, silent_gpus
from hosttune.facts.gpu.nvidia_smi import (
    MAX_MESSAGES,
    QUERY,
    is_rejected,
    is_vgpu_name,
    legacy_branch,
    messages_in,
    misfit_in,
    needs_open,
    not_for_open,
    not_in_release,
    parse_smi,
    sentences_of,
    why_refused,
)
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL
from hosttune.host.door import Completed
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_driver import OPEN

TWO = """00000000:1B:00.0, 580.126.20, Enabled, NVIDIA H100 80GB HBM3
00000000:43:00.0, 580.126.20, Disabled, NVIDIA H100 80GB HBM3
"""
THIRD = "00000000:34:00.0, 580.126.20, Enabled, NVIDIA H100 80GB HBM3\n"
MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n"
)
NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)
LOST = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
LOADING = (
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build  (dvs)\n"
)
XID = (
    "NVRM: Xid (PCI:0000:34:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)
FALLEN = "NVRM: GPU 0000:43:00.0: GPU has fallen off the bus.\nNVRM: GPU 0000:43:00.0: GPU serial number is 1650123456789.\n"
NEEDS_OPEN = """[    7.012345] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2d04)
[    7.012346] NVRM: installed in this system requires use of the NVIDIA open kernel modules.
[    7.012347] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)
"""
NOT_FOR_OPEN = """NVRM: The NVIDIA GPU 0000:05:00.0 (PCI ID: 10de:1b80)
NVRM: installed in this system is not supported by open
NVRM: nvidia.ko because it does not include the required GPU
NVRM: System Processor (GSP).
NVRM: Please see the 'Open Linux Kernel Modules' and 'GSP
NVRM: Firmware' sections in the driver README.
"""
LEGACY = """NVRM: The NVIDIA GeForce GTX 1080 GPU installed in this system is
NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please
NVRM:  visit http://www.nvidia.com/object/unix.html for more
NVRM:  information.  The 595.84 NVIDIA driver will ignore
NVRM:  this GPU.  Continuing probe...
"""
NOT_IN_RELEASE = """NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:20b5)
NVRM: installed in this system is not supported by the
NVRM: NVIDIA 580.126.20 driver release.
NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'
"""
REJECTED = "Loading of module with unavailable key is rejected\n"
NOISE = 'audit: type=1400 apparmor="STATUS"\nnvme nvme0: 16/0/0 default/read/poll queues\nEXT4-fs (nvme0n1p2): mounted\n'
SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "nvidia-smi"


@pytest.mark.parametrize(
    ("output", "status", "refusal", "sentence"),
    [
        (TWO, 0, "", ""),
        (MISMATCH, 18, "mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
        (MISMATCH, 1, "mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
        (NOT_LOADED, 9, "not loaded", "NVIDIA-SMI has failed because"),
        ("modprobe: FATAL: Module nvidia not found.\n" + NOT_LOADED, 9, "not loaded", "NVIDIA-SMI has failed because"),
        ("No devices were found\n", 6, "no devices", "No devices were found"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", 12, "no library", "NVIDIA-SMI couldn't"),
        (LOST.replace("Unknown Error", "GPU is lost.  Reboot the system to recover this GPU"), 15, "gpu lost", "Unable"),
        ("", 15, "gpu lost", ""),
        ("", 18, "mismatch", ""),
        ('Field "pci.bus_id" is not a valid field to query.\n', 2, "other", "Field"),
    ],
)  # fmt: skip
def test_parse_smi_tells_refusals_apart(output, status, refusal, sentence):
    said = parse_smi(output, status)
    assert said.refusal == refusal
    assert said.sentence.startswith(sentence)
    assert bool(said.sentence) is bool(sentence)


def test_parse_smi_rows():
    first, second = parse_smi(TWO, 0).gpus
    assert (first.slot, first.name, first.driver_version, first.persistence) == (
        "0000:1b:00.0", "NVIDIA H100 80GB HBM3", "580.126.20", True,
    )  # fmt: skip
    assert (second.slot, second.persistence) == ("0000:43:00.0", False)


def test_parse_smi_names_with_commas_and_large_domains():
    (found,) = parse_smi(
        "00010000:0A:00.0, 595.84, [N/A], NVIDIA RTX A6000, Special, Edition\n", 0
    ).gpus
    assert (found.slot, found.name, found.driver_version) == (
        "10000:0a:00.0", "NVIDIA RTX A6000, Special, Edition", "595.84",
    )  # fmt: skip
    with pytest.raises(UnknownFact, match=r"'\[N/A\]' of the persistence mode"):
        _ = found.persistence


def test_parse_smi_a_lost_gpu_leaves_the_others():
    said = parse_smi(LOST + TWO, 0)
    assert (len(said.gpus), said.lost, said.refusal) == (2, {"0000:34:00.0": "Unknown Error"}, "")
    assert said.sentence.startswith("Unable to determine")


def test_parse_smi_masks_serials():
    assert (
        "GPU-1234"
        not in parse_smi("error on GPU-12345678-1234-1234-1234-123456789012\n", 1).sentence
    )


@pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the genuine outputs lie beside a development checkout only"
)
@pytest.mark.parametrize(
    ("name", "refusal", "lost"),
    [
        ("002.txt", "mismatch", ()),
        ("009.txt", "not loaded", ()),
        ("016.txt", "other", ("0000:34:00.0",)),
        ("018.txt", "other", ()),
        ("023.txt", "other", ()),
        ("028.txt", "other", ()),
    ],
)
def test_parse_smi_of_genuine_outputs(name, refusal, lost):
    said = parse_smi((SAMPLES / name).read_text(encoding="utf-8"), 1)
    assert (said.refusal, tuple(said.lost), said.gpus) == (refusal, lost, ())


def test_messages_in_keeps_the_drivers_lines_and_masks_them():
    found = messages_in(
        NOISE + LOADING + FALLEN + REJECTED + "nouveau 0000:01:00.0: NVIDIA GA100\n"
    )
    assert len(found) == 5
    assert found[0] == LOADING.strip()
    assert not any("1650123456789" in line for line in found)


def test_messages_in_keeps_the_newest():
    found = messages_in("".join(f"NVRM: line {number}\n" for number in range(MAX_MESSAGES + 50)))
    assert (len(found), found[-1]) == (MAX_MESSAGES, f"NVRM: line {MAX_MESSAGES + 49}")


def test_sentences_over_several_lines():
    words = {
        text: sentences_of(messages_in(NOISE + text))
        for text in (NEEDS_OPEN, NOT_FOR_OPEN, LEGACY, NOT_IN_RELEASE)
    }
    assert [needs_open(one) for one in words.values()] == [True, False, False, False]
    assert [not_for_open(one) for one in words.values()] == [False, True, False, False]
    assert [legacy_branch(one) for one in words.values()] == ["", "", "580", ""]
    assert [not_in_release(one) for one in words.values()] == [False, False, False, True]


@pytest.mark.parametrize(
    "line",
    [
        "Loading of module with unavailable key is rejected",
        "Loading of unsigned module is rejected",
        "PKCS#7 signature not signed with a trusted key",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    ],
)
def test_rejected_by_every_sentence(line):
    assert is_rejected(messages_in(line))
    assert not is_rejected(messages_in(NOISE + LOADING))


def gone(log):
    return find_gone(messages_in(log))[0]


def test_gone_from_the_bus_by_xid_and_by_name():
    found = gone(XID + XID + FALLEN + FALLEN.replace("43", "34"))
    assert found == {
        "0000:34:00.0": "has fallen off the bus (Xid 79)",
        "0000:43:00.0": "has fallen off the bus, as the kernel log says",
    }
    assert gone(XID.replace("79", "31")) == {}


@pytest.mark.parametrize(
    "line",
    [
        "1795000100.1 kernel: NVRM: Xid (PCI:0000:34:00): 79, pid=1, name=x, GPU has fallen off the bus.",
        "[  217.103] NVRM: Xid (PCI:0000:34:00 GPU-I:05): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (0000:34:00): 79, GPU has fallen off the bus.",
    ],
)
def test_gone_from_the_bus_in_every_form_of_an_xid(line):
    assert gone(line) == {"0000:34:00.0": "has fallen off the bus (Xid 79)"}


AT_PROBE = """1795000001.100000 kernel: NVRM: The NVIDIA GPU 0000:{one}:00.0
1795000001.100001 kernel: NVRM: (PCI ID: 10de:2901) installed in this system has
1795000001.100002 kernel: NVRM: fallen off the bus and is not responding to commands.
"""


def test_gone_from_the_bus_as_journalctl_prints_one_message_of_three_lines():
    first, *others = AT_PROBE.format(one="18").splitlines()
    indented = [f"{'':26}{line.partition('kernel: ')[2]}" for line in others]
    assert set(gone("\n".join([first, *indented]))) == {"0000:18:00.0"}


def test_gone_from_the_bus_over_three_lines_also_of_two_gpus_mixed():
    assert set(gone(AT_PROBE.format(one="18"))) == {"0000:18:00.0"}
    first, second = (AT_PROBE.format(one=one).splitlines() for one in ("18", "2a"))
    mixed = "\n".join(line for pair in zip(first, second, strict=True) for line in pair)
    assert set(gone(mixed)) == {"0000:18:00.0", "0000:2a:00.0"}


def test_gone_from_the_bus_is_not_said_of_a_gpu_that_this_driver_does_not_take():
    assert set(gone(NEEDS_OPEN + AT_PROBE.format(one="18") + NOT_FOR_OPEN + LEGACY)) == {
        "0000:18:00.0"
    }
    assert gone("NVRM: fallen off the bus and is not responding to commands.\n") == {}


def test_gone_from_the_bus_counts_since_the_driver_was_loaded():
    assert gone(XID + FALLEN + LOADING) == {}
    probed = (
        LOADING + XID + AT_PROBE.format(one="18") + LOADING
    )  # a module probes, and then says that it is loaded
    assert set(gone(probed)) == {"0000:18:00.0"}
    assert gone(probed + LOADING) == {}


@pytest.mark.parametrize(
    ("name", "is_vgpu"),
    [
        ("GRID T4-16Q", True),
        ("NVIDIA A100-4-20C", True),
        ("NVIDIA L40S-48Q", True),
        ("NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA H100 80GB HBM3", False),
        ("Tesla V100-SXM2-32GB", False),
        ("NVIDIA GeForce RTX 5060 Ti", False),
    ],
)
def test_is_vgpu_name(name, is_vgpu):
    assert is_vgpu_name(name) is is_vgpu


def reader(
    log=LOADING, smi: object = TWO, files=None, *, device="0x2330", loaded=True, is_vm=False, queries=None, drivers=(), namespaces=(),
    **more,
):  # fmt: skip
    slots = ("0000:1b:00.0", "0000:34:00.0", "0000:43:00.0") if device else ()
    every = {
        "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
        "/proc/sys/kernel/arch": "x86_64\n",
        "/proc/cpuinfo": f"processor : 0\nflags : fpu{' hypervisor' if is_vm else ''}\n",
        "/sys/class/dmi/id/sys_vendor": "QEMU\n",
        "/sys/module/ext4/refcnt": "1",
        "/sys/bus/pci/rescan": "",
    }
    for slot in slots:
        place = f"/sys/bus/pci/devices/{slot}"
        every |= {
            f"{place}/vendor": "0x10de",
            f"{place}/device": device,
            f"{place}/class": "0x030200",
        }
    held = dict.fromkeys(slots, "nvidia") | dict(drivers) if loaded else {}
    links = {
        f"/sys/bus/pci/devices/{slot}/driver": f"../../../bus/pci/drivers/{held[slot]}"
        for slot in held
    } | dict(namespaces)
    if loaded:
        every["/proc/driver/nvidia/version"] = OPEN
    answers = {} if smi is None else {QUERY: smi}
    answers |= {} if log is None else {JOURNAL: log}
    return FakeReader(
        every | (files or {}),
        folders=["/sys/bus/pci/devices"],
        queries=answers | (queries or {}),
        links=links,
        **more,
    )


def nvidia_of(*words, **more):
    return Facts(reader(*words, **more)).nvidia


def test_nvidia_healthy():
    found = nvidia_of(smi=TWO + THIRD)
    assert (found.smi, found.smi_status, found.smi_said, found.refusal, found.problem) == (
        "answers",
        0,
        "",
        "",
        "",
    )
    assert [gpu.slot for gpu in found.gpus] == ["0000:1b:00.0", "0000:43:00.0", "0000:34:00.0"]
    assert found.messages == (LOADING.strip(),)
    assert (found.lost, found.legacy_branch) == ((), "")
    assert (found.needs_open, found.not_for_open, found.rejected_key, found.is_vgpu) == (False,) * 4


def test_nvidia_without_a_gpu_asks_the_log_alone():
    door = reader(device="")
    found = Facts(door).nvidia
    assert (found.smi, found.smi_status, found.problem) == (
        "not asked",
        -1,
        "there is no NVIDIA GPU",
    )
    assert (found.is_vgpu, found.silent) == (False, ())
    assert {argv[0] for argv in door.asked} <= {"journalctl", "dmesg"}


def test_nvidia_without_a_loaded_module_leaves_nvidia_smi_alone():
    door = reader(REJECTED, loaded=False)
    found = Facts(door).nvidia
    assert (found.smi, found.gpus, found.rejected_key) == ("not asked", (), True)
    assert "not loaded" in found.problem
    assert QUERY not in door.asked


def test_nvidia_refusal_of_another_module_is_not_the_drivers():
    assert not nvidia_of(LOADING + REJECTED).rejected_key


def test_nvidia_smi_refuses():
    found = nvidia_of(smi=Completed(18, MISMATCH.encode(), b""))
    assert (found.smi, found.smi_status, found.refusal, found.gpus) == (
        "refused",
        18,
        "mismatch",
        (),
    )
    assert found.problem == "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"
    assert (
        nvidia_of(smi=Completed(9, b"", b"")).problem
        == "nvidia-smi: exit status 9, and nothing printed"
    )


def test_nvidia_smi_absent_and_hanging():
    found = nvidia_of(smi=None)
    assert (found.smi, found.smi_status) == ("absent", -1)
    assert "not installed" in found.problem
    hung = nvidia_of(smi=Unreadable("nvidia-smi did not end within 30 s"))
    assert (hung.smi, hung.gpus, hung.problem) == (
        "hangs",
        (),
        "nvidia-smi did not end within 30 s",
    )
    assert hung.messages == (LOADING.strip(),)
    broken = nvidia_of(smi=Unreadable("nvidia-smi wrote more than 64 MiB"))
    for name in ("smi", "smi_status", "gpus", "problem", "refusal"):
        with pytest.raises(UnknownFact, match="wrote more than"):
            getattr(broken, name)


def test_nvidia_lost_from_log_and_program():
    for found in (nvidia_of(LOADING + XID), nvidia_of(smi=LOST + TWO), nvidia_of(None, LOST + TWO)):
        assert found.lost == ("0000:34:00.0",)
    assert nvidia_of(LOADING + XID, smi=TWO + THIRD).lost == ()  # it answers again


def whys(*words, **more):
    return [(gpu.slot, gpu.why, gpu.sign) for gpu in nvidia_of(*words, **more).silent]


def test_nvidia_a_gpu_that_nvidia_smi_leaves_out_is_silent():
    left_out = (
        "0000:34:00.0",
        "is on the PCI bus and does not answer (nvidia-smi lists 2 of 3)",
        "left out",
    )
    assert whys() == [left_out]
    assert whys(None) == [left_out]  # also where the log may not be read
    assert whys(smi=f"[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n{TWO}") == [
        left_out
    ]
    failed = "NVRM: GPU 0000:34:00.0: RmInitAdapter failed! (0x62:0x40:1924)\n"
    ((_, why, _),) = whys(LOADING + failed)
    assert why.endswith(
        "(nvidia-smi lists 2 of 3; kernel log: RmInitAdapter failed! (0x62:0x40:1924))"
    )


@pytest.mark.parametrize(
    "words",
    [
        "[GPU is lost]",
        "ERR!",
        "[Unknown Error]",
        "[N/A]",
        "[Not Supported]",
        "[GPU requires reset]",
        "[Not Found]",
        "x",
    ],
)
def test_nvidia_a_row_of_error_words_is_no_answer(words):
    said = [("0000:34:00.0", f"does not answer nvidia-smi: {words}", "smi")]
    assert whys(smi=f"00000000:34:00.0, {words}, {words}, {words}\n{TWO}") == said
    assert nvidia_of(smi=f"00000000:34:00.0, {words}, {words}, {words}\n").smi == "refused"


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0000:34:00.0: Unknown Error",
        "Unable to determine the device handle for GPU 00000000:34:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU 0000:34:00.0: Not Found",
        "Unable to determine the device handle for gpu 0000:34:00.0: GPU requires reset",
        "Unable to determine the device handle for GPU 00000000:34:00.0:\nNot Supported",
    ],
)
def test_nvidia_a_line_on_a_device_handle_is_no_answer(line):
    assert nvidia_of(smi=f"{line}\n{TWO}").lost == ("0000:34:00.0",)
    alone = nvidia_of(
        smi=Completed(255, f"{line}\n".encode(), b"")
    )  # of the others nothing is known then
    assert (alone.smi, alone.lost) == ("refused", ("0000:34:00.0",))


def test_nvidia_claims_no_xid_without_the_kernel_log():
    for found in (nvidia_of(), nvidia_of(smi=LOST + TWO), nvidia_of(AT_PROBE.format(one="34"))):
        assert "Xid" not in found.silent[0].why
    assert nvidia_of(XID).silent[0].why == "has fallen off the bus (Xid 79)"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"smi": f"00000000:34:00.0{', [Insufficient Permissions]' * 3}\n{TWO}"}, "may not open the GPU at 0000:34:00.0"),
        ({"namespaces": {"/proc/self/ns/pid": "pid:[4026532001]", "/proc/self/ns/user": "user:[4026531837]"}}, "in a container"),
        ({"files": {"/proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0\n"}}, "in a job of Slurm"),
        ({"smi": TWO.replace("1B", "1C")}, "otherwise than the PCI bus"),
    ],
)  # fmt: skip
def test_nvidia_a_gpu_that_this_process_may_not_see_is_not_called_silent_and_not_well(more, reason):
    (found,) = [gpu for gpu in nvidia_of(**more).silent if gpu.slot == "0000:34:00.0"]
    assert (found.sign, re.search(reason, found.why) is None) == ("not known", False)
    assert nvidia_of(**more).lost == ()
    assert nvidia_of(XID, **more).lost == ("0000:34:00.0",)  # what the kernel says is said


def test_nvidia_only_gpus_that_its_driver_holds_are_asked():
    held = nvidia_of(drivers={"0000:34:00.0": "vfio-pci"})
    assert held.lost == ()


def test_nvidia_log_from_dmesg_without_a_journal():
    assert nvidia_of(None, queries={DMESG: NEEDS_OPEN}).needs_open
    assert nvidia_of(Completed(1, b"", b""), queries={DMESG: LEGACY}).legacy_branch == "580"
    assert (
        nvidia_of(Completed(1, b"", b""), queries={DMESG: f"Linux version 6.8\n{NOISE}"}).messages
        == ()
    )


def test_nvidia_log_of_dmesg_gets_the_time_of_day():
    lines = "[  100.500000] NVRM: Xid (PCI:0000:34:00): 48, x\n[  200.000000] [   T4711] NVRM: Xid (PCI:0000:34:00): 79, x\n"
    found = nvidia_of(
        None,
        queries={DMESG: lines},
        files={"/proc/uptime": "3600.25 7000.00\n"},
        now=1_795_003_600.25,
    )
    assert found.messages == (
        "1795000100.500000 NVRM: Xid (PCI:0000:34:00): 48, x",
        "1795000200.000000 NVRM: Xid (PCI:0000:34:00): 79, x",
    )
    assert found.silent[0].why == "has fallen off the bus (Xid 79)"
    undated = nvidia_of(None, queries={DMESG: lines}).messages  # no uptime, no time
    assert [xid_of(line)[1] for line in undated] == [48, 79]


@pytest.mark.parametrize(
    ("journal", "kernel", "reason"),
    [
        (
            Completed(1, b"", b"Hint: You are currently not seeing messages from other users and the system.\n"),
            Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n"),
            "needs root, or the group adm",
        ),
        (Completed(1, b"", b""), Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n"), "needs root"),
        (Unreadable("not in this record: the answer of journalctl"), Unreadable("not in this record"), "answer of journalctl"),
        (Completed(1, b"", b"Compiled without pattern matching support"), Completed(1, b"", b""), "neither journalctl nor dmesg"),
    ],
)  # fmt: skip
def test_nvidia_log_that_may_not_be_read_is_unread(journal, kernel, reason):
    found = nvidia_of(journal, queries={DMESG: kernel})
    for name in ("messages", "needs_open", "not_for_open", "legacy_branch"):
        with pytest.raises(UnknownFact, match=reason):
            getattr(found, name)
    assert (found.smi, found.lost) == ("answers", ("0000:34:00.0",))
    assert not found.rejected_key  # a loaded module was not refused
    with pytest.raises(UnknownFact, match=reason):
        _ = nvidia_of(journal, None, queries={DMESG: kernel}).lost


def test_nvidia_no_gpu_is_lost_where_all_of_the_pci_bus_answer():
    """So that a user who may not read the kernel log is told it, too."""
    refused = Completed(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted\n")
    three = TWO + "00000000:34:00.0, 580.126.20, Enabled, NVIDIA H100 80GB HBM3\n"
    assert nvidia_of(Completed(1, b"", b""), smi=three, queries={DMESG: refused}).lost == ()


def test_nvidia_program_that_would_make_device_nodes_is_not_asked():
    found = nvidia_of(
        smi=Unreadable("nvidia-smi is not asked: device nodes /dev/nvidia* are missing")
    )
    assert (found.smi, found.refusal, found.lost) == ("not asked", "", ())


def test_nvidia_wrong_flavour():
    assert nvidia_of(NEEDS_OPEN).needs_open
    assert nvidia_of(NOT_FOR_OPEN).not_for_open


def test_nvidia_vgpu():
    gridd = {"/etc/nvidia/gridd.conf": "FeatureType=1\n", "/usr/bin/nvidia-gridd": ""}
    assert nvidia_of(files=gridd).is_vgpu
    assert not nvidia_of(files={"/etc/nvidia/gridd.conf": ""}).is_vgpu
    assert nvidia_of(smi="00000000:1B:00.0, 580.126.20, Enabled, NVIDIA L40S-48Q\n").is_vgpu
    assert nvidia_of(NOT_IN_RELEASE, is_vm=True).is_vgpu
    assert not nvidia_of(NOT_IN_RELEASE).is_vgpu
    assert not nvidia_of(
        NOT_IN_RELEASE, is_vm=True, device="0xffff"
    ).is_vgpu  # unknown to us too: simply new


def test_nvidia_under_an_alternate_root_is_unread():
    blind = dict.fromkeys(("/proc", "/sys"), "no kernel runs under --root")
    found = nvidia_of(unreadable=blind, kind="root", persistent_only=True)
    for name in ("smi", "messages", "lost", "needs_open", "is_vgpu"):
        with pytest.raises(UnknownFact, match=r"alternate root|--root"):
            getattr(found, name)


WORDS = st.sampled_from(
    ["[GPU is lost]", "ERR!", "[N/A]", "580.126.20", "Enabled", "", "NVIDIA, H100", "\x1b[31m", "7"]
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["1B", "34", "43", "99"]), st.lists(WORDS, max_size=5)),
        max_size=5,
    ),
    st.text(max_size=30),
    st.sampled_from([0, 2, 4, 9, 15, 255]),
)
def test_no_answer_of_nvidia_smi_makes_a_gpu_well_that_it_does_not_show(rows, noise, status):
    """Each GPU that the driver holds answers, is silent, or it is not known."""
    output = (
        "".join(", ".join([f"00000000:{bus}:00.0", *words]) + "\n" for bus, words in rows) + noise
    )
    said = parse_smi(output, status)
    three = ("0000:1b:00.0", "0000:34:00.0", "0000:43:00.0")
    for log, narrowed in itertools.product(((), Unreadable("x")), ("", "in a container")):
        silent = attempt(silent_gpus, said, log, three, three, narrowed)
        if said.gpus:
            answering = {gpu.slot for gpu in said.gpus}
            assert set(three) <= {gpu.slot for gpu in silent} | answering or len(answering) >= len(
                three
            )
            sure = {gpu.slot for gpu in silent if gpu.sign != "not known"}
            assert not sure & answering
    assert all(re.fullmatch(r"\d+\.\d[\d.]*", gpu.driver_version) for gpu in said.gpus)
    assert bool(said.gpus) is not bool(said.refusal)


WHOLE = (
    LOADING + XID + FALLEN + NEEDS_OPEN + NOT_FOR_OPEN + LEGACY + NOT_IN_RELEASE + REJECTED + NOISE
)


@given(st.randoms(use_true_random=False), st.integers(0, len(TWO)), st.text(max_size=40))
def test_parsers_bear_shuffled_cut_and_foreign_text(chance: random.Random, cut, noise):
    lines = WHOLE.splitlines()
    chance.shuffle(lines)
    messages = messages_in("\n".join([noise, *lines]))
    named = {"0000:34:00.0", "0000:43:00.0", "0000:01:00.0", "0000:05:00.0", "0000:02:00.0"}
    assert set(find_gone(messages)[0]) <= named | set(gone(noise))
    assert legacy_branch(sentences_of(messages)) in {"", "580"}
    slots = {gpu.slot for gpu in parse_smi(noise + "\n" + LOST + TWO[:cut], 0).gpus}
    assert slots <= {"0000:1b:00.0", "0000:43:00.0"}


def test_a_record_keeps_the_drivers_lines_of_the_log_alone():
    from hosttune.actions.record.encode import encode_record
    from hosttune.host.record.record import RecordingReader, RecordReader

    recorder = RecordingReader(
        reader(Completed(1, b"", b""), queries={DMESG: NOISE + LOADING + FALLEN + XID})
    )
    found = Facts(recorder).nvidia
    complete(found)
    record = encode_record(recorder, share=False, tool_version="0")
    (kept,) = (one["stdout"] for one in record["queries"] if one["argv"] == list(DMESG))
    assert "apparmor" not in kept
    assert "1650123456789" not in kept
    assert Facts(RecordReader(record)).nvidia.messages == found.messages


BUS = "/sys/bus/pci/devices"


def left(log="", *, driver=True, held=(), container=False, unreadable=False, also=None):
    """What is said of GPUs that are all gone; `held` are slots of those that vfio-pci has."""
    files = {
        f"{BUS}/0000:00:00.0/vendor": "0x8086",
        f"{BUS}/0000:00:00.0/class": "0x060000",
        **(also or {}),
    }
    for slot in held:
        files |= {
            f"{BUS}/{slot}/{name}": text
            for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"))
        }
    if driver:
        files |= {"/proc/driver/nvidia/version": OPEN, "/sys/module/nvidia/version": "580.126.20\n"}
    said = Unreadable("needs root") if unreadable else log
    links = {f"{BUS}/{slot}/driver": "../../../bus/pci/drivers/vfio-pci" for slot in held}
    if container:
        links |= {
            "/proc/self/ns/pid": "pid:[4026532001]",
            "/proc/self/ns/user": "user:[4026531837]",
        }
    facts = Facts(
        FakeReader(
            files,
            links=links,
            folders=["/sys/module"],
            queries={JOURNAL: said, DMESG: said or "x\n"},
        )
    )
    return facts.nvidia


def test_gpus_that_were_here_in_this_boot_and_are_all_gone():
    assert (
        left(XID).all_lost
        == "the GPU at 0000:34:00.0 has fallen off the bus (Xid 79); no GPU of this host is left on it"
    )
    assert left(XID, driver=False).all_lost.startswith("the GPU at 0000:34:00.0 has fallen")
    assert [gpu.slot for gpu in left(XID).silent] == ["0000:34:00.0"]
    assert "is left on the PCI bus" in left("").all_lost
    assert "is left on the PCI bus" in left(unreadable=True).all_lost
    assert left(XID, held=["0000:1b:00.0"]).all_lost.startswith(
        "the GPU at 0000:34:00.0 has fallen"
    )


def test_host_that_never_had_a_gpu_has_lost_none():
    for one in (
        left(driver=False),
        left(driver=False, unreadable=True),
        left(LOADING, driver=False),
    ):
        assert one.all_lost == ""
        assert one.silent == ()
        assert one.messages in ((), (LOADING.strip(),))
    assert left(held=["0000:1b:00.0"]).all_lost == ""
    assert left(XID, held=["0000:34:00.0"]).all_lost == ""
    assert left(XID, container=True).all_lost == ""


CHASSIS = "/sys/class/dmi/id/chassis_type"


@pytest.mark.parametrize(
    "machine",
    [
        {
            "/proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"
        },
        {CHASSIS: "10\n"},
    ],
)
def test_driver_without_a_gpu_on_the_bus_is_no_loss_on_a_jetson_and_where_people_unplug_it(machine):
    assert left("", also=machine).all_lost == ""
    assert left(unreadable=True, also=machine).all_lost == ""
    assert left(XID, also=machine).all_lost.startswith("the GPU at 0000:34:00.0 has fallen")


def test_driver_without_a_gpu_on_the_bus_is_a_loss_on_a_server():
    for machine in ({"/proc/device-tree/compatible": "nvidia,grace\0"}, {CHASSIS: "23\n"}):
        assert "is left on the PCI bus" in left("", also=machine).all_lost


PROBE = "NVRM: The NVIDIA probe routine failed for 1 device(s).\nNVRM: None of the NVIDIA devices were initialized.\n"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("NVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the\n" + PROBE, "open"),
        ("NVRM: installed in this system is not supported by the\nNVRM: NVIDIA 550.90.07 driver release.\n" + PROBE, "release"),
        ("NVRM: Can't find an IRQ for your NVIDIA card!\nNVRM: Please check your BIOS settings.\n" + PROBE, "interrupt"),
        (PROBE, "other"),
        (PROBE + LOADING, ""),
        ("NVRM: The NVIDIA probe routine was not called for 1 device(s).\nNVRM: None of the NVIDIA devices were initialized.\n", ""),
    ],
)  # fmt: skip
def test_why_the_driver_took_no_gpu_when_it_was_loaded_last(log, why):
    assert why_refused(log.splitlines()) == why


MAGIC = "nvidia: version magic '6.8.0-59-generic SMP preempt ' should be '6.8.0-60-generic SMP preempt '"


@pytest.mark.parametrize(
    ("log", "misfit"),
    [
        (MAGIC, ("version magic", "6.8.0-59-generic")),
        ("nvidia: disagrees about version of symbol module_layout", ("disagrees about version of symbol", "module_layout")),
        ("nvidia: no symbol version for module_layout", ("no symbol version for", "module_layout")),
        ("nvidia: Unknown symbol i2c_add_adapter (err -2)", ("Unknown symbol", "i2c_add_adapter")),
        (f"{MAGIC}\n{LOADING}", ("", "")),
        ("nvidia_drm: Unknown symbol drm_gem_object_free (err -2)", ("", "")),  # computes without it
        ("usb 1-1: Product: nvidia: Unknown symbol x", ("", "")),
    ],
)  # fmt: skip
def test_why_the_kernel_did_not_take_the_module(log, misfit):
    assert misfit_in(messages_in(log)) == misfit


def silent_after(*lines, words="[Unknown Error]"):
    row = f"00000000:1B:00.0, {words}, {words}, {words}\n00000000:43:00.0, 580.1, Enabled, NVIDIA H100\n"
    slots = ("0000:1b:00.0", "0000:43:00.0")
    (found,) = silent_gpus(parse_smi(row, 0), lines, slots, slots, "")
    return found.action, found.is_off_bus, found.why


XID_119 = "NVRM: Xid (PCI:0000:1b:00): 119, pid=1, name=a, Timeout after 45s of waiting for RPC response from GPU0 GSP!"


def test_gpu_whose_firmware_hung_is_reset_before_anything_else():
    """gpustack/runtime pull request 26: ERR! in nvidia-smi after Xid 119 and 154 (GPU Reset
    Required).
    """
    recovery = "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    action, is_off_bus, why = silent_after(XID_119, recovery)
    assert (action, is_off_bus) == ("RESET_GPU", False)
    assert why.endswith("[Unknown Error], after Xid 119")
    assert silent_after()[:2] == ("RESTART_BM", False)
    assert silent_after(XID_119.replace("1b:00", "43:00"))[0] == "RESTART_BM"  # another GPU
    assert (
        silent_after(XID_119, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.1")[0]
        == "RESTART_BM"
    )
    assert silent_after(XID_119, "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")[
        :2
    ] == (
        "RESTART_BM",
        True,
    )
    assert silent_after(XID_119, words="[GPU is lost]")[:2] == ("RESTART_BM", True)
