"""Which package of a driver does not belong to the rest, who built it, and what puts that side
right.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest

from hosttune.choices.driver_states.mixed import (
    libraries_back,
    libraries_beside_installer,
    other_makers,
    other_versions,
    tell_of_unmet,
    third_party,
)
from hosttune.choices.driver_states.state import libraries_only
from hosttune.choices.drivers.nvidia_archive import switch_within_archive, tell_updates
from hosttune.facts import UnknownFact
from hosttune.facts.gpu.archives import Offer
from hosttune.facts.gpu.driver import DriverPackage
from hosttune.facts.gpu.packaging import Packaging
from hosttune.facts.gpu.strangers import GRAPHICS_PPA, home_of, maker_of, mixture_of, strangers_of
from hosttune.facts.packages import Packages
from hosttune.facts.versions import sorted_versions
from tests.unit.driver_machine import NOW, tables

KERNEL = "6.8.0-45-generic"
OLD, NEW, OTHER = "580.105.08-1ubuntu1", "580.142-0ubuntu0.24.04.1", "590.44.01-1ubuntu1"
DRIVER = (
    "libnvidia-cfg1-580",
    "libnvidia-compute-580",
    "nvidia-dkms-580-open",
    "nvidia-kernel-common-580",
    "nvidia-utils-580",
)


def driver(version=OLD, without=(), **more):
    """A driver of branch 580, but for what is said: package -> version."""
    there = {name: version for name in DRIVER if name not in without}
    return there | {name.replace("_", "-"): one for name, one in more.items()}


def host(
    installed,
    lists=None,
    *,
    loaded="580.105.08",
    module="580.105.08",
    source="dkms",
    libraries="",
    held=(),
    needs=(),
    status=(),
    runfile=False,
    branch="580",
    generations=("hopper",),
):
    """`lists`: package -> {version: whose}; None where apt has no lists."""
    states = dict(status)
    packages = tuple(
        DriverPackage(n, v, n in held, states.get(n, "installed"))
        for n, v in sorted(installed.items())
    )
    offers = {
        name: offer(name, installed.get(name, ""), (lists or {}).get(name, {}))
        for name in {*installed, *(lists or {})}
    }

    class Archives:
        @property
        def packages(self):
            if lists is None:
                raise UnknownFact("apt's package lists are missing")
            return {name: one for name, one in offers.items() if name in installed}

        def offers_of(self, names):
            raise UnknownFact("not in this record")

        missing = offers_of

    return SimpleNamespace(
        driver=SimpleNamespace(
            packages=packages, branch=branch, loaded_version=loaded, userspace_version=libraries, is_loaded=bool(loaded), half_way="",
            modules=(SimpleNamespace(version=module, source=source, kernel="6.8.0-45-generic"),), dkms=(), dkms_orphans=(), runfile=runfile, is_foreign=False, is_mismatched=loaded != libraries,
            module_for=lambda _: None, flavour="open", name="580-open",
        ),
        archives=Archives(),
        packages=Packages({n: (v, "install ok installed") for n, v in installed.items()}, depends=defaultdict(tuple, needs)),
        reader=SimpleNamespace(has_tried_packages=False, now=lambda: NOW, query=lambda *_, **__: answer(offers)),
        kernel=SimpleNamespace(architecture="x86_64", release=KERNEL), boot=SimpleNamespace(next_kernel=KERNEL), gpus=SimpleNamespace(generations=generations, ours=()), apt=SimpleNamespace(pins=(), sources=()), branches=tables(), os=SimpleNamespace(is_ubuntu=True),
    )  # fmt: skip


class Unread:
    @property
    def next_kernel(self):
        raise UnknownFact("no grub.cfg")


def answer(offers):
    from hosttune.host.door import Completed

    text = "Package files:\n 500 http://u x\n     release o=Ubuntu\n 500 http://n x\n     release o=NVIDIA\n"
    for one in offers.values():
        if one.versions or one.installed:
            text += f"{one.name}:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
            for version, whose in one.versions.items():
                text += f"     {version} 500\n        500 http://{whose[0].lower()} x\n"
    return Completed(0, text.encode(), b"")


def offer(name, installed, versions):
    newest = sorted_versions((*versions, *([installed] if installed else ())))[-1:] or ("",)
    return Offer(
        name,
        installed,
        newest[0],
        versions.get(installed, ""),
        versions.get(newest[0], ""),
        versions,
    )


@pytest.mark.parametrize(
    ("name", "version", "origin", "maker"),
    [
        ("libnvidia-compute-580", "580.95.05-0ubuntu0.24.04.2", "", "Ubuntu"),
        ("libnvidia-compute-580", "580.105.08-1ubuntu1", "", "NVIDIA"),
        ("nvidia-kernel-common", "590.48.01-0ubuntu1", "", "NVIDIA"),  # no branch in the name
        (
            "nvidia-kernel-common-530",
            "530.30.02-0ubuntu1",
            "",
            "",
        ),  # Ubuntu's for a new release look alike
        ("nvidia-kernel-common-530", "530.30.02-0ubuntu1", "NVIDIA", "NVIDIA"),
        ("libnvidia-compute-560", "560.35.03-0ubuntu0~gpu20.04.4", "", GRAPHICS_PPA),
        ("nvidia-driver", "535.247.01-1~deb12u1", "", "Debian"),
        ("nvidia-driver", "580.95.05-1", "", ""),
        ("linux-modules-nvidia-580-open-6.8.0-45-generic", "6.8.0-45.45+1", "", "Ubuntu"),
        ("libnvidia-compute-580", "580.95.05-0ubuntu0.24.04.2", "mirror.example.com", "Ubuntu"),
        ("libnvidia-compute-580", "580.95.05-lambda1", "Lambda Labs", "Lambda Labs"),
        (
            "libnvidia-compute-580",
            "580.95.05-0ubuntu0.24.04.2",
            "LP-PPA-somebody-nvidia",
            "LP-PPA-somebody-nvidia",
        ),
    ],
)
def test_maker_is_told_by_apt_and_else_by_name_and_revision(name, version, origin, maker):
    assert maker_of(name, version, origin) == maker


@pytest.mark.parametrize(
    ("installed", "version", "strangers"),
    [
        (driver(), "580.105.08", ()),
        (driver(libnvidia_compute=OTHER, without=("libnvidia-compute-580",)), "580.105.08", ("libnvidia-compute",)),
        (driver(**{"nvidia-dkms-580-open": "580.95.05-1ubuntu1"}), "580.105.08", ("nvidia-dkms-580-open",)),
        # what stands beside a driver, or has versions of its own, is no stranger
        (driver(**{"nvidia-settings": "510.47.03-0ubuntu1", "nvidia-fabricmanager-580": "580.95.05-1", "nvidia-driver-assistant": "0.24.60-1"}), "580.105.08", ()),
        (driver(**{"nvidia-driver-570": OLD, "nvidia-firmware-570-570.1.2": "570.1.2-0ubuntu0.24.04.1"}), "580.105.08", ()),
        (driver(**{"nvidia-firmware-580-580.105.08": "580.105.08-0ubuntu0.24.04.1"}), "580.105.08", ("nvidia-firmware-580-580.105.08",)),
        (driver(**{"nvidia-tesla-470-driver": "470.256.02-2"}), "580.105.08", ()),
        # prebuilt modules count where they are the ones that are loaded
        (driver(**{"linux-modules-nvidia-580-open-6.8.0-45-generic": "6.8.0-45.45"}), "580.105.08", ()),
    ],
)  # fmt: skip
def test_strangers_are_those_of_another_version_or_archive(installed, version, strangers):
    facts = host(installed)
    assert (mixture_of(facts).version, tuple(one.name for one in strangers_of(facts))) == (
        version,
        strangers,
    )
    assert home_of(facts) == "NVIDIA"


def test_prebuilt_module_that_would_be_loaded_is_a_stranger_in_nvidias_driver():
    name = "linux-modules-nvidia-580-open-6.8.0-45-generic"
    facts = host(driver(**{name: "6.8.0-45.45"}), source="prebuilt")
    assert [one.name for one in strangers_of(facts)] == [name]
    assert other_makers(facts)[1] == (
        "sudo apt-get install linux-headers-6.8.0-45-generic && sudo dkms autoinstall -k 6.8.0-45-generic\n"
        f"sudo apt-get remove {name}"
    )


def test_half_of_the_packages_are_judged_by_the_module():
    """Of four packages two are of each version."""
    both = dict(zip(DRIVER[:4], (OLD, OLD, NEW, NEW), strict=True))
    for version in (OLD, NEW):
        upstream = version.partition("-")[0]
        assert mixture_of(host(both, loaded=upstream, module=upstream)).version == upstream


MIXED = driver(libnvidia_compute=OTHER, without=("libnvidia-compute-580",))
UBUNTU = {name: {NEW: "Ubuntu"} for name in DRIVER}
BOTH = {name: {NEW: "Ubuntu", OLD: "NVIDIA"} for name in DRIVER}
ALL = (
    f"sudo apt-get install {' '.join(f'{name}={NEW}' for name in DRIVER if 'compute' not in name)}"
)


def test_stranger_comes_back_in_the_version_of_the_rest():
    said, way = other_versions(host(MIXED, BOTH, libraries="590.44.01"))
    assert way == f"sudo apt-get install libnvidia-compute-580={OLD} libnvidia-compute-"
    assert said == (
        f"the driver is a mix of two versions: libnvidia-compute {OTHER} (NVIDIA's archive); the other 4 packages, the loaded module "
        "and the module on the disk are 580.105.08"
    )


def test_all_goes_to_one_version_where_apt_has_that_of_the_rest_no_more():
    _, way = other_versions(host(MIXED, UBUNTU, libraries="590.44.01"))
    assert way == (
        f"no list of apt has 580.105.08 any more, so all goes to 580.142 (Ubuntu): {ALL} libnvidia-compute-580={NEW} "
        "libnvidia-compute-\nsudo update-initramfs -u -k all\ndrain the host and reboot"
    )
    assert "look again" in other_versions(host(MIXED, {}))[1]
    assert "look again" in other_versions(host(MIXED))[1]
    other_branch = {name: {"595.71.05-1ubuntu1": "NVIDIA"} for name in MIXED}
    assert "look again" in other_versions(host(MIXED, other_branch))[1]


def unnumbered(**more):
    names = ("nvidia-driver", "nvidia-kernel-dkms", "libnvidia-ml1", "nvidia-smi")
    return dict.fromkeys(names, "525.85.12-1") | {"nvidia-kernel-dkms": "520.56.06-1"} | more


def test_names_without_a_branch_go_to_the_branch_that_is_left():
    """illinois-scicomp/machine-shop-maintenance issue 70: no list has 520 or 525 any more."""
    there, new = unnumbered(), "535.247.01-1~deb12u1"
    lists = {name: {new: "Debian"} for name in there}
    more = {
        "loaded": "520.56.06",
        "module": "520.56.06",
        "branch": "525",
        "generations": ("turing",),
    }
    _, way = other_versions(host(there, lists, **more))
    assert (
        f"so all goes to 535.247.01 (Debian): sudo apt-get install 'libnvidia-ml1={new}' 'nvidia-driver={new}'"
        in way
    )
    with_meta = host({**there, "cuda-drivers-520": "520.56.06-1"}, lists, **more)
    _, way = other_versions(with_meta)
    assert way.split("\n")[0].endswith(" cuda-drivers-520-")
    assert way.count("cuda-drivers") == 1
    few = {name: {new: "Debian"} for name in there if name != "nvidia-smi"} | {
        "nvidia-smi": {"525.85.12-1": "Debian"}
    }
    assert "look again" in other_versions(host(there, few, **more))[1]
    several = {
        name: {new: "Debian", "580.95.05-1": "NVIDIA", "595.71.05-1": "NVIDIA"} for name in there
    }
    assert "so all goes to 580.95.05 (NVIDIA" in other_versions(host(there, several, **more))[1]


def test_what_lacks_something_goes_before_apt_works_again():
    """Tried with apt 2.6: with unmet dependencies it installs what is named, and nothing that this
    needs.
    """
    needs = {
        "libnvidia-compute": (f"libnvidia-cfg1 (= {OTHER})",),
        "nvidia-utils-580": ("libnvidia-compute",),
    }
    said, way = other_versions(host(MIXED, UBUNTU, needs=needs))
    assert said.endswith(
        f"; unmet dependencies: libnvidia-compute needs libnvidia-cfg1 (= {OTHER})"
    )
    assert f": sudo apt-get remove libnvidia-compute nvidia-utils-580\n{ALL}" in way
    assert "libnvidia-compute-;" not in way
    assert "remove" not in other_versions(host(MIXED, BOTH, needs=needs))[1]


def test_module_of_an_older_package_is_brought_to_the_rest():
    installed = driver(NEW, nvidia_dkms_580_open="580.105.08-0ubuntu0.24.04.1")
    facts = host(installed, UBUNTU, libraries="580.142", held=("nvidia-dkms-580-open",))
    assert other_versions(facts)[1] == (
        f"when the hold has served: sudo apt-mark unhold nvidia-dkms-580-open\nsudo apt-get install nvidia-dkms-580-open={NEW}\n"
        "sudo update-initramfs -u -k all\ndrain the host and reboot"
    )


def test_package_of_a_newer_version_is_brought_back_as_a_downgrade():
    lists = {name: {OLD: "NVIDIA"} for name in DRIVER}
    facts = host(driver(nvidia_utils_580="580.142-1ubuntu1"), lists)
    assert (
        other_versions(facts)[1]
        == f"sudo apt-get install --allow-downgrades nvidia-utils-580={OLD}"
    )


def test_firmware_of_another_archive_goes_and_nothing_of_ubuntus_takes_its_place():
    names = ("libnvidia-compute", "nvidia-dkms-open", "nvidia-firmware", "nvidia-kernel-common")
    firmware = {"nvidia-firmware-590-590.48.01": "590.48.01-0ubuntu0.24.04.1"}
    facts = host(dict.fromkeys(names, "590.48.01-1ubuntu1") | firmware, {}, branch="590")
    said, way = other_makers(facts)
    assert (
        "nvidia-firmware-590-590.48.01 590.48.01-0ubuntu0.24.04.1 (Ubuntu); the rest is from NVIDIA's archive"
        in said
    )
    assert way == "sudo apt-get remove nvidia-firmware-590-590.48.01"
    facts.driver.half_way = "dpkg stopped half-way"
    assert other_makers(facts)[1] == f"after `broken packages` is solved: {way}"


def test_unmet_dependency_of_one_version_names_what_is_needed():
    facts = host(
        driver(), BOTH, needs={"nvidia-utils-580": ("libnvidia-x (= 1:2)", "libfoo | libbar")}
    )
    said, way = tell_of_unmet(facts)
    assert said.startswith(
        "unmet dependencies: nvidia-utils-580 needs libnvidia-x (= 1:2) and libfoo | libbar"
    )
    assert way.startswith("sudo apt-get update\nsudo apt-get install libnvidia-x=1:2 libfoo ")
    assert tell_of_unmet(host(driver(), BOTH)) is None
    facts.reader.has_tried_packages = True
    assert tell_of_unmet(facts) is None


OF_OLD_KERNEL, OF_KERNEL = (
    "linux-modules-nvidia-580-open-6.8.0-31-generic",
    f"linux-modules-nvidia-580-open-{KERNEL}",
)
ASKS_OLDER = ("nvidia-kernel-common-580 (<= 580.95.05-1)",)


@pytest.mark.parametrize(
    ("names", "way"),
    [
        ((OF_OLD_KERNEL,), f"sudo apt-get remove {OF_OLD_KERNEL}"),
        ((OF_KERNEL,), f"sudo apt-get update\nsudo apt-get install {OF_KERNEL}"),
        (
            (OF_OLD_KERNEL, OF_KERNEL),
            f"sudo apt-get update\nsudo apt-get install {OF_OLD_KERNEL} {OF_KERNEL}",
        ),
    ],
    ids=["a kernel that is not used", "the running kernel", "both"],
)
def test_modules_that_ask_for_an_older_driver_are_the_stranger(names, way):
    """elementary/settings-system issue 233: nvidia-kernel-common is here, and newer than the
    modules allow.
    """
    there = dict.fromkeys(names, "6.8.0-45.45+1")
    facts = host(driver() | there, BOTH, needs=dict.fromkeys(names, ASKS_OLDER))
    assert tell_of_unmet(facts)[1] == way


def test_modules_of_an_old_kernel_stay_if_it_is_not_known_what_boots_next():
    facts = host(
        driver() | {OF_OLD_KERNEL: "6.8.0-45.45+1"}, BOTH, needs={OF_OLD_KERNEL: ASKS_OLDER}
    )
    facts.boot = Unread()
    assert "apt-get remove" not in tell_of_unmet(facts)[1]


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ({"branch": "", "runfile": True, "source": "other"}, "download it from NVIDIA to /root/NVIDIA-Linux-x86_64-580.105.08.run, where only root can write\nsudo sh /root/NVIDIA-Linux-x86_64-580.105.08.run --no-kernel-modules (the libraries of the module)\nor, to give up"),
        ({}, "move libnvidia-ml.so.570.1 and libcuda.so.570.1 away\nsudo apt-get install --reinstall libnvidia-compute-580\nsudo ldconfig"),
        ({"runfile": True}, "sudo nvidia-uninstall\nsudo apt-get install --reinstall libnvidia-compute-580\nsudo ldconfig"),
        ({"module": "580.95.05"}, ""),  # the packages are of the libraries' side, or of neither
        ({"branch": "", "runfile": True, "source": "dkms"}, ""),
    ],
)  # fmt: skip
def test_libraries_follow_the_module_where_they_are_what_does_not_belong(more, way):
    facts = host({} if more.get("branch") == "" else driver(), BOTH, libraries="570.1", **more)
    found = libraries_back(facts, facts.driver.modules[0])
    assert way in found
    assert bool(found) is bool(way)
    assert "boot another" not in found


@pytest.mark.parametrize("source", ["other", "dkms"])
def test_libraries_that_apt_put_beside_a_runfile_go(source):
    """ucx-cuda 1.20 recommends libnvidia-compute, and apt takes the newest one."""
    theirs = {
        "libnvidia-cfg1": "570.1-1ubuntu1",
        "libnvidia-compute": "570.1-1ubuntu1",
        "libnvidia-egl-gbm1": "1.1",
    }
    facts = host(theirs, BOTH, libraries="570.1", branch="", runfile=True, source=source)
    assert libraries_beside_installer(facts) == ("libnvidia-compute", "libnvidia-cfg1")
    assert libraries_back(facts, facts.driver.modules[0]).startswith(
        "sudo apt-get remove libnvidia-compute libnvidia-cfg1\nsudo ldconfig\nif libnvidia-ml.so.1 is missing then, "
        "run the installer of its version again:\ndownload it from NVIDIA to "
        "/root/NVIDIA-Linux-x86_64-580.105.08.run, where only root can write\nsudo sh /root/NVIDIA-Linux-x86_64-580.105.08.run --no-kernel-modules"
    )
    own = host(
        {"nvidia-modprobe": "570.1-1ubuntu1"}, BOTH, libraries="570.1", branch="", runfile=True
    )
    assert libraries_beside_installer(own) == ()


def test_nvidias_archive_is_a_way_like_ubuntus_and_says_who_updates_it():
    numbered, renamed = (
        host(driver(), BOTH),
        host({"nvidia-dkms-open": "595.71.05-1ubuntu1"}, {}, branch="595"),
    )
    for facts in (numbered, renamed):
        assert (third_party(facts), other_makers(facts), other_versions(facts)) == (
            None,
            None,
            None,
        )
        assert (
            "apt upgrade updates it, hosttune with update: true and allow_dkms: true"
            in tell_updates(facts)[0]
        )
    assert tell_updates(numbered)[1] == "the names of its packages keep the branch"
    assert (
        "sudo apt-get install nvidia-driver-pinning-595 keeps this one" in tell_updates(renamed)[1]
    )
    pinned = {"nvidia-dkms-open": "595.71.05-1ubuntu1", "nvidia-driver-pinning-595": "1"}
    assert (
        tell_updates(host(pinned, {}, branch="595"))[1]
        == "nvidia-driver-pinning-595 keeps the branch"
    )
    assert tell_updates(host(driver(NEW), UBUNTU)) == ()


def test_prebuilt_modules_follow_the_libraries_to_the_other_series():
    """Apt removes the modules with the nvidia-kernel-common that they need: the reboot would bring
    no module.
    """
    server, plain = "580.126.20-0ubuntu0.24.04.1", "580.126.09-0ubuntu0.24.04.2"
    ours = {
        f"{one}-580-server": server
        for one in ("libnvidia-compute", "nvidia-utils", "nvidia-compute-utils")
    }
    here = {**ours, "nvidia-kernel-common-580": plain}
    names = ("linux-modules-nvidia-580-open", "linux-modules-nvidia-580-server-open")
    there = {
        f"{name}-{kernel}": {"6.8.0-45.45": "Ubuntu"}
        for name in names
        for kernel in (KERNEL, "generic")
    }
    lists = {name: {version: "Ubuntu"} for name, version in here.items()} | there
    lists["nvidia-kernel-common-580-server"] = {server: "Ubuntu"}
    installed = (
        here
        | {name: "6.8.0-45.45" for name in there if "server" not in name}
        | {"linux-image-generic": "1"}
    )
    more = {"loaded": "580.126.09", "module": "580.126.09", "source": "prebuilt"}
    evidence, way = other_versions(host(installed, lists, **more))
    assert "nvidia-kernel-common-580 580.126.09" in evidence
    come = " ".join(f"{names[1]}-{kernel}" for kernel in (KERNEL, "generic"))
    go = " ".join(f"{names[0]}-{kernel}-" for kernel in (KERNEL, "generic"))
    common = f"nvidia-kernel-common-580-server={server}"
    assert way.startswith(
        f"sudo apt-get install {common} {come} nvidia-kernel-common-580- {go}\ndrain"
    )
    compiled = host(installed | {"nvidia-dkms-580-server-open": server}, lists, **more)
    assert names[1] not in other_versions(compiled)[1]  # DKMS brings the module
    del lists[f"{names[1]}-{KERNEL}"]
    _, way = other_versions(host(installed, lists, **more))
    assert way == f"no list of apt has {names[1]}-{KERNEL}: sudo apt-get update, and look again"


@pytest.mark.parametrize("step", ["nvidia-driver-550-server", "nvidia-headless-no-dkms-550-server"])
def test_empty_step_to_another_branch_is_no_stranger(step):
    """github.com/pop-os/pop/issues/3549: without it `apt autoremove` would take the driver away."""
    new = "570.172.08-0ubuntu0.22.04.1"
    rest = dict.fromkeys(
        (f"{one}-570-server" for one in ("nvidia-driver", "nvidia-utils", "nvidia-kernel-common")),
        new,
    )
    facts = host(
        {**rest, step: "550.163.01-0ubuntu0.22.04.2"},
        {},
        branch="570",
        loaded="570.172.08",
        module="570.172.08",
    )
    assert other_versions(facts) is None
    assert strangers_of(facts) == ()
    library = host(
        {**rest, "libnvidia-compute-550-server": "550.163.01-0ubuntu0.22.04.2"}, {}, branch="570"
    )
    assert [one.name for one in strangers_of(library)] == ["libnvidia-compute-550-server"]


def test_names_that_only_nvidias_archives_for_debian_have_tell_the_maker():
    assert maker_of("nvidia-kernel-open-dkms", "590.48.01-1", "") == "NVIDIA"
    assert maker_of("nvidia-open-kernel-dkms", "550.163.01-2", "") == ""
    rest = {"nvidia-kernel-open-dkms": "590.48.01-1", "libcuda1": "590.48.01-1"}
    assert home_of(host(rest, {}, branch="590")) == "NVIDIA"


def test_branch_that_does_not_drive_the_gpus_is_not_kept():
    """github.com/anomixer/proxmox-vgpu-installer/issues/29: the hold would block the way out of
    `unsupported GPU`.
    """
    old = host({"cuda-drivers": "595.71.05-1ubuntu1"}, {}, branch="595", generations=("pascal",))
    old.gpus.ours = (
        SimpleNamespace(generation="pascal", slot="", title="pascal", device_id="0x15f8"),
    )
    old.nvidia, old.packaging = SimpleNamespace(gpus=()), Packaging({}, "not in this record")
    assert tell_updates(old) == ("it is of NVIDIA's archive",)


@pytest.mark.parametrize(
    ("branch", "generations", "way"),
    [
        ("590", ("hopper",), "nvidia-driver-pinning-595 && sudo apt-get install nvidia-open\n"),
        ("580", ("hopper",), "nvidia-driver-pinning-580 && sudo apt-get install nvidia-open\n"),
        ("595", ("volta",), "nvidia-driver-pinning-580 && sudo apt-get install cuda-drivers\n"),
        ("590", ("unknown",), "install nvidia-open\n"),
    ],
)
def test_switch_stays_within_nvidias_archive(branch, generations, way):
    assert way in switch_within_archive(
        host(driver(), BOTH, branch=branch, generations=generations)
    )


def test_archive_that_is_neither_is_told_as_what_it_is():
    ppa = host(driver("580.95.05-0ubuntu0~gpu24.04.1"), {})
    assert (
        third_party(ppa)[0]
        == "the driver comes from the graphics-drivers PPA, a test archive that Ubuntu does not support"
    )
    other = host(
        driver("580.95.05-lambda1"), {name: {"580.95.05-lambda1": "Lambda Labs"} for name in DRIVER}
    )
    assert "the archive Lambda Labs" in third_party(other)[0]
    assert third_party(host(driver(NEW), UBUNTU)) is None


@pytest.mark.parametrize(
    ("version", "option"),
    [
        ("396.44", "--no-kernel-module"),
        ("510.68.02", "--no-kernel-module"),
        ("515.43.04", "--no-kernel-modules"),
        ("580.105.08", "--no-kernel-modules"),
    ],
)
def test_the_installer_has_the_option_for_libraries_only_under_the_name_of_its_version(
    version, option
):
    assert libraries_only(version) == option
