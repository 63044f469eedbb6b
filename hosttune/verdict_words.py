"""The words of a verdict for people: one table for text, Markdown, HTML and documents. Its keys are
the words of values.py and engine/decide/health.py, which JSON, metrics and policies keep.
"""

from __future__ import annotations

from hosttune.frozen import frozen


@frozen
class StateWord:
    """The words for a finding, a rule or a host in one state."""

    heading: str  # of a section
    label: str  # of a line on a terminal, at most 7 characters
    phrase: str  # of so many rules or hosts: `3 to change`
    style: str = "dim"
    one: str = ""  # of one finding: `ok -> advice`; empty: as `phrase`

    @property
    def of_one(self) -> str:
        return self.one or self.phrase


STATES = {
    "fault": StateWord("Faults", "FAULT", "with a fault", "red", "fault"),
    "differs": StateWord("To change", "CHANGE", "to change", "yellow"),
    "unknown": StateWord("Could not check", "UNKNOWN", "could not be checked", "yellow"),
    "waits": StateWord("Waiting", "WAITING", "waiting", "yellow"),
    "refused": StateWord("Blocked", "BLOCKED", "blocked", "cyan"),
    "left alone": StateWord("Skipped", "SKIPPED", "skipped", "cyan"),
    "orphaned": StateWord(
        "Still applied, no longer wanted", "APPLIED", "still applied, no longer wanted", "cyan"
    ),
    "deferred": StateWord("Cannot be judged in an image", "IMAGE", "cannot be judged in an image"),
    "advice": StateWord("Advice", "ADVICE", "with advice", "cyan", "advice"),
    "waived": StateWord("Waived by the policy", "WAIVED", "waived"),
    "ok": StateWord("Ok", "OK", "ok", "green"),
    "not applicable": StateWord("Not applicable", "N/A", "not applicable"),
}

# Why a difference is not acted on; a detail completes it, behind a colon where the mark is one.
HOLDS = {
    "waived": "waived",
    "owned by": "managed by",
    "edited by hand": "edited by hand:",
    "refused": "blocked:",
    "busy": "waiting for GPU work:",
    "above max_risk": "above max_risk",
    "would disturb": "would disturb",
    "waiting for": "waiting for",
    "reverted by somebody": "set back by hand",
    "came back": "rolled back",
    "orphaned": "still applied, no longer wanted",
    "deferred": "cannot be judged in an image",
}


def hold_text(kind: str, detail: str) -> str:
    """`managed by TuneD`, `blocked: no device is LABEL=data`, `waiting for GPU work`."""
    return f"{HOLDS.get(kind, '')} {detail}".strip() if detail else HOLDS.get(kind, "").rstrip(":")


# What became of a run on trial, by the words of JSON and metrics: as a label, and behind `run N`. A
# state without a row is called as it is there. `undo` is what a person does, a rollback what
# hosttune does by itself.
TRIALS = {
    "on trial: to be taken back": ("on trial: rollback due", "is on trial: rollback due"),
    "came back": ("rolled back", "was rolled back"),
    "came back in part": ("partly rolled back", "was partly rolled back"),
    "failed to come back": ("rollback failed", "could not be rolled back"),
    "cannot come back": ("no rollback", "cannot be rolled back"),  # of a change in a plan
}


def trial_text(state: str) -> str:
    """`rolled back`, of a run or a change."""
    return TRIALS.get(state, (state, ""))[0]


def run_text(state: str) -> str:
    """What is behind `run N`: `was rolled back`, `is on trial: this boot`."""
    return TRIALS.get(state, ("", f"is {state}"))[1]


KINDS = {"wants": "changes", "advises": "advice only"}  # of rules


@frozen
class FitnessWord:
    """The words for a node: the heading of its points, and the verdict with what it means."""

    heading: str
    verdict: str
    meaning: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.verdict}: {self.meaning}" if self.meaning else self.verdict


FITNESS = {
    "fit": FitnessWord("Fit", "FIT"),
    "unknown": FitnessWord("Could not check", "UNKNOWN", "some checks could not run"),
    "impaired": FitnessWord("Degraded", "DEGRADED", "it works, but slower, or not for long"),
    "unfit": FitnessWord("Not fit", "NOT FIT", "drain this node"),
}

NAGIOS_FIT = "it may take work"  # in the line for Nagios, where a site may look for it
