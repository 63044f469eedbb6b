"""What cannot be read to its end holds every mount, or is said; nobody's crontab can hold the look
itself.
"""

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage import ageing
from hosttune.facts.storage.ageing import SPOOL
from hosttune.facts.storage.ageing_text import files_in, keep_age_lines, rules_in
from hosttune.host.door import Completed
from tests.unit.fake_reader import FakeReader

PURGE = "#!/bin/sh\nfind /scratch -atime +30 -delete\n"
MOUNTS = "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 0:50 / /nfs rw - nfs4 server:/x rw\n31 20 0:51 / /auto rw - autofs a rw\n"


def look(files, links=None, **options):
    return Facts(FakeReader(files, links={"/lib": "usr/lib"} | (links or {}), **options)).ageing


def places(content, kind="script"):
    return [rule.path for rule in rules_in(content, "job", kind) if rule.uses_atime]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("tmpwatch -umc 30d /data", ["/data"]),
        ("tmpwatch -m 30d /data", ["/data"]),
        ("tmpreaper --mtime 7d /data", ["/data"]),
        ("stmpclean -m 1w /data", ["/data"]),
        ("tmpwatch $FLAGS -m 30d /data", ["/", "/data"]),
        ("tmpreaper $EVERYTHING", ["/"]),
        ("tmpreaper -f", ["/"]),
        ("tmpreaper 7d", ["/"]),
        ("cd /data && tmpwatch 30d .", ["/"]),
    ],
)
def test_cleaner_holds_the_folders_that_it_names(command, expected):
    assert places(f"{command}\n") == expected


@pytest.mark.parametrize(
    "command",
    [
        "find /data '(' -name a -o -name b ')' -atime +30 -delete",
        "find /data \\( -name a -o -name b \\) -atime +30 -delete",
        "x=$(find /data -atime +30)",
        'rm "$(find /data -atime +30 | head -1)"',
        "(find /data -atime +30 -delete)",
        "`find /data -atime +30 -delete`",
        "find /data ( -name a ) -atime +3 -delete",
    ],
)
def test_find_ends_at_operators_of_the_shell_alone(command):
    assert places(f"{command}\n") == ["/data"]
    assert (
        places(f"[Service]\nExecStart=/usr/bin/{command}\n", "unit") == ["/data"]
        or "find" not in command[:4]
    )


@pytest.mark.parametrize(
    "row",
    [
        'subprocess.run(["find","/data","-atime","+30","-delete"])',
        'OPTS="-atime +30 -delete"; find $DIR $OPTS',
        "FIND=/usr/bin/find; $FIND /data -atime +3 -delete",
        "unlink if -A $_ > 30",
        "unlink $_ if (-A $_ > 30 && -f _)",
        "for (@files) { unlink if -A > 30 }",
        'args=(-atime +30); find /data "${args[@]}"',
        "stat -c '%x %n' /data/* | sort",
        "ls --time=atime -l /data",
        "du --time=access /data",
        "st[stat.ST_ATIME]",
        "os.stat(path)[7]",
        "File.atime(path)",
        "rm /data/**/*(.a+30)",
        "rm /data/*(a+30)",
        "systemd-tmpfiles --clean /opt/site.conf",
        "systemd-tmpfiles /opt/site.conf --clean",
        "echo -atime",
        "find /data -name ';' -o -name '|' -atime +30 -delete",
        "find /data -printf '%p;%A@\\n'",
        "find /data -exec ls {} \\; -atime +3",
        "find /data -mtime +3 | xargs find -atime +3",
        "find '/my data' -atime +3",
        "find /data -exec find /b -atime +3",
        "find /data -files0-from /x -atime +3",
        "echo -atime +30 | xargs find /data",
        "echo 'find /data -atime' > /tmp/x; echo -atime >> /opt/x",
        "xargs --arg-file=x -n1 $FIND -amin +3",
    ],
)
def test_test_by_access_that_no_find_claims_is_everywhere(row):
    assert "/" in places(f"{row}\n")


@pytest.mark.parametrize(
    "row",
    [
        "systemd-tmpfiles --clean",
        "/usr/bin/systemd-tmpfiles --clean >/dev/null 2>&1",
        "systemd-tmpfiles --create /usr/lib/tmpfiles.d/x.conf",
        "ls -A $DIR | grep -A 3 x",
        '[ -z "$(ls -A /data)" ] && iptables -A INPUT -j DROP',
        "mount -o remount,noatime,atime /data",
        "stat -c '%s %y' /data; date +%X",
        "y = x*(a+1) + f(a-1)",
        "du --time /data; df --output=used /data",
        "find /data -mtime +3 -delete",
        "apt install tmpreaper bc",
    ],
)  # fmt: skip
def test_words_that_only_look_like_it(row):
    assert places(f"{row}\n") == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("P=/a\nfind $P -atime +1\n", ["/"]),
        ("for d in $(cat list); do find $d -atime +1; done\n", ["/"]),
        ("cd /a\nfind . -atime +1\n", ["/"]),
        ("P=/a\ncd /b\nfind /c $P -atime +1\n", ["/c", "/"]),
        ("cd /a\ncd b\nfind . -atime +1\n", ["/"]),
    ],
)
def test_variable_or_folder_of_another_command_is_everywhere(script, expected):
    assert places(script) == expected
    assert places(keep_age_lines(script)) == expected  # a record says the same


@pytest.mark.parametrize("kind", ["crontab", "table"])
def test_folder_of_one_row_is_not_that_of_the_next(kind):
    user = "root " if kind == "table" else ""
    content = f"0 1 * * * {user}cd /a && find . -atime +1\n0 2 * * * {user}find . -atime +1\n0 3 * * * {user}./x.sh\n"
    assert places(content, kind) == ["/", "/"]
    assert "/x.sh" in [path for _, _, path in files_in(content, kind)]


SERVICE = "[Service]\nExecStart=/usr/bin/find /scratch -atime +6 -delete\n"
VENDOR = "/usr/lib/systemd/system"


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({"/etc/anacrontab": "1 5 x /opt/purge\n", "/opt/purge": PURGE}, "/opt/purge:2"),
        ({"/etc/cron.yearly/x": PURGE}, "/etc/cron.yearly/x:2"),
        ({"/etc/systemd/system/p.timer": "[Timer]\n", f"{VENDOR}/p.service": SERVICE}, f"{VENDOR}/p.service:2"),
        (
            {"/etc/systemd/system/p.timer": "[Timer]\nUnit=q.service\n", f"{VENDOR}/q.service": SERVICE},
            f"{VENDOR}/q.service:2",
        ),
        (
            {"/etc/systemd/system/p.timer.d/x.conf": "[Timer]\nUnit=q.service\n", f"{VENDOR}/q.service": SERVICE},
            f"{VENDOR}/q.service:2",
        ),
        ({f"{VENDOR}/p@.timer": "[Timer]\n", f"{VENDOR}/p@.service": SERVICE}, f"{VENDOR}/p@.service:2"),
        ({f"{VENDOR}/p.timer": "[Timer]\nUnit=q@a.service\n", f"{VENDOR}/q@.service": SERVICE}, f"{VENDOR}/q@.service:2"),
        (
            {
                "/etc/slurm/slurm.conf": "Include site.conf\n",
                "/etc/slurm/site.conf": "Epilog=/opt/epilog\n",
                "/opt/epilog": PURGE,
            },
            "/opt/epilog:2",
        ),
        (
            {
                "/etc/systemd/system/p.service": "[Service]\nExecStart=/usr/bin/find /scratch \\\n# why\n -atime +3 -delete\n"
            },
            "/etc/systemd/system/p.service:2",
        ),
    ],
)  # fmt: skip
def test_places_that_delete_by_access_time(files, source):
    seen = look(files)
    assert [(rule.path, rule.source) for rule in seen.rules if rule.uses_atime] == [
        ("/scratch", source)
    ]
    assert seen.hidden == ()


def test_options_that_a_unit_keeps_in_a_variable():
    unit = "[Service]\nEnvironment=OPTS='-atime +3 -delete'\nExecStart=/usr/bin/find /data $OPTS\n"
    assert [rule.path for rule in look({"/etc/systemd/system/p.service": unit}).rules] == ["/"]


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (
            {"/etc/cron.d/x": "0 3 * * * root /opt/big\n", "/opt/big": PURGE + "#" * (1 << 20)},
            "/opt/big",
        ),
        ({f"{SPOOL}/bob": "".join(f"0 3 * * * /opt/{i}\n" for i in range(9999))}, f"{SPOOL}/bob"),
        (
            {
                f"{SPOOL}/bob": "0 3 * * * /opt/a; /opt/b\n",
                "/opt/a": "#" * 300_000,
                "/opt/b": "#" * 300_000,
            },
            "/opt/b",
        ),
    ],
)
def test_what_is_too_much_is_said(files, path):
    assert [one.path for one in look(files).hidden] == [path]


@pytest.mark.parametrize(
    ("start", "hidden"),
    [(b"\x7fELF", []), (b"#!/b", ["/opt/x"]), (None, ["/opt/x"])],
    ids=["a compiled program", "a script", "nobody can tell"],
)
def test_large_file_is_hidden_unless_it_is_a_compiled_program(start, hidden):
    unit = {
        "/etc/systemd/system/x.service": "[Service]\nExecStart=/opt/x\n",
        "/opt/x": "x" * ((1 << 20) + 1),
    }
    asked = {} if start is None else {("head", "--bytes=4", "/opt/x"): Completed(0, start, b"")}
    assert [one.path for one in look(unit, queries=asked).hidden] == hidden


@pytest.mark.parametrize("target", ["/proc/kcore", "/sys/x", "/dev/zero", "/run/x"])
def test_script_behind_a_link_into_the_kernel_is_not_read(target):
    reader = FakeReader(
        {f"{SPOOL}/bob": "0 3 * * * /home/bob/x\n", target: PURGE},
        links={"/lib": "usr/lib", "/home/bob/x": target},
    )
    read = []
    reader.read = lambda path, read_of=reader.read: read.append(path) or read_of(path)
    assert Facts(reader).ageing.rules == ()
    assert "/home/bob/x" not in read


def test_script_on_what_is_no_disk_is_said_and_not_read():
    mounts = (
        "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 0:50 / /home/bob/m rw - fuse.evil evil rw\n"
    )
    files = {
        "/proc/self/mountinfo": mounts,
        f"{SPOOL}/bob": "0 3 * * * /home/bob/m/x\n",
        "/home/bob/m/x": PURGE,
    }
    assert [one.path for one in look(files).hidden] == ["/home/bob/m/x"]


@pytest.mark.parametrize("far", ["/nfs", "/auto"])
def test_nothing_beyond_a_network_mount_is_touched(far):
    files = {
        "/proc/self/mountinfo": MOUNTS, f"{far}/x": PURGE,
        "/etc/cron.d/x": f"0 3 * * * root /opt/site/x\n0 4 * * * root find {far}/tmp /opt/site/y -atime +3 -delete\n",
    }  # fmt: skip
    reader = FakeReader(files, links={"/lib": "usr/lib", "/opt/site": far})
    seen = Facts(reader).ageing
    assert [one.path for one in seen.hidden] == ["/opt/site/x"]
    assert [rule.path for rule in seen.rules] == [f"{far}/tmp", f"{far}/y"]
    assert not [path for path in reader.seen if path.startswith((f"{far}/", "/opt/site/"))]


def test_slurm_conf_behind_a_link_to_the_network_is_said():
    files = {"/proc/self/mountinfo": MOUNTS, "/nfs/slurm/slurm.conf": "Epilog=/opt/x\n"}
    seen = look(files, {"/etc/slurm": "/nfs/slurm"})
    assert "/etc/slurm/slurm.conf" in [one.path for one in seen.hidden]


@pytest.mark.parametrize(("count", "hidden"), [(400, []), (30_000, ["/opt/p"])])
def test_patterns_of_slurm_conf_are_tried_on_few_names(count, hidden, monkeypatch):
    tried = []
    monkeypatch.setattr(ageing, "fits_glob", lambda *_: tried.append(1) or False)
    names = tuple(f"n{number}" for number in range(count))
    files = {
        "/etc/slurm/slurm.conf": "".join(f"Epilog=/opt/p/*{number}\n" for number in range(2000))
    }
    reader = FakeReader(files, links={"/lib": "usr/lib"})
    listed = reader.list
    monkeypatch.setattr(reader, "list", lambda path: names if path == "/opt/p" else listed(path))
    asked = []
    read = reader.read
    monkeypatch.setattr(reader, "read", lambda path: asked.append(path) or read(path))
    assert [
        one.path for one in Facts(reader).ageing.hidden if one.path.startswith("/opt")
    ] == hidden
    assert len(tried) <= 1_000_000
    assert sum(path.startswith("/opt/p/") for path in asked) <= count
