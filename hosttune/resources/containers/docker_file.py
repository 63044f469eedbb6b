"""One key of docker's daemon.json, and the file itself: a change touches that key alone."""

from __future__ import annotations

from json import JSONDecodeError, dumps, loads
from typing import TYPE_CHECKING, Any

from hosttune.errors import Conflict, Refused
from hosttune.host.door import Stat
from hosttune.resources.base import AddressKind
from hosttune.resources.json_document import drop, get, parse, put
from hosttune.resources.steps import CommandLine
from hosttune.values import ABSENT, FileValue, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.resources.json_document import Node
    from hosttune.values import Absent, Change, Value

PATH = "/etc/docker/daemon.json"
PRESENT = "present"
_TRIAL = "/var/lib/hosttune/daemon.json"  # where dockerd looks at it before it is put in place
_DOCKERD = ("/usr/bin/dockerd", "/usr/sbin/dockerd", "/usr/local/bin/dockerd")
VALIDATE_TIMEOUT_S = 30.0


def split_keys(name: str) -> tuple[str, ...]:
    """`log-opts/max-size` -> its keys (as a JSON pointer, RFC 6901, without the slash before
    it).
    """
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in name.split("/"))


def name_of(path: tuple[str, ...]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def spell_value(data: object) -> str:
    """A value as it is compared and shown."""
    return dumps(data, sort_keys=True, ensure_ascii=False)


def parse_document(content: bytes) -> Node | Unreadable:
    """What the file holds, or where it is no JSON."""
    try:
        return parse(content.decode("utf-8"))
    except JSONDecodeError as error:
        return Unreadable(f"{PATH}:{error.lineno}:{error.colno}: {error.msg}")
    except RecursionError:
        return Unreadable(f"{PATH} is nested too deeply")
    except UnicodeDecodeError as error:
        return Unreadable(f"{PATH} is no UTF-8 (byte {error.start})")


class DaemonJson(AddressKind):
    """What both addresses have in common: one file, and the service that reads it."""

    def file_of(self, name: str) -> str:  # noqa: ARG002 - the interface of all kinds
        return PATH

    def unit_of(self, name: str) -> str:  # noqa: ARG002 - the interface of all kinds
        return "docker.service"


class DockerDaemonAddress(DaemonJson):
    """`docker-daemon:KEY` or `docker-daemon:KEY/KEY`: the JSON text of one value; ABSENT where the
    file lacks it.
    """

    kind = "docker-daemon"

    def describe(self, name: str) -> str:
        return f"{name} in {PATH}"

    def read(self, reader: Reader, name: str) -> Value:
        content = reader.read(PATH)
        if not isinstance(content, bytes):
            return content
        root = parse_document(content)
        if isinstance(root, Unreadable):
            return root
        member = get(root, split_keys(name))
        return spell_value(member.value.data) if member else ABSENT

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        content = writer.read(PATH)
        if isinstance(content, Unreadable) or not self.same(self.read(writer, name), change.before):
            message = f"{name} in {PATH} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        text = content.decode("utf-8") if isinstance(content, bytes) else "{}\n"
        try:
            path = split_keys(name)
            new = (
                put(text, path, loads(change.after))
                if isinstance(change.after, str)
                else drop(text, path)
            )
        except ValueError as error:
            raise Refused(f"{PATH}: {error}") from None
        # Before the file is replaced: dockerd does not start with a key that it does not know, and
        # after its next restart no container would run.
        _validate(writer, new.encode())
        writer.replace(PATH, FileValue(new.encode()), expected=content)

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        """All keys together: one text to merge into the file, and the keys to take out."""
        merged: dict[str, Any] = {}
        for change in changes:
            at = merged
            *above, last = split_keys(change.address.name)
            for key in above if change.after is not ABSENT else ():
                at = at.setdefault(key, {})
            if change.after is not ABSENT:
                at[last] = loads(str(change.after))
        gone = [
            ".".join(split_keys(change.address.name))
            for change in changes
            if change.after is ABSENT
        ]
        steps: list[str] = [CommandLine(f"merge {dumps(merged)} into {PATH}")] if merged else []
        steps += (
            [f"take {', '.join(gone)} out of {PATH}, and objects that are empty then"]
            if gone
            else []
        )
        return [*steps, CommandLine(f"dockerd --validate --config-file={PATH}")]


def _validate(writer: Writer, content: bytes) -> None:
    """Let dockerd look at a copy, where it is installed and knows how (23.0). Raises Refused with
    what it says.
    """
    if writer.persistent_only or not any(isinstance(writer.stat(path), Stat) for path in _DOCKERD):
        return
    before = writer.read(_TRIAL)
    expected: bytes | Absent = before if isinstance(before, bytes) else ABSENT
    writer.replace(_TRIAL, FileValue(content, 0o600), expected=expected)
    try:
        writer.run(
            ("dockerd", "--validate", f"--config-file={_TRIAL}"), timeout_s=VALIDATE_TIMEOUT_S
        )
    except Refused as refusal:
        # A dockerd before 23.0 cannot look at a file. That proves nothing against the change, so it
        # is made without the look.
        if "unknown flag: --validate" not in refusal.message:
            raise
    finally:
        writer.remove(_TRIAL, expected=content)
