"""What a described machine's kernel shows about its memory and processors below /proc and /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hosts.driver import NAMES

if TYPE_CHECKING:
    from tests.hosts.machine import Machine

CPUS = "/sys/devices/system/cpu"
THP = "/sys/kernel/mm/transparent_hugepage"
QUIET = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
SHOWN = 10  # processors with clocks and limits: enough to be set as one, and hundreds would tell nothing more
FREQUENCY = {  # vendor -> driver, governor, governors, preference
    "GenuineIntel": ("intel_pstate", "powersave", "performance powersave", "balance_performance"),
    "AuthenticAMD": ("amd-pstate-epp", "powersave", "performance powersave", "balance_performance"),
    "": (
        "cppc_cpufreq",
        "schedutil",
        "conservative ondemand userspace powersave performance schedutil",
        "",
    ),
}
_THROTTLED = "thermal_throttle/package_throttle_total_time_ms"
IDLE = {  # vendor -> driver, (name, exit latency in microseconds)
    "GenuineIntel": ("intel_idle", (("POLL", 0), ("C1", 1), ("C1E", 2), ("C6", 290))),
    "AuthenticAMD": ("acpi_idle", (("POLL", 0), ("C1", 1), ("C2", 18), ("C3", 350))),
    "": ("acpi_idle", (("LPI-0", 1),)),
}
HOLES = {
    "gather_data_sampling": "Not affected",
    "meltdown": "Not affected",
    "spectre_v1": "Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
    "spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; RSB filling; PBRSB-eIBRS: SW sequence",
    "tsx_async_abort": "Not affected",
}


def memory_files(machine: Machine) -> dict[str, str]:
    is_64k = machine.kernel.endswith("64k")
    huge_kib = 524288 if is_64k else 2048
    files = {
        "/proc/pressure/memory": QUIET,
        "/proc/pressure/io": QUIET,
        "/proc/uptime": "1036800.12 99999999.00\n",
        "/proc/vmstat": "nr_free_pages 1\npswpin 0\npswpout 0\noom_kill 0\n",
        f"{THP}/enabled": "always [madvise] never\n",
        f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
        f"{THP}/hpage_pmd_size": f"{huge_kib * 1024}\n",
    }
    for name in ("nr", "free", "resv"):
        files[f"/sys/kernel/mm/hugepages/hugepages-{huge_kib}kB/{name}_hugepages"] = "0\n"
    settings = {
        "vm.min_free_kbytes": "11534336" if is_64k else "90112",
        "vm.watermark_scale_factor": "10",
        "vm.zone_reclaim_mode": "0",
        "vm.dirty_ratio": "20",
        "vm.dirty_background_ratio": "10",
        "vm.dirty_bytes": "0",
        "vm.dirty_background_bytes": "0",
        "kernel.numa_balancing": "1" if machine.nodes > 1 else "0",
    }
    return files | {
        f"/proc/sys/{key.replace('.', '/')}": f"{value}\n" for key, value in settings.items()
    }


def processor_files(machine: Machine) -> dict[str, str]:
    files = {f"{CPUS}/vulnerabilities/{name}": f"{text}\n" for name, text in HOLES.items()}
    files[f"{CPUS}/cpuidle/current_driver"] = "none\n"
    vendor = "" if machine.arch == "aarch64" else machine.cpu_vendor
    source = "kvm-clock" if machine.is_vm else "tsc" if vendor else "arch_sys_counter"
    files["/sys/devices/system/clocksource/clocksource0/current_clocksource"] = f"{source}\n"
    files["/proc/loadavg"] = "0.52 0.58 0.59 1/2345 12345\n"
    if not machine.is_vm and machine.has_systemd:
        _frequency(files, machine, vendor)
        _idle(files, machine, vendor)
    return files


def _frequency(files: dict[str, str], machine: Machine, vendor: str) -> None:
    driver, governor, governors, preference = FREQUENCY[vendor]
    for cpu in range(min(machine.cpus, SHOWN)):
        base = f"{CPUS}/cpu{cpu}/cpufreq"
        files[f"{base}/scaling_governor"] = f"{governor}\n"
        files[f"{base}/scaling_available_governors"] = f"{governors}\n"
    files[f"{CPUS}/cpu0/cpufreq/scaling_driver"] = f"{driver}\n"
    for cpu in (number * machine.cores_per_socket for number in range(machine.sockets)):
        base = f"{CPUS}/cpu{cpu}"
        files |= {
            f"{base}/cpufreq/{name}": "3800000\n"
            for name in ("scaling_max_freq", "cpuinfo_max_freq")
        }
        if vendor == "GenuineIntel":
            files |= {f"{base}/cpufreq/base_frequency": "2000000\n", f"{base}/{_THROTTLED}": "0\n"}
    files |= (
        {f"{CPUS}/intel_pstate/no_turbo": "0\n"}
        if driver == "intel_pstate"
        else {f"{CPUS}/cpufreq/boost": "1\n"}
    )
    if preference:
        files[f"{CPUS}/cpu0/cpufreq/energy_performance_preference"] = f"{preference}\n"


def _idle(files: dict[str, str], machine: Machine, vendor: str) -> None:
    driver, states = IDLE[vendor]
    files[f"{CPUS}/cpuidle/current_driver"] = f"{driver}\n"
    for number, (name, latency) in enumerate(states):
        base = f"{CPUS}/cpu0/cpuidle/state{number}"
        files |= {
            f"{base}/name": f"{name}\n",
            f"{base}/latency": f"{latency}\n",
            f"{base}/disable": "0\n",
        }
    for cpu in range(min(machine.cpus, SHOWN)):
        files[f"{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us"] = "0\n"


def gpu_files(machine: Machine) -> dict[str, str]:
    files = {}
    share = machine.cpus // machine.nodes
    minor = 0
    for gpu in machine.gpus:
        node = gpu.node
        files[f"{machine.place(gpu)}/local_cpulist"] = f"{node * share}-{(node + 1) * share - 1}\n"
        if gpu.driver == "nvidia" and gpu.device in NAMES:
            files[f"/proc/driver/nvidia/gpus/{gpu.slot}/information"] = (
                f"Model: \t\t {NAMES[gpu.device]}\nBus Location: \t {gpu.slot}\nDevice Minor: \t {minor}\n"
            )
            minor += 1
    return files
