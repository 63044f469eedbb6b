"""Which driver: a matrix of machines and policies with the choice and its reason, and what must always hold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.choices.driver import choose
from hosttune.facts import UnknownFact
from hosttune.facts.candidates import Candidate, Candidates
from hosttune.facts.driver import Driver, DriverPackage, branch_and_flavour, is_driver_package
from hosttune.facts.gpus import Gpu, Gpus
from hosttune.facts.nvidia_tables import generation_of
from hosttune.facts.packages import Packages

PARAMS = {
    "track": "lts", "branch": "", "bringer": "auto", "use": "auto", "allow_third_party": False, "allow_dkms": False,
}  # fmt: skip
V100, A100, H100, GTX1080, RTX4090, RTX5090, B200, K80, GH200, NEW, FERMI = (
    "0x1db4", "0x20b2", "0x2330", "0x1b80", "0x2684", "0x2b85", "0x2901", "0x102d", "0x2342", "0x9999", "0x06d1",
)  # fmt: skip
# What an archive of autumn 2026 has; K80 only by DKMS, as 470 has no prebuilt modules left.
BRANCHES = ("470", "535", "580", "595")
FLAVOURS = ("", "-open", "-server", "-server-open")


def gpu(device_id, slot=0, driver=""):
    generation = generation_of(int(device_id, 16))
    return Gpu(f"0000:{slot:02x}:00.0", device_id, "", "0x030200", generation, "", driver, -1, 0, 0, "", "")


def candidate(name, modules=None, **more):
    rest = name.removeprefix("nvidia-driver-")
    branch = rest.split("-")[0]
    provider = f"linux-modules-nvidia-{rest}-generic" if modules is None else modules
    flags = {"is_third_party": False, "is_recommended": False} | more
    return Candidate(name, int(branch), "-server" in rest, rest.endswith("-open"), modules=provider, **flags)


def archive(kernel="generic"):
    names = [f"nvidia-driver-{branch}{flavour}" for branch in BRANCHES for flavour in FLAVOURS]
    found = []
    for name in names:
        rest = name.removeprefix("nvidia-driver-")
        if rest.startswith("470"):
            found += [] if rest.endswith("open") else [candidate(name, f"nvidia-dkms-{rest}")]
        else:
            found.append(candidate(name, f"linux-modules-nvidia-{rest}-{kernel}"))
    return tuple(found)


class Machine(SimpleNamespace):
    """Facts that are given, and a note whether `ubuntu-drivers` was asked."""

    @property
    def candidates(self):
        self.asked = True
        if self.offer is None:
            pytest.fail("ubuntu-drivers must not be asked here")
        return self.offer


def machine(
    devices=(H100,), *, offer=(), problem="", packages=(), loaded="", runfile=False, switches=0, ubuntu=True,
    kernel="generic", architecture="x86_64", drivers=(), **more,
):  # fmt: skip
    installed = {"linux-image-" + kernel: "6.8.0.45", "dpkg": "1.22"} | dict.fromkeys(packages, "580.95.05-0ubuntu1")
    branch, flavour = branch_and_flavour(installed.items())
    of_driver = tuple(DriverPackage(n, v, False, "installed") for n, v in installed.items() if is_driver_package(n))
    bound = list(drivers) + [""] * len(devices)
    host = {"is_container": False, "is_wsl": False} | more
    return Machine(
        asked=False,
        offer=None
        if offer is None
        else Candidates("test", archive() if offer == () and not problem else tuple(offer), problem, False),
        gpus=Gpus(tuple(gpu(one, slot, bound[slot]) for slot, one in enumerate(devices)), switches),
        driver=Driver(loaded, False, "", of_driver, branch, flavour, bool(branch), (), "nouveau" in bound, runfile),
        packages=Packages({name: (version, "install ok installed") for name, version in installed.items()}),
        host=SimpleNamespace(**{key: host[key] for key in ("is_container", "is_wsl")}),
        kernel=SimpleNamespace(
            release=f"6.8.0-45-{kernel}", flavour=kernel.split("-hwe")[0], architecture=architecture
        ),
        managers=SimpleNamespace(**{key: host.get(key, False) for key in ("gpu_operator", "kubelet", "dgx")}),
        os=SimpleNamespace(is_ubuntu=ubuntu, name="Ubuntu 24.04" if ubuntu else "Debian GNU/Linux 12", id="x"),
    )


def compute(full, kernel="generic"):
    base = full.removesuffix("-open")
    return f"nvidia-headless-no-dkms-{full}", f"nvidia-utils-{base}", f"linux-modules-nvidia-{full}-{kernel}"


INSTALLS = {
    "8 x H100 without switches": ((H100,) * 8, {}, compute("580-server-open")),
    "A100, the newest": ((A100,), {"track": "newest"}, compute("595-server-open")),
    "A100, production": ((A100,), {"track": "production"}, compute("595-server-open")),
    "A100, pinned to a branch that is over": ((A100,), {"branch": "535"}, compute("535-server-open")),
    "V100": ((V100,), {}, compute("580-server")),
    "V100, the newest that drives it": ((V100,), {"track": "newest"}, compute("580-server")),
    "V100, production has none": ((V100,), {"track": "production"}, compute("580-server")),
    "Blackwell": ((B200,), {}, compute("580-server-open")),
    "Blackwell, production": ((B200, RTX5090), {"track": "production"}, compute("595-server-open")),
    "Pascal and Ada": ((GTX1080, RTX4090), {"track": "newest"}, compute("580-server")),
    "Ada and Blackwell": ((RTX4090, RTX5090), {}, compute("580-server-open")),
    "unknown alone": ((NEW,), {}, compute("580-server-open")),
    "unknown and Hopper": ((NEW, H100), {"track": "newest"}, compute("595-server-open")),
}


@pytest.mark.parametrize(("devices", "params", "packages"), INSTALLS.values(), ids=INSTALLS.keys())
def test_choose_absent_installs_the_set_for_all_gpus(devices, params, packages):
    choice = choose(machine(devices), PARAMS | params)
    assert choice.action == "install", choice.reason
    assert choice.packages == packages
    assert not choice.needs_dkms


def test_choose_names_the_reason():
    choice = choose(machine((H100,) * 8), PARAMS)
    assert choice.reason == (
        "driver 580-server-open for 8 x NVIDIA device 0x2330 (hopper generation): the newest long-term branch offered, "
        "supported until 2028-06; open kernel module, prebuilt and signed"
    )
    assert choice.name == "580-server-open"


REFUSALS = {
    "Volta and Blackwell": ((V100, B200), {}, "needs the open kernel module, and volta cannot use it"),
    "Pascal and unknown": ((GTX1080, NEW), {}, "not known whether the GPU of unknown generation needs it"),
    "Fermi": ((FERMI, H100), {}, "Fermi and older GPUs"),
    "Kepler by DKMS only": ((K80,), {}, "allow_dkms: true takes it"),
    "pin that is not offered": ((A100,), {"branch": "610"}, "branch 610 is not offered (offered: nvidia-driver-470"),
    "pin that does not drive it": ((V100,), {"branch": "595"}, "no branch drives all of them"),
    "Kepler and Hopper": ((K80, H100), {"allow_dkms": True}, "no branch drives all of them"),
}


@pytest.mark.parametrize(("devices", "params", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_choose_contradictions_are_refused_with_the_reason(devices, params, reason):
    choice = choose(machine(devices), PARAMS | params)
    assert (choice.action, choice.packages) == ("refuse", ())
    assert reason in choice.reason


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
    assert choose(machine(offer=offer), PARAMS | {"allow_dkms": True}).packages == compute("580-open")


def test_choose_third_party_only_by_consent():
    offer = (candidate("nvidia-driver-600-open", is_third_party=True), candidate("nvidia-driver-580-open"))
    assert choose(machine((RTX4090,), offer=offer), PARAMS | {"track": "newest"}).branch == "580"
    allowed = PARAMS | {"track": "newest", "allow_third_party": True}
    assert choose(machine((RTX4090,), offer=offer), allowed).branch == "600"
    alone = choose(machine((RTX4090,), offer=offer[:1]), PARAMS)
    assert (alone.action, "allow_third_party" in alone.reason) == ("refuse", True)


def test_choose_blackwell_without_open_is_refused():
    offer = (candidate("nvidia-driver-580"), candidate("nvidia-driver-580-server"))
    choice = choose(machine((RTX5090,), offer=offer), PARAMS)
    assert "they need the open kernel module, and none is offered" in choice.reason


def test_choose_grace_hopper_takes_the_open_module_only():
    closed = (candidate("nvidia-driver-580-server"),)
    assert choose(machine((GH200,), offer=closed, architecture="aarch64"), PARAMS).action == "refuse"
    assert choose(machine((GH200,), offer=closed), PARAMS).action == "install"


def test_choose_ended_branches_only_where_nothing_else_is_offered():
    both = (candidate("nvidia-driver-535-server-open"), candidate("nvidia-driver-590-server-open"))
    choice = choose(machine(offer=both), PARAMS)
    assert choice.branch == "590"
    assert "support of every branch offered for these GPUs has ended" in choice.reason


def test_choose_nvswitch_brings_fabric_manager_in_one_version():
    choice = choose(machine((H100,) * 8, switches=4, packages=["xserver-xorg-core"]), PARAMS)
    assert choice.packages == (*compute("580-server-open"), "nvidia-fabricmanager-580", "libnvidia-nscq-580")
    assert choice.one_version == ("nvidia-utils-580-server", "nvidia-fabricmanager-580", "libnvidia-nscq-580")
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
    assert choose(machine((RTX4090,), packages=packages), PARAMS | {"use": use}).packages[0] == first


@pytest.mark.parametrize("kernel", ["aws", "generic-hwe-24.04", "nvidia-64k"])
def test_choose_modules_for_the_kernel_where_list_did_not_tell(kernel):
    offer = (candidate("nvidia-driver-580-server-open", ""),)
    assert choose(machine(offer=offer, kernel=kernel), PARAMS).packages == compute("580-server-open", kernel)


def test_choose_foreign_kernel_without_modules_is_refused():
    offer = (candidate("nvidia-driver-580-server-open", ""),)
    facts = machine(offer=offer)
    facts.kernel.flavour = ""
    assert "6.8.0-45-generic is no kernel of Ubuntu's" in choose(facts, PARAMS).reason
    facts.kernel.flavour = "lowlatency"
    assert "no kernel metapackage is installed (linux-image-lowlatency" in choose(facts, PARAMS).reason


NOTHING_TO_DO = {
    "no GPU": ({"devices": ()}, {}, "no NVIDIA GPU"),
    "container": ({"is_container": True}, {}, "belongs to the host"),
    "WSL": ({"is_wsl": True}, {}, "Windows"),
    "passed through": ({"drivers": ("vfio-pci",)}, {}, "vfio-pci"),
    "GPU Operator": ({"gpu_operator": True, "loaded": "580.95.05"}, {}, "GPU Operator"),
    "external": ({}, {"bringer": "external"}, "bringer: external"),
    "Debian": ({"ubuntu": False}, {}, "this is Debian GNU/Linux 12"),
}


@pytest.mark.parametrize(("facts", "params", "reason"), NOTHING_TO_DO.values(), ids=NOTHING_TO_DO.keys())
def test_choose_leaves_alone_what_is_not_ours_without_asking(facts, params, reason):
    choice = choose(machine(**{"offer": None} | facts), PARAMS | params)
    assert choice.action == "none"
    assert reason in choice.reason


@pytest.mark.parametrize("other", ["kubelet", "dgx"])
def test_choose_with_another_bringer_asks_the_policy(other):
    assert choose(machine(offer=None, **{other: True}), PARAMS).action == "refuse"
    assert choose(machine(**{other: True}), PARAMS | {"bringer": "host"}).action == "install"


KEPT = {
    "server-open": ({"packages": (*compute("580-server-open"), "nvidia-kernel-common-580-server")}, "580-server-open"),
    "an older branch": ({"packages": ("nvidia-driver-535", "nvidia-utils-535", "nvidia-dkms-535")}, "535"),
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
    assert "has ended" not in choose(machine(offer=None, packages=["nvidia-utils-580"]), PARAMS).reason


def test_choose_pin_of_another_branch_does_not_switch():
    facts = machine(offer=None, packages=compute("580-server-open"))
    refused = choose(facts, PARAMS | {"branch": "595"})
    assert (refused.action, refused.packages) == ("refuse", ())
    assert "580 is installed" in refused.reason
    assert choose(facts, PARAMS | {"branch": "580"}).action == "keep"


def test_choose_without_an_offer_is_unknown_with_the_problem():
    with pytest.raises(UnknownFact, match="sudo apt-get update"):
        choose(machine(problem="apt's package lists are missing: sudo apt-get update"), PARAMS)


@pytest.mark.parametrize(("devices", "params", "packages"), INSTALLS.values(), ids=INSTALLS.keys())
def test_choose_again_after_installing_keeps_it(devices, params, packages):
    first = choose(machine(devices), PARAMS | params)
    second = choose(machine(devices, offer=None, packages=first.packages), PARAMS | params)
    assert (second.action, second.name) == ("keep", first.name)
    assert set(second.packages) <= set(first.packages)
