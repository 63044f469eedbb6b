"""Inputs that the fuzzer (tests/benchmarks/fuzz.py) found, each with what a reader made of it before."""

from __future__ import annotations

import time

import pytest

from hosttune.facts.shell_words import shell_words
from hosttune.facts.slurm_conf import slurm_rows
from hosttune.facts.storage.fstab_readers import split_options


def best_of(call, times=3):
    spent = []
    for _ in range(times):
        started = time.process_time()
        call()
        spent.append(time.process_time() - started)
    return min(spent)


# (reader, a piece of input, how often it is repeated). Eight times the input took 64 times as long.
GROWING = {
    "mount options with a quote": (lambda text: split_options(text.encode()), '"kK', 20_000),
    "a line of one word, as a shell reads it": (shell_words, "ExecStart=", 8_000),
    "a line of slurm.conf without a key": (lambda text: list(slurm_rows("/a", lambda _: text)), "aaaaaaaa", 500),
}


@pytest.mark.parametrize("name", GROWING)
def test_time_of_a_reader_grows_as_its_input(name):
    read, piece, times = GROWING[name]
    small = best_of(lambda: read(piece * times))
    large = best_of(lambda: read(piece * times * 8))
    assert large < 24 * small + 0.05


def test_words_of_a_line_that_is_too_long_for_quotes_are_those_between_blanks():
    line = "--label 'a b' " * 2_000
    assert shell_words("--label 'a b' # c") == ["--label", "a b"]
    assert shell_words("--label 'a b") == ["--label", "'a", "b"]
    assert shell_words(line)[:3] == ["--label", "'a", "b'"]
