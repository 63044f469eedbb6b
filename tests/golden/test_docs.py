"""The documents in docs/ say what is so: the one that is written from the rules is fresh, the
examples run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hosttune.cli import app
from hosttune.engine.expressions.helpers import HELPERS
from hosttune.engine.policy.file import build_policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.lint import checked_rule
from hosttune.engine.rules.shapes import rule_shape
from hosttune.engine.rules.yamlio import load_document
from hosttune.resources import wish_kinds
from hosttune.verdict_words import FITNESS, STATES
from hosttune.views.custom_doc import BEGIN, END, custom_rules_reference
from hosttune.views.rules_doc import PAGES, rule_document, rules_index
from tests.generated import hold, is_writing
from tests.hosts.built import HOSTS
from tests.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CUSTOM = (DOCS / "reference" / "custom-rules.md").read_text(encoding="utf-8")
EXAMPLES = dict(
    re.findall(r"`rules\.d/([a-z-]+)\.yaml`:\n\n```yaml\n(.*?)```\n", CUSTOM, re.DOTALL)
)
CONSOLES = re.findall(r"```console\n\$ hosttune (.*?)\n(.*?)```\n", CUSTOM, re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")


def test_document_of_the_rules_is_fresh():
    hold(DOCS / "reference" / "rules.md", rules_index(builtin_catalog()))


def test_page_of_each_rule_is_fresh_and_there_is_no_other():
    catalog = builtin_catalog()
    (DOCS / PAGES).mkdir(exist_ok=True)
    if is_writing():
        for path in (DOCS / PAGES).glob("*.md"):
            path.unlink()
    for rule in catalog.rules.values():
        hold(DOCS / PAGES / f"{rule.id}.md", rule_document(rule, catalog))
    assert {path.stem for path in (DOCS / PAGES).iterdir()} == catalog.rules.keys()


def test_reference_of_custom_rules_is_fresh():
    """Functions, kinds of wishes, their keys, facts by name: as the lint knows them."""
    hold(DOCS / "reference" / "custom-rules.md", custom_rules_reference(), between=(BEGIN, END))


def test_reference_names_every_function_kind_and_key(capsys):
    assert app.run(["rules", "doc", "--reference"]) == 0
    text = capsys.readouterr().out
    for kind in wish_kinds().values():
        assert f"| `{kind.kind}`: " in text
        assert [key for key in kind.fields if f"`{key}`" not in text] == []
    assert [one.usage for one in HELPERS.values() if one.usage.split(" or ")[0] not in text] == []
    assert [key for key in rule_shape().fields if f"| `{key}`" not in text] == []


def test_index_leads_to_each_rule_and_keeps_its_anchor():
    text = rules_index(builtin_catalog())
    found = re.findall(r'<a id="([a-z0-9-]+)"></a>\[([a-z0-9-]+)\]\(rules/([a-z0-9-]+)\.md\)', text)
    assert found == [(name,) * 3 for name in sorted(builtin_catalog().rules)]


def test_command_writes_the_index_and_the_page_of_a_rule(capsys):
    assert app.run(["rules", "doc"]) == 0
    assert capsys.readouterr().out == rules_index(builtin_catalog())
    assert app.run(["rules", "doc", "storage-noatime"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# storage-noatime\n\nnoatime on local data file systems\n")
    assert {"## Why", "## Wants", "## Parameters", "## By hand, as root", "## Sources"} <= set(
        text.splitlines()
    )
    assert app.run(["rules", "doc", "no-such"]) == 2


def test_there_are_five_worked_examples():
    assert (len(EXAMPLES), len(CONSOLES)) == (5, 5)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_passes_the_lint(name):
    assert checked_rule(EXAMPLES[name], f"{name}.yaml").id == name


@pytest.mark.parametrize(
    ("command", "expected"), CONSOLES, ids=[command for command, _ in CONSOLES]
)
def test_example_prints_what_the_document_shows(command, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    for name, text in EXAMPLES.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    words = [str(tmp_path) if word == "rules.d" else word for word in shlex.split(command)]
    words = [str(HOSTS / word) if word.endswith(".json") else word for word in words]
    assert app.run(words) == 1
    printed = capsys.readouterr().out.splitlines()
    for line in expected.splitlines():
        if line != "...":
            assert line in printed, "\n".join(printed)
            printed = printed[printed.index(line) + 1 :]


POLICIES = re.findall(
    r"```yaml\n(.*?)```\n",
    (DOCS / "reference" / "policy.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


@pytest.mark.parametrize("text", POLICIES, ids=["keys", "fleet", "edition 2026.1"])
def test_policies_of_the_document_are_right(text):
    policy = build_policy(
        load_document(text, "policy.yaml"), builtin_catalog(), "2026-01-01", "gpu-017.example.org"
    )
    assert policy.profile in {"train-single", "train-multinode"}
    assert [note for note in policy.notes if "is deprecated" not in note] == []


PAGES_OF_ALL = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted(ROOT.glob("playbooks/**/*.md")),
]
# Names of documents in texts of the program: `docs/how-to/health.md`.
OF_OTHERS = {"docs/CONFIG.md", "docs/ENVIRONMENT.md"}  # of LACT, of systemd
NAMED = re.compile(r"(?<![\w./-])docs/[A-Za-z/-]+\.md")


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a document, as GitHub makes them, and those that it sets
    itself.
    """
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return set(re.findall(r'<a id="([^"]+)">', text)) | {
        re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("path", PAGES_OF_ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    for name, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        target = path.parent / name if name else path
        assert target.is_file(), f"{path.name}: {name}"
        assert not anchor or anchor in anchors(target), f"{path.name}: {name}#{anchor}"


def test_links_of_the_site_stay_in_it():
    """The site and the Debian package have docs/ and nothing beside it."""
    links = [
        (path, name)
        for path in DOCS.rglob("*.md")
        for name, _ in LINK.findall(path.read_text(encoding="utf-8"))
    ]
    assert [
        (path.name, name)
        for path, name in links
        if DOCS not in (path.parent / name).resolve().parents
    ] == []


def test_site_leads_to_every_page():
    """The index of the rules leads to their pages, and mkdocs.yml to all others."""

    def pages(nav):
        return [
            page
            for one in nav
            for entry in one.values()
            for page in ([entry] if isinstance(entry, str) else pages(entry))
        ]

    nav = pages(read_yaml(ROOT / "mkdocs.yml")["nav"])
    assert len(nav) == len(set(nav))
    others = {
        str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent != DOCS / PAGES
    }
    assert set(nav) == others


def test_documents_that_texts_name_are_there():
    sources = [
        path
        for kind in ("py", "yaml", "j2")
        for top in ("hosttune", "templates")
        for path in (ROOT / top).rglob(f"*.{kind}")
    ]
    named = {name for path in sources for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    assert "docs/how-to/health.md" in named
    assert [name for name in named if not (ROOT / name).is_file() and name not in OF_OTHERS] == []


def test_every_word_of_a_verdict_has_its_meaning():
    text = (DOCS / "reference" / "words.md").read_text(encoding="utf-8")
    assert [
        word for word in STATES.values() if f"| {word.label}, {word.heading} |" not in text
    ] == []
    assert [
        one
        for key, one in FITNESS.items()
        if f"| {one.verdict}" not in text or f"| `{key}` |" not in text
    ] == []


def test_rules_that_documents_name_are_there():
    rules = builtin_catalog().rules
    domains = "|".join({rule.domain for rule in rules.values()})
    for path in (
        DOCS / "explanation" / "folklore.md",
        DOCS / "reference" / "policy.md",
        DOCS / "reference" / "custom-rules.md",
    ):
        for name in re.findall(rf"`((?:{domains})-[a-z0-9-]+)`", path.read_text(encoding="utf-8")):
            assert name in {*rules, *wish_kinds()}, f"{path.name}: {name}"
