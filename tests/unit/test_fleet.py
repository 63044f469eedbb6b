"""Many looks folded into one report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.engine.fleet import fold as fleet_module
from hosttune.engine.fleet.choice import LookCollector
from hosttune.engine.fleet.fold import FleetAggregator
from hosttune.engine.fleet.seen import (
    LONGEST,
    OUTCOMES,
    HostLook,
    Unread,
    seen_from_row,
    seen_to_row,
    value_of,
)
from hosttune.engine.fleet.values import HostNames
from hosttune.values import Finding, Hold, HoldKind, Verdict
from hosttune.views.fleet.words import list_worst
from tests.unit.fleet_looks import look

HARDWARE = (("GPU", "hopper 0x2330"), ("CPU", "2 x Xeon"), ("board", "DGXH100"))
texts = st.sampled_from(["", "a", "b", "now 60", "now 10", "é<b>\x1b"])
says = st.lists(
    st.tuples(st.sampled_from(["r-1", "r-2"]), st.sampled_from(OUTCOMES), texts),
    max_size=2,
    unique_by=lambda one: one[0],
).map(tuple)
pairs = st.dictionaries(st.sampled_from(["kernel", "mount /data"]), texts, max_size=2).map(
    lambda d: tuple(d.items())
)
looks = st.builds(
    HostLook,
    host=st.sampled_from([f"h{number}" for number in range(12)]),
    machine=st.sampled_from(["", "m1", "m2"]),
    at=st.sampled_from(["2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"]),
    source=st.sampled_from(["x", "y"]),
    digest=st.sampled_from(["d1", "d2"]),
    shown=st.sampled_from(["d1", "d2"]),
    changes=st.integers(0, 1),
    state=st.sampled_from(["ok", "differs", "unknown"]),
    says=says,
    reboot=st.lists(texts, max_size=2, unique=True).map(tuple),
    hardware=st.sampled_from([(), HARDWARE, HARDWARE[:1]]),
    settings=pairs,
    gpu=texts,
    missing=st.sampled_from(["", "", "timed out"]),
)


def folded(seen, names=3):
    fold = FleetAggregator(names)
    for one in seen:
        fold.add(one)
    return fold.result()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(looks, max_size=14, unique_by=lambda one: one.host), st.randoms(use_true_random=False)
)
def test_fold_order_of_looks_does_not_matter(seen, dice):
    shuffled = list(seen)
    dice.shuffle(shuffled)
    assert folded(seen) == folded(shuffled)


@settings(max_examples=200, deadline=None)
@given(st.lists(looks, max_size=14), st.randoms(use_true_random=False))
def test_choice_order_of_looks_does_not_matter(seen, dice):
    def outcome(listed):
        found = LookCollector()
        for one in listed:
            found.add(one.host, one.machine, one.at, one.source, (one.at, one.source))
        made = found.result()
        return (
            sorted((one.name, one.kept) for one in made.chosen),
            sorted(made.older),
            sorted(made.shared),
        )

    shuffled = list(seen)
    dice.shuffle(shuffled)
    chosen, older, _ = outcome(seen)
    assert outcome(shuffled) == outcome(seen)
    assert len(chosen) + len(older) == len(seen)
    assert len({name for name, _ in chosen}) == len(chosen)


@settings(max_examples=100, deadline=None)
@given(looks)
def test_row_comes_back_as_it_was(seen):
    assert seen_from_row(seen_to_row(seen)) == seen


def test_counts_are_exact_and_names_are_bounded():
    seen = [
        look(f"h{number:03}", says=(("r-1", "differs", "now 60"),), state="differs")
        for number in range(50)
    ]
    row = folded(seen, names=2).rules[0]
    assert row.outcomes[0].hosts == HostNames(50, ("h000", "h001"))


def test_majority_is_more_than_half():
    seen = [
        look(f"h{number}", says=(("r-1", "ok", "a" if number < 2 else "b"),)) for number in range(4)
    ]
    assert folded(seen).rules[0].values.majority is None
    most = folded([*seen, look("h9", says=(("r-1", "ok", "b"),))]).rules[0].values.majority
    assert (most.value, most.hosts.count) == ("b", 3)


def test_host_where_a_rule_does_not_apply_has_no_value():
    row = folded(
        [
            look("a", says=(("r-1", "not applicable", "no swap"),)),
            look("b", says=(("r-1", "ok", "x"),)),
        ]
    ).rules[0]
    assert [one.value for one in row.values.values] == ["x"]


def test_values_beyond_the_bound_are_counted_as_others(monkeypatch):
    monkeypatch.setattr(fleet_module, "MOST_VALUES", 3)
    seen = [look(f"h{number}", says=(("r-1", "ok", str(number)),)) for number in range(10)]
    tally = folded(seen).rules[0].values
    assert (len(tally.values), tally.others.count, tally.total) == (3, 7, 10)


def test_siblings_differ_in_settings_and_lack_mounts():
    base = (("kernel", "6.8"), ("mount /data", "ext4 rw"))
    seen = [look(f"h{number}", hardware=HARDWARE, settings=base, gpu="H100") for number in range(4)]
    seen.append(look("odd", hardware=HARDWARE, settings=(("kernel", "5.15"),)))
    seen.append(look("alone", hardware=HARDWARE[:1]))
    fleet = folded(seen)
    assert fleet.alone == 1
    (group,) = fleet.siblings
    assert group.title == "H100, 2 x Xeon, DGXH100"
    told = {
        one.name: [(it.value, it.hosts.count) for it in one.values.values] for one in group.settings
    }
    assert told == {
        "kernel": [("6.8", 4), ("5.15", 1)],
        "mount /data": [("ext4 rw", 4), ("not mounted", 1)],
    }
    assert group.settings[1].values.values[1].hosts.names == ("odd",)


def test_plans_are_folded_by_digest_and_named_by_their_first_host():
    seen = [
        look(name, digest=digest, changes=2)
        for name, digest in (("c", "d1"), ("a", "d1"), ("b", "d2"))
    ]
    seen.append(look("z", digest="d3", changes=0))
    classes = folded(seen).classes
    assert [(one.digest, one.hosts.count, one.host) for one in classes] == [
        ("d1", 2, "a"),
        ("d2", 1, "b"),
        ("", 1, "z"),
    ]


def test_host_that_shows_other_changes_for_a_digest_is_a_class_of_its_own():
    """Who approves a digest approves what is shown with it, for all hosts that name it."""
    honest = [look(name, digest="d1", shown="d1", changes=7) for name in ("b", "c")]
    classes = folded([look("a", digest="d1", shown="e9", changes=1), *honest]).classes
    assert [(one.changes, one.hosts.names, one.is_as_shown) for one in classes] == [
        (7, ("b", "c"), True),
        (1, ("a",), False),
    ]


def test_hosts_with_plans_beyond_the_bound_are_counted_as_such(monkeypatch):
    monkeypatch.setattr(fleet_module, "MOST_CLASSES", 2)
    fleet = folded([look(name, digest=f"d{name}", changes=1) for name in "abcdea"], names=2)
    assert [(one.digest, one.hosts.count) for one in fleet.classes] == [("da", 2), ("db", 1)]
    assert fleet.other_classes == HostNames(3, ("c", "d"))


def test_rules_that_hosts_make_up_are_counted_under_one_name_beyond_the_bound(monkeypatch):
    monkeypatch.setattr(fleet_module, "MOST_RULES", 2)
    fold = FleetAggregator(20, known=frozenset({"memory-swappiness"}))
    for host, rules in (("evil", ("a", "b", "c", "d")), ("good", ("memory-swappiness",))):
        fold.add(look(host, says=tuple((rule, "differs", "now 1") for rule in rules)))
    rows = {one.rule: one.count("differs") for one in fold.result().rules}
    assert rows == {"a": 1, "b": 1, fleet_module.OTHER_RULES: 2, "memory-swappiness": 1}


def test_kinds_of_hosts_beyond_the_bound_have_no_siblings(monkeypatch):
    monkeypatch.setattr(fleet_module, "MOST_CLASSES", 1)
    fleet = folded([look(name, hardware=(("CPU", name[0]),)) for name in ("a1", "b1", "b2", "a2")])
    assert ([one.hosts.names for one in fleet.siblings], fleet.alone) == ([("a1", "a2")], 2)


def test_host_without_an_answer_is_no_host_that_was_looked_at():
    fleet = folded([look("a", missing="timed out"), look("b")])
    assert (fleet.hosts, fleet.missing_count, fleet.missing[0].host) == (1, 1, "a")


@pytest.mark.parametrize(
    ("setting", "siblings", "own", "told"),
    [
        ("GPUs", "8", "7", "7 of the 8 GPUs that the siblings have"),
        (
            "memory",
            "2048 GiB",
            "1024 GiB",
            "1024 GiB of the 2048 GiB of memory that the siblings have",
        ),
        ("memory", "1024 GiB", "2048 GiB", ""),
        ("memory", "unknown", "2048 GiB", ""),
        ("mount /data", "xfs rw", None, "nothing is mounted at /data, as it is on the siblings"),
        ("mount /data", "xfs rw", "xfs ro", ""),
        ("fstab", "/, /data", "/", "/etc/fstab has no line for /data, as it has on the siblings"),
        ("fstab", "/", "none", "/etc/fstab has no line for /, as it has on the siblings"),
        ("fstab", "none", "/", ""),
        ("fstab", "x" * LONGEST, "/", ""),  # its end is cut off
        ("kernel", "6.8", "5.15", ""),
    ],
)
def test_host_that_has_lost_what_its_siblings_have_comes_first(setting, siblings, own, told):
    hosts = {"a": siblings, "b": siblings, "c": own}
    looks = [
        look(name, hardware=(("board", "x"),), settings=((setting, value),) if value else ())
        for name, value in hosts.items()
    ]
    assert list_worst(folded(looks)) == ([f"c: {told}"] if told else [])


def test_host_that_is_left_alone_says_why():
    held = Finding(
        "a-rule", "", Verdict.DIFFERS, Hold(HoldKind.REFUSED, "/etc is mounted read-only")
    )
    assert value_of(held) == "blocked: /etc is mounted read-only"
    assert value_of(replace(held, reason="now 60")) == "now 60 (blocked: /etc is mounted read-only)"
    assert (
        value_of(replace(held, reason="/etc is mounted read-only")) == "/etc is mounted read-only"
    )


def test_value_that_is_cut_off_shows_it():
    found = Finding("a-rule", "", Verdict.ADVICE, reason=f"{'word ' * 39}tail and more")
    assert (len(value_of(found)) <= LONGEST, value_of(found)[-4:]) == (True, " ...")
    whole = replace(found, reason="x" * LONGEST)
    assert value_of(whole) == whole.reason


def test_files_that_say_nothing_are_counted_beyond_those_that_are_named():
    fold = FleetAggregator(2)
    for number in (3, 1, 2):
        fold.miss(Unread(f"{number}.json", "is empty"))
    fleet = fold.result()
    assert ([one.place for one in fleet.unread], fleet.unread_count) == (["1.json", "2.json"], 3)


def chosen(*looks):
    found = LookCollector()
    for one in looks:
        found.add(one.host, one.machine, one.at, one.source, one.at)
    return found.result()


def test_newest_look_at_a_host_counts_and_a_missing_machine_id_is_no_other_host():
    old, new = look("a", machine="m1"), look("a", at="2026-12-01T00:00:00+00:00")
    found = chosen(old, new)
    assert [(one.name, one.kept[:7]) for one in found.chosen] == [("a", "2026-12")]
    assert found.older == ["a"]


def test_file_that_is_named_after_a_host_speaks_for_it_and_no_other_file_does():
    """The content of a file comes from the host: it can name another host, a later time, and no
    fault.
    """
    found: LookCollector[str] = LookCollector(frozenset({"good", "evil"}))
    for source, at in (("good", "2026-05-02"), ("evil", "2026-05-03"), ("archive", "2026-05-01")):
        found.add("good", "m1", at, f"{source}.json", source, of=source)
    made = found.result()
    assert [(one.name, one.kept) for one in made.chosen] == [("good", "good")]
    assert (made.older, made.refused) == (["good"], [("evil.json", "good")])


def test_file_of_several_hosts_takes_the_place_of_no_file_of_one_host():
    found: LookCollector[str] = LookCollector()
    for source, at, is_alone in (
        ("one", "2026-05-02", True),
        ("fleet", "2026-05-03", False),
        ("old", "2026-05-01", False),
    ):
        found.add("a", "m1", at, f"{source}.json", source, of=source, is_alone=is_alone)
    made = found.result()
    assert [(one.name, one.kept) for one in made.chosen] == [("a", "one")]
    assert (made.older, made.refused) == (["a"], [("fleet.json", "a")])


def test_look_without_a_machine_id_is_of_the_machine_that_a_file_of_its_name_knows():
    found: LookCollector[str] = LookCollector()
    for source, machine, at in (
        ("n1", "m1", "2026-05-01"),
        ("n1", "", "2026-05-02"),
        ("n2", "", "2026-05-03"),
    ):
        found.add("a", machine, at, f"{source}.json", at, of=source)
    made = found.result()
    assert sorted((one.name, one.kept) for one in made.chosen) == [
        ("a (machine m1)", "2026-05-02"),
        ("a (n2)", "2026-05-03"),
    ]
    assert made.older == ["a (machine m1)"]


def test_machines_of_one_name_are_hosts_of_their_own():
    one = look("ubuntu", machine="0123456789")
    found = chosen(one, replace(one, machine="fedcba9876"))
    assert sorted(it.name for it in found.chosen) == [
        "ubuntu (machine 01234567)",
        "ubuntu (machine fedcba98)",
    ]
    assert found.older == []


def test_machine_id_of_several_names_is_told():
    assert chosen(look("b", machine="m1"), look("a", machine="m1"), look("c")).shared == [
        ("m1", ["a", "b"])
    ]


def test_fault_of_a_file_is_not_hidden_by_a_later_one_of_another_name_for_the_same_machine():
    found: LookCollector[str] = LookCollector()
    found.add("a.example", "m1", "2026-05-01", "n1.json", "bad", of="n1", faults=["gpu-fault"])
    found.add("a.example", "m1", "2026-05-02", "evil.json", "fine", of="evil")
    found.add(
        "a.example", "m1", "2026-04-01", "old.json", "bad too", of="old", faults=["gpu-fault"]
    )
    made = found.result()
    assert sorted((one.name, one.kept) for one in made.chosen) == [
        ("a.example (evil)", "fine"),
        ("a.example (n1)", "bad"),
    ]
    assert made.disputed == [("a.example", ("evil.json", "n1.json", "old.json"))]
    assert made.older == ["a.example"]


def test_look_from_the_future_counts_only_if_it_is_the_only_one():
    found: LookCollector[str] = LookCollector()
    for source, at, is_past in (
        ("x/n1", "2027-01-01", False),
        ("n1", "2026-05-01", True),
        ("y/n1", "2026-06-01", True),
    ):
        found.add("a", "m1", at, f"{source}.json", source, of="n1", is_past=is_past)
    found.add("b", "m2", "2027-01-01", "n2.json", "n2", of="n2", is_past=False)
    made = found.result()
    assert sorted((one.name, one.kept) for one in made.chosen) == [("a", "y/n1"), ("b", "n2")]
    assert made.future == [("x/n1.json", "2027-01-01"), ("n2.json", "2027-01-01")]
    assert (made.older, made.refused, made.disputed) == (["a"], [], [])
