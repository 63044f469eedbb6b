"""Formats by the ends of file names. Pure.

A suffix says what a file calls itself; what it is, its header says (header.py).
"""

from __future__ import annotations

import re
from typing import Final

from hosttune.frozen import frozen
from hosttune.regex import regex

NONE: Final = "no suffix"
OTHER: Final = "other suffixes"
_LONGEST: Final = 10  # a longer end of a name is part of the name
# Bounded digits: a suffix is a user's text, and a pattern of any length would be tried on it for
# each name.
_SHARD: Final = regex(r"-\d{1,9}-of-\d{1,9}\Z", re.ASCII)


@frozen
class Format:
    """`kind` is picture, sound, video, array, shard, text or packed."""

    name: str
    kind: str
    suffixes: tuple[str, ...]


FORMATS: Final = (
    Format("JPEG", "picture", ("jpg", "jpeg", "jpe", "jfif")),
    Format("PNG", "picture", ("png", "apng")),
    Format("BMP", "picture", ("bmp", "dib")),
    Format("GIF", "picture", ("gif",)),
    Format("WebP", "picture", ("webp",)),
    Format("TIFF", "picture", ("tif", "tiff")),
    Format("AVIF", "picture", ("avif", "heic", "heif")),
    Format("JPEG 2000", "picture", ("jp2", "j2k")),
    Format("DICOM", "picture", ("dcm", "dicom")),
    Format("WAV", "sound", ("wav", "wave")),
    Format("FLAC", "sound", ("flac",)),
    Format("MP3", "sound", ("mp3",)),
    Format("Ogg", "sound", ("ogg", "oga", "opus")),
    Format("MPEG-4", "video", ("mp4", "m4v", "mov")),
    Format("Matroska", "video", ("mkv", "webm")),
    Format("AVI", "video", ("avi",)),
    Format("npy", "array", ("npy",)),
    Format("npz", "array", ("npz",)),
    Format("HDF5", "array", ("h5", "hdf5", "hdf", "nc")),
    Format("PyTorch", "array", ("pt", "pth")),
    Format("pickle", "array", ("pkl", "pickle")),
    Format("safetensors", "array", ("safetensors",)),
    Format("Arrow", "array", ("arrow", "feather")),
    Format("tar", "shard", ("tar",)),
    Format("TFRecord", "shard", ("tfrecord", "tfrecords", "tfrec")),
    Format("Parquet", "shard", ("parquet",)),
    Format("LMDB", "shard", ("mdb", "lmdb")),
    Format("MDS", "shard", ("mds",)),
    Format("JSON", "text", ("json", "jsonl", "ndjson")),
    Format("CSV", "text", ("csv", "tsv")),
    Format("text", "text", ("txt", "text")),
    Format("XML", "text", ("xml",)),
    Format("gzip", "packed", ("gz", "tgz")),
    Format("zip", "packed", ("zip",)),
    Format("Zstandard", "packed", ("zst",)),
    Format("xz", "packed", ("xz",)),
    Format("bzip2", "packed", ("bz2",)),
)  # fmt: skip
BY_SUFFIX: Final = {suffix: one for one in FORMATS for suffix in one.suffixes}
BY_NAME: Final = {one.name: one for one in FORMATS}


def key_of(suffix: str) -> str:
    """The name of the format, `.abc` for a suffix that is in no table, or `no suffix`: frames that
    are numbered (`shot.0001`) and names without a point have none. Shards are numbered behind it
    (`a.tfrecord-00003-of-01024`).
    """
    low = suffix.lower()
    if known := BY_SUFFIX.get(_SHARD.sub("", low)):
        return known.name
    # Each of these would be a format of its own: hashes, dates and frame numbers behind the last
    # point of a name.
    if not low or len(low) > _LONGEST or low.isdecimal() or not (low.isascii() and low.isalnum()):
        return NONE
    return f".{low}"


def kind_of(key: str) -> str:
    """The kind of a format by its key; empty where no table knows it."""
    return BY_NAME[key].kind if key in BY_NAME else ""
