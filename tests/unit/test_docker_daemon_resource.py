"""Keys of docker's daemon.json: merged, kept, refused; and the way back that takes these keys
alone.
"""

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.facts.containers.docker_flags import expand_words, parse_flags
from hosttune.host.door import Completed, Process
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.resources.containers.docker_file import name_of, split_keys
from hosttune.values import Activation, FileValue, HoldKind, Verdict
from tests.unit.wish_host import One, host

PATH = "/etc/docker/daemon.json"
UNIT = "/usr/lib/systemd/system/docker.service"
SERVICE = {
    UNIT: "[Service]\nExecStart=/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock\n"
}
SHM = "- docker-daemon: default-shm-size\n  exactly: 1G"
LOGS = '- docker-daemon: log-opts\n  object: {max-size: 100m, max-file: "3"}'


def machine(text=None, files=None, **kwargs):
    file = {} if text is None else {PATH: text}
    return host({**SERVICE, **file, **(files or {})}, **kwargs)


def dockerd(started):
    return Process(
        7,
        "dockerd",
        "root",
        ("/usr/bin/dockerd",),
        0,
        0,
        (),
        "/",
        started,
        uid=0,
        program="/usr/bin/dockerd",
    )


def test_missing_file_is_made_and_goes_with_its_last_key():
    one = One(machine(), f"{SHM}\n{LOGS}")
    assert one.changes() == [
        f"docker-config:{PATH} ABSENT -> present",
        'docker-daemon:default-shm-size ABSENT -> "1G"',
        'docker-daemon:log-opts/max-size ABSENT -> "100m"',
        'docker-daemon:log-opts/max-file ABSENT -> "3"',
    ]
    assert {change.activation for change in one.plan().changes} == {Activation.RESTART}
    receipt = one.apply()
    assert (receipt.failed, receipt.verified) == ((), True)
    assert one.kept() == {
        PATH: '{\n  "default-shm-size": "1G",\n  "log-opts": {\n    "max-size": "100m",\n    "max-file": "3"\n  }\n}\n'
    }
    assert {finding.verdict for finding in one.plan().findings} == {Verdict.OK}
    assert one.undo().failed == ()
    assert one.kept() == {}


def test_file_of_somebody_keeps_all_its_bytes():
    text = '{\n    "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},\n    "log-opts": { }\n}'
    one = One(machine(text), LOGS)
    one.apply()
    assert one.door.read(PATH).decode() == text.replace(
        "{ }", '{\n        "max-size": "100m",\n        "max-file": "3"\n    }'
    )
    one = One(machine('{"debug": true}'), SHM)
    one.apply()
    assert one.kept() == {PATH: '{"debug": true, "default-shm-size": "1G"}'}
    one.undo()
    assert one.kept() == {}


def test_members_of_members_are_merged():
    wish = "- docker-daemon: default-ulimits\n  object: {memlock/Name: memlock, memlock/Hard: -1}"
    one = One(
        machine('{"default-ulimits": {"core": {"Hard": 0}}}'),
        f"{wish}\n- docker-daemon: features/cdi\n  exactly: true",
    )
    one.apply()
    assert one.kept() == {
        PATH: '{"default-ulimits": {"core": {"Hard": 0}, "memlock": {"Name": "memlock", "Hard": -1}}, '
        '"features": {"cdi": true}}'
    }
    one.undo()
    assert one.kept() == {}


def test_undo_leaves_what_somebody_has_added_since():
    one = One(machine(), SHM)
    one.apply()
    text = one.door.read(PATH).decode().replace('"1G"', '"1G",\n  "debug": true')
    one.door.files[PATH] = FileValue(text.encode())
    assert one.undo().failed == ()
    assert one.kept() == {PATH: '{\n  "debug": true\n}\n'}


def test_restart_is_waited_for_until_dockerd_was_started_anew():
    one = One(machine(processes=(dockerd(1_700_000_000.0),)), SHM)
    one.apply()
    finding = one.finding()
    assert str(finding.hold) == "waiting for a restart of docker"
    assert "sudo systemctl restart docker" in finding.todo
    one.door.base._processes = (dockerd(1_900_000_000.0),)
    assert one.finding().verdict is Verdict.OK


DROPIN = "/etc/systemd/system/docker.service.d/nv.conf"


def started_with(line, **more):
    return {DROPIN: f"[Service]\nExecStart=\nExecStart=/usr/bin/dockerd {line}\n", **more}


@pytest.mark.parametrize(
    ("text", "files", "wish", "kind", "says"),
    [
        ('{\n"default-shm-size": "64M"}', {}, SHM, HoldKind.OWNED, f'{PATH}:2 (default-shm-size is "64M")'),
        ('{"log-opts": "x"}', {}, LOGS, HoldKind.OWNED, "log-opts.max-size is no object"),
        (None, started_with("--default-shm-size=2G"), SHM, HoldKind.REFUSED, f"{DROPIN} gives default-shm-size"),
        (None, started_with("--log-opt max-size=1m"), LOGS, HoldKind.REFUSED, f"{DROPIN} gives log-opts"),
        (
            None,
            {
                DROPIN: "[Service]\nEnvironmentFile=-/etc/default/docker\nExecStart=\nExecStart=/usr/bin/dockerd $OPTS\n",
                "/etc/default/docker": 'OPTS="--debug --default-shm-size 1G"\n',
            },
            SHM,
            HoldKind.REFUSED,
            "gives default-shm-size",
        ),
        (None, started_with("--config-file /srv/d.json"), SHM, HoldKind.REFUSED, "lets dockerd read /srv/d.json"),
        (None, started_with("--log-driver journald"), LOGS, HoldKind.REFUSED, "the log driver is journald"),
        ('{"log-driver": "syslog"}', {}, LOGS, HoldKind.REFUSED, "the log driver is syslog"),
        (None, {}, LOGS.replace('"3"', "3"), HoldKind.REFUSED, "text alone in log-opts: 3"),
        (None, {}, "- docker-daemon: log-driver", HoldKind.REFUSED, "neither exactly nor object"),
        (None, started_with("--add-runtime=x=y"), "- docker-daemon: runtimes\n  object: {x/path: y}", HoldKind.NONE, ""),
        ('{"log-driver": "local"}', {}, LOGS, HoldKind.NONE, ""),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(text, files, wish, kind, says):
    finding = One(machine(text, files), wish).finding()
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, kind)
    assert says in finding.hold.detail
    assert bool(finding.changes) is (kind is HoldKind.NONE)


@pytest.mark.parametrize(
    ("door", "verdict", "says"),
    [
        (host(), Verdict.NOT_APPLICABLE, "docker.service is not installed"),
        (machine('{"a": 1,}'), Verdict.UNKNOWN, f"{PATH}:1:9: Expecting a key"),
        (machine('{\n"a": 1\n"b": 2}'), Verdict.UNKNOWN, f"{PATH}:3:1: Expecting ','"),
        (machine(unreadable={PATH: "needs root"}), Verdict.UNKNOWN, "needs root"),
        (machine('{"default-shm-size": "1G"}'), Verdict.OK, ""),
    ],
)
def test_answer_without_a_change(door, verdict, says):
    finding = One(door, SHM).finding()
    assert (finding.verdict, finding.changes) == (verdict, ())
    assert says in finding.reason


class Asked(Overlay):
    """A host on which dockerd says this of a file."""

    says = ""

    def run(self, argv, *, timeout_s):
        assert argv[:2] == ("dockerd", "--validate")
        self.seen = self.read(argv[2].partition("=")[2])
        if self.says:
            raise Refused(f"dockerd --validate: ended with status 1\n  {self.says}")
        return Completed(0, b"", b"")


@pytest.mark.parametrize(
    ("says", "took"),
    [
        ("", True),
        ("unknown flag: --validate", True),
        ("directives are invalid: default-shm-sise", False),
    ],
)
def test_dockerd_looks_at_the_file_before_it_is_put_in_place(says, took):
    one = One(machine("{}", {"/usr/bin/dockerd": ""}), SHM)
    one.door = Asked(one.door.base)
    one.door.says = says
    receipt = one.apply()
    assert (receipt.failed == ()) is took
    assert b'"default-shm-size": "1G"' in one.door.seen
    assert one.door.read("/var/lib/hosttune/daemon.json") is one.door.base.read("/nothing")
    assert (one.door.read(PATH) == b"{}") is not took


def test_key_that_changed_after_the_plan_is_a_conflict_that_names_it():
    (change,) = One(machine("{}"), SHM).plan().changes
    with pytest.raises(Conflict, match=f"default-shm-size in {PATH} is no longer ABSENT"):
        address_kinds()["docker-daemon"].write(machine('{"default-shm-size": "2G"}'), change)


def test_flags_are_read_as_dockerd_reads_them():
    words = ["-H", "fd://", "-sbtrfs", "-D", "--debug", "--log-opt=a=b", "--data-root", "/x"]
    assert list(parse_flags(words)) == [
        ("hosts", "fd://"), ("storage-driver", "btrfs"), ("debug", ""), ("debug", ""), ("log-opts", "a=b"), ("data-root", "/x"),
    ]  # fmt: skip
    assert list(expand_words(["a", "$X", "${X}", "$NO"], {"X": "b c"})) == ["a", "b", "c", "b c"]


def test_name_of_keys_with_slashes_is_a_pointer():
    assert name_of(("a/b", "c~d")) == "a~1b/c~0d"
    assert split_keys("a~1b/c~0d") == ("a/b", "c~d")
