"""A way out is a list: a step on each line, in the order in which they work. No step hides a second
one.
"""

import re
from pathlib import Path

import pytest

from tests.yaml_files import read_yaml

RULES = Path(__file__).resolve().parents[2] / "hosttune" / "rules"
# A second step in the same line; and a second command that is neither one of a pipe nor the other
# of a choice.
CHAINED = re.compile(
    r"[;,] then:? (?:sudo|on|run|reboot|drain)\b|; (?:then|or|if|where|when|else|sudo|see|look|and)\b|, or sudo\b"
)
# What comes after a command would be copied with it.
_COMMAND = r"(?:sudo|journalctl|systemctl|chronyc|tuned-adm|nvidia-smi|nvme|docker|kubectl) "
EXPLAINED = re.compile(rf"(?:^|: ){_COMMAND}[^(]*; [a-z]")
# A disk is looked at by the program of its kind: the two are one step.
OF_A_KIND = "sudo smartctl -a DISK, or sudo nvme smart-log DISK"


def ways_of(found):
    """The texts below `do` in a rule."""
    if isinstance(found, list):
        return [way for one in found for way in ways_of(one)]
    if not isinstance(found, dict):
        return []
    own = [str(found["do"])] if "do" in found else []
    return own + [way for key, one in found.items() if key != "do" for way in ways_of(one)]


def chained(way):
    """The steps of a way out that are more than one."""
    steps = [step.replace(OF_A_KIND, "") for step in way.split("\n")]
    pieces = {step: re.split(r" else |&&|\|", re.sub(r"\([^()]*\)", "", step)) for step in steps}
    several = [
        step
        for step in steps
        if max(len(re.findall(r"\bsudo ", piece)) for piece in pieces[step]) > 1
    ]
    return [
        step for step in steps if CHAINED.search(step) or EXPLAINED.search(step) or step in several
    ]


@pytest.mark.parametrize("path", sorted(RULES.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_each_line_of_a_way_out_is_one_step(path):
    ways = ways_of(read_yaml(path))
    assert [step for way in ways for step in chained(way)] == []


@pytest.mark.parametrize(
    "way",
    [
        "sudo modprobe gdrdrv; then sudo dkms status",
        "look at the cable; if it comes again, replace it",
        "see why, then sudo systemctl restart x",
        "run sudo a and sudo b",
        "reload it: sudo modprobe gdrdrv; its rule opens it to all",
    ],
)
def test_two_steps_in_a_line_are_found(way):
    assert chained(way) == [way]
