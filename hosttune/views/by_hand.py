"""How the wishes of a rule are met, and taken back, without hosttune: commands and lines that work as they stand.

`OLD_VALUE` is the value from before, where nobody knows it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from hosttune.frozen import frozen
from hosttune.resources.docker_file import keys
from hosttune.values import Address

_GIB = 1 << 30
OLD = "OLD_VALUE"
_DROPINS = {  # where the drop-in of a rule lies
    "sysctl": "/etc/sysctl.d/60-hosttune-{rule}.conf",
    "sysfs": "/etc/tmpfiles.d/60-hosttune-{rule}.conf",
    "sysfs by udev": "/etc/udev/rules.d/60-hosttune-{rule}.rules",
    "unit-dropin": "/etc/systemd/system/{name}.d/60-hosttune-{rule}.conf",
    "limit": "/etc/security/limits.d/60-hosttune-{rule}.conf",
    "kernel-argument": "/etc/default/grub.d/60-hosttune-{rule}.cfg",
    "modprobe-option": "/etc/modprobe.d/60-hosttune-{rule}.conf",
    "needrestart": "/etc/needrestart/conf.d/60-hosttune-{rule}.conf",
    "apt-blacklist": "/etc/apt/apt.conf.d/60-hosttune-{rule}.conf",
}


@frozen
class Told:
    """One wish in words: `fields` as texts, lists and mappings of them."""

    kind: str
    name: str
    rule: str
    bound: str = ""  # at_least, exactly ...
    value: str = ""  # of the bound
    fields: Mapping[str, Any] = field(default_factory=dict)
    old: Mapping[Address, object] = field(default_factory=dict)  # what is there now, of what would change

    def word(self, name: str, default: str = "") -> str:
        """A field as text."""
        return str(self.fields.get(name) or default)

    def before(self, kind: str, name: str) -> str:
        """What an address holds now, where a change of it is planned."""
        value = self.old.get(Address(kind, name))
        return value if isinstance(value, str) else OLD

    @property
    def dropin(self) -> str:
        way = f"{self.kind} by {self.word('persist')}" if self.word("persist") else self.kind
        return _DROPINS.get(way, _DROPINS.get(self.kind, "")).format(rule=self.rule, name=self.name)


Ways: TypeAlias = tuple[list[str], list[str]]  # how to do it, how to take it back


def ways(wishes: tuple[Told, ...]) -> Ways:
    """How to do what these wishes of one rule say, and how to take it back; wishes of one kind come together."""
    do: list[str] = []
    undo: list[str] = []
    for kind in dict.fromkeys(wish.kind for wish in wishes):
        one, other = _WAYS.get(kind, _any)([wish for wish in wishes if wish.kind == kind])
        do += few(list(dict.fromkeys(one)))
        undo += few(list(dict.fromkeys(other)))
    return do, undo


def few(texts: list[str], many: int = 4) -> list[str]:
    """The first of many lines of one kind, and how many there are besides."""
    return texts if len(texts) <= many else [*texts[:many], f"and {len(texts) - many} more of this kind"]


def has_way(kind: str) -> bool:
    """Whether the way without hosttune is told for wishes of this kind."""
    return kind in _WAYS


def _each(way: Callable[[Told], tuple[str, str]]) -> Callable[[list[Told]], Ways]:
    """A kind whose wishes have nothing to do with each other."""

    def all_of(wishes: list[Told]) -> Ways:
        pairs = [way(wish) for wish in wishes]
        return [do for do, _ in pairs], [undo for _, undo in pairs]

    return all_of


def _sysctl(wishes: list[Told]) -> Ways:
    lines = [f"`{wish.name} = {wish.value}`" for wish in wishes]
    olds = [(wish.name, wish.before("sysctl", wish.name)) for wish in wishes]
    words = [old if "=" in old else f"{name}={old}" for name, old in olds]  # vm.dirty_bytes may be vm.dirty_ratio=20
    return (
        [f"write {_listed(lines)} into a file in /etc/sysctl.d, then: sysctl --system"],
        [f"rm {wishes[0].dropin}, or take those lines out, then: sysctl -w {' '.join(map(shlex.quote, words))}"],
    )


def _sysfs(wish: Told) -> tuple[str, str]:
    value = "VALUE" if " or " in wish.value else wish.value
    boot = f"a line `w {wish.name} - - - - {value}` in a file in /etc/tmpfiles.d"
    if wish.word("persist") == "udev":
        boot = f"the udev rule that `hosttune plan --select {wish.rule}` shows, in a file in /etc/udev/rules.d"
    old = next((str(value) for address, value in wish.old.items() if address.name == wish.name), OLD)
    return (
        f"echo {value} | tee {wish.name}; for the next boot {boot}",
        f"rm {wish.dropin}, or what you wrote in its place, then: echo {old} | tee {wish.name}",
    )


def _mount(wish: Told) -> tuple[str, str]:
    option = wish.word("atime", "OPTION")
    return (
        f"add {option} to the options of {wish.name} in /etc/fstab, then: mount -o remount,{option} {wish.name}",
        f"take {option} out of that line, then: mount -o remount,relatime {wish.name}",
    )


def _tmpfs(wish: Told) -> tuple[str, str]:
    size = int(wish.value) if wish.value.isdecimal() else 0
    text = f"{size // _GIB}G" if size and size % _GIB == 0 else wish.value or "SIZE"
    return (
        f"add `tmpfs {wish.name} tmpfs mode=1777,nosuid,nodev,size={text} 0 0` to /etc/fstab, then reboot",
        "delete that line, then reboot",
    )


def _data_mount(wish: Told) -> tuple[str, str]:
    options = wish.fields.get("options")
    texts = list(options) if isinstance(options, (list, tuple)) else []
    line = f"{wish.word('source')} {wish.name} {wish.word('fstype', 'auto')} {','.join([*texts, 'nofail'])} 0 2"
    return (
        f"mkdir -p {wish.name}, add `{line}` to /etc/fstab, then: findmnt --verify && mount {wish.name}",
        f"umount {wish.name}, delete that line, then: rmdir {wish.name}",
    )


def _dropin(wish: Told) -> tuple[str, str]:
    return f"write the file {wish.name} as `hosttune plan --select {wish.rule}` shows it", f"rm {wish.name}"


def _packages(wish: Told) -> tuple[str, str]:
    return f"apt-get install {wish.name}", f"apt-get remove {wish.name}, after a look at what else goes"


def _unit(wish: Told) -> tuple[str, str]:
    return f"systemctl enable --now {wish.name}", f"systemctl disable --now {wish.name}"


def _unit_dropin(wish: Told) -> tuple[str, str]:
    line = f"the ExecStart= line that `systemctl cat {wish.name}` shows, without {wish.word('without')}"
    return (
        f"systemctl edit {wish.name}: [Service], an empty ExecStart=, {line}; restart it when nobody needs it",
        f"rm {wish.dropin} && systemctl daemon-reload, and restart it when nobody needs it",
    )


def _systemd_setting(wish: Told) -> tuple[str, str]:
    place, section, key = (*wish.name.split("/"), "", "")[:3]
    is_unit = not place.endswith(".conf")
    folder = f"/etc/systemd/system/{place}.d" if is_unit else f"/etc/systemd/{place}.d"
    file = f"{folder}/60-hosttune-{wish.rule}.conf"
    line = f"{key}={wish.value} under [{section}]"
    if is_unit:
        do = f"systemctl edit {place}: {line}; restart it when nobody needs it"
        return do, f"rm {file} && systemctl daemon-reload, and restart {place} when nobody needs it"
    return f"write {line} into a file in {folder}, and reboot when nothing runs", f"rm {file}, and reboot"


def _limit(wishes: list[Told]) -> Ways:
    lines = [
        f"`{domain} {side} {wish.name} {wish.word(side)}`"
        for wish in wishes
        for domain in wish.fields.get("domains", ("*", "root"))
        for side in ("soft", "hard")
        if wish.word(side)
    ]
    return (
        [f"write {_listed(lines)} into a file in /etc/security/limits.d, and log in anew"],
        [f"rm {wishes[0].dropin}, and log in anew"],
    )


def _docker_daemon(wishes: list[Told]) -> Ways:
    settings: dict[str, Any] = {}
    for wish in wishes:
        members = wish.fields.get("object") or {"": wish.value}
        for name, value in members.items():
            at = settings
            *above, last = (*keys(wish.name), *(keys(str(name)) if name else ()))
            for key in above:
                at = at.setdefault(key, {})
            at[last] = value
    restart = "restart docker when no container runs"
    return (
        [f"merge {json.dumps(settings)} into /etc/docker/daemon.json, then: dockerd --validate; {restart}"],
        [f"take {_listed(sorted(settings))} out of that file again, and {restart}"],
    )


def _kernel_argument(wish: Told) -> tuple[str, str]:
    name = "ARGUMENT" if " or " in wish.name else wish.name
    line = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {name}"'
    make = f"update-grub && grep -c {shlex.quote(name)} /boot/grub/grub.cfg"
    which = "" if name == wish.name else f" (ARGUMENT: {wish.name})"
    return (
        f"write `{line}` into a file in /etc/default/grub.d that sorts last, then: {make}, and reboot{which}",
        f"rm {wish.dropin} && update-grub, and reboot",
    )


def _modprobe_option(wishes: list[Told]) -> Ways:
    lines = ["`options {} {}={}`".format(*wish.name.partition(".")[::2], wish.value) for wish in wishes]
    rebuild = "update-initramfs -u -k all (with dracut: dracut -f --regenerate-all), and reboot"
    return (
        [f"write {_listed(lines)} into a file in /etc/modprobe.d, then: {rebuild}"],
        [f"rm {wishes[0].dropin}, then: {rebuild}"],
    )


def _needrestart(wish: Told) -> tuple[str, str]:
    names = [name.removesuffix(".service") for name in wish.name.replace(",", " ").split()]
    line = f"`$nrconf{{override_rc}}{{qr(^{names[0]}\\.service$)}} = 0;`"
    do = f"write a line {line} for each of {_listed(names)} into a file in /etc/needrestart/conf.d"
    return do, f"rm {wish.dropin}"


def _apt_blacklist(wish: Told) -> tuple[str, str]:
    patterns = " ".join(f'"{pattern}";' for pattern in wish.name.replace(",", " ").split())
    return (
        f"write `Unattended-Upgrade::Package-Blacklist {{ {patterns} }};` into a file in /etc/apt/apt.conf.d",
        f"rm {wish.dropin}",
    )


def _any(wishes: list[Told]) -> Ways:
    rule = wishes[0].rule
    return [f"make the changes that `hosttune plan --select {rule}` shows"], ["put back the values on its left"]


def _listed(items: list[str]) -> str:
    return ", ".join(items[:-1]) + (" and " if len(items) > 1 else "") + items[-1]


_WAYS: Mapping[str, Callable[[list[Told]], Ways]] = {
    "sysctl": _sysctl, "sysfs": _each(_sysfs), "mount": _each(_mount), "tmpfs": _each(_tmpfs),
    "data-mount": _each(_data_mount), "dropin": _each(_dropin), "package": _each(_packages),
    "packages": _each(_packages), "unit": _each(_unit), "unit-dropin": _each(_unit_dropin),
    "systemd-setting": _each(_systemd_setting), "limit": _limit, "docker-daemon": _docker_daemon,
    "kernel-argument": _each(_kernel_argument), "modprobe-option": _modprobe_option,
    "needrestart": _each(_needrestart), "apt-blacklist": _each(_apt_blacklist),
}  # fmt: skip
