"""Package sets: what apt would do is shown, objected to, done, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.errors import Conflict, HalfWay, Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.facts.gpu.archives import POLICY as ARCHIVES
from hosttune.facts.gpu.archives import POLICY as POLICY_OF_ALL
from hosttune.facts.packages import REPAIR
from hosttune.host.door import Completed
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources.base import Applied, Context, Wish
from hosttune.resources.packages.package import PackagesWish
from hosttune.resources.packages.package_set import PackageSetAddress, set_name, split_set
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    Hold,
    HoldKind,
    Risk,
    Unreadable,
    Verdict,
)
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed

WISH = PackagesWish("packages")
SET = PackageSetAddress()
SIMULATED = """Reading package lists...
Building dependency tree...
The following NEW packages will be installed:
  nvidia-utils-580 libnvidia-compute-580
Inst libnvidia-compute-580 (580.95.05-0ubuntu1 Ubuntu:24.04/noble-updates [amd64])
Inst libc6 [2.39-0ubuntu8] (2.39-0ubuntu8.5 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [amd64]) [libc-bin ]
Inst nvidia-utils-580 (580.95.05-0ubuntu1 Ubuntu:24.04/noble-updates [amd64])
Conf nvidia-utils-580 (580.95.05-0ubuntu1 Ubuntu:24.04/noble-updates [amd64])
"""
NEW = """Inst b-helper (2 site:1/stable [all])
Inst a (1.5-1 site:1/stable [all])
Conf b-helper (2 site:1/stable [all])
Conf a (1.5-1 site:1/stable [all])
"""
UPGRADE = "Inst libx [1] (2 site:1/stable [all])\n"
URIS = "'http://x/a_1.5-1_all.deb' a_1.5-1_all.deb 1200000 SHA256:00\n'http://x/b' b-helper_2_all.deb 300000 SHA256:00\n"


def status(**versions):
    return "".join(
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nArchitecture: all\nVersion: {version}\n\n"
        for name, version in versions.items()
    )


def reader(database="", simulated=None, names=("a",), uris=URIS, kind=FakeReader):
    queries = {}
    if simulated is not None:
        queries = {apt.make_simulation(names): simulated, apt.make_download_list(names): uris}
    return kind({"/var/lib/dpkg/status": status(dpkg="1.22") + database}, queries=queries)


class FakeWriter(FakeReader):
    """Runs nothing: `outcome` is the dpkg status afterwards, or the error."""

    outcome: str | Exception = ""
    left: str = ""  # of one that fails: the dpkg status afterwards
    ran: tuple[tuple[str, ...], ...] = ()

    def run(self, argv, *, timeout_s):
        assert timeout_s > 0  # no command without a bound
        self.ran = (*self.ran, tuple(argv))
        if isinstance(self.outcome, Exception):
            self.files["/var/lib/dpkg/status"] = status(dpkg="1.22") + self.left
            raise self.outcome
        self.files["/var/lib/dpkg/status"] = status(dpkg="1.22") + self.outcome
        return Completed(0, b"", b"")


def compare(host, names="a", ledger=None, **fields):
    facts = Facts(host)
    wish = Wish("packages", names, "some-rule", "", {"state": "installed"} | fields)
    state = {address: SET.read(host, address.name) for address in WISH.addresses(wish, facts)}
    (finding,) = typed(
        WISH.compare((wish,), Context(facts, state, ledger or {}, Risk.MEDIUM, Disturbs.NOTHING))
    )
    return finding


def change_of(simulated=NEW, **fields):
    (change,) = compare(reader(simulated=simulated), **fields).changes
    return change


def test_parse_reads_installs_upgrades_and_origins():
    would = apt.parse(apt.find_relevant_lines(SIMULATED))
    assert [(one.name, one.before, one.after, one.origin) for one in would.steps] == [
        (
            "libc6",
            "2.39-0ubuntu8",
            "2.39-0ubuntu8.5",
            "Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security",
        ),
        ("libnvidia-compute-580", "", "580.95.05-0ubuntu1", "Ubuntu:24.04/noble-updates"),
        ("nvidia-utils-580", "", "580.95.05-0ubuntu1", "Ubuntu:24.04/noble-updates"),
    ]


def test_parse_reads_removals_sizes_and_errors():
    lines = ("Remv old [1.2] [needed:amd64 ]", "E: Unable to locate package x", "E: second")
    would = apt.parse(lines)
    assert [(one.name, one.before) for one in would.removed] == [("old", "1.2")]
    assert apt.download_bytes(URIS) == 1_500_000
    assert would.error == "Unable to locate package x; second"
    assert would.knows_no_such_package


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("580.95.05-0ubuntu1", "580.95.05"),
        ("1:2.3-4-5", "2.3-4"),
        ("595.84", "595.84"),
        ("2:7", "7"),
    ],
)
def test_upstream(version, upstream):
    assert apt.get_upstream(version) == upstream


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        (("Inst a (1 s [all])",), {"--no-remove"}),
        (("Inst a [2] (1 s [all])",), {"--no-remove", "--allow-downgrades"}),
        (("Remv a [1]",), set()),
        (("Remv a [1]", "Inst b [2] (1 s [all])"), {"--allow-downgrades"}),
    ],
)
def test_installation_allows_only_what_was_simulated(lines, flags):
    argv = apt.make_installation(("a=1",), apt.parse(lines))
    assert {word for word in argv if word.startswith("--")} == flags | {"--no-install-recommends"}


def test_set_name_round_trip():
    parts = (("a", "b"), ("c",), ("d",))
    assert split_set(set_name(*parts)) == parts
    assert split_set(set_name(("a",))) == (("a",), (), ())


def test_read_only_installed_ones():
    database = status(a="1.5-1") + "Package: b\nStatus: deinstall ok config-files\nVersion: 2\n\n"
    assert SET.read(reader(database), "a + b - c") == ("a=1.5-1",)
    assert SET.read(reader(database), "b") is ABSENT


def test_compare_installed_is_ok_and_asks_apt_nothing():
    host = reader(status(a="1.5-1"))
    finding = compare(host)
    assert finding.verdict is Verdict.OK
    assert finding.evidence == ("a 1.5-1 is installed",)
    assert host.asked == []


def test_compare_no_names_is_ok():
    assert compare(reader(), names="").verdict is Verdict.OK


def test_compare_missing_gives_one_change_for_the_whole_set():
    finding = compare(reader(simulated=NEW), activation="reboot")
    (change,) = finding.changes
    assert change.address == Address("package-set", "a + b-helper")
    assert (change.action, change.before, change.after) == (
        Action.CREATE,
        ABSENT,
        ("a=1.5-1", "b-helper=2"),
    )
    assert (change.risk, change.activation) == (Risk.MEDIUM, Activation.REBOOT)
    assert change.reversible.startswith("yes: removes exactly these 2 packages")
    assert change.details == (
        "install a 1.5-1 from site:1/stable",
        "install b-helper 2 from site:1/stable",
        "removes nothing",
        "download: 1.5 MB",
    )


def test_compare_asks_only_for_what_is_missing():
    host = reader(status(b="1"), simulated=NEW)
    (change,) = compare(host, names="a b").changes
    assert change.address.name == "a + b-helper"


POLICY = """libx:
  Installed: 1
  Candidate: 2
  Version table:
     2 500
        500 http://site/debian stable/main amd64 Packages
 *** 1 {0}
        100 /var/lib/dpkg/status
"""
IN_ARCHIVE = POLICY.format("500\n        500 http://site/debian stable/main amd64 Packages")


@pytest.mark.parametrize(
    ("policy", "cache", "way_back"),
    [
        (
            IN_ARCHIVE,
            (),
            "yes, from kept .deb files: puts back the 1 old versions; removes exactly these 2 packages",
        ),
        (POLICY.format(100), ("libx_1_all.deb",), "yes, from kept .deb files"),
        (POLICY.format(100), ("libx_11_all.deb",), "no: only 0 of 1 old versions can be kept"),
        (ABSENT, (), "yes, as far as an archive still has the old version of libx; removes"),
    ],
    ids=["archive", "cache", "nowhere", "unknown"],
)
def test_compare_upgrades_say_how_far_they_can_be_undone(policy, cache, way_back):
    host = reader(simulated=NEW + UPGRADE)
    host.files |= {f"/var/cache/apt/archives/{name}": b"" for name in cache}
    host.queries |= {
        apt.ask_policy(["libx"]): policy,
        apt.make_automatic_question(["libx"]): "libx\n",
    }
    (change,) = compare(host).changes
    assert change.before == (("libx=1",) if policy is ABSENT else ("libx=1 (auto)",))
    assert change.reversible.startswith(way_back)
    assert "upgrade libx 1 -> 2 from site:1/stable" in change.details


OBJECTIONS = {
    "removes something": (NEW + "Remv editor [3]\n", {}, "apt would remove editor"),
    "removes more than it may": (NEW + "Remv editor [3]\nRemv old-a [1]\n", {"may_remove": ["old-"]}, "remove editor"),
    "compiles modules": (NEW + "Inst a-dkms (1 s [all])\n", {}, "compile kernel modules on this host (a-dkms)"),
    "does not install it": ("Inst b-helper (2 s [all])\n", {}, "apt would not install a"),
    "two versions": (NEW, {"one_version": ["a", "b-helper"]}, "one version, and the archive has a 1.5-1, b-helper 2"),
    "another branch": (
        NEW + "Inst libnvidia-compute [580.126.20-1] (595.71.05-1 s [all])\nInst nvidia-settings (510.47.03-1 s [all])\n",
        {"branch": "580"}, "apt would bring packages of another branch than 580: libnvidia-compute 595.71.05-1",
    ),
    "fails": (
        Completed(100, b"", b"W: odd\nE: Held packages were changed and -y was used without --allow-change-held-p\n"),
        {}, "apt-get would fail: Held packages were changed",
    ),
    "broken": (Completed(100, b"", b""), {}, "apt-get would fail: apt-get ended with status 100"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("simulated", "fields", "objection"), OBJECTIONS.values(), ids=OBJECTIONS.keys()
)
def test_compare_refuses_what_apt_must_not_do(simulated, fields, objection):
    finding = compare(reader(simulated=simulated), **fields)
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )
    assert objection in finding.hold.detail


BROKEN = Completed(100, b"", b"E: Unable to correct problems, you have held broken packages.\n")
MISSING = Completed(100, b"", b"E: Package 'a' has no installation candidate\n")


def test_compare_names_the_hold_that_apt_does_not():
    """`apt-mark hold` of a pattern holds packages that are not installed, too, of which apt says
    nothing.
    """
    held = "Package: {}\nStatus: hold ok not-installed\nArchitecture: all\n\n"
    finding = compare(reader(held.format("a") + held.format("other"), simulated=BROKEN))
    assert finding.hold.detail == (
        "an administrator holds a (apt-mark showhold; not installed) "
        "(apt-get: Unable to correct problems, you have held broken packages.)"
    )
    assert finding.todo == "when the hold has served: sudo apt-mark unhold a, then run it again"
    assert compare(reader(held.format("other"), simulated=BROKEN)).hold.detail.startswith(
        "apt-get would fail: "
    )


def test_compare_names_the_pin_that_takes_a_candidate_away():
    host = reader(simulated=MISSING)
    host.files["/etc/apt/preferences.d/no"] = b"Package: a\nPin: release *\nPin-Priority: -1\n"
    host.queries[POLICY_OF_ALL] = "Package files:\nPinned packages:\n     a -> 1 with priority -1\n"
    finding = compare(host)
    assert finding.verdict is Verdict.DIFFERS
    assert finding.hold.detail.startswith(
        "/etc/apt/preferences.d/no:1 keeps a from being installed"
    )
    assert "edit /etc/apt/preferences.d/no (line 1)" in finding.todo


@pytest.mark.parametrize(
    ("simulated", "fields"),
    [
        (NEW + "Remv old-a [1]\n", {"may_remove": ["old-"]}),
        (NEW + "Inst a-dkms (1 s [all])\n", {"allow_dkms": True}),
        (NEW.replace("(2 ", "(1:1.5-7 "), {"one_version": ["a", "b-helper"]}),
    ],
)
def test_compare_takes_what_the_rule_allows(simulated, fields):
    assert compare(reader(simulated=simulated), **fields).changes


def test_compare_unknown_package_is_unknown_with_the_way_out():
    finding = compare(reader(simulated=Completed(100, b"", b"E: Unable to locate package a\n")))
    assert finding.verdict is Verdict.UNKNOWN
    assert "sudo apt-get update" in finding.todo


@pytest.mark.parametrize(
    ("on", "todo"),
    [
        (
            ("main", "restricted", "universe"),
            (
                "apt has no list of Ubuntu's component multiverse: sudo add-apt-repository multiverse && sudo apt-get update\n"
                "run it again"
            ),
        ),
        (
            ("main", "restricted", "universe", "multiverse"),
            "sudo apt-get update, then run it again",
        ),
        ((), "sudo apt-get update, then run it again"),
    ],
)
def test_compare_unknown_package_names_the_component_that_is_off(on, todo):
    archive = "http://archive.ubuntu.com/ubuntu noble/{} amd64 Packages"
    host = reader(simulated=Completed(100, b"", b"E: Unable to locate package a\n"))
    host.queries[ARCHIVES] = "Package files:\n" + "".join(
        f" 500 {archive.format(one)}\n     release v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu,c={one},b=amd64\n"
        for one in on
    )
    assert compare(host).todo == todo


@pytest.mark.parametrize("answer", [Unreadable("not in this record"), ABSENT])
def test_compare_without_an_answer_is_unknown(answer):
    finding = compare(reader(simulated=answer))
    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())
    assert "not in this record" in finding.reason or "apt-get is not installed" in finding.reason


def test_compare_refused_by_the_rule_is_not_looked_at():
    host = reader(simulated=NEW)
    finding = compare(host, refused="no driver fits")
    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.REFUSED, "no driver fits")
    assert host.asked == []


def test_compare_installed_and_not_in_use_waits():
    finding = compare(reader(status(a="1")), in_use=False, activation="reboot")
    assert (finding.verdict, finding.hold.kind, finding.hold.detail) == (
        Verdict.DIFFERS,
        HoldKind.WAITING,
        "reboot",
    )
    assert compare(reader(status(a="1")), in_use=True, activation="reboot").verdict is Verdict.OK


def stopped(name):
    return f"Package: {name}\nStatus: install ok half-configured\nArchitecture: all\nVersion: 2\n\n"


OURS = {
    Address("package-set", "a + b-helper"): Applied(
        "run-7", "some-rule", ("a=1",), goes_on="run-7 goes on"
    )
}
GOES_ON = f"run-7 goes on; by hand: {REPAIR}"
TO_INSTALL = "not installed: a"
SAYS = {  # what is there, what apt would do, the ledger, the fields -> verdict, hold, reason, evidence, way out
    "refused by the rule": (
        "", NEW, {}, {"refused": "no driver fits", "todo": "look"}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "no driver fits"), "no suitable packages can be installed now", (), "look",
    ),
    "refused by the rule, where there is none of it": (
        "", NEW, {}, {"refused": "no driver fits", "todo": "look", "absent": "no GPU computes: no driver is installed"},
        Verdict.DIFFERS, Hold(HoldKind.REFUSED, "no driver fits"),
        "no GPU computes: no driver is installed, and no suitable packages can be installed now", (), "look",
    ),
    "refused by the rule, with no way out": (
        "", NEW, {}, {"refused": "no driver fits"}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "no driver fits"), "no suitable packages can be installed now", (), "",
    ),
    "refused for what is not whole": (
        stopped("x"), NEW, {}, {"refused": "x is not whole", "todo": REPAIR}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "x is not whole"), "dpkg has not finished installing its packages", (), REPAIR,
    ),
    "refused for what a run of ours left": (
        stopped("b-helper"), NEW, OURS, {"refused": "x is not whole", "todo": REPAIR}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "x is not whole"), "dpkg has not finished installing its packages", (), GOES_ON,
    ),
    "installed, and waits": (
        status(a="1"), None, {}, {"in_use": False}, Verdict.DIFFERS,
        Hold(HoldKind.WAITING, "reboot"), "it is installed, but not in use yet", ("a 1 is installed",), "",
    ),
    "installed, and waits for its activation": (
        status(a="1"), None, {}, {"in_use": False, "activation": "session"}, Verdict.DIFFERS,
        Hold(HoldKind.WAITING, "session"), "it is installed, but not in use yet", ("a 1 is installed",), "",
    ),
    "installed, and waiting does not help": (
        status(a="1"), None, {}, {"in_use": False, "unused": "it is blacklisted", "todo": "take it off"},
        Verdict.DIFFERS, Hold(HoldKind.REFUSED, "it is blacklisted"), "it is installed, but not in use",
        ("a 1 is installed",), "take it off",
    ),
    "what is half-way came with it": (
        status(a="1") + stopped("b-helper"), None, OURS, {}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "dpkg stopped half-way with b-helper (half-configured)"), "dpkg has not finished installing its packages",
        ("a 1 is installed",), GOES_ON,
    ),
    "what is half-way is nothing to it": (
        status(a="1") + stopped("b-helper"), None, {}, {}, Verdict.OK, Hold(), "", ("a 1 is installed",), "",
    ),
    "what is half-way came with another rule": (
        status(a="1") + stopped("b-helper"), None,
        {address: replace(one, rule="another-rule") for address, one in OURS.items()}, {}, Verdict.OK, Hold(), "",
        ("a 1 is installed",), "",
    ),
    "no such package": (
        "", Completed(100, b"", b"E: Unable to locate package a\n"), {}, {}, Verdict.UNKNOWN, Hold(),
        "not installed: a; apt: Unable to locate package a", (), "sudo apt-get update, then run it again",
    ),
    "no answer": (
        "", Unreadable("not in this record"), {}, {}, Verdict.UNKNOWN, Hold(),
        "not installed: a; what apt would do is unknown: not in this record", (), "",
    ),
    "apt would fail": (
        "", Completed(100, b"", b"E: held broken packages\n"), {}, {}, Verdict.DIFFERS,
        Hold(HoldKind.REFUSED, "apt-get would fail: held broken packages"), TO_INSTALL, (), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("there", "would", "ledger", "fields", "verdict", "hold", "reason", "evidence", "todo"),
    SAYS.values(),
    ids=SAYS,
)
def test_compare_that_changes_nothing_says_why_and_the_way_out(
    there, would, ledger, fields, verdict, hold, reason, evidence, todo
):  # fmt: skip
    finding = compare(reader(there, would), ledger=ledger, **fields)
    assert (finding.rule, finding.subject, finding.verdict) == ("some-rule", "", verdict)
    assert (finding.hold, finding.reason, finding.evidence, finding.todo) == (
        hold,
        reason,
        evidence,
        todo,
    )
    assert finding.changes == ()


def test_compare_that_apt_objects_to_shows_what_apt_would_do():
    finding = compare(reader(simulated="Remv editor [3]\n" + NEW))
    assert (finding.subject, finding.reason, finding.hold.detail) == (
        "",
        TO_INSTALL,
        "apt would remove editor",
    )
    assert any("editor" in line for line in finding.evidence)


def test_change_of_a_set_says_whose_and_why():
    assert (change_of().rule, change_of().reason) == ("some-rule", "apt-get installs a")
    assert compare(reader(simulated=NEW)).subject == ""
    assert change_of(why="the branch of this GPU").reason == "the branch of this GPU"
    host = reader(status(a="1", x="3"), "Remv x [3]\n", names=("x-",))
    (change,) = compare(host, remove=["x"]).changes
    assert (change.rule, change.reason) == ("some-rule", "apt-get removes x")


def test_set_that_a_wish_writes_is_the_one_that_it_asks_for():
    def wish(names, **fields):
        return Wish("packages", names, "some-rule", "", {"state": "installed"} | fields)

    both = wish("a b", versions=["a=2"], remove=["c"], activation="reboot")
    gone = wish("", remove=["c"])
    made = WISH.writes((both, gone, wish(""), wish("d", refused="no")))
    assert [
        (one.address.name, one.before, one.after, one.activation, one.rule) for one in made
    ] == [
        ("a b - c", ("c=VERSION",), ("a=2", "b="), Activation.REBOOT, "some-rule"),
        ("- c", ("c=VERSION",), ABSENT, Activation.NOW, "some-rule"),
    ]
    assert PackagesWish("package").kind == "package"


def test_compare_size_is_left_out_where_it_is_unknown():
    host = reader(simulated=NEW, uris=Completed(100, b"", b""))
    assert not any("download" in line for line in compare(host).changes[0].details)


def writer(simulated, database="", outcome: str | Exception = "", operands=("a=1.5-1",)):
    made = reader(database, simulated, operands, kind=FakeWriter)
    made.outcome = outcome
    return made


def test_write_names_what_is_asked_for_and_lets_the_rest_come_along():
    made = writer(NEW, outcome=status(a="1.5-1", b_helper="2"))
    SET.write(made, change_of())
    (argv,) = made.ran
    assert argv[0] == "apt-get"
    assert argv[-2:] == ("install", "a=1.5-1")
    assert SET.read(made, "a + b-helper") == ("a=1.5-1", "b-helper=2")


@pytest.mark.parametrize(
    ("simulated", "conflict"),
    [
        (NEW + "Remv editor [3]\n", "remove editor 3"),
        (NEW + "Inst more (1 s [all])\n", "install more 1"),
        ("", "something else"),
    ],
)
def test_write_stops_when_apt_would_do_something_else_now(simulated, conflict):
    made = writer(simulated)
    with pytest.raises(Conflict, match=conflict):
        SET.write(made, change_of())
    assert made.ran == ()


REFUSALS = {
    "held": (
        "E: Held packages were changed and -y was used without --allow-change-held-packages.",
        "apt-mark unhold",
    ),
    "interrupted": (
        "E: dpkg was interrupted, you must manually run ...",
        "sudo dpkg --configure -a; sudo apt-get -f",
    ),
    "in pieces": (
        "E: Unmet dependencies. Try 'apt --fix-broken install' ...",
        "sudo dpkg --configure -a",
    ),
    "gone": ("E: Version '1.5-1' for 'a' was not found", "sudo apt-get update, then run it again"),
}


@pytest.mark.parametrize(("said", "hint"), REFUSALS.values(), ids=REFUSALS.keys())
def test_write_that_apt_would_not_begin_says_what_is_in_the_way(said, hint):
    made = writer(Completed(100, b"", said.encode()))
    with pytest.raises(Refused, match="apt-get: ") as error:
        SET.write(made, change_of())
    assert hint in error.value.hint
    assert made.ran == ()


def test_write_stops_when_the_packages_changed_meanwhile():
    made = writer(NEW, status(b_helper="1"))
    with pytest.raises(Conflict, match="b-helper=1"):
        SET.write(made, change_of())


HALF = status(b_helper="2") + "Package: a\nStatus: install ok half-configured\nVersion: 1.5-1\n\n"
FAILURES = {
    "postinst": ("E: Sub-process /usr/bin/dpkg returned an error code (1)", HALF, "half-way: a=1.5-1 (half-configured)",
                 "goes on; by hand: sudo dpkg --configure -a; sudo apt-get -f install"),
    "in part": ("E: something", status(b_helper="2"), "not as planned: a 1.5-1", "goes on"),
    "disk full": ("dpkg: ... No space left on device", "", "none of them is installed", "make room"),
    "disk full, half": ("No space left on device", HALF, "now installed of the set: b-helper=2",
                        "make room (df -h / /boot /var), then: goes on; by hand: sudo dpkg --configure -a"),
    "lock": ("E: Could not get lock /var/lib/dpkg/lock-frontend", "", "none of them", "wait until the other package"),
    "download": ("E: Failed to fetch http://x", "", "none of them", "no package has changed; sudo apt-get update"),
    "interrupted": ("E: dpkg was interrupted, you must ...", "", "none of them",
                    "sudo dpkg --configure -a; sudo apt-get -f install\nrun it again"),
}  # fmt: skip


@pytest.mark.parametrize(("said", "left", "words", "hint"), FAILURES.values(), ids=FAILURES.keys())
def test_write_failure_says_what_is_installed_and_the_way_out(said, left, words, hint):
    made = writer(NEW, outcome=Refused(f"apt-get ... ended with status 100\n  {said}"))
    made.left = left
    with pytest.raises(Refused) as error:
        SET.write(made, change_of())
    assert said in error.value.message
    assert words in error.value.message
    told = error.value.way_out("goes on") if isinstance(error.value, HalfWay) else error.value.hint
    assert hint in told
    assert told.count("goes on") == isinstance(error.value, HalfWay)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Unreadable("timed out"), "apt-get: timed out"),
        (ABSENT, "apt-get is not installed"),
        (
            Completed(100, NEW.encode(), b"E: held broken packages\n"),
            "apt-get: held broken packages",
        ),
        (Completed(-9, NEW.encode(), b""), "apt-get: "),
    ],
)
def test_write_acts_on_no_simulation_that_failed(answer, says):
    made = writer(answer)
    with pytest.raises(Refused) as refused:
        SET.write(made, change_of())
    assert refused.value.message.startswith(says)
    assert made.ran == ()


def test_failure_names_what_is_missing_and_not_what_is_there():
    made = writer(NEW, outcome=Refused("apt-get ended with status 100"))
    made.left = status(b_helper="2")
    with pytest.raises(Refused) as refused:
        SET.write(made, change_of())
    assert refused.value.message.splitlines()[1:] == [
        "  now installed of the set: b-helper=2",
        "  not as planned: a 1.5-1",
    ]


def test_write_that_did_not_end_waits_for_dpkg_and_says_both():
    made = writer(NEW, outcome=Refused("apt-get did not end within 3600 s"))
    with pytest.raises(Refused, match="did not end within 3600 s\\n"):
        SET.write(made, change_of())
    assert made.ran[1] == apt.check()


def test_write_after_which_nobody_can_tell_what_is_installed_says_so():
    made = writer(NEW, outcome=Refused("apt-get ended with status 100"))
    plain = made.run

    def run(argv, *, timeout_s):
        try:
            return plain(argv, timeout_s=timeout_s)
        finally:
            made.files["/var/lib/dpkg/status"] = Unreadable("input/output error")

    made.run = run
    with pytest.raises(
        Refused, match="what is installed now cannot be read: input/output error"
    ) as refused:
        SET.write(made, change_of())
    assert refused.value.hint == REPAIR


def test_update_that_failed_and_changed_nothing_needs_no_repair():
    database = status(a="1", b_helper="1")
    simulated = NEW.replace("Inst b-helper (", "Inst b-helper [1] (").replace(
        "Inst a (", "Inst a [1] ("
    )
    change = replace(change_of(), action=Action.UPDATE, before=("a=1", "b-helper=1"))
    made = writer(simulated, database, Refused("E: Failed to fetch http://x"))
    made.left = database
    with pytest.raises(Refused, match=r"not as planned: a 1\.5-1, b-helper 2$") as refused:
        SET.write(made, change)
    assert refused.value.hint == "no package has changed; sudo apt-get update, then run it again"


def test_write_that_reports_success_and_installs_nothing_fails():
    made = writer(NEW, outcome="")
    with pytest.raises(Refused, match="not as planned: a 1"):
        SET.write(made, change_of())


def test_write_waits_for_dpkg_after_apt_was_killed():
    made = writer(NEW, outcome=Refused("apt-get ...: was ended by signal 9"))
    with pytest.raises(Refused):
        SET.write(made, change_of())
    assert made.ran[1] == apt.check()


HELPER, OTHER = "Inst b-helper (2 site:1/stable [all])\n", "Inst c (1 site:1/stable [all])\n"


def stopped_with(there, answers, whole):
    """A host where a run stopped with the packages `there`; apt-get answers by operands, and leaves
    all `whole`.
    """
    made = reader(status(**there), kind=FakeWriter)
    made.queries = {apt.make_simulation(operands): answer for operands, answer in answers.items()}

    def run(argv, *, timeout_s):
        made.ran = (*made.ran, tuple(argv))
        if argv[-1:] == ("b-helper=2",):
            made.files["/var/lib/dpkg/status"] = status(dpkg="1.22", **whole)
        return Completed(0, b"", b"")

    made.run = run
    return made


@pytest.mark.parametrize(
    ("names", "answers", "installs"),
    [
        (("a",), {("b-helper=2",): HELPER}, ("b-helper=2",)),
        (
            ("a", "c"),
            {("c=1",): OTHER, ("c=1", "b-helper=2"): OTHER + HELPER},
            ("c=1", "b-helper=2"),
        ),
    ],
    ids=("all that is asked for is there", "a part of it"),
)
def test_going_on_names_what_came_along_where_nothing_brings_it_any_more_and_marks_it_automatic(
    names, answers, installs
):  # fmt: skip
    """What `a` recommends or suggests does not come by itself once `a` is there."""
    whole = {"a": "1.5-1", "b_helper": "2"} | ({"c": "1"} if "c" in names else {})
    made = stopped_with({"a": "1.5-1"}, answers, whole)
    after = tuple(sorted(f"{name.replace('_', '-')}={version}" for name, version in whole.items()))
    SET.complete(
        made,
        replace(
            change_of(), address=Address("package-set", set_name(names, ("b-helper",))), after=after
        ),
    )
    done, marked = made.ran[-2:]
    assert done[done.index("install") + 1 :] == installs
    assert "--no-remove" in done
    assert marked == apt.mark_automatic(["b-helper"])


def test_going_on_stops_where_apt_would_do_more_than_what_is_missing():
    made = stopped_with({"a": "1.5-1"}, {("b-helper=2",): HELPER + "Remv editor [3]\n"}, {})
    with pytest.raises(Conflict, match="apt would now do something else: remove editor 3"):
        SET.complete(made, change_of())
    assert not any("install" in argv for argv in made.ran)


def test_read_shows_what_is_half_way_and_the_same_once_it_is_repaired():
    half = SET.read(reader(HALF), "a + b-helper")
    assert half == ("a=1.5-1 (half-configured)", "b-helper=2")
    whole = ("a=1.5-1", "b-helper=2")
    assert SET.same(whole, half)  # what was left half-way is repaired, and is still what came
    assert not SET.same(half, whole)  # what is half-way is not what was planned
    assert SET.same(half, half)
    assert not SET.same(half, ("b-helper=2",))


def test_compare_beside_a_package_that_dpkg_left_half_way_is_refused():
    finding = compare(reader(HALF.replace("Package: a\n", "Package: foreign\n"), simulated=NEW))
    assert (finding.hold.kind, finding.changes) == (HoldKind.REFUSED, ())
    assert "foreign (half-configured)" in finding.hold.detail
    assert "dpkg --configure -a" in finding.todo


def test_of_the_runs_that_made_a_set_the_one_that_stopped_half_way_is_named():
    ledger = {
        Address("package-set", "a"): Applied("run-1", "some-rule", ("a=1",)),
        Address("package-set", "a b-helper"): Applied(
            "run-2", "some-rule", ("a=2",), goes_on="hosttune goes on"
        ),
        Address("package-set", "other"): Applied(
            "run-3", "some-rule", ("other=2",), goes_on="with another"
        ),
    }
    by_hand = "sudo dpkg --configure -a; sudo apt-get -f install"
    assert (
        compare(reader(HALF, simulated=NEW), ledger=ledger).todo
        == f"hosttune goes on; by hand: {by_hand}"
    )
    ended = {address: replace(one, goes_on="") for address, one in ledger.items()}
    assert compare(reader(HALF, simulated=NEW), ledger=ended).todo == by_hand


def test_write_does_not_name_what_apt_upgrades_by_itself():
    upgrade = NEW + "Inst libx [1] (2 s [all])\n"
    made = writer(upgrade, status(libx="1"), outcome=status(a="1.5-1", b_helper="2", libx="2"))
    SET.write(made, change_of(upgrade))
    assert made.ran[0][-1] == "a=1.5-1"


def test_inverse_removes_exactly_what_came():
    inverse = SET.invert(change_of())
    assert inverse is not None
    assert (inverse.before, inverse.after) == (("a=1.5-1", "b-helper=2"), ABSENT)
    gone = "Remv a [1.5-1]\nRemv b-helper [2]\n"
    made = writer(gone, status(a="1.5-1", b_helper="2"), operands=("a-", "b-helper-"))
    SET.write(made, inverse)
    assert made.ran[0][-3:] == ("install", "a-", "b-helper-")


def test_inverse_stops_when_somebody_needs_the_package_now():
    inverse = SET.invert(change_of())
    gone = "Remv user [9]\nRemv a [1.5-1]\nRemv b-helper [2]\n"
    made = writer(gone, status(a="1.5-1", b_helper="2", user="9"), operands=("a-", "b-helper-"))
    with pytest.raises(Conflict, match="remove user 9"):
        SET.write(made, inverse)


def test_inverse_brings_back_what_was_removed_and_upgraded():
    change = change_of(NEW + "Inst libx [1] (2 s [all])\nRemv old-a [7]\n", may_remove=["old-"])
    assert change.address.name == "a + b-helper libx - old-a"
    inverse = SET.invert(change)
    back = "Remv a [1.5-1]\nRemv b-helper [2]\nInst libx [2] (1 s [all])\nInst old-a (7 s [all])\n"
    operands = ("libx=1", "old-a=7", "a-", "b-helper-")
    made = writer(
        back,
        status(a="1.5-1", b_helper="2", libx="2"),
        status(libx="1", old_a="7"),
        operands=operands,
    )
    alone = ("old-a=7", "a-", "b-helper-")
    made.queries[apt.make_simulation(alone)] = back.replace("Inst libx [2] (1 s [all])\n", "")
    SET.write(made, inverse)
    assert made.ran[0][-5:] == ("install", *operands)
    assert "--allow-downgrades" in made.ran[0]


def test_overlay_proves_the_set_and_its_way_back():
    host = reader(simulated=NEW)
    overlay = Overlay(host)
    change = change_of()
    SET.write(overlay, change)
    assert SET.read(overlay, change.address.name) == change.after
    assert compare(overlay).verdict is Verdict.OK
    SET.write(overlay, SET.invert(change))
    assert SET.read(overlay, change.address.name) is ABSENT
    assert Facts(overlay).packages["dpkg"].version == "1.22"


def test_overlay_leaves_the_same_package_of_another_architecture():
    def paragraph(name, architecture, version):
        return f"Package: {name}\nStatus: install ok installed\nArchitecture: {architecture}\nVersion: {version}\n\n"

    rows = (
        paragraph("dpkg", "amd64", "1.22"),
        paragraph("a", "amd64", "1"),
        paragraph("a", "i386", "1"),
        paragraph("c", "all", "1"),
    )
    described = "Package: b\nStatus: install ok installed\nVersion: 1\nDescription: caf\xe9: it\n\n"
    overlay = Overlay(
        FakeReader({"/var/lib/dpkg/status": "".join(rows).encode() + described.encode("latin-1")})
    )
    change = Change(
        Address("package-set", "a b c"), Action.DELETE, ("a=1", "b=1", "c=1"), ABSENT, "rule"
    )
    SET.write(overlay, change)
    packages = Facts(overlay).packages
    assert [packages[name].is_installed for name in ("a", "b", "c", "a:i386", "dpkg")] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_overlay_of_a_host_whose_packages_cannot_be_read_is_refused(monkeypatch):
    overlay = Overlay(FakeReader({}))
    monkeypatch.setattr(SET, "read", lambda reader, name: ABSENT)
    with pytest.raises(Refused, match=r"/var/lib/dpkg/status cannot be read"):
        SET.write(overlay, change_of())
