"""What every report shares: whose it is, where it goes, and how to call the next command."""

from __future__ import annotations

from dataclasses import field

from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.views.document import Medium
from hosttune.views.masking import mask
from hosttune.views.terminal import Screen, safe

_OWN_COMMAND = regex(r"(?<![\w/.-])(?:sudo )?hosttune (?=(?:check|plan|apply|undo|history|explain|rules)\b)")


@frozen
class Page:
    """The surroundings of a report.

    `program` is how a shell finds hosttune (`/opt/hosttune/bin/hosttune`), `sudo` what a change needs in front of it
    (`sudo ` or nothing), `options` what the next command has to repeat to mean the same host and policy
    (` --policy p.yaml`), `only` what it repeats to mean the same rules alone, as undo does not. `can_apply` is False
    where there is nothing to change: a record.
    """

    host: str = "this host"
    screen: Screen = field(default_factory=Screen)
    program: str = "hosttune"
    sudo: str = ""
    options: str = ""
    only: str = ""
    can_apply: bool = True
    is_verbose: bool = False
    policy: str = "/etc/hosttune/policy.yaml"  # as somebody on this machine names it
    medium: Medium = Medium.TEXT

    @property
    def is_terse(self) -> bool:
        """Whether it is one screen of a terminal: what can be said in a line is, and --verbose tells the rest."""
        return self.medium is Medium.TEXT and not self.is_verbose

    @property
    def folds(self) -> bool:
        """Whether what is not for everybody can be folded away, so that nothing has to be left out."""
        return self.medium is Medium.HTML

    @property
    def is_whole(self) -> bool:
        """Whether all is told."""
        return self.is_verbose or self.folds

    @property
    def evidence(self) -> int | None:
        """The most lines of a finding's evidence."""
        return None if self.is_whole else 2

    @property
    def names(self) -> int:
        """The most names in a list before the rest is counted or folded away; 0: all."""
        return 8 if self.medium is not Medium.TEXT else 0 if self.is_verbose else 6

    def look(self, words: str) -> str:
        """A command that only looks."""
        return f"{self.program} {words}{self.options}{self.only}"

    def act(self, words: str) -> str:
        """A command that changes, with sudo where it is needed."""
        only = "" if words.startswith("undo ") else self.only
        return f"{self.sudo}{self.program} {words}{self.options}{only}"

    def todo(self, text: str) -> str:
        """Advice from a rule or a resource, with the commands in it as they have to be typed here."""
        return _OWN_COMMAND.sub(lambda _: f"{self.sudo}{self.program} ", shown(text))


def shown(text: str) -> str:
    """Text from outside as it may be shown: escaped and masked."""
    return safe(mask(text))
