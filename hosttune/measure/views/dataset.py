"""A data set in a few lines: how much, where, whether it fits in memory, decoded too, and what to
do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.host.masking.cleaned import clean
from hosttune.measure.dataset.formats import kind_of
from hosttune.numbers import say_count, say_size
from hosttune.quoting import quote
from hosttune.views.terminal import join_words, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.measure.dataset.decoded import Decoded
    from hosttune.measure.dataset.found import Dataset, DatasetAdvice
    from hosttune.measure.dataset.room import Fit
    from hosttune.measure.underneath import Underneath
    from hosttune.views.page import Page

_FIRST = 12  # columns of the head of a line
_COLOURS = {"fits": "green", "tight": "yellow", "too large": "red"}
TALKING = {
    "LMDB": "lmdb",
    "MDS": "mosaicml-streaming",
    "pickle": "pickle",
    "PyTorch": "torch.load",
    "npz": "numpy.load",
    "HDF5": "h5py",
    "Parquet": "pyarrow",
    "Arrow": "pyarrow",
    "TFRecord": "tfrecord",
}
_FORMATS, _ALL = 4, 1 << 30  # more are summed up, but for --verbose


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    document: dict[str, Any] = {"format_version": FORMAT_VERSION, **to_json(dataset)}
    document["place"]["transports"] = list(dataset.place.transports)
    return document


def dataset_text(dataset: Dataset, page: Page) -> str:
    lines: list[str] = []
    for head, text in _make_rows(dataset, _ALL if page.is_verbose else _FORMATS):
        found = wrap_text(
            text, page.screen.columns, first=head.ljust(_FIRST + 2), rest=" " * (_FIRST + 2)
        )
        lines += [_paint_head(head, dataset, page) + found[0][len(head) :], *found[1:]]
    for advice in dataset.advice:
        lines += wrap_text(
            _render_advice(advice, dataset, page), page.screen.columns, first="-> ", rest="   "
        )
    return "\n".join([*_make_headline(dataset, page), *lines]) + "\n"


def _paint_head(head: str, dataset: Dataset, page: Page) -> str:
    """The head of a line in the colour of its answer, which the words of the line say, too."""
    fit = {"page cache": dataset.page_cache, "decoded": dataset.decoded_fit}.get(head)
    return page.screen.paint(
        head, "bold", *([_COLOURS[fit.answer]] if fit and fit.answer in _COLOURS else [])
    )


def _make_headline(dataset: Dataset, page: Page) -> list[str]:
    lines = []
    if dataset.stopped:
        why = "interrupted" if dataset.stopped == "interrupted" else "the budget was spent"
        what = (
            "the sample is smaller than meant"
            if dataset.names_done
            else "numbers are what was seen until then"
        )
        lines = wrap_text(f"PARTIAL: {why}; {what}.", page.screen.columns)
        lines = [page.screen.paint(line, "bold", "yellow") for line in lines]
    names, sizes = dataset.names, dataset.sizes
    least = "" if dataset.names_done else "at least "
    parts = [
        f"{clean(dataset.path)}: {least}{names.files:,} {'file' if names.files == 1 else 'files'}"
    ]
    if names.folders:
        parts[0] += f" in {names.folders:,} {'folder' if names.folders == 1 else 'folders'}"
    if sizes:
        parts.append(f"{say_size(sizes.total_bytes)}{_describe_margin(dataset)}")
        if names.files > 1:
            parts.append(
                f"median {say_size(sizes.median_bytes)}, {_format_percent(sizes.small_share)} "
                "below 64 KiB"
            )
    return [*lines, *wrap_text("; ".join(parts), page.screen.columns, rest="  ")]


def _describe_margin(dataset: Dataset) -> str:
    sizes = dataset.sizes
    if sizes is None or sizes.margin_bytes == 0:
        return ""
    if sizes.margin_bytes is None or not sizes.total_bytes:
        return " (from few files)"
    return f" ± {_format_percent(sizes.margin_bytes / sizes.total_bytes)}"


def _make_rows(dataset: Dataset, most: int) -> Iterator[tuple[str, str]]:
    yield "is on", place_text(dataset.place)
    if dataset.page_cache and dataset.sizes:
        yield "page cache", _page_cache(dataset)
    if dataset.names.files:
        start = dataset.workers
        limits = ", ".join(start.limits)
        yield "workers", f"start at num_workers = {start.start} ({start.formula}; {limits})"
    if dataset.formats:
        yield "formats", _list_formats(dataset, most)
    if dataset.decoded and dataset.sizes:
        yield from _describe_decoded(dataset)
    yield "looked at", _describe_looked(dataset)
    yield from (("note", note) for note in _list_notes(dataset))


def _list_formats(dataset: Dataset, most: int) -> str:
    """By bytes where sizes are known."""
    whole = sum(one.bytes or 0 for one in dataset.formats)
    parts = []
    for one in dataset.formats[:most]:
        share = (
            f" ({_format_percent((one.bytes or 0) / whole)} of the bytes)"
            if whole and len(dataset.formats) > 1
            else ""
        )
        parts.append(
            f"{clean(one.name)} {one.files:,} {'file' if one.files == 1 else 'files'}{share}"
        )
    if len(dataset.formats) > most:
        rest = dataset.formats[most:]
        parts.append(f"{len(rest)} more ({sum(one.files for one in rest):,} files)")
    return ", ".join(parts)


def place_text(place: Underneath) -> str:
    """`ext4 (relatime) on /data: nvme0n1 (nvme, flash) and nvme1n1 (nvme, flash), through md0
    (md)`.
    """
    atime = f" ({place.atime})" if place.kind == "disk" else ""
    head = (
        f"{clean(place.fstype or 'an unknown file system')}{atime} on {clean(place.target or '?')}"
    )
    if place.kind == "network":
        return f"{head}: over the network, from {clean(place.source)}"
    if place.kind == "memory":
        return f"{head}: in memory"
    through = (
        f", through {join_words([clean(layer) for layer in place.layers])}" if place.layers else ""
    )
    if not place.disks:
        return f"{head}{through}: {clean(place.note or 'the disk is not known')}"
    disks = []
    for disk in place.disks:
        words = [word for word in (disk.transport, disk.medium) if word]
        disks.append(clean(disk.name) + (f" ({', '.join(words)})" if words else ""))
    return f"{head}: {join_words(disks)}{through}"


def _page_cache(dataset: Dataset) -> str:
    assert dataset.page_cache  # noqa: S101 - as the caller saw
    assert dataset.sizes  # noqa: S101
    needs = say_size(dataset.sizes.page_bytes)
    text = (
        f"{needs} + {say_size(dataset.inode_bytes)} for inodes and names: "
        f"{_fit(dataset.page_cache, dataset)}"
    )
    share = dataset.resident.share
    if dataset.place.kind == "memory":
        return text
    return (
        f"{text}; {_format_percent(share)} is there now"
        if share is not None
        else f"{text}; how much is there now is not known"
    )


def _describe_decoded(dataset: Dataset) -> Iterator[tuple[str, str]]:
    decoded = dataset.decoded
    if decoded is None:
        return
    fits = _fit(dataset.decoded_fit, dataset) if dataset.decoded_fit else ""
    videos = [one.name for one in dataset.formats if one.kind == "video"]
    if decoded.told_share > 0:
        part = (
            ""
            if decoded.told_share > 0.99
            else f" for {_format_percent(decoded.told_share)} of the bytes"
        )
        # Whether a part fits says nothing as long as the rest is not known.
        own = "" if decoded.untold else f", {fits}"
        wide = f"as float32 {say_size(decoded.float32_bytes)}"
        narrow, float32 = dataset.decoded_fit, dataset.float32_fit
        if float32 and narrow and not decoded.untold and float32.answer != narrow.answer:
            wide += f", {_fit(float32, dataset)}"
        types = (
            "as uint8"
            # Four times means that each number took one byte.
            if round(decoded.k_float32, 2) == round(4 * decoded.k, 2)
            else "in the types stored"
        )
        text = f"{say_size(decoded.native_bytes)} {types}{part}"
        heads = _count_headers(decoded.told)
        k = f"K = {decoded.k:.1f}{_decoded_margin(decoded)}, from {heads}"
        yield "decoded", f"{text} ({k}){own}; {wide} (K = {decoded.k_float32:.1f})"
    if unknown := [name for name in decoded.untold if name not in videos]:
        yield "decoded", f"not known for {_describe_unknown(unknown)}"
    if unknown := [name for name in decoded.untold if name in videos]:
        which = join_words([clean(name) for name in unknown])
        yield (
            "decoded",
            f"not known for {which}: the frames of a video take a hundred times its file and more",
        )
    if dataset.copies_bytes:
        workers = say_count(dataset.copies_bytes // decoded.native_bytes, "worker")
        how = "a cache of decoded data inside of the Dataset is filled by every worker by itself"
        yield "in workers", f"{how}: up to {say_size(dataset.copies_bytes)} with {workers}"


def _count_headers(count: int) -> str:
    return f"{count:,} header{'s' * (count != 1)}"


def _decoded_margin(decoded: Decoded) -> str:
    if decoded.margin_bytes is None:
        return " from few files"
    return (
        f" ± {_format_percent(decoded.margin_bytes / decoded.native_bytes)}"
        if decoded.margin_bytes and decoded.native_bytes
        else ""
    )


def _fit(fit: Fit, dataset: Dataset) -> str:
    """A word only where the whole interval says the same."""
    room = f"{say_size(dataset.room.bytes)} {dataset.room.reason}"
    if fit.answer == "unknown":
        return f"not known whether it fits: {_not_known(fit, dataset, room)}"
    is_cache = fit is dataset.page_cache
    words = {
        "fits": "fits",
        "tight": "tight",
        "too large": "will not stay" if is_cache else "will swap",
    }[fit.answer]
    decoded = dataset.decoded
    is_sampled = (
        fit.answer == "fits" and not is_cache and decoded is not None and not decoded.is_exact
    )
    show = f"{_count_headers(decoded.told)} show{'s' * (decoded.told == 1)}" if decoded else ""
    sample = f", as far as {show}" if is_sampled else ""
    return f"{words} ({_format_percent(fit.share)} of {room}{sample})"


def _not_known(fit: Fit, dataset: Dataset, room: str) -> str:
    """Why, and what would tell."""
    if fit.why == "memory":
        return dataset.room.reason
    if fit.why == "partial":
        return "a part was not seen"
    if fit.why == "sizes":
        return f"of {dataset.names.files:,} files {dataset.look.sampled:,} sizes were taken"
    if fit.why == "margin":
        if fit.high_bytes is None:
            return "too few files were looked at"
        return f"{say_size(fit.low_bytes)} to {say_size(fit.high_bytes)} of {room}"
    return _describe_unknown(dataset.decoded.untold if dataset.decoded else ())


def _describe_unknown(formats: Iterable[str]) -> str:
    """What would tell it, for each of the formats whose size is guessed."""
    ways: dict[str, list[str]] = {}
    for key in formats:
        if key in TALKING:
            way = f"its own library in the job ({TALKING[key]})"
        elif kind_of(key) in {"picture", "sound"}:
            way = "bench read --decode"
        else:
            way = "only the job that decodes it"
        ways.setdefault(way, []).append(clean(key))
    return (
        "; ".join(f"{join_words(keys[:_FORMATS])} ({way} shows it)" for way, keys in ways.items())
        or "nothing shows it"
    )


def _describe_looked(dataset: Dataset) -> str:
    sizes = dataset.sizes
    how = "every size" if sizes and sizes.is_exact else f"{dataset.look.sampled:,} sizes"
    parts = [f"names in {dataset.names_s:.1f} s", how]
    if dataset.decoded and dataset.decoded.headers:
        parts.append(_count_headers(dataset.decoded.headers))
    if not (sizes and sizes.is_exact and dataset.decoded and dataset.decoded.is_exact):
        parts[-1] += f" (drawn with seed {dataset.look.seed})"
    return f"{', '.join(parts)} in {dataset.sample_s:.1f} s"


def _list_notes(dataset: Dataset) -> Iterator[str]:
    names, look = dataset.names, dataset.look
    if names.unreadable_folders:
        example = join_words([clean(path) for path in names.unreadable_examples])
        many = say_count(names.unreadable_folders, "folder")
        yield (
            f"left out: {many} that could not be read ({clean(names.unreadable_reason)}), such as "
            f"{example}"
        )
    if look.denied:
        yield f"{say_count(look.denied, 'file')} of the sample could not be looked at (rights)"
    if look.gone:
        yield f"{say_count(look.gone, 'file')} of the sample vanished meanwhile"
    if names.other_file_systems:
        example = join_words([clean(path) for path in names.other_examples])
        yield (
            f"{say_count(names.other_file_systems, 'other file system')} below not entered: "
            f"{example} (--follow does)"
        )
    if names.linked_folders:
        example = join_words([clean(path) for path in names.linked_examples])
        yield (
            f"{say_count(names.linked_folders, 'link')} to folders not followed: {example} "
            "(--follow does)"
        )
    yield from _describe_links(dataset)
    if names.special_files:
        what = say_count(names.special_files, "socket, pipe or device", "sockets, pipes or devices")
        yield f"{what} left out"
    for by_name, by_header, count in look.odd_formats:
        is_what = f"{'is' if count == 1 else 'are'} {clean(by_header)} by the header"
        yield f"{say_count(count, 'file')} of the sample named as {clean(by_name)} {is_what}"
    if look.moved_files or look.moved_folders:
        moved = [say_count(look.moved_files, "file")] * bool(look.moved_files)
        moved += [say_count(look.moved_folders, "folder")] * bool(look.moved_folders)
        yield (
            f"the look moved the access times of {join_words(moved)} of others: only their owner "
            "and root can keep them (--no-headers leaves those of files as they are)"
        )


def _describe_links(dataset: Dataset) -> Iterator[str]:
    names = dataset.names
    if dataset.sizes and dataset.sizes.linked_bytes:
        more = say_size(dataset.sizes.linked_bytes)
        yield (
            f"hard links are counted once, as if all names were below: else up to {more} more "
            "(--exact finds out)"
        )
    if names.links:
        yield f"{names.links:,} of the files are symbolic links: what they lead to is counted"
    if names.dangling_links:
        yield (
            f"{say_count(names.dangling_links, 'symbolic link')} "
            f"lead{'s' * (names.dangling_links == 1)} to nothing"
        )


def _render_advice(advice: DatasetAdvice, dataset: Dataset, page: Page) -> str:
    where = ""
    if advice.rule:
        where = f" ({page.look(f'explain {advice.rule}')})"
    elif advice.command:
        where = f" ({page.look(advice.command)} {clean(quote(dataset.path))})"
    return f"{advice.text}{where}"


def _format_percent(share: float) -> str:
    """`0.04 %`, `4 %`: never 0 for a little, never 100 for nearly all."""
    value = 100 * share
    if value == 0 or value >= 99.95 or 1 <= value < 99:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.05 else "< 0.1 %"
