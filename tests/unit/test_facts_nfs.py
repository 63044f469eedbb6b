"""NFS mounts, their read-ahead, and who else sets it."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.nfs import make_stale_question, read_ahead_lines
from hosttune.host.door import Completed, Stat
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

MOUNTS = """\
20 1 0:50 / /home rw shared:1 - nfs4 nfs01:/home rw,vers=4.2,rsize=1048576,wsize=65536
21 1 0:50 /a /other rw shared:2 - nfs4 nfs01:/home rw,vers=4.2,rsize=1048576
22 1 0:51 / /var/lib/kubelet/pods/x/volumes/y rw shared:3 - nfs nfs02:/v rw
23 1 8:1 / /data rw shared:4 - ext4 /dev/sda1 rw
"""
BDI = {"/sys/class/bdi/0:50/read_ahead_kb": "128\n", "/sys/class/bdi/0:51/read_ahead_kb": "15360\n"}
AZURE = (
    'SUBSYSTEM=="bdi", ACTION=="add", PROGRAM="/usr/bin/awk -v bdi=$kernel x /proc/fs/nfsfs/volumes", '
    'ATTR{read_ahead_kb}="15380"\n'
)


def nfs(**files):
    return Facts(
        FakeReader({"/proc/self/mountinfo": MOUNTS, "/sys/block/sda/size": "0\n", **BDI, **files})
    ).nfs


def test_mounts_of_one_superblock_are_one():
    home, pods = nfs().mounts
    assert (home.target, home.device, home.rsize_bytes, home.read_ahead_kib) == (
        "/home",
        "0:50",
        1 << 20,
        128,
    )
    assert (pods.is_of_pods, pods.rsize_bytes, pods.read_ahead_kib) == (True, 0, 15360)


def test_how_a_server_is_mounted():
    rows = (
        "20 1 0:50 / /a rw shared:1 - nfs4 nfs01:/a rw,vers=4.2,soft,proto=tcp,timeo=600\n"
        "21 1 0:51 / /b ro shared:2 - nfs4 [fe80::1]:/b rw,softerr,proto=tcp6,nconnect=8\n"
        "22 1 0:52 / /c rw shared:3 - nfs 10.0.0.7:/c:/d rw,hard,proto=rdma,nconnect=many\n"
        "23 1 0:53 / /d rw shared:4 - nfs filer:/ rw\n"
    )
    found = nfs(
        **{"/proc/self/mountinfo": rows}
        | {f"/sys/class/bdi/0:{n}/read_ahead_kb": "128\n" for n in range(50, 54)}
    )
    told = [(one.is_soft, one.is_read_only, one.protocol, one.connections) for one in found.mounts]
    assert told == [
        (True, False, "tcp", 1),
        (True, True, "tcp", 8),
        (False, False, "rdma", 1),
        (False, False, "", 1),
    ]
    assert found.servers == ("10.0.0.7", "fe80::1", "filer", "nfs01")


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (
            "[nfsrahead]\nnfs = 15000 # x\n nfs4=16000\n[general]\nnfs=1\n",
            [(2, "nfs", "15000"), (3, "nfs4", "16000")],
        ),
        ("# [nfsrahead]\nnfs=1\n[ nfsrahead ]\n# nfs=2\n;nfs=3\n", []),
        ("", []),
    ],
)
def test_section_of_the_helper_is_read(content, lines):
    assert list(read_ahead_lines(content)) == lines


def test_settings_are_those_of_others():
    seen = nfs(
        **{
            "/etc/nfs.conf": "[nfsrahead]\nnfs4=1024\n",
            "/etc/nfs.conf.d/60-hosttune-storage-nfs-readahead.conf": "[nfsrahead]\nnfs4=15360\n",
            "/etc/udev/rules.d/90-nfs-readahead.rules": AZURE,
            "/etc/udev/rules.d/60-hosttune-storage-nfs-readahead.rules": AZURE,
            "/etc/udev/rules.d/70-disk.rules": 'SUBSYSTEM=="block", ATTR{queue/read_ahead_kb}="1"\n',
        }
    )
    assert seen.settings == (
        "/etc/nfs.conf:2 (nfs4 = 1024)", "/etc/udev/rules.d/90-nfs-readahead.rules:1 (read_ahead_kb = 15380)"
    )  # fmt: skip


def test_read_ahead_that_is_not_there_is_unknown():
    seen = Facts(
        FakeReader({"/proc/self/mountinfo": MOUNTS, "/sys/block/sda/size": "0\n"})
    ).nfs.mounts[0]
    with pytest.raises(UnknownFact):
        _ = seen.read_ahead_kib


def test_image_has_nothing_mounted():
    assert Facts(FakeReader({}, persistent_only=True)).nfs.mounts == ()


def test_routes_that_are_none_make_the_speed_unknown():
    rows = "20 1 0:50 / /a rw shared:1 - nfs4 nfs01:/a rw,proto=tcp,addr=10.0.0.7\n"
    files = {"/proc/self/mountinfo": rows, "/sys/class/bdi/0:50/read_ahead_kb": "128\n"}
    (mount,) = nfs(
        **files, **{"/proc/net/route": "Iface\neth0 0000000A 0 WORD 0 0 0 000000FF 0 0 0\n"}
    ).mounts

    with pytest.raises(UnknownFact, match="/proc/net/route"):
        _ = mount.speed_mbps


@pytest.mark.parametrize(
    "name", ["-hosts", "/etc/auto.net", "auto.smb", "/etc/auto.site", "auto.site", "/etc/auto.more"]
)
def test_server_that_a_user_chose_below_the_map_of_all_hosts_is_no_server_of_this_host(name):
    """`ls /net/ANY` mounts it: its silence drains no node."""
    table = (
        "20 1 0:50 / /home rw - nfs4 nfs01:/home rw,rsize=1048576\n"
        f"30 1 0:60 / /net rw - autofs {name} rw,fd=6,indirect\n"
        "31 30 0:61 / /net/evil/a rw - nfs4 evil:/a rw,rsize=1048576\n"
        "32 31 0:62 / /net/evil/a/b rw - nfs4 evil:/a/b rw\n"
        "40 1 0:70 / /data rw - autofs /etc/auto.data rw,fd=7,indirect\n"
        "41 40 0:71 / /data/x rw - nfs4 nfs02:/x rw\n"
    )
    maps = {
        "/etc/auto.site": "# all\nfix -rw fix:/x\n*  -fstype=nfs4,rw \\\n  &:/export\n",
        "/etc/auto.more": "+auto.more\n+file:/etc/auto.site\n",
        "/etc/auto.data": "x nfs02:/x\ny &:/y\n* -rw nfs02:/data/&\n+/net/evil/map\n+../net/evil/map\n",
    }
    found = nfs(
        **{"/proc/self/mountinfo": table, "/sys/class/bdi/0:71/read_ahead_kb": "128\n"}, **maps
    )
    assert [one.target for one in found.mounts] == ["/data/x", "/home"]
    assert found.of_pods == ("evil",)


STALE_ROWS = (
    "20 1 0:50 / /mnt/a rw shared:1 - nfs4 nfs01:/a rw\n"
    "21 1 0:51 / /mnt/b rw shared:2 - nfs nfs02:/b rw\n"
    "22 1 0:52 / /mnt/a/c rw shared:3 - nfs nfs03:/c rw\n"
)


def answer_about(target, error):
    return {make_stale_question(target): Completed(1 if error else 0, b"nfs\n", error.encode())}


def stale_of(queries, stats=None):
    reader = FakeReader(
        {"/proc/self/mountinfo": STALE_ROWS}, folders=("/mnt",), stats=stats, queries=queries
    )
    return [one.target for one in Facts(reader).nfs.stale]


def test_a_mount_is_stale_only_if_its_server_says_so():
    error = "stat: cannot read file system information for '/mnt/b': Stale file handle\n"
    assert stale_of({**answer_about("/mnt/a", ""), **answer_about("/mnt/b", error)}) == ["/mnt/b"]
    assert (
        stale_of(
            {
                **answer_about("/mnt/a", ""),
                **answer_about("/mnt/b", error[:-18] + "Permission denied\n"),
            }
        )
        == []
    )


@pytest.mark.parametrize(
    ("fstab", "again"),
    [
        ("nfs01:/b /mnt/b nfs defaults 0 0\n", "sudo umount -l /mnt/b && sudo mount /mnt/b"),
        (
            "",
            "sudo umount -l /mnt/b, and mount it as it was (no line of fstab has it; autofs does that at the next access)",
        ),
    ],
)
def test_mount_knows_by_its_target_what_a_line_of_fstab_mounts(fstab, again):
    """mount(8) without a line ends with an error, after the umount."""
    queries = {
        **answer_about("/mnt/a", ""),
        **answer_about("/mnt/b", "stat: x: Stale file handle\n"),
    }
    files = {"/proc/self/mountinfo": STALE_ROWS, "/etc/fstab": fstab}
    (one,) = Facts(FakeReader(files, folders=("/mnt",), queries=queries)).nfs.stale
    assert one.way_out == again


def test_a_server_that_is_silent_makes_it_unknown():
    silent = {make_stale_question("/mnt/a"): Unreadable("stat gives no answer for 5 s")}
    with pytest.raises(UnknownFact, match="no answer for 5 s"):
        stale_of({**silent, **answer_about("/mnt/b", "stat: x: Stale file handle\n")})


def test_no_server_is_asked_on_whose_way_a_user_can_put_a_file_system():
    error = answer_about("/mnt/b", "stat: x: Stale file handle\n")
    stats = {"/mnt": Stat("directory", 0o755, 1000, 1000, 0, 0, 1, 2, 1)}
    assert stale_of({**answer_about("/mnt/a", ""), **error}, stats) == []
