"""What a person does about a GPU: a step on each line, in the order in which they work on that
host.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.gpu_errors import ACTIONS
from hosttune.facts.gpu.ways_out import (
    RUN_REPORT,
    WAYS,
    RecoveryPlace,
    find_place,
    take_again,
    way_of,
)
from hosttune.values import join_steps, steps_of
from tests.unit.fake_reader import FakeReader

SLOT = "0000:1b:00.0"
RESET = f"reset the GPU: sudo nvidia-smi -r -i {SLOT}"


def steps(action, **place):
    return steps_of(way_of((action,), SLOT, RecoveryPlace(**place)))


@pytest.mark.parametrize("action", [*WAYS, *ACTIONS.values()])
def test_every_action_has_steps_and_each_is_one_line(action):
    assert steps(action)
    assert all(step.strip() == step and ";" not in step for step in steps(action))


def test_no_step_keeps_the_script_in_place_of_its_output():
    for action in WAYS:
        assert not any(step.startswith("keep nvidia-bug-report") for step in steps(action))
    assert f"{RUN_REPORT}: sudo nvidia-bug-report.sh" in steps("RESET_GPU")


def test_the_action_that_asks_for_most_decides():
    place = RecoveryPlace()
    assert way_of(("RESET_GPU", "REPLACE_BOARD", "LATER"), SLOT, place) == way_of(
        ("REPLACE_BOARD",), SLOT, place
    )
    assert way_of(("DRAIN_RESET", "RESTART_BM"), SLOT, place) == way_of(
        ("RESTART_BM",), SLOT, place
    )
    assert way_of((), SLOT, place) == ""
    assert way_of(("a word of tomorrow",), SLOT, place) == way_of(("CONTACT_SUPPORT",), SLOT, place)


def test_what_was_switched_off_for_a_reset_is_switched_on_again():
    found = steps("RESET_GPU", is_persistence_kept=True)
    off, on = (
        next(i for i, step in enumerate(found) if step.endswith(f"-pm {mode}")) for mode in (0, 1)
    )
    assert off < found.index(RESET) < on


def test_fabric_manager_of_a_container_is_no_service_of_the_host():
    found = steps("RESET_FABRIC", is_kubernetes=True, driver_root="/run/nvidia/driver")
    assert not any("systemctl" in step for step in found)
    assert any(step.endswith(": sudo reboot") for step in found)


def test_way_of_a_suspect_board_has_the_programs_of_the_driver_that_is_here():
    found = steps("SUSPECT_BOARD", has_dcgm=True, driver_root="/run/nvidia/driver")
    assert f"{RUN_REPORT}: sudo chroot /run/nvidia/driver nvidia-bug-report.sh" in found
    assert "test the GPU: sudo dcgmi diag -r 3" in found
    assert not any("reset" in step for step in found)


def test_what_watches_the_gpu_stops_before_the_reset_and_starts_after_it():
    found = steps("RESET_GPU", monitors=("nvidia-dcgm.service",), displays=("gdm.service",))
    order = [
        "stop what watches the GPU: sudo systemctl stop nvidia-dcgm.service",
        "end the desktop and its sessions: sudo systemctl stop gdm.service",
        RESET,
        "start it again: sudo systemctl start nvidia-dcgm.service",
    ]
    assert [step for step in found if step in order] == order


def test_slurm_node_is_drained_by_slurm():
    first = steps("RESET_GPU", host="gpu01.example", is_slurm=True)[0]
    assert (
        first
        == f"drain the node: sudo scontrol update NodeName=gpu01 State=DRAIN Reason='GPU {SLOT}'"
    )


def test_kubernetes_node_gets_the_way_of_kubernetes():
    found = steps(
        "RESET_GPU",
        host="GPU01",
        is_kubernetes=True,
        has_operator=True,
        driver_root="/run/nvidia/driver",
    )
    assert found[0].endswith(": kubectl drain gpu01 --ignore-daemonsets --delete-emptydir-data")
    assert "deletes the emptyDir volumes" in found[0]
    off = next(at for at, step in enumerate(found) if "deploy.dcgm-exporter=false" in step)
    reset = found.index(f"reset the GPU: sudo chroot /run/nvidia/driver nvidia-smi -r -i {SLOT}")
    on = next(at for at, step in enumerate(found) if "deploy.dcgm-exporter=true" in step)
    assert off < reset < on
    assert not any("systemctl" in step for step in found)


def test_node_of_google_has_the_drivers_programs_in_a_folder_of_their_own():
    found = steps("RESET_GPU", is_kubernetes=True, driver_root="/home/kubernetes/bin/nvidia")
    smi = "sudo env LD_LIBRARY_PATH=/home/kubernetes/bin/nvidia/lib64 /home/kubernetes/bin/nvidia/bin/nvidia-smi"
    assert f"reset the GPU: {smi} -r -i {SLOT}" in found


def test_guest_is_not_sent_to_the_power_switch():
    assert not any("power the host" in step for step in steps("RESTART_BM", is_vm=True))
    assert any("power the host off and on" in step for step in steps("RESTART_BM"))
    assert not any("nvidia-smi -r" in step for step in steps("RESET_GPU", is_vgpu=True))


class Here:
    """The facts that a way out asks for."""

    def __init__(self, running=(), **managers):
        self.managers = SimpleNamespace(
            **{"gpu_operator": False, "kubelet": False, "slurm": False, **managers}
        )
        self.processes = {
            name: SimpleNamespace(commands=("x",) if name in running else ())
            for name in ("nv-hostengine", "dcgm-exporter", "nvidia-persistenced")
        }
        self.host = SimpleNamespace(hostname="gpu01", is_vm=False)
        self.nvidia = SimpleNamespace(is_vgpu=False)
        self.dcgm = SimpleNamespace(version="4.2.3")


def reader(*services, **more):
    return FakeReader(
        files={f"/sys/fs/cgroup/system.slice/{name}/cgroup.procs": "1\n" for name in services},
        **more,
    )


GKE = "/home/kubernetes/bin/nvidia"
BESIDE = (f"{GKE}/bin/nvidia-smi", f"{GKE}/lib64/libnvidia-ml.so.1")


@pytest.mark.parametrize(
    ("files", "root"),
    [
        (BESIDE, GKE),
        ((*BESIDE, "/usr/bin/nvidia-smi"), ""),
        ((*BESIDE, "/run/nvidia/driver/usr/bin/nvidia-smi"), "/run/nvidia/driver"),
    ],
)
def test_programs_of_the_driver_are_found_where_another_one_put_them(files, root):
    assert find_place(FakeReader(files=dict.fromkeys(files, "")), Here()).driver_root == root


@pytest.mark.parametrize("place", ["/home/kubernetes", f"{GKE}/lib64", f"{GKE}/bin/nvidia-smi"])
@pytest.mark.parametrize(("uid", "mode"), [(1001, 0o755), (0, 0o775)])
def test_program_that_a_user_could_put_there_is_in_no_step(place, uid, mode):
    """A user can be called kubernetes, and has that home: the steps are typed with sudo."""
    reader = FakeReader(files=dict.fromkeys(BESIDE, ""))
    reader.stats[place] = replace(reader.stat(place), uid=uid, mode=mode)
    found = find_place(reader, Here())
    assert not any("/home/" in step for step in steps_of(way_of(("RESET_GPU",), SLOT, found)))


def test_services_that_hold_gpus_are_found_by_their_control_groups():
    names = (
        "nvidia-dcgm.service",
        "dcgm-exporter.service",
        "nvidia_gpu_exporter.service",
        "gdm3.service",
        "ssh.service",
    )
    place = find_place(reader(*names), Here(running=("nv-hostengine",)))
    assert place.monitors == (
        "dcgm-exporter.service",
        "nvidia-dcgm.service",
        "nvidia_gpu_exporter.service",
    )
    assert place.displays == ("gdm3.service",)
    assert place.contained == ()  # the service has started it


def test_dcgm_of_a_container_is_named():
    place = find_place(reader("docker.service"), Here(running=("nv-hostengine",)))
    assert place.contained == ("nv-hostengine",)
    assert any(
        "stop the container that runs nv-hostengine" in step
        for step in steps_of(way_of(("RESET_GPU",), SLOT, place))
    )


def test_persistence_daemon_of_the_host_lets_go_by_itself():
    running = Here(running=("nvidia-persistenced",))
    assert not find_place(reader("nvidia-persistenced.service"), running).is_persistence_kept
    assert find_place(reader("docker.service"), running).is_persistence_kept


def test_what_cannot_be_read_leaves_the_plain_way():
    def unknown(*_):
        raise UnknownFact("no")

    class Blind:
        def __getattr__(self, name):
            unknown()

    place = find_place(FakeReader(unreadable={"/sys/fs/cgroup/system.slice": "no"}), Blind())
    assert RESET in steps_of(way_of(("RESET_GPU",), SLOT, place))


def test_steps_of_several_ways_out_are_named_once():
    assert join_steps(("a\nb", "", "b\n c ")) == "a\nb\nc"


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\r", "\v", "\f", "\x1c"])
def test_name_of_a_file_begins_no_step(sign):
    """A user could else have a command of theirs printed as a step."""
    assert steps_of(f"remove /srv/a{sign}sudo sh /srv/b") == (f"remove /srv/a{sign}sudo sh /srv/b",)


def node(host="Node7.example.org", *, kubelet=False, slurm=False):
    return SimpleNamespace(
        host=SimpleNamespace(hostname=host),
        managers=SimpleNamespace(kubelet=kubelet, slurm=slurm, gpu_operator=False),
    )


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        (node(kubelet=True), "kubectl uncordon node7.example.org"),
        (node(slurm=True), "sudo scontrol update NodeName=Node7 State=RESUME"),
        (node("", slurm=True), "sudo scontrol update NodeName=NODE State=RESUME"),
    ],
)
def test_drained_node_takes_work_again_by_the_command_of_its_scheduler(facts, command):
    for way in (
        "drain the node\nreboot",
        "on a drained node: sudo modprobe -r gdrdrv",
        "cordon and drain the node",
    ):
        assert take_again(way, facts).endswith(f": {command}")


def test_what_drains_nothing_or_says_it_already_gets_no_such_step():
    facts = node(slurm=True)
    assert (
        take_again("unless it was drained: sudo nvidia-smi drain -q -p 0000:43:00.0", facts) == ""
    )
    assert take_again("drain the node\nsudo scontrol update NodeName=x State=RESUME", facts) == ""
    assert take_again("drain the node\nreboot", node()) == ""
