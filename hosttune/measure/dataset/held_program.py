"""What the containers of a data set hold, asked of the libraries that people make and read them with.

No program by itself: `read_program.py` takes it in as text, in the user's Python and as that user. So it needs nothing
of hosttune, and Python 3.8 or newer. A teller gets an open file and a `Held`, and returns the library it asked.
"""

from __future__ import annotations

import base64
import math
import mmap
import os
import random
import time
from importlib import import_module
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 - Python 3.8 cannot subscript those of collections.abc

ROWS = 64  # of a container that are looked at, drawn at random: its kinds may lie one after the other
MOST_GROUP = 512 << 20  # bytes of row groups that are unpacked for them
MOST_S = 5.0  # to find the records of a file
HEAD = 45 << 10  # bytes of a value: a header lies there, and one line holds them
LABEL = 64  # bytes: no picture and no sound is as short as that
MOST = 64 << 20  # bytes of one record


class Held:
    """The sizes of what a container holds, in bytes: numbers as they are stored and with four bytes each. `of` is what
    becomes that, where it is not the whole file."""

    def __init__(self, say: Callable[[dict[str, Any]], None], *, is_whole: bool = False) -> None:
        self.say = say
        self.is_whole = is_whole  # all rows are looked at
        self.native = self.float32 = 0.0
        self.of = 0
        self.rows: list[float] = []  # of those that were drawn, what each adds to `native`
        self._before = 0.0

    def drawn(self, count: int) -> Sequence[int]:
        return range(count) if self.is_whole else drawn(count)

    def end_row(self) -> None:
        """After each row that was drawn from many."""
        self.rows.append(self.native - self._before)
        self._before = self.native

    def error(self) -> float:
        """The standard error of `native`, as far as rows differ in what is told here."""
        count = len(self.rows)
        mean = sum(self.rows) / count if count else 0.0
        return math.sqrt(count * sum((one - mean) ** 2 for one in self.rows) / (count - 1)) if count > 1 else 0.0

    def numbers(self, count: float, width: float) -> None:
        self.native += count * width
        self.float32 += count * 4

    def plain(self, size: float) -> None:
        """What stays as it is in any type: text, labels."""
        self.native += size
        self.float32 += size

    def values(self, found: Sequence[bytes], times: float) -> None:
        """Byte strings, each of which stands for `times`: text counts, the others are handed on."""
        for one in found:
            if len(one) < LABEL or is_text(one):
                self.plain(len(one) * times)
            else:
                head = base64.b64encode(one[:HEAD]).decode("ascii")
                self.say({"value": head, "size": len(one), "times": times})


def drawn(count: int) -> list[int]:
    """At most ROWS of so many, in order: one at random of each part of the same length."""
    if count <= ROWS:
        return list(range(count))
    draw = random.Random(count)  # noqa: S311 - no secret; the same ones each time
    return [int((part + draw.random()) * count / ROWS) for part in range(ROWS)]


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
        if types.is_null(kind) or not len(one):
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
    """Rows of some row groups, all through each, and how many there are."""
    file = import_module("pyarrow.parquet").ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
    if held.is_whole:
        for batch in file.iter_batches(batch_size=256, use_threads=False):
            with_pyarrow(batch.columns, held, 1)
        return pyarrow_name()
    told = file.metadata
    groups = [told.row_group(number) for number in range(told.num_row_groups)]
    rows = drawn(told.num_rows)
    left = MOST_GROUP
    seen = 0
    parts: list[Any] = []
    start = 0
    order: list[tuple[int, int, list[int]]] = []
    for number, group in enumerate(groups):
        own = [row - start for row in rows if start <= row < start + group.num_rows]
        start += group.num_rows
        order += [(number, group.total_byte_size, own)] if own else []
    random.Random(told.num_rows).shuffle(order)  # noqa: S311 - no secret
    for number, size, own in order:
        left -= size
        if left < 0 and (parts or size > MOST_GROUP):
            if not parts:
                raise ValueError("row groups of more than 512 MiB")
            break
        passed = 0
        for batch in file.iter_batches(batch_size=256, row_groups=[number], use_threads=False):
            parts += [batch.slice(row - passed, 1) for row in own if passed <= row < passed + batch.num_rows]
            passed += batch.num_rows
        seen += len(own)
    for part in parts:
        with_pyarrow(part.columns, held, told.num_rows / seen)
        if told.num_rows > seen:
            held.end_row()
    return pyarrow_name()


def tell_arrow(file: Any, held: Held) -> str:
    """Rows of the whole file, which is mapped: of what is not looked at nothing is read."""
    arrow: Any = import_module("pyarrow")
    ipc: Any = import_module("pyarrow.ipc")
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        # A copy of each row: nothing may point into the map when it ends.
        is_file = mapped[:6] == b"ARROW1"
        found = rows_of(arrow, ipc, arrow.BufferReader(arrow.py_buffer(mapped)), held, is_file=is_file)
        for columns, times in found:
            with_pyarrow(columns, held, times)
            if times > 1:
                held.end_row()
    return pyarrow_name()


def rows_of(arrow: Any, ipc: Any, source: Any, held: Held, *, is_file: bool) -> Iterator[tuple[list[Any], float]]:
    """Columns of single rows, and how many each stands for."""

    def take(batch: Any, row: int, times: float) -> tuple[list[Any], float]:
        one = arrow.Table.from_batches([batch.slice(row, 1)]).to_pylist()
        return arrow.Table.from_pylist(one, schema=batch.schema).combine_chunks().to_batches()[0].columns, times

    if is_file:
        opened = ipc.open_file(source)
        chosen = held.drawn(opened.num_record_batches)
        each = max(1, ROWS // max(1, len(chosen)))
        for number in chosen:
            batch = opened.get_batch(number)
            rows = held.drawn(batch.num_rows)
            if not held.is_whole:
                rows = rows[:: max(1, min(ROWS, batch.num_rows) // each)]
            for row in rows:
                yield take(batch, row, opened.num_record_batches / len(chosen) * batch.num_rows / len(rows))
        return
    start = source.tell()
    count = sum(batch.num_rows for batch in ipc.open_stream(source))
    source.seek(start)
    rows = held.drawn(count)
    passed = 0
    for batch in ipc.open_stream(source):
        own = range(passed, passed + batch.num_rows)
        for row in own if held.is_whole else [row for row in rows if row in own]:
            yield take(batch, row - passed, count / len(rows))
        passed += batch.num_rows


def pyarrow_name() -> str:
    return f"pyarrow {import_module('pyarrow').__version__}"


def tell_hdf5(file: Any, held: Held) -> str:
    """The shapes and types of all its datasets; of byte strings some."""
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
        rows = held.drawn(one.size)
        first = [one[place_of(row, one.shape)] for row in rows]
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


def place_of(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where the value of this number lies, counted row by row."""
    place: list[int] = []
    for length in reversed(shape):
        number, rest = divmod(number, length)
        place.insert(0, rest)
    return tuple(place)


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
    """Some records: the length and two checksums around an Example or a SequenceExample (TensorFlow,
    io/record_writer.h, example.proto), whose first field is the same."""
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")  # TensorFlow would wake a GPU
    try:
        example: Any = import_module("tfrecord").example_pb2.SequenceExample
        name = "tfrecord"
    except ImportError:
        library: Any = import_module("tensorflow")
        example, name = library.train.SequenceExample, f"tensorflow {library.__version__}"
    places = records(file, math.inf if held.is_whole else MOST_S)
    rows = held.drawn(len(places))
    times = len(places) / len(rows) if rows else 0.0
    for row in rows:
        offset, length = places[row]
        file.seek(offset)
        record = example.FromString(file.read(length))
        lists = record.feature_lists.feature_list.values()
        features = [*record.context.feature.values(), *(one for steps in lists for one in steps.feature)]
        if not features:
            raise ValueError("no Example with features")
        for one in features:
            held.values(one.bytes_list.value, times)
            held.numbers(len(one.float_list.value) * times, 4)
            held.numbers(len(one.int64_list.value) * times, 8)
        if times > 1:
            held.end_row()
    return name


def records(file: Any, most_s: float) -> list[tuple[int, int]]:
    """Offset and length of each record that is whole."""
    size = file.seek(0, os.SEEK_END)
    found: list[tuple[int, int]] = []
    place, until = 0, time.monotonic() + most_s
    while place + 16 <= size:
        file.seek(place)
        length = int.from_bytes(file.read(12)[:8], "little")
        if length > MOST or place + length + 16 > size:
            break
        found.append((place + 12, length))
        place += length + 16
        if time.monotonic() > until:
            raise ValueError("too many records to find in the time")
    return found


TELLERS: dict[str, Callable[[Any, Held], str]] = {
    "Parquet": tell_parquet, "Arrow": tell_arrow, "HDF5": tell_hdf5, "TFRecord": tell_tfrecord,
}  # fmt: skip
