"""One rule explained: why, what it may cost, how to do it by hand, how to switch it off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.views.change import change_lines
from hosttune.views.findings import ALL, sections_lines
from hosttune.views.masking import masked
from hosttune.views.page import shown
from hosttune.views.terminal import columned, wrapped

if TYPE_CHECKING:
    from hosttune.engine.rule import Param, Rule, WishSpec
    from hosttune.values import Finding
    from hosttune.views.page import Page

LONG = 80  # characters of a field that is still shown

# How a wish of each kind is met without hosttune; {name} is what the rule names.
_BY_HAND = {
    "sysctl": "write `{name} = VALUE` into a file in /etc/sysctl.d, then: sysctl --system",
    "mount": "add the option to the line of {name} in /etc/fstab, then: mount -o remount,OPTION {name}",
    "tmpfs": "add `tmpfs {name} tmpfs mode=1777,nosuid,nodev,size=SIZE 0 0` to /etc/fstab, then reboot",
    "dropin": "write the file {name} as the plan shows it",
    "package": "apt-get install {name}",
    "packages": "apt-get install {name}",
    "unit": "systemctl enable --now {name}",
    "unit-dropin": "systemctl edit {name}: [Service], ExecStart=, and the packaged line without the option; then: "
    "systemctl restart {name}",
    "apt-blacklist": "add the patterns to Unattended-Upgrade::Package-Blacklist in a file in /etc/apt/apt.conf.d",
}


def explain_text(
    rule: Rule, params: dict[str, Any], findings: tuple[Finding, ...] | None, profiles: tuple[str, ...], page: Page
) -> str:
    """`params` are the values in force, `findings` what the rule says of this host (None: it was not asked)."""
    lines = [page.screen.paint(shown(rule.id), "bold") + f": {shown(rule.title)}", ""]
    lines += columned(_facts(rule, profiles), page.screen)
    lines += _paragraphs("Why", rule.why, page)
    lines += _block("Applies when", _guards(rule), page)
    lines += _block("Wants", [_wish(spec) for spec in rule.want], page)
    lines += _block("Expects", [e.condition.source for e in rule.expect], page)
    lines += _block("By hand", _by_hand(rule), page)
    lines += _params(rule, params, page)
    if findings is not None:
        lines += _here(findings, page)
    lines += _block("Sources", list(rule.sources), page)
    off = [f"  in /etc/hosttune/policy.yaml:  ignore: [{rule.id}]", f"  this time only:  --ignore {rule.id}"]
    lines += ["", page.screen.paint("Switch it off", "bold"), *off]
    if rule.want and page.can_apply:
        lines += ["", page.screen.paint("Take back what it did", "bold"), f"  {page.act(f'undo --rule {rule.id}')}"]
    return "\n".join(lines) + "\n"


def explain_json(
    rule: Rule, params: dict[str, Any], findings: tuple[Finding, ...] | None, profiles: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "id": rule.id,
        "title": rule.title,
        "risk": rule.risk.value,
        "disturbs": rule.disturbs.value,
        "since": rule.since,
        "verified": rule.verified,
        "profiles": list(profiles),
        "gain": rule.gain,
        "why": rule.why,
        "sources": list(rule.sources),
        "applies_when": [{"if": g.condition.source, "else": g.otherwise.source} for g in rule.applies_when],
        "wants": [_wish(spec) for spec in rule.want],
        "expects": [expectation.condition.source for expectation in rule.expect],
        "params": {name: to_json(value) for name, value in params.items()},
        "findings": None if findings is None else masked(to_json(findings)),
    }


def _facts(rule: Rule, profiles: tuple[str, ...]) -> list[tuple[str, ...]]:
    disturbs = f"disturbs {rule.disturbs}"
    rows = [("risk", f"{rule.risk}, {disturbs}"), ("gain", shown(" ".join(rule.gain.split())))]
    origin = "" if rule.is_builtin else f", from {shown(rule.where.path)}"
    rows.append(("since", f"{rule.since}, verified by {rule.verified}{origin}"))
    return [*rows, ("profiles", ", ".join(profiles) or "none: it runs where a policy selects it")]


def _guards(rule: Rule) -> list[str]:
    lines = [f"{guard.condition.source}  (else: {guard.otherwise.source})" for guard in rule.applies_when]
    return [*lines, *([f"for each: {rule.for_each.source}"] if rule.for_each else [])]


def _wish(spec: WishSpec) -> str:
    bounds = [f"{operator.value} {_source(value)}" for operator, value in spec.bounds]
    fields = [f"{name} {_source(value)}" for name, value in spec.fields.items()]
    fields = [text if len(text) <= LONG else f"{text.partition(' ')[0]} (an expression)" for text in fields]
    return f"{spec.kind} {_source(spec.name)}: {', '.join([*bounds, *fields])}"


def _source(value: Any) -> str:
    """How a value stands in the rule file: an expression with its braces, or the literal."""
    if hasattr(value, "source"):
        return str(value.source)
    if hasattr(value, "values"):
        return ", ".join(f"{name}={_source(item)}" for name, item in value.values.items())
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)


def _by_hand(rule: Rule) -> list[str]:
    lines = [_BY_HAND[spec.kind].format(name=_source(spec.name)) for spec in rule.want if spec.kind in _BY_HAND]
    return list(dict.fromkeys(lines + [_source(e.todo) for e in rule.expect if e.todo]))


def _params(rule: Rule, params: dict[str, Any], page: Page) -> list[str]:
    if not rule.params:
        return []
    rows: list[tuple[str, ...]] = [
        (f"{name} = {_plain(params[name])}", _param(param)) for name, param in rule.params.items()
    ]
    title = page.screen.paint("Parameters", "bold") + f" (policy: params: {{{rule.id}: {{NAME: VALUE}}}})"
    return ["", title, *columned(rows, page.screen, indent=2)]


def _param(param: Param) -> str:
    limits = [f"from {param.minimum}"] if param.minimum is not None else []
    limits += [f"to {param.maximum}"] if param.maximum is not None else []
    limits += [f"one of {', '.join(map(str, param.choices))}"] if param.choices else []
    return f"{param.help} ({', '.join([param.type, *limits, f'default {_plain(param.default)}'])})"


def _plain(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, (list, tuple)) else str(value)


def _here(findings: tuple[Finding, ...], page: Page) -> list[str]:
    lines = sections_lines(ALL, findings, page)
    for finding in findings:
        for change in finding.changes:
            lines += change_lines(change, page.screen)
    return ["", page.screen.paint(f"On {shown(page.host)}", "bold"), *lines[1:]]


def _paragraphs(title: str, text: str, page: Page) -> list[str]:
    lines = ["", page.screen.paint(title, "bold")]
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        lines += [""] if number else []
        lines += wrapped(shown(" ".join(paragraph.split())), page.screen.columns, first="  ", rest="  ")
    return lines


def _block(title: str, texts: list[str], page: Page) -> list[str]:
    if not texts:
        return []
    body = [line for t in texts for line in wrapped(shown(t), page.screen.columns, first="  - ", rest="    ")]
    return ["", page.screen.paint(title, "bold"), *body]
