"""hosttune itself, left on a host that Ansible brought it to, as long as a change of it is there:
the way back must not hang on the controller, and what headers, receipts and notices name (`hosttune
undo`) must be there to type.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hosttune.actions.journal.journal import read_journal
from hosttune.errors import HosttuneError
from hosttune.host import open_writer
from hosttune.host.console import SECURE_PATH, find_archive, load_bytes
from hosttune.host.door import Reader, Writer
from hosttune.host.writing.lock import hold_lock
from hosttune.values import ABSENT, Absent, FileValue

LINK = "/usr/local/sbin/hosttune"  # sudo and root find it there
COPY = "/usr/local/lib/hosttune/hosttune.pyz"
PYTHON = "/usr/bin/python3"
_FOLDER = "/usr/local/lib/hosttune"
_MODE = 0o755


@contextmanager
def keep_program() -> Iterator[None]:
    """Leave this program here before a run changes anything, so that a run that is cut off can be
    taken back too. After a run that changed nothing it goes again.
    """
    if find_archive():
        with suppress(HosttuneError), hold_lock():  # the run itself says what is wrong
            leave_program(open_writer())
    try:
        yield
    finally:
        remove_idle_program()


def leave_program(writer: Writer) -> None:
    """Put the self-contained file that runs now where its name is found, unless a hosttune is
    installed there.
    """
    if is_installed(writer) or not _is_python_of_system(writer):
        return
    content, present = load_bytes(find_archive()), writer.read(COPY)
    if isinstance(present, bytes | Absent) and present != content:
        writer.replace(COPY, FileValue(content, _MODE), expected=present)
    if writer.link(LINK) == ABSENT:
        writer.make_link(LINK, COPY)


def _is_python_of_system(reader: Reader) -> bool:
    """Whether the Python that the first line of the file names runs here, too: that one is known to
    be new enough.
    """
    found = reader.resolve(PYTHON)
    return isinstance(found, str) and found == reader.resolve(sys.executable)


def is_installed(reader: Reader) -> bool:
    """Whether another hosttune than the one that a play left is found by its name."""
    names = [f"{folder}/hosttune" for folder in SECURE_PATH]
    # What cannot be looked at counts as installed: no program is put in the way of one that may be
    # there.
    return any(
        reader.stat(name, follow=False) != ABSENT
        for name in names
        if name != LINK or not _is_ours(reader)
    )


def remove_idle_program() -> None:
    """Take away what a play left, once no change of hosttune is there any more."""
    writer = open_writer()
    if not _is_ours(writer):
        return
    with suppress(HosttuneError), hold_lock():
        journal = read_journal(writer)
        # A journal that cannot be read may hold changes, and this program may be the only one here
        # that can undo them.
        if journal.in_force or journal.interrupted or journal.problem:
            return
        # The name goes first: a link that leads nowhere would be found by sudo and fail.
        writer.remove_link(LINK, expected=COPY)
        if isinstance(present := writer.read(COPY), bytes):
            writer.remove(COPY, expected=present)
        writer.remove_folder(_FOLDER)


def _is_ours(reader: Reader) -> bool:
    return reader.link(LINK) == COPY
