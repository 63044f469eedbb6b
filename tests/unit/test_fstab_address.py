"""The places in fstab: read, written under compare-and-swap, taken back byte for byte."""

from __future__ import annotations

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.facts.storage import fstab_lines
from hosttune.facts.storage.fstab import Fstab
from hosttune.host.reading import mountinfo
from hosttune.resources import address_kinds
from hosttune.resources.storage.fstab import edit_diff
from hosttune.values import ABSENT, Action, Address, Change, Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import StorageHost

FSTAB = "# mine\n/dev/sdb1\t/data ext4  defaults 0 2 # big\n"
OPTIONS = Address("fstab", "/data")
LINE = Address("fstab-line", "/tmp")
NEW = "tmpfs /tmp tmpfs size=8G 0 0"


def change(address, before, after) -> Change:
    return Change(address, Action.UPDATE, before, after, "rule")


def read(host, address):
    return address_kinds()[address.kind].read(host.writer, address.name)


def write(host, one) -> None:
    address_kinds()[one.address.kind].write(host.writer, one)


@pytest.mark.parametrize(
    ("fstab", "value"),
    [
        (FSTAB, "defaults"),
        ("/dev/sdb1 /data ext4\n", ""),
        ("# none\n", ABSENT),
        (None, ABSENT),
        ("/dev/sdb1 /data// ext4 ro,x-a=\\054 0 0\n", Unreadable),
        ("/dev/sdb1 /data/ ext4 ro 0 0\n", "ro"),
        ("/dev/a /data ext4 rw 0 0\n/dev/b /data ext4 rw 0 0\n", Unreadable),
    ],
)
def test_options_of_a_target_are_read_as_written(fstab, value):
    found = read(StorageHost(fstab), OPTIONS)

    assert isinstance(found, value) if value is Unreadable else found == value


def test_options_are_written_in_place_and_come_back():
    host = StorageHost(FSTAB)
    one = change(OPTIONS, "defaults", "defaults,noatime")

    write(host, one)
    assert host.fstab == "# mine\n/dev/sdb1\t/data ext4  defaults,noatime 0 2 # big\n"

    write(host, address_kinds()["fstab"].invert(one))
    assert host.fstab == FSTAB


def test_options_that_somebody_changed_meanwhile_are_left_alone():
    host = StorageHost(FSTAB.replace("defaults", "rw"))

    with pytest.raises(Conflict):
        write(host, change(OPTIONS, "defaults", "defaults,noatime"))
    assert host.writer.files == {}


def test_undo_keeps_what_others_edited_in_other_lines():
    host = StorageHost(
        FSTAB.replace("defaults", "defaults,noatime") + "/dev/sdc1 /more xfs rw 0 0\n"
    )

    write(host, change(OPTIONS, "defaults,noatime", "defaults"))

    assert host.fstab == FSTAB + "/dev/sdc1 /more xfs rw 0 0\n"


def test_line_is_added_at_the_end_and_comes_back():
    host = StorageHost(FSTAB)
    one = change(LINE, ABSENT, NEW)

    write(host, one)
    assert host.fstab == FSTAB + NEW + "\n"
    assert read(host, LINE) == NEW

    write(host, address_kinds()["fstab-line"].invert(one))
    assert host.fstab == FSTAB
    assert read(host, LINE) is ABSENT


def test_line_that_was_edited_is_not_removed():
    host = StorageHost(FSTAB + NEW.replace("8G", "9G") + "\n")

    with pytest.raises(Conflict):
        write(host, change(LINE, NEW, ABSENT))


def test_line_is_never_replaced_as_a_whole():
    host = StorageHost(FSTAB + NEW + "\n")

    with pytest.raises(Refused, match="never replaced"):
        write(host, change(LINE, NEW, NEW.replace("8G", "9G")))


@pytest.mark.parametrize("fstab", [None, "\ufeff# x\n"])
def test_file_that_cannot_be_edited_is_refused(fstab):
    with pytest.raises(Refused):
        write(StorageHost(fstab), change(LINE, ABSENT, NEW))


def test_unreadable_file_is_no_missing_line():
    host = StorageHost(None, unreadable={"/etc/fstab": "permission denied"})

    assert read(host, OPTIONS) == read(host, LINE) == Unreadable("permission denied")


def test_two_lines_of_a_target_are_not_one_value():
    host = StorageHost("a /tmp ext4 rw 0 0\nb /tmp ext4 rw 0 0\n")

    assert "line 2 too" in read(host, LINE).reason


def test_tables_are_read_once_however_many_targets_are_asked_for(monkeypatch):
    """An image or a record can bring thousands of lines, and each is asked for."""
    fstab = "".join(
        f"UUID=0a{number} /m{number} ext4 defaults 0 0\n" for number in range(200)
    ).encode()
    mounts = "".join(
        f"{number} 1 8:{number} / /m{number} rw,noatime - ext4 /dev/x rw\n"
        for number in range(200, 400)
    )
    reader = FakeReader({"/etc/fstab": fstab, "/proc/self/mountinfo": mounts})
    seen = []
    for module, name in ((fstab_lines, "_read_lines"), (mountinfo, "find_visible")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda table, real=real, name=name: seen.append(name) or real(table)
        )
    for number in range(200):
        assert address_kinds()["fstab"].read(reader, f"/m{number}") == "defaults"
        assert address_kinds()["mount"].read(reader, f"/m{number + 200}") == "noatime"
    assert sorted(seen) == ["_read_lines", "find_visible"]


def test_tables_of_a_fact_are_made_once():
    facts = Fstab.look(FakeReader({"/etc/fstab": "/dev/a /a ext4 defaults 0 0\n"}), None)
    assert facts.by_path is facts.by_path
    assert facts.at is facts.at


def test_diff_counts_lines_as_those_who_read_the_file():
    """A form feed in a comment begins no line."""
    before = b"# a\x0cb\nUUID=1 /d ext4 defaults 0 0\n"
    diff = edit_diff(before, before.replace(b"defaults", b"noatime"))
    assert diff[2:] == (
        "@@ -2 +2 @@",
        "-UUID=1 /d ext4 defaults 0 0",
        "+UUID=1 /d ext4 noatime 0 0",
    )
