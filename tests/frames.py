"""The frames of a new fact and of a new kind of wish, with their tests: `./run facts new
DOMAIN/SUBJECT` and `./run rules kind DOMAIN/KIND`.

What they write works and passes its test; `FILL IN` stands where its author has the word, and
`./run test unit` fails while one is left.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hosttune.engine.rules.lint import PLACEHOLDER

ROOT = Path(__file__).resolve().parents[1]
FACT = '''\
"""{todo} what the subject is about, in a sentence.

Source: {todo} manual page or kernel document.
"""

from __future__ import annotations

from hosttune.facts.subject import Subject, number
from hosttune.frozen import frozen

PATH = "/proc/sys/{name}"  # {todo} the file


@frozen
class {cls}(Subject):
    """{todo} what all fields have in common, such as their unit."""

    value: int = number(PATH)  # {todo} what it means
'''
FACT_TEST = '''\
"""Facts about {todo} the subject."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.{domain}.{name} import PATH
from tests.unit.fake_reader import FakeReader


def {name}(files, **options):
    return Facts(FakeReader(files, **options)).{name}


def test_{name}_is_read():
    assert {name}({{PATH: "3\\n"}}).value == 3


@pytest.mark.parametrize("files", [{{}}, {{PATH: "three\\n"}}])
def test_{name}_that_is_not_there_or_no_number_is_unknown(files):
    with pytest.raises(UnknownFact, match=PATH):
        {name}(files).value  # noqa: B018


def test_{name}_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="not mounted"):
        {name}({{}}, unreadable={{"/proc": "not mounted"}}).value  # noqa: B018
'''
KIND = '''\
"""{todo} what is set, and where.

Source: {todo} manual page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.resources.base import Operator, WishKind, in_general
from hosttune.resources.comparison import InDropin, in_dropins
from hosttune.resources.file import Dropin, compare_dropin, dropin_path, dropin_text, lines_that_count
from hosttune.values import Activation, Address, FileValue, Finding, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Wish
    from hosttune.values import Change

_FOLDER = "/etc/{kind}.d"  # {todo} the folder


class {cls}Wish(WishKind):
    """`- {kind}: KEY` with exactly."""

    kind = "{kind}"
    operators = (Operator.EXACTLY,)
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002
        return (_place_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return in_dropins([_{cls}Comparison(wish, context) for wish in wishes], _compare_file)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return (in_general(wishes[0], _place_file(wishes[0]), _render_text(wishes)),)


def _place_file(wish: Wish) -> Address:
    return Address("file", dropin_path(_FOLDER, wish.rule))


def _format_line(wish: Wish) -> str:
    return f"{{wish.name}}={{wish.bounds[0].value}}"


def _render_text(wishes: Iterable[Wish]) -> bytes:
    kept = list(wishes)
    return dropin_text(kept[0].rule, map(_format_line, kept))


def _compare_file(looks: list[_{cls}Comparison]) -> Dropin:
    first = looks[0]
    text = _render_text(look.wish for look in looks)
    return compare_dropin(first.path, text, first.wish.rule, first.context, Activation.NOW, ())


@frozen
class _{cls}Comparison(InDropin):
    """One wish against the files."""

    wish: Wish
    context: Context

    @property
    def path(self) -> str:
        return _place_file(self.wish).name

    @property
    def is_kept(self) -> bool:
        present = self.context.state[_place_file(self.wish)]
        return isinstance(present, FileValue) and _format_line(self.wish) in lines_that_count(present.content)

    @property
    def _wants(self) -> str:
        return f"{{self.wish.name}} should be {{self.wish.bounds[0].value}}"

    def find_answer(self) -> Finding | None:
        """The answer, unless a drop-in is needed: {todo} what else sets it, and wins."""
        present = self.context.state[_place_file(self.wish)]
        if isinstance(present, Unreadable):
            return self._says(Verdict.UNKNOWN, present.reason)
        return self._says(Verdict.OK, evidence=(f"{{self.path}} sets it",)) if self.is_kept else None


WISH = {cls}Wish()
'''
KIND_TEST = '''\
"""{todo} what the kind sets."""

from hosttune.values import Verdict
from tests.unit.wish_host import RULE, One, host

OURS = f"/etc/{kind}.d/60-hosttune-{{RULE}}.conf"
WISH = "- {kind}: key\\n  exactly: 1"


def test_{name}_is_written_right_then_and_undone():
    one = One(host(), WISH)
    assert one.changes() == [f"file:{{OURS}} ABSENT -> key=1"]
    assert one.apply().failed == ()
    assert one.finding().verdict is Verdict.OK
    one.undo()
    assert one.kept() == {{}}


def test_{name}_of_two_wishes_is_one_file():
    one = One(host(), f"{{WISH}}\\n- {kind}: other\\n  exactly: 2")
    assert one.changes() == [f"file:{{OURS}} ABSENT -> key=1; other=2"]


def test_{name}_edited_by_hand_is_kept():
    one = One(host({{OURS: "key=3\\n"}}), WISH)
    assert one.changes() == []
    assert one.finding().verdict is Verdict.DIFFERS


def test_{name}_that_cannot_be_read_is_unknown():
    assert One(host(unreadable={{OURS: "no permission"}}), WISH).finding().verdict is Verdict.UNKNOWN
'''


def frame_fact(root: Path, domain: str, name: str) -> dict[str, str]:
    """Path -> text: the subject, its test, and the folder that registers it."""
    registry = f"hosttune/facts/{domain}/__init__.py"
    cls = name.title().replace("_", "")
    words = {"todo": PLACEHOLDER, "domain": domain, "name": name, "cls": cls}
    text = (root / registry).read_text(encoding="utf-8")
    imported = f"    from hosttune.facts.{domain}.{name} import {cls}"
    text = _insert(text, rf"    from hosttune\.facts\.{domain}\.", imported)
    return {
        f"hosttune/facts/{domain}/{name}.py": FACT.format(**words),
        f"tests/unit/test_facts_{name}.py": FACT_TEST.format(**words),
        registry: _insert(text, r"    \w+: [A-Z]\w+$", f"    {name}: {cls}"),
    }


def frame_kind(_root: Path, domain: str, name: str) -> dict[str, str]:
    """Path -> text: the kind and its test; the folder is the registry."""
    words = {
        "todo": PLACEHOLDER,
        "name": name,
        "kind": name.replace("_", "-"),
        "cls": name.title().replace("_", ""),
    }
    return {
        f"hosttune/resources/{domain}/{name}.py": KIND.format(**words),
        f"tests/unit/test_{name}_resource.py": KIND_TEST.format(**words),
    }


def _insert(text: str, like: str, line: str) -> str:
    """With a line among those that look like it, in their order."""
    rows = text.splitlines()
    among = [number for number, row in enumerate(rows) if re.match(like, row)]
    at = next((number for number in among if rows[number] > line), among[-1] + 1)
    return "".join(f"{row}\n" for row in [*rows[:at], line, *rows[at:]])


FRAMES = {"fact": (frame_fact, "hosttune/facts"), "kind": (frame_kind, "hosttune/resources")}


def main(what: str, words: list[str], root: Path = ROOT) -> str:
    """Write a frame, and what to do next; raises SystemExit for a name that cannot be one, or is
    taken.
    """
    frame, folder = FRAMES[what]
    domains = sorted(path.parent.name for path in (root / folder).glob("*/__init__.py"))
    domain, _, name = (words[0] if len(words) == 1 else "").replace("-", "_").partition("/")
    if domain not in domains or not re.fullmatch(r"[a-z][a-z0-9_]{1,40}", name):
        sys.exit(f"name it DOMAIN/NAME, in small letters; domains: {', '.join(domains)}")
    files = frame(root, domain, name)
    if taken := [
        path for path in files if (root / path).exists() and not path.endswith("__init__.py")
    ]:
        sys.exit(f"{taken[0]} is there already")
    for path, text in files.items():
        (root / path).write_text(text, encoding="utf-8")
    # A name can make a line too long, or change the order of imports.
    made = [str(root / path) for path in files if path.endswith(".py")]
    settings = ("--config", str(ROOT / "pyproject.toml"))
    for command in (("check", "--quiet", "--fix", "--select", "I"), ("format", "--quiet")):
        subprocess.run([sys.executable, "-m", "ruff", *command, *settings, *made], check=True)
    test = next(path for path in files if path.startswith("tests/"))
    return f"written: {', '.join(files)}\nfill in what says {PLACEHOLDER}, then: ./run test {test}; ./run generate; ./run test touched"


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2:]))
