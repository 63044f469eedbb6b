"""What systemd still has of an fstab that was changed since."""

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage.old_units import find_old_source
from tests.unit.fake_reader import FakeReader


def old(line, what, folder="data"):
    files = {
        "/etc/fstab": f"{line}\n",
        f"/run/systemd/generator/{folder}.mount": f"[Mount]\nWhat={what}\n",
    }
    facts = Facts(FakeReader(files))
    return find_old_source(facts, facts.fstab.entries[0])


def test_a_line_that_names_another_device_by_now():
    assert (
        old("UUID=1a-2b /data ext4 defaults 0 2", "/dev/disk/by-uuid/0c-0d")
        == "/dev/disk/by-uuid/0c-0d"
    )
    assert old("/dev/sdc1 /data ext4 defaults 0 2", "/dev/sdb1") == "/dev/sdb1"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("UUID=1a-2b /data ext4 defaults 0 2", "/dev/disk/by-uuid/1a-2b"),
        ("UUID=1A-2B /data ext4 defaults 0 2", "/dev/disk/by-uuid/1a-2b"),
        ('UUID="1a-2b" /data ext4 defaults,nofail 0 2', "/dev/disk/by-uuid/1a-2b"),
        ("LABEL='scratch' /data ext4 defaults,nofail 0 2", "/dev/disk/by-label/scratch"),
        ("LABEL=100% /data ext4 defaults 0 2", "/dev/disk/by-label/100\\x25"),
        ("LABEL=a\\040b /data ext4 defaults 0 2", "/dev/disk/by-label/a\\x20b"),
        ("nfs01:/a /data nfs4 _netdev 0 0", "nfs02:/a"),
        ("/srv/a /data none bind 0 0", "/srv/b"),
    ],
)
def test_what_systemd_has_read_or_is_no_device_is_none(line, what):
    assert old(line, what) == ""


def test_a_line_without_a_unit_of_the_generator_is_none():
    assert old("UUID=1a-2b /data ext4 defaults 0 2", "/dev/sdb1", folder="other") == ""
