"""Values survive JSON, whatever a file or a name held; a document that is not ours is refused with
every fault.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune import __version__, codec
from hosttune.codec import (
    change_from_json,
    change_to_json,
    decode_as,
    dump_json,
    encode_canonically,
    finding_from_json,
    finding_to_json,
    parse_json,
    plan_from_json,
    plan_to_json,
    receipt_from_json,
    receipt_to_json,
    to_json,
)
from hosttune.errors import BadInput
from hosttune.facts.base import Fact, make_unread
from hosttune.facts.memory.memory import Memory
from hosttune.measure.watch.tick import Pressure, Tick
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Risk,
    Trigger,
    Unreadable,
)
from tests.golden import scenarios as made
from tests.unit.schemas import faults

VALUES = st.one_of(
    st.just(ABSENT),
    st.builds(Unreadable, st.text()),
    st.text(st.characters(exclude_categories=())),
    st.integers(),
    st.booleans(),
    st.lists(st.text(), max_size=3).map(tuple),
    st.builds(
        FileValue, st.binary(), st.integers(0, 0o7777), st.integers(0, 2**32), st.integers(0, 2**32)
    ),
)
CHANGE = Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness")


def through_text(data):
    return json.loads(dump_json(data))


def same(one, other):
    """Equal and of one type: 1, True and "1" are three values."""
    return type(one) is type(other) and one == other


@given(VALUES, VALUES)
def test_change_of_any_values_survives_json(before, after):
    change = replace(CHANGE, before=before, after=after)
    read = change_from_json(through_text(change_to_json(change)))
    assert read == change
    assert same(read.before, before)
    assert same(read.after, after)


@given(st.text(min_size=1))
def test_address_with_colons_and_odd_characters_survives_json(name):
    change = replace(CHANGE, address=Address("file", name))
    assert change_from_json(through_text(change_to_json(change))).address == Address("file", name)


@pytest.mark.parametrize(
    "plan", [made.PLAN, made.CLEAN, made.SMALL, made.BACK], ids=["full", "clean", "small", "undo"]
)
def test_plan_survives_json_and_fits_its_schema(plan):
    data = through_text(plan_to_json(plan))
    assert next(iter(data)) == "format_version"
    assert plan_from_json(data) == plan
    assert faults(data, "plan") == []


@pytest.mark.parametrize(
    "receipt", [made.DONE, made.FAILED, made.NOTHING], ids=["done", "failed", "nothing"]
)
def test_receipt_survives_json_and_fits_its_schema(receipt):
    data = through_text(receipt_to_json(receipt))
    assert receipt_from_json(data) == receipt
    assert faults(data, "receipt") == []


@pytest.mark.parametrize("finding", made.FINDINGS, ids=lambda finding: finding.rule)
def test_finding_survives_json(finding):
    assert finding_from_json(through_text(finding_to_json(finding))) == finding


def test_file_that_is_text_is_written_as_text():
    assert to_json(FileValue(b"a\r\n", 0o4755)) == {
        "type": "file",
        "text": "a\r\n",
        "mode": "4755",
        "uid": 0,
        "gid": 0,
    }


def test_file_that_is_no_text_is_written_in_base64():
    assert to_json(FileValue(b"\xff\x00"))["base64"] == "/wA="


def test_fact_that_could_not_be_read_is_written_with_its_reason():
    memory = Memory(**{name: make_unread("no /proc") for name in Memory.__dataclass_fields__})
    assert isinstance(memory, Fact)
    assert to_json(memory)["total_bytes"] == {"type": "unreadable", "reason": "no /proc"}


def test_older_document_without_new_fields_takes_their_defaults():
    data = change_to_json(CHANGE)
    for name in ("risk", "triggers", "details", "reason"):
        del data[name]
    assert change_from_json(data) == CHANGE


def wrong(path, value):
    """A plan document with one thing changed; `path` like stages.0.changes.0.rule."""
    data = through_text(plan_to_json(made.SMALL))
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target = data
    for part in above:
        target = target[part]
    target[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("digest", 7, "digest: expected text, found a number"),
        ("complete", 1, "complete: expected true or false, found a number"),
        ("stages", {}, "stages: expected a list, found an object"),
        ("stages.0", None, "stages[0]: expected an object, found nothing"),
        (
            "stages.0.changes.0.action",
            "destroy",
            "stages[0].changes[0].action: expected one of create, update, delete",
        ),
        (
            "stages.0.changes.0.address",
            "nowhere",
            "stages[0].changes[0].address: expected kind:name",
        ),
        (
            "stages.0.changes.0.after",
            None,
            "stages[0].changes[0].after: expected a value, found nothing",
        ),
        (
            "stages.0.changes.0.after",
            1.5,
            "stages[0].changes[0].after: expected a value, found float",
        ),
        (
            "stages.0.changes.0.after",
            [1],
            "stages[0].changes[0].after[0]: expected text, found a number",
        ),
        (
            "stages.0.changes.0.after",
            {"type": "absent", "x": 1},
            "stages[0].changes[0].after: expected a value",
        ),
        (
            "stages.0.changes.1.after.mode",
            "rw",
            "stages[0].changes[1].after.mode: expected four octal digits",
        ),
        (
            "stages.0.changes.1.after.uid",
            "root",
            "stages[0].changes[1].after.uid: expected a number",
        ),
        (
            "stages.0.changes.1.after.base64",
            "AA==",
            "stages[0].changes[1].after: expected type, mode, uid, gid and one of",
        ),
        (
            "findings.0.changes.0.rule",
            None,
            "findings[0].changes[0].rule: expected text, found nothing",
        ),
    ],
)
def test_document_with_a_fault_is_refused_with_its_path(path, value, said):
    with pytest.raises(BadInput) as caught:
        plan_from_json(wrong(path, value), "p.json")
    assert any(str(fault).startswith(f"p.json: {said}") for fault in caught.value.faults), (
        caught.value
    )


def test_all_faults_are_told_at_once():
    data = wrong("digest", 7)
    data["stages"][0]["changes"][0]["rule"] = 1
    del data["machine"]
    with pytest.raises(BadInput) as caught:
        plan_from_json(data)
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize("problems", [[], ["a still differs"]])
def test_plan_that_an_earlier_version_saved_is_read(problems):
    assert (
        plan_from_json(through_text(plan_to_json(made.SMALL)) | {"problems": problems})
        == made.SMALL
    )


@pytest.mark.parametrize("path", ["surprise", "stages.0.surprise", "findings.0.changes.0.surprise"])
def test_field_of_a_later_version_is_passed_over_and_a_change_carries_it(path):
    read = plan_from_json(wrong(path, {"a": [1]}))
    assert replace(read, findings=made.SMALL.findings) == made.SMALL
    carried = [
        change.later for finding in read.findings for change in finding.changes if change.later
    ]
    assert carried == ([(("surprise", '{"a": [1]}'),)] if "changes" in path else [])


@pytest.mark.parametrize("version", [2, 17])
def test_document_of_a_newer_version_names_that_version(version):
    data = plan_to_json(made.SMALL) | {"format_version": version, "tool_version": __version__}
    with pytest.raises(BadInput, match=f"format_version: is {version}: a newer hosttune wrote it"):
        plan_from_json(data)
    with pytest.raises(BadInput, match=r"hint: use hosttune 9\.1\.0 for it"):
        plan_from_json(data | {"tool_version": "9.1.0"})


@pytest.mark.parametrize("version", [None, 0, "1", True, 1.5])
def test_document_of_another_version_is_refused_with_the_way_out(version):
    data = plan_to_json(made.SMALL)
    data["format_version"] = version
    with pytest.raises(BadInput, match="format_version: expected 1") as caught:
        plan_from_json(data)
    assert "make the file again" in str(caught.value)


def test_file_that_cannot_be_decoded_is_refused():
    data = change_to_json(replace(CHANGE, after=FileValue(b"\xff")))
    data["after"]["base64"] = "not base64!"
    with pytest.raises(BadInput, match=r"after\.base64: cannot be decoded"):
        change_from_json(data)


def test_canonical_is_compact_sorted_and_ascii():
    change = replace(CHANGE, after="\u00fc\ud800", triggers=(Trigger("daemon-reload"),))
    assert encode_canonically([change]) == (
        rb'[{"action":"update","activation":"now","address":"sysctl:vm.swappiness","after":"\u00fc\ud800",'
        rb'"rule":"memory-swappiness","triggers":[{"kind":"daemon-reload","name":""}]}]'
    )


@pytest.mark.parametrize(
    "more",
    [{"reason": "x"}, {"details": ("x",)}, {"risk": Risk.HIGH}, {"reversible": "no, because"}],
    ids=str,
)
def test_canonical_leaves_out_what_is_only_said(more):
    assert encode_canonically([replace(CHANGE, **more)]) == encode_canonically([CHANGE])


@pytest.mark.parametrize(
    "more",
    [
        {"address": Address("sysctl", "vm.dirty_ratio")},
        {"action": Action.CREATE},
        {"device": 'ENV{ID_WWN}=="1"'},
        {"after": FileValue(b"10")},
        {"after": ABSENT},
        {"rule": "other"},
        {"activation": Activation.REBOOT},
        {"triggers": (Trigger("daemon-reload"),)},
    ],
    ids=str,
)
def test_canonical_covers_what_is_done(more):
    assert encode_canonically([replace(CHANGE, **more)]) != encode_canonically([CHANGE])


def test_canonical_leaves_out_what_the_kernel_has_worked_out_and_no_other_value():
    assert encode_canonically([replace(CHANGE, before="59")]) == encode_canonically([CHANGE])
    unit = replace(CHANGE, address=Address("unit", "fstrim.timer"), before="disabled")
    assert encode_canonically([replace(unit, before="masked")]) != encode_canonically([unit])


def test_canonical_is_the_same_whatever_number_or_place_a_device_has_in_this_boot():
    """An export of NFS has another number after each boot, and disks come up in another order."""
    changes = [
        replace(
            CHANGE,
            address=Address("sysfs", f"/sys/class/bdi/0:{number}/max_ratio"),
            after=after,
            device=device,
        )
        for number, after, device in ((40, "1", "a"), (41, "2", "b"))
    ]
    booted = [
        replace(one, address=Address("sysfs", f"/sys/class/bdi/0:{39 + number}/max_ratio"))
        for number, one in enumerate(changes)
    ]
    assert (
        encode_canonically(booted)
        == encode_canonically(changes)
        == encode_canonically(changes[::-1])
    )
    swapped = [
        replace(one, device=other.device) for one, other in zip(changes, changes[::-1], strict=True)
    ]
    assert encode_canonically(swapped) != encode_canonically(changes)


def test_canonical_covers_rights_of_a_file():
    files = [
        replace(CHANGE, after=FileValue(b"x", mode, uid))
        for mode, uid in ((0o644, 0), (0o600, 0), (0o644, 1))
    ]
    assert len({encode_canonically([change]) for change in files}) == 3


def test_optional_and_decimal_fields_of_other_values_are_read():
    assert decode_as(
        Tick, {"at_s": 1, "seconds": 0.5, "job": {"cpu_some": 3}, "host": None}, "t"
    ) == Tick(1.0, 0.5, job=Pressure(3.0))
    with pytest.raises(BadInput, match=r"t: job\.cpu_some: expected a number, found text"):
        decode_as(Tick, {"at_s": 1, "seconds": 0.5, "job": {"cpu_some": "3"}}, "t")


@pytest.mark.parametrize(
    "content", ["[" + "{}," * 40 + "{}]", b"[" + b"{}," * 40 + b"{}]", '["' + "," * 90 + '"]']
)
def test_json_of_too_many_values_is_not_made(content):
    assert parse_json(content, 170)
    with pytest.raises(ValueError, match="more than 80 values"):
        parse_json(content, 80)


def test_json_has_a_bound_on_its_text_and_on_its_objects(monkeypatch):
    """A wide character makes four bytes of each; a chain of objects takes 230 bytes for each
    brace.
    """
    chain = '{"a":' * 30 + "0" + "}" * 30
    assert parse_json(chain, 90)
    with pytest.raises(ValueError, match="more than 89 values"):
        parse_json(chain, 89)
    monkeypatch.setattr(codec, "MOST_TEXT", 3 << 20)
    with pytest.raises(ValueError, match="it is larger than 3 MiB"):
        parse_json(b'"' + b"a" * (3 << 20) + b'"')
