"""A check as JUnit XML, for image pipelines: a suite for each host, a case for each rule and
subject.

It has nothing of an outline (views/document.py): cases of a schema, with a result each, so it is
made of the findings. A fleet has none: it is folded into counts, and the cases of several hosts are
those of `check --host A --host B`. A case fails exactly where the check would end with status 1.
The names and attributes are those of the schema that Jenkins publishes (jenkins-junit.xsd); suites
also carry what Ant's has (id, package, timestamp without a zone).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from hosttune.host.masking.cleaned import clean
from hosttune.values import HoldKind, Verdict
from hosttune.views.checked import group_of
from hosttune.views.findings import explain_finding
from hosttune.views.report import warning_texts
from hosttune.views.summary import counts_for_status, is_fault, name_standing

if TYPE_CHECKING:
    from hosttune.values import Finding
    from hosttune.views.checked import Checked
    from hosttune.views.findings import FindingText

_TIME = "0"  # rules are not timed one by one


def check_junit(hosts: tuple[Checked, ...], *, strict: bool = False) -> str:
    """The document; with `strict`, advice fails too."""
    suites = Element("testsuites", name="hosttune check")
    for number, one in enumerate(hosts):
        suites.append(_make_suite(one, number, strict=strict))
    _count(suites)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _make_suite(one: Checked, number: int, *, strict: bool) -> Element:
    plan, host = one.plan, clean(one.page.host)
    suite = Element("testsuite", name=host, hostname=host, package="hosttune", id=str(number))
    suite.set("timestamp", plan.created_at[:19])
    properties = SubElement(suite, "properties")
    facts = {
        "version": plan.tool_version,
        "profile": one.profile,
        "digest": plan.digest,
        "machine": plan.machine,
    }
    facts |= {name: one.machine[name] for name in one.machine}
    for name, value in facts.items():
        SubElement(properties, "property", name=name, value=clean(value))
    for finding in sorted(plan.findings, key=lambda one: not is_fault(one)):  # the worst first
        suite.append(_make_case(finding, explain_finding(finding, one.page), strict=strict))
    if warnings := warning_texts(one):
        SubElement(suite, "system-out").text = "\n".join(warnings)
    _count(suite)
    return suite


def _make_case(finding: Finding, one: FindingText, *, strict: bool) -> Element:
    name = f"{one.rule} {one.subject}".strip()
    case = Element("testcase", name=name, classname=f"hosttune.{group_of(one.rule)}", time=_TIME)
    reason = one.reason or str(finding.verdict)
    text = "\n".join(_list_lines(one))
    if finding.hold.kind is HoldKind.WAIVED:
        SubElement(case, "skipped", message=one.why_not)
    elif finding.verdict is Verdict.NOT_APPLICABLE:
        SubElement(case, "skipped", message=reason)
    elif not counts_for_status(finding, strict=strict):
        if text:
            SubElement(case, "system-out").text = text
    # `error` is what a case is that could not be run; a fault stays a failure, whatever else is
    # unknown of it.
    elif finding.verdict is Verdict.UNKNOWN and not finding.is_fault:
        _add_outcome(case, "error", reason, text, "unknown")
    else:
        _add_outcome(case, "failure", reason, text, name_standing(finding))
    return case


def _add_outcome(case: Element, kind: str, message: str, text: str, type_: str) -> None:
    SubElement(case, kind, message=message, type=type_).text = text


def _list_lines(one: FindingText) -> list[str]:
    lines = [one.reason] if one.reason else []
    lines += one.evidence
    lines += [f"why not: {one.why_not}"] if one.why_not else []
    return [*lines, *([f"do: {step}" for step in one.steps])]


def _count(parent: Element) -> None:
    """The totals that the schema asks for, of all cases below."""
    parent.set("tests", str(sum(1 for _ in parent.iter("testcase"))))
    for attribute, kind in (("failures", "failure"), ("errors", "error")):
        parent.set(attribute, str(sum(1 for _ in parent.iter(kind))))
    if parent.tag == "testsuite":
        parent.set("skipped", str(sum(1 for _ in parent.iter("skipped"))))
    parent.set("time", _TIME)
