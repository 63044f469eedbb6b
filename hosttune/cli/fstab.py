"""`hosttune fstab`: an fstab by its text, offline, and that of a host against its devices; it never
writes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Option, ShowPlain

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.resources.storage.fstab_lint import ShownRemark
    from hosttune.resources.storage.fstab_plan import Tuning


EXAMPLES = ("hosttune fstab", "hosttune fstab FILE")


def fstab(
    show: ShowPlain,
    file: Annotated[
        str | None,
        Argument(metavar="[FILE]", help="Any fstab, by its text only; - is standard input."),
    ] = None,
    root: Annotated[
        str | None, Option("--root", metavar="DIR", help="The fstab of the image in DIR.")
    ] = None,
    host: Annotated[
        str | None,
        Option("--host", metavar="RECORD", help="That of a record, against the devices in it."),
    ] = None,
    noatime: Annotated[
        list[str] | None,
        Option(
            "--noatime",
            metavar="TARGET",
            help="Print the diff that sets noatime there; `all`: on each local data disk.",
        ),
    ] = None,
    lint: Annotated[
        bool, Option("--lint", help="Show what is wrong with it (as without any option).")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Notes count as findings, too.")] = False,
) -> int:
    """Check an fstab line by line, and edit it as a diff. Needs no root, changes nothing.

    Without FILE it is that of this host, and each line is also compared with the disks that are
    there.

    Exit status: 0 nothing to change, notes at most, 1 errors, warnings or a diff, 2 trouble, such
    as a target whose line cannot be edited.
    """
    from hosttune.cli.common import open_screen, say, say_exactly, tell_lines, write_json
    from hosttune.errors import HosttuneError
    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab_lines import PATH, excess_of, parse
    from hosttune.host import open_reader
    from hosttune.host.console import load_bytes, make_console
    from hosttune.resources.storage.fstab_lint import in_order
    from hosttune.resources.storage.fstab_lint import lint as lint_document
    from hosttune.resources.storage.fstab_plan import tune
    from hosttune.views import fstab as view

    targets = noatime or []
    is_all = "all" in targets
    if wrong := next((one for one in targets if one != "all" and not one.startswith("/")), None):
        raise HosttuneError(
            f"--noatime {wrong}: not a target", hint="name it as the second field does, or say: all"
        )
    if file and (root or host):
        raise HosttuneError(
            "FILE cannot be combined with --root or --host",
            hint="a file is looked at only by its text",
        )
    facts = Facts(open_reader(root=root, host=host)) if file in (None, PATH) else None
    data = _read(facts) if facts and facts.reader.kind != "live" else load_bytes(file or PATH)
    name = "standard input" if file == "-" else file or PATH
    if excess := excess_of(data):
        raise HosttuneError(f"{name}: {excess}", hint="look whether this is the right file")
    document = parse(data, name)
    screen = open_screen(show)
    remarks = lint_document(document) if lint or not targets else None
    if remarks is not None and facts:
        from hosttune.resources.storage.fstab_boot import is_of_older_systemd

        of_here = (one for one in remarks if not is_of_older_systemd(facts, one))
        remarks = in_order((*of_here, *_device_remarks(facts)))
    if remarks is not None and not show.is_json:
        say(view.lint_text(document, remarks, screen, strict=strict) + ("\n" if targets else ""))
    tuning = tune(document, () if is_all else targets) if targets else None
    if show.is_json:
        write_json(view.fstab_json(document, remarks, tuning))
    elif tuning:
        say_exactly(
            view.diff_text(
                document, tuning, screen, is_exact=not make_console(sys.stdout).is_terminal
            )
        )
        if is_all:
            tell_lines(view.left_text(tuning, screen))
    status = view.lint_status(remarks or (), strict=strict)
    return (
        max(status, _tuned_status(tuning, is_all=is_all, is_json=show.is_json))
        if tuning
        else status
    )


def _read(facts: Facts) -> bytes:
    """The fstab of an image or a record."""
    from hosttune.errors import HosttuneError
    from hosttune.facts.storage.fstab_lines import PATH

    data = facts.reader.read(PATH)
    if isinstance(data, bytes):
        return data
    reason = getattr(data, "reason", "it does not exist")
    raise HosttuneError(
        f"{facts.reader.name}: {PATH}: {reason}", hint="name the file itself: hosttune fstab FILE"
    )


def _device_remarks(facts: Facts) -> tuple[ShownRemark, ...]:
    """What the devices of the host say of its lines, and what is wrong with its unit files that
    mount; a note where they cannot be asked.
    """
    from hosttune.facts.base import UnknownFact
    from hosttune.facts.storage.fstab_lines import PATH
    from hosttune.resources.storage.fstab_boot import look_at_boot_lines
    from hosttune.resources.storage.fstab_places import look_at_places
    from hosttune.resources.storage.fstab_remark import RemarkLevel, shown_remark

    if facts.reader.persistent_only:
        return ()
    try:
        _ = facts.filesystems.all
        lines = look_at_boot_lines(facts)
    except UnknownFact as unknown:
        why = f"the lines are not compared with the disks of this host: {unknown}"
        return (
            shown_remark(0, RemarkLevel.NOTE, "no-devices", why, "as root: sudo hosttune fstab"),
        )
    levels = {True: RemarkLevel.ERROR, False: RemarkLevel.WARNING}
    of_fstab = (one for one in lines if one.is_of_device and one.file == PATH)
    of_units = (one for one in lines if one.sentence and one.file != PATH)
    return (
        *look_at_places(facts),
        *(
            shown_remark(one.line, levels[bool(one.fault)], "device", one.sentence, one.way_out)
            for one in of_fstab
        ),
        *(
            shown_remark(
                0, levels[bool(one.fault)], "unit", one.fault or one.note or one.remark, one.way_out
            )
            for one in of_units
        ),
    )


def _tuned_status(tuning: Tuning, *, is_all: bool, is_json: bool) -> int:
    """1 where there is a diff. Raises HosttuneError for a target that was named and cannot be
    tuned.
    """
    from hosttune.errors import HosttuneError
    from hosttune.resources.storage.fstab_plan import LineOutcome
    from hosttune.views.fstab import reason_of

    held = [
        step for step in tuning.steps if step.outcome in (LineOutcome.REFUSED, LineOutcome.LEFT)
    ]
    if not is_all and held and not is_json:
        hint = held[0].todo if len(held) == 1 else ""
        raise HosttuneError(
            "\n".join(reason_of(step, with_todo=len(held) > 1) for step in held), hint=hint
        )
    if not is_all and held:
        return 2
    return int(
        any(step.outcome in (LineOutcome.CHANGED, LineOutcome.REFUSED) for step in tuning.steps)
    )
