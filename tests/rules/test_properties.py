"""What must hold for every rule on every built host and on a recorded one, whatever the rule
says.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.journal.recover import recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.codec import dump_json, plan_from_json, plan_to_json
from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.engine.rules.declared import DataMount, Declared
from hosttune.engine.rules.lint import checked_rule
from hosttune.errors import Refused
from hosttune.host.door import Reader
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import NUMERIC, Bound, Operator, Wish
from hosttune.resources.kernel.sysctl import proc_path
from hosttune.values import ABSENT, FileValue, HoldKind, Phase, Plan, Receipt, Verdict
from tests.hosts.built import HOSTS, reader
from tests.hosts.shuffled import another_boot
from tests.rules.proof import failing
from tests.rules.test_cases import CASES, host_of, policy_of
from tests.rules.tried import (
    ALL,
    CATALOG,
    DECLARED,
    PLACE_IDS,
    PLACES,
    RECORDS,
    only,
    policy_at,
    reader_of,
    why_untried,
)  # fmt: skip

BUILTIN_TEXTS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (Path(__file__).resolve().parents[2] / "hosttune" / "rules").glob("*/*.yaml")
}


def session_on(door, policy: Policy, catalog: Catalog = CATALOG):
    return examine(door, catalog, policy)


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_rule_that_wants_something_is_tried_where_something_is_applied(rule):
    if why := why_untried(rule):
        pytest.fail(why, pytrace=False)


def applied(before: Reader, policy: Policy) -> tuple[Overlay, Plan, Receipt]:
    """The host after apply, the plan and the receipt."""
    overlay = Overlay(before)
    session = session_on(overlay, policy)
    plan = session.plan()
    assert failing(plan) == []
    receipt = apply(session, overlay, plan)
    return overlay, plan, receipt


@dataclass(frozen=True)
class Made:
    """A rule applied by itself at a place. Several tests look at `after`: what writes, writes to an
    overlay over it.
    """

    rule: str
    policy: Policy
    before: Reader
    after: Overlay
    plan: Plan
    receipt: Receipt

    @property
    def has_written(self) -> bool:
        """Otherwise the host after is the one before, and a second look at it shows nothing new."""
        kept = {
            name: value
            for name, value in vars(self.after).items()
            if name not in {"base", "_canonical"}
        }
        return any(kept.values())


@pytest.fixture(scope="module", params=PLACES, ids=PLACE_IDS)
def made(request) -> Made:
    place, rule = request.param
    policy = policy_at(place, rule)
    before = reader_of(place)
    return Made(rule, policy, before, *applied(before, policy))


def test_what_was_not_written_to_has_nothing_of_its_own():
    base = reader(RECORDS[0])
    made = Made("", ALL, base, Overlay(base), None, None)
    assert not made.has_written
    made.after.set_value("/proc/sys/vm/swappiness", "1")
    assert made.has_written


def test_apply_then_plan_is_empty(made):
    rule, plan = made.rule, made.plan
    assert made.receipt.failed == ()
    assert made.receipt.verified
    assert made.has_written or plan.changes == ()
    # `reboot-required` goes by what the kinds of a rule say of their changes.
    told = {one for wish in CATALOG.rules[rule].want for one in wish_kinds()[wish.kind].activations}
    assert {change.activation for change in plan.changes} <= told
    again = session_on(made.after, made.policy).plan() if made.has_written else plan
    assert again.changes == ()
    own = [
        finding for finding in again.findings if finding.rule == rule
    ]  # not those that keep a boot back
    assert [f for f in own if f.verdict is Verdict.DIFFERS and f.hold.kind not in held(plan)] == []


def held(plan):
    """Holds that stay after apply: those that were there, and what waits for a reboot."""
    return {finding.hold.kind for finding in plan.findings if finding.hold} | {HoldKind.WAITING}


def test_undo_gives_the_old_values(made):
    overlay, plan = Overlay(made.after), made.plan
    if plan.changes:
        session = session_on(overlay, made.policy)
        back = plan_undo(session, made.receipt.run_id)
        assert [finding for finding in back.plan.findings if finding.hold] == []
        assert undo(session, overlay, back).failed == ()
    for change in plan.changes:
        kind = address_kinds()[change.address.kind]
        assert kind.same(
            kind.read(overlay, change.address.name), kind.read(made.before, change.address.name)
        )


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_undo_in_order_restores_every_byte(path):
    overlay, _, receipt = applied(reader(path), ALL)
    if receipt.run_id:
        session = session_on(overlay, ALL)
        undo(session, overlay, plan_undo(session, receipt.run_id))
    assert_every_byte_is_as_it_was({*overlay.files}, overlay, reader(path))


def assert_every_byte_is_as_it_was(names: set[str], host: Overlay, base) -> None:
    for name in names:
        if not name.startswith("/var/lib/hosttune/"):
            now, before = host.read(name), base.read(name)
            assert (now == before) or (
                now.split() == before.split() and name.startswith("/proc/")
            ), name


def test_check_fails_when_one_address_is_disturbed(made):
    for change in made.plan.changes:
        kind = address_kinds()[change.address.kind]
        inverse = kind.invert(change)
        if inverse is None or change.before == change.after:
            continue
        broken = Overlay(made.after)
        try:
            kind.write(broken, inverse)
        except Refused:  # nobody can disturb it so: a folder that is not empty
            continue
        findings = session_on(broken, made.policy).plan(prove=False).findings
        assert any(f.rule == made.rule and f.verdict is not Verdict.OK for f in findings), (
            change.address
        )


class Later(Overlay):
    """The same host some days on."""

    def __init__(self, base, days: int) -> None:
        super().__init__(base)
        self.days = days

    def now(self) -> float:
        return super().now() + self.days * 86_400


def test_digest_is_a_function_of_host_and_policy_and_not_of_the_day(made):
    """What was approved yesterday is the same plan today; what was made is not made again because
    time went by.
    """
    sides = [(made.before, made.plan.digest)]
    if made.has_written:
        sides.append((made.after, session_on(made.after, made.policy).plan(prove=False).digest))
    for days in (1, 30, 400):
        for host, digest in sides:
            assert session_on(Later(host, days), made.policy).plan(prove=False).digest == digest


@pytest.mark.parametrize("days", [1, 30, 400])
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_digest_of_all_rules_is_that_of_a_record_made_later(path, days, tmp_path):
    data = json.loads(path.read_text(encoding="utf-8"))
    data["made_at"] += days * 86_400
    later = tmp_path / "later.json"
    later.write_text(json.dumps(data), encoding="utf-8")
    plans = [session_on(reader(one), ALL).plan() for one in (path, later)]
    assert plans[0].created_at != plans[1].created_at
    assert plans[0].digest == plans[1].digest


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_plan_is_the_same_to_the_byte_in_whatever_order_a_boot_lists_things(path, seed):
    host = Overlay(reader(path))
    plans = [session_on(one, ALL).plan() for one in (host, another_boot(host, seed))]
    assert [dump_json(plan_to_json(plan)) for plan in plans[1:]] == [
        dump_json(plan_to_json(plans[0]))
    ]


@pytest.mark.parametrize(
    ("rule", "case"), CASES, ids=[f"{rule}-{case['name']}" for rule, case in CASES]
)
def test_case_is_the_same_to_the_byte_in_whatever_order_a_boot_lists_things(rule, case):
    host = host_of(case)
    plans = [
        session_on(one, policy_of(rule, case)).plan(prove=False)
        for one in (host, another_boot(host, 1))
    ]
    assert dump_json(plan_to_json(plans[1])) == dump_json(plan_to_json(plans[0]))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_plan_survives_json(path):
    plan = session_on(reader(path), ALL).plan()
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_order_of_the_rules_does_not_matter(path):
    shuffled = Catalog(dict(reversed([*CATALOG.rules.items()])), CATALOG.profiles)
    one = session_on(reader(path), ALL).plan()
    other = session_on(
        reader(path), replace(ALL, select=tuple(reversed(ALL.select))), shuffled
    ).plan()
    assert one.digest == other.digest
    assert one.findings == other.findings


def test_changes_are_no_worse_than_the_rule_declares(made):
    declared = CATALOG.rules[made.rule]
    for change in made.plan.changes:
        assert change.risk <= declared.risk
        assert change.disturbs <= declared.disturbs


def bounded(path: Path) -> list[tuple[Wish, Bound]]:
    """What any rule wants of this host with at_least or at_most."""
    facts = session_on(reader(path), ALL).facts
    wishes = [
        wish
        for rule in CATALOG.rules.values()
        for wish in evaluate(rule, facts, ALL.params_of(rule, CATALOG), DECLARED).wishes
    ]
    return [(wish, bound) for wish in wishes for bound in wish.bounds if bound.operator in NUMERIC]


def is_worse(bound: Bound, before: str, after: str) -> bool:
    return (
        int(after) < int(before)
        if bound.operator is Operator.AT_LEAST
        else int(after) > int(before)
    )


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_no_better_value_is_lowered(path):
    bounds = {(wish.kind, wish.name): bound for wish, bound in bounded(path)}
    for change in session_on(reader(path), ALL).plan(prove=False).changes:
        before, after = str(change.before).split(), str(change.after).split()
        bound = bounds.get((change.address.kind, change.address.name))
        if bound and before[0].isdecimal():
            assert not is_worse(bound, before[0], after[0]), str(change.address)
        if change.address.name.startswith("net.ipv4.tcp_"):  # three numbers, none of which shrinks
            assert all(int(new) >= int(old) for old, new in zip(before, after, strict=True)), str(
                change.address
            )


def made_better(path: Path) -> tuple[Overlay, dict[str, tuple[Bound, str]]]:
    """The host with twice or half of what rules ask for, where they give a bound: no file says so,
    only the kernel.
    """
    overlay = Overlay(reader(path))
    better: dict[str, tuple[Bound, str]] = {}
    for wish, bound in bounded(path):
        if wish.kind in {"sysctl", "sysfs"}:
            asked = int(str(bound.value))
            value = str(asked * 2 if bound.operator is Operator.AT_LEAST else asked // 2)
            place = proc_path(wish.name) if wish.kind == "sysctl" else wish.name
            overlay.files[place] = FileValue(f"{value}\n".encode())
            better[wish.name] = bound, value
    return overlay, better


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_value_better_than_asked_for_is_kept_now_and_at_boot(path):
    overlay, better = made_better(path)
    overlay.files["/proc/sys/net/ipv4/tcp_rmem"] = FileValue(b"8192 262144 1073741824\n")
    for change in session_on(overlay, ALL).plan(prove=False).changes:
        assert change.address.name not in {*better, "net.ipv4.tcp_rmem"}, str(change.address)
        lines = (
            change.after.content.decode().splitlines()
            if isinstance(change.after, FileValue)
            else []
        )
        for key, equals, value in (line.partition(" = ") for line in lines):
            if equals and key in better:
                bound, now = better[key]
                assert not is_worse(bound, now, value), f"{change.address}: {key}"
            if key == "net.ipv4.tcp_rmem":
                assert value == "8192 262144 1073741824"


def test_records_reach_every_rule_that_has_a_bound_but_three_that_cases_reach():
    reached = {wish.rule for path in RECORDS for wish, _ in bounded(path)}
    written = {rule for rule, text in BUILTIN_TEXTS.items() if re.search(r"at_(least|most):", text)}
    # Two RoCE cards in one subnet, a slow NFS home, systemd-coredump: tests/rules/RULE.yaml
    assert reached == written - {"network-arp", "memory-dirty-limits", "services-core-size"}


def test_read_only_root_refuses_every_rule_that_would_write_there_and_says_why():
    path = HOSTS / "h100-8x-2socket.json"
    before = session_on(reader(path), ALL).plan()
    writing = {change.rule for change in before.changes if change.address.kind != "mount"}
    overlay = Overlay(reader(path))
    table = overlay.read("/proc/self/mountinfo").replace(b" / / rw,", b" / / ro,", 1)
    overlay.files["/proc/self/mountinfo"] = FileValue(table)
    plan = session_on(overlay, ALL).plan()
    assert plan.changes == ()
    refused = {f.rule for f in plan.findings if "/ is mounted read-only" in f.hold.detail}
    assert refused == writing
    assert len(refused) > 8


def test_file_that_is_a_read_only_mount_by_itself_is_left_to_apply_which_tells_the_fault():
    path = HOSTS / "h100-8x-2socket.json"
    before = session_on(reader(path), ALL).plan()
    overlay = Overlay(reader(path))
    table = (
        overlay.read("/proc/self/mountinfo")
        + b"999 1 259:9 /etc/fstab /etc/fstab ro,relatime - ext4 /dev/x rw\n"
    )
    overlay.files["/proc/self/mountinfo"] = FileValue(table)
    assert session_on(overlay, ALL).plan().digest == before.digest


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_check_of_a_record_writes_nothing_and_needs_no_program(path, monkeypatch):
    monkeypatch.setattr("subprocess.Popen.__init__", None)
    assert session_on(reader(path), ALL).plan().findings


class Crashing(Overlay):
    """Keeps what kill -9 would leave: the host before the first write, and after each one."""

    def __init__(self, base) -> None:
        super().__init__(base)
        self.left = [self.as_it_is()]

    def as_it_is(self) -> Overlay:
        now = Overlay(self.base)
        for name, value in vars(self).items():
            if name not in {"base", "left"}:
                setattr(now, name, value.copy() if isinstance(value, dict | set) else value)
        return now

    def append(self, path, data):
        super().append(path, data)
        self.left.append(self.as_it_is())

    def replace(self, path, new, *, expected):
        super().replace(path, new, expected=expected)
        self.left.append(self.as_it_is())

    def remove(self, path, *, expected):
        super().remove(path, expected=expected)
        self.left.append(self.as_it_is())

    def set_value(self, path, text):
        super().set_value(path, text)
        self.left.append(self.as_it_is())

    def set_atime(self, target, mode):
        super().set_atime(target, mode)
        self.left.append(self.as_it_is())


def left_by_crashes(path: Path, policy: Policy = ALL) -> list[Overlay]:
    """The host of a record as a crash leaves it, by the number of writes that it had made."""
    door = Crashing(reader(path))
    session = session_on(door, policy)
    apply(session, door, session.plan())
    return door.left


@cache
def varied(path: Path) -> Policy:
    """Rules that together make every sort of change that this host sees: a crash in a second sysctl
    teaches nothing, and each write costs several whole runs.
    """
    seen: set[tuple[str, object]] = set()
    chosen = []
    for rule in CATALOG.rules:
        changes = session_on(reader(path), only(rule)).plan(prove=False).changes
        sorts = {(change.address.kind, change.action) for change in changes}
        if not sorts <= seen:
            chosen.append(rule)
            seen |= sorts
    others = {*CATALOG.profiles["base"].rules} - {*chosen}
    return replace(ALL, select=tuple(chosen), ignore=tuple(others))


@pytest.mark.parametrize("name", ["h100-8x-2socket", "no-gpu-debian12"])
def test_crash_after_any_write_is_recovered_by_apply_and_by_undo(name):
    path = HOSTS / f"{name}.json"
    policy = varied(path)
    states = left_by_crashes(path, policy)
    for state in states:
        for way in ("apply", "undo"):
            host = Overlay(state)
            assert recover(host).interrupted == ()
            session = session_on(host, policy)
            if way == "apply":
                apply(session, host, session.plan())
                assert session_on(host, policy).plan().changes == ()
            elif session.journal.in_force:
                undo(session, host, plan_undo(session))
                assert session_on(host, policy).journal.in_force == ()
            if way == "undo":
                assert_every_byte_is_as_it_was({*state.files, *host.files}, host, state.base)
    assert len(states) > 8


def test_failed_change_takes_its_rule_back_and_the_others_go_on():
    path = HOSTS / "h100-8x-2socket.json"

    class Failing(Overlay):
        def set_atime(self, target, mode):
            raise Refused("the kernel says no")

    door = Failing(reader(path))
    session = session_on(door, ALL)
    receipt = apply(session, door, session.plan())
    assert {outcome.change.rule for outcome in receipt.failed} == {"storage-noatime"}
    assert b"\t/data\text4\tdefaults\t0" in door.read("/etc/fstab")
    assert door.read("/proc/sys/vm/swappiness") == b"10\n"
    in_force = {
        step.change.rule for step in read_journal(door).in_force if step.phase is Phase.DONE
    }
    assert "storage-noatime" not in in_force
    assert "memory-swappiness" in in_force


def test_later_edit_is_not_stepped_on():
    path = HOSTS / "h100-8x-2socket.json"
    overlay, _, receipt = applied(reader(path), only("memory-swappiness"))
    name = "/etc/sysctl.d/60-hosttune-memory-swappiness.conf"
    overlay.files[name] = FileValue(b"vm.swappiness = 1\n")
    session = session_on(overlay, only("memory-swappiness"))
    back = plan_undo(session, receipt.run_id)
    assert any(name in str(finding.hold) for finding in back.plan.findings)
    undo(session, overlay, back)
    assert overlay.read(name) == b"vm.swappiness = 1\n"


def test_hand_edited_dropin_blocks_its_rule():
    overlay, _, _ = applied(reader(HOSTS / "h100-8x-2socket.json"), only("memory-swappiness"))
    overlay.files["/etc/sysctl.d/60-hosttune-memory-swappiness.conf"] = FileValue(
        b"vm.swappiness = 42\n"
    )
    plan = session_on(overlay, only("memory-swappiness")).plan()
    assert plan.changes == ()
    assert [f.hold.kind for f in plan.findings if f.rule == "memory-swappiness"] == [
        HoldKind.EDITED
    ]


def test_live_drift_from_our_dropin_names_the_run():
    overlay, _, receipt = applied(reader(HOSTS / "h100-8x-2socket.json"), only("memory-swappiness"))
    overlay.files["/proc/sys/vm/swappiness"] = FileValue(b"60\n")
    plan = session_on(overlay, only("memory-swappiness")).plan()
    assert [str(change.address) for change in plan.changes] == ["sysctl:vm.swappiness"]
    assert any(receipt.run_id in finding.reason for finding in plan.findings)


def test_value_reverted_once_is_set_again_and_reverted_twice_is_left_alone():
    overlay, _, _ = applied(reader(HOSTS / "h100-8x-2socket.json"), only("memory-swappiness"))
    overlay.files["/proc/sys/vm/swappiness"] = FileValue(b"60\n")
    session = session_on(overlay, only("memory-swappiness"))
    again = session.plan()
    assert [str(change.address) for change in again.changes] == ["sysctl:vm.swappiness"]
    apply(session, overlay, again)
    overlay.files["/proc/sys/vm/swappiness"] = FileValue(b"60\n")
    plan = session_on(overlay, only("memory-swappiness")).plan()
    assert plan.changes == ()
    assert [f.hold.kind for f in plan.findings if f.rule == "memory-swappiness"] == [
        HoldKind.REVERTED
    ]


def test_orphan_stays_and_is_reported():
    overlay, _, _ = applied(reader(HOSTS / "h100-8x-2socket.json"), ALL)
    ignoring = replace(ALL, ignore=("memory-swappiness",))
    findings = session_on(overlay, ignoring).plan().findings
    assert [f.rule for f in findings if f.hold.kind is HoldKind.ORPHANED] == ["memory-swappiness"]
    assert overlay.read("/proc/sys/vm/swappiness") == b"10\n"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_runs_undone_in_any_order_give_the_old_value(order):
    path = HOSTS / "h100-8x-2socket.json"
    overlay = Overlay(reader(path))
    runs = []
    for value in (20, 5):
        policy = replace(only("memory-swappiness"), params={"memory-swappiness": {"value": value}})
        session = session_on(overlay, policy)
        runs.append(apply(session, overlay, session.plan()).run_id)
    for number in order:
        session = session_on(overlay, ALL)
        undo(session, overlay, plan_undo(session, runs[number]))
    assert overlay.read("/proc/sys/vm/swappiness").split() == [b"60"]
    assert overlay.read("/etc/sysctl.d/60-hosttune-memory-swappiness.conf") is ABSENT
    assert session_on(overlay, ALL).journal.in_force == ()


def test_refusal_in_a_later_stage_ends_the_plan_there():
    class Refusing(Overlay):
        """Takes every edit of fstab but the one that follows the mount of the new disk."""

        def rehearse_fstab(self, before, after, tmpfs_options):
            if (
                b"/mnt/scratch xfs noatime" not in before
                and b"/mnt/scratch xfs defaults,noatime"
                in after.replace(
                    b"defaults,nofail,x-systemd.device-timeout=30s,x-systemd.before=local-fs.target,noatime",
                    b"defaults,noatime",
                )
            ):
                raise Refused("the second edit is refused")
            return super().rehearse_fstab(before, after, tmpfs_options)

    mounts = Declared((DataMount("UUID=d2-7e", "/mnt/scratch", options=("defaults",)),))
    door = Refusing(reader(HOSTS / "h100-8x-2socket.json"))
    plan = session_on(door, replace(ALL, declared=mounts)).plan()
    assert len(plan.stages) == 1
    assert failing(plan) == []


def test_rule_that_cannot_be_computed_is_unknown_and_the_others_go_on():
    text = (
        'id: memory-broken\ntitle: x\nrisk: low\ndisturbs: nothing\nsince: "0.1"\ngain: none\nwhy: x\nsources: [x]\n'
        "expect:\n  - {if: 1 / (memory.total_bytes - memory.total_bytes) > 0, else: never}\n"
    )
    rules = {**CATALOG.rules, "memory-broken": checked_rule(text, "memory-broken.yaml")}
    policy = replace(ALL, select=(*ALL.select, "memory-broken"))
    plan = session_on(
        reader(HOSTS / "h100-8x-2socket.json"), policy, Catalog(rules, CATALOG.profiles)
    ).plan()
    assert {f.verdict for f in plan.findings if f.rule == "memory-broken"} == {Verdict.UNKNOWN}
    assert plan.changes


def test_step_that_cannot_be_undone_keeps_what_rests_on_it():
    class Busy(Overlay):
        is_busy = True

        def unmount(self, target):
            if self.is_busy:
                raise Refused(f"{target} is busy")
            super().unmount(target)

    door = Busy(reader(HOSTS / "h100-8x-2socket.json"))
    policy = only("storage-data-mounts")
    session = session_on(door, policy)
    apply(session, door, session.plan())
    mounted, fstab = door.read("/proc/self/mountinfo"), door.read("/etc/fstab")
    session = session_on(door, policy)
    receipt = undo(session, door, plan_undo(session))
    assert [outcome.change.address.kind for outcome in receipt.failed] == [
        "data-mount",
        "fstab-line",
        "folder",
        "folder",
    ]
    assert (door.read("/proc/self/mountinfo"), door.read("/etc/fstab")) == (mounted, fstab)
    door.is_busy = False
    session = session_on(door, policy)
    assert undo(session, door, plan_undo(session)).failed == ()
    assert session_on(door, policy).journal.in_force == ()
    assert b"/mnt/scratch" not in door.read("/etc/fstab") + door.read("/proc/self/mountinfo")


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_line_torn_by_a_power_cut_is_dropped_and_the_run_goes_on(cut):
    path = HOSTS / "h100-8x-2socket.json"
    door = left_by_crashes(path)[6]
    (name,) = [name for name in door.files if name.endswith(".jsonl")]
    door.files[name] = FileValue(door.files[name].content[:-cut], 0o600)
    host = Overlay(door)
    recover(host)
    session = session_on(host, ALL)
    assert session.journal.interrupted == ()
    apply(session, host, session.plan())
    assert session_on(host, ALL).plan().changes == ()


def test_journal_without_a_whole_line_is_no_run():
    overlay = Overlay(reader(HOSTS / "h100-8x-2socket.json"))
    overlay.append("/var/lib/hosttune/runs/20260101-000000-aaaa.jsonl", b'{"format_version":1,"id"')
    assert read_journal(overlay).runs == ()


def test_undo_leaves_what_a_step_that_somebody_edited_rests_on():
    door = Overlay(reader(HOSTS / "h100-8x-2socket.json"))
    policy = only("storage-data-mounts")
    session = session_on(door, policy)
    apply(session, door, session.plan())
    edited = door.read("/etc/fstab").replace(b"noatime,nofail", b"noatime,discard,nofail")
    door.unmount("/mnt/scratch")  # by hand, before the line was edited
    door.files["/etc/fstab"] = FileValue(edited)
    session = session_on(door, policy)
    back = plan_undo(session)
    assert [str(f.subject) for f in back.plan.findings] == [
        "fstab-line:/mnt/scratch",
        "folder:/mnt/scratch",
        "folder:/mnt",
    ]
    undo(session, door, back)
    assert door.read("/etc/fstab") == edited
    assert door.list("/mnt/scratch") == ()


@pytest.mark.parametrize("bound", ["at_least: 2000000", "at_least: 300000", "exactly: 1500000"])
def test_two_rules_on_one_value_are_applied_together_and_undone(bound):
    text = (
        'id: memory-site\ntitle: x\nrisk: low\ndisturbs: nothing\nsince: "0.1"\ngain: none\nwhy: x\nsources: [x]\n'
        f"want:\n  - sysctl: vm.max_map_count\n    {bound}\n"
    )
    rules = {**CATALOG.rules, "memory-site": checked_rule(text, "memory-site.yaml")}
    catalog = Catalog(rules, CATALOG.profiles)
    policy = replace(ALL, select=(*ALL.select, "memory-site"))
    door = Overlay(reader(HOSTS / "a100-cloud-vm.json"))
    before = door.read("/proc/sys/vm/max_map_count")
    plan = session_on(door, policy, catalog).plan()
    assert failing(plan) == []
    wanted = str(max(1048576, int(bound.split()[1])))
    live = [
        change.after for change in plan.changes if str(change.address) == "sysctl:vm.max_map_count"
    ]
    assert live == [wanted]
    session = session_on(door, policy, catalog)
    assert apply(session, door, plan).failed == ()
    assert session_on(door, policy, catalog).plan().changes == ()
    session = session_on(door, policy, catalog)
    undo(session, door, plan_undo(session))
    assert door.read("/proc/sys/vm/max_map_count") == before


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_proof_does_not_hang_on_facts_that_are_kept(path, monkeypatch):
    kept = session_on(reader(path), ALL).plan()
    monkeypatch.setattr("hosttune.facts.HARDWARE", frozenset())
    anew = session_on(reader(path), ALL).plan()
    assert (kept.digest, failing(kept), len(kept.stages)) == (
        anew.digest,
        failing(anew),
        len(anew.stages),
    )
