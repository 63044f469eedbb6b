"""Components of Ubuntu's archive that apt has lists of."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.archives import POLICY
from hosttune.facts.gpu.candidates import DEVICES, LIST
from hosttune.facts.gpu.components import Components, turn_on
from hosttune.values import ABSENT
from tests.unit.driver_machine import B200, H100, PARAMS, candidate, machine, stanza
from tests.unit.fake_reader import FakeReader

RELEASE = "     release v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu,c={},b=amd64\n"
ON = ("main", "restricted", "universe", "multiverse")


def lists(*names):
    return "Package files:\n" + "".join(f" 500 http://archive.ubuntu.com/ubuntu noble/{one}\n{RELEASE.format(one)}" for one in names)  # fmt: skip


@pytest.mark.parametrize(
    ("enabled", "off"),
    [
        (ON, ()),
        (("main",), ("restricted", "universe", "multiverse")),
        ((), ()),
        (("main", "universe"), ON[1::2]),
    ],
)
def test_components_that_are_off(enabled, off):
    facts = Facts(FakeReader(queries={POLICY: lists(*enabled)}))
    assert set(facts.components.off) == set(off)


def test_components_are_not_known_without_apt():
    with pytest.raises(UnknownFact, match="apt-cache is not installed"):
        _ = Facts(FakeReader(queries={POLICY: ABSENT})).components.off


def test_way_names_each_component():
    assert turn_on(("restricted", "multiverse")) == (
        "apt has no list of Ubuntu's components restricted and multiverse: sudo add-apt-repository restricted && "
        "sudo add-apt-repository multiverse && sudo apt-get update"
    )


@pytest.mark.parametrize(
    ("on", "says"),
    [
        (
            ("main", "universe"),
            "components restricted and multiverse: sudo add-apt-repository restricted",
        ),
        (
            ("main", "restricted"),
            "component multiverse: sudo add-apt-repository multiverse && sudo apt-get update",
        ),
        (ON, "and restricted and multiverse are on"),
        ((), "and restricted and multiverse are on"),
    ],
)
def test_no_offer_names_the_component_that_is_off(on, says):
    files = {"/etc/os-release": 'ID=ubuntu\nNAME="Ubuntu"\n', "/var/lib/apt/lists/a_Packages": ""}
    facts = Facts(FakeReader(files, queries={DEVICES: "", LIST: "", POLICY: lists(*on)}))
    assert says in facts.candidates.problem


def test_driver_with_nvswitches_is_refused_with_the_way_where_multiverse_is_off():
    from hosttune.choices.driver import choose

    shown = stanza("nvidia-driver-580-server-open", "580.1", (H100, B200), "LTSB")
    fabric = stanza("nvidia-fabricmanager-580", "580.1", section="multiverse/libs")
    offer = (candidate("nvidia-driver-580-server-open"),)
    off = choose(machine(offer=offer, switches=4, shown=shown, components=ON[:3]), PARAMS)
    assert (off.action, off.reason) == (
        "refuse", "driver 580-server-open fits, but apt knows no nvidia-fabricmanager-580, which NVSwitches need",
    )  # fmt: skip
    assert off.way_out == turn_on(("multiverse",))
    assert (
        choose(machine(offer=offer, switches=4, shown=shown + fabric, components=ON), PARAMS).action
        == "install"
    )
    assert choose(machine(offer=offer, shown=shown, components=ON[:3]), PARAMS).action == "install"


@pytest.mark.parametrize(
    ("params", "offer", "components", "says"),
    [
        (
            {"branch": "615"},
            ("nvidia-driver-580-server-open",),
            ON[:3],
            "component multiverse: sudo add-apt-repository",
        ),
        ({"branch": "615"}, ("nvidia-driver-580-server-open",), ON, ""),
        (
            {},
            ("nvidia-driver-580-server",),
            ("main", "multiverse"),
            "component restricted: sudo add-apt-repository",
        ),
    ],
)
def test_refusal_names_the_component_that_is_off(params, offer, components, says):
    from hosttune.choices.driver import choose

    choice = choose(
        machine((B200,), offer=tuple(map(candidate, offer)), components=components), PARAMS | params
    )
    assert choice.action == "refuse"
    assert says in choice.way_out
    assert ("add-apt-repository" in choice.way_out) is bool(says)


def test_modules_that_are_offered_by_dkms_alone_miss_restricted_and_not_multiverse():
    from hosttune.choices.driver import choose

    offer = (candidate("nvidia-driver-580-server-open", "nvidia-dkms-580-server-open"),)
    on = choose(machine(offer=offer, components=("main", "restricted")), PARAMS)
    assert "add-apt-repository" not in on.way_out
    off = choose(machine(offer=offer, components=("main", "multiverse")), PARAMS)
    assert off.way_out.startswith("apt has no list of Ubuntu's component restricted: ")


@pytest.mark.parametrize(
    ("untold", "action"),
    [((), "refuse"), (("linux-modules-nvidia-615-server-open-generic",), "install")],
)
def test_metapackage_that_nobody_told_of_is_named_only_where_apt_knows_it(untold, action):
    from hosttune.choices.driver import choose

    offer = (candidate("nvidia-driver-615-server-open", ""),)
    choice = choose(machine(offer=offer, untold=untold), PARAMS)
    assert choice.action == action
    if action == "refuse":
        assert "apt has no linux-modules-nvidia-615-server-open-generic" in choice.reason
    assert choose(machine(offer=offer), PARAMS).action == "install"


def test_components_have_no_word_of_an_archive_that_is_not_ubuntus():
    assert Components(()).off == ()
