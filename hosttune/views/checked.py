"""One host as it was looked at: the value that every format of `check` and `plan` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from hosttune.engine.policy.policy import NO_DRAINS, Drains
from hosttune.facts.inventory import NO_DRIVER, UNKNOWN, Inventory
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.textfiles import rule_page
from hosttune.values import Plan, Risk
from hosttune.views.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.rules.rule import Rule


@frozen
class About:
    """What a report says of a rule beside its findings."""

    title: str
    risk: Risk
    gain: str
    is_builtin: bool = False  # so hosttune's documents have a page about it
    is_setting: bool = False  # the gain is that of its change, and none of what it advises instead


@frozen
class Checked:
    """The plan of a host, whose it is, and what is around it."""

    plan: Plan
    page: Page
    profile: str = ""
    chosen: str = ""  # which profile it is, who names it, and the one that fits better
    policy_file: str = ""  # empty: there is none
    policy_sections: tuple[str, ...] = ()  # patterns of its sections for hosts that fit this one
    proposal: str = ""  # the profile that fits better, and why
    about: Mapping[str, About] = field(default_factory=dict)
    timings: tuple[tuple[str, float], ...] = ()
    trial: str = ""  # where the run on trial is; empty where none is
    keep_reports: int = 0  # days of which the policy wants a report to be kept
    inventory: Inventory | None = None  # for programs alone: what a fleet is compared by
    drains: Drains = NO_DRAINS
    other_system: str = ""  # its name, where it is neither Ubuntu nor Debian
    volatile: str = ""  # a sentence for a host whose / is in memory
    # what this machine is (facts/inventory.py)
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def machine_text(self) -> str:
        """`DGXH100: 8 x NVIDIA H100 80GB HBM3, driver 580.126.20, kernel 6.8.0-48-generic, Ubuntu
        24.04.1 LTS`.
        """
        words = {name: clean(text) for name, text in self.machine.items()}
        product = words.pop("product", "")
        alone = {"GPUs", "system"}
        parts = (
            "no driver loaded"
            if text == NO_DRIVER
            else text
            if name in alone and text != UNKNOWN
            else f"{name} {text}"
            for name, text in words.items()
        )
        return ": ".join(filter(None, (product, ", ".join(parts))))


def about_rules(rules: Iterable[Rule]) -> dict[str, About]:
    return {
        rule.id: About(rule.title, rule.risk, rule.gain, rule.is_builtin, bool(rule.want))
        for rule in rules
    }


def link_of(rule: str, about: About | None) -> str:
    """The URL of the page about a rule; empty where there is none, or it is a file of this machine:
    pages are sent.
    """
    url = rule_page(rule) if about and about.is_builtin else ""
    return "" if url.startswith("file:") else url


def group_of(rule: str) -> str:
    """The group that a rule belongs to: the first word of its id."""
    return rule.partition("-")[0]
