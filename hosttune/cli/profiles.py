"""`hosttune profiles`: the named sets of rules."""

from __future__ import annotations

from hosttune.cli.options import RuleOptions, ShowPlain

EXAMPLES = ("hosttune profiles",)


def profiles(look: RuleOptions, show: ShowPlain) -> int:
    """List the profiles and the rules that each adds."""
    from hosttune.cli.common import load_choice, open_page, say, write_json
    from hosttune.views.rules import profiles_json, profiles_text

    reader, catalog, policy = load_choice(look)
    if show.is_json:
        write_json(profiles_json(catalog, policy.profile))
    else:
        say(profiles_text(catalog, policy.profile, open_page(reader, look, show)))
    return 0
