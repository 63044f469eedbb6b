"""What Ubuntu's packages say of themselves: `apt-cache show`, with the fields of Ubuntu's archive
in their order.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.gpu.packaging import QUERY, aliases_in, match_devices, parse_show, parse_stanzas
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordingReader, RecordReader
from hosttune.values import ABSENT, Unreadable
from tests.unit.driver_machine import gpu
from tests.unit.fake_reader import FakeReader

# As the archive had them in November 2026, with the first devices of each list.
SHOWN = """\
Package: nvidia-driver-580-server-open
Source: nvidia-graphics-drivers-580-server
Priority: optional
Section: restricted/libs
Installed-Size: 37
Maintainer: Ubuntu Developers <ubuntu-devel-discuss@lists.ubuntu.com>
Architecture: amd64
Version: 580.178.04-0ubuntu0.24.04.1
Recommends: nvidia-settings, nvidia-prime (>= 0.8), libnvidia-compute-580-server:i386 (= 580.178.04-0ubuntu0.24.04.1)
Depends: libnvidia-gl-580-server (= 580.178.04-0ubuntu0.24.04.1), nvidia-dkms-580-server-open (<= 580.178.04-1)
Homepage: http://www.nvidia.com
Description: NVIDIA driver (open kernel) metapackage
 This metapackage depends on the NVIDIA binary driver and on all of its libraries,
 to provide hardware acceleration.
 .
 Modaliases: nvidia(pci:v000010DEd00009999sv*sd*bc03sc*i*)
Description-md5: 84b3277c5fe4255f5610e752de7946c6
Modaliases: nvidia(pci:v000010DEd00001E02sv*sd*bc03sc*i*, pci:v000010DEd000020B2sv*sd*bc03sc*i*, pci:v000010DEd00002330sv*sd*bc03sc*i*)
Pmaliases: nvidia(pci:v000010DEd00001E02sv0000*sd0000*bc03sc*i*, pci:v000010DEd00001E30sv000010DEsd0000129Ebc03sc*i*)
Prefer-Variant: Open
Support: LTSB
Origin: Ubuntu
Bugs: https://bugs.launchpad.net/ubuntu/+filebug

Package: nvidia-driver-615
Priority: optional
Section: multiverse/oldlibs
Version: 615.71.09-0ubuntu0.24.04.2
Depends: nvidia-driver-615-open
Description: NVIDIA driver metapackage (transitional package)
Origin: Ubuntu

Package: nvidia-driver-615-open
Section: multiverse/libs
Version: 615.71.09-0ubuntu0.24.04.2
Depends: libnvidia-gl-615 (= 615.71.09-0ubuntu0.24.04.2), nvidia-dkms-615-open (<= 615.71.09-1)
Modaliases: nvidia(pci:v000010DEd000020B2sv*sd*bc03sc*i*,
 pci:v000010DEd00002B85sv*sd*bc03sc*i*,
 pci:v000010DEd00002901sv*sd*bc03sc*i*)
Support: NFB

Package: nvidia-driver-550-server
Section: restricted/libs
Version: 550.163.01-0ubuntu0.22.04.2
Depends: nvidia-driver-570-server
Description: NVIDIA Server Driver metapackage

Package: nvidia-fabricmanager-580
Section: multiverse/libs
Version: 580.178.04-0ubuntu0.24.04.1
Replaces: nvidia-fabricmanager
Depends: nvidia-kernel-common-580-server-580.178.04
Description: Fabric Manager for NVSwitch based systems.

Package: nvidia-driver-390
Section: restricted/misc
Version: 390.157-0ubuntu0.22.04.2
Depends: libnvidia-gl-390 (= 390.157-0ubuntu0.22.04.2), nvidia-dkms-390 (<= 390.157-1)
Modaliases: nvidia(pci:v000010DEd000006C0sv*sd*bc03sc*i*)
Support: Legacy

Package: nvidia-driver-pinning-580
Section: multiverse/devel
Version: 580-1ubuntu1
"""
HERE = {
    f"0000:{slot:02x}:00.0": gpu(one, slot).modalias
    for slot, one in enumerate(("0x20b2", "0x2330", "0x2b85"))
}


def test_fields_of_each_package():
    told = parse_show(SHOWN, HERE)
    server, open615 = told["nvidia-driver-580-server-open"], told["nvidia-driver-615-open"]
    assert (server.branch, server.flavour, server.component, server.support) == (
        580, "server-open", "restricted", "LTSB",
    )  # fmt: skip
    assert (server.tells, server.drives) == (True, ("0000:00:00.0", "0000:01:00.0"))
    assert (open615.component, open615.support, open615.drives) == (
        "multiverse", "NFB", ("0000:00:00.0", "0000:02:00.0"),
    )  # fmt: skip
    assert told["nvidia-driver-390"].support == "Legacy"
    assert "nvidia-driver-pinning-580" not in told


@pytest.mark.parametrize(
    ("name", "leads_to"),
    [
        ("nvidia-driver-615", "nvidia-driver-615-open"),
        ("nvidia-driver-550-server", "nvidia-driver-570-server"),
        ("nvidia-driver-615-open", ""),
        ("nvidia-fabricmanager-580", ""),
    ],
)
def test_driver_without_aliases_is_an_empty_step(name, leads_to):
    assert parse_show(SHOWN, HERE)[name].leads_to == leads_to


def test_text_of_a_description_is_no_field():
    (first, *_) = parse_stanzas(SHOWN)
    assert "00009999" not in first["Modaliases"]
    assert first["Support"] == "LTSB"


@pytest.mark.parametrize(
    ("field", "aliases"),
    [
        ("nvidia(pci:a*, pci:b*)", ("pci:a*", "pci:b*")),
        ("nvidia(pci:a*), nvidia_drm(pci:b*)", ("pci:a*", "pci:b*")),
        ("nvidia(pci:a*,pci:b*,)", ("pci:a*", "pci:b*")),
        ("nvidia()", ()),
        ("nvidia", ()),
        ("nvidia(pci:a*", ()),
        ("", ()),
        ("nvidia(" + "x" * 300 + ", pci:b*)", ("pci:b*",)),
    ],
)
def test_aliases_in_a_field(field, aliases):
    assert aliases_in(field) == aliases


@pytest.mark.parametrize(
    ("alias", "fits"),
    [
        ("pci:v000010DEd00002330sv*sd*bc03sc*i*", True),
        ("PCI:V000010DED00002330SV*SD*BC03SC*I*", True),
        ("pci:v000010ded00002330sv000010desd000016c1bc03sc*i*", True),
        ("pci:v000010DEd00002330sv000010DEsd00001234bc03sc*i*", False),
        ("pci:v000010DEd000023[23]0sv*sd*bc03sc*i*", True),
        ("pci:v000010DEd0000233?sv*sd*bc03sc*i*", True),
        ("pci:v000010DEd*sv*sd*bc03sc*i*", True),
        ("*", True),
        ("pci:v000010DEd00002330", False),
        ("pci:v000010DEd00002331sv*sd*bc03sc*i*", False),
    ],
)
def test_aliases_match_as_globs_whatever_the_case(alias, fits):
    device = "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"
    assert match_devices((alias,), {"0000:1b:00.0": device}) == (("0000:1b:00.0",) if fits else ())


def test_first_stanza_of_a_name_counts():
    twice = (
        SHOWN
        + "\nPackage: nvidia-driver-615-open\nVersion: 1\nModaliases: nvidia(pci:x*)\nSupport: PB\n"
    )
    assert parse_show(twice, HERE)["nvidia-driver-615-open"].support == "NFB"


@pytest.mark.parametrize("support", ["", "LTS", "ltsb", "LTSB, PB"])
def test_support_that_nobody_knows_is_not_told(support):
    shown = f"Package: nvidia-driver-640-open\nModaliases: nvidia(pci:x*)\nSupport: {support}\n"
    assert parse_show(shown, {})["nvidia-driver-640-open"].support == ""


def test_huge_fields_are_read():
    """Some megabytes of them; what looks at each pair of aliases would not come to an end."""
    aliases = ", ".join(f"pci:v000010DEd{number:08X}sv*sd*bc03sc*i*" for number in range(60_000))
    shown = f"Package: nvidia-driver-640-open\nModaliases: nvidia({aliases})\nDepends: {'x, ' * 200_000}\n"
    assert parse_show(shown, HERE)["nvidia-driver-640-open"].drives == tuple(HERE)


@given(st.text(alphabet="Package: nvidia-driver-580\nModaliases(*[],?\t .", max_size=300))
def test_no_text_breaks_the_reading(shown):
    parse_show(shown, HERE)
    parse_show("Package: nvidia-driver-580\n" + shown, HERE)


SYSFS = {
    f"{DEVICES}/0000:1b:00.0/{name}": value
    for name, value in {
        "vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n", "subsystem_vendor": "0x10de\n",
        "subsystem_device": "0x16c1\n",
    }.items()
}  # fmt: skip


def told(answer, files=SYSFS):
    return Facts(FakeReader(files, queries={QUERY: answer})).packaging


def test_modalias_is_the_kernels():
    (device,) = Facts(FakeReader(SYSFS)).gpus.devices
    assert device.modalias == "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"


def test_apt_is_asked_once_for_the_gpus_here():
    found = told(SHOWN)
    assert found.problem == ""
    assert found.packages["nvidia-driver-580-server-open"].drives == ("0000:1b:00.0",)
    assert [one.name for one in found.of(615)] == ["nvidia-driver-615-open"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (ABSENT, "apt-cache is not installed"),
        (Unreadable("not in this record"), "not in this record"),
        (Completed(100, b"", b"E: No packages found\n"), "apt's lists have no driver of NVIDIA's"),
        (
            Completed(100, b"", b"E: Malformed line 1\n"),
            "apt's lists have no driver of NVIDIA's (E: Malformed line 1)",
        ),
    ],
)
def test_what_apt_does_not_tell_is_said(answer, problem):
    found = told(answer)
    assert (dict(found.packages), found.problem) == ({}, problem)


def test_apt_is_not_asked_without_a_gpu():
    reader = FakeReader(
        {"/sys/bus/pci/devices/0000:00:00.0/vendor": "0x1022\n"}, queries={QUERY: SHOWN}
    )
    assert Facts(reader).packaging.problem == "there is no NVIDIA GPU"
    assert reader.asked == []


@pytest.mark.parametrize("share", [True, False])
def test_record_keeps_the_answer_without_what_nobody_reads(share):
    recorder = RecordingReader(FakeReader(SYSFS, queries={QUERY: SHOWN}))
    before = Facts(recorder).packaging
    data = json.loads(json.dumps(encode_record(recorder, share=share, tool_version="1")))
    assert Facts(RecordReader(data)).packaging == before
    (kept,) = [one["stdout"] for one in data["queries"] if tuple(one["argv"]) == QUERY]
    assert "Pmaliases" not in kept
    assert " pci:v000010DEd00002901sv*sd*bc03sc*i*)\n" in kept
    assert "hardware acceleration" not in kept
