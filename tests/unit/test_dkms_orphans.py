"""What frees DKMS of a module whose source is gone."""

from types import SimpleNamespace

import pytest

from hosttune.choices.dkms_orphans import free_dkms
from hosttune.choices.next_kernel import make_module_commands
from hosttune.facts.base import UnknownFact
from hosttune.facts.packages import Packages, parse_status
from tests.unit.test_dpkg_stop import COMMON, NEW, RUNNING, host, paragraph

GONE = "whose source is gone from /usr/src"


def freed(*orphans, packages=""):
    driver = SimpleNamespace(dkms_orphans=orphans, userspace_version="580.142")
    return free_dkms(
        SimpleNamespace(driver=driver, packages=Packages(parse_status(packages.encode())))
    )


@pytest.mark.parametrize(
    ("name", "packages", "words"),
    [
        ("evdi/1.14.1", "", "take its entry away: sudo mv /var/lib/dkms/evdi/1.14.1 /root/dkms-evdi-1.14.1"),
        ("a b/1;x", "", "take its entry away: sudo mv '/var/lib/dkms/a b/1;x' '/root/dkms-a b-1;x'"),
        ("evdi/1.14.1", paragraph("evdi-dkms", "1.14.1-1"), "bring it back: sudo apt-get install --reinstall evdi-dkms"),
        ("evdi/1.14.0", paragraph("evdi-dkms", "1.14.1-1"), "take its entry away: sudo mv"),
        ("nvidia/570.86.10", "", "take its entry away: sudo mv"),
        ("zfs/2.2.2", "", "bring that source back in the way it came, and boot the kernels that have its module until then"),
    ],
)  # fmt: skip
def test_entry_goes_or_gets_its_source_back_and_what_holds_data_never_goes(name, packages, words):
    assert freed(name, packages=packages).startswith(f"DKMS ends at {name}, {GONE}; {words}")


def test_driver_that_is_installed_is_left_to_its_packages():
    assert freed("nvidia/580.142") == freed() == ""


def test_what_is_not_known_of_dkms_says_nothing():
    class Unknown:
        userspace_version = "580.142"

        @property
        def dkms_orphans(self):
            raise UnknownFact("no rights")

    assert free_dkms(SimpleNamespace(driver=Unknown())) == ""


def test_dkms_is_freed_before_it_builds_for_a_kernel():
    headers = paragraph(f"linux-headers-{NEW}", "6.8.0-48.48")
    facts = host(
        COMMON, paragraph("nvidia-dkms-580-open"), headers, orphans=("evdi/1.14.1",), origins=("NVIDIA",),
        kernels=(RUNNING, NEW), next_kernel=NEW,
    )  # fmt: skip
    first, then = make_module_commands(facts, NEW).splitlines()
    assert (first[:24], then) == ("DKMS ends at evdi/1.14.1", f"sudo dkms autoinstall -k {NEW}")
