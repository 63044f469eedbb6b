"""What a user's text grows to when it is expanded and joined, and that no text of one user hides
the rules of others.
"""

import tracemalloc

import pytest

from hosttune.actions.record.record import take_record
from hosttune.facts import Facts, globs
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.ageing import SPOOL
from hosttune.facts.storage.ageing_text import keep_age_lines
from hosttune.host.reading.paths import PATH_MAX
from hosttune.host.record.record import RecordReader
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader

EVE, BOB = f"{SPOOL}/eve", f"{SPOOL}/bob"
HONEST = {BOB: "@daily find /data -atime +30 -delete\n"}
LONG = f"/{'b' * 189}" * 20  # shorter than PATH_MAX
FAR = "/home/eve" + f"/{'d' * 189}" * 20
VALUE = f"a={LONG}{LONG}\n"
SHORT = f"a={LONG}\n"
MANY = "for v in " + " ".join(f"/{number}" for number in range(16)) + "; do\n"
UNIT = "/home/eve/.config/systemd/user/p.service"


def as_job(text, path=FAR + "/x.sh"):
    """A crontab that starts a script, in the end of a long way."""
    return {EVE: f"@daily {path}\n", path: FileValue(f"#!/bin/sh\n{text}".encode(), 0o755)}


ATTACKS = {
    "a value used very often": {EVE: VALUE + "@daily find " + "$a" * 7000 + " -atime +3\n"},
    "a short value used very often": {EVE: SHORT + "@daily find " + "$a" * 7000 + " -atime +3\n"},
    "with a loop": as_job(VALUE + MANY + "find $v" + "$a" * 7000 + " -atime +3\n"),
    "a value in many words": as_job(SHORT + "find " + "$a " * 5000 + " -atime +3\n"),
    "many values in many words": as_job(SHORT + MANY + "find " + "$v$a " * 3000 + " -atime +3\n"),
    "a folder of many words": as_job(f"cd {LONG}\nfind " + "x " * 7000 + " -atime +3\n"),
    "a folder that grows": as_job(
        "".join(f"cd {'x' * 200}\nfind . -atime +3\n" for _ in range(200))
    ),
    "a folder said again": as_job(f"cd {LONG}\n" + "cd .\nfind x -atime +3\n" * 600),
    "a folder of many scripts": as_job(
        f"cd {LONG}\n" + "".join(f"./{number};" for number in range(2500)) + "\n"
    ),
    "the own folder": as_job(
        "".join(". $(dirname $0)/" + str(number) + "\n" for number in range(2500))
    ),
    "the home": {EVE: "".join(f"@daily . ~/{number}\n" for number in range(4000))},
    "names that are not known": as_job(". $x\n" * 3_000),
    "a folder in many names": as_job(SHORT + "".join(f". $a/{number}\n" for number in range(2500))),
    "a long age": {EVE: "@daily find " + "/a " * 2500 + "-atime " + "1" * 8000 + "\n"},
    "a long period": {EVE: "@daily tmpreaper " + "1" * 8000 + "d" + " /a" * 2500 + "\n"},
    "a long file of variables": {
        UNIT: "[Service]\nEnvironmentFile=" + "/a" * 30_000 + "\nExecStart=/x\n"
    },
    "the home of a unit": {UNIT: "[Service]\nExecStart=" + "%h" * 30_000 + "\n"},
    "a folder of very many names": {EVE: "@daily run-parts /home/eve/d\n"}
    | {f"/home/eve/d/{number:060}": "" for number in range(12_000)},
    "names in a long folder": as_job(f". {FAR}/*\n")
    | {f"{FAR}/{number}": "" for number in range(40)},
}


# Where what is told does not show what was made on the way to it.
GROWS_MEANWHILE = {
    "a folder of many scripts",
    "the own folder",
    "a folder in many names",
    "names in a long folder",
}


def texts_of(found):
    rules = [text for rule in found.rules for text in (rule.path, rule.age, rule.source)]
    return rules + [text for one in found.hidden for text in (one.path, one.reason)]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_user_wrote_grows_to_no_more_than_a_bound(name):
    files = {**HONEST, **ATTACKS[name]}
    reader = FakeReader(files, links={"/lib": "usr/lib"})
    if name in GROWS_MEANWHILE:
        tracemalloc.start()
    try:
        found = Facts(reader).ageing
        peak = tracemalloc.get_traced_memory()[1] if name in GROWS_MEANWHILE else 0
    finally:
        tracemalloc.stop()
    assert ("/data", f"{BOB}:1") in [(rule.path, rule.source) for rule in found.rules]
    assert sum(map(len, texts_of(found))) < 1 << 20
    assert peak < 64 << 20
    for content in (
        one if isinstance(one, str) else one.content.decode() for one in ATTACKS[name].values()
    ):
        for kept in (keep_age_lines(content),):
            assert len(kept) < 2 * (1 << 20) + len(content)


def test_path_that_is_too_long_names_nothing_and_one_that_is_not_does():
    fitting = "/a" * ((PATH_MAX - 2) // 2)
    for words, expected in (
        (f"{fitting}/a", {"/"}),
        (fitting, {fitting}),
        (f"/data/$(x){fitting}", {"/data", "/"}),
    ):
        found = Facts(
            FakeReader({EVE: f"@daily find {words} -atime +3\n"}, links={"/lib": "usr/lib"})
        ).ageing
        assert {rule.path for rule in found.rules} <= expected


@pytest.mark.parametrize(
    "files",
    [
        {EVE: f"@daily . /home/eve/d/*{'x' * 5000}\n", "/home/eve/d/one": ""},
        {UNIT: f"[Service]\nEnvironmentFile=/home/eve/d/*{'x' * 5000}\nExecStart=/x\n", "/home/eve/d/one": ""},
        {EVE: "@daily /home/eve/x\n", "/home/eve/x": f"#!/bin/sh\n. /home/eve/d/*{'x' * 5000}\n", "/home/eve/d/one": ""},
        {EVE: f"@daily /home/eve/{'x' * 5000}.sh\n"},
        {EVE: "@daily /home/eve/a\0b.sh; . /home/eve/a\0b; find /a\0b -atime +3\n"},
        {EVE: f"@daily {'/a' * 1500}/x.sh\n"},
        {EVE: f"@daily find {'/a' * 1500} -atime +3\n"},
        {EVE: "@daily find /x -atime +3\n@daily " + "sh -c '" * 2000 + "\n"},
    ],
)  # fmt: skip
def test_no_text_of_one_user_hides_the_rules_of_others(files):
    """Neither here nor in a record, which can still be read."""
    reader = FakeReader({**HONEST, **files}, links={"/lib": "usr/lib"})
    kept = take_record(reader, lambda one: Facts(one).ageing, share=False, tool_version="1")
    for one in (reader, RecordReader(kept)):
        found = Facts(one).ageing
        assert ("/data", f"{BOB}:1") in [(rule.path, rule.source) for rule in found.rules]
        if one is reader and "*" in "".join(map(str, files.values())):
            assert any(
                "longer than 4096" in one.reason or "not known" in one.reason
                for one in found.hidden
            )


def test_pattern_with_a_range_that_has_no_end_is_unknown_at_most(monkeypatch):
    monkeypatch.setattr(
        globs, "translate", lambda _: "["
    )  # as Python before 3.10.5 has it: no regular expression
    with pytest.raises(UnknownFact):
        globs.fits_glob("b", "[c-a]")
