"""One document in every medium: nothing of it is lost, and what is to be copied stays whole."""

import html
import re
from dataclasses import fields

import pytest

from hosttune.views.document import (
    Block,
    CommandBlock,
    Diff,
    Document,
    Fold,
    Heading,
    Item,
    Items,
    Lines,
    Matrix,
    Medium,
    Panel,
    Say,
    Section,
    Steps,
    Table,
    Warnings,
    render_documents,
)
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.test_views_html import Page as Elements

COMMAND = (
    "sudo hosttune apply --yes --expect 5f0c6d1b7c1e4a2f --policy /srv/policies/of-the-cluster.yaml"
)
DIFF = Diff(
    "~",
    "file:/etc/x.conf",
    "",
    "",
    "in effect later",
    ("+ now = 1", "- now = 0"),
    reason="because of the disk",
)
BLOCKS = (
    Warnings(("Attention: a run was interrupted",)),
    Section(
        "Differs",
        (
            Items(
                (
                    Item(
                        "memory-x", "should be 1", (Item("do", "reboot", look="label"),), look="strong",
                        evidence=("now 0",), group="memory",
                    ),
                ),
                is_aligned=True,
            ),
        ),
        "yellow", "1", "differs",
    ),
    Heading("Stage 1", "now"),
    Panel("storage-x", (DIFF, Diff("+", "sysctl:vm.x", "", "10", "")), "risk low"),
    Section("Lost", (Items((Item("a.json", "is empty", look="code"), Item("kernel", items=(Item(text="mostly 6"),)))),), "red"),
    Matrix("Hosts", ("memory-x", "storage-y"), (("gpu-1", ("fault", "")), ("gpu-2", ("", "differs"))), "1 more."),
    Table(("run", "what"), (("1", "apply"), ("2", "undo"))),
    Lines("In all", (Say("2 changes."), Say("Digest", code="5f0c"))),
    CommandBlock("To make exactly these changes:", COMMAND),
    Steps("Next", ((COMMAND, "makes them"), ("", "reboot when it suits you"))),
)  # fmt: skip
DOCUMENT = Document(
    "gpu-1", "gpu-1", (Say("1 change now.", "decision", name="gpu-1"),), BLOCKS, "hosttune 1"
)


def shown(medium, width=80, blocks=BLOCKS):
    document = Document(DOCUMENT.name, DOCUMENT.title, DOCUMENT.head, blocks, DOCUMENT.made)
    text = render_documents(
        "hosttune check", [document], Page(screen=Screen(width), medium=medium), is_filtered=True
    )
    return text if medium is not Medium.HTML else html.unescape(Elements(text).text)


def said(value):
    """Every text in a block that people read."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from said(one)
    elif isinstance(value, Matrix):  # what is no page counts the cells
        yield from (value.title, value.note, *(name for name, _ in value.rows))
    elif isinstance(value, (Block, Item)):
        dressed = {"style", "key", "look", "joint", "group", "role", "language"}
        dressed |= {"title"} if isinstance(value, Lines) else set()  # a text leaves it out
        for field in fields(value):
            if field.name not in dressed:
                yield from said(getattr(value, field.name))


@pytest.mark.parametrize("medium", Medium)
def test_every_medium_says_all_that_the_document_says(medium):
    text = " ".join(re.sub(r"[\\*`|#>]", "", shown(medium)).split())
    for words in said(DOCUMENT.blocks):
        assert " ".join(re.sub(r"[\\*`|#>]", "", words).split()) in text, words


@pytest.mark.parametrize("medium", Medium)
def test_every_kind_of_block_is_shown_by_every_medium(medium):
    kinds = {type(block) for block in BLOCKS} | {Say, Items, Diff}
    assert kinds == set(Block.__subclasses__()) - {Fold}
    for block in BLOCKS:
        assert shown(medium, blocks=(block,)) != shown(medium, blocks=())


@pytest.mark.parametrize("medium", Medium)
@pytest.mark.parametrize("width", [40, 60, 120])
def test_commands_are_never_broken(medium, width):
    assert any(COMMAND in line for line in shown(medium, width).splitlines())


@pytest.mark.parametrize("medium", Medium)
def test_new_section_is_written_once(medium):
    new = Section(
        "Fans", (Items((Item("fan 3", "stands still", (Item("do", "clean it"),)),)),), "red", "1"
    )
    text = shown(medium, blocks=(*BLOCKS, new))
    assert (
        text.index("In all" if medium is not Medium.TEXT else "Digest")
        < text.index("Fans")
        < text.index("fan 3")
    )
    assert "stands still" in text
    assert "clean it" in text


def test_only_a_page_folds_away():
    fold = Fold("More", (Say("what a page hides"),))
    assert {
        medium for medium in Medium if "what a page hides" in shown(medium, blocks=(fold,))
    } == {Medium.HTML}


def test_point_of_which_nothing_is_said_is_named_all_the_same():
    for is_aligned in (True, False):
        blocks = (
            Section(
                "Unknown",
                (Items((Item("memory-x", look="strong"), Item("gpu-y", "b")), is_aligned),),
            ),
        )
        assert [medium for medium in Medium if "memory-x" not in shown(medium, blocks=blocks)] == []


def test_paragraph_cannot_begin_a_list_or_a_heading_in_markdown():
    texts = ("- a", "+ b", "# c", "1. d", "12) e", "===", "4 changes", "1.5 s", "-x")
    made = [shown(Medium.MARKDOWN, blocks=(Say(text),)).split("\n\n")[2] for text in texts]
    assert made == [
        "\\- a",
        "\\+ b",
        "\\# c",
        "1\\. d",
        "12\\) e",
        "\\===",
        "4 changes",
        "1.5 s",
        "-x",
    ]
