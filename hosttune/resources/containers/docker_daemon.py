"""Keys of docker's daemon.json: added where no one sets them, one by one; everything else in the
file stays.

A value of someone else is theirs. What dockerd's command line gives must not stand in the file too,
or dockerd does not start. It reads the file when it starts, and hosttune never restarts it: that
ends containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen
from hosttune.resources.base import FieldSpec, Operator, WishKind, action_between, in_general
from hosttune.resources.comparison import Comparison, or_unknown
from hosttune.resources.containers.docker_file import (
    PATH,
    PRESENT,
    DockerDaemonAddress,
    name_of,
    parse_document,
    spell_value,
    split_keys,
)
from hosttune.resources.json_document import Node, get, line_of
from hosttune.resources.services.since import applied_since
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    HoldKind,
    Unreadable,
    Verdict,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Wish

UNIT = "docker.service"
_MERGED = "runtimes"  # the one key that may stand in both places
# the log drivers whose options are max-size and max-file
_ROTATING = frozenset({"json-file", "local"})
_FILE, _CONFIG = Address("file", PATH), Address("docker-config", PATH)


def list_leaves(wish: Wish) -> tuple[tuple[tuple[str, ...], Any], ...]:
    """(path of keys, value) of all that a wish sets: the members of an object one by one,
    `memlock/Hard` two deep.
    """
    start = split_keys(wish.name)
    if "object" in wish.fields:
        return tuple(
            ((*start, *split_keys(str(key))), value) for key, value in wish.fields["object"].items()
        )
    return tuple((start, bound.value) for bound in wish.bounds)


class DockerDaemonWish(WishKind):
    """`- docker-daemon: KEY` with exactly (one value), or with `object`, whose members are
    merged.
    """

    kind = "docker-daemon"
    fields: Mapping[str, FieldSpec] = {
        "object": FieldSpec(
            dict, help="Members to have in the object of this key; memlock/Hard is two deep"
        )
    }
    operators = (Operator.EXACTLY,)
    activations = (Activation.RESTART,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (*(_make_address(path) for path, _ in list_leaves(wish)), _FILE, _CONFIG)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        planned = {path: value for wish in wishes for path, value in list_leaves(wish)}
        findings = [_DaemonComparison(wish, context, planned).finding() for wish in wishes]
        first = next((number for number, finding in enumerate(findings) if finding.changes), None)
        if first is None or context.state[_CONFIG] is not ABSENT:
            return tuple(findings)
        made = Change(
            _CONFIG,
            Action.CREATE,
            ABSENT,
            PRESENT,
            wishes[0].rule,
            context.risk,
            context.disturbs,
            Activation.RESTART,
        )
        return tuple(
            finding if number != first else _add_changes(finding, (made, *finding.changes))
            for number, finding in enumerate(findings)
        )

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            in_general(wish, _make_address(path), spell_value(value), activation=Activation.RESTART)
            for wish in wishes
            for path, value in list_leaves(wish)
        )


def _make_address(path: tuple[str, ...]) -> Address:
    return Address("docker-daemon", name_of(path))


def _add_changes(finding: Finding, changes: tuple[Change, ...]) -> Finding:
    return Finding(
        finding.rule,
        finding.subject,
        finding.verdict,
        finding.hold,
        finding.reason,
        finding.evidence,
        changes,
        finding.todo,
    )


@frozen
class _DaemonComparison(Comparison):
    """One wish against the file and the command line."""

    wish: Wish
    context: Context
    planned: Mapping[tuple[str, ...], Any]  # of all wishes of the rule

    @or_unknown
    def finding(self) -> Finding:
        content = self.context.state[_FILE]
        root = parse_document(content.content) if isinstance(content, FileValue) else content
        if not self.context.facts.docker.has_unit:
            return self._says(Verdict.NOT_APPLICABLE, f"{UNIT} is not installed")
        if isinstance(root, Unreadable):
            return self._says(Verdict.UNKNOWN, root.reason)
        node = root if isinstance(root, Node) else Node(0, 0, {}, ())
        if refusal := self._why_not(node):
            return self._make_held(HoldKind.REFUSED, refusal)
        text = content.content.decode("utf-8") if isinstance(content, FileValue) else ""
        return self._compare_root(node, text)

    def _why_not(self, root: Node) -> str:
        """Why this cannot be put into the file; empty when it can."""
        if not list_leaves(self.wish):
            return f"{self.wish.name} has neither exactly nor object"
        for flag in self.context.facts.docker.given:
            key = flag.key.partition(".")[0]
            if key == split_keys(self.wish.name)[0] and key != _MERGED:
                return (
                    f"{flag.path} gives {key} on the command line, and dockerd does not start with "
                    "both"
                )
            if key == "config-file" and flag.value != PATH:
                return f"{flag.path} lets dockerd read {flag.value}"
        if split_keys(self.wish.name)[0] == "log-opts":
            words = [value for path, value in list_leaves(self.wish) if not isinstance(value, str)]
            if words:
                return f"dockerd takes text alone in log-opts: {words[0]!r}"
            driver = self._driver(root)
            # dockerd refuses to start with options that its log driver does not know, and with it
            # every container of the host.
            if driver not in _ROTATING:
                return f"the log driver is {driver}, whose options are others"
        return ""

    def _driver(self, root: Node) -> str:
        """The log driver that will be in force."""
        flag = self.context.facts.docker.flags.get("log-driver", "")
        member = root.find("log-driver")
        present = str(member.value.data) if member else ""
        return flag or present or str(self.planned.get(("log-driver",), "json-file"))

    def _compare_root(self, root: Node, text: str) -> Finding:
        changes, evidence, is_new = [], [], False
        for path, value in list_leaves(self.wish):
            member, address = get(root, path), _make_address(path)
            applied = self.context.ledger.get(address)
            if member is None:
                holder = self._holder(root, path)
                if holder is not None:
                    return self._make_owned(f"{PATH}:{line_of(text, holder)}", path)
                changes.append(self._change(address, value))
                continue
            present, place = spell_value(member.value.data), f"{PATH}:{line_of(text, member.start)}"
            evidence.append(f"{'.'.join(path)} is {present} ({place})")
            if present == spell_value(value):
                is_new = is_new or (
                    applied is not None
                    and applied_since(applied, self.context.facts.processes["dockerd"].started_at)
                )
            # Also a value that hosttune wrote and a person changed since: it is theirs now.
            elif applied is None or applied.after != present:
                return self._make_owned(place, path, present)
            else:
                changes.append(self._change(address, value))
        if changes:
            return self._says(
                Verdict.DIFFERS, self._wants, evidence=tuple(evidence), changes=tuple(changes)
            )
        if is_new:
            todo = "when no container is at work: sudo systemctl restart docker"
            return self._make_held(HoldKind.WAITING, "a restart of docker", todo, tuple(evidence))
        return self._says(Verdict.OK, evidence=tuple(evidence))

    def _holder(self, root: Node, path: tuple[str, ...]) -> int | None:
        """Where a value that is no object is in the way of this path."""
        for depth in range(1, len(path)):
            member = get(root, path[:depth])
            if member is not None and member.value.members is None:
                return member.start
        return None

    def _make_owned(self, place: str, path: tuple[str, ...], present: str = "no object") -> Finding:
        detail = f"{place} ({'.'.join(path)} is {present})"
        return self._make_held(
            HoldKind.OWNED, detail, f"change {place}, or ignore {self.wish.rule}"
        )

    def _change(self, address: Address, value: Any) -> Change:
        before, after = self.context.state[address], spell_value(value)
        return Change(
            address,
            action_between(before, after),
            before,
            after,
            self.wish.rule,
            self.context.risk,
            self.context.disturbs,
            Activation.RESTART,
        )

    @property
    def _wants(self) -> str:
        wanted = ", ".join(
            f"{'.'.join(path)} = {spell_value(value)}" for path, value in list_leaves(self.wish)
        )
        return f"{PATH} should have {wanted}"


WISH = DockerDaemonWish()
ADDRESS = DockerDaemonAddress()
