"""Operating system facts from os-release(5)."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.os import parse
from tests.unit.fake_reader import FakeReader

NOBLE = """PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
"""


def test_os_ubuntu_release_is_read_from_the_file():
    seen = Facts(FakeReader({"/etc/os-release": NOBLE})).os
    assert (seen.id, seen.id_like, seen.version_id, seen.codename) == (
        "ubuntu",
        ("debian",),
        "24.04",
        "noble",
    )
    assert seen.name == "Ubuntu 24.04.3 LTS"
    assert (seen.is_ubuntu, seen.is_debian) == (True, False)


def test_os_derivative_is_neither_ubuntu_nor_debian():
    seen = parse({"id": "linuxmint", "id_like": "ubuntu debian", "ubuntu_codename": "noble"})
    assert (seen.is_ubuntu, seen.is_debian, seen.codename) == (False, False, "noble")


def test_os_without_id_is_linux():
    assert parse({}).id == "linux"


def test_os_without_the_file_is_unknown():
    with pytest.raises(UnknownFact, match="/etc/os-release does not exist"):
        _ = Facts(FakeReader()).os.is_ubuntu
