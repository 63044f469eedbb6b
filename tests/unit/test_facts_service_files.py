"""Services that are near the files they may have open: which processes count, and how their files
are counted.
"""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.limits.service_files import FullService
from hosttune.host.door import Process, Stat
from hosttune.values import Unreadable
from tests.hosts.container_files import limits_text
from tests.unit.fake_reader import FakeReader

FOLDER = "/proc/1500/fd"


def process(cgroup="/system.slice/nix-daemon.service", uid=0, pid=1500):
    return Process(
        pid,
        "nix-daemon",
        "root",
        ("nix-daemon",),
        0,
        0,
        (),
        cgroup,
        0.0,
        uid=uid,
        program="/usr/bin/nix",
    )


def full(files, soft=1024, size=0, **kwargs):
    content = {
        "/proc/1500/limits": limits_text(soft, 524288),
        **{f"{FOLDER}/{number}": "" for number in range(files)},
    }
    stats = {FOLDER: Stat("directory", 0o500, 0, 0, size, 0, 1, 2, 1)}
    reader = FakeReader(content, stats=stats, processes=(process(**kwargs),))
    return [(one.unit, one.pid, one.files, one.most) for one in Facts(reader).service_files.full]


def test_a_service_near_its_limit_is_found_by_the_names_of_its_files():
    assert full(1019) == [("nix-daemon.service", 1500, 1019, 1024)]


def test_newer_kernels_say_the_number_of_files_as_the_size_of_the_folder():
    assert full(0, size=1000) == [("nix-daemon.service", 1500, 1000, 1024)]


def test_a_service_that_is_far_from_its_limit_is_well():
    assert full(800) == []
    assert full(2000, soft=65536) == []


def test_jobs_of_users_below_a_service_logins_and_containers_do_not_count():
    assert full(1019, uid=1000) == []
    assert full(1019, cgroup="/user.slice/user-1000.slice/session-3.scope") == []
    assert full(1019, cgroup="/system.slice/docker-0123456789abcdef0123.scope") == []


@pytest.mark.parametrize(
    ("most", "limit"),
    [(1024, "65536:524288"), (65536, "262144:524288"), (524288, "1048576:1048576")],
)
def test_way_out_raises_each_limit(most, limit):
    stats = {FOLDER: Stat("directory", 0o500, 0, 0, most, 0, 1, 2, 1)}
    reader = FakeReader(
        {"/proc/1500/limits": limits_text(most, 524288)}, stats=stats, processes=(process(),)
    )
    (one,) = Facts(reader).service_files.full
    assert f"LimitNOFILE={limit} " in one.way_out


def test_no_limit_is_raised_above_what_the_kernel_allows():
    one = FullService("nix-daemon.service", 1500, 1_000_000, 1 << 20)
    assert "systemctl" not in one.way_out


def test_the_processes_of_a_user_hide_no_service():
    """A user may have thousands, with lower numbers than a service that was started later."""
    of_user = tuple(
        process(cgroup="/user.slice", uid=1000, pid=2000 + number) for number in range(1000)
    )
    stats = {FOLDER: Stat("directory", 0o500, 0, 0, 1000, 0, 1, 2, 1)}
    reader = FakeReader(
        {"/proc/1500/limits": limits_text(1024, 4096)}, stats=stats, processes=(*of_user, process())
    )
    assert [one.unit for one in Facts(reader).service_files.full] == ["nix-daemon.service"]


def test_a_process_that_ends_meanwhile_makes_nothing_unknown():
    reader = FakeReader({}, processes=(process(),))
    assert Facts(reader).service_files.full == ()


def test_processes_that_cannot_be_listed_are_unknown():
    with pytest.raises(UnknownFact, match="hidden"):
        _ = Facts(FakeReader({}, processes=Unreadable("hidden"))).service_files.full


def test_process_that_gave_up_its_right_to_open_files_is_not_near_a_limit():
    files = {f"/proc/{pid}/limits": limits_text(0, 0) for pid in (1500, 1501)}
    stats = {
        f"/proc/{pid}/fd": Stat("directory", 0o500, 0, 0, 950, 0, 1, 2, 1) for pid in (1500, 1501)
    }
    reader = FakeReader(files, stats=stats, processes=(process(), process(pid=1501)))
    assert Facts(reader).service_files.full == ()
