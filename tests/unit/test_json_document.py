"""A JSON file edited by one member at a time."""

import json
from json import JSONDecodeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.resources.json_document import Node, drop, get, line_of, parse, put

DOCUMENT = '{\n    "a": 1,\n    "log-opts": {\n        "max-file": "3"\n    },\n    "b": [1, {"c": 2}]\n}\n'


@pytest.mark.parametrize(
    ("text", "path", "value", "after"),
    [
        ("{}\n", ("a",), 1, '{\n  "a": 1\n}\n'),
        ("", ("a",), 1, '{\n  "a": 1\n}\n'),
        ('{"a": 1}', ("b",), "x", '{"a": 1, "b": "x"}'),
        ('{"a": 1}', ("b", "c"), "x", '{"a": 1, "b": {"c": "x"}}'),
        ('{\n\t"a": 1\n}', ("b", "c"), True, '{\n\t"a": 1,\n\t"b": {\n\t\t"c": true\n\t}\n}'),
        ('{\n    "a": {}\n}', ("a", "c"), 1, '{\n    "a": {\n        "c": 1\n    }\n}'),
        ('{"a" :  1 , "b":2}', ("a",), None, '{"a" :  null , "b":2}'),
        (" \n", ("a",), 1, '{\n  "a": 1\n}\n'),
        ('{"a": 1, "b": 2}', ("a",), "ü", '{"a": "ü", "b": 2}'),
        ("{}", ("ü",), "ü", '{\n  "ü": "ü"\n}'),
        ('{"a": 1, "b": 2}', ("c",), 3, '{"a": 1, "b": 2, "c": 3}'),
        ('{\n  "x": {"a": 1}\n}', ("x", "b"), 2, '{\n  "x": {"a": 1, "b": 2}\n}'),
        ('{\n"a": 1\n}', ("b", "c"), 2, '{\n"a": 1,\n"b": {\n  "c": 2\n}\n}'),
        ('{\n    "a": 1, "b": 2\n}', ("c", "d"), 3, '{\n    "a": 1, "b": 2,\n    "c": {\n        "d": 3\n    }\n}'),
        (
            '{\n  "x": {\n    "y": {}\n  }\n}', ("x", "y", "z"), 1,
            '{\n  "x": {\n    "y": {\n      "z": 1\n    }\n  }\n}',
        ),
        (DOCUMENT, ("log-opts", "max-size"), "9m", DOCUMENT.replace('"3"', '"3",\n        "max-size": "9m"')),
    ],
)  # fmt: skip
def test_member_is_put_in_the_style_of_the_file(text, path, value, after):
    assert put(text, path, value) == after
    assert json.loads(after)


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
        ('{\n  "a": {\n    "b": 1\n  }\n}\n', ("a", "b"), "{}\n"),
        ('{"a": 1, "b": 2, "c": 3, "d": 4}', ("c",), '{"a": 1, "b": 2, "d": 4}'),
        ('{"a": 1, "b": 2, "c": 3, "d": 4}', ("b",), '{"a": 1, "c": 3, "d": 4}'),
        ('{"x": 0, "a": {"b": 1}}', ("a", "b"), '{"x": 0}'),
        ('{"a": {"b": 1, "c": 2}}', ("a", "b"), '{"a": {"c": 2}}'),
        ('{"a": 1}', ("b",), '{"a": 1}'),
        ('{"a": {"c": 1}}', ("a", "b"), '{"a": {"c": 1}}'),
    ],
)
def test_member_is_dropped_with_what_held_it_alone(text, path, after):
    assert drop(text, path) == after


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ('{"a": 1,}', 1, 9, "key in double quotes"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "Expecting ','"),
        ('{"a": 1, "a": 2}', 1, 10, "is here twice"),
        ("[]", 1, 1, "an object"),
        ('{"a": NaN}', 1, 7, "NaN is no JSON"),
        ('{"a": 1} x', 1, 10, "Extra data"),
        ('{"a" 1}', 1, 6, "':'"),
        ('{"a": // x\n 1}', 1, 7, "value"),
        ('{"a": 1', 1, 8, "Expecting ','"),
        ("{", 1, 2, "key in double quotes"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text, line, column, says):
    with pytest.raises(JSONDecodeError, match=says) as caught:
        parse(text)
    assert (caught.value.lineno, caught.value.colno) == (line, column)


@pytest.mark.parametrize("text", ["", " \n", "\t\r\n"])
def test_file_of_blanks_is_an_empty_object(text):
    assert parse(text) == Node(0, len(text), {}, ())


def test_file_of_other_blanks_than_those_of_json_is_no_empty_object():
    with pytest.raises(JSONDecodeError, match="an object"):
        parse("\f\n")


def test_lines_that_end_with_a_carriage_return_stay_so():
    text = '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n'
    assert put(text, ("a",), 3) == text.replace("1", "3")
    assert drop(text, ("b",)) == '{\r\n  "a": 1\r\n}\r\n'


def test_value_that_is_no_object_stands_in_the_way():
    with pytest.raises(ValueError, match="a is no object"):
        put('{"a": 1}', ("a", "b"), 1)


def test_member_knows_its_line():
    member = get(parse(DOCUMENT), ("log-opts", "max-file"))
    assert member is not None
    assert (member.value.data, line_of(DOCUMENT, member.start)) == ("3", 4)


KEYS = st.sampled_from(["a", "b", "log-opts", 'q"', "ü", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from([None, 2, 4, "\t"]), st.lists(KEYS, min_size=1, max_size=3),
    st.none() | st.text(max_size=3),
)  # fmt: skip
def test_what_was_put_is_there_and_goes_without_a_trace(data, indent, path, value):
    text = json.dumps(data, indent=indent, ensure_ascii=False) + "\n"
    assert parse(text).data == data
    here = data
    for key in path:
        if not isinstance(here, dict) or (key in here and not isinstance(here[key], dict)):
            return
        here = here.get(key, {})
    if get(parse(text), path) is not None:
        return
    after = put(text, path, value)
    member = get(parse(after), path)
    assert member is not None
    assert member.value.data == value
    assert drop(after, path) == text


DOS = '{\r\n    "runtimes": {\r\n        "nvidia": {"path": "nvidia-container-runtime"}\r\n    },\r\n    "debug": false\r\n}\r\n'


@pytest.mark.parametrize("text", [DOS, "{}\r\n", '{"a": {}}\r\n', "\r\n", "{\r\n}", "{}"])
@pytest.mark.parametrize(
    "path", [("log-driver",), ("log-opts", "max-size"), ("runtimes", "other", "path")]
)
def test_what_is_added_ends_its_lines_as_the_file_does(text, path):
    new = put(text, path, "x")
    ends = {"\r\n"} if "\r\n" in text else {"\n"}
    assert {
        "\r\n" if line.endswith("\r\n") else "\n" for line in new.splitlines(keepends=True)[:-1]
    } <= ends
    assert get(parse(new), path).value.data == "x"
    assert text != DOS or drop(new, path) == text
