"""What commands share: opening a session, the page of a report, output, the rights that a change needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hosttune.errors import HosttuneError
from hosttune.host.console import console, discard, program, talk
from hosttune.views.document import Medium
from hosttune.views.page import Page, shown
from hosttune.views.terminal import Screen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.actions.examine import Session
    from hosttune.cli.options import Display, Look
    from hosttune.engine.catalog import Catalog
    from hosttune.engine.policy import Policy
    from hosttune.host.door import Reader
    from hosttune.values import Plan

_OF_POLICY = ("profile", "select", "ignore", "only", "max_risk", "disturb")


def open_session(look: Look, host: str | None = None) -> Session:
    """Open the host that the options name; `host` is the record where several were given."""
    from hosttune.actions import examine

    session = examine.open_session(host=host or one_host(look), **session_options(look))
    tell_chroot(session.reader, look)
    tell_notes(session.policy)
    return session


def session_options(look: Look) -> dict[str, Any]:
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
        "max_risk": look.max_risk.value if look.max_risk else None,
        "disturb": look.disturb.value if look.disturb else None,
    }


def load_plan(path: str) -> Plan:
    """A plan saved by `plan --out`. It is only compared with the plan that is made now: nothing in it is ever done."""
    import json

    from hosttune.codec import plan_from_json
    from hosttune.engine.plan import digest
    from hosttune.host.console import load

    way_out = "save it again with: hosttune plan --out FILE"
    try:
        plan = plan_from_json(json.loads(load(path)), path)
    except ValueError as error:
        raise HosttuneError(f"{path}: not a saved plan: {error}", hint=way_out) from error
    if digest(plan.changes) != plan.digest:
        raise HosttuneError(f"{path}: its changes are not those of its digest: it was edited or masked", hint=way_out)
    return plan


def require_rights(look: Look, show: Display, words: list[str]) -> None:
    """Refuse a change of a record, or without root's rights, before anything is looked at; `words` are this command."""
    from hosttune.host import open_reader

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    tell_chroot(reader, look)
    page = open_page(reader, look, show)
    if not page.can_apply:
        raise HosttuneError("a record cannot be changed", hint="run it on the host itself, or with --root on its files")
    if not reader.is_privileged:
        raise HosttuneError("this needs root; nothing was changed", hint=f"type: {page.act(shell(words))}")


def require_root(command: str) -> None:
    """Refuse what only root may keep, before anything is looked at."""
    from hosttune.host.live import LiveReader

    if not LiveReader().is_privileged:
        raise HosttuneError("this needs root; nothing was changed", hint=f"type: sudo {command}")


def expecting(digest: str | None) -> list[str]:
    """The option that repeats the digest, as words."""
    return ["--expect", digest] if digest else []


def load_choice(look: Look, *, pinned: bool = True) -> tuple[Reader, Catalog, Policy]:
    """The door, the rules and the policy that the options name; no fact is collected. `pinned`: the rules as they are
    in the edition of the policy.
    """
    from hosttune.engine.catalog import load_catalog
    from hosttune.engine.policy_file import load_policy
    from hosttune.host import open_reader

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    catalog = load_catalog(reader, look.rules)
    chosen = {name: value for name, value in session_options(look).items() if name in _OF_POLICY}
    policy = load_policy(reader, catalog, look.policy).overridden(catalog, **chosen)
    tell_chroot(reader, look)
    tell_notes(policy)
    return reader, catalog.at(policy.edition) if pinned else catalog, policy


def tell_chroot(reader: Reader, look: Look) -> None:
    """Why the answer is about files alone, where nobody asked for that."""
    if reader.kind == "root" and look.root is None:
        tell("hosttune: this is a chroot: its files are looked at as those of --root / (an image)")


def tell_notes(policy: Policy) -> None:
    """What whoever wrote the policy, or typed its options, should know."""
    for note in policy.notes:
        tell(f"hosttune: {shown(note)}")


def tell_idle(session: Session, plan: Plan, *, everything: bool) -> None:
    """What the policy says and nothing comes of on this host; `everything` also where that harms nobody."""
    from hosttune.engine.policy_effect import without_effect

    for fault in without_effect(session.policy, session.catalog, plan.findings, everything=everything):
        hint = f" ({fault.hint})" if fault.hint else ""
        tell(f"hosttune: {shown(f'{fault.where}: {fault.message}{hint}')}")


def one_host(look: Look) -> str | None:
    """The one record of a command that looks at a single host."""
    if look.host and len(look.host) > 1:
        raise HosttuneError("one --host at a time", hint="only check takes several records")
    return look.host[0] if look.host else None


def open_page(reader: Reader, look: Look | None, show: Display) -> Page:
    """The page for a report about `reader`'s host on standard output."""
    from hosttune.engine.policy_file import PATH
    from hosttune.engine.trusted import path_on

    words, chosen = program(), dict(vars(look)) if look else {}
    only = chosen.pop("only", None)
    return Page(
        host=reader.name,
        screen=open_screen(show),
        program=words,
        sudo="" if reader.is_privileged else "sudo ",
        options=_repeated(chosen),
        only=_repeated({"only": only}),
        can_apply=reader.kind in {"live", "root"},
        is_verbose=show.verbose,
        policy=(look.policy if look else None) or path_on(reader, PATH),
        medium=medium_of(show),
    )


def medium_of(show: Display) -> Medium:
    """What a document is made for; what is no document (JSON) has none of its own."""
    return next((one for one in Medium if one.value == show.format.value), Medium.TEXT)


def open_screen(show: Display) -> Screen:
    """Standard output, as wide and as colourful as it is; in a file, no line is broken."""
    if getattr(show, "output", None) is not None:
        return Screen(width=0)
    surface = console(sys.stdout)
    return Screen(surface.columns, surface.has_colour and not show.no_color)


def _repeated(chosen: Mapping[str, Any]) -> str:
    """The options of this command that the next one needs to mean the same, as a shell takes them."""
    words: list[str] = []
    for name, value in chosen.items():
        option = "--" + name.replace("_", "-")
        for item in value if isinstance(value, list) else [value] if value is not None else []:
            words += [option, str(item)]
    return f" {shell(words)}" if words else ""


def shell(words: list[str]) -> str:
    """Words as a shell takes them."""
    import shlex

    return shlex.join(words)


def say(text: str) -> None:
    """Data, to standard output. A reader that has gone away (`| head`) does not change the exit status."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def say_exactly(text: str) -> None:
    """Text made of bytes that need not be UTF-8 (surrogate escapes); where it is not for a terminal, those bytes."""
    if not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    say(text)


def progress(text: str) -> None:
    """One line of progress; it may hold names that come from the host."""
    tell(f"  {shown(text)}")


def tell(text: str) -> None:
    """Talk, to standard error."""
    talk(text + "\n")


def write_json(data: Any) -> None:
    from hosttune.codec import dumps

    say(dumps(data))
