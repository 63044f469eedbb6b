"""One key of a unit with all its drop-ins, and the processes of a name."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.placed import Placed
from hosttune.facts.services.unit_files import assignments
from hosttune.facts.services.unit_settings import UnitSettings
from hosttune.host.door import Process
from hosttune.values import ABSENT, Unreadable
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
    rows = [value for _, *key, value in assignments(content) if key == ["Service", "ExecStart"]]
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
    key = setting({"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n"}, "logind.conf/Login/RemoveIPC")
    assert (key.exists, key.values) == (True, (Placed("no", "/etc/systemd/logind.conf", 2),))


def test_setting_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="needs root"):
        _ = setting({PACKAGED: Unreadable("needs root")}).values
    with pytest.raises(UnknownFact, match="is no UNIT/SECTION/KEY"):
        _ = setting({}, "logind.conf").values
    assert "slurmd.service/Service" in UnitSettings.name_fault("logind.conf")[1]


def test_processes_are_asked_for_by_the_name_that_the_kernel_keeps():
    asked = ("ps", "-C", "nvidia-persiste", "-o", "args=")

    def commands(answer, **kwargs):
        return Facts(FakeReader(queries={asked: answer}, **kwargs)).processes["nvidia-persistenced"].commands

    assert commands("/usr/bin/nvidia-persistenced --verbose\n") == ("/usr/bin/nvidia-persistenced --verbose",)
    assert commands("") == ()
    assert commands(Unreadable("not asked"), persistent_only=True) == ()
    with pytest.raises(UnknownFact, match="ps is not installed"):
        commands(ABSENT)


def test_first_process_of_a_name_tells_when_it_was_started():
    found = tuple(Process(pid, "dockerd", "root", (), 0, 0, (), "/", at) for pid, at in ((7, 200.9), (8, 100.5)))
    processes = Facts(FakeReader(processes=found)).processes
    assert (processes["dockerd"].started_at, processes["sshd"].started_at) == (100, 0)
    with pytest.raises(UnknownFact, match="hidden"):
        _ = Facts(FakeReader(processes=Unreadable("hidden"))).processes["dockerd"].started_at
