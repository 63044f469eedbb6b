"""One boot with other kernel arguments: an entry of its own in /boot/grub/custom.cfg, asked for by
`next_entry`.

The menu, /etc/default/grub.d and the default stay as they are, so whatever becomes of that boot,
the next one is as before. The entry looks for itself whether GRUB could clear `next_entry`, and
boots with the old arguments where it could not: no disk then boots it for ever.

GRUB reads a disk without its journal. So custom.cfg is pushed through it (`sync -f`; XFS keeps it
back until it is unmounted, and where the power goes before, the default is booted). The block,
which GRUB writes over where it is, is written over there by us, too: were it another file, a
journal could bring back what GRUB has cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.trial import guard as trial_guard
from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts.base import attempt
from hosttune.facts.kernel.boot_entry import (
    BLOCK_BYTES,
    BLOCK_HEAD,
    CUSTOM,
    ENTRY,
    ENVIRONMENT,
    FOLDER,
    MARK,
)
from hosttune.facts.kernel.grub import environment_of
from hosttune.facts.kernel.initramfs import DRACUT, find_generator
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import ABSENT, FileValue, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.facts.kernel.boot_entry import BootEntry
    from hosttune.host.door import Reader, Writer

ARGUMENT = "hosttune.trial"  # what marks a boot of it on the kernel's command line
_PLAIN = regex(r"[\w.,:/@%+=*-]+")
_TIMEOUT_S = 60.0


def safety_arguments(reader: Reader) -> tuple[str, ...]:
    """What makes a boot that fails end by itself: a panic, a root file system that is not found
    (initramfs-tools reads the same word), a service manager that crashes (kernel-command-line(7),
    initramfs-tools(7), dracut.cmdline(7)).
    """
    found = ["panic=30", "systemd.crash_reboot"]
    if find_generator(reader) == DRACUT:
        found += ["rd.shell=0", "rd.emergency=reboot", "rd.timeout=180"]
    answer = reader.query(("systemctl", "show", "--property=RuntimeWatchdogUSec", "--value"))
    fed = answer.text.strip() if isinstance(answer, Completed) and answer.status == 0 else "0"
    if fed not in {"", "0", "infinity"} and reader.stat("/dev/watchdog0") is not ABSENT:
        # this boot feeds one already; a driver for one is never loaded
        found.append("systemd.watchdog_sec=180")
    return tuple(found)


def entry_text(
    entry: BootEntry,
    run_id: str,
    added: Sequence[str],
    dropped: Iterable[str],
    safety: Sequence[str],
) -> str:
    """custom.cfg: one boot of `entry` with the arguments `added`, without `dropped`, and with
    `safety`.
    """
    gone = frozenset(dropped)
    kept = [word for word in entry.arguments.split() if word not in gone]
    new = " ".join([entry.image, *kept, *added, *safety, f"{ARGUMENT}={run_id}"])
    old = " ".join(
        part for part in (entry.image, entry.arguments, f"{ARGUMENT}=unwritable") if part
    )
    return "\n".join(
        (
            f"{MARK} of run {run_id}; gone when it ends.",
            # Should the kernel of the entry not load, GRUB takes the first entry in place of
            # waiting at its menu.
            f'if [ "${{default}}" = {ENTRY} ]; then set fallback=0; fi',
            # --unrestricted: if GRUB has a password, any other entry waits for someone at the
            # console.
            f"menuentry 'hosttune trial {run_id}' --unrestricted --id {ENTRY} {{",
            *(f"\t{row}" for row in entry.head),
            # load_env reads the block from the disk again: what GRUB could not write is still asked
            # for there.
            "\tset next_entry=",
            "\tload_env next_entry",
            '\tif [ "${next_entry}" ]; then',
            "\t\techo 'hosttune: GRUB cannot write to its environment block; booting as always'",
            f"\t\tlinux\t{old}",
            "\telse",
            f"\t\tlinux\t{new}",
            "\tfi",
            *(f"\t{row}" for row in entry.initrd),
            "}",
            "",
        )
    )


def arm_entry(
    writer: Writer, entry: BootEntry, run_id: str, added: Sequence[str], dropped: Iterable[str] = ()
) -> None:
    """Let the next boot, once, be one with the arguments `added` and without `dropped`. `entry` is
    that of `boot_entry.one_shot`, without refusals. The guard is already, armed for this run
    (`has_one_shot`).

    Raises Refused; then no boot is asked for.
    """
    _require_guard(writer, run_id)
    odd = [word for word in (*added, run_id) if not _PLAIN.fullmatch(word)]
    if odd:
        raise Refused(f"{odd[0]!r} is not a plain argument of the kernel")
    content = entry_text(entry, run_id, added, dropped, safety_arguments(writer)).encode()
    disarm_entry(writer)  # what a trial that was cut off has left
    if theirs := _next_entry(writer):
        raise Refused(f"GRUB is asked for one boot of {theirs!r} already")
    try:
        writer.replace(CUSTOM, FileValue(content, 0o600), expected=ABSENT)
        answer = writer.query(("grub-script-check", CUSTOM))
        if not isinstance(answer, Completed) or answer.status != 0:
            raise Refused(f"GRUB does not read the entry for one boot: {_describe_answer(answer)}")
        # The entry is on the disk before GRUB is asked for it. The other way round a power cut
        # leaves a name without an entry.
        _push(writer)
        _set(writer, ENTRY)
    except HosttuneError:
        disarm_entry(writer)
        raise


def _require_guard(reader: Reader, run_id: str) -> None:
    marks = attempt(trial_guard.read_marks, reader)
    its = reader.read(f"{trial_guard.FOLDER}/oneshot")
    if (
        isinstance(marks, Unreadable)
        or not {"armed", "settled"} <= marks
        or "confirmed" in marks
        or its != f"{run_id}\n".encode()
    ):
        raise Refused("no boot is asked for on trial, because nothing would watch over it")


def _describe_answer(answer: object) -> str:
    if isinstance(answer, Completed):
        return answer.errors.strip() or answer.text.strip()
    return answer.reason if isinstance(answer, Unreadable) else "it is not installed"


def _push(writer: Writer) -> None:
    """Bring it where GRUB looks."""
    writer.run(("sync", "-f", FOLDER), timeout_s=_TIMEOUT_S)


def _set(writer: Writer, value: str) -> None:
    """Give `next_entry` this value, none with an empty one, and have grub-editenv read it. Twice
    where someone else wrote the block at the same moment: units of Ubuntu do when a boot has ended.
    """
    for is_last in (False, True):
        before = _read_block(writer)
        try:
            writer.overwrite(ENVIRONMENT, with_next_entry(before, value), expected=before)
            break
        except Conflict:
            if is_last:
                raise
    answer = writer.query(("grub-editenv", ENVIRONMENT, "list"))
    read = (
        environment_of(answer.text)
        if isinstance(answer, Completed) and answer.status == 0
        else None
    )
    if read is None or read.get("next_entry", "") != value:
        raise Refused(f"{ENVIRONMENT} does not read back: {_describe_answer(answer)}")


def with_next_entry(block: bytes, value: str) -> bytes:
    """An environment block with `next_entry` of this value, or without it; all else is as it was.
    Raises Refused where it has no room.
    """
    lines, _, _ = block.rpartition(b"\n")  # behind the last line it is filled up with #
    rows = [row for row in lines.split(b"\n") if not row.startswith(b"next_entry=")]
    rows += [f"next_entry={value}".encode()] if value else []
    text = b"".join(row + b"\n" for row in rows)
    if len(text) > BLOCK_BYTES:
        raise Refused(f"{ENVIRONMENT} has no room for next_entry")
    return text.ljust(BLOCK_BYTES, b"#")


def _read_block(reader: Reader) -> bytes:
    """The whole block. Raises Refused where it is none."""
    content = reader.read(ENVIRONMENT)
    if (
        isinstance(content, bytes)
        and len(content) == BLOCK_BYTES
        and content.startswith(BLOCK_HEAD)
    ):
        return content
    raise Refused(
        f"{ENVIRONMENT} is not an environment block", hint=f"sudo grub-editenv {ENVIRONMENT} create"
    )


def _next_entry(reader: Reader) -> str:
    """Empty where the block cannot be read: then GRUB cannot, either."""
    content = reader.read(ENVIRONMENT)
    return (
        environment_of(content.decode("utf-8", "replace")).get("next_entry", "")
        if isinstance(content, bytes)
        else ""
    )


def is_asked_for(reader: Reader) -> bool:
    """Whether the next boot is that of our entry."""
    return _next_entry(reader) == ENTRY


def disarm_entry(writer: Writer) -> None:
    """Ask for no boot of our entry any more, and remove it; what is someone else's stays. Raises
    Refused where it cannot be done; it is called again then.
    """
    # First the question and then the entry, for the same reason.
    if is_asked_for(writer):
        _set(writer, "")
    writer.discard_leftovers(CUSTOM)
    present = writer.read(CUSTOM)
    is_ours = isinstance(present, bytes) and present.decode("utf-8", "replace").startswith(MARK)
    if isinstance(present, bytes) and is_ours:
        writer.remove(CUSTOM, expected=present)
