"""Settings of units and of systemd's programs: who sets them, what is written, what still runs
otherwise.
"""

import math

import pytest

from hosttune.resources.services.systemd_setting import parse_amount
from hosttune.values import HoldKind, Verdict
from tests.hosts.container_files import limits_text, service_files
from tests.unit.wish_host import One, host

UNIT = "/usr/lib/systemd/system/slurmd.service"
OWN = "/etc/systemd/system/slurmd.service.d/60-hosttune-kernel-site.conf"
LOGIND = "/etc/systemd/logind.conf.d/60-hosttune-kernel-site.conf"
WANT = "- systemd-setting: slurmd.service/Service/LimitMEMLOCK\n  exactly: infinity"
IPC = '- systemd-setting: logind.conf/Login/RemoveIPC\n  exactly: "no"'


def slurm(service="ExecStart=/usr/sbin/slurmd\n", files=None, memlock="8388608"):
    running = service_files("slurmd.service", 900, "slurmd", limits_text(memlock=memlock))
    kernel = {"/proc/sys/fs/nr_open": "1\n"}
    return host({UNIT: f"[Service]\n{service}", **running, **kernel, **(files or {})})


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("8M", 8 << 20),
        ("infinity", math.inf),
        ("1024:524288", 1024),
        ("yes", None),
        ("8388608", 8 << 20),
        ("1E", 1 << 60),
        ("2P", 1 << 51),
    ],
)
def test_amount_in_the_words_of_systemd(word, number):
    assert parse_amount(word) == number


def test_unit_drop_in_is_written_and_waits_for_a_restart():
    one = One(slurm(), WANT)
    assert one.finding().verdict is Verdict.DIFFERS
    receipt = one.apply()
    assert receipt.failed == ()
    assert one.kept()[OWN].endswith("[Service]\nLimitMEMLOCK=infinity\n")
    found = one.finding()
    assert (found.hold.kind, found.hold.detail) == (
        HoldKind.WAITING, "a restart of slurmd.service, which runs with 8388608",
    )  # fmt: skip
    assert one.undo().failed == ()
    assert one.kept() == {}


def test_unit_that_runs_with_enough_needs_no_file():
    assert One(slurm(memlock="unlimited"), WANT).finding().verdict is Verdict.OK


def test_unit_value_of_its_package_is_no_decision_of_the_site():
    assert One(slurm("LimitMEMLOCK=8M\n"), WANT).finding().changes


def test_unit_value_of_an_administrator_stays():
    site = "/etc/systemd/system/slurmd.service.d/site.conf"
    found = One(slurm(files={site: "[Service]\nLimitMEMLOCK=64G\n"}), WANT).finding()
    assert (found.hold.kind, found.hold.detail) == (
        HoldKind.OWNED,
        f"{site}:2 of the administrator (LimitMEMLOCK=64G)",
    )


def test_unit_packaged_drop_in_that_is_read_later_wins():
    later = "/usr/lib/systemd/system/slurmd.service.d/90-vendor.conf"
    found = One(slurm(files={later: "[Service]\nLimitMEMLOCK=64G\n"}), WANT).finding()
    assert found.hold.kind is HoldKind.OWNED


def test_unit_higher_value_is_not_lowered():
    want = "- systemd-setting: slurmd.service/Service/LimitMEMLOCK\n  at_least: 1048576"
    assert (
        One(slurm("LimitMEMLOCK=infinity\n", memlock="unlimited"), want).finding().verdict
        is Verdict.OK
    )


def test_unit_not_installed_does_not_apply():
    assert (
        One(host({"/proc/sys/fs/nr_open": "1\n"}), WANT).finding().verdict is Verdict.NOT_APPLICABLE
    )


def test_two_keys_of_a_unit_share_one_file():
    more = "- systemd-setting: slurmd.service/Service/TasksMax\n  exactly: infinity"
    one = One(slurm(), f"{WANT}\n{more}")
    one.apply()
    assert one.kept()[OWN].endswith("[Service]\nLimitMEMLOCK=infinity\nTasksMax=infinity\n")


def test_configuration_default_is_changed_by_a_drop_in():
    one = One(host({"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n"}), IPC)
    one.apply()
    assert one.kept()[LOGIND].endswith("[Login]\nRemoveIPC=no\n")
    assert one.finding().verdict is Verdict.OK


@pytest.mark.parametrize("word", ["no", "false", "0", "off"])
def test_configuration_word_for_no_is_enough(word):
    assert (
        One(host({"/etc/systemd/logind.conf": f"[Login]\nRemoveIPC={word}\n"}), IPC)
        .finding()
        .verdict
        is Verdict.OK
    )


def test_configuration_of_a_later_file_wins():
    site = "/etc/systemd/logind.conf.d/99-site.conf"
    found = One(host({site: "[Login]\nRemoveIPC=yes\n"}), IPC).finding()
    assert (found.hold.kind, found.hold.detail) == (
        HoldKind.OWNED,
        f"{site}:2 of the administrator (RemoveIPC=yes)",
    )


def test_name_that_is_none_is_refused():
    found = One(host(), "- systemd-setting: slurmd/LimitMEMLOCK\n  exactly: infinity").finding()
    assert found.hold.kind is HoldKind.REFUSED
