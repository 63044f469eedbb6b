"""143 real fstab files, where they are at hand (tests/conftest.py says so and leaves this file out where they are not)."""

from __future__ import annotations

import json

import pytest

from hosttune.errors import Refused
from hosttune.resources.fstab_document import Kind, edit_options, insert_line, options_of, parse, remove_line
from hosttune.resources.fstab_readers import Fields
from tests.conftest import CORPUS
from tests.unit.test_fstab_document import TMP_LINE, editable, noatime

CORPUS_FILES = sorted(path.name for path in CORPUS.glob("*.fstab"))


# The oracle of the corpus: what findmnt (libmount 2.39.3) and getmntent(3) made of 143 real files.
@pytest.mark.parametrize("name", CORPUS_FILES)
def test_real_file_reads_as_libmount_and_glibc_read_it(name):
    truth = oracle()[name]
    document = parse((CORPUS / name).read_bytes())

    assert [listed(line.libmount) for line in document.lines if line.libmount] == truth["libmount_2_39_entries"]
    glibc = [[*entry[:4], *map(int, entry[4:])] for entry in truth["glibc_getmntent"]]
    assert [listed(line.getmntent) for line in document.lines if line.getmntent] == glibc
    broken = [line.number for line in document.lines if line.kind is Kind.BROKEN]
    assert set(truth["libmount_bad_lines"]) <= set(broken)


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_real_file_edits_come_back_byte_for_byte(name):
    data = (CORPUS / name).read_bytes()
    document = parse(data)
    assert bytes(document) == data
    for target in editable(data):
        try:
            new = edit_options(document, target, noatime)
        except Refused:
            continue
        old = options_of(document, target)
        assert edit_options(parse(new), target, lambda _, old=old: old) == data
    line = TMP_LINE.replace("/tmp", "/hosttune")
    assert remove_line(parse(insert_line(document, line)), line) == data


def oracle() -> dict[str, dict]:
    rows = (json.loads(line) for line in (CORPUS / "oracle.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["file"]: row for row in rows}


def listed(fields: Fields) -> list[object]:
    texts = (fields.source, fields.target, fields.fstype, fields.options)
    return [*(text.decode("utf-8", "replace") for text in texts), fields.freq, fields.passno]
