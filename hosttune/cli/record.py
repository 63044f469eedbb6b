"""`hosttune record`: one file with what this host answers, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Diagnosis, Option, RuleOptions

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.host.door import Reader


EXAMPLES = ("sudo hosttune record host.json", "sudo hosttune record --share host.json")


def record(
    look: RuleOptions,
    diagnosis: Diagnosis,
    file: Annotated[
        str, Argument(metavar="FILE", help="Only you can read it afterwards; - is standard output.")
    ],
    share: Annotated[
        bool,
        Option(
            "--share",
            help="Hide host names, user names and addresses, too, and leave out what no rule "
            "reads.",
        ),
    ] = False,
) -> int:
    """Record this host for a replay with --host. All commands with --host take the record, on any
    machine.

    It holds no passwords, keys or serial numbers, and the machine id only as a hash. Without root
    it holds what you can read.
    """
    from hosttune import __version__
    from hosttune.actions.examine import examine_everything
    from hosttune.actions.record.encode import record_text
    from hosttune.actions.record.record import take_record
    from hosttune.cli.common import one_host, say, tell
    from hosttune.errors import HosttuneError
    from hosttune.host.support.reader import SupportReader
    from hosttune.host.writing.output import save
    from hosttune.numbers import say_count

    del diagnosis
    reader, catalog, policy = _open_choice(look)
    if reader.kind == "record" and not isinstance(reader, SupportReader):
        raise HosttuneError(
            "a record of a record is the record itself", hint=f"copy {one_host(look)}"
        )
    data = take_record(
        reader,
        lambda door: examine_everything(door, catalog, policy),
        share=share,
        tool_version=__version__,
    )
    text, left_out = record_text(data)
    if file == "-":
        say(text)
    else:
        save(file, text.encode("ascii"))
    if left_out:
        more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
        tell(
            "hosttune: left out, because the record would be larger than hosttune reads: "
            f"{left_out[0]}{more}"
        )
    rights = (
        "" if reader.is_privileged else "; made without root, so what needs root is unknown in it"
    )
    read = (
        f"{say_count(len(data['files']), 'file')}, {say_count(len(data['queries']), 'answer')} of "
        "programs"
    )
    tell(f"hosttune: {'standard output' if file == '-' else file}: {read}{rights}")
    return 0


def _open_choice(look: RuleOptions) -> tuple[Reader, Catalog, Policy]:
    """The door, the rules and the policy. What is wrong with those of the host itself keeps no one
    from a record, which may be taken to find that out.
    """
    from hosttune.cli.common import load_choice, one_host, tell
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.errors import HosttuneError
    from hosttune.host import open_reader

    try:
        return load_choice(look)
    except HosttuneError as error:
        if one_host(look) or any((look.policy, look.rules, look.profile, look.select, look.ignore)):
            raise
        tell(f"hosttune: recorded with the built-in rules and no policy, because {error.message}")
        return (
            open_reader(root=look.root, host=None, hardware=look.hardware),
            builtin_catalog(),
            Policy(),
        )
