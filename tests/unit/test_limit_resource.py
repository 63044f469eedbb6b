"""Limits of login sessions: whose line counts, what is high enough, and what would lock people
out.
"""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.limits.session_limits import LimitLine, parse_amount, parse_lines
from hosttune.facts.placed import Placed
from hosttune.resources import address_kinds
from hosttune.values import Activation, HoldKind, Unreadable, Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import RULE, One, host

OURS = f"/etc/security/limits.d/60-hosttune-{RULE}.conf"
MEMLOCK = "- limit: memlock\n  soft: unlimited\n  hard: unlimited"
NOFILE = '- limit: nofile\n  soft: "65536"\n  hard: "524288"'
SESSION = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         8388608              8388608              bytes     \n"
    "Max open files            1024                 1048576              files     \n"
)
BASE = {"/proc/sys/fs/nr_open": "1048576\n", "/proc/1/limits": SESSION}


def machine(files=None, **kwargs):
    return host({**BASE, **(files or {})}, **kwargs)


def test_limit_is_written_for_all_and_for_root():
    one = One(machine(), MEMLOCK)
    (change,) = one.changes()
    assert change == (
        f"file:{OURS} ABSENT -> * soft memlock unlimited; * hard memlock unlimited; "
        "root soft memlock unlimited; root hard memlock unlimited"
    )
    assert one.plan().changes[0].activation is Activation.SESSION
    one.apply()
    finding = one.finding()
    assert finding.verdict is Verdict.OK
    assert finding.evidence[0] == f"* soft unlimited ({OURS}:3)"
    one.undo()
    assert one.kept() == {}


def test_higher_limit_stays_as_it_is():
    files = {"/etc/security/limits.d/10-a.conf": "* hard nofile 800000\n* soft nofile 4096\n"}
    one = One(machine(files), NOFILE.replace("65536", "4096"))
    assert one.changes() == [f"file:{OURS} ABSENT -> root soft nofile 4096"]
    one.apply()
    assert one.finding().verdict is Verdict.OK


@pytest.mark.parametrize(
    ("files", "wish", "verdict"),
    [
        (
            {"/etc/security/limits.conf": "* - memlock unlimited\nroot - memlock infinity\n"},
            MEMLOCK,
            Verdict.OK,
        ),
        (
            {"/etc/security/limits.conf": "* - memlock -1\n"},
            f"{MEMLOCK}\n  domains: ['*']",
            Verdict.OK,
        ),
        (
            {"/etc/security/limits.conf": "* - memlock -1\n"},
            MEMLOCK,
            Verdict.DIFFERS,
        ),  # * is not for root
        (
            {},
            '- limit: nofile\n  hard: "524288"',
            Verdict.OK,
        ),  # the session has more without a file
        ({}, '- limit: memlock\n  soft: "8192"', Verdict.OK),
        ({}, '- limit: memlock\n  soft: "8193"', Verdict.DIFFERS),
    ],
)
def test_limit_that_is_high_enough_needs_no_file(files, wish, verdict):
    finding = One(machine(files), wish).finding()
    assert finding.verdict is verdict
    assert bool(finding.changes) is (verdict is Verdict.DIFFERS)


@pytest.mark.parametrize(
    ("files", "wish", "kind", "says"),
    [
        (
            {"/etc/security/limits.d/99-a.conf": "* hard memlock 64\n"},
            MEMLOCK,
            HoldKind.OWNED,
            "99-a.conf:1",
        ),
        (
            {"/etc/security/limits.conf": "#\n* - memlock 64\n"},
            MEMLOCK,
            HoldKind.OWNED,
            "/etc/security/limits.conf:2",
        ),
        ({"/etc/security/limits.conf": "@hpc - memlock 64\n"}, MEMLOCK, HoldKind.NONE, ""),
        ({OURS: "* - memlock 64\n"}, MEMLOCK, HoldKind.EDITED, OURS),
        (
            {"/proc/sys/fs/nr_open": "65536"},
            NOFILE,
            HoldKind.REFUSED,
            "nofile 524288 is above fs.nr_open (65536)",
        ),
        (
            {"/etc/sysctl.d/a.conf": "fs.nr_open = 70000\n"},
            NOFILE,
            HoldKind.REFUSED,
            "(70000): every login",
        ),
        ({}, "- limit: nofile\n  hard: unlimited", HoldKind.REFUSED, "nofile unlimited is above"),
        ({}, "- limit: priority\n  hard: '1'", HoldKind.REFUSED, "no limit that can be compared"),
        ({}, "- limit: nofile\n  hard: many", HoldKind.REFUSED, "'many' is no limit"),
        ({}, "- limit: nofile\n  hard: '1'\n  domains: ['a b']", HoldKind.REFUSED, "no domain"),
        (
            {},
            "- limit: nofile\n  soft: '2'\n  hard: '1'",
            HoldKind.REFUSED,
            "not above the hard one",
        ),
        ({}, "- limit: nofile", HoldKind.REFUSED, "needs soft or hard"),
    ],
)
def test_what_stands_in_the_way_is_named(files, wish, kind, says):
    finding = One(machine(files), wish).finding()
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, kind)
    assert says in finding.hold.detail
    assert bool(finding.changes) is (kind is HoldKind.NONE)


@pytest.mark.parametrize(
    ("nr_open", "hold"), [("524287", HoldKind.REFUSED), ("524288", HoldKind.NONE)]
)
def test_limit_of_open_files_may_be_as_high_as_the_kernel_lets_it(nr_open, hold):
    assert One(machine({"/proc/sys/fs/nr_open": nr_open}), NOFILE).finding().hold.kind is hold


@pytest.mark.parametrize(
    ("set_to", "verdict"), [(65535, Verdict.OK), (65534, Verdict.DIFFERS), (65536, Verdict.OK)]
)
def test_limit_that_is_nearly_what_would_be_written_may_be_enough(set_to, verdict):
    files = {"/etc/security/limits.conf": f"* - nofile {set_to}\nroot - nofile {set_to}\n"}
    wish = '- limit: nofile\n  soft: "65536"\n  hard: "65536"\n  enough: "65535"'
    assert One(machine(files), wish).finding().verdict is verdict


def test_group_with_a_limit_of_its_own_is_mentioned():
    finding = One(machine({"/etc/security/limits.conf": "@hpc - memlock 64\n"}), MEMLOCK).finding()
    assert "@hpc has its own (/etc/security/limits.conf:1)" in finding.evidence


@pytest.mark.parametrize("own", ["1024", "1048576"])
def test_shell_that_started_hosttune_decides_nothing(own):
    told = SESSION.replace("1024   ", f"{own:7}")
    one = One(machine({"/proc/self/limits": told}), NOFILE)
    assert one.plan().digest == One(machine(), NOFILE).plan().digest
    assert one.finding().evidence[0] == "* and root soft 1024 (the default of new sessions)"


def test_dropin_that_is_gone_is_missed():
    one = One(machine(), '- limit: nofile\n  soft: "65536"')
    one.apply()
    one.door.remove(OURS, expected=one.door.read(OURS))
    assert one.finding().verdict is Verdict.DIFFERS


def test_default_that_cannot_be_read_is_unknown():
    one = One(machine(unreadable={"/proc/1/limits": "permission denied"}), NOFILE)
    assert (one.finding().verdict, "permission denied" in one.finding().reason) == (
        Verdict.UNKNOWN,
        True,
    )
    told = One(
        host({"/proc/sys/fs/nr_open": "1048576\n"}), NOFILE
    ).finding()  # hidden: proc(5), hidepid=
    assert told.verdict is Verdict.UNKNOWN


def test_image_without_a_kernel_is_held_to_the_kernels_own_default():
    image = {
        "kind": "root",
        "persistent_only": True,
        "unreadable": dict.fromkeys(("/proc", "/sys", "/run"), "no"),
    }
    assert len(One(host(**image), NOFILE).changes()) == 1
    refused = One(host(**image), NOFILE.replace("524288", "2000000")).finding()
    assert "(1048576)" in refused.hold.detail


def test_folder_that_cannot_be_read_is_unknown():
    finding = One(machine(unreadable={"/etc/security/limits.d": "needs root"}), MEMLOCK).finding()
    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())


def test_files_are_read_in_the_order_of_pam_limits():
    files = {
        "/etc/security/limits.d/b.conf": "* soft nofile 3",
        "/etc/security/limits.d/B.conf": "* soft nofile 2 # x",
        "/etc/security/limits.conf": "* soft nofile 1\n* soft nproc 1",
        "/etc/security/limits.d/x": "* soft nofile 9",
    }
    rows = Facts(FakeReader(files)).session_limits["nofile"].lines
    assert [row.given.value for row in rows] == ["1", "2", "3"]


def test_dropin_of_ours_that_somebody_edited_in_latin_1_is_held():
    finding = One(machine({OURS: b"# d\xe9faut\n* soft memlock 64\n"}), MEMLOCK).finding()
    assert finding.hold.kind is HoldKind.EDITED


def test_line_is_read_beside_a_comment_that_is_no_utf_8():
    files = {"/etc/security/limits.conf": b"# d\xe9faut\n* soft nofile 1\n"}
    assert Facts(FakeReader(files)).session_limits["nofile"].lines == (
        LimitLine("*", "soft", Placed("1", "/etc/security/limits.conf", 2)),
    )


@pytest.mark.parametrize(
    ("item", "value"),
    [("memlock", ("8192", "unlimited")), ("nofile", ("1024", "1048576"))],
)
def test_default_of_a_session_is_in_the_unit_of_the_files(item, value):
    """pam_limits caps the soft limit of open files that it takes from process 1."""
    told = SESSION.replace("8388608              8388608 ", "8388608              unlimited")
    told = told.replace("1024                 1048576", "1048576              1048576")
    found = Facts(FakeReader({"/proc/1/limits": told})).session_limits[item]
    assert (found.soft, found.hard) == value


def test_item_that_is_none_is_unknown():
    with pytest.raises(UnknownFact, match="is no item of limits"):
        _ = Facts(FakeReader({})).session_limits["unheard-of"].lines


def test_lines_are_read_as_pam_limits_reads_them():
    assert list(parse_lines("# x\n* - nofile 5\n@a hard core 0 # y\nbad line\n")) == [
        (2, "*", "soft", "nofile", "5"), (2, "*", "hard", "nofile", "5"), (3, "@a", "hard", "core", "0"),
    ]  # fmt: skip
    assert [parse_amount(text) for text in ("5", "-1", "unlimited", "x", "-2")] == [
        5,
        float("inf"),
        float("inf"),
        None,
        None,
    ]


def test_files_of_limits_and_their_dropins_name_their_rule():
    one = One(machine(), MEMLOCK)
    assert f"Written by hosttune for {RULE}." in one.plan().changes[0].after.content.decode()


def test_what_stands_in_the_way_says_the_way_out_and_what_is_there():
    files = {"/etc/security/limits.d/90-a.conf": "* soft memlock 64\n* hard memlock 64\n"}
    finding = One(machine(files), MEMLOCK).finding()
    assert finding.todo == f"change /etc/security/limits.d/90-a.conf:1, or ignore {RULE}"
    assert finding.evidence[0] == "* soft 64 (/etc/security/limits.d/90-a.conf:1)"
    finding = One(machine({"/proc/sys/fs/nr_open": "65536\n"}), NOFILE).finding()
    assert (finding.hold.kind, finding.todo) == (HoldKind.REFUSED, "raise fs.nr_open first")


def test_nr_open_that_cannot_be_read_leaves_open_files_unknown_and_says_so(monkeypatch):
    kind = address_kinds()["sysctl"]
    plain = kind.read
    monkeypatch.setattr(
        kind,
        "read",
        lambda reader, name: (
            Unreadable("needs root") if name == "fs.nr_open" else plain(reader, name)
        ),
    )
    finding = One(machine(), NOFILE).finding()
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, "fs.nr_open: needs root")
    assert One(machine(), MEMLOCK).finding().verdict is Verdict.DIFFERS
