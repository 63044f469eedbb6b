"""The shape of YAML files: every fault with its place, and a JSON Schema that agrees."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.engine.rules.schema import (
    AnyOf,
    Boolean,
    Date,
    FirstKey,
    Id,
    Integer,
    ListOf,
    MapOf,
    Number,
    OrExpression,
    Scalar,
    String,
    TableSpec,
    check,
    json_schema,
    of_type,
)
from hosttune.engine.rules.yamlio import load_document

SHAPE = TableSpec(
    {
        "id": Id(help="Its file name"),
        "risk": String(choices=("low", "medium", "high")),
        "since": String(),
        "note": String(may_be_empty=True),
        "count": Integer(minimum=1, maximum=5),
        "share": Number(minimum=0),
        "flag": Boolean(),
        "ignore": ListOf(
            AnyOf((Id(), TableSpec({"rule": Id(), "until": Date()}, required=("rule",))))
        ),
        "params": MapOf(MapOf(Scalar()), keys=Id()),
        "want": ListOf(
            FirstKey(
                {
                    "sysctl": TableSpec(
                        {"sysctl": String(), "at_most": OrExpression(Integer(minimum=0))}
                    ),
                    "unit": TableSpec(
                        {"unit": String(), "enabled": Boolean()}, required=("enabled",)
                    ),
                }
            ),
            least=1,
        ),
        "expect": ListOf(TableSpec({"if": String()}, required=("if",))),
    },
    required=("id", "risk"),
    one_of=(("want", "expect"),),
)
GOOD = "id: a-b\nrisk: low\nwant: [{sysctl: vm.swappiness, at_most: 10}]\n"


def faults_of(text, spec=SHAPE):
    return [str(fault) for fault in check(load_document(text, "f.yaml"), spec)]


def test_right_document_has_no_fault():
    text = GOOD + (
        "since: '0.1'\nnote: ''\ncount: 5\nshare: 0\nflag: false\nignore: [a, {rule: b, until: 2026-02-28}]\n"
        "params: {a: {x: 1, y: [p, 2.5], z: true}}\n"
    )
    assert faults_of(text) == []


def test_all_faults_come_at_once_in_file_order_with_place_and_hint():
    text = (
        "id: A_b\nrisk: lwo\nsince: 0.1\ncount: 9\nflag: on\nprofil: x\nignore:\n- a\n- {rul: x, until: 2026-02-31}\n"
        "params:\n  A: {x: null}\nwant:\n- sysctl: a\n  at_most: ten\n- sysct: a\n- unit: x\n"
    )
    assert faults_of(text) == [
        "f.yaml:1: id: 'A_b' does not have the form lower-case words joined by '-'",
        "f.yaml:2: risk: 'lwo' is not one of the choices\n  hint: did you mean low? valid: low, medium, high",
        "f.yaml:3: since: must be a text, not the number 0.1\n  hint: put it in quotes",
        "f.yaml:4: count: 9 is above the maximum 5",
        (
            "f.yaml:5: flag: must be true or false, not the text 'on'\n"
            "  hint: write true or false, in lower case and without quotes"
        ),
        (
            "f.yaml:6: profil: unknown key\n"
            "  hint: valid: id, risk, since, note, count, share, flag, ignore, params, want, expect"
        ),
        "f.yaml:9: ignore[1].rule: is missing",
        "f.yaml:9: ignore[1].rul: unknown key\n  hint: did you mean rule? valid: rule, until",
        "f.yaml:9: ignore[1].until: '2026-02-31' is no date\n  hint: write YYYY-MM-DD",
        "f.yaml:11: params.A: 'A' does not have the form lower-case words joined by '-'",
        "f.yaml:11: params.A.x: must be a text, a number, true, false, or a list of those, not empty",
        (
            "f.yaml:14: want[0].at_most: must be a whole number or {{ an expression }}, not the text 'ten'\n"
            "  hint: write a number in decimal digits, without quotes"
        ),
        (
            "f.yaml:15: want[1].sysct: unknown kind\n"
            "  hint: the first key names the kind; did you mean sysctl? valid: sysctl, unit"
        ),
        "f.yaml:16: want[2].enabled: is missing",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "f.yaml:1: must be a mapping, not empty"),
        ("[]", "f.yaml:1: must be a mapping, not a list"),
        ("word", "f.yaml:1: must be a mapping, not the text 'word'"),
        ("id: a\nrisk: low\n", "f.yaml:1: one of want or expect is missing"),
        ("risk: low\nwant: [{sysctl: a}]", "f.yaml:1: id: is missing\n  hint: Its file name"),
        (GOOD + "expect: []", "f.yaml:4: expect: cannot stand beside want\n  hint: give one of want, expect"),
        (GOOD + "count: true", "f.yaml:4: count: must be a whole number, not true"),
        (GOOD + "count: 1.5", "f.yaml:4: count: must be a whole number, not the number 1.5"),
        (GOOD + "count: '3'", ("f.yaml:4: count: must be a whole number, not the text '3'\n"
         "  hint: write a number in decimal digits, without quotes")),
        (GOOD + "count: 0", "f.yaml:4: count: 0 is below the minimum 1"),
        (GOOD + "share: -0.5", "f.yaml:4: share: -0.5 is below the minimum 0"),
        (GOOD + "since: ''", "f.yaml:4: since: must not be empty"),
        (GOOD + "since: true", "f.yaml:4: since: must be a text, not true\n  hint: put it in quotes"),
        ("id: a\nrisk: 1\nwant: [{sysctl: a}]", "f.yaml:2: risk: must be one of low, medium, high, not the number 1"),
        (GOOD + "ignore: a", "f.yaml:4: ignore: must be a list, not the text 'a'\n  hint: write [a]"),
        (GOOD + "ignore: [[a]]", "f.yaml:4: ignore[0]: must be a text or a mapping, not a list"),
        (GOOD + "params: {a: 1}", "f.yaml:4: params.a: must be a mapping, not the number 1"),
        ("id: a\nrisk: low\nwant: []", "f.yaml:3: want: must not be empty"),
        ("id: a\nrisk: low\nwant: [{}]", "f.yaml:3: want[0]: is empty\n  hint: the first key names the kind; valid: sysctl, unit"),
        ("id: a\nrisk: low\nwant: [{at_most: 1, sysctl: a}]", ("f.yaml:3: want[0].at_most: unknown kind\n"
         "  hint: the first key names the kind; valid: sysctl, unit")),
        ("id: a\nrisk: low\nwant: [{sysctl: a, at_most: -1}]", "f.yaml:3: want[0].at_most: -1 is below the minimum 0"),
    ],
)  # fmt: skip
def test_wrong_document_has_this_fault(text, fault):
    assert faults_of(text) == [fault]


def test_long_text_in_a_message_is_shortened():
    (fault,) = faults_of(GOOD + f"count: {'x' * 100}")
    assert len(fault) < 200


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (str, "x", 1),
        (int, 3, "3"),
        (float, 2, "2"),
        (bool, False, 0),
        (list, ["a"], [1]),
        (dict, {"a": [1]}, {"a": None}),
    ],
)
def test_of_type_gives_the_spec_of_a_python_type(kind, right, wrong):
    spec = TableSpec({"x": of_type(kind)})
    assert faults_of(json.dumps({"x": right}), spec) == []
    assert len(faults_of(json.dumps({"x": wrong}), spec)) == 1


def test_of_type_with_choices_limits_text_and_items():
    assert len(faults_of("x: c", TableSpec({"x": of_type(str, choices=("a", "b"))}))) == 1
    assert len(faults_of("x: [a, c]", TableSpec({"x": of_type(list, choices=("a", "b"))}))) == 1


def test_json_schema_is_valid_and_tells_editors_what_a_field_is():
    schema = json_schema(SHAPE, title="a rule", description="what a rule file holds")
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema)[:3] == ["$schema", "title", "description"]
    assert schema["properties"]["id"]["description"] == "Its file name"
    assert schema["additionalProperties"] is False


words = st.sampled_from(["a", "a-b", "A_", "", "low", "on", "{{ x }}", "2026-01-02", "2026-1-2"])
scalars = words | st.integers(-1, 6) | st.booleans() | st.none() | st.sampled_from([0.5, -0.5])
wishes = st.fixed_dictionaries(
    {}, optional={"sysctl": words, "at_most": scalars, "unit": words, "enabled": scalars}
)
documents = st.fixed_dictionaries(
    {"id": words, "risk": st.sampled_from(["low", "high", "x"])},
    optional={
        "since": scalars,
        "note": scalars,
        "count": scalars,
        "share": scalars,
        "flag": scalars,
        "ignore": st.lists(
            words | st.fixed_dictionaries({}, optional={"rule": words, "until": words, "x": words}),
            max_size=2,
        ),
        "params": st.dictionaries(
            words.filter(bool),
            st.dictionaries(words.filter(bool), scalars | st.lists(scalars), max_size=2),
        ),
        "want": st.lists(wishes, max_size=2),
        "expect": st.lists(st.fixed_dictionaries({}, optional={"if": scalars}), max_size=2),
        "other": scalars,
    },
)


@given(documents)
def test_json_schema_agrees_with_the_check(data):
    validator = jsonschema.Draft202012Validator(json_schema(SHAPE))
    document = load_document(json.dumps(data), "f.yaml")
    assert (check(document, SHAPE) == []) is validator.is_valid(data)
