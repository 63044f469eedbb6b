"""Documents of many hosts: read as far as they go, and told with their place where they do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.codec import change_from_json
from hosttune.engine.decide.plan import digest
from hosttune.engine.decide.plan_class import in_common
from hosttune.engine.fleet.fold import FleetAggregator
from hosttune.engine.fleet.reading import changes_in, parse_document, read_document
from hosttune.engine.fleet.seen import HostLook, Unread
from hosttune.values import Unreadable
from hosttune.views.change import diff_of
from tests.unit.fleet_looks import document, entry, finding


def read(data, source="r.json"):
    return list(read_document(json.loads(json.dumps(data)), source, "stem"))


def test_document_of_several_hosts_yields_each():
    found = read(document(entry("a"), entry("b", [finding(verdict="ok", now="10")])))
    assert [(one.host, one.state, one.says[0][1:]) for one in found] == [
        ("a", "differs", ("differs", "now 60")),
        ("b", "ok", ("ok", "now 10")),
    ]


def test_older_document_without_inventory_and_hold_is_read():
    (one,) = read(document(entry("a")))
    assert (one.hardware, one.settings, one.reboot, one.problems) == ((), (), (), ())


def test_sizes_of_a_host_are_no_part_of_its_value():
    (one,) = read(document(entry("a", [finding(now="on ext4, 3 GiB in it")])))
    assert one.says == (("memory-swappiness", "differs", "now on ext4"),)


@pytest.mark.parametrize(
    ("verdict", "evidence", "value"),
    [
        ("differs", ["now 10", "no file sets it at boot"], "now 10, set by no file"),
        ("differs", ["now 10", "next boot 60 (/etc/sysctl.conf:3)"], "now 10, next boot 60"),
        ("differs", ["now 60", "next boot 60 (/etc/sysctl.conf:3)"], "now 60"),
        (
            "differs",
            [
                "now noatime",
                "/etc/fstab line 6: defaults",
                "the line means relatime, the mount is noatime: changed",
            ],
            "now noatime, in fstab relatime",
        ),
        ("differs", ["now relatime", "/etc/fstab line 6: defaults"], "now relatime"),
        ("ok", ["now 10", "next boot 5 (/etc/sysctl.conf:3)"], "now 10"),
    ],
)
def test_value_that_only_the_next_boot_spoils_is_no_value_of_a_host_that_is_fine(
    verdict, evidence, value
):
    (one,) = read(document(entry("a", [finding(verdict=verdict, evidence=evidence)])))
    assert one.says == (("memory-swappiness", verdict, value),)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("rule", 7, "must be text"), ("rule", "", "must be text"), ("rule", None, "must be text"),
        ("subject", 7, "must be text"), ("reason", ["x"], "must be text"), ("evidence", "x", "is not a list"),
        ("evidence", [7], "is not a list"), ("changes", {}, "is not a list"), ("verdict", 7, "is none of"),
        ("verdict", "fine", "is none of"), ("is_fault", "yes", "true or false"), ("blocks_reboot", 1, "true or false"),
    ],
)  # fmt: skip
def test_finding_of_a_stranger_is_taken_by_its_types_alone(field, value, why):
    (one,) = read(document(entry("a", [{**finding(), field: value}])))
    assert isinstance(one, Unread)
    assert why in one.reason


def test_rule_with_several_subjects_is_told_by_the_worst():
    parts = [
        finding(verdict="ok", subject="/a", now="noatime"),
        finding(subject="/b", now="relatime"),
    ]
    (one,) = read(document(entry("a", parts)))
    assert one.says == (("memory-swappiness", "differs", "now relatime"),)


@pytest.mark.parametrize(
    ("hold", "outcome", "state"),
    [
        ({"kind": "waived", "detail": "until 2030"}, "waived", "ok"),
        ({"kind": "orphaned", "detail": ""}, "orphaned", "ok"),
        ({"kind": "busy", "detail": "python3"}, "waits", "differs"),
        ({"kind": "owned by", "detail": "TuneD"}, "left alone", "differs"),
        ({"kind": "none", "detail": ""}, "differs", "differs"),
    ],
)
def test_hold_makes_the_outcome(hold, outcome, state):
    (one,) = read(document(entry("a", [finding(hold=hold)])))
    assert (one.says[0][1], one.state) == (outcome, state)


def test_reboots_waivers_and_orphans_are_gathered():
    note = "the waiver of ops expired on 2026-01-01: rack move"
    parts = [
        finding("gpu-driver", hold={"kind": "waiting for", "detail": "a reboot"}),
        finding("storage-noatime", evidence=[note, "now relatime"]),
        finding("storage-old", hold={"kind": "orphaned", "detail": ""}),
    ]
    (one,) = read(document(entry("a", parts, inventory={"reboot": ["linux-image-6.8"]})))
    assert one.reboot == ("gpu-driver", "linux-image-6.8")
    assert one.expired == (f"storage-noatime: {note}",)
    assert one.orphaned == ("storage-old",)
    assert {rule: value for rule, _, value in one.says}["storage-noatime"] == "now relatime"


def test_plan_is_named_by_its_file():
    (one,) = read({**entry("x"), "format_version": 1, "stages": [], "host": "gpu-7"})
    assert one.host == "gpu-7"
    data = {**entry("x"), "format_version": 1, "stages": []}
    del data["host"]
    assert read(data)[0].host == "stem"


def test_note_of_the_playbook_is_a_host_without_an_answer():
    (one,) = read(
        {
            "format_version": 1,
            "kind": "hosttune missing",
            "host": "a",
            "at": "2026-11-21T03:00:00Z",
            "reason": "ssh",
        }
    )
    assert (one.host, one.missing, one.at) == ("a", "ssh", "2026-11-21T03:00:00+00:00")


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        (
            {"format_version": 2, "hosts": []},
            "r.json: format_version",
            "is 2: a newer hosttune wrote it",
        ),
        ({"format_version": 0, "hosts": []}, "r.json: format_version", "expected 1, found 0"),
        ({"hosts": []}, "r.json: format_version", "is missing"),
        ({"format_version": 1}, "r.json", "is neither a record nor a plan nor a result"),
        ({"format_version": 1, "hosts": []}, "r.json: hosts", "names no host"),
        (document(7), "r.json: hosts[0]", "is no object"),
        (document(entry("")), "r.json: hosts[0].host", "is missing"),
        (
            document({**entry("a"), "created_at": "soon"}),
            "r.json: hosts[0].created_at",
            "is no time",
        ),
        (document({**entry("a"), "findings": {}}), "r.json: hosts[0].findings", "is not a list"),
        (
            document(entry("a", [finding(verdict="perhaps")])),
            "r.json: hosts[0].findings[0].verdict",
            "is none of ok,",
        ),
        (
            document(entry("a", [finding(hold={"kind": "x"})])),
            "r.json: hosts[0].findings[0].hold",
            "is no reason",
        ),
        (
            document(entry("a", inventory={"settings": {"k": 1}})),
            "r.json: hosts[0].inventory.settings",
            "is no table",
        ),
    ],
)
def test_fault_is_told_with_its_place(data, place, reason):
    (one,) = read(data)
    assert isinstance(one, Unread)
    assert one.place == place
    assert one.reason.startswith(reason)


def test_fault_of_one_host_leaves_the_others():
    found = read(document(entry("a"), {}, entry("b")))
    assert [type(one) for one in found] == [HostLook, Unread, HostLook]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b"", "f", "is empty"),
        (b" \n", "f", "is empty"),
        (b'{\n"hosts": [\n', "f:3", "is not JSON: ends in the middle"),
        ('{"a": "é", "hosts": ['.encode(), "f:1", "is not JSON: ends in the middle"),
        (b'{"hosts": ["gpu-0', "f:1", "is not JSON: ends in the middle"),
        (b"{\n\n nope}", "f:3", "is not JSON: Expecting property name"),
        (b"[]", "f", "is not a document of hosttune"),
        (b"\xff\xfe{", "f", "is not JSON"),
        (b"[" * 100_000, "f", "is not JSON"),
    ],
)
def test_broken_file_is_told_with_its_line(content, place, reason):
    found = parse_document(content, "f")
    assert isinstance(found, Unread)
    assert found.place == place
    assert found.reason.startswith(reason)


scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "differs", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["host", "findings", "hold", "kind", "verdict", "rule", "created_at", "summary", "inventory"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(scraps)
def test_nothing_in_a_document_raises(scrap):
    for data in (
        {"format_version": 1, "hosts": [scrap]},
        {"format_version": 1, "hosts": scrap},
        {"format_version": 1, **entry("a"), "stages": [], "hold": scrap},
    ):
        assert all(isinstance(one, (HostLook, Unread)) for one in read(data))


FAULTY = finding("gpu-errors", is_fault=True)
SLOW = finding("gpu-throttle", "advice", impairs=True)


def test_host_that_should_not_take_work_is_so_by_its_own_policy():
    kept = {"fitness": "impaired", "unfit": [], "impaired": ["gpu-errors"]}
    older, newer = read(document(entry("a", [FAULTY, SLOW]), entry("b", [FAULTY], health=kept)))
    assert (older.unfit, older.impaired) == (("gpu-errors",), ("gpu-throttle",))
    assert (newer.unfit, newer.impaired) == ((), ("gpu-errors",))


@pytest.mark.parametrize("health", [{"unfit": "x"}, {"unfit": [1]}, {"impaired": {}}])
def test_health_that_is_none_is_told_with_its_place(health):
    (unread,) = read(document(entry("a", [FAULTY], health=health)))
    assert unread.place.startswith("r.json: hosts[0].health.")


_CHANGES = (
    {"address": "sysctl:vm.swappiness", "action": "update", "before": "60", "after": "10", "rule": "r"},
    {"address": "fstab:/data", "action": "update", "before": "defaults", "after": "noatime", "rule": "r",
     "details": ["@@ -3 +3 @@", "-UUID=1 /data ext4 defaults 0 2", "+UUID=1 /data ext4 noatime 0 2"]},
    {"address": "sysfs:/sys/block/sda/q", "action": "update", "before": "1", "after": "2", "rule": "r", "device": "SN1"},
)  # fmt: skip


def _folded(*hosts):
    """The classes of (host, what it says otherwise of its changes), and what is shown for the first
    of them.
    """
    fleet = FleetAggregator()
    changes = {
        host: [one | said for one, said in zip(_CHANGES, more, strict=True)] for host, more in hosts
    }
    same = digest(change_from_json(one) for one in _CHANGES)
    data = document(
        *(entry(host, [finding(changes=own)], digest=same) for host, own in changes.items())
    )
    for seen in read(data):
        fleet.add(seen)
    result = fleet.result()
    (first, *_) = result.classes
    shown = changes_in(data, first.content)
    return result, tuple(shown if first.is_uniform else map(in_common, shown))


_SAME = ({}, {}, {})


def test_what_one_host_says_of_its_changes_is_not_shown_for_the_others():
    told = {"details": ["- (nothing)", "+ # a comment only"], "reason": "harmless"}
    fleet, shown = _folded(("a-evil", (told, told, told)), ("b", _SAME), ("c", _SAME))
    assert [one.hosts.names for one in fleet.classes] == [("b", "c"), ("a-evil",)]
    assert len(fleet.disputed) == 1
    assert "comment only" not in str(shown)


@pytest.mark.parametrize(
    "other",
    [
        ({"before": "10"}, {}, {}),
        ({}, {"details": ["- (nothing)", "+ # a comment only"]}, {}),
        ({}, {}, {"address": "sysfs:/sys/block/loop99/q"}),
        ({"reason": "harmless"}, {}, {}),
    ],
)
def test_what_equal_hosts_have_of_their_own_is_shown_where_all_have_the_same(other):
    _, uniform = _folded(("a", _SAME), ("b", _SAME))
    assert (uniform[0].before, uniform[2].address.name) == ("60", "/sys/block/sda/q")
    fleet, shown = _folded(("a-evil", other), ("b", _SAME))
    assert [one.hosts.names for one in fleet.classes] == [("a-evil", "b")]
    assert not fleet.disputed
    assert (str(shown[2].address), shown[0].after, shown[1].details) == ("sysfs:SN1 q", "10", ())
    assert isinstance(shown[0].before, Unreadable)


def test_details_hide_no_value_of_a_live_setting():
    change = change_from_json(_CHANGES[0] | {"details": ["- (nothing)", "+ # a comment only"]})
    diff = diff_of(change)
    assert (diff.before, diff.after) == ("60", "10")


def test_document_of_too_many_hosts_is_one_file_that_says_nothing():
    """40 million empty objects became as many entries of the report."""
    (found,) = read_document({"format_version": 1, "hosts": [{}] * 70_000}, "a.json", "a")
    assert "has more than 65536 hosts" in found.reason
