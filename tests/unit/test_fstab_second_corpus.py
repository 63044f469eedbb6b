"""137 more real fstab files, where they are at hand (tests/conftest.py says so and leaves this file
out where they are not).
"""

from __future__ import annotations

from random import Random

import pytest

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_lines import LineKind, parse
from hosttune.resources.storage.fstab_document import insert_line, remove_line
from hosttune.resources.storage.fstab_lint import RemarkLevel, lint
from hosttune.resources.storage.fstab_plan import LineOutcome, tune
from tests.conftest import SECOND_CORPUS
from tests.unit.fstab_oracles import assert_only_options_differ, assert_read_as_they_are
from tests.unit.test_fstab_document import TMP_LINE

FILES = sorted(path.name for path in SECOND_CORPUS.glob("*.fstab"))
# What a boot may do with a line that is read, by the words that stand in it.
OF_WORDS = {
    "refused-option", "unknown-option", "option-by-version", "misspelt", "separator", "typography", "unknown-type",
    "uuid-shape", "no-tag", "no-device", "no-server", "circle",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_real_file_reads_as_the_programs_of_this_machine_read_it(name, tmp_path):
    data = (SECOND_CORPUS / name).read_bytes()
    if not parse(data).problems:
        assert_read_as_they_are(data, tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_edits_of_a_real_file_change_what_is_meant_and_go_without_a_trace(name, tmp_path):
    data = (SECOND_CORPUS / name).read_bytes()
    line = TMP_LINE.replace("/tmp", "/hosttune")
    try:
        tuning = tune(parse(data))
    except Refused:
        assert parse(data).problems
        return
    changed = [step.line for step in tuning.steps if step.outcome is LineOutcome.CHANGED]
    assert_only_options_differ(data, tuning.data, changed, tmp_path)
    assert remove_line(parse(insert_line(parse(data), line)), line) == data


@pytest.mark.parametrize("name", FILES)
def test_remarks_on_a_real_file_name_each_misread_line_and_a_way_out(name):
    document = parse((SECOND_CORPUS / name).read_bytes())
    remarks = lint(document)

    misread = {remark.line for remark in remarks if remark.code == "misread"}
    assert misread == {line.number for line in document.lines if line.kind is LineKind.BROKEN}
    assert all(remark.message and remark.todo for remark in remarks)


def test_real_files_that_boot_raise_few_words_about_what_stands_in_a_line():
    """Placeholders of templates aside, nearly all of what people wrote is taken by a kernel."""
    entries, said = 0, []
    for name in FILES:
        document = parse((SECOND_CORPUS / name).read_bytes())
        entries += len(document.entries)
        said += [
            one for one in lint(document) if one.code in OF_WORDS and one.level is RemarkLevel.ERROR
        ]
    assert len(said) <= entries // 50


PIECES = (
    b" ", b"\t", b"\n", b"\r\n", b"#", b"\\040", b"\\134", b"\\", b",", b"=", b'"', b"/", b"0", b" 0 2", b"noatime", b"bind",
    b"none", b"ext4", b"UUID=", b"nofail", b"\xc2\xa0", b"\xe2\x80\x93", b"\xe9", b";", b"commit=", b"swap", b"s3fs#x",
    b"/a /b none bind 0 0\n", b"-1", b"99999999999",
)  # fmt: skip


def mutated(data: bytes, chance: Random) -> bytes:
    """A file as a careless hand leaves it: pieces put in, taken out, fields and lines in another
    order.
    """
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        place, lines = chance.randrange(len(data) + 1), data.split(b"\n")
        line = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0 | 1:
                data = data[:place] + chance.choice(PIECES) + data[place:]
            case 2:
                data = data[:place] + data[place + chance.choice((1, 2, 5, 20)) :]
            case 3:
                fields = lines[line].split()
                chance.shuffle(fields)
                data = b"\n".join([*lines[:line], b" ".join(fields), *lines[line + 1 :]])
            case _:
                data = data[:place] + chance.choice(PIECES) + data[place + 1 :]
    return data


@pytest.mark.parametrize("seed", range(8))
def test_mutated_real_files_are_read_linted_and_edited_as_this_machine_reads_them(seed, tmp_path):
    """All lines of many files in one file: how a line is read depends on that line alone."""
    chance, kept, edits, offset = Random(seed), [], [], 0  # noqa: S311 - the same files in every run
    for _ in range(60):
        data = mutated((SECOND_CORPUS / chance.choice(FILES)).read_bytes(), chance)
        data += b"" if data.endswith(b"\n") else b"\n"
        document = parse(data)
        assert bytes(document) == data
        assert all(remark.message and remark.todo for remark in lint(document))
        # what findmnt of util-linux 2.38 takes and later ones do not; and what ends a C string
        if document.problems or b",=" in data or b" =" in data or b"\t=" in data:
            continue
        tuning = tune(document)
        kept.append((data, tuning.data))
        edits += [
            offset + step.line for step in tuning.steps if step.outcome is LineOutcome.CHANGED
        ]
        offset += len(document.lines)

    before, after = (b"".join(files) for files in zip(*kept, strict=True))
    assert_read_as_they_are(before, tmp_path)
    assert_only_options_differ(before, after, edits, tmp_path)
