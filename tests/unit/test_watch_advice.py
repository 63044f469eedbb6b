"""What follows from a verdict leads somewhere: to a rule that exists, a command that exists, or one
sentence.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.cli.app import COMMANDS
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.measure.advice import ADVICE
from hosttune.measure.gpu.reasons import HELD_BACK, POWER_CAP
from hosttune.measure.views.watch import GUIDE, watch_text
from hosttune.measure.views.watch_words import MEANINGS, list_evidence, make_headline
from hosttune.measure.watch.others import GONE
from hosttune.measure.watch.programs import (
    ThreadPool,
    Workload,
    find_pools,
    held_to_one_thread,
    mapped_files,
    works_with,
)
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.session import WatchEnd
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tick import (
    FILE_SERVER,
    FUSE_SERVER,
    NO_ANSWER,
    CpuLimit,
    GpuUser,
    HeldBack,
    LimitKind,
    MemoryTick,
    Mounted,
    Other,
    ShmRoom,
    Wait,
    Want,
)
from hosttune.measure.watch.verdict import Confidence, judge
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.watch_scenarios import (
    MEASURED,
    MIB,
    OTHERS,
    WATCHED,
    at,
    gpu,
    jittered,
    judged,
    tick,
)

SCENARIOS = {**MEASURED, **OTHERS}


def told(one, **watched):
    verdict, account = judged(jittered(one, 60, seed=5), replace(WATCHED, **watched))
    return (
        [advice.text for advice in choose_remedies(verdict, account)],
        choose_remedies(verdict, account),
        make_headline(verdict, account),
    )


@pytest.mark.parametrize("name", ADVICE)
def test_advice_names_rules_and_commands_that_exist(name):
    advice = ADVICE[name]
    assert advice.rule == "" or advice.rule in builtin_catalog().rules
    assert advice.command == "" or advice.command.split()[1] in COMMANDS
    assert bool(advice.figure) >= bool(advice.measured)
    for word in re.findall(r"hosttune explain ([a-z-]+)", advice.text):
        assert word in builtin_catalog().rules


def test_table_of_what_advice_was_worth_names_each_one():
    text = (Path(__file__).resolve().parents[2] / "docs/explanation/measuring.md").read_text(
        encoding="utf-8"
    )
    part = text.partition('<a id="advice"></a>')[2].partition("**What a job works with**")[0]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| ")][1:]
    lists = part.partition("Not tried for a gain")[2]
    named = set(re.findall(r"[a-z]+(?:-[a-z]+)*", " ".join(rows)))
    assert named <= set(ADVICE)
    left = {
        name
        for name in ADVICE
        if name not in named and not re.search(rf"(?<![\w-]){name}(?![\w-])", lists)
    }
    assert left == set()


@pytest.mark.parametrize("name", [name for name in SCENARIOS if SCENARIOS[name][0] != "IDLE"])
def test_every_state_but_idling_leads_to_something(name):
    texts, _, sentence = told(SCENARIOS[name][1])
    assert texts
    assert sentence.startswith(f"{SCENARIOS[name][0]}: ")


def test_every_state_has_its_meaning():
    assert {state for state, _ in SCENARIOS.values()} <= {state.value for state in MEANINGS}


def test_starved_gpu_is_told_how_many_workers_to_start_with():
    texts, found, _ = told(tick(7.0, idle=85, children=(0.98,), main=0.03, cpus=8.0))
    assert texts[0] == "more loader workers for each GPU process: num_workers=7 instead of 1"
    assert found[0].rule == "framework-input-pipeline"
    assert any("bench read" in advice.command for advice in found)


def test_main_process_at_its_limit_is_told_from_missing_loaders():
    assert "loads its data itself" in told(tick(20.0, idle=49, main=1.0))[0][0]
    assert (
        "small kernels" in told(tick(20.0, idle=40, main=1.0, children=(0.2, 0.2), cpus=8.0))[0][0]
    )


def test_loader_that_a_cold_phase_kept_from_its_limit_is_not_overlooked():
    cold = tick(
        None, None, io=(69, 68), idle=70, children=(0.3,), main=0.01, device=8 * MIB, gpus=()
    )
    full = tick(None, None, idle=49, children=(0.98,), main=0.05, gpus=())
    ticks = (*jittered(cold, 70, seed=5), *at(jittered(full, 50, seed=6), 70.0))
    texts = [advice.text for advice in choose_remedies(*judged(ticks, WATCHED))]
    assert "more loader workers for each GPU process: num_workers=2 instead of 1" in texts
    assert not any("loads its data itself" in text or "one thread" in text for text in texts)


def test_one_full_process_beside_many_idle_ones_needs_no_more_workers():
    texts = told(tick(7.0, idle=85, children=(1.0, *(0.0,) * 15), cpus=16.0))[0]
    assert "one process is at its limit" in texts[0]


def test_disk_on_nfs_leads_to_its_read_ahead():
    one = replace(
        MEASURED["disk bound, two workers"][1], mounts=(Mounted("/data", "nfs4", "filer:/data"),)
    )
    assert "storage-nfs-readahead" in {advice.rule for advice in told(one)[1]}
    assert "storage-nfs-readahead" not in {
        advice.rule
        for advice in told(replace(one, mounts=(Mounted("/data", "ext4", "/dev/sdb1"),)))[1]
    }


def test_throttled_gpu_leads_to_its_rule_first():
    held = tick(gpus=(gpu(99.0, 280.0, reasons=(min(HELD_BACK),)),))
    assert [advice.rule for advice in told(held)[1]] == ["gpu-throttle"]
    hot = tick(gpus=(gpu(100.0, 50.0, reasons=("hardware thermal slowdown",)),))
    texts, _, sentence = told(hot)
    assert (
        sentence
        == "COLD_GPU: the GPU is busy, and its clock is held down: hardware thermal slowdown"
    )
    assert len(texts) == 1, "that it draws little is no sign of small kernels"
    assert "small kernels" in told(tick(gpus=(gpu(100.0, 50.0),)))[0][0]
    assert "nothing on the host to gain" in told(tick(99.0, 280.0))[1][0].text


def test_gpu_that_was_lost_comes_first():
    assert told(OTHERS["seven of eight gpus lost"][1])[1][0].rule == "gpu-errors"


def test_one_process_that_the_others_wait_for_is_no_lack_of_loaders():
    texts, _, sentence = told(tick(gpus=(), idle=40, children=(1.0, 0.01, 0.0, 0.0), main=0.0))
    assert (
        sentence
        == "WORKERS: one of its processes is at the limit of one core, and the others wait, while CPUs are free"
    )
    assert len(texts) == 1
    assert "more processes do not help" in texts[0]


def test_loaders_that_rest_are_no_reason_for_more_of_them():
    texts, _, sentence = told(tick(15.0, cpu=2, idle=0, children=(0.04, 0.03), main=0.99))
    assert "small kernels" in texts[0]
    assert not any("num_workers" in text for text in texts)
    assert sentence.endswith("limit of one core while the job gets the CPU time that it asks for")


SITE = "/opt/venv/lib/python3.12/site-packages"
TORCHVISION = (
    f"{SITE}/torch/lib/libtorch_cpu.so",
    f"{SITE}/torchvision/image.so",
    f"{SITE}/PIL/_imaging.cpython-312-x86_64-linux-gnu.so",
)
PANDAS = f"{SITE}/pandas/_libs/lib.cpython-312-x86_64-linux-gnu.so"
TOKENIZERS = f"{SITE}/tokenizers/tokenizers.abi3.so"


@pytest.mark.parametrize(
    ("paths", "commands", "found"),
    [
        ((*TORCHVISION, "/data/train/n01440764/1.JPEG"), ("python", "train.py"), ("pictures",)),
        ((*TORCHVISION, PANDAS, "/data/shard-000.tar"), ("python", "train.py"), ("pictures",)),
        (TORCHVISION, ("python", "mlp.py"), ()),  # imported, and no picture is opened
        ((*TORCHVISION, TOKENIZERS, "/data/a.arrow"), ("python", "map.py"), ("text",)),
        ((*TORCHVISION, TOKENIZERS, "/data/a.jpg"), ("python", "clip.py"), ("pictures", "text")),
        (
            (
                f"{SITE}/opencv_python.libs/libavcodec-5.so",
                f"{SITE}/cv2/cv2.abi3.so",
                "/data/a.png",
            ),
            ("python",),
            ("pictures",),
        ),
        (
            (f"{SITE}/cv2/cv2.abi3.so", f"{SITE}/decord/libdecord.so", "/data/a.mp4"),
            ("python",),
            ("video",),
        ),
        ((f"{SITE}/polars/_polars_runtime.abi3.so", "/data/a.parquet"), ("python",), ("tables",)),
        (
            (f"{SITE}/lightgbm/lib/lib_lightgbm.so", f"{SITE}/numpy.libs/libopenblas.so"),
            ("python", "gbm.py"),
            (),
        ),
        (
            (f"{SITE}/vllm/_C.abi3.so", TOKENIZERS),
            ("python", "-m", "vllm.entrypoints.openai.api_server"),
            ("requests", "text"),
        ),
        (
            ("/usr/lib/libc.so.6",),
            ("/usr/bin/python3", "/opt/venv/bin/uvicorn", "app:app"),
            ("requests",),
        ),
        (("/data/a.jpg",), ("cp", "-r"), ()),
        (
            (f"{SITE}/h5py.libs/libhdf5-9e18f0c6.so.320", "/data/train.h5"),
            ("python", "train.py"),
            ("arrays",),
        ),
        (
            (f"{SITE}/h5py.libs/libhdf5-9e18f0c6.so.320",),
            ("python", "keras.py"),
            (),
        ),  # imported only
        (
            (f"{SITE}/_soundfile_data/libsndfile_x86_64.so", f"{SITE}/soxr/soxr_ext.so", PANDAS),
            ("python",),
            ("sound",),
        ),
        ((f"{SITE}/torchaudio/lib/libtorchaudio.so",), ("python", "train.py"), ()),  # imported only
    ],
)
def test_work_of_a_job_is_read_from_its_libraries_and_files(paths, commands, found):
    assert tuple(work.value for work in works_with(paths, commands)) == found


def test_mapped_files_are_those_with_a_path():
    maps = b"7f0-7f1 r-xp 0 fe:00 12   /opt/my lib/libjpeg.so.8\n7f1-7f2 rw-p 0 00:00 0 \n7f2-7f3 rw-p 0 00:00 0   [stack]\n7f3-7f4 r-xp 0 fe:00 1  /cut"
    assert mapped_files(maps) == {"/opt/my lib/libjpeg.so.8"}


@pytest.mark.parametrize(
    ("work", "first"),
    [
        ((), "see which function"), ((Workload.PICTURES,), "decode less"), ((Workload.VIDEO,), "decode fewer frames"),
        ((Workload.ARRAYS,), "HDF5 unpacks"), ((Workload.TEXT,), "tokenize once"), ((Workload.SOUND,), "resample once"), ((Workload.TABLES,), "read only the columns"), ((Workload.REQUESTS,), "it serves requests"),
    ],
)  # fmt: skip
def test_cpu_advice_is_for_what_the_job_works_with(work, first):
    texts = told(replace(OTHERS["no gpu in the machine"][1], works_with=work))[0]
    assert texts[0].startswith(first)
    assert any("Pillow" in text or "pillow" in text for text in texts) is (
        Workload.PICTURES in work
    )


def test_server_has_no_loaders_to_add():
    texts = told(replace(tick(20.0, idle=49, main=1.0), works_with=(Workload.REQUESTS,)))[0]
    assert texts[0].startswith("it serves requests")
    assert not any("num_workers" in text for text in texts)


def test_processes_that_take_turns_hear_of_their_lock():
    texts, _, sentence = told(
        tick(
            gpus=(),
            idle=49,
            children=(0.3, 0.25, 0.2, 0.15, 0.1),
            main=0.0,
            wait=Wait(Want.EACH_OTHER, ""),
        )
    )
    assert (
        sentence
        == "WORKERS: its processes take turns, one core's worth at a time, while CPUs are free"
    )
    assert texts[0].startswith("its processes take turns: a lock")
    assert not any("run several of it at once" in text for text in texts)


def test_one_full_process_that_reads_hdf5_is_told_of_chunks_first():
    full = tick(gpus=(), idle=49, main=1.0)
    assert told(replace(full, works_with=(Workload.ARRAYS,)))[0][0].startswith(
        "HDF5 unpacks a whole chunk"
    )
    assert not any("HDF5" in text for text in told(full)[0])


PINNED = replace(
    tick(children=(0.33, 0.33, 0.33), main=0.01).tree, wanting=3.0, wanting_processes=3
)


@pytest.mark.parametrize(
    ("kind", "is_pinned"), [(LimitKind.AFFINITY, True), (LimitKind.CPUSET, False)]
)
def test_pinned_job_is_told_how_to_widen_it(kind, is_pinned):
    limit = CpuLimit(kind, 1.0, 8, "" if is_pinned else "/sys/fs/cgroup/job/cpuset.cpus", "")
    texts, _, sentence = told(
        tick(
            gpus=(),
            idle=80,
            children=(0.33, 0.33, 0.33),
            main=0.01,
            cpus=1.0,
            limit=limit,
            tree=PINNED,
        )
    )
    assert sentence.startswith("LIMIT")
    assert (
        any("OMP_PLACES" in text and "srun --cpus-per-task" in text for text in texts) is is_pinned
    )
    assert any("num_workers" in text for text in texts) is not is_pinned


@pytest.mark.parametrize(("children", "names_forks"), [((0.0, 0.0), True), ((), False)])
def test_hang_of_a_job_with_loaders_names_locks_that_a_fork_inherits(children, names_forks):
    texts, _, sentence = told(tick(0.0, 60.0, idle=99, children=children, main=0.01, read=0.0))
    assert sentence.startswith("IDLE")
    assert any("inherits a lock" in text for text in texts) is names_forks


def test_memory_limit_is_named_and_storage_is_not_ruled_out():
    full = MemoryTick(
        4 << 30,
        "/sys/fs/cgroup/job/memory.max",
        "Kubernetes: resources.limits.memory of the pod",
        4 << 30,
    )
    one = replace(OTHERS["memory"][1], memory=full)
    texts, _, sentence = told(one)
    assert sentence.endswith("within its limit of 4.0 GiB (/sys/fs/cgroup/job/memory.max)")
    assert texts[0].startswith(
        "raise its memory limit: /sys/fs/cgroup/job/memory.max (Kubernetes: resources.limits.memory"
    )
    assert not any("cache inside a Dataset" in text for text in texts)  # it has no workers
    verdict, _ = judged(jittered(one, 60, seed=5), WATCHED)
    assert State.DISK not in verdict.not_the_cause
    half = replace(full, used_bytes=1 << 30)
    assert "within its limit" not in told(replace(one, memory=half))[2]


def test_mapped_model_is_read_once_front_to_back():
    one = MEASURED["disk bound, two workers"][1]
    mapped = replace(
        one, mounts=(Mounted("/models", "nfs4", "filer:/m"),), tree=replace(one.tree, faults=150.0)
    )
    texts, _, sentence = told(mapped)
    assert "page by page of files that it has mapped: /models (nfs4 of filer:/m)" in sentence
    assert "read each file once, front to back" in texts[0]
    reading = replace(mapped, tree=replace(mapped.tree, read_bytes=200 * MIB))
    assert "front to back" not in " ".join(told(reading)[0])


MAPS = {"faults": 12.0, "read_bytes": 0.0}
READS = {"read_bytes": 4 * MIB}
LISTS = {"faults": 0.0, "read_bytes": 100.0}


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("the server of /data/x.h5, through FUSE", Want.PEER),
        ("the server of a FUSE file system", Want.PEER),
        ("a file system's server", Want.NETWORK),
    ],
)
@pytest.mark.parametrize(
    ("tree", "begin"),
    [
        (MAPS, "it touches the pages of mapped files"),
        (READS, "the answers of the other side take the time"),
        (LISTS, "it reads nothing while it waits: it lists folders"),
        ({**LISTS, "written_bytes": MIB}, "it waits for its own writes"),
        ({**LISTS, "written_bytes": 4000.0}, "it reads nothing while it waits: it lists folders"),
        ({**LISTS, "read_bytes": None}, "the answers of the other side take the time"),
    ],
)
def test_wait_for_the_server_of_a_file_system_is_advised_on_by_what_is_asked_of_it(
    what, kind, tree, begin
):
    one = tick(None, None, idle=98, main=0.02, gpus=(), wait=Wait(kind, what))
    verdict, account = judged(
        jittered(replace(one, tree=replace(one.tree, **tree)), 60, seed=5), WATCHED
    )
    texts = [advice.text for advice in choose_remedies(verdict, account)]
    assert (verdict.state, verdict.waits_for) == (State.WAIT, kind)
    assert texts[0].startswith(begin)
    assert texts[-1].startswith("the process at the other end") is (kind is Want.PEER)
    assert State.DISK not in verdict.not_the_cause


@pytest.mark.parametrize("what", [FUSE_SERVER, FILE_SERVER])
def test_pages_that_a_server_has_are_no_lists_of_files(what):
    """As of vllm#24469: a file that is mapped and touched in order is read ahead, and no fault of
    it counts as major.
    """
    kind = Want.PEER if what == FUSE_SERVER else Want.NETWORK
    one = tick(None, None, idle=98, main=0.02, gpus=(), wait=Wait(kind, what, is_page=True))
    texts, _, _ = told(replace(one, tree=replace(one.tree, **LISTS)))
    assert texts[0].startswith("it touches the pages of mapped files")
    assert not any("lists folders" in text for text in texts)


def test_model_above_its_memory_limit_is_not_read_before_the_start():
    """As of ollama#3054: what does not fit is dropped again."""
    one = MEASURED["disk bound, two workers"][1]
    limit = MemoryTick(1 << 30, "/sys/fs/cgroup/x/memory.max", "", 1 << 30)
    full = replace(
        one, memory=limit, tree=replace(one.tree, faults=150.0), host=replace(one.host, refaults=5000.0),
        job=None,
    )  # fmt: skip
    assert told(full)[0][0].startswith("raise its memory limit: /sys/fs/cgroup/x/memory.max")
    assert not any("front to back" in text for text in told(full)[0])
    assert "front to back" in told(replace(full, memory=None))[0][0]


def test_program_that_is_no_python_is_told_its_own_way_to_fewer_threads():
    """As of model_server#2721: OpenVINO in a pod with one CPU."""
    one = tick(idle=60, main=1.0, children=(), gpus=(), cpus=1.0, delay=1.0, throttled_percent=99.0)
    limit = CpuLimit(LimitKind.QUOTA, 1.0, 8, "/sys/fs/cgroup/x/cpu.max")
    server = replace(
        one, limit=limit, works_with=(), pools=(ThreadPool.OPENVINO,),
        tree=replace(one.tree, wanting=8.0, wanting_processes=1, program="ovms"),
    )  # fmt: skip
    texts, _, sentence = told(server)
    assert sentence.startswith("LIMIT: ")
    assert (
        texts[0]
        == "8 threads want 1 CPU: give it as many threads as CPUs: INFERENCE_NUM_THREADS=1 of OpenVINO"
    )
    assert texts[1].startswith("give it more CPUs")
    assert "or OMP_NUM_THREADS=1 if it uses OpenMP" in told(replace(server, pools=()))[0][0]
    python = replace(server, tree=replace(server.tree, program="python3"))
    assert "torch.set_num_threads(1)" in told(python)[0][0]


@pytest.mark.parametrize("program", ["ray::IDLE", "raylet", "python3"])
def test_store_of_ray_that_spills_is_asked_about_where_ray_writes(program):
    one = MEASURED["disk bound, two workers"][1]
    writes = replace(
        one,
        tree=replace(one.tree, written_bytes=4.0 * MIB, device_bytes=0.0, program=program),
        shm=ShmRoom(24 << 30, 20 << 30),
    )
    texts, _, _ = told(writes)
    assert any("ray memory --stats-only" in text for text in texts[:1]) is program.startswith("ray")
    assert any(text.startswith("it waits for its own writes") for text in texts[:2])


def test_address_that_does_not_answer_is_named_and_no_more_requests_are_advised():
    what = f"192.0.2.1:443{NO_ANSWER}"
    texts, _, sentence = told(
        tick(None, None, idle=98, main=0.02, gpus=(), wait=Wait(Want.NETWORK, what))
    )
    assert "192.0.2.1:443, which does not answer" in sentence
    assert len(texts) == 1
    assert "HF_HUB_OFFLINE=1" in texts[0]


SENDS = {"read_bytes": 0.0, "sent_bytes": 2.0 * MIB, "received_bytes": 0.0}


@pytest.mark.parametrize(
    ("more", "works", "first"),
    [
        ({}, (), "it sends more than it receives"),
        (
            {"received_bytes": 2.0 * MIB},
            (),
            "the answers of the other side",
        ),  # ranks that hand each other gradients
        ({"sent_bytes": 2_000.0}, (), "the answers of the other side"),  # questions
        (
            {},
            (Workload.REQUESTS,),
            "the answers of the other side",
        ),  # a server, whose clients are slow
    ],
)
def test_job_that_waits_until_what_it_sends_is_taken_is_not_told_to_ask_for_more(
    more, works, first
):
    """TensorFlowOnSpark issue 561: checkpoints to a far file system take hours, the training four
    minutes.
    """
    one = tick(None, None, idle=98, main=0.02, gpus=(), wait=Wait(Want.NETWORK, "10.0.0.9:8020"))
    one = replace(one, works_with=works, tree=replace(one.tree, **SENDS | more))
    assert told(one)[0][0].startswith(first)
    text = " ".join(list_evidence(*judged(jittered(one, 60, seed=5), WATCHED)))
    assert ("went out over TCP" in text) is ("sent_bytes" not in more and not more)


CACHE = "/root/.cache/huggingface/datasets/json/default-78/0.0.0/d78d"
MAPPED_TABLE = f"{CACHE}/json-train.arrow"


@pytest.mark.parametrize(
    ("paths", "is_preparing"),
    [
        ((MAPPED_TABLE, f"{CACHE}/tmpktsdn4ha"), True),
        (
            ("/data/tokenized/data-00000-of-00004.arrow", "/data/tokenized/tmp_ab12xy0"),
            True,
        ),  # of load_from_disk
        (
            (f"{CACHE}.incomplete/json-train-00000-00000-of-NNNNN.arrow",),
            True,
        ),  # load_dataset makes it
        ((MAPPED_TABLE, f"{CACHE}/cache-3e1f23481226c0f0.arrow"), False),  # the training reads it
        ((MAPPED_TABLE, "/tmp/tmpktsdn4ha"), False),
        ((f"{CACHE}/tmpktsdn4ha",), False),
    ],
)
def test_data_that_are_prepared_are_seen_by_the_files_that_datasets_writes(paths, is_preparing):
    assert (Workload.PREPARATION in works_with(paths, ("python", "train.py"))) is is_preparing


def test_preparation_of_data_is_no_work_for_loaders():
    """Datasets issue 3847, LlamaFactory issue 7315: the text is tokenized again at each start."""
    one = tick(gpus=(), idle=49, main=1.0)
    alone = replace(one, works_with=(Workload.PREPARATION, Workload.TEXT))
    assert told(alone)[0][0].startswith("it prepares its data, before any training")
    several = tick(idle=1, children=(0.5,) * 4, main=0.02, gpus=())
    crowd = replace(
        several.tree,
        wanting=4.0 * (several.cpus or 1),
        wanting_processes=4 * round(several.cpus or 1),
    )
    for found in (alone, replace(several, works_with=(Workload.PREPARATION,), tree=crowd)):
        texts = told(found)[0]
        assert not any("num_workers" in text or "DataLoader" in text for text in texts)
        assert any(text.startswith("it prepares") for text in texts)


def test_preparation_of_data_is_over_when_its_files_are_closed():
    one = tick(gpus=(), idle=49, main=1.0)
    first = replace(one, works_with=(Workload.PREPARATION,))
    _, account = judged(
        [*jittered(first, 30, seed=5), *jittered(replace(one, works_with=()), 30, seed=6)], WATCHED
    )
    assert Workload.PREPARATION not in account.works_with


@pytest.mark.parametrize(
    "library", ["/usr/lib/x86_64-linux-gnu/libavcodec.so.61", f"{SITE}/decord/libdecord.so"]
)
def test_threads_of_ffmpeg_do_not_follow_openmp(library):
    """Torchcodec issue 715: loaders that decode film with a thread for each CPU."""
    assert find_pools([library]) == (ThreadPool.FFMPEG,)
    assert (
        find_pools([f"{SITE}/opencv_python.libs/libavcodec-9aae324f.so.59"]) == ()
    )  # wherever cv2 is imported
    one = tick(idle=1, children=(0.5,) * 4, main=0.02, gpus=())
    full = replace(
        one,
        works_with=(),
        tree=replace(one.tree, wanting=16.0 * (one.cpus or 1), wanting_processes=4),
    )
    assert (
        "what does not follow it: num_ffmpeg_threads=1"
        in told(replace(full, pools=find_pools([library])))[0][0]
    )


def test_threads_that_do_not_follow_openmp_are_set_by_their_own_names():
    pools = find_pools(
        [
            "/v/tokenizers/tokenizers.abi3.so",
            "/v/onnxruntime/capi/libonnxruntime.so.1.20",
            "/lib/libc.so.6",
        ]
    )
    assert pools == (ThreadPool.TOKENIZERS, ThreadPool.ONNX)
    one = tick(idle=1, children=(0.5,) * 4, main=0.02, gpus=())
    full = replace(
        one,
        works_with=(),
        tree=replace(one.tree, wanting=16.0 * (one.cpus or 1), wanting_processes=4),
    )
    assert (
        "what does not follow it: TOKENIZERS_PARALLELISM=false, intra_op"
        in told(replace(full, pools=pools))[0][0]
    )
    assert "what does not follow it" not in told(full)[0][0]


def test_first_epoch_that_was_cold_needs_no_other_disk():
    disk, main = MEASURED["disk bound, two workers"][1], MEASURED["one worker"][1]
    ticks = [*at(jittered(disk, 60, seed=1), 0), *at(jittered(main, 60, seed=2), 60)]
    verdict, account = judged(ticks, WATCHED)
    assert verdict.first_was_cold
    texts = [advice.text for advice in choose_remedies(verdict, account)]
    assert any(text.startswith("nothing to fix: the first pass") for text in texts)
    assert not any("fast local disk" in text or "read in order" in text for text in texts)


@pytest.mark.parametrize(("size", "is_named"), [(64 << 20, True), (8 << 30, False)])
def test_store_that_finds_no_room_in_a_small_shm_is_named_to_a_job_that_waits_for_its_writes(
    size, is_named
):
    one = tick(
        io=(69, 68), idle=70, children=(), main=0.05, device=0.0, gpus=(), shm=ShmRoom(size, size)
    )
    texts, *_ = told(replace(one, tree=replace(one.tree, written_bytes=4 * MIB)))
    assert any("a file in /tmp" in text for text in texts) is is_named


def test_slow_peer_that_serves_no_files_is_watched():
    one = tick(
        None,
        None,
        idle=98,
        main=0.02,
        gpus=(),
        wait=Wait(Want.PEER, "a socket of this host"),
        read=0.0,
    )
    assert told(one)[0] == ["the process at the other end is slow: watch that one with --pid"]


def test_file_that_is_open_elsewhere_is_not_what_a_file_system_looks_up():
    root = (Mounted("/", "ext4", "/dev/sda2", ""),)
    one = tick(
        None,
        None,
        idle=98,
        main=0.02,
        gpus=(),
        mounts=root,
        wait=Wait(Want.PEER, "the server of a FUSE file system"),
    )
    assert not any(
        "its files are on" in line
        for line in list_evidence(*judged(jittered(one, 60, seed=5), WATCHED))
    )


def test_variables_that_hold_a_process_to_one_thread_are_read_from_its_environment():
    assert held_to_one_thread(b"A=1\0OMP_NUM_THREADS=1\0MKL_NUM_THREADS=1\0") == "OMP_NUM_THREADS=1"
    assert held_to_one_thread(b"OPENBLAS_NUM_THREADS=1\0") == "OPENBLAS_NUM_THREADS=1"
    assert held_to_one_thread(b"OMP_NUM_THREADS=16\0XOMP_NUM_THREADS=1\0MKL_NUM_THREADS=1") == ""


@pytest.mark.parametrize(("gpus", "place"), [((), 0), (tick().gpus, 2)])
def test_full_main_process_whose_environment_sets_one_thread_is_told_so(gpus, place):
    """Beside a GPU it is one of the last ways: torchrun sets that for each rank."""
    one = tick(
        20.0 if gpus else None,
        90.0,
        idle=49,
        main=1.0,
        gpus=gpus,
        works_with=(),
        one_thread="OMP_NUM_THREADS=1",
    )
    texts = told(one)[0]
    assert texts[place].startswith("OMP_NUM_THREADS=1 is in its environment: ")
    for other in (replace(one, one_thread=""), replace(one, cpus=1.0)):
        assert not any("is in its environment" in text for text in told(other)[0])


def test_power_far_below_the_limit_with_the_cap_set_is_the_machine():
    capped = tick(gpus=(gpu(99.0, 180.0, reasons=(POWER_CAP,)),))
    texts, _, sentence = told(capped)
    assert "caps its power" in sentence
    assert texts[0].startswith("the machine caps the GPU's power")
    assert not any("nothing on the host to gain" in text for text in texts)


@pytest.mark.parametrize(
    "one",
    [
        gpu(99.0, 290.0, reasons=(POWER_CAP,)),  # at its own limit
        gpu(99.0, 180.0, reasons=()),  # light work
        gpu(99.0, 180.0, power_limit_w=None, reasons=(POWER_CAP,)),
    ],
)
def test_gpu_at_its_own_limit_or_with_light_work_is_not_called_capped(one):
    assert not any("caps the GPU" in text for text in told(tick(gpus=(one,)))[0])


def test_job_that_does_nothing_is_looked_into_main_process_and_workers():
    texts = told(OTHERS["idle"][1])[0]
    assert "py-spy dump --pid 4242" in texts[0]
    assert "pgrep -P 4242" in texts[0]


def test_stolen_time_is_named_and_no_process_is_blamed():
    one = tick(cpu=10, idle=0, children=(0.6, 0.6), gpus=())
    taken = replace(
        one, host=replace(one.host, stolen_percent=40.0), tree=replace(one.tree, most_runnable=0.6)
    )
    texts, _, sentence = told(taken)
    assert (
        sentence == "FOREIGN: the hypervisor gives 40 % of its CPU time to other machines (steal)"
    )
    assert texts[0].startswith("nothing in this machine changes that")


def test_network_of_a_cloud_that_is_at_its_allowance_leads():
    one = replace(MEASURED["network-like waiting"][1], wait=Wait(Want.NETWORK, "10.0.0.9:443"))
    texts, _, _ = told(replace(one, allowances=(HeldBack("eth0 bw_in_allowance_exceeded", 40),)))
    assert texts[0].startswith("the cloud holds its packets back")
    assert not told(one)[0][0].startswith("the cloud")


@pytest.mark.parametrize("cpu", [0, 90])
def test_workers_that_are_started_anew_for_each_epoch_are_kept(cpu):
    one = tick(
        cpu=cpu, idle=50 - cpu / 2, children=(0.3, 0.3, 0.3, 0.3), main=0.4, delay=0.5, gpus=()
    )
    new = replace(
        one, tree=replace(one.tree, new_workers=3, line_cores=1.2, cores=1.0 if not cpu else 1.6)
    )
    texts, _, sentence = told(new)
    assert "its loader workers are started anew" in sentence
    assert "persistent_workers=True" in texts[0]
    assert not any("make -j" in text for text in texts)
    crowded = replace(
        new, host=replace(new.host, idle_percent=17.0), tree=replace(new.tree, line_cores=0.9)
    )
    assert "its loader workers are started anew" in told(crowded)[2]
    verdict, account = judged(
        (replace(new, at_s=0.5), *jittered(replace(one, at_s=1.0), 60, seed=5)), WATCHED
    )
    assert not any(
        "started anew" in advice.text for advice in choose_remedies(verdict, account)
    )  # once, at the start


def test_job_that_waits_for_its_own_writes_is_not_told_how_to_read():
    one = tick(io=(69, 68), idle=70, children=(), main=0.05, device=0.0, gpus=())
    texts, _, sentence = told(replace(one, tree=replace(one.tree, written_bytes=4 * MIB)))
    assert "to which it writes itself" in sentence
    assert texts[0].startswith("it waits for its own writes")
    assert not any("shards" in text or "fits into memory" in text for text in texts)


@pytest.mark.parametrize(
    ("governor", "is_advised"), [("", False), ("performance", False), ("powersave", True)]
)
def test_clock_is_advised_on_only_where_the_kernel_sets_it(governor, is_advised):
    texts, _, _ = told(
        tick(cpu=60, idle=2, children=(0.5,) * 4, main=0.3, gpus=()), governor=governor
    )
    assert ("let the processors run at full clock" in texts) is is_advised


def test_main_process_that_rests_while_the_gpu_works_is_not_called_full():
    one = tick(12.0, 90.0, idle=60, children=(), main=0.7, device=0.0)
    texts, _, sentence = told(one)
    assert "its main process computes in turns with the GPU" in sentence
    assert "give it loader workers" in texts[0]


@pytest.mark.parametrize(("written", "is_own"), [(8, True), (0, False), (0.01, False)])
def test_what_a_program_reads_when_it_starts_is_not_why_it_waits_for_its_checkpoints(
    written, is_own
):
    """Automodel issue 616: eight ticks of ten it waits in fsync(2), and its libraries came from the
    disk in one.
    """
    rest = tick(io=(99, 99), idle=70, children=(), main=0.01, read=0.0, device=0.0, gpus=())
    rest = replace(
        rest, tree=replace(rest.tree, blocked=1, written_bytes=written * MIB, faults=0.0)
    )
    loads = replace(
        rest, tree=replace(rest.tree, device_bytes=150.0 * MIB, written_bytes=0.0, faults=450.0)
    )
    ticks = [
        replace(loads if number % 10 == 3 else rest, at_s=float(number)) for number in range(1, 61)
    ]
    verdict, account = judged(tuple(ticks), WATCHED)
    sentence = make_headline(verdict, account)
    assert ("to which it writes itself" in sentence) is is_own
    assert (
        choose_remedies(verdict, account)[0].text.startswith("it waits for its own writes")
        is is_own
    )


def test_report_leads_to_the_guide_whose_commands_exist():
    page = Path(__file__).resolve().parents[2] / f"docs/{GUIDE}.md"
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^[0-9]+\. ", text, re.MULTILINE)) == 25
    assert set(re.findall(r"hosttune ([a-z]+)", text)) <= set(COMMANDS)
    for state in ("CPU", "LIMIT", "WORKERS", "DISK", "WAIT", "MEM", "FOREIGN", "GPU", "COLD_GPU"):
        assert text.index(f"**{state}**") < text.index("1. ")  # explained before the steps
    _, account = judged(jittered(MEASURED["one worker"][1], 60, seed=5), WATCHED)
    assert f"step by step: {page.as_uri()}\n" in watch_text(
        WatchEnd(account, ""), Page(screen=Screen(width=100))
    )


def test_page_cache_that_a_memory_limit_drops_is_the_limit_and_no_slow_disk():
    limit = MemoryTick(
        100 << 20, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "", 104_075_264
    )
    one = MEASURED["disk bound, two workers"][1]
    dropped = replace(one, memory=limit, host=replace(one.host, refaults=2_000.0))
    texts, _, _ = told(dropped)
    assert texts[0].startswith(
        "raise its memory limit: /sys/fs/cgroup/memory/job/memory.limit_in_bytes sets it"
    )
    assert told(dropped)[2].startswith(
        "DISK: it waits for storage, and reads again what its full memory limit dropped"
    )
    verdict, account = judged(jittered(dropped, 60, seed=5), WATCHED)
    assert State.MEM not in verdict.not_the_cause
    assert "page cache is dropped and read again" in " ".join(list_evidence(verdict, account))
    assert not told(replace(dropped, host=one.host))[0][0].startswith("raise")


@pytest.mark.parametrize("children", [(), (0.02,) * 5])
def test_full_main_process_is_told_how_to_see_which_function_it_is(children):
    """As of piper#121 and translations#783: the loaders rest, and no number of them helps."""
    texts, _, sentence = told(tick(30.0, 120.0, idle=49, children=children, main=1.0))
    assert sentence.startswith("WORKERS: its main process is at the limit of one core")
    assert any("py-spy top" in text for text in texts)
    assert any("num_workers" in text for text in texts) is (not children)


def test_gpu_that_did_nothing_while_the_job_computed_is_asked_about_first():
    one = tick(util=0.0, power=60.0, idle=2, children=(), main=2.0, cpus=2.0)
    texts, _, _ = told(one)
    assert texts[0].startswith("the GPU did nothing in all this time")
    assert "torch.cuda.is_available()" in texts[0]
    ollama = replace(one, works_with=(Workload.REQUESTS,), tree=replace(one.tree, program="ollama"))
    texts, _, _ = told(ollama)
    assert "nvidia-smi" in texts[0]
    assert "torch" not in texts[0]
    assert not any("one core's worth" in text for text in texts), "it uses two"
    for other in (
        replace(one, gpus=(gpu(1.0, 60.0),)),
        replace(one, gpus=()),
    ):  # now and then a kernel; no GPU here
        assert not any("the GPU did nothing" in text for text in told(other)[0])


def test_busiest_of_the_others_have_their_numbers():
    one = replace(
        tick(idle=1, main=0.2, delay=1.5),
        others=(Other(4242, "python", 1.5), Other(4243, "python", 0.5)),
    )
    texts, _, _ = told(one)
    _, account = judged(jittered(one, 60, seed=5), WATCHED)
    assert "busiest of the others: python (4242) and python (4243)" in " ".join(
        list_evidence(judge(account), account)
    )
    assert any(text.endswith("Busiest: python (4242), python (4243)") for text in texts)


def test_memory_of_a_gpu_is_shown():
    one = tick(
        gpus=(replace(gpu(90.0, 250.0), memory_used_bytes=98 << 20, memory_total_bytes=100 << 20),)
    )
    verdict, account = judged(jittered(one, 60, seed=5), WATCHED)
    assert any("memory 98 % in use" in line for line in list_evidence(verdict, account))


def test_what_has_ended_and_keeps_a_gpu_busy_is_no_gpu_that_is_fed_well():
    one = replace(tick(util=100, power=290, main=0.05), gpu_others=(GpuUser(53, GONE),))
    verdict, account = judged(jittered(one, 60, seed=5), WATCHED)
    assert verdict.confidence is Confidence.LOW
    assert "fed well" not in make_headline(verdict, account)
    assert choose_remedies(verdict, account)[0].text.startswith(
        "what has ended still holds memory there"
    )
    assert f"{GONE} (53)" in " ".join(list_evidence(verdict, account))


TENSORFLOW = f"{SITE}/tensorflow/libtensorflow_cc.so.2"
ARROW = f"{SITE}/pyarrow/libarrow.so.2600"


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ((TENSORFLOW, PANDAS), ("tensorflow",)),  # Keras imports pandas, and no table is read
        ((TENSORFLOW, f"{SITE}/torch/lib/libtorch_cpu.so"), ()),  # for TensorBoard
        ((f"{SITE}/nvidia/dali/libdali.so",), ("dali",)),
        ((f"{SITE}/pycocotools/_mask.cpython-312-x86_64-linux-gnu.so",), ("metrics",)),
        ((ARROW, "/data/train/data-00000-of-00001.arrow"), ("rows", "tables")),
        ((ARROW, PANDAS), ()),
        ((PANDAS, "/data/train.csv"), ("tables",)),
        (("/data/lmdb/data.mdb",), ("records",)),
    ],
)
def test_who_loads_and_what_a_row_is_are_read_from_libraries_and_files(paths, found):
    assert tuple(work.value for work in works_with(paths, ("python", "train.py"))) == found


@pytest.mark.parametrize(
    ("work", "first"),
    [(Workload.TENSORFLOW, "for tf.data: map("), (Workload.DALI, "DALI prepares")],
)
@pytest.mark.parametrize("name", ["main process loads", "one worker"])
def test_loaders_of_pytorch_are_advised_only_to_who_has_them(work, first, name):
    """Keras issue 9531, tensorflow issue 28130, DALI issue 1812."""
    one = OTHERS.get(name) or MEASURED[name]
    texts = told(replace(one[1], works_with=(work,)))[0]
    assert texts[0].startswith(first)
    assert not any(re.search(r"DataLoader|\bnum_workers", text) for text in texts)
    assert not any("tf.data" in text or "DALI prepares" in text for text in told(one[1])[0])


@pytest.mark.parametrize(
    ("work", "first"),
    [(Workload.METRICS, "where it is the evaluation"), (Workload.ROWS, "where it takes rows")],
)
def test_full_main_process_is_told_of_what_it_may_do_in_one_thread(work, first):
    """Mmdetection issue 6952 and datasets issue 7753."""
    full = tick(gpus=(), idle=49, main=1.0)
    assert told(replace(full, works_with=(work,)))[0][0].startswith(first)
    assert not any(text.startswith(first) for text in told(replace(full, works_with=()))[0])


@pytest.mark.parametrize(("piece_ms", "is_told"), [(0.05, True), (5.0, False), (None, False)])
@pytest.mark.parametrize("idle", [0, 30])
def test_processes_that_do_a_moments_work_at_a_time_should_do_more_of_it(piece_ms, is_told, idle):
    """Baselines issue 1050: more games in processes of their own bring nothing."""
    one = tick(cpu=0 if idle else 95, idle=idle, children=(0.2,) * 4, main=0.55, gpus=())
    texts = told(replace(one, tree=replace(one.tree, piece_ms=piece_ms)))[0]
    assert texts[0].startswith("its processes compute 0.05 ms at a time") is is_told


@pytest.mark.parametrize(
    ("programs", "is_told"), [(("python", "cc1plus"), True), (("make", "cc1plus"), False)]
)
def test_compilers_that_a_python_starts_are_no_lack_of_loaders(programs, is_told):
    """PyTorch issue 172547: torch.compile, before the first step and after each new shape."""
    one = tick(gpus=(), idle=49, main=1.0)
    ticks = [
        replace(found, tree=replace(found.tree, program=programs[number % 2]))
        for number, found in enumerate(jittered(one, 60, seed=5))
    ]
    texts = [advice.text for advice in choose_remedies(*judged(ticks, WATCHED))]
    assert texts[0].startswith("it compiles") is is_told
    assert not (is_told and any("num_workers" in text or "run several" in text for text in texts))


def test_mapped_files_that_do_not_fit_are_read_without_read_ahead():
    """py-lmdb issue 195: each record at random read 128 KiB, and dropped as much."""
    one = tick(gpus=(), io=(69, 68), idle=70, main=0.2, read=0.0, device=700 * MIB)
    full = MemoryTick(100 << 20, "/sys/fs/cgroup/job/memory.max", "", 99 << 20)
    drops = replace(
        one,
        works_with=(Workload.RECORDS,),
        memory=full,
        host=replace(one.host, refaults=9_000.0),
        tree=replace(one.tree, faults=900.0),
    )
    texts = told(drops)[0]
    assert texts[1].startswith("it reads mapped files at random")
    assert not any("read further ahead" in text for text in texts)
    model = replace(drops, works_with=())  # is read in order
    for other in (model, replace(drops, host=one.host)):
        assert not any("at random" in text for text in told(other)[0])


@pytest.mark.parametrize(
    ("has_smt", "wanting", "processes", "is_told"),
    [
        (True, 15.0, 1, True),
        (False, 15.0, 1, False),
        (True, 8.0, 1, False),
        (True, 15.0, 15, False),
    ],
)
def test_threads_on_both_halves_of_cores_are_tried_on_one(has_smt, wanting, processes, is_told):
    """LightGBM issue 4425, XGBoost issue 1511: second threads of a core made them slower."""
    one = tick(cpu=80, idle=0, main=14.0, cpus=16.0, gpus=(), works_with=())
    tree = replace(one.tree, wanting=wanting, wanting_processes=processes, program="llama-server")
    texts = told(replace(one, tree=tree, pools=(ThreadPool.GGML,)), has_smt=has_smt)[0]
    assert texts[0].startswith("its threads are on both halves of each core") is is_told
    assert ("(--threads of llama.cpp" in texts[0]) is is_told


def test_what_was_seen_is_told_also_where_no_state_held():
    busy = tick(cpu=95, idle=0, children=(0.2,) * 6, main=0.55, gpus=())
    one = replace(busy, tree=replace(busy.tree, piece_ms=0.1))
    others = (MEASURED["disk bound, two workers"][1], MEASURED["gpu bound"][1])
    ticks = [(one, *others)[number % 3] for number in range(30)]
    verdict, account = judged([replace(t, at_s=n + 1.0) for n, t in enumerate(ticks)], WATCHED)
    assert verdict.state is None
    assert [text.text[:25] for text in choose_remedies(verdict, account)] == [
        "its processes compute 0.1"
    ]
