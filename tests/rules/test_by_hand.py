"""What `explain` teaches to do by hand is what hosttune would do: a person does it, step by step,
on every built host and in every case of a rule, and the next look finds nothing to change; then
takes it back the same way.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from hosttune.actions.examine import examine
from hosttune.facts.packages import DATABASE
from hosttune.facts.storage.filesystems import look
from hosttune.facts.sysfs import expand
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import invert_change
from hosttune.resources.containers.docker_file import PATH as DAEMON_JSON
from hosttune.resources.file import lines_that_count
from hosttune.resources.kernel.sysctl import proc_path
from hosttune.resources.storage.fstab_document import PATH as FSTAB
from hosttune.values import ABSENT, FileValue
from hosttune.views.by_hand import describe_by_hand
from tests.hosts.built import BUILT
from tests.rules.test_cases import CASES, CATALOG
from tests.rules.tried import policy_at, reader_of

# What only makes effective what was written.
EFFECTS = ("systemctl daemon-reload", "update-grub", "update-initramfs ", "dockerd --validate", "when it is not in use: ",
           "findmnt --verify", "log in again", "reboot when nothing runs")  # fmt: skip
NOW = {"enable": "start", "disable": "stop"}
TRIED = [
    (f"{rule}-{case['name']}", rule, case) for rule, case in CASES if case["expect"].get("changes")
]
TRIED += [
    (f"{path.stem}-{rule}", rule, path)
    for path in BUILT
    for rule, kind in CATALOG.rules.items()
    if kind.want
]


def do(door: Overlay, step: str) -> None:
    """One step as a person would take it."""
    if "| install -D" in step:
        command, _, install = step.partition(" | ")
        *_, mode, source, path = shlex.split(install, comments=True)
        assert source == "/dev/stdin"
        text = subprocess.run(
            ["/bin/sh", "-c", command], check=True, capture_output=True, timeout=10
        ).stdout
        door.files[path] = FileValue(text, int(mode, 8))
    elif step.startswith("rm "):
        door.files[step[3:]] = ABSENT
    elif step.startswith("sysctl -w "):
        for pair in shlex.split(step)[2:]:
            key, _, value = pair.partition("=")
            door.set_value(proc_path(key), f"{value}\n")
    elif step.startswith("echo "):
        _, value, _, _, pattern = shlex.split(step)
        for path in expand(door, pattern):
            door.set_value(path, f"{value}\n")
    elif step.startswith("install -d -m 755 "):
        door.make_folder(step.rsplit(maxsplit=1)[-1])
    elif step.startswith("systemctl ") and step != "systemctl daemon-reload":
        systemctl(door, step)
    elif not tell(door, step):
        assert step.startswith(EFFECTS), step


def systemctl(door: Overlay, step: str) -> None:
    step = re.sub(
        r"(enable|disable) --now (\S+)",
        lambda found: f"{found[1]} {found[2]}; systemctl {NOW[found[1]]} {found[2]}",
        step,
    )
    for command in step.split("; "):
        door.run(tuple(command.split()), timeout_s=1.0)


def tell(door: Overlay, step: str) -> bool:
    """Steps in words, and those that another program takes."""
    if found := re.fullmatch(
        r"in (?:line \d+|the line of \S+) (?:of|in) (\S+) the options `(.*)` become `(.*)`", step
    ):
        edited(door, found[1], f"\t{found[2]}\t", f"\t{found[3]}\t") or edited(
            door, found[1], f" {found[2]} ", f" {found[3]} "
        )
    elif found := re.fullmatch(rf"add the line `(.*)` to {FSTAB}", step):
        door.files[FSTAB] = FileValue(
            door.read(FSTAB).rstrip(b"\n") + b"\n" + found[1].encode() + b"\n"
        )
    elif found := re.fullmatch(rf"take the line `(.*)` out of {FSTAB}", step):
        kept = [
            line
            for line in door.read(FSTAB).decode().split("\n")
            if line.split() != found[1].split()
        ]
        door.files[FSTAB] = FileValue("\n".join(kept).encode())
    elif found := re.fullmatch(
        r'mount --options-source disable -o "remount,bind,\$\(.*\),(\w+)" (\S+)', step
    ):
        door.set_atime(found[2], found[1])
    elif step.startswith("mount /"):
        source, target, fstype, options, *_ = line_of(door, step.split()[1])
        door.mount(look(door).by_tag[source].path, target, fstype, options)
    elif step.startswith("umount /"):
        door.unmount(step.split()[1])
    elif step.startswith("rmdir /"):
        door.remove_folder(step.split()[1])
    elif found := re.fullmatch(rf"merge (\{{.*\}}) into {DAEMON_JSON}", step):
        written(door, merged(settings(door), json.loads(found[1])))
    elif found := re.fullmatch(
        rf"take (.*) out of {DAEMON_JSON}, and objects that are empty then", step
    ):
        present = settings(door)
        for name in found[1].split(", "):
            drop(present, name.split("."))
        written(door, present)
    elif step.startswith("apt-get "):
        packages(door, step)
    else:
        return False
    return True


def edited(door: Overlay, path: str, before: str, after: str) -> bool:
    text = door.read(path).decode()
    padded = re.sub(r"[ \t]+", lambda gap: gap[0][:1], text)
    if padded.count(before) < 1:
        return False
    door.files[path] = FileValue(padded.replace(before, after, 1).encode())
    return True


def line_of(door: Overlay, target: str) -> list[str]:
    return next(
        line.split()
        for line in door.read(FSTAB).decode().splitlines()
        if line.split()[1:2] == [target]
    )


def packages(door: Overlay, step: str) -> None:
    words = shlex.split(step.partition(", after a look")[0])[2:]
    operands = [word for word in words if not word.startswith("--")]
    if step.startswith("apt-get remove "):
        operands = [f"{one}-" for one in operands]
    names = {one.partition("=")[0].removesuffix("-") for one in operands}
    kept = [
        row
        for row in door.read(DATABASE).decode().rstrip("\n").split("\n\n")
        if row.split("\n")[0][9:] not in names
    ]
    new = [one.partition("=")[::2] for one in operands if not one.endswith("-")]
    kept += [
        f"Package: {name}\nStatus: install ok installed\nArchitecture: all\nVersion: {version}"
        for name, version in new
    ]
    door.files[DATABASE] = FileValue(("\n\n".join(kept) + "\n").encode())


def settings(door: Overlay):
    present = door.read(DAEMON_JSON)
    return json.loads(present) if isinstance(present, bytes) else {}


def written(door: Overlay, value) -> None:
    door.files[DAEMON_JSON] = FileValue(json.dumps(value).encode())


def drop(value, path) -> None:
    first, *rest = path
    if rest:
        drop(value[first], rest)
    if not rest or not value[first]:
        del value[first]


def merged(one, other):
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return {**one, **{key: merged(one.get(key), value) for key, value in other.items()}}


def looked(door, rule, where):
    return examine(door, CATALOG, policy_at(where, rule)).plan()


@pytest.mark.parametrize(("name", "rule", "where"), TRIED, ids=[name for name, _, _ in TRIED])
def test_what_is_taught_is_what_hosttune_does(name, rule, where):
    door = Overlay(reader_of(where))
    changes = (
        looked(door, rule, where).stages[0].changes if looked(door, rule, where).stages else ()
    )
    does, undoes = describe_by_hand(changes)
    assert [step for step in (*does, *undoes) if not step or "OLD_VALUE" in step] == []
    for step in does:
        do(door, step)
    for change in changes:
        kind = address_kinds()[change.address.kind]
        present = kind.read(door, change.address.name)
        assert alike(kind, present, change), (str(change.address), present, change.after, does)
    again = looked(door, rule, where)
    assert [str(change.address) for change in again.changes if change in changes] == [], does
    assert "edited by hand" not in {str(finding.hold.kind) for finding in again.findings}, does
    for step in undoes:
        do(door, step)
    for change in map(invert_change, changes):
        kind = address_kinds()[change.address.kind]
        present = kind.read(door, change.address.name)
        # an empty daemon.json may stay
        assert change.address.kind == "docker-config" or alike(kind, present, change), (
            str(change.address),
            undoes,
        )


def alike(kind, present, change) -> bool:
    """Whether an address holds what would have been written, comments and blanks aside."""
    if isinstance(change.after, FileValue) and isinstance(present, FileValue):
        return lines_that_count(present.content) == lines_that_count(change.after.content)
    if (
        change.address.kind == "fstab-line"
        and isinstance(present, str)
        and isinstance(change.after, str)
    ):
        return present.split() == change.after.split()
    if (
        change.address.kind == "package-set" and change.after is not ABSENT
    ):  # apt brings along what the others need
        return {*change.after} >= {*present}
    return kind.same(present, change.after)


def test_every_kind_of_wish_is_tried():
    tried = {spec.kind for _, rule, _ in TRIED for spec in CATALOG.rules[rule].want}
    assert tried >= set(wish_kinds()) - {"package"}  # another word for packages
