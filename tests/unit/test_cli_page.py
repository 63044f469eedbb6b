"""How a report calls the next command: as who it is shown to has to type it."""

from __future__ import annotations

import pytest

from hosttune.cli.common import open_page
from hosttune.cli.options import DisplayOptions, LookOnly
from tests.unit.fake_reader import FakeReader


@pytest.mark.parametrize(
    ("kind", "is_privileged", "typed_by", "sudo", "is_partial"),
    [
        ("live", True, "", "", False),
        ("live", True, "1001", "sudo ", False),
        ("live", True, "0", "", False),
        ("live", False, "", "sudo ", True),
        ("root", True, "1001", "sudo ", False),
        ("record", True, "1001", "", False),
        ("record", False, "", "", False),  # made without root: sudo here shows no more of it
    ],
)
def test_command_to_copy_begins_with_sudo_where_that_is_how_root_is_reached(
    kind, is_privileged, typed_by, sudo, is_partial, monkeypatch
):
    monkeypatch.setenv("SUDO_UID", typed_by)
    page = open_page(
        FakeReader(kind=kind, is_privileged=is_privileged), LookOnly(), DisplayOptions()
    )
    assert (page.sudo, page.is_partial) == (sudo, is_partial)
    assert page.act("apply --yes").startswith(f"{sudo}{page.program} apply")
