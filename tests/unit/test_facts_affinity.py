"""Facts about GPU processes on the wrong processors."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL
from hosttune.host.door import Process
from tests.unit.fake_reader import FakeReader

GPUS = {0: ("0000:1b:00.0", "0-3"), 1: ("0000:9d:00.0", "4-7")}


def affinity(allowed, *devices, near=True, **options):
    """One process, 7, that holds these devices and may run there; None where it has ended."""
    files = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/proc/driver/nvidia/version": "x"}
    for minor, (slot, cpus) in GPUS.items():
        base = f"/sys/bus/pci/devices/{slot}"
        files |= {
            f"{base}/vendor": "0x10de\n",
            f"{base}/class": "0x030200\n",
            f"{base}/device": "0x2330\n",
        }
        files |= {f"{base}/local_cpulist": f"{cpus}\n"} if near else {}
        files[f"/proc/driver/nvidia/gpus/{slot}/information"] = (
            f"Model: \t X\nDevice Minor: \t {minor}\n"
        )
    if allowed is not None:
        files["/proc/7/status"] = (
            f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n"
        )
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
    process = Process(7, "python", "ann", ("python",), 0, 0, tuple(devices), "/", 0.0)
    return Facts(FakeReader(files, links=links, processes=(process,), **options)).affinity


def test_affinity_gpus_have_their_device_and_the_processors_near_them():
    seen = affinity("0-7", "/dev/nvidia0")
    assert [(gpu.slot, gpu.device, gpu.local_cpus) for gpu in seen.gpus] == [
        ("0000:1b:00.0", "/dev/nvidia0", (0, 1, 2, 3)),
        ("0000:9d:00.0", "/dev/nvidia1", (4, 5, 6, 7)),
    ]


def test_affinity_process_bound_to_the_other_socket_is_far():
    (far,) = affinity("0-3", "/dev/nvidia1", "/dev/nvidia-uvm").far
    assert (far.pid, far.name, far.allowed, far.gpus) == (7, "python", "0-3", ("/dev/nvidia1",))


@pytest.mark.parametrize(
    ("allowed", "devices"),
    [
        ("0-3", ("/dev/nvidia0",)),
        ("0-7", ("/dev/nvidia1",)),  # not bound at all
        ("3,7", ("/dev/nvidia1",)),
        ("0-3", ("/dev/nvidia0", "/dev/nvidia1")),  # CUDA opens every GPU that it may see
        ("0-3", ("/dev/nvidia-uvm",)),
        (None, ("/dev/nvidia1",)),  # it has ended meanwhile
    ],
)
def test_affinity_other_processes_are_no_fault(allowed, devices):
    assert affinity(allowed, *devices).far == ()


def test_affinity_without_word_of_the_firmware_accuses_nobody():
    assert affinity("0-3", "/dev/nvidia1", near=False).far == ()


def test_affinity_without_root_is_unknown_and_the_gpus_are_there():
    seen = affinity("0-3", "/dev/nvidia1", is_privileged=False)
    assert len(seen.gpus) == 2
    with pytest.raises(UnknownFact, match="needs root"):
        _ = seen.far
