"""Where compiled code cannot be loaded, what one user may fill, and where else there is room."""

from types import SimpleNamespace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.fstab_words import is_noexec
from hosttune.facts.storage.temporary import age_of, user_limit
from hosttune.host.door import Space
from tests.unit.fake_reader import FakeReader

GIB = 1 << 30
MOUNTS = """\
20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 0:30 / /tmp rw,noexec shared:2 - tmpfs tmpfs rw,usrquota
22 20 8:2 / /data rw,nosuid,nodev,noexec shared:3 - xfs /dev/sda2 rw
23 20 8:3 / /fast rw shared:3 - xfs /dev/sda3 rw
24 20 0:50 / /home rw,noexec shared:4 - nfs4 nfs:/home rw
25 20 8:17 / /media/stick rw,noexec shared:5 - vfat /dev/sdb1 rw
"""
FSTAB = "/dev/sda2 /data xfs nofail,user 0 2\nnfs:/home /home nfs4 noexec 0 0\n"
SPACES = {name: Space(100 * GIB, 50 * GIB, 9, 9) for name in ("/", "/data", "/fast")} | {
    "/tmp": Space(1000, 1000, 9, 9)
}


def facts(mounts=MOUNTS, **more):
    files = {
        "/proc/self/mountinfo": mounts,
        "/sys/block/sda/size": "0\n",
        "/etc/fstab": FSTAB,
        "/tmp/x": "",
    }
    return Facts(FakeReader({**files, **more}, spaces=SPACES))


def test_noexec_is_told_with_what_makes_it_so_and_of_places_that_jobs_use_alone():
    assert [(one.target, one.use, one.why, one.way_out) for one in facts().temporary.noexec] == [
        (
            "/tmp",
            "temporary",
            "not by a line of /etc/fstab",
            "take noexec out of the options in what mounts it",
        ),
        (
            "/home",
            "home",
            "line 2 of /etc/fstab",
            "take noexec out of the options in line 2 of /etc/fstab",
        ),
        (
            "/data",
            "data",
            "`user` in line 1 of /etc/fstab implies it",
            "write `user,exec` for `user` in line 1 of /etc/fstab",
        ),
    ]


def test_variables_lead_compiled_code_away_and_into_noexec():
    (first, *_) = facts(
        **{"/etc/environment": "TMPDIR=/fast/tmp\nTRITON_CACHE_DIR=/data/t\n"}
    ).temporary.noexec
    assert (first.target, first.use, first.names) == (
        "/data",
        "cache",
        ("TRITON_CACHE_DIR=/data/t (/etc/environment:2)",),
    )


def test_mounts_that_are_not_known_are_unknown_and_none_is_none():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({})).temporary.noexec
    assert facts(MOUNTS.replace(",noexec", "")).temporary.noexec == ()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("rw", ""), ("noexec", "noexec"), ("user", "user"), ("user,exec", ""), ("exec,users", "users"), ("owner", ""),
        ("noexec,exec", ""), ("user,exec,noexec", "noexec"),
    ],
)  # fmt: skip
def test_last_word_counts(words, found):
    assert is_noexec(words.split(",")) == found


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("/tmp rw - tmpfs tmpfs rw,usrquota", 800),
        ("/tmp rw - tmpfs tmpfs rw", 0),
        ("/tmp rw - tmpfs tmpfs rw,usrquota,usrquota_block_hardlimit=1k", 1024),
        ("/tmp rw - ext4 /dev/sda3 rw,usrquota", 0),
        ("/srv rw - tmpfs tmpfs rw,usrquota", 0),
    ],
)
def test_what_one_user_may_fill(line, limit):
    seen = Facts(
        FakeReader(
            {"/proc/self/mountinfo": f"20 1 0:1 / {line}\n"}, spaces={"/tmp": Space(1000, 9, 9, 9)}
        )
    )
    assert user_limit(seen.mounts.all[0]) == limit


def test_other_places_have_room_and_execute():
    conf = {"/usr/lib/tmpfiles.d/tmp.conf": "q /var/tmp 1777 root root 30d\n"}
    seen = facts(**conf)
    assert seen.temporary.elsewhere == (
        "/var/tmp, where files are removed after 30d (/usr/lib/tmpfiles.d/tmp.conf:1), or a folder on /fast (50 GiB free)"
    )
    assert age_of("/var/tmp/hf", seen) == "30d (/usr/lib/tmpfiles.d/tmp.conf:1)"
    assert age_of("/fast/hf", seen) == ""
    assert facts().temporary.elsewhere == "/var/tmp, or a folder on /fast (50 GiB free)"


def test_rules_of_removal_are_gone_through_once_for_all_variables():
    """A record may have thousands of both."""
    looked = []

    class Rules(tuple):
        __slots__ = ()

        def __iter__(self):
            looked.append(1)
            return super().__iter__()

    rule = SimpleNamespace(path="/a/b", age="3d", source="x:1")
    seen = facts()
    seen.__dict__["ageing"] = SimpleNamespace(
        rules=Rules((rule, SimpleNamespace(path="/", age="9d", source="y:1")))
    )
    assert [age_of(f"/a/b/{number}", seen) for number in range(50)] == ["3d (x:1)"] * 50
    assert age_of("/a/bc", seen) == ""
    assert len(looked) == 1
