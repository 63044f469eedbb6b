"""Markdown: text from outside stays text."""

from dataclasses import replace

import pytest

from hosttune.values import Finding, Verdict
from hosttune.views.checked import Checked
from hosttune.views.document import Diff, Medium
from hosttune.views.markdown import _render_diff, escape_text, fence_lines, quote_code
from hosttune.views.plan import plan_report
from hosttune.views.report import check_report
from tests.golden import scenarios as made

PAGE = replace(made.PAGE, medium=Medium.MARKDOWN)
ONE = Checked(made.PLAN, PAGE, profile="base")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vm.max_map_count should be 1", "vm.max_map_count should be 1"),
        ("*bold* `code` [x](http://y) <b>", r"\*bold\* `code` \[x\](http://y) \<b\>"),
        ("_so_ a|b ~c~ \\d", r"\_so\_ a\|b \~c\~ \\d"),
        ("a ` b *c*", r"a \` b \*c\*"),
        ("`a` @b `<c>", r"`a` `@b` \`\<c\>"),
        ("AT&amp;T & co", r"AT\&amp;T & co"),
        ("ask @root about #12", "ask `@root` about `#12`"),
        ("user@host a#b /x/@y", "user@host a#b /x/@y"),
    ],
)
def test_plain_text_means_itself(text, expected):
    assert escape_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a", "`a`"), ("a`b", "``a`b``"), ("`a``", "``` `a`` ```")]
)
def test_code_holds_backticks(text, expected):
    assert quote_code(text) == expected


def test_fence_is_longer_than_any_in_it():
    assert fence_lines(["```", "x"], "diff") == ["````diff", "```", "x", "````"]


def test_text_from_the_host_opens_nothing():
    evil = Finding(
        "storage-x", "/a\n# b", Verdict.ADVICE, reason="<script>\x1b[2J ```", todo="@all [x](y)"
    )
    text = check_report((replace(ONE, plan=replace(made.CLEAN, findings=(evil,))),))
    assert r"\<script\>\\x1b\[2J \`\`\`" in text
    assert "/a\\\\n# b" in text
    assert r"do: `@all` \[x\](y)" in text


def test_profile_that_fits_better_is_proposed():
    assert "The profile k8s\\_ fits." in check_report(
        (replace(ONE, proposal="The profile k8s_ fits."),)
    )


def test_several_hosts_have_a_section_each():
    text = check_report((ONE, replace(ONE, page=replace(PAGE, host="gpu-018"))))
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## gpu-017",
        "## gpu-018",
    ]


def test_plan_of_a_record_has_the_command_for_that_host():
    assert "apply --yes" in plan_report(ONE)
    page = replace(
        PAGE,
        can_apply=False,
        options=" --host r.json --policy p",
        there=" --policy p",
        program="/x/run",
    )
    text = plan_report(Checked(made.PLAN, page))
    assert (
        f"on that host:\n\n```sh\nsudo hosttune apply --yes --expect {made.PLAN.digest[:16]} --policy p\n"
        in text
    )
    assert "r.json" not in text.partition("on that host")[2]


def test_password_in_a_diff_is_masked():
    change = replace(made.NOATIME[1], details=("-//nas/x /x cifs password=geheim 0 0",))
    plan = replace(made.SMALL, stages=(replace(made.SMALL.stages[0], changes=(change,)),))
    assert "geheim" not in plan_report(Checked(plan, PAGE))


def test_unit_in_the_note_of_a_change_opens_nothing():
    diff = Diff("~", "x", "1", "2", "in effect after a restart of [a](http://b)")
    assert _render_diff(diff) == [r"- `~ x  1 -> 2` (in effect after a restart of \[a\](http://b))"]
