"""What the containers of a data set hold, asked of the libraries that people make and read them with.

No program by itself: `read_program.py` takes it in as text, in the user's Python and as that user. So it needs nothing
of hosttune, and Python 3.8 or newer. A teller gets an open file and a `Held`, and returns the library it asked.
"""

from __future__ import annotations

import base64
import os
from importlib import import_module
from typing import Any, Callable, Sequence  # noqa: UP035 - Python 3.8 cannot subscript those of collections.abc

ROWS = 32  # of a container that are looked at
VALUES = 8  # of one column that are handed on
HEAD = 45 << 10  # bytes of a value: a header lies there, and one line holds them
LABEL = 64  # bytes: no picture and no sound is as short as that
MOST = 64 << 20  # bytes of one record


class Held:
    """The sizes of what a container holds, in bytes: numbers as they are stored and with four bytes each. `of` is what
    becomes that, where it is not the whole file."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        self.say = say
        self.native = self.float32 = 0.0
        self.of = 0

    def numbers(self, count: float, width: float) -> None:
        self.native += count * width
        self.float32 += count * 4

    def plain(self, size: float) -> None:
        """What stays as it is in any type: text, labels."""
        self.native += size
        self.float32 += size

    def values(self, found: Sequence[bytes], times: float) -> None:
        """Byte strings, each of which stands for `times`: text counts, the others are handed on as far as they go."""
        hidden = []
        for one in found:
            if len(one) < LABEL or is_text(one):
                self.plain(len(one) * times)
            else:
                hidden.append(one)
        shown = hidden[:VALUES]
        for one in shown:
            head = base64.b64encode(one[:HEAD]).decode("ascii")
            self.say({"value": head, "size": len(one), "times": times * len(hidden) / len(shown)})


def is_text(value: bytes) -> bool:
    try:
        return value[:4096].decode("utf-8", "strict" if len(value) <= 4096 else "ignore").isprintable()
    except UnicodeDecodeError:
        return False


def with_pyarrow(arrays: Sequence[Any], held: Held, times: float) -> None:
    """The values of Arrow's arrays, whatever they are nested in."""
    types: Any = import_module("pyarrow").types
    for one in arrays:
        kind = one.type
        if types.is_null(kind):
            continue
        if hasattr(one, "storage"):
            with_pyarrow([one.storage], held, times)
        elif types.is_dictionary(kind):
            with_pyarrow([one.dictionary_decode()], held, times)
        elif types.is_struct(kind):
            with_pyarrow(one.flatten(), held, times)
        elif types.is_nested(kind):
            with_pyarrow([one.flatten()] if not types.is_map(kind) else [one.keys, one.items], held, times)
        elif types.is_string(kind) or types.is_large_string(kind):
            held.plain(sum(len(text.encode()) for text in one.to_pylist() if text) * times)
        elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            held.values([value for value in one.to_pylist() if value], times)
        else:
            held.numbers(len(one) * times, max(8, kind.bit_width) / 8)


def tell_parquet(file: Any, held: Held) -> str:
    """The first rows, and how many there are."""
    file = import_module("pyarrow.parquet").ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
    for batch in file.iter_batches(batch_size=ROWS, use_threads=False):
        with_pyarrow(batch.columns, held, file.metadata.num_rows / batch.num_rows)
        break
    return pyarrow_name()


def tell_arrow(file: Any, held: Held) -> str:
    """The first batch: of a file as long as the others are, of a stream beside the bytes that it takes."""
    ipc: Any = import_module("pyarrow.ipc")
    if file.read(6) == b"ARROW1":
        file.seek(0)
        source = ipc.open_file(file)
        count = source.num_record_batches
        if count:
            first, last = source.get_batch(0), source.get_batch(count - 1)
            rows = first.num_rows * (count - 1) + last.num_rows
            with_pyarrow(first.slice(0, ROWS).columns, held, rows / max(1, min(ROWS, first.num_rows)))
        return pyarrow_name()
    file.seek(0)
    source = ipc.open_stream(file)
    start = file.tell()
    for first in source:
        held.of = file.tell() - start
        with_pyarrow(first.slice(0, ROWS).columns, held, first.num_rows / max(1, min(ROWS, first.num_rows)))
        break
    return pyarrow_name()


def pyarrow_name() -> str:
    return f"pyarrow {import_module('pyarrow').__version__}"


def tell_hdf5(file: Any, held: Held) -> str:
    """The shapes and types of all its datasets; of byte strings the first ones."""
    h5py: Any = import_module("h5py")

    def tell(_: str, one: Any) -> None:
        if not isinstance(one, h5py.Dataset) or not one.size:
            return
        if one.external or one.is_virtual:
            raise ValueError("its data lie in other files")
        if not one.dtype.hasobject:
            add_type(one.dtype, one.size, held)
            return
        is_string = h5py.check_string_dtype(one.dtype) is not None
        inner = None if is_string else h5py.check_vlen_dtype(one.dtype)
        if inner is None and not is_string:
            raise ValueError("values of different lengths within records")
        first = one[()].reshape(1) if one.shape == () else one[(0,) * (one.ndim - 1) + (slice(ROWS),)]
        times = one.size / len(first)
        if inner is None:
            held.values([value if isinstance(value, bytes) else str(value).encode() for value in first], times)
        elif inner.itemsize == 1:
            held.values([value.tobytes() for value in first], times)
        else:
            held.numbers(sum(len(value) for value in first) * times, inner.itemsize)

    with h5py.File(file, "r") as source:
        source.visititems(tell)
    return f"h5py {h5py.__version__}"


def add_type(kind: Any, count: int, held: Held) -> None:
    """`count` values of a NumPy type: fields, sub-arrays, numbers, or bytes."""
    if kind.fields:
        for part in kind.fields.values():
            add_type(part[0], count, held)
    elif kind.subdtype:
        inner, shape = kind.subdtype
        for length in shape:
            count *= length
        add_type(inner, count, held)
    elif kind.kind == "c":
        held.numbers(2 * count, kind.itemsize / 2)
    elif kind.kind in "iufb":
        held.numbers(count, kind.itemsize)
    else:
        held.plain(count * kind.itemsize)


def tell_tfrecord(file: Any, held: Held) -> str:
    """The first records: the length and two checksums around an Example or a SequenceExample (TensorFlow,
    io/record_writer.h, example.proto), whose first field is the same."""
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")  # TensorFlow would wake a GPU
    try:
        example: Any = import_module("tfrecord").example_pb2.SequenceExample
        name = "tfrecord"
    except ImportError:
        library: Any = import_module("tensorflow")
        example, name = library.train.SequenceExample, f"tensorflow {library.__version__}"
    for _ in range(ROWS):
        head = file.read(12)
        length = int.from_bytes(head[:8], "little")
        payload = file.read(length + 4) if len(head) == 12 and length <= MOST else b""
        if len(payload) < length + 4:
            break
        record = example.FromString(payload[:length])
        lists = record.feature_lists.feature_list.values()
        features = [*record.context.feature.values(), *(one for steps in lists for one in steps.feature)]
        if not features:
            raise ValueError("no Example with features")
        for one in features:
            held.values(one.bytes_list.value, 1.0)
            held.numbers(len(one.float_list.value), 4)
            held.numbers(len(one.int64_list.value), 8)
        held.of += length + 16
    return name


TELLERS: dict[str, Callable[[Any, Held], str]] = {
    "Parquet": tell_parquet, "Arrow": tell_arrow, "HDF5": tell_hdf5, "TFRecord": tell_tfrecord,
}  # fmt: skip
