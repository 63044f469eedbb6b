"""How a host stands, read of records and hosts in memory; the file that keeps it; waiting until it
is as before.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.trial import standing
from hosttune.actions.trial.standing import (
    await_health,
    read_planned,
    read_standing,
    standing_of,
    standing_text,
)
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import BadInput
from hosttune.facts import Facts, signs
from hosttune.facts.kernel import after_boot
from hosttune.facts.losses import Aspect, HostStanding, Loss, Sign, Unseen, find_losses
from hosttune.facts.network import reached
from hosttune.facts.services.units import FAILED
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordReader, read_record
from hosttune.values import Action, Address, Change, NeverAsked, Unreadable
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_reached import sshd_process

SLOT, UUID = "0000:1b:00.0", "GPU-11111111-2222-3333-4444-555555555555"


class Answering:
    """A record that also answers these questions."""

    def __init__(self, record, **queries):
        self.record, self.queries, self.kind, self.asked = record, queries, "record", []

    def __getattr__(self, name):
        return getattr(self.record, name)

    def query(self, argv, *, timeout_s=10.0):
        self.asked.append((tuple(argv), timeout_s))
        return self.queries.get(" ".join(argv[:2]), None) or self.record.query(
            argv, timeout_s=timeout_s
        )


def session(reader=None, **queries):
    reader = reader or Answering(read_record(str(HOSTS / "h100-8x-2socket.json")), **queries)
    return examine(reader, builtin_catalog(), Policy(today="2026-11-01"), collect=False)


def completed(text):
    return Completed(0, text.encode(), b"")


def names(found, aspect):
    return [one.name for one in found.signs if one.aspect is aspect]


def smi(*slots):
    rows = "".join(
        f"{slot.upper().replace('0000:', '00000000:')}, {UUID[:-1]}{n}\n"
        for n, slot in enumerate(slots)
    )
    return {"nvidia-smi " + signs.UUIDS[1]: completed(rows)}


def test_a_host_is_read_in_all_aspects_and_what_cannot_be_told_is_unseen():
    failed = "a.service loaded failed failed A\nhosttune-ready.service loaded failed failed B\n"
    found = read_standing(session(**smi(SLOT), **{" ".join(FAILED[:2]): completed(failed)}))
    assert names(found, Aspect.FAILED_UNIT) == [
        "a.service"
    ]  # the gate holds work until the trial is over
    assert names(found, Aspect.GPU) == [f"{UUID[:-1]}0"]
    assert len(names(found, Aspect.DRIVER)) == 8
    assert {one.state for one in found.signs if one.aspect is Aspect.DRIVER} == {"nvidia"}
    assert "/" in names(found, Aspect.MOUNT)
    assert find_losses(found, found) == ()
    unseen = {one.aspect for one in found.unseen}
    assert {
        Aspect.SSHD,
        Aspect.BANNER,
        Aspect.ADDRESS,
    } <= unseen  # older records were not asked for these


def full(**spaces):
    """The h100 with file systems that are filled like these."""
    record = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    record["spaces"] |= spaces
    return session(RecordReader(record, "full.json"))


def test_disk_that_a_user_fills_is_no_loss(monkeypatch):
    """Else each user could have a run on trial rolled back, and the host rebooted."""
    before, after = session(), full(**{"/data": [3758096384000, 1000, 100000000, 90000000, 0]})
    assert find_losses(read_standing(before), read_standing(after)) == ()
    monkeypatch.setattr(standing, "FILLED_BY_USERS", frozenset())
    found = find_losses(read_standing(before), read_standing(after))
    assert [(one.aspect, one.name) for one in found] == [(Aspect.HEALTH, "storage-scratch")]


def test_rules_whose_findings_any_user_brings_about_are_there():
    rules = builtin_catalog().rules
    assert {*rules} >= standing.FILLED_BY_USERS


def test_nvidia_smi_that_does_not_end_is_stuck_and_nothing_else_asks_it():
    hangs = {"nvidia-smi " + signs.UUIDS[1]: Unreadable("nvidia-smi did not end within 120 s")}
    one = session(**hangs)
    found = read_standing(one, smi_s=120)
    assert [(one.aspect, one.is_stuck) for one in found.unseen if one.is_stuck] == [
        (Aspect.GPU, True), (Aspect.FABRIC, True),
    ]  # fmt: skip
    assert [words for words, _ in one.reader.asked if words[0] == "nvidia-smi"] == [signs.UUIDS]
    assert dict(one.reader.asked)[signs.UUIDS] == 120
    lost = find_losses(read_standing(session(**smi(SLOT))), found)
    assert any(loss.is_final and loss.aspect is Aspect.GPU for loss in lost)


def test_mounts_that_fstab_lost_meanwhile_are_still_looked_for():
    kept = HostStanding((Sign(Aspect.MOUNT, "/proc", "rw"),))
    one = session()
    assert "/proc" not in names(read_standing(one), Aspect.MOUNT)
    there = {mount.target for mount in one.facts.mounts.visible}
    other = next(
        target
        for target in sorted(there)
        if target not in one.facts.fstab.by_path and target != "/"
    )
    asked = replace(kept, signs=(Sign(Aspect.MOUNT, other, "rw"),))
    assert other in names(read_standing(one, asked), Aspect.MOUNT)


ROOT = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
AUTO = "40 22 0:40 / /data rw,relatime shared:1 - autofs systemd-1 rw,fd=5\n"
DATA = "41 40 8:17 / /data rw,relatime - ext4 /dev/sdb1 rw\n"
AT_A_LOOK = "/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 /data ext4 x-systemd.automount,nofail 0 2\n"


class Automounting(FakeReader):
    """Who looks into /data has it mounted, where its disk is there."""

    def __init__(self, table, *, has_disk):
        super().__init__(
            {"/proc/self/mountinfo": table, "/proc/mounts": "", "/etc/fstab": AT_A_LOOK}
        )
        self.has_disk = has_disk

    def list(self, path):
        if path == "/data" and self.has_disk:
            self.files["/proc/self/mountinfo"] = ROOT + AUTO + DATA
        return super().list(path)


@pytest.mark.parametrize("has_disk", [True, False])
def test_automount_whose_disk_is_gone_is_lost_and_one_that_was_only_idle_is_not(has_disk):
    before = HostStanding(
        tuple(
            standing._compare_mounts(
                Facts(Automounting(ROOT + AUTO + DATA, has_disk=True)), HostStanding()
            )
        )
    )
    now = HostStanding(
        tuple(standing._compare_mounts(Facts(Automounting(ROOT + AUTO, has_disk=has_disk)), before))
    )
    found = [one.sentence for one in find_losses(before, now)]
    assert found == ([] if has_disk else ["/data is not mounted any more"])
    idle = tuple(
        standing._compare_mounts(Facts(Automounting(ROOT + AUTO, has_disk=False)), HostStanding())
    )
    assert find_losses(HostStanding(idle), HostStanding(idle)) == ()


@pytest.mark.parametrize("options", ["noauto,user", "noauto", "users,nofail"])
def test_mount_that_no_boot_makes_or_that_any_user_ends_is_no_loss(options):
    table = ROOT + "41 22 8:17 / /stick rw,relatime - ext4 /dev/sdb1 rw\n"
    fstab = f"/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 /stick ext4 {options} 0 0\n"
    facts = Facts(FakeReader({"/proc/self/mountinfo": table, "/etc/fstab": fstab}))
    assert [one.name for one in standing._compare_mounts(facts, HostStanding())] == ["/"]
    assert names(after_boot.read_signs(facts.reader, facts), Aspect.MOUNT) == ["/"]


def test_mount_of_a_user_stands_for_none_that_was_before():
    table = ROOT + "41 22 8:17 / /data rw,relatime - ext4 /dev/sdb1 rw\n"
    files = {
        "/proc/self/mountinfo": table,
        "/etc/fstab": "",
        "/run/mount/utab": "TARGET=/data OPTS=uhelper=udisks2\n",
    }
    before = HostStanding((Sign(Aspect.MOUNT, "/data", "rw"),))
    now = HostStanding(tuple(standing._compare_mounts(Facts(FakeReader(files)), before)))
    assert [one.sentence for one in find_losses(before, now)] == ["/data is not mounted any more"]


NEVER = Unreadable(NeverAsked("not in this record"))
OF_CONNECTIONS = (
    "ssh@9-10.0.0.5:22-203.0.113.9:4711.service", "sshd@2-7-fd00::1:22-fd00::2:50000.service", "x@1-2-0.service",
    "systemd-coredump@0-3-2193_2194-0.service", "y@4-unknown.service",
)  # fmt: skip
# What udev starts for an array or a volume group on a loop device, which udisks2 makes of any file
# of a user.
OF_FILES = (
    "mdadm-last-resort@md127.service", "mdmonitor.service", "mdmonitor-oneshot.service", "mdcheck_start.service", "mdcheck_continue.service",
    "e2scrub@-run-media-eve-x.service", "e2scrub_fail@-run-media-eve-x.service", "xfs_scrub@-run-media-eve-x.service", "apport-autoreport.service", "mdmon@md127.service", "lvm-activate-evil.service",
    "lvm2-pvscan@7:0.service",
)  # fmt: skip
OF_USERS = (
    *OF_FILES,
    "user@1001.service",
    "user-runtime-dir@1001.service",
    "session-c2.scope",
    "media-eve-stick.mount",
    "docker-0123456789ab.scope",
    "run-r0a1b.scope",
    "dbus-:1.3-org.freedesktop.problems@0.service",
)
OF_HOST = (
    "a.service", "getty@tty1.service", "postgresql@15-main.service", "openvpn@2-site.service", "kafka@0-node.service",
    "x@1-node-a@b.service",
)  # fmt: skip


def test_unit_of_one_connection_or_of_a_user_that_failed_says_nothing_of_the_host(monkeypatch):
    monkeypatch.setattr(
        signs, "failed_units", lambda _, **_how: (*OF_CONNECTIONS, *OF_HOST, *OF_USERS)
    )
    assert [one.name for one in signs.read_failed_units(FakeReader())] == list(OF_HOST)


@pytest.mark.parametrize(
    ("shown", "counts"),
    [
        ("Id=x.socket\nResult=trigger-limit-hit\nWantedBy=sockets.target\n", False),
        (
            "Id=x.socket\nResult=unit-start-limit-hit\nWantedBy=paths.target\n",
            False,
        ),  # files in /var/crash
        (
            "Id=x.socket\nResult=start-limit-hit\nTriggeredBy=x.path x.timer\n",
            False,
        ),  # its service, which ended well
        ("Id=x.socket\nResult=start-limit-hit\nTriggeredBy=x.timer\n", True),
        ("Id=x.socket\nResult=start-limit-hit\nTriggeredBy=\nWantedBy=multi-user.target\n", True),
        ("Id=x.socket\nResult=exit-code\nTriggeredBy=x.path\n", True),
        ("Result=resources\nId=x.socket\nWantedBy=sockets.target\n", True),
        (
            "Id=x.socket\nResult=exit-code\nBusName=org.freedesktop.fwupd\nWantedBy=\nRequiredBy=\n",
            False,
        ),  # by any call
        (
            "Id=x.socket\nResult=exit-code\nBusName=org.freedesktop.login1\nWantedBy=multi-user.target\n",
            True,
        ),
        ("Id=x.socket\nResult=exit-code\nBusName=a.b\nWantedBy=\nRequiredBy=c.service\n", True),
        (
            "Id=x.socket\nResult=exit-code\nBusName=\nWantedBy=\nRequiredBy=\n",
            True,
        ),  # a timer may have started it
        ("Id=x.socket\nResult=oom-kill\nWantedBy=multi-user.target\n", False),
        (
            "Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=eve\nDynamicUser=no\n",
            False,
        ),
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=1007\n", False),
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=of-a-directory\n", False),
        (
            "Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=drawn\nDynamicUser=yes\n",
            True,
        ),
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=slurm\n", True),
        (
            "Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=munge\n",
            True,
        ),  # no one logs in as it
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=1005\n", True),
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=nobody\n", True),
        ("Id=x.socket\nResult=signal\nWantedBy=multi-user.target\nUser=\n", True),
        (Unreadable("no answer"), True),
    ],
)
def test_unit_that_any_user_may_have_had_fail_is_no_loss(shown, counts, monkeypatch):
    accounts = (
        "root:x:0:0:::\nslurm:x:64030:64030:::\nnobody:x:65534:65534:::\neve:x:1001:1001:::\n"
    )
    accounts += "munge:x:1005:1005::/var/lib/munge:/sbin/nologin\n"
    properties = "--property=Id,Result,BusName,WantedBy,RequiredBy,TriggeredBy"
    monkeypatch.setattr(signs, "failed_units", lambda _, **_how: ("x.socket",))
    for more in (",User,DynamicUser", ""):  # of this release and of an older record
        asked = ("systemctl", "show", "--no-pager", f"{properties}{more}", "--", "x.socket")
        gone = {} if more else {(*asked[:3], f"{properties},User,DynamicUser", *asked[4:]): NEVER}
        reader = FakeReader({"/etc/passwd": accounts}, queries={asked: shown, **gone})
        found = [one.name for one in signs.read_failed_units(reader)]
        assert found == (["x.socket"] if counts else [])


NOTHING = HostStanding()
SSHD = "LISTEN 0 128 {} 0.0.0.0:* ino:30 sk:1 <->\n"


@pytest.mark.parametrize(
    ("listening", "lost"),
    [
        (("10.0.0.5:22", "127.0.0.1:22"), []),
        (("127.0.0.1:22",), ["sshd does not listen on 10.0.0.5:22 any more", "sshd on 10.0.0.5:22 does not answer as SSH-2.0 any more"]),
        (("0.0.0.0:22",), []),
        ((), ["sshd does not listen on 10.0.0.5:22 any more", "sshd does not listen on 127.0.0.1:22 any more"]),
    ],
)  # fmt: skip
def test_each_address_that_sshd_listens_on_counts(listening, lost, monkeypatch):
    monkeypatch.setattr(reached, "has_banner", lambda *_: True)

    def stands(sockets, before=NOTHING):
        listed = "".join(SSHD.format(one) for one in sockets)
        links = {"/proc/5/fd/3": "socket:[30]"}
        reader = FakeReader(
            links=links, queries={reached.LISTENERS: listed}, processes=(sshd_process(5),)
        )
        return HostStanding(tuple(standing._compare_sshd(reader, before)))

    before = stands(("10.0.0.5:22", "127.0.0.1:22"))
    found = [one.sentence for one in find_losses(before, stands(listening, before))]
    assert found[: len(lost)] == lost
    assert bool(found) is bool(lost)


def test_planned_values_that_are_not_in_force_are_told():
    one = session()
    address = Address("sysctl", "vm.swappiness")
    now = standing.read_address(address, one.reader)
    change = Change(address, Action.UPDATE, "60", now, "no-such-rule")
    assert read_planned(one, [change]) == ()
    (found,) = read_planned(one, [replace(change, after="7")])
    assert found.aspect is Aspect.PLANNED
    assert found.state == "vm.swappiness is not as it was planned (no-such-rule)"
    (lacking,) = read_planned(one, [], ["hosttune_never=1"])
    assert lacking.state == "hosttune_never=1 is not among the arguments of the running kernel"
    here = one.facts.kernel.command_line[-1]
    (kept,) = read_planned(one, [], [], [here, "hosttune_never=1"])
    assert kept.state == f"{here} is still among the arguments of the running kernel"


def test_subject_that_a_run_left_as_it_was_is_no_loss_when_it_comes_free():
    """A user takes away the job that held the change of /data2: the run has changed only /data."""
    one = session()

    def states(target):
        value = standing.read_address(Address("mount", target), one.reader)
        change = Change(
            Address("mount", target), Action.UPDATE, "noatime", value, "storage-noatime"
        )
        return [found.state for found in read_planned(one, [change])]

    assert [state.partition(":")[0] for state in states("/data")] == [
        "storage-noatime /data is not in force"
    ]
    assert states("/") == []


def test_what_the_rules_would_still_change_is_not_in_force():
    one = session()
    rule = next(finding.rule for finding in one.look(one.facts) if finding.changes)
    change = Change(
        Address("file", "/nowhere"),
        Action.CREATE,
        "",
        standing.read_address(Address("file", "/nowhere"), one.reader),
        rule,
    )
    assert any(
        found.state.startswith(f"{rule}") and "is not in force: " in found.state
        for found in read_planned(one, [change])
    )


def test_before_json_gives_back_what_was_kept():
    kept = HostStanding(
        (Sign(Aspect.HEALTH, "gpu-links", "8 lanes", 2), Sign(Aspect.MOUNT, "/data\udcff", "rw")),
        (Unseen(Aspect.GPU, "it hangs", is_stuck=True),),
    )
    assert standing_of(standing_text(kept)) == kept


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"format_version": 99}', '{"format_version": 1, "signs": 3}']
)
def test_a_before_json_that_is_none_says_so(content):
    with pytest.raises(BadInput, match=r"before\.json"):
        standing_of(content)


CLOCK = Loss(Aspect.CLOCK, "", "the clock is not synchronised any more")
UNIT = Loss(Aspect.FAILED_UNIT, "a.service", "a.service has failed")
UNSURE = Loss(Aspect.CLOCK, "", "not known: clock", is_known=False)
DEAD = Loss(Aspect.GPU, "GPU-1", "GPU 0 does not answer any more", is_final=True)


def waited(*looks, within=900.0, grace=120.0):
    """(is_healthy, sentences, seconds, looks) where each look is (from second, losses)."""
    clock = [0.0]
    asked = []

    def look(smi_s):
        asked.append(smi_s)
        return next(found for since, found in reversed(looks) if since <= clock[0])

    def wait(seconds):
        clock[0] += max(seconds, 0.001)

    judged = await_health(
        look, left_s=lambda: within - clock[0], wait=wait, now=lambda: clock[0], grace_s=grace
    )
    assert asked[0] == standing.FIRST_SMI_S
    assert set(asked[1:]) <= {standing.LATER_SMI_S}
    return judged.is_healthy, [one.sentence for one in judged.losses], judged.seconds, len(asked)


def test_a_host_that_is_quiet_for_the_grace_period_is_healthy():
    assert waited((0, ()))[:3] == (True, [], 120)


def test_what_comes_late_starts_the_grace_period_anew():
    assert waited((0, (CLOCK,)), (90, ()), (150, (CLOCK,)), (200, ()))[:3] == (True, [], 320)


def test_what_is_not_known_is_not_quiet_and_is_no_reason_to_go_back_before_the_time_is_up():
    is_healthy, said, seconds, _ = waited((0, (UNSURE,)))
    assert (is_healthy, said) == (False, ["not known: clock"])
    assert seconds >= 900


def test_a_loss_that_stays_after_settling_ends_the_wait_early():
    is_healthy, said, seconds, _ = waited((0, (UNIT,)))
    assert (is_healthy, said) == (False, ["a.service has failed"])
    assert standing.SETTLE_S <= seconds <= standing.SETTLE_S + standing.FLAP_S + standing.POLL_S


def test_a_unit_that_flaps_after_settling_is_asked_twice():
    flaps = [(second, (UNIT,) if second % 60 < 30 else ()) for second in range(300, 600, 30)]
    is_healthy, *_ = waited((0, (CLOCK,)), *flaps, (600, ()))
    assert is_healthy


def test_a_gpu_that_hangs_is_not_asked_a_second_time():
    assert waited((0, (DEAD,))) == (False, ["GPU 0 does not answer any more"], 0, 1)


def test_the_deadline_ends_the_wait():
    is_healthy, said, seconds, _ = waited((0, ()), within=60)
    assert (is_healthy, said) == (False, [])
    assert seconds == pytest.approx(60, abs=1)


def test_a_confirmation_in_the_last_second_counts():
    assert waited((0, ()), within=120)[0]


@pytest.mark.parametrize("name", ["FIRST_SMI_S", "SETTLE_S", "POLL_S", "FLAP_S"])
def test_limits_are_those_of_the_largest_hosts(name):
    assert (
        getattr(standing, name)
        == {"FIRST_SMI_S": 120, "SETTLE_S": 300, "POLL_S": 10, "FLAP_S": 30}[name]
    )
    assert reached.BANNER_S == 10
