"""JUnit XML: the shape that Jenkins' schema (jenkins-junit.xsd) and Ant's (JUnit.xsd) agree on."""

from dataclasses import replace
from xml.etree.ElementTree import fromstring

import pytest

from hosttune.values import Finding, Hold, HoldKind, Verdict
from hosttune.views.checked import Checked
from hosttune.views.junit import check_junit
from hosttune.views.summary import exit_status
from tests.golden import scenarios as made

ONE = Checked(made.PLAN, made.PAGE, profile="base")
# element: (attributes that must be there, attributes that may be there, elements in it)
SHAPE = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set(), {"testsuite"}),
    "testsuite": (
        {
            "name",
            "tests",
            "failures",
            "errors",
            "skipped",
            "time",
            "timestamp",
            "hostname",
            "id",
            "package",
        },
        set(),
        {"properties", "testcase", "system-out"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name", "classname", "time"},
        set(),
        {"skipped", "error", "failure", "system-out"},
    ),
    "skipped": ({"message"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
    "failure": ({"message", "type"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def parsed(text):
    return fromstring(text)  # noqa: S314 - written just now by the code under test


def of(findings, *, strict=False, **more):
    plan = replace(made.CLEAN, findings=tuple(findings), **more)
    return parsed(check_junit((Checked(plan, made.PAGE),), strict=strict))


def outcome(finding, *, strict=False):
    (case,) = of([finding], strict=strict).iter("testcase")
    return [child.tag for child in case]


@pytest.mark.parametrize(
    "plan", [made.PLAN, made.CLEAN, made.SMALL, replace(made.CLEAN, findings=())]
)
def test_document_has_the_shape_of_the_schema(plan):
    one = replace(ONE, plan=replace(plan, interrupted=("run 1 was interrupted",)))
    root = parsed(check_junit((one, ONE)))
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, allowed, inside = SHAPE[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed
        assert {child.tag for child in element} <= inside
    for suite in [root, *root]:
        for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            assert int(suite.get(attribute)) == len(list(suite.iter(tag)))
    assert [suite.get("id") for suite in root] == ["0", "1"]
    assert root[0].get("timestamp") == "2026-10-09T03:15:02"


@pytest.mark.parametrize(
    ("finding", "plain", "strict"),
    [
        (Finding("a-b", "", Verdict.OK), [], []),
        (Finding("a-b", "", Verdict.OK, evidence=("now 1",)), ["system-out"], ["system-out"]),
        (Finding("a-b", "", Verdict.DIFFERS, reason="x"), ["failure"], ["failure"]),
        (
            Finding("a-b", "", Verdict.DIFFERS, Hold(HoldKind.OWNED, "TuneD")),
            ["failure"],
            ["failure"],
        ),
        (
            Finding("a-b", "", Verdict.DIFFERS, Hold(HoldKind.WAIVED, "until 2027")),
            ["skipped"],
            ["skipped"],
        ),
        (Finding("a-b", "", Verdict.UNKNOWN, reason="x"), ["error"], ["error"]),
        (Finding("a-b", "", Verdict.ADVICE, reason="x"), ["system-out"], ["failure"]),
        (Finding("a-b", "", Verdict.NOT_APPLICABLE, reason="x"), ["skipped"], ["skipped"]),
        (
            Finding("a-b", "", Verdict.ADVICE, Hold(HoldKind.ORPHANED), "x"),
            ["system-out"],
            ["system-out"],
        ),
    ],
)
def test_case_fails_where_the_check_would(finding, plain, strict):
    for is_strict, expected in ((False, plain), (True, strict)):
        assert outcome(finding, strict=is_strict) == expected
        fails = bool({"failure", "error"} & set(expected))
        assert fails == bool(
            exit_status(replace(made.CLEAN, findings=(finding,)), strict=is_strict)
        )


def test_failure_says_why_and_what_to_do():
    finding = Finding(
        "a-b", "/x", Verdict.DIFFERS, reason="/x should be y", evidence=("now z",), todo="set it"
    )
    (failure,) = of([finding]).iter("failure")
    assert failure.get("message") == "/x should be y"
    assert failure.text == "/x should be y\nnow z\ndo: set it"


def test_text_that_xml_cannot_carry_is_escaped():
    evil = "\x00\x1b[2J\ufffe\ud800]]><!--&\u2028"
    finding = Finding("a-b", evil, Verdict.DIFFERS, reason=evil, evidence=(evil,), todo=evil)
    (failure,) = of([finding]).iter("failure")
    assert failure.get("message") == "\\x00\\x1b[2J\\ufffe\\ud800]]><!--&\\u2028"
