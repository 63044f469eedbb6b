"""Facts about limits of services."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.limits.limits import UNLIMITED, parse_limits
from tests.hosts.container_files import limits_text, service_files
from tests.unit.fake_reader import FakeReader

KERNEL = {
    "/proc/sys/fs/nr_open": "1048576\n",
    "/proc/sys/fs/inotify/max_user_instances": "128\n",
    "/proc/sys/fs/inotify/max_user_watches": "65536\n",
}


def limits(files, **options):
    return Facts(FakeReader({**KERNEL, **files}, **options)).limits


def test_parse_limits_soft_and_hard():
    rows = parse_limits(limits_text(memlock="unlimited"))
    assert rows["Max open files"] == (1024, 524288)
    assert rows["Max locked memory"] == (UNLIMITED, UNLIMITED)


def test_parse_limits_other_text_is_refused():
    with pytest.raises(ValueError, match="no limits"):
        parse_limits("nothing\n")


def test_services_daemon_is_found_by_its_name():
    files = service_files("slurmd.service", 900, "slurmd", limits_text(memlock="unlimited"))
    files["/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"] = "88\n900\n"
    files |= {"/proc/88/comm": "slurmstepd\n", "/proc/88/limits": limits_text()}
    (service,) = limits(files).services
    assert (service.unit, service.pid, service.memlock_text, service.starts_jobs) == (
        "slurmd.service", 900, "unlimited", True,
    )  # fmt: skip


def test_services_job_that_is_called_as_its_daemon_is_not_it():
    """A slurmd without control groups keeps its jobs in its own."""
    files = service_files("slurmd.service", 900, "slurmd", limits_text(memlock="unlimited"))
    files["/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"] = f"88\n{'9' * 5000}\n900\n"
    files |= {"/proc/88/comm": "slurmd\n", "/proc/88/limits": limits_text()}
    for ids in (
        "1001 1001 1001 1001",
        "1001 0 0 0",
    ):  # the last is a setuid program that he started by this name
        files["/proc/88/status"] = f"Name: slurmd\nUid: {ids}\n"
        assert [one.pid for one in limits(files).services] == [900]


def test_services_login_daemon_starts_no_jobs():
    seen = limits(service_files("ssh.service", 7, "sshd", limits_text()))
    assert (seen.services[0].memlock_text, seen.job_services) == ("8192 KiB", ())


@pytest.mark.parametrize(("unit", "daemon"), DAEMONS.items())
def test_services_of_every_kind_of_kubernetes_node_start_jobs(unit, daemon):
    files = service_files(unit, 900, daemon, limits_text(memlock="unlimited"))
    assert [(one.unit, one.pid) for one in limits(files).job_services] == [(unit, 900)]


def test_services_that_do_not_run_are_none():
    assert limits({}).services == ()


def test_services_unreadable_limits_are_unknown():
    seen = limits(
        service_files("docker.service", 7, "dockerd", "?"), unreadable={"/proc/7/limits": "no"}
    )
    with pytest.raises(UnknownFact, match="no"):
        assert seen.services[0].memlock


def test_limits_without_proc_are_unknown():
    seen = Facts(FakeReader({}, unreadable={"/proc": "not mounted"})).limits
    with pytest.raises(UnknownFact, match="not mounted"):
        assert seen.nr_open
