"""Whether what is written lasts over a boot, and the first line of plans of a host where it does
not.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage.lasting import volatile_root, why_nothing_lasts
from hosttune.views.checked import Checked
from hosttune.views.plan import plan_report
from hosttune.views.receipt import receipt_report
from tests.golden import scenarios as made
from tests.unit.fake_reader import FakeReader

MOUNTS = "/proc/1/mountinfo"


def facts_of(root, source="none", options="rw", **host):
    line = f"22 1 0:5 / / rw,relatime - {root} {source} {options}\n"
    files = dict.fromkeys((MOUNTS, "/proc/self/mountinfo"), line)
    kind = SimpleNamespace(**{"is_image": False, "is_container": False, **host})
    return SimpleNamespace(host=kind, mounts=Facts(FakeReader(files)).mounts)


@pytest.mark.parametrize(
    ("root", "source", "options", "says"),
    [
        (
            "tmpfs",
            "none",
            "rw,size=64g",
            "/ is tmpfs: what is changed here is gone after the next boot. Change the image",
        ),
        ("rootfs", "rootfs", "rw", "/ is rootfs: "),
        ("ext4", "/dev/mapper/live-rw", "rw", "/ is /dev/mapper/live-rw: "),
        ("ext4", "/dev/zram0", "rw", "/ is /dev/zram0: "),
        (
            "overlay",
            "overlay",
            "rw,upperdir=/run/u",
            "the next boot, unless upperdir=/run/u is on a disk. Change",
        ),
        ("overlay", "overlay", "rw", "unless its upper layer is on a disk"),
    ],
)
def test_root_in_memory_is_said(root, source, options, says):
    facts = facts_of(root, source, options)
    assert says in volatile_root(facts)
    assert why_nothing_lasts(facts)


@pytest.mark.parametrize(
    ("root", "source"), [("ext4", "/dev/sda2"), ("nfs4", "head:/images/gpu"), ("zfs", "rpool/ROOT")]
)
def test_root_that_lasts_says_nothing(root, source):
    assert (volatile_root(facts_of(root, source)), why_nothing_lasts(facts_of(root, source))) == (
        "",
        "",
    )


def test_container_has_layers_on_purpose_and_a_root_that_is_not_known_says_nothing():
    assert volatile_root(facts_of("overlay", "overlay", "rw", is_container=True)) == ""
    assert volatile_root(facts_of("tmpfs", is_image=True)) == ""
    unread = Facts(FakeReader(unreadable={MOUNTS: "may not", "/proc/self/mountinfo": "may not"}))
    assert volatile_root(unread) == ""
    assert "it is not known what / is" in why_nothing_lasts(unread)


def test_first_line_of_plan_and_receipt():
    sentence = volatile_root(facts_of("tmpfs"))
    assert (
        plan_report(Checked(made.CLEAN, made.PAGE, volatile=sentence))
        .lstrip()
        .startswith("/ is tmpfs: ")
    )
    assert (
        receipt_report(made.FAILED, made.PAGE, volatile=sentence)
        .lstrip()
        .startswith("/ is tmpfs: ")
    )
