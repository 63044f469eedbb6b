"""Running GPU work: holders of devices, containers, scheduler jobs."""

import os
from dataclasses import replace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL
from hosttune.facts.processes import container_of
from hosttune.facts.work import has_gpu, is_work, jobs_of
from hosttune.host.door import Process, Stat
from hosttune.host.reading.bounded import CUT
from hosttune.values import TooLong, Unreadable
from tests.unit.fake_reader import FakeReader

DOCKER_ID = "3f2a" * 16
DOCKER = f"/system.slice/docker-{DOCKER_ID}.scope"
GPU = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""}


GIVEN = {("devices-of", DOCKER_ID): '["null", "nvidia0"]'}
MOUNTED = "900 899 0:6 /nvidia0 /dev/nvidia0 ro,nosuid - devtmpfs udev rw,size=64k\n"


def process(
    pid, name="python3", *, devices=(), cgroup="/", command=None, user="alice", uid=1001, program=""
):
    words = command or (name, "train.py")
    return Process(
        pid, name, user, words, 0, 0, tuple(devices), cgroup, 0.0, uid=uid, program=program
    )


def daemon(pid, name, **more):
    return process(pid, name, **{"user": "root", "uid": 0, "program": f"/usr/bin/{name}", **more})


def work(*processes, files=None, pid_namespace=INITIAL["pid"], **options):
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()} | {
        "/proc/self/ns/pid": pid_namespace
    }
    reader = FakeReader(GPU | (files or {}), links=links, processes=tuple(processes), **options)
    return Facts(reader).work


def test_work_without_gpu_devices_looks_at_no_process():
    seen = Facts(FakeReader({"/dev/null": ""}, processes=Unreadable("never asked"))).work
    assert (seen.is_gpu_busy, seen.gpu_processes, seen.gpu_containers, seen.scheduler_jobs) == (
        False,
        (),
        (),
        (),
    )
    assert "no /dev/nvidia0" in seen.evidence[0]


def test_work_on_a_gpu_of_amd_is_work():
    """ROCm computes through /dev/kfd; what only draws or watches has a node below /dev/dri."""
    busy, idle = (
        Facts(FakeReader({"/dev/kfd": ""}, links={f"/proc/self/ns/{name}": text for name, text in INITIAL.items()},
                         processes=(process(7, devices=devices),))).work
        for devices in (("/dev/kfd", "/dev/dri/renderD128"), ("/dev/dri/renderD128",))
    )  # fmt: skip
    assert (busy.is_gpu_busy, busy.evidence) == (True, ("process 7 (python3, alice) holds a GPU",))
    assert idle.is_gpu_busy is False
    assert has_gpu(("null", "kfd"))


def test_work_holder_of_a_gpu_is_busy():
    seen = work(process(7, devices=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3")))
    assert seen.is_gpu_busy
    assert (
        seen.gpu_processes[0].pid,
        seen.gpu_processes[0].user,
        seen.gpu_processes[0].command,
    ) == (
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
    assert is_work(daemon(1, name, devices=devices)) is expected
    assert is_work(process(1, name, devices=devices)) is any(
        one.endswith(("nvidia0", "nvidia-uvm")) for one in devices
    )


@pytest.mark.parametrize(
    ("name", "uid", "program", "expected"),
    [
        ("nvidia-smi", 1001, "", True),
        (
            "nvidia-smi",
            1001,
            "/usr/bin/nvidia-smi",
            True,
        ),  # what LD_PRELOAD brings into it is the user's
        ("nv-hostengine", 998, "/usr/bin/nv-hostengine", False),
        ("nv-hostengine", 998, "/usr/bin/python3.11", True),
        ("python3", 998, "/usr/bin/python3.11", True),
        ("nvitop", 0, "/usr/bin/python3.11", False),
        ("Xorg", 1001, "", True),
        ("Xorg", 1001, "/usr/lib/xorg/Xorg", False),
        ("python3", 1001, "/usr/bin/python3.11", True),
    ],
)
def test_what_a_process_calls_itself_hides_no_job(name, uid, program, expected):
    assert (
        is_work(process(1, name, devices=("/dev/nvidia0",), uid=uid, program=program)) is expected
    )


def test_job_of_a_container_s_root_is_not_hidden_by_its_name():
    job = daemon(
        1, "dcgm-exporter", devices=("/dev/nvidia0",), cgroup=DOCKER, program="/usr/bin/python3.11"
    )
    assert is_work(job)
    assert not is_work(replace(job, program="/usr/bin/dcgm-exporter"))


def test_title_of_a_batch_job_counts_of_root_s_slurmstepd_alone():
    title = ("slurmstepd: [4711.0]",)
    for found in (
        process(1, "bash", command=title),
        process(1, "slurmstepd", command=title, program="/usr/sbin/slurmstepd"),
        process(1, "slurmstepd", command=title, uid=0, program="/usr/bin/sudo"),
    ):
        assert jobs_of([found]) == ()
        assert not work(found).is_gpu_busy
    assert jobs_of([daemon(1, "slurmstepd", command=title)]) == ("slurm job 4711",)
    assert work(
        daemon(1, "slurmstepd", command=title, program="/opt/slurm/sbin/slurmstepd (deleted)")
    ).is_gpu_busy


def test_step_daemon_whose_title_cannot_be_read_counts_as_a_job():
    assert jobs_of(
        [daemon(1, "slurmstepd", command=(CUT,)), process(2, "slurmstepd", command=(CUT,))]
    ) == ("slurm job ?",)
    with pytest.raises(UnknownFact, match="command line of process 1"):
        _ = (
            Facts(FakeReader(processes=(daemon(1, "slurmd", command=(CUT,)),)))
            .processes["slurmd"]
            .commands
        )


def test_root_of_a_container_is_no_daemon_of_the_host():
    """In the mount namespace of a container any file has any path."""
    title = ("slurmstepd: [4711.0]",)
    step = daemon(
        1, "slurmstepd", command=title, cgroup=DOCKER, program="container:/usr/sbin/slurmstepd"
    )
    assert jobs_of([step]) == ()
    monitor = daemon(
        1, "dcgm-exporter", devices=("/dev/nvidia0",), program="container:/usr/bin/dcgm-exporter"
    )
    assert not is_work(monitor)
    assert is_work(replace(monitor, program="container:/usr/bin/python3.11"))
    listed = FakeReader(processes=(daemon(1, "slurmd", program="container:/usr/sbin/slurmd"),))
    assert Facts(listed).processes["slurmd"].commands == ()


@pytest.mark.parametrize(
    "cgroup",
    [
        "/user.slice/user-1001.slice/user@1001.service/slurm/uid_1001/job_4711/step_0",
        "/user.slice/user-1001.slice/user@1001.service/app.slice/slurmstepd.scope/job_4711",
        "/user.slice/user-1001.slice/user@1001.service/pbs.slice/jobid/99.server",
        f"/system.slice/docker-{DOCKER_ID}.scope/slurm/job_4711",
    ],
)
def test_control_group_below_one_of_a_user_is_no_job(cgroup):
    assert jobs_of([process(1, cgroup=cgroup)]) == ()


def test_container_that_a_user_may_have_named_counts_by_who_holds_a_gpu():
    own = f"/user.slice/user-1001.slice/user@1001.service/app.slice/docker-{DOCKER_ID}.scope"
    seen = work(process(8, "sleep", cgroup=own), queries=GIVEN)
    assert (seen.gpu_containers, seen.is_gpu_busy) == ((), False)
    busy = work(process(8, cgroup=own, devices=("/dev/nvidia0",)), queries=GIVEN)
    assert (busy.gpu_containers, busy.is_gpu_busy) == ((), True)
    given = Stat("directory", 0o755, 1001, 1001, 0, 0, 1, 1, 1)
    delegated = {"/sys/fs/cgroup/system.slice/run-7.service": given}
    cgroup = f"/system.slice/run-7.service/docker-{DOCKER_ID}.scope"
    assert (
        work(process(8, "sleep", cgroup=cgroup), queries=GIVEN, stats=delegated).gpu_containers
        == ()
    )
    assert work(process(8, "sleep", cgroup=cgroup), queries=GIVEN).gpu_containers != ()


def test_user_who_gives_a_group_the_name_of_a_container_does_not_hide_its_gpu():
    own = f"/user.slice/user-1001.slice/user@1001.service/app.slice/docker-{DOCKER_ID}.scope"
    for pid, program in ((7, ""), (9, "/usr/bin/Xwayland")):
        user = process(pid, "Xwayland", cgroup=own, program=program)
        seen = work(user, process(8, "sleep", cgroup=DOCKER), queries=GIVEN)
        assert seen.gpu_containers == ("docker 3f2a3f2a3f2a",)


@pytest.mark.parametrize(
    "mount",
    [
        MOUNTED.replace("devtmpfs", "tmpfs"),
        MOUNTED.replace("/dev/nvidia0", "/mnt/nvidia0"),
        MOUNTED.replace(" /dev/nvidia0", " /dev"),
    ],
)
def test_what_a_container_has_in_its_dev_without_its_engine_is_no_gpu(mount):
    """Its root can make a node there, or lead the folder elsewhere: it is not looked at."""
    node = Stat("character", 0o666, 0, 0, 0, 0, 1, 1, 1, rdev=os.makedev(195, 0))
    files = {"/proc/8/root/dev/nvidia0": "", "/proc/8/mountinfo": mount}
    seen = work(
        process(8, "sleep", cgroup=DOCKER), files=files, stats={"/proc/8/root/dev/nvidia0": node}
    )
    assert (seen.gpu_containers, seen.is_gpu_busy) == ((), False)


def test_engine_whose_word_cannot_be_read_makes_it_unknown():
    seen = work(
        process(8, "sleep", cgroup=DOCKER),
        queries={("devices-of", DOCKER_ID): Unreadable("no answer")},
    )
    with pytest.raises(
        UnknownFact, match="whether the container docker 3f2a3f2a3f2a has a GPU: no answer"
    ):
        _ = seen.is_gpu_busy


def test_older_record_does_not_tell_who_is_what_he_calls_himself():
    job = process(7, devices=("/dev/nvidia0",), uid=-1)
    for found in (
        process(8, "nvidia-smi", devices=("/dev/nvidia0",), uid=-1),
        process(8, command=("slurmstepd: [7.0]",), uid=-1),
    ):
        with pytest.raises(UnknownFact, match="process 8 is what it calls itself is not known"):
            _ = work(found).is_gpu_busy
        assert work(found, job).is_gpu_busy
    assert work(process(8, "nvidia-smi", uid=-1)).is_gpu_busy is False


def test_work_only_daemons_is_idle_and_says_so():
    seen = work(daemon(1, "nvidia-persistenced", devices=("/dev/nvidia0",)), process(2, "bash"))
    assert seen.is_gpu_busy is False
    assert seen.evidence == ("no process holds a GPU, no container has one, no scheduler job runs",)


@pytest.mark.parametrize(
    ("cgroup", "name"),
    [
        (DOCKER, "docker 3f2a3f2a3f2a"),
        (f"/docker/{DOCKER_ID}", "docker 3f2a3f2a3f2a"),
        (
            f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{DOCKER_ID}.scope",
            "containerd 3f2a3f2a3f2a",
        ),
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


@pytest.mark.parametrize("by", [{"queries": GIVEN}, {"files": {"/proc/8/mountinfo": MOUNTED}}])
def test_work_idle_container_with_a_gpu_counts_as_busy(by):
    """Device plugins, CDI and --device are told to the runtime; NVIDIA's runtime mounts the
    nodes.
    """
    seen = work(process(8, "sleep", cgroup=DOCKER), **by)
    assert seen.gpu_processes == ()
    assert seen.gpu_containers == ("docker 3f2a3f2a3f2a",)
    assert seen.is_gpu_busy
    assert seen.evidence == ("the container docker 3f2a3f2a3f2a has a GPU",)


def test_work_container_without_a_gpu_is_no_work():
    assert (
        work(
            process(8, "nginx", cgroup=DOCKER), queries={("devices-of", DOCKER_ID): '["null"]'}
        ).is_gpu_busy
        is False
    )


def test_work_container_of_a_monitor_is_no_work():
    seen = work(
        daemon(8, "dcgm-exporter", devices=("/dev/nvidia0",), cgroup=DOCKER),
        queries=GIVEN,
    )
    assert seen.is_gpu_busy is False


@pytest.mark.parametrize("name", ["nvidia-smi", "nvtop", "Xorg"])
def test_monitor_or_display_that_people_start_in_their_container_hides_it_not(name):
    seen = work(
        process(8, "sleep", cgroup=DOCKER),
        daemon(9, name, cgroup=DOCKER),
        queries=GIVEN,
    )
    assert seen.gpu_containers == ("docker 3f2a3f2a3f2a",)


def test_root_of_a_container_runs_no_daemon_of_the_host():
    """In its mount namespace any file has any path."""
    step = daemon(8, "slurmstepd", command=("slurmstepd: [4711.0]",), cgroup=DOCKER)
    assert jobs_of([step]) == ()
    assert work(step).is_gpu_busy is False
    inside = daemon(8, "slurmd", command=("slurmd", "-f", "/root/private.conf"), cgroup=DOCKER)
    own = daemon(9, "slurmd", command=("slurmd", "-D"), cgroup="/system.slice/slurmd.service")
    untold = process(7, "slurmd", uid=101, cgroup=DOCKER)
    facts = Facts(FakeReader({}, processes=(untold, inside, own)))
    assert facts.processes["slurmd"].commands == ("slurmd -D",)


def test_privileged_container_that_sees_all_devices_was_not_given_a_gpu():
    assert has_gpu(("null", "nvidia0"))
    assert not has_gpu(("null", "nvidia0", "mem", "kmsg"))
    assert not has_gpu(("nvidiactl", "nvidia-uvm"))


LONG = {"unreadable": {"/proc/8/mountinfo": TooLong("/proc/8/mountinfo is larger than 1 MiB")}}


@pytest.mark.parametrize("told", [{}, {("devices-of", DOCKER_ID): '["null"]'}])
def test_container_that_makes_its_mount_table_too_long_holds_nothing(told):
    """Any user can, in a mount namespace of their own."""
    seen = work(process(8, "sleep", cgroup=DOCKER), queries=told, **LONG)
    assert (seen.gpu_containers, seen.is_gpu_busy) == ((), False)


def test_container_with_a_long_mount_table_has_the_gpu_that_its_engine_gave_it():
    assert work(process(8, "sleep", cgroup=DOCKER), queries=GIVEN, **LONG).gpu_containers == (
        "docker 3f2a3f2a3f2a",
    )


def test_node_that_a_container_mounts_under_the_name_of_a_gpu_is_none():
    table = "900 899 0:6 /null /dev/nvidia0 rw - devtmpfs udev rw\n"
    assert (
        work(process(8, "sleep", cgroup=DOCKER), files={"/proc/8/mountinfo": table}).is_gpu_busy
        is False
    )


def test_work_container_that_cannot_be_looked_into_is_unknown_not_idle():
    seen = work(
        process(8, "sleep", cgroup=DOCKER), unreadable={"/proc/8/mountinfo": "permission denied"}
    )
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
    one = (
        daemon(1, "slurmstepd", cgroup=cgroup, command=command)
        if command
        else process(1, cgroup=cgroup)
    )
    assert jobs_of([one]) == (job,)
    assert work(one).is_gpu_busy


def test_jobs_of_an_idle_slurm_node_are_none():
    assert (
        jobs_of(
            [
                process(1, "slurmd", cgroup="/system.slice/slurmd.service"),
                process(2, cgroup="/slurm/system"),
            ]
        )
        == ()
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


def test_user_with_too_many_open_files_hides_nothing_else():
    cut = process(7, "sleep", devices=(CUT,))
    seen = work(cut, process(8, cgroup="/slurm/uid_1/job_3"))
    assert (seen.scheduler_jobs, seen.is_gpu_busy) == (("slurm job 3",), True)
    assert "process 7 holds a GPU is not known: alice has too many files open" in seen.evidence[-1]
    with pytest.raises(UnknownFact, match="too many files open"):
        _ = work(cut).is_gpu_busy
    assert work(process(7, devices=("/dev/nvidia0", CUT))).gpu_processes
    assert Facts(FakeReader({}, processes=(cut, daemon(9, "slurmd")))).processes["slurmd"].commands


def test_work_without_a_process_list_is_unknown():
    seen = Facts(FakeReader(GPU, processes=Unreadable("not in this record"))).work
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = seen.is_gpu_busy
