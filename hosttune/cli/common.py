"""What commands share: opening a session, the page of a report, output, the rights that a change
needs.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hosttune.errors import HosttuneError
from hosttune.host.console import (
    discard_output,
    is_gone,
    make_console,
    spell_program,
    write_to_stderr,
)
from hosttune.host.masking.cleaned import clean
from hosttune.host.pager import show_in_pager
from hosttune.host.progress import end_progress, note_step
from hosttune.host.writing.own import is_under_sudo
from hosttune.values import Disturbs
from hosttune.views.document import Medium
from hosttune.views.page import ACTS, LOOKS, OWN_COMMAND, Page
from hosttune.views.terminal import Screen

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from hosttune.actions.examine import Session
    from hosttune.actions.trial.state import TrialRun
    from hosttune.cli.options import Display, HostOptions, RuleOptions, TargetOptions
    from hosttune.engine.policy.approval import Approvals
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.host.console import Console
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Plan, Receipt

_OF_POLICY = ("profile", "select", "ignore", "only", "max_risk", "disturb", "again")
_MOST_OF_PLAN = 1 << 18  # values; a plan has some hundred
_OF_RULES = ("only", "again")  # what undo and confirm do not take


def open_session(look: HostOptions, host: str | None = None) -> Session:
    """Open the host that the options name; `host` is the record where several were given."""
    from hosttune.actions import examine

    session = examine.open_session(host=host or one_host(look), **session_options(look))
    return _show_session_notes(session, look)


def open_way_back(look: HostOptions) -> Session:
    """The same for what has to go on where rules or the policy cannot be read, and says so."""
    from hosttune.actions import examine
    from hosttune.host import open_reader

    options = session_options(look)
    reader = open_reader(
        root=options.pop("root"), host=one_host(look), hardware=options.pop("hardware")
    )
    return _show_session_notes(examine.open_way_back(reader, progress, **options), look)


def _show_session_notes(session: Session, look: HostOptions) -> Session:
    tell_chroot(session.reader, look)
    tell_source(session.reader)
    tell_notes(session.policy)
    tell_trial(session.reader)
    return session


def session_options(look: RuleOptions) -> dict[str, Any]:
    """The options of a session, without the record: a record cannot be changed."""
    return {
        "root": look.root,
        "hardware": look.hardware,
        "rules": look.rules,
        "policy": look.policy,
        "profile": look.profile,
        "select": tuple(look.select or ()),
        "ignore": tuple(look.ignore or ()),
        "only": tuple(getattr(look, "only", None) or ()),
        "max_risk": _value_of(look, "max_risk"),
        "disturb": _value_of(look, "disturb"),
        "again": tuple(getattr(look, "again", None) or ()),
    }


def _value_of(look: RuleOptions, name: str) -> Any:
    chosen = getattr(look, name, None)
    return chosen.value if chosen else None


def load_plan(path: str) -> Plan:
    """A plan saved by `plan --save`. It is only compared with the plan that is made now: nothing in
    it is ever done.
    """
    import json

    from hosttune.codec import parse_json, plan_from_json
    from hosttune.engine.decide.plan import digest
    from hosttune.host.console import load

    way_out = "save it again with: hosttune plan --save FILE"
    try:
        plan = plan_from_json(parse_json(load(path), _MOST_OF_PLAN), path)
    except (ValueError, RecursionError) as error:
        why = "it is not JSON" if isinstance(error, json.JSONDecodeError) else error
        raise HosttuneError(f"{path}: not a saved plan: {why}", hint=way_out) from error
    if digest(plan.changes) != plan.digest:
        raise HosttuneError(
            f"{path}: its changes are not those of its digest: it was edited or masked",
            hint=way_out,
        )
    return plan


def load_approvals(path: str) -> Approvals:
    """The approvals in a file of this machine. Raises BadInput with every fault, and HosttuneError
    where root would follow what someone else can write.
    """
    from hosttune.engine.policy.approval import parse_approvals
    from hosttune.engine.rules.trusted import read_trusted
    from hosttune.host.reading.live import LiveReader

    name, text = read_trusted(LiveReader(), path, is_local=True, is_required=True)
    return parse_approvals(text or "", name)


def require_rights(look: HostOptions, show: Display, words: list[str]) -> None:
    """Refuse a change of a record, or without root's rights, before anything is looked at; `words`
    are this command.
    """
    from hosttune.host import open_reader

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    tell_chroot(reader, look)
    page = open_page(reader, look, show)
    if not page.can_apply:
        raise HosttuneError(
            "a record cannot be changed",
            hint="run it on the host itself, or with --root on its files",
        )
    if not reader.is_privileged:
        raise HosttuneError(
            "this needs root; nothing was changed", hint=f"type: {page.act(quote_for_shell(words))}"
        )


def require_root(words: list[str], look: RuleOptions | None = None) -> None:
    """Refuse what only root may read or keep, before anything is looked at; `words` are this
    command.
    """
    from hosttune.host.reading.live import LiveReader

    if not LiveReader().is_privileged:
        command = (
            f"sudo {spell_program()} "
            f"{quote_for_shell(words)}{_spell_chosen(asdict(look)) if look else ''}"
        )
        raise HosttuneError("this needs root; nothing was changed", hint=f"type: {command}")


def as_typed(hint: str, look: TargetOptions | None, name: str = "") -> str:
    """The way out of an error, with the commands in it as they are typed here: found by sudo, and
    for the same host. `name`: what this program is called, where it is not as it was started.
    """
    options = (
        _spell_chosen(
            {name: value for name, value in asdict(look).items() if name not in _OF_RULES}
        )
        if look
        else ""
    )
    # A way out that names the host already does not get it twice.
    options = "" if options in hint else options

    def insert_typed(found: re.Match[str]) -> str:
        verb = found["verb"]
        return (
            f"{found['sudo'] or ''}{name or spell_program()} "
            f"{verb}{options if verb in LOOKS | ACTS else ''}"
        )

    return OWN_COMMAND.sub(insert_typed, hint)


def spell_expectation(digest: str | None) -> list[str]:
    """The option that repeats the digest, as words."""
    return ["--expect", digest] if digest else []


def load_choice(look: RuleOptions) -> tuple[Reader, Catalog, Policy]:
    """The door, the rules and the policy that the options name; no fact is collected."""
    from hosttune.engine.policy.file import load_policy
    from hosttune.engine.rules.catalog import load_catalog
    from hosttune.host import open_reader

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    catalog = load_catalog(reader, look.rules)
    chosen = {name: value for name, value in session_options(look).items() if name in _OF_POLICY}
    policy = load_policy(reader, catalog, look.policy).overridden(catalog, **chosen)
    tell_chroot(reader, look)
    tell_source(reader)
    tell_notes(policy)
    return reader, catalog, policy


def tell_chroot(reader: Reader, look: TargetOptions) -> None:
    """Why the answer is about files only, where no one asked for that; and where it is not, though
    --root was given.
    """
    if reader.kind == "root" and look.root is None:
        tell("hosttune: this is a chroot: its files are looked at as those of --root / (an image)")
    if reader.kind == "live" and look.root is not None:
        tell(f"hosttune: --root {look.root} is this running host itself, and not an image")


def tell_source(reader: Reader) -> None:
    """What a file is that another program than hosttune made, and what it lacks."""
    from hosttune.host.door import source_of

    if not source_of(reader):
        return
    from hosttune.host.support.reader import SupportReader
    from hosttune.views.support import source_lines

    if isinstance(reader, SupportReader):
        for line in source_lines(reader.report, reader.file, time.time()):
            tell(f"hosttune: {line}")


def tell_notes(*policies: Policy) -> None:
    """What the author of a policy, or of its options, should know, each note once."""
    for note in dict.fromkeys(note for one in policies for note in one.notes):
        tell(f"hosttune: {note}")


def trial_of(reader: Reader) -> TrialRun | None:
    """The run on trial on this very host, as far as this user may see it."""
    from hosttune.actions.journal.interrupted import trial_of as found

    return found(reader) if reader.kind == "live" else None


def tell_trial(reader: Reader) -> None:
    """That a run is on trial, and how to keep it."""
    trial = trial_of(reader)
    if trial is not None and trial.state.is_open:
        from hosttune.views.trial import standing_words

        words = standing_words(trial, reader.now())
        tell(f"hosttune: run {trial.run} is {words}; to keep it: sudo {spell_program()} confirm")


def tell_idle(session: Session, plan: Plan, *, everything: bool) -> None:
    """What the policy says and nothing comes of on this host; `everything` also where that harms no
    one.
    """
    from hosttune.engine.policy.effect import without_effect

    for fault in without_effect(
        session.policy, session.catalog, plan.findings, everything=everything
    ):
        hint = f" ({fault.hint})" if fault.hint else ""
        tell(f"hosttune: {fault.where}: {fault.message}{hint}")


def one_host(look: TargetOptions) -> str | None:
    """The one record of a command that looks at a single host."""
    if look.host and len(look.host) > 1:
        raise HosttuneError("one --host at a time", hint="only check takes several records")
    return look.host[0] if look.host else None


def open_page(reader: Reader, look: TargetOptions | None, show: Display) -> Page:
    """The page for a report about `reader`'s host on standard output."""
    from hosttune.engine.policy.file import PATH
    from hosttune.engine.rules.trusted import path_on
    from hosttune.host.door import source_of

    words, chosen = spell_program(), asdict(look) if look else {}
    is_host = reader.kind != "record"
    is_partial = is_host and not reader.is_privileged
    only = {name: chosen.pop(name, None) for name in _OF_RULES}
    chosen_policy = chosen.get("policy")
    return Page(
        # A page is passed on, and the path of a record on this machine means nothing to its
        # readers.
        host=_name_of(reader) if medium_of(show) is Medium.HTML else reader.name,
        screen=open_screen(show),
        program=words,
        sudo="sudo " if is_partial or (is_host and is_under_sudo()) else "",
        options=_spell_chosen(chosen),
        only=_spell_chosen(only),
        there=_spell_chosen({name: value for name, value in chosen.items() if name != "host"}),
        aim=_spell_chosen({name: chosen[name] for name in ("root", "host") if name in chosen}),
        can_apply=reader.kind in {"live", "root"},
        is_partial=is_partial,
        is_verbose=getattr(show, "verbose", False),
        policy=chosen_policy or path_on(reader, PATH),
        medium=medium_of(show),
        record=_made_by(reader),
        source=source_of(reader),
    )


def _name_of(reader: Reader) -> str:
    """What a page calls the host: of a record the name in it, not the file."""
    if reader.kind != "record":
        return reader.name
    from hosttune.host.record.record import RecordReader

    return str(reader.data["name"]) if isinstance(reader, RecordReader) else reader.name


def _made_by(reader: Reader) -> str:
    """Which version of hosttune made this record; empty of a reader of another kind."""
    if reader.kind != "record":
        return ""
    from hosttune.host.record.record import RecordReader

    return reader.made_by if isinstance(reader, RecordReader) else ""


def medium_of(show: Display) -> Medium:
    """What a document is made for; what is no document (JSON) has none of its own."""
    return next((one for one in Medium if one.value == show.format.value), Medium.TEXT)


def is_coloured(surface: Console, show: Display) -> bool:
    """Whether the answer is coloured: as --color says, else as the terminal and the environment
    say.
    """
    word = "never" if show.no_color else show.color.value
    return surface.has_colour if word == "auto" else word == "always"


def open_screen(show: Display) -> Screen:
    """Standard output, as wide and as colourful as it is; in a file, no line is broken."""
    if getattr(show, "output", None) is not None:
        return Screen(width=0)
    surface = make_console(sys.stdout)
    return Screen(surface.columns, is_coloured(surface, show), surface.is_terminal)


def repeated_words(chosen: Mapping[str, Any]) -> list[str]:
    """The options of this command that the next one needs to mean the same."""
    words: list[str] = []
    for name, value in chosen.items():
        option = "--" + name.replace("_", "-")
        for item in value if isinstance(value, list) else [value] if value is not None else []:
            words += [option, item.word if isinstance(item, Disturbs) else str(item)]
    return words


def _spell_chosen(chosen: Mapping[str, Any]) -> str:
    """The same, as a shell takes them."""
    words = repeated_words(chosen)
    return f" {quote_for_shell(words)}" if words else ""


def quote_for_shell(words: list[str]) -> str:
    """Words as a shell takes them."""
    from hosttune import quoting

    return quoting.join(words)


def say(text: str) -> None:
    """Data, to standard output; in a pager where it is longer than the terminal's screen. A reader
    that has gone away (`| head`), or a terminal, does not change the exit status.
    """
    end_progress()
    if show_in_pager(text):
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and not is_gone(sys.stdout):
            raise
        discard_output(sys.stdout)


def say_exactly(text: str) -> None:
    """Text made of bytes that need not be UTF-8 (surrogate escapes); where it is not for a
    terminal, those bytes.
    """
    if not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    say(text)


def progress(text: str) -> None:
    """One line of progress, which stays; on a terminal the time that it takes is shown below it."""
    tell(f"  {text}")
    note_step(text)


def tell(text: str) -> None:
    """A line of talk, to standard error; it may hold names that come from the host."""
    write_to_stderr(f"{clean(text)}\n")


def conclude_run(command: str, writer: Writer, receipt: Receipt, status: int) -> int:
    """The exit status of a run: that of the signal that stopped it, else `status`. Where its
    terminal went away, the next login reads what became of it.
    """
    import signal

    from hosttune.actions.journal.receipts import tell_next_login, unseen_text
    from hosttune.host.writing.stopping import has_hung_up

    is_unseen = receipt.run_id and (has_hung_up() or is_gone(sys.stderr))
    tell_next_login(writer, unseen_text(command, receipt) if is_unseen else clean(""))
    return 128 + signal.Signals[receipt.stopped] if receipt.stopped else status


def tell_lines(text: str) -> None:
    """What a view has made, which has cleaned what it shows, to standard error."""
    write_to_stderr(f"{text}\n")


def write_json(data: Any) -> None:
    from hosttune.codec import dump_json

    say(dump_json(data))
