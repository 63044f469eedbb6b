"""Mount namespaces of other processes, and what a change of a mount says about them."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import TooLong
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import ROOT, StorageHost, mount_wish

DATA = "21 20 8:17 / /data rw,relatime - ext4 /dev/sdb1 rw"
FSTAB = "LABEL=data /data ext4 defaults 0 2\n"


def process(pid, namespace, mountinfo="", cgroup="", name="sh"):
    files = {
        f"/proc/{pid}/mountinfo": mountinfo,
        f"/proc/{pid}/cgroup": cgroup,
        f"/proc/{pid}/comm": f"{name}\n",
    }
    return files, {f"/proc/{pid}/ns/mnt": f"mnt:[{namespace}]"}


def reader_of(*processes, **options):
    files, links = {}, {"/proc/self/ns/mnt": "mnt:[1]"}
    for own_files, own_links in processes:
        files |= own_files
        links |= own_links
    return {"files": files, "links": links, **options}


SERVICE = "0::/system.slice/nginx.service\n"
HOLDER = process(80, 2, DATA.replace("21 20", "90 89"), SERVICE)


def test_each_other_namespace_is_read_once():
    twice = process(81, 2, "not read", SERVICE)
    found = Facts(FakeReader(**reader_of(process(1, 1, DATA), HOLDER, twice))).namespaces.mounts
    assert [(one.pid, one.holder, one.device, one.target, one.atime) for one in found] == [
        (80, "nginx.service", "8:17", "/data", "relatime")
    ]


def test_table_that_a_user_made_too_long_hides_those_of_no_others():
    long = process(70, 3)
    options = {"unreadable": {"/proc/70/mountinfo": TooLong("larger than 1 MiB")}}
    assert [
        one.pid for one in Facts(FakeReader(**reader_of(HOLDER, long, **options))).namespaces.mounts
    ] == [80]


def test_process_without_a_unit_is_called_by_its_name():
    found = Facts(
        FakeReader(**reader_of(process(80, 2, DATA, "0::/\n", "trainer")))
    ).namespaces.mounts
    assert [one.holder for one in found] == ["trainer"]


def test_without_root_the_others_are_unknown():
    with pytest.raises(UnknownFact, match="only root"):
        Facts(FakeReader(**reader_of(HOLDER, is_privileged=False))).namespaces.mounts  # noqa: B018 - touching it is the test


def look(**options):
    return StorageHost(FSTAB, f"{ROOT}\n{DATA}", **options).look(mount_wish("/data"))


def test_services_that_keep_the_old_flag_are_named():
    others = [process(80 + n, 2 + n, DATA, f"0::/system.slice/s{n}.service\n") for n in range(5)]
    evidence = look(**reader_of(*others)).evidence
    assert (
        "s0.service, s1.service, s2.service and 2 more: keep relatime until restarted, in a mount namespace of their own"
        in evidence
    )


def test_service_that_has_the_wanted_flag_is_not_named():
    other = process(80, 2, DATA.replace("relatime", "noatime"), SERVICE)
    assert not any("namespace" in said for said in look(**reader_of(other)).evidence)


def test_second_place_of_the_disk_is_named():
    bound = f"{ROOT}\n{DATA}\n31 20 8:17 / /export rw,relatime - ext4 /dev/sdb1 rw"
    finding = StorageHost(FSTAB, bound).look(mount_wish("/data"))
    assert "also mounted at /export, with a flag of its own" in finding.evidence


def test_process_that_ends_meanwhile_is_left_out():
    ending = FakeReader(
        **reader_of(HOLDER, process(90, 3, DATA)),
        unreadable={"/proc/90/ns/mnt": "permission denied"},
    )
    assert [one.pid for one in Facts(ending).namespaces.mounts] == [80]


def test_record_without_the_list_of_processes_leaves_all_unknown():
    with pytest.raises(UnknownFact, match="not in this record"):
        Facts(FakeReader(unreadable={"/proc": "not in this record"})).namespaces.mounts  # noqa: B018 - touching it is the test
