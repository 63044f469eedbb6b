"""What a job works with: pictures, film, sound, text, tables, arrays, requests. Advice on decoders
is for what decodes.

Two signs: the libraries that its busiest processes have mapped (proc_pid_maps(5)), and the suffixes
of the data files that they have open or mapped. Libraries only show what was imported: PyTorch's
vision package brings picture decoders into jobs that open no picture. So pictures need a file
beside the library: one of their own, or a container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from hosttune.frozen import frozen
from hosttune.regex import regex


class Workload(str, Enum):
    """What a job works with, those first that advice is for first."""

    PREPARATION = "preparation"  # of the data, before the training
    REQUESTS = "requests"
    VIDEO = "video"
    PICTURES = "pictures"
    SOUND = "sound"
    TEXT = "text"
    ROWS = "rows"  # of datasets of Hugging Face
    TABLES = "tables"
    ARRAYS = "arrays"
    RECORDS = "records"  # of mapped files, read at random
    METRICS = "metrics"
    TENSORFLOW = "tensorflow"  # its tf.data or Keras loads, not PyTorch
    DALI = "dali"


class ThreadPool(str, Enum):
    """Threads that OMP_NUM_THREADS does not count, by what sets their number. Sources: documents of
    each library.
    """

    TOKENIZERS = "TOKENIZERS_PARALLELISM=false"
    ONNX = "intra_op_num_threads=1 in the SessionOptions of ONNX Runtime"
    POLARS = "POLARS_MAX_THREADS=1"
    DUCKDB = "SET threads = 1 of DuckDB"
    TENSORFLOW = "TF_NUM_INTRAOP_THREADS=1"
    OPENVINO = "INFERENCE_NUM_THREADS=1 of OpenVINO"
    GGML = "--threads of llama.cpp, num_thread of Ollama"
    FFMPEG = (
        "num_ffmpeg_threads=1 of torchcodec, num_threads=1 of decord, codec_context.thread_count=1 "
        "of PyAV"
    )


@frozen
class Signs:
    """`libraries` are parts of paths, `suffixes` those of data files, `commands` names of programs
    and modules.
    """

    libraries: tuple[str, ...]
    suffixes: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()


# Paths as the packages' wheels and distributions have them (auditwheel puts shared libraries in
# NAME.libs).
SIGNS: Mapping[Workload, Signs] = MappingProxyType(
    {
        Workload.PREPARATION: Signs(()),
        Workload.REQUESTS: Signs(
            ("/vllm/_C", "/sgl_kernel/", "/httptools/", "libtritonserver"),
            commands=frozenset(
                {"vllm", "sglang", "tritonserver", "uvicorn", "gunicorn", "hypercorn", "ollama"}
            ),
        ),
        Workload.VIDEO: Signs(
            ("libavcodec", "/decord/", "/torchcodec/", "libnvcuvid"),
            frozenset({".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v"}),
            frozenset({"ffmpeg"}),
        ),
        Workload.PICTURES: Signs(
            (
                "libjpeg",
                "libturbojpeg",
                "libnvjpeg",
                "/PIL/_imaging",
                "/cv2",
                "libopencv_imgcodecs",
                "/torchvision/image",
                "libdali",
                "/simplejpeg/",
                "libwebp",
                "libpng16",
                "/imagecodecs/",
            ),
            frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".jp2", ".bmp"}),
        ),
        Workload.SOUND: Signs(("libsndfile", "/soxr/", "/samplerate/", "libsox.")),
        Workload.TEXT: Signs(
            ("/tokenizers/", "/sentencepiece/", "libsentencepiece", "/tiktoken/", "/spacy/")
        ),
        Workload.TABLES: Signs(
            ("/polars/", "/duckdb", "libarrow", "/pandas/_libs/"),
            frozenset({".parquet", ".csv", ".feather", ".orc", ".arrow"}),
        ),
        Workload.ROWS: Signs(("libarrow",), frozenset({".arrow"})),
        Workload.RECORDS: Signs((), frozenset({".mdb", ".lmdb", ".npy"})),
        Workload.METRICS: Signs(("/pycocotools/",)),
        Workload.TENSORFLOW: Signs(("libtensorflow",)),
        Workload.DALI: Signs(("libdali",)),
        Workload.ARRAYS: Signs(("libhdf5",), frozenset({".h5", ".hdf5", ".hdf", ".nc"})),
    }
)
# What may hold pictures, among other things.
_CONTAINERS = frozenset(
    {".tar", ".mdb", ".lmdb", ".h5", ".hdf5", ".zip", ".tfrecord", ".rec", ".arrow", ".parquet"}
)
_POOLS = {
    ThreadPool.TOKENIZERS: ("/tokenizers/",), ThreadPool.ONNX: ("/onnxruntime/", "libonnxruntime"),
    ThreadPool.POLARS: ("/polars/",), ThreadPool.DUCKDB: ("/duckdb",),
    ThreadPool.TENSORFLOW: ("libtensorflow",), ThreadPool.OPENVINO: ("libopenvino",),
    ThreadPool.GGML: ("libggml",), ThreadPool.FFMPEG: ("libavcodec", "/decord/"),
}  # fmt: skip
_BY_LIBRARY = (
    Workload.REQUESTS, Workload.VIDEO, Workload.SOUND, Workload.TEXT, Workload.TABLES,
    Workload.METRICS, Workload.TENSORFLOW, Workload.DALI,
)  # fmt: skip
_WITH_FILE = (Workload.VIDEO, Workload.PICTURES, Workload.ARRAYS, Workload.ROWS)
# What imports pandas or Arrow need not read tables: Keras and Lightning do.
_TABLES_ONLY = ("/polars/", "/duckdb")
_TORCH = "/torch/lib/"
# datasets.map writes a temporary file beside the Arrow files that it reads (Dataset._map_single),
# and load_dataset a folder that gets its name at the end (DatasetBuilder.download_and_prepare).
_TEMPORARY = regex(r"/tmp[a-z0-9_]{8}\Z")
_UNFINISHED = regex(r"\.incomplete/[^/]+\.arrow\Z")
_THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SHIPPED_WITH = ("opencv",)  # brings FFmpeg with it, whatever it is used for


def works_with(paths: Iterable[str], commands: Iterable[str]) -> tuple[Workload, ...]:
    """`paths` are open and mapped files, `commands` the words of command lines. Pure."""
    files = set(paths)
    suffixes = {_get_suffix(path) for path in files}
    names = {word.rpartition("/")[2].partition(".")[0] for word in commands}
    has_library = {
        work: any(
            part in path and not _is_shipped(path, part)
            for path in files
            for part in signs.libraries
        )
        for work, signs in SIGNS.items()
    }
    has_file = {work: bool(suffixes & signs.suffixes) for work, signs in SIGNS.items()}
    found = {work for work in Workload if names & SIGNS[work].commands}
    if _is_preparing(files):
        found.add(Workload.PREPARATION)
    found |= {work for work in _BY_LIBRARY if has_library[work]}
    if has_library[Workload.PICTURES] and not has_library[Workload.TEXT] and suffixes & _CONTAINERS:
        found.add(Workload.PICTURES)
    found |= {work for work in _WITH_FILE if has_file[work] and has_library[work]}
    if found & {Workload.PICTURES, Workload.SOUND} and not has_file[Workload.TABLES]:
        found.discard(Workload.TABLES)  # labels
    if has_file[Workload.RECORDS]:
        found.add(Workload.RECORDS)
    if not has_file[Workload.TABLES] and not _has_any(files, _TABLES_ONLY):
        found.discard(Workload.TABLES)
    if _has_any(files, (_TORCH,)):  # TensorBoard of PyTorch imports TensorFlow where it is there
        found.discard(Workload.TENSORFLOW)
    return tuple(work for work in Workload if work in found)


def find_pools(paths: Iterable[str]) -> tuple[ThreadPool, ...]:
    """The thread pools of the libraries among these mapped files. Pure."""
    files = set(paths)
    return tuple(
        pool
        for pool, parts in _POOLS.items()
        if any(part in path and not _is_shipped(path, part) for path in files for part in parts)
    )


def held_to_one_thread(environment: bytes) -> str:
    """`OMP_NUM_THREADS=1`, of the content of /proc/PID/environ; "" where no variable says so. Pure.

    nproc(1) counts by OMP_NUM_THREADS too, and torchrun sets it to 1 for several ranks
    (torch/distributed/run.py).
    """
    entries = set(environment.split(b"\0")[:-1])
    return next((f"{name}=1" for name in _THREAD_COUNTS if f"{name}=1".encode() in entries), "")


def mapped_files(maps: bytes) -> set[str]:
    """The files in /proc/PID/maps. A line that was cut off at the end is left out. Pure."""
    found = set()
    for line in maps.split(b"\n")[:-1]:
        at = line.find(b" /")
        if at >= 0:
            found.add(line[at + 1 :].decode("utf-8", "replace"))
    return found


def _is_preparing(files: set[str]) -> bool:
    """Whether datasets of Hugging Face writes its cache."""
    tables = {path.rpartition("/")[0] for path in files if path.endswith(".arrow")}
    return any(
        (_TEMPORARY.search(path) and path.rpartition("/")[0] in tables) or _UNFINISHED.search(path)
        for path in files
    )


def _has_any(files: set[str], parts: tuple[str, ...]) -> bool:
    return any(part in path for path in files for part in parts)


def _get_suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def _is_shipped(path: str, part: str) -> bool:
    return part == "libavcodec" and any(word in path for word in _SHIPPED_WITH)
