"""Which driver: the choice in machines out of the ordinary, and what must always hold. The matrix
has the ordinary.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.choices.driver import choose
from hosttune.choices.drivers.choice import DEFAULTS
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import UnknownFact
from hosttune.facts.apt_pins import Pin
from hosttune.facts.gpu.archives import Offer
from hosttune.facts.packages import Packages
from hosttune.host.door import Completed
from tests.unit.driver_machine import (
    A100,
    B200,
    FERMI,
    GH200,
    GTX1080,
    H100,
    K80,
    NEW,
    PARAMS,
    RTX4090,
    RTX5090,
    V100,
    archive,
    candidate,
    compute,
    machine,
    stanza,
)  # fmt: skip


def test_choose_names_the_reason():
    choice = choose(machine((H100,) * 8), PARAMS)
    assert choice.reason == (
        "driver 580-server-open for 8 x NVIDIA device 0x2330 (hopper generation): the newest long-term branch offered; "
        "supported until 2028-06; open kernel module, prebuilt and signed"
    )
    assert choice.name == "580-server-open"


REFUSALS = {
    "Volta and Blackwell": (
        (V100, B200),
        {},
        "needs the open kernel module, and volta cannot use it",
    ),
    "Pascal and unknown": (
        (GTX1080, NEW),
        {},
        "not known whether the GPU of unknown generation needs it",
    ),
    "Fermi": ((FERMI, H100), {}, "Fermi and older GPUs"),
    "Kepler by DKMS only": ((K80,), {}, "only by DKMS, compiled on this host"),
    "pin that is not offered": (
        (A100,),
        {"branch": "610"},
        "branch 610 is not offered (offered: nvidia-driver-470",
    ),
    "pin that does not drive it": ((V100,), {"branch": "595"}, "no branch drives all of them"),
    "Kepler and Hopper": ((K80, H100), {"allow_dkms": True}, "no branch drives all of them"),
}


@pytest.mark.parametrize(("devices", "params", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_choose_contradictions_are_refused_with_the_reason(devices, params, reason):
    choice = choose(machine(devices), PARAMS | params)
    assert (choice.action, choice.packages) == ("refuse", ())
    assert reason in choice.reason
    assert choice.way_out


def test_choose_dkms_by_consent_brings_the_headers():
    choice = choose(machine((K80,)), PARAMS | {"allow_dkms": True})
    assert choice.packages == (
        "nvidia-headless-no-dkms-470-server", "nvidia-utils-470-server", "nvidia-dkms-470-server",
        "linux-headers-generic",
    )  # fmt: skip
    assert choice.needs_dkms
    assert "has ended" in choice.reason


def test_choose_prebuilt_before_dkms_of_the_same_branch():
    offer = (
        candidate("nvidia-driver-580-server-open", "nvidia-dkms-580-server-open"),
        candidate("nvidia-driver-580-open"),
    )
    assert choose(machine(offer=offer), PARAMS | {"allow_dkms": True}).packages == compute(
        "580-open"
    )


def test_choose_third_party_only_by_consent():
    offer = (
        candidate("nvidia-driver-600-open", is_third_party=True),
        candidate("nvidia-driver-580-open"),
    )
    assert choose(machine((RTX4090,), offer=offer), PARAMS | {"track": "newest"}).branch == "580"
    allowed = PARAMS | {"track": "newest", "allow_third_party": True}
    assert choose(machine((RTX4090,), offer=offer), allowed).branch == "600"
    alone = choose(machine((RTX4090,), offer=offer[:1]), PARAMS)
    assert (alone.action, alone.way_out) == (
        "refuse",
        "params: {gpu-driver: {allow_third_party: true}} in the policy takes it",
    )
    off = choose(machine((RTX4090,), offer=offer[:1], components=("main",)), PARAMS)
    assert off.way_out == alone.way_out  # no component of Ubuntu's is what is missing


def test_choose_blackwell_without_open_is_refused():
    offer = (candidate("nvidia-driver-580"), candidate("nvidia-driver-580-server"))
    choice = choose(machine((RTX5090,), offer=offer), PARAMS)
    assert "they need the open kernel module, and none is offered" in choice.reason


def test_choose_grace_hopper_takes_the_open_module_only():
    closed = (candidate("nvidia-driver-580-server"),)
    assert (
        choose(machine((GH200,), offer=closed, architecture="aarch64"), PARAMS).action == "refuse"
    )
    assert (
        choose(machine((H100,), offer=closed, architecture="aarch64"), PARAMS).action == "install"
    )


def test_choose_modules_of_this_host_under_secure_boot_only_with_their_key_enrolled():
    """K80: no prebuilt modules are left for the last branch that drives it."""
    dkms = PARAMS | {"allow_dkms": True}
    refused = choose(machine((K80,), own_modules=False), dkms)
    assert (refused.action, refused.packages) == ("refuse", ())
    assert "Secure Boot is on" in refused.reason
    assert "mokutil --import" in refused.way_out
    assert "nvidia-dkms-470-server" in choose(machine((K80,), own_modules=True), dkms).packages
    assert (
        choose(machine((H100,), own_modules=False), dkms).action == "install"
    )  # prebuilt ones are signed


def test_choose_ended_branches_only_where_nothing_else_is_offered():
    both = (candidate("nvidia-driver-535-server-open"), candidate("nvidia-driver-590-server-open"))
    choice = choose(machine(offer=both), PARAMS)
    assert choice.branch == "590"
    assert "support of every branch offered for these GPUs has ended" in choice.reason


def test_choose_nvswitch_brings_fabric_manager_in_one_version():
    choice = choose(machine((H100,) * 8, switches=4, packages=["xserver-xorg-core"]), PARAMS)
    assert choice.packages == (
        *compute("580-server-open"),
        "nvidia-fabricmanager-580",
        "libnvidia-nscq-580",
    )
    assert choice.one_version == (
        "nvidia-utils-580-server",
        "nvidia-fabricmanager-580",
        "libnvidia-nscq-580",
    )
    assert "4 NVSwitches" in choice.reason


def test_choose_nvswitch_without_server_driver_is_refused():
    choice = choose(machine(offer=(candidate("nvidia-driver-580-open"),), switches=4), PARAMS)
    assert "NVSwitch needs the server driver" in choice.reason


@pytest.mark.parametrize(
    ("packages", "use", "first"),
    [
        (["gdm3"], "auto", "nvidia-driver-580-open"),
        (["gdm3"], "compute", "nvidia-headless-no-dkms-580-server-open"),
        ([], "desktop", "nvidia-driver-580-open"),
        ([], "auto", "nvidia-headless-no-dkms-580-server-open"),
    ],
)
def test_choose_desktop_where_there_is_one(packages, use, first):
    assert (
        choose(machine((RTX4090,), packages=packages), PARAMS | {"use": use}).packages[0] == first
    )


@pytest.mark.parametrize("kernel", ["aws", "generic-hwe-24.04", "nvidia-64k"])
def test_choose_modules_for_the_kernel_where_list_did_not_tell(kernel):
    offer = (candidate("nvidia-driver-580-server-open", ""),)
    assert choose(machine(offer=offer, kernel=kernel), PARAMS).packages == compute(
        "580-server-open", kernel
    )


def test_choose_foreign_kernel_without_modules_is_refused():
    offer = (candidate("nvidia-driver-580-server-open", ""),)
    facts = machine(offer=offer)
    facts.kernel.flavour = ""
    assert "6.8.0-45-generic is not a kernel of Ubuntu's" in choose(facts, PARAMS).reason
    facts.kernel.flavour = "lowlatency"
    assert (
        "no kernel metapackage is installed (linux-image-lowlatency" in choose(facts, PARAMS).reason
    )


def test_way_out_without_an_offer_is_that_of_ubuntu_drivers():
    facts = machine(problem="`ubuntu-drivers` is not installed")
    facts.offer = replace(facts.offer, way_out="sudo apt-get install ubuntu-drivers-common")
    assert (
        choose(facts, PARAMS).way_out
        == "sudo apt-get install ubuntu-drivers-common, and run it again"
    )


NOTHING_TO_DO = {
    "no GPU": ({"devices": ()}, {}, "no NVIDIA GPU"),
    "container": ({"is_container": True}, {}, "belongs to the host"),
    "WSL": ({"is_wsl": True}, {}, "Windows"),
    "passed through": ({"drivers": ("vfio-pci",)}, {}, "vfio-pci"),
    "GPU Operator": ({"gpu_operator": True, "loaded": "580.95.05"}, {}, "GPU Operator"),
    "external": ({}, {"bringer": "external"}, "bringer: external"),
    "Debian": ({"ubuntu": False}, {}, "this is Debian GNU/Linux 12"),
}


@pytest.mark.parametrize(
    ("facts", "params", "reason"), NOTHING_TO_DO.values(), ids=NOTHING_TO_DO.keys()
)
def test_choose_leaves_alone_what_is_not_ours_without_asking(facts, params, reason):
    choice = choose(machine(**{"offer": None} | facts), PARAMS | params)
    assert choice.action == "none"
    assert reason in choice.reason


@pytest.mark.parametrize("other", ["kubelet", "dgx"])
def test_choose_with_another_bringer_asks_the_policy(other):
    assert choose(machine(offer=None, **{other: True}), PARAMS).action == "refuse"
    assert choose(machine(**{other: True}), PARAMS | {"bringer": "host"}).action == "install"


KEPT = {
    "server-open": (
        {"packages": (*compute("580-server-open"), "nvidia-kernel-common-580-server")},
        "580-server-open",
    ),
    "an older branch": (
        {"packages": ("nvidia-driver-535", "nvidia-utils-535", "nvidia-dkms-535")},
        "535",
    ),
    "runfile": ({"runfile": True}, ""),
    "only loaded": ({"loaded": "580.95.05"}, ""),
}


@pytest.mark.parametrize(("facts", "name"), KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("track", ["lts", "production", "newest"])
def test_choose_keeps_what_is_there_without_asking(facts, name, track):
    choice = choose(machine(offer=None, **facts), PARAMS | {"track": track})
    assert (choice.action, choice.name) == ("keep", name)
    assert set(choice.packages) <= set(facts.get("packages", ()))


def test_choose_says_that_a_kept_branch_is_over():
    assert "has ended" in choose(machine(offer=None, packages=["nvidia-utils-535"]), PARAMS).reason
    assert (
        "has ended" not in choose(machine(offer=None, packages=["nvidia-utils-580"]), PARAMS).reason
    )


def test_choose_pin_of_another_branch_does_not_switch():
    facts = machine(offer=None, packages=compute("580-server-open"))
    refused = choose(facts, PARAMS | {"branch": "595"})
    assert (refused.action, refused.packages) == ("refuse", ())
    assert "580 is installed" in refused.reason
    assert choose(facts, PARAMS | {"branch": "580"}).action == "keep"


def test_host_without_a_driver_is_refused_one_with_the_problem_of_the_offer():
    """That it has none is known, whatever is offered; a switch of one that is there hangs on the
    offer.
    """
    problem = "apt's package lists are missing: sudo apt-get update"
    choice = choose(machine(problem=problem), PARAMS)
    assert (choice.action, choice.clauses[0]) == (
        "refuse",
        "no driver for 1 x NVIDIA device 0x2330 (hopper generation)",
    )
    assert problem in choice.clauses[1]
    with pytest.raises(UnknownFact, match="sudo apt-get update"):
        choose(
            machine([V100], problem=problem, packages=compute("580-server-open")),
            PARAMS | {"switch_branch": True},
        )


INSTALLED = (
    *compute("580-server-open"),
    "nvidia-kernel-common-580-server",
    "libnvidia-compute-580-server",
)
LIBRARY = "libnvidia-compute-580-server"


def offer(name, candidate="580.142-0ubuntu1", *, origin="Ubuntu"):
    return Offer(name, "580.95.05-0ubuntu1", candidate, "Ubuntu", origin)


def test_choose_update_within_the_branch_only_when_asked():
    facts = machine(offer=None, packages=INSTALLED, updates=(offer(LIBRARY),))
    assert choose(facts, PARAMS).action == "keep"
    choice = choose(facts, PARAMS | {"update": True})
    assert (choice.action, choice.versions) == ("update", (f"{LIBRARY}=580.142-0ubuntu1",))
    assert LIBRARY in choice.packages
    assert "of branch 580 is available" in choice.reason
    assert (
        choose(machine(offer=None, packages=INSTALLED), PARAMS | {"update": True}).action == "keep"
    )


def test_choose_update_never_takes_another_branch():
    facts = machine(
        offer=None, packages=INSTALLED, updates=(offer("nvidia-open", "595.71.05-1ubuntu1"),)
    )
    assert choose(facts, PARAMS | {"update": True}).action == "keep"
    both = (
        offer(LIBRARY),
        offer("cuda-drivers", "595.71.05-1"),
        offer("nvidia-settings", "510.47.03-1"),
    )
    choice = choose(
        machine(offer=None, packages=INSTALLED, updates=both), PARAMS | {"update": True}
    )
    assert choice.versions == (f"{LIBRARY}=580.142-0ubuntu1", "nvidia-settings=510.47.03-1")


def test_choose_update_from_another_archive_is_refused():
    facts = machine(offer=None, packages=INSTALLED, updates=(offer(LIBRARY, origin="NVIDIA"),))
    choice = choose(facts, PARAMS | {"update": True})
    assert (choice.action, "comes from NVIDIA" in choice.reason) == ("refuse", True)


def test_choose_names_the_hold_on_what_is_not_installed():
    facts = machine()
    facts.packages = replace(
        facts.packages, held_absent=("libnvidia-compute-580-server", "nvidia-utils-580-server", "x")
    )
    choice = choose(facts, PARAMS)
    assert (choice.action, choice.clauses[1][:60]) == (
        "refuse",
        "an administrator holds libnvidia-compute-580-server, nvidia-",
    )
    assert (
        choice.way_out
        == "when the hold has served: sudo apt-mark unhold libnvidia-compute-580-server nvidia-utils-580-server, then run it again"
    )
    facts.packages = replace(facts.packages, held_absent=("nvidia-utils-535", "nvidia-utils-580"))
    assert choose(facts, PARAMS).action == "install"


def test_choose_pin_that_keeps_the_whole_offer_away_is_the_reason():
    pin = Pin(("*nvidia*",), "release *", -1, "/etc/apt/preferences.d/no", 4)
    told = Completed(
        0, b"Pinned packages:\n     nvidia-driver-580 -> 580.1-1 with priority -1\n", b""
    )
    choice = choose(machine(problem="no package", pins=(pin,), policy=told), PARAMS)
    assert (choice.action, choice.clauses[1].partition(" ")[0]) == (
        "refuse",
        "/etc/apt/preferences.d/no:4",
    )
    assert "edit /etc/apt/preferences.d/no (line 4)" in choice.way_out


def test_choose_update_never_unholds():
    facts = machine(offer=None, packages=INSTALLED, updates=(offer(LIBRARY),), held=(LIBRARY,))
    choice = choose(facts, PARAMS | {"update": True})
    assert (choice.action, choice.reason.endswith(f"holds back (apt-mark): {LIBRARY}")) == (
        "keep",
        True,
    )


SWITCHES = {
    "pin": ((H100,), INSTALLED, {"branch": "595"}, "595-server-open"),
    "ended": (
        (H100,),
        (*compute("535-server-open"), "nvidia-kernel-common-535-server"),
        {},
        "580-server-open",
    ),
    "not driving": (
        (V100,),
        (*compute("595-server"), "nvidia-kernel-common-595-server"),
        {},
        "580-server",
    ),
    "closed on Blackwell": (
        (B200,),
        (*compute("580-server"), "nvidia-kernel-common-580-server"),
        {},
        "580-server-open",
    ),
    "follows the newest": ((H100,), INSTALLED, {"track": "newest"}, "595-server-open"),
}


@pytest.mark.parametrize(
    ("devices", "packages", "params", "name"), SWITCHES.values(), ids=SWITCHES.keys()
)
def test_choose_switch_only_when_allowed_and_names_what_goes(devices, packages, params, name):
    stays = choose(machine(devices, offer=None, packages=packages), PARAMS | params)
    assert stays.action in {"keep", "refuse"}
    choice = choose(machine(devices, packages=packages), PARAMS | params | {"switch_branch": True})
    assert (choice.action, choice.name) == ("switch", name), choice.reason
    assert set(choice.remove) <= set(packages)
    assert not set(choice.remove) & set(choice.packages)
    left = [one for one in packages if one not in choice.remove]
    after = machine(
        devices,
        packages=(*left, *choice.packages, f"nvidia-kernel-common-{name.removesuffix('-open')}"),
    )
    again = choose(after, PARAMS | params | {"switch_branch": True})
    assert (again.action, again.name) == ("keep", name), again.reason


def test_choose_switch_of_the_module_alone_keeps_the_libraries():
    packages = (
        *compute("580-server"),
        LIBRARY,
        "nvidia-kernel-common-580-server",
        "nvidia-fabricmanager-580",
    )
    facts = machine((B200,), packages=packages)
    choice = choose(facts, PARAMS | {"switch_branch": True})
    assert choice.remove == (
        "linux-modules-nvidia-580-server-generic",
        "nvidia-headless-no-dkms-580-server",
    )
    assert choice.clauses[1:] == (
        f"switch from 580-server to 580-server-open for {facts.gpus.summary}: the newest long-term branch offered",
        "supported until 2028-06",
        "open kernel module, prebuilt and signed",
    )


def test_choose_switch_never_unholds():
    facts = machine((H100,), packages=INSTALLED, held=INSTALLED[:1])
    choice = choose(facts, PARAMS | {"branch": "595", "switch_branch": True})
    assert (choice.action, "holds nvidia-headless" in choice.reason) == ("refuse", True)


def test_choose_vgpu_guest_is_left_alone():
    assert choose(machine(offer=None, packages=INSTALLED, is_vgpu=True), PARAMS).action == "none"


def test_choose_vgpu_guest_without_a_driver_is_sent_to_its_hypervisors_driver():
    """Azure NVadsA10 v5 is known by its PCI ids, and no policy makes the distribution's packages
    drive it.
    """
    for params in ({}, {"bringer": "host"}):
        for cloud, way in (("azure", "NvidiaGpuDriverLinux"), ("", "licensing portal")):
            choice = choose(machine(offer=None, profile=True, cloud=cloud), PARAMS | params)
            assert (choice.action, "GRID driver alone" in choice.reason) == ("refuse", True)
            assert way in choice.way_out


def test_choose_board_of_no_list_in_a_virtual_machine_is_asked_about():
    unlisted = {"listed": False, "is_vm": True}
    choice = choose(machine(offer=None, **unlisted), PARAMS)
    assert (choice.action, "bringer: host" in choice.way_out) == ("refuse", True)
    assert choose(machine(**unlisted), PARAMS | {"bringer": "host"}).action == "install"
    assert choose(machine(listed=False), PARAMS).action == "install"  # bare metal has whole ones


@pytest.mark.parametrize(
    ("facts", "way"),
    [
        ({"kubelet": True}, "bringer: external"),
        ({"dgx": True}, "docs.nvidia.com/dgx"),
        ({"image": "Lambda Stack"}, "apt-get install lambda-stack-cuda"),
        ({"image": "AWS Deep Learning AMI"}, "docs.aws.amazon.com/dlami"),
    ],
)
def test_choose_names_the_way_of_whoever_brings_the_driver_first(facts, way):
    choice = choose(machine(offer=None, **facts), PARAMS)
    assert (choice.action, choice.way_out.startswith(way) or way in choice.way_out) == (
        "refuse",
        True,
    )
    assert (
        choice.way_out.index(way) < choice.way_out.index("bringer: host")
        if "bringer: host" in choice.way_out
        else way
    )


def test_choose_without_prebuilt_modules_names_both_ways_out():
    facts = machine((H100,), offer=(candidate("nvidia-driver-580-server-open", ""),))
    facts.packages = Packages({"dpkg": ("1.22", "install ok installed")})
    choice = choose(facts, PARAMS)
    assert choice.action == "refuse"
    assert "apt-get install linux-generic" in choice.way_out
    assert "allow_dkms: true" in choice.way_out
    compiled = choose(facts, PARAMS | {"allow_dkms": True})
    assert (compiled.action, compiled.needs_dkms) == ("install", True)
    assert compiled.packages[2:] == (
        "nvidia-dkms-580-server-open",
        "linux-headers-6.8.0-45-generic",
    )


def test_choose_says_when_the_table_is_past_its_date():
    later = 1_850_000_000.0  # August 2028
    assert "a newer hosttune may know more" in choose(machine(now=later), PARAMS).reason
    assert "a newer hosttune may know more" not in choose(machine(), PARAMS).reason


MODULES = "linux-modules-nvidia-580-server-open-generic"
RUNNING = "linux-modules-nvidia-580-server-open-6.8.0-45-generic"


@pytest.mark.parametrize(
    ("versions", "more"),
    [
        ({}, ()),
        ({MODULES: "6.8.0-45.45", RUNNING: "6.8.0-45.45"}, ()),
        ({MODULES: "6.8.0-60.63+1", RUNNING: "6.8.0-45.45"}, (RUNNING,)),
        ({MODULES: "6.8.0-60.63+1"}, ()),
        ({RUNNING: "6.8.0-45.45"}, ()),
    ],
    ids=[
        "unknown",
        "the same kernel",
        "a newer kernel",
        "not offered any more",
        "without the metapackage",
    ],
)
def test_choose_brings_modules_for_the_running_kernel_too(versions, more):
    assert choose(machine(versions=versions), PARAMS).packages == (
        *compute("580-server-open"),
        *more,
    )


NEXT = "6.8.0-48-generic"
OF_NEXT = f"linux-modules-nvidia-580-server-open-{NEXT}"


@pytest.mark.parametrize(
    ("at_next", "more"),
    [((OF_NEXT, f"linux-headers-{NEXT}"), (OF_NEXT,)), ((), ())],
    ids=["offered", "not offered"],
)
def test_choose_brings_modules_for_the_kernel_that_boots_next(at_next, more):
    versions = {MODULES: "6.8.0-45.45", RUNNING: "6.8.0-45.45"}
    choice = choose(machine(versions=versions, next_kernel=NEXT, at_next=at_next), PARAMS)
    assert choice.packages == (*compute("580-server-open"), *more)
    assert (
        choice.modules == "linux-modules-nvidia-580-server-open"
    )  # so that a set without it is refused


def test_choose_brings_the_headers_of_the_kernel_that_boots_next_where_dkms_compiles():
    only_dkms = (candidate("nvidia-driver-580-server-open", "nvidia-dkms-580-server-open"),)
    facts = machine(offer=only_dkms, next_kernel=NEXT, at_next=(f"linux-headers-{NEXT}",))
    choice = choose(facts, PARAMS | {"allow_dkms": True})
    assert choice.packages[-2:] == ("linux-headers-generic", f"linux-headers-{NEXT}")
    assert choice.modules == "linux-headers"


def test_choose_update_of_a_version_that_the_archive_has_no_more():
    """Ubuntu's archives keep the newest version alone, so that an old one is nobody's."""
    gone = replace(offer(LIBRARY), installed_from="")
    facts = machine(offer=None, packages=INSTALLED, updates=(gone,))
    assert choose(facts, PARAMS | {"update": True}).action == "update"
    facts.archives.origins = ()
    assert choose(facts, PARAMS | {"update": True}).action == "update"
    facts.archives.origins = ("NVIDIA",)
    assert choose(facts, PARAMS | {"update": True}).action == "refuse"


def test_choose_nothing_beside_a_runfile():
    facts = machine(offer=None, packages=INSTALLED, updates=(offer(LIBRARY),), runfile=True)
    choice = choose(facts, PARAMS | {"update": True, "branch": "595", "switch_branch": True})
    assert (choice.action, "runfile" in choice.reason) == ("keep", True)
    assert choice.way_out.startswith("sudo nvidia-uninstall\n")
    facts.driver = replace(facts.driver, is_vgpu_manager=True)
    assert choose(facts, PARAMS).way_out == f"sudo apt-get remove {' '.join(INSTALLED)}"


@pytest.mark.parametrize("packages", [(), INSTALLED])
def test_choose_pin_that_is_no_number_is_refused(packages):
    choice = choose(
        machine(offer=None, packages=packages),
        PARAMS | {"branch": "580-server", "switch_branch": True},
    )
    assert (choice.action, "such as" in choice.way_out) == ("refuse", True)


@pytest.mark.parametrize("full", ["640-server-open", "595-open"])
def test_choose_newest_goes_to_no_older_branch_and_to_no_other_flavour(full):
    packages = (*compute(full), f"nvidia-kernel-common-{full.removesuffix('-open')}")
    choice = choose(machine(packages=packages), PARAMS | {"track": "newest", "switch_branch": True})
    assert (choice.action, choice.name) == ("keep", full)


def test_choose_for_the_gpus_that_no_virtual_machine_has():
    assert choose(machine((B200, V100), drivers=("", "vfio-pci")), PARAMS).name == "580-server-open"
    assert choose(machine((B200, V100), drivers=("", "nouveau")), PARAMS).action == "refuse"


def test_choose_hgx_b200_brings_fabric_manager_though_no_switch_shows():
    choice = choose(machine((B200,) * 8), PARAMS)
    assert choice.packages[-2:] == ("nvidia-fabricmanager-580", "libnvidia-nscq-580")
    assert "nvidia-fabricmanager-580" in choice.one_version
    assert (
        "nvidia-fabricmanager-580" not in choose(machine((B200,) * 8, is_vm=True), PARAMS).packages
    )


COMPANIONS = ("nvidia-fabricmanager-580", "libnvidia-nscq-580", "nvidia-imex-580")


def test_choose_switch_brings_what_stood_beside_the_old_driver():
    facts = machine((B200,) * 8, packages=(*INSTALLED, *COMPANIONS), is_vm=True)
    choice = choose(facts, PARAMS | {"branch": "595", "switch_branch": True})
    assert set(COMPANIONS) <= set(choice.remove)
    assert choice.packages[-3:] == tuple(name.replace("580", "595") for name in COMPANIONS)
    assert choice.one_version == (
        "nvidia-utils-595-server",
        "nvidia-fabricmanager-595",
        "libnvidia-nscq-595",
    )


def test_choose_switch_of_the_module_alone_keeps_what_stands_beside_it():
    packages = (*compute("580-server"), LIBRARY, "nvidia-kernel-common-580-server", *COMPANIONS)
    choice = choose(machine((B200,), packages=packages), PARAMS | {"switch_branch": True})
    assert not set(choice.remove) & {*COMPANIONS, *choice.packages}


def test_choose_update_holds_fabric_manager_to_one_version_where_no_switch_shows():
    facts = machine(offer=None, packages=(*INSTALLED, *COMPANIONS), updates=(offer(LIBRARY),))
    coupled = choose(facts, PARAMS | {"update": True}).one_version
    assert set(coupled) == {"nvidia-utils-580-server", *COMPANIONS[:2]}
    alone = machine(offer=None, packages=INSTALLED, updates=(offer(LIBRARY),))
    assert choose(alone, PARAMS | {"update": True}).one_version == ()


def test_choose_switch_never_mixes_nvidias_archive_with_ubuntus():
    facts = machine(packages=INSTALLED)
    facts.archives.origins = ("NVIDIA",)
    choice = choose(facts, PARAMS | {"branch": "595", "switch_branch": True})
    assert (choice.action, "NVIDIA's archive" in choice.reason) == ("refuse", True)
    assert (
        "apt-get install nvidia-driver-pinning-580 && sudo apt-get install nvidia-open"
        in choice.way_out
    )


@pytest.mark.parametrize("allowed", [True, False])
def test_choose_update_of_compiled_modules_by_consent(allowed):
    packages = ("nvidia-driver-580-open", "nvidia-dkms-580-open", "nvidia-utils-580")
    facts = machine(offer=None, packages=packages, updates=(offer("nvidia-dkms-580-open"),))
    assert choose(facts, PARAMS | {"update": True, "allow_dkms": allowed}).needs_dkms is allowed


def test_choose_update_waits_for_the_modules_of_the_kernel_that_boots_next():
    """New libraries beside the old module of that kernel would be a GPU that does not compute after
    the boot.
    """
    kernel_modules = "linux-modules-nvidia-580-server-open-6.8.0-45-generic"
    packages = (*INSTALLED, kernel_modules)
    alone = choose(
        machine(offer=None, packages=packages, updates=(offer(LIBRARY),)), PARAMS | {"update": True}
    )
    assert (alone.action, kernel_modules in alone.reason) == ("refuse", True)
    together = (offer(LIBRARY), offer(kernel_modules))
    assert (
        choose(
            machine(offer=None, packages=packages, updates=together), PARAMS | {"update": True}
        ).action
        == "update"
    )
    rebuilt = (offer(LIBRARY, "580.95.05-0ubuntu2"),)  # the same version upstream: the module fits
    assert (
        choose(
            machine(offer=None, packages=packages, updates=rebuilt), PARAMS | {"update": True}
        ).action
        == "update"
    )


def test_choose_update_and_wanted_switch_wait_for_the_boot_but_a_needed_switch_does_not():
    late = {"loaded": "580.65.06", "packages": INSTALLED}
    update = choose(
        machine(offer=None, updates=(offer(LIBRARY),), **late), PARAMS | {"update": True}
    )
    assert (update.action, update.way_out.startswith("first: drain the host and reboot")) == (
        "refuse",
        True,
    )
    wanted = choose(machine(**late), PARAMS | {"branch": "595", "switch_branch": True})
    assert (wanted.action, "comes after what is not complete yet" in wanted.reason) == (
        "refuse",
        True,
    )
    needed = machine(
        (V100,),
        loaded="570.1",
        packages=(*compute("595-server"), "nvidia-kernel-common-595-server"),
    )
    assert choose(needed, PARAMS | {"switch_branch": True}).action == "switch"


def test_choose_says_of_an_unused_driver_whether_a_reboot_helps():
    assert choose(machine(offer=None, packages=INSTALLED, loaded="580.65.06"), PARAMS).unused == ""
    dead_end = machine(
        offer=None, packages=INSTALLED, loaded="580.65.06", next_kernel="6.8.0-71-generic"
    )
    choice = choose(dead_end, PARAMS)
    assert choice.unused == "no reboot before it is solved: module missing for the next kernel"
    assert choice.way_out.startswith("do not reboot before")


def test_choose_refuses_first_what_dpkg_left_half_way():
    facts = machine(packages=INSTALLED, updates=(offer(LIBRARY),))
    half = "dpkg stopped half-way with nvidia-utils-580-server (unpacked)"
    facts.driver = replace(facts.driver, half_way=half)
    for params in (
        PARAMS,
        PARAMS | {"update": True},
        PARAMS | {"branch": "595", "switch_branch": True},
    ):
        choice = choose(facts, params)
        assert (choice.action, choice.reason, choice.packages) == ("refuse", half, ())
        assert choice.way_out == "sudo dpkg --configure -a; sudo apt-get -f install"


def test_choose_installs_where_only_remains_of_a_loaded_driver_are_left():
    choice = choose(machine(packages=[LIBRARY], loaded="580.95.05"), PARAMS)
    assert choice.action == "install"
    assert (
        choose(machine(offer=None, loaded="580.95.05"), PARAMS).action == "keep"
    )  # from whoever brought it


def test_defaults_of_the_choice_are_those_of_the_rule():
    assert builtin_catalog().rules["gpu-driver"].defaults == DEFAULTS


def test_gpu_that_is_older_than_all_that_is_offered_is_not_called_newer():
    for offer in (archive_of("580", "595"), ()):
        choice = choose(
            machine([K80], offer=offer, problem="" if offer else "nothing is offered"), PARAMS
        )
        assert choice.action == "refuse"
        assert choice.way_out.startswith(
            "branch 470 was the last that drives kepler; NVIDIA's support of branch 470 has"
        )
        assert "newer" not in choice.way_out
    newer = choose(
        machine([RTX5090], offer=archive_of("470", "535"), components=("main", "restricted")),
        PARAMS,
    )
    assert "if the GPU is newer than these branches" in newer.way_out
    assert "multiverse" in newer.way_out


def archive_of(*branches):
    return tuple(one for one in archive() if str(one.branch) in branches)


def test_component_without_closed_modules_is_not_named_where_one_is_wanted():
    offer = tuple(one for one in archive_of("580") if one.is_open)
    choice = choose(machine([V100], offer=offer, components=("main", "restricted")), PARAMS)
    assert "they need the closed kernel module, and none is offered" in choice.reason
    assert "multiverse" not in choice.way_out


def test_parameter_that_another_one_must_follow_is_named_with_it():
    offer = [
        candidate(
            "nvidia-driver-580-server-open", "nvidia-dkms-580-server-open", is_third_party=True
        )
    ]
    choice = choose(machine(offer=offer), PARAMS)
    assert choice.asks == "allow_third_party"
    assert "allow_third_party: true" in choice.way_out
    assert choice.way_out.endswith(
        "params: {gpu-driver: {allow_dkms: true}} in the policy compiles them here"
    )
    locked = choose(machine(offer=offer, own_modules=False), PARAMS)
    assert "sudo mokutil --import" in locked.way_out
    assert (
        choose(
            machine(offer=offer), PARAMS | {"allow_third_party": True, "allow_dkms": True}
        ).action
        == "install"
    )


def test_kernel_log_that_asks_for_the_other_module_lets_the_switch_go_on():
    """A GPU whose generation no table has: its driver alone knows that it needs the other kind."""
    for name, kind, other in (
        ("needs_open", "580-server", "580-server-open"),
        ("not_for_open", "580-server-open", "580-server"),
    ):
        facts = machine([NEW], packages=compute(kind), shown=SHOWN_FOR_NEW)
        setattr(facts.nvidia, name, True)
        choice = choose(facts, PARAMS | {"switch_branch": True})
        assert (choice.action, choice.name) == ("switch", other)


SHOWN_FOR_NEW = "".join(
    stanza(f"nvidia-driver-580-server{kind}", "580.95.05-0ubuntu1", (NEW,))
    for kind in ("", "-open")
)
