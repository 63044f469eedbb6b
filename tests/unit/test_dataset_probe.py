"""One file that is opened: what is said of it when the time ends meanwhile."""

from __future__ import annotations

import pytest

from hosttune.measure.dataset.probe import probe_file
from tests.unit.test_dataset_headers import png


@pytest.mark.parametrize("questions", [0, 1])
def test_time_that_ends_before_the_header_leaves_it_unread(tmp_path, questions):
    file = tmp_path / "a.png"
    file.write_bytes(png(640, 480).ljust(9_000, b"\0"))
    left = iter([True] * questions)
    found = probe_file(str(file), with_header=True, has_time=lambda: next(left, False))
    assert found is not None
    assert (found.size, found.header, found.was_read) == (9_000, None, False)
