"""One key of a unit with all its drop-ins, and the processes of a name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.placed import Placed
from hosttune.facts.services.unit_files import parse_assignments
from hosttune.facts.services.unit_settings import UnitSettings
from hosttune.host.door import Process
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

NAME = "nvidia-persistenced.service"
EXEC = f"{NAME}/Service/ExecStart"
PACKAGED = f"/usr/lib/systemd/system/{NAME}"
EARLY = f"/usr/lib/systemd/system/{NAME}.d/10-early.conf"
LATE = f"/etc/systemd/system/{NAME}.d/90-late.conf"


def setting(files, name=EXEC, **kwargs):
    return Facts(FakeReader(files, **kwargs)).unit_settings[name]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("[Service]\nExecStart=/bin/a -x\n", ("/bin/a -x",)),
        ("[Service]\nExecStart=\nExecStart = /bin/a\n", ("", "/bin/a")),
        ("[Service]\n#ExecStart=/bin/a\n;ExecStart=/bin/b\n", ()),
        ("[Unit]\nExecStart=/bin/a\n[Service]\n[Install]\nExecStart=/bin/b\n", ()),
        ("[Service]\nExecStart=/bin/a \\\n# a comment\n  --long \\\n  --more\nExecStartPre=/bin/b\n",
         ("/bin/a --long --more",)),
        ("[Service]\nExecStart=/bin/a \\", ("/bin/a",)),
        ("", ()),
    ],
)  # fmt: skip
def test_unit_file_is_read_as_systemd_does(content, found):
    rows = [
        value for _, *key, value in parse_assignments(content) if key == ["Service", "ExecStart"]
    ]
    assert tuple(rows) == found


def test_drop_ins_are_read_in_systemds_order_and_a_reset_clears_what_came_before():
    files = {
        PACKAGED: "[Service]\nExecStart=/bin/a\n",
        LATE: "[Service]\nExecStart=\nExecStart=/bin/c\n",
        EARLY: "[Service]\nExecStart=/bin/b\n",
    }
    found = setting(files)
    assert found.values == (
        Placed("/bin/a", PACKAGED, 2), Placed("/bin/b", EARLY, 2), Placed("", LATE, 2), Placed("/bin/c", LATE, 3),
    )  # fmt: skip
    assert found.standing == (Placed("/bin/c", LATE, 3),)
    assert [one.place for one in found.standing_without(LATE)] == [f"{PACKAGED}:2", f"{EARLY}:2"]
    assert not setting(files, "other.service/Service/ExecStart").exists


def test_masked_unit_exists_and_file_of_a_program_always_does():
    masked = setting({}, links={f"/etc/systemd/system/{NAME}": "/dev/null"})
    assert (masked.exists, masked.is_masked) == (True, True)
    key = setting(
        {"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n"}, "logind.conf/Login/RemoveIPC"
    )
    assert (key.exists, key.values) == (True, (Placed("no", "/etc/systemd/logind.conf", 2),))


def test_setting_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="needs root"):
        _ = setting({PACKAGED: Unreadable("needs root")}).values
    with pytest.raises(UnknownFact, match="is no UNIT/SECTION/KEY"):
        _ = setting({}, "logind.conf").values
    assert "slurmd.service/Service" in UnitSettings.name_fault("logind.conf")[1]


PROGRAM = "/usr/bin/nvidia-persistenced"
DAEMON = Process(
    7,
    "nvidia-persiste",
    "nvidia-persistenced",
    (PROGRAM, "--verbose"),
    0,
    0,
    (),
    "/",
    9.0,
    uid=120,
    program=PROGRAM,
)


def test_processes_are_asked_for_by_the_name_that_the_kernel_keeps():
    def commands(*found, **kwargs):
        return (
            Facts(FakeReader(processes=found, **kwargs)).processes["nvidia-persistenced"].commands
        )

    assert commands(DAEMON) == ("/usr/bin/nvidia-persistenced --verbose",)
    assert commands(replace(DAEMON, program=f"{PROGRAM} (deleted)")) == (
        "/usr/bin/nvidia-persistenced --verbose",
    )
    assert commands() == ()
    assert (
        Facts(FakeReader(processes=Unreadable("no"), persistent_only=True)).processes["x"].commands
        == ()
    )


@pytest.mark.parametrize(
    "called", [{"uid": 1001}, {"uid": 1001, "program": ""}, {"uid": 0, "program": "/usr/bin/sudo"}, {"uid": 120, "program": "/usr/sbin/nginx"}]
)  # fmt: skip
def test_process_that_only_calls_itself_so_is_none(called):
    """A link of a user's to a program with the set-uid bit runs with root's rights, by any name."""
    found = (replace(DAEMON, pid=8, started_at=1.0, **called), DAEMON)
    seen = Facts(FakeReader(processes=found)).processes["nvidia-persistenced"]
    assert (len(seen.commands), seen.started_at) == (1, 9)


@pytest.mark.parametrize("untold", [{"uid": -1}, {"uid": 0, "program": ""}])
def test_process_of_which_nothing_tells_whose_it_is_leaves_it_unknown(untold):
    with pytest.raises(UnknownFact, match="whether process 7 is nvidia-persistenced is not known"):
        _ = (
            Facts(FakeReader(processes=(replace(DAEMON, **untold),)))
            .processes["nvidia-persistenced"]
            .commands
        )


def test_first_process_of_a_name_tells_when_it_was_started():
    dockerd = Process(
        7, "dockerd", "root", (), 0, 0, (), "/", 200.9, uid=0, program="/usr/bin/dockerd"
    )
    found = (dockerd, replace(dockerd, pid=8, started_at=100.5))
    processes = Facts(FakeReader(processes=found)).processes
    assert (processes["dockerd"].started_at, processes["sshd"].started_at) == (100, 0)
    with pytest.raises(UnknownFact, match="hidden"):
        _ = Facts(FakeReader(processes=Unreadable("hidden"))).processes["dockerd"].started_at


class _Counting(FakeReader):
    """Counts the folders and links that are read."""

    looks = 0

    def list(self, path):
        self.looks += 1
        return super().list(path)

    def link(self, path):
        self.looks += 1
        return super().link(path)


@pytest.mark.parametrize("ask", [
    lambda facts, number: facts.unit_settings[f"u{number}.service/Service/Type"].values,
    lambda facts, _: facts.lost_settings.files,
])  # fmt: skip
def test_time_for_many_units_grows_with_their_number_only(ask):
    """An image or a record may have thousands, and the links of all were gone through for each."""

    def looks(many):
        files = {
            f"/etc/systemd/system/u{n}.service": "[Service]\nType=simple\n" for n in range(many)
        }
        reader = _Counting(files)
        facts = Facts(reader)
        for number in range(many):
            ask(facts, number)
        return reader.looks

    assert looks(80) < 5 * looks(20)
