"""Makes the files beside it, packed by gzip, with the libraries that people make such files with.

Run by hand in an environment of its own: pip install h5py pyarrow polars pillow protobuf
google-crc32c; python generate.py
"""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import google_crc32c
import h5py
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

HERE = Path(__file__).parent
ROWS = 50


def picture(number: int, form: str = "JPEG") -> bytes:
    """64 x 48, in colour."""
    out = io.BytesIO()
    Image.new("RGB", (64, 48), (40 * number % 256, 90, 30)).save(out, form)
    return out.getvalue()


def hdf5_groups(out: Path, name: str, **how: object) -> None:
    """Groups in groups, every kind of type, chunks, attributes, links to what is there already, and
    a cycle.
    """
    with h5py.File(out / name, "w", **how) as file:
        train = file.create_group("train")
        train.create_dataset(
            "pictures", (20, 32, 32, 3), "u1", chunks=(5, 32, 32, 3), compression="gzip"
        )[:] = 7
        train["labels"] = np.arange(20, dtype="<i8")
        train["labels"].attrs["names"] = np.bytes_("cat dog")
        other = file.create_group("other")
        other["names"] = np.array([b"one", b"three"], dtype="S8")
        other["flags"] = np.array([True, False, True])
        other["boxes"] = np.zeros(
            3, dtype=[("at", "<f4", (2, 2)), ("name", "S5"), ("is", "?"), ("x", "<f8")]
        )
        other["vectors"] = np.zeros(4, dtype=np.dtype(("<f8", (3,)))).reshape(4, 3)
        other.create_dataset(
            "tensors", (6,), dtype=h5py.Datatype(h5py.h5t.array_create(h5py.h5t.IEEE_F64LE, (2, 5)))
        )
        other["half"] = np.float16(1.5)
        other["nothing"] = h5py.Empty("f4")
        other["complex"] = np.zeros(2, dtype="<c16")
        file["again"] = train["labels"]
        file["soft"] = h5py.SoftLink("/train/labels")
        file["far"] = h5py.ExternalLink("elsewhere.h5", "/x")
        train["up"] = file["/"]


def hdf5_wide(out: Path) -> None:
    """Chunks across rows, as h5py guesses them: a row is in twelve of them."""
    with h5py.File(out / "wide.h5", "w") as file:
        file.create_dataset(
            "pictures", (16, 56, 56, 3), "u1", chunks=(8, 28, 28, 1), compression="lzf"
        )[:] = 7
        file["labels"] = np.arange(16)


def hdf5_untold(out: Path) -> None:
    with h5py.File(out / "strings.h5", "w") as file:
        file["words"] = ["of", "different", "lengths"]
    with h5py.File(out / "nested_strings.h5", "w") as file:
        file.create_dataset("rows", (2,), [("x", "<i4"), ("word", h5py.string_dtype())])
    with h5py.File(out / "external.h5", "w") as file:
        file.create_dataset("x", (100,), "f4", external=[("elsewhere.bin", 0, 400)])
    with h5py.File(out / "virtual.h5", "w", libver="latest") as file:
        layout = h5py.VirtualLayout((100,), "f4")
        layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (100,))
        file.create_virtual_dataset("x", layout)
    with h5py.File(out / "dense.h5", "w", libver="latest") as file:
        for number in range(9):
            file[f"x{number}"] = np.uint8(number)
    for name, count in (("many.h5", 80), ("crowd.h5", 300)):
        with h5py.File(out / name, "w") as file:
            for number in range(count):
                file[f"x{number}"] = np.zeros(10, dtype="<f8")
    with h5py.File(out / "named_type.h5", "w") as file:
        file["type"] = np.dtype("<f4")
        file.create_dataset("x", (10,), file["type"])


def table() -> pa.Table:
    return pa.table(
        {
            "tiny": pa.array(range(ROWS), pa.int8()),
            "short": pa.array(range(ROWS), pa.uint16()),
            "whole": pa.array([None, *range(1, ROWS)], pa.int32()),
            "long": pa.array(range(ROWS), pa.int64()),
            "half": pa.array(np.arange(ROWS, dtype="f2")),
            "real": pa.array(np.arange(ROWS, dtype="f4")),
            "flag": pa.array([number % 2 == 0 for number in range(ROWS)]),
            "when": pa.array(range(ROWS), pa.timestamp("us")),
            "id": pa.array([bytes(16)] * ROWS, pa.binary(16)),
            "class": pa.array(["cat", "dog"] * (ROWS // 2)),
            "vector": pa.array([[1.0, 2.0, 3.0]] * ROWS, pa.list_(pa.float32())),
            "pixels": pa.array([[[1, 2], [3, 4]]] * ROWS, pa.list_(pa.list_(pa.uint8()))),
        }
    )


def pictures(*forms: str) -> pa.Table:
    """As Hugging Face's datasets keeps them."""
    rows = [
        {"bytes": picture(number, form), "path": f"{number}.img"}
        for number, form in enumerate(forms)
    ]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.table(
        {"image": pa.array(rows, kind), "label": pa.array(range(len(forms)), pa.int64())}
    )


def parquet(out: Path) -> None:
    pq.write_table(
        table(),
        out / "table.parquet",
        row_group_size=30,
        write_statistics=False,
        store_schema=False,
    )
    pl.DataFrame({"class": ["cat", "horse"] * 500}).write_parquet(out / "dictionary.parquet")
    some = pictures("JPEG", "PNG", "PNG", "JPEG")
    pq.write_table(some, out / "pictures.parquet", compression="none")
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(some, out / "pictures_plain.parquet", **plain)
    pq.write_table(some, out / "pictures_v2.parquet", data_page_version="2.0", **plain)
    pq.write_table(some, out / "pictures_snappy.parquet", compression="snappy", row_group_size=1)
    packed = {"compression": "gzip", "use_dictionary": False, "row_group_size": 1}
    pq.write_table(some, out / "pictures_gzip.parquet", **packed)
    pq.write_table(some, out / "pictures_gzip_v2.parquet", data_page_version="2.0", **packed)
    pq.write_table(some, out / "pictures_zstd.parquet", compression="zstd")
    pq.write_table(table().replace_schema_metadata({"notes": "x" * 70_000}), out / "long.parquet")
    pq.write_table(
        pa.table({"blob": [b"no picture at all" * 9] * 4}),
        out / "blobs.parquet",
        compression="none",
    )


def tfrecord(out: Path) -> None:
    example, sequence = messages()
    records = []
    for number in range(3):
        one = example()
        feature = one.features.feature
        feature["image/encoded"].bytes_list.value.append(
            picture(number, "PNG" if number else "JPEG")
        )
        feature["image/class/text"].bytes_list.value.append(b"cat")
        feature["label"].int64_list.value.append(-1 if number else 300)
        feature["ids"].int64_list.value.extend([1, 300, 70_000])
        feature["box"].float_list.value.extend([0.1, 0.2, 0.3, 0.4])
        feature["empty"].SetInParent()
        records.append(one.SerializeToString(deterministic=True))
    one = sequence()
    one.context.feature["length"].int64_list.value.append(2)
    for number in range(2):
        one.feature_lists.feature_list["frames"].feature.add().bytes_list.value.append(
            picture(number, "PNG")
        )
    records.append(one.SerializeToString(deterministic=True))
    (out / "examples.tfrecord").write_bytes(b"".join(record(data) for data in records))


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def messages() -> tuple[type, type]:
    """Example and SequenceExample, as example.proto and feature.proto declare them."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tf", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    lists = {
        "BytesList": kinds.TYPE_BYTES,
        "FloatList": kinds.TYPE_FLOAT,
        "Int64List": kinds.TYPE_INT64,
    }
    for name, kind in lists.items():
        file.message_type.add(name=name).field.add(
            name="value", number=1, type=kind, label=kinds.LABEL_REPEATED
        )
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (field, name) in enumerate(
        (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), 1
    ):
        feature.field.add(
            name=field, number=number, type=kinds.TYPE_MESSAGE, type_name=f".tf.{name}", label=kinds.LABEL_OPTIONAL, oneof_index=0
        )  # fmt: skip
    holder = file.message_type.add(name="FeatureList").field
    holder.add(
        name="feature",
        number=1,
        type=kinds.TYPE_MESSAGE,
        type_name=".tf.Feature",
        label=kinds.LABEL_REPEATED,
    )
    for name, field, of in (
        ("Features", "feature", "Feature"),
        ("FeatureLists", "feature_list", "FeatureList"),
    ):
        entry = "".join(word.capitalize() for word in field.split("_")) + "Entry"
        outer = file.message_type.add(name=name)
        pair = outer.nested_type.add(name=entry)
        pair.options.map_entry = True
        pair.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
        pair.field.add(
            name="value",
            number=2,
            type=kinds.TYPE_MESSAGE,
            type_name=f".tf.{of}",
            label=kinds.LABEL_OPTIONAL,
        )
        outer.field.add(
            name=field,
            number=1,
            type=kinds.TYPE_MESSAGE,
            type_name=f".tf.{name}.{entry}",
            label=kinds.LABEL_REPEATED,
        )
    for name, fields in (
        ("Example", (("features", "Features"),)),
        ("SequenceExample", (("context", "Features"), ("feature_lists", "FeatureLists"))),
    ):
        outer = file.message_type.add(name=name)
        for number, (field, of) in enumerate(fields, 1):
            outer.field.add(
                name=field,
                number=number,
                type=kinds.TYPE_MESSAGE,
                type_name=f".tf.{of}",
                label=kinds.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    of_name = pool.FindMessageTypeByName
    return tuple(
        message_factory.GetMessageClass(of_name(f"tf.{name}"))
        for name in ("Example", "SequenceExample")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        made = Path(folder)
        hdf5_groups(made, "groups.h5")
        hdf5_groups(made, "groups_v18.h5", libver=("v108", "v108"))
        hdf5_groups(made, "groups_latest.h5", libver="latest", track_order=True)
        hdf5_wide(made)
        hdf5_untold(made)
        parquet(made)
        tfrecord(made)
        for path in sorted(made.iterdir()):
            packed = gzip.compress(path.read_bytes(), mtime=0)
            (HERE / f"{path.name}.gz").write_bytes(packed)
            print(f"{path.stat().st_size:6} {len(packed):6} {path.name}")
