"""Patterns of modules: none is compiled by an import, and each can be."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.regex import _Late, regex

ROOT = Path(__file__).resolve().parents[2]
APART = {
    "__main__",
    "hosttune.__main__",
    "hosttune.host.overlay.rehearsal_child",
    "hosttune.measure.bench.read_program",
}
MODULES = sorted(
    {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in ROOT.glob("hosttune/**/*.py")
    }
    - APART
)
COUNT = """
import importlib, re, sys
made = []
own = re.compile
re.compile = lambda text, flags=0: made.append((sys._getframe(1).f_globals["__name__"], text)) or own(text, flags)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*[one for one in made if one[0].startswith("hosttune")], sep="\\n")
"""


def test_import_compiles_no_pattern():
    words = [sys.executable, "-c", COUNT, *MODULES]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=ROOT, check=True)
    assert done.stdout.split() == []


def late(value):
    if isinstance(value, _Late):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from late(one)
    elif isinstance(value, dict):
        yield from late(tuple(value.values()))


@pytest.mark.parametrize("name", MODULES)
def test_pattern_of_a_module_can_be_compiled(name):
    for one in late(vars(importlib.import_module(name))):
        assert one.pattern == re.compile(*one._asked).pattern


def test_pattern_is_as_one_of_re():
    word = regex(r"(\w)(?P<rest>\w*)", re.IGNORECASE)
    assert word.fullmatch("Abc")["rest"] == "bc"
    assert word.sub("-", "ab cd") == "- -"
    assert (word.groups, word.flags & re.IGNORECASE) == (2, re.IGNORECASE)
    assert regex(rb"a+").findall(b"aab") == [b"aa"]
    with pytest.raises(AttributeError):
        word.no_such()
    with pytest.raises(re.error):
        regex("(").search("")
