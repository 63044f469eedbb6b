"""A path of another mount namespace is looked up without links, and below no mount whose server may
be dead.
"""

from __future__ import annotations

import pytest

from hosttune.host.reading.filestatus import status_of, status_without_links


@pytest.fixture
def place(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("x")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "folder/last").symlink_to("file")
    return str(tmp_path)


def test_path_without_links_is_that_of_the_kernel(place):
    path = f"{place}/folder/file"
    assert (
        status_without_links(path, ())
        == status_without_links(path, (f"{place}/fold",))
        == status_of(path)
    )
    assert status_without_links(f"{place}/none/file", ()) is None


def test_no_link_is_followed(place):
    assert status_without_links(f"{place}/link/file", ()) is None
    assert status_without_links(f"{place}/folder/last", ()).mode & 0o170000 == 0o120000


def test_nothing_is_looked_up_below_an_avoided_mount(place, monkeypatch):
    monkeypatch.setattr("os.open", None)
    for avoided in (place, f"{place}/folder", f"{place}/folder/file", f"{place}/"):
        assert status_without_links(f"{place}/folder/file", (avoided,)) is None
