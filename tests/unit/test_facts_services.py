"""Facts about the clock, systemd-oomd and a desktop, and systemd's configuration files."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.services.clock import SYNCHRONIZED, TRACKING
from hosttune.facts.services.oomd import _PROPERTIES, units_of
from hosttune.facts.services.systemd_config import parse, read_settings
from hosttune.facts.services.units import show_command
from hosttune.host.door import Completed, Process, Stat
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

GROUPS = "/sys/fs/cgroup/system.slice"
SHOWN = "Id={}\nManagedOOMSwap={}\nManagedOOMMemoryPressure={}\nManagedOOMPreference={}\n"


def process(pid=7, name="python", cgroup="/", devices=("/dev/nvidia0",)):
    return Process(
        pid,
        name,
        "alice",
        (name,),
        0,
        0,
        devices,
        cgroup,
        0.0,
        uid=1000,
        program=f"/usr/bin/{name}",
    )


CHRONY = {f"{GROUPS}/chrony.service/cgroup.procs": ""}
TRACKED = (
    "A9FEA97B,169.254.169.123,4,1795251443.9,-0.0000012,0.0,0.0,-1.2,0.0,0.0,0.0,0.0,16.1,{}\n"
)


@pytest.mark.parametrize(
    ("leap", "is_known"), [("Normal", True), ("Insert second", True), ("Not synchronised", False)]
)
def test_clock_of_chrony_is_what_it_says(leap, is_known):
    clock = Facts(FakeReader(CHRONY, queries={TRACKING: TRACKED.format(leap)})).clock
    assert (clock.is_synchronized, clock.daemons) == (is_known, ("chrony",))


@pytest.mark.parametrize(("files", "is_known"), [({SYNCHRONIZED: ""}, True), ({}, False)])
def test_clock_of_timesyncd_is_told_by_its_file(files, is_known):
    reader = FakeReader({f"{GROUPS}/systemd-timesyncd.service/cgroup.procs": "", **files})
    assert Facts(reader).clock.is_synchronized is is_known
    assert reader.asked == []  # timedatectl would start a service


def test_clock_tells_for_how_long_no_server_answered():
    tracked = TRACKED.format("Normal")
    chrony = FakeReader(CHRONY, queries={TRACKING: tracked}, now=1795251443.9 + 7200)
    assert Facts(chrony).clock.silent_hours == 2.0
    behind = FakeReader(CHRONY, queries={TRACKING: tracked}, now=1795251443.9 - 7200)
    assert Facts(behind).clock.silent_hours == 0.0
    touched = Stat("file", 0o644, 0, 0, 0, int(1e18), 1, 1, 1)
    files = {f"{GROUPS}/systemd-timesyncd.service/cgroup.procs": "", SYNCHRONIZED: ""}
    assert (
        Facts(FakeReader(files, stats={SYNCHRONIZED: touched}, now=1e9 + 3600)).clock.silent_hours
        == 1.0
    )
    del files[SYNCHRONIZED]
    assert Facts(FakeReader(files)).clock.silent_hours == 0.0


def test_clock_without_a_daemon_is_not_synchronised():
    clock = Facts(FakeReader()).clock
    assert (clock.is_synchronized, clock.daemons) == (False, ())


@pytest.mark.parametrize(
    "answer",
    [
        Unreadable("timed out"),
        Completed(1, b"506 Cannot talk to daemon", b""),
        Completed(0, b"x,y", b""),
        ABSENT,
    ],
)
def test_clock_without_an_answer_is_unknown_and_the_daemons_are_there(answer):
    clock = Facts(FakeReader(CHRONY, queries={TRACKING: answer})).clock
    assert clock.daemons == ("chrony",)
    with pytest.raises(UnknownFact, match=r"timed out|Cannot talk|x,y|not installed"):
        _ = clock.is_synchronized


def test_clock_of_another_daemon_is_unknown_with_the_way_to_ask_it():
    with pytest.raises(UnknownFact, match="ntpq -p"):
        _ = Facts(FakeReader({f"{GROUPS}/ntpsec.service/cgroup.procs": ""})).clock.is_synchronized


def test_section_of_systemd_is_read_and_the_last_value_counts():
    text = "A=0\n[Login]\n# IdleAction=lock\nIdleAction = ignore\nIdleAction=suspend\n[Other]\nIdleAction=halt\n"
    assert parse(text, "Login") == {"IdleAction": "suspend"}


def test_drop_in_in_etc_hides_one_of_the_same_name_and_beats_the_main_file():
    reader = FakeReader(
        {
            "/etc/systemd/logind.conf": "[Login]\nIdleAction=lock\nKillUserProcesses=yes\n",
            "/usr/lib/systemd/logind.conf": "[Login]\nIdleAction=halt\nRemoveIPC=no\n",
            "/usr/lib/systemd/logind.conf.d/50-a.conf": "[Login]\nIdleAction=poweroff\n",
            "/etc/systemd/logind.conf.d/50-a.conf": "[Login]\nIdleAction=suspend\n",
            "/run/systemd/logind.conf.d/40-b.conf": "[Login]\nIdleAction=ignore\n",
        }
    )
    said = read_settings(reader, "logind.conf", "Login")
    assert said["IdleAction"] == ("suspend", "/etc/systemd/logind.conf.d/50-a.conf")
    assert "RemoveIPC" not in said
    assert said["KillUserProcesses"][0] == "yes"


def test_configuration_that_cannot_be_read_is_unknown():
    reader = FakeReader({"/etc/systemd/sleep.conf": Unreadable("needs root")})
    with pytest.raises(UnknownFact, match="needs root"):
        _ = Facts(reader).desktop.may_suspend


@pytest.mark.parametrize(
    ("files", "links", "may"),
    [
        ({}, {}, True),
        ({"/etc/systemd/sleep.conf": "[Sleep]\nAllowSuspend=no\n"}, {}, False),
        ({}, {"/etc/systemd/system/sleep.target": "/dev/null"}, False),
        ({"/etc/systemd/sleep.conf": "[Sleep]\nAllowSuspend=yes\n"}, {}, True),
    ],
)
def test_suspend_is_forbidden_by_configuration_or_by_a_mask(files, links, may):
    assert Facts(FakeReader(files, links=links)).desktop.may_suspend is may


@pytest.mark.parametrize("target", ["multi-user.target", "runlevel3.target"])
def test_no_display_manager_starts_where_the_machine_stops_before_it(target):
    links = {
        "/etc/systemd/system/default.target": f"/usr/lib/systemd/system/{target}",
        "/etc/systemd/system/display-manager.service": "/usr/lib/systemd/system/gdm3.service",
    }
    assert Facts(FakeReader({}, links=links)).role.display_manager == ""


def test_target_without_a_link_is_the_graphical_one():
    assert Facts(FakeReader({})).desktop.default_target == "graphical.target"
    link = {"/etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target"}
    assert Facts(FakeReader({}, links=link)).desktop.default_target == "multi-user.target"


def test_display_server_is_one_that_holds_a_gpu():
    found = (
        process(1, "Xorg"),
        process(2, "gnome-shell", devices=("/dev/dri/card0",)),
        process(3, "python"),
    )
    assert Facts(FakeReader({}, processes=found)).desktop.display_servers == ("Xorg (1)",)


def test_display_server_of_others_needs_root():
    with pytest.raises(UnknownFact, match="needs root"):
        _ = Facts(FakeReader({}, is_privileged=False)).desktop.display_servers


@pytest.mark.parametrize(
    ("cgroup", "units"),
    [
        ("/system.slice/slurmd.service", ("-.slice", "system.slice", "slurmd.service")),
        (
            "/user.slice/user-1.slice/user@1.service/app.slice/x.scope",
            ("-.slice", "user.slice", "user-1.slice", "user@1.service"),
        ),
        ("/system.slice/docker-0123.scope/inner", ("-.slice", "system.slice", "docker-0123.scope")),
        ("/kubepods/burstable", ("-.slice",)),
        ("", ("-.slice",)),
    ],
)
def test_units_of_a_group_end_where_the_system_manager_ends(cgroup, units):
    assert units_of(cgroup) == units


def oomd(shown, cgroup="/", **more):
    files = {
        f"{GROUPS}/systemd-oomd.service/cgroup.procs": "", "/dev/nvidia0": "", "/proc/meminfo": "SwapTotal: 9 kB\n",
        "/proc/swaps": "Filename Type Size Used Priority\n/swap.img file 9 0 -2\n", "/proc/1/comm": "systemd\n", **more,
    }  # fmt: skip
    units = {"-.slice", "machine.slice", "system.slice", "user.slice", *units_of(cgroup)}
    reader = FakeReader(
        files,
        queries={show_command(units, _PROPERTIES): shown},
        processes=(process(cgroup=cgroup),),
    )
    return Facts(reader).oomd


def test_oomd_that_does_not_run_is_not_asked_about():
    reader = FakeReader({f"{GROUPS}/chrony.service/cgroup.procs": ""})
    assert (Facts(reader).oomd.is_active, reader.asked) == (False, [])


def test_oomd_watches_for_swap_only_where_there_is_some():
    shown = SHOWN.format("-.slice", "kill", "auto", "none")
    assert [one.why for one in oomd(shown).watched] == ["swap"]
    assert oomd(shown, **{"/proc/swaps": "Filename Type Size Used Priority\n"}).watched == ()


def test_oomd_that_systemctl_does_not_tell_of_is_unknown():
    seen = oomd("")
    assert seen.is_active
    with pytest.raises(UnknownFact, match="systemctl show failed"):
        _ = seen.watched
