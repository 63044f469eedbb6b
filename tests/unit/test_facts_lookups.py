"""What rules ask for by name: any sysctl, any attribute of sysfs, any line of a file below /etc."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.record.record import take_record
from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.expressions.evaluation import MAX_RULE, Budget, OverBudget, value_of
from hosttune.engine.expressions.expression import compile_expression
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import assemble_catalog, builtin_catalog
from hosttune.engine.rules.lint import checked_rule, rule_faults
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import Where
from hosttune.facts import Facts, UnknownFact, apt_conf, sysfs
from hosttune.facts.relations import depends_of, provided_in, starts_in
from hosttune.host.record.record import RecordReader
from hosttune.values import Verdict
from tests.unit.fake_reader import FakeReader

CORE = "/proc/sys/kernel/core_pattern"
SCHEDULER = "/sys/block/sda/queue/scheduler"
RULE = """\
id: site-thing
title: A thing of the site
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: the site wants it
sources: [site handbook]
expect:
  - if: >-
      {condition}
    else: it is not so
"""


def facts(**given) -> Facts:
    return Facts(FakeReader(given.pop("files", {}), **given))


def verdict(condition: str, reader: FakeReader) -> Verdict:
    rule = checked_rule(RULE.replace("{condition}", condition), "site-thing.yaml")
    return evaluate(rule, Facts(reader), {}).findings[0].verdict


def faults(condition: str) -> str:
    return " ".join(
        map(
            str,
            rule_faults(load_document(RULE.replace("{condition}", condition), "site-thing.yaml")),
        )
    )


@pytest.mark.parametrize(
    ("condition", "files", "expected"),
    [
        ('not starts_with(sysctl["kernel.core_pattern"].text, "|")', {CORE: "core\n"}, Verdict.OK),
        ('not starts_with(sysctl["kernel.core_pattern"].text, "|")', {CORE: "|/usr/bin/dump %p\n"}, Verdict.ADVICE),
        ('not starts_with(sysctl["kernel.core_pattern"].text, "|")', {}, Verdict.UNKNOWN),
        ('not sysctl["kernel.core_pattern"].exists', {}, Verdict.OK),
        ('sysctl["net.ipv4.tcp_rmem"].numbers[2] >= 6291456', {"/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n"}, Verdict.OK),
        ('sysctl["net.ipv4.conf.eth0/1.rp_filter"].number == 2', {"/proc/sys/net/ipv4/conf/eth0.1/rp_filter": "2\n"}, Verdict.OK),
        ('sysctl["kernel.core_pattern"].number == 1', {CORE: "core\n"}, Verdict.UNKNOWN),
        (f'sysfs["{SCHEDULER}"].chosen == "none"', {SCHEDULER: "[none] mq-deadline\n"}, Verdict.OK),
        (f'sysfs["{SCHEDULER}"].chosen == "none"', {SCHEDULER: "none\n"}, Verdict.OK),
        (f'"kyber" in sysfs["{SCHEDULER}"].words', {SCHEDULER: "[none] mq-deadline\n"}, Verdict.ADVICE),
        ('any(like(lower(line), "permitrootlogin *no") for line in etc["/etc/ssh/sshd_config"].lines)', {"/etc/ssh/sshd_config": "# x\n\n  PermitRootLogin no\n"}, Verdict.OK),
        ('any(words(line) == ("UMASK", "027") for line in etc["/etc/login.defs"].lines)', {"/etc/login.defs": "UMASK\t\t027\n"}, Verdict.OK),
        ('any(line == "x" for line in etc["/etc/nothing"].lines)', {}, Verdict.ADVICE),
        ('etc["/etc/nothing"].exists', {}, Verdict.ADVICE),
    ],
)  # fmt: skip
def test_condition_on_what_is_asked_by_name(condition, files, expected):
    assert verdict(condition, FakeReader(files)) is expected


@pytest.mark.parametrize(
    "condition",
    [
        'starts_with(sysctl["kernel.core_pattern"].text, "|")',
        'sysfs["/sys/a/b"].text == "1"',
        'len(etc["/etc/a"].lines) > 0',
    ],
)
def test_what_cannot_be_read_is_unknown_not_absent(condition):
    gone = dict.fromkeys((CORE, "/sys/a/b", "/etc/a"), "needs root")
    assert verdict(condition, FakeReader({}, unreadable=gone)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("path", "content"),
    [("/sys/a/b", b"x" * 5000), ("/sys/a/b", b"\0\1\2"), ("/sys/a/b", b"\xff\xfe")],
)
def test_attribute_that_is_long_or_binary_is_unknown(path, content):
    with pytest.raises(UnknownFact):
        _ = facts(files={path: content}).sysfs[path].text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ('sysctl["../../etc/shadow"].text', "is no key of sysctl"),
        ('sysctl["swappiness"].text', "is no key of sysctl"),
        ('sysfs["/proc/self/environ"].text', "no path below /sys"),
        ('sysfs["/sys/../etc/shadow"].text', "no path below /sys"),
        ('sysfs["/sys/block/*/size"].text', "without wildcards"),
        ('sysfs["/sys/kernel/debug/x"].text', "reading there can do something"),
        ('etc["/var/lib/x"].lines', "no path below /etc"),
        ('etc["/etc/../root/x"].lines', "no path below /etc"),
        ('etc["/etc/shadow"].lines', "keeps secrets"),
    ],
)
def test_name_that_is_none_is_a_fault_of_the_rule(name, says):
    found = faults(f"str({name}) == ''" if name.endswith("text") else f"len({name}) == 0")
    assert says in found


@pytest.mark.parametrize("name", ["/etc/shadow", "/var/x", "/etc/../x"])
def test_name_that_is_worked_out_is_held_to_the_same(name):
    """A rule may put a name together; then no lint sees it."""
    with pytest.raises(UnknownFact):
        _ = facts(files={name: "secret\n"}).etc[name].lines
    with pytest.raises(UnknownFact):
        _ = facts(files={"/sys/kernel/debug/x": "1\n"}).sysfs["/sys/kernel/debug/x"].text


def test_link_out_of_the_configuration_is_not_followed():
    reader = FakeReader({"/root/secret": "x\n"}, links={"/etc/site.conf": "/root/secret"})
    with pytest.raises(UnknownFact, match="which is no configuration"):
        _ = Facts(reader).etc["/etc/site.conf"].lines


def test_record_holds_what_a_rule_of_the_site_asked_and_replays_it():
    rule = checked_rule(
        RULE.replace("{condition}", 'sysctl["dev.raid.speed_limit_max"].number > 1'),
        "site-thing.yaml",
    )
    builtin = builtin_catalog()
    catalog = assemble_catalog({**builtin.rules, rule.id: rule}, builtin.profiles)
    policy = Policy(today="2026-01-01", select=("site-thing",)).only("site-thing")
    host = FakeReader({"/proc/sys/dev/raid/speed_limit_max": "200000\n", "/etc/hostname": "h\n"})
    record = take_record(
        host,
        lambda reader: examine(reader, catalog, policy).plan(prove=False),
        share=False,
        tool_version="0",
    )
    replayed = examine(RecordReader(record), catalog, policy).plan(prove=False)
    assert [one.verdict for one in replayed.findings] == [Verdict.OK]


class _Counting(FakeReader):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, path):
        content = super().read(path)
        self.read_bytes += len(content) if isinstance(content, bytes) else 0
        return content


def test_file_is_read_once_for_all_names_that_rules_ask_for():
    unit = "/usr/lib/systemd/system/a.service"
    files = {
        "/etc/initramfs-tools/modules": "abc\n" * 1000, "/boot/initrd.img-6.8": "", "/usr/sbin/update-initramfs": "",
        "/etc/apt/apt.conf.d/99x": 'a "b";\n' * 1000, unit: "[Service]\n" + "A=b\n" * 1000,
    }  # fmt: skip
    reader = _Counting(files)
    known = Facts(reader)
    for number in range(100):
        assert known.initramfs[f"m{number}"].why
        assert not known.apt[f"m{number}"].lines
        assert not known.unit_settings[f"a.service/Service/K{'x' * number}"].values
    assert reader.read_bytes < 3 * sum(map(len, files.values()))


def test_files_that_rules_ask_for_by_many_names_are_kept_within_a_bound(monkeypatch):
    monkeypatch.setattr("hosttune.facts.etc._MOST_IN_ALL", 10_000)
    known = Facts(FakeReader({f"/etc/l{number}": "a\n" * 500 for number in range(20)}))
    assert known.etc["/etc/l0"].lines
    for number in range(1, 9):
        _ = known.etc[f"/etc/l{number}"].lines
    with pytest.raises(UnknownFact, match="more than"):
        _ = known.etc["/etc/l9"].lines
    with pytest.raises(UnknownFact, match="more than"):
        _ = known.etc["/etc/l10"].exists
    assert known.etc["/etc/l0"].exists


def _left_of(condition: str, tables: dict[str, dict[str, object]]) -> int:
    """What the budget of a rule is after a condition on a record that holds these tables."""
    about = {"format_version": 1, "kind": "hosttune record", "tool_version": "", "made_at": 0, "name": "", "machine": "",
             "privileged": True, "persistent_only": False, "listings": {"/": ["etc", "sys"], "/etc": ["apt", "modprobe.d", "sysctl.d"], "/etc/apt": ["apt.conf"]}}  # fmt: skip
    tables["listings"] = {**about["listings"], **tables.get("listings", {})}
    known = Facts(RecordReader({**about, **tables}))
    budget = Budget()
    subjects = (
        "etc",
        "sysctl",
        "sysctl_at_boot",
        "sysfs",
        "sysfs_at_boot",
        "apt",
        "module_options",
    )
    names = {name: getattr(known, name) for name in subjects}
    value_of(compile_expression(condition, Where("rule.yaml")).node, names, budget)
    return budget.left


NAMES = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
MANY_LINES = "c/a=1\n" * 5000


@pytest.mark.parametrize(
    ("condition", "tables", "cost"),
    [
        (
            f"[1 for x in {NAMES} if not etc['/etc/l' + str(x)].exists]",
            {
                "files": {"/etc/big": "a\n" * 20_000},
                "links": {f"/etc/l{number}": "big" for number in range(10)},
            },
            10 * 40_000,
        ),
        (
            f"[1 for x in {NAMES} for a in [sysfs['/sys/l' + str(x)]] if a.text == 'x']",
            {
                "files": {"/sys/big": "a" * 4096},
                "links": {f"/sys/l{number}": "big" for number in range(10)},
            },
            10 * 4096,
        ),
        (
            f"[1 for x in {NAMES} if sysfs_at_boot['/sys/class/x' + str(x)].settings]",
            {"files": {"/etc/sysfs.conf": MANY_LINES}},
            10 * 5000,
        ),
        (
            f"[1 for x in {NAMES} if len(sysfs.choices['/sys/l' + str(x)]) == 9]",
            {
                "files": {"/sys/big": "a" * 9000},
                "links": {f"/sys/l{number}": "big" for number in range(10)},
            },
            10 * 9000,
        ),
    ],
    ids=["a file", "an attribute", "lines that are kept", "a mapping"],
)
def test_what_is_read_for_names_that_a_rule_asks_for_counts_for_the_rule(condition, tables, cost):
    """A small record may have one large file behind thousands of links, and ask for all of them."""
    assert cost < MAX_RULE - _left_of(condition, tables) < cost + 60_000


def test_what_a_rule_asks_for_by_names_without_end_ends():
    tables = {
        "files": {"/sys/big": "a" * 800_000},
        "links": {f"/sys/l{number}": "big" for number in range(30)},
    }
    names = ", ".join(map(str, range(30)))
    with pytest.raises(OverBudget):
        _left_of(f"[1 for x in [{names}] if len(sysfs.choices['/sys/l' + str(x)]) == 9]", tables)


def test_paragraph_of_each_package_is_looked_for_once_for_all():
    database = b"".join(
        b"Package: p%d\nStatus: install ok installed\nDepends: p%d\n\n" % (n, n + 1)
        for n in range(50)
    )

    class Searched(bytes):
        looked = 0

        def find(self, needle, start=0, *more):
            found = super().find(needle, start, *more)
            Searched.looked += (found if found >= 0 else len(self)) - start
            return found

        def rfind(self, needle, start, end):
            found = super().rfind(needle, start, end)
            Searched.looked += end - (found if found >= 0 else start)
            return found

    starts = starts_in(database)
    assert [depends_of(Searched(database), starts[f"p{n}"]) for n in range(50)] == [
        (f"p{n + 1}",) for n in range(50)
    ]
    assert Searched.looked < 2 * len(database)
    Searched.looked = 0
    provides = Searched(b"Package: a\n" + b"Provides: b\n" * 1000)
    assert len(provided_in(provides)["b"]) == 256
    assert Searched.looked < 2 * len(provides)


def test_values_of_a_name_of_apt_are_found_in_time_that_does_not_grow_with_its_depth(monkeypatch):
    asked = []
    monkeypatch.setattr(
        apt_conf, "bisect_left", lambda *given: asked.append(1) or bisect_left(*given)
    )
    names = apt_conf.AptNames([("f", "a{" * 1000 + 'x "v";' * 1000)])
    assert len(list(names.lines("a::" * 1000 + "x"))) == 1000
    assert len(asked) <= 1001


@pytest.mark.parametrize(
    ("condition", "tables", "cost"),
    [
        (
            "[1 for x in ['ab', 'aB', 'Ab', 'AB'] if len(apt[x].lines) == 1]",
            {"files": {"/etc/apt/apt.conf": 'ab "v";' * 5000}},
            4 * 5000,
        ),
        (
            "[1 for x in ['a-b-c', 'a_b-c', 'a-b_c', 'a_b_c'] if len(module_options[x + '.k'].settings) == 1]",
            {
                "files": {"/etc/modprobe.d/a.conf": "options a-b-c k=1\n" * 5000},
                "listings": {"/etc/modprobe.d": ["a.conf"]},
            },
            4 * 5000,
        ),
    ],
    ids=["capitals", "dashes"],
)
def test_each_spelling_of_a_name_counts_for_what_it_keeps(condition, tables, cost):
    assert cost < MAX_RULE - _left_of(condition, tables)


def test_unit_setting_is_kept_once_for_all_names_of_it():
    known = Facts(FakeReader({"/usr/lib/systemd/system/a.service": "[Service]\n" + "A=b\n" * 1000}))
    one, other = (known.unit_settings[f"a.service/Service/A{more}"] for more in ("", ""))
    assert one.values is other.values


def test_paths_that_a_pattern_means_are_kept_within_a_bound(monkeypatch):
    """A folder behind links may have a long path, and many names."""
    monkeypatch.setattr(sysfs, "_MOST_EXPANDED", 50_000)
    names = [f"n{number}" for number in range(200)]
    folder = "/sys" + f"/{'l' * 255}" * 4
    tables = {
        "links": {f"/sys/{'l' * 255}": "."},
        "listings": {"/": ["sys"], "/sys": ["l" * 255, *names]},
    }
    with pytest.raises(UnknownFact, match="of paths"):
        _left_of(f"sysfs.files['{folder}/n*']", tables)
