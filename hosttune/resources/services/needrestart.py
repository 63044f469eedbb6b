"""Services that needrestart does not restart by itself, as entries of our own in
/etc/needrestart/conf.d.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.services.needrestart import FOLDER, MAIN, entries_for, mode_of
from hosttune.facts.services.unit_files import UnitFiles
from hosttune.regex import regex
from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.file import compare_dropin, dropin_path
from hosttune.values import ABSENT, Activation, Address, Finding, Hold, HoldKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.services.needrestart import NeedrestartSetting
    from hosttune.resources.base import Context, Operator, Wish
    from hosttune.values import Change

# systemd.unit(5), without the backslash of escaped names
_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9_.:@-]*")


class NeedrestartWish(WishKind):
    """`- needrestart: SERVICES`: their names without .service."""

    kind = "needrestart"
    fields: Mapping[str, FieldSpec] = {
        "entries": FieldSpec(
            str, choices=("installed", "all"), help="Which of these services get an entry"
        ),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.NOW,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(finding for wish in wishes for finding in _compare(wish, context))

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            in_general(wish, _address_file(wish), _render_text(wish, tuple(wish.name.split())))
            for wish in wishes
        )


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(FOLDER, wish.rule))


def _compare(wish: Wish, context: Context) -> tuple[Finding, ...]:
    path = _address_file(wish).name
    try:
        settings = context.facts.needrestart.settings
    except UnknownFact as unknown:
        return (_make_unknown(wish, unknown.reason),)
    others = tuple(one for one in settings if one.file != path)
    if unclear := next((one for one in others if one.what == "unclear"), None):
        return (
            _make_unknown(
                wish,
                f"{unclear.file}: what it says of override_rc is more than a value: "
                f"{unclear.pattern}",
            ),
        )
    services = tuple(wish.name.split())
    if bad := next((one for one in services if not _NAME.fullmatch(one)), None):
        return (_make_unknown(wish, f"{bad!r} is no name of a service"),)
    mode = mode_of(others)
    if mode and mode.value == "l" and context.state[_address_file(wish)] is ABSENT:
        sentence = (
            f'{mode.file} sets $nrconf{{restart}} = "l": nothing is restarted, what waits is listed'
        )
        return (Finding(wish.rule, wish.subject, Verdict.OK, evidence=(sentence,)),)
    contested = {one: found for one in services if (found := _find_restarted(others, one))}
    if later := next(
        (one for one in others if one.what == "clear" and one.file > path and one.file != MAIN),
        None,
    ):
        hold = Hold(HoldKind.OWNED, later.file)
        reason = f"{later.file} comes later and starts the table of exceptions anew"
        todo = "let it add its entries one by one: $nrconf{override_rc}{qr(^name)} = 0;"
        return (Finding(wish.rule, wish.subject, Verdict.DIFFERS, hold, reason, todo=todo),)
    wanted = tuple(one for one in services if one not in contested and not entries_for(others, one))
    if wish.fields.get("entries") == "installed":  # an entry stays when its package goes
        present = tuple(one for one in settings if one.file == path)
        here = _select_installed(wanted, context)
        wanted = tuple(one for one in wanted if one in here or entries_for(present, one))
    ours = _make_ours(wish, wanted, others, services, context)
    return (
        *(ours,),
        *(_make_contested(wish, service, found) for service, found in contested.items()),
    )


def _find_restarted(
    settings: tuple[NeedrestartSetting, ...], service: str
) -> NeedrestartSetting | None:
    """Someone else's entry that wants a service restarted."""
    return next((one for one in entries_for(settings, service) if one.value != "0"), None)


def _make_contested(wish: Wish, service: str, found: NeedrestartSetting) -> Finding:
    reason = f"{service} is restarted when a library of it was upgraded"
    todo = f"if that is not meant, take {found.pattern} out of {found.file}"
    return Finding(
        wish.rule, service, Verdict.DIFFERS, Hold(HoldKind.OWNED, found.file), reason, todo=todo
    )


def _make_ours(
    wish: Wish,
    wanted: tuple[str, ...],
    others: tuple[NeedrestartSetting, ...],
    services: tuple[str, ...],
    context: Context,
) -> Finding:
    """Our file, with the services that no one else excepts."""
    kept = sorted(
        {f"{one.pattern} ({one.file})" for name in services for one in entries_for(others, name)}
    )
    evidence = (f"excepted already: {', '.join(kept)}",) if kept else ()
    here = _select_installed(wanted, context)
    if not here and context.state[_address_file(wish)] is ABSENT:
        return Finding(wish.rule, wish.subject, Verdict.OK, evidence=evidence)
    dropin = compare_dropin(
        _address_file(wish).name, _render_text(wish, wanted), wish.rule, context, Activation.NOW
    )
    evidence = (*dropin.evidence, *evidence)
    if dropin.unknown:
        return _make_unknown(wish, dropin.unknown)
    if dropin.hold or dropin.change is None:
        verdict = Verdict.DIFFERS if dropin.hold else Verdict.OK
        return Finding(
            wish.rule, wish.subject, verdict, dropin.hold, evidence=evidence, todo=dropin.todo
        )
    reason = (
        f"after an upgrade needrestart may restart {', '.join(here)}"
        if here
        else "others except all of them"
    )
    return Finding(
        wish.rule, wish.subject, Verdict.DIFFERS, Hold(), reason, evidence, (dropin.change,)
    )


def _select_installed(services: tuple[str, ...], context: Context) -> tuple[str, ...]:
    """Those that have a unit here; one of which that cannot be read counts."""
    units = UnitFiles(context.facts.reader)
    return tuple(one for one in services if attempt(units.path, f"{one}.service") != "")


def _render_text(wish: Wish, services: tuple[str, ...]) -> bytes:
    patterns = tuple(
        rf"^{re.sub(r'[^A-Za-z0-9_]', lambda one: chr(92) + one[0], name)}\.service$"
        for name in services
    )
    return render("needrestart.conf.j2", rule=wish.rule, services=patterns).encode()


def _make_unknown(wish: Wish, reason: str) -> Finding:
    return Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=reason)


WISH = NeedrestartWish()
