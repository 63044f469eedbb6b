"""A sosreport as a record: what it tells, what it does not, and what a stranger may send."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import resource
import subprocess
import sys
import tarfile
import time
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import process_time

import pytest

from hosttune import facts as facts_of_hosts
from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import BadInput
from hosttune.facts import Facts, UnknownFact
from hosttune.host.reading import named, paths
from hosttune.host.record.record import read_record, reader_of
from hosttune.host.support import archive, is_support_file
from hosttune.host.support.archive import read_archive
from hosttune.host.support.bug_report import is_bug_report
from hosttune.host.support.reader import read_support_folder
from hosttune.host.support.sos import FILES_OF_GROUPS, read_sosreport
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable, Verdict
from hosttune.views.support import source_lines
from tests.unit import sos_reports
from tests.unit.sos_reports import (
    FOLDERS,
    HOSTNAMECTL,
    LOG,
    LOST,
    NOT_REACHED,
    SLOTS,
    TOP,
    device,
    gpu,
    long_text,
    member,
    pack,
    sos_members,
    sosreport,
)

DMESG, SMI, LSPCI = ("kernel", "dmesg"), ("nvidia", "nvidia-smi -q"), ("pci", "lspci -nnvv")
DAY_S = 86_400


@cache
def rules():
    catalog = builtin_catalog()
    policy = Policy(today="2026-11-28")
    return catalog, replace(policy, sole=health_rules(catalog, policy))


def reader(content, name="sosreport.tar.xz"):
    return reader_of(content, name)


def findings(content):
    return ask(examine(reader(content), *rules(), collect=False), 2)


def faults(content):
    return {(one.rule, one.subject) for one in findings(content) if one.is_fault}


def verdicts(content, rule):
    catalog, policy = builtin_catalog(), Policy(today="2026-11-28")
    plan = examine(reader(content), catalog, policy).plan(prove=False)
    return {one.verdict for one in plan.findings if one.rule == rule}


def said(content, now=0.0):
    return list(source_lines(read_sosreport(content, "x", "1"), "x.tar.xz", now))


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:xz"])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archive_is_known_by_its_content(mode, form):
    content = pack(sos_members(), mode, form=form)
    assert is_support_file(content)
    assert not is_bug_report(content)
    assert reader(content).source == "sos 4.9.1"


def test_archive_is_the_record_of_its_host():
    door = reader(sosreport())
    facts = Facts(door)
    assert (door.data["name"], door.is_privileged) == ("gpu7", True)
    assert [one.slot for one in facts.gpus.devices] == list(SLOTS)
    assert [one.driver for one in facts.gpus.devices] == ["nvidia", "nvidia"]
    assert (facts.driver.loaded_version, facts.nvidia.smi, facts.kernel.release) == (
        "570.86.15", "answers", "6.8.0-60-generic",
    )  # fmt: skip
    assert (facts.os.id, facts.os.version_id, facts.host.is_container) == ("ubuntu", "24.04", False)


def test_mounts_are_those_of_the_first_process_where_sos_ran_on_the_host_itself():
    files = {"proc/1/mountinfo": "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"}
    assert [one.target for one in Facts(reader(sosreport(files=files))).mounts.all] == ["/"]
    in_a_container = {("host", "hostnamectl status"): HOSTNAMECTL.replace("server", "container")}
    cleaned = {"etc/sysctl.d/10-local.conf": "# 53:4f:53:11:22:33\n"}
    for other in (sosreport(answers=in_a_container, files=files), sosreport(files=files | cleaned)):
        with pytest.raises(UnknownFact, match="not in this record: /proc/self/mountinfo"):
            _ = Facts(reader(other)).mounts.all


def test_archive_of_a_container_is_judged_as_one():
    """What belongs to its host is asked of that host, and unknown is not the answer."""
    words = HOSTNAMECTL.replace("server", "container") + "  Virtualization: lxc\n"
    content = sosreport(answers={("host", "hostnamectl status"): words})
    host = Facts(reader(content)).host
    assert (host.is_container, host.container) == (True, "lxc")
    assert host.container_evidence[0] == "sos 4.9.1 ran in a container, by what it could read there"
    assert verdicts(content, "gpu-pcie-link") == {Verdict.NOT_APPLICABLE}
    assert faults(content) == set()


def test_healthy_archive_accuses_nothing_and_is_never_fit():
    found = findings(sosreport())
    assert [one for one in found if one.is_fault or one.verdict is Verdict.DIFFERS] == []
    assert any(one.verdict is Verdict.UNKNOWN for one in found)
    assert {one.verdict for one in found if one.rule in ("gpu-throttle", "gpu-bar1")} == {
        Verdict.OK
    }


SICK = {
    "a GPU fell off the bus": ({DMESG: LOG + LOST}, {}, ("gpu-errors", SLOTS[1])),
    "a GPU is lost": ({SMI: long_text(gpu(SLOTS[0]))}, {}, ("gpu-errors", SLOTS[1])),
    "nvidia-smi cannot reach the driver": (
        {SMI: NOT_REACHED, LSPCI: "".join(device(slot, driver="") for slot in SLOTS)},
        {"proc/modules": "xfs 1 1 - Live 0\n", "proc/driver/nvidia/version": None},
        ("gpu-driver-health", "nvidia-smi refuses"),
    ),
    "a GPU asks for a reset": (
        {SMI: long_text(gpu(SLOTS[0]), gpu(SLOTS[1], recovery="Reset"))}, {}, ("gpu-errors", SLOTS[1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SICK)
def test_fault_that_an_archive_proves(name):
    answers, files, expected = SICK[name]
    assert expected in faults(
        sosreport(answers=answers, files=files, **{"nvidia-smi -q": {"return_code": 9}})
    )


@pytest.mark.parametrize("status", [124, 137, None, True])
def test_nvidia_smi_that_did_not_end_loses_no_gpu(status):
    """What a time limit cut off names fewer GPUs."""
    content = sosreport(
        answers={SMI: long_text(gpu(SLOTS[0]))},
        **{"nvidia-smi -q": {"return_code": status, "truncated": status is True}},
    )
    assert faults(content) == set()


def test_answers_that_are_cut_or_failed_do_not_count():
    for changed in ({"truncated": True}, {"return_code": 1}, {"filepath": None}, {"exec": 7}):
        assert isinstance(reader(sosreport(dmesg=changed)).query(("dmesg", "--kernel")), Unreadable)
    assert "the kernel log in it does not count: there is none that is whole" in said(
        sosreport(dmesg={"truncated": True})
    )


def test_what_an_archive_is_stands_before_the_answer():
    content = sosreport(
        kernel={"timeout_hit": True}, dmesg={"return_code": 124}, files={"etc/fstab": "x=******\n"}
    )
    at = read_sosreport(content, "x", "1").collected_at
    assert said(content, at + 9 * DAY_S) == [
        (
            "x.tar.xz: a report of sos 4.9.1 on gpu7 of 2026-11-20 10:00 UTC (9 days ago); "
            "kernel 6.8.0-60-generic, driver 570.86.15"
        ),
        "it holds a part of that host, and no policy: rules that ask for more are not judged",
        "these plugins of sos did not come to their end there: kernel",
        "sos masked values in 1 file, which does not count",
        "the kernel log in it does not count: there is none that is whole",
    ]


# --- absent, unknown and masked


def test_what_is_not_collected_is_unknown_and_never_absent():
    door = reader(sosreport())
    assert door.read("/etc/sysctl.d/99-other.conf") is ABSENT  # sos took that folder whole
    for path in (
        "/usr/local/lib/sysctl.d/x.conf",
        "/etc/fstab",
        "/proc/swaps",
        "/var/lib/dpkg/status",
    ):
        answer = door.read(path)
        assert isinstance(answer, Unreadable), path
        assert (
            "sos 4.9.1 does not hold what is asked for" in answer.reason or "not" in answer.reason
        )
    assert isinstance(door.list("/usr/local/lib/sysctl.d"), Unreadable)


NOT_PROVEN = {
    "the plugin timed out": {"kernel": {"timeout_hit": True}},
    "files were left out by the command line": {
        "head": {"cmdline": "report --skip-files /etc/sysctl.d/*"}
    },
    "files were left out by sos.conf": {
        "files": {"etc/sos/sos.conf": "[report]\nskip-files = /etc/sysctl.d/x\n"}
    },
    "a path is in it twice": {"files": {"etc/./sysctl.d/10-local.conf": "x"}},
    "the folder was not taken": {"kernel": {"files": []}},
}


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_absence_is_proven_only_where_the_folder_is_whole(name):
    assert isinstance(
        reader(sosreport(**NOT_PROVEN[name])).read("/etc/sysctl.d/99-other.conf"), Unreadable
    )


def test_cron_is_read_as_its_plugin_took_it_and_is_else_not_known(monkeypatch):
    files = {"etc/cron.d/site": "0 1 * * * root x\n", "var/spool/cron/crontabs/root": "@reboot x\n"}
    door = reader(sosreport(files=files))
    assert door.read("/var/spool/cron/crontabs/root") == b"@reboot x\n"
    places = ("/etc/cron.d", "/etc/cron.daily", "/var/spool/cron/crontabs")
    assert all(isinstance(door.list(place), Unreadable) for place in places)
    monkeypatch.setitem(
        sos_reports.SPECIFICATIONS, "cron", ("/etc/cron*", "/var/log/cron", "/var/spool/cron")
    )
    door = reader(sosreport(files=files))
    assert [tuple(door.list(place)) for place in (places[0], places[2])] == [("site",), ("root",)]
    assert isinstance(
        door.list("/etc/cron.daily"), Unreadable
    )  # it is not in it: that proves nothing
    door = reader(sosreport(files=files, cron={"timeout_hit": True}))
    assert isinstance(door.list("/etc/cron.d"), Unreadable)


def test_own_state_and_folders_of_run_count_where_they_are_in_it():
    files = {
        "run/sysctl.d/x.conf": "vm.swappiness = 1\n",
        "var/lib/hosttune/health/baseline.json": "{}",
    }
    door = reader(sosreport(files=files))
    assert [door.read(f"/{place}") for place in files] == [text.encode() for text in files.values()]
    assert all(isinstance(reader(sosreport()).read(f"/{place}"), Unreadable) for place in files)
    assert isinstance(door.list("/run/sysctl.d"), Unreadable)
    assert isinstance(door.list("/var/lib/systemd/coredump"), Unreadable)


def test_masked_is_no_value():
    door = reader(
        sosreport(files={"etc/sysctl.d/x.conf": "net.x.password = ********\n", "proc/swaps": ""})
    )
    assert "sos masked values in it" in door.read("/etc/sysctl.d/x.conf").reason
    assert "empty" in door.read("/proc/swaps").reason
    assert "x.conf" in door.list("/etc/sysctl.d")


def test_of_a_cleaned_archive_only_files_of_the_kernel_count():
    content = sosreport(answers={("host", "ip -o addr"): "inet 100.0.0.1/24\n"})
    for door in (
        reader(content),
        reader(sosreport(), "sosreport-host0-2026-11-20-abc-obfuscated.tar.xz"),
    ):
        assert isinstance(door.read("/etc/sysctl.d/10-local.conf"), Unreadable)
        assert isinstance(door.read("/etc/sysctl.d/99-other.conf"), Unreadable)
        assert door.read("/proc/sys/vm/max_map_count") == b"65530\n"
    assert faults(sosreport(answers={DMESG: LOG + LOST, ("host", "x"): "53:4f:53:00:00:01"})) == {
        ("gpu-errors", SLOTS[1])
    }
    assert any("sos clean" in line for line in said(content))


@pytest.mark.parametrize("word", ["obfuscated", "53:4f:53:00:00:01", "100.0.0.1"])
def test_title_of_a_process_does_not_call_an_archive_cleaned(word):
    rows = f"F S UID PID PPID CMD\n0 S eve 4242 1 0 19 0 - 1 - 10:00 ? 00:00:00 {word}\n"
    content = sosreport(answers={("process", "ps auxwwwm"): rows})
    assert reader(content).read("/etc/sysctl.d/10-local.conf") == b"vm.max_map_count = 65530\n"
    assert not any("sos clean" in line for line in said(content))


def test_file_that_was_cut_to_its_end_is_unreadable():
    door = reader(sosreport(links={"etc/sysctl.d/x.conf": "../../sos_strings/kernel/x.tailed"}))
    assert "only its end" in door.read("/etc/sysctl.d/x.conf").reason


def test_links_stay_in_the_host():
    door = reader(
        sosreport(
            links={"etc/a": "../../../../../../etc/shadow", "etc/b": "sysctl.d/10-local.conf"}
        )
    )
    assert isinstance(door.read("/etc/a"), Unreadable)
    assert door.read("/etc/b") == b"vm.max_map_count = 65530\n"


# --- archives of strangers


def test_truncated_archive_is_read_as_far_as_it_goes():
    whole = sosreport(mode="w:", answers={DMESG: LOG + LOST})
    cut = whole[
        : whole.rindex(b"ustar", 0, len(whole)) - 300 + 1200
    ]  # amid the last member, the manifest
    with pytest.raises(BadInput, match=r"no readable sos_reports/manifest\.json"):
        reader(cut)
    members = sos_members(answers={DMESG: LOG + LOST})
    late = pack([members[-1], *members[:-1]], "w:")
    cut = late[: late.index(b"/usr/lib/os-release")]
    door = reader(cut)
    assert ("gpu-errors", SLOTS[1]) in faults(cut)
    assert isinstance(door.read("/etc/sysctl.d/99-other.conf"), Unreadable)
    assert (
        "it is not whole: the archive breaks off, so that nothing is absent because it is not in it"
        in said(cut)
    )


def test_no_cut_accuses_anything():
    members = sos_members()
    whole = pack([members[-1], *members[:-1]], "w:")
    for at in range(1024, len(whole), 3072):
        try:
            assert faults(whole[:at]) == set(), at
        except BadInput:
            continue


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../x",
        f"{TOP}/../../x",
        "other/etc/x",
        f"{TOP}\0x/etc/a",
        ".",
        f"{TOP}/" + "a/" * 10_000,
    ],
)
def test_members_outside_the_one_folder_are_refused(name):
    info, data = member("x", content="x")
    info.name = name
    if "\0" in name:
        info.pax_headers = {"path": name}
    with pytest.raises(BadInput, match="outside its one folder"):
        reader(pack([*sos_members(), (info, data)]))


@pytest.mark.parametrize(
    "kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE, b"Z"]
)
def test_devices_and_hard_links_are_no_files(kind):
    content = pack(
        [
            *sos_members(),
            member(f"{TOP}/etc/sysctl.d/x", kind, target=f"{TOP}/etc/sysctl.d/10-local.conf"),
        ]
    )
    assert isinstance(reader(content).read("/etc/sysctl.d/x"), Unreadable)
    assert "x" in reader(content).list("/etc/sysctl.d")


@pytest.mark.parametrize("second", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_path_that_is_twice_does_not_count(second):
    double = member(f"{TOP}/proc/sys/vm/max_map_count", second, target="/etc/x")
    content = pack([*sos_members(), double])
    assert isinstance(reader(content).read("/proc/sys/vm/max_map_count"), Unreadable)
    assert "it has these twice, so that neither counts: proc/sys/vm/max_map_count" in said(content)


def test_deep_and_many_members_take_linear_time(monkeypatch):
    before = process_time()
    deep = [
        member(f"{TOP}/etc/" + "/".join("a" * number), tarfile.DIRTYPE) for number in range(1, 2000)
    ]
    many = [member(f"{TOP}/etc/x/{number}", content="x") for number in range(10_000)]
    with pytest.raises(BadInput):
        reader(
            pack(
                [
                    *sos_members(),
                    *deep,
                    *many,
                    member(f"{TOP}/etc/" + "a/" * 10_000, tarfile.DIRTYPE),
                ]
            )
        )
    assert reader(pack([*sos_members(), *deep, *many])).source
    assert process_time() - before < 30  # what is quadratic takes minutes
    monkeypatch.setattr(archive, "MOST_MEMBERS", 5)
    with pytest.raises(BadInput, match="more than any"):
        reader(sosreport())


def test_headers_of_headers_and_long_ones_are_refused():
    info, data = member(f"{TOP}/etc/x")
    info.pax_headers = {"comment": "x" * (1 << 20)}
    with pytest.raises(BadInput, match="more than any"):
        reader(pack([*sos_members(), (info, data)], "w:"))
    one = tarfile.TarInfo("x")
    one.type = tarfile.GNUTYPE_LONGNAME
    many = one.tobuf(tarfile.GNU_FORMAT) * 20_000
    assert is_support_file(many)
    with pytest.raises(BadInput):
        reader(many)


BOMB = """
import lzma, gzip, re, resource, sys
from hosttune.errors import BadInput
from hosttune.host.record.record import read_record, reader_of
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
content = sys.stdin.buffer.read()
try:
    reader_of(content, "x")
except BadInput as error:
    print(error.faults[0].message)
# not ru_maxrss, which exec(2) keeps from the process that started this one
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) >> 10)
"""


# The head of a stream without a checksum, and that of its block: LZMA2 with a dictionary of 1 MiB
# (xz's file format, 2.1.1, 3.1 and 5.3.1).
_BLOCK = b"\x02\x00\x21\x01\x10\x00\x00\x00"
XZ_HEAD = b"\xfd7zXZ\0\0\0" + zlib.crc32(b"\0\0").to_bytes(4, "little")
XZ_HEAD += _BLOCK + zlib.crc32(_BLOCK).to_bytes(4, "little")
GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # RFC 1952


def pack_xz_part(data):
    """Chunks of LZMA2 that begin with a new dictionary, without the mark of their end."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    return lzma.compress(data, lzma.FORMAT_RAW, filters=filters)[:-1]


def pack_gzip_part(data):
    stream = zlib.compressobj(1, wbits=-15)
    return stream.compress(data) + stream.flush(zlib.Z_FULL_FLUSH)


@pytest.mark.parametrize("packer", ["xz", "gzip"])
def test_bomb_takes_bounded_memory_and_time(packer):
    """1 GiB of zeros in one member that counts, then as many in one that does not."""
    pack_part = pack_xz_part if packer == "xz" else pack_gzip_part
    zeros = pack_part(bytes(16 << 20))  # packed once: each part can be read by itself
    parts = [XZ_HEAD if packer == "xz" else GZIP_HEAD]
    for info, data in sos_members():
        parts.append(pack_part(info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)))
    for place in ("etc/x", "var/x", "var/y"):
        info = tarfile.TarInfo(f"{TOP}/{place}")
        info.size = 1 << 30
        parts += [pack_part(info.tobuf(tarfile.GNU_FORMAT)), *[zeros] * 64]
    content = b"".join(parts)  # without the end, which is not reached
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-c", BOMB], input=content, capture_output=True, check=False, timeout=300
    )
    message, size = done.stdout.decode().splitlines()
    assert (message, done.stderr) == ("it holds more than any sosreport", b"")
    assert int(size) < 400
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 60


@pytest.mark.parametrize("what", ["target", "name", "key"])
def test_names_and_targets_count_as_what_is_kept(what):
    """Of 400 MiB in long headers; one wide character makes four bytes of each character that is
    kept.
    """
    stream = gzip.zlib.compressobj(1, wbits=31)
    parts = [stream.compress(info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512))
             for info, data in sos_members()]  # fmt: skip
    size = 3900 if what == "name" else 60_000
    for number in range((400 << 20) // size):
        info, text = tarfile.TarInfo(f"{TOP}/etc/{number}"), "\N{GRINNING FACE}" + "a" * size
        if what == "target":
            info.type, info.linkname = tarfile.SYMTYPE, text
        elif what == "name":
            info.name += text
        else:
            info.pax_headers = {f"k{number}": text}
        # of pax headers one behind the other, without the member
        head = (
            info.tobuf(tarfile.PAX_FORMAT)[:-512]
            if what == "key"
            else info.tobuf(tarfile.GNU_FORMAT)
        )
        parts.append(stream.compress(head))
    content = b"".join([*parts, stream.flush()])
    done = subprocess.run(
        [sys.executable, "-c", BOMB], input=content, capture_output=True, check=False, timeout=300
    )
    *message, size_mib = done.stdout.decode().splitlines()
    assert done.stderr == b""
    assert message == ["it holds more than any sosreport"]
    assert int(size_mib) < 400


DEEP = "/devices/" + "a" * 3900
MANY = {
    "attributes of one device": (
        "block",
        "udevadm info -a /dev/sda",
        f"  looking at device '{DEEP}':\n",
        '    ATTR{%x}==""\n',
    ),
    "names in one folder": (
        "boot",
        "ls -lanR /a",
        f"/a/{'b' * 3990}:\n",
        "drwxr-xr-x 2 0 0 0 Jan  1 00:00 %x\n",
    ),
    "places of df": ("filesys", "df -al -x autofs", "", "d 1 1 1 1%% /%d\n"),
}


@pytest.mark.parametrize(
    ("what", "message"),
    [*((one, ["it holds more than any sosreport"]) for one in [*MANY][:2]), ([*MANY][2], [])],
)
def test_short_lines_that_make_long_paths_take_bounded_memory_and_time(what, message):
    plugin, command, head, row = MANY[what]
    content = sosreport(
        answers={(plugin, command): head + "".join(row % number for number in range(150_000))}
    )
    assert len(content) < 100_000
    done = subprocess.run(
        [sys.executable, "-c", BOMB], input=content, capture_output=True, check=False, timeout=60
    )
    *told, size_mib = done.stdout.decode().splitlines()
    assert (told, done.stderr) == (message, b"")
    assert int(size_mib) < 400


def test_folders_above_many_deep_paths_take_bounded_memory():
    files = {f"etc/{number:05d}/{'b' * 240}{'/c' * 1800}/f": "" for number in range(12_000)}
    content = gzip.compress(pack([*sos_members(files=files)], "w:"), 1)
    done = subprocess.run(
        [sys.executable, "-c", BOMB], input=content, capture_output=True, check=False, timeout=120
    )
    *told, size_mib = done.stdout.decode().splitlines()
    assert (told, done.stderr) == (["it holds more than any sosreport"], b"")
    assert int(size_mib) < 500


def test_file_that_many_commands_name_is_kept_once():
    """16 GiB, if each had a text of its own."""
    info, data = sos_members()[-1]
    document = json.loads(data)
    document["components"]["report"]["plugins"]["kernel"]["commands"] += [
        {"exec": f"x{number}", "filepath": "sos_commands/kernel/x", "return_code": 0}
        for number in range(1000)
    ]
    text = "\N{GRINNING FACE}" + "a" * (4 << 20)
    added = [
        member(f"{TOP}/sos_commands/kernel/x", content=text),
        member(info.name, content=json.dumps(document)),
    ]
    content = gzip.compress(pack([*sos_members()[:-1], *added], "w:"), 1)
    done = subprocess.run(
        [sys.executable, "-c", BOMB], input=content, capture_output=True, check=False, timeout=300
    )
    assert done.stderr == b""
    assert int(done.stdout) < 400


@pytest.mark.parametrize(
    ("place", "is_refused"), [("etc", True), ("", True), ("../other", False), ("..", False)]
)
def test_folder_with_a_mount_that_may_be_dead_is_not_looked_into(
    monkeypatch, tmp_path, place, is_refused
):
    top = tmp_path / "report"
    top.mkdir()
    monkeypatch.setattr(archive, "served_mounts", lambda: (os.path.normpath(top / place),))
    with pytest.raises(BadInput, match="may give no answer" if is_refused else "no sosreport"):
        read_support_folder(str(top))


def test_folder_is_looked_through_as_deep_as_any_is(tmp_path):
    """Each folder is held open while what is in it is looked through: thousands in one another
    would be too many.
    """
    for depth in (8, 40):
        below = tmp_path / f"top{depth}" / "/".join("a" * depth)
        below.mkdir(parents=True)
        (below / "file").write_text("text")
    (tmp_path / "sign").touch()
    found = archive.read_folder(str(tmp_path), lambda _: archive.ArchivePart.WHOLE, "sign")
    assert [place for place in found.files if place != "sign"] == [f"top8/{'/'.join('a' * 8)}/file"]


def test_each_folder_is_opened_once_however_many_files_are_in_it(monkeypatch, tmp_path):
    """A report of a server has 80,000 files, ten folders deep: to walk to each from the top took 22
    s.
    """
    for name in ("a/b/1", "a/b/2", "a/b/3", "sign"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    opened = []
    monkeypatch.setattr(named, "can_hang", lambda _: False)  # else a child looks
    monkeypatch.setattr(
        archive,
        "open_folder_of_mount",
        lambda name, fd: opened.append(name) or paths.open_folder_of_mount(name, fd),
    )
    found = archive.read_folder(str(tmp_path), lambda _: archive.ArchivePart.WHOLE, "sign")
    assert found.files == {one: one.encode() for one in ("a/b/1", "a/b/2", "a/b/3", "sign")}
    assert opened == [".", "a", "b"]


def test_what_is_no_file_in_a_folder_is_not_opened(monkeypatch, tmp_path):
    """Also where a pipe takes the place of a file between the look and the reading."""
    (tmp_path / "sign").touch()
    (tmp_path / "later").write_text("text")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(named, "can_hang", lambda _: False)
    file = os.stat(tmp_path / "later")
    look = os.stat
    monkeypatch.setattr(
        archive.os, "stat", lambda one, **how: file if one == "pipe" else look(one, **how)
    )
    found = archive.read_folder(str(tmp_path), lambda _: archive.ArchivePart.WHOLE, "sign")
    assert found.files == {"later": b"text", "sign": b""}


def test_files_of_control_groups_that_nothing_asks_for_are_not_read_and_not_absent(tmp_path):
    """A host with containers has hundreds of control groups with hundreds of files each."""
    folder = "/sys/fs/cgroup/system.slice/docker.service"
    place = folder.removeprefix("/")
    files = {f"{place}/cgroup.procs": "7\n", f"{place}/memory.stat": "anon 5\n"}
    packed = sosreport(files=files)
    with tarfile.open(fileobj=io.BytesIO(packed)) as whole:
        whole.extractall(tmp_path, filter="data")
    for door in (reader(packed), read_support_folder(str(tmp_path / TOP))):
        assert door.read(f"{folder}/cgroup.procs") == b"7\n"
        assert isinstance(door.read(f"{folder}/memory.stat"), Unreadable)


def test_files_of_control_groups_that_facts_name_are_read():
    named = regex(r"\b(?:cgroup|cpu|io|memory|pids)\.(?:[a-z]+_)*[a-z]+(?=[\"'])")
    places = [*Path(facts_of_hosts.__file__).parent.rglob("*.py")]
    found = {one for place in places for one in named.findall(place.read_text(encoding="utf-8"))}
    of_others = {"memory.used", "cgroup.conf"}  # of nvidia-smi and of Slurm
    assert found - of_others <= FILES_OF_GROUPS


def test_folder_whose_file_system_gives_no_answer_is_given_up(monkeypatch, tmp_path):
    """A user's server may answer for the folder and for nothing in it, and no signal ends that
    wait.
    """
    monkeypatch.setattr(archive, "_FOLDER_S", 0.3)
    monkeypatch.setattr(named, "can_hang", lambda _: True)
    monkeypatch.setattr(archive, "HeldRoot", lambda *_: time.sleep(60))
    with pytest.raises(BadInput, match=r"did not serve it within 0\.3 s"):
        read_support_folder(str(tmp_path))


def test_too_many_bytes_that_count_are_refused(monkeypatch):
    monkeypatch.setattr(archive, "MOST_KEPT", 10_000)
    with pytest.raises(BadInput, match="more than any"):
        reader(sosreport(files={"etc/x": "x" * 10_000}))
    monkeypatch.setattr(archive, "MOST_OF_ONE", 20)
    found = read_archive(sosreport(), "x", lambda _place: archive.ArchivePart.WHOLE)
    assert "proc/meminfo" in found.left_out


def test_broken_files_raise_nothing_else():
    chance = random.Random(7)  # noqa: S311 - a test that comes out the same each time
    for mode in ("w:", "w:gz", "w:xz"):
        whole = sosreport(mode)
        for _ in range(40):
            cut = bytearray(
                whole[: chance.randrange(300, len(whole))] if chance.random() < 0.5 else whole
            )
            for _ in range(chance.randrange(1, 5)):
                cut[chance.randrange(len(cut))] = chance.randrange(256)
            if is_support_file(bytes(cut)):
                with suppress(BadInput):
                    assert reader(bytes(cut)).source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 4}',
        '{"version": "4.9", "components": 1}',
        "[" * 100_000,
        "\ud800",
    ],
)
def test_manifest_of_something_else_is_refused(text):
    members = [one for one in sos_members() if not one[0].name.endswith("manifest.json")]
    data = text.encode("utf-8", "surrogatepass")
    info = tarfile.TarInfo(f"{TOP}/sos_reports/manifest.json")
    info.size = len(data)
    with pytest.raises(BadInput, match="no sosreport"):
        reader(pack([*members, (info, data)]))


def test_manifest_with_odd_rows_is_read():
    odd = {
        "kernel": {
            "commands": [7, {"exec": []}, {"exec": "x", "filepath": {}}],
            "files": "x",
            "timeout_hit": 1,
        }
    }
    assert reader(sosreport(**odd)).source == "sos 4.9.1"
    assert FOLDERS


# --- commands


@pytest.fixture
def sick(tmp_path):
    path = tmp_path / "sosreport-gpu7-2026-11-20-abcdefg.tar.xz"
    path.write_bytes(sosreport(answers={DMESG: LOG + LOST}))
    return path


def test_health_check_driver_and_plan(run, sick):
    status, out, err = run("health", "--host", sick)
    assert (status, "Xid 79 (the GPU has fallen off the bus)" in " ".join(out.split())) == (1, True)
    assert "a report of sos 4.9.1 on gpu7 of 2026-11-20 10:00 UTC" in err
    assert "A report of sos 4.9.1 does not hold what is asked for" in " ".join(out.split())
    assert "570.86.15" in run("driver", "--host", sick)[1]
    _, out, err = run("check", "--host", sick)
    assert ("gpu-errors" in out, "a report of sos 4.9.1 on gpu7" in err) == (True, True)
    status, _, err = run("plan", "--host", sick)
    assert (
        status,
        "does not hold all that a plan needs; on that host, type: sudo hosttune plan" in err,
    ) == (2, True)


def test_record_of_an_archive_is_kept(run, sick, tmp_path):
    kept = tmp_path / "kept.json"
    assert run("record", "--host", sick, kept)[0] == 0
    assert "Xid 79" in run("health", "--host", kept)[1]
    assert run("plan", "--host", kept)[0] == 2


def unpack_members(folder, members):
    for info, data in members:
        path = folder / info.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if info.type == tarfile.DIRTYPE:
            path.mkdir(exist_ok=True)
        elif info.type == tarfile.SYMTYPE:
            path.symlink_to(info.linkname)
        else:
            path.write_bytes(data)
    return folder / TOP


def test_unpacked_folder_is_read_and_its_links_are_not_followed(run, tmp_path):
    secret = tmp_path / "secret.conf"
    secret.write_text("secret")
    (tmp_path / "outside").mkdir()
    links = {
        "etc/sysctl.d/s.conf": str(secret),
        "etc/modprobe.d/x": "../../../outside",
        "proc/version": str(secret),
    }
    top = unpack_members(tmp_path, sos_members(answers={DMESG: LOG + LOST}, links=links))
    os.mkfifo(top / "etc/pipe")
    door = read_record(str(top))
    assert door.source == "sos 4.9.1"
    assert door.read("/etc/sysctl.d/10-local.conf") == b"vm.max_map_count = 65530\n"
    for path in (
        "/etc/sysctl.d/s.conf",
        "/proc/version",
        "/etc/pipe",
        "/etc/sysctl.d/99-other.conf",
    ):
        assert isinstance(door.read(path), Unreadable), path
    status, out, err = run("health", "--host", top)
    assert (status, "Xid 79" in out, "it is unpacked: nothing is absent" in err) == (1, True, True)


def test_folder_of_something_else_is_refused(run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:  # else a home folder would be walked to its end
        patch.setattr(archive, "MOST_MEMBERS", 0)
        (tmp_path / "x").mkdir()
        status, _, err = run("health", "--host", tmp_path)
    assert (status, "no sosreport" in err) == (2, True)
    with pytest.raises(BadInput, match="No such file"):
        read_support_folder(str(tmp_path / "gone"))
    monkeypatch.setattr(archive, "MOST_MEMBERS", 5)
    with pytest.raises(BadInput, match="more than any"):
        read_record(str(unpack_members(tmp_path, sos_members())))


def test_report_of_a_folder_takes_archives(run, sick):
    (sick.parent / "sosreport-b.tar.gz").write_bytes(sosreport("w:gz"))
    status, out, err = run("report", sick.parent)
    assert (status, "gpu7" in out, "1 with a fault" in out) == (1, True, True), err
