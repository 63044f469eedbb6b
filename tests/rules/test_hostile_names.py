"""Names that users, containers and foreign disks choose, within the commands that hosttune says to
type: each is one word of a shell. The hosts of all cases are judged with such names in place of
theirs.
"""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from hosttune.actions.examine import examine
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.fstab_lines import parse
from hosttune.facts.storage.mounts import is_system
from hosttune.host.door import FIRST_PERSON, Completed
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.resources.storage.fstab_lint import lint
from hosttune.views.by_hand import describe_by_hand
from tests.rules.test_cases import CATALOG, FILES, host_of, policy_of

ODD = "-$(touch x)`id`;reboot'\"&|<"
PLANTED = "$(touch"
OCTAL = str.maketrans({" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"})
MOUNTS = re.compile(r"/(?:mountinfo|mounts|swaps|fstab|utab)$")
TAG = re.compile(r"\b(?:PART)?(?:LABEL|UUID)=([\w-]+)")
KEPT = frozenset(
    {
        "none",
        "swap",
        "/",
        "/home",
        "/boot",
        "/boot/efi",
        "/tmp",
        "/var",
        "/var/tmp",
        "/var/lib/docker",
    }
)
# What a user mounts by fusermount3 and by udisks2, which names the folder after the label.
USERS_MOUNTS = "".join(
    f"{number} 1 {device} / /{place}/{ODD.translate(OCTAL)} rw,nosuid,nodev - {fstype} {source}{ODD.translate(OCTAL)} rw{more}\n"
    for number, device, place, fstype, source, more in (
        (901, "0:901", "home/eve", "fuse.sshfs", "eve@", ",user_id=1001,group_id=1001"),
        (902, "7:77", "media/eve", "ext4", "/dev/loop77", ""),
        (903, "253:77", "mnt", "xfs", "/dev/mapper/luks-", ""),
    )
)
PROGRAMS = (
    "systemctl|mount|umount|rm|mv|cp|mkdir|chown|chmod|install|findmnt|lsblk|blkid|du|df|fuser|lsof|kill|printf|echo|tee|sysctl|"
    "docker|podman|kubectl|scontrol|udevadm|tune2fs|xfs_admin|xfs_repair|btrfs|zpool|mdadm|swapoff|swapon|journalctl|hosttune|apt-get|dpkg|cat|ls|ps|nsenter|setfacl|passwd|userdel|crontab|nvidia-smi|ip|ethtool|modprobe|sed|grep|find"
)
COMMAND = re.compile(rf"sudo |(?:^|[:;(`] ?|&& |\| )(?:{PROGRAMS}) ")


class Renamed:
    """A host with other names, in what it answers and in what it is asked for; a Reader."""

    def __init__(self, base) -> None:
        self._base = base
        self._names = names_of(base)
        words = "|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<![\w/.-])(?:{words})(?![\w.-])" if words else r"(?!)")

    def __getattr__(self, name):
        return getattr(self._base, name)

    def _old(self, text: str) -> str:
        return text.replace(ODD, "")

    def _new(self, text: str, encode=lambda name: name) -> str:
        return self._pattern.sub(lambda match: encode(f"{match[0]}{ODD}"), text)

    def _path(self, found):
        return self._new(found) if isinstance(found, str) else found

    def read(self, path):
        found = self._base.read(self._old(path))
        if not isinstance(found, bytes):
            return found
        encode = (
            (lambda name: name.translate(OCTAL)) if MOUNTS.search(path) else (lambda name: name)
        )
        if path.endswith("/mountinfo"):
            found += USERS_MOUNTS.encode()
        return self._new(found.decode("utf-8", "surrogateescape"), encode).encode(
            "utf-8", "surrogateescape"
        )

    def list(self, path):
        found = self._base.list(self._old(path))
        top = self._old(path).rstrip("/")
        new = f"{self._new(top)}/"
        return (
            tuple(self._new(f"{top}/{one}").removeprefix(new) for one in found)
            if isinstance(found, tuple)
            else found
        )

    def link(self, path):
        return self._path(self._base.link(self._old(path)))

    def resolve(self, path):
        return self._path(self._base.resolve(self._old(path)))

    def stat(self, path, **named):
        return self._base.stat(self._old(path), **named)

    def space(self, path):
        return self._base.space(self._old(path))

    def usage(self, path, *more, **named):
        return self._base.usage(self._old(path), *more, **named)

    def query(self, argv, **named):
        found = self._base.query(tuple(map(self._old, argv)), **named)
        if not isinstance(found, Completed):
            return found
        encode = (
            (lambda name: json.dumps(name)[1:-1])
            if found.stdout[:1] in (b"{", b"[")
            else (lambda name: name)
        )
        text = self._new(found.stdout.decode("utf-8", "surrogateescape"), encode)
        return dataclasses.replace(found, stdout=text.encode("utf-8", "surrogateescape"))

    def processes(self):
        found = self._base.processes()
        return tuple(map(_renamed, found)) if isinstance(found, tuple) else found


def _renamed(process):
    """The names that a process of a user gives itself, and those of the control groups that it was
    given.
    """
    if 0 <= process.uid < FIRST_PERSON:
        return process
    words = tuple(f"{word}{ODD}" for word in process.command)
    group = f"{process.cgroup}/{ODD}.service" if "user@" in process.cgroup else process.cgroup
    return dataclasses.replace(process, name=ODD[:15], user=f"u{ODD}", command=words, cgroup=group)


def names_of(reader) -> list[str]:
    """The places where data are mounted, and labels of disks."""
    found = set()
    for path, field in (("/etc/fstab", 1), ("/proc/self/mountinfo", 4), ("/proc/1/mountinfo", 4)):
        data = reader.read(path)
        text = data.decode(errors="replace") if isinstance(data, bytes) else ""
        found |= {
            row.split()[field]
            for row in text.splitlines()
            if len(row.split()) > field and row[0] != "#"
        }
        found |= set(TAG.findall(text))
    return sorted(
        one
        for one in found
        if "\\" not in one and one not in KEPT and not (one.startswith("/") and is_system(one))
    )


def is_quoted(before: str) -> bool:
    """Whether a shell is within single quotes where `before` ends."""
    around = [""]  # of each `$(` that is open, the quote that is
    place = 0
    while place < len(before):
        char, quote = before[place], around[-1]
        if quote == "'":
            around[-1] = "" if char == "'" else quote
        elif char == "\\":
            place += 1
        elif before.startswith("$(", place):
            around.append("")
            place += 1
        elif char == ")" and not quote and len(around) > 1:
            around.pop()
        elif char == '"' or (char == "'" and not quote):
            around[-1] = "" if char == quote else char
        place += 1
    return around[-1] == "'"


def has_bare_name(text: str) -> bool:
    """Whether a planted name is in a command without quotes. A command begins with sudo or a known
    program, and ends with its line.
    """
    for line in text.split("\n"):
        for planted in re.finditer(re.escape(PLANTED), line):
            start = COMMAND.search(line, 0, planted.start())
            if start and not is_quoted(line[start.start() : planted.start()].lstrip(":;(`&| ")):
                return True
    return False


def texts_of(plan):
    for finding in plan.findings:
        yield from (finding.reason, *finding.evidence, str(finding.hold), finding.todo)
    for change in plan.changes:
        for way in describe_by_hand([change]):
            yield from map(str, way)


def texts_of_fstab(reader):
    data = reader.read("/etc/fstab")
    if isinstance(data, bytes):
        yield from (text for one in lint(parse(data)) for text in (one.message, one.todo))
    try:
        yield from (
            text
            for one in look_at_boot_lines(Facts(reader))
            for text in (one.sentence, one.way_out)
        )
    except UnknownFact:
        return


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("see: sudo umount '/a$(touch x)'", False),
        ("see: sudo umount /a$(touch x)", True),
        ("it's there: sudo umount '/a$(touch x)'", False),
        ("`mount /a$(touch x)` takes it", True),
        ("do: mount -o \"$(findmnt '/a$(touch x)')\" /b", False),
        ('do: mount -o "/a$(touch x)" /b', True),
        ("/a$(touch x) is full", False),
    ],
)
def test_name_without_quotes_is_seen(text, is_bare):
    assert has_bare_name(text) is is_bare


@pytest.mark.parametrize("rule", sorted(FILES))
def test_planted_name_is_one_word_of_each_command(rule):
    fstabs = set()
    for case in FILES[rule]:
        reader = Renamed(host_of(case))
        bare = [
            text
            for text in texts_of(examine(reader, CATALOG, policy_of(rule, case)).plan(prove=False))
            if has_bare_name(text)
        ]
        assert not bare, (case["name"], bare)
        fstab = reader.read("/etc/fstab")
        if rule.startswith("storage-") and isinstance(fstab, bytes) and fstab not in fstabs:
            fstabs.add(fstab)
            bare = [text for text in texts_of_fstab(reader) if has_bare_name(text)]
            assert not bare, (case["name"], bare)
