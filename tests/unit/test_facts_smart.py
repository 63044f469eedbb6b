"""The health that SATA and SAS disks tell of themselves, by smartctl's JSON."""

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.smart import health_in, make_question, unreadable_in
from hosttune.values import ABSENT, NeverAsked, Unreadable
from tests.unit.fake_reader import FakeReader

PLACES = {
    "sda": "/sys/devices/pci0000:00/0000:00:1f.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
    "sdb": "/sys/devices/pci0000:00/0000:00:1f.0/ata2/host1/target1:0:0/1:0:0:0/block/sdb",
    "sdc": "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/host2/target2:0:0/2:0:0:0/block/sdc",
}
PASSED = json.dumps({"smart_status": {"passed": True}})
FAILED = json.dumps({"smart_status": {"passed": False}})


def smart(answers, more_queries=None, **more):
    files = {
        f"{place}/{name}": text
        for place in PLACES.values()
        for name, text in (("size", "8\n"), ("removable", "0\n"))
    }
    links = {f"/sys/block/{name}": place for name, place in PLACES.items()}
    queries = {
        ("uname", "-m"): "x86_64\n",
        **{make_question(name): answer for name, answer in answers.items()},
    }
    queries |= more_queries or {}
    door = FakeReader(
        {**files, "/proc/cpuinfo": "flags : fpu\n"}, links=links, queries=queries, **more
    )
    return Facts(door).smart, door


def test_disks_of_this_machine_are_asked_and_what_is_plugged_in_is_not():
    found, door = smart({"sda": PASSED, "sdb": FAILED})
    assert found.is_installed
    assert [(disk.name, disk.is_failing, disk.warning) for disk in found.disks] == [
        ("sda", False, ""),
        ("sdb", True, ""),
    ]
    assert [argv for argv in door.asked if argv[0] == "smartctl"] == [
        make_question("sda"),
        make_question("sdb"),
    ]


def test_disk_that_hangs_hides_no_other():
    found, _ = smart({"sda": Unreadable("smartctl did not end within 5 s"), "sdb": FAILED})
    assert found.is_installed
    assert found.disks[1].is_failing
    with pytest.raises(UnknownFact, match="did not end"):
        _ = found.disks[0].is_failing


def test_nobody_knows_where_all_hang_or_root_alone_may_ask():
    with pytest.raises(UnknownFact, match="did not end"):
        _ = smart(dict.fromkeys(PLACES, Unreadable("smartctl did not end within 5 s")))[
            0
        ].is_installed
    with pytest.raises(UnknownFact, match="needs root"):
        _ = smart({"sda": PASSED}, is_privileged=False)[0].is_installed


def test_program_that_is_not_installed():
    found, _ = smart(dict.fromkeys(PLACES, ABSENT))
    assert not found.is_installed
    assert not any(disk.is_failing for disk in found.disks)


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({"passed": False, "scsi": {"asc": 0x5D, "ascq": 0x10, "ie_string": "x"}}, (True, "")),
        (
            {"passed": False, "scsi": {"asc": 0x0B, "ascq": 1, "ie_string": "WARNING - HOT"}},
            (False, "WARNING - HOT"),
        ),
        ({"passed": False, "scsi": {"asc": 0x0B}}, (False, "it gives no reason")),
        ({"passed": True}, (False, "")),
        ({}, (False, "")),
    ],
)
def test_what_a_status_means(status, health):
    assert health_in(json.dumps({"smart_status": status} if status else {}).encode()) == health


def unanswered(status, *words):
    return json.dumps(
        {"smartctl": {"exit_status": status, "messages": [{"string": word} for word in words]}}
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            unanswered(2, "Smartctl open device: /dev/sda failed: No such device"),
            "open device: /dev/sda failed",
        ),
        (unanswered(2), "it does not answer"),
        (
            unanswered(4, "Read SMART Data failed: scsi error aborted command"),
            "Read SMART Data failed",
        ),
    ],
)
def test_disk_that_does_not_answer_is_not_well(answer, reason):
    found, _ = smart({"sda": answer, "sdb": PASSED})
    assert found.is_installed
    with pytest.raises(UnknownFact, match=f"does not tell the health of /dev/sda: .*{reason}"):
        _ = found.disks[0].is_failing
    assert not found.disks[1].is_failing


@pytest.mark.parametrize(
    "answer",
    [
        unanswered(0, "Device is in STANDBY mode, exit(0)"), unanswered(4, "Device lacks SMART capability"),
        unanswered(2, "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller, please try adding '-d megaraid,N'"),
        json.dumps({"smartctl": {"exit_status": 4}, "smart_status": {"passed": True}}),
        json.dumps({"smartctl": {"exit_status": 192}}),
    ],
)  # fmt: skip
def test_disk_that_sleeps_or_has_no_such_health_is_well(answer):
    found, _ = smart({"sda": answer, "sdb": PASSED})
    assert (found.disks[0].is_failing, found.disks[0].warning) == (False, "")


def test_sectors_that_a_disk_cannot_read_are_the_larger_of_two_counts():
    def count(*rows):
        return unreadable_in(json.dumps({"ata_smart_attributes": {"table": list(rows)}}).encode())

    assert (
        count(
            {"name": "Current_Pending_Sector", "raw": {"value": 8}},
            {"name": "Offline_Uncorrectable", "raw": {"value": 3}},
        )
        == 8
    )
    assert count({"name": "Reallocated_Sector_Ct", "raw": {"value": 2872}}) == 0
    assert count({"name": "Current_Pending_Sector", "raw": {"value": 1 << 40}}) == 0
    assert unreadable_in(b"{}") == 0


def test_record_of_an_older_release_has_the_shorter_question():
    gone = Unreadable(NeverAsked("not in this record"))
    old = {tuple(word for word in make_question("sda") if word != "--attributes"): FAILED}
    found, _ = smart({"sda": gone, "sdb": PASSED}, more_queries=old)
    assert found.disks[0].is_failing
    assert found.disks[0].unreadable == 0


def test_number_that_no_integer_can_be_is_no_health():
    """A record may hold any JSON."""
    rows = '[{"name": "Current_Pending_Sector", "raw": {"value": 1e999}}]'
    found, _ = smart({"sda": f'{{"ata_smart_attributes": {{"table": {rows}}}}}', "sdb": PASSED})
    with pytest.raises(UnknownFact, match="it printed something else"):
        _ = found.disks[0].unreadable
    assert not found.disks[1].is_failing
