"""Records: replayed answers are the answers that were given, without secrets; a bad record is
refused with its place.
"""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from hosttune.actions.record.record import take_record
from hosttune.errors import BadInput
from hosttune.facts import Facts, UnknownFact
from hosttune.host.door import Completed, Process
from hosttune.host.record import record as record_module
from hosttune.host.record.record import RecordReader, parse_record, read_record
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

SECRETS = (
    "hunter2",
    "S3RIAL0042",
    "0123456789abcdef0123456789abcdef",
    "ghp_abcdefghijklmnopqrstuvwxyz0123",
    "PRIVATE-KEY-BODY",
)


PROCESS = {
    "pid": 7, "name": "python", "user": "a", "command": ["x"], "rss_bytes": 1, "swap_bytes": 0, "devices": [],
    "cgroup": "/", "started_at": 1.0,
}  # fmt: skip


def host() -> FakeReader:
    files = {
        "/etc/fstab": "//nas/share /mnt cifs username=u,password=hunter2 0 0\nUUID=1 / ext4 defaults 0 1\n",
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "/etc/hostname": "gpu17\n",
        "/proc/sys/kernel/hostname": "gpu17\n",
        "/proc/sys/vm/swappiness": "60\n",
        "/proc/sys/net/core/somaxconn": "4096\n",
        "/sys/class/dmi/id/product_serial": "S3RIAL0042\n",
        "/proc/cmdline": "root=/dev/sda1 ip=10.1.2.3 token=ghp_abcdefghijklmnopqrstuvwxyz0123\n",
        "/etc/sysctl.d/10-a.conf": "vm.swappiness=60\n# on gpu17, 10.1.2.3\n",
        "/etc/docker/daemon.json": '{"registry": "https://u:hunter2@reg"}\n',
        "/etc/modprobe.d/key.pem": "-----BEGIN PRIVATE KEY-----\nPRIVATE-KEY-BODY\n-----END PRIVATE KEY-----\n",
        "/var/lib/dpkg/status": "Package: a\nStatus: install ok installed\nVersion: 1\nDescription: long\n",
        "/opt/app/conf": "not surveyed",
        "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n',
    }
    process = Process(
        7, "python", "alice", ("train", "--password", "hunter2"), 1, 0, ("/dev/nvidia0",), "/", 1.0
    )
    return FakeReader(
        files, processes=(process,), queries={("tool",): Completed(0, b"serial: S3RIAL0042\n", b"")}
    )


def ask(reader) -> None:
    reader.read("/sys/class/dmi/id/product_serial")
    reader.query(("tool",))
    reader.query(("missing",))
    reader.read("/nowhere")


def taken(*, share: bool = False):
    return json.loads(json.dumps(take_record(host(), ask, share=share, tool_version="0.1.0")))


@pytest.mark.parametrize("share", [False, True])
def test_record_holds_no_secret(share):
    text = json.dumps(taken(share=share))
    assert [secret for secret in SECRETS if secret in text] == []


def test_shared_record_holds_no_name_and_no_address():
    text = json.dumps(taken(share=True))
    assert [word for word in ("gpu17", "10.1.2.3", "alice") if word in text] == []
    assert "token=(masked)" in text


def test_survey_of_a_shared_record_is_of_the_kernel():
    files = taken(share=True)["files"]
    assert files["/proc/sys/vm/swappiness"] == "60\n"
    assert [path for path in files if path.startswith("/etc/")] == [
        "/etc/hostname",
        "/etc/machine-id",
        "/etc/os-release",
    ]


def test_record_that_is_not_shared_keeps_names():
    assert "gpu17" in json.dumps(taken())


def test_replay_gives_the_answers():
    record = RecordReader(taken())
    assert record.read("/proc/sys/vm/swappiness") == b"60\n"
    assert record.list("/etc/sysctl.d") == ("10-a.conf",)
    assert record.read("/nowhere") is ABSENT
    assert record.query(("missing",)) is ABSENT
    assert record.os_release() == {"id": "ubuntu", "version_id": "24.04"}
    assert record.now() == 1_750_000_000.0
    (process,) = record.processes()
    assert (process.name, process.command) == ("python", ("train", "--password", "(masked)"))


def test_survey_goes_beyond_what_the_rules_ask():
    assert RecordReader(taken()).read("/proc/sys/net/core/somaxconn") == b"4096\n"


def test_replay_says_what_it_does_not_know_and_what_is_proven_absent():
    record = RecordReader(taken())
    assert isinstance(record.read("/opt/app/other"), Unreadable)
    assert record.read("/etc/sysctl.d/99-none.conf") is ABSENT
    assert isinstance(record.query(("other",)), Unreadable)


def test_record_hashes_the_machine_id_and_replays_the_same_hash():
    from hosttune.facts import Facts

    assert (
        Facts(host()).host.machine_id_hash
        == Facts(RecordReader(taken())).host.machine_id_hash
        != ""
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kind": "other"}, "kind"),
        ({"format_version": 99}, "format_version"),
        ({"files": {"relative": "x"}}, "files.relative"),
        ({"files": {"/x": 5}}, "files./x"),
        ({"queries": [{"argv": "ls"}]}, "queries[0].argv"),
        ({"stats": {"/x": ["file", 1]}}, "stats./x"),
        ({"listings": {"/x": ["a/b"]}}, "listings./x"),
        ({"made_at": "yesterday"}, "made_at"),
        ({"made_at": -1}, "made_at"),
        ({"made_at": 1e300}, "made_at"),
        ({"made_at": float("inf")}, "made_at"),
        ({"files": {"/" + "x" * 4096: "x"}}, "files./xxx"),
        ({"links": {"/x": "y" * 4097}}, "links./x"),
        ({"paths": {"/x": "/" + "y" * 4096}}, "paths./x"),
        ({"processes": [{**PROCESS, "started_at": 1e300}]}, "processes"),
    ],
)
def test_malformed_record_is_refused_with_its_place(change, expected):
    with pytest.raises(BadInput) as caught:
        RecordReader({**taken(), **change}, "r.json")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"a": NaN}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
def test_file_that_is_no_record_is_refused(content):
    with pytest.raises(BadInput, match=r"r\.json"):
        RecordReader(parse_record(content, "r.json"), "r.json")


@pytest.mark.parametrize(
    "content", [b'{"a": "\\ud800"}', b'{"\\udbff": 1}', b'{"a": "\xed\xa0\x80"}']
)
def test_half_a_character_is_refused(content):
    with pytest.raises(BadInput, match="surrogates not allowed"):
        parse_record(content, "r.json")


@pytest.mark.parametrize(
    ("content", "text"),
    [(b'"\\ud83d\\ude00"', "\U0001f600"), (b'"\\udcff"', "\udcff"), (b'"\\\\ud800"', "\\ud800")],
)
def test_character_that_can_be_written_again_is_taken(content, text):
    assert parse_record(b'{"a": ' + content + b"}", "r.json") == {"a": text}


def test_link_to_a_secret_file_is_not_followed_by_the_survey():
    files = {
        "/etc/ssl/private/a": "hunter2",
        "/sys/kernel/mm/page_idle/bitmap": "1",
        "/etc/sysctl.d/b.conf": "x",
    }
    reader = FakeReader(files, links={"/etc/sysctl.d/a.conf": "/etc/ssl/private/a"})
    data = take_record(reader, lambda _: None, share=False, tool_version="0")
    assert "hunter2" not in json.dumps(data)
    assert data["listings"]["/etc/sysctl.d"] == ["a.conf", "b.conf"]
    assert [path for path in reader.seen if "page_idle/" in path] == []


def test_missing_record_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_record(str(tmp_path / "none.json"))


def test_record_keeps_names_and_limits_that_facts_asked_about():
    from hosttune.host.record.record import RecordingReader

    door = RecordingReader(
        FakeReader({"/proc/80/comm": "slurmd\n", "/proc/80/limits": "x", "/proc/80/environ": "y"})
    )
    for name in ("comm", "limits", "environ"):
        door.read(f"/proc/80/{name}")
    assert set(door.answers["files"]) == {"/proc/80/comm", "/proc/80/limits"}


def test_record_keeps_what_the_device_mapper_made_of_disks():
    files = {
        "/sys/block/dm-0/dm/uuid": f"LVM-{'a1' * 32}-tpool\n", "/sys/block/dm-0/dm/name": "vg-pool-tpool\n",
        "/sys/block/dm-1/dm/uuid": "mpath-3600a0980383041327244\n", "/sys/block/dm-1/dm/name": "mpatha\n",
        "/sys/block/dm-1/slaves/sdb/dev": "8:16\n", "/sys/block/sdb/device/state": "running\n",
    }  # fmt: skip

    def ask_all(reader):
        found = Facts(reader)
        return [pool.name for pool in found.pools.all], [
            disk.name for disk in found.multipath.disks
        ]

    live = FakeReader(files)
    record = json.loads(json.dumps(take_record(live, ask_all, share=False, tool_version="0.1.0")))
    assert "3600a09" not in json.dumps(record)
    assert "a1a1" not in json.dumps(record)
    assert ask_all(RecordReader(record, "x.json")) == ask_all(live)
    assert ask_all(live)[0]
    assert ask_all(live)[1]


def test_record_keeps_nothing_of_single_processes():
    from hosttune.host.record.record import RecordingReader

    door = RecordingReader(
        FakeReader(
            {"/proc/80/mountinfo": "x", "/proc/1/comm": "init\n", "/proc/self/mountinfo": "y"}
        )
    )
    assert [
        door.read(f"/proc/{name}") for name in ("80/mountinfo", "1/comm", "self/mountinfo")
    ] == [
        b"x",
        b"init\n",
        b"y",
    ]
    assert set(door.answers["files"]) == {"/proc/1/comm", "/proc/self/mountinfo"}
    assert "80" in door.list("/proc")
    assert door.answers["listings"] == {}


def test_crontabs_of_users_and_scripts_of_the_site_keep_what_is_asked_for_alone():
    spool = "/var/spool/cron/crontabs/alice"
    files = {
        spool: "0 1 * * * /opt/purge --password hunter2 --to boss@example.org\n",
        "/opt/purge": "#!/bin/sh\necho 'my private notes'\nfind /scratch -atime +30 -delete\n",
    }
    data = json.loads(
        json.dumps(
            take_record(
                FakeReader(files), lambda door: Facts(door).ageing, share=False, tool_version="0"
            )
        )
    )
    text = json.dumps(data)
    assert not [word for word in ("hunter2", "boss@", "private notes") if word in text]
    sources = [rule.source for rule in Facts(RecordReader(data)).ageing.rules]
    assert (
        sources
        == [rule.source for rule in Facts(FakeReader(files)).ageing.rules]
        == ["/opt/purge:3"]
    )


def _with_links(text: str, names: int = 200) -> RecordReader:
    links = {
        f"/etc/sysctl.d/{number}.conf": text.replace("NNN", f"{number:03}")
        for number in range(names)
    }
    return RecordReader(
        {"format_version": 1, "kind": "hosttune record", "tool_version": "", "made_at": 0, "name": "", "machine": "",
         "privileged": True, "persistent_only": False, "links": links, "listings": {"/": ["etc"]}}
    )  # fmt: skip


@pytest.mark.parametrize("text", ["/c/NNN/" + "c/" * 2000, "/c/NNN/" + "c/" * 200, "/c/NNN"])
def test_links_that_lead_through_many_folders_keep_no_name_of_each(text):
    record = _with_links(text)
    for path in [*record.data["links"]]:
        assert not isinstance(record.read(path), bytes)
        assert not isinstance(record.read(f"{path}/below"), bytes)
    kept = sum(map(len, record._names)) + sum(map(len, record._places.values()))
    assert kept < 200 * 3000


@pytest.mark.parametrize("share", [False, True])
def test_serial_numbers_of_disks_are_masked_so_that_two_of_one_disk_stay_alike(share):
    """Two paths to a disk, and a copy of it, are told apart by them."""
    paths = {f"/sys/block/sd{letter}/device/wwid": f"naa.5000{letter}\n" for letter in "ab"}
    paths["/sys/block/sdc/device/wwid"] = "naa.5000a\n"
    paths["/run/udev/data/b8:0"] = "E:ID_SERIAL=naa.5000a\nE:ID_BTRFS_READY=0\n"

    record = take_record(
        FakeReader(paths),
        lambda reader: [*map(reader.read, paths)],
        share=share,
        tool_version="0.1.0",
    )
    first, second, third, udev = (record["files"][path] for path in paths)

    assert first == third != second
    assert udev == "E:ID_BTRFS_READY=0\n"
    assert "naa." not in json.dumps(record)


@pytest.mark.parametrize("digits", ["9" * 300, "9" * 5000, "\u0663" * 5000])
@pytest.mark.parametrize("is_encoded", [False, True])
def test_number_that_no_program_says_hides_only_its_own_file(digits, is_encoded):
    data = taken()
    limits = f"Max open files {digits} {digits} files\n"
    data["files"]["/proc/1/limits"] = (
        {"base64": b64encode(limits.encode()).decode()} if is_encoded else limits
    )
    data["queries"].append({"argv": ["long"], "status": 0, "stdout": digits, "stderr": ""})
    record = RecordReader(data)
    assert isinstance(record.read("/proc/1/limits"), Unreadable)
    with pytest.raises(UnknownFact, match="300 digits"):
        _ = Facts(record).session_limits["nofile"].soft
    assert isinstance(record.query(("long",)), Unreadable)
    assert record.read("/proc/sys/vm/swappiness") == b"60\n"


def test_long_file_is_decoded_once(monkeypatch):
    decoded = []
    real = record_module._decode_bytes
    monkeypatch.setattr(
        record_module, "_decode_bytes", lambda entry: decoded.append(entry) or real(entry)
    )
    long, short = "x " * (1 << 16), "y"
    door = RecordReader({**taken(), "files": {"/a": long, "/b": short}})
    assert [door.read("/a") for _ in range(3)] == [long.encode()] * 3
    assert [door.read("/b") for _ in range(3)] == [short.encode()] * 3
    assert decoded == [long, short, short, short]
