"""Strict YAML: the traps of YAML 1.1 stay text, every fault has its line, and all come at once."""

import json
import tracemalloc

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from hosttune.engine.rules.yamlio import MAX_DEPTH, MAX_FAULTS, load_document
from hosttune.errors import BadInput


def faults_of(text):
    with pytest.raises(BadInput) as caught:
        load_document(text, "f.yaml")
    return [str(fault).split("\n")[0] for fault in caught.value.faults]


def test_file_that_is_too_large_is_not_looked_into(monkeypatch):
    for name in ("CSafeLoader", "SafeLoader"):
        monkeypatch.setattr(yaml, name, None, raising=False)
    (fault,) = faults_of("a: " + "x" * (1 << 20))
    assert "larger than 1 MiB" in fault


@pytest.fixture(params=["with libyaml", "without libyaml"])
def loader(request, monkeypatch):
    if request.param == "without libyaml":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@pytest.mark.parametrize(
    "word",
    ["on", "off", "yes", "No", "y", "True", "TRUE", "Null", "~", "0644", "0x10", "0o17", "0b1", "1:30", "1_000", "2026-01-02",
     "1e3", ".5", "1.", ".inf", ".nan", "22.04.1", "=", "+", "-x"],
)  # fmt: skip
def test_plain_scalar_outside_json_stays_text(word, loader):
    assert load_document(f"a: {word}", "f.yaml").data == {"a": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [("null", None), ("", None), ("true", True), ("false", False), ("0", 0), ("-7", -7), ("10", 10), ("1.5", 1.5), ("-0.25", -0.25),
     ("1.0e3", 1000.0), ('"10"', "10"), ("'true'", "true"), ('""', "")],
)  # fmt: skip
def test_plain_scalar_of_json_has_its_type(word, value, loader):
    data = load_document(f"a: {word}", "f.yaml").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_keys_are_always_text(loader):
    assert load_document("on: 1\n2: b\ntrue: c\nnull: d", "f.yaml").data == {
        "on": 1,
        "2": "b",
        "true": "c",
        "null": "d",
    }


def test_lines_name_every_field(loader):
    document = load_document(
        "a: 1\n\nwant:\n  - sysctl: x\n    at_most: 5\n  - mount: y\nb: {c:\n  d}\n", "f.yaml"
    )
    assert document.lines == {
        "": 1, "a": 1, "want": 3, "want[0]": 4, "want[0].sysctl": 4, "want[0].at_most": 5, "want[1]": 6, "want[1].mount": 6,
        "b": 7, "b.c": 7,
    }  # fmt: skip


def test_where_of_missing_field_is_the_line_of_its_owner():
    document = load_document("a: 1\nwant:\n  - sysctl: x\n", "f.yaml")
    assert str(document.where("want[0].at_most.deep")) == "f.yaml:3: want[0].at_most.deep"
    assert str(document.where("want[7].x")) == "f.yaml:2: want[7].x"
    assert str(document.where("nothing")) == "f.yaml:1: nothing"


def test_all_faults_come_at_once_in_file_order(loader):
    text = "a: 1\nb: &x [1]\na: 2\nc: *x\nd: !!str 4\n<<: {e: 1}\n'': 1\n"
    assert faults_of(text) == [
        "f.yaml:2: b: an anchor (&x)",
        "f.yaml:3: a: the key 'a' is given twice: line 1 and line 3",
        "f.yaml:4: c: an alias (*x)",
        "f.yaml:5: d: a tag (tag:yaml.org,2002:str)",
        "f.yaml:6: <<: a merge key (<<)",
        "f.yaml:7: an empty key",
    ]


def test_quoted_merge_key_is_an_ordinary_key(loader):
    assert load_document('"<<": 1', "f.yaml").data == {"<<": 1}


def test_duplicate_key_in_nested_list_is_a_fault(loader):
    assert faults_of("a:\n- {b: 1, c: 2,\n   b: 3}\n") == [
        "f.yaml:3: a[0].b: the key 'b' is given twice: line 2 and line 3"
    ]


def test_unquoted_braces_are_a_fault_with_the_way_out_and_do_not_hide_later_ones(loader):
    with pytest.raises(BadInput) as caught:
        load_document("a: {{ params.value }}\nb: [{[x, {y: z}]: 1}]\nc: 1\nc: 2\n", "f.yaml")
    assert [fault.where.line for fault in caught.value.faults] == [1, 2, 4]
    assert caught.value.faults[0].hint == 'text with braces goes in quotes: "{{ ... }}"'


@pytest.mark.parametrize("text", ["\ta: 1", "a:\t1", "a: [1,\t2]", "a: |\n  x\ty"])
def test_tab_is_a_fault(text, loader):
    line = text[: text.index("\t")].count("\n") + 1
    assert faults_of(text) == [f"f.yaml:{line}: a tab"]


@pytest.mark.parametrize(
    "character", ["\x00", "\x1b", "\x7f", "\x85", "\u2028", "\ufeff", "\ud800", "\ufffe"]
)
def test_invisible_character_is_a_fault(character, loader):
    assert faults_of(f"a: 1\nb: x{character}y\n") == [
        f"f.yaml:2: the character U+{ord(character):04X} is not allowed"
    ]


def test_text_outside_ascii_is_kept(loader):
    assert load_document("a: Größe 🐢", "f.yaml").data == {"a": "Größe 🐢"}


@pytest.mark.parametrize(
    ("text", "line"), [("a: 1\nb: c: d\n", 2), ("a: 1\n b: 2\n", 2), ("a: @x", 1), ("a: 1\n}", 2)]
)
def test_syntax_error_has_its_line(text, line, loader):
    (fault,) = faults_of(text)
    assert fault.startswith(f"f.yaml:{line}: not valid YAML: ")


def test_second_document_and_directive_are_faults(loader):
    assert faults_of("a: 1\n---\nb: 2\n") == ["f.yaml:2: a second document"]
    assert faults_of("%YAML 1.1\n---\na: 1\n")[0].endswith("a % directive")


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_empty_file_is_none(text, loader):
    assert load_document(text, "f.yaml").data is None


def test_too_large_file_is_refused_unread(loader):
    assert faults_of("#" * ((1 << 20) + 1)) == ["f.yaml: the file is larger than 1 MiB"]
    assert faults_of("ö" * ((1 << 19) + 1)) == ["f.yaml: the file is larger than 1 MiB"]


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000 + "x"])
def test_deep_nesting_is_refused(text, loader):
    (fault,) = faults_of(text)
    assert f"nested more than {MAX_DEPTH} levels deep" in fault


@pytest.mark.parametrize(
    "keys",
    [
        '? "' + "k" * 100_000 + '"\n: ',
        "".join(" " * depth + "k" * 900 + ":\n" for depth in range(30)) + " " * 31,
    ],
    ids=["one long key", "many levels"],
)
def test_memory_is_not_the_length_of_keys_times_the_number_of_values_below_them(keys, loader):
    tracemalloc.start()
    try:
        (fault,) = faults_of(f"{keys}[{'1,' * 5_000}1]\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "too many values for the length of the keys above them" in fault
    assert peak < 64 << 20


def test_a_long_list_under_ordinary_keys_is_read(loader):
    assert len(load_document(f"hosts: [{'node001, ' * 20_000}x]", "f.yaml").data["hosts"]) == 20_001


def test_tags_that_a_directive_makes_long_are_not_read(loader):
    tags = f"%TAG !e! {'t' * 100_000}\n---\n[{'!e!a 1, ' * 50}1]\n"
    assert faults_of(tags) == ["f.yaml:1: a % directive"]


@pytest.mark.parametrize("text", ["\x01\n", "- &a 1\n", "- *a\n", "- !a 1\n"])
def test_file_of_faults_is_read_until_there_are_too_many(text, loader):
    assert faults_of(text * 5_000)[-1].endswith(f"and {MAX_FAULTS - 100} more faults")


def test_key_faults_count_too(loader):
    assert faults_of("a: 1\n" * 5_000)[-1].endswith(f"and {MAX_FAULTS - 100} more faults")


def test_nesting_up_to_the_limit_is_read(loader):
    assert load_document("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f.yaml").lines


@pytest.mark.parametrize(
    ("number", "word"), [("9" * 39, "digits"), ("9" * 5000, "digits"), ("1.0e999", "too large")]
)
def test_huge_number_is_a_fault(number, word, loader):
    (fault,) = faults_of(f"a: {number}")
    assert word in fault


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(max_size=20)
    | st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_survives(value):
    # JSON escapes what lies above U+FFFF as two halves, which YAML does not join; tiny floats get
    # no decimal point.
    text = json.dumps(value)
    assume("\\ud" not in text and "e-" not in text)
    assert load_document(text.replace("\x7f", "\\x7f"), "f.yaml").data == value


@given(st.text(alphabet="ab:- \n{}[],#&*!'\"|>%@`<?0.", max_size=40))
def test_any_text_that_both_loaders_read_is_the_same(text):
    # libyaml is laxer in a few corners (`>#`), so one of the two may refuse.
    answers = []
    c_loader = getattr(yaml, "CSafeLoader", None)
    for has_c in (True, False):
        if not has_c and c_loader is not None:
            del yaml.CSafeLoader
        try:
            answers.append(load_document(text, "f.yaml").data)
        except BadInput:
            pass
        finally:
            if c_loader is not None:
                yaml.CSafeLoader = c_loader
    assert answers[1:] in ([], answers[:1])
