"""Gates: programs of a site that know whether this host is at work, where hosttune cannot see it.

Every program in /etc/hosttune/gates.d is asked, in the order of the names, before something that
would disturb GPU work is planned, and again right before it is done. The protocol:

- It gets no arguments, no input, a small environment (PATH, LC_ALL and the like) and 10 seconds,
  and runs as root on the live host, by itself: no shell is between. It only looks; it is asked
  often, by `check` and `plan` too.
- Exit status 0: nothing here is in the way.
- Exit status 1: the host is at work. The first line of its standard output is the reason that
  people read ("drained for job 4711 of alice").
- Any other status, a signal, or no end in time: no one knows, which counts as at work.

The folder, the program and all folders above belong to root, and no one else can write them; a
program that is not so, or that is not executable, is not run, and counts as at work with a sentence
that says why. Passed over: names that begin with a dot, end with `~` or hold `.dpkg-`, and folders.
With no gate in the folder, nothing is in the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.facts.trusted import link_stranger, why_no_answer
from hosttune.frozen import frozen
from hosttune.host.door import BeforeReader, Completed, Stat
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader

FOLDER: Final = "/etc/hosttune/gates.d"
TIMEOUT_S: Final = 10.0
_LONGEST = 200  # characters of a reason


@frozen
class Gates:
    """What the gates say, a sentence each: those that say the host is at work, and those that no
    one can tell of.
    """

    busy: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def ask_gates(reader: Reader) -> Gates:
    """Ask every gate of this host. Only a live host has any."""
    names = reader.list(FOLDER) if _is_live(reader) else ABSENT
    if names is ABSENT:
        return Gates()
    if not isinstance(names, tuple):
        return Gates(unknown=(f"the gates in {FOLDER} cannot be listed: {why_no_answer(names)}",))
    busy, unknown = [], []
    for name in sorted(names):
        if name.startswith(".") or name.endswith("~") or ".dpkg-" in name:
            continue
        path = f"{FOLDER}/{name}"
        status, words = _ask_gate(reader, path)
        if status == 1:
            busy.append(f"gate {name}: {words or 'the host is at work'}")
        elif status != 0:
            unknown.append(f"gate {name} {words}")
    return Gates(tuple(busy), tuple(unknown))


def _is_live(reader: Reader) -> bool:
    """Whether programs are asked on the running host, perhaps below an overlay. Not while a record
    is made, which passes the kind of its base on: a record is not to hold what a site's programs
    say of people's work.
    """
    if isinstance(reader, BeforeReader):
        return reader.kind == "overlay" and _is_live(reader.base)
    return reader.kind == "live" and not reader.persistent_only


def _ask_gate(reader: Reader, path: str) -> tuple[int, str]:
    """(0, "") for free, (1, reason) for at work, (-1, why no one knows)."""
    place = reader.resolve(path)
    if not isinstance(place, str):
        return -1, f"is not asked: {why_no_answer(place)}"
    stat = reader.stat(place)
    if not isinstance(stat, Stat):
        return -1, f"is not asked: {why_no_answer(stat)}"
    if stat.type == "directory":
        return 0, ""
    if objection := _why_not_run(reader, path, place, stat):
        return -1, f"is not asked: {objection}"
    # The resolved path runs, which is the one that was looked at: a link that is changed in between
    # does not lead root elsewhere.
    answer = reader.query((place,), timeout_s=TIMEOUT_S)
    if not isinstance(answer, Completed):
        return -1, f"gave no answer: {why_no_answer(answer)}"
    # Only these two are answers. A gate that crashed, or was killed in its 10 seconds, must not
    # free the host for a disturbance.
    if answer.status in {0, 1}:
        return answer.status, _first_line(answer.text) if answer.status else ""
    sentence = _first_line(answer.errors) or _first_line(answer.text)
    return -1, f"ended with status {answer.status}" + (f": {sentence}" if sentence else "")


def _why_not_run(reader: Reader, path: str, place: str, stat: Stat) -> str:
    """Why root must not run it; empty where it may."""
    if stat.type != "file":
        return f"{place} is not a regular file"
    if not stat.mode & 0o111:
        return f"{place} is not executable (sudo chmod 755, or take it away)"
    return link_stranger(reader, path)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip()[:_LONGEST] if lines else ""
