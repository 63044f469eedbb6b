"""What findmnt(8), systemd's fstab generator and a trial mount say of an fstab before it is put in
place.

They run in a private mount namespace (`rehearsal_child.py`), which needs root. systemd documents
SYSTEMD_FSTAB for testing its generator (systemd docs/ENVIRONMENT.md).
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from typing import Any

from hosttune.host.door import Completed, FstabReading, Rehearsal, Trial
from hosttune.host.process import Ended, locate, look
from hosttune.host.reading.mountinfo import decode
from hosttune.host.reading.named import answer_of, served_mounts
from hosttune.host.reading.paths import walk
from hosttune.regex import regex
from hosttune.textfiles import own_file
from hosttune.values import Absent, Answer, Unreadable

TIMEOUT_S = 60.0
FRESH_S = 60.0  # someone may think for an hour before the yes
_VERIFY = "findmnt"
_GENERATORS = tuple(
    f"{folder}/systemd/system-generators/systemd-fstab-generator" for folder in ("/usr/lib", "/lib")
)

_SOURCE = regex(rb"^([ \t]*)([^# \t\n][^ \t\n]*)", re.MULTILINE)
_NOT_OPENED = b"/dev/null/not-opened"  # which cannot be there

_Question = tuple[bytes, bytes, tuple[str, ...], bool]
# a program that did not end, as on a dead file server: it is not started for each edit
_silent: set[str] = set()
# of this process, each with when it was given
_answers: dict[_Question, tuple[float, Rehearsal]] = {}


def rehearse_fstab(
    before: bytes, after: bytes, tmpfs_options: tuple[str, ...], *, is_of_image: bool = False
) -> Answer[Rehearsal]:
    """Try both texts. Unreadable where it cannot be done: without root, or where namespaces are
    forbidden. The devices of an image are not those of this host, and its fstab is tried where none
    of this host's files can be reached.

    The plan asks, then apply's own plan, then the write, moments apart; it is tried once. What
    counts of it is how the two texts differ, read one after the other on the same host.
    """
    question = (before, after, tmpfs_options, is_of_image)
    at, known = _answers.get(question, (0.0, None))
    if known is not None and time.monotonic() - at < FRESH_S:
        return known
    answer = _try_reading(*question)
    if isinstance(answer, Rehearsal):
        _answers[question] = (time.monotonic(), answer)
    return answer


def _try_reading(
    before: bytes,
    after: bytes,
    tmpfs_options: tuple[str, ...],
    is_of_image: bool,  # noqa: FBT001 - as asked
) -> Answer[Rehearsal]:
    if os.geteuid() != 0:
        return Unreadable("trying an fstab needs root")
    generator = _find_generator()
    # The program is handed over as the texts are: in the self-contained file it has no path to be
    # started by.
    program = own_file("host/overlay/rehearsal_child.py")
    if program is None:
        return Unreadable("hosttune is not complete: host/overlay/rehearsal_child.py is missing")
    verified = (
        (before, after) if is_of_image else tuple(map(_without_sources_of_users, (before, after)))
    )
    if None in verified:
        _silent.add(_VERIFY)
    descriptors = [_in_memory(content or b"") for content in (program, before, after, *verified)]
    try:
        # By the number of this process: the child inherits none of these descriptors.
        files = [f"/proc/{os.getpid()}/fd/{fd}" for fd in descriptors]
        child = (os.path.realpath(sys.executable), "-I", "-S", "-B")
        findmnt = "" if _VERIFY in _silent else _VERIFY
        words = (
            *files,
            findmnt,
            generator,
            json.dumps(tmpfs_options),
            "image" if is_of_image else "host",
        )
        answer = look((*child, *words), timeout_s=TIMEOUT_S)
    finally:
        for fd in descriptors:
            os.close(fd)
    if isinstance(answer, (Ended, Absent)):
        return Unreadable(f"the fstab could not be tried: {answer}")
    if answer.status != 0:
        return Unreadable(f"the fstab could not be tried: {answer.errors.strip()}")
    data = json.loads(answer.stdout)
    one, other = (_decode_reading(entry) for entry in data["readings"])
    if one.verify is None or other.verify is None:
        _silent.add(_VERIFY)
    trials = tuple(
        Trial(options, _decode_completed(entry["mount"]), entry["mountinfo"])
        for options, entry in zip(tmpfs_options, data["trials"], strict=True)
    )
    return Rehearsal(one, other, trials)


def _without_sources_of_users(text: bytes) -> bytes | None:
    """An fstab as findmnt --verify gets it: as root it opens what a line names, and a user can put
    a link to a device there. None if a file system on the way gives no answer.
    """

    def replace_sources() -> bytes:
        return _SOURCE.sub(
            lambda found: found[1] + (_NOT_OPENED if _is_of_users(found[2]) else found[2]), text
        )

    try:
        return answer_of("fstab", replace_sources)
    except OSError:
        return None


def _is_of_users(source: bytes) -> bool:
    """Whether others than root could change where a source leads, as far as it is a path."""
    try:
        with walk("/", decode(os.fsdecode(source)), avoided=served_mounts) as found:
            return any(
                info.st_uid
                or path in found.open_by_acl
                or (info.st_mode & 0o022 and not stat.S_ISLNK(info.st_mode))
                for path, info in found.visited
            )
    # What cannot be walked to its end may lead anywhere, so findmnt is not given it either.
    except (OSError, ValueError):
        return True


def untried_by() -> tuple[str, ...]:
    """What of this machine cannot be asked about an edited fstab, each with the reason; nothing
    where all can.
    """
    if os.geteuid() != 0:
        return ("findmnt --verify and systemd's fstab generator, for trying needs root",)
    missing = []
    if isinstance(locate(_VERIFY), Absent):
        missing.append(f"findmnt --verify, for there is no {_VERIFY} here")
    elif _VERIFY in _silent:
        missing.append("findmnt --verify, for it did not end")
    if not _find_generator():
        missing.append("systemd's fstab generator, for there is none here")
    return tuple(missing)


def _find_generator() -> str:
    return next((path for path in _GENERATORS if os.access(path, os.X_OK)), "")


def _in_memory(text: bytes) -> int:
    fd = os.memfd_create("fstab", os.MFD_CLOEXEC)
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def _decode_reading(entry: Any) -> FstabReading:
    units = tuple(sorted(entry["units"].items()))
    return FstabReading(
        _decode_completed(entry["verify"]), _decode_completed(entry.get("generator")), units
    )


def _decode_completed(entry: Any) -> Completed | None:
    return Completed(entry[0], entry[1].encode(), entry[2].encode()) if entry else None
