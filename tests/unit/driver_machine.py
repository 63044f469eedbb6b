"""Machines for tests of the driver: facts that are given, and a note whether `ubuntu-drivers` was
asked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from types import SimpleNamespace

import pytest

from hosttune.choices.drivers.choice import DEFAULTS
from hosttune.facts.apt_get import Transaction
from hosttune.facts.base import UnknownFact, make_unread
from hosttune.facts.gpu.archives import Offer
from hosttune.facts.gpu.branch_table import own_table
from hosttune.facts.gpu.branches import Branches
from hosttune.facts.gpu.candidates import Candidate, Candidates
from hosttune.facts.gpu.components import Components
from hosttune.facts.gpu.driver import Driver, DriverPackage, branch_and_flavour, is_driver_package
from hosttune.facts.gpu.gpus import Gpu, Gpus
from hosttune.facts.gpu.nvidia_tables import generation_of
from hosttune.facts.gpu.offers import Offers
from hosttune.facts.gpu.packaging import Packaging, parse_show
from hosttune.facts.packages import Packages
from hosttune.values import ABSENT

NOW = 1_795_000_000.0  # November 2026
PARAMS = dict(DEFAULTS)
V100, A100, H100, GTX1080, RTX4090, RTX5090, B200, K80, GH200, NEW, FERMI = (
    "0x1db4", "0x20b2", "0x2330", "0x1b80", "0x2684", "0x2b85", "0x2901", "0x102d", "0x2342", "0x9999", "0x06d1",
)  # fmt: skip
# What an archive of autumn 2026 has; K80 only by DKMS, as 470 has no prebuilt modules left.
BRANCHES = ("470", "535", "580", "595")
FLAVOURS = ("", "-open", "-server", "-server-open")


def gpu(device_id, slot=0, driver="", is_vgpu=False, is_listed=True):
    generation = generation_of(int(device_id, 16))
    return Gpu(
        f"0000:{slot:02x}:00.0",
        device_id,
        "",
        "0x030200",
        generation,
        "",
        driver,
        -1,
        0,
        0,
        "",
        "",
        is_vgpu,
        is_listed,
    )


def candidate(name, modules=None, **more):
    rest = name.removeprefix("nvidia-driver-")
    branch = rest.split("-")[0]
    provider = f"linux-modules-nvidia-{rest}-generic" if modules is None else modules
    flags = {"is_third_party": False, "is_recommended": False} | more
    return Candidate(
        name, int(branch), "-server" in rest, rest.endswith("-open"), modules=provider, **flags
    )


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


def tables(site=()):
    """The package's table, with rows of the site's."""
    rows, as_of, good_until = own_table()
    return Branches({**rows, **{one.number: one for one in site}}, as_of, good_until, {})


def stanza(
    name,
    version,
    ids=(),
    support="",
    section="restricted/libs",
    depends="nvidia-dkms, nvidia-utils",
):
    """What `apt-cache show` prints of a driver package, shortened; `ids` are the PCI devices that
    it drives.
    """
    aliases = ", ".join(
        f"pci:v000010DEd0000{one.removeprefix('0x').upper()}sv*sd*bc03sc*i*" for one in ids
    )
    fields = [
        f"Package: {name}",
        "Priority: optional",
        f"Section: {section}",
        f"Version: {version}",
    ]
    fields += [f"Depends: {depends}", "Description: NVIDIA driver metapackage"]
    fields += [f"Modaliases: nvidia({aliases})"] * bool(ids) + [f"Support: {support}"] * bool(
        support
    )
    return "\n".join(fields) + "\n\n"


def filled(kind, **known):
    """A fact of this class with nothing in the fields that are not known here."""
    nothing = {"str": "", "bool": False, "int": 0}
    missing = {
        one.name: nothing.get(str(one.type), ()) for one in fields(kind) if one.name not in known
    }
    return kind(**missing, **known)


class GivenArchives(SimpleNamespace):
    """Of each installed package one of the `origins`, in turn; none where there are none.
    `packages_there`: name and version of each. Apt has all that a command names, but what is
    `lacking`; None: it was not asked.
    """

    lacking = ()

    def missing(self, operands):
        if self.lacking is None:
            raise UnknownFact("not in this record")
        return tuple(one for one in operands if one.partition("=")[0] in self.lacking)

    def offers_of(self, names):
        if self.lacking is None:
            raise UnknownFact("not in this record")
        new = {
            name: Offer(name, "", "1", "", "NVIDIA") for name in names if name not in self.lacking
        }
        return new | {name: offer for name, offer in self.packages.items() if name in new}

    @property
    def packages(self):
        whose = self.origins or ("",)
        there = enumerate(self.packages_there)
        return {
            name: Offer(name, version, version, whose[n % len(whose)], whose[n % len(whose)])
            for n, (name, version) in there
        }


class Machine(SimpleNamespace):
    """Facts that are given, and a note whether `ubuntu-drivers` was asked."""

    @property
    def candidates(self):
        self.asked = True
        if self.offer is None:
            pytest.fail("ubuntu-drivers must not be asked here")
        return self.offer


def machine(
    devices=(H100,), *, offer=(), problem="", packages=(), loaded=None, runfile=False, switches=0, ubuntu=True,
    kernel="generic", architecture="x86_64", drivers=(), now=NOW, updates=(), is_vgpu=False, profile=False, listed=True, held=(),
    versions=(), cloud="", image="", shown="", site=(), working=(), components=(), modules=(), untold=None, own_modules=True, next_kernel="", at_next=(), pins=(), policy=ABSENT, **more,
):  # fmt: skip
    installed = {"linux-image-" + kernel: "6.8.0.45", "dpkg": "1.22"} | dict.fromkeys(
        packages, "580.95.05-0ubuntu1"
    )
    branch, flavour = branch_and_flavour(installed.items())
    of_driver = tuple(
        DriverPackage(n, v, n in held, "installed")
        for n, v in installed.items()
        if is_driver_package(n)
    )
    bound = list(drivers) + [""] * len(devices)
    devs = tuple(gpu(one, slot, bound[slot], profile, listed) for slot, one in enumerate(devices))
    told = parse_show(shown, {one.slot: one.modalias for one in devs})
    host = {"is_container": False, "is_wsl": False, "is_vm": False} | more
    return Machine(
        asked=False,
        offer=None
        if offer is None
        else Candidates(
            "test", archive() if offer == () and not problem else tuple(offer), problem, False, {}
        ),
        gpus=Gpus(devs, switches, 0),
        branches=tables(site),
        packaging=Packaging(told, "" if told else "not in this record"),
        components=Components(tuple(components)),
        driver=filled(
            Driver,
            loaded_version=("580.95.05" if branch else "") if loaded is None else loaded,
            userspace_version="580.95.05" if branch else "",
            is_open="open" in flavour,
            packages=of_driver,
            branch=branch,
            flavour=flavour,
            has_module_for_running_kernel=bool(branch),
            has_module_for_next_kernel=bool(branch) and not next_kernel,
            nouveau_bound="nouveau" in bound,
            runfile=runfile,
            modules=tuple(modules),
        ),
        reader=SimpleNamespace(
            now=lambda: now, has_tried_packages=False, query=lambda argv, timeout_s: policy
        ),
        apt=SimpleNamespace(
            pins=tuple(pins),
            disabled_sources=(),
            said={},
            sources=(),
            would=defaultdict(lambda: Transaction(())),
        ),
        archives=GivenArchives(
            updates=tuple(updates),
            origins=("Ubuntu",),
            kept_back=(),
            without_origin=(),
            packages_there=[(one.name, one.version) for one in of_driver],
        ),
        nvidia=SimpleNamespace(
            is_vgpu=is_vgpu,
            rejected_key=False,
            refused="",
            no_room=(),
            legacy_branch="",
            needs_open=False,
            not_for_open=False,
            smi="",
            all_lost="",
            gpus=tuple(SimpleNamespace(slot=devs[one].slot) for one in working),
        ),
        gsp_firmware=SimpleNamespace(failures=()),
        offers=Offers(
            {
                name: Offer(name, "", version, "", "Ubuntu")
                for name, version in dict(versions).items()
            },
            make_unread("not in this record")
            if untold is None
            else {name: Offer(name, "", "1", "", "Ubuntu") for name in untold},
            {name: Offer(name, "", "1", "", "Ubuntu") for name in at_next},
        ),
        boot=SimpleNamespace(
            takes_own_modules=own_modules,
            next_kernel=next_kernel,
            secure_boot=False,
            reboot_required=False,
            reboot_packages=(),
        ),
        packages=Packages(
            {name: (version, "install ok installed") for name, version in installed.items()}
        ),
        host=SimpleNamespace(
            cloud=cloud, **{key: host[key] for key in ("is_container", "is_wsl", "is_vm")}
        ),
        role=SimpleNamespace(vendor_image="DGX OS" if host.get("dgx") else image),
        kernel=SimpleNamespace(
            release=f"6.8.0-45-{kernel}", flavour=kernel.split("-hwe")[0], architecture=architecture
        ),
        managers=SimpleNamespace(
            **{key: host.get(key, False) for key in ("gpu_operator", "kubelet", "dgx")}
        ),
        os=SimpleNamespace(
            is_ubuntu=ubuntu, name="Ubuntu 24.04" if ubuntu else "Debian GNU/Linux 12", id="x"
        ),
    )


def compute(full, kernel="generic"):
    base = full.removesuffix("-open")
    return (
        f"nvidia-headless-no-dkms-{full}",
        f"nvidia-utils-{base}",
        f"linux-modules-nvidia-{full}-{kernel}",
    )
