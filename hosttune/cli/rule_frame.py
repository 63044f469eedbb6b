"""The frame of a new rule: its file and its cases, made for one kind of wish or for advice, to be
filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.engine.rules.lint import PLACEHOLDER
from hosttune.errors import HosttuneError
from hosttune.resources import wish_kinds
from hosttune.resources.base import NUMERIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.rules.rule import Rule
    from hosttune.resources.base import FieldSpec, WishKind

_HEAD = """\
id: {id}
title: {placeholder} a noun phrase for what is judged, such as "Swapping of job memory"
risk: low
disturbs: nothing
since: "{since}"
verified: docs
gain: {placeholder} who gains how much, and who nothing; none in speed is an answer
why: |
  {placeholder} what the default is, why that is wrong for deep-learning work, when not to change it
sources:
  - {placeholder} manual page, kernel document or upstream issue
applies_when:  # the reasons why not; `hosttune rules parts` lists those that other rules have
  - {{if: not host.is_container, else: in a container this belongs to the host}}
"""
_PARAM = """\
params:
  value:
    type: int
    default: 10
    minimum: 1
    maximum: 100
    help: {placeholder} what it means, its unit, why these bounds
"""
_VALUE = '"{{ params.value }}"'
_EXPECT = f"""\
expect:
  - if: cpu.threads > 1  # an expression over facts: `hosttune facts`, `hosttune facts cpu`
    else: "{PLACEHOLDER} what is wrong, with its figures: {{{{ cpu.threads }}}} threads"
    do: {PLACEHOLDER} what a person should do
"""
_CASES = """\
# Hosts: `./run hosts`. What else a case can say, and what each line means: the head of
# tests/rules/test_cases.py
- name: {placeholder} a host that needs it
  host: h100-8x-2socket
  expect: {{verdict: {differs}, says: {placeholder} a phrase of the report{changes}}}
- name: {placeholder} a host that is right already
  host: h100-8x-2socket
  files: {{/{placeholder}: "its text\\n"}}  # what is different there; null takes a file away
  expect: {{verdict: ok}}
- name: in a container it belongs to the host
  host: container-docker
  expect: {{verdict: not applicable, says: in a container}}
"""
_CHANGES = ', changes: ["{placeholder} as `./run test rules -k {id}` prints them"]'


def frame_rule(
    rule: str, since: str, kind: str | None, rules: Mapping[str, Rule]
) -> tuple[str, str]:
    """The text of the rule and of its cases; `kind` is that of its wish, None for advice. Raises
    HosttuneError where there is no such kind. `rules` are those that can be shown as examples.
    """
    head = _HEAD.format(id=rule, since=since, placeholder=PLACEHOLDER)
    wants = _EXPECT if kind is None else _describe_want(kind, rules)
    param = _PARAM.format(placeholder=PLACEHOLDER) if _VALUE in wants else ""
    changes = "" if kind is None else _CHANGES.format(placeholder=PLACEHOLDER, id=rule)
    differs = "advice" if kind is None else "differs"
    return head + param + wants, _CASES.format(
        placeholder=PLACEHOLDER, differs=differs, changes=changes
    )


def _describe_want(name: str, rules: Mapping[str, Rule]) -> str:
    if name not in wish_kinds():
        raise HosttuneError(
            f"no kind of wish is called {name}", hint=f"there is: {', '.join(sorted(wish_kinds()))}"
        )
    kind = wish_kinds()[name]
    about = " ".join((type(kind).__doc__ or "").split())
    using = [rule for rule in rules.values() if any(wish.kind == name for wish in rule.want)]
    shown = (
        min(using, key=lambda rule: (len(rule.want), len(rule.params), rule.id)).id if using else ""
    )
    lines = [f"want:  # {about}", f"  - {name}: {PLACEHOLDER} its name"]
    if kind.operators:
        lines.append(f"    {_bound(kind)}")
    for key, spec in kind.fields.items():
        note = f"{key}: ({spec.type.__name__}) {spec.help}"
        lines.append(
            f"    {key}: {_make_value(spec)}  # {spec.help}" if spec.required else f"    # {note}"
        )
    lines += [f"    # an example: hosttune explain {shown} --source"] if shown else []
    return "\n".join(lines) + "\n"


def _bound(kind: WishKind) -> str:
    operators = ", ".join(map(str, kind.operators))
    numeric = next((one for one in kind.operators if one in NUMERIC), None)
    value = _VALUE if numeric else f"{PLACEHOLDER} the value"
    return f"{numeric or kind.operators[0]}: {value}  # {operators}"


def _make_value(spec: FieldSpec) -> str:
    if spec.choices:
        return str(spec.choices[0])
    return _VALUE if spec.type is int else f"{PLACEHOLDER} {spec.type.__name__}"
