"""`hosttune init`: a first policy for this host."""

from __future__ import annotations

from typing import Annotated

from hosttune.cli.options import Diagnosis, Option

EXAMPLES = ("hosttune init", "sudo hosttune init --yes")


def init(
    diagnosis: Diagnosis,  # noqa: ARG001 - --debug, which the main program reads
    host: Annotated[
        str | None,
        Option("--host", metavar="RECORD", help="Show the policy for the host of a record."),
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Write it to /etc/hosttune/policy.yaml.")] = False,
) -> int:
    """Show a first policy for this host, or write it.

    It names the profile that fits, and offers data disks and waivers as comments. With --yes it is
    written, unless there is a policy already.

    Exit status: 0 shown or written, 2 trouble.
    """
    from hosttune.actions.examine import open_session
    from hosttune.cli.common import require_root, say, tell
    from hosttune.engine.policy.file import PATH
    from hosttune.engine.policy.first_policy import first_policy, has_content
    from hosttune.engine.policy.proposal import propose
    from hosttune.errors import HosttuneError
    from hosttune.facts import Facts
    from hosttune.host import open_reader
    from hosttune.host.console import spell_program
    from hosttune.host.writing.replace import replace
    from hosttune.values import ABSENT, FileValue, Unreadable

    if yes and host:
        raise HosttuneError(
            "a record cannot be changed", hint="leave out --host, on the host itself"
        )
    if yes:
        require_root(["init", "--yes"])
    reader = open_reader(host=host)
    there = reader.read(PATH)
    is_free = there is ABSENT or (isinstance(there, bytes) and not has_content(there))
    why_not = (
        f"cannot be read: {there.reason}" if isinstance(there, Unreadable) else "is there already"
    )
    if yes and not is_free:
        raise HosttuneError(
            f"{PATH} {why_not}; nothing was written",
            hint=f"edit it, then: {spell_program()} policy",
        )
    found = propose(Facts(reader))
    session = open_session(reader=reader, profile=found.profile if found else "base")
    titles = {rule.id: rule.title for rule in session.selected}
    text = first_policy(
        reader.name, session.facts, found, session.plan().findings, titles, reader.now()
    )
    say(text)
    if yes and not isinstance(there, Unreadable):
        replace("/", PATH, FileValue(text.encode()), expected=there)
        tell(f"hosttune: written to {PATH}; what it does here: {spell_program()} check")
    elif not host:
        tell(f"hosttune: to write it to {PATH}:" if is_free else f"hosttune: {PATH} {why_not}")
        if is_free:
            tell(f"  sudo {spell_program()} init --yes")
    return 0
