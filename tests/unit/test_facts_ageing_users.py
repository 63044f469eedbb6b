"""What jobs read in, what users wrote, and how much of it is read."""

from time import process_time

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage import ageing
from hosttune.facts.storage.ageing import OF_ALL_USERS, OF_ONE_USER, SPOOL
from hosttune.facts.storage.ageing_text import files_in, keep_age_lines
from hosttune.values import FileValue, Unreadable
from tests.unit.fake_reader import FakeReader

PURGE = "#!/bin/sh\nfind /scratch -atime +30 -delete\n"
PROGRAM = FileValue(PURGE.encode(), 0o755)
UNIT = "/etc/systemd/system/p.service"
OWN = "/home/bob/.config/systemd/user"
ROW = "0 3 * * * true a b c\n"


def look(files, links=None, **options):
    return Facts(FakeReader(files, links={"/lib": "usr/lib"} | (links or {}), **options)).ageing


def seen(files, links=None, **options):
    found = look(files, links, **options)
    return [(rule.path, rule.source) for rule in found.rules if rule.uses_atime], [
        one.path for one in found.hidden
    ]


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({UNIT: "[Service]\nEnvironmentFile=-/etc/default/p\nExecStart=/usr/bin/find /data $OPTS\n",
          "/etc/default/p": "# x\nOPTS='-atime +3 -delete'\n"}, ("/", "/etc/default/p:2")),
        ({UNIT: "[Service]\nEnvironmentFile=/etc/p/*.env\nExecStart=/bin/sh $JOB\n",
          "/etc/p/a.env": 'JOB="/opt/purge"\n', "/opt/purge": PROGRAM}, ("/scratch", "/opt/purge:2")),
        ({"/etc/systemd/system/p@.service": "[Service]\nEnvironmentFile=/etc/p/%i.env\nExecStart=/x $O\n",
          "/etc/p/a.env": "O=-atime\n"}, ("/", "/etc/p/a.env:1")),
        ({UNIT: '[Service]\nEnvironment="A=1" JOB=/opt/purge\nExecStart=/bin/sh $JOB\n', "/opt/purge": PROGRAM},
         ("/scratch", "/opt/purge:2")),
        ({"/etc/cron.daily/x": "#!/bin/sh\n[ -r /opt/lib ] && . /opt/lib\nclean\n", "/opt/lib": PURGE},
         ("/scratch", "/opt/lib:2")),
        ({"/etc/cron.d/x": "0 3 * * * root /opt/x/job\n", "/opt/x/job": '#!/bin/bash\nsource "$(dirname "$0")/lib/clean"\n',
          "/opt/x/lib/clean": PURGE}, ("/scratch", "/opt/x/lib/clean:2")),
        ({"/etc/cron.daily/x": "#!/bin/bash\n. ${BASH_SOURCE%/*}/../clean\n", "/etc/clean": PURGE}, ("/scratch", "/etc/clean:2")),
        ({"/etc/cron.d/x": "0 3 * * * root /opt/job\n", "/opt/job": "#!/bin/sh\n. /opt/lib\n", "/opt/lib": PURGE},
         ("/scratch", "/opt/lib:2")),
        ({"/etc/cron.d/x": "0 3 * * * root sh -c '. /opt/lib; clean'\n", "/opt/lib": PURGE}, ("/scratch", "/opt/lib:2")),
        ({f"{SPOOL}/bob": "0 3 * * * . $HOME/.env; clean\n", "/home/bob/.env": PURGE}, ("/scratch", "/home/bob/.env:2")),
        ({f"{OWN}/p.service": "[Service]\nExecStart=%h/bin/purge\n", "/home/bob/bin/purge": PURGE},
         ("/scratch", "/home/bob/bin/purge:2")),
        ({f"{OWN}/p.service.d/a.conf": "[Service]\nExecStart=/usr/bin/find /data -atime +3 -delete\n"},
         ("/data", f"{OWN}/p.service.d/a.conf:2")),
        ({"/root/.local/share/systemd/user/p.service": "[Service]\nExecStart=/usr/bin/find /data -atime +3 -delete\n"},
         ("/data", "/root/.local/share/systemd/user/p.service:2")),
        ({f"{OWN}/p.service": "[Service]\nEnvironmentFile=%h/env\nExecStart=/usr/bin/find /data $O\n", "/home/bob/env": "O=-atime\n"},
         ("/", "/home/bob/env:1")),
    ],
)  # fmt: skip
def test_what_a_job_reads_in_is_a_part_of_it(files, rule):
    assert seen(files) == ([rule], [])


@pytest.mark.parametrize(
    "line",
    [
        ". $CONF/lib",
        '. "$(command -v lib)"',
        ". <(lib)",
        ". `lib`",
        ". lib",
        "eval x; cd $X && . ./lib",
        ". /opt/*/lib",
    ],
)
def test_what_is_read_in_by_a_name_that_cannot_be_told_is_said(line):
    assert seen({"/etc/cron.daily/x": f"#!/bin/sh\n{line}\n"}) == ([], ["/etc/cron.daily/x"])


def test_script_that_a_user_names_first_is_still_read_for_the_system():
    files = {
        UNIT: "[Service]\nExecStart=/bin/sh -c '. /opt/lib'\n",
        "/opt/lib": "#!/bin/sh\n/opt/purge\n",
        "/opt/purge": PROGRAM,
    }
    assert seen(files) == ([("/scratch", "/opt/purge:2")], [])
    assert seen({**files, f"{SPOOL}/eve": "0 3 * * * /opt/lib\n"}) == seen(files)
    costly = {
        **files,
        f"{SPOOL}/eve": "0 3 * * * /opt/a\n0 4 * * * /opt/lib\n",
        "/opt/a": "a" * (OF_ONE_USER - 9_000),
        "/opt/lib": "#!/bin/sh\n/opt/purge\n" + "#" * 9_000,
    }
    assert seen(costly)[0] == seen(files)[0]


def test_folder_that_a_user_may_not_list_any_more_is_still_listed_for_the_system():
    files = {UNIT: "[Service]\nExecStart=/usr/bin/run-parts /opt/jobs\n", "/opt/jobs/a": PROGRAM}
    table = "0 3 * * * /opt/a\n0 4 * * * /usr/bin/run-parts /opt/jobs\n"
    left = 100  # for the path, and not for the names in it
    eve = {
        f"{SPOOL}/eve": table,
        "/opt/a": "a" * (OF_ONE_USER - len(table) - 64 - len("/opt/a") - left),
    }
    assert seen(files)[0] == seen({**files, **eve})[0] == [("/scratch", "/opt/jobs/a:2")]


def test_words_that_begin_a_line_are_not_looked_for():
    """A record keeps what is looked for."""
    asked = set()

    class Watched(FakeReader):
        def stat(self, path, *, follow=True):
            asked.add(path)
            return super().stat(path, follow=follow)

    reader = Watched(
        {
            "/etc/cron.daily/x": "#!/bin/sh\nA=(\nhunter2\n)\npurge\n",
            "/usr/local/bin/purge": PROGRAM,
        },
        links={"/lib": "usr/lib"},
    )
    assert [rule.source for rule in Facts(reader).ageing.rules] == ["/usr/local/bin/purge:2"]
    assert {path for path in asked if path.startswith("/usr/local")} == {"/usr/local/bin/purge"}


@pytest.mark.parametrize(
    "line", [". /usr/share/lib", ". /lib/lsb/init-functions", "echo . $x", "cp -r . $X", "# . $x"]
)
def test_what_is_no_file_of_the_site_is_not_read_in(line):
    assert seen({"/etc/cron.daily/x": f"#!/bin/sh\n{line}\n"}) == ([], [])


def test_program_of_a_variable_is_one_that_may_be_run():
    unit = "[Service]\nEnvironmentFile=/etc/p\nExecStart=/bin/sh $LOG\n"
    stats = look({UNIT: unit, "/etc/p": "LOG=/data\n", "/data/x": PURGE})
    assert (stats.rules, stats.hidden) == ((), ())


def test_large_crontab_of_a_user_is_not_read_and_said():
    large = "".join(f"0 3 * * * a{number} b c\n" for number in range(OF_ONE_USER // 15))
    assert len(large) > OF_ONE_USER
    reader = FakeReader({f"{SPOOL}/eve": large, f"{SPOOL}/bob": ROW}, links={"/lib": "usr/lib"})
    read, real = [], reader.read
    reader.read = lambda path: read.append(path) or real(path)
    found = Facts(reader).ageing
    assert [(one.path, "jobs of eve" in one.reason) for one in found.hidden] == [
        (f"{SPOOL}/eve", True)
    ]
    assert (f"{SPOOL}/eve" in read, f"{SPOOL}/bob" in read) == (False, True)


def test_crontabs_of_many_users_are_bounded_together_and_the_small_ones_are_read():
    big = ROW * (OF_ONE_USER // len(ROW) - 20)
    users = {f"{SPOOL}/a{number}": big for number in range(8)} | {
        f"{SPOOL}/z": PURGE.replace("find", "0 3 * * * find")
    }
    rules, hidden = seen(users)
    assert rules == [("/scratch", f"{SPOOL}/z:2")]
    most = (OF_ALL_USERS - len(users[f"{SPOOL}/z"])) // len(big)
    assert hidden == [f"{SPOOL}/a{number}" for number in range(most, 8)]


def test_script_of_a_user_is_read_whole_or_hidden():
    table, purge, line = "0 3 * * * /opt/a\n", "find /scratch -atime +1\n", "true\n"
    script = line * ((OF_ONE_USER - 2000) // len(line)) + purge
    rules, hidden = seen({f"{SPOOL}/bob": table, "/opt/a": script})
    assert ([path for path, _ in rules], hidden) == (["/scratch"], [])
    assert seen({f"{SPOOL}/bob": table, "/opt/a": line * 400 + script}) == ([], ["/opt/a"])


def test_what_is_read_of_a_user_is_bounded_also_where_it_is_not_followed():
    """What was read is in a record, and is looked through for it."""
    telling = "find /a -atime +1\n" + "true\n" * (OF_ONE_USER // 5)
    scripts = {f"/opt/{number}": "#!/bin/sh\n" + telling for number in range(64)}
    table = "".join(f"0 3 * * * {path}\n" for path in scripts)
    units = {f"{OWN}/{number}.service": "[Service]\n" + telling for number in range(64)}
    large = {f"{SPOOL}/{name}": ROW * (OF_ONE_USER // len(ROW) + 1) for name in ("eve", "mallory")}
    data = {path: "\0" + text for path, text in scripts.items()}
    for files in (
        {f"{SPOOL}/bob": table, **scripts},
        {f"{SPOOL}/bob": table, **data},
        units,
        large,
    ):
        reader = FakeReader(files, links={"/lib": "usr/lib"})
        read, real = [], reader.read
        reader.read = lambda path, read=read, real=real: read.append(real(path)) or read[-1]
        assert len(Facts(reader).ageing.hidden) >= len(files) - 8
        assert sum(len(one) for one in read if isinstance(one, bytes)) <= 8 * OF_ONE_USER + len(
            table
        )


def test_compiled_program_of_a_user_is_not_read_and_costs_nothing():
    programs = {f"/opt/{number}": b"\x7fELF" + bytes(8 * OF_ONE_USER - 99) for number in range(9)}
    table = "".join(f"0 3 * * * {path}\n" for path in (*programs, "/opt/purge"))
    queries = {("head", "--bytes=4", path): "\x7fELF" for path in programs}
    found = seen({f"{SPOOL}/bob": table, **programs, "/opt/purge": PURGE}, queries=queries)
    assert found == ([("/scratch", "/opt/purge:2")], [])


def test_files_that_variables_of_a_user_name_are_bounded():
    unit = "[Service]\nEnvironmentFile=%h/env\nExecStart=/x\n"
    env = "".join(f"A{number}=/opt/{number}\n" for number in range(9999))
    assert "/home/bob/env" in seen({f"{OWN}/p.service": unit, "/home/bob/env": env})[1]


def test_homes_on_the_network_are_left_alone_unless_their_users_linger():
    mounts = "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 0:50 / /home rw - nfs4 server:/x rw\n"
    files = {
        "/proc/self/mountinfo": mounts,
        f"{OWN}/p.service": "[Service]\nExecStart=/usr/bin/find /data -atime +3\n",
    }
    reader = FakeReader(files, links={"/lib": "usr/lib"})
    found = Facts(reader).ageing
    assert (found.rules, found.hidden) == ((), ())
    assert not [path for path in reader.seen if path.startswith("/home")]
    (one,) = look({**files, "/var/lib/systemd/linger/bob": ""}).hidden
    assert (one.path, "bob" in one.reason) == ("/var/lib/systemd/linger/bob", True)


def test_home_that_may_not_be_looked_at_is_said_once():
    files = {f"/home/{name}/.config/systemd/user/p.service": "" for name in ("amy", "bob")}
    (one,) = look(
        files, unreadable={"/home/amy": "needs root: a", "/home/bob": "needs root: b"}
    ).hidden
    assert (one.path, one.reason) == ("/home", "units of users: needs root: a")


@pytest.mark.parametrize("target", ["/etc/shadow", "/home/amy/.ssh/id_ed25519"])
def test_unit_of_a_user_that_leads_to_a_secret_is_not_read(target):
    reader = FakeReader(
        {f"{OWN}/x": "", target: "[Service]\nExecStart=/opt/x\n"},
        links={"/lib": "usr/lib", f"{OWN}/p.service": target},
    )
    read = []
    reader.read = lambda path, read_of=reader.read: read.append(path) or read_of(path)
    assert [one.path for one in Facts(reader).ageing.hidden] == [f"{OWN}/p.service"]
    assert not {f"{OWN}/p.service", target}.intersection(read)


@pytest.mark.parametrize(
    ("kind", "path", "content", "kept"),
    [
        ("script", "/opt/x", "#!/bin/sh\n. /opt/lib -t TOKEN\nCF=/opt/c\nKEY=abc\n. $CF/a\n",
         "#!/bin/sh\n. /opt/lib\n_=/opt/c\n\n. $CF/a\n"),
        ("script", "/home/bob/env", "TOKEN=abc\nJOB=/home/bob/purge\nO=-atime\n", "\n_=/home/bob/purge\n: st_atime\n"),
        ("unit", f"{OWN}/p.service",
         "[Service]\nEnvironment=TOKEN=a JOB=/opt/a\nEnvironmentFile=-/opt/e\nExecStart=/opt/x --token b\nExecStop=/usr/bin/find /data -atime +1\n",
         "\nEnvironment=_=/opt/a\nEnvironmentFile=/opt/e\nExecStart=/opt/x\nExecStop=/usr/bin/find '/data' -atime +1\n"),
    ],
)  # fmt: skip
def test_record_keeps_what_is_read_in_and_no_secrets(kind, path, content, kept):
    assert keep_age_lines(content, kind) == kept
    files = {
        "/opt/c/a": PURGE,
        "/opt/lib": PURGE,
        "/opt/e": "O=-atime\n",
        "/opt/a": PURGE,
        "/opt/x": PURGE,
    }
    start = {"/etc/cron.d/x": f"0 3 * * * root {path}\n"}
    assert seen({**files, **start, path: kept}) == seen({**files, **start, path: content})


def test_files_of_variables_of_a_long_unit_are_found_in_one_pass():
    before = process_time()
    found = list(
        files_in("[Service]\n" + "EnvironmentFile=/a\n" * 200_000 + "EnvironmentFile=/b\n", "unit")
    )
    assert found == [(2, "read", "/a"), (200_002, "read", "/b")]
    assert process_time() - before < 8  # what is quadratic takes a minute


def test_folder_of_very_many_names_is_listed_once_and_counts_as_read(monkeypatch):
    """Each line tries all names, and each file that is meant is looked at."""
    names = {f"/home/bob/d/{number}": "" for number in range(3000)}
    lines = "".join(f"@daily . /home/bob/d/*x{number}\n" for number in range(500))
    listed = []
    monkeypatch.setattr(FakeReader, "list", counting(FakeReader.list, listed))
    _, hidden = seen({**names, f"{SPOOL}/bob": lines})
    assert listed.count("/home/bob/d") == 1
    tried = 500 - sum(path.startswith("/home/bob/d/") for path in hidden)
    assert 0 < tried <= OF_ONE_USER // (3000 // 8)
    _, hidden = seen(
        {
            **names,
            **{f"/home/bob/d/b{number}": PURGE for number in range(5000)},
            f"{SPOOL}/bob": "@daily . /home/bob/d/*\n",
        }
    )
    assert "/home/bob/d" in hidden


@pytest.mark.parametrize("row", ["@daily . /home/eve/{}d/*x\n", "@daily run-parts /home/eve/{}d\n"])
def test_names_in_folders_that_are_spelled_anew_are_bounded(row, monkeypatch):
    monkeypatch.setattr(ageing, "OF_ONE_USER", 2048)
    names = {f"/home/eve/d/{number}": "" for number in range(400)}
    table = "".join(row.format("./" * number) for number in range(24))
    reader = FakeReader({f"{SPOOL}/eve": table, **names}, links={"/lib": "usr/lib"})
    listed, real = [], reader.list
    reader.list = lambda path: listed.append(real(path)) or listed[-1]
    assert Facts(reader).ageing.hidden
    assert (
        sum(len(one) for one in listed if isinstance(one, tuple))
        <= 8 * (2048 - len(table)) + 500
        < 24 * 400
    )


def test_names_in_drop_in_folders_that_are_links_to_one_folder_are_bounded(monkeypatch):
    """Each link is another path, and no name ends in .conf."""
    monkeypatch.setattr(ageing, "OF_ONE_USER", 2048)
    names = {f"/home/eve/d/{number:060}": "" for number in range(1000)}
    units = {
        f"/home/eve/.config/systemd/user/u{number}.service.d": "/home/eve/d"
        for number in range(100)
    }
    reader = FakeReader(names, links={"/lib": "usr/lib"} | units)
    listed, real = [], reader.list
    reader.list = lambda path: listed.append(real(path)) or listed[-1]
    assert "more than is read of the jobs of eve" in Facts(reader).ageing.hidden[-1].reason
    assert sum(len(one) for one in listed if isinstance(one, tuple) and len(one) == 1000) <= 10_000


def test_folders_of_a_user_that_hold_too_many_names_to_list_are_bounded():
    units = {
        f"/home/eve/.config/systemd/user/u{number}.service.d": "/home/eve/d"
        for number in range(100)
    }
    reader = FakeReader({"/home/eve/d/x": ""}, links={"/lib": "usr/lib"} | units)
    asked, real = [], reader.list

    def listing(path):
        if ".service.d" not in path:
            return real(path)
        asked.append(path)
        return Unreadable(f"{path} holds more than 524288 names")

    reader.list = listing
    assert Facts(reader).ageing.hidden
    assert len(asked) <= 8


def counting(method, calls):
    def counted(self, path):
        calls.append(path)
        return method(self, path)

    return counted


LARGE = "#!/bin/sh\n" + "true\n" * 400_000


@pytest.mark.parametrize(
    ("files", "of_user"),
    [
        ({f"{SPOOL}/eve": "@daily /opt/s.sh\n", "/opt/s.sh": LARGE}, True),
        ({f"{SPOOL}/root": "@daily /opt/s.sh\n", "/opt/s.sh": LARGE}, False),
        (
            {
                f"{SPOOL}/eve": "@daily /opt/s.sh\n",
                "/etc/cron.d/x": "@daily root /opt/s.sh\n",
                "/opt/s.sh": LARGE,
            },
            False,
        ),
        ({"/etc/cron.d/x": "@daily eve /home/eve/s.sh\n", "/home/eve/s.sh": LARGE}, True),
        ({"/var/lib/systemd/linger/eve": ""}, True),
    ],
)
def test_what_a_user_keeps_from_being_read_is_known_as_of_a_user(files, of_user):
    hidden = Facts(FakeReader(files, links={"/lib": "usr/lib"})).ageing.hidden
    assert [one.is_of_user for one in hidden] == [of_user]
