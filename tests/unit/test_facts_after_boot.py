"""What a boot has lost of what was there before it, as hosttune kept it."""

import json
from uuid import UUID

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.gate import before_boot
from hosttune.codec import to_json
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.kernel import after_boot
from hosttune.facts.kernel.after_boot import KeptStanding, read_signs
from hosttune.facts.losses import Aspect, HostStanding, Sign, Unseen
from hosttune.values import Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_host import TrialHost

ROOT = "22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n"
DATA = "31 22 259:16 / /data rw shared:9 - ext4 /dev/nvme1n1 rw\n"
NOW = 1_750_000_000
OLD = "0123456789abcdef0123456789abcdef"
BEFORE = HostStanding(
    (Sign(Aspect.MOUNT, "/data", "rw"), Sign(Aspect.DRIVER, "0000:1a:00.0", "nouveau"))
)


def host(
    *,
    before=BEFORE,
    boot="old",
    uptime="4000.5",
    at=NOW - 5000,
    mounts=ROOT,
    content=None,
    **kwargs,
):
    kept = json.dumps(to_json(KeptStanding(1, boot, at, before))) if content is None else content
    files = {
        "/proc/self/mountinfo": mounts, "/etc/fstab": "/dev/nvme1n1 /data ext4 defaults 0 2\n",
        "/proc/sys/kernel/random/boot_id": "new\n", "/proc/uptime": f"{uptime} 9.9\n", after_boot.PATH: kept,
    }  # fmt: skip
    return Facts(FakeReader(files, **kwargs)).after_boot


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch):
    """Its driver is another one now, which is no loss."""
    now = {
        "drivers": (Sign(Aspect.DRIVER, "0000:1a:00.0", "nvidia"),),
        "gpus": (),
        "failed_units": (),
        "services": (),
    }
    now |= {"routes": (), "addresses": (), "links": (), "rdma_ports": ()}
    for name, found in now.items():
        monkeypatch.setattr(after_boot.signs, f"read_{name}", lambda *_, found=found: iter(found))


def test_mount_that_did_not_come_back_is_lost_and_another_driver_is_not():
    seen = host()
    assert (seen.is_compared, seen.lost, seen.failed) == (
        True,
        ("/data is not mounted any more",),
        (),
    )
    assert host(mounts=ROOT + DATA).lost == ()
    assert host(mounts=ROOT + DATA.replace(" rw ", " ro ", 1)).lost == ("/data is read-only now",)


def test_unit_that_failed_since_is_told_by_itself(monkeypatch):
    monkeypatch.setattr(
        after_boot.signs,
        "read_failed_units",
        lambda _: iter([Sign(Aspect.FAILED_UNIT, "x.service")]),
    )
    seen = host(mounts=ROOT + DATA)
    assert (seen.lost, seen.failed) == ((), ("x.service has failed",))


@pytest.mark.parametrize(
    "more",
    [
        {"boot": "new"},
        {"uptime": "90000"},
        {"at": NOW - 8 * 86400},
        {"persistent_only": True, "kind": "root"},
    ],
)
def test_host_is_not_compared_in_the_same_boot_nor_after_a_day(more):
    seen = host(**more)
    assert (seen.is_compared, seen.lost) == (False, ())


@pytest.mark.parametrize(
    ("told", "days", "is_compared"),
    [
        (OLD, 6, True),
        ("f" * 32, 0, False),
        ("", 0, True),  # the journal is not kept over boots, or does not reach back so far
        ("", 2, False),
        ("\nMESSAGE=x _BOOT_ID=" + OLD, 2, False),
    ],
)
def test_standing_counts_for_the_boot_that_follows_it(told, days, is_compared):
    answer = f"__CURSOR=s=1;b={told}\n__REALTIME_TIMESTAMP=1\n_BOOT_ID={told}\n\n" if told else ""
    queries = {(*after_boot._ENTRY, "--boot=new-1"): answer}
    found = host(boot=str(UUID(OLD)), at=NOW - 5000 - days * 86400, queries=queries)
    assert (found.is_compared, len(found.lost)) == (is_compared, is_compared)


def test_young_boot_that_lacks_something_is_not_judged_yet():
    with pytest.raises(
        UnknownFact, match=r"this boot is 40 s old, and may still bring what it lacks: /data is not"
    ):
        _ = host(uptime="40.1").lost
    assert host(uptime="40.1", mounts=ROOT + DATA).lost == ()


@pytest.mark.parametrize("content", ["{", "[]", '{"format_version": 1}', "[" * 100_000])
def test_file_that_cannot_be_understood_is_unknown(content):
    with pytest.raises(UnknownFact, match="not what hosttune keeps there"):
        _ = host(content=content).lost


def test_file_that_cannot_be_read_is_unknown_and_none_is_none():
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = host(unreadable={after_boot.PATH: "permission denied"}).lost
    assert Facts(FakeReader({})).after_boot.is_compared is False


def test_what_cannot_be_seen_any_more_is_unknown(monkeypatch):
    def deaf(*_):
        raise UnknownFact("no answer")

    monkeypatch.setattr(after_boot.signs, "read_drivers", deaf)
    with pytest.raises(UnknownFact, match="no answer"):
        _ = host(mounts=ROOT + DATA).lost
    assert (
        Unseen(Aspect.DRIVER, "no answer")
        in read_signs(FakeReader({}), Facts(FakeReader({}))).unseen
    )


class LiveHost(TrialHost):
    kind = "live"


def test_host_is_kept_before_a_boot_and_found_wanting_after_it(monkeypatch):
    monkeypatch.setattr(
        before_boot, "in_time", lambda work, _: {name: read() for name, read in work.items()}
    )
    files = {
        "/proc/self/mountinfo": ROOT + DATA, "/etc/fstab": "/dev/nvme1n1 /data ext4 defaults 0 2\n",
        "/proc/sys/kernel/random/boot_id": "old\n", "/proc/uptime": "4000 9\n",
    }  # fmt: skip
    machine = LiveHost(FakeReader(files))
    session = examine(
        machine,
        builtin_catalog(),
        Policy(today="2026-01-01", sole=("memory-swappiness",)),
        collect=False,
    )
    before_boot.keep_standing(session, machine, lambda _: None)
    assert oct(machine.files[after_boot.PATH].mode) == "0o600"
    kept = machine.read(after_boot.PATH).decode()
    later = FakeReader(
        {
            **files,
            after_boot.PATH: kept,
            "/proc/sys/kernel/random/boot_id": "new\n",
            "/proc/self/mountinfo": ROOT,
        }
    )
    assert Facts(later).after_boot.lost == ("/data is not mounted any more",)


def test_second_boot_does_not_make_the_loss_of_the_first_one_forgotten(monkeypatch):
    monkeypatch.setattr(
        before_boot, "in_time", lambda work, _: {name: read() for name, read in work.items()}
    )
    kept = json.dumps(to_json(KeptStanding(1, "old", NOW - 5000, BEFORE)))
    files = {
        "/proc/self/mountinfo": ROOT, "/etc/fstab": "/dev/nvme1n1 /data ext4 defaults 0 2\n", after_boot.PATH: kept,
        "/proc/sys/kernel/random/boot_id": "second\n", "/proc/uptime": "40 9\n",
    }  # fmt: skip
    machine = LiveHost(FakeReader(files))
    session = examine(
        machine,
        builtin_catalog(),
        Policy(today="2026-01-01", sole=("memory-swappiness",)),
        collect=False,
    )
    before_boot.keep_standing(session, machine, lambda _: None)
    kept = machine.read(after_boot.PATH).decode()
    later = {
        after_boot.PATH: kept,
        "/proc/sys/kernel/random/boot_id": "third\n",
        "/proc/uptime": "4000 9\n",
    }
    assert Facts(FakeReader({**files, **later})).after_boot.lost == (
        "/data is not mounted any more",
    )


def test_overlay_and_image_keep_nothing():
    machine = TrialHost(FakeReader({}))
    before_boot.keep_standing(None, machine, lambda _: None)
    assert machine.files == {}


def test_loss_is_told_whatever_was_selected(monkeypatch):
    from hosttune.actions import examine as module

    record = FakeReader({
        "/proc/self/mountinfo": ROOT, "/etc/fstab": "/dev/nvme1n1 /data ext4 defaults 0 2\n",
        "/proc/sys/kernel/random/boot_id": "new\n", "/proc/uptime": "4000 9\n", "/proc/1/comm": "systemd\n",
        after_boot.PATH: json.dumps(to_json(KeptStanding(1, "old", NOW - 5000, BEFORE))),
    }, links={f"/proc/{pid}/ns/{name}": value for pid in ("self", "1") for name, value in module_namespaces().items()})  # fmt: skip
    session = examine(
        record,
        builtin_catalog(),
        Policy(today="2026-01-01", sole=("memory-swappiness",)),
        collect=False,
    )
    (told,) = [one for one in session.plan(prove=False).findings if one.rule == module.AFTER_BOOT]
    assert (told.verdict, told.is_fault, told.reason) == (
        Verdict.DIFFERS, True, "since the boot: /data is not mounted any more"
    )  # fmt: skip


def module_namespaces():
    from hosttune.facts.containment import FIRST_MOUNTS, INITIAL

    return {**INITIAL, "mnt": FIRST_MOUNTS}
