"""Unit facts: one systemctl call where systemd runs, unit files elsewhere."""

import pytest

from hosttune.facts import Facts, RequestedNames, UnknownFact
from hosttune.facts.services.unit_files import (
    drop_in_folders,
    enabled_names,
    install_keys,
    parse_preset,
    template_of,
)
from hosttune.facts.services.units import parse_show, read_units, show_command
from hosttune.host.door import Completed
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

LIB = "/usr/lib/systemd/system"
ETC = "/etc/systemd/system"
TIMER = "[Unit]\nDescription=x\n[Timer]\nOnCalendar=weekly\n[Install]\nWantedBy=timers.target\n"
SHOWN = """Id=fstrim.timer
Names=fstrim.timer
LoadState=loaded
ActiveState=active
FragmentPath=/usr/lib/systemd/system/fstrim.timer
DropInPaths=/etc/systemd/system/fstrim.timer.d/10-often.conf /etc/systemd/system/fstrim.timer.d/20.conf
UnitFileState=enabled
UnitFilePreset=enabled
NeedDaemonReload=yes

Id=nope.service
Names=nope.service
LoadState=not-found
ActiveState=inactive
FragmentPath=
DropInPaths=
UnitFileState=
UnitFilePreset=
NeedDaemonReload=no

Id=systemd-timesyncd.service
Names=dbus-org.freedesktop.timesync1.service systemd-timesyncd.service
LoadState=masked
ActiveState=reloading
FragmentPath=/etc/systemd/system/systemd-timesyncd.service
UnitFileState=masked
UnitFilePreset=enabled
NeedDaemonReload=no
"""
NAMES = ("fstrim.timer", "nope.service", "dbus-org.freedesktop.timesync1.service")


def from_files(files, *names, links=None, **options):
    reader = FakeReader(files, links={"/lib": "usr/lib"} | (links or {}), **options)
    units = read_units(reader, names)
    assert reader.asked == []
    return units


def test_units_are_asked_for_in_one_call():
    reader = FakeReader(folders=("/run/systemd/system",), queries={show_command(NAMES): SHOWN})
    units = Facts(reader, RequestedNames(units=frozenset(NAMES))).units
    timer = units["fstrim.timer"]
    assert (timer.is_enabled, timer.is_active, timer.preset, timer.needs_reload) == (
        True,
        True,
        "enabled",
        True,
    )
    assert timer.drop_ins == (
        f"{ETC}/fstrim.timer.d/10-often.conf",
        f"{ETC}/fstrim.timer.d/20.conf",
    )
    assert len(reader.asked) == 1


def test_units_not_found_and_masked_are_told_apart():
    units = parse_show(SHOWN, NAMES)
    missing = units["nope.service"]
    assert (missing.exists, missing.enabled_state, missing.preset) == (
        False,
        "not-found",
        "unknown",
    )
    alias = units["dbus-org.freedesktop.timesync1.service"]
    assert (alias.exists, alias.load_state, alias.enabled_state, alias.is_active) == (
        True,
        "masked",
        "masked",
        True,
    )


def test_units_nothing_asked_starts_no_program():
    reader = FakeReader(folders=("/run/systemd/system",))
    units = Facts(reader).units
    assert reader.asked == []
    with pytest.raises(UnknownFact, match="was not asked"):
        _ = units["fstrim.timer"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            Completed(1, b"", b"Failed to connect to bus: Host is down\n"),
            "systemctl show failed: Failed to connect",
        ),
        (Completed(1, b"", b""), "it printed nothing"),
        (Unreadable("systemctl did not end within 20 s"), "did not end"),
    ],
)
def test_units_a_manager_that_does_not_answer_is_unknown(answer, reason):
    reader = FakeReader(
        folders=("/run/systemd/system",), queries={show_command(("a.service",)): answer}
    )
    units = Facts(reader, RequestedNames(units=frozenset({"a.service"}))).units
    with pytest.raises(UnknownFact, match=reason):
        _ = units["a.service"]


def test_units_from_files_enabled_by_a_link():
    units = from_files(
        {f"{LIB}/fstrim.timer": TIMER},
        "fstrim.timer",
        links={f"{ETC}/timers.target.wants/fstrim.timer": f"{LIB}/fstrim.timer"},
    )
    unit = units["fstrim.timer"]
    assert (unit.enabled_state, unit.active_state, unit.fragment) == (
        "enabled",
        "inactive",
        f"{LIB}/fstrim.timer",
    )
    assert unit.is_enabled
    assert not unit.is_active


def test_units_from_files_disabled_static_indirect_and_not_found():
    files = {
        f"{LIB}/fstrim.timer": TIMER,
        f"{LIB}/fstrim.service": "[Service]\nExecStart=/sbin/fstrim\n",
        f"{LIB}/a.socket": "[Install]\nAlso=b.service\n",
        f"{LIB}/commented.service": "[Install]\n#WantedBy=x\nWantedBy=\n",
    }
    names = ("fstrim.timer", "fstrim.service", "a.socket", "commented.service", "x.service")
    units = from_files(files, *names)
    states = [units[name].enabled_state for name in names]
    assert states == ["disabled", "static", "indirect", "static", "not-found"]
    assert not units["x.service"].exists


def test_units_from_files_install_section_of_a_drop_in_counts():
    files = {
        f"{LIB}/tmp.mount": "[Mount]\nWhat=tmpfs\n",
        f"{ETC}/tmp.mount.d/10.conf": "[Install]\nWantedBy=local-fs.target\n",
    }
    unit = from_files(files, "tmp.mount")["tmp.mount"]
    assert (unit.enabled_state, unit.drop_ins) == ("disabled", (f"{ETC}/tmp.mount.d/10.conf",))


@pytest.mark.parametrize("content", [None, ""])
def test_units_from_files_masked_by_link_or_empty_file(content):
    files = {f"{LIB}/tmp.mount": TIMER} | ({} if content is None else {f"{ETC}/tmp.mount": content})
    links = {f"{ETC}/tmp.mount": "/dev/null"} if content is None else {}
    unit = from_files(files, "tmp.mount", links=links)["tmp.mount"]
    assert (unit.enabled_state, unit.load_state, unit.exists, unit.drop_ins) == (
        "masked",
        "masked",
        True,
        (),
    )


def test_units_from_files_alias_has_the_state_of_its_unit():
    files = {f"{LIB}/ssh.service": "[Install]\nWantedBy=multi-user.target\nAlias=sshd.service\n"}
    links = {f"{ETC}/sshd.service": "/lib/systemd/system/ssh.service"}
    units = from_files(files, "sshd.service", "ssh.service", links=links)
    assert units["sshd.service"].enabled_state == "enabled"
    assert units["sshd.service"].fragment == f"{LIB}/ssh.service"
    assert units["ssh.service"].enabled_state == "enabled"


def test_units_from_files_instance_comes_from_its_template():
    files = {
        f"{LIB}/getty@.service": "[Install]\nWantedBy=getty.target\n",
        f"{ETC}/getty@.service.d/a.conf": "[Service]\n",
    }
    links = {f"{ETC}/getty.target.wants/getty@tty1.service": f"{LIB}/getty@.service"}
    units = from_files(files, "getty@tty1.service", "getty@tty2.service", links=links)
    assert units["getty@tty1.service"].enabled_state == "enabled"
    assert units["getty@tty1.service"].drop_ins == (f"{ETC}/getty@.service.d/a.conf",)
    assert units["getty@tty2.service"].enabled_state == "disabled"


def test_units_from_files_linked_from_elsewhere():
    unit = from_files(
        {"/opt/x/x.service": TIMER}, "x.service", links={f"{ETC}/x.service": "/opt/x/x.service"}
    )["x.service"]
    assert unit.enabled_state == "linked"


def test_units_from_files_admin_file_hides_the_vendors():
    unit = from_files({f"{LIB}/a.service": TIMER, f"{ETC}/a.service": "[Service]\n"}, "a.service")[
        "a.service"
    ]
    assert (unit.fragment, unit.enabled_state) == (f"{ETC}/a.service", "static")


def test_units_alias_loop_ends_as_not_found():
    links = {f"{ETC}/a.service": f"{ETC}/b.service", f"{ETC}/b.service": f"{ETC}/a.service"}
    assert from_files({}, "a.service", links=links)["a.service"].enabled_state == "not-found"


def test_units_unreadable_folder_is_unknown_not_absent():
    with pytest.raises(UnknownFact, match=r"^permission denied$"):
        from_files({f"{LIB}/a.service": TIMER}, "a.service", unreadable={ETC: "permission denied"})


def test_units_of_an_image_ignore_what_runs_elsewhere():
    files = {f"{LIB}/a.service": TIMER, "/run/systemd/system/a.service": "[Service]\n"}
    unit = from_files(files, "a.service", kind="root", persistent_only=True)["a.service"]
    assert unit.fragment == f"{LIB}/a.service"


def test_preset_first_line_of_the_earliest_file_decides():
    files = {
        f"{LIB}/a.service": TIMER,
        f"{LIB}/b.service": TIMER,
        f"{LIB}/c.service": TIMER,
        f"{LIB}-preset/90-systemd.preset": "# all\nenable a.service\ndisable b.*\n",
        f"{ETC}-preset/10-site.preset": "disable a.service\n",
        f"{LIB}-preset/99-default.preset": "disable *\n",
        f"{ETC}-preset/99-default.preset": "ignore c.service\n",
    }
    units = from_files(files, "a.service", "b.service", "c.service")
    assert [units[f"{name}.service"].preset for name in "abc"] == [
        "disabled",
        "disabled",
        "unknown",
    ]


def test_preset_of_a_template_names_instances():
    rule = parse_preset("enable getty@.service tty1 tty2\n")[0]
    assert rule.fits("getty@tty1.service")
    assert not rule.fits("getty@tty9.service")


def test_preset_without_a_line_is_enable():
    assert from_files({f"{LIB}/a.service": TIMER}, "a.service")["a.service"].preset == "enabled"


def test_unit_names_and_their_drop_in_folders():
    assert template_of("getty@tty1.service") == "getty@.service"
    assert template_of("getty@.service") == template_of("ssh.service") == ""
    assert drop_in_folders("a-b-c.service") == (
        "a-b-c.service.d",
        "a-b-.service.d",
        "a-.service.d",
        "service.d",
    )
    assert install_keys("[Unit]\nAlias=no\n[Install]\n Alias = a.service\nAlso=\n") == ("Alias",)


def test_enabled_names_are_the_links_below_etc():
    links = {
        f"{ETC}/multi-user.target.wants/tuned.service": f"{LIB}/tuned.service",
        f"{ETC}/a.service": "/dev/null",
    }
    assert enabled_names(FakeReader(links=links)) == frozenset({"tuned.service"})
    assert enabled_names(FakeReader()) == frozenset()
