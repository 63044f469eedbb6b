"""Text that leaves hosttune is cleaned once, where it is made, and only the cleaner makes it."""

from __future__ import annotations

import pytest

from hosttune.host.masking.cleaned import Cleaned, clean

HOSTILE = "\x1b]0;P\x07\x1b[8mHID\r\n\u202e\u200b\x9b2J\udc9b password=hunter2"


def test_nothing_is_left_that_steers_a_terminal_and_no_secret():
    text = clean(HOSTILE)
    assert text == r"\x1b]0;P\x07\x1b[8mHID\r\n\u202e\u200b\x9b2J\x9b password=(masked)"
    assert text.isprintable()
    assert isinstance(text, Cleaned)


@pytest.mark.parametrize("char", ["\u3164", "\ufe0f", "\u034f", "\uffa0", "\u115f", "\u2800", "\U000e0100"])
def test_what_no_font_shows_is_an_escape(char):
    assert char not in clean(f"ro{char}ot")


def test_cleaning_twice_is_cleaning_once():
    text = clean(HOSTILE)
    assert clean(text) is text
    assert clean(f"{text}") == text  # a sentence around it is a plain string again
    assert type(f"{text}") is str


@pytest.mark.parametrize("seal", [None, object(), "x"])
def test_only_the_cleaner_makes_it(seal):
    with pytest.raises(TypeError):
        Cleaned(HOSTILE, seal)
    with pytest.raises(TypeError):
        Cleaned(HOSTILE)
