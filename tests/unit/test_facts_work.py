"""Running GPU work: holders of devices, containers, scheduler jobs."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL
from hosttune.facts.work import container_of, has_gpu, is_work, jobs_of
from hosttune.host.door import Process
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

DOCKER_ID = "3f2a" * 16
DOCKER = f"/system.slice/docker-{DOCKER_ID}.scope"
GPU = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""}


def process(pid, name="python3", *, devices=(), cgroup="/", command=None, user="alice"):
    return Process(pid, name, user, command or (name, "train.py"), 0, 0, tuple(devices), cgroup, 0.0)


def work(*processes, files=None, pid_namespace=INITIAL["pid"], **options):
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()} | {"/proc/self/ns/pid": pid_namespace}
    reader = FakeReader(GPU | (files or {}), links=links, processes=tuple(processes), **options)
    return Facts(reader).work


def test_work_without_gpu_devices_looks_at_no_process():
    seen = Facts(FakeReader({"/dev/null": ""}, processes=Unreadable("never asked"))).work
    assert (seen.is_gpu_busy, seen.gpu_processes, seen.gpu_containers, seen.scheduler_jobs) == (False, (), (), ())
    assert "no /dev/nvidia0" in seen.evidence[0]


def test_work_holder_of_a_gpu_is_busy():
    seen = work(process(7, devices=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3")))
    assert seen.is_gpu_busy
    assert (seen.gpu_processes[0].pid, seen.gpu_processes[0].user, seen.gpu_processes[0].command) == (
        7,
        "alice",
        "python3 train.py",
    )
    assert seen.evidence == ("process 7 (python3, alice) holds a GPU",)
    assert seen.gpu_processes[0].gpus == ("/dev/nvidia3",)


def test_work_holder_of_a_gpu_tells_what_of_it_lies_in_swap():
    swapped = Process(7, "python3", "alice", ("python3",), 1, 4096, ("/dev/nvidia0",), "/", 0.0)
    assert work(swapped).gpu_processes[0].swap_bytes == 4096


@pytest.mark.parametrize(
    ("name", "devices", "expected"),
    [
        ("python3", ("/dev/nvidia0",), True),
        ("python3", ("/dev/nvidia-uvm",), True),
        ("python3", ("/dev/nvidiactl",), False),
        ("python3", ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools"), False),
        ("nvidia-persistenced", ("/dev/nvidia0",), False),
        ("nvidia-persiste", ("/dev/nvidia0",), False),
        ("nv-hostengine", ("/dev/nvidia-uvm", "/dev/nvidia0"), False),
        ("Xorg", ("/dev/nvidia0", "/dev/nvidia-modeset"), False),
        ("gnome-shell", ("/dev/nvidia0",), False),
    ],
)
def test_is_work_tells_computing_from_watching(name, devices, expected):
    assert is_work(process(1, name, devices=devices)) is expected


def test_work_only_daemons_is_idle_and_says_so():
    seen = work(process(1, "nvidia-persistenced", devices=("/dev/nvidia0",)), process(2, "bash"))
    assert seen.is_gpu_busy is False
    assert seen.evidence == ("no process holds a GPU, no container has one, no scheduler job runs",)


@pytest.mark.parametrize(
    ("cgroup", "name"),
    [
        (DOCKER, "docker 3f2a3f2a3f2a"),
        (f"/docker/{DOCKER_ID}", "docker 3f2a3f2a3f2a"),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{DOCKER_ID}.scope", "containerd 3f2a3f2a3f2a"),
        (f"/kubepods/besteffort/pod12-34/{DOCKER_ID}", "containerd 3f2a3f2a3f2a"),
        (f"/kubepods.slice/crio-{DOCKER_ID}.scope/container", "crio 3f2a3f2a3f2a"),
        (f"/user.slice/user-1000.slice/libpod-{DOCKER_ID}.scope/container", "podman 3f2a3f2a3f2a"),
        ("/lxc.payload.web1/init.scope", "lxc web1"),
        ("/machine.slice/systemd-nspawn@build.service/payload", "systemd-nspawn build"),
        (f"/docker/{'ab12' * 16}/kubelet/kubepods/pod1/{DOCKER_ID}", "containerd 3f2a3f2a3f2a"),
        ("/system.slice/docker.service", ""),
        ("/system.slice/containerd.service", ""),
        ("/user.slice", ""),
    ],
)
def test_container_of_control_group(cgroup, name):
    assert container_of(cgroup) == name


def test_work_container_that_computes_is_named():
    seen = work(process(7, devices=("/dev/nvidia0",), cgroup=DOCKER))
    assert seen.gpu_containers == ("docker 3f2a3f2a3f2a",)


def test_work_idle_container_with_a_gpu_counts_as_busy():
    seen = work(process(8, "sleep", cgroup=DOCKER), files={"/proc/8/root/dev/nvidia0": "", "/proc/8/root/dev/null": ""})
    assert seen.gpu_processes == ()
    assert seen.gpu_containers == ("docker 3f2a3f2a3f2a",)
    assert seen.is_gpu_busy
    assert seen.evidence == ("the container docker 3f2a3f2a3f2a has a GPU",)


def test_work_container_without_a_gpu_is_no_work():
    assert work(process(8, "nginx", cgroup=DOCKER), files={"/proc/8/root/dev/null": ""}).is_gpu_busy is False


def test_work_container_of_a_monitor_is_no_work():
    seen = work(
        process(8, "dcgm-exporter", devices=("/dev/nvidia0",), cgroup=DOCKER), files={"/proc/8/root/dev/nvidia0": ""}
    )
    assert seen.is_gpu_busy is False


def test_privileged_container_that_sees_all_devices_was_not_given_a_gpu():
    assert has_gpu(("null", "nvidia0"))
    assert not has_gpu(("null", "nvidia0", "mem", "kmsg"))
    assert not has_gpu(("nvidiactl", "nvidia-uvm"))


def test_work_container_that_cannot_be_looked_into_is_unknown_not_idle():
    seen = work(process(8, "sleep", cgroup=DOCKER), unreadable={"/proc/8/root": "permission denied"})
    assert seen.gpu_processes == ()
    for name in ("gpu_containers", "is_gpu_busy"):
        with pytest.raises(UnknownFact, match="permission denied"):
            getattr(seen, name)


@pytest.mark.parametrize(
    ("cgroup", "command", "job"),
    [
        ("/slurm/uid_1000/job_4711/step_0/task_0", None, "slurm job 4711"),
        ("/slurm_node7/uid_1000/job_4711/step_batch", None, "slurm job 4711"),
        ("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", None, "slurm job 4711"),
        ("/system.slice/slurmd.service", ("slurmstepd: [4711.extern]",), "slurm job 4711"),
        ("/pbs_jobs.service/jobid/99.server", None, "pbs job 99.server"),
    ],
)
def test_jobs_of_schedulers(cgroup, command, job):
    assert jobs_of([process(1, cgroup=cgroup, command=command)]) == (job,)
    assert work(process(1, cgroup=cgroup, command=command)).is_gpu_busy


def test_jobs_of_an_idle_slurm_node_are_none():
    assert (
        jobs_of([process(1, "slurmd", cgroup="/system.slice/slurmd.service"), process(2, cgroup="/slurm/system")]) == ()
    )


def test_work_for_an_ordinary_user_is_unknown_unless_something_is_seen():
    seen = work(process(7, "bash"), is_privileged=False)
    for name in ("gpu_processes", "gpu_containers", "scheduler_jobs", "is_gpu_busy"):
        with pytest.raises(UnknownFact, match="needs root"):
            getattr(seen, name)
    own = work(process(7, devices=("/dev/nvidia0",)), is_privileged=False)
    assert own.is_gpu_busy
    assert own.evidence[0] == "process 7 (python3, alice) holds a GPU"


def test_work_inside_a_container_is_unknown():
    seen = work(process(7, "bash"), pid_namespace="pid:[4026532999]")
    with pytest.raises(UnknownFact, match="does not see the processes of its host"):
        _ = seen.is_gpu_busy


def test_work_of_an_image_is_none():
    reader = FakeReader(GPU, kind="root", persistent_only=True, processes=Unreadable("none"))
    assert Facts(reader).work.is_gpu_busy is False


def test_work_without_a_process_list_is_unknown():
    seen = Facts(FakeReader(GPU, processes=Unreadable("not in this record"))).work
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = seen.is_gpu_busy
