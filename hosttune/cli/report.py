"""`hosttune report FILE...`: many hosts on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Choose, Option, PlanFormat, ShowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.engine.fleet_values import Fleet
    from hosttune.values import Change

_STEP = 100  # files from one line of progress to the next


def report(
    choose: Choose,
    show: ShowPlan,
    files: Annotated[
        list[str],
        Argument(
            metavar="FILE...",
            help="Results of check --format json, records, folders of them; @LIST or - for names, one a line.",
        ),
    ],
    names: Annotated[int, Option("--names", min=1, max=10_000, help="Hosts named in each list; all are counted.")] = 20,
    plans: Annotated[int, Option("--plans", min=0, max=1000, help="Different plans shown.")] = 10,
    jobs: Annotated[int, Option("--jobs", min=0, help="Processes side by side; 0: one for each CPU.")] = 0,
) -> int:
    """Fold what many hosts left behind into one report. Changes nothing.

    With --policy, --rules, --profile, --select or --ignore the records are judged by these instead of by what is on
    the hosts: what would it change?

    Exit status: 0 every host is as it should be, 1 one is not, gave no answer or could not be read, 2 trouble.
    """
    from hosttune.actions.fleet import Ask, changes_of, survey
    from hosttune.cli.reports import deliver
    from hosttune.errors import HosttuneError
    from hosttune.host.workers import usable_cpus

    ask = Ask(
        choose.rules, choose.policy, choose.profile, tuple(choose.select or ()), tuple(choose.ignore or ()), show.debug
    )
    fleet = survey(files, ask, names=names, jobs=jobs or usable_cpus(), progress=_progress())
    shown = [one for one in fleet.classes if one.digest][:plans]
    changes = {one.digest: changes_of(one.source, one.host, ask) for one in shown}
    deliver(_rendered(fleet, changes, show), show.output)
    if not fleet.hosts and not fleet.missing_count:
        raise HosttuneError(
            "none of the files says anything of a host", hint="gather them: hosttune check --format json"
        )
    is_fine = all(one.value == "ok" for one in fleet.states) and not (fleet.missing_count or fleet.unread_count)
    return int(not is_fine)


def _rendered(fleet: Fleet, plans: Mapping[str, tuple[Change, ...]], show: ShowPlan) -> str:
    """The report in its format, which is imported when it is asked for."""
    if show.format is PlanFormat.JSON:
        from hosttune.codec import dumps
        from hosttune.views.fleet_json import fleet_json

        return dumps(fleet_json(fleet, plans))
    if show.format is PlanFormat.MARKDOWN:
        from hosttune.views.fleet_markdown import fleet_markdown

        return fleet_markdown(fleet, plans)
    if show.format is PlanFormat.HTML:
        from hosttune.engine.catalog import builtin_catalog
        from hosttune.views.checked import about_rules
        from hosttune.views.fleet_html import fleet_html

        return fleet_html(fleet, plans, about_rules(builtin_catalog().rules.values()))
    from hosttune.cli.common import open_screen
    from hosttune.views.fleet_text import fleet_text
    from hosttune.views.page import Page
    from hosttune.views.terminal import Screen

    screen = open_screen(show) if show.output is None else Screen(width=0)
    return fleet_text(fleet, plans, Page(screen=screen, is_verbose=show.verbose))


def _progress() -> Callable[[int, int], None]:
    """Tells how far it is, on a terminal only."""
    import sys

    from hosttune.cli.common import progress

    is_told = sys.stderr.isatty()
    step = 0

    def tell(done: int, total: int) -> None:
        nonlocal step
        if is_told and done // _STEP > step:
            step = done // _STEP
            progress(f"{done:,} of {total:,} files")

    return tell
