"""What `hosttune facts SUBJECT` says of each field."""

from __future__ import annotations

from importlib import import_module

import pytest

from hosttune.facts import CLASSES, MODULES
from hosttune.facts.gpu.gsp_firmware import GspFailure
from hosttune.facts.storage.pools import Pool
from hosttune.views.fact_words import field_words, read_meanings


@pytest.mark.parametrize("subject", MODULES)
def test_each_field_has_a_meaning(subject):
    kind = getattr(import_module(MODULES[subject]), CLASSES[subject].rpartition(".")[2])
    words = field_words(subject, kind)
    assert words
    assert [name for name, (_, meaning) in words.items() if not meaning] == []


def test_comment_of_a_type_on_several_lines_is_read():
    assert read_meanings(Pool)["erring"].startswith("disks of ZFS with errors")


def test_comment_above_a_field_is_read_whole():
    assert read_meanings(GspFailure)["cause"].startswith("missing | interrupted")
    assert read_meanings(GspFailure)["cause"].endswith("not set up")
