"""Why a GPU was not set up: what the kernel log proves, and the way out of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.choices.driver_state import choose
from hosttune.choices.driver_states.state import BootOutlook
from hosttune.facts import Facts
from hosttune.facts.gpu.driver import DriverPackage
from hosttune.facts.gpu.gsp_firmware import (
    KERNEL_LOG,
    GspFailure,
    GspFirmware,
    failures_in,
    way_out,
)
from tests.unit.test_driver_state import VERSION, host, names, states
from tests.unit.test_facts_nvidia import LOADING, THIRD, TWO, XID, reader

SLOT, OTHER = "0000:34:00.0", "0000:43:00.0"
FILE = "/lib/firmware/nvidia/580.126.20/gsp_ga10x.bin"
READ = f"nvidia {SLOT}: loading {FILE} failed with error {{0}}\nnvidia {SLOT}: Direct firmware load for nvidia/580.126.20/gsp_ga10x.bin failed with error {{0}}\n"
NO_IMAGE = "NVRM: RmFetchGspRmImages: No firmware image found\n"
FAILED = f"NVRM: GPU {SLOT}: RmInitAdapter failed! (0x62:0x40:2168)\nNVRM: GPU {SLOT}: rm_init_adapter failed, device minor number 3\n"
CANNOT = "NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM\n"
WPR2 = f"NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP\n{CANNOT}"
MISMATCH = (
    "NVRM: GPU0 _kgspFwContainerVerifyVersion: GSP firmware image version mismatch: got version 570.172.08, "
    f"expected version 580.126.20\n{CANNOT}"
)
GFW = "NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)\n"
POWER = f"NVRM: GPU {SLOT}: GPU does not have the necessary power cables connected.\n"
BOOTER = (
    "NVRM: GPU6 s_executeBooterUcode_TU102: Booter failed with non-zero error code: 0x15\n"
    "NVRM: GPU6 kgspExecuteBooterLoad_TU102: failed to execute Booter Load: 0xffff\n"
)
FMC = "NVRM: kgspBootstrap_GH100: GSP-FMC reported an error while attempting to boot GSP: 0xb\n"
ROM = "NVRM: GPU6 kgspExtractVbiosFromRom_TU102: did not find valid ROM signature\n"
READY = "NVRM: Open nvidia.ko is only ready for use on Data Center GPUs.\n"
DEBIAN = f"nvidia {SLOT}: firmware: failed to load nvidia/580.126.20/gsp_ga10x.bin (-2)\n"
OF_A_LOG = f"nvidia {SLOT}: firmware: failed to load nvidia/580.126.20/gsp_log_ga10x.bin (-2)\n"
LOST = f"Unable to determine the device handle for GPU1: {SLOT}: {{}}\n"


@pytest.mark.parametrize(
    ("log", "cause", "error", "words"),
    [
        (READ.format(-4) + NO_IMAGE + FAILED, "interrupted", 4, ""), (READ.format(-2) + NO_IMAGE + FAILED, "missing", 2, ""),
        (READ.format(-5) + NO_IMAGE + FAILED, "unreadable", 5, ""), (DEBIAN + FAILED, "missing", 2, ""),
        (NO_IMAGE + FAILED, "unreadable", 0, ""), (MISMATCH + FAILED, "other version", 0, "570.172.08"),
        (WPR2 + FAILED, "half-started", 0, ""), (GFW + CANNOT + FAILED, "not booted", 0, ""), (CANNOT + FAILED, "not set up", 0, "(0x62:0x40:2168)"),
        (POWER + FAILED, "no power", 0, ""), (BOOTER + CANNOT + FAILED, "no loader", 0, ""), (ROM + CANNOT + FAILED, "no ROM", 0, ""),
        (FMC + CANNOT + FAILED, "no FMC", 0, ""),
        (READY + FAILED, "not ready", 0, ""), (READY.replace("only ready", "ready") + FAILED, "not set up", 0, "(0x62:0x40:2168)"),
        (BOOTER + CANNOT + FAILED + FAILED, "not set up", 0, "(0x62:0x40:2168)"),
        (OF_A_LOG + FAILED, "not set up", 0, "(0x62:0x40:2168)"),
        (READ.format(-4) + FAILED + WPR2 + FAILED, "half-started", 0, ""),  # the last try counts
        (READ.format(-4) + FAILED + FAILED, "not set up", 0, "(0x62:0x40:2168)"),
    ],
)  # fmt: skip
def test_cause_that_the_log_proves(log, cause, error, words):
    (found,) = failures_in((LOADING + log).splitlines()).values()
    assert (found.slot, found.cause, found.error, found.words) == (SLOT, cause, error, words)
    assert found.path == FILE or not found.file
    assert failures_in((log + LOADING).splitlines()) == {}


def test_causes_of_two_gpus_are_kept_apart():
    other = (WPR2 + FAILED).replace(SLOT, OTHER)
    assert {slot: one.cause for slot, one in failures_in((READ.format(-2) + NO_IMAGE + FAILED + other).splitlines()).items()} == {
        SLOT: "missing", OTHER: "half-started",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        f"usb 1-1: Product: nvidia {SLOT}: loading {FILE} failed with error -2",
        f"nvidia {SLOT}: loading {FILE} failed with error", f"x NVRM: GPU {SLOT}: RmInitAdapter failed!",
    ],
)  # fmt: skip
def test_other_lines_prove_nothing(line):
    assert failures_in([line]) == {}


def firmware_of(log, smi, files=None):
    return Facts(reader(LOADING + log, smi=smi, files=files)).gsp_firmware


def test_gpu_that_answers_was_set_up_since():
    log = READ.format(-4) + NO_IMAGE + FAILED
    assert firmware_of(log, TWO + THIRD).failures == ()
    (found,) = firmware_of(log, TWO + LOST.format("Unknown Error")).failures
    assert (found.slot, found.cause) == (SLOT, "interrupted")
    assert (
        firmware_of(
            log, TWO + LOST.format("GPU is lost.  Reboot the system to recover this GPU")
        ).failures
        == ()
    )
    assert (
        firmware_of(log + XID, TWO + LOST.format("Unknown Error")).failures == ()
    )  # a fault of hardware stays one
    assert len(firmware_of(log, "No devices were found\n").failures) == 1


def test_log_is_not_asked_where_every_gpu_answers():
    door = reader(smi=TWO + THIRD)
    assert Facts(door).gsp_firmware.failures == ()
    assert not any(argv[0] in {"journalctl", "dmesg"} for argv in door.asked)


@pytest.mark.parametrize("name", ["gsp_ga10x.bin", "gsp_ga10x.bin.zst"])
def test_file_that_is_there_by_now(name):
    found = firmware_of(
        READ.format(-2) + FAILED, TWO, {f"/lib/firmware/nvidia/580.126.20/{name}": ""}
    )
    assert found.failures[0].is_there
    assert "is there by now" in found.failures[0].describe()
    found = firmware_of(
        READ.format(-2) + FAILED, TWO, {"/lib/firmware/nvidia/580.126.20/gsp_tu10x.bin": ""}
    )
    assert found.failures[0].is_there is False
    assert "is not there" in found.failures[0].describe()
    door = reader(
        LOADING + READ.format(-2) + FAILED,
        smi=TWO,
        unreadable={"/lib/firmware/nvidia/580.126.20": "not in this record"},
    )
    (unknown,) = Facts(door).gsp_firmware.failures
    assert unknown.is_there is None
    assert "there now" not in unknown.describe()


def failure(cause, error=0, file="gsp_ga10x.bin", words=""):
    return GspFailure(OTHER, cause, VERSION, file, error, words)


def on(cause, error=0, words="", **more):
    return host(**{"failures": (failure(cause, error, words=words),), "persistenced": True} | more)


@pytest.mark.parametrize(
    ("cause", "error", "state", "evidence", "way"),
    [
        ("missing", 2, "GSP firmware", "ENOENT", "sudo apt-get install --reinstall nvidia-firmware-580-server-580.126.20"),
        ("interrupted", 4, "GSP firmware", "EINTR", "sudo systemctl restart nvidia-persistenced"),
        ("unreadable", 5, "GSP firmware", "EIO", f"sudo sha256sum {FILE}"),
        ("other version", 0, "GSP firmware", "570.172.08, and the module is 580.126.20", "sudo update-initramfs -u"),
        ("half-started", 0, "GPU not set up", "WPR2", "power the host off and on"),
        ("not set up", 0, "GPU not set up", "that line does not name the cause", KERNEL_LOG),
        ("no power", 0, "GPU not set up", "no power", "look at each power cable of this board"),
        ("no loader", 0, "GPU not set up", "Booter", "power it off and on"),
        ("no FMC", 0, "GPU not set up", "GSP-FMC", "power it off and on"),
        ("not ready", 0, "GPU not set up", "not a data-center GPU", "NVreg_OpenRmEnableUnsupportedGpus=1"),
        ("no ROM", 0, "GPU not set up", "no valid ROM", "ask the vendor of the board"),
    ],
)  # fmt: skip
def test_state_and_way_out_of_each_cause(cause, error, state, evidence, way):
    words = "570.172.08" if cause == "other version" else ""
    lost = {
        "silent": (),
        "smi": "refused",
        "refusal": "no devices",
        "problem": "nvidia-smi: No devices were found",
    }
    facts = on(cause, error, words, nvidia=lost)
    (found,) = states(facts)
    assert (found.name, found.is_dead, found.waits_for_reboot) == (state, True, False)
    assert evidence in found.evidence
    assert way in found.way_out
    for claim in ("it is hardware", "decides about the board"):
        assert claim not in found.evidence + found.way_out
    assert (
        found.boot is BootOutlook.NOTHING
    )  # no boot is counted on, and an update, which brings its own, may be made


def test_update_that_waits_for_a_reboot_says_it_already():
    """The firmware of the old version went with its package."""
    assert names(on("missing", 2, loaded_version="580.95.05")) == ["mismatch"]


def test_firmware_comes_back_as_the_driver_came():
    def way(**more):
        return way_out(failure("missing", 2), on("missing", 2, **more))

    named = ("nvidia-firmware-580-server-580.126.20", "nvidia-firmware-580-server-580.95.05")
    assert way(names=named).startswith(
        "sudo apt-get install --reinstall nvidia-firmware-580-server-580.126.20\n"
    )
    assert "--reinstall nvidia-firmware\n" in way(names=("nvidia-firmware",))
    assert "--reinstall firmware-nvidia-gsp\n" in way(names=("firmware-nvidia-gsp",))
    for series in ("", "-tesla-535"):  # of Debian: only recommended, and in a component of its own
        module = DriverPackage(
            f"nvidia{series}-open-kernel-dkms", "580.126.20-1", False, "installed"
        )
        came = way(packages=(module,), names=("linux-image-amd64",))
        assert came.startswith(
            f"sudo apt-get install 'firmware-nvidia{series}-gsp=580.126.20*'\nif apt has none: "
        )
    runfile = {"branch": "", "name": "", "packages": (), "runfile": True}
    assert "run NVIDIA's installer of 580.126.20 again" in way(**runfile)
    assert "in the way that this driver came" in way(**runfile | {"runfile": False})
    there = replace(failure("missing", 2), is_there=True)
    again = way_out(there, on("missing", 2))
    assert "apt-get" not in again
    assert "modprobe" in again


def test_driver_in_a_container_tells_of_its_firmware():
    contained = {"branch": "", "name": "", "packages": (), "userspace_version": "", "modules": ()}
    (state,) = choose(on("missing", 2, here=("operator",), **contained), {}).states
    assert (state.name, state.is_fault) == ("GSP firmware", True)
    assert "/sys/module/firmware_class/parameters/path" in state.way_out
    assert "delete its driver pod (nvidia-driver-daemonset-" in state.way_out
    assert "modprobe" not in state.way_out  # the host has no module of this driver
    (interrupted,) = choose(
        on("interrupted", 4, here=("operator",), persistenced=False, **contained), {}
    ).states
    assert "firmware_class" not in interrupted.way_out
    (own,) = choose(on("missing", 2, here=("operator",)), {}).states
    assert "sudo modprobe nvidia" in own.way_out
    assert GspFirmware(()).of(SLOT) is None
