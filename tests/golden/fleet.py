"""A made-up fleet of forty hosts, for the exact texts beside this file."""

from hosttune.engine.fleet.fold import FleetAggregator
from hosttune.engine.fleet.seen import HostLook, Unread
from tests.golden import scenarios as made

H100 = (
    ("GPU", "hopper 0x2330"),
    ("CPU", "2 x Intel(R) Xeon(R) Platinum 8480C"),
    ("board", "DGXH100"),
)
RTX = (
    ("GPU", "ada 0x2684"),
    ("CPU", "1 x AMD Ryzen 9 7950X 16-Core Processor"),
    ("board", "ProArt X670E"),
)
SETTINGS = (
    ("GPUs", "8"),
    ("driver", "580.126.20 (open)"),
    ("kernel", "6.8.0-85-generic"),
    ("mount /data", "ext4 noatime,rw"),
)


def _host(number: int) -> HostLook:
    swappiness = ("differs", "now 60") if number % 4 else ("ok", "now 10")
    settings = dict(SETTINGS)
    if number == 7:
        settings["GPUs"] = "7"
    if number in {3, 11, 12}:
        settings["kernel"] = "6.8.0-60-generic"
    if number == 20:
        del settings["mount /data"]
    return HostLook(
        host=f"gpu-{number:03}",
        machine=f"{number:016x}",
        at=f"2026-11-21T03:{number:02}:00+00:00",
        source=f"results/gpu-{number:03}.json",
        tool_version="0.1.0" if number else "0.0.9",
        profile="train-single",
        policy_digest="p1",
        digest=made.DIGEST if number % 4 else "",
        shown=("0" * 64 if number == 38 else made.DIGEST) if number % 4 else "",
        changes=2 if number % 4 else 0,
        state="differs" if number % 4 else "ok",
        says=(
            ("memory-swappiness", *swappiness),
            ("storage-noatime", "waived" if number == 5 else "ok", "now relatime" if number == 5 else "now noatime"),
            ("gpu-driver", "waits" if number in {8, 9} else "ok", "580.126.20 is installed"),
            ("limits-shm", "unknown" if number == 13 else "ok", "nothing is mounted at /dev/shm" if number == 13 else "as it should be"),
            ("services-oomd", "not applicable", "systemd-oomd does not run"),
        ),
        reboot=("gpu-driver",) if number in {8, 9} else (),
        expired=("storage-fstrim: the waiver of storage expired on 2026-10-01: firmware",) if number == 30 else (),
        orphaned=("memory-old-rule",) if number == 31 else (),
        problems=("run 20261120T220143Z-9c1e (apply, 2026-11-20) was interrupted",) if number == 32 else (),
        hardware=RTX if number == 39 else H100,
        settings=tuple(settings.items()),
        gpu="NVIDIA GeForce RTX 4090" if number == 39 else "NVIDIA H100 80GB HBM3",
    )  # fmt: skip


def fleet(names: int = 20):
    """The report on them: thirty-nine siblings, one of another kind, one that gave no answer, two
    broken files.
    """
    fold = FleetAggregator(names)
    for number in range(40):
        fold.add(_host(number))
    fold.add(
        HostLook(
            "gpu-040",
            "",
            "2026-11-21T03:40:00+00:00",
            "results/gpu-040.json",
            missing="ssh: No route to host",
        )
    )
    fold.miss(Unread("results/gpu-041.json:17", "is not JSON: ends in the middle"))
    fold.miss(
        Unread(
            "results/gpu-042.json",
            "is empty: the host was not reached, or the command there failed",
        )
    )
    fold.supersede("gpu-003")
    fold.share("0000000000000001", ["gpu-001", "gpu-1.example.org"])
    return fold.result()


PLANS = {one: made.SWAPPINESS for one in fleet().classes if one.digest}
