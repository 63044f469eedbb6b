"""Our two readings of an fstab against the two real readers of this machine, and edits as those see
them.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from hosttune.facts.storage.fstab_lines import FstabLine, LineKind, parse, read_line, split_lines
from hosttune.facts.storage.fstab_options import ATIME_WORDS
from hosttune.resources.storage.fstab_plan import LineOutcome, tune
from tests.unit.fstab_oracles import (
    assert_only_options_differ,
    assert_read_as_they_are,
    assert_same_entries,
    getmntent,
)
from tests.unit.test_fstab_document import SAMPLES

# a failing file is small enough to look at; each attempt to make it smaller starts a program
QUICK = (Phase.explicit, Phase.generate)
# What neither reader of this machine can be asked: findmnt of util-linux 2.38 takes an option
# without a name, later ones do not; a NUL ends C strings; libmount takes a carriage return for a
# type where nothing else stands, which we call no entry (the lint tells it).
READABLE = [
    name
    for name in SAMPLES
    if name
    not in {
        "nul",
        "lone cr",
        "byte order mark",
        "option without a name",
        "carriage return among blanks",
    }
]

BLANKS = st.sampled_from([" ", "\t", "  ", " \t", "        "])
TEXTS = st.text(alphabet='ab/\\0124#,="é\u00a0\v.-', min_size=1, max_size=9)
NUMBERS = st.sampled_from(
    ["0", "1", "2", "0#", "two", "-1", "+1", "0x1", "007", "99999999999", "2#hi", "#", "1\v"]
)
PLACES = st.sampled_from(
    ["/", "/data", "/data/", "/a//b", "/my\\040data", "none", "/x/../y", "/ünï", "/a\\134b", "\\\\"]
)
OPTIONS = st.lists(
    st.sampled_from([
        *ATIME_WORDS, "defaults", "rw", "", "nofail", 'context="u:r:t:s0:c1,c2"', "lowerdir=/a\\,b", "x-a=\\040b",
        "subvol=@", "comment=x", "size=10%", "NOATIME", "ignore",
    ]),
    min_size=1, max_size=5,
).map(",".join)  # fmt: skip
SOURCES = st.sampled_from(
    ["UUID=1-2", 'LABEL="a\\040b"', "/dev/sdb1", "nas:/x", "//nas/x", "sshfs#u@h:", "[::1]:/x"]
)
TYPES = st.sampled_from(["ext4", "xfs", "btrfs", "nfs4", "swap", "none", "autofs", "auto", "tmpfs"])


@st.composite
def wild_lines(draw) -> str:
    """Anything that people might leave in a line."""
    fields = draw(st.lists(TEXTS | NUMBERS, max_size=8))
    return draw(st.sampled_from(["", " ", "\t"])) + "".join(
        field + draw(BLANKS) for field in fields
    )


@st.composite
def entry_lines(draw) -> str:
    """What looks like an entry."""
    fields = [
        draw(SOURCES),
        draw(PLACES),
        draw(TYPES),
        draw(OPTIONS),
        draw(NUMBERS),
        draw(NUMBERS),
        "# note",
    ]
    kept = fields[: draw(st.integers(3, 7))]
    return draw(st.sampled_from(["", " "])) + "".join(
        field + draw(BLANKS) for field in kept
    ).rstrip(" \t")


@st.composite
def files(draw) -> bytes:
    """Files of many lines, so that one call of each reader tries many: LF, CR LF or mixed, UTF-8 or
    latin-1.
    """
    lines = draw(
        st.lists(
            entry_lines() | wild_lines() | st.sampled_from(["", "# x", "#"]),
            min_size=15,
            max_size=40,
        )
    )
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\n", "\r\n"]]))
    text = "".join(line + draw(st.sampled_from(ends)) for line in lines)
    encoding = draw(st.sampled_from(["utf-8", "latin-1"]))
    data = text.encode(encoding)
    return data if draw(st.booleans()) else data.rstrip(b"\r\n")


@pytest.mark.parametrize("name", READABLE)
def test_readings_of_a_sample_are_those_of_this_machine(name, tmp_path):
    assert_read_as_they_are(SAMPLES[name], tmp_path)


@settings(max_examples=50, phases=QUICK)
@given(files())
def test_readings_of_any_lines_are_those_of_this_machine(tmp_path_factory, data):
    assume(b",=" not in data and b" =" not in data and b"\t=" not in data)
    assert_read_as_they_are(data, tmp_path_factory.getbasetemp())


@settings(max_examples=50, phases=QUICK)
@given(files())
def test_quick_reading_of_a_file_is_that_of_each_line(data):
    owners = {line.number: line.owner for line in parse(data).lines}
    one_by_one = [
        read_line(number, text, ending, owners[number])
        for number, (text, ending) in enumerate(split_lines(data), 1)
    ]

    assert list(parse(data).lines) == one_by_one
    assert all(isinstance(line, FstabLine) for line in one_by_one)


@pytest.mark.parametrize("length", range(4085, 4104))
@pytest.mark.parametrize("end", ["0 2", "", "0\t12345"])
def test_getmntent_rule_at_its_limit_agrees_with_this_machine(length, end, tmp_path):
    start = "/dev/a /data ext4 x-a="
    line = start + "a" * (length - len(start) - len(end) - 1) + " " + end
    data = (line + "\n/dev/b /more ext4 rw 0 0\n").encode()
    (tmp_path / "fstab").write_bytes(data)

    assert_same_entries(
        [line.getmntent for line in parse(data).lines], getmntent(tmp_path / "fstab")
    )


@pytest.mark.parametrize("name", READABLE)
def test_noatime_on_a_sample_changes_the_intended_entries_alone(name, tmp_path):
    document = parse(SAMPLES[name])
    tuning = tune(document)
    changed = [step.line for step in tuning.steps if step.outcome is LineOutcome.CHANGED]

    assert_only_options_differ(SAMPLES[name], tuning.data, changed, tmp_path)


@settings(max_examples=25, phases=QUICK)
@given(files())
def test_noatime_on_any_file_changes_the_intended_entries_alone(tmp_path_factory, data):
    assume(b",=" not in data and b" =" not in data and b"\t=" not in data)
    tuning = tune(parse(data))
    changed = [step.line for step in tuning.steps if step.outcome is LineOutcome.CHANGED]

    assert_only_options_differ(data, tuning.data, changed, tmp_path_factory.getbasetemp())
    again = tune(parse(tuning.data))
    assert again.data == tuning.data
    assert not [step for step in again.steps if step.outcome is LineOutcome.CHANGED]


def test_file_of_ten_thousand_lines_is_read_as_this_machine_reads_it(tmp_path):
    lines = [
        f"UUID={number:08x} /data/{number} ext4 defaults,nofail 0 2\n" for number in range(10_000)
    ]
    data = "".join(lines).encode()
    assert_read_as_they_are(data, tmp_path)

    tuning = tune(parse(data), ["/data/7777"])

    assert tuning.data == data.replace(
        b"/data/7777 ext4 defaults,nofail", b"/data/7777 ext4 defaults,nofail,noatime"
    )
    assert all(line.kind is LineKind.ENTRY for line in parse(tuning.data).lines)
