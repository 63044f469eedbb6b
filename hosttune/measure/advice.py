"""What to change in a training script, with the figure and where it was measured. Pure.

The advice of guides and blogs in its corrected form: what was re-measured is with its figure, what
is gone is left out. `MACHINE` is where "measured" was measured; every other figure names its
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hosttune.frozen import frozen

MACHINE = "2 virtual CPUs of an AMD EPYC, virtio disk, Python 3.11"
MACHINE_XEON = "2 virtual CPUs of an Intel Xeon, virtio disk, Python 3.11"


@frozen
class Advice:
    """One thing to do. `rule` is an id for `hosttune explain`, `command` a command line; "" where
    there is none.
    """

    text: str
    figure: str = ""
    measured: str = ""  # where the figure comes from
    rule: str = ""
    command: str = ""


ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        "threads": Advice(
            "{crowd}: set OMP_NUM_THREADS=1 before the start, and in each loader worker "
            "torch.set_num_threads(1) and cv2.setNumThreads(0){pools}; in one process on its own, "
            "as many threads as CPUs",
            "OpenMP loops on 2 CPUs: 2 threads 7,627 items/s, 16 threads 877; on half a CPU: 1: "
            "2,491, 16: 350",
            MACHINE,
            rule="framework-env",
        ),
        "own-threads": Advice(
            "{crowd}: give it as many threads as CPUs: {own}",
            "OpenMP loops on half a CPU: 1 thread 2,491 items/s, 16: 350",
            MACHINE,
        ),
        "cores": Advice(
            "its threads are on both halves of each core: where they wait for memory (llama.cpp, "
            "LightGBM, XGBoost, BLAS), as many threads as cores may be faster ({own}). Measure "
            "both; lscpu -p=core,socket | grep -v '#' | sort -u | wc -l counts cores",
            "XGBoost: 8 threads twice as fast as all 12; llama.cpp: 4 of 8 on 4 cores faster",
            "dmlc/xgboost#1511, ggml-org/llama.cpp#18",
        ),
        "fewer-workers": Advice(
            "{crowd}: as many as CPUs are enough (num_workers={most})",
            "decoding on 2 CPUs: 16 workers are 16 % slower than 3",
            MACHINE,
            rule="framework-input-pipeline",
        ),
        "more-workers": Advice(
            "more loader workers for each GPU process: DataLoader(num_workers=...)",
            "decoding peaks at as many workers as CPUs or one more: 1.8 times one worker on 2 "
            "CPUs; 16 lose 16 % again",
            MACHINE,
            rule="framework-input-pipeline",
        ),
        "some-workers": Advice(
            "where the main process loads its data itself, give it loader workers: "
            "DataLoader(num_workers=2 or more)",
            "260 to 96 s an epoch from one worker to seven on 8 CPUs",
            "published for Caltech-256 and ResNet-50 on one V100",
            rule="framework-input-pipeline",
        ),
        "launch-bound": Advice(
            "where the main process is the limit, and no loader is: it launches too many small "
            "kernels, or waits for their results (.item(), .cpu(), prints in the loop), or copies "
            "from pageable memory (pin_memory=True); try torch.compile, CUDA graphs or a larger "
            "batch",
            "torch.compile: up to 6 times on a model bound by launches, 0.94 on a large one",
            "stas00/ml-engineering; measure yours",
        ),
        "one-slow-worker": Advice(
            "one process is at its limit while the others wait: look at what only it does (a slow "
            "shard, fewer shards than workers, a lock that it holds, a rank with more work) with "
            "py-spy dump --pid PID; more processes do not help",
            "4 processes with one lock: 165 items/s; 8: 154",
            MACHINE,
        ),
        "turns": Advice(
            "its processes take turns: a lock (multiprocessing.Lock, a lock on a file), or a queue "
            "with one place, lets one of them work at a time. Hold it for less, or give each its "
            "own data; more processes bring nothing",
            "4 processes with one lock: 165 items/s; 8: 154",
            MACHINE,
        ),
        "overlap-waits": Advice(
            "more workers than CPUs overlap the waits of loaders that wait for something else than "
            "CPUs",
            "20 ms of waiting an item: 16 workers on 2 CPUs load 11.9 times as fast as one",
            MACHINE,
            rule="framework-input-pipeline",
        ),
        "keep-workers": Advice(
            "persistent_workers=True and prefetch_factor=4: workers stay for the next epoch, and "
            "have batches ready",
        ),
        "new-workers": Advice(
            "its workers are started anew again and again, as for each epoch: "
            "DataLoader(persistent_workers=True); for data that the main process loads in a "
            "moment, num_workers=0. Started by spawn, each imports all modules again: "
            "multiprocessing_context='forkserver', or 'fork' where the workers use no GPU",
            "epochs a second of a tiny data set: 11 with 4 new workers each, 78 with persistent "
            "ones, 377 with none",
            MACHINE,
        ),
        "pin-memory": Advice(
            "pin_memory=True and .to(device, non_blocking=True): copies run beside the computation",
            "0.65 to 0.46 s in one published test",
            "stas00/ml-engineering",
        ),
        "knee": Advice(
            "measure how many workers pay here",
            command="hosttune bench read DIR --workers 1,2,4,8,16",
        ),
        "draft": Advice(
            "decode less: Pillow's image.draft('RGB', size) before load() for large JPEGs, or "
            "smaller copies made once",
            "draft() and resize: 4.3 times for JPEGs of 3 megapixels",
            MACHINE,
        ),
        "gpu-decode": Advice(
            "decode on the GPU, which has time: torchvision.io.decode_jpeg(device='cuda') or "
            "NVIDIA DALI",
        ),
        "pillow-simd": Advice(
            "pillow-simd does not gain tenfold: it resizes 4 to 8 times as fast and decodes as "
            "before",
            "decode and resize to 224 pixels: 1.7 times; grey PNG of 1024 pixels: 0.95",
            MACHINE,
        ),
        "video": Advice(
            "decode fewer frames: cut clips once before training, from key frames on, at the size "
            "that the model takes. A frame at random is decoded from the key frame before it: for "
            "those, write films with near ones (ffmpeg -g 10)",
            "H.264, 320 x 240, a frame at random: key frames each 250 frames 13 a CPU second, each "
            "10 frames 68, in a file 1.8 times as large",
            MACHINE_XEON,
        ),
        "video-on-gpu": Advice(
            "decode on the GPU, which has units for that (NVDEC): torchcodec with device='cuda', "
            "or NVIDIA DALI",
        ),
        "sound": Advice(
            "resample once, and keep the sound at the rate that the model takes; read only the "
            "seconds that are used (soundfile.read(start=, frames=), "
            "torchaudio.load(frame_offset=, num_frames=)); spectrograms on the GPU",
            "30 s of sound: FLAC at 44.1 kHz, resampled, 25 ms; WAV 12 ms; kept at 16 kHz 1.4 ms; "
            "3 s of it 0.17 ms",
            MACHINE,
        ),
        "tokenize-once": Advice(
            "tokenize once, and keep the result: datasets.map(batched=True, num_proc=CPUS) before "
            "training, with a fast tokenizer",
            "map with 2 processes instead of 1: 13,797 instead of 9,730 items/s",
            MACHINE,
        ),
        "prepare-once": Advice(
            "it prepares its data, before any training: datasets of Hugging Face writes its cache. "
            "map(num_proc=CPUS) uses all CPUs. The next start finds the result if HF_HOME is on a "
            "disk that stays (not in the container itself), and if the function can be pickled and "
            "is the same. Else keep it: save_to_disk(DIR), then load_from_disk(DIR)",
            "60,000 texts: 20.8 s at the first start, 0.01 s from the cache; 21.7 s at each start "
            "with a lock in the map",
            MACHINE,
        ),
        "fewer-columns": Advice(
            "read only the columns and row groups that are needed, and convert once: NumPy arrays "
            "cost less than rows of Python objects. Polars, Arrow and DuckDB have threads of their "
            "own: one for each loader worker is enough",
        ),
        "server": Advice(
            "it serves requests, and its main process is one core's worth: more server processes "
            "(uvicorn --workers, vllm serve --api-server-count), and keep tokenizers and JSON out "
            "of the process that feeds the GPU",
        ),
        "chunks": Advice(
            "HDF5 unpacks a whole chunk for each sample that is read, in one thread of a process "
            "only: as many samples in a chunk as one read takes, lzf or no packing instead of "
            "gzip, and the file opened in each loader worker",
            "samples at random for each CPU second: gzip with 64 a chunk 12, with one 865; lzf "
            "1,404; not packed 24,157",
            MACHINE,
        ),
        "profile": Advice(
            "see which function has the CPU time: py-spy top --pid {pid} --subprocesses, or perf "
            "top -p {pid}",
        ),
        "raw-format": Advice(
            "store decoded data where space allows: BMP, npy or raw; a PNG of level 0 costs more "
            "to read than a JPEG",
            "500 x 375 pixels: BMP 0.14 ms, JPEG 0.79, PNG level 0 2.9, PNG 4.5",
            MACHINE,
        ),
        "tf-data": Advice(
            "for tf.data: map(f, num_parallel_calls=tf.data.AUTOTUNE), interleave() over several "
            "files, and prefetch(tf.data.AUTOTUNE) last. Python in from_generator or py_function "
            "runs in one thread: write it with functions of TensorFlow, or give a "
            "keras.utils.PyDataset workers=N and use_multiprocessing=True",
            "JPEG and resize: from_generator 40 items/s, map 84, with AUTOTUNE and prefetch 235",
            MACHINE_XEON,
        ),
        "dali": Advice(
            "DALI prepares its data: Pipeline(num_threads=N), as many as CPUs for each GPU "
            "process. A source in Python runs in one thread: fn.external_source(parallel=True, "
            "batch=False) with Pipeline(py_num_workers=N). Decoders with device='mixed' work on "
            "the GPU",
        ),
        "rows": Advice(
            "where it takes rows of a datasets.Dataset (Hugging Face): with_format('numpy') or "
            "with_format('torch') makes no Python lists of them; take a batch at once "
            "(dataset[i:j])",
            "rows of 37,632 numbers: as lists 52 a second, with_format('torch') 117, 'numpy' 245",
            MACHINE_XEON,
        ),
        "metrics": Advice(
            "where it is the evaluation: metrics of pycocotools take one thread. faster-coco-eval "
            "has the same calls in C++; or evaluate less often, or in a process of its own",
            "COCO metrics of 400 pictures and 24,000 boxes: 2.1 s, with faster-coco-eval 0.27",
            MACHINE_XEON,
        ),
        "small-pieces": Advice(
            "its processes compute {piece:.1g} ms at a time, and then wait for each other: hand "
            "over more at once. Several environments in a process, or all in the main one "
            "(SyncVectorEnv of Gymnasium, DummyVecEnv of Stable-Baselines3); batches in queues, "
            "not single items",
            "CartPole, 4 environments: a process for each 4,332 steps/s, all in one 23,799",
            MACHINE_XEON,
        ),
        "compile": Advice(
            "it compiles (torch.compile, Triton, an extension in C++ or CUDA). The next start "
            "takes less if the caches are on a disk that stays: TORCHINDUCTOR_CACHE_DIR, "
            "TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR. If it goes on for each batch, shapes change "
            "(TORCH_LOGS=recompiles names them): torch.compile(dynamic=True), or pad them. "
            "MAX_JOBS=N is how many compilers build an extension at once",
            "torch.compile of a small function for the CPU: first step after 25 s, from its cache "
            "8",
            MACHINE_XEON,
        ),
        "random-pages": Advice(
            "it reads mapped files at random, and they do not fit: each read takes 128 KiB, and "
            "drops what was read before. Without read-ahead: lmdb.open(path, readahead=False), "
            "else mmap.madvise(mmap.MADV_RANDOM). For files that fit, leave it on",
            "LMDB of 200 MB at random, limit of 100 MB: 201 records/s, with readahead=False "
            "2,508; without a limit, cold: 120,876 and 9,003",
            MACHINE_XEON,
        ),
        "shards": Advice(
            "read in order: few large shards (tar/WebDataset, HDF5 in order) instead of many small "
            "files at random",
            "sequential shards 4.3 times as fast from a cold ext4 [3.7, 5.0]; random access in one "
            "large file only 1.23",
            MACHINE,
            rule="storage-data-placement",
        ),
        "fits-memory": Advice(
            "see whether the data set fits into memory: then only the first epoch waits",
            command="hosttune dataset DIR",
            rule="memory-dataset-fits-ram",
        ),
        "placement": Advice("put the data on a fast local disk", rule="storage-data-placement"),
        "read-ahead": Advice(
            "larger files on slow disks: read further ahead", rule="storage-readahead"
        ),
        "nfs-read-ahead": Advice(
            "NFS reads 128 KiB ahead since Linux 5.4", rule="storage-nfs-readahead"
        ),
        "what-disk-gives": Advice(
            "see what the disk gives and what decoding takes", command="hosttune bench read DIR"
        ),
        "oom-group": Advice(
            "it needs more memory than its limit: {less}, or a higher limit; journalctl -k -g "
            "'oom-kill' shows which process had how much",
        ),
        "oom-host": Advice(
            "the host ran out of memory, or a limit above this container was met: journalctl -k -g "
            "'Out of memory' shows who had how much",
            rule="memory-pressure",
        ),
        "shm": Advice(
            "loader workers hand batches over in /dev/shm: make it larger (docker run "
            "--shm-size=8g or --ipc=host; in Kubernetes an emptyDir with medium: Memory on "
            "/dev/shm), or use fewer workers and a smaller prefetch_factor",
            rule="limits-shm",
        ),
        "small-shm": Advice(
            "where its last lines name a bus error or shared memory: /dev/shm has only {size} MiB, "
            "and loader workers hand batches over there (docker run --shm-size=8g or --ipc=host; "
            "in Kubernetes an emptyDir with medium: Memory)",
            rule="limits-shm",
        ),
        "sigbus": Advice(
            "a file that it had mapped was cut off, or the file system below it is full: df -h "
            "/dev/shm shows the one that loader workers use (docker run --shm-size=8g makes it "
            "larger)",
            rule="limits-shm",
        ),
        "killed": Advice(
            "no kill for memory was counted, so another process sent SIGKILL. A scheduler does "
            "that at a limit of time (sacct -j JOB -o State,ExitCode; kubectl describe pod)",
        ),
        "crashed": Advice(
            "see where it failed: coredumpctl gdb, or another run with PYTHONFAULTHANDLER=1, which "
            "prints the Python stack",
        ),
        "continue": Advice("continue it with: kill -CONT {pid} (fg in its own shell)"),
        "thaw": Advice(
            "its control group is frozen: docker unpause, systemctl thaw, scontrol resume, or echo "
            "0 to cgroup.freeze (THAWED to freezer.state of version 1) there",
        ),
        "writes": Advice(
            "it waits for its own writes: checkpoints, logs, or fsync after each file. Write less "
            "often, to a local disk, and beside the training "
            "(torch.distributed.checkpoint.async_save). Dask and Spark spill less with more memory "
            "for each worker",
        ),
        "uploads": Advice(
            "it sends more than it receives, and waits until the other side has taken that. "
            "Checkpoints, logs and results: write them to a local disk and copy them in a thread "
            "beside the training (torch.distributed.checkpoint.async_save), less often. Data for "
            "other processes: those, or the line to them, are the limit",
            "a checkpoint of 4 MiB over 5 MB/s: 0.9 steps/s after each step, 4.5 each 20th, from a "
            "local copy in a thread",
            MACHINE,
        ),
        "spill": Advice(
            "where `ray memory --stats-only` counts spilled objects, Ray's store is full, and "
            "objects go to disk, in /tmp/ray: a larger store (ray start "
            "--object-store-memory=BYTES, and /dev/shm as large), fewer objects alive at once, or "
            "a fast disk (--object-spilling-directory=DIR)",
        ),
        "shm-store": Advice(
            "/dev/shm has only {size} MiB: a store of shared objects (Ray) that finds no room "
            "there is a file in /tmp. Make it larger: docker run --shm-size=8g or --ipc=host; in "
            "Kubernetes an emptyDir with medium: Memory",
            rule="limits-shm",
        ),
        "memory": Advice("pages are swapped, or dropped and needed again", rule="memory-pressure"),
        "memory-limit": Advice(
            "raise its memory limit: {path} sets it. Or {smaller}: the page cache of its files "
            "counts as well",
        ),
        "mapped": Advice(
            "it touches the pages of mapped files one by one (a model of safetensors, LMDB, "
            "Arrow): read each file once, front to back, before the start: cat FILE >/dev/null; "
            "over a network, copy it to a local disk",
            "30 to 50 times as fast over a network mount; on a virtio disk 1,361 MB/s instead of "
            "112 page by page",
            f"safetensors#562, ComfyUI#2288; {MACHINE}",
        ),
        "worker-copies": Advice(
            "a cache inside a Dataset is copied by each worker over time: fewer workers, or arrays "
            "instead of lists",
            "2.46 GB on disk took 33 GB decoded (13 times); JPEGs take 17 to 28 times their size "
            "as uint8",
            f"ultralytics/yolov5#4008; {MACHINE}",
            rule="memory-dataset-fits-ram",
        ),
        "governor": Advice("let the processors run at full clock", rule="cpu-governor"),
        "gpu-limit": Advice(
            "nothing on the host to gain. In the script: bf16 autocast (from Ampere on), "
            'torch.set_float32_matmul_precision("high"), torch.compile, a larger batch; measure '
            "each",
            "torch.compile: up to 6 times on a model bound by launches, 0.94 on a large one",
            "stas00/ml-engineering; measure yours",
        ),
        "gpu-shared": Advice(
            "other processes hold memory on the job's GPUs, and whose kernels ran is not known: "
            "give the job a GPU of its own (CUDA_VISIBLE_DEVICES, the scheduler), or watch it "
            "while they rest",
        ),
        "gpu-leftover": Advice(
            "what has ended still holds memory there: its loader workers may go on (ps -ef shows "
            "their command with parent 1; sudo fuser -v /dev/nvidia* shows who has the GPUs open). "
            "End those that are yours; if none is there, the administrator drains the node and "
            "reboots",
        ),
        "gpu-unused": Advice(
            "the GPU did nothing in all this time. If the program should compute on it: {look}, is "
            "CUDA_VISIBLE_DEVICES right, and does its log say cpu?",
        ),
        "power-cap": Advice(
            "the machine caps the GPU's power, not its own limit: look at the power cap of the BMC "
            "(ipmitool dcmi power get_limit; iDRAC, Redfish), at failed power supplies (ipmitool "
            "sdr type 'Power Supply'), and at its cables",
        ),
        "hang": Advice(
            "if it should be working, see where it hangs: py-spy dump --pid {pid} shows the main "
            "process; the same with each process of pgrep -P {pid} shows loader workers and ranks. "
            "Where it shows file_baton.py, a build of an extension was cut off: remove the file "
            "`lock` below ~/.cache/torch_extensions",
        ),
        "throttled": Advice(
            "the GPU's clock is held down by heat or by its power supply: look at fans, air flow "
            "and dust, and at power supplies and cables",
            rule="gpu-throttle",
        ),
        "cold-gpu": Advice(
            "the GPU is busy but draws little: many small kernels, or waiting for other GPUs "
            "(NCCL). torch.profiler or nsys shows which; torch.utils.bottleneck, which guides "
            "still name, is gone from PyTorch since 2025",
        ),
        "foreign": Advice(
            "others take the CPU time: move them, nice them, or give the job CPUs of its own "
            "(taskset, cpuset, CPUWeight= of a systemd unit, the scheduler's request)",
        ),
        "far-gpu": Advice(
            "{far} of its {ranks} processes on GPUs may use no CPU near their GPU: bind each to "
            "the CPUs of its own GPU (srun --gpu-bind=closest with --cpus-per-gpu, torchrun "
            "--numa-binding=node, numactl), or none of them",
            "copies from the GPU to the host: 330 GB/s near, 115 far (GB200)",
            "pytorch/torchtitan#3519",
            rule="cpu-gpu-affinity",
        ),
        "bind-ranks": Advice(
            "its ranks may run on every CPU, also far from their GPUs. Try them bound to the CPUs "
            "near each GPU: srun --cpu-bind=rank_ldom, torchrun --numa-binding=node, numactl. "
            "Measure both",
            "eight ranks on eight nodes: a step took 14.1 ms bound, 70.4 unbound; on two nodes "
            "nothing",
            "NVIDIA/srt-slurm#332",
            rule="cpu-gpu-affinity",
        ),
        "stolen": Advice(
            "nothing in this machine changes that: take a type with CPUs of its own (not a "
            "burstable one whose credits are used up), a dedicated host, or have the hypervisor's "
            "owner overcommit less",
        ),
        "waits": Advice(
            "it waits for what the host does not see: a network, another rank, a lock. py-spy dump "
            "--pid PID shows where",
        ),
        "store": Advice(
            "the answers of the other side take the time: ask for more at once (workers, threads, "
            "an event loop), in fewer and larger requests, or copy the data to a local disk once",
        ),
        "names": Advice(
            "it reads nothing while it waits: it lists folders and looks files up (a walk, glob, a "
            "stat for each), or writes there. Make the list of files once and keep it, pack small "
            "files into few large ones, and write to a local disk. A Python that imports from "
            "there: copy the environment to a local disk",
        ),
        "unanswered": Advice(
            "nothing answers there: a firewall, a proxy that is not set, or a server that is down. "
            "Without a network: HF_HUB_OFFLINE=1 for models and data that are here already, "
            "WANDB_MODE=offline",
        ),
        "cold-cache": Advice(
            "nothing to fix: the first pass over the data came from storage, and later ones come "
            "from memory. If the first epoch matters, read the files once before the job starts: "
            "cat FILES >/dev/null",
        ),
        "allowance": Advice(
            "the cloud holds its packets back: this machine's type allows no more bandwidth, "
            "packets or connections; take a larger type or one with more network, or copy the data "
            "to a local disk once",
        ),
        "peer": Advice("the process at the other end is slow: watch that one with --pid"),
        "lock": Advice(
            "another program holds a lock that it wants: lslocks names who has one on a file; "
            "py-spy dump --pid PID, or gdb -p PID -batch -ex 'thread apply all bt', shows one in "
            "memory",
        ),
        "each-other": Advice(
            "its own tasks wait for each other, and none of them computes: a deadlock, or a "
            "hand-over that got lost; py-spy dump --pid PID, or gdb -p PID -batch -ex 'thread "
            "apply all bt', shows where",
        ),
        "timer": Advice(
            "it sleeps for a time that it has set itself: look for sleep() and timeouts in its code"
        ),
        "forked-lock": Advice(
            "a loader worker inherits a lock that a thread held when it was forked, and waits for "
            "it for ever (OpenCV, OpenMP, tokenizers): "
            "DataLoader(multiprocessing_context='forkserver'), or cv2.setNumThreads(0), "
            "OMP_NUM_THREADS=1 and TOKENIZERS_PARALLELISM=false",
            "the ways that ended the hang of pytorch#45198",
            "pytorch/pytorch#45198",
        ),
        "limit": Advice("give it more CPUs"),
        "unpin": Advice(
            "under a scheduler, ask it for more: srun --cpus-per-task=N, or --hint=multithread "
            "where it gave one thread of each core. Else taskset -apc LIST PID gives a running "
            "process more. Where a library did it, start without OMP_PLACES, OMP_PROC_BIND, "
            "GOMP_CPU_AFFINITY and KMP_AFFINITY, or widen it in the loaders' worker_init_fn: "
            "os.sched_setaffinity(0, range(os.cpu_count()))",
        ),
        "line": Advice(
            "its processes run one after the other while CPUs are free: run several at once (make "
            "-j N, xargs -P N, concurrent.futures)",
        ),
        "one-thread": Advice(
            "it computes in one thread while CPUs are free: run several of it at once, each on a "
            "part of the work",
        ),
        "held-to-one-thread": Advice(
            "{variable} is in its environment: NumPy and PyTorch compute in one thread, and nproc "
            "may count one CPU. Where the main process computes with them, set it to the number of "
            "CPUs (docker run -e OMP_NUM_THREADS=N; torchrun sets 1 for several ranks)",
        ),
        "all-cpus": Advice("it uses all CPUs that it may: less work, or more CPUs"),
        "lost-gpu": Advice("a GPU fell off the bus", rule="gpu-errors"),
    }
)
