"""What removes files by age: tmpfiles.d, tmpreaper, cron."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.ageing import AgeRule, age_of, parse_cron, parse_tmpfiles, parse_tmpreaper, tree_of
from tests.unit.fake_reader import FakeReader

LIB = "/usr/lib/tmpfiles.d"
ETC = "/etc/tmpfiles.d"


def ageing(files, links=None, **options):
    return Facts(FakeReader(files, links={"/lib": "usr/lib"} | (links or {}), **options)).ageing


def paths(files, links=None, **options):
    return [(rule.path, rule.age) for rule in ageing(files, links, **options).rules]


def test_tmpfiles_lines_with_an_age_are_rules_with_their_place():
    content = (
        "# comment\nq /tmp 1777 root root 10d\nD /scratch 1777 root root -\nd /run/x 0755\n\ne /data/tmp - - - 2w -\n"
    )
    seen = ageing({f"{LIB}/tmp.conf": content})
    assert seen.rules == (
        AgeRule("/tmp", "10d", f"{LIB}/tmp.conf:2", uses_atime=True),
        AgeRule("/data/tmp", "2w", f"{LIB}/tmp.conf:6", uses_atime=True),
    )


@pytest.mark.parametrize("kind", ["f", "x", "X", "r", "R", "z", "L", "L+", "w", "e!", "d!"])
def test_tmpfiles_types_that_age_nothing_after_boot(kind):
    assert paths({f"{LIB}/a.conf": f"{kind} /tmp - - - 10d\n"}) == []


@pytest.mark.parametrize("kind", ["d", "D", "e", "v", "q", "Q", "C", "d-", "D="])
def test_tmpfiles_types_that_age(kind):
    assert paths({f"{LIB}/a.conf": f"{kind} /tmp - - - 10d\n"}) == [("/tmp", "10d")]


def test_tmpfiles_file_of_the_same_name_hides_the_vendors():
    files = {f"{LIB}/tmp.conf": "q /tmp 1777 root root 10d\n", f"{ETC}/tmp.conf": "q /tmp 1777 root root -\n"}
    assert paths(files) == []


def test_tmpfiles_masked_file_is_silent():
    assert paths({f"{LIB}/tmp.conf": "q /tmp 1777 root root 10d\n"}, {f"{ETC}/tmp.conf": "/dev/null"}) == []


def test_tmpfiles_first_line_about_a_path_decides_by_file_name():
    files = {
        f"{LIB}/50-a.conf": "d /x - - - -\n",
        f"{ETC}/60-b.conf": "d /x - - - 1d\nd /y - - - 3d\n",
        f"{LIB}/70.conf": "d /y - - - 9d\n",
    }
    assert paths(files) == [("/y", "3d")]


def test_tmpfiles_lines_that_add_to_a_path_do_not_decide():
    assert paths({f"{LIB}/a.conf": "r /x\na+ /x - - - - user::rwx\nd /x - - - 1d\n"}) == [("/x", "1d")]


def test_tmpfiles_quotes_and_short_lines():
    lines = parse_tmpfiles('d "/my data" - - - "1d" x\nd\n  # no\n')
    assert [(line.path, line.age, line.number) for line in lines] == [("/my data", "1d", 1)]


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("10d", ("10d", True)),
        ("~10d", ("10d", True)),
        ("m:10d", ("10d", False)),
        ("bmA:1w", ("1w", True)),
        ("~cm:2h", ("2h", False)),
    ],
)
def test_age_of_field(spelled, expected):
    assert age_of(spelled) == expected


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        ("/data/*/cache", "/data"), ("/tmp/", "/tmp"), ("/", "/"), ("%T/x-%b", "/tmp"), ("%C/foo", "/var/cache/foo"),
        ("/data/set[12]/x", "/data"), ("%h/x", "/"),
    ],
)  # fmt: skip
def test_tree_of_pattern(path, tree):
    assert tree_of(path) == tree


def test_tmpreaper_folders_age_and_options():
    content = "# TMPREAPER_DIRS='/no'\nTMPREAPER_TIME=14d\nTMPREAPER_DIRS='/tmp/. /scratch/.'\n"
    content += "TMPREAPER_ADDITIONALOPTIONS=''\n"
    rules = parse_tmpreaper(content, "/etc/tmpreaper.conf")
    assert rules == (
        AgeRule("/tmp", "14d", "/etc/tmpreaper.conf:3", uses_atime=True),
        AgeRule("/scratch", "14d", "/etc/tmpreaper.conf:3", uses_atime=True),
    )


def test_tmpreaper_by_modification_time_needs_no_access_times():
    assert parse_tmpreaper("TMPREAPER_ADDITIONALOPTIONS='--mtime --mtime-dir'\n", "x")[0].uses_atime is False


def test_tmpreaper_counts_while_its_cron_script_is_there():
    files = {"/etc/tmpreaper.conf": "TMPREAPER_TIME=2d\n"}
    assert paths(files) == []
    assert paths(files | {"/etc/cron.daily/tmpreaper": "#!/bin/sh\n. /etc/tmpreaper.conf\ntmpreaper $X\n"}) == [
        ("/tmp", "2d")
    ]


def test_cron_commands_that_clean():
    script = (
        "#! /bin/sh\nflags=-umc\n# /usr/sbin/tmpwatch 1d /no\n"
        "/usr/sbin/tmpwatch -x /tmp/.X11-unix \\\n  -X '/tmp/pymp-*' 240 /tmp\n"
        "test -d /scratch && /usr/sbin/tmpwatch -m 30d /scratch /data/*/tmp\n"
    )
    assert parse_cron(script, "/etc/cron.daily/tmpwatch") == (
        AgeRule("/tmp", "240h", "/etc/cron.daily/tmpwatch:4", uses_atime=True),
        AgeRule("/scratch", "30d", "/etc/cron.daily/tmpwatch:6", uses_atime=False),
        AgeRule("/data", "30d", "/etc/cron.daily/tmpwatch:6", uses_atime=False),
    )


def test_cron_tables_are_read():
    files = {
        "/etc/cron.d/clean": "0 3 * * * root tmpreaper -f 7d /scratch\n",
        "/etc/crontab": "1 1 * * * root tmpwatch 5d /a\n",
    }
    assert paths(files) == [("/a", "5d"), ("/scratch", "7d")]


def test_cron_words_that_only_look_like_it():
    assert parse_cron("0 * * * * root echo no-tmpwatch 5d /a\napt install tmpreaper\n", "x") == ()


def test_ageing_unreadable_file_is_unknown_never_empty():
    seen = ageing({f"{LIB}/a.conf": "d /x - - - 1d\n"}, unreadable={"/etc/cron.daily/secret": "needs root"})
    with pytest.raises(UnknownFact, match="needs root"):
        _ = seen.rules


def test_ageing_of_an_image_ignores_run():
    options = {"kind": "root", "persistent_only": True, "unreadable": {"/run": "no kernel runs under --root"}}
    assert paths({f"{LIB}/a.conf": "d /x - - - 1d\n"}, **options) == [("/x", "1d")]


def test_ageing_of_nothing_is_empty():
    assert ageing({}).rules == ()
