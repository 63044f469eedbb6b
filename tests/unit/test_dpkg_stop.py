"""What stopped dpkg half-way, and the repair of each cause. tests/live types the repairs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.choices import dpkg_stop, next_kernel
from hosttune.choices.dpkg_stop import Cause, find_stop, is_boot_full, repair_of
from hosttune.choices.driver_states import mixed
from hosttune.choices.driver_states.modules import dkms_failed, tell_of_rejected
from hosttune.choices.driver_states.packages import others_broken, tell_of_broken
from hosttune.choices.drivers import install
from hosttune.choices.drivers.choice import DriverChoice
from hosttune.choices.next_kernel import is_compiled
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import parse_policy
from hosttune.facts.gpu.build_log import (
    CRASHED,
    FULL,
    KILLED,
    NEWER_RELEASE,
    NO_HEADERS,
    NO_KEY,
    NO_SOURCES,
    NO_TOOL,
    OLD_COMPILER,
    REALTIME,
    BuildError,
)  # fmt: skip
from hosttune.facts.gpu.driver import DriverPackage, branch_and_flavour
from hosttune.facts.gpu.driver_modules import DkmsBuild, DriverModule
from hosttune.facts.gpu.package_roles import is_driver_package
from hosttune.facts.gpu.packaging import Packaging
from hosttune.facts.gpu.strangers import DriverMember, mixture_of
from hosttune.facts.packages import REPAIR, Packages, parse_held_absent, parse_status
from hosttune.facts.placed import Placed
from hosttune.facts.relations import depends_of, provided_in, starts_in, unmet_of
from tests.unit.driver_machine import NOW, GivenArchives, tables

RUNNING, NEW = "6.8.0-45-generic", "6.8.0-48-generic"
VERSION = "580.142-0ubuntu0.24.04.1"
FAILED = DkmsBuild("nvidia", "580.142", NEW, is_installed=False, failed=True)
BUILT = DkmsBuild("nvidia", "580.142", RUNNING, is_installed=True, failed=False)
HALF, UNPACKED = "half-configured", "unpacked"


def paragraph(name, version=VERSION, state="installed", flag="ok", **fields):
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    return f"Package: {name}\nStatus: install {flag} {state}\nArchitecture: amd64\n{more}Version: {version}\n"


def host(*paragraphs, dkms=(), modules=(), with_module=(RUNNING,), kernels=(RUNNING, NEW), next_kernel=RUNNING, full=False,
         origins=(), ubuntu=True, secure_boot=False, rejected_key=False, loaded="580.142", offered=(), enrolled=False, others=(), orphans=(), said=()):  # fmt: skip
    database = "\n".join(paragraphs).encode()
    packages = Packages(
        parse_status(database), depends={name: depends_of(database, start) for name, start in starts_in(database).items()},
        provided=provided_in(database),
    )  # fmt: skip
    of_driver = tuple(
        DriverPackage(one.name, one.version, False, one.status)
        for one in map(packages.__getitem__, sorted(packages.entries)) if is_driver_package(one.name)
    )  # fmt: skip
    half = [f"{one.name} ({one.status})" for one in of_driver if one.status != "installed"]
    branch, flavour = branch_and_flavour((one.name, one.version) for one in of_driver)
    name = "-".join(filter(None, (branch, flavour)))
    return SimpleNamespace(
        packages=packages,
        driver=SimpleNamespace(
            packages=of_driver, half_way=f"dpkg stopped half-way with {', '.join(half)}" if half else "", dkms=dkms, failed_others=others, dkms_orphans=orphans,
            branch=branch, flavour=flavour, name=name, runfile=False, modules=modules, kernels_with_module=with_module,
            module_for=lambda kernel: next((one for one in modules if one.kernel == kernel), None), is_loaded=bool(loaded),
            is_installed=True, has_module_for_running_kernel=True, has_module_for_next_kernel=True, is_on_disk=True,
            userspace_version="580.142", is_foreign=False, held=(), is_mismatched=False, loaded_version=loaded,
        ),
        kernel=SimpleNamespace(release=RUNNING, architecture="x86_64"), host=SimpleNamespace(cloud=""), os=SimpleNamespace(is_ubuntu=ubuntu, id="ubuntu", version_id="24.04"),
        boot=SimpleNamespace(kernels=kernels, next_kernel=next_kernel, secure_boot=secure_boot, takes_own_modules=enrolled or not secure_boot),
        archives=GivenArchives(origins=origins, packages_there=[(one.name, one.version) for one in of_driver], updates=()),
        boot_room=SimpleNamespace(is_full=full, way_out="sudo apt-get autoremove --purge"),
        gpus=SimpleNamespace(generations=("hopper",), summary="1 x H100", ours=(), unlisted=(), devices=()), candidates=SimpleNamespace(packages=offered, problem="" if offered else "not in this record"),
        nvidia=SimpleNamespace(rejected_key=rejected_key), branches=tables(), reader=SimpleNamespace(now=lambda: NOW, has_tried_packages=False), apt=SimpleNamespace(sources=(), disabled_sources=(), said=dict(said)), packaging=Packaging({}, "not in this record"),
    )  # fmt: skip


COMMON = paragraph("nvidia-kernel-common-580")
DKMS = paragraph("nvidia-dkms-580-open", state=HALF)
DRIVER = paragraph("nvidia-driver-580-open", state=UNPACKED)
META = paragraph("linux-image-generic", "6.8.0-48.48")
MODULE = DriverModule(RUNNING, "updates/dkms/nvidia.ko.zst", "dkms", "580.142", is_open=True)
PREBUILT = "linux-modules-nvidia-580-open"
INSTEAD = (
    f"sudo apt-get update && sudo apt-get install {PREBUILT}-{NEW} {PREBUILT}-{RUNNING} {PREBUILT}-generic "
    "nvidia-dkms-580-open-"
)


@pytest.mark.parametrize(
    "half",
    [
        (DKMS, DRIVER),
        (paragraph("nvidia-dkms-580-open"), paragraph(f"linux-image-{NEW}", "6.8.0-48.48", HALF)),
    ],
    ids=["the driver", "only a kernel"],
)
def test_failed_build_gives_way_to_prebuilt_modules_of_every_kernel_that_needs_one(half):
    facts = host(COMMON, META, *half, dkms=(BUILT, FAILED), modules=(MODULE,))
    stop = find_stop(facts)
    assert stop.cause is Cause.BUILD
    assert stop.repair.startswith(INSTEAD)
    assert FAILED.log in stop.evidence
    assert "dpkg stopped half-way with" in stop.evidence
    assert (tell_of_broken(facts), dkms_failed(facts)) == (None, (stop.evidence, stop.repair))
    assert repair_of(facts) == stop.repair


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/ /",
            "write ubuntu2404 there",
        ),
        ("file:///var/cuda-repo-ubuntu2404-12-4-local /", "install the package cuda-keyring"),
        ("https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/ /", ""),
    ],
)
def test_build_that_failed_leads_to_the_archive_that_has_newer_drivers(source, words):
    """NVIDIA/open-gpu-kernel-modules issue 855, GoogleCloudDataproc/initialization-actions pull
    request 1400. An archive of NVIDIA's without any supported branch is no way out.
    """
    cuda = [paragraph(name, "590.48.01-1ubuntu1", state) for name, state in
            (("nvidia-kernel-common", "installed"), ("nvidia-dkms-open", HALF), ("nvidia-driver-590-open", UNPACKED))]  # fmt: skip
    facts = host(
        *cuda, META, dkms=(FAILED,), ubuntu=False
    )  # Ubuntu's own driver would be the way out before
    facts.os.name = "Ubuntu"
    kinds = (
        "nvidia-open",
        *(
            f"nvidia-{kind}-{branch}"
            for kind in ("driver-pinning", "open")
            for branch in (580, 595)
        ),
    )
    facts.archives.lacking = kinds
    facts.apt.sources = (Placed(source, "/etc/apt/sources.list.d/cuda.list", 1),)
    ways = find_stop(facts).repair.splitlines()
    assert ways[0].startswith(
        "a supported branch, at a maintenance: /etc/apt/sources.list.d/cuda.list:1 has"
    ) is bool(words)
    assert words in ways[0]
    assert any(way.endswith(f"fix what {FAILED.log} names") for way in ways)


def test_driver_of_nvidias_archive_gets_no_module_of_ubuntus():
    cuda = [paragraph(name, "590.48.01-1ubuntu1", state) for name, state in
            (("nvidia-kernel-common", "installed"), ("nvidia-dkms-open", HALF), ("nvidia-driver-590-open", UNPACKED))]  # fmt: skip
    image = (
        paragraph(f"linux-image-{NEW}", "6.8.0-48.48"),
        paragraph(f"linux-headers-{NEW}", "6.8.0-48.48"),
    )
    stop = find_stop(host(*cuda, META, *image, dkms=(FAILED,)))
    remove = f"sudo apt-get remove linux-headers-{NEW} linux-image-{NEW}"
    assert stop.repair == (
        "a supported branch, at a maintenance, from NVIDIA's archive: sudo apt-get update && sudo apt-get install "
        "nvidia-driver-pinning-595 && sudo apt-get install nvidia-open\ndrain the host and reboot\nor "
        f"until the driver builds for it, remove that kernel: {remove}\nor fix what {FAILED.log} names\nsudo dpkg "
        "--configure -a"
    )
    meta = paragraph(
        "linux-image-generic", "6.8.0-48.48", Depends=f"linux-image-{NEW} (= 6.8.0-48.48)"
    )
    takes = find_stop(host(*cuda, meta, *image, dkms=(FAILED,))).repair
    assert (
        f"{remove}\nthat takes linux-image-generic along, which bring later kernels: install them again"
        in takes
    )
    only = find_stop(host(*cuda, META, *image, dkms=(FAILED,), with_module=()))
    assert "remove that kernel" not in only.repair


def test_compiler_that_the_build_lacked_comes_before_any_other_way():
    """Another version of the driver, or an older kernel, would leave it as it is."""
    cuda = [paragraph(name, "590.48.01-1ubuntu1", state) for name, state in
            (("nvidia-kernel-common", "installed"), ("nvidia-dkms-open", HALF), ("nvidia-driver-590-open", UNPACKED))]  # fmt: skip
    stop = find_stop(
        host(
            *cuda,
            META,
            dkms=(replace(FAILED, error=BuildError("error: -f", OLD_COMPILER, "gcc-12")),),
        )
    )
    assert stop.repair == (
        "bring gcc-12, which built the kernel: sudo apt-get install gcc-12\nsudo update-alternatives --install "
        "/usr/bin/gcc gcc /usr/bin/gcc-12 12\nsudo dpkg --configure -a"
    )
    assert "took an older compiler than gcc-12, which built the kernel" in stop.evidence


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        (OLD_COMPILER, "make the compiler that built the kernel /usr/bin/gcc"),
        (CRASHED, "the compiler crashed"),
        (KILLED, "the compiler was killed"),
        (FULL, "make room where it is missing"),
        (NO_TOOL, "bring what builds it: sudo apt-get install "),
        (NO_SOURCES, "bring the kernel's headers: sudo apt-get install linux-headers-"),
        (
            NO_HEADERS,
            "bring the kernel's headers back whole: sudo apt-get install --reinstall linux-headers-",
        ),
        (NEWER_RELEASE, "the headers of "),
        (NO_KEY, "make the key that modules are signed with"),
    ],
)
def test_build_that_failed_as_its_host_is_gets_no_other_version(cause, first):
    """NVIDIA/open-gpu-kernel-modules issue 1128: one version after the other, and the compiler
    crashed.
    """
    cuda = [paragraph(name, "590.48.01-1ubuntu1", state) for name, state in
            (("nvidia-kernel-common", "installed"), ("nvidia-dkms-open", HALF), ("nvidia-driver-590-open", UNPACKED))]  # fmt: skip
    stop = find_stop(
        host(
            *cuda,
            META,
            dkms=(
                replace(
                    FAILED,
                    error=BuildError("error: x", cause, "gcc-13" if cause == NO_TOOL else ""),
                ),
            ),
        )
    )
    assert stop.repair.startswith(first)
    assert stop.repair.endswith("\nsudo dpkg --configure -a")
    assert f"{FAILED.log}: error: x" in stop.evidence
    assert "pinning" not in stop.repair


def test_script_that_asks_for_a_password_is_not_run_again_where_ubuntu_has_signed_modules():
    """Azure/azure-linux-extensions issue 1754: the extension waits for the question of Secure Boot
    for ever.
    """
    stopped = host(COMMON, DKMS, META, secure_boot=True)
    stop = find_stop(stopped)
    assert stop.cause is Cause.OTHER
    assert (
        "no key of this host is enrolled, so that the script of nvidia-dkms-580-open asks"
        in stop.evidence
    )
    lines = stop.repair.splitlines()
    assert lines[1].endswith(" nvidia-dkms-580-open-")
    assert lines[2].startswith(
        "or answer, with a console at the next boot: sudo dpkg --configure -a"
    )


@pytest.mark.parametrize(
    "more", [{}, {"secure_boot": True, "enrolled": True}, {"secure_boot": True, "ubuntu": False}]
)
def test_script_of_dkms_that_asks_nothing_gets_the_generic_repair(more):
    assert find_stop(host(COMMON, DKMS, META, **more)).repair == REPAIR


def test_half_configured_dkms_package_counts_as_here():
    assert is_compiled(host(COMMON, DKMS))


def test_interruption_without_a_cause_gets_the_generic_repair():
    facts = host(COMMON, paragraph("nvidia-utils-580", state=UNPACKED))
    assert find_stop(facts).cause is Cause.OTHER
    assert tell_of_broken(facts)[1] == REPAIR


def test_build_that_failed_for_no_half_way_package_stops_nothing():
    facts = host(
        COMMON,
        paragraph("nvidia-dkms-580-open"),
        paragraph("vim", state=HALF),
        dkms=(BUILT, FAILED),
    )
    assert find_stop(facts) is None


@pytest.mark.parametrize(
    "waits",
    [
        paragraph(f"linux-image-{NEW}", state=HALF),
        paragraph("initramfs-tools", state="triggers-pending"),
    ],
)
def test_full_boot_is_the_cause_that_leads(waits):
    stop = find_stop(host(COMMON, waits, full=True, dkms=(FAILED,)))
    assert stop.cause is Cause.BOOT
    assert stop.repair == f"sudo apt-get autoremove --purge\n{REPAIR}"


def test_room_on_boot_that_is_not_known_is_no_cause():
    facts = host(COMMON)
    assert not is_boot_full(facts)

    class Unread:
        @property
        def is_full(self):
            raise UnknownFact("not read")

    facts.boot_room = Unread()
    assert not is_boot_full(facts)


NVIDIA, UBUNTU = "590.48.01-1ubuntu1", "590.48.01-0ubuntu0.24.04.1"
CUDA = [paragraph("libnvidia-compute", NVIDIA), paragraph("nvidia-dkms-open", NVIDIA, UNPACKED)]
THEIRS = paragraph("nvidia-firmware-590-590.48.01", UBUNTU)


@pytest.mark.parametrize(
    "coming",
    [
        (paragraph("nvidia-firmware", NVIDIA, "half-installed", "reinstreq"),),
        (
            paragraph(
                "nvidia-kernel-common", NVIDIA, UNPACKED, Depends=f"nvidia-firmware (= {NVIDIA})"
            ),
        ),
    ],
    ids=["half-installed", "missed by another"],
)
def test_of_two_packages_with_one_file_the_one_goes_that_is_packaged_otherwise(coming):
    stop = find_stop(host(*CUDA, THEIRS, *coming))
    assert stop.cause is Cause.FILES
    assert (
        stop.repair
        == "sudo dpkg --remove --force-depends nvidia-firmware-590-590.48.01; sudo apt-get -f install"
    )


def test_interrupted_switch_between_branches_is_no_conflict_of_files():
    coming = paragraph(
        "nvidia-utils-595-server", "595.58.03-0ubuntu1", "half-installed", "reinstreq"
    )
    assert find_stop(host(paragraph("nvidia-utils-580-server"), coming)).cause is Cause.OTHER


def test_package_that_comes_goes_where_the_rest_is_of_the_other_archive():
    ubuntu = [
        paragraph(name, UBUNTU)
        for name in ("nvidia-utils-590", "libnvidia-compute-590", "nvidia-kernel-common-590")
    ]
    coming = paragraph("nvidia-firmware", NVIDIA, "half-installed", "reinstreq")
    stop = find_stop(host(*ubuntu, THEIRS, coming))
    force = "--force-depends --force-remove-reinstreq"
    assert stop.repair == f"sudo dpkg --remove {force} nvidia-firmware; sudo apt-get -f install"


@pytest.mark.parametrize(
    ("dkms", "modules", "way"),
    [
        ((FAILED,), (), "sudo dkms remove nvidia/580.142 --all, as no kernel"),
        (
            (FAILED, BUILT),
            (MODULE,),
            f"sudo dkms remove nvidia/580.142 -k {NEW}, which has a prebuilt module",
        ),
    ],
    ids=["no module of it", "the running kernel has its module"],
)
def test_all_builds_go_only_while_no_kernel_uses_one(dkms, modules, way):
    facts = host(COMMON, paragraph(f"{PREBUILT}-{NEW}", "6.8.0-48.48"), dkms=dkms, modules=modules)
    assert dkms_failed(facts)[1].startswith(way)


def test_prebuilt_is_said_only_where_a_prebuilt_module_is():
    said = dkms_failed(
        host(
            COMMON, paragraph("nvidia-dkms-580-open"), META, dkms=(FAILED, BUILT), modules=(MODULE,)
        )
    )[1]
    assert "dkms remove" not in said
    assert said.startswith(INSTEAD)


@pytest.mark.parametrize("log", [True, False], ids=["the kernel refused it", "Secure Boot is on"])
@pytest.mark.parametrize("known", [True, False], ids=["DKMS knows it", "DKMS knows nothing"])
def test_leftover_before_the_prebuilt_module_goes_and_no_package_does(log, known):
    here = [
        paragraph(f"{PREBUILT}-{RUNNING}"),
        paragraph("nvidia-headless-no-dkms-580-open"),
        COMMON,
    ]
    facts = host(
        *here,
        dkms=(BUILT,) if known else (),
        modules=(MODULE,),
        loaded="",
        secure_boot=not log,
        rejected_key=log,
    )
    said, way = tell_of_rejected(facts)
    assert "updates/dkms/nvidia.ko.zst belongs to no package" in said
    assert not any(word.endswith("-") for word in way.split())
    remove = f"sudo dkms remove nvidia/580.142 -k {RUNNING}"
    move = f"sudo find /lib/modules/{RUNNING}/updates/dkms -regex"
    assert (remove in way, move in way) == (known, not known)
    assert way.endswith("sudo modprobe nvidia")


def test_kernel_that_has_a_module_is_booted_where_the_build_for_the_running_one_failed():
    facts = host(
        paragraph("nvidia-dkms-580", state="half-configured"), paragraph(f"linux-image-{RUNNING}"),
        dkms=(DkmsBuild("nvidia", "580.142", RUNNING, is_installed=False, failed=True),), with_module=(NEW,), loaded="",
        ubuntu=False, origins=("NVIDIA",),
    )  # fmt: skip
    assert find_stop(facts).repair.startswith(
        f"boot {NEW}, which has a module, and remove {RUNNING} there: sudo apt-get remove linux-image-{RUNNING}\nsudo dpkg"
    )


@pytest.mark.parametrize(("versions", "leads"), [({"570.133-1": "NVIDIA"}, True), ({}, False)])
def test_version_that_was_built_here_comes_back_with_all_of_its_source(versions, leads):
    facts = host(
        paragraph("nvidia-kernel-open-dkms", "580.142-1", state="half-configured"), paragraph("libcuda1", "580.142-1"),
        dkms=(DkmsBuild("nvidia", "580.142", RUNNING, is_installed=False, failed=True),), loaded="570.133", ubuntu=False,
    )  # fmt: skip
    facts.driver.is_mismatched = True
    offers = {
        "nvidia-kernel-open-dkms": SimpleNamespace(versions=versions, installed_from="NVIDIA")
    }
    facts.archives = SimpleNamespace(packages=offers, updates=(), origins=("NVIDIA",))
    back = "back to 570.133, which was built here: sudo apt-get update && sudo apt-get install --allow-downgrades libcuda1=570.133-1"
    repair = find_stop(facts).repair
    assert repair.startswith(back) is leads
    # The next upgrade brings the version that does not build again.
    assert ("-1 && sudo apt-mark hold libcuda1 nvidia-kernel-open-dkms" in repair) is leads


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"575.51.03-1": "NVIDIA", "570.133.20-1": "NVIDIA", "570.124.06-1": "NVIDIA", "595.1-1": "NVIDIA"},
         "the earlier 570.133.20 may build: sudo apt-get update && sudo apt-get install --allow-downgrades libcuda1=570.133.20-1 nvidia-k"),
        ({"575.51.03-1": "NVIDIA"}, "bring a newer release of branch 575 from where this one came, or a kernel that"),
    ],
)  # fmt: skip
def test_driver_that_builds_for_no_kernel_here_has_another_way_than_its_log(versions, words):
    """NVIDIA/open-gpu-kernel-modules issue 855 (570.133.20 did build), pop-os/beta issue 310 (no
    other version).
    """
    error = BuildError("error: 'struct drm_device' has no member named 'irq_enabled'")
    failed = DkmsBuild("nvidia", "575.51.03", RUNNING, is_installed=False, failed=True, error=error)
    facts = host(
        paragraph("nvidia-kernel-open-dkms", "575.51.03-1", state=HALF), paragraph("libcuda1", "575.51.03-1"),
        dkms=(failed,), loaded="", ubuntu=False, with_module=(),
    )  # fmt: skip
    offers = {
        "nvidia-kernel-open-dkms": SimpleNamespace(versions=versions, installed_from="Debian")
    }
    facts.archives = SimpleNamespace(packages=offers, updates=(), origins=("Debian",))
    repair = find_stop(facts).repair
    assert repair.startswith(words)
    assert repair.endswith(f"or fix what {failed.log} names\nsudo dpkg --configure -a")


def test_other_module_that_does_not_build_for_the_same_kernel_is_named_too():
    """pop-os/system76-driver issue 325: with the driver's log solved, `dpkg --configure -a` ends at
    the next module.
    """
    other = DkmsBuild("system76", "1.0.17", NEW, is_installed=False, failed=True)
    kernel = paragraph(f"linux-image-{NEW}", "6.8.0-48.48", HALF)
    stop = find_stop(
        host(paragraph("nvidia-dkms-580-open"), kernel, dkms=(BUILT, FAILED), others=(other,))
    )
    assert stop.evidence.endswith(f"; nor could it build system76 1.0.17 ({other.log})")
    assert f"\nfix what {other.log} names, too\nsudo dpkg --configure -a" in stop.repair


class CountedPackages(Packages):
    """Counts how often the list of what is installed is made anew."""

    made = 0

    @property
    def brought(self):
        type(self).made += 1
        return super().brought


def test_work_grows_with_the_packages_and_not_with_their_square(monkeypatch):
    """An upgrade that stopped leaves hundreds of packages unpacked."""
    counts = []
    for size in (10, 40):
        facts = host(
            COMMON,
            DRIVER,
            *(paragraph(f"libnvidia-x{n}-580", state=UNPACKED) for n in range(size)),
            dkms=(FAILED,),
        )
        facts.packages = CountedPackages(
            facts.packages.entries, depends=facts.packages.depends, provided=facts.packages.provided
        )
        monkeypatch.setattr(CountedPackages, "made", 0)
        find_stop(facts)
        counts.append(CountedPackages.made)
    assert counts[0] == counts[1] > 0


def test_packages_are_not_gone_through_again_for_each_broken_one(monkeypatch):
    """An interrupted upgrade may have left hundreds half-way; a record any number."""
    parsed = []
    for module in (dpkg_stop, next_kernel):
        for name in ("role_of", "parse_package"):
            made = getattr(module, name, None)
            if made:
                monkeypatch.setattr(
                    module, name, lambda name, made=made: parsed.append(1) or made(name)
                )
    facts = host(*(paragraph(f"nvidia-part{n}x-580", state="unpacked") for n in range(300)))
    assert find_stop(facts).cause is Cause.OTHER
    assert len(parsed) < 10 * 300


def test_members_of_a_driver_are_compared_by_name(monkeypatch):
    compared = []
    equal = DriverMember.__eq__
    monkeypatch.setattr(
        DriverMember, "__eq__", lambda one, other: compared.append(1) or equal(one, other)
    )
    facts = host(
        *(paragraph(f"nvidia-part{n}x-580", version=f"580.{n % 9}.{n}-1") for n in range(200))
    )
    mix = mixture_of(facts)
    assert len(mix.own) + len(mix.strangers) == len(mix.members) == 200
    assert len(compared) < 200


def test_name_that_is_an_option_is_no_package_and_comes_into_no_command():
    """A record or an image may name a package so that apt runs what it says (apt-get(8), -o and
    -c).
    """
    text = (
        paragraph("-oDPkg::Pre-Invoke::=x-dkms", state="half-configured")
        + "\n"
        + paragraph("nvidia-utils-580", Depends="-c/tmp/x, libgone")
    )
    assert list(parse_status(text.encode())) == ["nvidia-utils-580"]
    assert (
        parse_held_absent(b"Package: -c/tmp/x\nStatus: hold ok not-installed\n\nPackage: a\n\n")
        == ()
    )
    assert unmet_of(host(text).packages, "nvidia-utils-580") == ("libgone",)
    policy = "-c/tmp/x:\n  Installed: 1\n  Candidate: 2\n  Version table:\n     2 500\n        500 http://h x\n"
    assert not parse_policy(policy, {})


PVE, OLD_PVE = "6.17.13-2-pve", "6.14.11-5-pve"


def on_proxmox(*more):
    facts = host(
        paragraph("nvidia-open-kernel-dkms", "550.163.01-2", HALF),
        *(paragraph(f"proxmox-kernel-{one}-signed", "1") for one in (PVE, OLD_PVE)),
        *more,
        dkms=(DkmsBuild("nvidia-current-open", "550.163.01", PVE, is_installed=False, failed=True),),
        with_module=(OLD_PVE,), kernels=(PVE, OLD_PVE), next_kernel=PVE, ubuntu=False, loaded="",
    )  # fmt: skip
    facts.kernel.release = PVE
    return facts


def test_kernel_of_proxmox_loses_its_headers_and_stays():
    """With proxmox-kernel-... goes proxmox-ve, which depends on it."""
    repair = find_stop(on_proxmox(paragraph(f"proxmox-headers-{PVE}", "1"))).repair
    assert repair.startswith(
        f"sudo proxmox-boot-tool kernel pin {OLD_PVE}, boot {OLD_PVE}, which has a module, and remove the headers of "
        f"{PVE} there: sudo apt-get remove proxmox-headers-{PVE}\nsudo dpkg --configure -a"
    )
    assert "proxmox-kernel" not in repair


def test_kernel_of_no_known_package_is_not_removed():
    repair = find_stop(on_proxmox()).repair
    assert repair.startswith(f"boot {OLD_PVE}, which has a module\nor fix what")
    assert "apt-get remove" not in repair


XANMOD = "6.18.18-x64v3-xanmod1"
OF_XANMOD = tuple(paragraph(f"linux-{one}-{XANMOD}", "1") for one in ("headers", "image"))


def on_kernel(kernel, *more, running=RUNNING, error=None, **given):
    failed = replace(FAILED, kernel=kernel, error=error or FAILED.error)
    facts = host(DKMS, DRIVER, *more, dkms=(failed,), origins=("NVIDIA",), **given)
    facts.kernel.release = running
    return facts


def test_kernel_of_another_archive_gives_way_to_ubuntus_before_its_log_is_to_be_solved():
    """xanmod/linux issue 292: the next kernel; the running one is Ubuntu's and has a module."""
    repair = find_stop(
        on_kernel(XANMOD, *OF_XANMOD, kernels=(RUNNING, XANMOD), next_kernel=XANMOD)
    ).repair
    assert repair.startswith(
        f"{XANMOD} is not a kernel of Ubuntu's archive; use {RUNNING}, which has a module: sudo apt-get remove "
        f"linux-headers-{XANMOD} linux-image-{XANMOD}\nor fix what"
    )


def test_running_kernel_of_another_archive_stays_where_it_has_a_module():
    """damentz/liquorix-package issue 185: only the newer of two kernels of that archive has no
    module.
    """
    older = "6.17.9-x64v3-xanmod1"
    facts = on_kernel(
        XANMOD,
        *OF_XANMOD,
        running=older,
        kernels=(older, XANMOD),
        with_module=(older,),
        next_kernel=XANMOD,
    )
    assert find_stop(facts).repair.startswith(
        f"{XANMOD} is not a kernel of Ubuntu's archive; use {older}, which has a module: sudo apt-get remove "
        f"linux-headers-{XANMOD} linux-image-{XANMOD}\nor fix what"
    )


@pytest.mark.parametrize(
    ("cloud", "ubuntu", "metas"),
    [
        ("", True, "linux-image-generic linux-headers-generic"),
        ("aws", True, "linux-image-aws linux-headers-aws"),
        ("oracle", True, "linux-image-oracle linux-headers-oracle"),
        ("", False, "linux-image-amd64 linux-headers-amd64"),
    ],
)
def test_running_kernel_of_another_archive_leads_to_an_own_one(cloud, ubuntu, metas):
    """M-Bab/linux-kernel-amdgpu-binaries issue 101: no other kernel is here."""
    facts = on_kernel(
        XANMOD,
        *OF_XANMOD,
        running=XANMOD,
        kernels=(XANMOD,),
        with_module=(),
        loaded="",
        ubuntu=ubuntu,
    )
    facts.host.cloud = cloud
    repair = find_stop(facts).repair
    assert (
        f"sudo apt-get update && sudo apt-get install {metas} linux-headers-{XANMOD}-\nboot that kernel"
        in repair
    )
    assert (
        f"and remove {XANMOD} there: sudo apt-get remove linux-image-{XANMOD}\nor fix what"
        in repair
    )
    facts.archives.lacking = tuple(metas.split())
    assert "no kernel of" not in find_stop(facts).repair


@pytest.mark.parametrize(
    "kernel",
    [
        NEW,
        "6.1.0-28-amd64",
        "6.12.48+deb13-cloud-amd64",
        "6.1.0-0.deb11.13-amd64",
        "6.12.22-amd64",
        PVE,
    ],
)
def test_kernel_of_a_distribution_is_not_replaced(kernel):
    assert "no kernel of" not in find_stop(on_kernel(kernel, kernels=(RUNNING, kernel))).repair


@pytest.mark.parametrize(
    "kernel",
    ["6.11.0-061100-generic", "6.13.0-061300rc5-generic", "7.1.3-4-liquorix-amd64", "6.8.0"],
)
def test_kernel_that_no_package_brought_is_not_of_ubuntu(kernel):
    repair = find_stop(on_kernel(kernel, kernels=(RUNNING, kernel))).repair
    assert (
        f"{kernel} is not a kernel of Ubuntu's archive; use {RUNNING}, which has a module\nlet {RUNNING} boot"
        in repair
    )


def test_compiler_of_another_kernel_leads_and_headers_of_a_newer_release_do_not():
    repair = find_stop(
        on_kernel(XANMOD, *OF_XANMOD, error=BuildError("error: -f", OLD_COMPILER, "gcc-16"))
    ).repair
    assert repair.startswith("bring gcc-16") and f"\nor {XANMOD} is not a kernel of" in repair  # noqa: PT018 - one sentence
    repair = find_stop(
        on_kernel(XANMOD, *OF_XANMOD, error=BuildError("libc.so.6", NEWER_RELEASE))
    ).repair
    assert repair.startswith(f"{XANMOD} is not a kernel of")


def test_proxmoxs_kernel_of_no_other_with_a_module_leads_to_its_default_one():
    def repair(*more):
        facts = on_proxmox(*more)
        facts.driver.kernels_with_module = ()
        return find_stop(facts).repair

    assert (
        "install proxmox-default-kernel proxmox-default-headers\nboot it: sudo proxmox-boot-tool"
        in repair()
    )
    default = paragraph("proxmox-default-kernel", "1", Depends="proxmox-kernel-6.14")
    assert "take Proxmox VE's default kernel" in repair(default)
    default = paragraph("proxmox-default-kernel", "1", Depends="proxmox-kernel-6.17")
    assert "take Proxmox VE's default kernel" not in repair(default)


class Everything:
    def __contains__(self, name):
        return True


def test_driver_whose_branch_is_over_in_nvidias_archive_gives_way_to_ubuntus(monkeypatch):
    new = ("nvidia-headless-no-dkms-535-server", "linux-modules-nvidia-535-server-generic")
    old = [paragraph(name, "510.39.01-0ubuntu1", state) for name, state in
           (("libnvidia-compute-510", "installed"), ("nvidia-dkms-510", HALF), ("nvidia-kernel-common-510", "installed"), ("nvidia-modprobe", "installed"))]  # fmt: skip
    facts = host(
        *old,
        META,
        dkms=(replace(FAILED, version="510.39.01"),),
        origins=("NVIDIA",),
        with_module=(),
    )
    choices = {
        "install": DriverChoice("install", new, (), "535", "server"),
        "refuse": DriverChoice("refuse", (), ()),
    }
    for action, is_named in (("install", True), ("refuse", False)):
        monkeypatch.setattr(install, "choose_install", lambda *_, action=action: choices[action])
        facts.archives.lacking = Everything()
        assert (
            find_stop(facts).repair.startswith(
                "Ubuntu's 535-server, which is prebuilt: sudo apt-get update && sudo apt-get install "
                f"{' '.join(new)} libnvidia-compute-510- nvidia-dkms-510- nvidia-kernel-common-510-\nor "
            )
            is is_named
        )
        facts.archives.lacking = ()  # then NVIDIA's archive has a supported branch
        assert "Ubuntu's" not in find_stop(facts).repair


FORMER = "nvidia-firmware-580-580.142"
SERVERS = ("nvidia-driver-580-server", "libnvidia-compute-580-server")


def test_firmware_of_the_former_series_goes_from_a_switch_that_stopped():
    needs = paragraph(
        "nvidia-kernel-common-580-server",
        state=UNPACKED,
        Depends="nvidia-firmware-580-server-580.142",
    )
    stop = find_stop(
        host(paragraph(FORMER), needs, *(paragraph(name, state=UNPACKED) for name in SERVERS))
    )
    assert stop.cause is Cause.FILES
    assert stop.repair == f"sudo dpkg --remove --force-depends {FORMER}; sudo apt-get -f install"


def test_firmware_that_the_driver_needs_stays():
    common = paragraph("nvidia-kernel-common-580", Depends=FORMER)
    coming = paragraph(
        "nvidia-firmware-580-server-580.142", state="half-installed", flag="reinstreq"
    )
    stop = find_stop(host(paragraph(FORMER), common, coming))
    assert stop.cause is Cause.FILES
    assert "nvidia-firmware-580-server-580.142" in stop.repair
    assert f" {FORMER}" not in stop.repair


def test_firmware_of_another_version_has_other_files():
    needs = paragraph(
        "nvidia-kernel-common-580", state=UNPACKED, Depends="nvidia-firmware-580-580.150"
    )
    assert find_stop(host(paragraph(FORMER), needs)).cause is Cause.OTHER


def test_half_way_packages_of_another_version_go_to_the_version_of_the_rest():
    newer = "580.150-0ubuntu1"
    needs = {"Depends": "nvidia-kernel-common-580 (>= 580.150)"}
    half = (
        paragraph("nvidia-dkms-580", newer, UNPACKED, **needs),
        paragraph("nvidia-driver-580", newer, UNPACKED, **needs),
    )
    rest = [
        paragraph(f"{name}-580")
        for name in ("nvidia-kernel-common", "libnvidia-compute", "nvidia-utils")
    ]
    facts = host(*rest, *half)
    stop = find_stop(facts)
    assert stop.cause is Cause.VERSIONS
    assert "dpkg --configure" not in stop.repair
    assert "the driver is a mix of two versions: nvidia-dkms-580 580.150-0ubuntu1" in stop.evidence
    assert mixed.other_versions(facts)[1] == "what solves `broken packages` does this too"
    alone = host(*rest, paragraph("nvidia-dkms-580", newer, UNPACKED, Depends="dkms (>= 3)"))
    assert find_stop(alone).cause is Cause.OTHER


REALTIME_KERNEL = "6.8.1-1015-realtime"
OF_REALTIME = tuple(
    paragraph(f"linux-{one}-{REALTIME_KERNEL}", "1") for one in ("headers", "image")
)
NO_REALTIME = BuildError("Failed PREEMPT_RT sanity check. Bailing out!", REALTIME)


def test_real_time_kernel_gives_way_to_another_one_of_ubuntu():
    """NVIDIA/open-gpu-kernel-modules issue 1240: no release of the driver builds for one."""
    facts = on_kernel(
        REALTIME_KERNEL, *OF_REALTIME, running=REALTIME_KERNEL, error=NO_REALTIME,
        kernels=(RUNNING, REALTIME_KERNEL), with_module=(), loaded="",
    )  # fmt: skip
    lines = find_stop(facts).repair.splitlines()
    unfit = (
        f"NVIDIA's driver is not made for {REALTIME_KERNEL}, a real-time kernel; use {RUNNING}: "
    )
    assert lines[0].startswith(unfit)
    assert lines[0].endswith(f" linux-headers-{RUNNING} linux-headers-{REALTIME_KERNEL}-")
    assert lines[1].endswith(f"sudo apt-get remove linux-image-{REALTIME_KERNEL}")
    assert "make.log" not in "".join(lines)


@pytest.mark.parametrize("of_driver", [True, False], ids=["with the driver", "only kernels"])
def test_module_without_source_is_taken_away_before_a_kernel_is_configured_again(of_driver):
    """pop-os/system76-driver issue 336: `dkms autoinstall` of a kernel's script ends there."""
    broken = (paragraph(f"linux-image-{NEW}", "6.8.0-48.48", HALF), *((DKMS,) if of_driver else ()))
    facts = host(COMMON, META, *broken, orphans=("system76/1.0.18",), said=[("linux-image", "x")])
    repair = find_stop(facts).repair if of_driver else others_broken(facts)[1]
    first, then = repair.splitlines()
    assert first.endswith("sudo mv /var/lib/dkms/system76/1.0.18 /root/dkms-system76-1.0.18")
    assert then == REPAIR


def test_script_that_misses_a_python_module_gets_the_python_of_the_release():
    """NVIDIA/nvidia-installer issue 17."""
    python = paragraph("python3", "3.12.3-0ubuntu2", Depends="python3.12 (>= 3.12.3-0~), x")
    words = "ModuleNotFoundError: No module named 'Quirks'"
    stop = find_stop(host(COMMON, DKMS, META, python, said=[("nvidia-dkms-580-open", words)]))
    link = "sudo ln -sf python3.12 /usr/bin/python3"
    first = f"if /usr/bin/python3 is not python3.12 (ls -l /usr/bin/python3), link it: {link}"
    assert stop.repair == f"{first}\n{REPAIR}"


def test_what_dpkg_printed_of_a_half_way_package_is_said_before_it_is_configured_again():
    words = "adduser: The user `nvidia-persistenced' already exists, but is not a system user."
    stop = find_stop(
        host(COMMON, DKMS, META, said=[("nvidia-dkms-580-open", words), ("other", "x")])
    )
    assert stop.evidence.endswith(
        f"; the last run of dpkg for nvidia-dkms-580-open ended with: {words}"
    )
    assert (
        stop.repair
        == f"solve that (all of it: /var/log/apt/term.log), as dpkg does the same again\n{REPAIR}"
    )
    waiting = paragraph("xorg-x", "1", UNPACKED, Depends="xlibre (>= 1)")
    text, _ = others_broken(
        host(waiting, said=[("xlibre", "trying to overwrite '/x', which is also in package y")])
    )
    assert "the last run of dpkg for xlibre ended with: trying to overwrite '/x'" in text
