"""The guard of a trial: takes changes for the next boot back where no one confirms them, also where
that boot stops.

A script of POSIX sh and units of systemd, written before the first change and removed when the
trial ends. Everything is in /etc, which is on the root file system; what is put back are bytes that
were kept beforehand, and only where the file holds what hosttune wrote. The units are named in
drop-ins of the targets that want them, so the next boot reads them and nothing has to be reloaded
now. What happens in which boot is in `templates/come-back.sh`.

`FOLDER` holds the script (`run`), the list of files (`set`: number, mode, owner, path), `NNN.old`
and `NNN.new` (none where there is no file), `sums`, `log`, `monitors` (names of root's processes
that hold a GPU and do no work there), `last` (how long the reboot waits for work on the GPUs, in
seconds), `room`, which goes first so that a return has place on a full disk, `room.N`, the same and
inodes for the boot after the one on trial, and marks, which only come, and hold the id of the boot
that made them:

    armed      the guard is; nothing was changed yet
    settled    what is in force at once is confirmed, or there is nothing of that: the next boot is
               the one on trial
    trying     this boot is it
    ending     a person or the deadline takes it back: what is cut off then is finished by the next
               boot
    returned   it came back, or nothing is left to come back; with `partly`: but for what others
               changed meanwhile
    failed     it could not come back, and nothing more is tried in this boot
    confirmed  the guard does nothing any more

`ending` and `confirmed` are one file, `decided`: who makes it first wins, so that a confirmation in
the last second and the return cannot both come about.

The order in which a trial begins: `arm`, the changes, `settled`, `one_shot.arm_entry`. How it is
confirmed: the mark, `one_shot.disarm_entry`, `disarm`. How it is taken back: `ending`,
`one_shot.disarm_entry`, the changes, `returned`, `disarm`. So at no instant a boot on trial is
asked for that no one watches.
"""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from contextlib import suppress
from secrets import token_bytes
from typing import TYPE_CHECKING, Literal, TypeAlias

from hosttune.engine.trial_terms import LAST_S
from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import if_absent, names_in, read_line, require_known
from hosttune.facts.work import NOT_WORK
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Space, Stat
from hosttune.host.known.file_systems import NOT_LASTING_ROOT
from hosttune.host.known.unit_folders import ADMIN
from hosttune.host.overlay.overlay import MOUNTINFO, Overlay
from hosttune.host.reading.mountinfo import find_holding
from hosttune.regex import regex
from hosttune.rendering import render
from hosttune.resources import kind_of
from hosttune.resources.file import FileAddress
from hosttune.textfiles import template_text
from hosttune.values import ABSENT, FileValue, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Absent, Change, Value

FOLDER = "/etc/hosttune/trial"
LOG = f"{FOLDER}/log"
Mark: TypeAlias = Literal[
    "armed", "settled", "trying", "ending", "returned", "partly", "failed", "confirmed"
]
MARKS: tuple[Mark, ...] = (
    "armed",
    "settled",
    "trying",
    "ending",
    "returned",
    "partly",
    "failed",
    "confirmed",
)
_DECIDED = f"{FOLDER}/decided"
_DECIDES: dict[Mark, str] = {"confirmed": "confirmed", "ending": "returned"}
_WANTS = "# Written by hosttune for a trial; gone when it ends.\n[Unit]\nWants={}\n"
_PLAIN = (
    (f"{ADMIN}/hosttune-come-back.service", "hosttune-come-back.service"),
    (f"{ADMIN}/hosttune-trial-deadline.service", "hosttune-trial-deadline.service"),
    (f"{ADMIN}/hosttune-trial-check.service", "hosttune-trial-check.service"),
    (f"{ADMIN}/emergency.service.d/60-hosttune-come-back.conf", "hosttune-trial-emergency.conf"),
)
# They hold the seconds that a boot on trial waits for a confirmation.
_TIMED = tuple(
    f"{ADMIN}/{name}" for name in ("hosttune-trial-deadline.timer", "hosttune-trial-reset.service")
)
_WANTED = (
    (
        f"{ADMIN}/sysinit.target.d/60-hosttune-come-back.conf",
        "hosttune-come-back.service hosttune-trial-deadline.timer hosttune-trial-reset.service",
    ),
    (f"{ADMIN}/multi-user.target.d/60-hosttune-come-back.conf", "hosttune-trial-check.service"),
)
# In the order in which they are written: what wants the others comes last.
UNIT_PATHS = (*(path for path, _ in _PLAIN), *_TIMED, *(path for path, _ in _WANTED))
OF_AN_IMAGE = (
    "these are the files of an image: what is on trial is tried on the machine that runs them"
)
_ODD = regex(r"[\n\\]|^\s|\s$")
_SPARE_BYTES = 1 << 20
_ROOM_BYTES = 256 << 10  # marks, the log, the run's undo in the journal
_SPARE_INODES = 64
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@frozen
class KeptFile:
    """A file of the restore set, by its place without links, as it is and as the run will leave
    it.
    """

    path: str
    before: FileValue | Absent
    after: FileValue | Absent


def kept_files(reader: Reader, changes: Iterable[Change]) -> tuple[KeptFile, ...]:
    """What these changes, in their order, make of files of this host: those whose kinds write a
    file as a whole or edit one; all others are left out. Nothing is changed. Raises Refused where a
    change cannot be made as things stand.
    """
    overlay, paths = Overlay(reader), {}
    for change in changes:
        kind = kind_of(change.address)
        path = kind.file_of(change.address.name)
        if path:
            kind.write(overlay, change)
            paths[overlay.canonical(posixpath.normpath(path))] = path
    found = []
    for place, path in paths.items():
        before, after = (_read_file(one, path) for one in (reader, overlay))
        if before != after:
            found.append(KeptFile(place, before, after))
    return tuple(found)


def _read_file(reader: Reader, path: str) -> FileValue | Absent:
    value: Value = FileAddress().read(reader, path)
    if isinstance(value, FileValue) or value is ABSENT:
        return value
    raise Refused(
        f"{path} cannot be kept: {value.reason if isinstance(value, Unreadable) else value}"
    )


def check_armable(reader: Reader, facts: Facts, files: Sequence[KeptFile]) -> tuple[str, ...]:
    """Why these files cannot be guarded over a boot of this host: a sentence each; empty where they
    can.
    """
    try:
        return tuple(_list_obstacles(reader, facts, files))
    except UnknownFact as unknown:
        return (f"it is unknown whether this host can roll back: {unknown.reason}",)


def _list_obstacles(reader: Reader, facts: Facts, files: Sequence[KeptFile]) -> Iterable[str]:
    if reader.persistent_only:
        yield OF_AN_IMAGE
        return
    if not reader.is_privileged:
        yield "only root can set up a rollback"
        return
    if facts.host.is_container or facts.host.is_wsl or not facts.host.has_systemd:
        yield (
            "this is a container or has no systemd: nothing of hosttune's would run in its next "
            "start"
        )
        return
    table = require_known(reader.read(MOUNTINFO), MOUNTINFO)
    root = find_holding(table, "/")
    if root is None or root.fstype in NOT_LASTING_ROOT or root.is_read_only:
        what = (
            "not known"
            if root is None
            else f"read-only {root.fstype}"
            if root.is_read_only
            else root.fstype
        )
        yield (
            f"the root file system ({what}) does not keep what is written now, or not where an "
            "early boot finds it"
        )
        return
    for path in (FOLDER, ADMIN, *(one.path for one in files)):
        mount = find_holding(table, path)
        if mount is not None and mount.target != "/":
            yield f"{path} is on {mount.target}, which may not be mounted where a boot stops"
        if _ODD.search(path):
            yield f"{path!r} has characters that the guard does not take"
    if isinstance(reader.stat(f"{FOLDER}/armed"), Stat):
        yield f"another run is on trial ({FOLDER}): confirm it or undo it first"
    for path in UNIT_PATHS:
        link = reader.link(path)
        content = reader.read(path)
        if isinstance(link, str) or (isinstance(content, bytes) and b"hosttune" not in content):
            yield f"{path} is there and is not hosttune's"
    # A boot that stops starts this unit, and its drop-in is what calls the guard there.
    if reader.link(f"{ADMIN}/emergency.service") == "/dev/null":
        yield "emergency.service is masked, so nothing can act where a boot stops"
    yield from _check_room(reader, files)


def _check_room(reader: Reader, files: Sequence[KeptFile]) -> Iterable[str]:
    # Each content is there three times: kept, as much again in `room`, and in `room.0` of the boot
    # on trial (templates/come-back.sh).
    needed = _SPARE_BYTES + 3 * sum(
        len(value.content)
        for one in files
        for value in (one.before, one.after)
        if isinstance(value, FileValue)
    )
    space = reader.space("/etc")
    if isinstance(space, Unreadable):
        raise UnknownFact(space.reason)
    if isinstance(space, Space) and space.available_bytes < needed:
        yield f"the root file system is full: {needed >> 10} KiB are needed for a rollback"
    if (
        isinstance(space, Space)
        and space.total_inodes > 0
        and space.available_inodes < _SPARE_INODES
    ):
        yield "the root file system has no room for the files of a rollback"


def arm(
    writer: Writer,
    run_id: str,
    files: Sequence[KeptFile],
    *,
    within_s: int,
    has_one_shot: bool,
    check: Sequence[str] = (),
    come_back: Sequence[str] = (),
) -> None:
    """Set the guard up, and mark it armed: from now on a boot that is not confirmed takes `files`
    back. Nothing of them has been changed yet.

    within_s: how long the boot on trial waits for a confirmation, in seconds of monotonic time.
    has_one_shot: the boot on trial is that of the entry that `one_shot.arm_entry` makes next, so
    any other one counts as failed. check: the command (argv) that compares the boot on trial with
    before and may confirm it. come_back: the command that takes all back where no one confirmed and
    the boot is through; status 0: it has. Where it fails, or there is none, the script does.

    Raises Refused; then there is nothing of the guard left, or nothing of it is armed.
    """
    # A trial that was cut off before its first change has left a folder. Its files would count as
    # those of this one.
    disarm(writer)
    try:
        commands = {"check": check, "come-back": come_back}
        _write_folder(writer, run_id, files, has_one_shot=has_one_shot, commands=commands)
        for path, text in unit_texts(within_s):
            writer.replace(path, FileValue(text.encode()), expected=ABSENT)
        _prove(writer)
        # `armed` comes last, with the digest of all digests: half a guard never acts.
        sums = require_known(writer.read(f"{FOLDER}/sums"), f"{FOLDER}/sums")
        armed = f"{_boot(writer)}\n{hashlib.sha256(sums).hexdigest()}\n"
        writer.replace(f"{FOLDER}/armed", FileValue(armed.encode(), 0o600), expected=ABSENT)
    except UnknownFact as unknown:
        disarm(writer)
        raise Refused(f"the guard cannot be set up: {unknown.reason}") from None
    except HosttuneError:
        disarm(writer)
        raise


def _write_folder(
    writer: Writer,
    run_id: str,
    files: Sequence[KeptFile],
    *,
    has_one_shot: bool,
    commands: dict[str, Sequence[str]],
) -> None:
    parent = posixpath.dirname(FOLDER)
    if writer.stat(parent) is ABSENT:
        writer.make_folder(parent)
    writer.append(LOG, f"trial of run {run_id}\n".encode())  # makes the folder, for root alone
    kept: dict[str, bytes] = {}
    rows = []
    for number, one in enumerate(files, 1):
        name = f"{number:03}"
        attributes = one.before if isinstance(one.before, FileValue) else one.after
        if not isinstance(attributes, FileValue):
            continue
        rows.append(f"{name} {attributes.mode:o} {attributes.uid}:{attributes.gid} {one.path}\n")
        for suffix, value in (("old", one.before), ("new", one.after)):
            if isinstance(value, FileValue):
                kept[f"{name}.{suffix}"] = value.content
    kept["set"] = "".join(rows).encode()
    kept["run"] = _read_template("come-back.sh").encode()
    if has_one_shot:
        kept["oneshot"] = f"{run_id}\n".encode()
    kept["last"] = f"{LAST_S}\n".encode()
    kept["monitors"] = "".join(f"{name}\n" for name in sorted(NOT_WORK)).encode()
    # For sh and not for a person. `quoting.quote` makes words to be read and typed.
    kept |= {name: f"exec {shlex.join(argv)}\n".encode() for name, argv in commands.items() if argv}
    kept["sums"] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in kept.items()
    ).encode()
    # Bytes that no file system makes smaller.
    kept["room"] = token_bytes(_ROOM_BYTES + sum(map(len, kept.values())))
    for name, data in kept.items():
        writer.replace(f"{FOLDER}/{name}", FileValue(data, 0o600), expected=ABSENT)


def free_room(writer: Writer) -> None:
    """What was kept free for the return, on a disk that may be full by now. Never raises: it is
    tried without.
    """
    with suppress(HosttuneError):
        _remove(writer, f"{FOLDER}/room")


def unit_texts(within_s: int) -> tuple[tuple[str, str], ...]:
    """(path, text) of the units, in the order in which they are written."""
    timed = tuple(
        (path, render(f"{posixpath.basename(path)}.j2", within_s=within_s)) for path in _TIMED
    )
    plain = tuple((path, _read_template(name)) for path, name in _PLAIN)
    return (*plain, *timed, *((path, _WANTS.format(units)) for path, units in _WANTED))


def _read_template(name: str) -> str:
    text = template_text(name)
    if text is None:
        raise Refused(f"the template {name} is missing", hint="install hosttune again")
    return text


def _prove(writer: Writer) -> None:
    """The guard itself, asked whether it has what it needs here."""
    answer = writer.query(("sh", f"{FOLDER}/run", "check"), timeout_s=60.0)
    if not isinstance(answer, Completed) or answer.status != 0:
        answer_text = (
            answer.text.strip() or answer.errors.strip()
            if isinstance(answer, Completed)
            else str(answer)
        )
        raise Refused(f"the guard does not run on this host: {answer_text}")


def read_marks(reader: Reader) -> frozenset[Mark]:
    """The marks that are there. Raises UnknownFact where the folder cannot be read."""
    names = frozenset(names_in(reader, FOLDER))
    found: set[Mark] = {mark for mark in MARKS if mark in names}
    if "decided" in names:
        word = if_absent(read_line(reader, _DECIDED), "")
        found.add("confirmed" if word == _DECIDES["confirmed"] else "ending")
    return frozenset(found)


def mark(writer: Writer, name: Mark) -> None:
    """Make a mark, durably; one that is there stays. Raises Refused where it cannot be made:
    `confirmed` where the run is being taken back already, `ending` where it is confirmed.
    """
    if name in _DECIDES:
        _decide(writer, _DECIDES[name])
        return
    path = f"{FOLDER}/{name}"
    if writer.stat(path) is ABSENT:
        try:
            boot = _boot(writer)
        except UnknownFact as unknown:
            raise Refused(unknown.reason) from None
        writer.replace(path, FileValue(f"{boot}\n".encode(), 0o600), expected=ABSENT)


def _decide(writer: Writer, word: str) -> None:
    """The first to make this file has decided, the script or one of us. What the script was cut off
    at is empty.
    """
    with suppress(Conflict):
        writer.replace(_DECIDED, FileValue(f"{word}\n".encode(), 0o600), expected=ABSENT)
    content = writer.read(_DECIDED)
    decided = (
        content.decode("ascii", "replace").strip() or "returned"
        if isinstance(content, bytes)
        else "unknown"
    )
    if decided != word:
        reasons = {
            "confirmed": "it is confirmed already",
            "returned": "too late: it is being rolled back",
        }
        raise Refused(reasons.get(decided, f"{_DECIDED} cannot be read"))


def boot_of(reader: Reader, name: Mark) -> str:
    """The id of the boot that made a mark; empty where there is none, and of `ending` and
    `confirmed`.
    """
    content = reader.read(f"{FOLDER}/{name}")
    return (
        content.decode("ascii", "replace").partition("\n")[0] if isinstance(content, bytes) else ""
    )


def _boot(reader: Reader) -> str:
    return require_known(read_line(reader, _BOOT_ID), _BOOT_ID)


def disarm(writer: Writer) -> None:
    """Remove the guard, whatever of it is there; what it would have done is decided before, by a
    mark. The units go first, and those that name them before them; `armed` goes before what it
    marks. Raises Refused where something cannot be removed; it is called again then.
    """
    for path in reversed(UNIT_PATHS):
        _remove(writer, path)
    names = writer.list(FOLDER)
    if not isinstance(names, tuple):
        return
    last = tuple(
        name for name in ("log", "trial.json", *MARKS[1:], "decided") if name in names
    )  # tell what this was, to the end
    rest = tuple(name for name in names if name not in {"armed", *last})
    for name in ("armed", *rest, *last):
        _remove(writer, f"{FOLDER}/{name}")
    if isinstance(writer.list(FOLDER), tuple):  # an overlay keeps no empty folder
        writer.remove_folder(FOLDER)


def _remove(writer: Writer, path: str) -> None:
    writer.discard_leftovers(path)
    content = writer.read(path)
    if isinstance(content, bytes):
        writer.remove(path, expected=content)
    elif isinstance(content, Unreadable):
        raise Refused(f"{path} cannot be removed: {content.reason}")
