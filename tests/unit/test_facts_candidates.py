"""What `ubuntu-drivers` offers, in every format that it has had, and what it says when it offers
nothing.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.archives import POLICY
from hosttune.facts.gpu.candidates import (
    DEVICES,
    LIST,
    OLD_LIST,
    SEE,
    describe_refusal,
    merge,
    parse_devices,
)
from hosttune.facts.gpu.packaging import QUERY as SHOW
from hosttune.host.door import Completed
from hosttune.host.reading.ubuntu_drivers import parse_list, parse_sections
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

GPU = """== /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 ==
modalias : pci:v000010DEd00002684sv000010DEsd000016F3bc03sc00i00
vendor   : NVIDIA Corporation
model    : AD102 [GeForce RTX 4090]
driver   : nvidia-driver-580-server-open - distro non-free
driver   : nvidia-driver-595-open - distro non-free recommended
driver   : nvidia-driver-580 - distro non-free
driver   : nvidia-driver-600-open - third-party non-free
driver   : xserver-xorg-video-nouveau - distro free builtin

"""
# 14.04 and 16.04: fields in any order, names without `driver`, and a PPA that was called free.
OLD = """== /sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0 ==
vendor   : NVIDIA Corporation
modalias : pci:v000010DEd00001024sv000010DEsd00000983bc03sc02i00
driver   : nvidia-387 - third-party free recommended
driver   : xserver-xorg-video-nouveau - distro free builtin
"""
PLUGIN = "== cpu-microcode.py ==\ndriver   : intel-microcode - distro free\n\n"
WIFI = """== /sys/devices/pci0000:00/0000:00:1c.0/0000:03:00.0 ==
modalias : pci:v000014E4d000043A0sv0000106Bsd00000117bc02sc80i00
vendor   : Broadcom Inc. and subsidiaries
model    : BCM4360 802.11ac Dual Band Wireless Network Adapter
manual_install: True
driver   : broadcom-sta-dkms - distro non-free

"""
LISTED = """nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)
nvidia-driver-595-open, (kernel modules provided by linux-modules-nvidia-595-open-generic)
nvidia-driver-580, (kernel modules provided by nvidia-dkms-580)
nvidia-driver-600-open
"""
NOISE = (
    "udevadm hwdb is deprecated. Use systemd-hwdb instead.\nERROR:root:aplay command not found\n"
)
LISTS = {
    "/var/lib/apt/lists/archive.ubuntu.com_ubuntu_dists_noble_restricted_binary-amd64_Packages": ""
}
UBUNTU = {"/etc/os-release": 'ID=ubuntu\nNAME=Ubuntu\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'}
ONE_GPU = {"/var/lib/dpkg/status": ""} | {f"/sys/bus/pci/devices/0000:1b:00.0/{name}": f"{value}\n" for name, value in
           {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"}.items()}  # fmt: skip
DEBIAN = {"/etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'}


def candidates_of(queries, files=None, **more):
    return Facts(
        FakeReader(LISTS | UBUNTU if files is None else files, queries=queries, **more)
    ).candidates


def names(found):
    return [candidate.name for candidate in found]


def test_parse_devices_tells_flavour_origin_and_recommendation():
    found = {candidate.name: candidate for candidate in parse_devices(PLUGIN + GPU)}
    assert sorted(found) == [
        "nvidia-driver-580", "nvidia-driver-580-server-open", "nvidia-driver-595-open", "nvidia-driver-600-open",
    ]  # fmt: skip
    server = found["nvidia-driver-580-server-open"]
    assert (server.branch, server.is_server, server.is_open, server.is_third_party) == (
        580,
        True,
        True,
        False,
    )
    assert [name for name, one in found.items() if one.is_recommended] == ["nvidia-driver-595-open"]
    assert [name for name, one in found.items() if one.is_third_party] == ["nvidia-driver-600-open"]


def test_parse_devices_old_names():
    (found,) = parse_devices(OLD)
    assert (found.name, found.branch, found.is_third_party, found.is_recommended) == (
        "nvidia-387",
        387,
        True,
        True,
    )


@pytest.mark.parametrize("dropped", ["vendor", "model", "modalias"])
def test_parse_devices_without_some_fields(dropped):
    text = "\n".join(line for line in GPU.split("\n") if not line.startswith(dropped))
    assert names(parse_devices(text)) == names(parse_devices(GPU))


def test_parse_sections_tells_devices_apart():
    first, second, third = parse_sections(NOISE + PLUGIN + GPU + WIFI)
    assert (first.device, first.is_nvidia, first.is_manual) == ("cpu-microcode.py", False, False)
    assert (second.is_nvidia, second.is_manual) == (True, False)
    assert (third.is_nvidia, third.is_manual) == (False, True)


def test_parse_sections_on_azure():
    text = GPU.replace(
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0",
        "/sys/devices/LNXSYSTM:00/VMBUS:00/47505500-0001",
    )
    (section,) = parse_sections(text)
    assert section.is_nvidia


def test_parse_list_both_forms():
    assert parse_list(LISTED) == {
        "nvidia-driver-580-server-open": "linux-modules-nvidia-580-server-open-generic",
        "nvidia-driver-595-open": "linux-modules-nvidia-595-open-generic",
        "nvidia-driver-580": "nvidia-dkms-580",
        "nvidia-driver-600-open": "",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "This is gpgpu mode\n",
        "Your kernel is out of date. Please reboot.\n",
        "broadcom-sta-dkms\nopen-vm-tools-desktop\n",
    ],
)
def test_parse_list_takes_no_other_words(text):
    assert parse_list(text) == {}


def test_parse_list_after_the_old_global_option():
    assert parse_list("This is gpgpu mode\n" + LISTED) == parse_list(LISTED)


def test_merge_joins_modules_and_marks_dkms():
    found = {one.name: one for one in merge(parse_devices(GPU), parse_list(LISTED))}
    assert found["nvidia-driver-580"].needs_dkms
    assert not found["nvidia-driver-595-open"].needs_dkms
    assert found["nvidia-driver-595-open"].is_recommended
    assert found["nvidia-driver-600-open"].modules == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Completed(0, GPU.encode(), NOISE.encode()), ""),
        (Completed(0, b"", b""), ""),
        (Completed(0, b"", NOISE.encode()), ""),
        (Completed(0, NOISE.encode(), b""), ""),
        (
            Completed(0, b"E:Malformed entry 1 in list file /etc/apt/sources.list (Suite)\n", b""),
            "E:Malformed entry 1",
        ),
        (
            Completed(
                1,
                b"",
                b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'apt_pkg'\n",
            ),
            "ModuleNotFound",
        ),
        (Completed(1, b"", b""), "exit status 1"),
    ],
)
def test_refusal_is_told_from_answers_and_noise(answer, said):
    assert describe_refusal(answer).startswith(said)
    assert bool(describe_refusal(answer)) is bool(said)


def test_collect_asks_both_and_names_its_source():
    found = candidates_of({DEVICES: Completed(0, GPU.encode(), NOISE.encode()), LIST: LISTED})
    assert found.problem == ""
    assert len(found.packages) == 4
    assert "list --gpgpu" in found.source
    assert not found.is_manual


def test_collect_on_20_04_asks_again_without_the_unknown_option():
    usage = Completed(2, b"", b"Error: no such option: --include-dkms\n")
    found = candidates_of({DEVICES: GPU, LIST: usage, OLD_LIST: LISTED})
    assert {one.name: one.modules for one in found.packages}[
        "nvidia-driver-580"
    ] == "nvidia-dkms-580"


def test_collect_when_list_refuses_keeps_names_without_modules():
    refused = Completed(0, b"", b"The running kernel is not a supported one.\n")
    found = candidates_of({DEVICES: GPU, LIST: refused})
    assert found.problem == ""
    assert {one.modules for one in found.packages} == {""}
    assert "no module packages" in found.source


def test_collect_manual_install_counts_only_on_the_gpu():
    assert not candidates_of({DEVICES: GPU + WIFI, LIST: LISTED}).is_manual
    manual = GPU.replace(
        "driver   : nvidia-driver-580 -", "manual_install: True\ndriver   : nvidia-driver-580 -"
    )
    assert candidates_of({DEVICES: manual, LIST: LISTED}).is_manual


@pytest.mark.parametrize(
    ("files", "queries", "problem"),
    [
        (UBUNTU | LISTS, {}, "sudo apt-get install ubuntu-drivers-common"),
        (DEBIAN, {}, "Ubuntu's own, and this is Debian GNU/Linux 12 (bookworm)"),
        (UBUNTU, {DEVICES: "", LIST: ""}, "package lists are missing: sudo apt-get update"),
        (UBUNTU | LISTS, {DEVICES: "", LIST: ""}, "offers no package for the GPUs"),
        (
            UBUNTU | LISTS,
            {DEVICES: "E:The list of sources could not be read.\n"},
            "gave no list: E:The list of sources",
        ),
        (UBUNTU | LISTS, {DEVICES: PLUGIN + WIFI, LIST: ""}, "offers no package for the GPUs"),
    ],
)
def test_collect_says_what_is_in_the_way(files, queries, problem):
    found = candidates_of(queries, files)
    assert found.packages == ()
    assert problem in found.problem


def test_way_out_names_no_program_that_is_missing():
    """Ubuntu's images for clouds come without it."""
    missing = Facts(FakeReader(UBUNTU | LISTS, queries={})).candidates
    assert missing.way_out == "sudo apt-get update && sudo apt-get install ubuntu-drivers-common"
    assert Facts(FakeReader(UBUNTU | LISTS, queries={DEVICES: ""})).candidates.way_out == SEE


SHOWN = """Package: nvidia-driver-580-server-open
Version: 580.126.20-0ubuntu0.24.04.1
Section: restricted/libs
Modaliases: nvidia(pci:v000010DEd00002330sv*sd*bc03sc*i*)

Package: nvidia-driver-600-open
Version: 600.10-0ubuntu1
Modaliases: nvidia(pci:v000010DEd00002330sv*sd*bc03sc*i*)

Package: nvidia-driver-550-server
Version: 570.211.01-0ubuntu0.24.04.1
Depends: nvidia-driver-570-server
"""
SITES = {
    "archive.ubuntu.com/ubuntu noble-updates/restricted": "Ubuntu",
    "developer.download.nvidia.com/x": "NVIDIA",
}


@pytest.mark.parametrize(
    "queries", [{}, {DEVICES: "", LIST: ""}], ids=["no ubuntu-drivers", "it lists none"]
)
def test_apts_own_lists_are_asked_where_ubuntu_drivers_tells_nothing(queries):
    """canonical/ubuntu-drivers-common issue 105: it offers nothing on a DGX Station whose archive
    has drivers. Images for clouds come without it. An empty step to another branch is no driver.
    """
    releases = "".join(
        f" 500 http://{site} amd64 Packages\n     release o={origin},l={origin}\n"
        for site, origin in SITES.items()
    )
    rows = dict(
        zip(("nvidia-driver-580-server-open", "nvidia-driver-600-open"), SITES, strict=True)
    )
    policy = "".join(
        f"{name}:\n  Installed: (none)\n  Candidate: 1\n  Version table:\n     1 500\n        500 http://{site} amd64 Packages\n"
        for name, site in rows.items()
    )
    apt = {
        SHOW: SHOWN,
        POLICY: f"Package files:\n{releases}Pinned packages:\n",
        (*POLICY, *rows): policy,
    }
    found = candidates_of(queries | apt, UBUNTU | LISTS | ONE_GPU)
    assert found.problem == ""
    assert [(one.name, one.is_third_party) for one in found.packages] == list(
        zip(rows, (False, True), strict=True)
    )
    assert candidates_of(queries | apt, DEBIAN | LISTS | ONE_GPU).packages == ()


def test_collect_without_root_says_that_root_may():
    found = candidates_of(
        {DEVICES: Completed(1, b"", b"must be run as root\n")}, is_privileged=False
    )
    assert "with sudo): must be run as root" in found.problem


def test_collect_timeout_is_unknown_and_says_why_it_is_slow():
    files = UBUNTU | {f"{next(iter(LISTS))}.lz4": ""}
    with pytest.raises(
        UnknownFact, match=r"did not end within 600 s; apt's package lists are compressed"
    ):
        _ = candidates_of(
            {DEVICES: Unreadable("ubuntu-drivers did not end within 600 s")}, files
        ).packages


@given(st.randoms(use_true_random=False), st.sets(st.integers(0, 8)), st.integers(0, len(GPU)))
def test_parsers_bear_shuffled_cut_and_noisy_output(chance: random.Random, dropped, cut):
    head, *rest = GPU.strip().split("\n")
    chance.shuffle(rest)
    kept = [line for number, line in enumerate(rest) if number not in dropped]
    kept.insert(chance.randrange(len(kept) + 1), NOISE.strip())
    whole = set(names(parse_devices(GPU)))
    there = {
        line.split()[2] for line in kept if line.startswith("driver") and "nvidia-driver" in line
    }
    assert set(names(parse_devices("\n".join([head, *kept])))) == there <= whole
    for found in parse_devices(GPU[:cut]):
        assert found.name in whole


@given(st.text(alphabet="nvidia-driver5809 ,()\n=:open serv", max_size=200))
def test_parsers_bear_any_text(text):
    parse_devices(text)
    for name in parse_list(text):
        assert name.startswith("nvidia-")


@pytest.mark.parametrize(
    "provider", ["-oDebug=1", "linux-modules-nvidia-580-generic-", "a=b", "./x.deb"]
)
def test_parse_list_takes_no_option_of_apt_for_a_package(provider):
    assert parse_list(f"nvidia-driver-580-open, (kernel modules provided by {provider})\n") == {}


CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/"
UNREADABLE = "E:The list of sources could not be read."


def test_sources_that_apt_cannot_read_are_named_with_their_lines():
    """Two lines of NVIDIA's archive with two keys: apt and all that asks it end there."""
    said = f"apt_pkg.Error: E:Conflicting values set for option Signed-By regarding source {CUDA} /: a.gpg != , {UNREADABLE}"
    files = {
        "/etc/apt/sources.list.d/cuda.list": f"# old\ndeb {CUDA} /\n",
        "/etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list": f"deb [signed-by=a.gpg] {CUDA} /\n",
        "/etc/apt/sources.list": "deb http://archive.ubuntu.com/ubuntu jammy main\n",
    }
    queries = {DEVICES: Completed(1, b"", f"Traceback (most recent call last):\n{said}\n".encode())}
    way = Facts(FakeReader(files, queries=queries)).candidates.way_out
    assert way.endswith("\nsudo apt-get update")
    assert "the others out: " in way
    assert "cuda.list:2" in way
    assert "cuda-ubuntu2204-x86_64.list:1" in way
    assert "sources.list:1" not in way
    other = {
        DEVICES: Completed(
            1, b"", f"apt_pkg.Error: E:Malformed entry 1 in list file x, {UNREADABLE}\n".encode()
        )
    }
    assert "names the line" in Facts(FakeReader(files, queries=other)).candidates.way_out
    third = {DEVICES: Completed(1, b"", b"AttributeError: x\n")}
    assert Facts(FakeReader(files, queries=third)).candidates.way_out == SEE
