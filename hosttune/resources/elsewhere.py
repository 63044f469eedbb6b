"""Who else sets a kernel value at boot, beside files of sysctl.d, tmpfiles.d and udev: TuneD, and
commands of units.

TuneD writes its values when it starts, and then by default once more those of /etc/sysctl.d and
/run/sysctl.d (tuned-main.conf(5), reapply_sysctl); its values may be `>4096` (at least),
`performance|powersave` (the first that there is) and `${variable}` (tuned.conf(5)). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.resources.bounds import satisfies_wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.resources.base import Wish


@frozen
class Elsewhere:
    """What is set at boot, by whom, and whether that satisfies the wish."""

    value: str
    place: str
    is_enough: bool

    @property
    def way_out(self) -> str:
        """Where a person changes it: of a unit that a package brings, or of its script, not in that
        file.
        """
        unit, _, file = self.place.partition(" (")
        if file.startswith(("/usr/lib/", "/lib/", "/usr/sbin/", "/usr/bin/")) and unit.endswith(
            ".service"
        ):
            return (
                f"sudo systemctl edit {quote(unit)}, or sudo systemctl disable {quote(unit)} if it "
                "does nothing else"
            )
        return f"change {self.place}"

    @property
    def words(self) -> str:
        return f"next boot {self.value} ({self.place})"


def by_tuned(words: str | None, wish: Wish, live: str, facts: Facts) -> Elsewhere | None:
    """What TuneD sets, by the `words` of its profile; None where it sets nothing or does not start
    with the machine.
    """
    if words is None or not facts.managers.tuned_at_boot:
        return None
    place = f"TuneD profile {facts.managers.tuned_profile}"
    if "$" in words:  # TuneD works it out: what it holds now it will hold
        return Elsewhere(live or words, place, bool(live) and satisfies_wish(live, wish))
    choices = [one.strip().lstrip(">").removesuffix("%") for one in words.split("|")]
    # TuneD takes the first word that the kernel offers, which only the running kernel tells: of
    # several the one that is in force is it.
    value = live if len(choices) > 1 and live in choices else choices[0]
    return Elsewhere(value, place, satisfies_wish(value, wish))


def by_commands(is_meant: Callable[[str], bool], wish: Wish, facts: Facts) -> Elsewhere | None:
    """What the commands of enabled units set, the last of several; `is_meant` says whether a path
    is the one.
    """
    found = [one for one in facts.commands.all if is_meant(one.path)]
    return (
        Elsewhere(found[-1].value, found[-1].place, satisfies_wish(found[-1].value, wish))
        if found
        else None
    )
