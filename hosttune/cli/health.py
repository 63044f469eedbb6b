"""`hosttune health`: whether this node may take work now."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import HealthFormat, Option, ShowHealth, SomeRules
from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.engine.decide.health import NodeHealth

SHORTEST_S, LONGEST_S = 0.5, 600.0
_NAMES_S = 1.0  # to name the GPUs once more, which rules have read in time
_OF_GPUS = "gpu-errors"  # the rule that looks at every GPU
_GRACE_S = 6.0 + _NAMES_S + 3.0  # to start, to leave behind what hangs, twice, and to print
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0}


EXAMPLES = ("hosttune health", "hosttune health --format slurm", "sudo hosttune health --learn")


def health(
    look: SomeRules,
    show: ShowHealth,
    within: Annotated[
        str, Option("--within", metavar="TIME", help="Answer in this time, whatever hangs (20s).")
    ] = "20s",
    learn: Annotated[
        bool,
        Option(
            "--learn",
            help="Store what this healthy host has, and its error counters, to compare with later.",
        ),
    ] = False,
) -> int:
    """Check whether this node is fit to take jobs. It is fit, degraded, not fit or unknown. Changes
    nothing.

    --learn stores the state of this healthy host. With --host RECORD, the state of a sibling is
    stored for this one.

    Exit status: 0 fit, 1 not so, 2 trouble; nhc: 1 only if not fit; slurm: 1 not fit, 3 unknown;
    npd: 1 not fit, 2 unknown; nagios: 1 degraded, 2 not fit, 3 unknown.
    """
    if learn:
        return _learn_health(look, show, within)
    # Files of an image or a record hang no look at this host, and what a child prints passes by a
    # stream that a caller put in.
    if look.root is not None or look.host or sys.stdout is not sys.__stdout__:
        return _in_a_line(partial(_judge_health, look, show, within), show)
    return _in_a_line(partial(_show_health, look, show, within), show)


def _in_a_line(act: Callable[[], int], show: ShowHealth) -> int:
    """The exit status of `act`; who reads one line gets one that says that the host was not
    checked.
    """
    from hosttune.cli.common import say
    from hosttune.cli.ending import describe_fault
    from hosttune.views.health import health_line, health_status, no_health

    try:
        return act()
    # Also a fault of hosttune itself: its usual status, 2, is that of a host that is not fit to
    # Nagios.
    except Exception as error:
        if show.format not in {HealthFormat.NAGIOS, HealthFormat.NPD}:
            raise
        is_known = isinstance(error, HosttuneError)
        if show.debug and not is_known:
            raise
        unseen = no_health(str(error) if is_known else describe_fault(error))
        say(health_line(unseen, show.format.value))
        return health_status(unseen, show.format.value)


def _show_health(look: SomeRules, show: ShowHealth, within: str) -> int:
    """By a child: what comes before and after the rules looks at this host, too, and may hang in
    the kernel there.
    """
    from hosttune.cli.ending import run_command
    from hosttune.host.apart import run_apart

    act = partial(_in_a_line, partial(_judge_health, look, show, within), show)
    status = run_apart(
        lambda: run_command(act, debug="--debug" in sys.argv), _parse_seconds(within) + _GRACE_S
    )
    if status is None:
        message = "the look did not end in time: something of this host hangs in the kernel"
        raise HosttuneError(
            message, hint="see what waits in state D: ps -eo pid,user,stat,wchan:25,args"
        )
    return status


def _judge_health(look: SomeRules, show: ShowHealth, within: str) -> int:
    from hosttune.actions.health import name_gpus
    from hosttune.cli.common import open_page
    from hosttune.cli.reports import deliver
    from hosttune.codec import dump_json
    from hosttune.host.progress import show_progress
    from hosttune.views.health import (
        health_json,
        health_line,
        health_prometheus,
        health_status,
        health_text,
    )
    from hosttune.views.masking import mask_data
    from hosttune.views.terminal import Screen

    with show_progress("checking the health of this host", most_s=_parse_seconds(within)):
        found, session = _look_at_health(look, within)
    reader = session.reader
    created = datetime.fromtimestamp(reader.now(), timezone.utc)
    page = open_page(reader, look, show)
    if show.format is HealthFormat.JSON:
        text = dump_json(
            mask_data(health_json(found, page.host, created.isoformat(timespec="seconds")))
        )
    elif show.format is HealthFormat.PROMETHEUS:
        text = health_prometheus(found, int(created.timestamp()))
    elif show.format is HealthFormat.TEXT:
        titles = {rule.id: rule.title for rule in session.selected}
        own_page = page if show.output is None else replace(page, screen=Screen(width=0))
        gpus = (
            name_gpus(session, min(_parse_seconds(within), _NAMES_S)) if _has_answer(found) else {}
        )
        text = health_text(found, own_page, titles, gpus)
    else:
        text = health_line(found, show.format.value)
    deliver(text, show.output)
    return health_status(found, show.format.value)


def _has_answer(found: NodeHealth) -> bool:
    """Whether GPUs were looked at, and that look did not hang."""
    is_late = any(point.rule == _OF_GPUS and not point.subject for point in found.points)
    return _OF_GPUS in found.asked and not is_late


def _learn_health(look: SomeRules, show: ShowHealth, within: str) -> int:
    from hosttune.actions.health import BASELINE, learn, refuse_unlike
    from hosttune.cli.common import require_root
    from hosttune.cli.reports import deliver
    from hosttune.engine.decide.health import Fitness
    from hosttune.facts import Facts
    from hosttune.facts.baseline import is_sibling, write_learned
    from hosttune.host.reading.live import LiveReader
    from hosttune.verdict_words import FITNESS
    from hosttune.views.health import learned_text

    if look.root is not None:
        raise HosttuneError(
            "an image has no hardware to learn", hint="learn it on the host that runs it"
        )
    require_root(["health", "--learn"], look)
    found, session = _look_at_health(look, within, without=BASELINE)
    if found.fitness > Fitness.UNKNOWN:
        verdict = FITNESS[found.fitness.value].verdict
        message = f"nothing was learned, for the host is {verdict}: {found.points[0].sentence}"
        hint = "solve it first; or waive it in the policy, with who says so and until when"
        raise HosttuneError(message, hint=hint)
    own = Facts(LiveReader())
    refuse_unlike(session, own)
    learned = learn(session)
    text = learned_text(learned, found, is_sibling=is_sibling(learned, own))
    deliver(write_learned(learned) if show.format is HealthFormat.JSON else text, show.output)
    return 0


def _look_at_health(
    look: SomeRules, within: str, *, without: str = ""
) -> tuple[NodeHealth, Session]:
    """The health as all rules tell it that may, but for `without`."""
    from hosttune.actions.examine import examine
    from hosttune.actions.health import ask, health_rules
    from hosttune.cli.common import load_choice
    from hosttune.engine.decide.health import judge

    seconds = _parse_seconds(within)
    reader, catalog, policy = load_choice(look)
    rules = tuple(rule for rule in health_rules(catalog, policy) if rule != without)
    session = examine(reader, catalog, replace(policy, sole=rules), collect=False)
    return judge(ask(session, seconds) if rules else (), policy.drains, policy.sole), session


def _parse_seconds(text: str) -> float:
    import re

    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|)", text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not SHORTEST_S <= seconds <= LONGEST_S:
        message = (
            f"--within: {text!r} is not a time from {SHORTEST_S:g} s to {LONGEST_S / 60:g} min"
        )
        raise HosttuneError(message, hint="give it as 5s, 500ms or 1m")
    return seconds
