"""What the commands with several formats share: a host as it was looked at, and where the answer
goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.cli.options import DetailedDisplay, Display, HostOptions
    from hosttune.values import Plan
    from hosttune.views.checked import Checked

WORLD_READABLE = 0o644


def check_host(look: HostOptions, show: DetailedDisplay, host: str | None = None) -> Checked:
    """Look at the host of the options, or at the record `host`, and make the plan."""
    from hosttune.cli.common import open_session, tell_idle

    session = open_session(look, host)
    plan = session.plan()
    tell_idle(session, plan, everything=show.verbose)
    return of_session(session, plan, replace(look, host=[host]) if host else look, show)


def of_session(session: Session, plan: Plan, look: HostOptions, show: Display) -> Checked:
    """The plan of a host that was looked at, and what is around it."""
    from hosttune.actions.journal.interrupted import trial_of
    from hosttune.actions.writers import name_writers
    from hosttune.cli.common import open_page
    from hosttune.cli.options import ShowCheck as OfCheck
    from hosttune.facts.inventory import describe_machine, other_system, take_inventory
    from hosttune.facts.storage.lasting import volatile_root
    from hosttune.views.checked import Checked, about_rules

    return Checked(
        plan=plan
        if show.is_json
        else replace(plan, findings=name_writers(plan.findings, session.reader)),
        page=open_page(session.reader, look, show),
        profile=session.policy.profile,
        chosen=profile_text(session),
        policy_file=session.policy.source,
        policy_sections=tuple(one.pattern for one in session.policy.sections if one.fits),
        proposal=proposal_text(session),
        about=about_rules(session.selected),
        timings=session.timings,
        trial=trial.state.value if (trial := trial_of(session.reader)) else "",
        keep_reports=session.policy.keep_reports,
        drains=session.policy.drains,
        inventory=take_inventory(session.facts)
        if isinstance(show, OfCheck) and show.is_json
        else None,
        other_system=other_system(session.facts),
        volatile=volatile_root(session.facts),
        machine=describe_machine(session.facts)
        if isinstance(show, OfCheck) and not show.is_json
        else {},
    )


def profile_text(session: Session) -> str:
    """Which profile is used, who says so, which file and sections are in force, the rules of
    --only, and the profile that fits better.
    """
    from hosttune.views.policy import in_force
    from hosttune.views.terminal import join_words

    policy = session.policy
    no_name = f"{policy.source} names none" if policy.source else "no policy names one"
    who = (
        f"named by {policy.profile_by}" if policy.profile_by else f"the default, because {no_name}"
    )
    named = f"Profile {policy.profile}, {who}."
    only = f"Only rules of --only: {join_words(list(policy.sole))}." if policy.sole else ""
    return " ".join(filter(None, (named, in_force(policy, named), only, proposal_text(session))))


def proposal_text(session: Session) -> str:
    """The profile that fits this host, where it runs with `base` and another one does."""
    from hosttune.engine.policy.proposal import propose

    found = propose(session.facts) if session.policy.profile == "base" else None
    return (
        f"The profile {found.profile} fits this host: {found.why} (see: hosttune profiles)."
        if found
        else ""
    )


def deliver(text: str, output: str | None) -> None:
    """The answer, to standard output or into a file that is there whole or not at all."""
    from hosttune.cli.common import say, tell
    from hosttune.host.writing.output import save

    if output in (None, "-"):
        say(text)
    else:
        save(output, text.encode("utf-8", "backslashreplace"), WORLD_READABLE)
        tell(f"hosttune: written to {output}")
