"""Which profile a host is offered, by what its files say."""

from __future__ import annotations

import pytest

from hosttune.engine.policy.proposal import propose
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.base import get_raw
from hosttune.facts.role import CHASSIS, DLAMI, RDMA, SEAT
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import ABSENT, Answer, FileValue, Unreadable
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader

MANAGER = "/etc/systemd/system/display-manager.service"


def with_rdma(name: str, rdma: Answer[tuple[str, ...]]) -> Overlay:
    host = Overlay(read_record(str(HOSTS / f"{name}.json")))
    host.list = lambda path, listed=host.list: rdma if path == RDMA else listed(path)
    return host


def proposed(name: str, rdma: Answer[tuple[str, ...]], **files: str):
    host = with_rdma(name, rdma)
    host.files.update({path: FileValue(text.encode()) for path, text in files.items()})
    found = propose(Facts(host))
    assert found is None or found.profile in builtin_catalog().profiles
    return (found.profile, found.why) if found else None


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        (
            "a100-cloud-vm",
            {"/run/cloud-init/cloud-id": "azure\n"},
            ("cloud-vm", "virtual machine of azure"),
        ),
        ("workstation-rtx4090", {}, ("workstation", "gdm3.service")),
        ("h100-8x-2socket", {}, ("train-single", "8 GPUs are joined by NVSwitches")),
        ("h100-8x-2socket", {}, ("train-multinode", "mlx5_0 and 1 more")),
        (
            "h100-8x-2socket",
            {"/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": "9"},
            ("k8s-node", "kubelet.service runs"),
        ),
        (
            "a100-cloud-vm",
            {"/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs": "1"},
            ("slurm-node", "slurmd.service runs"),
        ),
        ("container-docker", {"/var/lib/kubelet/config.yaml": ""}, None),
        ("no-gpu-debian12", {}, None),
        ("microvm-debian12", {}, None),
        ("gh200-arm64", {}, None),
    ],
)
def test_proposal_is_the_profile_that_fits_and_says_why(name, files, expected):
    rdma = ("mlx5_0", "mlx5_1") if expected and expected[0] == "train-multinode" else ABSENT
    found = proposed(name, rdma, **files)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == expected[0]
        assert expected[1] in found[1]


def test_proposal_is_none_where_a_fact_that_decides_is_unknown():
    assert propose(Facts(with_rdma("h100-8x-2socket", Unreadable("no")))) is None


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({}, ""),
        ({MANAGER: "/usr/lib/systemd/system/lightdm.service"}, "lightdm.service"),
        ({MANAGER: "/dev/null"}, ""),
        (
            {
                MANAGER: "/usr/lib/systemd/system/gdm3.service",
                "/etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target",
            },
            "",
        ),
    ],
)
def test_display_manager_is_the_one_that_starts_with_the_machine(links, expected):
    assert Facts(FakeReader(links=links)).role.display_manager == expected


def test_role_that_cannot_be_read_is_unread():
    role = Facts(
        FakeReader(unreadable={"/sys/class/infiniband": "no", "/etc/systemd/system": "no"})
    ).role
    assert isinstance(get_raw(role, "rdma_devices"), Unreadable)
    assert isinstance(get_raw(role, "display_manager"), Unreadable)
    assert isinstance(get_raw(role, "is_seated"), bool)


GDM = {MANAGER: "/usr/lib/systemd/system/gdm3.service"}
SEAT_OF = "IS_SEAT0=1\nCAN_GRAPHICAL=1\nACTIVE=c1\nACTIVE_UID={uid}\nSESSIONS=c1\nUIDS={uid}\n"


@pytest.mark.parametrize(
    ("links", "files", "is_desktop", "has_somebody"),
    [
        (GDM, {CHASSIS: "10\n"}, True, True),
        (GDM, {CHASSIS: "3\n"}, True, False),
        (GDM, {CHASSIS: "3\n", SEAT: SEAT_OF.format(uid=1000)}, True, True),
        (GDM, {CHASSIS: "3\n", SEAT: SEAT_OF.format(uid=120)}, True, False),  # the login screen
        (
            GDM,
            {CHASSIS: "3\n", SEAT: SEAT_OF.format(uid=60578)},
            True,
            False,
        ),  # of GDM 49, made for it
        (GDM, {CHASSIS: "23\n"}, False, False),  # a server that was installed from desktop media
        (GDM, {CHASSIS: "23\n", SEAT: SEAT_OF.format(uid=1001)}, True, True),
        (GDM, {}, False, False),
        (
            {},
            {CHASSIS: "10\n", SEAT: SEAT_OF.format(uid=1000)},
            False,
            False,
        ),  # a laptop that serves
    ],
)
def test_desktop_is_told_by_its_display_manager_and_chassis_or_seat(
    links, files, is_desktop, has_somebody
):
    role = Facts(FakeReader(files, links=links)).role
    assert (role.is_desktop, role.has_somebody) == (is_desktop, has_somebody)


def packages(*names: str) -> dict[str, str]:
    rows = (
        f"Package: {name}\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n"
        for name in names
    )
    return {"/var/lib/dpkg/status": "\n".join(rows), "/etc/systemd/system/x": ""}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (packages("dpkg"), ""),
        (packages("dpkg", "dgx-release"), "DGX OS"),
        (packages("dpkg", "lambda-stack-cuda"), "Lambda Stack"),
        ({**packages("dpkg"), f"{DLAMI}/bin/init": ""}, "AWS Deep Learning AMI"),
    ],
)
def test_image_of_a_vendor_is_known_by_its_packages_or_folder(files, expected):
    assert Facts(FakeReader(files)).role.vendor_image == expected


def test_image_is_unknown_where_packages_or_the_folder_cannot_be_read():
    for hidden in ("/opt", "/var/lib/dpkg/status"):
        role = Facts(FakeReader(packages("dpkg"), unreadable={hidden: "no"})).role
        assert isinstance(get_raw(role, "vendor_image"), Unreadable)
