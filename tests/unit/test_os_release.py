"""os-release of an image is its author's: what is too long, or no os-release, is a refusal with the
place.
"""

from __future__ import annotations

import pytest

from hosttune.host.reading.tree import OS_RELEASE_LIMIT, parse_os_release
from hosttune.values import Unreadable

PATH = "/etc/os-release"


def test_usual_file_is_read():
    found = parse_os_release(b'# a\nNAME="Ubuntu"\nVERSION="24.04 LTS (Noble)"\nID=ubuntu\n', PATH)
    assert (found["name"], found["id"], found["codename"]) == ("Ubuntu", "ubuntu", "Noble")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'NAME="x', "/etc/os-release:1: a quote has no end"),
        (b"ID=a\n\n# it's\nNAME='x y\nVERSION=1\n", "/etc/os-release:4: a quote has no end"),
        (b"ID=debian\nNAME=\\", "/etc/os-release:2: a quote has no end"),
        (b"ID=debian\nNAME=\xff\n", "/etc/os-release:2: this is not UTF-8"),
        (b"N=" + b"a" * OS_RELEASE_LIMIT, "/etc/os-release is larger than 8 KiB"),
    ],
)
def test_what_is_no_os_release_is_refused_with_its_place(content, reason):
    assert parse_os_release(content, PATH) == Unreadable(reason)
