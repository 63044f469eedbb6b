"""Lines of the kernel log in which the kernel quotes what a user chose: they count for their own
rule, and for no other.
"""

import json
import re

import pytest

from hosttune.actions.record.record import take_record
from hosttune.facts import Facts
from hosttune.facts.gpu.gpu_errors import sxids_in, xids_in
from hosttune.facts.gpu.nvidia_smi import (
    is_rejected,
    messages_in,
    needs_open,
    not_for_open,
    sentences_of,
)
from hosttune.facts.kernel.host_log import (
    cards_in,
    choose_lines,
    count_severities,
    lockups_in,
    modules_in,
)
from hosttune.facts.kernel.kernel_log import (
    DMESG,
    JOURNAL,
    leave_users_out,
    lines_of,
    message_of,
    reach_of,
)
from hosttune.facts.storage import storage_log
from tests.unit.fake_reader import FakeReader

NOW = 1_780_000_000.0
SLOT = "0000:17:00.0"
# What each rule takes for a sign, as the kernel and its drivers write it.
GENUINE = (
    "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [python3:77]",
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3",
    "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies s: 1 root: 0x8/.",
    "INFO: rcu_tasks detected stalls on tasks:",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=python3,pid=1,uid=0",
    "{1}[Hardware Error]: event severity: fatal",
    "{2}[Hardware Error]: event severity: corrected",
    "[Hardware Error]: event severity: fatal",
    "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000800400",
    "[Hardware Error]: CPU:0 (19:1:1) MC17_STATUS[Over|UE|MiscV|AddrV|-|-|SyndV|UECC|-|-|-]: 0xfc2000000000011b",
    "CMCI storm detected: switching to poll mode",
    "mce: CPU3 BANK7 CMCI storm detected",
    "EDAC MC0: 5 CE memory read error on DIMM_A1 (channel:0 slot:0 page:0x0 offset:0x0 grain:32 syndrome:0x0)",
    "EDAC MC0: 5 CE on DIMM_A1 (channel:0 slot:0 page:0x0 offset:0x0 grain:32 syndrome:0x0)",
    f"mlx5_core {SLOT} ib0: Link down",
    f"e1000e {SLOT} eno1: NIC Link is Down",
    f"igb {SLOT} eno1: igb: eno1 NIC Link is Down",
    f"r8169 {SLOT} eno1: Link is Down",
    f"mlx5_core {SLOT}: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
    f"mlx5_core {SLOT}: port_module:256:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
    f"mlx5_core {SLOT}: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    "EXT4-fs (sda1): Remounting filesystem read-only",
    "EXT4-fs (sda1): shut down requested (2)",
    "nfs: server nfs01 not responding, still trying",
    "I/O error, dev sda, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "blk_update_request: critical medium error, dev sda, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "nvidia-nvswitch0: SXid (PCI:0000:0b:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2d04) installed in this system requires use of the NVIDIA open kernel modules.",
    "NVRM: GPU 0000:43:00.0: RmInitAdapter failed! (0x22:0x56:884)",
    f"nvidia {SLOT}: Direct firmware load for nvidia/570.172.08/gsp_ga10x.bin failed with error -4",
    f"nvidia {SLOT}: loading /lib/firmware/nvidia/570.172.08/gsp_ga10x.bin failed with error -4",
    f"nvidia {SLOT}: firmware: failed to load nvidia/570.172.08/gsp_ga10x.bin (-2)",
    "Loading of module with unavailable key is rejected",
    "PKCS#7 signature not signed with a trusted key",
    "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    "Linux version 6.8.0-60-generic (buildd@lcy02)",
    "Run /sbin/init as init process",
)  # fmt: skip


def comm(text):
    return text[:15]


def interface(text):
    """dev_valid_name() of net/core/dev.c takes neither blanks nor colons."""
    return re.sub(r"[\s:/]", "_", comm(text))


SEGFAULT = "segfault at 0 ip 0000000000401136 sp 00007ffd2b9b6c30 error 6 in"
# Where the kernel prints what a user chose; `{}` of a program is at most 15 bytes of it.
CARRIERS = {
    "control group": lambda text: f"cgroup: fork rejected by pids controller in /user.slice/{text}",
    "killed in its group": lambda text: (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={text},mems_allowed=0,oom_memcg=/{text},"
        f"task_memcg=/{text},task={comm(text)},pid=1,uid=1001"
    ),
    "killed": lambda text: f"Memory cgroup out of memory: Killed process 7 ({comm(text)}) total-vm:1kB, anon-rss:1kB",
    "file": lambda text: f"python3[123]: {SEGFAULT} {text}[401000+1000] likely on CPU 1 (core 1, socket 0)",
    "program and file": lambda text: f"{comm(text)}[123]: {SEGFAULT} {text[15:]}[401000+1000]",
    "fault": lambda text: f"traps: {comm(text)}[7] general protection fault ip:401136 sp:7ffd error:0 in {text}[401000+1000]",
    "signal frame": lambda text: f"{comm(text)}[7] bad frame in rt_sigreturn frame:0 ip:0 sp:0 orax:0 in {text}[401000+1000]",
    "signal": lambda text: f"{comm(text)}/77: potentially unexpected fatal signal 11.",
    "killer": lambda text: f"{comm(text)} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "allocation": lambda text: (
        f"{comm(text)}: page allocation failure: order:5, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset={text},mems_allowed=0"
    ),
    "program of bytes": lambda text: f"{comm(text)[:7]}{chr(92)}x01{chr(92)}x02{chr(92)}x03{chr(92)}x04[123]: {SEGFAULT} x[401000+1000]",
    "timer": lambda text: f"{comm(text)} calls setitimer() with new_value NULL pointer. Misfeature support will be removed",
    "old socket": lambda text: f"{comm(text)} uses obsolete (PF_INET,SOCK_PACKET)",
    "old mapping": lambda text: f"{comm(text)} (77) uses deprecated remap_file_pages() syscall. See Documentation/mm/remap_file_pages.rst.",
    "stack depth": lambda text: f"{comm(text)} (77) used greatest stack depth: 12 bytes left",
    "end of device": lambda text: f"{comm(text)}: attempt to access beyond end of device",
    "too many signals": lambda text: f"{comm(text)}/77: reached RLIMIT_SIGPENDING, dropped signal 34",
    "suppressed": lambda text: f"{comm(text)}: 7 output lines suppressed due to ratelimiting",
    "sysctl": lambda text: f"{comm(text)} wrote to ip_forward when file position was not 0!",
    "program file": lambda text: f"{text}: {comm(text)}: potentially unexpected fatal signal 11.",
    "LOG rule": lambda text: f"{text[:127]}IN= OUT=lo SRC=127.0.0.1 DST=127.0.0.1 LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=5 PROTO=ICMP",
    "LOG rule of a bridge": lambda text: f"{text[:127]}IN=eth0 OUT= MACSRC=00:11:22:33:44:55 MACDST=00:11:22:33:44:56 MACPROTO=0800",
    "LOG rule of ARP": lambda text: f"{text[:127]}IN=eth0 OUT= ARP HTYPE=1 PTYPE=0x0800 OPCODE=1",
    "caches": lambda text: f"{comm(text)} (77): drop_caches: 3",
    "system call": lambda text: f"process `{comm(text)}' is using deprecated sysctl (syscall) net.ipv6.{text}",
    "stack": lambda text: f"process '{text}' started with executable stack",
    "USB": lambda text: f"usb 1-1: Product: {text}",
    "network interface": lambda text: f"{interface(text)}: renamed from veth0",
    "bridge": lambda text: f"br0: port 1({interface(text)}) entered blocking state",
    "interface called NVRM": lambda text: f"NVRM: port 1({interface(text)}) entered blocking state",
    "audit": lambda text: f'audit: type=1400 audit(1.1:1): apparmor="DENIED" name="{text}" comm="{comm(text)}"',
    "lockdown": lambda text: f"Lockdown: {comm(text)}: hibernation is restricted; see man kernel_lockdown.7",
    "overlay": lambda text: f"overlayfs: failed to resolve '/tmp/{text}': -2",
    "label": lambda text: f"EXT4-fs error (device sdb1): ext4_lookup:1: inode #2: comm {comm(text)}: {text}",
    "Xid": lambda text: f"NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name={comm(text)}, Ch 00000010, intr 00000000",
    "hung task": lambda text: f"INFO: task {comm(text)}:7 blocked for more than 122 seconds.",
    "locked up": lambda text: f"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [{comm(text)}:7]",
    "service": lambda text: f"systemd[1]: Starting {text}...",
}  # fmt: skip
# A user mounts an overlay in a namespace of his own: the kernel quotes any path. Both programs
# indent a second line.
ENDS = {
    "line": f"\n{'':26}",
    "U+2028": "\u2028",
    "U+0085": "\x85",
    "vertical tab": "\x0b",
    "carriage return": "\r",
}


def told(log):
    """All that facts make of a log, but for how programs are called."""
    log = leave_users_out(log)
    words = [message_of(line)[1] for line in choose_lines(log)]
    kept = storage_log.choose_lines(log)
    messages = messages_in(log)
    sentences = sentences_of(messages)
    return {
        "lockups": [one.partition(" in ")[0] for one in lockups_in(words)],
        "out of memory": sum(word.startswith("oom-kill:") for word in words),
        "hardware": count_severities(words),
        "modules": modules_in(words),
        "cards": cards_in((), words, words, words),
        "others": sum(word.startswith(("nvidia-peermem", "CMCI", "mce: CPU3 B")) for word in words),
        "refusing": storage_log.refusing_in(kept),
        "silent": storage_log.silent_in(kept, NOW),
        "disks": storage_log.errors_in(kept, NOW),
        "hung": sum("blocked for more" in line for line in kept),
        "GPUs": xids_in(messages),
        "switches": sxids_in(messages),
        "driver": (
            len(messages),
            needs_open(sentences),
            not_for_open(sentences),
            is_rejected(messages),
        ),
        "head": len(reach_of(log)),
    }


def in_journal(text):
    return f"{NOW - 60:.6f} kernel: {text}\n"


def in_buffer(text):
    return f"[ 7000.000001] {text}\n"


@pytest.mark.parametrize("line", GENUINE)
@pytest.mark.parametrize(
    "written", [in_journal, in_buffer, "[ 7000.000001] [   T4711] {}\n".format]
)
def test_what_the_kernel_itself_says_counts(line, written):
    assert told(written(line)) != told(written("usb 1-1: new device"))


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
@pytest.mark.parametrize("written", [in_journal, in_buffer])
def test_what_a_user_chose_counts_for_nothing(carrier, written):
    quiet = told(written(carrier("harmless")))
    for line in GENUINE:
        assert told(written(carrier(line))) == quiet, carrier(line)
        assert told(written(carrier(line[8:]))) == quiet, carrier(line[8:])


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_a_user_chose_begins_no_line_of_its_own(end):
    carrier = CARRIERS["overlay"]
    for line in GENUINE:
        assert told(in_journal(carrier(f"x{end}{line}"))) == told(in_journal(carrier("harmless")))
        assert lines_of(in_buffer(carrier(f"x{end}{line}"))) != []


@pytest.mark.parametrize("line", GENUINE[-2:])
def test_log_is_not_made_whole_by_what_a_user_chose(line):
    """A log without its head may have lost lines: what it does not say is unknown."""
    for carrier in CARRIERS.values():
        later = GENUINE[0]
        for answers in (
            {JOURNAL: in_journal(carrier(line)) + in_journal(later)},
            {DMESG: in_buffer(carrier(line)) + in_buffer(later)},
        ):
            log = Facts(
                FakeReader({"/proc/uptime": "864000.00 1.00\n"}, queries=answers, now=NOW)
            ).kernel_log
            assert not log.is_whole, carrier(line)


def test_name_of_a_program_is_no_word_of_an_xid():
    """Of an error of NVLink the driver says in the next word whether it is fatal."""
    line = "NVRM: Xid (PCI:0000:1b:00): 145, pid=7, name={}, RLW_SRC_TRACK Nonfatal XC0 i0 Link 13 (0x040988e2 0x8 0x0)"
    seen = [
        xids_in([line.format(name)], "570.1")
        for name in ("ray::W", "a, X Fatal (0x1", "a Fatal b", "")
    ]
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("end", ["", *ENDS.values()], ids=["", *ENDS])
@pytest.mark.parametrize("program", [JOURNAL, DMESG])
def test_file_name_of_a_program_that_crashed_is_no_word_of_the_kernel(program, end):
    """As uid 4001 on Linux 6.18 with kernel.print-fatal-signals=1; also in a record, which keeps no
    second lines.
    """
    write = in_journal if program == JOURNAL else in_buffer
    fault = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    log = write(f"{fault}{end}: NVRM: Xid (PCI:: potentially unexpected fatal signal 11.") + write(
        GENUINE[0]
    )
    log += write(f"{fault}{end * 3}{'x' * 60}IN=lo OUT= SRC=127.0.0.1 DST=127.0.0.1 LEN=28")
    host = FakeReader({"/proc/uptime": "864000.00 1.00\n"}, queries={program: log}, now=NOW)
    kept = take_record(host, lambda door: door.query(program), share=False, tool_version="0")
    assert "fallen off" not in json.dumps(kept)
    assert "fallen off" not in Facts(host).kernel_log.both


@pytest.mark.parametrize(
    "name", ["IN= OUT=a SRC=1", "x IN= OUT= ARP ", "fatal signal 1.", "x[1]: a", r"\x01\x02[1]: a"]
)
def test_name_of_a_program_hides_no_message_of_the_driver(name):
    line = "NVRM: Xid (PCI:0000:1b:00): 48, pid=7, name={}, DBE (double bit error), Ch 00000010"
    for written in (in_journal, in_buffer):
        assert told(written(line.format(comm(name)))) == told(written(line.format("python")))
    # without it journalctl prints `[75B blob data]` in the place of a message with an unprintable
    # byte
    assert "--all" in JOURNAL


def test_programs_that_write_to_the_log_are_not_asked_for():
    """Of what programs write to /dev/kmsg the journal cuts the first word off, and calls it their
    name.
    """
    assert "SYSLOG_FACILITY=0" in JOURNAL
    assert DMESG == ("dmesg", "--kernel")
    assert next(word for word in JOURNAL if word.startswith("--grep=")).startswith("--grep=^(?:")


def test_record_of_an_older_release_answers_by_its_own_words():
    from hosttune.facts.kernel.kernel_log import _OLD
    from hosttune.values import NeverAsked, Unreadable

    gone = Unreadable(NeverAsked("not in this record: the answer of journalctl"))
    assert len(_OLD[JOURNAL]) == 10
    for number, journal in enumerate(_OLD[JOURNAL]):
        olds = dict.fromkeys(_OLD[JOURNAL][:number], gone) | {journal: in_journal(GENUINE[0])}
        answers = {JOURNAL: gone, DMESG: gone, _OLD[DMESG][0]: in_buffer(GENUINE[-2])} | olds
        facts = Facts(FakeReader({"/proc/uptime": "7200.00 1.00\n"}, queries=answers, now=NOW))
        assert facts.host_log.lockups == ("soft lockup in python3 (22 s)",)
        assert facts.kernel_log.is_whole


@pytest.mark.parametrize(
    "version",
    [
        "\nNVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen",
        "\nNVRM: loading NVIDIA UNIX",
        "requires use of the NVIDIA open kernel modules",
        "supported through the NVIDIA 470.xx Legacy",
    ],
)
def test_version_that_a_client_sends_to_the_driver_is_no_message(version):
    """As dmesg(1) prints a message of several lines; the version is any user's, and what follows is
    the driver's.
    """
    head = "1795950000.123456 kernel: "
    text = f"NVRM: API mismatch: the client has the version {version}, but\nNVRM: this kernel module has the version 550.54."
    real = f"{head}NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.\n"
    log = real + head + text.replace("\n", "\n" + " " * len(head)) + "\n"
    assert messages_in(log) == messages_in(real)
    assert len(messages_in(log)) == 1
