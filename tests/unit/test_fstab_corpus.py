"""143 real fstab files, where they are at hand (tests/conftest.py says so and leaves this file out
where they are not).
"""

from __future__ import annotations

import json

import pytest

from hosttune.facts.storage.fstab_lines import LineKind, parse
from hosttune.facts.storage.fstab_readers import STALE, Fields
from hosttune.facts.storage.mounts import LOCAL_TYPES, is_system
from hosttune.resources.storage.fstab_document import edit_options, insert_line, remove_line
from hosttune.resources.storage.fstab_lint import lint
from hosttune.resources.storage.fstab_plan import LineOutcome, tune
from tests.conftest import CORPUS
from tests.unit.fstab_oracles import assert_only_options_differ, assert_read_as_they_are
from tests.unit.test_fstab_document import TMP_LINE, assert_one_span

CORPUS_FILES = sorted(path.name for path in CORPUS.glob("*.fstab"))


# The oracle of the corpus: what findmnt (libmount 2.39.3) and getmntent(3) made of 143 real files.
@pytest.mark.parametrize("name", CORPUS_FILES)
def test_real_file_reads_as_libmount_and_glibc_read_it(name):
    truth = oracle()[name]
    document = parse((CORPUS / name).read_bytes())

    assert [listed(line.libmount) for line in document.lines if line.libmount] == truth[
        "libmount_2_39_entries"
    ]
    glibc = [[*entry[:4], *map(int, entry[4:])] for entry in truth["glibc_getmntent"]]
    assert [listed(line.getmntent) for line in document.lines if line.getmntent] == glibc
    broken = [line.number for line in document.lines if line.kind is LineKind.BROKEN]
    assert set(truth["libmount_bad_lines"]) <= set(broken)


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_real_file_reads_as_the_programs_of_this_machine_read_it(name, tmp_path):
    assert_read_as_they_are((CORPUS / name).read_bytes(), tmp_path)


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_each_data_mount_of_a_real_file_is_tuned_by_one_span_or_has_a_reason(name):
    data = (CORPUS / name).read_bytes()
    document = parse(data)
    assert bytes(document) == data
    for line in document.entries:
        fields = line.fields
        if fields.fstype.decode() not in LOCAL_TYPES or not line.target or is_system(line.target):
            continue
        (step,) = tune(document, [line.target]).steps
        if step.outcome in (LineOutcome.REFUSED, LineOutcome.LEFT):
            assert step.reason
            continue
        new = tune(document, [line.target]).data
        if step.outcome is LineOutcome.OK:
            assert new == data
            continue
        assert_one_span(data, new, line.number)
        assert tune(parse(new), [line.target]).data == new
        assert edit_options(parse(new), line.target, lambda _, old=line.options: old) == data


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_all_data_mounts_of_a_real_file_change_for_both_programs_of_this_machine(name, tmp_path):
    data = (CORPUS / name).read_bytes()
    tuning = tune(parse(data))
    changed = [step.line for step in tuning.steps if step.outcome is LineOutcome.CHANGED]
    assert_only_options_differ(data, tuning.data, changed, tmp_path)
    assert tune(parse(tuning.data)).data == tuning.data


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_line_added_to_a_real_file_goes_without_a_trace(name):
    data = (CORPUS / name).read_bytes()
    line = TMP_LINE.replace("/tmp", "/hosttune")

    assert remove_line(parse(insert_line(parse(data), line)), line) == data


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_remarks_on_a_real_file_name_each_misread_line(name):
    document = parse((CORPUS / name).read_bytes())
    remarks = lint(document)

    misread = {remark.line for remark in remarks if remark.code == "misread"}
    assert misread == {line.number for line in document.lines if line.kind is LineKind.BROKEN}
    assert all(remark.message and remark.todo for remark in remarks)


def oracle() -> dict[str, dict]:
    rows = (
        json.loads(line)
        for line in (CORPUS / "oracle.jsonl").read_text(encoding="utf-8").splitlines()
    )
    return {row["file"]: row for row in rows}


def listed(fields: Fields) -> list[object]:
    texts = (fields.source, fields.target, fields.fstype, fields.options)
    # what was stale memory on the machine of the oracle was 0
    numbers = (0 if number == STALE else number for number in (fields.freq, fields.passno))
    return [*(text.decode("utf-8", "replace") for text in texts), *numbers]
