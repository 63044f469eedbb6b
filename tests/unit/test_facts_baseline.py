"""What was learned of a healthy host, held against what it is now."""

import json
import os
from dataclasses import replace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import known_items
from hosttune.facts.baseline import PATH, learn_baseline, parse, write_learned
from hosttune.facts.kernel.after_boot import PATH as BEFORE_BOOT
from hosttune.facts.kernel.after_boot import kept_before
from hosttune.host.reading.rooted import RootReader
from hosttune.host.record.record import RecordReader
from tests.hosts.built import HOSTS, reader

H100 = HOSTS / "h100-8x-2socket.json"
DAY_S = 86400.0


def changed(files=(), *, later_days=0.0, host=H100):
    """The facts of a host at a later time, with other files; None takes one away."""
    data = json.loads(json.dumps(reader(host).data))
    data["made_at"] += later_days * DAY_S
    for path, content in dict(files).items():
        folder, _, name = path.rpartition("/")
        data["files"].pop(path, None)
        if content is None:
            continue
        data["files"][path] = content
        while folder and name not in data["listings"].setdefault(folder, []):
            data["listings"][folder].append(name)
            folder, _, name = folder.rpartition("/")
    return Facts(RecordReader(data))


def learned(**about):
    return replace(learn_baseline(changed(), "0.1.0"), **about)


def held(kept, files=(), **more):
    """The baseline of a later look, where `kept` is what was learned."""
    return changed({**dict(files), PATH: write_learned(kept)}, **more).baseline


def test_nothing_learned_is_empty():
    baseline = changed().baseline
    assert not baseline.is_learned
    assert (baseline.lost, baseline.counters, baseline.slots) == ((), (), ())


def test_what_is_learned_is_read_back_whole():
    kept = learned()
    assert parse(write_learned(kept)) == kept
    parts = {part.name: part.amount for part in kept.parts}
    assert parts["GPUs"] == 8
    assert parts["GiB of memory"] == 2048
    assert all(part.amount for part in kept.parts)
    assert any(counter.name.startswith("link breaks of mlx5_") for counter in kept.counters)
    assert any(
        counter.name == "errors of the medium of the NVMe drive at 0000:c1:00.0"
        for counter in kept.counters
    )


def test_same_host_has_lost_nothing_and_its_counters_stand():
    baseline = held(learned())
    assert baseline.is_learned
    assert baseline.lost == ()
    assert baseline.counters
    assert not any(one.grown for one in baseline.counters)
    assert len(baseline.slots) == 8


def test_part_that_is_less_is_named_with_what_is_gone():
    kept = learned()
    gpus = next(part for part in kept.parts if part.name == "GPUs")
    more = replace(gpus, amount=9, things=(*gpus.things, "0000:ff:00.0"))
    baseline = held(replace(kept, parts=(*(part for part in kept.parts if part != gpus), more)))
    assert baseline.lost == ("GPUs: 8 instead of 9 (0000:ff:00.0 is gone)",)


def test_part_that_is_more_is_no_loss():
    kept = learned()
    fewer = tuple(replace(part, amount=part.amount / 2, things=()) for part in kept.parts)
    assert held(replace(kept, parts=fewer)).lost == ()


def test_link_that_is_down_now_is_a_loss():
    port = "/sys/class/infiniband/mlx5_0/ports/1/state"
    baseline = held(learned(), {port: "1: DOWN\n"})
    assert any(sentence.startswith("Gb/s of mlx5_0/1: 0 instead of ") for sentence in baseline.lost)


def test_part_that_cannot_be_read_is_unknown_and_hides_no_loss():
    unreadable = {"/proc/meminfo": "nothing\n"}
    with pytest.raises(UnknownFact):
        held(learned(), unreadable).lost  # noqa: B018 - touching it raises
    down = {**unreadable, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}
    assert len(known_items(held(learned(), down).lost)) == 1


def breaks(baseline, port="mlx5_0/1"):
    return next(one for one in baseline.counters if one.name == f"link breaks of {port}")


def with_breaks(number):
    return {"/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": f"{number}\n"}


def test_counter_is_judged_by_what_came_since():
    kept = learn_baseline(changed(with_breaks(4)), "0.1.0")
    one = breaks(held(kept, with_breaks(16), later_days=2))
    assert (one.grown, one.days, one.a_day) == (12, 2, 6)
    assert one.before_a_day == pytest.approx(4 / max(1, kept.uptime_days))
    assert one.sentence.startswith("link breaks of mlx5_0/1: 12 in 2 days")


def test_counter_that_began_anew_counts_from_there():
    kept = learn_baseline(changed(with_breaks(40)), "0.1.0")
    assert (
        breaks(held(kept, with_breaks(3), later_days=2)).grown == 3
    )  # the driver was loaded again
    rebooted = {
        **with_breaks(45),
        "/proc/sys/kernel/random/boot_id": "another\n",
        "/proc/uptime": "3600.0 1.0\n",
    }
    one = breaks(held(kept, rebooted, later_days=9))
    assert (one.grown, one.days) == (45, 1)  # not 5 in 9 days


def test_counters_of_another_machine_say_nothing():
    kept = learn_baseline(changed(with_breaks(4)), "0.1.0")
    baseline = held(replace(kept, machine="0123456789abcdef"), with_breaks(400), later_days=2)
    assert baseline.counters == ()
    assert baseline.is_learned


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "expected an object"),
        ("[]", "expected an object"),
        ('{"format_version": 99, "tool_version": "9.0"}', "99"),
        ('{"format_version": 1}', "missing"),
        (
            (
                '{"format_version": 1, "tool_version": "1", "name": "x", "machine": "m", "boot_id": "b",'
                ' "learned_at": 1e300, "uptime_days": 1.0, "parts": [], "counters": []}'
            ),
            "learned_at: must be seconds since the epoch",
        ),
    ],
)
def test_broken_file_is_unknown_and_says_how_to_mend_it(content, says):
    baseline = changed({PATH: content}).baseline
    with pytest.raises(UnknownFact, match=says) as caught:
        baseline.lost  # noqa: B018 - touching it raises
    assert PATH in caught.value.reason
    assert "sudo hosttune health --learn" in caught.value.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("read", [lambda tree: Facts(tree).baseline.learned_on, kept_before])
@pytest.mark.parametrize("owner", ["file", "folder"])
def test_root_follows_no_state_that_a_user_owns(tmp_path, read, owner, monkeypatch):
    monkeypatch.setattr(RootReader, "persistent_only", False)
    for path in (PATH, BEFORE_BOOT):
        file = tmp_path / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        os.chown(file if owner == "file" else file.parent, 1001, 1001)
    with pytest.raises(UnknownFact, match="root does not follow"):
        read(RootReader(str(tmp_path)))
