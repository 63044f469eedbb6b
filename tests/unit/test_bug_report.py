"""A report of nvidia-bug-report.sh as a record: what it tells, what it does not, and what a
stranger may send.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import process_time

import pytest

from hosttune.actions.examine import examine, examine_everything
from hosttune.actions.health import ask, health_rules
from hosttune.actions.record.record import take_record
from hosttune.choices.driver_state import choose
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import BadInput
from hosttune.facts import Facts
from hosttune.facts.gpu.gpus import name_in
from hosttune.facts.gpu.health_smi import LIST, QUERIES, REMAPPED
from hosttune.facts.gpu.nvidia import QUERY
from hosttune.facts.inventory import describe_machine
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordReader, reader_of
from hosttune.host.support import bug_report
from hosttune.host.support.bug_report import is_bug_report, read_bug_report
from hosttune.host.support.lspci import DEVICES, NAMES, devices_in, tables_of
from hosttune.host.support.sections import sections_of
from hosttune.host.support.smi import read_long
from hosttune.values import ABSENT, Unreadable, Verdict
from hosttune.views.support import source_lines
from tests.unit.bug_reports import (
    HEADS,
    LISTED,
    LOG,
    LOST,
    NOT_REACHED,
    RULE,
    SLOTS,
    device,
    function,
    gpu,
    long_text,
    packed,
    registers,
    report,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "support"
DAY_S = 86_400


@cache
def rules():
    catalog = builtin_catalog()
    policy = Policy(today="2026-11-28")
    return catalog, replace(policy, sole=health_rules(catalog, policy))


def reader(content, name="report.log.gz"):
    return reader_of(content, name)


def findings(door):
    return ask(examine(door, *rules(), collect=False), 2)


def faults(content):
    """(rule, subject) of what makes the node unfit."""
    return {(one.rule, one.subject) for one in findings(reader(content)) if one.is_fault}


def said(content, now=0.0):
    return list(source_lines(read_bug_report(content, "x", "1"), "x.log.gz", now))


def test_kind_of_a_file_is_in_its_content():
    assert is_bug_report(report())
    assert is_bug_report(packed(report()))
    for other in (
        b"",
        b"{}",
        b"\x1f\x8b",
        b"\x1f\x8bxxxxxxxxxxxxx",
        packed(b"x" * 9999),
        b"_" * 9999,
    ):
        assert not is_bug_report(other)


def test_report_is_the_record_of_its_host():
    door = reader(packed(report()))
    assert (door.name, door.source, door.is_privileged) == (
        "report.log.gz",
        "nvidia-bug-report.sh 34275367",
        True,
    )
    facts = Facts(door)
    assert [one.slot for one in facts.gpus.devices] == list(SLOTS)
    assert [one.driver for one in facts.gpus.devices] == ["nvidia", "nvidia"]
    assert (facts.driver.loaded_version, facts.nvidia.smi, facts.kernel.release) == (
        "570.86.15", "answers", "6.8.0-60-generic",
    )  # fmt: skip
    assert (facts.os.id, facts.os.version_id, facts.host.is_container) == ("ubuntu", "24.04", False)
    assert [one.bytes >> 30 for one in facts.gpu_memory.gpus] == [44, 44]


def test_healthy_report_accuses_nothing_and_is_never_fit():
    found = findings(reader(report()))
    assert [one for one in found if one.is_fault or one.verdict is Verdict.DIFFERS] == []
    assert any(one.verdict is Verdict.UNKNOWN for one in found)
    assert {
        one.verdict for one in found if one.rule in ("gpu-errors", "gpu-throttle", "gpu-bar1")
    } == {Verdict.OK}


SICK = {
    "a GPU fell off the bus": ({"dmesg": LOG + LOST}, ("gpu-errors", "0000:65:00.0")),
    "nvidia-smi cannot reach the driver": (
        {"smi": NOT_REACHED, "modules": "", "lspci": "".join(device(slot, driver="") for slot in SLOTS),
         "version": None},
        ("gpu-driver-health", "nvidia-smi refuses"),
    ),
    "a GPU asks for a reset": (
        {"smi": long_text(gpu(SLOTS[0]), gpu(SLOTS[1], recovery="Reset"))}, ("gpu-errors", "0000:65:00.0"),
    ),
    "memory rows could not be remapped": (
        {"smi": long_text(gpu(SLOTS[0]), gpu(SLOTS[1], remapping="Yes"))}, ("gpu-errors", "0000:65:00.0"),
    ),
}  # fmt: skip


_NO_MODULE = (
    "*** ls: -r--r--r-- 1 root root 0 2026-11-20 10:00:06.0 +0000 /proc/modules\nxfs 1 1 - Live 0\n"
)


def without_module(changed):
    """The two sections that say so, in their form."""
    if changed.get("modules") == "":
        return {**changed, "modules": _NO_MODULE}
    return changed


@pytest.mark.parametrize("name", SICK)
def test_fault_that_a_report_proves(name):
    changed, expected = SICK[name]
    assert expected in faults(report(**without_module(changed)))


@pytest.mark.parametrize("name", SICK)
def test_fault_goes_to_unknown_at_most_where_any_section_is_missing(name):
    """What a section proves does not depend on the others, but for the list of GPUs and what it is
    about.
    """
    changed, expected = SICK[name]
    changed = without_module(changed)
    for left_out in ("issue", "cpuinfo", "nvlink", "version"):
        assert expected in faults(report(**{**changed, left_out: None}))
    for left_out in HEADS:
        found = findings(reader(report(**{**changed, left_out: None})))
        rule = [one for one in found if one.rule == expected[0]]
        assert (
            any(one.is_fault or one.verdict is Verdict.UNKNOWN for one in rule)
            or left_out == "lspci"
        ), left_out


def test_record_of_a_report_says_the_same():
    content = report(dmesg=LOG + LOST)
    catalog, policy = rules()
    kept = take_record(
        reader(content),
        lambda door: examine_everything(door, catalog, policy),
        share=False,
        tool_version="1",
    )
    again = {
        (one.rule, one.subject, one.reason) for one in findings(RecordReader(kept)) if one.is_fault
    }
    assert again == {
        (one.rule, one.subject, one.reason) for one in findings(reader(content)) if one.is_fault
    }


def test_old_errors_in_logs_are_named_and_accuse_nothing():
    logs = "Scanning kernel log files for NVIDIA kernel messages:\n\n  /var/log/kern.log:\n"
    logs += "2026-11-01T10:00:00.000000+00:00 gpu7 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off\n"
    content = report(more=f"\n{logs}")
    assert faults(content) == set()
    assert (
        said(content)[-1]
        == "other logs there name Xid 79 (1 line): no proof, as any user there can write such lines"
    )


def test_errors_of_programs_in_that_boot_are_named_and_accuse_nothing():
    """Who asks for help saw them, and no rule reports them."""
    line = "[ 10.0] NVRM: Xid (PCI:0000:65:00): 13, pid=7, name=python, Graphics Exception\n"
    content = report(dmesg=LOG + 2 * line)
    assert faults(content) == set()
    assert said(content)[-1] == (
        "its kernel log names Xid 13 (2 lines): by NVIDIA's catalogue a program's fault, or "
        "nothing to act on"
    )


def test_no_gpu_is_reset_that_nvidia_smi_does_not_find():
    line = "[ 10.0] NVRM: Xid (PCI:0000:65:00): 143, RmInitAdapter failed\n"
    content = report(dmesg=LOG + line, smi="No devices were found\n")
    (found,) = (
        one for one in findings(reader(content)) if one.rule == "gpu-errors" and one.is_fault
    )
    assert "Xid 143" in found.reason
    assert "reboot: sudo reboot" in found.todo
    assert "nvidia-smi -r" not in found.todo


def test_what_no_report_shows_is_not_told_as_seen():
    """That it is a host is concluded of what the program could read, not of namespaces."""
    (evidence,) = Facts(reader(report())).host.container_evidence
    assert evidence.startswith("nvidia-bug-report.sh ")
    assert evidence.endswith(" ran on a host, by what it could read there")


def test_faults_are_named_before_errors_of_programs():
    lines = [
        f"Nov  1 10:00:00 gpu7 kernel: NVRM: Xid (PCI:0000:65:00): {one}, pid=1, x\n"
        for one in (13, 31, 43, 45, 62)
    ]
    logs = (
        "Scanning kernel log files for NVIDIA kernel messages:\n\n  /var/log/kern.log:\n"
        + "".join(lines)
    )
    line = said(report(more=f"\n{logs}"))[-1]
    assert line.startswith("other logs there name Xid 62 (1 line), Xid 13 (1 line)")
    assert "and 1 more" in line


def test_mismatch_that_nvidia_smi_says_is_not_also_unknown():
    """Which version the next boot loads is not in a report, so that a reboot is a condition."""
    states = choose(
        Facts(reader(report(smi="Failed to initialize NVML: Driver/library version mismatch"))), {}
    ).states
    [fault] = [one for one in states if not one.name.startswith("not known")]
    assert (fault.name, "version mismatch" in fault.evidence) == ("nvidia-smi refuses", True)
    assert fault.way_out.splitlines()[1:] == [
        "see which version the next boot loads: modinfo -F version nvidia",
        "if it is that of the libraries, drain the host and reboot; else a reboot does not fix this",
    ]
    unknown = ", ".join(one.name for one in states if one is not fault)
    assert "stale module" in unknown
    assert "mismatch" not in unknown


@pytest.mark.parametrize(
    ("smi", "known"),
    [
        # As in srinivasgln/nvidia-errors-srini.
        (
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n",
            {"libraries missing"},
        ),
        ("No devices were found\n", {"libraries missing", "mismatch"}),
        (None, {"libraries missing", "mismatch"}),
    ],
)
def test_what_the_module_and_nvidia_smi_tell_is_not_unknown(smi, known):
    content = report(smi=smi) if smi else report()
    states = choose(Facts(reader(content)), {}).states
    unknown = {name for one in states for name in one.name.removeprefix("not known: ").split(", ")}
    assert {"held", "runfile"} <= unknown
    assert not unknown & (
        known | {"not loaded", "module missing", "nvidia-smi missing", "driver files gone"}
    )


def test_what_a_report_is_stands_before_the_answer():
    content = report(
        flags="--safe-mode",
        smi=None,
        nvlink=None,
        dmesg="",
        end=False,
        more="\nxrandr --verbose:\n",
    )
    at = read_bug_report(content, "x", "1").collected_at
    assert said(content, at + 9 * DAY_S) == [
        (
            "x.log.gz: a report of nvidia-bug-report.sh 34275367 on gpu7 of 2026-11-20 10:00 UTC (9 days ago); "
            "kernel 6.8.0-60-generic, driver 570.86.15"
        ),
        "it holds no policy, packages, services and settings of that host: rules that ask for them are not judged",
        "it is not whole: its last line is missing",
        "the full answer of nvidia-smi is not in it (--safe-mode)",
        "the kernel log in it does not count: there is none that is whole",
    ]


@pytest.mark.parametrize(
    ("date", "minutes"),
    [
        ("Fri Nov 20 10:00:00 UTC 2026", 0),
        ("Fri Nov 20 03:34:59 PM IST 2026", 5),  # the kernel's files were looked at before
        ("20. Nov 2026 9:55:00 CET", 0),  # it goes on after its date
        ("nothing", 0),
    ],
)
def test_time_is_that_of_its_own_date_where_files_of_the_kernel_are_older(date, minutes):
    content = report()
    at = read_bug_report(content, "x", "1").collected_at
    changed = content.replace(b"Fri Nov 20 10:00:00 UTC 2026", date.encode())
    assert round((read_bug_report(changed, "x", "1").collected_at - at) / 60) == minutes


def test_file_that_was_first_seen_while_the_clock_was_ahead_does_not_date_it():
    content = report(
        more="*** /proc/cmdline\n"
        + LISTED.format(3, "/proc/cmdline").replace("10:00", "18:00")
        + "\nro\n"
    )
    assert (
        read_bug_report(content, "x", "1").collected_at
        == read_bug_report(report(), "x", "1").collected_at
    )


@pytest.mark.parametrize(
    ("issue", "release", "expected"),
    [
        ("Arch Linux \\r (\\l)", "", ("arch", "", "Arch Linux")),
        ("Linux Mint 21.3 Virginia \\n \\l", "", ("linuxmint", "21.3", "Linux Mint 21.3")),
        (
            "\\S\nKernel \\r",
            "Fedora release 36 (Thirty Six)",
            ("fedora", "36", "Fedora release 36"),
        ),
        (
            "\\S",
            "Red Hat Enterprise Linux release 9.3 (Plow)",
            ("rhel", "9.3", "Red Hat Enterprise Linux release 9.3"),
        ),
        ("Authorized users only. Ubuntu", "", None),
    ],
)
def test_distribution_is_what_the_report_names(issue, release, expected):
    more = f"*** /etc/redhat-release\n{LISTED.format(2, '/etc/redhat-release')}\n{release}\n"
    content = report(
        issue=LISTED.format(1, "/etc/issue") + f"\n{issue}\n\n", more=more if release else ""
    )
    found = read_bug_report(content, "x", "1").record["os_release"]
    if expected is None:
        assert found == {"unreadable": "which distribution it is was not found in it"}
    else:
        assert (found["id"], found["version_id"], found["pretty_name"]) == expected


def in_table(content: bytes, *rows: str) -> bytes:
    head, rule, rest = content.partition(b"command line flags: ")
    flags, end, after = rest.partition(b"\n")
    return (
        head
        + rule
        + flags
        + end
        + "".join(f"{row}\n{'-' * 80}\n" for row in ("", *rows)).encode()
        + after
    )


_NO_DEVICES = "NVIDIA GPU Details                  | Failed: No devices were found"


def test_table_before_all_else_tells_what_a_cut_report_lacks():
    row = "OS Details                          | Distribution : Ubuntu 24.04.2 LTS"
    found = read_bug_report(in_table(report()[:900], row), "x", "1").record["os_release"]
    assert (found["id"], found["version_id"]) == ("ubuntu", "24.04")


def test_refusal_in_the_table_proves_a_fault_in_safe_mode():
    failed = "[    9.000000] NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x62:0x55:1941)\n"
    content = in_table(
        report(flags="--safe-mode", smi=None, nvlink=None, dmesg=LOG + failed), _NO_DEVICES
    )
    found = findings(reader(content))
    assert any(
        one.is_fault and one.rule == "gpu-driver-health" and "0000:65:00.0" in one.reason
        for one in found
    )
    assert "--safe-mode" not in "".join(said(content))
    # a whole answer counts before it, and what the table does not have is not there
    assert not any(one.is_fault for one in findings(reader(in_table(report(), _NO_DEVICES))))
    assert not any(one.is_fault for one in findings(reader(in_table(report(), _NO_DEVICES, RULE))))


def test_module_that_the_kernel_refused_for_its_signature_is_named_with_its_way_out():
    refused = "[    8.000000] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"
    content = report(smi=NOT_REACHED + "\n", modules=_NO_MODULE, version=None, dmesg=LOG + refused)
    (one,) = (
        one for one in findings(reader(content)) if one.is_fault and one.rule == "gpu-driver-health"
    )
    assert "driver; the kernel refused a module for its signature" in one.reason
    assert "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der" in one.todo


def test_check_counts_a_rule_once_and_names_what_holds_the_gpu(run, tmp_path):
    file = tmp_path / "x.log.gz"
    file.write_bytes(
        report(
            smi=NOT_REACHED + "\n",
            modules=_NO_MODULE,
            version=None,
            lspci=device(SLOTS[0], driver=""),
        )
    )
    out = run("check", "--host", file)[1]
    counts = [
        line.split(" could not be checked")[0].split()[-1]
        for line in out.splitlines()
        if "be checked" in line
    ]
    assert (len(counts), len(set(counts)), ", no driver loaded," in out) == (2, 1, True)
    file.write_bytes(
        report(smi=None, modules=_NO_MODULE, version=None, lspci=device(SLOTS[0], driver="nouveau"))
    )
    assert ", driver nouveau," in run("check", "--host", file)[1]


def test_libraries_that_nvidia_smi_does_not_find_are_the_first_step():
    words = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that it is installed.\n"
    found = findings(reader(report(smi=words)))
    (one,) = (one for one in found if one.is_fault and one.rule == "gpu-driver-health")
    assert one.todo.startswith("see which libraries of the driver the system finds: ldconfig -p")
    assert "dmesg" not in one.todo


@pytest.mark.parametrize("name", SICK)
def test_who_reads_a_report_is_not_sent_for_one(name):
    found = findings(reader(report(**without_module(SICK[name][0]))))
    assert "run nvidia-bug-report.sh" not in "".join(one.todo for one in found)


def test_parameter_that_the_kernel_command_line_sets_is_named_with_it():
    listed = LISTED.format(3, "/proc/cmdline")
    door = reader(
        report(more=f"*** /proc/cmdline\n{listed}\nro nvidia.NVreg_EnableGpuFirmware=0\n")
    )
    options = Facts(door).module_options["nvidia.NVreg_EnableGpuFirmware"]
    assert options.set_by.startswith(
        "the kernel command line: nvidia.NVreg_EnableGpuFirmware=0 sets it"
    )
    assert (
        Facts(door).module_options["nvidia.NVreg_EnableMSI"].set_by
        == "it is not known which file sets it"
    )


def test_log_of_the_buffer_is_not_called_the_journals():
    content = report(dmesg="[ 864000.1] audit: type=1400\n")
    found = [one for one in findings(reader(content)) if one.rule == "host-hardware-errors"]
    assert any("only the kernel's buffer was read" in one.reason for one in found)
    assert "SystemMaxUse" not in "".join(one.todo for one in found)


BACKTRACES = """\
[ 7200.000001] sysrq: Show backtrace of all active CPUs
[ 7200.000002] NMI backtrace for cpu 2
[ 7200.000003] CPU: 2 PID: 3201 Comm: nvidia-bug-repo Tainted: P           OE      6.5.0-0.deb12.4-amd64 #1  Debian 6.5.10-1
[ 7200.000004] Call Trace:
[ 7200.000005]  <TASK>
[ 7200.000006]  nmi_trigger_cpumask_backtrace+0x115/0x140
[ 7200.000007]  __handle_sysrq+0xa7/0x180
[ 7200.000008] Sending NMI from CPU 2 to CPUs 0-1:
[ 7200.000009] NMI backtrace for cpu 0 skipped: idling at intel_idle+0x62/0xb0
"""


def test_backtraces_that_the_program_asked_for_are_no_stall():
    """And the log in which they are counts: --extra-system-data is for those whose driver hangs."""
    asked = reader(report(dmesg=LOG + BACKTRACES, flags="--extra-system-data"))
    assert Facts(asked).host_log.lockups == ()
    assert Facts(asked).host_log.stuck == ()
    assert faults(report(dmesg=LOG + LOST + BACKTRACES, flags="--extra-system-data")) >= {
        ("gpu-errors", "0000:65:00.0")
    }


def test_board_is_named_though_a_cloud_is_not_known():
    table = "Handle 0x0001, DMI type 1, 27 bytes\nSystem Information\n\tManufacturer: Supermicro\n\tProduct Name: SYS-7048GR-TR\n"
    door = reader(report(more=f"\n/sbin/dmidecode\n\n{table}\n"))
    assert describe_machine(Facts(door))["product"] == "SYS-7048GR-TR"


def test_nvidia_smi_that_the_program_did_not_find_is_not_there():
    """As on a host that has none. Where it was not looked for, or the file breaks off, that is not
    known.
    """
    skipped = "Skipping nvidia-smi output (nvidia-smi not found)\n"
    whole = report(smi=None, nvlink=None, more=skipped)
    assert reader(whole).query(QUERY) is ABSENT
    assert isinstance(reader(report(smi=None, nvlink=None)).query(QUERY), Unreadable)
    assert isinstance(
        reader(report(smi=None, nvlink=None, more=skipped, flags="--safe-mode")).query(QUERY),
        Unreadable,
    )
    assert isinstance(reader(report(more=skipped)).query(QUERY), Completed)
    assert isinstance(reader(whole[: whole.rindex(b"End of NVIDIA")]).query(QUERY), Unreadable)


def test_container_is_not_taken_for_a_host():
    assert Facts(reader(report())).host.is_container is False
    assert isinstance(reader(report(name="0123456789ab")).link("/proc/self/ns/pid"), Unreadable)


def test_nothing_is_absent_because_it_was_not_collected():
    door = reader(report())
    for path in (
        "/etc/fstab",
        "/var/lib/dpkg/status",
        "/proc/self/mountinfo",
        "/etc/modprobe.d",
        "/sys/block",
    ):
        assert isinstance(door.read(path), Unreadable)
        assert isinstance(door.list(path), Unreadable)
    assert door.stat("/sys/module/nouveau") is ABSENT
    assert door.read("/etc/hosttune/policy.yaml") is ABSENT


# --- nvidia-smi


def test_fields_are_answered_by_their_labels():
    door = reader(
        report(smi=long_text(gpu(SLOTS[0]), gpu(SLOTS[1], hot="Active", uncorrectable="3")))
    )
    assert Facts(door).health.problem == ""
    first, second = Facts(door).health.gpus
    assert (first.uncorrected_volatile, second.uncorrected_volatile) == (0, 3)
    answer = door.query(
        (
            "nvidia-smi",
            "--query-gpu=pci.bus_id,power.draw,clocks_event_reasons.active",
            "--format=csv,noheader,nounits",
        )
    )
    assert answer.text.splitlines()[1] == "00000000:65:00.0, 35.10, 0x0000000000000041"
    answer = door.query(
        ("nvidia-smi", "--query-gpu=power.draw,mig.mode.current", "--format=csv,noheader")
    )
    assert answer.text.splitlines()[0] == "35.10 W, [N/A]"


def test_field_without_a_label_is_refused_as_a_driver_does():
    door = reader(report())
    answer = door.query(QUERIES[0])
    assert (answer.status, "is not a valid field to query" in answer.text) == (2, True)
    assert door.query(QUERIES[2]).status == 0
    assert door.query(REMAPPED).text.splitlines()[0] == "00000000:17:00.0, No, No, 0, 0, 0"
    assert door.query(LIST).text.startswith("GPU 0: NVIDIA L40S (UUID: GPU-")
    assert isinstance(door.query(("nvidia-smi", "dmon", "-c", "1")), Unreadable)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (NOT_REACHED, 9),
        ("Unable to determine the device handle for GPU 0000:65:00.0: GPU is lost.", 15),
        ("odd", 255),
    ],
)
def test_sentence_in_place_of_an_answer_is_nvidia_smis(words, status):
    answer = reader(report(smi=words)).query(QUERIES[2])
    assert isinstance(answer, Completed)
    assert (answer.status, answer.text.strip()) == (status, words)


# --- lspci


def test_pci_devices_have_their_place_below_bridges():
    bridge = "0000:00:01.0 PCI bridge [0604]: Intel Root Port [8086:3420]\n\tBus: primary=00, secondary=17, subordinate=17\n\n"
    tables = tables_of(devices_in(bridge + device(SLOTS[0])))
    place = "/sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0"
    assert (
        tables["links"][f"{DEVICES}/0000:17:00.0"]
        == "../../../devices/pci0000:00/0000:00:01.0/0000:17:00.0"
    )
    values = {
        path.rpartition("/")[2]: value
        for path, value in tables["files"].items()
        if path.startswith(place)
    }
    assert {name: values[name].strip() for name in ("class", "vendor", "subsystem_device", "numa_node", "max_link_speed")} == {
        "class": "0x030200", "vendor": "0x10de", "subsystem_device": "0x171b", "numa_node": "0",
        "max_link_speed": "16.0 GT/s PCIe",
    }  # fmt: skip
    assert "0x00000100b0000000 0x00000110afffffff" in values["resource"]


def test_old_form_of_lspci_is_two_answers():
    long = (
        device(SLOTS[0]).replace(" [0302]", "").replace(" [10de:26b9]", "").replace("0000:17", "17")
    )
    short = "17:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n"
    for texts in ((long, short), (short, long), (long,)):
        (one,) = devices_in(*texts)
        assert (one.slot, one.kind, one.vendor, one.device) == (
            "0000:17:00.0",
            "0302",
            "10de",
            "26b9",
        )


def test_names_of_devices_are_those_that_lspci_shows():
    """Of a GPU that no driver drives nothing else in the file has the name."""
    old = "02:00.0 3D controller [0302]: NVIDIA Corporation GM107M [GeForce GTX 960M] [10de:139b] (rev a2)\n"
    new = "03:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2c02] (rev a1)\n"
    other = "04:00.0 Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X] [1002:74a1]\n"
    names = tables_of(devices_in(old + new + other))["files"][NAMES].encode()
    assert name_in(names, "139b") == "GM107M [GeForce GTX 960M]"
    assert name_in(names, "2c02") == ""
    assert name_in(names, "74a1", "1002") == "Aqua Vanjaram [Instinct MI300X]"


def ports(first=16, second=16):
    """Two root ports, and how many lanes each can do."""
    return function(
        "0000:00:01.0", registers(below=(0, 0x17, 0x17), width=first, most=first)
    ) + function("0000:00:01.1", registers(below=(0, 0x65, 0x65), width=second, most=second))


def gpus(first=16, second=16, **of_first):
    return function(SLOTS[0], registers(width=first, **of_first)) + function(
        SLOTS[1], registers(width=second)
    )


NARROW = "8 lanes, and GPU and port can do 16"
# What lspci shows; whether the first GPU is impaired, and how the reason begins. What a link sent
# again is in no report, so that none is ok.
LINKS = {
    "as wide as both can do": (ports() + gpus(), False, "not in this record: "),
    "narrow": (ports() + gpus(first=8), True, NARROW),
    "as wide as its port can do": (ports(8, 8) + gpus(8, 8), False, "not in this record: "),
    "as wide as its port, and another one wider": (
        ports(8) + gpus(first=8), False, "8 lanes, all that its slot has, and another GPU of this model has 16"
    ),
    "a slot that is split": (
        ports() + gpus(8, 8), False, "8 of the 16 lanes of its slot; the others go to 0000:65:00.0"
    ),
    "no answer of its registers": (ports() + function(SLOTS[0], b"\xff" * 256), False, "not in this record: "),
    "its port is shown without registers": (
        "0000:00:01.0 PCI bridge [0604]: Intel Root Port [8086:3420]\n\n" + gpus(first=8), False,
        "/sys/bus/pci/devices/0000:17:00.0: the registers of the bridges above it are not shown",
    ),
    "a card of plain PCI beside it": (
        ports() + gpus(first=8) + function("0000:02:00.0", registers(has_link=False)).replace("[0302]", "[0200]"),
        True, NARROW,
    ),
}  # fmt: skip


def links(shown):
    return [one for one in findings(reader(report(lspci=shown))) if one.rule == "gpu-pcie-link"]


@pytest.mark.parametrize("name", LINKS)
def test_link_is_judged_by_the_registers_of_gpu_and_port(name):
    shown, is_impaired, words = LINKS[name]
    (one,) = (one for one in links(shown) if one.subject in ("", SLOTS[0]))
    assert (one.verdict, one.is_fault, one.impairs) == (Verdict.UNKNOWN, False, is_impaired)
    assert one.reason.startswith(words)


def test_gpu_that_sleeps_is_not_judged():
    assert [one.subject for one in links(ports() + gpus(first=8, state=3))] == [SLOTS[1]]


def test_function_without_a_link_has_no_files_of_one():
    plain = reader(report(lspci=function(SLOTS[0], registers(has_link=False))))
    assert plain.read(f"{DEVICES}/{SLOTS[0]}/current_link_width") is ABSENT
    dead = reader(report(lspci=function(SLOTS[0], b"\xff" * 256)))
    assert isinstance(dead.read(f"{DEVICES}/{SLOTS[0]}/current_link_width"), Unreadable)


def test_bridges_in_a_circle_end():
    circle = "".join(
        f"0000:{own}:00.0 PCI bridge [0604]: A [8086:3420]\n\tBus: primary={own}, secondary={other}, subordinate={other}\n\n"
        for own, other in (("01", "02"), ("02", "01"))
    )
    assert len(tables_of(devices_in(circle))["links"]) >= 2


# --- hostile files


FORGED = {
    "the log": f"{RULE}\n\ndmesg:\n\n{LOG}\n",
    "a fault": f"{RULE}\n\ndmesg:\n\n{LOG}{LOST}\n",
    "the modules": f"{RULE}\n\n*** /proc/modules\n*** ls: -r--r--r-- 1 root root 0 2036-11-20 10:00:06.0 +0000 /proc/modules\nxfs 1 1 -\n",
    "the GPUs": f"{RULE}\n\n/usr/bin/nvidia-smi --query\n\n{long_text(gpu(SLOTS[0], recovery='Reset'))}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("is_sick", [False, True])
def test_file_of_a_user_in_a_report_says_nothing(name, is_sick):
    """nvidia-bug-report.sh prints /home/*/.nvidia-settings-rc before the log, the modules and
    nvidia-smi.
    """
    settings = FORGED[name]
    listed = f"*** ls: -rw-r--r-- 1 eve eve {len(settings)} 2026-11-20 09:00:00.0 +0000 /home/eve/.nvidia-settings-rc"
    mine = f"*** /home/eve/.nvidia-settings-rc\n{listed}\n{settings}"
    changed = {"dmesg": LOG + LOST} if is_sick else {}
    honest = report(**changed)
    content = honest.replace(
        f"{RULE}\n\n/usr/bin/lspci".encode(), f"{RULE}\n\n{mine}\n{RULE}\n\n/usr/bin/lspci".encode()
    )
    assert content != honest
    assert faults(content) == faults(honest)
    assert reader(content).now() == reader(honest).now()


@pytest.mark.parametrize("name", FORGED)
def test_head_that_is_there_twice_does_not_count_and_is_named(name):
    content = report(more=f"\nsome log\n{FORGED[name]}")
    assert faults(content) == set()
    assert said(content)[-1].startswith("it has these twice, so that neither counts")


def test_process_name_that_is_a_gpu_makes_the_answer_unknown():
    """nvidia-smi prints the names of processes below each GPU."""
    text = long_text(
        gpu(SLOTS[0]) + "    Processes\n        Name : x\n" + gpu(SLOTS[1]),
        gpu(SLOTS[1], recovery="Reset"),
    )
    door = reader(report(smi=text))
    assert isinstance(door.query(QUERIES[2]), Unreadable)
    assert faults(report(smi=text)) == set()


PROCESS = "    Processes\n        Process ID : 4711\n            Type : C\n            Name : x\n"


def test_lost_gpu_does_not_come_back_by_the_name_of_a_process():
    """A name with line breaks may be a whole GPU."""
    honest, forged = long_text(gpu(SLOTS[0])), long_text(gpu(SLOTS[0]) + PROCESS + gpu(SLOTS[1]))
    assert ("gpu-errors", SLOTS[1]) in faults(report(smi=honest))
    forged = forged.replace("Attached GPUs : 2", "Attached GPUs : 1")
    assert isinstance(reader(report(smi=forged)).query(QUERIES[2]), Unreadable)
    unreached = f"Unable to determine the device handle for GPU{SLOTS[1]}: Unknown Error\n"
    forged = forged.replace("Attached GPUs : 1", "Attached GPUs : 2") + unreached
    assert isinstance(reader(report(smi=forged)).query(QUERIES[2]), Unreadable)


def test_rows_in_the_name_of_a_process_are_no_values():
    row = "    GPU Reset Status\n        Reset Required : Yes\n    Retired Pages\n        Pending : Yes\n"
    told = gpu(SLOTS[0]).replace("    GPU Recovery Action                   : None\n", "")
    plain, forged = (
        read_long(long_text(one, gpu(SLOTS[1]))) for one in (told, told + PROCESS + row)
    )
    assert forged == plain


def test_shared_record_of_a_report_says_that_it_has_no_policy():
    """Else `health` refuses it."""
    data = take_record(reader(report()), lambda _door: None, share=True, tool_version="x")
    assert RecordReader(data, "x.json").read("/etc/hosttune/policy.yaml") is ABSENT


def test_no_cut_of_a_healthy_report_accuses_anything():
    plain = report()
    begin = plain.index(b"lspci")
    for at in range(begin, len(plain) - 1, 400):
        assert faults(plain[:at]) == set(), at


def test_gpu_that_needs_a_reset_says_so_in_older_branches():
    old = gpu(SLOTS[1]).replace(
        "    GPU Recovery Action                   : None\n",
        "    GPU Reset Status\n        Reset Required : Yes\n",
    )
    counters = [
        line
        for line in old.split("\n")
        if "Slowdown               : 0 us" not in line and "Braking" not in line
    ]
    assert ("gpu-errors", SLOTS[1]) in faults(
        report(smi=long_text(gpu(SLOTS[0]), "\n".join(counters)))
    )


def test_lines_that_end_as_in_windows_are_read():
    assert faults(report(dmesg=LOG + LOST).replace(b"\n", b"\r\n")) == {
        ("gpu-errors", "0000:65:00.0")
    }


@pytest.mark.parametrize(
    "row", ["    a" + " " * 40_000 + "b", "Name    : a" + " " * 40_000 + "b", " " * 40_000 + ":"]
)
def test_blanks_in_a_row_take_linear_time(row):
    before = process_time()
    assert (
        reader(report(smi=long_text(gpu(SLOTS[0]) + row + "\n", gpu(SLOTS[1]))))
        .query(QUERIES[2])
        .status
        == 0
    )
    assert process_time() - before < 10  # what is quadratic takes minutes


def test_many_small_members_and_sections_are_bounded():
    before = process_time()
    many = gzip.compress(report()) + gzip.compress(b"x") * 60_000
    assert reader(many).source
    with pytest.raises(BadInput, match="more sections"):
        reader(report(more="\nx\n" + f"{RULE}\n\nhead\n" * 30_000))
    assert process_time() - before < 20  # what is quadratic takes minutes


def test_one_slot_many_times_takes_no_square_of_time():
    before = process_time()
    assert len(devices_in(device(SLOTS[0]) * 20_000)) == 1
    (one,) = devices_in(*(device(SLOTS[0]).rstrip() + "\n\tx" * 40 for _ in range(12_000)))
    assert len(one.details) > 480_000
    assert process_time() - before < 20


@pytest.mark.parametrize("path", ["/etc/../x", "/a\0b", "/" + "a" * 5000, "//x"])
def test_path_that_names_nothing_is_passed_over(path):
    assert list(sections_of(f"{RULE}\n\n*** {path} does not exist\n")) == []


@pytest.mark.parametrize(
    "when",
    ["9999-99-99 10:00:00.0 +0000", "0001-01-01 00:00:00.0 +1400", "2026-11-20 10:00:00.0 +9999"],
)
def test_time_that_no_calendar_knows_is_none(when):
    (one,) = sections_of(
        f"{RULE}\n\n*** /proc/x\n*** ls: -r--r--r-- 1 root root 0 {when} /proc/x\nbody\n"
    )
    assert (one.seen_at, one.text) == (0.0, "body\n")


def test_bomb_is_read_to_its_limit_only(monkeypatch):
    monkeypatch.setattr(bug_report, "MOST", 1 << 20)
    bomb = packed(report() + b"\0" * (64 << 20), members=1)
    assert len(bomb) < 1 << 20
    with pytest.raises(BadInput, match="longer than any of nvidia-bug-report"):
        reader(bomb)
    monkeypatch.setattr(bug_report, "MOST_LINES", 10)
    with pytest.raises(BadInput, match="longer"):
        reader(report())


def test_broken_files_are_read_as_far_as_they_go():
    whole = packed(report(dmesg=LOG + LOST), members=40)
    chance = random.Random(7)  # noqa: S311 - a test that comes out the same each time
    for _ in range(120):
        cut = bytearray(whole[: chance.randrange(200, len(whole))])
        for _ in range(chance.randrange(3)):
            cut[chance.randrange(len(cut))] = chance.randrange(256)
        if is_bug_report(bytes(cut)):
            door = reader(bytes(cut))
            assert door.source.startswith("nvidia-bug-report.sh")
            assert len(list(source_lines(door.report, "x", 0.0))) >= 2


def test_garbage_inside_raises_nothing():
    chance = random.Random(11)  # noqa: S311 - a test that comes out the same each time
    plain = report(dmesg=LOG + LOST)
    for _ in range(60):
        content = bytearray(plain)
        for _ in range(chance.randrange(1, 60)):
            content[chance.randrange(400, len(content))] = chance.randrange(256)
        door = reader(bytes(content))
        for question in QUERIES:
            door.query(question)
        for one in ("gpus", "nvidia", "driver"):
            getattr(Facts(door), one)


# --- commands


@pytest.fixture
def sick(tmp_path):
    path = tmp_path / "nvidia-bug-report.log.gz"
    path.write_bytes(packed(report(dmesg=LOG + LOST)))
    return path


def test_health_says_what_is_wrong(run, sick):
    status, out, err = run("health", "--host", sick)
    assert status == 1
    assert "Xid 79 (the GPU has fallen off the bus)" in " ".join(out.split())
    assert "a report of nvidia-bug-report.sh 34275367 on gpu7" in err
    assert "A report of nvidia-bug-report.sh 34275367 does not hold what is asked for" in " ".join(
        out.split()
    )


def test_plan_is_refused_and_a_record_is_kept(run, sick, tmp_path):
    status, _, err = run("plan", "--host", sick)
    assert (status, "does not hold all that a plan needs" in err, "sudo hosttune plan" in err) == (
        2,
        True,
        True,
    )
    kept = tmp_path / "kept.json"
    assert run("record", "--host", sick, kept)[0] == 0
    out = run("health", "--host", kept)[1]
    assert "Xid 79" in out
    assert "A report of nvidia-bug-report.sh 34275367 does not hold what is asked for" in " ".join(
        out.split()
    )
    assert run("plan", "--host", kept)[0] == 2
    status, _, err = run("record", "--host", kept, tmp_path / "x")
    assert (status, "a record of a record" in err) == (2, True)


def test_driver_and_report_read_them(run, sick):
    assert "570.86.15" in run("driver", "--host", sick)[1]
    status, out, _ = run("report", sick.parent)
    assert (status, "gpu7" in out, "1 with a fault" in out) == (1, True, True)


# --- real ones


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="the real reports are not here: ../shared/corpus/support"
)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01", {("gpu-driver-health", "nvidia-smi refuses")}),
        ("02", set()),
        ("04", set()),
        ("05", {("gpu-driver-health", "GPU lost"), ("gpu-errors", "0000:04:00.0")}),
        ("06", set()),
        ("08", {("gpu-driver-health", "nvidia-smi refuses")}),
        ("09", set()),
        ("11", set()),
        ("12", set()),
        ("14", set()),
    ],
)
def test_real_report(name, expected):
    assert faults((SHARED / f"{name}.log.gz").read_bytes()) == expected
