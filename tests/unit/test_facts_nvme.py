"""NVMe drives: the state of their controllers, and the health that they tell; formats of nvme-cli
and smartmontools.
"""

from __future__ import annotations

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.nvme import make_question
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

WELL = {
    "critical_warning": 0,
    "temperature": 328,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 2,
    "media_errors": 0,
}
SMARTCTL = {
    "critical_warning": 0, "temperature": 42, "available_spare": 100, "available_spare_threshold": 10,
    "percentage_used": 3, "media_errors": 7,
}  # fmt: skip
NVME = make_question("nvme", "nvme0")
CTL = make_question("smartctl", "nvme0")


def host(
    answers=None,
    names=("nvme0",),
    model="SAMSUNG MZWLO3T8HCLS",
    state="live",
    transport="pcie",
    files=None,
    **more,
):
    every = {}
    for name in names:
        base = f"/sys/class/nvme/{name}"
        every |= {
            f"{base}/model": f"{model:40}\n",
            f"{base}/state": f"{state}\n",
            f"{base}/transport": f"{transport}\n",
        }
        every |= {f"{base}/hwmon3/temp1_input": "41850\n", f"{base}/hwmon3/temp1_alarm": "0\n"}
    links = {
        f"/sys/class/nvme/{name}/device": f"../../../0000:c{number}:00.0"
        for number, name in enumerate(names, 1)
    }
    reader = FakeReader(every | (files or {}), links=links, queries=answers or {}, **more)
    return Facts(reader), reader


def drive(told=None, **more):
    answers = more.pop("answers", None) or {NVME: json.dumps({**WELL, **(told or {})})}
    facts, _ = host(answers, **more)
    (found,) = facts.nvme.drives
    return found


def test_drive_that_is_well():
    found = drive()
    assert (found.name, found.state, found.celsius, found.used_percent, found.media_errors) == (
        "nvme0",
        "live",
        42,
        2,
        0,
    )
    assert not any(
        (
            found.has_lost_reliability,
            found.is_read_only,
            found.has_lost_backup,
            found.is_short_of_spare,
        )
    )
    assert found.is_out_of_bounds is found.is_untold is False
    assert found.is_asked is True
    assert found.address == "0000:c1:00.0"


@pytest.mark.parametrize(
    ("warning", "name"),
    [(1, "is_short_of_spare"), (2, "is_out_of_bounds"), (4, "has_lost_reliability"), (8, "is_read_only"), (16, "has_lost_backup")],
)  # fmt: skip
def test_bits_of_the_critical_warning(warning, name):
    names = {
        "is_short_of_spare",
        "is_out_of_bounds",
        "has_lost_reliability",
        "is_read_only",
        "has_lost_backup",
    }
    for spelled in (warning, str(warning), {"value": warning, "available_spare": 0}):
        found = drive({"critical_warning": spelled})
        assert {one for one in names if getattr(found, one)} == {name}


def test_numbers_as_versions_of_the_programs_print_them():
    assert drive({"media_errors": "12"}).media_errors == 12
    assert drive({"media_errors": "1,204"}).media_errors == 1204
    assert drive({"avail_spare": 0, "spare_thresh": 0}).is_short_of_spare is False
    assert drive({"avail_spare": 9}).is_short_of_spare is True


def test_smartctl_where_nvme_cli_is_not_installed_or_fails():
    told = json.dumps(
        {"smartctl": {"exit_status": 64}, "nvme_smart_health_information_log": SMARTCTL}
    )
    for nvme in (
        ABSENT,
        Completed(1, b"", b"No such file or directory\n"),
        Unreadable("nvme did not end within 5 s"),
    ):
        found = drive(answers={NVME: nvme, CTL: Completed(64, told.encode(), b"")})
        assert (found.used_percent, found.media_errors) == (3, 7)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Completed(1, b"", b"identify controller: Input/output error\n"), "nvme does not tell the health of /dev/nvme0: identify"),
        ("[]", "it printed something else"),
        ('{"critical_warning": true}', "it printed something else"),
        ('{"critical_warning": 1e999}', "it printed something else"),
        (Unreadable("nvme did not end within 5 s"), "did not end within"),
    ],
)  # fmt: skip
def test_program_that_does_not_tell_is_no_drive_that_is_well(answer, why):
    found = drive(answers={NVME: answer})
    assert found.state == "live"
    for name in ("is_read_only", "media_errors", "used_percent", "is_untold"):
        with pytest.raises(UnknownFact, match=why):
            getattr(found, name)
    facts, _ = host({NVME: answer})
    assert facts.nvme.judged == facts.nvme.drives


def test_without_root_nobody_is_asked_and_the_kernel_still_tells():
    facts, reader = host(
        {}, is_privileged=False, files={"/sys/class/nvme/nvme0/hwmon3/temp1_alarm": "1\n"}
    )
    (found,) = facts.nvme.judged
    assert found.is_out_of_bounds is True
    assert found.celsius == 42
    with pytest.raises(UnknownFact, match="needs root: the health that NVMe drives tell"):
        _ = found.is_read_only
    assert reader.asked == []


@pytest.mark.parametrize("state", ["dead", "resetting", "connecting", "deleting", "new"])
def test_controller_that_is_not_live_is_not_asked(state):
    facts, reader = host({}, state=state)
    (found,) = facts.nvme.judged
    assert (found.state, found.is_live, found.is_read_only) == (state, False, False)
    assert reader.asked == []


@pytest.mark.parametrize(
    "model",
    [
        "Amazon Elastic Block Store", "Amazon EC2 NVMe Instance Storage", "MSFT NVMe Accelerator v1.0",
        "Microsoft NVMe Direct Disk v2", "nvme_card-pd", "QEMU NVMe Ctrl", "VMware Virtual NVMe Disk",
        "ORCL-VBOX-NVME-VER12", "Linux",
    ],
)  # fmt: skip
def test_volumes_of_a_cloud_and_drives_of_a_hypervisor_are_not_asked(model):
    facts, reader = host({}, model=model)
    assert facts.nvme.judged[0].used_percent == 0
    assert reader.asked == []


def test_drives_over_a_network_are_not_asked():
    facts, reader = host({}, transport="tcp")
    assert facts.nvme.judged[0].is_live
    assert reader.asked == []


def test_where_no_program_is_installed_one_stands_for_all_that_say_nothing_themselves():
    names = tuple(f"nvme{number}" for number in range(4))
    files = {
        "/sys/class/nvme/nvme1/state": "dead\n",
        "/sys/class/nvme/nvme2/hwmon3/temp1_alarm": "1\n",
    }
    facts, _ = host({}, names=names, files=files)
    assert [one.name for one in facts.nvme.judged] == ["nvme1", "nvme2", "3 NVMe drives"]
    assert facts.nvme.judged[-1].is_untold is True
    alone, _ = host({})
    assert [one.name for one in alone.nvme.judged] == ["the NVMe drive"]


def test_nothing_is_asked_where_there_is_no_drive():
    facts, reader = host(names=())
    assert facts.nvme.drives == facts.nvme.judged == ()
    assert reader.asked == []
    facts, _ = host(names=(), files={"/sys/class/nvme/nvme-subsys0": "x"})
    assert facts.nvme.drives == ()


@pytest.mark.parametrize(
    ("files", "links", "is_told"),
    [
        ({}, {}, True),
        ({"driver_override": "vfio-pci\n"}, {}, False),
        ({"class": "0x010601\n"}, {}, False),  # a SATA controller
        ({"physfn/vendor": "0x144d\n"}, {}, False),  # a virtual function is for a guest
        ({}, {"driver": "../../drivers/vfio-pci"}, False),
    ],
)
def test_drive_on_the_bus_without_a_driver(files, links, is_told):
    base = "/sys/bus/pci/devices/0000:c9:00.0"
    every = {f"{base}/class": "0x010802\n"} | {
        f"{base}/{name}": text for name, text in files.items()
    }
    hung = {f"{base}/{name}": target for name, target in links.items()}
    for is_loaded in (True, False):
        folders = ["/sys/bus/pci/drivers/nvme"] if is_loaded else []
        found = Facts(FakeReader(every, links=hung, folders=folders)).nvme.drives
        assert [(one.name, one.state) for one in found] == [("0000:c9:00.0", "without driver")] * (
            is_told and is_loaded
        )
