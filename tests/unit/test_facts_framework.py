"""Facts about jobs, the interpreters that they use, and what their GPUs do."""

import json

import pytest

from hosttune.facts import Facts, RequestedNames, UnknownFact
from hosttune.facts.framework.framework import parse
from hosttune.facts.gpu.activity import ASK
from hosttune.facts.gpu.activity import parse as parse_activity
from hosttune.facts.jobs import debug_in, quota_of
from hosttune.host.door import Completed, Process
from hosttune.host.processes import proc
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

FILES = {
    "/dev/nvidia0": "", "/proc/1/comm": "systemd\n", "/run/systemd/system/x": "", "/proc/self/cgroup": "0::/\n",
    "/proc/1/cgroup": "0::/\n",
}  # fmt: skip


def process(
    pid,
    parent=1,
    cpus=8,
    variables=(),
    user="alice",
    command=("python", "train.py"),
    cgroup="/a.slice",
):
    return Process(
        pid,
        "python",
        user,
        command,
        0,
        0,
        ("/dev/nvidia0",),
        cgroup,
        0.0,
        parent,
        cpus,
        tuple(variables),
    )


class Host(FakeReader):
    def __init__(self, *processes, **more):
        files = FILES | more.pop("files", {})
        super().__init__(files, processes=processes, **more)


def facts_of(*processes, asked=None, **more):
    facts = Facts(Host(*processes, **more), asked)
    facts.__dict__["host"] = type("H", (), {"is_container": False})
    return facts


def test_forks_of_a_rank_are_its_workers():
    jobs = facts_of(process(7), process(8, parent=7), process(9, parent=8), process(20)).jobs
    assert [(rank.pid, rank.workers) for rank in jobs.ranks] == [(7, 2), (20, 0)]
    assert jobs.workers == 2


def test_processes_that_name_each_other_as_parents_end():
    assert len(facts_of(process(7, parent=8), process(8, parent=7)).jobs.ranks) >= 1


def test_quota_of_a_group_above_counts_and_is_shared():
    files = {
        "/sys/fs/cgroup/a.slice/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/a.slice/b/cpu.max": "150000 100000\n",
    }
    jobs = facts_of(
        process(7, cgroup="/a.slice/b/c"), process(9, cgroup="/a.slice/b/c"), files=files
    ).jobs
    assert ([rank.cpus for rank in jobs.ranks], jobs.cpus) == ([1.5, 1.5], 1.5)


def test_ranks_without_a_quota_share_the_cpus_of_the_widest():
    assert facts_of(process(7, cpus=8), process(9, cpus=16)).jobs.cpus == 16


def test_cpus_that_are_not_known_make_no_sum():
    assert facts_of(process(7, cpus=0)).jobs.cpus == 0


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000\n", None), ("50000 100000\n", 0.5), ("1 0", None), ("", None)]
)
def test_quota_is_a_share_of_its_period(text, cpus):
    assert quota_of(text) == cpus


def test_variables_that_mean_off_are_no_debugging():
    assert debug_in(("CUDA_LAUNCH_BLOCKING=0", "NCCL_DEBUG=INFO", "SECRET_TOKEN=x")) == ()
    assert debug_in(("PYTORCH_USE_CUDA_DSA=1",)) == (
        "PYTORCH_USE_CUDA_DSA (asserts on the device)",
    )
    assert (
        debug_in(("TORCH_USE_CUDA_DSA=1",)) == ()
    )  # a switch of PyTorch's build; no program reads it
    assert debug_in(("CUDA_INJECTION64_PATH=(set)",)) == (
        "CUDA_INJECTION64_PATH (loads a profiler or debugger)",
    )


def test_environment_of_a_process_gives_known_names_and_plain_values_alone(tmp_path):
    text = "AWS_SECRET=hunter2\0NCCL_DEBUG=INFO\0CUDA_INJECTION64_PATH=/home/a/x.so\0TOKEN=t\0OMP_NUM_THREADS=4\0"
    (tmp_path / "environ").write_text(text)
    assert proc._read_variables(str(tmp_path)) == (
        "CUDA_INJECTION64_PATH=(set)",
        "NCCL_DEBUG=INFO",
        "OMP_NUM_THREADS=4",
    )


def test_cpus_of_a_process_are_the_length_of_its_list():
    assert proc._count_cpus(["Name:\tx", "Cpus_allowed_list:\t0-3,8,10-11"]) == 7


def test_answer_is_the_last_object_after_whatever_a_user_prints():
    said = parse(
        '{"python": "9"}\nhello\n{"python": "3.12", "torch": "2.9.1+cu130", "cuda": "13.0"}\n', "x"
    )
    assert (said.python, said.has_torch, said.oldest_driver) == ("3.12", True, 580)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"a":' * 5000, '{"python": NaN'])
def test_answer_that_is_none_is_a_problem(text):
    assert parse(text, "x").problem


def test_answer_of_a_user_is_bounded_masked_and_has_no_control_characters():
    said = parse(
        json.dumps(
            {
                "torch": "\x1b[31m2.9\n" + "x" * 5000, "error": "password=hunter2", "devices": 10**9, "available": "yes",
                "architectures": ["sm_90", "$(id)", 7] * 500, "cuda": ["13"], "python": {"a": 1},
            }
        ),
        "x",
    )  # fmt: skip
    assert len(said.torch) <= 200
    assert said.torch.isprintable()
    assert "hunter2" not in said.problem
    assert (said.devices, said.is_available, said.cuda, said.python) == (0, False, "", "")
    assert set(said.architectures) == {"sm_90"}


@pytest.mark.parametrize(
    ("architectures", "generation", "runs"),
    [
        (["sm_80"], "ampere", True), (["sm_80"], "hopper", False), (["sm_80", "compute_80"], "hopper", True),
        (["sm_90a"], "hopper", True), (["sm_120"], "blackwell", True), (["sm_75"], "volta", False),
    ],
)  # fmt: skip
def test_code_runs_on_its_generation_and_ptx_on_later_ones(architectures, generation, runs):
    assert (
        generation in parse(json.dumps({"architectures": architectures}), "x").generations
    ) is runs


def test_one_interpreter_for_each_user_is_asked():
    late = Completed(124, b"", b"/v/bin/python did not end within 30 s")
    queries = {("python-of", "7", "torch"): '{"torch": "2.9"}', ("python-of", "9", "torch"): late}
    ranks = (
        process(7),
        process(8),
        process(9, user="bob"),
        process(10, user="carol", command=("./train",)),
    )
    framework = facts_of(*ranks, queries=queries).framework
    assert [(one.name, one.problem) for one in framework.interpreters] == [
        ("python (7)", ""),
        ("python (9)", "/v/bin/python did not end within 30 s"),
    ]
    assert len(framework.answering) == 1


def test_job_that_is_not_asked_is_told_with_the_reason():
    reason = (
        "process 7 is in the control group slurm, which a batch system or container engine manages"
    )
    framework = facts_of(
        process(7), queries={("python-of", "7", "torch"): Unreadable(reason)}
    ).framework
    assert (framework.interpreters, framework.unasked) == ((), (f"python (7): {reason}",))


def test_interpreter_that_fails_says_its_last_line():
    queries = {
        ("python-of", "7", "torch"): Completed(1, b"", b"setpriv: x\nsetpriv: no such user\n")
    }
    assert (
        facts_of(process(7), queries=queries).framework.interpreters[0].problem
        == "setpriv: no such user"
    )


def test_interpreter_that_a_policy_names_is_asked_where_nothing_runs():
    queries = {("python-at", "/opt/python", "torch"): '{"missing": "torch"}'}
    framework = facts_of(
        asked=RequestedNames(pythons=frozenset({"/opt/python"})), queries=queries
    ).framework
    assert [(one.name, one.has_torch) for one in framework.interpreters] == [("/opt/python", False)]


DMON = """\
# gpu    pwr  gtemp     sm    mem     fb
# Idx      W      C      %      %     MB
    0    300     50     99     10  40000
    1     70     31      -      -  70000
    0     90     40      0      0  40000
    0     90     40      0      0  40000
    0     90     40      0      0  40000
"""


def test_activity_is_read_by_the_names_of_its_head():
    first, second = parse_activity(DMON)
    assert (first.busy_percent, first.memory_mib) == ((99, 0, 0, 0), 40000)
    assert (second.busy_percent, second.is_in_use) == ((), True)


def test_gpu_that_does_not_say_how_busy_it_is_is_left_out():
    activity = facts_of(process(7), queries={ASK: DMON}).activity
    assert [gpu.index for gpu in activity.in_use] == [0]


def test_activity_without_work_is_not_sampled():
    facts = facts_of()
    assert (facts.activity.gpus, facts.reader.asked) == ((), [])


def test_activity_that_is_not_told_is_unknown():
    with pytest.raises(UnknownFact, match="timed out"):
        _ = facts_of(process(7), queries={ASK: Unreadable("timed out")}).activity.gpus
