"""What every report shares: whose it is, where it goes, and how to call the next command."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.regex import regex
from hosttune.values import steps_of
from hosttune.views.document import Medium
from hosttune.views.terminal import Screen

if TYPE_CHECKING:
    import re

OWN_COMMAND = regex(  # one that names a host already is left alone
    r"(?<![\w/.-])(?P<sudo>sudo )?hosttune "
    r"(?P<verb>apply|bench|check|confirm|dataset|diff|disks|driver|explain|facts|fstab|health"
    r"|history|init|plan|policy|"
    r"profiles|ready|reboot-required|record|report|rules|status|trial|undo|watch)\b"
    r"(?! --(?:root|host)\b)(?=(?P<learn> --learn)?)"
)
_BY_ROOT = frozenset(
    {"check", "plan", "apply", "confirm", "trial", "undo", "history", "explain", "rules"}
)
# with the options that name host and policy
LOOKS = frozenset({"check", "plan", "history", "explain"})
ACTS = frozenset({"apply", "undo"})  # so too, but not of a record
AIMED = frozenset({"disks", "driver", "facts", "fstab", "health"})  # with those that name the host
_OF_NO_HOST = frozenset({"diff", "policy", "profiles", "report", "rules"})


@frozen
class Page:
    """The surroundings of a report.

    `program` is how a shell finds hosttune (`/opt/hosttune/bin/hosttune`), `sudo` what a change
    needs in front of it (`sudo `, or nothing in a shell of root), `options` what the next command
    has to repeat to mean the same host and policy (` --policy p.yaml`), `only` what it repeats to
    mean the same rules alone, which undo and confirm do not take; `there` is what a command on the
    host of a record repeats, `aim` what names the host without a policy. `can_apply` is False where
    there is nothing to change: a record. `is_partial`: without root's rights, so root may see more,
    and plan something else.
    """

    host: str = "this host"
    screen: Screen = field(default_factory=Screen)
    program: str = "hosttune"
    sudo: str = ""
    options: str = ""
    only: str = ""
    there: str = ""
    aim: str = ""
    can_apply: bool = True
    is_partial: bool = False
    is_verbose: bool = False
    policy: str = "/etc/hosttune/policy.yaml"  # as someone on this machine names it
    medium: Medium = Medium.TEXT
    # which version of hosttune made the record that is replayed; empty: no record is
    record: str = ""
    source: str = ""  # which other program made the file that is read as one

    @property
    def is_terse(self) -> bool:
        """Whether it is one screen of a terminal: what fits in a line is shown, and --verbose shows
        the rest.
        """
        return self.medium is Medium.TEXT and not self.is_verbose

    @property
    def folds(self) -> bool:
        """Whether what is not for everybody can be folded away, so that nothing has to be left
        out.
        """
        return self.medium is Medium.HTML

    @property
    def is_whole(self) -> bool:
        """Whether all is shown."""
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

    def look_as_root(self, words: str) -> str:
        """A command that looks at all that root sees."""
        return f"{self.sudo}{self.look(words)}"

    def act(self, words: str) -> str:
        """A command that changes, with sudo where it is needed."""
        only = "" if words.startswith(("undo ", "confirm")) else self.only
        return f"{self.sudo}{self.program} {words}{self.options}{only}"

    def act_there(self, words: str) -> str:
        """A command that changes, as it is typed on the host of a record."""
        return f"sudo hosttune {words}{self.there}{self.only}"

    def steps(self, todo: str) -> tuple[str, ...]:
        """The steps of a way out, each as `todo` has it."""
        return tuple(self.todo(step) for step in steps_of(todo))

    def todo(self, text: str) -> str:
        """Advice from a rule or a resource, with the commands in it as they have to be typed here,
        for this host; of a record, those that act on its host as they are typed there.
        """
        options, aim = (words if words not in text else "" for words in (self.options, self.aim))

        def insert_typed(found: re.Match[str]) -> str:
            verb = found["verb"]
            if not self.can_apply and (verb not in LOOKS | AIMED | _OF_NO_HOST or found["learn"]):
                sudo = "sudo " if found["sudo"] or verb in _BY_ROOT else ""
                return f"{sudo}hosttune {verb}{self.there if verb in ACTS else ''}"
            sudo = self.sudo if found["sudo"] or verb in _BY_ROOT else ""
            takes_options = verb in LOOKS or (verb in ACTS and self.can_apply)
            takes_aim = verb in AIMED and not found["learn"]
            own = options if takes_options else aim if takes_aim else ""
            return f"{sudo}{self.program} {verb}{own}"

        return OWN_COMMAND.sub(insert_typed, clean(text))
