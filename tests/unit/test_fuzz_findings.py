"""Inputs that the fuzzer (tests/benchmarks/fuzz.py) found, each with what a reader made of it
before.
"""

from __future__ import annotations

import time

import pytest

from hosttune.actions.journal.journal import boot_id
from hosttune.actions.journal.lines import parse_run
from hosttune.errors import BadInput
from hosttune.facts.gpu.gpu_boards import board_of
from hosttune.facts.kernel.module_options import parse_kernel_number
from hosttune.facts.shell_words import shell_words
from hosttune.facts.slurm_conf import slurm_rows
from hosttune.facts.storage.ageing_text import keep_age_lines
from hosttune.facts.storage.fstab_readers import split_options
from hosttune.facts.storage.raid import _MAPPED
from hosttune.host.record.record import RecordReader
from hosttune.measure.watch import parse
from hosttune.resources.base import Wish
from hosttune.resources.dropin import WISH
from tests.hosts.built import HOSTS, reader
from tests.unit.fake_reader import FakeReader


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
    "a crontab that removes by access time": (
        lambda text: keep_age_lines(text, "crontab"),
        "* * * * * find /t -atime +1 -delete\n",
        200,
    ),
    "a unit with environment files": (
        lambda text: keep_age_lines(f"[Service]\n{text}", "unit"),
        "EnvironmentFile=/a\n",
        1_000,
    ),
    "a line of slurm.conf without a key": (
        lambda text: list(slurm_rows("/a", lambda _: text)),
        "aaaaaaaa",
        500,
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_time_of_a_reader_grows_as_its_input(name):
    read, piece, times = GROWING[name]
    small = best_of(lambda: read(piece * times))
    large = best_of(lambda: read(piece * times * 8))
    assert large < 24 * small + 0.05


def test_name_of_a_mapped_device_with_many_hyphens_is_read_at_once():
    assert _MAPPED.fullmatch("vg0-" + "-" * 4_000) is None
    assert _MAPPED.fullmatch("vg--a-lv--b").groups() == ("vg--a", "lv--b")
    assert _MAPPED.fullmatch("vg---lv").groups() == ("vg--", "lv")


def test_number_of_more_digits_than_a_kernel_has_is_none():
    assert parse_kernel_number("9" * 5_000) is None
    assert parse_kernel_number("-18446744073709551615") == -18446744073709551615
    assert parse.run_delay(b"1 " + b"9" * 5_000) is None
    assert parse.pressure_totals(b"some total=" + b"9" * 5_000) == (None, None)
    assert parse.host_times(b"cpu" + b"9" * 5_000 + b" 1 2 3 4 5 6 7\n", frozenset({0})) is None


def test_boot_id_that_is_no_text_is_an_id_like_any_other():
    assert boot_id(FakeReader({"/proc/sys/kernel/random/boot_id": b"\xb1a\n"})) == "\ufffda"


def test_journal_with_a_number_that_is_none_is_damaged():
    assert "line 1" in parse_run(b'{"seq": 1e400, "phase": "intent"}\n', "/x/run.jsonl").unread


def test_record_with_a_list_for_the_type_of_a_file_is_told():
    data = dict(reader(HOSTS / "h100-8x-2socket.json").data)
    data["stats"] = {"/etc": [[], *[1] * 9]}
    with pytest.raises(BadInput, match=r"stats\./etc: must be \[type"):
        RecordReader(data, "r.json")


def test_words_of_a_line_that_is_too_long_for_quotes_are_those_between_blanks():
    line = "--label 'a b' " * 2_000
    assert shell_words("--label 'a b' # c") == ["--label", "a b"]
    assert shell_words("--label 'a b") == ["--label", "'a", "b"]
    assert shell_words(line)[:3] == ["--label", "'a", "b'"]


def test_subsystem_of_a_board_that_is_no_number_is_not_known():
    assert board_of("0x2236", "10de:xyz") == board_of("0x2236", "")


def test_variables_of_a_drop_in_do_not_stand_for_the_rule():
    """`vars: {rule: x}` in a rule of a site."""
    fields = {"template": "nfs-read-ahead.conf.j2", "vars": {"rule": "x", "kib": 1}}
    (change,) = WISH.writes((Wish("dropin", "/etc/x.conf", "site-own", fields=fields),))
    assert b"site-own" in change.after.content
