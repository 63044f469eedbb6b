"""What removes files by age: tmpfiles.d, tmpreaper, cachefilesd, and what jobs start."""

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage.ageing import SPOOL, Hidden
from hosttune.facts.storage.ageing_text import (
    AgeRule,
    files_in,
    keep_age_lines,
    parse_age,
    parse_tmpfiles,
    parse_tmpreaper,
    rules_in,
    tree_of,
)
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader

LIB = "/usr/lib/tmpfiles.d"
ETC = "/etc/tmpfiles.d"


def ageing(files, links=None, **options):
    return Facts(FakeReader(files, links={"/lib": "usr/lib"} | (links or {}), **options)).ageing


def commands(content, name="job", kind="script"):
    return tuple(rules_in(content, name, kind))


def places(content, kind="script"):
    return [(rule.path, rule.source) for rule in commands(content, kind=kind) if rule.uses_atime]


def paths(files, links=None, **options):
    return [(rule.path, rule.age) for rule in ageing(files, links, **options).rules]


def test_tmpfiles_lines_with_an_age_are_rules_with_their_place():
    content = "# comment\nq /tmp 1777 root root 10d\nD /scratch 1777 root root -\nd /run/x 0755\n\ne /data/tmp - - - 2w -\n"
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
    files = {
        f"{LIB}/tmp.conf": "q /tmp 1777 root root 10d\n",
        f"{ETC}/tmp.conf": "q /tmp 1777 root root -\n",
    }
    assert paths(files) == []


def test_tmpfiles_masked_file_is_silent():
    assert (
        paths({f"{LIB}/tmp.conf": "q /tmp 1777 root root 10d\n"}, {f"{ETC}/tmp.conf": "/dev/null"})
        == []
    )


def test_tmpfiles_first_line_about_a_path_decides_by_file_name():
    files = {
        f"{LIB}/50-a.conf": "d /x - - - -\n",
        f"{ETC}/60-b.conf": "d /x - - - 1d\nd /y - - - 3d\n",
        f"{LIB}/70.conf": "d /y - - - 9d\n",
    }
    assert paths(files) == [("/y", "3d")]


def test_tmpfiles_lines_that_add_to_a_path_do_not_decide():
    assert paths({f"{LIB}/a.conf": "r /x\na+ /x - - - - user::rwx\nd /x - - - 1d\n"}) == [
        ("/x", "1d")
    ]


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
    assert parse_age(spelled) == expected


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        ("/data/*/cache", "/data"), ("/tmp/", "/tmp"), ("/", "/"), ("/data/set[12]/x", "/data"), ("$X/y", "/"),
        ("y", "/"), ("~/y", "/"), ("%h/x", "/"), ("/data/*/../../x", "/"), ("/data/../x", "/"),
    ],
)  # fmt: skip
def test_tree_of_pattern(path, tree):
    assert tree_of(path) == tree


def test_specifiers_of_tmpfiles_are_known():
    content = "d %T/x-%b - - - 1d\nd %C/foo - - - 1d\nd %h/x - - - 1d\nd %b/x - - - 1d\n"
    assert [path for path, _ in paths({f"{LIB}/a.conf": content})] == [
        "/tmp",
        "/var/cache/foo",
        "/root/x",
        "/",
    ]


def test_tmpreaper_folders_age_and_options():
    content = "# TMPREAPER_DIRS='/no'\nTMPREAPER_TIME=14d\nTMPREAPER_DIRS='/tmp/. /scratch/.'\n"
    content += "TMPREAPER_ADDITIONALOPTIONS=''\n"
    rules = parse_tmpreaper(content, "/etc/tmpreaper.conf")
    assert rules == (
        AgeRule("/tmp", "14d", "/etc/tmpreaper.conf:3", uses_atime=True),
        AgeRule("/scratch", "14d", "/etc/tmpreaper.conf:3", uses_atime=True),
    )


def test_tmpreaper_by_modification_time_needs_no_access_times():
    assert (
        parse_tmpreaper("TMPREAPER_ADDITIONALOPTIONS='--mtime --mtime-dir'\n", "x")[0].uses_atime
        is False
    )


def test_tmpreaper_counts_while_its_cron_script_is_there():
    files = {"/etc/tmpreaper.conf": "TMPREAPER_TIME=2d\n"}
    assert paths(files) == []
    assert paths(
        files | {"/etc/cron.daily/tmpreaper": "#!/bin/sh\n. /etc/tmpreaper.conf\ntmpreaper $X\n"}
    ) == [("/tmp", "2d")]


def test_cron_commands_that_clean():
    script = (
        "#! /bin/sh\nflags=-umc\n# /usr/sbin/tmpwatch 1d /no\n"
        "/usr/sbin/tmpwatch -x /tmp/.X11-unix \\\n  -X '/tmp/pymp-*' 240 /tmp\n"
        "test -d /scratch && /usr/sbin/tmpwatch -m 30d /scratch /data/*/tmp\n"
    )
    assert commands(script, "/etc/cron.daily/tmpwatch") == (
        AgeRule("/tmp", "240h", "/etc/cron.daily/tmpwatch:4", uses_atime=True),
        AgeRule("/scratch", "30d", "/etc/cron.daily/tmpwatch:6", uses_atime=True),
        AgeRule("/data", "30d", "/etc/cron.daily/tmpwatch:6", uses_atime=True),
    )


def test_cron_tables_are_read():
    files = {
        "/etc/cron.d/clean": "0 3 * * * root tmpreaper -f 7d /scratch\n",
        "/etc/crontab": "1 1 * * * root tmpwatch 5d /a\n",
    }
    assert paths(files) == [("/a", "5d"), ("/scratch", "7d")]


def test_cron_words_that_only_look_like_it():
    assert commands("0 * * * * root echo no-tmpwatch 5d /a\napt install tmpreaper\n", "x") == ()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("find /scratch -atime +30 -delete", ["/scratch"]),
        ("find /scratch /data/tmp/ -type f -amin +600 -exec rm {} \\;", ["/scratch", "/data/tmp"]),
        ("find -H -O2 /scratch -anewer /var/stamp | xargs rm", ["/scratch"]),
        ("find /scratch -used +14 -print0 | xargs -0 rm -f", ["/scratch"]),
        ("find /scratch ! -neweraa /var/stamp -delete", ["/scratch"]),
        ("find /data/users/*/cache -atime +30", ["/data/users"]),
        ('bash -c "find /scratch -atime +30 -delete"', ["/scratch"]),
        ("nice -n 19 /usr/bin/find '/my data' -atime +30", ["/my", "/"]),
        ("find /scratch -printf '%A@ %p\\n' | sort -n | head | xargs rm", ["/scratch"]),
        ("cd /scratch && find . -atime +30 -delete", ["/"]),
        ("cd /scratch; find users -atime +30 -delete", ["/"]),
        ("find . -atime +30 -delete", ["/"]),
        ("find -atime +30 -delete", ["/"]),
        ("find $PLACE -atime +30 -delete", ["/"]),
        ("find ~/x -atime +30 -delete", ["/"]),
        ("lfs find /lustre -A +30", ["/lustre"]),
        ("tmpwatch $AGE /scratch", ["/scratch"]),
        ("tmpwatch 30d $PLACE", ["/"]),
        ("python3 -c 'import os; os.stat(x).st_atime'", ["/"]),
        ("os.path.getatime(path)", ["/"]),
        ("stat -c '%X %n' /scratch/*", ["/"]),
        ("ls -ltu /scratch | tail", ["/"]),
        ("hf cache rm $(hf cache ls --filter 'accessed>1mo' -q) -y", ["/"]),
        ("find /scratch -mtime +30 -delete", []),
        ("find /scratch -name '*-atime' -delete", []),
        ("find /scratch -printf '%T@ %p'", []),
        ("mount -o remount,noatime /scratch", []),
        ("find /scratch -mtime +3; echo -atime", ["/"]),
        ("ls -l /run/users; stat -c %y /scratch", []),
    ],
)
def test_commands_that_ask_for_access_times(command, expected):
    assert [place for place, _ in places(f"0 3 * * * root {command}\n", "table")] == expected


PURGE = "#!/bin/sh\nfind /scratch -atime +30 -delete\n"
PROGRAM = FileValue(PURGE.encode(), 0o755)


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("/opt/site/purge.sh --all", "/opt/site/purge.sh"),
        ("/opt/site/purge", "/opt/site/purge"),
        ("nice -n 5 bash /root/clean.sh", "/root/clean.sh"),
        ("[ -x /usr/sbin/x ] && cd /opt && ./purge.sh", "/opt/purge.sh"),
        ("flock /run/lock/p /opt/purge", "/opt/purge"),
        ("flock -n /var/lib/lock /opt/purge", "/opt/purge"),
        ("sudo -u bob /opt/purge", "/opt/purge"),
        ("su bob -c '/opt/purge --all'", "/opt/purge"),
        ("sh -c '/opt/purge.sh; true'", "/opt/purge.sh"),
        ("sh -c \"sh -c 'cd /x; /opt/purge'\"", "/opt/purge"),
        ('OUT="$(/opt/purge)" true', "/opt/purge"),
        ("'/opt/my jobs/purge'", "/opt/my jobs/purge"),
        ("/opt/my\\ jobs/purge", "/opt/my jobs/purge"),
        ("env A=1 /opt/purge", "/opt/purge"),
        ("ls | xargs -n1 /opt/purge", "/opt/purge"),
        ("find /x -mtime +3 -exec /opt/purge {} +", "/opt/purge"),
        ("run-parts --report /etc/cron.night", "/etc/cron.night/a"),
        ("/usr/bin/python3 -u /opt/clean.py", "/opt/clean.py"),
        ("purge /x", "/usr/local/sbin/purge"),
        ("sh purge.sh", "/purge.sh"),
    ],
)
def test_script_that_a_line_starts_is_read(line, script):
    for files in (
        {"/etc/cron.d/x": f"0 3 * * * root {line}\n"},
        {"/etc/cron.daily/x": f"#!/bin/sh\n{line}\n"},
    ):
        assert [rule.source for rule in ageing({**files, script: PROGRAM}).rules] == [f"{script}:2"]


@pytest.mark.parametrize(
    "line", ["rsync -a /data /nfs/backup", "/usr/bin/rsync -a /data /nfs/backup", "A=/data true"]
)
def test_data_that_a_line_names_are_not_read(line):
    reader = FakeReader(
        {"/etc/cron.d/x": f"0 3 * * * root {line}\n", "/data": PURGE}, links={"/lib": "usr/lib"}
    )
    read, real = [], reader.read
    reader.read = lambda path: read.append(path) or real(path)
    assert (Facts(reader).ageing.rules, Facts(reader).ageing.hidden) == ((), ())
    assert "/data" not in read


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({"/etc/crontab": "0 3 * * * root find /scratch -atime +30 -delete\n"}, "/etc/crontab:1"),
        (
            {"/etc/cron.d/x": "# a\n0 3 * * * root find /scratch -atime +30 -delete\n"},
            "/etc/cron.d/x:2",
        ),
        ({"/etc/anacrontab": "1 5 x find /scratch -atime +30 -delete\n"}, "/etc/anacrontab:1"),
        *(
            ({f"/etc/cron.{when}/x": PURGE}, f"/etc/cron.{when}/x:2")
            for when in ("hourly", "daily", "weekly", "monthly")
        ),
        ({f"{SPOOL}/alice": "0 3 * * * find /scratch -atime +30 -delete\n"}, f"{SPOOL}/alice:1"),
        ({"/etc/cron.d/x": "0 3 * * * root /opt/purge\n", "/opt/purge": PURGE}, "/opt/purge:2"),
        (
            {"/etc/cron.d/x": "0 3 * * * root purge\n", "/usr/local/sbin/purge": PURGE},
            "/usr/local/sbin/purge:2",
        ),
        (
            {"/etc/cron.d/x": "0 3 * * * root run-parts /opt/night\n", "/opt/night/a": PURGE},
            "/opt/night/a:2",
        ),
        (
            {"/etc/cron.daily/x": "#!/bin/sh\n/opt/purge.sh\n", "/opt/purge.sh": PURGE},
            "/opt/purge.sh:2",
        ),
        (
            {
                "/etc/systemd/system/p.service": "[Service]\nExecStart=/usr/bin/find /scratch -atime +30 -delete\n"
            },
            "/etc/systemd/system/p.service:2",
        ),
        (
            {
                "/etc/systemd/system/p.service.d/x.conf": "[Service]\nExecStartPost=/usr/bin/find /scratch -atime +30\n"
            },
            "/etc/systemd/system/p.service.d/x.conf:2",
        ),
        (
            {
                "/etc/systemd/system/p.service": "[Service]\nExecStart=-/opt/purge\n",
                "/opt/purge": PURGE,
            },
            "/opt/purge:2",
        ),
        (
            {
                "/usr/lib/systemd/system/p.timer": "[Timer]\n",
                "/usr/lib/systemd/system/p.service": "[Service]\nExecStart=/usr/bin/find /scratch -atime +6 -delete\n",
            },
            "/usr/lib/systemd/system/p.service:2",
        ),
        ({"/etc/slurm/slurm.conf": "Epilog=/opt/epilog\n", "/opt/epilog": PURGE}, "/opt/epilog:2"),
        (
            {"/etc/slurm/slurm.conf": "Epilog=epilog.sh\n", "/etc/slurm/epilog.sh": PURGE},
            "/etc/slurm/epilog.sh:2",
        ),
        (
            {
                "/run/slurm/conf/slurm.conf": "TaskProlog=/opt/p/*\n",
                "/opt/p/10-x": PURGE,
                "/opt/p/y": "",
            },
            "/opt/p/10-x:2",
        ),
        ({"/etc/slurm/epilog.d/50-x": PURGE}, "/etc/slurm/epilog.d/50-x:2"),
        ({"/etc/cachefilesd.conf": "# x\ndir /scratch\ntag a\n"}, "/etc/cachefilesd.conf:2"),
        (
            {
                "/etc/robinhood.d/x.conf": 'General { fs_path = "/scratch"; }\nrule a { condition { last_access > 30d } }\n'
            },
            "/etc/robinhood.d/x.conf:2",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_place_that_deletes_by_access_time(files, source):
    seen = ageing(files)
    assert [(rule.path, rule.source) for rule in seen.rules if rule.uses_atime] == [
        ("/scratch", source)
    ]
    assert seen.hidden == ()


def test_real_unit_of_man_db():
    unit = (
        "[Service]\nExecStart=+/usr/bin/find /var/cache/man -type f -name *.gz -atime +6 -delete\n"
    )
    files = {
        "/usr/lib/systemd/system/man-db.timer": "[Timer]\n",
        "/usr/lib/systemd/system/man-db.service": unit,
    }
    assert [rule.path for rule in ageing(files).rules] == ["/var/cache/man"]


def test_what_does_not_cull_or_is_no_script():
    files = {
        "/etc/cachefilesd.conf": "dir /scratch\nnocull\n", "/etc/robinhood.d/x.conf": "# last_access\n",
        "/etc/cron.d/x": "0 3 * * * root /opt/program\n", "/opt/program": b"\x7fELF\0find /scratch -atime +3",
        "/etc/systemd/system/x.service": "# find /scratch -atime +3\n[Unit]\nDescription=find /scratch -atime +3\n",
    }  # fmt: skip
    assert (ageing(files).rules, ageing(files).hidden) == ((), ())


def test_place_behind_a_link_is_the_real_one():
    files = {
        "/etc/crontab": "0 3 * * * root find /scratch -atime +30 -delete\n",
        "/data/scratch/x": "",
    }
    assert paths(files, {"/scratch": "/data/scratch"}) == [("/data/scratch", "-atime +30")]


def test_what_could_not_be_read_is_said_and_the_rest_is_known():
    hidden = {
        SPOOL: f"needs root: permission denied on {SPOOL}",
        "/opt/purge": "needs root: permission denied on /opt/purge",
    }
    files = {f"{LIB}/a.conf": "d /x - - - 1d\n", "/etc/cron.d/x": "0 3 * * * root /opt/purge\n"}
    seen = ageing(files, unreadable=hidden)
    assert [rule.path for rule in seen.rules] == ["/x"]
    assert sorted(seen.hidden, key=str) == sorted(
        (Hidden(path, reason) for path, reason in hidden.items()), key=str
    )


@pytest.mark.parametrize(
    "mounted", ["nfs4 server:/x", "fuse.mergerfs 1:2", "fuse.dfuse dfuse", "autofs systemd-1"]
)
def test_script_on_a_network_file_system_is_not_touched(mounted):
    mounts = f"20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 0:50 / /nfs rw - {mounted} rw\n"
    files = {
        "/proc/self/mountinfo": mounts,
        "/etc/cron.d/x": "0 3 * * * root /nfs/purge\n",
        "/nfs/purge": PURGE,
    }
    reader = FakeReader(files, links={"/lib": "usr/lib"})
    seen = Facts(reader).ageing
    assert (seen.rules, seen.hidden) == (
        (),
        (
            Hidden(
                "/nfs/purge",
                "/nfs/purge (/etc/cron.d/x:1) is on a network or FUSE file system and is not read",
            ),
        ),
    )
    assert "/nfs/purge" not in reader.seen


def test_record_keeps_what_removes_and_no_other_words():
    script = (
        "#!/bin/sh\nTOKEN=abc\nPLACE=/scratch\n/opt/x -u a:b\nfind $PLACE \\\n  -atime +3\n# end\n"
    )
    assert (
        keep_age_lines(script)
        == "#!/bin/sh\n\n_=/scratch\n/opt/x\n/usr/bin/find '/' -atime +3\n\n\n"
    )
    kept = keep_age_lines(script, programs=("find",))  # of the site, in /usr/local
    assert kept == "#!/bin/sh\n\n_=/scratch\n/opt/x\n/usr/bin/find '/' -atime +3; find\n\n\n"
    assert commands(kept) == commands(script)
    files = {one[1:] for one in files_in(script)} - {("name", "masked")}
    assert {one[1:] for one in files_in(kept)} == {*files, ("start", "/usr/bin/find")}


def test_ageing_of_an_image_ignores_run():
    options = {
        "kind": "root",
        "persistent_only": True,
        "unreadable": {"/run": "no kernel runs under --root"},
    }
    assert paths({f"{LIB}/a.conf": "d /x - - - 1d\n"}, **options) == [("/x", "1d")]


def test_ageing_of_nothing_is_empty():
    assert ageing({}).rules == ()
