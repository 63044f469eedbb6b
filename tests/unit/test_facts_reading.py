"""What facts read with: small files and programs."""

import pytest

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import ask, hint
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader


def test_hint_is_empty_where_nothing_can_be_read():
    reader = FakeReader({"/a": b" x\xff\n", "/b": Unreadable("needs root")})
    assert [hint(reader, path) for path in ("/a", "/b", "/c")] == [" x\ufffd\n", "", ""]


def test_program_that_did_not_end_or_is_not_installed_is_unknown():
    reader = FakeReader(
        queries={("a", "-v"): "1\n", ("b",): Unreadable("b did not end within 10 s")}
    )
    assert ask(reader, ("a", "-v")).text == "1\n"
    with pytest.raises(UnknownFact, match="b did not end within 10 s"):
        ask(reader, ("b",))
    with pytest.raises(UnknownFact, match="c is not installed"):
        ask(reader, ("c",))
