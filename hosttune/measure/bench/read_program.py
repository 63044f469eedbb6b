"""A program by itself: reads files and decodes them on command, one of several workers side by
side.

It runs in hosttune's own Python for reading and in the user's for decoding, as that user, given as
text (`-c`): so it needs nothing of hosttune, Python 3.8 or newer, and whatever library the user
has. Lines of JSON go in at stdin and come out at what was stdout; the numbers of the files to work
on come through a pipe that all workers share, four bytes each, so that the next free worker takes
the next one, as workers of a DataLoader do.

  {"settings": {"queue": FD, "most": BYTES, "memory": BYTES, "limit_s": SECONDS}}
  {"libraries": ["jpg", "npy"]}   -> {"python", "libraries": {"jpg": "Pillow 13.0.0"},
                                      "notes": [...], "rss": BYTES}
  {"paths": [...]}                -> {"paths": COUNT}
  {"probe": [0, 1, 2]}            -> {"file", "bytes", "pixels", "seconds", "error"} for each, then
                                     {"probed": COUNT}
  {"go": "read"|"decode"|"hand"}  -> after END: {"files", "bytes", "failed", "start", "end", "cpu",
                                     "user", "device"}

An image that was made to harm meets RLIMIT_DATA, and a timer whose signal ends the process in
whatever C code it is. Nothing of the user's is written: RLIMIT_FSIZE is 0, and files are opened so
that their access time stays.
"""

from __future__ import annotations

import array
import ast
import contextlib
import io
import json
import mmap
import os
import resource
import signal
import stat
import sys
import time
import warnings
import wave
from importlib import import_module
from typing import Any, Callable, Sequence  # noqa: UP035 - Python 3.8 cannot subscript those of collections.abc

# the bytes of a file -> how many values (pixels, samples) came out
Decoder = Callable[[bytes], int]

END = 0xFFFFFFFF  # instead of the number of a file: this worker's pass is over
BLOCK = 1 << 20
BATCH = 32  # files
BATCH_MOST = 64 << 20  # bytes
IMAGES = {"jpg", "jpeg", "png", "bmp", "gif", "webp", "tif", "tiff", "ppm", "pgm"}
SOUNDS = {"wav", "flac", "ogg", "mp3"}
ARRAYS = {"npy"}


class ReadWorker:
    """What one worker knows: its settings, the files, the libraries it found."""

    def __init__(self, out: int) -> None:
        self.out = out
        self.queue = -1
        self.most = 64 << 20
        self.limit_s = 10.0
        self.paths: list[bytes] = []
        self.decoders: dict[str, Decoder] = {}

    def settings(self, given: dict[str, Any]) -> None:
        self.queue = given["queue"]
        self.most = int(given["most"])
        self.limit_s = float(given["limit_s"])
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_DATA: int(given["memory"]),
        }
        for what, wanted in limits.items():
            # A limit above the hard one is refused with EPERM or EINVAL, and an administrator's
            # lower limit is to hold.
            hard = resource.getrlimit(what)[1]
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(what, (most, most))

    def libraries(self, suffixes: Sequence[str]) -> None:
        """Load what decodes these names; the load itself is not part of any pass."""
        names: dict[str, str] = {}
        notes: list[str] = []
        for suffix in suffixes:
            made = decoder_of(suffix, notes)
            if made:
                names[suffix], self.decoders[suffix] = made
        # Linux counts ru_maxrss in KiB (getrusage(2)).
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        self.say(
            {"python": sys.version.split()[0], "libraries": names, "notes": notes[:4], "rss": rss}
        )

    def set_paths(self, paths: Sequence[str]) -> None:
        self.paths = [os.fsencode(path) for path in paths]
        self.say({"paths": len(paths)})

    def probe(self, numbers: Sequence[int]) -> None:
        """Decode each file once, and say of each how it went."""
        for number in numbers:
            started = time.monotonic()
            answer: dict[str, Any] = {"file": number, "bytes": 0, "pixels": 0, "error": ""}
            try:
                data = read_content(self.paths[number], self.most)
                answer["bytes"] = len(data)
                self.guard(self.limit_s)
                answer["pixels"] = self.decode_file(number, data)
            except Exception as error:  # noqa: BLE001 - a library may raise anything about a broken file
                answer["error"] = (type(error).__name__ + ": " + str(error))[:200]
            finally:
                self.guard(0)
            answer["seconds"] = time.monotonic() - started
            self.say(answer)
        self.say({"probed": len(numbers)})

    def go(self, how: str) -> None:
        """Take numbers from the queue until END comes; what was done, when it began and ended
        (CLOCK_MONOTONIC).
        """
        files = size = failed = waiting = 0
        before = resource.getrusage(resource.RUSAGE_SELF)
        start = end = 0.0
        buffer = bytearray(BLOCK)
        while True:
            # Four bytes are atomic: the kernel reads a pipe under its lock, so no worker gets half
            # of a number.
            word = os.read(self.queue, 4)
            if len(word) < 4:
                sys.exit(1)  # the one who asked is gone
            number = int.from_bytes(word, "little")
            # From the first number on, so that the wait for the start of the other workers does not
            # count.
            start = start or time.monotonic()
            if number == END:
                break
            try:
                if how in {"decode", "hand"}:
                    data = read_content(self.paths[number], self.most)
                    size += len(data)
                    self.guard(self.limit_s)
                    values = self.decode_file(number, data)
                    if how == "hand":
                        waiting += min(values * width_of(self.paths[number]), BATCH_MOST)
                        if files % BATCH == BATCH - 1 or waiting >= BATCH_MOST:
                            hand_on(waiting)
                            waiting = 0
                else:
                    size += read_through(self.paths[number], self.most, buffer)
                files += 1
            except Exception:  # noqa: BLE001 - counted, and known by name from the probe
                failed += 1
            end = time.monotonic()
        if waiting:
            hand_on(waiting)
        self.guard(0)
        after = resource.getrusage(resource.RUSAGE_SELF)
        user = after.ru_utime - before.ru_utime
        cpu = user + after.ru_stime - before.ru_stime
        # ru_inblock counts what the block layer was asked for, in units of 512 bytes (getrusage(2))
        device = (after.ru_inblock - before.ru_inblock) * 512
        counts = {
            "files": files,
            "bytes": size,
            "failed": failed,
            "start": start,
            "end": end or start,
        }
        self.say({**counts, "cpu": cpu, "user": user, "device": device})

    def decode_file(self, number: int, data: bytes) -> int:
        suffix = os.fsdecode(self.paths[number]).rpartition(".")[2].lower()
        return self.decoders[suffix](data)

    def guard(self, seconds: float) -> None:
        """Die of SIGALRM unless called again in time."""
        # The default action of SIGALRM ends the process in C code too, where a Python handler would
        # wait for the end of the call.
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def say(self, what: dict[str, Any]) -> None:
        os.write(self.out, json.dumps(what).encode() + b"\n")


def width_of(path: bytes) -> int:
    """Bytes of one value that is decoded: a pixel in three colours, a sample or a number of
    four.
    """
    return 3 if os.fsdecode(path).rpartition(".")[2].lower() in IMAGES else 4


def hand_on(size: int) -> None:
    """What a worker of a DataLoader does with a batch: a copy in memory that is shared with another
    process (torch/multiprocessing/reductions.py).
    """
    with mmap.mmap(-1, size) as shared:
        shared[:] = b"\x7f" * size


def open_file(path: bytes) -> int:
    """A descriptor of a regular file whose access time stays, where that is in our power
    (O_NOATIME, open(2)).
    """
    if os.geteuid() == 0:
        return opened_as_root(path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        # EPERM where the file belongs to someone else (open(2)), whatever its mode says.
        fd = os.open(path, flags | os.O_NOATIME)
    except PermissionError:
        fd = os.open(path, flags)  # another's file: chosen only where no access time moves
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("not a regular file")
    return fd


def opened_as_root(path: bytes) -> int:
    """Who owns a folder on the way may put a link there: to open a device, which may do something
    already, or a file elsewhere is what root must not be led to. O_PATH opens nothing, and tells
    where it is. In a folder that the bench holds open there is no way for others.
    """
    # O_NOFOLLOW guards only the last name; the comparison of the link below guards the folders on
    # the way.
    found = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        place = b"/proc/self/fd/%d" % found
        is_held = path.startswith(b"/proc/%d/fd/" % os.getppid())
        if not stat.S_ISREG(os.fstat(found).st_mode) or not (is_held or os.readlink(place) == path):
            raise ValueError("not a regular file of this path")
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOATIME)
    finally:
        os.close(found)


def read_through(path: bytes, most: int, buffer: bytearray) -> int:
    """Read a file and drop it; its size, at most `most` bytes."""
    fd = open_file(path)
    try:
        size = 0
        while size < most:
            # Into one buffer: a new bytes object for each block would measure the allocator of
            # Python beside the disk.
            got = os.readv(fd, [buffer])
            if not got:
                break
            size += got
        return size
    finally:
        os.close(fd)


def read_content(path: bytes, most: int) -> bytes:
    fd = open_file(path)
    try:
        parts: list[bytes] = []
        size = 0
        while size < most:
            part = os.read(fd, BLOCK)
            if not part:
                break
            parts.append(part)
            size += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(fd)


def decoder_of(suffix: str, notes: list[str]) -> tuple[str, Decoder] | None:
    """(library and version, function of bytes that returns how many values came out) or nothing."""
    makers: tuple[Callable[[], tuple[str, Decoder]], ...] = ()
    if suffix in IMAGES:
        makers = (with_pillow, with_opencv, with_torchvision)
    elif suffix in SOUNDS:
        makers = (with_wave,) if suffix == "wav" else (with_soundfile,)
    elif suffix in ARRAYS:
        makers = (with_numpy, with_array)
    for make in makers:
        try:
            made = make()
        except Exception:  # noqa: BLE001, S112 - a library that cannot be loaded is one that is not there
            continue
        if make is with_pillow and not import_module("PIL.features").check_feature("libjpeg_turbo"):
            note = (
                "this Pillow was built without libjpeg-turbo, which decodes JPEG several times as "
                "fast"
            )
            notes += [note] if note not in notes else []
        return made
    return None


def with_pillow() -> tuple[str, Decoder]:
    pillow: Any = import_module("PIL.Image")
    # What Pillow warns of (DecompressionBombWarning) would go to standard error, which is thrown
    # away.
    warnings.simplefilter("ignore")

    def decode(data: bytes) -> int:
        with pillow.open(io.BytesIO(data)) as image:
            made = image.convert("RGB")
            return int(made.width * made.height)

    return f"Pillow {pillow.__version__}", decode


def with_opencv() -> tuple[str, Decoder]:
    cv2: Any = import_module("cv2")
    numpy: Any = import_module("numpy")
    # As a loader worker should: a pool in each of N workers would measure N times as many threads
    # as there are CPUs.
    cv2.setNumThreads(1)

    def decode(data: bytes) -> int:
        made = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)
        if made is None:
            raise ValueError("OpenCV cannot decode it")
        return int(made.shape[0] * made.shape[1])

    return f"OpenCV {cv2.__version__}", decode


def with_torchvision() -> tuple[str, Decoder]:
    torch: Any = import_module("torch")
    images: Any = import_module("torchvision.io")
    torch.set_num_threads(1)

    def decode(data: bytes) -> int:
        made = images.decode_image(
            torch.frombuffer(bytearray(data), dtype=torch.uint8), images.ImageReadMode.RGB
        )
        return int(made.shape[1] * made.shape[2])

    return f"torchvision {import_module('torchvision').__version__}", decode


def with_wave() -> tuple[str, Decoder]:
    def decode(data: bytes) -> int:
        with wave.open(io.BytesIO(data)) as sound:
            frames = sound.readframes(sound.getnframes())
            # 24 bits have no array type; their bytes count then, which is three values for one
            # sample.
            kind = {1: "B", 2: "h", 4: "i"}.get(sound.getsampwidth())
        return len(array.array(kind, frames)) if kind else len(frames)

    return f"wave of Python {sys.version.split()[0]}", decode


def with_soundfile() -> tuple[str, Decoder]:
    soundfile: Any = import_module("soundfile")

    def decode(data: bytes) -> int:
        return int(soundfile.read(io.BytesIO(data), dtype="float32")[0].size)

    return f"soundfile {soundfile.__version__}", decode


def with_numpy() -> tuple[str, Decoder]:
    numpy: Any = import_module("numpy")

    def decode(data: bytes) -> int:
        # A pickle in an .npy file runs code when it is loaded.
        return int(numpy.load(io.BytesIO(data), allow_pickle=False).size)

    return f"NumPy {numpy.__version__}", decode


def with_array() -> tuple[str, Decoder]:
    """Without NumPy: the header, then a copy of the values (numpy.lib.format, versions 1 to 3)."""

    def decode(data: bytes) -> int:
        if data[:6] != b"\x93NUMPY":
            raise ValueError("not an .npy file")
        start = 10 if data[6] == 1 else 12
        length = int.from_bytes(data[8:start], "little")
        header = ast.literal_eval(data[start : start + min(length, 1 << 16)].decode("latin-1"))
        values = bytearray(data[start + length :])
        count = 1
        for one in header["shape"]:
            count *= int(one)
        if len(values) < count:
            raise ValueError("it is cut off")
        return count

    return "a plain copy: no NumPy here", decode


def main() -> None:
    # What a library prints must not look like an answer.
    out = os.dup(1)
    os.dup2(2, 1)
    # not the working folder, which `-c` puts first
    sys.path[:] = [path for path in sys.path if path]
    worker = ReadWorker(out)
    calls: dict[str, Callable[[Any], None]] = {
        "settings": worker.settings, "libraries": worker.libraries, "paths": worker.set_paths,
        "probe": worker.probe, "go": worker.go,
    }  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        for line in sys.stdin.buffer:
            for name, given in json.loads(line).items():
                calls[name](given)


if __name__ == "__main__":
    main()
