"""What is said of a rule in more than one place: its wishes, what it reads, how to do and undo it by hand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosttune.engine.rule import Param, Rule, WishSpec

LONG = 80  # characters of a field that is still shown

# How a wish of each kind is met, and taken back, without hosttune; {name} is what the rule names, {rule} its id.
_BY_HAND = {
    "sysctl": (
        "write `{name} = VALUE` into a file in /etc/sysctl.d, then: sysctl --system",
        "delete that line, then: sysctl -w {name}=OLD_VALUE",
    ),
    "sysfs": (
        "echo VALUE > {name}, and a line `w {name} - - - - VALUE` in a file in /etc/tmpfiles.d for the next boot",
        "delete that line, then write the old value back into {name}",
    ),
    "sysfs by udev": (
        "echo VALUE > {name}, and for the next boot the udev rule that the plan shows, in a file in /etc/udev/rules.d",
        "delete that rule, then write the old value back into {name}",
    ),
    "mount": (
        "add the option to the line of {name} in /etc/fstab, then: mount -o remount,OPTION {name}",
        "take the option out of that line, then remount with the opposite one, such as relatime",
    ),
    "tmpfs": (
        "add `tmpfs {name} tmpfs mode=1777,nosuid,nodev,size=SIZE 0 0` to /etc/fstab, then reboot",
        "delete that line, then reboot",
    ),
    "data-mount": (
        "mkdir {name}, a line for it in /etc/fstab with nofail and the UUID, then: mount {name}",
        "umount {name}, delete the line and the folder",
    ),
    "dropin": ("write the file {name} as the plan shows it", "delete {name}"),
    "package": ("apt-get install {name}", "apt-get remove {name}, after a look at what else goes"),
    "packages": (
        "apt-get install the packages that the plan lists",
        "apt-get remove them, after a look at what else goes",
    ),
    "unit": ("systemctl enable --now {name}", "systemctl disable --now {name}"),
    "unit-dropin": (
        "systemctl edit {name}, and set what the plan shows; then restart it when nobody needs it",
        "systemctl revert {name}",
    ),
    "systemd-setting": (
        "for a unit: systemctl edit UNIT, and set what the plan shows; for X.conf a file in /etc/systemd/X.conf.d",
        "delete that file, then: systemctl daemon-reload",
    ),
    "limit": (
        "write `DOMAIN soft|hard {name} VALUE` lines into a file in /etc/security/limits.d, and log in anew",
        "delete that file",
    ),
    "docker-daemon": (
        "set {name} in /etc/docker/daemon.json, dockerd --validate, and restart docker when no container runs",
        "take {name} out of that file, and restart docker when no container runs",
    ),
    "kernel-argument": (
        (
            "append {name} to GRUB_CMDLINE_LINUX_DEFAULT in a file in /etc/default/grub.d that sorts last, then: "
            "update-grub, look for it in /boot/grub/grub.cfg, reboot"
        ),
        "delete that file, then: update-grub, reboot",
    ),
    "modprobe-option": (
        "write the line `options` that the plan shows into a file in /etc/modprobe.d, build the initramfs anew, reboot",
        "delete that file, build the initramfs anew, reboot",
    ),
    "needrestart": (
        "write `$nrconf{override_rc}{qr(^NAME\\.service$)} = 0;` for each into a file in /etc/needrestart/conf.d",
        "delete that file",
    ),
    "apt-blacklist": (
        "add the patterns to Unattended-Upgrade::Package-Blacklist in a file in /etc/apt/apt.conf.d",
        "delete that file",
    ),
}
_ANY = (
    "make the changes that `hosttune plan --select {rule}` shows",
    "put back the values that the plan shows on its left",
)

_FIGURES = {
    "docs": "from the sources below; nobody has measured it with hosttune",
    "vm": "from the sources below; that the change takes and goes back was tried in a virtual machine",
    "hardware": "from the sources below, and tried on real hardware",
}


def wish_text(spec: WishSpec) -> str:
    """A wish as one line: `sysctl vm.swappiness: at_most {{ params.value }}`."""
    bounds = [f"{operator.value} {source_text(value)}" for operator, value in spec.bounds]
    fields = [f"{name} {source_text(value)}" for name, value in spec.fields.items()]
    fields = [text if len(text) <= LONG else f"{text.partition(' ')[0]} (an expression)" for text in fields]
    told = ", ".join([*bounds, *fields])
    return f"{spec.kind} {source_text(spec.name)}" + (f": {told}" if told else "")


def source_text(value: Any) -> str:
    """How a value stands in the rule file: an expression with its braces, or the literal."""
    if hasattr(value, "source"):
        return str(value.source)
    if hasattr(value, "values"):
        return ", ".join(f"{name}={source_text(item)}" for name, item in value.values.items())
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)


def guard_texts(rule: Rule) -> list[str]:
    """When the rule applies, and what it says where it does not."""
    lines = [f"{guard.condition.source}  (else: {guard.otherwise.source})" for guard in rule.applies_when]
    return [*lines, *([f"for each: {rule.for_each.source}"] if rule.for_each else [])]


def reads_texts(rule: Rule) -> list[str]:
    """The facts that the rule looks at, each in the words of its module, and the values that it compares."""
    subjects = [f"{name}: {_first_paragraph(f'hosttune.facts.{name}')}" for name in sorted(rule.subjects)]
    if rule.choice:
        subjects.append(f"the choice {rule.choice}: {_first_paragraph(f'hosttune.choices.{rule.choice}')}")
    kinds = [f"{spec.kind} {source_text(spec.name)}, as it is now and after the next boot" for spec in rule.want]
    return [*subjects, *dict.fromkeys(kinds)]


def do_texts(rule: Rule) -> list[str]:
    """How a person does without hosttune what the rule wants or advises."""
    lines = [_by_hand(rule, spec)[0] for spec in rule.want]
    return list(dict.fromkeys(lines + [one.todo.source for one in rule.expect if one.todo]))


def undo_texts(rule: Rule) -> list[str]:
    """How a person takes it back without hosttune; advice changes nothing."""
    return list(dict.fromkeys(_by_hand(rule, spec)[1] for spec in rule.want))


def has_by_hand(kind: str) -> bool:
    """Whether the way without hosttune is told for wishes of this kind."""
    return kind in _BY_HAND


def _by_hand(rule: Rule, spec: WishSpec) -> tuple[str, str]:
    name = source_text(spec.name)
    persist = spec.fields.get("persist")
    way = f"{spec.kind} by {source_text(persist)}" if persist else spec.kind
    texts = _BY_HAND.get(way) or _BY_HAND.get(spec.kind, _ANY)
    do, undo = (text.replace("{name}", name).replace("{rule}", rule.id) for text in texts)
    return do, undo


def figure_text(rule: Rule) -> str:
    """Where the figure of the gain comes from."""
    return _FIGURES[rule.verified]


def risk_text(rule: Rule) -> str:
    """`high, exposes security, disturbs a service`."""
    exposes = f", exposes {rule.exposes}" if rule.exposes else ""
    return f"{rule.risk}{exposes}, disturbs {rule.disturbs}"


def standing_text(rule: Rule) -> str:
    """Whether the rule is there to stay, and since when it is there."""
    status = str(rule.status) + (f" (use {rule.replaced_by})" if rule.replaced_by else "")
    former = f", formerly {', '.join(rule.renamed_from)}" if rule.renamed_from else ""
    return f"{status}, since {rule.since} (edition {rule.edition}){former}"


def pieces(text: str) -> list[tuple[str, str]]:
    """The paragraphs and list items of a text as ("", text) and ("- ", text), each on one line."""
    found: list[tuple[str, str]] = []
    for paragraph in text.strip().split("\n\n"):
        for number, item in enumerate(f"\n{paragraph}".split("\n- ")):
            if item.strip():
                found.append(("- " if number else "", " ".join(item.split())))
    return found


def param_text(param: Param) -> str:
    """What a parameter means, its type, limits and default."""
    limits = [f"from {param.minimum}"] if param.minimum is not None else []
    limits += [f"to {param.maximum}"] if param.maximum is not None else []
    limits += [f"one of {', '.join(map(str, param.choices))}"] if param.choices else []
    was = [f"in {edition} {plain(value)}" for edition, value in param.was.items()]
    return f"{param.help} ({', '.join([param.type, *limits, f'default {plain(param.default)}', *was])})"


def plain(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, (list, tuple)) else str(value) or "empty"


def _first_paragraph(module: str) -> str:
    return " ".join((import_module(module).__doc__ or "").partition("\n\n")[0].split())
