"""What a host has lost since it was looked at: each loss, and that what was so before is none."""

from __future__ import annotations

import pytest

from hosttune.facts.losses import (
    Aspect,
    HostStanding,
    Loss,
    Sign,
    Unseen,
    find_losses,
    select_counted,
    select_lasting,
)

BEFORE = HostStanding((
    Sign(Aspect.FAILED_UNIT, "old.service"),
    Sign(Aspect.SERVICE, "nvidia-persistenced.service"),
    Sign(Aspect.MOUNT, "/data", "rw"),
    Sign(Aspect.MOUNT, "/cdrom", "ro"),
    Sign(Aspect.ROUTE, "IPv4"),
    Sign(Aspect.ADDRESS, "eth0 IPv4"),
    Sign(Aspect.LINK, "eth0"),
    Sign(Aspect.RDMA_PORT, "mlx5_0/1"),
    Sign(Aspect.SSHD, "port 22"),
    Sign(Aspect.BANNER, "port 22"),
    Sign(Aspect.RESOLVER, ""),
    Sign(Aspect.GPU, "GPU-1", "0000:1b:00.0"),
    Sign(Aspect.DRIVER, "0000:1b:00.0", "nvidia"),
    Sign(Aspect.FABRIC, "0000:1b:00.0"),
    Sign(Aspect.CLOCK, ""),
    Sign(Aspect.HEALTH, "gpu-links 0000:1b:00.0", "8 lanes of 16", 2),
))  # fmt: skip


def without(aspect, name, *more):
    return HostStanding(
        (*(one for one in BEFORE.signs if (one.aspect, one.name) != (aspect, name)), *more)
    )


def said(before, after, **named):
    return [one.sentence for one in find_losses(before, after, **named)]


def test_as_before_is_no_loss():
    assert find_losses(BEFORE, BEFORE) == ()


@pytest.mark.parametrize(
    ("aspect", "name", "sentence"),
    [
        (
            Aspect.SERVICE,
            "nvidia-persistenced.service",
            "nvidia-persistenced.service does not run any more",
        ),
        (Aspect.MOUNT, "/data", "/data is not mounted any more"),
        (Aspect.ROUTE, "IPv4", "there is no default route for IPv4 any more"),
        (Aspect.ADDRESS, "eth0 IPv4", "the eth0 IPv4 address is gone"),
        (Aspect.LINK, "eth0", "eth0 has no link any more"),
        (Aspect.RDMA_PORT, "mlx5_0/1", "RDMA port mlx5_0/1 is not active any more"),
        (Aspect.SSHD, "port 22", "sshd does not listen on port 22 any more"),
        (Aspect.BANNER, "port 22", "sshd on port 22 does not answer as SSH-2.0 any more"),
        (Aspect.RESOLVER, "", "no name server is set any more"),
        (Aspect.GPU, "GPU-1", "GPU 0000:1b:00.0 (GPU-1) does not answer any more"),
        (Aspect.DRIVER, "0000:1b:00.0", "GPU 0000:1b:00.0 is gone from the PCI bus"),
        (Aspect.FABRIC, "0000:1b:00.0", "GPU 0000:1b:00.0 has not joined its NVLink fabric"),
        (Aspect.CLOCK, "", "the clock is not synchronised any more"),
    ],
)
def test_each_thing_that_is_gone_is_one_sentence(aspect, name, sentence):
    gone = without(aspect, name)
    if aspect is Aspect.DRIVER:  # a GPU that is gone from the bus does not answer either
        gone = HostStanding(tuple(one for one in gone.signs if one.aspect is not Aspect.GPU))
        assert sentence in said(BEFORE, gone)
    else:
        assert said(BEFORE, gone) == [sentence]
    assert find_losses(gone, gone) == ()  # it was so before


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Sign(Aspect.FAILED_UNIT, "ssh.service"), "ssh.service has failed"),
        (Sign(Aspect.HEALTH, "gpu-xids", "Xid 79", 3), "hosttune health: Xid 79"),
        (Sign(Aspect.PLANNED, "mount:/data", "/data is relatime"), "/data is relatime"),
    ],
)
def test_a_new_fault_is_a_loss_and_an_old_one_is_none(fault, sentence):
    after = HostStanding((*BEFORE.signs, fault))
    assert said(BEFORE, after) == [sentence]
    assert said(after, after) == []


def test_a_fault_that_grew_worse_is_a_loss_and_one_that_grew_milder_is_none():
    worse = without(
        Aspect.HEALTH,
        "gpu-links 0000:1b:00.0",
        Sign(Aspect.HEALTH, "gpu-links 0000:1b:00.0", "dead", 3),
    )
    assert said(BEFORE, worse) == ["hosttune health: dead"]
    assert said(worse, BEFORE) == []


def test_what_fell_away_of_faults_or_came_in_addition_is_none():
    better = HostStanding((
        *(one for one in BEFORE.signs if one.aspect not in {Aspect.FAILED_UNIT, Aspect.HEALTH}),
        Sign(Aspect.LINK, "eth1"),
        Sign(Aspect.MOUNT, "/scratch", "rw"),
    ))  # fmt: skip
    assert find_losses(BEFORE, better) == ()


def test_a_mount_that_turned_read_only_is_a_loss_and_the_reverse_is_none():
    assert said(BEFORE, without(Aspect.MOUNT, "/data", Sign(Aspect.MOUNT, "/data", "ro"))) == [
        "/data is read-only now"
    ]
    assert said(BEFORE, without(Aspect.MOUNT, "/cdrom", Sign(Aspect.MOUNT, "/cdrom", "rw"))) == []


def test_another_driver_is_a_loss_but_not_the_one_that_the_trial_brings():
    slot = "0000:1b:00.0"
    nouveau = without(Aspect.DRIVER, slot, Sign(Aspect.DRIVER, slot, "nouveau"))
    assert said(BEFORE, nouveau) == [f"GPU {slot} is held by nouveau; it was nvidia before"]
    assert said(nouveau, BEFORE, expected={slot: "nvidia"}) == []
    assert said(nouveau, BEFORE) == [f"GPU {slot} is held by nvidia; it was nouveau before"]


def test_a_gpu_that_answers_from_another_slot_is_not_lost():
    """Arguments of the kernel may number the bus anew."""
    kept = tuple(
        one for one in BEFORE.signs if one.aspect not in {Aspect.GPU, Aspect.DRIVER, Aspect.FABRIC}
    )
    moved = HostStanding(
        (
            *kept,
            Sign(Aspect.GPU, "GPU-1", "0001:01:00.0"),
            Sign(Aspect.DRIVER, "0001:01:00.0", "nvidia"),
        )
    )
    assert said(BEFORE, moved) == ["GPU 0000:1b:00.0 has not joined its NVLink fabric"]
    joined = HostStanding((*moved.signs, Sign(Aspect.FABRIC, "0001:01:00.0")))
    assert find_losses(BEFORE, joined) == ()


def test_what_cannot_be_looked_at_any_more_is_told_and_does_not_count():
    after = without(Aspect.CLOCK, "")
    after = HostStanding(after.signs, (Unseen(Aspect.CLOCK, "chronyc: 506 Cannot talk to daemon"),))
    (found,) = find_losses(BEFORE, after)
    assert not found.is_known
    assert found.sentence == "not known: clock: chronyc: 506 Cannot talk to daemon"
    assert select_counted((found,)) == ()
    assert find_losses(after, after) == ()  # it was not known before, either


def test_gpus_that_cannot_be_asked_in_time_are_lost():
    """What does not answer in the time that the largest hosts need does not work."""
    after = HostStanding(
        without(Aspect.GPU, "GPU-1").signs,
        (Unseen(Aspect.GPU, "nvidia-smi hangs in the kernel", is_stuck=True),),
    )
    (found,) = find_losses(BEFORE, after)
    assert found.is_known
    assert found.is_final
    assert (
        found.sentence
        == "GPU 0000:1b:00.0 (GPU-1) does not answer any more: nvidia-smi hangs in the kernel"
    )


def test_of_one_thing_that_cannot_be_asked_the_others_still_count():
    after = HostStanding(
        tuple(one for one in BEFORE.signs if one.aspect is not Aspect.BANNER),
        (Unseen(Aspect.BANNER, "sshd cannot be asked", "port 2222"),),
    )
    assert said(BEFORE, after) == ["sshd on port 22 does not answer as SSH-2.0 any more"]


def test_faults_that_nobody_could_tell_before_are_not_new():
    before = HostStanding(
        (),
        (
            Unseen(Aspect.FAILED_UNIT, "systemctl failed"),
            Unseen(Aspect.HEALTH, "denied", "gpu-xids"),
        ),
    )
    after = HostStanding(
        (Sign(Aspect.FAILED_UNIT, "a.service"), Sign(Aspect.HEALTH, "gpu-xids", "Xid 79", 3))
    )
    assert find_losses(before, after) == ()
    assert said(after, before) == ["not known: failed unit: systemctl failed"]


def test_what_a_rule_of_health_cannot_say_takes_nothing_back():
    """Any user can have the kernel log more than journald reads, in each boot; all of health is
    another matter.
    """
    missed = Unseen(
        Aspect.HEALTH, "the journal missed lines of the kernel log 0.0 hours ago", "storage-hangs"
    )
    assert find_losses(HostStanding(), HostStanding((), (missed,))) == ()
    assert said(HostStanding(), HostStanding((), (Unseen(Aspect.HEALTH, "it failed"),))) == [
        "not known: health: it failed"
    ]


def test_a_unit_that_flaps_counts_only_where_two_looks_show_it():
    flapping = Loss(Aspect.FAILED_UNIT, "a.service", "a.service has failed")
    cut = Loss(Aspect.ROUTE, "IPv4", "there is no default route for IPv4 any more")
    assert select_lasting([flapping], [flapping]) == (flapping,)
    assert select_lasting([], [flapping, cut]) == (cut,)
    assert select_lasting([flapping, cut], []) == ()
