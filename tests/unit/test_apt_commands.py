"""What a way out installs is asked of apt."""

from types import SimpleNamespace

import pytest

from hosttune.choices.apt_commands import check_commands, find_missing, operands_in
from hosttune.facts.gpu.archives import POLICY, Archives, Offer, policy_of
from hosttune.facts.lookups import Lookup
from hosttune.facts.packages import Packages
from hosttune.host.record.apt_policy import policy_of_names
from tests.unit.fake_reader import FakeReader

ARCHIVES = "Package files:\n 500 http://u noble/restricted amd64 Packages\n     release o=Ubuntu\n     origin u\n"
HERE = "nvidia-utils-580:\n  Installed: 580.1-0\n  Candidate: 580.1-0\n  Version table:\n *** 580.1-0 100\n        100 /var/lib/dpkg/status\n"
OFFERED = "nvidia-fabricmanager-580:\n  Installed: (none)\n  Candidate: 580.2-0\n  Version table:\n     580.2-0 500\n        500 http://u noble/restricted amd64 Packages\n"
PINNED = OFFERED.replace("Candidate: 580.2-0", "Candidate: (none)").replace(
    "nvidia-fabricmanager", "nvidia-imex"
)
NAMES = ("nvidia-fabricmanager-580", "nvidia-gone-580", "nvidia-imex-580", "nvidia-utils-580")


def facts(asked=NAMES, text=HERE + OFFERED + PINNED):
    reader = FakeReader(queries={POLICY: ARCHIVES, (*POLICY, *asked): text})
    archives = Archives({}, Lookup(lambda names: policy_of(reader, names.split())))
    installed = Packages({"nvidia-utils-580": ("580.1-0", "install ok installed")})
    return SimpleNamespace(archives=archives, packages=installed)


def test_operands_are_those_that_a_command_installs():
    text = (
        "do not reboot before: sudo apt-get update && sudo apt-get install --allow-downgrades 'a=1*' b c- d:arm64 (if "
        "apt has none); or sudo apt-get install e, and boot it; sudo apt-get install --reinstall f; sudo apt-get remove g"
    )
    assert operands_in(text) == ("a=1*", "b", "d:arm64", "e")


@pytest.mark.parametrize(
    ("operand", "is_there"),
    [
        ("nvidia-fabricmanager-580", True),
        ("nvidia-fabricmanager-580=580.2-0", True),
        ("nvidia-fabricmanager-580=580.2*", True),
        ("nvidia-fabricmanager-580=580.1*", False),
        ("nvidia-gone-580", False),
        ("nvidia-imex-580", False),  # a pin keeps it away
        ("nvidia-imex-580=580.2-0", True),  # unless its version is named
        ("nvidia-utils-580", True),  # it is installed
    ],
)
def test_what_apt_lacks(operand, is_there):
    name = operand.partition("=")[0]
    text = {
        "nvidia-fabricmanager-580": OFFERED,
        "nvidia-imex-580": PINNED,
        "nvidia-utils-580": HERE,
    }.get(name, "")
    assert (find_missing(facts((name,), text), [operand, "nvidia-other-"]) == ()) is is_there


def test_way_out_says_what_apt_lacks_and_what_is_not_known():
    way, other = (
        "sudo apt-get install nvidia-gone-580 nvidia-utils-580",
        "sudo apt-get install nvidia-fabricmanager-580",
    )
    both = ("nvidia-fabricmanager-580", "nvidia-gone-580")
    assert check_commands(facts(both, OFFERED), way, other, "drain the host and reboot") == (
        f"{way} (no list of apt has nvidia-gone-580: sudo apt-get update, and look again)",
        other,
        "drain the host and reboot",
    )
    assert check_commands(facts(), way) == (
        f"{way} (if apt has nvidia-gone-580, which is not known here)",
    )
    assert check_commands(facts(), "sudo apt-get install nvidia-utils-580") == (
        "sudo apt-get install nvidia-utils-580",
    )


def test_an_offer_knows_its_versions():
    offer = Offer("a", "1", "2", "", "Ubuntu", {"2": "Ubuntu"})
    assert [offer.has(one) for one in ("", "1", "2", "3", "2*")] == [True, True, True, False, True]


def test_record_answers_for_each_name_that_was_asked():
    asked = {
        (*POLICY, "a", "nvidia-imex-580"): {"status": 0, "stdout": PINNED},
        (*POLICY, "nvidia-utils-580"): {"status": 0, "stdout": HERE},
        POLICY: {"status": 0, "stdout": ARCHIVES},
        ("apt-cache", "show", "b"): {"status": 0, "stdout": ""},
    }
    found = policy_of_names(asked, (*POLICY, "a", "nvidia-utils-580", "nvidia-imex-580"))
    assert found is not None
    assert found["stdout"] == HERE + PINNED
    assert policy_of_names(asked, (*POLICY, "a", "b")) is None
    assert policy_of_names(asked, POLICY) is None
