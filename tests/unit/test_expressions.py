"""Expressions of rules: what they can say, what they refuse, and that an unknown fact never gives a
wrong answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, Optional, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.engine.decide.evaluate import ExpressionNames
from hosttune.engine.expressions import hints as expression_hints
from hosttune.engine.expressions.expression import (
    CONSTANTS,
    HELPERS,
    compile_expression,
    compile_text,
    parse_expression,
    parse_text,
)
from hosttune.engine.expressions.helpers import gib_text, text_of
from hosttune.engine.expressions.hints import (
    describe,
    item_of,
    name_type,
    options_of,
    record,
    simplify_hint,
)
from hosttune.errors import BadInput, HosttuneError, Where
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, make_unread
from hosttune.frozen import frozen
from tests.unit.fake_reader import FakeReader

WHERE = Where("rule.yaml", 7, "applies_when[0].if")


@frozen
class Disk(Fact):
    name: str
    kind: Literal["disk", "md", "loop"] = "disk"
    is_rotational: bool = False
    size_bytes: int | None = None
    parents: tuple[str, ...] = ()

    @property
    def has_parents(self) -> bool:
        return len(self.parents) > 0


@frozen
class Disks(Fact):
    all: tuple[Disk, ...]

    @property
    def by_device(self) -> Mapping[str, Disk]:
        return {disk.name: disk for disk in self.all}

    @property
    def first(self) -> Optional[Disk]:  # noqa: UP045 (both spellings occur)
        return self.all[0] if self.all else None


@frozen
class Unit(Fact):
    is_active: bool


@frozen
class Units(Fact):
    known: Mapping[str, Unit]

    def __getitem__(self, name: str) -> Unit:
        return self.known[name]


@frozen
class Host(Fact):
    is_vm: bool = False
    secure_boot: bool | None = None
    memory_bytes: int = 64 << 30
    load: float = 0.5
    release: str = "5.15.0-91-generic"
    version: tuple[int, ...] = (5, 15)
    branch: str | None = None


SCOPE = {
    "host": Host,
    "disks": Disks,
    "units": Units,
    "params": {"types": list[str], "percent": int, "any": Any},
    "item": Disk,
}
SDA, NVME = Disk("sda", is_rotational=True, size_bytes=10), Disk("nvme0n1", parents=("nvme0",))
NAMES = {
    "host": Host(),
    "disks": Disks((SDA, NVME)),
    "units": Units({"fstrim.timer": Unit(True)}),
    "params": {"types": ["ext4", "xfs"], "percent": 10, "any": None},
    "item": NVME,
}


def evaluate(text, names=NAMES, scope=SCOPE):
    return parse_expression(text, WHERE, scope).evaluate(names)


def faults_of(text, scope=SCOPE):
    with pytest.raises(BadInput) as caught:
        parse_expression(text, WHERE, scope)
    assert all(fault.where == WHERE for fault in caught.value.faults)
    return [fault.message for fault in caught.value.faults]


def hint_of(text):
    with pytest.raises(BadInput) as caught:
        parse_expression(text, WHERE, SCOPE)
    return caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("not host.is_vm", True),
        ("host.memory_bytes >= 64 * gib", True),
        ("1 < 2 <= 2 != 3", True),
        ("1 < 2 > 3", False),
        ("-params.percent + 7 // 2 - 7 % 4", -10),
        ("7 / 2", 3.5),
        ("'a' if host.is_vm else 'b'", "b"),
        ("params.types", ("ext4", "xfs")),
        ("'xfs' in params.types", True),
        ("'ext' in params.types[0]", True),
        ("params.types[-1]", "xfs"),
        ("params.types == ['ext4', 'xfs']", True),
        ("params.types == ('ext4', 'xfs')", True),
        ("params.types + ['f2fs']", ("ext4", "xfs", "f2fs")),
        ("[d.name for d in disks.all if d.is_rotational]", ("sda",)),
        ("[d.name for d in disks.all for p in d.parents if p == 'nvme0']", ("nvme0n1",)),
        ("any(d.is_rotational for d in disks.all)", True),
        ("all([d.is_rotational for d in disks.all])", False),
        ("any([host.is_vm, True])", True),
        ("all([])", True),
        ("len(disks.all) + len('abc') + len(disks.by_device)", 7),
        ("sum(1 for d in disks.all if not d.is_rotational)", 1),
        ("max(1, 5, 3) + min([4, 2])", 7),
        ("max(d.size_bytes for d in disks.all if d.size_bytes is not None)", 10),
        ("sorted(d.name for d in disks.all)", ("nvme0n1", "sda")),
        ("disks.by_device['sda'].size_bytes", 10),
        ("disks.by_device[item.name].has_parents", True),
        ("'sdz' in disks.by_device", False),
        ('units["fstrim.timer"].is_active', True),
        ("version(host.release) >= (5, 4)", True),
        ("int('12') + int(3.9) + abs(-1) + round(2.6)", 19),
        ("round(2.345, 1)", 2.3),
        ("join(d.name for d in disks.all)", "sda, nvme0n1"),
        ("join(params.types, '+')", "ext4+xfs"),
        ("starts_with(host.release, '5.') and ends_with(host.release, 'generic')", True),
        ("starts_with(host.release, 'generic') or ends_with(host.release, '5.')", False),
        ("[like(t, 'e*4') for t in params.types]", (True, False)),
        ("like('ext4', 'ext') or like('Ext4', 'ext?') or like('ext44', 'ext[34]')", False),
        ("lower('A-b')", "a-b"),
        ("words(' a  b\\t')", ("a", "b")),
        ("len(d for d in disks.all)", 2),
        ("gib_text(host.memory_bytes)", "64 GiB"),
        (
            "counted(1, 'error') + ', ' + counted(0, 'error') + ', ' + counted(2, 'process', 'processes')",
            "1 error, 0 errors, 2 processes",
        ),
        ("str(3.0) + str(True) + str(7)", "3true7"),
        ("host.secure_boot is None and host.branch == None", True),
        ("host.secure_boot == True", False),
        ("kib * 2 + mib // mib", 2049),
        ("host.memory_bytes\n  >= 1\n", True),
        ("'a # b'", "a # b"),
    ],
)
def test_expression_has_the_value_of_python(text, value):
    result = evaluate(text)
    assert result == value
    assert type(result) is type(value)
    assert compile_expression(text, WHERE).evaluate(NAMES) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("host.memory_bytes // 2", int),
        ("host.memory_bytes / 2", float),
        ("host.load * 2", float),
        ("host.is_vm", bool),
        ("host.secure_boot", bool | None),
        ("[d for d in disks.all]", tuple[Disk, ...]),
        ("[d.name for d in disks.all]", tuple[str, ...]),
        ("disks.by_device['x']", Disk),
        ("units['x']", Unit),
        ("max(1, 2.5)", float),
        ("max([1, 2])", int),
        ("sorted(params.types)", tuple[str, ...]),
        ("1 if host.is_vm else 2.0", float),
        ("host.branch if host.branch is not None else host.release", str),
        ("params.any", Any),
    ],
)
def test_expression_type_is_inferred(text, kind):
    inferred = parse_expression(text, WHERE, SCOPE).type
    assert set(options_of(inferred)) == set(options_of(kind))


def test_expression_says_which_facts_and_units_it_uses():
    expression = compile_expression(
        'units["a.timer"].x and packages["b"].y and any(d.z for d in disks.all) and units["c"].x and gib > 1',
        WHERE,
    )
    assert expression.subjects == {"units", "packages", "disks"}
    assert expression.units == {"a.timer", "c"}
    assert expression.type is Any


def test_comprehension_variable_ends_with_its_comprehension():
    expression = compile_expression("[d for d in d]", WHERE)
    assert expression.subjects == {"d"}
    assert expression.evaluate({"d": (1, 2)}) == (1, 2)
    assert (
        faults_of("any(d.is_rotational for d in disks.all) and d.is_rotational")[0]
        == "unknown name 'd'"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an expression: it is empty in ``"),
        ("1 +", "not an expression: invalid syntax in `1 +`"),
        ("1) + (2", "not an expression: "),
        ("host.is_vm # why", "not an expression: a comment"),
        ("'\\d' == host.release", "not an expression: "),
        ("1\x002", "not an expression: "),
        ("(" * 300 + "1" + ")" * 300, "not an expression: "),
        ("lambda: 1", "lambda cannot stand in an expression"),
        ("(x := 1)", ":= cannot stand in an expression"),
        ("f'{host}'", "an f-string cannot stand in an expression"),
        ("{'a': 1}", "a mapping cannot stand in an expression"),
        ("{1, 2}", "a set cannot stand in an expression"),
        ("{x for x in params.types}", "a set cannot stand in an expression"),
        ("params.types[0:1]", "a slice cannot stand in an expression"),
        ("max(*params.types)", "* cannot stand in an expression"),
        ("b'x'", "b'x' cannot stand in an expression"),
        ("1j", "1j cannot stand in an expression"),
        ("...", "Ellipsis cannot stand in an expression"),
        ("2 ** 3", "there is no such operator in expressions"),
        ("1 << 3", "there is no such operator in expressions"),
        ("+1", "the operator + cannot stand before a value"),
        ("~1", "the operator ~ cannot stand before a value"),
        ("host.__class__", "'__class__': names that start with _ cannot be used"),
        ("_x", "'_x': names that start with _ cannot be used"),
        ("host.release.upper()", "only the functions of expressions can be called"),
        ("open('/etc/passwd')", "no function is called 'open'"),
        ("sorted(params.types, reverse=True)", "sorted takes no named arguments"),
        ("len", "len is a function: call it"),
        ("(x for x in params.types)", "`... for ... in ...` belongs in brackets, or inside "),
        ("[a for a, b in params.types]", "`for` takes one plain name"),
        ("[len for len in params.types]", "`for len` hides len"),
        ("[host for host in params.types]", "`for host` hides host"),
        ("host.is_vm is True", "`is` compares with None only"),
        ("units", "units cannot be used as a whole"),
        ("units[params.types[0]].is_active", "units[...] takes a name in quotes"),
        ("9" * 60, "the number is too large"),
        ("x" * 5000, "not an expression: longer than 4000 characters"),
        ("1" + "+1" * 100, "nested more than 60 levels deep"),
        ("1" + "+1" * 1900, "nested more than 60 levels deep"),
        ("not " * 900 + "True", "nested more than 60 levels deep"),
        ("host" + "[0]" * 1300, "nested more than 60 levels deep"),
        ("hots.is_vm", "unknown name 'hots'"),
        ("host.is_wm", "Host has no field 'is_wm'"),
        ("params.typs", "params has no field 'typs'"),
        ("host.release.upper", "`host.release` is str and has no field 'upper'"),
        ("disks.all.name", "`disks.all` is list of Disk and has no field 'name'"),
        (
            "host.memory_bytes == '64'",
            "these cannot be compared: `host.memory_bytes` is int, `'64'` is '64'",
        ),
        ("host.is_vm == 1", "these cannot be compared: "),
        ("host.release > 5", "these cannot be compared: "),
        ("host.release >= '5.4'", "`host.release` and `'5.4'` are texts, which have no order here"),
        ("host.is_vm < host.is_vm", "these cannot be compared: "),
        ("host.version >= ('5', '4')", "these cannot be compared: "),
        ("item.kind == 'dsk'", "`item.kind` is 'disk' or 'md' or 'loop', never 'dsk'"),
        ("item.kind in ['dsk']", "`item.kind` is 'disk' or 'md' or 'loop', never in"),
        ("host.memory_bytes is None", "`host.memory_bytes` is int, never None"),
        ("host.memory_bytes != None", "`host.memory_bytes` is int, never None"),
        ("1 in params.types", "`1` is int, never in `params.types`, a list of str"),
        ("1 in host.release", "`1` is int, never in `host.release`, a str"),
        (
            "'a' in host.branch",
            "`in` looks into a list, a mapping or a text; `host.branch` is str or None",
        ),
        ("1 in 5", "`in` looks into a list, a mapping or a text; `5` is int"),
        (
            "params.types and host.is_vm",
            "`params.types` is list of str, but a test is true or false",
        ),
        ("not host.release", "`host.release` is str, but a test is true or false"),
        (
            "host.secure_boot or host.is_vm",
            "`host.secure_boot` is bool or None, but a test is true or false",
        ),
        (
            "1 if host.memory_bytes else 2",
            "`host.memory_bytes` is int, but a test is true or false",
        ),
        ("[d for d in disks.all if d.name]", "`d.name` is str, but a test is true or false"),
        (
            "any(d.name for d in disks.all)",
            "`any((d.name for d in disks.all))`: any does not take list of str",
        ),
        (
            "item.size_bytes + 1",
            "`item.size_bytes + 1`: the operator does not take int or None and int",
        ),
        ("item.size_bytes > 1", "`item.size_bytes` may be None, which has no order"),
        ("host.release + 1", "`host.release + 1`: the operator does not take str and int"),
        ("'a' * 1000", "`'a' * 1000`: the operator does not take str and int"),
        ("'%s' % 1", "`'%s' % 1`: the operator does not take str and int"),
        ("-host.release", "`-host.release`: str is not a number"),
        ("disks.first.name", "`disks.first` may be None"),
        ("host.version['a']", "`host.version[...]` takes int, not 'a'"),
        ("disks.by_device[1]", "`disks.by_device[...]` takes str, not int"),
        ("host.memory_bytes[0]", "`host.memory_bytes` is int and has no items"),
        ("[x for x in host.release]", "`for` goes through a list; `host.release` is str"),
        ("len(1)", "`len(1)`: len does not take int"),
        ("max(1, 'a')", "`max(1, 'a')`: max does not take int, 'a'"),
        ("max(1)", "`max(1)`: max does not take int"),
        ("round()", "`round()`: round does not take nothing"),
        ("int(host.branch)", "`int(host.branch)`: int does not take str or None"),
        ("join(host.version)", "`join(host.version)`: join does not take list of int"),
    ],
)
def test_expression_with_a_fault_is_refused(text, message):
    assert any(found.startswith(message) for found in faults_of(text)), faults_of(text)


def test_all_faults_of_an_expression_come_at_once_and_no_mistake_twice():
    assert faults_of("hots.is_vm and host.is_wm > 1 and (lambda: 1) or host.is_wm > 2") == [
        "lambda cannot stand in an expression",
        "unknown name 'hots'",
        "Host has no field 'is_wm'",
    ]


def test_hint_names_the_nearest_valid_name_or_the_way_out():
    assert hint_of("hots.is_vm").startswith("did you mean host? valid: disks, gib,")
    assert hint_of("host.is_wm").startswith("did you mean is_vm? valid: branch,")
    assert hint_of("lne(params.types)").startswith("did you mean len?")
    assert hint_of("params.types and True") == "write len(params.types) > 0"
    assert (
        hint_of("disks.first.name")
        == "test first: disks.first is not None and disks.first.name ..."
    )


@pytest.mark.parametrize(
    "text",
    [
        "disks.first is not None and disks.first.is_rotational",
        "disks.first is None or disks.first.is_rotational",
        "disks.first.name == 'a' if disks.first is not None else False",
        "False if disks.first is None else disks.first.is_rotational",
        "not (disks.first is None) and disks.first.is_rotational",
        "not (disks.first is None or not disks.first.is_rotational)",
        "any(d.size_bytes > 1 for d in disks.all if d.size_bytes is not None)",
        "any(d.size_bytes != None and d.size_bytes > 1 for d in disks.all)",
        "units['a'].is_active or host.branch is not None and int(host.branch) > 1",
        "item.size_bytes == 5",
        "disks.all[0].size_bytes is not None and disks.all[0].size_bytes > 1",
        "disks.by_device['sda'].size_bytes is not None and disks.by_device['sda'].size_bytes > 1",
    ],
)
def test_what_a_test_has_shown_not_to_be_none_may_be_used(text):
    assert parse_expression(text, WHERE, SCOPE).type is bool


@pytest.mark.parametrize(
    "text",
    [
        "disks.first is None and disks.first.is_rotational",
        "disks.first is not None or disks.first.is_rotational",
        "(disks.first is not None and host.is_vm) or disks.first.is_rotational",
        "(disks.first is not None or host.is_vm) and disks.first.is_rotational",
        "disks.all[0].size_bytes is not None and disks.all[1].size_bytes > 1",
        "any(disks.all[0].size_bytes > 1 for d in disks.all if d.size_bytes is not None)",
        "[d for d in disks.all if d.size_bytes is not None] == [] and item.size_bytes > 1",
    ],
)
def test_what_may_still_be_none_is_refused(text):
    assert any("may be None" in message for message in faults_of(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("params.percent / (params.percent - 10)", "division by zero"),
        ("params.types[5]", "tuple index out of range"),
        ("disks.by_device['sdz'].name", "no 'sdz'"),
        ("int(host.release)", "is not a whole number"),
        ("version('x')", "'x' does not start with a number"),
        ("min([x for x in host.version if x > 99])", ""),
        ("gib * gib * gib * gib * gib", "the number is too large"),
        ("int(1e300)", "the number is too large"),
        ("1e300 * 1e300", "the number is too large"),
        ("params.any.field", "'NoneType' object has no attribute 'field'"),
        ("params.any + 1", "unsupported operand"),
        ("[x for x in params.any]", "NoneType is not a list"),
    ],
)
def test_what_cannot_be_worked_out_names_place_and_source(text, reason):
    with pytest.raises(HosttuneError) as caught:
        evaluate(text)
    assert str(caught.value).startswith(
        f"rule.yaml:7: applies_when[0].if: cannot work out `{text}`: "
    )
    assert reason in str(caught.value)


def test_missing_name_at_evaluation_is_an_error_and_not_a_crash():
    with pytest.raises(HosttuneError, match=r"cannot work out `host\.is_vm`: no 'host'"):
        compile_expression("host.is_vm", WHERE).evaluate({})


@pytest.mark.parametrize(
    "text",
    ["'%1000000000d' % 1", "'a' * 1000000000", "[1] * 1000000000", "-'a'", "xs * 1000000000"],
)
def test_unchecked_expression_repeats_and_formats_nothing(text):
    with pytest.raises(HosttuneError, match="cannot work out"):
        compile_expression(text, WHERE).evaluate({"xs": ["a"]})


def test_comprehensions_have_a_bound_on_all_their_steps_together():
    names = {"xs": tuple(range(400))}
    assert (
        len(
            compile_expression("[1 for a in xs for b in xs if a == b]", WHERE).evaluate(
                {"xs": names["xs"][:300]}
            )
        )
        == 300
    )
    for text in (
        "[1 for a in xs for b in xs]",
        "any(a < 0 for a in xs for b in xs)",
        "any(any(b < 0 for b in xs) for a in xs)",
    ):
        with pytest.raises(HosttuneError, match="more than 100000 steps"):
            compile_expression(text, WHERE).evaluate(names)


def test_text_that_grows_too_long_is_an_error():
    doubled = "+".join(["t"] * 20)
    with pytest.raises(HosttuneError, match="the result is too long"):
        compile_expression(doubled, WHERE).evaluate({"t": "x" * 100_000})


TEN = "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)"
TEN_THOUSAND = " ".join(f"for {name} in {TEN}" for name in "abcd")


def million(piece):
    """Clauses that make `s`, about a million characters."""
    grown = " ".join(
        f"for {new} in [{'+'.join([old] * 10)}]"
        for old, new in (("s1", "s2"), ("s2", "s3"), ("s3", "s"))
    )
    return f"for s1 in [{(piece * 999)[:999]!r}] {grown}"


def doubled(name):
    """Clauses that make `{name}30`: a list of two lists of two lists, a thousand million texts if
    written out.
    """
    steps = (f"for {name}{i} in [({name}{i - 1}, {name}{i - 1})]" for i in range(1, 31))
    return f"for {name}0 in [('a', 'b')] {' '.join(steps)}"


@pytest.mark.parametrize("item", ["'{}'", "['{}']", "[['{}'], {}]"])
def test_types_of_long_lists_are_compared_in_linear_time(item, monkeypatch):
    def asked(count):
        calls = []
        monkeypatch.setattr(
            expression_hints, "get_origin", lambda hint: calls.append(1) or get_origin(hint)
        )
        one, other = (
            ", ".join(item.format(f"{number}{end}", number) for number in range(count))
            for end in ("", "x")
        )
        with pytest.raises(BadInput, match="these cannot be compared"):
            parse_expression(f"[{one}] == [1.5, {other}] == [[[1]]]", WHERE, {})
        return len(calls)

    assert asked(80) < 8 * asked(20)


TOO_MUCH = {
    "memory": f"[s + str(a) {million('a')} {TEN_THOUSAND}]",
    "looking": f"[1 {million('a')} {TEN_THOUSAND} if like(s, '*aac*')]",
    "compiling": f"[1 {TEN_THOUSAND} if like('', '{'*a' * 490}' + str(a) + str(b) + str(c) + str(d))]",
    "compiling again": f"[1 for r in {TEN} {TEN_THOUSAND} for z in ['a', 'b'] if like('', z+str(a)+str(b)+str(c)+str(d))]",
    "a pattern": f"[1 {million('a')} for p in ['*{'a' * 400}b'] {TEN_THOUSAND} if like(s, p)]",
    "comparing": f"[1 {million('a')} for t in [s + 'x'] for u in [s + 'x'] {TEN_THOUSAND} if t == u]",
    "searching": f"[1 {million('a')} {TEN_THOUSAND} if '{'a' * 90}b' in s]",
    "writing": f"[1 {million('a')} {TEN_THOUSAND} if lower(s) == 'a']",
    "parting": f"[words(s) {million('a ')} {TEN_THOUSAND}]",
    "ordering": f"[sorted([s + str(a) for a in {TEN}]) {million('a')} {TEN_THOUSAND}]",
    "joining": f"[join([s], ' ') {million('a')} {TEN_THOUSAND}]",
    "an end": f"[1 {million('a')} {TEN_THOUSAND} if ends_with(s, s)]",
    "a key": f"[xs[s] {million('a')} {TEN_THOUSAND} if s in xs]",
    "a list in lists": f"[1 {doubled('x')} {doubled('y')} if x30 == y30]",
    "a list from outside": f"[1 {TEN_THOUSAND} if len(many) == 0]",
    "a part that may not matter": f"any(len(words(s)) > 0 and gone {million('a ')} {TEN_THOUSAND})",
}  # fmt: skip


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_an_expression_makes_and_reads_has_a_bound(text):
    """Rules come with records and images: a small one must not take all memory, or hours."""
    names = {"xs": {"a": 1}, "many": ["a"] * 10_000, "gone": make_unread("not there")}
    with pytest.raises(
        HosttuneError,
        match=r"^rule.yaml:7: .{,200}: it takes more than 16,777,216 steps and characters",
    ):
        compile_expression(text, WHERE).evaluate(names)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"x {{{{ [x30 {doubled('x')}] }}}}", "it takes more than"),
        (f"{{{{ [x30 {doubled('x')}] }}}}", "it takes more than"),
        (f"{{{{ [s {million('a')}][0] }}}}" * 300, "the result is too long"),
    ],
)
def test_what_a_text_is_made_of_has_a_bound(text, reason):
    with pytest.raises(HosttuneError, match=reason):
        compile_text(text, WHERE).evaluate({})


def test_all_expressions_of_a_rule_have_one_budget():
    names = ExpressionNames(Facts(FakeReader({})), {})
    text = compile_text(f"{{{{ [s {million('a')}][0] }}}}", WHERE)
    with pytest.raises(HosttuneError, match="it takes more than"):
        for _ in range(20):
            text.evaluate(names.with_(item=1))


def test_property_of_a_fact_is_asked_once_in_a_rule():
    """Many a one goes through all things of the host."""
    asked = []

    @frozen
    class Mounts(Fact):
        name: str = "x"

        @property
        def count(self) -> int:
            asked.append(self)
            return 1

    names = {"mounts": Mounts()}
    assert compile_expression(f"sum(mounts.count {TEN_THOUSAND})", WHERE).evaluate(names) == 10_000
    assert len(asked) == 1


# --- unknown facts
# -----------------------------------------------------------------------------------------------------

GONE = make_unread("permission denied")
PARTLY = NAMES | {
    "host": Host(is_vm=GONE, memory_bytes=GONE, secure_boot=GONE, version=GONE),
    "disks": Disks(
        (
            Disk("sda", is_rotational=GONE),
            Disk("sdb", is_rotational=True),
            Disk("sdc", parents=GONE),
        )
    ),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("host.is_vm and False", False),
        ("False and host.is_vm", False),
        ("host.is_vm or True", True),
        ("True or host.is_vm", True),
        ("host.is_vm and host.memory_bytes > 5 and False", False),
        ("any(d.is_rotational for d in disks.all)", True),
        ("all(d.is_rotational for d in disks.all)", False),
        ("any([host.is_vm, True])", True),
        ("all([host.is_vm, False])", False),
        ("any(d.name == 'sdb' for d in disks.all if d.is_rotational)", True),
        ("any(d.name == 'x' for d in disks.all if d.is_rotational)", False),
        ("all(d.name == 'x' for d in disks.all if d.is_rotational)", False),
        ("all(starts_with(d.name, 'sd') for d in disks.all if d.is_rotational)", True),
        ("any(True for d in disks.all if d.name == 'x' for p in d.parents)", False),
        ("all(d.name == 'x' for d in disks.all for p in d.parents) or len(disks.all) == 3", True),
        ("1 if host.is_vm else 1", 1),
        ("(host.is_vm and 1 // 0 == 1) or True", True),
    ],
)
def test_answer_is_certain_where_the_unknown_cannot_matter(text, value):
    result = evaluate(text, PARTLY)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "host.is_vm",
        "not host.is_vm",
        "host.is_vm and True",
        "host.is_vm or False",
        "True and host.is_vm",
        "host.memory_bytes > 5",
        "host.memory_bytes == host.memory_bytes",
        "5 in host.version",
        "host.memory_bytes * 0",
        "-host.memory_bytes",
        "host.secure_boot is None",
        "1 if host.is_vm else 2",
        "1 if host.is_vm else True",
        "(1,) if host.is_vm else (2,)",
        "(1,) if host.is_vm else (True,)",
        "[d.name for d in disks.all if d.is_rotational]",
        "len([d for d in disks.all if d.is_rotational])",
        "sum(1 for d in disks.all if d.is_rotational)",
        "any(d.name == 'sda' for d in disks.all if d.is_rotational)",
        "all(d.name == 'sdb' for d in disks.all if d.is_rotational)",
        "any(p == 'x' for d in disks.all for p in d.parents)",
        "any(d.name == 'x' for d in disks.all for p in d.parents)",
        "any([host.is_vm, False])",
        "max(host.memory_bytes, 1)",
        "[host.is_vm]",
        "host.version[0]",
        "disks.all[2].has_parents",
        "host.is_vm and 1 // 0 == 1",
        "host.is_vm or 1 // 0 == 1",
        "any([host.is_vm, 1 // 0 == 1])",
        "any(1 // (d.size_bytes - 1) > 0 for d in disks.all if d.is_rotational and d.size_bytes is not None) or host.is_vm",
    ],
)
def test_answer_is_unknown_where_the_unknown_matters(text):
    with pytest.raises(UnknownFact):
        compile_expression(text, WHERE).evaluate(PARTLY)


def test_the_first_unknown_is_the_one_named():
    host = Host(
        is_vm=make_unread("the first"),
        memory_bytes=make_unread("the second"),
        secure_boot=GONE,
        version=GONE,
    )
    for text in ("host.is_vm and host.memory_bytes > 5", "host.is_vm or host.memory_bytes > 5"):
        with pytest.raises(UnknownFact, match=r"^the first$"):
            evaluate(text, PARTLY | {"host": host})


def test_failure_before_anything_unknown_is_an_error():
    with pytest.raises(HosttuneError, match="by zero"):
        evaluate("1 // 0 == 1 and host.is_vm", PARTLY)


def test_whole_subject_or_item_that_was_not_read_is_unknown():
    for names in ({"host": GONE}, {"host": {"is_vm": GONE}}, {"host": {"is_vm": [GONE]}}):
        with pytest.raises(UnknownFact, match="permission denied"):
            compile_expression("any(x for x in host.is_vm)", WHERE).evaluate(names)


# --- properties: random expressions
# --------------------------------------------------------------------------------------


@frozen
class Item(Fact):
    n: int
    b: bool
    t: str


@frozen
class World(Fact):
    n: int
    m: int
    b: bool
    c: bool
    t: str
    o: int | None
    ns: tuple[int, ...]
    items: tuple[Item, ...]


small = st.integers(-3, 3)
text = st.sampled_from(["", "a", "b", "ab"])
item = st.builds(Item, n=small, b=st.booleans(), t=text)
world = st.builds(
    World, n=small, m=small, b=st.booleans(), c=st.booleans(), t=text, o=st.none() | small,
    ns=st.lists(small, max_size=3).map(tuple), items=st.lists(item, min_size=0, max_size=3).map(tuple),
)  # fmt: skip


def sources(locals_=(), depth=4):
    """Strategies for well-typed sources: (ints, bools, texts, lists of int). `locals_` are Item
    variables in scope.
    """
    ints = st.sampled_from(["0", "1", "2", "w.n", "w.m", *[f"{x}.n" for x in locals_]])
    bools = st.sampled_from(
        ["True", "False", "w.b", "w.c", "w.o is None", *[f"{x}.b" for x in locals_]]
    )
    texts = st.sampled_from(["'a'", "'b'", "w.t", *[f"{x}.t" for x in locals_]])
    lists = st.sampled_from(["w.ns", "(1, 2)", "(w.n,)"])
    if depth == 0:
        return ints, bools, texts, lists
    i, b, t, l = sources(locals_, depth - 1)  # noqa: E741
    x = f"x{len(locals_)}"
    ei, eb, _et, _ = sources((*locals_, x), depth - 1) if len(locals_) < 2 else (i, b, t, l)
    many = f"for {x} in w.items" if len(locals_) < 2 else "for z in w.items"
    ints |= st.builds("({} {} {})".format, i, st.sampled_from(["+", "-", "*", "//", "%"]), i)
    ints |= (
        st.builds("({} if {} else {})".format, i, b, i)
        | i.map("(-{})".format)
        | st.builds("max({}, {})".format, i, i)
    )
    ints |= (
        st.builds(f"sum({{}} {many} if {{}})".format, ei, eb)
        | st.builds("{}[{}]".format, l, i)
        | l.map("len({})".format)
    )
    ints |= st.builds("({} if w.o is None else w.o)".format, i)
    bools |= st.builds("({} {} {})".format, b, st.sampled_from(["and", "or"]), b) | b.map(
        "(not {})".format
    )
    bools |= st.builds(
        "({} {} {} {} {})".format,
        b,
        st.sampled_from(["and", "or"]),
        b,
        st.sampled_from(["and", "or"]),
        b,
    )
    bools |= st.builds("({} {} {})".format, i, st.sampled_from(["<", "<=", "==", "!=", ">"]), i)
    bools |= st.builds("({} < {} <= {})".format, i, i, i) | st.builds("({} in {})".format, i, l)
    bools |= st.builds("({} == w.t)".format, t) | st.builds("({} in {})".format, t, t)
    bools |= st.builds(f"{{}}({{}} {many})".format, st.sampled_from(["any", "all"]), eb)
    bools |= st.builds(f"{{}}({{}} {many} if {{}})".format, st.sampled_from(["any", "all"]), eb, eb)
    bools |= st.builds(
        f"{{}}([{{}} {many} if {{}} if {{}}])".format, st.sampled_from(["any", "all"]), eb, eb, eb
    )
    bools |= st.builds("{}([{}, {}])".format, st.sampled_from(["any", "all"]), b, b)
    bools |= st.builds("({} if {} else {})".format, b, b, b) | st.builds(
        "(w.o is not None and w.o > {})".format, i
    )
    texts |= (
        st.builds("({} + {})".format, t, t)
        | st.builds("({} if {} else {})".format, t, b, t)
        | i.map("str({})".format)
    )
    lists |= st.builds("({}, {})".format, i, i) | st.builds(
        f"sorted([{{}} {many} if {{}}])".format, ei, eb
    )
    return ints, bools, texts, lists


source = st.one_of(*sources())
HELPER_FUNCTIONS = (
    {name: helper.function for name, helper in HELPERS.items()}
    | dict(CONSTANTS)
    | {"__builtins__": {}}
)
FAILED = object()


def result_of(expression, facts):
    try:
        return expression.evaluate({"w": facts})
    except UnknownFact:
        raise
    except HosttuneError:
        return FAILED


def matches(value, kind):
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if len(options_of(kind)) > 1:
        return any(matches(value, option) for option in options_of(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(matches(one, item_of(kind)) for one in value)
    return type(value) is (NoneType if kind is None else kind) or (
        kind is float and type(value) is int
    )


@settings(max_examples=200, deadline=None)
@given(source, world)
def test_random_expression_gives_what_python_gives_and_has_the_inferred_type(text, facts):
    expression = parse_expression(text, WHERE, {"w": World})
    ours = result_of(expression, facts)
    try:
        python = eval(text, HELPER_FUNCTIONS | {"w": facts})  # noqa: S307 (the reference, on sources made above)
    except (ArithmeticError, LookupError, ValueError):
        assert ours is FAILED
        return
    assert ours == python
    assert type(ours) is type(python)
    assert matches(ours, expression.type)
    assert result_of(compile_expression(text, WHERE), facts) == python


def masked(facts, mask):
    """The facts with some fields unread, also those of the items; `mask` yields which."""
    values = {
        field.name: GONE if next(mask) else getattr(facts, field.name) for field in fields(World)
    }
    if isinstance(values["items"], tuple):
        values["items"] = tuple(
            Item(
                **{
                    field.name: GONE if next(mask) else getattr(one, field.name)
                    for field in fields(Item)
                }
            )
            for one in values["items"]
        )
    return World(**values)


def filled(hidden, other, extra):
    """The facts with what is unread taken from others."""

    def field_of(fact, name, source):
        try:
            return getattr(fact, name)
        except UnknownFact:
            return getattr(source, name)

    values = {field.name: field_of(hidden, field.name, other) for field in fields(World)}
    values["items"] = tuple(
        Item(**{field.name: field_of(one, field.name, new) for field in fields(Item)})
        for one, new in zip(values["items"], extra, strict=False)
    )
    return World(**values)


@settings(max_examples=300, deadline=None)
@given(source, world, st.lists(st.booleans(), min_size=20, max_size=20), st.lists(world, min_size=3, max_size=3),
       st.lists(item, min_size=9, max_size=9))  # fmt: skip
def test_certain_answer_holds_whatever_the_unknown_facts_are(text, facts, bits, others, extra):
    expression = compile_expression(text, WHERE)
    hidden = masked(facts, iter(bits))
    try:
        certain = result_of(expression, hidden)
    except UnknownFact:
        return
    if certain is FAILED:
        return
    for number, other in enumerate(others):
        possible = result_of(expression, filled(hidden, other, extra[number * 3 :][:3]))
        assert possible is FAILED or (possible == certain and type(possible) is type(certain)), (
            text,
            hidden,
            other,
        )


# --- texts
# ---------------------------------------------------------------------------------------------------------------


def test_text_without_braces_is_itself():
    made = parse_text("vm.swappiness", WHERE, SCOPE)
    assert made.evaluate({}) == "vm.swappiness"
    assert (made.type, made.subjects, made.units) == (str, frozenset(), frozenset())


def test_text_that_is_one_expression_keeps_value_and_type():
    made = parse_text("{{ params.types }}", WHERE, SCOPE)
    assert made.evaluate(NAMES) == ("ext4", "xfs")
    assert made.type == tuple[str, ...]
    assert made.subjects == {"params"}


def test_mixed_text_is_a_text_and_collects_what_its_parts_use():
    made = compile_text(
        '{{ params.percent }}% of {{ units["a"].x }} and {{ packages["b"].y }}{{ 2 }}', WHERE
    )
    assert made.type is str
    assert made.subjects == {"params", "units", "packages"}
    assert made.units == {"a"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n={{ params.percent }}", "n=10"),
        ("t={{ params.types }}.", "t=ext4, xfs."),
        ("b={{ host.is_vm }}", "b=false"),
        ("{{ 7 / 2 }} {{ 4 / 2 }}", "3.5 2"),
        (" {{ params.percent }}", " 10"),
        ("{{\n params.percent\n}}%", "10%"),
        ("{{ '{{' }}!", "{{!"),
    ],
)
def test_mixed_text_is_written_plainly(text, value):
    assert parse_text(text, WHERE, SCOPE).evaluate(NAMES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a {{ x", "braces that do not pair up"),
        ("a }} x", "braces that do not pair up"),
        ("{{ }}", "not an expression: it is empty"),
        ("n={{ disks.all }}", "`disks.all` is list of Disk, which cannot stand in a text"),
        ("n={{ host }}", "`host` is Host, which cannot stand in a text"),
        ("n={{ host.branch }}", "`host.branch` may be None, which cannot stand in a text"),
    ],
)
def test_text_with_a_fault_is_refused(text, message):
    with pytest.raises(BadInput) as caught:
        parse_text(text, WHERE, SCOPE)
    assert caught.value.faults[0].message.startswith(message)


def test_text_reports_the_faults_of_all_its_parts():
    with pytest.raises(BadInput) as caught:
        parse_text("{{ a }} {{ b }} {{ c", WHERE, SCOPE)
    assert [fault.message for fault in caught.value.faults] == [
        "unknown name 'a'",
        "unknown name 'b'",
        "braces that do not pair up",
    ]


def test_unchecked_text_with_none_is_an_error_and_unknown_stays_unknown():
    with pytest.raises(
        HosttuneError,
        match=r"cannot write `host.branch` into a text: nothing \(None\) cannot stand",
    ):
        compile_text("n={{ host.branch }}", WHERE).evaluate(NAMES)
    with pytest.raises(UnknownFact):
        compile_text("n={{ host.is_vm }}", WHERE).evaluate(PARTLY)


# --- helpers and types
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 GiB"), (1 << 30, "1 GiB"), (25 << 29, "12.5 GiB"), (1007 << 30, "1007 GiB"), (100 << 30, "100 GiB"),
     (1 << 28, "0.25 GiB"), (1, "less than 0.01 GiB"), (-(1 << 30), "-1 GiB"), (2000 << 30, "2000 GiB")],
)  # fmt: skip
def test_gib_text_is_short(size, text):
    assert gib_text(size) == text


def test_text_of_value_without_a_plain_form_is_a_type_error():
    assert text_of((1, True, ["a"])) == "1, true, a"
    with pytest.raises(TypeError):
        text_of(object())


def test_every_helper_has_usage_doc_and_forms():
    for name, helper in HELPERS.items():
        assert helper.usage.startswith(f"{name}(")
        assert helper.doc
        assert helper.forms


def test_plain_brings_annotations_to_one_form():
    assert (
        simplify_hint(list[int])
        == simplify_hint(frozenset[int])
        == simplify_hint(tuple[int, ...])
        == simplify_hint(tuple[int, int])
        == tuple[int, ...]
    )
    assert simplify_hint(dict[str, list[int]]) == Mapping[str, tuple[int, ...]]
    assert simplify_hint(list) == tuple[Any, ...]
    assert simplify_hint(object) is Any
    assert simplify_hint(Optional[int]) == int | None  # noqa: UP045


def test_record_is_a_type_with_fields():
    kind = record("choice", {"size_bytes": int, "names": list[str]})
    assert parse_expression("choice.size_bytes // gib", WHERE, {"choice": kind}).type is int
    assert name_type(kind) == "choice"


def test_describe_lists_every_name_an_expression_may_write():
    found = describe({"disks": Disks, "units": Units, "params": {"percent": int}})
    assert found["disks.all[].size_bytes"] == ("int or None", Disk)
    assert found["disks.all[].has_parents"][0] == "bool"
    assert found['disks.by_device["..."].kind'][0] == "'disk' or 'md' or 'loop'"
    assert found['units["..."].is_active'][0] == "bool"
    assert found["params.percent"][0] == "int"


def test_annotations_that_cannot_be_read_are_reported_with_their_class():
    @dataclass(frozen=True)
    class Broken:
        x: "Nowhere"  # noqa: F821

    with pytest.raises(
        TypeError, match=r"Broken: name 'Nowhere' is not defined; its annotations must be readable"
    ):
        parse_expression("b.x", WHERE, {"b": Broken})
