"""Sizes of all files, summed up as they come: memory does not grow with them."""

from __future__ import annotations

from dataclasses import replace

from hosttune.measure.dataset.estimate import SMALL, Sizes
from hosttune.measure.page_cache import PAGE


class Exact:
    """What `take` was given."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}  # by format
        self.files = self.small = self.pages = self.largest = self.denied = 0

    def take(self, key: str, sizes: list[int]) -> None:
        """Files of a format, each in bytes."""
        self.bytes[key] = self.bytes.get(key, 0) + sum(sizes)
        self.files += len(sizes)
        self.small += sum([size < SMALL for size in sizes])
        self.pages += sum([-(-size // PAGE) for size in sizes])
        self.largest = max(self.largest, *sizes)

    def corrected(self, sizes: Sizes | None) -> Sizes | None:
        """An estimate with what is known exactly instead; the median stays that of the sample."""
        if sizes is None or not self.files:
            return sizes
        return replace(
            sizes, looked_at=self.files, is_exact=True, total_bytes=sum(self.bytes.values()), margin_bytes=0,
            page_bytes=self.pages * PAGE, largest_bytes=self.largest, small_share=self.small / self.files,
        )  # fmt: skip
