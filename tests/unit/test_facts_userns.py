"""Facts about user namespaces."""

import pytest

from hosttune.facts import Facts
from hosttune.facts.containers.userns import allows_userns
from tests.unit.fake_reader import FakeReader

PROFILE = "abi <abi/4.0>,\nprofile apptainer /usr/libexec/apptainer/bin/starter{,-suid} flags=(unconfined) {\n  userns,\n}\n"
STATUS = {
    "/var/lib/dpkg/status": "Package: apptainer\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.4.1\n"
}


def userns(files):
    return Facts(FakeReader({**STATUS, **files})).userns


@pytest.mark.parametrize(
    ("profile", "path", "expected"),
    [
        (PROFILE, "/usr/bin/apptainer", True),
        ("profile x /usr/bin/enroot {\n  userns,\n}\n", "/usr/bin/enroot", True),
        ("profile x /usr/bin/enroot {\n  /etc/** r,\n}\n", "/usr/bin/enroot", False),
        ("profile y /usr/bin/other {\n  userns,\n}\n", "/usr/bin/enroot", False),
    ],
)
def test_profile_lets_a_program(profile, path, expected):
    assert allows_userns(profile, path) == expected


def test_programs_and_their_profiles():
    assert (
        userns({"/etc/apparmor.d/apptainer": PROFILE}).programs[0].profile
        == "/etc/apparmor.d/apptainer"
    )
    assert userns({}).without_profile == ("/usr/bin/apptainer",)


def test_profile_that_is_switched_off_lets_nobody():
    files = {"/etc/apparmor.d/apptainer": PROFILE, "/etc/apparmor.d/disable/apptainer": ""}
    assert userns(files).without_profile == ("/usr/bin/apptainer",)


def test_kernel_without_the_restriction_has_none():
    assert not userns({}).is_restricted
    assert userns({"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}).is_restricted
