"""One whole run of apply or undo: the lock, the recovery of an interrupted run, a fresh plan, the check against what was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hosttune.actions.apply import apply, check_expected, what_differs
from hosttune.actions.examine import Session, open_session
from hosttune.actions.recover import prune, recover
from hosttune.actions.undo import UndoPlan, plan_undo, undo
from hosttune.errors import Refused
from hosttune.host.door import Stat
from hosttune.host.lock import locked
from hosttune.host.opening import open_writer
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Plan, Receipt

CLOUD_INIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What was shown before the yes: the digest of a plan, or a saved plan; either may be missing."""

    digest: str = ""
    plan: Plan | None = None

    def check(self, now: Plan) -> None:
        """Refuse a plan that is not the one that was shown."""
        if self.plan is not None and self.plan.digest != now.digest:
            message = f"the saved plan no longer fits this host: {what_differs(self.plan, now)}"
            raise Refused(message, hint="look at the new plan with: hosttune plan")
        if self.digest:
            check_expected(now, self.digest)


def run_apply(
    options: Mapping[str, Any], expected: Expected, on_progress: Callable[[str], None]
) -> tuple[Session, Plan, Receipt]:
    """Apply what the host needs now, if it is what was shown. `options` are those of `open_session`."""
    writer = open_writer(root=options.get("root"), hardware=options.get("hardware"))
    with locked():
        wait_for_first_boot(writer, on_progress)
        session = _recovered(writer, options, on_progress)
        plan = session.plan()
        expected.check(plan)
        receipt = apply(session, writer, plan, on_progress=on_progress)
        prune(writer, session.journal)
    return session, plan, receipt


def run_undo(
    options: Mapping[str, Any],
    run_id: str | None,
    rule: str | None,
    expected: Expected,
    on_progress: Callable[[str], None],
) -> tuple[Session, UndoPlan, Receipt]:
    """Take back a run or a rule, if that is still what was shown."""
    writer = open_writer(root=options.get("root"), hardware=options.get("hardware"))
    with locked():
        session = _recovered(writer, options, on_progress)
        undo_plan = plan_undo(session, run_id, rule)
        expected.check(undo_plan.plan)
        receipt = undo(session, writer, undo_plan, on_progress=on_progress)
    return session, undo_plan, receipt


def _recovered(writer: Writer, options: Mapping[str, Any], on_progress: Callable[[str], None]) -> Session:
    """A session on the host after an interrupted run, if there was one, has been brought to its end."""
    session = open_session(reader=writer, **options)
    if not session.journal.interrupted:
        return session
    recover(writer, session.facts, on_progress=on_progress)
    return open_session(reader=writer, **options)


def wait_for_first_boot(reader: Reader, on_progress: Callable[[str], None]) -> None:
    """While cloud-init is at work on a first boot it writes what we read: wait for it, bounded. Raises Refused when it goes on.

    Its marks are /run/cloud-init/enabled and, at the end, result.json (cloud-init documentation, "Boot stages").
    """
    if not isinstance(reader.stat("/run/cloud-init/enabled"), Stat):
        return
    if reader.stat("/run/cloud-init/result.json") is not ABSENT:
        return
    on_progress("waiting for cloud-init to end its first boot")
    answer = reader.query(("cloud-init", "status", "--wait"), timeout_s=CLOUD_INIT_S)
    if isinstance(answer, Unreadable):
        message = f"cloud-init is still at work on this host after {CLOUD_INIT_S:.0f} s"
        raise Refused(message, hint="see what it waits for: cloud-init status --long")
