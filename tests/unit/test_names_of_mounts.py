"""Names that a user gives to a mount hold what Python takes for the end of a line, and the kernel
does not escape.
"""

from __future__ import annotations

import os

import pytest

from hosttune.host.reading import mounters, mountinfo, named

ENDS = ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"]


@pytest.mark.parametrize("end", ENDS)
def test_mount_with_a_server_is_known_by_its_whole_name(end, monkeypatch):
    """Else a look goes into it, and waits for its server."""
    place = f"/home/eve/a{end}b"
    table = f"30 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 1 0:50 / {place} rw - fuse.sshfs x rw,user_id=1001\n"
    monkeypatch.setattr(named, "own_mounts", table.encode)
    assert named.served_mounts() == (place,)


@pytest.mark.parametrize("end", ENDS)
def test_stick_with_an_odd_label_belongs_to_its_user(end, monkeypatch):
    """Else its owners would count, and they can say root."""
    target = f"/media/daemon/a{end}b"
    table = f"SRC=/dev/sdb1 TARGET={target} ROOT=/ OPTS=uhelper=udisks2\n"
    monkeypatch.setattr(mounters, "head_of", lambda *_: (os.fsencode(table), True))
    assert mounters._user_of_helper(target) == 1


MAP = (
    "30 1 0:60 / /net rw - autofs {} rw,fd=6,indirect\n31 30 0:61 / /net/evil rw - nfs4 evil:/ rw\n"
)


@pytest.mark.parametrize(
    ("name", "content", "is_any"),
    [
        ("/etc/auto.site", b'#!/bin/sh\necho "-fstype=nfs4 $1:/"\n', True),
        ("auto.site", b"\x7fELF...", True),
        ("/usr/local/etc/auto.site", b"#! /usr/bin/perl\n", True),
        ("/opt/automap", b"", True),  # it is not looked into
        ("/etc/auto.site", b'"*" -rw &:/export\n', True),
        ("/etc/auto.site", b"# no program\n* nfs01:/data/&\n", False),
        ("/usr/local/etc/auto.site", b"x nfs01:/x\n", False),
    ],
)
def test_program_as_a_map_takes_any_name_for_a_server(name, content, is_any):
    """autofs(5), "Executable Maps": it gets the name that a user looks at."""
    found = mountinfo.ids_of_any_server(
        mountinfo.parse(MAP.format(name).encode()), lambda _path: content
    )
    assert (31 in found) is is_any


@pytest.mark.parametrize(
    "name", ["-hosts", "/etc/auto.net", "/usr/local/etc/auto.smb", "/etc/auto.site"]
)
def test_owners_that_a_server_of_a_users_choice_says_prove_nothing(name, monkeypatch):
    """Else a Python at /net/EVIL that calls itself root's would be run as root's own."""
    table = f"30 1 0:60 / /net rw - autofs {name} rw,fd=6,indirect\n31 30 0:61 / /net/evil rw - nfs4 evil:/ rw\n"
    monkeypatch.setattr(mounters, "own_mounts", table.encode)
    monkeypatch.setattr(mounters, "mount_id", lambda _fd: 31)
    monkeypatch.setattr(mounters, "head_of", lambda *_: (b"* ://&/share\n", True))
    assert mounters.mounter_of(0) == mounters.NOBODY
