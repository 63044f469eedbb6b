"""NVIDIA's own bindings on a library that shows a trace: what they deliver is what the trace
says.
"""

from __future__ import annotations

import pytest

from hosttune.codec import to_json
from hosttune.measure.gpu import replay

H100 = "gpu 0 GPU-aaaa NVIDIA H100 80GB HBM3\n"
BUSY = "at 0 0 97 61440 81559 412.5 700 1755 0x4 4242,4243\n"
TWO = H100 + "gpu 1 GPU-bbbb NVIDIA H100 80GB HBM3\ngpu 2 GPU-cccc NVIDIA H100 80GB HBM3\n"
MIG = (
    "gpu 0 GPU-aaaa NVIDIA A100-SXM4-40GB\nmig 0/0 MIG-1111 NVIDIA A100-SXM4-40GB MIG 3g.20gb\n"
    "mig 0/2 MIG-2222 NVIDIA A100-SXM4-40GB MIG 3g.20gb\n"
    "at 0 0 - 22 40960 96.4 400 1410 0x0 -\n"
    "at 0 0/0 - 9000 19968 - - - - 77\nat 0 0/2 - 12 19968 - - - - none\n"
)


def shown(trace: str, seconds: float = 0.0) -> list[dict[str, object]]:
    return [to_json(sample) for sample in replay.parse(trace).at(seconds)]


def test_nvml_busy_gpu_gives_every_value(child):
    (gpu,) = child(H100 + BUSY)["looks"][0]
    assert gpu == {
        "index": 0, "uuid": "GPU-aaaa", "name": "NVIDIA H100 80GB HBM3", "util_percent": 97.0,
        "memory_used_bytes": 61440 << 20, "memory_total_bytes": 81559 << 20, "power_w": 412.5, "power_limit_w": 700.0,
        "sm_clock_mhz": 1755, "reasons": ["power limit"], "pids": [4242, 4243], "is_mig": False, "lost": False,
    }  # fmt: skip


def test_nvml_is_read_through_the_bindings_of_nvidia(child):
    assert child(H100 + BUSY)["bindings"].endswith("/pynvml.py")


def test_nvml_trace_over_time_is_what_the_replay_says(child):
    trace = TWO + "".join(
        f"at {second} {index} {(second * 37 + index * 11) % 101} {second * 100} 81559 {70 + second}.25 700 {900 + second} 0x{second % 3} none\n"
        for second in range(4)
        for index in range(3)
    )
    assert child(trace, "4")["looks"] == [shown(trace, second) for second in range(4)]


def test_nvml_mig_gives_instances_with_memory_and_no_utilization(child):
    looks = child(MIG)["looks"]
    assert looks == [shown(MIG)]
    assert [(gpu["uuid"], gpu["is_mig"], gpu["util_percent"], gpu["memory_used_bytes"]) for gpu in looks[0]] == [
        ("GPU-aaaa", False, None, 22 << 20), ("MIG-1111", True, None, 9000 << 20), ("MIG-2222", True, None, 12 << 20),
    ]  # fmt: skip


def test_nvml_one_of_three_falls_off_the_bus_and_the_others_go_on(child):
    trace = TWO + "".join(
        f"at {second} {gpu} 50 1 81559 300 700 1700 0x0 none\n"
        for second in (0, 1, 2)
        for gpu in (0, 2)
    )
    trace += "at 0 1 50 1 81559 300 700 1700 0x0 none\nat 1 1 lost\nat 2 1 50 1 81559 300 700 1700 0x0 none\n"
    looks = child(trace, "3")["looks"]
    assert [[gpu["lost"] for gpu in look] for look in looks] == [
        [False, False, False], [False, True, False], [False, True, False],
    ]  # fmt: skip
    assert looks[2][1] == {
        **dict.fromkeys(looks[2][1]),
        "index": 1,
        "uuid": "GPU-bbbb",
        "name": "NVIDIA H100 80GB HBM3",
        "is_mig": False,
        "lost": True,
    }
    assert looks[2][2]["util_percent"] == 50


def test_nvml_gpu_lost_before_the_first_look_keeps_its_place(child):
    looks = child(TWO + BUSY, FAKE_NVML_REFUSE="handle/1=15")["looks"]
    assert [(gpu["index"], gpu["lost"]) for gpu in looks[0]] == [(0, False), (1, True), (2, False)]


def test_nvml_gpu_that_is_not_given_to_us_is_not_shown(child):
    assert [
        gpu["index"] for gpu in child(TWO + BUSY, FAKE_NVML_REFUSE="handle/1=4")["looks"][0]
    ] == [0, 2]


def test_nvml_value_that_is_not_supported_is_unknown_and_not_zero(child):
    (gpu,) = child(H100 + "at 0 0 12 - - - - - - -\n")["looks"][0]
    assert gpu["util_percent"] == 12
    unknown = (
        "memory_used_bytes",
        "memory_total_bytes",
        "power_w",
        "power_limit_w",
        "sm_clock_mhz",
        "reasons",
        "pids",
    )
    assert [gpu[name] for name in unknown] == [None] * len(unknown)


@pytest.mark.parametrize("code", [4, 999])
def test_nvml_refusal_of_one_function_leaves_the_others(code, child):
    (gpu,) = child(
        H100 + BUSY, FAKE_NVML_REFUSE=f"nvmlDeviceGetPowerUsage={code},nvmlDeviceGetName={code}"
    )["looks"][0]
    assert (gpu["power_w"], gpu["name"], gpu["util_percent"], gpu["power_limit_w"]) == (
        None,
        "",
        97.0,
        700.0,
    )


def test_nvml_of_an_old_driver_is_asked_by_the_older_functions(child):
    assert child(H100 + BUSY, library="old")["looks"] == [shown(H100 + BUSY)]


def test_nvml_processes_that_vanish_are_not_shown_at_a_later_look(child):
    trace = H100 + "".join(
        f"at {second} 0 9 1 81559 99 700 1700 0x0 {'4242' if second < 5 else 'none'}\n"
        for second in range(6)
    )
    assert [look[0]["pids"] for look in child(trace, "6")["looks"]] == [[4242]] * 5 + [[]]


def test_nvml_slow_answer_is_unknown_in_its_tick_and_known_in_the_next(child):
    told = child(H100 + BUSY, "2", FAKE_NVML_SLOW="nvmlDeviceGetPowerUsage=700")
    assert [look[0]["util_percent"] for look in told["looks"]] == [None, 97.0]
    assert told["looks"][0][0]["uuid"] == "GPU-aaaa"


def test_nvml_that_hangs_while_it_starts_is_given_up(child):
    assert child(H100, FAKE_NVML_SLOW="nvmlInitWithFlags=30000") == {
        "none": "NVML did not answer within 2 s",
        "is_final": False,
    }


@pytest.mark.parametrize(
    ("code", "reason", "is_final"),
    [
        ("9", "the NVIDIA driver is not loaded", True),
        (
            "18",
            "the driver and libnvidia-ml.so.1 are of different versions (upgraded and not rebooted since)",
            True,
        ),
        ("4", "this user may not ask NVML", False),
        ("999", "NVML: Unknown Error", False),
    ],
)
def test_nvml_that_does_not_start_says_why(code, reason, is_final, child):
    assert child(H100, FAKE_NVML_INIT=code) == {"none": reason, "is_final": is_final}


def test_nvml_without_a_gpu_is_none(child):
    assert child("")["none"] == "the NVIDIA driver has no GPU"


def test_nvml_without_its_library_is_none(child):
    assert child("", library="")["none"] == "libnvidia-ml.so.1 is not installed"


def test_nvml_foreign_module_is_named_and_not_used(child, tmp_path):
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "pynvml.py").write_text("def nvmlInit(): raise SystemExit('used')\n")
    reason = child(H100 + BUSY, path=folder)["none"]
    assert str(folder / "pynvml.py") in reason
    assert "is not nvidia-ml-py" in reason


def test_nvml_foreign_package_is_named_and_not_used(child, tmp_path):
    folder = tmp_path / "foreign" / "pynvml"
    folder.mkdir(parents=True)
    names = "nvmlInit = nvmlDeviceGetComputeRunningProcesses_v3 = nvmlDeviceGetMigDeviceHandleByIndex = nvmlMemory_v2 = 1\n"
    (folder / "__init__.py").write_text(names)
    assert "is not nvidia-ml-py" in child(H100 + BUSY, path=folder.parent)["none"]


def test_nvml_module_that_does_not_load_is_named(child, tmp_path):
    (tmp_path / "pynvml.py").write_text("import a_module_that_is_not_there_either\n")
    assert child(H100 + BUSY, path=tmp_path)["none"].startswith(
        "the module pynvml does not load (ModuleNotFoundError: "
    )


def test_nvml_bindings_that_are_not_installed_are_missed(child, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [x for x in sys.path if 'site-packages' not in x]\n"
    )
    assert child(H100 + BUSY, path=tmp_path)["none"] == "nvidia-ml-py is not installed"


@pytest.mark.parametrize(
    ("held", "reason"),
    [(2, ""), (3, ""), (8, "NVML shows 3 of the 8 GPUs that the driver holds: ")],
)
def test_nvml_says_how_many_gpus_do_not_answer(child, tmp_path, held, reason):
    for slot in range(held):
        (tmp_path / "gpus" / f"0000:{slot:02x}:00.0").mkdir(parents=True)
    told = child(TWO + BUSY, FAKE_GPUS=str(tmp_path / "gpus"))
    assert len(told["looks"][0]) == 3
    assert told["reason"].startswith(reason)
    assert bool(told["reason"]) is bool(reason)
