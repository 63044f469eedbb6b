"""Which source of GPU looks is taken, and what a watch makes of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosttune.errors import HosttuneError
from hosttune.measure import gpu
from hosttune.measure.gpu import replay
from hosttune.measure.gpu.nvml import NoNvml
from hosttune.measure.gpu.smi import NoSmi
from hosttune.values import ABSENT, Absent, Unreadable

ROOT = Path(__file__).resolve().parents[2]
TRACE = (
    "gpu 0 GPU-aaaa NVIDIA A100\nmig 0/0 MIG-1111 1g.5gb\ngpu 1 GPU-bbbb NVIDIA A100\n"
    "at 0 0 5 1 2 3 4 5 0x0 none\nat 0 0/0 - 1 2 - - - - none\nat 0 1 95 1 2 3 4 5 0x0 none\n"
)


class Closing(replay.ReplaySampler):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Closing:
    """The best source is a trace of two GPUs, one with a MIG instance."""
    sampler = Closing(replay.parse(TRACE), lambda: 0.0)
    monkeypatch.setattr(gpu, "_choose_sampler", lambda: sampler)
    return sampler


def refusing(error: Exception):
    def sampler(*_words, **_settings):
        raise error

    return sampler


@pytest.mark.parametrize(
    ("wanted", "uuids"),
    [
        ((), ["GPU-aaaa", "MIG-1111", "GPU-bbbb"]),
        (("1",), ["GPU-bbbb"]),
        (("0",), ["GPU-aaaa", "MIG-1111"]),
        (("MIG-11",), ["MIG-1111"]),
        (("1", "GPU-aa"), ["GPU-aaaa", "GPU-bbbb"]),
    ],
)
def test_open_with_a_choice_shows_those_alone(wanted, uuids, traced):
    sampler = gpu.open_sampler(wanted)
    assert [sample.uuid for sample in sampler.read()] == uuids
    assert sampler.source == "replay"
    sampler.close()
    assert traced.is_closed


@pytest.mark.parametrize("wanted", ["2", "GPU-cc", "x"])
def test_open_with_a_gpu_that_is_not_there_names_those_that_are(wanted, traced):
    with pytest.raises(HosttuneError) as caught:
        gpu.open_sampler((wanted,))
    assert caught.value.message == f"no GPU {wanted} here"
    assert caught.value.hint == "there are: 0 (GPU-aaaa), 0 (MIG-1111), 1 (GPU-bbbb)"
    assert traced.is_closed


def test_open_with_a_choice_where_no_gpu_is_visible_says_why(monkeypatch):
    monkeypatch.setattr(
        "hosttune.measure.gpu.nvml.NvmlSampler",
        refusing(NoNvml("libnvidia-ml.so.1 is not installed")),
    )
    monkeypatch.setattr(gpu, "locate", lambda _: Absent.ABSENT)
    with pytest.raises(HosttuneError) as caught:
        gpu.open_sampler(("0",))
    assert caught.value.hint == "none is visible: libnvidia-ml.so.1 is not installed"


def test_open_with_a_sleeping_driver_does_not_wake_it(monkeypatch):
    monkeypatch.setattr(gpu, "_is_asleep", lambda _: True)
    monkeypatch.setattr(
        "hosttune.measure.gpu.nvml.NvmlSampler", refusing(AssertionError("NVML was asked"))
    )
    sampler = gpu.open_sampler()
    assert (sampler.source, sampler.reason, sampler.read()) == (
        "none",
        "the NVIDIA driver is not loaded",
        (),
    )


def test_open_with_a_final_answer_of_nvml_does_not_start_nvidia_smi(monkeypatch):
    monkeypatch.setattr(
        "hosttune.measure.gpu.nvml.NvmlSampler",
        refusing(NoNvml("of different versions", is_final=True)),
    )
    monkeypatch.setattr(
        "hosttune.measure.gpu.smi.SmiSampler", refusing(AssertionError("nvidia-smi was started"))
    )
    monkeypatch.setattr(gpu, "locate", lambda name: f"/usr/bin/{name}")
    assert gpu.open_sampler().reason == "of different versions"


def test_open_with_a_driver_in_a_container_asks_it_there(monkeypatch):
    inside = (
        "/usr/bin/setpriv",
        "--no-new-privs",
        "/usr/sbin/chroot",
        "/run/nvidia/driver",
        "/usr/bin/nvidia-smi",
    )
    asked = []
    monkeypatch.setattr(
        "hosttune.measure.gpu.nvml.NvmlSampler", refusing(NoNvml("no library", is_final=False))
    )
    monkeypatch.setattr(gpu, "locate", lambda name: ABSENT)
    monkeypatch.setattr(gpu, "make_contained", lambda argv: inside)
    monkeypatch.setattr(
        "hosttune.measure.gpu.smi.SmiSampler",
        lambda *words: asked.append(words) or SimpleNamespace(reason=""),
    )
    assert gpu.open_sampler().reason == "no library"
    assert asked == [("/usr/bin/nvidia-smi", inside[:-1])]
    monkeypatch.setattr(gpu, "make_contained", lambda argv: Unreadable("needs root: x"))
    assert gpu.open_sampler().reason == "no library; needs root: x"


def test_open_where_neither_answers_tells_both_reasons(monkeypatch):
    monkeypatch.setattr(
        "hosttune.measure.gpu.nvml.NvmlSampler", refusing(NoNvml("nvidia-ml-py is not installed"))
    )
    monkeypatch.setattr(
        "hosttune.measure.gpu.smi.SmiSampler", refusing(NoSmi("nvidia-smi: No devices were found"))
    )
    monkeypatch.setattr(gpu, "locate", lambda name: f"/usr/bin/{name}")
    assert (
        gpu.open_sampler().reason
        == "nvidia-ml-py is not installed; nvidia-smi: No devices were found"
    )


@pytest.mark.parametrize(
    ("vendor", "kind", "is_loaded", "sleeps"),
    [
        ("0x10de", "0x030200", False, True),
        ("0x10de", "0x030200", True, False),
        ("0x10de", "0x0c0330", False, False),  # a USB controller of NVIDIA's
        ("0x1002", "0x030000", False, False),
    ],
)
def test_driver_sleeps_where_a_gpu_is_there_and_its_module_is_not(
    vendor, kind, is_loaded, sleeps, tmp_path
):
    device = tmp_path / "bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    if is_loaded:
        (tmp_path / "module/nvidia").mkdir(parents=True)
    assert gpu._is_asleep(tmp_path) is sleeps


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("gpus 0", "trace:1: gpus is neither gpu, mig nor at"),
        ("at 0 0 5", "trace:1: '0'"),
        ("gpu 0 GPU-a A\nat 0 0 5", "trace:2: 4 columns, where 11 are due"),
        ("gpu x GPU-a A", "trace:1: invalid literal for int() with base 10: 'x'"),
    ],
)
def test_trace_that_is_none_is_refused_with_its_line(line, reason):
    with pytest.raises(HosttuneError) as caught:
        replay.parse(line)
    assert caught.value.message == reason


def test_watch_judges_by_what_nvml_says(libraries, tmp_path):
    """The whole command, from the library to the verdict and the picture."""
    trace, seen, picture = (tmp_path / name for name in ("trace", "seen.json", "run.html"))
    trace.write_text(
        "gpu 0 GPU-aaaa NVIDIA H100\nat 0 0 96 61440 81559 600 700 1755 0x4 none\n",
        encoding="utf-8",
    )
    words = [
        "watch",
        "--no-live",
        "--hz",
        "5",
        "--warm-up",
        "0",
        "--format",
        "json",
        "--output",
        seen,
        "--plot",
        picture,
    ]
    done = subprocess.run(
        (sys.executable, "-m", "hosttune", *words, "--", sys.executable, "-c", "import time; time.sleep(8); raise SystemExit(3)"),
        check=False, capture_output=True, text=True, timeout=120, cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries["new"]), "FAKE_NVML_TRACE": str(trace)},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    told = json.loads(seen.read_text(encoding="utf-8"))
    assert told["watched"]["gpu_source"] == "nvml"
    assert (told["verdict"]["outcome"], told["verdict"]["state"]) == ("one", "GPU")
    assert told["gpus"][0]["power_w"] == 600
    assert told["gpus"][0]["name"] == "NVIDIA H100"
    assert "busy <small>96</small>" in picture.read_text(encoding="utf-8")
