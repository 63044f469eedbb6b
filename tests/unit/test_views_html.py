"""HTML: self-contained, escaped, complete without JavaScript."""

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from hosttune.values import Finding, Risk, Verdict
from hosttune.views.checked import About, Checked
from hosttune.views.diff import diff_report
from hosttune.views.document import Medium
from hosttune.views.fleet.report import fleet_report
from hosttune.views.history import history_report
from hosttune.views.plan import plan_report, undo_report
from hosttune.views.receipt import receipt_report
from hosttune.views.report import check_report
from tests.golden import scenarios as made
from tests.golden.fleet import PLANS, fleet

ABOUT = {"memory-swappiness": About("keep <memory>", Risk.LOW, "a little & more")}
PAGE = replace(made.PAGE, medium=Medium.HTML)
ONE = Checked(made.PLAN, PAGE, profile="base", about=ABOUT)
EVIL = Finding(
    "storage-x\"'><script>alert(1)</script>",
    "</style><script>",
    Verdict.ADVICE,
    reason="<img src=x onerror=alert(1)>\x1b[2J\u202e",
    evidence=("</script><script>alert(2)</script>", "password=geheim"),
    todo="<a href='javascript:alert(3)'>",
)
VOID = {"meta", "input", "br", "img", "link"}


class Page(HTMLParser):
    """The elements of a page, and the faults of its nesting."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.faults, self.text = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


def documents():
    broken = replace(ONE, plan=replace(ONE.plan, interrupted=("run 1 was interrupted",)))
    return {
        "check": check_report((ONE,)),
        "hosts": check_report((ONE, replace(ONE, plan=made.CLEAN), broken)),
        "clean": check_report((replace(ONE, plan=made.CLEAN),)),
        "plan": plan_report(ONE),
        "plan-clean": plan_report(replace(ONE, plan=made.CLEAN)),
        "receipt": receipt_report(made.FAILED, PAGE),
        "undo": undo_report(made.BACK, PAGE, words="undo", ignore=("memory-swappiness",)),
        "history": history_report(made.JOURNAL, PAGE),
        "diff": diff_report(made.TWINS, PAGE),
        "fleet": fleet_report(fleet(), PLANS, PAGE, ABOUT),
        "evil": check_report(
            (replace(ONE, plan=replace(made.CLEAN, findings=(EVIL,)), profile="<b>"),)
        ),
    }


@pytest.mark.parametrize("name", documents())
def test_page_is_well_nested_and_loads_nothing(name):
    page = Page(documents()[name])
    assert (page.faults, page.open) == ([], [])
    assert [
        tag for tag, _ in page.elements if tag in {"link", "img", "iframe", "object", "base"}
    ] == []
    assert [tag for tag, _ in page.elements].count("script") == 1
    for _, attributes in page.elements:
        assert not [
            name
            for name in attributes
            if name.startswith("on") or name in {"src", "style", "srcset"}
        ]
        assert attributes.get("href", "#").startswith("#")


@pytest.mark.parametrize("name", documents())
def test_policy_of_the_page_allows_its_own_style_and_script_alone(name):
    text = documents()[name]
    policy = next(
        a["content"]
        for tag, a in Page(text).elements
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        body = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        digest = b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_every_text_from_the_host_is_escaped_and_masked():
    text = documents()["evil"]
    assert "<script>alert" not in text
    assert "onerror=alert(1)>" not in text
    assert "geheim" not in text
    shown = Page(text).text
    assert r"<img src=x onerror=alert(1)>\x1b[2J\u202e" in shown
    assert "</script><script>alert(2)</script>" in shown


@pytest.mark.parametrize("name", ["receipt", "undo", "history", "diff", "plan"])
def test_page_that_is_not_filtered_has_no_form(name):
    assert [tag for tag, _ in Page(documents()[name]).elements if tag in {"form", "input"}] == []


def test_findings_carry_outcome_and_group_for_the_filter():
    page = Page(documents()["check"])
    outcomes = {a["data-outcome"] for _, a in page.elements if "data-outcome" in a}
    offered = {a["value"] for tag, a in page.elements if tag == "input" and a["name"] == "outcome"}
    groups = {a["data-group"] for _, a in page.elements if "data-group" in a}
    assert outcomes <= offered
    assert groups == {
        a["value"] for tag, a in page.elements if tag == "input" and a["name"] == "group"
    }
    assert {"differs", "unknown", "waits", "left-alone", "ok", "not-applicable"} <= outcomes


def test_without_a_script_nothing_is_hidden_but_the_filter():
    page = Page(documents()["check"])
    assert [(tag, a["class"]) for tag, a in page.elements if "hidden" in a] == [
        ("details", "filter")
    ]
    for finding in made.FINDINGS:
        assert finding.rule in page.text


def test_what_a_rule_is_about_stands_with_its_findings():
    shown = Page(documents()["check"]).text
    assert "keep <memory>" in shown
    assert "a little & more" in shown


def test_profile_that_fits_better_is_proposed():
    assert (
        "The profile <k8s> fits."
        in Page(check_report((replace(ONE, proposal="The profile <k8s> fits."),))).text
    )


def test_several_hosts_have_an_overview_that_leads_to_them():
    page = Page(documents()["hosts"])
    targets = [
        a["href"] for tag, a in page.elements if tag == "a" and a["href"].startswith("#host-")
    ]
    assert targets[:3] == ["#host-0", "#host-1", "#host-2"]
    assert {a["id"] for _, a in page.elements if a.get("class") == "host"} == {
        t[1:] for t in targets[:3]
    }


def test_hosts_come_worst_first_and_a_table_has_what_each_rule_says_of_them():
    hosts = [
        replace(ONE, plan=plan, page=replace(PAGE, host=name))
        for name, plan in (("good", made.CLEAN), ("bad", made.PLAN))
    ]
    text = check_report(tuple(hosts))
    page = Page(text)
    assert (
        text.index('id="host-0"')
        < text.index('<h2 class="name">bad')
        < text.index('<h2 class="name">good')
    )
    (table,) = re.findall(r'<div class="matrix".*?</div>', text, re.DOTALL)
    assert re.findall(r'<th scope="row"><a href="#(.*?)">(.*?)</a>', table) == [
        ("host-0", "bad"),
        ("host-1", "good"),
    ]
    assert '<abbr title="memory-swappiness: to change">C</abbr>' in table
    assert [
        a for tag, a in page.elements if tag == "th" and a.get("scope") not in {"col", "row"}
    ] == []


@pytest.mark.parametrize("name", documents())
def test_headings_go_down_one_level_at_a_time_and_every_anchor_is_there_once(name):
    page = Page(documents()[name])
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {
        a["href"][1:] for tag, a in page.elements if tag == "a" and a["href"].startswith("#")
    } <= {*ids}


def test_each_finding_has_an_anchor_of_its_own():
    twins = tuple(
        replace(made.FINDINGS[0], subject=name, reason=f"{name} is lost")
        for name in ("gpu 0", "gpu 1")
    )
    page = Page(check_report((replace(ONE, plan=replace(made.PLAN, findings=twins)),)))
    rule = made.FINDINGS[0].rule
    assert [a["id"] for _, a in page.elements if a.get("class") == "finding"] == [rule, f"{rule}-2"]


def test_built_in_rule_leads_to_its_page(monkeypatch):
    monkeypatch.setenv("HOSTTUNE_DOCS_URL", "https://docs.example.org/hosttune/")
    builtin = {"memory-swappiness": replace(ABOUT["memory-swappiness"], is_builtin=True)}
    link = "https://docs.example.org/hosttune/reference/rules/memory-swappiness/"
    for about, links in ((builtin, [link]), (ABOUT, [])):
        page = Page(check_report((replace(ONE, about=about),)))
        assert [
            a["href"] for tag, a in page.elements if tag == "a" and a["href"].startswith("https:")
        ] == links


def test_command_of_a_step_can_be_copied_and_what_a_host_says_cannot():
    steps = (
        "drain it: sudo systemctl stop x\nsudo nvme list (all disks)\nif `that` helps, sudo reboot\n"
        "sudo umount '/mnt/a (b)'\nsudo umount '/mnt/it shows'\nsudo dmesg says why"
    )
    one = replace(EVIL, evidence=("see: sudo rm -r /",), reason="run: sudo evil", todo=steps)
    text = check_report((replace(ONE, plan=replace(made.CLEAN, findings=(one,))),))
    next_commands = re.findall(r'<code class="command">(hosttune [^<]*)</code>', text)
    commands = re.findall(r'<code class="command">(.*?)</code>', text)
    assert [one for one in commands if one not in next_commands] == [
        "sudo systemctl stop x",
        "sudo nvme list",
        "sudo reboot",
        "sudo umount &#39;/mnt/a (b)&#39;",
        "sudo umount &#39;/mnt/it shows&#39;",
        "sudo dmesg",
    ]
    assert "<code>that</code>" in text


def test_plan_shows_the_whole_diff_and_the_command_only_where_it_works():
    shown = Page(documents()["plan"]).text
    assert "+ vm.swappiness = 10" in shown
    assert '+   "log-opts": {"max-size": "100m"},' in shown
    assert f"--expect {made.DIGEST[:16]}" in shown


def test_page_says_first_what_machine_this_is_and_nothing_in_its_name_is_markup():
    one = replace(
        ONE,
        machine={
            "product": "<b>X1</b>\x1b[2J",
            "GPUs": "8 x H100",
            "driver": "none loaded",
            "kernel": "unknown",
        },
    )
    page = Page(check_report((one,)))
    told = "<b>X1</b>\\x1b[2J: 8 x H100, no driver loaded, kernel unknown"
    assert told in page.text
    assert page.text.index(told) < page.text.index("changes now")
    assert (
        Page(check_report((one, one))).text.count(told) == 4
    )  # in the overview, and in the section of each
