"""What lies below a folder in which users of the host may write."""

from __future__ import annotations

import os
import subprocess
import tempfile
import types

import pytest

from hosttune.host.live import LiveReader

UID = 1003
KIB = 1 << 10


@pytest.fixture
def crash():
    """A folder like /var/crash."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o1777)  # noqa: S103 - as it is
        yield name


def as_user(folder: str, words: str) -> None:
    user = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    subprocess.run((*user, "sh", "-ec", words), check=True, timeout=60, cwd=folder)


def test_file_of_a_user_that_holds_nothing_takes_no_space(crash):
    as_user(crash, "truncate -s 1T dump")
    assert LiveReader().usage(crash).size_bytes == 0


def test_file_with_many_names_counts_once(crash):
    as_user(crash, "head -c 1048576 /dev/urandom > dump; sync dump; for i in $(seq 100); do ln dump dump.$i; done")
    found = LiveReader().usage(crash)
    assert (found.size_bytes, found.entries) == (1024 * KIB, 101)


def test_files_that_share_their_blocks_are_no_more_than_is_in_use(crash, monkeypatch):
    as_user(crash, "head -c 1048576 /dev/urandom > dump; sync dump; cp dump copy; sync copy")
    monkeypatch.setattr(os, "fstatvfs", lambda _: types.SimpleNamespace(f_blocks=9000, f_bfree=8000, f_frsize=KIB))
    assert LiveReader().usage(crash).size_bytes == 1000 * KIB
