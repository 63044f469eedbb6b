"""One rule with these wishes, on a host in memory: looked at, applied on an overlay, looked at
again, undone.
"""

from __future__ import annotations

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo, undo
from hosttune.codec import finding_from_json, finding_to_json, plan_from_json, plan_to_json
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog, builtin_catalog
from hosttune.engine.rules.lint import checked_rule
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import Disturbs, FileValue, Risk
from tests.unit.fake_reader import FakeReader

RULE = "kernel-site"
# What stands in the way of nothing: no other manager, no packages.
QUIET = {
    "/etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n",
    "/var/lib/dpkg/status": "",
    "/etc/machine-id": "a" * 32,
}


def host(files=None, **kwargs) -> Overlay:
    """An overlay over a host of these files."""
    return Overlay(FakeReader({**QUIET, **(files or {})}, **kwargs))


class One:
    """One rule, `want` as it stands in YAML, on one host."""

    def __init__(self, door, want: str, facts=None) -> None:
        body = "".join(f"  {line}\n" for line in want.strip("\n").splitlines())
        text = (
            f'id: {RULE}\ntitle: x\nrisk: high\ndisturbs: nothing\nsince: "0.1"\ngain: none\nwhy: x\nsources: [x]\n'
            f"want:\n{body}"
        )
        self.door = door
        self.facts = facts or {}
        self.catalog = Catalog(
            {RULE: checked_rule(text, f"{RULE}.yaml")}, builtin_catalog().profiles
        )
        self.policy = Policy(
            max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK, today="2026-01-01", sole=(RULE,)
        )

    def session(self):
        session = examine(self.door, self.catalog, self.policy)
        session.facts.__dict__.update(self.facts)
        return session

    def plan(self):
        plan = self.session().plan()
        assert plan_from_json(plan_to_json(plan)) == plan  # every field is of its type
        return plan

    def finding(self):
        (found,) = (finding for finding in self.plan().findings if finding.rule == RULE)
        return found

    def changes(self):
        """`address before -> after` of each change; of a file its lines that are no comments."""
        return [
            f"{change.address} {_shown(change.before)} -> {_shown(change.after)}"
            for change in self.plan().changes
        ]

    def apply(self):
        session = self.session()
        return apply(session, self.door, session.plan())

    def undo(self):
        session = self.session()
        return undo(session, self.door, plan_undo(session))

    def kept(self):
        """The files that differ from the host below, without hosttune's own."""
        base = self.door.base
        return {
            path: value.content.decode() if isinstance(value, FileValue) else None
            for path, value in self.door.files.items()
            if not path.startswith("/var/lib/hosttune/")
            and base.read(path) != (value.content if isinstance(value, FileValue) else value)
        }


def typed(findings):
    """The findings, each of which comes back from its JSON: every field is of its type."""
    assert [finding_from_json(finding_to_json(one)) for one in findings] == list(findings)
    return findings


def _shown(value) -> str:
    if isinstance(value, FileValue):
        lines = value.content.decode().splitlines()
        return "; ".join(line for line in lines if not line.startswith("#"))
    return str(value)


__all__ = ["Facts", "One", "host", "typed"]
