"""What users say with their jobs does not change which plan is approved."""

from __future__ import annotations

from hosttune.actions.examine import examine, plan_without_users
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import FileValue
from tests.hosts.built import HOSTS

H100 = str(HOSTS / "h100-8x-2socket.json")
JOB = b"0 4 * * * find /data -atime +30 -delete\n"
UNIT = b"[Service]\nExecStart=find /data -atime +30 -delete\n"


def test_plan_without_the_jobs_of_users_is_the_one_before_they_had_any():
    policy = Policy(today="2026-01-01").only("storage-noatime")
    session = examine(Overlay(read_record(H100)), builtin_catalog(), policy)
    before = session.plan()
    assert {change.address.name for change in before.changes} == {"/data"}
    for path, content in (
        ("/var/spool/cron/crontabs/eve", JOB),
        ("/home/eve/.config/systemd/user/x.service", UNIT),
    ):
        door = Overlay(read_record(H100))
        door.files[path] = FileValue(content)
        held = examine(door, builtin_catalog(), policy)
        assert held.plan().changes == ()
        assert plan_without_users(held).digest == before.digest
    door.files["/var/spool/cron/crontabs/root"] = FileValue(JOB)
    assert plan_without_users(examine(door, builtin_catalog(), policy)).changes == ()
