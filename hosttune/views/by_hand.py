"""How changes are made, and taken back, without hosttune: commands and lines that work as they stand.

Nothing is told here a second time: each step is made of the change itself, of the very value that would be written.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, TypeAlias

from hosttune.resources.base import inverted
from hosttune.resources.containers.docker_file import PATH as DAEMON_JSON
from hosttune.resources.containers.docker_file import keys
from hosttune.resources.file import lines_that_count
from hosttune.resources.packages.package_set import split_set, versions
from hosttune.resources.services.restart import unit_of
from hosttune.resources.services.unit import verbs
from hosttune.resources.storage.fstab_document import PATH as FSTAB
from hosttune.resources.storage.mount_policy import remount
from hosttune.values import ABSENT, Activation, FileValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hosttune.values import Change, Trigger

MANY_LINES = 16  # of a file that is still told as one command
_COMMANDS = frozenset({
    "apt-get", "dockerd", "echo", "install", "mount", "printf", "rm", "rmdir", "sysctl", "systemctl", "umount",
    "update-grub",
})  # fmt: skip
_INITRAMFS = "update-initramfs -u -k all (with dracut: dracut -f --regenerate-all)"
Ways: TypeAlias = tuple[list[str], list[str]]  # how to do it, how to take it back


def ways(changes: Iterable[Change]) -> Ways:
    """How to make these changes of one rule, and how to take them back."""
    listed = list(changes)
    return _steps(listed), _steps([inverted(change) for change in reversed(listed)])


def few(texts: list[str], many: int = 4) -> list[str]:
    """The first of many lines of one kind, and how many there are besides."""
    return texts if len(texts) <= many else [*texts[:many], f"and {len(texts) - many} more of this kind"]


def is_copied(step: str) -> bool:
    """Whether a step is a command, or holds a whole line of a file: then it must not be broken into lines."""
    return step.partition(" ")[0] in _COMMANDS or step.startswith(("add the line `", "take the line `", "merge {"))


def has_way(kind: str) -> bool:
    """Whether the way without hosttune is told for addresses of this kind."""
    return kind in _TOLD or kind in _DOCKER


def _steps(changes: list[Change]) -> list[str]:
    """Kind by kind in the order of the changes, then what makes them effective."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.address.kind in _TOLD:
            found.setdefault(change.address.kind, []).append(_TOLD[change.address.kind](change))
    steps = [step for kind, texts in found.items() for step in _of_kind(kind, list(dict.fromkeys(texts)))]
    return [*steps, *_docker(changes), *_afterwards(changes)]


def _of_kind(kind: str, texts: list[str]) -> list[str]:
    """Values of the kernel together; of many devices the first; files one by one."""
    if kind == "sysctl":
        return [f"sysctl -w {' '.join(texts)}"]
    return texts if kind == "file" else few(texts)


def _afterwards(changes: list[Change]) -> list[str]:
    triggers = list(dict.fromkeys(trigger for change in changes for trigger in change.triggers))
    steps = [_trigger(trigger) for trigger in triggers]
    restarted = {trigger.name for trigger in triggers if trigger.kind == "restart"}
    units = {unit_of(change.address) for change in changes if change.activation is Activation.RESTART}
    steps += [_restart(unit) for unit in sorted(units - restarted - {""})]
    last = max((change.activation for change in changes), default=Activation.NOW)
    ends = {Activation.REBOOT: "reboot when nothing runs", Activation.SESSION: "log in anew"}
    return [*steps, ends[last]] if last in ends else steps


def _trigger(trigger: Trigger) -> str:
    words = {"daemon-reload": "systemctl daemon-reload", "rebuild-initramfs": _INITRAMFS}
    return _restart(trigger.name) if trigger.kind == "restart" else words.get(trigger.kind, str(trigger))


def _restart(unit: str) -> str:
    return f"when nobody needs it: systemctl restart {unit}"


def _file(change: Change) -> str:
    path, value = shlex.quote(change.address.name), change.after
    if not isinstance(value, FileValue):
        return f"rm {path}"
    lines = lines_that_count(value.content)
    if len(lines) > MANY_LINES:
        return f"write {path} as `hosttune plan --select {change.rule}` shows it"
    note = f"  # {change.reason}" if change.reason else ""
    return f"printf '%s\\n' {shlex.join(lines)} | install -D -m {value.mode:o} /dev/stdin {path}{note}"


def _sysctl(change: Change) -> str:
    value = str(change.after)  # vm.dirty_bytes may have to become vm.dirty_ratio=20 again
    return shlex.quote(value if "=" in value else f"{change.address.name}={value}")


def _sysfs(change: Change) -> str:
    """A pattern stands as it is: the shell expands it."""
    return f"echo {shlex.quote(str(change.after))} | tee {change.address.name}"


def _sysfs_set(change: Change) -> str:
    pattern = change.address.name
    if isinstance(change.after, str):
        return f"echo {shlex.quote(change.after)} | tee {pattern}"
    rows = "; ".join(change.after) if isinstance(change.after, tuple) else str(change.after)
    return f"write into {pattern}, by what the star stands for: {rows}"


def _fstab(change: Change) -> str:
    hunk = next((line for line in change.details if line.startswith("@@ -")), "")
    line = hunk.split()[1].lstrip("-").partition(",")[0] if hunk else ""
    where = f"line {line} of {FSTAB}" if line else f"the line of {change.address.name} in {FSTAB}"
    return f"in {where} the options `{change.before}` become `{change.after}`; then: findmnt --verify"


def _fstab_line(change: Change) -> str:
    if change.after is ABSENT:
        return f"take the line `{_blanks(change.before)}` out of {FSTAB}"
    return f"add the line `{_blanks(change.after)}` to {FSTAB}; then: findmnt --verify"


def _blanks(value: object) -> str:
    """Tabs, which no terminal copies, as blanks: both readers of fstab take either."""
    return str(value).replace("\t", " ")


def _mount(change: Change) -> str:
    return remount(change.address.name, str(change.after))


def _folder(change: Change) -> str:
    path = shlex.quote(change.address.name)
    return f"rmdir {path}" if change.after is ABSENT else f"install -d -m 755 {path}"


def _data_mount(change: Change) -> str:
    """The line in fstab, which comes before, says the rest."""
    return f"{'umount' if change.after is ABSENT else 'mount'} {shlex.quote(change.address.name)}"


def _package_set(change: Change) -> str:
    asked, along, removed = split_set(change.address.name)
    before, after = versions(change.before), versions(change.after)
    named = (name for name in (*asked, *removed) if name in after and after[name] != before.get(name))
    install = [f"{name}={after[name]}" if after[name] else name for name in named]
    remove = [name for name in (*asked, *along, *removed) if name in before and name not in after]
    if not install:
        return f"apt-get remove {' '.join(remove)}, after a look at what else goes"
    return f"apt-get install --no-install-recommends {' '.join([*install, *(f'{name}-' for name in remove)])}"


def _unit(change: Change) -> str:
    name, words = shlex.quote(change.address.name), verbs(change.before, change.after)
    if words in {("enable", "start"), ("disable", "stop")}:
        return f"systemctl {words[0]} --now {name}"
    return "; ".join(f"systemctl {word} {name}" for word in words)


def _docker(changes: list[Change]) -> list[str]:
    """All keys of daemon.json together: one text to merge into it, and the keys to take out."""
    own = [change for change in changes if change.address.kind == "docker-daemon"]
    merged: dict[str, Any] = {}
    for change in own:
        at = merged
        *above, last = keys(change.address.name)
        for key in above if change.after is not ABSENT else ():
            at = at.setdefault(key, {})
        if change.after is not ABSENT:
            at[last] = json.loads(str(change.after))
    gone = [".".join(keys(change.address.name)) for change in own if change.after is ABSENT]
    steps = [f"merge {json.dumps(merged)} into {DAEMON_JSON}"] if merged else []
    steps += [f"take {', '.join(gone)} out of {DAEMON_JSON}, and objects that are empty then"] if gone else []
    return [*steps, f"dockerd --validate --config-file={DAEMON_JSON}"] if steps else []


_DOCKER = frozenset({"docker-daemon", "docker-config"})
_TOLD: Mapping[str, Callable[[Change], str]] = {
    "file": _file, "sysctl": _sysctl, "sysfs": _sysfs, "sysfs-set": _sysfs_set, "fstab": _fstab,
    "fstab-line": _fstab_line, "mount": _mount, "folder": _folder, "data-mount": _data_mount,
    "package-set": _package_set, "unit": _unit,
}  # fmt: skip
