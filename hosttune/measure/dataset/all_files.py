"""Every file of a data set in the order of the walk: its size, and with `--exact` its header."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from hosttune.measure.dataset.decoded import Looked
from hosttune.measure.dataset.probe import probe_file
from hosttune.measure.dataset.sample import has_header
from hosttune.measure.dataset.tally import Named
from hosttune.measure.dataset.walk import is_of_hub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.measure.dataset.census import Census
    from hosttune.measure.dataset.patience import Patience
    from hosttune.measure.dataset.tally import Tally


class FileCounter:
    """Takes what the walk yields into a census, until it has taken `patience.sizes_s`; with
    `--exact` to the end.
    """

    def __init__(
        self, census: Census, tally: Tally, root: str, patience: Patience, *, with_headers: bool
    ) -> None:
        self._census = census
        self._tally = tally
        self._root = root.rstrip("/")
        self._patience = patience
        self._reads = census.is_exact and with_headers
        self._spent_s = 0.0

    def take(self, folder: str, entries: Sequence[os.DirEntry[str]], key: str) -> None:
        """`key` is the format of all of them, empty where they differ."""
        census = self._census
        if census.ended:
            return
        started = self._patience.seconds
        try:
            # in the order of the inodes, which is about that on the disk
            ordered = sorted(entries, key=os.DirEntry.inode) if len(entries) > 1 else entries
            infos = [entry.stat(follow_symlinks=False) for entry in ordered]
        except OSError:
            self._each(folder, entries)
        else:
            # One test for a whole chunk: the slow way below is only for links, odd types and
            # headers, which few chunks have.
            is_plain = {one.st_nlink for one in infos} == {1} and all(
                map(stat.S_ISREG, {one.st_mode for one in infos})
            )
            if self._reads or not is_plain:
                self._each(folder, ordered)
            elif key:
                self._sizes(folder, ordered, key, [census.held(key, one) for one in infos])
            else:
                groups: dict[str, list[tuple[os.DirEntry[str], int]]] = {}
                for entry, info in zip(ordered, infos, strict=True):
                    own = self._tally.key_of_name(entry.name)
                    groups.setdefault(own, []).append((entry, census.held(own, info)))
                for own, found in groups.items():
                    self._sizes(
                        folder, [entry for entry, _ in found], own, [size for _, size in found]
                    )
        self._spent_s += self._patience.seconds - started
        if not census.is_exact and self._spent_s > self._patience.sizes_s:
            census.ended = "time"

    def _sizes(
        self, folder: str, entries: Sequence[os.DirEntry[str]], key: str, sizes: list[int]
    ) -> None:
        census = self._census
        census.take(key, sizes)
        if census.is_large(max(sizes)):
            for entry, size in zip(entries, sizes, strict=True):
                if size and census.is_large(size):
                    census.keep(size, Named(key, f"{folder}/{entry.name}", entry.inode()))

    def _has_time(self) -> bool:
        return not self._patience.is_over()

    def _each(self, folder: str, entries: Sequence[os.DirEntry[str]]) -> None:
        """Size and header of each, and of a file with several names once."""
        census = self._census
        for entry in entries:
            path = f"{folder}/{entry.name}"
            try:
                info = entry.stat(follow_symlinks=False)
                is_link = stat.S_ISLNK(info.st_mode)
                info = os.stat(path) if is_link else info
                place = os.path.realpath(path) if is_link else ""
                # A link into the data set would count its file twice; blobs of the cache of Hugging
                # Face have no name of their own in the walk.
                if place.startswith(f"{self._root}/") and not is_of_hub(os.path.dirname(place)):
                    continue  # it comes under its own name
                if not stat.S_ISREG(info.st_mode) or not census.is_new(info, is_link=is_link):
                    continue
                key = self._tally.key_of_name(entry.name)
                self._sizes(folder, [entry], key, [census.held(key, info)])
                if self._reads and has_header(key):
                    found = probe_file(
                        path, with_header=True, is_whole=True, has_time=self._has_time
                    )
                    census.moved += found.has_moved_atime if found else 0
                    census.look(
                        Looked(key, census.held(key, info), found.header if found else None)
                    )
            # A file that is gone is not part of the set any more. One that may not be read is, so
            # only that makes the census incomplete.
            except FileNotFoundError:
                continue
            except OSError:
                census.denied += 1
            if self._reads and self._patience.is_over():
                break
