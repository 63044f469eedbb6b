"""`hosttune driver`: the NVIDIA driver in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.cli.options import DisplayOptions, RuleOptions

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.host.door import Reader

RULE = "gpu-driver"
_OWN = "gpu-"  # the rules of which the table tells by itself


EXAMPLES = ("hosttune driver", "hosttune plan --only gpu-driver")


def driver(look: RuleOptions, show: DisplayOptions) -> int:
    """Show the state of the NVIDIA driver and the next step. It lists what is installed, loaded,
    offered and chosen.

    `sudo hosttune apply --only gpu-driver --yes` installs or updates it.

    Exit status: 0 nothing is to be done, 1 something is, or is not known.
    """
    from hosttune.choices.driver_state import UNITS
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.facts import Facts, RequestedNames
    from hosttune.views.driver import driver_json, driver_table, driver_text, why_driver_status
    from hosttune.views.masking import mask_data

    reader, catalog, policy = load_choice(look)
    facts = Facts(reader, RequestedNames(units=frozenset(UNITS)))
    table = driver_table(facts, policy.params_of(catalog.rules[RULE], catalog))
    page = open_page(reader, look, show)
    is_reboot_advised = any("reboot" in state.way_out for state in table.states)
    # To look at fstab and the next boot costs more than the whole table.
    obstacles = _find_obstacles(reader, catalog, policy) if is_reboot_advised else []
    if show.is_json:
        write_json(mask_data({**driver_json(table, page), "before_reboot": obstacles}))
    else:
        say(driver_text(table, page, obstacles))
    return int(bool(why_driver_status(table)))


def _find_obstacles(reader: Reader, catalog: Catalog, policy: Policy) -> list[str]:
    """What has to be solved before the reboot that the table advises, such as a line of fstab."""
    from hosttune.actions.apply import reboot_obstacles
    from hosttune.actions.examine import examine, reboot_guards

    session = examine(reader, catalog, policy.only(RULE), collect=False)
    found = [one for one in reboot_guards(session, reader) if not one.rule.startswith(_OWN)]
    return list(reboot_obstacles(found))
