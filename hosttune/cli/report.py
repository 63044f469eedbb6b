"""`hosttune report FILE...`: many hosts on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Choose, Option, ShowReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.fleet.values import Fleet, PlanClass
    from hosttune.values import Change

EXAMPLES = (
    "hosttune report results/",
    "hosttune report results/ --format html --output fleet.html",
)


def report(
    choose: Choose,
    show: ShowReport,
    files: Annotated[
        list[str],
        Argument(
            metavar="FILE...",
            help="Results of check --format json, records, folders of them; @LIST or - for names, "
            "one a line.",
        ),
    ],
    names: Annotated[
        int,
        Option(
            "--names",
            metavar="N",
            min=1,
            max=10_000,
            help="Hosts named in each list; all are counted.",
        ),
    ] = 20,
    plans: Annotated[
        int, Option("--plans", metavar="N", min=0, max=1000, help="Different plans shown.")
    ] = 10,
    jobs: Annotated[
        int,
        Option("--jobs", metavar="N", min=0, help="Processes side by side; 0: one for each CPU."),
    ] = 0,
) -> int:
    """Combine the results of many hosts into one report. Changes nothing.

    With --policy, --rules, --profile, --select or --ignore the records are judged by these instead
    of by what is on the hosts: what would it change?

    Exit status: 0 every host is ok, 1 one is not, gave no answer or could not be read, 2 trouble.
    """
    from hosttune.actions.fleet import Ask, list_changes, survey_hosts
    from hosttune.cli.reports import deliver
    from hosttune.errors import HosttuneError
    from hosttune.host.progress import show_progress
    from hosttune.host.workers import usable_cpus

    ask = Ask(
        choose.rules,
        choose.policy,
        choose.profile,
        tuple(choose.select or ()),
        tuple(choose.ignore or ()),
        show.debug,
    )
    jobs = jobs or usable_cpus()
    with show_progress("reading results"):
        fleet = survey_hosts(files, ask, names=names, jobs=jobs, progress=_note_files)
        changes = list_changes([one for one in fleet.classes if one.digest][:plans], ask, jobs)
    deliver(_render_report(fleet, changes, show), show.output)
    if not fleet.hosts and not fleet.missing_count:
        raise HosttuneError(
            "no usable results of a host in these files",
            hint="gather them: hosttune check --format json",
        )
    is_fine = all(one.value == "ok" for one in fleet.states) and not (
        fleet.missing_count or fleet.unread_count
    )
    return int(not is_fine)


def _render_report(
    fleet: Fleet, plans: Mapping[PlanClass, tuple[Change, ...]], show: ShowReport
) -> str:
    """The report in its format."""
    if show.is_json:
        from hosttune.codec import dump_json
        from hosttune.views.fleet.schema import fleet_json

        return dump_json(fleet_json(fleet, plans))
    from hosttune.cli.common import medium_of, open_screen
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.views.checked import about_rules
    from hosttune.views.fleet.report import fleet_report
    from hosttune.views.page import Page

    page = Page(screen=open_screen(show), is_verbose=show.verbose, medium=medium_of(show))
    return fleet_report(
        fleet, plans, page, about_rules(builtin_catalog().rules.values()) if page.folds else {}
    )


def _note_files(done: int, total: int) -> None:
    from hosttune.host.progress import note_step

    note_step(f"{done:,} of {total:,} files")
