"""Text that leaves hosttune is cleaned once, where it is made, and only the cleaner makes it."""

from __future__ import annotations

import time

import pytest

from hosttune.host.masking.cleaned import Cleaned, clean
from hosttune.quoting import quote

HOSTILE = "\x1b]0;P\x07\x1b[8mHID\r\n\u202e\u200b\x9b2J\udc9b password=hunter2"


def test_nothing_is_left_that_steers_a_terminal_and_no_secret():
    text = clean(HOSTILE)
    assert text == r"\x1b]0;P\x07\x1b[8mHID\r\n\u202e\u200b\x9b2J\x9b password=(masked)"
    assert text.isprintable()
    assert isinstance(text, Cleaned)


@pytest.mark.parametrize(
    "char", ["\u3164", "\ufe0f", "\u034f", "\uffa0", "\u115f", "\u2800", "\U000e0100"]
)
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


SECRET = "S3cr3tvalue99"


@pytest.mark.parametrize(
    "name",
    [
        f'pass=;"{SECRET}', f'pass=",{SECRET}', f"pass={{ {SECRET}", f"pass='a,{SECRET}", f"token=',{SECRET}", f"--token {SECRET}'",
        f"a pass=='{SECRET}", f"'token=\"({SECRET}", f"token=;{SECRET}'$(reboot)",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "sentence",
    ["cannot read {raw}: type sudo rm {quoted}", "{quoted} is {raw}", "sudo rm {quoted} && mv {quoted} x: {raw}", "{raw} {quoted} {raw}"],
)  # fmt: skip
def test_name_with_a_secret_is_masked_in_quotes_and_as_it_is(sentence, name):
    assert SECRET not in clean(name)
    text = clean(sentence.format(raw=name, quoted=quote(name)))
    assert SECRET not in text
    assert text.startswith(sentence[: sentence.index("{")])
    assert clean(sentence.format(raw="a b", quoted="'a b'")) == sentence.format(
        raw="a b", quoted="'a b'"
    )


def test_names_in_quotes_are_looked_for_in_a_bounded_time():
    started = time.process_time()
    clean(" '" * 100_000 + " 'token=a" * 5_000)
    assert time.process_time() - started < 5


def test_mark_of_a_key_hides_no_sentence():
    mark = "-----BEGIN RSA PRIVATE KEY-----"
    text = f"the control group /user.slice/user-1001.slice/{mark} has 3 GPUs: ask uid 1001 to end '/user.slice/{mark}'"
    assert clean(text) == text
    for key in (
        f"{mark} MIIEowIBAAKCAQEA7x {SECRET}",
        f"{mark}\\nMIIEowIBAAKCAQEA7x\\n{SECRET}",
        f"{mark}\nab\n{SECRET}",
    ):
        assert SECRET not in clean(f"cannot read {key}")
