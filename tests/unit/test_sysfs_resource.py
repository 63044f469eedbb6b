"""Kernel values below /sys: what is read, who sets it at boot, what is written, and the way
back.
"""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.sysfs_at_boot import tmpfiles_writes, udev_writes
from hosttune.facts.sysfs import fits
from hosttune.resources import address_kinds
from hosttune.values import HoldKind, Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import RULE, One, host

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
OURS = f"/etc/tmpfiles.d/60-hosttune-{RULE}.conf"
UDEV = f"/etc/udev/rules.d/60-hosttune-{RULE}.rules"
MADVISE = f"- sysfs: {THP}\n  exactly: madvise"
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
READ_AHEAD = "/sys/block/{}/queue/read_ahead_kb"


def thp(files=None, word="never", **kwargs):
    words = " ".join(f"[{one}]" if one == word else one for one in ("always", "madvise", "never"))
    return host({THP: f"{words}\n", **(files or {})}, **kwargs)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("always [madvise] never\n", "madvise"),
        ("128\n", "128"),
        ("[none]\n", "none"),
        ("1\t2\n", "1 2"),
        ("", ""),
    ],
)
def test_value_is_the_chosen_word_or_the_text(text, value):
    assert address_kinds()["sysfs"].read(FakeReader({"/sys/x": text}), "/sys/x") == value


def test_choice_is_set_now_and_at_boot_and_taken_back():
    one = One(thp(), MADVISE)
    assert one.changes() == [
        f"sysfs:{THP} never -> madvise",
        f"file:{OURS} ABSENT -> w {THP} - - - - madvise",
    ]
    receipt = one.apply()
    assert receipt.failed == ()
    assert receipt.verified
    assert one.door.read(THP) == b"always [madvise] never\n"
    assert one.finding().verdict is Verdict.OK
    assert one.finding().evidence == ("now madvise", f"next boot madvise ({OURS}:3)")
    one.undo()
    assert one.kept() == {}


@pytest.mark.parametrize(
    ("files", "kind", "says"),
    [
        (
            {"/proc/cmdline": "quiet transparent_hugepage=always"},
            HoldKind.OWNED,
            "the kernel command line",
        ),
        (
            {"/etc/tmpfiles.d/10-a.conf": f"w {THP} - - - - always"},
            HoldKind.OWNED,
            "/etc/tmpfiles.d/10-a.conf:1",
        ),
        (
            {"/etc/tmpfiles.d/99-a.conf": f"w! {THP} - - - - always"},
            HoldKind.OWNED,
            "/etc/tmpfiles.d/99-a.conf:1",
        ),
        # a line of the distribution counts before ours only if it spells the same path ...
        (
            {"/usr/lib/tmpfiles.d/10-a.conf": f"w {THP} - - - - always"},
            HoldKind.OWNED,
            "/usr/lib/tmpfiles.d/10-a.conf",
        ),
        ({"/usr/lib/tmpfiles.d/10-a.conf": f"w {THP[:-1]}? - - - - always"}, HoldKind.NONE, ""),
        # ... and after ours only if it does not
        (
            {"/usr/lib/tmpfiles.d/99-a.conf": f"w {THP[:-1]}? - - - - always"},
            HoldKind.OWNED,
            "99-a.conf:1",
        ),
        ({"/usr/lib/tmpfiles.d/99-a.conf": f"w {THP} - - - - always"}, HoldKind.NONE, ""),
        # one of the name of ours is not read any more as soon as ours is there
        ({OURS.replace("/etc/", "/usr/lib/"): f"w {THP} - - - - always"}, HoldKind.NONE, ""),
        ({OURS.replace("/etc/", "/usr/lib/"): f"w {THP[:-1]}? - - - - always"}, HoldKind.NONE, ""),
        (
            {"/etc/sysfs.conf": "kernel/mm/transparent_hugepage/enabled = always"},
            HoldKind.OWNED,
            "/etc/sysfs.conf:1",
        ),
        ({"/etc/tmpfiles.d/10-a.conf": f"#w {THP} - - - - always"}, HoldKind.NONE, ""),
        ({OURS: f"w {THP} - - - - always\n"}, HoldKind.EDITED, OURS),
    ],
)
def test_who_sets_it_at_boot_is_named(files, kind, says):
    finding = One(thp(files), MADVISE).finding()
    assert finding.verdict is Verdict.DIFFERS
    assert finding.hold.kind is kind
    assert says in finding.hold.detail
    assert bool(finding.changes) is (kind is HoldKind.NONE)


def test_tuned_that_sets_it_is_named():
    files = {
        "/etc/tuned/active_profile": "site",
        "/etc/tuned/site/tuned.conf": "[vm]\ntransparent_hugepages=always\n",
        "/usr/lib/systemd/system/tuned.service": "[Install]\nWantedBy=multi-user.target\n",
    }
    links = {
        "/etc/systemd/system/multi-user.target.wants/tuned.service": "/usr/lib/systemd/system/tuned.service"
    }
    finding = One(thp(files, links=links), MADVISE).finding()
    assert str(finding.hold) == "managed by TuneD profile site"


def test_file_that_sets_it_already_is_enough():
    files = {"/usr/lib/tmpfiles.d/thp.conf": f"w {THP} - - - - madvise"}
    assert One(thp(files, "madvise"), MADVISE).finding().verdict is Verdict.OK
    assert One(thp(files), MADVISE).changes() == [f"sysfs:{THP} never -> madvise"]


@pytest.mark.parametrize(
    ("door", "wish", "verdict", "says"),
    [
        (host(), MADVISE, Verdict.NOT_APPLICABLE, f"this kernel has no {THP}"),
        (
            thp(),
            MADVISE.replace("madvise", "maybe"),
            Verdict.NOT_APPLICABLE,
            "does not take maybe: always, madvise",
        ),
        (host(unreadable={THP: "needs root"}), MADVISE, Verdict.UNKNOWN, "needs root"),
        (thp(unreadable={"/etc/tmpfiles.d": "needs root"}), MADVISE, Verdict.UNKNOWN, "needs root"),
        (
            host(),
            "- sysfs: /proc/sys/vm/swappiness\n  exactly: 1",
            Verdict.DIFFERS,
            "no file below /sys",
        ),
        (
            host(),
            "- sysfs: /sys/../etc/passwd\n  exactly: 1",
            Verdict.DIFFERS,
            "no file below /sys",
        ),
        (thp(), f'- sysfs: {THP}\n  exactly: "a\\nw /etc/x"', Verdict.DIFFERS, "cannot be written"),
        (thp(), f"{MADVISE}\n  persist: udev", Verdict.DIFFERS, "udev knows no device"),
        (thp(), f'{MADVISE}\n  match: KERNEL=="x"', Verdict.DIFFERS, "match belongs to"),
    ],
)
def test_what_cannot_be_is_said(door, wish, verdict, says):
    finding = One(door, wish).finding()
    assert finding.verdict is verdict
    assert says in f"{finding.reason} {finding.hold}"
    assert finding.changes == ()


def cpus(*governors):
    files = {GOVERNOR.format(number): f"{word}\n" for number, word in enumerate(governors)}
    offers = {
        GOVERNOR.format(number).replace(
            "scaling_governor", "scaling_available_governors"
        ): "performance powersave\n"
        for number in range(len(governors))
    }
    return host({**files, **offers, "/sys/devices/system/cpu/cpufreq/boost": "1\n"})


def test_wildcard_is_every_file_and_one_line():
    one = One(
        cpus("powersave", "performance", "powersave"),
        f"- sysfs: {GOVERNOR.format('*')}\n  exactly: performance",
    )
    assert one.changes() == [
        f"sysfs:{GOVERNOR.format(0)} powersave -> performance",
        f"sysfs:{GOVERNOR.format(2)} powersave -> performance",
        f"file:{OURS} ABSENT -> w {GOVERNOR.format('*')} - - - - performance",
    ]
    assert one.finding().evidence[:2] == ("now powersave (2 files)", "now performance (1 files)")
    one.apply()
    assert one.finding().verdict is Verdict.OK
    one.undo()
    assert one.kept() == {}


@pytest.mark.parametrize(("cpus_there", "is_one"), [(8, False), (9, True)])
def test_more_than_eight_numbered_files_are_one_change(cpus_there, is_one):
    one = One(
        cpus(*["powersave"] * cpus_there),
        f"- sysfs: {GOVERNOR.format('*')}\n  exactly: performance",
    )
    live = [change for change in one.changes() if change.startswith("sysfs")]
    assert live == (
        [f"sysfs-set:{GOVERNOR.format('*')} powersave -> performance"]
        if is_one
        else [f"sysfs:{GOVERNOR.format(number)} powersave -> performance" for number in range(8)]
    )


def test_numbered_files_of_which_one_cannot_take_the_value_are_changes_of_their_own():
    door = cpus(*["powersave"] * 10)
    offers = GOVERNOR.format(3).replace("scaling_governor", "scaling_available_governors")
    door.base.files[offers] = b"powersave\n"
    one = One(door, f"- sysfs: {GOVERNOR.format('*')}\n  exactly: performance")
    live = [change for change in one.changes() if change.startswith("sysfs")]
    assert live == [
        f"sysfs:{GOVERNOR.format(number)} powersave -> performance"
        for number in range(10)
        if number != 3
    ]


def test_numbered_files_that_are_right_now_are_no_change_beside_the_file_for_the_boot():
    one = One(
        cpus(*["performance"] * 9), f"- sysfs: {GOVERNOR.format('*')}\n  exactly: performance"
    )
    assert one.changes() == [f"file:{OURS} ABSENT -> w {GOVERNOR.format('*')} - - - - performance"]


def test_governor_that_the_driver_does_not_have_is_not_applicable():
    finding = One(
        cpus("powersave"), f"- sysfs: {GOVERNOR.format('*')}\n  exactly: schedutil"
    ).finding()
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "performance, powersave" in finding.reason


def test_better_value_of_one_device_is_kept_at_boot_too():
    files = {
        READ_AHEAD.format(name): f"{size}\n"
        for name, size in (("sda", 128), ("sdb", 8192), ("nvme0n1", 128))
    }
    want = f"- sysfs: {READ_AHEAD.format('sd*')}\n  at_least: 4096"
    one = One(host(files), want)
    assert one.changes() == [
        f"sysfs:{READ_AHEAD.format('sda')} 128 -> 4096",
        f"file:{OURS} ABSENT -> w {READ_AHEAD.format('sd*')} - - - - 4096; w {READ_AHEAD.format('sdb')} - - - - 8192",
    ]
    one.apply()
    assert one.finding().verdict is Verdict.OK
    udev = One(host(files), f"{want}\n  persist: udev")
    assert udev.changes()[1] == (
        f'file:{UDEV} ABSENT -> ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", KERNEL=="sd*", '
        'ATTR{queue/read_ahead_kb}="4096"; ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
        'KERNEL=="sdb", ATTR{queue/read_ahead_kb}="8192"'
    )
    udev.apply()
    assert udev.finding().verdict is Verdict.OK
    udev.undo()
    assert udev.kept() == {}


def test_match_of_a_rule_stands_instead_of_the_name():
    want = f"- sysfs: {READ_AHEAD.format('sda')}\n  at_least: 4096\n  persist: udev\n  match: 'ENV{{ID_SERIAL}}==\"x\"'"
    one = One(host({READ_AHEAD.format("sda"): "128\n"}), want)
    assert 'ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="x", ATTR{' in one.changes()[1]
    one.apply()
    assert one.finding().verdict is Verdict.OK


SCHEDULER = "/sys/block/sda/queue/scheduler"
NONE = f"- sysfs: {SCHEDULER}\n  exactly: none\n  persist: udev"


@pytest.mark.parametrize(
    ("name", "rule", "is_owned"),
    [
        ("/etc/udev/rules.d/10-a.rules", 'KERNEL=="sd[a-z]", ATTR{queue/scheduler}="bfq"', True),
        ("/etc/udev/rules.d/10-a.rules", 'KERNEL=="nvme*", ATTR{queue/scheduler}="bfq"', False),
        (
            "/etc/udev/rules.d/10-a.rules",
            'KERNEL=="sd*", ATTR{queue/scheduler}=="bfq", RUN+="x"',
            False,
        ),
        (
            "/etc/udev/rules.d/10-a.rules",
            'ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq"',
            True,
        ),
        ("/usr/lib/udev/rules.d/90-a.rules", 'KERNEL=="sd*", ATTR{queue/scheduler}="bfq"', True),
        ("/usr/lib/udev/rules.d/50-a.rules", 'KERNEL=="sd*", ATTR{queue/scheduler}="bfq"', False),
        (
            "/usr/lib/udev/rules.d/90-a.rules",
            'ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq"',
            False,
        ),
    ],
)
def test_udev_rule_of_another_is_named_where_it_may_win(name, rule, is_owned):
    files = {SCHEDULER: "none [mq-deadline]\n", name: f"{rule}\n"}
    finding = One(host(files), NONE).finding()
    assert (finding.hold.kind is HoldKind.OWNED) is is_owned
    assert (f"{name}:1" in finding.hold.detail) is is_owned


def test_image_gets_the_dropin_alone():
    image = host(
        kind="root",
        persistent_only=True,
        unreadable={"/sys": "no kernel", "/proc": "no", "/run": "no"},
    )
    one = One(image, f"- sysfs: {GOVERNOR.format('*')}\n  exactly: performance")
    assert one.changes() == [f"file:{OURS} ABSENT -> w {GOVERNOR.format('*')} - - - - performance"]
    one.apply()
    assert one.finding().verdict is Verdict.OK


@pytest.mark.parametrize(
    ("path", "pattern", "is_meant"),
    [
        ("/sys/a/b", "/sys/*/b", True),
        ("/sys/a/b", "/sys/*", False),
        ("/sys/a/b", "/sys/{x,a}/[bc]", True),
        ("/sys/a/b", "/sys/{x,y}/b", False),
        ("/sys/block/sda/size", "/sys/class/block/sd?/size", True),
    ],
)
def test_pattern_means_what_glob_means(path, pattern, is_meant):
    assert fits(path, pattern) is is_meant


def test_lines_of_tmpfiles_are_read_as_systemd_reads_them():
    text = 'd /run/x 0755\nw "/sys/a b" - - - - x  y %% z\n#w /sys/c - - - - 1\nw+ /sys/d - - - - 1\nw /sys/e\n'
    assert tmpfiles_writes(text) == ((2, "/sys/a b", "x y % z", False), (4, "/sys/d", "1", True))


def test_first_of_two_lines_that_spell_one_path_counts():
    files = {
        "/etc/tmpfiles.d/x.conf": "w /sys/a - - - - 1\n",
        "/etc/tmpfiles.d/y.conf": "w /sys/a - - - - 2\n",
        "/etc/tmpfiles.d/z.conf": "w /sys/? - - - - 3\nw+ /sys/a - - - - 4\n",
    }
    found = Facts(FakeReader(files)).sysfs_at_boot["/sys/a"].settings
    assert [one.given.value for one in found] == ["1", "3", "4"]


def test_rules_of_udev_are_read_with_their_conditions():
    text = '# x\nSUBSYSTEM=="block", \\\n KERNEL=="sd*", ATTR{a}="1"\nSUBSYSTEM!="net", GOTO="end"\nATTR{b}:="2"\n'
    assert udev_writes(text) == (
        (2, {"SUBSYSTEM": "block", "KERNEL": "sd*"}, "a", "1"),
        (5, {"?": "GOTO"}, "b", "2"),
    )


def test_pattern_below_a_folder_that_cannot_be_listed_is_unknown():
    reader = FakeReader(unreadable={"/sys/block": "needs root"})
    with pytest.raises(UnknownFact, match="needs root"):
        _ = Facts(reader).sysfs.files["/sys/block/*/queue"]
    with pytest.raises(UnknownFact, match="no path below /sys"):
        _ = Facts(reader).sysfs.files["/sys/kernel/debug/*"]


def test_value_that_the_kernel_chooses_needs_no_file():
    wish = f"- sysfs: {THP}\n  exactly: madvise\n  kernel_default: true"
    assert One(thp(word="madvise"), wish).finding().verdict is Verdict.OK
    assert One(thp(), wish).changes() == [f"sysfs:{THP} never -> madvise"]
    other = {"/usr/lib/tmpfiles.d/10-a.conf": f"w {THP[:-1]}? - - - - always"}
    assert len(One(thp(other), wish).changes()) == 2


def test_devices_of_one_match_share_a_line_that_lowers_none_of_them():
    files = {READ_AHEAD.format("sda"): "128\n", READ_AHEAD.format("sdb"): "8192\n"}
    match = "persist: udev\n  match: 'ATTR{queue/rotational}==\"1\"'"
    wishes = "".join(
        f"- sysfs: {READ_AHEAD.format(name)}\n  at_least: 4096\n  {match}\n"
        for name in ("sda", "sdb")
    )
    one = One(host(files), wishes)
    one.apply()
    rules = [line for line in one.door.read(UDEV).decode().splitlines() if not line.startswith("#")]
    assert len(rules) == 1
    assert rules[0].endswith('ATTR{queue/rotational}=="1", ATTR{queue/read_ahead_kb}="8192"')


def test_line_of_another_device_in_the_file_of_the_rule_sets_nothing_for_this_one():
    def wish(name):
        return f"- sysfs: {READ_AHEAD.format(name)}\n  at_least: 4096\n  persist: udev\n  match: 'ATTR{{device/wwid}}==\"{name}\"'\n"

    files = {READ_AHEAD.format(name): "128\n" for name in ("sda", "sdb")}
    one = One(host(files), wish("sda"))
    one.apply()
    both = One(one.door, wish("sda") + wish("sdb"))
    assert any(str(change).startswith("file:") for change in both.changes())
    both.apply()
    text = both.door.read(UDEV).decode()
    assert all(
        f'ATTR{{device/wwid}}=="{name}", ATTR{{queue/read_ahead_kb}}="4096"' in text
        for name in ("sda", "sdb")
    )


@pytest.mark.parametrize("match", ['ATTR{device/wwid}=="sda"', 'KERNEL=="sda"'])
def test_line_of_our_own_that_means_more_disks_than_the_wish_is_written_anew(match):
    broad = 'KERNEL=="[shv]d*", ATTR{queue/rotational}=="1"'

    def wish(matches):
        matches = f"'{matches}'"
        return f"- sysfs: {READ_AHEAD.format('sda')}\n  at_least: 4096\n  persist: udev\n  match: {matches}"

    rotational = ', ATTR{queue/rotational}=="1"'
    earlier = One(host({READ_AHEAD.format("sda"): "128\n"}), wish(broad))
    earlier.apply()
    now = One(earlier.door, wish(match + rotational))
    assert now.changes()
    now.apply()
    rules = [line for line in now.door.read(UDEV).decode().splitlines() if not line.startswith("#")]
    assert len(rules) == 1
    assert f"{match}{rotational}, ATTR{{queue/read_ahead_kb}}" in rules[0]


def test_program_of_a_udev_rule_is_a_condition_however_it_is_written():
    row = 'SUBSYSTEM=="bdi", PROGRAM="/usr/libexec/nfsrahead %k", ATTR{read_ahead_kb}="%c"'
    ((_, matches, attribute, value),) = udev_writes(row)
    assert (matches["?"], attribute, value) == (
        'PROGRAM="/usr/libexec/nfsrahead %k"',
        "read_ahead_kb",
        "%c",
    )


def test_value_that_a_program_gives_udev_is_not_told_as_a_value():
    rule = 'SUBSYSTEM=="block", KERNEL=="sda", PROGRAM="/usr/lib/x %k", ATTR{queue/read_ahead_kb}="%c"\n'
    door = host({READ_AHEAD.format("sda"): "128\n", "/usr/lib/udev/rules.d/70-x.rules": rule})
    wish = f"- sysfs: {READ_AHEAD.format('sda')}\n  at_least: 4096\n  persist: udev"
    lines = One(door, wish).finding().evidence
    assert (
        "next boot a value that is worked out then (/usr/lib/udev/rules.d/70-x.rules:1), perhaps"
        in lines
    )


GOVERNORS = "- sysfs: /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor\n  exactly: performance"
TUNED_LINKS = {
    "/etc/systemd/system/multi-user.target.wants/tuned.service": "/usr/lib/systemd/system/tuned.service"
}
TUNED_UNIT = {"/usr/lib/systemd/system/tuned.service": "[Install]\nWantedBy=multi-user.target\n"}


def governed(present, files=None, **kwargs):
    return One(
        host({GOVERNOR.format(n): f"{present}\n" for n in range(2)} | (files or {}), **kwargs),
        GOVERNORS,
    )


def tuned(words):
    profile = {
        "/etc/tuned/active_profile": "site",
        "/etc/tuned/site/tuned.conf": f"[cpu]\ngovernor={words}\n",
    }
    return TUNED_UNIT | profile


@pytest.mark.parametrize("words", ["performance", "performance|powersave", "${governor}"])
def test_value_that_tuned_holds_now_and_at_boot_is_ok(words):
    finding = governed("performance", tuned(words), links=TUNED_LINKS).finding()
    assert (finding.verdict, finding.changes) == (Verdict.OK, ())
    assert finding.evidence == (
        "now performance (2 files)",
        "next boot performance (TuneD profile site)",
    )


@pytest.mark.parametrize(
    ("words", "present"), [("powersave", "performance"), ("performance", "powersave")]
)
def test_value_that_tuned_does_not_hold_is_its_own(words, present):
    finding = governed(present, tuned(words), links=TUNED_LINKS).finding()
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, HoldKind.OWNED)
    assert finding.reason.endswith(" after a reboot") is (present == "performance")


def test_tuned_that_does_not_start_with_the_machine_holds_nothing_at_boot():
    files = {
        **tuned("performance"),
        "/sys/fs/cgroup/system.slice/tuned.service/cgroup.procs": "9\n",
    }
    assert governed("performance", files).finding().verdict is Verdict.DIFFERS


def of_vendor(command):
    unit = "/usr/lib/systemd/system/nv-cpu-governor.service"
    files = {
        unit: f"[Service]\nType=idle\nExecStart=/usr/bin/{command}\n[Install]\nWantedBy=multi-user.target\n"
    }
    return files, {"/etc/systemd/system/multi-user.target.wants/nv-cpu-governor.service": unit}


def test_value_that_a_unit_of_the_vendor_sets_at_boot_is_ok():
    files, links = of_vendor("cpupower frequency-set -g performance")
    finding = governed("performance", files, links=links).finding()
    assert finding.verdict is Verdict.OK
    assert (
        "nv-cpu-governor.service (/usr/lib/systemd/system/nv-cpu-governor.service:3)"
        in finding.evidence[-1]
    )
    off = governed("powersave", files, links=links)
    assert [change.split(" ")[0].split(":")[0] for change in off.changes()] == [
        "sysfs",
        "sysfs",
    ]  # no file of ours


def test_unit_that_sets_another_value_is_named():
    files, links = of_vendor("cpupower frequency-set -g powersave")
    finding = governed("powersave", files, links=links).finding()
    assert finding.hold.kind is HoldKind.OWNED
    assert "nv-cpu-governor.service" in finding.hold.detail


def test_value_that_is_right_until_the_next_boot_is_told_so():
    assert (
        governed("performance").finding().reason.endswith("should stay performance after a reboot")
    )
    assert not governed("powersave").finding().reason.endswith(" after a reboot")
