"""What is generated is compared by the tests, and written by them under `./run generate` alone."""

import re

import pytest

from tests import generated
from tests.generated import FILES, ROOT, TESTS, WRITES, contents, hold, told


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    monkeypatch.delenv(WRITES, raising=False)
    return tmp_path


def test_file_that_is_not_what_is_made_fails_with_the_command(root):
    (root / "a.txt").write_text("old\n")
    with pytest.raises(AssertionError, match=r"a\.txt is not what is made now: \./run generate"):
        hold(root / "a.txt", "new\n")
    assert (root / "a.txt").read_text() == "old\n"
    hold(root / "a.txt", "old\n")


def test_file_that_is_missing_fails(root):
    with pytest.raises(AssertionError, match="generate"):
        hold(root / "none.txt", "new\n")


def test_part_between_marks_is_written_and_nothing_else(root, monkeypatch):
    marks = ("<begin>\n", "<end>\n")
    (root / "a.md").write_text("head\n<begin>\nold\n<end>\ntail\n")
    with pytest.raises(AssertionError):
        hold(root / "a.md", "new\n", between=marks)
    monkeypatch.setenv(WRITES, "1")
    hold(root / "a.md", "new\n", between=marks)
    assert (root / "a.md").read_text() == "head\n<begin>\nnew\n<end>\ntail\n"
    monkeypatch.delenv(WRITES)
    hold(root / "a.md", "new\n", between=marks)


def test_what_changed_is_told_file_by_file():
    lines = told({"a": "1\n2\n", "b": "x\n", "d": "s\n"}, {"a": "1\n3\n", "c": "y\n", "d": "s\n"})
    assert [line for line in lines if line and not line.startswith("  ")] == [
        "a: changed",
        "b: gone",
        "c: new",
    ]
    assert [line.strip() for line in lines if line.startswith("  ") and "@@" not in line] == [
        "-2",
        "+3",
        "-x",
        "+y",
    ]
    assert told({"a": "1\n"}, {"a": "1\n"}) == []
    (last,) = told({"a": ""}, {"a": "\n".join(map(str, range(30)))})[-1:]
    assert last == "  and 19 lines more: git diff a"


def test_every_test_that_holds_a_file_is_run_and_its_file_is_looked_at():
    """`./run generate` runs whatever calls `hold`, and sees every file that it can write."""
    calling = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^    hold\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    } - {"tests/unit/test_generated.py"}
    assert [name for name in calling if not name.startswith(TESTS)] == []
    assert all(list(ROOT.glob(pattern)) for pattern in FILES)
    assert {
        "README.md",
        "docs/reference/rules.md",
        "docs/reference/rules/gpu-driver.md",
        "tests/golden/check.md",
        "hosttune/schemas/rule.json",
    } <= set(contents())
