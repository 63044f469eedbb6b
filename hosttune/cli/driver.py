"""`hosttune driver`: the NVIDIA driver in one table."""

from __future__ import annotations

from hosttune.cli.options import DisplayOptions, HostOptions

RULE = "gpu-driver"


def driver(look: HostOptions, show: DisplayOptions) -> int:
    """Say what state the driver is in and what to type, then per GPU what is installed, loaded, offered and chosen.

    Exit status: 0 nothing is to be done, 1 something is, or is not known.
    """
    from hosttune.choices.driver_state import UNITS
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.facts import Facts, RequestedNames
    from hosttune.views.driver import driver_json, driver_table, driver_text
    from hosttune.views.masking import masked

    reader, catalog, policy = load_choice(look)
    facts = Facts(reader, RequestedNames(units=frozenset(UNITS)))
    table = driver_table(facts, policy.params_of(catalog.rules[RULE], catalog))
    page = open_page(reader, look, show)
    if show.is_json:
        write_json(masked(driver_json(table, page)))
    else:
        say(driver_text(table, page))
    to_do = table.action in {"install", "update", "switch", "refuse", ""}
    return int(to_do or bool(table.unknown) or any(state.is_fault is not False for state in table.states))
