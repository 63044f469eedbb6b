"""The fact `fstab`: entries both readers agree on, and sentences about the rest."""

from __future__ import annotations

import pytest

from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.fstab import Fstab
from hosttune.resources.storage.fstab import document_of
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader


def fstab(text: str, **kwargs):
    return Fstab.look(FakeReader({"/etc/fstab": text}, **kwargs), None)


def test_entry_of_a_line_has_its_fields():
    (entry,) = fstab(
        "# x\nLABEL=a\\040b  /my\\040data//x/ ext4\trelatime,nofail 0 2 # big\n"
    ).entries

    assert (entry.line, entry.source, entry.target, entry.fstype) == (
        2,
        "LABEL=a b",
        "/my data/x",
        "ext4",
    )
    assert (entry.options, entry.freq, entry.passno) == (("relatime", "nofail"), 0, 2)
    assert entry.text == "LABEL=a\\040b  /my\\040data//x/ ext4\trelatime,nofail 0 2 # big"
    assert (entry.is_swap, entry.refusal, entry.owner) == (False, "", "")


def test_target_behind_a_link_is_found_by_its_path():
    found = fstab(
        "/dev/sdb1 /data ext4 rw 0 0\n", links={"/data": "/mnt/big"}, folders=("/mnt/big",)
    )

    assert found.at["/data"] is not None
    assert found.by_path["/mnt/big"].target == "/data"


@pytest.mark.parametrize(
    "line", ["nas:/x /data nfs rw 0 0", "/dev/sdb1 /data ext4 x-systemd.automount 0 0"]
)
def test_target_that_could_hang_is_not_looked_at(line):
    reader = FakeReader({"/etc/fstab": line + "\n"})

    assert Fstab.look(reader, None).by_path["/data"].line == 1
    assert "/data" not in reader.seen


def test_swap_is_an_entry_but_no_target():
    found = fstab("/swap none swap sw 0 0\n/dev/sdb1 /data ext4 rw 0 0\n")

    assert [entry.is_swap for entry in found.entries] == [True, False]
    assert list(found.at) == ["/data"]


def test_first_of_two_lines_counts_and_both_are_refused():
    found = fstab("/dev/a /data ext4 rw 0 0\n/dev/b /data ext4 ro 0 0\n")

    assert found.at["/data"].source == "/dev/a"
    assert all(
        "depends on who mounts" in entry.refusal and entry.way_out for entry in found.entries
    )
    assert len(found.problems) == 2


def test_line_that_is_read_differently_is_a_problem_and_no_entry():
    found = fstab("tmpfs /tmp tmpfs size=64M # added\n/dev/a /data ext4 rw 0 0\n")

    assert [entry.target for entry in found.entries] == ["/data"]
    assert found.problems[0].startswith("/etc/fstab:1: mount(8) drops this line")
    assert [(line.line, line.target, line.refusal) for line in found.misread] == [
        (1, "/tmp", found.problems[0])
    ]


def test_password_in_the_options_is_masked():
    (entry,) = fstab("//nas/x /cifs cifs username=u,password=hunter2,rw 0 0\n").entries

    assert entry.options == ("username=u", "password=***", "rw")
    assert "hunter2" not in repr(entry)


def test_header_of_a_manager_is_kept():
    assert fstab("# Ansible managed\n").manager == "Ansible managed"


def test_missing_file_has_no_entries():
    found = Fstab.look(FakeReader(), None)

    assert (found.entries, found.exists) == ((), False)


def test_unreadable_file_is_unknown():
    found = Fstab.look(FakeReader(unreadable={"/etc/fstab": "permission denied"}), None)

    with pytest.raises(UnknownFact, match="permission denied"):
        _ = found.at


def test_two_targets_that_a_link_makes_one_are_refused():
    lines = "/dev/a /data ext4 rw 0 0\n/dev/b /mnt/big ext4 rw 0 0\n/dev/c /other ext4 rw 0 0\n"
    found = fstab(lines, links={"/data": "/mnt/big"}, folders=("/mnt/big", "/other"))

    assert ["by a symbolic link" in entry.refusal for entry in found.entries] == [True, True, False]
    assert "/mnt/big (line 2)" in found.entries[0].refusal
    assert found.entries[0].way_out


def test_manager_of_the_file_owns_each_of_its_lines():
    found = fstab("# Managed by Puppet\n/dev/a /data ext4 rw 0 0\n")

    assert (found.entries[0].owner, found.manager) == ("Puppet", "Managed by Puppet")


@pytest.mark.parametrize(
    ("line", "separator"), [("a\t/b\text4\trw\n", "\t"), ("a /b ext4 rw\n", " "), ("# x\n", " ")]
)
def test_separator_is_the_style_of_the_file(line, separator):
    assert fstab(line).separator == separator


@pytest.mark.parametrize(
    "text", ["/dev/a /data ext4 rw 0 0\n" * 10_001, "#" + "x" * (1 << 20) + "\n"]
)
def test_larger_file_than_any_fstab_is_unknown_to_every_command(text):
    reader = FakeReader({"/etc/fstab": text})

    with pytest.raises(UnknownFact, match="larger than 1 MiB or 10,000 lines, which no fstab is"):
        _ = Fstab.look(reader, None).entries
    assert document_of(reader) == Unreadable("larger than 1 MiB or 10,000 lines, which no fstab is")


@pytest.mark.parametrize(
    "source", ["s3fs#bucket", "/usr/local/bin/goofys#bucket", "mfsmount", "sshfs#u@h:"]
)
def test_target_of_fuse_over_the_network_is_not_looked_at(source):
    reader = FakeReader({"/etc/fstab": f"{source} /data fuse rw 0 0\n"})

    assert Fstab.look(reader, None).by_path["/data"].line == 1
    assert "/data" not in reader.seen
