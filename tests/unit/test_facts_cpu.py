"""CPU facts: topology from sysfs, model from cpuinfo, what this process may use."""

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

CPUS = "/sys/devices/system/cpu"
EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9654 96-Core Processor
physical id\t: 0
flags\t\t: fpu lm hypervisor

processor\t: 1
model name\t: something else
"""
GRACE = """processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0

"""


def topology(sockets, cores, threads):
    """Linux numbers all first threads, then all second ones."""
    total = sockets * cores
    files = {
        f"{CPUS}/online": f"0-{total * threads - 1}\n",
        f"{CPUS}/smt/active": f"{int(threads > 1)}\n",
    }
    for cpu in range(total * threads):
        core = cpu % total
        socket = core // cores
        files[f"{CPUS}/cpu{cpu}/topology/core_cpus_list"] = ",".join(
            str(core + total * n) for n in range(threads)
        )
        files[f"{CPUS}/cpu{cpu}/topology/package_cpus_list"] = ",".join(
            f"{socket * cores + total * n}-{(socket + 1) * cores - 1 + total * n}"
            for n in range(threads)
        )
    return files


def cpu(files, **options):
    base = {
        "/proc/cpuinfo": EPYC,
        "/proc/1/status": "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
    }
    return Facts(FakeReader(base | topology(1, 4, 2) | files, **options)).cpu


def test_cpu_two_sockets_with_threads_are_counted_with_few_reads():
    reader = FakeReader({"/proc/cpuinfo": EPYC} | topology(2, 8, 2))
    seen = Facts(reader).cpu
    assert (seen.sockets, seen.cores, seen.threads) == (2, 16, 32)
    assert sum("package_cpus_list" in path for path in reader.seen) == 2
    assert (seen.model, seen.vendor, seen.flags) == (
        "AMD EPYC 9654 96-Core Processor",
        "AuthenticAMD",
        ("fpu", "lm", "hypervisor"),
    )


def test_cpu_arm_is_named_from_its_numbers():
    seen = cpu({"/proc/cpuinfo": GRACE} | topology(1, 4, 1))
    assert (seen.model, seen.vendor, seen.cores) == ("Neoverse-V2", "ARM", 4)
    assert "asimd" in seen.flags


def test_cpu_unknown_arm_part_shows_its_numbers():
    seen = cpu({"/proc/cpuinfo": "CPU implementer : 0x99\nCPU part : 0x123\n"})
    assert (seen.model, seen.vendor) == ("part 0x123", "0x99")


def test_cpu_usable_is_the_affinity_without_a_quota():
    seen = cpu(
        {
            "/proc/1/cgroup": "0::/user.slice/session-1.scope\n",
            "/proc/1/status": "Cpus_allowed_list:\t0-2,7\n",
        }
    )
    assert (seen.usable, seen.usable_evidence) == (4, "affinity allows 4")


def test_cpu_quota_of_an_ancestor_limits():
    files = {
        "/proc/1/cgroup": "0::/slurm/job_1/step_0\n",
        "/sys/fs/cgroup/slurm/job_1/cpu.max": "350000 100000\n",
        "/sys/fs/cgroup/slurm/job_1/step_0/cpu.max": "max 100000\n",
    }
    seen = cpu(files)
    assert seen.usable == 3
    assert (
        seen.usable_evidence
        == "affinity allows 8, /sys/fs/cgroup/slurm/job_1/cpu.max limits to 3.5"
    )


def test_cpu_quota_below_one_leaves_one():
    files = {"/proc/1/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "50000 100000\n"}
    assert cpu(files).usable == 1


def test_cpu_quota_of_version_1_counts_in_a_hybrid_setup():
    files = {
        "/proc/1/cgroup": "9:name=systemd:/\n4:cpu,cpuacct:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",  # the mount shows the container's own group as its root
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/unified/cgroup.procs": "",
    }
    assert cpu(files).usable == 2


def test_cpu_version_1_without_a_quota_is_not_limited():
    files = {"/proc/1/cgroup": "1:cpu:/\n0::/\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}
    assert cpu(files).usable == 8


def test_cpu_unreadable_quota_leaves_the_rest_known():
    seen = cpu({"/proc/1/cgroup": "0::/a\n"}, unreadable={"/sys/fs/cgroup/a": "permission denied"})
    assert seen.threads == 8
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = seen.usable


def test_cpu_without_a_kernel_is_unknown():
    seen = Facts(FakeReader(unreadable={"/proc": "no kernel", "/sys": "no kernel"})).cpu
    for name in (
        "model",
        "vendor",
        "flags",
        "sockets",
        "cores",
        "threads",
        "usable",
        "usable_evidence",
    ):
        with pytest.raises(UnknownFact, match="no kernel"):
            getattr(seen, name)


def test_cpu_that_is_there_and_not_used_is_offline():
    there = {f"{CPUS}/present": "0-7\n", f"{CPUS}/online": "0-3,6\n", f"{CPUS}/smt/control": "on\n"}
    seen = cpu(there)
    assert (seen.offline, seen.offline_list, seen.siblings_off) == ((4, 5, 7), "4-5,7", 0)


def test_cpu_second_threads_are_half_of_what_is_there_at_most():
    there = {f"{CPUS}/present": "0-7\n", f"{CPUS}/smt/control": "forceoff\n"}
    assert cpu(there | {f"{CPUS}/online": "0-3\n"}).siblings_off == 4
    assert cpu(there | {f"{CPUS}/online": "0-2\n"}).siblings_off == 4
    assert cpu(there | {f"{CPUS}/online": "0-6\n"}).siblings_off == 1


def test_cpu_what_is_there_is_unknown_where_the_kernel_does_not_tell():
    with pytest.raises(UnknownFact, match="present does not exist"):
        _ = cpu({}).offline


def test_cpu_microcode_is_compared_among_equal_processors():
    block = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 143\nstepping\t: {}\nmicrocode\t: {}\n\n"
    mixed = (
        block.format(8, "0x2b000603") * 2 + block.format(8, "0x2b000461") + block.format(6, "0x1")
    )
    assert cpu({"/proc/cpuinfo": mixed}).mixed_microcode == ("0x2b000603 of 2", "0x2b000461 of 1")
    assert cpu({"/proc/cpuinfo": GRACE}).mixed_microcode == ()
