"""States of drivers that public reports showed, and that had another name, another cause or another way out before."""

from tests.unit.test_driver_state import BY_RUNFILE, host, names, states


def by_name(facts):
    return {one.name: one for one in states(facts)}


def test_fabric_manager_of_another_version_than_the_installers_driver_is_not_started():
    """NVIDIA/gpu-operator issue 544: Fabric Manager 530.30.02 beside the installer's driver 530.41.03."""
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.95.05-1", fabric="failed")
    found = by_name(facts)
    assert "fabric down" not in found
    assert "nvidia-fabricmanager-580 is 580.95.05, and the driver is 580.126.20" in found["fabric different"].evidence
    assert found["fabric different"].is_dead
    assert "nvidia-fabricmanager-580=580.126.20*" in found["fabric different"].way_out


def test_fabric_manager_without_a_version_of_the_installers_driver_leads_the_driver_to_its_own():
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.95.05-1", fabric="failed")
    facts.archives.lacking = ("nvidia-fabricmanager-580", "libnvidia-nscq-580")
    way = by_name(facts)["fabric different"].way_out
    assert way == "no list of apt has nvidia-fabricmanager-580 in 580.126.20: sudo apt-get update, and look again"


def test_fabric_manager_of_the_installers_version_is_well():
    facts = host(**BY_RUNFILE, nvswitches=4, manager="580.126.20-1")
    assert names(facts) == ["runfile"]
