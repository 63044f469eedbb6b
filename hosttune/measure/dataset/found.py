"""What was found out about a data set, as one value."""

from __future__ import annotations

from hosttune.frozen import frozen
from hosttune.measure.dataset.decoded import Decoded
from hosttune.measure.dataset.estimate import Sizes
from hosttune.measure.dataset.room import Fit, Room
from hosttune.measure.underneath import Underneath
from hosttune.measure.workers import Workers


@frozen
class Names:
    """What the names alone tell. Lists of paths hold a few examples."""

    files: int
    folders: int
    links: int  # symbolic links to files, among the files
    dangling_links: int
    special_files: int  # sockets, pipes, devices
    unreadable_folders: int
    unreadable_examples: tuple[str, ...]
    unreadable_reason: str
    linked_folders: int  # links to folders that were not followed
    linked_examples: tuple[str, ...]
    other_file_systems: int  # mounted below, and not entered
    other_examples: tuple[str, ...]


@frozen
class FormatShare:
    """One format by the ends of names. `bytes` is estimated, None where no file was looked at."""

    name: str
    kind: str
    files: int
    bytes: int | None


@frozen
class Resident:
    """`share` of the bytes that lie in the page cache (0 to 1), by `files` that were looked at;
    None: not known.
    """

    share: float | None
    files: int
    reason: str


@frozen
class Look:
    """How the sample was looked at. `moved` are access times that the look itself has moved."""

    sampled: int
    gone: int  # files that vanished meanwhile
    denied: int  # files whose size or content may not be seen
    moved_files: int
    moved_folders: int
    seed: int  # that the samples were drawn with
    odd_formats: tuple[tuple[str, str, int], ...]  # format by name, format by header, headers


@frozen
class DatasetAdvice:
    """A sentence about what to change, with the rule or the command that goes with it (or
    neither).
    """

    text: str
    rule: str = ""
    command: str = ""


@frozen
class Dataset:
    """The whole report. `stopped` is empty, `interrupted` or `budget`: then numbers are what was
    seen until then, and `names_done` says whether at least all names were.
    """

    path: str
    stopped: str
    names_done: bool
    names: Names
    formats: tuple[FormatShare, ...]
    sizes: Sizes | None
    look: Look
    place: Underneath
    room: Room
    inode_bytes: int
    page_cache: Fit | None
    resident: Resident
    decoded: Decoded | None
    decoded_fit: Fit | None
    float32_fit: Fit | None
    workers: Workers
    copies_bytes: int  # a decoded cache in every worker
    advice: tuple[DatasetAdvice, ...]
    names_s: float
    sample_s: float
