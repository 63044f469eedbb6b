"""What machine a report is of stands first; its numbers are those of its headings."""

from __future__ import annotations

import re

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.writers import name_writers
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.inventory import describe_machine
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import Disturbs, FileValue, Risk
from hosttune.views.checked import Checked
from hosttune.views.document import Medium
from hosttune.views.findings import ALL
from hosttune.views.page import Page
from hosttune.views.report import check_report, decision_text, quiet_text
from hosttune.views.summary import summarize
from tests.hosts.built import BUILT
from tests.unit.fake_reader import FakeReader

CATALOG = builtin_catalog()
POLICY = Policy(
    select=tuple(CATALOG.rules), max_risk=Risk.LOW, disturb=Disturbs.NOTHING, today="2026-01-01"
)


def record(name):
    return read_record(str(next(path for path in BUILT if path.stem == name)))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("h100-8x-2socket", "DGXH100: 8 x NVIDIA H100 80GB HBM3, driver 580.126.20, kernel 6.8.0-60-generic, Ubuntu 24.04"),
        ("no-gpu-debian12", "SYS-420GP: no NVIDIA GPU, kernel 6.1.0-35-amd64, Debian GNU/Linux 12"),
        ("container-docker", "docker container, whose host was not looked at (SYS-420GP): 1 x NVIDIA H100 80GB HBM3, driver in a version that is not known, kernel 6.8.0-60-generic, Ubuntu 22.04"),
        ("microvm-debian12", "virtual machine: no NVIDIA GPU, kernel 6.18.44, Debian GNU/Linux 12"),
        ("a100-cloud-vm", "Virtual Machine (microsoft): 1 x "),
    ],
)  # fmt: skip
def test_machine_in_a_line(name, told):
    words = describe_machine(Facts(record(name)))
    text = Checked(None, Page(), machine=words).machine_text
    assert text.startswith(told)


@pytest.mark.parametrize(
    ("limit", "told"),
    [("8589934592", "8 of 256 GiB of memory, "), ("549755813888", ""), ("max", "")],
)
def test_memory_of_a_container_stands_against_what_its_programs_count(limit, told):
    """The imp pull request 2070: inside of `docker run --memory=8g` MemAvailable is the host's."""
    reader = Overlay(record("container-docker"))
    reader.files["/sys/fs/cgroup/memory.max"] = FileValue(f"{limit}\n".encode())
    words = describe_machine(Facts(reader))
    assert (
        f"may use 16 of 16 CPUs, {told}1048576 open files"
        in Checked(None, Page(), machine=words).machine_text
    )


def test_what_cannot_be_read_of_the_machine_is_unknown():
    words = describe_machine(
        Facts(FakeReader({"/etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n"}))
    )
    assert words["kernel"] == words["GPUs"] == "unknown"
    assert "GPUs unknown" in Checked(None, Page(), machine=words).machine_text


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_numbers_of_a_report_are_those_of_its_headings(path):
    plan = examine(read_record(str(path)), CATALOG, POLICY).plan(prove=False)
    text = check_report((Checked(plan, Page(is_verbose=True, medium=Medium.MARKDOWN)),))
    headings = {section.title: 0 for section in ALL}
    headings |= {
        title: int(number)
        for title, number in re.findall(r"^### (\S.*) \((\d+)\)$", text, re.MULTILINE)
    }
    quiet = quiet_text(summarize(plan))
    assert f"{headings['Ok']} ok" in quiet
    assert f"{headings['Not applicable']} not applicable" in quiet
    unknown = re.search(r"(\d+) could not be checked", decision_text(plan))
    assert int(unknown[1] if unknown else 0) == headings["Could not check"]


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_writer_of_a_file_is_named_once(path):
    session = examine(Overlay(read_record(str(path))), CATALOG, POLICY)
    findings = name_writers(session.plan(prove=False).findings, session.reader)
    said = [
        line
        for finding in findings
        for line in (*finding.evidence, finding.reason, str(finding.hold))
    ]
    assert [line for line in said if re.search(r"( of (?:the )?\w+)\1", line)] == []
